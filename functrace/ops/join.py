"""Joining arrays, splitting them, putting elements in and taking them out."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np

from functrace.ops.arrange import lying_as, order_of
from functrace.ops.create import fitted, lift
from functrace.ops.functions import concatenate, on_axis, reshape, single_axis
from functrace.ops.index import index
from functrace.ops.inplace import view
from functrace.ops.protocol import as_numbers
from functrace.ops.rebased import steady
from functrace.ops.registry import Sample, each, implements, one
from functrace.ops.shape import along


def _list(*shapes: tuple[int, ...], **kwargs: Any) -> Sample:
    return Sample(lambda rng: ([rng.normal(size=shape) for shape in shapes],), kwargs)


# splitting


def _cuts(a: Any, sections: Any, axis: int) -> list[tuple[int, int]]:
    n = a.shape[axis]
    if isinstance(sections, (int, np.integer)):
        if sections <= 0:
            raise ValueError("number sections must be larger than 0.")
        each, extra = divmod(n, int(sections))
        ends = np.cumsum([each + 1] * extra + [each] * (int(sections) - extra)).tolist()
        return list(zip([0, *ends[:-1]], ends))
    points = [0, *map(operator.index, sections), n]
    return list(itertools.pairwise(points))


@implements(
    np.array_split,
    [one(5, indices_or_sections=3), one(2, 5, indices_or_sections=[1, 3, 7], axis=1), one(3, 2, indices_or_sections=2, axis=-1)],
)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    a, indices_or_sections = lift(ary), as_numbers(indices_or_sections)
    axis = single_axis(a, axis)
    return [view(a, along(axis, slice(start, stop))) for start, stop in _cuts(a, indices_or_sections, axis)]


_SPLITS = [one(6, indices_or_sections=3), one(2, 5, indices_or_sections=(1, 3), axis=1), one(4, 2, indices_or_sections=[], axis=0)]


for _name, _samples in {
    "split": _SPLITS,
    "vsplit": [one(4, 3, indices_or_sections=2)],
    "hsplit": [one(2, 4, indices_or_sections=2), one(4, indices_or_sections=[1])],
    "dsplit": [one(2, 1, 4, indices_or_sections=2)],
}.items():
    steady(np, _name, _samples)


# joining


@implements(np.append, [each((2, 3), (4,)), each((2, 3), (1, 3), axis=0), each((), ())])
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    arrays = [lift(arr), lift(values)]
    return concatenate(arrays if axis is not None else [reshape(a, -1) for a in arrays], axis or 0)


def _stacking(name: str, least: int, shape_of: Any, axis: int, samples: list[Sample]) -> None:
    """Declare a function that joins arrays along an axis, after giving axes to those that have fewer than `least`."""

    def function(tup: Any, **casts: Any) -> Any:
        if unknown := casts.keys() - ({"dtype", "casting"} if name in ("hstack", "vstack") else ()):
            raise TypeError(f"{name}() got an unexpected keyword argument {unknown.pop()!r}")
        if not hasattr(tup, "__getitem__"):
            raise TypeError('arrays to stack must be passed as a "sequence" type such as list or tuple.')
        parts = [a if len(a.shape) >= least else reshape(a, shape_of(*a.shape)) for a in map(lift, tup)]
        return concatenate(parts, 0 if axis == 1 == len(parts[0].shape) else axis, **casts)

    function.__name__ = name
    function.__wrapped__ = getattr(np, name)  # type: ignore[attr-defined]  # of which `help` tells the arguments
    implements((getattr(np, name), getattr(np, "row_stack", None)) if name == "vstack" else getattr(np, name), samples)(function)


_stacking("column_stack", 2, lambda n=1: (n, 1), 1, [_list((3,), (3, 2)), _list((3,), (3,))])
_stacking(
    "dstack", 3, lambda m=1, *n: (m, *n, 1) if n else (1, m, 1), 2, [_list((2, 3), (2, 3)), _list((3,), (3,)), _list((2, 1, 3), (2, 1, 2))]
)
_stacking("hstack", 1, lambda: (1,), 1, [_list((2, 3), (2, 1)), _list((3,), (2,)), _list((), ())])
_stacking("vstack", 2, lambda n=1: (1, n), 0, [_list((2, 3), (1, 3)), _list((3,), (3,)), _list((), ())])


def _nested(*shapes: tuple[int, ...]) -> Sample:
    def draw(rng: np.random.Generator) -> tuple[Any, ...]:
        a, b, c, d = (rng.normal(size=shape) for shape in shapes)
        return ([[a, b], [c, d]],)

    return Sample(draw)


@implements(np.block, [_nested((2, 2), (2, 1), (1, 2), (1, 1)), _nested((2,), (1,), (2,), ()), _list((2,), (3,)), _list((2, 2), (2, 1))])
def block(arrays: Any) -> Any:

    def depth(x: Any) -> int:
        if isinstance(x, tuple):
            raise TypeError(
                "arrays is a tuple. Only lists can be used to arrange blocks, and np.block does not allow implicit conversion from "
                "tuple to ndarray."
            )
        if not isinstance(x, list):
            return 0
        if not x:
            raise ValueError("List depths are mismatched: an empty list")
        depths = {depth(item) for item in x}
        if len(depths) > 1:
            raise ValueError(f"List depths are mismatched. Elements have depths {sorted(depths)}")
        return 1 + depths.pop()

    def leaves(x: Any) -> list[Any]:
        return [leaf for item in x for leaf in leaves(item)] if isinstance(x, list) else [lift(x)]

    def join(x: Any, axis: int) -> Any:
        if not isinstance(x, list):
            x = lift(x)
            return reshape(x, (1,) * (ndim - len(x.shape)) + x.shape)
        return concatenate([join(item, axis + 1) for item in x], axis)

    levels = depth(arrays)
    ndim = max(levels, *(len(leaf.shape) for leaf in leaves(arrays)))
    return join(arrays, ndim - levels)


# elements in and out


def _into(values_shape: tuple[int, ...], obj: Any, **kwargs: Any) -> Sample:
    def draw(rng: np.random.Generator) -> tuple[Any, ...]:
        return rng.normal(size=(2, 3)), obj, rng.normal(size=values_shape)

    return Sample(draw, kwargs, (0, 2))


@implements(
    np.insert,
    [
        _into((), 1),
        _into((3,), 1, axis=0),
        _into((2,), -1, axis=1),
        _into((2,), [1, 1]),
        _into((2, 2), [0, 2], axis=1),
        _into((), slice(0, 2), axis=1),
        _into((3,), [2, 0], axis=0),
    ],
)
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    arr = lift(arr)
    if lift(values).dtype.kind == "c" and arr.dtype.kind != "c":
        raise TypeError(f"insert: complex values do not fit an array of {arr.dtype}")
    values = fitted(values, arr.dtype)
    # The positions of the elements stand for them, those of `values` numbered on, and are put in NumPy's way.
    ours = np.arange(arr.size).reshape(arr.shape)
    theirs = np.arange(arr.size, arr.size + values.size).reshape(values.shape)
    positions = np.insert(ours, as_numbers(obj), theirs, axis)
    return lying_as(index(concatenate([reshape(arr, -1), reshape(values, -1)], 0), positions), order_of(arr))


@implements(
    np.delete,
    [one(2, 3, obj=1), one(2, 3, obj=[0, -1], axis=1), one(2, 3, obj=slice(0, 2), axis=-1), one(3, obj=np.array([True, False, True]))],
)
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    arr, axis = on_axis(arr, axis)
    return lying_as(index(arr, along(axis, np.delete(np.arange(arr.shape[axis]), as_numbers(obj)))), order_of(arr))
