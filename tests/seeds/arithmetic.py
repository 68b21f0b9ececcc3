# Arithmetic, reductions and products: values, dtypes, error texts.


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
V + 1
V + I
I + 1
I + 1.5
I / 2
I // 2
I % 2
-I // 2
I ** 2
I ** -1
2 ** I
I ** 0.5
V // 0.7
V % -2
-V % 2
torch.fmod(-V, 2)
torch.remainder(-V, 2)
I / 0
I // 0
I % 0
V / 0
1 / V
1 // I
5 % I
5 - V
V @ V
A @ V
A @ A.T
A @ A
A @ I
V @ A
S @ V
B @ B.mT
V * A
A * V
A + V
V + "a"
V + None
V + [1, 2, 3]
V + (1,)
V + np.array([1., 2., 3.])
V + np.float64(1)
np.float64(1) + V
np.float32(2) * V
I + np.float64(1)
V + 1j
I + 1j
V.double() + V
V.half() + V
V.half() * 2
I.int() + I
I.to(torch.uint8) + I.to(torch.int8)
I.to(torch.uint8) - 4
I.to(torch.int8) * 100
Z + 1
Z + Z
Z - Z
-Z
~Z
~I
~V
Z & True
Z | ~Z
Z ^ Z
I & 1
I | 4
I << 1
I >> 1
V << 1
V & 1
V > 1
V > I
V == V
V == "a"
V != None
V == A
V == torch.ones(2)
I == 1.0
Z == 1
V.eq(1)
V.equal(V)
torch.equal(V, I)
V.allclose(V + 1e-9)
torch.allclose(V, I)
torch.isclose(V, V + 0.1, atol=.2)
abs(-V)
+V
V.abs().neg()
round(V / 3, 2)
torch.round(V / 3, decimals=2)
V.floor(), V.ceil(), V.trunc(), V.frac()
math.floor(S)
int(S), float(S), bool(S), complex(S)
round(S)
int(V)
float(V)
bool(V)
bool(E)
V.item()
S.item()
len(V), len(A)
len(S)
list(V)
[*A[0]]
V.tolist(), A.tolist(), S.tolist(), E.tolist()
3. in V
4 in V
"a" in V
V.add(1, alpha=2)
V.add(V, alpha=2)
I.add(I, alpha=1.5)
V.sub(1)
V.mul(2)
V.div(2, rounding_mode='floor')
V.div(2, rounding_mode='trunc')
V.div(2, rounding_mode='x')
I.div(2)
I.true_divide(2)
I.floor_divide(2)
torch.add(V, 1)
torch.add(1, V)
torch.add(1, 2)
torch.mul(V, I)
torch.sub(V, 1, alpha=3)
torch.rsub(V, 1)
torch.pow(2, V)
torch.pow(V, 2)
torch.pow(I, I)
torch.float_power(I, 2)
torch.square(I), torch.sqrt(I), torch.rsqrt(V)
torch.exp(I)
torch.sigmoid(I)
torch.clamp(V, 1.5)
torch.clamp(V, max=2)
torch.clamp(V, 2, 1)
torch.clamp(V)
torch.clamp(I, 1.5, 2)
torch.clamp(V, torch.tensor(1.5), torch.tensor([2., 2., 2.5]))
torch.clamp(V, min=1, max=torch.tensor(2.))
V.clip(1, 2)
torch.maximum(V, I)
torch.maximum(V, 2)
torch.max(V, I)
torch.max(V, 0)
torch.max(A, dim=1, keepdim=True)
torch.max(A, 2)
torch.min(A)
torch.min(E)
torch.max(E)
torch.argmax(E)
torch.argmax(A), A.argmax(0), A.argmin(1, keepdim=True)
A.amax((0, 1)), A.amin(0)
A.aminmax()
A.sum(), A.sum(0), A.sum((0, 1)), A.sum(1, keepdim=True), A.sum(-1, dtype=torch.double)
A.sum(2)
A.sum((0, 0))
A.sum(axis=0)
I.sum(), Z.sum(), I.sum(dtype=torch.float)
I.mean()
I.float().mean(), A.mean((0, 1)), A.mean(0, True)
Z.float().mean()
A.std(), A.std(0), A.std(unbiased=False), A.std(0, False), A.std(0, correction=0), A.var(1, keepdim=True)
I.std()
S.std()
V.prod(), A.prod(0), I.prod()
A.cumsum(0), A.cumprod(1), V.cummax(0), V.cummin(0), V.logcumsumexp(0)
A.median(), A.median(0), V.mode(), A.quantile(0.5), A.quantile(torch.tensor([.1, .9]), dim=0), V.nanmean(), A.nanmedian()
A.norm(), A.norm(1), A.norm(dim=1), A.norm(p='fro'), A.norm(float('inf')), A.norm(p=2, dim=0, keepdim=True)
A.norm('nuc')
I.norm()
A.logsumexp(0)
V.softmax(0), V.log_softmax(-1)
I.softmax(0)
V.softmax(1)
A.all(), A.any(), A.all(0), (A > 1).any(1), I.all()
A.count_nonzero(), A.count_nonzero(0)
V.sort(), V.sort(descending=True), V.argsort(), A.sort(0, descending=True)[1]
V.topk(2), V.topk(2, largest=False), V.topk(5)
V.kthvalue(2)
V.msort()
V.dist(V + 1)
torch.dot(V, V), torch.dot(V, I)
torch.dot(A, A)
torch.dot(V, torch.ones(2))
torch.mm(A, A.T), torch.mv(A, torch.ones(4)), torch.outer(V, V), torch.bmm(B.float(), B.float().mT).shape
torch.mm(A, V)
torch.mm(A, A)
torch.bmm(A, A)
torch.bmm(B, B)
torch.mv(A, V)
torch.outer(A, V)
torch.matmul(torch.ones(2, 3, 4), torch.ones(3, 4, 5))
torch.matmul(V, 2)
torch.addmm(V, torch.ones(3, 3), torch.ones(3, 3), beta=2, alpha=.5)
torch.addmm(V, A, A)
torch.addcmul(V, V, V, value=2), torch.addcdiv(V, V, I), torch.addcdiv(I, I, I)
torch.lerp(V, V + 1, .5)
torch.lerp(I, I, .5)
torch.cross(V, V + 1, dim=0)
torch.linalg.cross(V, V + 1)
torch.trace(A), torch.kron(M, M), torch.diff(V), torch.cdist(M, M)
torch.trace(B)
torch.einsum('ij,ij->', A, A), torch.einsum('ij,jk', A, A.T), torch.einsum('i,j->ij', V, V), torch.einsum('...ij->...ji', B).shape, torch.einsum('bij,bjk->bik', B, B.mT).shape, torch.einsum('ii->i', M), torch.einsum('ii', M)
torch.einsum('ij,jk', A, A)
torch.einsum('ij', V)
torch.einsum('i,i->j', V, V)
torch.einsum('ij->', [A])
torch.tensordot(A, A, 2), torch.tensordot(A, A, dims=([0], [0])), torch.tensordot(B.float(), A, dims=([1, 2], [0, 1]))
torch.tensordot(A, A, 1)
torch.chain_matmul(M, M), torch.linalg.multi_dot([M, M, M])
torch.inner(V, V), torch.vdot(C, C), torch.ger(V, V)
"""
for source in EXPRESSIONS.strip().splitlines():
    show(source)
