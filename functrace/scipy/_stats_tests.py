"""Tests of hypotheses (statistic and p-value), straight lines, density estimates, descriptions of samples."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.special as sp

from functrace import tree
from functrace.ops.create import lift
from functrace.ops.functions import refuse
from functrace.ops.registry import Sample, apart
from functrace.ops.statistics import as_float
from functrace.scipy._shared import one_of, only_first, root
from functrace.scipy._stats_summary import _kept, _named, _plain, _positive, _summary, kstat, kurtosis, skew


class Test(NamedTuple):
    """The result of a test."""

    statistic: Any
    pvalue: Any


def _symmetric(statistic: Any, below: Any, alternative: str) -> Test:
    """A test whose statistic has a symmetric distribution, `below` being its distribution function."""
    tails: Any = {
        "two-sided": lambda: 2 * below(-np.abs(statistic)),
        "less": lambda: below(statistic),
        "greater": lambda: below(-statistic),
    }
    return Test(statistic, tails[alternative]())


def _and_one(cls: Any, name: str) -> Any:
    """Makes results that have, beside the numbers to unpack, one more by its name alone, as SciPy's; as containers they hold all."""

    def make(*values: Any) -> Any:
        out = cls(*values[:-1])
        setattr(out, name, values[-1])
        return out

    tree.register(cls, lambda out: ([*out, getattr(out, name)], None), lambda _aux, values: make(*values))
    return make


class TtestResult(Test):
    """The result of a t-test, with the degrees of freedom `df`."""


_t_test = _and_one(TtestResult, "df")


def _student(t: Any, df: Any, alternative: str) -> Any:
    return _t_test(*_symmetric(t, lambda t: sp.stdtr(df, t), alternative), np.broadcast_to(df, np.shape(t))[()])


@_named("pearsonr")
def pearsonr(x: Any, y: Any, alternative: str, axis: Any) -> Any:
    """`scipy.stats.pearsonr`: statistic and p-value."""
    x, y = as_float(x), as_float(y)
    if axis is None:
        x, y, axis = np.reshape(x, -1), np.reshape(y, -1), 0
    dx, dy = (a - np.mean(a, axis=axis, keepdims=True) for a in (x, y))
    r = np.sum(dx * dy, axis=axis) / (np.sqrt(np.sum(dx * dx, axis=axis)) * np.sqrt(np.sum(dy * dy, axis=axis)))
    r = np.clip(r, -1, 1)  # beyond which rounding may take it
    half = x.shape[axis] / 2 - 1
    if not half:
        return Test(np.round(r), 0 * r + 1)
    return _symmetric(r, lambda r: sp.betainc(half, half, (1 + r) / 2), alternative)


class Line(NamedTuple):
    """The numbers that `linregress` gives to unpack."""

    slope: Any
    intercept: Any
    rvalue: Any
    pvalue: Any
    stderr: Any


class LinregressResult(Line):
    """The result of `linregress`, with `intercept_stderr`."""


_line = _and_one(LinregressResult, "intercept_stderr")


@_named("linregress")
def linregress(x: Any, y: Any, alternative: str) -> Any:
    """`scipy.stats.linregress` of two vectors."""
    x, y = as_float(x), as_float(y)
    if x.ndim != 1 or y.ndim != 1:
        refuse("linregress of arrays that are no vectors", x=(x, None))
    n = x.shape[0]
    dx, dy = x - np.mean(x), y - np.mean(y)
    xx, xy, yy = np.mean(dx * dx), np.mean(dx * dy), np.mean(dy * dy)
    r, slope = np.clip(xy / np.sqrt(xx * yy), -1, 1), xy / xx
    stderr = root((1 - r * r) * yy / xx / max(n - 2, 1))
    p = _student(r * np.sqrt((n - 2) / ((1 - r + 1e-20) * (1 + r + 1e-20))), n - 2.0, alternative).pvalue  # as SciPy's, finite
    return _line(slope, np.mean(y) - slope * np.mean(x), r, p, stderr, stderr * np.sqrt(xx + np.mean(x) ** 2))


