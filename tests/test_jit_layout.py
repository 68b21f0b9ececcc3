"""Compiled programs on long batches of short examples, whose buffers have the batch innermost: same values, usual results."""

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace.compile.layout import EXAMPLE, LAST, LONG, SHORT, deep, empty, laid, narrow, tall


def rodrigues(r, p):
    angle = fnp.sqrt(fnp.sum(r * r))
    axis = r / angle
    return p * fnp.cos(angle) + fnp.cross(axis, p) * fnp.sin(angle) + axis * fnp.sum(axis * p) * (1 - fnp.cos(angle))


def turning(x):
    """Of each row a rotation about the third axis, of stacks."""
    c, s, z = fnp.cos(x[:, 0]), fnp.sin(x[:, 1]), 0 * x[:, 2]
    return fnp.stack([fnp.stack([c, -s, z], 1), fnp.stack([s, c, z], 1), fnp.stack([z, z, z + 1], 1)], 1)


def softmax(x):
    e = fnp.exp(x - fnp.max(x, axis=1, keepdims=True))
    return e / fnp.sum(e, axis=1, keepdims=True)


W = np.random.default_rng(7).normal(size=(3, 4))
SCALE = np.random.default_rng(8).uniform(0.5, 1.5, (2 * LONG, 3))

PROGRAMS = {
    "jacobians": ft.vmap(ft.jacrev(rodrigues, (0, 1))),
    "rotated": ft.vmap(rodrigues),
    "softmax": lambda x, y: softmax(x) * y,
    "summed": lambda x, y: (fnp.sum(x * y, axis=-1), fnp.max(x - y, axis=1)),
    "matrices": lambda x, y: softmax(x @ W) @ W.T + y * fnp.sum(x, 1, keepdims=True),
    "constant": lambda x, y: fnp.sum(np.resize(SCALE, x.shape) * x, 1, keepdims=True) * y[:, :1] + np.resize(SCALE, x.shape),
    "chosen": lambda x, y: fnp.where(np.arange(3) == 1, 0.0, x * fnp.sum(y, 1, keepdims=True)),
    "joined": lambda x, y: fnp.concatenate([x * y[:, :1], fnp.stack([x[:, 0], y[:, 1]], 1)], 1),
    "products": lambda x, y: (turning(x) @ turning(y) @ x[..., None], fnp.einsum("nij,nj->ni", turning(x), y), x[:, None] @ turning(y)),
    "their gradient": ft.grad(lambda x, y: fnp.sum((turning(x) @ turning(y) @ x[..., None])[..., 0] ** 2 * softmax(y)), (0, 1)),
    "large products": lambda x, y: (x[:, :, None] * y[:, None]) @ fnp.stack([x] * 7, 2) + fnp.sum(x * y[:, :1], 1)[:, None, None],
    "gradient": ft.grad(lambda x, y: fnp.sum(softmax(x * y[:, 1:2]) ** 3), (0, 1)),
    "parts": ft.grad(lambda x, y: x[0, 0] * x[1, 2] * fnp.sum(y[:2, 1] * y[2, 0]), (0, 1)),
    "deep": lambda x, y: fnp.sum(x[:, :, None] * y[:, None, :], axis=2)[:, None, :] * fnp.reshape(y, (-1, 3, 1)),
    "loop": lambda x, y: ft.scan(lambda c, _: (c * fnp.sum(c * y, 1, keepdims=True) / 9, fnp.sum(c, 1)), x, None, length=4),
    "passed": lambda x, y: (x, x * y[:, :1], y[:, ::-1]),
}


@pytest.mark.parametrize("n", [3, LONG - 1, LONG, 2 * LONG, 30_000])
@pytest.mark.parametrize("name", PROGRAMS)
def test_replays_are_right_and_lie_as_usual(name, n):
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(n, 3)), rng.normal(size=(n, 3))
    expected = PROGRAMS[name](x, y)
    f = ft.jit(PROGRAMS[name])
    for case in ((x, y), (x, y), (np.asfortranarray(x), y), (x[::-1].copy()[::-1], y), (x, laid(y))):
        got = f(*case)
        for a, b, eager in zip(ft.tree.leaves(expected), ft.tree.leaves(got), ft.tree.leaves(PROGRAMS[name](*case))):
            np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-13)
            assert (b.flags.c_contiguous or not eager.flags.c_contiguous) and b.base is None or not tall(b.shape)
    np.testing.assert_array_equal(x, np.random.default_rng(n).normal(size=(n, 3)))


def test_what_is_joined_and_small_products_run_along_the_batch():
    x, y = np.random.default_rng(0).normal(size=(2, 2 * LONG, 3))
    for name in ("products", "their gradient"):
        f = ft.jit(PROGRAMS[name])
        f(x, y)
        shown = f.show()
        assert (
            "einsum" in shown
            and "filled" in shown
            and not any(f"= {word}(" in shown for word in ("stack", "matmul", "contraction", "placed"))
        )
        f(x[:9], y[:9])
        assert f.show().count("einsum") == shown.count("einsum")
    f = ft.jit(PROGRAMS["large products"])
    f(x, y)
    assert "matmul" in f.show() and "einsum" not in f.show()


