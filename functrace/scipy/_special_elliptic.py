"""Elliptic integrals and functions, hypergeometric functions, orthogonal polynomials, spherical harmonics."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import scipy.special as s

from functrace import errors
from functrace.core.tracer import value
from functrace.ops.elementwise import safe
from functrace.ops.functions import refuse
from functrace.scipy._shared import declarer
from functrace.scipy._special_kinds import (
    INTEGER,
    MAPS,
    POSITIVE,
    PROBABILITY,
    UNIT,
    WIDE,
    Map,
    along,
    drawn,
    hidden,
    multi,
    op,
    pole_rate,
    rarely,
)
from functrace.transforms.constants import stop_gradient

_declared = declarer(s)
_PI = float(np.pi)


# Carlson's symmetric integrals: each is c times the integral over t > 0 of t**q times the product of (t + x_i)**-b_i, DLMF 19.16,
# and so is every derivative of it. In log t the trapezoid rule converges geometrically, and no two terms cancel. The terms are taken as
# logarithms: the grid is one for all elements, and what is extreme in one may not overflow in another.
def _grid(xs: tuple[Any, ...], q: int) -> Any:
    sizes = np.concatenate([np.ravel(abs(np.asarray(value(x)))) for x in xs])
    positive = sizes[(sizes > 0) & np.isfinite(sizes)] if np.any(sizes > 0) else np.ones(1)
    low = np.log(np.min(positive)) - (75 if np.any(sizes == 0) else 40)
    return np.arange(max(low, -700), min(np.log(np.max(positive)) + (75 if q else 30), 700), 0.4)


def _carlson(c: float, q: int, *b: float) -> tuple[Map, ...]:
    def partial(i: int) -> Map:
        def rule(t: Any, _ans: Any, *xs: Any) -> Any:
            for x in map(value, xs):
                if np.any((np.real(x) < 0) & (np.imag(x) == 0)):
                    raise errors.UnsupportedError("Carlson's integrals have no derivative rule at negative arguments.")
            grid = _grid(xs, q)
            terms: Any = (q + 1) * grid
            for j, (x, p) in enumerate(zip(xs, b)):
                terms = terms - (p + (j == i)) * np.log((x[..., None] if hasattr(x, "dtype") else x) + np.exp(grid))
            order = sum((p + (j == i)) * (x == 0) for j, (x, p) in enumerate(zip(xs, b)))  # of the pole of the integral at t = 0
            return t * (-0.4 * c * b[i]) * np.where(order >= q + 1, np.inf, np.sum(np.exp(terms), axis=-1))

        return rule

    return tuple(partial(i) for i in range(len(b)))


_RD = _carlson(1.5, 0, 0.5, 0.5, 1.5)
op("elliprc", *_carlson(0.5, 0, 0.5, 1.0), domain=POSITIVE)
op("elliprd", *_RD, domain=POSITIVE)
op("elliprf", *_carlson(0.5, 0, 0.5, 0.5, 0.5), domain=POSITIVE)
op("elliprg", *_carlson(-0.25, 1, 0.5, 0.5, 0.5), domain=POSITIVE)
op("elliprj", *_carlson(1.5, 0, 0.5, 0.5, 0.5, 1.0), domain=POSITIVE)


# Legendre's integrals: DLMF 19.25, so that nothing is special at m = 0
def _reduced(phi: Any) -> tuple[Any, Any, Any]:
    """The number of half turns in phi, and sine and squared cosine of what is left."""
    turns = np.round(phi / _PI)
    rest = phi - _PI * turns
    return turns, np.sin(rest), np.cos(rest) ** 2


def _legendre_m(c: float, one: int) -> Any:
    """c times the integral of sin**2 / (1 - m sin**2)**(3/2 or, if one == 2, 1/2): a derivative in m, and its own derivatives."""

    def arguments(c2: Any, y: Any) -> tuple[Any, Any, Any]:
        return (c2, y, 1.0) if one == 2 else (c2, 1.0, y)

    def fun(phi: Any, m: Any) -> Any:
        turns, sine, c2 = _reduced(phi)
        whole = np.where(turns == 0, 0, 2 * turns * s.elliprd(*arguments(0.0, np.where(turns == 0, 1, 1 - m))))
        return c / 3 * (sine**3 * s.elliprd(*arguments(c2, 1 - m * sine * sine)) + whole)

    def in_m(t: Any, _ans: Any, phi: Any, m: Any) -> Any:
        place = 1 if one == 2 else 2
        turns, sine, c2 = _reduced(phi)
        part = -(sine**5) * _RD[place](1.0, None, *arguments(c2, 1 - m * sine * sine))
        return t * c / 3 * (part - 2 * turns * _RD[place](1.0, None, *arguments(0.0, 1 - m)))

    def in_phi(t: Any, _ans: Any, phi: Any, m: Any) -> Any:
        square = np.sin(phi) ** 2
        return t * c * square * (1 - m * square) ** (-0.5 if one == 2 else -1.5)

    return hidden("ellip_m", fun, in_phi, in_m)


_f_m, _e_m = _legendre_m(0.5, 1), _legendre_m(-0.5, 2)


def _complete(carlsons: Map, legendres: Map) -> Map:
    """A derivative of a complete integral by those of Legendre, DLMF 19.4.1 and 19.4.2, where nothing cancels."""

    def slope(m: Any) -> Any:
        near = (abs(m) < 0.3) | (m == 1)
        return np.where(near, rarely(carlsons, near, m), legendres(safe(m, near, 0.5)))

    return slope


_k_slope = _complete(lambda m: s.elliprd(0.0, 1.0, 1 - m) / 6, lambda m: (s.ellipe(m) / (1 - m) - s.ellipk(m)) / (2 * m))
_e_slope = _complete(lambda m: -s.elliprd(0.0, 1 - m, 1.0) / 6, lambda m: (s.ellipe(m) - s.ellipk(m)) / (2 * m))
op("ellipk", lambda t, _ans, m: t * _k_slope(m), domain=UNIT)
op("ellipkm1", lambda t, _ans, p: -t * s.elliprd(0.0, 1.0, p) / 6, domain=POSITIVE)
op("ellipe", lambda t, _ans, m: t * _e_slope(m), domain=UNIT)
op(
    "ellipkinc",
    lambda t, _ans, phi, m: t / np.sqrt(1 - m * np.sin(phi) ** 2),
    lambda t, _ans, phi, m: t * _f_m(phi, m),
    domain=((-4.0, 4.0), UNIT),
)
op(
    "ellipeinc",
    lambda t, _ans, phi, m: t * np.sqrt(1 - m * np.sin(phi) ** 2),
    lambda t, _ans, phi, m: t * _e_m(phi, m),
    domain=((-4.0, 4.0), UNIT),
)


def _ellipj_m(ans: Any, _u: Any, m: Any) -> Any:
    sn, cn, dn, ph = ans
    d = -dn * _f_m(ph, m)  # of the amplitude: from F(ph, m) = u
    return cn * d, -sn * d, -(sn * sn + 2 * m * sn * cn * d) / (2 * dn), d


multi("ellipj", lambda ans, _u, m: (ans[1] * ans[2], -ans[0] * ans[2], -m * ans[0] * ans[1], ans[2]), _ellipj_m, domain=(WIDE, PROBABILITY))


def _agm(t: Any, ans: Any, a: Any, b: Any) -> Any:
    # 1 / agm(a, b) = (2/pi) RF(0, a**2, b**2), DLMF 19.22.8: no cancellation at a = b.
    zero = (a == 0) & (b == 0)
    unit = safe(stop_gradient(np.maximum(abs(a), abs(b))), zero, 1.0)
    a, b, ans = a / unit, b / unit, ans / unit
    return t * abs(a) * ans * ans * (2 / (3 * _PI)) * s.elliprd(0.0, b * b, a * a)


op("agm", _agm, lambda t, ans, a, b: _agm(t, ans, b, a), domain=POSITIVE)


# Hypergeometric functions: DLMF 13.3.15, 13.3.22, 15.5.1, 16.3.1
def _tricomi(part: Map) -> Map:
    """A derivative of U in a parameter by DLMF 13.4.4, the trapezoid rule in log t; SciPy's values are too rough to be differenced."""

    def rule(t: Any, _ans: Any, a: Any, b: Any, x: Any) -> Any:
        low, small, large = np.min(value(a), initial=9.0), np.min(value(x), initial=9.0), np.max(value(a), initial=1.0)
        if low < 0.05 or small <= 0:
            raise errors.UnsupportedError("hyperu has a derivative in a and b only for a >= 0.05, x > 0.")
        u = np.arange(-40 / low, np.log((745 + 2 * large) / small), 0.25)
        a, b, x = (p[..., None] if hasattr(p, "dtype") else p for p in (a, b, x))
        more = np.log1p(np.exp(u))
        weight = 0.25 * np.exp(a * u - x * np.exp(u) + (b - a - 1) * more - s.gammaln(a))
        return t * np.sum(weight * part(a, u, more), axis=-1)

    return rule


