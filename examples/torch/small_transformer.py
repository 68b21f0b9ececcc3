"""A small transformer that learns to sort: the sorted sequence, read off at the places of the unsorted one."""

import sys

import torch
from torch import nn

LENGTH, SYMBOLS = 6, 8


class Sorter(nn.Module):
    """Embeddings of symbol and place, an encoder of two layers, and a linear map to symbols."""

    def __init__(self, width=32):
        super().__init__()
        self.symbol = nn.Embedding(SYMBOLS, width)
        self.place = nn.Parameter(torch.zeros(LENGTH, width))
        layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.head = nn.Linear(width, SYMBOLS)

    def forward(self, x):
        return self.head(self.encoder(self.symbol(x) + self.place))


torch.manual_seed(0)
model = Sorter()
print("parameters:", sum(p.numel() for p in model.parameters()))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=100)
for step in range(1, 101):
    x = torch.randint(SYMBOLS, (64, LENGTH))
    target = x.sort(dim=1).values
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), target.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    if step % 25 == 0:
        print(f"step {step:3}  loss {loss.item():.2f}")
        print(f"step {step} of 100, rate {scheduler.get_last_lr()[0]:.5f}", file=sys.stderr)

model.eval()
with torch.no_grad():
    x = torch.randint(SYMBOLS, (200, LENGTH))
    right = (model(x).argmax(-1) == x.sort(dim=1).values).float().mean().item()
    attention = model.encoder.layers[0].self_attn
    embedded = model.symbol(x[:1]) + model.place
    _, weights = attention(embedded, embedded, embedded)
print("more than nine symbols of ten right:", right > 0.9)
print("attention:", tuple(weights.shape), "rows sum to one:", torch.allclose(weights.sum(-1), torch.ones(1, LENGTH)))
