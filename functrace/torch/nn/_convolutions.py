"""Convolutions, and their transposes, over any number of axes: windows, and a matrix product."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from functrace.torch._apply import call
from functrace.torch._border import named
from functrace.torch._checks import c_name
from functrace.torch._contact import buffer
from functrace.torch._dtypes import kind_of
from functrace.torch._layout import as_image, in_order
from functrace.torch._nodes import Op
from functrace.torch.nn._windows import Pads, Sizes, added, each, gather, grown, lengths, overlap, parts, raw_windows, windows, within

_AT_ONCE = 1 << 18  # elements of windows: they are read again from the cache
_SHORT = 16  # places in a row up to which adding windows up takes long


def _portions(elements: int, *arrays: Any) -> Iterator[tuple[Any, ...]]:
    """Arrays of examples, so many at a time that windows of `elements` each stay in the cache; all at once where one is traced."""
    some = max(1, _AT_ONCE // max(1, elements))
    if len(arrays[0]) <= some or any(type(a) is not np.ndarray for a in arrays):
        yield arrays
    else:
        for k in range(0, len(arrays[0]), some):
            yield tuple([a[k : k + some] for a in arrays])


def _columns(x: Any, kernel: Sizes, geometry: Any) -> Any:
    """The windows of x, one a column, by groups: (examples, groups, elements of a window, places)."""
    stride, dilation, pads, groups = geometry
    c, d = windows(x, kernel, stride, dilation, pads), len(kernel)
    return c.reshape(x.shape[0], groups, math.prod(c.shape[1:-d]) // groups, math.prod(c.shape[-d:]))


def _lined_up(x: Any, kernel: Sizes, places: Sizes, out: int, groups: int) -> bool:
    """Whether windows are to be rows, channels last: those of small images are copied in few long runs so, and make one product.

    The weights are turned as well, which takes longer where they are many, and the examples few.
    """
    long = kernel[-1] * x.shape[1] >= 3 * places[-1] and len(x) * math.prod(places) >= out
    return long and type(x) is np.ndarray and groups == 1 < math.prod(kernel)


def _channels_last(x: Any) -> Any:
    return x.transpose(0, *range(2, x.ndim), 1)


def _lines(x: Any, kernel: Sizes, geometry: Any) -> Any:
    """The windows of x, one a row, its channels last: (examples * places, elements of a window)."""
    (stride, dilation, pads, _), d = geometry, len(kernel)
    x = np.ascontiguousarray(_channels_last(x))
    c = raw_windows(x, (*kernel, x.shape[-1]), (*stride, 1), (*dilation, 1), (*pads, (0, 0)))
    return c.transpose(0, *range(d + 2, 2 * d + 3), *range(1, d + 2)).reshape(-1, math.prod(c.shape[1 : d + 2]))


def _rows(g: Any, groups: int) -> Any:
    """Channels by groups and places: (examples, groups, channels of one, places)."""
    return g.reshape(g.shape[0], groups, g.shape[1] // groups, math.prod(g.shape[2:]))


def _convolve(x: Any, w: Any, b: Any, geometry: Any) -> Any:
    stride, dilation, pads, groups = geometry
    kernel = w.shape[2:]
    sizes = lengths(grown(x.shape[2:], pads), kernel, stride, dilation)
    weights: Any = w.reshape(groups, w.shape[0] // groups, -1)
    if not type(x) is type(w) is np.ndarray:
        return _biased(np.matmul(weights, _columns(x, kernel, geometry)).reshape(x.shape[0], w.shape[0], *sizes), b)
    y = buffer((len(x), *weights.shape[:2], math.prod(sizes)), x.dtype)
    lined_up = _lined_up(x, kernel, sizes, len(w), groups)
    if lined_up:
        weights = _channels_last(w).reshape(len(w), -1).T
    for few, out in _portions(x.shape[1] * math.prod((*kernel, *sizes)), x, y):
        if lined_up:
            out[...] = np.dot(_lines(few, kernel, geometry), weights).reshape(len(few), 1, -1, len(w)).swapaxes(2, 3)
        else:
            np.matmul(weights, _columns(few, kernel, geometry), out=out)
    return _biased(y.reshape(x.shape[0], w.shape[0], *sizes), b)


def _biased(y: Any, b: Any) -> Any:
    if b is None:
        return y
    b = b.reshape(-1, *(1,) * (len(y.shape) - 2))
    return np.add(y, b, out=y) if type(y) is type(b) is np.ndarray else y + b


def _spread(g: Any, w: Any, sizes: Sizes, geometry: Any) -> Any:
    """The transpose of `_convolve` in its first argument: the weighted windows, added up."""
    stride, dilation, pads, groups = geometry
    kernel = w.shape[2:]
    if w.shape[:2] == (groups, 1) and type(g) is type(w) is np.ndarray:  # channel by channel: products would fill memory for nothing
        of_offsets = parts(w.reshape(groups, *kernel, *(1,) * len(kernel)), len(kernel))
        return added((g * weight for weight in of_offsets), g, sizes, kernel, stride, dilation, pads)
    many, few = w.shape[0] // groups, w.shape[1]
    most = few if g.shape[-1] > _SHORT else 2 * few  # a product with the kernel turned round adds up sooner
    if many <= most and max(stride) == 1 and type(g) is type(w) is np.ndarray:
        around = tuple([((k - 1) * e - lo, n - m + lo) for k, e, (lo, _), n, m in zip(kernel, dilation, pads, sizes, g.shape[2:])])
        if min(map(min, around)) >= 0:
            turned = np.flip(w, tuple(range(2, w.ndim))).reshape(groups, many, few, *kernel).swapaxes(1, 2)
            turned = turned.reshape(groups * few, many, *kernel)
            return _convolve(g, turned, None, (stride, dilation, around, groups))
    weights, rows = np.swapaxes(np.reshape(w, (groups, many, -1)), -1, -2), _rows(g, groups)
    inner = few * groups, *kernel, *g.shape[2:]
    if type(g) is type(w) is np.ndarray:
        x: Any = np.zeros((len(g), few * groups, *grown(sizes, pads)), g.dtype)
        for some, out in _portions(math.prod(inner), rows, x):
            gather(out, np.matmul(weights, some).reshape(len(some), *inner), kernel, stride, dilation)
        return within(x, sizes, pads)
    return overlap(np.reshape(np.matmul(weights, rows), (g.shape[0], *inner)), sizes, kernel, stride, dilation, pads)


def _weigh(x: Any, g: Any, kernel: Sizes, geometry: Any) -> Any:
    """The transpose of `_convolve` in its second argument: how each place of a window went with the result."""
    groups, places = geometry[3], math.prod(g.shape[2:])
    lined_up = type(g) is np.ndarray and _lined_up(x, kernel, g.shape[2:], g.shape[1], groups)

    def of_some(x: Any, g: Any) -> Any:
        rows = np.swapaxes(_rows(g, groups), -1, -2)
        if lined_up:
            return np.dot(rows.reshape(-1, g.shape[1]).T, _lines(x, kernel, geometry))
        c = _columns(x, kernel, geometry)
        if type(c) is type(rows) is np.ndarray and 0 < len(x) * places < rows.shape[-1]:  # a product for each example would be larger
            return np.matmul(np.concatenate(rows, -2).swapaxes(1, 2), np.concatenate(c, -1).swapaxes(1, 2))
        return np.swapaxes(np.sum(np.matmul(c, rows), axis=0), -1, -2)  # the larger one as it lies

    c = functools.reduce(np.add, itertools.starmap(of_some, _portions(x.shape[1] * math.prod(kernel) * places, x, g)))
    if lined_up:
        return in_order(np.moveaxis(c.reshape(g.shape[1], *kernel, x.shape[1]), -1, 1))
    return in_order(np.reshape(c, (g.shape[1], x.shape[1] // groups, *kernel)))


def _reached(g: Any, places: Sizes, kernel: Sizes, geometry: Any) -> Any:
    """What `places` windows see of a transposed convolution's result, which `output_padding` makes longer, and their geometry."""
    stride, dilation, pads, groups = geometry
    ends = [(n - 1) * s + (k - 1) * e + 1 - lo for n, s, k, e, (lo, _) in zip(places, stride, kernel, dilation, pads)]
    sizes = g.shape[2:]
    if any(end < n for end, n in zip(ends, sizes)):
        g = g[(..., *(slice(0, max(end, 0)) for end in ends))]
    return g, (stride, dilation, tuple((lo, max(end - n, 0)) for (lo, _), end, n in zip(pads, ends, sizes)), groups)