op(
    "hyp0f1",
    along(s.hyp0f1, 0, lambda v, z: pole_rate(v) + abs(z) ** 0.5),
    lambda t, _ans, v, z: t * s.hyp0f1(v + 1, z) / v,
    domain=POSITIVE,
)
op(
    "hyp1f1",
    along(s.hyp1f1, 0, lambda a, b, x: 1 + np.log1p(abs(x))),
    along(s.hyp1f1, 1, lambda a, b, x: pole_rate(b) + np.log1p(abs(x))),
    lambda t, _ans, a, b, x: t * a / b * s.hyp1f1(a + 1, b + 1, x),
    domain=POSITIVE,
)
op(
    "hyp2f1",
    along(s.hyp2f1, 0, lambda a, b, c, z: 2 + abs(np.log(abs(1 - z)))),
    along(s.hyp2f1, 1, lambda a, b, c, z: 2 + abs(np.log(abs(1 - z)))),
    along(s.hyp2f1, 2, lambda a, b, c, z: pole_rate(c) + abs(np.log(abs(1 - z)))),
    lambda t, _ans, a, b, c, z: t * np.divide(a * b, c) * s.hyp2f1(a + 1, b + 1, c + 1, z),
    domain=(POSITIVE, POSITIVE, POSITIVE, (-0.8, 0.6)),
)
op(
    "hyperu",
    _tricomi(lambda a, u, more: u - more - s.psi(a)),
    _tricomi(lambda a, u, more: more),
    lambda t, _ans, a, b, x: -t * a * s.hyperu(a + 1, b + 1, x),
    domain=POSITIVE,
)
op(
    "wright_bessel",
    along(s.wright_bessel, 0, lambda a, b, x: 4 + 3 / a),
    along(s.wright_bessel, 1, lambda a, b, x: 4 + 3 / b),
    lambda t, _ans, a, b, x: t * s.wright_bessel(a, a + b, x),
    domain=POSITIVE,
)
op(
    "log_wright_bessel",
    along(lambda *a: s.log_wright_bessel(*a), 0, lambda a, b, x: 4 + 3 / a),
    along(lambda *a: s.log_wright_bessel(*a), 1, lambda a, b, x: 4 + 3 / b),
    lambda t, ans, a, b, x: t * np.exp(s.log_wright_bessel(a, a + b, x) - ans),
    domain=POSITIVE,
)


