"""SciPy's `ndimage`, for plain and traced arrays alike: filters, spline interpolation, measurements.

>>> import functrace as ft, numpy as np
>>> from functrace.scipy import ndimage
>>> ft.grad(lambda s: ndimage.shift(np.arange(5.0) ** 2, s, order=1)[2])(0.5)
np.float64(-3.0)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.ndimage as _scipy
import scipy.special as sp
from numpy.lib.array_utils import normalize_axis_index

from functrace import errors
from functrace.ops.arrange import as_line
from functrace.ops.create import lift
from functrace.ops.functions import refuse
from functrace.ops.index import index
from functrace.ops.registry import Sample, holds_tracer, one
from functrace.ops.statistics import as_float
from functrace.places import user_line
from functrace.scipy import _special_gamma  # noqa: F401
from functrace.scipy._ndimage_filters import _PADS, _SPREAD, _each, _pad, of_image, spline_filter
from functrace.scipy._shared import by_name, declarer, late, one_of, only_first, root

if TYPE_CHECKING:
    from scipy.ndimage import *  # noqa: F403

_declared = declarer(_scipy)


# interpolation


def _basis(order: int, x: Any) -> Any:
    """The cardinal B-spline of an order above 0, by truncated powers."""
    half, left = (order + 1) / 2, np.where(x >= 0, -x, x)  # smooth in x, unlike the absolute value
    total: Any = 0.0
    for k in range(order // 2 + 1):
        reach = left + (half - k)
        total = total + (-1) ** k * math.comb(order + 1, k) * np.where(reach >= 0, reach, 0.0) ** order
    return total / math.factorial(order)


def _folded(x: Any, n: int, mode: str) -> Any:
    """Coordinates brought into the image, as a mode continues it."""
    if mode in ("constant", "grid-constant"):
        return x
    if mode == "nearest":
        return np.minimum(np.maximum(x, 0), n - 1)
    if n == 1:
        return 0 * x
    if mode == "grid-wrap":
        return np.where((x < 0) | (x > n - 1), x - n * np.floor(x / n), x)
    if mode == "wrap":  # whole periods below 0 go to the last point
        turns = np.where(x < 0, -1 - np.floor(-x / (n - 1)), np.floor(x / (n - 1)))
        return np.where((x < 0) | (x > n - 1), x - (n - 1) * turns, x)
    if mode == "mirror":
        y = np.abs(x) % (2 * n - 2)
        return np.where(y >= n, 2 * n - 2 - y, y)
    y = np.abs(x + 0.5) % (2 * n)
    return np.where(y > n, 2 * n - y, y) - 0.5


def _interpolated(x: Any, coordinates: list[Any], order: int, mode: str, cval: Any, prefilter: bool) -> Any:
    """Values at coordinates, one array for each axis."""
    if not 0 <= order <= 5:
        raise RuntimeError("spline order not supported")
    one_of("mode", mode, *_ALL)
    mode = "reflect" if mode == "grid-mirror" else mode
    pad, shape = 0, x.shape
    if mode == "grid-constant" or order > 1 and prefilter and mode == "nearest":
        pad = 12
        x = _pad(x, pad, mode=_PADS[mode], **({"constant_values": cval} if mode == "grid-constant" else {}))
    inner = mode if mode in ("reflect", "grid-wrap", "nearest") else "mirror"
    coefficients = spline_filter(x, order, mode=inner) if prefilter and order > 1 else x
    outside: Any = False
    picks, weights = [], []
    for c, n in zip(coordinates, shape):
        if mode == "constant":
            inside = (c >= 0) & (c <= n - 1)
            outside, c = outside | ~inside, np.where(inside, c, 0.0)  # infinity and NaN are outside
        if mode == "grid-constant":
            outside = outside | (c < -pad) | (c > n - 1 + pad)
        c = c + pad if mode == "nearest" else _folded(c + pad, n + 2 * pad, mode)
        base = np.floor(c if order % 2 else c + 0.5) - order // 2
        nodes = [base + k for k in range(order + 1)]
        weights.append([_basis(order, c - i) if order else 1.0 for i in nodes])
        picks.append([np.clip(_folded(i, n + 2 * pad, inner), 0, n + 2 * pad - 1).astype(int) for i in nodes])
    out: Any = 0.0
    flat, sizes = np.reshape(coefficients, -1), coefficients.shape
    for corner in itertools.product(range(order + 1), repeat=len(shape)):
        place: Any = 0
        for p, k, n in zip(picks, corner, sizes):
            place = place * n + p[k]
        term = index(flat, place)
        for w, k in zip(weights, corner):
            term = term * w[k]
        out = out + term
    return np.where(outside, cval, out) if mode in ("constant", "grid-constant") else out


_PLACES: Any = lambda rng: (rng.normal(size=(4, 5)), np.array([[0.3, 1.6, 2.7], [1.4, 3.2, 0.8]]))
_ALL = ("reflect", "grid-mirror", "constant", "grid-constant", "nearest", "mirror", "wrap", "grid-wrap")
_OUTSIDE: Any = lambda rng: (rng.normal(size=(4, 5)), np.array([[-0.3, 1.6, 3.4, 0.2], [1.4, 4.3, 0.8, -0.7]]))


@of_image(
    "map_coordinates",
    *(Sample(_PLACES, {"order": k}, (0, 1)) for k in (0, 1, 2, 3, 4, 5)),
    *(Sample(_OUTSIDE, {"order": k, "mode": m, "cval": 0.7}, (0, 1)) for k in (1, 3) for m in _ALL),
    note="the image and the coordinates",
)
def map_coordinates(x: Any, coordinates: Any, order: int, mode: str, cval: Any, prefilter: bool) -> Any:
    c = lift(coordinates)
    if c.shape[:1] != (x.ndim,):
        raise RuntimeError(f"map_coordinates: coordinates of shape {c.shape} for an image of {x.ndim} axes")
    return _interpolated(x, [c[k] for k in range(x.ndim)], order, mode, cval, prefilter).astype(x.dtype)


def _grid(shape: Any) -> list[Any]:
    return list(np.indices(tuple(shape)).astype(float))


@of_image(
    "shift",
    *(Sample(lambda rng: (rng.normal(size=(4, 5)), 0.6), {"order": k}, (0, 1)) for k in (1, 3)),
    Sample(lambda rng: (rng.normal(size=(4, 5)), np.array([0.6, -1.3])), {"mode": "mirror"}, (0, 1)),
)
def shift(x: Any, shift: Any, order: int, mode: str, cval: Any, prefilter: bool) -> Any:
    """`scipy.ndimage.shift`; the shift may be traced too."""
    s = lift(shift)
    if s.ndim and s.shape != (x.ndim,):
        raise RuntimeError(f"shift: sequence argument must have length equal to input rank, got {s.shape[0]} for {x.ndim} axes")
    moved = [g - (s[k] if s.ndim else s) for k, g in enumerate(_grid(x.shape))]
    return _interpolated(x, moved, order, mode, cval, prefilter).astype(x.dtype)


@of_image("zoom", one(4, 5, zoom=1.6), one(4, 5, zoom=(2, 0.6), order=1), one(5, zoom=1.7, mode="nearest"))
def zoom(x: Any, zoom: Any, order: int, mode: str, cval: Any, prefilter: bool, grid_mode: bool) -> Any:
    shape = [round(n * z) for n, z in zip(x.shape, _each(zoom, range(x.ndim)))]
    if grid_mode:
        places = [(g + 0.5) * (n / max(m, 1)) - 0.5 for g, n, m in zip(_grid(shape), x.shape, shape)]
    else:
        places = [g * ((n - 1) / (m - 1) if m > 1 else 1.0) for g, n, m in zip(_grid(shape), x.shape, shape)]
        places = [np.minimum(p, n - 1.0) for p, n in zip(places, x.shape)]  # rounding must not leave the image
    return _interpolated(x, places, order, mode, cval, prefilter).astype(x.dtype)


_MATRIX = np.array([[0.9, 0.2], [-0.2, 0.9]])


@of_image(
    "affine_transform",
    *(
        Sample(lambda rng: (rng.normal(size=(4, 5)), _MATRIX, np.array([0.35, 0.25])), {"order": k, "mode": "mirror"}, w)
        for k, w in ((1, (0,)), (5, (0, 1, 2)))
    ),
    Sample(lambda rng: (rng.normal(size=(4, 5)), np.array([0.9, 0.8]), 0.1), {"order": 3, "output_shape": (3, 3)}, (0,)),
)
def affine_transform(x: Any, matrix: Any, offset: Any, output_shape: Any, order: int, mode: str, cval: Any, prefilter: bool) -> Any:
    """`scipy.ndimage.affine_transform`; matrix and offset may be traced too."""
    matrix, offset = lift(matrix), lift(offset)
    n = x.ndim
    if matrix.ndim == 2 and matrix.shape[1] == n + 1:
        matrix, offset = matrix[:n, :n], matrix[:n, n]
    grid = _grid(x.shape if output_shape is None else output_shape)
    places = []
    for k in range(n):
        place = offset[k] if offset.ndim else offset
        if matrix.ndim == 1:
            place = (grid[k] + place / matrix[k]) * matrix[k]
        for j in range(n) if matrix.ndim > 1 else ():  # both in SciPy's order, for places that are whole numbers
            place = place + matrix[k, j] * grid[j]
        places.append(place)
    return _interpolated(x, places, order, mode, cval, prefilter).astype(x.dtype)


@of_image(
    "rotate",
    *(Sample(lambda rng: (rng.normal(size=(4, 5)), 25.0), {"reshape": False, "order": k}, (0, 1)) for k in (1, 3)),
    one(4, 5, angle=33.0),
    one(2, 3, 4, angle=33.0, axes=(2, 0), order=1),
)
def rotate(x: Any, angle: Any, axes: Any, reshape: bool, order: int, mode: str, cval: Any, prefilter: bool) -> Any:
    """`scipy.ndimage.rotate`; the angle may be traced if `reshape` is False."""
    if reshape and holds_tracer([angle]):
        raise errors.UnsupportedError(
            f"rotate: a traced angle cannot decide the shape of the result.\n  At {user_line()}.\n  Pass reshape=False."
        )
    axes = sorted(normalize_axis_index(a, x.ndim) for a in axes)
    if len(set(axes)) != 2:
        raise ValueError("axes should be different")
    if x.ndim > 2:
        x = np.moveaxis(x, axes, (0, 1))
        planes = np.reshape(x, (*x.shape[:2], -1))
        turned = [rotate(planes[..., k], angle, (1, 0), reshape, None, order, mode, cval, prefilter) for k in range(planes.shape[2])]
        return np.moveaxis(np.reshape(np.stack(turned, axis=-1), (*turned[0].shape, *x.shape[2:])), (0, 1), axes)
    c, s = sp.cosdg(angle), sp.sindg(angle)  # exact at right angles
    turn = np.stack([np.stack([c, s]), np.stack([-s, c])])
    shape = x.shape
    if reshape:
        corners = turn @ np.array([[0, 0, shape[0], shape[0]], [0, shape[1], 0, shape[1]]])
        shape = tuple((np.ptp(corners, axis=1) + 0.5).astype(int).tolist())
    middle_out, middle_in = ((np.array(n) - 1) / 2 for n in (shape, x.shape))
    return affine_transform(x, turn, middle_in - turn @ middle_out, shape, None, order, mode, cval, prefilter)


# measurements, and filters in the frequency domain


def _measure(name: str, summary: Callable[[Any, Any], Any]) -> Any:
    """A summary of the parts of an image: `summary(flat image, mask)`; the labels are constant."""

    def function(input: Any, labels: Any = None, index: Any = None) -> Any:
        x = as_float(input)
        flat = np.reshape(x, -1)
        if labels is None:
            return summary(flat, np.ones(flat.shape, bool))
        marks = np.reshape(np.broadcast_to(labels, x.shape), -1)
        if index is None:
            return summary(flat, marks > 0)
        if np.ndim(index) == 0:
            return summary(flat, marks == index)
        return np.reshape(np.stack([summary(flat, marks == k) for k in np.ravel(index)]), np.shape(index))

    labels = np.array([[1, 1, 2, 0, 2]] * 4)
    cases: tuple[dict[str, Any], ...] = ({}, {"labels": labels}, {"labels": labels, "index": 2}, {"labels": labels, "index": [1, 2]})
    return _declared(name, *(Sample(lambda rng: (_SPREAD.args(rng)[0].tolist(),), kw) for kw in cases))(function)


def _mean(x: Any, mask: Any) -> Any:
    return np.sum(x * mask) / np.sum(mask)


def _variance(x: Any, mask: Any) -> Any:
    x = x - _mean(x, mask)
    return _mean(x * np.conj(x), mask)


for _name in ("sum_labels", "sum"):
    _measure(_name, lambda x, mask: np.sum(x * mask))
_measure("mean", _mean)
_measure("variance", _variance)
_measure("standard_deviation", lambda x, mask: root(_variance(x, mask)))
_measure("maximum", lambda x, mask: np.max(x[mask]))
_measure("minimum", lambda x, mask: np.min(x[mask]))
_measure("median", lambda x, mask: np.median(x[mask]))


@_declared("center_of_mass", Sample(lambda rng: (rng.uniform(1, 2, size=(4, 5)),)))
def center_of_mass(input: Any, labels: Any = None, index: Any = None) -> Any:
    """`scipy.ndimage.center_of_mass` of the whole image."""
    refuse("center_of_mass", labels=(labels, None), index=(index, None))
    x = as_float(input)
    total = np.sum(x)
    return tuple(np.sum(x * g) / total for g in _grid(x.shape))


_WAVES: Any = lambda rng: (rng.normal(size=(4, 5)) + 1j * rng.normal(size=(4, 5)), np.array([0.6, -1.3]))


@of_image("fourier_shift", Sample(_WAVES, {}, (0, 1)), Sample(_WAVES, {"n": 8}, (0, 1)), whole=True)
def fourier_shift(x: Any, shift: Any, n: int, axis: int) -> Any:
    """`scipy.ndimage.fourier_shift`; the shift may be traced too."""
    x, s = as_float(x), lift(shift)
    phase: Any = 0.0
    for k, size in enumerate(x.shape):
        half = n >= 0 and k == axis % x.ndim  # of a real transform of length n: no negative frequencies
        turns = np.arange(size) / n if half else np.fft.fftfreq(size)
        phase = phase + as_line(turns, k, x.ndim) * (s[k] if s.ndim else s)
    return x * np.exp(-2j * np.pi * phase)


def _spectral(name: str, parameter: float) -> None:
    own = getattr(_scipy, name)

    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        only_first(name, *args, *kwargs.values())
        x = as_float(input)
        return x * own(np.ones(x.shape, x.dtype), *args, **kwargs)

    _declared(name, Sample(lambda rng: (rng.normal(size=(4, 5)), parameter)))(function)


for _name in ("fourier_gaussian", "fourier_uniform", "fourier_ellipsoid"):
    _spectral(_name, 1.3)

_REASONS = {
    "use maximum_filter and minimum_filter": "grey_dilation grey_erosion grey_opening grey_closing morphological_gradient "
    "morphological_laplace white_tophat black_tophat",
    "it calls a function of the user's on plain arrays": "generic_filter generic_filter1d generic_laplace generic_gradient_magnitude "
    "geometric_transform vectorized_filter labeled_comprehension",
    "it gives labels or places, which jump": "maximum_position minimum_position extrema find_objects label value_indices watershed_ift "
    "histogram",
    "it looks at which elements are zero, so it is piecewise constant": "distance_transform_bf distance_transform_cdt "
    "distance_transform_edt binary_closing binary_dilation binary_erosion binary_fill_holes binary_hit_or_miss binary_opening "
    "binary_propagation",
}
REFUSED = by_name(_REASONS)

__getattr__, __dir__ = late(_scipy, REFUSED)
