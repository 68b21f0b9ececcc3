"""Pooling, and maps along the axes of images."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.torch._along import key_along
from functrace.torch._apply import call
from functrace.torch._border import named
from functrace.torch._contact import alike, index_add, index_set, value
from functrace.torch._draws import rand
from functrace.torch._dtypes import as_int64
from functrace.torch._layout import as_image, in_order
from functrace.torch._nodes import Op
from functrace.torch._tensor import wrap
from functrace.torch.nn._windows import Pads, Sizes, added, each, filled, grown, lengths, overlap, raw_windows, under, windows, within


def _ranked(x: Any, d: int, name: str) -> None:
    if x._a.ndim not in (d + 1, d + 2):
        raise RuntimeError(f"{name}: Expected {d + 1}D or {d + 2}D (batch mode) tensor for input, but got: {list(x.shape)}")


def _pool_geometry(x: Any, d: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> tuple[Sizes, Sizes, Sizes, Pads]:
    """Kernel, stride, dilation, and pads; with `ceil` the last window may begin inside and end beyond the right pad."""
    shape = x._a.shape
    if len(shape) not in (d + 1, d + 2):
        raise RuntimeError(f"non-empty {d + 1}D or {d + 2}D (batch mode) tensor expected for input")
    kernel, padding, dilation = each(kernel, d, "kernel_size"), each(padding, d, "padding"), each(dilation, d, "dilation")
    stride = kernel if stride is None or stride == () else each(stride, d, "stride")
    if min(kernel) < 1 or min(stride) < 1 or min(dilation) < 1:
        raise RuntimeError(
            "pooling: kernel_size, stride and dilation should be greater than zero, but got "
            f"kernel_size={kernel}, stride={stride}, dilation={dilation}"
        )
    return kernel, stride, dilation, _pool_pads(shape[-d - 1 :], kernel, stride, padding, dilation, ceil)


@functools.lru_cache(1 << 8)
def _pool_pads(shape: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil: bool) -> Pads:
    """The pads of one example's channels."""
    pads, out = [], []
    for n, k, s, p, e in zip(shape[1:], kernel, stride, padding, dilation):
        if not 0 <= p <= ((k - 1) * e + 1) // 2:
            raise RuntimeError(f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and dilation={e}")
        free = n + 2 * p - e * (k - 1) - 1
        places = (free + (s - 1 if ceil else 0)) // s + 1
        if ceil and (places - 1) * s >= n + p:
            places -= 1
        out.append(places)
        pads.append((p, p + max(0, (places - 1) * s - free)))
    if min(out) < 1:
        before, after = ("x".join(map(str, (shape[0], *sizes))) for sizes in (shape[1:], out))
        raise RuntimeError(f"Given input size: ({before}). Calculated output size: ({after}). Output size is too small")
    return tuple(pads)


def _least(x: Any) -> Any:
    """What lies around x."""
    return -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min


def _max_pool(x: Any, kernel: Sizes, stride: Sizes, dilation: Sizes, pads: Pads) -> Any:
    return functools.reduce(np.maximum, under(x, kernel, stride, dilation, pads, _least(x)))


def _unmax_pool(g: Any, r: Any, x: Any, kernel: Sizes, stride: Sizes, dilation: Sizes, pads: Pads) -> Any:
    """The gradient goes to the first place of the window where its maximum is."""
    d = len(kernel)
    free: Any = True
    finite = np.count_nonzero(np.isfinite(value(g))) == g.size  # a product is faster, but hands on what is no number
    odd = np.count_nonzero(np.isnan(value(r)))
    apart = finite and type(g) is type(x) is np.ndarray and all(s > (k - 1) * e for k, s, e in zip(kernel, stride, dilation))
    whole: Any = np.zeros((*g.shape[:-d], *grown(x.shape[-d:], pads)), g.dtype) if apart else None
    places = under(whole, kernel, stride, dilation, ()) if apart else itertools.repeat(None)
    shares = []
    for part, place in zip(under(x, kernel, stride, dilation, pads, _least(x)), places):
        hit = ((part == r) | (part != part) if odd else part == r) & free
        free = hit ^ free
        shares.append(np.multiply(g, hit, out=place) if finite else np.where(hit, g, np.zeros((), g.dtype)))
    if apart:  # windows that share nothing
        return within(whole, x.shape[-d:], pads)
    if type(shares[0]) is np.ndarray:
        return added(shares, g, x.shape[-d:], kernel, stride, dilation, pads)
    whole = np.reshape(np.stack(shares, axis=-d - 1), (*g.shape[:-d], *kernel, *g.shape[-d:]))
    return overlap(whole, x.shape[-d:], kernel, stride, dilation, pads)


_MAX_POOL = {
    d: Op(f"MaxPool{d}DWithIndices", _max_pool, [_unmax_pool], f"MaxPool{d}DWithIndicesBackward", frees=True, flat=True, lies=as_image)
    for d in (2, 3)
}


def _positions(x: Any, kernel: Sizes, stride: Sizes, dilation: Sizes, pads: Pads) -> Any:
    """Where each window's first maximum is, counted over the last axes."""
    d = len(kernel)
    c = windows(filled(x, pads, _least(x)), kernel, stride, dilation, ((0, 0),) * d)
    count = np.arange(math.prod(x.shape[-d:])).reshape(x.shape[-d:])
    where = raw_windows(filled(count, pads), kernel, stride, dilation, ((0, 0),) * d)
    return _of_largest(c.reshape(*c.shape[: -2 * d], math.prod(kernel), *c.shape[-d:]), where.reshape(-1, *where.shape[-d:]), -d - 1)


def _of_largest(rows: Any, places: Any, k: int) -> Any:
    """The place of the first maximum along axis k."""
    best = np.argmax(rows, axis=k, keepdims=True)
    return as_int64(np.take_along_axis(np.broadcast_to(places, rows.shape), best, k).squeeze(k))


def _as_rows(pool: Any, options: int) -> Any:
    """Pooling over one axis as PyTorch does it: over images of height 1. The first `options` arguments are sizes."""

    @named(pool.__name__.replace("2d", "1d"), f"`{pool.__name__}` over one axis.")
    def pool1d(input: Any, *args: Any, **named: Any) -> Any:
        fill = {"padding": 0}
        _ranked(input, 1, pool1d.__name__)

        def wide(k: Any, name: str) -> Any:
            return k if k is None else (fill.get(name, 1), *each(k, 1, name))

        names = ("kernel_size", "stride", "padding", "dilation")[:options] if options > 1 else ("output_size",)
        args = (*(wide(k, name) for k, name in zip(args, names)), *args[len(names) :])
        out = pool(input.unsqueeze(-2), *args, **{k: wide(v, k) if k in names else v for k, v in named.items()})
        return tuple(t.squeeze(-2) for t in out) if isinstance(out, tuple) else out.squeeze(-2)

    return pool1d


def _max_pool_of(d: int) -> Any:
    @named(f"max_pool{d}d", f"The maximum of each window over the last {d} axes; of equals the first has the gradient.")
    def max_pool(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        geometry = _pool_geometry(input, d, kernel_size, stride, padding, dilation, ceil_mode)
        out = call(_MAX_POOL[d], (input,), geometry)
        if out._rg and type(out._a) is np.ndarray:  # the rule looks into the result; users may write to it, as by relu_
            out._a, out._ver = out._a.copy("K"), [0]
        return (out, wrap(as_image(_positions(input._a, *geometry), input._a))) if return_indices else out

    return max_pool


def _average(x: Any, kernel: Sizes, stride: Sizes, dilation: Sizes, pads: Pads, counts: Any) -> Any:
    d = len(kernel)
    sizes = grown(x.shape[-d:], pads)
    if math.prod(kernel) > math.prod(lengths(sizes, kernel, stride, dilation)):  # few large windows
        return np.sum(windows(x, kernel, stride, dilation, pads), axis=tuple(range(-2 * d, -d))) / counts
    # many small ones: one element of all after the other, as PyTorch does it, where NumPy's sum is slow
    return functools.reduce(np.add, under(x, kernel, stride, dilation, pads)) / counts


def _unaverage(g: Any, _r: Any, _x: Any, kernel: Sizes, stride: Sizes, dilation: Sizes, pads: Pads, counts: Any) -> Any:
    d = len(kernel)
    g = g / counts
    if type(g) is np.ndarray:
        return added(itertools.repeat(g), g, _x.shape[-d:], kernel, stride, dilation, pads)
    g = np.broadcast_to(np.reshape(g, (*g.shape[:-d], *(1,) * d, *g.shape[-d:])), (*g.shape[:-d], *kernel, *g.shape[-d:]))
    return overlap(g, _x.shape[-d:], kernel, stride, dilation, pads)


_AVG_POOL = {d: Op(f"AvgPool{d}D", _average, [_unaverage], f"AvgPool{d}DBackward", frees=True, lies=as_image) for d in (2, 3)}


def _avg_pool_of(d: int) -> Any:
    @named(f"avg_pool{d}d", f"The mean of each window over the last {d} axes.")
    def avg_pool(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        if input._a.dtype.kind in "biu":  # means of integers are cut to integers
            input = input.long()
        geometry = _pool_geometry(input, d, kernel_size, stride, padding, 1, ceil_mode)
        if divisor_override == 0:
            raise RuntimeError("divisor must be not zero")
        kernel, stride, dilation, pads = geometry
        counts: Any = divisor_override or math.prod(kernel)
        if divisor_override is None and any(map(any, pads)):
            sizes, inner = input._a.shape[-d:], tuple((p, p) for p in each(padding, d))
            counted = filled(np.ones(sizes), inner, 1) if count_include_pad else filled(np.ones(sizes), inner)
            beyond = tuple((0, hi - p) for (_, hi), (_, p) in zip(pads, inner))
            counts = raw_windows(counted, kernel, stride, dilation, beyond).sum(tuple(range(d)))
        counts = np.asarray(counts, input._a.dtype)
        out = call(_AVG_POOL[d], (input,), (*geometry, counts))
        return out if out._a.dtype == input._a.dtype else out.to(input.dtype)

    return avg_pool


max_pool2d, max_pool3d, avg_pool2d, avg_pool3d = _max_pool_of(2), _max_pool_of(3), _avg_pool_of(2), _avg_pool_of(3)
max_pool1d, avg_pool1d = _as_rows(max_pool2d, 4), _as_rows(avg_pool2d, 3)


def _lp_pool_of(d: int) -> Any:
    pool = (avg_pool1d, avg_pool2d, avg_pool3d)[d - 1]
    extreme = (max_pool1d, max_pool2d, max_pool3d)[d - 1]

    @named(f"lp_pool{d}d", "The p-norm of each window (without absolute values: for odd p, as in PyTorch).")
    def lp_pool(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
        if norm_type in (math.inf, -math.inf):
            sign = math.copysign(1, norm_type)
            return sign * extreme(sign * input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        mean = pool(input**norm_type, kernel_size, stride, 0, ceil_mode)
        return ((mean.sign() * mean.abs().relu()) * math.prod(each(kernel_size, d))) ** (1.0 / norm_type)

    return lp_pool


lp_pool1d, lp_pool2d, lp_pool3d = map(_lp_pool_of, (1, 2, 3))


# maps along axes: adaptive pooling and interpolation


def _along(x: Any, maps: Sequence[Any]) -> Any:
    """A matrix applied along each of the last axes. Where its element is zero, nothing of x is seen, not even a NaN."""
    with np.errstate(invalid="ignore"):
        found = _product(x, maps, _multiplied)
        smaller = min(value(x), value(found), key=np.size)
        return found if np.isfinite(smaller).all() else _product(x, maps, _by_terms)


def _product(x: Any, maps: Sequence[Any], times: Callable[[Any, Any, int], Any]) -> Any:
    for k, m in enumerate(reversed(maps), 1):
        x = times(x, m, k)
    return x


def _multiplied(x: Any, m: Any, k: int) -> Any:
    """A matrix applied along the axis that is the k-th from the end; the result lies in order, or as the axes do."""
    if k == 1:
        return np.reshape(np.matmul(np.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1])), m.T), (*x.shape[:-1], len(m)))
    return np.matmul(m, x) if k == 2 else np.moveaxis(np.matmul(np.moveaxis(x, -k, -1), m.T), -1, -k)


def _by_terms(x: Any, m: Any, k: int) -> Any:
    """`_multiplied`, with the terms that are not zero alone."""
    x = np.moveaxis(x, -k, -1)
    width = max(np.count_nonzero(m, axis=1).max(initial=0), 1)
    places = np.argsort(m == 0, axis=1, kind="stable")[:, :width]
    weights = np.take_along_axis(m, places, 1)
    return np.moveaxis(np.sum(np.where(weights == 0, np.zeros((), m.dtype), x[..., places] * weights), axis=-1), -1, -k)


def mapped(node: str, alone: bool = False) -> Op:
    """A row that applies a constant matrix along each of the last axes."""
    back = lambda g, _r, _x, maps: in_order(_along(g, [m.T for m in maps]))
    return Op(node, _along, [back], node + "Backward", frees=True, alone=alone, lies=as_image)


def _bins(n: int, out: int) -> list[tuple[int, int]]:
    return [(i * n // out, -(-(i + 1) * n // out)) for i in range(out)]


def _outputs(x: Any, d: int, output_size: Any) -> Sizes:
    if 1 < d >= x._a.ndim:
        raise ValueError(f"Input dimension should be at least {d + 1}")
    _ranked(x, d, "adaptive pooling")
    wanted = (output_size,) * d if output_size is None or isinstance(output_size, int) else tuple(output_size)
    return tuple(n if m is None else m for n, m in zip(x._a.shape[-d:], wanted * (d if len(wanted) == 1 else 1)))


@functools.lru_cache(maxsize=256)
def _means(n: int, out: int, dtype: Any) -> Any:
    """The matrix that makes of n elements the means of as many bins; it is shared."""
    m = np.zeros((out, n), dtype)
    for i, (lo, hi) in enumerate(_bins(n, out)):
        m[i, lo:hi] = 1 / (hi - lo)
    m.flags.writeable = False
    return m


_ADAPTIVE = {d: mapped(f"AdaptiveAvgPool{d}D") for d in (2, 3)}
_WHOLE = Op(
    "MeanBackward1",
    lambda x, axes: np.mean(x, axis=axes, keepdims=True),
    [lambda g, _r, _x, axes: np.broadcast_to(g / math.prod(_x.shape[k] for k in axes), _x.shape)],
    "Expand",
)


def _adaptive_avg(d: int) -> Any:
    @named(f"adaptive_avg_pool{d}d", "The mean of as many windows as the output has places.")
    def adaptive_avg_pool(input: Any, output_size: Any) -> Any:
        out = _outputs(input, d, output_size)
        if out == (1,) * d:
            return call(_WHOLE, (input,), (tuple(range(-d, 0)),))
        return call(_ADAPTIVE[d], (input,), ([_means(n, m, input._a.dtype) for n, m in zip(input._a.shape[-d:], out)],))

    return adaptive_avg_pool


def _flat(x: Any, d: int) -> Any:
    return np.reshape(x, (*x.shape[:-d], math.prod(x.shape[-d:])))


def _picked(x: Any, found: Any, d: int) -> Any:
    return np.reshape(np.take_along_axis(_flat(x, d), _flat(found, d), -1), found.shape)


def _unpicked(g: Any, _r: Any, x: Any, found: Any, d: int) -> Any:
    return _put(index_add, g, found, x.shape, d)


def _put(write: Any, x: Any, found: Any, shape: Sizes, d: int) -> Any:
    """Zeros, with x at the places that were found, counted over the last axes."""
    lead = shape[:-d]
    out = np.zeros((*lead, math.prod(shape[-d:])), x.dtype)
    return np.reshape(write(out, _flat(x, d), key_along(_flat(found, d), len(lead))), shape)


def _picking(name: str) -> dict[int, Op]:
    return {d: Op(f"{name}MaxPool{d}D", _picked, [_unpicked], f"{name}MaxPool{d}DBackward", lies=as_image) for d in (2, 3)}


_ADAPTIVE_MAX, _FRACTIONAL_MAX = _picking("Adaptive"), _picking("Fractional")


def _adaptive_max(d: int) -> Any:
    @named(f"adaptive_max_pool{d}d", "The maximum of as many windows as the output has places.")
    def adaptive_max_pool(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        out, sizes = _outputs(input, d, output_size), input._a.shape[-d:]
        picks = []
        for k, (n, m) in enumerate(zip(sizes, out)):
            bins = _bins(n, m)
            width = max(hi - lo for lo, hi in bins)
            rows = np.array([[min(lo + j, hi - 1) for j in range(width)] for lo, hi in bins])
            picks.append(rows.reshape(*(m if a == k else 1 for a in range(d)), *(width if a == k else 1 for a in range(d))))
        spots = np.broadcast_arrays(*picks)
        flat = np.ravel_multi_index(tuple(spots), sizes).reshape(*out, -1)
        found = _of_largest(_flat(input._a, d)[..., flat], flat, -1)
        values = call(_ADAPTIVE_MAX[d], (input,), (found, d))
        return (values, wrap(as_image(found, input._a))) if return_indices else values

    return adaptive_max_pool


adaptive_avg_pool2d, adaptive_avg_pool3d, adaptive_max_pool2d, adaptive_max_pool3d = (
    _adaptive_avg(2), _adaptive_avg(3), _adaptive_max(2), _adaptive_max(3)
)  # fmt: skip
adaptive_avg_pool1d, adaptive_max_pool1d = _as_rows(adaptive_avg_pool2d, 1), _as_rows(adaptive_max_pool2d, 1)


def _starts(sample: Any, n: int, out: int, k: int) -> Any:
    """Where the windows of length k begin along an axis (Graham 2014): steps of the two sizes about a mean, in an order by chance."""
    mean = sample.dtype.type(n - k) / sample.dtype.type(max(out - 1, 1))
    steps = np.arange(out, dtype=sample.dtype)
    found = ((steps + sample[..., None]) * mean).astype(int) - (sample * mean).astype(int)[..., None]
    found[..., -1] = n - k
    return found


def _fractional_max(d: int) -> Any:
    name = f"fractional_max_pool{d}d"

    @named(name, "The maximum of windows that are spread over the input by chance, as many as the output has places.")
    def fractional_max_pool(
        input: Any,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> Any:
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        shape, kernel = input._a.shape, each(kernel_size, d, "kernel_size")
        _ranked(input, d, name)
        sizes = shape[-d:]
        ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * d
        out = tuple(int(n * r) for n, r in zip(sizes, ratios)) if output_size is None else each(output_size, d, "output_size")
        for what, n, m, k in zip(("time", "height", "width")[-d:], sizes, out, kernel):
            if m < 1 or m + k - 1 > n:
                raise RuntimeError(f"{name}(): pool {what} {k} too large relative to input {what} {n}")
        lead = shape[:-d] if len(shape) == d + 2 else (1, *shape[:-d])
        samples = rand(*lead, d, dtype=input.dtype) if _random_samples is None else _random_samples
        flat = np.zeros((*lead, *(1,) * (2 * d)), int)
        for j, (n, m, k) in enumerate(zip(sizes, out, kernel)):
            sample = alike(samples._a, name)[..., j if d == 3 else d - 1 - j]
            places = _starts(sample, n, m, k)[..., None] + np.arange(k)
            flat = flat * n + places.reshape(*lead, *(m if i == j else 1 for i in range(d)), *(k if i == j else 1 for i in range(d)))
        flat = flat.reshape(*shape[:-d], *out, math.prod(kernel))
        rows = np.take_along_axis(_flat(input._a, d), _flat(flat, d + 1), -1).reshape(flat.shape)
        found = _of_largest(rows, flat, -1)
        values = call(_FRACTIONAL_MAX[d], (input,), (found, d))
        return (values, wrap(found)) if return_indices else values

    return fractional_max_pool


fractional_max_pool2d, fractional_max_pool3d = map(_fractional_max, (2, 3))


_UNPOOL = {
    d: Op(node, functools.partial(_put, index_set), lies=as_image)
    for d, node in ((1, "SqueezeBackward1"), (2, "MaxUnpool2D"), (3, "MaxUnpool3D"))
}


def _max_unpool(d: int) -> Any:
    @named(f"max_unpool{d}d", f"The elements put where `max_pool{d}d` found them, zeros elsewhere.")
    def max_unpool(input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Any:
        _ranked(input, d, f"max_unpool{d}d")
        if indices.shape != input.shape:
            raise RuntimeError(f"Expected shape of indices to be {list(input.shape)}, as that of input, but got: {list(indices.shape)}")
        kernel, pads = each(kernel_size, d), each(padding, d)
        steps = kernel if stride is None else each(stride, d)
        places = input._a.shape[-d:]
        usual = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(places, steps, pads, kernel)]
        sizes = usual if output_size is None else output_size[-d:]
        for j, (m, n, s) in enumerate(zip(sizes, usual, steps)):
            if output_size is not None and not n - s < m < n + s:
                raise ValueError(f'invalid output_size "{tuple(sizes)}" (dim {j} must be between {n - s} and {n + s})')
        found = alike(indices._a, f"max_unpool{d}d").copy()  # they may be written before `backward`
        if found.size and not 0 <= found.min() <= found.max() < math.prod(sizes):
            raise RuntimeError(f"max_unpool{d}d: indices from {found.min()} to {found.max()}, for an output of size {tuple(sizes)}")
        return call(_UNPOOL[d], (input,), (found, (*input._a.shape[:-d], *sizes), d))

    return max_unpool


max_unpool1d, max_unpool2d, max_unpool3d = map(_max_unpool, (1, 2, 3))
