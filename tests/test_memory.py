"""Memory: any length of tape under any stack limit, all of it freed, nothing shared, nothing that can change under the tape."""

import gc
import sys
import tracemalloc
import weakref

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace import errors, pool
from functrace.core.reverse import pullback
from functrace.core.tape import record
from functrace.locks import safe
from functrace.ops.contract import _matrix

# Long tapes


class shallow:
    """A stack of 200 frames, beyond which any recursion fails."""

    def __enter__(self):
        self.old = sys.getrecursionlimit()
        frame, depth = sys._getframe(), 0
        while frame is not None:
            frame, depth = frame.f_back, depth + 1
        sys.setrecursionlimit(depth + 200)  # pytest itself stands on some frames

    def __exit__(self, *_):
        sys.setrecursionlimit(self.old)


def chain(x, n):
    for _ in range(n):
        x = x * 1.000001
    return x


def test_a_tape_of_a_million_entries_reverse():
    with shallow():
        got = ft.grad(chain)(1.0, 1_000_000)
    assert np.isclose(got, 1.000001**1_000_000, rtol=1e-9)


def test_a_long_tape_in_every_replay():
    n = 20_000
    want = 1.000001**n
    with shallow():
        assert np.isclose(ft.jvp(lambda x: chain(x, n), (1.0,), (1.0,))[1], want)
        out, pull = ft.vjp(lambda x: chain(x, n), 1.0)
        assert np.isclose(pull(1.0)[0], want)
        assert np.isclose(ft.linearize(lambda x: chain(x, n), 1.0)[1](1.0), want)
        np.testing.assert_allclose(ft.vmap(lambda x: chain(x, n))(np.ones(2)), want)
        np.testing.assert_allclose(ft.vmap(ft.grad(lambda x: chain(x, n)))(np.ones(2)), want)
        assert np.isclose(ft.grad(ft.grad(lambda x: chain(x, n) ** 2))(1.0), 2 * want**2)
        text = str(ft.trace(lambda x: chain(x, n))(1.0))
        assert text.count("multiply") == n
        del out, pull
        gc.collect()


def test_a_deep_pytree_under_a_short_stack():
    deep = 1.0
    for _ in range(50_000):
        deep = [deep]
    with shallow():
        grads = ft.grad(lambda t: ft.tree.leaves(t)[0] ** 2)(deep)
        assert ft.tree.leaves(grads) == [2.0]
        # containers this deep are also freed without recursion by Python itself
        del grads


def test_a_wide_fan_of_uses_sums_once():
    """A value used many times: its cotangents are summed before it is passed on (micrograd#64 counted twice)."""

    def f(x):
        y = x * x
        total = y
        for _ in range(1000):
            total = total + y
        return total * y

    assert ft.grad(f)(2.0) == 1001 * 4 * 2.0**3


def test_work_doubles_not_explodes_on_shared_nodes():
    """x = x + x, 60 times: a walk over paths would never end."""

    def f(x):
        for _ in range(60):
            x = x + x
        return x

    assert ft.grad(f)(1.0) == 2.0**60


# Memory returns to where it was


@pytest.fixture
def no_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class measured:
    """Bytes allocated within and still held after, and the peak."""

    def __enter__(self):
        gc.collect()
        gc.disable()
        tracemalloc.start()
        pool.clear()  # what the pool keeps for later is bounded, and tested in test_pool
        self.before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        return self

    def __exit__(self, *_):
        pool.clear()
        if getattr(sys, "_is_gil_enabled", lambda: True)():  # free-threaded Python frees functions and code only as it collects them
            gc.set_debug(gc.DEBUG_SAVEALL)  # cycles stay where they are, and count
        gc.collect()  # which gives back the frames, tuples and floats that the interpreter keeps for later
        after, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        self.held, self.peak = after - self.before, peak - self.before


@pytest.fixture
def no_pool(monkeypatch):
    """For tests that count what the tape itself holds."""
    monkeypatch.setattr(pool, "SMALLEST", sys.maxsize)


N = 100_000  # elements; 800 kB an array
ARRAY = 8 * N


def deep_function(x):
    for _ in range(10):
        x = np.sin(x) * x
    return x.sum()


def failing(x):
    deep_function(x)
    raise ZeroDivisionError("half-way")


def failing_in_the_rule(x):
    return _bad_rule(deep_function(x))


@ft.custom_vjp
def _bad_rule(x):
    return x * 1.0


def _raise(_, g):
    raise ZeroDivisionError("in the rule")


_bad_rule.defvjp(lambda x: (x * 1.0, None), _raise)


