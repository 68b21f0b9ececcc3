"""Reductions over a short last axis, where NumPy would start its loop anew for each row."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from functrace.pool import empty

LAST = (-1, (-1,))
_add: Any = np.add.reduce
_SHORT, _MANY = 16, 4096
LONGEST = 64  # row of which BLAS adds the elements as exactly as NumPy does
_ALONE = 8192  # elements up to which BLAS stays on one thread


def short(x: Any) -> bool:
    """Whether an array has so many rows, and so short, that going through its columns is faster."""
    return len(x.shape) > 1 and 1 < x.shape[-1] < _SHORT and x.size >= _MANY and x.dtype.char in "fd"


def added(x: Any, keepdims: bool) -> Any:
    """The sum of the columns: the same bits as NumPy's, which adds fewer than 8 elements one after the other, and of more the
    first 8 by pairs.
    """
    n = x.shape[-1]
    x = np.asarray(x)
    total = np.add(x[..., 0], x[..., 1], out=empty(x.shape[:-1], x.dtype))
    if n >= 8:
        total += x[..., 2] + x[..., 3]
        late = x[..., 4] + x[..., 5]
        late += x[..., 6] + x[..., 7]
        total += late
    for k in range(8 if n >= 8 else 2, n):
        total += x[..., k]
    return total[..., None] if keepdims else total


def extreme(ufunc: Any, x: Any, keepdims: bool) -> Any:
    """The maximum or minimum of the columns."""
    x = np.asarray(x)
    best = ufunc(x[..., 0], x[..., 1], out=empty(x.shape[:-1], x.dtype))
    for k in range(2, x.shape[-1]):
        ufunc(best, x[..., k], out=best)
    return best[..., None] if keepdims else best


def checksum(x: Any) -> Any:
    """A number that is finite only if every element of `x` is: the sum of the squares, quickest to make, or if that is not, the sum."""
    if type(x) is np.ndarray and x.flags.c_contiguous:
        squares = np.vdot(x, x)
        if np.isfinite(squares):
            return squares
    return x.sum() if x.shape else x


@lru_cache(maxsize=256)
def _ones(n: int, dtype: Any) -> Any:
    return np.ones(n, dtype)


def summed(x: Any, keepdims: bool, out: Any = None) -> Any:
    """The sum over the last axis as products with a vector of ones, which BLAS does many times as fast; equal to rounding."""
    n = x.shape[-1]
    if out is None:
        out = np.empty((*x.shape[:-1], 1) if keepdims else x.shape[:-1], x.dtype)
    if not (n and x.flags.c_contiguous and out.flags.c_contiguous):
        return _add(x, -1, None, out, keepdims)
    ones, count = _ones(n, x.dtype), _ALONE // n
    x, flat = x.reshape(-1, n), out.reshape(-1)
    whole = len(x) - len(x) % count
    if whole:
        np.matmul(x[:whole].reshape(-1, count, n), ones, flat[:whole].reshape(-1, count))
    if whole < len(x):
        np.dot(x[whole:], ones, flat[whole:])
    return out
