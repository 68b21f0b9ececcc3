"""`np.pad`. Every mode is linear in the array, one axis after another."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace import errors
from functrace.core.primitive import LARGE
from functrace.ops.arrange import as_line, lying_as, order_of
from functrace.ops.create import lift, typed
from functrace.ops.functions import concatenate
from functrace.ops.index import index, index_add, index_set, placed
from functrace.ops.kinds import linear
from functrace.ops.protocol import as_numbers
from functrace.ops.registry import Sample, apart, holds_tracer, implements, one
from functrace.ops.shape import along


def _mode(mode: str, width: Any = ((1, 2), (0, 3)), **kwargs: Any) -> Sample:
    return Sample(apart((2, 4)), {"pad_width": width, "mode": mode, **kwargs})


_SAMPLES = [
    one(2, 3, pad_width=1),
    one(2, 3, pad_width=(1, 2)),
    one(2, 3, pad_width=((1, 0), (0, 2)), constant_values=2.0),
    one(2, 3, pad_width=1, constant_values=((1.0, 2.0), (3.0, 4.0))),
    one(0, pad_width=2),
    one(1, pad_width=2, mode="reflect"),
    _mode("edge"),
    _mode("wrap"),
    _mode("wrap", 5),
    _mode("reflect"),
    _mode("reflect", 5),
    _mode("reflect", 5, reflect_type="odd"),
    _mode("symmetric"),
    _mode("symmetric", 5),
    _mode("symmetric", 3, reflect_type="odd"),
    _mode("linear_ramp"),
    _mode("linear_ramp", 2, end_values=((1.0, 2.0), (-1.0, 0.0))),
    *(_mode(stat) for stat in ("mean", "maximum", "minimum", "median")),
    *(_mode(stat, 2, stat_length=((1, 2), (2, 6))) for stat in ("mean", "maximum", "minimum", "median")),
]

_ALLOWED = {
    "constant": ("constant_values",),
    "edge": (),
    "wrap": (),
    "empty": (),
    "linear_ramp": ("end_values",),
    "reflect": ("reflect_type",),
    "symmetric": ("reflect_type",),
    "mean": ("stat_length",),
    "median": ("stat_length",),
    "maximum": ("stat_length",),
    "minimum": ("stat_length",),
}


@implements(np.pad, _SAMPLES)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """`np.pad`; the constant and end values may be traced too. A mode that is a function is refused."""
    array, pad_width = lift(array), as_numbers(pad_width)
    if not isinstance(mode, str):
        raise errors.UnsupportedError("pad: a function as mode= writes into plain arrays.\n  Use np.concatenate.")
    if mode not in _ALLOWED:
        raise ValueError(f"mode '{mode}' is not supported")
    if unknown := set(kwargs) - set(_ALLOWED[mode]):
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {unknown}")
    ndim = len(array.shape)
    if isinstance(pad_width, dict):
        by_axis: Any = [(0, 0)] * ndim
        for axis, width in pad_width.items():
            by_axis[axis] = (width, width) if isinstance(width, (int, np.integer)) else width
        pad_width = by_axis
    widths = np.asarray(pad_width)
    if widths.dtype.kind != "i":
        raise TypeError("`pad_width` must be of integral type.")
    widths = np.broadcast_to(widths, (ndim, 2)).tolist()
    if min((w for pair in widths for w in pair), default=0) < 0:
        raise ValueError("index can't contain negative values")
    order = order_of(array)
    if mode in ("constant", "empty") and not holds_tracer([kwargs.get("constant_values", 0)]):
        shape = tuple(left + n + right for n, (left, right) in zip(array.shape, widths))
        inner = tuple([slice(left, left + n) for n, (left, right) in zip(array.shape, widths)])
        if not kwargs and order == "C" and array.dtype.kind in "fc":
            return placed(array, inner, shape)
        base = np.pad(np.empty(array.shape, array.dtype, order), widths, **kwargs) if kwargs else np.zeros(shape, array.dtype, order)
        return index_set(base, array, inner)
    padded = array
    for axis, (left, right) in enumerate(widths):
        if left or right:
            padded = _pad_axis(padded, axis, left, right, mode, kwargs)
    return np.copy(array) if padded is array else lying_as(padded, order)


def _extend(x: Any, places: Any, start: int, axis: int) -> Any:
    if x.flags.fnc:
        return _extend(x.T, places, start, x.ndim - 1 - axis).T
    if x.size < LARGE:
        return np.take(x, places, axis)
    before, after = places[:start], places[start + x.shape[axis] :]
    return np.concatenate([np.take(x, before, axis), x, np.take(x, after, axis)], axis)


def _fold(g: Any, _ans: Any, _x: Any, places: Any, start: int, axis: int) -> Any:
    if math.prod(_x.shape) < LARGE:
        return placed(g, along(axis, places), _x.shape)
    stop = start + _x.shape[axis]
    own = index_add(g[along(axis, slice(start, stop))], g[along(axis, slice(start))], along(axis, places[:start]))
    return index_add(own, g[along(axis, slice(stop, None))], along(axis, places[stop:]))


_extended: Any = linear(
    "extended",  # an axis with elements of its own before `start` and after it, found at `places`
    _extend,
    _fold,
    batch="axis",
)


def _pad_axis(x: Any, axis: int, left: int, right: int, mode: str, kwargs: dict[str, Any]) -> Any:
    n = x.shape[axis]
    if n == 0 and mode != "constant":
        raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
    if mode in ("edge", "wrap", "reflect", "symmetric"):
        if kwargs.get("reflect_type", "even") == "odd":
            return concatenate(_odd(x, axis, left, right, mode), axis)
        places = np.pad(np.arange(n), (left, right), mode=mode)  # type: ignore[call-overload]
        return _extended(x, places, left, axis)
    if mode == "constant":
        first, last = (lift(v) for v in _pair(kwargs["constant_values"], axis, len(x.shape)))
    elif mode == "linear_ramp":
        ends = _pair(kwargs.get("end_values", 0), axis, len(x.shape))
        first = _ramp(ends[0], index(x, along(axis, slice(0, 1))), axis, left)
        last = np.flip(_ramp(ends[1], index(x, along(axis, slice(n - 1, n))), axis, right), axis)
    else:
        lengths = _pair(kwargs.get("stat_length"), axis, len(x.shape))
        first, last = (_statistic(x, axis, mode, length, end) for end, length in enumerate(lengths))
    sides = []
    for side, width in ((first, left), (last, right)):
        side = typed(side, x.dtype)
        sides.append(np.broadcast_to(side, (*x.shape[:axis], width, *x.shape[axis + 1 :])))
    return concatenate([sides[0], x, sides[1]], axis)


def _odd(x: Any, axis: int, left: int, right: int, mode: str) -> list[Any]:
    """The array between its sides, at each place of which there is an element, and so much of the first and of the last: those add to 1."""
    n, ndim = x.shape[axis], len(x.shape)
    ends = np.zeros((2, n), int)
    ends[0, 0] = ends[1, -1] = 1
    of_ends = np.pad(ends, ((0, 0), (left, right)), mode=mode, reflect_type="odd")  # type: ignore[call-overload]
    places = np.pad(np.arange(n), (left, right), mode=mode)  # type: ignore[call-overload]
    sides = []
    for part in slice(left), slice(left + n, None):
        shares = of_ends[:, part]
        side = index(x, along(axis, places[part])) * as_line((1 - shares.sum(0)).astype(x.dtype), axis, ndim)
        for share, end in zip(shares.astype(x.dtype), (slice(1), slice(n - 1, n))):
            side = side + as_line(share, axis, ndim) * index(x, along(axis, end)) if share.any() else side
        sides.append(side)
    return [sides[0], x, sides[1]]


def _pair(values: Any, axis: int, ndim: int) -> tuple[Any, Any]:
    """What belongs to the two sides of an axis: `values` is one for all, a pair for all axes, or a pair for each."""
    if values is None:
        return None, None
    values = np.broadcast_to(lift(values), (ndim, 2))
    return values[axis, 0], values[axis, 1]


def _ramp(start: Any, edge: Any, axis: int, width: int) -> Any:
    ramp = as_line(np.arange(width), axis, len(edge.shape)) * ((edge - start) / max(width, 1)) + start
    return np.floor(ramp) if edge.dtype.kind in "iu" else ramp


def _statistic(x: Any, axis: int, mode: str, length: Any, end: int) -> Any:
    """A statistic of the elements nearest to the start (end 0) or the end (end 1) of an axis, as an axis of length 1."""
    n = x.shape[axis]
    length = n if length is None or int(length) > n else int(length)
    if length == 0:
        raise ValueError("stat_length of 0 yields no value for padding")
    part = index(x, along(axis, slice(0, length) if end == 0 else slice(n - length, n)))
    statistics: dict[str, Any] = {"mean": np.mean, "median": np.median, "maximum": np.max, "minimum": np.min}
    value = statistics[mode](part, axis=axis, keepdims=True)
    return np.round(value) if x.dtype.kind in "iu" and mode in ("mean", "median") else value
