"""Gradients of gradients: of every operation whose gradient is an operation too, and what they must not do."""

import pytest

import functrace.torch as torch

F = torch.nn.functional


def values(*shape, seed=0):
    torch.manual_seed(seed)
    return (torch.rand(*shape, dtype=torch.float64) * 4 - 2).requires_grad_()


ONE = {
    "T": lambda x: x.T * x.t(),
    "view": lambda x: x.view(-1) ** 2,
    "transposed reshape": lambda x: x.t().reshape(-1) ** 2,
    "squeezed": lambda x: x.unsqueeze(1).squeeze(1) ** 2,
    "expand": lambda x: x[0].expand(2, 3) ** 2,
    "select": lambda x: x[1] ** 2,
    "slice": lambda x: x[:, 1:] ** 2,
    "sum": lambda x: x.sum(0) ** 2 * x.sum(1, keepdim=True) * x.sum(),
    "mean": lambda x: x.mean(0) ** 2 * x.mean(1, keepdim=True) * x.mean(),
    "cat": lambda x: torch.cat([x, x * x], 1) ** 2,
    "stack": lambda x: torch.stack([x, x * x], 1) ** 2,
    "mm": lambda x: (x @ x.t()) ** 2,
    "mv": lambda x: (x @ x[0]) ** 2,
    "dot": lambda x: (x[0] @ x[1]) ** 2,
    "bmm": lambda x: (x[None] @ x.t()[None]) ** 2,
    "linear": lambda x: F.linear(x, x, x[:, 0]) ** 2,
    "softmax": lambda x: x.softmax(0) * x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(0) * x.log_softmax(1),
    "cross entropy": lambda x: F.cross_entropy(x, torch.tensor([0, 2])),
    "mse": lambda x: F.mse_loss(x, x[:1] ** 2) + F.mse_loss(x, x**2, reduction="sum"),
    "binary cross entropy": lambda x: F.binary_cross_entropy_with_logits(
        x, torch.tensor([[0.0, 1.0, 0.5]] * 2).double(), torch.tensor([1.0, 2.0, 3.0]).double(), pos_weight=torch.tensor(2.0).double()
    ),
    "logsumexp": lambda x: x.logsumexp(0) * x.logsumexp((0, 1), keepdim=True),
    "norm": lambda x: x.norm() * x.norm(dim=1),
    "norm of nothing": lambda x: (x * torch.tensor([[1.0], [0.0]])).norm(dim=1) ** 2,
    "where": lambda x: torch.where(x > 0, x**3, x**2),
    "masked_fill": lambda x: (x**3).masked_fill(x > 0, 2.0),
    "clamp": lambda x: x.clamp(-1, 1) ** 3 + x.clamp(min=0.1) ** 2,
    "relu": lambda x: F.relu(x) * x,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.3) * x,
    "hardtanh": lambda x: F.hardtanh(x) * x,
    "hardsigmoid": lambda x: F.hardsigmoid(x) * x,
    "threshold": lambda x: F.threshold(x, 0.1, 2.0) * x,
    "hardshrink": lambda x: F.hardshrink(x) * x,
    "softshrink": lambda x: F.softshrink(x) * x,
    "tanh": lambda x: x.tanh() * x,
    "sigmoid": lambda x: x.sigmoid() * x,
    "softplus": lambda x: F.softplus(x, 2.0, 3.0) * x,
    "gelu": lambda x: F.gelu(x) * x,
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh") * x,
    "elu": lambda x: F.elu(x, 1.5) * x,
    "celu": lambda x: F.celu(x, 1.5) * x,
    "selu": lambda x: F.selu(x) * x,
    "silu": lambda x: F.silu(x) * x,
    "logsigmoid": lambda x: F.logsigmoid(x) * x,
}


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("name", ONE)
def test_second_and_third_derivatives_are_those_of_differences(name):
    f, x = ONE[name], values(2, 3)

    def slope(x):
        return torch.autograd.grad((f(x) ** 2).sum(), x, create_graph=True)[0]

    assert torch.autograd.gradgradcheck(f, (x,))
    assert torch.autograd.gradgradcheck(slope, (x,))
    (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    assert g.shape == x.shape and g.dtype == x.dtype


def test_what_nobody_asks_for_is_not_computed():
    class Refused(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise ValueError("asked")

    x, w, b = values(4, 3), values(2, 3), values(2)
    y = F.linear(x, Refused.apply(w), b).tanh() * x[:, :2]
    seen = []
    y.grad_fn.next_functions[0][0].next_functions[0][0].register_hook(lambda ins, outs: seen.append([g is None for g in ins]))
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x, retain_graph=True)
    g.sum().backward(inputs=[x], retain_graph=True)
    assert torch.equal(x.grad, h) and w.grad is b.grad is None
    assert seen[0] == [True, False, True]  # of the linear map's bias, input and weight
    with pytest.raises(ValueError, match="asked"):
        torch.autograd.grad(y.sum(), w)


WRITTEN = {
    "pow": (lambda y, w: y**3, "y"),
    "sin": (lambda y, w: y.sin(), "y"),
    "div": (lambda y, w: y / w, "w"),
    "softplus": (lambda y, w: F.softplus(y), "y"),
    "silu": (lambda y, w: F.silu(y), "y"),
    "tanh": (lambda y, w: y.tanh(), "z"),
    "mm": (lambda y, w: y[None] @ w[:, None] * y, "w"),
    "norm": (lambda y, w: y.norm(), "y"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_write_between_the_first_and_the_second_derivative_is_noticed(name):
    f, written = WRITTEN[name]
    x = values(3)
    tensors = {"y": x * 1, "w": x * 2}
    tensors["z"] = f(tensors["y"], tensors["w"])
    (g,) = torch.autograd.grad(tensors["z"].sum(), tensors["y"], create_graph=True)
    with torch.no_grad():
        tensors[written].mul_(5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(g.sum(), x)


def test_a_mask_that_is_written_to_later_counts_as_it_was():
    x, mask = values(3), torch.tensor([True, False, True])
    for f in (lambda y: torch.where(mask, y, 0 * y), lambda y: y.masked_fill(~mask, 0)):
        y = x * x
        (g,) = torch.autograd.grad(f(y).sum(), x, create_graph=True)
        before = torch.autograd.grad(g.sum(), x, retain_graph=True)[0].clone()
        mask.logical_not_()
        assert torch.equal(torch.autograd.grad(g.sum(), x)[0], before)
        mask.logical_not_()
