"""Bessel functions and their relatives: Airy, Kelvin, Struve, integrals of these; exponential integrals."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import scipy.special as s

from functrace.core.forward import spread
from functrace.core.tracer import Tracer
from functrace.ops.create import lift
from functrace.ops.elementwise import safe
from functrace.ops.registry import Sample
from functrace.scipy._shared import declarer
from functrace.scipy._special_kinds import INTEGER, POSITIVE, UNIT, WIDE, Map, along, along_each, drawn, hidden, multi, op, rarely

_declared = declarer(s)
_PI, _SQRT_PI = float(np.pi), float(np.sqrt(np.pi))
_ORDER = (WIDE, POSITIVE)
_PLANE = Sample(lambda rng: (rng.uniform(0.3, 2.5, 2), rng.uniform(0.5, 2, 2) + 1j * rng.uniform(-1, 1, 2)), wrt=(1,))


# Bessel functions: DLMF 10.6, 10.29; scaled ones follow by the product rule
def _rate(v: Any, z: Any, *_rest: Any) -> Any:
    return 1 + abs(np.log(abs(z) / 2) - np.log1p(abs(v)))


def _scaled(unit: complex, front: Map, v: Any, z: Any, near: Map) -> Any:
    """The derivative in z of a function with its exponential factor taken out: `near(v, z)`, and where z is so large that this
    cancels, that of sqrt(2 / (pi z)) front(v) sum a_k(v) (unit / z)**k, DLMF 10.17.5 and 10.40.1.
    """
    if z.dtype.kind == "c":
        return near(v, z)
    far = z > 50 + v * v
    if not isinstance(far, Tracer) and not np.count_nonzero(far):  # look before paying for them
        return near(v, z)
    u, x = safe(v, ~far, 0.0), safe(z, ~far, 60.0)
    term: Any = 1.0
    total: Any = 0.5
    for k in range(1, 17):
        term = term * (unit * (4 * u * u - (2 * k - 1) ** 2) / (8 * k * x))
        total = total + (k + 0.5) * term
    slope = -total * front(u) * float(np.sqrt(2 / np.pi)) / (x * np.sqrt(x))
    return np.where(far, slope, near(safe(v, far, 0.0), safe(z, far, 1.0)))


_HALF: Map = lambda v: 0.5
_QUARTER: Map = lambda v: _PI / 2


def _phase(unit: complex) -> Map:
    return lambda v: np.exp(-unit * _PI * (v / 2 + 0.25))


def _bessel(name: str, below: float, above: float, scale: complex = 0.0, far: tuple[complex, Map] | None = None) -> None:
    """f_v' = below f_{v-1} + above f_{v+1} + scale f_v; `far` is the unit and the front of `_scaled`."""
    f = getattr(s, name)

    def near(v: Any, z: Any) -> Any:
        return below * f(v - 1, z) + above * f(v + 1, z) + (scale * f(v, z) if scale else 0)

    def in_z(t: Any, _ans: Any, v: Any, z: Any) -> Any:
        return t * (_scaled(far[0], far[1], v, z, near) if far else near(v, z))

    op(name, along(f, 0, _rate), in_z, domain=_ORDER, samples=[_PLANE])


def _damped(name: str, above: float, part: Map, unit: complex) -> None:
    """`_bessel` for functions scaled by exp(-|part(z)|), where `unit * part(z)` is that part of z; they are not holomorphic."""
    f = getattr(s, name)

    def slope(v: Any, z: Any) -> Any:
        return 0.5 * f(v - 1, z) + above * f(v + 1, z)

    def real(t: Any, v: Any, z: Any) -> Any:
        return t * _scaled(-1, _HALF, v, z, lambda v, z: slope(v, z) - np.sign(z) * f(v, z))

    def pull(g: Any, ans: Any, v: Any, z: Any) -> Any:
        if unit == 1 and z.dtype.kind != "c":
            return real(g, v, z)
        return g * slope(v, z) - np.conjugate(unit) * np.sign(part(z)) * np.real(g * ans)

    def push(t: Any, ans: Any, v: Any, z: Any) -> Any:
        if unit == 1 and z.dtype.kind != "c":
            return real(t, v, z)
        return t * slope(v, z) - ans * np.sign(part(z)) * part(t)

    order = along(f, 0, _rate)
    op(name, order, pull, jvps=(order, push), domain=_ORDER, samples=[_PLANE])


