"""`torch.nn.functional`: activations, losses, linear maps, convolutions, pooling, normalisation and attention, as functions."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from functrace.errors import level
from functrace.torch._apply import call
from functrace.torch._border import trimmed
from functrace.torch._contact import GETITEM, Tracer, value
from functrace.torch._missing import missing
from functrace.torch._nodes import Op
from functrace.torch._ops import FUNCTIONS
from functrace.torch._tensor import wrap
from functrace.torch.nn import _activations, _attention, _compositions, _losses, _norms, _pooling, _windows

_HELPERS = ("checked", "total", "each", "filled", "indexed", "lengths", "mapped", "picked", "placed", "raw_windows", "softplus_of")


def _public(module: ModuleType) -> dict[str, Any]:
    names = (k for k, f in vars(module).items() if callable(f) and f.__module__ == module.__name__)
    return {k: getattr(module, k) for k in names if not k.startswith("_") and k not in _HELPERS}


for _module in (_activations, _attention, _compositions, _losses, _norms, _pooling, _windows):
    globals().update(_public(_module))
sigmoid, tanh = _activations.sigmoid, _activations.tanh
for _name in ("relu", "elu", "celu", "selu", "leaky_relu", "threshold", "hardtanh", "rrelu"):
    globals()[_name + "_"] = functools.partial(getattr(_activations, _name), inplace=True)
linear = _attention.linear


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """`input1 @ weight[k] @ input2` for each output k."""
    lead = input1._a.shape[:-1]
    x, y = input1.reshape(-1, input1._a.shape[-1]), input2.reshape(-1, input2._a.shape[-1])
    out = call(_BILINEAR, (x, y, weight)).reshape(*lead, weight._a.shape[0])
    return out if bias is None else out + bias


_BILINEAR = Op("Trilinear", lambda x, y, w: np.einsum("ni,kij,nj->nk", x, w, y))


# tables


def _unembed(g: Any, _r: Any, _w: Any, index: Any, padding: int | None) -> Any:
    if padding is not None:
        g = g * (index != padding)[..., None].astype(g.dtype)
    if isinstance(index, Tracer):
        return np.matmul(np.swapaxes(_hot(index, _w), 0, 1), np.reshape(g, (-1, _w.shape[1])))
    if isinstance(g, Tracer):
        return GETITEM.vjps[0](g, None, _w, (index,))
    out = np.zeros(_w.shape, g.dtype)
    flat = index.ravel()
    if flat.size:
        order = np.argsort(flat, kind="stable")
        rows = flat[order]
        starts = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
        out[rows[starts]] = np.add.reduceat(np.reshape(g, (flat.size, -1))[order], starts, axis=0)
    return out


def _hot(index: Any, w: Any) -> Any:
    """Rows of the identity matrix, for an index that differs between the examples of a batch."""
    return (np.reshape(index, (-1, 1)) == np.arange(w.shape[0])).astype(w.dtype)


def _embed(w: Any, index: Any, _padding: int | None) -> Any:
    return np.reshape(np.matmul(_hot(index, w), w), (*index.shape, w.shape[1])) if isinstance(index, Tracer) else w[index]


_EMBEDDING = _losses.indexed("Embedding", _embed, _unembed, 1, flat=True)


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """The rows of `weight` that `input` names; the row `padding_idx` gets no gradient."""
    if scale_grad_by_freq or sparse:
        raise NotImplementedError("embedding: scale_grad_by_freq=True and sparse=True are not in functrace.torch: leave them False.")
    index = input._a
    if index.dtype not in (np.int64, np.int32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"torch.{input.dtype.storage} instead (while checking arguments for embedding)"
        )
    rows = weight._a.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    plain = value(index)
    if plain.size and (plain.min() < 0 or plain.max() >= rows):
        raise IndexError("index out of range in self")
    if max_norm is not None:
        used = np.unique(plain)
        norms = np.linalg.norm(weight._a[used], norm_type, axis=1)
        long = norms > max_norm
        weight._a[used[long]] *= (max_norm / (norms[long] + 1e-7))[:, None].astype(weight._a.dtype)
        weight._ver[0] += 1
    return _EMBEDDING(weight, (input,), (None if padding_idx is None else padding_idx % rows,))


def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """Rows of the identity matrix."""
    a = tensor._a
    if a.dtype != np.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if not a.size and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    if a.size and a.min() < 0:
        raise RuntimeError("Class values must be non-negative.")
    if num_classes != -1 and a.size and a.max() >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    n = int(a.max()) + 1 if num_classes < 0 else num_classes
    return wrap((a[..., None] == np.arange(n)).astype(np.int64))


# distances


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between vectors along an axis."""
    shape = np.broadcast_shapes(x1._a.shape, x2._a.shape)
    x1, x2 = x1.expand(shape), x2.expand(shape)
    x1, x2 = x1 / x1.norm(2, dim, True).clamp(min=eps), x2 / x2.norm(2, dim, True).clamp(min=eps)
    return (x1 * x2).sum(dim)


def pdist(input: Any, p: float = 2.0) -> Any:
    """The distances between all pairs of rows."""
    return FUNCTIONS["pdist"](input, p)


