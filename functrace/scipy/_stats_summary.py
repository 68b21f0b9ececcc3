"""Summaries and statistics of samples."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special as sp
import scipy.stats as _scipy
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from functrace import errors
from functrace.ops.create import lift, number
from functrace.ops.functions import refuse
from functrace.ops.registry import Sample, apart, each, one
from functrace.ops.statistics import as_float
from functrace.places import user_line
from functrace.scipy._shared import by_name, declarer, named, one_of, only_first, root

_declared = declarer(_scipy)


def _positive(*shape: int, **kwargs: Any) -> Sample:
    return Sample(lambda rng: (rng.uniform(0.5, 2.5, size=shape),), kwargs)


def _several(*kwargs: dict[str, Any]) -> list[Sample]:
    return [_positive(5), _positive(3, 4), *(_positive(3, 4, **kw) for kw in kwargs)]


_named = functools.partial(named, _scipy)


def _plain(x: Any, axis: Any) -> tuple[Any, Any]:
    """The sample, with one axis for several, flat if `axis` is None, and the axis."""
    x = as_float(x)
    if axis is None:
        return np.reshape(x, -1), 0
    if not isinstance(axis, tuple):
        return x, normalize_axis_index(axis, x.ndim)
    axes = normalize_axis_tuple(axis, x.ndim)
    rest = tuple(k for k in range(x.ndim) if k not in axes)
    return np.reshape(np.transpose(x, (*rest, *axes)), (*(x.shape[k] for k in rest), math.prod(x.shape[k] for k in axes))), len(rest)


def _kept(x: Any, out: Any, axis: Any, keepdims: bool) -> Any:
    return number(out) if not keepdims else np.reshape(out, (1,) * x.ndim) if axis is None else np.expand_dims(out, axis)


def _summary(name: str, *samples: Sample, data: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare what is taken along `axis`, as a function of the sample, with one axis for several, of that axis, and of what else there is.

    `data` is SciPy's name for the sample, if that is not the first argument.
    """
    first = data or next(iter(inspect.signature(getattr(_scipy, name)).parameters))

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(**rest: Any) -> Any:
            refuse(name, nan_policy=(rest.pop("nan_policy", "propagate"), "propagate"))
            a, axis, keepdims = rest.pop(first), rest.pop("axis", None), rest.pop("keepdims", False)
            x, over = _plain(a, axis)
            return _kept(lift(a), function(x, over, **rest), axis, keepdims)

        call.__doc__ = function.__doc__
        return _named(name, *samples)(call)

    return enter


def _central(x: Any, order: int, axis: Any) -> Any:
    return np.mean((x - np.mean(x, axis=axis, keepdims=True)) ** order, axis=axis)


@_named("zscore", *_several({"axis": 1}, {"axis": None}, {"ddof": 1}))
def zscore(a: Any, axis: Any, ddof: int) -> Any:
    return zmap(a, a, axis, ddof)


@_named("zmap", each((3,), (5,)), each((2, 3), (2, 4), axis=1, ddof=1))
def zmap(scores: Any, compare: Any, axis: Any, ddof: int) -> Any:
    x = as_float(compare)
    return (as_float(scores) - np.mean(x, axis=axis, keepdims=True)) / np.std(x, axis=axis, ddof=ddof, keepdims=True)


@_named("gzscore", *_several({"axis": 1}))
def gzscore(a: Any, axis: Any, ddof: int) -> Any:
    return zscore(np.log(as_float(a)), axis, ddof)


@_summary("moment", *(one(3, 4, order=k) for k in (1, 2, 3, 4)), _positive(5, order=3, center=0.3))
def moment(x: Any, axis: int, order: Any, center: Any) -> Any:
    """`scipy.stats.moment`, of one order."""
    refuse("moment", order=(None if np.ndim(order) == 0 else order, None))
    if order < 0 or order != round(order):
        raise ValueError(f"moment: order={order} must be a whole number, at least 0")
    if center is None:
        return 0 * np.mean(x, axis=axis) if order == 1 else _central(x, int(order), axis)
    return np.mean((x - center) ** int(order), axis=axis)


