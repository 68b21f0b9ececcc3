"""Loops that are taken apart (a layer after the other, what needs no carry at once) agree with a loop in Python, in every mode."""

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace.transforms.control_loops import ScanCall

N, D = 12, 3
RNG = np.random.default_rng(5)
W = RNG.normal(size=(3, D, D)) * 0.4


def layers(carry, x):
    h, k = carry
    h = fnp.tanh(h @ W[0] + x)
    k = fnp.tanh(k @ W[1] + h * h)
    y = fnp.exp(k) * fnp.sum(h) + k
    return (h, k), fnp.sum(y / (1 + y * y))


def twisted(carry, x):  # both need each other: one part
    h, k = carry
    return (fnp.tanh(k @ W[0] + x), fnp.sin(h @ W[1])), h * k


def counting(carry, x):  # a counter, a running sum, the value before
    n, (total, last) = carry
    y = fnp.cos(x) * (n + 1) + total * last
    return (n + 1, (total + x * x, x)), (y, fnp.sum(fnp.sqrt(1 + y * y)), last)


def doubled(carry, x):  # two states that become one, and what they were
    a, b = carry
    new = fnp.sin(a + x)
    return (new, new), (a, b, fnp.exp(b) - a * b + fnp.cos(b))


def chain(carry, x):  # each needs the one before
    a, b, c = carry
    a = 0.5 * a + x
    b = 0.3 * b + fnp.sin(a)
    c = c * fnp.tanh(b)
    return (a, b, c), (c * a + b, fnp.exp(-a * a), b - 1)


def products(carry, x):  # whose slopes have many factors, of which some are masks, and negated
    a, b = carry
    y = -(-(a * (x > 0)) * (b > 0.5) * x / (1 + x * x))
    a = a + (y < x) * a * x - (x > 0) * y * a  # sums of products
    return (fnp.tanh(a * x * 1.5 - y / 2), fnp.where(x > 0, 1 / (1 + fnp.exp(-b * x)), -b)), a * (x > -1) * (x < 1)


def gated(carry, x):  # sums with what needs no carry, some of them negated or read twice
    h, k = carry
    a = h @ W[0] + x + W[1, 0]
    b = x + k @ W[1] + 1 / (1 + x * x)
    z = 1 / (1 + fnp.exp(-(W[2, 0] * h + x)))
    r = 1 / (1 + fnp.exp(-(x + k @ W[2] + W[0, 1])))
    s = fnp.exp(-(h * k + x)) + fnp.exp(-(fnp.sum(h) + x[0]))
    return (fnp.tanh(z * a - r * b), -(-(k * r) * (x > 0)) / (1 + s)), (a, -(b + x) * (h > 0), h @ W[0] + x)


CASES = {
    "gated": (gated, (np.zeros(D), np.full(D, 0.3))),
    "products": (products, (np.ones(D), np.full(D, 0.7))),
    "layers": (layers, (np.zeros(D), np.ones(D))),
    "twisted": (twisted, (np.zeros(D), np.ones(D))),
    "counting": (counting, (0, (np.zeros(D), np.ones(D)))),
    "doubled": (doubled, (np.zeros(D), np.ones(D))),
    "chain": (chain, (np.zeros(D), np.ones(D), np.full(D, 2.0))),
}


def by_python(f, init, xs, reverse):
    rows, carry = [], init
    order = range(len(xs))[::-1] if reverse else range(len(xs))
    for k in order:
        carry, y = f(carry, xs[k])
        rows.append(y)
    rows = rows[::-1] if reverse else rows
    return carry, ft.tree.map(lambda *parts: fnp.stack(parts), *rows)


