"""Writing into traced arrays: what NumPy does to plain arrays, a traced one shows too, and it is differentiated.

Every program runs on plain arrays first, for the values, and traced, for the gradients; those are checked by differences.
"""

import itertools

import numpy as np
import pytest
from helpers import differences
from hypothesis import given, settings
from hypothesis import strategies as st

import functrace as ft
import functrace.numpy as fnp
from functrace import errors
from functrace.core.tape import record
from functrace.core.tracer import Trace
from functrace.ops.index import index_write

X = np.linspace(0.2, 1.7, 12).reshape(3, 4)
WEIGHTS = np.cos(np.arange(200.0))


def observed(x, program):
    """All arrays that a program returns, as one number that depends on every element of each."""
    total = 0.0
    for k, part in enumerate(program(x)):
        w = np.reshape(WEIGHTS[7 * k : 7 * k + part.size], part.shape)
        total = total + np.sum(w * part * part)
    return total


def check(program, x=X, rtol=1e-7):
    """The traced program gives NumPy's values and the gradient of what NumPy computes, in reverse and forward mode."""
    plain = [np.array(p) for p in program(x.copy())]
    seen = []

    def traced(y):
        parts = program(y * 1.0)
        seen.append([np.array(ft.value(p)) for p in parts])
        return observed(y, lambda _: parts)

    got = ft.grad(traced)(x.copy())
    assert len(seen[0]) == len(plain)
    for a, b in zip(seen[0], plain):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype
    want = differences(lambda y: observed(y, lambda z: program(z.copy())), x)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-8)
    t = np.sin(np.arange(x.size)).reshape(x.shape)
    np.testing.assert_allclose(ft.jvp(traced, (x,), (t,))[1], np.sum(got * t), rtol=1e-10)


def statement(code):
    """A program `y <- x; code; return every name that code made`."""

    def program(x):
        names = {"y": x, "np": np, "M": X > 0.9, "S": np.sin}
        exec(code, names)
        return [v for k, v in names.items() if len(k) == 1 and k.islower() and hasattr(v, "dtype")]

    return program


WRITES = [
    "y[0] = 5.0", "y[1, 2] = y[0, 0] * 2", "y[-1] = y[0]", "y[:, 1] = 3.0", "y[1:, ::2] = y[:2, :2]", "y[..., 0] = y[..., 1]",
    "y[None, 0] = 7.0", "y[:] = y[::-1] * 2", "y[...] = S(y)", "y[0] = [1.0, 2.0, 3.0, 4.0]", "y[:, 0] = y[0, :3]", "y[()] = y * 2",
    "y[[0, 2]] = y[[2, 0]]", "y[[0, 0, 2]] = y", "y[[0, 1], [2, 3]] = 9.0", "y[np.array([[0, 1], [1, 2]])] = 2.0",
    "y[:, [1, 1]] = y[:, [2, 3]]", "y[[0, 2], 1:3] = y[:2, :2]", "y[1, [0, 3]] = y[0, [3, 0]]",
    "y[M] = 0.0", "y[M] = y[M] * 3", "y[M] += 1.5", "y[~M] = -y[~M]", "y[M] = S(y)[M]", "y[M[:, 0]] = 1.0", "y[1, M[1]] = 4.0",
    "y[y > 1] = 1.0", "y[y > 1] **= 2",
    "y += 1.0", "y -= y", "y *= y", "y /= 2 + y", "y **= 2", "y += y[0]", "y %= 0.7",
    "y[0] += y[1]", "y[0, 0] *= 3", "y[:, 1] /= y[:, 2]", "y[1:] -= y[:-1]", "y[::2, 1::2] += 1.0", "y[[0, 1]] += y[[1, 2]]",
    "y[[0, 0, 0]] += 1.0",  # buffered: adds once
    "y[0] = 1; y[0] += y[1]; y[1] = y[0] * y[2]; y *= 2",
    "y.fill(3.0)", "y[0].fill(2.0)",
    "for i in range(3):\n    y[i] = y[i - 1] * y[i]",
    "for i in range(3):\n    for j in range(4):\n        y[i, j] += i * y[j % 3, i]",
]  # fmt: skip


@pytest.mark.parametrize("code", WRITES)
def test_writes(code):
    check(statement(code))