def _sided(x: Any) -> Any:
    return np.where(x < 0, -1, 1).astype(x.dtype)


def _first(f0: Any, f1: Any, near: Map) -> Map:
    """f0(x) - f1(x) / x, the derivative of a function of order 1 by DLMF 10.6.2 or 10.29.2, and that of `near` 0, where it cancels in
    the next derivatives.
    """

    def slope(x: Any) -> Any:
        small = abs(x) < 1
        z = safe(x, small, 1.0)
        return np.where(small, rarely(near, small, x), f0(z) - f1(z) / z)

    return slope


_j1 = _first(s.j0, s.j1, lambda x: 0.5 * (s.j0(x) - s.jv(2, x)))
_y1 = _first(s.y0, s.y1, lambda x: 0.5 * (s.y0(x) - s.yv(2, x)))
_i1 = _first(s.i0, s.i1, lambda x: 0.5 * (s.i0(x) + s.iv(2, x)))
_i1e = _first(s.i0e, s.i1e, lambda x: 0.5 * (s.i0e(x) + s.ive(2, x)))
_k1 = _first(lambda x: -s.k0(x), s.k1, lambda x: -0.5 * (s.k0(x) + s.kv(2, x)))
_k1e = _first(lambda x: -s.k0e(x), s.k1e, lambda x: -0.5 * (s.k0e(x) + s.kve(2, x)))


for _name in ("jv", "yv", "hankel1", "hankel2"):
    _bessel(_name, 0.5, -0.5)
_bessel("iv", 0.5, 0.5)
_bessel("kv", -0.5, -0.5)
_bessel("kve", -0.5, -0.5, 1.0, (1, _QUARTER))
_bessel("hankel1e", 0.5, -0.5, -1j, (1j, _phase(1j)))
_bessel("hankel2e", 0.5, -0.5, 1j, (-1j, _phase(-1j)))
_damped("jve", -0.5, np.imag, 1j)
_damped("yve", -0.5, np.imag, 1j)
_damped("ive", 0.5, np.real, 1.0)
op("kn", INTEGER, lambda t, _ans, n, x: -0.5 * t * (s.kv(np.trunc(n) - 1, x) + s.kv(np.trunc(n) + 1, x)), domain=((0, 3), POSITIVE))
op("yn", INTEGER, lambda t, _ans, n, x: 0.5 * t * (s.yv(np.trunc(n) - 1, x) - s.yv(np.trunc(n) + 1, x)), domain=((0, 3), POSITIVE))
op("j0", lambda t, _ans, x: -t * s.j1(x))
op("j1", lambda t, _ans, x: t * _j1(x))
op("y0", lambda t, _ans, x: -t * s.y1(x), domain=POSITIVE)
op("y1", lambda t, _ans, x: t * _y1(x), domain=POSITIVE)
op("i0", lambda t, _ans, x: t * s.i1(x))
op("i0e", lambda t, _ans, x: t * _sided(x) * _scaled(-1, _HALF, 0.0, x * _sided(x), lambda v, x: s.i1e(x) - np.sign(x) * s.i0e(x)))
op("i1", lambda t, _ans, x: t * _i1(x))
op("i1e", lambda t, _ans, x: t * _scaled(-1, _HALF, 1.0, x * _sided(x), lambda v, x: _i1e(x) - np.sign(x) * s.i1e(x)))
op("k0", lambda t, _ans, x: -t * s.k1(x), domain=POSITIVE)
op("k0e", lambda t, _ans, x: t * _scaled(1, _QUARTER, 0.0, x, lambda v, x: s.k0e(x) - s.k1e(x)), domain=POSITIVE)
op("k1", lambda t, _ans, x: t * _k1(x), domain=POSITIVE)
op("k1e", lambda t, _ans, x: t * _scaled(1, _QUARTER, 1.0, x, lambda v, x: s.k1e(x) + _k1e(x)), domain=POSITIVE)


def _nth(name: str, f: Any, phase: int = -1, sign: int = 1) -> None:
    """The nth derivative in z, DLMF 10.6.7 and 10.29.5: a sum of functions of other orders."""

    def function(v: Any, z: Any, n: Any = 1) -> Any:
        if not isinstance(n, (int, np.integer)) or n < 0:
            raise ValueError("n must be a non-negative integer")
        v = np.asarray(v) if n and not hasattr(v, "dtype") else v  # as SciPy, so that single precision becomes double
        return sum(sign**n * phase**k * comb(n, k) * f(v - n + 2 * k, z) for k in range(n + 1)) / 2**n

    _declared(name, drawn(*_ORDER), drawn(*_ORDER, n=2))(function)


