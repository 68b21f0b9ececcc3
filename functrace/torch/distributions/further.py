"""Distributions that are functions of other ones, relaxed choices, angles, and fractions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.torch import special
from functrace.torch._create import full_like, zeros
from functrace.torch._draws import rand
from functrace.torch._info import finfo
from functrace.torch._modes import no_grad
from functrace.torch._ops import FUNCTIONS
from functrace.torch.distributions import constraints
from functrace.torch.distributions.composed import TransformedDistribution
from functrace.torch.distributions.continuous import Cauchy, Exponential, Gamma, Half, Normal, Uniform
from functrace.torch.distributions.discrete import Counted, OfChoices, OneHotCategorical, binary_entropy
from functrace.torch.distributions.distribution import Binary, Distribution, broadcast_all, clamp_probs, lazy_property, logits_to_probs
from functrace.torch.distributions.transforms import AffineTransform, ExpTransform, PowerTransform, SigmoidTransform, StickBreakingTransform
from functrace.torch.nn import functional

F: Any = functional
T: Any = FUNCTIONS
_EULER = np.euler_gamma


class Gumbel(TransformedDistribution):
    """The greatest of many numbers."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        info: Any = np.finfo(self.loc._a.dtype)
        base = Uniform(full_like(self.loc, float(info.tiny)), full_like(self.loc, 1 - float(info.eps)), validate_args)
        ones = T["ones_like"](self.scale)
        steps = [ExpTransform().inv, AffineTransform(0, -ones), ExpTransform().inv, AffineTransform(self.loc, -self.scale)]
        super().__init__(base, steps, validate_args)

    mean = property(lambda self: self.loc + self.scale * _EULER)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: math.pi / math.sqrt(6) * self.scale)
    variance = property(lambda self: self.stddev.pow(2))

    def _log_prob(self, value: Any) -> Any:
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    def entropy(self) -> Any:
        return self.scale.log() + (1 + _EULER)


class HalfCauchy(Half):
    """The size of a Cauchy number around 0."""

    _whole = Cauchy
    mean = property(lambda self: full_like(self.scale, math.inf))
    mode = property(lambda self: full_like(self.scale, 0))
    variance = property(lambda self: self.base_dist.variance)


class Pareto(TransformedDistribution):
    """A power law above `scale`."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        steps = [ExpTransform(), AffineTransform(0, self.scale)]
        super().__init__(Exponential(self.alpha, validate_args), steps, validate_args)

    support = property(lambda self: constraints.greater_than_eq(self.scale))
    mode = property(lambda self: self.scale)

    @property
    def mean(self) -> Any:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def variance(self) -> Any:
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def entropy(self) -> Any:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(TransformedDistribution):
    """The time until something happens whose rate is a power of time."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self._inverse = self.concentration.reciprocal()
        steps = [PowerTransform(self._inverse), AffineTransform(0, self.scale)]
        super().__init__(Exponential(T["ones_like"](self.scale), validate_args), steps, validate_args)

    mean = property(lambda self: self.scale * T["lgamma"](1 + self._inverse).exp())
    mode = property(lambda self: self.scale * ((self.concentration - 1) / self.concentration) ** self._inverse)

    @property
    def variance(self) -> Any:
        lgamma, k = T["lgamma"], self._inverse
        return self.scale.pow(2) * (lgamma(1 + 2 * k).exp() - (2 * lgamma(1 + k)).exp())

    def entropy(self) -> Any:
        return _EULER * (1 - self._inverse) + (self.scale * self._inverse).log() + 1


