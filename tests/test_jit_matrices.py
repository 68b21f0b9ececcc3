"""Products of matrices in compiled programs, and how gradients of them lie in memory."""

import numpy as np
import pytest

import functrace as ft
from functrace.compile import merge, optimise, passes
from tests.helpers import captured, names_of

RNG = np.random.default_rng(0)


def replays(function, *args, rtol=1e-12, atol=1e-13):
    """The optimised program, which does what the function does."""
    program = optimise.optimise(captured(function, *args))
    for a, b in zip(program(*args), ft.tree.leaves(function(*args))):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
    jitted = ft.jit(function)
    for moved in (args, [np.asarray(a) * 1.25 for a in args]):
        for _ in range(2):
            for a, b in zip(ft.tree.leaves(jitted(*moved)), ft.tree.leaves(function(*moved))):
                np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
    return program


@pytest.mark.parametrize("rows", [5, 400])
def test_the_gradient_of_a_transposed_matrix_lies_as_the_matrix(rows):
    """Past the size from which on the tape keeps no values that no rule reads, too."""
    x, w = RNG.normal(size=(rows, 30)), RNG.normal(size=(20, 30))
    for f, like in ((lambda w: np.sum(np.tanh(x @ w.T)), w), (lambda w: np.sum(np.tanh(w.T @ x.T[:20])), w)):
        g = ft.grad(f)(like)
        assert g.flags.c_contiguous
        np.testing.assert_allclose(g, ft.grad(lambda w, f=f: f(w * 1.0))(like), rtol=1e-12)
    assert ft.grad(lambda w: np.sum(np.tanh(x @ w)))(np.asfortranarray(w.T)).flags.f_contiguous


def test_a_transposed_matrix_meets_a_stack_of_matrices():
    a, b = RNG.normal(size=(3, 2)), RNG.normal(size=(4, 3, 5))
    for f in (lambda a, b: np.sum(np.sin(a @ b)), lambda a, b: np.sum(np.sin(np.swapaxes(b, 1, 2) @ a.T))):
        for x, y in zip(ft.grad(f, (0, 1))(a.T, b), ft.grad(f, (0, 1))(a.T.copy(), b)):
            np.testing.assert_allclose(x, y, rtol=1e-12)


@pytest.mark.parametrize("const", [True, False])
def test_moves_transposes_the_factors_and_not_the_product(const):
    x, w = RNG.normal(size=(6, 4)), RNG.normal(size=(3, 4))

    def f(w, y):
        return ft.grad(lambda w: np.sum(np.tanh((x if const else y) @ w.T)))(w)

    program = replays(f, w, x)
    last = [i for i in program.instructions if i.primitive.name == "matmul"][-1]
    assert program.kinds[last.out].shape == (3, 4)
    assert names_of(passes.moves(captured(lambda x: np.reshape(x[:, :0].T @ x, (1, 0)), np.ones((2, 0))))).count("reshape") == 1


def test_a_square_under_a_product_is_one_multiplication():
    x, t = RNG.normal(size=(40, 3)), RNG.normal(size=40)
    program = replays(ft.grad(lambda w: np.mean((x @ w - t) ** 2)), RNG.normal(size=3))
    assert names_of(program).count("multiply") == 1
    q = RNG.normal(size=(6, 3))
    program = replays(ft.grad(lambda q: np.sum(np.log(np.sum(np.reshape((x @ q.T) ** 2, (-1, 2, 3)), axis=2)))), q)
    assert [program.kinds[i.out].shape for i in program.instructions if i.primitive.name == "multiply"].count((40, 6)) == 1


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_factors_that_would_leave_the_range_stay_apart(scale):
    x, t = RNG.normal(size=(40, 3)) / scale, np.zeros(40)
    w = RNG.normal(size=3)
    f = ft.grad(lambda w: np.sum(scale * ((x @ w - t) * scale) ** 2) / scale)
    np.testing.assert_allclose(ft.jit(f)(w), f(w), rtol=1e-12)


