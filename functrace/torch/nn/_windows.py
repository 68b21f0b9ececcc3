"""What slides over the last axes, in any number of dimensions: what convolutions, pooling and folding are made of.

Two linear ops, each the transpose of the other, carry it all: `windows` lays out the parts of an array under each place of a
kernel, `overlap` adds such parts up where they came from.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from functrace.torch._apply import call
from functrace.torch._contact import linear
from functrace.torch._layout import in_order
from functrace.torch._nodes import Op

Sizes = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]


def grown(sizes: Iterable[int], pads: Pads) -> list[int]:
    """Sizes with a border on each side."""
    return [n + a + b for n, (a, b) in zip(sizes, pads)]


def _inside(sizes: Iterable[int], pads: Pads) -> tuple[Any, ...]:
    """The index of what a border is round."""
    return (..., *[slice(a, a + n) for n, (a, _) in zip(sizes, pads)])


def filled(x: Any, pads: Pads, value: float = 0) -> Any:
    """The array with a border."""
    if not any(map(any, pads)):
        return x
    lead = x.ndim - len(pads)
    if not isinstance(x, np.ndarray):
        return np.pad(x, ((0, 0),) * lead + pads, constant_values=value)
    out: Any = np.zeros((*x.shape[:lead], *grown(x.shape[lead:], pads)), x.dtype)
    if value:
        out[...] = value
    out[_inside(x.shape[lead:], pads)] = x
    return out


def raw_windows(x: Any, kernel: Sizes, stride: Sizes, dilation: Sizes, pads: Pads) -> Any:
    d = len(kernel)
    x = filled(x, pads)
    out = lengths(x.shape[-d:], kernel, stride, dilation)
    steps = x.strides[-d:]
    shape = (*x.shape[:-d], *kernel, *out)
    strides = (*x.strides[:-d], *(s * k for s, k in zip(steps, dilation)), *(s * k for s, k in zip(steps, stride)))
    if not x.flags.c_contiguous or not x.size:
        return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)
    found: Any = np.ndarray(shape, x.dtype, x, 0, strides)  # the same, sooner
    found.flags.writeable = False
    return found


def lengths(sizes: Sequence[int], kernel: Sizes, stride: Sizes, dilation: Sizes) -> Sizes:
    """How many windows there are along each axis."""
    return tuple([(n - 1 - (k - 1) * e) // s + 1 for n, k, s, e in zip(sizes, kernel, stride, dilation)])


@functools.lru_cache(1 << 8)
def _spans(kernel: Sizes, stride: Sizes, dilation: Sizes, places: Sizes) -> list[tuple[Any, ...]]:
    """For each element of a kernel the index of what lies under it."""
    along = [[slice(o * e, o * e + s * (n - 1) + 1, s) for o in range(k)] for k, e, s, n in zip(kernel, dilation, stride, places)]
    return [(..., *span) for span in itertools.product(*along)]


def under(x: Any, kernel: Sizes, stride: Sizes, dilation: Sizes, pads: Pads, value: float = 0) -> list[Any]:
    """What of an array with a border lies under each element of a kernel."""
    x = filled(x, pads, value)
    return [x[span] for span in _spans(kernel, stride, dilation, lengths(x.shape[-len(kernel) :], kernel, stride, dilation))]


def added(parts: Iterable[Any], like: Any, sizes: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes, pads: Pads) -> Any:
    """The sum of parts, one for each element of a kernel, which lie as `like` does, where they came from."""
    x: Any = np.zeros((*like.shape[: -len(kernel)], *grown(sizes, pads)), like.dtype)
    _add_up(x, parts, _spans(kernel, stride, dilation, like.shape[-len(kernel) :]))
    return within(x, sizes, pads)


def _add_up(x: Any, parts: Iterable[Any], spans: Iterable[Any]) -> None:
    for part, span in zip(parts, spans):
        place = x[span]
        place += part  # at once, where `x[...] += ` would copy the sum to itself


def within(x: Any, sizes: Sizes, pads: Pads) -> Any:
    """What is left without the border."""
    return x[_inside(sizes, pads)] if any(map(any, pads)) else x


_SHORT, _LARGE = 16, 16  # places in a row up to which, and elements of a kernel from which on, many rows are added at once


def gather(x: Any, c: Any, kernel: Sizes, stride: Sizes, dilation: Sizes) -> None:
    """Add windows up where they came from in `x`."""
    d, places = len(kernel), c.shape[-len(kernel) :]
    if d == 1 or places[-1] > _SHORT or max(stride) > 1 or math.prod(kernel) < _LARGE:
        _add_up(x, parts(c, d), _spans(kernel, stride, dilation, places))
        return
    # over the last axis later: until then what is added lies in one piece, and NumPy need not begin anew for each row
    rows: Any = np.zeros((*x.shape[:-d], kernel[-1], *x.shape[-d:-1], places[-1]), x.dtype)
    spans = _spans(kernel[:-1], stride[:-1], dilation[:-1], places[:-1])
    _add_up(rows, parts(c, d, d - 1), [(*span, slice(None)) for span in spans])
    _add_up(x, np.moveaxis(rows, -1 - d, 0), _spans(kernel[-1:], stride[-1:], dilation[-1:], places[-1:]))


def _overlap(c: Any, sizes: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes, pads: Pads) -> Any:
    x: Any = np.zeros((*c.shape[: -2 * len(kernel)], *grown(sizes, pads)), c.dtype)
    gather(x, c, kernel, stride, dilation)
    return within(x, sizes, pads)


def parts(c: Any, d: int, some: int = 0) -> list[Any]:
    """Of windows over d axes what lies under each element of the kernel, or of the first axes of it."""
    lead = len(c.shape) - 2 * d
    return [c[(slice(None),) * lead + offset] for offset in itertools.product(*map(range, c.shape[lead : lead + (some or d)]))]


windows: Any = linear(  # (..., *sizes) to (..., *kernel, *places)
    "windows",
    raw_windows,
    lambda g, _ans, _x, kernel, stride, dilation, pads: overlap(g, _x.shape[-len(kernel) :], kernel, stride, dilation, pads),
    batch="leading",
)
overlap: Any = linear(  # (..., *kernel, *places) to (..., *sizes)
    "overlap",
    _overlap,
    lambda g, _ans, _c, _sizes, kernel, stride, dilation, pads: windows(g, kernel, stride, dilation, pads),
    batch="leading",
)


def each(x: Any, d: int, name: str = "") -> Sizes:
    """An int, or one for each of d axes."""
    if hasattr(x, "__index__"):
        return (int(x),) * d
    x = tuple(x)
    if len(x) == 1:
        return x * d  # type: ignore[no-any-return]
    if len(x) != d:
        raise RuntimeError(f"{name} must be a single int or {d} ints, but got {list(x)}")
    return x  # type: ignore[no-any-return]


# folding


def _im2col(x: Any, kernel: Sizes, stride: Sizes, dilation: Sizes, pads: Pads) -> Any:
    c = windows(x, kernel, stride, dilation, pads)
    return np.reshape(c, (x.shape[0], x.shape[1] * math.prod(kernel), math.prod(c.shape[-2:])))


def _col2im(c: Any, sizes: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes, pads: Pads) -> Any:
    out = lengths(grown(sizes, pads), kernel, stride, dilation)
    return overlap(np.reshape(c, (c.shape[0], c.shape[1] // math.prod(kernel), *kernel, *out)), sizes, kernel, stride, dilation, pads)


_IM2COL = Op("Im2Col", _im2col, [lambda g, _r, _x, *geometry: _col2im(g, _x.shape[2:], *geometry)], "Col2Im", lies=in_order)
_COL2IM = Op("Col2Im", _col2im, [lambda g, _r, _c, _sizes, *geometry: _im2col(g, *geometry)], "Im2Col", lies=in_order)


def _geometry(shape: Sizes, kernel: Any, stride: Any, dilation: Any, padding: Any) -> tuple[Sizes, Sizes, Sizes, Pads, Sizes]:
    """What is given for each axis, and how many windows there are."""
    kernel, stride, dilation = (each(x, 2) for x in (kernel, stride, dilation))
    if min(*kernel, *stride, *dilation) < 1:
        raise RuntimeError(f"kernel_size={kernel}, stride={stride} and dilation={dilation} should be greater than zero")
    pads = tuple((p, p) for p in each(padding, 2))
    return kernel, stride, dilation, pads, lengths(grown(shape, pads), kernel, stride, dilation)


def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """The windows of an image, one a column: (batch, channels * kernel, places)."""
    if input._a.ndim == 3:
        return unfold(input.unsqueeze(0), kernel_size, dilation, padding, stride).squeeze(0)
    if input._a.ndim != 4:
        raise RuntimeError(f"Input Error: Only 3D or 4D (batch) tensors expected, but got {input._a.ndim}D: {list(input.shape)}")
    kernel, steps, gaps, pads, places = _geometry(input._a.shape[2:], kernel_size, stride, dilation, padding)
    if min(places) < 1:
        raise RuntimeError(
            f"Given input with spatial size {tuple(input._a.shape[2:])}, kernel_size={kernel}, dilation={gaps}, "
            f"padding={each(padding, 2)}, calculated shape of the array of sliding blocks as {places}, but its components must be at "
            "least one."
        )
    return call(_IM2COL, (input,), (kernel, steps, gaps, pads))


def fold(input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """The transpose of `unfold`: columns added up where they came from."""
    if input._a.ndim == 2:
        return fold(input.unsqueeze(0), output_size, kernel_size, dilation, padding, stride).squeeze(0)
    if input._a.ndim != 3:
        raise RuntimeError(f"fold(): Expected 2D or 3D (batch mode) tensor for input, but got: {list(input.shape)}")
    sizes = each(output_size, 2)
    kernel, steps, gaps, pads, places = _geometry(sizes, kernel_size, stride, dilation, padding)
    if input._a.shape[1] % math.prod(kernel):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={input._a.shape[1]} and kernel_size={kernel}."
        )
    if input._a.shape[2] != math.prod(places):
        raise RuntimeError(
            f"Given output_size={sizes}, kernel_size={kernel}, dilation={gaps}, padding={each(padding, 2)}, stride={steps}, expected size "
            f"of input's dimension 2 to match the calculated number of sliding blocks {places[0]} * {places[1]} = {math.prod(places)}, but "
            f"got input.size(2)={input._a.shape[2]}."
        )
    return call(_COL2IM, (input,), (sizes, kernel, steps, gaps, pads))
