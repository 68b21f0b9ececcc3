"""What whole programs found: lists of traced indices, derivatives of derivatives over a batch, examples that are special alone."""

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace import errors
from functrace.ops.registry import Declared, Sample
from functrace.testing import numerical_jvp, verify

RNG = np.random.default_rng(7)
X = RNG.normal(size=(3, 4, 4))


def same(a, b, rtol=1e-11):
    np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12)


def over_rows(f, *args, rtol=1e-11):
    """`vmap`, and `jit`, of `f` against a loop."""
    rows = [f(*row) for row in zip(*args)]
    same(ft.vmap(f)(*args), np.stack(rows), rtol)
    same(ft.jit(f)(*(a[0] for a in args)), rows[0], rtol)


# lists in an index, in which some integers are traced


def solved(A):
    """Gauss and Jordan's elimination, with a pivot sought in each column."""
    M = np.concatenate([A, np.ones((4, 1))], axis=1)
    for i in range(4):
        p = i + np.argmax(np.abs(M[i:, i]))
        M[[i, p]] = M[[p, i]]
        M[i] /= M[i, i]
        for j in range(4):
            if j != i:
                M[j] -= M[j, i] * M[i]
    return M[:, -1]


def test_rows_swapped_by_a_list_of_indices_that_differ_between_examples():
    over_rows(solved, X)
    over_rows(lambda A: solved(A) - np.linalg.solve(A, np.ones(4)), X)
    over_rows(ft.grad(lambda A: np.sum(solved(A))), X)


def test_a_list_of_traced_indices_reads_and_writes_as_in_numpy():
    def f(x, i, v):
        x = x.copy()
        x[[i[0], i[1], 2]] = v  # the last write counts
        x[[0, 1], [i[0], i[1]]] *= 2
        return x[[i[1], 0], 1:] + fnp.at(x)[[i[0], i[0]]].add(v[:2])[1, 1:]

    places, values = np.array([[0, 1], [1, 1], [3, 2]]), RNG.normal(size=(3, 3, 4))
    over_rows(f, X, places, values)
    over_rows(lambda x, i, v: ft.grad(lambda x: np.sum(f(x, i, v) ** 2))(x), X, places, values)


def best_path(scores):
    """Viterbi's: where each state came from is kept in rows of integers."""
    came, total = fnp.zeros((4, 4), dtype=int), scores[0, 0]
    for t in range(1, 4):
        steps = total[:, None] + scores[1].T
        came[t] = np.argmax(steps, axis=0)
        total = np.max(steps, axis=0) + scores[2, t]
    path = [np.argmax(total)]
    for t in range(3, 0, -1):
        path.append(came[t][path[-1]])
    return sum(scores[0, t, k] ** 2 for t, k in enumerate(path))


def test_rows_of_indices_are_kept_for_each_example():
    scores = RNG.normal(size=(6, 3, 4, 4))
    over_rows(best_path, scores)
    over_rows(ft.grad(best_path), scores)
    jitted = ft.jit(ft.grad(best_path))
    for row in scores:
        same(jitted(row), ft.grad(best_path)(row))
    assert jitted.cache_info()["eager"] == 0


# derivatives of derivatives, over a batch: an index found in one run, and used in another


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sort(x, axis=0),
        lambda x: x[np.argmax(x[:, 0])],
        lambda x: x[np.argsort(x[:, 0]), None, np.argsort(x[0])],
        lambda x: np.take_along_axis(x, np.argsort(x, axis=1), 1)[:, :2],
        lambda x: np.take(x, np.argsort(x[0]), axis=1),
        lambda x: np.interp(x[0], np.array([-3.0, 0.0, 1.0, 3.0]), x[1]),
        lambda x: np.partition(x, 2, axis=1)[:, 2],
    ],
)
def test_second_derivatives_over_a_batch_where_each_example_has_its_own_order(f):
    s = lambda x: np.sum(f(x) ** 3)
    for second in (ft.hessian(s), ft.jacrev(ft.jacrev(s)), lambda x: ft.hvp(s, (x,), (np.ones((4, 4)),))):
        over_rows(second, X)


# examples of a batch that are special alone


def test_a_constant_example_leaves_the_bins_of_the_others_as_they_are():
    rows = X.reshape(3, -1).copy()
    rows[1] = 2.0
    over_rows(lambda x: np.histogram(x, bins=3)[1], rows)
    over_rows(lambda x: np.histogram(x, bins=3)[0], rows)


