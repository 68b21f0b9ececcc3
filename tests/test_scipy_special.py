"""functrace.scipy.special: every public name of SciPy's, derivatives against reference values, edges, and how SciPy is reached."""

import subprocess
import sys
from importlib import metadata
from types import ModuleType

import numpy as np
import pytest
import scipy.special as sp

import functrace as ft
import functrace.scipy as fsp
from functrace import errors
from functrace.ops.registry import TABLE
from functrace.testing import check_grads, numerical_jvp, verify
from tests.helpers import in_threads

ALIASES = {"digamma": "psi", "jn": "jv"}  # one function, two names
OTHERS = {"SpecialFunctionWarning", "SpecialFunctionError", "errstate", "geterr", "seterr"}  # no functions of numbers
PUBLIC = sorted({n for n in sp.__all__ if not isinstance(getattr(sp, n), ModuleType)} - OTHERS)


@pytest.fixture(scope="module")
def special():
    """The module, and SciPy with its own functions replaced. Imported late: `test_sweep` collects what NumPy has."""
    from functrace.scipy import special

    fsp.install("special")
    yield special
    fsp.uninstall()


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_right_or_refused(special, name):
    if name in special.REFUSED:
        with pytest.raises(errors.UnsupportedError, match=special.REFUSED[name].split(":")[0]):
            ft.grad(lambda x: getattr(special, name)(x))(1.0)
        with pytest.raises(errors.UnsupportedError, match=name):
            ft.grad(lambda x: getattr(sp, name)(*[x] * getattr(getattr(sp, name), "nin", 1)))(1.0)
        return
    if name == "sinc":
        assert special.sinc is TABLE["sinc"].function
        return
    declared = TABLE[f"scipy.special.{ALIASES.get(name, name)}"]
    found = getattr(special, name)
    assert declared.function in (found, found.__wrapped__)  # a ufunc has its keywords and methods
    if name == "legendre_p" and not metadata.version("scipy").startswith(("1.16.", "1.17.")):
        pytest.skip("SciPy 1.18 gives float64 for float32")
    by_path = declared if isinstance(getattr(sp, name), np.ufunc) else declared._replace(numpy=lambda *a, **k: getattr(sp, name)(*a, **k))
    assert verify(by_path) > 0


