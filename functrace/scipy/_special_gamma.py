"""The gamma and beta functions and their relatives; error functions; logistic, entropy, and power functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special as s

from functrace.ops import activations
from functrace.ops.elementwise import safe
from functrace.ops.functions import refuse
from functrace.ops.kinds import undeclared
from functrace.ops.registry import Sample, rules
from functrace.scipy._shared import declarer
from functrace.scipy._special_kinds import (
    INTEGER,
    POSITIVE,
    PROBABILITY,
    UNIT,
    WIDE,
    drawn,
    flat,
    hidden,
    inverse,
    op,
    pole_rate,
    powers,
    rarely,
    slope,
)

_POWER = rules("power").vjps
_PI, _SQRT_PI, _SQRT_2 = float(np.pi), float(np.sqrt(np.pi)), float(np.sqrt(2.0))
_LN2, _LN10, _DEGREE = float(np.log(2.0)), float(np.log(10.0)), float(np.pi / 180)


# gamma functions: DLMF 5.2, 5.5, 5.15
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)


_STEPS = np.arange(8, dtype=np.float16)  # which changes no dtype


def _second(x: Any) -> Any:
    """polygamma(1, x), of positive numbers ten times faster than SciPy's: DLMF 5.15.8 after eight steps of 5.15.5."""
    if not np.all(x > 0):
        return s.polygamma(1, x)
    with np.errstate(all="ignore"):
        z = 1 / (x + 8)
        square = z * z
        total: Any = 0.0
        for b in reversed(_BERNOULLI):
            total = total * square + b
        total = z + square * (0.5 + z * total)
        if np.size(x) <= 1 << 10:  # few numbers: eight steps at once
            return total + np.square(1 / (x + _STEPS.reshape(8, *(1,) * np.ndim(x)))).sum(0)
        for k in range(8):
            step = 1 / (x + k)
            total += step * step
    return total


_trigamma = hidden("trigamma", _second, lambda t, _ans, x: t * polygamma_(2, x))


def _rgamma(t: Any, ans: Any, x: Any) -> Any:
    # 1/gamma is entire: near the poles of gamma by reflection, DLMF 5.5.3.
    left = np.real(x) < 0.5
    z, y = safe(x, left, 1.0), 1 - safe(x, ~left, 0.0)
    reflected = s.gamma(y) * (np.cos(_PI * y) + np.sin(_PI * y) * s.psi(y) / _PI)
    return -t * np.where(left, reflected, s.rgamma(z) * s.psi(z))


def _whole(*rows: tuple[float, ...]) -> Sample:
    return Sample(lambda _rng: tuple(np.array(rows).T), wrt=(0,))


def _drgamma(x: Any) -> Any:
    return _rgamma(1.0, None, x)


def _mirrored(x: Any, m: Any) -> Any:
    """Whether x and x + m are in the left half, a whole number apart: there psi(x + m) - psi(x) = psi(1 - x - m) - psi(1 - x)."""
    return (x < 0.5) & (x + m < 0.5) & (m == np.round(m))


_QUADRATURE = [((1 + node) / 2, weight / 2) for node, weight in np.transpose(np.polynomial.legendre.leggauss(5)).tolist()]


def _small_rise(x: Any, d: Any) -> Any:
    return d * sum(weight * polygamma_(1, x + node * d) for node, weight in _QUADRATURE)


def _rise(x: Any, d: Any) -> Any:
    """psi(x + d) - psi(x); where d is small beside x it is d times the mean of psi' between them, which loses nothing of d."""
    left = _mirrored(x, d)
    x = np.where(left, 1 - x - d, x)
    close = abs(d) < 0.01 * x
    z = safe(x, close, 1.0)
    rise = np.where(close, rarely(_small_rise, close, x, d), s.psi(z + d) - s.psi(z))
    return np.where(left, -rise, rise)


def _poch_x(t: Any, ans: Any, x: Any, m: Any) -> Any:
    odd = (x < 0.5) & ~_mirrored(x, m)  # where psi(x) may have a pole that ans cancels
    return t * np.where(odd, rarely(_poch_odd, odd, ans, x, m), ans * _rise(safe(x, odd, 1.0), safe(m, odd, 1.0)))


def _poch_odd(ans: Any, x: Any, m: Any) -> Any:
    return ans * s.psi(x + m) + s.gamma(x + m) * _drgamma(x)


