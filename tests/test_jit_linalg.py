"""Under `jit`, and in loops, linear algebra is recorded once: what it asks of a matrix is a yes or no."""

import warnings

import numpy as np
import pytest

import functrace as ft

BASE = np.diag([1.0, 2.0, 3.5, 5.0]) + 0.1
PROGRAMS = {
    "cholesky": np.linalg.cholesky,
    "grad cholesky": ft.grad(lambda a: np.sum(np.linalg.cholesky(a))),
    "hessian cholesky": ft.hessian(lambda a: np.sum(np.linalg.cholesky(a) ** 2)),
    "eigvalsh": np.linalg.eigvalsh,
    "grad eigh": ft.grad(lambda a: np.sum(np.linalg.eigh(a)[1] ** 4)),
    "det": np.linalg.det,
    "grad det": ft.grad(np.linalg.det),
    "grad slogdet": ft.grad(lambda a: np.linalg.slogdet(a)[1]),
    "average": lambda a: np.average(a, axis=0, weights=np.abs(a) + 1),
    "cov": lambda a: np.cov(a, aweights=np.abs(a[0]), ddof=0),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("batched", [False, True])
def test_it_is_recorded_once(name, batched):
    f = ft.vmap(PROGRAMS[name]) if batched else PROGRAMS[name]
    fast = ft.jit(f)
    for k in range(20):
        a = BASE + 0.01 * k
        a = np.stack([a, a + np.eye(4)]) if batched else a
        np.testing.assert_allclose(fast(a), f(a), rtol=1e-12, atol=1e-12)
    assert fast._counts == {"hits": 19, "recorded": 1, "eager": 0}


def test_whether_a_matrix_is_symmetric_is_decided_in_the_program():
    grad = ft.grad(lambda a: np.sum(np.linalg.cholesky(a)))
    fast = ft.jit(grad)
    lopsided = BASE + np.triu(np.ones((4, 4)), 1)  # only the lower triangle is read, so only it has a gradient
    for a in (BASE, lopsided, BASE + 0.1, lopsided + 0.1):
        np.testing.assert_allclose(fast(a), grad(a), rtol=1e-12)
    assert not np.triu(fast(lopsided), 1).any() and np.triu(fast(BASE), 1).any()
    assert fast._counts["recorded"] == 1

    det = ft.jit(ft.grad(np.linalg.det))
    singular = np.ones((3, 3)) - np.eye(3)[0]
    for a in (BASE[:3, :3], singular, BASE[:3, :3]):
        np.testing.assert_allclose(det(a), ft.grad(np.linalg.det)(a), atol=1e-12)


@pytest.mark.parametrize("factor", [np.linalg.cholesky, np.linalg.eigvalsh, lambda a: np.linalg.pinv(a, hermitian=True)])
def test_a_loop_is_not_unrolled_to_see_whether_a_matrix_is_symmetric(factor):
    def loop(a):
        return np.sum(
            ft.scan(lambda c, k: (c + np.sum(factor(a + k + np.triu(np.ones((4, 4)), 1) * (k > 2))), None), 0.0, np.arange(6.0))[0]
        )

    def unrolled(a):
        return sum(np.sum(factor(a + k + np.triu(np.ones((4, 4)), 1) * (k > 2))) for k in np.arange(6.0))

    assert len(ft.trace(loop)(BASE).entries) < 35
    for transform in (lambda f: f, ft.grad, ft.hessian, lambda f: ft.jit(ft.grad(f))):
        batch = np.stack([BASE, BASE + 0.3])
        np.testing.assert_allclose(ft.vmap(transform(loop))(batch), ft.vmap(transform(unrolled))(batch), rtol=1e-9, atol=1e-9)


def test_evidence_of_a_gaussian_process_compiles_without_a_warning():
    def cost(scale):
        x = np.linspace(0, 1, 8)
        L = np.linalg.cholesky(np.exp(-(((x[:, None] - x) / scale) ** 2)) + 0.1 * np.eye(8))
        return np.sum(np.linalg.solve(L, np.sin(5 * x)) ** 2) + np.sum(np.log(np.diag(L)))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for both in (ft.jit(ft.value_and_grad(cost)), ft.value_and_grad(ft.jit(cost))):
            for k in range(20):
                np.testing.assert_allclose(both(0.2 + 0.01 * k)[1], ft.grad(cost)(0.2 + 0.01 * k), rtol=1e-9)


def test_weights_that_sum_to_zero_are_refused_under_jit():
    with pytest.raises(ZeroDivisionError):
        ft.jit(lambda w: np.average(np.ones(2), weights=w))(np.array([1.0, -1.0]))


def squares(x):
    return np.sum((x[:, None, :] - x[None, :, :]) ** 2, -1)


def gaussian(x):
    return np.exp(-0.5 * squares(x)) + 0.1 * np.eye(len(x))


Y = np.linspace(-1, 1, 70)
EQUATIONS = {  # and which of NumPy's functions are left
    "factor": (lambda x: np.sum(np.linalg.solve(np.linalg.cholesky(gaussian(x)), Y[: len(x)]) ** 2), {"lower_inv", "cholesky"}),
    "both factors": (
        lambda x: Y[: len(x)] @ np.linalg.solve((c := np.linalg.cholesky(gaussian(x))).T, np.linalg.solve(c, Y[: len(x)])),
        {"lower_inv", "cholesky"},
    ),
    "upper": (
        lambda x: np.sum(
            np.linalg.solve((c := np.linalg.cholesky(x @ x.T + np.eye(len(x)), upper=True)), np.linalg.solve(c.T, np.sin(x))) ** 3
        ),
        {"lower_inv", "cholesky"},
    ),
    "slogdet": (lambda x: Y[: len(x)] @ np.linalg.solve((k := gaussian(x)), Y[: len(x)]) + np.linalg.slogdet(k)[1], {"solve", "slogdet"}),
    "oblique": (lambda x: Y[: len(x)] @ np.linalg.solve(x @ np.cos(x).T + np.diag(5 + x[:, 0]), Y[: len(x)]), {"solve"}),
}


@pytest.mark.parametrize("n", [4, 70])
@pytest.mark.parametrize("name", EQUATIONS)
def test_what_is_known_of_a_matrix_is_made_use_of(name, n, rng):
    f, left = EQUATIONS[name]
    slope = ft.value_and_grad(f)
    fast = ft.jit(slope)
    for _ in range(3):
        x = rng.normal(size=(n, 3))
        for got, want in zip(fast(x), slope(x)):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9 * np.max(np.abs(want)))
    names = [i.primitive.name for v in fast._all() for path in v.paths for i in path.executable.program.instructions]
    assert {name.removeprefix("linalg.") for name in names if "linalg" in name} == left and "are_hermitian" not in names or name == "upper"
    assert names.count("linalg.solve") == (2 if name == "oblique" else int("solve" in left))