def close(got, expected):
    for a, b in zip(ft.tree.leaves(got), ft.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
        assert np.shape(a) == np.shape(b)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_every_mode_agrees_with_python(name, reverse):
    f, init = CASES[name]
    xs = RNG.normal(size=(N, D))

    def scanned(xs):
        return ft.scan(f, init, xs, reverse=reverse)

    def looped(xs):
        return by_python(f, init, xs, reverse)

    def loss(run):
        return lambda xs: sum(fnp.sum(fnp.sin(y * (k + 1))) for k, y in enumerate(ft.tree.leaves(run(xs))))

    close(scanned(xs), looped(xs))
    g = ft.grad(loss(looped))
    close(ft.grad(loss(scanned))(xs), g(xs))
    for _ in range(2):
        close(ft.jit(scanned)(xs), looped(xs))
    jitted = ft.jit(ft.grad(loss(scanned)))
    close(jitted(xs), g(xs))
    close(jitted(2 * xs), g(2 * xs))
    t = RNG.normal(size=xs.shape)
    close(ft.jvp(loss(scanned), (xs,), (t,)), ft.jvp(loss(looped), (xs,), (t,)))
    close(ft.hvp(loss(scanned), (xs,), (t,)), ft.hvp(loss(looped), (xs,), (t,)))
    batch = RNG.normal(size=(2, N, D))
    close(ft.vmap(ft.grad(loss(scanned)))(batch), np.stack([g(b) for b in batch]))


def bodies(f, *args):
    """The steps of the loops that `f` runs."""
    return [entry[5][0].body for entry in ft.trace(f)(*args).entries if entry[5] and isinstance(entry[5][0], ScanCall)]


def test_layers_are_loops_of_their_own():
    xs = RNG.normal(size=(N, D))
    f, init = CASES["layers"]
    found = bodies(lambda xs: ft.scan(f, init, xs)[1].sum(), xs)
    assert len(found) == 2
    assert [sum(row[0].name == "tanh" for row in body.code) for body in found] == [1, 1]
    assert not any(row[0].name == "exp" for body in found for row in body.code)


def test_a_cotangent_is_multiplied_once_for_each_slope():
    """Factors that need no carry are multiplied with one another, for all steps at once."""
    xs = RNG.normal(size=(N, D))
    f = lambda h: ft.scan(lambda h, x: (1 / (1 + fnp.exp(-h * x)) * x * 3.0, None), h, xs)[0].sum()
    *_, body = bodies(lambda h: ft.vjp(f, h)[1](1.0), np.ones(D))
    assert [row[0].name for row in body.code] == ["multiply"]


def test_a_sum_of_products_of_one_cotangent_is_one_product():
    """`g * h - g * n`, of a gated unit, is `g * (h - n)`."""
    xs = RNG.normal(size=(N, D))

    def step(h, x):
        z = 1 / (1 + fnp.exp(-x * h))
        return (1 - z) * x + z * h, None

    *_, body = bodies(lambda h: ft.vjp(lambda h: ft.scan(step, h, xs)[0].sum(), h)[1](1.0), np.ones(D))
    assert [row[0].name for row in body.code] == ["multiply"]


def test_what_needs_no_carry_is_added_first():
    """`h @ w + x + b` is one sum in each step, and `exp(-z)` in a sigmoid has no negative."""
    xs = RNG.normal(size=(N, D))
    step = lambda h, x: (1 / (1 + fnp.exp(-(h @ W[0] + x + W[1, 0]))), None)
    (body,) = bodies(lambda xs: ft.scan(step, np.ones(D), xs)[0], xs)
    assert [row[0].name for row in body.code] == ["matmul", "add", "exp", "add", "divide"]


def test_other_sums_keep_their_order():
    xs = np.array([1.0, 1e20, -1e20, 3.0])[np.arange(N) % 4]
    step = lambda h, x: (0.5 * h + x + 1e20, h)
    for got, wanted in zip(ft.jit(lambda xs: ft.scan(step, 0.1, xs))(xs), by_python(step, 0.1, xs, False), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_cotangent_that_weights_need_leaves_the_loop():
    """`g * slope`, for the cotangent of w, is done after the loop, since `g * (slope * w)` does not need it."""
    xs = RNG.normal(size=(N, D))
    loss = lambda h, w, run: run(lambda h, x: (fnp.tanh(h * w + x), fnp.sum(h)), h, xs)[1].sum()
    scanned, looped = [lambda h, w, run=run: loss(h, w, run) for run in (ft.scan, lambda f, h, xs: by_python(f, h, xs, False))]
    h, w = np.ones(D), np.full(D, 0.7)
    *_, body = bodies(lambda h, w: ft.vjp(scanned, h, w)[1](1.0), h, w)
    assert sorted(row[0].name for row in body.code) == ["add", "multiply"]
    g = ft.grad(looped, (0, 1))
    close(ft.grad(scanned, (0, 1))(h, w), g(h, w))
    jitted = ft.jit(ft.grad(scanned, (0, 1)))
    close(jitted(h, w), g(h, w))
    close(jitted(h, 2 * w), g(h, 2 * w))


def test_what_is_large_stays_in_the_loop():
    x = np.ones((9, 40_000))

    def step(carry, x):
        a, b = carry
        a = fnp.sin(a + x)
        return (a, b + fnp.sum(fnp.exp(a) * a - fnp.cos(a))), None

    tape = ft.trace(lambda x: ft.scan(step, (np.zeros(40_000), 0.0), x)[0][1])(x)
    assert sum(bool(entry[5]) and isinstance(entry[5][0], ScanCall) for entry in tape.entries) == 1