def _beta_slope(t: Any, ans: Any, a: Any, b: Any) -> Any:
    zero = (ans == 0) & (a + b <= 0)  # a pole of psi(a + b), which ans cancels
    return t * np.where(zero, rarely(_beta_pole, zero, ans, a, b), -ans * _rise(safe(a, zero, 1.0), safe(b, zero, 1.0)))


def _beta_pole(ans: Any, a: Any, b: Any) -> Any:
    return ans * s.psi(a) + s.gamma(a) * s.gamma(b) * _drgamma(a + b)


def _binom_beyond(n: Any, k: Any) -> tuple[Any, Any]:
    """The derivatives of binom(n, k) = beta(n + 1, k - n) sin(pi (k - n)) / pi (DLMF 5.5.3), which is binom(n, n - k), where k is
    above n or below 0.
    """
    below = k < 0
    gap = np.where(below, -k, k - n)
    size, turn = s.beta(n + 1, gap), np.pi * np.mod(gap, 2)
    wave, slope = np.sin(turn) / np.pi, np.cos(turn)
    by_gap = size * (slope - wave * _rise(gap, n + 1))
    at_gap = -size * wave * _rise(n + 1, gap)
    return np.where(below, at_gap, at_gap - by_gap), np.where(below, -by_gap, by_gap)


def _odd_in_n(ans: Any, n: Any, k: Any) -> Any:
    return s.psi(n + 1) * ans + s.gamma(n + 1) * s.rgamma(k + 1) * _drgamma(n - k + 1)


def _odd_in_k(_ans: Any, n: Any, k: Any) -> Any:
    return s.gamma(n + 1) * (_drgamma(k + 1) * s.rgamma(n - k + 1) - s.rgamma(k + 1) * _drgamma(n - k + 1))


def _binom(odd_one: Any, far_one: Any, regular: Any) -> Any:
    """binom(n, k) = gamma(n + 1) / gamma(k + 1) / gamma(n - k + 1), of which the last two may have poles."""

    def rule(t: Any, ans: Any, n: Any, k: Any) -> Any:
        odd = (k < -0.5) | (n - k < -0.5)
        far = odd & ((n > -1) | (abs(k) > 30) & (n != np.round(n)))
        rare = rarely(far_one, far, n, k) + rarely(odd_one, odd & ~far, ans, n, k)
        return t * np.where(odd, rare, ans * regular(safe(n, odd, 1.0), safe(k, odd, 0.0)))

    return rule


_BINOM = (
    _binom(_odd_in_n, lambda n, k: _binom_beyond(n, k)[0], lambda n, k: _rise(n - k + 1, k)),
    _binom(_odd_in_k, lambda n, k: _binom_beyond(n, k)[1], lambda n, k: _rise(k + 1, n - 2 * k)),
)


op("gamma", lambda t, ans, x: t * ans * s.psi(x), domain=POSITIVE)
op("gammaln", lambda t, _ans, x: t * s.psi(x), domain=POSITIVE)
op("loggamma", lambda t, _ans, x: t * s.psi(x), domain=POSITIVE)
op("rgamma", _rgamma)
op("psi", lambda t, _ans, x: t * (slope(s.psi, 0, pole_rate, x) if x.dtype.kind == "c" else _trigamma(x)), domain=POSITIVE)
polygamma_: Any = op("polygamma", INTEGER, lambda t, _ans, n, x: t * polygamma_(n + 1, x), domain=((0, 3), POSITIVE))
flat("gammasgn")
op("poch", _poch_x, lambda t, ans, x, m: t * ans * s.psi(x + m), domain=POSITIVE, samples=[_whole((0.0, 2.0), (-1.0, 3.0))])
op("beta", _beta_slope, lambda t, ans, a, b: _beta_slope(t, ans, b, a), domain=POSITIVE)
op("betaln", lambda t, _ans, a, b: -t * _rise(a, b), lambda t, _ans, a, b: -t * _rise(b, a), domain=POSITIVE)
op("binom", *_BINOM, domain=((4.0, 6.0), POSITIVE), samples=[_whole((3.0, 5.0), (4.0, -1.0))])


# Incomplete gamma and beta functions: DLMF 8.2, 8.17. In a parameter, the smaller of the function and its complement is differenced.
_TINY = 1e-30  # where these functions cost nothing, and have derivatives that are finite


