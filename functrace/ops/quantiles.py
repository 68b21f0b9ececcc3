"""Medians and quantiles. The sort is found once; a quantile is a place between two neighbours in it.

NumPy itself says where that place is, for every method: the quantile of 0, 1, ..., n-1 is the index looked for. It also moves
with `q`, so that `q` may be traced.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from functrace import errors
from functrace.core.primitive import LARGE, Primitive
from functrace.core.tracer import Tracer, bare, value
from functrace.ops.arrange import as_line
from functrace.ops.constants import constant_op
from functrace.ops.create import lift, operand, typed
from functrace.ops.functions import ABSENT, all_axes, kept, reshape, transpose, with_ones
from functrace.ops.index import index, selected
from functrace.ops.kinds import general
from functrace.ops.reduce import argsort as _argsort
from functrace.ops.registry import Sample, apart, given, implements
from functrace.ops.select import take_along
from functrace.ops.statistics import RANKED, as_float, count_of

# d(place)/dq of the methods that move with q, as functions of n
_SPEED = {
    "linear": lambda n: n - 1,
    "interpolated_inverted_cdf": lambda n: n,
    "hazen": lambda n: n,
    "weibull": lambda n: n + 1,
    "median_unbiased": lambda n: n + 1 / 3,
    "normal_unbiased": lambda n: n + 1 / 4,
}


_add: Any = np.add.reduce
_FEW = 100  # quantiles, of which the places are kept
_FEW_PLACES = 16  # that are found in a large array without sorting it


@lru_cache(maxsize=256)
def _on_ladder(bits: bytes, kind: Any, m: int, method: str, dtype: Any) -> Any:
    """The places among m elements, of quantiles given by their bytes."""
    return np.quantile(np.arange(max(m, 1), dtype=dtype), np.frombuffer(bits, kind), method=method)  # type: ignore[call-overload]


def _place(q: Any, n: Any, method: str, dtype: Any) -> Any:
    """The place of quantile q (1-d) among n sorted elements, for every n of an array."""
    counts = np.asarray(n)
    q = np.asarray(q)
    dtype = dtype if counts.max(initial=0) <= _exact(dtype) else np.float64
    ladder = _on_ladder if q.size <= _FEW else _on_ladder.__wrapped__
    if not counts.shape:
        return ladder(q.tobytes(), q.dtype, int(n), method, dtype)
    out: Any = None
    for m in np.unique(counts):
        places = ladder(q.tobytes(), q.dtype, int(m), method, dtype)
        out = np.zeros((*q.shape, *counts.shape), places.dtype) if out is None else out
        out[..., counts == m] = places[..., None]
    return np.zeros((*q.shape, *counts.shape)) if out is None else out


def _exact(dtype: Any) -> int:
    """How far a dtype counts without gaps."""
    return 1 << int(np.finfo(dtype).nmant)


def _moves(t: Any, ans: Any, n: Any, method: str) -> Any:
    """How the place changes with q; not where it is held at an end."""
    speed = _SPEED[method](n) if method in _SPEED else np.zeros(np.shape(n))
    return t * np.where((ans > 0) & (ans < np.maximum(n - 1, 1)), speed, 0).astype(t.dtype)


def _pull_place(k: int, g: Any, ans: Any, q: Any, n: Any, method: str, _dtype: Any) -> Any:
    return None if k else np.sum(_moves(g, ans, n, method), axis=tuple(range(1, len(g.shape)))).astype(q.dtype)


def _push_place(k: int, t: Any, ans: Any, _q: Any, n: Any, method: str, _dtype: Any) -> Any:
    return _moves(reshape(t, (*t.shape, *(1,) * np.ndim(n))).astype(ans.dtype), ans, n, method)


def _batch_place(size: int, flags: Any, args: Any, params: Any) -> Any:
    q, n = args
    if not flags[0]:
        return np.moveaxis(_place_of(q, n, params=params), 1, 0)
    if not flags[1]:
        return reshape(_place_of(reshape(q, -1), n, params=params), (*q.shape, *np.shape(n)))
    return np.stack([_place_of(q[k], n[k], params=params) for k in range(size)])


_place_of = Primitive("quantile_place", _place, arity=None, vjps=_pull_place, jvps=_push_place, batch=_batch_place).op


def _collapsed(a: Any, axis: Any, keepdims: Any = False) -> tuple[Any, tuple[int, ...]]:
    """The reduced axes joined into one, as the last; and the shape of the result."""
    ndim = len(a.shape)
    if ndim == 1 and axis in (None, 0, -1):
        return a, (1,) if kept(keepdims) else ()
    axes = all_axes(axis, ndim)
    others = tuple(k for k in range(ndim) if k not in axes)
    moved = a if others + axes == tuple(range(ndim)) else transpose(a, others + axes)
    rest = tuple(a.shape[k] for k in others)
    return reshape(moved, (*rest, count_of(a.shape, axes))), with_ones(a.shape, axes) if kept(keepdims) else rest


def _by_weight(x: Any, w: Any, q: Any, method: str, function: Any) -> Any:
    found = np.moveaxis(function(x, q, axis=-1, weights=w, method=method), 0, -1)
    return np.argmax(x[..., None, :] == found[..., None], axis=-1)


_weighted = constant_op("weighted_quantile", _by_weight)


# values of neighbours in a sorted row, m lower and m upper ones, of which a part of the gap is taken; NaN if what follows them is


def _parts(r: Any, m: int) -> tuple[Any, Any, Any]:
    return r[..., :m], r[..., m : 2 * m], r[..., 2 * m :]


def _between(r: Any, part: Any, middle: bool) -> Any:
    below, above, last = _parts(r, part.shape[-1])
    gap = above - below
    out = np.where(part == 0, below, below / 2 + above / 2) if middle else below + gap * part  # a median is rounded as NumPy's
    if np.isfinite(_add(out, None) + _add(last, None)):
        return out
    if not middle:
        out = np.where(np.isfinite(gap), out, np.where((part == 0) | (below == above), below, below + (above * part - below * part)))
    return np.where(np.isnan(last), last, out) if last.size else out


def _gap(t: Any, _ans: Any, r: Any, part: Any, _middle: bool) -> Any:
    below, above, last = _parts(r, part.shape[-1])
    gap = above - below
    gap = np.where((part == 0) & ~np.isfinite(gap), np.zeros((), gap.dtype), gap) if np.any(value(part == 0)) else gap
    return t * (gap if not last.shape[-1] else np.where(np.isnan(last), np.zeros((), gap.dtype), gap))


def _pull_between(g: Any, _ans: Any, r: Any, part: Any, _middle: bool) -> Any:
    last = r[..., 2 * part.shape[-1] :]
    lost = np.isnan(last)
    if np.any(value(lost)):
        kept, own = selected(~lost, g), np.sum(selected(lost, g), axis=-1, keepdims=True)
    else:
        kept, own = g, np.zeros(last.shape, g.dtype)
    upper = kept * part
    return np.concatenate([kept - upper, upper, own], axis=-1)


def _push_between(t: Any, _ans: Any, r: Any, part: Any, _middle: bool) -> Any:
    m = part.shape[-1]
    below, above, last = _parts(t, m)
    out = below + (above - below) * part
    lost = np.isnan(r[..., 2 * m :])
    return np.where(lost, last, out) if np.any(value(lost)) else out


_ONE_PLACE = np.zeros(())
_between_op: Any = general("between", _between, _pull_between, _gap, jvps=(_push_between, _gap), stacks=1)


def _quantile(a: Any, q: Any, axis: Any, method: str, keepdims: Any, weights: Any, skip_nan: bool) -> Any:
    name = "nanquantile" if skip_nan else "quantile"
    own, a = lift(a).dtype, as_float(a)
    if own.kind == "c":
        raise TypeError("a must be an array of real numbers")
    given, q = type(bare(q)), lift(q)
    weak = given in (int, float)
    q = typed(q, own if weak and own.kind == "f" else None)
    if not np.all(value((q >= 0) & (q <= 1))):
        raise ValueError("Quantiles must be in the range [0, 1]")
    if not a.size:
        return getattr(np, name)(np.empty(a.shape, a.dtype), value(q), axis, None, False, method, kept(keepdims))
    x, shape = _collapsed(a, axis, keepdims)
    flat = q.reshape(-1)
    if weights is not None:
        if isinstance(flat, Tracer):
            raise errors.UnsupportedError(f"{name}: with weights=, q must be plain.")
        w = lift(weights)
        if w.shape != a.shape:
            (one,) = normalize_axis_tuple(axis if axis is not None else 0, len(a.shape))
            w = np.broadcast_to(as_line(w, one, len(a.shape)), a.shape)
        function = np.nanquantile if skip_nan else np.quantile
        result = _ranked(x, _weighted(x, _collapsed(w, axis)[0], params=(flat, method, function)))
        return _put(typed(result if skip_nan else _or_nan(np.max(x, axis=-1, keepdims=True), result), own), q, shape)
    n = x.shape[-1]
    if skip_nan:
        counts = np.sum(~np.isnan(x), axis=-1)
        _warn_empty(counts)
        place = np.moveaxis(_place_of(flat, counts, params=(method, a.dtype)), 0, -1)
        low = np.floor(place)
        places = np.concatenate([low, np.minimum(low + 1, n - 1)], axis=-1).astype(np.intp)
        ranked = _ranked(x, np.take_along_axis(_argsort(x, len(x.shape) - 1), places, -1))
    else:
        place = _place_of(flat, n, params=(method, a.dtype))
        low = np.floor(place)
        ranked = _ranked(x, _sorted_places(x, np.concatenate([low, np.minimum(low + 1, n - 1), [n - 1]]).astype(np.intp)))
    result = _between_op(ranked, place - low, False)
    exact = n <= _exact(a.dtype) and own == a.dtype
    dtype = place.dtype if exact else np.quantile(np.zeros(1, own), given(0) if weak else np.zeros(1, q.dtype), method=method).dtype  # type: ignore[call-overload]
    return _put(typed(result, dtype), q, shape)


def _nth(x: Any, places: Any) -> Any:
    """Which elements of a row a stable sort would put at some places, without the sort."""
    ranked, found = np.partition(x, places), dict[int, Any]()
    for p in places.tolist():
        if p not in found:
            v = ranked[p]
            same, before = (x == v, x < v) if v == v else (np.isnan(x), ~np.isnan(x))
            found[p] = np.flatnonzero(same)[p - np.count_nonzero(before)]
    return np.array([found[p] for p in places.tolist()])


_nth_op = constant_op("nth", _nth)


def _sorted_places(x: Any, places: Any) -> Any:
    """Which elements along the last axis a stable sort puts at some places."""
    if len(x.shape) == 1 and x.shape[0] > LARGE and places.size <= _FEW_PLACES:
        return _nth_op(x, places)
    order = _argsort(x, len(x.shape) - 1)
    return order.take(places, -1) if type(order) is type(places) is np.ndarray else index(order, (..., places))


def _put(result: Any, q: Any, shape: tuple[int, ...]) -> Any:
    """The quantiles, which are along the last axis, where NumPy has them: in front."""
    if not q.shape:
        return result[0] if len(result.shape) == 1 and not shape else reshape(result, shape)
    return reshape(result if len(result.shape) == 1 else np.moveaxis(result, -1, 0), (*q.shape, *shape))


def _ranked(x: Any, places: Any) -> Any:
    """The elements at some places along the last axis."""
    return take_along(x, places, params=(len(x.shape) - 1,))


def _or_nan(last: Any, result: Any) -> Any:
    """The last of the sorted elements where it is NaN, which then is the result."""
    lost = np.isnan(last)
    return np.where(lost, last, result) if np.any(value(lost)) else result


def _warn_empty(counts: Any) -> None:
    if np.any(value(counts) == 0):
        warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=5)


def _x(shape: tuple[int, ...], q: Any, *wrt: int, **kwargs: Any) -> Sample:
    return Sample(lambda rng: (*apart(shape)(rng), q), kwargs, wrt or (0,))


_METHODS = (
    "inverted_cdf averaged_inverted_cdf closest_observation interpolated_inverted_cdf hazen weibull linear median_unbiased "
    "normal_unbiased lower higher midpoint nearest"
).split()
_WEIGHTS = np.array([0.5, 1.0, 2.0, 0.7])


def _samples(scale: float) -> list[Sample]:
    return [
        _x((5,), 0.3 * scale, 0, 1),
        _x((2, 3), np.array([0.1, 0.65]) * scale, 0, 1),
        _x((2, 3, 4), 0.4 * scale, axis=1),
        _x((2, 3, 4), np.array([0.0, 1.0, 0.5]) * scale, axis=(0, -1), keepdims=True),
        _x((1,), 0.4 * scale),
        *(_x((5,), np.array([0.43, 0.57]) * scale, *((0, 1) if method in _SPEED else (0,)), method=method) for method in _METHODS),
    ]


_WEIGHTED = [
    _x((4,), 0.4, weights=_WEIGHTS, method="inverted_cdf"),
    _x((2, 4), np.array([0.2, 0.8]), axis=1, weights=_WEIGHTS, method="inverted_cdf"),
]


def _hundredth(a: Any, q: Any) -> Any:
    a = lift(a)
    hundred = a.dtype.type(100) if a.dtype.kind == "f" else 100
    return np.true_divide(operand(q), hundred)


def _declare(name: str, samples: list[Sample]) -> None:
    skip_nan, of_hundred = name.startswith("nan"), name.endswith("percentile")

    def function(
        a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
        keepdims: Any = ABSENT if skip_nan else False, *, weights: Any = None, interpolation: Any = None,
    ) -> Any:  # fmt: skip
        q = _hundredth(a, q) if of_hundred else q
        return _quantile(a, q, axis, interpolation or method, keepdims, weights, skip_nan)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`np.{name}`; `q` may be traced too, but not with weights."
    implements(getattr(np, name), samples)(function)


_HOLES = np.array([[1.0, np.nan, 3.0, 0.5], [2.0, np.nan, np.nan, 1.5]])
_declare("quantile", [*_samples(1.0), *_WEIGHTED])
_declare(
    "nanquantile",
    [*_samples(1.0), given(_HOLES, 0.3, axis=1), Sample(lambda _rng: (_HOLES, np.array([0.3, 0.6])), wrt=(0, 1))],
)
_declare("percentile", _samples(100.0))
_declare("nanpercentile", [*_samples(100.0), given(_HOLES, 30.0, axis=1)])


@implements(np.median, RANKED)
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False) -> Any:
    """`np.median`; of equal elements, those in the middle of a stable sort."""
    a = as_float(a)
    if not a.size:
        return np.median(np.empty(a.shape, a.dtype), axis, keepdims=kept(keepdims))
    x, shape = _collapsed(a, axis, keepdims)
    n = x.shape[-1]
    part, places = np.array([(1 - n % 2) / 2], a.dtype), np.array([(n - 1) // 2, n // 2, n - 1])
    return _put(_between_op(_ranked(x, _sorted_places(x, places)), part, not n % 2), _ONE_PLACE, shape)


@implements(np.nanmedian, [*RANKED, given(_HOLES, axis=1), given(_HOLES)])
def nanmedian(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = ABSENT) -> Any:
    """`np.nanmedian`; the derivative at NaN entries is zero."""
    a = as_float(a)
    if not a.size:
        return np.nanmedian(np.empty(a.shape, a.dtype), axis, keepdims=kept(keepdims))
    x, shape = _collapsed(a, axis, keepdims)
    order = _argsort(x, len(x.shape) - 1)
    counts = np.sum(~np.isnan(x), axis=-1, keepdims=True)
    _warn_empty(counts)
    places = np.concatenate([np.maximum(counts - 1, 0) // 2, counts // 2], axis=-1)
    part = ((1 - counts % 2) / 2).astype(a.dtype)
    return _put(_between_op(_ranked(x, np.take_along_axis(order, places, -1)), part, True), _ONE_PLACE, shape)
