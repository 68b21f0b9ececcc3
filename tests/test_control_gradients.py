"""Gradients in the steps of a loop: that they are finite is hoped for, and looked at once after the loop."""

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from tests.helpers import Python


def rooted(w):
    return np.sum(np.where(w > 0, np.sqrt(np.abs(w)), 3 * w))  # at 0 the gradient is found by a second replay


slope = ft.grad(rooted)


def step(c, x):
    d = slope(c * x)
    return c + 0.1 * d, np.sum(d)


def scanned(lax, c, xs):
    c, ys = lax.scan(step, c, xs)
    return np.sum(c**2) + np.sum(ys)


def whiled(lax, c, xs):
    def body(state):
        c, i, total = state
        c, y = step(c, fnp.take(xs, i))
        return c, i + 1, total + y

    c, _, total = lax.while_loop(lambda s: s[1] < len(xs), body, (c, 0, 0.0))
    return np.sum(c**2) + total


def watched(lax, c, xs):
    def more(state):
        return (np.sum(slope(state[0] * fnp.take(xs, state[1]))) > -50) & (state[1] < len(xs) - 1)

    c, i = lax.while_loop(more, lambda s: (s[0] * fnp.take(xs, s[1]) + 0.1, s[1] + 1), (c, 0))
    return np.sum(c**2) + i


def counted(lax, c, xs):
    c, total = lax.fori_loop(0, len(xs), lambda i, s: (lambda c, y: (c, s[1] + y))(*step(s[0], fnp.take(xs, i))), (c, 0.0))
    return np.sum(c**2) + total


def branched(lax, c, xs):
    def body(s, x):
        return lax.cond(np.sum(s) > 2.5, lambda s: step(s, x), lambda s: (2 * s, np.sum(s)), s)

    c, ys = lax.scan(body, c, xs)
    return np.sum(c**2) + np.sum(ys)


def forked(lax, c, xs):
    def body(s, x):
        if np.sum(s) > 2.5:
            return step(s, x)
        return 2 * s, np.sum(slope(s)) + x

    c, ys = lax.scan(body, c, xs)
    return np.sum(c**2) + np.sum(ys)


def nested(lax, c, xs):
    def outer(s, x):
        s, ys = lax.scan(step, s, x * np.ones(2))
        return s, np.sum(ys) + np.sum(slope(s * x))

    c, ys = lax.scan(outer, c, xs)
    return np.sum(c**2) + np.sum(ys)


def runge_kutta(lax, c, xs):
    def body(p, x):
        k1 = slope(p)
        k2 = slope(p + x * k1 / 2)
        k3 = slope(p + x * k2 / 2)
        k4 = slope(p + x * k3)
        return p + x / 6 * (k1 + 2 * k2 + 2 * k3 + k4), np.sum(p)

    c, ys = lax.scan(body, c, xs)
    return np.sum(c**2) + np.sum(ys)


