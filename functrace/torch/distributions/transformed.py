"""Distributions that are seen through functions of their values."""

from __future__ import annotations

from typing import Any

from functrace.torch._modes import no_grad
from functrace.torch.distributions import constraints
from functrace.torch.distributions.composed import Independent, summed
from functrace.torch.distributions.distribution import Distribution
from functrace.torch.distributions.transforms import ComposeTransform, Transform


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

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        whole, shape = ComposeTransform(self.transforms), (*batch_shape, *self._event_shape)
        inner = tuple(whole.inverse_shape(shape))
        return type(self)._made(self.base_dist.expand(inner[: len(inner) - len(self.base_dist.event_shape)]), self.transforms)

    @staticmethod
    def _made(base: Any, transforms: Any) -> Any:
        return TransformedDistribution(base, transforms, False)

    def _through(self, x: Any) -> Any:
        for t in self.transforms:
            x = t(x)
        return x

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Any:
        return self._through(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._through(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        n, out, y = len(self._event_shape), 0.0, value
        for t in reversed(self.transforms):
            x = t._back(y)
            n += t.domain.event_dim - t.codomain.event_dim
            out = out - summed(t.log_abs_det_jacobian(x, y), n - t.domain.event_dim)
            y = x
        return out + summed(self.base_dist.log_prob(y), n - len(self.base_dist.event_shape))

    def _turned(self, level: Any) -> Any:
        """The probability of all above, where the functions fall."""
        sign = ComposeTransform(self.transforms).sign
        return level if isinstance(sign, int) and sign == 1 else sign * (level - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        self._validate_sample(value)
        return self._turned(self.base_dist.cdf(ComposeTransform(self.transforms)._back(value)))

    def icdf(self, value: Any) -> Any:
        return self._through(self.base_dist.icdf(self._turned(value)))
