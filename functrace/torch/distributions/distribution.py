"""What all distributions have in common: shapes, checks, printing, and what follows from other methods."""

from __future__ import annotations

import functools
from typing import Any

from functrace.torch import _dtypes
from functrace.torch._backward import grad
from functrace.torch._create import broadcast_tensors, empty, tensor
from functrace.torch._dtypes import Size
from functrace.torch._info import finfo
from functrace.torch._missing import Pickled, own_init
from functrace.torch._modes import enable_grad, no_grad
from functrace.torch._shape import expand
from functrace.torch._tensor import Tensor
from functrace.torch.distributions import constraints


def broadcast_all(*values: Any) -> list[Any]:
    """Numbers and tensors as tensors of one shape; numbers take the dtype of the tensors, or the default one."""
    if not all(isinstance(v, (Tensor, int, float)) for v in values):
        raise ValueError("Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__.")
    like = next((v for v in values if isinstance(v, Tensor)), None)
    d = _dtypes.get_default_dtype() if like is None else like.dtype
    made: list[Any] = [v if isinstance(v, Tensor) else tensor(v, dtype=d) for v in values]
    return list(broadcast_tensors(*made))


class Distribution(Pickled):
    """The base of all distributions: `arg_constraints` names the parameters, `support` says which values there are.

    A subclass sets its parameters as attributes, before it calls this; has `sample`, or `rsample` if the sample depends on the
    parameters differentiably; and `log_prob`, or `_log_prob` of values that are checked.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: dict[str, constraints.Constraint] = {}
    support: Any = None
    _validate_args = True
    _found_in = "functrace.torch.distributions"
    _shared_parameters: tuple[str, ...] = ()  # parameters that all of a batch have in common

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether arguments and values are checked where `validate_args` is not given."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith("functrace."):
            own_init(cls)

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        super().__init__()  # that of a module, which a distribution may be as well
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if not self._validate_args:
            return
        for name, constraint in self.arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            value = self.__dict__.get(name) if len(self.arg_constraints) > 1 else getattr(self, name)  # which may be a property
            if isinstance(value, Tensor) and not bool(constraint.check(value).all()):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution {self!r} to satisfy "
                    f"the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    batch_shape = property(lambda self: self._batch_shape)
    event_shape = property(lambda self: self._event_shape)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution with its parameters expanded to a batch shape."""
        new, shape = self._get_checked_instance(type(self), _instance), Size(batch_shape)
        given = set(new.__dict__)  # by a subclass's own `expand`
        new.__dict__ = {**self.__dict__, **new.__dict__}
        for name, part in self.__dict__.items():
            if name in given or name in self._shared_parameters:
                continue
            if isinstance(part, Tensor):
                inner = part.shape[part.ndim - self._inner_dims(name) :]
                new.__dict__[name] = expand(part, (*shape, *inner))
            elif isinstance(part, Distribution):
                new.__dict__[name] = part.expand((*shape, *part.batch_shape[len(self.batch_shape) :]))
        new._batch_shape = shape
        return new

    def _get_checked_instance(self, cls: Any, _instance: Any = None) -> Any:
        """What a class that inherits from `cls` begins its own `expand` with."""
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also define a custom "
                ".expand() method."
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    def _inner_dims(self, name: str) -> int:
        constraint = self.arg_constraints.get(name)
        return constraint.event_dim if constraint is not None else 0

    def _extended_shape(self, sample_shape: Any = ()) -> Any:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        """A sample that is a differentiable function of the parameters."""
        raise NotImplementedError

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Any:
        """A sample, without a gradient."""
        return self.rsample(sample_shape)

    def sample_n(self, n: int) -> Any:
        """n samples."""
        return self.sample((n,))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or of the probability, at a value."""
        self._validate_sample(value)
        return self._log_prob(value)

    def cdf(self, value: Any) -> Any:
        """The probability of all that is not above a value."""
        if type(self)._cdf is Distribution._cdf:
            raise NotImplementedError
        self._validate_sample(value)
        return self._cdf(value)

    def _log_prob(self, value: Any) -> Any:
        raise NotImplementedError

    _cdf = _log_prob

    def icdf(self, value: Any) -> Any:
        """The inverse of `cdf`."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """The mean of `-log_prob`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values that there are, along the first axis."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """The exponential of the entropy."""
        return self.entropy().exp()

    @property
    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError

    @property
    def variance(self) -> Any:
        """The variance."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """The value with the greatest density."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.variance.sqrt()

    def _validate_sample(self, value: Any) -> None:
        if not self._validate_args:
            return
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        n = len(self._event_shape)
        if value.shape[value.ndim - n :] != self._event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}.")
        wanted = self._batch_shape + self._event_shape
        if not fits(value.shape, wanted):
            raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {wanted}.")
        support = self.support
        if support is not None and not bool(support.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the support ({support!r}) of "
                f"the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        shown = [(k, self.__dict__[k]) for k in self.arg_constraints if k in self.__dict__]
        return f"{type(self).__name__}({', '.join(f'{k}: {v if v.numel() == 1 else v.size()}' for k, v in shown)})"


def fits(x: Any, y: Any) -> bool:
    """Whether two shapes can be broadcast together."""
    return all(i == j or 1 in (i, j) for i, j in zip(reversed(x), reversed(y)))


def summed(x: Any, n: int) -> Any:
    """The sum over the last n axes."""
    return x.reshape(*x.shape[: x.dim() - n], -1).sum(-1) if n else x


def standard_normal(shape: Any, dtype: Any, device: Any = None) -> Any:
    """Standard normal numbers."""
    return empty(shape, dtype=dtype, device=device).normal_()


_standard_normal, _sum_rightmost = standard_normal, summed  # as libraries import them


def either(probs: Any, logits: Any) -> tuple[str, Any]:
    """The one of two parameters that is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return ("probs", probs) if logits is None else ("logits", logits)


def clamp_probs(probs: Any) -> Any:
    """Probabilities kept away from 0 and 1."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """The probabilities of choices, or of two-way ones."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """The way back: log(p), or log(p / (1 - p))."""
    p = clamp_probs(probs)
    return p.log() - (-p).log1p() if is_binary else p.log()


def lazy_property(function: Any) -> Any:
    """A property that is computed, with gradients, when it is first asked for."""
    return functools.cached_property(enable_grad()(function))


class ExponentialFamily(Distribution):
    """A distribution by its natural parameters and the logarithm of its normaliser, from which the entropy follows."""

    _mean_carrier_measure: Any = 0

    @property
    def _natural_params(self) -> Any:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError

    def entropy(self) -> Any:
        """By the mean of what is sufficient, the gradient of the logarithm of the normaliser."""
        with enable_grad():
            params = [p if p.requires_grad else p.detach().requires_grad_() for p in self._natural_params]
            normaliser = self._log_normalizer(*params)
            means = grad(normaliser.sum(), params, create_graph=True)
        products = [(p * mean).reshape(*self._batch_shape, -1).sum(-1) for p, mean in zip(params, means)]
        return normaliser - self._mean_carrier_measure - sum(products)


class Choosing(Distribution):
    """Of choices; of `probs` and `logits` the one that was not given follows from the other."""

    _two_way_choices = False

    @lazy_property
    def probs(self) -> Any:
        """The probability of each choice; of a two-way one that of 1."""
        return logits_to_probs(self.logits, self._two_way_choices)

    @lazy_property
    def logits(self) -> Any:
        """The logarithm of each probability; of a two-way choice log(p / (1 - p))."""
        return probs_to_logits(self.probs, self._two_way_choices)


class Binary(Choosing):
    """Of two-way choices."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    _two_way_choices = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name, value = either(probs, logits)
        (self.__dict__[name],) = broadcast_all(value)
        super().__init__(self.__dict__[name].shape, validate_args=validate_args)
