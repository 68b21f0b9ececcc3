"""Nesting: derivatives inside derivatives are never confused, however their calls interleave, and leaks are named."""

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers import here

import functrace as ft
import functrace.numpy as fnp
from functrace import errors

# Seven ways to take the derivative of a scalar function of a scalar. Every pair of them is nested below.
DERIVATIVES = {
    "grad": lambda f: ft.grad(f),
    "value_and_grad": lambda f: lambda x: ft.value_and_grad(f)(x)[1],
    "vjp": lambda f: lambda x: ft.vjp(f, x)[1](1.0)[0],
    "jvp": lambda f: lambda x: ft.jvp(f, (x,), (1.0,))[1],
    "linearize": lambda f: lambda x: ft.linearize(f, x)[1](1.0),
    "jacrev": lambda f: ft.jacrev(f),
    "jacfwd": lambda f: ft.jacfwd(f),
    "vmap_grad": lambda f: lambda x: ft.vmap(ft.grad(f))(fnp.array([x, x]))[1],
    "vmap_jvp": lambda f: lambda x: ft.vmap(lambda t: ft.jvp(f, (x,), (t,))[1])(np.array([2.0, 1.0]))[1],
    "checkpoint_grad": lambda f: ft.grad(ft.checkpoint(f)),
}
pairs = pytest.mark.parametrize(("outer", "inner"), [(a, b) for a in DERIVATIVES for b in DERIVATIVES])


@pairs
def test_perturbation_confusion(outer, inner):
    D, E = DERIVATIVES[outer], DERIVATIVES[inner]
    # Siskind and Pearlmutter's program: a confused tool answers 2
    assert D(lambda x: x * E(lambda y: x + y)(1.0))(1.0) == 1.0
    # d/dx x*x: a confused tool answers 1 or 3
    assert D(lambda x: x * E(lambda y: x * y)(1.0))(1.0) == 2.0
    # the inner function does not use its own argument, or not the outer one
    assert D(lambda x: x * E(lambda y: x * x)(2.0))(3.0) == 0.0
    assert D(lambda x: x * E(lambda y: y * y)(2.0))(3.0) == 4.0
    # the inner derivative is taken at the outer variable
    assert D(lambda x: x * E(lambda y: y * y * x)(x))(3.0) == 6 * 3.0**2


@pairs
def test_inner_and_outer_variable_are_one_object(outer, inner):
    D, E = DERIVATIVES[outer], DERIVATIVES[inner]
    # torch answers 0 to the first (PT#32576): d/dx [d/dy (-y**2/2 at y = x)] = -1
    assert D(lambda x: E(lambda y: -y * y / 2)(x))(5.0) == -1.0
    # the same, where the inner function also sees the outer variable under its own name
    assert D(lambda x: E(lambda y: y * x)(x))(5.0) == 1.0


@pairs
def test_one_function_object_at_both_levels(outer, inner):
    # Tags made from the function's type collide here (FD#313).
    D, E = DERIVATIVES[outer], DERIVATIVES[inner]

    def f(x, depth=0):
        if depth == 0:
            return x * x * x * x
        return x * E(lambda y: f(y, depth - 1))(x)

    # f(x, 1) = 4 x**4, derivative 16 x**3
    assert D(lambda x: f(x, 1))(2.0) == 16 * 8.0


@pytest.mark.parametrize("name", DERIVATIVES)
def test_third_order_by_one_function_object(name):
    D = DERIVATIVES[name]
    cube = lambda x: x * x * x * x  # noqa: E731
    assert D(cube)(2.0) == 32.0
    assert D(D(cube))(2.0) == 48.0
    assert D(D(D(cube)))(2.0) == 48.0


def test_mixed_third_order():
    a, b, c = ft.grad, DERIVATIVES["jvp"], DERIVATIVES["jacrev"]
    for D, E, F in [(a, b, c), (a, c, b), (b, a, c), (b, c, a), (c, a, b), (c, b, a)]:
        np.testing.assert_allclose(D(E(F(np.sin)))(0.7), -np.cos(0.7), rtol=1e-14)


