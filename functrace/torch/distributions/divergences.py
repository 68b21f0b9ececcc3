"""How far one distribution is from another: the table of `kl_divergence`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch import linalg
from functrace.torch._ops import FUNCTIONS
from functrace.torch._tensor import Tensor
from functrace.torch.distributions.composed import Independent, TransformedDistribution
from functrace.torch.distributions.continuous import Cauchy, Exponential, Gamma, HalfNormal, Laplace, LogNormal, Normal, Uniform
from functrace.torch.distributions.discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from functrace.torch.distributions.distribution import summed
from functrace.torch.distributions.further import ContinuousBernoulli, Gumbel, Pareto
from functrace.torch.distributions.multivariate import Beta, Dirichlet, LowRankMultivariateNormal, MultivariateNormal, Wishart
from functrace.torch.nn import functional

F: Any = functional
T: Any = FUNCTIONS

_KL: dict[tuple[type, type], Callable[[Any, Any], Any]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Callable[[Any, Any], Any]], Callable[[Any, Any], Any]]:
    """Decorates the function that `kl_divergence` is to call for two classes of distributions."""

    def enter(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        _KL[type_p, type_q] = function
        return function

    return enter


def kl_divergence(p: Any, q: Any) -> Any:
    """The mean of `p.log_prob - q.log_prob` under p (S. Kullback and R. A. Leibler 1951).

    Raises NotImplementedError for pairs that have no formula here.

    >>> from functrace.torch.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 2.0))
    tensor(0.4431)
    """
    found = [(type(p).__mro__.index(a) + type(q).__mro__.index(b), f) for (a, b), f in _KL.items() if isinstance(p, a) and isinstance(q, b)]
    if not found:
        raise _unknown(p, q)
    return min(found, key=lambda row: row[0])[1](p, q)


def _unknown(p: Any, q: Any) -> NotImplementedError:
    return NotImplementedError(f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}")


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(LogNormal, LogNormal)
@register_kl(HalfNormal, HalfNormal)
def _of_normal(p: Any, q: Any) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    t1 = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    t1 = T["where"](q.probs == 0, math.inf, t1).masked_fill(p.probs == 0, 0)
    t2 = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    t2 = T["where"](q.probs == 1, math.inf, t2).masked_fill(p.probs == 1, 0)
    return t1 + t2


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return T["where"](p.total_count > q.total_count, math.inf, kl)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    t = p.probs * (p.logits - q.logits)
    t = T["where"](q.probs == 0, math.inf, t)
    return T["where"](p.probs == 0, 0.0, t).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * (-away / p.scale).exp() - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    lgamma, a, b = T["lgamma"], p.concentration, q.concentration
    return b * (p.rate / q.rate).log() + lgamma(b) - lgamma(a) + (a - b) * T["digamma"](a) + (q.rate - p.rate) * (a / p.rate)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    lgamma, digamma, a, b = T["lgamma"], T["digamma"], p.concentration, q.concentration
    total = a.sum(-1)
    sizes = lgamma(total) - lgamma(b.sum(-1)) - (lgamma(a) - lgamma(b)).sum(-1)
    return sizes + ((a - b) * (digamma(a) - digamma(total).unsqueeze(-1))).sum(-1)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Wishart, Wishart)
def _wishart(p: Any, q: Any) -> Any:
    n, a, b = p.event_shape[-1], p.df / 2, q.df / 2
    ratio = linalg.solve_triangular(q.scale_tril, p.scale_tril, upper=False)
    mean = sum(T["digamma"](a - k / 2) for k in range(n))
    traces = a * (ratio.pow(2).sum((-2, -1)) - n) - 2 * b * ratio.diagonal(0, -2, -1).log().sum(-1)
    return T["mvlgamma"](b, n) - T["mvlgamma"](a, n) + (a - b) * mean + traces


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _multivariate(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two Multivariate Normals with different event shapes cannot be computed")
    n = p.event_shape[0]
    spread = linalg.solve_triangular(q._unbroadcasted_scale_tril, p._unbroadcasted_scale_tril, upper=False).pow(2).sum((-2, -1))
    away = linalg.solve_triangular(q._unbroadcasted_scale_tril, (q.loc - p.loc).unsqueeze(-1), upper=False).pow(2).sum((-2, -1))
    return q._half_log_det() - p._half_log_det() + 0.5 * (spread + away - n)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return summed(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("KL between TransformedDistributions of different transforms or event shapes is not implemented")
    kept = len(p.event_shape) - len(p.base_dist.event_shape)
    return summed(kl_divergence(p.base_dist, q.base_dist), kept)


# of two kinds: minus the entropy of p, minus the mean of the logarithm of q's density, which a few moments of p give


def _log_between(low: Any, high: Any) -> Any:
    return (T["xlogy"](high, high) - T["xlogy"](low, low)) / (high - low) - 1


_LOG: Any = {  # the mean of log(x)
    Beta: lambda p: T["digamma"](p.concentration1) - T["digamma"](p.concentration1 + p.concentration0),
    Exponential: lambda p: -np.euler_gamma - p.rate.log(),
    Gamma: lambda p: T["digamma"](p.concentration) - p.rate.log(),
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: lambda p: _log_between(p.low, p.high),
}
_EXP: Any = {  # the logarithm of the mean of exp(-x / s)
    Exponential: lambda p, s: -(p.rate * s).reciprocal().log1p(),
    Gamma: lambda p, s: -p.concentration * (p.rate * s).reciprocal().log1p(),
    Gumbel: lambda p, s: T["lgamma"](1 + p.scale / s) - p.loc / s,
    Normal: lambda p, s: 0.5 * (p.scale / s).pow(2) - p.loc / s,
    Uniform: lambda p, s: (-((p.low - p.high) / s).expm1() * s / (p.high - p.low)).log() - p.low / s,
}


def _mean(table: Any, p: Any, q: Any, *s: Any) -> Any:
    for kind, of in table.items():
        if isinstance(p, kind):
            return of(p, *s)
    raise _unknown(p, q)


def _to_beta(p: Any, q: Any) -> Any:
    a, b, lgamma = q.concentration1, q.concentration0, T["lgamma"]
    log, rest = _mean(_LOG, p, q), _log_between(1 - p.high, 1 - p.low)  # of a uniform p: others have values above 1, or no first mean
    return lgamma(a) + lgamma(b) - lgamma(a + b) - (a - 1) * log - (b - 1) * rest


def _to_gamma(p: Any, q: Any) -> Any:
    a = q.concentration
    return T["lgamma"](a) - a * q.rate.log() - (a - 1) * _mean(_LOG, p, q) + q.rate * p.mean


_TO: Any = {  # minus the mean of the logarithm of q's density
    Beta: _to_beta,
    ContinuousBernoulli: lambda p, q: -p.mean * q.logits - (-q.probs).log1p() - q._log_norm(),
    Exponential: lambda p, q: q.rate * p.mean - q.rate.log(),
    Gamma: _to_gamma,
    Gumbel: lambda p, q: q.scale.log() + (p.mean - q.loc) / q.scale + (q.loc / q.scale + _mean(_EXP, p, q, q.scale)).exp(),
    Normal: lambda p, q: 0.5 * (2 * math.pi * q.variance).log() + 0.5 * (p.variance + (p.mean - q.loc).pow(2)) / q.variance,
    Pareto: lambda p, q: (q.alpha + 1) * _mean(_LOG, p, q) - q.alpha * q.scale.log() - q.alpha.log(),
    Uniform: lambda p, q: (q.high - q.low).log(),
}


def _nowhere(p: Any, q: Any) -> Any:
    """Where p has values that q has not."""
    return T["full_like"](p.mean + q.mean, math.inf)


def _bounds(support: Any) -> tuple[Any, Any]:
    return support.lower_bound, support.upper_bound


def _two_kinds(to: Any) -> Any:
    def divergence(p: Any, q: Any) -> Any:
        outside: Any = None
        for end, limit, beyond in zip(_bounds(p.support), _bounds(q.support), (operator.lt, operator.gt)):
            if limit is None:
                continue
            if end is None:
                return _nowhere(p, q)
            outside = beyond(end, limit) if outside is None else outside | beyond(end, limit)
        found = to(p, q) - p.entropy()
        return T["where"](outside, math.inf, found) if isinstance(outside, Tensor) else found

    return divergence


for _p in (*_TO, Laplace):
    for _q in _TO:
        if (_p, _q) not in _KL:
            register_kl(_p, _q)(_two_kinds(_TO[_q]))
for _p in (Beta, ContinuousBernoulli, Exponential, Gamma):
    register_kl(_p, Pareto)(_nowhere)
register_kl(Poisson, Bernoulli)(_nowhere), register_kl(Poisson, Binomial)(_nowhere)


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Any:
    away = (p.loc - q.loc) / p.scale
    mean = p.scale * (math.sqrt(2 / math.pi) * (-0.5 * away.pow(2)).exp() + away * T["erf"](math.sqrt(0.5) * away))
    return -p.entropy() + (2 * q.scale).log() + mean / q.scale


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)
