"""Jacobians and Hessians of a small network: in reverse and forward mode, by rows, and of batches."""

import torch
from torch.autograd.functional import hessian as old_hessian
from torch.autograd.functional import jacobian as old_jacobian
from torch.func import hessian, jacfwd, jacrev, jvp, vjp, vmap

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
w, b, x = torch.randn(3, 4), torch.randn(3), torch.randn(4)


def predict(w, b, x):
    return torch.tanh(x @ w.T + b)


# By rows: one backward pass for each output.
row_by_row = torch.stack([torch.autograd.grad(predict(w, b, v)[k], v)[0] for k in range(3) for v in [x.clone().requires_grad_()]])
reverse, forward = jacrev(predict, argnums=2)(w, b, x), jacfwd(predict, argnums=2)(w, b, x)
print(reverse)
print(torch.allclose(reverse, row_by_row), torch.allclose(reverse, forward))
print(torch.allclose(reverse, old_jacobian(lambda v: predict(w, b, v), x)))

# With respect to several arguments.
by_w, by_b = jacrev(predict, argnums=(0, 1))(w, b, x)
print(tuple(by_w.shape), tuple(by_b.shape), torch.allclose(torch.diagonal(by_b), 1 - predict(w, b, x) ** 2))

# A Jacobian is never needed to multiply by it.
out, pull = vjp(lambda v: predict(w, b, v), x)
direction = torch.ones(4)
_, pushed = jvp(lambda v: predict(w, b, v), (x,), (direction,))
print(torch.allclose(pull(torch.ones(3))[0], torch.ones(3) @ reverse), torch.allclose(pushed, reverse @ direction))

# Hessians: forward over reverse, and a batch of them.
energy = lambda v: predict(w, b, v).pow(2).sum()
h = hessian(energy)(x)
print(h)
print("symmetric:", torch.allclose(h, h.T), " old interface:", torch.allclose(h, old_hessian(energy, x)))
batch = torch.randn(5, 4)
print(tuple(vmap(hessian(energy))(batch).shape), tuple(vmap(jacrev(predict, argnums=2), in_dims=(None, None, 0))(w, b, batch).shape))
_, product = jvp(torch.func.grad(energy), (x,), (direction,))
print("product with a vector:", torch.allclose(product, h @ direction))
print("least eigenvalues:", [round(v, 4) for v in torch.linalg.eigvalsh(h).tolist()[:3]])
