"""Control flow: loops and branches as operations give what Python's own give, under every transform."""

import functools
import gc
import itertools

import numpy as np
import pytest

import functrace as ft
from functrace.compile.jit import jit
from functrace.errors import ControlFlowError, JitWarning
from functrace.transforms.control import cond, fori_loop, map, scan, switch, while_loop
from functrace.transforms.control_body import recorded

A = np.random.default_rng(0).normal(size=(3, 3))
X = np.random.default_rng(1).normal(size=(6, 3))
W = np.random.default_rng(2).normal(size=3)


def python_scan(f, init, xs=None, length=None, reverse=False, **_):
    """The loop in Python, independent of the library's."""
    length = len(ft.tree.leaves(xs)[0]) if length is None else length
    carry, rows = init, [None] * length
    for k in reversed(range(length)) if reverse else range(length):
        carry, rows[k] = f(carry, ft.tree.map(lambda x, k=k: x[k], xs))
    return carry, ft.tree.map(lambda *ys: np.stack([y if hasattr(y, "dtype") else np.asarray(y) for y in ys]), rows[0], *rows[1:])


def same(a, b):
    left, right = ft.tree.flatten(a), ft.tree.flatten(b)
    assert left[1] == right[1]
    for x, y in zip(left[0], right[0]):
        assert np.shape(x) == np.shape(y)
        assert np.asarray(x).dtype == np.asarray(y).dtype
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)


def recurrent(scan, w, x):
    def step(c, z):
        c = np.tanh(A @ c + A @ z + w)
        return c, (c**2).sum() * z[0]

    c, y = scan(step, np.ones(3), x)
    return (y * np.arange(6)).sum() + c.sum()


def pytrees_and_integers(scan, w, x):
    def step(c, z):
        s, k, d = c["s"] * w + z, c["k"] + 1, c["d"]
        d = np.where(k % 2 == 0, d * np.sin(s), d + s)
        return {"s": s, "k": k, "d": d}, (s[0], (k * 1.0, d[1:]))

    c, (a, (b, e)) = scan(step, {"s": w * 0.5, "k": 0, "d": np.ones(3)}, x, reverse=True)
    return c["s"].sum() + c["d"].sum() + (a * b).sum() + (e**2).sum() + c["k"]


def nested(scan, w, x):
    def step(c, z):
        c, r = scan(lambda a, q: (np.tanh(a * w + q), a[0]), c, np.stack([z, z * 2]))
        return c, r.sum()

    c, y = scan(step, w, x)
    return c.sum() + (y * y).sum()


def blocks(scan, w, x):
    c, y = scan(lambda c, z: (np.sin(c * w) + z, c.sum()), w * 1.0, x, checkpoint_every=4)
    d, z = scan(lambda c, z: (np.sin(c * w) + z, c.sum()), w * 1.0, x, checkpoint_every=4, reverse=True)
    return c.sum() + (y**2).sum() + (d * z[0]).sum() + (z**3).sum()


def several_results(scan, w, x):
    def step(c, z):
        q, v = np.linalg.eigh(A @ A.T + np.diag(w**2) + np.outer(c, c))
        return np.sin(q * z), v[0, 0] ** 2

    c, y = scan(step, w, x)
    return c.sum() + y.sum()


def svd_rules_that_look_at_numbers(scan, w, x):
    def step(c, z):
        u, s, v = np.linalg.svd(A + np.outer(c, w))
        r = np.linalg.svd(A + np.outer(w, c))[1]  # whose rule looks at what the body does not
        return np.sin(s * z + r), (u @ np.diag(s) @ v)[0, 0]

    c, y = scan(step, w, x)
    return c.sum() + y.sum()


def constants_passed_through(scan, w, x):
    last, seen = scan(lambda c, z: (z, c), w, x)
    other, doubled = scan(lambda c, z: (w, (z * 2, w)), w, x)
    return (seen * x).sum() + last[0] + (doubled[0] * x).sum() + (other * doubled[1][2]).sum()


def no_sequence(scan, w, x):
    c, y = scan(lambda c, _: (c * w, c), w, length=5)
    return (y**2).sum() + c[0] * x[0, 0]


def custom_rules_inside(scan, w, x):
    @ft.custom_vjp
    def product(a, b):
        return a * b

    product.defvjp(lambda a, b: (a * b, (a, b)), lambda r, t: (t * r[1], t * r[0]))
    twice = ft.checkpoint(lambda c: np.sin(c) * c)
    c, y = scan(lambda c, z: (twice(product(c, w)) + z, c), w, x)
    return (y**2).sum() + c.sum()


def branch_inside(scan, w, x):
    c, y = scan(lambda c, z: (cond(c[0] > 0, lambda c: np.sin(c) * w, lambda c: c * w + z, c), c), w, x)
    return (y**2).sum() + c.sum()


def loop_inside(scan, w, x):
    def step(c, z):
        return while_loop(lambda v: np.sum(v**2) > 0.5, lambda v: v * 0.6 * np.tanh(w + 2), c + z), c

    c, y = scan(step, w, x)
    return (y**2).sum() + c.sum()


def written_in_place(scan, w, x):
    def step(c, z):
        c = c.copy()
        c[0] = z[1] * w[0]
        c *= w
        return c, c[1]

    c, y = scan(step, w * 1.0, x)
    return (y**2).sum() + c.sum()


