"""A recurrent network that learns a poem by heart, one character after another: a GRU as a function, `scan` along the text, `jit` around.

The cell is of Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014; reading a text that way, and looking at what
surprises the network, is from Karpathy, Johnson and Fei-Fei, "Visualizing and understanding recurrent networks", 2015. The text is the one
that comes with Python, `import this`. The whole training step, gradient and optimiser, is one function of a tree of arrays and is recorded
once. examples/torch/character_rnn.py has a GRU in PyTorch's manner. Needs the extra: pip install 'functrace[examples]'.
"""

import codecs
import io
from contextlib import redirect_stdout

import numpy as np
from _picture import save
from matplotlib import pyplot as plt
from tqdm import trange

import functrace as ft

with redirect_stdout(io.StringIO()):
    import this

HIDDEN, WINDOW, BATCH, STEPS = 64, 60, 16, 200

TEXT = codecs.decode(this.s, "rot13")
letters = sorted(set(TEXT))
index, K = np.array([letters.index(c) for c in TEXT]), len(letters)


def cell(params, h, x):
    """The next state: a gate z mixes the last with a new one, which sees as much of the last as a gate r lets through."""
    a = params["in"][x] + params["bias"]
    zr = 1 / (1 + np.exp(-(a[..., : 2 * HIDDEN] + h @ params["gates"])))
    z, r = zr[..., :HIDDEN], zr[..., HIDDEN:]
    return z * h + (1 - z) * np.tanh(a[..., 2 * HIDDEN :] + (r * h) @ params["new"])


def read(params, sequence, h):
    """Log probabilities of what comes next, (length, ..., K), along a sequence (length, ...) of letters; and the last state."""

    def step(h, x):
        h = cell(params, h, x)
        return h, h

    last, states = ft.scan(step, h, sequence)
    scores = states @ params["out"] + params["out_bias"]
    scores = scores - scores.max(axis=-1, keepdims=True)
    return scores - np.log(np.sum(np.exp(scores), axis=-1, keepdims=True)), last


def surprise(params, sequence, h):
    """Bits for each letter but the first, (length - 1, ...); and the last state."""
    log_p, h = read(params, sequence[:-1], h)
    return -np.take_along_axis(log_p, sequence[1:, ..., None], axis=-1)[..., 0] / np.log(2), h


def loss(params, sequence, h):
    bits, h = surprise(params, sequence, h)
    return np.mean(bits), h


keys = ft.random.split(ft.random.key(0), 4)
params = {
    "in": 0.5 * ft.random.normal(keys[0], (K, 3 * HIDDEN)),
    "bias": np.zeros(3 * HIDDEN),
    "gates": ft.random.normal(keys[1], (HIDDEN, 2 * HIDDEN)) / np.sqrt(HIDDEN),
    "new": ft.random.normal(keys[2], (HIDDEN, HIDDEN)) / np.sqrt(HIDDEN),
    "out": 0.01 * ft.random.normal(keys[3], (HIDDEN, K)),
    "out_bias": np.zeros(K),
}
optimizer = ft.optim.chain(ft.optim.clip_by_global_norm(1.0), ft.optim.adam(ft.optim.cosine_decay(0.01, STEPS)))


@ft.jit
def update(params, state, batch, h):
    (bits, h), grads = ft.value_and_grad(loss, has_aux=True)(params, batch, h)
    updates, state = optimizer.update(grads, state, params)
    return ft.optim.apply_updates(params, updates), state, h, bits


# What it takes to tell a letter knowing nothing, and knowing how often each follows the last one.
pairs = np.zeros((K, K))
np.add.at(pairs, (index[:-1], index[1:]), 1.0)
follows = pairs / np.maximum(pairs.sum(axis=1, keepdims=True), 1.0)
levels = {"knowing nothing": np.log2(K), "knowing the last letter": -np.mean(np.log2(follows[index[:-1], index[1:]]))}
print(f"{len(TEXT)} letters, {K} different;", ", ".join(f"{name}: {level:.2f} bits a letter" for name, level in levels.items()))
zero = np.zeros(HIDDEN)
print(f"the network at first: {loss(params, index, zero)[0]:.2f} bits a letter")

# Each of the batch reads the text from another place on, round and round; the state goes on with it from step to step.
state, h, history, on_the_way = optimizer.init(params), np.zeros((BATCH, HIDDEN)), [], {}
begin = np.arange(BATCH) * len(index) // BATCH
bar = trange(STEPS, desc="training", unit=" steps")
for step in bar:
    batch = index[(begin + step * WINDOW + np.arange(WINDOW + 1)[:, None]) % len(index)]
    params, state, h, bits = update(params, state, batch, h)
    history.append(bits)
    bar.set_postfix(bits=f"{bits:.3f}")
    if step + 1 in (30, 80, STEPS):
        on_the_way[step + 1], _ = surprise(params, index, zero)
        bar.write(f"after {step + 1} steps: {on_the_way[step + 1].mean():.3f} bits a letter")
_, h = read(params, index[:-1], zero)
letter, written = index[-1], ""
for _ in range(400):
    log_p, h = read(params, np.array([letter]), h)
    letter = log_p[0].argmax()  # always the likeliest
    written += letters[letter]
same = np.mean([a == b for a, b in zip(written, TEXT)])
print(f"having read it once more it writes, {same:.0%} of 400 letters as in the text:\n\n{written[:240]} ...")
assert on_the_way[STEPS].mean() < 0.2

figure, (left, *panels) = plt.subplots(1, 3, figsize=(13, 3.9), width_ratios=[1, 1.5, 1.5])
left.plot(history)
for k, (name, level) in enumerate(levels.items()):
    left.axhline(level, ls=":", color=f"C{k + 1}", label=name)
left.set(xlabel="step", ylabel="bits a letter", title="Learning", ylim=(0, 7.5))
left.legend(loc="upper right")
lines = TEXT.split("\n")[2:12]
for ax, (step, values) in zip(panels, on_the_way.items()):
    page, place = np.full((len(lines), max(map(len, lines))), np.nan), TEXT.index(lines[0])
    for row, line in enumerate(lines):
        page[row, : len(line)] = values[place - 1 : place - 1 + len(line)]
        place += len(line) + 1
        for column, letter in enumerate(line):
            ax.text(column, row, letter, ha="center", va="center", family="monospace", fontsize=8)
    drawn = ax.imshow(page, cmap="Reds", vmin=0, vmax=8, aspect="auto")
    ax.set_title(f"What surprises it after {step} steps")
    ax.set_axis_off()
figure.colorbar(drawn, ax=panels, label="bits")
save(figure, "character_rnn")