@_named("ttest_1samp")
def ttest_1samp(a: Any, popmean: Any, axis: Any, alternative: str) -> Any:
    """`scipy.stats.ttest_1samp`: statistic and p-value."""
    x, over = _plain(a, axis)
    n = x.shape[over]
    gap = np.squeeze(np.mean(x, axis=over, keepdims=True) - popmean, over)
    return _student(gap / (np.std(x, axis=over, ddof=1) / math.sqrt(n)), n - 1.0, alternative)


@_named("ttest_rel")
def ttest_rel(a: Any, b: Any, axis: Any, alternative: str) -> Any:
    """`scipy.stats.ttest_rel`: statistic and p-value."""
    return ttest_1samp(as_float(a) - as_float(b), 0.0, axis, alternative=alternative)


def two_samples(difference: Any, variances: tuple[Any, Any], sizes: tuple[Any, Any], equal_var: bool, alternative: str) -> Any:
    """The t-test of a difference of means, of these variances and sizes of the samples: pooled, or Welch's (1947)."""
    (u, v), (m, n) = variances, sizes
    if equal_var:
        df: Any = m + n - 2.0
        width = np.sqrt((u * m * (m - 1) + v * n * (n - 1)) / df * (1 / m + 1 / n))
    else:
        df = (u + v) ** 2 / (u**2 / (m - 1) + v**2 / (n - 1))
        width = np.sqrt(u + v)
    return _student(difference / width, df, alternative)


@_named("ttest_ind")
def ttest_ind(a: Any, b: Any, axis: Any, equal_var: bool, alternative: str) -> Any:
    """`scipy.stats.ttest_ind`: statistic and p-value."""
    (x, over), (y, _) = _plain(a, axis), _plain(b, axis)
    m, n = x.shape[over], y.shape[over]
    u, v = np.var(x, axis=over, ddof=1) / m, np.var(y, axis=over, ddof=1) / n
    return two_samples(np.mean(x, axis=over) - np.mean(y, axis=over), (u, v), (m, n), equal_var, alternative)


@_named("f_oneway")
def f_oneway(samples: Any, axis: Any) -> Any:
    """`scipy.stats.f_oneway`: statistic and p-value."""
    groups, (axis, *_) = zip(*(_plain(s, axis) for s in samples))
    sizes = [g.shape[axis] for g in groups]
    n, k = sum(sizes), len(groups)
    means = [np.mean(g, axis=axis) for g in groups]
    grand = sum(size * mean for size, mean in zip(sizes, means)) / n
    between = sum(size * (mean - grand) ** 2 for size, mean in zip(sizes, means)) / (k - 1)
    within = sum(size * np.var(g, axis=axis) for size, g in zip(sizes, groups)) / (n - k)
    f = between / within
    return Test(f, sp.betainc((n - k) / 2, (k - 1) / 2, (n - k) / (n - k + (k - 1) * f)))


_POWERS = {"pearson": 1, "log-likelihood": 0, "freeman-tukey": -0.5, "mod-log-likelihood": -1, "neyman": -2, "cressie-read": 2 / 3}


@_named("power_divergence")
def power_divergence(f_obs: Any, f_exp: Any, ddof: Any, axis: Any, lambda_: Any) -> Any:
    """`scipy.stats.power_divergence`: statistic and p-value; sums are not compared."""
    only_first("power_divergence", lambda_, ddof)
    obs, over = _plain(f_obs, axis)
    exp = np.mean(obs, axis=over, keepdims=True) if f_exp is None else as_float(f_exp)
    if isinstance(lambda_, str):
        one_of("lambda_", lambda_, *_POWERS)
    power: Any = 1 if lambda_ is None else _POWERS.get(lambda_, lambda_)
    if power == 1:
        terms = (obs - exp) ** 2 / exp
    elif power == 0:
        terms = 2.0 * sp.xlogy(obs, obs / exp)
    elif power == -1:
        terms = 2.0 * sp.xlogy(exp, exp / obs)
    else:
        terms = 2.0 / (power * (power + 1)) * obs * ((obs / exp) ** power - 1)
    statistic = np.sum(terms, axis=over)
    return Test(statistic, sp.gammaincc((obs.shape[over] - 1 - np.asarray(ddof)) / 2, statistic / 2))


