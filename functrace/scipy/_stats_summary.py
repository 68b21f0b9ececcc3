"""Summaries and statistics of samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special as sp
import scipy.stats as _scipy
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from functrace.ops.create import lift
from functrace.ops.functions import refuse
from functrace.ops.registry import Sample, apart, implements, normal


def _declared(name: str, *samples: Sample, **kwargs: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return implements(getattr(_scipy, name, None), samples, name=f"scipy.stats.{name}", **kwargs)


def _real(x: Any) -> Any:
    x = lift(x)
    return x if x.dtype.kind in "fc" else x.astype(float)


def _positive(*shape: int, **kwargs: Any) -> Sample:
    return Sample(lambda rng: (rng.uniform(0.5, 2.5, size=shape),), kwargs)


def _several(*kwargs: dict[str, Any], draw: Callable[..., Sample] = _positive, shapes: tuple[Any, ...] = ((5,), (3, 4))) -> list[Sample]:
    return [draw(*s) for s in shapes] + [draw(*shapes[-1], **kw) for kw in kwargs]


def _plain(x: Any, axis: Any, name: str, nan_policy: str = "propagate") -> tuple[Any, Any]:
    """The sample, with one axis for several, flat if `axis` is None, and the axis."""
    refuse(name, nan_policy=("propagate" if nan_policy == "propagate" else nan_policy, "propagate"))
    x = _real(x)
    if axis is None:
        return np.reshape(x, -1), 0
    if not isinstance(axis, tuple):
        return x, normalize_axis_index(axis, x.ndim)
    axes = normalize_axis_tuple(axis, x.ndim)
    rest = tuple(k for k in range(x.ndim) if k not in axes)
    return np.reshape(np.transpose(x, (*rest, *axes)), (*(x.shape[k] for k in rest), math.prod(x.shape[k] for k in axes))), len(rest)


def _kept(x: Any, out: Any, axis: Any, keepdims: bool) -> Any:
    """`out`, with the reduced axes of x as axes of length 1 if asked for."""
    return out if not keepdims else np.reshape(out, (1,) * x.ndim) if axis is None else np.expand_dims(out, axis)


def _central(x: Any, order: int, axis: Any, keepdims: bool = False) -> Any:
    return np.mean((x - np.mean(x, axis=axis, keepdims=True)) ** order, axis=axis, keepdims=keepdims)


@_declared("zscore", *_several({"axis": 1}, {"axis": None}, {"ddof": 1}))
def zscore(a: Any, axis: Any = 0, ddof: int = 0, nan_policy: str = "propagate") -> Any:
    """`scipy.stats.zscore`."""
    return zmap(a, a, axis, ddof, nan_policy)


@_declared("zmap", Sample(normal((3,), (5,)), {}, (0, 1)), Sample(normal((2, 3), (2, 4)), {"axis": 1, "ddof": 1}, (0, 1)))
def zmap(scores: Any, compare: Any, axis: Any = 0, ddof: int = 0, nan_policy: str = "propagate") -> Any:
    """`scipy.stats.zmap`."""
    refuse("zmap", nan_policy=("propagate" if nan_policy == "propagate" else nan_policy, "propagate"))
    x = _real(compare)
    return (_real(scores) - np.mean(x, axis=axis, keepdims=True)) / np.std(x, axis=axis, ddof=ddof, keepdims=True)


@_declared("gzscore", *_several({"axis": 1}))
def gzscore(a: Any, *, axis: Any = 0, ddof: int = 0, nan_policy: str = "propagate") -> Any:
    """`scipy.stats.gzscore`."""
    return zscore(np.log(_real(a)), axis, ddof, nan_policy)


@_declared("moment", *(Sample(normal((3, 4)), {"order": k}) for k in (1, 2, 3, 4)), _positive(5, order=3, center=0.3))
def moment(a: Any, order: Any = 1, axis: Any = 0, nan_policy: str = "propagate", *, center: Any = None, keepdims: bool = False) -> Any:
    """`scipy.stats.moment`, of one order."""
    x, over = _plain(a, axis, "moment", nan_policy)
    refuse("moment", order=(None if np.ndim(order) == 0 else order, None))
    if center is None:
        out = 0 * np.mean(x, axis=over) if order == 1 else _central(x, int(order), over)
    else:
        out = np.mean((x - center) ** int(order), axis=over)
    return _kept(lift(a), out, axis, keepdims)


@_declared("skew", *_several({"axis": 1}, {"bias": False}, {"axis": None, "keepdims": True}, draw=_positive))
def skew(a: Any, axis: Any = 0, bias: bool = True, nan_policy: str = "propagate", *, keepdims: bool = False) -> Any:
    """`scipy.stats.skew`."""
    x, over = _plain(a, axis, "skew", nan_policy)
    n = x.shape[over]
    out = _central(x, 3, over) / _central(x, 2, over) ** 1.5
    return _kept(lift(a), out if bias or n < 3 else out * (math.sqrt((n - 1.0) * n) / (n - 2.0)), axis, keepdims)


@_declared("kurtosis", *_several({"axis": 1}, {"bias": False, "axis": 1}, {"fisher": False}, draw=_positive))
def kurtosis(
    a: Any, axis: Any = 0, fisher: bool = True, bias: bool = True, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Any:
    """`scipy.stats.kurtosis`."""
    x, over = _plain(a, axis, "kurtosis", nan_policy)
    n = x.shape[over]
    out = _central(x, 4, over) / _central(x, 2, over) ** 2
    if not bias and n > 3:
        out = 1.0 / (n - 2) / (n - 3) * ((n**2 - 1.0) * out - 3 * (n - 1) ** 2.0) + 3.0
    return _kept(lift(a), out - 3 if fisher else out, axis, keepdims)


def _mean_of(forward: Any, backward: Any) -> Callable[..., Any]:
    def mean(a: Any, axis: Any = 0, weights: Any = None, keepdims: bool = False) -> Any:
        average: Any = np.average
        return backward(average(forward(_real(a)), axis=axis, weights=weights, keepdims=keepdims))

    return mean


_WEIGHTED = {"weights": np.array([1.0, 2.0, 0.5, 1.5]), "axis": 1}


@_declared("gmean", *_several({"axis": None}, _WEIGHTED))
def gmean(a: Any, axis: Any = 0, dtype: Any = None, weights: Any = None, nan_policy: str = "propagate", *, keepdims: bool = False) -> Any:
    """`scipy.stats.gmean`."""
    refuse("gmean", dtype=(dtype, None), nan_policy=("propagate" if nan_policy == "propagate" else nan_policy, "propagate"))
    return _mean_of(np.log, np.exp)(a, axis, weights, keepdims)


@_declared("hmean", *_several({"axis": None}, _WEIGHTED))
def hmean(a: Any, axis: Any = 0, dtype: Any = None, *, weights: Any = None, nan_policy: str = "propagate", keepdims: bool = False) -> Any:
    """`scipy.stats.hmean`."""
    refuse("hmean", dtype=(dtype, None), nan_policy=("propagate" if nan_policy == "propagate" else nan_policy, "propagate"))
    return _mean_of(lambda x: 1 / x, lambda y: 1 / y)(a, axis, weights, keepdims)


@_declared("pmean", _positive(5, p=2), _positive(3, 4, p=0), _positive(3, 4, p=-1.5, **_WEIGHTED))
def pmean(
    a: Any, p: Any, *, axis: Any = 0, dtype: Any = None, weights: Any = None, nan_policy: str = "propagate", keepdims: bool = False
) -> Any:
    """`scipy.stats.pmean`."""
    refuse("pmean", dtype=(dtype, None), nan_policy=("propagate" if nan_policy == "propagate" else nan_policy, "propagate"))
    if np.ndim(p) == 0 and p == 0:
        return gmean(a, axis, weights=weights, keepdims=keepdims)
    return _mean_of(lambda x: x**p, lambda y: y ** (1 / p))(a, axis, weights, keepdims)


@_declared("sem", *_several({"axis": 1}, {"ddof": 0}))
def sem(a: Any, axis: Any = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False) -> Any:
    """`scipy.stats.sem`."""
    x, over = _plain(a, axis, "sem", nan_policy)
    return _kept(lift(a), np.std(x, axis=over, ddof=ddof) / math.sqrt(x.shape[over]), axis, keepdims)


@_declared("variation", *_several({"axis": 1}, {"ddof": 1}))
def variation(a: Any, axis: Any = 0, nan_policy: str = "propagate", ddof: int = 0, *, keepdims: bool = False) -> Any:
    """`scipy.stats.variation`."""
    x, over = _plain(a, axis, "variation", nan_policy)
    return _kept(lift(a), np.std(x, axis=over, ddof=ddof) / np.mean(x, axis=over), axis, keepdims)


@_declared("gstd", *_several({"axis": 1}, {"ddof": 0}))
def gstd(a: Any, axis: Any = 0, ddof: int = 1, *, keepdims: bool = False, nan_policy: str = "propagate") -> Any:
    """`scipy.stats.gstd`."""
    x, over = _plain(a, axis, "gstd", nan_policy)
    return _kept(lift(a), np.exp(np.std(np.log(x), axis=over, ddof=ddof)), axis, keepdims)


def _limited(name: str, axis: Any, ddof: int | None, summary: Callable[..., Any]) -> Any:
    """`tmean` and the like, without limits."""
    default_axis, default_ddof = axis, ddof

    def function(
        a: Any,
        limits: Any = None,
        inclusive: Any = (True, True),
        axis: Any = default_axis,
        ddof: Any = default_ddof,
        nan_policy: str = "propagate",
        keepdims: bool = False,
    ) -> Any:
        refuse(name, limits=(limits, None))
        x, over = _plain(a, axis, name, nan_policy)
        return _kept(lift(a), summary(x, over, ddof), axis, keepdims)

    function.__name__, function.__doc__ = name, f"`scipy.stats.{name}`, without limits."
    return _declared(name, *_several({"axis": 1}))(function)


_limited("tmean", None, None, lambda x, over, _ddof: np.mean(x, axis=over))
_limited("tvar", 0, 1, lambda x, over, ddof: np.var(x, axis=over, ddof=ddof))
_limited("tstd", 0, 1, lambda x, over, ddof: np.std(x, axis=over, ddof=ddof))
_limited("tsem", 0, 1, lambda x, over, ddof: np.std(x, axis=over, ddof=ddof) / math.sqrt(x.shape[over]))


@_declared("trim_mean", _positive(7, proportiontocut=0.2), _positive(3, 6, proportiontocut=0.2, axis=1))
def trim_mean(a: Any, proportiontocut: float, axis: Any = 0, *, nan_policy: str = "propagate", keepdims: bool = False) -> Any:
    """`scipy.stats.trim_mean`."""
    x, over = _plain(a, axis, "trim_mean", nan_policy)
    x = np.moveaxis(np.sort(x, axis=over), over, 0)
    cut = int(proportiontocut * x.shape[0])
    return _kept(lift(a), np.mean(x[cut : x.shape[0] - cut], axis=0), axis, keepdims)


@_declared(
    "iqr",
    *(
        Sample(apart(s), kw)
        for s, kw in (((7,), {}), ((3, 6), {"axis": 1}), ((7,), {"rng": (10, 80), "scale": 2.0}), ((7,), {"scale": "normal"}))
    ),
)
def iqr(
    x: Any,
    axis: Any = None,
    rng: Any = (25, 75),
    scale: Any = 1.0,
    nan_policy: str = "propagate",
    interpolation: str = "linear",
    keepdims: bool = False,
) -> Any:
    """`scipy.stats.iqr`."""
    refuse("iqr", nan_policy=("propagate" if nan_policy == "propagate" else nan_policy, "propagate"))
    percentile: Any = np.percentile
    low, high = (percentile(_real(x), q, axis=axis, method=interpolation, keepdims=keepdims) for q in sorted(rng))
    return (high - low) / (1.3489795003921634 if isinstance(scale, str) else scale)


@_declared("median_abs_deviation", *(Sample(apart(s), kw) for s, kw in (((7,), {}), ((3, 5), {"axis": 1}), ((7,), {"scale": "normal"}))))
def median_abs_deviation(
    x: Any, axis: Any = 0, center: Any = np.median, scale: Any = 1.0, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Any:
    """`scipy.stats.median_abs_deviation`."""
    a, over = _plain(x, axis, "median_abs_deviation", nan_policy)
    middle = np.expand_dims(center(a, axis=over), over)
    out = np.median(np.abs(a - middle), axis=over)
    return _kept(lift(x), out / (0.6744897501960817 if isinstance(scale, str) else scale), axis, keepdims)


@_declared(
    "entropy",
    *_several({"axis": 1, "base": 2.0}),
    Sample(lambda rng: (rng.uniform(0.5, 1, size=4), rng.uniform(0.5, 1, size=4)), wrt=(0, 1)),
)
def entropy(pk: Any, qk: Any = None, base: Any = None, axis: Any = 0, *, nan_policy: str = "propagate", keepdims: bool = False) -> Any:
    """`scipy.stats.entropy`."""
    whole = np.broadcast_arrays(lift(pk), *([] if qk is None else [lift(qk)]))
    shares = []
    for k in whole:
        x, over = _plain(k, axis, "entropy", nan_policy)
        shares.append(x / np.sum(x, axis=over, keepdims=True))
    out = np.sum(sp.entr(*shares) if qk is None else sp.rel_entr(*shares), axis=over)
    out = out if base is None else out / (math.log(base) if isinstance(base, (int, float)) else np.log(base))
    return _kept(whole[0], out, axis, keepdims)


@_declared("boxcox_llf", Sample(lambda rng: (0.4, rng.uniform(0.5, 2.5, size=6)), wrt=(0, 1)))
def boxcox_llf(lmb: Any, data: Any, *, axis: Any = 0, keepdims: bool = False, nan_policy: str = "propagate") -> Any:
    """`scipy.stats.boxcox_llf`."""
    x, over = _plain(data, axis, "boxcox_llf", nan_policy)
    out = (lmb - 1) * np.sum(np.log(x), axis=over) - x.shape[over] / 2 * np.log(np.var(sp.boxcox(x, lmb), axis=over))
    return _kept(lift(data), out.astype(x.dtype), axis, keepdims)


@_declared("boxcox", Sample(lambda rng: (rng.uniform(0.5, 2.5, size=6), 0.4), wrt=(0, 1)))
def boxcox(x: Any, lmbda: Any = None, alpha: Any = None, optimizer: Any = None) -> Any:
    """`scipy.stats.boxcox` with a given `lmbda`."""
    refuse("boxcox", lmbda=("missing" if lmbda is None else None, None), alpha=(alpha, None))
    return sp.boxcox(_real(x), lmbda)


def _yeojohnson(x: Any, lmb: Any) -> Any:
    up = x >= 0
    grow, shrink = np.where(up, x, 0.0), np.where(up, 0.0, x)
    return np.where(up, sp.boxcox1p(grow, lmb), -sp.boxcox1p(-shrink, 2 - lmb)).astype(x.dtype)


@_declared("yeojohnson", Sample(lambda rng: (rng.normal(size=6), 0.4), wrt=(0, 1)))
def yeojohnson(x: Any, lmbda: Any = None) -> Any:
    """`scipy.stats.yeojohnson` with a given `lmbda`."""
    refuse("yeojohnson", lmbda=("missing" if lmbda is None else None, None))
    return _yeojohnson(_real(x), lift(lmbda))


@_declared("yeojohnson_llf", Sample(lambda rng: (0.4, rng.normal(size=6)), wrt=(0, 1)))
def yeojohnson_llf(lmb: Any, data: Any, *, axis: Any = 0, nan_policy: str = "propagate", keepdims: bool = False) -> Any:
    """`scipy.stats.yeojohnson_llf`."""
    x, over = _plain(data, axis, "yeojohnson_llf", nan_policy)
    out = -x.shape[over] / 2 * np.log(np.var(_yeojohnson(x, lift(lmb)), axis=over)) + (lmb - 1) * np.sum(
        np.sign(x) * np.log1p(np.abs(x)), axis=over
    )
    return _kept(lift(data), out.astype(x.dtype), axis, keepdims)


def _cdf_distance(u: Any, v: Any, u_weights: Any, v_weights: Any) -> tuple[Any, Any]:
    """The difference of the distribution functions of two samples, and the widths of the steps."""

    def steps(x: Any, weights: Any, at: Any) -> Any:
        order = np.argsort(x)
        count = np.searchsorted(np.take_along_axis(x, order, 0), at, side="right")
        if weights is None:
            return count / x.shape[0]
        total = np.cumsum(np.take_along_axis(_real(weights), order, 0))
        total = np.concatenate([np.zeros(1), total])
        return np.take_along_axis(total, count, 0) / total[-1]

    u, v = _real(u), _real(v)
    both = np.sort(np.concatenate([u, v]))
    return steps(u, u_weights, both[:-1]) - steps(v, v_weights, both[:-1]), both[1:] - both[:-1]


_PAIRS = [
    Sample(lambda rng: (rng.permutation(6) + 0.1 * rng.random(6), rng.permutation(5) + 0.35 + 0.1 * rng.random(5)), wrt=(0, 1)),
    Sample(lambda rng: (np.arange(4.0), np.arange(3) + 0.4, rng.uniform(0.5, 1, size=4), rng.uniform(0.5, 1, size=3)), wrt=(0, 1, 2, 3)),
]


@_declared("wasserstein_distance", *_PAIRS)
def wasserstein_distance(u_values: Any, v_values: Any, u_weights: Any = None, v_weights: Any = None) -> Any:
    """`scipy.stats.wasserstein_distance`."""
    difference, widths = _cdf_distance(u_values, v_values, u_weights, v_weights)
    return np.sum(np.abs(difference) * widths)


@_declared("energy_distance", *_PAIRS)
def energy_distance(u_values: Any, v_values: Any, u_weights: Any = None, v_weights: Any = None) -> Any:
    """`scipy.stats.energy_distance`."""
    difference, widths = _cdf_distance(u_values, v_values, u_weights, v_weights)
    return np.sqrt(2 * np.sum(difference**2 * widths))


def _circle(name: str, samples: Any, high: Any, low: Any, axis: Any, nan_policy: str) -> tuple[Any, Any, Any]:
    x, over = _plain(samples, axis, name, nan_policy)
    angle = (x - low) * (2 * np.pi / (high - low))
    return np.mean(np.sin(angle), axis=over), np.mean(np.cos(angle), axis=over), high - low


@_declared("circmean", *_several({"axis": 1}, {"high": 3.0}))
def circmean(
    samples: Any, high: Any = 2 * np.pi, low: Any = 0, axis: Any = None, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Any:
    """`scipy.stats.circmean`."""
    s, c, period = _circle("circmean", samples, high, low, axis, nan_policy)
    angle = np.arctan2(s, c)
    out = np.where(angle < 0, angle + 2 * np.pi, angle) * (period / (2 * np.pi)) + low
    return _kept(lift(samples), out, axis, keepdims)


@_declared("circvar", *_several({"axis": 1}))
def circvar(
    samples: Any, high: Any = 2 * np.pi, low: Any = 0, axis: Any = None, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Any:
    """`scipy.stats.circvar`."""
    s, c, _ = _circle("circvar", samples, high, low, axis, nan_policy)
    return _kept(lift(samples), 1 - np.hypot(s, c), axis, keepdims)


@_declared("circstd", *_several({"axis": 1}, {"normalize": True}))
def circstd(
    samples: Any,
    high: Any = 2 * np.pi,
    low: Any = 0,
    axis: Any = None,
    nan_policy: str = "propagate",
    *,
    normalize: bool = False,
    keepdims: bool = False,
) -> Any:
    """`scipy.stats.circstd`."""
    s, c, period = _circle("circstd", samples, high, low, axis, nan_policy)
    out = np.sqrt(-2 * np.log(np.hypot(s, c)))
    return _kept(lift(samples), out if normalize else out * (period / (2 * np.pi)), axis, keepdims)


@_declared("kstat", *(_positive(6, n=k) for k in (1, 2, 3, 4)), _positive(3, 6, n=3, axis=1))
def kstat(data: Any, n: int = 2, *, axis: Any = None, nan_policy: str = "propagate", keepdims: bool = False) -> Any:
    """`scipy.stats.kstat`: unbiased estimates of the cumulants."""
    x, over = _plain(data, axis, "kstat", nan_policy)
    m = float(x.shape[over])
    if n == 1:
        out = np.mean(x, axis=over)
    else:
        two, three, four = (_central(x, k, over) * m for k in (2, 3, 4))
        out = {
            2: lambda: two / (m - 1),
            3: lambda: m * three / ((m - 1) * (m - 2)),
            4: lambda: m * ((m + 1) * four - 3 * (m - 1) / m * two**2) / ((m - 1) * (m - 2) * (m - 3)),
        }[n]()
    return _kept(lift(data), out, axis, keepdims)


_REASONS = {
    "it depends on the ranks of the data only, so it is piecewise constant": "find_repeats kendalltau spearmanr spearmanrho weightedtau "
    "somersd rankdata mannwhitneyu wilcoxon ranksums kruskal friedmanchisquare brunnermunzel ks_1samp ks_2samp kstest siegelslopes "
    "theilslopes percentileofscore chatterjeexi tiecorrect page_trend_test",
    "it draws random numbers": "bootstrap permutation_test monte_carlo_test power sobol_indices goodness_of_fit",
    "a test on counts, or whose p-value comes from tables or resampling": "anderson anderson_ksamp ansari barnard_exact bartlett "
    "binomtest boschloo_exact chi2_contingency cramervonmises cramervonmises_2samp dunnett epps_singleton_2samp fisher_exact fligner "
    "levene mood normaltest kurtosistest skewtest shapiro tukey_hsd multiscale_graphcorr poisson_means_test alexandergovern median_test "
    "bws_test quantile_test",
    "an inner optimisation, use functrace.optimize on the log-likelihood": "boxcox_normmax yeojohnson_normmax ppcc_max fit",
    "not covered yet": "binned_statistic binned_statistic_2d binned_statistic_dd cumfreq relfreq mode trim1 trimboth sigmaclip "
    "differential_entropy expectile directional_stats ecdf logrank false_discovery_control quantile scoreatpercentile "
    "lmoment wasserstein_distance_nd bayes_mvs mvsdist obrientransform "
    "estimated_cdf",
}
REFUSED: dict[str, str] = {name: reason for reason, names in _REASONS.items() for name in names.split()}
