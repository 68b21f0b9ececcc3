"""Functions of one variable: splines, as piecewise polynomials and B-splines, and one polynomial through all points."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.interpolate as _scipy
from numpy.lib.array_utils import normalize_axis_index

from functrace import errors
from functrace.ops.create import lift
from functrace.ops.functions import refuse
from functrace.ops.index import index
from functrace.ops.registry import holds_tracer
from functrace.scipy._linalg_systems import solve_banded
from functrace.scipy._shared import double, one_of, real
from functrace.transforms.derivatives import jvp


def _after(d: Any, like: Any) -> Any:
    return np.reshape(d, (-1, *(1,) * (like.ndim - 1)))


def _chords(x: Any, y: Any) -> tuple[Any, Any]:
    """The widths between the points, shaped to go with the values, and the slopes of the lines between them."""
    h = _after(x[1:] - x[:-1], y)
    return h, (y[1:] - y[:-1]) / h


def piece(x: Any, at: Any) -> Any:
    """The number of the interval between the points x in which each of `at` is; of what is outside, that of the nearest."""
    return np.clip(np.searchsorted(x, at, side="right") - 1, 0, x.shape[0] - 2)


def place(x: Any, at: Any) -> tuple[Any, Any]:
    """The interval, and how much of it is before `at`."""
    i = piece(x, at)
    return i, (at - index(x, i)) / (index(x, i + 1) - index(x, i))


def _knots(x: Any, y: Any, axis: int) -> tuple[Any, Any, int]:
    axis = normalize_axis_index(axis, lift(y).ndim)
    x, y = real(x, "scipy.interpolate"), np.moveaxis(double(y), axis, 0)
    if x.ndim != 1 or x.shape[0] != y.shape[0]:
        raise ValueError(f"The length of `y` along `axis`={axis} doesn't match the length of `x`")
    if bool(np.any(x[1:] <= x[:-1])):
        raise ValueError("`x` must be strictly increasing sequence.")
    return x, y, axis


class _Class(type):
    def __getattr__(cls, name: str) -> Any:
        return getattr(getattr(_scipy, "" if name.startswith("_") else cls.__name__), name)


class _Interpolant(metaclass=_Class):
    """What all have in common: points of any shape, the interpolated axis, and what holds outside."""

    axis = 0
    extrapolate: Any = True
    _of_real = True  # points: of complex ones SciPy takes the real part
    _ends: tuple[Any, Any]
    _made: tuple[Any, Any]
    _at: Any  # (x, nu): the values at a line of points

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__new__(cls)
        made._made = args, kwargs
        return made

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        if nu < 0:
            raise ValueError(f"{type(self).__name__}: the order of the derivative, {nu}, cannot be negative")
        x = real(x, type(self).__name__) if self._of_real else double(x)
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        low, high = self._ends
        flat = np.reshape(x, -1)
        if extrapolate == "periodic":
            flat = low + (flat - low) % (high - low)
        out = self._at(flat, nu)
        if not extrapolate:
            out = np.where(_after((flat >= low) & (flat <= high), out), out, np.nan)
        out = np.reshape(out, (*x.shape, *out.shape[1:]))
        axes = tuple(range(out.ndim))
        order = (*axes[x.ndim : x.ndim + self.axis], *axes[: x.ndim], *axes[x.ndim + self.axis :])
        return np.transpose(out, order) if self.axis else out

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "_ends" not in vars(self):  # or it is not yet made
            raise AttributeError(name)
        args, kwargs = self._made
        if holds_tracer([*args, *kwargs.values()]):
            if not hasattr(getattr(_scipy, type(self).__name__, None), name):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise errors.UnsupportedError(
                f"{type(self).__name__}.{name} has no derivative rule in functrace.\n"
                "  Evaluate the spline and its derivatives, spline(x, nu), instead."
            )
        return getattr(self._plain(), name)

    def _plain(self) -> Any:
        args, kwargs = self._made
        return getattr(_scipy, type(self).__name__)(*args, **kwargs)


class _Spline(_Interpolant):
    """What can be differentiated and integrated as a whole."""

    _derived: Any  # (nu): the derivative
    _summed: Any  # (nu, extrapolate): the integral

    def derivative(self, nu: int = 1) -> Any:
        """The derivative, a spline; of a negative order the integral."""
        return self._derived(nu) if nu >= 0 else self._summed(-nu, self.extrapolate != "periodic" and self.extrapolate)

    def antiderivative(self, nu: int = 1) -> Any:
        """The integral from the first knot, a spline; not periodic."""
        return self.derivative(-nu)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """The integral from a to b."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        whole, (low, high) = self.antiderivative(), self._ends
        whole.extrapolate = bool(extrapolate)

        def upto(x: Any) -> Any:
            if extrapolate != "periodic":
                return whole(x)
            turns = np.floor((x - low) / (high - low))
            return whole(x - turns * (high - low)) + turns * (whole(high) - whole(low))

        return upto(b) - upto(a)


