"""Reading and writing plain arrays at an index, in the way that NumPy is fastest at."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Index = Any
PLAIN = frozenset((int, slice, type(None), type(...)))  # parts of an index
_SMALL, _MANY = 256, 1 << 10  # elements


def parts_of(index: Index) -> tuple[Any, ...]:
    """The parts of an index, one for each axis that it names."""
    return index if isinstance(index, tuple) else (index,)


def is_basic(index: Index) -> bool:
    """Whether an index makes a view: no arrays, lists or masks in it. Such an index reads no element twice."""
    for p in index if isinstance(index, tuple) else (index,):
        if type(p) not in PLAIN and (isinstance(p, bool) or not isinstance(p, (int, np.integer))):
            return False
    return True


def keeps_all(index: Index, before: Any, after: Any) -> bool:
    """Whether an index takes all elements in their order, given what is known of the array and of the result: it adds axes of length 1,
    or leaves them out.
    """
    same = math.prod(before.shape) == math.prod(after.shape)
    return same and is_basic(index) and not any(isinstance(p, slice) and (p.step or 1) < 0 for p in parts_of(index))


def taken(shape: tuple[int, ...], index: Index) -> tuple[Any, int | None] | None:
    """What NumPy's `take` reads for an index, and along which axis, where that is faster, or leaves in C order what the index leaves
    turned.
    """
    whole = type(index) is tuple and len(index) > 1 and all(type(p) is slice and p == slice(None) for p in index[:-1])
    if whole and _of_rows(index[-1]) is not None:
        return (index[-1], len(index) - 1) if index[-1].ndim > 1 else None
    if type(index) is np.ndarray and _whole_rows(shape, index):
        return index, 0
    if type(index) is np.ndarray and _whole_mask(shape, index):
        return index.reshape(-1).nonzero()[0], None
    if type(index) is np.ndarray and index.dtype == np.bool_ and len(shape) == 2 and index.shape == shape[:1] and len(index) >= _SMALL:
        return index.nonzero()[0], 0
    return None


def distinct(shape: tuple[int, ...], index: Index) -> bool:
    """Whether an index reads no element twice."""
    counts = np.zeros(shape, np.intp)
    np.add.at(counts, index, 1)
    return bool(counts.max(initial=0) <= 1)


def _whole_rows(shape: tuple[int, ...], index: np.ndarray[Any, Any]) -> bool:
    """Whether so many rows of a matrix are read that NumPy's `take`, which copies a row at once, is several times as fast."""
    return len(shape) == 2 and index.dtype.kind == "i" and index.size >= max(_SMALL, shape[0])


def _whole_mask(shape: tuple[int, ...], index: np.ndarray[Any, Any]) -> bool:
    """Whether a mask chooses from so many elements that to count the places, and to go by these, is several times as fast: NumPy goes
    by a mask from one run of elements to the next, at branches that the CPU can't guess.
    """
    return index.dtype == np.bool_ and index.shape == shape and index.size >= _MANY


def _opened(x: Any, index: Index) -> tuple[Any, Index]:
    """An array to be written to and an index; for a mask of all of a large one a flat view and the places that are chosen."""
    if type(index) is np.ndarray and _whole_mask(x.shape, index) and x.flags.c_contiguous:
        return x.reshape(-1), index.reshape(-1).nonzero()[0]
    return x, index


def read(x: Any, index: Index) -> Any:
    """`x[index]`."""
    if type(index) is np.ndarray and (found := taken(x.shape, index)) is not None:
        return x.take(*found)
    return x[index]


def add_in(x: Any, v: Any, index: Index) -> Any:
    """`x`, added to; to an element that is named twice, twice."""
    if is_basic(index) or is_mask(index):
        part, at = _opened(x, index)
        part[at] += v
    elif _counted(x, v, index):
        pass
    elif x.ndim == 2 and v.size >= _MANY and x.flags.f_contiguous and (at := _of_rows(index)) is not None:
        for column, y in zip(x.T, np.broadcast_to(v, (*at.shape, x.shape[1])).reshape(-1, x.shape[1]).T):
            np.add.at(column, at.reshape(-1), y)
    elif max(x.ndim, v.ndim) > 1 and x.flags.forc and v.size >= _MANY and (_of_rows(index) is not None or 8 * v.size >= x.size):
        _add_flat(x, v, _places(x, index))
    else:
        np.add.at(x, index, v)
    return x


def add_at(x: Any, v: Any, index: Index, places: Any) -> Any:
    """`add_in`, for `known_places`: to find them takes as long as to add."""
    if not x.flags.c_contiguous:
        return add_in(x, v, index)
    _add_flat(x, v, places)
    return x


def _add_flat(x: Any, v: Any, places: Any) -> None:
    """Add at places in the memory of an array that is one block: NumPy adds several times as fast at one index."""
    v = v if v.shape == places.shape else np.broadcast_to(v, places.shape)
    np.add.at(x.reshape(-1, order="A"), places.reshape(-1), v.reshape(-1))


def known_places(shape: tuple[int, ...], index: Index) -> Any:
    """Where what an index reads lies in an array, in C order, for `add_at`; None if that is not the fastest way to add it."""
    if is_basic(index) or is_mask(index):
        return None
    places = _places(np.empty(shape), index)
    return places if places.size >= _MANY and max(len(shape), places.ndim) > 1 else None


def _of_rows(index: Index) -> Any:
    """The numbers of the rows that an index names; None if it is of another kind."""
    at: Any = index[0] if type(index) is tuple and len(index) == 1 else index
    return at if isinstance(at, np.ndarray) and at.dtype.kind == "i" else None


def _places(buffer: Any, index: Index) -> Any:
    """Where what an index reads lies in the memory of an array that is one block."""
    shape, jumps = buffer.shape, [n // buffer.itemsize for n in buffer.strides]
    parts = parts_of(index)
    plain = len(parts) <= len(shape) and all(isinstance(p, np.ndarray) and p.dtype.kind == "i" for p in parts_of(index))
    if not plain or not all(p.size and p.min() >= 0 and p.max() < n for p, n in zip(parts, shape)):
        order: Any = "C" if buffer.flags.c_contiguous else "F"
        return np.arange(buffer.size).reshape(shape, order=order)[index]
    at: Any = sum(p.astype(np.intp) * n for p, n in zip(parts, jumps))
    for n, jump in zip(shape[len(parts) :], jumps[len(parts) :]):
        at = at[..., None] + np.arange(n) * jump
    return at


def _counted(buffer: Any, g: Any, index: Index) -> bool:
    """Add rows to zeros, one column after the other: `np.bincount` takes a third of the time, for the same bits. False if it can't."""
    at = _of_rows(index)
    if buffer.ndim != 2 or at is None or not at.size >= max(_MANY, len(buffer) // 2):
        return False
    n, width = buffer.shape
    values = np.broadcast_to(g, (*at.shape, width))
    if not width or not (width <= 4 or values.strides[-2] == g.itemsize) or buffer.dtype.char != "d" or g.dtype.char != "d":
        return False
    if at.min() < 0 or at.max() >= n or buffer.view(np.int64).any():
        return False
    for column, v in zip(buffer.T, values.reshape(-1, width).T):
        column[:] = np.bincount(at.reshape(-1), v, n)
    return True


def is_mask(index: Index) -> bool:
    """Whether an index is a mask, and nothing else."""
    return isinstance(index, np.ndarray) and index.dtype == bool


def set_in(x: Any, v: Any, index: Index) -> Any:
    """`x`, written to."""
    part, at = _opened(x, index)
    part[at] = v
    return x
