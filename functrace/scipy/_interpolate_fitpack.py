"""FITPACK's splines through all points: `splrep`, `splev`, and their classes. Those that smooth choose their knots, which jump."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.ops.create import lift
from functrace.ops.functions import refuse
from functrace.scipy._interpolate_splines import BSpline, _Interpolant, make_interp_spline
from functrace.scipy._shared import double


def splrep(
    x: Any, y: Any, w: Any = None, xb: Any = None, xe: Any = None, k: int = 3, task: int = 0, s: Any = None, t: Any = None,
    full_output: int = 0, per: int = 0, quiet: int = 1,
) -> Any:  # fmt: skip
    """`scipy.interpolate.splrep` through all points: without weights, or with s=0."""
    more = {"xb": xb, "xe": xe, "task": task or None, "t": t, "full_output": full_output or None, "per": per or None}
    refuse(
        "splrep of traced values", s=(s or (1 if s is None and w is not None else None), None), **{n: (v, None) for n, v in more.items()}
    )
    spline = make_interp_spline(x, y, k)
    return spline.t, np.pad(spline.c, (0, k + 1)), k


def splev(x: Any, tck: Any, der: int = 0, ext: int = 0) -> Any:
    """`scipy.interpolate.splev`, of one function."""
    return _beyond(BSpline(*tck) if isinstance(tck, tuple) else tck, double(x), der, ext)


def splint(a: Any, b: Any, tck: Any, full_output: int = 0) -> Any:
    """`scipy.interpolate.splint`, of one function, which is 0 outside of its knots."""
    refuse("splint", full_output=(full_output or None, None))
    return (BSpline(*tck) if isinstance(tck, tuple) else tck).integrate(a, b, extrapolate=False)


def _beyond(spline: Any, x: Any, nu: int, ext: Any) -> Any:
    """The values of a spline, beyond whose ends it goes on, is 0, raises, or is constant."""
    ext = {"extrapolate": 0, "zeros": 1, "raise": 2, "const": 3}.get(ext, ext)
    if ext not in (0, 1, 2, 3):
        raise ValueError(f"ext = {ext} not in (0, 1, 2, 3)")
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
        return _beyond(self.spline, double(x), nu, self.ext if ext is None else ext)

    def derivative(self, n: int = 1) -> Any:
        """The derivative, a spline."""
        return self._of(self.spline.derivative(n), 1 if self.ext in (3, "const") else self.ext)

    def antiderivative(self, n: int = 1) -> Any:
        """The integral from the first point, a spline."""
        return self._of(self.spline.antiderivative(n), self.ext)

    def integral(self, a: Any, b: Any) -> Any:
        """The integral from a to b, of what is 0 beyond the points."""
        return self.spline.integrate(a, b, extrapolate=False)

    def derivatives(self, x: Any) -> Any:
        """The value and all derivatives at a point."""
        return np.stack([self.spline(x, nu) for nu in range(self.spline.k + 1)])

    def _of(self, spline: BSpline, ext: Any) -> Any:
        made = object.__new__(InterpolatedUnivariateSpline)
        made.spline, made.ext, made._ends = spline, ext, self._ends
        return made


class UnivariateSpline(InterpolatedUnivariateSpline):
    """`scipy.interpolate.UnivariateSpline` with s=0, through all points: where others put the knots, they jump."""

    def __init__(
        self, x: Any, y: Any, w: Any = None, bbox: Any = (None, None), k: int = 3, s: Any = None, ext: Any = 0, check_finite: bool = False
    ) -> None:
        refuse("UnivariateSpline", s=(1 if s is None else s or None, None))
        super().__init__(x, y, w, bbox, k, ext)


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
