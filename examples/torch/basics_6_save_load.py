"""Learn the basics, 6: saving and loading. Parameters, and a checkpoint from which training goes on as if never interrupted."""

import os
import tempfile

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(64, 4), torch.randn(64, 1)


def fresh():
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    return model, torch.optim.Adam(model.parameters(), lr=0.05)


def steps(model, optimizer, n):
    for _ in range(n):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


model, optimizer = fresh()
print(f"loss after 20 steps: {steps(model, optimizer, 20):.4f}")

with tempfile.TemporaryDirectory() as folder:
    weights, checkpoint = os.path.join(folder, "weights.pt"), os.path.join(folder, "checkpoint.pt")
    torch.save(model.state_dict(), weights)
    torch.save({"epoch": 20, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint)

    copy, _ = fresh()
    print(copy.load_state_dict(torch.load(weights)))
    print("same outputs:", torch.equal(copy(x), model(x)))

    resumed, its_optimizer = fresh()
    saved = torch.load(checkpoint)
    resumed.load_state_dict(saved["model"])
    its_optimizer.load_state_dict(saved["optimizer"])

print("resumed after", saved["epoch"])
losses = steps(model, optimizer, 20), steps(resumed, its_optimizer, 20)
print(f"loss after 20 more: {losses[0]:.4f}, and resumed: {losses[1]:.4f}", losses[0] == losses[1])
try:
    nn.Linear(4, 8).load_state_dict(model.state_dict())
except RuntimeError as error:
    print(str(error).splitlines()[0])
