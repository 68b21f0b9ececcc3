"""More statistics of samples: extremes within limits, descriptions, and tests from summaries."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.special as sp

from functrace.ops.create import lift
from functrace.ops.registry import Sample, apart
from functrace.ops.statistics import as_float
from functrace.scipy._stats_summary import _declared, _kept, _plain, _positive, _summary, kstat, kurtosis, skew
from functrace.scipy._stats_tests import Test, no_more, pearsonr, two_samples


def _extreme(name: str, low: bool) -> None:
    named, take, none = ("lowerlimit", np.min, np.inf) if low else ("upperlimit", np.max, -np.inf)

    def function(x: Any, axis: int, inclusive: bool, **limits: Any) -> Any:
        limit = limits[named]
        if limit is None:
            return take(x, axis=axis)
        kept = (x >= limit if inclusive else x > limit) if low else (x <= limit if inclusive else x < limit)
        return np.where(np.any(kept, axis=axis), take(np.where(kept, x, none), axis=axis), np.nan)

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


@_declared("describe")
def describe(a: Any, axis: Any = 0, ddof: int = 1, bias: bool = True, nan_policy: str = "propagate") -> Description:
    x, over = _plain(a, axis, "describe", nan_policy)
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


@_declared("pointbiserialr")
def pointbiserialr(x: Any, y: Any, *, axis: Any = 0, **more: Any) -> Any:
    """`scipy.stats.pointbiserialr`: `pearsonr`, of two groups that are 0 and 1."""
    no_more("pointbiserialr", more)
    return pearsonr(x, y, axis=axis)


@_declared("ttest_ind_from_stats")
def ttest_ind_from_stats(
    mean1: Any, std1: Any, nobs1: Any, mean2: Any, std2: Any, nobs2: Any, equal_var: bool = True, alternative: str = "two-sided"
) -> Any:
    """`scipy.stats.ttest_ind_from_stats`: statistic and p-value."""
    m, n = np.asarray(nobs1, float), np.asarray(nobs2, float)
    u, v = as_float(std1) ** 2 / m, as_float(std2) ** 2 / n
    return two_samples(as_float(mean1) - as_float(mean2), (u, v), (m, n), equal_var, alternative)


@_declared("combine_pvalues")
def combine_pvalues(
    pvalues: Any, method: str = "fisher", weights: Any = None, *, axis: Any = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> Any:
    """`scipy.stats.combine_pvalues`: statistic and p-value."""
    p, over = _plain(pvalues, axis, "combine_pvalues", nan_policy)
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
