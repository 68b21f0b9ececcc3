"""functrace.scipy's linalg, stats, signal, integrate, optimize, ndimage, interpolate: the sweep, and every public name of SciPy's."""

import importlib
import types
import warnings

import numpy as np
import pytest

import functrace as ft
from docs import support
from functrace import errors, tree
from functrace.ops.registry import TABLE, holds_tracer
from functrace.testing import verify
from tests.helpers import SCIPY

pytestmark = pytest.mark.usefixtures("random_state")
MODULES = ("linalg", "signal", "integrate", "optimize", "interpolate", "ndimage", "fft", "spatial")
# Functions of real numbers, which refuse complex ones; or whose complex vectors have phases that SciPy does not fix.
REAL = (
    "scipy.stats.", "scipy.spatial.", "scipy.interpolate.", "scipy.optimize.", "scipy.integrate.cumulative_", "scipy.integrate.simpson", "scipy.integrate.fixed_quad", "scipy.ndimage.co", "scipy.signal.hilbert",
    "scipy.signal.gausspulse", "scipy.signal.chirp", "scipy.signal.deconvolve", "scipy.signal.wiener", "scipy.linalg.solve_continuous_are", "scipy.linalg.solve_discrete_are",
    "scipy.linalg.null_space", "scipy.linalg.eig_banded", "scipy.linalg.eigvals_banded", "scipy.linalg.eigh",
)  # fmt: skip


# What SciPy 1.18 does otherwise than 1.17, which ours follow: zeros in the unused triangle, another dtype, no half precision.
CHANGED = {"scipy.linalg.cho_factor", "scipy.linalg.eig", "scipy.signal.lfilter_zi", "scipy.signal.sosfilt_zi", "scipy.integrate.simpson"}
if SCIPY < (1, 18):
    CHANGED = set()
if SCIPY < (1, 16):  # which takes no stacks of matrices, computes half precision in double, and warns of complex and of 1-d arguments
    CHANGED = {f"scipy.linalg.{name}" for name in "solve inv logm fractional_matrix_power".split()} | {"scipy.ndimage.affine_transform"}
    CHANGED |= {f"scipy.signal.{name}" for name in "zpk2tf zpk2ss csd welch periodogram coherence".split()}


def module(name):
    """Imported late: `test_sweep` collects what NumPy has."""
    return importlib.import_module(f"functrace.scipy.{name}")


def declared(name):
    module(name)
    return {key: d for key, d in TABLE.items() if key.startswith(f"scipy.{name}.")}


def arrays(x):
    return tree.map(lambda y: y if hasattr(y, "dtype") else np.asarray(y), x)


def dispatched(d):
    """The declaration, whose SciPy function goes to ours for traced arguments, as after `install`."""
    own, ours = d.numpy, getattr(d.function, "__wrapped__", d.function)
    if own is None:
        return d
    real = d.name.startswith(REAL)

    def call(*args, **kwargs):
        if holds_tracer([*args, *kwargs.values()]):
            return ours(*args, **kwargs)
        if real and any(getattr(x, "dtype", np.dtype(float)).kind == "c" for x in args):
            raise TypeError("real numbers only")
        try:  # copies: some of SciPy's loops want arrays that can be written to
            return arrays(own(*(x.copy() if isinstance(x, np.ndarray) else x for x in args), **kwargs))
        except RuntimeError as error:  # how ndimage says that it has no loop for a dtype
            raise TypeError from error

    return d._replace(function=call, numpy=call)


def sweep(declarations):
    checks, failed = 0, {}
    for name, d in declarations.items():
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", category=RuntimeWarning, module="scipy")  # SciPy's own, in half precision
                warnings.filterwarnings("ignore", message="promoting specified output dtype")
                checks += verify(dispatched(d))
        except Exception as error:
            failed[name] = repr(error)
    assert not failed, "\n".join(f"{name}: {error}" for name, error in failed.items())
    return checks


@pytest.mark.parametrize("name", MODULES)
def test_sweep(name):
    declarations = {key: d for key, d in declared(name).items() if key not in CHANGED}
    assert sweep(declarations) > 200


@pytest.mark.parametrize("name", [*MODULES, "stats"])
def test_every_public_name_is_covered_constant_or_refused(name):
    ours, theirs = module(name), importlib.import_module(f"scipy.{name}")
    known = {key.split(".")[2] for key in declared(name)}
    constant = set(support.CONSTANT.get(name, "").split())
    missing = []
    for public in theirs.__all__:
        value = getattr(theirs, public, None)
        if value is None or isinstance(value, types.ModuleType) or isinstance(value, type) and issubclass(value, Exception):
            continue
        if hasattr(value, "rvs") and not isinstance(value, type):  # a distribution: its methods are declared, or raise
            known.add(public)
        if public not in known | constant | set(ours.REFUSED) | set(vars(ours)) | {"gaussian_kde"}:
            missing.append(public)
    assert not missing
    assert not known & set(ours.REFUSED)


