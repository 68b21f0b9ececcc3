"""Swinging a pendulum up with the least effort, solved in the two classical ways; both differentiate through the solver.

A torque u(t) is to bring a hanging pendulum to rest upside down in four seconds, with the least integral of u^2 / 2. Directly: the
torque at some times is a vector, the motion a `scan` of Runge-Kutta steps under `jit`, and SciPy's SLSQP minimises. Indirectly:
Pontryagin's principle ("The mathematical theory of optimal processes", 1962) gives each state a costate; `grad` of the Hamiltonian is the
right-hand side of Hamilton's equations, and the Jacobian through `solve_ivp` finds the costate's start by Newton's method. Both find the
same torque. Needs the extra: pip install 'functrace[examples]'.
"""

import numpy as np
from _picture import save
from matplotlib import pyplot as plt
from scipy.optimize import minimize
from tqdm import tqdm

import functrace as ft
from functrace.scipy.integrate import solve_ivp

GRAVITY, FRICTION, DURATION, KNOTS = 9.81, 0.1, 4.0, 41
HANGING, UPRIGHT = np.array([0.0, 0.0]), np.array([np.pi, 0.0])
knots = np.linspace(0, DURATION, KNOTS)


def acceleration(angle, speed, torque):
    """Of a rod of 1 m with a mass of 1 kg at its end; angle 0 hangs."""
    return -GRAVITY * np.sin(angle) - FRICTION * speed + torque


# Directly: torques at the knots, and straight lines between them.
def field(state, torque):
    angle, speed, _ = state
    return np.stack([speed, acceleration(angle, speed, torque), torque**2 / 2])


def step(state, torques):
    """Runge and Kutta's classical step between two knots."""
    (first, last), h = torques, knots[1]
    k1 = field(state, first)
    k2 = field(state + h / 2 * k1, (first + last) / 2)
    k3 = field(state + h / 2 * k2, (first + last) / 2)
    k4 = field(state + h * k3, last)
    return state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None


@ft.jit
def end(torques, start=HANGING):
    """Angle, speed and effort at the end."""
    return ft.scan(step, np.append(start, 0.0), (torques[:-1], torques[1:]))[0]


jacobian = ft.jit(ft.jacrev(end))
with tqdm(desc="swinging up", unit=" iterations") as bar:
    direct = minimize(
        lambda u: end(u)[2],
        2.0 * np.sin(np.sqrt(GRAVITY) * knots),
        jac=lambda u: jacobian(u)[2],
        constraints={"type": "eq", "fun": lambda u: end(u)[:2] - UPRIGHT, "jac": lambda u: jacobian(u)[:2]},
        method="SLSQP",
        callback=lambda _: bar.update(),
        options={"maxiter": 400, "ftol": 1e-8},
    )
torques = direct.x
print(f"directly: effort {direct.fun:.4f} after {direct.nit} iterations, misses by {np.abs(end(torques)[:2] - UPRIGHT).max():.0e}")


# Indirectly: x' = dH/dp, p' = -dH/dx, where the best torque -p_speed minimises H.
def hamiltonian(x, p):
    torque = -p[1]
    return torque**2 / 2 + p[0] * x[1] + p[1] * acceleration(x[0], x[1], torque)


@ft.jit
def hamilton(t, state):
    dx, dp = ft.grad(hamiltonian, (0, 1))(state[:2], state[2:])
    return np.concatenate([dp, -dx])


def extremal(costate, t_eval=None):
    """State and costate, (4, times), from the costate at the start."""
    start = np.concatenate([HANGING, costate])
    return solve_ivp(hamilton, (0.0, DURATION), start, "DOP853", t_eval, rtol=1e-9, atol=1e-11).y


miss = lambda costate: extremal(costate)[:2, -1] - UPRIGHT
J = jacobian(torques)
multipliers = np.append(np.linalg.lstsq(J[:2].T, -J[2])[0], 1.0)  # the Lagrangian multipliers @ end has gradient 0 in the torques
costate = ft.grad(lambda start: multipliers @ end(torques, start))(HANGING)  # how the least effort would change with the start
newton = 0
while np.abs(miss(costate)).max() > 1e-8 and newton < 10:
    costate = costate - np.linalg.solve(ft.jacrev(miss)(costate), miss(costate))
    newton += 1
times = np.linspace(0, DURATION, 161)
x = extremal(costate, times)
best = -x[3]
effort = np.trapezoid(best**2 / 2, times)
energy = np.array([hamiltonian(s[:2], s[2:]) for s in x.T])
print(f"by Pontryagin's principle: effort {effort:.4f}, misses by {np.abs(miss(costate)).max():.0e} after {newton} Newton steps")
print(f"the Hamiltonian is constant along the way: {energy.min():.6f} to {energy.max():.6f}")
apart = np.abs(np.interp(knots, times, best) - torques).max()
print(f"the torques differ by at most {apart:.3f}; the largest is {np.abs(best).max():.2f} N m, of {GRAVITY} to hold it level")
assert newton < 10 and np.ptp(energy) < 1e-6 and abs(direct.fun / effort - 1) < 0.01

figure, panels = plt.subplot_mosaic([["swing", "torque"], ["swing", "phase"]], figsize=(10.5, 5.4), width_ratios=[1, 1.3])
angle, speed = x[:2]
ax = panels["swing"]
colours = plt.cm.viridis(times / DURATION)
for k in range(0, len(times), 4):
    ax.plot([0, np.sin(angle[k])], [0, -np.cos(angle[k])], color=colours[k], lw=1, marker="o", markevery=[1], ms=7)
ax.set(aspect="equal", xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), xlabel="m", ylabel="m", title="Every 0.1 s, dark to bright")
panels["torque"].plot(times, best, label="Pontryagin")
panels["torque"].plot(knots, torques, "o", ms=4, label="direct")
panels["torque"].set(xlabel="time, s", ylabel="torque, N m", title="The torque of least effort")
panels["torque"].legend()
a, s = np.meshgrid(np.linspace(-2.2, 3.6, 200), np.linspace(-7, 7, 200))
panels["phase"].contour(a, s, s**2 / 2 - GRAVITY * np.cos(a), levels=12, colors="0.8", linewidths=0.8, linestyles="solid")
panels["phase"].plot(angle, speed, color="C0")
panels["phase"].plot(*HANGING, "ko", *UPRIGHT, "k^")
panels["phase"].set(xlabel="angle, rad", ylabel="speed, rad/s", title="Across the levels of energy, from hanging to upright")
save(figure, "pendulum_control")
