"""Moving elements about: axes, order, repetition, selection. All are linear, and most are an index or a change of shape."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from functrace.core.tracer import TapeTracer, Tracer, value
from functrace.ops import reduce as _reduce
from functrace.ops import shape as _shape
from functrace.ops.blank import blank
from functrace.ops.create import lift, typed
from functrace.ops.functions import broadcast_to, layout, lengths, on_axis, reduced_axes, reshape, sum_, transpose
from functrace.ops.index import index
from functrace.ops.inplace import RAVEL, View, as_array, linked, lying, packed, permuted, reshaped, shared
from functrace.ops.kinds import linear
from functrace.ops.protocol import as_numbers
from functrace.ops.rebased import steady
from functrace.ops.registry import Sample, each, implements, normal, one
from functrace.ops.shape import along
from functrace.pool import empty, zeros

_X = one(2, 3)


def by_position(a: Any, function: Callable[[Any], Any]) -> Any:
    """`function(a)`, for one that only moves elements: it is applied to their positions, and the result is an index into `a`."""
    return index(reshape(a, (a.size,)), function(np.arange(a.size).reshape(a.shape)))


def as_line(x: Any, axis: int, ndim: int) -> Any:
    """A vector along one of `ndim` axes, the others of length 1."""
    return reshape(x, (*(1,) * axis, -1, *(1,) * (ndim - axis - 1)))


# axes


@implements(np.expand_dims, [one(2, 3, axis=0), one(2, 3, axis=-1), one(2, 3, axis=(0, 2)), one(axis=0), one(0, axis=1)])
def expand_dims(a: Any, axis: Any) -> Any:
    a = lift(a)
    old = a.shape
    if type(axis) is int:
        k = normalize_axis_index(axis, len(old) + 1)
        return reshaped(a, (*old[:k], 1, *old[k:]))
    axes = normalize_axis_tuple(axis, len(old) + (len(axis) if isinstance(axis, (tuple, list)) else 1))
    sizes = iter(old)
    return reshaped(a, tuple(1 if k in axes else next(sizes) for k in range(len(old) + len(axes))))


@implements(np.squeeze, [one(1, 3, 1), one(1, 3, 1, axis=0), one(1, 3, 1, axis=-1), one(1, 3, 1, axis=(0, 2)), one(1, 1), one(2)])
def squeeze(a: Any, axis: Any = None) -> Any:
    a = lift(a)
    old = a.shape
    if axis is None:
        new = tuple(n for n in old if n != 1)
    else:
        axes = reduced_axes(axis, len(old))
        if any(old[k] != 1 for k in axes):
            raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
        new = tuple(n for k, n in enumerate(old) if k not in axes)
    return a if new == old else reshaped(a, new)


@implements(np.ravel, [_X, one(), one(3), one(2, 3, order="F"), one(0, 2)])
def ravel(a: Any, order: Any = "C") -> Any:
    """`np.ravel`; of traced values in order C or F only."""
    a = lift(a)
    if layout(order, len(a.shape)) == "F":
        a = transpose(a)
    if len(a.shape) == 1 and getattr(a, "parent", None) is None:
        return a
    return reshaped(a, (a.size,), RAVEL)


@implements(np.moveaxis, [one(2, 3, 4, source=s, destination=d) for s, d in [(0, 2), (-1, 0), ((0, 1), (2, 0))]])
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    a = lift(a)
    ndim = len(a.shape)
    if type(source) is type(destination) is int:
        axes = list(range(ndim))
        axes.insert(normalize_axis_index(destination, ndim, "destination"), axes.pop(normalize_axis_index(source, ndim, "source")))
        return permuted(a, tuple(axes))
    source = normalize_axis_tuple(source, ndim, "source")
    destination = normalize_axis_tuple(destination, ndim, "destination")
    if len(source) != len(destination):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    if source == destination:
        return a
    order = [k for k in range(ndim) if k not in source]
    for to, k in sorted(zip(destination, source)):
        order.insert(to, k)
    return transpose(a, tuple(order))


@implements(np.swapaxes, [one(2, 3, 4, axis1=i, axis2=j) for i, j in [(0, 1), (-1, 0), (1, 1)]])
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    a = lift(a)
    axes = list(range(len(a.shape)))
    i, j = normalize_axis_index(axis1, len(axes)), normalize_axis_index(axis2, len(axes))
    axes[i], axes[j] = j, i
    return permuted(a, tuple(axes))


# order


def _rolled(x: Any, shift: tuple[int, ...], axis: tuple[int, ...], out: Any = None) -> Any:
    """`np.roll` of tuples, no axis negative, without its general preparation; `out` is for that along one axis."""
    for s, a in zip(shift, axis):
        k, whole = s % (x.shape[a] or 1), out
        if whole is None:
            whole = empty(x.shape, x.dtype) if x.flags.c_contiguous else np.empty_like(x)
        old, new = (x.swapaxes(0, a), whole.swapaxes(0, a)) if a else (x, whole)
        new[k:], new[:k] = old[: len(old) - k], old[len(old) - k :]
        x = whole
    return x if shift else x.copy()


_roll: Any = linear(
    "roll",
    _rolled,
    lambda g, _ans, _x, shift, axis: _roll(g, tuple(-s for s in shift), axis),
    batch=lambda _size, x, shift, axis: _roll(x, shift, tuple(a + 1 for a in axis)),
)


@implements(
    np.roll,
    [
        one(2, 3, shift=1),
        one(2, 3, shift=-4, axis=1),
        one(2, 3, shift=(1, 2), axis=(0, 1)),
        one(2, 3, shift=1, axis=(0, 1)),
        one(0, shift=1),
    ],
)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    a = lift(a)
    if axis is None:
        return reshape(roll(reshape(a, -1), shift, 0), a.shape)
    axes = normalize_axis_tuple(axis, len(a.shape), allow_duplicate=True)
    if isinstance(shift, Tracer) and not shift.shape and len(axes) == 1:
        return index(a, along(axes[0], (np.arange(a.shape[axes[0]]) - shift) % a.shape[axes[0]]))
    pairs = np.broadcast(as_numbers(shift), axes)
    if pairs.ndim > 1:
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    shifts, where = zip(*pairs) if pairs.size else ((), ())
    return _roll(a, tuple(map(int, shifts)), tuple(map(int, where)))


# repetition


_repeat: Any = linear(
    "repeat",
    np.repeat,  # axis is not negative
    lambda g, _ans, _x, times, axis: _reduce.sum_(reshape(g, (*_x.shape[: axis + 1], times, *_x.shape[axis + 1 :])), axis - _x.ndim, False),
    batch="axis",
)


@implements(
    np.repeat,
    [
        one(2, 3, repeats=2),
        one(2, 3, repeats=2, axis=1),
        one(2, 3, repeats=[2, 0], axis=0),
        one(repeats=3),
        one(3, repeats=np.array([1, 2, 0])),
        one(2, 3, repeats=[2], axis=-1),
    ],
)
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    a, axis = on_axis(a, axis, scalars=True)
    repeats = as_numbers(repeats)
    if isinstance(repeats, (int, np.integer)) and repeats >= 0:
        return _repeat(a, int(repeats), axis)
    return lying_as(index(a, along(axis, np.repeat(np.arange(a.shape[axis]), repeats))), "C")


@implements(np.broadcast_arrays, [each((2, 1), (3,)), each((), (2,))])
def broadcast_arrays(*args: Any, subok: bool = False) -> Any:
    arrays = [lift(a) for a in args]
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    return tuple(np.broadcast_to(a, shape) for a in arrays)


@implements(
    np.meshgrid,
    [Sample(normal((2,), (3,)), kwargs, (0, 1)) for kwargs in ({}, {"indexing": "ij"}, {"sparse": True})] + [each((2,), (), (3,))],
)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: Any = "xy") -> Any:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    ndim = len(xi)
    order = list(range(ndim))
    if indexing == "xy" and ndim > 1:
        order[:2] = 1, 0
    arrays = [*map(lift, xi)]
    lines = [as_line(x, place, ndim) for x, place in zip(arrays, order)]
    shape = tuple([arrays[k].size for k in order])  # of two that change places, either way
    grids = lines if sparse else [broadcast_to(x, shape) for x in lines]
    return tuple([packed(x) for x in grids] if copy else grids)


_SCALAR_AND_MATRIX = each((), (2, 3))
for _name, _samples in {
    "atleast_1d": [one(), one(2, 3), _SCALAR_AND_MATRIX],
    "atleast_2d": [one(), one(3), _SCALAR_AND_MATRIX],
    "atleast_3d": [one(), one(3), _SCALAR_AND_MATRIX],
    "flip": [_X, one(2, 3, axis=0), one(2, 3, axis=-1), one(2, 3, axis=(0, 1)), one()],
    "fliplr": [_X],
    "flipud": [_X, one(3)],
    "matrix_transpose": [_X, one(2, 3, 4)],
    "resize": [one(2, 3, new_shape=(4, 2)), one(2, 3, new_shape=2), one(2, 3, new_shape=(0,)), one(0, new_shape=(2,))],
    "rollaxis": [one(2, 3, 4, axis=2), one(2, 3, 4, axis=0, start=3), one(2, 3, 4, axis=-1, start=1)],
    "rot90": [*(one(2, 3, k=k) for k in (0, 1, 2, 3, -1)), one(2, 3, 4, axes=(2, 0))],
}.items():
    steady(np, _name, _samples)


@implements(np.tile, [one(2, 3, reps=2), one(2, 3, reps=(2, 1)), one(3, reps=(2, 2)), one(2, 1, 3, reps=(2,)), one(reps=3), one(2, reps=0)])
def tile(A: Any, reps: Any) -> Any:
    a, reps = lift(A), as_numbers(reps)
    times = lengths(reps)
    ndim = max(len(times), len(a.shape))
    times, shape = (1,) * (ndim - len(times)) + times, (1,) * (ndim - len(a.shape)) + a.shape
    if all(n == 1 for n in times):
        return reshape(copy(a, "C"), shape)
    lines = reshape(a, [n for length in shape for n in (1, length)])
    spread = np.broadcast_to(lines, [n for pair in zip(times, shape) for n in pair])
    return packed(spread, tuple([n * length for n, length in zip(times, shape)]))


# diagonals and triangles


@implements(
    np.diagonal,
    [
        _X,
        one(2, 3, offset=1),
        one(3, 3, offset=-2),
        one(2, 3, offset=5),
        one(2, 3, 4),
        one(2, 3, 4, offset=1, axis1=2, axis2=0),
    ],
)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    a = lift(a)
    if len(a.shape) < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    if normalize_axis_index(axis1, len(a.shape)) == normalize_axis_index(axis2, len(a.shape)):
        raise ValueError("axis1 and axis2 cannot be the same")
    offset = operator.index(offset)
    return linked(_diagonal(a, offset, axis1, axis2), a, _DIAGONAL, offset, axis1, axis2)


def _diagonal(a: Any, offset: int, axis1: int, axis2: int) -> Any:
    if len(a.shape) > 2 or axis1 % 2 == 1:
        a = np.moveaxis(a, (axis1, axis2), (-2, -1))
    return _of_diagonal(a, offset)


def _put_diagonal(x: Any, offset: int, shape: tuple[int, ...]) -> Any:
    out, n = zeros(shape, x.dtype), shape[-1]
    places = out.reshape(*shape[:-2], shape[-2] * n)[..., max(offset, 0) - n * min(offset, 0) :: n + 1]
    places[..., : x.shape[-1]] = x
    return out


_of_diagonal: Any = linear(  # of the last two axes
    "diagonal",
    lambda x, offset: x.diagonal(offset, -2, -1),
    lambda g, _ans, _x, offset: on_diagonal(g, offset, _x.shape),
    batch="leading",
)
on_diagonal: Any = linear(
    "on_diagonal",
    _put_diagonal,
    lambda g, _ans, _x, offset, _shape: _of_diagonal(g, offset),
    batch=lambda size, x, offset, shape: on_diagonal(x, offset, (size, *shape)),
)
_DIAGONAL = View(_diagonal, None)  # read-only, as in NumPy


@implements(np.diag, [one(3), one(3, k=1), one(2, k=-1), _X, one(3, 2, k=-1), one(0)])
def diag(v: Any, k: int = 0) -> Any:
    v = lift(v)
    if len(v.shape) == 2:
        return diagonal(v, k)
    if len(v.shape) != 1:
        raise ValueError("Input must be 1- or 2-d.")
    k = operator.index(k)
    n = v.shape[0] + abs(k)
    return on_diagonal(v, k, (n, n))


@implements(np.diagflat, [_X, one(2, k=1), one(), one(3, k=-1)])
def diagflat(v: Any, k: int = 0) -> Any:
    return diag(ravel(v), k)


@implements(np.trace, [_X, one(3, 3, offset=1), one(2, 3, 4, axis1=1, axis2=2), one(2, 3, 4, offset=-1)])
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    return sum_(diagonal(a, offset, axis1, axis2), -1, dtype)


def _triangle(name: str, fun: Callable[..., Any]) -> Any:
    op: Any = linear(name, fun, lambda g, _ans, _x, k: op(g, k), batch="leading")  # of two axes or more
    return op


def _square(m: Any) -> Any:
    return m if len(m.shape) > 1 else np.broadcast_to(m, m.shape * 2)


_tril, _triu = _triangle("tril", np.tril), _triangle("triu", np.triu)


@implements(np.tril, [_X, one(3, 3, k=-1), one(2, 3, k=1), one(2, 3, 4), one(3)])
def tril(m: Any, k: int = 0) -> Any:
    return _tril(_square(lift(m)), as_numbers(k))


@implements(np.triu, [_X, one(3, 3, k=-1), one(2, 3, k=1), one(2, 3, 4), one(3)])
def triu(m: Any, k: int = 0) -> Any:
    return _triu(_square(lift(m)), as_numbers(k))


# copies, and arrays like another

_KEPT = [_X, one()]


@implements(np.copy, _KEPT)
def copy(a: Any, order: Any = "K", subok: bool = False) -> Any:
    a = lift(a)
    if not a.shape:
        return as_array(_shape.astype(a, a.dtype))
    lies = lying(a).flags
    if order == "F" and not lies.f_contiguous:
        return np.transpose(copy(np.transpose(a), "C"))
    if order == "C" and not lies.c_contiguous:
        return packed(a)
    return _shape.astype(a, a.dtype)


def _lies_in_c(a: Any) -> bool:
    """Whether an array that is no view is seen at once to lie in order C."""
    return type(a) is TapeTracer and type(a.below) is np.ndarray and a.below.flags.c_contiguous and getattr(a, "parent", None) is None


def order_of(a: Any) -> Any:
    """F, if that and nothing else is the order in which an array lies in memory; else C."""
    if _lies_in_c(a):
        return "C"
    return "F" if len(a.shape) > 1 and (lying(a) if isinstance(a, Tracer) else a).flags.fnc else "C"


def lying_as(a: Any, order: Any) -> Any:
    """`a`, copied if it does not lie in memory in this order, C or F."""
    if order == "C" and _lies_in_c(a):
        return a
    order = str(order or "K").upper()
    return copy(a, order) if order in "CF" and isinstance(a, Tracer) and not lying(a).flags[order + "_CONTIGUOUS"] else a


def _laid_out(name: str) -> Callable[..., Any]:
    fixed = {"ascontiguousarray": "C", "asfortranarray": "F"}.get(name)

    def function(a: Any, dtype: Any = None, *rest: Any, copy: bool | None = None, **keywords: Any) -> Any:
        a = a if isinstance(a, np.ndarray) else lift(a)
        if not isinstance(a, Tracer):
            return getattr(np, name)(a, dtype, *rest, **keywords, **({} if copy is None else {"copy": copy}))
        getattr(np, name)(np.zeros(1), None, *rest, **keywords)  # which takes order=, device= and like=, or says what is wrong
        if name == "asarray_chkfinite":
            np.asarray_chkfinite(value(a))
        out: Any = lying_as(as_array(typed(a, dtype)), fixed or keywords.get("order", *rest[:1]))
        if copy and out is a:
            out = _shape.astype(a, a.dtype)
        return out if out.shape or name.startswith("asa") else reshape(out, (1,))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`np.{name}`, of traced values too. NumPy's own function can't see them: use functrace.numpy's."
    return implements((), _KEPT, name=name)(function)


ascontiguousarray, asfortranarray, asarray = map(_laid_out, ("ascontiguousarray", "asfortranarray", "asarray"))
asanyarray, asarray_chkfinite = _laid_out("asanyarray"), _laid_out("asarray_chkfinite")


@implements((), _KEPT)
def require(a: Any, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Any:
    """`np.require`, of traced values too. NumPy's own function can't see them: use functrace.numpy's."""
    a = a if isinstance(a, np.ndarray) else lift(a)
    if not isinstance(a, Tracer):
        return np.require(a, dtype, requirements)
    np.require(np.zeros(1), None, requirements)  # says what is wrong
    wanted = {name.upper()[0] for name in requirements or ()}
    out = lying_as(as_array(typed(a, dtype)), (wanted & {*"CF"} or {None}).pop())
    return copy(out) if "O" in wanted and shared(out) else out


