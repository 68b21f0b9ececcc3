"""A small transformer that learns to sort: the sorted sequence, read off at the places of the unsorted one.

If the environment variable FUNCTRACE_PICTURES names a folder, a picture is drawn there.
"""

import os
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
losses = []
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=100)
for step in range(1, 101):
    x = torch.randint(SYMBOLS, (64, LENGTH))
    target = x.sort(dim=1).values
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), target.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
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

if folder := os.environ.get("FUNCTRACE_PICTURES"):
    from matplotlib.figure import Figure

    with torch.no_grad():
        chance = model(x[:1])[0].softmax(dim=-1)
    figure = Figure(figsize=(12, 4), layout="constrained")
    first, second, third = figure.subplots(1, 3)
    first.plot(losses)
    first.set(xlabel="step", ylabel="cross entropy", title="Learning")
    unsorted, in_order = x[0].tolist(), x[0].sort().values.tolist()
    for axes, values, title in ((second, weights[0], "Whom each place attends to, layer 1"), (third, chance, "What it puts in each place")):
        drawn = axes.imshow(values.numpy(), cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axes.set_yticks(range(LENGTH), [f"{k + 1}: {symbol}" for k, symbol in enumerate(unsorted)])
        axes.set(ylabel="place: symbol", title=title)
        figure.colorbar(drawn)
    second.set_xticks(range(LENGTH), [f"{k + 1}: {symbol}" for k, symbol in enumerate(unsorted)])
    second.set_xlabel("place: symbol")
    third.plot(in_order, range(LENGTH), "o", mfc="none", mec="tab:red", ms=16, label="right answer")
    third.set(xlabel="symbol")
    third.legend()
    os.makedirs(folder, exist_ok=True)
    figure.savefig(os.path.join(folder, "torch_small_transformer.png"))