def python_decides(scan, w, x):
    c, y = scan(lambda c, z: (c * w, None) if c.sum() > 0 else (c + z * w, None), w, x)
    return c.sum()


LOOPS = [
    recurrent, pytrees_and_integers, nested, blocks, several_results, svd_rules_that_look_at_numbers, constants_passed_through, no_sequence,
    custom_rules_inside, branch_inside, loop_inside, written_in_place,
]  # fmt: skip


@pytest.mark.parametrize("program", [*LOOPS, python_decides], ids=lambda f: f.__name__)
def test_a_scan_has_the_values_and_derivatives_of_the_loop_in_python(program):
    ours, python = (functools.partial(program, s) for s in (scan, python_scan))
    same(ours(W, X), python(W, X))
    same(ft.grad(ours, (0, 1))(W, X), ft.grad(python, (0, 1))(W, X))
    same(ft.jvp(ours, (W, X), (A[0], X * 2)), ft.jvp(python, (W, X), (A[0], X * 2)))
    same(ft.hvp(ours, (W, X), (A[0], X * 2)), ft.hvp(python, (W, X), (A[0], X * 2)))
    same(ft.grad(ours)(W, X), ft.jacfwd(ours)(W, X))


@pytest.mark.parametrize("program", LOOPS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_a_scan_in_a_batch_is_the_scan_of_each_example(program, axes):
    f = functools.partial(program, scan)
    w, x = np.stack([W, W * 0.9, -W]), np.stack([X, X * 1.1, X[::-1]])
    args = [b if a == 0 else b[0] for a, b in zip(axes, (w, x))]
    rows = [[a[k] if axis == 0 else a for a, axis in zip(args, axes)] for k in range(3)]
    same(ft.vmap(f, axes)(*args), np.stack([f(*row) for row in rows]))
    grads = [np.stack(column) for column in zip(*(ft.grad(f, (0, 1))(*row) for row in rows))]
    same(ft.vmap(ft.grad(f, (0, 1)), axes)(*args), tuple(grads))
    summed = ft.grad(lambda *a: ft.vmap(f, axes)(*a).sum(), (0, 1))(*args)
    same(summed, tuple(g if a == 0 else g.sum(0) for g, a in zip(grads, axes)))


def test_derivatives_of_third_order_and_of_closures_over_outer_traces():
    def inner(scan, s):
        return ft.grad(lambda w: recurrent(scan, w * s, X * s))(W * s).sum()

    ours, python = (functools.partial(inner, s) for s in (scan, python_scan))
    same(ft.grad(ft.grad(ours))(1.1), ft.grad(ft.grad(python))(1.1))
    same(ft.vmap(ft.jacfwd(ft.grad(ours)))(np.array([0.9, 1.1])), np.stack([ft.grad(ft.grad(python))(s) for s in (0.9, 1.1)]))


def test_a_scan_is_one_operation_on_the_tape():
    few, many = (str(ft.trace(lambda w, n=n: scan(lambda c, x: (np.sin(c * w), c), w, np.ones(n)))(0.5)).count("\n") for n in (3, 300))
    assert few == many


def test_a_step_runs_a_few_times_however_many_steps_there_are():
    calls = []

    def step(c, x):
        calls.append(1)
        return c * x, None

    ft.grad(lambda x: scan(step, 1.0, x)[0])(np.ones(200))
    assert len(calls) <= 4


def test_loops_and_branches_are_compiled_as_one_path():
    compiled = jit(ft.grad(functools.partial(recurrent, scan)))
    same(compiled(W, X), ft.grad(recurrent, 1)(python_scan, W, X))
    same(compiled(W * 2, X), ft.grad(recurrent, 1)(python_scan, W * 2, X))
    root = jit(newton)
    same([root(a, 1.0) for a in (2.0, 9.0, 1e6)], [np.float64(python_newton(a, 1.0)) for a in (2.0, 9.0, 1e6)])
    choice = jit(lambda x: cond(x > 0, np.sin, lambda x: -(x**3), x))
    same([choice(1.0), choice(-2.0)], [np.sin(1.0), np.float64(8)])
    assert [f.cache_info()["paths"] for f in (compiled, root, choice)] == [1, 1, 1]


def test_a_step_that_does_not_repeat_itself_is_run_by_python():
    counter = itertools.count(1)
    slope = ft.grad(lambda w: scan(lambda c, _: (c + w * next(counter), None), w * 0.0, length=4)[0])(1.0)
    assert slope == 1 + 2 + 3 + 4


@pytest.mark.parametrize(
    "inner",
    [
        lambda c, x, odd: switch(x.astype(int), [np.sin, np.cos, np.exp][: 2 + odd], c),
        lambda c, x, odd: scan(lambda a, b: (np.sin(a) + b, None), c, X[:, 0], reverse=bool(odd))[0],
        lambda c, x, odd: scan(lambda a, _: (np.sin(a), None), c, length=3 + odd)[0],
        lambda c, x, odd: while_loop(lambda v: v < 10.0 + 10 * odd, lambda v: v * 2, c),
        lambda c, x, odd: while_loop(lambda v: v < 10.0, lambda v: v * (2 + odd), c),
    ],
)
def test_control_flow_that_is_another_in_the_next_step(inner):
    def run(w, unroll=1):
        odd = itertools.cycle((1, 0))
        return scan(lambda c, x: (c + 0.1 * inner(c, x, next(odd)), None), w, np.arange(4.0), unroll=unroll)[0]

    same(ft.value_and_grad(run)(np.float64(1)), ft.value_and_grad(lambda w: run(w, unroll=True))(np.float64(1)))
    same(ft.vjp(run, np.float64(1))[0], run(np.float64(1)))


class Counted:
    """A body that does something else in each step: its k-th run multiplies by k."""

    def __init__(self, wrap, kept):
        self.wrap, self.kept, self.k = wrap, kept, 0

    def __call__(self, c, x):
        self.k += 1
        k = self.k
        inner = {
            "in the closure": lambda u: u * k, "as a default": lambda u, k=k: u * k, "in an object": lambda u: u * self.k,
            "in the object of a method": self.times,
        }[self.kept]  # fmt: skip
        return self.wrap(inner)(c) * x, c

    def times(self, u):
        return u * self.k


def by_hand(f):
    g = ft.custom_vjp(f)
    g.defvjp(lambda u: (f(u), u), lambda u, ct: (ct * ft.grad(f)(u),))
    return g


@pytest.mark.parametrize("init", [1.0, np.float64(1)], ids=["number", "array"])
@pytest.mark.parametrize(
    ("wrap", "kept"),
    [
        *((wrap, kept) for wrap in (lambda f: f, ft.checkpoint, jit) for kept in ("in the closure", "as a default")),
        (lambda f: f, "in an object"),
        (by_hand, "in the closure"),
    ],
)
def test_each_run_of_a_step_that_does_not_repeat_itself_is_one_step(wrap, kept, init):
    run = lambda w: scan(Counted(wrap, kept), init, w * np.ones(5))
    whole, carries = np.float64(120), np.array([1.0, 1, 2, 6, 24])
    same(run(1.0), (whole, carries))
    same(jit(run)(1.0), (whole, carries))
    same(ft.jvp(run, (1.0,), (1.0,)), ((whole, carries), (5 * whole, np.arange(5) * carries)))
    same(ft.grad(lambda w: run(w)[0])(1.0), 5 * whole)
    same(ft.vmap(lambda w: run(w)[0])(np.ones(2)), np.full(2, whole))


@pytest.mark.parametrize("kept", ["in an object", "in the object of a method"])
@pytest.mark.parametrize("wrap", [ft.checkpoint, jit, by_hand])
def test_a_step_that_can_not_be_run_once_more_is_refused(wrap, kept):
    refusals = (ft.errors.ControlFlowError, ft.errors.CheckpointError, ft.errors.MutatedError)
    for start, xs in ((1.0, 0.0), (0.0, 1.0)):
        with pytest.raises(refusals, match=r"(?s)test_control.py.*[Pp]ass"):
            ft.grad(lambda w: scan(Counted(wrap, kept), start * w + 1.0, xs * w + np.ones(4))[0])(1.0)


def test_a_rule_by_hand_that_changes_from_step_to_step_is_seen():
    steps = itertools.count(1)

    def body(c, _):
        k = next(steps)
        f = ft.custom_vjp(lambda u: u)
        f.defvjp(lambda u: (u, None), lambda _, ct: (ct * k,))
        return f(c), None

    assert ft.grad(lambda w: scan(body, w, length=4)[0])(1.0) == 24


@pytest.mark.parametrize("wrap", [ft.checkpoint, jit, lambda f: f])
@pytest.mark.parametrize("derivative", [ft.grad, ft.hessian, lambda f: ft.vmap(ft.grad(f)), lambda f: jit(ft.grad(f))])
def test_a_call_in_a_body_may_return_python_numbers_too(wrap, derivative):
    f = wrap(lambda x: {"two": x * 2, "count": 3, "flag": True})
    looped = lambda x: scan(lambda c, _: (c + np.sum(f(x * c)["two"]) / f(x)["count"], None), 1.0, length=2)[0]
    branched = lambda x: np.sum(cond(np.sum(x) > 0, lambda x: f(x)["two"] * x, lambda x: x, x))
    for g, want in (looped, lambda x: (1 + 2 * np.sum(x) / 3) ** 2), (branched, lambda x: np.sum(2 * x * x)):
        same(derivative(g)(np.abs(X[:2])), derivative(want)(np.abs(X[:2])))


def test_a_checkpoint_in_a_step_is_recorded_once():
    w, local = np.full((2, 2), 0.1), ft.custom_vjp(lambda u: u)
    local.defvjp(lambda u: (u, None), lambda _, ct: (ct,))
    body = lambda c, x: (local(ft.checkpoint(lambda u: np.tanh(w @ u) * x)(c)), None)
    few, many = (str(ft.trace(lambda c, n=n: scan(body, c, np.ones(n)))(np.ones(2))).count("\n") for n in (3, 300))
    assert few == many


def test_the_first_result_has_the_dtype_of_the_others():
    xs = np.ones(3, np.float32)
    for f in (lambda c, x: (c * x, np.sin(c)), lambda c, x: (c * x, c)):
        assert scan(f, 0.5, xs)[1].dtype == ft.jit(lambda xs, f=f: scan(f, 0.5, xs))(xs)[1].dtype == np.float32


def test_an_unused_step_and_an_empty_sequence():
    carry, ys = scan(lambda c, x: (c + x.sum(), (x * c, 1)), 0.0, np.zeros((0, 2)))
    assert carry == 0
    assert ys[0].shape == (0, 2)
    assert ys[1].shape == (0,)
    same(ft.grad(lambda w: scan(lambda c, x: (c * w, c), w, np.zeros(0))[0])(3.0), np.float64(1))


def test_pythons_numbers_in_a_carry_take_the_dtype_that_they_meet():
    xs = np.ones(3, np.float32)
    assert scan(lambda c, x: (c + x, c), 0, xs)[0].dtype == np.float32
    assert scan(lambda c, x: (c + x, c), 0.0, xs)[1].dtype == np.float32
    assert ft.grad(lambda x: scan(lambda c, x: (c + x**2, c), 0.0, x)[0])(xs).dtype == np.float32
    assert while_loop(lambda v: v < 3, lambda v: v + np.float32(1), 0).dtype == np.float32


def test_a_body_that_writes_in_place_does_not_reach_the_callers_arrays():
    def step(c, x):
        c[0] = c[0] + 1
        return c, c[0]

    start, xs = np.zeros(2), np.zeros((3, 2))
    for f in (lambda w: scan(step, start, xs)[0][0], lambda w: scan(lambda c, x: (step(c, x)[0] * w, None), start, xs)[0][0]):
        assert f(1.0) == 3
        assert ft.jvp(f, (1.0,), (1.0,))[0] == 3
    assert while_loop(lambda c: c[0] < 3, lambda c: step(c, 0)[0], start)[0] == 3
    assert scan(lambda c, x: (step(c, x)[0], c), start, xs)[1][:, 0].tolist() == [1, 2, 3]
    assert not start.any()
    with pytest.raises(ValueError, match="read-only"):
        scan(lambda c, x: (c, x.fill(1)), start, xs)
    assert not xs.any()


def test_checkpoints_bound_the_memory_of_the_reverse_replay():
    import tracemalloc

    def peak(every):
        f = ft.grad(
            lambda w: scan(lambda c, _: (np.sin(c * w) * np.cos(c), None), np.ones(2000), length=400, checkpoint_every=every)[0].sum()
        )
        gc.collect()
        tracemalloc.start()
        out = f(0.7)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return out, found

    (whole, most), (blocks, least) = peak(None), peak(20)
    np.testing.assert_allclose(whole, blocks, rtol=1e-12)
    assert least < most / 4


def newton(a, x):
    return while_loop(lambda s: np.abs(s[0] ** 2 - a) > 1e-10, lambda s: (0.5 * (s[0] + a / s[0]), s[1] + 1), (x, 0))[0]


def python_newton(a, x):
    while np.abs(x**2 - a) > 1e-10:
        x = 0.5 * (x + a / x)
    return x


def test_a_while_loop_that_does_not_run_does_not_run_its_body():
    assert while_loop(lambda n: n > 0, lambda n: n // 0, 0) == 0


def test_derivatives_of_a_while_loop_in_a_batch_of_no_examples():
    f = lambda x: while_loop(lambda v: np.sum(v) < 9.0, lambda v: v * 2.0, x).sum()
    for g in (ft.grad(f), ft.hessian(f), lambda x: ft.jvp(f, (x,), (x,))[1], ft.grad(lambda x: ft.vmap(f)(np.stack([x, x])).sum())):
        shape = np.shape(g(np.ones(3)))
        assert ft.vmap(g)(np.ones((0, 3))).shape == ft.jit(ft.vmap(g))(np.ones((0, 3))).shape == (0, *shape)


def test_while_loop_under_every_transform():
    a, x = np.array([2.0, 30.0, 1e4]), np.array([1.5, 1.0, 2.0])

    def each(f):
        return np.stack([f(u, v) for u, v in zip(a, x)])

    same(newton(2.0, 1.0), python_newton(2.0, 1.0))
    for transform in (lambda f: ft.grad(f, (0, 1)), lambda f: ft.grad(ft.grad(f)), ft.jacfwd, lambda f: ft.jacfwd(ft.grad(f))):
        same(transform(newton)(2.0, 1.5), transform(python_newton)(2.0, 1.5))
    same(ft.vmap(newton)(a, x), each(python_newton))
    same(ft.vmap(ft.grad(newton))(a, x), each(ft.grad(python_newton)))
    same(ft.vmap(ft.grad(ft.grad(newton)))(a, x), each(ft.grad(ft.grad(python_newton))))
    same(ft.vmap(ft.jacfwd(newton))(a, x), each(ft.grad(python_newton)))
    same(ft.grad(lambda a: ft.vmap(newton)(a, x).sum())(a), each(ft.grad(python_newton)))
    same(ft.vmap(ft.vmap(newton), (None, 0))(a, np.stack([x, x])), np.stack([each(python_newton)] * 2))
    same(ft.grad(lambda x: while_loop(lambda v: v < 100.0, lambda v: v * v, x))(200.0), np.float64(1))
    same(ft.grad(lambda x: while_loop(lambda v: v < 100.0 and v < 1e9, lambda v: v * v, x))(3.0), np.float64(8 * 3**7))
    same(ft.grad(lambda b: while_loop(lambda v: v < 9 * b, lambda v: v * v * b, np.float64(2.0)))(1.5), np.float64(4.0 * 4 * 3 * 1.5**2))


@pytest.mark.parametrize("every", [None, 1, 2])
def test_a_loop_as_often_as_the_step_of_another_counts(every):
    def body(c, x):
        h, n = c
        h = h * x + ft.while_loop(lambda s: s[1] < n % 3, lambda s: (np.sin(s[0]), s[1] + 1), (x, 0))[0]
        return (h, n + 1), h * n

    f = lambda x: ft.scan(body, (0.5, 0), x, checkpoint_every=every)[1]
    x = np.array([0.3, -0.8, 1.2, 0.6])
    ft.check_grads(f, x)
    want = np.stack([ft.jvp(f, (y,), (x,))[1] for y in (x, 2 * x)])
    assert np.allclose(want[0], ft.jacrev(f)(x) @ x)
    assert np.allclose(ft.vmap(lambda y: ft.jvp(f, (y,), (x,))[1])(np.stack([x, 2 * x])), want)


def test_fori_loop_counts_and_may_have_traced_bounds():
    same(ft.grad(lambda w: fori_loop(0, 5, lambda i, v: v * w + i, 1.0))(3.0), np.float64(5 * 81 + 3 * 9 + 4 * 3 + 3))
    same(fori_loop(3, 3, lambda i, v: v * 2, 1.0), 1.0)
    same(
        ft.vmap(lambda n, x: fori_loop(0, n, lambda i, v: v * x, 1.0))(np.array([0, 1, 4]), np.array([2.0, 3.0, 2.0])),
        np.array([1.0, 3.0, 16.0]),
    )
    table = np.arange(10.0)
    same(ft.grad(lambda w: fori_loop(0, 4, lambda i, v: v + table[i] * w, 0.0))(2.0), np.float64(6))


def test_map_is_a_loop_over_slices():
    for size in (None, 2, 5, 7):
        f = functools.partial(map, lambda x: (np.sin(x) * W[0]).sum(), batch_size=size)
        same(f(X), np.sin(X).sum(1) * W[0])
        same(ft.grad(lambda x, f=f: f(x).sum())(X), np.cos(X) * W[0])
        same(f(X[:0]), np.zeros(0))


@pytest.mark.parametrize(
    ("f", "python"),
    [
        (lambda x: cond(x > 0, np.sqrt, lambda x: -(x**3), x), lambda x: np.sqrt(x) if x > 0 else -(x**3)),
        (
            lambda x: switch(np.floor(x).astype(int), [lambda y: y * x, lambda y: np.sin(y), lambda y: y**3], x),
            lambda x: [lambda y: y * x, np.sin, lambda y: y**3][int(np.clip(np.floor(x), 0, 2))](x),
        ),
    ],
    ids=["cond", "switch"],
)
def test_branches_under_every_transform(f, python):
    xs = np.array([4.0, -1.0, 1.5, 0.5, -2.0])
    transforms = [lambda f: f, ft.grad, lambda f: ft.grad(ft.grad(f)), ft.jacfwd, lambda f: lambda x: ft.jvp(f, (x,), (2.0,))[1]]
    for transform in transforms:
        rows = np.stack([transform(python)(x) for x in xs])
        same(np.stack([transform(f)(x) for x in xs]), rows)
        same(ft.vmap(transform(f))(xs), rows)
    same(ft.grad(lambda x: ft.vmap(f)(x).sum())(xs), np.stack([ft.grad(python)(x) for x in xs]))
    with np.errstate(invalid="ignore", divide="ignore"):
        nested_batch = ft.vmap(ft.vmap(f))(np.abs(np.stack([xs, xs + 2])))
    same(nested_batch, np.stack([[python(x) for x in row] for row in np.abs(np.stack([xs, xs + 2]))]))


def test_the_branch_not_taken_gives_no_nan():
    xs = np.array([0.0, 4.0])
    slopes = ft.vmap(ft.grad(lambda x: cond(x > 0, lambda x: np.sqrt(x) + 1 / x, lambda x: x * 2, x)))(xs)
    same(slopes, np.array([2.0, 0.25 - 1 / 16]))


def in_range(x, k):
    return ft.cond(k < 3, lambda x, k: x[k] ** 2, lambda *_: 0.0, x, k)


PLACES = np.array([1, 5, 2, 4])  # of which the last is out of range
GUARDED = {
    "scan": lambda x: ft.scan(lambda c, k: (c + in_range(x, k), c), 0.0, PLACES)[0],
    "map": lambda x: np.sum(ft.map(lambda k: in_range(x, k), PLACES)),
    "fori_loop": lambda x: ft.fori_loop(1, 5, lambda k, c: c + in_range(x, k), 0.0),
    "while_loop": lambda x: ft.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] + in_range(x, s[0])), (1, 0.0))[1],
}


