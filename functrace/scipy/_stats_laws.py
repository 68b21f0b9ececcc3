"""The table of distributions: one declaration for each.

A law states its densities and distribution functions for `loc=0, scale=1`, as functions of z and the shape parameters, on its
support; all else (location, scale, logarithms, complements, what holds outside) is derived in `stats`. Sources: SciPy's
documentation of `scipy.stats`; Johnson, Kotz and Balakrishnan 1994, "Continuous univariate distributions".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.special as sp

Formula = Callable[..., Any]
_INF = float("inf")
_PI = np.pi
_LOG2 = float(np.log(2.0))
_LOG_ROOT_2PI = float(np.log(2 * np.pi) / 2)
_ROOT2 = float(np.sqrt(2.0))


class Law(NamedTuple):
    """One distribution; `log` is the logarithm of its density or mass function.

    `shapes` are the names of its parameters; `at` where to test it: z, then the parameters. Where a parameter may be any number `valid`
    says what must hold, otherwise all must be positive. `support`: two numbers, or a function of the parameters that returns two;
    `knots`: where between them the density is not smooth; `rough`: which of cdf and sf are differences, and have no digits when small.
    """

    shapes: str
    at: tuple[Any, ...]
    log: Formula
    support: Any = (-_INF, _INF)
    cdf: Formula | None = None
    sf: Formula | None = None
    logcdf: Formula | None = None
    logsf: Formula | None = None
    valid: Formula | None = None
    discrete: bool = False
    knots: Formula | None = None
    rough: str = ""

    @property
    def names(self) -> list[str]:
        """The names of the parameters."""
        return self.shapes.split()

    def ends(self, shapes: Sequence[Any]) -> Any:
        """The support, for these parameters."""
        return self.support(*shapes) if callable(self.support) else self.support


_POSITIVE = (0.0, _INF)
_UNIT = (0.0, 1.0)


def _any(*_shapes: Any) -> Any:
    return True


def _at_zero(*_shapes: Any) -> tuple[float]:
    return (0.0,)


def _mirror(law: Law) -> Law:
    """The distribution of -z."""
    flip: Any = lambda f: f and (lambda z, *s: f(0.0 - z, *s))  # never -0.0
    at, (lo, hi) = (-law.at[0], *law.at[1:]), law.support
    return Law(
        law.shapes, at, flip(law.log), (-hi, -lo), flip(law.sf), flip(law.cdf), flip(law.logsf), flip(law.logcdf), law.valid
    )  # fmt: skip


def _even(cdf: Formula, logcdf: Formula | None = None) -> dict[str, Any]:
    """The tails of a law that is symmetric about 0."""
    flip: Any = lambda f: f and (lambda z, *s: f(-z, *s))
    return {"cdf": cdf, "sf": flip(cdf), "logcdf": logcdf, "logsf": flip(logcdf)}


def _by_gamma(of: Formula) -> dict[str, Any]:
    """The tails of a law that is the gamma distribution, of these arguments."""
    return {"cdf": lambda z, *s: sp.gammainc(*of(z, *s)), "sf": lambda z, *s: sp.gammaincc(*of(z, *s))}


def _by_normal(of: Formula) -> dict[str, Any]:
    """The tails of a law that is the normal distribution, of this."""
    return {"cdf": lambda z, *s: sp.ndtr(of(z, *s)), "sf": lambda z, *s: sp.ndtr(-of(z, *s))}


def _normal(z: Any) -> Any:
    return -z * z / 2 - _LOG_ROOT_2PI


def _exp(z: Any) -> Any:
    """exp(z) that stays finite, and its slope, where what is made of it has long reached its limit."""
    return np.exp(np.minimum(z, 300.0))


def _power(z: Any, c: Any) -> Any:
    """z**c, finite as `_exp`."""
    return np.minimum(z**c, 1e300)


def _log1p_power(z: Any, c: Any, sign: int) -> Any:
    """log(1 + z**(sign c)) for positive c; the power itself may overflow."""
    low = z < 1
    y, x = np.where(low, z, 1.0), np.where(low, 1.0, z)
    far = c * (np.log(x) if sign == 1 else -np.log(y))
    return np.where(low, np.log1p(y**c), np.log1p(x**-c)) + np.where(low == (sign == 1), 0.0, far)


def _log1p_ratio(c: Any, z: Any, times: Any = 1.0) -> Any:
    """times log(1 + c z) / c, smooth at c = 0; where `times` is 0, too."""
    y = c * z
    near = np.abs(y) < 0.01
    small, large = np.where(near, y, 0.0), np.where(near, 1.0, y)
    series = 1 - small * (1 / 2 - small * (1 / 3 - small * (1 / 4 - small * (1 / 5 - small * (1 / 6 - small * (1 / 7 - small / 8))))))
    return z * np.where(near, times * series, sp.xlog1py(times, large) / large)


def _log_mass(a: Any, b: Any) -> Any:
    """The logarithm of the probability that a normal variable is between a and b, precise in both tails."""
    flip = a > 0
    a, b = np.where(flip, -b, a), np.where(flip, -a, b)
    tail = b <= 0
    low, high = sp.log_ndtr(a), sp.log_ndtr(np.where(tail, b, 0.0))
    ratio = np.where(tail, np.exp(low - high), 0.0)
    return np.where(tail, high + np.log1p(-ratio), np.log1p(-sp.ndtr(np.where(tail, -1.0, a)) - sp.ndtr(np.where(tail, -1.0, -b))))


def _log1mexp(x: Any) -> Any:
    """log(1 - exp(-x)) for positive x."""
    near = x < _LOG2
    apart = np.where(near, 1.0, np.where(x > 750, _INF, x))
    return np.where(near, np.log(-np.expm1(-np.where(near, x, 1.0))), np.log1p(-np.exp(-apart)))


def _gev(z: Any, c: Any, times: Any = 1.0) -> Any:
    return _log1p_ratio(-c, z, times)  # (1 - c z)**(1/c) = exp(-this)


def _gaussian_parts(z: Any, mu: Any) -> tuple[Any, Any]:
    root = 1 / np.sqrt(z)
    return root * (z / mu - 1), 2 / mu + sp.log_ndtr(-root * (z / mu + 1))


def _gaussian_tail(z: Any, mu: Any) -> Any:
    x, second = _gaussian_parts(z, mu)
    first = sp.log_ndtr(-x)
    return first + np.log1p(-np.exp(second - first))


def _skewed_tail(z: Any, k: Any) -> Any:
    """What is beyond z, on its side of zero, of the asymmetric Laplace distribution."""
    up = z >= 0
    return np.where(up, np.exp(-np.where(up, z, 0.0) * k), k * k * np.exp(np.where(up, 0.0, z) / k)) / (k * k + 1)


def _rise(z: Any, c: Any) -> Any:
    return z / np.where(z < c, c, 1.0)


def _fall(z: Any, c: Any) -> Any:
    return (1 - z) / np.where((z < c) | (c >= 1), 1.0, 1 - c)


_gumbel = Law("", (0.7,), lambda z: -z - np.exp(-z), logcdf=lambda z: -np.exp(-z))
_weibull = Law(
    "c", (0.7, 1.6), lambda z, c: np.log(c) + sp.xlogy(c - 1, z) - z**c, _POSITIVE,
    logsf=lambda z, c: -(z**c),
)  # fmt: skip
_gamma = Law("a", (1.3, 2.2), lambda z, a: sp.xlogy(a - 1, z) - z - sp.gammaln(a), _POSITIVE, **_by_gamma(lambda z, a: (a, z)))
_invgauss: Any = Law(
    "mu",
    (0.8, 1.3),
    lambda z, mu: -_LOG_ROOT_2PI - 1.5 * np.log(z) - ((z - mu) / mu) ** 2 / (2 * z),
    _POSITIVE,
    logcdf=lambda z, mu: np.logaddexp(sp.log_ndtr(_gaussian_parts(z, mu)[0]), _gaussian_parts(z, mu)[1]),
    logsf=_gaussian_tail,
)
_levy = Law(
    "",
    (0.7,),
    lambda z: -_LOG_ROOT_2PI - 1.5 * np.log(z) - 0.5 / z,
    _POSITIVE,
    cdf=lambda z: sp.erfc(np.sqrt(0.5 / z)),
    sf=lambda z: sp.erf(np.sqrt(0.5 / z)),
)
_loguniform = Law(
    "a b",
    (1.2, 0.6, 2.3),
    lambda z, a, b: -np.log(z) - np.log(np.log(b) - np.log(a)),
    lambda a, b: (a, b),
    cdf=lambda z, a, b: np.log(z / a) / np.log(b / a),
    sf=lambda z, a, b: np.log(b / z) / np.log(b / a),
    valid=lambda a, b: (a > 0) & (b > a),
)


def _laplace(z: Any) -> Any:
    up = z > 0
    tail = np.exp(np.where(up, -z, z)) / 2  # of |z| it would have no slope at 0
    return np.where(up, 1 - tail, tail)


_half: Any = lambda f: lambda z, *s: np.where(z > 0, 1 - f(z, *s) / 2, f(z, *s) / 2)  # the cdf of a symmetric law, from its two-sided tail


def _gennorm(z: Any, b: Any) -> Any:
    middle = np.abs(z) ** b < 1e-300  # where the slope of the power and that of the incomplete gamma function are infinite, or nothing
    size = _power(np.where(middle, 1.0, np.abs(z)), b)
    return np.where(middle, 0.5 + z * np.exp(np.log(b / 2) - sp.gammaln(1 / b)), _half(lambda _z, b: sp.gammaincc(1 / b, size))(z, b))


def _student(z: Any, df: Any) -> Any:
    return -sp.betaln(df / 2, 0.5) - np.log(df) / 2 - (df + 1) / 2 * np.log1p(z * z / df)


LAWS: dict[str, Law] = {
    "alpha": Law(
        "a", (0.7, 1.4), lambda z, a: -2 * np.log(z) - sp.log_ndtr(a) + _normal(a - 1 / z), _POSITIVE,
        cdf=lambda z, a: sp.ndtr(a - 1 / z) / sp.ndtr(a),
    ),
    "anglit": Law(
        "", (0.3,), lambda z: np.log(np.cos(2 * z)), (-_PI / 4, _PI / 4), cdf=lambda z: np.sin(z + _PI / 4) ** 2,
        sf=lambda z: np.cos(z + _PI / 4) ** 2,
    ),
    "arcsine": Law(
        "", (0.3,), lambda z: -np.log(_PI) - np.log(z * (1 - z)) / 2, _UNIT, cdf=lambda z: 2 / _PI * np.arctan2(np.sqrt(z), np.sqrt(1 - z)),
        sf=lambda z: 2 / _PI * np.arctan2(np.sqrt(1 - z), np.sqrt(z)),
    ),
    "beta": Law(
        "a b", (0.3, 1.7, 2.4), lambda z, a, b: sp.xlog1py(b - 1, -z) + sp.xlogy(a - 1, z) - sp.betaln(a, b), _UNIT,
        cdf=lambda z, a, b: sp.betainc(a, b, z), sf=lambda z, a, b: sp.betaincc(a, b, z),
    ),
    "betaprime": Law(
        "a b", (0.8, 1.7, 2.4), lambda z, a, b: sp.xlogy(a - 1, z) - sp.xlog1py(a + b, z) - sp.betaln(a, b), _POSITIVE,
        cdf=lambda z, a, b: sp.betainc(a, b, z / (1 + z)), sf=lambda z, a, b: sp.betainc(b, a, 1 / (1 + z)),
    ),
    "bradford": Law(
        "c", (0.3, 1.5), lambda z, c: np.log(c) - np.log1p(c * z) - np.log(np.log1p(c)), _UNIT,
        cdf=lambda z, c: np.log1p(c * z) / np.log1p(c), sf=lambda z, c: np.log1p(c * (1 - z) / (1 + c * z)) / np.log1p(c),
    ),
    "burr": Law(
        "c d", (0.8, 2.1, 1.3), lambda z, c, d: np.log(c) + np.log(d) + sp.xlogy(c * d - 1, z) - (d + 1) * _log1p_power(z, c, 1),
        _POSITIVE, logcdf=lambda z, c, d: -d * _log1p_power(z, c, -1),
    ),
    "burr12": Law(
        "c d", (0.8, 2.1, 1.3), lambda z, c, d: np.log(c) + np.log(d) + sp.xlogy(c - 1, z) - (d + 1) * _log1p_power(z, c, 1),
        _POSITIVE, logsf=lambda z, c, d: -d * _log1p_power(z, c, 1),
    ),
    "cauchy": Law("", (0.7,), lambda z: -np.log(_PI) - np.log1p(z * z), **_even(lambda z: np.arctan2(1.0, -z) / _PI)),
    "chi": Law(
        "df", (1.2, 2.6), lambda z, df: _LOG2 - _LOG2 * df / 2 - sp.gammaln(df / 2) + sp.xlogy(df - 1, z) - z * z / 2, _POSITIVE,
        **_by_gamma(lambda z, df: (df / 2, z * z / 2)),
    ),
    "chi2": Law(
        "df", (1.8, 2.6), lambda z, df: sp.xlogy(df / 2 - 1, z) - z / 2 - sp.gammaln(df / 2) - _LOG2 * df / 2, _POSITIVE,
        **_by_gamma(lambda z, df: (df / 2, z / 2)),
    ),
    "cosine": Law(
        "", (0.7,), lambda z: 2 * np.log(np.cos(z / 2)) - np.log(_PI), (-_PI, _PI), cdf=lambda z: (_PI + z + np.sin(z)) / (2 * _PI),
        sf=lambda z: (_PI - z - np.sin(z)) / (2 * _PI), rough="cdf sf",
    ),
    "dgamma": Law(
        "a", (0.7, 1.6), lambda z, a: sp.xlogy(a - 1, np.abs(z)) - np.abs(z) - _LOG2 - sp.gammaln(a),
        **_even(_half(lambda z, a: sp.gammaincc(a, np.abs(z)))), knots=_at_zero,
    ),
    "dweibull": Law(
        "c", (0.7, 1.6), lambda z, c: np.log(c) - _LOG2 + sp.xlogy(c - 1, np.abs(z)) - np.abs(z) ** c,
        **_even(_half(lambda z, c: np.exp(-_power(np.abs(z), c)))), knots=_at_zero,
    ),
    "expon": Law("", (0.7,), lambda z: -z, _POSITIVE, logsf=lambda z: -z),
    "exponnorm": Law(
        "K", (0.7, 1.4), lambda z, K: 1 / (2 * K * K) - z / K - np.log(K) + sp.log_ndtr(z - 1 / K),
        cdf=lambda z, K: sp.ndtr(z) - np.exp(1 / (2 * K * K) - z / K + sp.log_ndtr(z - 1 / K)),
        sf=lambda z, K: sp.ndtr(-z) + np.exp(1 / (2 * K * K) - z / K + sp.log_ndtr(z - 1 / K)), rough="cdf",
    ),
    "exponpow": Law(
        "b", (0.6, 1.6), lambda z, b: 1 + np.log(b) + sp.xlogy(b - 1, z) + z**b - np.exp(z**b), _POSITIVE,
        logsf=lambda z, b: -np.expm1(z**b),
    ),
    "exponweib": Law(
        "a c", (0.8, 1.3, 1.7),
        lambda z, a, c: np.log(a * c) + sp.xlogy(a * c - 1, z) + (a - 1) * np.log(sp.exprel(-_power(z, c))) - _power(z, c), _POSITIVE,
        cdf=lambda z, a, c: (-np.expm1(-_power(z, c))) ** a, sf=lambda z, a, c: -np.expm1(a * _log1mexp(_power(z, c))),
    ),
    "f": Law(
        "dfn dfd", (0.9, 3.2, 4.7),
        lambda z, n, m: (
            sp.xlogy(m / 2, m) + sp.xlogy(n / 2, n) + sp.xlogy(n / 2 - 1, z) - (n + m) / 2 * np.log(m + n * z) - sp.betaln(n / 2, m / 2)
        ),
        _POSITIVE, cdf=lambda z, n, m: sp.betainc(n / 2, m / 2, n * z / (m + n * z)),
        sf=lambda z, n, m: sp.betainc(m / 2, n / 2, m / (m + n * z)),
    ),
    "fatiguelife": Law(
        "c", (0.8, 1.3), lambda z, c: np.log1p(z) - ((z - 1) / c) ** 2 / (2 * z) - _LOG2 - np.log(c) - _LOG_ROOT_2PI - 1.5 * np.log(z),
        _POSITIVE, **_by_normal(lambda z, c: (np.sqrt(z) - 1 / np.sqrt(z)) / c),
    ),
    "fisk": Law(
        "c", (0.8, 2.3), lambda z, c: np.log(c) + sp.xlogy(c - 1, z) - 2 * np.log1p(z**c), _POSITIVE,
        cdf=lambda z, c: 1 / (1 + z**-c), sf=lambda z, c: 1 / (1 + z**c), logsf=lambda z, c: -np.log1p(z**c),
    ),
    "foldcauchy": Law(
        "c", (0.7, 1.3), lambda z, c: np.log(1 / (1 + (z - c) ** 2) + 1 / (1 + (z + c) ** 2)) - np.log(_PI), _POSITIVE,
        cdf=lambda z, c: (np.arctan(z - c) + np.arctan(z + c)) / _PI, valid=lambda c: c >= 0, rough="cdf",
    ),
    "foldnorm": Law(
        "c", (0.7, 1.3), lambda z, c: np.logaddexp(_normal(z - c), _normal(z + c)), _POSITIVE,
        cdf=lambda z, c: sp.ndtr(z - c) - sp.ndtr(-z - c), sf=lambda z, c: sp.ndtr(c - z) + sp.ndtr(-z - c), valid=lambda c: c >= 0,
        rough="cdf",
    ),
    "gamma": _gamma,
    "genextreme": Law(
        "c", (0.5, 0.3), lambda z, c: -np.exp(-_gev(z, c)) - _gev(z, c, 1 - c),
        lambda c: (np.where(c < 0, 1 / np.minimum(c, -1e-300), -_INF), np.where(c > 0, 1 / np.maximum(c, 1e-300), _INF)),
        logcdf=lambda z, c: -np.exp(-_gev(z, c)), valid=_any,
    ),
    "gengamma": Law(
        "a c", (0.9, 1.4, 1.7), lambda z, a, c: np.log(np.abs(c)) + sp.xlogy(c * a - 1, z) - z**c - sp.gammaln(a), _POSITIVE,
        cdf=lambda z, a, c: np.where(c > 0, sp.gammainc(a, _power(z, c)), sp.gammaincc(a, _power(z, c))),
        sf=lambda z, a, c: np.where(c > 0, sp.gammaincc(a, _power(z, c)), sp.gammainc(a, _power(z, c))),
        valid=lambda a, c: (a > 0) & (c != 0),
    ),
    "genhalflogistic": Law(
        "c", (0.6, 0.7), lambda z, c: _LOG2 + sp.xlog1py(1 / c - 1, -c * z) - 2 * np.log1p((1 - c * z) ** (1 / c)), lambda c: (0.0, 1 / c),
        cdf=lambda z, c: (1 - (1 - c * z) ** (1 / c)) / (1 + (1 - c * z) ** (1 / c)), rough="cdf",
    ),
    "genlogistic": Law(
        "c", (0.7, 1.4), lambda z, c: np.log(c) - z - (c + 1) * np.logaddexp(0.0, -z), logcdf=lambda z, c: -c * np.logaddexp(0.0, -z),
    ),
    "gennorm": Law("beta", (0.7, 1.8), lambda z, b: np.log(b / 2) - sp.gammaln(1 / b) - np.abs(z) ** b, **_even(_gennorm), knots=_at_zero),
    "genpareto": Law(
        "c", (0.6, 0.4), lambda z, c: -_log1p_ratio(c, z, c + 1), lambda c: (0.0, np.where(c < 0, -1 / np.minimum(c, -1e-300), _INF)),
        logsf=lambda z, c: -_log1p_ratio(c, z), valid=_any,
    ),
    "gompertz": Law("c", (0.6, 0.8), lambda z, c: np.log(c) + z - c * np.expm1(z), _POSITIVE, logsf=lambda z, c: -c * np.expm1(z)),
    "gumbel_l": _mirror(_gumbel),
    "gumbel_r": _gumbel,
    "halfcauchy": Law(
        "", (0.7,), lambda z: np.log(2 / _PI) - np.log1p(z * z), _POSITIVE, cdf=lambda z: 2 / _PI * np.arctan(z),
        sf=lambda z: 2 / _PI * np.arctan2(1.0, z),
    ),
    "halfgennorm": Law(
        "beta", (0.7, 1.8), lambda z, b: np.log(b) - sp.gammaln(1 / b) - z**b, _POSITIVE, **_by_gamma(lambda z, b: (1 / b, _power(z, b))),
    ),
    "halflogistic": Law(
        "", (0.7,), lambda z: _LOG2 - z - 2 * np.log1p(np.exp(-z)), _POSITIVE, cdf=lambda z: np.tanh(z / 2), sf=lambda z: 2 * sp.expit(-z),
    ),
    "halfnorm": Law("", (0.7,), lambda z: _LOG2 + _normal(z), _POSITIVE, cdf=lambda z: sp.erf(z / _ROOT2), sf=lambda z: 2 * sp.ndtr(-z)),
    "hypsecant": Law("", (0.7,), lambda z: _LOG2 - np.log(_PI) - np.logaddexp(z, -z), **_even(lambda z: 2 / _PI * np.arctan(_exp(z)))),
    "invgamma": Law(
        "a", (0.8, 2.2), lambda z, a: -(a + 1) * np.log(z) - sp.gammaln(a) - 1 / z, _POSITIVE,
        cdf=lambda z, a: sp.gammaincc(a, 1 / z), sf=lambda z, a: sp.gammainc(a, 1 / z),
    ),
    "invgauss": _invgauss,
    "invweibull": Law(
        "c", (0.8, 1.7), lambda z, c: np.log(c) - (c + 1) * np.log(z) - z**-c, _POSITIVE, logcdf=lambda z, c: -(z**-c),
    ),
    "johnsonsb": Law(
        "a b", (0.4, 0.6, 1.3), lambda z, a, b: np.log(b) - np.log(z * (1 - z)) + _normal(a + b * (np.log(z) - np.log1p(-z))), _UNIT,
        **_by_normal(lambda z, a, b: a + b * (np.log(z) - np.log1p(-z))), valid=lambda _a, b: b > 0,
    ),
    "johnsonsu": Law(
        "a b", (0.4, 0.6, 1.3), lambda z, a, b: np.log(b) - np.log1p(z * z) / 2 + _normal(a + b * np.arcsinh(z)),
        **_by_normal(lambda z, a, b: a + b * np.arcsinh(z)), valid=lambda _a, b: b > 0,
    ),
    "kappa3": Law(
        "a", (0.7, 1.6), lambda z, a: np.log(a) - (1 / a + 1) * (np.log(a) + _log1p_power(z * a ** (-1 / a), a, 1)), _POSITIVE,
        logcdf=lambda z, a: -_log1p_power(z * a ** (-1 / a), a, -1) / a,
    ),
    "laplace": Law("", (0.7,), lambda z: -_LOG2 - np.abs(z), **_even(_laplace), knots=_at_zero),
    "laplace_asymmetric": Law(
        "kappa", (0.7, 1.4), lambda z, k: np.where(z >= 0, -k, 1 / k) * z - np.log(k + 1 / k),
        cdf=lambda z, k: np.where(z >= 0, 1 - _skewed_tail(z, k), _skewed_tail(z, k)),
        sf=lambda z, k: np.where(z >= 0, _skewed_tail(z, k), 1 - _skewed_tail(z, k)), knots=_at_zero,
    ),
    "levy": _levy,
    "levy_l": _mirror(_levy),
    "loggamma": Law("c", (0.3, 1.4), lambda z, c: c * z - np.exp(z) - sp.gammaln(c), **_by_gamma(lambda z, c: (c, _exp(z)))),
    "logistic": Law("", (0.7,), lambda z: sp.log_expit(z) + sp.log_expit(-z), **_even(sp.expit, sp.log_expit)),
    "loglaplace": Law(
        "c", (0.7, 1.6), lambda z, c: np.log(c) - _LOG2 + sp.xlogy(np.where(z < 1, c - 1, -c - 1), z), _POSITIVE,
        cdf=lambda z, c: np.where(z < 1, z**c / 2, 1 - z**-c / 2), sf=lambda z, c: np.where(z < 1, 1 - z**c / 2, z**-c / 2),
        knots=lambda _c: (1.0,),
    ),
    "lognorm": Law(
        "s", (0.8, 0.9), lambda z, s: -(np.log(z) ** 2) / (2 * s * s) - np.log(s * z) - _LOG_ROOT_2PI, _POSITIVE,
        **_by_normal(lambda z, s: np.log(z) / s),
        logcdf=lambda z, s: sp.log_ndtr(np.log(z) / s), logsf=lambda z, s: sp.log_ndtr(-np.log(z) / s),
    ),
    "lomax": Law("c", (0.7, 1.6), lambda z, c: np.log(c) - (c + 1) * np.log1p(z), _POSITIVE, logsf=lambda z, c: -c * np.log1p(z)),
    "loguniform": _loguniform,
    "maxwell": Law(
        "", (0.9,), lambda z: _LOG2 - _LOG_ROOT_2PI + 2 * np.log(z) - z * z / 2, _POSITIVE, **_by_gamma(lambda z: (1.5, z * z / 2)),
    ),
    "moyal": Law(
        "", (0.7,), lambda z: -(z + np.exp(-z)) / 2 - _LOG_ROOT_2PI, cdf=lambda z: sp.erfc(_exp(-z / 2) / _ROOT2),
        sf=lambda z: sp.erf(_exp(-z / 2) / _ROOT2)
    ),
    "nakagami": Law(
        "nu", (0.8, 1.7), lambda z, nu: _LOG2 + sp.xlogy(nu, nu) - sp.gammaln(nu) + sp.xlogy(2 * nu - 1, z) - nu * z * z, _POSITIVE,
        **_by_gamma(lambda z, nu: (nu, nu * z * z)),
    ),
    "norm": Law("", (0.7,), _normal, **_even(sp.ndtr, sp.log_ndtr)),
    "pareto": Law(
        "b", (1.7, 1.6), lambda z, b: np.log(b) - (b + 1) * np.log(z), (1.0, _INF),
        cdf=lambda z, b: 1 - z**-b, sf=lambda z, b: z**-b, logsf=lambda z, b: -b * np.log(z),
    ),
    "powerlaw": Law(
        "a", (0.4, 1.7), lambda z, a: np.log(a) + sp.xlogy(a - 1, z), _UNIT, cdf=lambda z, a: z**a, logcdf=lambda z, a: a * np.log(z),
    ),
    "powerlognorm": Law(
        "c s", (0.8, 1.4, 0.9), lambda z, c, s: np.log(c) - np.log(z * s) + _normal(np.log(z) / s) + (c - 1) * sp.log_ndtr(-np.log(z) / s),
        _POSITIVE, logsf=lambda z, c, s: c * sp.log_ndtr(-np.log(z) / s),
    ),
    "powernorm": Law(
        "c", (0.5, 1.4), lambda z, c: np.log(c) + _normal(z) + (c - 1) * sp.log_ndtr(-z), logsf=lambda z, c: c * sp.log_ndtr(-z),
    ),
    "rayleigh": Law("", (0.8,), lambda z: np.log(z) - z * z / 2, _POSITIVE, logsf=lambda z: -z * z / 2),
    "rdist": Law(
        "c", (0.3, 2.6), lambda z, c: sp.xlog1py(c / 2 - 1, -z * z) - sp.betaln(0.5, c / 2), (-1.0, 1.0),
        **_even(lambda z, c: sp.betainc(c / 2, c / 2, (1 + z) / 2)),
    ),
    "reciprocal": _loguniform,
    "rice": Law(
        "b", (0.9, 1.2), lambda z, b: np.log(z) - (z - b) ** 2 / 2 + np.log(sp.i0e(z * b)), _POSITIVE,
        cdf=lambda z, b: sp.chndtr(z * z, 2.0, b * b), valid=lambda b: b >= 0,
    ),
    "semicircular": Law(
        "", (0.4,), lambda z: np.log(2 / _PI) + np.log((1 - z) * (1 + z)) / 2, (-1.0, 1.0),
        cdf=lambda z: 0.5 + (z * np.sqrt(1 - z * z) + np.arcsin(z)) / _PI, rough="cdf"
    ),
    "skewnorm": Law(
        "a", (0.6, 1.4), lambda z, a: _LOG2 + _normal(z) + sp.log_ndtr(a * z), cdf=lambda z, a: sp.ndtr(z) - 2 * sp.owens_t(z, a),
        sf=lambda z, a: sp.ndtr(-z) + 2 * sp.owens_t(z, a), valid=_any, rough="cdf sf",
    ),
    "t": Law(
        "df", (0.7, 3.4), lambda z, df: _student(z, np.minimum(df, 1e300)),  # as good as infinite
        **_even(lambda z, df: sp.stdtr(np.minimum(df, 1e300), z)),
    ),
    "triang": Law(
        "c", (0.3, 0.6), lambda z, c: np.log(2 * np.where((z < c) | (c == 1), _rise(z, c), _fall(z, c))), _UNIT,
        cdf=lambda z, c: np.where(z < c, z * _rise(z, c), 1 - (1 - z) * _fall(z, c)), valid=lambda c: (c >= 0) & (c <= 1),
        knots=lambda c: (c,),
    ),
    "truncexpon": Law(
        "b", (0.7, 2.1), lambda z, b: -z - np.log(-np.expm1(-b)), lambda b: (0.0, b), cdf=lambda z, b: np.expm1(-z) / np.expm1(-b),
        sf=lambda z, b: np.exp(-z) * np.expm1(z - b) / np.expm1(-b),
    ),
    "truncnorm": Law(
        "a b", (0.3, -0.8, 1.7), lambda z, a, b: _normal(z) - _log_mass(a, b), lambda a, b: (a, b),
        logcdf=lambda z, a, b: _log_mass(a, z) - _log_mass(a, b), logsf=lambda z, a, b: _log_mass(z, b) - _log_mass(a, b),
        valid=lambda a, b: a < b,
    ),
    "truncpareto": Law(
        "b c", (1.7, 1.6, 3.2), lambda z, b, c: np.log(b / -np.expm1(-b * np.log(c))) - (b + 1) * np.log(z), lambda b, c: (1.0, c),
        cdf=lambda z, b, c: np.expm1(-b * np.log(z)) / np.expm1(-b * np.log(c)),
        sf=lambda z, b, c: z**-b * np.expm1(b * np.log(z / c)) / np.expm1(-b * np.log(c)), valid=lambda b, c: (b != 0) & (c > 1),
    ),
    "uniform": Law("", (0.3,), lambda z: 0.0 * z, _UNIT, cdf=lambda z: z, sf=lambda z: 1 - z),
    "vonmises": Law("kappa", (0.7, 1.4), lambda z, k: k * (np.cos(z) - 1) - 2 * _LOG_ROOT_2PI - np.log(sp.i0e(k)), valid=lambda k: k >= 0),
    "wald": Law(
        "", (0.8,), lambda z: _invgauss.log(z, 1.0), _POSITIVE, logcdf=lambda z: _invgauss.logcdf(z, 1.0),
        logsf=lambda z: _gaussian_tail(z, 1.0),
    ),
    "weibull_max": _mirror(_weibull),
    "weibull_min": _weibull,
}  # fmt: skip
