"""functrace.scipy.stats: every distribution in every parameter, its edges, and summaries and tests of samples against SciPy."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.stats as theirs

import functrace as ft
from functrace import errors
from functrace.core.tracer import Tracer
from functrace.testing import check_grads, numerical_jvp
from tests.helpers import SCIPY

RNG = np.random.default_rng(0)


def laws(stats):
    from functrace.scipy._stats_laws import LAWS
    from functrace.scipy._stats_rarer import MASSES, MORE

    return {name: law for name, law in {**LAWS, **MORE, **MASSES}.items() if hasattr(theirs, name)}


def methods(stats, law):
    return stats.DISCRETE if law.discrete else stats.CONTINUOUS


def test_each_distribution_passes_the_sweep_in_density_and_cdf(stats):
    from test_scipy_functions import declared, sweep

    chosen = {name: d for name, d in declared("stats").items() if name.count(".") == 2 or name.split(".")[3] in ("logpdf", "logpmf", "cdf")}
    if SCIPY < (1, 16):  # which gives float64 of float32
        del chosen["scipy.stats.skew"], chosen["scipy.stats.iqr"]
    assert sweep(chosen) > 7_000


def test_each_method_has_scipys_value_and_slope_in_every_parameter_with_loc_and_scale(stats):
    failed = []
    for name, law in laws(stats).items():
        own = getattr(theirs, name)
        whole = [k for k, n in enumerate(law.shapes.split(), 1) if law.discrete and n in ("n", "N", "low", "high") and name != "nbinom"]
        for method in methods(stats, law):
            if not hasattr(getattr(stats, name), method) or f"scipy.stats.{name}.{method}" not in stats.TABLE:
                continue
            first = 0.41 if method in ("ppf", "isf") else law.at[0]
            args = [np.float64(v) for v in law.at[1:]] + ([0.0] if law.discrete else [0.2, 1.3])
            x = first if law.discrete or method in ("ppf", "isf") else first * 1.3 + 0.2
            moving = [k for k in range(len(args)) if k + 1 not in whole and not (law.discrete and k == len(args) - 1)]

            def f(function, *values, x=x, args=args, moving=moving):
                full = list(args)
                for k, v in zip(moving, values):
                    full[k] = v
                return function(x, *full)

            points = [np.asarray(args[k]) for k in moving]
            ts = [np.asarray(t) for t in RNG.normal(size=len(moving))]
            ours = stats.TABLE[f"scipy.stats.{name}.{method}"].function
            value, pushed = ft.jvp(lambda *v: f(ours, *v), points, ts)
            want = numerical_jvp(lambda *v: f(getattr(own, method), *v), points, ts)[0]
            back = ft.grad(lambda *v: f(ours, *v), tuple(range(len(moving))))(*points) if moving else ()
            near = lambda a, b: np.allclose(a, b, rtol=2e-6, atol=1e-8)
            if not (
                near(value, f(getattr(own, method), *points)) and near(pushed, want) and near(sum(b * t for b, t in zip(back, ts)), want)
            ):
                failed.append((name, method, value, pushed, want))
    assert not failed, failed


@pytest.mark.parametrize(
    "name", ["gamma", "beta", "expon", "lognorm", "uniform", "pareto", "truncnorm", "genpareto", "genextreme", "weibull_min", "invgauss"]
)
def test_outside_of_the_support_values_are_scipys_and_slopes_are_zero(stats, name):
    law = laws(stats)[name]
    shapes = law.at[1:]
    for x in (-30.0, 50.0) if name != "genextreme" else (50.0,):
        for method in ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # SciPy's own
                want = getattr(getattr(theirs, name), method)(x, *shapes)
            ours = getattr(getattr(stats, name), method)
            value, grads = ft.value_and_grad(lambda x, *s: ours(x, *s), tuple(range(1 + len(shapes))))(x, *shapes)
            assert np.allclose(value, want, rtol=1e-9, atol=1e-300), (x, method)
            assert np.isfinite(grads).all()
            if method == "logpdf" and want == -np.inf:
                assert not np.any(grads)


def test_invalid_parameters_give_nan_as_scipy_does(stats):
    assert np.isnan(ft.vjp(lambda s: stats.norm.logpdf(0.3, scale=s), -1.0)[0])
    assert np.isnan(ft.vjp(lambda a: stats.gamma.cdf(0.3, a), -1.0)[0])
    assert np.isnan(ft.vjp(lambda x: stats.gamma.cdf(x, 2.0), np.nan)[0])


def test_parameters_by_name_by_position_and_frozen_agree(stats):
    want = theirs.gamma.logpdf(2.0, 1.3, loc=0.1, scale=0.7)
    for f in (
        lambda a: stats.gamma.logpdf(2.0, a, 0.1, 0.7),
        lambda a: stats.gamma.logpdf(2.0, a=a, loc=0.1, scale=0.7),
        lambda a: stats.gamma(a, scale=0.7, loc=0.1).logpdf(2.0),
    ):
        assert np.isclose(ft.vjp(f, 1.3)[0], want)
    assert np.isclose(stats.norm(1.0, 2.0).ppf(0.3), theirs.norm(1.0, 2.0).ppf(0.3))
    assert np.isclose(stats.expon(1).expect(lambda x: 1, lb=0.0, ub=2.0), theirs.expon(1).expect(lambda x: 1, lb=0.0, ub=2.0))
    assert stats.vonmises(loc=2, kappa=1).rvs(3, random_state=0).shape == (3,)
    counts = np.array([16.0, 18, 16, 14, 12, 12])
    assert np.allclose(
        ft.vjp(lambda n: stats.chisquare(n, ddof=[0, 1, 2]).pvalue, counts)[0], theirs.chisquare(counts, ddof=[0, 1, 2]).pvalue
    )
    with pytest.raises(TypeError, match="missing"):
        ft.grad(lambda x: stats.gamma.logpdf(x))(1.0)
    with pytest.raises(errors.UnsupportedError, match="rvs"):
        ft.grad(lambda m: stats.norm(m).rvs())(1.0)


def test_maximum_likelihood_has_a_zero_gradient_where_scipy_fits(stats):
    data = np.random.default_rng(1).gamma(2.0, 0.5, size=200)
    a, loc, scale = theirs.gamma.fit(data, floc=0)
    slope = ft.grad(lambda a, s: np.mean(stats.gamma.logpdf(data, a, scale=s)), (0, 1))(a, scale)
    assert np.allclose(slope, 0, atol=1e-5)


P = np.array([0.2, 0.5, 0.3])
A = np.array([[2.0, 0.3], [0.3, 1.0]])
B = np.array([[1.5, -0.2], [-0.2, 0.7]])
sym = lambda m: (m + m.T) / 2
scalar = lambda v: v if isinstance(v, Tracer) else float(v)  # SciPy wants Python's numbers


@pytest.mark.parametrize(
    "call, args",
    [
        (lambda s, p: s.multinomial.logpmf([1, 3, 2], 6, p / p.sum()), (P,)),
        (lambda s, x, df, v: s.wishart.logpdf(sym(x), scalar(df), sym(v)), (A, 3.7, B)),
        (lambda s, x, df, v: s.invwishart.logpdf(sym(x), scalar(df), sym(v)), (A, 3.7, B)),
        (lambda s, x, m, c: s.multivariate_normal.logpdf(x, m, c), (0.3, 0.1, 1.4)),
        (lambda s, x, c: s.multivariate_normal.logpdf(x, cov=c), (np.array([0.3, 0.2]), 1.4)),
        (lambda s, x, df: s.multivariate_t.logpdf(x, np.zeros(2), A, df), (np.array([0.3, 0.2]), 3.1)),
        (lambda s, m, c: s.multivariate_normal(m, sym(c)).pdf([0.1, 0.4]), (np.zeros(2), A)),
    ],
)
def test_vector_distributions_on_their_manifolds(stats, call, args):
    value = call(theirs, *args) if call(stats, *args) is not None else None
    assert np.allclose(ft.vjp(lambda *a: call(stats, *a), *args)[0], value, rtol=1e-12)
    check_grads(lambda *a: call(stats, *a), *args)


X, Y = np.random.default_rng(2).normal(size=(2, 9))
GROUPS = np.random.default_rng(3).normal(size=(3, 6))


@pytest.mark.parametrize(
    "call, args",
    [
        (lambda s, x, y: s.pearsonr(x, y), (X, Y)),
        (lambda s, x, y: s.pearsonr(x, y, alternative="less"), (X, Y)),
        (lambda s, x, y: s.linregress(x, y), (X, Y)),
        (lambda s, x: s.ttest_1samp(x, 0.2), (X,)),
        (lambda s, x, y: s.ttest_rel(x, y, alternative="greater"), (X, Y)),
        (lambda s, x, y: s.ttest_ind(x, y), (X, Y)),
        (lambda s, x, y: s.ttest_ind(x, y, equal_var=False), (X, Y)),
        (lambda s, g: s.f_oneway(g[0], g[1], g[2]), (GROUPS,)),
        (lambda s, x: s.chisquare(x), (np.exp(X),)),
        (lambda s, x: s.power_divergence(x, lambda_="log-likelihood"), (np.exp(X),)),
        (lambda s, x: s.power_divergence(x, lambda_=0.7), (np.exp(X),)),
        (lambda s, x: s.jarque_bera(x), (X,)),
    ],
)
def test_tests_of_samples(stats, call, args):
    want = call(theirs, *args)
    names = ("slope", "intercept", "rvalue", "pvalue", "stderr", "intercept_stderr") if hasattr(want, "slope") else ("statistic", "pvalue")
    got = ft.vjp(lambda *a: call(stats, *a), *args)[0]
    for name in names:
        assert np.allclose(getattr(got, name), getattr(want, name), rtol=1e-10), name
    check_grads(lambda *a: [getattr(call(stats, *a), n) for n in names], *args)


@pytest.mark.parametrize("bandwidth", [None, "silverman", 0.4])
def test_gaussian_kde(stats, bandwidth):
    data, points, weights = RNG.normal(size=(2, 7)), RNG.normal(size=(2, 3)), RNG.uniform(0.5, 1, size=7)
    want = theirs.gaussian_kde(data, bandwidth, weights)
    ours = lambda d, p, w: stats.gaussian_kde(d, bandwidth, w).logpdf(p)
    assert np.allclose(ours(data, points, weights), want.logpdf(points), rtol=1e-11)
    assert np.allclose(stats.gaussian_kde(data[0])(points[0]), theirs.gaussian_kde(data[0])(points[0]))
    check_grads(ours, data, points, weights)


def test_gaussian_kde_takes_points_of_the_datas_dimension(stats):
    data = np.random.default_rng(1).normal(size=(2, 8))
    assert np.allclose(stats.gaussian_kde(data)([0.2, 0.5]), theirs.gaussian_kde(data)([0.2, 0.5]))
    for kde in (stats.gaussian_kde, theirs.gaussian_kde):
        with pytest.raises(ValueError, match="points have dimension 3, dataset has dimension 2"):
            kde(data)(np.ones((3, 4)))


def test_scipys_own_methods_work_after_install(stats):
    import functrace.scipy as fsp

    fsp.install("stats")
    try:
        slope = ft.grad(lambda m: theirs.norm.logpdf(1.0, m, 2.0))(0.0)
        assert np.isclose(slope, 0.25)
        assert np.isclose(
            ft.grad(lambda x: theirs.zscore(x)[0])(X)[0], numerical_jvp(lambda x: theirs.zscore(x)[0], (X,), (np.eye(9)[0],))[0]
        )
    finally:
        fsp.uninstall()


def test_vmap_of_a_gradient_over_parameters(stats):
    shapes = np.array([0.7, 1.4, 3.0])
    got = ft.vmap(ft.grad(lambda a: stats.gamma.logcdf(0.8, a)))(shapes)
    assert np.allclose(got, [ft.grad(lambda a: stats.gamma.logcdf(0.8, a))(a) for a in shapes])


def test_a_cdf_has_the_density_as_its_slope_where_the_density_has_a_kink(stats):
    checked = 0
    for name, law in laws(stats).items():
        shapes = [float(s) for s in law.at[1:]]
        for z in law.knots(*shapes) if law.knots is not None and not law.discrete else ():
            distribution, density = getattr(stats, name), getattr(stats, name).pdf(z, *shapes)
            assert ft.grad(distribution.cdf)(float(z), *shapes) == pytest.approx(density), name
            assert ft.grad(distribution.sf)(float(z), *shapes) == pytest.approx(-density), name
            checked += 1
    assert checked > 5


def test_a_symmetric_density_is_smooth_in_the_middle(stats):
    assert ft.grad(ft.grad(stats.logistic.logpdf))(0.0) == pytest.approx(-0.5)


def test_a_line_is_five_numbers_to_unpack_and_a_name(stats):
    def steep(y):
        slope, intercept, r, p, stderr = line = stats.linregress(np.arange(6.0), y)
        return np.stack([slope, intercept, r, p, stderr, line.intercept_stderr])

    y = np.sin(np.arange(6.0))
    want = theirs.linregress(np.arange(6.0), y)
    np.testing.assert_allclose(ft.vjp(steep, y)[0], [*want, want.intercept_stderr], rtol=1e-12)
    check_grads(steep, y)


def test_points_on_a_line_are_correlated_by_one(stats):
    for seed in range(5):  # some of these correlations are rounded to more than 1
        x = np.random.default_rng(seed).normal(size=5)
        for y in (0.1 * x + 0.7, 0.7 - 0.1 * x):
            for test in (lambda s, y: s.pearsonr(x, y), lambda s, y: s.linregress(x, y)):
                got, pull = ft.vjp(lambda y: np.stack(list(test(stats, y))), y)
                np.testing.assert_allclose(got, list(test(theirs, y)), atol=1e-8)
                assert np.all(np.abs(got[-2 if len(got) == 2 else 2]) <= 1) and np.isfinite(pull(np.ones(len(got)))[0]).all()
    x, y = np.array([1.0, 2.0]), np.array([1.0, 3.0])
    assert list(ft.vjp(lambda y: np.stack(list(stats.pearsonr(x, y))), -y)[0]) == list(theirs.pearsonr(x, -y)) == [-1.0, 1.0]
    assert ft.grad(lambda y: stats.linregress(x, y).stderr)(y).tolist() == [0.0, 0.0]


def test_where_a_quantile_stays_its_slope_may_move(stats):
    for law, shape in ((stats.lognorm, 0.9), (stats.fisk, 1.3), (stats.gennorm, 1.8)):  # their medians do not depend on the shape
        slope = lambda q: ft.grad(law.ppf, 1)(q, shape)
        assert abs(slope(0.5)) < 1e-12
        assert ft.grad(slope)(0.5) == pytest.approx((slope(0.5 + 1e-4) - slope(0.5 - 1e-4)) / 2e-4, rel=1e-4)
    assert ft.grad(lambda q: stats.gamma.ppf(q, 2.5))(0.0) == np.inf and ft.grad(stats.gamma.ppf, 1)(0.0, 2.5) == 0


def test_densities_where_their_factors_are_beyond_floats(stats):  # the values are mpmath's
    assert ft.value_and_grad(stats.ncx2.logpdf)(1500.0, 1500.0, 21.5) == pytest.approx(
        (-4.997744081978575, 4.322191909115531e-5 / 0.00675316441331395)
    )
    slopes = ft.grad(stats.jf_skew_t.logpdf, (0, 1, 2))(7e6, 0.33, 0.465)
    assert slopes == pytest.approx([-2.757142857142814e-7, 2.774339072620236, -31.38292124840162], rel=1e-12)


@pytest.mark.parametrize("x", [X, GROUPS])
@pytest.mark.parametrize("equal_var", [True, False])
def test_a_t_test_has_its_degrees_of_freedom(stats, x, equal_var):
    call = lambda s, x: s.ttest_ind(x[..., :2], x[..., 2:], axis=-1, equal_var=equal_var)
    got, want = ft.vjp(lambda x: call(stats, x), x)[0], call(theirs, x)
    np.testing.assert_allclose([*got, got.df], [*want, want.df], rtol=1e-12)
    assert np.shape(got.df) == np.shape(want.df) and len(got) == 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s, k: s.vonmises.cdf(0.3, k), r"integrate\.quad"),
        (lambda s, k: s.norm.rvs(k), r"functrace\.random"),
        (lambda s, k: s.norm.fit(k * np.ones(2)), r"optimize\.minimize"),
    ],
)
def test_a_method_without_a_rule_names_the_remedy(stats, call, words):
    with pytest.raises(errors.UnsupportedError, match=words):
        ft.grad(lambda k: call(stats, k))(0.5)


def traced(f, x):
    """`f(x)` by functrace's own rules, and its gradient."""
    return ft.value_and_grad(lambda v: np.sum(f(v)))(np.asarray(x, float))


