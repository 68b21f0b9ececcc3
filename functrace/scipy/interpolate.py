"""SciPy's `interpolate`: splines and grids, differentiable in the points, the values, and where they are evaluated.

At a knot the derivative is that of the piece to the right. The classes are functrace's own; they have the methods that SciPy's users
call most, and hand all others to SciPy's class where nothing is traced.

>>> import functrace as ft, numpy as np
>>> from functrace.scipy.interpolate import CubicSpline
>>> x = np.arange(5.0)
>>> ft.grad(lambda y: CubicSpline(x, y)(1.5))(x**2).round(4)
array([-0.0469,  0.5   ,  0.6562, -0.125 ,  0.0156])
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.interpolate as _scipy
from numpy.lib.array_utils import normalize_axis_index
from scipy.spatial import Delaunay, KDTree

from functrace import errors
from functrace.ops.create import lift
from functrace.ops.functions import refuse
from functrace.ops.index import index
from functrace.ops.registry import Sample, holds_tracer
from functrace.ops.statistics import as_float
from functrace.optimize import opaque
from functrace.scipy._interpolate_splines import (
    Akima1DInterpolator,
    BarycentricInterpolator,
    BSpline,
    CubicHermiteSpline,
    CubicSpline,
    KroghInterpolator,
    PchipInterpolator,
    PPoly,
    _after,
    _Interpolant,
    make_interp_spline,
    make_lsq_spline,
    make_smoothing_spline,
    place,
)
from functrace.scipy._shared import by_name, declarer, double, late, one_of, real, root

_declared = declarer(_scipy)

__all__ = [
    "Akima1DInterpolator", "BSpline", "BarycentricInterpolator", "CubicHermiteSpline", "CubicSpline", "InterpolatedUnivariateSpline",
    "KroghInterpolator", "LinearNDInterpolator", "NearestNDInterpolator", "PPoly", "PchipInterpolator", "RBFInterpolator",
    "RectBivariateSpline", "RegularGridInterpolator", "UnivariateSpline", "barycentric_interpolate", "griddata", "interp1d",
    "interpn", "krogh_interpolate", "lagrange", "make_interp_spline", "make_lsq_spline",
    "make_smoothing_spline", "pchip_interpolate", "splev", "splint", "splrep",
]  # fmt: skip


_TABLE: Any = lambda rng: (np.array([0.0, 0.9, 2.1, 2.8, 4.0]), rng.normal(size=5), np.array([0.4, 1.7, 3.3]))
_LINE = Sample(_TABLE, wrt=(0, 1, 2))


@_declared("pchip_interpolate", _LINE, Sample(_TABLE, {"der": 1}, (0, 1, 2)))
def pchip_interpolate(xi: Any, yi: Any, x: Any, der: Any = 0, axis: int = 0) -> Any:
    curve = PchipInterpolator(xi, yi, axis)
    return curve.derivative(der)(x) if np.ndim(der) == 0 else [curve.derivative(nu)(x) for nu in der]


@_declared("barycentric_interpolate", _LINE)
def barycentric_interpolate(xi: Any, yi: Any, x: Any, axis: int = 0, *, der: int = 0, rng: Any = None) -> Any:
    return BarycentricInterpolator(xi, yi, axis).orders(x, der)


@_declared("krogh_interpolate", _LINE)
def krogh_interpolate(xi: Any, yi: Any, x: Any, der: int = 0, axis: int = 0) -> Any:
    return KroghInterpolator(xi, yi, axis).orders(x, der)


# FITPACK's splines through all points; those that smooth choose their knots, which jump


@_declared("splrep")
def splrep(
    x: Any, y: Any, w: Any = None, xb: Any = None, xe: Any = None, k: int = 3, task: int = 0, s: Any = None, t: Any = None,
    full_output: int = 0, per: int = 0, quiet: int = 1,
) -> Any:  # fmt: skip
    """`scipy.interpolate.splrep` through all points: without weights, or with s=0."""
    more = {"xb": xb, "xe": xe, "task": task or None, "t": t, "full_output": full_output or None, "per": per or None}
    refuse("splrep of traced values", **{n: (v, None) for n, v in more.items()})
    _through_all("splrep", 0 if s is None and w is None else s)
    spline = make_interp_spline(x, y, k)
    return spline.t, np.pad(spline.c, (0, k + 1)), k


def _through_all(name: str, s: Any) -> None:
    if s is None or s != 0:
        raise errors.UnsupportedError(
            f"{name}: the knots that smoothing chooses, with s={s}, have no derivative rule in functrace.\n"
            "  Pass s=0 to go through all points, or use make_smoothing_spline(x, y, lam=...) or make_lsq_spline(x, y, t)."
        )


_KNOTS = np.array([0.0, 0.0, 0.0, 0.0, 1.3, 2.2, 4.0, 4.0, 4.0, 4.0])
_TCK: Any = lambda rng: (_KNOTS, rng.normal(size=6).tolist(), 3)


def splev(x: Any, tck: Any, der: int = 0, ext: int = 0) -> Any:
    """`scipy.interpolate.splev`, of one function, or of those of a curve."""
    if not isinstance(tck, (tuple, list)):
        return _beyond(tck, real(x, "splev"), der, ext)
    t, c, k = tck
    return [splev(x, (t, one, k), der, ext) for one in c] if np.ndim(c[0]) else _beyond(BSpline(t, c, k), real(x, "splev"), der, ext)


def splint(a: Any, b: Any, tck: Any, full_output: int = 0) -> Any:
    """`scipy.interpolate.splint`, of one function, which is 0 outside of its knots."""
    refuse("splint", full_output=(full_output or None, None))
    return (BSpline(*tck) if isinstance(tck, (tuple, list)) else tck).integrate(a, b, extrapolate=False)


# not SciPy's own where nothing is traced: they take splines of ours
_declared("splev", *(Sample(lambda rng: (np.array([0.4, 1.7, 4.3]), _TCK(rng)), {"ext": ext}, (0,)) for ext in (0, 1, 3)))(splev)
_declared("splint", Sample(lambda rng: (0.4, 3.1, _TCK(rng)), wrt=(0, 1)))(splint)


def _beyond(spline: Any, x: Any, nu: int, ext: Any) -> Any:
    """The values of a spline, beyond whose ends it goes on, is 0, raises, or is constant."""
    ext = {"extrapolate": 0, "zeros": 1, "raise": 2, "const": 3}.get(ext, ext)
    if ext not in (0, 1, 2, 3):
        raise ValueError(f"ext = {ext} not in (0, 1, 2, 3)")
    ext = 0 if nu and ext == 3 else ext  # FITPACK continues the derivatives
    low, high = spline._ends
    outside = (x < low) | (x > high)
    if ext == 2 and bool(np.any(outside)):
        raise ValueError("points are outside of the knots, and ext=2")
    out = spline(np.minimum(np.maximum(x, low), high) if ext else x, nu)
    return np.where(outside, 0.0, out) if ext == 1 else out


class InterpolatedUnivariateSpline(_Interpolant):
    """`scipy.interpolate.InterpolatedUnivariateSpline`: the spline through all points."""

    def __init__(
        self, x: Any, y: Any, w: Any = None, bbox: Any = (None, None), k: int = 3, ext: Any = 0, check_finite: bool = False
    ) -> None:
        refuse(type(self).__name__, bbox=(None if tuple(bbox) == (None, None) else bbox, None))
        self.spline, self.ext = make_interp_spline(x, y, k), ext
        self._ends = self.spline._ends

    def __call__(self, x: Any, nu: int = 0, ext: Any = None) -> Any:
        return _beyond(self.spline, real(x, "UnivariateSpline"), nu, self.ext if ext is None else ext)

    def derivative(self, n: int = 1) -> Any:
        """The derivative, a spline."""
        return _Derived(self.spline.derivative(n), 1 if self.ext in (3, "const") else self.ext, self._ends)

    def antiderivative(self, n: int = 1) -> Any:
        """The integral from the first point, a spline."""
        return _Derived(self.spline.antiderivative(n), self.ext, self._ends)

    def integral(self, a: Any, b: Any) -> Any:
        """The integral from a to b, of what is 0 beyond the points."""
        return self.spline.integrate(a, b, extrapolate=False)

    def derivatives(self, x: Any) -> Any:
        """The value and all derivatives at a point."""
        return np.stack([self.spline(x, nu) for nu in range(self.spline.k + 1)])


class _Derived(InterpolatedUnivariateSpline):
    """A derivative or an integral of one."""

    def __init__(self, spline: BSpline, ext: Any, ends: Any) -> None:
        self.spline, self.ext, self._ends = spline, ext, ends

    def _plain(self) -> Any:
        s = self.spline
        return _scipy.UnivariateSpline._from_tck((s.t, np.pad(s.c, (0, s.k + 1)), s.k), self.ext)


class UnivariateSpline(InterpolatedUnivariateSpline):
    """`scipy.interpolate.UnivariateSpline`; of traced points with s=0, through all of them: where others put the knots, they jump."""

    def __init__(
        self, x: Any, y: Any, w: Any = None, bbox: Any = (None, None), k: int = 3, s: Any = None, ext: Any = 0, check_finite: bool = False
    ) -> None:
        if s == 0 or holds_tracer([x, y, w, s]):
            _through_all("UnivariateSpline", s)
            super().__init__(x, y, w, bbox, k, ext)
        else:
            found = _scipy.UnivariateSpline(x, y, w, bbox, k, s)
            self.spline, self.ext = BSpline(np.pad(found.get_knots(), k, mode="edge"), found.get_coeffs(), k), ext
            self._ends = self.spline._ends


def cardinals(grid: Any, k: int, x: Any, nu: int = 0) -> Any:
    """The splines on a grid that are 1 at one of its points and 0 at all others, at points x: (*x.shape, grid)."""
    return make_interp_spline(grid, np.eye(grid.shape[0]), k)(x, nu)


class RectBivariateSpline:
    """`scipy.interpolate.RectBivariateSpline` through all points of a grid; constant beyond its ends."""

    def __init__(self, x: Any, y: Any, z: Any, bbox: Any = (None,) * 4, kx: int = 3, ky: int = 3, s: Any = 0, maxit: int = 20) -> None:
        refuse("RectBivariateSpline", s=(s or None, None), bbox=(None if all(v is None for v in bbox) else bbox, None))
        self.grid, self.z, self.degrees = (double(x), double(y)), double(z), (kx, ky)

    def _weights(self, places: tuple[Any, Any], orders: tuple[int, int]) -> list[Any]:
        near = [np.minimum(np.maximum(double(p), g[0]), g[-1]) for p, g in zip(places, self.grid)]
        return [cardinals(g, k, p, nu) for g, k, p, nu in zip(self.grid, self.degrees, near, orders)]

    def ev(self, xi: Any, yi: Any, dx: int = 0, dy: int = 0) -> Any:
        """Values at points."""
        first, second = self._weights((xi, yi), (dx, dy))
        return np.sum((first @ self.z) * second, axis=-1)

    def __call__(self, x: Any, y: Any, dx: int = 0, dy: int = 0, grid: bool = True) -> Any:
        if not grid:
            return self.ev(x, y, dx, dy)
        first, second = self._weights((np.atleast_1d(lift(x)), np.atleast_1d(lift(y))), (dx, dy))
        return first @ self.z @ second.T


_PICKS: dict[Any, Any] = {  # which of two neighbours: of the number of the first, and how much of the way from it
    "nearest": lambda i, p: i + (p > 0.5),
    "nearest-up": lambda i, p: i + (p >= 0.5),
    "next": lambda i, p: i + (p > 0),
    "previous": lambda i, p: i + (p >= 1),
}


def interp1d(
    x: Any, y: Any, kind: Any = "linear", axis: int = -1, copy: bool = True, bounds_error: Any = None, fill_value: Any = np.nan,
    assume_sorted: bool = False,
) -> Any:  # fmt: skip
    """`scipy.interpolate.interp1d`: a function of the points; all its kinds."""
    x, y = real(x, "interp1d"), as_float(y)
    axis = normalize_axis_index(axis, y.ndim)
    if not assume_sorted:
        order = np.argsort(x, kind="mergesort")
        x, y = index(x, order), np.moveaxis(index(np.moveaxis(y, axis, 0), order), 0, axis)
    degree = {"slinear": 1, "linear": 1, "quadratic": 2, "cubic": 3, "zero": 0}.get(kind, kind)
    if isinstance(degree, int) and degree > 0:
        inner: Any = make_interp_spline(x, y, degree, axis=axis)
    elif degree == 0 or kind in _PICKS:
        inner = _Steps(x, y, axis, _PICKS.get(kind, _PICKS["previous"]))
    else:
        raise NotImplementedError(f"interp1d: kind={kind!r} is none of {', '.join(map(repr, _PICKS))}, a degree or its name")
    extend = isinstance(fill_value, str) and fill_value == "extrapolate"

    def evaluate(points: Any) -> Any:
        points = double(points)
        where: Any = lambda m: np.reshape(m, (*(1,) * axis, *m.shape, *(1,) * (y.ndim - 1 - axis)))
        below, above = points < x[0], points > x[-1]
        if extend:
            lost = {"previous": below, "next": above}.get(kind)
            return inner(points) if lost is None else np.where(where(lost), np.nan, inner(points))
        if bounds_error is not False and bool(np.any(below | above)):
            raise ValueError("A value in x_new is outside the interpolation range.")
        spread: Any = lambda v: np.expand_dims(v, tuple(range(axis, axis + points.ndim))) if np.ndim(v) == y.ndim - 1 else v
        low, high = map(spread, fill_value if isinstance(fill_value, tuple) else (fill_value, fill_value))
        out = inner(np.where(below | above, x[0], points))
        return np.where(where(below), low, np.where(where(above), high, out))

    return evaluate


class _Steps(_Interpolant):
    """One of the two neighbours, as `pick(i, part of the way)` says."""

    def __init__(self, x: Any, y: Any, axis: int, pick: Any) -> None:
        self.x, self.y, self.axis, self.pick = x, np.moveaxis(y, axis, 0), axis, pick
        self._ends = x[0], x[-1]

    def _at(self, x: Any, nu: int) -> Any:
        return index(self.y, np.clip(self.pick(*place(self.x, x)), 0, self.x.shape[0] - 1))


def _joined(xi: Any) -> Any:
    """Points as one array, of one array for each coordinate."""
    if not isinstance(xi, tuple):
        return xi
    return np.stack(np.broadcast_arrays(*map(lift, xi)), axis=-1) if len(xi) > 1 else xi[0]


_DEGREES = {"slinear": 1, "cubic": 3, "quintic": 5}


class RegularGridInterpolator:
    """`scipy.interpolate.RegularGridInterpolator`: nearest, linear, and the splines "slinear", "cubic" and "quintic"; grid, values and
    points may be traced. The splines go through all values; SciPy's, found by iteration, do so to about 1e-5.
    """

    def __init__(
        self, points: Any, values: Any, method: str = "linear", bounds_error: bool = True, fill_value: Any = np.nan, **more: Any
    ) -> None:
        refuse(
            "RegularGridInterpolator",
            method=(None if method in ("linear", "nearest", *_DEGREES) else method, None),
            **{k: (v, None) for k, v in more.items()},
        )
        self.grid, self.values = [double(p) for p in points], double(values)
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value
        for k, g in enumerate(self.grid):
            if g.shape[0] > 1 and bool(np.all(g[1:] < g[:-1])):
                self.grid[k], self.values = g[::-1], np.flip(self.values, k)
            elif not bool(np.all(g[1:] > g[:-1])):
                raise ValueError(f"The points in dimension {k} must be strictly ascending or descending")
        self.dtype = lift(values).dtype if lift(values).dtype.kind in "fc" else np.dtype(float)

    def __call__(self, xi: Any, method: Any = None) -> Any:
        method = method or self.method
        one_of("method", method, "linear", "nearest", *_DEGREES)
        d = len(self.grid)
        one = isinstance(xi, tuple) and len(xi) > 1  # of numbers: one point, that gives one number
        xi = double(_joined(xi))
        xi = np.reshape(xi, (-1, d)) if xi.ndim == 1 and not one else xi
        if xi.shape[-1:] != (d,):
            raise ValueError(f"the points xi, of shape {xi.shape}, are to have {d} coordinates, along their last axis, as the grid has")
        outside: Any = False
        inside: Any = True
        corners: list[Any] = []
        for k, g in enumerate(self.grid):
            x = xi[..., k]
            outside, inside = outside | (x < g[0]) | (x > g[-1]), inside & (x >= g[0]) & (x <= g[-1])
            i, part = place(g, x)
            corners.append([(i, 1 - part), (i + 1, part)] if method == "linear" else [(i + (part > 0.5), None)])
        if self.bounds_error and not bool(np.all(inside)):
            raise ValueError("One of the requested xi is out of bounds")
        rest = self.values.shape[d:]
        total = self._by_splines(xi, _DEGREES[method]) if method in _DEGREES else self._by_corners(corners, method)
        if self.bounds_error or self.fill_value is None:
            return total
        return np.where(np.reshape(outside, (*outside.shape, *(1,) * len(rest))), self.fill_value, total)

    def _by_splines(self, xi: Any, k: int) -> Any:
        """A product of splines along the axes."""
        flat = np.reshape(xi, (-1, xi.shape[-1]))
        out: Any = None
        for axis, grid in enumerate(self.grid):
            weights = cardinals(grid, k, flat[:, axis])
            out = np.tensordot(weights, self.values, 1) if out is None else np.einsum("pn,pn...->p...", weights, out)
        return np.reshape(out, (*xi.shape[:-1], *out.shape[1:]))

    def _by_corners(self, corners: Any, method: str) -> Any:
        rest = self.values.shape[len(self.grid) :]
        flat = np.reshape(self.values, (-1, *rest))
        total: Any = 0.0
        for corner in itertools.product(*corners):
            position: Any = 0
            weight: Any = 1.0
            for (i, w), g in zip(corner, self.grid):
                position, weight = position * g.shape[0] + i, weight if w is None else weight * w
            total = total + np.reshape(weight, (*np.shape(weight), *(1,) * len(rest))) * index(flat, position)
        return total if method == "linear" else total.astype(self.dtype)


_GRID: Any = lambda rng: (
    (np.array([0.0, 1.0, 2.5]), np.array([0.0, 0.8, 2.0, 3.0])),
    rng.normal(size=(3, 4)),
    np.array([[0.4, 1.3], [1.7, 2.4]]),
)


@_declared("interpn", Sample(_GRID, wrt=(1, 2)), Sample(_GRID, {"method": "nearest"}, (1, 2)))
def interpn(points: Any, values: Any, xi: Any, method: str = "linear", bounds_error: bool = True, fill_value: Any = np.nan) -> Any:
    """`scipy.interpolate.interpn`, nearest, linear, and by splines."""
    return RegularGridInterpolator(points, values, method, bounds_error, fill_value)(_joined(xi))


_KERNELS: dict[str, tuple[Callable[[Any], Any], int]] = {  # of the squared distance; and the least degree of the polynomial
    "linear": (lambda s: -root(s), 0),
    "thin_plate_spline": (lambda s: s * np.log(np.where(s > 0, s, 1.0)) / 2, 1),
    "cubic": (lambda s: s * root(s), 1),
    "quintic": (lambda s: -(s**2) * root(s), 2),
    "multiquadric": (lambda s: -np.sqrt(s + 1), 0),
    "inverse_multiquadric": (lambda s: 1 / np.sqrt(s + 1), -1),
    "inverse_quadratic": (lambda s: 1 / (s + 1), -1),
    "gaussian": (lambda s: np.exp(-s), -1),
}


class RBFInterpolator:
    """`scipy.interpolate.RBFInterpolator` with all neighbours; points and values may be traced."""

    def __init__(
        self, y: Any, d: Any, neighbors: Any = None, smoothing: Any = 0.0, kernel: str = "thin_plate_spline", epsilon: Any = None,
        degree: Any = None,
    ) -> None:  # fmt: skip
        refuse("RBFInterpolator", neighbors=(neighbors, None))
        self.y, d = double(y), double(d)
        one_of("kernel", kernel, *_KERNELS)
        self.kernel, least = _KERNELS[kernel]
        if epsilon is None and kernel not in ("linear", "thin_plate_spline", "cubic", "quintic"):
            raise ValueError(f"RBFInterpolator: epsilon must be given for kernel={kernel!r}")
        self.epsilon = 1.0 if epsilon is None else epsilon
        degree = max(least, 0) if degree is None else int(degree)
        n, dim = self.y.shape
        self.powers = [p for p in itertools.product(range(degree + 1), repeat=dim) if sum(p) <= degree]
        self.shape = d.shape[1:]
        low, high = np.min(self.y, axis=0), np.max(self.y, axis=0)
        width = (high - low) / 2
        self.center, self.width = (high + low) / 2, np.where(width == 0, 1.0, width)
        K, P = self._parts(self.y)
        m = len(self.powers)
        top = np.concatenate([K + np.eye(n) * smoothing, P], axis=1)
        matrix = np.concatenate([top, np.concatenate([np.swapaxes(P, 0, 1), np.zeros((m, m))], axis=1)], axis=0)
        self.weights = np.linalg.solve(matrix, np.pad(np.reshape(d, (n, -1)), [(0, m), (0, 0)]))

    def _parts(self, x: Any) -> tuple[Any, Any]:
        gaps = (x[:, None, :] - self.y[None, :, :]) * self.epsilon
        scaled = (x - self.center) / self.width
        columns = [np.prod(np.stack([scaled[:, k] ** p for k, p in enumerate(powers)]), axis=0) for powers in self.powers]
        return self.kernel(np.sum(gaps * gaps, axis=-1)), np.stack(columns, axis=-1) if columns else np.zeros((x.shape[0], 0))

    def __call__(self, x: Any) -> Any:
        x = real(x, "RBFInterpolator")
        out = np.concatenate(self._parts(x), axis=1) @ self.weights
        return np.reshape(out, (x.shape[0], *self.shape))


class LinearNDInterpolator:
    """`scipy.interpolate.LinearNDInterpolator`, of points; the triangles, which SciPy finds, count as constant."""

    def __init__(self, points: Any, values: Any, fill_value: Any = np.nan, rescale: bool = False) -> None:
        refuse(type(self).__name__, rescale=(rescale or None, None))
        self.points, self.values, self.fill_value = double(_joined(points)), double(values), fill_value

    def __call__(self, *args: Any) -> Any:
        x = double(_joined(args if len(args) > 1 else args[0]))
        flat = np.reshape(x, (-1, x.shape[-1]))
        found = opaque(self._corners, self.points, flat)
        out, missed = self._between(flat, found), found[:, 0] < 0
        out = np.where(_after(missed, out), self.fill_value, out)
        return np.reshape(out, (*x.shape[:-1], *out.shape[1:]))

    def _corners(self, points: Any, x: Any) -> Any:
        mesh = Delaunay(points)
        place = mesh.find_simplex(x)
        return np.where(place[:, None] < 0, -1 - mesh.simplices[:1], mesh.simplices[place])

    def _between(self, x: Any, found: Any) -> Any:
        corners = np.where(found < 0, -1 - found, found)
        nodes = index(self.points, corners)
        sides = np.swapaxes(nodes[:, 1:] - nodes[:, :1], 1, 2)
        rest = np.linalg.solve(sides, (x - nodes[:, 0])[..., None])[..., 0]
        weights = np.concatenate([1 - np.sum(rest, axis=1, keepdims=True), rest], axis=1)
        return np.einsum("pk,pk...->p...", weights, index(self.values, corners))


class NearestNDInterpolator(LinearNDInterpolator):
    """`scipy.interpolate.NearestNDInterpolator`; which point is nearest counts as constant."""

    def __init__(self, x: Any, y: Any, rescale: bool = False, tree_options: Any = None) -> None:
        super().__init__(x, y, 0.0, rescale)

    def _corners(self, points: Any, x: Any) -> Any:
        return KDTree(points).query(x)[1][:, None]

    def _between(self, x: Any, found: Any) -> Any:
        return index(self.values, found[:, 0])


_CLOUD: Any = lambda rng: (rng.random((12, 2)), rng.normal(size=12), 0.4 + 0.2 * rng.random((3, 2)))


@_declared("griddata", Sample(_CLOUD, wrt=(0, 1, 2)), Sample(_CLOUD, {"method": "nearest"}, (1,)), note="not cubic in two dimensions")
def griddata(points: Any, values: Any, xi: Any, method: str = "linear", fill_value: Any = np.nan, rescale: bool = False) -> Any:
    """`scipy.interpolate.griddata`, nearest and linear, in one dimension cubic too."""
    points = double(_joined(points))
    if points.ndim < 2 or points.shape[-1] == 1:
        end = "extrapolate" if method == "nearest" else fill_value
        return interp1d(np.ravel(points), values, method, 0, bounds_error=False, fill_value=end)(_joined(xi))
    if method == "nearest":
        return NearestNDInterpolator(points, values, rescale)(xi)
    if method != "linear":
        raise errors.UnsupportedError(
            f"griddata: method={method!r} has no derivative rule in functrace.\n  Use method='linear', or RBFInterpolator, which is smooth."
        )
    return LinearNDInterpolator(points, values, fill_value, rescale)(xi)


@_declared("lagrange")
def lagrange(x: Any, w: Any) -> Any:
    """`scipy.interpolate.lagrange`: the interpolating polynomial, as a function of the points."""
    return BarycentricInterpolator(x, w)


_REASONS = {
    "FITPACK's smoothing and knot search have no rule, use make_smoothing_spline, make_lsq_spline": "splprep bisplrep bisplev "
    "sproot spalde splder splantider insert LSQUnivariateSpline "
    "SmoothBivariateSpline LSQBivariateSpline SmoothSphereBivariateSpline LSQSphereBivariateSpline "
    "RectSphereBivariateSpline BivariateSpline make_splrep make_splprep generate_knots",
    "its slopes are found by iteration, use RBFInterpolator": "CloughTocher2DInterpolator",
    "not covered yet": "AAA FloaterHormannInterpolator BPoly NdBSpline NdPPoly Rbf interp2d pade approximate_taylor_polynomial",
}
REFUSED = by_name(_REASONS)

__getattr__, __dir__ = late(_scipy, REFUSED)
