"""Elements along one axis: those that an array of places names, and those in order."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from functrace.torch._contact import Tracer, at_axis, floats, index_add, read
from functrace.torch._dtypes import as_int64

_FEW, MANY = 1 << 8, 1 << 11  # elements from which on it is worth the calls to count places through the whole array: to add, to read


def grid(shape: Sequence[int]) -> tuple[Any, ...]:
    """The places along each axis, as arrays that broadcast to a shape; sooner than `np.ix_`."""
    return tuple(np.arange(n).reshape(-1, *(1,) * (len(shape) - 1 - k)) for k, n in enumerate(shape))


_known_grid = functools.lru_cache(1 << 8)(grid)  # of few elements, whose places take longer to make than to read


def outside(index: Any, n: int) -> bool:
    """Whether an array of integers has one that is not in `range(n)`."""
    return bool(index.size and _most(index.view(index.dtype.char.upper()), axis=None) >= n)  # negative ones are large without their sign


_most: Any = np.maximum.reduce


def key_along(index: Any, k: int) -> tuple[Any, ...]:
    """The index with which `x[key][i, j] == x[index[i, j], j]` along axis 0, and so on."""
    places = _known_grid(index.shape) if index.size < _FEW else grid(index.shape)
    return (*places[:k], index, *places[k + 1 :])


def counted(shape: Sequence[int], index: Any, k: int) -> Any:
    """The places of `key_along`, counted through the whole array: NumPy is three times as fast at one index."""
    at, step = index.astype(np.intp, copy=False), math.prod(shape[k + 1 :])
    at, step = at if step == 1 else at * step, 1
    for j in range(len(shape) - 1, -1, -1):
        if j != k:
            at = at + (np.arange(index.shape[j]) * step).reshape(-1, *(1,) * (len(shape) - 1 - j))
        step *= shape[j]
    return at


def taken(x: Any, index: Any, k: int) -> Any:
    """The elements along axis k that an index names, which lie within the array."""
    if type(x) is type(index) is np.ndarray:
        far = index.size >= MANY and x.flags.c_contiguous
        return x.reshape(-1)[counted(x.shape, index, k)] if far else x[key_along(index, k)]
    return read(x, key_along(index, k))


def picked(x: Any, index: Any, k: int) -> Any:
    """`x` at `index` along axis k, which the index does not have."""
    if type(x) is type(index) is np.ndarray and index.size < _FEW:
        places = _known_grid(index.shape)
        return x[(*places[:k], index, *places[k:])]
    return np.squeeze(taken(x, np.expand_dims(index, k), k), k)


def untaken(g: Any, _ans: Any, _x: Any, index: Any, k: int) -> Any:
    """The cotangent of what `taken` takes from; of half numbers in float32."""
    g = floats(g)
    out: Any = np.zeros(_x.shape, g.dtype)
    if type(g) is not np.ndarray or type(index) is not np.ndarray:
        return index_add(out, g, key_along(index, k))
    if index.size < _FEW:
        np.add.at(out, key_along(index, k), g)
    else:
        np.add.at(out.reshape(-1), counted(_x.shape, index, k).reshape(-1), g.reshape(-1))
    return out


def unpick(g: Any, r: Any, _x: Any, k: int, keepdim: bool = True) -> Any:
    """The gradient of `values` put where `indices` say."""
    indices: Any = r[1]
    g = g[0]
    if not len(_x.shape):
        return g
    if not keepdim:
        indices, g = (a.reshape((*_x.shape[:k], 1, *_x.shape[k + 1 :])) for a in (indices, g))
    if isinstance(indices, Tracer):
        places = np.reshape(np.arange(_x.shape[k]), (-1, *(1,) * (len(_x.shape) - k)))
        return np.sum(np.where(np.expand_dims(cast("Any", indices), k) == places, np.expand_dims(g, k), np.zeros((), g.dtype)), axis=k + 1)
    return untaken(g, None, _x, indices, k)


def put_in_order(x: Any, k: int, descending: bool) -> Any:
    """The elements in order along axis k, equal ones as they stood, and where they were. NaN counts as the largest."""
    lead, n = (slice(None),) * k, x.shape[k]
    back = (*lead, slice(None, None, -1))
    if type(x) is np.ndarray and x.size >= MANY and x.itemsize >= 4 and x.dtype.kind in "fiu":  # NumPy's quickest, which is not stable
        order = as_int64(np.argsort(x, axis=k))
        order = order[back].copy() if descending else order
        values = taken(x, order, k)
        low, high = (values[(*lead, part)] for part in (slice(None, -1), slice(1, None)))
        if not np.all(low > high if descending else low < high):
            new = (low != high) & ((low == low) | (high == high))
            runs = np.concatenate([np.zeros_like(order[(*lead, slice(1))]), np.cumsum(new, axis=k)], axis=k)
            order = np.sort(runs * n + order, axis=k) % n
            values = taken(x, order, k)
        return values, order
    order = as_int64(n - 1 - np.argsort(x[back], axis=k, kind="stable")[back] if descending else np.argsort(x, axis=k, kind="stable"))
    return taken(x, order, k), order


def foremost(x: Any, k: int, n: int, largest: bool) -> Any:
    """The n first elements of an order. Of long lines only those are put in order, unless others equal the last of them."""
    size = x.shape[k]
    if n == 1 and largest and type(x) is np.ndarray and x.size:  # NaN is the largest here too
        order = as_int64(x.argmax(axis=k, keepdims=True))
        return taken(x, order, k), order
    if type(x) is np.ndarray and 0 < n < size // 8 and x.size >= MANY:
        place = size - n if largest else n - 1
        last = np.partition(x, place, axis=k)[at_axis(k, slice(place, place + 1))]
        chosen = ~(x < last if largest else x > last)  # a line with NaN has others
        if np.count_nonzero(chosen) == n * (x.size // size):
            lines = np.moveaxis(chosen, k, -1)
            few = np.moveaxis((as_int64(np.flatnonzero(lines)) % size).reshape(*lines.shape[:-1], n), -1, k)
            values, order = put_in_order(taken(x, few, k), k, largest)
            return values, taken(few, order, k)
    first = at_axis(k, slice(n))
    return tuple(np.copy(a[first]) for a in put_in_order(x, k, largest))
