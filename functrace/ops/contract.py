"""Matrix products. All are linear in each argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.ops.kinds import bilinear


def _swap(x: Any) -> Any:
    return np.swapaxes(x, -1, -2) if x.ndim > 2 else x.T


def _left(g: Any, _ans: Any, _x: Any, y: Any) -> Any:
    """The cotangent of x in x @ y; sums over broadcast axes are the replay's work."""
    if y.ndim == 1:
        return np.multiply(g[..., None], y)
    if len(_x.shape) == 1:
        return np.matmul(y, g[..., None])[..., 0]
    return np.matmul(g, _swap(y))


def _right(g: Any, _ans: Any, x: Any, _y: Any) -> Any:
    """The cotangent of y in x @ y."""
    if len(_y.shape) == 1:
        if x.ndim == 1:
            return np.multiply(g, x)
        return np.matmul(_swap(x), g[..., None])[..., 0]
    if x.ndim == 1:
        return np.multiply(x[:, None], g[..., None, :])
    return np.matmul(_swap(x), g)


def _batch_matmul(size: int, flags: Sequence[bool], args: tuple[Any, ...], _params: tuple[Any, ...]) -> Any:
    x, y = args
    m, n = np.ndim(x) - flags[0], np.ndim(y) - flags[1]
    if m == 1 and n == 1:
        return np.matmul(x, y) if not all(flags) else np.matmul(x[:, None, :], y[:, :, None])[:, 0, 0] if flags[0] else np.matmul(y, x)
    if flags[0] and not flags[1] and m <= 2 and n <= 2:  # the batch is more rows of one product
        if m == 1:
            return np.matmul(x, y)
        flat = np.matmul(np.reshape(x, (-1, x.shape[-1])), y)
        return np.reshape(flat, (*x.shape[:-1], *np.shape(y)[1:]))
    # Make matrices of vectors, line the other axes up, and drop what was put in.
    x = x[..., None, :] if m == 1 else x
    y = y[..., :, None] if n == 1 else y
    m, n = max(m, 2), max(n, 2)
    most = max(m, n)
    if flags[0] and m < most:
        x = np.reshape(x, (size, *(1,) * (most - m), *x.shape[1:]))
    if flags[1] and n < most:
        y = np.reshape(y, (size, *(1,) * (most - n), *y.shape[1:]))
    out = np.matmul(x, y)
    if np.ndim(args[0]) - flags[0] == 1:
        out = out[..., 0, :]
    if np.ndim(args[1]) - flags[1] == 1:
        out = out[..., 0]
    return out


matmul = bilinear("matmul", np.matmul, _left, _right, batch=_batch_matmul)