VIEWS = [
    "a = y[0]; a[1] = 5.0",
    "a = y[0]; y[0, 1] = 5.0",
    "a = y[0]; b = y[:, 1]; a[1] = 5.0",
    "a = y[0]; b = y[:, 1]; b *= 2",
    "a = y[0]; b = y[0]; a += 1; b *= 2",
    "a = y[1:]; b = a[0]; c = b[1:]; c[0] = 7.0",
    "a = y[1:]; b = a[0]; c = b[1:]; y[1, 1] = 7.0",
    "a = y[1:]; b = a[0]; c = b[1:]; a *= 3; c += 1",
    "a = y[::-1]; a[0] = 3.0",
    "a = y[::2, ::-1]; a[1] = a[0] * 2",
    "a = y[:, ::2]; b = y[:, 1::2]; a += b; b += a",
    "a = y[None]; a[0, 0] = 4.0",
    "a = y[...]; a[0] = 4.0",
    "a = y[:]; a += 1; y *= 2",
    "a = y[0]; a[...] = y[1]; y[1] = a",
    "a = y[0]\nfor i in range(4):\n    a[i] = a[i - 1] + y[1, i]",
    "a, b, c = y; a[0] = 5.0; b += a; c *= b",
    "a, *rest = y; a[0] = 5.0",
    "for a in y:\n    a *= 2",
    "for a in y:\n    a[0] = a[1]",
    "y[0][1] = 5.0",
    "y[1:][0][2:] = y[0][:2]",
    "y[1:][0][2:] += 1",
    "a = y[[0, 1]]; a[0] = 5.0",  # a copy
    "a = y[M]; a[0] = 5.0",  # a copy
    "a = y[0, 1]; y[0, 1] = 5.0",  # a scalar
    "a = y[0, 1]; a += 5.0",
    "a = y[0, 1, ...]; a += 5.0",
    "a = y[0, 1, ...]; b = a[None]; b[0] = 5.0",
    "a = y * 1; b = a[0]; b[0] = 2.0",
    "a = y.copy(); a[0] = 2.0",
    "a = y[0].copy(); a[0] = 2.0",
    "a = y[0]; y = y * 2; a[0] = 5.0",
    "a = y[0]; b = a * 2; a[0] = 5.0",
    "a = y[0]; b = S(a); a[0] = 5.0; c = S(a)",
    "y[0] = y[1]; y[1] = y[0] * 2",
]


@pytest.mark.parametrize("code", VIEWS)
def test_views(code):
    check(statement(code))


RESHAPED = [
    "a = y.T; a[0] = 5.0", "a = y.reshape(-1); a[0] = 5.0", "a = y.ravel(); a *= 2", "a = np.transpose(y); a[0, 0] = 1.0",
    "a = y.reshape(4, 3); a += 1", "a = y.T; y[0] = 5.0", "a = y.reshape(-1); y[0, 0] = 5.0", "a = y[0].reshape(2, 2); a[0] = 1.0",
    "a = np.swapaxes(y, 0, 1); a[0] = 1.0", "a = np.expand_dims(y, 0); a[0, 0] = 1.0", "a = np.squeeze(y[None]); a[0] = 1.0",
    "a = np.diagonal(y); y[0, 0] = 3.0", "a = np.broadcast_to(y[0], (2, 4)); y[0] = 3.0", "a = np.moveaxis(y, 0, 1); a[0] = 1.0",
    "a = np.einsum('ij->ji', y); a[0] = 5.0", "a = np.einsum('ii->i', y[:, 1:]); a += 1; y[1, 2] = 3.0; b = a * 2",
    "a = np.einsum('iji->ji', np.stack([y[:, 1:]] * 3)); a[0] *= 2.0; y[0] = 1.0", "a = np.einsum('ij,j->ji', y, y[0]); a[0] = 5.0",
    "a = np.real(y); a[0] = 1.0", "a = y.real; a[0] = 1.0", "a = y.T.T; a[0] = 2.0", "a = y[0].reshape(4); a[0] = 2.0",
    "a = y.reshape(3, 4); a[0] = 2.0", "a = np.asarray(y) if type(y) is np.ndarray else y; a[0] = 2.0", "a = y.reshape(-1)[2:]; a[0] = 1.0",
    "a = y.T[0]; a[0] = 1.0", "a = y.T[0]; y[0] = 1.0", "a = y.astype(float, copy=False); a[0] = 1.0", "a = np.flip(y, 0); a[0] = 1.0",
    "a = np.atleast_2d(y); a[0] = 1.0", "a = np.ravel(y); a[0] = 1.0", "a = np.reshape(y, (4, 3)); y += 1", "b, a = np.split(y, [1]); a[0] = 1.0",
    "a = np.where(True, y, 0.0); a[0] = 1.0", "a = +y; a[0] = 1.0", "a = np.stack([y, y]); a[0] = 1.0", "a = y.flatten(); a[0] = 1.0",
    "a = np.lib.stride_tricks.sliding_window_view(y, 2, 1); y[0] = 3.0", "a = np.lib.stride_tricks.sliding_window_view(y, (2, 2)); y += 1",
    "a = np.concatenate([y]); a[0] = 1.0", "a = abs(y); a[0] = 1.0", "a = np.copy(y); a[0] = 1.0", "a = np.maximum(y, 0.0); y[0] = 1.0",
]  # fmt: skip


@pytest.mark.parametrize("code", RESHAPED)
def test_reshaped_views_are_right_or_refused(code):
    """NumPy shares memory here, or does not: either the write is seen where NumPy shows it, or it raises. Never lost."""
    try:
        check(statement(code))
    except errors.UnsupportedError as error:
        assert "no derivative rule" not in str(error) or "np." in code, error
        assert __file__ in str(error) or "<string>" in str(error)


def test_a_write_to_an_argument_does_not_change_the_callers_array():
    """The argument of a traced function is the traced value, not the caller's memory."""
    x = X.copy()

    def f(y):
        y[0] = 0.0
        y *= 2
        return np.sum(y * y)

    g = ft.grad(f)(x)
    np.testing.assert_array_equal(x, X)
    want = 8 * X
    want[0] = 0.0
    np.testing.assert_allclose(g, want)
    np.testing.assert_array_equal(ft.grad(f)(x), g)


def test_gradients_before_and_after_a_write():
    """What was recorded before the write keeps its value."""

    def f(x):
        y = x * 1.0
        a = np.sum(y * y)
        y[0] = 10.0
        b = np.sum(y * y)
        return a + 3 * b

    np.testing.assert_allclose(ft.grad(f)(np.array([1.0, 2.0])), [2.0, 16.0])


