"""Sparse Jacobians and Hessians: right, by few products, for patterns that are found, given, and wrong; and products with SciPy's matrices."""

import os
import sys
import warnings
import zlib

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import least_squares

import functrace as ft
import functrace.numpy as fnp
from functrace import errors
from functrace.ops.protocol import load_late
from functrace.ops.registry import TABLE
from functrace.sparse import coloring, derivatives
from tests.helpers import here


@pytest.fixture
def products(monkeypatch):
    """How many products with the Jacobian were asked of the replays, forward and reverse."""
    counted = {"forward": 0, "reverse": 0}
    each = derivatives._Products._each

    def counting(self, replay, seeds, givens, results):
        counted["forward" if givens is self.inputs else "reverse"] += len(seeds)
        return each(self, replay, seeds, givens, results)

    monkeypatch.setattr(derivatives._Products, "_each", counting)
    return counted


def banded(x):
    """Five bands: each result depends on its element and on two to each side."""
    y = np.pad(x, 2)
    return x**3 - y[1:-3] * y[3:-1] + np.sin(y[:-4]) * y[4:]


def as_array(jacobian, x):
    return np.reshape(jacobian, (-1, np.size(x)))


# How many products


def test_a_banded_system_of_2000_takes_at_most_its_bandwidth_and_two_products(products):
    x = np.linspace(0.0, 1.0, 2000)
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(150)
        jacobian = ft.sparse_jacobian(banded)(x)
    finally:
        sys.setrecursionlimit(limit)
    assert 5 <= products["forward"] + products["reverse"] <= 5 + 2
    assert jacobian.shape == (2000, 2000) and jacobian.nnz <= 5 * 2000
    np.testing.assert_allclose(jacobian.toarray(), ft.jacobian(banded)(x), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("width", [1, 2, 3, 7, 12])
def test_convolutions_take_their_width_and_one_product(products, width):
    taps = np.arange(1.0, width + 1)
    f = lambda x: np.convolve(x, taps) ** 2
    x = np.linspace(1.0, 2.0, 100)
    np.testing.assert_allclose(ft.sparse_jacobian(f)(x).toarray(), ft.jacobian(f)(x), rtol=1e-12)
    assert products["forward"] + products["reverse"] == width + 1


def test_a_banded_hessian_takes_at_most_its_bandwidth_and_two_products(products):
    f = lambda x: np.sum((x[1:] - x[:-1] ** 2) ** 2)
    x = np.linspace(0.0, 1.0, 2000)
    hessian = ft.sparse_hessian(f)(x)
    assert products["forward"] + products["reverse"] <= 3 + 2
    assert hessian.nnz == 3 * 2000 - 2
    np.testing.assert_allclose(hessian[:200, :200].toarray(), ft.hessian(f)(x[:201])[:200, :200], rtol=1e-13, atol=1e-13)


def test_an_arrow_takes_two_products_by_symmetry(products):
    f = lambda x: np.sum(x**2 * x[0]) + np.sum(x[1:] ** 4)
    x = np.linspace(0.5, 1.0, 300)
    np.testing.assert_allclose(ft.sparse_hessian(f)(x).toarray(), ft.hessian(f)(x), rtol=1e-13)
    assert products["forward"] == 2 + 1
    g = lambda x: np.concatenate([x[0] * x, x**2])  # its columns need as many, its rows two
    before = products["forward"]
    np.testing.assert_allclose(ft.sparse_jacobian(g)(x).toarray(), ft.jacobian(g)(x), rtol=1e-13)
    assert products["forward"] - before <= 3


def test_rows_are_taken_where_they_need_fewer_products(products):
    f = lambda x: np.stack([np.sum(x**2), x[0] * x[5]])
    x = np.linspace(1.0, 2.0, 50)
    np.testing.assert_allclose(ft.sparse_jacobian(f)(x).toarray(), ft.jacobian(f)(x), rtol=1e-13)
    assert products == {"forward": 1, "reverse": 2}


def test_the_colouring_is_kept_from_call_to_call(monkeypatch):
    calls = []
    monkeypatch.setattr(coloring, "columns", lambda pattern, real=coloring.columns: calls.append(1) or real(pattern))
    jacobian = ft.sparse_jacobian(banded)
    x = np.linspace(0.0, 1.0, 50)
    jacobian(x)
    first = len(calls)
    jacobian(x + 1)
    assert first and len(calls) == first
    np.testing.assert_allclose(jacobian(x[:30]).toarray(), ft.jacobian(banded)(x[:30]))
    assert len(calls) > first


# What is found

X = np.random.default_rng(5).permutation(np.linspace(0.1, 1.0, 24) ** 1.5)
BLOCKS = np.arange(36.0).reshape(6, 6) / 36 + np.eye(6)
CASES = {
    "loop": lambda x: fnp.stack([x[i] * x[i + 1] for i in range(23)]),
    "diff": lambda x: np.diff(x, 2) ** 2,
    "gradient": lambda x: np.gradient(x) * x,
    "roll": lambda x: x * np.roll(x, 1),
    "scan": lambda x: ft.scan(lambda c, u: (c, u**2), 0.0, x)[1],
    "vmap": lambda x: ft.vmap(lambda a, b: a * np.sin(b))(x[1:], x[:-1]),
    "map": lambda x: ft.map(lambda a: a**3, x),
    "checkpoint": lambda x: ft.checkpoint(lambda y: np.sin(y) * y)(x),
    "custom_jvp": lambda x: ft.checkpoint(np.exp)(x)[::2],
    "constant matrix": lambda x: np.triu(np.tril(np.ones((24, 24)), 1)) @ x**2,
    "on the right": lambda x: x**2 @ np.triu(np.tril(np.ones((24, 24)), 1)),
    "matrix of matrices": lambda x: np.eye(6) @ np.reshape(x, (6, 4)) ** 2,
    "sparse matrix": lambda x: sparse.eye_array(24, format="csr") @ x**2,
    "sparse on the right": lambda x: np.reshape(x, (6, 4)) @ sparse.csc_array(np.eye(4)),
    "einsum": lambda x: np.einsum("nij,nj->ni", np.ones((6, 4, 4)), x.reshape(6, 4)),
    "sums": lambda x: (x.reshape(6, 4) ** 2).sum(axis=1),
    "means": lambda x: (x.reshape(2, 3, 4) ** 2).mean(axis=(0, 2)),
    "max": lambda x: x.reshape(6, 4).max(axis=1),
    "sort": lambda x: np.sort(-x) ** 2,
    "norms": lambda x: np.linalg.norm(x.reshape(6, 4), axis=1),
    "determinants": lambda x: np.linalg.det(x.reshape(6, 2, 2) + np.eye(2)),
    "a determinant": lambda x: np.linalg.det(fnp.concatenate([x, x[:1] * 2]).reshape(5, 5) + np.eye(5)),
    "solve": lambda x: np.linalg.solve(BLOCKS, x.reshape(6, 4)),
    "cumsum": lambda x: np.cumsum(x)[:9],
    "take": lambda x: x[[3, 3, 0]] * x[np.array([1, 2, 3])],
    "mask": lambda x: x[x > 0.5] ** 2,
    "where": lambda x: np.where(x > 0.5, x**2, x[::-1]),
    "some constants": lambda x: np.concatenate([np.ones(3), x[:2]]),
    "only constants": lambda x: np.ones(3),
    "interp": lambda x: np.interp(x, [0.0, 0.5, 1.0], [0.0, 1.0, 4.0]),
    "outer": lambda x: np.outer(x[:3], x[3:5]),
    "a number": lambda x: x[0] * x[1],
    "a dict": lambda x: {"b": x[:2] ** 2, "a": np.sum(x[2:4])},
    "nothing": lambda x: x[:0],
}


def in_place(x):
    y = fnp.zeros(24)
    for i in range(1, 23):
        y[i] = x[i - 1] - 2 * x[i] ** 2 + x[i + 1]
    y[3:5] += x[20:22]
    return y


@pytest.mark.parametrize("name", [*CASES, "in place"])
def test_the_jacobian_of(name):
    f = CASES.get(name, in_place)
    got = ft.sparse_jacobian(f)(X)
    want = np.concatenate([np.zeros((0, 24)), *(as_array(j, X) for j in ft.tree.leaves(ft.jacobian(f)(X)))])
    assert isinstance(got, sparse.csr_array) and got.shape == want.shape
    np.testing.assert_allclose(got.toarray(), want, rtol=1e-12, atol=1e-14)
    assert (np.diff(got.indptr) >= 0).all() and got.has_sorted_indices
    loose = {"solve", "cumsum", "where", "interp"}  # a triangle is found as squares; where counts both branches
    if name not in loose:
        assert got.nnz == np.count_nonzero(want)
    scalar = lambda x: sum(np.sum(y**2) for y in ft.tree.leaves(f(x)))
    np.testing.assert_allclose(ft.sparse_hessian(scalar)(X).toarray(), ft.hessian(scalar)(X), rtol=1e-10, atol=1e-12)


def _samples():
    load_late()
    for name, declared in TABLE.items():
        if not declared.constant and not name.startswith("scipy."):
            for sample in declared.samples:
                yield name, declared.function, sample


def test_the_pattern_of_every_op_of_the_table_misses_nothing():
    checked = 0
    for name, function, sample in _samples():
        args = sample.args(np.random.default_rng(zlib.crc32(name.encode())))
        if not sample.wrt or any(getattr(args[k], "dtype", np.dtype(int)).kind != "f" for k in sample.wrt):
            continue

        def f(*xs, function=function, sample=sample, args=args):
            full = list(args)
            for k, x in zip(sample.wrt, xs):
                full[k] = x
            outs = [y for y in ft.tree.leaves(function(*full, **sample.kwargs)) if hasattr(y, "dtype") and y.dtype.kind in "fc"]
            return [part for y in outs for part in ((y.real, y.imag) if y.dtype.kind == "c" else (y,))]

        xs = [args[k] for k in sample.wrt]
        numbers = tuple(range(len(xs)))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dense = ft.jacobian(f, numbers)(*xs)
            pattern = ft.sparse.jacobian_pattern(f, numbers)(*xs).toarray()
        rows = [np.concatenate([np.reshape(j, (out.size, x.size)) for j, x in zip(row, xs)], axis=1) for row, out in zip(dense, f(*xs))]
        want = np.concatenate(rows) if rows else np.zeros(pattern.shape)
        assert pattern.shape == want.shape
        zero = 1e-12 * np.max(np.abs(want), where=np.isfinite(want), initial=0.0)
        missed = (np.abs(want) > zero) & ~pattern
        assert not missed.any(), f"{name}{sample.kwargs} misses {np.argwhere(missed)[:5].tolist()}"
        checked += 1
    assert checked > 1200


def test_scalars_trees_and_several_arguments():
    assert ft.sparse_jacobian(lambda x: x**2)(3.0).toarray().tolist() == [[6.0]]
    params = {"a": np.array([1.0, 2.0]), "b": [3.0, np.array([1, 2])], "c": None}
    f = lambda p, s: {"r": p["a"] * p["b"][0] * s, "n": p["b"][0] ** 2 * p["b"][1][1]}
    jacobian = ft.sparse_jacobian(f)(params, 2.0)
    assert jacobian.toarray().tolist() == [[0.0, 0.0, 12.0], [6.0, 0.0, 2.0], [0.0, 6.0, 4.0]]  # n, then r
    jacobian = ft.sparse_jacobian(f, argnums=(1, 0))(params, 2.0)
    assert jacobian.toarray()[:, 0].tolist() == [0.0, 3.0, 6.0] and jacobian.shape == (3, 4)
    assert ft.sparse_jacobian(f, argnames="s")(params, s=2.0).toarray().tolist() == [[0.0], [3.0], [6.0]]
    hessian = ft.sparse_hessian(lambda p: p["a"] ** 2 * np.sum(p["b"]))({"a": 2.0, "b": np.ones(2)})
    assert hessian.toarray().tolist() == [[4.0, 4.0, 4.0], [4.0, 0.0, 0.0], [4.0, 0.0, 0.0]]
    assert ft.sparse_jacobian(lambda x: x * 2)(np.zeros(0)).shape == (0, 0)
    for nothing in ({}, {"n": np.arange(3)}, np.ones(0)):
        assert ft.sparse_jacobian(lambda x: np.ones(3))(nothing).shape == (3, 0)
        assert ft.sparse_jacobian(lambda x: {})(nothing).shape == (0, 0)
    assert ft.sparse_jacobian(lambda x: {})(np.ones(3)).shape == (0, 3)
    assert ft.sparse_hessian(lambda x: np.sum(x))(np.ones(3)).nnz == 0


def test_float32_stays_and_nan_shows():
    jacobian = ft.sparse_jacobian(lambda x: x[1:] * x[:-1])(X.astype(np.float32))
    assert jacobian.dtype == np.float32 and jacobian.nnz == 46
    mixed = ft.sparse_jacobian(lambda x: np.convolve(x, [1.0, 2.1, 1.0], "same") ** 2)(X.astype(np.float32))  # tangents are float32
    assert mixed.dtype == np.float64 and mixed.nnz == 3 * X.size - 2
    with np.errstate(invalid="ignore"):
        jacobian = ft.sparse_jacobian(lambda x: np.sqrt(x - 0.5) * 2)(np.array([0.25, 0.75]))
    assert np.isnan(jacobian[0, 0]) and np.isclose(jacobian[1, 1], 2.0)


def test_a_pattern_of_the_same_shape_has_its_own_colouring():
    f = lambda x: x * x[::-1] if x[0] > 0 else np.cumsum(x)
    jacobian, x = ft.sparse_jacobian(f), np.arange(1.0, 6.0)
    for at in (x, -x, x):
        assert np.array_equal(jacobian(at).toarray(), ft.jacobian(f)(at))


def test_the_branch_taken_decides():
    f = lambda x: x[:-1] * x[1:] if x[0] > 0 else x[1:] ** 2
    jacobian = ft.sparse_jacobian(f)
    assert jacobian(np.array([1.0, 2.0, 3.0])).nnz == 4
    assert jacobian(np.array([-1.0, 2.0, 3.0])).toarray().tolist() == [[0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]


# Patterns that are given


def test_a_given_pattern_is_used(products):
    x = X
    bands = sparse.diags_array([np.ones(24)] * 5, offsets=[-2, -1, 0, 1, 2], shape=(24, 24))
    for pattern in (bands, bands.tocsc(), sparse.csr_matrix(bands), bands.toarray(), bands.toarray() > 0):
        np.testing.assert_allclose(ft.sparse_jacobian(banded, pattern)(x).toarray(), ft.jacobian(banded)(x), atol=1e-15)
    assert products["forward"] + products["reverse"] == 5 * 6
    wide = sparse.diags_array([np.ones(24)] * 9, offsets=range(-4, 5), shape=(24, 24))  # too much is right too
    jacobian = ft.sparse_jacobian(banded, wide)(x)
    np.testing.assert_allclose(jacobian.toarray(), ft.jacobian(banded)(x), atol=1e-15)
    assert jacobian.nnz == wide.nnz
    found = ft.sparse.jacobian_pattern(banded)(x)
    assert found.dtype == bool and found.nnz == 5 * 24 - 6 and not (ft.jacobian(banded)(x)[~found.toarray()]).any()
    lower = lambda x: np.sum((x[1:] - x[:-1]) ** 4)
    assert np.array_equal(ft.sparse_hessian(lower, sparse.csr_array(np.tril(np.ones((24, 24)))))(x).toarray(), ft.hessian(lower)(x))
    assert ft.sparse.hessian_pattern(lower)(x).nnz == 3 * 24 - 2


@pytest.mark.parametrize("change", ["one element", "a diagonal", "empty"])
def test_a_wrong_pattern_is_noticed(change):
    pattern = ft.sparse.jacobian_pattern(banded)(X).toarray()
    if change == "one element":
        pattern[7, 8] = False
    elif change == "a diagonal":
        np.fill_diagonal(pattern, False)
    else:
        pattern[:] = False
    with pytest.raises(
        errors.CheckError, match=r"sparse_jacobian\(banded\): the pattern that was given misses(?s:.)*jacobian_pattern"
    ) as info:
        ft.sparse_jacobian(banded, pattern)(X)
    assert here(-1) in str(info.value)
    with pytest.raises(errors.CheckError, match=r"sparse_hessian\(energy\): the pattern that was given misses"):
        energy = lambda x: np.sum(banded(x) ** 2)
        energy.__name__ = "energy"
        ft.sparse_hessian(energy, np.eye(24))(X)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match=r"the pattern has the shape \(24, 24\), but the matrix is of shape \(23, 24\)"):
        ft.sparse_jacobian(lambda x: x[1:] * x[:-1], np.eye(24))(X)
    with pytest.raises(errors.InputTypeError, match=r"must be real, got complex128\[24\]"):
        ft.sparse_jacobian(lambda x: x * 1j)(X)
    with pytest.raises(errors.IntegerInputError):
        ft.sparse_jacobian(lambda x: x * 2)(np.arange(3))
    with pytest.raises(errors.NonScalarOutputError):
        ft.sparse_hessian(lambda x: x * 2)(X)
    for transform in (ft.jacobian, ft.vmap):
        with pytest.raises(errors.ConversionError, match=r"sparse_jacobian\(.*a traced value (?s:.)*functrace\.jacobian"):
            transform(lambda x: ft.sparse_jacobian(lambda y: y**2)(x).sum())(np.ones((2, 3)))
    with pytest.raises(errors.ConversionError, match="a traced value"):
        ft.grad(lambda a: ft.sparse_jacobian(lambda y: a * y**2)(X).sum())(1.0)


def test_scipys_least_squares_takes_the_sparse_jacobian():
    f = lambda x: np.concatenate([10 * (x[1:] - x[:-1] ** 2), 1 - x[:-1]])
    result = least_squares(f, np.full(60, 0.5), jac=ft.sparse_jacobian(f), tr_solver="lsmr")
    assert result.success and np.allclose(result.x, 1.0, atol=1e-4)


# Colourings


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("density", [0.02, 0.1, 0.5, 1.0])
def test_colourings_are_valid(seed, density):
    rng = np.random.default_rng(seed)
    pattern = sparse.random_array((40, 30), density=density, rng=rng, format="csr").astype(bool)
    colors = coloring.columns(pattern)
    dense = pattern.toarray()
    for color in range(colors.max() + 1):
        assert dense[:, colors == color].sum(axis=1).max() <= 1
    assert ((colors < 0) == ~dense.any(axis=0)).all()
    symmetric = sparse.csr_array(pattern[:30] + pattern[:30].T)
    colors = coloring.star(symmetric)
    graph = symmetric.toarray() & ~np.eye(30, dtype=bool)
    for i in range(30):
        assert not (graph[i] & (colors == colors[i])).any()
    for v, w in np.argwhere(graph):
        for x in np.flatnonzero(graph[w]):
            for y in np.flatnonzero(graph[x]) if x != v else ():
                assert y in (v, w) or len({colors[k] for k in (v, w, x, y)}) > 2, "a path of four in two colours"


@pytest.mark.parametrize("seed", range(3))
def test_hessians_of_random_graphs(seed):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, 20, (25, 2))
    f = lambda x: np.sum(np.sin(x[pairs[:, 0]] * x[pairs[:, 1]])) + np.sum(x[:5] ** 3)
    x = rng.normal(size=20)
    hessian = ft.sparse_hessian(f)(x)
    np.testing.assert_allclose(hessian.toarray(), ft.hessian(f)(x), rtol=1e-12, atol=1e-13)
    assert (abs(hessian - hessian.T)).max() < 1e-13


