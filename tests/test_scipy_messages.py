"""What SciPy refuses is refused of traced values too; and the rarer options give what they give, and their derivatives."""

import warnings

import numpy as np
import pytest
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.spatial.distance
import scipy.stats
from test_messages import M, V, expressions

import functrace as ft
import functrace.scipy.fft
import functrace.scipy.integrate
import functrace.scipy.interpolate
import functrace.scipy.linalg
import functrace.scipy.ndimage
import functrace.scipy.optimize
import functrace.scipy.signal
import functrace.scipy.spatial.distance
import functrace.scipy.stats

SCIPY_REFUSES = expressions("""
interpolate.CubicSpline(m[0], x)(0.5)
interpolate.CubicSpline(-m[0], m[1])(0.5)
interpolate.PchipInterpolator(-m[0], m[1])(0.5)
interpolate.make_interp_spline(np.arange(4.0), x, k=5)(0.5)
interpolate.interp1d(np.arange(4.0), x)(9.0)
interpolate.interp1d(np.arange(4.0), x, fill_value=0.5)(9.0)
signal.convolve(m, m, mode="most")
signal.convolve(m, m[:, :1] @ np.ones((1, 1)), mode="most")
signal.convolve(np.ones((2, 1)) * x[0], np.ones((1, 2)), mode="valid")
interpolate.PPoly(m, np.array([0.0, 1.0, 3.0, 2.0]))(0.5)
interpolate.PPoly(m, np.arange(3.0))(0.5)
interpolate.BSpline(np.array([0.0, 0, 0, 2, 1, 3, 3, 3]), np.append(x, 1.0), 2)(0.5)
interpolate.BarycentricInterpolator(np.arange(3.0), x)(0.5)
interpolate.CubicSpline(np.arange(4.0), x, bc_type="flat")(0.5)
stats.ttest_1samp(m, m[:1, :2], axis=1)
stats.kstat(x, 5)
stats.power_divergence(m[0], lambda_="poisson")
stats.wasserstein_distance(x, m[0], [1.0, -1.0, 2.0, 1.0])
stats.energy_distance(x, m[0], [1.0, 1.0, 2.0, 1.0, 3.0])
ndimage.map_coordinates(m, np.ones((3, 2)))
signal.convolve(m, x)
signal.lfilter(np.ones((2, 2)), [1.0], x)
signal.filtfilt([1.0, 0.5], [1.0], x[:1])
signal.savgol_filter(x, 9, 2)
signal.savgol_filter(x, 3, 5)
ndimage.spline_filter(m, order=9)
ndimage.gaussian_filter(m, [1.0, 2.0, 3.0])
ndimage.convolve(m, x)
ndimage.shift(m, [1.0, 2.0, 3.0])
integrate.trapezoid(m, x=np.ones((2, 2)))
integrate.trapezoid(x, x=np.ones(3))
integrate.simpson(x, x=np.ones(3))
integrate.cumulative_trapezoid(x, x=np.ones(3))
integrate.cumulative_trapezoid(x[0])
integrate.solve_ivp(lambda t, y: y, (0.0, 1.0), m).y
integrate.romb(x)
stats.multivariate_normal.logpdf(x, x, np.ones((4, 4)))
stats.dirichlet.logpdf(np.abs(x), np.ones(3))
stats.zscore(x, axis=4)
stats.pearsonr(x, m[0])
stats.linregress(x, x[:2])
fft.dct(x, n=-2)
fft.dstn(m, s=-2)
linalg.solve_circulant(x, x[:2])
linalg.solve_circulant(x * 0 + 1, x)
interpolate.interp1d(np.arange(4.0), x, "most")(1.2)
interpolate.griddata(np.arange(4.0), x, 1.2, "most")
interpolate.CubicSpline(np.arange(4.0), x, bc_type="periodic")(0.5)
interpolate.Akima1DInterpolator(np.arange(4.0), x, method="most")(0.5)
interpolate.BarycentricInterpolator(np.zeros(4), x)(0.5)
interpolate.RegularGridInterpolator((np.arange(4.0),), x)([[1.2]], method="most")
interpolate.RegularGridInterpolator((np.array([0.0, 2.0, 1.0, 3.0]),), x)([[0.5]])
interpolate.RegularGridInterpolator((np.arange(4.0),), x)([[np.nan]])
interpolate.RBFInterpolator(np.arange(4.0)[:, None], x, kernel="gaussian")([[0.5]])
interpolate.RBFInterpolator(np.arange(4.0)[:, None], x, kernel="most")([[0.5]])
signal.lfilter([1.0], [0.0, 1.0], x)
signal.sosfilt([[1.0, 2.0, 3.0, 2.0, 0.1, 0.2]], x)
signal.sosfiltfilt([[1.0, 2.0, 3.0, 1.0, 0.1]], np.concatenate([x] * 5))
signal.order_filter(x, np.ones(2), 0)
integrate.solve_ivp(lambda t, y: -y, (0.0, 1.0), x, t_eval=[0.5, 2.0]).y
integrate.solve_ivp(lambda t, y: -y, (0.0, 1.0), x, t_eval=[0.5, 0.2]).y
integrate.solve_ivp(lambda t, y: -y, (0.0, 1.0), x, max_step=-1.0).y
integrate.solve_ivp(lambda t, y: -y, (0.0, 1.0), x, first_step=2.0).y
integrate.fixed_quad(lambda t: t * x[0], 0.0, np.inf)
spatial.distance.squareform(m)
signal.convolve2d(m[None], m[None])
signal.correlate2d(x, x)
signal.medfilt2d(m[None])
signal.deconvolve(m, [1.0, 2.0, 3.0])
stats.dirichlet.logpdf(np.ones(3) / 3, np.exp(m[:1]))
stats.dirichlet.logpdf(np.ones(2) / 2, np.exp(m[0, :1]))
stats.dirichlet.mean(np.exp(m))
stats.dirichlet.entropy(np.exp(m))
spatial.distance.euclidean(x, x[::-1], w=[1.0, -1.0, 2.0, 1.0])
spatial.distance.cdist(m, m, "sqeuclidean", w=[1.0, -1.0, 2.0])
spatial.distance.cosine(x, x[::-1], w=-np.ones(4))
spatial.distance.pdist(np.stack([x, x[::-1], x**2]), "mahalanobis")
linalg.solve(m @ m.T, x[:2], assume_a="most")
signal.convolve2d(m, m, boundary="most")
ndimage.gaussian_filter(m, 1.0, mode="most")
ndimage.median_filter(m, 3, mode="most")
fft.hfftn(m, norm="most")
""")
MODULES = {
    name: getattr(scipy, name)
    for name in ("fft", "linalg", "interpolate", "optimize", "signal", "ndimage", "integrate", "stats", "spatial")
}
TRACED = {name: getattr(functrace.scipy, name) for name in MODULES}


