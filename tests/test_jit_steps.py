"""What a step of a compiled loop costs: nothing is computed that no result needs, and small operations are done the quickest way."""

import numpy as np
import pytest

import functrace as ft
from functrace.transforms.control_loops import ScanCall

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(4, 6)), RNG.normal(size=(6, 4))


def steps_of(jitted):
    return [line.partition(": ")[2].strip() for line in jitted.show().splitlines() if line.startswith(("# scan", "# while_loop"))]


def fixed_point(w):
    def step(state):
        x, _, k = state
        new = np.tanh(x * w + 1.0) / 2
        return new, np.max(np.abs(new - x)), k + 1

    return np.sum(ft.while_loop(lambda s: (s[1] > 1e-9) & (s[2] < 100), step, (np.zeros(12), 1.0, 0))[0])


def test_the_derivative_of_a_while_loop_has_none_of_what_only_its_test_looks_at():
    w = np.linspace(0.1, 0.9, 12)
    gradient = ft.jit(ft.grad(fixed_point))
    np.testing.assert_allclose(gradient(w), ft.grad(fixed_point)(w), rtol=1e-12)
    loops = [i.params[0] for i in gradient.programs()[0].instructions if i.params and isinstance(i.params[0], ScanCall)]
    assert len(loops) == 2  # there, and back
    assert not any(word in gradient.show().split("def program")[-1] for word in ("sign(", "equal("))
    scans = "\n".join(line for line in gradient.show().splitlines() if line.startswith("# scan"))
    assert "absolute(" not in scans and "None, None, None, False" not in scans  # nor is the distance computed again
    np.testing.assert_allclose(ft.jit(lambda w: ft.jvp(fixed_point, (w,), (w,))[1])(w), ft.jvp(fixed_point, (w,), (w,))[1], rtol=1e-12)


def test_a_state_that_no_argument_reaches_has_no_cotangent():
    def f(w):
        def step(state, _):
            t, x = state
            return (t * 0.5, x + np.sin(w * t) * x), t * x

        (t, x), ys = ft.scan(step, (1.0, 2.0), None, length=9)
        return x + np.sum(ys) * t

    for g in (ft.grad(f), ft.grad(ft.grad(f)), lambda w: ft.jvp(f, (w,), (1.0,))[1], lambda w: ft.vmap(ft.grad(f))(w * np.ones(2))):
        np.testing.assert_allclose(ft.jit(g)(0.3), g(0.3), rtol=1e-12)
    found = (f(0.3 + 1e-6) - f(0.3 - 1e-6)) / 2e-6
    np.testing.assert_allclose(ft.grad(f)(0.3), found, rtol=1e-8)
    back = ft.jit(ft.grad(f))
    back(0.3)
    assert [i.params[0].counts[1] for i in back.programs()[0].instructions if i.params and isinstance(i.params[0], ScanCall)][-1] == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "less"])
def test_what_a_small_result_broadcasts_is_copied_first(name, dtype):
    op = getattr(np, name)

    def f(x, row, column, one, number, xs):
        def step(c, y):
            z = op(op(c, row) + column, y[:, None]) * one / number
            return np.tanh(z).astype(dtype), (op(column, row), op(z, np.arange(1, 7, dtype=dtype)), op(row[:3, None], y[None, :]))

        return ft.scan(step, x, xs)

    args = [x.astype(dtype) for x in (A, A[0], A[:, :1], A[:1, :1], np.array(0.7), RNG.normal(size=(3, 4)))]
    args[4] = args[4][()]
    jitted = ft.jit(f)
    for found, wanted in zip(ft.tree.leaves(jitted(*args)), ft.tree.leaves(f(*args))):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
    lines = steps_of(jitted)
    start = next(n for n, line in enumerate(lines) if line.startswith("for "))
    assert any("[...] = x" in line for line in lines[:start])  # the row, once
    np.testing.assert_array_equal(ft.jit(lambda x, y: np.divide(x, y[:, None]))(A, B[:4, 0]), A / B[:4, :1])


def test_counters_are_whole_numbers_of_python_that_do_not_wrap_unseen():
    def draws(seed):
        def step(state):
            k, x = state
            return k + 1, x * 6364136223846793005 + 1442695040888963407

        return ft.while_loop(lambda state: state[0] < 30, step, (0, seed))

    jitted = ft.jit(draws)
    seed = np.array(1 << 40)
    with np.errstate(over="ignore"):
        assert [int(x) for x in jitted(seed)] == [int(x) for x in draws(seed)]
    lines = steps_of(jitted)
    assert any(line.endswith("< 30") for line in lines) and any(line.endswith("+ 1") for line in lines)
    assert any("multiply(" in line for line in lines) and any("add(" in line for line in lines)


