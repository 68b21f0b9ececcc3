"""A recurrent network that learns to spell: each character of a text predicted from those before it.

If the environment variable FUNCTRACE_PICTURES names a folder, a picture is drawn there.
"""

import os
import sys

import torch
from torch import nn

TEXT = "the quick brown fox jumps over the lazy dog and then the dog sleeps "
letters = sorted(set(TEXT))
index = torch.tensor([letters.index(c) for c in TEXT])


class Speller(nn.Module):
    """An embedding, a GRU, and a linear map to the next character."""

    def __init__(self, size, hidden):
        super().__init__()
        self.embedding = nn.Embedding(size, 16)
        self.rnn = nn.GRU(16, hidden, batch_first=True)
        self.head = nn.Linear(hidden, size)

    def forward(self, x, state=None):
        out, state = self.rnn(self.embedding(x), state)
        return self.head(out), state


torch.manual_seed(1)
model = Speller(len(letters), 48)
print(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, target = index[:-1].unsqueeze(0), index[1:].unsqueeze(0)
losses = []
for step in range(1, 61):
    logits, _ = model(x)
    loss = nn.functional.cross_entropy(logits.transpose(1, 2), target)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    losses.append(loss.item())
    if step % 15 == 0:
        print(f"step {step}  loss {loss.item():.3f}")
        print(f"step {step} of 60, gradient norm {norm.item():.2f}", file=sys.stderr)

model.eval()
with torch.no_grad():
    logits, state = model(index[:4].unsqueeze(0))
    written = "".join(letters[k] for k in index[:4])
    for _ in range(48):
        last = logits[0, -1].argmax()
        written += letters[last]
        logits, state = model(last.view(1, 1), state)
print("It writes:", written)

if folder := os.environ.get("FUNCTRACE_PICTURES"):
    from matplotlib.figure import Figure

    with torch.no_grad():
        chance = model(x)[0][0].softmax(dim=-1)[:48]
    figure = Figure(figsize=(12, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 2.4])
    left.plot(losses)
    left.set(xlabel="step", ylabel="cross entropy", title="Learning")
    drawn = right.imshow(chance.T.numpy(), cmap="Greys", vmin=0, vmax=1, aspect="auto")
    right.set_xticks(range(48), ["_" if c == " " else c for c in TEXT[:48]])
    right.set_yticks(range(len(letters)), ["_" if c == " " else c for c in letters])
    right.tick_params(labelsize=8)
    right.set(xlabel="having read up to", ylabel="next comes", title="What it expects")
    figure.colorbar(drawn, label="probability")
    os.makedirs(folder, exist_ok=True)
    figure.savefig(os.path.join(folder, "torch_character_rnn.png"))
