"""Distributions of whole numbers and choices."""

from __future__ import annotations

import functools
import math
from typing import Any

from functrace.torch._create import arange, empty
from functrace.torch._create import eye as identity
from functrace.torch._dtypes import Size
from functrace.torch._info import finfo
from functrace.torch._modes import no_grad
from functrace.torch._ops import FUNCTIONS
from functrace.torch.distributions import constraints
from functrace.torch.distributions.distribution import Binary, Choosing, Distribution, broadcast_all, either
from functrace.torch.nn import functional

F: Any = functional
T: Any = FUNCTIONS


def binary_entropy(logits: Any, probs: Any) -> Any:
    """Of each choice, its cross entropy with other probabilities."""
    return F.binary_cross_entropy_with_logits(logits, probs, reduction="none")


class Bernoulli(Binary):
    """1 with a probability, else 0."""

    support = constraints.boolean
    has_enumerate_support = True

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    @property
    def mode(self) -> Any:
        return T["where"](self.probs == 0.5, math.nan, (self.probs >= 0.5).to(self.probs.dtype))

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Any:
        return T["bernoulli"](self.probs.expand(self._extended_shape(sample_shape)))

    def _log_prob(self, value: Any) -> Any:
        logits, value = broadcast_all(self.logits, value)
        return -binary_entropy(logits, value)

    def entropy(self) -> Any:
        return binary_entropy(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Any:
        return _listed(arange(2, dtype=next(iter(_given(self).values())).dtype), self._batch_shape, expand)


def _given(d: Any) -> dict[str, Any]:
    return {k: d.__dict__[k] for k in ("probs", "logits") if k in d.__dict__}


def _listed(values: Any, batch: Any, expand: bool) -> Any:
    values = values.view(-1, *(1,) * len(batch))
    return values.expand(-1, *batch) if expand else values


class Geometric(Binary):
    """How often something fails before it succeeds."""

    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)
        if self._validate_args and probs is not None and not bool(((value := self.probs) > 0).all()):
            raise ValueError(
                f"Expected parameter probs (Tensor of shape {tuple(value.shape)}) of distribution {self!r} to be positive but found "
                f"invalid values:\n{value[~(value > 0)]}"
            )

    mean = property(lambda self: 1.0 / self.probs - 1.0)
    mode = property(lambda self: T["zeros_like"](self.probs))
    variance = property(lambda self: (1.0 / self.probs - 1.0) / self.probs)

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Any:
        tiny = finfo(self.probs.dtype).tiny
        u = empty(self._extended_shape(sample_shape), dtype=self.probs.dtype).uniform_(tiny, 1)
        return (u.log() / (-self.probs).log1p()).floor()

    def _log_prob(self, value: Any) -> Any:
        value, probs = broadcast_all(value, self.probs)
        kept = T["where"]((probs == 1) & (value == 0), 0.0, probs)
        return value * (-kept).log1p() + self.probs.log()

    def entropy(self) -> Any:
        return binary_entropy(self.logits, self.probs) / self.probs


class Counted(Binary):
    """Of a number of two-way choices."""

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name, value = either(probs, logits)
        count, value = broadcast_all(total_count, value)
        self.total_count = count.type_as(value)
        super().__init__(**{name: value}, validate_args=validate_args)


class Binomial(Counted):
    """How many of a number of trials succeed."""

    arg_constraints = {"total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real}

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(total_count, probs, logits, validate_args)

    has_enumerate_support = True
    support = property(lambda self: constraints.integer_interval(0, self.total_count))
    mean = property(lambda self: self.total_count * self.probs)
    mode = property(lambda self: ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count))
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return T["binomial"](self.total_count.expand(shape), self.probs.expand(shape))

    def _log_prob(self, value: Any) -> Any:
        n, logits, lgamma = self.total_count, self.logits, T["lgamma"]
        larger = (logits.clamp(min=0) + logits - logits.clamp(max=0)) / 2
        norm = n * larger + n * (-logits.abs()).exp().log1p() - lgamma(n + 1)
        return value * logits - lgamma(value + 1) - lgamma(n - value + 1) - norm

    def enumerate_support(self, expand: bool = True) -> Any:
        n = int(self.total_count.max())
        if not bool((self.total_count == n).all()):
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        return _listed(arange(n + 1, dtype=self.total_count.dtype), self._batch_shape, expand)

    def entropy(self) -> Any:
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)


