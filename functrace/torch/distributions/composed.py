"""Distributions made of others, or seen through functions of their values; and functions made of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrace.torch._modes import no_grad
from functrace.torch._ops import FUNCTIONS
from functrace.torch.distributions import constraints
from functrace.torch.distributions.discrete import Categorical
from functrace.torch.distributions.distribution import Distribution, fits, summed
from functrace.torch.distributions.transforms import ComposeTransform, Rising, Transform

T: Any = FUNCTIONS


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
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
        if not fits(mixture.batch_shape, parts.batch_shape[:-1]):
            raise ValueError(
                f"`mixture_distribution.batch_shape` ({mixture.batch_shape}) is not compatible with "
                f"`component_distribution.batch_shape`({parts.batch_shape[:-1]})"
            )
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
        return constraints.MixtureSameFamilyConstraint(self.component_distribution.support)

    def _component_weights(self) -> Any:
        probs = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *(1,) * len(self._event_shape))

    def _mixed(self, x: Any) -> Any:
        return (self._component_weights() * x).sum(-1 - len(self._event_shape))

    mean = property(lambda self: self._mixed(self.component_distribution.mean))

    @property
    def variance(self) -> Any:
        parts = self.component_distribution
        away = parts.mean - self.mean.unsqueeze(-1 - len(self._event_shape))
        return self._mixed(parts.variance) + self._mixed(away.pow(2.0))

    def _log_prob(self, value: Any) -> Any:
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


class TransformedDistribution(Distribution):
    """What a distribution becomes by functions of its values, one after another.

    >>> import functrace.torch as torch
    >>> from functrace.torch.distributions import Normal, TransformedDistribution
    >>> from functrace.torch.distributions.transforms import ExpTransform
    >>> TransformedDistribution(Normal(0.0, 1.0), [ExpTransform()]).log_prob(torch.tensor(2.0))
    tensor(-1.8523)
    """

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None) -> None:
        if isinstance(transforms, Transform):
            transforms = [transforms]
        elif not isinstance(transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        elif not all(isinstance(t, Transform) for t in transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        self.transforms, base, whole = transforms, base_distribution, ComposeTransform(transforms)
        shape, events = tuple(base.batch_shape + base.event_shape), len(base.event_shape)
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {whole.domain.event_dim}, but got {base.batch_shape}."
            )
        forward = tuple(whole.forward_shape(shape))
        back = tuple(whole.inverse_shape(forward))
        if back != shape:
            base = base.expand(back[: len(back) - events])
        more = whole.domain.event_dim - events
        self.base_dist = Independent(base, more) if more > 0 else base
        n = max(whole.codomain.event_dim, events + whole.codomain.event_dim - whole.domain.event_dim)
        super().__init__(forward[: len(forward) - n], forward[len(forward) - n :], validate_args)

    has_rsample = property(lambda self: self.base_dist.has_rsample)

    @property
    def support(self) -> Any:
        """Where the last function goes."""
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        more = len(self._event_shape) - found.event_dim
        return constraints.independent(found, more) if more > 0 else found

    def _through_transforms(self, x: Any) -> Any:
        for t in self.transforms:
            x = t(x)
        return x

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Any:
        return self._through_transforms(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._through_transforms(self.base_dist.rsample(sample_shape))

    def _log_prob(self, value: Any) -> Any:
        n, out, y = len(self._event_shape), 0.0, value
        for t in reversed(self.transforms):
            x = t._inv_call(y)
            n += t.domain.event_dim - t.codomain.event_dim
            out = out - summed(t.log_abs_det_jacobian(x, y), n - t.domain.event_dim)
            y = x
        return out + summed(self.base_dist.log_prob(y), n - len(self.base_dist.event_shape))

    def _turned_cdf(self, level: Any) -> Any:
        """The probability of all above, where the functions fall."""
        sign = ComposeTransform(self.transforms).sign
        return level if isinstance(sign, int) and sign == 1 else sign * (level - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        return self._turned_cdf(self.base_dist.cdf(ComposeTransform(self.transforms)._inv_call(value)))

    def icdf(self, value: Any) -> Any:
        return self._through_transforms(self.base_dist.icdf(self._turned_cdf(value)))


# functions of tensors, each part of which has one of its own


class _Parts(Transform):
    """Functions of the parts of a tensor along `dim`."""

    transforms: list[Any]
    dim: int

    bijective = property(lambda self: all(t.bijective for t in self.transforms))

    def _split_parts(self, x: Any) -> Sequence[Any]:
        raise NotImplementedError

    def _join_parts(self, parts: Sequence[Any], dim: int) -> Any:
        raise NotImplementedError

    def _call(self, x: Any) -> Any:
        return self._join_parts([t(part) for t, part in zip(self.transforms, self._split_parts(x))], self.dim)

    def _inverse(self, y: Any) -> Any:
        return self._join_parts([t._inv_call(part) for t, part in zip(self.transforms, self._split_parts(y))], self.dim)

    def _slopes(self, x: Any, y: Any) -> list[Any]:
        return [t.log_abs_det_jacobian(*parts) for t, *parts in zip(self.transforms, self._split_parts(x), self._split_parts(y))]


class CatTransform(_Parts):
    """Functions of parts of these lengths along an axis."""

    def __init__(self, tseq: Any, dim: int = 0, lengths: Any = None, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = list(tseq), dim
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths should have length {len(self.transforms)}, got {len(self.lengths)}")

    event_dim = property(lambda self: max(t.event_dim for t in self.transforms))
    length = property(lambda self: sum(self.lengths))
    domain = property(lambda self: constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths))
    codomain = property(lambda self: constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths))

    def _split_parts(self, x: Any) -> Sequence[Any]:
        if not -x.dim() <= self.dim < x.dim() or x.size(self.dim) != self.length:
            raise AssertionError(f"CatTransform: axis {self.dim} should have length {self.length}, got shape {list(x.shape)}")
        return x.split(self.lengths, self.dim)  # type: ignore[no-any-return]

    def _join_parts(self, parts: Sequence[Any], dim: int) -> Any:
        return T["cat"](list(parts), dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        n = self.event_dim
        slopes = [summed(slope, n - t.event_dim) for t, slope in zip(self.transforms, self._slopes(x, y))]
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + n
        return self._join_parts(slopes, dim) if dim < 0 else sum(slopes)


class StackTransform(_Parts):
    """Functions of the entries along an axis."""

    def __init__(self, tseq: Any, dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = list(tseq), dim

    domain = property(lambda self: constraints.stack([t.domain for t in self.transforms], self.dim))
    codomain = property(lambda self: constraints.stack([t.codomain for t in self.transforms], self.dim))

    def _split_parts(self, x: Any) -> Sequence[Any]:
        if not -x.dim() <= self.dim < x.dim() or x.size(self.dim) != len(self.transforms):
            raise AssertionError(f"StackTransform: axis {self.dim} should have length {len(self.transforms)}, got shape {list(x.shape)}")
        return x.unbind(self.dim)  # type: ignore[no-any-return]

    def _join_parts(self, parts: Sequence[Any], dim: int) -> Any:
        return T["stack"](list(parts), dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self._join_parts(self._slopes(x, y), self.dim)


class CumulativeDistributionTransform(Rising):
    """The distribution function of a distribution, which makes its numbers uniform."""

    codomain = constraints.unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    domain = property(lambda self: self.distribution.support)

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)
