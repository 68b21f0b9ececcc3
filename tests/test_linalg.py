"""Linear algebra and einsum where the sweep does not go: ties, zeros, gauges, singular matrices, refusals."""

import itertools

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace import errors
from functrace.ops.registry import TABLE
from functrace.testing import check_grads, verify
from tests.helpers import differences
from tests.oracles import Jax

RNG = np.random.default_rng(0)
SYMMETRIC = np.array([[2.0, 0.3, -0.1], [0.3, 1.0, 0.2], [-0.1, 0.2, 0.5]])
TIED = np.linalg.qr(RNG.normal(size=(4, 4)))[0]
TIED = (TIED * [1.0, 1.0, 1.0, 3.0]) @ TIED.T
TIED = (TIED + TIED.T) / 2

THIRD = "dot inner tensordot kron cross vander polyval linalg.solve linalg.inv linalg.det linalg.cholesky linalg.qr linalg.eigvalsh linalg.pinv".split()


@pytest.mark.parametrize("name", THIRD)
def test_third_order(name):
    assert verify(TABLE[name], order=3) > 0


# ties


def test_values_at_ties_are_differentiable():
    got = ft.grad(lambda a: np.exp(np.linalg.eigvalsh(a)).sum())(np.eye(3))
    np.testing.assert_allclose(got, np.e * np.eye(3))
    w, v = np.linalg.eigh(TIED)
    got = ft.grad(lambda a: np.exp(np.linalg.eigh(a)[0]).sum())(TIED)
    np.testing.assert_allclose(got, (v * np.exp(w)) @ v.T, atol=1e-12)


def test_a_projector_onto_tied_vectors_is_differentiable():
    c = RNG.normal(size=(4, 4))

    def f(a):
        v = np.linalg.eigh((a + a.T) / 2)[1][:, :3]
        return np.sum(c * (v @ v.T))

    np.testing.assert_allclose(ft.grad(f)(TIED), differences(lambda a: float(f(a)), TIED, 1e-4), atol=1e-8)


def test_vectors_at_ties_raise_where_they_matter():
    with pytest.raises(errors.DegenerateError, match="eigvalsh"):
        ft.grad(lambda a: np.linalg.eigh(a)[1][0, 1])(np.eye(3))
    with pytest.raises(errors.DegenerateError):  # a smooth function of the matrix, but its derivative is not in w and v
        ft.grad(lambda a: ((lambda w, v: (v * np.sqrt(w)) @ v.T)(*np.linalg.eigh(a)))[0, 1])(np.eye(3))
    with pytest.raises(errors.DegenerateError):
        ft.grad(lambda a: np.linalg.svd(a)[0][0, 1])(np.eye(3))
    with pytest.raises(errors.DegenerateError):
        ft.grad(lambda a: np.linalg.eig(a)[1][0, 1].real)(np.eye(3))  # complex since NumPy 2.5


def test_jacobian_of_a_smooth_function_at_ties_is_refused_in_whole():
    with pytest.raises(errors.DegenerateError):
        ft.jacrev(lambda a: (lambda w, v: (v * np.sqrt(w)) @ v.T)(*np.linalg.eigh(a)))(np.eye(2))


def test_forward_mode_at_ties():
    t = RNG.normal(size=(3, 3))
    _, (dw, dv) = ft.jvp(lambda a: tuple(np.linalg.eigh(a)), (np.eye(3),), (t + t.T,))
    assert np.isfinite(dw).all()
    assert np.isnan(dv).all()
    _, (du, ds, dvh) = ft.jvp(lambda a: tuple(np.linalg.svd(a)), (np.eye(3),), (t,))
    assert np.isfinite(ds).all()
    assert np.isnan(du).all()
    assert np.isnan(dvh).all()


def test_polar_factor_at_equal_singular_values():
    q = np.linalg.qr(RNG.normal(size=(3, 3)))[0]
    c = RNG.normal(size=(3, 3))

    def f(a):
        u, _, vh = np.linalg.svd(a)
        return np.sum(c * (u @ vh))

    np.testing.assert_allclose(ft.grad(f)(q), differences(lambda a: float(f(a)), q, 1e-4), atol=1e-8)