# Orthogonal polynomials, DLMF 18.9: the derivative is one of lower degree; in a parameter, and in the degree where it is a real
# number, by differences.
def _of(x: Any) -> Map:
    return lambda *_args: x


def _lower(n: Any, alpha: Any, x: Any) -> Any:
    """Gegenbauer's polynomial of degree n - 1: 0 where that is a negative integer, at some of which SciPy's is NaN."""
    gone = (n <= 0) & (n == np.floor(n))
    return np.where(gone, 0, s.eval_gegenbauer(np.where(gone, 1, n) - 1, alpha, x))


def _gegenbauer(scale: float, twice: int, shift: Map = lambda x: x) -> Map:
    def rule(t: Any, _ans: Any, n: Any, x: Any) -> Any:  # those of degrees n and 2 - twice - n are one, but for the sign
        low = 2 * n < 2 - twice
        return t * scale * np.where(low, (-1.0) ** (twice - 3), 1) * _lower(np.where(low, 2 - twice - n, n), twice / 2, shift(x))

    return rule


def _below(n: Any) -> Any:
    """The degree n - 1, or 0: at some of degree -1 SciPy's are NaN."""
    return np.where(n == 0, 1, n) - 1


_half, _shifted = (lambda x: x / 2), (lambda x: 2 * x - 1)
_in_x: Any
for _name, _in_x, _domain in (
    ("eval_chebyt", lambda t, _ans, n, x: t * n * s.eval_chebyu(_below(n), x), UNIT),
    ("eval_chebyu", _gegenbauer(2, 4), UNIT),
    ("eval_chebyc", lambda t, _ans, n, x: t * n * s.eval_chebyu(_below(n), x / 2), UNIT),
    ("eval_chebys", _gegenbauer(1, 4, _half), UNIT),
    ("eval_sh_chebyt", lambda t, _ans, n, x: t * 2 * n * s.eval_chebyu(_below(n), 2 * x - 1), PROBABILITY),
    ("eval_sh_chebyu", _gegenbauer(4, 4, _shifted), PROBABILITY),
    ("eval_legendre", _gegenbauer(1, 3), UNIT),
    ("eval_sh_legendre", _gegenbauer(2, 3, _shifted), PROBABILITY),
    ("eval_laguerre", lambda t, _ans, n, x: -t * s.eval_genlaguerre(n - 1, 1.0, x), POSITIVE),
):
    op(_name, along(getattr(s, _name), 0, _of(2.0)), _in_x, domain=((1.2, 4.0), _domain), samples=[drawn((0, 4), _domain)])
