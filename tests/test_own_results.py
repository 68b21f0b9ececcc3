"""What a transform gives belongs to the caller: a write to it, or to an argument after the call, reaches nothing else, at any depth."""

import numpy as np
import pytest

import functrace as ft
from tests.helpers import MODES, same_in

X = np.array([1.0, 2.0, 3.0])
TABLE = np.array([5.0, 6.0])


def same(x):
    return x


def cleared(x):
    x[...] = 0.0
    return x


RESULTS = {  # of an array y: written to by the program, which then looks at y
    "vjp": lambda y: ft.vjp(same, y)[0],
    "pullback": lambda y: ft.vjp(same, y)[1](y)[0],
    "jvp": lambda y: ft.jvp(same, (y,), (2 * y,))[0],
    "tangent": lambda y: ft.jvp(same, (2 * y,), (y,))[1],
    "linearize": lambda y: ft.linearize(same, y)[1](y),
    "aux": lambda y: ft.grad(lambda t: (t.sum(), t), has_aux=True)(y)[1],
    "vmap": lambda y: ft.vmap(same)(y),
    "vmap of a constant": lambda y: ft.vmap(lambda t: y)(y),
    "jit": lambda y: ft.jit(same)(y),
    "jit of a constant": lambda y: ft.jit(lambda: y)(),
    "map": lambda y: ft.map(same, y),
    "map of a constant": lambda y: ft.map(lambda t: y, y),
    "ys of scan": lambda y: ft.scan(lambda c, t: (c + t, t), 0.0, y)[1],
    "carry of scan": lambda y: ft.scan(lambda c, t: (c, None), y, y)[0],
    "carry of no steps": lambda y: ft.scan(lambda c, t: (c, None), y, y[:0])[0],
    "fori_loop of no steps": lambda y: ft.fori_loop(0, 0, lambda i, c: c, y),
    "while_loop of no steps": lambda y: ft.while_loop(lambda c: c[0] > 9, same, y),
    "while_loop": lambda y: ft.while_loop(lambda s: s[0] < 1, lambda s: (s[0] + 1, s[1]), (0, y))[1],
    "stop_gradient": ft.stop_gradient,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", RESULTS)
def test_a_write_to_a_result_leaves_what_it_was_made_of(name, mode):
    def program(x):
        y = x * 1.0
        out = cleared(RESULTS[name](y))
        return y, out

    assert np.array_equal(program(X)[0], X)
    same_in(program, X, mode)


@pytest.mark.parametrize("mode", MODES)
def test_two_results_of_a_step_that_are_equal_are_two(mode):
    def program(x):
        y, z = ft.map(lambda t: (np.sin(t), np.sin(t)), x)
        return cleared(y), z

    same_in(program, X, mode)


@pytest.mark.parametrize("mode", MODES)
def test_a_write_to_what_a_scan_stacks_leaves_a_plain_sequence(mode):
    def program(x):
        _, ys = ft.scan(lambda c, t: (c * t, t), x, TABLE)
        return cleared(ys)

    same_in(program, X, mode)
    assert TABLE.tolist() == [5.0, 6.0]


LATER = {  # derivatives asked for after a write to what they were recorded with
    "vjp": lambda y: [*ft.vjp(lambda t: (t * t).sum(), y), y],
    "its result": lambda y: [*(r := ft.vjp(np.exp, y)), r[0]],
    "checkpoint": lambda y: [*ft.vjp(ft.checkpoint(lambda t: np.exp(t * t).sum()), y), y],
    "linearize": lambda y: [*ft.linearize(lambda t: t * t, y), y],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", LATER)
def test_a_pullback_answers_for_the_time_of_the_call(name, mode):
    def program(x):
        y = x * 1.0
        out, again, written = LATER[name](y)
        seed = np.ones_like(x) if name == "linearize" else np.ones(out.shape)[()]
        cleared(written)
        return again(seed)

    same_in(program, X, mode)


@pytest.mark.parametrize("transform", [ft.grad, lambda f: lambda x: ft.jvp(ft.grad(f), (x,), (x,))[0], lambda f: ft.jit(ft.grad(f))])
def test_a_write_to_a_stopped_value_leaves_the_derivative(transform):
    def loss(x):
        y = x * 1.0
        before = np.sin(y).sum()
        target = ft.stop_gradient(y)
        target *= 0.0
        return before + (y * target).sum()

    np.testing.assert_allclose(transform(loss)(X), np.cos(X))


@pytest.mark.parametrize("steps", [3, 600])  # interpreted, and compiled
def test_a_write_to_a_gradient_leaves_the_program_that_made_it(steps):
    factors = np.linspace(0.5, 1.0, steps)
    f = ft.jit(lambda w, x: ft.scan(lambda c, s: (w * s, None), x, factors)[0].sum())
    slopes = ft.grad(f, argnums=(0, 1))
    got = slopes(X, X)  # of the call that records: it ran on the program's own constants
    want = [g.copy() for g in got]
    for _ in range(3):
        for g in got:
            g[...] = 77.0
        got = slopes(X, X)
        for g, w in zip(got, want):
            assert np.array_equal(g, w)