def test_half_turns_are_counted_for_each_example():
    special = pytest.importorskip("functrace.scipy.special")
    phi, m = np.array([[0.3, 4.0], [-9.0, 1.2]]), np.array([[0.2, 0.3], [0.4, 0.5]])
    for name in ("ellipkinc", "ellipeinc"):
        f = getattr(special, name)
        s = lambda phi, m, f=f: np.sum(f(phi, m) * np.array([1.0, 2.0]))
        over_rows(ft.jacrev(ft.grad(s, 1), 1), phi, m, rtol=1e-9)
        over_rows(ft.jacfwd(ft.grad(s, 1), 0), phi, m, rtol=1e-9)


# the second run of a checkpoint may round otherwise: NumPy's own functions compute the first


def test_a_checkpoint_tells_another_result_from_another_rounding():
    windows = np.lib.stride_tricks.sliding_window_view
    f = lambda x: np.sum(np.einsum("ijkl,kl->ij", windows(x, (3, 3)), X[1, :3, :3]) ** 2) + np.sum(np.logaddexp.accumulate(x[0]))
    for x in X:
        same(ft.grad(ft.checkpoint(f))(x), ft.grad(f)(x))
    inf = lambda x: np.sum(np.where(x > 1, np.inf, x))
    assert ft.grad(ft.checkpoint(inf))(np.array([0.5, 2.0])).tolist() == [1.0, 0.0]
    rng = np.random.default_rng(0)
    with pytest.raises(errors.CheckpointError):
        ft.grad(ft.checkpoint(lambda x: np.sum(x * (1 + 1e-3 * rng.normal(size=3)))))(np.ones(3))


# values


@pytest.mark.parametrize(
    "xp, fp",
    [
        ([-np.inf, 0.0, 1.0, np.inf], [1.0, 2.0, 5.0, 7.0]),
        ([0.0, 1.0, 2.0, 3.0], [1.0, np.inf, 2.0, 3.0]),
        ([0.0, 1.0, 2.0, 3.0], [np.inf, np.inf, 2.0, -np.inf]),
        ([0.0, 1.0, 1.0, 3.0], [1.0, 2.0, 3.0, 3.0]),
        ([0.0, 0.0, 0.0], [1.0, 1.0, 2.0]),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_interp_beside_infinities_is_numpys(xp, fp):
    x, xp, fp = np.array([-5.0, -0.5, 0.0, 0.3, 1.0, 2.0, 9.0, np.inf, -np.inf, np.nan]), np.array(xp), np.array(fp)
    want = np.interp(x, xp, fp)
    np.testing.assert_array_equal(ft.vjp(lambda fp: np.interp(x, xp, fp), fp)[0], want)
    np.testing.assert_array_equal(ft.vjp(lambda x: np.interp(x, xp, fp), x)[0], want)
    np.testing.assert_array_equal(ft.vmap(lambda x: np.interp(x, xp, fp))(x), want)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_beside_an_infinite_knot_interp_has_the_slope_of_a_constant():
    xp = np.array([-np.inf, 0.0, 1.0])
    assert ft.grad(lambda x: np.interp(x, xp, np.array([3.0, 3.0, 4.0])))(-2.0) == 0
    assert ft.grad(lambda fp: np.interp(-2.0, xp, fp))(np.array([1.0, 3.0, 4.0])).tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.linalg.norm(x, 3),
        lambda x: np.linalg.norm(x.reshape(2, 2), 2),
        lambda x: np.linalg.vector_norm(x, ord=0.5),
        lambda x: np.quantile(x, 0.3),
        lambda x: np.nanpercentile(x, 30),
        lambda x: np.interp(x[0], np.arange(3.0), np.ones(3)),
        lambda x: np.std(x, where=x > 0),
        lambda x: np.max(x[:0], initial=-1.0),
        lambda x: np.min(x[:0], initial=x[0]),
    ],
)
def test_a_full_reduction_gives_a_scalar_as_numpys_does(f):
    x = np.array([0.4, 1.3, -0.7, 0.2])
    assert isinstance(f(x), np.float64)
    for got in (ft.vjp(f, x)[0], ft.jvp(f, (x,), (x,))[0], ft.jit(f)(x), ft.value_and_grad(f)(x)[0]):
        assert type(got) is np.float64 and got == pytest.approx(f(x), rel=1e-15)