op("eval_hermite", INTEGER, lambda t, _ans, n, x: t * 2 * n * s.eval_hermite(np.maximum(n - 1, 0), x), domain=((0, 5), WIDE))
op("eval_hermitenorm", INTEGER, lambda t, _ans, n, x: t * n * s.eval_hermitenorm(np.maximum(n - 1, 0), x), domain=((0, 5), WIDE))
for _name, _count, _in_x, _domain in (
    ("eval_gegenbauer", 2, lambda t, _ans, n, a, x: t * 2 * a * _lower(n, a + 1, x), UNIT),
    ("eval_genlaguerre", 2, lambda t, _ans, n, a, x: -t * s.eval_genlaguerre(n - 1, a + 1, x), POSITIVE),
    ("eval_jacobi", 3, lambda t, _ans, n, a, b, x: t * 0.5 * (n != 0) * (n + a + b + 1) * s.eval_jacobi(_below(n), a + 1, b + 1, x), UNIT),
    ("eval_sh_jacobi", 3, lambda t, _ans, n, p, q, x: t * n * s.eval_sh_jacobi(_below(n), p + 2, q + 1, x), PROBABILITY),
):
    _f = getattr(s, _name)
    _parameters = ((1.2, 3.0), (0.4, 0.9))[: _count - 1]
    op(
        _name,
        *(along(_f, k, lambda *a, k=k: 3.0 + 3 / abs(a[k])) for k in range(_count)),
        _in_x,
        domain=((1.2, 4.0), *_parameters, _domain),
        samples=[drawn((0, 4), *_parameters, _domain)],
    )


def _lpmv(t: Any, ans: Any, m: Any, v: Any, x: Any) -> Any:
    zero = np.equal(m, 0)
    y = safe(x, zero, 0.0)
    square = (1 - y) * (1 + y)
    by_order = -(s.lpmv(m + 1, v, y) / np.sqrt(square) + m * y / square * safe(ans, zero, 0.0))  # DLMF 14.6.1 differentiated
    return t * np.where(zero, MAPS["eval_legendre"][1](1.0, None, v, safe(x, ~zero, 0.0)), by_order)


op("lpmv", INTEGER, INTEGER, _lpmv, domain=((0, 2), (2, 4), UNIT))


def _ladder(up: Any, down: Any, n: Any, m: Any, theta: Any) -> Any:
    """The derivative in the polar angle, from the raising and lowering of m; nothing is special at the poles, SciPy is even in it."""
    weights = [np.sqrt(np.maximum((n - k) * (n + k + 1.0), 0)) for k in (m, -m)]
    return np.where(np.sin(theta) < 0, -0.5, 0.5) * (weights[0] * up - weights[1] * down)