def test_symmetric_matrices_have_symmetric_gradients():
    for f in (
        lambda a: np.linalg.cholesky(a)[1, 0],
        lambda a: np.linalg.cholesky(a, upper=True)[0, 2],
        lambda a: np.linalg.eigh(a)[1][0, 0] ** 2,
        lambda a: np.linalg.eigvalsh(a, UPLO="U")[0],
        lambda a: np.linalg.pinv(a, hermitian=True)[0, 1],
    ):
        g = ft.grad(f)(SYMMETRIC)
        np.testing.assert_allclose(g, g.T)
        t = RNG.normal(size=(3, 3))
        t = t + t.T
        step = (f(SYMMETRIC + 1e-6 * t) - f(SYMMETRIC - 1e-6 * t)) / 2e-6
        np.testing.assert_allclose(np.sum(g * t), step, rtol=1e-6)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("kind", ["f", "c"])
def test_large_cholesky_factors_are_differentiated_by_halves(kind, upper):
    rng, n = np.random.default_rng(0), 150
    a, t, c = (rng.normal(size=(n, n)) + (1j * rng.normal(size=(n, n)) if kind == "c" else 0) for _ in range(3))
    a, t = a @ np.conj(a.T) + n * np.eye(n), t + np.conj(t.T)
    f = lambda a: np.real(np.sum(np.linalg.cholesky(a, upper=upper) * c))
    g = ft.grad(f)(a)
    np.testing.assert_allclose(np.sum(g * t).real, (f(a + 1e-4 * t) - f(a - 1e-4 * t)) / 2e-4, rtol=1e-7)
    np.testing.assert_array_equal(ft.jit(ft.grad(f))(a), g)
    np.testing.assert_allclose(ft.vmap(ft.grad(f))(np.stack([2 * a, a]))[1], g, rtol=1e-12, atol=1e-15)
    twice = ft.grad(lambda s: np.real(np.sum(ft.grad(f)(a + s * t) * c)))(0.0)
    slope = [np.real(np.sum(ft.grad(f)(a + s * t) * c)) for s in (1e-4, -1e-4)]
    np.testing.assert_allclose(twice, (slope[0] - slope[1]) / 2e-4, rtol=1e-6)


@pytest.mark.parametrize("uplo", ["L", "U"])
def test_of_other_matrices_the_triangle_that_is_read(uplo):
    a = SYMMETRIC + (np.triu if uplo == "L" else np.tril)(RNG.normal(size=(3, 3)), 1 if uplo == "L" else -1)
    f = lambda x: np.sum(np.linalg.eigvalsh(x, UPLO=uplo) ** 3)
    g = ft.grad(f)(a)
    np.testing.assert_allclose(g, differences(lambda x: float(f(x)), a), atol=1e-8)
    assert not (np.triu(g, 1) if uplo == "L" else np.tril(g, -1)).any()


# gauges


def complex_matrix(*shape):
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def test_vectors_that_fill_up_the_space():
    a = RNG.normal(size=(4, 2))
    c = RNG.normal(size=(4, 4))

    def projector(x):
        u = np.linalg.svd(x)[0][:, 2:]
        return np.sum(c * (u @ u.T))

    check_grads(projector, a, order=2)
    check_grads(lambda x: np.sum(c * (lambda q: q @ q.T)(np.linalg.qr(x, mode="complete")[0][:, 2:])), a, order=2)
    with pytest.raises(errors.DegenerateError, match="fill up"):
        ft.grad(lambda x: np.linalg.svd(x)[0][0, 3])(a)
    with pytest.raises(errors.DegenerateError, match="fill up"):
        ft.grad(lambda x: np.linalg.qr(x, mode="complete")[0][0, 3])(a)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 3), (2, 5)])
def test_phases_of_complex_vectors_are_those_returned(shape):
    check_grads(lambda x: list(np.linalg.svd(x, full_matrices=False)), complex_matrix(*shape), order=1, step=1e-4, rtol=1e-4)


@pytest.mark.parametrize("p", [None, "fro", "nuc", 1])
def test_the_condition_of_a_complex_matrix_is_real(p):
    x = complex_matrix(3, 3)
    found = ft.vjp(lambda x: np.linalg.cond(x, p), x)[0]
    assert found.dtype == float and found == pytest.approx(np.linalg.cond(x, p).real)
    check_grads(lambda x: np.linalg.cond(x, p), x, order=1, step=1e-4, rtol=1e-4)


def test_null_pairs():
    a = np.diag([2.0, 1.0, 0.0, 0.0])
    g = ft.grad(lambda x: np.sum(np.linalg.svd(x)[1] ** 2))(a)
    np.testing.assert_allclose(g, 2 * a, atol=1e-12)


# zeros


