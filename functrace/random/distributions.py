"""Distributions whose draws are functions of uniform numbers, and choices."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

import functrace.numpy as fnp
from functrace import edge, errors
from functrace.core.tracer import Tracer
from functrace.ops.create import lift, typed
from functrace.ops.kinds import undeclared
from functrace.places import user_line
from functrace.random.keys import NUMBERS, WORD, Key, Shape, as_tuple, below, checked, integers, words


def drawn_shape(what: str, shape: Shape, *parameters: Any) -> tuple[int, ...]:
    """The shape of the draw: unless given that of the parameters, which must broadcast to it."""
    shapes = [np.shape(p) for p in parameters]
    least = np.broadcast_shapes(*shapes)
    if shape is None:
        return least
    wanted = as_tuple(shape)
    try:
        fits = np.broadcast_shapes(least, wanted) == wanted
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"random.{what}: the parameters have the shapes {', '.join(map(str, shapes))}, which do not broadcast to shape={wanted}.\n"
            f"  At {user_line(3)}."
        )
    return wanted


def drawn_dtype(what: str, dtype: Any, *parameters: Any) -> Any:
    """The dtype of the draw: unless given that of the parameters which are floating-point arrays, or float64."""
    if dtype is None:
        found = [p.dtype for p in parameters if hasattr(p, "dtype") and p.dtype.kind == "f"]
        return np.result_type(*found) if found else np.dtype(float)
    with contextlib.suppress(TypeError):
        dtype = np.dtype(dtype)
    if getattr(dtype, "kind", "") != "f":
        raise errors.InputTypeError(f"random.{what}: dtype must be float16, float32 or float64, got {dtype}.\n  At {user_line(3)}.")
    return dtype


def cast(x: Any, dtype: Any) -> Any:
    """`x` in this dtype; a scalar where it has no axes."""
    x = typed(x, dtype)
    return x if x.shape or isinstance(x, Tracer) else x[()]


def _fractions(key: Key, shape: tuple[int, ...], digits: int) -> Any:
    """Uniform float64 numbers from 0 to below 1, of so many binary digits."""
    return np.right_shift(words(key, shape, 0, NUMBERS), WORD(64 - digits)) * 2.0**-digits


def open_uniform(key: Key, shape: tuple[int, ...]) -> Any:
    """Uniform float64 numbers, neither 0 nor 1."""
    return _fractions(key, shape, 52) + 2.0**-53


def _placed(z: Any, loc: Any, scale: Any, dtype: Any) -> Any:
    z = cast(z, dtype)
    z = z if type(scale) is float and scale == 1 else scale * z
    return cast(z if type(loc) is float and loc == 0 else loc + z, dtype)


@edge.boundary
def uniform(key: Key, shape: Shape = None, dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0) -> Any:
    """Uniform numbers, from `minval` to below `maxval` (rounding may give `maxval` itself where it is not 1).

    For `shape` and `dtype` see `normal`.

    >>> from functrace import random
    >>> random.uniform(random.key(0), (2,), minval=-1.0).round(3)
    array([-0.972, -0.484])
    """
    key, shape = checked("uniform", key), drawn_shape("uniform", shape, minval, maxval)
    dtype = drawn_dtype("uniform", dtype, minval, maxval)
    u = cast(_fractions(key, shape, np.finfo(dtype).nmant + 1), dtype)
    return _placed(u, minval, maxval - minval, dtype)


@edge.boundary
def normal(key: Key, shape: Shape = None, dtype: Any = None, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """Normal numbers of mean `loc` and standard deviation `scale`.

    Args:
        key: a key; see `key` and `split`.
        shape: of the result, an int or a tuple; by default the shape that the parameters have together.
        dtype: float32 or float64; by default that of the parameters, float64 for Python's numbers.
        loc, scale: numbers or arrays that broadcast to `shape`.

    Raises:
        InputTypeError: `key` is no key, or `dtype` is not floating-point.
        ValueError: the parameters do not broadcast to `shape`.

    >>> import functrace as ft
    >>> from functrace import random
    >>> random.normal(random.key(0), (2,), "float32")
    array([-0.00821159,  0.16812614], dtype=float32)
    >>> ft.grad(lambda m: random.normal(random.key(0), loc=m) ** 2)(1.0).round(3)
    np.float64(1.984)
    """
    key, shape = checked("normal", key), drawn_shape("normal", shape, loc, scale)
    return _placed(_normals(key, shape), loc, scale, drawn_dtype("normal", dtype, loc, scale))


def _normals(key: Key, shape: tuple[int, ...]) -> Any:
    """Box & Muller 1958, two numbers of two."""
    count = math.prod(shape)
    pairs = _fractions(key, (-(-count // 2), 2), 53)
    radius, angle = np.sqrt(-2 * np.log1p(-pairs[:, 0])), (2 * np.pi) * pairs[:, 1]
    both = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return np.reshape(np.reshape(both, -1)[:count], shape)


@edge.boundary
def exponential(key: Key, shape: Shape = None, dtype: Any = None, scale: Any = 1.0) -> Any:
    """Exponential numbers of mean `scale`. For `shape` and `dtype` see `normal`.

    >>> from functrace import random
    >>> random.exponential(random.key(0), (2,)).round(3)
    array([0.014, 0.298])
    """
    key, shape = checked("exponential", key), drawn_shape("exponential", shape, scale)
    return _placed(-np.log1p(-open_uniform(key, shape)), 0.0, scale, drawn_dtype("exponential", dtype, scale))


@edge.boundary
def gumbel(key: Key, shape: Shape = None, dtype: Any = None, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """Numbers of the standard Gumbel distribution, `-log(-log(u))`, times `scale` plus `loc`. For `shape` and `dtype` see `normal`.

    >>> from functrace import random
    >>> random.gumbel(random.key(0), (2,)).round(3)
    array([-1.45 , -0.304])
    """
    key, shape = checked("gumbel", key), drawn_shape("gumbel", shape, loc, scale)
    return _placed(-np.log(-np.log(open_uniform(key, shape))), loc, scale, drawn_dtype("gumbel", dtype, loc, scale))


@edge.boundary
def laplace(key: Key, shape: Shape = None, dtype: Any = None, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """Numbers of the Laplace distribution around `loc`, of mean distance `scale`. For `shape` and `dtype` see `normal`.

    >>> from functrace import random
    >>> random.laplace(random.key(0), (2,)).round(3)
    array([-3.571, -0.663])
    """
    key, shape = checked("laplace", key), drawn_shape("laplace", shape, loc, scale)
    v = 2 * open_uniform(key, shape) - 1
    return _placed(-np.sign(v) * np.log1p(-np.abs(v)), loc, scale, drawn_dtype("laplace", dtype, loc, scale))


@edge.boundary
def rademacher(key: Key, shape: Shape = (), dtype: Any = int) -> Any:
    """-1 or 1, each half of the time. Integers of shape `shape`, unless `dtype` says otherwise.

    >>> from functrace import random
    >>> random.rademacher(random.key(0), (4,))
    array([-1, -1, -1, -1])
    """
    top = np.right_shift(words(checked("rademacher", key), as_tuple(() if shape is None else shape), 0, NUMBERS), WORD(63))
    return top.astype(dtype) * 2 - 1


@edge.boundary
def bernoulli(key: Key, p: Any = 0.5, shape: Shape = None) -> Any:
    """True with probability `p`. There is no derivative in `p`: it is zero, as that of a comparison. For `shape` see `normal`.

    >>> from functrace import random
    >>> random.bernoulli(random.key(0), 0.3, (4,))
    array([ True,  True, False,  True])
    """
    return uniform(checked("bernoulli", key), drawn_shape("bernoulli", shape, p), float) < p


@edge.boundary
def randint(key: Key, shape: Shape, minval: Any, maxval: Any, dtype: Any = int) -> Any:
    """Integers from `minval` to below `maxval`, each exactly as likely as the others (Lemire 2019).

    The result has shape `shape` and the integer type `dtype`.

    >>> from functrace import random
    >>> random.randint(random.key(0), (6,), 1, 7)
    array([1, 2, 3, 1, 6, 2])
    """
    key, shape = checked("randint", key), drawn_shape("randint", shape, minval, maxval)
    dtype, limits = np.dtype(dtype), np.iinfo(dtype)
    if isinstance(minval, int) and isinstance(maxval, int):
        wrong: Any = not limits.min <= minval < maxval <= limits.max + 1
        low, span = np.full(1, minval % 2**64, WORD), np.full(1, (maxval - minval) % 2**64, WORD)  # a span of 2**64 is 0
    else:
        lows, highs = (integers("randint", name, x) for name, x in (("minval", minval), ("maxval", maxval)))
        wrong = ((highs <= lows) | (lows < limits.min) | (highs - 1 > limits.max)).any()
        low = np.reshape(np.broadcast_to(lows.astype(WORD), shape), -1)
        span = np.reshape(np.broadcast_to(highs.astype(WORD), shape), -1) - low
    if wrong:
        raise ValueError(
            f"random.randint: no {dtype} from minval={minval} to below maxval={maxval}.\n  At {user_line()}.\n"
            "  The range must not be empty, and lie in that of the dtype."
        )
    return np.reshape(below(key, span, math.prod(shape)) + low, shape).astype(dtype)


@edge.boundary
def categorical(key: Key, logits: Any, axis: int = -1, shape: Shape = None) -> Any:
    """Indices along `axis`, i with a probability proportional to `exp(logits[i])` (the Gumbel-max trick).

    `shape`, that of the result, is by default the shape of `logits` without the axis, which must broadcast to it.

    >>> import numpy as np
    >>> from functrace import random
    >>> random.categorical(random.key(0), np.array([0.0, 2.0, -np.inf]), shape=(6,))
    array([1, 1, 0, 1, 1, 1])
    """
    if not np.ndim(logits := lift(logits)):
        raise ValueError(f"random.categorical: logits must have an axis of categories, got {errors.describe(logits)}.")
    logits = np.moveaxis(logits, axis, -1)
    shape = drawn_shape("categorical", shape, np.empty(logits.shape[:-1]))
    return np.argmax(logits + gumbel(checked("categorical", key), (*shape, logits.shape[-1])), axis=-1)


@edge.boundary
def permutation(key: Key, x: Any, axis: int = 0) -> Any:
    """The entries of an array along an axis, or of `arange(x)`, in random order.

    >>> from functrace import random
    >>> random.permutation(random.key(0), 5)
    array([0, 3, 1, 2, 4])
    """
    x = lift(x) if np.ndim(x) else np.arange(integers("permutation", "x", x))
    order = np.argsort(words(checked("permutation", key), (x.shape[axis],), 0, NUMBERS), kind="stable")
    return fnp.take(x, order, axis=axis)


@edge.boundary
def choice(key: Key, a: Any, shape: Shape = (), replace: bool = True, p: Any = None, axis: int = 0) -> Any:
    """Entries of an array along an axis, or of `arange(a)`: the result has `shape` in the place of the axis.

    Args:
        key: a key.
        a: an array, or an integer.
        shape: how many.
        replace: whether an entry may come more than once.
        p: their probabilities, up to a common factor; by default equal. There is no derivative in `p`.
        axis: of `a`.

    >>> from functrace import random
    >>> random.choice(random.key(0), 10, (3,), replace=False)
    array([0, 8, 9])
    >>> random.choice(random.key(0), 3, (5,), p=[0.5, 0.0, 0.5])
    array([0, 0, 0, 0, 2])
    """
    key, shape = checked("choice", key), as_tuple(() if shape is None else shape)
    a = lift(a) if np.ndim(a) else np.arange(integers("choice", "a", a))
    n, count = a.shape[axis], math.prod(shape)
    if not n and count:
        raise ValueError(f"random.choice: nothing to choose from: a has length 0 on axis {axis}.\n  At {user_line()}.")
    if p is not None:
        p = lift(p)
        if p.shape != (n,) or not (p >= 0).all() or not p.any():
            raise ValueError(
                f"random.choice: p must be {n} numbers, none of them negative and not all zero, got {errors.describe(p)}.\n"
                f"  At {user_line()}."
            )
    if not replace:
        if count > (n if p is None else int(np.count_nonzero(p))):
            raise ValueError(
                f"random.choice: there are not {count} different entries among {n}{', or among those that p allows' * (p is not None)}.\n"
                f"  At {user_line()}.\n  Draw fewer, or pass replace=True."
            )
        times = exponential(key, (n,))  # until each of n clocks of rate p rings
        if p is not None:
            times = np.where(p > 0, times / np.where(p > 0, p, 1), np.inf)
        chosen = np.argsort(times, kind="stable")[:count]
    elif p is None:
        chosen = randint(key, (count,), 0, max(n, 1))
    else:
        total = np.cumsum(p)
        chosen = np.searchsorted(total, _fractions(key, (count,), 52) * total[-1], side="right")
    return fnp.take(a, np.reshape(chosen, shape), axis=axis)


@edge.boundary
def multivariate_normal(key: Key, mean: Any, cov: Any, shape: Shape = None, dtype: Any = None) -> Any:
    """Normal vectors of `mean` (..., n) and covariance `cov` (..., n, n): `mean + L z`, L the Cholesky factor. Differentiable in both.

    `dtype` is that of the result, by default that of the parameters, or float64.

    `shape` is that of the result without its last axis.

    >>> import numpy as np
    >>> from functrace import random
    >>> random.multivariate_normal(random.key(0), np.zeros(2), np.array([[1.0, 0.9], [0.9, 1.0]]), (3,)).shape
    (3, 2)
    """
    mean, cov = lift(mean), lift(cov)
    if mean.ndim < 1 or cov.shape[-2:] != (mean.shape[-1],) * 2:
        raise ValueError(
            f"random.multivariate_normal: mean (..., n) and cov (..., n, n), got the shapes {mean.shape} and {cov.shape}.\n"
            f"  At {user_line()}."
        )
    dtype = drawn_dtype("multivariate_normal", dtype, mean, cov)
    shape = drawn_shape("multivariate_normal", shape, np.empty(mean.shape[:-1]), np.empty(cov.shape[:-2]))
    z = _normals(checked("multivariate_normal", key), (*shape, mean.shape[-1]))
    return cast(mean + (np.linalg.cholesky(cov) @ z[..., None])[..., 0], dtype)


# Draws that are the inverse of their distribution function, at uniform numbers. Those functions are SciPy's


_TINY = -46.0  # the logarithm of what does not count beside 1


def _special() -> Any:
    from functrace.scipy import special

    return special


@edge.boundary
def gamma(key: Key, a: Any, shape: Shape = None, dtype: Any = None) -> Any:
    """Numbers of the gamma distribution of shape parameter `a` and scale 1, differentiable in `a`. Needs SciPy.

    For `shape` and `dtype` see `normal`.

    >>> import functrace as ft
    >>> from functrace import random
    >>> random.gamma(random.key(0), 2.0, (2,)).round(3)
    array([0.178, 0.982])
    >>> ft.grad(lambda a: random.gamma(random.key(0), a, (10_000,)).mean())(2.0).round(2)
    np.float64(1.0)
    """
    shape, dtype = drawn_shape("gamma", shape, a), drawn_dtype("gamma", dtype, a)
    u = open_uniform(checked("gamma", key), shape)
    special, a = _special(), lift(a).astype(float)
    log_x = (np.log(u) + special.gammaln(a + 1)) / a  # P(a, x) = x^a / Gamma(a + 1) where x is tiny, DLMF 8.7.1
    tiny = (log_x < _TINY) & (a >= 0)
    return cast(_where(tiny, log_x, special.gammaincinv(np.where(tiny, 1.0, a), u)), dtype)


@edge.boundary
def beta(key: Key, a: Any, b: Any, shape: Shape = None, dtype: Any = None) -> Any:
    """Numbers of the beta distribution, differentiable in `a` and `b`. Needs SciPy. For `shape` and `dtype` see `normal`.

    >>> from functrace import random
    >>> random.beta(random.key(0), 2.0, 3.0, (2,)).round(3)
    array([0.05 , 0.248])
    """
    shape, dtype = drawn_shape("beta", shape, a, b), drawn_dtype("beta", dtype, a, b)
    return cast(_betas(checked("beta", key), lift(a).astype(float), lift(b).astype(float), shape), dtype)


def _betas(key: Key, a: Any, b: Any, shape: tuple[int, ...]) -> Any:
    u, special = open_uniform(key, shape), _special()
    log_x = (np.log(u) + np.log(a) + special.betaln(a, b)) / a  # I_x(a, b) = x^a / (a B(a, b)) where x is tiny, DLMF 8.17.7
    tiny = log_x + np.log1p(b) < _TINY
    return _where(tiny, log_x, special.betaincinv(np.where(tiny, 1.0, a), b, u))


def _where(tiny: Any, log_x: Any, x: Any) -> Any:
    return np.where(tiny, np.exp(np.where(tiny, log_x, 0.0)), x)


@edge.boundary
def dirichlet(key: Key, alpha: Any, shape: Shape = None, dtype: Any = None) -> Any:
    """Vectors of the Dirichlet distribution, positive and of sum 1, differentiable in `alpha` (..., n). Needs SciPy.

    `dtype` is that of the result, by default that of the parameters, or float64.

    Each entry takes its part, a beta number, of what those before it left. `shape` is that of the result without its last axis.

    >>> from functrace import random
    >>> x = random.dirichlet(random.key(0), [1.0, 2.0, 3.0], (4,))
    >>> x.shape, x.sum(axis=-1).round(12).tolist()
    ((4, 3), [1.0, 1.0, 1.0, 1.0])
    """
    alpha = lift(alpha)
    if alpha.ndim < 1 or not alpha.shape[-1]:
        raise ValueError(f"random.dirichlet: alpha must be (..., n) with n > 0, got the shape {alpha.shape}.\n  At {user_line()}.")
    shape, dtype = drawn_shape("dirichlet", shape, np.empty(alpha.shape[:-1])), drawn_dtype("dirichlet", dtype, alpha)
    alpha = np.broadcast_to(alpha.astype(float), (*shape, alpha.shape[-1]))
    rest = np.cumsum(alpha[..., ::-1], axis=-1)[..., ::-1]
    parts = _betas(checked("dirichlet", key), alpha[..., :-1], rest[..., 1:], (*shape, alpha.shape[-1] - 1))
    ones = np.ones((*shape, 1))
    return cast(np.concatenate([parts, ones], axis=-1) * np.concatenate([ones, np.cumprod(1 - parts, axis=-1)], axis=-1), dtype)


def _truncated(u: Any, a: Any, b: Any) -> Any:
    """The x between a and b that a normal number there stays below with probability u; from the tail that is nearer."""
    from scipy import special

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        flip = a + b > 0
        a, b, u = np.where(flip, -b, a), np.where(flip, -a, b), np.where(flip, 1 - u, u)
        x = special.ndtri_exp(np.logaddexp(special.log_ndtr(a) + np.log1p(-u), special.log_ndtr(b) + np.log(u)))
        x = np.clip(x, a, b)
    return np.where(flip, -x, x)[()]


_truncate: Any = undeclared(  # F(x) = (Phi(x) - Phi(a)) / (Phi(b) - Phi(a)) = u, differentiated
    "truncated_normal",
    _truncated,
    None,
    lambda t, ans, u, a, _b: t * (1 - u) * np.exp((ans - a) * (ans + a) / 2),
    lambda t, ans, u, _a, b: t * u * np.exp((ans - b) * (ans + b) / 2),
)


@edge.boundary
def truncated_normal(key: Key, lower: Any, upper: Any, shape: Shape = None, dtype: Any = None) -> Any:
    """Standard normal numbers, given that they lie between `lower` and `upper`; differentiable in both. Needs SciPy.

    For `shape` and `dtype` see `normal`.

    >>> import numpy as np
    >>> from functrace import random
    >>> random.truncated_normal(random.key(0), 8.0, np.inf, (3,)).round(3)
    array([8.002, 8.037, 8.078])
    """
    shape, dtype = drawn_shape("truncated_normal", shape, lower, upper), drawn_dtype("truncated_normal", dtype, lower, upper)
    _special()
    lower, upper = lift(lower).astype(float), lift(upper).astype(float)
    if not isinstance(lower, Tracer) and not isinstance(upper, Tracer) and not (lower < upper).all():
        raise ValueError(f"random.truncated_normal: lower must be below upper.\n  At {user_line()}.")
    return cast(_truncate(open_uniform(checked("truncated_normal", key), shape), lower, upper), dtype)