@pytest.mark.parametrize("name", GUARDED)
def test_a_branch_that_guards_an_index_in_a_loop(name):
    f, x, t = GUARDED[name], np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.5, -1.0])
    for _ in range(2):
        assert f(x) == ft.jit(f)(x) == 13.0
        for slope in (ft.jacfwd(f), ft.grad(f), ft.jit(ft.grad(f)), ft.grad(ft.jit(f))):
            np.testing.assert_array_equal(slope(x), [0, 4, 6])
        np.testing.assert_array_equal(ft.vmap(f)(np.stack([x, 2 * x])), [13, 52])
        np.testing.assert_array_equal(ft.vmap(ft.grad(f))(np.stack([x, 2 * x])), [[0, 4, 6], [0, 8, 12]])
        np.testing.assert_array_equal(ft.hvp(f, (x,), (t,)), 2 * t * [0, 1, 1])


def test_no_nan_from_a_selection_inside_a_scan():
    def f(w):
        return scan(lambda c, x: (c + np.where(x * w > 0, np.sqrt(x * w), 0.0), None), 0.0, np.array([0.0, 4.0, 0.0]))[0]

    same(ft.grad(f)(4.0), np.float64(0.5))
    same(ft.jvp(f, (4.0,), (1.0,))[1], np.float64(0.5))
    same(ft.vjp(f, 4.0)[1](2.0)[0], np.float64(1))


