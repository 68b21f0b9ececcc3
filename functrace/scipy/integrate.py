"""SciPy's `integrate`, for plain and traced values alike: rules for samples, quadrature, and differential equations.

Quadrature and explicit Runge-Kutta methods are run here on traced values: the intervals and steps are chosen by the values, as SciPy
does, and then the derivative is that of the sum which was computed. So it reaches limits, initial values, times, `args` and whatever the
function closes over, in every mode and to any order, and it is as accurate as the result: tolerances hold for the value.

>>> import functrace as ft, numpy as np
>>> from functrace.scipy import integrate
>>> ft.grad(lambda k: integrate.quad(lambda x: np.exp(-k * x), 0.0, np.inf)[0])(2.0).round(9)
np.float64(-0.25)
>>> decay = lambda k: integrate.solve_ivp(lambda t, y: -k * y, (0.0, 1.0), np.array([1.0]), rtol=1e-8, atol=1e-10).y[0, -1]
>>> ft.grad(decay)(2.0).round(6)
np.float64(-0.135335)
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.integrate as _scipy

from functrace.core.tracer import Tracer, value
from functrace.ops.create import lift
from functrace.ops.registry import Sample, one
from functrace.ops.statistics import as_float
from functrace.scipy._integrate_equations import _face
from functrace.scipy._shared import by_name, declarer, late
from functrace.scipy.optimize import as_args
from functrace.transforms.constants import stop_gradient

if TYPE_CHECKING:
    from scipy.integrate import *  # noqa: F403

_declared = declarer(_scipy)


def _xy(*shape: int, **kwargs: Any) -> Sample:
    return Sample(lambda rng: (rng.normal(size=shape), np.cumsum(rng.uniform(0.5, 1.5, size=shape[-1]))), kwargs, (0, 1))


_PLACES = np.array([0.0, 0.7, 1.9, 2.4, 3.5, 4.1])


# samples


def _widths(y: Any, x: Any, dx: Any) -> Any:
    """Differences of the abscissae along the last axis, or `dx`."""
    if x is None:
        return dx if isinstance(dx, (int, float)) else lift(dx)
    x = lift(x)
    if x.ndim > 1 and x.shape != y.shape:
        raise ValueError("If given, shape of `x` must be 1-D or the same as `y`.")
    if x.shape[-1] != y.shape[-1]:
        raise ValueError("If given, length of `x` along axis must be the same as `y`.")
    return x[..., 1:] - x[..., :-1]


def _last(y: Any, x: Any, axis: int) -> tuple[Any, Any]:
    return np.moveaxis(as_float(y), axis, -1), None if x is None else np.moveaxis(lift(x), axis, -1) if np.ndim(lift(x)) > 1 else x


@_declared("trapezoid", one(5), one(5, 2, dx=0.5, axis=0), _xy(2, 5))
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    if x is not None and np.ndim(lift(x)) and lift(x).shape[axis if np.ndim(lift(x)) > 1 else 0] != lift(y).shape[axis]:
        raise ValueError("If given, length of `x` along axis must be the same as `y`.")
    return np.trapezoid(lift(y), None if x is None else lift(x), dx, axis)


@_declared("cumulative_trapezoid", one(5), one(5, 2, dx=0.5, axis=0, initial=0), _xy(2, 5))
def cumulative_trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Any:
    if initial is not None and (not np.isscalar(initial) or initial != 0):
        raise ValueError("`initial` must be `None` or `0`.")
    y, x = _last(y, x, axis)
    out = np.cumsum(_widths(y, x, dx) * (y[..., 1:] + y[..., :-1]) / 2.0, axis=-1)
    if initial is not None:
        out = np.concatenate([np.zeros((*out.shape[:-1], 1), out.dtype) + initial, out], axis=-1)
    return np.moveaxis(out, -1, axis)


def _over(a: Any, b: Any) -> Any:
    """a / b, or 0 where b, a width, is 0, as SciPy has it."""
    none = b == 0
    return np.where(none, 0, a / np.where(none, 1, b))


def _parabolas(y: Any, h: Any) -> Any:
    """Integrals over pairs of intervals, of the parabolas through three points each."""
    before, after = h[..., ::2], h[..., 1::2]
    both, ratio = before + after, _over(before, after)
    first, middle, last = y[..., :-2:2], y[..., 1:-1:2], y[..., 2::2]
    parts = first * (2 - _over(1, ratio)) + middle * _over(both * both, before * after) + last * (2 - ratio)
    return np.sum(both / 6 * parts, axis=-1)


def _listed(*shape: int) -> Sample:  # lists, since SciPy's result of single precision is double for some lengths only
    return Sample(lambda rng: (rng.normal(size=shape).tolist(), _PLACES[: shape[-1]].tolist()), wrt=(0, 1))


@_declared("simpson", *(one(n) for n in (1, 2, 3, 4, 5, 6)), _listed(2, 5), _listed(6), _listed(4))
def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """`scipy.integrate.simpson`, with Cartwright's correction for the last of an odd number of intervals."""
    y, x = _last(y, x, axis)
    n = y.shape[-1]
    h: Any = _widths(y, x, dx) + np.zeros(n - 1, y.real.dtype) if n > 1 else None
    if n < 3:
        return 0 * np.sum(y, axis=-1) if h is None else np.sum(h * (y[..., 1:] + y[..., :-1]), axis=-1) / 2
    if n % 2:
        return _parabolas(y, h)
    a, b = (w if x is not None else w.astype(float) for w in (h[..., -2], h[..., -1]))
    end = (
        _over(2 * b**2 + 3 * a * b, 6 * (a + b)) * y[..., -1]
        + _over(b**2 + 3 * a * b, 6 * a) * y[..., -2]
        - _over(b**3, 6 * a * (a + b)) * y[..., -3]
    )
    return _parabolas(y[..., :-1], h[..., :-1]) + end