def caught(f):
    def run(x):
        try:
            f(x)
        except ZeroDivisionError:
            pass
        else:
            raise AssertionError("must fail")

    return run


def _vjp_and_drop(x):
    out, pull = ft.vjp(deep_function, x)
    pull(np.float64(1.0))
    pull(np.float64(1.0))


def _leak_and_drop(x):
    box = []
    ft.grad(lambda y: box.append(np.sin(y)) or deep_function(y))(x)
    try:
        np.sin(box[0])
    except errors.LeakedTracerError:
        pass


def _solved(x):
    """Two equations whose derivatives are linear equations, solved by the user's own solver."""
    diagonal = lambda matvec, b: b / matvec(np.ones_like(b))
    root = ft.implicit_root(lambda y: y**3 - x, np.ones(N), solver=lambda g, y: np.cbrt(y - g(0 * y) - 1), linear_solver=diagonal)
    return (root * ft.linear_solve(lambda y: x * y, np.ones(N), solver=diagonal)).sum()


RUNS = {
    "grad": lambda x: ft.grad(deep_function)(x),
    "value_and_grad": lambda x: ft.value_and_grad(deep_function)(x),
    "vjp": _vjp_and_drop,
    "jvp": lambda x: ft.jvp(deep_function, (x,), (x,)),
    "linearize": lambda x: ft.linearize(deep_function, x)[1](x),
    "hvp": lambda x: ft.hvp(deep_function, (x,), (x,)),
    "grad of grad": lambda x: ft.grad(lambda y: ft.grad(deep_function)(y).sum())(x),
    "vmap of grad": lambda x: ft.vmap(ft.grad(deep_function))(x.reshape(10, -1)),
    "checkpoint": lambda x: ft.grad(ft.checkpoint(deep_function))(x),
    "custom_vjp": lambda x: ft.grad(lambda y: _good_rule(y).sum())(x),
    "writes": lambda x: ft.grad(_with_writes)(x),
    "jit": lambda x: ft.jit(deep_function)(x),
    "grad of jit": lambda x: ft.grad(ft.jit(lambda y: np.sum(np.sin(y) * y)))(x),
    "vmap of jit": lambda x: ft.vmap(ft.jit(deep_function))(x.reshape(10, -1)),
    "implicit": lambda x: ft.grad(_solved)(x),
    "scan": lambda x: ft.grad(lambda y: ft.scan(lambda c, _: (np.sin(c) * c, None), y, length=5)[0].sum())(x),
    "while_loop": lambda x: ft.grad(lambda y: ft.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, np.sin(s[1])), (0, y))[1].sum())(x),
    "cond": lambda x: ft.vmap(ft.grad(lambda y: ft.cond(y.sum() > 5, np.sin, np.cos, y).sum()))(x.reshape(10, -1)),
    "gradients in a scan": lambda x: ft.grad(
        lambda y: ft.scan(lambda c, _: (ft.grad(lambda z: np.sin(z).sum())(c), None), y, length=5)[0].sum()
    )(x),
    "trace": lambda x: ft.trace(deep_function)(x),
    "exception": caught(ft.grad(failing)),
    "exception in an inner grad": caught(ft.grad(lambda y: ft.grad(failing)(y).sum())),
    "exception under vmap": caught(lambda x: ft.vmap(failing)(x.reshape(10, -1))),
    "exception under jvp": caught(lambda x: ft.jvp(failing, (x,), (x,))),
    "exception in a rule": caught(ft.grad(failing_in_the_rule)),
    "exception in the pullback of a vjp": caught(lambda x: ft.vjp(failing_in_the_rule, x)[1](1.0)),
    "leaked tracer": _leak_and_drop,
}


@ft.custom_vjp
def _good_rule(x):
    return np.sin(x)


_good_rule.defvjp(lambda x: (np.sin(x), np.cos(x)), lambda c, g: (c * g,))