class Kumaraswamy(TransformedDistribution):
    """Much as the beta distribution, with a simple distribution function."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = a, b = broadcast_all(concentration1, concentration0)
        steps = [PowerTransform(b.reciprocal()), AffineTransform(1.0, -1.0), PowerTransform(a.reciprocal())]
        super().__init__(Uniform(full_like(b, 0), full_like(b, 1), validate_args), steps, validate_args)

    def _moment(self, n: int) -> Any:
        lgamma, b, c = T["lgamma"], self.concentration0, 1 + n / self.concentration1
        return b * (lgamma(c) + lgamma(b) - lgamma(c + b)).exp()

    mean = property(lambda self: self._moment(1))
    variance = property(lambda self: self._moment(2) - self.mean.pow(2))

    @property
    def mode(self) -> Any:
        a, b = self.concentration1, self.concentration0
        found = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return T["where"]((b < 1) | (a < 1), math.nan, found).exp()

    def entropy(self) -> Any:
        a, b = self.concentration1, self.concentration0
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * (T["digamma"](b + 1) + _EULER) - a.log() - b.log()


class InverseGamma(TransformedDistribution):
    """What has a gamma distributed reciprocal."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args)
        super().__init__(base, PowerTransform(-T["ones_like"](base.rate)), validate_args)

    concentration = property(lambda self: self.base_dist.concentration)
    rate = property(lambda self: self.base_dist.rate)
    mode = property(lambda self: self.rate / (self.concentration + 1))

    @property
    def mean(self) -> Any:
        a = self.concentration
        return T["where"](a > 1, self.rate / (a - 1), math.inf)

    @property
    def variance(self) -> Any:
        a = self.concentration
        return T["where"](a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Any:
        a = self.concentration
        return a + self.rate.log() + T["lgamma"](a) - (1 + a) * T["digamma"](a)


class LogisticNormal(TransformedDistribution):
    """Probabilities whose log odds are normal."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args)
        super().__init__(base if base.batch_shape else base.expand((1,)), StickBreakingTransform(), validate_args)

    loc = property(lambda self: self.base_dist.base_dist.loc)
    scale = property(lambda self: self.base_dist.base_dist.scale)


class NegativeBinomial(Counted):
    """How often something happens before it has failed to happen `total_count` times."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    mean = property(lambda self: self.total_count * self.logits.exp())
    mode = property(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0))
    variance = property(lambda self: self.mean / (-self.logits).sigmoid())

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Any:
        return T["poisson"](Gamma(self.total_count, (-self.logits).exp(), validate_args=False).sample(sample_shape))

    def _log_prob(self, value: Any) -> Any:
        n, lgamma = self.total_count, T["lgamma"]
        ways = (-lgamma(n + value) + lgamma(1 + value) + lgamma(n)).masked_fill(n + value == 0.0, 0.0)
        return n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits) - ways


class _Tempered(Distribution):
    """Of choices that are made differentiably."""

    has_rsample = True
    _shared_parameters = ("temperature",)

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)


class LogitRelaxedBernoulli(_Tempered, Binary):
    """The log odds of `RelaxedBernoulli`."""

    support = constraints.real

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        p = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(rand(shape, dtype=p.dtype))
        return (u.log() - (-u).log1p() + p.log() - (-p).log1p()) / self.temperature

    def _log_prob(self, value: Any) -> Any:
        logits, value = broadcast_all(self.logits, value)
        away = logits - value.mul(self.temperature)
        return self.temperature.log() + away - 2 * away.exp().log1p()


class _Relaxed(TransformedDistribution):
    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)


class RelaxedBernoulli(_Relaxed):
    """Between 0 and 1, the nearer to one of them the lower the temperature (Maddison et al. 2016, Jang et al. 2016)."""

    arg_constraints = Binary.arg_constraints
    support = constraints.unit_interval

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args)


class ExpRelaxedCategorical(_Tempered, OfChoices):
    """The logarithm of `RelaxedOneHotCategorical`."""

    support = constraints.real_vector

    def rsample(self, sample_shape: Any = ()) -> Any:
        u = clamp_probs(rand(self._extended_shape(sample_shape), dtype=self.logits.dtype))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, True)

    def _log_prob(self, value: Any) -> Any:
        k = self._event_shape[0]
        logits, value = broadcast_all(self.logits, value)
        score = logits - value.mul(self.temperature)
        score = (score - score.logsumexp(-1, True)).sum(-1)
        return score + math.lgamma(k) + (k - 1) * self.temperature.log()


