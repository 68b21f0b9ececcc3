"""Hamiltonian Monte Carlo: does coaching help, in eight schools?

Each school ran its own experiment: an effect on test scores, and its standard error (Rubin, Journal of Educational Statistics 6, 1981;
Gelman et al., "Bayesian Data Analysis", section 5.5). How alike are the schools? A sample of the posterior is drawn by letting a ball roll
over -log p with random pushes (Neal, "MCMC using Hamiltonian dynamics", 2011), for which the slope of log p is all that is needed.
The model says what one chain sees; `vmap` runs 64 chains, `jit` records a whole path. The marginal of mu and tau is also known from a
grid, so the sample can be judged. Needs the extra: pip install 'functrace[examples]'.
"""

import numpy as np
from _picture import BLUE, GREY, RED, save
from matplotlib.figure import Figure
from tqdm import trange

import functrace as ft

effect = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
error = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
CHAINS, WARMUP, DRAWS, LEAPS = 64, 200, 400, 12


def schools(q):
    """The effects in the eight schools: scattered by tau about mu. So written, the ball rolls over no narrow funnel."""
    return q["mu"] + np.exp(q["log_tau"]) * q["scatter"]


def log_density(q):
    """Of mu ~ N(0, 5), tau ~ half Cauchy(5) as seen in log tau, the scatter, and what was measured; up to a constant."""
    prior = -0.5 * (q["mu"] / 5) ** 2 - np.log1p((np.exp(q["log_tau"]) / 5) ** 2) + q["log_tau"] - 0.5 * np.sum(q["scatter"] ** 2)
    return prior - 0.5 * np.sum(((effect - schools(q)) / error) ** 2)


slope = ft.vmap(ft.grad(log_density))
height = ft.vmap(log_density)


def move(x, v, step):
    return ft.tree.map(lambda x, v: x + step * v, x, v)


@ft.jit
def energy(q, p):
    return -height(q) + 0.5 * sum(np.sum(np.reshape(x, (len(x), -1)) ** 2, axis=1) for x in ft.tree.leaves(p))


@ft.jit
def roll(q, p, step):
    """The leapfrog method: half a push, then places and pushes by turns, then half a push. Also all the places on the way."""
    path = [q]
    p = move(p, slope(q), step / 2)
    for k in range(LEAPS):
        path.append(q := move(q, p, step))
        p = move(p, slope(q), step if k < LEAPS - 1 else step / 2)
    return q, p, path


def kick(rng, q):
    return ft.tree.map(lambda x: rng.normal(size=x.shape), q)


def sample(rng, q, step=0.1):
    """Draws of all chains, and the rate of acceptance; the step is tuned in the first part, to accept four paths in five."""
    draws, accepted = [], []
    for k in trange(WARMUP + DRAWS, desc="sampling"):
        p = kick(rng, q)
        new, end, _ = roll(q, p, step * rng.uniform(0.8, 1.2))  # so that no path closes on itself
        chance = np.exp(np.minimum(0, energy(q, p) - energy(new, end)))
        yes = rng.uniform(size=CHAINS) < chance
        q = ft.tree.map(lambda a, b: np.where(np.reshape(yes, (-1,) + (1,) * (a.ndim - 1)), a, b), new, q)
        if k < WARMUP:
            step *= np.exp((chance.mean() - 0.8) / np.sqrt(k + 1))
        else:
            draws.append(q)
            accepted.append(chance.mean())
    return ft.tree.map(lambda *x: np.stack(x), *draws), np.mean(accepted), step


rng = np.random.default_rng(0)
q = {"mu": rng.normal(size=CHAINS), "log_tau": rng.normal(size=CHAINS), "scatter": rng.normal(size=(CHAINS, 8))}

# the path can be gone back, and keeps its energy, the better the shorter the step
p = kick(rng, q)
there, end, _ = roll(q, p, 0.1)
back, _, _ = roll(there, ft.tree.map(np.negative, end), 0.1)
print(f"there and back: {max(np.abs(a - b).max() for a, b in zip(ft.tree.leaves(back), ft.tree.leaves(q))):.0e}")
drift = [np.abs(energy(*roll(q, p, s)[:2]) - energy(q, p)).mean() for s in (0.02, 0.01)]
print(f"halving the step divides the energy's drift in {LEAPS} leaps by {drift[0] / drift[1]:.1f}: the error of a leap is of third order")

