"""Derivatives where floating point is hard: arguments tiny and huge, near poles, and pairs so close that differences cancel.

The oracles are closed forms and asymptotic series, most of them evaluated in exact rational or in higher precision arithmetic.
"""

import tracemalloc
import warnings
from fractions import Fraction
from math import pi

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def slopes(f, *args, wrt=0):
    """The first derivative in reverse and forward mode, and the second, reverse over reverse and forward over reverse."""
    g = lambda x: ft.grad(f, wrt)(*args[:wrt], x, *args[wrt + 1 :])
    one = type(args[wrt])(1)
    push = ft.jvp(lambda x: f(*args[:wrt], x, *args[wrt + 1 :]), (args[wrt],), (one,))[1]
    return g(args[wrt]), push, ft.grad(g)(args[wrt]), ft.jvp(g, (args[wrt],), (one,))[1]


def check(f, *args, first, second=None, wrt=0, rtol=1e-10):
    found = slopes(f, *args, wrt=wrt)
    np.testing.assert_allclose(found[:2], first, rtol=rtol)
    if second is not None:
        np.testing.assert_allclose(found[2:], second, rtol=rtol)


# NumPy's functions


@pytest.mark.parametrize("x", [1e20, -1e153, 1e200, 1e300])
def test_inverse_hyperbolic_functions_of_huge_numbers(x):
    check(np.arcsinh, x, first=1 / abs(x), second=-1 / x / abs(x) if abs(x) < 1e150 else None)
    if x > 0:
        check(np.arccosh, x, first=1 / x)


@pytest.mark.parametrize("dtype, x", [(np.float16, 300.0), (np.float32, 1e30)])
def test_squares_that_only_a_wider_dtype_could_hold(dtype, x):
    for f in (np.arcsinh, np.arccosh):
        slope = ft.grad(f)(dtype(x))
        assert slope.dtype == dtype and np.isclose(float(slope), 1 / x, rtol=2e-3)


@pytest.mark.parametrize("keywords", [{}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"where": np.array([True, False])}])
def test_the_mean_of_half_precision_is_summed_in_single(keywords):
    x = np.linspace(1, 2, 140000).astype(np.float16).reshape(70000, 2)  # whose sum is no float16
    wanted = np.mean(x, **keywords)
    for found in (ft.jvp(lambda x: np.mean(x, **keywords), (x,), (x,)), [ft.jit(lambda x: np.mean(x, **keywords))(x)] * 2):
        for y in found:
            assert np.array_equal(y, wanted) and y.dtype == np.float16
    slope = ft.grad(lambda x: np.sum(np.mean(x, **keywords)))(x)
    assert slope.dtype == np.float16 and np.all(np.isfinite(slope))


@pytest.mark.parametrize("gap", [1e-12, 1.7e-9, 3.3e-6])
def test_inverse_functions_near_the_end_of_their_range(gap):
    x = 1 - gap
    square = float(1 - Fraction(x) ** 2)
    check(np.arcsin, x, first=square**-0.5, second=x * square**-1.5, rtol=1e-14)
    check(np.arccos, -x, first=-(square**-0.5), second=x * square**-1.5, rtol=1e-14)
    check(np.arctanh, x, first=1 / square, second=2 * x / square**2, rtol=1e-14)


@pytest.mark.parametrize("x", [-300.0, -40.0, 40.0, 300.0])
def test_the_curvature_of_logaddexp_far_from_the_tie(x):
    curvature = np.exp(-abs(x)) / (1 + np.exp(-abs(x))) ** 2
    for wrt, args in enumerate([(x, 0.0), (0.0, x)]):
        np.testing.assert_allclose(slopes(np.logaddexp, *args, wrt=wrt)[2:], curvature, rtol=1e-12)
    assert np.isclose(ft.hessian(np.logaddexp)(0.0, x), curvature, rtol=1e-12)


