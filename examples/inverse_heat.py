"""An inverse heat problem: how much heat went in at the front, if only the back was measured?

A steel plate is heated at one face by a flux q(t) that nobody saw; a thermometer at the insulated other face, noisy, is all there is (Beck,
Blackwell and St. Clair, "Inverse heat conduction: ill-posed problems", 1985). Conductivity grows with temperature, so the problem is
not linear, and heat spreads, so it is ill-posed: the flux is penalised for being rough, just so much that the misfit equals the noise
(Morozov's discrepancy principle). The simulation is a `scan` under `jit`; its Jacobian in 120 unknowns is one batched replay by `jacfwd`,
which costs about six simulations, and gives the steps of Gauss and Newton's method and the error bars.
Needs the extra: pip install 'functrace[examples]'.
"""

import numpy as np
from _picture import save
from matplotlib import pyplot as plt
from scipy.optimize import brentq
from tqdm import tqdm

import functrace as ft

THICKNESS, CELLS, DURATION, INTERVALS, SUBSTEPS, NOISE = 0.008, 8, 60.0, 120, 6, 0.5
HEAT_CAPACITY = 3.6e6  # J / (m^3 K)
dx, dt = THICKNESS / CELLS, DURATION / (INTERVALS * SUBSTEPS)
times = np.linspace(0, DURATION, INTERVALS + 1)
middles = (times[1:] + times[:-1]) / 2


def conductivity(temperature):
    """W / (m K), temperature in K above the start."""
    return 15.0 * (1 + 1e-3 * temperature)


def step(temperature, flux):
    """One interval in small explicit steps; flux comes in at the front, in units of 100 kW / m^2."""
    for _ in range(SUBSTEPS):
        k = conductivity((temperature[1:] + temperature[:-1]) / 2)
        inner = k * (temperature[:-1] - temperature[1:]) / dx
        flow = np.concatenate([[1e5 * flux], inner, [0.0]])
        temperature = temperature + dt / (HEAT_CAPACITY * dx) * (flow[:-1] - flow[1:])
    return temperature, temperature


@ft.jit
def simulate(flux):
    """Temperatures after each interval, (INTERVALS, CELLS)."""
    return ft.scan(step, np.zeros(CELLS), flux)[1]


def misfit(flux, data):
    """What the thermometer at the back should have shown and did, in units of the noise."""
    return (simulate(flux)[:, -1] - data) / NOISE


def roughness(flux):
    """Second differences: 0 for a flux that grows steadily."""
    return flux[2:] - 2 * flux[1:-1] + flux[:-2]


@ft.jit
def residuals(flux, smoothing, data):
    return np.concatenate([misfit(flux, data), smoothing * roughness(flux)])


jacobian = ft.jit(ft.jacfwd(residuals))


def recover(smoothing, data):
    """The flux that makes misfit and roughness small together, by Gauss and Newton's method."""
    flux = np.ones(INTERVALS)
    for _ in range(20):
        change = np.linalg.lstsq(jacobian(flux, smoothing, data), residuals(flux, smoothing, data))[0]
        flux = flux - change
        bar.update()
        if np.abs(change).max() < 1e-4:
            break
    return flux


truth = np.clip(np.minimum((middles - 5) / 12, (35 - middles) / 18), 0, None) + 0.4 * ((middles > 42) & (middles < 50))
field = simulate(truth)
stored, given = HEAT_CAPACITY * dx * field[-1].sum(), 1e5 * truth.sum() * DURATION / INTERVALS
print(f"heat given {given / 1e6:.4f} MJ/m^2, heat stored {stored / 1e6:.4f}; at the back {field[-1, -1]:.0f} K warmer in the end")
data = field[:, -1] + np.random.default_rng(0).normal(scale=NOISE, size=INTERVALS)

excess = lambda log_smoothing: np.mean(misfit(recover(np.exp(log_smoothing), data), data) ** 2) - 1
with tqdm(desc="solving", unit=" steps") as bar:
    rough = recover(0.3, data)
    smoothing = np.exp(brentq(excess, np.log(1.0), np.log(1e4), xtol=0.05))
    flux = recover(smoothing, data)
rms = lambda x: np.sqrt(np.mean(x**2))
print(f"hardly smoothed: misfit {rms(misfit(rough, data)):.2f} of the noise, but wrong by {rms(rough - truth):.2f}, in 100 kW/m^2")
print(f"smoothed by {smoothing:.0f}: misfit {rms(misfit(flux, data)):.2f} of the noise, wrong by {rms(flux - truth):.3f}")
print(f"heat recovered: {1e5 * flux.sum() * DURATION / INTERVALS / 1e6:.4f} MJ/m^2")

# The penalty as a prior, and the problem as linear about its solution: the flux is normal, with this covariance.
J = jacobian(flux, smoothing, data)
deviation = np.sqrt(np.diag(np.linalg.inv(J.T @ J)))
inside = np.mean(np.abs(flux - truth) < 2 * deviation)
print(f"the true flux is within two standard deviations for {inside:.0%} of the time:")
print("they tell what the noise does, not that the penalty rounds corners off")
assert rms(flux - truth) < 0.12 and rms(rough - truth) > 5 * rms(flux - truth) and abs(stored / given - 1) < 1e-9

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), width_ratios=[1.2, 1])
left.plot(middles, rough, color="0.8", lw=1, label="hardly smoothed", zorder=1)
left.plot(middles, truth, "k--", lw=1.2, label="truth")
left.plot(middles, flux, label="recovered")
left.fill_between(middles, flux - 2 * deviation, flux + 2 * deviation, alpha=0.25, lw=0, label="two standard deviations")
left.set(ylim=(-0.7, 2.3), xlabel="time, s", ylabel="flux, 100 kW/m$^2$", title="Heat that went in at the front")
left.legend(ncols=2, loc="upper center")
drawn = right.pcolormesh(times, 1e3 * np.linspace(0, THICKNESS, CELLS + 1), simulate(flux).T, cmap="inferno")
figure.colorbar(drawn, label="K above the start")
right.set(xlabel="time, s", ylabel="depth, mm", title="Temperature that follows")
right.text(1, 7.5, "thermometer", color="white", va="center")
right.invert_yaxis()
right.grid(False)
save(figure, "inverse_heat")
