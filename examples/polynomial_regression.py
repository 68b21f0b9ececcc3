"""Polynomial regression: the distance that a car needs to stop, the degree that fits it best, and how sure one can be.

Speeds and stopping distances of 50 cars of the 1920s (Ezekiel, "Methods of Correlation Analysis", 1930). The loss is quadratic in the
coefficients, so one step of Newton's method, from anywhere, ends at the least squares solution: that is a function of the data, and can
itself be batched. `vmap` over 50 sets of weights, each with one car left out, cross-validates all fits at once; `jacobian` with respect to
the measured distances says how much each car pulls on its own prediction. Needs the extra: pip install 'functrace[examples]'.
"""

import numpy as np
from _picture import BLUE, GREEN, GREY, RED, save
from matplotlib.figure import Figure

import functrace as ft

speeds, cars = [4, *range(7, 21), 22, 23, 24, 25], [2, 2, 1, 1, 3, 2, 4, 4, 4, 3, 2, 3, 4, 3, 5, 1, 1, 4, 1]
mph = np.repeat(speeds, cars)
feet = np.array(
    """2 10 4 22 16 10 18 26 34 17 28 14 20 24 28 26 34 34 46 26 36 60 80 20 26 54 32 40 32 40 50 42 56 76 84 36 46 68 32 48 52 56 64
    66 54 70 92 93 120 85""".split(),
    float,
)
x, N = mph / 25, len(feet)


def predict(c, x):
    """c[0] + c[1] x + c[2] x^2 + ..., by Horner's rule."""
    y = np.zeros_like(x)
    for a in c[::-1]:
        y = y * x + a
    return y


def loss(c, x, y, weights):
    return np.sum(weights * (predict(c, x) - y) ** 2) / 2


def fit(degree, y, weights):
    """One Newton step from zero."""
    c = np.zeros(degree + 1)
    return c - np.linalg.solve(ft.hessian(loss)(c, x, y, weights), ft.grad(loss)(c, x, y, weights))


everyone = np.ones(N)
c = fit(2, feet, everyone)
print(f"quadratic: {c[0]:.4f} + {c[1] / 25:.4f} v + {c[2] / 625:.5f} v^2, by numpy.polyfit: {np.polyfit(mph, feet, 2)[::-1].round(5)}")
assert np.allclose(c / [1, 25, 625], np.polyfit(mph, feet, 2)[::-1])
print(f"the loss is quadratic, so its gradient there is {np.abs(ft.grad(loss)(c, x, feet, everyone)).max():.0e}")

# leave one out: the distance of each car, predicted from the other 49
trained, left_out = [], []
for degree in range(8):
    fits = ft.vmap(lambda weights: fit(degree, feet, weights))(1 - np.eye(N))
    left_out.append(np.sqrt(np.mean((ft.vmap(predict)(fits, x) - feet) ** 2)))
    # by a formula the same: residuals, divided by one minus the pull of each car on its own prediction
    pull = ft.jacobian(lambda y: predict(fit(degree, y, everyone), x))(feet)
    residuals = feet - predict(fit(degree, feet, everyone), x)
    trained.append(np.sqrt(np.mean(residuals**2)))
    assert np.isclose(left_out[-1], np.sqrt(np.mean((residuals / (1 - np.diag(pull))) ** 2)))
    print(f"degree {degree}: error {trained[-1]:.2f} feet, of cars left out {left_out[-1]:.2f}; the pulls sum to {np.trace(pull):.3f}")
best = int(np.argmin(left_out))
print(f"best degree: {best}, as physics has it: reaction takes a time, braking an energy")
assert best == 2

# the curvature of the loss at its minimum says how sure the coefficients are; a tangent carries that over to predictions
variance = 2 * loss(c, x, feet, everyone) / (N - 3)
covariance = variance * np.linalg.inv(ft.hessian(loss)(c, x, feet, everyone))
v = np.linspace(0, 27, 200)
slopes = ft.jacobian(predict)(c, v / 25)
deviation = np.sqrt(np.sum((slopes @ covariance) * slopes, axis=1))
at_20 = np.interp(20, v, predict(c, v / 25)), np.interp(20, v, deviation)
print(f"at 20 mph: {at_20[0]:.1f} feet on average, give or take {1.96 * at_20[1]:.1f}; a single car {1.96 * np.sqrt(variance):.0f}")

figure = Figure(figsize=(10, 4.5))
ax, side = figure.subplots(1, 2, width_ratios=[1.5, 1])
mean = predict(c, v / 25)
ax.plot(mph, feet, "o", color=GREY, ms=5, alpha=0.7, label="50 cars")
ax.plot(v, predict(fit(7, feet, everyone), v / 25), color=RED, lw=1.2, label="degree 7")
ax.plot(v, mean, color=BLUE, label="degree 2")
ax.fill_between(v, mean - 1.96 * deviation, mean + 1.96 * deviation, color=BLUE, alpha=0.2, lw=0, label="95 % of the mean")
ax.set(title="Stopping distances", xlabel="speed, miles an hour", ylabel="feet", ylim=(-5, 130), xlim=(0, 27))
ax.legend(loc=(0.17, 0.73))
side.plot(left_out, "o-", color=BLUE, label="on the car left out")
side.plot(trained, "o-", color=GREEN, label="on the cars learned from")
side.plot(best, left_out[best], "o", ms=12, mfc="none", color=RED)
side.set(title="How many terms?", xlabel="degree", ylabel="root mean square error, feet", ylim=(13, 27))
side.legend(loc="upper center")
save(figure, "polynomial_regression")
