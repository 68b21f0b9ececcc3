"""Python's `if` in the body of a loop or a branch: under `jit` and `vmap` a branch of the one program, elsewhere Python's own."""

import functools
import warnings

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace.transforms import control
from tests.helpers import Python


def bouncing(lax, w, x):
    def step(state, t):
        p, v = state
        v = v - 9.8 * 0.01 * w[0]
        p = p + 0.01 * v
        if p < 0:
            p, v = -p * w[1], -v * w[1]
        return (p, v), p

    (p, v), path = lax.scan(step, (x[0], x[1]), np.arange(60))
    return p + v + path.sum()


def four_ways(lax, w, x):
    def step(c, t):
        if c.sum() > 1:
            if c[0] > c[1]:
                return c * w * 0.5, c[0]
            return c * 0.9, c[1]
        if t > 0.5:
            return c + np.sqrt(t - 0.5) * w, c.sum()
        return c + t, t * 1.0

    c, y = lax.scan(step, x, np.linspace(0, 1, 20))
    return c.sum() + (y**2).sum()


def in_a_while_loop(lax, w, x):
    def body(state):
        k, c = state
        c = c * w[0] if c > 0.5 else c + w[1]
        return k + 1, c

    return lax.while_loop(lambda state: state[0] < 12, body, (0, x[0]))[1]


def in_a_condition(lax, w, x):
    def going(c):
        if c[0] > c[1]:
            return c[0] < 3
        return c[1] < 2

    return lax.while_loop(going, lambda c: c + w, x).sum()


def counted(lax, w, x):
    return lax.fori_loop(0, 10, lambda i, c: np.sin(c) * w if i > 5 and c[0] > 0 else c + w, x).sum()


def mapped(lax, w, x):
    return lax.map(lambda t: np.sqrt(t) * w[0] if t > 0 else t * w[1], np.concatenate([x, x - 1.0])).sum()


def in_a_branch(lax, w, x):
    return lax.cond(x[0] > 0, lambda x: x * w if x[1] > 0.3 else x - w, lambda x: -x if x[1] < 0 else x * w, x).sum()


def in_a_loop_in_a_loop(lax, w, x):
    def step(c, t):
        inner = lax.fori_loop(0, 3, lambda i, d: d * w[0] if d.sum() > 1 else d + t, c)
        return (inner if inner[0] > 0.2 else inner - 0.1 * w), inner.sum()

    c, y = lax.scan(step, x, np.linspace(0, 1, 5))
    return c.sum() + y.sum()


PROGRAMS = [bouncing, four_ways, in_a_while_loop, in_a_condition, counted, mapped, in_a_branch, in_a_loop_in_a_loop]
WS = [np.array([0.7, 0.8]), np.array([0.3, 0.9])]
XS = np.random.default_rng(1).normal(size=(4, 2))


