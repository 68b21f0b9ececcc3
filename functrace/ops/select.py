"""Selecting elements by index, by mask and by condition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.core.primitive import Primitive
from functrace.core.tracer import Tracer
from functrace.ops.arrange import by_position, lying_as
from functrace.ops.blank import Blank, handle
from functrace.ops.create import common_dtype, fitted, lift, typed
from functrace.ops.fast import fast
from functrace.ops.functions import on_axis, refuse, reshape, single_axis, with_ones
from functrace.ops.index import decided, index, index_set
from functrace.ops.inplace import View, linked, view
from functrace.ops.kinds import spread_batch
from functrace.ops.protocol import as_numbers
from functrace.ops.rebased import steady
from functrace.ops.registry import Sample, given, implements, one
from functrace.ops.shape import along

# an array of indices along an axis: what sorting and its relatives stand on

take_along: Any = fast(
    Primitive(
        "take_along",
        lambda x, i, axis: x[i] if x.ndim == 1 else np.take_along_axis(x, i, axis),  # shapes agree but on the axis, which is not negative
        arity=None,
        vjps=lambda k, g, _ans, x, i, axis: None if k else add_along(g, i, params=(axis, x.shape[axis])),
        jvps=lambda k, t, _ans, _x, i, axis: take_along(t, i, params=(axis,)),
        batch=lambda size, flags, args, params: take_along(*spread_batch(size, flags, args), params=(params[0] + 1,)),
        linear=True,
    ),
    params=True,
)


def _add_along(g: Any, indices: Any, axis: int, n: int) -> Any:
    out = np.zeros((*g.shape[:axis], n, *g.shape[axis + 1 :]), g.dtype)
    if g.ndim == 1:
        np.add.at(out, indices, g)
        return out
    before, after = math.prod(g.shape[:axis]), math.prod(g.shape[axis + 1 :])
    if indices.min(initial=0) < 0:
        indices = indices % max(n, 1)
    rows = np.arange(before)[:, None, None] * n + indices.reshape(before, g.shape[axis], after)
    if after != 1:
        rows = rows * after + np.arange(after)
    np.add.at(out.reshape(-1), rows.reshape(-1), g.reshape(-1))  # one index is added by the fastest
    return out


add_along: Any = fast(
    Primitive(
        "add_along",
        _add_along,  # the transpose of take_along
        arity=None,
        vjps=lambda k, g, _ans, _x, i, axis, _n: None if k else take_along(g, i, params=(axis,)),
        jvps=lambda k, t, _ans, _x, i, axis, n: add_along(t, i, params=(axis, n)),
        batch=lambda size, flags, args, params: add_along(*spread_batch(size, flags, args), params=(params[0] + 1, params[1])),
        linear=True,
    ),
    params=True,
)


def _indices(i: Any, n: int, mode: str) -> Any:
    """Integer indices, checked or brought into range."""
    i = lift(i)
    if i.dtype.kind not in "iub":
        raise TypeError(f"Cannot cast array data from {i.dtype!r} to dtype('int64') according to the rule 'safe'")
    i = i.astype(np.intp)
    if mode == "wrap":
        return i % n
    if mode == "clip":
        return np.minimum(np.maximum(i, 0), n - 1)
    if mode != "raise":
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got '{mode}')")
    return i


@implements(
    np.take,
    [
        one(2, 3, indices=[0, 4, 4]),
        one(2, 3, indices=1, axis=1),
        one(2, 3, indices=np.array([[0, -1], [1, 1]]), axis=-1),
        one(2, 3, indices=[5, -7], axis=0, mode="wrap"),
        one(2, 3, indices=[5, -7], axis=0, mode="clip"),
        one(2, 3, 4, indices=np.array([], int), axis=1),
        one(indices=0),
    ],
)
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    a, axis = on_axis(a, axis, scalars=True)
    if type(indices) is int and mode == "raise":
        return index(a, along(axis, indices))
    indices = np.empty(0, np.intp) if isinstance(indices, (list, tuple)) and not indices else indices
    return lying_as(index(a, along(axis, _indices(indices, a.shape[axis], mode))), "C")


def _aligned(a: Any, indices: Any, axis: Any) -> tuple[Any, Any, int]:
    a, indices = lift(a), lift(indices)
    if indices.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is None:
        if len(indices.shape) != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        a, axis = reshape(a, -1), 0
    axis = single_axis(a, axis)
    if len(a.shape) != len(indices.shape):
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    if with_ones(a.shape, (axis,)) == with_ones(indices.shape, (axis,)):
        return a, indices, axis
    common = np.broadcast_shapes(*(with_ones(x.shape, (axis,)) for x in (a, indices)))
    shapes = ((*common[:axis], x.shape[axis], *common[axis + 1 :]) for x in (a, indices))
    return *(np.broadcast_to(x, s) if x.shape != s else x for x, s in zip((a, indices), shapes)), axis


_ORDER = np.array([[0, 2, 2, 0], [1, 1, 0, 2]])


@implements(
    np.take_along_axis,
    [
        one(2, 3, indices=_ORDER, axis=1),
        one(2, 3, indices=_ORDER[:1], axis=-1),
        one(3, 1, indices=_ORDER, axis=0),
        one(2, 3, indices=_ORDER[0], axis=None),
    ],
)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    arr, indices, axis = _aligned(arr, indices, axis)
    return take_along(arr, indices, params=(axis,))


@implements(
    np.compress,
    [Sample(lambda rng: ([True, False, True], rng.normal(size=(3, 2))), {"axis": k}, (1,)) for k in (0, None)]
    + [Sample(lambda rng: ([0, 1], rng.normal(size=(3, 2))), {"axis": -1}, (1,))],
)
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    condition = decided(lift(condition))
    if len(condition.shape) != 1:
        raise ValueError("condition must be a 1-d array")
    return take(a, np.flatnonzero(condition), axis)


@implements(np.extract, [Sample(lambda rng: (np.array([[True, False, True], [False, True, True]]), rng.normal(size=(2, 3))), wrt=(1,))])
def extract(condition: Any, arr: Any) -> Any:
    return compress(reshape(condition, -1), reshape(arr, -1))


_WHICH = np.array([[0, 1, 1], [2, 0, 1]])


@implements(
    np.choose,
    [
        Sample(lambda rng: (_WHICH, [rng.normal(size=(2, 3)), rng.normal(size=3), rng.normal(size=(2, 1))]), wrt=(1,)),
        Sample(lambda rng: (_WHICH + 2, [rng.normal(size=(2, 3)), rng.normal(size=3)]), {"mode": "wrap"}, (1,)),
        Sample(lambda rng: (_WHICH - 1, [rng.normal(size=(2, 3)), rng.normal(size=3)]), {"mode": "clip"}, (1,)),
    ],
)
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    options = [lift(c) for c in choices]
    which = _indices(a, len(options), mode)
    if mode == "raise" and np.any((which < 0) | (which >= len(options))):
        raise ValueError("invalid entry in choice array")
    shape = np.broadcast_shapes(which.shape, *(c.shape for c in options))
    table = np.stack([np.broadcast_to(c, shape) for c in options], dtype=common_dtype(*choices))
    return take_along(table, np.broadcast_to(which, shape)[None], params=(0,))[0]


_CONDITIONS: Any = [np.array([True, False, False]), np.array([[True, True, False], [False, True, False]])]


@implements(
    np.select,
    [
        Sample(lambda rng: (_CONDITIONS, [rng.normal(size=(2, 3)), rng.normal(size=3)]), wrt=(1,)),
        Sample(lambda rng: (_CONDITIONS, [rng.normal(size=3), rng.normal(size=(2, 1))], rng.normal(size=(4, 1, 1))), wrt=(1, 2)),
    ],
)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not condlist:
        raise ValueError("select with an empty condition list is not possible")
    conditions, choices = [lift(c) for c in condlist], [lift(c) for c in choicelist]
    if any(c.dtype != bool for c in conditions):
        raise TypeError("invalid entry in condlist: should be boolean ndarray")
    dtype = common_dtype(*choicelist, default)
    default = lift(default)
    result = typed(default, dtype)
    for condition, choice in zip(conditions[::-1], choices[::-1]):
        result = np.where(condition, typed(choice, dtype), result)
    shape = np.broadcast_shapes(*(x.shape for x in (*conditions, *choices, default)))
    return lying_as(np.broadcast_to(result, shape), "C")


@implements(
    np.piecewise,
    [
        Sample(lambda rng: (rng.normal(size=3), [np.array([True, False, False])], [np.sin, np.cos])),
        Sample(lambda rng: (rng.normal(size=3), [np.array([True, False, False]), np.array([True, True, False])], [np.sin, 2.0])),
        Sample(lambda rng: (rng.normal(size=3), np.array([True, False, True]), [np.exp, np.square])),
    ],
)
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """`np.piecewise`; where a condition is batched its function sees all of `x`, and its values are chosen afterwards."""
    x = lift(x)
    scalar = not isinstance(condlist, (list, tuple)) and np.ndim(condlist) == 0
    if scalar or (not np.ndim(condlist[0]) and x.ndim != 0):
        condlist = [condlist]
    conditions = [c.astype(bool) for c in map(lift, condlist)]
    if len(conditions) == len(funclist) - 1:
        conditions.append(~np.any(np.stack(conditions), axis=0))
    elif len(conditions) != len(funclist):
        raise ValueError(f"with {len(conditions)} condition(s), either {len(conditions)} or {len(conditions) + 1} functions are expected")
    result = np.zeros(x.shape, x.dtype)
    for condition, function in zip(conditions, funclist):
        if isinstance(condition, Tracer) or not x.shape:
            mask = np.broadcast_to(False, condition.shape)
            np.broadcast_to(False, x.shape)[mask]  # NumPy's error, unless it is a mask of x, or of its rows
            condition = np.reshape(condition, condition.shape + (1,) * (x.ndim - condition.ndim))
            part = function(x, *args, **kw) if callable(function) else function
            result = np.where(condition, fitted(part, x.dtype), result)
        elif condition.any():
            part = function(index(x, condition), *args, **kw) if callable(function) else function
            result = index_set(result, fitted(part, x.dtype), condition)
    return result


def unstack(x: Any, /, *, axis: int = 0) -> Any:
    """`np.unstack`."""
    x = lift(x)
    if not x.shape:
        raise ValueError("Input array must be at least 1-d.")
    axis = single_axis(x, axis)
    return tuple(view(x, along(axis, k)) for k in range(x.shape[axis]))


_unstack = getattr(np, "unstack", None)  # NumPy 2.1
implements(_unstack if _unstack is not None else (), [one(2, 3), one(2, 3, axis=-1)], name="unstack")(unstack)


# functions applied along axes, and windows


@implements(
    np.apply_along_axis,
    [
        Sample(lambda rng: (np.sort, 0, rng.normal(size=(3, 2))), wrt=(2,)),
        Sample(lambda rng: (np.prod, 1, rng.normal(size=(2, 3, 2))), wrt=(2,)),
        Sample(lambda rng: (np.cumsum, 0, rng.normal(size=(0, 2))), wrt=(2,)),
    ],
)
def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """`np.apply_along_axis`: one call for each line."""
    arr = lift(arr)
    axis = single_axis(arr, axis)
    lines = np.moveaxis(arr, axis, -1)
    others = lines.shape[:-1]
    if 0 in others:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    flat = reshape(lines, (math.prod(others), arr.shape[axis]))
    done = np.stack([lift(func1d(index(flat, k), *args, **kwargs)) for k in range(flat.shape[0])])
    done = reshape(done, (*others, *done.shape[1:]))
    extra = len(done.shape) - len(others)
    return np.moveaxis(done, range(len(others), len(others) + extra), range(axis, axis + extra))


for _name, _samples in {
    "apply_over_axes": [Sample(lambda rng: (np.sum, rng.normal(size=(2, 3, 2)), (0, 2)), wrt=(1,))],
    "trim_zeros": [given([1.5, 0.5, 2.0], trim=trim) for trim in ("fb", "f", "b")],
}.items():
    steady(np, _name, _samples)
_SLICES, _LARGE = 64, 256  # up to how many places in a window, and from how many windows, slices are the faster way


@implements(
    np.lib.stride_tricks.sliding_window_view,
    [
        *(
            one(5, window_shape=2),
            one(3, 4, window_shape=(2, 3)),
            one(3, 4, window_shape=2, axis=-1),
            one(6, window_shape=(2, 3), axis=(0, 0)),
        ),
        one(2, 14, 13, window_shape=(2, 3), axis=(2, 1)),
    ],
)
def sliding_window_view(x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False) -> Any:
    refuse("sliding_window_view", writeable=(writeable, False))
    x, window_shape = lift(x), as_numbers(window_shape)
    return linked(_windows(x, window_shape, axis), x, _WINDOWS, window_shape, axis)


def _windows(x: Any, window_shape: Any, axis: Any) -> Any:
    windows: Any = lambda a: np.lib.stride_tricks.sliding_window_view(a, window_shape, axis)
    if type(x) is Blank:
        return handle(windows(x.below))
    shape = windows(np.broadcast_to(False, x.shape)).shape
    window, ndim = shape[len(x.shape) :], len(x.shape)
    axes = [a % ndim for a in (range(ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,))]
    if not 0 < np.prod(window) <= _SLICES or np.prod(shape[:ndim]) < _LARGE or len(set(axes)) < len(axes):
        return by_position(x, windows)
    # a slice for each place in the window: back, these are added one after another, much faster than by position
    parts = []
    for offsets in np.ndindex(window):
        starts = dict(zip(axes, offsets))
        parts.append(index(x, tuple([slice(starts.get(a, 0), starts.get(a, 0) + shape[a]) for a in range(ndim)])))
    return reshape(np.stack(parts, axis=-1), shape)


_WINDOWS = View(_windows, None)  # read-only, as in NumPy
