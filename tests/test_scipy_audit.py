"""functrace.scipy as an outsider looks at it: extremes, special parameters, frozen distributions, names imported early, moments."""

import pickle

import numpy as np
import pytest
import scipy.fft
import scipy.interpolate
import scipy.spatial.distance
import scipy.special as sp
import scipy.stats as theirs
from scipy.special import logsumexp as early_logsumexp
from scipy.stats import gamma as early_gamma

import functrace as ft
import functrace.scipy as fsp
from functrace import errors
from functrace.testing import check_grads, numerical_jvp


@pytest.fixture
def installed(stats):
    fsp.install()
    yield stats
    fsp.uninstall()


# Special parameters, where a rule could take a branch that is right to first order only


@pytest.mark.parametrize(
    "f, x, want",
    [
        (lambda v: sp.xlogy(v[0], v[1]), [0.0, 0.5], [[0, 2], [2, 0]]),
        (lambda v: sp.xlog1py(v[0], v[1]), [0.0, 0.25], [[0, 0.8], [0.8, 0]]),
        (lambda v: sp.kl_div(v[0], v[1]) - sp.rel_entr(v[0], v[1]), [0.3, 0.5], [[0, 0], [0, 0]]),
        (lambda v: sp.spence(v[0]), [1.0], [[0.5]]),
    ],
)
def test_second_derivatives_where_an_argument_is_special(f, x, want):
    assert np.allclose(ft.hessian(f)(np.array(x)), want, atol=1e-12)


def test_the_hessian_of_a_likelihood_at_the_exponential_distribution(stats):
    hessian = ft.hessian(lambda v: stats.gamma.logpdf(v[0], v[1]))(np.array([0.5, 1.0]))
    assert np.allclose(hessian, [[0, 2], [2, -sp.polygamma(1, 1.0)]])
    assert np.allclose(hessian, hessian.T)


# Extremes: the limit, and never NaN where there is one


@pytest.mark.parametrize("x", [-1e9, -40.0, 0.0, 30.0, 38.5, 60.0, 1e9])
def test_log_ndtr_has_three_derivatives_in_both_tails(x):
    first = ft.grad(sp.log_ndtr)
    density = lambda x: np.exp(-x * x / 2 - sp.log_ndtr(x)) / np.sqrt(2 * np.pi)
    want = density(x) if x > -40 else -x * (1 + 1 / x**2 - 2 / x**4)
    assert np.isclose(first(x), want, rtol=1e-6)
    with np.errstate(over="ignore"):
        second = ft.grad(first)(x)
        third = ft.grad(ft.grad(first))(x)
    assert np.isclose(second, -want * (x + want) if x > -40 else -1, rtol=1e-3)
    assert np.isfinite(third)


@pytest.mark.parametrize("z", [1e-300, 1e-10, 0.5, 0.999999, 1.0, 1.5, 1e10, 1e300])
def test_the_slope_of_spence(z):
    want = np.log(z) / (1 - z) if z != 1 else -1.0
    assert np.isclose(ft.grad(sp.spence)(z), want, rtol=1e-9)