def test_writing_traced_values_of_another_level():
    def f(x):
        def inner(y):
            z = y * np.ones(3)
            z[0] = x * y
            z[1] += x
            return np.sum(z * z)

        return ft.grad(inner)(2.0)  # 2 x**2 y + 2 (y + x) + 2 y

    assert ft.grad(f)(3.0) == 4 * 3.0 * 2.0 + 2.0


def test_an_inner_value_written_into_an_outer_array():
    """The outer array then belongs to the inner trace; used after it, it is a leak, not a wrong number."""

    def f(x):
        z = x * np.ones(3)

        def inner(y):
            z[0] = y * y
            return np.sum(z)

        g = ft.grad(inner)(x)
        return g + np.sum(z)

    with pytest.raises(errors.LeakedTracerError):
        ft.grad(f)(3.0)


@pytest.mark.parametrize("step", ["set", "add"])
def test_an_outer_array_written_to_at_a_place_that_a_loop_counts(step):
    def body(x, total, n):
        z = x * np.ones(3)
        if step == "set":
            z[n % 3] = 0.5
        else:
            z[n % 3] += total[0]
        return total + z

    def by_python(x):
        total = np.zeros(3)
        for n in range(4):
            total = body(x, total, n)
        return total

    def scanned(x):
        return ft.scan(lambda c, n: (body(x, c, n), None), np.zeros(3), np.arange(4))[0]

    assert np.array_equal(scanned(2.0), by_python(2.0))
    for transform in (ft.jacrev, ft.jacfwd, lambda f: ft.jit(ft.jacrev(f)), ft.hessian):
        assert np.allclose(transform(scanned)(2.0), transform(by_python)(2.0))


def test_integer_and_mixed_dtypes():
    def f(x):
        y = x * np.ones(4, np.float32)
        y[0] = 1
        y[1] = True
        y[2] = np.float64(0.1)  # cast to float32, as NumPy does
        y += 1
        return y

    plain = f(np.float32(2.0))
    seen = []
    ft.grad(lambda x: seen.append(ft.value(f(x))) or np.float32(0) * x)(np.float32(2.0))
    np.testing.assert_array_equal(seen[0], plain)
    assert seen[0].dtype == plain.dtype == np.float32

    def g(x, v):
        y = x + 0
        y[0] = v
        return y

    bytes_ = np.ones((2, 3), np.uint8)
    np.testing.assert_array_equal(ft.vmap(g, in_axes=(0, None))(bytes_, 255), [g(x, 255) for x in bytes_])
    for v in (256, -1):
        for f in (g, ft.vmap(g, in_axes=(0, None))):
            with pytest.raises(OverflowError):
                f(bytes_, v)


@pytest.mark.parametrize(
    "code",
    [
        "y[5] = 1.0", "y[0, 9] = 1.0", "y[0] = [1.0, 2.0]", "y[:2] = y", "y[M[0]] = 1.0", "y += [1.0, 2.0]", "y[0] = 1j", "y += 1j", "y['a'] = 1.0",
        "y[0, 0, 0] = 1.0", "y[M] = [1.0, 2.0]", "y += np.ones((2, 3, 4))", "y[1.5] = 2.0", "np.broadcast_to(y, (2, 3, 4))[0] = 1.0",
        "np.diagonal(y)[0] = 1.0", "np.diagonal(np.zeros_like(y))[0] = 1.0", "np.lib.stride_tricks.sliding_window_view(y, 2, 0)[0] = 1.0",
    ],
)  # fmt: skip
def test_what_numpy_refuses_is_refused(code):
    program = statement(code)
    with pytest.raises((ValueError, IndexError, TypeError)) as plain:
        program(X.copy())
    with pytest.raises((ValueError, IndexError, TypeError)) as traced:
        ft.grad(lambda x: observed(x, lambda y: program(y * 1.0)))(X)
    kinds = [k for k in (ValueError, IndexError, TypeError) if isinstance(plain.value, k)]
    assert isinstance(traced.value, tuple(kinds)), (traced.value, plain.value)
    assert ("read-only" in str(plain.value)) == ("read-only: a diagonal or a broadcast view, at <string>:1" in str(traced.value))


def test_a_refused_write_changes_nothing():
    def f(x):
        y = x * 1.0
        a = y[0]
        for bad in ("y[9] = 0.0", "y[:2] = np.zeros((7, 7))", "a[:] = np.zeros(9)", "y += np.ones((2, 3, 4))"):
            with pytest.raises((ValueError, IndexError)):
                exec(bad, {"y": y, "a": a, "np": np})
        return np.sum(y * y) + a[0]

    want = 2 * X
    want[0, 0] += 1
    np.testing.assert_allclose(ft.grad(f)(X), want)


def test_scalars_are_immutable():
    def f(x):
        y = x
        y += 1.0
        y *= x
        return y  # (x + 1) x

    assert ft.grad(f)(3.0) == 7.0
    with pytest.raises((TypeError, IndexError, ValueError)):
        ft.grad(lambda x: x.__setitem__(0, 1.0) or x)(3.0)


