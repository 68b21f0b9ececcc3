"""A convolutional network on scikit-learn's digits, in plain NumPy, and what it looks at.

A convolution is a matrix product over windows, and NumPy has a view for windows; no layer needs a library. The network has fewer
parameters than the perceptron of `digits_mlp.py` and makes fewer mistakes, for it need not learn each shape anew in each place (LeCun et
al., "Gradient-based learning applied to document recognition", 1998). The gradient in the image, not the parameters, shows
which pixels speak for a digit (Simonyan, Vedaldi and Zisserman 2014). Needs the extra: pip install 'functrace[examples]'.
"""

import numpy as np
from _picture import save
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import trange

import functrace as ft

EPOCHS, BATCH = 16, 64

images, labels = load_digits(return_X_y=True)
images = (images.reshape(-1, 8, 8, 1) / 8 - 1).astype(np.float32)
x_train, x_test, y_train, y_test = train_test_split(images, labels, test_size=0.25, random_state=0)


def convolve(x, weights):
    """(batch, height, width, in) and (3, 3, in, out): each window of 3 x 3 pixels times the weights; zeros around the image."""
    x = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))  # (batch, height, width, in, 3, 3)
    return np.tensordot(windows, weights, axes=([4, 5, 3], [0, 1, 2]))


def pool(x):
    """The largest of each 2 x 2 pixels."""
    n, height, width, channels = x.shape
    return x.reshape(n, height // 2, 2, width // 2, 2, channels).max(axis=(2, 4))


def scores(p, x):
    x = np.maximum(convolve(x, p["conv1"]) + p["bias1"], 0)
    x = pool(np.maximum(convolve(x, p["conv2"]) + p["bias2"], 0))
    return x.reshape(len(x), -1) @ p["dense"] + p["bias3"]


def loss(p, x, y):
    z = scores(p, x)
    return np.mean(np.logaddexp.reduce(z, axis=1) - z[np.arange(len(y)), y])


def accuracy(p, x, y):
    return np.mean(scores(p, x).argmax(axis=1) == y)


rng = np.random.default_rng(0)
weights = lambda *shape: (rng.normal(size=shape) * np.sqrt(2 / np.prod(shape[:-1]))).astype(np.float32)
zeros = lambda n: np.zeros(n, np.float32)
p = {"conv1": weights(3, 3, 1, 8), "bias1": zeros(8), "conv2": weights(3, 3, 8, 16), "bias2": zeros(16)}
p |= {"dense": weights(4 * 4 * 16, 10), "bias3": zeros(10)}
print(f"{len(x_train)} images to learn from, {sum(leaf.size for leaf in ft.tree.leaves(p))} parameters in float32")
print(f"before: accuracy test {accuracy(p, x_test, y_test):.1%}")

optimizer = ft.optim.adam(ft.optim.cosine_decay(3e-3, EPOCHS * (len(x_train) // BATCH)))
state = optimizer.init(p)


@ft.jit
def step(p, state, x, y):
    value, grads = ft.value_and_grad(loss)(p, x, y)
    updates, state = optimizer.update(grads, state, p)
    return ft.optim.apply_updates(p, updates), state, value


curve = []
bar = trange(EPOCHS, desc="training", unit=" epochs")
for _ in bar:
    for batch in np.array_split(rng.permutation(len(x_train))[: len(x_train) // BATCH * BATCH], len(x_train) // BATCH):
        p, state, value = step(p, state, x_train[batch], y_train[batch])
    curve.append((accuracy(p, x_train, y_train), accuracy(p, x_test, y_test)))
    bar.set_postfix(loss=f"{value:.4f}")
print(f"after: accuracy train {curve[-1][0]:.1%}, test {curve[-1][1]:.1%}")


# what speaks for a digit: the gradient of its margin over the strongest other digit, in each pixel
def margin(x, label):
    z = scores(p, x[None])[0]
    return z[label] - np.max(np.where(np.arange(10) == label, -np.inf, z))


shown = [np.flatnonzero(y_test == digit)[0] for digit in range(10)]
speaks = ft.vmap(ft.grad(margin))(x_test[shown], y_test[shown])
changed = x_test[shown] - 0.5 * np.sign(speaks)  # a step of a quarter of the range, against all that speaks for the digit
print(f"of the {len(shown)} digits shown {np.sum(scores(p, x_test[shown]).argmax(axis=1) == y_test[shown])} are recognised,", end=" ")
print(f"{np.sum(scores(p, changed).argmax(axis=1) == y_test[shown])} after a step against the gradient")
guess = scores(p, x_test).argmax(axis=1)
wrong = np.flatnonzero(guess != y_test)
print(f"wrong: {len(wrong)} of {len(y_test)} test images")
assert curve[-1][1] > 0.975 and len(wrong) < 12

figure = Figure(figsize=(10, 5.2))
top, bottom = figure.subfigures(2, 1, height_ratios=[1.1, 1])
left, right = top.subfigures(1, 2, width_ratios=[1, 1.25])
ax = left.subplots()
for values, label in zip(100 * np.array(curve).T, ("train", "test")):
    ax.plot(range(1, EPOCHS + 1), values, label=label)
ax.set(title="Accuracy", xlabel="epochs", ylabel="%", ylim=(85, 100.5), xticks=range(0, EPOCHS + 1, 5))
ax.legend(loc="lower right")
right.suptitle("Mistakes: what it said, and what it was", x=0.02, ha="left", weight="bold", size=11.5)
for ax, k in zip(right.subplots(2, 5).flat, wrong):
    ax.imshow(x_test[k, :, :, 0], cmap="Greys")
    ax.set_title(f"{guess[k]}, was {y_test[k]}", loc="center", weight="normal", size=10)
bottom.suptitle("Digits, and the pixels that speak for (red) and against (blue) them", x=0.01, ha="left", weight="bold", size=11.5)
for (above, below), k, g in zip(bottom.subplots(2, 10).T, shown, speaks[..., 0]):
    above.imshow(x_test[k, :, :, 0], cmap="Greys")
    below.imshow(g, cmap="RdBu_r", vmin=-np.abs(g).max(), vmax=np.abs(g).max())
for ax in figure.axes[1:]:
    ax.set_axis_off()
save(figure, "digits_cnn")
