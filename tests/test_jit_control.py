"""Control flow that is compiled, and bodies that write to what they are given."""

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace.compile.bodies import body_program
from functrace.errors import JitWarning
from functrace.transforms.control import switch
from functrace.transforms.control_loops import ScanCall
from tests.helpers import MODES, alike, same_in

X = np.array([0.3, -0.7, 1.2])
V = np.array([0.5, -1.2, 2.0])


# Values and derivatives


def written(x, k):
    y = x * 0.9
    y[0] = x[1] + k
    y[1:] *= y[0]
    return y


FLOW = {
    "while": lambda x: ft.while_loop(lambda s: s[1] < 5, lambda s: (s[0] - 0.1 * np.sin(s[0]) * s[0], s[1] + 1), (x, 0)),
    "while that shares work with its test": lambda x: ft.while_loop(lambda v: np.sum(v**2) < 50, lambda v: v * 1.5 + np.sum(v**2), x),
    "while that does not begin": lambda x: ft.while_loop(lambda v: np.sum(v**2) < 0, lambda v: v * 1.5, x),
    "while that swaps": lambda x: ft.while_loop(lambda s: s[2] < 3, lambda s: (s[1], s[0], s[2] + 1), (x, x * 2, 0)),
    "while that closes over": lambda x: ft.while_loop(lambda v: v[0] < 9 + x[2], lambda v: np.abs(np.outer(V, V) @ v) + x**2 + 1, x),
    "while that writes": lambda x: ft.while_loop(lambda s: s[1] < 3, lambda s: (written(s[0], s[1]), s[1] + 1), (x, 0)),
    "while in while": lambda x: ft.while_loop(
        lambda v: v[0] < 40, lambda v: ft.while_loop(lambda u: np.sum(u) < 9, lambda u: u + 1, v) * 1.5, np.abs(x)
    ),
    "fori over a traced count": lambda x: ft.fori_loop(0, (x[2] * 2).astype(int), lambda i, v: v * 0.9 + i, x),
    "cond": lambda x: ft.cond(x[0] > 0, lambda v: (np.sin(v) * v, v), lambda v: (v + 1, v[::-1]), x),
    "cond in scan": lambda x: ft.scan(lambda c, z: (ft.cond(z > 0, np.sin, np.cos, c * z), c), 1.0, x),
    "switch": lambda x: ft.switch(np.sum(x > 0), [np.sin, np.cos, lambda v: v @ v * v], x),
}


@pytest.mark.parametrize("name", FLOW)
@pytest.mark.parametrize("what", ["itself", "vmap", "grad"])
def test_control_flow_is_compiled_and_right(name, what):
    f = FLOW[name]
    if what == "grad":
        f = ft.grad(lambda x: sum(np.sum(np.sin(y)) for y in ft.tree.leaves(FLOW[name](x)) if y.dtype.kind == "f"))
    xs = [V, V * 0.7 + 0.1, -V + 0.5, V]
    if what == "vmap":
        f, xs = ft.vmap(f), [np.stack(xs), np.stack(xs[::-1])]
    jitted = ft.jit(f)
    results = [(jitted(x), x) for x in xs]
    for found, x in results:  # after all calls: none may have been written to
        for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(f(x))):
            np.testing.assert_allclose(a, b, rtol=1e-12)
            assert not np.shares_memory(a, x)
    assert jitted.cache_info()["eager"] == 0


def test_a_loop_is_one_flat_program():
    jitted = ft.jit(FLOW["while"])
    jitted(V)
    (text,) = {line for line in jitted.show().splitlines() if "break" in line}
    assert text.startswith("# while_loop:") and "if not" in text
    squares = ft.jit(FLOW["while that shares work with its test"])
    squares(np.linspace(-1, 1, 20))
    assert squares.show().count("square(") == 1  # the test's and the body's are one


@pytest.mark.parametrize(
    "scanned", [lambda c, xs: ft.scan(lambda c, x: (c + x, c * x), c, xs), lambda c, xs: ft.map(lambda x: x * 2.0, xs)]
)
def test_a_python_number_takes_the_dtype_that_it_meets(scanned):
    xs = np.ones(3, np.float32)
    jitted = ft.jit(scanned)
    for _ in range(3):
        alike(jitted(0.0, xs), scanned(0.0, xs))


