"""Distributions made of others."""

from __future__ import annotations

from typing import Any

from functrace.torch._modes import no_grad
from functrace.torch.distributions import constraints
from functrace.torch.distributions.discrete import Categorical
from functrace.torch.distributions.distribution import Distribution


def summed(x: Any, n: int) -> Any:
    """The sum over the last n axes."""
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
        return summed(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return summed(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

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