@_named("chisquare")
def chisquare(f_obs: Any, f_exp: Any, ddof: Any, axis: Any) -> Any:
    """`scipy.stats.chisquare`: statistic and p-value; sums are not compared."""
    return power_divergence(f_obs, f_exp, ddof, axis, "pearson")


@_named("jarque_bera")
def jarque_bera(x: Any, axis: Any) -> Any:
    """`scipy.stats.jarque_bera`: statistic and p-value."""
    a, over = _plain(x, axis)
    s = a.shape[over] / 6 * (skew(a, over) ** 2 + kurtosis(a, over) ** 2 / 4)
    return Test(s, np.exp(-s / 2))


class gaussian_kde:
    """`scipy.stats.gaussian_kde`, differentiable in the data, the weights and the points."""

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None) -> None:
        self.dataset = np.atleast_2d(as_float(dataset))
        self.d, self.n = self.dataset.shape
        self.weights = np.ones(self.n) / self.n if weights is None else as_float(weights) / np.sum(as_float(weights))
        self.neff = 1 / np.sum(self.weights**2)
        if bw_method is None or bw_method == "scott":
            self.factor = self.neff ** (-1.0 / (self.d + 4))
        elif bw_method == "silverman":
            self.factor = (self.neff * (self.d + 2) / 4.0) ** (-1.0 / (self.d + 4))
        elif callable(bw_method):
            self.factor = bw_method(self)
        else:
            self.factor = bw_method
        deviation = self.dataset - np.sum(self.dataset * self.weights, axis=1, keepdims=True)
        data_cov = (deviation * self.weights) @ np.swapaxes(deviation, 0, 1) / (1 - np.sum(self.weights**2))
        self.covariance = data_cov * self.factor**2

    def logpdf(self, points: Any) -> Any:
        """The logarithm of the density at points, one in each column."""
        points = np.atleast_2d(as_float(points))
        if points.shape[0] != self.d:
            if points.shape != (1, self.d):
                raise ValueError(f"points have dimension {points.shape[0]}, dataset has dimension {self.d}")
            points = np.reshape(points, (self.d, 1))
        factor = np.linalg.cholesky(self.covariance)
        gaps = np.linalg.solve(factor, np.reshape(self.dataset[:, :, None] - points[:, None, :], (self.d, -1)))
        energy = -np.reshape(np.sum(gaps**2, axis=0), (self.n, -1)) / 2 + np.log(self.weights)[:, None]
        top = np.max(energy, axis=0)
        logdet = np.sum(np.log(2 * np.pi * np.diagonal(factor) ** 2))
        return top + np.log(np.sum(np.exp(energy - top), axis=0)) - logdet / 2

    def evaluate(self, points: Any) -> Any:
        """The density at points, one in each column."""
        return np.exp(self.logpdf(points))

    __call__ = pdf = evaluate


def _extreme(name: str, low: bool) -> None:
    named, take, none = ("lowerlimit", np.min, np.inf) if low else ("upperlimit", np.max, -np.inf)

    def function(x: Any, axis: int, inclusive: bool, **limits: Any) -> Any:
        limit = limits[named]
        if limit is None:
            return take(x, axis=axis)
        cut = (x < limit if inclusive else x <= limit) if low else (x > limit if inclusive else x >= limit)  # no NaN
        return np.where(np.all(cut, axis=axis), np.nan, take(np.where(cut, none, x), axis=axis))

    _summary(name, Sample(apart((3, 4))), Sample(apart((3, 4)), {named: 0.0, "axis": None}))(function)


