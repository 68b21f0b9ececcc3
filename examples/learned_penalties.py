"""Learning how much to regularise: gradients of a cross-validation error through fits that are solved, not unrolled.

The weights of a regression are the solution of an equation, and so have derivatives in its penalty whatever program found them (the
implicit function theorem; Bengio, "Gradient-based optimization of hyperparameters", 2000). Ridge: the gradient of the training loss is
zero, `implicit_root`. Lasso, whose minimum lies at a kink: a step of proximal gradient changes nothing, `fixed_point`, solved by
scikit-learn's coordinate descent (Bertrand et al., "Implicit differentiation of Lasso-type models", 2020). With a gradient, a penalty for
each feature costs little more to learn than one for all. Data: scikit-learn's diabetes. Needs the extra: pip install 'functrace[examples]'.
"""

import numpy as np
from _picture import save
from matplotlib import pyplot as plt
from scipy.optimize import minimize
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Lasso
from sklearn.model_selection import KFold, train_test_split
from tqdm import tqdm

import functrace as ft

data = load_diabetes(scaled=False)
names = data.feature_names
x = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
y = (data.target - data.target.mean()) / data.target.std()
x, x_test, y, y_test = train_test_split(x, y, test_size=0.3, random_state=0)
folds = list(KFold(5, shuffle=True, random_state=0).split(x))


def ridge(log_penalty, x, y):
    """Weights of least squares with a penalty on their squares; one for all, or one for each."""

    def loss(w, log_penalty):
        return np.mean((x @ w - y) ** 2) / 2 + np.sum(np.exp(log_penalty) * w**2) / 2

    def newton(equation, w):  # one step is exact: the loss is quadratic
        return w - np.linalg.solve(ft.jacobian(equation)(w), equation(w))

    return ft.implicit_root(ft.grad(loss), np.zeros(x.shape[1]), log_penalty, solver=newton)


def ridge_formula(log_penalty, x, y):
    """The same in closed form, differentiated through `solve`, to check."""
    gram = x.T @ x / len(x) + np.diag(np.exp(log_penalty) * np.ones(x.shape[1]))
    return np.linalg.solve(gram, x.T @ y / len(x))


def lasso(log_penalty, x, y):
    """Weights of least squares with a penalty on their sizes, which leaves some of them at zero."""
    rate = len(x) / np.linalg.norm(x, 2) ** 2

    def proximal_step(w, log_penalty):
        moved = w - rate * x.T @ (x @ w - y) / len(x)
        return np.sign(moved) * np.maximum(np.abs(moved) - rate * np.exp(log_penalty), 0.0)

    def coordinate_descent(_step, _w):
        return Lasso(float(np.exp(ft.value(log_penalty))), fit_intercept=False, tol=1e-13, max_iter=100_000).fit(x, y).coef_

    return ft.fixed_point(proximal_step, np.zeros(x.shape[1]), log_penalty, solver=coordinate_descent)


def validation_error(log_penalty, fit):
    """Mean squared error on what was held back, over five folds."""
    return sum(np.mean((x[held] @ fit(log_penalty, x[used], y[used]) - y[held]) ** 2) for used, held in folds) / len(folds)


error_and_slope = ft.value_and_grad(validation_error)
implicit, direct = ft.grad(validation_error)(-2.0, ridge), ft.grad(validation_error)(-2.0, ridge_formula)
print(f"ridge, slope of the error: through the equation {implicit:.10f}, through the formula {direct:.10f}")
h = 1e-5
difference = (validation_error(-3 + h, lasso) - validation_error(-3 - h, lasso)) / (2 * h)
print(f"lasso, slope of the error: through the equation {ft.grad(validation_error)(-3.0, lasso):.7f}, by differences {difference:.7f}")

grid = np.linspace(-7, -1, 41)
curves, visits = {}, {}
for fit in (ridge, lasso):
    curve = curves[fit] = np.array([validation_error(p, fit) for p in tqdm(grid, desc=fit.__name__)])
    visits[fit] = [-2.0]
    best = minimize(
        lambda p, fit=fit: error_and_slope(p[0], fit), [-2.0], jac=True, method="L-BFGS-B", callback=lambda p: visits[fit].append(p[0])
    )
    print(f"{fit.__name__}: log penalty {best.x[0]:.3f}, error {best.fun:.5f} after {best.nfev} fits;", end=" ")
    print(f"best of {len(grid)} on a grid: {grid[curve.argmin()]:.3f}, error {curve.min():.5f}")
    assert best.fun < curve.min() + 1e-4

many = minimize(error_and_slope, np.full(x.shape[1], best.x[0]), (ridge,), jac=True, method="L-BFGS-B", bounds=[(-8, 8)] * x.shape[1])
print(f"ridge with {x.shape[1]} penalties: error {many.fun:.5f} after {many.nfev} fits")
test_error = lambda w: np.mean((x_test @ w - y_test) ** 2)
one, plain = visits[ridge][-1], np.linalg.lstsq(x, y)[0]
print(f"on patients never seen: one penalty {test_error(ridge(one, x, y)):.4f}, ten {test_error(ridge(many.x, x, y)):.4f},", end=" ")
print(f"lasso {test_error(lasso(visits[lasso][-1], x, y)):.4f}, none {test_error(plain):.4f}")
print(f"Ten fit the folds best and new patients worst: {len(x)} patients are too few to learn ten penalties from.")
assert np.isclose(implicit, direct, rtol=1e-8) and many.fun < curves[ridge].min()

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.3))
for fit, colour in ((ridge, "C0"), (lasso, "C1")):
    left.plot(grid, curves[fit], color=colour, label=f"{fit.__name__}, grid")
    path = np.array(visits[fit])
    left.plot(path, [validation_error(p, fit) for p in path], "o", color=colour, mfc="white", label=f"{fit.__name__}, by gradient")
left.set(ylim=(0.507, 0.55), xlabel="log penalty", ylabel="cross-validation error", title="One penalty")
left.legend()
places = np.arange(len(names))
fits = {"no penalty": plain, "one": ridge(one, x, y), "ten": ridge(many.x, x, y), "lasso": lasso(visits[lasso][-1], x, y)}
for k, (label, w) in enumerate(fits.items()):
    right.bar(places + 0.2 * (k - 1.5), w, 0.2, label=label, color=["0.75", "C0", "C2", "C1"][k])
right.set(xticks=places, ylabel="weight", title="Weights of the ten features")
right.set_xticklabels(names)
right.legend(ncols=2)
save(figure, "learned_penalties")