def _gamma_rate(a: Any, x: Any, _low: Any) -> Any:
    return 1 / a + 1 / np.sqrt(a) + abs(np.log(np.where((x > 0) & (x < np.inf), x, a) / a))


def _beta_rate(a: Any, b: Any, x: Any, _low: Any) -> Any:
    return 1 / a + 1 / np.sqrt(a) + abs(np.log(np.where(x > 0, x * (a + b) / a, 1)))


def _gamma_a(t: Any, _ans: Any, a: Any, x: Any) -> Any:
    def smaller(a: Any, x: Any, low: Any) -> Any:
        return np.where(low, s.gammainc(a, safe(x, ~low, _TINY)), -s.gammaincc(a, safe(x, low, _TINY)))

    small = a < 1  # of which the median is far below a: DLMF 8.11.1, where the function is half of x**a / gamma(a + 1)
    return t * slope(smaller, 0, _gamma_rate, a, x, x < np.where(small, 0.5 ** (1 / safe(a, ~small, 1.0)), a))


def _gamma_x(t: Any, _ans: Any, a: Any, x: Any) -> Any:
    # about the mode of a large a by Stirling's series, DLMF 5.11.1, and log(1 + u) - u = -u**2 / 2 F(1, 2; 3; -u), DLMF 15.4: no two
    # large terms cancel
    mode = (a > 100) & (abs(x - a) < 0.5 * a)
    c, z = safe(a, mode, 1.0), safe(x, mode, 1.0)
    return t * np.where(mode, rarely(_about_mode, mode, a, x), powers(-z - s.gammaln(c), (c - 1, z)))


def _about_mode(a: Any, x: Any) -> Any:
    u, v = (x - a) / a, 1 / (a * a)
    exponent = -a * u * u / 2 * s.hyp2f1(1, 2, 3, -u) - (1 / 12 - v * (1 / 360 - v / 1260)) / a
    return np.exp(exponent) * np.sqrt(a / (2 * _PI)) / x


def _smaller(a: Any, b: Any, x: Any, low: Any) -> Any:
    return np.where(low, s.betainc(a, b, safe(x, ~low, _TINY)), -s.betainc(b, a, safe(1 - x, low, _TINY)))


def _negated(maps: Any) -> Any:
    return tuple([lambda t, *rest, m=m: m(-t, *rest) for m in maps])


_GAMMA = _gamma_a, _gamma_x
_BETA: Any = (
    lambda t, _ans, a, b, x: t * slope(_smaller, 0, _beta_rate, a, b, x, x * (a + b) < a),
    lambda t, _ans, a, b, x: t * slope(_smaller, 1, lambda a, b, x, low: _beta_rate(b, a, 1 - x, low), a, b, x, x * (a + b) < a),
    lambda t, _ans, a, b, x: t * powers(-s.betaln(a, b), (a - 1, x), (b - 1, 1 - x)),
)
_AB = (POSITIVE, POSITIVE, PROBABILITY)
op("gammainc", *_GAMMA, domain=POSITIVE)
op("gammaincc", *_negated(_GAMMA), domain=POSITIVE)
op("gammaincinv", *inverse("gammainc", 1, 0, None), domain=(POSITIVE, PROBABILITY))
op("gammainccinv", *inverse("gammaincc", 1, 0, None), domain=(POSITIVE, PROBABILITY))
op("betainc", *_BETA, domain=_AB)
op("betaincc", *_negated(_BETA), domain=_AB)
op("betaincinv", *inverse("betainc", 2, 0, 1, None), domain=_AB)
op("betainccinv", *inverse("betaincc", 2, 0, 1, None), domain=_AB)
op("btdtria", *inverse("betainc", 0, None, 1, 2), domain=(PROBABILITY, POSITIVE, PROBABILITY))
op("btdtrib", *inverse("betainc", 1, 0, None, 2), domain=(POSITIVE, PROBABILITY, PROBABILITY))


# zeta functions: DLMF 25.11.17 in q; in s by differences
def _zeta_rate(x: Any, q: Any = 1.0) -> Any:
    return 3 / abs(x - 1) + abs(np.log(q)) + 0.3


def _in_s(f: Any, x: Any, *q: Any) -> Any:
    return slope(f, 0, _zeta_rate, np.where(x == 1, np.nan, x), *q)  # there is a pole