_extreme("tmin", True)
_extreme("tmax", False)


class Description(NamedTuple):
    """The result of `describe`."""

    nobs: int
    minmax: tuple[Any, Any]
    mean: Any
    variance: Any
    skewness: Any
    kurtosis: Any


@_named("describe")
def describe(a: Any, axis: Any, ddof: int, bias: bool) -> Description:
    x, over = _plain(a, axis)
    ends = np.min(x, axis=over), np.max(x, axis=over)
    shape = skew(x, over, bias), kurtosis(x, over, True, bias)
    return Description(x.shape[over], ends, np.mean(x, axis=over), np.var(x, axis=over, ddof=ddof), *shape)


@_summary("kstatvar", _positive(6, n=1), _positive(6, n=2), _positive(3, 5, n=2, axis=1))
def kstatvar(x: Any, axis: int, n: int) -> Any:
    """`scipy.stats.kstatvar`: unbiased estimates of the variance of `kstat`."""
    m = x.shape[axis]
    second = kstat(x, 2, axis=axis)
    if n not in (1, 2):
        raise ValueError("Only n=1 or n=2 supported.")
    return second / m if n == 1 else (2 * m * second**2 + (m - 1) * kstat(x, 4, axis=axis)) / (m * (m + 1))


@_named("pointbiserialr")
def pointbiserialr(x: Any, y: Any, axis: Any = 0) -> Any:
    """`scipy.stats.pointbiserialr`: `pearsonr`, of two groups that are 0 and 1."""
    return pearsonr(x, y, axis=axis)


@_named("ttest_ind_from_stats")
def ttest_ind_from_stats(mean1: Any, std1: Any, nobs1: Any, mean2: Any, std2: Any, nobs2: Any, equal_var: bool, alternative: str) -> Any:
    """`scipy.stats.ttest_ind_from_stats`: statistic and p-value."""
    m, n = np.asarray(nobs1, float), np.asarray(nobs2, float)
    u, v = as_float(std1) ** 2 / m, as_float(std2) ** 2 / n
    return two_samples(as_float(mean1) - as_float(mean2), (u, v), (m, n), equal_var, alternative)


@_named("combine_pvalues")
def combine_pvalues(pvalues: Any, method: str, weights: Any, axis: Any = 0, keepdims: bool = False) -> Any:
    """`scipy.stats.combine_pvalues`: statistic and p-value."""
    p, over = _plain(pvalues, axis)
    n = p.shape[over]
    if method == "fisher":
        statistic = -2 * np.sum(np.log(p), axis=over)
        pvalue = sp.gammaincc(n, statistic / 2)
    elif method == "pearson":
        statistic = 2 * np.sum(np.log1p(-p), axis=over)
        pvalue = sp.gammainc(n, -statistic / 2)
    elif method == "tippett":
        statistic = np.min(p, axis=over)
        pvalue = -np.expm1(n * np.log1p(-statistic))
    elif method == "stouffer":
        w = np.ones(n) if weights is None else as_float(weights)
        z = np.moveaxis(-sp.ndtri(p), over, -1)
        statistic = z @ w / np.linalg.norm(w)
        pvalue = sp.ndtr(-statistic)
    elif method == "mudholkar_george":
        statistic = -np.sum(np.log(p) - np.log1p(-p), axis=over)
        df = 5 * n + 4
        pvalue = sp.stdtr(df, -statistic * (math.sqrt(3 / n * df / (df - 2)) / np.pi))
    else:
        raise ValueError(f"Invalid method {method!r}. Valid methods are 'fisher', 'pearson', 'mudholkar_george', 'tippett', and 'stouffer'")
    return Test(_kept(lift(pvalues), statistic, axis, keepdims), _kept(lift(pvalues), pvalue, axis, keepdims))
