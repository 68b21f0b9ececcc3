"""Optimal transport, differentiated through its equation: between which digits does a digit lie?

The barycentre of some histograms with weights w is the histogram that is cheapest to reach from all, in the sense of entropic transport.
Sinkhorn's iteration finds it (Benamou, Carlier, Cuturi, Nenna and Peyré, SIAM Journal on Scientific Computing 37, 2015); it ends where
x = f(x, w), and `fixed_point` differentiates that equation, not the hundreds of iterations. So it can be learned where between four digits
an image lies: its Wasserstein barycentric coordinates (Bonneel, Peyré and Cuturi, ACM Transactions on Graphics 35, 2016). Needs the extra:
pip install 'functrace[examples]'.
"""

import time

import numpy as np
from _picture import BLUE, ORANGE, RED, save
from matplotlib.figure import Figure
from scipy.optimize import minimize
from sklearn.datasets import load_digits
from tqdm import tqdm

import functrace as ft

EPSILON = 0.015  # of the entropy; a step from pixel to pixel costs 0.02

digits = load_digits()
pixels = np.stack(np.meshgrid(np.arange(8) / 7, np.arange(8) / 7, indexing="ij"), axis=-1).reshape(64, 2)
K = np.exp(-np.sum((pixels[:, None] - pixels) ** 2, axis=-1) / EPSILON)


def histogram(image):
    """Ink as a probability, with a little of it everywhere."""
    ink = image.ravel() + 0.02
    return ink / ink.sum()


def means(x, weights, references):
    """From scalings x, one row for each reference: what each row sees, and the barycentre, their geometric mean."""
    seen = np.log((references / (np.exp(x) @ K)) @ K)
    return seen, weights @ seen


def update(x, weights, references):
    """An iteration of Sinkhorn's. A factor in a scaling is arbitrary, so each row is made to have the mean zero."""
    seen, centre = means(x, weights, references)
    x = centre - seen
    return x - x.mean(axis=1, keepdims=True)


def barycentre(weights, references):
    x = ft.fixed_point(update, np.zeros_like(references), weights, references, tol=1e-12)
    return np.exp(means(x, weights, references)[1])


def unrolled(weights, references, steps=600):
    """The same, differentiated step by step."""
    x = np.zeros_like(references)
    for _ in range(steps):
        x = update(x, weights, references)
    return np.exp(means(x, weights, references)[1])


def corner_weights(place):
    """Of the four corners of a square, at a place in it."""
    down, right = place
    return np.stack([(1 - down) * (1 - right), (1 - down) * right, down * (1 - right), down * right])


def divergence(place, target, references, centre=barycentre):
    """Relative entropy of the target to the barycentre at a place."""
    return np.sum(target * np.log(target / centre(corner_weights(place), references)))


corners = np.stack([histogram(digits.images[np.flatnonzero(digits.target == d)[0]]) for d in (0, 1, 3, 7)])
true = np.array([0.7, 0.25])
target = barycentre(corner_weights(true), corners)
middle = np.array([0.5, 0.5])

both, gradients = ft.value_and_grad(divergence), []
for name, centre in {"through the equation": barycentre, "through 600 steps": unrolled}.items():
    start = time.perf_counter()
    gradients.append(both(middle, target, corners, centre)[1])
    print(f"gradient {name}: {gradients[-1].round(9)}, in {1e3 * (time.perf_counter() - start):.0f} ms")
assert np.allclose(*gradients, rtol=1e-8)


def locate(target):
    """SciPy's L-BFGS-B, kept inside the square, from its middle; and all the places on the way."""
    path = [middle]
    keep = lambda place: (path.append(place.copy()), bar.update())
    with tqdm(desc="locating", unit=" iterations") as bar:
        result = minimize(both, middle, (target, corners), jac=True, method="L-BFGS-B", bounds=[(0.01, 0.99)] * 2, callback=keep, tol=1e-14)
    return result, np.array(path)


result, path = locate(target)
print(f"true place {true}, found {result.x.round(6)}, after {result.nit} iterations")
assert np.allclose(result.x, true, atol=1e-5)
noisy = target * np.random.default_rng(0).lognormal(sigma=0.25, size=64)
noisy = noisy / noisy.sum()
result, noisy_path = locate(noisy)
print(f"with every pixel wrong by a quarter: found {result.x.round(3)}")
assert np.allclose(result.x, true, atol=0.1)

figure = Figure(figsize=(8.6, 6.2))
grid = figure.add_gridspec(4, 2, width_ratios=[4, 1])
ax = figure.add_subplot(grid[:, 0])
sides = np.linspace(0, 1, 5)
for down in sides:
    for across in sides:
        image = barycentre(corner_weights((down, across)), corners).reshape(8, 8)
        ax.imshow(image, cmap="Greys", extent=(across - 0.1, across + 0.1, down + 0.1, down - 0.1))
for places, color, label in ((path, RED, "from the barycentre itself"), (noisy_path, BLUE, "from a noisy image of it")):
    ax.plot(places[:, 1], places[:, 0], "o-", color=color, ms=5, lw=1.5, label=label)
ax.plot(true[1], true[0], "*", color=ORANGE, ms=18, mec="black", label="the true place", zorder=3)
ax.set(title="Barycentres of four digits, and the way to a place", xlim=(-0.12, 1.12), ylim=(1.12, -0.12), xticks=[], yticks=[])
ax.spines[:].set_visible(False)
ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0.01), ncols=3, columnspacing=1, fontsize=9)
found = barycentre(corner_weights(result.x), corners)
average = corner_weights(true) @ corners
titles = ("barycentre, true place", "with noise", "barycentre, found place", "average of the pixels")
for row, (image, title) in enumerate(zip((target, noisy, found, average), titles)):
    ax = figure.add_subplot(grid[row, 1])
    ax.imshow(image.reshape(8, 8), cmap="Greys")
    ax.set_title(title, loc="center", weight="normal", size=9.5)
    ax.set_axis_off()
save(figure, "optimal_transport")