def _harmonic(which: int) -> Map:
    def rule(t: Any, ans: Any, n: Any, m: Any, theta: Any, phi: Any) -> Any:
        if which:
            return t * 1j * m * ans
        turn = np.exp(1j * phi)
        return t * _ladder(_harmonics(n, m + 1, theta, phi) / turn, _harmonics(n, m - 1, theta, phi) * turn, n, m, theta)

    return rule


_harmonics = hidden("sph_harm_y", s.sph_harm_y, INTEGER, INTEGER, _harmonic(0), _harmonic(1))


@_declared("sph_harm_y", drawn((2, 4), (-2, 2), (0.2, 2.9), WIDE), drawn((2, 4), (-2, 2), (-2.9, -0.2), WIDE))
def sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, *, diff_n: int = 0) -> Any:
    """`scipy.special.sph_harm_y`, differentiable in the angles."""
    refuse("scipy.special.sph_harm_y", diff_n=(diff_n, 0))
    return _harmonics(n, m, theta, phi)


@_declared("legendre_p", drawn((0, 4), UNIT), drawn((0, 4), UNIT, diff_n=2))
def legendre_p(n: Any, z: Any, *, diff_n: int = 0) -> Any:
    """`scipy.special.legendre_p`: the polynomial and its derivatives up to `diff_n`, stacked. DLMF 18.9.19."""
    rows = [float(prod(range(1, 2 * k, 2))) * s.eval_gegenbauer(n - k, k + 0.5, z) for k in range(1, diff_n + 1)]
    return np.stack([s.eval_legendre(n, z), *rows])


_polar = hidden(
    "sph_legendre_p",
    lambda n, m, theta: s.sph_legendre_p(n, m, theta)[0],
    INTEGER,
    INTEGER,
    lambda t, _ans, n, m, theta: t * _polar_nth(n, m, theta, 1),
)


def _polar_nth(n: Any, m: Any, theta: Any, k: int) -> Any:
    up, down = (_polar_nth(n, m + d, theta, k - 1) if k else 0 for d in (1, -1))
    return _ladder(up, down, n, m, theta) if k else _polar(n, m, theta)


@_declared("sph_legendre_p", drawn((2, 4), (-2, 2), (0.2, 2.9)), drawn((2, 4), (-2, 2), (3.4, 6.0), diff_n=2))
def sph_legendre_p(n: Any, m: Any, theta: Any, *, diff_n: int = 0) -> Any:
    """`scipy.special.sph_legendre_p`, differentiable in the angle."""
    return np.stack([_polar_nth(n, m, theta, k) for k in range(diff_n + 1)])


def _associated(norm: bool, branch_cut: Any) -> Any:
    def in_z(t: Any, ans: Any, n: Any, m: Any, z: Any) -> Any:  # DLMF 14.10.5
        weight = np.sqrt(np.maximum((n + m) * (n - m) * (2.0 * n + 1) / np.maximum(2 * n - 1, 1), 0)) if norm else n + m
        return t * (weight * f(np.maximum(n - 1, 0), m, z) - n * z * ans) / (1 - z * z)

    fun = lambda n, m, z: s.assoc_legendre_p(n, m, z, norm=norm, branch_cut=branch_cut)[0]
    f = hidden("assoc_legendre_p", fun, INTEGER, INTEGER, in_z)
    return f


@_declared(
    "assoc_legendre_p",
    drawn((2, 4), (-2, 2), UNIT),
    drawn((2, 4), (0, 2), UNIT, norm=True),
    drawn((2, 4), (0, 2), (1.2, 2.0), branch_cut=3),
)
def assoc_legendre_p(n: Any, m: Any, z: Any, *, branch_cut: Any = 2, norm: bool = False, diff_n: int = 0) -> Any:
    """`scipy.special.assoc_legendre_p`, differentiable in z."""
    refuse("scipy.special.assoc_legendre_p", diff_n=(diff_n, 0))
    return np.stack([_associated(norm, branch_cut)(n, m, z)])
