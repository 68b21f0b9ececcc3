"""What branches and loops close over: as good as operands in a branch, hoisted by a loop, and as it was where Python wrote to it."""

import functools

import numpy as np
import pytest

import functrace as ft
from functrace.compile.jit import jit
from functrace.transforms.control import cond, fori_loop, map, scan, switch, while_loop

X = np.array([1.0, 2.0, 3.0])
OTHER = ft.numpy.array([0.5, -1.0, 2.0])


class Pair:
    def __init__(self, x):
        self.x = x

    def sine(self):
        return np.sin(self.x)

    def triple(self):
        return self.x * 3


def containers(x):
    p = {"w": x, "b": [2 * x[0]]}
    return cond(p["w"].sum() > 0, lambda: np.exp(p["w"]) * p["b"][0], lambda: p["w"] ** 2)


def partials(x):
    return cond(x.sum() > 0, functools.partial(lambda y: np.sin(y) * y, x), functools.partial(lambda y: y * 2, y=x))


def methods(x):
    return cond(x.sum() > 0, Pair(x).sine, Pair(x).triple)


def defaults(x):
    return cond(x.sum() > 0, lambda x=x: x * x, lambda *, x=x: -x)


def themselves(x):
    return cond(x.sum() > 0, lambda: x, lambda: (y := -x) + 0 * y)


def branches_in_branches(x):
    y = np.cos(x)
    return cond(x[0] > 0, lambda: cond(x[1] > 2, lambda: y * x, lambda: y - x), lambda: np.tanh(y))


def operands_too(x):
    y = np.cos(x)
    return cond(x[0] > 0, lambda a, b: a * y + b * x, lambda a, b: a - y * b, y, x[1])


def a_switch(x):
    return switch((x[0] > 0) * 1 + (x[1] > 3) * 1, [lambda: x * 2, lambda: np.sin(x) * OTHER, lambda: x[0] * x])


def loops_in_branches(x):
    return cond(
        x.sum() > 0,
        lambda: scan(lambda c, t: (c * np.cos(x) + t, None), x, np.arange(3.0))[0],
        lambda: fori_loop(0, 3, lambda i, c: c * x, x),
    )


def a_branch_in_a_loop(x):
    def step(c, t):
        return cond(c.sum() > 4, lambda: c * 0.5 * np.cos(x[0]), lambda: c + t * x), c.sum()

    return scan(step, x, np.arange(4.0))[0]


def writes(x):
    y = np.sin(x)

    def one():
        y[0] = 5.0 * x[1]
        return y.sum()

    return cond(x.sum() > 0, one, lambda: y.sum() * 2) * y


def writes_to_a_base(x):
    y = np.sin(x)
    v = y[:2]

    def one():
        y[0] = 5.0 * x[1]
        return v.sum()

    return cond(x.sum() > 0, one, lambda: y.sum() * 2) * v


def writes_to_a_view(x):
    y = np.sin(x)
    v = y[:2]

    def one():
        v[0] = 5.0 * x[1]
        return v.sum()

    return cond(x.sum() > 0, one, lambda: v.sum() * 2) * y


CLOSURES = [
    containers, partials, methods, defaults, themselves, branches_in_branches, operands_too, a_switch, loops_in_branches,
    a_branch_in_a_loop, writes, writes_to_a_base, writes_to_a_view,
]  # fmt: skip


@pytest.mark.parametrize("f", CLOSURES)
def test_values_that_a_branch_closes_over_are_as_good_as_operands(f):
    total = lambda x: f(x).sum()
    xs = [X, -X, 2 * X, np.array([1.0, 5.0, -9.0])]
    slopes = [ft.grad(total)(x) for x in xs]  # Python takes the branch
    for rule in (f, lambda x: ft.vmap(f)(np.stack([x, -x]))[0]):
        program = jit(rule)
        for x in xs:
            np.testing.assert_allclose(program(x), f(x), rtol=1e-12)
    for gradient in (jit(ft.grad(total)), ft.grad(jit(total)), jit(ft.jacfwd(total))):
        for x, slope in zip(xs, slopes):
            np.testing.assert_allclose(gradient(x), slope, rtol=1e-12)
    for batched in (ft.vmap(ft.grad(total)), jit(ft.vmap(ft.grad(total))), ft.grad(lambda xs: ft.vmap(total)(xs).sum())):
        np.testing.assert_allclose(batched(np.stack(xs)), np.stack(slopes), rtol=1e-12)
    curved = ft.hessian(total)
    program = jit(curved)
    for x in xs:
        np.testing.assert_allclose(program(x), curved(x), rtol=1e-12, atol=1e-12)