# Constant SciPy matrices in products

DENSE = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
FORMATS = ["csr", "csc", "coo", "dia", "lil", "dok", "bsr"]


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("matrix", [False, True], ids=["vector", "matrix"])
def test_products_with_sparse_matrices(kind, format, left, matrix):
    a = kind(DENSE if left else DENSE.T).asformat(format)
    x = np.linspace(0.1, 0.9, 12).reshape(3, 4) if matrix else np.array([0.1, 0.5, 0.9])
    x = x if left else x.T
    sparse_product = (lambda x: a @ x) if left else (lambda x: x @ a)
    dense = (lambda x: DENSE @ x) if left else (lambda x: x @ DENSE.T)
    weigh = lambda y: np.sum(np.sin(y))
    assert np.array_equal(ft.value(sparse_product(x)), dense(x))
    np.testing.assert_allclose(ft.grad(lambda x: weigh(sparse_product(x)))(x), ft.grad(lambda x: weigh(dense(x)))(x), rtol=1e-14)
    np.testing.assert_allclose(ft.jvp(sparse_product, (x,), (x,))[1], dense(x))
    np.testing.assert_allclose(ft.jacfwd(sparse_product)(x), ft.jacrev(dense)(x))
    np.testing.assert_allclose(ft.jacrev(sparse_product)(x), ft.jacrev(dense)(x))
    f, g = (lambda x, p=p: weigh(p(x) ** 2) for p in (sparse_product, dense))
    np.testing.assert_allclose(ft.hessian(f)(x), ft.hessian(g)(x), rtol=1e-11, atol=1e-11)
    batch = np.stack([x, 2 * x, -x])
    np.testing.assert_allclose(ft.vmap(sparse_product)(batch), ft.vmap(dense)(batch))
    np.testing.assert_allclose(ft.vmap(ft.grad(f))(batch), ft.vmap(ft.grad(g))(batch), rtol=1e-11)
    np.testing.assert_allclose(ft.vmap(ft.vmap(sparse_product))(batch[:, None]), ft.vmap(dense)(batch)[:, None])
    fast = ft.jit(ft.grad(f), no_retrace=True)
    fast(x)
    np.testing.assert_allclose(fast(2 * x), ft.grad(g)(2 * x), rtol=1e-11)
    ft.check_grads(f, x, order=2)