def test_the_slopes_of_choices_between_numbers_are_numbers():
    def f(x):
        best = 1.0
        for k in range(5):
            best = np.maximum(np.minimum(best * x[k], x[k + 1]), 0.1)
        return best

    gradient, x = ft.jit(ft.grad(f)), np.linspace(0.5, 1.5, 6)
    np.testing.assert_array_equal(gradient(x), ft.grad(f)(x))
    assert "astype(" not in gradient.show()
    equal = np.ones(6)
    np.testing.assert_array_equal(gradient(equal), ft.grad(f)(equal))


def test_what_a_loop_reads_as_arrays_stays_arrays():
    def f(a, es):
        return ft.scan(lambda c, e: (np.tanh(A[:, :4] @ c + e) + e, None), a, es)[0]

    jitted, args = ft.jit(f), (A[0, :4], RNG.normal(size=(20, 4)))
    np.testing.assert_allclose(jitted(*args), f(*args), rtol=1e-12)
    assert "memoryview" not in jitted.show()


def test_a_loop_that_does_nothing_is_none():
    jitted = ft.jit(lambda w: ft.scan(lambda c, x: (c, None), w, np.arange(5.0))[0])
    assert jitted(2.0) == 2.0


def carried(loop):
    """A network whose weights are in the carry."""

    def f(w, b, n):
        def step(state, x):
            w, b, h = state
            h = np.tanh(h @ w + b + x)
            return (w, b, h), np.sum(h) + b[0]

        if loop == "scan":
            (w, b, h), ys = ft.scan(step, (w, b, np.ones(4)), n * np.arange(12.0).reshape(3, 4))
            return np.sum(ys) + np.sum(w) * h[0] + b[1]

        def go_on(state):
            return state[0][2][0] * state[0][1][0] < state[1]

        (w, b, h), n = ft.while_loop(go_on, lambda state: (step(state[0], state[1])[0], state[1] - 0.5), ((w, b, np.ones(4)), n))
        return np.sum(w) * np.sum(h) + b[1] * n

    return f


@pytest.mark.parametrize("loop", ["scan", "while_loop"])
def test_what_is_carried_along_unchanged_is_a_constant_of_the_loop(loop):
    f, args = carried(loop), (RNG.normal(size=(4, 4)) / 2, np.full(4, 0.1), 2.5)
    ft.check_grads(f, *args)
    for g in (f, ft.grad(f, (0, 1, 2)), lambda w, b, n: ft.jvp(f, (w, b, n), (w, b, n))[1], lambda *xs: ft.hessian(f)(*xs)):
        for found, wanted in zip(ft.tree.leaves(ft.jit(g)(*args)), ft.tree.leaves(g(*args))):
            np.testing.assert_allclose(found, wanted, rtol=1e-10)
    for axes in ((0, None, None), (None, None, 0), (0, 0, 0)):
        xs = [np.stack([x, x * 0.8]) if axis is not None else x for x, axis in zip(args, axes)]
        found = ft.jit(ft.vmap(ft.grad(f), axes))(*xs)
        rows = [ft.grad(f)(*(x if axis is None else x[k] for x, axis in zip(xs, axes))) for k in range(2)]
        np.testing.assert_allclose(found, np.stack(rows), rtol=1e-10)
    jitted = ft.jit(ft.grad(f))
    jitted(*args)
    scans = [i.params[0] for i in jitted.programs()[0].instructions if i.params and isinstance(i.params[0], ScanCall)]
    assert all(call.counts[1] <= 3 for call in scans)  # there are five parts


def test_what_a_loop_hands_on_is_not_the_callers_own():
    def f(x):
        (w, h), _ = ft.scan(lambda c, _: ((c[0], c[1] * x), None), (A, x), None, length=3)
        return w, h

    w, _ = ft.jit(f)(2.0)
    assert not np.shares_memory(w, A)
    seen = []
    ft.grad(lambda x: (seen.append(f(x)[0]), f(x)[1])[1])(2.0)
    seen[0][...] = 0.0
    assert A.any()


def gates(h, x, w=None):
    z = h @ (W if w is None else w) + x
    i, f, g = z[..., :12], z[..., 12:24], z[..., 24:]
    return np.tanh(g) * i + f * h / (1 + f * f)


def halves(h, x):  # parts of several forms, some read twice, some that no ufunc makes
    y = np.sin(h + x[:12])
    both = np.concatenate([y[6:] * 2, np.cumsum(y[:6])])
    return both * np.concatenate([x[:3], y[3:9] - x[20:26], y[9:]])


