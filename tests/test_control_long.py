"""Long loops on plain arrays, such as those of derivatives, are compiled: same values, results that are the caller's own, same errors."""

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace.transforms import control_body, control_loops, control_while

LONG = control_body.MANY + 7


def spiral(v, xs, reverse=False):
    def step(c, x):
        v, w = c
        a, b = v
        v = fnp.stack([a - 0.01 * b * x, b + 0.01 * a])
        return (v, np.tanh(w @ np.eye(3) + x)), (v * x, np.sum(w), v)

    return ft.scan(step, (v, np.ones(3)), xs, reverse=reverse)


def loss(v, xs, reverse=False):
    (v, w), ys = spiral(v, xs, reverse)
    return np.sum(v**2) + np.sum(w) + sum(np.sum(np.sin(y)) for y in ys)


def halving(x, n):
    return ft.while_loop(lambda s: s[1] < n, lambda s: (s[0] * 0.999 + 0.001 * np.sin(s[0]), s[1] + 1), (x, 0))[0]


@pytest.fixture
def stepwise(monkeypatch):
    """Runs a function with no loop compiled."""

    def run(f, *args):
        with monkeypatch.context() as patch:
            for module in (control_loops, control_while):
                patch.setattr(module, "COMPILERS", {})
            return f(*args)

    return run


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("transform", [ft.grad, ft.jacfwd])
def test_derivatives_are_those_of_single_steps(transform, reverse, stepwise, rng):
    v, xs = np.array([1.0, 0.5]), rng.uniform(0.5, 1.5, LONG)
    f = transform(lambda v, xs: loss(v, xs, reverse), 0)
    np.testing.assert_allclose(f(v, xs), stepwise(f, v, xs), rtol=1e-11)
    g = ft.grad(lambda xs: loss(v, xs, reverse))
    np.testing.assert_allclose(g(xs), stepwise(g, xs), rtol=1e-9, atol=1e-12)


def test_second_derivatives(stepwise, rng):
    v, xs = np.array([1.0, 0.5]), rng.uniform(0.5, 1.5, LONG)
    f = ft.hessian(lambda v: loss(v, xs))
    np.testing.assert_allclose(f(v), stepwise(f, v), rtol=1e-9)


def test_loops_of_unknown_length(stepwise):
    for n in (LONG, control_body.MANY, control_body.MANY + 1, 3):
        f = ft.jacfwd(lambda x: halving(x, n))
        for x in (np.float64(1.5), np.array([1.5, -2.0])):
            np.testing.assert_allclose(f(x), stepwise(f, x), rtol=1e-12)
            got, want = halving(x, n), stepwise(halving, x, n)
            assert type(got) is type(want)
            np.testing.assert_allclose(got, want, rtol=1e-12)
    g = ft.grad(lambda x: halving(x, LONG))
    np.testing.assert_allclose(g(1.5), stepwise(g, 1.5), rtol=1e-12)


def test_results_belong_to_the_caller(rng):
    v, xs = np.array([1.0, 0.5]), rng.uniform(0.5, 1.5, LONG)
    out, pull = ft.vjp(lambda v: spiral(v, xs), v)
    arrays = ft.tree.leaves(out)
    kept = [a.copy() for a in arrays]
    for a in arrays:
        assert a.flags.owndata
        assert a.flags.writeable
        a += 1
    assert not any(np.shares_memory(a, b) for k, a in enumerate(arrays) for b in arrays[:k])
    for a, b in zip(ft.tree.leaves(ft.vjp(lambda v: spiral(v, xs), v)[0]), kept):
        np.testing.assert_array_equal(a, b)
    pull(out)


def test_errors_in_a_step_are_numpys():
    def singular(a):
        return np.sum(ft.scan(lambda c, x: (c + np.linalg.solve(x * a, np.ones(2)), None), np.zeros(2), np.linspace(1, 0, LONG))[0])

    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        ft.grad(singular)(np.eye(2))


def test_warnings_in_a_step_are_numpys():
    f = ft.grad(
        lambda a: np.sum(ft.scan(lambda c, x: (c + np.log(x * a + 0 * np.tanh(c)), None), np.zeros(12), np.linspace(1, 0, LONG))[0])
    )
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        f(2.0)
