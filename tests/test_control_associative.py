"""`associative_scan` gives what a loop gives, under every transform."""

import functools

import numpy as np
import pytest

import functrace as ft
from functrace.errors import CallError, ControlFlowError


def after(f, g):
    """Of maps x -> a x + b, g after f."""
    return f[0] * g[0], f[1] * g[0] + g[1]


def one_by_one(fn, elems, reverse=False, axis=0):
    """The loop in Python, an element at a time, independent of the library's."""
    rows = [tuple(np.take(x, [k], axis) for x in elems) for k in range(elems[0].shape[axis])]
    done = [*functools.reduce(lambda done, row: [*done, fn(done[-1], row)], rows[::-1][1:], rows[::-1][:1])][::-1]
    if not reverse:
        done = [*functools.reduce(lambda done, row: [*done, fn(done[-1], row)], rows[1:], rows[:1])]
    return tuple(np.concatenate(column, axis) for column in zip(*done))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("length", range(1, 18))
def test_it_is_the_loop(length, axis, reverse, rng):
    shape = [3, 2]
    shape.insert(axis if axis >= 0 else 2, length)
    elems = rng.uniform(0.5, 1.5, shape), rng.normal(size=shape)
    for x, y in zip(ft.associative_scan(after, elems, reverse, axis), one_by_one(after, elems, reverse, axis)):
        assert x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=1e-12)


def test_the_order_of_what_does_not_commute_is_kept(rng):
    m = 0.5 * rng.normal(size=(11, 3, 3))
    np.testing.assert_allclose(ft.associative_scan(np.matmul, m)[-1], np.linalg.multi_dot(m))
    np.testing.assert_allclose(ft.associative_scan(np.matmul, m, reverse=True)[0], np.linalg.multi_dot(m[::-1]))


def test_it_works_under_every_transform(rng):
    a, b = rng.uniform(0.5, 1.0, (7, 2)), rng.normal(size=(7, 2))

    def f(a, b):
        return np.sum(ft.associative_scan(after, (a, b), reverse=True)[1] ** 2)

    def by_scan(a, b):
        return np.sum(ft.scan(lambda c, x: (c * x[0] + x[1],) * 2, np.zeros(2), (a, b), reverse=True)[1] ** 2)

    ft.check_grads(f, a, b, order=2)
    for transform in (ft.grad, ft.hessian, ft.jacfwd):
        np.testing.assert_allclose(transform(f)(a, b), transform(by_scan)(a, b), rtol=1e-9, atol=1e-12)
    compiled = ft.jit(ft.grad(f, (0, 1)))
    for _ in range(2):
        for x, y in zip(compiled(a, b), ft.grad(by_scan, (0, 1))(a, b)):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
    batch = np.stack([a, 2 * a, 3 * a])
    each = np.stack([ft.grad(f)(x, b) for x in batch])
    np.testing.assert_allclose(ft.vmap(ft.grad(f), (0, None))(batch, b), each, rtol=1e-12)


def test_few_calls_of_the_function_are_made():
    calls = []

    def add(x, y):
        calls.append(len(x))
        return x + y

    np.testing.assert_array_equal(ft.associative_scan(add, np.ones(1000)), np.arange(1.0, 1001))
    assert len(calls) < 20 and sum(calls) < 2000


@pytest.mark.parametrize("length", [0, 1, 2])
def test_results_are_the_callers_own(length):
    x = np.ones(length)
    out = ft.associative_scan(np.add, x)
    assert out.shape == (length,) and not np.may_share_memory(out, x)


@pytest.mark.parametrize(
    "call, error, told",
    [
        (lambda: ft.associative_scan(lambda a, b: np.sum(a), np.ones(4)), ControlFlowError, "was given float64.2., twice, and returned"),
        (lambda: ft.associative_scan(lambda a, b: (a, b), np.ones(4)), ControlFlowError, "TreeDef.* instead of"),
        (lambda: ft.associative_scan(lambda a, b: (a + b).astype("f"), np.ones(4)), ControlFlowError, "returned float32"),
        (lambda: ft.associative_scan(np.add, [1.0, 2.0]), ControlFlowError, "not lists of numbers"),
        (lambda: ft.associative_scan(np.add, np.ones(3), axis=1), ControlFlowError, "along axis 1"),
        (lambda: ft.associative_scan(after, (np.ones(3), np.ones(4))), ControlFlowError, "got float64.3., float64.4."),
        (lambda: ft.associative_scan(np.ones(3), np.add), CallError, "Write associative_scan"),
    ],
)
def test_mistakes_are_named(call, error, told):
    with pytest.raises(error, match=told) as caught:
        call()
    assert "test_control_associative.py:" in str(caught.value)
