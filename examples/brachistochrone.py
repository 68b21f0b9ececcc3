"""The curve of quickest descent, found by Newton's method on a chain of straight segments.

A bead slides from rest at (0, 0) down to a given point; which curve takes the least time? (Johann Bernoulli, Acta Eruditorum, 1696; the
answer, a cycloid, also by Newton, in one night.) The curve is a vector of depths, its time of descent a sum over segments, and the rest
is `grad` and `hessian`. Friction by the bead's weight changes one line of the physics and nothing else; Euler's equation has an answer in
closed form then too, a fall straight down and a cousin of the cycloid. Needs the extra: pip install 'functrace[examples]'.
"""

import numpy as np
from _picture import save
from matplotlib import pyplot as plt
from scipy.optimize import fsolve, minimize

import functrace as ft

GRAVITY, WIDTH, DEPTH, SEGMENTS = 9.81, 2.0, 1.0, 60


def places(n):
    """Horizontal positions, closer together where the curve is steep."""
    return WIDTH * np.linspace(0, 1, n + 1) ** 2


def descent(inner, friction=0.0):
    """The time along the chain of points; on a straight segment the mean speed is that of its ends. Depths count downwards."""
    x = places(len(inner) + 1)
    y = np.concatenate([[0.0], inner, [DEPTH]])
    speed = np.sqrt(2 * GRAVITY * (y - friction * x)[1:])  # the energy that is left; the bead starts at rest
    speed = np.concatenate([[0.0], speed])
    length = np.hypot(np.diff(x), np.diff(y))
    return np.sum(2 * length / (speed[:-1] + speed[1:]))


def quickest(n, friction=0.0):
    """The inner depths that minimise the time of descent: SciPy's Newton method, with the true Hessian, from a straight line."""
    line = DEPTH / WIDTH * places(n)[1:-1]
    options = {"gtol": 1e-10}
    return minimize(descent, line, (friction,), method="trust-exact", jac=ft.grad(descent), hess=ft.hessian(descent), options=options)


def cycloid(angle, scale, friction=0.0):
    """Where the best bead is when the wheel that draws its curve has turned by an angle; it falls straight down at first."""
    x = scale * (angle - np.sin(angle) + friction * (1 - np.cos(angle)))
    y = scale * (1 - np.cos(angle) + friction * (angle + np.sin(angle)) + 2 * friction**2)
    return np.stack([x, y])


def answer(friction=0.0):
    """The angle and scale with which it goes through the last point, and its time of descent."""
    end = np.array([WIDTH, DEPTH])
    miss = lambda p: cycloid(*p, friction) - end
    angle, scale = fsolve(miss, [3.0, 0.5], fprime=ft.jacobian(miss), xtol=1e-13)
    return angle, scale, np.sqrt(scale / GRAVITY) * (angle + 2 * friction)


line = DEPTH / WIDTH * places(SEGMENTS)[1:-1]
parabola = DEPTH * np.sqrt(places(SEGMENTS)[1:-1] / WIDTH)
print(f"time of descent along a straight line: {descent(line):.5f} s, along a parabola: {descent(parabola):.5f} s")
found = {}
for friction in (0.0, 0.2):
    best = found[friction] = quickest(SEGMENTS, friction)
    angle, scale, exact = answer(friction)
    print(f"friction {friction}: {best.fun:.5f} s after {best.nit} Newton steps; the cycloid takes {exact:.5f} s")
    assert abs(best.fun / exact - 1) < 2e-3
lowest = np.linalg.eigvalsh(ft.hessian(descent)(found[0.0].x))[0]
print(f"it is a minimum: the least eigenvalue of the Hessian there is {lowest:.3f}")

# At the optimum the curve may stay as it is, to first order: the slope of the least time in the friction is a partial derivative.
slope = ft.grad(descent, argnums=1)(found[0.0].x, 0.0)
print(f"a little friction costs {slope:.4f} s per unit; by the cycloid's formula {(answer(1e-4)[2] - answer()[2]) / 1e-4:.4f} s")

sizes = np.array([5, 10, 20, 40, 80])
errors = np.array([quickest(n).fun for n in sizes]) - answer()[2]
print(f"twice the segments, an error divided by {np.round(errors[:-1] / errors[1:], 1)}")

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), width_ratios=[2, 1])
x = places(SEGMENTS)
for (label, inner, friction), colour in zip(
    [("straight line", line, 0.0), ("parabola", parabola, 0.0), ("found", found[0.0].x, 0.0), ("found, friction 0.2", found[0.2].x, 0.2)],
    ["0.6", "C2", "C0", "C1"],
):
    y = np.concatenate([[0.0], inner, [DEPTH]])
    left.plot(x, -y, color=colour, label=f"{label}: {descent(inner, friction):.3f} s")
    if label.startswith("found"):
        angle, scale, _ = answer(friction)
        exact = cycloid(np.linspace(0, angle, 12), scale, friction)
        left.plot(exact[0], -exact[1], "k.", label="exact, at equal times" if friction else None)
left.set(xlabel="x, m", ylabel="height, m", title="Curves of descent, and the time they take", aspect="equal")
left.legend()
right.loglog(sizes, errors, "o-", label="time found $-$ exact time")
right.loglog(sizes, errors[0] * (sizes[0] / sizes) ** 2, "k:", label="slope $-2$")
right.set_xticks(sizes, labels=sizes, minor=False)
right.minorticks_off()
right.set(xlabel="segments", ylabel="seconds", title="Error of the chain")
right.legend()
save(figure, "brachistochrone")
