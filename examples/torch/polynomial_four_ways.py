"""A cubic polynomial fitted to a sine in four ways: gradients by hand, by autograd, by a function of one's own, by nn and optim."""

import math
import sys

import torch
from torch import nn

torch.set_default_dtype(torch.float64)
x = torch.linspace(-math.pi, math.pi, 500)
y = torch.sin(x)
STEPS, RATE = 2000, 2e-6


def start():
    torch.manual_seed(0)
    return [torch.randn(()) for _ in range(4)]


def show(way, loss, a, b, c, d):
    a, b, c, d = (round(float(v), 4) + 0.0 for v in (a, b, c, d))  # plus zero, so that -0.0 prints as 0.0
    print(f"{way:14} loss {loss:8.4f}   y = {a:.4f} + {b:.4f} x + {c:.4f} x^2 + {d:.4f} x^3")
    print(f"{way} done", file=sys.stderr)


# By hand.
a, b, c, d = start()
for _ in range(STEPS):
    error = a + b * x + c * x**2 + d * x**3 - y
    loss = error.pow(2).sum().item()
    g = 2.0 * error
    a = a - RATE * g.sum()
    b = b - RATE * (g * x).sum()
    c = c - RATE * (g * x**2).sum()
    d = d - RATE * (g * x**3).sum()
show("by hand", loss, a, b, c, d)

# By autograd.
parameters = [p.requires_grad_() for p in start()]
for _ in range(STEPS):
    a, b, c, d = parameters
    loss = (a + b * x + c * x**2 + d * x**3 - y).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        for p in parameters:
            p -= RATE * p.grad
            p.grad = None
show("autograd", loss.item(), *(p.item() for p in parameters))


class LegendrePolynomial3(torch.autograd.Function):
    """(5 x^3 - 3 x) / 2, with a gradient of its own."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 0.5 * (5 * x**3 - 3 * x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 1.5 * (5 * x**2 - 1)


# By a function of one's own: y = a + b P3(c + d x).
parameters = [torch.full((), v, requires_grad=True) for v in (0.0, -1.0, 0.0, 0.3)]
for _ in range(STEPS):
    a, b, c, d = parameters
    loss = (a + b * LegendrePolynomial3.apply(c + d * x) - y).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        for p in parameters:
            p -= 5e-6 * p.grad
            p.grad = None
print(f"own function   loss {loss.item():8.4f}   y = {b.item():.4f} P3({d.item():.4f} x), shifts below 1e-6: {max(abs(a), abs(c)) < 1e-6}")

# By modules and an optimiser.
torch.manual_seed(0)
powers = x.unsqueeze(-1).pow(torch.tensor([1, 2, 3]))
model = nn.Sequential(nn.Linear(3, 1), nn.Flatten(0, 1))
optimizer = torch.optim.LBFGS(model.parameters(), line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    loss = nn.MSELoss(reduction="sum")(model(powers), y)
    loss.backward()
    return loss


for _ in range(5):
    loss = optimizer.step(closure)
show("nn and optim", loss.item(), model[0].bias.item(), *model[0].weight[0].tolist())
