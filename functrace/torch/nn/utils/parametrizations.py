"""`torch.nn.utils.parametrizations`: weights by length and direction, of spectral norm one, or orthogonal."""

from __future__ import annotations

from typing import Any

from functrace.torch import linalg
from functrace.torch._apply import call
from functrace.torch._create import empty, eye
from functrace.torch._index import cat
from functrace.torch._info import finfo
from functrace.torch._modes import no_grad
from functrace.torch._nodes import Op
from functrace.torch._reduce import array_norm
from functrace.torch._shape import axis
from functrace.torch._tensor import Tensor
from functrace.torch.nn import functional as F
from functrace.torch.nn.module import Module
from functrace.torch.nn.utils.parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def norm_except(v: Any, dim: int, p: float = 2) -> Any:
    """The p-norm of each slice along an axis; of the whole if it is -1."""
    if dim == -1:
        return v.norm(p)
    others = [k for k in range(v.ndim) if k != axis(dim, v.ndim)]
    return v.norm(p, others, True) if others else v.abs()


_INTERFACE = Op("WeightNormInterface", lambda v, g, axes: v * (g / array_norm(v, 2, axes, True)))


def stretched_to(v: Any, g: Any, dim: int) -> Any:
    """Directions times lengths; PyTorch has one operation for it along the first axis and the last."""
    if dim in (0, v.ndim - 1) and v.ndim > 1:
        return call(_INTERFACE, (v, g), (tuple(k for k in range(v.ndim) if k != dim),))
    return v * (g / norm_except(v, dim))


def positive(times: int) -> int:
    """A number of power iterations, checked."""
    if times <= 0:
        raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={times}")
    return times


def axis_of(module: Module, dim: int | None) -> int:
    """The axis of a module's weight that runs over its outputs, unless another is given."""
    return int(type(module).__name__.startswith("ConvTranspose")) if dim is None else dim


def matrix_of(weight: Any, dim: int) -> Any:
    """A weight with one axis in front, and the others as one."""
    return weight.movedim(dim, 0).flatten(1)


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        """Length times direction."""
        return stretched_to(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Any) -> Any:
        """Length, and the weight itself for its direction."""
        return norm_except(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Weights as length times direction (Salimans and Kingma 2016)."""
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _SpectralNorm(Module):
    _u: Any
    _v: Any

    def __init__(self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        self.dim, self.eps, self.n_power_iterations = dim % max(weight.ndim, 1), eps, positive(n_power_iterations)
        if weight.ndim > 1:
            matrix = matrix_of(weight, self.dim)
            u, v = (empty(n, dtype=weight.dtype).normal_(0, 1) for n in matrix.shape)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)

    @no_grad()
    def _power_method(self, matrix: Any, times: int) -> None:
        for _ in range(times):
            self._u = F.normalize(matrix.mv(self._v), dim=0, eps=self.eps)
            self._v = F.normalize(matrix.H.mv(self._u), dim=0, eps=self.eps)

    def forward(self, weight: Any) -> Any:
        """The weight over its largest singular value, which follows it by power iterations while training."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = matrix_of(weight, self.dim)
        if self.training:
            self._power_method(matrix.detach(), self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()
        return weight / u.dot(matrix.mv(v))

    def right_inverse(self, value: Any) -> Any:
        """The value itself."""
        return value


def spectral_norm(module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None) -> Module:
    """Weights over their largest singular value (Miyato et al. 2018)."""
    made = _SpectralNorm(getattr(module, name), n_power_iterations, axis_of(module, dim), eps)
    return register_parametrization(module, name, made)


_NO_INVERSE = "It is not possible to assign to the matrix exponential or the Cayley parametrizations when use_trivialization=False."


class _Orthogonal(Module):
    def __init__(self, shape: Any, how: str, use_trivialization: bool) -> None:
        super().__init__()
        self.shape, self.how = shape, how
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Any) -> Any:
        """The orthogonal matrix that a skew-symmetric one generates, or a product of reflections."""
        n, k = X.shape[-2:]
        if n < k:
            return self.forward(X.mT).mT
        if self.how == "householder":
            low = X.tril(-1)
            Q = linalg.householder_product(low, 2 / (1 + (low * low).sum(-2))) * X.diagonal(0, -2, -1).int().unsqueeze(-2)
        else:
            one = eye(n, dtype=X.dtype)
            low = X.tril() if n == k else cat([X.tril(), X.new_zeros(*X.shape[:-2], n, n - k)], -1)
            skew = low - low.mH
            cayley = self.how == "cayley"
            Q = linalg.solve(one - 0.5 * skew, one + 0.5 * skew) if cayley else linalg.matrix_exp(skew)
            Q = Q if n == k else Q[..., :k]
        return self.base @ Q if hasattr(self, "base") else Q

    def right_inverse(self, Q: Any) -> Any:
        """Begin at Q, made orthogonal and completed to a square matrix: A is zero there."""
        if Q.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}.")
        if not hasattr(self, "base"):
            raise NotImplementedError(_NO_INVERSE)
        tall = Q.mT if Q.shape[-2] < Q.shape[-1] else Q
        n, k = tall.shape[-2:]
        if n == k and (tall.mH @ tall).allclose(eye(n, dtype=Q.dtype), atol=10 * n * finfo(Q.dtype).eps):
            self.base = tall.clone()
        else:
            q, r = linalg.qr(cat([tall, empty(*tall.shape[:-2], n, n - k, dtype=Q.dtype).normal_()], -1))
            self.base = q * r.diagonal(0, -2, -1).sgn().unsqueeze(-2)
        X = Q.new_zeros(Q.shape)
        X.diagonal(0, -2, -1).fill_(-1.0)
        return X


def orthogonal(module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True) -> Module:
    """Weights with orthonormal columns (or rows): a function of a skew-symmetric matrix A, times where they began.

    The map is "matrix_exp", "cayley", which is (1 - A/2)^-1 (1 + A/2), or "householder", a product of reflections, for real weights, which
    without `use_trivialization` raises NotImplementedError. Where none is given it is the exponential for square and for complex
    matrices, else reflections. With `use_trivialization` a matrix can be assigned to the weight, which then begins there.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    n, k = weight.shape[-2:]
    how = orthogonal_map or ("matrix_exp" if n == k or weight.is_complex() else "householder")
    if how not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}')
    if how == "householder" and weight.is_complex():
        raise ValueError("The householder parametrization does not support complex tensors.")
    if how == "householder" and not use_trivialization:
        raise NotImplementedError('orthogonal: "householder" with use_trivialization=False is not in functrace.torch: leave it True.')
    return register_parametrization(module, name, _Orthogonal(weight.shape, how, use_trivialization), unsafe=True)
