"""A small multilayer perceptron on scikit-learn's digits, trained by Adam, which is written out here over pytrees.

Parameters are a list of dicts; gradients, and Adam's two running means, are trees of the same structure, and `ft.tree.map` walks
them together. Needs the extra: pip install 'functrace[examples]'.
"""

import numpy as np
from _picture import save
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import trange

import functrace as ft

EPOCHS, BATCH, RATE = 30, 64, 3e-3

rng = np.random.default_rng(0)
images, labels = load_digits(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split((images / 8 - 1).astype(np.float32), labels, test_size=0.25, random_state=0)


def layer(fan_in, fan_out):
    weights = rng.normal(scale=np.sqrt(2 / fan_in), size=(fan_in, fan_out))
    return {"w": weights.astype(np.float32), "b": np.zeros(fan_out, np.float32)}


def predict(params, x):
    *hidden, last = params
    for p in hidden:
        x = np.maximum(x @ p["w"] + p["b"], 0)
    return x @ last["w"] + last["b"]


def loss(params, x, y):
    z = predict(params, x)
    z = z - z.max(axis=1, keepdims=True)
    return np.mean(np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(y)), y])


def adam(params, grads, mean, square, step):
    """One step: parameters move against the mean gradient, measured in units of its usual size."""
    mean = ft.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
    square = ft.tree.map(lambda s, g: 0.999 * s + 0.001 * g**2, square, grads)
    rate = RATE * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    params = ft.tree.map(lambda p, m, s: p - np.float32(rate) * m / (np.sqrt(s) + 1e-8), params, mean, square)
    return params, mean, square


def accuracy(params, x, y):
    return np.mean(predict(params, x).argmax(axis=1) == y)


params = [layer(64, 64), layer(64, 32), layer(32, 10)]
mean = square = ft.tree.map(np.zeros_like, params)
loss_and_grads = ft.value_and_grad(loss)
print(f"{len(x_train)} images to learn from, {sum(leaf.size for leaf in ft.tree.leaves(params))} parameters in float32")
print(f"before: accuracy on the test images {accuracy(params, x_test, y_test):.1%}")

step, curve = 0, []
bar = trange(1, EPOCHS + 1, desc="training", unit=" epochs")
for epoch in bar:
    losses = []
    for batch in np.array_split(rng.permutation(len(x_train)), len(x_train) // BATCH):
        step += 1
        value, grads = loss_and_grads(params, x_train[batch], y_train[batch])
        params, mean, square = adam(params, grads, mean, square, step)
        losses.append(value)
    curve.append((np.mean(losses), loss(params, x_test, y_test)))
    bar.set_postfix(loss=f"{np.mean(losses):.4f}")
    if epoch in (1, 3, 10, EPOCHS):
        bar.write(f"epoch {epoch:2d}: loss {np.mean(losses):.4f}, accuracy on the test images {accuracy(params, x_test, y_test):.1%}")

print(f"after {step} steps: accuracy train {accuracy(params, x_train, y_train):.1%}, test {accuracy(params, x_test, y_test):.1%}")
assert {leaf.dtype for leaf in ft.tree.leaves(params)} == {np.dtype(np.float32)}
assert accuracy(params, x_test, y_test) > 0.95

guess = predict(params, x_test).argmax(axis=1)
table = np.zeros((10, 10), int)
np.add.at(table, (y_test, guess), 1)

figure = Figure(figsize=(10, 4.5))
left, right = figure.subplots(1, 2, width_ratios=[1.3, 1])
for values, label in zip(np.transpose(curve), ("on the images learned from", "on the test images")):
    left.plot(range(1, EPOCHS + 1), values, label=label)
left.set(title="Loss of the perceptron", xlabel="epochs", ylabel="cross entropy", yscale="log")
left.legend()
right.imshow(np.where(table, table, np.nan), cmap="Blues", vmax=60)
for i, j in np.argwhere(table):
    right.text(j, i, table[i, j], ha="center", va="center", color="white" if table[i, j] > 30 else "black")
right.set(title="Test images, counted", xlabel="recognised as", ylabel="written", xticks=range(10), yticks=range(10))
right.grid(False)
save(figure, "digits_mlp")
