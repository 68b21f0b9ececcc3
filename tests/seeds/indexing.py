# Indexing, views, shapes, and what is refused of them.


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
A[0]
A[-1]
A[0, 1]
A[:, 1]
A[1:, ::2]
A[..., 0]
A[None].shape
A[:, None, :].shape
A[[0, 2]]
A[[0, 2], [1, 3]]
A[torch.tensor([0, 2])]
A[torch.tensor([[0, 1], [1, 2]])].shape
A[A > 5]
A[A > 100]
A[Z]
A[Z, 1]
A[Z][:, torch.tensor([True, False, True, False])]
A[[True, False, True]]
A[True].shape
A[False].shape
A[torch.tensor(True)].shape
A[torch.tensor(1)]
A[1, torch.tensor([0, 1])]
A[torch.tensor([0, 1]), 1:3]
B[:, [0, 2], :2]
B[[0, 1], :, [1, 2]]
B[0, :, [1, 2]].shape
B[:, 0, [1, 2]].shape
B[[[0, 1]], [[1, 2]]].shape
B[..., [0, 1]].shape
B[0, ..., 1]
A[np.array([0, 1])]
A[np.int64(1)]
A[()].shape
A[...].shape
A[3]
A[-4]
A[0, 4]
A[0, 0, 0]
A[[0, 5]]
A[torch.tensor([0, -4])]
A[torch.tensor([True, False])]
A[1.0]
A["a"]
A[::-1]
A[::0]
A[torch.tensor([0.5])]
A[None, None, ..., None].shape
A[slice(None), slice(0, 2)]
A[torch.tensor([], dtype=torch.long)]
A[[]]
A[torch.tensor([0, 1], dtype=torch.int32)]
A[torch.tensor([0, 1], dtype=torch.uint8)]
A[torch.tensor([1, 0, 1], dtype=torch.uint8)]
A[(torch.tensor([0]), torch.tensor([0, 1, 2]))]
A[torch.tensor([0, 1]), torch.tensor([0, 1, 2])]
S[0]
S[...]
S[None]
A[0][1].item()
A[0:0]
A[5:]
A[-2:]
A[:, -1:]
B[1, 2, 3]
A.index_select(0, torch.tensor([0, 2]))
A.index_select(1, torch.tensor([0, 5]))
A.gather(1, torch.tensor([[0], [1], [2]]))
A.gather(1, torch.tensor([[0], [1], [7]]))
A.gather(0, torch.tensor([0]))
A.take(torch.tensor([0, 5, -1]))
A.take_along_dim(A.argmax(1, keepdim=True), 1)
A.masked_select(A > 9)
A.nonzero()
(A > 9).nonzero(as_tuple=True)
torch.where(A > 9)
torch.where(A > 5, A, -1)
torch.where(A > 5, 1, 0)
torch.where(A > 5, 1., 0)
torch.argwhere(A > 9)
A.narrow(1, 1, 2)
A.narrow(1, 3, 2)
A.unbind(1)
A.split(2)
A.split([1, 2])
A.split([1, 1])
A.chunk(2, 1)
A.tensor_split(2, dim=1)
torch.select(A, 0, 1)
A.diagonal()
A.diagonal(1)
A.diag()
torch.diag(V)
torch.diag_embed(V, 1)
A.tril()
A.triu(1)
torch.tril_indices(3, 3)
A.roll(1, 0)
A.roll((1, 2), (0, 1))
A.flip(0)
A.flip(0, 1)
A.rot90()
A.unfold(1, 2, 1)
A.index_add(0, torch.tensor([0, 0]), torch.ones(2, 4))
A.index_fill(1, torch.tensor([0]), -1)
A.index_copy(0, torch.tensor([0]), torch.ones(1, 4))
A.scatter(1, torch.tensor([[0], [1], [2]]), 9.)
A.scatter_add(1, torch.tensor([[0, 0], [1, 1], [2, 2]]), torch.ones(3, 2))
A.scatter(1, torch.tensor([[0], [1], [2]]), torch.tensor([[5.], [6.], [7.]]), reduce='multiply')
A.scatter_reduce(1, torch.tensor([[0], [1], [2]]), torch.full((3, 1), 5.), 'amax')
A.index_put((torch.tensor([0, 0]), torch.tensor([0, 0])), torch.tensor([1., 2.]), accumulate=True)
A.masked_fill(A > 5, float('-inf'))
A.masked_fill(A > 5, torch.tensor([1., 2.]))
A.masked_scatter(A > 8, torch.zeros(12))
A.as_strided((2, 2), (1, 2))
A.as_strided((2, 2), (1, 2), 3)
A.T.is_contiguous()
A.T.view(12)
A.t().reshape(2, 6)
A.view(5)
A.view(-1, -1)
A.view(2, -1).shape
A.view(torch.int32)[0]
A.reshape(7)
A.expand(2, 3, 4).shape
A.expand(2, 4)
A.expand(-1, -1).shape
V.expand(2, -1)
A.repeat(1, 2).shape
A.repeat(2)
V.repeat_interleave(2)
V.repeat_interleave(torch.tensor([1, 0, 2]))
V.tile(2, 2)
A.permute(1, 0).shape
A.permute(0, 0)
A.permute(1)
A.transpose(0, 2)
A.movedim(0, 1).shape
A.swapaxes(0, 1).shape
A.squeeze(0).shape
A.unsqueeze(3)
A.unsqueeze(-1).shape
A.flatten().shape
A.flatten(0, 3)
B.flatten(1).shape
B.unflatten(2, (2, 2)).shape
B.unflatten(2, (3, 2))
B.stride()
B.T.shape
B.mT.shape
B.mH.shape
V.T
A.H.shape
B.H
V.t()
B.t()
torch.cat([A, A], 1).shape
torch.cat([A, V])
torch.cat([])
torch.cat([A, I.view(1, 3)], 0)
torch.cat([E, V])
torch.cat([V, I])
torch.stack([V, V], -1)
torch.stack([V, A])
torch.stack([])
torch.hstack([V, V])
torch.vstack([V, V])
torch.dstack([V, V])
torch.column_stack([V, V])
torch.meshgrid(V, I, indexing='ij')
torch.meshgrid(V, I, indexing='xy')[0]
torch.cartesian_prod(I, I)[:3]
torch.combinations(I)
torch.broadcast_tensors(V, A[:, :1])[0]
torch.broadcast_shapes((2, 1), (3,))
torch.broadcast_shapes((2, 1), (3, 3))
torch.block_diag(V, M)
torch.searchsorted(torch.tensor([1., 2., 3.]), V)
torch.bucketize(V, torch.tensor([1., 2.]), right=True)
torch.unique(torch.tensor([3, 1, 3]), return_inverse=True, return_counts=True)
torch.unique(torch.tensor([[1, 2], [1, 2]]), dim=0)
torch.unique_consecutive(torch.tensor([1, 1, 2, 1]))
torch.bincount(I, weights=V, minlength=5)
torch.histc(V, 3, 0, 3)
torch.isin(I, torch.tensor([1, 2]))
torch.tensor([[1.]]).gather(0, torch.tensor([[0.]]))
torch.ones(2,3).gather(1, torch.zeros(3,1).long())
torch.ones(2,3).gather(5, torch.zeros(3,1).long())
torch.ones(2,3).index_select(0, torch.tensor([[0]]))
torch.ones(2,3).index_select(0, torch.tensor([0.]))
torch.ones(2,3).index_select(0, torch.tensor([-1]))
torch.ones(2,3).index_select(0, torch.tensor(1))
torch.ones(2,3).narrow(0, 0, 5)
torch.ones(2,3).narrow(0, -1, 1)
torch.ones(2,3).narrow(0, 0, -1)
torch.ones(2,3).narrow(0, 3, 0)
torch.ones(2,3).narrow(0, 7, 0)
torch.ones(2,3).masked_fill(torch.ones(2,3), 1)
torch.ones(2,3).masked_fill(torch.ones(2,2).bool(), 1)
torch.ones(2,3).masked_select(torch.ones(2,2).bool())
torch.ones(2,3).masked_select(torch.ones(2,3))
torch.where(torch.ones(2), 1, 2)
torch.where(torch.ones(2).bool(), torch.ones(3), 2)
torch.ones(2,4).view(torch.float64)
torch.ones(2,3).view(torch.float64)
torch.ones(2,3).view(torch.int16).shape
torch.ones(2,3).view(torch.uint8)[0]
torch.tensor([1+2j]).view(torch.float32)
torch.ones(3).repeat(2,2)
torch.ones(2,3).repeat(-1,1)
torch.ones(2,6).unflatten(1, (-1, 2)).shape
torch.ones(2,6).unflatten(1, (4, -1)).shape
torch.ones(2,6).unflatten(3, (4, -1)).shape
torch.ones(2,3).H.shape, torch.ones(2).mT
torch.meshgrid(torch.ones(2), torch.ones(2), indexing="zz")
torch.meshgrid(torch.ones(2), torch.ones(3))
torch.broadcast_to(torch.ones(2), (3,))
torch.ones(2).broadcast_to(2, 3)
torch.allclose(torch.ones(2), torch.ones(3))
torch.isclose(torch.ones(2), torch.ones(2).double())
torch.allclose(torch.ones(2), 1.0)
torch.einsum("ij,j", torch.ones(2,2))
torch.einsum("ij->ik", torch.ones(2,2))
torch.einsum("ij->ii", torch.ones(2,2))
torch.einsum("i!", torch.ones(2))
torch.einsum("ii->i", torch.ones(2,3))
torch.einsum("i,j", torch.ones(2), torch.ones(3).double())
torch.einsum(torch.ones(2,2), [0,1], [1,0]).shape
torch.einsum("i,i", torch.ones(2), torch.ones(1))
torch.einsum("bn,anm,bm->ba", torch.ones(2,3), torch.ones(4,3,5), torch.ones(2,5))
torch.tensordot(torch.ones(2,3), torch.ones(2,3), dims=([0],[1]))
torch.tensordot(torch.ones(2,3), torch.ones(2,3), dims=([0,1],[1]))
torch.tensordot(torch.ones(2,3), torch.ones(2,3), dims=5)
torch.trace(torch.ones(2))
torch.outer(torch.ones(2), torch.ones(2,2))
torch.addcdiv(torch.tensor([1]), torch.tensor([1]), torch.tensor([1]))
torch.add(torch.tensor([1]), torch.tensor([1]), alpha=1.5)
torch.add(torch.tensor([True]), torch.tensor([True]), alpha=2)
torch.sub(torch.tensor([1]), 1, alpha=.5)
torch.argmin(torch.empty(0, 3)), torch.argmax(torch.empty(0,3), 1)
torch.argmax(torch.empty(0, 3), 0)
torch.max(torch.empty(0, 3), 0)
torch.max(torch.empty(0, 3), 1)
torch.amax(torch.empty(0, 3))
torch.amax(torch.empty(0, 3), 0)
torch.amax(torch.empty(3, 0), 0)
torch.empty(0).sum(), torch.empty(0).mean(), torch.empty(0).prod(), torch.empty(0).std(), torch.empty(0).norm(), torch.empty(0).any(), torch.empty(0).all(), torch.empty(0).logsumexp(0), torch.empty(0).median()
torch.empty(0).norm(float('inf'))
torch.empty(0).sort(), torch.empty(0).cumsum(0), torch.empty(0).unique()
torch.empty(0).median(0)
torch.empty(0).mode(0)
torch.empty(0).quantile(.5)
torch.ones(3).topk(-1)
torch.ones(3).kthvalue(0)
torch.ones(3).kthvalue(4)
torch.ones(3).quantile(2.)
torch.ones(3).lerp(torch.ones(3), torch.ones(2))
torch.ones(3).lerp(torch.ones(2), .5)
torch.ones(3).addmm(torch.ones(2,3), torch.ones(3,3)).shape
torch.addmm(torch.ones(2), torch.ones(2,3), torch.ones(3,3))
torch.addmm(torch.ones(2), torch.ones(3), torch.ones(3,3))
torch.baddbmm(torch.ones(2), torch.ones(2,3,3), torch.ones(2,3,3))
torch.addmv(torch.ones(2), torch.ones(3,3), torch.ones(3))
torch.ones(2,3).cross(torch.ones(2,3))
torch.ones(2,2).cross(torch.ones(2,2))
torch.kron(torch.ones(2), torch.ones(2,2)).shape
torch.cdist(torch.ones(2,3), torch.ones(2,2))
torch.diff(torch.tensor(1.))
torch.ones(3).chunk(0)
torch.ones(3).split(0)
torch.ones(3).split(-1)
torch.ones(3).unbind(1)
torch.ones(3).tensor_split(0)
torch.ones(3,3).flip(3)
torch.ones(3,3).flip(0,0)
torch.ones(3,3).roll(1,(0,1))
torch.ones(3,3).rot90(1,(0,0))
torch.ones(3).rot90()
torch.ones(3).unfold(0,5,1)
torch.ones(3).unfold(0,1,0)
torch.ones(3).diag_embed(0,0,0)
torch.ones(3,3,3).diag()
torch.ones(3).diagonal()
torch.ones(3,3).diagonal(0,0,0)
torch.ones(3).tril()
torch.ones(3).expand(2)
torch.ones(3).expand(3,-1)
torch.ones(1,3).expand(2,-1).shape, torch.ones(3).expand(-1,3)
torch.ones(3).expand()
torch.ones(3).expand(2.0)
torch.ones(3).reshape(1.5)
torch.ones(3).sum(dim=None), torch.ones(3).sum(()), torch.ones(3).sum([0])
torch.ones(3).squeeze(5)
torch.ones(1,3).squeeze((0,1)).shape
torch.ones(3).unsqueeze(-3)
torch.ones(3).movedim(0,1)
torch.ones(3,3).movedim((0,1),(0,0))
torch.ones(2,3).swapdims(0,5)
torch.ones(2,3).scatter(1, torch.tensor([[5]]), 1.)
torch.ones(2,3).scatter(1, torch.tensor([0]), 1.)
torch.ones(2,3).scatter(1, torch.tensor([[0.]]), 1.)
torch.ones(2,3).scatter_add(1, torch.tensor([[0]]), torch.ones(1,1).double())
torch.ones(2,3).index_add(0, torch.tensor([0,1]), torch.ones(1,3))
torch.ones(2,3).index_add(0, torch.tensor([5]), torch.ones(1,3))
torch.ones(2,3).index_fill(0, torch.tensor([5]), 1)
torch.ones(2,3).index_copy(0, torch.tensor([5]), torch.ones(1,3))
torch.ones(2,3).take(torch.tensor([7]))
torch.ones(2,3).put(torch.tensor([7]), torch.ones(1))
torch.bincount(torch.tensor([-1]))
torch.bincount(torch.tensor([1.]))
torch.bincount(torch.ones(2,2).long())
torch.searchsorted(torch.ones(2,2), torch.ones(3))
torch.multinomial(torch.tensor([0., 0.]), 1)
torch.multinomial(torch.tensor([1., 1.]), 3)
torch.multinomial(torch.tensor([1., -1.]), 1)
torch.randint(5, 2, (2,))
torch.randint(0, (2,))
torch.randperm(-1)
torch.arange(5, 0), torch.arange(0, 5, 0)
torch.arange(5, 0)
torch.arange(0, 5, 0)
torch.linspace(0, 1, -1)
torch.zeros(-1)
torch.zeros(2.5)
torch.zeros((2, -3))
torch.eye(-1)
torch.full((2,), "a")
torch.ones(2, dtype=int), torch.ones(2, dtype=float), torch.ones(2, dtype=bool)
torch.ones(2, dtype="float32")
torch.ones(2, dtype=np.float32)
torch.ones(2, device="cpu", requires_grad=True)
torch.ones(2, dtype=torch.long, requires_grad=True)
torch.tensor([1], requires_grad=True)
torch.from_numpy([1])
torch.from_numpy(np.array([1], dtype=">i4"))
torch.from_numpy(np.ones(3)[::-1])
torch.FloatTensor([1]), torch.LongTensor([1.7]), torch.IntTensor(2).shape
torch.tensor([1], [2])
torch.ones(2, requires_grad=True).tolist(), torch.ones(1, requires_grad=True).item()
torch.ones(2).foo
torch.ones(2).sum(5)
"""
for source in EXPRESSIONS.strip().splitlines():
    show(source)
