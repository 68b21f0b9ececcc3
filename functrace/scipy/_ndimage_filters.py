"""Filters of images: along one axis at a time, with a kernel, and with a window."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.ndimage as _scipy
from numpy.lib.array_utils import normalize_axis_index

from functrace import errors
from functrace.ops.arrange import as_line
from functrace.ops.create import lift
from functrace.ops.functions import refuse
from functrace.ops.registry import Sample, each, found, one
from functrace.ops.statistics import as_float
from functrace.places import user_line
from functrace.scipy._shared import along, choice, named, only_first, root
from functrace.scipy._signal_products import flip, product

_MODES = ("reflect", "constant", "nearest", "mirror", "wrap")
_pad: Any = found("pad").function  # of a traced `cval` too
_PADS = {
    "reflect": "symmetric", "grid-mirror": "symmetric", "constant": "constant", "grid-constant": "constant", "nearest": "edge",
    "mirror": "reflect", "wrap": "wrap", "grid-wrap": "wrap",
}  # fmt: skip


def _each(value: Any, axes: Any) -> list[Any]:
    if np.ndim(value) == 0 or isinstance(value, str):
        return [value] * len(axes)
    if len(value) != len(axes):
        raise RuntimeError(f"sequence argument must have length equal to input rank, got {len(value)} for {len(axes)} axes")
    return list(value)


def _all_axes(x: Any, axes: Any) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if axes is None else tuple(normalize_axis_index(a, x.ndim) for a in np.atleast_1d(axes).tolist())


# filters along one axis at a time


def _along(name: str, x: Any, axis: int, mode: str, cval: Any, reach: int, given: Any, mirrored: Any = None, sign: int = 1) -> Any:
    """A filter of SciPy's along one axis, linear but for what `cval` adds, whose kernel reaches that far. The parameters `mirrored` give
    the kernel mirrored, without them it is even or, if `sign` is -1, odd: that is the transpose, if nothing or the other end lies
    beyond the ends; else the ends are continued first.
    """
    own = getattr(_scipy, name)
    only_first(name, *given.values())
    made: Any = lambda mode, more: lambda y, k: own(y, axis=k, mode=mode, cval=0.0, **more)
    pair: Any = lambda mode: (made(mode, given), made(mode, {**given, **(mirrored or {})}))
    odd: Any = lambda f, back: (f, (lambda y, k: -back(y, k)) if sign < 0 else back)
    axis = normalize_axis_index(axis, x.ndim)
    beyond = choice("mode", mode, _PADS)
    if beyond in ("constant", "wrap") or beyond == "symmetric" and sign == 1 and mirrored is None:
        out = along(x, axis, *odd(*pair(mode)))
    else:
        continued = _pad(x, [(reach * (k == axis),) * 2 for k in range(x.ndim)], mode=beyond)
        out = along(continued, axis, *odd(*pair("constant")))[(slice(None),) * axis + (slice(reach, reach + x.shape[axis]),)]
    if type(cval) in (int, float) and cval == 0:  # a traced 0 has a derivative
        return out
    return out + cval * own(np.zeros(x.shape, x.dtype), axis=axis, mode=mode, cval=1.0, **given)


def of_image(name: str, *samples: Sample, whole: bool = False, **more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`named` of a function of an image, which has floats unless `whole` numbers are as good."""
    return named(_scipy, name, *samples, read=lift if whole else functools.partial(_floats, name), **more)


def _floats(name: str, input: Any) -> Any:
    """An image of floats. Of another SciPy's result is rounded to whole numbers."""
    x = lift(input)
    if x.dtype.kind not in "fc":
        raise errors.UnsupportedError(
            f"{name}: of {errors.describe(x)} SciPy's result is {x.dtype} too, rounded, which has no derivative.\n"
            f"  At {user_line()}.\n  Pass image.astype(float)."
        )
    return x