@pytest.mark.parametrize("n", [3, 4.0, 5, 7, 9, 10, 2.5, 1.5, 0.5, -0.5, -1, -2.0, -3, -6, -7, -8, -9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_slopes_of_powers_are_right_from_the_least_to_the_largest_numbers(n, dtype):
    top = 80 if dtype is np.float64 else 9
    x = np.geomspace(10.0**-top, 10.0**top, 41).astype(dtype)
    x = np.concatenate([x, -x] if n % 1 == 0 else [x])
    with np.errstate(over="ignore", under="ignore"):
        want = n * x.astype(np.longdouble) ** (n - 1)
        (got,) = ft.vjp(lambda x: x**n, x)[1](np.ones_like(x))
    inside = (np.abs(want) > np.finfo(dtype).tiny * 10) & (np.abs(want) < np.finfo(dtype).max / 10)
    assert inside.sum() > 8
    np.testing.assert_allclose(got[inside], want[inside], rtol=8 * np.finfo(dtype).eps)
    assert np.all(np.abs(got[~inside & (np.abs(want) < 1)]) <= np.finfo(dtype).tiny * 20)


@pytest.mark.parametrize("n", [3, 4.0, 5, 11, -2, -3.0, 10])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whole_powers_of_many_numbers_are_as_precise_as_numpys(n, dtype):
    x = np.concatenate([[0.0, -0.0, np.inf, -np.inf, np.nan], np.random.default_rng(0).normal(size=1000)]).astype(dtype)
    found, pull = ft.vjp(lambda x: x**n, x)
    want = x.astype(np.longdouble) ** n
    np.testing.assert_array_equal(found[:5], x[:5] ** n)
    assert np.array_equal(np.signbit(found), np.signbit(x**n)) and found.dtype == dtype
    np.testing.assert_array_less(np.abs(found - want)[5:], np.spacing(np.abs(found[5:])))
    np.testing.assert_allclose(pull(np.ones_like(x))[0], n * x ** (n - 1), rtol=8 * np.finfo(dtype).eps)
    np.testing.assert_array_less(np.abs((torch.tensor(x) ** n).numpy() - want)[5:], 4 * np.spacing(np.abs(found[5:])))
    compiled, over = ft.jit(lambda x: x**n), ft.vmap(lambda x: x**n)
    np.testing.assert_array_equal(compiled(x), found)
    np.testing.assert_array_equal(compiled(x), found)
    np.testing.assert_array_equal(over(x), found)
    second = ft.jvp(lambda x: ft.vjp(lambda x: x**n, x)[1](np.ones_like(x))[0], (x[5:],), (x[5:],))[1]
    np.testing.assert_allclose(second, n * (n - 1) * want[5:] / x[5:], rtol=1e2 * np.finfo(dtype).eps)


@pytest.mark.parametrize("unit", [1e-200, 1e-100, 1.0, 1e100, 1e200])
@pytest.mark.parametrize("order", [-3, -1, 0.5, 1.5, 3, 10])
def test_norms_of_vectors_whose_powers_over_or_underflow(order, unit):
    x = np.array([3.0, -4.0])
    size = np.abs(x)
    length = np.sum(size**order) ** (1 / order)
    slope = np.sign(x) * (size / length) ** (order - 1)
    for norm in (np.linalg.norm, lambda x, order: np.linalg.norm(x[None], order, axis=1, keepdims=True)[0, 0]):
        value, got = ft.value_and_grad(lambda x: norm(x, order))(x * unit)
        np.testing.assert_allclose(value, unit * length, rtol=1e-13)
        np.testing.assert_allclose(got, slope, rtol=1e-12)
        np.testing.assert_allclose(ft.jvp(lambda x: norm(x, order), (x * unit,), (np.array([1.0, 2.0]),))[1], slope @ [1, 2], rtol=1e-12)


def test_norms_of_nothing_and_of_zeros():
    assert not ft.grad(lambda x: np.linalg.norm(x, 3))(np.zeros(3)).any()
    assert ft.grad(lambda x: np.linalg.norm(x, 3))(np.zeros(0)).shape == (0,)
    np.testing.assert_allclose(ft.grad(lambda x: np.linalg.norm(x, 3))(np.array([0.0, 5.0])), [0, 1])


def test_a_nan_stays_in_its_place():
    a = np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    v = np.array([[1.0, 2.0, np.nan], [1.0, 2.0, 3.0]])
    for f in (np.convolve, lambda a, v: np.convolve(v, a)):
        np.testing.assert_array_equal(ft.vmap(f)(a, v), [f(*pair) for pair in zip(a, v)])
        np.testing.assert_array_equal(ft.vmap(ft.grad(lambda a, v: f(a, v)[0], 1))(a, v), [[1, 0, 0], [5, 0, 0]])


# scipy.special


@pytest.fixture(scope="module")
def sp():
    return pytest.importorskip("functrace.scipy.special", reason="SciPy is an extra")


def harmonic(start, count):
    """psi(start + count) - psi(start)."""
    return float(sum(1 / (Fraction(start) + k) for k in range(count)))


@pytest.mark.parametrize("a", [3.0, 1e3, 1e8, 1e15])
def test_differences_of_digammas(sp, a):
    check(sp.betaln, a, 1.0, first=-1 / a, second=1 / a**2)
    check(sp.betaln, a, 3.0, first=-harmonic(a, 3))
    check(sp.beta, a, 1.0, first=-1 / a**2, second=2 / a**3)
    check(sp.poch, a, 2.0, first=2 * a + 1, second=2)
    check(sp.binom, a, 3.0, first=(3 * a * a - 6 * a + 2) / 6)
    assert np.isclose(ft.grad(sp.betaln)(a, 1e-12), -1e-12 * float(sp.polygamma(1, a)), rtol=1e-10)


@pytest.mark.parametrize("x, m", [(-1.0, 1), (-2.0, 2), (-3.0, 2), (-3.0, 5), (-31.0, 2), (0.0, 3)])
def test_rising_factorials_where_gamma_has_poles(sp, x, m):
    factors = np.poly1d(-np.arange(m, dtype=float), r=True)
    check(sp.poch, x, float(m), first=factors.deriv()(x), second=factors.deriv(2)(x) if m > 1 else None)


def test_beta_where_it_crosses_zero_and_where_its_poles_cancel(sp):
    gamma = lambda x: float(sp.gamma(x))
    check(sp.beta, 0.3, -0.3, first=gamma(0.3) * gamma(-0.3))
    check(sp.beta, 0.3, -1.3, first=-gamma(0.3) * gamma(-1.3), wrt=1)
    check(sp.beta, -2.0, 2.0, first=3 / 4, second=7 / 4)  # 1 / (a (a + 1))
    check(sp.betaln, -1.0, 1.0, first=1.0, second=1.0)  # -log(-a)


@pytest.mark.parametrize(
    "n, k, by_n, by_k",  # differences of products of gamma functions of 60 digits
    [
        (-2.5, 300.3, -1584.2537314482809, -10000.231406461424),
        (-1.5, 1000.0, -245.3114128121423, 0.017834553622386503),
        (-1.5, 1e5, -4095.095990151814, 0.0017841174257166063),
        (-2.5, -300.3, -15720.536285235845, -7199.478215322439),
        (2.5, 300.0, 1.053716544931436e-08, 2.6891889152239527e-11),
        (1e10, -1.5, 4.231421875285853e-26, -6.485178990727039e-15),
    ],
)
def test_binomials_far_outside_of_the_triangle(sp, n, k, by_n, by_k):
    check(sp.binom, n, k, first=by_n, rtol=1e-9)
    check(sp.binom, n, k, first=by_k, wrt=1, rtol=1e-9)


@pytest.mark.parametrize("a", [150.0, 1e8, 1e10, 1e15])
@pytest.mark.parametrize("off", [-3.0, 0.0, 5.0])
def test_the_density_of_a_gamma_law_with_a_large_shape(sp, a, off):
    x = a + off * np.sqrt(a)
    u = float((Fraction(x) - Fraction(a)) / Fraction(a))
    series = sum((-u) ** k / k for k in range(2, 60))  # u - log(1 + u)
    density = np.exp(-a * series - 1 / (12 * a) + 1 / (360 * a**3)) * np.sqrt(a / (2 * pi)) / x
    check(sp.gammainc, a, x, first=density, second=density * ((a - 1) - x) / x if off else None, wrt=1, rtol=1e-9)


@pytest.mark.parametrize("x", [60.0, 1e4, 1e8, 1e16])
def test_scaled_bessel_functions_of_large_arguments(sp, x):
    # DLMF 10.40.1, differentiated: of the functions without their exponential, what would be left of two terms that cancel
    def series(v, sign, power):
        terms, total = 1.0, 0.0
        for k in range(12):
            total += terms * np.prod([-(0.5 + k + j) for j in range(power)]) / x**power
            terms *= sign * (4 * v * v - (2 * k + 1) ** 2) / (8 * (k + 1) * x)
        return total / np.sqrt(x)

    cases = [(sp.i0e, 0, -1), (sp.i1e, 1, -1), (sp.k0e, 0, 1), (sp.k1e, 1, 1)]
    cases += [(lambda z: sp.ive(0.3, z), 0.3, -1), (lambda z: sp.kve(2.5, z), 2.5, 1)]
    for f, v, sign in cases:
        front = np.sqrt(pi / 2) if sign == 1 else np.sqrt(0.5 / pi)
        check(f, x, first=front * series(v, sign, 1), second=front * series(v, sign, 2))
        if f in (sp.i0e, sp.i1e):
            parity = 1 if f is sp.i1e else -1
            np.testing.assert_allclose(slopes(f, -x)[:2], parity * front * series(v, sign, 1), rtol=1e-10)


@pytest.mark.parametrize("x", [1e-300, 1e-20, 1e-8, 1e-4, -1e-3, 0.0])
def test_integrals_of_bessel_functions_near_zero(sp, x):
    check(lambda z: sp.it2i0k0(z)[0], x, first=x / 4 + x**3 / 64, second=1 / 4 + 3 * x * x / 64)
    check(lambda z: sp.it2j0y0(z)[0], x, first=x / 4 - x**3 / 64, second=1 / 4 - 3 * x * x / 64)


@pytest.mark.parametrize("x", [1e-20, 1e-8, 1e-4])
def test_kelvin_functions_near_zero(sp, x):
    slope = -(np.log(x / 2) + np.euler_gamma) / 2 - 0.25  # DLMF 10.65.5
    np.testing.assert_allclose(slopes(sp.keip, x)[:2], slope, rtol=1e-6)
    np.testing.assert_allclose(slopes(lambda x: np.imag(sp.kelvin(x)[3]), x)[:2], slope, rtol=1e-6)


def test_elliptic_integrals_beside_extreme_elements(sp):
    m = np.array([0.3, 0.5, -5.0, -1e300, 1e-300])
    for f in (sp.ellipk, sp.ellipe, lambda m: sp.ellipkinc(0.7, m)):
        twice = lambda m: ft.vmap(ft.grad(ft.grad(f)))(m)
        np.testing.assert_allclose(twice(m)[:3], twice(m[:3]), rtol=1e-10)
    assert np.isclose(ft.grad(sp.agm)(1e200, 2e200), ft.grad(sp.agm)(1.0, 2.0), rtol=1e-12)


@pytest.mark.parametrize("v", [1, 2, 3, 5])
def test_legendre_functions_at_the_ends(sp, v):
    f = lambda x: sp.lpmv(0, v, x)
    for x in (1.0, -1.0):
        check(f, x, first=x ** (v + 1) * v * (v + 1) / 2, second=x**v * (v - 1) * v * (v + 1) * (v + 2) / 8)
    near = 1 - 1e-10
    square = float(1 - Fraction(near) ** 2)
    np.testing.assert_allclose(slopes(lambda x: sp.lpmv(1, 1, x), near)[:2], near / square**0.5, rtol=1e-9)


@pytest.mark.parametrize("x, y", [(1e-300, 1e300), (1e300, 1e-300), (1e-20, 3.0), (1.0, 1 + 2.0**-50)])
def test_entropies_of_numbers_far_apart(sp, x, y):
    log = np.log(x / y) if 0 < x / y < np.inf else np.log(x) - np.log(y)
    np.testing.assert_allclose(slopes(sp.rel_entr, x, y)[:2], log + 1, rtol=1e-12)
    np.testing.assert_allclose(slopes(sp.kl_div, x, y)[:2], log, rtol=1e-12)
    np.testing.assert_allclose(slopes(sp.rel_entr, x, y)[2:], 1 / x, rtol=1e-12)


@pytest.mark.parametrize("d, r", [(1.0, 1e100), (1e100, 1e100), (1e-100, 1.0), (2.0, 3.0)])
def test_losses_and_transforms_of_huge_numbers(sp, d, r):
    h = np.hypot(d, r)
    check(sp.pseudo_huber, d, r, first=r / (h + d) * (r / (h + d)) * (r / h) * r)
    check(sp.pseudo_huber, d, r, first=r * (d / h), wrt=1)
    check(sp.inv_boxcox, r, 1.0, first=r - (1 + r) * np.log1p(r), wrt=1, rtol=1e-9)


# scipy.stats, scipy.signal, scipy.linalg


@pytest.fixture(scope="module")
def stats():
    return pytest.importorskip("functrace.scipy.stats", reason="SciPy is an extra")


@pytest.mark.parametrize(
    "name, x, shapes",
    [
        ("burr", 1e-100, (63.0, 1.3)), ("burr", 1e100, (63.0, 1.3)), ("burr12", 1e6, (63.0, 1.3)), ("burr12", 1e-300, (2.1, 1.3)),
        ("dweibull", 1e20, (48.0,)), ("gengamma", 1e20, (1.4, 51.0)), ("gennorm", 1e-8, (54.0,)), ("invweibull", 1e-8, (51.0,)),
        ("kappa3", 1e20, (48.0,)), ("rice", 1e20, (1.2,)), ("ncx2", 1e20, (2.5, 3.0)), ("beta", 1e-100, (0.0017, 2.4)),
    ],
)  # fmt: skip
def test_powers_that_overflow_leave_no_nan(stats, name, x, shapes):
    law = getattr(stats, name)
    for method in ("pdf", "cdf", "sf"):
        value, got = ft.value_and_grad(getattr(law, method), tuple(range(1 + len(shapes))))(x, *shapes)
        assert np.isfinite(value) and np.isfinite(got).all(), (method, value, got)
        pushed = ft.jvp(getattr(law, method), (x, *shapes), (1.0,) + (0.0,) * len(shapes))[1]
        assert np.isclose(pushed, got[0], rtol=1e-9)
    total = ft.value_and_grad(lambda x: law.cdf(x, *shapes) + law.sf(x, *shapes))(x)
    assert np.isclose(total[0], 1) and np.isclose(total[1], 0, atol=1e-12 * max(1, abs(got[0])))


def test_far_tails_of_burrs_laws(stats):
    for law, x, sign in ((stats.burr, 1e-200, 1), (stats.burr12, 1e200, -1)):
        method = law.logcdf if sign == 1 else law.logsf
        value, (by_x, by_c, by_d) = ft.value_and_grad(method, (0, 1, 2))(x, 5.0, 1.3)
        log = sign * np.log(x)
        np.testing.assert_allclose([value, by_x, by_c, by_d], [6.5 * log, sign * 6.5 / x, 1.3 * log, 5 * log], rtol=1e-12)


def test_quantiles_at_ends_that_move(stats):
    np.testing.assert_allclose(ft.grad(stats.truncnorm.ppf, (1, 2))(1e-300, -0.8, 1.7), [1, 0], atol=1e-15)
    np.testing.assert_allclose(ft.grad(stats.truncnorm.isf, (1, 2))(1e-300, -24.0, 1.7), [0, 1], atol=1e-15)
    assert np.isclose(ft.grad(stats.genextreme.isf, 1)(1e-300, 0.3), -1 / 0.3**2)
    assert np.isclose(ft.grad(stats.genhalflogistic.isf, 1)(1e-300, 0.7), -1 / 0.7**2)


@pytest.mark.parametrize("df", [1e4, 3.4e6, 1e8])
def test_students_law_is_nearly_normal(stats, df):
    z = 0.3
    leading = (z**4 - 2 * z**2 - 1) / 4  # of log(density / normal density) = leading / df + O(df**-2)
    np.testing.assert_allclose(ft.grad(stats.t.logpdf, 1)(z, df), -leading / df**2, rtol=1 / df + 1e-7 * df / 1e8)


def test_rows_with_nan_leave_others_alone():
    signal, linalg = pytest.importorskip("functrace.scipy.signal"), pytest.importorskip("functrace.scipy.linalg")
    nan = np.nan
    out, pull = ft.vjp(lambda h, x: signal.upfirdn(h, x, 2), np.array([1.0, 2.0, 3.0]), np.array([1.0, nan, 2.0, 3.0]))
    np.testing.assert_array_equal(out, [1, 2, nan, nan, nan, 4, 9, 6, 9])
    out, pull = ft.vjp(lambda h: signal.upfirdn(h, np.arange(1.0, 5), 3, 2), np.array([1.0, 2.0, 3.0]))
    cotangent = np.ones(len(out))
    cotangent[0] = nan
    np.testing.assert_array_equal(pull(cotangent)[0], [nan, 6, 4])
    out, pull = ft.vjp(linalg.leslie, np.array([nan, 1.0, 2.0]), np.array([0.5, 0.4]))
    np.testing.assert_array_equal(out, [[nan, 1, 2], [0.5, 0, 0], [0, 0.4, 0]])
    cotangent = np.ones((3, 3))
    cotangent[0, 0] = cotangent[1, 1] = nan
    first, second = pull(cotangent)
    np.testing.assert_array_equal(first, [nan, 1, 1])
    np.testing.assert_array_equal(second, [1, 1])


@pytest.mark.parametrize("wrt", [0, 1, 2])
def test_python_numbers_far_out_on_voigts_profile(sp, wrt):
    call = lambda kind: ft.grad(sp.voigt_profile, wrt)(*map(kind, (30.0, 0.3, 3.0)))
    assert call(float) == call(np.float64) == call(lambda x: np.full((), x))
    x, gamma = 30.0, 3.0  # sigma, gamma << x: gamma / pi / (x**2 + gamma**2), of which sigma**2 / x**2 is left out
    lorentz = (-2 * x * gamma, None, x * x - gamma * gamma)[wrt]
    if lorentz is not None:
        np.testing.assert_allclose(call(float), lorentz / np.pi / (x * x + gamma * gamma) ** 2, rtol=2e-3)


def test_the_step_at_a_python_zero():
    assert ft.grad(np.heaviside, 1)(0.0, 0.5) == 1.0 and ft.grad(np.heaviside, 1)(2.0, 0.5) == 0.0


@pytest.mark.parametrize("x", [[1e-22, 1e-22, 3.0], [1e30, 1e30, 2.0], [np.inf, 2.0, 3.0], [1e-30, 1e-30, 1e30], [1e-20, 0.0, 1e-25]])
def test_products_beyond_the_floats_have_the_slopes_of_their_factors(x):
    """Against the products of all the others in float64, in which nothing overflows: where a product can't be divided by its factors."""
    x = np.array(x, np.float32)
    others = [[np.prod(np.delete(x[:n].astype(float), k)) if k < n else 0.0 for k in range(3)] for n in (1, 2, 3)]
    np.testing.assert_allclose(ft.grad(np.prod)(x), np.float32(others[2]), rtol=1e-6)
    np.testing.assert_allclose(ft.grad(lambda x: np.cumprod(x).sum())(x), np.float32(np.sum(others, axis=0)), rtol=1e-6)


def test_the_spread_of_large_numbers_close_together():
    x = np.array([1e7, 1e7 + 4, 1e7 + 8], np.float32)
    np.testing.assert_allclose(ft.grad(np.std)(x), ft.grad(np.std)(x.astype(float)), rtol=1e-6)
    for f in (np.nanstd, lambda x: np.std(x, where=np.array([True, True, False])), lambda x: np.std(x, where=x > 0)):
        value, gradient = ft.value_and_grad(f)(x)
        assert value == f(x) > 0
        np.testing.assert_allclose(gradient, ft.grad(f)(x.astype(float)), rtol=1e-6)


def test_the_slope_of_fmod_counts_as_fmod_does():
    assert ft.grad(np.fmod, 1)(50.0, 0.1) == ft.grad(np.remainder, 1)(50.0, 0.1) == -499


def test_a_determinant_that_underflows_has_its_cofactors():
    a = np.array([[2.0, 1.0], [1.0, 3.0]])
    np.testing.assert_allclose(ft.grad(np.linalg.det)(1e-200 * a) * 1e200, [[3.0, -1.0], [-1.0, 2.0]])


def test_geometric_steps_over_all_floats():
    for sign in (1.0, -1.0):
        out, pull = ft.vjp(lambda x: np.geomspace(x, sign * 1e200, 3), sign * 1e-200)
        np.testing.assert_allclose(out, np.geomspace(sign * 1e-200, sign * 1e200, 3))
        np.testing.assert_allclose(pull(np.array([0.0, 1e-200, 0.0]))[0], 0.5)


def test_the_middle_of_large_numbers_does_not_overflow():
    assert ft.vjp(np.nanmedian, np.array([1.6e308, np.nan]))[0] == 1.6e308
    halves = np.array([6e4, 6.2e4], np.float16)
    for f in (np.median, np.nanmedian):
        assert ft.vjp(f, halves)[0] == f(halves) == np.float16(6.1e4)


def test_the_cube_root_is_flat_at_infinity_in_every_order():
    first = ft.grad(np.cbrt)
    for f in (first, ft.grad(first), ft.grad(ft.grad(first))):
        assert f(np.inf) == f(-np.inf) == 0
        assert ft.jvp(f, (np.inf,), (1.0,))[1] == 0


def test_a_polynomial_without_coefficients_is_zero_at_infinity():
    assert ft.vjp(lambda x: np.polyval(np.zeros(0), x), np.inf)[0] == np.polyval(np.zeros(0), np.inf) == 0


def test_the_slope_of_i0_takes_the_memory_of_its_argument():
    x, slope = np.linspace(0.0, 700.0, 20_000), ft.grad(lambda x: np.i0(x).sum())
    slope(x[:2])
    tracemalloc.start()
    slope(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * x.nbytes


@pytest.mark.parametrize("ufunc", [np.logaddexp, np.logaddexp2])
def test_shares_of_a_large_sum_add_up_to_one(ufunc):
    np.testing.assert_allclose(ft.grad(ufunc.reduce)(np.full(3, 1e17)), [1 / 3] * 3)


@pytest.mark.parametrize("x", [1e-9, -1e-5, 0.3])
def test_second_derivatives_of_inverse_functions_of_small_numbers(x):
    check(np.arcsin, x, first=1 / np.sqrt(1 - x * x), second=x / (1 - x * x) ** 1.5, rtol=1e-14)
    check(np.arccos, x, first=-1 / np.sqrt(1 - x * x), second=-x / (1 - x * x) ** 1.5, rtol=1e-14)
    check(np.arctanh, x, first=1 / (1 - x * x), second=2 * x / (1 - x * x) ** 2, rtol=1e-14)


@pytest.mark.parametrize("y", [1e-9, 1e-5, 2.0])
def test_the_curvature_of_hypot_where_one_side_is_short(y):
    h = np.hypot(1.0, y)
    check(np.hypot, 1.0, y, first=1 / h, second=y * y / h**3, rtol=1e-14)
    check(np.hypot, 1.0, y, first=y / h, second=1 / h**3, wrt=1, rtol=1e-14)


@pytest.mark.parametrize("f", [np.max, lambda x: np.maximum.accumulate(x)[-1]])
def test_ties_of_half_precision_are_counted_in_single(f):
    x = np.ones(70_000, np.float16)
    np.testing.assert_array_equal(ft.grad(f)(x), np.full(len(x), 1 / len(x), np.float16))
    assert ft.jvp(f, (x,), (x,))[1] == 1


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 2)])
def test_std_of_nothing_has_an_empty_gradient(shape):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, of the mean of nothing
        assert ft.vjp(np.std, np.zeros(shape))[1](1.0)[0].shape == shape


@pytest.mark.parametrize("std", [np.std, np.nanstd])
def test_equal_elements_deviate_from_a_mean_that_is_given(std):
    gradient = ft.grad(lambda x: std(x, mean=np.array([0.0]), where=np.array([True, True])))(np.array([2.0, 2.0]))
    np.testing.assert_allclose(gradient, [0.5, 0.5])