SINGLE = [
    np.sin, np.square, np.sort, np.cumsum, lambda a: a[::-1], lambda a: a.sum() + 0 * a, lambda a: np.where(a > 0, a, a * 0.2),
    lambda a: np.stack([a, a * 2])[1], lambda a: np.linalg.qr(np.eye(3) * 2 + np.outer(np.sin(a), np.cos(a)))[1][0],
    lambda a: np.linalg.solve(np.eye(3) * 3 + np.outer(np.sin(a), np.sin(a)), a), lambda a: np.linalg.norm(a + 3) * np.ones(3),
]  # fmt: skip
PAIR = [np.add, np.multiply, np.subtract, np.maximum, lambda a, b: np.outer(a, b) @ np.ones(3), lambda a, b: a @ b + 0 * a]


def random_loop(rng):
    """A scan whose body is a random program of its carry, its slices and what it closes over; and its arguments."""
    carries, sequences, constants, results = rng.integers(1, 3), rng.integers(0, 3), rng.integers(0, 3), rng.integers(0, 3)
    count = carries + sequences + constants + 1
    program = []
    for _ in range(rng.integers(2, 9)):
        ops = SINGLE if rng.random() < 0.5 else PAIR
        program.append((ops[rng.integers(len(ops))], rng.integers(count, size=1 if ops is SINGLE else 2)))
        count += 1
    new, out = rng.integers(count, size=carries), rng.integers(count, size=results)
    reverse, every = bool(rng.random() < 0.5), int(rng.integers(2, 5)) if rng.random() < 0.3 else None

    def f(scan, init, xs, closed):
        def body(carry, x):
            values = [*carry, *x, *closed, np.array([0.3, -0.2, 0.7])]
            for op, places in program:
                values.append(np.tanh(op(*(values[i] for i in places))))
            return tuple(values[i] for i in new), [values[i] for i in out]

        carry, ys = scan(body, tuple(init), tuple(xs), length=4, reverse=reverse, checkpoint_every=every)
        return sum((np.sin(a).sum() for a in [*carry, *ys]), 0.0)

    return f, tuple([rng.normal(size=s) for _ in range(n)] for n, s in ((carries, 3), (sequences, (4, 3)), (constants, 3)))