@of_image(
    "gaussian_filter1d",
    *(one(2, 6, sigma=1.2, mode=m) for m in _MODES),
    one(6, 2, sigma=0.8, axis=0, order=1),
    one(5, sigma=0.8, mode="constant", cval=2.0),
)
def gaussian_filter1d(x: Any, sigma: Any, axis: int, order: int, mode: str, cval: Any, truncate: float, radius: Any) -> Any:
    only_first("gaussian_filter1d", sigma, truncate)
    kernel = {"sigma": sigma, "order": order, "truncate": truncate, "radius": radius}
    reach = int(truncate * sigma + 0.5) if radius is None else radius
    return _along("gaussian_filter1d", x, axis, mode, cval, reach, kernel, sign=-1 if order % 2 else 1)


@of_image("uniform_filter1d", one(2, 6, size=3), one(6, 2, size=4, axis=0, mode="wrap", origin=1))
def uniform_filter1d(x: Any, size: int, axis: int, mode: str, cval: Any, origin: int) -> Any:
    mirrored = None if size % 2 == 1 and not origin else {"origin": -origin - (size + 1) % 2}
    kernel = {"size": size, "origin": origin}
    return _along("uniform_filter1d", x, axis, mode, cval, size // 2 + abs(origin), kernel, mirrored)


@of_image("spline_filter1d", *(one(2, 6, mode=m) for m in ("mirror", "reflect", "grid-wrap")), one(6, 2, axis=0, order=2), whole=True)
def spline_filter1d(x: Any, order: int, axis: int, mode: str) -> Any:
    if not 0 <= order <= 5:
        raise RuntimeError("spline order not supported")
    x = x.astype(np.complex128 if x.dtype.kind == "c" else float)
    f: Any = lambda y, k: _scipy.spline_filter1d(y, order, k, y.dtype, mode)

    def mirrored(y: Any, k: int) -> Any:
        ends = as_line(np.where(np.arange(n) % (n - 1) == 0, 0.5, 1.0), k % y.ndim, y.ndim)
        return ends * f(y / ends, k)

    if order < 2:
        return x
    n = x.shape[axis]
    if n < 30:  # SciPy is not accurate there at the ends, so that only its matrix has its transpose
        return along(x, axis, f)
    # The matrix is symmetric; where ends are mirrored but not repeated, it is so once the rows of the ends are halved.
    return along(x, axis, f, f if mode in ("reflect", "grid-mirror", "nearest", "grid-wrap") else mirrored)


@of_image("spline_filter", one(4, 5), one(4, 5, order=2, mode="reflect"), whole=True)
def spline_filter(x: Any, order: int, mode: str) -> Any:
    for axis in range(x.ndim):
        x = spline_filter1d(x, order, axis, mode=mode)
    return x


@of_image(
    "gaussian_filter",
    *(one(4, 5, sigma=0.9, mode=m) for m in _MODES),
    one(4, 5, sigma=(0.8, 1.1), order=(0, 1)),
    one(4, 5, sigma=0.8, axes=(1,)),
)
def gaussian_filter(x: Any, sigma: Any, order: Any, mode: Any, cval: Any, truncate: float, radius: Any, axes: Any = None) -> Any:
    axes = _all_axes(x, axes)
    for axis, s, n, m, r in zip(axes, *(_each(v, axes) for v in (sigma, order, mode, radius))):
        if s > 1e-15:
            x = gaussian_filter1d(x, s, axis, n, None, m, cval, truncate, radius=r)
    return x


@of_image("uniform_filter", *(one(4, 5, mode=m) for m in _MODES), one(4, 5, size=(2, 3)))
def uniform_filter(x: Any, size: Any, mode: Any, cval: Any, origin: Any, axes: Any = None) -> Any:
    axes = _all_axes(x, axes)
    for axis, n, m, o in zip(axes, *(_each(v, axes) for v in (size, mode, origin))):
        x = uniform_filter1d(x, int(n), axis, None, m, cval, o) if n > 1 else x
    return x


def _edge_filter(name: str, smooth: list[float]) -> Any:
    def function(x: Any, axis: int, mode: Any, cval: Any) -> Any:
        axis = normalize_axis_index(axis, x.ndim)
        modes = _each(mode, range(x.ndim))
        out = _along("correlate1d", x, axis, modes[axis], cval, 1, {"weights": [-1, 0, 1]}, sign=-1)
        for k in range(x.ndim):
            out = out if k == axis else _along("correlate1d", out, k, modes[k], cval, 1, {"weights": smooth})
        return out

    return of_image(name, *(one(4, 5, mode=m) for m in _MODES), one(4, 5, axis=0))(function)


sobel, prewitt = _edge_filter("sobel", [1, 2, 1]), _edge_filter("prewitt", [1, 1, 1])


def _over_axes(x: Any, mode: Any, axes: Any, part: Callable[[int, str], Any]) -> Any:
    axes = _all_axes(x, axes)
    return sum((part(k, m) for k, m in zip(axes, _each(mode, axes))), 0 * x)


@of_image("laplace", *(one(4, 5, mode=m) for m in _MODES))
def laplace(x: Any, mode: Any, cval: Any, axes: Any = None) -> Any:
    return _over_axes(x, mode, axes, lambda k, m: _along("correlate1d", x, k, m, cval, 1, {"weights": [1, -2, 1]}))


@of_image("gaussian_laplace", one(4, 5, sigma=0.9))
def gaussian_laplace(x: Any, sigma: Any, mode: Any, cval: Any, kwargs: dict[str, Any]) -> Any:
    return _over_axes(x, mode, None, lambda k, m: gaussian_filter(x, sigma, _on(x, k, 2, 0), None, m, cval, **kwargs))


@of_image("gaussian_gradient_magnitude", one(4, 5, sigma=0.9))
def gaussian_gradient_magnitude(x: Any, sigma: Any, mode: Any, cval: Any, kwargs: dict[str, Any]) -> Any:
    return root(_over_axes(x, mode, None, lambda k, m: gaussian_filter(x, sigma, _on(x, k, 1, 0), None, m, cval, **kwargs) ** 2))


# filters with a kernel or a window


def _padded(x: Any, sizes: list[int], origins: list[Any], modes: list[str], cval: Any) -> Any:
    """The image continued by what windows of these sizes reach."""
    for axis, (n, origin, mode) in enumerate(zip(sizes, origins, modes)):
        widths, beyond = [(0, 0)] * x.ndim, choice("mode", mode, _PADS)
        widths[axis] = (n // 2 + int(origin), n - n // 2 - 1 - int(origin))
        if min(widths[axis]) < 0:
            raise ValueError("invalid origin")
        if widths[axis] != (0, 0):
            x = _pad(x, widths, mode=beyond, **({"constant_values": cval} if beyond == "constant" else {}))
    return x


def _correlated(x: Any, w: Any, mode: Any, cval: Any, origin: Any) -> Any:
    if w.dtype.kind == "c" or x.ndim != w.ndim:
        refuse("correlate", weights=(w, None))
    axes = range(x.ndim)
    padded = _padded(x, list(w.shape), _each(origin, axes), _each(mode, axes), cval)
    return product(padded, flip(w), "valid", "direct").astype(x.dtype)


_KERNELS = [*(each((4, 5), (3, 2), mode=m) for m in _MODES), each((5,), (3,), origin=1), each((5,), (2,), mode="constant", cval=2.0)]


@of_image("correlate", *_KERNELS)
def correlate(x: Any, weights: Any, mode: Any, cval: Any, origin: Any) -> Any:
    """`scipy.ndimage.correlate`; the weights may be traced too."""
    return _correlated(x, as_float(weights), mode, cval, origin)


@of_image("convolve", *_KERNELS)
def convolve(x: Any, weights: Any, mode: Any, cval: Any, origin: Any) -> Any:
    """`scipy.ndimage.convolve`; the weights may be traced too."""
    w = as_float(weights)
    origins = [-int(o) - (1 - n % 2) for o, n in zip(_each(origin, w.shape), w.shape)]
    return _correlated(x, flip(w), mode, cval, origins)


def _on(x: Any, axis: int, value: Any, elsewhere: int) -> list[Any]:
    """A value for each axis of an image: that of one, and what the others have."""
    return [value if k == normalize_axis_index(axis, x.ndim) else elsewhere for k in range(x.ndim)]


def _line(name: str, function: Callable[..., Any]) -> None:
    def along_axis(x: Any, weights: Any, axis: int, mode: str, cval: Any, origin: int) -> Any:
        w = as_float(weights)
        return function(x, np.reshape(w, _on(x, axis, w.shape[0], 1)), None, mode, cval, _on(x, axis, origin, 0))

    of_image(name, each((2, 5), (3,)), each((5, 2), (2,), axis=0, mode="wrap"))(along_axis)


_line("correlate1d", correlate)
_line("convolve1d", convolve)


def _windows(x: Any, size: Any, footprint: Any, mode: Any, cval: Any, origin: Any) -> Any:
    axes = range(x.ndim)
    shape = np.shape(footprint) if footprint is not None else tuple(int(n) for n in _each(size, axes))
    padded = _padded(x, list(shape), _each(origin, axes), _each(mode, axes), cval)
    inside = np.ones(shape, bool) if footprint is None else np.asarray(footprint, bool)
    parts = [
        padded[tuple(slice(k, k + n) for k, n in zip(offset, x.shape))]
        for offset in itertools.product(*map(range, shape))
        if inside[offset]
    ]
    return np.stack(parts, axis=-1)


_SPREAD = Sample(lambda rng: (rng.permutation(20).reshape(4, 5) + 0.1 * rng.random((4, 5)),), {"size": 3})
_CROSS = Sample(_SPREAD.args, {"footprint": np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]]), "mode": "wrap"})
_VALID = Sample(_SPREAD.args, {"size": (2, 3), "mode": "constant", "cval": 3.55, "origin": (0, -1)})