def test_what_a_branch_computes_of_closures_is_not_computed_where_it_is_not_taken():
    root = lambda x: cond(x > 0, lambda: np.sqrt(x), lambda: 0 * x)
    slope = jit(ft.grad(root))
    assert [slope(x) for x in (4.0, 0.0, -1.0)] == [0.25, 0.0, 0.0]
    np.testing.assert_array_equal(jit(ft.vmap(ft.grad(root)))(np.array([0.0, 4.0])), [0.0, 0.25])

    inverse = jit(lambda a: cond(np.abs(np.linalg.det(a)) > 0, lambda: np.linalg.inv(a), lambda: a))
    for a in (2 * np.eye(2), np.zeros((2, 2)), 4 * np.eye(2)):
        np.testing.assert_array_equal(inverse(a), np.linalg.inv(a) if a.any() else a)
    assert inverse.cache_info()["eager"] == 0


@pytest.mark.parametrize("first", [3.0, -3.0])
def test_a_loop_in_the_branch_not_taken_need_not_end(first):
    climb = lambda a: while_loop(lambda s: s < 10, lambda s: s + a, a)
    for f in (lambda a: cond(a > 0, climb, lambda a: a, a), lambda a: cond(a > 0, lambda: climb(a), lambda: a)):
        program, slope = jit(f), jit(ft.grad(f))
        for a in (first, -first, first):
            assert program(a) == (12.0 if a > 0 else a)
            assert slope(a) == (4.0 if a > 0 else 1.0)
        np.testing.assert_array_equal(ft.vmap(ft.grad(f))(np.array([first, -first])), [ft.grad(f)(first), ft.grad(f)(-first)])


def scan_that_writes(x):
    y = np.sin(x)

    def step(c, t):
        y[0] += t
        return c + y[0], None

    return scan(step, x, np.arange(4.0))[0] * y


def while_that_writes(x):
    y = np.sin(x)

    def step(c):
        y[0] += 1.0
        return c + y[0]

    return while_loop(lambda c: c[0] < 20, step, x) * y


def map_that_writes(x):
    y = np.sin(x)

    def step(t):
        y[0] += 1.0
        return t * y[0]

    return map(step, x) * y


@pytest.mark.parametrize("f", [scan_that_writes, while_that_writes, map_that_writes])
def test_a_loop_whose_body_writes_to_what_it_closes_over_is_run_by_python(f):
    total = lambda x: f(x).sum()
    h = 1e-6
    slope = np.array([(total(X + h * e) - total(X - h * e)) / (2 * h) for e in np.eye(3)])
    for mode in (jit(f), lambda x: ft.vmap(f)(x[None])[0], lambda x: ft.vjp(f, x)[0]):
        np.testing.assert_allclose(mode(X), f(X), rtol=1e-12)
    for mode in (ft.grad(total), jit(ft.grad(total)), ft.jacfwd(total)):
        np.testing.assert_allclose(mode(X), slope, rtol=1e-6)


TABLE = [1.0] * 3000


def test_what_is_written_to_is_found_beside_a_large_table():
    def f(x):
        total = x * 1.0

        def body(c, _):
            total[0] += c * TABLE[0]
            return c * 2, None

        scan(body, x[0], length=3)
        return total.sum()

    np.testing.assert_array_equal(ft.grad(f)(np.ones(2)), [8.0, 1.0])


def test_a_body_may_close_over_a_name_that_has_no_value_yet():
    def f(x, later=False):
        total = scan(lambda c, t: (c * factor if later else c + t, None), x, np.arange(3.0))[0]
        factor = 2.0
        return total * factor

    assert (f(1.0), ft.grad(f)(1.0), jit(f)(1.0)) == (8.0, 2.0, 8.0)