def test_other_forms_of_the_product():
    a, x = sparse.csr_array(DENSE), np.array([1.0, 2.0, 3.0])
    for f in (lambda x: a.dot(x), lambda x: a.T.T @ x, lambda x: x @ a.T, lambda x: a @ fnp.array([x[0], x[1], x[2]])):
        assert np.array_equal(ft.jacobian(f)(x), DENSE)
    assert ft.grad(lambda x: np.sum(a @ x))(x.astype(np.float32)).dtype == np.float32
    integer = sparse.csr_array(DENSE.astype(int))
    assert np.array_equal(ft.jacobian(lambda x: integer @ x)(x), DENSE)
    complex_ = sparse.csr_array(DENSE * 1j)
    assert np.array_equal(ft.grad(lambda x: np.sum((complex_ @ x).imag))(x), DENSE.sum(axis=0))
    empty = sparse.csr_array((2, 3))
    assert np.array_equal(ft.jacobian(lambda x: empty @ x)(x), np.zeros((2, 3)))
    solution = ft.jacobian(lambda b: ft.linear_solve(lambda x: sparse.csr_array(np.eye(3) * 2) @ x, b))(x)
    assert np.array_equal(solution, np.eye(3) / 2)


def test_a_matrix_that_is_changed_afterwards_does_not_change_the_derivative():
    a = sparse.csr_array(DENSE)
    _, pullback = ft.vjp(lambda x: a @ x, np.ones(3))
    a.data[:] = 0
    assert pullback(np.ones(2))[0].tolist() == [1.0, 3.0, 2.0]
    unsorted = sparse.csr_array((np.array([2.0, 1.0]), np.array([2, 0]), np.array([0, 2])), shape=(1, 3))
    _, pullback = ft.vjp(lambda x: unsorted @ x, np.ones(3))
    unsorted.sort_indices()
    assert pullback(np.ones(1))[0].tolist() == [1.0, 0.0, 2.0]
    b = sparse.csr_array(DENSE)
    fast = ft.jit(lambda x: b @ x)
    fast(np.ones(3))
    b.data[:] = 5.0
    assert fast(np.ones(3)).tolist() == [10.0, 5.0]


