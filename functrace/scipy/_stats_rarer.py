"""More distributions, in the form of `_stats_laws`: those that are met less often, and the discrete ones, with the logarithm of the mass at
whole numbers k. Sources: SciPy's documentation of `scipy.stats`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special as sp

from functrace.scipy._special_functions import log_chi_moment
from functrace.scipy._stats_laws import _INF, _LOG2, _PI, _POSITIVE, _UNIT, LAWS, Formula, Law, _any, _at_zero, _even, _normal
from functrace.scipy.special import zeta

_gamma: Any = LAWS["gamma"]
_ROOT_2PI = float(np.sqrt(2 * np.pi))


def _log_mills(y: Any) -> Any:
    """The logarithm of sf(y) / pdf(y) of the normal distribution."""
    return sp.log_ndtr(-y) - _normal(y)


def _skew_t(z: Any, a: Any, b: Any) -> Any:
    """(1 + z / r) / 2, r = sqrt(a + b + z**2): where a beta variable is; what it lacks of 1 is this of -z."""
    r = np.sqrt(a + b + z * z)
    up = z > 0
    both = r + np.where(up, z, -z)
    return np.where(up, both, (a + b) / both) / (2 * r)


def _pearson(z: Any, skew: Any) -> tuple[Any, Any]:
    """The argument and the shape of the gamma distribution that this is."""
    return 2 / skew * (z + 2 / skew), 4 / (skew * skew)


def _turn(z: Any, c: Any) -> Any:
    """The mass of a wrapped Cauchy distribution below z; by its symmetry, above 2 pi - z."""
    far = z >= _PI
    part = np.arctan((1 + c) / (1 - c) * np.tan(np.where(far, 2 * _PI - z, z) / 2)) / _PI
    return np.where(far, 1 - part, part)


def _log_ive(v: Any, x: Any) -> Any:
    """log(I_v(x)) - x, also where that is too small for a number: DLMF 10.39.9."""
    i = sp.ive(v, x)
    gone = ~(i > 1e-290)
    y = np.where(gone, x, 1.0)
    series = v * np.log(y / 2) - y - sp.gammaln(v + 1) + np.log(sp.hyp0f1(v + 1, y * y / 4))
    return np.where(gone, series, np.log(np.where(gone, 1.0, i)))


def _ncx2(z: Any, df: Any, nc: Any) -> Any:
    x, n = np.sqrt(z), np.sqrt(nc)
    far = x * n > 1e9  # where SciPy's ive is NaN; DLMF 10.40.1
    log_ive = np.where(far, -np.log(2 * np.pi * x * n) / 2, _log_ive(df / 2 - 1, np.where(far, 1.0, x * n)))
    return sp.xlogy(df / 4 - 0.5, z / nc) - (x - n) ** 2 / 2 - _LOG2 + log_ive


def _nct(z: Any, n: Any, nc: Any) -> Any:
    c = 1 + z * z / n
    z, n, nc, w = np.broadcast_arrays(z, n, nc, z * nc / np.sqrt(n * c))
    lead = -sp.betaln(n / 2, 0.5) - np.log(n) / 2 - (nc * nc + (n + 1) * np.log(c)) / 2
    return lead + log_chi_moment(n + 1, w)


def _hyperbolic(z: Any, p: Any, a: Any, b: Any) -> Any:
    g, r = np.sqrt((a - b) * (a + b)), np.sqrt(1 + z * z)
    lead = p * np.log(g) - (p - 0.5) * np.log(a) - np.log(_ROOT_2PI) - np.log(sp.kve(p, g)) + g
    return lead + b * z + np.log(sp.kve(p - 0.5, a * r)) - a * r + (p - 0.5) * np.log(r)


def _ball(b: Any, m: Any) -> tuple[Any, Any]:
    """The mass of the tail of a crystal ball, and of the whole, without a norm."""
    tail = m / b / (m - 1) * np.exp(-b * b / 2)
    return tail, tail + _ROOT_2PI * sp.ndtr(b)


def _ball_cdf(z: Any, b: Any, m: Any) -> Any:
    tail, whole = _ball(b, m)
    core = z > -b
    far = tail * (1 - b / m * (b + np.where(core, -b, z))) ** (1 - m)
    return np.where(core, tail + _ROOT_2PI * (sp.ndtr(np.where(core, z, 0.0)) - sp.ndtr(-b)), far) / whole


def _trapezoid(z: Any, c: Any, d: Any) -> Any:
    rise, fall = z < c, z > d
    up, down = np.where(rise, z, 1.0) / np.where(rise, c, 1.0), np.where(fall, 1 - z, 1.0) / np.where(fall, 1 - d, 1.0)
    return np.log(2 * up * down / (d - c + 1))


def _trapezoid_cdf(z: Any, c: Any, d: Any) -> Any:
    rise, fall = z < c, z > d
    low, high = z * z / np.where(rise, c, 1.0), (1 - z) ** 2 / np.where(fall, 1 - d, 1.0)
    return np.where(rise, low / (d - c + 1), np.where(fall, 1 - high / (d - c + 1), (2 * z - c) / (d - c + 1)))


def _cauchy_side(z: Any, a: Any) -> Any:
    return np.where(z > 0, 1 + a, 1 - a)


MORE: dict[str, Law] = {
    "argus": Law(
        "chi", (0.6, 1.4),
        lambda z, c: (
            3 * np.log(c) - np.log(_ROOT_2PI / 2 * sp.gammainc(1.5, c * c / 2)) + np.log(z) + np.log1p(-z * z) / 2 - c * c * (1 - z * z) / 2
        ),
        _UNIT, sf=lambda z, c: sp.gammainc(1.5, c * c * (1 - z * z) / 2) / sp.gammainc(1.5, c * c / 2),
    ),
    "crystalball": Law(
        "beta m", (0.4, 1.2, 2.6),
        lambda z, b, m: np.where(z > -b, -z * z / 2, m * np.log(m / b) - b * b / 2 - m * np.log(np.where(z > -b, 1.0, m / b - b - z)))
        - np.log(_ball(b, m)[1]),
        valid=lambda b, m: (m > 1) & (b > 0), knots=lambda b, _m: (-b,),
        cdf=_ball_cdf,
        sf=lambda z, b, m: np.where(z > -b, _ROOT_2PI * sp.ndtr(-np.maximum(z, -b)) / _ball(b, m)[1], 1 - _ball_cdf(z, b, m)),
    ),
    "dpareto_lognorm": Law(
        "u s a b", (0.8, 0.3, 0.9, 1.5, 2.2),
        lambda z, u, s, a, b: np.log(a * b / (a + b)) - np.log(z) + _normal((np.log(z) - u) / s)
        + np.logaddexp(_log_mills(a * s - (np.log(z) - u) / s), _log_mills(b * s + (np.log(z) - u) / s)),
        _POSITIVE, valid=lambda _u, s, a, b: (s > 0) & (a > 0) & (b > 0),
    ),
    "gausshyper": Law(
        "a b c z", (0.4, 1.8, 2.3, 1.4, 0.6),
        lambda x, a, b, c, z: sp.xlogy(a - 1, x) + sp.xlog1py(b - 1, -x) - c * np.log1p(z * x) - sp.betaln(a, b)
        - np.log(sp.hyp2f1(c, a, a + b, -z)),
        _UNIT, valid=lambda a, b, c, z: (a > 0) & (b > 0) & (c == c) & (z > -1),
    ),
    "genexpon": Law(
        "a b c", (0.4, 1.1, 1.4, 0.8), lambda z, a, b, c: np.log(a - b * np.expm1(-c * z)) - (a + b) * z - b / c * np.expm1(-c * z),
        _POSITIVE, logsf=lambda z, a, b, c: -(a + b) * z - b / c * np.expm1(-c * z),
    ),
    "genhyperbolic": Law("p a b", (0.4, 0.7, 1.6, 0.5), _hyperbolic, valid=lambda p, a, b: (np.abs(b) < a) & (p == p)),
    "geninvgauss": Law(
        "p b", (0.8, 1.4, 1.2), lambda z, p, b: (p - 1) * np.log(z) - b * (z - 2 + 1 / z) / 2 - _LOG2 - np.log(sp.kve(p, b)), _POSITIVE,
        valid=lambda p, b: (p == p) & (b > 0),
    ),
    "jf_skew_t": Law(
        "a b", (0.4, 2.2, 3.1),
        lambda z, a, b: (a + 0.5) * np.log(_skew_t(z, a, b)) + (b + 0.5) * np.log(_skew_t(-z, a, b)) + 2 * _LOG2
        - sp.betaln(a, b) - np.log(a + b) / 2,
        cdf=lambda z, a, b: sp.betainc(a, b, _skew_t(z, a, b)), sf=lambda z, a, b: sp.betainc(b, a, _skew_t(-z, a, b)),
    ),
    "mielke": Law(
        "k s", (0.8, 1.6, 2.3), lambda z, k, s: np.log(k) + sp.xlogy(k - 1, z) - (1 + k / s) * np.log1p(z**s), _POSITIVE,
        logcdf=lambda z, k, s: -k / s * np.logaddexp(0.0, -s * np.log(z)),
    ),
    "ncx2": Law("df nc", (1.8, 2.4, 1.3), _ncx2, _POSITIVE, cdf=sp.chndtr),
    "nct": Law("df nc", (0.7, 4.2, 0.6), _nct, cdf=lambda z, n, nc: sp.nctdtr(n, nc, z), valid=lambda n, nc: (n > 0) & (nc == nc)),
    "norminvgauss": Law(
        "a b", (0.4, 1.6, 0.5),
        lambda z, a, b: np.log(a / _PI) + np.log(sp.k1e(a * np.sqrt(1 + z * z))) - a * np.sqrt(1 + z * z) + b * z
        + np.sqrt((a - b) * (a + b)) - np.log1p(z * z) / 2,
        valid=lambda a, b: (a > 0) & (np.abs(b) < a),
    ),
    "pearson3": Law(
        "skew", (0.4, 0.9), lambda z, s: np.log(2 / np.abs(s)) + _gamma.log(*_pearson(z, s)),
        lambda s: (np.where(s > 0, -2 / s, -_INF), np.where(s > 0, _INF, -2 / s)),
        cdf=lambda z, s: np.where(s > 0, _gamma.cdf(*_pearson(z, s)), _gamma.sf(*_pearson(z, s))),
        sf=lambda z, s: np.where(s > 0, _gamma.sf(*_pearson(z, s)), _gamma.cdf(*_pearson(z, s))), valid=lambda s: np.abs(s) > 1.6e-5,
    ),
    "recipinvgauss": Law(
        "mu", (0.8, 1.3), lambda z, mu: -np.log(_ROOT_2PI) - np.log(z) / 2 - (1 - mu * z) ** 2 / (2 * z * mu * mu), _POSITIVE,
        cdf=lambda z, mu: sp.ndtr((z - 1 / mu) / np.sqrt(z)) - np.exp(2 / mu + sp.log_ndtr(-(z + 1 / mu) / np.sqrt(z))),
        sf=lambda z, mu: sp.ndtr((1 / mu - z) / np.sqrt(z)) + np.exp(2 / mu + sp.log_ndtr(-(z + 1 / mu) / np.sqrt(z))), rough="cdf",
    ),
    "rel_breitwigner": Law(
        "rho", (0.8, 1.7),
        lambda z, rho: np.log(2 * np.sqrt(2 * (1 + 1 / rho**2) / (1 + np.sqrt(1 + 1 / rho**2))) / _PI)
        - np.log1p(((z - rho) * (z + rho) / rho) ** 2),
        _POSITIVE,
    ),
    "skewcauchy": Law(
        "a", (0.7, 0.3), lambda z, a: -np.log(_PI) - np.log1p((z / _cauchy_side(z, a)) ** 2),
        cdf=lambda z, a: (1 - a) / 2 + _cauchy_side(z, a) / _PI * np.arctan(z / _cauchy_side(z, a)), valid=lambda a: np.abs(a) < 1,
        knots=_at_zero,
    ),
    "trapezoid": Law(
        "c d", (0.3, 0.4, 0.7), _trapezoid, _UNIT, cdf=_trapezoid_cdf, valid=lambda c, d: (c >= 0) & (c <= d) & (d <= 1),
        knots=lambda c, d: (c, d),
    ),
    "tukeylambda": Law(
        "lam", (0.4, 0.3), lambda z, lam: -np.log(sp.tklmbda(z, lam) ** (lam - 1) + sp.tklmbda(-z, lam) ** (lam - 1)),
        lambda lam: (np.where(lam > 0, -1 / np.where(lam > 0, lam, 1.0), -_INF), np.where(lam > 0, 1 / np.where(lam > 0, lam, 1.0), _INF)),
        **_even(sp.tklmbda), valid=_any,
    ),
    "vonmises_line": LAWS["vonmises"]._replace(support=(-_PI, _PI)),
    "wrapcauchy": Law(
        "c", (0.9, 0.4), lambda z, c: np.log((1 - c * c) / (2 * _PI * (1 + c * c - 2 * c * np.cos(z)))), (0.0, 2 * _PI),
        valid=lambda c: (c > 0) & (c < 1), cdf=_turn, sf=lambda z, c: _turn(2 * _PI - z, c),
    ),
}  # fmt: skip


def _combinations(n: Any, k: Any) -> Any:
    return sp.gammaln(n + 1) - sp.gammaln(k + 1) - sp.gammaln(n - k + 1)


def _mass(shapes: str, at: Any, log: Formula, support: Any = (0, _INF), **more: Any) -> Law:
    return Law(shapes, at, log, support, discrete=True, **more)


_probability: Any = lambda p: (p >= 0) & (p <= 1)

MASSES: dict[str, Law] = {
    "bernoulli": _mass(
        "p", (0, 0.3), lambda k, p: sp.xlogy(k, p) + sp.xlog1py(1 - k, -p), (0, 1), cdf=lambda k, p: np.where(k >= 1, 1.0, 1 - p),
        valid=_probability,
    ),
    "betabinom": _mass(
        "n a b", (2, 5, 1.4, 2.3),
        lambda k, n, a, b: -np.log(n + 1) - sp.betaln(n - k + 1, k + 1) + sp.betaln(k + a, n - k + b) - sp.betaln(a, b),
        lambda n, _a, _b: (0, n), valid=lambda n, a, b: (n >= 0) & (a > 0) & (b > 0),
    ),
    "betanbinom": _mass(
        "n a b", (2, 5, 1.4, 2.3), lambda k, n, a, b: -np.log(n + k) - sp.betaln(n, k + 1) + sp.betaln(a + n, b + k) - sp.betaln(a, b),
    ),
    "binom": _mass(
        "n p", (2, 5, 0.3), lambda k, n, p: _combinations(n, k) + sp.xlogy(k, p) + sp.xlog1py(n - k, -p), lambda n, _p: (0, n),
        cdf=lambda k, n, p: np.where(k >= n, 1.0, sp.betainc(np.maximum(n - k, 1), k + 1, 1 - p)),
        sf=lambda k, n, p: np.where(k >= n, 0.0, sp.betainc(k + 1, np.maximum(n - k, 1), p)), valid=lambda n, p: (n >= 0) & _probability(p),
    ),
    "boltzmann": _mass(
        "lambda_ N", (2, 0.7, 6), lambda k, lam, n: np.log(-np.expm1(-lam)) - lam * k - np.log(-np.expm1(-lam * n)),
        lambda _lam, n: (0, n - 1), cdf=lambda k, lam, n: np.expm1(-lam * (k + 1)) / np.expm1(-lam * n),
    ),
    "dlaplace": _mass(
        "a", (-2, 0.8), lambda k, a: np.log(np.tanh(a / 2)) - a * np.abs(k), (-_INF, _INF),
        cdf=lambda k, a: (
            np.where(k >= 0, np.exp(a) + 1 - np.exp(-a * np.maximum(k, 0)), np.exp(a * (np.minimum(k, 0) + 1))) / (np.exp(a) + 1)
        ),
    ),
    "geom": _mass(
        "p", (3, 0.3), lambda k, p: sp.xlog1py(k - 1, -p) + np.log(p), (1, _INF), cdf=lambda k, p: -np.expm1(np.log1p(-p) * k),
        sf=lambda k, p: np.exp(np.log1p(-p) * k), logsf=lambda k, p: k * np.log1p(-p), valid=lambda p: (p > 0) & (p <= 1),
    ),
    "logser": _mass(
        "p", (3, 0.3), lambda k, p: k * np.log(p) - np.log(k) - np.log(-np.log1p(-p)), (1, _INF), valid=lambda p: (p > 0) & (p < 1),
    ),
    "nbinom": _mass(
        "n p", (2, 4.3, 0.4), lambda k, n, p: sp.gammaln(n + k) - sp.gammaln(k + 1) - sp.gammaln(n) + n * np.log(p) + sp.xlog1py(k, -p),
        cdf=lambda k, n, p: sp.betainc(n, k + 1, p), sf=lambda k, n, p: sp.betainc(k + 1, n, 1 - p),
        valid=lambda n, p: (n > 0) & (p > 0) & (p <= 1),
    ),
    "planck": _mass(
        "lambda_", (2, 0.7), lambda k, lam: np.log(-np.expm1(-lam)) - lam * k, logsf=lambda k, lam: -lam * (k + 1)
    ),
    "poisson": _mass(
        "mu", (2, 1.7), lambda k, mu: sp.xlogy(k, mu) - sp.gammaln(k + 1) - mu, cdf=lambda k, mu: sp.gammaincc(k + 1, mu),
        sf=lambda k, mu: sp.gammainc(k + 1, mu), valid=lambda mu: mu >= 0,
    ),
    "randint": _mass(
        "low high", (3, 1, 7), lambda k, lo, hi: 0 * k - np.log(hi - lo), lambda lo, hi: (lo, hi - 1),
        cdf=lambda k, lo, hi: (k - lo + 1.0) / (hi - lo), valid=lambda lo, hi: hi > lo,
    ),
    "yulesimon": _mass(
        "alpha", (3, 1.6), lambda k, a: np.log(a) + sp.betaln(k, a + 1), (1, _INF), cdf=lambda k, a: 1 - k * sp.beta(k, a + 1),
        sf=lambda k, a: k * sp.beta(k, a + 1),
    ),
    "skellam": _mass(
        "mu1 mu2", (1, 1.4, 2.3),
        lambda k, m, n: -((np.sqrt(m) - np.sqrt(n)) ** 2) + k / 2 * np.log(m / n) + _log_ive(np.abs(k), 2 * np.sqrt(m * n)),
        (-_INF, _INF),
        cdf=lambda k, m, n: np.where(
            k < 0, sp.chndtr(2 * n, -2 * np.minimum(k, -1.0), 2 * m), 1 - sp.chndtr(2 * m, 2 * (np.maximum(k, 0.0) + 1), 2 * n)
        ),
    ),
    "zipf": _mass(
        "a", (3, 2.6), lambda k, a: -a * np.log(k) - np.log(zeta(a, 1.0)), (1, _INF), sf=lambda k, a: zeta(a, k + 1.0) / zeta(a, 1.0),
        valid=lambda a: a > 1,
    ),
}  # fmt: skip