def test_laws_of_counts_and_matrices_by_their_names(stats):
    x, concentration, wide = np.array([1, 3, 2]), np.array([1.0, 2.0, 0.5]), np.arange(24.0).reshape(4, 2, 3) / 10
    value, slope = traced(lambda a: stats.dirichlet_multinomial.logpmf(x, a, 6), concentration)
    f = lambda a: theirs.dirichlet_multinomial.logpmf(x, a, 6)
    assert np.isclose(value, f(concentration))
    assert np.allclose(slope, [(f(concentration + d) - f(concentration - d)) / 2e-6 for d in 1e-6 * np.eye(3)])
    alike = traced(lambda a: stats.dirichlet_multinomial.logpmf(x, a, 6), [1.5])[0]
    assert np.isclose(alike, theirs.dirichlet_multinomial.logpmf(x, np.full(3, 1.5), 6))
    if SCIPY >= (1, 16):  # before, solve_triangular takes one matrix
        many = ft.jvp(lambda x: stats.matrix_normal.logpdf(x, np.zeros((2, 3))), (wide,), (wide,))[0]  # not their sum
        assert np.allclose(many, theirs.matrix_normal.logpdf(wide, np.zeros((2, 3))))
    for law in ("wishart", "invwishart"):
        with pytest.raises(ValueError, match="not met"):
            traced(lambda c: getattr(stats, law).logpdf(c, 0.7, np.eye(2)), np.eye(2))
        with pytest.raises(ValueError, match=r"2 axes.*\n.*\n.*vmap"):  # SciPy has many along the last axis; ones among which are these
            traced(lambda c: getattr(stats, law).logpdf(c, 4.0, np.eye(2)), [[[9.0, 1.0], [3.0, 2.0]], [[3.0, 1.0], [2.0, 9.0]]])