# First and second derivative in one argument, to 16 digits; from differences of mpmath's functions in 45 digits.
REFERENCE = [
    ("gammainc", (0.7, 0.2), 0, -0.6211428624919446, 0.9373209801751838),
    ("gammainc", (3.0, 5.0), 0, -0.1136928386877859, -0.05866136487195219),
    ("gammainc", (50.0, 40.0), 0, -0.01982189288222866, 0.004431173054262116),
    ("gammainc", (200.0, 260.0), 0, -1.328495911006208e-5, -3.486922537365641e-6),
    ("gammaincc", (2.5, 12.0), 0, 0.0004054930735868561, 0.0006522209818630232),
    ("betainc", (0.6, 2.5, 0.3), 0, -0.4264505348801776, 0.04147620988813899),
    ("betainc", (0.6, 2.5, 0.3), 1, 0.1125895924671364, -0.05889727524561703),
    ("betainc", (30.0, 12.0, 0.8), 0, -0.01533909118330484, -0.001369084949090048),
    ("betainc", (30.0, 12.0, 0.8), 1, 0.04863112966116401, -0.01863434462352455),
    ("jv", (0.3, 2.0), 0, 0.5335349803622987, -0.9682676232656291),
    ("jv", (2.0, 0.5), 0, -0.07045303513620932, 0.1499586620965929),
    ("jv", (-1.5, 20.0), 0, 0.1067324647254676, 0.4471806738081477),
    ("yv", (1.0, 3.0), 0, -0.4069758966151807, -0.419982445291231),
    ("iv", (0.5, 2.0), 0, -0.7573330617860362, -0.890783071186764),
    ("kv", (0.0, 1.5), 0, 0.0, 0.1128472061497718),
    ("kv", (2.5, 0.1), 0, 4391.969599420877, 16830.59547379039),
    ("struve", (0.4, 1.7), 0, -0.267983796899599, -0.5170925087580943),
    ("modstruve", (0.4, 1.7), 0, -0.7672319051643172, -0.1881721037907598),
    ("hyp0f1", (1.3, 0.8), 0, -0.6159875656773664, 0.9958074778919061),
    ("hyp1f1", (0.7, 1.9, 1.2), 0, 1.08036445796727, 0.4544624548116476),
    ("hyp1f1", (0.7, 1.9, 1.2), 1, -0.4330912292813232, 0.5277326058688775),
    ("hyp2f1", (0.7, 1.3, 2.1, 0.4), 0, 0.3823412150127307, 0.1433028875107003),
    ("hyp2f1", (0.7, 1.3, 2.1, 0.4), 2, -0.1384558852021624, 0.152632097806819),
    ("eval_legendre", (2.3, 0.4), 0, -0.3049213611704761, 0.6087703507091345),
    ("eval_jacobi", (3.0, 0.4, 0.7, 0.2), 1, -0.47952, -0.01439999999999998),
    ("eval_genlaguerre", (2.4, 0.6, 1.1), 1, 0.8086153047893607, 1.290864325224627),
    ("zeta", (2.5, 0.8), 0, -0.02955338636664959, 0.6809174766816812),
    ("zetac", (2.5,), 0, -0.38734195032621, 0.5819689270420682),
    ("zetac", (-2.5,), 0, -0.006265736372189758, -0.0337977180364223),
    ("ellipkinc", (1.2, 0.0), 1, 0.2155671024311061, 0.1875030456270692),
    ("ellipkinc", (4.0, 0.7), 1, 3.09346878768238, 10.6805702049909),
    ("ellipeinc", (1.2, 0.0), 1, -0.2155671024311061, -0.06250101520902305),
    ("ellipk", (0.0,), 0, 0.3926990816987242, 0.4417864669110647),
    ("ellipe", (0.0,), 0, -0.3926990816987242, -0.1472621556370216),
    ("elliprf", (0.0, 1.0, 2.0), 1, -0.2995350586838981, 0.327757194286515),
    ("elliprj", (0.3, 0.3, 0.3, 0.3), 3, -12.17161238900369, 57.96005899525568),
    ("elliprg", (0.5, 1.0, 2.0), 0, 0.1829559960106216, -0.08320250251515608),
    ("elliprc", (1.0, 1.0), 1, -0.3333333333333333, 0.4),
    ("agm", (1.0, 1.0), 0, 0.5, -0.125),
    ("stdtr", (3.0, -2.0), 0, -0.01525548152565501, 0.009534425966934194),
    ("stdtr", (3.0, 8.0), 0, 0.00246501337329094, -0.003370592295690173),
    ("exprel", (0.0,), 0, 0.5, 0.3333333333333333),
    ("boxcox", (2.0, 0.0), 1, 0.2402265069591007, 0.1110082173296432),
    ("spence", (1.0,), 0, -1.0, 0.5),
    ("rgamma", (-2.0,), 0, 2.0, -3.691137340393869),
    ("psi", (0.3,), 0, 12.24536454610773, -75.27253658872604),
    ("erfcx", (40.0,), 0, -0.0003522884252874839, 1.75979437569139e-5),
    ("dawsn", (50.0,), 0, -0.0002001201201683031, 8.00961442694064e-6),
    ("log_ndtr", (-20.0,), 0, 20.04975306852785, -0.9975367383849478),
    ("kolmogorov", (0.8,), 0, -1.627024345636592, 1.718665468455967),
    ("chndtr", (884.8, 900.0, 21.5), 0, 0.006627987362043175, 0.0001268346945000895),
    ("chndtr", (1500.0, 1500.0, 21.5), 0, 0.00675316441331395, 4.322191909115531e-5),
    ("chndtr", (2.0, 1.5, 0.9), 1, -0.1876219085330317, 0.004065278020725588),
]


@pytest.mark.parametrize("name, args, k, first, second", REFERENCE)
def test_derivatives_have_the_reference_values(special, name, args, k, first, second):
    f = getattr(special, name)
    assert ft.grad(f, k)(*args) == pytest.approx(first, rel=1e-11, abs=1e-14)
    assert ft.grad(ft.grad(f, k), k)(*args) == pytest.approx(second, rel=2e-9)