@_summary("skew", *_several({"axis": 1}, {"bias": False}, {"axis": None, "keepdims": True}))
def skew(x: Any, axis: int, bias: bool) -> Any:
    n = x.shape[axis]
    out = _central(x, 3, axis) / _central(x, 2, axis) ** 1.5
    return out if bias or n < 3 else out * (math.sqrt((n - 1.0) * n) / (n - 2.0))


@_summary("kurtosis", *_several({"axis": 1}, {"bias": False, "axis": 1}, {"fisher": False}))
def kurtosis(x: Any, axis: int, fisher: bool, bias: bool) -> Any:
    n = x.shape[axis]
    out = _central(x, 4, axis) / _central(x, 2, axis) ** 2
    if not bias and n > 3:
        out = 1.0 / (n - 2) / (n - 3) * ((n**2 - 1.0) * out - 3 * (n - 1) ** 2.0) + 3.0
    return out - 3 if fisher else out


def _mean_of(forward: Any, backward: Any) -> Callable[..., Any]:
    def mean(a: Any, axis: Any, weights: Any, keepdims: bool) -> Any:
        average: Any = np.average
        x = as_float(a)
        return backward(average(forward(np.where(x < 0, np.nan, x)), axis=axis, weights=weights, keepdims=keepdims))

    return mean


_WEIGHTED = {"weights": np.array([1.0, 2.0, 0.5, 1.5]), "axis": 1}
_geometric = _mean_of(np.log, np.exp)
_named("gmean", *_several({"axis": None}, _WEIGHTED))(_geometric)
_named("hmean", *_several({"axis": None}, _WEIGHTED))(_mean_of(lambda x: 1 / x, lambda y: 1 / y))


@_named("pmean", _positive(5, p=2), _positive(3, 4, p=0), _positive(3, 4, p=-1.5, **_WEIGHTED))
def pmean(a: Any, p: Any, axis: Any, weights: Any, keepdims: bool) -> Any:
    if np.ndim(p) or p != 0:
        return _mean_of(lambda x: x**p, lambda y: y ** (1 / p))(a, axis, weights, keepdims)
    only_first("pmean of order 0", p)
    return _geometric(a, axis, weights, keepdims)


def _standard_error(x: Any, axis: int, ddof: int) -> Any:
    return np.std(x, axis=axis, ddof=ddof) / math.sqrt(x.shape[axis])


_summary("sem", *_several({"axis": 1}, {"ddof": 0}))(_standard_error)


@_summary("variation", *_several({"axis": 1}, {"ddof": 1}))
def variation(x: Any, axis: int, ddof: int) -> Any:
    return np.std(x, axis=axis, ddof=ddof) / np.mean(x, axis=axis)


@_summary("gstd", *_several({"axis": 1}, {"ddof": 0}))
def gstd(x: Any, axis: int, ddof: int) -> Any:
    return np.exp(np.std(np.log(x), axis=axis, ddof=ddof))


def _limited(name: str, summary: Callable[..., Any]) -> None:
    """`tmean` and the like, without limits."""

    def function(x: Any, axis: int, limits: Any, inclusive: Any, **ddof: Any) -> Any:
        refuse(name, limits=(limits, None))
        return summary(x, axis=axis, **ddof)

    function.__doc__ = f"`scipy.stats.{name}`, without limits."
    _summary(name, *_several({"axis": 1}))(function)


_limited("tmean", np.mean)
_limited("tvar", np.var)
_limited("tstd", np.std)
_limited("tsem", _standard_error)


@_summary("trim_mean", _positive(7, proportiontocut=0.2), _positive(3, 6, proportiontocut=0.2, axis=1))
def trim_mean(x: Any, axis: int, proportiontocut: float) -> Any:
    x = np.moveaxis(np.sort(x, axis=axis), axis, 0)
    cut = int(proportiontocut * x.shape[0])
    return np.where(np.any(np.isnan(x), axis=0), np.nan, np.mean(x[cut : x.shape[0] - cut], axis=0))


@_named(
    "iqr",
    *(
        Sample(apart(s), kw)
        for s, kw in (((7,), {}), ((3, 6), {"axis": 1}), ((7,), {"rng": (10, 80), "scale": 2.0}), ((7,), {"scale": "normal"}))
    ),
)
def iqr(x: Any, axis: Any, rng: Any, scale: Any, interpolation: str, keepdims: bool) -> Any:
    percentile: Any = np.percentile
    low, high = (percentile(as_float(x), q, axis=axis, method=interpolation, keepdims=keepdims) for q in sorted(rng))
    return (high - low) / _of_normal(scale, 1.3489795003921634)