for _name, _f, *_signs in (
    ("jvp", s.jv), ("yvp", s.yv), ("h1vp", s.hankel1), ("h2vp", s.hankel2), ("ivp", s.iv, 1), ("kvp", s.kv, 1, -1)
):  # fmt: skip
    _nth(_name, _f, *_signs)


def _spherical(name: str, below: int, above: int) -> None:
    """DLMF 10.51: (2n + 1) f_n' = below n f_{n-1} + above (n + 1) f_{n+1}."""
    theirs = getattr(s, name)

    def slope(n: Any, z: Any) -> Any:
        n = lift(n)
        last, more = f(np.maximum(n - 1, 0), z), f(n + 1, z)
        return (below * n / (2 * n + 1)).astype(last.dtype) * last + (above * (n + 1) / (2 * n + 1)).astype(last.dtype) * more

    f = hidden(name, theirs, INTEGER, lambda t, _ans, n, z: t * slope(n, z))

    def function(n: Any, z: Any, derivative: bool = False) -> Any:
        return slope(n, z) if derivative else f(n, z)

    _declared(name, drawn((0, 3), (0.5, 3.0)), drawn((0, 3), (0.5, 3.0), derivative=True))(function)


_spherical("spherical_jn", 1, -1)
_spherical("spherical_yn", 1, -1)
_spherical("spherical_in", 1, 1)
_spherical("spherical_kn", -1, -1)


# Airy functions: DLMF 9.2; and integrals
def _airye(ans: Any, z: Any) -> tuple[Any, Any]:
    """The derivatives without the damping exp(-|Re zeta|) of the last two results, and what the damping adds: a real part's."""
    root = np.sqrt(z if z.dtype.kind == "c" else np.maximum(z, 0))
    d = ans[1] + root * ans[0], z * ans[0] + root * ans[1], ans[3], z * ans[2]
    return d, -np.sign(np.real(z * root)) * root


def _airye_pull(g: Any, ans: Any, z: Any) -> Any:
    d, damping = _airye(ans, z)
    return sum(c * y + (damping * np.real(c * ans[k]) if k > 1 else 0) for k, (c, y) in enumerate(zip(g, d)) if c is not None)


def _airye_push(t: Any, ans: Any, z: Any) -> Any:
    d, damping = _airye(ans, z)
    return tuple([spread(t * y + (np.real(damping * t) * ans[k] if k > 1 else 0), ans[k]) for k, y in enumerate(d)])


def _itairy(ans: Any, x: Any) -> Any:
    (ai, _, bi, _), (am, _, bm, _) = s.airy(x), s.airy(-x)
    return ai, bi, am, bm


def _less_one(sign: int, x: Any) -> Any:
    """(I0(x) - 1) / x, or with the sign -1 (1 - J0(x)) / x: up to 1 by the series DLMF 10.25.2."""
    near = abs(x) < 1
    z, far = safe(x, ~near, 0.0), safe(x, near, 1.0)
    total: Any = 1.0
    for k in range(10, 1, -1):
        total = 1 + sign * z * z / (4 * k * k) * total
    return np.where(near, z / 4 * total, sign * ((s.i0 if sign == 1 else s.j0)(far) - 1) / far)


multi("airy", lambda ans, z: (ans[1], z * ans[0], ans[3], z * ans[2]))
multi("airye", _airye, domain=POSITIVE, pulls=(_airye_pull,), pushes=(_airye_push,))
multi("itairy", _itairy, domain=(0.3, 1.0))
multi("itj0y0", lambda ans, x: (s.j0(x), s.y0(x)), domain=POSITIVE)
multi("it2j0y0", lambda ans, x: (_less_one(-1, x), -s.y0(x) / x), domain=POSITIVE)
multi("iti0k0", lambda ans, x: (s.i0(x), s.k0(x)), domain=POSITIVE)
multi("it2i0k0", lambda ans, x: (_less_one(1, x), -s.k0(x) / x), domain=POSITIVE)
op("itstruve0", lambda t, _ans, x: t * s.struve(0.0, x), domain=POSITIVE)
op("it2struve0", lambda t, _ans, x: -t * s.struve(0.0, x) / x, domain=POSITIVE)
op("itmodstruve0", lambda t, _ans, x: t * s.modstruve(0.0, x), domain=POSITIVE)
op(
    "besselpoly",
    lambda t, _ans, a, p, v: t * (s.besselpoly(a, p + 1, v - 1) - s.besselpoly(a, p + 1, v + 1)),
    along(s.besselpoly, 1, lambda a, p, v: 1 + 3 / abs(p + v + 1)),
    along(s.besselpoly, 2, lambda a, p, v: 2 + 3 / abs(p + v + 1) + abs(np.log(abs(a)))),
    domain=(POSITIVE, (0.5, 2.0), (1.2, 2.5)),
)