# name, arguments, which of them, the derivative: where a formula divides by zero and the function does not
EDGES = [
    ("xlogy", (0.0, 0.0), 0, 0.0),
    ("xlogy", (0.0, 0.0), 1, 0.0),
    ("xlogy", (0.0, 2.0), 0, np.log(2)),
    ("xlogy", (0.0, 2.0), 1, 0.0),
    ("xlog1py", (0.0, -1.0), 1, 0.0),
    ("entr", (0.0,), 0, np.inf),
    ("rel_entr", (0.0, 0.0), 0, 0.0),
    ("rel_entr", (0.0, 0.0), 1, 0.0),
    ("kl_div", (0.0, 0.0), 0, 0.0),
    ("kl_div", (0.0, 1.0), 1, 1.0),
    ("gammainc", (1.0, 0.0), 1, 1.0),
    ("gammainc", (3.0, 0.0), 0, 0.0),
    ("gammainc", (3.0, 0.0), 1, 0.0),
    ("betainc", (1.0, 1.0, 0.0), 2, 1.0),
    ("betainc", (1.0, 1.0, 1.0), 2, 1.0),
    ("betainc", (2.0, 3.0, 0.0), 0, 0.0),
    ("betainc", (2.0, 3.0, 1.0), 1, 0.0),
    ("jv", (0, 0.0), 1, 0.0),
    ("jv", (1, 0.0), 1, 0.5),
    ("i1", (0.0,), 0, 0.5),
    ("beip", (0.0,), 0, 0.5),
    ("spherical_jn", (1, 0.0), 1, 1 / 3),
    ("rgamma", (-3.0,), 0, -6.0),
    ("binom", (3.0, 5.0), 0, -0.05),
    ("poch", (0.0, 2.0), 0, 1.0),
    ("ellipk", (0.0,), 0, np.pi / 8),
    ("elliprc", (1.0, 1.0), 0, -1 / 6),
    ("inv_boxcox", (0.5, 0.0), 1, -np.exp(0.5) / 8),
    ("stdtr", (3.0, 0.0), 0, 0.0),
    ("log_ndtr", (-1e4,), 0, 1e4 + 1e-4),
    ("log_ndtr", (40.0,), 0, 0.0),
    ("voigt_profile", (0.5, 0.0, 1.0), 1, 0.0),
    ("chndtr", (2.0, 2.0, 0.0), 2, -0.5 * np.exp(-1)),
    ("kolmogorov", (0.0,), 0, 0.0),
    ("boxcox", (0.0, 2.0), 1, 0.25),
    ("boxcox", (0.0, -1.0), 1, np.inf),
    ("berp", (1e-6,), 0, -1.875e-13),
    ("binom", (0.3, 1e4), 1, 3.32868091780006e-06),
    ("binom", (200.3, 201.9), 1, 3.4491657234515744e-04),
    ("binom", (3.2, -7.7), 0, 1.985632150423108e-04),
    ("eval_legendre", (-3, 0.3), 1, 0.9),
    ("eval_chebyu", (-3, 0.3), 1, -2.0),
    ("eval_sh_chebyu", (-3.0, 0.3), 1, -4.0),
    ("eval_gegenbauer", (-1.0, 0.7, 0.3), 2, 0.0),
    ("eval_jacobi", (0, 0.5, 0.5, -1.0), 3, 0.0),
    ("eval_chebyt", (0.0, -1.0), 1, 0.0),
    ("exprel", (1e20,), 0, np.inf),
]