def test_random_bodies_have_the_derivatives_of_the_loop_in_python(rng):
    for _ in range(25):
        f, args = random_loop(rng)
        ours, python = (functools.partial(f, s) for s in (scan, python_scan))
        tangents = ft.tree.map(lambda a: rng.normal(size=a.shape), args)
        batch = ft.tree.map(lambda a: np.stack([a, a * 0.8]), args)
        same(ours(*args), python(*args))
        same(ft.grad(ours, (0, 1, 2))(*args), ft.grad(python, (0, 1, 2))(*args))
        same(ft.jvp(ours, args, tangents), ft.jvp(python, args, tangents))
        same(ft.hvp(ours, args, tangents), ft.hvp(python, args, tangents))
        same(ft.vmap(ft.grad(ours, (0, 1, 2)))(*batch), ft.vmap(ft.grad(python, (0, 1, 2)))(*batch))


@pytest.mark.parametrize("singular", [0, 1, 4])
def test_an_error_that_the_body_catches_in_a_step_is_that_of_the_step(singular):
    def body(c, x):
        try:
            np.linalg.inv(x)  # only to see whether it can be
            y = np.linalg.solve(x, np.ones(2))
        except np.linalg.LinAlgError:
            y = -3.0 * x[0] + 1
        return c + np.sum(y**2 + x), y

    xs = np.stack([(k != singular) * (k + 1) * np.eye(2) for k in range(7)])
    ours, python = (lambda xs, loop=loop: loop(body, 0.0, xs) for loop in (scan, python_scan))
    same(ours(xs), python(xs))
    with pytest.warns(JitWarning, match="catches LinAlgError"):
        same(ft.jit(ours)(xs), python(xs))
    same(ft.vmap(ours)(np.stack([xs, xs])), ft.tree.map(lambda *ys: np.stack(ys), python(xs), python(xs)))
    same(ft.grad(lambda xs: ours(xs)[0])(xs), ft.grad(lambda xs: python(xs)[0])(xs))