@pytest.mark.parametrize(
    ("traced", "found"),
    [
        (lambda x: np.where(True, np.sum(x), 0.0), "value, traced: an array without axes, must be a scalar"),
        (lambda x: np.sum(x) * 1.001, "value, traced: at"),
        (lambda x: np.sum(x).astype(np.float32), r"value, traced: float32\(\), must be float64\(\)"),
        (lambda x: np.sum(x)[None], r"value, traced: has shape \(1,\), must have \(\)"),
        (lambda x: (np.sum(x), x), "value, traced: 2 results, must be 1"),
        (lambda x: ft.stop_gradient(np.sum(x)), "order 1: at"),
    ],
)
def test_verify_sees_that_a_function_of_traced_values_is_another(traced, found):
    function = lambda x: np.sum(x) if isinstance(x, np.ndarray) else traced(x)
    with pytest.raises(errors.CheckError, match=f"total: .*{found}"):
        verify(Declared("total", function, np.sum, (Sample(lambda rng: (np.arange(3.0),)),)))


# what NumPy and SciPy refuse

NUMPY = {
    "prod of a list of axes": lambda x: np.prod(x, axis=[0]),
    "reduce over a list of axes": lambda x: np.logaddexp.reduce(x, axis=[0]),
    "squeeze of a list of axes": lambda x: np.squeeze(x[None], axis=[0]),
    "vector_norm over a list of axes": lambda x: np.linalg.vector_norm(x, axis=[0]),
    "axes that are named twice": lambda x: np.size(x, (0, 0)) * x,
    "axes that are no list": lambda x: np.matmul(x, x, axes=()),
    "axes that are too few": lambda x: np.vecdot(x, x, axes=[]),
    "sort of no such kind": lambda x: np.sort(x, kind="bogus"),
    "argsort of no such kind": lambda x: np.argsort(x, kind="bogus") * x,
    "sort of two kinds": lambda x: np.sort(x, kind="stable", stable=True),
    "partition of no such kind": lambda x: np.partition(x, 1, kind="bogus"),
}


@pytest.mark.parametrize("name", NUMPY)
def test_what_numpy_refuses_is_refused(name):
    f = NUMPY[name]
    with pytest.raises((TypeError, ValueError)) as theirs:
        f(X[0])
    with pytest.raises((TypeError, ValueError)) as ours:
        ft.grad(lambda x: np.sum(f(x)))(X[0])
    assert isinstance(ours.value, theirs.type) or name.startswith("axes")


SCIPY = {
    "ndimage map_coordinates": lambda s, x: s.ndimage.map_coordinates(x, [[0.5], [0.5]], mode="mirrored"),
    "ndimage spline_filter": lambda s, x: s.ndimage.spline_filter(x, order=-1),
    "linalg expm_frechet": lambda s, x: s.linalg.expm_frechet(x, x, method="sps"),
    "linalg polar": lambda s, x: s.linalg.polar(x, side="up"),
    "linalg eigvals_banded": lambda s, x: s.linalg.eigvals_banded(x[:2], select="all of them"),
    "linalg solve_discrete_lyapunov": lambda s, x: s.linalg.solve_discrete_lyapunov(x, x, method="quick"),
    "signal convolve2d": lambda s, x: s.signal.convolve2d(x, x[:2, :2], mode="fill"),
    "signal filtfilt": lambda s, x: s.signal.filtfilt([1.0, 0.5], [1.0], x, padtype="odds", padlen=1),
    "signal chirp": lambda s, x: s.signal.chirp(x, 1.0, 1.0, 2.0, method="cubic"),
    "signal chirp of a zero": lambda s, x: s.signal.chirp(x, 0.0, 1.0, 2.0, method="log"),
    "stats moment": lambda s, x: s.stats.moment(x, 2.5),
    "stats iqr": lambda s, x: s.stats.iqr(x, scale="usual"),
}


@pytest.mark.parametrize("name", SCIPY)
def test_what_scipy_refuses_is_refused(name):
    scipy, ours = pytest.importorskip("scipy"), pytest.importorskip("functrace.scipy")
    module = name.split()[0]
    pytest.importorskip(f"scipy.{module}"), pytest.importorskip(f"functrace.scipy.{module}")
    with pytest.raises((ValueError, RuntimeError)):
        SCIPY[name](scipy, X[0])
    with pytest.raises((ValueError, RuntimeError)):
        ft.grad(lambda x: np.sum(SCIPY[name](ours, x)))(X[0])


@pytest.mark.parametrize("method", ["logarithmic", "hyperbolic"])
def test_a_chirp_of_one_frequency_is_smooth_there(method):
    signal = pytest.importorskip("functrace.scipy.signal")
    t = np.array([0.2, 0.7])
    f = lambda f1: signal.chirp(t, 2.0, 1.5, f1, method=method)
    same(f(2.0), np.cos(4 * np.pi * t))
    same(ft.jacfwd(f)(2.0), numerical_jvp(f, [2.0], [1.0])[0], rtol=1e-8)