# Kelvin functions: ber + i bei = J0(c x), ker + i kei = K0(d x), DLMF 10.61
def _kelvin2(x: Any) -> Any:
    y = x * complex(np.exp(0.75j * _PI))
    return -0.5j * (s.jv(2, y) - s.jv(0, y))


def _berp(t: Any, _ans: Any, x: Any) -> Any:
    small = abs(x) < 0.01  # where the real part of J0 is lost beside the imaginary one
    return t * np.where(small, x * x * (7 / 18432 * x**4 - 3 / 16), np.real(_kelvin2(safe(x, small, 1.0))))


op("ber", lambda t, _ans, x: t * s.berp(x))
op("bei", lambda t, _ans, x: t * s.beip(x))
op("ker", lambda t, _ans, x: t * s.kerp(x), domain=POSITIVE)
op("kei", lambda t, _ans, x: t * s.keip(x), domain=POSITIVE)
op("berp", _berp)
op("beip", lambda t, _ans, x: t * np.imag(_kelvin2(x)))
op("kerp", lambda t, ans, x: -t * (s.kei(x) + ans / x), domain=POSITIVE)
op("keip", lambda t, ans, x: t * (s.ker(x) - ans / x), domain=POSITIVE)
multi("kelvin", lambda ans, x: (ans[2], ans[3], _kelvin2(x), 1j * ans[1] - ans[3] / x), domain=POSITIVE)


# Struve functions: DLMF 11.4.23 to 11.4.28
def _struve(f: Any, sign: int) -> Any:
    def in_x(t: Any, _ans: Any, v: Any, x: Any) -> Any:
        return t * 0.5 * (f(v - 1, x) + sign * f(v + 1, x) + (x / 2) ** v * s.rgamma(v + 1.5) / _SQRT_PI)

    return along(f, 0, lambda v, x: 2 * _rate(v, x)), in_x


op("struve", *_struve(s.struve, -1), domain=POSITIVE)
op("modstruve", *_struve(s.modstruve, 1), domain=POSITIVE)


# parabolic cylinder functions, DLMF 12.2, and Mathieu functions, DLMF 28.2: the second result is the derivative of the first
multi("pbdv", along_each("pbdv", 0, lambda *_: 2.0), lambda ans, v, x: (ans[1], (x * x / 4 - v - 0.5) * ans[0]), domain=POSITIVE)
multi("pbvv", along_each("pbvv", 0, lambda *_: 2.0), lambda ans, v, x: (ans[1], (x * x / 4 - v - 0.5) * ans[0]), domain=POSITIVE)
multi("pbwa", along_each("pbwa", 0, lambda *_: 2.0), lambda ans, a, x: (ans[1], (a - x * x / 4) * ans[0]), domain=POSITIVE)


# Exponential, trigonometric and hyperbolic integrals: DLMF 6.2, 8.19.13; Fresnel integrals: 7.2
def _sinhc(x: Any) -> Any:
    """sinh(x) / x; right at 0."""
    return np.sinc(x * (1j / _PI)) if x.dtype.kind == "c" else 0.5 * (s.exprel(x) + s.exprel(-x))


def _expn(t: Any, _ans: Any, n: Any, x: Any) -> Any:
    first = np.exp(-x) / x
    return -t * np.where(n == 0, first * (1 + 1 / x), s.expn(np.maximum(n - 1, 0), x))


def _modfresnel(sign: int) -> Any:
    def derivatives(ans: Any, x: Any) -> Any:
        return -np.exp(sign * 1j * x * x), -sign * 2j * x * ans[1] - complex(np.exp(sign * -0.25j * _PI)) / _SQRT_PI

    return derivatives


