"""Borders around the last axes: `pad`, in every mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.torch._apply import call
from functrace.torch._contact import read, unread
from functrace.torch._layout import as_image
from functrace.torch._nodes import Op
from functrace.torch.nn._windows import filled


def _border_index(mode: str, n: int, lo: int, hi: int) -> Any:
    k = np.arange(-lo, n + hi)
    if mode == "replicate":
        return np.clip(k, 0, n - 1)
    if mode == "circular":
        return k % n
    k = np.abs(k)
    return np.where(k > n - 1, 2 * (n - 1) - k, k)


def _constant_pad(x: Any, pads: Any, value: Any) -> Any:
    grown = tuple((max(a, 0), max(b, 0)) for a, b in pads)
    cut = tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape, pads))
    return filled(x[cut], grown, value) if any(map(any, grown)) else x[cut] * 1


_CONSTANT_PAD = Op(
    "ConstantPadNd",
    _constant_pad,
    [lambda g, _r, _x, pads, _value: _constant_pad(g, tuple((-a, -b) for a, b in pads), 0)],
    "ConstantPadNd",
    frees=False,
    lies=as_image,
)


def _unpad(g: Any, _r: Any, x: Any, index: Any) -> Any:
    return unread(g, _r, x, index)


_BORDERS = {mode: [Op(f"{title}Pad{d}D", read, [_unpad], f"{title}Pad{d}DBackward", lies=as_image) for d in (1, 2, 3)]
            for mode, title in (("reflect", "Reflection"), ("replicate", "Replication"), ("circular", "Circular"))}  # fmt: skip


def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """Borders on the last axes, given from the last one inwards as (before, after) pairs; negative ones cut off."""
    widths, shape = tuple(pad), input._a.shape
    if len(widths) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    d = len(widths) // 2
    if d > len(shape):
        raise RuntimeError("Padding length should be less than or equal to two times the input dimension but got padding length "
                           f"{len(widths)} and input of dimension {len(shape)}")  # fmt: skip
    pairs = tuple((widths[2 * k], widths[2 * k + 1]) for k in range(d - 1, -1, -1))
    if mode == "constant":
        if any(n + min(lo, 0) + min(hi, 0) < 0 for n, (lo, hi) in zip(shape[-d:], pairs)):
            raise RuntimeError("narrow(): length must be non-negative.")
        return call(_CONSTANT_PAD, (input,), (((0, 0),) * (len(shape) - d) + pairs, value or 0))
    if value:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in _BORDERS:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if not d <= 3 or len(shape) - d not in (1, 2):
        raise NotImplementedError(
            f"Padding size {len(widths)} is not supported for {len(shape)}D input tensor.\nSupported combinations "
            "for non-constant padding:\n  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
            "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
            "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    sizes = shape[-d:]
    for k, (n, (lo, hi)) in reversed(list(enumerate(zip(sizes, pairs)))):
        if mode == "reflect" and max(lo, hi) >= n:
            raise RuntimeError(
                "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
                f"({lo}, {hi}) at dimension {len(shape) - d + k} of input {list(shape)}"
            )
        if mode == "circular" and max(lo, hi) > n:
            raise RuntimeError("Padding value causes wrapping around more than once.")
    places = [_border_index(mode, n, lo, hi).reshape(-1, *(1,) * (d - 1 - k)) for k, (n, (lo, hi)) in enumerate(zip(sizes, pairs))]
    return call(_BORDERS[mode][d - 1], (input,), ((..., *places),))