@pytest.mark.parametrize("text", SCIPY_REFUSES)
def test_what_scipy_refuses_is_refused(text):
    code = compile(text, text, "eval")
    with pytest.raises(Exception):  # noqa: B017 (of whichever class this version of SciPy has)
        eval(code, {"np": np, "x": V, "m": M, **MODULES})

    def traced(x, m):
        return eval(code, {"np": np, "x": x, "m": m, **TRACED})

    with pytest.raises((ValueError, TypeError, IndexError, ArithmeticError, RuntimeError)) as found:
        ft.vjp(traced, V, M)
    assert str(found.value)


SCIPY_GIVES = expressions("""
interpolate.CubicHermiteSpline(np.arange(4.0), x, x[::-1])(np.array([0.3, 2.5]))
interpolate.CubicHermiteSpline(np.arange(4.0), x, x[::-1]).derivative()(1.5)
interpolate.CubicSpline(np.arange(4.0), x).antiderivative(2)(2.2)
interpolate.CubicSpline(np.arange(4.0), x).derivative(-1)(2.2)
interpolate.CubicSpline(np.arange(4.0), x).integrate(0.5, 2.5)
interpolate.CubicSpline(np.arange(4.0), x).integrate(-0.5, 3.5, "periodic")
np.nan_to_num(interpolate.CubicSpline(np.arange(4.0), x).integrate(0.5, 3.5, extrapolate=False))
interpolate.CubicSpline(np.arange(4.0), x).antiderivative(-1)(2.2)
np.nan_to_num(interpolate.CubicSpline(np.arange(4.0), x, extrapolate="periodic").antiderivative()(np.array([1.2, 4.5])))
interpolate.PPoly(m[None], np.arange(4.0), axis=1)(np.array([0.3, 1.6]))
interpolate.PPoly(m[None], np.arange(4.0), axis=1).derivative(-2)(np.array([0.3, 1.6]))
interpolate.make_interp_spline(np.arange(4.0), x).derivative(-1)(0.4)
interpolate.make_interp_spline(np.arange(4.0), x).antiderivative(-2)(0.4)
interpolate.make_interp_spline(np.arange(4.0), x).integrate(4.3, -7.7, extrapolate="periodic")
interpolate.make_interp_spline(np.arange(4.0), x).integrate(-1.0, 2.5, extrapolate=False)
interpolate.RegularGridInterpolator((np.arange(2.0), np.arange(3.0)), m, "nearest")([[0.5, 1.5]])
interpolate.PchipInterpolator(np.arange(2.0), x[:2])(0.3)
interpolate.Akima1DInterpolator(np.arange(4.0), x)(0.7)
interpolate.make_interp_spline(np.arange(4.0), x, k=1)(0.4)
interpolate.make_interp_spline(np.arange(4.0), x, k=3).derivative()(0.4)
signal.convolve2d(m[:, :2], m, mode="valid")
signal.convolve2d(m, m[:, :2], mode="same", boundary="wrap")
signal.correlate2d(m, m[:, :2], mode="full", boundary="fill", fillvalue=2.0)
signal.correlate2d(m, m[:, :2], boundary="circular")
signal.convolve2d(m, m[:, :2], boundary="symmetric")
signal.convolve(m, m[:1, :2], method="direct")
signal.convolve(m[None], m[None, :1, :2], method="direct")
signal.convolve(m[:1, :2], m, method="direct")
signal.filtfilt([1.0, 0.5], [1.0], np.concatenate([x, x, x]), padtype="constant")
signal.filtfilt([1.0, 0.5], [1.0], np.concatenate([x, x, x]), padtype="even")
signal.savgol_filter(np.concatenate([x, x]), 5, 2, mode="nearest")
signal.savgol_filter(np.concatenate([x, x]), 5, 2, deriv=1, mode="mirror")
signal.deconvolve(x, np.ones(6))[1]
signal.deconvolve(x, np.array([1.0, 0.5]))[0]
signal.detrend(x)
ndimage.map_coordinates(m, [[0.4], [1.2]], order=0)
ndimage.map_coordinates(m, [[0.4], [1.2]], order=3, mode="nearest")
ndimage.map_coordinates(m, [[np.nan, np.inf, 0.4, -np.inf], [1.2, 0.3, np.inf, 1.0]], order=1, cval=0.5)
ndimage.affine_transform(m, np.array([[1.0, 0.1, 0.2], [0.0, 1.0, 0.3]]), order=1)
interpolate.splev(np.array([-1.0, 5.0]), interpolate.splrep(np.arange(4.0), x, s=0), der=1, ext=3)
np.nan_to_num(interpolate.interp1d(np.arange(4.0), x, "next", fill_value="extrapolate")(np.array([-1.0, 1.2, 5.0])))
np.nan_to_num(interpolate.interp1d(np.arange(4.0), x, "previous", fill_value="extrapolate")(np.array([-1.0, 1.2, 5.0])))
ndimage.rotate(m, 20.0, reshape=False, order=1)
ndimage.rotate(m, 90.0, order=0)
ndimage.shift(x, 3, order=1, mode="wrap")
ndimage.shift(x, -0.5, order=0, mode="mirror")
ndimage.affine_transform(x[:3], np.array([0.7]), 1.3, order=1)
ndimage.rotate(m, 90.0, order=1, mode="wrap")
ndimage.rotate(m, 180, order=3)
ndimage.map_coordinates(m, [[-0.7, 0.4], [1.2, 0.3]], order=3, mode="nearest", prefilter=False)
ndimage.zoom(m, 2.0, order=2, mode="nearest", prefilter=False)
ndimage.spline_filter1d(m[:, :1], axis=1)
ndimage.zoom(m, 2.0, order=1)
integrate.trapezoid(m, dx=2.0, axis=0)
integrate.simpson(x, dx=0.5)
integrate.cumulative_trapezoid(m, initial=0, axis=1)
integrate.cumulative_simpson(x, dx=0.5)
integrate.cumulative_simpson(m, x=np.array([[0.0, 1.0, 2.0], [0.5, 3.0, 2.2]]), axis=0)
integrate.quad(lambda t, a: np.exp(a * t), x[0], -np.inf, (x[1],))[0]
integrate.quad(lambda t, a: np.exp(-a * t * t), np.inf, np.inf, (x[1],))[0]
integrate.quad(lambda t, a: np.exp(-a * t * t), np.inf, -np.inf, (x[1],))[0]
stats.multivariate_normal.entropy(None, m @ m.T + np.eye(2))
stats.multivariate_normal.logpdf(m[:, 0], m[:, 1], m @ m.T + np.eye(2))
stats.dirichlet.mean(m[0])
stats.dirichlet.var(m[0])
stats.dirichlet.entropy(m[0])
stats.dirichlet.logpdf(np.array([0.2, 0.3]), m[0])
stats.zscore(x, ddof=1)
stats.ttest_1samp(m, m[:, :1] / 3, axis=1).statistic
stats.ttest_1samp(m.T, m[:, 0] / 3).pvalue
stats.trim_mean(m[0], 0.1)
stats.gmean(m[0], weights=np.array([1.0, 2.0, 3.0]))
optimize.rosen(x)
optimize.minimize_scalar(lambda v, a: (v - a) ** 2 + v**4, args=(x[1],)).x
optimize.minimize_scalar(lambda v, a: (v - a) ** 2, bounds=(0.0, 3.0), method="bounded", args=(x[1],)).x
optimize.minimize_scalar(lambda v, a: (v - a) ** 2 + v**4, bounds=(0.0, 0.2), method="bounded", args=(x[1],)).x
optimize.minimize_scalar(lambda v, a: (v - a) ** 2 + v**4, bounds=(1.9, 3.0), method="bounded", args=(x[1],)).x
optimize.fminbound(lambda v, a: (v - a) ** 2 + v**4, x1=1.0, x2=3.0, args=(x[1],))
optimize.minimize(lambda v, a: np.sum((v - a) ** 2 + v**4 / 9), [0.2, 0.5], (x[:2],), "Powell", bounds=[(0.2, 0.2), (0.0, 1.0)]).x
optimize.fmin_bfgs(lambda v, a: np.sum((v - a) ** 2) + np.sum(v**4), np.ones(2), args=(x[:2],), disp=False)
optimize.leastsq(lambda v, a: np.concatenate([v - a, v**2 / 9]), np.ones(2), args=(x[:2],))[0]
optimize.minimize(lambda v, a: np.sum((v - a) ** 2), np.ones(2), (x[:2],), "trust-exact", lambda v, a: 2 * (v - a), lambda v, a: 2 * np.eye(2)).x
optimize.linprog([1.0, 2.0], -np.eye(2), -np.exp(0.1 * x[:2]), bounds=None).x
interpolate.interp1d(np.arange(3.0), m, bounds_error=False, fill_value=(np.array([7.0, 8.0]), np.array([9.0, 1.0])))(np.array([-1.0, 4.0, 5.0]))
interpolate.interp1d(np.arange(3.0), m, bounds_error=False, fill_value=(np.array([7.0, 8.0]), np.array([9.0, 1.0])))(np.array([-1.0, 4.0]))
interpolate.RegularGridInterpolator((np.arange(4.0)[::-1],), x)([[1.2], [0.3]])
interpolate.RegularGridInterpolator((np.arange(2.0), -np.arange(3.0)), m, "nearest", False, 0.5)([[0.2, -1.7], [0.9, -3.0]])
interpolate.KroghInterpolator(np.arange(4.0), x).derivative(1.3, 2)
integrate.solve_ivp(lambda t, y, a: np.vstack([y[1], -a * y[0]]), (0.0, 1.0), [1.0, 0.0], vectorized=True, args=(x[1],), rtol=1e-9).y[:, -1]
np.real(integrate.quad(lambda t, a: np.exp(1j * t * a), 0.0, 1.0, (x[0],), complex_func=True)[0])
signal.filtfilt([1.0, 0.5], np.array([1.0]), np.concatenate([x, x, x]), padlen=0)
signal.zpk2tf(m, x, np.array([1.5, -2.0]))[0]
""")


