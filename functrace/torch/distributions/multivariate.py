"""Distributions of vectors and matrices, and functions from vectors onto matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.torch import linalg
from functrace.torch._create import arange, eye, tensor
from functrace.torch._draws import randn
from functrace.torch._info import finfo
from functrace.torch._ops import FUNCTIONS
from functrace.torch._tensor import Tensor, wrap
from functrace.torch.distributions import constraints
from functrace.torch.distributions.continuous import Chi2, dirichlet
from functrace.torch.distributions.distribution import Distribution, broadcast_all, lazy_property, standard_normal
from functrace.torch.distributions.transforms import Transform
from functrace.torch.nn import functional

T: Any = FUNCTIONS
F: Any = functional


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

    def _log_prob(self, value: Any) -> Any:
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

    def _log_prob(self, value: Any) -> Any:
        return self._dirichlet.log_prob(T["stack"]([value, 1.0 - value], -1))

    def entropy(self) -> Any:
        return self._dirichlet.entropy()


def _precision_to_scale_tril(P: Any) -> Any:
    """The Cholesky factor of the inverse, which packages import too."""
    flipped = linalg.cholesky(P.flip(-2, -1)).flip(-2, -1).mT
    return linalg.solve_triangular(flipped, eye(flipped.shape[-1], dtype=flipped.dtype), upper=False)


class Covariant(Distribution):
    """What has a covariance: of it, its inverse, and its Cholesky factor the one that was given, `_given_matrix`, is an attribute."""

    _given_matrix: str
    _unbroadcasted_scale_tril: Any

    def _take_matrix(self, **given: Any) -> Any:
        """The one matrix that is given, and note which."""
        named = [k for k, v in given.items() if v is not None]
        if len(named) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        self._given_matrix = named[0]
        return given[named[0]]

    @lazy_property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril

    def _inner_dims(self, name: str) -> int:
        return 2 if name == "_unbroadcasted_scale_tril" else super()._inner_dims(name)

    def _half_log_det(self) -> Any:
        return self._unbroadcasted_scale_tril.diagonal(0, -2, -1).log().sum(-1)

    def _take_factor(self, matrix: Any) -> None:
        """Factor the matrix that was given: once, and where it is given, so that later calls find a plain attribute."""
        if self._given_matrix == "covariance_matrix":
            matrix = linalg.cholesky(matrix)
        elif self._given_matrix == "precision_matrix":
            matrix = _precision_to_scale_tril(matrix)
        self._unbroadcasted_scale_tril = matrix.expand(*self._batch_shape, *matrix.shape[-2:])

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariances of the elements."""
        return self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return T["cholesky_inverse"](self._unbroadcasted_scale_tril)


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
        matrix = self._take_matrix(covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril)
        if matrix.dim() < 2:
            raise ValueError(f"{self._given_matrix} must be at least two-dimensional, with optional leading batch dimensions")
        batch = T["broadcast_shapes"](matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand(*batch, loc.shape[-1])
        setattr(self, self._given_matrix, matrix.expand(*batch, *matrix.shape[-2:]))
        super().__init__(batch, loc.shape[-1:], validate_args)
        self._take_factor(matrix)

    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: self._unbroadcasted_scale_tril.pow(2).sum(-1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        eps = standard_normal(self._extended_shape(sample_shape), self.loc.dtype)
        return self.loc + (self._unbroadcasted_scale_tril @ eps.unsqueeze(-1)).squeeze(-1)

    def _log_prob(self, value: Any) -> Any:
        away = linalg.solve_triangular(self._unbroadcasted_scale_tril, (value - self.loc).unsqueeze(-1), upper=False).squeeze(-1)
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
    scale_tril = _unbroadcasted_scale_tril = property(lambda self: T["cholesky"](self.covariance_matrix))
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

    def _log_prob(self, value: Any) -> Any:
        away = value - self.loc
        scaled, small, log_det = self._parts()
        inside = linalg.solve_triangular(small, scaled.mT @ away.unsqueeze(-1), upper=False).pow(2).sum((-2, -1))
        size = (away.pow(2) / self.cov_diag).sum(-1) - inside
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + log_det + size)

    entropy = MultivariateNormal.entropy


# matrices


class LowerCholeskyTransform(Transform):
    """Square matrices as lower triangular ones with a positive diagonal."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(0, -2, -1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(0, -2, -1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Square matrices as positive definite ones: products of what `LowerCholeskyTransform` gives with its transpose."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(T["cholesky"](y))


class CorrCholeskyTransform(Transform):
    """n (n - 1) / 2 numbers as the Cholesky factor of a correlation matrix (Lewandowski, Kurowicka and Joe 2009)."""

    bijective = True
    domain, codomain = constraints.real_vector, constraints.corr_cholesky

    def _call(self, x: Any) -> Any:
        eps = finfo(x.dtype).eps
        n = self.forward_shape(x.shape)[-1]
        i, j = np.tril_indices(n, -1)
        r = x.new_zeros((*x.shape[:-1], n, n))
        r[..., wrap(i), wrap(j)] = x.tanh().clamp(-1 + eps, 1 - eps)
        left = (1 - r**2).sqrt().cumprod(-1)
        return (r + T["eye"](n, dtype=r.dtype)) * F.pad(left[..., :-1], [1, 0], value=1)

    def _left(self, y: Any) -> Any:
        return 1 - (y * y).cumsum(-1)

    def _inverse(self, y: Any) -> Any:
        before = F.pad(self._left(y)[..., :-1], [1, 0], value=1)
        i, j = map(wrap, np.tril_indices(y.shape[-1], -1))
        t = y[..., i, j] / before[..., i, j].sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        i, j = map(wrap, np.tril_indices(y.shape[-1], -2))
        return 0.5 * self._left(y)[..., i, j].log().sum(-1) - 2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        m = shape[-1] if len(shape) else 0
        n = round((0.25 + 2 * m) ** 0.5 + 0.5)
        if not len(shape):
            raise ValueError("Too few dimensions on input")
        if n * (n - 1) // 2 != m:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices, with a density that is a power of the determinant (Lewandowski, Kurowicka and Joe 2009,
    by the onion method).
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        marginal = self.concentration + 0.5 * (dim - 2)
        offset = arange(dim - 1, dtype=self.concentration.dtype)
        offset = T["cat"]([offset.new_zeros((1,)), offset])
        self._beta = Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape: Any = ()) -> Any:
        y = self._beta.sample(sample_shape).unsqueeze(-1)
        u = randn(self._extended_shape(sample_shape), dtype=y.dtype).tril(-1)
        u = u / u.norm(dim=-1, keepdim=True)
        u[..., 0, :].fill_(0.0)
        w = y.sqrt() * u
        left = (1 - (w**2).sum(-1)).clamp(min=finfo(w.dtype).tiny)
        return w + left.sqrt().diag_embed()

    def _log_prob(self, value: Any) -> Any:
        a, n, lgamma = self.concentration, self.dim, T["lgamma"]
        powers = 2 * (a - 1).unsqueeze(-1) + n - arange(2, n + 1)
        density = (powers * value.diagonal(0, -1, -2)[..., 1:].log()).sum(-1)
        alpha = a + 0.5 * (n - 1)
        return density - (0.5 * (n - 1) * math.log(math.pi) + T["mvlgamma"](alpha - 0.5, n - 1) - lgamma(alpha) * (n - 1))


class Wishart(Covariant):
    """Sums of `df` outer products of normal vectors with themselves (Bartlett 1933)."""

    arg_constraints = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
        "df": constraints.greater_than(0),
    }
    support = constraints.positive_definite
    has_rsample = True

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        matrix = self._take_matrix(covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril)
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        df = df if isinstance(df, Tensor) else tensor(float(df), dtype=matrix.dtype)
        batch, n = T["broadcast_shapes"](matrix.shape[:-2], df.shape), matrix.shape[-1]
        self.df = df.expand(batch)
        if bool((self.df <= n - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        setattr(self, self._given_matrix, matrix.expand(*batch, n, n))
        super().__init__(batch, (n, n), validate_args)
        self._take_factor(matrix)
        self._chi2 = Chi2(self.df.unsqueeze(-1) - arange(n, dtype=matrix.dtype))

    mean = property(lambda self: self.df[..., None, None] * self.covariance_matrix)

    @property
    def mode(self) -> Any:
        factor = self.df - self._event_shape[-1] - 1
        return T["where"](factor <= 0, math.nan, factor)[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Any:
        v = self.covariance_matrix
        spread = v.diagonal(0, -2, -1)
        return self.df[..., None, None] * (v.pow(2) + spread[..., :, None] * spread[..., None, :])

    def _bartlett(self, sample_shape: Any) -> Any:
        n = self._event_shape[-1]
        noise = self._chi2.rsample(sample_shape).sqrt().diag_embed()
        below = randn((*sample_shape, *self._batch_shape, n * (n - 1) // 2), dtype=noise.dtype)
        i, j = np.tril_indices(n, -1)
        noise[..., wrap(i), wrap(j)] = below
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Any:
        found = self._bartlett(tuple(sample_shape))
        again = self._accepted(found)  # PyTorch draws those that are accepted once more: the numbers are to be the same
        for _ in range(10 if max_try_correction is None else max_try_correction):
            if not bool(again.any()):
                break
            new = self._bartlett((int(again.sum()),))
            chosen = again.clone()  # for the gradient, as `again` is written
            found[chosen] = new
            again[chosen] = ~self._accepted(new)
        return found

    def _accepted(self, x: Any) -> Any:
        accepted = self.support.check(x)
        return accepted.flatten(-len(self._batch_shape)).any(-1) if self._batch_shape else accepted

    def _log_prob(self, value: Any) -> Any:
        df, n = self.df, self._event_shape[-1]
        scale = df * (n * math.log(2.0) / 2 + self._half_log_det()) + T["mvlgamma"](df / 2, n)
        trace = T["cholesky_solve"](value, self._unbroadcasted_scale_tril).diagonal(0, -2, -1).sum(-1)
        return -scale + (df - n - 1) / 2 * linalg.slogdet(value).logabsdet - trace / 2

    def entropy(self) -> Any:
        df, n = self.df, self._event_shape[-1]
        digammas = T["digamma"]((df / 2).unsqueeze(-1) - arange(n, dtype=df.dtype) / 2).sum(-1)
        log_det = n * math.log(2.0) / 2 + self._half_log_det()
        return (n + 1) * log_det + T["mvlgamma"](df / 2, n) - (df - n - 1) / 2 * digammas + df * n / 2
