"""Learn the basics, 3: a model. Layers, what they do to a batch, and the parameters inside."""

import torch
from torch import nn


class Network(nn.Module):
    """Three linear layers with ReLU between."""

    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.stack = nn.Sequential(nn.Linear(8 * 8, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x):
        return self.stack(self.flatten(x))


torch.manual_seed(0)
model = Network()
print(model)

images = torch.rand(3, 8, 8)
logits = model(images)
probabilities = nn.Softmax(dim=1)(logits)
print(logits.shape, probabilities.sum(dim=1), "classes:", probabilities.argmax(1))

# Step by step.
flat = nn.Flatten()(images)
hidden = nn.Linear(64, 20)(flat)
print(flat.size(), hidden.size(), nn.ReLU()(hidden).min().item() >= 0)

for name, parameter in model.named_parameters():
    print(f"{name:16} {tuple(parameter.shape)!s:10} first: {parameter.flatten()[:2].tolist()[0]:.4f}")
print("Parameters in all:", sum(p.numel() for p in model.parameters()))

# Training and evaluation differ for layers such as dropout.
layer = nn.Dropout(0.5)
layer.eval()
print(torch.equal(layer(images), images), model.training, model.eval().training)
