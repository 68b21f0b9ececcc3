"""Sorting, and the set functions that rest on it. The permutation is found once, and the derivative follows the elements.

Sorting is always stable, so that ties have one answer on every machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.ops.arrange import lying_as, order_of
from functrace.ops.constants import NAMED, constant_op
from functrace.ops.create import lift, typed
from functrace.ops.functions import on_axis, refuse, reshape
from functrace.ops.index import index
from functrace.ops.protocol import as_numbers
from functrace.ops.rebased import steady
from functrace.ops.reduce import argsort as _argsort
from functrace.ops.registry import Sample, apart, given, implements
from functrace.ops.select import take_along


def _apart(*shape: int, **kwargs: Any) -> Sample:
    return Sample(apart(shape), kwargs)


@implements(
    np.sort,
    [
        _apart(5),
        _apart(2, 3, axis=0),
        _apart(2, 3, axis=None),
        Sample(apart((2, 3, 4)), {"axis": 1}),
        _apart(4, kind="heapsort"),
        _apart(4, stable=True),
        _apart(1),
        _apart(0),
    ],
    note="always stable",
)
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None, descending: bool = False) -> Any:
    """`np.sort`, and the array API's `descending`; always stable, whatever `kind`."""
    refuse("sort", order=(order, None))
    if kind is not None or stable is not None:
        np.empty(0).sort(kind=kind, stable=stable)  # NumPy's errors
    a, axis = on_axis(a, axis)
    if descending:
        return np.flip(sort(np.flip(a, axis), axis), axis)
    out = take_along(a, _argsort(a, axis), params=(axis,))
    return out if len(a.shape) == 1 else lying_as(out, order_of(a))


_argpartition = NAMED["argpartition"].op


@implements(
    np.partition,
    [_apart(1, kth=0), _apart(2, 1, kth=0, axis=0), Sample(apart((2, 2)), {"kth": (0, 1), "axis": 1}), _apart(2, kth=(0, 1), axis=None)],
)
def partition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Any:
    refuse("partition", order=(order, None))
    np.empty(1).partition(0, kind=kind)  # type: ignore[arg-type]  # NumPy's errors
    a, axis = on_axis(a, axis)
    return lying_as(take_along(a, _argpartition(a, params=(as_numbers(kth), axis)), params=(axis,)), order_of(a))


# sets: the first of equal elements stands for them all, as np.unique's return_index says

_first = constant_op("unique", lambda a, axis, equal_nan: np.unique(a, True, True, True, axis, equal_nan=equal_nan)[1:], multi=True)


@implements(
    np.unique,
    [
        _apart(4),
        _apart(2, 3),
        given([[1.0, 2.0], [0.5, 3.0], [1.5, 2.5]], axis=0),
        _apart(4, return_index=True, return_inverse=True, return_counts=True),
        _apart(2, 3, return_inverse=True),
    ],
    note="the derivative goes to the first of equal elements",
)
def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: Any = None, *,
    equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    """`np.unique`, sorted; the derivative goes to the first of equal elements."""
    a = lift(ar)
    first, inverse, counts = _first(a, params=(axis, equal_nan))
    values = index(reshape(a, -1), first) if axis is None else np.take(a, first, axis)
    extra = [x for x, wanted in ((first, return_index), (inverse, return_inverse), (counts, return_counts)) if wanted]
    return (values, *extra) if extra else values


_APART = Sample(lambda rng: (np.array([3.0, 1.0, 2.0]), np.array([0.5, 2.5])), wrt=(0, 1))
_SHARED = Sample(lambda rng: (np.array([3.0, 1.0, 2.0, 1.0]), np.array([1.0, 2.0, 5.0])), wrt=())

for _name, _samples in {
    "unique_values": [_apart(1)],  # NumPy leaves their order open
    "unique_counts": [_apart(4)],
    "unique_inverse": [_apart(4)],
    "unique_all": [_apart(4)],
    "sort_complex": [_apart(4), _apart(2, 3)],
    "union1d": [_APART, _SHARED],
    "setxor1d": [_APART, _SHARED],
}.items():
    steady(np, _name, _samples)


@implements(np.intersect1d, [_SHARED, _SHARED._replace(kwargs={"return_indices": True})])
def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """`np.intersect1d`; of equal elements the derivative goes to the first array's."""
    a, b = reshape(lift(ar1), -1), reshape(lift(ar2), -1)
    first, second = _common(a, b, params=(assume_unique,))
    values = typed(index(a, first), np.result_type(a.dtype, b.dtype))
    return (values, first, second) if return_indices else values


_common = constant_op("intersect1d", lambda a, b, assume_unique: np.intersect1d(a, b, assume_unique, return_indices=True)[1:], multi=True)


@implements(np.setdiff1d, [_APART, _SHARED])
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    a = reshape(lift(ar1), -1) if assume_unique else unique(ar1)
    return index(a, np.flatnonzero(np.isin(a, ar2, assume_unique=assume_unique, invert=True)))