@pytest.mark.skipif(SCIPY == (1, 15), reason="SciPy 1.15 takes few of them, and lu_factor's are wrong")
def test_leading_axes_are_batches_of_matrices_where_scipy_takes_them():
    many = set()
    for name, d in declared("linalg").items():
        for sample in d.samples if hasattr(d.function, "__wrapped__") and name not in CHANGED else ():
            args = [np.stack([x, 1.1 * x]) if isinstance(x, np.ndarray) and x.ndim else x for x in sample.args(np.random.default_rng(0))]
            k = next((k for k, x in enumerate(args) if isinstance(x, np.ndarray) and x.ndim), None)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)
                    want = tree.leaves(d.numpy(*args, **sample.kwargs))
                found = ft.vjp(lambda x: d.function(*args[:k], x, *args[k + 1 :], **sample.kwargs), args[k])[0]
            except Exception:  # not all are taken: a right value or an error
                continue
            for ours, theirs in zip(tree.leaves(found), want, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9, err_msg=f"{name} {sample.kwargs}")
            many.add(name)
    assert len(many) > 60


@pytest.mark.parametrize(
    "name, call",
    [
        ("linalg", lambda m, x: m.schur(x)),
        ("signal", lambda m, x: m.find_peaks(x)),
        ("signal", lambda m, x: m.zoom_fft(np.ones(4), x[:1], 3)),
        ("ndimage", lambda m, x: m.label(x)),
        ("interpolate", lambda m, x: m.make_smoothing_spline(np.arange(3.0), x)),
        ("optimize", lambda m, x: m.milp(x)),
        ("stats", lambda m, x: m.rankdata(x)),
        ("stats", lambda m, x: m.norm.fit(x)),
        ("stats", lambda m, x: m.kappa4.pdf(x, 0.3, 0.1)),
        ("stats", lambda m, x: m.vonmises.cdf(x, 0.3)),
        ("stats", lambda m, x: m.vonmises_fisher.pdf(x, np.eye(3)[0], 1.0)),
        ("linalg", lambda m, x: m.eig(x, left=True)),
        ("ndimage", lambda m, x: m.gaussian_filter(x, 1.0, output=np.zeros(3))),
        ("signal", lambda m, x: m.filtfilt([1.0], [1.0, 0.5], x, method="gust")),
        ("stats", lambda m, x: m.zscore(x, nan_policy="omit")),
        ("stats", lambda m, x: m.binom.pmf(1, x, 0.5)),
    ],
)
def test_what_is_not_covered_raises(name, call):
    with pytest.raises(errors.UnsupportedError):
        ft.vjp(lambda x: call(module(name), x), np.eye(3)[0] + np.arange(3.0) if name != "linalg" else np.eye(3))


def test_names_without_traced_values_are_scipys_own():
    import scipy.linalg

    assert np.allclose(module("linalg").schur(np.eye(2))[0], np.eye(2))
    assert module("linalg").hilbert is scipy.linalg.hilbert
    assert module("signal").firwin(3, 0.5).shape == (3,)


@pytest.mark.parametrize("name", [*MODULES, "stats", "spatial.distance"])
def test_scipys_own_function_runs_where_nothing_is_traced(name):
    ours = module(name)
    for path, d in declared(name).items():
        public = path.removeprefix(f"scipy.{name}.")
        if "." not in public and d.numpy is not None and public not in ("splev", "splint"):  # which take splines of ours
            assert getattr(ours, public) is d.function, path
    x = np.random.default_rng(0).normal(size=(30, 3))
    calls = {
        "signal": [lambda m: m.freqs([1.0, 2.0], [1.0, 0.3, 2.0]), lambda m: m.filtfilt([1.0], [1.0, 0.5], x[:, 0], method="gust")],
        "interpolate": [lambda m: m.griddata(x[:, :2], x[:, 2], (0.1, 0.2), "cubic")],
        "optimize": [lambda m: m.linprog([1.0, 2.0], -np.eye(2), -np.ones(2), bounds=(1, None)).ineqlin.marginals],
        "spatial.distance": [lambda m: m.euclidean([1, 0, 0], [0, 1, 0]), lambda m: m.cdist(x, x, lambda u, v: abs(u - v).max())],
    }
    for call in calls.get(name, ()):
        np.testing.assert_array_equal(call(ours), call(importlib.import_module(f"scipy.{name}")))


