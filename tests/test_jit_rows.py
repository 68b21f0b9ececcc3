"""Compiled loops over rows: views, cross products and what is put together run block by block with what is elementwise."""

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace.compile.fuse import LARGE
from functrace.compile.program import kind_of
from functrace.compile.source import product, summed_product
from functrace.sums import alone

N = LARGE // 3 + 41  # rows, in blocks of which the last is shorter
MIX = np.random.default_rng(3).normal(size=(3, 3))


def step(rng, known):
    """A value made of rows that are known: few of them, the last ones mostly, so that memory is used again and again."""
    x = known[-1 - int(rng.integers(min(4, len(known))))]
    y = known[-1 - int(rng.integers(min(6, len(known))))]
    which = rng.integers(13)
    if which == 0:
        return fnp.tanh(x)
    if which == 1:
        return x * y[:, :1] + x
    if which == 2:
        return fnp.where(x[:, :1] > 0.1, x, y[:, 1:2])
    if which == 3:
        return fnp.stack([x[:, k] for k in rng.permutation(3)], 1)
    if which == 4:
        return fnp.concatenate([x[:, 1:], y[:, :1]], 1) - 0.3
    if which == 5:
        return fnp.cross(x, y) * 0.5
    if which == 6:
        return fnp.cross(x, x[:, ::-1])
    if which == 7:
        return x[:, ::-1] * y
    if which == 8:
        return fnp.sum(x[:, :, None] * y[:, None, 1:], 2)
    if which == 9:
        return fnp.sin(fnp.sum(x * y, 1))[:, None] * y
    if which == 10:
        return fnp.tanh(x @ MIX) + y
    if which == 11:
        return x @ (y.T @ fnp.sin(x)) / N
    return fnp.cos(x) - y[:, 2:]


def program(seed, steps=14):
    def run(x, y):
        rng = np.random.default_rng(seed)
        known = [x, y]
        for _ in range(steps):
            known.append(step(rng, known))
        return known[-1], known[-2][:, 1], fnp.sum(known[-3], 0)

    return run


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_on_rows(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(N, 3)), rng.normal(size=(N, 3))
    run = program(seed)
    slope = ft.grad(lambda x, y: sum(fnp.sum(fnp.sin(v)) for v in run(x, y)[:2]), (0, 1))
    for f in (run, slope):
        expected, compiled = f(x, y), ft.jit(f)
        compiled(x, y)
        for case in ((x, y), (np.asfortranarray(x), y)):
            got = compiled(*case)
            for a, b in zip(expected, got):
                assert a.shape == b.shape and b.flags.c_contiguous and not np.shares_memory(b, case[0])
                np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-10 * np.abs(a).max())  # sums cancel


