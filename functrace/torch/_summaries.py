"""The binding table of summaries: medians, quantiles, spreads, running extremes, distances, differences, histograms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.torch import _dtypes
from functrace.torch._along import MANY, put_in_order, taken, unpick
from functrace.torch._bind import bind
from functrace.torch._contact import at_axis, in_floats
from functrace.torch._dtypes import as_int64
from functrace.torch._layout import in_order
from functrace.torch._limits import refuse
from functrace.torch._nodes import SCALARS
from functrace.torch._ops import FUNCTIONS, logaddexp, public
from functrace.torch._reduce import restored, unnorm
from functrace.torch._tensor import Tensor, wrap
from functrace.torch._views import bad_argument, written_to


def _found(x: Any, indices: Any, k: int, keepdim: bool = True) -> tuple[Any, Any]:
    """The elements at `indices`, one for each line along axis k, and the indices."""
    values, indices = taken(x, indices, k), as_int64(indices)
    return (values, indices) if keepdim else (np.squeeze(values, k), np.squeeze(indices, k))


def shared(x: Any, top: Any) -> Any:
    """`top`, with the gradient shared among the elements of x that equal it."""
    if isinstance(x, np.ndarray):
        return top
    equal = (x == top) | (np.isnan(x) & np.isnan(top))
    finite = equal & np.isfinite(x)  # infinity less infinity is no number
    return (top + np.sum(np.where(finite, x, 0) - np.where(finite, top, 0)) / np.sum(equal)).astype(x.dtype)


def _unmedian(g: Any, r: Any, x: Any, dim: Any, keepdim: bool) -> Any:
    if dim is not None:
        return unpick(g, r, x, dim, keepdim)
    equal = (x == r) | (np.isnan(x) & np.isnan(r))
    return np.where(equal, g.astype(np.float64) / np.maximum(np.sum(equal), 1), 0)


def _middle(x: Any, k: int, skip: bool) -> Any:
    order = put_in_order(x, k, False)[1] if x.size >= MANY else np.argsort(x, axis=k, kind="stable")  # NaN last
    count = x.shape[k] - np.sum(np.isnan(x), axis=k, keepdims=True)
    place = np.maximum(count - 1, 0) // 2 if skip else np.where(count == x.shape[k], (x.shape[k] - 1) // 2, count)
    return taken(order, place, k)


def _median(skip: bool) -> Any:
    def median(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is not None:
            return _found(input, _middle(input, dim, skip), dim, keepdim)
        flat = np.ravel(input)
        if not flat.size:
            return np.full((), np.nan, input.dtype)
        return shared(flat, flat[_middle(flat, 0, skip)[0]])

    return median


def _mode(input: Any, dim: int = -1, keepdim: bool = False) -> Any:
    y = np.moveaxis(input, dim, -1)
    counts = np.sum(y[..., :, None] == y[..., None, :], axis=-1)
    often = counts == np.max(counts, axis=-1, keepdims=True)
    least = np.min(np.where(often, y, np.fmax.reduce(y, axis=-1, keepdims=True)), axis=-1, keepdims=True)
    last = y.shape[-1] - 1 - np.argmax(np.flip(often & (y == least), -1), axis=-1)
    return _found(input, np.expand_dims(last, dim), dim, keepdim)


def _kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    return _found(input, np.take(put_in_order(input, dim, False)[1], [k - 1], dim), dim, keepdim)


def _quantile(fun: Any) -> Any:
    def quantile(input: Any, q: Any, dim: Any = None, keepdim: bool = False, interpolation: str = "linear") -> Any:
        if np.any(np.less(q, 0) | np.greater(q, 1)):
            which = f"must be in the range [0, 1] but got {q:g}" if np.ndim(q) == 0 else "values must be in the range [0, 1]"
            raise RuntimeError(f"quantile() q {which}")
        return fun(input, q, axis=dim, keepdims=keepdim, method=interpolation).astype(input.dtype)

    return quantile


@in_floats
def _nanmean(x: Any, dim: Any, keepdim: bool) -> Any:
    counts = np.sum(~np.isnan(x), axis=dim, keepdims=keepdim)  # the mean of nothing is NaN, without NumPy's warning
    with np.errstate(invalid="ignore"):
        return np.nansum(x, axis=dim, keepdims=keepdim) / counts.astype(x.dtype)


@in_floats
def _sum_of_numbers(x: Any, dim: Any, keepdim: bool) -> Any:
    return np.nansum(x, axis=dim, keepdims=keepdim)


def _nansum(input: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    found = _sum_of_numbers(_as(input, dtype), dim, keepdim)
    return _as(found, dtype or (_dtypes.int64 if input.dtype.kind in "iu" else None))


def _unnansum(g: Any, _r: Any, x: Any, dim: Any, keepdim: bool, _dtype: Any) -> Any:
    axes = tuple(range(x.ndim)) if dim is None else dim if isinstance(dim, tuple) else (dim,)
    return np.where(np.isnan(x), np.zeros((), g.dtype), restored(g, x.ndim, axes, keepdim))


def _running(fun: Any) -> Any:
    def function(input: Any, dim: int) -> Any:
        top = fun.accumulate(input, axis=dim)
        places = np.reshape(np.arange(input.shape[dim]), (-1, *(1,) * (input.ndim - dim - 1)))
        indices = np.maximum.accumulate(np.where((input == top) | np.isnan(input), places, 0), axis=dim)
        return _found(input, indices, dim)

    return function


def _renorm(input: Any, p: float, dim: int, maxnorm: float) -> Any:
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    others = tuple(k for k in range(input.ndim) if k != dim)
    size = vector_norm(input, p, others, True)
    return input * np.where(size > maxnorm, maxnorm / (size + 1e-7), 1)


@in_floats
def vector_norm(x: Any, p: Any = 2, axes: Any = None, keepdim: bool = False) -> Any:
    """The p-norm over axes; its derivative at zero is zero."""
    return np.linalg.vector_norm(x, ord=p, axis=axes, keepdims=keepdim)


def _cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: Any = None) -> Any:
    return vector_norm(_apart(x1, x2), p, -1)


def _apart(x1: Any, x2: Any) -> Any:
    if not type(x1) is type(x2) is np.ndarray or x1.shape[-1] * 4 > x2.shape[-2]:
        return x1[..., :, None, :] - x2[..., None, :, :]
    x1, x2 = x1.swapaxes(-1, -2)[..., :, None], x2.swapaxes(-1, -2)[..., None, :]
    return np.subtract(x1, x2, order="C").swapaxes(-3, -2).swapaxes(-2, -1)  # in memory a coordinate after another: the loops are longer


def _uncdist(g: Any, r: Any, x1: Any, x2: Any, p: float, _mode: Any) -> Any:
    d = _apart(x1, x2)
    return unnorm(g, r, d, p, (d.ndim - 1,), False)


def _pdist(input: Any, p: float = 2.0) -> Any:
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    i, j = np.triu_indices(input.shape[0], 1)
    return vector_norm(input[i] - input[j], p, -1)


def _areas(y: Any, x: Any, dx: Any, dim: int) -> Any:
    ends = [y[at_axis(dim, part)] for part in (slice(1, None), slice(None, -1))]
    if x is not None:
        x = np.reshape(x, (*(1,) * (y.ndim - x.ndim), *x.shape)) if x.ndim > 1 else x
        dx = np.diff(x, axis=dim if x.ndim > 1 else 0)
        dx = np.reshape(dx, (-1, *(1,) * (y.ndim - dim - 1))) if x.ndim == 1 else dx
    return (ends[0] + ends[1]) * (1 if dx is None else dx) / 2


def _diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    parts = [x for x in (prepend, input, append) if x is not None] if n else [input]
    d = _dtypes.result_type(*parts).np
    return np.diff(np.concatenate([x.astype(d) for x in parts], axis=dim) if len(parts) > 1 else input, n, axis=dim)


def _gradient(input: Any, spacing: Any = None, dim: Any = None, edge_order: Any = 1) -> Any:
    dim = tuple(range(input.ndim)) if dim is None else (dim,) if isinstance(dim, int) else dim
    steps = spacing if isinstance(spacing, (list, tuple)) else [1 if spacing is None else spacing] * len(dim)
    return tuple(np.gradient(input, h, axis=k, edge_order=edge_order) for h, k in zip(steps, dim))


def _flat(name: str, input: Any) -> None:
    if input.ndim > 2:
        raise RuntimeError(f"{name}(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions")


def _cov(input: Any, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    _flat("cov", input)
    weights = [w if w is None else np.reshape(w, -1) for w in (fweights, aweights)]
    return np.cov(input, ddof=correction, fweights=weights[0], aweights=weights[1])


def _corrcoef(input: Any) -> Any:
    _flat("corrcoef", input)
    return np.corrcoef(input)


def _histc(input: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    if min == max and input.size:
        min, max = float(np.min(input)), float(np.max(input))
    return np.histogram(input, bins, (min - 1, max + 1) if min == max else (min, max))[0].astype(input.dtype)


def _histogram(input: Any, bins: Any = 100, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    counts, edges = np.histogram(np.ravel(input), bins, range, density, None if weight is None else np.ravel(weight))
    return counts.astype(input.dtype), edges.astype(input.dtype)


def _unique_consecutive(input: Any, return_inverse: bool = False, return_counts: bool = False, dim: Any = None) -> Any:
    x = np.ravel(input) if dim is None else np.moveaxis(input, dim, 0)
    new = np.ones(len(x), bool)
    new[1:] = np.any(np.reshape(x[1:] != x[:-1], (len(x) - 1, -1)), axis=1) if len(x) > 1 else True
    inverse = as_int64(np.cumsum(new) - 1)
    found = [x[new] if dim is None else np.moveaxis(x[new], 0, dim)]
    found += [np.reshape(inverse, input.shape) if dim is None else inverse] if return_inverse else []
    found += [as_int64(np.bincount(inverse))] if return_counts else []
    return found[0] if len(found) == 1 else tuple(found)


def _beside(x: Any, other: Any) -> Any:
    """A number as an array, of the dtype that it has beside another one."""
    return np.asarray(x).astype(np.result_type(other, x)) if isinstance(x, SCALARS) else x


def _searchsorted(
    sorted_sequence: Any, input: Any, out_int32: bool = False, right: bool = False, side: Any = None, sorter: Any = None
) -> Any:
    if isinstance(input, (str, bytes)) or input is None:
        raise bad_argument("searchsorted", "self", 2, input)
    side = side or ("right" if right else "left")
    s = sorted_sequence if sorter is None else np.take_along_axis(sorted_sequence, sorter, -1)
    input = _beside(input, s)
    if s.ndim == 1:
        found = np.searchsorted(s, input, side)
    else:
        rows = zip(*(np.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1])) for x in (s, input)))
        found = np.reshape(np.stack([np.searchsorted(a, v, side) for a, v in rows] or [np.zeros(0, int)]), input.shape)
    return found.astype(np.int32 if out_int32 else np.int64)


def _as(x: Any, d: Any) -> Any:
    return x if d is None else x.astype(d.np)


def _binned(x: Any, weights: Any, n: int) -> Any:
    if weights is None:
        return as_int64(np.bincount(x, minlength=n))
    counts = np.bincount(x, weights.real, n)
    return counts.astype(np.float32) if weights.dtype == np.float32 else counts


def _logcumsumexp(input: Any, dim: int) -> Any:
    if input.dtype.kind != "c":
        return np.logaddexp.accumulate(input, axis=dim)
    if not input.size or not input.ndim:
        return input
    rows = np.moveaxis(input, dim, 0)
    found = [rows[0]]
    for row in rows[1:]:
        found.append(logaddexp(found[-1], row))
    return np.moveaxis(np.stack(found), 0, dim)


bind(
    {
        "median": ("Median|MedianBackward1", _median(False), _unmedian),
        "nanmedian": ("Nanmedian|NanmedianBackward1", _median(True), _unmedian),
        "mode": ("Mode", _mode, unpick),
        "kthvalue": ("Kthvalue", _kthvalue, lambda g, r, _x, _k, dim, keepdim: unpick(g, r, _x, dim, keepdim)),
        "cummax": ("Cummax", _running(np.maximum), unpick),
        "cummin": ("Cummin", _running(np.minimum), unpick),
    },
    fields="values indices",
    flat=True,
    lies=in_order,
)
bind(
    {"aminmax": ("Aminmax", lambda input, dim=None, keepdim=False: tuple(f(input, axis=dim, keepdims=keepdim) for f in (np.min, np.max)))},
    fields="min max",
    lies=in_order,
)
bind(
    {
        "quantile": ("SqueezeBackward4", _quantile(np.quantile)),
        "nanquantile": ("SqueezeBackward4", _quantile(np.nanquantile)),
        "nanmean": ("Div", lambda input, dim=None, keepdim=False, dtype=None: _nanmean(_as(input, dtype), dim, keepdim)),
        "logcumsumexp": ("Logcumsumexp", _logcumsumexp),
        "renorm": ("Renorm", _renorm),
        "unique_consecutive": ("UniqueConsecutive", _unique_consecutive),
        "pdist": ("Pdist", _pdist),
    },
    lies=in_order,
)
bind({"nansum": ("Nansum", _nansum, _unnansum)}, flat=True, lies=in_order)
public(lambda input: FUNCTIONS["sort"](input, 0)[0], "msort")
bind({"diff": ("Sub", _diff)}, frees=False, lies=in_order)
bind({"gradient": ("Cat", _gradient)}, floating=True, frees=False, lies=in_order)
bind({"cov": ("Squeeze", _cov), "corrcoef": ("ClampBackward1", _corrcoef)}, floating=True, lies=in_order)
bind(
    {
        "trapezoid trapz": ("MulBackward1", in_floats(lambda y, x=None, dx=None, dim=-1: np.sum(_areas(y, x, dx, dim), axis=dim))),
        "cumulative_trapezoid": ("Cumsum", lambda y, x=None, dx=None, dim=-1: np.cumsum(_areas(y, x, dx, dim), axis=dim)),
    },
    operands=2,
    floating=True,
    lies=in_order,
)
bind(
    {
        "dist": ("Dist", lambda input, other, p=2: vector_norm(np.ravel(input - other), p)),
        "cdist": ("Cdist", _cdist, lambda *of: _uncdist(*of).sum(-2) + 0, lambda *of: 0 - _uncdist(*of).sum(-3)),
    },
    operands=2,
    lies=in_order,
)
bind(
    {
        "histc": ("Histc", _histc),
        "searchsorted": ("Searchsorted", _searchsorted),
        "isin": (
            "Isin",
            lambda elements, test_elements, assume_unique=False, invert=False: np.isin(elements, test_elements, invert=invert),
        ),
        "argwhere": ("Argwhere", lambda input: as_int64(np.argwhere(input))),
        "bucketize": (
            "Bucketize",
            lambda input, boundaries, out_int32=False, right=False: _searchsorted(boundaries, input, out_int32, right),
        ),
    },
    constant="zero",
    operands=1,
)
_bucketize = FUNCTIONS["bucketize"]


def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False, out: Any = None) -> Any:
    """In which of the intervals between `boundaries` each element, or a number, lies."""
    x = input if isinstance(input, Tensor) else wrap(_beside(input, boundaries._a))
    if boundaries._a.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries._a.ndim})")
    result = _bucketize(x, boundaries, out_int32, right)
    return result if out is None else written_to("bucketize", out, result)


FUNCTIONS["bucketize"] = bucketize
_isin = FUNCTIONS["isin"]


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    """Which elements are among others; either may be a number."""
    for k, x in enumerate((elements, test_elements)):
        if not isinstance(x, (Tensor, *SCALARS)) or k and not any(isinstance(y, Tensor) for y in (elements, x)):
            raise bad_argument("isin", ("elements", "test_elements")[k], k + 1, x)
        refuse("isin", x._a.dtype if isinstance(x, Tensor) else np.asarray(x).dtype)
    pair = (elements, test_elements), (test_elements, elements)
    given = [x if isinstance(x, Tensor) else wrap(_beside(x, other._a)) for x, other in pair]
    return _isin(*given, assume_unique, invert)


FUNCTIONS["isin"] = isin
bind({"histogram": ("Histogram", _histogram)}, constant="none", fields="hist bin_edges")
bind({"bincount": ("Bincount", lambda input, weights=None, minlength=0: _binned(input, weights, minlength))}, constant="none")
