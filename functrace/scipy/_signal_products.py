"""Convolutions: the full product, and that part of it where one array lies within the other, each the transpose of the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.signal as _scipy

from functrace.ops.create import lift
from functrace.ops.kinds import batch_by_loop, bilinear


def flip(x: Any) -> Any:
    """The array backwards along each of its axes."""
    return x[(slice(None, None, -1),) * x.ndim]


def _convolved(a: Any, v: Any, mode: str, method: str) -> Any:
    if method != "direct" or a.ndim < 2 or not a.size * v.size or any(n != 1 for n in v.shape[:-2]):
        return _scipy.convolve(a, v, mode, method)
    if a.ndim == 2:  # of two axes SciPy has a loop ten times as fast, if the shorter comes second
        return _scipy.convolve2d(*((v, a) if mode == "full" and v.size > a.size else (a, v)), mode)
    images = [_scipy.convolve2d(image, v.reshape(v.shape[-2:]), mode) for image in a.reshape(-1, *a.shape[-2:])]
    return np.reshape(images, (*a.shape[:-2], *images[0].shape))


def _batch_full(size: int, flags: Sequence[bool], args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    if all(flags):
        return batch_by_loop(_full.primitive, size, flags, args, params)
    return _full(*(a if b else a[None] for a, b in zip(args, flags)), *params)


def _batch_within(size: int, flags: Sequence[bool], args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    if flags[1]:
        return batch_by_loop(_within.primitive, size, flags, args, params)
    return _within(args[0], args[1][None], *params)


_full: Any = bilinear(
    "scipy.signal.convolve",
    lambda a, v, method: _convolved(a, v, "full", method),
    lambda g, _ans, _x, y, method: _within(g, flip(y), method),
    lambda g, _ans, x, _y, method: _within(g, flip(x), method),
    batch=_batch_full,
    params=True,
)
_within: Any = bilinear(
    "scipy.signal.convolve_within",
    lambda a, v, method: _convolved(a, v, "valid", method),  # v is not longer than a along any axis
    lambda g, _ans, _x, y, method: _full(g, flip(y), method),
    lambda g, _ans, x, _y, method: flip(_within(x, flip(g), method)),
    batch=_batch_within,
    params=True,
)


def _middle(full: Any, shape: Sequence[int]) -> Any:
    return full[tuple(slice((n - m) // 2, (n - m) // 2 + m) for n, m in zip(full.shape, shape))]


def mode_of(a: Any, v: Any, mode: str, method: str) -> Any:
    """The part of the product that a mode asks for."""
    if mode == "full":
        return _full(a, v, method)
    if mode == "same":
        return _middle(_full(a, v, method), a.shape)
    if mode != "valid":
        raise ValueError("acceptable mode flags are 'valid', 'same', or 'full'")
    if all(m >= n for m, n in zip(a.shape, v.shape)):
        return _within(a, v, method)
    if any(m > n for m, n in zip(a.shape, v.shape)):
        raise ValueError("For 'valid' mode, one must be at least as large as the other in every dimension")
    return _within(v, a, method)


def product(in1: Any, in2: Any, mode: str, method: str) -> Any:
    """What `scipy.signal.convolve` gives."""
    a, v = lift(in1), lift(in2)
    if a.ndim != v.ndim:
        raise ValueError("in1 and in2 should have the same dimensionality")
    if method == "auto":
        method = (
            _scipy.choose_conv_method(np.zeros(a.shape, a.dtype), np.zeros(v.shape, v.dtype), "full") if a.size and v.size else "direct"
        )
    return a * v if not a.ndim else mode_of(a, v, mode, method)
