"""`if` under `vmap` under `jit`: one program whichever examples go which way, in which a branch sees only those that take it."""

import itertools
import warnings

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace.errors import JitWarning


def huber(x):
    return 0.5 * x * x if abs(x) < 1 else abs(x) - 0.5


def nested(x):
    if x > 1:
        return np.sqrt(x - 1) if x > 2 else np.log(x)
    if x < -1:
        return np.linalg.inv(fnp.array([[x, 1.0], [0.0, x + 0.5]]))[0, 0]
    return 0 * x


def looped(x):
    total = 0.0
    for k in range(3):
        total = total + (x if x > k - 1 else x * x)
    return total


def halved(x):
    while abs(x) > 1:
        x = x / 2
    return x * x


def of_a_vector(x):
    v = fnp.stack([x, 2 - x, x * x])
    return (v / np.sqrt(v[0])).sum() if x > 0.25 and (v > 0).any() else -v[2]


F = [huber, nested, looped, halved, of_a_vector]
AROUND = {
    "vmap": lambda f: ft.vmap(f),
    "vmap of grad": lambda f: ft.vmap(ft.grad(f)),
    "vmap of hessian": lambda f: ft.vmap(ft.hessian(f)),
    "grad of vmap": lambda f: ft.grad(lambda x: ft.vmap(f)(x).sum()),
    "jvp of vmap": lambda f: lambda x: ft.jvp(ft.vmap(f), (x,), (x + 1,))[1],
    "vmap of vmap": lambda f: lambda x: ft.vmap(ft.vmap(f))(x.reshape(2, 4)),
    "vmap of value and grad": lambda f: lambda x: ft.vmap(ft.value_and_grad(f))(x)[1],
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("f", F)
def test_a_program_of_a_batch_that_splits_is_the_function_of_each_example(f, around):
    plain = AROUND[around](f)
    program = ft.jit(plain, max_paths=100)
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no branch computes with numbers that take another
        for _ in range(6):
            x = 2 * rng.normal(size=8)
            np.testing.assert_allclose(program(x), plain(x), rtol=1e-10, atol=1e-12)
    assert program.cache_info()["eager"] == 0


def test_the_program_is_one_whichever_examples_go_which_way():
    rng = np.random.default_rng(0)
    runs = []

    def root(x):
        runs.append(x)
        return np.sqrt(x) if x > 0 else -x * x

    for f in (root, lambda x: ft.cond(x > 0, np.sqrt, lambda x: -x * x, x)):
        value, slope = ft.jit(ft.vmap(f)), ft.jit(ft.vmap(ft.grad(f)))
        for size in (20, 20, 20, 5000, 5000):
            x = rng.normal(size=size)
            np.testing.assert_allclose(value(x), np.where(x > 0, np.sqrt(np.abs(x)), -x * x))
            np.testing.assert_allclose(slope(x), np.where(x > 0, 0.5 / np.sqrt(np.abs(x)), -2 * x))
        for program in (value, slope):
            assert program.cache_info() == {"signatures": 2, "paths": 2, "hits": 3, "recorded": 2, "eager": 0}
        np.testing.assert_array_equal(slope(x[:0]), x[:0])
    assert len(runs) == 2 * (2 * 3) + 1  # of two programs, for two sizes: until the split, and for each way; and of none
    alone = ft.jit(ft.vmap(root))
    for x, paths in ((np.ones(4), 1), (-np.ones(4), 2), (np.arange(4.0) - 1.5, 3), (np.full(4, 2.0), 3), (np.zeros(0), 4)):
        np.testing.assert_allclose(alone(x), np.where(x > 0, np.sqrt(np.abs(x)), -x * x))
        assert alone.cache_info()["paths"] == paths


def test_arguments_that_are_shared_pytrees_and_integers():
    def f(p, y, *, scale):
        if p["n"] == 2 and y["a"].sum() > 0:
            return {"x": y["a"] * p["w"] * scale, "n": p["n"]}
        return {"x": y["a"] ** 2 + y["b"], "n": -p["n"]}

    rng = np.random.default_rng(0)
    g = ft.vmap(f, in_axes=({"n": 0, "w": None}, {"a": 1, "b": None}), out_axes={"x": 1, "n": 0})
    program = ft.jit(g)
    for _ in range(4):
        p = {"n": rng.integers(1, 3, size=6), "w": rng.normal(size=3)}
        y = {"a": rng.normal(size=(3, 6)), "b": 0.5}
        got, want = program(p, y, scale=np.arange(6.0)), g(p, y, scale=np.arange(6.0))
        np.testing.assert_allclose(got["x"], want["x"])
        np.testing.assert_array_equal(got["n"], want["n"])
        assert got["n"].dtype == want["n"].dtype
    assert program.cache_info()["eager"] == 0


def test_what_splits_by_numbers_or_errors():
    rng = np.random.default_rng(0)
    table = [np.sin, np.cos, np.exp]

    def by_number(x, k):
        return table[int(k)](x) if x > 0 else x

    def by_error(a, x):
        try:
            return np.linalg.inv(a)[0, 0] if x > 0 else x
        except np.linalg.LinAlgError:
            return 2 * x

    program = ft.jit(ft.vmap(by_number))
    failing = ft.jit(ft.vmap(by_error))
    for _ in range(3):
        x, k = rng.normal(size=6), rng.integers(0, 3, size=6)
        np.testing.assert_allclose(program(x, k), ft.vmap(by_number)(x, k))
        a = np.stack([np.eye(2) * (n % 2) for n in range(6)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", JitWarning)  # what is caught is not compiled
            np.testing.assert_allclose(failing(a, x), [by_error(*one) for one in zip(a, x)])


def test_a_function_that_asks_in_another_order_each_time_is_noticed():
    calls = itertools.count()

    def shuffled(x):
        asks, answers = [lambda: x > 0, lambda: x < 1], {}
        for k in (0, 1) if next(calls) % 2 else (1, 0):
            answers[k] = bool(asks[k]())
        return x * (1 + 2 * answers[0] + 4 * answers[1])

    x = np.array([-1.0, 0.5, 2.0, -3.0, 0.25])
    tape = ft.trace(ft.vmap(shuffled))(x)
    np.testing.assert_array_equal(tape.outputs[0], x * (1 + 2 * (x > 0) + 4 * (x < 1)))


def test_a_large_batch_is_split_without_jit():
    x = np.random.default_rng(0).normal(size=100_000)
    np.testing.assert_array_equal(ft.vmap(lambda x: x if x > 0 else -x)(x), np.abs(x))
    both = np.stack([x, -x], 1)
    np.testing.assert_array_equal(ft.vmap(lambda v: v[v > 0])(both)[:, 0], np.abs(x))
