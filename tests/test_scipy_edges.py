"""functrace.scipy at special parameters and at extremes, and the moments of distributions."""

import numpy as np
import pytest
import scipy.special as sp
import scipy.stats as theirs

import functrace as ft
from functrace import errors
from functrace.scipy import special
from functrace.testing import check_grads, numerical_jvp

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


@pytest.mark.parametrize("f", [sp.erf, sp.erfc, sp.ndtr, sp.log_ndtr])
def test_error_functions_of_infinity_have_second_derivatives(f):  # the outer cut points of an ordinal probit
    first = ft.grad(lambda x: np.sum(f(x)))
    assert np.isclose(ft.grad(first)(np.inf), 0)
    ends = np.array([-np.inf, 1.5, np.inf])[f is sp.log_ndtr :]  # whose value at -inf is -inf
    assert np.allclose(ft.jvp(first, (ends,), (np.ones(len(ends)),))[1], np.where(np.isinf(ends), 0, ft.grad(ft.grad(f))(1.5)))


def test_students_t_with_infinite_degrees_of_freedom_is_normal(stats):
    for method in ("logpdf", "cdf", "logsf", "ppf"):
        value, slopes = ft.value_and_grad(getattr(stats.t, method), (0, 1))(0.7, np.inf)
        want = ft.value_and_grad(getattr(stats.norm, method))(0.7)
        assert np.allclose([value, *slopes], [*want, 0], rtol=1e-12)
    x, cov = np.array([0.7, -0.2]), np.array([[2.0, 0.3], [0.3, 1.0]])
    slopes = ft.grad(lambda *args: stats.multivariate_t.logpdf(x, *args), (0, 1, 2))
    want = ft.grad(lambda *args: stats.multivariate_normal.logpdf(x, *args), (0, 1))(np.ones(2), cov)
    for df in (np.inf, 1e13):  # where two values of gammaln cancel
        assert all(np.allclose(*pair, rtol=1e-9, atol=1e-15) for pair in zip(slopes(np.ones(2), cov, df), (*want, 0)))
    value, _ = ft.value_and_grad(lambda df: stats.multivariate_t.logpdf(x, None, cov, df))(1e10)
    assert np.isclose(value, theirs.multivariate_normal.logpdf(x, None, cov), rtol=1e-9)


def test_a_covariance_that_may_be_singular_and_is_not_is_as_any_other(stats):
    x, cov = np.array([0.7, -0.2]), np.array([[2.0, 0.3], [0.3, 1.0]])
    for law, *rest in ((stats.multivariate_normal,), (stats.multivariate_t, 4.0)):
        slopes = ft.grad(lambda c, law=law, rest=rest: law.logpdf(x, None, c, *rest, allow_singular=True))
        assert np.allclose(slopes(cov), ft.grad(lambda c, law=law, rest=rest: law.logpdf(x, None, c, *rest))(cov))
        assert np.allclose(ft.jit(slopes)(cov), slopes(cov))
        for singular in (np.ones((2, 2)), np.diag([1.0, 1e-14])):
            with pytest.raises(errors.UnsupportedError, match="allow_singular"):
                slopes(singular)
    assert np.isclose(ft.grad(lambda v: stats.multivariate_normal.logpdf(x[:1], np.zeros(1), v, True))(2.0), -0.18875)


def test_slopes_at_poles_are_not_numbers_or_infinite():
    from functrace.scipy import special

    for f in (sp.zetac, special.zeta, lambda x: special.zeta(x, 2.0)):
        assert np.isnan(ft.grad(f)(1.0))
        assert np.isfinite(ft.grad(f)(1.0 + 1e-6))
    want = ft.grad(lambda y: sp.elliprf(0.0, y, 1.0))(2.0)
    assert ft.grad(sp.elliprf, (0, 1))(0.0, 2.0, 1.0) == (-np.inf, want)
    assert ft.grad(sp.elliprc)(0.0, 2.0) == -np.inf


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
    slope = ft.jit(ft.grad(variance))
    assert np.allclose([slope(a, 2.0) for a in (1.3, 2.0, 4.5)], [ft.grad(closed)(a, 2.0) for a in (1.3, 2.0, 4.5)], rtol=1e-7)
    assert slope.cache_info()["recorded"] == 1
    assert np.allclose(
        ft.hessian(lambda v: variance(v[0], v[1]))(np.array([1.3, 2.2])), ft.hessian(lambda v: closed(v[0], v[1]))(np.array([1.3, 2.2]))
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda s, a: s.gamma(a, 0.1, 2.0).stats("mvsk"),
        lambda s, a: s.gamma(a, scale=2.0).stats(moments="ks"),  # in the order m, v, s, k
        lambda s, a: s.gamma(a).stats(),
        lambda s, a: s.gamma.stats(a, 0.0, 2.0, "sv"),
        lambda s, a: s.poisson.stats(a, 1, "mk"),
        lambda s, a: s.poisson(a).stats("v"),
        lambda s, a: s.gamma(a).moment(order=3),
        lambda s, a: s.gamma(a, scale=2.0).interval(confidence=0.8),
        lambda s, a: s.gamma(a).logpdf(x=0.7),
        lambda s, a: s.poisson(mu=a).pmf(k=2),
        lambda s, a: s.gamma(a=a).ppf(q=0.3),
    ],
)
def test_what_methods_take_beside_the_parameters_is_given_as_in_scipy(stats, call):
    f = lambda s, a: np.stack(call(s, a)) if isinstance(call(s, a), tuple) else call(s, a)
    want = np.array(f(theirs, 2.3))
    assert np.allclose(f(stats, 2.3), want)
    value, slope = ft.jvp(lambda a: f(stats, a), (2.3,), (1.0,))
    assert np.shape(value) == want.shape
    assert np.allclose(value, want)
    assert np.allclose(slope, (np.array(f(theirs, 2.3001)) - np.array(f(theirs, 2.2999))) / 2e-4, rtol=1e-5)