op("zetac", lambda t, _ans, x: t * _in_s(s.zetac, x), domain=(1.5, 3.5))
_riemann: Any = hidden("zeta", s.zeta, lambda t, _ans, x: t * _in_s(s.zetac if x.dtype.kind != "c" else _riemann, x))
_hurwitz: Any = hidden("zeta", s.zeta, lambda t, _ans, x, q: t * _in_s(_hurwitz, x, q), lambda t, _ans, x, q: -t * x * _hurwitz(x + 1, q))


@declarer(s)("zeta", drawn((1.5, 3.5), POSITIVE), drawn((1.5, 3.5)))
def zeta(x: Any, q: Any = None, out: Any = None) -> Any:
    """`scipy.special.zeta`; of complex numbers without `q`."""
    refuse("scipy.special.zeta", out=(out, None))
    return _riemann(x) if q is None else _hurwitz(x, q)


# error functions: DLMF 7.2, 7.10
def _tail(y: Any) -> Any:
    """The sum of (2n + 1)!! y**n, DLMF 7.12.1 differentiated: what is left of two large terms that cancel."""
    return 1 + 3 * y * (1 + 5 * y * (1 + 7 * y * (1 + 9 * y * (1 + 11 * y * (1 + 13 * y)))))


def _far(x: Any, near: Any, far: Any, bound: Any) -> Any:
    """`near` up to 30, where it begins to cancel, and `far` beyond."""
    if x.dtype.kind == "c":
        return near(x)
    large = bound(x) > 30
    return np.where(large, far(safe(x, ~large, 31.0)), near(safe(x, large, 1.0)))


def _erfcx(t: Any, ans: Any, x: Any) -> Any:
    far = lambda x: -_tail(-0.5 / (x * x)) / (_SQRT_PI * x * x)
    return t * _far(x, lambda x: 2 * x * s.erfcx(x) - 2 / _SQRT_PI, far, lambda x: x)


def _dawsn(t: Any, ans: Any, x: Any) -> Any:
    return t * _far(x, lambda x: 1 - 2 * x * s.dawsn(x), lambda x: -_tail(0.5 / (x * x)) * 0.5 / (x * x), abs)


def _bell(x: Any) -> Any:
    square = x * x
    return np.exp(-(square if x.dtype.kind == "c" else np.minimum(square, 800.0)))  # x may be infinite


op("erf", lambda t, _ans, x: t * (2 / _SQRT_PI) * _bell(x))
op("erfc", lambda t, _ans, x: -t * (2 / _SQRT_PI) * _bell(x))
op("erfi", lambda t, _ans, x: t * (2 / _SQRT_PI) * np.exp(x * x))
op("erfcx", _erfcx)
op("dawsn", _dawsn)
op("wofz", lambda t, ans, z: t * (2j / _SQRT_PI - 2 * z * ans))
op("erfinv", lambda t, ans, _x: t * (_SQRT_PI / 2) * np.exp(ans * ans), domain=UNIT)
op("erfcinv", lambda t, ans, _x: -t * (_SQRT_PI / 2) * np.exp(ans * ans), domain=(0.2, 1.8))
op("ndtr", lambda t, _ans, x: t * _bell(x / _SQRT_2) / (_SQRT_2 * _SQRT_PI))
op("ndtri", lambda t, ans, _x: t * (_SQRT_2 * _SQRT_PI) * np.exp(0.5 * ans * ans), domain=PROBABILITY)
op(
    "log_ndtr",  # each form where it can't overflow
    lambda t, ans, x: (
        t
        * np.where(x > 0, _bell(x / _SQRT_2) / 2 * np.exp(-safe(ans, x <= 0, 0.0)), 1 / s.erfcx(safe(x, x > 0, 0.0) / -_SQRT_2))
        * (_SQRT_2 / _SQRT_PI)
    ),
)
op("ndtri_exp", lambda t, ans, _x: t * (_SQRT_PI / _SQRT_2) * s.erfcx(ans / -_SQRT_2), domain=(-5.0, -0.1))


