# What an exercise sheet for arrays asks for.


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
torch.zeros(10), torch.ones(3, 3), torch.eye(3), torch.arange(10, 50)
torch.arange(9).reshape(3, 3)
torch.nonzero(torch.tensor([1, 2, 0, 0, 4, 0]))
torch.tensor([1, 2, 0, 0, 4, 0]).nonzero().flatten()
torch.arange(10).flip(0)
(lambda Z: (Z.min(), Z.max()))(torch.arange(100.).reshape(10, 10))
torch.nn.functional.pad(torch.ones(3, 3), (1, 1, 1, 1))
torch.diag(torch.arange(1., 5), -1)
(torch.arange(8)[:, None] + torch.arange(8)) % 2
torch.tile(torch.tensor([[0, 1], [1, 0]]), (2, 2))
(lambda Z: (Z - Z.mean()) / Z.std())(torch.arange(10.))
torch.ones(5, 3) @ torch.ones(3, 2)
(lambda Z: torch.where((Z > 3) & (Z < 8), -Z, Z))(torch.arange(11))
torch.arange(5.) ** torch.arange(5.)
torch.tensor(0.) / torch.tensor(0.), torch.tensor([float('nan')]) == torch.tensor([float('nan')]), torch.tensor(float('nan')).isnan()
torch.copysign(torch.ceil(torch.abs(torch.tensor([-1.5, 1.2]))), torch.tensor([-1.5, 1.2]))
torch.arange(0, 1, 0.1), torch.linspace(0, 1, 12)[1:-1]
torch.sort(torch.tensor([3, 1, 2])).values
torch.add(torch.arange(3), 1).sum().item()
torch.equal(torch.ones(2), torch.ones(2))
(lambda X: (X[:, 0], X[:, 1]))(torch.tensor([[1., 2.], [3., 4.]]))
torch.stack([torch.sqrt(torch.tensor(5.)), torch.atan2(torch.tensor(1.), torch.tensor(2.))])
(lambda Z: Z.index_fill(0, Z.argmax()[None], 0))(torch.arange(5))
torch.stack(torch.meshgrid(torch.linspace(0, 1, 3), torch.linspace(0, 1, 3), indexing='xy'), -1).shape
1.0 / (torch.arange(3.)[:, None] - (torch.arange(3.) + 0.5))
(lambda Z, v: Z[(Z - v).abs().argmin()])(torch.arange(100), 42.3)
torch.cdist(torch.arange(6.).view(3, 2), torch.arange(6.).view(3, 2))
torch.tensor([1.7, -2.3]).to(torch.int32), torch.tensor([1.5, 2.5]).round(), torch.tensor([1.5, 2.5]).int()
[(i, v.item()) for i, v in enumerate(torch.arange(3))]
torch.exp(-(torch.linspace(-1, 1, 3)[:, None] ** 2 + torch.linspace(-1, 1, 3) ** 2) / 2)
(lambda X: X - X.mean(1, keepdim=True))(torch.arange(6.).view(2, 3))
(lambda Z: Z[Z[:, 1].argsort()])(torch.tensor([[1, 3], [2, 1], [0, 2]]))
(~torch.tensor([[1, 0], [0, 0]]).bool().any(0)).any()
torch.bincount(torch.tensor([1, 3, 9, 3, 4, 1]), weights=torch.tensor([1., 2, 3, 4, 5, 6]))
(lambda A: A[[1, 0]])(torch.arange(4).view(2, 2))
torch.arange(16).reshape(4, 4).unfold(0, 2, 2).unfold(1, 2, 2).sum((-1, -2))
torch.arange(12).view(3, 4).cumsum(0).cumsum(1)
torch.arange(1, 15).unfold(0, 4, 1)
torch.linalg.matrix_rank(torch.ones(3, 3)), torch.mode(torch.tensor([1, 2, 2, 3])).values
torch.topk(torch.tensor([5, 1, 4]), 2).values
torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([4, 5]))
((torch.arange(8)[:, None] & (1 << torch.arange(3))) != 0).int()
torch.unique(torch.tensor([[0, 1], [0, 1], [1, 1]]), dim=0)
torch.einsum('i->', torch.arange(3.)), torch.einsum('i,i->i', torch.arange(3.), torch.arange(3.)), torch.einsum('i,i', torch.arange(3.), torch.arange(3.)), torch.einsum('i,j->ij', torch.arange(2.), torch.arange(2.))
torch.einsum('bij,bjk->bik', torch.ones(2, 3, 4), torch.ones(2, 4, 5)).shape, torch.einsum('...ij,...jk->...ik', torch.ones(2, 3, 4), torch.ones(4, 5)).shape, torch.einsum('ii->i', torch.eye(2)), torch.einsum('ij->ji', torch.arange(4.).view(2, 2)), torch.einsum('ijk->', torch.ones(2, 2, 2)), torch.einsum('ij,kj->ik', torch.eye(2), torch.ones(3, 2)), torch.einsum('i j, j k', torch.eye(2), torch.eye(2))
torch.tensordot(torch.ones(2, 3, 4), torch.ones(4, 3), dims=([1, 2], [1, 0])), torch.tensordot(torch.ones(3), torch.ones(3), dims=1)
torch.roll(torch.arange(5), 2), torch.diff(torch.tensor([1, 4, 9])), torch.repeat_interleave(torch.tensor([1, 2]), torch.tensor([2, 3]))
torch.triu(torch.ones(3, 3), 1).bool(), torch.tril(torch.ones(2, 2)) == 0
torch.nn.functional.one_hot(torch.tensor([0, 2]), 3), torch.nn.functional.one_hot(torch.tensor([1, 0]))
torch.clamp(torch.randn(3) * 0 + 5, 0, 1), torch.frac(torch.tensor([1.25, -1.25])), torch.heaviside(torch.tensor([-1., 0, 1]), torch.tensor(.5))
torch.quantile(torch.arange(5.), torch.tensor([.25, .5])), torch.median(torch.tensor([1., 3, 2, 4])), torch.std_mean(torch.arange(4.))
torch.logical_xor(torch.tensor([True, False]), torch.tensor([True, True])), torch.isin(torch.arange(4), torch.tensor([1, 3]))
torch.complex(torch.ones(2), torch.zeros(2)).angle(), torch.view_as_complex(torch.ones(2, 2)), torch.polar(torch.ones(1), torch.zeros(1))
torch.scatter(torch.zeros(2, 3), 1, torch.tensor([[0], [2]]), 1.), torch.gather(torch.arange(6).view(2, 3), 1, torch.tensor([[2], [0]]))
torch.vander(torch.tensor([1, 2, 3])), torch.trapz(torch.tensor([1., 2, 3])), torch.nan_to_num(torch.tensor([float('nan'), float('inf')]))
torch.block_diag(torch.ones(1, 1), torch.ones(2, 2)), torch.kron(torch.eye(2), torch.ones(1, 2)), torch.rot90(torch.arange(4).view(2, 2))
"""
for source in EXPRESSIONS.strip().splitlines():
    show(source)
