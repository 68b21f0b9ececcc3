"""NumPy's everyday functions over the primitives: what has a NumPy signature but no rules of its own."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from functrace import errors
from functrace.core.tracer import Tracer
from functrace.ops import index as _index
from functrace.ops import reduce as _reduce
from functrace.ops import shape as _shape
from functrace.ops.contract import matmul as _matmul
from functrace.ops.create import cast, lift, operand, typed
from functrace.ops.inplace import BROADCAST, linked, permuted, reshaped, shared
from functrace.ops.registry import Sample, apart, each, implements, normal, on, one, reductions

Axis = Any
_X = one(2, 3)


_REDUCED = [*reductions(normal), one(), one(1, axis=0)]
_RANKED = [*reductions(apart), Sample(apart(())), Sample(apart((1,)), {"axis": 0})]


def refuse(function: str, **keywords: Any) -> None:
    """Raise for a keyword that a function does not honour."""
    for name, (given, default) in keywords.items():
        if given is not default and not (np.isscalar(given) and given == default):
            raise errors.UnsupportedError(f"{function}: the keyword {name}= has no derivative rule in functrace.\n  Leave it out.")


def single_axis(x: Any, axis: Any) -> int:
    """A non-negative axis."""
    return int(normalize_axis_index(axis, x.ndim))


def on_axis(a: Any, axis: Any, scalars: bool = False) -> tuple[Any, int]:
    """An array and one axis of it; flat, where `axis` is None; with `scalars` they have an axis, 0 or -1."""
    a = lift(a)
    return (reshape(a, -1), 0) if axis is None or scalars and not a.shape and axis in (0, -1) else (a, single_axis(a, axis))


def all_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes that are named, none negative, or all for None."""
    return tuple(range(ndim)) if axis is None else normalize_axis_tuple(axis, ndim)


def lengths(shape: Any) -> tuple[int, ...]:
    """A shape given as an integer or a sequence of them."""
    if type(shape) is int:  # NumPy's answer to how many axes a number has takes its time
        return (shape,)
    return tuple(map(operator.index, shape)) if isinstance(shape, (tuple, list)) or np.ndim(shape) else (operator.index(shape),)


def with_ones(shape: tuple[int, ...], axes: Sequence[int]) -> tuple[int, ...]:
    """A shape, but these axes of length 1."""
    return tuple(1 if k in axes else n for k, n in enumerate(shape))


def reduced_axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """The axes of a reduction: None, an integer, or a tuple, as for NumPy's ufuncs; a scalar has an axis for 0 and -1."""
    if axis is None or not ndim and axis in (0, -1):
        return tuple(range(ndim))
    return normalize_axis_tuple(axis if isinstance(axis, tuple) else operator.index(axis), ndim)


@implements(np.shape, [_X], constant=True)
def shape(a: Any) -> Any:
    return lift(a).shape


@implements(np.ndim, [_X], constant=True)
def ndim(a: Any) -> Any:
    return len(lift(a).shape)


@implements(np.size, [_X, one(2, 3, axis=1)], constant=True)
def size(a: Any, axis: Any = None) -> Any:
    a = lift(a)
    return a.size if axis is None else math.prod([a.shape[k] for k in normalize_axis_tuple(axis, len(a.shape))])


ABSENT: Any = inspect.signature(np.max).parameters["keepdims"].default  # NumPy's default of what may be None


def kept(keepdims: Any) -> bool:
    """Whether `keepdims` asks for it."""
    return keepdims is not ABSENT and bool(keepdims)


def picked(where: Any, a: Any) -> Any:
    """The mask `where` of a reduction of `a`: booleans that broadcast to its shape."""
    where = cast(lift(where), np.bool_, "safe")
    if np.broadcast_shapes(where.shape, a.shape) != a.shape:
        raise ValueError(f"where, of shape {where.shape}, does not broadcast to the shape {a.shape} of what is reduced")
    return where


def begun(initial: Any, dtype: Any) -> Any:
    """`initial` of a reduction as a number of the dtype of its result."""
    initial = lift(initial)
    if initial.shape:
        raise ValueError(f"initial must be a number, got {errors.describe(initial)}")
    if initial.dtype.kind == "c" and dtype.kind != "c":
        raise TypeError(f"initial must be a number that fits {dtype}, got {errors.describe(initial)}")
    initial = initial.astype(dtype)
    return initial[()] if isinstance(initial, np.ndarray) else initial