def test_pythons_numbers_stay_weak_as_operands_of_branches_under_jit():
    both = lambda x, s: cond(x.sum() > 0, lambda x, s: x * (2 * s + 1), lambda x, s: x / (s - 3) + np.where(x > 0, s, x), x, s)
    one = lambda x, s: cond(s > 0, lambda x, s: x * (1 / s), lambda x, s: x, x, s)
    for f in (both, one):
        program = jit(f)
        for x in (np.ones(3, np.float32), -np.ones(3, np.float32)):
            for s in (2.0, 0.5, 0.0):
                got, want = program(x, s), f(x, s)
                assert got.dtype == want.dtype == np.float32
                np.testing.assert_allclose(got, want, rtol=1e-6)
        assert program.cache_info()["eager"] == 0


def _scaled(y):
    """Twice its argument, with a slope of `y`, by a rule that closes over it."""

    @ft.custom_vjp
    def double(x):
        return x * 2

    double.defvjp(lambda x: (x * 2, None), lambda _, g: (g * y,))
    return double


def _scaled_forwards(y):
    @ft.custom_jvp
    def double(x):
        return x * 2

    double.defjvp(lambda primals, tangents: (primals[0] * 2, tangents[0] * y))
    return double


@pytest.mark.parametrize("ruled", [_scaled, _scaled_forwards])
@pytest.mark.parametrize(
    ("program", "power"),
    [
        (lambda f, x: ft.scan(lambda c, _: (f(c), None), x, length=3)[0], 3),
        (lambda f, x: ft.fori_loop(0, 3, lambda _, c: f(c), x), 3),
        (lambda f, x: ft.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, f(s[1])), (0, x))[1], 3),
        (lambda f, x: ft.cond(x > 0, f, lambda x: x, x), 1),
        (lambda f, x: ft.map(f, x * np.ones(1)).sum(), 1),
    ],
)
def test_a_rule_in_a_body_may_close_over_a_traced_value(program, power, ruled):
    """What it closed over was taken for another input of the loop of derivatives."""
    f = lambda x, y: program(ruled(y), x)
    y = np.array([5.0, 6.0])
    assert ft.grad(f)(3.0, 5.0) == ft.jit(ft.grad(f))(3.0, 5.0) == ft.jit(ft.jacfwd(f))(3.0, 5.0) == 5.0**power
    for g in (ft.vmap(ft.grad(f)), ft.jit(ft.vmap(ft.grad(f)))):
        np.testing.assert_array_equal(g(np.ones(2), y), y**power)


class Counter:
    def __init__(self):
        self.n, self.table = 1.0, {}

    def grow(self, x):
        self.n += 1.0
        return self.n * x

    def look_up(self, x):
        if "w" not in self.table:
            self.table["w"] = np.arange(3.0)
        return self.table["w"] * np.sin(x)

    def note(self, x):
        self.table[len(self.table)] = 1
        return 2 * np.sin(x)


def test_what_a_step_of_while_loop_changes_and_reads_must_be_in_its_value():
    def f(x, step):
        return while_loop(lambda s: s[1] < 3, lambda s: (step(s[0]), s[1] + 1), (x, 0))[0].sum()

    for transform in (ft.grad, lambda f: ft.jit(ft.grad(f, argnums=0)), lambda f: lambda x: ft.jvp(f, (x,), (x,))):
        with pytest.raises(ft.errors.ControlFlowError, match="changes something that it also reads(?s:.)*part of init_val"):
            transform(lambda x: f(x, Counter().grow))(X)
    for step in ("look_up", "note"):
        plain = lambda x, step=step: f(x, getattr(Counter(), step))
        slope = [(plain(X + h) - plain(X - h)) / 2e-6 for h in 1e-6 * np.eye(3)]
        np.testing.assert_allclose(ft.grad(plain)(X), slope, atol=1e-7)


def test_a_forward_rule_that_writes_to_its_argument_is_refused_in_a_batch_too():
    def put(x):
        x[0] = 5.0
        return x.sum()

    by_hand = ft.custom_vjp(put)
    by_hand.defvjp(lambda x: (put(x), None), lambda _, g: (g * np.ones(3),))
    f = lambda x: by_hand(x * 1.0)
    batch = np.stack([X, X])
    with pytest.raises(ValueError, match="read-only"):
        ft.grad(f)(X)
    for call in (lambda: ft.vmap(ft.grad(f))(batch), lambda: ft.grad(lambda b: ft.vmap(f)(b).sum())(batch)):
        with pytest.raises(ft.errors.CustomRuleError, match="writes to its argument"):
            call()