YES_OR_NO = {  # of which NumPy makes Python's bool
    "cond": lambda x: cond(np.allclose(x, 0.1), np.abs, np.square, x),
    "results": lambda x: scan(lambda c, t: (c * x, np.array_equal(c, x)), x, W)[::-1],
    "state": lambda x: while_loop(lambda s: np.logical_not(s[1]), lambda s: (s[0] * 0.5 * x, np.allclose(s[0], 0, atol=0.1)), (x, False)),
}


@pytest.mark.parametrize("name", YES_OR_NO)
def test_a_yes_or_no_of_numpys_in_a_loop_or_branch(name):
    f = lambda x: sum(np.sum(1.0 * y) for y in ft.tree.leaves(YES_OR_NO[name](x)))
    tape = ft.trace(f)(1.3)
    for x in (1.3, 0.4):
        slope = (f(x + 1e-6) - f(x - 1e-6)) / 2e-6
        for g in (ft.grad(f), ft.jit(ft.grad(f)), lambda x: ft.vmap(ft.grad(f))(np.array([x]))[0], lambda x: ft.jvp(f, (x,), (1.0,))[1]):
            np.testing.assert_allclose(g(x), slope, rtol=1e-6)
        np.testing.assert_allclose(ft.jit(f)(x), f(x))
        names = {}
        exec(tape.to_python(), names)
        np.testing.assert_allclose(names["f"](x), f(x))