draws, accepted, step = sample(rng, q)
mu, tau = draws["mu"], np.exp(draws["log_tau"])
print(f"{mu.size} draws of {CHAINS} chains, step {step:.2f}, accepted {accepted:.1%}")

# the truth: given mu and tau, each effect can be integrated out, and the other two are laid on a grid
m, t = np.meshgrid(np.linspace(-20, 25, 300), np.linspace(-7, 4.5, 400), indexing="ij")
spread = error**2 + np.exp(2 * t[..., None])  # of a measured effect
log_p = -0.5 * (m / 5) ** 2 - np.log1p((np.exp(t) / 5) ** 2) + t
log_p = log_p + np.sum(-0.5 * np.log(spread) - 0.5 * (effect - m[..., None]) ** 2 / spread, axis=-1)
weight = np.exp(log_p - log_p.max())
weight = weight / weight.sum()
given = (effect * np.exp(2 * t[..., None]) + m[..., None] * error**2) / spread  # mean of the effects, given mu and tau
shrunk = np.sum(weight[..., None] * given, axis=(0, 1))

theta = ft.vmap(ft.vmap(schools))(draws)
truths = {"mu": (mu, np.sum(weight * m)), "tau": (tau, np.sum(weight * np.exp(t))), "effect in school A": (theta[..., 0], shrunk[0])}
for name, (x, truth) in truths.items():
    means = x.mean(axis=0)  # of each chain, independent of each other
    doubt = means.std(ddof=1) / np.sqrt(CHAINS)
    rhat = np.sqrt(1 + means.var(ddof=1) / x.var(axis=0, ddof=1).mean())
    print(f"{name}: {x.mean():.2f} +- {doubt:.2f}, by the grid {truth:.2f}; R-hat {rhat:.3f}")
    assert abs(x.mean() - truth) < 4 * doubt and rhat < 1.02

figure = Figure(figsize=(10, 4.6))
plane, ax = figure.subplots(1, 2, width_ratios=[1, 1.1])
plane.plot(mu[::8].ravel(), draws["log_tau"][::8].ravel(), ".", color=BLUE, ms=2, alpha=0.35, label="draws")
inside = np.sort(weight.ravel())[::-1]
levels = [inside[np.searchsorted(np.cumsum(inside), share)] for share in (0.99, 0.9, 0.5)]
plane.contour(m, t, weight, levels=levels, colors=[GREY], linewidths=1.2)
path = roll(ft.tree.map(lambda x: x[-1], draws), kick(rng, q), step)[2]
plane.plot([place["mu"][0] for place in path], [place["log_tau"][0] for place in path], "o-", color=RED, ms=3, lw=1.2, label="one path")
plane.set(title="Draws, and 50, 90, 99 % by the grid", xlim=(-12, 20), ylim=(-5, 4))
plane.set(xlabel=r"$\mu$, mean effect", ylabel=r"$\log\,\tau$, spread of the schools")
plane.legend(loc="lower right", markerscale=2)
low, high = np.quantile(theta, [0.05, 0.95], axis=(0, 1))
middle, row = theta.mean(axis=(0, 1)), np.arange(8)
ax.errorbar(effect, row + 0.13, xerr=1.645 * error, fmt="o", color=GREY, capsize=3, label="measured in the school, 90 %")
ax.errorbar(middle, row - 0.13, xerr=[middle - low, high - middle], fmt="o", color=BLUE, capsize=3, label="given all schools, 90 %")
ax.set(title="Eight schools, each learning from the others", xlabel="effect of coaching, points")
ax.set(yticks=row, yticklabels="ABCDEFGH", ylim=(7.6, -2.2))
ax.legend(loc="upper right")
save(figure, "hamiltonian_monte_carlo")