def test_three_levels_each_with_its_own_variable():
    # d/dx d/dy d/dz (x y**2 z**3) at (2, 3, 5), the innermost variable first
    f = lambda x: ft.grad(lambda y: ft.grad(lambda z: x * y**2 * z**3)(5.0))(3.0)  # noqa: E731
    assert ft.grad(f)(2.0) == 2 * 3.0 * 3 * 25.0
    assert f(2.0) == 2.0 * 2 * 3.0 * 3 * 25.0


@pairs
def test_mutated_closure(outer, inner):
    """A value of the outer derivative stored by a side effect and used in the inner one (FD#443): 2, not 4."""
    D, E = DERIVATIVES[outer], DERIVATIVES[inner]

    def f(x):
        box = [0.0]

        def g(y):
            box[0] = x  # the outer variable, put where the inner function reads it
            return box[0] * y

        return x * E(g)(1.0)

    assert D(f)(1.0) == 2.0


def test_mutated_closure_of_a_finished_derivative():
    """ForwardDiff2#37: the first derivative leaves its traced value in x, the second multiplies by it. 2, not 4.

    What was left is a leak, and refused; its plain value gives the right answer.
    """

    def program(keep):
        x = 2.0

        def f(y):
            nonlocal x
            x = y * keep(x)
            return x

        ft.grad(f)(1.0)
        return ft.grad(f)(1.0)

    with pytest.raises(errors.LeakedTracerError):
        program(lambda x: x)
    assert program(ft.value) == 2.0


@pytest.mark.parametrize(  # checkpoint is left out: a function that writes to its closure does not repeat itself
    ("outer", "inner"), [(a, b) for a in DERIVATIVES for b in DERIVATIVES if "checkpoint" not in a + b]
)
def test_mutated_closure_of_a_finished_derivative_inside_another(outer, inner):
    """ForwardDiff#443: the same program, where x is the outer variable."""
    D, E = DERIVATIVES[outer], DERIVATIVES[inner]

    def program(x):
        def f(y):
            nonlocal x
            x = x * y
            return x

        E(f)(1.0)
        return E(f)(1.0)

    with pytest.raises(errors.LeakedTracerError):
        D(program)(1.0)


def test_an_object_that_differentiates_another_of_its_class():
    """ForwardDiff#313: both levels are calls of one class, so a tag made of types is the same for both."""

    class Confuse:
        def __init__(self, outer, x):
            self.outer, self.x = outer, x

        def __call__(self, xy):
            return xy * ft.grad(Confuse(False, xy))(1.0) if self.outer else self.x + xy

    assert ft.grad(Confuse(True, 0.0))(1.0) == 1.0


def test_legendre_transform():
    """ForwardDiff#238: a Lagrangian's Hamiltonian through an inner gradient, Jacobian, and a matrix product."""
    m, g = 2.0, 9.8
    lagrangian = lambda q, v: m / 2 * (v @ v) - m * g * q[1]  # noqa: E731
    q, v = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    momentum = lambda q, v: ft.grad(lagrangian, 1)(q, v)  # noqa: E731
    np.testing.assert_array_equal(ft.jacobian(momentum, 0)(q, v), np.zeros((2, 2)))
    np.testing.assert_array_equal(ft.jacobian(momentum, 1)(q, v), m * np.eye(2))
    energy = lambda q, v: ft.grad(lambda w: lagrangian(q, w))(v) @ v - lagrangian(q, v)  # noqa: E731
    np.testing.assert_allclose(ft.grad(energy)(q, v), [0.0, m * g])
    np.testing.assert_allclose(ft.grad(energy, 1)(q, v), m * v)


def test_mutated_closure_between_calls():
    """The inner function's closure is changed between two inner derivatives."""

    def f(x):
        scale = x

        def g(y):
            return scale * y

        first = ft.grad(g)(1.0)  # x
        scale = x * x
        second = ft.grad(g)(1.0)  # x**2
        scale = 7.0
        third = ft.grad(g)(1.0)  # 7
        return first + second + third

    assert ft.grad(f)(3.0) == 1 + 2 * 3.0


def test_side_effect_of_an_earlier_call_is_refused_not_confused():
    """A tracer of the first call is left in a cell, and found by the second call."""
    box = [1.0]

    def f(x):
        out = x * box[0]
        box[0] = x
        return out

    assert ft.grad(f)(2.0) == 1.0
    with pytest.raises(errors.LeakedTracerError):
        ft.grad(f)(2.0)
    box[0] = 1.0
    assert ft.grad(f)(2.0) == 1.0


