"""Reductions over a short last axis, or over windows, where NumPy would start its loop anew for each row."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.pool import empty

_ADDED, _COMPARED = 16, 65  # NumPy takes longer to compare the elements of a row than to add them
_FEW = 248  # elements below which no rows are so many: see `short`
_FOLDED = 33  # length of rows from which on their halves are compared first
_WINDOW, _RUN = 4, 32  # length of the sides of windows, and of what lies together after them, up to which
_BLOCK = 1 << 18  # bytes that are gone through column by column while they are in the cache


def short(x: Any, axis: Any, compared: bool = False) -> bool:
    """Whether `axis` is the last of an array, or of what is known of one, with so many rows, and so short, that going through its
    columns is faster; those that are compared may be longer than those that are added.
    """
    if axis is None or x.size < _FEW:
        return False
    shape, char = x.shape, x.dtype.char
    ndim = len(shape)
    if ndim < 2 or char not in "fd" or axis not in (-1, (-1,), ndim - 1, (ndim - 1,)):
        return False
    n, worth = shape[-1], 1 if compared else 2
    if isinstance(x, np.ndarray) and x.strides[-1] not in (0, x.itemsize):  # NumPy goes along the other axes
        return False
    return 1 < n < (_COMPARED if compared else _ADDED) and x.size >= worth * n * (100 + 12 * n)  # type: ignore[no-any-return]


def windows(x: Any, axis: Any) -> bool:
    """Whether the axes are the short sides of many windows, as in pooling: an array of each place in them is faster to go through."""
    if axis is None or x.size < 8 * _FEW or x.dtype.char not in "fd":
        return False
    axes = [a % len(x.shape) for a in (axis if isinstance(axis, tuple) else (axis,))]
    if not axes or axes == [len(x.shape) - 1] or max(axes) < 1:
        return False
    return all(1 < x.shape[a] <= _WINDOW for a in axes) and math.prod(x.shape[max(axes) + 1 :]) <= _RUN


def folded(ufunc: Any, x: Any, axis: Any, keepdims: bool, out: Any = None) -> Any:
    """A reduction by `ufunc` over the sides of windows, one after the other; sums are NumPy's to rounding."""
    axes = sorted([a % x.ndim for a in (axis if isinstance(axis, tuple) else (axis,))])
    x = np.asarray(x)
    for a in reversed(axes):
        parts = [x[(slice(None),) * a + (slice(k, k + 1) if keepdims else k,)] for k in range(x.shape[a])]
        x = ufunc(parts[0], parts[1], out=out if a == axes[0] else None)
        for part in parts[2:]:
            ufunc(x, part, out=x)
    return x


def _by_columns(columns: Callable[[Any, Any], object], x: Any, keepdims: bool, out: Any = None) -> Any:
    """A reduction of the last axis by `columns`, which takes rows and where their results go: as many at a time as the cache holds."""
    x = np.asarray(x)
    if out is None:
        out = empty((*x.shape[:-1], 1) if keepdims else x.shape[:-1], x.dtype)
    into = out[..., 0] if keepdims else out
    if x.nbytes <= 2 * _BLOCK or not (x.flags.c_contiguous and out.flags.c_contiguous):
        columns(x, into)
        return out
    x, into = x.reshape(-1, x.shape[-1]), out.reshape(-1)
    step = _BLOCK // (x.itemsize * x.shape[-1])
    for start in range(0, len(x), step):
        columns(x[start : start + step], into[start : start + step])
    return out


def _add_columns(x: Any, total: Any) -> None:
    n = x.shape[-1]
    np.add(x[..., 0], x[..., 1], out=total)
    if n >= 8:
        total += x[..., 2] + x[..., 3]
        late = x[..., 4] + x[..., 5]
        late += x[..., 6] + x[..., 7]
        total += late
    for k in range(8 if n >= 8 else 2, n):
        total += x[..., k]


def added(x: Any, keepdims: bool) -> Any:
    """The sum of the columns: the same bits as NumPy's, which adds fewer than 8 elements one after the other, and of more the
    first 8 by pairs.
    """
    return _by_columns(_add_columns, x, keepdims)


def extreme(ufunc: Any, x: Any, keepdims: bool, out: Any = None) -> Any:
    """The maximum or minimum of the columns."""

    def columns(x: Any, best: Any) -> None:
        if (n := x.shape[-1]) >= _FOLDED:
            x = ufunc(x[..., : -(-n // 2)], x[..., n // 2 :])
        ufunc(x[..., 0], x[..., 1], out=best)
        for k in range(2, x.shape[-1]):
            ufunc(best, x[..., k], out=best)

    return _by_columns(columns, x, keepdims, out)