@pytest.mark.parametrize("name", ["euclidean", "minkowski", "cosine", "chebyshev", "canberra"])
def test_a_list_beside_a_traced_vector(name):
    from scipy.spatial import distance

    x = np.array([0.2, 0.4, 0.1])
    value = ft.vjp(lambda x: getattr(module("spatial.distance"), name)([1.0, 0.0, 0.0], x), x)[0]
    assert np.isclose(value, getattr(distance, name)([1.0, 0.0, 0.0], x))


def test_names_of_scipys_classes_are_there_where_the_class_is_refused():
    from scipy.interpolate import BPoly

    ours, call = module("interpolate").BPoly, ([0.0, 1.0], [[1.0, 2.0], [3.0, 4.0]])
    assert ours.from_derivatives(*call)(0.5) == BPoly.from_derivatives(*call)(0.5)
    with pytest.raises(errors.UnsupportedError, match="BPoly"):
        ft.vjp(lambda c: ours(c, [0.0, 1.0]), np.ones((2, 1)))


@pytest.mark.parametrize("name", ["sqrtm", "logm", "eigvals", "hilbert", "fft"])
def test_a_complex_result_of_a_real_argument_has_a_real_gradient(name):
    f = getattr(module({"hilbert": "signal", "fft": "fft"}.get(name, "linalg")), name)
    x, v, h = np.array([[1.0, 2.0], [-3.0, -4.0]]), np.array([[0.3, -0.2], [0.5, 0.1]]), 1e-6
    out, pullback = ft.vjp(f, x)
    assert out.dtype == complex
    g = (np.arange(out.size) + 1.0).reshape(out.shape) * (1 - 2j)
    (gradient,) = pullback(g)
    assert gradient.dtype == float
    np.testing.assert_allclose(np.sum(gradient * v), np.sum(g * (f(x + h * v) - f(x - h * v)) / (2 * h)).real, rtol=1e-6)


def test_the_derivative_of_a_sum_of_exponentials_is_one_operation_right_at_infinity_too():
    from functrace.scipy.special import logsumexp

    inf, x = np.inf, np.array([0.3, -1.0, 2.0])
    tape = str(ft.trace(ft.grad(logsumexp))(x))
    assert "shares" in tape and "where" not in tape and "isinf" not in tape
    p = np.exp(x) / np.exp(x).sum()
    np.testing.assert_allclose(ft.grad(logsumexp)(x), p, rtol=1e-14)
    np.testing.assert_allclose(ft.hessian(logsumexp)(x), np.diag(p) - np.outer(p, p), atol=1e-15)
    third = ft.jacfwd(ft.hessian(logsumexp))(x)
    np.testing.assert_allclose(third, ft.jacrev(ft.jacrev(ft.grad(logsumexp)))(x), atol=1e-15)
    for special, shares in (([-inf, 0.0, 0.0], [0, 0.5, 0.5]), ([inf, 1.0, inf], [0.5, 0, 0.5]), ([-inf] * 3, [0, 0, 0])):
        row = np.array(special)
        for g in (
            ft.grad(logsumexp),
            ft.jit(ft.grad(logsumexp)),
            ft.grad(np.logaddexp.reduce),
            lambda v: ft.vmap(ft.grad(logsumexp))(v[None])[0],
        ):
            np.testing.assert_array_equal(g(row), shares)
        curved = np.diag(shares) - np.outer(shares, shares) if special[0] == -inf else np.zeros((3, 3))
        np.testing.assert_array_equal(ft.hessian(logsumexp)(row), curved)


def test_the_threshold_of_pinv_is_that_of_each_example():
    import scipy.linalg

    a = np.stack([np.diag(d) for d in ([100.0, 1.0, 0.05], [1.0, 0.5, 0.05], [10.0, 2.0, 1.0])])
    for keywords in ({"atol": 0.7}, {"rtol": 0.06}, {"atol": 0.01, "rtol": 0.3}):
        pinv = lambda x, k=keywords: module("linalg").pinv(x, **k, return_rank=True)
        wanted = [scipy.linalg.pinv(x, **keywords, return_rank=True) for x in a]
        for out in (ft.vmap(pinv)(a), ft.jit(ft.vmap(pinv))(a), ft.vmap(lambda x, f=pinv: ft.vjp(f, x)[0])(a)):
            for found, want in zip(out, zip(*wanted)):
                np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name, rest", [("logm", ()), ("fractional_matrix_power", (0.3,))])
def test_norms_that_scipy_estimates_at_random_draw_nothing_for_jit(name, rest):
    f, x = getattr(module("linalg"), name), np.array([[2.0, 0.3], [0.1, 1.5]])
    jitted = ft.jit(ft.grad(lambda x: np.sum(f(x, *rest))))
    jitted(x)  # and does not warn that it draws random numbers
    np.testing.assert_allclose(jitted(x.T), ft.grad(lambda x: np.sum(f(x, *rest)))(x.T))
    assert jitted.cache_info()["recorded"] == 1
