"""A recurrent network that learns to spell: each character of a text predicted from those before it."""

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
for step in range(1, 61):
    logits, _ = model(x)
    loss = nn.functional.cross_entropy(logits.transpose(1, 2), target)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
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