def _untransposed(g: Any, w: Any, places: Sizes, geometry: Any) -> Any:
    g, geometry = _reached(g, places, w.shape[2:], geometry)
    return _convolve(g, w, None, geometry)


def _unweighed(g: Any, x: Any, kernel: Sizes, geometry: Any) -> Any:
    g, geometry = _reached(g, x.shape[2:], kernel, geometry)
    return _weigh(g, x, kernel, geometry)


def _unbias(g: Any, *_rest: Any) -> Any:
    return np.sum(np.sum(g, axis=0), axis=tuple(range(1, len(g.shape) - 1)))  # NumPy adds up sooner what lies in long rows


_CONVOLUTION = Op(
    "Convolution",
    _convolve,
    [
        lambda g, _r, _x, w, _b, geometry: _spread(g, w, _x.shape[2:], geometry),
        lambda g, _r, x, _w, _b, geometry: _weigh(x, g, _w.shape[2:], geometry),
        _unbias,
    ],
    "ConvolutionBackward",
    frees=True,
    lies=as_image,
)
_TRANSPOSED = Op(
    "Convolution",
    lambda x, w, b, sizes, geometry: _biased(_spread(x, w, sizes, geometry), b),
    [
        lambda g, _r, _x, w, _b, _sizes, geometry: _untransposed(g, w, _x.shape[2:], geometry),
        lambda g, _r, x, _w, _b, _sizes, geometry: _unweighed(g, x, _w.shape[2:], geometry),
        _unbias,
    ],
    "ConvolutionBackward",
    frees=True,
    lies=as_image,
)