def test_a_python_number_that_branches_are_given():
    def f(x):
        return ft.cond(x > 0, lambda a, b: a * b, lambda a, b: a, x, 2.0)

    alike(ft.jit(f)(np.float32(2)), f(np.float32(2)))
    assert ft.vmap(f)(np.array([1, -1], np.float32)).dtype == np.float32


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ft.scan(lambda c, _: (c, c), 1.0, length=2.5), ft.errors.ControlFlowError, "length must be whole"),
        (lambda: ft.scan(lambda c, _: (c, c), 1.0, length=-1), ft.errors.ControlFlowError, "length must be whole and not negative"),
        (lambda: ft.fori_loop(0, 2.5, lambda i, c: c, 1.0), ft.errors.ControlFlowError, "upper must be whole, got 2.5"),
        (lambda: ft.map(np.sin, V, batch_size=0), ft.errors.ControlFlowError, "batch_size must be positive"),
        (lambda: ft.while_loop(lambda v: v < 3, lambda v: v, V), ft.errors.ControlFlowError, "one boolean, got bool.3"),
        (lambda: ft.cond("a", np.sin, np.cos, 1.0), ft.errors.ControlFlowError, "one boolean, got str"),
        (lambda: ft.switch(True, [np.sin, np.cos], 1.0), ft.errors.ControlFlowError, "one integer"),
        (lambda: ft.vmap(np.sin, out_axes=3)(V), ft.errors.BatchError, "out_axes asks for axis 3 of a result that is float64.3"),
        (lambda: ft.vmap(np.sin, in_axes=0.5)(V), ft.errors.BatchError, "in_axes = 0.5 does not fit"),
        (lambda: ft.vmap(lambda i: V[i])(np.array([[0, 1]])), ft.errors.ConversionError, "functrace.numpy.take"),
        (lambda: ft.custom_vjp(lambda x: x, nondiff_argnums=(2,)), ft.errors.CustomRuleError, "names argument 2, but the call has 1"),
    ],
)
def test_mistakes_are_named(call, error, text):
    with pytest.raises(error, match=text):
        made = call()
        made.defvjp(lambda x: (x, None), lambda _, g: (g,))
        made(1.0)


# Writes


def writes_to_the_carry(kind, weak, looks):
    def f(x):
        y = x * 1.0
        start = (y, 0 if weak else np.int64(0))

        def write(c, k):
            if not looks or c[0][0] > -9:
                c[0][k] = c[0].sum()
            return c[0], c[1] + 1

        def step(c, q):
            new = write(c, 1)
            new[0][0] *= q
            return new, new[0]

        loops = {
            "scan": lambda: ft.scan(step, start, x[:2]),
            "unrolled": lambda: ft.scan(step, start, x[:2], unroll=True),
            "no steps": lambda: ft.scan(step, start, x[:0]),
            "fori": lambda: ft.fori_loop(0, 3, lambda i, c: write(c, i), start),
            "while": lambda: ft.while_loop(lambda c: c[1] < 2, lambda c: write(c, c[1]), start),
            "while not": lambda: ft.while_loop(lambda c: c[1] < 0, lambda c: write(c, 0), start),
        }
        return loops[kind](), y

    return f


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("weak", [True, False])
@pytest.mark.parametrize("looks", [True, False])
@pytest.mark.parametrize("kind", ["scan", "unrolled", "no steps", "fori", "while", "while not"])
def test_a_body_that_writes_to_its_carry_leaves_the_initial_one_alone(kind, looks, weak, mode):
    same_in(writes_to_the_carry(kind, weak, looks), X, mode)


def first(a):
    a[0] = 7.0
    return a * 1.0


def second(a):
    a[1] = a[0] * 8.0
    return a * 1.0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_branch_that_writes_to_its_operand(sign, mode):
    def by_cond(x):
        y = x * sign
        view = y[:2]
        return ft.cond(y[0] > 0, first, second, y), y, view

    def by_switch(x):
        y = x * sign
        return switch(np.argmax(y), [first, second, lambda a: a], y), y * 2

    same_in(by_cond, X, mode)
    same_in(by_switch, X, mode)


def test_the_derivative_of_a_branch_that_writes_to_its_operand():
    def f(x):
        y = x * 2.0
        return (ft.cond(x[0] > 0, first, second, y) * y).sum()

    for x in (X, -X):
        assert np.allclose(ft.jit(ft.grad(f))(x), ft.grad(f)(x))
    batch = np.stack([X, -X])
    assert np.allclose(ft.vmap(ft.grad(f))(batch), [ft.grad(f)(x) for x in batch])


def write_and_sum(y):
    y[0] = 5.0
    return (y * y).sum()


@pytest.mark.parametrize("mode", MODES)
def test_what_a_jitted_function_writes_to_is_none_of_the_callers(mode):
    jitted = ft.jit(write_and_sum)

    def f(x):
        y = x * 1.0
        return jitted(y), y

    same_in(f, X, mode)


@pytest.mark.parametrize("transform", [lambda f: ft.grad(f), lambda f: ft.grad(ft.grad(f)), lambda f: ft.jacfwd(f)])
def test_a_checkpointed_function_must_not_write_to_what_the_tape_keeps(transform):
    def f(x):
        y = np.exp(x * X)
        return ft.checkpoint(write_and_sum)(y) + y.sum()

    refused = "checkpoint 'write_and_sum' writes to its argument"
    with pytest.raises(ft.errors.CustomRuleError, match=refused):
        transform(f)(1.5)
    with pytest.warns(JitWarning, match=refused):
        np.testing.assert_array_equal(ft.jit(f)(1.5), f(1.5))