def _like(a: Any, dtype: Any, order: Any, shape: Any) -> tuple[Any, Any, Any]:
    a = lift(a)
    return a.shape if shape is None else shape, a.dtype if dtype is None else dtype, order_of(a) if order in ("K", "A") else order


_LIKE = [_X, one(), one(2, shape=(3, 1)), one(2, dtype=np.float32)]


@implements(np.zeros_like, _LIKE, constant=True)
def zeros_like(a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *, device: Any = None) -> Any:
    """`np.zeros_like`: an array that can take traced values."""
    return blank(np.zeros(*_like(a, dtype, order, shape)))


@implements(np.ones_like, _LIKE, constant=True)
def ones_like(a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *, device: Any = None) -> Any:
    """`np.ones_like`: an array that can take traced values."""
    return blank(np.ones(*_like(a, dtype, order, shape)))


@implements(np.empty_like, [one(0, 2)], constant=True)
def empty_like(prototype: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *, device: Any = None) -> Any:
    """`np.empty_like`: an array that can take traced values."""
    return blank(np.empty(*_like(prototype, dtype, order, shape)))


@implements(np.full_like, [each((2, 3), ()), each((2, 3), (3,), dtype=np.float64), each((2,), (), shape=(3,))])
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Any:
    """`np.full_like`; the fill may be traced."""
    shape, dtype, order = _like(a, dtype, order, shape)
    filled = lift(fill_value)
    if not isinstance(filled, Tracer):
        return blank(np.full(shape, fill_value, dtype, order))
    return copy(np.broadcast_to(typed(filled, dtype), shape), order)