def _by_x(sizes: Sequence[int]) -> str:
    return "(" + " x ".join(map(str, sizes)) + ")"


def _convolution(name: str, d: int, x: Any, w: Any, b: Any, out: int, call_with: Any) -> Any:
    """Check what all convolutions check, and run `call_with` on a batch."""
    if b is not None and b._a.shape != (out,):
        raise RuntimeError(
            f"Given {'transposed=1, ' if 'transpose' in name else ''}weight of size {list(w._a.shape)}, expected bias to be "
            f"1-dimensional with {out} elements, but got bias of size {list(b._a.shape)} instead"
        )
    shape = x._a.shape
    if w._a.ndim != d + 2:
        raise RuntimeError(f"Expected {d + 2}D weight of {name}, but got weight of size: {list(w._a.shape)}")
    if len(shape) not in (d + 1, d + 2):
        raise RuntimeError(f"Expected {d + 1}D (unbatched) or {d + 2}D (batched) input to {name}, but got input of size: {list(shape)}")
    for t in (w, b):
        if t is not None and t._a.dtype != x._a.dtype:
            if b is not None:
                raise RuntimeError(f"Input type ({c_name(x)}) and bias type ({c_name(b)}) should be the same")
            raise RuntimeError(
                f"Input type ({kind_of(x._a.dtype)}) and weight type ({kind_of(t._a.dtype)}) should be the same or input should be "
                "a MKLDNN tensor and weight is a dense tensor"
            )
    return call_with(x) if len(shape) == d + 2 else call_with(x.unsqueeze(0)).squeeze(0)


