"""Borders around the last axes: `pad`, in every mode."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.torch._apply import call
from functrace.torch._contact import in_floats, linear
from functrace.torch._layout import as_image
from functrace.torch._nodes import Op
from functrace.torch.nn._windows import Pads, Sizes, filled


def _constant_pad(x: Any, pads: Any, value: Any) -> Any:
    if min(map(min, pads), default=0) >= 0 < max(map(max, pads), default=0):
        return filled(x, pads, value)
    grown = tuple((max(a, 0), max(b, 0)) for a, b in pads)
    cut = tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape, pads))
    return filled(x[cut], grown, value) if any(map(any, grown)) else x[cut] * x.dtype.type(1)


_CONSTANT_PAD = Op(
    "ConstantPadNd",
    _constant_pad,
    [lambda g, _r, _x, pads, _value: _constant_pad(g, tuple((-a, -b) for a, b in pads), 0)],
    "ConstantPadNd",
    frees=False,
    lies=as_image,
)


def _copied(mode: str, n: int, lo: int, hi: int) -> list[tuple[slice, slice]]:
    """The borders of a padded axis, and what of the axis is copied to each: a part between them."""
    end = lo + n
    if mode == "reflect":
        pairs = [(slice(lo), slice(2 * lo, lo, -1)), (slice(end + hi - 1, end - 1, -1), slice(end - 1 - hi, end - 1))]
    elif mode == "replicate":
        pairs = [(slice(lo), slice(lo, lo + 1)), (slice(end, end + hi), slice(end - 1, end))]
    else:
        pairs = [(slice(lo), slice(n, end)), (slice(end, end + hi), slice(lo, lo + hi))]
    return [pair for pair, width in zip(pairs, (lo, hi)) if width]


@functools.lru_cache(maxsize=256)
def _geometry(sizes: Sizes, mode: str, pads: Pads) -> tuple[Sizes, Any, Any, list[tuple[int, Any, Any]]]:
    """The sizes with all borders, where within them the array itself lies, what of it all is left after negative borders are cut; and
    by axes the borders, and what is copied to them.
    """
    grown = [(max(lo, 0), max(hi, 0)) for lo, hi in pads]
    inside = tuple(slice(lo, lo + n) for n, (lo, _) in zip(sizes, grown))
    cut = tuple(slice(max(-lo, 0), max(-lo, 0) + max(n + lo + hi, 0)) for n, (lo, hi) in zip(sizes, pads))
    steps = []
    for k, (n, (lo, hi)) in enumerate(zip(sizes, grown), -len(pads)):
        rest = (slice(None),) * (-1 - k)
        steps += [(k, (..., border, *rest), (..., part, *rest)) for border, part in _copied(mode, n, lo, hi)]
    return tuple(n + lo + hi for n, (lo, hi) in zip(sizes, grown)), (..., *inside), (..., *cut), steps


def _bordered(x: Any, mode: str, pads: Pads) -> Any:
    whole, inside, cut, steps = _geometry(x.shape[-len(pads) :], mode, pads)
    out = np.empty((*x.shape[: -len(pads)], *whole), x.dtype)
    out[inside] = x
    for _, border, part in steps:
        out[border] = out[part]
    return out[cut]


def _unbordered(g: Any, sizes: Sizes, mode: str, pads: Pads) -> Any:
    whole, inside, cut, steps = _geometry(sizes, mode, pads)
    out = np.zeros((*g.shape[: -len(pads)], *whole), g.dtype)
    out[cut] = g
    for k, border, part in reversed(steps):
        added = out[part]
        added += out[border].sum(k, keepdims=True) if mode == "replicate" else out[border]
    return out[inside]


bordered: Any = linear(  # the last axes, with borders that show what is inside
    "bordered", _bordered, lambda g, _ans, _x, mode, pads: unbordered(g, _x.shape[-len(pads) :], mode, pads), batch="leading"
)
unbordered: Any = linear("unbordered", _unbordered, lambda g, _ans, _g, _sizes, mode, pads: bordered(g, mode, pads), batch="leading")
_unpad = in_floats(lambda g, _r, _x, mode, pads: unbordered(g, _x.shape[-len(pads) :], mode, pads))


_BORDERS = {
    mode: [Op(f"{title}Pad{d}D", bordered, [_unpad], f"{title}Pad{d}DBackward", alone=mode == "circular", lies=as_image) for d in (1, 2, 3)]
    for mode, title in (("reflect", "Reflection"), ("replicate", "Replication"), ("circular", "Circular"))
}


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
        if min(widths, default=0) < 0 and any(n + min(lo, 0) + min(hi, 0) < 0 for n, (lo, hi) in zip(shape[-d:], pairs)):
            raise RuntimeError("narrow(): length must be non-negative.")
        return call(_CONSTANT_PAD, (input,), (((0, 0),) * (len(shape) - d) + pairs, value or 0))
    if value:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in _BORDERS:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if not d <= 3 or len(shape) - d not in (1, 2):
        raise NotImplementedError(
            f"Padding size {len(widths)} is not supported for {len(shape)}D input tensor.\nSupported combinations for non-constant "
            "padding:\n  - 2D or 3D input: padding size = 2 (pads last dimension)\n  - 3D or 4D input: padding size = 4 (pads last 2 "
            "dimensions)\n  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    sizes = shape[-d:]
    if mode != "circular" and 0 in shape[len(shape) - d - 1 :]:
        raise RuntimeError(
            f"Expected {d + 1}D or {d + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, "
            f"but got: {list(shape)}"
        )
    for k, (n, (lo, hi)) in reversed(list(enumerate(zip(sizes, pairs)))):
        if mode == "reflect" and max(lo, hi) >= n:
            raise RuntimeError(
                f"Argument #{2 + 2 * (d - k)}: Padding size should be less than the corresponding input dimension, but got: padding "
                f"({lo}, {hi}) at dimension {len(shape) - d + k} of input {list(shape)}"
            )
        if mode == "circular" and max(lo, hi) > n:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if mode == "circular" and n + lo + hi < 0:
            raise RuntimeError("Negative padding value is resulting in an empty dimension")
    if mode == "circular" and min(widths) < 0:  # what is cut off is not seen on the other side
        input = call(_CONSTANT_PAD, (input,), (((0, 0),) * (len(shape) - d) + tuple((min(lo, 0), min(hi, 0)) for lo, hi in pairs), 0))
        pairs = tuple((max(lo, 0), max(hi, 0)) for lo, hi in pairs)
        if any(max(pair) > n for pair, n in zip(pairs, input._a.shape[-d:])):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. "
                "Please clone() the tensor before performing the operation."
            )
    return call(_BORDERS[mode][d - 1], (input,), (mode, pairs))