def test_summaries_at_the_ends_of_what_they_take(stats):
    for mean in (stats.hmean, lambda x: stats.pmean(x, 2)):
        assert np.isnan(traced(mean, [1.0, -1.0, 2.0])[0])
        assert np.isfinite(traced(mean, [1.0, 0.5, 2.0])[0])
    for same in (0.7, 2.0):  # the mean resultant length is a bit more than 1
        spread, slope = traced(stats.circstd, np.full(7, same))
        assert spread < 1e-6 and np.isfinite(slope).all()
    assert np.array_equal(traced(lambda u: stats.energy_distance(u, np.arange(4.0)), np.arange(4.0))[1], np.zeros(4))
    assert traced(lambda x: stats.trim_mean(x, 0.25), [1.0, np.inf, 3.0, 4.0])[0] == 3.5
    assert np.isnan(traced(lambda x: stats.trim_mean(x, 0.25), [1.0, np.nan, 3.0, 4.0])[0])
    for extreme in (lambda x: stats.tmin(x, 0.0), lambda x: stats.tmax(x, 9.0)):
        assert np.isnan(traced(extreme, [1.0, np.nan, 2.0])[0])


def test_tests_of_samples_over_all_axes_at_once(stats):
    x, y = RNG.normal(size=(2, 3, 5))
    for test in (lambda s, x, y, **how: s.pearsonr(x, y, **how), lambda s, x, y, **how: s.f_oneway(x, y, **how)):
        assert np.allclose(ft.vjp(lambda x: test(stats, x, y, axis=None), x)[0], test(theirs, x.ravel(), y.ravel()))


