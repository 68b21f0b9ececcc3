"""Distributions of real numbers and vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import functrace
from functrace.torch._create import empty
from functrace.torch._curves import scipy_special
from functrace.torch._draws import gamma_numbers, normal, rand
from functrace.torch._info import finfo
from functrace.torch._modes import no_grad
from functrace.torch._ops import FUNCTIONS
from functrace.torch._tensor import wrap
from functrace.torch.autograd.function import Function, once_differentiable
from functrace.torch.distributions import constraints
from functrace.torch.distributions.composed import TransformedDistribution
from functrace.torch.distributions.distribution import Distribution, broadcast_all, standard_normal
from functrace.torch.distributions.transforms import AbsTransform, ExpTransform

T: Any = FUNCTIONS
_HALF_LOG = math.log(math.sqrt(2 * math.pi))


class _LocScale(Distribution):
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = mode = property(lambda self: self.loc)

    def _standard_value(self, value: Any) -> Any:
        return (value - self.loc) / self.scale


class Normal(_LocScale):
    """The normal distribution of a mean and a standard deviation.

    >>> import functrace.torch as torch
    >>> Normal = torch.distributions.Normal
    >>> Normal(0.0, 2.0).log_prob(torch.tensor(1.0)), Normal(torch.zeros(3), 1.0)
    (tensor(-1.7371), Normal(loc: torch.Size([3]), scale: torch.Size([3])))
    """

    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.stddev.pow(2))

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.loc + standard_normal(self._extended_shape(sample_shape), self.loc.dtype) * self.scale

    def _log_prob(self, value: Any) -> Any:
        return -((value - self.loc) ** 2) / (2 * self.scale**2) - self.scale.log() - _HALF_LOG

    def _cdf(self, value: Any) -> Any:
        return 0.5 * (1 + T["erf"]((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * T["erfinv"](2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Any:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()


class LogNormal(TransformedDistribution):
    """What has a normal logarithm."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    loc = property(lambda self: self.base_dist.loc)
    scale = property(lambda self: self.base_dist.scale)
    mean = property(lambda self: (self.loc + self.scale.pow(2) / 2).exp())
    mode = property(lambda self: (self.loc - self.scale.square()).exp())
    variance = property(lambda self: self.scale.pow(2).expm1() * (2 * self.loc + self.scale.pow(2)).exp())

    def entropy(self) -> Any:
        return self.base_dist.entropy() + self.loc


class Half(TransformedDistribution):
    """The size of a number of a distribution that is symmetric about 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    _whole: type[_LocScale]

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._whole(0, scale, validate_args=False), AbsTransform(), validate_args)

    scale = property(lambda self: self.base_dist.scale)

    def _log_prob(self, value: Any) -> Any:
        return T["where"](value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Any) -> Any:
        self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Any) -> Any:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(Half):
    """The size of a normal number of mean 0."""

    _whole = Normal
    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    mode = property(lambda self: T["zeros_like"](self.scale))
    variance = property(lambda self: self.scale.pow(2) * (1 - 2 / math.pi))


class Laplace(_LocScale):
    """Two exponential distributions, back to back."""

    variance = property(lambda self: 2 * self.scale.pow(2))
    stddev = property(lambda self: 2**0.5 * self.scale)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        u = empty(shape, dtype=self.loc.dtype).uniform_(finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def _log_prob(self, value: Any) -> Any:
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def _cdf(self, value: Any) -> Any:
        return 0.5 - 0.5 * (value - self.loc).sign() * (-(value - self.loc).abs() / self.scale).expm1()

    def icdf(self, value: Any) -> Any:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Any:
        return 1 + (2 * self.scale).log()


class Cauchy(_LocScale):
    """The quotient of two normal numbers; it has no mean."""

    mean = property(lambda self: T["full_like"](self.loc, math.nan))
    variance = property(lambda self: T["full_like"](self.loc, math.inf))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.loc + empty(self._extended_shape(sample_shape), dtype=self.loc.dtype).cauchy_() * self.scale

    def _log_prob(self, value: Any) -> Any:
        return -math.log(math.pi) - self.scale.log() - (self._standard_value(value) ** 2).log1p()

    def _cdf(self, value: Any) -> Any:
        return self._standard_value(value).atan() / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()


class Uniform(Distribution):
    """All numbers from `low` to `high` alike."""

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @property
    def arg_constraints(self) -> Any:  # type: ignore[override]
        """Each bound is on its side of the other."""
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    support = property(lambda self: constraints.interval(self.low, self.high))
    mean = property(lambda self: (self.high + self.low) / 2)
    mode = property(lambda self: math.nan * self.high)
    stddev = property(lambda self: (self.high - self.low) / 12**0.5)
    variance = property(lambda self: (self.high - self.low).pow(2) / 12)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.low + rand(self._extended_shape(sample_shape), dtype=self.low.dtype) * (self.high - self.low)

    def _log_prob(self, value: Any) -> Any:
        inside = self.low.le(value).type_as(self.low).mul(self.high.gt(value).type_as(self.low))
        return inside.log() - (self.high - self.low).log()

    def _cdf(self, value: Any) -> Any:
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Any) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return (self.high - self.low).log()


class Exponential(Distribution):
    """The time until something happens that happens at a constant rate."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    mean = stddev = property(lambda self: self.rate.reciprocal())
    mode = property(lambda self: T["zeros_like"](self.rate))
    variance = property(lambda self: self.rate.pow(-2))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return empty(self._extended_shape(sample_shape), dtype=self.rate.dtype).exponential_() / self.rate

    def _log_prob(self, value: Any) -> Any:
        return self.rate.log() - self.rate * value

    def _cdf(self, value: Any) -> Any:
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: Any) -> Any:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Any:
        return 1.0 - self.rate.log()


