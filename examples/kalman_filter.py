"""The level of the Nile: a Kalman filter whose likelihood is differentiated, and a smoother that is one gradient.

Yearly flow at Aswan, 1871 to 1970, in 10^8 m^3 (Cobb, Biometrika 65, 1978), under the local level model of Durbin and Koopman, "Time
Series Analysis by State Space Methods", chapter 2: the level is a random walk, and what is measured is the level plus noise. The filter
is a `scan` along the years; its log likelihood, maximised by Newton's method with the exact gradient and Hessian, gives the two variances
of the book. The smoothed level, given all years, needs no second recursion: by Tweedie's formula it is y + variance * d log p / dy.
Needs the extra: pip install 'functrace[examples]'.
"""

import numpy as np
from _picture import BLUE, GREY, RED, save
from matplotlib.figure import Figure
from scipy.optimize import minimize

import functrace as ft

years = np.arange(1871, 1971)
flow = np.array(
    """1120 1160 963 1210 1160 1160 813 1230 1370 1140 995 935 1110 994 1020 960 1180 799 958 1140 1100 1210 1150 1250 1260 1220 1030
    1100 774 840 874 694 940 833 701 916 692 1020 1050 969 831 726 456 824 702 1120 1100 832 764 821 768 845 864 862 698 845 744 796 1040
    759 781 865 845 944 984 897 822 1010 771 676 649 846 812 742 801 1040 860 874 848 890 744 749 838 1050 918 986 797 923 975 815 1020
    906 901 1170 912 746 919 718 714 740""".split(),
    float,
)


def filtered(log_variances, y):
    """Log likelihood of all years but the first, and the level's mean and variance given the years so far."""
    noise, walk = np.exp(log_variances)

    def year(level, y):
        mean, variance = level
        variance = variance + walk
        error, total = y - mean, variance + noise
        gain = variance / total
        level = mean + gain * error, gain * noise
        return level, (-0.5 * (np.log(2 * np.pi * total) + error**2 / total), *level)

    _, (log_likelihood, mean, variance) = ft.scan(year, (y[0], noise), y[1:])  # nothing is known before the first year
    return np.sum(log_likelihood), mean, variance


def cost(log_variances, y=flow):
    return -filtered(log_variances, y)[0]


# the two variances, found on a logarithmic scale
start = np.log([flow.var(), flow.var()])
both, hessian = ft.jit(ft.value_and_grad(cost)), ft.jit(ft.hessian(cost))
result = minimize(both, start, jac=True, hess=hessian, method="trust-exact", options={"gtol": 1e-9})
noise, walk = np.exp(result.x)
print(f"log likelihood at the start: {-cost(start):.2f}, after {result.nit} Newton steps: {-result.fun:.2f}")
print(f"variance of the noise: {noise:.1f}, variance of the walk: {walk:.1f}; the book has 15099 and 1469.1")
assert np.allclose([noise, walk], [15099, 1469.1], rtol=1e-4)

# the inverse of the Hessian is the covariance of the estimates, for many years
error = np.sqrt(np.diag(np.linalg.inv(hessian(result.x))))
for name, estimate, e in zip(("noise", "walk"), result.x, error):
    print(f"95 % interval for the {name}: {np.exp(estimate - 1.96 * e):.0f} to {np.exp(estimate + 1.96 * e):.0f}")

# the smoother: gradient and Hessian of the likelihood in the measurements
log_likelihood = lambda y: filtered(result.x, y)[0]
smooth = flow + noise * ft.grad(log_likelihood)(flow)
spread = np.sqrt(noise + noise**2 * np.diag(ft.hessian(log_likelihood)(flow)))

# the same from a linear system: the precision matrix of the levels, given the flow
D = np.diff(np.eye(100), axis=0)
precision = np.eye(100) / noise + D.T @ D / walk
wanted = np.linalg.solve(precision, flow / noise)
assert np.allclose(smooth, wanted) and np.allclose(spread**2, np.diag(np.linalg.inv(precision)))
print(
    f"smoothed level: {smooth[0]:.0f} in 1871, {smooth[-1]:.0f} in 1970, in 10^8 m^3 a year; "
    f"by linear algebra the same to {np.abs(smooth - wanted).max():.0e}"
)
drop = np.diff(smooth).argmin()
print(f"steepest fall of the smoothed level: from {years[drop]} to {years[drop + 1]}; Cobb's change point is 1898")

figure = Figure()
ax = figure.subplots()
ax.plot(years, flow, ".", color=GREY, ms=6, label="measured flow")
ax.plot(years[1:], filtered(result.x, flow)[1], color=RED, lw=1.2, label="filtered: given the years so far")
ax.plot(years, smooth, color=BLUE, label="smoothed: given all years, one gradient")
ax.fill_between(
    years, smooth - 1.96 * spread, smooth + 1.96 * spread, color=BLUE, alpha=0.15, lw=0, label="95 % of the level, from the Hessian"
)
ax.set(title="The level of the Nile at Aswan", xlabel="year", ylabel="yearly flow, $10^8$ m$^3$", ylim=(400, 1600))
ax.legend(ncols=2, loc="upper right")
save(figure, "kalman_filter")