def test_an_array_without_axes_stays_an_array_however_often_it_is_written_to():
    def f(x):
        y, row = x, x.reshape(1)
        y += 1.0
        y *= x
        row -= 2.0
        np.add(y, y, out=y)
        return x * 1.0  # 2 ((x + 1)^2 - 2)

    for run in (f, ft.jit(f), lambda x: ft.value_and_grad(f)(x)[0]):
        assert run(np.array(2.0)) == 14.0
    assert ft.grad(f)(np.array(2.0)) == ft.jit(ft.grad(f))(np.array(2.0)) == 12.0


def test_second_order_through_writes():
    def f(x):
        y = x * 1.0
        y[0] = y[1] * y[2]
        y[1:] *= y[0]
        a = y[2:]
        a += y[0]
        return np.sum(y**2)

    x = np.array([0.5, 1.2, -0.7, 0.3])
    h = ft.hessian(f)(x)
    np.testing.assert_allclose(h, h.T, rtol=1e-12)
    np.testing.assert_allclose(h, np.stack([differences(lambda z: ft.grad(f)(z)[k], x) for k in range(4)]), rtol=1e-6, atol=1e-7)
    ft.check_grads(f, x, order=3, rtol=1e-4)


def test_truths_and_counts_are_written_by_out_where_examples_differ():
    def f(x):
        far, n = np.zeros(2, bool), np.ones(2, int)
        np.greater(x, 1.0, where=~np.isnan(x), out=far)
        n += far
        return np.where(far, x**2, x) * n

    x = np.array([[0.5, 1.5], [1.5, 2.5], [0.25, 0.5]])
    np.testing.assert_array_equal(ft.vmap(f)(x), np.stack([f(row) for row in x]))
    jitted = ft.jit(ft.grad(lambda x: f(x).sum()))
    for row in (*x, *x):
        np.testing.assert_array_equal(jitted(row), np.where(row > 1, 4 * row, 1))


def test_vmap_of_writes():
    def f(x, k):
        y = x * 1.0
        y[0] = k
        y[1:] += y[:-1]
        y[[0, 2]] = y[[2, 0]]
        a = y[1:]
        a *= k
        return y

    xs, ks = np.arange(12.0).reshape(3, 4), np.array([1.0, 2.0, 3.0])
    want = np.stack([f(x, k) for x, k in zip(xs, ks)])
    np.testing.assert_allclose(ft.vmap(f)(xs, ks), want)
    np.testing.assert_allclose(ft.vmap(f, in_axes=(0, None))(xs, 2.0), np.stack([f(x, 2.0) for x in xs]))
    np.testing.assert_allclose(ft.vmap(ft.jacrev(f))(xs, ks), np.stack([ft.jacrev(f)(x, k) for x, k in zip(xs, ks)]))


def test_writing_a_batched_value_into_an_array_that_is_not_batched():
    """theseus#650: a traced array becomes batched; a plain one refuses, since it has no room for the batch."""

    def f(x, w):
        y = w * 1.0
        y[1] = x
        return y

    with pytest.raises(errors.ArrayStoreError):
        ft.vmap(f, in_axes=(0, None))(np.array([5.0, 6.0]), np.zeros(3))
    got = ft.vmap(lambda x, w: fnp.at(w)[1].set(x), in_axes=(0, None))(np.array([5.0, 6.0]), np.zeros(3))
    np.testing.assert_array_equal(got, [[0, 5, 0], [0, 6, 0]])
    g = ft.grad(lambda w: ft.vmap(f, in_axes=(0, None))(np.array([5.0, 6.0]), w).sum())(np.zeros(3))
    np.testing.assert_array_equal(g, [2, 0, 2])


# x.at[...]: JAX's functional updates

INDICES = [
    0,
    -1,
    slice(1, None),
    (slice(None), 1),
    (0, 2),
    [0, 2],
    (slice(None), [1, 3]),
    X > 0.9,
    (1, slice(None, None, -1)),
    ...,
    (None, 0),
]
METHODS = {
    "set": lambda a, i, v: a.__setitem__(i, v),
    "add": lambda a, i, v: np.add.at(a, i, v),
    "subtract": lambda a, i, v: np.subtract.at(a, i, v),
    "multiply": lambda a, i, v: np.multiply.at(a, i, v),
    "mul": lambda a, i, v: np.multiply.at(a, i, v),
    "divide": lambda a, i, v: np.divide.at(a, i, v),
    "power": lambda a, i, v: np.power.at(a, i, v),
    "min": lambda a, i, v: np.minimum.at(a, i, v),
    "max": lambda a, i, v: np.maximum.at(a, i, v),
}


