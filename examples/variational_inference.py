"""Variational inference by gradients through samples: how likely was an O-ring to fail at 31 degrees?

Before the last start of the space shuttle Challenger, on a morning of 31 °F, O-rings had suffered on 7 of 23 flights (Dalal, Fowlkes and
Hoadley, Journal of the American Statistical Association 84, 1989). The posterior of a logistic regression is approximated by a Gaussian
whose mean and covariance maximise a lower bound of the evidence; samples are written as mean + L noise, so that the bound's gradient goes
through them (Kingma and Welling 2014; Kucukelbir et al. 2017). With two parameters the truth is known, from a grid. Needs the extra: pip
install 'functrace[examples]'.
"""

import numpy as np
from _picture import BLUE, GREY, ORANGE, RED, save
from matplotlib.figure import Figure
from tqdm import tqdm

import functrace as ft
from functrace import random

fahrenheit = np.array([66, 70, 69, 68, 67, 72, 73, 70, 57, 63, 70, 78, 67, 53, 67, 75, 70, 81, 76, 79, 75, 76, 58.0])
damage = np.array([0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1.0])
x = (fahrenheit - 70) / 10


def log_joint(w):
    """log p(w) p(damage | w): a wide prior, and a logistic curve in the temperature."""
    z = w[0] + w[1] * x
    return np.sum(damage * z - np.logaddexp(0, z)) - 0.5 * np.sum((w / 5) ** 2) - 2 * np.log(5 * np.sqrt(2 * np.pi))


def factor(q):
    """The Cholesky factor of the covariance; without "below", the two parameters are independent."""
    diagonal = np.diag(np.exp(q["log_scale"]))
    return diagonal + np.tril(q["below"], -1) if "below" in q else diagonal


def bound(q, noise):
    """Evidence lower bound: the mean of log p(w, damage) under q, plus the entropy of q."""
    samples = q["mean"] + noise @ factor(q).T
    return np.mean(ft.vmap(log_joint)(samples)) + np.sum(q["log_scale"]) + np.log(2 * np.pi * np.e)


def fit(q, name, steps=1200, size=64):
    """Adam on gradients that are random, for each comes from other samples, but right in the mean."""
    optimizer = ft.optim.adam(ft.optim.cosine_decay(0.05, steps))

    @ft.jit
    def step(q, state, noise):
        value, grads = ft.value_and_grad(bound)(q, noise)
        updates, state = optimizer.update(ft.tree.map(np.negative, grads), state, q)
        return ft.optim.apply_updates(q, updates), state, value

    state, history = optimizer.init(q), []
    for key in tqdm(random.split(random.key(0), steps), desc=name, unit=" steps"):
        q, state, value = step(q, state, random.normal(key, (size, 2)))
        history.append(value)
    return q, np.array(history)


# the truth, from a grid fine enough to be one
side = np.stack(np.meshgrid(np.linspace(-5, 3, 400), np.linspace(-9, 3, 400), indexing="ij"), axis=-1)
log_p = ft.vmap(ft.vmap(log_joint))(side)
cell = 8 / 399 * 12 / 399
evidence = np.log(np.sum(np.exp(log_p)) * cell)
posterior = np.exp(log_p - evidence) * cell
true_mean = np.sum(posterior[..., None] * side, axis=(0, 1))
true_deviation = np.sqrt(np.sum(posterior[..., None] * (side - true_mean) ** 2, axis=(0, 1)))
print(f"by the grid: log evidence {evidence:.4f}, mean {true_mean.round(3)}, deviation {true_deviation.round(3)}")

start = {"mean": np.zeros(2), "log_scale": np.zeros(2)}
fits, draws = {}, random.normal(random.key(1), (20000, 2))
for name, q0 in {"independent": start, "correlated": {**start, "below": np.zeros((2, 2))}}.items():
    q, history = fits[name] = fit(q0, name)
    deviation = np.sqrt(np.sum(factor(q) ** 2, axis=1))
    print(f"{name}: bound {bound(q, draws):.4f}, mean {q['mean'].round(3)}, deviation {deviation.round(3)}")
    assert bound(q, draws) < evidence + 0.01
q, history = fits["correlated"]
assert np.all(np.abs(q["mean"] - true_mean) < 0.15 * true_deviation)

# what it says about 31 degrees: the mean over the posterior, not the curve at its best parameters
fails = lambda w, t: 1 / (1 + np.exp(-(w[..., 0] + w[..., 1] * (t - 70) / 10)))
samples = q["mean"] + draws @ factor(q).T
at_31 = fails(samples, 31.0)
print(f"damage at 31 °F: {at_31.mean():.3f}, by the grid {np.sum(posterior * fails(side, 31.0)):.3f}; nine in ten between", end=" ")
print(" and ".join(f"{p:.2f}" for p in np.quantile(at_31, [0.05, 0.95])))

figure = Figure(figsize=(10, 4.5))
curve, plane = figure.subplots(1, 2)
t = np.linspace(28, 84, 120)
p = fails(samples[:4000, None, :], t)
curve.fill_between(t, *np.quantile(p, [0.05, 0.95], axis=0), color=BLUE, alpha=0.15, lw=0, label="90 %")
curve.plot(t, p.mean(axis=0), color=BLUE, label="probability of damage")
curve.plot(fahrenheit, damage, "o", color=GREY, ms=5, alpha=0.7, label="flights before")
curve.axvline(31, color=RED, lw=1.2, ls="--")
curve.text(32, 0.4, "28 January 1986", color=RED, rotation=90)
curve.set(title="O-rings of the space shuttle", xlabel="temperature of the joints, °F", ylabel="damage")
curve.legend(loc=(0.11, 0.12))

plane.contourf(side[:, 0, 0], side[0, :, 1], posterior.T, levels=12, cmap="Greys")
circle = np.stack([np.cos(angle := np.linspace(0, 2 * np.pi, 200)), np.sin(angle)])
for (name, (q, _)), color in zip(fits.items(), (ORANGE, BLUE)):
    for radius in (1, 2):
        plane.plot(
            *(q["mean"][:, None] + radius * factor(q) @ circle), color=color, lw=1.6, label=f"{name} Gaussian" if radius == 1 else None
        )
plane.set(
    title="Posterior (grey) and its approximations", xlabel="log odds at 70 °F", ylabel="change for 10 °F more", xlim=(-3, 1), ylim=(-6, 1)
)
plane.legend(loc="lower right")
save(figure, "variational_inference")
