"""Sums by BLAS, which does some of them many times as fast as NumPy: as products with a vector of ones; equal to rounding.

For many elements BLAS takes a second thread, which afterwards keeps a core busy for a tenth of a second, waiting for more to do: NumPy's
loops, and ours on several threads, would run beside it. So the products here are of pieces, each small enough for one thread.
"""

from __future__ import annotations

import math
from functools import lru_cache
from math import isfinite
from typing import Any

import numpy as np

from functrace.pool import Recycled, recycled

ALONE, _PIECE = 8192, 1 << 15  # elements of a vector, and of a matrix, up to which BLAS stays on one thread
LONGEST = 64  # row of which BLAS adds the elements as exactly as NumPy does
MANY, _COLUMNS, _SHORT = 2048, 512, 32  # elements from which on it pays; columns, and elements of a row, up to which
_MULTIPLICATIONS = 1 << 18  # of a product of matrices, up to which it does
_add: Any = np.add.reduce


@lru_cache(maxsize=256)
def _ones(n: int, dtype: Any) -> Any:
    return np.ones(n, dtype)


def alone(n: int, m: int) -> int:
    """The rows of a product up to which BLAS stays on one thread, if each meets a matrix of n by m."""
    return ALONE // max(n, m, 1) or 1 if min(n, m) < 2 else max(_SHORT, _MULTIPLICATIONS // (n * m))


def checksum(x: Any) -> Any:
    """A number that is finite only if every element of `x` is: the sum of squares, which is quickest, or, if that overflows, the sum."""
    if type(x) is np.ndarray and x.flags.c_contiguous and (x.size <= ALONE or x.dtype.char in "fF"):  # those it takes no thread for
        found = np.vdot(x, x)
        if isfinite(found.real):
            return found
    if not x.shape:
        return x
    with np.errstate(over="ignore", invalid="ignore"):  # of the sum alone
        return x.sum()


def summed(x: Any, keepdims: bool, out: Any = None) -> Any:
    """The sum over the last axis."""
    n = x.shape[-1]
    if out is None:
        out = np.empty((*x.shape[:-1], 1) if keepdims else x.shape[:-1], x.dtype)
    if not (n and x.flags.c_contiguous and out.flags.c_contiguous):
        return _add(x, -1, None, out, keepdims)
    vector, count = _ones(n, x.dtype), ALONE // n
    x, flat = x.reshape(-1, n), out.reshape(-1)
    whole = len(x) - len(x) % count
    if whole:
        np.matmul(x[:whole].reshape(-1, count, n), vector, flat[:whole].reshape(-1, count))
    if whole < len(x):
        np.dot(x[whole:], vector, flat[whole:])
    return out


def _of_columns(x: Any, out: Any) -> Any:
    """The sum over the axis before the last of three."""
    n, rows, columns = x.shape
    count = max(1, _PIECE // columns)
    if rows <= count:
        return np.matmul(_ones(rows, x.dtype), x, out)
    whole = rows - rows % count
    parts = np.matmul(_ones(count, x.dtype), x[:, :whole].reshape(n, -1, count, columns))
    out = _add(parts, 1, None, out)
    if whole < rows:
        out += np.matmul(_ones(rows - whole, x.dtype), x[:, whole:])
    return out


def _of_planes(x: Any, rows: bool) -> Any:
    """The sums of the rows, or of the columns, of matrices."""
    n = x.shape[2]
    if rows:
        return np.matmul(x, _ones(n, x.dtype)) if n <= LONGEST and x.shape[1] * n <= _PIECE else _add(x, 2)
    return _of_columns(x, None) if n <= _COLUMNS else _add(x, 1)


def total(x: Any, axes: tuple[int, ...], out: Any = None) -> Any:
    """`np.add.reduce(x, axes)`, equal to rounding; axes count from the end; they are kept where `out` has as many axes as x.

    Short sums next to a short rest are done as a product with ones, since NumPy would restart its loop for each row.
    """
    if isinstance(x, np.ndarray) and x.size >= MANY and x.dtype.char in "fd":
        if out is None and x.ndim == 2 and axes == (-2,) and x.size <= _PIECE and type(x) is np.ndarray and x.flags.c_contiguous:
            return _ones(len(x), x.dtype).dot(x)
        if not x.flags.c_contiguous and out is None:
            if type(x) is np.ndarray and x.ndim == 3 and (planes := x.transpose(2, 0, 1)).flags.c_contiguous and axes in ((-2,), (-3,)):
                return _of_planes(planes, axes == (-2,)).T
            order = sorted(range(x.ndim), key=x.strides.__getitem__, reverse=True)
            y = x.transpose(order)
            if not y.flags.c_contiguous:
                shown = tuple([slice(None if n or k - x.ndim in axes else 1) for k, n in enumerate(x.strides)])
                once: Any = x[shown]  # of what is broadcast
                if once.shape == x.shape:
                    return _add(x, axes)
                return np.array(np.broadcast_to(total(once, axes), [n for k, n in enumerate(x.shape) if k - x.ndim not in axes]), order="C")
            rest = [k for k in order if k - x.ndim not in axes]
            return total(y, tuple(order.index(a + x.ndim) - x.ndim for a in axes)).transpose(sorted(range(len(rest)), key=rest.__getitem__))
        first, last = min(axes), max(axes) + 1
        columns = math.prod(x.shape[last:]) if last else 1
        rows = math.prod(x.shape[first : last or None])
        short = 1 < (columns if last else rows) <= (_COLUMNS if last else _SHORT) and last - first == len(axes)
        if short and (out is None or x.flags.c_contiguous and out.flags.c_contiguous):
            shape, flat = x.shape[:first] + (x.shape[last:] if last else ()), np.asarray(x)
            if out is not None:
                _of_columns(flat.reshape(-1, rows, columns), out.reshape(-1, columns))
                return out
            sums = _of_columns(flat.reshape(-1, rows, columns), None) if last else summed(flat.reshape(-1, rows), False)
            return recycled(sums.reshape(shape)) if type(x) is Recycled else sums.reshape(shape)
    if out is None:
        return _add(x, axes)
    kept: Any = out.ndim == x.ndim
    return _add(x, axes, None, out, keepdims=kept)


def products(x: Any, y: Any, axes: tuple[int, ...]) -> Any:
    """The sums of x * y over some axes, which are kept; over the last ones by BLAS, row by row, without an array of the products."""
    if not type(x) is type(y) is np.ndarray:
        return np.sum(x * y, axis=axes, keepdims=True)
    if x.size >= 2 * ALONE and x.flags.c_contiguous and y.flags.c_contiguous and x.dtype.char == y.dtype.char in "fd":
        lead = x.ndim
        over = [k % lead for k in axes]
        while lead and lead - 1 in over:
            lead -= 1
        n = math.prod(x.shape[lead:])
        length = n if n <= ALONE else math.gcd(n, ALONE)
        if length >= _SHORT:
            rows = *x.shape[:lead], n // length, length
            found = np.vecdot(x.reshape(rows), y.reshape(rows))
            found = _add(found, (lead, *[k for k in over if k < lead]))
            return found.reshape([1 if k in over else n for k, n in enumerate(x.shape)])
    return _add(x * y, axes, keepdims=True)
