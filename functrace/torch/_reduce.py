"""Reductions, orderings, matrix products, selections: `torch.` functions that also are methods."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.torch import _dtypes
from functrace.torch._along import picked, put_in_order, taken, unpick
from functrace.torch._apply import call, gradient_row, with_transpose
from functrace.torch._contact import CUMPROD, CUMSUM, MAX, PROD, SUM, Tracer, chosen, conj, in_floats, on_diagonal, products
from functrace.torch._curves import widened
from functrace.torch._dtypes import as_int64, result_class, warn
from functrace.torch._layout import as_given, in_order
from functrace.torch._nodes import Op
from functrace.torch._ops import FUNCTIONS, public
from functrace.torch._shape import along, axes_of, need, some_axes, to
from functrace.torch._shape import axis as axis_of
from functrace.torch._tensor import Tensor, wrap
from functrace.torch._views import written_to

Dim = Any


def restored(g: Any, ndim: int, axes: tuple[int, ...], keepdim: bool) -> Any:
    """A reduced gradient with the reduced axes put back."""
    if keepdim or not ndim:
        return g
    shape = iter(g.shape)
    return g.reshape(tuple(1 if k in axes else next(shape) for k in range(ndim)))


@in_floats
def _mean(x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    return SUM.fun(x, axes, keepdim) / _count(x, axes)


def _count(x: Any, axes: tuple[int, ...]) -> Any:
    return math.prod(x.shape if len(axes) == x.ndim else [x.shape[k] for k in axes]) or math.nan


@in_floats
def _unmean(g: Any, _r: Any, _x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    return SUM.vjps[0](g, _r, _x, axes, keepdim) / _count(_x, axes)


_SUMS = [with_transpose(Op(f"SumBackward{k}", in_floats(SUM.fun), SUM.vjps, "Expand", frees=False, lies=in_order)) for k in (0, 1)]
_MEANS = [with_transpose(Op(f"MeanBackward{k}", _mean, [_unmean], "DivBackward1", frees=False, lies=in_order)) for k in (0, 1)]


def summed(x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    """The sum of a tensor over some axes."""
    return call(_SUMS[1], (x,), (axes, keepdim))


def _extreme(name: str, pick: Any) -> tuple[Op, Op, Op]:
    def evenly(g: Any, r: Any, x: Any, axes: Any, keepdim: bool) -> Any:
        chosen = x == restored(r, x.ndim, axes, keepdim)
        return restored(g, x.ndim, axes, keepdim) * chosen / np.sum(chosen, axis=axes, keepdims=True)

    def whole(g: Any, r: Any, x: Any) -> Any:
        chosen = (x == r) | ((x != x) & (r != r))
        return np.where(chosen, g / np.sum(chosen), np.zeros((), x.dtype))

    def along(x: Any, k: int, keepdim: bool) -> Any:
        if not x.ndim:
            return x, np.zeros((), np.int64)
        indices = as_int64((x.argmax if name == "Max" else x.argmin)(axis=k, keepdims=keepdim))
        return (taken if keepdim else picked)(x, indices, k), indices

    return (
        Op(f"{name}Backward1", pick, [whole], flat=True),
        Op(f"{name}Backward0", along, [unpick], "ValueSelectingReductionBackward", many=True, frees=True, alone=True, flat=True),
        Op("A" + name.lower(), lambda x, axes, keepdim: pick(x, axis=axes, keepdims=keepdim), [evenly], flat=True, lies=in_order),
    )


_MAX1, _MAX0, _AMAX = _extreme("Max", np.max)
_MIN1, _MIN0, _AMIN = _extreme("Min", np.min)


def summable(x: Any, dtype: Any) -> Any:
    """A tensor in the `dtype=` of a sum or product; without one integers become int64."""
    return to(x, dtype) if dtype is not None else to(x, _dtypes.int64) if x._a.dtype.kind in "biu" else x


def held_in(dtype: Any, result: Any) -> Any:
    """A result in its `dtype=`, which NumPy widens if it is a small integer."""
    return result if dtype is None or result.dtype is dtype else to(result, dtype)


def _by_dim(rows: Sequence[Op], name: str, floating: bool) -> Callable[..., Any]:
    def function(input: Any, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None) -> Any:
        x = input if isinstance(input, Tensor) else need(name, input)
        if isinstance(dim, str):
            raise TypeError(
                f"{name}() received an invalid combination of arguments - got (dim=str, ), but expected one of:\n * (*, torch.dtype dtype "
                "= None)\n * (tuple of ints dim, bool keepdim = False, *, torch.dtype dtype = None)\n"
            )
        if floating and (dtype.np if dtype else x._a.dtype).kind in "biu":
            raise RuntimeError(
                f"{name}(): could not infer output dtype. {'Optional' if dtype else 'Input'} dtype must be either a floating point or "
                f"complex dtype. Got: {(dtype or x.dtype).scalar}"
            )
        x = x if dtype is None and x._a.dtype.kind == "f" else summable(x, dtype)
        total = dim is None and not keepdim
        result = call(rows[0 if total else 1], (x,), (axes_of(dim, x._a.ndim), keepdim))
        result = result if dtype is None else held_in(dtype, result)
        return result if out is None else written_to(name, out, result)

    return public(function, name)


sum_, mean = _by_dim(_SUMS, "sum", False), _by_dim(_MEANS, "mean", True)


def _extremes(name: str, whole: Op, along: Op, paired: str) -> None:
    found = result_class(name)

    def function(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None, out: Any = None) -> Any:
        x = need(name, input)
        if isinstance(dim, Tensor) or other is not None:
            result = FUNCTIONS[paired](x, other if other is not None else dim)
        elif dim is None:
            result = call(whole, (x,))
        else:
            result = found(call(along, (x,), (axis_of(dim, x._a.ndim), keepdim)))
        return result if out is None else written_to(name, out, result)

    public(function, name)


_extremes("max", _MAX1, _MAX0, "maximum")
_extremes("min", _MIN1, _MIN0, "minimum")
public(lambda input, dim=(), keepdim=False: call(_AMAX, (input,), (axes_of(dim, input._a.ndim), keepdim)), "amax")
public(lambda input, dim=(), keepdim=False: call(_AMIN, (input,), (axes_of(dim, input._a.ndim), keepdim)), "amin")


def _plain_reduction(name: str) -> None:
    def fun(a: Any, **how: Any) -> Any:
        found = getattr(a, name)(**how)
        if found.dtype != np.bool_:
            return as_int64(found)
        return found.astype(a.dtype) if a.dtype == np.uint8 else found  # of bytes, bytes

    def function(input: Any, dim: Any = None, keepdim: bool = False, *, out: Any = None) -> Any:
        a = input._a
        if dim is not None:
            dim = some_axes(tuple(dim), a.ndim) if isinstance(dim, (tuple, list)) else axis_of(dim, a.ndim)
        if dim is not None and not a.ndim:
            result = wrap(np.reshape(fun(np.reshape(a, 1), axis=dim), ()))
        else:
            result = wrap(in_order(fun(a, axis=dim, keepdims=keepdim)))
        return result if out is None else written_to(name, out, result)

    public(function, name)


for _name in ("argmax", "argmin", "any", "all"):
    _plain_reduction(_name)
public(lambda input, dim=None: wrap(in_order(as_int64(np.count_nonzero(input._a, axis=axes_of(dim, input._a.ndim))))), "count_nonzero")


@in_floats
@widened
def _variance(x: Any, axes: tuple[int, ...], correction: float, keepdim: bool) -> Any:
    d = x - _mean(x, axes, True)
    d = d * d if d.dtype.kind != "c" else (d * np.conjugate(d)).real
    return d.sum(axis=axes, keepdims=keepdim) / _degrees(x, axes, correction)


def _degrees(x: Any, axes: tuple[int, ...], correction: float) -> float:
    return max(math.prod([x.shape[k] for k in axes]) - correction, 0) or math.nan


@in_floats
def _unvariance(g: Any, _r: Any, x: Any, axes: tuple[int, ...], correction: float, keepdim: bool) -> Any:
    d = conj(x - _mean(x, axes, True))
    return restored(g, x.ndim, axes, keepdim) * (2 / _degrees(x, axes, correction)) * d


@in_floats
@widened
def _deviation(x: Any, axes: tuple[int, ...], correction: float, keepdim: bool) -> Any:
    return np.sqrt(_variance(x, axes, correction, keepdim))


@in_floats
def _unstd(g: Any, r: Any, x: Any, axes: tuple[int, ...], correction: float, keepdim: bool) -> Any:
    scale = np.where(r == 0, np.zeros((), g.dtype), g / np.where(r == 0, np.ones((), g.dtype), 2 * r))
    return _unvariance(scale, None, x, axes, correction, keepdim)


_VAR = Op("Var", _variance, [_unvariance], lies=in_order)
_STD = Op("Std", _deviation, [_unstd], lies=in_order)


def _spread(name: str, op: Op) -> None:
    def function(input: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: Any = None) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        c = int(unbiased) if correction is None else correction
        axes = axes_of(dim, input._a.ndim)
        if not _count(input._a, axes) > c:  # NaN of none
            text = "degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input numel divided by output"
            warn(f"{name}(): {text} numel).")
        return call(op, (input,), (axes, c, keepdim))

    public(function, name)


def _with_mean(name: str, fun: Any, rule: Any) -> Op:
    def pull(g: Any, _r: Any, x: Any, axes: tuple[int, ...], c: float, keepdim: bool) -> Any:
        return rule(g[0], fun(x, axes, c, keepdim), x, axes, c, keepdim) + _unmean(g[1], None, x, axes, keepdim)

    mean = in_floats(widened(_mean))
    return Op(name, lambda x, axes, c, keepdim: (fun(x, axes, c, keepdim), mean(x, axes, keepdim)), [pull], many=True, lies=in_order)


_spread("var", _VAR)
_spread("std", _STD)
_spread("var_mean", _with_mean("VarMean", _variance, _unvariance))
_spread("std_mean", _with_mean("StdMean", _deviation, _unstd))


@in_floats
def array_norm(x: Any, p: float, axes: tuple[int, ...], keepdim: bool) -> Any:
    """The p-norm of an array over some axes."""
    size = x if p == 2 and x.dtype.kind != "c" else np.abs(x)
    if p == 2:
        found = np.sqrt(products(size, size, axes))
        return found if keepdim else found.squeeze(axes)
    if p == math.inf:
        return np.max(size, axis=axes, keepdims=keepdim)
    if p == -math.inf:
        return np.min(size, axis=axes, keepdims=keepdim)
    if p == 0:
        return np.sum(x != 0, axis=axes, keepdims=keepdim).astype(size.dtype)
    if p == 1:
        return size.sum(axis=axes, keepdims=keepdim)
    return (size**p).sum(axis=axes, keepdims=keepdim) ** (1 / p)


@in_floats
def unnorm(g: Any, r: Any, x: Any, p: float, axes: tuple[int, ...], keepdim: bool) -> Any:
    """The gradient of `array_norm`."""
    g, r = restored(g, x.ndim, axes, keepdim), restored(r, x.ndim, axes, keepdim)
    if p == 0:
        return np.zeros(x.shape, g.dtype) * x
    if p == 1:
        return g * np.sign(conj(x))
    x = conj(x)
    zero = r == 0
    safe = np.where(zero, np.ones((), r.dtype), r)
    if math.isinf(p):
        chosen = np.abs(x) == r
        return np.sign(x) * (g * chosen / np.sum(chosen, axis=axes, keepdims=True))
    if p == 2:
        ratio = x / safe
    else:
        ratio = np.sign(x) * ((np.abs(x) if p >= 1 else np.where(x == 0, safe, np.abs(x))) / safe) ** (p - 1)
    if not isinstance(zero, Tracer) and not np.any(zero):
        return g * ratio
    return g * np.where(zero, np.zeros((), r.dtype), ratio)


def _unnorm_again(g: Any, r: Any, x: Any, _p: float, axes: tuple[int, ...], keepdim: bool) -> Any:
    g, r = restored(g, x._a.ndim, axes, keepdim), restored(r, x._a.ndim, axes, keepdim)
    zero = r == 0
    if not isinstance(zero._a, Tracer) and not zero._a.any():
        return g * (x / r)
    return g * (x / r.masked_fill(zero, 1)).masked_fill(zero, 0)


_NORM, DISTANCE = ([Op(node, array_norm, [unnorm], lies=in_order) for _ in range(2)] for node in ("LinalgVectorNorm", "NormBackward1"))
_NORM[1].again = DISTANCE[1].again = [_unnorm_again]  # with p = 2: in steps, as PyTorch does it


@public
def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The p-norm of the elements, over all axes or those given; or a matrix norm, "nuc"."""
    if isinstance(p, str) and p != "fro":
        return FUNCTIONS["_matrix_norm"](input, p, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    x = to(input, dtype) if dtype is not None else input
    order = 2.0 if p in ("fro", None) else float(p)
    return call(_NORM[order == 2], (x,), (order, axes_of(dim, x._a.ndim), keepdim))


def vector_norm(x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """`torch.linalg.vector_norm`."""
    return norm(x, ord, dim, keepdim, dtype=dtype)


@in_floats
def _logsumexp(x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    top = top_of(x, axes)
    top = np.where(np.isfinite(top), top, np.zeros((), x.dtype))
    out = np.log(np.exp(x - top).sum(axis=axes, keepdims=True)) + top
    return out if keepdim else np.squeeze(out, axes)


_LOGSUMEXP = Op(
    "Logsumexp",
    _logsumexp,
    [lambda g, r, x, axes, keepdim: restored(g, x.ndim, axes, keepdim) * np.exp(x - restored(r, x.ndim, axes, keepdim))],
    lies=in_order,
    algebra=True,
)


@public
def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Any:
    """The logarithm of the sum of the exponentials along axes."""
    x = to(input, _dtypes.get_default_dtype()) if input._a.dtype.kind in "biu" else input
    return call(_LOGSUMEXP, (x,), (axes_of(dim, x._a.ndim), keepdim))


def top_of(x: Any, axes: Any) -> Any:
    """The largest elements along axes, which are kept; minus infinity of none."""
    if type(x) is np.ndarray and x.size:
        return MAX.fun(x, axes, True) if x.size >= _LONG else np.maximum.reduce(x, axis=axes, keepdims=True)
    return np.max(x, axis=axes, keepdims=True) if x.size else np.max(x, axis=axes, keepdims=True, initial=-np.inf)


def added(x: Any, k: int) -> Any:
    """The sums of an array along an axis, which is kept."""
    return SUM.fun(x, k, True) if x.size >= _LONG else np.add.reduce(x, axis=k, keepdims=True)


_LONG = 1 << 9  # elements from which on it may pay to go along the columns of short rows


@in_floats
def _softmax(x: Any, k: int) -> Any:
    d = x - top_of(x, k)
    if type(d) is np.ndarray:
        np.exp(d, out=d)
        return np.divide(d, added(d, k), out=d)
    e = np.exp(d)
    return e / np.sum(e, axis=k, keepdims=True)


@in_floats
def _log_softmax(x: Any, k: int) -> Any:
    d = x - top_of(x, k)
    if type(d) is np.ndarray:
        d -= np.log(added(np.exp(d), k))
        return d
    return d - np.log(np.sum(np.exp(d), axis=k, keepdims=True))


@in_floats
def _unsoftmax(g: Any, r: Any, _x: Any, k: int) -> Any:
    d = g * r
    total = r * (added(d, k) if type(d) is np.ndarray else d.sum(axis=k, keepdims=True))
    return np.subtract(d, total, out=total) if type(total) is np.ndarray else d - total


@in_floats
def _unlog_softmax(g: Any, r: Any, _x: Any, k: int) -> Any:
    d = np.exp(r)
    if type(g) is type(d) is np.ndarray:
        d *= added(g, k)
        return np.subtract(g, d, out=d)
    return g - d * np.sum(g, axis=k, keepdims=True)


_SOFTMAX = Op("Softmax", _softmax, [_unsoftmax], "SoftmaxBackwardDataBackward0", lies=in_order)
_LOG_SOFTMAX = Op("LogSoftmax", _log_softmax, [_unlog_softmax], "LogSoftmaxBackwardDataBackward0", lies=in_order)


gradient_row(
    _SOFTMAX,
    lambda h, _r, _g, r, k: _unsoftmax(h, r, None, k),
    in_floats(lambda h, _r, g, r, k: h * (g - np.sum(g * r, axis=k, keepdims=True)) - g * np.sum(h * r, axis=k, keepdims=True), 3),
)
gradient_row(
    _LOG_SOFTMAX,
    in_floats(lambda h, _r, _g, r, k: h - np.sum(h * np.exp(r), axis=k, keepdims=True), 3),
    in_floats(lambda h, _r, g, r, k: -h * np.exp(r) * np.sum(g, axis=k, keepdims=True), 3),
)


def _soft(name: str, op: Op) -> Callable[..., Any]:
    def function(input: Any, dim: int, dtype: Any = None) -> Any:
        x = to(input, dtype) if dtype is not None else input
        if x._a.dtype.kind != "f":
            last = "_lastdim" * (dim in (-1, x._a.ndim - 1))
            raise NotImplementedError(f"\"{name}{last}_kernel_impl\" not implemented for '{x.dtype.scalar}'")
        return along(op, x, dim)

    return public(function, name)


softmax, log_softmax = _soft("softmax", _SOFTMAX), _soft("log_softmax", _LOG_SOFTMAX)


def _unprod(g: Any, r: Any, x: Any, k: int | None, keepdim: bool) -> Any:
    if k is None:
        return np.reshape(PROD.vjps[0](np.reshape(g, ()), np.reshape(r, ()), np.reshape(x, -1), 0), x.shape)
    g, r = (np.squeeze(a, k) if keepdim else a for a in (g, r))
    return PROD.vjps[0](g, r, x, k)


_PROD = [Op(f"ProdBackward{k}", lambda x, k, keepdim: np.prod(x, axis=k, keepdims=keepdim), [_unprod], lies=in_order) for k in (0, 1)]
_CUMSUM = with_transpose(Op("Cumsum", in_floats(CUMSUM.fun), [in_floats(rule) for rule in CUMSUM.vjps], "Flip", frees=False, lies=in_order))
_CUMPROD = Op("Cumprod", CUMPROD.fun, CUMPROD.vjps, lies=in_order)
_FLIP = with_transpose(Op("Flip", lambda x, dims: np.flip(x, dims), [lambda g, _r, _x, dims: np.flip(g, dims)], "Flip", frees=False))
_TRI = {
    n: Op(n.capitalize(), f, [lambda g, _r, _x, k, f=f: f(g, k)], n.capitalize(), lies=in_order)
    for n, f in (("tril", np.tril), ("triu", np.triu))
}
_TRACE = Op(
    "Trace",
    lambda x: np.trace(as_int64(x)),
    [lambda g, _r, _x: chosen(np.eye(*_x.shape, dtype=bool), g)],
    "View",
    frees=False,
    flat=True,
)
_DIAGONAL = Op("Diagonal", lambda x, k: np.diagonal(x, k).copy(), [lambda g, _r, _x, k: on_diagonal(g, k, _x.shape)], flat=True)
_DIAGONAL.name = "DiagonalBackward0_copy"
_DIAG = Op("DiagEmbed", lambda x, k: np.diag(x, k), [lambda g, _r, _x, k: np.diagonal(g, k)], "Diagonal")


@public
def prod(input: Any, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The product of the elements."""
    x = summable(input, dtype)
    return held_in(dtype, call(_PROD[0], (x,), (None, keepdim)) if dim is None else along(_PROD[1], x, dim, keepdim))


def _cumulative(name: str, op: Op) -> None:
    def function(input: Any, dim: int, *, dtype: Any = None) -> Any:
        return held_in(dtype, along(op, summable(input, dtype), dim))

    public(function, name)


_cumulative("cumsum", _CUMSUM)
_cumulative("cumprod", _CUMPROD)


public(lambda input, *d, dims=None: call(_FLIP, (input,), (some_axes(_dtypes.to_shape(d or (dims,)), input._a.ndim),)), "flip")
public(lambda input: call(_TRACE, (input,)), "trace")


def _triangle(name: str) -> None:
    def function(input: Any, diagonal: int = 0) -> Any:
        if input._a.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        return call(_TRI[name], (input,), (diagonal,))

    public(function, name)


_triangle("tril")
_triangle("triu")


@public
def diag(input: Any, diagonal: int = 0) -> Any:
    """The diagonal of a matrix, or the matrix that has this vector as diagonal."""
    return call(_DIAG, (input,), (diagonal,)) if input._a.ndim == 1 else call(_DIAGONAL, (input,), (diagonal,))


def _sorted(x: Any, k: int, descending: bool) -> Any:
    return tuple([as_given(a, x) for a in put_in_order(x, k, descending)])


_SORTS = [
    Op(f"SortBackward{n}", _sorted, [lambda g, r, _x, k, _d: unpick(g, r, _x, k)], "Gather", many=True, frees=True, flat=True)
    for n in (0, 1)
]
_sort_result = result_class("sort")


@public
def sort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The elements in order along an axis, and where they were."""
    return _sort_result(along(_SORTS[bool(stable)], input, dim, descending))


@public
def argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """Where the elements in order are."""
    return sort(input.detach(), dim, descending)[1]