def test_stacks_of_as_many_matrices_as_they_have_rows(rng):
    def both(x):
        k = np.exp(-((x[:, None] - x[None]) ** 2)) + 3 * np.eye(4)
        c = np.linalg.cholesky(k)
        return np.sum(np.linalg.solve(c.T, np.linalg.solve(c, x)) ** 2) + x @ np.linalg.inv(k).T @ np.cos(x)

    f, x = ft.vmap(ft.value_and_grad(both)), rng.normal(size=(4, 4))
    fast = ft.jit(f)
    fast(x)
    for got, want in zip(fast(x), f(x)):
        np.testing.assert_allclose(got, want, rtol=1e-10)
    stack = np.einsum("ij,kl->ikjl", x, x)[0] + 5 * np.eye(4)
    stack = (stack + stack.swapaxes(0, 1)) / 2  # which says nothing of its matrices
    g = lambda a: np.linalg.solve(np.swapaxes(np.linalg.inv(a), 1, 2), np.linalg.inv(a) @ a) + np.transpose(np.linalg.inv(a), (1, 0, 2))
    fast = ft.jit(g)
    fast(stack)
    np.testing.assert_allclose(fast(stack), g(stack), rtol=1e-10, atol=1e-10)


def test_right_hand_sides_that_are_known_are_solved_for_together(rng):
    a, b, c = rng.normal(size=(5, 5)) + 3 * np.eye(5), rng.normal(size=(5, 2)), rng.normal(size=5)

    def f(a, b, c):
        x = np.linalg.solve(a, b)
        return x, np.linalg.solve(a, c), np.linalg.inv(a), np.linalg.solve(a, x)

    fast = ft.jit(f)
    fast(a, b, c)
    for got, want in zip(fast(a, b, c), f(a, b, c)):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    names = [i.primitive.name for v in fast._all() for path in v.paths for i in path.executable.program.instructions]
    assert names.count("linalg.solve") == 2 and "linalg.inv" not in names
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        fast(np.zeros((5, 5)), b, c)