def _with_writes(x):
    y = x * 1.0
    half = y[: N // 2]
    half[...] = np.sin(half)
    y[3] = 0.0
    return deep_function(y)


@pytest.mark.parametrize("name", RUNS)
def test_memory_returns_with_the_garbage_collector_off(name):
    run = RUNS[name]
    x = np.linspace(0.1, 1.0, N)
    run(x)  # fill caches of code objects and the like
    with measured() as m:
        run(x)
    assert m.peak > ARRAY, "nothing was measured"
    assert m.held < ARRAY // 20, f"{m.held} bytes still held after {name}"


def test_no_cycles_hold_what_a_gradient_made(no_gc):
    """Weak references die with the last strong one, no collector needed."""
    refs = []

    class Watched(np.ndarray):
        pass

    def f(x):
        y = np.sin(x)
        refs.append(weakref.ref(y))
        return y.sum()

    ft.grad(f)(np.ones(3))
    ft.jvp(f, (np.ones(3),), (np.ones(3),))
    ft.vmap(f)(np.ones((3, 2)))
    with pytest.raises(ZeroDivisionError):
        ft.grad(lambda x: f(x) / (1 // 0))(np.ones(3))
    assert [r() for r in refs] == [None] * 4


def test_a_pullback_dropped_frees_its_residuals():
    x = np.linspace(0.1, 1.0, N)
    with measured() as m:
        out, pull = ft.vjp(deep_function, x)
        held_by_pull = tracemalloc.get_traced_memory()[0] - m.before
        del pull
        pool.clear()
        freed = held_by_pull - (tracemalloc.get_traced_memory()[0] - m.before)
        del out
    assert held_by_pull > 10 * ARRAY
    assert freed > 10 * ARRAY
    assert m.held < ARRAY // 20


def test_a_gradient_keeps_only_itself():
    x = np.linspace(0.1, 1.0, N)
    ft.grad(deep_function)(x)
    with measured() as m:
        g = ft.grad(deep_function)(x)
    assert g.shape == x.shape
    assert ARRAY <= m.held < 1.1 * ARRAY


def test_entries_are_freed_as_the_reverse_replay_passes():
    """The peak of the whole gradient is the forward residuals and a few arrays, not twice as much."""
    x = np.linspace(0.1, 1.0, N)
    steps = 20

    def f(y):
        for _ in range(steps):
            y = np.sin(y) * 1.5
        return y.sum()

    ft.grad(f)(x)
    with measured() as forward:
        out, pull = ft.vjp(f, x)
        del out
        residuals = tracemalloc.get_traced_memory()[0] - forward.before
        del pull
    with measured() as whole:
        ft.grad(f)(x)
    assert residuals > steps * ARRAY
    assert whole.peak < residuals + 5 * ARRAY, f"peak {whole.peak / ARRAY:.1f} arrays, residuals {residuals / ARRAY:.1f}"


@pytest.mark.parametrize(("f", "most"), [(np.arctan2, 6.6), (np.power, 4.6)])
def test_what_a_rule_guards_against_costs_no_array_where_it_is_not(f, most):
    x, y = np.linspace(0.1, 1.0, N), np.linspace(1.0, 2.0, N)
    gradient = ft.grad(lambda x: np.sum(f(x, y)))
    gradient(x)
    with measured() as m:
        gradient(x)
    assert m.peak < most * ARRAY, f"{m.peak / ARRAY:.1f} arrays"


def test_residuals_are_gone_before_the_replay_ends(no_pool):
    """While the last rule runs, the arrays of all later entries have been freed."""
    seen = []

    @ft.custom_vjp
    def probe(x):
        return x * 1.0

    probe.defvjp(lambda x: (x * 1.0, None), lambda _, g: (seen.append(tracemalloc.get_traced_memory()[0]) or g,))
    x = np.linspace(0.1, 1.0, N)
    with measured() as m:
        ft.grad(lambda y: deep_function(probe(y)))(x)
    assert seen[0] - m.before < 6 * ARRAY, f"{(seen[0] - m.before) / ARRAY:.1f} arrays still held"


def test_values_that_no_rule_needs_are_not_kept(no_pool):
    x = np.linspace(0.1, 1.0, N)

    def f(y):
        for _ in range(20):
            y = -np.reshape(y + 1.0 - 0.25, (-1,))[::-1]  # linear: nothing to keep
        return y.sum()

    ft.vjp(f, x)
    with measured() as m:
        out, pull = ft.vjp(f, x)
        held = tracemalloc.get_traced_memory()[0] - m.before
        del out, pull
    assert held < 4 * ARRAY, f"{held / ARRAY:.1f} arrays held by a linear chain"


def test_nor_those_of_a_large_batch_of_small_examples(no_pool):
    x = np.linspace(0.1, 1.0, N).reshape(1000, -1)

    def f(y):
        for _ in range(20):
            y = -np.reshape(y + 1.0 - 0.25, (-1,))[::-1] + np.concatenate([y[1:], y[:1]])
        return y.sum()

    of_all, alone = ft.vmap(ft.grad(f)), ft.grad(f)(x[0])
    np.testing.assert_array_equal(of_all(x), [alone] * 1000)
    with measured() as m:
        of_all(x)
    assert m.peak < 12 * ARRAY, f"{m.peak / ARRAY:.1f} arrays held by a linear chain"


def test_the_factor_of_a_constant_is_not_kept(no_pool):
    """x * c needs c for x's derivative; x would be needed for c's, which nobody asked for."""
    x = np.linspace(0.1, 1.0, N)

    def f(y):
        for _ in range(20):
            y = y * 0.5 / 0.6
        return y.sum()

    ft.vjp(f, x)
    with measured() as m:
        out, pull = ft.vjp(f, x)
        held = tracemalloc.get_traced_memory()[0] - m.before
        del out, pull
    assert held < 4 * ARRAY, f"{held / ARRAY:.1f} arrays held"


def test_reading_parts_scatters_into_one_buffer():
    """Reading n elements one by one costs O(n) in the replay, not a dense array for each (Flux.jl#589)."""
    n = 3000
    x = np.linspace(0.1, 1.0, n)
    f = lambda y: sum(y[k] * float(k) for k in range(n))  # noqa: E731
    with measured() as m:
        g = ft.grad(f)(x)
    np.testing.assert_allclose(g, np.arange(n))
    assert m.peak < 400 * n * 8, "must not be quadratic"


@pytest.mark.parametrize("second", [lambda f, x: ft.hvp(f, (x,), (x,)), lambda f, x: ft.grad(lambda x: ft.grad(f)(x).sum())(x)])
@pytest.mark.parametrize("read", [lambda y, k: y[k], lambda y, k: y[k : k + 2].sum()])
def test_so_it_does_where_the_replay_is_recorded(second, read):
    n = 1000
    x = np.linspace(0.1, 1.0, n)
    f = lambda y: sum(read(y, k) ** 3 for k in range(n))  # noqa: E731
    with measured() as m:
        second(f, x)
    assert m.peak < 700 * n * 8, "must not be quadratic"


def test_writes_that_copy_keep_no_copies(no_pool):
    def f(x):
        y = x * 1.0
        for k in range(300):
            y = fnp.at(y)[k].set(x[k + 1])
        return y.sum()

    x = np.linspace(0.1, 1.0, 1000)
    with measured() as m:
        ft.grad(f)(x)
    assert m.peak < 100 * x.nbytes


def test_consumed_tape_is_empty():
    tape = record(lambda x: [np.sin(x) * x], [np.float64(1.0)], "test")
    assert len(tape.entries) == 2
    pullback(tape, [np.float64(1.0)], consume=True)
    assert tape.entries == []


# Gradients own their memory


def shares(*arrays):
    return any(np.shares_memory(a, b) for k, a in enumerate(arrays) for b in arrays[:k])


IDENTITIES = {
    "itself": lambda x: x,
    "plus zero": lambda x: x + 0.0,
    "positive": lambda x: +x,
    "reshape": lambda x: np.reshape(x, (4,)),
    "transpose": lambda x: x.T,
    "slice": lambda x: x[:],
    "reversed": lambda x: x[::-1],
    "row": lambda x: x[0],
    "broadcast": lambda x: np.broadcast_to(x, (3, 2, 2)),
    "astype": lambda x: x.astype(np.float64),
    "real": lambda x: np.real(x),
    "copy": lambda x: x.copy(),
    "where": lambda x: np.where(True, x, 0.0),
    "stack": lambda x: np.stack([x, x]),
    "concatenate": lambda x: np.concatenate([x, x]),
    "at set": lambda x: fnp.at(x)[0].set(0.0),
    "sum": lambda x: x.sum(axis=0, keepdims=True),
    "custom": lambda x: _identity(x),
    "stop": lambda x: ft.stop_gradient(x) + x,
}


@ft.custom_vjp
def _identity(x):
    return x


_identity.defvjp(lambda x: (x, None), lambda _, g: (g,))


@pytest.mark.parametrize("name", IDENTITIES)
def test_gradients_never_share_memory(name):
    f = IDENTITIES[name]
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    out, pull = ft.vjp(f, x)
    ct = np.ones(out.shape)
    (one,), (two,) = pull(ct), pull(ct)
    want = one.copy()
    assert not shares(x, ct, one, two)
    assert one.flags.writeable
    one[...] = 99.0  # writing to one gradient changes nothing else
    np.testing.assert_array_equal(two, want)
    np.testing.assert_array_equal(ct, np.ones(out.shape))
    np.testing.assert_array_equal(x, [[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(pull(ct)[0], want)
    g = ft.grad(lambda x: f(x).sum())(x)
    g[...] = 0.0
    np.testing.assert_array_equal(ft.grad(lambda x: f(x).sum())(x), want)


def test_gradients_of_several_arguments_never_share():
    x, y = np.ones(3), np.ones(3)
    g = ft.grad(lambda x, y, z: (x + y + z["a"] + z["b"]).sum(), (0, 1, 2))(x, y, {"a": x, "b": x})
    arrays = [x, y, *ft.tree.leaves(g)]
    assert not shares(*arrays)
    ct = np.ones(3)
    back = ft.vjp(lambda x, y: (x + y, x, y), x, y)[1]((ct, ct, ct))
    assert not shares(x, y, ct, *back)
    np.testing.assert_array_equal(back[0], [2.0, 2.0, 2.0])
    back[0][...] = 0.0
    np.testing.assert_array_equal(back[1], [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(ct, np.ones(3))


def test_the_same_array_passed_twice():
    x = np.array([1.0, 2.0])
    a, b = ft.grad(lambda u, v: (u * v).sum(), (0, 1))(x, x)
    np.testing.assert_array_equal(a, x)
    np.testing.assert_array_equal(b, x)
    assert not shares(a, b, x)


def test_gradients_of_leaves_without_use_never_share():
    g = ft.grad(lambda t: t[0].sum())([np.ones(3), np.ones(3), np.ones(3)])
    assert not shares(*g)
    np.testing.assert_array_equal(g[1], np.zeros(3))
    g[1][...] = 5.0
    np.testing.assert_array_equal(g[2], np.zeros(3))


def test_cotangents_are_not_written_to():
    """The engine adds in place only into buffers of its own (PT#46168)."""
    x = np.ones(4)
    ct = np.array([1.0, 2.0, 3.0, 4.0])
    _, pull = ft.vjp(lambda x: (x, x[:2], x[1:3], x), x)
    parts = (ct, ct[:2], ct[:2], ct)
    (g,) = pull(parts)
    np.testing.assert_array_equal(ct, [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(g, [3.0, 7.0, 8.0, 8.0])


def test_tangents_are_not_shared_or_written_to():
    x, t = np.ones(3), np.array([1.0, 2.0, 3.0])
    _, out = ft.jvp(lambda x: x[:], (x,), (t,))
    out[...] = 0.0
    np.testing.assert_array_equal(t, [1.0, 2.0, 3.0])
    _, push = ft.linearize(lambda x: x, x)
    out = push(t)
    out[...] = 0.0
    np.testing.assert_array_equal(t, [1.0, 2.0, 3.0])


def test_jacobians_own_their_memory():
    x = np.array([1.0, 2.0])
    for transform in (ft.jacrev, ft.jacfwd, ft.jacobian):
        a = transform(lambda x: (x, x + 0.0))(x)
        assert not shares(x, *a)
        a[0][...] = 7.0
        np.testing.assert_array_equal(a[1], np.eye(2))
        assert a[0].flags.writeable


def test_vmap_results_own_their_memory():
    xs = np.ones((2, 3))
    same, fixed = ft.vmap(lambda x: (x[:], np.ones(2)))(xs)
    same[...] = 5.0
    fixed[...] = 5.0
    np.testing.assert_array_equal(xs, np.ones((2, 3)))
    for out in ft.vmap(lambda x: (x, x))(xs):
        out[...] = 7.0
    np.testing.assert_array_equal(xs, np.ones((2, 3)))


def test_the_value_does_not_share_with_the_argument():
    """`vjp` of the identity hands out the argument itself, or a copy; either way the pullback is not disturbed by writing to it."""
    x = np.array([1.0, 2.0])
    out, pull = ft.vjp(lambda x: x * x, x)
    out[...] = 0.0
    np.testing.assert_array_equal(pull(np.ones(2))[0], [2.0, 4.0])
    y, pull = ft.vjp(np.exp, x)  # the rule of exp reads its result
    want = y.copy()
    with attempt():
        y[...] = 0.0
    np.testing.assert_allclose(pull(np.ones(2))[0], want)


# Arrays that change after they were recorded: the forward-time answer, or an error; never the new numbers

SIZES = pytest.mark.parametrize("size", [3, 100, 10_000, 200_000])  # the last is locked, the others copied


class attempt:
    """A write that may be refused, because the array is locked while the tape lives; it then must not have happened."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        return kind in (ValueError, errors.MutatedError) and "read-only" in str(error)


def forward_time(pull, want, name):
    """Run the pullback: it must give the gradient of the call as it was, or raise; never another number."""
    try:
        got = pull()
    except errors.MutatedError:
        return
    np.testing.assert_allclose(got, want, rtol=1e-9, err_msg=name)


@SIZES
def test_an_input_changed_after_vjp(size):
    x = np.full(size, 3.0)
    _, pull = ft.vjp(lambda x: (x * x).sum(), x)
    with attempt():
        x[0] = 5.0  # autograd: 10
    forward_time(lambda: pull(1.0)[0], np.full(size, 6.0), "input")


@SIZES
def test_the_last_element_of_an_input_changed(size):
    x = np.full(size, 3.0)
    _, pull = ft.vjp(lambda x: (x * x).sum(), x)
    with attempt():
        x[-1] = 5.0
    forward_time(lambda: pull(1.0)[0], np.full(size, 6.0), "input")


@SIZES
def test_an_input_changed_after_linearize(size):
    x = np.full(size, 3.0)
    _, push = ft.linearize(lambda x: (x * x).sum(), x)
    with attempt():
        x[...] = 5.0
    forward_time(lambda: push(np.ones(size)), 6.0 * size, "linearize")


def test_positions_that_were_counted_changed_after_vjp():
    i = np.array([0, 2, 2])
    _, pull = ft.vjp(lambda w: np.bincount(i, w, 4), np.ones(3))
    i += 1
    np.testing.assert_array_equal(pull(np.arange(1.0, 5))[0], [1, 3, 3])


@SIZES
def test_a_closed_over_constant_changed_after_vjp(size):
    x, w = np.full(size, 3.0), np.full(size, 2.0)
    _, pull = ft.vjp(lambda x: (x * w).sum(), x)
    with attempt():
        w[...] = 7.0
    forward_time(lambda: pull(1.0)[0], np.full(size, 2.0), "constant")


@SIZES
def test_a_middle_element_of_a_constant_changed(size):
    x, w = np.full(size, 3.0), np.full(size, 2.0)
    _, pull = ft.vjp(lambda x: (x * w).sum(), x)
    with attempt():
        w[size // 2] = 7.0
    forward_time(lambda: pull(1.0)[0], np.full(size, 2.0), "constant")


@SIZES
def test_a_constant_changed_through_its_base(size):
    x, base = np.full(size, 3.0), np.full(2 * size, 2.0)
    w = base[::2]
    _, pull = ft.vjp(lambda x: (x * w).sum(), x)
    with attempt():
        base[...] = 7.0
    forward_time(lambda: pull(1.0)[0], np.full(size, 2.0), "constant")


@SIZES
def test_one_element_of_a_part_of_a_constant_changed_through_its_base(size):
    x, base = np.full(size, 3.0), np.full(size + 1, 2.0)
    w = base[1:]
    _, pull = ft.vjp(lambda x: (x * w).sum(), x)
    with attempt():
        base[2] = 7.0
    forward_time(lambda: pull(1.0)[0], np.full(size, 2.0), "constant")


def refilling(size):
    buffer = np.empty(size)

    def f(x):
        total = 0.0
        for k in range(3):
            buffer[...] = k + 1.0
            total = total + (x * buffer).sum()
        return total

    return f


@SIZES
def test_a_buffer_reused_inside_the_function(size):
    """Filled anew for every step: each product must keep the numbers of its own step."""
    f = refilling(size)
    forward_time(lambda: ft.grad(f)(np.ones(size)), np.full(size, 6.0), "buffer")


@SIZES
def test_a_buffer_reused_inside_the_function_under_jvp(size):
    f = refilling(size)
    forward_time(lambda: ft.jvp(f, (np.ones(size),), (np.ones(size),))[1], 6.0 * size, "buffer")


@SIZES
def test_the_input_changed_inside_the_function(size):
    x = np.full(size, 3.0)

    def f(y):
        out = (y * y).sum()
        x[...] = 5.0
        return out

    forward_time(lambda: ft.grad(f)(x), np.full(size, 6.0), "input")


@SIZES
def test_an_index_array_changed_after_vjp(size):
    x, i = np.arange(float(size)), np.zeros(size, int)
    _, pull = ft.vjp(lambda x: x[i].sum(), x)
    with attempt():
        i[...] = 1
    want = np.zeros(size)
    want[0] = size
    forward_time(lambda: pull(1.0)[0], want, "index")


@SIZES
def test_a_mask_changed_after_vjp(size):
    x, m = np.ones(size), np.zeros(size, bool)
    m[0] = True
    for f in (lambda x: np.where(m, x, 0.0).sum(), lambda x: x[m].sum()):
        m[...] = False
        m[0] = True
        _, pull = ft.vjp(f, x)
        with attempt():
            m[...] = True
        want = np.zeros(size)
        want[0] = 1.0
        forward_time(lambda: pull(1.0)[0], want, "mask")


@SIZES
def test_a_matrix_changed_after_vjp(size):
    n = int(size**0.5) + 1
    x, w = np.ones(n), np.full((n, n), 2.0)
    _, pull = ft.vjp(lambda x: (w @ x).sum(), x)
    with attempt():
        w[...] = 7.0
    forward_time(lambda: pull(1.0)[0], np.full(n, 2.0 * n), "matrix")


@SIZES
def test_a_list_index_changed_after_vjp(size):
    x, i = np.arange(float(size)), [0, 0]
    _, pull = ft.vjp(lambda x: x[i].sum(), x)
    with attempt():
        i[0] = 1
    want = np.zeros(size)
    want[0] = 2.0
    forward_time(lambda: pull(1.0)[0], want, "index")


@SIZES
def test_the_value_of_a_traced_array_changed(size):
    """functrace.value gives the plain array behind a tracer: writing to it must not change what was recorded."""

    def f(x):
        y = np.sin(x)
        out = (y * y).sum()
        try:
            ft.value(y)[...] = 0.0
        except ValueError:  # it may be read-only
            pass
        return out

    x = np.full(size, 0.3)
    forward_time(lambda: ft.grad(f)(x), 2 * np.sin(x) * np.cos(x), "value")


@SIZES
def test_a_constant_changed_through_a_view_made_before(size):
    """A lock on the array does not reach views that were writeable already."""
    x, w = np.full(size, 3.0), np.full(size, 2.0)
    view = w[:]
    _, pull = ft.vjp(lambda x: (x * w).sum(), x)
    _, push = ft.linearize(lambda x: (x * w).sum(), x)
    with attempt():
        view[...] = 7.0
    forward_time(lambda: pull(1.0)[0], np.full(size, 2.0), "constant")
    forward_time(lambda: push(np.ones(size)), 2.0 * size, "constant")


@SIZES
def test_an_input_changed_through_a_view_made_before(size):
    x = np.full(size, 3.0)
    view = x[:]
    _, pull = ft.vjp(lambda x: (x * x).sum(), x)
    with attempt():
        view[...] = 7.0
    forward_time(lambda: pull(1.0)[0], np.full(size, 6.0), "input")


@SIZES
@pytest.mark.parametrize("view", [lambda w: np.broadcast_to(w, (2, w.size))[1], lambda w: w[:]])
def test_a_constant_that_is_a_read_only_view_changed_through_its_base(size, view):
    x, w = np.full(size, 3.0), np.full(size, 2.0)
    constant = view(w)
    constant.flags.writeable = False
    _, pull = ft.vjp(lambda x: (x * constant).sum(), x)
    with attempt():
        w[...] = 7.0
    forward_time(lambda: pull(1.0)[0], np.full(size, 2.0), "constant")


@pytest.mark.parametrize(
    "view",
    [
        lambda a: np.lib.stride_tricks.sliding_window_view(a, (3, 3)),
        lambda a: np.lib.stride_tricks.sliding_window_view(a[1:, 3:], (3, 2))[::2, ::-1],
        lambda a: np.broadcast_to(a[:, None], (40, 7, 50)),
        lambda a: np.broadcast_to(a[::2].T, (3, 50, 20)),
        lambda a: np.lib.stride_tricks.sliding_window_view(a.view(np.int64), 5, 0),
    ],
)
def test_what_shows_elements_again_and_again_is_kept_as_a_view_of_them(view):
    a = np.random.default_rng(0).normal(size=(40, 50))
    shown = view(a)
    was, kept = shown.copy(), safe(shown)
    assert kept.base.nbytes == a.nbytes < shown.nbytes
    a[...] = 7
    np.testing.assert_array_equal(kept, was)


def test_windows_are_copied_for_a_product_along_the_rows_of_the_image():
    windows = np.lib.stride_tricks.sliding_window_view(np.random.default_rng(0).normal(size=(2, 20, 30)), (3, 4), (1, 2))
    for count, n in ((0, 3), (1, 2)):
        matrix = _matrix(windows, count, n)
        assert matrix.strides[-2] == 8
        np.testing.assert_array_equal(matrix, windows.reshape(*windows.shape[:count], -1, 12))
    assert _matrix(windows, 0, 0).shape == (1, windows.size) and _matrix(windows, 0, 5).shape == (windows.size, 1)


@SIZES
def test_a_constant_inside_a_checkpoint_changed(size):
    """The second run reads the closure again: it must notice."""
    x, w = np.full(size, 3.0), np.full(size, 2.0)
    _, pull = ft.vjp(ft.checkpoint(lambda x: (x * w).sum()), x)
    with attempt():
        w[...] = 7.0
    try:
        got = pull(1.0)[0]
    except errors.CheckpointError:
        return
    np.testing.assert_allclose(got, np.full(size, 2.0))


@SIZES
def test_a_residual_of_a_custom_rule_changed(size):
    """What a rule of the user's keeps is the user's: but the arguments recorded beside it are not."""
    buffer = np.full(size, 2.0)

    @ft.custom_jvp
    def f(x, w):
        return x * w

    f.defjvp(lambda p, t: (p[0] * p[1], t[0] * p[1] + t[1] * p[0]))
    _, pull = ft.vjp(lambda x: f(x, buffer).sum(), np.full(size, 3.0))
    with attempt():
        buffer[...] = 7.0
    forward_time(lambda: pull(1.0)[0], np.full(size, 2.0), "custom")


def test_a_constant_not_needed_may_change():
    """No false alarm: the rule of + does not read its arguments."""
    x, w = np.ones(300_000), np.ones(300_000)
    _, pull = ft.vjp(lambda x: (x + w).sum(), x)
    w[...] = 5.0
    np.testing.assert_array_equal(pull(1.0)[0], np.ones(300_000))


def test_training_in_place_is_no_false_alarm():
    """The common loop: parameters are updated in place between gradients, after the tape is done."""
    w, x = np.zeros(5), np.arange(5.0)
    for _ in range(3):
        w -= 0.1 * ft.grad(lambda w: ((w - x) ** 2).sum())(w)
    np.testing.assert_allclose(w, x * (1 - 0.8**3))


def test_a_preallocated_batch_buffer_is_no_false_alarm():
    batch, w, seen = np.empty(5), np.ones(5), []
    for k in range(3):
        batch[...] = k
        seen.append(ft.grad(lambda w: (w * batch).sum())(w))
    np.testing.assert_array_equal(seen, [np.full(5, k) for k in range(3)])


def test_arguments_are_left_as_they_were():
    """A guard that locks arrays must unlock them, an error in the function or not."""
    x, w = np.ones(10_000), np.ones(10_000)
    ft.grad(lambda x: (x * w).sum())(x)
    _, pull = ft.vjp(lambda x: (x * w).sum(), x)
    pull(1.0)
    del pull
    with pytest.raises(ZeroDivisionError):
        ft.grad(lambda x: (x * w).sum() / (1 // 0))(x)
    assert x.flags.writeable and w.flags.writeable
    x.flags.writeable = False
    ft.grad(lambda x: (x * w).sum())(x)
    assert not x.flags.writeable


def test_locks_are_given_back():
    """Large arrays are usable again when the tape is gone, however many tapes held them, in whatever order they go."""
    w, x = np.ones(300_000), np.ones(300_000)
    _, one = ft.vjp(lambda x: (x * w).sum(), x)
    _, two = ft.vjp(lambda x: (x * w * w).sum(), x)
    del one
    with attempt():
        w[...] = 5.0
    forward_time(lambda two=two: two(1.0)[0], np.ones(300_000), "two tapes")
    del two
    w[...] = 5.0
    x[...] = 5.0
    with pytest.raises(ZeroDivisionError):
        ft.grad(lambda x: (x * w).sum() / (1 // 0))(x)
    w[...] = 6.0
    x[...] = 6.0


def test_a_leaked_value_keeps_nothing_of_its_run():
    """Neither what the tape kept, nor the lock on a large argument."""
    x, leaked = np.full(N, 0.5), []
    with measured() as m:
        ft.jvp(lambda y: (leaked.append(np.max(y)), deep_function(y))[1], (x,), (x,))
    assert m.held < ARRAY // 20, f"{m.held} bytes still held"
    x[...] = 5.0


def test_a_compiled_program_lets_go_of_large_arrays_when_nothing_reads_them_any_more():
    def there_and_back(x):
        kept = [np.sin(x * k) for k in range(1, 21)]
        total = kept.pop()
        while kept:
            total = np.sort(kept.pop() + total * 0.5)
        return total.sum()

    x = np.linspace(0.0, 1.0, 50_000)
    f = ft.jit(there_and_back)
    f(x), f(x)
    with measured() as m:
        f(x)
    assert m.peak < 5 * x.nbytes


def test_a_program_by_itself_lets_go_of_what_nothing_reads_any_more(no_pool):
    x = np.linspace(0.1, 1.0, N)
    f = ft.jit(lambda x: deep_function(x) + deep_function(-x))
    want = f(x)
    (program,) = f.programs()
    with measured() as m:
        (got,) = program(x)
    assert m.peak < 6 * ARRAY and np.isclose(got, want)