def _voigt(part: Any) -> Any:
    """A partial derivative of Re w(u / (sigma sqrt 2)) / (sigma sqrt(2 pi)), u = x + i gamma; far out as a series in sigma / u."""

    def rule(t: Any, ans: Any, x: Any, sigma: Any, gamma: Any) -> Any:
        u = x + np.multiply(1j, gamma)  # never Python's complex, of whose comparison ~ is a number
        far = (abs(u) > 42 * sigma) & (sigma >= 0)
        y, near = (safe(sigma, ~far, 0.0) / safe(u, ~far, 1.0)) ** 2, safe(sigma, far, 1.0)
        z = safe(u, far, 1.0) / (_SQRT_2 * near)
        slope = np.where(far, -1j * _tail(y) / (_PI * safe(u, ~far, 1.0) ** 2), (1j - _SQRT_PI * z * s.wofz(z)) / (_PI * near * near))
        series = 1 + y * (6 + y * (45 + y * (420 + 4725 * y)))
        widening = np.where(far, 2 * sigma / _PI * np.real(1j * series / safe(u, ~far, 1.0) ** 3), -(ans + np.real(slope * u)) / near)
        return t * part(slope, widening)

    return rule


op(
    "voigt_profile",
    _voigt(lambda slope, _widening: np.real(slope)),
    _voigt(lambda _slope, widening: widening),
    _voigt(lambda slope, _widening: -np.imag(slope)),
    domain=(WIDE, POSITIVE, POSITIVE),
    samples=[drawn((1.0, 2.0), (0.01, 0.02), POSITIVE), drawn(WIDE, (-2.0, -1.0), POSITIVE)],
)
op(
    "owens_t",
    lambda t, _ans, h, a: -t * np.exp(-0.5 * h * h) * s.erf(a * h / _SQRT_2) / (2 * _SQRT_2 * _SQRT_PI),
    lambda t, _ans, h, a: t * np.exp(-0.5 * h * h * (1 + a * a)) / (2 * _PI * (1 + a * a)),
)


# logistic functions and entropies
op("expit", lambda t, _ans, x: t * activations.sigmoid_slope(x))  # 1 - ans would lose digits, and another expit takes ten times as long
op("logit", lambda t, _ans, x: t / (x * (1 - x)), domain=PROBABILITY)
op("log_expit", lambda t, _ans, x: t * activations.sigmoid(-x))
op("entr", lambda t, _ans, x: -t * (np.log(x) + 1), domain=POSITIVE)


def _zero_if(zero: Any, y: Any, f: Any) -> Any:
    """`f(y)`, and 0 where an argument is 0 so that the product is 0 whatever y."""
    return np.where(zero, 0, f(safe(y, zero, 1.0)))


def _log_quotient(x: Any, y: Any, more: int) -> Any:
    zero = (x == 0) & (y == 0)
    return np.where(zero, 0, _log_of(safe(x, zero, 1.0), safe(y, zero, 1.0)) + more)


