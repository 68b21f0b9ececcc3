"""The table of discrete distributions: as `_stats_laws`, with the logarithm of the mass at whole numbers k."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special as sp

from functrace.scipy._stats_laws import _INF, Formula, Law
from functrace.scipy.special import zeta


def _combinations(n: Any, k: Any) -> Any:
    return sp.gammaln(n + 1) - sp.gammaln(k + 1) - sp.gammaln(n - k + 1)


def _mass(shapes: str, at: Any, log: Formula, support: Any = (0, _INF), **more: Any) -> Law:
    return Law(shapes, at, log, support, discrete=True, **more)


def _log_ive(v: Any, x: Any) -> Any:
    """log(I_v(x)) - x, also where that is too small for a number: DLMF 10.39.9."""
    i = sp.ive(v, x)
    gone = ~(i > 1e-290)
    series = v * np.log(x / 2) - x - sp.gammaln(v + 1) + np.log(sp.hyp0f1(v + 1, x * x / 4))
    return np.where(gone, series, np.log(np.where(gone, 1.0, i)))


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
        "lambda_", (2, 0.7), lambda k, lam: np.log(-np.expm1(-lam)) - lam * k, cdf=lambda k, lam: -np.expm1(-lam * (k + 1)),
        logsf=lambda k, lam: -lam * (k + 1)
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