def _conv(d: int) -> Any:
    name = f"conv{d}d"

    @named(name, f"Cross-correlation over {d} axes; `padding` may be 'same' or 'valid'. Weight: (out, in / groups, *kernel).")
    def conv(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
        stride, dilation = each(stride, d, "stride"), each(dilation, d, "dilation")
        kernel = weight._a.shape[2:]
        pads: Pads
        if isinstance(padding, str):
            if padding == "same" and stride != (1,) * d:
                raise RuntimeError("padding='same' is not supported for strided convolutions")
            if padding not in ("same", "valid"):
                raise RuntimeError(f"Invalid padding string: '{padding}'")
            totals = [e * (k - 1) if padding == "same" else 0 for e, k in zip(dilation, kernel)]
            pads = tuple((n // 2, n - n // 2) for n in totals)
        else:
            pads = tuple((p, p) for p in each(padding, d, "padding"))

        if min(stride) <= 0:
            raise RuntimeError("non-positive stride is not supported")
        if min(dilation) <= 0:
            raise RuntimeError(f"dilation should be greater than zero, but got {list(dilation)}")
        if any(n < 0 for pair in pads for n in pair):
            raise RuntimeError("negative padding is not supported")

        def batch(x: Any) -> Any:
            shape, w = x._a.shape, weight._a.shape
            if shape[1] != w[1] * groups:
                raise RuntimeError(
                    f"Given groups={groups}, weight of size {list(w)}, expected input{list(shape)} to have {w[1] * groups} channels, but "
                    f"got {shape[1]} channels instead"
                )
            sizes = grown(shape[2:], pads)
            if any(n < (k - 1) * e + 1 for n, k, e in zip(sizes, kernel, dilation)):
                spans = [(k - 1) * e + 1 for k, e in zip(kernel, dilation)]
                raise RuntimeError(
                    f"Calculated padded input size per channel: {_by_x(sizes)}. Kernel size: {_by_x(spans)}. Kernel size can't be greater "
                    "than actual input size"
                )
            return call(_CONVOLUTION, (x, weight, bias), ((stride, dilation, pads, groups),))

        return _convolution(name, d, input, weight, bias, weight._a.shape[0], batch)

    return conv


def _conv_transpose(d: int) -> Any:
    name = f"conv_transpose{d}d"

    @named(name, f"The transpose of `conv{d}d` in its input. Weight: (in, out / groups, *kernel).")
    def conv_transpose(
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Any:
        stride, dilation, padding = each(stride, d, "stride"), each(dilation, d, "dilation"), each(padding, d, "padding")
        extra = each(output_padding, d, "output_padding")
        if any(p >= max(s, e) for p, s, e in zip(extra, stride, dilation)):
            axes = ("depth", "height", "width")[-max(d, 2) :]
            rows = (("output_padding", (0,) + extra), ("stride", (1,) + stride), ("dilation", (1,) + dilation))
            raise RuntimeError(
                "output padding must be smaller than either stride or dilation, but got "
                + " ".join(f"{what}_{a}: {k}" for what, sizes in rows for a, k in zip(axes, sizes[-len(axes) :]))
            )

        def batch(x: Any) -> Any:
            shape, w = x._a.shape, weight._a.shape
            if shape[1] != w[0]:
                raise RuntimeError(
                    f"Given transposed=1, weight of size {list(w)}, expected input{list(shape)} to have {w[0]} channels, but got "
                    f"{shape[1]} channels instead"
                )
            sizes = tuple(
                (n - 1) * s - 2 * p + e * (k - 1) + o + 1 for n, s, p, e, k, o in zip(shape[2:], stride, padding, dilation, w[2:], extra)
            )
            return call(_TRANSPOSED, (x, weight, bias), (sizes, (stride, dilation, tuple((p, p) for p in padding), groups)))

        return _convolution(name, d, input, weight, bias, weight._a.shape[1] * groups, batch)

    return conv_transpose


conv1d, conv2d, conv3d = map(_conv, (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = map(_conv_transpose, (1, 2, 3))