op("exp1", lambda t, _ans, z: -t * np.exp(-z) / z, domain=POSITIVE)
op("expi", lambda t, _ans, x: t * np.exp(x) / x, domain=POSITIVE)
op("expn", INTEGER, _expn, domain=((0, 3), POSITIVE))
multi("sici", lambda ans, x: (np.sinc(x / _PI), np.cos(x) / x), domain=POSITIVE)
multi("shichi", lambda ans, x: (_sinhc(x), np.cosh(x) / x), domain=POSITIVE)
multi("fresnel", lambda ans, z: (np.sin(_PI / 2 * z * z), np.cos(_PI / 2 * z * z)))
multi("modfresnelp", _modfresnel(1), domain=POSITIVE)
multi("modfresnelm", _modfresnel(-1), domain=POSITIVE)


# Mathieu functions, of degrees where they are periodic, and spheroidal wave functions: DLMF 28.2, 28.20, 30.2


def _mathieu(characteristic: Any, unit: float) -> Map:
    def derivatives(ans: Any, m: Any, q: Any, x: Any) -> Any:
        a = characteristic(m, q)
        force = 2 * q * np.cosh(2 * x) - a if unit == 1 else 2 * q * np.cos(2 * unit * x) - a
        return unit * ans[1], unit * (force if unit != 1 else -force) * ans[0]

    return derivatives


for _name in ("a", "b"):
    _f = getattr(s, f"mathieu_{_name}")
    op(f"mathieu_{_name}", INTEGER, along(_f, 1, lambda m, q: 3.0 + 0 * q), domain=((1, 4), POSITIVE))
for _name, _f, _unit in (
    ("cem", s.mathieu_a, _PI / 180), ("sem", s.mathieu_b, _PI / 180), ("modcem1", s.mathieu_a, 1.0), ("modcem2", s.mathieu_a, 1.0),
    ("modsem1", s.mathieu_b, 1.0), ("modsem2", s.mathieu_b, 1.0),
):  # fmt: skip
    _rule = along_each(f"mathieu_{_name}", 1, lambda m, q, x, end="mod" in _name: 3.0 + (3 / abs(q) if end else 0))
    multi(f"mathieu_{_name}", INTEGER, _rule, _mathieu(_f, _unit), domain=((1, 4), POSITIVE, POSITIVE))


def _spheroidal(sign: int, curve: int, characteristic: Any) -> Map:
    """(sign x**2 + 1) y'' + 2 sign x y' = force y; sign is 1 for radial oblate functions, else -1; curve is 1 for oblate ones."""

    def derivatives(ans: Any, m: Any, n: Any, c: Any, *rest: Any) -> Any:
        cv, x = rest if len(rest) == 2 else (characteristic(m, n, c), rest[0])
        p = 1 + sign * x * x
        force = sign * (cv + (-1 if sign == 1 else curve) * c * c * x * x - m * m / p)
        return ans[1], (force * ans[0] - 2 * sign * x * ans[1]) / p

    return derivatives


for _name in ("pro_cv", "obl_cv"):
    _even: Any = lambda m, n, c, name=_name: getattr(s, name)(m, n, np.abs(c))  # SciPy's is constant where c is negative
    op(_name, INTEGER, INTEGER, along(_even, 2, lambda m, n, c: 3.0), domain=((0, 1), (1, 3), POSITIVE))
_TIED = "c and the characteristic value determine each other"
for _name, _sign, _curve, _f, _domain in (
    ("pro_ang1", -1, -1, s.pro_cv, UNIT), ("pro_rad1", -1, -1, s.pro_cv, (1.3, 2.5)),
    ("obl_ang1", -1, 1, s.obl_cv, UNIT), ("obl_rad1", 1, 1, s.obl_cv, POSITIVE),
):  # fmt: skip
    _map = _spheroidal(_sign, _curve, _f)
    _rule = along_each(_name, 2, lambda m, n, c, x: 3.0 + 3 / abs(c))
    multi(_name, INTEGER, INTEGER, _rule, _map, domain=((0, 1), (1, 3), POSITIVE, _domain))
    _value = (float(_f(0, 1, 1.0)),) * 2
    multi(f"{_name}_cv", INTEGER, INTEGER, _TIED, _TIED, _map, domain=((0, 0), (1, 1), (1.0, 1.0), _value, _domain))