@pytest.mark.parametrize("ord", [None, 1, 2, 3, 2.5, 0.5, 0, np.inf, -np.inf])
def test_zero_subgradient_of_vector_norms(ord):
    for x in (np.zeros(3), np.array([0.0, 3.0, 4.0])):
        g = ft.grad(lambda x: np.linalg.norm(x, ord))(x)
        assert np.isfinite(g).all()
        assert g[0] == 0
        assert np.isfinite(ft.hessian(lambda x: np.linalg.norm(x, ord))(x)).all()


@pytest.mark.parametrize("ord", [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
def test_zero_subgradient_of_matrix_norms(ord):
    assert not ft.grad(lambda x: np.linalg.norm(x, ord))(np.zeros((3, 3))).any()
    assert not ft.jvp(lambda x: np.linalg.norm(x, ord), (np.zeros((3, 3)),), (np.eye(3),))[1].any()


def test_det_at_singular_matrices_to_third_order():
    for a in (np.arange(9.0).reshape(3, 3), np.outer([1.0, 2, 3], [1.0, -1, 1]), np.zeros((3, 3)), np.zeros((1, 1)), np.zeros((2, 2))):
        check_grads(np.linalg.det, a, order=3)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("scale", np.array([1e-200, 1e-160, 1e-100, 1.0, 1e100, 1e160, 1e200]))
def test_the_slope_of_det_is_the_cofactors_whatever_the_scale(n, scale):
    x = np.stack([np.eye(n), np.eye(n) + 0.1])  # where all but the scale is harmless
    with np.errstate(all="ignore"):
        want = ft.grad(lambda x: np.sum(np.linalg.det(x)))(x) * scale ** (n - 1)
        got = ft.grad(lambda x: np.sum(np.linalg.det(x)))(x * scale)
        jitted = ft.jit(ft.grad(lambda x: np.sum(np.linalg.det(x))))(x * scale)
    if np.isfinite(want).all():
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14 * scale ** (n - 1) + np.finfo(float).tiny)
        np.testing.assert_array_equal(jitted, got)


def test_det_at_a_large_singular_matrix():
    u, v = np.linalg.qr(RNG.normal(size=(30, 30)))[0], np.linalg.qr(RNG.normal(size=(30, 30)))[0]
    s = np.append(np.linspace(0.5, 1.5, 29), 0.0)
    a = (u * s) @ v
    want = np.prod(s[:-1]) * np.linalg.det(u) * np.linalg.det(v) * np.outer(u[:, -1], v[-1])
    np.testing.assert_allclose(ft.grad(np.linalg.det)(a), want, atol=1e-12)


def test_slogdet_at_a_singular_matrix():
    with pytest.raises(np.linalg.LinAlgError):
        ft.grad(lambda a: np.linalg.slogdet(a)[1])(np.zeros((2, 2)))


# forms and refusals


def test_results_are_numpys_named_tuples():
    for f in (np.linalg.eigh, np.linalg.eig, np.linalg.svd, np.linalg.qr, np.linalg.slogdet):
        got = []
        ft.vjp(lambda a: got.append(f(a)) or got[0][1], SYMMETRIC)
        assert type(got[0]) is type(f(SYMMETRIC))


def test_solve_takes_one_axis_for_a_vector():
    a, b = RNG.normal(size=(3, 3, 3)) + 4 * np.eye(3), RNG.normal(size=3)
    out, pull = ft.vjp(np.linalg.solve, a, b)
    np.testing.assert_allclose(out, np.linalg.solve(a, b))
    assert pull(out)[1].shape == (3,)


@pytest.mark.parametrize(("name", "call"), [("inv", np.linalg.det), ("solve", lambda a: np.linalg.solve(a, a @ a)[0].sum())])
def test_the_way_back_inverts_once(name, call, monkeypatch):
    calls, own = [], getattr(np.linalg, name)
    a = np.kron(SYMMETRIC, [[2.0, 1.0], [0.0, 1.0]]) if name == "inv" else SYMMETRIC
    _, pull = ft.vjp(call, a)
    monkeypatch.setattr(np.linalg, name, lambda *args: calls.append(args) or own(*args))
    (found,) = pull(1.0)
    assert len(calls) == 1
    np.testing.assert_allclose(found, np.linalg.det(a) * np.linalg.inv(a).T if name == "inv" else [[1] * 3] + [[0] * 3] * 2, atol=1e-12)


def test_solve_broadcasts_in_both_arguments_in_both_modes():
    a, b = SYMMETRIC + np.arange(2.0)[:, None, None] * np.eye(3), RNG.normal(size=(3, 2))
    check_grads(np.linalg.solve, a, b, order=2)
    check_grads(lambda b: np.linalg.solve(a, b), b, order=2)
    check_grads(lambda a: np.linalg.solve(a, b), a, order=2)
    np.testing.assert_allclose(ft.vmap(np.linalg.solve, (0, None))(a, b), np.linalg.solve(a, b))


def test_keywords_without_a_rule_are_refused():
    for f in (
        lambda a: np.linalg.qr(a, mode="raw")[0],
        lambda a: np.einsum("ij->ji", a, out=np.zeros((3, 3))),
        lambda a: np.dot(a, a, out=np.zeros((3, 3))),
        lambda a: np.linalg.multi_dot([a, a], out=np.zeros((3, 3))),
    ):
        with pytest.raises((errors.UnsupportedError, errors.ArrayStoreError)):
            ft.vjp(f, SYMMETRIC)


@pytest.mark.parametrize(
    "call",
    [
        ("...i->i", (2, 3)),
        ("ii", (1, 3)),
        ("i->ii", (3,)),
        ("i->j", (3,)),
        ("ij->", (3,)),
        ("i,i", (3,), (2,)),
        ("i.j", (2, 3)),
        ("i1", (2, 2)),
        ("i,j", (3,)),
    ],
)
def test_einsum_refuses_what_numpy_refuses(call):
    arrays = [np.ones(s) for s in call[1:]]
    with pytest.raises(ValueError):
        np.einsum(call[0], *arrays)
    with pytest.raises(ValueError, match="einstein sum|for collapsing an index|operands could not be broadcast"):
        ft.vjp(lambda *xs: np.einsum(call[0], *xs), *arrays)


def _explicit(terms, out, arrays):
    """Einstein's sum, by a loop over all indices."""
    names = sorted(set("".join(terms)))
    size = {}
    for term, a in zip(terms, arrays):
        for k, n in zip(term, a.shape):
            size[k] = max(size.get(k, 1), n)
    total = np.zeros([size[k] for k in out])
    for index in itertools.product(*[range(size[k]) for k in names]):
        at = dict(zip(names, index))
        product = 1.0
        for term, a in zip(terms, arrays):
            product *= a[tuple(at[k] if a.shape[i] > 1 else 0 for i, k in enumerate(term))]
        total[tuple(at[k] for k in out)] += product
    return total


def test_the_order_of_an_einsum_regards_its_result():
    shapes = dict(bic=(2, 9, 8), bjhd=(2, 9, 2, 3), hdc=(2, 3, 8))
    tape = ft.trace(lambda *xs: np.einsum("bic,bjhd,hdc->bhij", *xs))(*map(np.ones, shapes.values()))
    assert max(entry[4].size for entry in tape.entries) == 2 * 2 * 9 * 9  # without it, 2 * 9 * 8 * 9 * 2 * 3


@pytest.mark.parametrize("seed", range(60))
def test_einsum_against_a_loop(seed):
    rng = np.random.default_rng(seed)
    letters = "abcd"[: rng.integers(1, 5)]
    size = {k: int(rng.integers(1, 4)) for k in letters}
    terms = ["".join(rng.choice(list(letters), size=rng.integers(0, 4))) for _ in range(rng.integers(1, 5))]
    used = sorted(set("".join(terms)))
    every = "".join(terms)
    if seed % 2:
        out = "".join(rng.permutation(used)[: rng.integers(0, len(used) + 1)])
        subscripts = ",".join(terms) + "->" + out
    else:
        out = "".join(k for k in used if every.count(k) == 1)
        subscripts = ",".join(terms)
    arrays = []
    for term in terms:
        lengths = {k: 1 if rng.random() < 0.1 else size[k] for k in term}
        arrays.append(rng.normal(size=[lengths[k] for k in term]))
    tangents = [rng.normal(size=a.shape) for a in arrays]
    f = lambda *xs: np.einsum(subscripts, *xs, optimize=[False, True, "optimal"][seed % 3])
    value, pull = ft.vjp(f, *arrays)
    np.testing.assert_allclose(value, _explicit(terms, out, arrays), atol=1e-12)
    want = sum(_explicit(terms, out, [*arrays[:k], t, *arrays[k + 1 :]]) for k, t in enumerate(tangents))
    np.testing.assert_allclose(ft.jvp(f, arrays, tangents)[1], want, atol=1e-12)
    cotangent = rng.normal(size=value.shape)
    back = pull(cotangent)
    np.testing.assert_allclose(sum(np.sum(b * t) for b, t in zip(back, tangents)), np.sum(cotangent * want), atol=1e-11)


def test_the_namespace():
    assert fnp.linalg.LinAlgError is np.linalg.LinAlgError
    np.testing.assert_allclose(ft.grad(lambda a: fnp.linalg.norm(a))(np.array([3.0, 4.0])), [0.6, 0.8])
    assert set(n for n in np.linalg.__all__ if n != "LinAlgError") <= set(dir(fnp.linalg))


@pytest.fixture(scope="module")
def jax():
    return pytest.importorskip("jax")


def test_against_jax(jax):
    jnp, options = jax.numpy, Jax(jax).quick
    with jax.enable_x64(True):
        a = complex_matrix(4, 4)
        c = complex_matrix(4, 4)
        for f in (
            lambda np, a: np.real(np.sum(np.linalg.inv(a) * c)),
            lambda np, a: np.real(np.linalg.det(a) * (1 + 2j)),
            lambda np, a: np.real(np.linalg.slogdet(a)[0] * (1 + 2j)) + np.linalg.slogdet(a)[1],
            lambda np, a: np.real(np.sum(np.linalg.cholesky(a @ np.conj(a.T) + np.eye(4)) * c)),
            lambda np, a: np.real(np.sum((lambda w, v: (v * np.exp(w)) @ np.conj(v.T))(*np.linalg.eigh(a + np.conj(a.T))) * c)),
            lambda np, a: np.real(np.sum((lambda u, s, vh: (u[:, :2] * s[:2]) @ vh[:2])(*np.linalg.svd(a, full_matrices=False)) * c)),
            lambda np, a: np.real(np.sum(np.linalg.qr(a)[0] * c)),
            lambda np, a: np.real(np.sum(np.linalg.pinv(a[:, :3]) * c[:3])),
            lambda np, a: np.sum(np.abs(np.linalg.eigvals(a))),
            lambda np, a: np.linalg.norm(a, "nuc"),
            lambda np, a: np.real(np.einsum("ij,jk,ki,ii->", a, c, a, a)),
        ):
            want = jax.jit(jax.grad(lambda x: f(jnp, x))).lower(a).compile(compiler_options=options)(a)
            np.testing.assert_allclose(ft.grad(lambda x: f(np, x))(a), want, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("shape", [(100_000, 2), (2, 100_000)])
def test_oblong_matrices_make_no_large_square_ones(shape):  # 80 GB each
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=shape), rng.normal(size=shape[0])
    for f in (lambda A: np.sum(np.linalg.lstsq(A, b, rcond=None)[0] ** 2), lambda A: np.sum(np.linalg.pinv(A) ** 2)):
        value = f(A)  # homogeneous of degree -2, so Euler says what its derivatives are along A
        np.testing.assert_allclose(np.sum(ft.grad(f)(A) * A), -2 * value, rtol=1e-9)
        np.testing.assert_allclose(ft.jvp(f, (A,), (A,))[1], -2 * value, rtol=1e-9)
        np.testing.assert_allclose(np.sum(ft.hvp(f, (A,), (A,)) * A), 6 * value, rtol=1e-9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("p", [None, 2, -2, 1, -1, np.inf, "fro"])
def test_the_condition_of_singular_matrices_is_numpys(p):
    exact = np.diag([2.0, 0.0])  # of np.ones((2, 2)) LAPACK finds 0 on some processors, and a small number on others
    for a in (exact, np.zeros((2, 2)), np.stack([SYMMETRIC, np.zeros((3, 3))])):
        out, pull = ft.vjp(lambda a: np.linalg.cond(a, p), a)
        np.testing.assert_allclose(out, np.linalg.cond(a, p))
        slope = pull(np.ones(np.shape(out)))[0]
        if a.ndim == 3:
            np.testing.assert_allclose(slope[0], ft.grad(np.linalg.cond)(SYMMETRIC, p))
            slope = slope[1]
        np.testing.assert_array_equal(slope, 0)


@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 4)])
def test_qr_of_dependent_columns_has_no_derivative(mode, shape):
    f = lambda x: np.sum(np.exp((lambda found: found if mode == "r" else found[1])(np.linalg.qr(x, mode))))
    for x in (np.ones(shape), np.zeros(shape)):
        for derivative in (ft.grad(f), lambda x: ft.jvp(f, (x,), (x + 1,)), ft.jit(ft.grad(f)), ft.jacfwd(ft.grad(f))):
            with pytest.raises(errors.DegenerateError):
                derivative(x)
    assert not ft.grad(lambda x: np.where(x[0, 0] > 2, f(x), 1.0))(np.ones(shape)).any()
    check_grads(f, np.random.default_rng(0).normal(size=shape), order=1)  # of 200 matrices one has too small a pivot for differences