class PPoly(_Spline):
    """`scipy.interpolate.PPoly`: pieces of polynomials, `c[k]` the coefficients of `(x - x[i])**(len(c) - 1 - k)`, of x that increase."""

    def __init__(self, c: Any, x: Any, extrapolate: Any = None, axis: int = 0) -> None:
        x, axis = double(x), normalize_axis_index(axis, lift(c).ndim - 1)
        c = np.moveaxis(double(c), (axis, axis + 1), (0, 1)) if axis else double(c)
        if c.shape[1] != x.shape[0] - 1 or not bool(np.all(x[1:] > x[:-1])):
            raise ValueError(f"PPoly: x must increase, and have the ends of {c.shape[1]} pieces")
        self._hold(c, x, extrapolate, axis)

    def _hold(self, c: Any, x: Any, extrapolate: Any, axis: int) -> None:
        self.c, self.x, self.axis = c, x, axis
        self.extrapolate = True if extrapolate is None else extrapolate
        self._ends = x[0], x[-1]

    def _other(self, c: Any, extrapolate: Any) -> PPoly:
        return PPoly(np.moveaxis(c, (0, 1), (self.axis, self.axis + 1)) if self.axis else c, self.x, extrapolate, self.axis)

    def _at(self, x: Any, nu: int) -> Any:
        i = piece(self.x, x)
        c = self._differentiated(nu)
        d = x - index(self.x, i)
        out = index(c[0], i)
        for k in range(1, c.shape[0]):
            out = out * _after(d, out) + index(c[k], i)
        return out

    def _differentiated(self, nu: int) -> Any:
        c = self.c
        for _ in range(nu):
            powers = np.arange(c.shape[0] - 1, 0, -1)
            c = c[:-1] * _after(powers, c) if c.shape[0] > 1 else 0 * c
        return c

    def _derived(self, nu: int) -> PPoly:
        return self._other(self._differentiated(nu), self.extrapolate)

    def _summed(self, nu: int, extrapolate: Any) -> PPoly:
        c = self.c
        for _ in range(nu):
            c = c / _after(np.arange(c.shape[0], 0, -1), c)
            h = self.x[1:] - self.x[:-1]
            rise: Any = 0.0
            for k in range(c.shape[0]):
                rise = (rise + c[k]) * _after(h, c[k])
            start = np.concatenate([0 * rise[:1], np.cumsum(rise, axis=0)[:-1]], axis=0)
            c = np.concatenate([c, start[None]], axis=0)
        return self._other(c, extrapolate)


class CubicHermiteSpline(PPoly):
    """`scipy.interpolate.CubicHermiteSpline`: cubics with given values and slopes."""

    def __init__(self, x: Any, y: Any, dydx: Any, axis: int = 0, extrapolate: Any = None) -> None:
        x, y, axis = _knots(x, y, axis)
        self._from(x, y, np.moveaxis(double(dydx), axis, 0), axis, extrapolate)

    def _from(self, x: Any, y: Any, slopes: Any, axis: int, extrapolate: Any) -> None:
        h, chord = _chords(x, y)
        t = (slopes[:-1] + slopes[1:] - 2 * chord) / h
        c = np.stack([t / h, (chord - slopes[:-1]) / h - t, slopes[:-1], y[:-1]])
        self._hold(c, x, extrapolate, axis)


class CubicSpline(CubicHermiteSpline):
    """`scipy.interpolate.CubicSpline`, every boundary condition."""

    def __init__(self, x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None) -> None:
        x, y, axis = _knots(x, y, axis)
        periodic = isinstance(bc_type, str) and bc_type == "periodic"
        if periodic and not bool(np.all(np.abs(y[0] - y[-1]) <= 1e-15 * (1 + np.abs(y[-1])))):
            raise ValueError("CubicSpline: with bc_type='periodic' the first and the last value of y must be the same")
        slopes = _periodic_slopes(x, y) if periodic else _spline_slopes(x, y, bc_type)
        self._from(x, y, slopes, axis, "periodic" if periodic and extrapolate is None else extrapolate)


