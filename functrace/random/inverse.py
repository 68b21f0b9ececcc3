"""Distributions whose draws are the inverse of their distribution function, at uniform numbers. Those functions are SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace import errors
from functrace.core.tracer import Tracer
from functrace.ops.create import lift
from functrace.ops.kinds import undeclared
from functrace.random.distributions import cast, drawn_dtype, drawn_shape, open_uniform
from functrace.random.keys import Key, Shape, checked

_TINY = -46.0  # the logarithm of what does not count beside 1


def _special() -> Any:
    from functrace.scipy import special

    return special


@errors.boundary
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
    tiny = log_x < _TINY
    return cast(_where(tiny, log_x, special.gammaincinv(np.where(tiny, 1.0, a), u)), dtype)


@errors.boundary
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


@errors.boundary
def dirichlet(key: Key, alpha: Any, shape: Shape = None, dtype: Any = None) -> Any:
    """Vectors of the Dirichlet distribution, positive and of sum 1, differentiable in `alpha` (..., n). Needs SciPy.

    `dtype` is that of the result, float64 unless said or given by the parameters.

    Each entry takes its part, a beta number, of what those before it left. `shape` is that of the result without its last axis.

    >>> from functrace import random
    >>> x = random.dirichlet(random.key(0), [1.0, 2.0, 3.0], (4,))
    >>> x.shape, x.sum(axis=-1).round(12).tolist()
    ((4, 3), [1.0, 1.0, 1.0, 1.0])
    """
    alpha = lift(alpha)
    if alpha.ndim < 1 or not alpha.shape[-1]:
        raise ValueError(f"random.dirichlet: alpha must be (..., n) with n > 0, got the shape {alpha.shape}.\n  At {errors.user_line()}.")
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


@errors.boundary
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
        raise ValueError(f"random.truncated_normal: lower must be below upper.\n  At {errors.user_line()}.")
    return cast(_truncate(open_uniform(checked("truncated_normal", key), shape), lower, upper), dtype)