PROGRAMS = [scanned, whiled, watched, counted, branched, forked, nested, runge_kutta]
TRANSFORMS = {
    "value": lambda f: f,
    "grad": lambda f: ft.grad(f, argnums=(0, 1)),
    "jacfwd": ft.jacfwd,
    "hessian": ft.hessian,
    "vmap_grad": lambda f: lambda c, x: ft.vmap(ft.grad(f))(fnp.stack([c, 0 * c, c[::-1], c - 0.7]), fnp.stack([x, x[::-1], 0 * x, x])),
}
START = np.array([0.3, 0.7, 1.1])
USUAL = np.linspace(0.5, 1.5, 4)  # few steps: a gradient that is not finite unrolls the loop
ZERO = np.array([0.5, 0.8, 0.0, 1.5])


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_loops_are_as_pythons(program, transform, jitted):
    """Where a gradient of a step is not finite at first, too; NumPy warns of neither."""
    change = TRANSFORMS[transform]
    plain = change(lambda c, x: program(Python, c, x))
    looped = change(lambda c, x: program(ft, c, x))
    looped = ft.jit(looped) if jitted else looped
    for x in (USUAL, ZERO, USUAL[::-1].copy(), ZERO[::-1].copy(), 0 * USUAL):
        for a, b in zip(ft.tree.leaves(looped(START, x)), ft.tree.leaves(plain(START, x)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_loop_with_gradients_is_one_operation(program):
    """It was unrolled, or had a branch for each gradient."""
    tapes = [ft.trace(lambda c, x: program(ft, c, x))(START, xs) for xs in (np.linspace(0.5, 1.5, k) for k in (20, 60))]
    assert len(tapes[0].entries) == len(tapes[1].entries)
    f = ft.jit(ft.grad(lambda c, x: program(ft, c, x)))
    for x in (USUAL, USUAL[::-1].copy(), USUAL + 0.1):
        f(START, x)
    assert f.cache_info()["paths"] == 1


def test_a_loop_that_would_not_end_on_what_is_not_finite_ends():
    """`not (small)` holds for NaN, too."""

    def descent(w):
        small = lambda state: (np.abs(state[0]) < 1e-3).all()
        return ft.while_loop(lambda s: ~small(s), lambda s: (s[0] * 0.5 - 0.0 * slope(s[0]), s[1] + 1), (w, 0))[1]

    start = np.array([0.0, 1.0])
    assert ft.jit(descent)(start) == descent(start) == 10
    assert ft.vmap(descent)(np.stack([start, start + 1])).tolist() == [10, 11]


def test_a_whole_number_in_the_carry_has_no_cotangent():
    """What came back to it counted as a cotangent of the step, without a mask: 0 * inf."""

    def f(lax, w, x):
        def body(state):
            i, c = state
            if c[0] > 0.2:
                c = slope(w * (0.2 * i))
            return i + 1, c

        return lax.while_loop(lambda s: s[0] < 2, body, (0, x))[1].sum()

    w, x = np.array([0.1, -1.6]), np.array([1.3, 0.08])
    want = ft.grad(lambda w, x: f(Python, w, x))(w, x)
    np.testing.assert_allclose(ft.jit(ft.grad(lambda w, x: f(ft, w, x)))(w, x), want)


def test_true_nan_stays():
    """Nan that is no unused branch's is the result, as without a loop."""

    def f(c):
        return ft.scan(lambda c, x: (c * ft.grad(lambda w: np.sum(np.sqrt(w) * w[0]))(c * x), None), c, np.array([1.0, 0.0]))[0]

    with np.errstate(all="ignore"):
        for g in (ft.jit(f), ft.jacfwd(f)):
            assert np.isnan(g(np.ones(2))).any()


@pytest.mark.parametrize(("first", "second"), [(USUAL, ZERO), (ZERO, USUAL)])
def test_either_kind_may_come_first(first, second):
    f = ft.jit(lambda c, x: runge_kutta(ft, c, x))
    for x in (first, second, first, second):
        np.testing.assert_allclose(f(START, x), runge_kutta(Python, START, x), rtol=1e-12)
    assert f.cache_info()["eager"] == 0


# Maxima that are subtracted before `exp`, and make no difference


def logsumexp(x, axis, top=np.max):
    m = top(x, axis=axis, keepdims=True)
    return np.squeeze(m, axis) + np.log(np.sum(np.exp(x - m), axis=axis))


def softmax(x, axis=None):
    e = np.exp(x - np.max(x, axis=axis, keepdims=axis is not None))
    return e / np.sum(e, axis=axis, keepdims=axis is not None)


SHIFTS = {
    "forward algorithm": lambda c, a: logsumexp(c[:, None] + a, 0),
    "backward algorithm": lambda c, a: logsumexp(a + c, 1),
    "minimum": lambda c, a: logsumexp((c + a).T, -1, np.min),
    "softmax": lambda c, a: a @ softmax(c),
    "each row": lambda c, a: np.sum(softmax(a * c, 1) * a, axis=0),
    "each layer": lambda c, a: np.sum(logsumexp(np.stack([a + c, a - c])[:, None], 2)[:, 0], axis=0),
}
NO_SHIFTS = {
    "the maximum": lambda c, a: np.max(a + c, axis=1),
    "no sum": lambda c, a: np.sum(np.exp(c - np.max(c)) * a, axis=1),
    "twice": lambda c, a: logsumexp(a + c, 1) + np.max(c),
    "of another row": lambda c, a: (m := np.max(a + c, axis=1)) + np.log(np.sum(np.exp(a + c - m), axis=1)),
    "another sum": lambda c, a: (e := np.sum(np.exp(a + c - np.max(a + c, axis=1, keepdims=True)), axis=1)) / (1 + e),
}


def shown(f, *args):
    """The compiled program as text."""
    jitted = ft.jit(f)
    jitted(*args)
    return jitted.show()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", [*SHIFTS, *NO_SHIFTS])
def test_a_maximum_that_makes_no_difference_has_no_derivative(name, compiled, rng):
    step = (SHIFTS | NO_SHIFTS)[name]
    c, xs = rng.normal(size=4), rng.normal(size=(5, 4, 4))

    def f(c, xs, unroll=False):
        c, ys = ft.scan(lambda c, a: ((c := step(c, a)), c), c, xs, unroll=unroll)
        return np.sum(np.sin(c)) + np.mean(ys**2)

    gradient = ft.grad(f, (0, 1))
    found, wanted = (ft.jit(gradient) if compiled else gradient)(c, xs), ft.grad(lambda c, xs: f(c, xs, True), (0, 1))(c, xs)
    for a, b in zip(found, wanted):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    if compiled:
        assert ("equal(" in shown(gradient, c, xs)) == (name in NO_SHIFTS)
        return
    if name in SHIFTS:
        ft.check_grads(f, c, xs, order=2)
    for a, b in zip(ft.vmap(gradient)(c[None], xs[None]), wanted):
        np.testing.assert_allclose(a[0], b, rtol=1e-10, atol=1e-12)
