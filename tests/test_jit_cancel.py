"""Compiled gradients leave out what is zero by algebra: the cotangent of a maximum that only keeps `exp` in range."""

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace.compile.optimise import optimise
from tests.helpers import names_of


def programs(axis):
    """Functions of x, its maximum m and w: those that are the same for every m, and others."""

    def total(x):
        return fnp.sum(x, axis=axis, keepdims=True)

    def softmax(x, m):
        e = fnp.exp(x - m)
        return e / total(e)

    invariant = {
        "logsumexp": lambda x, m, w: fnp.sum(m + fnp.log(total(fnp.exp(x - m)))) + fnp.sum(w),
        "a mean": lambda x, m, w: fnp.mean(fnp.squeeze(m) + fnp.squeeze(fnp.log(total(fnp.exp(x - m))))),
        "softmax": lambda x, m, w: fnp.sum(softmax(x, m) * w),
        "powers": lambda x, m, w: fnp.sum((softmax(x, m) * w) ** 2),
        "likelihood": lambda x, m, w: -fnp.sum(fnp.log(softmax(x, m)) * w),
        "log-softmax": lambda x, m, w: fnp.sum((x - m - fnp.log(total(fnp.exp(x - m)))) * w),
    }
    others = {
        "no sum": lambda x, m, w: fnp.sum(fnp.exp(x - m) * w),
        "twice the maximum": lambda x, m, w: fnp.sum(2 * m + fnp.log(total(fnp.exp(x - m)))),
        "a power of it": lambda x, m, w: fnp.sum(fnp.log(total(fnp.exp(x - m))) + m) + fnp.sum(m**3),
        "another sum": lambda x, m, w: fnp.sum(fnp.exp(x - m) / (1 + total(fnp.exp(x - m)))),
    }
    bound = lambda f: lambda x, w: f(x, fnp.max(x, axis=axis, keepdims=True), w)
    return [{name: bound(f) for name, f in group.items()} for group in (invariant, others)]


CASES = [((6, 4), 1), ((6, 4), 0), ((5,), 0), ((5,), None), ((3, 4, 5), 2), ((3, 4, 5), (1, 2)), ((4, 4), 1), ((4, 4), 0), ((60, 30), -1)]
CASES += [((1, 4), 1), ((4, 1), 1), ((2, 1, 3), (0, 2)), ((300, 3), 1)]
NO_ROWS = [((0, 3), 1), ((2, 0, 3), 2)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
@pytest.mark.parametrize(("shape", "axis"), CASES + NO_ROWS, ids=str)
def test_gradients_are_those_of_eager_runs(shape, axis, dtype, rng):
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == np.float32 else {"rtol": 1e-11, "atol": 1e-12}
    for f in (f for group in programs(axis) for f in group.values()):
        gradient = ft.grad(f)
        compiled = ft.jit(gradient)
        x, w = rng.normal(size=shape).astype(dtype), rng.normal(size=shape).astype(dtype)
        compiled(x, w)
        infinite, missing = x.copy(), x.copy()
        infinite.flat[:1], missing.flat[-1:] = np.inf, np.nan
        for one in (x, np.round(x), infinite, missing):
            np.testing.assert_allclose(compiled(one, w), gradient(one, w), **tolerance)


@pytest.mark.parametrize(("shape", "axis"), [c for c in CASES if c[0] != (4, 1)], ids=str)
def test_only_what_is_zero_is_left_out(shape, axis, rng):
    x, w = rng.normal(size=shape), rng.normal(size=shape)
    for invariant, group in zip((True, False), programs(axis)):
        for name, f in group.items():
            compiled = ft.jit(ft.grad(f))
            compiled(x, w)
            left = "equal" in names_of(optimise(compiled.programs()[0]))
            assert left != invariant, name


def test_labels_that_are_arguments(rng):
    def loss(w, x, labels):
        z = x @ w
        z = z - np.max(z, axis=1, keepdims=True)
        return -np.mean((z - np.log(np.sum(np.exp(z), axis=1, keepdims=True)))[np.arange(6), labels])

    gradient = ft.grad(loss)
    compiled = ft.jit(gradient)
    for _ in range(3):
        args = rng.normal(size=(4, 3)), rng.normal(size=(6, 4)), rng.integers(0, 3, 6)
        np.testing.assert_allclose(compiled(*args), gradient(*args), rtol=1e-12, atol=1e-14)
    assert "equal" not in names_of(optimise(compiled.programs()[0]))


def test_of_products_the_factors_are_looked_at(rng):
    x, w = rng.normal(size=(8, 100)), rng.normal(size=(100, 90))

    def loss(w, x):
        rows = np.where(np.isfinite(x[:, :1]), np.sqrt(np.abs(x[:, :1])), 0.0)
        return np.sum(rows * np.tanh(np.where(np.isfinite(x), x, 0.0) @ w))

    gradient = ft.grad(loss)
    compiled = ft.jit(gradient)
    compiled(w, x)
    program = optimise(compiled.programs()[0])
    looked = [i.args[0] for i in program.instructions if i.primitive.name == "isfinite" and program.kinds[i.out].shape == ()]
    sums = [program.kinds[i.args[0]].shape for i in program.instructions if i.out in looked]
    assert sorted(sums) == [(8, 90), (100, 8)]
    for bad in (0.0, 1.0, np.inf, np.nan, 1e200):
        z = x.copy()
        z[3, 5] = z[2, 0] = bad
        got, want = compiled(w, z), gradient(w, z)
        assert np.isfinite(want).all()
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_a_product_with_an_infinite_factor_is_not_finite(rng):
    x, w = rng.normal(size=(8, 100)), rng.normal(size=(100, 90))
    gradient = ft.grad(lambda w, x: np.sum(np.tanh(np.clip(x, -3, 3) @ w) * np.sqrt(x[:, :1] ** 2)))
    compiled = ft.jit(gradient)
    compiled(w, x)
    z = x.copy()
    z[3, 0] = 0.0
    z[4, 4] = np.inf
    np.testing.assert_array_equal(np.isfinite(compiled(w, z)), np.isfinite(gradient(w, z)))
    np.testing.assert_allclose(compiled(w, z), gradient(w, z), rtol=1e-12, atol=1e-12)
