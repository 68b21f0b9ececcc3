"""Random programs of ops and transforms, against numerical differentiation, loops, and one another.

Every op below is smooth and bounded, or kept in its domain, so that any composition can be differentiated by differences.
`FUNCTRACE_HYPOTHESIS=explore` runs many more.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import functrace as ft
import functrace.numpy as fnp
from functrace.transforms.naming import checks

N = 3  # the length of vectors; matrices are N by N
RNG = np.random.default_rng(5)
C = RNG.uniform(-1, 1, (N, N))
V = RNG.uniform(-1, 1, N)

# Ops on the newest values of a program: vectors keep their length, matrices their shape.
UNARY = {
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "arctan": np.arctan,
    "exp": lambda x: np.exp(np.tanh(x)),
    "log": lambda x: np.log(2.0 + np.sin(x)),
    "sqrt": lambda x: np.sqrt(1.0 + x * x),
    "square": lambda x: np.tanh(x) ** 2,
    "cube": lambda x: np.sin(x) ** 3,
    "power": lambda x: (2.0 + np.cos(x)) ** 1.5,
    "reciprocal": lambda x: 1.0 / (2.0 + np.sin(x)),
    "negative": lambda x: -x,
    "minus a constant": lambda x: 0.5 - x,
    "where": lambda x: np.where(V > 0, np.sin(x), np.cos(x)),
    "where traced": lambda x: np.where(x > 1e3, x * x, np.sin(x)),
    "abs": lambda x: np.abs(x + 1e3) - 1e3,
    "log1p": lambda x: np.log1p(np.sin(x) ** 2),
    "float32 and back": lambda x: x.astype(np.float64),
}
SHAPING = {
    "reverse": lambda x: x[..., ::-1],
    "roll by parts": lambda x: np.concatenate([x[..., 1:], x[..., :1]], axis=-1),
    "fancy": lambda x: x[..., [2, 0, 0]],
    "mask": lambda x: np.concatenate([x[V > 0], x[~(V > 0)]]),
    "transpose": lambda x: x.T,
    "reshape": lambda x: np.reshape(np.reshape(x, -1), x.shape),
    "centre": lambda x: x - x.mean(axis=-1, keepdims=True),
    "normalise": lambda x: x / (1.0 + np.sum(x * x, axis=-1, keepdims=True)),
    "max": lambda x: x - 0.3 * np.max(x + 5 * np.arange(N), axis=-1, keepdims=True),
    "cumsum": lambda x: np.cumsum(x, axis=-1) / N,
    "outer row": lambda x: (x[..., None, :] * V[:, None]).sum(axis=-1),
    "matmul": lambda x: x @ C,
    "matmul left": lambda x: C @ x,
    "stack": lambda x: np.stack([x, np.sin(x)])[1],
    "broadcast": lambda x: np.broadcast_to(x[..., :1], x.shape) + x,
    "fnp.array": lambda x: fnp.array([x[0], x[2], x[1]]),
    "iterate": lambda x: np.stack([row * (k + 1) / N for k, row in enumerate(x)]),
    "at": lambda x: fnp.at(x)[0].add(x[1]),
}


def _write(x):
    y = x * 1.0
    y[0] = np.sin(y[1])
    y[1:] *= y[:-1]
    return np.tanh(y)


def _views(x):
    y = x * 1.0
    a = y[1:]
    a += y[:1]
    return y


@ft.custom_vjp
def _custom(x):
    return np.sin(x) * 0.5


_custom.defvjp(lambda x: (np.sin(x) * 0.5, x), lambda x, g: (g * np.cos(x) * 0.5,))


@ft.custom_jvp
def _tangent(x):
    return np.cos(x) * 0.5


_tangent.defjvp(lambda p, t: (_tangent(p[0]), -np.sin(p[0]) * 0.5 * t[0]))

STATEFUL = {"write": _write, "views": _views}
TRANSFORMED = {
    "custom_vjp": _custom,
    "custom_jvp": _tangent,
    "checkpoint": ft.checkpoint(lambda x: np.sin(x) * np.cos(x)),
    "grad": ft.grad(lambda x: np.sum(np.sin(x) ** 2)),
    "vjp": lambda x: ft.vjp(np.sin, x)[1](x)[0],
    "jvp": lambda x: ft.jvp(np.tanh, (x,), (x,))[1],
    "linearize": lambda x: ft.linearize(np.tanh, x)[1](np.cos(x)),
    "hvp": lambda x: ft.hvp(lambda y: np.sum(np.cos(y)), (x,), (x,)),
    "vmap": lambda x: ft.vmap(lambda v: np.sin(v) * V[0])(x),
    "vmap of grad": lambda x: ft.vmap(ft.grad(lambda v: np.sum(np.sin(v) ** 3)))(x),
    "closure": lambda x: ft.grad(lambda w: np.sum(w * np.sin(w * x)))(x),
    "vmap closure": lambda x: ft.vmap(lambda v: np.sum(v * np.sin(x)) / N)(x),
    "stop": lambda x: x * 1.0 + 0.0 * ft.stop_gradient(x),
    "jacobian": lambda x: np.sum(ft.jacrev(np.sin)(x), axis=tuple(range(x.ndim))) if x.ndim == 1 else x,
    "value_and_grad": lambda x: (lambda v, g: v * 0.1 + g)(*ft.value_and_grad(lambda y: np.sum(np.cos(y)))(x)),
}
BINARY = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: np.tanh(a) * b,
    "divide": lambda a, b: a / (2.0 + np.sin(b)),
    "power": lambda a, b: (2.0 + np.sin(a)) ** np.tanh(b),
    "hypot": lambda a, b: np.hypot(a + 3.0, b),
    "arctan2": lambda a, b: np.arctan2(a, 3.0 + np.sin(b)),
    "logaddexp": np.logaddexp,
    "maximum": lambda a, b: np.maximum(a, b + 1e3) - 1e3,
    "matmul": lambda a, b: np.tanh(a) @ b if a.ndim == 2 else a @ b * V,
    "sum times": lambda a, b: a * np.sum(b) / N,
    "first": lambda a, b: a * b[0],
    "inner gradient": lambda a, b: ft.grad(lambda y: np.sum(np.sin(y * b)))(a),
    "inner vmap": lambda a, b: ft.vmap(lambda u, v: np.sin(u) * np.cos(v))(a, b),
    "inner vmap, one mapped": lambda a, b: ft.vmap(lambda u: np.sum(u * b) / N)(a) * V if a.ndim == 1 else a,
}
MATRIX_ONLY = {"transpose"}
VECTOR_ONLY = {"mask", "fnp.array", "write", "views", "vmap closure", "inner vmap, one mapped", "outer row", "jacobian", "where"}
ONE = {**UNARY, **SHAPING, **STATEFUL, **TRANSFORMED}

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just(1), st.sampled_from(sorted(ONE)), st.integers(0, 5), st.just(0)),
        st.tuples(st.just(2), st.sampled_from(sorted(BINARY)), st.integers(0, 5), st.integers(0, 5)),
    ),
    min_size=1,
    max_size=6,
)


def program(steps, matrix):
    """A function of one array that returns one like it: each step takes any earlier value."""
    dropped = VECTOR_ONLY if matrix else MATRIX_ONLY

    def f(x):
        values = [x]
        for arity, name, i, j in steps:
            if name in dropped:
                continue
            a, b = values[-1 - i % len(values)], values[-1 - j % len(values)]
            values.append(ONE[name](a) if arity == 1 else BINARY[name](a, b))
        return values[-1]

    return f


def argument(matrix, seed):
    shape = (N, N) if matrix else (N,)
    return np.random.default_rng(seed).uniform(-1.0, 1.0, shape)


def central(f, x, t, step=1e-4):
    return (8 * (f(x + step * t) - f(x - step * t)) - (f(x + 2 * step * t) - f(x - 2 * step * t))) / (12 * step)


def slope(f, x, t, got, rtol, atol):
    """Hold a derivative against differences; of what varies quickly they need a short step."""
    if not np.allclose(got, want := central(f, x, t), rtol, atol):
        want = central(f, x, t, 1e-6)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


ARGUMENTS = (STEPS, st.booleans(), st.integers(0, 1000))


@settings(max_examples=200)
@given(*ARGUMENTS)
def test_first_order(steps, matrix, seed):
    f, x = program(steps, matrix), argument(matrix, seed)
    t, w = argument(matrix, seed + 1), argument(matrix, seed + 2)
    out, pushed = ft.jvp(f, (x,), (t,))
    np.testing.assert_array_equal(out, f(x))
    slope(f, x, t, pushed, rtol=1e-6, atol=1e-8)
    out, pull = ft.vjp(f, x)
    (g,) = pull(w)
    assert g.shape == x.shape and g.dtype == x.dtype
    np.testing.assert_allclose(np.sum(g * t), np.sum(w * pushed), rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(pull(w)[0], g)
    np.testing.assert_allclose(ft.linearize(f, x)[1](t), pushed, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(ft.grad(lambda x: np.sum(w * f(x)))(x), g, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(ft.grad(lambda x: np.sum(w * ft.checkpoint(f)(x)))(x), g, rtol=1e-12, atol=1e-13)


@settings(max_examples=150)
@given(*ARGUMENTS)
def test_second_order(steps, matrix, seed):
    f, x = program(steps, matrix), argument(matrix, seed)
    t, w = argument(matrix, seed + 1), argument(matrix, seed + 2)
    g = ft.grad(lambda x: np.sum(w * f(x)))
    slope(g, x, t, pushed := ft.jvp(g, (x,), (t,))[1], rtol=1e-5, atol=1e-7)
    forward_over_reverse = ft.hvp(lambda x: np.sum(w * f(x)), (x,), (t,))
    reverse_over_reverse = ft.grad(lambda x: np.sum(g(x) * t))(x)
    reverse_over_forward = ft.grad(lambda x: np.sum(w * ft.jvp(f, (x,), (t,))[1]))(x)
    forward_over_forward = ft.jvp(lambda x: ft.jvp(f, (x,), (t,))[1], (x,), (t,))[1]
    np.testing.assert_allclose(forward_over_reverse, pushed, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(reverse_over_reverse, forward_over_reverse, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(reverse_over_forward, forward_over_reverse, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(np.sum(w * forward_over_forward), np.sum(t * forward_over_reverse), rtol=1e-8, atol=1e-10)


@settings(max_examples=150)
@given(*ARGUMENTS, st.sampled_from([0, 1, -1]), st.sampled_from([0, 1, -1]))
def test_vmap_is_a_loop(steps, matrix, seed, in_axis, out_axis):
    f = program(steps, matrix)
    rows = [argument(matrix, seed + k) for k in range(3)]
    batch = np.stack(rows, axis=in_axis)
    w = argument(matrix, seed + 7)
    got = ft.vmap(f, in_axes=in_axis, out_axes=out_axis)(batch)
    np.testing.assert_allclose(got, np.stack([f(x) for x in rows], axis=out_axis), rtol=1e-10, atol=1e-12)
    g = ft.grad(lambda x: np.sum(w * f(x)))
    got = ft.vmap(g, in_axes=in_axis)(batch)
    np.testing.assert_allclose(got, np.stack([g(x) for x in rows]), rtol=1e-9, atol=1e-11)
    push = lambda x: ft.jvp(f, (x,), (w,))[1]  # noqa: E731
    np.testing.assert_allclose(ft.vmap(push, in_axes=in_axis)(batch), np.stack([push(x) for x in rows]), rtol=1e-9, atol=1e-11)
    whole = ft.grad(lambda b: np.sum(w * ft.vmap(f)(b)))(np.stack(rows))
    np.testing.assert_allclose(whole, np.stack([g(x) for x in rows]), rtol=1e-9, atol=1e-11)


@settings(max_examples=100)
@given(*ARGUMENTS)
def test_jacobians(steps, matrix, seed):
    f, x = program(steps, matrix), argument(matrix, seed)
    j = ft.jacrev(f)(x)
    assert j.shape == x.shape + x.shape
    np.testing.assert_allclose(ft.jacfwd(f)(x), j, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(ft.jacobian(f)(x), j, rtol=1e-9, atol=1e-11)
    t = argument(matrix, seed + 1)
    np.testing.assert_allclose(np.tensordot(j, t, t.ndim), central(f, x, t), rtol=1e-6, atol=1e-8)


@settings(max_examples=60)
@given(STEPS, st.integers(0, 1000))
def test_hessians_are_symmetric_and_of_third_order(steps, seed):
    f, x = program(steps, False), argument(False, seed)
    w = argument(False, seed + 1)
    loss = lambda x: np.sum(w * f(x))  # noqa: E731
    h = ft.hessian(loss)(x)
    np.testing.assert_allclose(h, h.T, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(ft.jacrev(ft.jacfwd(loss))(x), h, rtol=1e-8, atol=1e-10)
    third = ft.jacfwd(ft.hessian(loss))(x)
    t = argument(False, seed + 2)
    np.testing.assert_allclose(third @ t, central(ft.hessian(loss), x, t), rtol=2e-4, atol=1e-6)


@settings(max_examples=100)
@given(*ARGUMENTS)
def test_float32_stays_float32_and_is_near(steps, matrix, seed):
    f, x = program([s for s in steps if s[1] not in ("float32 and back", "maximum", "abs")], matrix), argument(matrix, seed)
    g = ft.grad(lambda x: np.sum(f(x)))
    low = g(x.astype(np.float32))
    assert low.dtype == np.float32
    want = g(x)
    np.testing.assert_allclose(low, want, rtol=2e-2, atol=2e-3 * (1 + np.abs(want).max()))


@settings(max_examples=100)
@given(*ARGUMENTS)
def test_the_trace_says_what_ran(steps, matrix, seed):
    f, x = program(steps, matrix), argument(matrix, seed)
    tape = ft.trace(f)(x)
    np.testing.assert_array_equal(tape.outputs[0], f(x))
    lines = str(tape).splitlines()
    assert len(lines) == 1 + len(tape.entries) - len(checks(tape)) + 1
    defined = {lines[0].split(" :")[0]}
    for line in lines[1:-1]:
        name, _, rest = line.split("  #")[0].partition(" : ")
        call = rest.partition(" = ")[2]
        used = {word.strip("(),[] ") for word in call.replace("(", " ").split() if word.strip("(),[] ").startswith("%")}
        assert used <= defined, f"{line} uses a value before it is made"
        defined.add(name)
