"""Logistic regression on scikit-learn's digits, minimised by SciPy over parameters that keep their structure.

`scipy_objective` turns a loss of a dict of arrays into what `scipy.optimize.minimize` wants, a function of one vector that returns
value and gradient; `unravel` turns SciPy's answer back. Needs the extra: pip install 'functrace[examples]'.
"""

import numpy as np
from _picture import save
from matplotlib.figure import Figure
from scipy.optimize import minimize
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import functrace as ft

images, labels = load_digits(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(images / 16, labels, test_size=0.25, random_state=0)
params = {"weights": np.zeros((64, 10)), "bias": np.zeros(10)}


def scores(params, x):
    return x @ params["weights"] + params["bias"]


def loss(params, x, y):
    z = scores(params, x)
    z = z - z.max(axis=1, keepdims=True)  # so that no exponential overflows
    log_likelihood = z[np.arange(len(y)), y] - np.log(np.exp(z).sum(axis=1))
    return -log_likelihood.mean() + 1e-3 * np.sum(params["weights"] ** 2)


def accuracy(params, x, y):
    return np.mean(scores(params, x).argmax(axis=1) == y)


fun, x0, unravel = ft.scipy_objective(loss, params, x_train, y_train)


def hessian_product(x, v):
    return ft.hvp(lambda vector: loss(unravel(vector), x_train, y_train), (x,), (v,))


print(f"{len(x_train)} images to learn from, {x0.size} parameters, loss at the start {fun(x0)[0]:.4f} (log 10 = {np.log(10):.4f})\n")
found, paths = {}, {}
for method, more in {"L-BFGS-B": {}, "Newton-CG": {"hessp": hessian_product}}.items():
    path = paths[method] = [x0]
    for_each = lambda x: (path.append(x.copy()), bar.update())
    with tqdm(desc=method, unit=" iterations") as bar:
        result = minimize(fun, x0, jac=True, method=method, callback=for_each, options={"maxiter": 500}, **more)
    best = found[method] = unravel(result.x)
    print(f"{method}: loss {result.fun:.4f} after {result.nit} iterations, {result.nfev} evaluations")
    print(f"  largest element of the gradient {np.abs(result.jac).max():.0e}, weights again {best['weights'].shape}")
    print(f"  accuracy: train {accuracy(best, x_train, y_train):.1%}, test {accuracy(best, x_test, y_test):.1%}")

a, b = (p["weights"] for p in found.values())
print(f"\nThe loss is convex, so both end at the same weights: they differ by at most {np.abs(a - b).max():.0e}.")
assert np.abs(a - b).max() < 1e-2
assert accuracy(best, x_test, y_test) > 0.95

figure = Figure(figsize=(10, 4))
left, right = figure.subfigures(1, 2, width_ratios=[1, 1.25])
ax = left.subplots()
lowest = min(fun(path[-1])[0] for path in paths.values())
for method, path in paths.items():
    ax.plot([fun(x)[0] - lowest + 1e-12 for x in path], label=method)
ax.set(title="Loss above its minimum", xlabel="iterations", yscale="log")
ax.legend()
right.suptitle("Weights: ink speaks for (red) or against (blue)", x=0.02, ha="left", weight="bold", size=11.5)
most = np.abs(a).max()
for digit, ax in enumerate(right.subplots(2, 5).flat):
    ax.imshow(a[:, digit].reshape(8, 8), cmap="RdBu_r", vmin=-most, vmax=most)
    ax.set_title(str(digit), loc="center")
    ax.set_axis_off()
save(figure, "digits_logistic")