@pytest.mark.parametrize(("rows", "left"), [((), True), ((), False), ((2,), False)], ids=["matrix first", "matrix second", "matrices"])
@pytest.mark.parametrize("const", [True, False], ids=["constants", "rows of an argument"])
def test_products_of_the_inputs_of_a_loop_are_one(rows, left, const):
    args = w, u, data = RNG.normal(size=(4, 5)), RNG.normal(size=(4, 4)), RNG.normal(size=(12, *rows, 5))

    def f(w, u, xs):
        h = np.zeros((*rows, 4))
        for x in data if const else xs:
            h = np.tanh((w @ x if left else x @ w.T) + h @ u)
        return np.sum(h)

    assert names_of(captured(f, *args)).count("matmul") == 24
    assert names_of(replays(f, *args)).count("matmul") == 13
    replays(ft.grad(f, (0, 1)), *args)


def test_rows_are_joined_whichever_are_read_and_in_what_order():
    w, xs = RNG.normal(size=(5, 4)), RNG.normal(size=(12, 5))
    program = replays(lambda w, xs: [np.sin(xs[k] @ w) for k in (-1, 3, 0, 7, 7, 5, 2, -3, 4)], w, xs)
    assert names_of(program).count("matmul") == 1
    assert names_of(replays(lambda w, xs: [np.sin(xs[k] @ w) for k in range(3)], w, xs)).count("matmul") == 3  # too few to be worth it
    mixed = replays(lambda w, xs: [np.sin(xs[k] @ w) for k in range(12)], w.astype(np.float32), xs)
    assert names_of(mixed).count("matmul") == 12  # NumPy converts the matrix for each


def test_merged_sums_the_products_of_constants():
    data = RNG.normal(size=(6, 5, 3))

    def f(w):
        h = np.ones((5, 3))
        for x in data:
            h = np.tanh(x @ w + h)
        return h.sum()

    program = replays(ft.grad(f), RNG.normal(size=(3, 3)))
    assert names_of(program).count("sum_of_products") == 1
    assert len(merge.merged(program).instructions) == len(program.instructions)


def test_an_index_of_two_axes_behind_the_first_leaves_rows():
    index = np.array([[0, 2, -1], [1, 1, 3]])
    x = RNG.normal(size=(4, 5))
    replays(lambda x: np.reshape(x[:, index], (8, 3)) * 2, x)
    jitted = ft.jit(lambda x: x[:, index])
    assert jitted(x).shape == jitted(x).shape == (4, 2, 3) and jitted(x).flags.c_contiguous
    replays(ft.grad(lambda x: np.sum(np.sin(x[:, index]) ** 2)), x)


@pytest.mark.parametrize("index", [np.array([3, 0, 2]), np.array([3, 0, 3]), np.triu_indices(4), np.array([1, -3]), np.zeros(0, int)])
def test_the_gradient_of_what_an_index_reads_once_or_twice(index):
    x = RNG.normal(size=(4, 4))
    replays(ft.grad(lambda x: np.sum(np.sin(x[index]) * np.cos(x[index]))), x)


@pytest.mark.parametrize("n", [0, 1, 5, 900])
def test_what_is_rolled(n):
    x = RNG.normal(size=(n, 3))
    for shift, axis in ((1, 0), (-7, 0), (4, 1), ((1, 2), (0, 1)), (2, None)):
        replays(lambda x, s=shift, a=axis: np.roll(np.sin(x), s, a) * 2, x)
        replays(ft.grad(lambda x, s=shift, a=axis: np.sum(np.roll(x, s, a) * x)), x)


