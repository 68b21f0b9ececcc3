"""A Gaussian process that learns how it should vary: the ten-year cycle of the Canadian lynx.

Lynx trapped each year in the Mackenzie River district, 1821 to 1934 (Elton and Nicholson, Journal of Animal Ecology 11, 1942). The
covariance of two years is a periodic function of their distance times a decay (Rasmussen and Williams, "Gaussian Processes for Machine
Learning", sections 4.2 and 5.4): period, shape, decay, amplitude, noise and mean are learned by maximising the evidence, whose gradient
goes through a Cholesky factorisation. The last twenty years are kept back, and forecast. Needs the extra: pip install
'functrace[examples]'.
"""

import numpy as np
from _picture import BLUE, GREY, RED, save
from matplotlib.figure import Figure
from scipy.optimize import minimize
from tqdm import tqdm

import functrace as ft

years = np.arange(1821.0, 1935.0)
trapped = np.array(
    """269 321 585 871 1475 2821 3928 5943 4950 2577 523 98 184 279 409 2285 2685 3409 1824 409 151 45 68 213 546 1033 2129 2536 957 361 377
    225 360 731 1638 2725 2871 2119 684 299 236 245 552 1623 3311 6721 4254 687 255 473 358 784 1594 1676 2251 1426 756 299 201 229 469
    736 2042 2811 4431 2511 389 73 39 49 59 188 377 1292 4031 3495 587 105 153 387 758 1307 3465 6991 6313 3794 1836 345 382 808 1388 2713
    3800 3091 2985 3790 674 81 80 108 229 399 1132 2432 3574 2935 1537 529 485 662 1000 1590 2657 3396""".split(),
    float,
)
known = years < 1915
y_all = np.log10(trapped)
x, y, x_new, y_new = years[known], y_all[known], years[~known], y_all[~known]


def kernel(p, a, b):
    """Covariance of the years a and b, alike when whole periods apart, less so the longer ago. Parameters are logarithms."""
    distance = np.abs(a[:, None] - b[None, :])
    wave = np.sin(np.pi * distance / np.exp(p["period"])) / np.exp(p["shape"])
    return np.exp(2 * p["amplitude"] - 2 * wave**2 - distance / np.exp(p["decay"]))


def evidence(p):
    """The log probability of what was observed, whatever the function: fit and simplicity in one number."""
    L = np.linalg.cholesky(kernel(p, x, x) + np.exp(2 * p["noise"]) * np.eye(len(x)))
    z = np.linalg.solve(L, y - p["mean"])
    return -0.5 * z @ z - np.sum(np.log(np.diag(L))) - 0.5 * len(x) * np.log(2 * np.pi)


def posterior(p, new):
    """Mean and standard deviation of new measurements."""
    K = kernel(p, x, x) + np.exp(2 * p["noise"]) * np.eye(len(x))
    across = kernel(p, x, new)
    mean = p["mean"] + across.T @ np.linalg.solve(K, y - p["mean"])
    variance = np.diag(kernel(p, new, new)) - np.sum(across * np.linalg.solve(K, across), axis=0) + np.exp(2 * p["noise"])
    return mean, np.sqrt(variance)


# the evidence may have several hills, so the climb is tried from several periods
best = None
cost = ft.jit(lambda p: -evidence(p))
for period in tqdm([7.0, 9.0, 11.0, 14.0], desc="climbing", unit=" starts"):
    p0 = {"period": np.log(period), "shape": 0.0, "decay": np.log(60.0), "amplitude": -0.5, "noise": -1.5, "mean": y.mean()}
    fun, x0, unravel = ft.scipy_objective(cost, p0)
    result = minimize(fun, x0, jac=True, method="L-BFGS-B")
    tqdm.write(f"from a period of {period:4.1f} years to {np.exp(unravel(result.x)['period']):5.2f}, evidence {-result.fun:.2f}")
    if best is None or result.fun < best.fun:
        best, p = result, unravel(result.x)
print(f"memory fades in {np.exp(p['decay']):.0f} years; what no cycle explains is {np.exp(p['noise']):.2f} powers of ten")

# the curvature of the evidence at its peak says how well the period is known
curvature = ft.hessian(lambda flat: -evidence(unravel(flat)))(best.x)
error = np.sqrt(unravel(np.diag(np.linalg.inv(curvature)))["period"])
low, high = np.exp(p["period"] + 1.96 * error * np.array([-1, 1]))
print(f"period: {np.exp(p['period']):.2f} years, 95 % interval {low:.2f} to {high:.2f}; Elton and Nicholson, from all districts: 9.6")
assert abs(np.exp(p["period"]) - 9.6) < 0.4

mean, deviation = posterior(p, x_new)
inside = np.abs(y_new - mean) < 1.96 * deviation
print(f"forecast of {len(x_new)} years: error {np.sqrt(np.mean((y_new - mean) ** 2)):.2f} powers of ten,")
print(f"  of the mean alone {np.sqrt(np.mean((y_new - y.mean()) ** 2)):.2f}; years inside the 95 % band: {inside.sum()}")

figure = Figure(figsize=(10, 4.5))
ax, side = figure.subplots(1, 2, width_ratios=[3, 1.2])
fine = np.linspace(1850, 1940, 600)
mean, deviation = posterior(p, fine)
ax.fill_between(fine, 10 ** (mean - 1.96 * deviation), 10 ** (mean + 1.96 * deviation), color=BLUE, alpha=0.15, lw=0, label="95 %")
ax.plot(fine, 10**mean, color=BLUE, label="Gaussian process")
ax.plot(x, 10**y, ".", color=GREY, ms=7, label="trapped, learned from")
ax.plot(x_new, 10**y_new, "o", color=RED, ms=4.5, label="trapped, kept back")
ax.axvline(1914.5, color=GREY, lw=1, ls="--")
ax.set(title="Lynx on the Mackenzie River: the last years forecast", yscale="log", xlim=(1850, 1940), ylim=(10, 200000), xlabel="year")
ax.set_ylabel("lynx trapped")
ax.legend(ncols=2, loc="upper left")

periods = np.linspace(5, 16, 221)
profile = ft.vmap(lambda log_period: evidence({**p, "period": log_period}))(np.log(periods))
side.plot(periods, profile, color=BLUE)
side.axvline(np.exp(p["period"]), color=RED, lw=1.2)
side.text(np.exp(p["period"]) + 0.3, profile.min(), f"{np.exp(p['period']):.2f} years", color=RED)
side.set(title="Evidence", xlabel="period in years", ylabel="log probability of 1821-1914")
save(figure, "gaussian_process")