def test_columns_that_only_products_read_are_put_one_after_the_other():
    def f(x, w, matrix=False):
        columns = fnp.stack([x[0], x[1] * 2, fnp.sin(x[2])], -1)
        return (
            (columns.reshape(-1, 3) @ w).reshape(x.shape[1:]) * 3,
            columns.reshape(-1, 3).T @ columns.reshape(-1, 3),
            columns if matrix else None,
        )

    x, w = np.random.default_rng(0).normal(size=(3, 40, 30)), np.arange(3.0)
    for matrix in (False, True):
        jitted = ft.jit(lambda x, w, matrix=matrix: f(x, w, matrix))
        jitted(x, w)
        assert ("]).transpose((1, 2, 0))" in jitted.show()) != matrix
        for got, wanted in zip(ft.tree.leaves(jitted(x, w)), ft.tree.leaves(f(x, w, matrix))):
            np.testing.assert_allclose(got, wanted, rtol=1e-12)
            assert got.flags.c_contiguous


def test_where_rows_are_picked_and_scattered_they_stay_together():
    rng = np.random.default_rng(0)
    x, k = rng.normal(size=(LONG, 4)), rng.integers(0, LONG, (2, 2 * LONG))
    f = ft.grad(lambda x, k: fnp.sum(fnp.tanh(fnp.sum(x[k[0]] * x[k[1]], 1))))
    jitted = ft.jit(f)
    jitted(x, k)
    np.testing.assert_allclose(jitted(x, k), f(x, k), rtol=1e-12)
    assert "laid" not in jitted.show()


def test_a_batch_lies_innermost_where_short_loops_cost_more_than_copies(rng):
    x = rng.normal(size=(2 * LONG, 6))

    def rosenbrock(x):
        return fnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    f, g = ft.vmap(ft.hessian(rosenbrock)), lambda x: (x * x[:, :1] + 1, fnp.sin(x), fnp.cos(x))  # six loops in a row; one, and copies
    for one, copied in ((f, True), (g, False)):
        jitted = ft.jit(one)
        jitted(x)
        for got, wanted in zip(ft.tree.leaves(jitted(x)), ft.tree.leaves(one(x))):
            np.testing.assert_allclose(got, wanted, rtol=1e-12)
            assert got.flags.c_contiguous
        assert ("laid" in jitted.show()) == copied


def test_results_outlive_the_next_call():
    f = ft.jit(PROGRAMS["jacobians"])
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 500, 3))
    first = f(x, y)
    kept = [a.copy() for a in first]
    f(y, x)
    for a, b in zip(first, kept):
        np.testing.assert_array_equal(a, b)


def test_donated_arrays_may_be_tall():
    x, y = np.random.default_rng(0).normal(size=(2, 500, 3))
    f = ft.jit(lambda x, y: x * fnp.sum(y, 1, keepdims=True), donate_argnums=0)
    expected = x * y.sum(1, keepdims=True)
    for _ in range(2):
        np.testing.assert_allclose(f(x.copy(), y), expected, rtol=1e-12)


def test_what_is_tall():
    assert tall((LONG, 3)) and tall((LONG, 2, EXAMPLE // 2))
    assert not any(map(tall, [(LONG,), (LONG, 1), (LONG - 1, 3), (LONG, EXAMPLE + 1), (0, 3), ()]))
    x = empty((LONG, 2, 3), np.dtype(float))
    assert x.shape == (LONG, 2, 3) and x.strides[0] == 8
    x[...] = 1
    assert laid(x) is x and laid(np.ascontiguousarray(x)).strides == x.strides


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(2, 140_000), (1, 2, 140_000)])
def test_few_long_rows_run_in_blocks_of_all_elements(shape, order):
    def f(x, y, scale):
        z = np.sin(x) * scale + y
        return z, (z - z.mean()) * 2, z.max(), z.sum(axis=-1, keepdims=True), np.maximum(z, x).reshape(-1)

    jitted, rng = ft.jit(f), np.random.default_rng(0)
    for _ in range(3):
        x, y = (np.array(rng.normal(size=shape), order=order) for _ in range(2))
        for found, wanted in zip(jitted(x, y, 2.0), f(x, y, 2.0)):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
            assert found.shape == wanted.shape
    assert "loop0" in jitted.show() and jitted.cache_info()["hits"] == 2


def differences(x, y):
    return x[:, None, :] - y[None, :, :]