def _of_normal(scale: Any, normal: float) -> Any:
    if isinstance(scale, str):
        one_of("scale", scale, "normal")
        return normal
    return scale


def _around(*shape: int, **kwargs: Any) -> Sample:
    """Rows on both sides of their medians, at distances that are well apart."""
    k = np.arange(shape[-1])
    return Sample(lambda rng: (rng.permuted((-1.0) ** k * (0.3 * k + 0.05 * rng.random(shape)), axis=-1),), kwargs)


@_summary("median_abs_deviation", _around(7), _around(3, 5, axis=1), _around(7, scale="normal"))
def median_abs_deviation(x: Any, axis: int, center: Any, scale: Any) -> Any:
    middle = np.expand_dims((center or np.median)(x, axis=axis), axis)
    return np.median(np.abs(x - middle), axis=axis) / _of_normal(scale, 0.6744897501960817)


@_named(
    "entropy",
    *_several({"axis": 1, "base": 2.0}),
    Sample(lambda rng: (rng.uniform(0.5, 1, size=4), rng.uniform(0.5, 1, size=4)), wrt=(0, 1)),
)
def entropy(pk: Any, qk: Any, base: Any, axis: Any, keepdims: bool) -> Any:
    whole = np.broadcast_arrays(lift(pk), *([] if qk is None else [lift(qk)]))
    shares = []
    for k in whole:
        x, over = _plain(k, axis)
        shares.append(x / np.sum(x, axis=over, keepdims=True))
    out = np.sum(sp.entr(*shares) if qk is None else sp.rel_entr(*shares), axis=over)
    out = out if base is None else out / (math.log(base) if isinstance(base, (int, float)) else np.log(base))
    return _kept(whole[0], out, axis, keepdims)


@_summary("boxcox_llf", Sample(lambda rng: (0.4, rng.uniform(0.5, 2.5, size=6)), wrt=(0, 1)), data="data")
def boxcox_llf(x: Any, axis: int, lmb: Any) -> Any:
    out = (lmb - 1) * np.sum(np.log(x), axis=axis) - x.shape[axis] / 2 * np.log(np.var(sp.boxcox(x, lmb), axis=axis))
    return out.astype(x.dtype)


def _given(name: str, lmbda: Any) -> Any:
    if lmbda is None:
        raise errors.UnsupportedError(f"{name}: the search for lmbda has no derivative rule in functrace.\n  Pass lmbda.")
    return lmbda


@_named("boxcox", Sample(lambda rng: (rng.uniform(0.5, 2.5, size=6), 0.4), wrt=(0, 1)))
def boxcox(x: Any, lmbda: Any) -> Any:
    """`scipy.stats.boxcox` with a given `lmbda`."""
    return sp.boxcox(as_float(x), _given("boxcox", lmbda))


def _yeojohnson(x: Any, lmb: Any) -> Any:
    up = x >= 0
    grow, shrink = np.where(up, x, 0.0), np.where(up, 0.0, x)
    return np.where(up, sp.boxcox1p(grow, lmb), -sp.boxcox1p(-shrink, 2 - lmb)).astype(x.dtype)


@_declared("yeojohnson", Sample(lambda rng: (rng.normal(size=6), 0.4), wrt=(0, 1)))
def yeojohnson(x: Any, lmbda: Any = None) -> Any:
    """`scipy.stats.yeojohnson` with a given `lmbda`."""
    return _yeojohnson(as_float(x), lift(_given("yeojohnson", lmbda)))


@_summary("yeojohnson_llf", Sample(lambda rng: (0.4, rng.normal(size=6)), wrt=(0, 1)), data="data")
def yeojohnson_llf(x: Any, axis: int, lmb: Any) -> Any:
    slopes = (lmb - 1) * np.sum(np.sign(x) * np.log1p(np.abs(x)), axis=axis)
    return (-x.shape[axis] / 2 * np.log(np.var(_yeojohnson(x, lift(lmb)), axis=axis)) + slopes).astype(x.dtype)


