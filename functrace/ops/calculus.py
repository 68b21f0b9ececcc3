"""Differences, interpolation, convolution, and the special functions that NumPy has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from functrace.core.tracer import Tracer, value
from functrace.ops.arrange import as_line, lying_as, order_of
from functrace.ops.create import cast, lift, number, typed
from functrace.ops.functions import all_axes, concatenate, reshape, single_axis
from functrace.ops.index import index
from functrace.ops.kinds import bilinear, general, spread_batch
from functrace.ops.rebased import steady
from functrace.ops.registry import Sample, each, given, implements, one
from functrace.ops.shape import along
from functrace.ops.statistics import as_float


def _increasing(rng: np.random.Generator, n: int) -> Any:
    return np.cumsum(rng.uniform(0.5, 1.5, size=n))


def _at_places(shape: tuple[int, ...], n: int, **kwargs: Any) -> Sample:
    return Sample(lambda rng: (rng.normal(size=shape), _increasing(rng, n)), kwargs, (0, 1))


# differences


steady(
    np,
    "diff",
    [
        one(4),
        one(2, 3, axis=0),
        one(5, n=3),
        one(3, n=0),
        one(3, n=4),
        one(2, 3, prepend=1.0),
        one(2, 3, append=np.ones((1, 3)), axis=0),
        one(2, 3, prepend=0.0, append=2.0, n=2),
    ],
)


@implements(
    (np.trapezoid, getattr(np, "trapz", None)),
    [one(4), one(2, 3, dx=0.5, axis=0), _at_places((4,), 4), _at_places((2, 4), 4), _at_places((3, 2), 3, axis=0)],
)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    y = lift(y)
    k, ndim = single_axis(y, axis), len(y.shape)
    if x is None:
        steps = dx
    elif len((x := lift(x)).shape) == 1:
        steps = as_line(np.diff(x), k, ndim)
    else:
        steps = np.diff(x, axis=axis)
    return np.sum(steps * (y[along(k, slice(1, None))] + y[along(k, slice(None, -1))]) / 2.0, axis=axis)


steady(
    np,
    "unwrap",
    [
        one(5),
        one(2, 4, axis=0),
        Sample(lambda rng: (3 * rng.normal(size=(5,)),), {"period": 4.0}),
        Sample(lambda rng: (9 * rng.normal(size=(2, 5)),), {"discont": 3.5}),
    ],
)


@implements(np.ediff1d, [one(4), one(2, 3), one(3, to_begin=1.0, to_end=[2.0, 3.0])])
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    a = reshape(lift(ary), -1)
    begin, end = ([] if x is None else [cast(reshape(lift(x), -1), a.dtype, "same_kind")] for x in (to_begin, to_end))
    return concatenate([*begin, a[1:] - a[:-1], *end], 0)


@implements(
    np.gradient,
    [
        one(4),
        one(3, 4),
        Sample(lambda rng: (rng.normal(size=(3, 4)), 0.5), {"axis": 1}),
        Sample(lambda rng: (rng.normal(size=(3, 4)), 0.5, 2.0), wrt=(0, 1, 2)),
        one(3, 4, axis=(1, 0), edge_order=2),
        _at_places((5,), 5),
        _at_places((5,), 5, edge_order=2),
        Sample(lambda rng: (rng.normal(size=(3, 4)), _increasing(rng, 3), 0.5), {"axis": (0, 1)}, (0, 1)),
    ],
)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """`np.gradient`, differences along each axis; the spacings may be traced too."""
    f = as_float(f)
    ndim = len(f.shape)
    axes = all_axes(axis, ndim)
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError("invalid number of arguments")
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    spacings = [as_float(h) for h in varargs] or [1.0]  # unsigned differences would wrap around
    if len(varargs) == 1 and len(axes) > 1 and np.ndim(spacings[0]):
        raise TypeError("invalid number of arguments")
    spacings = spacings * len(axes) if len(spacings) == 1 else spacings
    out = [_gradient_along(f, h, k, edge_order) for h, k in zip(spacings, axes)]
    return out[0] if len(axes) == 1 else tuple(out)


def _gradient_along(f: Any, h: Any, axis: int, edge_order: int) -> Any:
    n = f.shape[axis]
    if n < edge_order + 1:
        raise ValueError("Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are required.")
    uneven = np.ndim(h) == 1
    if np.ndim(h) > 1:
        raise ValueError("distances must be either scalars or 1d")
    if uneven and h.shape[0] != n:
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    order = order_of(f)
    f = np.moveaxis(f, axis, -1)
    d = np.diff(h) if uneven else h
    step = 1 if uneven else max(n - 2, 1)  # at even distances only the slopes at the ends are asked for
    slopes = (f[..., 1::step] - f[..., :-1:step]) / d
    if uneven:
        before, after = d[:-1], d[1:]
        inner = (slopes[..., :-1] * after + slopes[..., 1:] * before) / (before + after)
        ends: Any = (d[0], d[1], d[-1], d[-2]) if n > 2 else ()
    else:
        inner = (f[..., 2:] - f[..., :-2]) / (2.0 * d)
        ends = (d, d, d, d)
    first, last = slopes[..., :1], slopes[..., -1:]
    if edge_order != 1:
        first = _edge(f[..., 0], f[..., 1], f[..., 2], ends[0], ends[1])
        last = -_edge(f[..., -1], f[..., -2], f[..., -3], ends[2], ends[3])
    out = concatenate([first, inner, last], -1)
    return lying_as(np.moveaxis(typed(out, f.dtype), -1, axis), order)


def _edge(f0: Any, f1: Any, f2: Any, near: Any, far: Any) -> Any:
    """The derivative at the outermost of three points, of second order."""
    out = -(2.0 * near + far) / (near * (near + far)) * f0 + (near + far) / (near * far) * f1 - near / (far * (near + far)) * f2
    return out[..., None]


# interpolation


def _points(rng: np.random.Generator) -> tuple[Any, ...]:
    return np.array([[0.7, 1.3, 4.6], [2.5, 3.7, 1.8]]), np.array([1.0, 2.1, 3.3, 4.2]), rng.normal(size=4)


def _interpolated(**kwargs: Any) -> Sample:
    return Sample(_points, kwargs, (0, 1, 2))


@implements(
    np.interp,
    [
        _interpolated(),
        _interpolated(left=0.0, right=-1.0),
        _interpolated(period=4.0),
        Sample(lambda rng: (1.5, *_points(rng)[1:]), wrt=(0, 2)),
        Sample(lambda rng: (rng.normal(size=3), np.array([0.2]), np.array([2.0])), wrt=(0, 2)),
    ],
)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """`np.interp`; all of x, xp, fp may be traced. At a knot the derivative is that of the piece to the right."""
    x, xp = (cast(lift(a), np.float64, "same_kind") for a in (x, xp))
    fp = lift(fp)
    fp = as_float(fp, np.complex128 if fp.dtype.kind == "c" else np.float64)
    if len(xp.shape) != 1 or xp.shape != fp.shape:
        raise ValueError("Data points must be 1-D sequences" if len(xp.shape) != 1 else "fp and xp are not of the same length.")
    if not xp.shape[0]:
        raise ValueError("array of sample points is empty")
    if period is not None:
        if np.any(np.equal(period, 0)):
            raise ValueError("period must be a non-zero value")
        period = abs(period)
        x, xp = x % period, xp % period
        order = np.argsort(xp)
        xp, fp = index(xp, order), index(fp, order)
        xp, fp = concatenate([xp[-1:] - period, xp, xp[:1] + period], 0), concatenate([fp[-1:], fp, fp[:1]], 0)
        left = right = None
    left, right = (fp[0] if left is None else left), (fp[-1] if right is None else right)
    n = xp.shape[0]
    if n == 1:
        inside: Any = fp[0]
    else:
        k = np.minimum(np.maximum(np.searchsorted(xp, x, side="right") - 1, 0), n - 2)
        (x0, f0), (x1, f1) = ((index(xp, i), index(fp, i)) for i in (k, k + 1))
        slope = (f1 - f0) / (x1 - x0)
        inside = f0 + slope * (x - x0)
        lost = np.isnan(inside)
        if np.any(value(lost)):
            lost = lost & ~np.isnan(x)
            if np.any(value(lost)):  # beside an infinity: from the knot, or the other side, as NumPy does it
                known = np.where(x == x1, f1, np.where((x == x0) | (f0 == f1), f0, f1 + slope * (x - x1)))
                inside = np.where(lost, known, inside)
    below, above = x < xp[0], x > xp[-1]
    if not isinstance(below, Tracer) and not isinstance(above, Tracer) and not np.any(below | above):
        return number(inside)
    return number(np.where(below, left, np.where(above, right, inside)))


# convolution: the full product and that part of it where one array lies within the other, each the transpose of the other


def _batch_convolve(size: int, flags: Sequence[bool], args: tuple[Any, ...], _params: tuple[Any, ...]) -> Any:
    a, v = spread_batch(size, flags, args)
    if a.shape[1] < v.shape[1]:
        a, v = v, a
    m = v.shape[1]
    late = (np.pad(a * v[:, k : k + 1], ((0, 0), (k, m - 1 - k))) for k in range(m))  # products are padded: a NaN stays in its place
    return sum(late, next(late))


def _batch_within(size: int, flags: Sequence[bool], args: tuple[Any, ...], _params: tuple[Any, ...]) -> Any:
    a, v = spread_batch(size, flags, args)
    v, m = v[:, ::-1], v.shape[1]
    n = a.shape[1] - m + 1
    if n < m:
        return typed(np.stack([np.sum(a[:, k : k + m] * v, axis=1) for k in range(n)], axis=1), np.result_type(a, v))
    parts = (a[:, k : k + n] * v[:, k : k + 1] for k in range(m))
    return sum(parts, next(parts))


_convolve: Any = bilinear(
    "convolve",
    np.convolve,
    lambda g, _ans, _x, y: _within(g, y[::-1]),
    lambda g, _ans, x, _y: _within(g, x[::-1]),
    batch=_batch_convolve,
)
_within: Any = bilinear(
    "convolve_within",
    lambda x, y: np.convolve(x, y, "valid"),  # y is not longer than x
    lambda g, _ans, _x, y: _convolve(g, y[::-1]),
    lambda g, _ans, x, _y: _within(x, g[::-1])[::-1],
    batch=_batch_within,
)

_LENGTHS = [((5,), (3,)), ((2,), (4,)), ((4,), (4,)), ((4,), (2,)), ((1,), (3,))]
_PAIRS = [each(a, b, mode=mode) for a, b in _LENGTHS for mode in ("full", "same", "valid")] + [each((3,), (2,))]


def _part(a: Any, v: Any, mode: Any, late: bool) -> Any:
    """The part of the product that a mode asks for; `late` where NumPy rounds the middle up."""
    if a.shape[0] < v.shape[0]:
        a, v = v, a
    if mode in ("full", "f", 2):
        return _convolve(a, v)
    if mode in ("valid", "v", 0):
        return _within(a, v)
    if mode in ("same", "s", 1):
        start = (v.shape[0] - (not late)) // 2
        return _convolve(a, v)[start : start + a.shape[0]]
    raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")


def _lines(a: Any, v: Any) -> tuple[Any, Any]:
    a, v = (x if x.shape else reshape(x, (1,)) for x in (lift(a), lift(v)))
    if len(a.shape) > 1 or len(v.shape) > 1:
        raise ValueError("object too deep for desired array")
    if not a.shape[0] or not v.shape[0]:
        raise ValueError(f"{'a' if not a.shape[0] else 'v'} cannot be empty")
    return a, v


@implements(np.convolve, _PAIRS)
def convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    a, v = _lines(a, v)
    return _part(a, v, mode, False)


@implements(np.correlate, _PAIRS)
def correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    a, v = _lines(a, v)
    return _part(a, v.conj()[::-1], mode, a.shape[0] < v.shape[0])


# special functions, each a family of its own derivatives, so that every order is as precise as the first


@lru_cache(maxsize=64)
def _series(n: int) -> list[float]:
    """For Horner's rule the coefficients in the sum over k of cos((k + n) pi/2) y**k / k! / (n + k + 1), from the last."""
    return [(-1.0) ** ((k + n) // 2) / (n + k + 1) / math.factorial(k) for k in range(min(6 * n + 26, 168) + n % 2, -1, -2)]


def _sinc(x: Any, n: int) -> Any:
    """The nth derivative of sin(y)/y at y = pi x, times pi**n."""
    if n == 0:
        return np.sinc(x)
    y = np.asarray(np.pi * np.asarray(x))
    near = abs(y) < n + 2
    small, far, out = y[near], y[~near], np.empty_like(y)
    square, (first, *rest) = small * small, _series(n)
    total = np.full_like(square, first)
    for c in rest:
        total *= square
        total += c
    out[near] = total * small if n % 2 else total
    value = np.sin(far) / far
    for k in range(1, n + 1):
        value = (np.sin(far + k * np.pi / 2) - k * value) / far
    out[~near] = value
    return (np.pi**n * out).astype(np.asarray(x).dtype)[()]


def _i0(x: Any, n: int) -> Any:
    """The nth derivative of the Bessel function I0: the mean of cos(t)**n exp(x cos(t)), which the trapezoid rule gives exactly."""
    x = np.asarray(x)
    if n == 0:
        return np.i0(x) if x.ndim else np.i0(x)[()]
    top = float(np.fmax.reduce(abs(x), axis=None, initial=0.0))
    count = 4 * (16 + int(min(top, 700.0) ** 0.5 * 8)) + n
    c = np.cos((np.arange(count) + 0.5) * (np.pi / 2 / count))
    even, y = np.sinh if n % 2 else np.cosh, x.astype(float).reshape(-1)
    step = max(1, _NODES // count)  # so many at a time, or x would take hundreds of times its memory
    means = [np.mean(c**n * even(y[k : k + step, None] * c), axis=-1) for k in range(0, max(y.size, 1), step)]
    return np.concatenate(means).astype(x.dtype).reshape(x.shape)[()]


_NODES = 1 << 16


def _family(name: str, fun: Any) -> Any:
    """An elementwise op `op(x, n)` whose derivative is `op(x, n + 1)`."""

    def rule(t: Any, _ans: Any, x: Any, n: int) -> Any:
        return t * op(x, n + 1)

    op: Any = general(name, fun, rule, jvps=(rule,), batch="leading")
    return op


sinc_, i0_ = _family("sinc", _sinc), _family("i0", _i0)
_NEAR = given([1e-3, 0.4, -2.0, 5.5])


@implements(np.sinc, [one(2, 3), one(), _NEAR], note="derivatives at 0 are right to every order")
def sinc(x: Any) -> Any:
    """`np.sinc`; smooth at 0."""
    return sinc_(as_float(x), 0)


@implements(np.i0, [one(2, 3), _NEAR])
def i0(x: Any) -> Any:
    """`np.i0`, of real numbers."""
    x = as_float(x)
    if x.dtype.kind == "c":
        raise TypeError("i0 not supported for complex values")
    return i0_(x, 0)


@implements((), [Sample(lambda rng: (5, 2.5), wrt=(1,)), Sample(lambda rng: (1, 2.5), wrt=(1,))])
def kaiser(M: int, beta: Any) -> Any:
    """`np.kaiser`, whose `beta` may be traced; NumPy's own function can't see that."""
    half = (M - 1) / 2
    places = (np.arange(M) - half) / (half or 1)
    return i0(beta * np.sqrt(1 - places * places)) / i0(beta)


_PLANE = np.array([1 + 2j, -0.5 + 1j, 2 - 1j])


steady(
    np,
    "angle",
    [Sample(lambda rng: (rng.uniform(1, 2, size=3),), {"deg": True}), given(_PLANE), given(_PLANE, deg=True)],
    "its derivative is 0 at 0",
)
steady(np, "real_if_close", [one(3)], "whether it is close is decided by the values, of a whole batch together")
