"""A gradient penalty: a critic whose slope is kept near one between two clouds of points. Its loss is differentiated twice."""

import sys

import torch
from torch import nn

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Softplus(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(critic.parameters(), lr=5e-3, betas=(0.5, 0.9))


def penalty(real, fake):
    """The mean squared distance from one of the slope at points between the clouds."""
    mix = torch.rand(len(real), 1)
    between = (mix * real + (1 - mix) * fake).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return ((slope.norm(2, dim=1) - 1) ** 2).mean()


for step in range(1, 101):
    real, fake = torch.randn(64, 2) * 0.3 + 1.5, torch.randn(64, 2) * 0.3
    distance = critic(real).mean() - critic(fake).mean()
    extra = penalty(real, fake)
    loss = -distance + 10 * extra
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step:3}  distance {distance.item():.4f}  penalty {extra.item():.5f}")
        print(f"step {step} of 100", file=sys.stderr)

points = torch.tensor([[0.0, 0.0], [0.75, 0.75], [1.5, 1.5]], requires_grad=True)
(slope,) = torch.autograd.grad(critic(points).sum(), points)
print("slopes on the way:", [round(v, 3) for v in slope.norm(dim=1).tolist()])
