"""Images of another size, and images seen through a grid."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.torch._apply import call
from functrace.torch._bind import bound
from functrace.torch._contact import in_floats, index_add, read, stop_gradient, unread, vjp
from functrace.torch._create import spaced
from functrace.torch._dtypes import warn
from functrace.torch._layout import as_image, in_order
from functrace.torch._limits import refuse
from functrace.torch._modes import recording
from functrace.torch._nodes import Op
from functrace.torch.nn import _pooling


def _cubic(t: Any, a: float = -0.75) -> Any:
    """Weights of the four neighbours, by cubic convolution (Keys 1981)."""
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


def _averaging(n: int, m: int, mode: str, align: bool, factor: float | None) -> Any:
    """`_resampling` whose weights reach over all pixels that an output pixel covers."""
    scale = (n - 1) / (m - 1) if align and m > 1 else 0.0 if align else 1 / factor if factor else n / m
    wide = max(scale, 1.0)
    center, reach = scale * (np.arange(m)[:, None] + 0.5), (2 if mode == "bicubic" else 1) * wide
    j = np.arange(n)
    first, last = np.maximum((center - reach + 0.5).astype(int), 0), np.minimum((center + reach + 0.5).astype(int), n)
    d = np.abs((j - center + 0.5) / wide)
    if mode == "bicubic":
        far, near, _, _ = _cubic(d - np.floor(d), -0.5)
        rows = np.where(d < 1, near, np.where(d < 2, far, 0))
    else:
        rows = np.maximum(1 - d, 0)
    rows = np.where((j >= first) & (j < last), rows, 0)
    return rows / rows.sum(1, keepdims=True)


@functools.lru_cache(maxsize=16)
def _weights(n: int, m: int, mode: str, align: bool, factor: float | None, antialias: bool, dtype: Any) -> Any:
    """The matrix of an axis, which all calls share."""
    out = (_averaging if antialias else _resampling)(n, m, mode, align, factor).astype(dtype)
    out.flags.writeable = False
    return out


_UPSAMPLE = {
    mode: _pooling.mapped(f"Upsample{mode.title()}{d}D", True)
    for mode, d in (("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3))
}
_UPSAMPLE.update({mode + "_aa": _pooling.mapped(f"Upsample{mode.title()}2DAa", True) for mode in ("bilinear", "bicubic")})


def _repeated(x: Any, times: tuple[int, ...]) -> Any:
    """Each element so many times along each of the last axes."""
    lead, sizes = x.shape[: -len(times)], x.shape[-len(times) :]
    apart = np.reshape(x, (*lead, *(m for n in sizes for m in (n, 1))))
    spread = np.broadcast_to(apart, (*lead, *(m for pair in zip(sizes, times) for m in pair)))
    return np.reshape(spread, (*lead, *(n * m for n, m in zip(sizes, times))))


def _gathered(g: Any, _r: Any, _x: Any, times: tuple[int, ...]) -> Any:
    d, sizes = len(times), _x.shape[-len(times) :]
    if math.prod(times) <= 16:  # sums of a few elements, which NumPy would begin one by one
        return sum(g[(..., *(slice(start, None, step) for start, step in zip(starts, times)))] for starts in np.ndindex(*times))
    apart = np.reshape(g, (*_x.shape[:-d], *(m for pair in zip(sizes, times) for m in pair)))
    return np.sum(apart, axis=tuple(range(-2 * d + 1, 0, 2)))


def _nearest(fun: Any, rule: Any) -> dict[str, dict[int, Op]]:
    return {
        mode: {d: Op(f"Upsample{node}{d}D", fun, [rule], f"Upsample{node}{d}DBackward", alone=True, lies=as_image) for d in (1, 2, 3)}
        for mode, node in (("nearest", "Nearest"), ("nearest-exact", "NearestExact"))
    }


_NEAREST, _TIMES = _nearest(read, unread), _nearest(_repeated, in_floats(_gathered))


@functools.lru_cache(maxsize=256)
def _neighbours_of(sizes: tuple[int, ...], out: tuple[int, ...], factors: Any, mode: str) -> tuple[Any, Any]:
    """How often each element is repeated, if all are alike often, and the index of those that are nearest."""
    places = []
    for k, (n, m, f) in enumerate(zip(sizes, out, factors)):
        ratio = np.float32(1 / f if f else n / m)
        x = np.arange(m, dtype=np.float32) + np.float32(0.5 if mode == "nearest-exact" else 0)
        places.append(np.minimum(np.floor(x * ratio).astype(int), n - 1).reshape(-1, *(1,) * (len(sizes) - 1 - k)))
    alike = 0 not in sizes and all(not m % n and (p.reshape(n, -1) == np.arange(n)[:, None]).all() for n, m, p in zip(sizes, out, places))
    return tuple(m // n for n, m in zip(sizes, out)) if alike else None, (..., *places)


def _unfit(ndim: int, mode: str) -> NotImplementedError:
    wanted = {"linear": 3, "bilinear": 4, "trilinear": 5}.get(mode)
    if wanted and 3 <= ndim <= 5:
        return NotImplementedError(f"Got {ndim}D input, but {mode} mode needs {wanted}D input")
    return NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {ndim}D) for the modes: nearest | linear | bilinear | bicubic | "
        f"trilinear | lanczos | area | nearest-exact (got {mode})"
    )


def _resized(sizes: tuple[int, ...], size: Any, scale_factor: Any, recompute: bool) -> tuple[tuple[int, ...], Any]:
    """The sizes that are asked for, and the factors, None where they are to follow from the sizes."""
    d = len(sizes)
    if size is None:
        factors = (scale_factor,) * d if isinstance(scale_factor, (int, float)) else tuple(scale_factor)
        if len(factors) != d:
            raise ValueError(
                "Input and scale_factor must have the same number of spatial dimensions, but got input with spatial dimensions of "
                f"{list(sizes)} and scale_factor of shape {scale_factor}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
                "scale_factor in (s1, s2, ...,sK) format."
            )
        return tuple(math.floor(n * f) for n, f in zip(sizes, factors)), (None,) * d if recompute else factors
    if recompute:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    out = (size,) * d if isinstance(size, int) else tuple(size)
    if len(out) != d:
        raise ValueError(
            "Input and output must have the same number of spatial dimensions, but got input with spatial dimensions of "
            f"{list(sizes)} and output size of {size}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and output size in "
            "(o1, o2, ...,oK) format."
        )
    return out, (None,) * d


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
    if antialias and (mode not in ("bilinear", "bicubic") or d != 2):
        raise ValueError("Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input")
    if (size is None) == (scale_factor is None):
        raise ValueError(
            "only one of size or scale_factor should be defined" if size is not None else "either size or scale_factor should be defined"
        )
    if align_corners is not None and mode in ("nearest", "area", "nearest-exact"):
        raise ValueError("align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear")
    out, factors = _resized(sizes, size, scale_factor, bool(recompute_scale_factor))
    if not 1 <= d <= 3:
        raise _unfit(input._a.ndim, mode)
    if mode == "area":
        refuse(f"nn.adaptive_avg_pool{d}d", input._a.dtype)
        return getattr(_pooling, f"adaptive_avg_pool{d}d")(input, out)
    if mode in _NEAREST:
        times, places = _neighbours_of(sizes, out, factors, mode)
        return call(_TIMES[mode][d], (input,), (times,)) if times else call(_NEAREST[mode][d], (input,), (places,))
    if mode not in _UPSAMPLE or d != {"linear": 1, "trilinear": 3}.get(mode, 2):
        raise _unfit(d + 2, mode)
    op, x = _UPSAMPLE[mode + "_aa" * antialias], input.float() if input._a.dtype.kind == "u" else input
    maps = [_weights(n, m, mode, bool(align_corners), f and float(f), antialias, x._a.dtype) for n, m, f in zip(sizes, out, factors)]
    if x is input:
        return call(op, (x,), (maps,))
    for k in range(d)[::-1]:  # bytes are rounded after each axis
        x = call(op, (x,), ([maps[j] if j == k else np.eye(n, dtype=x._a.dtype) for j, n in enumerate(x.shape[2:])],)).round().clamp(0, 255)
    return x.to(input.dtype)


def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """`interpolate` by nearest neighbours, under its old name."""
    warn("`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor)


def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """`interpolate` by bilinear functions with aligned corners, under its old name."""
    warn("`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, "bilinear", True)


def upsample(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None) -> Any:
    """`interpolate`, under its old name."""
    warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode, align_corners)


def _align(align_corners: bool | None) -> bool:
    if align_corners is None:
        warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify "
            "align_corners=True if the old behavior is desired. See the documentation of grid_sample for details."
        )
    return bool(align_corners)


def _affine_grid(theta: Any, sizes: tuple[int, ...], align: bool) -> Any:
    ticks = [spaced(-1, 1, k, theta.dtype) * (1 if align else k - 1) / (1 if align else k) if k > 1 else np.zeros(1) for k in sizes]
    places = [*reversed(np.meshgrid(*ticks, indexing="ij")), np.ones(sizes)]
    base = np.stack(places, -1).reshape(-1, len(places)).astype(theta.dtype)
    return np.reshape(base @ np.swapaxes(theta, 1, 2), (theta.shape[0], *sizes, len(sizes)))


_AFFINE_GRID = bound("affine_grid", "AffineGridGenerator", _affine_grid, frees=False)


def affine_grid(theta: Any, size: Sequence[int], align_corners: bool | None = None) -> Any:
    """Where each pixel (or voxel) of the output comes from, under an affine map: what `grid_sample` takes."""
    align, d = _align(align_corners), len(size) - 2
    if theta._a.dtype.kind != "f":
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if d not in (2, 3):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size {list(size)}."
        )
    if theta._a.shape != (size[0], d, d + 1):
        raise ValueError(f"Expected a batch of {d}D affine matrices of shape Nx{d}x{d + 1} for size {list(size)}. Got {theta.shape}.")
    return _AFFINE_GRID(theta, tuple(size[2:]), align)


def _inside(p: Any, n: Any, padding: str, align: bool) -> Any:
    """Places in an image of n pixels, those beyond its ends moved to the border or reflected. The gradient is 0 at the ends."""
    if padding == "reflection":
        low, span = (0, n - 1) if align else (-0.5, n)
        far = np.abs(p - low)
        flips = np.floor(far / np.maximum(span, 1))
        rest = far - flips * span
        p = np.where(flips % 2 == 0, rest, span - rest) + low
    if padding != "zeros":
        p = np.where(p <= 0, 0, np.where(p >= n - 1, n - 1, p)).astype(p.dtype)
    return p


def _neighbours(p: Any, n: Any, mode: str, padding: str, align: bool) -> tuple[Any, Any]:
    """On each axis the pixels that have a share in the places p, and their shares, 0 beyond the image, along a new first axis."""
    if mode != "bicubic":
        p = _inside(p, n, padding, align)
    base = (np.rint if mode == "nearest" else np.floor)(stop_gradient(p))
    rest, base = p - base, base.astype(int)
    shares = (np.ones_like(p),) if mode == "nearest" else _cubic(rest) if mode == "bicubic" else (1 - rest, rest)
    i, last = base + np.arange(len(shares)).reshape(-1, *(1,) * p.ndim), n.astype(int) - 1
    if mode == "bicubic":
        i = _inside((i - 1).astype(p.dtype), n, padding, align).astype(int)
    return np.minimum(np.maximum(i, 0), last), np.stack(shares) * ((i >= 0) & (i <= last)).astype(p.dtype)


def _corners(grid: Any, sizes: Sequence[int], *how: Any) -> tuple[Any, Any]:
    """For each place of the grid the shares of the pixels round it, and those, numbered through all images: (corners, *places)."""
    d, places = len(sizes), grid.shape[:-1]
    n = np.array(sizes[::-1], grid.dtype).reshape(-1, *(1,) * len(places))
    grid = np.stack([grid[..., k] for k in range(d)])  # coordinates first: a short last axis is slow
    pixels, shares = _neighbours(((grid + 1) * (n - 1 if how[-1] else n) - (0 if how[-1] else 1)) / 2, n, *how)
    corner, share = np.arange(places[0]).reshape(1, -1, *(1,) * d) * sizes[0] + pixels[:, -1], shares[:, -1]
    for k in range(1, d):
        shape = (len(share) * len(shares), *places)
        corner = np.reshape(corner[:, None] * sizes[k] + pixels[:, -1 - k], shape)
        share = np.reshape(share[:, None] * shares[:, -1 - k], shape)
    return share, corner


def _found(x: Any, grid: Any, how: Sequence[Any], made: Any) -> Any:
    """Shares, their pullback, and corners, once for the result and its gradients; of a traced grid each finds its own, which are part of
    its derivative.
    """
    return made if made and type(grid) is np.ndarray else vjp(lambda grid: _corners(grid, x.shape[2:], *how), grid, has_aux=True)


def _seen(x: Any, corner: Any) -> Any:
    """The pixels, channels first: (channels, corners, *places)."""
    rows = np.reshape(np.swapaxes(x, 0, 1), (x.shape[1], x.shape[0] * math.prod(x.shape[2:])))
    return np.take(rows, corner, axis=1) if type(corner) is np.ndarray else read(rows, (slice(None), corner))


def _grid_sample(x: Any, grid: Any, how: Sequence[Any], made: Any) -> Any:
    share, _, corner = _found(x, grid, how, made)
    return np.swapaxes(np.sum(_seen(x, corner) * share, axis=1), 0, 1)


def _unsee(g: Any, _r: Any, _x: Any, grid: Any, how: Sequence[Any], made: Any) -> Any:
    share, _, corner = _found(_x, grid, how, made)
    n, channels, *sizes = _x.shape
    pixels = n * math.prod(sizes)
    places = corner + pixels * np.arange(channels).reshape(-1, *(1,) * len(corner.shape))
    whole = index_add(np.zeros(channels * pixels, g.dtype), np.ravel(np.swapaxes(g, 0, 1)[:, None] * share), np.ravel(places))
    return in_order(np.swapaxes(np.reshape(whole, (channels, n, *sizes)), 0, 1))


def _ungrid(g: Any, _r: Any, x: Any, grid: Any, how: Sequence[Any], made: Any) -> Any:
    _, pull, corner = _found(x, grid, how, made)
    return pull(np.sum(_seen(x, corner) * np.swapaxes(g, 0, 1)[:, None], axis=0))[0]


_GRID_SAMPLE = {
    d: Op(f"GridSampler{d}D", _grid_sample, [_unsee, _ungrid], f"GridSampler{d}DBackward", frees=True, lies=in_order) for d in (2, 3)
}


def grid_sample(input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None) -> Any:
    """The image (or volume) at the places of a grid, whose coordinates go from -1 to 1."""
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            f"nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: '{padding_mode}'"
        )
    align, x, g, d = _align(align_corners), input._a.shape, grid._a.shape, input._a.ndim - 2
    if x[0] != g[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but got input with sizes {list(x)} and grid with sizes "
            f"{list(g)}"
        )
    if g[-1] != d:
        raise RuntimeError(f"grid_sampler(): expected grid to have size {d} in last dimension, but got grid with sizes {list(g)}")
    if d not in (2, 3) or len(g) != len(x):
        raise RuntimeError(
            f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes {list(x)} and grid "
            f"with sizes {list(g)}"
        )
    if mode == "bicubic" and d == 3:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    how = mode, padding_mode, align
    made: Any = None
    if type(grid._a) is np.ndarray and grid._rg and recording():
        made = _found(input._a, grid._a[...], how, None)
    elif type(grid._a) is np.ndarray:
        share, corner = _corners(grid._a, x[2:], *how)
        made = share, None, corner
    return call(_GRID_SAMPLE[d], (input, grid), (how, made))