_CONDITIONS: dict[Any, Any] = {"clamped": (1, 0.0), "natural": (2, 0.0), "not-a-knot": "not-a-knot"}


def _spline_slopes(x: Any, y: Any, bc_type: Any) -> Any:
    """Slopes at the points that make second derivatives continuous: a tridiagonal system."""
    both = (bc_type, bc_type) if isinstance(bc_type, str) else tuple(bc_type)
    for bc in both:
        if isinstance(bc, str):
            one_of("bc_type", bc, *_CONDITIONS)
    first, last = (_CONDITIONS[bc] if isinstance(bc, str) else (int(bc[0]), double(bc[1])) for bc in both)
    n = x.shape[0]
    h = x[1:] - x[:-1]
    H, chord = _chords(x, y)
    if n == 2:  # what does not determine the cubic is a straight line
        first, last = ((1, chord[0]) if bc == "not-a-knot" else bc for bc in (first, last))
    if n == 3 and first == last == "not-a-knot":
        curve = (chord[1] - chord[0]) / (x[2] - x[0])
        return np.stack([chord[0] - H[0] * curve, chord[0] + H[0] * curve, chord[1] + H[1] * curve])

    def end(bc: Any, h0: Any, h1: Any, m0: Any, m1: Any, sign: float) -> tuple[Any, Any, Any]:
        if isinstance(bc, str):
            return h1, h0 + h1, ((h0 + 2 * (h0 + h1)) * h1 * m0 + h0**2 * m1) / (h0 + h1)
        if bc[0] == 1:
            return 0 * h0 + 1, 0 * h0, bc[1] + 0 * m0
        return 2 * h0, h0, -sign * bc[1] * h0**2 / 2 + 3 * h0 * m0

    a0, a1, ra = end(first, h[0], h[min(1, n - 2)], chord[0], chord[min(1, n - 2)], 1.0)
    z0, z1, rz = end(last, h[-1], h[max(-2, 1 - n)], chord[-1], chord[max(-2, 1 - n)], -1.0)
    one: Any = lambda v: np.reshape(v, (1,))
    upper = np.concatenate([one(0 * a0), one(a1), h[:-1]])
    middle = np.concatenate([one(a0), 2 * (h[:-1] + h[1:]), one(z0)])
    lower = np.concatenate([h[1:], one(z1), one(0 * z0)])
    right = np.concatenate([ra[None], 3 * (H[1:] * chord[:-1] + H[:-1] * chord[1:]), rz[None]])
    solved = solve_banded((1, 1), np.stack([upper, middle, lower]), np.reshape(right, (n, -1)))
    return np.reshape(solved, y.shape)


def _periodic_slopes(x: Any, y: Any) -> Any:
    h = x[1:] - x[:-1]
    H, chord = _chords(x, y)
    n = x.shape[0] - 1
    before, eye = np.roll(h, 1), np.eye(n)
    matrix = eye * (2 * (h + before))[:, None] + np.roll(eye, 1, axis=1) * before[:, None] + np.roll(eye, -1, axis=1) * h[:, None]
    right = 3 * (H * np.roll(chord, 1, axis=0) + _after(before, y) * chord)
    slopes = np.reshape(np.linalg.solve(matrix, np.reshape(right, (n, -1))), (n, *y.shape[1:]))
    return np.concatenate([slopes, slopes[:1]], axis=0)