def rows(h, x):
    m = np.tanh(h.reshape(3, 4) * x[:12].reshape(3, 4))
    return np.stack([m[2] + m[0], m[0] * m[1], m[1]]).reshape(12) + m.T.reshape(12)


W = RNG.normal(size=(12, 36)) / 5
INTO_PARTS = {"gates": gates, "halves": halves, "rows": rows}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", INTO_PARTS)
def test_parts_are_written_where_they_belong(name, reverse):
    step = INTO_PARTS[name]
    h, xs = RNG.normal(size=12), RNG.normal(size=(15, 36))

    def loss(h, xs):
        last, hs = ft.scan(lambda h, x: (step(h, x), h[3:9] * x[0]), h, xs, reverse=reverse)
        return np.sum(last * last) + np.sum(np.sin(hs))

    g = ft.jit(ft.grad(loss, (0, 1)))
    for scale in (1.0, 0.5):
        for got, wanted in zip(g(h * scale, xs), ft.grad(loss, (0, 1))(h * scale, xs), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-13)
    hvp = lambda h: ft.hvp(lambda h: loss(h, xs), (h,), (h,))
    np.testing.assert_allclose(ft.jit(hvp)(h), hvp(h), rtol=1e-10, atol=1e-12)


def test_a_gated_unit_puts_no_parts_together_in_its_steps():
    loss = lambda w, xs: np.sum(ft.scan(lambda h, x: (gates(h, x, w), None), np.ones(12), xs)[0])
    g = ft.jit(ft.grad(loss))
    g(W, RNG.normal(size=(15, 36)))
    steps = steps_of(g)
    assert not any("sum_of_parts" in line or "[...] =" in line for line in steps)
    assert not any("[c" in line for line in steps if not line.startswith(("v", "for", "return")))  # views are taken before the loop


def test_stacks_that_are_parts_of_one_are_views_of_it():
    def f(xs):
        def step(h, x):
            y = np.tanh(h * x)
            return y, (y[:6], y[6:], y[2:8:2], y.reshape(3, 4)[1])

        return ft.scan(step, np.ones(12), xs)

    xs = RNG.normal(size=(9, 12))
    jitted = ft.jit(f)
    jitted(xs)
    last, (a, b, c, d) = jitted(xs)
    for got, wanted in zip((last, a, b, c, d), ft.tree.leaves(f(xs)), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert sum("empty" in line for line in steps_of(jitted)) == 1
    old = b.copy(), c.copy()
    a[...] = 0  # they are the caller's, each its own
    np.testing.assert_array_equal(b, old[0])
    np.testing.assert_array_equal(c, old[1])


def lstm(state, x, w):
    h, c = state
    z = x + h @ w
    i, f, g, o = [z[..., k : k + 12] for k in (0, 12, 24, 36)]
    sigmoid = lambda x: 1 / (1 + np.exp(-x))
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g) + np.tanh(z[..., 6:18]) * 1e-3
    return sigmoid(o) * np.tanh(c), c


@pytest.mark.parametrize("batch", [(), (3,)])
def test_neighbouring_gates_are_computed_at_once(batch):
    w, xs = RNG.normal(size=(12, 48)) / 4, RNG.normal(size=(20, *batch, 48))
    xs[3, ..., 24:36] = -900  # exp(-g), which nobody asks for, would overflow
    zero = np.zeros((*batch, 12))

    def loss(w, xs):
        (h, c), hs = ft.scan(lambda s, x: ((new := lstm(s, x, w)), new[0]), (zero, zero), xs)
        return np.sum(hs * hs) + np.sum(c)

    g = ft.jit(ft.grad(loss, (0, 1)))
    for scale in (1.0, 0.3):
        for got, wanted in zip(g(w * scale, xs), ft.grad(loss, (0, 1))(w * scale, xs), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-13)
    # those of i and f, and of o; rows of a batch are no stretch of memory
    assert sum(line.startswith("r") and "exp(" in line for line in steps_of(g)) == 2 + bool(batch)
    unrolled = lambda xs: [y for x in xs for y in (np.exp(-x[..., :12]) + 1, np.exp(-x[..., 12:24]) + 1, np.exp(-x[..., 6:18]) * 2)]
    for got, wanted in zip(ft.jit(unrolled)(xs), unrolled(xs), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_neighbouring_stretches_after_many_operations_need_no_recursion():
    def f(x):
        a, b = x[:16], x[16:]
        for _ in range(3000):
            a, b = np.sin(a), np.sin(b)
        return np.sum(a * b)

    x = np.linspace(0.1, 0.2, 32)
    jitted = ft.jit(f)
    np.testing.assert_allclose(jitted(x), f(x), rtol=1e-12)
    assert jitted.show().count("sin(") == 3000
