"""Distributions of matrices, and functions from vectors onto them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.torch._create import arange, tensor
from functrace.torch._draws import randn
from functrace.torch._ops import FUNCTIONS
from functrace.torch._tensor import Tensor, wrap
from functrace.torch.distributions import constraints
from functrace.torch.distributions.continuous import Chi2
from functrace.torch.distributions.distribution import Distribution, broadcast_all
from functrace.torch.distributions.multivariate import Beta, Covariant
from functrace.torch.distributions.transforms import ONTO, Transform
from functrace.torch.nn import functional

T: Any = FUNCTIONS
F: Any = functional


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

    @staticmethod
    def _below(n: int, diagonal: int = -1) -> Any:
        return np.tril_indices(n, diagonal)

    def _call(self, x: Any) -> Any:
        eps = float(np.finfo(x._a.dtype).eps)
        n = self.forward_shape(x.shape)[-1]
        i, j = self._below(n)
        r = x.new_zeros((*x.shape[:-1], n, n))
        r[..., wrap(i), wrap(j)] = x.tanh().clamp(-1 + eps, 1 - eps)
        left = (1 - r**2).sqrt().cumprod(-1)
        return (r + T["eye"](n, dtype=r.dtype)) * F.pad(left[..., :-1], [1, 0], value=1)

    def _left(self, y: Any) -> Any:
        return 1 - (y * y).cumsum(-1)

    def _inverse(self, y: Any) -> Any:
        before = F.pad(self._left(y)[..., :-1], [1, 0], value=1)
        i, j = map(wrap, self._below(y.shape[-1]))
        t = y[..., i, j] / before[..., i, j].sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        i, j = map(wrap, self._below(y.shape[-1], -2))
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


ONTO[constraints.lower_cholesky] = LowerCholeskyTransform
ONTO[constraints.positive_definite] = PositiveDefiniteTransform
ONTO[constraints.corr_cholesky] = CorrCholeskyTransform


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
        left = (1 - (w**2).sum(-1)).clamp(min=float(np.finfo(w._a.dtype).tiny))
        return w + left.sqrt().diag_embed()

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
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
        matrix = self._take(covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril)
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        df = df if isinstance(df, Tensor) else tensor(float(df), dtype=matrix.dtype)
        batch, n = T["broadcast_shapes"](matrix.shape[:-2], df.shape), matrix.shape[-1]
        self.df = df.expand(batch)
        if bool((self.df <= n - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        setattr(self, self._given, matrix.expand(*batch, n, n))
        super().__init__(batch, (n, n), validate_args)
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
        factor = self._factor @ noise
        return factor @ factor.mT

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Any:
        found = self._bartlett(tuple(sample_shape))
        again = self._accepted(found)  # PyTorch draws those that are accepted once more: the numbers are to be the same
        for _ in range(10 if max_try_correction is None else max_try_correction):
            if not bool(again.any()):
                break
            new = self._bartlett((int(again.sum()),))
            found[again] = new
            again[again.clone()] = ~self._accepted(new)
        return found

    def _accepted(self, x: Any) -> Any:
        accepted = self.support.check(x)
        return accepted.flatten(-len(self._batch_shape)).any(-1) if self._batch_shape else accepted

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        from functrace.torch import linalg

        df, n = self.df, self._event_shape[-1]
        scale = df * (n * math.log(2.0) / 2 + self._factor.diagonal(0, -2, -1).log().sum(-1)) + T["mvlgamma"](df / 2, n)
        trace = T["cholesky_solve"](value, self._factor).diagonal(0, -2, -1).sum(-1)
        return -scale + (df - n - 1) / 2 * linalg.slogdet(value).logabsdet - trace / 2

    def entropy(self) -> Any:
        df, n = self.df, self._event_shape[-1]
        digammas = T["digamma"]((df / 2).unsqueeze(-1) - arange(n, dtype=df.dtype) / 2).sum(-1)
        log_det = self._factor.diagonal(0, -2, -1).log().sum(-1)
        return (n + 1) * (n * math.log(2.0) / 2 + log_det) + T["mvlgamma"](df / 2, n) - (df - n - 1) / 2 * digammas + df * n / 2