def _log_over(x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        quotient = np.divide(x, y)
    tiny = np.finfo(quotient.dtype).tiny
    far = (quotient < tiny) | (quotient > 1 / tiny)
    return np.log(np.where(far, x, quotient)) - np.log(np.where(far, y, 1))


_log_of = undeclared("log_of_quotient", _log_over, lambda t, _ans, x, _y: t / x, lambda t, _ans, _x, y: -t / y)


op(
    "rel_entr",
    lambda t, _ans, x, y: t * _log_quotient(x, y, 1),
    lambda t, _ans, x, y: t * _zero_if((x == 0) & (y == 0), y, lambda y: -x / y),
    domain=POSITIVE,
    note="both derivatives are 0 at (0, 0)",
)
op(
    "kl_div",
    lambda t, _ans, x, y: t * _log_quotient(x, y, 0),
    lambda t, _ans, x, y: t * (1 - _zero_if((x == 0) & (y == 0), y, lambda y: x / y)),
    domain=POSITIVE,
    note="that of x is 0 at (0, 0)",
)
op(
    "xlogy",
    lambda t, _ans, x, y: t * _zero_if((x == 0) & (y == 0), y, np.log),
    lambda t, _ans, x, y: t * _zero_if((x == 0) & (y == 0), y, lambda y: x / y),
    domain=POSITIVE,
    note="both derivatives are 0 at (0, 0)",
)
op(
    "xlog1py",
    lambda t, _ans, x, y: t * _zero_if((x == 0) & (y == -1), y, np.log1p),
    lambda t, _ans, x, y: t * _zero_if((x == 0) & (y == -1), y, lambda y: x / (1 + y)),
    domain=POSITIVE,
    note="both derivatives are 0 at (0, -1)",
)
op(
    "huber",
    lambda t, _ans, d, r: t * np.maximum(abs(r) - d, 0),
    lambda t, _ans, d, r: t * np.minimum(np.maximum(r, -d), d),
    domain=((0.5, 0.9), (1.0, 2.0)),
)
op(
    "pseudo_huber",
    lambda t, _ans, d, r: t * (r / (np.hypot(d, r) + d)) ** 2 * (r / np.hypot(d, r)) * r,
    lambda t, _ans, d, r: t * r * (d / np.hypot(d, r)),
    domain=POSITIVE,
)


# powers and exponentials
def exprel_slope(x: Any) -> Any:
    """The derivative of exprel(x) = (exp(x) - 1) / x = M(1, 2, x), DLMF 13.3.15; right at 0. SciPy's takes x steps where it is infinite."""
    return 0.5 * s.hyp1f1(2, 3, np.minimum(x, 800.0))


def _log1prel1(u: Any) -> Any:
    """The derivative of log1p(u) / u = F(1, 1; 2; -u), DLMF 15.5.1; right at 0."""
    near = abs(u) < 0.5
    far = safe(u, near, 1.0)
    return np.where(near, -0.5 * s.hyp2f1(2, 2, 3, -safe(u, ~near, 0.0)), (1 / (1 + far) - np.log1p(far) / far) / far)


op("exp2", lambda t, ans, _x: t * (ans * _LN2))
op("exp10", lambda t, ans, _x: t * (ans * _LN10))
op("expm1", lambda t, _ans, x: t * np.exp(x))
op("log1p", lambda t, _ans, x: t / (1 + x), domain=(-0.7, 2.0))
op("exprel", lambda t, _ans, x: t * exprel_slope(x))
op("cosm1", lambda t, _ans, x: -t * np.sin(x))
op("cbrt", lambda t, ans, _x: t / (3 * ans * ans), domain=POSITIVE)
op("powm1", lambda t, ans, x, y: _POWER[0](t, ans + 1, x, y), lambda t, ans, x, y: _POWER[1](t, ans + 1, x, y), domain=(POSITIVE, WIDE))


def _boxcox_p(t: Any, log: Any, p: Any) -> Any:
    zero = log == -np.inf
    log = safe(log, zero, 0.0)
    return t * np.where(zero, 1 / safe(np.maximum(p, 0) ** 2, ~zero, 1.0), log * log * exprel_slope(p * log))


op("boxcox", lambda t, _ans, x, p: t * x ** (p - 1), lambda t, _ans, x, p: _boxcox_p(t, np.log(x), p), domain=POSITIVE)
op("boxcox1p", lambda t, _ans, x, p: t * (1 + x) ** (p - 1), lambda t, _ans, x, p: _boxcox_p(t, np.log1p(x), p), domain=POSITIVE)
op(
    "inv_boxcox",
    lambda t, ans, y, p: t * ans / (1 + p * y),
    lambda t, ans, y, p: t * ans * y * y * _log1prel1(p * y),
    domain=((-0.7, 0.9), UNIT),
)
op(
    "inv_boxcox1p",
    lambda t, ans, y, p: t * (ans + 1) / (1 + p * y),
    lambda t, ans, y, p: t * (ans + 1) * y * y * _log1prel1(p * y),
    domain=((-0.7, 0.9), UNIT),
)


def _log_ratio(z: Any) -> Any:
    """log(z) / (1 - z), right near 1 too."""
    near = abs(z - 1) < 0.5
    far = safe(z, near, 2.0)
    return np.where(near, -s.hyp2f1(1, 1, 2, 1 - safe(z, ~near, 1.0)), np.log(far) / (1 - far))


op("spence", lambda t, _ans, z: t * _log_ratio(z), domain=POSITIVE)
op("wrightomega", lambda t, ans, _z: t * ans / (1 + ans))
op("sindg", lambda t, _ans, x: t * _DEGREE * s.cosdg(x))
op("cosdg", lambda t, _ans, x: -t * _DEGREE * s.sindg(x))
op("tandg", lambda t, ans, _x: t * _DEGREE * (1 + ans * ans))
op("cotdg", lambda t, ans, _x: -t * _DEGREE * (1 + ans * ans), domain=(20.0, 60.0))
op("radian", lambda t, *_rest: t * _DEGREE, lambda t, *_rest: t * (_DEGREE / 60), lambda t, *_rest: t * (_DEGREE / 3600))
flat("round")
