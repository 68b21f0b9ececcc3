"""Compiled loops over rows: views, cross products and what is put together run block by block with what is elementwise."""

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace.compile.fuse import LARGE
from functrace.compile.program import kind_of

N = LARGE // 3 + 41  # rows, in blocks of which the last is shorter


def step(rng, known):
    """A value made of rows that are known: few of them, the last ones mostly, so that memory is used again and again."""
    x = known[-1 - int(rng.integers(min(4, len(known))))]
    y = known[-1 - int(rng.integers(min(6, len(known))))]
    which = rng.integers(11)
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
        for case in ((x, y), (x, y), (np.asfortranarray(x), y)):
            got = compiled(*case)
            for a, b in zip(expected, got):
                assert a.shape == b.shape and b.flags.c_contiguous and not np.shares_memory(b, case[0])
                np.testing.assert_allclose(b, a, rtol=1e-11, atol=1e-11)


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