class RelaxedOneHotCategorical(_Relaxed):
    """Probabilities, the nearer to one choice the lower the temperature (Maddison et al. 2016, Jang et al. 2016)."""

    arg_constraints = OfChoices.arg_constraints
    support = constraints.simplex

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(ExpRelaxedCategorical(temperature, probs, logits, validate_args), ExpTransform(), validate_args)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """A choice whose gradient is that of its probabilities (Bengio et al. 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        p = self.probs
        return self.sample(sample_shape) + (p - p.detach())


class VonMises(Distribution):
    """Angles about a mean direction. Its density takes the special functions of SciPy."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = mode = property(lambda self: self.loc)

    @property
    def variance(self) -> Any:
        return 1 - special.i1e(self.concentration) / special.i0e(self.concentration)

    def _log_prob(self, value: Any) -> Any:
        k = self.concentration
        return k * (value - self.loc).cos() - math.log(2 * math.pi) - (special.i0e(k).log() + k)

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Any:
        """By rejection from a wrapped Cauchy distribution (D. Best and N. Fisher 1979)."""
        loc, k = self.loc.double(), self.concentration.double()
        tau = 1 + (1 + 4 * k**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        r = T["where"](k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))
        x = zeros(self._extended_shape(sample_shape), dtype=loc.dtype)
        done = x != 0
        while not bool(done.all()):
            u1, u2, u3 = rand((3, *x.shape), dtype=loc.dtype).unbind()
            z = (math.pi * u1).cos()
            f = (1 + r * z) / (r + z)
            c = k * (r - f)
            taken = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
            x, done = T["where"](taken, (u3 - 0.5).sign() * f.acos(), x), done | taken
        return ((x + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)


class FisherSnedecor(Distribution):
    """The quotient of two independent chi-squared numbers, each over its degrees of freedom."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1, self._gamma2 = (Gamma(df * 0.5, df) for df in (self.df1, self.df2))
        super().__init__(self.df1.shape, validate_args=validate_args)

    mean = property(lambda self: T["where"](self.df2 <= 2, math.nan, self.df2 / (self.df2 - 2)))
    mode = property(lambda self: T["where"](self.df1 <= 2, math.nan, (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)))

    @property
    def variance(self) -> Any:
        m, n = self.df1, self.df2
        return T["where"](n <= 4, math.nan, 2 * n.pow(2) * (m + n - 2) / (m * (n - 2).pow(2) * (n - 4)))

    def rsample(self, sample_shape: Any = ()) -> Any:
        tiny = finfo(self.df1.dtype).tiny
        x, y = self._gamma1.rsample(sample_shape), self._gamma2.rsample(sample_shape)
        return (x / y.clamp(min=tiny)).clamp(min=tiny)

    def _log_prob(self, value: Any) -> Any:
        a, b, ratio, lgamma = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2, T["lgamma"]
        sizes = lgamma(a + b) - lgamma(a) - lgamma(b)
        return sizes + (a * ratio.log() + (a - 1) * value.log()) - (a + b) * (ratio * value).log1p()


class ContinuousBernoulli(Binary):
    """Numbers between 0 and 1 (G. Loaiza-Ganem and J. P. Cunningham 2019). Between `lims` series take the place of quotients."""

    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, probs: Any = None, logits: Any = None, lims: Any = (0.499, 0.501), validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)
        self._lims = lims
        if probs is not None:
            self.probs = clamp_probs(self.probs)

    probs = lazy_property(lambda self: clamp_probs(logits_to_probs(self.logits, True)))

    def _either(self, formula: Any, series: Any) -> Any:
        """A function of the probability, by its series about 1/2 between the limits."""
        p, (low, high) = self.probs, self._lims
        far = (p <= low) | (p > high)
        return T["where"](far, formula(T["where"](far, p, low * T["ones_like"](p))), series(p - 0.5))

    def _log_norm(self) -> Any:
        def norm(p: Any) -> Any:
            return ((-p).log1p() - p.log()).abs().log() - (1 - 2 * p).abs().log()

        return self._either(norm, lambda x: math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x**2) * x**2)

    mean = property(
        lambda self: self._either(
            lambda p: p / (2 * p - 1) + 1 / ((-p).log1p() - p.log()), lambda x: 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x**2) * x
        )
    )
    variance = property(
        lambda self: self._either(
            lambda p: p * (p - 1) / (1 - 2 * p) ** 2 + 1 / ((-p).log1p() - p.log()) ** 2,
            lambda x: 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x**2) * x**2,
        )
    )

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.icdf(rand(self._extended_shape(sample_shape), dtype=self.probs.dtype))

    def _log_prob(self, value: Any) -> Any:
        logits, value = broadcast_all(self.logits, value)
        return -binary_entropy(logits, value) + self._log_norm()

    def _cdf(self, value: Any) -> Any:
        found = self._either(lambda p: (p**value * (1 - p) ** (1 - value) + p - 1) / (2 * p - 1), lambda _x: value)
        return T["where"](value <= 0, 0.0, T["where"](value >= 1, 1.0, found))

    def icdf(self, value: Any) -> Any:
        return self._either(lambda p: ((-p + value * (2 * p - 1)).log1p() - (-p).log1p()) / (p.log() - (-p).log1p()), lambda _x: value)

    def entropy(self) -> Any:
        low = (-self.probs).log1p()
        return self.mean * (low - self.probs.log()) - self._log_norm() - low