class Poisson(Distribution):
    """How often something happens that happens at a constant rate."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    mean = variance = property(lambda self: self.rate)
    mode = property(lambda self: self.rate.floor())

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Any:
        return T["poisson"](self.rate.expand(self._extended_shape(sample_shape)))

    def _log_prob(self, value: Any) -> Any:
        rate, value = broadcast_all(self.rate, value)
        return T["xlogy"](value, rate) - rate - T["lgamma"](value + 1)


@functools.lru_cache(1 << 6)
def _indices(n: int) -> Any:
    return constraints.integer_interval(0, n - 1)


class Categorical(Choosing):
    """One of several choices, as its index; the last axis of the parameter runs over the choices.

    >>> import functrace.torch as torch
    >>> pi = torch.distributions.Categorical(torch.tensor([1.0, 3.0]))
    >>> pi.probs, pi.log_prob(torch.tensor(1)), pi
    (tensor([0.2500, 0.7500]), tensor(-0.2877), Categorical(probs: torch.Size([2]), logits: torch.Size([2])))
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name, value = either(probs, logits)
        if value.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        self._num_events = value.size(-1)
        self.__dict__[name] = value / value.sum(-1, keepdim=True) if logits is None else value - value.logsumexp(-1, keepdim=True)
        super().__init__(value.shape[:-1], validate_args=validate_args)

    @property
    def support(self) -> Any:
        """The indices."""
        return _indices(self._num_events)

    param_shape = property(lambda self: next(iter(_given(self).values())).size())
    mean = variance = property(lambda self: self.probs[..., 0].detach() * math.nan)
    mode = property(lambda self: self.probs.argmax(-1))

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Any:
        rows = self.probs.reshape(-1, self._num_events)
        drawn = T["multinomial"](rows, Size(sample_shape).numel(), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def _log_prob(self, value: Any) -> Any:
        index, logits = value.long().unsqueeze(-1), self.logits
        if value.shape != logits.shape[:-1]:
            index, logits = T["broadcast_tensors"](index, logits)
            index = index[..., :1]
        return logits.gather(-1, index).squeeze(-1)

    def entropy(self) -> Any:
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        return _listed(arange(self._num_events), self._batch_shape, expand)


class OfChoices(Distribution):
    """Of vectors with an element for each choice of a categorical distribution."""

    arg_constraints = Categorical.arg_constraints

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)


class OneHotCategorical(OfChoices):
    """One of several choices, as a vector that is 1 at its index."""

    support = constraints.one_hot
    has_enumerate_support = True

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))
    mode = property(lambda self: self._one_hot(self.probs.argmax(-1)))

    def _one_hot(self, index: Any) -> Any:
        return F.one_hot(index, self._categorical._num_events).to(self.probs.dtype)

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Any:
        return self._one_hot(self._categorical.sample(sample_shape))

    def _log_prob(self, value: Any) -> Any:
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        n, batch = self._event_shape[0], self._batch_shape
        rows = identity(n, dtype=self.probs.dtype).view(n, *(1,) * len(batch), n)
        return rows.expand(n, *batch, n) if expand else rows


class Multinomial(OfChoices):
    """How often each of several choices is taken in a number of trials."""

    def __init__(self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    @property
    def support(self) -> Any:
        """Counts that add up to the number of trials."""
        return constraints.multinomial(self.total_count)

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Any:
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        drawn = drawn.permute(*range(1, drawn.dim()), 0)
        counts = T["zeros"](self._extended_shape(sample_shape), dtype=drawn.dtype)
        return counts.scatter_add_(-1, drawn, T["ones_like"](drawn)).type_as(self.probs)

    def _log_prob(self, value: Any) -> Any:
        lgamma = T["lgamma"]
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0)
        return lgamma(value.sum(-1) + 1) - lgamma(value + 1).sum(-1) + (logits * value).sum(-1)

    def entropy(self) -> Any:
        n, lgamma = self.total_count, T["lgamma"]
        parts = Binomial(n, self.probs, validate_args=False)
        counts = parts.enumerate_support(False)[1:]
        lost = (parts.log_prob(counts).exp() * lgamma(counts + 1)).sum((0, -1))
        return n * self._categorical.entropy() - math.lgamma(n + 1) + lost