@pytest.mark.parametrize("index", INDICES, ids=lambda i: "mask" if isinstance(i, np.ndarray) else str(i))
@pytest.mark.parametrize("method", METHODS)
def test_at(method, index):
    want = X.copy()
    METHODS[method](want, index, 0.83)
    f = lambda x, v: getattr(fnp.at(x)[index], method)(v)  # noqa: E731
    np.testing.assert_allclose(f(X, 0.83), want, rtol=1e-15)
    seen = []
    gx, gv = ft.grad(
        lambda x, v: (lambda out: seen.append(ft.value(out)) or observed(x, lambda _: [out]))(getattr(x.at[index], method)(v)), (0, 1)
    )(X, 0.83)
    np.testing.assert_allclose(seen[0], want, rtol=1e-15)
    np.testing.assert_allclose(gx, differences(lambda x: observed(x, lambda x: [f(x, 0.83)]), X), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(gv, differences(lambda v: observed(X, lambda x: [f(x, v)]), 0.83), rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(X, np.linspace(0.2, 1.7, 12).reshape(3, 4))
    part = fnp.at(X)[index].get()
    np.testing.assert_array_equal(part, X[index])
    np.testing.assert_allclose(fnp.at(X)[index].apply(np.sin)[index], np.sin(X[index]))


@pytest.mark.parametrize("method", ["add", "subtract", "multiply", "min", "max", "divide"])
def test_at_with_repeated_positions(method):
    """As `np.ufunc.at`, and JAX: every one counts."""
    index = [0, 0, 2, 0]
    v = np.array([0.9, 0.7, 1.1, 0.8])
    x = np.array([1.0, 2.0, 3.0])
    want = x.copy()
    METHODS[method](want, index, v)
    np.testing.assert_allclose(getattr(fnp.at(x)[index], method)(v), want, rtol=1e-14)
    f = lambda x, v: observed(x, lambda x: [getattr(fnp.at(x)[index], method)(v)])  # noqa: E731
    gx, gv = ft.grad(f, (0, 1))(x, v)
    np.testing.assert_allclose(gx, differences(lambda x: f(x, v), x), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(gv, differences(lambda v: f(x, v), v), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("at", [np.array([0, 2]), np.array([[0, 0], [2, 1]])], ids=["number", "array"])
@pytest.mark.parametrize(
    "key",
    [lambda i: i, lambda i: (i, slice(1, None)), lambda i: (..., i), lambda i: i if np.ndim(i) else [i, 1]],
    ids=["row", "part", "column", "list"],
)
@pytest.mark.parametrize("method", METHODS)
def test_at_positions_that_differ_between_the_examples(method, key, at):
    f = lambda x, i: getattr(fnp.at(x)[key(i)], method)(0.83)
    batch = np.stack([X, X + 0.1])
    np.testing.assert_allclose(ft.vmap(f)(batch, at), [f(x, i) for x, i in zip(batch, at)])
    slopes = [ft.grad(lambda x, i=i: np.sum(WEIGHTS[:12].reshape(3, 4) * f(x, i)))(x) for x, i in zip(batch, at)]
    np.testing.assert_allclose(ft.vmap(ft.grad(lambda x, i: np.sum(WEIGHTS[:12].reshape(3, 4) * f(x, i))))(batch, at), slopes)

    def written(x, i):
        y = x * 1.0
        METHODS[method](y, key(i), 0.83)
        return y

    np.testing.assert_allclose(ft.vmap(written)(batch, at), [written(x, i) for x, i in zip(batch, at)])


@pytest.mark.parametrize(
    "code", ["y[i] = y[1:2] * 2", "y[:, i] = y[None, None, :, 3] ** 2", "y[0, i, ...] = y[1:2, 2]", "y[i - 1, 1:] = y[None, :1, :3]"]
)
def test_axes_of_one_element_before_those_of_a_position_that_differs(code):
    def f(x):
        y, i = x * 1.0, np.argmax(x[0]) % 3
        exec(code, {"y": y, "i": i})
        return np.sum(np.sin(y) * WEIGHTS[:12].reshape(3, 4))

    rows = np.stack([X, X[:, ::-1], np.roll(X, 1, 1)])
    fast = ft.jit(f)
    np.testing.assert_allclose([fast(x) for x in rows], [f(x) for x in rows])
    np.testing.assert_allclose(ft.vmap(f)(rows), [f(x) for x in rows])
    np.testing.assert_allclose(ft.vmap(ft.grad(f))(rows), [differences(f, x) for x in rows], rtol=1e-7, atol=1e-9)


def test_repeated_positions_of_set_and_augmented_assignment():
    check(lambda y: (y.__setitem__([0, 0, 1], y[[2, 1, 0]]), y)[1:])

    def augmented(y):
        y[[0, 0, 1]] += y[[2, 1, 0]]
        return (y,)

    check(augmented)


def test_many_writes_do_not_keep_a_copy_each():
    import tracemalloc

    n = 5000

    def f(x):
        y = x * 0.0
        for k in range(n):
            y[k] = x[k] * 2
        return np.sum(y * y)

    x = np.linspace(0.0, 1.0, n)
    np.testing.assert_allclose(ft.grad(f)(x), 8 * x)
    tracemalloc.start()
    try:
        ft.grad(f)(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 400 * 8 * n, f"{peak / 8 / n:.0f} arrays"


# Random programs of writes and views, against NumPy

POSITION = st.sampled_from(
    ["0", "-1", "1", ":2", "1:", "::2", "::-1", "...", ":", "[0, 1]", "[1, 0, 1]", "[-1]", "None", "0:1", "m(%s)"]
)  # fmt: skip
STEP = st.one_of(
    st.tuples(st.just("view"), st.sampled_from("abcd"), st.sampled_from("yabcd"), POSITION),
    st.tuples(st.just("set"), st.sampled_from("yabcd"), POSITION, st.sampled_from(["2.0", "S(y).mean()", "%s * 1.5", "%s[::-1]", "T(%s)"])),
    st.tuples(st.just("aug"), st.sampled_from("yabcd"), POSITION, st.sampled_from(["+= 0.5", "*= 1.25", "-= y.mean()", "/= 2 + %s * %s"])),
    st.tuples(st.just("whole"), st.sampled_from("yabcd"), st.sampled_from(["+= 0.5", "*= y.mean()", "*= %s"])),
    st.tuples(
        st.just("new"), st.sampled_from("abcd"), st.sampled_from("yabcd"), st.sampled_from(["S(%s)", "%s * 2", "%s.copy()", "%s + y.sum()"])
    ),
)


def source(steps):
    lines = []
    for kind, *rest in steps:
        if kind == "view":
            target, name, position = rest
            lines.append(f"{target} = {name}[{position.replace('%s', name)}]")
        elif kind == "set":
            name, position, what = rest
            place = f"{name}[{position.replace('%s', name)}]"
            lines.append(f"{place} = {what.replace('%s', place)}")
        elif kind == "aug":
            name, position, what = rest
            place = f"{name}[{position.replace('%s', name)}]"
            lines.append(f"{place} {what.replace('%s', place)}")
        elif kind == "whole":
            name, what = rest
            lines.append(f"{name} {what.replace('%s', name)}")
        else:
            target, name, what = rest
            lines.append(f"{target} = {what.replace('%s', name)}")
    return lines


def run(lines, x):
    names = {"y": x, "S": np.sin, "T": lambda v: v[::-1] * 0.5, "m": lambda v: ft.value(v) > 0.8}
    for name in "abcd":
        names[name] = names["y"]
    for line in lines:
        exec(line, names)
    return [names[k] for k in "yabcd"]


@settings(max_examples=60)
@given(st.lists(STEP, min_size=1, max_size=6))
def test_random_writes(steps):
    """The same lines on plain arrays and traced: every name ends with the same values, and the gradient is right."""
    x = np.array([0.3, 0.9, 1.4, 0.6])
    lines = []
    for line in source(steps):  # keep the lines that NumPy can run
        try:
            with np.errstate(all="ignore"):
                result = run([*lines, line], x.copy())
        except (ValueError, IndexError, TypeError):
            continue
        if all(np.shape(r) and np.size(r) < 40 and np.all(np.isfinite(r)) and np.all(np.abs(r) < 1e3) for r in result):
            lines.append(line)
    check(lambda y: run(lines, y), x, rtol=2e-6)


# arrays made while a function is traced


MADE = [
    "y = fnp.zeros(4); y[0] = x[0]; y[1:3] = x[1:] ** 2",
    "y = fnp.zeros(4)\nfor k in range(4): y[k] = x[k % 3] * k",
    "y = fnp.empty(3); y[:] = x; y[1] *= y[0]",
    "y = fnp.ones((2, 3)) + 1; r = y[0]; r[1] = x[0]; c = y.T[2]; y[1, 2] = x[1]",
    "y = fnp.full((2, 2), x[0]); y[0, 1] = 2.0",
    "y = fnp.full(3, 7.0); y[fnp.arange(3) > 1] = x[1]",
    "y = fnp.arange(3.0); z = y * x; y[0] = 100.0; y[1] = x[2]",
    "y = fnp.linspace(0, 1, 3); y += x; y[0] = 5.0",
    "y = fnp.array([1.0, 2.0, 3.0]); y[[0, 2, 0]] = x",
    "y = fnp.asarray([1.0, 2.0, 3.0]); y *= x[0]",
    "y = fnp.eye(3); y[1] = x; y[:, 0] += x",
    "y = np.zeros_like(x); y[1:] = x[:-1]; y[1:] += x[1:]",
    "y = np.empty_like(x); np.copyto(y, x); y.fill(x[1])",
    "y = np.full_like(x, 3.0); np.multiply(x, 2, out=y)",
    "y = np.ones_like(x); y.put([0, 1], x[1:])",
    "y = fnp.zeros((2, 3)); a = y.reshape(-1); a[4] = x[0]; b = y[1]; b[0] = x[1]; a[0] = 2.0",
    "y = fnp.zeros(3); z = y; z[0] = x[0]; y[1] = x[1]",
    "y = fnp.zeros(3); w = y + x; y[0] = x[0]; v = y + x",
    "y = fnp.zeros(3, complex); y.real = x; y.imag[1] = x[0]; z = abs(y)",
    "y = fnp.zeros(2); z = fnp.concatenate([y, y]); z[0] = x[0]; y[0] = 1.0",
    "y = fnp.zeros((2, 2)); y.flat[:] ; np.fill_diagonal(y, x[0]); np.add.at(y, (0, 1), x[1])",
    "y = fnp.zeros(3); y[:2] = [x[0], x[1] * 2]",
    "y = fnp.zeros((3, 3)); np.einsum('ii->i', y)[:] = x; y[0, 1] = 7.0",
    "y = fnp.zeros((2, 3)); y.T.flat[2] = 4.0; y[:, 1:].flat[1:] += 2.0; y[:, ::2].flat[[1, 2]] = x[:2]; y.T.flat[-2] -= 1.0",
    "y = fnp.zeros(4); z = y.flat[1:]; z += 1.0; z[0] = x[0]; v = y[::-1].flat[:2]; v *= 3.0; y[:2] = x[1:]",
    "y = fnp.zeros((2, 3)); at = y.T.flat; at[1] = 2.0; at[2] = x[0]; at[3] = 4.0; y[1, 1] += 7.0; z = at[3] + x; v = at[:2]; v[0] = 8.0",
    "y = fnp.zeros(5); w = np.lib.stride_tricks.sliding_window_view(y, 3); y[0] = 2.0; v = w * 1; y[1:4] = x; y[4] = 1.0",
    "y = fnp.copy(fnp.ones(3)); y[0] -= x[2]; y.resize(5, refcheck=False); y[4] = x[0]",
]


@pytest.mark.parametrize("code", MADE)
def test_arrays_made_in_a_traced_function_take_traced_values(code):
    x = np.array([0.4, 1.3, -0.7])

    def program(x):
        names = {"x": x, "np": np, "fnp": fnp}
        exec(code, names)
        return [v for k, v in sorted(names.items()) if len(k) == 1 and k != "x" and hasattr(v, "dtype")]

    plain, seen = program(x), []

    def total(x):
        parts = program(x)
        seen[:] = [np.array(ft.value(p)) for p in parts]
        return sum(np.sum(np.cos(np.arange(p.size)).reshape(p.shape) * abs(p) ** 2) for p in parts)

    ft.vjp(total, x)
    for a, b in zip(seen, plain, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype
    ft.check_grads(total, x)
    np.testing.assert_allclose(ft.vmap(ft.grad(total))(np.stack([x, 2 * x])), [ft.grad(total)(x), ft.grad(total)(2 * x)])


def test_the_shape_is_set_of_what_shares_no_memory():
    def f(x):
        y, z = x * 2, fnp.zeros(6)
        y.shape = 2, 3
        z.shape = 3, -1
        z[0, 1] = y[1, 2]
        y.shape = 6
        return y[1] * z

    x = np.arange(1.0, 7.0)
    want = np.array([[0, 4 * 12], [0, 0], [0, 0]])
    for found in (ft.vjp(f, x)[0], ft.jit(f)(x), ft.vmap(f)(np.stack([x, x]))[1]):
        np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(ft.grad(lambda x: np.sum(f(x)))(x), [0, 24, 0, 0, 0, 8])
    for write in (lambda x: setattr(x[2:], "shape", (2, 2)), lambda x: (x[2:], setattr(x.T, "shape", (2, 3)))):
        with pytest.raises(AttributeError, match=r"x = x\.reshape"):
            ft.grad(lambda x, write=write: (write(x), np.sum(x))[1])(x)


def test_outside_of_a_trace_ndarrays_are_made():
    for y in (fnp.zeros(3), fnp.array([1.0]), fnp.linspace(0, 1, 3), fnp.ones((2, 2)), fnp.eye(2), fnp.full(2, 1.0), fnp.asarray([1.0])):
        assert type(y) is np.ndarray
    aux = ft.value_and_grad(lambda x: (x * x, (fnp.zeros(3), fnp.ones(2) * 2)), has_aux=True)(2.0)[0][1]
    assert [type(a) for a in aux] == [np.ndarray, np.ndarray]
    assert type(ft.vmap(lambda x: fnp.zeros(3))(np.ones(2))) is np.ndarray
    with pytest.raises(ZeroDivisionError):
        ft.grad(lambda x: x * (1 // 0))(1.0)
    assert type(fnp.zeros(3)) is np.ndarray  # an exception closes the trace


def test_an_array_made_in_a_trace_behaves_as_an_ndarray_until_it_is_written_to():
    def f(x):
        y = fnp.linspace(0.0, 1.0, 3)
        assert float(y[1]) == 0.5 and y.tolist() == [0.0, 0.5, 1.0] and y[2].item() == 1.0
        assert type(np.asarray(y)) is np.ndarray and not np.asarray(y).flags.writeable
        assert type(fnp.zeros(3, int)) is np.ndarray  # integers have no derivative
        assert repr(y) == repr(np.linspace(0.0, 1.0, 3))
        y[0] = 2.0
        assert np.sum(y) == 3.5 and np.add.reduce(y) == 3.5 and np.allclose(y, [2.0, 0.5, 1.0])
        np.testing.assert_array_equal(np.sort(y), [0.5, 1.0, 2.0])
        np.add(y, 1.0, out=y, where=np.array([True, False, False]))
        assert isinstance(np.sin(y, dtype=np.float32), type(y)) and y[0] == 3.0
        return x * np.sum(y)

    assert ft.grad(f)(1.0) == 4.5


def test_what_was_computed_from_a_handle_keeps_its_values():
    """An inner trace takes an outer value, traced or made here, for a constant: a later write must not reach it."""

    def f(x):
        y, z = x * 1.0, fnp.ones(2)
        _, pull = ft.vjp(lambda w: w * y + w**2 * z, np.ones(2))
        y[0] = 100.0
        z[1] = 100.0
        return np.sum(pull(np.ones(2))[0])

    np.testing.assert_array_equal(ft.grad(f)(np.array([3.0, 4.0])), [1.0, 1.0])
    assert ft.value_and_grad(f)(np.array([3.0, 4.0]))[0] == 11.0


def test_a_copy_is_another_array():
    def f(x):
        y = x * 1.0
        a, b, c = fnp.array(y), y.copy(), fnp.asarray(y)
        y[0] = 5.0
        return a[0] + 10 * b[0] + 100 * c[0]

    np.testing.assert_array_equal(ft.grad(f)(np.array([2.0, 3.0])), [11.0, 0.0])


@pytest.mark.parametrize(
    "write",
    [
        lambda y, k: y.__setitem__(k, y[k - 1] * 2),
        lambda y, k: y.__setitem__(slice(k, k + 2), y[k - 1 : k + 1] * 2),
        lambda y, k: y.__setitem__([k, k - 1], y[k]),
        lambda y, k: exec("y[k] += 1.5; y[k:k + 3] *= y[0]", {"y": y, "k": k}),
    ],
)
def test_a_loop_of_writes_does_not_copy_the_array(write):
    def f(x):
        y = x * np.ones(6000)
        for k in range(1, 20):
            write(y, k)
        return np.sum(y[:40] ** 2) / 1e6

    ft.check_grads(f, np.array([0.9]))
    tape = record(lambda x: [f(x)], [np.array([0.9])], "a test")
    writes = [entry[0] for entry in tape.entries if entry[0].name == "index_set"]
    assert len(writes) >= 19
    assert sum(op is not index_write for op in writes) <= 1  # the first makes a copy that is the handle's own


def test_writes_after_which_an_older_array_is_still_looked_at():
    def f(x):
        y = x * np.ones(5000)
        y[0] = 2.0
        kept = []
        for k in range(1, 6):
            y[k] = y[k - 1] * x[0]
            kept += [y * 1.0, y[:3], y[k], y.reshape(50, 100), np.sin(y)]  # some share its memory, some keep it on the tape
            y[k] *= y[k]
        return sum(np.sum(v[..., :9]) if v.shape else v for v in kept)

    ft.check_grads(f, np.array([0.7]), rtol=1e-4)


def test_masks_that_differ_in_a_batch():
    def f(x):
        y = x * 1.0
        y[y > 1] = 2.0
        y[x < 0] += 5.0
        return np.sum(y**2)

    x = np.array([[0.5, 1.5, -1.0], [2.0, 3.0, 0.1]])
    np.testing.assert_array_equal(ft.vmap(lambda x: np.where(x > 1, 2.0, x).sum())(x), [3.0 - 1.5 + 0.5 - 0.5, 4.1])
    y = lambda x: np.sum(np.where(x > 1, 2.0, x) ** 2)  # noqa: E731

    def g(x):
        z = x * 1.0
        z[z > 1] = 2.0
        return np.sum(z**2)

    np.testing.assert_array_equal(ft.vmap(ft.grad(g))(x), ft.vmap(ft.grad(y))(x))
    assert ft.grad(f)(x[0])[1] == 0
    np.testing.assert_array_equal(ft.vmap(lambda x: fnp.at(x)[x > 1].add(2.0))(x), x + 2.0 * (x > 1))
    for chosen in (lambda x: x[x > 1], lambda x: np.compress(x > 1, x), lambda x: np.extract(x > 1, x)):
        np.testing.assert_array_equal(ft.vmap(ft.grad(lambda x, chosen=chosen: np.sum(chosen(x) ** 2)))(x), 2 * x * (x > 1))


def test_a_trace_that_an_interrupt_left_open_makes_no_handles():
    """Ctrl-C may come in the moment in which a trace begins or ends, as after this line."""
    trace = Trace("grad(f)")
    assert type(fnp.zeros(3)) is type(fnp.zeros(3) + 1) is np.ndarray
    assert not trace.closed
    assert ft.grad(lambda x: written(fnp.zeros(3), x))(2.0) == 1.0


def written(y, x):
    y[0] = x
    return y.sum()


PARTS = {
    "one": 1, "array": np.array([0, 1]), "list": [1, 0], "matrix": np.array([[0, 1], [1, 0]]), "mask": np.array([True, False, True]),
    "all": slice(None), "rest": slice(1, None), "new": None, "...": ..., "number of the example": "i", "array of the example": "j",
}  # fmt: skip
MIXED = [names for n in (2, 3) for names in itertools.product(PARTS, repeat=n) if any("example" in name for name in names)]


@pytest.mark.parametrize("first", PARTS)
def test_integers_that_differ_between_examples_stand_beside_other_indices(first, rng):
    """As in a loop over the examples, where NumPy takes the index: read, differentiated, and written to."""
    x, i, j = rng.normal(size=(2, 3, 4, 3, 2)), np.array([0, 2]), np.array([[0, 2], [1, 1]])
    taken = 0
    for names in (names for names in MIXED if names[0] == first and names.count("...") < 2):
        parts = [PARTS[p] for p in names]

        def key(i, j, parts=parts):
            return tuple((i if p == "i" else j) if isinstance(p, str) else p for p in parts)

        def written(x, i, j, key=key):
            y = x + 0
            y[key(i, j)] = y[key(i, j)] * 2 + 1
            return y

        try:
            want = [x[k][key(i[k], j[k])] for k in range(2)]
        except IndexError:
            continue
        taken += 1
        np.testing.assert_array_equal(ft.vmap(lambda x, i, j, key=key: x[key(i, j)])(x, i, j), want, str(names))
        slopes = ft.vmap(ft.grad(lambda x, i, j, key=key: np.sum(x[key(i, j)] ** 3)))(x, i, j)
        each = [ft.grad(lambda x, k=k, key=key: np.sum(x[key(i[k], j[k])] ** 3))(x[k]) for k in range(2)]
        np.testing.assert_allclose(slopes, each, err_msg=str(names))
        np.testing.assert_allclose(ft.vmap(written)(x, i, j), [written(x[k], i[k], j[k]) for k in range(2)], err_msg=str(names))
    assert taken >= 12