def _left_parts(y: Any, h: Any) -> Any:
    """Of each three points, the integral over the first interval."""
    a, b = h[..., :-1], h[..., 1:]
    wide = a / (a + b)
    cross = wide * a / b
    return a / 6 * ((3 - wide) * y[..., :-2] + (3 + cross + wide) * y[..., 1:-1] - cross * y[..., 2:])


@_declared("cumulative_simpson", one(5), one(2, 6, dx=0.5), one(2), one(2, 6, x=np.array([0.0, 0.7, 1.1, 2.0, 2.4, 3.5]), initial=0.0))
def cumulative_simpson(y: Any, *, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Any:
    y, x = _last(y, x, axis)
    n = y.shape[-1]
    if initial is not None:
        area = cumulative_simpson(y, x=x, dx=dx)
        first = np.broadcast_to(np.moveaxis(lift(initial) + np.zeros((1,) * y.ndim), axis, -1), (*y.shape[:-1], 1))
        return np.moveaxis(np.concatenate([first, area + first], axis=-1), -1, axis)
    if n < 3:
        return np.moveaxis(cumulative_trapezoid(y, x, dx), -1, axis)
    h = _widths(y, x, dx) + np.zeros(n - 1)
    left, right = _left_parts(y, h), _left_parts(y[..., ::-1], h[..., ::-1])[..., ::-1]
    k = np.arange(n - 1)
    from_left = np.concatenate([left, right[..., -1:]], axis=-1)
    parts = np.where((k % 2 == 0) & (k < n - 2), from_left, np.concatenate([left[..., :1], right], axis=-1))
    return np.moveaxis(np.cumsum(parts, axis=-1), -1, axis)


@_declared("romb", one(5), one(9, 2, axis=0, dx=0.5))
def romb(y: Any, dx: Any = 1.0, axis: int = -1, show: bool = False) -> Any:
    y, _ = _last(y, None, axis)
    return np.sum(y * _scipy.romb(np.eye(y.shape[-1]), axis=0), axis=-1) * dx


# quadrature


@functools.cache
def _gauss(n: int) -> tuple[Any, Any]:
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return (nodes + 1) / 2, weights / 2


def _rule(f: Callable[[Any], Any], low: Any, width: Any, n: int) -> Any:
    nodes, weights = _gauss(n)
    total: Any = 0.0
    for x, w in zip(nodes, weights):
        total = total + f(low + width * x) * (w * width)
    return total


def _size(x: Any) -> float:
    return float(np.max(np.abs(value(x)), initial=0.0))


def _adaptive(f: Callable[[Any], Any], epsabs: float, epsrel: float, limit: int, cuts: list[Any]) -> tuple[Any, float]:
    """The integral of `f` over [0, 1], by halving the interval with the largest error, and the estimated error."""

    def part(low: Any, width: Any) -> tuple[float, Any, Any, Any]:
        fine = _rule(f, low, width, 21)
        return _size(fine - _rule(f, low, width, 10)), low, width, fine

    parts = [part(a, b - a) for a, b in zip([0.0, *cuts], [*cuts, 1.0])]
    while True:
        total = functools.reduce(lambda s, p: s + p[3], parts, 0.0)
        error = sum(p[0] for p in parts)
        if error <= max(epsabs, epsrel * _size(total)) or not np.isfinite(error):
            return total, error
        if len(parts) >= limit:
            warnings.warn(f"quad: error {error:.2g} after {limit} intervals", _scipy.IntegrationWarning, stacklevel=4)
            return total, error
        worst = max(range(len(parts)), key=lambda k: parts[k][0])
        _, low, width, _ = parts.pop(worst)
        parts += [part(low, width / 2), part(low + width / 2, width / 2)]


def _ends(f: Callable[[Any], Any], a: Any, b: Any) -> Callable[[Any], Any]:
    """The integrand as a function on [0, 1], where infinite ranges are folded by x = a + t / (1 - t)."""
    low, high = _infinite(a), _infinite(b)
    if low and high:
        sign = (np.sign(value(b)) - np.sign(value(a))) / 2
        half: Any = lambda t: (f(t / (1 - t)) + f(-t / (1 - t))) / (1 - t) ** 2
        return lambda t: sign * half(t)
    if high:
        sign = 1.0 if value(b) > 0 else -1.0
        return lambda t: sign * f(a + sign * t / (1 - t)) / (1 - t) ** 2
    if low:
        sign = 1.0 if value(a) > 0 else -1.0
        return lambda t: -sign * f(b + sign * t / (1 - t)) / (1 - t) ** 2
    return lambda t: f(a + (b - a) * t) * (b - a)


def _infinite(x: Any) -> bool:
    return bool(np.all(np.isinf(value(x))))


_SMOOTH: Any = lambda x, p: np.exp(-p * x) * np.cos(x)


@_face(note="smooth integrands; no weights")
def quad(func: Any, a: Any, b: Any, args: Any, epsabs: float, epsrel: float, limit: int, points: Any) -> Any:
    """`scipy.integrate.quad`; a traced place where the integrand jumps is to be among `points`."""
    args = as_args(args)
    integrand: Any = lambda x: func(x, *args)
    held: Any = lambda v: stop_gradient(v) if isinstance(v, Tracer) else v
    low, high = held(a), held(b)
    cuts = [] if points is None else sorted([(p - low) / (high - low) for p in points], key=value)
    total, error = _adaptive(_ends(integrand, low, high), epsabs, epsrel, limit, cuts)
    for sign, end, fixed in ((1, b, high), (-1, a, low)):
        if end is not fixed and not _infinite(end):  # what a moving end adds, from where it is: 0, with all its derivatives
            total = total + sign * _rule(integrand, fixed, end - fixed, 5)
    return total, error


@_face()
def quad_vec(
    f: Any, a: Any, b: Any, epsabs: float, epsrel: float, limit: int, points: Any, args: Any, full_output: bool, **_how: Any
) -> Any:
    return quad(f, a, b, args, full_output, epsabs, epsrel, limit, points)


@_face(Sample(lambda rng: (_SMOOTH, 0.2, 1.7, (0.8,)), {"n": 4}, (1, 2, 3)))
def fixed_quad(func: Any, a: Any, b: Any, args: Any, n: int) -> Any:
    if _infinite(a) or _infinite(b):
        raise ValueError("Gaussian quadrature is only available for finite limits.")
    nodes, weights = _gauss(n)
    return (b - a) * np.sum(weights * func(a + (b - a) * nodes, *args), axis=-1), None


def _nested(f: Callable[..., Any], ranges: Any, options: dict[str, Any], inner: tuple[Any, ...] = ()) -> tuple[Any, float]:
    """The integral over ranges, the last of them outermost; a range may be a function of the variables outside of it."""
    span = ranges[-1](*inner) if callable(ranges[-1]) else ranges[-1]
    if len(ranges) == 1:
        return quad(lambda x: f(x, *inner), *span, **options)  # type: ignore[no-any-return]
    return quad(lambda x: _nested(f, ranges[:-1], options, (x, *inner))[0], *span, **options)  # type: ignore[no-any-return]


def _at(limit: Any, *x: Any) -> Any:
    return limit(*x) if callable(limit) else limit


@_face()
def dblquad(func: Any, a: Any, b: Any, gfun: Any, hfun: Any, args: Any, **how: Any) -> Any:
    ranges = [lambda x: (_at(gfun, x), _at(hfun, x)), (a, b)]
    return _nested(lambda y, x: func(y, x, *args), ranges, how)


@_face()
def tplquad(func: Any, a: Any, b: Any, gfun: Any, hfun: Any, qfun: Any, rfun: Any, args: Any, **how: Any) -> Any:
    ranges = [lambda y, x: (_at(qfun, x, y), _at(rfun, x, y)), lambda x: (_at(gfun, x), _at(hfun, x)), (a, b)]
    return _nested(lambda z, y, x: func(z, y, x, *args), ranges, how)


@_face()
def nquad(func: Any, ranges: Any, args: Any) -> Any:
    """`scipy.integrate.nquad`, without options."""
    args = as_args(() if args is None else args)
    spans = [(lambda *v, r=r: r(*v, *args)) if callable(r) else r for r in ranges]
    return _nested(lambda *x: func(*x, *args), spans, {})


_REASONS = {
    "a stepping object: use solve_ivp": "ode complex_ode RK23 RK45 DOP853 Radau BDF LSODA OdeSolver DenseOutput OdeSolution",
    "not covered yet; quad and nquad are": "cubature tanhsinh nsum qmc_quad",
}
REFUSED = by_name(_REASONS)

__getattr__, __dir__ = late(_scipy, REFUSED)
