"""Distributions of vectors: probabilities, and normal vectors."""

from __future__ import annotations

import functools
import math
from typing import Any

from functrace.torch._create import eye
from functrace.torch._modes import enable_grad
from functrace.torch._ops import FUNCTIONS
from functrace.torch.distributions import constraints
from functrace.torch.distributions.continuous import dirichlet
from functrace.torch.distributions.distribution import Distribution, broadcast_all, standard_normal

T: Any = FUNCTIONS


class Dirichlet(Distribution):
    """Probabilities: gamma numbers over their sum."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    mean = property(lambda self: self.concentration / self.concentration.sum(-1, True))

    @property
    def mode(self) -> Any:
        less = (self.concentration - 1).clamp(min=0.0)
        found = less / less.sum(-1, True)
        flat = (self.concentration < 1).all(-1, keepdim=True)
        corner = T["argmax"](found, -1, keepdim=True)
        one = T["zeros_like"](found).scatter_(-1, corner, 1.0)
        return T["where"](flat, one, found)

    @property
    def variance(self) -> Any:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        a, lgamma = self.concentration, T["lgamma"]
        return T["xlogy"](a - 1.0, value).sum(-1) + lgamma(a.sum(-1)) - lgamma(a).sum(-1)

    def entropy(self) -> Any:
        a, k, lgamma, digamma = self.concentration, self.concentration.size(-1), T["lgamma"], T["digamma"]
        total = a.sum(-1)
        return lgamma(a).sum(-1) - lgamma(total) - (k - total) * digamma(total) - ((a - 1.0) * digamma(a)).sum(-1)


class Beta(Distribution):
    """The probability of a two-way choice: the first of two that a Dirichlet distribution gives."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        both = broadcast_all(concentration1, concentration0)
        self._dirichlet = Dirichlet(T["stack"](both, -1), validate_args)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    concentration1 = property(lambda self: self._dirichlet.concentration[..., 0])
    concentration0 = property(lambda self: self._dirichlet.concentration[..., 1])
    mean = property(lambda self: self.concentration1 / (self.concentration1 + self.concentration0))
    mode = property(lambda self: self._dirichlet.mode[..., 0])

    @property
    def variance(self) -> Any:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        return self._dirichlet.log_prob(T["stack"]([value, 1.0 - value], -1))

    def entropy(self) -> Any:
        return self._dirichlet.entropy()


class Covariant(Distribution):
    """What has a covariance: of it, its inverse, and its Cholesky factor the one that was given, `_given`, is an attribute."""

    _given: str

    def _take(self, **given: Any) -> Any:
        """The one matrix that is given, and note which."""
        named = [k for k, v in given.items() if v is not None]
        if len(named) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        self._given = named[0]
        return given[named[0]]

    @functools.cached_property
    @enable_grad()
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariance."""
        return self._factor

    def _inner(self, name: str) -> int:
        return 2 if name == "_factor" else super()._inner(name)

    @functools.cached_property
    @enable_grad()
    def _factor(self) -> Any:
        if self._given == "scale_tril":
            return self.scale_tril
        if self._given == "covariance_matrix":
            return T["cholesky"](self.covariance_matrix)
        flipped = T["cholesky"](self.precision_matrix.flip(-2, -1)).flip(-2, -1).mT
        from functrace.torch import linalg

        return linalg.solve_triangular(flipped, eye(flipped.shape[-1], dtype=flipped.dtype), upper=False)

    @functools.cached_property
    @enable_grad()
    def covariance_matrix(self) -> Any:
        """The covariances of the elements."""
        return self._factor @ self._factor.mT

    @functools.cached_property
    @enable_grad()
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return T["cholesky_inverse"](self._factor)


class MultivariateNormal(Covariant):
    """The normal distribution of a mean vector, and a covariance, its inverse, or its Cholesky factor."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        matrix = self._take(covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril)
        if matrix.dim() < 2:
            more = "" if self._given == "precision_matrix" else ", with optional leading batch dimensions"
            raise ValueError(f"{self._given} must be at least two-dimensional{more}")
        batch = T["broadcast_shapes"](matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand(*batch, loc.shape[-1])
        setattr(self, self._given, matrix.expand(*batch, *matrix.shape[-2:]))
        super().__init__(batch, loc.shape[-1:], validate_args)

    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: self._factor.pow(2).sum(-1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        eps = standard_normal(self._extended_shape(sample_shape), self.loc.dtype)
        return self.loc + (self._factor @ eps.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self) -> Any:
        return self._factor.diagonal(0, -2, -1).log().sum(-1)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        from functrace.torch import linalg

        away = linalg.solve_triangular(self._factor, (value - self.loc).unsqueeze(-1), upper=False).squeeze(-1)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + away.pow(2).sum(-1)) - self._half_log_det()

    def entropy(self) -> Any:
        return 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()


class LowRankMultivariateNormal(Distribution):
    """Normal vectors whose covariance is `cov_factor @ cov_factor.T`, and `cov_diag` on the diagonal."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        n = loc.shape[-1:]
        if cov_factor.shape[-2:-1] != n:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {n[0]} x m")
        if cov_diag.shape[-1:] != n:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {n}")
        batch = T["broadcast_shapes"](loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc, self.cov_diag = loc.expand(*batch, *n), cov_diag.expand(*batch, *n)
        self.cov_factor = cov_factor.expand(*batch, *cov_factor.shape[-2:])
        super().__init__(batch, n, validate_args)

    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: self.cov_factor.pow(2).sum(-1) + self.cov_diag)
    covariance_matrix = property(lambda self: self.cov_factor @ self.cov_factor.mT + T["diag_embed"](self.cov_diag))
    scale_tril = _factor = property(lambda self: T["cholesky"](self.covariance_matrix))
    precision_matrix = property(lambda self: T["cholesky_inverse"](self.scale_tril))

    def _parts(self) -> tuple[Any, Any, Any]:
        """The factor over the variances, the Cholesky factor of what the small matrix is, and the logarithm of the determinant."""
        scaled = self.cov_factor / self.cov_diag.unsqueeze(-1)
        small = T["cholesky"](scaled.mT @ self.cov_factor + eye(scaled.shape[-1], dtype=scaled.dtype))
        return scaled, small, 2 * small.diagonal(0, -2, -1).log().sum(-1) + self.cov_diag.log().sum(-1)

    def _half_log_det(self) -> Any:
        return self._parts()[2] / 2

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        first = standard_normal((*shape[:-1], self.cov_factor.shape[-1]), self.loc.dtype)
        rest = standard_normal(shape, self.loc.dtype)
        return self.loc + (self.cov_factor @ first.unsqueeze(-1)).squeeze(-1) + self.cov_diag.sqrt() * rest

    def log_prob(self, value: Any) -> Any:
        from functrace.torch import linalg

        self._validate_sample(value)
        away = value - self.loc
        scaled, small, log_det = self._parts()
        inside = linalg.solve_triangular(small, scaled.mT @ away.unsqueeze(-1), upper=False).pow(2).sum((-2, -1))
        size = (away.pow(2) / self.cov_diag).sum(-1) - inside
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + log_det + size)

    def entropy(self) -> Any:
        return 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