def _pchip_slopes(x: Any, y: Any) -> Any:
    """Fritsch and Butland 1984: weighted harmonic means of the chords, zero at extremes."""
    h, m = _chords(x, y)
    if x.shape[0] == 2:
        return np.concatenate([m, m], axis=0)
    flat = m[1:] * m[:-1] <= 0
    a, b = np.where(flat, 1.0, m[:-1]), np.where(flat, 1.0, m[1:])
    w1, w2 = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
    inner = np.where(flat, 0.0, (w1 + w2) / (w1 / a + w2 / b))

    def end(h0: Any, h1: Any, m0: Any, m1: Any) -> Any:
        d = ((2 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
        over = (np.sign(m0) != np.sign(m1)) & (np.abs(d) > 3 * np.abs(m0))
        return np.where(np.sign(d) != np.sign(m0), 0.0, np.where(over, 3 * m0, d))

    return np.concatenate([end(h[:1], h[1:2], m[:1], m[1:2]), inner, end(h[-1:], h[-2:-1], m[-1:], m[-2:-1])], axis=0)


class PchipInterpolator(CubicHermiteSpline):
    """`scipy.interpolate.PchipInterpolator`."""

    def __init__(self, x: Any, y: Any, axis: int = 0, extrapolate: Any = None) -> None:
        x, y, axis = _knots(x, y, axis)
        self._from(x, y, _pchip_slopes(x, y), axis, extrapolate)


class Akima1DInterpolator(CubicHermiteSpline):
    """`scipy.interpolate.Akima1DInterpolator`, both methods."""

    def __init__(self, x: Any, y: Any, axis: int = 0, *, method: str = "akima", extrapolate: Any = None) -> None:
        one_of("method", method, "akima", "makima")
        x, y, axis = _knots(x, y, axis)
        _, m = _chords(x, y)
        if x.shape[0] == 2:
            slopes = np.concatenate([m, m], axis=0)
        else:
            b, e = 2 * m[0] - m[1], 2 * m[-1] - m[-2]
            m = np.concatenate([(2 * b - m[0])[None], b[None], m, e[None], (2 * e - m[-1])[None]], axis=0)
            jump = np.abs(m[1:] - m[:-1])
            if method == "makima":
                jump = jump + np.abs(m[1:] + m[:-1]) / 2
            after, before = jump[2:], jump[:-2]
            both = after + before
            same = both <= 1e-9 * np.max(both)
            weighted = (after * m[1:-2] + before * m[2:-1]) / np.where(same, 1.0, both)
            slopes = np.where(same, (m[3:] + m[:-3]) / 2, weighted)
        self._from(x, y, slopes, axis, False if extrapolate is None else extrapolate)


class BarycentricInterpolator(_Interpolant):
    """`scipy.interpolate.BarycentricInterpolator`: the polynomial through the points, by Lagrange's formula, safe at the points."""

    _of_real = False

    def __init__(self, xi: Any, yi: Any, axis: int = 0, *, wi: Any = None, rng: Any = None) -> None:
        refuse("BarycentricInterpolator", wi=(wi, None))
        self.axis = normalize_axis_index(axis, lift(yi).ndim)
        self.xi, self.yi = double(xi), np.moveaxis(double(yi), self.axis, 0)
        self._ends = self.xi[0], self.xi[-1]
        if self.xi.shape != self.yi.shape[:1] or np.any(np.diff(np.sort(self.xi)) == 0):
            raise ValueError(f"{type(self).__name__}: the points xi must be distinct, and as many as the values.")

    def _at(self, x: Any, nu: int) -> Any:
        if nu:
            return jvp(lambda x: self._at(x, nu - 1), (x,), (np.ones(x.shape),))[1]
        n, out = self.xi.shape[0], 0.0 * _after(x, self.yi) + 0 * self.yi[:1]
        for j in range(n):
            factor: Any = 1.0
            for m in range(n):
                factor = factor * ((x - self.xi[m]) / (self.xi[j] - self.xi[m])) if m != j else factor
            out = out + _after(factor, self.yi) * self.yi[j]
        return out

    def derivative(self, x: Any, der: int = 1) -> Any:
        """The derivative at points."""
        return self(x, der)

    def orders(self, x: Any, der: Any) -> Any:
        """The derivative of an order, or of several."""
        return np.stack([self(x, n) for n in der]) if np.ndim(der) else self(x, der)


class KroghInterpolator(BarycentricInterpolator):
    """`scipy.interpolate.KroghInterpolator` through points without repetition."""


class BSpline(_Spline):
    """`scipy.interpolate.BSpline`: knots, coefficients and points may be traced."""

    def __init__(self, t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0) -> None:
        self.t, self.c, self.k, self.extrapolate = double(t), double(c), int(k), extrapolate
        self.axis = axis % self.c.ndim
        self.c = np.moveaxis(self.c, self.axis, 0)
        self._ends = self.t[self.k], self.t[-self.k - 1]
        if bool(np.any(self.t[1:] < self.t[:-1])):
            raise ValueError("BSpline: the knots t must not decrease")

    def _derived(self, nu: int) -> BSpline:
        t, c, k = self.t, self.c[: self.t.shape[0] - self.k - 1], self.k
        for _ in range(nu):
            gaps = t[k + 1 : -1] - t[1 : -k - 1]
            empty = gaps == 0
            c = _after(np.where(empty, 0.0, k / np.where(empty, 1.0, gaps)), c) * (c[1:] - c[:-1])
            t, k = t[1:-1], k - 1
        return BSpline(t, np.moveaxis(c, 0, self.axis), k, self.extrapolate, self.axis)

    def _at(self, x: Any, nu: int) -> Any:
        if nu:
            return self.derivative(nu)._at(x, 0) if nu <= self.k else 0 * BSpline._at(self, x, 0)
        t, k = self.t, self.k
        n = t.shape[0] - k - 1
        i = np.clip(np.searchsorted(t, x, side="right") - 1, k, n - 1)
        d = [index(self.c, i - k + j) for j in range(k + 1)]
        for r in range(1, k + 1):  # de Boor 1978, "A practical guide to splines", chapter X
            for j in range(k, r - 1, -1):
                low, high = index(t, i - k + j), index(t, i + 1 + j - r)
                part = (x - low) / (high - low)
                d[j] = d[j - 1] + _after(part, d[j]) * (d[j] - d[j - 1])
        return d[k]

    def _summed(self, nu: int, extrapolate: Any) -> BSpline:
        """De Boor 1978, chapter X."""
        t, c, k = self.t, self.c[: self.t.shape[0] - self.k - 1], self.k
        for _ in range(nu):
            total = np.cumsum(c * _after((t[k + 1 :] - t[: -k - 1]) / (k + 1), c), axis=0)
            c = np.concatenate([0 * total[:1], total], axis=0)
            t, k = np.concatenate([t[:1], t, t[-1:]]), k + 1
        return BSpline(t, np.moveaxis(c, 0, self.axis), k, extrapolate, self.axis)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """The integral from a to b, of what is 0 beyond the knots where it does not go on."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        if not extrapolate:
            a, b = (np.minimum(np.maximum(v, self._ends[0]), self._ends[1]) for v in (a, b))
        return super().integrate(a, b, extrapolate or True)


def ours(found: Any) -> BSpline:
    """A spline of SciPy's that can be evaluated at traced points."""
    return BSpline(found.t, np.moveaxis(found.c, 0, found.axis), found.k, found.extrapolate, found.axis)


def _basis(x: Any, t: Any, k: int) -> tuple[Any, Any]:
    """The number of the first B-spline that is not zero at each point, and that and the next k: de Boor 1978, chapter X."""
    i = np.clip(np.searchsorted(t, x, side="right") - 1, k, t.shape[0] - k - 2)
    rows = [1.0 + 0 * x]
    for r in range(1, k + 1):
        new: list[Any] = []
        carried: Any = 0.0
        for j in range(r):
            above, below = index(t, i + j + 1) - x, x - index(t, i + 1 - r + j)
            part = rows[j] / (above + below)
            new.append(carried + above * part)
            carried = below * part
        rows = [*new, carried]
    return i - k, np.stack(rows)


def _banded(first: Any, rows: Any, k: int) -> Any:
    """A matrix of rows of k + 1 neighbours that begin at the columns `first`, as `solve_banded` takes it."""
    column = np.arange(rows.shape[1])
    if bool(np.any((column < first) | (column > first + k))):
        raise ValueError("the spline has no values at some points, or no point for some coefficients: Schoenberg-Whitney condition")
    row = column + np.arange(-k, k + 1)[:, None]
    nearest = np.clip(row, 0, len(column) - 1)
    j = column - index(first, nearest)
    inside = (row == nearest) & (j >= 0) & (j <= k)
    return np.where(inside, index(rows, (np.clip(j, 0, k), nearest)), 0.0)


def _design(x: Any, t: Any, k: int, nu: int = 0) -> Any:
    """The matrix of all B-splines at all points."""
    return BSpline(t, np.eye(t.shape[0] - k - 1), k)(x, nu)


def make_interp_spline(x: Any, y: Any, k: int = 3, t: Any = None, bc_type: Any = None, axis: int = 0, check_finite: bool = True) -> BSpline:
    """`scipy.interpolate.make_interp_spline`, with the conditions "not-a-knot" (the default), "natural" and "clamped"."""
    x, y, axis = _knots(x, y, axis)
    conditions = 0 if bc_type in (None, "not-a-knot") else {"clamped": 1, "natural": 2}.get(bc_type if isinstance(bc_type, str) else "", -1)
    if conditions < 0 or conditions and k != 3:
        if not holds_tracer([x, y, t, bc_type]):
            return ours(_scipy.make_interp_spline(x, np.moveaxis(y, 0, axis), k, t, bc_type, axis))
        refuse("make_interp_spline", bc_type=(bc_type, None))
    if t is None:
        half, between = (k + 1) // 2, x if k % 2 else (x[1:] + x[:-1]) / 2 if k else x[1:]
        inner = x[1:-1] if conditions else between[half : between.shape[0] - half]
        t = np.concatenate([np.repeat(x[:1], k + 1), inner, np.repeat(x[-1:], k + 1)])
    t = double(t)
    (first, rows), right = _basis(x, t, k), np.reshape(y, (y.shape[0], -1))
    if conditions:
        ends = _design(np.stack([x[0], x[-1]]), t, k, conditions)
        rows = np.concatenate([ends[:1, : k + 1].T, rows, ends[1:, -k - 1 :].T], axis=1)
        first, right = np.pad(first, 1, mode="edge"), np.pad(right, [(1, 1), (0, 0)])
    if rows.shape[1] != t.shape[0] - k - 1:
        raise ValueError(f"{rows.shape[1]} points and conditions, but {t.shape[0] - k - 1} coefficients: as many are wanted")
    c = np.reshape(solve_banded((k, k), _banded(first, rows, k), right), (rows.shape[1], *y.shape[1:]))
    return BSpline(t, np.moveaxis(c, 0, axis), k, axis=axis)


def make_lsq_spline(
    x: Any, y: Any, t: Any, k: int = 3, w: Any = None, axis: int = 0, check_finite: bool = True, *, method: str = "qr"
) -> BSpline:
    """`scipy.interpolate.make_lsq_spline`."""
    axis = normalize_axis_index(axis, lift(y).ndim)
    x, y, t = double(x), np.moveaxis(double(y), axis, 0), double(t)
    weight = np.ones(x.shape[0]) if w is None else double(w)
    rows, right = _design(x, t, k) * weight[:, None], np.reshape(y, (y.shape[0], -1)) * weight[:, None]
    c = np.linalg.pinv(rows) @ right
    return BSpline(t, np.moveaxis(np.reshape(c, (-1, *y.shape[1:])), 0, axis), k, axis=axis)


def make_smoothing_spline(x: Any, y: Any, w: Any = None, lam: Any = None, *, axis: int = 0) -> BSpline:
    """`scipy.interpolate.make_smoothing_spline` with `lam` given: Green & Silverman 1994, "Nonparametric regression", 2.3."""
    if lam is None and not holds_tracer([x, y, w]):
        return ours(_scipy.make_smoothing_spline(x, y, w, **({"axis": axis} if axis else {})))  # which SciPy 1.15 has not
    x, y, axis = _knots(x, y, axis)
    if lam is None:
        raise errors.UnsupportedError("make_smoothing_spline: the search for lam has no derivative rule in functrace.\n  Pass lam.")
    n, h, flat = x.shape[0], x[1:] - x[:-1], np.reshape(y, (y.shape[0], -1))
    if n < 5:
        raise ValueError("``x`` and ``y`` length must be at least 5")
    v = lam * np.ones(n) if w is None else lam / double(w)
    a, c = 1 / h[:-1], 1 / h[1:]  # how the slope bends at each inner point is (a, b, c) times its neighbours' values
    b = -a - c
    middle = (h[:-1] + h[1:]) / 3 + a * a * v[:-2] + b * b * v[1:-1] + c * c * v[2:]
    near, far = h[1:-1] / 6 + b[:-1] * a[1:] * v[1:-2] + c[:-1] * b[1:] * v[2:-1], c[:-2] * a[2:] * v[2:-2]
    bands = np.stack([np.pad(far, (2, 0)), np.pad(near, (1, 0)), middle, np.pad(near, (0, 1)), np.pad(far, (0, 2))])
    a, b, c, v = a[:, None], b[:, None], c[:, None], v[:, None]
    curve = solve_banded((2, 2), bands, a * flat[:-2] + b * flat[1:-1] + c * flat[2:])
    pull = sum(np.pad(part * curve, [(k, 2 - k), (0, 0)]) for k, part in enumerate((a, b, c)))
    return make_interp_spline(x, np.moveaxis(np.reshape(flat - v * pull, y.shape), 0, axis), 3, None, "natural", axis)