@pytest.mark.parametrize("program", PROGRAMS)
def test_values_and_derivatives_are_those_of_pythons_own_control_flow(program):
    f, python = functools.partial(program, control), functools.partial(program, Python)
    modes = {
        "plain": (f, python),
        "grad": (ft.grad(f, (0, 1)), ft.grad(python, (0, 1))),
        "jit": (ft.jit(f), python),
        "jit of grad": (ft.jit(ft.grad(f, (0, 1))), ft.grad(python, (0, 1))),
        "grad of jit": (ft.grad(ft.jit(f), (0, 1)), ft.grad(python, (0, 1))),
        "jit of hessian": (ft.jit(ft.hessian(f)), ft.hessian(python)),
        "jit of jacfwd": (ft.jit(ft.jacfwd(f, (0, 1))), ft.grad(python, (0, 1))),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ours, theirs in modes.values():
            for w in WS:
                for x in XS:
                    np.testing.assert_allclose(np.array(ours(w, x)), np.array(theirs(w, x)), rtol=1e-9, atol=1e-11)
    with np.errstate(invalid="ignore"):  # a branch that no example takes in a step is computed, too
        for w in WS:
            slopes = np.stack([ft.grad(python)(w, x) for x in XS])
            np.testing.assert_allclose(ft.vmap(f, (None, 0))(w, XS), np.stack([python(w, x) for x in XS]), rtol=1e-9)
            for batch in (ft.vmap(ft.grad(f), (None, 0)), ft.jit(ft.vmap(ft.grad(f), (None, 0)))):
                np.testing.assert_allclose(batch(w, XS), slopes, rtol=1e-9, atol=1e-11)
            total = ft.grad(lambda w: ft.vmap(f, (None, 0))(w, XS).sum())
            np.testing.assert_allclose(total(w), slopes.sum(0), rtol=1e-9, atol=1e-11)


def test_a_loop_in_a_loop_may_close_over_what_differs_from_step_to_step():
    f = lambda w, x: control.scan(lambda c, t: (control.fori_loop(0, 3, lambda i, d: d * w + t, c), None), x, np.linspace(0, 1, 5))[0].sum()
    assert len(ft.trace(f)(WS[0], XS[0]).entries) < 6
    same = lambda w, x: Python.scan(lambda c, t: (Python.fori_loop(0, 3, lambda i, d: d * w + t, c), t), x, np.linspace(0, 1, 5))[0].sum()
    np.testing.assert_allclose(ft.grad(f)(WS[0], XS[0]), ft.grad(same)(WS[0], XS[0]))


def test_the_index_of_a_counted_loop_is_pythons_integer():
    body = lambda i, c: c * (2 * i - 3) / (i + 1) + 0.5**i * c + (i**2 if i > 1 else -i / 3)
    f, python = (lambda x, lax=lax: lax.fori_loop(1, 4, body, x * 2) for lax in (control, Python))
    x = np.ones(3, np.float32)
    for mode in (
        lambda f: f,
        ft.jit,
        ft.vmap,
        lambda f: ft.jit(ft.grad(lambda x: f(x).sum())),
        lambda f: lambda x: ft.jvp(f, (x,), (x,))[1],
    ):
        got, want = mode(f)(x), mode(python)(x)
        assert got.dtype == want.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=1e-6)
    for mode in (lambda f: f, ft.jit, ft.vmap):  # NumPy makes an array's number of it, which float32 is not as wide as
        with pytest.raises(ft.errors.ControlFlowError, match="float64"):
            mode(lambda x: control.fori_loop(1, 4, lambda i, c: c * np.cos(i), x))(x)


@pytest.mark.parametrize("program", [bouncing, four_ways, counted, mapped, in_a_branch, in_a_loop_in_a_loop])
def test_one_program_goes_every_way(program):
    f = functools.partial(program, control)
    for compiled in (ft.jit(f), ft.jit(ft.grad(f))):
        for w in WS:
            for x in XS:
                compiled(w, x)
        assert compiled.cache_info() == {"signatures": 1, "paths": 1, "hits": 7, "recorded": 1, "eager": 0}


def test_what_is_done_before_an_if_is_done_once():
    def step(c, t):
        c = np.cos(c) + t
        if c > 0.5:
            c = c * 0.5
        c = np.tanh(c)
        if c > 0:
            c = c * 0.9
        return c, c

    f = ft.jit(lambda x: control.scan(step, x, np.arange(5.0))[0])
    f(np.float64(1))
    text = f.show()
    assert (text.count("cos("), text.count("tanh(")) == (1, 2)


@pytest.mark.parametrize("start", [0.0, 1.0, -1.0])
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # of the root, as NumPy's own
def test_a_gradient_in_a_step_is_compiled_with_what_it_does_about_nan(start):
    def walk(lax, x):
        slope = ft.grad(lambda q: np.where(q > 0, np.sqrt(q), 0.0) - 0.1 * q**2)
        return lax.scan(lambda q, t: (q + 0.1 * slope(q) + 0.01 * t, q), x, np.arange(8.0))[0]

    f, python = functools.partial(walk, control), functools.partial(walk, Python)
    for mode, paths in ((lambda f: f, 1), (ft.grad, 2)):  # the outer derivative looks whether it is finite itself
        compiled = ft.jit(mode(f))
        for x in map(np.float64, (start, 0.5, start)):
            np.testing.assert_allclose(compiled(x), mode(python)(x), rtol=1e-9)
        assert compiled.cache_info()["paths"] <= paths


def test_a_gradient_of_several_arrays_in_a_step_asks_once_whether_it_is_finite():
    energy = lambda p: sum(np.sum(np.cosh(x)) for x in p.values())

    def descend(lax, x):
        def step(p, t):
            slope = ft.grad(energy)(p)
            return {k: v - 0.1 * slope[k] for k, v in p.items()}, t

        p, _ = lax.scan(step, {k: x * n for n, k in enumerate("abcdef")}, np.arange(5.0))
        return p["c"]

    assert len(ft.trace(functools.partial(descend, control))(XS[0]).entries) < 60
    np.testing.assert_allclose(ft.jit(functools.partial(descend, control))(XS[0]), descend(Python, XS[0]))


