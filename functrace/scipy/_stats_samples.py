"""More statistics of samples: extremes within limits, descriptions, and tests from summaries."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.special as sp

from functrace.ops.create import lift
from functrace.ops.functions import refuse
from functrace.ops.registry import Sample, apart
from functrace.scipy._stats_summary import _declared, _kept, _plain, _positive, _real, kstat, kurtosis, skew
from functrace.scipy._stats_tests import Test, pearsonr, two_samples


def _extreme(name: str, low: bool) -> None:
    def function(
        a: Any, limit: Any = None, axis: Any = 0, inclusive: bool = True, nan_policy: str = "propagate", *, keepdims: bool = False
    ) -> Any:
        x, over = _plain(a, axis, name, nan_policy)
        take: Any = np.min if low else np.max
        if limit is None:
            return _kept(lift(a), take(x, axis=over), axis, keepdims)
        kept = (x >= limit if inclusive else x > limit) if low else (x <= limit if inclusive else x < limit)
        out = take(np.where(kept, x, np.inf if low else -np.inf), axis=over)
        return _kept(lift(a), np.where(np.any(kept, axis=over), out, np.nan), axis, keepdims)

    named = "lowerlimit" if low else "upperlimit"

    def public(a: Any, *args: Any, **kwargs: Any) -> Any:
        if named in kwargs:
            kwargs["limit"] = kwargs.pop(named)
        return function(a, *args, **kwargs)

    public.__name__, public.__doc__ = name, f"`scipy.stats.{name}`."
    _declared(name, Sample(apart((3, 4))), Sample(apart((3, 4)), {named: 0.0, "axis": None}))(public)


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
    """`scipy.stats.describe`."""
    x, over = _plain(a, axis, "describe", nan_policy)
    ends = np.min(x, axis=over), np.max(x, axis=over)
    shape = skew(x, over, bias), kurtosis(x, over, True, bias)
    return Description(x.shape[over], ends, np.mean(x, axis=over), np.var(x, axis=over, ddof=ddof), *shape)


@_declared("kstatvar", _positive(6, n=1), _positive(6, n=2), _positive(3, 5, n=2, axis=1))
def kstatvar(data: Any, n: int = 2, *, axis: Any = None, nan_policy: str = "propagate", keepdims: bool = False) -> Any:
    """`scipy.stats.kstatvar`: unbiased estimates of the variance of `kstat`."""
    x, over = _plain(data, axis, "kstatvar", nan_policy)
    m = x.shape[over]
    second = kstat(x, 2, axis=over)
    if n not in (1, 2):
        raise ValueError("Only n=1 or n=2 supported.")
    out = second / m if n == 1 else (2 * m * second**2 + (m - 1) * kstat(x, 4, axis=over)) / (m * (m + 1))
    return _kept(lift(data), out, axis, keepdims)


@_declared("pointbiserialr")
def pointbiserialr(x: Any, y: Any, *, axis: Any = 0, **more: Any) -> Any:
    """`scipy.stats.pointbiserialr`: `pearsonr`, of two groups that are 0 and 1."""
    refuse("pointbiserialr", nan_policy=(more.get("nan_policy", "propagate"), "propagate"))
    return pearsonr(x, y, axis=axis)


@_declared("ttest_ind_from_stats")
def ttest_ind_from_stats(
    mean1: Any, std1: Any, nobs1: Any, mean2: Any, std2: Any, nobs2: Any, equal_var: bool = True, alternative: str = "two-sided"
) -> Any:
    """`scipy.stats.ttest_ind_from_stats`: statistic and p-value."""
    m, n = np.asarray(nobs1, float), np.asarray(nobs2, float)
    u, v = _real(std1) ** 2 / m, _real(std2) ** 2 / n
    return two_samples(_real(mean1) - _real(mean2), (u, v), (m, n), equal_var, alternative)


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
        w = np.ones(n) if weights is None else _real(weights)
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
