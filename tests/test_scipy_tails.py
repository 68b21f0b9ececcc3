"""functrace.scipy.stats far in the tails: the logarithm of a mass that no float holds, or that is what another lacks of 1."""

import numpy as np
import pytest
import scipy.special as sp
import scipy.stats as theirs

import functrace as ft

# The laws' closed forms and asymptotic series are the oracles: DLMF 7.12.1 and 8.11.2 for the normal and the gamma distribution.
upper = lambda a, z: -z + (a - 1) * np.log(z) + np.log1p((a - 1) / z + (a - 1) * (a - 2) / z**2) - sp.gammaln(a)
FAR = {
    "argus": ("logcdf", 1e-8, (1.4,), np.log(1.4**3 / np.sqrt(2 * np.pi) / 2 * np.exp(-0.98) * 2 / sp.gammainc(1.5, 0.98) * 1e-16)),
    "ncx2": ("logsf", 1000.0, (2.4, 1.3), theirs.ncx2.logsf(1000.0, 2.4, 1.3)),
    "gamma": ("logsf", 1000.0, (2.2,), upper(2.2, 1000.0)),
    "halfnorm": ("logsf", 100.0, (), np.log(2) + sp.log_ndtr(-100.0)),
    "hypsecant": ("logcdf", -1000.0, (), -1000 + np.log(2 / np.pi)),
    "laplace": ("logsf", 1000.0, (), -1000 - np.log(2)),
    "levy": ("logcdf", 1e-4, (), np.log(2) + sp.log_ndtr(-100.0)),
    "lognorm": ("logcdf", 1e-30, (0.9,), sp.log_ndtr(np.log(1e-30) / 0.9)),
    "moyal": ("logcdf", -10.0, (), np.log(2) + sp.log_ndtr(-np.exp(5.0))),
    "loggamma": ("logsf", 10.0, (1.4,), upper(1.4, np.exp(10.0))),
    "invgamma": ("logcdf", 1e-4, (2.2,), upper(2.2, 1e4)),
    "fatiguelife": ("logcdf", 1e-4, (1.3,), sp.log_ndtr((1e-2 - 1e2) / 1.3)),
    "genlogistic": ("logsf", 1000.0, (1.4,), -1000 + np.log(1.4)),
    "gennorm": ("logsf", 50.0, (2.0,), sp.log_ndtr(-50 * np.sqrt(2))),
    "powernorm": ("logcdf", -100.0, (1.4,), np.log(1.4) + sp.log_ndtr(-100.0)),
    "semicircular": ("logsf", 1 - 2.0**-30, (), np.log(4 * np.sqrt(2) / (3 * np.pi)) - 45 * np.log(2)),
    "triang": ("logcdf", 1e-300, (0.6,), 2 * np.log(1e-300) - np.log(0.6)),
    "poisson": ("logsf", 300, (1.7,), 301 * np.log(1.7) - 1.7 - sp.gammaln(302) + np.log1p(1.7 / 302)),
    "nbinom": ("logsf", 3000, (1.0, 0.4), 3001 * np.log(0.6)),
    "dlaplace": ("logcdf", -3000, (0.8,), -2400 - np.log1p(np.exp(-0.8))),
}


@pytest.mark.parametrize("name", FAR)
def test_far_tails_have_the_value_and_the_slopes_of_their_logarithm(stats, name):
    method, x, shapes, want = FAR[name]
    ours = stats.TABLE[f"scipy.stats.{name}.{method}"].function.__wrapped__  # a plain call goes to SciPy, which has -inf for most
    fixed, steps = (
        np.array([x, *shapes], float),
        np.array([0.5, 0.3, -0.7])[: 1 + len(shapes)] * (1e-3 if name != "semicircular" else 1e-11),
    )
    steps[0] *= not isinstance(x, int)
    f = lambda v: ours(*fixed * (1 + v))
    v = np.zeros(len(fixed))
    value, pushed = ft.jvp(f, (v,), (steps,))
    assert np.isclose(value, want, rtol=1e-7)
    nearby = [f(v + h * steps) for h in (-1e-2, 1e-2)] if name != "semicircular" else [want - 0.75 * 1e-11 * 2.0**30 * h for h in (-1, 1)]
    slope = (nearby[1] - nearby[0]) / (2e-2 if name != "semicircular" else 2)
    first = ft.grad(f)
    for got in (pushed, first(v) @ steps, ft.jit(first)(v) @ steps, ft.vmap(first)(np.stack([v, v]))[1] @ steps):
        assert np.isclose(got, slope, rtol=1e-4)
    if name != "semicircular":
        twice = (first(v + 1e-2 * steps) - first(v - 1e-2 * steps)) @ steps / 2e-2
        assert np.isclose(steps @ ft.hessian(f)(v) @ steps, twice, rtol=1e-3, atol=1e-9 * abs(slope))