MET = {  # a Python number beside an array of float32
    "read in a branch": lambda x, s: switch(np.sum(x).astype(int), [lambda t: t * s, lambda t: t - s, lambda t: t], x),
    "read in a loop": lambda x, s: fori_loop(0, 3, lambda i, c: c * s + np.ldexp(c, 1), x),
    "read in a condition": lambda x, s: while_loop(lambda c: np.sum(c) < 5 * s, lambda c: c * s, x),
    "chosen": lambda x, s: map(lambda t: np.where(t > s, t, 2 * s), x),
    "stacked": lambda x, s: scan(lambda c, t: (c * s, s - t), x, x)[1],
    "an argument of a checkpoint": ft.checkpoint(lambda x, s: x * s),
}


@pytest.mark.parametrize("name", MET)
def test_a_python_number_takes_the_dtype_that_it_meets_under_jit_and_vmap(name):
    f, x = MET[name], np.ones(3, np.float32)
    jitted = jit(f)
    batched = lambda x, s: ft.vmap(lambda x: f(x, s))(x[None])[0]
    modes = [jitted, lambda x, s: ft.vjp(lambda x: jitted(x, s), x)[0], batched, jit(batched)]
    for s in (2.0, 0.5, 3):
        want = f(x, s)
        assert want.dtype == np.float32
        for mode in modes:
            got = mode(x, s)
            assert got.dtype == np.float32
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: scan(lambda c, x: (c, x, 1), 0.0, X), "must return (carry, y)"),
        (lambda: scan(lambda c, x: np.stack([c, c]), 0.0, X), "must return (carry, y), but returned a ndarray"),
        (
            lambda: jit(lambda xs: scan(lambda c, x: (c, {"a": x} if x > 0 else {"b": x}), 0.0, xs))(W),
            "every y must have the same structure",
        ),
        (lambda: fori_loop(np.array([0]), 3, lambda i, c: c, 1.0), "lower must be whole"),
        (lambda: scan(lambda c, x: ((c, c), x), 0.0, X), "the body must return a carry like"),
        (lambda: scan(lambda c, x: (c + x, x), np.float64(0), X), "float64[] before the step and float64[3] after it"),
        (lambda: scan(lambda c, x: ({"a": c["a"] * 1j}, x), {"a": np.ones(2)}, X), "the carry['a'] is float64[2]"),
        (lambda: ft.grad(lambda c: scan(lambda c, x: (c.astype(np.float32), x), c, X)[0])(1.0), "float32[] after it"),
        (lambda: scan(lambda c, x: (c, x), 0.0), "got xs of no arrays and length=None"),
        (lambda: scan(lambda c, x: (c, x), 0.0, (X, X[:3])), "float64[6,3], float64[3,3]"),
        (lambda: scan(lambda c, x: (c, x), 0.0, X, checkpoint_every=0), "checkpoint_every must be positive"),
        (lambda: scan(lambda c, x: (c, x), "start", X), "the initial carry holds a str"),
        (lambda: scan(lambda c, x: (c, x), 0.0, (X, 2.0)), "got xs of float64[6,3], float64[] and length=None"),
        (lambda: scan(lambda c, x, n=itertools.count(): (c, [x] * next(n)), 0.0, X), "every y must have the same structure"),
        (
            lambda: scan(lambda c, x, n=itertools.count(): (c, np.ones(next(n))), 0.0, X),
            "the same shape, not float64[0] and then float64[1]",
        ),
        (lambda: scan(lambda c, x: (np.float32(1) if type(c) is float else np.float64(c), x), 1.0, X), "the carry is float32[] before"),
        (lambda: while_loop(lambda x: x < 3, lambda x: (x, x), 1.0), "the body must return a carry like"),
        (lambda: ft.grad(lambda x: while_loop(lambda x: x < 3, lambda x: x * 2, x).sum())(np.ones(2)), "cond_fun must return one boolean"),
        (lambda: cond(X > 0, np.sin, np.cos, X), "pred must be one boolean, got bool[6,3]"),
        (lambda: switch(1.5, [np.sin, np.cos], X), "switch: needs one integer"),
        (lambda: switch(np.array([1]), [np.sin, np.cos], X), "switch: needs one integer"),
        (lambda: ft.vmap(lambda x: cond(x > 0, lambda x: x, lambda x: (x, x), x))(W), "the branches must return the same structure"),
    ],
)
def test_mistakes_are_named(wrong, says):
    with pytest.raises((ControlFlowError, ft.errors.InputTypeError)) as caught:
        wrong()
    assert says in str(caught.value)
    assert __file__ in str(caught.value)


