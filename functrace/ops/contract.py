"""Contractions of two arrays: `matmul`, and `contraction`, which einsum, dot, tensordot and the like come down to.

Both are linear in each argument. Complex cotangents are not conjugated, so the transposes have no conjugates either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from functrace.core.reverse import fit
from functrace.core.tracer import Tracer
from functrace.later import ROWS, Products
from functrace.ops.kinds import align, bilinear
from functrace.ops.shape import transpose
from functrace.pool import product

Labels = tuple[int, ...]
_LONG = 64  # contracted length from which row by row BLAS beats einsum's own loop
_TINY = 32  # elements of one matrix up to which einsum's own loop beats a matrix-vector product for each example


def _product(x: Any, y: Any) -> Any:
    if isinstance(x, np.ndarray) and x.ndim > 2 and np.ndim(y) == 2 and x.flags.c_contiguous and x.size:
        return product(x.reshape(-1, x.shape[-1]), y).reshape(*x.shape[:-1], y.shape[1])  # one, not one for each leading index
    return product(x, y)


def _swap(x: Any) -> Any:
    if isinstance(x, Tracer):  # a view that nobody writes to
        return transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
    return np.swapaxes(x, -1, -2) if x.ndim > 2 else x.T


def _laid(x: Any, y: Any, like: Any) -> Any:
    """x @ y, which lies in memory as `like` does: what was transposed is transposed back, and then is contiguous."""
    times: Any
    if type(x) is type(y) is np.ndarray and x.ndim == y.ndim == 2:
        times = np.ndarray.dot  # in half the time, if they are small
    else:
        times = matmul if isinstance(x, Tracer) or isinstance(y, Tracer) else np.matmul
    strides = getattr(like, "strides", None)
    if strides is not None and len(strides) == x.ndim == y.ndim == 2 and strides[0] < strides[1]:
        return _swap(times(_swap(y), _swap(x)))
    return times(x, y)


def _left(g: Any, _ans: Any, _x: Any, y: Any) -> Any:
    if y.ndim == 1:
        return np.multiply(g[..., None], y)
    if len(_x.shape) == 1:
        return np.matmul(y, g) if y.ndim == 2 else np.matmul(y, g[..., None])[..., 0]
    return _laid(g, _swap(y), _x)


def _right(g: Any, _ans: Any, x: Any, _y: Any) -> Any:
    if x.ndim == 1:
        return np.multiply(g, x) if len(_y.shape) == 1 else np.multiply(x[:, None], g[..., None, :])
    if x.ndim > 2 and len(_y.shape) <= 2 and x.size:  # every leading index is one more row
        x, g = np.reshape(x, (-1, x.shape[-1])), np.reshape(g, (-1, *_y.shape[1:]))
    if len(_y.shape) == 1:
        return np.matmul(g, x) if x.ndim == 2 else np.matmul(_swap(x), g[..., None])[..., 0]
    return _laid(_swap(x), g, _y)


def _thin(c: Any, x: Any, g: Any) -> bool:
    """Whether x.T @ g is so thin that adding it to c had better wait for others, as `Products`."""
    if not (isinstance(x, np.ndarray) and isinstance(g, np.ndarray) and x.ndim == g.ndim == 2 and len(x) < ROWS // 2):
        return False
    held = c.sum if type(c) is Products else c
    return isinstance(held, np.ndarray) and held.dtype is x.dtype is g.dtype


def _pull_products(cts: list[Any], mine: set[int], g: Any, entry: Any, inputs: int) -> bool:
    """Both cotangents of a product; for an input used at every step, thin ones are gathered in `Products` to be one product."""
    _, _, (i, j), (x, y), ans, _ = entry
    if i >= 0:
        d, c = fit(_left(g, ans, x, y), x), cts[i]
        cts[i] = d if c is None else c + d
    if j >= 0:
        c = cts[j]
        if c is not None and j < inputs and j not in mine and _thin(c, x, g):
            if type(c) is not Products:
                c = cts[j] = Products(c)
            c.add(x, g)
            return True
        d = fit(_right(g, ans, x, y), y)
        cts[j] = d if c is None else c + d
    return True


def _batch_matmul(_size: int, flags: Sequence[bool], args: tuple[Any, ...], _params: tuple[Any, ...]) -> Any:
    x, y = args
    m, n = np.ndim(x) - flags[0], np.ndim(y) - flags[1]
    if not (m and n):
        np.matmul(np.empty((1,) * m), np.empty((1,) * n))  # which says what is wrong
    if m <= 2 and n <= 2 and not (flags[1] and not flags[0] and n == 2):
        lx, ly = (0, 1)[2 - m :], (1, 2)[:n]
        out = (3, *lx[:-1], *ly[1:])
        return contraction(x, y, (3, *lx) if flags[0] else lx, (3, *ly) if flags[1] else ly, out)
    x, y = align(_size, flags, (x[..., None, :] if m == 1 else x, y[..., :, None] if n == 1 else y))
    out = np.matmul(x, y)
    out = out[..., 0, :] if m == 1 else out
    return out[..., 0] if n == 1 else out


matmul = bilinear("matmul", _product, _left, _right, batch=_batch_matmul, inplace=(_pull_products, lambda *_: False))


@lru_cache(maxsize=1024)
def _plan(lx: Labels, ly: Labels, lo: Labels) -> tuple[Labels, Labels, Labels, Labels]:
    """Labels that are: in all three; contracted; free in x; free in y."""
    both = set(lx) & set(ly)
    return (
        tuple(k for k in lo if k in both),
        tuple(k for k in lx if k in both and k not in lo),
        tuple(k for k in lo if k in lx and k not in both),
        tuple(k for k in lo if k in ly and k not in both),
    )


@lru_cache(maxsize=1024)
def _order(have: Labels, want: Labels) -> Labels | None:
    """The permutation of axes from one order of labels to another; None if it is the identity."""
    axes = tuple(have.index(k) for k in want)
    return None if axes == tuple(range(len(axes))) else axes


def _arrange(x: Any, have: Labels, want: Labels) -> Any:
    axes = _order(have, want)
    return x if axes is None else x.transpose(axes)


def _insert(x: Any, have: Labels, want: Labels) -> Any:
    """x with its axes in the order of `want`, of length 1 where it has none."""
    x = _arrange(x, have, tuple(k for k in want if k in have))
    return x[tuple(slice(None) if k in have else None for k in want)] if len(have) < len(want) else x


def _contract(x: Any, y: Any, lx: Labels, ly: Labels, lo: Labels) -> Any:
    if x.dtype.kind not in "fc" or y.dtype.kind not in "fc" or not (x.size and y.size):
        return np.einsum(x, _small(lx, lx, ly), y, _small(ly, lx, ly), _small(lo, lx, ly))
    x, y = np.asarray(x), np.asarray(y)
    shared, summed, mine, other = _plan(lx, ly, lo)
    if not summed:
        return np.multiply(_insert(x, lx, lo), _insert(y, ly, lo))
    if other and mine and lo[: len(shared) + 1] == (*shared, other[0]):  # y first: then the result comes out in order
        x, y, lx, ly, mine, other = y, x, ly, lx, other, mine
    count = len(shared)
    if not mine and not other:
        x, y = _arrange(x, lx, shared + summed), _arrange(y, ly, shared + summed)
        if not count:
            return np.dot(x.reshape(-1), y.reshape(-1))
        x, y = x.reshape(*x.shape[:count], -1), y.reshape(*y.shape[:count], -1)
        if x.shape[-1] >= _LONG:
            return np.matmul(x[..., None, :], y[..., None])[..., 0, 0]
        return np.einsum("...k,...k->...", x, y)
    rows, columns = _arrange(x, lx, shared + mine + summed), _arrange(y, ly, shared + summed + other)
    lead, left, right = rows.shape[:count], rows.shape[count : count + len(mine)], columns.shape[count + len(summed) :]
    rows = rows if len(mine) == len(summed) == 1 else _matrix(rows, count, len(mine))
    columns = columns if len(other) == len(summed) == 1 else _matrix(columns, count, len(summed))
    if count and (not mine or not other) and rows.shape[-1] * rows.shape[-2] * columns.shape[-1] <= _TINY * rows.shape[-1]:
        out = np.einsum("...k,...kj->...j", rows[..., 0, :], columns) if not mine else np.einsum("...ik,...k->...i", rows, columns[..., 0])
    else:
        out = product(rows, columns)
    return _arrange(out.reshape(*lead, *left, *right), shared + mine + other, lo)


def _matrix(x: Any, count: int, n: int) -> Any:
    """x as matrices, after the first `count` axes: of the next `n`, and of the rest. A copy is made along the longer axis that is close in
    memory, as in windows of an image.
    """
    lead, shape = x.shape[:count], (math.prod(x.shape[count : count + n]), math.prod(x.shape[count + n :]))
    if 0 < n < x.ndim - count and isinstance(x, np.ndarray):
        last = count + n - 1
        if x.strides[last] <= x.strides[-1] and x.shape[last] > x.shape[-1]:
            axes = (*range(count), *range(last + 1, x.ndim), *range(count, last + 1))
            return np.swapaxes(x.transpose(axes).reshape(*lead, *shape[::-1]), -1, -2)
    return x.reshape(*lead, *shape)


def _small(labels: Labels, lx: Labels, ly: Labels) -> list[int]:
    """Labels renamed so that einsum takes them: it knows 52."""
    names = {k: i for i, k in enumerate(dict.fromkeys(lx + ly))}
    return [names[k] for k in labels]


def _batch_contraction(_size: int, flags: Sequence[bool], args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    lx, ly, lo = params
    new = max((-1, *lx, *ly)) + 1
    return contraction(*args, (new, *lx) if flags[0] else lx, (new, *ly) if flags[1] else ly, (new, *lo))


contraction: Any = bilinear(  # each label has one length, is at most once in each operand, and is in two of the three or all
    "contraction",
    _contract,
    lambda g, _ans, _x, y, lx, ly, lo: contraction(g, y, lo, ly, lx),
    lambda g, _ans, x, _y, lx, ly, lo: contraction(g, x, lo, lx, ly),
    batch=_batch_contraction,
    params=True,
)
