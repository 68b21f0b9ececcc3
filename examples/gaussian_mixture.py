"""A Gaussian mixture fitted by gradient instead of EM: three kinds of iris, found without being told.

Four measurements of 150 flowers (Fisher 1936; the species are used only to judge the result). The parameters live where they can't be
invalid: weights as logits, precision matrices as triangular factors with logarithms on the diagonal. The log likelihood is then a function
that any optimiser may climb; here SciPy's truncated Newton method, which asks for products with the Hessian, from `hvp`. Expectation
maximisation (Dempster, Laird and Rubin 1977), as scikit-learn does it, arrives at the same place. Needs the extra: pip install
'functrace[examples]'.
"""

import numpy as np
from _picture import BLUE, GREEN, RED, save
from matplotlib.figure import Figure
from scipy.optimize import linear_sum_assignment, minimize
from sklearn.datasets import load_iris
from sklearn.mixture import GaussianMixture
from tqdm import tqdm

import functrace as ft

x, species = load_iris(return_X_y=True)
N, D = x.shape
K = 3


def factor(entries, log_diagonal):
    """A lower triangular matrix with a positive diagonal."""
    return np.tril(entries, -1) + np.diag(np.exp(log_diagonal))


def log_density(mean, entries, log_diagonal, x):
    """One Gaussian at one point; its precision matrix is L L^T."""
    z = (x - mean) @ factor(entries, log_diagonal)
    return -0.5 * np.sum(z**2) + np.sum(log_diagonal) - 0.5 * D * np.log(2 * np.pi)


components = ft.vmap(log_density, in_axes=(0, 0, 0, None))  # all Gaussians at one point
everywhere = ft.vmap(components, in_axes=(None, None, None, 0))  # at all points


def joint(p, x):
    """log p(component, x), one row for each flower."""
    log_weights = p["logits"] - np.logaddexp.reduce(p["logits"])
    return log_weights + everywhere(p["mean"], p["entries"], p["log_diagonal"], x)


def cost(p):
    return -np.sum(np.logaddexp.reduce(joint(p, x), axis=1))


def start(rng):
    """Means at three of the flowers, equal weights, covariances alike and without correlation."""
    return {
        "logits": np.zeros(K),
        "mean": x[rng.choice(N, K, replace=False)],
        "entries": np.zeros((K, D, D)),
        "log_diagonal": np.tile(0.5 - np.log(x.std(axis=0)), (K, 1)),
    }


rng = np.random.default_rng(1)
_, unravel = ft.ravel_pytree(start(rng))  # SciPy wants a vector
flat_cost = lambda v: cost(unravel(v))
both = ft.jit(ft.value_and_grad(flat_cost))
product = ft.jit(lambda v, t: ft.hvp(flat_cost, (v,), (t,)))

results = []
for k in tqdm(range(4), desc="fitting", unit=" starts"):
    result = minimize(both, ft.ravel_pytree(start(rng))[0], jac=True, hessp=product, method="trust-ncg", options={"gtol": 1e-4})
    tqdm.write(f"start {k}: log likelihood {-result.fun:.4f} after {result.nit} Newton steps, gradient {np.abs(result.jac).max():.0e}")
    results.append(result)
best = min(results, key=lambda result: result.fun)
p = unravel(best.x)

em = GaussianMixture(K, reg_covar=0, tol=1e-12, max_iter=5000, random_state=0).fit(x)
print(f"EM, as scikit-learn has it: {N * em.score(x):.4f} after {em.n_iter_} steps")
assert abs(-best.fun - N * em.score(x)) < 1e-3

# which component is which species, so that most flowers agree
found = joint(p, x).argmax(axis=1)
together = np.array([[np.sum((found == k) & (species == s)) for s in range(3)] for k in range(K)])
name = linear_sum_assignment(-together)[1]
right = name[found] == species
print(f"flowers put with their own species: {right.sum()} of {N}")
assert right.sum() == 145

figure = Figure(figsize=(10, 4.6))
inverse = [np.linalg.inv(factor(e, d)) for e, d in zip(p["entries"], p["log_diagonal"])]
circle = np.stack([np.cos(angle := np.linspace(0, 2 * np.pi, 100)), np.sin(angle)])
for ax, (i, j) in zip(figure.subplots(1, 2), [(0, 1), (2, 3)]):
    for k in np.argsort(name):
        s = name[k]
        label, color = load_iris().target_names[s], (BLUE, GREEN, RED)[s]
        ax.scatter(*x[species == s][:, [i, j]].T, s=16, color=color, alpha=0.8, lw=0, label=label)
        covariance = (inverse[k].T @ inverse[k])[np.ix_([i, j], [i, j])]
        for radius in (1, 2):
            ellipse = p["mean"][k][[i, j], None] + radius * np.linalg.cholesky(covariance) @ circle
            ax.plot(*ellipse, color=color, lw=1.3, alpha=1 / radius)
    ax.scatter(*x[~right][:, [i, j]].T, s=80, facecolor="none", edgecolor="black", label="put with another species")
    ax.set(xlabel=load_iris().feature_names[i], ylabel=load_iris().feature_names[j])
figure.axes[0].set_title("Three Gaussians in four dimensions, learned without labels")
figure.axes[1].legend(loc="upper left")
save(figure, "gaussian_mixture")