@pytest.mark.parametrize(
    "transform", [ft.jacfwd, ft.hessian, lambda f: lambda x: ft.vmap(f)(np.stack([x, 2 * x]))], ids=["jacfwd", "hessian", "vmap"]
)
def test_what_a_function_with_a_rule_makes_in_a_compiled_loop_is_an_array(transform):
    def turned(x):
        y = fnp.array(x)
        y[-1] = np.sin(x[0])
        return y

    by_hand = ft.custom_jvp(turned)
    by_hand.defjvp(lambda p, t: ft.jvp(turned, p, t))
    for inner in ft.checkpoint(turned), by_hand:
        f = transform(lambda x, inner=inner: np.sum(ft.fori_loop(0, 3, lambda i, c: np.tanh(inner(c)), x)))
        expected = transform(lambda x: np.sum(ft.fori_loop(0, 3, lambda i, c: np.tanh(turned(c)), x)))(X)
        np.testing.assert_allclose(ft.jit(f)(X), expected, rtol=1e-12)


def test_compiled_code_that_wants_to_write_to_what_the_tape_keeps_is_told_from_a_write():
    def f(x):
        raise ValueError("buffer source array is read-only")  # Cython's words

    with pytest.raises(ft.errors.CustomRuleError, match="gives compiled code its argument.* read-only.\n.*\n?  Give it a copy"):
        ft.grad(ft.checkpoint(f))(X)


@pytest.mark.parametrize("order", [lambda c, x: c(x) + x, lambda c, x: x + c(x)])
def test_a_rule_must_not_write_to_a_cotangent_that_others_get_too(order):
    @ft.custom_vjp
    def double(x):
        return x * 2

    def bwd(_, g):
        g *= 2
        return (g,)

    double.defvjp(lambda x: (x * 2, None), bwd)
    with pytest.raises(ValueError, match="read-only"):
        ft.grad(lambda x: order(double, x).sum())(X)


def test_what_a_custom_function_passes_on_is_the_callers_own():
    @ft.custom_vjp
    def same(x):
        return x

    same.defvjp(lambda x: (x, None), lambda _, g: (g,))
    for out in (ft.vjp(same, X)[0], ft.jit(same)(X), ft.grad(lambda x: same(x).sum())(X), ft.vmap(same)(X), ft.checkpoint(same)(X.copy())):
        assert out.flags.writeable


# Loops over numbers

EDGES = np.array([0.0, -0.0, 1.5, -2.0, np.nan, np.inf, -np.inf, 0.0, np.nan, -0.0])
CHOICES = {
    "the larger": lambda c, z: np.maximum(c, z),
    "the smaller": lambda c, z: np.minimum(z, c),
    "with a number": lambda c, z: np.minimum(np.maximum(c, 0.0), 1) - z,
    "with minus zero": lambda c, z: np.maximum(c, -0.0) * np.maximum(-0.0, -c) + z,
    "one of two": lambda c, z: np.where(z > c, z, c * 0.5),
    "one, or a number": lambda c, z: np.where((z < c) | (c == 0), 1.0, c),
    "questions": lambda c, z: np.where((z >= c) & (c <= 1) & (z != c), z, -z),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CHOICES)
def test_numbers_in_a_loop_are_chosen_by_python_to_the_last_bit(name, dtype):
    f, rows = CHOICES[name], EDGES.astype(dtype)
    loop = ft.jit(lambda c, zs: ft.scan(lambda c, z: (f(c, z), f(c, z)), c, zs)[1])
    for start in rows:
        for k in range(len(rows) - 1):
            c, wanted = start, []
            for z in rows[k : k + 2]:
                c = f(c, z)[()]
                wanted.append(c)
            found, wanted = loop(start, rows[k : k + 2]), np.array(wanted)
            assert found.dtype == wanted.dtype and np.array_equal(found, wanted, equal_nan=True)
            known = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(wanted[known]))
    steps = "\n".join(line for line in loop.show().split("\n") if line.startswith("# scan"))
    assert steps and not any(word in steps for word in ("maximum(", "minimum(", "where(", "greater(", "less("))


def test_a_compiled_body_has_the_constants_that_it_reads_and_no_others():
    def loop(w):
        return np.sum(ft.scan(lambda c, x: (np.tanh(w * c + x) * np.exp(-x), c * w), 0.5, np.linspace(0.0, 1.0, 5))[1])

    compiled = ft.jit(ft.hessian(loop))
    compiled(0.3)
    bodies = [p.body for i in compiled.programs()[0].instructions for p in i.params if isinstance(p, ScanCall)]
    for body in bodies:
        program = body_program(body)
        assert {-1 - k for k in range(len(program.consts))} <= program.uses().keys()
    assert len(bodies) > 2