@pytest.mark.parametrize("name, args, k, want", EDGES)
def test_edges_are_right_in_both_modes(special, name, args, k, want):
    f = getattr(special, name)
    tangents = [float(j == k) for j in range(len(args))]
    with np.errstate(divide="ignore"):
        got = ft.grad(f, k)(*args), ft.jvp(lambda x: f(*args[:k], x, *args[k + 1 :]), (args[k],), (tangents[k],))[1]
    assert got == pytest.approx((want, want), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("name", "chebyt chebyu chebyc chebys sh_chebyt sh_chebyu legendre sh_legendre".split())
@pytest.mark.parametrize("n", [0.0, -1.0, -2.0, -3, 2])
def test_second_derivatives_of_polynomials_of_whole_and_negative_degrees(special, name, n):
    f = lambda x: getattr(special, f"eval_{name}")(n, x)
    (want,) = numerical_jvp(ft.grad(f), [0.3], [1.0])
    assert ft.grad(ft.grad(f))(0.3) == pytest.approx(want, rel=1e-8, abs=1e-10)
    assert ft.grad(f)(0.3) == pytest.approx(numerical_jvp(f, [0.3], [1.0])[0], rel=1e-8, abs=1e-10)


@pytest.mark.parametrize(
    "a, shares",
    [([-np.inf, 0.0, 0.0], [0, 0.5, 0.5]), ([-np.inf, -np.inf], [0, 0]), ([np.inf, 0.0], [1, 0]), ([np.inf, np.inf], [0.5, 0.5])],
)
def test_shares_of_logsumexp_at_infinities(special, a, shares):
    assert ft.grad(special.logsumexp)(np.array(a)).tolist() == shares
    assert ft.jvp(special.logsumexp, (np.array(a),), (np.ones(len(a)),))[1] == sum(shares)


def test_logsumexp_with_zero_weights(special):
    a, b = np.array([0.0, 1.0]), np.array([0.0, 1.0])
    over_a, over_b = ft.grad(lambda a, b: special.logsumexp(a, b=b), (0, 1))(a, b)
    assert over_a.tolist() == [0, 1] and over_b == pytest.approx(np.exp(a - 1))


def test_a_parameter_is_differentiated_at_the_smaller_of_a_function_and_its_complement(special):
    # 1 - 3e-61: differences of gammainc itself would be rounding alone
    assert ft.grad(special.gammainc)(3.0, 150.0) == pytest.approx(-3.349485147443872e-61, rel=1e-9)


def test_whole_arguments_are_refused_by_name(special):
    for f, k in ((special.yn, 0), (special.polygamma, 0), (special.expn, 0), (special.kn, 0)):
        args = [2.0, 3.0]
        for transform in (ft.grad, ft.jacfwd):
            with pytest.raises(
                errors.UnsupportedError, match=rf"{f.__name__.removeprefix('scipy.special.')} has no derivative in argument {k}"
            ):
                transform(f, k)(*args)
    assert np.isfinite(ft.grad(special.yn, 1)(2, 3.0))


def test_a_keyword_that_is_not_honoured_raises(special):
    for call in (
        lambda x: special.gammaln(x, where=False),
        lambda x: special.zeta(x, out=np.zeros(())),
        lambda x: special.comb(x, 2, exact=True),
        lambda x: special.sph_harm_y(2, 1, x, 0.0, diff_n=1),
    ):
        with pytest.raises((errors.UnsupportedError, TypeError)):
            ft.grad(call)(2.5)
    with pytest.raises(errors.UnsupportedError, match="negative"):
        ft.grad(special.elliprj)(1.0, 2.0, 3.0, -0.5)


def test_jacobians_of_functions_with_several_results(special):
    jac = ft.jacrev(lambda x: np.stack(special.airy(x)))(0.5)
    ai, aip, bi, bip = sp.airy(0.5)
    assert jac == pytest.approx(np.array([aip, 0.5 * ai, bip, 0.5 * bi]))
    check_grads(lambda u, m: sum((k + 1) * y for k, y in enumerate(special.ellipj(u, m))), 0.7, 0.3)


def _run(code):
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)


def test_a_ufunc_of_scipy_is_found_though_functrace_scipy_was_never_imported():
    done = _run(
        "import functrace as ft, sys; assert not any(m.startswith('scipy') for m in sys.modules)\n"
        "import scipy.special as s\n"
        "assert ft.grad(s.gammaln)(2.0) == s.psi(2.0)\n"
        "assert ft.vmap(ft.grad(s.erf))(__import__('numpy').zeros(2)).shape == (2,)"
    )
    assert done.returncode == 0, done.stderr


def test_functrace_never_imports_scipy_by_itself():
    done = _run(
        "import functrace as ft, numpy as np, sys\n"
        "try: ft.grad(lambda x: np.frompyfunc(abs, 1, 1)(x))(1.0)\n"
        "except ft.errors.UnsupportedError: pass\n"
        "assert not any(m.startswith('scipy') for m in sys.modules)"
    )
    assert done.returncode == 0, done.stderr


def test_an_array_conversion_inside_scipy_names_the_remedy_and_the_users_line():
    done = _run(
        "import functrace as ft, numpy as np, scipy.special as s\n"
        "try: ft.grad(lambda x: s.logsumexp(x))(np.zeros(2))\n"
        "except ft.errors.ConversionError as e: assert 'functrace.scipy.install()' in str(e) and '<string>:2' in str(e), e\n"
        "else: raise SystemExit('no error')"
    )
    assert done.returncode == 0, done.stderr


def test_install_is_idempotent_and_undone(special):
    fsp.uninstall()
    plain = {name: getattr(sp, name) for name in PUBLIC}
    try:
        fsp.install("special")
        changed = {name for name in PUBLIC if getattr(sp, name) is not plain[name]}
        assert {"logsumexp", "softmax", "polygamma", "zeta", "lambertw"} <= changed
        assert not any(isinstance(plain[name], np.ufunc) for name in changed)
        once = {name: getattr(sp, name) for name in PUBLIC}
        fsp.install("special")
        assert all(getattr(sp, name) is once[name] for name in PUBLIC)
        assert ft.grad(lambda x: sp.logsumexp(x, axis=0)[0])(np.zeros((2, 3))).tolist() == [[0.5, 0, 0], [0.5, 0, 0]]
        assert sp.polygamma(1, 2.0) == plain["polygamma"](1, 2.0)
        fsp.uninstall()
        assert all(getattr(sp, name) is plain[name] for name in PUBLIC)
        fsp.uninstall()
    finally:
        fsp.install("special")


