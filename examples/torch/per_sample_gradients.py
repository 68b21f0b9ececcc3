"""The gradient of each example's loss: by a loop, and by vmap of grad; and what they are good for."""

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
x, y = torch.randn(16, 6), torch.randint(3, (16,))
parameters = {name: p.detach() for name, p in model.named_parameters()}


def loss(parameters, example, label):
    logits = functional_call(model, parameters, (example.unsqueeze(0),))
    return nn.functional.cross_entropy(logits, label.unsqueeze(0))


each = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
for name, g in each.items():
    print(f"{name:9} {tuple(g.shape)}")

# The same, one example at a time.
for k in range(len(x)):
    model.zero_grad()
    nn.functional.cross_entropy(model(x[k : k + 1]), y[k : k + 1]).backward()
    assert all(torch.allclose(each[name][k], p.grad) for name, p in model.named_parameters())
print("The loop agrees.")

# Their mean is the gradient of the mean loss.
model.zero_grad()
nn.functional.cross_entropy(model(x), y).backward()
print("The mean agrees:", all(torch.allclose(each[name].mean(0), p.grad) for name, p in model.named_parameters()))

# Which examples pull hardest; and the sum of gradients that are clipped one by one, as for private training.
norms = torch.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)
print("norms from", round(norms.min().item(), 4), "to", round(norms.max().item(), 4), "largest:", norms.argmax().item())
factor = (0.5 / norms).clamp(max=1.0)
clipped = {name: torch.einsum("n,n...->...", factor, g) for name, g in each.items()}
print("clipped sum:", round(torch.cat([g.flatten() for g in clipped.values()]).norm().item(), 4))