@pytest.mark.parametrize("name", ["boxcox", "yeojohnson"])
def test_a_transform_without_its_parameter_says_that_it_is_wanted(stats, name):
    with pytest.raises(errors.UnsupportedError, match="Pass lmbda"):
        traced(lambda x: getattr(stats, name)(x)[0], [1.0, 2.0, 3.0])


ENDS = {
    "burr": (0.0, (2.0, 0.5)), "exponweib": (0.0, (2.0, 0.5)), "genextreme": (1.0, (1.0,)), "genhalflogistic": (1.0, (1.0,)),
    "genpareto": (1.0, (-1.0,)), "loglaplace": (0.0, (1.0,)), "mielke": (0.0, (1.0, 2.3)), "rdist": (-1.0, (2.0,)), "triang": (1.0, (1.0,)),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_densities_that_do_not_vanish_at_an_end_are_what_they_are_nearby(stats, name):
    x, shapes = ENDS[name]
    for method in ("pdf", "logpdf"):
        f = lambda x, method=method: getattr(getattr(stats, name), method)(x, *shapes)
        near = getattr(getattr(theirs, name), method)(x + {0.0: 1e-18, -1.0: 1e-9, 1.0: -1e-9}[x], *shapes)
        for found in (ft.vjp(f, x)[0], ft.vmap(f)(np.array([x]))[0], ft.jit(lambda x, f=f: f(x * 1.0))(x)):
            np.testing.assert_allclose(found, near, rtol=1e-7, atol=1e-7)


@pytest.mark.usefixtures("random_state")
def test_a_distribution_is_taken_for_scipys_by_scipy(stats):
    x = np.array([0.4, 1.7, 0.9, 3.1, 2.2])
    assert isinstance(stats.norm, theirs.rv_continuous) and isinstance(stats.poisson, theirs.rv_discrete)
    assert isinstance(stats.norm(1.0), theirs.distributions.rv_frozen)
    for f in (
        lambda m: m.fit(m.poisson, np.array([2, 3, 1, 4]), {"mu": (0, 5)}).params.mu.round(3),
        lambda m: m.ppcc_max(x, dist=m.tukeylambda),
        lambda m: (m.norm().args, m.norm(1.0, scale=2.0).kwds, m.norm(1.0, 2.0).dist.name, m.beta(2.0, 3.0, 1.0, 4.0).b),
        lambda m: pickle.loads(pickle.dumps(m.norm(1.0, 2.0))).interval(0.9),
    ):
        assert f(stats) == f(theirs)
