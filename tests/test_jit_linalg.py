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