# Transforms in each other, against closed forms

A = np.array([[1.0, 2.0, 0.5], [0.3, -1.0, 2.0]])


def test_vmap_of_grad():
    xs = np.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 0.0]])
    got = ft.vmap(ft.grad(lambda x: np.sum(np.sin(x) * x)))(xs)
    np.testing.assert_allclose(got, np.cos(xs) * xs + np.sin(xs), rtol=1e-14)


def test_grad_of_vmap():
    xs = np.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 0.0]])
    got = ft.grad(lambda x: ft.vmap(lambda row: np.sum(row**3))(x).sum())(xs)
    np.testing.assert_allclose(got, 3 * xs**2, rtol=1e-14)


def test_grad_of_vmap_of_grad():
    xs = np.array([0.1, 0.7, -1.2])
    got = ft.grad(lambda x: ft.vmap(ft.grad(np.sin))(x).sum())(xs)
    np.testing.assert_allclose(got, -np.sin(xs), rtol=1e-14)


def test_jvp_of_grad_of_vmap():
    xs, ts = np.array([0.1, 0.7, -1.2]), np.array([1.0, -2.0, 0.5])
    f = lambda x: ft.vmap(np.sin)(x).sum()  # noqa: E731
    _, got = ft.jvp(ft.grad(f), (xs,), (ts,))
    np.testing.assert_allclose(got, -np.sin(xs) * ts, rtol=1e-14)


def test_vmap_of_jvp_of_grad_of_vmap():
    xs, ts = np.array([[0.1, 0.7], [-1.2, 2.0]]), np.array([[1.0, -2.0], [0.5, 3.0]])
    f = lambda x: ft.vmap(np.sin)(x).sum()  # noqa: E731
    got = ft.vmap(lambda x, t: ft.jvp(ft.grad(f), (x,), (t,))[1])(xs, ts)
    np.testing.assert_allclose(got, -np.sin(xs) * ts, rtol=1e-14)


def test_closure_over_an_outer_variable_under_vmap():
    # d/dx sum_k x**2 k**3 = 2 x sum k**3, through vmap of an inner gradient
    ks = np.array([1.0, 2.0, 3.0])
    f = lambda x: ft.vmap(ft.grad(lambda k: x**2 * k**4 / 4))(ks).sum()  # noqa: E731
    assert ft.grad(f)(5.0) == 2 * 5.0 * 36
    assert ft.jvp(f, (5.0,), (1.0,))[1] == 2 * 5.0 * 36


def test_batched_outer_variable_inside_an_inner_gradient():
    xs = np.array([1.0, 2.0, 3.0])
    got = ft.vmap(lambda x: x * ft.grad(lambda y: x + y)(1.0))(xs)
    np.testing.assert_array_equal(got, xs)
    got = ft.vmap(ft.grad(lambda x: x * ft.grad(lambda y: x * y * y)(1.0)))(xs)
    np.testing.assert_array_equal(got, 4 * xs)