def _cdf_distance(u: Any, v: Any, u_weights: Any, v_weights: Any) -> tuple[Any, Any]:
    """The difference of the distribution functions of two samples, and the widths of the steps."""

    def steps(x: Any, weights: Any, at: Any) -> Any:
        if weights is not None and (np.shape(weights) != x.shape or np.any(np.less(weights, 0))):
            raise ValueError(f"weights must be as many as the values, {x.shape[0]}, and not negative.\n  At {user_line()}.")
        order = np.argsort(x)
        count = np.searchsorted(np.take_along_axis(x, order, 0), at, side="right")
        if weights is None:
            return count / x.shape[0]
        total = np.cumsum(np.take_along_axis(as_float(weights), order, 0))
        total = np.concatenate([np.zeros(1), total])
        return np.take_along_axis(total, count, 0) / total[-1]

    u, v = as_float(u), as_float(v)
    both = np.sort(np.concatenate([u, v]))
    return steps(u, u_weights, both[:-1]) - steps(v, v_weights, both[:-1]), both[1:] - both[:-1]


_PAIRS = [
    Sample(lambda rng: (rng.permutation(6) + 0.1 * rng.random(6), rng.permutation(5) + 0.35 + 0.1 * rng.random(5)), wrt=(0, 1)),
    Sample(lambda rng: (np.arange(4.0), np.arange(3) + 0.4, rng.uniform(0.5, 1, size=4), rng.uniform(0.5, 1, size=3)), wrt=(0, 1, 2, 3)),
]


@_declared("wasserstein_distance", *_PAIRS)
def wasserstein_distance(u_values: Any, v_values: Any, u_weights: Any = None, v_weights: Any = None) -> Any:
    difference, widths = _cdf_distance(u_values, v_values, u_weights, v_weights)
    return np.sum(np.abs(difference) * widths)


@_declared("energy_distance", *_PAIRS)
def energy_distance(u_values: Any, v_values: Any, u_weights: Any = None, v_weights: Any = None) -> Any:
    difference, widths = _cdf_distance(u_values, v_values, u_weights, v_weights)
    return root(2 * np.sum(difference**2 * widths))


def _circle(x: Any, axis: int, high: Any, low: Any) -> tuple[Any, Any, Any]:
    angle = (x - low) * (2 * np.pi / (high - low))
    return np.mean(np.sin(angle), axis=axis), np.mean(np.cos(angle), axis=axis), (high - low) / (2 * np.pi)


@_summary("circmean", *_several({"axis": 1}, {"high": 3.0}))
def circmean(x: Any, axis: int, high: Any, low: Any) -> Any:
    s, c, scale = _circle(x, axis, high, low)
    angle = np.arctan2(s, c)
    return np.where(angle < 0, angle + 2 * np.pi, angle) * scale + low


@_summary("circvar", *_several({"axis": 1}))
def circvar(x: Any, axis: int, high: Any, low: Any) -> Any:
    s, c, _ = _circle(x, axis, high, low)
    return 1 - np.hypot(s, c)


@_summary("circstd", *_several({"axis": 1}, {"normalize": True}))
def circstd(x: Any, axis: int, high: Any, low: Any, normalize: bool) -> Any:
    s, c, scale = _circle(x, axis, high, low)
    out = root(-2 * np.log(np.minimum(np.hypot(s, c), 1.0)))
    return out if normalize else out * scale


def _skewed(*shape: int, **kwargs: Any) -> Sample:
    return Sample(lambda rng: (rng.uniform(0.3, 1.3, size=shape) ** 3,), kwargs)


@_summary("kstat", *(_skewed(6, n=k) for k in (1, 2, 3, 4)), _skewed(3, 6, n=3, axis=1))
def kstat(x: Any, axis: int, n: int) -> Any:
    """`scipy.stats.kstat`: unbiased estimates of the cumulants."""
    m = float(x.shape[axis])
    one_of("n", int(n), 1, 2, 3, 4)
    if n == 1:
        return np.mean(x, axis=axis)
    two, three, four = (_central(x, k, axis) * m for k in (2, 3, 4))
    return {
        2: lambda: two / (m - 1),
        3: lambda: m * three / ((m - 1) * (m - 2)),
        4: lambda: m * ((m + 1) * four - 3 * (m - 1) / m * two**2) / ((m - 1) * (m - 2) * (m - 3)),
    }[n]()


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
REFUSED = by_name(_REASONS)
