"""After `install()`: SciPy's own distributions and functions take traced values, also where their names were imported before."""

import pickle
import subprocess
import sys

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
from functrace.testing import check_grads


@pytest.fixture
def installed(stats):
    fsp.install()
    yield stats
    fsp.uninstall()


def test_submodules_are_attributes():
    """Of a fresh interpreter: no other test has imported them."""
    code = "import functrace as ft; print(ft.grad(ft.scipy.special.gammaln)(1.0), 'special' in dir(ft.scipy), hasattr(ft.scipy, 'specail'))"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert float(out[0]) == pytest.approx(-np.euler_gamma)
    assert out[1:] == ["True", "False"]


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


def test_what_is_not_covered_does_not_ask_for_what_was_done(installed):
    with pytest.raises(ft.errors.ConversionError) as caught:
        ft.grad(lambda x: theirs.norm.fit(x)[0])(np.ones(3))
    assert "call functrace.scipy.install()" not in str(caught.value)
    assert "functrace.custom_vjp" in str(caught.value)


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


def test_rotations_of_traced_values_are_ours(installed):
    from scipy.spatial.transform import Rotation

    fixed, points, v = Rotation.from_euler("xz", [0.2, 0.3]), np.arange(6.0).reshape(2, 3), np.array([0.1, 0.2, 0.3])

    def f(v):
        turn = fixed * Rotation.from_rotvec(v) * fixed
        assert isinstance(turn, Rotation)
        return np.sum(turn.apply(points)[:, 0] ** 2) + turn.magnitude()

    assert np.isclose(ft.vjp(f, v)[0], f(v), rtol=1e-13) and type(Rotation.from_rotvec(v)) is type(fixed)
    check_grads(f, v, order=2)
    np.testing.assert_allclose(ft.jit(ft.grad(f))(v), ft.grad(f)(v))
    if type(fixed).__flags__ & 1 << 9:  # a class that can be changed
        np.testing.assert_allclose(ft.jacobian(fixed.apply)(v), fixed.as_matrix())
    fsp.uninstall()
    assert not hasattr(type(fixed), "functrace") and np.allclose(fixed.apply(v), fixed.as_matrix() @ v)