# Samples of the gamma and the Dirichlet distribution as functions of their parameters: a sample x of a distribution function F(x; a) moves
# with the parameter such that F stays what it is: dx/da = -(dF/da) / (dF/dx) (M. Figurnov, S. Mohamed and A. Mnih 2018, Implicit
# reparameterization gradients).


def _special() -> Any:
    special = scipy_special()
    if special is None:
        raise ImportError("torch.distributions: the gradient of a gamma sample comes from SciPy: pip install 'functrace[scipy]'")
    return special


class _StandardGamma(Function):
    @staticmethod
    def forward(ctx: Any, concentration: Any) -> Any:
        a = concentration._a
        x = wrap(np.maximum(gamma_numbers(a).astype(a.dtype), np.finfo(a.dtype).tiny))
        ctx.save_for_backward(concentration, x)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        special = _special()
        a, x = (t._a.astype(np.float64) for t in ctx.saved_tensors)
        slope = functrace.grad(lambda a: np.sum(special.gammainc(a, x)))(a)
        log_density = (a - 1) * np.log(x) - x - special.gammaln(a)
        return wrap((-slope * np.exp(-log_density)).astype(grad._a.dtype)) * grad


class _Dirichlet(Function):
    @staticmethod
    def forward(ctx: Any, concentration: Any) -> Any:
        a = concentration._a
        drawn = gamma_numbers(a)
        limits = np.finfo(a.dtype)
        x = np.clip((drawn / drawn.sum(-1, keepdims=True)).astype(a.dtype), limits.tiny, np.nextafter(a.dtype.type(1), a.dtype.type(0)))
        ctx.save_for_backward(concentration, wrap(x))
        return wrap(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        a, x = (t._a.astype(np.float64) for t in ctx.saved_tensors)
        if a.shape[-1] < 2:
            return wrap(np.zeros_like(grad._a))  # the one number is 1
        special = _special()
        rest = a.sum(-1, keepdims=True) - a
        slope = functrace.grad(lambda a: np.sum(special.betainc(a, rest, x)))(a)
        log_density = (a - 1) * np.log(x) + (rest - 1) * np.log1p(-x) - special.betaln(a, rest)
        speed = -slope * np.exp(-log_density) / (1 - x)
        g = grad._a.astype(np.float64)
        return wrap((speed * (g - np.sum(x * g, -1, keepdims=True))).astype(grad._a.dtype))


_standard_gamma, dirichlet = _StandardGamma.apply, _Dirichlet.apply  # of rate 1; along the last axis


class Gamma(Distribution):
    """Sums of exponential numbers, of any number of them. Its density takes the special functions of SciPy."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    mean = property(lambda self: self.concentration / self.rate)
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))
    variance = property(lambda self: self.concentration / self.rate.pow(2))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        value = _standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        with no_grad():
            value.clamp_(min=finfo(value.dtype).tiny)
        return value

    def _log_prob(self, value: Any) -> Any:
        a, xlogy = self.concentration, T["xlogy"]
        return xlogy(a, self.rate) + xlogy(a - 1, value) - self.rate * value - T["lgamma"](a)

    def _cdf(self, value: Any) -> Any:
        return T["igamma"](self.concentration, self.rate * value)

    def entropy(self) -> Any:
        a = self.concentration
        return a - self.rate.log() + T["lgamma"](a) + (1.0 - a) * T["digamma"](a)


class Chi2(Gamma):
    """Sums of squares of standard normal numbers."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args)

    df = property(lambda self: self.concentration * 2)


class StudentT(_LocScale):
    """A normal number over the root of an independent chi-squared one."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        Distribution.__init__(self, self.df.shape, validate_args=validate_args)

    mean = property(lambda self: T["where"](self.df <= 1, math.nan, self.loc))

    @property
    def variance(self) -> Any:
        found = self.scale.pow(2) * self.df / (self.df - 2)
        return T["where"](self.df <= 1, math.nan, T["where"](self.df > 2, found, math.inf))

    def rsample(self, sample_shape: Any = ()) -> Any:
        x = standard_normal(self._extended_shape(sample_shape), self.df.dtype)
        z = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (x * (z / self.df).rsqrt())

    def _log_prob(self, value: Any) -> Any:
        y, lgamma = self._standard_value(value), T["lgamma"]
        z = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + lgamma(0.5 * self.df) - lgamma(0.5 * (self.df + 1.0))
        return -0.5 * (self.df + 1.0) * (y**2.0 / self.df).log1p() - z

    def entropy(self) -> Any:
        half, digamma, lgamma = 0.5 * self.df, T["digamma"], T["lgamma"]
        log_beta = lgamma(half) + math.lgamma(0.5) - lgamma(0.5 * (self.df + 1))
        return self.scale.log() + 0.5 * (self.df + 1) * (digamma(0.5 * (self.df + 1)) - digamma(half)) + 0.5 * self.df.log() + log_beta


class GeneralizedPareto(Distribution):
    """What exceeds a threshold far out: the tail is a power, or for `concentration` 0 exponential."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def support(self) -> Any:
        end = T["where"](self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, end)

    def _safe(self) -> tuple[Any, Any]:
        """Where the concentration is 0, and the concentration, there 1."""
        none = T["isclose"](self.concentration, T["zeros_like"](self.concentration))
        return none, T["where"](none, 1.0, self.concentration)

    def _log_tail(self, value: Any) -> Any:
        z, (none, c) = (value - self.loc) / self.scale, self._safe()
        return T["where"](none, -z, -(c * z).log1p() / c)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.icdf(rand(self._extended_shape(sample_shape), dtype=self.loc.dtype))

    def _log_prob(self, value: Any) -> Any:
        return (1 + T["where"](self._safe()[0], 0.0, self.concentration)) * self._log_tail(value) - self.scale.log()

    def _cdf(self, value: Any) -> Any:
        return -self._log_tail(value).expm1()

    def icdf(self, value: Any) -> Any:
        log, (none, c) = (-value).log1p(), self._safe()
        return self.loc + self.scale * T["where"](none, -log, (-c * log).expm1() / c)

    @property
    def mean(self) -> Any:
        c = self.concentration
        return T["where"](c < 1, self.loc + self.scale / (1 - T["where"](c < 1, c, 0.5)), math.nan)

    @property
    def variance(self) -> Any:
        c = T["where"](self.concentration < 0.5, self.concentration, 0.25)
        return T["where"](self.concentration < 0.5, self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c)), math.nan)

    mode = property(lambda self: self.loc)

    def entropy(self) -> Any:
        return self.scale.log() + self.concentration + 1