@pytest.mark.parametrize("forward_outside", [True, False])
def test_jacobian_of_jacobian_is_symmetric(forward_outside, rng):
    w = rng.normal(size=(4, 4))

    def f(x):
        return np.sum(np.tanh(w @ x) ** 2 * np.exp(x))

    x = rng.normal(size=4)
    one = (ft.jacfwd(ft.jacrev(f)) if forward_outside else ft.jacrev(ft.jacfwd(f)))(x)
    np.testing.assert_allclose(one, one.T, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(one, ft.hessian(f)(x), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(one, ft.jacfwd(ft.jacfwd(f))(x), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(one, ft.jacrev(ft.jacrev(f))(x), rtol=1e-12, atol=1e-13)


def test_third_derivative_tensor_is_symmetric():
    w = np.array([1.0, 2.0, -0.5])
    x = np.array([0.3, 0.1, 0.2])
    third = ft.jacfwd(ft.jacrev(ft.jacfwd(lambda x: np.sin(w @ x))))(x)
    np.testing.assert_allclose(third, -np.cos(w @ x) * np.einsum("i,j,k->ijk", w, w, w), rtol=1e-13)


def test_gradient_through_a_pullback_and_its_cotangent():
    # out = x**2 * ct * 3 where ct is the outer variable too: 3 x**3
    def f(x):
        _, pull = ft.vjp(lambda y: y**3, x)
        (g,) = pull(x)  # 3 x**2 * x
        return g

    assert ft.grad(f)(2.0) == 9 * 4.0


def test_pullback_called_inside_another_derivative():
    """The pullback was made outside: it is linear in its cotangent, and the outer derivative sees that."""
    _, pull = ft.vjp(lambda y: y**3, 2.0)
    assert ft.grad(lambda ct: pull(ct * ct)[0])(3.0) == 12.0 * 6.0
    _, push = ft.linearize(lambda y: y**3, 2.0)
    assert ft.grad(lambda t: push(t * t))(3.0) == 12.0 * 6.0


def test_inner_gradient_ending_does_not_end_the_outer():
    def f(x):
        y = np.sin(x)
        ft.grad(np.cos)(1.0)  # its result is not used
        z = y * x
        ft.grad(lambda t: t * x)(2.0)
        return z * x

    x = 0.7
    np.testing.assert_allclose(ft.grad(f)(x), np.cos(x) * x**2 + 2 * x * np.sin(x), rtol=1e-14)


# Exceptions


class Boom(Exception):
    pass


def test_exception_in_the_function_then_the_next_gradient_is_right():
    def bad(x):
        np.sin(x)
        raise Boom

    for _ in range(3):
        with pytest.raises(Boom):
            ft.grad(bad)(1.0)
        with pytest.raises(Boom):
            ft.vmap(bad)(np.ones(3))
        with pytest.raises(Boom):
            ft.jvp(bad, (1.0,), (1.0,))
        assert ft.grad(lambda x: x * x)(3.0) == 6.0


def test_exception_in_an_inner_gradient_caught_in_the_outer():
    def inner(y):
        np.sin(y)
        raise Boom

    def f(x):
        y = x * x
        try:
            ft.grad(inner)(x)
        except Boom:
            y = y * x
        return y

    assert ft.grad(f)(2.0) == 12.0
    assert ft.jvp(f, (2.0,), (1.0,))[1] == 12.0
    np.testing.assert_array_equal(ft.vmap(ft.grad(f))(np.array([1.0, 2.0])), [3.0, 12.0])


def test_exception_in_a_rule_then_the_next_gradient_is_right():
    fail = [True]

    @ft.custom_vjp
    def f(x):
        return x * x

    def bwd(x, g):
        if fail[0]:
            raise Boom
        return (2 * x * g,)

    f.defvjp(lambda x: (x * x, x), bwd)
    _, pull = ft.vjp(lambda x: f(x) * x, 2.0)
    with pytest.raises(Boom):
        pull(1.0)
    fail[0] = False
    assert pull(1.0)[0] == 12.0


def test_recursion_error_half_way():
    def endless(x):
        return endless(x * 1.0)

    with pytest.raises(RecursionError):
        ft.grad(endless)(1.0)
    assert ft.grad(lambda x: x * x)(3.0) == 6.0


# Generators


def powers(x):
    p = x
    while True:
        yield p
        p = p * x


def test_generator_of_traced_values_advanced_inside_an_inner_gradient():
    def f(x):
        g = powers(x)
        next(g)  # x
        inner = ft.grad(lambda y: y * next(g))(2.0)  # x**2
        return inner * next(g)  # x**5

    assert ft.grad(f)(2.0) == 5 * 2.0**4


def test_two_generators_in_the_middle_of_traces_interleaved():
    def f(x):
        def g(y):
            a, b = powers(x), powers(y)
            total = 0.0
            for _ in range(3):
                total = total + next(a) * next(b)
            return total

        return ft.grad(g)(x)

    # d/dy sum x**k y**k = sum k x**k y**(k-1); at y = x: sum k x**(2k-1), of which d/dx is sum k (2k-1) x**(2k-2)
    x = 1.5
    assert ft.grad(f)(x) == sum(k * (2 * k - 1) * x ** (2 * k - 2) for k in (1, 2, 3))


def test_generators_that_take_gradients_between_yields():
    def descend(x, rate):
        for _ in range(5):
            x = x - rate * ft.grad(lambda y: y**2)(x)
            yield x

    alone = [list(descend(1.0, 0.1)), list(descend(2.0, 0.2))]
    one, two = descend(1.0, 0.1), descend(2.0, 0.2)
    together = [[], []]
    for _ in range(5):
        together[0].append(next(one))
        together[1].append(next(two))
    assert together == alone


def test_a_generator_closed_early_inside_a_trace():
    def f(x):
        g = powers(x)
        next(g)
        y = next(g)
        g.close()
        return y * x

    assert ft.grad(f)(2.0) == 12.0


# Leaks

LEAKED = {}


def leak(transform="grad"):
    """A tracer that outlived its trace, and the line that made it."""

    def f(x):
        LEAKED["x"] = np.sin(x) * 2.0
        LEAKED["line"] = here(-1)
        return x * 1.0

    {
        "grad": lambda: ft.grad(f)(1.0),
        "jvp": lambda: ft.jvp(f, (1.0,), (1.0,)),
        "vjp": lambda: ft.vjp(f, 1.0)[1](1.0),
        "vmap": lambda: ft.vmap(f)(np.ones(3)),
        "trace": lambda: ft.trace(f)(1.0),
        "inner": lambda: ft.grad(lambda z: z * ft.grad(f)(z))(1.0),
    }[transform]()
    return LEAKED["x"], LEAKED["line"]


USES = {
    "unary": lambda x: np.sin(x),
    "fnp unary": lambda x: fnp.sin(x),
    "method": lambda x: x.sum(),
    "negative": lambda x: -x,
    "binary": lambda x: x * 2.0,
    "reflected": lambda x: 2.0 * x,
    "with itself": lambda x: x + x,
    "array first": lambda x: np.ones(2) * x,
    "power": lambda x: x**2,
    "protocol": lambda x: np.exp(x),
    "protocol binary": lambda x: np.add(1.0, x),
    "function": lambda x: np.sum(x),
    "stack": lambda x: np.stack([x, 1.0]),
    "reshape": lambda x: np.reshape(x, (1,)),
    "where": lambda x: np.where(True, x, 0.0),
    "comparison": lambda x: x > 0,
    "equality": lambda x: x == 1.0,
    "isnan": lambda x: np.isnan(x),
    "indexing": lambda x: x[None],
    "ellipsis": lambda x: x[...],
    "astype": lambda x: x.astype(np.float32),
    "matmul": lambda x: x.reshape(1) @ np.ones(1),
    "custom_vjp": lambda x: _square(x),
    "checkpoint": lambda x: ft.checkpoint(np.sin)(x),
    "inside another grad": lambda x: ft.grad(lambda y: y * x)(1.0),
    "inside another jvp": lambda x: ft.jvp(lambda y: x * y, (1.0,), (1.0,)),
    "inside another vmap": lambda x: ft.vmap(lambda y: y * x)(np.ones(3)),
    "returned from another grad": lambda x: ft.grad(lambda y: x)(1.0),
    "returned from another vjp": lambda x: ft.vjp(lambda y: x, 1.0),
    "returned from another vmap": lambda x: ft.vmap(lambda y: x)(np.ones(3)),
    "differentiated": lambda x: ft.grad(lambda y: y * y)(x),
    "batched": lambda x: ft.vmap(lambda y: y * y, in_axes=None, axis_size=2)(x),
    "cotangent": lambda x: ft.vjp(lambda y: 2 * y, 1.0)[1](x),
    "tangent": lambda x: ft.jvp(lambda y: 2 * y, (1.0,), (x,)),
}


@ft.custom_vjp
def _square(x):
    return x * x


_square.defvjp(lambda x: (x * x, x), lambda x, g: (2 * x * g,))


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("transform", ["grad", "jvp", "vjp", "vmap", "trace", "inner"])
def test_a_leaked_tracer_is_refused_and_names_its_line(transform, use):
    x, line = leak(transform)
    with pytest.raises(errors.LeakedTracerError) as caught:
        USES[use](x)
    message = str(caught.value)
    assert line in message, f"must name {line}: {message}"
    assert "has_aux" in message, "must say what to do"
    assert f"{__file__}:" in message.split("used at")[1], f"must name where it was used: {message}"
    assert ft.grad(lambda x: x * x)(3.0) == 6.0


class Module:
    pass


def _through_a_closure(x):
    def keep():
        return x * 2.0

    return keep


@pytest.mark.parametrize(
    "route",
    ["global", "closure", "attribute", "list", "default argument", "generator", "aux function"],
)
def test_every_way_to_leak(route):
    hold = Module()
    stock = []

    def f(x):
        y = np.sin(x)
        hold.line = here(-1)
        if route == "global":
            globals()["LEAKED_GLOBAL"] = y
            hold.use = lambda: np.cos(globals()["LEAKED_GLOBAL"])
        elif route == "closure":
            hold.use = _through_a_closure(y)
        elif route == "attribute":
            hold.y = y
            hold.use = lambda: hold.y + 1
        elif route == "list":
            stock.append(y)
            hold.use = lambda: stock[0] - 1
        elif route == "default argument":
            hold.use = lambda y=y: y / 2
        elif route == "generator":
            g = powers(y)
            next(g)
            hold.use = lambda: next(g)
        else:
            hold.use = lambda: aux() * 1.0
            return x * x, lambda: y
        return x * x, None

    grads, aux = ft.grad(f, has_aux=True)(2.0)
    assert grads == 4.0
    with pytest.raises(errors.LeakedTracerError) as caught:
        hold.use()
    assert hold.line in str(caught.value)


def test_a_leaked_argument_names_the_call():
    box = []
    line = here(1)
    ft.grad(lambda x: box.append(x) or x * x)(1.0)
    with pytest.raises(errors.LeakedTracerError) as caught:
        box[0] * 2.0
    assert line.split(":")[0] in str(caught.value)
    ft.grad(lambda x: ft.scan(lambda c, _: (c * x, box.append(c)), x, length=3)[0])(1.0)
    with pytest.raises(
        errors.LeakedTracerError, match=f"of scan.* is used after .*\\n.*made at the arguments of the call\n.*used at {__file__}:"
    ):
        box[-1] * 2.0
    for kept in (lambda x: x, lambda x: x[1:]):  # which named a line of ours
        ft.vmap(lambda x: box.append(kept(x)) or x.sum())(np.ones((2, 2)))
        with pytest.raises(errors.LeakedTracerError, match="of vmap.*\n.*made at the arguments of the call\n"):
            box[-1] * 2.0


@pytest.mark.parametrize(
    "use",
    [lambda n: n + 1, lambda n: 3 - n, lambda n: n**n, lambda n: -n, lambda n: n > 1, lambda n: round(n, 1), lambda n: n * np.ones(2)],
)
@pytest.mark.parametrize("number", [3, 3.0])
def test_a_number_leaked_from_jit_is_refused(number, use):
    """Python's own arithmetic went on, with the number of the recorded run."""
    box = []
    with pytest.warns(UserWarning, match="keeps a traced value in box"):
        ft.jit(lambda n: box.append((n + 1,)) or n)(number)
    with pytest.raises(errors.LeakedTracerError, match=f"{__file__}:"):
        use(box[0][0])


def test_looking_at_a_leaked_tracer_is_harmless():
    x, _ = leak()
    assert "Traced(" in repr(x)
    assert str(x)
    assert x.shape == ()
    assert x.dtype == np.float64
    assert ft.value(x) == 2 * np.sin(1.0)


def test_a_tracer_of_a_live_outer_trace_is_not_a_leak():
    """No false alarm (J#7345): the outer trace is open while inner ones come and go."""

    def f(x):
        kept = []
        for k in range(3):
            kept.append(x * k)
            ft.grad(lambda y: y * kept[-1])(1.0)
        return sum(kept)

    assert ft.grad(f)(2.0) == 3.0


# Threads and tasks


def test_a_tracer_used_in_another_thread():
    def f(x):
        with ThreadPoolExecutor(4) as pool:
            parts = list(pool.map(lambda k: np.sin(x * k), [1.0, 2.0, 3.0, 4.0]))
        return parts[0] + parts[1] + parts[2] + parts[3]

    want = sum(k * np.cos(0.3 * k) for k in (1, 2, 3, 4))
    np.testing.assert_allclose(ft.grad(f)(0.3), want, rtol=1e-14)
    np.testing.assert_allclose(ft.jvp(f, (0.3,), (1.0,))[1], want, rtol=1e-14)


def test_many_threads_record_on_one_tape():
    """Slots are unique and entries in order although eight threads write to one tape."""
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    def work(x):
        y = x
        for _ in range(100):
            y = y * 1.01 + x * 0.01
        return y

    try:

        def f(x):
            with ThreadPoolExecutor(8) as pool:
                parts = list(pool.map(lambda k: work(x * k), np.arange(1.0, 9.0)))
            return np.sum(np.stack(parts))

        for _ in range(3):
            got = ft.grad(f)(1.0)
            np.testing.assert_allclose(got, 36 * ft.value(work(1.0)), rtol=1e-12)
    finally:
        sys.setswitchinterval(old)


def test_a_tracer_leaked_to_a_thread_that_outlives_the_trace():
    """Refused there too, never a silent zero."""
    box, go, seen = [], threading.Event(), []

    def late():
        go.wait(10)
        try:
            seen.append(box[0] * 2.0)
        except errors.LeakedTracerError as error:
            seen.append(error)

    thread = threading.Thread(target=late)
    thread.start()
    try:
        ft.grad(lambda x: box.append(x) or x * x)(1.0)
    finally:
        go.set()
        thread.join()
    assert isinstance(seen[0], errors.LeakedTracerError)


def test_two_threads_in_the_middle_of_traces():
    """Each is stopped within its own trace while the other opens and closes one."""
    barrier = threading.Barrier(2, timeout=10)

    def f(x, k):
        y = x * k
        barrier.wait()
        inner = ft.grad(lambda z: y * z * z)(3.0)  # 6 y
        barrier.wait()
        return inner * y  # 6 k**2 x**2

    with ThreadPoolExecutor(2) as pool:
        got = list(pool.map(lambda k: ft.grad(f)(2.0, k), [1.0, 5.0]))
    assert got == [24.0, 24.0 * 25]


def test_eight_threads_of_300_nested_gradients():
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(300):
            a, b = rng.normal(size=2)
            f = lambda x: x * ft.grad(lambda y: a * x * y + b * y * y)(x)  # noqa: E731,B023
            got = ft.grad(f)(b)  # x (a x + 2 b x) = (a + 2 b) x**2
            if not np.isclose(got, 2 * (a + 2 * b) * b, rtol=1e-12):
                wrong.append((seed, a, b, got))

    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
    finally:
        sys.setswitchinterval(old)
    assert not wrong


def test_asyncio_tasks_interleaved():
    async def task(k):
        out = []
        for _ in range(5):
            f = lambda x: x * ft.grad(lambda y: x * y * k)(x)  # noqa: E731
            out.append(ft.grad(f)(2.0))
            await asyncio.sleep(0)
        return out

    async def main():
        return await asyncio.gather(*(task(float(k)) for k in range(1, 9)))

    assert asyncio.run(main()) == [[4.0 * k] * 5 for k in range(1, 9)]


def test_asyncio_tasks_inside_one_trace():
    """Tasks of an event loop that runs within the traced function share the tape, each with inner traces of its own."""

    async def task(x, k):
        y = x
        for _ in range(k):
            await asyncio.sleep(0)
            y = y * ft.grad(lambda z: z * x)(1.0)
        return y  # x**(k+1)

    async def main(x):
        parts = await asyncio.gather(*(task(x, k) for k in range(4)))
        return parts[0] + parts[1] + parts[2] + parts[3]

    got = ft.grad(lambda x: asyncio.run(main(x)))(2.0)
    assert got == sum((k + 1) * 2.0**k for k in range(4))


OPERATORS = {
    "2.0 - x": lambda x: 2.0 - x,
    "2.0 / x": lambda x: 2.0 / x,
    "2.0**x": lambda x: 2.0**x,
    "x**2": lambda x: x**2,
    "x**3": lambda x: x**3,
    "x**0.5": lambda x: x**0.5,
    "x - 1": lambda x: x - 1,
    "-x": lambda x: -x,
    "np.sin(x)": lambda x: np.sin(x),
    "[1.0, 2.0] * x": lambda x: [1.0, 2.0] * x,
}


@pytest.mark.parametrize("transform", [ft.grad, ft.vmap])
@pytest.mark.parametrize("name", OPERATORS)
def test_a_leaked_result_of_any_operator_names_the_line_that_made_it(name, transform):
    kept = []

    def f(x):
        kept.append(OPERATORS[name](x))
        return np.sum(x)

    transform(f)(np.ones((2, 2)))
    line = OPERATORS[name].__code__.co_firstlineno
    with pytest.raises(errors.LeakedTracerError, match=f"made at .*test_nesting.py:{line}, in"):
        kept[0] + 1