def test_install_in_many_threads_is_one_install(special):
    fsp.uninstall()
    plain = sp.softmax
    try:
        in_threads(lambda _: fsp.install("special"), 8)
        assert sp.softmax is not plain
        fsp.uninstall()
        assert sp.softmax is plain
    finally:
        fsp.install("special")


def test_install_names_what_it_does_not_know():
    with pytest.raises(ValueError, match="'?nonsense'? is not one of"):
        fsp.install("nonsense")


@pytest.mark.parametrize(
    "f, args, wrt, want",
    [
        (sp.gammaincinv, (1.7, 0.0), 0, 0.0),
        (sp.betaincinv, (1.7, 0.4, 0.0), 0, 0.0),
        (sp.betaincinv, (1.7, 0.4, 1.0), 1, 0.0),
        (sp.chdtri, (2.0, 1.0), 0, 0.0),
        (sp.gdtr, (1.7, 0.4, 0.0), 0, 0.0),
        (sp.gdtrix, (1.7, 0.4, 0.0), 0, 0.0),
        (sp.boxcox, (0.0, 1.6), 1, 1.6**-2),
        (sp.boxcox1p, (-1.0, 1.6), 1, 1.6**-2),
        (sp.bdtrik, (0.1, 5.0, 0.1), 0, 0.0),  # 0 is too many already
        (sp.nbdtrik, (0.001, 5.0, 0.9), 2, 0.0),
        (sp.pdtrik, (0.01, 0.3), 1, 0.0),
    ],
)
def test_a_parameter_at_an_end_of_the_range(f, args, wrt, want):
    with np.errstate(divide="ignore"):
        assert np.isclose(ft.grad(f, wrt)(*args), want, rtol=1e-12)
        ts = tuple(np.float64(k == wrt) for k in range(len(args)))
        assert np.isclose(ft.jvp(lambda x: f(*args[:wrt], x, *args[wrt + 1 :]), (np.float64(args[wrt]),), (ts[wrt],))[1], want, rtol=1e-12)


@pytest.mark.parametrize("row", [[1e4, 1e4 + 1, 1e4 + 3], [-np.inf, 0.0, 1.0], [np.inf, 0.0]])
def test_softmax_of_large_and_infinite_float32_is_scipys_to_the_bit(special, row):
    x = np.float32(row)
    for name in ("softmax", "log_softmax"):
        with np.errstate(invalid="ignore"):
            want = getattr(sp, name)(x)
            got = ft.jvp(getattr(special, name), (x,), (np.ones_like(x),))[0]
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("a, x", [(1e-6, 1e-8), (1e-4, 1e-8), (1e-3, 1e-12), (1e-2, 1e-30)])
def test_incomplete_gammas_of_small_parameters_are_differenced_where_they_are_small(a, x):
    # as a series in a, with log(x) and Euler's constant: DLMF 8.7.1 at x = 0 for 1 - P = 1 - x**a / gamma(a + 1), whose x**1 is dropped
    def whole(a):
        return np.exp(a * np.log(x) - sp.gammaln(a + 1))

    first = ft.grad(whole)
    for f, sign in ((sp.gammainc, 1), (sp.gammaincc, -1)):
        assert np.isclose(ft.grad(f)(a, x), sign * first(a), rtol=1e-6)
        assert np.isclose(ft.grad(ft.grad(f))(a, x), sign * ft.grad(first)(a), rtol=2e-5)


@pytest.mark.parametrize("c", [0.0, 0.002, 0.03, 0.2])
def test_characteristic_values_of_spheroids_that_are_nearly_spheres(special, c):
    slope = 6 / 7 * c  # of the series to the second power of c, here of degree 2 and order 1
    assert np.isclose(ft.grad(lambda c: special.pro_cv(1, 2, c))(c), slope, rtol=2e-3, atol=1e-12)
    assert np.isclose(ft.grad(lambda c: special.obl_cv(1, 2, c))(c), -slope, rtol=2e-3, atol=1e-12)


@pytest.mark.parametrize("name", ["mathieu_modcem1", "mathieu_modsem1", "mathieu_modcem2", "pro_ang1", "obl_ang1"])
@pytest.mark.parametrize("q", [0.004, 0.05])
def test_a_parameter_near_the_end_of_its_range(special, name, q):
    args = (3,) if "mathieu" in name else (1, 3)
    f = lambda q: np.array(getattr(sp, name)(*args, q, 0.7))
    got = ft.jvp(lambda q: getattr(special, name)(*args, q, 0.7), (q,), (1.0,))[1]
    assert np.allclose(got, (f(q * 1.001) - f(q * 0.999)) / (q * 0.002), rtol=2e-5)