def test_what_dies_where_its_elements_are_mixed_keeps_its_memory(rng):
    x = rng.normal(size=(N, 3))

    def f(x):
        for _ in range(3):
            x = fnp.tanh(x)
            x = fnp.cross(x, fnp.cos(x))
            x = fnp.exp(x[:, ::-1]) - x[:, :1]
        return x

    np.testing.assert_array_equal(ft.jit(f)(x), f(x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_parts_that_leave_something_out(dtype, rng):
    x = rng.normal(size=(N, 4)).astype(dtype)

    def f(x):
        return ft.grad(lambda x: fnp.sum(fnp.sin(x[:, 1:3]).real) + fnp.sum((x[:, 2] * x[:, 2]).real))(x) * 2

    compiled = ft.jit(f)
    for _ in range(2):
        got = compiled(x)
        assert kind_of(got) == kind_of(f(x)) and not got[:, 0].any()
        np.testing.assert_allclose(got, f(x), rtol=1e-6)


def test_examples_of_few_numbers_run_in_one_loop(rng):
    def f(x, y):
        z = fnp.cross(x, y)[:, :2] / y[:, 2:]
        return fnp.stack([z[:, 0], fnp.sum(z * z, 1)], 1) * fnp.tanh(z)

    x, y = rng.normal(size=(2, N, 3))
    compiled = ft.jit(f)
    np.testing.assert_allclose(compiled(x, y), f(x, y), rtol=1e-14)
    shown = compiled.show()
    assert "loop0(" in shown and "loop1(" not in shown
    assert not any(f"= {name}(" in shown for name in ("cross", "stack", "tanh"))


def clusters(x, w, b):
    """Distances in several bases at once: rows of groups of few numbers."""
    y = x @ w - b
    d = fnp.sum(fnp.reshape(y * y, (len(x), -1, 4)), 2)
    return fnp.sum(fnp.log(fnp.sum(fnp.exp(-d), 1)))


@pytest.mark.parametrize("n", [700, 703, 1999])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_rows_run_in_the_loop(n, dtype, rng):
    x, w, b = (rng.normal(size=s).astype(dtype) for s in ((n, 5), (5, 120), (120,)))
    for argnums in ((1, 2), (0, 1, 2)):
        slope = ft.jit(ft.value_and_grad(clusters, argnums))
        value, gradients = ft.value_and_grad(clusters, argnums)(x, w, b)
        for _ in range(2):
            got, found = slope(x, w, b)
            np.testing.assert_allclose(got, value, rtol=2e-5 if dtype is np.float32 else 1e-12)
            for a, c in zip(gradients, found):
                assert kind_of(a) == kind_of(c) and c.flags.c_contiguous
                np.testing.assert_allclose(
                    c, a, rtol=1e-4 if dtype is np.float32 else 1e-10, atol=np.abs(a).max() * np.finfo(dtype).eps * 40
                )
    shown = slope.show()
    assert "loop1(" not in shown and "= matmul(" not in shown and not any(f"r{k} = x{j}.dot(" in shown for k in range(9) for j in range(3))


def alike(x, w):
    """Products of matrices that have as many rows as columns: which are rows and which columns is told by what they are."""
    y = fnp.tanh(x @ w)
    z = y.T @ x
    return fnp.sum(fnp.sin(y) * (y.T + 1)), z, fnp.sum(z * z) + fnp.sum(y.T @ (w.T * 2))


def test_square_products(rng):
    x, w = rng.normal(size=(600, 12)) / 4, rng.normal(size=(12, 600))
    for f in (alike, ft.grad(lambda x, w: alike(x, w)[0] + alike(x, w)[2], (0, 1)), lambda x, w: (fnp.exp(x @ w) @ w.T, (x @ w).T)):
        expected, compiled = f(x, w), ft.jit(f)
        for case in ((x, w), (np.asfortranarray(x), w), (x, np.asfortranarray(w)), (x, w)):
            for a, b in zip(expected, compiled(*case)):
                np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-10 * np.abs(a).max())


def test_a_factor_is_read_whole_though_it_has_as_many_rows(rng):
    a, c, d = (rng.normal(size=s) for s in ((20, 20), (20, 40), (40, 9000)))

    def f(a, c, d):
        b = c @ d  # whose memory no result may take: each block reads all of it
        first = fnp.tanh(a @ b) * 2
        return first + fnp.cos(fnp.sin(a) @ fnp.tanh(first))

    compiled = ft.jit(f)
    for _ in range(3):
        np.testing.assert_allclose(compiled(a, c, d), f(a, c, d), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "choose", [lambda x: fnp.where(x > 0, x[:, ::-1], 0.5), lambda x: fnp.where(x[:, ::-1] > 0, x, 0.5), lambda x: x[:, ::-1] @ MIX]
)
def test_what_reads_a_view_does_not_write_over_it(choose, rng):
    x = rng.normal(size=(N, 3))

    def f(x):
        for _ in range(3):
            x = choose(fnp.sin(x)) + 1.0
        return x

    compiled = ft.jit(f)
    for _ in range(2):
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-13)