def many_ways(c, t):
    for k in range(6):
        c = c * 0.9 if c > 0.1 * k else c + t
    return c, None


def shapes_that_differ(c, t):
    return (c * 0.5, np.float64(1.0) * t) if t < 2 else (c + t, np.float32(2.0) * t.astype(np.float32))


def refusing(c, t):
    if t > 100:
        raise ValueError("too large")
    return c * 0.5 + t, c


def catching(c, t):
    try:
        return (c * 0.5, c) if c > 1 else (c + t, c)
    except:  # noqa: E722  # what a user may write
        return c * 0, c


def asserting(c, t):
    assert c < 100
    return c + t, c


@pytest.mark.parametrize("step", [many_ways, shapes_that_differ, refusing, catching, asserting])
def test_python_decides_where_a_program_of_all_ways_is_none(step):
    def f(x, scan):
        c, y = scan(lambda c, t: step(c, t), x, np.arange(4.0))
        return c + (0 if y is None else y.sum())

    def python(f, init, xs):
        ys = []
        for x in xs:
            init, y = f(init, x)
            ys.append(y)
        return init, None if ys[0] is None else fnp.stack(ys)

    value, slope = ft.jit(lambda x: f(x, control.scan)), ft.jit(ft.grad(lambda x: f(x, control.scan)))
    for x in (np.float64(0.5), np.float64(3.0)):
        np.testing.assert_allclose(value(x), f(x, python))
        np.testing.assert_allclose(slope(x), ft.grad(lambda x: f(x, python))(x))


@pytest.mark.parametrize("step", [lambda x: np.float32(1) * 2 if x > 0 else x, lambda x: x > 2 if x > 0.5 else x])
def test_the_ways_of_an_if_may_give_other_dtypes(step):
    f = lambda xs: control.scan(lambda c, x: (c + x, step(x)), 0.0, xs)
    program, xs = ft.jit(f), np.array([0.3, -0.7, 1.2])
    for given in (xs, -xs, xs):
        np.testing.assert_array_equal(program(given)[1], f(given)[1], strict=True)


def test_an_error_that_a_step_raises_is_raised():
    program = ft.jit(lambda x: control.scan(refusing, x, np.array([1.0, 200.0]))[0])
    with pytest.raises(ValueError, match="too large"):
        program(np.float64(1))


def test_the_branches_of_an_if_are_drawn_inside_the_loop():
    f = ft.jit(lambda x: control.scan(lambda c, t: (np.sin(c), c) if c > t else (np.cos(c), c), x, np.arange(3.0))[0])
    f(1.0)
    (loop,) = [b for b in ft.draw(f).graph.boxes if b.inner]
    (choice,) = [b for b in loop.inner[0].boxes if b.inner]
    assert [[b.text[0] for b in g.boxes if b.kind == "op"] for g in choice.inner] == [["cos"], ["sin"]]


@pytest.mark.parametrize(
    "body",
    [
        lambda _, c: c * 0.5 + 1 if c else c - 3,  # of a number, 0.5 too is true
        lambda _, c: c + 1 if np.floor(c).astype(int) else c - 0.25,
        lambda _, c: (c and 0.5 * c) + 1,
        lambda _, c: c + 1 if any([c, c - 0.5]) else c - 1,
        lambda _, c: c * 0.5 + 1 if np.allclose(np.stack([c, c]), np.abs(c)) else c - 3,
    ],
)
def test_the_truth_of_a_number_is_pythons(body):
    def by_python(c):
        for k in range(3):
            c = body(k, c)
        return c

    looped = lambda c: ft.fori_loop(0, 3, body, c)
    xs = np.array([0.5, 0.0, -1.0, 0.9, -0.5, 2.0])
    wanted, slopes = (np.stack([f(x) for x in xs]) for f in (by_python, ft.grad(by_python)))
    for run in (ft.vmap(looped), ft.jit(ft.vmap(looped)), lambda xs: np.stack([ft.jit(looped)(x) for x in xs])):
        np.testing.assert_allclose(run(xs), wanted, rtol=1e-14)
    np.testing.assert_allclose(ft.vmap(ft.grad(looped))(xs), slopes, rtol=1e-14)