OUTER = {
    "matrix @ vector": (lambda w, h, x: np.tanh(w @ h + x), True),
    "vector @ matrix": (lambda w, h, x: np.tanh(h @ w + x), True),
    "columns": (lambda w, h, x: np.sum(np.sin(h[:, None] * x * w), 1), False),
    "backwards": (lambda w, h, x: np.sum(h[::-1, None] * x * w, 0), False),
    "picked": (lambda w, h, x: np.sum(h[np.arange(30)[::-1, None]] * x * w, 1), False),
    "small": (lambda w, h, x: np.tanh(np.concatenate([w[:9, :9] @ h[:9], h[9:]])), False),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", OUTER)
def test_products_of_columns_and_rows_that_are_added_are_one_product(name, dtype):
    step, joined = OUTER[name]
    w, xs = (RNG.normal(size=(n, 30)).astype(dtype) / 6 for n in (30, 5))

    def f(w, xs):
        h = xs[0]
        for x in xs:
            h = step(w, h, x)
        return np.sum(h**2)

    rounded = {"rtol": 1e-10} if dtype is np.float64 else {"rtol": 1e-5, "atol": 1e-6}  # elements that cancel keep the error of the terms
    program = replays(ft.grad(f), w, xs, **rounded)
    assert ("sum_of_products" in names_of(program)) == joined


def test_whether_a_gradient_is_finite_is_asked_of_what_is_smaller_and_says_so():
    """Of the factors of a product of matrices; of the gradient of a bias, a sum, in the place of what is summed."""
    x, w, b = RNG.normal(size=(4, 200)), RNG.normal(size=(200, 50)) / 20, RNG.normal(size=50)
    f = ft.grad(lambda w, b: np.sum(np.tanh(x @ w + b) ** 2), (0, 1))
    program = replays(f, w, b)
    made = {i.out: i for i in program.instructions}
    asked = [made[i.args[0]].args[0] for i in program.instructions if i.primitive.name == "isfinite"]
    assert asked and all(program.kinds[a].shape == (50,) for a in asked)
    g = ft.grad(lambda w, b: np.sum(np.where(w[:4] > 0, np.sqrt(w[:4]), 0.0)) + np.sum((x @ w + b) ** 2), (0, 1))
    w = np.abs(w)
    w[0] = 0.0  # where the derivative of what was not taken is infinite
    jitted = ft.jit(g)
    for k in range(3):
        for got, expected in zip(jitted(w, b), g(w, b)):
            np.testing.assert_allclose(got, expected, rtol=1e-12)
            assert np.all(np.isfinite(got)) == (k < 2)
        b[k] = [1.0, np.inf, 1.0][k]


@pytest.mark.parametrize("batch", [(), (4,)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_a_sum_over_the_rows_of_a_product_is_the_product_of_their_sum(batch, keepdims, shared):
    x, w = RNG.normal(size=(*batch, 50, 6)), RNG.normal(size=(6, 5) if shared else (*batch, 6, 5))
    sums = [lambda x, w: np.sum(np.sin(x) @ w, axis=-2, keepdims=keepdims)]
    if batch:
        sums += [lambda x, w: np.sum(np.transpose(np.sin(x) @ w, (1, 0, 2)), axis=0, keepdims=keepdims)]
    if batch and shared:
        sums += [lambda x, w: np.sum(np.sin(x) @ w, axis=(0, 1), keepdims=keepdims)]

    def of_matrices(program):  # a sum of few elements is a product with a vector
        found = [(program.kinds[i.out], i.args) for i in program.instructions if i.primitive.name == "matmul"]
        return [k for k, args in found if all(len(program.kinds[a].shape) > 1 for a in args)]

    for f in sums:
        products = of_matrices(replays(f, x, w))
        assert [k.size for k in products] == [w.shape[-1] * (1 if f is sums[-1] and batch and shared else len(x) if batch else 1)]
    for f in (lambda x, w: np.sum(x @ w, axis=-1), lambda x, w: [y := np.sin(x) @ w, np.sum(y, axis=-2)]):
        products = of_matrices(replays(f, x, w))
        assert [k.shape for k in products] == [(200, 5) if batch and shared else (*batch, 50, 5)]


@pytest.mark.parametrize("columns", [2, 10, 300, 600])
def test_sums_over_axes_between_in_a_loop(columns):
    x = RNG.normal(size=(30, 40, 3, columns))
    for axes in (1, (1, 2), 2, (0, 2)):
        for keepdims in (False, True):
            replays(lambda x, a=axes, k=keepdims: np.sum(np.exp(np.sin(x)) * 0.5, axis=a, keepdims=k) + 1.0, x)


def test_matrices_times_one_are_one_product():
    x, w = RNG.normal(size=(2, 3, 4, 5)), RNG.normal(size=(5, 6))
    program = replays(ft.grad(lambda w, v: np.sum(np.tanh(np.tanh(x @ w) @ v) @ v.T), (0, 1)), w, RNG.normal(size=(6, 5)))
    assert {len(program.kinds[a].shape) for i in program.instructions if i.primitive.name == "matmul" for a in i.args} == {2}
    assert ft.jit(lambda x, w: x @ w)(x[:0], w).shape == (0, 3, 4, 6)
    vector = lambda x, v: np.tanh(x) @ v  # noqa: E731
    assert names_of(replays(vector, x, RNG.normal(size=5))).count("reshape") == 2
    matrices = RNG.normal(size=(3, 4, 5))
    assert names_of(replays(lambda v: matrices @ v, RNG.normal(size=5))) == ["matmul", "reshape"]


def test_sums_of_few_elements_are_products_with_ones():
    x, v, w = RNG.normal(size=(7, 5)), RNG.normal(size=5), RNG.normal(size=7)
    for axis in (0, 1, -1):
        for keepdims in (False, True):
            names = names_of(replays(lambda x, a=axis, k=keepdims: np.sum(np.sin(x), axis=a, keepdims=k), x))
            assert "sum" not in names and "matmul" in names
    products = {  # with what was multiplied with, if it is a vector along the axis of the sum
        "row": (lambda x, v, w: np.sum(x * v, axis=1), ["matmul"]),
        "column": (lambda x, v, w: np.sum(w[:, None] * x, axis=0), ["reshape", "reshape", "matmul"]),
        "vectors": (lambda x, v, w: np.sum(np.sin(np.concatenate([v, w])) * np.concatenate([w, v])), ["sin", "matmul"]),
        "across": (lambda x, v, w: np.sum(x * v, axis=0), ["multiply", "matmul"]),
        "used": (lambda x, v, w: [y := x * v, np.sum(y, axis=1)], ["multiply", "matmul"]),
    }
    for f, expected in products.values():
        assert [n for n in names_of(replays(f, x, v, w)) if n != "concatenate"] == expected
    square = RNG.normal(size=(5, 5))  # the shapes of whose rows and columns are one
    for f in (lambda x, v: np.sum(x * v, axis=0), lambda x, v: np.sum(x * v[:, None], axis=1)):
        assert "multiply" in names_of(replays(f, square, v))
    kept = [
        lambda x: np.sum(x),
        lambda x: np.sum(x[:2, :2], axis=0),
        lambda x: np.sum(np.tile(x, (200, 9)), 0),
        lambda x: np.sum(x.T @ x > 1, 0),
    ]
    for f in kept:
        assert "sum" in names_of(replays(f, x))
    single = x.astype(np.float32)  # of whose products of few numbers OpenBLAS may warn where nothing is invalid
    for f in kept[:1] + [lambda x: np.sum(np.sin(x), axis=0), lambda x: np.sum(x * v.astype(np.float32), axis=1)]:
        assert "sum" in names_of(replays(f, single, rtol=1e-5, atol=1e-6))


def test_an_index_of_all_elements_in_their_order_is_a_reshape():
    x = RNG.normal(size=(4, 1, 3))
    names = lambda f: names_of(replays(ft.grad(lambda x: np.sum(f(x) ** 3)), x))  # noqa: E731
    for f in (lambda x: x[:, 0, :], lambda x: x[None, ..., None], lambda x: x[0:4, :, None], lambda x: x[:9]):
        assert not {"getitem", "placed"}.intersection(names(f))
    for f in (lambda x: x[:, :, ::-1], lambda x: x[1:], lambda x: x[:, 0, 1:]):
        assert {"getitem", "placed"} <= {*names(f)}


def test_constants_alike_are_one():
    factors = [RNG.normal(size=(4, 3)), np.array(0.0), np.array(-0.0), np.ones(3), np.ones(3, np.float32)]

    def f(x):
        return [x @ factor.copy() if factor.ndim == 2 else x[:, :3] * factor.copy() for factor in factors for _ in range(2)]

    program = passes.common(captured(f, RNG.normal(size=(2, 4))))
    assert names_of(program).count("matmul") == 1 and names_of(program).count("multiply") == 4