@implements(np.sum, _REDUCED + [on(0, dtype=np.float64), on(1, initial=2.0), on(1, where=np.arange(4) > 1)])
def sum_(
    a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Any:
    a = lift(a)
    if where is not True:
        a = _index.where(picked(where, a), a, np.zeros((), a.dtype))
    if dtype is not None:
        a = typed(a, dtype)
    elif a.dtype.kind in "bui":
        a = _shape.astype(a, np.sum(np.zeros(0, a.dtype)).dtype)
    total = _reduce.sum_(a, axis, kept(keepdims))
    if dtype is not None and total.dtype != dtype:
        total = total.astype(dtype)  # NumPy adds bool and short integers as they are
    return total if initial is None or initial is ABSENT else total + begun(initial, total.dtype)


@implements((np.max, np.amax), _RANKED)
def max_(a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True) -> Any:
    """`np.max`; ties share the derivative evenly."""
    return _extreme(_reduce.max_, np.maximum, a, axis, keepdims, initial, where)


@implements((np.min, np.amin), _RANKED)
def min_(a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True) -> Any:
    """`np.min`; ties share the derivative evenly."""
    return _extreme(_reduce.min_, np.minimum, a, axis, keepdims, initial, where)


def _extreme(reduce: Any, of_two: np.ufunc, a: Any, axis: Axis, keepdims: bool, initial: Any, where: Any) -> Any:
    a, keepdims = lift(a), kept(keepdims)
    if initial is None or initial is ABSENT:
        if where is not True:
            what = f"reduction operation {of_two.__name__}"
            raise ValueError(f"{what} does not have an identity, so to use a where mask one has to specify 'initial'")
        return reduce(a, axis, keepdims)
    initial = begun(initial, a.dtype)
    if not a.size:
        shape = np.empty(a.shape, bool).any(axis, keepdims=keepdims).shape
        return broadcast_to(initial, shape) if shape else initial
    if where is not True:
        a = _index.where(picked(where, a), a, initial)
    return of_two(reduce(a, axis, keepdims), initial)


@implements(
    np.reshape,
    [
        Sample(lambda rng: (rng.normal(size=(2, 3)), (3, -1))),
        Sample(lambda rng: (rng.normal(size=(2, 3)), -1)),
        Sample(lambda rng: (rng.normal(size=(2, 3)), (3, 2)), {"order": "F"}),
        Sample(lambda rng: (rng.normal(size=(0, 3)), (3, -1, 2))),
        Sample(lambda rng: (rng.normal(size=()), (1, 1))),
    ],
)
def reshape(a: Any, /, shape: Any = None, order: Any = "C", *, copy: bool | None = None) -> Any:
    """`np.reshape`; of traced values in order C or F only."""
    a = lift(a)
    old = a.shape
    if order != "C":
        order = layout(order, len(old))
    shape = lengths(shape)
    size, wanted = math.prod(old), math.prod(shape)
    if wanted < 0 and shape.count(-1) == 1 and size % wanted == 0:
        shape = tuple(-size // wanted if n == -1 else n for n in shape)
    elif wanted != size or wanted == 0:
        shape = np.empty(old, np.bool_).reshape(shape).shape  # NumPy's own reading, and errors
    if shape == old and order == "C":
        return a if not copy else _shape.astype(a, a.dtype)
    out = reshaped(a, shape) if order == "C" else reshaped(np.transpose(a), shape[::-1])
    if copy is False and not shared(out):
        raise ValueError("Unable to avoid creating a copy while reshaping.")
    out = _shape.astype(out, out.dtype) if copy else out
    return out if order == "C" else np.transpose(out)


def layout(order: Any, ndim: int) -> str:
    """The order, C or F, that `order` asks for."""
    np.empty((1, 1)).flatten(order)  # NumPy's error for what is none
    order = str(order or "C").upper()
    if order in "KA" and ndim > 1:
        raise errors.UnsupportedError(
            f"order={order!r} depends on the layout in memory, which a traced value does not fix.\n  Use order='C' or 'F'."
        )
    return "F" if order == "F" else "C"


@implements(np.transpose, [_X, one(2, 3, 4, axes=(1, 2, 0)), one(2, 3, 4, axes=(-1, 0, 1))])
def transpose(a: Any, axes: Any = None) -> Any:
    a = lift(a)
    ndim = len(a.shape)
    if axes is None:
        return permuted(a, tuple(range(ndim))[::-1])
    axes = tuple([normalize_axis_index(k, ndim) for k in axes])
    if not len(axes) == ndim == len({*axes}):
        raise ValueError("axes don't match array")
    return permuted(a, axes)


@implements(np.broadcast_to, [one(3, shape=(2, 3)), one(2, 1, shape=(4, 2, 3)), one(shape=(2,))])
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    array = lift(array)
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    return array if shape == array.shape else linked(_shape.broadcast_to(array, shape), array, BROADCAST, shape)


def _cast(parts: list[Any], dtype: Any, casting: str) -> list[Any]:
    if dtype is None and len({p.dtype for p in parts}) == 1:
        return parts
    joined = np.result_type(*(p.dtype for p in parts)) if dtype is None else np.dtype(dtype)
    return [cast(p, joined, casting) for p in parts]


@implements(
    np.concatenate,
    [
        Sample(lambda rng: ([rng.normal(size=(2, 3)), rng.normal(size=(1, 3))],)),
        Sample(lambda rng: ([rng.normal(size=(2, 3)), rng.normal(size=(2, 1))],), {"axis": -1}),
        Sample(lambda rng: ([rng.normal(size=(2, 3)), rng.normal(size=(2,))],), {"axis": None}),
    ],
)
def concatenate(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    parts = [lift(a) for a in (arrays if isinstance(arrays, (list, tuple)) else list(arrays))]
    if axis is None:
        parts, axis = [np.reshape(p, -1) for p in parts], 0
    if () in [p.shape for p in parts]:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    parts = _cast(parts, dtype, casting)
    return _shape.concatenate(*parts, params=(single_axis(parts[0], axis),))


@implements(np.stack, [Sample(lambda rng: ([rng.normal(size=(2, 3)), rng.normal(size=(2, 3))],), {"axis": axis}) for axis in (0, 1, -1)])
def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    parts = [lift(a) for a in arrays]
    if not parts:
        raise ValueError("need at least one array to stack")
    if any(p.shape != parts[0].shape for p in parts):
        raise ValueError("all input arrays must have the same shape")
    parts = _cast(parts, dtype, casting)
    return _shape.stack(*parts, params=(int(normalize_axis_index(axis, parts[0].ndim + 1)),))


@implements(
    np.where,
    [
        Sample(lambda rng: (rng.normal(size=(2, 3)) > 0, rng.normal(size=(2, 3)), rng.normal(size=(3,))), wrt=(1, 2)),
        Sample(lambda rng: (rng.normal(size=(3,)) > 0, rng.normal(), rng.normal(size=(2, 1))), wrt=(2,)),
    ],
)
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    if x is None and y is None:
        return np.nonzero(condition)
    out = _index.where(lift(condition), operand(x), operand(y))
    if not out.shape and isinstance(out, Tracer):
        out.views = []  # an array, also of an example in a batch
    return out


@implements(
    np.matmul, [each((2, 3), (3, 4)), each((3,), (3,)), each((5, 2, 3), (3,)), each((3,), (5, 3, 2)), each((5, 1, 2, 3), (4, 3, 2))]
)
def matmul(x1: Any, x2: Any, /) -> Any:
    """`np.matmul`, the operator `@`."""
    return _matmul(lift(x1), lift(x2))


@implements(np.mean, _REDUCED[:-1] + [on(-1, where=np.arange(4) > 1)])
def mean(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True) -> Any:
    a, keepdims = lift(a), kept(keepdims)
    if dtype is None and a.dtype.char == "e":  # which NumPy sums in float32
        return mean(a.astype(np.float32), axis, keepdims=keepdims, where=where).astype(a.dtype)
    dtype = np.dtype(dtype) if dtype is not None else (a.dtype if a.dtype.kind in "fc" else np.dtype(float))
    plain = where is True and dtype is a.dtype
    total = _reduce.sum_(a, axis, keepdims) if plain else sum_(a, axis, dtype, None, keepdims, where=where)
    if where is not True:
        count = lift(np.sum(np.broadcast_to(where, a.shape), axis=axis, keepdims=keepdims)).astype(total.real.dtype)
    else:
        count = a.size if axis is None else math.prod([a.shape[k] for k in normalize_axis_tuple(axis, len(a.shape))])
    return total / count if dtype.kind in "fc" else (total / count).astype(dtype)
