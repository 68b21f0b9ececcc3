"""Samples of the gamma and the Dirichlet distribution as functions of their parameters.

A sample x of a distribution function F(x; a) moves with the parameter such that F stays what it is: dx/da = -(dF/da) / (dF/dx)
(M. Figurnov, S. Mohamed and A. Mnih 2018, Implicit reparameterization gradients).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import functrace
from functrace.torch import _rejection
from functrace.torch._ops import scipy_special
from functrace.torch._tensor import wrap
from functrace.torch.autograd.function import Function, once_differentiable


def _special() -> Any:
    special = scipy_special()
    if special is None:
        raise ImportError("torch.distributions: the gradient of a gamma sample comes from SciPy: pip install 'functrace[scipy]'")
    return special


class _StandardGamma(Function):
    @staticmethod
    def forward(ctx: Any, concentration: Any) -> Any:
        a = concentration._a
        x = wrap(np.maximum(_rejection.gamma(a).astype(a.dtype), np.finfo(a.dtype).tiny))
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
        drawn = _rejection.gamma(a)
        limits = np.finfo(a.dtype)
        x = np.clip((drawn / drawn.sum(-1, keepdims=True)).astype(a.dtype), limits.tiny, np.nextafter(a.dtype.type(1), a.dtype.type(0)))
        ctx.save_for_backward(concentration, wrap(x))
        return wrap(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        special = _special()
        a, x = (t._a.astype(np.float64) for t in ctx.saved_tensors)
        rest = a.sum(-1, keepdims=True) - a
        slope = functrace.grad(lambda a: np.sum(special.betainc(a, rest, x)))(a)
        log_density = (a - 1) * np.log(x) + (rest - 1) * np.log1p(-x) - special.betaln(a, rest)
        speed = -slope * np.exp(-log_density) / (1 - x)
        g = grad._a.astype(np.float64)
        return wrap((speed * (g - np.sum(x * g, -1, keepdims=True))).astype(grad._a.dtype))


standard_gamma, dirichlet = _StandardGamma.apply, _Dirichlet.apply  # of rate 1; along the last axis