def _window_filter(name: str, pick: Callable[..., Any], *samples: Sample) -> Any:
    """A filter that picks from each window; `pick(windows)`, or `pick(windows, parameter)`."""

    def function(x: Any, size: Any, footprint: Any, mode: Any, cval: Any, origin: Any, rank: Any = None, percentile: Any = None) -> Any:
        if size is None and footprint is None:
            raise RuntimeError("no footprint or filter size provided")
        return pick(_windows(x, size, footprint, mode, cval, origin), *(v for v in (rank, percentile) if v is not None))

    return of_image(name, *(samples or (_SPREAD, _CROSS, _VALID)), whole=True)(function)


def _ranked(windows: Any, rank: int) -> Any:
    return np.sort(windows, axis=-1)[..., int(rank)]


def _percentile(windows: Any, percentile: float) -> Any:
    n = windows.shape[-1]
    percentile = percentile + 100.0 if percentile < 0 else percentile
    return _ranked(windows, n - 1 if percentile == 100 else int(n * percentile / 100.0))


maximum_filter = _window_filter("maximum_filter", lambda w: np.max(w, axis=-1))
minimum_filter = _window_filter("minimum_filter", lambda w: np.min(w, axis=-1))
median_filter = _window_filter("median_filter", lambda w: _ranked(w, w.shape[-1] // 2))
rank_filter = _window_filter(
    "rank_filter", _ranked, Sample(_SPREAD.args, {"rank": 2, "size": 3}), Sample(_SPREAD.args, {"rank": -2, "size": 3})
)
percentile_filter = _window_filter("percentile_filter", _percentile, Sample(_SPREAD.args, {"percentile": 30, "size": 3}))


def _extreme_along(name: str, pick: Callable[..., Any]) -> None:
    def function(x: Any, size: int, axis: int, mode: str, cval: Any, origin: int) -> Any:
        return pick(_windows(x, _on(x, axis, size, 1), None, mode, cval, _on(x, axis, origin, 0)), axis=-1)

    of_image(name, _SPREAD, Sample(_SPREAD.args, {"size": 2, "axis": 0, "mode": "nearest"}), whole=True)(function)


_extreme_along("maximum_filter1d", np.max)
_extreme_along("minimum_filter1d", np.min)
