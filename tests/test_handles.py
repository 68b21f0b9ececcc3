"""A write to what a transform was given does not reach what it keeps; nor does one to what it gave reach what it was given."""

import numpy as np
import pytest

import functrace as ft

X = np.array([1.0, 2.0, 3.0])


def written(program):
    """What a traced function computes beside a result that it then writes to: both are returned."""

    def f(x):
        y = x * 1.0
        kept, result = program(y)
        result[...] = 7.0
        return kept, result

    return f


RESULTS = {
    "map": lambda y: (y, ft.map(lambda u: u, y)),
    "map, of two": lambda y: ft.map(lambda u: (u, u), y),
    "map, of a constant": lambda y: (y, ft.map(lambda u: y, y)),
    "scan, the state": lambda y: (y, ft.scan(lambda c, u: (c, u), y, y)[0]),
    "scan, the rows": lambda y: (y, ft.scan(lambda c, u: (c + u, u), 0.0, y)[1]),
    "scan, none": lambda y: (y, ft.scan(lambda c, u: (c, u), y, y[:0])[0]),
    "fori_loop": lambda y: (y, ft.fori_loop(0, 2, lambda i, c: c, y)),
    "fori_loop, none": lambda y: (y, ft.fori_loop(0, 0, lambda i, c: c, y)),
    "while_loop": lambda y: (y, ft.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1]), (0, y))[1]),
    "while_loop, none": lambda y: (y, ft.while_loop(lambda c: c[0] > 99, lambda c: c * 2, y)),
    "jit": lambda y: (y, ft.jit(lambda t: t)(y)),
    "jit, of a closure": lambda y: (y, ft.jit(lambda: y)()),
    "vmap": lambda y: (y, ft.vmap(lambda t: t)(y)),
    "vmap, not mapped": lambda y: (y, ft.vmap(lambda t, s: s, in_axes=(0, None))(y, y)),
    "vjp": lambda y: (y, ft.vjp(lambda t: t, y)[0]),
    "vjp, the cotangent": lambda y: (y, ft.vjp(lambda t: t, y)[1](y)[0]),
    "jvp": lambda y: (y, ft.jvp(lambda t: t, (y,), (y,))[0]),
    "jvp, the tangent": lambda y: (y, ft.jvp(lambda t: t, (y * 2,), (y,))[1]),
    "linearize": lambda y: (y, ft.linearize(lambda t: t, y)[1](y)),
    "has_aux": lambda y: (y, ft.value_and_grad(lambda t: (t.sum(), t), has_aux=True)(y)[0][1]),
    "stop_gradient": lambda y: (y, ft.stop_gradient(y)),
}
MODES = {
    "plain": lambda f, x: f(x),
    "vjp": lambda f, x: ft.vjp(f, x)[0],
    "jvp": lambda f, x: ft.jvp(f, (x,), (x,))[0],
    "jit": lambda f, x: ft.jit(f)(x),
    "vmap": lambda f, x: ft.tree.map(lambda r: r[0], ft.vmap(f)(x[None])),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", RESULTS)
def test_a_write_to_a_result_leaves_the_argument_as_it_was(program, mode):
    kept, result = MODES[mode](written(RESULTS[program]), X.copy())
    assert np.array_equal(kept, X)
    assert np.all(result == 7.0)


def late_pullback(y):
    _, pullback = ft.vjp(lambda t: t * t, y)
    y[:] = 0.0
    return pullback(np.ones(3))[0]


def late_pullback_of_a_result(y):
    out, pullback = ft.vjp(np.exp, y)
    out[:] = 0.0
    return pullback(np.ones(3))[0]


def late_pushforward(y):
    _, pushforward = ft.linearize(lambda t: t * t, y)
    y[:] = 0.0
    return pushforward(np.ones(3))


def late_pullback_of_a_checkpoint(y):
    _, pullback = ft.vjp(ft.checkpoint(lambda t: np.exp(t * t)), y)
    y[:] = 0.0
    return pullback(np.ones(3))[0]


def a_write_after_stop_gradient(y):
    z = ft.stop_gradient(y)
    y[:] = 0.0
    return z


LATE = {
    late_pullback: 2 * X,
    late_pullback_of_a_result: np.exp(X),
    late_pushforward: 2 * X,
    late_pullback_of_a_checkpoint: 2 * X * np.exp(X * X),
    a_write_after_stop_gradient: X,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", LATE, ids=lambda p: p.__name__)
def test_a_write_to_an_argument_after_the_call_is_not_seen(program, mode):
    np.testing.assert_allclose(MODES[mode](lambda x: program(x * 1.0), X.copy()), LATE[program], rtol=1e-14)
