"""A neural ordinary differential equation: a network is the right-hand side, and gradients go through the solver.

After Chen, Rubanova, Bettencourt and Duvenaud, "Neural ordinary differential equations", 2018. The network sees noisy pieces of one
trajectory of van der Pol's oscillator and learns the vector field; then it must run free, also from a start that it never saw. `solve_ivp`
of functrace.scipy is SciPy's adaptive Runge-Kutta method, and `vmap` solves all pieces together. The paper's adjoint method, which finds
the same gradient by solving a second equation backwards, is a dozen lines with `vjp`, and agrees.
Needs the extra: pip install 'functrace[examples]'.
"""

import numpy as np
from _picture import save
from matplotlib import pyplot as plt
from scipy.optimize import minimize
from tqdm import tqdm

import functrace as ft
from functrace.scipy.integrate import solve_ivp

HIDDEN, PIECES, LENGTH, NOISE = 16, 40, 10, 0.01

rng = np.random.default_rng(0)
times = np.linspace(0, 20, PIECES * LENGTH + 1)


def van_der_pol(t, y):
    return np.stack([y[1], (1 - y[0] ** 2) * y[1] - y[0]])


def network(t, y, params):
    return np.tanh(y @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


def follow(field, start, times, *args, rtol=1e-6, atol=1e-8):
    """The trajectory from a start, (times, 2)."""
    return solve_ivp(field, (0.0, times[-1]), start, t_eval=times, args=args, rtol=rtol, atol=atol).y.T


def loss(params, pieces):
    """Mean squared distance of the network's trajectories from pieces (PIECES, times, 2) that begin where they begin."""
    solve = lambda start: follow(network, start, times[: LENGTH + 1], params, rtol=1e-3, atol=1e-5)
    return np.mean((ft.vmap(solve)(pieces[:, 0]) - pieces) ** 2)


seen = follow(van_der_pol, np.array([0.5, 0.0]), times)
noisy = seen + rng.normal(scale=NOISE, size=seen.shape)
pieces = np.stack([noisy[k : k + LENGTH + 1] for k in range(0, PIECES * LENGTH, LENGTH)])
first = {
    "w1": rng.normal(scale=0.5, size=(2, HIDDEN)),
    "b1": rng.normal(scale=0.5, size=HIDDEN),
    "w2": rng.normal(scale=0.3, size=(HIDDEN, 2)),
    "b2": np.zeros(2),
}


# The adjoint method: from the end backwards, beside y run a = dL/dy, a' = -a df/dy, and the gradient g, g' = -a df/dparams.
def end_loss(y):
    return np.sum((y - 1.0) ** 2)


def by_adjoint(params, start, end, **tolerance):
    y = solve_ivp(network, (0.0, end), start, args=(params,), **tolerance).y[:, -1]
    state, unravel = ft.ravel_pytree((y, ft.grad(end_loss)(y), ft.tree.map(np.zeros_like, params)))

    def backwards(t, state):
        y, a, _ = unravel(state)
        slope, pullback = ft.vjp(lambda y, p: network(t, y, p), y, params)
        da, dg = pullback(-a)
        return ft.ravel_pytree((slope, da, dg))[0]

    return unravel(solve_ivp(backwards, (end, 0.0), state, **tolerance).y[:, -1])[2]


tight = {"rtol": 1e-9, "atol": 1e-11}
through = ft.grad(lambda p: end_loss(solve_ivp(network, (0.0, 1.0), seen[0], args=(p,), **tight).y[:, -1]))(first)
adjoint = by_adjoint(first, seen[0], 1.0, **tight)
apart = max(np.abs(through[name] - adjoint[name]).max() for name in first)
print(f"gradient through the solver and by the adjoint equation: they differ by at most {apart:.0e}")
assert apart < 1e-8

fun, start, unravel = ft.scipy_objective(loss, first, pieces)
with tqdm(total=200, desc="training", unit=" iterations") as bar:
    result = minimize(fun, start, jac=True, method="L-BFGS-B", callback=lambda _: bar.update(), options={"maxiter": 200})
params = unravel(result.x)
print(f"mean squared error: {fun(start)[0]:.4f} at first, {result.fun:.6f} at last; the noise of the points makes {NOISE**2:.6f} of it")

elsewhere = np.array([-1.0, -1.0])
truth, learned = follow(van_der_pol, elsewhere, times), follow(network, elsewhere, times, params)
again = follow(network, seen[0], times, params)
rms = lambda x: np.sqrt(np.mean(x**2))
print(f"20 seconds from its start alone: off by {rms(again - seen):.3f}; from a start that it never saw: by {rms(learned - truth):.3f}")


def period(field, *args):
    """Time between upward crossings of zero, late in a long run."""
    t = np.linspace(0, 60, 6001)
    y = follow(field, np.array([2.0, 0.0]), t, *args)[:, 0]
    k = np.flatnonzero((y[:-1] < 0) & (y[1:] >= 0))
    return np.diff(t[k] - y[k] * 0.01 / (y[k + 1] - y[k]))[-4:].mean()


print(f"period of the cycle: {period(network, params):.3f}, of van der Pol's oscillator: {period(van_der_pol):.3f}")
assert rms(learned - truth) < 0.15 and abs(period(network, params) / period(van_der_pol) - 1) < 0.01

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.6), width_ratios=[1, 1.3])
grid = np.linspace(-3, 3, 25)
u = network(0.0, np.stack(np.meshgrid(grid, grid), axis=-1), params)
left.streamplot(grid, grid, u[..., 0], u[..., 1], color="0.8", density=0.9, linewidth=0.8, arrowsize=0.8)
left.plot(*noisy.T, ".", ms=3, color="C1", label="what it saw")
left.plot(*learned.T, color="C0", label="from a new start")
left.set(xlabel="$y_1$", ylabel="$y_2$", title="The learned vector field", aspect="equal", xlim=(-3, 3), ylim=(-3, 3))
left.legend(loc="upper left", frameon=True, fontsize=9)
right.plot(times, truth, "--", color="0.3", lw=1, label=["truth", None], zorder=3)
right.plot(times, learned, label=["learned, $y_1$", "learned, $y_2$"])
right.set(xlabel="time", title="From a start that it never saw", ylim=(-3, 3.8))
right.legend(ncols=3)
save(figure, "neural_ode")