def turned(a, axis):
    """Rotations about an axis, by an angle for each row."""
    c, s = fnp.cos(a), fnp.sin(a)
    zero = 0 * c
    rows = [[c, -s, zero], [s, c, zero], [zero, zero, zero + 1]]
    return fnp.stack([fnp.stack([rows[(j - axis) % 3][(k - axis) % 3] for k in range(3)], -1) for j in range(3)], -2)


def arm(q):
    t = turned(q[..., 0], 0) @ turned(q[..., 1], 1) @ turned(q[..., 2], 2).swapaxes(-1, -2)
    return fnp.sum((t @ MIX - t @ t) ** 2, (-1, -2)) + (t @ np.array([1.0, 2.0, 3.0]))[..., 1]


@pytest.mark.parametrize("f", [arm, ft.grad(lambda q: fnp.sum(arm(q))), ft.vmap(ft.jacrev(arm)), ft.vmap(ft.hessian(arm))])
def test_products_of_many_small_matrices(f, rng):
    q = rng.normal(size=(N, 3))
    expected, compiled = f(q), ft.jit(f)
    for case in (q, q, np.asfortranarray(q)):
        got = compiled(case)
        assert kind_of(got) == kind_of(expected)
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)
    assert "products" in compiled.show()


MORE = [
    lambda x, y: fnp.einsum("nij,nj->ni", fnp.cos(x[:, :, None] + y[:, None]), y),
    lambda x, y: fnp.einsum("nij,njk->nik", x[:, :, None] * y[:, None], fnp.sin(y[:, :, None] - x[:, None]))[:, 1],
    lambda x, y: fnp.roll(x, 1, 1) + y,
    lambda x, y: fnp.roll(x[:, ::-1], -2, 1) * y,
    lambda x, y: fnp.cross(x, y),
    lambda x, y: fnp.sum(x[:, :1] * y, 0) / N + x,
    lambda x, y: fnp.stack([x[:, 2], y[:, 0], x[:, 1]], 1),
    lambda x, y: x @ MIX + y,
]


@pytest.mark.parametrize("seed", range(30))
def test_random_programs_of_contractions_and_rolls(seed):
    def f(x, y):
        draw, known = np.random.default_rng(seed), [x, y]
        for _ in range(9):
            a, b = (known[-1 - int(draw.integers(min(4, len(known))))] for _ in range(2))
            known.append(fnp.sin(MORE[draw.integers(len(MORE))](a, b)))
        return known[-1], fnp.sum(known[-2] * known[-3], 0)

    x, y = np.random.default_rng(seed).normal(size=(2, N, 3))
    for g in (f, ft.grad(lambda x, y: sum(fnp.sum(v) for v in f(x, y)), (0, 1))):
        compiled = ft.jit(g)
        for _ in range(2):
            for got, expected in zip(compiled(x, y), g(x, y)):
                np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11 * N)