REFUSED = {
    "x * A": lambda a, x: x * a,
    "A + x": lambda a, x: a + x,
    "x - A": lambda a, x: x - a,
    "np.multiply(A, x)": lambda a, x: np.multiply(a, x),
    "np.dot(A, x)": lambda a, x: np.dot(a, x),
    "np.matmul(A, x)": lambda a, x: np.matmul(a, x),
    "np.stack": lambda a, x: np.stack([x, a]),
}


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_a_product_is_refused(kind, name):
    a = kind(DENSE)
    for run in (lambda f: ft.grad(f)(np.ones(3)), lambda f: ft.vmap(f)(np.ones((2, 3)))):
        with pytest.raises((errors.UnsupportedError, errors.ConversionError), match=r"A @ x"):
            run(lambda x: np.sum(REFUSED[name](a, x)))


@pytest.mark.parametrize("f", [lambda a, x: a * x, lambda a, x: a.multiply(x), lambda a, x: a / x], ids=["A * x", "multiply", "A / x"])
def test_what_scipy_does_to_elements_is_refused(f):
    with pytest.raises((errors.UnsupportedError, errors.ConversionError), match=r"sparse matrices|A @ x"):  # as SciPy asks
        ft.grad(lambda x: f(sparse.csr_array(DENSE), x).sum())(np.ones(3))


def test_wrong_shapes_of_products_are_named():
    a = sparse.csr_array(DENSE)
    with pytest.raises(ValueError, match=r"matmul: dimension mismatch: \(2, 3\) @ \(2,\)"):
        ft.grad(lambda x: np.sum(a @ x))(np.ones(2))
    with pytest.raises(ValueError, match=r"matmul: dimension mismatch: \(3,\) @ \(2, 3\)"):
        ft.grad(lambda x: np.sum(x @ a))(np.ones(3))
    with pytest.raises(errors.UnsupportedError, match=r"shapes \(2, 3\) @ \(1, 3, 2\)(?s:.)*vmap"):
        ft.grad(lambda x: np.sum(a @ x))(np.ones((1, 3, 2)))


def test_lines_of_sparse_products_are_the_users():
    a = sparse.csr_array(DENSE)
    tape = ft.trace(lambda x: a @ x)(np.ones(3))
    assert "sparse_matmul" in str(tape) and str(tape).count(os.path.basename(__file__)) == 1