def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """The p-norm of the differences of vectors."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


# borders


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
    return np.pad(x[cut], grown, constant_values=value) if any(map(any, grown)) else x[cut] * 1


_CONSTANT_PAD = Op(
    "ConstantPadNd",
    _constant_pad,
    [lambda g, _r, _x, pads, _value: _constant_pad(g, tuple((-a, -b) for a, b in pads), 0)],
    "ConstantPadNd",
    frees=False,
)
_BORDERS = {mode: [Op(f"{title}Pad{d}D", lambda x, index: x[index]) for d in (1, 2, 3)]
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


# sizes


def _shuffled(x: Any, r: int) -> Any:
    *lead, c, h, w = x.shape
    n = len(lead)
    x = np.transpose(np.reshape(x, (*lead, c // (r * r), r, r, h, w)), (*range(n + 1), n + 3, n + 1, n + 4, n + 2))
    return np.reshape(x, (*lead, c // (r * r), h * r, w * r))


def _unshuffled(x: Any, r: int) -> Any:
    *lead, c, h, w = x.shape
    n = len(lead)
    x = np.transpose(np.reshape(x, (*lead, c, h // r, r, w // r, r)), (*range(n + 1), n + 2, n + 4, n + 1, n + 3))
    return np.reshape(x, (*lead, c * r * r, h // r, w // r))


def _channels_shuffled(x: Any, groups: int) -> Any:
    n, c, *rest = x.shape
    return np.reshape(np.swapaxes(np.reshape(x, (n, groups, c // groups, *rest)), 1, 2), x.shape)


_SHUFFLE = Op("PixelShuffle", _shuffled, [lambda g, _r, _x, r: _unshuffled(g, r)], "PixelUnshuffle", frees=False)
_UNSHUFFLE = Op("PixelUnshuffle", _unshuffled, [lambda g, _r, _x, r: _shuffled(g, r)], "PixelShuffle", frees=False)
_CHANNELS = Op(
    "ChannelShuffle", _channels_shuffled, [lambda g, _r, _x, k: _channels_shuffled(g, _x.shape[1] // k)], "ChannelShuffle", frees=False
)


def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """Groups of r * r channels as blocks of r x r pixels."""
    r, c = upscale_factor, input._a.shape[-3]
    if c % (r * r):
        raise RuntimeError(
            f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
            f"input.size(-3)={c} is not divisible by {r * r}"
        )
    return call(_SHUFFLE, (input,), (r,))


def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """Blocks of r x r pixels as groups of r * r channels."""
    for n, what, k in zip(input._a.shape[-2:], ("height", "width"), (-2, -1)):
        if n % downscale_factor:
            raise RuntimeError(
                f"pixel_unshuffle expects {what} to be divisible by downscale_factor, but input.size({k})={n} is not divisible by "
                f"{downscale_factor}"
            )
    return call(_UNSHUFFLE, (input,), (downscale_factor,))


def channel_shuffle(input: Any, groups: int) -> Any:
    """The channels of several groups in turn."""
    if input._a.shape[1] % groups:
        raise RuntimeError("Number of channels must be divisible by groups. Got "
                           f"{input._a.shape[1]} channels and {groups} groups.")  # fmt: skip
    return call(_CHANNELS, (input,), (groups,))


def _cubic(t: Any) -> Any:
    """Weights of the four neighbours, by cubic convolution (Keys 1981) with a = -0.75."""
    a = -0.75
    near: Any = lambda d: ((a + 2) * d - (a + 3)) * d * d + 1
    far: Any = lambda d: ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return far(t + 1), near(t), near(1 - t), far(2 - t)


def _resampling(n: int, m: int, mode: str, align: bool, factor: float | None) -> Any:
    """The matrix that takes n samples to m."""
    k = np.arange(m)
    if align:
        x = k * ((n - 1) / (m - 1) if m > 1 else 0.0)
    else:
        x = (k + 0.5) * (1 / factor if factor else n / m) - 0.5
        x = x if mode == "bicubic" else np.maximum(x, 0)
    base = np.floor(x).astype(int)
    out = np.zeros((m, n))
    rows = _cubic(x - base) if mode == "bicubic" else (1 - (x - base), x - base)
    for j, weight in enumerate(rows):
        np.add.at(out, (k, np.clip(base + j - (mode == "bicubic"), 0, n - 1)), weight)
    return out


_UPSAMPLE = {
    mode: _pooling.mapped(f"Upsample{mode.title()}{d}D") for mode, d in (("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3))
}
_NEAREST = {
    mode: {d: Op(f"Upsample{node}{d}D", lambda x, index: x[index]) for d in (1, 2, 3)}
    for mode, node in (("nearest", "Nearest"), ("nearest-exact", "NearestExact"))
}


def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """Images (or sequences, or volumes) of another size, by their nearest neighbours or by (bi-, tri-) linear or bicubic interpolation."""
    sizes = input._a.shape[2:]
    d = len(sizes)
    if antialias:
        raise NotImplementedError("interpolate: antialias=True is not in functrace.torch: average with avg_pool first.")
    if (size is None) == (scale_factor is None):
        raise ValueError(
            "only one of size or scale_factor should be defined" if size is not None else "either size or scale_factor should be defined"
        )
    if align_corners is not None and mode in ("nearest", "area", "nearest-exact"):
        raise ValueError("align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear")
    factors: Any = (None,) * d
    if size is None:
        factors = (scale_factor,) * d if isinstance(scale_factor, (int, float)) else tuple(scale_factor)
        size = tuple(math.floor(n * f) for n, f in zip(sizes, factors))
        factors = (None,) * d if recompute_scale_factor else factors
    out = (size,) * d if isinstance(size, int) else tuple(size)
    if len(out) != d:
        raise ValueError(
            "Input and output must have the same number of spatial dimensions, but got input with spatial dimensions of "
            f"{list(sizes)} and output size of {size}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and output size in "
            "(o1, o2, ...,oK) format."
        )
    if mode == "area":
        return getattr(_pooling, f"adaptive_avg_pool{d}d")(input, out)
    if mode in _NEAREST:
        places = []
        for k, (n, m, f) in enumerate(zip(sizes, out, factors)):
            ratio = np.float32(1 / f if f else n / m)
            x = np.arange(m, dtype=np.float32) + np.float32(0.5 if mode == "nearest-exact" else 0)
            places.append(np.minimum(np.floor(x * ratio).astype(int), n - 1).reshape(-1, *(1,) * (d - 1 - k)))
        return call(_NEAREST[mode][d], (input,), ((..., *places),))
    if mode not in _UPSAMPLE or d != {"linear": 1, "trilinear": 3}.get(mode, 2):
        wanted = {"linear": 3, "bilinear": 4, "trilinear": 5}.get(mode)
        raise NotImplementedError(
            f"Got {d + 2}D input, but {mode} mode needs {wanted}D input"
            if wanted
            else f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {d + 2}D) for the modes: nearest | linear | bilinear "
            f"| bicubic | trilinear | area | nearest-exact (got {mode})"
        )
    maps = [_resampling(n, m, mode, bool(align_corners), f).astype(input._a.dtype) for n, m, f in zip(sizes, out, factors)]
    return call(_UPSAMPLE[mode], (input,), (maps,))


def upsample(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None) -> Any:
    """`interpolate`, under its old name."""
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=level())
    return interpolate(input, size, scale_factor, mode, align_corners)


def affine_grid(theta: Any, size: Sequence[int], align_corners: bool = False) -> Any:
    """Where each pixel of the output comes from, under an affine map: what `grid_sample` takes."""
    n, _, h, w = size
    ticks = [np.linspace(-1, 1, k) * (1 if align_corners else (k - 1) / k) for k in (h, w)]
    y, x = np.meshgrid(*ticks, indexing="ij")
    base = wrap(np.stack([x, y, np.ones_like(x)], -1).reshape(-1, 3).astype(theta._a.dtype))
    return (base @ theta.transpose(1, 2)).reshape(n, h, w, 2)


def _grid_sample(x: Any, grid: Any, mode: str, padding: str, align: bool) -> Any:
    n, _, h, w = x.shape
    spots = []
    for k, size in ((0, w), (1, h)):
        p = (grid[..., k] + 1) * ((size - 1) / 2) if align else ((grid[..., k] + 1) * size - 1) / 2
        spots.append(np.clip(p, 0, size - 1) if padding == "border" else p)
    px, py = spots
    batch = np.arange(n)[:, None, None]

    def pick(i: Any, j: Any) -> Any:
        inside = (i >= 0) & (i < h) & (j >= 0) & (j < w)
        rows = x[batch, :, np.clip(i, 0, h - 1), np.clip(j, 0, w - 1)]  # (n, out h, out w, channels)
        return rows * inside[..., None].astype(x.dtype)

    if mode == "nearest":
        return np.moveaxis(pick(np.rint(py).astype(int), np.rint(px).astype(int)), -1, 1)
    i, j = np.floor(py).astype(int), np.floor(px).astype(int)
    ty, tx = (py - i)[..., None], (px - j)[..., None]
    top = pick(i, j) * (1 - tx) + pick(i, j + 1) * tx
    low = pick(i + 1, j) * (1 - tx) + pick(i + 1, j + 1) * tx
    return np.moveaxis(top * (1 - ty) + low * ty, -1, 1)


_GRID_SAMPLE = Op("GridSampler2D", _grid_sample)


def grid_sample(input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None) -> Any:
    """The image at the places of a grid, whose coordinates go from -1 to 1."""
    if mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border") or input._a.ndim != 4:
        raise NotImplementedError(
            f"grid_sample: mode={mode!r} and padding_mode={padding_mode!r} on {input._a.ndim}-d input: functrace.torch has bilinear and "
            "nearest with zeros or border on images only."
        )
    return call(_GRID_SAMPLE, (input, grid), (mode, padding_mode, bool(align_corners)))


globals().update(trimmed(globals()))
__getattr__ = missing("torch.nn.functional")


def __dir__() -> list[str]:
    return sorted(name for name in globals() if not name.startswith("_"))