@pytest.mark.parametrize(("n", "a", "b"), [(5, 9.300001, 1.0), (3, 6.2, 2.0)])
def test_moments_where_scipys_own_quantiles_are_searched_for_forever(stats, n, a, b):
    assert np.isclose(ft.grad(lambda a: stats.betanbinom.mean(n, a, b))(a), -n * b / (a - 1) ** 2)


def test_sums_reach_as_far_below_zero_as_above(stats):
    for m, v in ((1.1, 20.0), (20.0, 1.1), (300.0, 20.0)):
        assert np.allclose(ft.grad(lambda m, v: stats.skellam.moment(2, m, v), (0, 1))(m, v), [1 + 2 * (m - v), 1 - 2 * (m - v)])


def test_several_moments_the_median_and_intervals(stats):
    got = ft.jacfwd(lambda a: stats.gamma.stats(a, scale=2.0, moments="mvsk"))(3.0)
    assert np.allclose(got, [2, 4, -(3.0**-1.5), -6 / 9])
    assert np.isclose(ft.grad(lambda m: stats.norm.median(m, 2.0))(0.3), 1)
    assert np.allclose(ft.jacfwd(lambda s: stats.norm.interval(0.9, 0.0, s))(2.0), theirs.norm.interval(0.9))


def test_a_moment_that_cannot_be_summed_raises(stats):
    with pytest.raises(errors.UnsupportedError, match="var is not summed"):
        ft.grad(lambda df: stats.t.var(df))(2.01)
    assert np.isnan(ft.grad(lambda b: stats.pareto.mean(b))(0.8))  # it is infinite


def test_an_infinite_moment_is_infinite(stats):
    assert ft.vjp(lambda s: stats.levy.moment(2, scale=s), 1.5)[0] == np.inf
    assert ft.vjp(lambda s: stats.halfcauchy.moment(2, 0.0, s), 0.7)[0] == np.inf
    assert np.isclose(ft.grad(lambda m: stats.norm.moment(2, m, 1.5))(0.0), 0.0)
    assert np.isclose(ft.grad(lambda m: stats.gamma.moment(2, 1.7, m, 1.5))(0.0), 2 * 1.7 * 1.5)


def test_a_spread_or_a_slope_of_zero_in_an_image_has_the_derivative_zero():
    from functrace.scipy import ndimage

    image = np.arange(12.0).reshape(3, 4)
    labels = np.where(image == 5, 1, 0)
    assert np.array_equal(ft.grad(lambda x: ndimage.standard_deviation(x, labels, 1))(image), np.zeros((3, 4)))
    slope = ft.grad(lambda x: ndimage.gaussian_gradient_magnitude(x, 1.0, mode="mirror").sum())
    assert np.array_equal(slope(np.ones((3, 4))), np.zeros((3, 4)))
    assert np.isfinite(slope(image)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logsumexp_of_a_traced_array_is_scipys_to_the_last_bit(dtype):
    rows = [
        [0.5, -1.0, 0.25],
        [2.0, 2.0, 1.0],
        [3.0, 3.0, 3.0],
        [np.inf, 1.0, -np.inf],
        [-np.inf] * 3,
        [np.nan, 4.0, 4.0],
        [1e-20, 0.0, -1e-20],
    ]
    for x in (np.array(rows, dtype), np.array(rows[:1], dtype), np.array(rows[:3], dtype), np.array(rows[5:], dtype)):
        for axis in (0, 1, None):
            with np.errstate(all="ignore"):
                (out,), _ = ft.vjp(lambda x, axis=axis: [special.logsumexp(x, axis=axis)], x)
                want = sp.logsumexp(x, axis=axis)
            np.testing.assert_array_equal(out, want)
            assert out.dtype == np.asarray(want).dtype