def test_finite_logarithms_have_finite_slopes_in_every_tail(stats):
    from functrace.scipy._stats_laws import LAWS
    from functrace.scipy._stats_rarer import MORE

    failed, count = [], 0
    for name, law in {**LAWS, **MORE}.items():
        ends = [float(end) for end in (law.support(*law.at[1:]) if callable(law.support) else law.support)]
        points = [ends[0] + d for d in (1e-12, 1e-3)] if np.isfinite(ends[0]) else [-1e3, -30.0]
        points += [ends[1] - d for d in (1e-9, 1e-3)] if np.isfinite(ends[1]) else [30.0, 1e3]
        for method in ("logcdf", "logsf"):
            ours = stats.TABLE.get(f"scipy.stats.{name}.{method}")
            for x in points if ours is not None else []:
                wrt = tuple(range(len(law.at)))
                with np.errstate(all="ignore"):
                    value, slopes = ft.value_and_grad(ours.function, wrt)(x, *map(float, law.at[1:]))
                    density = getattr(theirs, name).logpdf(x, *law.at[1:])
                sign = 1 if method == "logcdf" else -1
                right = density < -600 or np.isclose(slopes[0], sign * np.exp(density - value), rtol=1e-3)
                if np.isfinite(value) and not (np.isfinite(slopes).all() and right and value <= 0):
                    failed.append((name, method, x, value, slopes))
                count += np.isfinite(value)
    assert not failed, failed
    assert count > 600


def test_large_arrays_compute_only_the_tails_that_need_it(stats):
    x = np.linspace(-60, 60, 10_001)
    total = lambda a, x: np.sum(stats.skewnorm.logcdf(x, a))
    parts = [ft.grad(total)(1.4, part) for part in np.array_split(x, 10)]
    assert np.isclose(ft.grad(total)(1.4, x), sum(parts), rtol=1e-12)
    assert np.allclose(ft.grad(total, 1)(1.4, x)[:1000], ft.grad(total, 1)(1.4, x[:1000]), rtol=1e-12)
    assert np.allclose(ft.vmap(ft.grad(lambda z: stats.gamma.logsf(z, 2.2)))(np.array([1.0, 1000.0]))[1], -0.99880119904)


def test_ends_of_the_support(stats):
    from functrace.scipy._stats_laws import LAWS
    from functrace.scipy._stats_rarer import MORE

    failed, count = [], 0
    for name, law in {**LAWS, **MORE}.items():
        shapes, own = tuple(map(float, law.at[1:])), getattr(theirs, name, None)
        for end in (float(end) for end in (law.support(*shapes) if callable(law.support) else law.support)):
            for method in ("pdf", "logpdf", "cdf", "sf", "logcdf", "logsf") if np.isfinite(end) else ():
                ours = stats.TABLE.get(f"scipy.stats.{name}.{method}")
                if ours is None or name == "cosine" and "pdf" in method:  # cos(pi / 2) is not 0, where SciPy has 0
                    continue
                with np.errstate(all="ignore"):
                    value, slopes = ft.value_and_grad(ours.function, tuple(range(len(law.at))))(end, *shapes)
                    want = getattr(own, method)(end, *shapes)
                if not np.isclose(value, want, rtol=1e-9, atol=1e-15) or np.isfinite(value) and np.isnan(slopes).any():
                    failed.append((name, method, end, value, want, slopes))
                count += 1
    assert not failed, failed
    assert count > 300


@pytest.mark.parametrize("x", [-1e4, 1e4])
@pytest.mark.parametrize(
    "name", ["gumbel_r", "gumbel_l", "gompertz", "exponpow", "loggamma", "moyal", "hypsecant", "weibull_min", "genextreme"]
)
def test_probabilities_that_are_0_or_1_have_slope_zero(stats, name, x):
    for method in ("pdf", "cdf", "sf"):
        f, shapes = (
            stats.TABLE[f"scipy.stats.{name}.{method}"].function,
            [0.0] if name == "genextreme" else [1.4] * (name in ("gompertz", "exponpow", "loggamma", "weibull_min")),
        )
        with np.errstate(over="ignore"):
            value, slopes = ft.value_and_grad(f, tuple(range(1 + len(shapes))))(x, *shapes)
        assert value in (0, 1)
        assert not np.any(slopes)


@pytest.mark.parametrize("b", [0.7, 1.0, 1.8, 2.0])
def test_the_middle_of_a_generalised_normal_distribution(stats, b):
    density = b / (2 * sp.gamma(1 / b))
    assert np.allclose(ft.grad(stats.gennorm.cdf, (0, 1))(0.0, b), [density, 0])
    assert np.allclose(ft.grad(stats.gennorm.sf, (0, 1))(0.0, b), [-density, 0])


@pytest.mark.parametrize(
    "name, x, shapes",
    [
        ("ncx2", 5000.0, (10.0, 4900.0)),
        ("rice", 40.0, (40.0,)),
        ("ncf", 600.0, (4.0, 6.0, 3000.0)),
        ("nct", 60.0, (50.0, 60.0)),
        ("nct", -3.0, (5.0, 6.0)),
        ("nct", 2.0, (5.0, -10.0)),
    ],
)
def test_far_from_the_centre_the_slope_is_the_density(stats, name, x, shapes):
    density = getattr(theirs, name).pdf(x, *shapes)
    if name == "ncf":
        got = ft.grad(lambda x: sp.ncfdtr(*shapes, x))(x)
    else:
        got = ft.grad(getattr(stats, name).cdf)(x, *shapes)
        assert np.isclose(ft.vjp(getattr(stats, name).pdf, x, *shapes)[0], density, rtol=1e-10)
    assert np.isclose(got, density, rtol=1e-10)
    if name == "nct":  # and its other slopes: the density integrates to the distribution function
        nc = lambda nc: stats.nct.cdf(x, shapes[0], nc)
        second = ft.grad(lambda nc: ft.grad(stats.nct.cdf)(x, shapes[0], nc))(shapes[1])
        assert np.isclose(second, ft.grad(lambda x: ft.grad(lambda c: stats.nct.cdf(x, shapes[0], c))(shapes[1]))(x), rtol=1e-9)
        assert np.isfinite(ft.grad(nc)(shapes[1]))