def test_a_body_computes_each_value_once():
    """What is read again, as `y[0]` is, was kept for each of its uses; `y[1]` and `y[True]` are alike for Python only."""
    y = np.arange(3.0)
    again = recorded(lambda xs: [xs[0][0] * xs[0][1] * 0.5 + xs[0][0] * 0.5 * xs[0][1]], [y], "a body")
    assert [row[0].name for row in again.code].count("getitem") == 2
    alike = recorded(lambda xs: [xs[0][1], xs[0][True], xs[0][1:2], xs[0][1.0 > 0 :], xs[0][-1]], [y], "a body")
    for got, want in zip(alike.call(y), [y[1], y[True], y[1:2], y[1:], y[-1]], strict=True):
        np.testing.assert_array_equal(got, want)
    zeros = recorded(lambda xs: [np.copysign(xs[0], np.float64(0.0)), np.copysign(xs[0], np.float64(-0.0))], [y], "a body")
    assert [np.signbit(z).all() for z in zeros.call(y)] == [False, True]


def test_scan_of_a_checkpoint_keeps_every_carry():
    """As in JAX, where it is how a long scan is made to fit: one operation, with `checkpoint_every=1`; not one operation for each step."""
    c, x = np.linspace(0.5, 1.0, 4), np.arange(30.0)

    def total(c, around, **options):
        step = lambda s, z: (np.sin(c * s) + z, np.sum(s * c))
        carry, ys = ft.scan(around(step), c * 1.0, x, **options)
        return np.sum(carry) + np.sum(ys**2)

    kept = ft.grad(total)(c, ft.checkpoint)
    assert np.array_equal(kept, ft.grad(total)(c, lambda f: f, checkpoint_every=1)) and np.allclose(kept, ft.grad(total)(c, lambda f: f))
    assert len(ft.trace(lambda c: total(c, ft.checkpoint))(c).entries) < 20
    doubled = lambda f: functools.wraps(f)(lambda s, z, g=ft.checkpoint(f): g(s, 2 * z))  # what is around a checkpoint is none
    assert np.allclose(ft.grad(total)(c, doubled), ft.grad(total)(c, lambda f: lambda s, z: f(s, 2 * z)))


def test_a_checkpoint_within_a_step_is_differentiated_once():
    """Not in every step anew; and without NaN from the branch not taken, as outside of a loop."""

    def total(c, around, steps):
        inner = around(lambda s, c: np.where(s > 0, np.sqrt(s) * c, 0.1 * c))
        return np.sum(ft.scan(lambda s, z: (inner(s, c) + z, np.sum(s)), 0.0 * c, np.zeros(steps))[1])

    c = np.array([0.0, 0.5, 1.0])
    assert np.array_equal(ft.grad(total)(c, ft.checkpoint, 6), want := ft.grad(total)(c, lambda f: f, 6)) and np.isfinite(want).all()
    assert np.allclose(jit(ft.grad(lambda c: total(c, ft.checkpoint, 6)))(c), want)
    calls = itertools.count()
    grow = lambda s, c: np.tanh(s) * c if next(calls) >= 0 else None
    last = lambda c: np.sum(ft.scan(lambda s, z: (ft.checkpoint(grow)(s, c) + z, None), c, np.zeros(50))[0])
    ft.grad(last)(c)
    assert next(calls) < 60  # once in each step of the forward run


@pytest.mark.parametrize("call", [ft.checkpoint, lambda f: ft.jit(ft.checkpoint(f)), "rule"], ids=["checkpoint", "jit", "rule"])
def test_what_a_call_in_a_body_reads_may_not_change_before_the_derivative(call):
    p, x = np.array([0.5, 0.6]), np.array([0.3, 0.4])
    sine = lambda c: np.sin(c * p)
    if call == "rule":
        step = ft.custom_vjp(sine)
        step.defvjp(lambda c: (sine(c), np.cos(c * p) * p), lambda slope, g: (g * slope,))
    else:
        step = call(sine)
    for f in (
        lambda x: ft.scan(lambda c, t: (step(c) + t, None), x, np.ones((6, 2)))[0],
        lambda x: ft.map(lambda t: step(t * x), np.ones((3, 2))).sum(0),
        lambda x: ft.while_loop(lambda s: s.sum() < 5, lambda s: s + step(s) + 0.3, x),
    ):
        p[:] = 0.5, 0.6
        _, pull = ft.vjp(f, x)
        _, push = ft.linearize(f, x)
        assert np.allclose(pull(np.ones(2))[0], ft.grad(lambda x: f(x).sum())(x))
        p[:] = 0.7
        for derivative in (pull, push):
            with pytest.raises((ft.errors.MutatedError, ft.errors.CheckpointError)):
                derivative(np.ones(2))


def test_a_checkpoint_in_a_body_may_keep_what_it_computed_for_itself():
    table = {}

    def step(c):
        if len(c) not in table:
            table[len(c)] = np.tri(len(c))
        return np.sin(table[len(c)] @ c)

    f = lambda g: lambda x: ft.scan(lambda c, t: (g(c) + t, None), x, np.ones((6, 2)))[0].sum()
    found = ft.grad(f(ft.checkpoint(step)))(np.ones(2))
    assert np.allclose(found, ft.grad(f(step))(np.ones(2)))