@pytest.mark.parametrize(
    "call, x, want",
    [
        (lambda s, x: s.norm.logcdf(x), -40.0, 40.02496882707735),
        (lambda s, x: s.norm.logcdf(x), -1e6, 1e6),
        (lambda s, x: s.norm.logsf(x), 1e6, -1e6),
        (lambda s, x: s.logistic.logcdf(x), -800.0, 1.0),
        (lambda s, x: s.gumbel_r.logcdf(x), -5.0, np.exp(5.0)),
        (lambda s, x: s.expon.logsf(x), 1e4, -1.0),
        (lambda s, x: s.norm.cdf(x), -50.0, 0.0),
        (lambda s, x: s.gamma.logpdf(x, 1.0), 700.0, -1.0),
        (lambda s, x: s.weibull_min.logsf(x, 2.0), 100.0, -200.0),
    ],
)
def test_slopes_far_out(stats, call, x, want):
    assert np.isclose(ft.grad(lambda x: call(stats, x))(x), want, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize(
    "name, shapes, method, x",
    [
        ("exponweib", (1.3, 1.7), "logsf", 8.0),
        ("exponweib", (1.3, 1.7), "logsf", 40.0),
        ("powernorm", (1.4,), "logcdf", -8.0),
        ("powerlognorm", (1.4, 0.9), "logcdf", 1e-8),
        ("wald", (), "logsf", 1000.0),
        ("skewnorm", (1.4,), "logsf", 8.0),
        ("crystalball", (1.2, 2.6), "logsf", 6.0),
        ("mielke", (1.6, 2.3), "logsf", 1e5),
    ],
)
def test_logarithms_of_small_probabilities_are_precise(stats, name, shapes, method, x):
    f = getattr(getattr(stats, name), method)
    value, slope = ft.value_and_grad(f)(x, *shapes)
    if name not in ("crystalball", "mielke", "skewnorm"):  # SciPy's own are not precise there
        assert np.isclose(value, getattr(getattr(theirs, name), method)(x, *shapes), rtol=1e-6)
    nearby = ft.vjp(f, x * 1.000001, *shapes)[0]
    assert np.isclose((nearby - value) / (x * 1e-6), slope, rtol=1e-3)  # rounding would show as steps


# Moments and entropies


MOMENTS = [
    ("norm", (), (0.3, 1.7)),
    ("gamma", (2.3,), (0.2, 1.3)),
    ("gamma", (60.0,), (0.0, 1.0)),
    ("beta", (2.1, 3.4), (0.0, 2.0)),
    ("lognorm", (0.4,), (0.1, 1.2)),
    ("t", (9.5,), (0.2, 1.3)),
    ("truncnorm", (-0.7, 1.9), (0.1, 1.4)),
    ("weibull_min", (1.7,), (0.0, 1.0)),
    ("triang", (0.3,), (0.0, 1.0)),
    ("laplace_asymmetric", (1.4,), (0.0, 1.0)),
    ("genextreme", (-0.1,), (0.0, 1.0)),
    ("skewcauchy", (0.2,), (0.0, 1.0)),
    ("poisson", (3.7,), (0,)),
    ("nbinom", (4.3, 0.4), (0,)),
]


@pytest.mark.parametrize("name, shapes, place", MOMENTS)
@pytest.mark.parametrize("what", ["mean", "var", "std", "entropy", "third moment"])
def test_moments_have_scipys_values_and_the_slopes_of_them(stats, name, shapes, place, what):
    if name == "skewcauchy" and what != "entropy":
        assert np.isnan(ft.grad(lambda a: stats.skewcauchy.mean(a))(0.2))  # there is none
        return

    def call(module, *args):
        full = [*args[: len(shapes)], *place[: 1 if len(place) == 1 else 0], *args[len(shapes) :]]
        own = getattr(module, name)
        return own.moment(3, *full) if what == "third moment" else getattr(own, what)(*full)

    args = [np.asarray(v) for v in (*shapes, *(place if len(place) > 1 else ()))]
    ts = [np.asarray(0.3 + 0.2 * k) for k in range(len(args))]
    value, slope = ft.jvp(lambda *a: call(stats, *a), args, ts)
    assert np.isclose(value, call(theirs, *args), rtol=1e-10)
    assert np.isclose(slope, numerical_jvp(lambda *a: call(theirs, *a), args, ts)[0], rtol=1e-5, atol=1e-8)
    check_grads(lambda *a: call(stats, *a), *args, order=1)


def test_moments_are_differentiated_twice_and_batched(stats):
    variance = lambda a, b: stats.beta.var(a, b)
    closed = lambda a, b: a * b / ((a + b) ** 2 * (a + b + 1))
    a, b = np.array([1.3, 2.0, 4.5]), np.array([2.2, 0.9, 3.0])
    assert np.allclose(ft.vmap(ft.grad(variance, (0, 1)))(a, b), ft.vmap(ft.grad(closed, (0, 1)))(a, b), rtol=1e-7)
    assert np.allclose(
        ft.hessian(lambda v: variance(v[0], v[1]))(np.array([1.3, 2.2])), ft.hessian(lambda v: closed(v[0], v[1]))(np.array([1.3, 2.2]))
    )


def test_several_moments_the_median_and_intervals(stats):
    got = ft.jacfwd(lambda a: stats.gamma.stats(a, scale=2.0, moments="mvsk"))(3.0)
    assert np.allclose(got, [2, 4, -(3.0**-1.5), -6 / 9])
    assert np.isclose(ft.grad(lambda m: stats.norm.median(m, 2.0))(0.3), 1)
    assert np.allclose(ft.jacfwd(lambda s: stats.norm.interval(0.9, 0.0, s))(2.0), theirs.norm.interval(0.9))


def test_a_moment_that_cannot_be_summed_raises(stats):
    with pytest.raises(errors.UnsupportedError, match="var is not summed"):
        ft.grad(lambda df: stats.t.var(df))(2.01)
    assert np.isnan(ft.grad(lambda b: stats.pareto.mean(b))(0.8))  # it is infinite


# SciPy's own distributions and functions


def test_frozen_distributions_and_names_imported_before(installed):
    assert np.isclose(ft.grad(lambda a: early_gamma.logpdf(2.0, a))(1.3), np.log(2.0) - sp.psi(1.3))
    assert np.isclose(ft.grad(lambda m, s: theirs.norm(m, s).logpdf(1.0), 1)(0.0, 2.0), -0.375)
    assert np.isclose(ft.grad(theirs.norm(0.5, 2.0).logcdf)(-3.0), ft.grad(lambda x: installed.norm.logcdf(x, 0.5, 2.0))(-3.0))
    assert np.isclose(ft.grad(lambda a: theirs.gamma(a, scale=2.0).mean())(3.0), 2.0)
    x = np.array([0.3, -0.2])
    frozen = theirs.multivariate_normal(np.zeros(2), np.eye(2))
    for distribution in (frozen, pickle.loads(pickle.dumps(frozen))):
        assert np.allclose(ft.grad(distribution.logpdf)(x), -x)
    assert np.allclose(ft.grad(lambda m: theirs.multivariate_normal(m, np.eye(2)).logpdf(x))(np.zeros(2)), x)
    assert theirs.norm(1.0, 2.0).pdf(0.3) == pytest.approx(theirs.norm.pdf(0.3, 1.0, 2.0))


def test_another_distribution_of_the_same_class_is_not_taken_for_ours(installed):
    class Mine(theirs.rv_continuous):
        def _pdf(self, x):
            return 2 * x

    with pytest.raises(errors.ConversionError):
        ft.grad(lambda x: Mine(a=0, b=1, name="norm").pdf(x))(0.3)


def test_uninstall_gives_the_classes_back(stats):
    before = theirs.rv_continuous.logpdf, theirs.rv_continuous.__call__, type(theirs.multivariate_normal).logpdf
    fsp.install("stats")
    theirs.multivariate_normal(np.zeros(2))
    assert theirs.rv_continuous.logpdf is not before[0]
    fsp.install("stats")
    fsp.uninstall()
    assert (theirs.rv_continuous.logpdf, theirs.rv_continuous.__call__, type(theirs.multivariate_normal).logpdf) == before
    assert not hasattr(type(theirs.multivariate_normal(np.zeros(2))).logpdf, "functrace")


def test_a_function_imported_before_names_the_users_line_and_the_remedy():
    with pytest.raises(errors.ConversionError) as caught:
        ft.grad(early_logsumexp)(np.ones(3))
    assert __file__ in str(caught.value)
    assert "functrace.scipy" in str(caught.value)


def test_cosine_and_sine_transforms_after_install(installed):
    """Our rules compare with SciPy's functions, which `install` changes."""
    x = np.random.default_rng(0).normal(size=(3, 5))
    for name in ("dct", "idct", "dst", "idst"):
        for kind in (1, 2, 3, 4):
            for norm in (None, "ortho", "forward"):
                f = lambda x, f=getattr(scipy.fft, name), kind=kind, norm=norm: f(x, kind, norm=norm)
                check_grads(f, x, order=1)
                assert np.allclose(ft.vjp(f, x)[0], f(x))
    for norm, ortho in (("ortho", False), (None, True)):
        f = lambda x, norm=norm, ortho=ortho: scipy.fft.dctn(x, 1, norm=norm, orthogonalize=ortho, axes=0)
        assert np.allclose(ft.vjp(f, x)[0], f(x))
        check_grads(f, x, order=1)


def test_interpolants_after_install(installed):
    x, y, at = np.arange(6.0), np.sin(np.arange(6.0)), np.array([0.3, 2.2])
    plain = scipy.interpolate.CubicSpline(x, y)
    assert type(plain).__module__.startswith("scipy.")
    assert isinstance(plain, scipy.interpolate.CubicSpline)
    assert isinstance(plain, scipy.interpolate.PPoly)
    assert np.allclose(pickle.loads(pickle.dumps(plain))(at), plain(at))
    assert np.allclose(ft.jacfwd(plain)(at), np.diag(plain(at, 1)))
    for make in (
        lambda y: scipy.interpolate.CubicSpline(x, y),
        lambda y: scipy.interpolate.PchipInterpolator(x, y),
        lambda y: scipy.interpolate.make_interp_spline(x, y),
        lambda y: scipy.interpolate.interp1d(x, y, kind="quadratic"),
        lambda y: scipy.interpolate.RBFInterpolator(x[:, None], y),
    ):
        points = at[:, None] if make(y).__class__.__name__ == "RBFInterpolator" else at
        assert np.allclose(ft.vjp(lambda y, m=make, p=points: m(y)(p), y)[0], make(y)(points))
        check_grads(lambda y, p, m=make: m(y)(p), y, points)
    data = np.random.default_rng(0).normal(size=8)
    assert np.allclose(ft.vjp(lambda d: theirs.gaussian_kde(d)(at), data)[0], theirs.gaussian_kde(data)(at))

    class Mine(scipy.interpolate.CubicSpline):
        pass

    assert type(Mine(x, y)) is Mine
    assert not isinstance(plain, Mine)
    fsp.uninstall()
    assert type(plain) is scipy.interpolate.CubicSpline
    assert np.allclose(plain(at), scipy.interpolate.CubicSpline(x, y)(at))


def test_distances(installed):
    d = scipy.spatial.distance
    x = np.array([[0.0, 1.0], [2.0, 0.5], [2.0, 0.5]])
    assert np.allclose(ft.grad(lambda x: d.pdist(x)[2])(x), 0)  # equal rows: a kink
    for metric in ("euclidean", "cityblock", "cosine", "canberra", d.correlation, d.sqeuclidean):
        wide = np.random.default_rng(1).normal(size=(4, 3))
        assert np.allclose(ft.vjp(lambda x, m=metric: d.squareform(d.pdist(x, m)), wide)[0], d.squareform(d.pdist(wide, metric)))
        assert np.allclose(ft.vjp(lambda x, m=metric: d.cdist(x, wide[:2], m), wide)[0], d.cdist(wide, wide[:2], metric))
    with pytest.raises(errors.UnsupportedError, match="hamming"):
        ft.grad(lambda x: d.pdist(x, "hamming").sum())(x)
    with pytest.raises(errors.UnsupportedError, match="booleans"):
        ft.grad(lambda x: d.hamming(x, x))(x[0])


P = np.random.default_rng(4).uniform(0.05, 0.9, size=(5, 2))


@pytest.mark.parametrize(
    "call, args",
    [
        *((lambda s, p, m=m: s.combine_pvalues(p, m), (P,)) for m in ("fisher", "pearson", "tippett", "stouffer", "mudholkar_george")),
        (lambda s, p: s.combine_pvalues(p[:, 0], "stouffer", weights=np.arange(1.0, 6.0)), (P,)),
        (lambda s, m, d: s.ttest_ind_from_stats(m, d, 7, 0.3, 1.1, 9), (np.float64(0.8), np.float64(0.7))),
        (
            lambda s, m, d: s.ttest_ind_from_stats(m, d, 7, 0.3, 1.1, 9, equal_var=False, alternative="less"),
            (np.float64(0.8), np.float64(0.7)),
        ),
        (lambda s, y: s.pointbiserialr(np.array([0, 0, 1, 1, 1]), y[:, 0]), (P,)),
        (lambda s, x: (s.describe(x)[k] for k in range(2, 6)), (P,)),
        (lambda s, x: s.describe(x, axis=1).minmax, (P,)),
        (lambda s, x: (s.tmin(x, 0.3), s.tmax(x, 0.6, axis=1, inclusive=False), s.tmin(x, 0.3, axis=None)), (P,)),
        (lambda s, x: (s.kstatvar(x[:, 0], 1), s.kstatvar(x, axis=0)), (P,)),
    ],
)
def test_statistics_of_samples(stats, call, args):
    flat = lambda module, *a: list(call(module, *a))
    for got, want in zip(ft.vjp(lambda *a: flat(stats, *a), *args)[0], flat(theirs, *args), strict=True):
        assert np.allclose(got, want, rtol=1e-10, equal_nan=True)
    check_grads(lambda *a: [x for x in flat(stats, *a) if not np.any(np.isnan(ft.value(x)))], *args)


def test_the_density_of_a_truncated_pareto_of_negative_exponent(stats):
    want = np.log(-2.0 / (1 - 5.0**2) * 2.0)  # SciPy 1.15 has NaN here
    assert np.isclose(ft.vjp(lambda b: stats.truncpareto.logpdf(2.0, b, 5.0), -2.0)[0], want)
    assert np.isclose(ft.grad(lambda b: stats.truncpareto.logpdf(2.0, b, 5.0))(-2.0), -0.5 - np.log(2.0) + 25 * np.log(5.0) / 24)