def test_contractions_and_rolls_of_rows_run_in_the_loop(rng):
    a, x = rng.normal(size=(N, 3, 3)), rng.normal(size=(N, 3))

    def f(a, x):
        y = fnp.einsum("nij,nj->ni", a, fnp.tanh(x))
        return fnp.sum(fnp.roll(y, 1, 1) * y * fnp.roll(x, 2, 0)), fnp.einsum("nij,nkj->nik", a, a) * 2

    compiled = ft.jit(f)
    for _ in range(2):
        for got, expected in zip(compiled(a, x), f(a, x)):
            np.testing.assert_allclose(got, expected, rtol=1e-11)
    outside = [line for line in compiled.show().split("\n") if not line.startswith("#")]
    assert not any("einsum" in line for line in outside) and sum(" = roll(" in line for line in outside) == 1  # that of the rows


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_weighted_sums_are_products_with_the_weights(dtype, rng):
    w, x = rng.normal(size=N).astype(dtype), rng.normal(size=(N, 2, 3)).astype(dtype)
    v = rng.normal(size=3).astype(dtype)
    sums = {
        "rows": lambda w, x, v: fnp.sum(fnp.tanh(w)[:, None, None] * x, 0),
        "kept": lambda w, x, v: fnp.sum(x * fnp.tanh(w)[:, None, None], 0, keepdims=True),
        "both": lambda w, x, v: fnp.sum(x * (fnp.sin(w[:, None]) * v[:2])[..., None], (0, 1)),
        "last": lambda w, x, v: fnp.sum(fnp.cos(x) * v, -1),
    }
    for f in sums.values():
        compiled = ft.jit(f)
        for _ in range(2):
            got = compiled(w, x, v)
            np.testing.assert_allclose(got, f(w, x, v), rtol=1e-9 if dtype == np.float64 else 1e-2, atol=1e-2 if dtype == np.float32 else 0)
            assert kind_of(got) == kind_of(f(w, x, v))
        assert ".dot(" in compiled.show() or "product" in compiled.show()
    for f in (lambda w, x, v: fnp.sum(x * w[:, None, None], 1), lambda w, x, v: fnp.sum(x * v[:2, None], 0)):  # not along all of the axes
        compiled = ft.jit(f)
        compiled(w, x, v)
        assert ".dot(" not in compiled.show() and "product" not in compiled.show()


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize(("rows", "n", "m"), [(5, 3, 4), (9000, 16, 16), (4097, 32, 40), (20000, 1, 5), (20000, 7, 1), (8192, 1, 1)])
def test_products_in_pieces_that_blas_does_on_one_thread(rows, n, m, order, rng):
    x, y, out = rng.normal(size=(rows, n)), rng.normal(size=(n, m)), np.empty((rows, m), order=order)
    x = np.asarray(x, order=order)
    product(x, y, out)
    np.testing.assert_allclose(out, x @ y, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(summed_product(x.T, out), x.T @ out, rtol=1e-12, atol=1e-10)
    pieces = alone(n, m)
    assert pieces * max(n, m) <= 8192 if 1 in (n, m) else pieces * n * m <= 1 << 18


def test_what_an_index_array_takes_of_rows_stays_out_of_the_loop(rng):
    x, w, k = rng.normal(size=(N, 3)), rng.normal(size=(3, 4)), rng.integers(0, 4, N)

    def loss(w, x):
        z = x @ w
        z = z - np.max(z, 1, keepdims=True)
        return np.mean((z - np.log(np.sum(np.exp(z), 1, keepdims=True)))[np.arange(N), k])

    compiled = ft.jit(ft.grad(loss))
    for _ in range(2):
        np.testing.assert_allclose(compiled(w, x), ft.grad(loss)(w, x), rtol=1e-10, atol=1e-14)


def test_parts_of_a_mesh_lie_as_its_other_arrays_do(rng):
    x = rng.normal(size=(90, 70, 3))

    def energy(x):
        edges = (x[1:] - x[:-1], x[:, 1:] - x[:, :-1], x[1:, 1:] - x[:-1, :-1])
        return sum([np.sum((np.sqrt(np.sum(e**2, -1)) - 1.0) ** 2) for e in edges])

    compiled = ft.jit(ft.grad(energy))
    for _ in range(2):
        np.testing.assert_allclose(compiled(x), ft.grad(energy)(x), rtol=1e-10, atol=1e-12)
    filled = next(line for line in compiled.show().split("\n") if "= filled" in line)
    assert "made=" in filled
    assert compiled(x).flags.c_contiguous


@pytest.mark.parametrize(("columns", "axis", "keepdims"), [(16, 0, False), (16, 0, True), (3, (0, 1), True), (40, (0, 2), True)])
def test_sums_over_the_rows_of_a_loop(columns, axis, keepdims, rng):
    x = rng.normal(size=(N, *([4] if isinstance(axis, tuple) else []), columns))
    f = lambda x: (fnp.sum(fnp.tanh(x) * x, axis, keepdims=keepdims), fnp.sum(x))
    compiled = ft.jit(f)
    for _ in range(2):
        for a, b in zip(compiled(x), f(x)):
            np.testing.assert_allclose(a, b, rtol=1e-9)
            assert a.shape == b.shape
