"""Distributions made of others, and how far one is from another."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from functrace.torch._modes import no_grad
from functrace.torch._ops import FUNCTIONS
from functrace.torch.distributions import constraints
from functrace.torch.distributions.continuous import Exponential, Gamma, HalfNormal, Laplace, LogNormal, Normal, Uniform
from functrace.torch.distributions.discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from functrace.torch.distributions.distribution import Distribution
from functrace.torch.distributions.multivariate import Beta, Dirichlet, MultivariateNormal

T: Any = FUNCTIONS


def _summed(x: Any, n: int) -> Any:
    return x.reshape(*x.shape[: x.dim() - n], -1).sum(-1) if n else x


class Independent(Distribution):
    """Several independent distributions as one, of all elements of the last axes."""

    def __init__(self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: bool | None = None) -> None:
        base, n = base_distribution, reinterpreted_batch_ndims
        if n > len(base.batch_shape):
            raise ValueError(
                f"Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual {n} vs {len(base.batch_shape)}"
            )
        shape, batch = base.batch_shape + base.event_shape, len(base.batch_shape) - n
        self.base_dist, self.reinterpreted_batch_ndims = base, n
        super().__init__(shape[:batch], shape[batch:], validate_args)

    has_rsample = property(lambda self: self.base_dist.has_rsample)
    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)

    @property
    def support(self) -> Any:
        """That of the elements."""
        found, n = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(found, n) if n else found

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        inner = self._event_shape[: self.reinterpreted_batch_ndims]
        return Independent(self.base_dist.expand((*batch_shape, *inner)), self.reinterpreted_batch_ndims, False)

    def sample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        return _summed(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return _summed(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """One of several distributions, chosen by a categorical one."""

    def __init__(self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None) -> None:
        mixture, parts = mixture_distribution, component_distribution
        if not isinstance(mixture, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(parts, Distribution):
            raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
        if mixture.logits.shape[-1] != parts.batch_shape[-1]:
            raise ValueError(
                f"`mixture_distribution component` ({mixture.logits.shape[-1]}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({parts.batch_shape[-1]})"
            )
        self.mixture_distribution, self.component_distribution = mixture, parts
        super().__init__(parts.batch_shape[:-1], parts.event_shape, validate_args)

    @property
    def support(self) -> Any:
        """That of the distributions."""
        found = self.component_distribution.support
        return constraints.Constraint(f"MixtureSameFamilyConstraint({found!r})", found.check, found.event_dim, found.is_discrete)

    def _weights(self) -> Any:
        probs = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *(1,) * len(self._event_shape))

    def _mixed(self, x: Any) -> Any:
        return (self._weights() * x).sum(-1 - len(self._event_shape))

    mean = property(lambda self: self._mixed(self.component_distribution.mean))

    @property
    def variance(self) -> Any:
        parts = self.component_distribution
        away = parts.mean - self.mean.unsqueeze(-1 - len(self._event_shape))
        return self._mixed(parts.variance) + self._mixed(away.pow(2.0))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        each = self.component_distribution.log_prob(value.unsqueeze(-1 - len(self._event_shape)))
        return (each + self.mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def cdf(self, value: Any) -> Any:
        return (self.component_distribution.cdf(value.unsqueeze(-1)) * self.mixture_distribution.probs).sum(-1)

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Any:
        n, k = len(sample_shape) + len(self._batch_shape), len(self._event_shape)
        chosen = self.mixture_distribution.sample(sample_shape)
        drawn = self.component_distribution.sample(sample_shape)
        index = chosen.reshape(*chosen.shape, *(1,) * (k + 1)).expand(*chosen.shape, 1, *self._event_shape)
        return drawn.gather(n, index).squeeze(n)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"


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
    return _summed(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