@pytest.mark.parametrize("text", SCIPY_GIVES)
def test_what_scipy_gives_is_given_and_differentiated(text):
    code = compile(text, text, "eval")

    def function(x, m):
        return eval(code, {"np": np, "x": x, "m": m, **TRACED})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy's own, of other versions
        want = eval(code, {"np": np, "x": V, "m": M, **MODULES})
    rough = text.startswith("optimize")
    np.testing.assert_allclose(ft.vjp(function, V, M)[0], want, rtol=1e-4 if rough else 1e-9, atol=1e-4 if rough else 1e-11)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ft.check_grads(function, V, M, order=1)


PARAMETERS = {
    "norm.pdf(x, 1, 2, 3)": r"norm.pdf\(\) takes the parameters loc, scale; too many: 3",
    "norm.pdf(x, 1, loc=2)": r"norm.pdf\(\) takes the parameters loc, scale; given twice: loc",
    "poisson.pmf(3, x, scale=2)": r"poisson.pmf\(\) takes the parameters mu, loc; not among them: scale",
    "gamma.pdf(x, b=2)": r"gamma.pdf\(\) takes the parameters a, loc, scale; missing: a; not among them: b",
    "norm(x, 2.0).pdf()": r"norm.pdf\(\) needs an argument beside the parameters",
    "norm(x, 2.0).moment()": r"norm.moment\(\) needs an argument beside the parameters",
}


@pytest.mark.parametrize("call", PARAMETERS)
def test_parameters_are_named_that_are_missing_or_too_many(call):
    with pytest.raises(TypeError, match=PARAMETERS[call]):
        ft.grad(lambda x: eval(f"stats.{call}", {"stats": ft.scipy.stats, "x": x}))(1.0)
    assert ft.grad(lambda x: ft.scipy.stats.norm(x, 2.0).median())(1.0) == ft.grad(lambda x: ft.scipy.stats.norm(x, 2.0).mean())(1.0) == 1.0
