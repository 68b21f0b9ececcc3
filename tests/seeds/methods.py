# Methods of tensors, linear algebra, Fourier transforms.


import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
A = torch.arange(12.0).view(3, 4)
B = torch.arange(24).view(2, 3, 4)
V, I = torch.tensor([3.0, 1.0, 2.0]), torch.tensor([3, 1, 2])
M = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
C = torch.tensor([1 + 2j, 3 - 1j])
Z = torch.tensor([True, False, True])
R = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
E, S = torch.empty(0), torch.tensor(2.5)


def show(source):
    torch.manual_seed(0)
    try:
        value = eval(source)
        print(source, "->", repr(value), getattr(value, "dtype", ""))
    except Exception as error:
        print(source, "!!", type(error).__name__, error)


EXPRESSIONS = r"""
V.new_zeros(2, 3), V.new_ones(2, dtype=torch.int), V.new_full((2,), 3.), V.new_tensor([1, 2]), V.new_empty(0)
V.clone() is V, V.contiguous() is V, V.detach().requires_grad, V.data_ptr() == V.view(3).data_ptr()
V.numpy(), V.numpy().dtype, A.T.numpy().strides, Z.numpy()
V.type(torch.int), V.to(torch.int8), V.to('cpu'), V.to(torch.float64, copy=True), V.long(), V.int(), V.bool(), V.double(), V.half(), V.type('torch.DoubleTensor'), V.type_as(I), V.to(I)
V.cpu() is V, V.to('cpu') is V, V.float() is V
A.is_contiguous(), A.T.is_contiguous(), A.stride(), A.storage_offset(), A[1:].storage_offset(), A.element_size(), A.nelement(), A.numel(), A.dim(), A.ndim, A.size(), A.shape, A.nbytes, A.itemsize
A.view(-1).shape, A.view(2, 6).shape, A.view_as(torch.ones(4, 3)).shape, A.reshape(-1, 2).shape, A.reshape_as(torch.ones(12)).shape
A.expand_as(torch.ones(2, 3, 4)).shape, A.unsqueeze(0).squeeze(0).shape, A.flatten().shape, A.ravel().shape
V.where(V > 0, -V), V.maximum(torch.zeros(3)), V.fmax(torch.zeros(3)), V.heaviside(torch.tensor(1.))
V.T, V.mean().item(), V.var(), V.argsort(), V.cumsum(0), V.diff(), V.flip(0), V.roll(1), V.sign(), V.sgn(), V.frac(), V.trunc()
V.isnan(), V.isinf().any(), V.isfinite().all(), V.nan_to_num(), V.signbit(), V.isposinf()
V.logit(), V.erf(), V.expm1(), V.log1p(), V.log2(), V.log10(), V.exp2(), V.sinc(), V.deg2rad(), V.rad2deg(), V.reciprocal(), V.rsqrt(), V.square()
V.atan2(V), V.hypot(V), V.logaddexp(V), V.xlogy(V), V.copysign(-V), V.nextafter(V + 1), V.fmod(2), V.remainder(2), V.ldexp(torch.tensor(2)), V.float_power(2)
I.gcd(torch.tensor([2])), I.lcm(torch.tensor([2])), I.bitwise_and(1), I.bitwise_not(), I.bitwise_left_shift(1)
A.unfold(0, 2, 1).shape, A.diagonal().shape, A.trace(), A.kron(torch.ones(1, 2)).shape, A.outer(V) if A.dim() == 1 else 0
torch.linalg.inv(torch.zeros(2, 2))
torch.linalg.cholesky(-M)
torch.linalg.solve(torch.zeros(2, 2), torch.ones(2))
torch.linalg.solve(M, torch.ones(3))
torch.linalg.inv(torch.ones(2, 3))
torch.linalg.det(torch.ones(2, 3))
torch.linalg.eigh(torch.ones(3))
torch.fft.fft(torch.tensor([1., 2., 3.])), torch.fft.ifft(C), torch.fft.rfft(torch.ones(4)), torch.fft.irfft(torch.ones(3) + 0j), torch.fft.fftfreq(4), torch.fft.fftshift(torch.arange(4)), torch.fft.fft2(M)
torch.histc(torch.tensor([1., 2., 1.]), 4, 0, 3), torch.bucketize(2, torch.tensor([1, 3])), torch.cov(A), torch.corrcoef(M), torch.trapezoid(torch.ones(3)), torch.cumulative_trapezoid(torch.ones(3)), torch.gradient(torch.arange(4.)), torch.vander(torch.ones(2)), torch.logspace(0, 2, 3), torch.linspace(0, 1, 5), torch.arange(1, 2, .25), torch.arange(3.), torch.range(1, 3), torch.full((2,), 7), torch.full_like(V, 2), torch.empty_like(V).shape, torch.rand_like(V).shape, torch.randint_like(V, 5).dtype, torch.complex(S, S), torch.polar(S, S), torch.view_as_real(C), torch.angle(C), torch.real(C), C.imag, C.conj(), C.abs()
torch.Tensor.add(torch.ones(1), 1), torch.Tensor.__add__(torch.ones(1), 1)
V.retain_grad()
V.grad
V.__array__().dtype
V.is_leaf, (V * 2).is_leaf, (V * 2).requires_grad, V.detach().is_leaf
V.data, V.data.requires_grad
torch.autograd.grad(V.sum(), torch.ones(1, requires_grad=True))
torch.autograd.grad(V.sum(), V)
V.sum().item(), V.tolist()
hash(V) == id(V), V in [V], [1, V][1] is V
"""
for source in EXPRESSIONS.strip().splitlines():
    show(source)
