"""How far one distribution is from another: the table of `kl_divergence`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch._ops import FUNCTIONS
from functrace.torch.distributions.composed import Independent, TransformedDistribution
from functrace.torch.distributions.continuous import Exponential, Gamma, HalfNormal, Laplace, LogNormal, Normal, Uniform
from functrace.torch.distributions.discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from functrace.torch.distributions.distribution import summed
from functrace.torch.distributions.multivariate import Beta, Dirichlet, MultivariateNormal

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
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}")
    return min(found, key=lambda row: row[0])[1](p, q)


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
    from functrace.torch.nn.functional import softplus

    t1 = p.probs * (softplus(-q.logits) + p.probs.log())
    t1 = T["where"](q.probs == 0, math.inf, t1).masked_fill(p.probs == 0, 0)
    t2 = (1 - p.probs) * (softplus(q.logits) + (-p.probs).log1p())
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


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return T["where"]((q.low > p.low) | (q.high < p.high), math.inf, found)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


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


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p: Any, q: Any) -> Any:
    from functrace.torch import linalg

    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two Multivariate Normals with different event shapes cannot be computed")
    n = p.event_shape[0]
    spread = linalg.solve_triangular(q._factor, p._factor, upper=False).pow(2).sum((-2, -1))
    away = linalg.solve_triangular(q._factor, (q.loc - p.loc).unsqueeze(-1), upper=False).pow(2).sum((-2, -1))
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


def _nowhere(p: Any, q: Any) -> Any:
    """Where p has values that q has not."""
    return T["full_like"](p.mean + q.mean, math.inf)


def _mean_log(p: Any) -> Any:
    if isinstance(p, Beta):
        return T["digamma"](p.concentration1) - T["digamma"](p.concentration1 + p.concentration0)
    if isinstance(p, Exponential):
        return -np.euler_gamma - p.rate.log()
    return (T["xlogy"](p.high, p.high) - T["xlogy"](p.low, p.low)) / (p.high - p.low) - 1


def _from_normal(p: Any, q: Any) -> Any:
    spread = p.variance + (p.mean - q.loc).pow(2)
    return -p.entropy() + 0.5 * (2 * math.pi * q.variance).log() + 0.5 * spread / q.variance


def _from_gamma(p: Any, q: Any) -> Any:
    a = q.concentration
    return -p.entropy() - a * q.rate.log() + T["lgamma"](a) - (a - 1) * _mean_log(p) + q.rate * p.mean


def _from_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


def _positive(of: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Infinite where the uniform p reaches below 0."""
    return lambda p, q: T["where"](p.low < 0, math.inf, of(p, q))


for _p in (Beta, Exponential, Gamma, Laplace, Uniform):
    register_kl(_p, Normal)(_from_normal)
register_kl(Beta, Gamma)(_from_gamma), register_kl(Exponential, Gamma)(_from_gamma), register_kl(Uniform, Gamma)(_positive(_from_gamma))
register_kl(Beta, Exponential)(_from_exponential), register_kl(Gamma, Exponential)(_from_exponential)
register_kl(Uniform, Exponential)(_positive(_from_exponential))
_ABSENT: Any = (
    (Normal, (Beta, Exponential, Gamma, Uniform)),
    (Laplace, (Beta, Exponential, Gamma, Uniform)),
    (Exponential, (Beta, Uniform)),
    (Gamma, (Beta, Uniform)),
    (Poisson, (Bernoulli, Binomial)),
)
for _wide, _narrow in _ABSENT:
    for _q in _narrow:
        register_kl(_wide, _q)(_nowhere)


@register_kl(Beta, Uniform)
def _beta_uniform(p: Any, q: Any) -> Any:
    return T["where"]((q.low > 0) | (q.high < 1), math.inf, -p.entropy() + (q.high - q.low).log())


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Any:
    a, b, wide = q.concentration1, q.concentration0, p.high - p.low
    size = T["lgamma"](a) + T["lgamma"](b) - T["lgamma"](a + b)
    rest = (T["xlogy"](1 - p.low, 1 - p.low) - T["xlogy"](1 - p.high, 1 - p.high)) / wide - 1
    kl = -wide.log() + size - (a - 1) * _mean_log(p) - (b - 1) * rest
    return T["where"]((p.high > 1) | (p.low < 0), math.inf, kl)


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Any:
    away = (p.loc - q.loc) / p.scale
    mean = p.scale * (math.sqrt(2 / math.pi) * (-0.5 * away.pow(2)).exp() + away * T["erf"](math.sqrt(0.5) * away))
    return -p.entropy() + (2 * q.scale).log() + mean / q.scale


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)