MATRICES = {
    "squares": (squares, True),
    "gram": (lambda x: 2 * x @ x.T + np.diag(x[:, 0]), True),
    "sums": (lambda x: (s := np.sum(x * x, 1))[:, None] + s - 2 * x @ x.T, False),  # of axes that are not equally many
    "sums of columns": (lambda x: (s := np.sum(x * x, 1))[:, None] + s[None, :] - 2 * x @ x.T, True),
    "distances": (lambda x: np.sqrt(1 + squares(x)) * np.sum(np.abs(x[:, None] - x[None]), -1) / 3, True),
    "inverse": (lambda x: np.linalg.inv(gaussian(x)), True),
    "product of differences": (lambda x: (d := x[:, None, 0] - x[None, :, 0]) * np.maximum(x[:, None, 1], x[None, :, 1]) * d, True),
    "differences": (lambda x: np.exp(x[:, None, 0] - x[None, :, 0]), False),
    "odd": (lambda x: np.sum(x[:, None] - x[None], -1) ** 3, False),
    "mixed": (lambda x: np.sum((x[:, None] - x[None]) * x[:, None], -1), False),
    "other rows": (lambda x: np.sum((x[:, None] - x[::-1][None]) ** 2, -1), False),
    "other product": (lambda x: x @ np.sin(x).T, False),
    "chosen": (lambda x: np.where(squares(x) > 1, squares(x), x[:, :1]), False),
}


@pytest.mark.parametrize("name", MATRICES)
def test_which_matrices_are_known_to_be_symmetric(name, rng):
    f, symmetric = MATRICES[name]
    slope, x = ft.grad(lambda x: np.sum(np.linalg.cholesky(f(x) + 0 * np.eye(len(x)) + 900 * np.eye(len(x))) ** 2)), rng.normal(size=(5, 3))
    fast = ft.jit(slope)
    fast(x)
    names = [i.primitive.name for v in fast._all() for path in v.paths for i in path.executable.program.instructions]
    assert ("are_hermitian" not in names) == symmetric
    assert np.allclose(f(x), f(x).T) or not symmetric
    np.testing.assert_allclose(fast(x), slope(x), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_loop_with_determinants_of_small_matrices_has_a_loop_as_its_derivative(n):
    def total(a):
        def step(x, k):
            x = 0.9 * x + k * np.sin(x @ x)
            return x, np.log(np.abs(np.linalg.det(x)))

        return np.sum(ft.scan(step, a, np.linspace(0.01, 0.02, 40))[1])

    a = np.eye(n) + 0.1
    fast = ft.jit(ft.grad(total))
    want = np.array([(total(a + 1e-6 * e) - total(a - 1e-6 * e)) / 2e-6 for e in np.eye(n * n).reshape(-1, n, n)]).reshape(n, n)
    for _ in range(2):
        np.testing.assert_allclose(fast(a), want, rtol=1e-6)
    assert len(fast.programs()[0].instructions) < 100
