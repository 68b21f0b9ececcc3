"""Keywords in odd company: what NumPy and SciPy give for them, or their error; by name and by position."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace.testing import check_grads
from tests.helpers import OLD

RNG = np.random.default_rng(5)
P, V = RNG.permutation(np.linspace(0.45, 1.9, 12)).reshape(3, 4), RNG.normal(size=4)
CUBE, SINGLE, COMPLEX = RNG.normal(size=(2, 3, 4)), RNG.normal(size=4).astype(np.float32), RNG.normal(size=(3, 4)) + 1j * P
MASK, ABSENT = P > 1, inspect.signature(np.max).parameters["keepdims"].default


def outcome(f, x):
    try:
        return f(x)
    except Exception as error:
        return next(t for t in (TypeError, ValueError, IndexError, Exception) if isinstance(error, t))


CALLS = [
    *((f"np.{f}(x, where=MASK)", V) for f in ("sum", "prod", "mean", "var", "std", "nansum", "nanmean", "any", "all")),
    *((f"np.{f}(x, axis=0, initial=0.5, where=MASK)", V) for f in ("max", "min", "sum", "prod", "nanmax")),
    *((f"np.{f}(x, where=MASK.astype(int))", P) for f in ("sum", "prod", "mean", "std", "nansum", "nanvar")),
    *((f"np.{f}(x, where=False)", P) for f in ("sum", "prod", "nansum", "any")),
    *((f"np.{f}(x, initial=np.float64(2))", SINGLE) for f in ("sum", "prod", "max", "min", "nansum", "nanmax", "nanprod")),
    *((f"np.{f}(x, initial={i})", SINGLE) for f in ("sum", "prod", "max") for i in ("1j", "[1.0]", "np.ones(4)")),
    *((f"np.{f}(x, None, None, ABSENT, 2.5)", P) for f in ("max", "min", "nanmax", "nanmin")),
    *((f"np.{f}(x, None, None, None, ABSENT, ABSENT)", P) for f in ("sum", "prod", "nansum", "nanprod")),
    *((f"np.{f}(x, None, None, None, ABSENT)", P) for f in ("mean", "nanmean")),
    *((f"np.{f}(x, dtype={d})", COMPLEX) for f in ("var", "std", "nanvar", "nanstd") for d in ("float", "np.float32", "complex")),
    *((f"np.{f}(x, dtype=complex, axis=1)", P) for f in ("var", "nanstd")),
    *((f"np.{f}(x, dtype=int)", P) for f in ("nanmean", "nanvar", "nanstd")),
    *((f"np.{f}(x, axis=0)", np.float64(0.3)) for f in ("mean", "nanmean", "sum")),
    *(
        (f"np.{f}.reduce(x, {how})", CUBE)
        for f in ("logaddexp", "hypot", "fmax", "subtract")
        for how in ("axis=()", "axis=None", "axis=(0, 2), keepdims=True", "axis=(2, 0), initial=0.5", "axis=1, initial=0.1, where=CUBE > 0")
    ),
    ("np.logaddexp.reduce(x, axis=(0, 2), where=CUBE > 0)", CUBE),
    *((f"np.{f}([x, np.ones(4, int)], {how})", V) for f in ("concatenate", "stack", "hstack", "vstack") for how in
      ("dtype='i8'", "casting='no'", "dtype='f4', casting='safe'", "dtype='f4'")),
    *((f"np.{f}(x, dtype={d})", P) for f in ("cumsum", "cumprod", "nancumsum", "nancumprod", "prod", "nanprod") for d in ("bool", "np.int8")),
    *((f"np.{f}(x, 0, dtype={d})", P) for f in ("maximum.accumulate", "multiply.accumulate", "multiply.reduce") for d in ("bool", "int")),
    *((f"np.{f}.accumulate(x, {axis})", V) for f in ("add", "logaddexp", "subtract") for axis in ("(0,)", "None", "(-1,)", "()")),
    *((f"np.multiply.reduceat(x, [0, 2], {how})", P) for how in ("(-1,)", "axis=1, dtype=bool", "None")),
    *((f"np.{f}(x, keepdims=ABSENT)", P) for f in ("argmax", "argmin", "nanargmax", "nanargmin")),
    *((f"np.{f}, axis={axis})", np.float64(0.3)) for f in ("take(x, [0, 0]", "repeat(x, 2") for axis in (0, -1, 1)),
    *((f"np.exp(x, casting={how!r})", SINGLE) for how in ("no", "unsafe", "never")),
    *((f"np.add(x, SINGLE, casting={how!r})", V) for how in ("no", "equiv", "safe")),
    *((f"np.fft.{f}(x, s=(4, -1), axes=(0, 1))", P) for f in ("irfft2", "irfftn", "rfftn", "fft2")),
    *((f"np.{f}(x, np.ones(1))", P) for f in ("vecdot", "linalg.vecdot")),
    *((f"np.{f}(x, np.ones((4, 4)), {how})", V) for f in ("matvec", "vecmat") if hasattr(np, f) for how in ("axis=0", "keepdims=True")),
    *((f"np.polymul({pair})", V) for pair in ("x, [0.0]", "x, []", "x * 0, x", "x[:, None], x", "x, np.ones((2, 2))")),
    ("np.bincount([0, 1, 1, 2], x + 1j)", V),
    ("np.interp(x, x + 1j, x)", V),
    ("np.searchsorted(np.ones((2, 4)), x, sorter=[0, 1])", V),
    ("np.cov(COMPLEX, aweights=x + 1j)", abs(V)),
    ("np.cov(x, rowvar=False, bias=True)", P[:1]),
    *((f"np.quantile([1, 5, 2, 7], x, {how})", V**2 / 9) for how in ("method='lower'", "method='linear'")),
    ("np.trapezoid(x, P)", V),
    *((f"np.linalg.lstsq(x, {b}, rcond=None)[0]", P.astype(np.float32)) for b in ("V[:3]", "SINGLE[:3]", "np.arange(3, dtype='i1')")),
    ("np.linalg.matrix_power(x * np.inf, 0)", P[:, :3]),
    *((f"np.logical_{f}(x, {how})", P) for f in ("or.accumulate", "and.reduce", "or.reduce") for how in ("0", "-1")),
    *((f"np.logical_{f}.reduce(x, initial={start}, where=MASK)", P) for f in ("and", "or") for start in (0, 2.0)),
    *((f"np.arctan2.{f}, -1)", COMPLEX[..., :1]) for f in ("accumulate(x", "reduceat(x, [0]")),
    *((f"np.clip(x, {bounds}, {how})", P) for bounds in ("None, 0.5", "-0.5, 1", "None, None")[:2 if OLD else 3] for how in
      ("dtype='f4'", "dtype=int", "casting='no'", "subok=False", "dtype=int, casting='unsafe'")),
    ("np.power(True, x, dtype='f2', casting='unsafe')", SINGLE),
    ("np.take(x, [])", V),
    ("np.gradient(x, edge_order=0)", V),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("call, x", CALLS, ids=[call for call, _ in CALLS])
def test_a_keyword_gives_what_numpy_gives_or_raises_as_it_does(call, x):
    f = eval(f"lambda x: {call}", globals())  # noqa: S307
    want, got = outcome(f, x), outcome(lambda x: ft.vjp(f, x)[0], x)
    if isinstance(want, type):
        assert got is want
        return
    assert got.dtype == want.dtype
    single = np.result_type(want.dtype, x.dtype).itemsize in (4, 8) and want.dtype != np.float64
    np.testing.assert_allclose(got, want, rtol=1e-5 if single else 1e-12)
    if want.dtype.kind == "f" and x.dtype == np.float64 and np.isfinite(want).all() and "edge_order=0" not in call and not single:
        check_grads(f, x)
    tangent = ft.jvp(f, (x,), (np.ones_like(x),))[1]
    assert tangent.shape == want.shape
    assert tangent.dtype == want.dtype or want.dtype.kind not in "fc"


@pytest.mark.parametrize("cast", [fnp.array, fnp.asarray, np.maximum.accumulate, np.add.accumulate, np.cumprod])
@pytest.mark.parametrize("dtype", [int, bool, np.int8])
def test_what_becomes_an_integer_has_no_derivative(cast, dtype):
    f = lambda x: cast(x, dtype=dtype) * 1.0
    value, tangent = ft.jvp(f, (V,), (V,))
    np.testing.assert_array_equal(value, getattr(np, cast.__name__, cast)(V, dtype=dtype) * 1.0)
    assert not np.any(tangent)
    assert not np.any(ft.grad(lambda x: f(x).sum())(V))


@pytest.mark.parametrize("short", [np.int8, np.uint8, np.int16, np.float16, np.float32])
@pytest.mark.parametrize("power", [np.power, np.float_power])
def test_derivatives_of_powers_are_as_precise_as_the_result(power, short):
    base, exponent, x = np.array([2, 3, 5], short), np.array([3, 2, 1], short) / short(1 if np.dtype(short).kind in "iu" else 7), abs(V[:3])
    np.testing.assert_allclose(ft.jvp(lambda y: power(base, y), (x,), (x,))[1], x * base**x * np.log(base.astype(float)), rtol=1e-14)
    n = exponent.astype(float)
    np.testing.assert_allclose(ft.jvp(lambda y: power(y, exponent), (x,), (x,))[1], n * x**n, rtol=1e-14)
    np.testing.assert_allclose(ft.grad(lambda y: power(-2.0, y + 0j).real)(0.5 + 0j), (-2 + 0j) ** 0.5 * np.log(-2 + 0j), rtol=1e-14)


@pytest.mark.parametrize("transform", [ft.jit, lambda f: lambda x: ft.tree.map(lambda y: y[0], ft.vmap(f)(x[None]))])
@pytest.mark.parametrize(
    "call",
    ["np.nanmax(x)", "np.nanmin(x, axis=0, initial=2)", "np.histogram(x, 3)[1]", "np.pad(x, 2, mode='linear_ramp')", "np.nanmax(x > 0)"],
)
def test_traced_integers(call, transform):
    f, x = eval(f"lambda x: {call}", globals()), np.array([[-7, 3, 0], [5, -2, 9]], np.int8)  # noqa: S307
    got, want = transform(f)(x), f(x)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-15)


def test_a_python_number_may_stand_where_numpy_crashes_when_asked_for_dtypes():
    assert ft.grad(lambda x: np.multiply(x, 3, casting="equiv").sum())(V).tolist() == [3.0] * V.size


def test_a_tangent_has_the_dtype_and_the_shape_of_its_value():
    value, tangent = ft.jvp(lambda x: np.where(MASK, x, np.float64(1)), (np.float32(2),), (np.float32(1),))
    assert value.dtype == tangent.dtype == np.float64
    assert np.array_equal(tangent, MASK)
    assert ft.jvp(lambda x: np.where(True, P, x), (P[:, :1],), (P[:, :1],))[1].shape == P.shape


@pytest.mark.parametrize(
    "call",
    ["np.put(x, [0], [5.0])", "x.put([0], [5.0])", "x.sort()", "x.partition(1)", "x.compress([True, False])", "np.sort(x)", "np.pad(x, 1)"],
)
def test_what_is_imported_late_is_there_for_the_first_who_asks(call):
    code = f"import numpy as np, functrace as ft\n\ndef f(x):\n    x = x * 1.0\n    {call}\n    return x\n\nprint(ft.vmap(ft.grad(lambda x: f(x).sum()))(np.ones((2, 2))).shape)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "(2, 2)", done.stderr


# SciPy


@pytest.fixture(scope="module")
def fsp():
    """Imported late: `test_sweep` collects what NumPy has."""
    scipy = pytest.importorskip("functrace.scipy")
    from functrace.scipy import fft, integrate, interpolate, linalg, stats  # noqa: F401

    return scipy


A, B = RNG.normal(size=(3, 3)) + 4 * np.eye(3), RNG.normal(size=3)
POSITIONS = [
    ("solve", (A, B, False, False, False, True, "gen", True)),
    ("solve", (A, B, True, False, False, True, "pos")),
    ("qr", (A, False, None, "r")),
    ("qr", (A, False, None, "economic", True)),
    ("rq", (A, False, None, "r")),
    ("lu", (A, False, False, True, True)),
    ("eig", (A, None, False, True, False, False, True, True)),
    ("svd", (A[:, :2], False, False)),
    ("solve_triangular", (A, B, 1, True, True, False, False)),
    ("norm", (A, 1, 0, True, False)),
    ("lstsq", (A, B, None, False, False, True, "gelsy")),
    ("pinvh", (A @ A.T, None, None, False, False, False)),
    ("cho_solve", ((np.linalg.cholesky(A @ A.T), True), B, False, False)),
    ("inv", (A, False, False)),
    ("cholesky", (A @ A.T, True, False, False)),
]


@pytest.mark.filterwarnings("ignore:scipy.linalg.*lwork:DeprecationWarning")
@pytest.mark.parametrize("name, args", POSITIONS, ids=[f"{name}{len(args)}" for name, args in POSITIONS])
def test_arguments_of_linear_algebra_by_position(fsp, name, args):
    import scipy.linalg

    own = getattr(scipy.linalg, name)
    by_name = dict(zip(inspect.signature(own).parameters, args))
    want = ft.tree.leaves(own(*args))
    moving = 0 if isinstance(args[0], np.ndarray) else 1
    for f in (
        lambda x: getattr(fsp.linalg, name)(*args[:moving], x, *args[moving + 1 :]),
        lambda x: getattr(fsp.linalg, name)(**by_name | {list(by_name)[moving]: x}),
    ):
        try:
            got = ft.tree.leaves(ft.vjp(f, args[moving])[0])
        except ft.errors.UnsupportedError:
            assert name in ("eig", "lu", "lstsq")  # which keywords have no rule
            continue
        assert len(got) == len(want) or name == "lstsq"
        for g, w in zip(got[:1] if name == "lstsq" else got, want):
            np.testing.assert_allclose(g, w, rtol=1e-10, atol=1e-12)


def test_a_keyword_that_scipy_does_not_have_raises(fsp):
    for call in (lambda a: fsp.linalg.qr(a, mod="r"), lambda a: fsp.linalg.solve(a, B, assume="pos"), lambda a: fsp.linalg.det(a, 1, 2, 3)):
        with pytest.raises(TypeError):
            ft.vjp(call, A)
    for call in (lambda a: fsp.linalg.qr(a, mode="econ"), lambda a: fsp.linalg.rq(a, mode="reduced")):
        with pytest.raises(ft.errors.UnsupportedError, match="mode"):
            ft.vjp(call, A)


@pytest.mark.parametrize(
    "options", [{"initial": 2.0}, {"axis": 0, "initial": np.arange(4.0)[None]}, {"x": np.cumsum(P[0]), "initial": 0}, {"axis": 0}]
)
def test_cumulative_simpson_adds_what_it_begins_with(fsp, options):
    import scipy.integrate

    f = lambda y: fsp.integrate.cumulative_simpson(y, **options)
    np.testing.assert_allclose(ft.vjp(f, P)[0], scipy.integrate.cumulative_simpson(P, **options), rtol=1e-12)
    check_grads(f, P)
    with pytest.raises(ValueError, match="initial"):
        ft.vjp(lambda y: fsp.integrate.cumulative_trapezoid(y, initial=2.0), P)


def test_corrections_of_small_samples(fsp):
    import scipy.stats

    for n in (2, 3, 4):
        for name in ("skew", "kurtosis"):
            got = ft.vjp(lambda x, name=name: getattr(fsp.stats, name)(x, bias=False), V[:n])[0]
            np.testing.assert_allclose(got, getattr(scipy.stats, name)(V[:n], bias=False), rtol=1e-10, atol=1e-12)


def test_interpolants_and_transforms_refuse_an_axis_that_is_not_there(fsp):
    t = np.arange(4.0)
    for call in (
        lambda y: fsp.interpolate.PchipInterpolator(t, y, 1),
        lambda y: fsp.interpolate.krogh_interpolate(t, y, 0.5, axis=2),
        lambda y: fsp.fft.dct(y, axis=1),
    ):
        with pytest.raises((ValueError, IndexError), match="axis 1|axis 2"):
            ft.vjp(call, V)
    with pytest.raises(ValueError, match="cannot be negative"):
        ft.vjp(lambda y: fsp.interpolate.CubicSpline(t, y)(0.5, -1), V)
    import scipy.interpolate

    for der in (-1, 1, [0, 1]):
        got = ft.vjp(lambda y, der=der: fsp.interpolate.pchip_interpolate(t, y, [0.5, 2.2], der), V)[0]
        np.testing.assert_allclose(got, scipy.interpolate.pchip_interpolate(t, V, [0.5, 2.2], der), rtol=1e-12)


@pytest.mark.parametrize("axis", [(0, 1), (2, 0), (0, 1, 2), (-1,), None])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["skew", "kurtosis", "sem", "tsem", "kstat", "entropy", "variation", "iqr"])
def test_statistics_over_several_axes(fsp, name, axis, keepdims):
    import scipy.stats

    if keepdims and "keepdims" not in inspect.signature(getattr(scipy.stats, name)).parameters:
        pytest.skip("this SciPy keeps no axes here")
    options = {"axis": axis} | ({"keepdims": True} if keepdims else {})
    f = lambda x: getattr(fsp.stats, name)(x, **options)
    x = np.random.default_rng(1).permutation(np.linspace(0.3, 2, 24)).reshape(2, 3, 4)  # iqr has kinks at ties
    np.testing.assert_allclose(ft.vjp(f, x)[0], getattr(scipy.stats, name)(x, **options), rtol=1e-9, atol=1e-12)
    check_grads(f, x, order=1)


@pytest.mark.parametrize("options", [{"axis": None}, {"axis": (0, 1), "keepdims": True}, {"axis": 1, "base": 2.0}])
def test_relative_entropy(fsp, options):
    import scipy.stats

    f = lambda p, q: fsp.stats.entropy(p, q, **options)
    for q in (P**2, P[:1])[: 2 if options["axis"] == 1 else 1]:
        np.testing.assert_allclose(ft.vjp(f, P, q)[0], scipy.stats.entropy(P, q, **options), rtol=1e-12)
        check_grads(f, P, q)


def test_logsumexp_of_a_number_is_a_number(fsp):
    from functrace.scipy import special

    for f in (special.logsumexp, lambda x: special.logsumexp(x, b=2.0), lambda x: special.logsumexp(x, axis=())):
        value, slope = ft.jvp(f, (np.float64(0.3),), (np.float64(1),))
        assert np.shape(value) == np.shape(slope) == ()
        assert np.isclose(slope, 1, rtol=1e-14)
    assert np.allclose(ft.vmap(special.logsumexp)(V), V)


@pytest.mark.parametrize("norm", ["norm", "vector_norm"])
def test_a_traced_order_of_a_norm(norm):
    import functrace.numpy as fnp

    f = lambda order, x: getattr(fnp.linalg, norm)(x, ord=order)
    assert np.isclose(ft.vjp(lambda order: f(order, V), 3.0)[0], f(3.0, V))
    check_grads(f, np.float64(3), V)
    with pytest.raises(ft.errors.ArrayStoreError, match=r"Call the function of functrace\.numpy"):
        ft.grad(lambda order: getattr(np.linalg, norm)(V, ord=order))(3.0)  # NumPy looks at the array only


def test_a_traced_value_is_no_string():
    for call in (lambda x: x == "fro", lambda x: x != "fro"):
        for x in (V, np.float64(2)):
            assert np.array_equal(ft.vjp(call, x)[0], call(x))


X, Y = np.random.default_rng(7).normal(size=(2, 8))


@pytest.mark.parametrize(
    "test, keyword",
    [
        (lambda s, x, **kw: s.f_oneway(x, Y, **kw), {"equal_var": False}),
        (lambda s, x, **kw: s.ttest_ind(x, Y, **kw), {"keepdims": True}),
        (lambda s, x, **kw: s.ttest_rel(x, Y, **kw), {"keepdims": True}),
        (lambda s, x, **kw: s.ttest_1samp(x, 0.3, **kw), {"keepdims": True}),
        (lambda s, x, **kw: s.ttest_ind(x, Y, **kw), {"trim": 0.2}),
        (lambda s, x, **kw: s.linregress(x, Y, **kw), {"nan_policy": "omit"}),
        (lambda s, x, **kw: s.jarque_bera(x, **kw), {"keepdims": True}),
        (lambda s, x, **kw: s.power_divergence(np.exp(x), **kw), {"keepdims": True}),
        (lambda s, x, **kw: s.chisquare(np.exp(x), **kw), {"nan_policy": "omit"}),
        (lambda s, x, **kw: s.pointbiserialr(x, Y, **kw), {"keepdims": True}),
    ],
)
def test_tests_refuse_the_keywords_that_they_do_not_honour(stats, test, keyword):
    """As SciPy itself refuses those that it has not yet."""
    (name,) = keyword
    assert np.isfinite(ft.grad(lambda x: test(stats, x)[0])(X)).all()
    with pytest.raises((ft.errors.UnsupportedError, TypeError), match=f"the keyword {name}=|unexpected keyword argument '{name}'"):
        ft.grad(lambda x: np.sum(test(stats, x, **keyword)[0]))(X)


def test_a_line_through_several_samples_is_refused(stats):
    with pytest.raises(ft.errors.UnsupportedError, match="linregress of arrays"):
        ft.grad(lambda x: np.sum(stats.linregress(x, X.reshape(4, 2)).slope))(Y.reshape(4, 2))