CENTRES = np.random.default_rng(9).normal(size=(300, 3))
PAIRS = {
    "kernel": lambda x, y: fnp.sum(fnp.exp(-fnp.sum(differences(x, y) ** 2, -1))),
    "constants": lambda x, y: fnp.sum(1 / (1 + fnp.sum(differences(x, CENTRES) ** 2 * y[0], -1))),
    "weights": lambda x, y: fnp.sum(fnp.tanh(differences(x, y) * fnp.linspace(0.0, 1, 300 * 3).reshape(300, 3))),
    "forces": lambda x, y: fnp.sum(fnp.sum(differences(x, y) / (fnp.sum(differences(x, y) ** 2, -1, keepdims=True) + 1), 1) ** 3),
    "extremes": lambda x, y: fnp.sum(fnp.max(fnp.abs(differences(x, y)), -1) * fnp.min(fnp.sin(differences(x, y)), (1, 2))[:, None]),
    "chosen": lambda x, y: fnp.sum(fnp.where(differences(x, y) > 0, differences(x, y) ** 3, y[None])),
    "over all": lambda x, y: fnp.sum(fnp.sum(differences(x, y) ** 3, 0) * y),
    "reshaped": lambda x, y: fnp.sum(fnp.sum(fnp.reshape(differences(x, y) ** 2, (-1, 900)), 0) ** 2),
    "returned": lambda x, y: fnp.sum(differences(x, y) ** 2, -1),
    "returned whole": lambda x, y: fnp.exp(differences(x, y)) * 2,
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_points_with_few_coordinates(name, dtype):
    """In arrays of (n, m, 3) NumPy's loops are along m, in blocks and without."""
    rng, pair = np.random.default_rng(1), PAIRS[name]
    for n in (40, 90, *((2, 12) if dtype == np.float64 else ())):
        x, y = rng.normal(size=(n, 3)).astype(dtype), rng.normal(size=(300, 3)).astype(dtype)
        f = pair if "returned" in name else ft.value_and_grad(pair, (0, 1))
        jitted = ft.jit(f)
        for case in ((x, y), (x, y), (np.asfortranarray(x), y[::-1])):
            for a, b in zip(ft.tree.leaves(f(*case)), ft.tree.leaves(jitted(*case))):
                np.testing.assert_allclose(b, a, rtol=1e-10 if dtype == np.float64 else 1e-3, atol=1e-10 if dtype == np.float64 else 1e-3)
                assert a.dtype == b.dtype and (not np.ndim(b) or b.flags.c_contiguous)


def test_matrices_of_short_rows_lie_as_planes_where_rows_would_be_gone_along_one_by_one(rng):
    x, deep = rng.normal(size=(30, 3)), rng.normal(size=(4, 30, 3))
    f = ft.jit(ft.grad(lambda x: fnp.sum(1 / (1 + fnp.sum(differences(x, x) ** 2, -1)))))
    g = ft.jit(lambda x: (x * x[:, :, :1] + 1, x @ x[0, :3], x[2].reshape(-1), x.reshape(-1, 3)))  # mostly others
    h = ft.jit(lambda x: (x / np.sum(x, -1, keepdims=True), x[..., ::-1] * x[:, :, :1] * CENTRES[:30]))
    for jitted, arg in ((f, x), (g, deep), (h, deep)):
        jitted(arg)
        for got, want in zip(ft.tree.leaves(jitted(arg)), ft.tree.leaves(jitted.fun(arg))):
            np.testing.assert_allclose(got, want, rtol=1e-12)
            assert got.flags.c_contiguous
    assert ["laid" in jitted.show() for jitted in (f, g, h)] == [True, False, True]


def test_what_is_narrow():
    assert narrow((300, 3)) and narrow((5, 300, SHORT))
    assert not any(map(narrow, [(300,), (300, 1), (SHORT, 3), (300, SHORT + 1), (0, 3), (300, 0), ()]))
    x = laid(np.arange(12.0).reshape(2, 3, 2), LAST)
    assert x.strides == (24, 8, 48) and x.ravel().tolist() == list(range(12)) and laid(x, LAST) is x
    assert (
        deep((5, 300, 3)) and deep((2, 5, 300, 3)) and not any(map(deep, [(300, 3), (1, 300, 3), (5, 300, 1), (5, 1, 3), (2, 60_000, 3)]))
    )


def test_a_program_that_mostly_picks_rows_keeps_them_together(rng):
    factors, i, j = rng.normal(size=(LONG, 4)), rng.integers(0, LONG, 2 * LONG), rng.integers(0, LONG, 2 * LONG)

    def gradient(u):
        return ft.grad(lambda u: fnp.sum(fnp.sum(u[i] * u[j], axis=1) ** 2))(u)

    f = ft.jit(gradient)
    f(factors)
    np.testing.assert_allclose(f(factors), gradient(factors), rtol=1e-12)
    assert "laid" not in f.show()
    g = ft.jit(lambda u: u / fnp.sum(u * u, axis=1, keepdims=True))
    g(factors)
    assert "laid" in g.show()
