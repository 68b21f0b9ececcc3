"""The transforms: call conventions, closed forms, pytrees, shapes and dtypes, complex numbers, batching, custom rules."""

import collections
import dataclasses
import functools
import inspect
import itertools
import os
import sys
import types
import warnings

import numpy as np
import pytest
from helpers import differences

import functrace as ft
import functrace.numpy as fnp
from functrace import errors

close = functools.partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-14)


def same(got, want):
    """Two trees: equal structure, shapes, dtypes and values."""
    assert ft.tree.structure(got) == ft.tree.structure(want)
    for a, b in zip(ft.tree.leaves(got), ft.tree.leaves(want)):
        assert np.shape(a) == np.shape(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        close(a, b)


X = np.array([1.0, 2.0, 3.0])


def f3(x, y, z):
    """x y**2 z**3."""
    return x * y**2 * z**3


# Which argument


@pytest.mark.parametrize("argnums", [0, 1, 2, -1, -3, (0,), (2, 0), [0, 1], (0, -2), np.int64(1), ()])
def test_argnums(argnums):
    # at (1, 2, 3): d/dx = 108, d/dy = 2 y z**3 = 108, d/dz = 3 y**2 z**2 = 108: distinguish them by scaling
    scale = {0: 1.0, 1: 10.0, 2: 100.0}
    f = lambda x, y, z: f3(1.0 + scale[0] * (x - 1), 2.0 + scale[1] * (y - 2), 3.0 + scale[2] * (z - 3))  # noqa: E731
    got = ft.grad(f, argnums)(1.0, 2.0, 3.0)
    numbers = [argnums] if not isinstance(argnums, (tuple, list)) else argnums
    wanted = tuple(108.0 * scale[k % 3] for k in numbers)
    assert got == (wanted if isinstance(argnums, (tuple, list)) else wanted[0])
    assert isinstance(got, tuple) == isinstance(argnums, (tuple, list))
    value, grads = ft.value_and_grad(f, argnums)(1.0, 2.0, 3.0)
    assert value == 108.0 and grads == got


def g(x, y=2.0, *, z=3.0):
    return x + 10 * y + 100 * z


def test_argnames_by_keyword_or_position():
    assert ft.grad(g, argnames="x")(1.0) == 1.0
    assert ft.grad(g, argnames="x")(x=1.0) == 1.0
    assert ft.grad(g, argnames="y")(1.0, 2.0) == 10.0
    assert ft.grad(g, argnames="y")(1.0, y=2.0) == 10.0
    assert ft.grad(g, argnames="z")(1.0, z=2.0) == 100.0
    assert ft.grad(g, argnames=("z", "x"))(1.0, z=2.0) == (100.0, 1.0)
    assert ft.grad(g, argnames=("x",))(1.0) == (1.0,)
    assert ft.grad(g, 0, argnames="z")(1.0, z=2.0) == (1.0, 100.0)
    assert ft.grad(g, (0, 1), argnames=("z",))(1.0, 5.0, z=2.0) == (1.0, 10.0, 100.0)
    assert ft.grad(g)(x=1.0, y=3.0) == 1.0  # the first argument, by keyword
    assert ft.grad(g, 1)(x=1.0, y=3.0) == 10.0
    with pytest.raises(errors.ArgnumsError):
        ft.grad(g, argnames="z")(1.0)  # it has a default, but the call does not pass it
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        ft.grad(g, argnames="y")(y=2.0)


def test_argnames_of_functions_with_var_keywords():
    f = lambda **kw: kw["a"] * kw["b"]  # noqa: E731
    assert ft.grad(f, argnames="b")(a=2.0, b=3.0) == 2.0
    h = lambda *args, **kw: args[1] * kw["b"]  # noqa: E731
    assert ft.grad(h, 1)(1.0, 2.0, b=3.0) == 3.0
    assert ft.grad(h, argnames="b")(1.0, 2.0, b=3.0) == 2.0


@pytest.mark.parametrize("transform", [ft.jacrev, ft.jacfwd, ft.jacobian, ft.hessian])
def test_argnames_of_jacobians(transform):
    f = lambda x, y: (x * y * y).sum()  # noqa: E731
    order = 2 if transform is ft.hessian else 1
    same(transform(f, argnames="y")(X, y=2.0), {1: 2 * 6 * 2.0, 2: 2 * 6.0}[order])
    assert isinstance(transform(f, argnames=("y",))(X, y=2.0), tuple)


def test_keyword_arguments_are_passed_on():
    f = lambda x, *, power, scale=1.0: scale * np.sum(x**power)  # noqa: E731
    close(ft.grad(f)(X, power=3), 3 * X**2)
    close(ft.grad(f)(X, power=2, scale=5.0), 10 * X)
    close(ft.vjp(f, X, power=3)[1](1.0)[0], 3 * X**2)
    close(ft.jvp(f, (X,), (X,), power=2)[1], 2 * X @ X)
    close(ft.linearize(f, X, power=2)[1](X), 2 * X @ X)
    close(ft.hvp(f, (X,), (X,), power=3), 6 * X * X)
    close(ft.jacrev(f)(X, power=2), 2 * X)
    close(ft.vmap(f)(X, power=np.array([1, 2, 3]) * 1.0), X ** np.array([1, 2, 3]))
    assert ft.trace(f)(X, power=2).outputs[0] == 14.0


class Model:
    def __init__(self, w):
        self.w = w

    def loss(self, x):
        return self.w * x**2

    def __call__(self, x):
        return self.loss(x)

    @staticmethod
    def static(x):
        return x**2

    @classmethod
    def clsm(cls, x):
        return x**2


def test_callables_of_every_kind():
    m = Model(3.0)
    assert ft.grad(m.loss)(2.0) == 12.0
    assert ft.grad(m)(2.0) == 12.0
    assert ft.grad(Model.static)(2.0) == 4.0
    assert ft.grad(m.clsm)(2.0) == 4.0
    assert ft.grad(functools.partial(f3, 1.0))(2.0, 3.0) == 4 * 27.0
    assert ft.grad(functools.partial(f3, y=2.0, z=3.0))(1.0) == 108.0
    assert ft.grad(np.sin)(0.0) == 1.0
    assert ft.grad(fnp.sin)(0.0) == 1.0
    assert ft.vmap(np.sin)(np.zeros(2)).tolist() == [0.0, 0.0]
    assert ft.grad(ft.grad(np.sin))(0.0) == 0.0
    assert ft.trace(np.sin)(0.0).outputs == [0.0]
    with pytest.raises(ft.errors.NonScalarOutputError, match=r"grad\(Model\): "):
        ft.grad(m)(X)


def test_wrapped_names_and_docstrings():
    for transform in (ft.grad, ft.value_and_grad, ft.jacrev, ft.jacfwd, ft.jacobian, ft.hessian, ft.vmap, ft.checkpoint, ft.trace):
        wrapped = transform(f3)
        assert wrapped.__name__ == "f3"
        assert wrapped.__doc__ == f3.__doc__
        assert list(inspect.signature(wrapped).parameters) == ["x", "y", "z"]


# has_aux


def test_has_aux():
    f = lambda x: (np.sum(x**2), {"x2": x * 2, "n": 3, "name": "run", "none": None})  # noqa: E731
    aux = {"x2": X * 2, "n": 3, "name": "run", "none": None}

    def check(got):
        assert got.keys() == aux.keys()
        assert type(got["x2"]) is np.ndarray
        np.testing.assert_array_equal(got["x2"], aux["x2"])
        assert (got["n"], got["name"], got["none"]) == (3, "run", None)

    g, a = ft.grad(f, has_aux=True)(X)
    close(g, 2 * X)
    check(a)
    (v, a), g = ft.value_and_grad(f, has_aux=True)(X)
    assert v == 14.0
    close(g, 2 * X)
    check(a)
    out, pull, a = ft.vjp(f, X, has_aux=True)
    close(pull(1.0)[0], 2 * X)
    check(a)
    out, t, a = ft.jvp(f, (X,), (X,), has_aux=True)
    assert (out, t) == (14.0, 28.0)
    check(a)
    out, push, a = ft.linearize(f, X, has_aux=True)
    assert push(X) == 28.0
    check(a)
    for transform in (ft.jacrev, ft.jacfwd, ft.jacobian):
        j, a = transform(f, has_aux=True)(X)
        close(j, 2 * X)
        check(a)
    h, a = ft.hessian(f, has_aux=True)(X)
    close(h, 2 * np.eye(3))
    check(a)


def test_aux_of_an_inner_gradient_is_differentiated():
    def f(x):
        g, aux = ft.grad(lambda y: (y * y * x, y * x), has_aux=True)(x)  # 2 x**2, x**2
        return g + aux

    assert ft.grad(f)(3.0) == 6 * 3.0


# Pytrees

Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Params:
    w: object
    b: object
    name: str = dataclasses.field(default="net", metadata={"static": True})


@dataclasses.dataclass(frozen=True)
class Frozen:
    w: object


class Pair:
    def __init__(self, a, b, tag):
        self.a, self.b, self.tag = a, b, tag

    def __eq__(self, other):
        return np.array_equal(self.a, other.a) and np.array_equal(self.b, other.b) and self.tag == other.tag


ft.tree.register(Pair, lambda p: ((p.a, p.b), p.tag), lambda tag, children: Pair(*children, tag))

CONTAINERS = {
    "list": (lambda a, b: [a, b], lambda t: t),
    "tuple": (lambda a, b: (a, b), lambda t: t),
    "dict": (lambda a, b: {"z": a, "a": b}, lambda t: (t["z"], t["a"])),
    "OrderedDict": (lambda a, b: collections.OrderedDict(z=a, a=b), lambda t: (t["z"], t["a"])),
    "defaultdict": (lambda a, b: collections.defaultdict(list, z=a, a=b), lambda t: (t["z"], t["a"])),
    "namedtuple": (lambda a, b: Point(a, b), lambda t: t),
    "dataclass": (lambda a, b: Params(a, b), lambda t: (t.w, t.b)),
    "frozen dataclass": (lambda a, b: Frozen((a, b)), lambda t: t.w),
    "registered": (lambda a, b: Pair(a, b, "tag"), lambda t: (t.a, t.b)),
    "with None": (lambda a, b: [a, None, {"k": None, "b": b}, ()], lambda t: (t[0], t[2]["b"])),
    "nested": (lambda a, b: {"l": [Point(a, None)], "p": Params((b,), [])}, lambda t: (t["l"][0].x, t["p"].w[0])),
    "int keys": (lambda a, b: {2: a, 1: b}, lambda t: (t[2], t[1])),
    "mixed keys": (lambda a, b: {"s": a, 1: b}, lambda t: (t["s"], t[1])),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_pytrees_in(name):
    make, parts = CONTAINERS[name]
    a, b = np.array([1.0, 2.0]), np.float32(3.0)
    tree = make(a, b)

    def f(t):
        u, v = parts(t)
        return np.sum(u**2) * v

    want = make(2 * a * 3.0, np.float32(5.0))
    got = ft.grad(f)(tree)
    assert type(got) is type(tree)
    same(got, want)
    same(ft.vjp(f, tree)[1](np.float64(1.0))[0], want)
    same(ft.jacrev(f)(tree), want)
    out, t = ft.jvp(f, (tree,), (make(np.ones(2), np.float32(1.0)),))
    close(t, 2 * 3.0 * 3.0 + 5.0)
    close(ft.linearize(f, tree)[1](make(np.ones(2), np.float32(1.0))), 23.0)
    got = ft.hvp(f, (tree,), (make(np.ones(2), np.float32(1.0)),))
    close(parts(got)[0], 2 * 3.0 + 2 * a)
    close(parts(got)[1], 6.0)
    batch = make(np.stack([a, 2 * a]), np.array([3.0, 1.0], np.float32))
    close(ft.vmap(f)(batch), [15.0, 20.0])
    grads = ft.vmap(ft.grad(f))(batch)
    close(parts(grads)[1], [5.0, 20.0])
    assert len(ft.trace(f)(tree).inputs) == 2


@pytest.mark.parametrize("name", CONTAINERS)
def test_pytrees_out(name):
    make, parts = CONTAINERS[name]
    f = lambda x: make(x**2, x.sum())  # noqa: E731
    out, pull = ft.vjp(f, X)
    same(out, make(X**2, np.float64(6.0)))
    same(pull(make(np.ones(3), 2.0))[0], 2 * X + 2.0)
    out, t = ft.jvp(f, (X,), (np.ones(3),))
    same(t, make(2 * X, np.float64(3.0)))
    for transform in (ft.jacrev, ft.jacfwd, ft.jacobian):
        same(transform(f)(X), make(np.diag(2 * X), np.ones(3)))
    out = ft.vmap(f)(np.stack([X, 2 * X]))
    same(out, make(np.stack([X**2, 4 * X**2]), np.array([6.0, 12.0])))


def test_jacobian_of_trees_in_and_out():
    f = lambda p: {"out": p["a"][:, None] * p["b"], "s": p["a"].sum()}  # noqa: E731
    p = {"a": X, "b": np.array([1.0, -1.0])}
    want = {
        "out": {"a": np.einsum("ij,k->ikj", np.eye(3), p["b"]), "b": np.einsum("i,kl->ikl", X, np.eye(2))},
        "s": {"a": np.ones(3), "b": np.zeros(2)},
    }
    for transform in (ft.jacrev, ft.jacfwd, ft.jacobian):
        same(transform(f)(p), want)
    h = ft.hessian(lambda p: f(p)["out"].sum() * p["a"][0])(p)
    assert h["a"]["b"].shape == (3, 2)
    close(h["a"]["b"], h["b"]["a"].T)


def test_shapes_of_jacobians_and_hessians():
    f = lambda x, y: x[:, :, None] * y  # noqa: E731
    x, y = np.ones((2, 3)), np.ones(4)
    for transform in (ft.jacrev, ft.jacfwd, ft.jacobian):
        a, b = transform(f, (0, 1))(x, y)
        assert a.shape == (2, 3, 4, 2, 3)
        assert b.shape == (2, 3, 4, 4)
        assert transform(lambda x: x.sum())(x).shape == (2, 3)
        assert transform(lambda x: x * np.ones(3))(2.0).shape == (3,)
        assert transform(lambda x: x * 2)(2.0) == 2.0
        assert transform(lambda x: x[:0])(X).shape == (0, 3)
        assert transform(lambda x: np.ones(2))(X).shape == (2, 3)
        assert transform(lambda x: x.sum() * np.ones(2))(np.ones(0)).shape == (2, 0)
    h = ft.hessian(lambda x, y: (f(x, y) ** 2).sum(), (0, 1))(x, y)
    assert h[0][1].shape == (2, 3, 4)
    assert h[1][0].shape == (4, 2, 3)


def test_integer_leaves_get_zeros():
    tree = {"w": X, "n": np.array([1, 2]), "k": 3, "flag": True, "i": np.int64(2)}
    g = ft.grad(lambda t: np.sum(t["w"] ** t["k"]) * t["n"][0] if t["flag"] else 0.0)(tree)
    close(g["w"], 3 * X**2)
    assert g["n"].shape == (2,) and g["n"].dtype == np.float64 and not g["n"].any()
    assert g["i"] == 0.0
    # a Python number inside a container is differentiated, ints too: they are weak, as everywhere
    assert np.asarray(g["k"]).dtype == np.float64
    assert g["flag"] == 0.0
    for jacobian in (ft.jacobian, ft.jacrev, ft.jacfwd):
        got = jacobian(lambda t: t["w"] * t["n"].sum())(tree)
        close(got["w"], 3 * np.eye(3))
        assert {k: (g.shape, g.any()) for k, g in got.items() if k != "w"} == {
            "n": ((3, 2), False), "k": ((3,), False), "flag": ((3,), False), "i": ((3,), False)
        }  # fmt: skip


def test_python_numbers_count_as_float64():
    for x in (2, 2.0, np.float64(2.0)):
        out = ft.grad(lambda x: x * x)(x)
        assert type(out) is np.float64 and out == 4.0
    assert type(ft.grad(lambda x: x * x)(np.array(2.0))) in (np.ndarray, np.float64)
    seen = []
    ft.grad(lambda x: seen.append(x.dtype) or x * x)(2)
    assert seen == [np.float64]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_gradients_have_the_dtype_of_their_arguments(dtype):
    x, w = np.ones((2, 3), dtype), np.ones(3, np.float64)
    f = lambda x: np.sum(np.tanh(x * w) * 2 + x / 3 - x**2)  # noqa: E731
    assert ft.grad(f)(x).dtype == dtype
    assert ft.grad(lambda x: sum(v for v in x.reshape(-1)))(x).dtype == dtype  # Python's sum starts with an int 0
    assert ft.grad(lambda x: x.mean())(x).dtype == dtype
    assert ft.grad(lambda x: x.sum() / x.size)(x).dtype == dtype
    assert ft.vjp(lambda x: x * 2, x)[1](np.ones((2, 3)))[0].dtype == dtype
    out, t = ft.jvp(lambda x: x * 2, (x,), (x,))
    assert out.dtype == t.dtype == dtype
    assert ft.jacrev(lambda x: x[0] * 2)(x).dtype == dtype
    assert ft.jacfwd(lambda x: x[0] * 2)(x).dtype == dtype
    assert ft.vmap(lambda x: x * 2)(x).dtype == dtype
    assert ft.hessian(lambda x: (x**3).sum())(x[0]).dtype == dtype
    s = dtype(2.0)
    out = ft.grad(lambda x: x * 2.0 * x)(s)
    assert out.dtype == dtype and out == 8.0


def test_the_tangent_of_a_broadcast_argument_has_the_shape_and_dtype_of_the_result():
    wide = np.ones((2, 3))
    for f in (lambda x: x + wide, lambda x: wide - x, lambda x: np.hypot(x, wide)):
        out, tangent = ft.jvp(f, (np.ones(3, np.float32),), (np.ones(3, np.float32),))
        assert tangent.shape == out.shape == (2, 3) and tangent.dtype == out.dtype == np.float64


def test_a_result_that_does_not_depend_on_the_argument():
    same(ft.grad(lambda x: 3.0)(X), np.zeros(3))
    same(ft.grad(lambda x: np.float64(3.0))(X), np.zeros(3))
    same(ft.grad(lambda x, y: y * 1.0, 0)(X, 2.0), np.zeros(3))
    same(ft.grad(lambda x: 5)(X), np.zeros(3))
    same(ft.jvp(lambda x: np.ones(2), (X,), (X,))[1], np.zeros(2))
    same(ft.vjp(lambda x: np.ones(2), X)[1](np.ones(2))[0], np.zeros(3))
    same(ft.hessian(lambda x: x.sum())(X), np.zeros((3, 3)))
    same(ft.vmap(lambda x: 5.0)(X), np.full(3, 5.0))
    zero = ft.jvp(lambda x: np.float32(3), (X,), (X,))[1]
    assert type(zero) is np.float32 and zero == 0
    assert isinstance(ft.grad(lambda x: 3.0)(np.array(2.0)), np.ndarray)


# Closed forms


def test_closed_forms(rng):
    a = rng.normal(size=(3, 3))
    f = lambda x: x @ a @ x  # noqa: E731
    close(ft.grad(f)(X), (a + a.T) @ X)
    close(ft.hessian(f)(X), a + a.T)
    close(ft.hvp(f, (X,), (a[0],)), (a + a.T) @ a[0])
    for transform in (ft.jacrev, ft.jacfwd, ft.jacobian):
        close(transform(lambda x: a @ x)(X), a)
        close(transform(lambda x: np.sin(x) * x)(X), np.diag(np.cos(X) * X + np.sin(X)))
    out, pull = ft.vjp(lambda x: a @ x, X)
    close(out, a @ X)
    close(pull(X)[0], a.T @ X)
    close(pull(2 * X)[0], 2 * a.T @ X)  # called again
    out, push = ft.linearize(lambda x: a @ np.sin(x), X)
    close(push(X), a @ (np.cos(X) * X))
    close(push(2 * X), 2 * push(X))


def test_jacobian_takes_the_cheaper_mode():
    modes = []

    @ft.custom_vjp
    def f(x):
        return x * 1.0

    f.defvjp(lambda x: (x * 1.0, None), lambda _, g: (modes.append("forward" if np.ndim(ft.value(g)) == 1 else "reverse") or g,))
    results = (lambda y: y[:2], lambda y: y, lambda y: np.concatenate([y, y]))
    for transform, out in itertools.product((ft.jacrev, ft.jacfwd, ft.jacobian), results):
        close(transform(lambda x, out=out: out(f(x)))(X), out(np.eye(3)))
    assert modes == ["reverse"] * 3 + ["forward"] * 3 + ["reverse", "reverse", "forward"]


def test_jacobian_replays_the_tape_not_the_function():
    calls = []
    for transform in (ft.jacrev, ft.jacfwd, ft.jacobian):
        calls.clear()
        transform(lambda x: calls.append(1) or np.sin(x))(X)
        assert calls == [1]


def test_vjp_of_several_arguments():
    out, pull = ft.vjp(lambda x, y: (x * y, x + y), X, 2.0)
    a, b = pull((np.ones(3), np.ones(3)))
    close(a, np.full(3, 3.0))
    close(b, 6.0 + 3.0)
    assert b.shape == ()
    assert ft.vjp(lambda: 1.0)[1](1.0) == ()


def test_hvp_of_several_arguments():
    f = lambda x, y: (x**2 * y).sum()  # noqa: E731
    a, b = ft.hvp(f, (X, 2.0), (np.ones(3), 1.0))
    close(a, 2 * 2.0 * np.ones(3) + 2 * X)
    close(b, 2 * X.sum())


# Complex numbers: JAX's conventions


def test_real_function_of_a_complex_argument():
    # df/dx - i df/dy: of |z|**2 it is 2 conj(z)
    z = 3.0 + 4.0j
    f = lambda z: np.real(z) ** 2 + np.imag(z) ** 2  # noqa: E731
    close(ft.grad(f)(z), 2 * np.conj(z))
    close(ft.grad(lambda z: abs(z) ** 2)(z), 2 * np.conj(z))
    close(ft.grad(lambda z: np.real(z * np.conj(z)))(z), 2 * np.conj(z))
    close(ft.grad(np.real)(z), 1.0)
    close(ft.grad(np.imag)(z), -1.0j)
    close(ft.grad(abs)(z), np.conj(z) / abs(z))
    close(ft.grad(lambda z: np.real(z**2))(z), 2 * z)
    close(ft.grad(lambda z: np.real(np.exp(z)))(z), np.exp(z))


def test_complex_gradient_by_differences(rng):
    z = rng.normal(size=3) + 1j * rng.normal(size=3)
    a = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))

    def f(z):
        return np.sum(np.abs(a @ np.sin(z)) ** 2) + np.sum(np.imag(z * z)) + np.sum(np.real(z / (2 + z * np.conj(z))))

    dx = differences(lambda x: f(x + 1j * z.imag), z.real)
    dy = differences(lambda y: f(z.real + 1j * y), z.imag)
    np.testing.assert_allclose(ft.grad(f)(z), dx - 1j * dy, rtol=1e-7)
    t = rng.normal(size=3) + 1j * rng.normal(size=3)
    _, pushed = ft.jvp(f, (z,), (t,))
    np.testing.assert_allclose(pushed, dx @ t.real + dy @ t.imag, rtol=1e-7)
    assert pushed.dtype == np.float64


@pytest.mark.parametrize("derivative", [ft.jacrev, ft.jacfwd, ft.hessian])
def test_blocks_of_derivatives_are_the_callers_own(derivative):
    assert type(derivative(lambda x: x * x)(3.0)) is np.float64
    blocks = derivative(lambda x, y: np.sum(x * y * y), (0, 1))(X, X)
    assert all(block.base is None for block in ft.tree.leaves(blocks))


def test_holomorphic():
    z = 0.3 + 0.7j
    close(ft.grad(lambda z: z**3, holomorphic=True)(z), 3 * z**2)
    close(ft.grad(np.exp, holomorphic=True)(z), np.exp(z))
    close(ft.grad(ft.grad(np.sin, holomorphic=True), holomorphic=True)(z), -np.sin(z))
    zs = np.array([z, 2 * z])
    for transform in (ft.jacrev, ft.jacfwd, ft.jacobian):
        close(transform(np.sin, holomorphic=True)(zs), np.diag(np.cos(zs)))
        for f, x in ((np.sin, zs), (np.abs, zs), (lambda x: x * 1j, X)):
            if transform is ft.jacfwd and x is X:
                close(transform(f)(x), 1j * np.eye(3))  # a tangent is complex where its value is
                continue
            with pytest.raises(errors.InputTypeError):
                transform(f)(x)
    close(ft.hessian(lambda z: np.sum(z**3), holomorphic=True)(zs), np.diag(6 * zs))


def test_complex_tangents_and_cotangents():
    z, t = np.array([0.3 + 0.7j]), np.array([1.0 - 2.0j])
    out, dt = ft.jvp(np.sin, (z,), (t,))
    close(dt, np.cos(z) * t)
    out, pull = ft.vjp(np.sin, z)
    close(pull(t)[0], t * np.cos(z))  # not conjugated
    # c -> c, not holomorphic: conj
    close(ft.jvp(np.conj, (z,), (t,))[1], np.conj(t))
    close(ft.vjp(np.conj, z)[1](t)[0], np.conj(t))
    # r -> c: the cotangent of a real argument is real
    out, pull = ft.vjp(lambda x: x * (1 + 2j), X)
    (g,) = pull(np.ones(3) * (3 - 1j))
    assert g.dtype == np.float64
    close(g, np.real((3 - 1j) * (1 + 2j)))
    # c -> r
    out, pull = ft.vjp(np.real, z)
    assert pull(np.ones(1))[0].dtype == np.complex128


def test_complex_linearity_of_pullback_and_pushforward(rng):
    """Re(ct . jvp(t)) = Re(vjp(ct) . t), the pairing of JAX's convention."""
    z, t, c = (rng.normal(size=4) + 1j * rng.normal(size=4) for _ in range(3))
    for f in (np.sin, np.conj, lambda z: z * np.conj(z) + np.exp(z), lambda z: np.abs(z) * z, lambda z: np.real(z) + 1j * np.imag(z) ** 2):
        _, dt = ft.jvp(f, (z,), (t,))
        (g,) = ft.vjp(f, z)[1](c)
        close(np.sum(np.real(c * dt)), np.sum(np.real(g * t)))


# vmap


def loop(f, *args, axes=0):
    axes = (axes,) * len(args) if axes is None or isinstance(axes, int) else axes
    size = next(np.shape(a)[ax] for a, ax in zip(args, axes) if ax is not None)
    return np.stack([f(*(a if ax is None else np.take(a, k, ax) for a, ax in zip(args, axes))) for k in range(size)])


@pytest.mark.parametrize("axes", [0, 1, -1, (0, None), (None, 0), (1, 0), (2, 1), (-1, None), (-2, -1)])
def test_vmap_in_axes(axes, rng):
    a, b = rng.normal(size=(3, 3, 3)), rng.normal(size=(3, 3))
    f = lambda x, y: np.tanh(x) @ np.exp(y) if y.ndim == 1 else x @ y  # noqa: E731
    close(ft.vmap(f, in_axes=axes)(a, b), loop(f, a, b, axes=axes))
    close(ft.vmap(f, in_axes=list(axes) if isinstance(axes, tuple) else axes)(a, b), loop(f, a, b, axes=axes))


@pytest.mark.parametrize("out", [0, 1, 2, -1, -2])
def test_vmap_out_axes(out, rng):
    a = rng.normal(size=(4, 2, 3))
    close(ft.vmap(np.sin, out_axes=out)(a), np.moveaxis(np.sin(a), 0, out))
    one, two = ft.vmap(lambda x: (x, x[0]), out_axes=(out, 0))(a)
    close(one, np.moveaxis(a, 0, out))
    close(two, a[:, 0])


def test_vmap_pytree_axes(rng):
    w, b, x = rng.normal(size=(3, 2)), rng.normal(size=(5,)), rng.normal(size=(2, 5))
    f = lambda p, x: {"y": p["w"] @ x + p["b"], "b": p["b"]}  # noqa: E731
    out = ft.vmap(f, in_axes=({"w": None, "b": 0}, 1), out_axes={"y": 1, "b": 0})({"w": w, "b": b}, x)
    close(out["y"], w @ x + b)
    close(out["b"], b)
    out = ft.vmap(f, in_axes=(None, -1))({"w": w, "b": 1.0}, x)
    close(out["y"], (w @ x + 1.0).T)
    nested = ft.vmap(lambda t: t[0] * t[1][0], in_axes=((0, [None]),))((b, [2.0]))
    close(nested, 2 * b)


@dataclasses.dataclass
class Checked:
    """A layer that looks at what it is made of: a tree of anything but arrays is none."""

    w: np.ndarray
    b: np.ndarray

    def __post_init__(self):
        assert self.w.shape[-1] == self.b.shape[-1]

    def __call__(self, x):
        return np.tanh(x @ self.w + self.b).sum()


def test_vmap_of_a_jitted_function_finds_what_does_not_depend_on_the_batch():
    f = lambda w, x: ((w**2).sum(), w * x)  # noqa: E731
    for mapped in (ft.vmap(ft.jit(f), (None, 0), (None, 0)), ft.jit(ft.vmap(ft.jit(f), (None, 0), (None, 0)))):
        for _ in range(2):
            same(mapped(X, np.arange(4.0)), (np.float64(14.0), X * np.arange(4.0)[:, None]))
    first = ft.grad(ft.jit(lambda w, x: f(w, x)[0]))
    same(ft.vmap(first, (None, 0), None)(X, np.arange(4.0)), 2 * X)
    with pytest.raises(errors.BatchError, match="differs between the examples"):
        ft.vmap(ft.jit(f), (None, 0), None)(X, np.arange(4.0))


def test_vmap_axes_in_classes(rng):
    w, b, x = rng.normal(size=(3, 2)), rng.normal(size=(5, 2)), rng.normal(size=3)
    f = lambda p, x: x @ p.a + p.b  # noqa: E731
    close(ft.vmap(f, in_axes=(Pair(None, 0, "tag"), None))(Pair(w, b, "tag"), x), x @ w + b)
    out = ft.vmap(lambda b: Pair(b, x, "tag"), out_axes=Pair(1, None, "tag"))(b)
    close(out.a, b.T)
    close(out.b, x)
    with pytest.raises(errors.BatchError, match="does not fit the structure"):
        ft.vmap(f, in_axes=([None, 0], None))(Pair(w, b, "tag"), x)


@pytest.mark.parametrize("kind", ["jit", "jit(grad)", "checkpoint", "custom_vjp", "custom_jvp", "donated"])
def test_classes_of_arrays_stay_classes_of_arrays(kind, rng):
    """Where a call is batched or examined, no object of the user's class is made of anything else."""
    call = lambda p, x: p(x)  # noqa: E731
    ruled = ft.custom_vjp(call)
    ruled.defvjp(lambda p, x: (call(p, x), (p, x)), lambda r, g: ft.tree.map(lambda d: g * d, ft.grad(call, (0, 1))(*r)))
    pushed = ft.custom_jvp(call)
    pushed.defjvp(lambda primals, tangents: ft.jvp(call, primals, tangents))
    kinds = {"jit": ft.jit(call), "jit(grad)": ft.jit(ft.grad(call)), "checkpoint": ft.checkpoint(call), "custom_vjp": ruled}
    f = {**kinds, "custom_jvp": pushed, "donated": ft.jit(call, donate_argnums=-2)}[kind]
    p, x = Checked(rng.normal(size=(3, 2)), rng.normal(size=2)), rng.normal(size=3)
    rows = ft.tree.map(lambda a: np.stack([a, 2 * a]), p)
    want = ft.grad(call) if kind == "jit(grad)" else call
    same(ft.vmap(f, in_axes=(0, None))(rows, x), ft.vmap(want, in_axes=(0, None))(rows, x))
    same(f(ft.tree.map(np.copy, p), x), want(p, x))


def test_vmap_axis_size():
    assert ft.vmap(lambda: 3.0, axis_size=4)().tolist() == [3.0] * 4
    assert ft.vmap(lambda x: x * 2, in_axes=None, axis_size=2)(X).shape == (2, 3)
    assert ft.vmap(lambda x: x, axis_size=3)(X).shape == (3,)


def test_vmap_of_an_empty_batch():
    assert ft.vmap(lambda x: np.sin(x).sum())(np.ones((0, 3))).shape == (0,)
    assert ft.vmap(ft.grad(lambda x: np.sin(x).sum()))(np.ones((0, 3))).shape == (0, 3)


def test_vmap_keyword_arguments():
    f = lambda x, *, y: x + y  # noqa: E731
    close(ft.vmap(f)(X, y=X), 2 * X)
    close(ft.vmap(f, in_axes=None)(1.0, y=X), 1.0 + X)


def test_nested_vmap(rng):
    a, b = rng.normal(size=(3, 4)), rng.normal(size=(5, 4))
    pair = ft.vmap(ft.vmap(np.dot, in_axes=(None, 0)), in_axes=(0, None))
    close(pair(a, b), a @ b.T)
    other = ft.vmap(ft.vmap(np.dot, in_axes=(0, None)), in_axes=(None, 0))
    close(other(a, b), b @ a.T)
    grads = ft.vmap(ft.vmap(ft.grad(lambda x, y: np.sin(x @ y)), in_axes=(None, 0)), in_axes=(0, None))(a, b)
    close(grads, np.cos(a @ b.T)[..., None] * b)


def test_vmap_of_values_that_are_no_arrays():
    close(ft.vmap(lambda x, s: x * s, in_axes=(0, None))(X, 2), 2 * X)
    close(ft.vmap(lambda x: x[0] * x[1])([X, X]), X * X)  # a list of two arrays is a tree
    assert ft.vmap(lambda x: x > 1)(X).tolist() == [False, True, True]
    assert ft.vmap(lambda n: n + 1)(np.arange(3)).dtype == np.arange(3).dtype


def test_vmap_side_effects_run_once():
    calls = []
    ft.vmap(lambda x: calls.append(x.shape) or x)(np.ones((4, 2)))
    assert calls == [(2,)]


def test_vmap_in_place():
    def f(x):
        y = x * 1.0
        y[0] = y[1] * 2
        y += 1.0
        return y

    xs = np.arange(6.0).reshape(3, 2)
    close(ft.vmap(f)(xs), loop(f, xs))
    close(ft.vmap(ft.jacrev(f))(xs), np.stack([ft.jacrev(f)(x) for x in xs]))


def test_vmap_closure_over_a_traced_value():
    # the gradient's shape is that of the closed-over value (J#6452)
    g = ft.grad(lambda w: ft.vmap(lambda x: x * w)(X).sum())(2.0)
    assert g == 6.0 and g.shape == ()
    w = np.array([1.0, 2.0])
    g = ft.grad(lambda w: ft.vmap(lambda x: x * w)(X).sum())(w)
    close(g, [6.0, 6.0])


# stop_gradient


def test_stop_gradient():
    assert ft.grad(lambda x: x * ft.stop_gradient(x))(3.0) == 3.0
    assert ft.jvp(lambda x: x * ft.stop_gradient(x), (3.0,), (1.0,))[1] == 3.0
    assert ft.grad(ft.grad(lambda x: x**2 * ft.stop_gradient(x)))(3.0) == 6.0
    t = ft.grad(lambda p: np.sum(ft.stop_gradient(p)["a"] * p["a"]))({"a": X})
    close(t["a"], X)
    close(ft.vmap(ft.grad(lambda x: x * ft.stop_gradient(x)))(X), X)
    assert ft.stop_gradient({"a": 1, "b": None}) == {"a": 1, "b": None}
    # inner gradients see through the stop of an outer variable only from outside
    assert ft.grad(lambda x: ft.grad(lambda y: ft.stop_gradient(y) * y * x)(2.0))(5.0) == 2.0


def test_stop_gradient_batched_and_nested_vmap():
    close(ft.vmap(lambda x: ft.stop_gradient(x) * 2)(X), 2 * X)
    close(ft.vmap(ft.vmap(lambda x: ft.stop_gradient(x) * 2))(np.ones((2, 3))), 2 * np.ones((2, 3)))


def test_value():
    plain = np.ones(2)
    assert ft.value(3) == 3
    assert ft.value(plain) is plain and plain.flags.writeable
    assert ft.grad(lambda x: x * ft.value(x))(3.0) == 3.0
    seen = []
    ft.vmap(lambda x: seen.append(ft.value(x)) or x)(X)
    np.testing.assert_array_equal(seen[0], X)


# Custom rules


@ft.custom_vjp
def sinv(x, scale=1.0):
    """scale * sin(x), by hand."""
    return scale * np.sin(x)


sinv.defvjp(lambda x, scale: (scale * np.sin(x), (x, scale)), lambda r, g: (g * r[1] * np.cos(r[0]), np.sum(g * np.sin(r[0]))))


@ft.custom_jvp
def sinj(x, scale=1.0):
    """scale * sin(x), by hand."""
    return scale * np.sin(x)


@sinj.defjvp
def _(primals, tangents):
    (x, scale), (t, u) = primals, tangents
    return sinj(x, scale), scale * np.cos(x) * t + u * np.sin(x)


@ft.checkpoint
def sinc(x, scale=1.0):
    """scale * sin(x), run twice."""
    return scale * np.sin(x)


def test_custom_rules_of_a_ufunc_and_of_keywords_with_defaults():
    ruled = ft.custom_vjp(np.sin)
    ruled.defvjp(lambda x: (np.sin(x), x), lambda x, g: (2 * g * np.cos(x),))
    close(ft.grad(lambda x: ruled(x).sum())(X), 2 * np.cos(X))
    pushed = ft.custom_jvp(lambda x, *, k=3.0: k * x)
    pushed.defjvp(lambda p, t: (3 * p[0], 6 * t[0]))
    close(ft.grad(lambda x: pushed(x).sum())(X), np.full(3, 6.0))


CUSTOM = pytest.mark.parametrize("f", [sinv, sinj, sinc], ids=["custom_vjp", "custom_jvp", "checkpoint"])


@CUSTOM
def test_custom_rules_in_every_transform(f):
    plain = lambda x, scale=1.0: scale * np.sin(x)  # noqa: E731
    s, c = np.sin(X), np.cos(X)
    close(f(X), s)
    close(f(X, 2.0), 2 * s)
    close(f(X, scale=2.0), 2 * s)
    close(ft.grad(lambda x: f(x).sum())(X), c)
    close(ft.grad(lambda x: f(x, scale=3.0).sum())(X), 3 * c)
    close(ft.grad(lambda k: f(X, k).sum())(3.0), s.sum())
    close(ft.grad(lambda x, k: f(scale=k, x=x).sum(), (0, 1))(X, 3.0)[1], s.sum())
    close(ft.jvp(f, (X,), (X,))[1], c * X)
    close(ft.jvp(f, (X, 2.0), (X, 1.0))[1], 2 * c * X + s)
    close(ft.linearize(f, X)[1](X), c * X)
    for transform in (ft.jacfwd, ft.jacrev, ft.jacobian):
        close(transform(f)(X), np.diag(c))
    close(ft.hessian(lambda x: f(x).sum())(X), np.diag(-s))
    close(ft.hvp(lambda x: f(x).sum(), (X,), (X,)), -s * X)
    close(ft.grad(lambda x: ft.grad(lambda y: f(y).sum())(x).sum())(X), -s)
    close(ft.jacfwd(ft.jacfwd(f))(X), ft.jacfwd(ft.jacfwd(plain))(X))
    close(ft.vmap(f)(X), s)
    close(ft.vmap(f, in_axes=(0, None))(np.stack([X, 2 * X]), 2.0), 2 * np.sin([X, 2 * X]))
    close(ft.vmap(f, in_axes=(None, 0))(X, X), X[:, None] * s)
    close(ft.vmap(ft.grad(f))(X), c)
    close(ft.vmap(ft.grad(f, (0, 1)))(X, X)[1], s)
    close(ft.grad(lambda x: ft.vmap(f)(x).sum())(X), c)
    close(ft.jvp(ft.vmap(f), (X,), (X,))[1], c * X)
    close(ft.vmap(ft.vmap(ft.grad(f)))(np.stack([X, X])), [c, c])
    close(ft.grad(ft.grad(ft.grad(f)))(0.7), -np.cos(0.7))
    close(ft.vmap(ft.grad(ft.grad(f)))(X), -s)
    close(ft.grad(lambda x: ft.grad(lambda y: f(x * y))(2.0))(0.7), np.cos(1.4) - 2 * 0.7 * np.sin(1.4))
    assert f.__name__.startswith("sin") and "sin(x)" in f.__doc__
    # float32 stays float32
    assert ft.grad(lambda x: f(x).sum())(X.astype(np.float32)).dtype == np.float32


def test_custom_vjp_rule_is_used():
    f = ft.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, g: (g * 100.0,))
    assert ft.grad(f)(1.0) == 100.0
    assert ft.jvp(f, (1.0,), (1.0,))[1] == 100.0
    assert ft.jacfwd(f)(1.0) == 100.0
    close(ft.vmap(ft.grad(f))(X), np.full(3, 100.0))
    h = ft.custom_jvp(lambda x: x)
    h.defjvp(lambda p, t: (p[0], t[0] * 100.0))
    assert ft.grad(h)(1.0) == 100.0
    assert ft.jvp(h, (1.0,), (1.0,))[1] == 100.0


def test_custom_vjp_trees_and_none():
    @ft.custom_vjp
    def f(p, n, flag):
        return {"y": p["a"] * p["b"], "z": p["a"] + n}

    def bwd(res, g):
        p, n = res
        return {"a": g["y"] * p["b"] + g["z"], "b": np.sum(g["y"] * p["a"])}, None, None

    f.defvjp(lambda p, n, flag: (f(p, n, flag), (p, n)), bwd)
    got = ft.grad(lambda p: (lambda o: o["y"].sum() + 2 * o["z"].sum())(f(p, 3, True)))({"a": X, "b": 2.0})
    close(got["a"], 2.0 + 2.0)
    close(got["b"], 6.0)
    assert ft.grad(lambda n: f({"a": X, "b": 2.0}, n, False)["z"].sum())(1.0) == 0.0


def test_nondiff_argnums():
    @functools.partial(ft.custom_vjp, nondiff_argnums=(0, 2))
    def apply(function, x, n):
        return function(x) ** n

    def bwd(function, n, x, g):
        return (g * n * function(x) ** (n - 1) * np.cos(x),)

    apply.defvjp(lambda function, x, n: (function(x) ** n, x), bwd)
    close(ft.grad(lambda x: apply(np.sin, x, 2))(0.7), 2 * np.sin(0.7) * np.cos(0.7))
    close(ft.grad(lambda x: apply(np.sin, x, n=2))(0.7), 2 * np.sin(0.7) * np.cos(0.7))
    close(ft.jvp(lambda x: apply(np.sin, x, 2), (0.7,), (1.0,))[1], 2 * np.sin(0.7) * np.cos(0.7))
    close(ft.vmap(ft.grad(lambda x: apply(np.sin, x, 2)))(X), 2 * np.sin(X) * np.cos(X))

    @functools.partial(ft.custom_jvp, nondiff_argnums=(1,))
    def power(x, n):
        return x**n

    power.defjvp(lambda n, p, t: (power(p[0], n), n * p[0] ** (n - 1) * t[0]))
    close(ft.grad(lambda x: power(x, 3))(2.0), 12.0)
    close(ft.vmap(ft.grad(lambda x: power(x, 3)))(X), 3 * X**2)


def test_an_array_of_cotangents_is_no_tuple_of_them():
    @ft.custom_vjp
    def f(x, y):
        return np.sum(x * y)

    f.defvjp(lambda x, y: (f(x, y), (x, y)), lambda r, g: g * np.stack([r[1], r[0]]))
    with pytest.raises(ft.errors.CustomRuleError, match="tuple of 2 cotangents, one for each argument, got float64.2,3"):
        ft.grad(f)(np.ones(3), np.ones(3))


def test_custom_vjp_as_a_method():
    class Layer:
        def __init__(self, k):
            self.k = k

        @functools.partial(ft.custom_vjp, nondiff_argnums=(0,))
        def forward(self, x):
            return self.k * x

    Layer.forward.defvjp(lambda self, x: (self.k * x, None), lambda self, _, g: (self.k * g,))
    assert ft.grad(Layer(3.0).forward)(2.0) == 3.0


def test_custom_vjp_of_a_plain_closure():
    def outer(k):
        f = ft.custom_vjp(lambda x: k * x)
        f.defvjp(lambda x: (k * x, None), lambda _, g: (k * g,))
        return f

    assert ft.grad(outer(3.0))(2.0) == 3.0
    # the rule may close over a variable of an outer trace, seen as a constant by the inner one
    assert ft.grad(lambda k: ft.grad(outer(k))(2.0))(3.0) == 1.0


def test_gradient_clipping_identity():
    @ft.custom_vjp
    def clip(x):
        return x

    clip.defvjp(lambda x: (x, None), lambda _, g: (np.minimum(np.maximum(g, -1.0), 1.0),))
    close(ft.grad(lambda x: (clip(x) * np.array([0.5, 5.0, -5.0])).sum())(X), [0.5, 1.0, -1.0])


def test_custom_vjp_residuals_of_any_kind():
    f = ft.custom_vjp(lambda x: x * 2)
    f.defvjp(lambda x: (x * 2, {"k": 2.0, "name": "f", "none": None, "x": x}), lambda r, g: (g * r["k"] if r["name"] == "f" else None,))
    assert ft.grad(f)(1.0) == 2.0
    assert ft.vmap(ft.grad(f))(X).tolist() == [2.0] * 3


# checkpoint


def test_checkpoint_runs_twice_and_keeps_little():
    calls = []

    def f(x):
        calls.append(1)
        return np.sin(np.sin(x)).sum()

    out, pull = ft.vjp(ft.checkpoint(f), X)
    assert len(calls) == 1
    close(pull(1.0)[0], np.cos(np.sin(X)) * np.cos(X))
    assert len(calls) == 2


def test_checkpoint_takes_what_jax_needs_to_be_told():
    @functools.partial(ft.checkpoint, static_argnums=(1,), prevent_cse=False)
    def f(x, train):
        return np.sin(x) if train is True else np.cos(x)

    for jitted in (lambda f: f, lambda f: ft.jit(f, static_argnums=1)):
        assert jitted(ft.grad(f))(1.0, True) == np.cos(1.0) and jitted(ft.grad(f))(1.0, False) == -np.sin(1.0)


def test_checkpoint_closures_trees_and_nesting():
    def loss(w, x):
        layer = ft.checkpoint(lambda h, p: {"h": np.tanh(p["w"] * h) + w[0]})
        h = x
        for _ in range(3):
            h = layer(h, p={"w": w})["h"]
        return ft.checkpoint(lambda h: ft.checkpoint(np.sin)(h).sum())(h)

    def plain(w, x):
        h = x
        for _ in range(3):
            h = np.tanh(w * h) + w[0]
        return np.sin(h).sum()

    w = np.array([0.5, -0.3, 0.8])
    close(ft.grad(loss)(w, X), ft.grad(plain)(w, X))
    close(ft.hessian(loss)(w, X), ft.hessian(plain)(w, X))
    close(ft.jvp(lambda w: loss(w, X), (w,), (w,))[1], ft.jvp(lambda w: plain(w, X), (w,), (w,))[1])


def bilevel(a):
    loss = lambda x: (x - a) ** 2 + 0.1 * a * x**4  # noqa: E731
    return ft.implicit_root(ft.grad(loss), 0.5, solver=newtons)


def newtons(f, x):
    for _ in range(50):
        x = x - f(x) / ft.grad(f)(x)
    return x


def recursive(a):
    scale = lambda x: a * np.sin(x)  # noqa: E731
    power = lambda x, n: x if n == 0 else power(scale(x), n - 1)  # noqa: E731
    return ft.checkpoint(lambda x: power(x, 3) + scale(x))(1.2)


@pytest.mark.parametrize("f", [bilevel, recursive])
def test_traced_values_in_the_closures_of_functions_in_a_closure(f):
    a = 0.8
    slope = (f(a + 1e-5) - f(a - 1e-5)) / 2e-5
    curvature = (f(a + 1e-4) - 2 * f(a) + f(a - 1e-4)) / 1e-8
    assert np.isclose(ft.grad(f)(a), slope, rtol=1e-8)
    assert np.isclose(ft.jvp(f, (a,), (1.0,))[1], slope, rtol=1e-8)
    assert np.isclose(ft.grad(ft.grad(f))(a), curvature, rtol=1e-5)
    np.testing.assert_allclose(ft.vmap(ft.grad(f))(np.array([a, a])), slope, rtol=1e-8)
    assert np.isclose(ft.jit(ft.grad(f))(a), slope, rtol=1e-8)


def test_checkpoint_closure_in_a_container_default_or_global():
    """Traced values that the function reaches in other ways than a closure variable are differentiated, or refused: never dropped."""

    def in_a_list(x):
        box = [x]
        return ft.checkpoint(lambda y: y * box[0])(2.0)

    def in_an_attribute(x):
        class Box:
            pass

        box = Box()
        box.x = x
        return ft.checkpoint(lambda y: y * box.x)(2.0)

    def in_a_default(x):
        return ft.checkpoint(lambda y, k=x: y * k)(2.0)

    def in_a_keyword_default(x):
        return ft.checkpoint(lambda y, *, k=x: y * k)(2.0)

    def in_a_partial(x):
        return ft.checkpoint(functools.partial(lambda k, y: y * k, x))(2.0)

    def in_an_inner_function(x):
        def scale(y):
            return y * x

        return ft.checkpoint(lambda y: scale(y))(2.0)

    def in_a_method(x):
        return ft.checkpoint(Model(x).loss)(2.0) / 2

    def beside_a_traced_argument(x):
        box = {"x": [x]}

        def scale(y):
            return y * box["x"][0]

        return ft.checkpoint(lambda y: scale(y))(x * 0 + 2.0)

    for f in (
        in_a_list,
        in_an_attribute,
        in_a_default,
        in_a_keyword_default,
        in_a_partial,
        in_an_inner_function,
        in_a_method,
        beside_a_traced_argument,
    ):
        for derivative in (ft.grad(f), lambda x, f=f: ft.jvp(f, (x,), (1.0,))[1]):
            try:
                got = derivative(3.0)
            except errors.FunctraceError:
                continue
            assert got == 2.0, f.__name__


def test_checkpoint_puts_the_random_state_back():
    before = np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(3)  # noqa: NPY002

        def f(x):
            return (x * np.random.normal(size=3)).sum()  # noqa: NPY002

        np.random.seed(3)  # noqa: NPY002
        want = np.random.normal(size=3)  # noqa: NPY002
        np.random.seed(3)  # noqa: NPY002
        _, pull = ft.vjp(ft.checkpoint(f), X)
        np.random.normal()  # noqa: NPY002
        close(pull(1.0)[0], want)
        after = np.random.normal()  # noqa: NPY002
        np.random.seed(3)  # noqa: NPY002
        np.random.normal(size=4)  # noqa: NPY002
        assert np.random.normal() == after  # the second run left the state where it was  # noqa: NPY002
    finally:
        np.random.set_state(before)  # noqa: NPY002


@pytest.mark.parametrize("derivative", [ft.grad, ft.hessian, ft.jacfwd, lambda f: ft.vmap(ft.grad(f))])
def test_checkpoint_in_a_compiled_function_is_compiled_with_it(derivative):
    """That the second run gave the same is no reason to look at numbers, which are others in each call."""
    g = derivative(ft.checkpoint(lambda x: np.sum(np.sin(x) ** 3)))
    compiled = ft.jit(g)
    for k in range(3):
        x = np.arange(6.0).reshape(2, 3) + k
        close(compiled(x), g(x))
    assert compiled.cache_info()["recorded"] == 1 and compiled.cache_info()["hits"] == 2


def test_checkpoint_in_a_loop_of_what_differs_between_the_examples_alone():
    x = np.arange(6.0).reshape(2, 3)
    f = lambda x: ft.map(lambda s: s + ft.grad(ft.checkpoint(lambda _: (x * x).sum()))(s), x)
    assert np.array_equal(ft.vmap(f)(x), x)


def test_checkpoint_of_a_function_with_a_name_that_is_not_yet_bound():
    def loss(x):
        y = ft.checkpoint(lambda y: y * x + (0 if y > 0 else len(unbound)))(x)
        if y < 0:
            unbound = ()
        return y

    assert ft.grad(loss)(2.0) == 4.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_checkpoint_of_numbers_so_large_that_their_sum_is_not_finite(dtype):
    lowest = np.finfo(dtype).min  # what masks hold
    f = ft.checkpoint(lambda x: np.where(np.arange(6) > 2, x * x, lowest))
    close(ft.grad(lambda x: f(x)[4])(np.ones(6, dtype)), 2 * np.eye(6)[4])


# trace


def test_trace_prints_names_shapes_dtypes_and_lines():
    def f(x, p):
        y = np.sin(x) * p["w"]
        return {"loss": y.sum(), "big": y > 0}

    line = inspect.getsourcelines(f)[1]
    tape = ft.trace(f)(X, {"w": np.float32(2.0)})
    text = str(tape).splitlines()
    assert text[0] == "x : float64[3]"
    assert text[1] == "p['w'] : float32[]"
    assert text[2].startswith("%2 : float64[3] = sin(x)") and text[2].endswith(f"  # {os.path.basename(__file__)}:{line + 1}, in f")
    assert text[3].startswith("y : float64[3] = multiply(%2, p['w'])")
    assert "bool[3] = greater(y, 0)" in str(tape)
    assert text[-1].startswith("return ")
    assert sum(f":{line + 2}, in f" in t for t in text) == 2
    assert len(tape.entries) == 4


def test_trace_names_what_is_stored():
    def f(x, n):
        y = fnp.zeros(3)
        y[0] = x * 2
        y[n] = x * 3
        a = x + 1
        b = x + 2
        box = types.SimpleNamespace()
        box.z = a * b
        for k in range(2):
            y[k] = y[k] + box.z
        return y.sum()

    names = [line.partition(" :")[0] for line in str(ft.trace(f)(2.0, 1)).splitlines()]
    assert {"y[0]", "y[n]", "a", "b", "box.z", "y[k]"} <= {*names}


def test_trace_shows_an_index_as_it_is_written():
    text = str(ft.trace(lambda x: x[:, 0] + x[..., 1:3:2, None].sum() + x[-1] + x[1:].astype(np.float32).mean())(np.ones((3, 3))))
    for part in ("index=(:, 0)", "index=(..., 1:3:2, None)", "index=-1", "index=1:", "float32)"):
        assert part in text
    assert "index=(:,)" in str(ft.trace(lambda x: x[(slice(None),)])(np.ones(3)))


def test_trace_shows_the_ops_of_a_gradient():
    text = str(ft.trace(ft.grad(lambda x: np.sin(x) * 2.0))(1.0))
    assert "cos(" in text and "multiply(" in text
    value = ft.trace(ft.grad(np.sin))(0.0).outputs[0]
    assert value == 1.0


def test_a_tape_shows_what_the_program_does_not_what_the_engine_looks_at():
    tape = ft.trace(ft.grad(lambda x: (x**3).sum()))(X)
    assert tape.what == "trace(grad(<lambda>))"
    assert "isfinite" not in str(tape) + tape._repr_html_() + tape.draw().mermaid
    assert "multiply([1., 1., 1.], %4)" in str(tape) and "5 operations" in tape._repr_html_()
    source = tape.to_python()
    assert "'the derivative is not finite here'" in source
    names = {}
    exec(source, names)
    np.testing.assert_array_equal(names["f"](X), 3 * X**2)
    with pytest.raises(AssertionError, match="not finite"):
        names["f"](X * np.inf)
    assert str(ft.trace(lambda x: np.float32(2.0) * x + np.array(3))(1.0)).count("np.") == 0


def test_trace_several_results_and_leaves():
    tape = ft.trace(lambda ps, *rest, k=1.0: [p * k for p in ps] + list(rest))([1.0, 2.0], 3.0, k=4.0)
    text = str(tape)
    assert "ps[0] : float64[]" in text and "ps[1] : float64[]" in text
    assert tape.outputs == [4.0, 8.0, 3.0]


def test_trace_of_nothing():
    assert str(ft.trace(lambda: 3.0)()).strip() == "return 3.0"
    assert len(ft.trace(lambda x: x)(1.0).entries) == 0


# check_grads, the tester, tested


def wrong(vjp=None, jvp=None, fun=np.sin):
    if vjp:
        f = ft.custom_vjp(lambda x: fun(x))
        f.defvjp(lambda x: (fun(x), x), vjp)
    else:
        f = ft.custom_jvp(lambda x: fun(x))
        f.defjvp(jvp)
    return f


WRONG = {
    "value": wrong(vjp=lambda x, g: (g * np.cos(x) * 1.001,)),
    "sign": wrong(vjp=lambda x, g: (-g * np.cos(x),)),
    "zero": wrong(vjp=lambda x, g: (None,)),
    "another function's": wrong(vjp=lambda x, g: (g * np.sin(x),)),
    "one element": wrong(vjp=lambda x, g: (g * np.cos(x) * np.array([1.0, 1.0, 1.01]),)),
    "nan": wrong(vjp=lambda x, g: (g * np.nan,)),
    "tangent": wrong(jvp=lambda p, t: (np.sin(p[0]), t[0] * np.cos(p[0]) * 1.001)),
    "tangent's sign": wrong(jvp=lambda p, t: (np.sin(p[0]), -t[0] * np.cos(p[0]))),
    "mixes elements": wrong(vjp=lambda x, g: ((g * np.cos(x))[::-1],)),
    "dropped term": lambda x: ft.stop_gradient(x) * np.sin(x),
    "value not traced": lambda x: np.sin(x) * ft.value(x),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("modes", [("fwd",), ("rev",), ("fwd", "rev")])
def test_check_grads_rejects_wrong_rules(name, modes):
    x = np.array([0.3, 0.7, 1.1])
    with pytest.raises(errors.CheckError):
        ft.check_grads(WRONG[name], x, modes=modes)


def test_check_grads_rejects_a_wrong_second_order_only():
    # cos(x) is right, but its own derivative is cut off
    f = wrong(vjp=lambda x, g: (g * np.cos(ft.stop_gradient(x)),))
    x = np.array([0.3, 0.7])
    ft.check_grads(f, x, order=1)
    with pytest.raises(errors.CheckError, match="order 2"):
        ft.check_grads(f, x, order=2)


def test_check_grads_rejects_a_wrong_vjp_with_a_right_jvp():
    """A primitive whose two halves disagree: only the reverse check can see it."""
    from functrace.core.primitive import Primitive

    op = Primitive(
        "half_wrong", np.sin, arity=1, batch=lambda size, flags, args, params: np.sin(args[0]),
        vjps=(lambda g, ans, x: g * np.cos(x) * 2,), jvps=(lambda t, ans, x: t * np.cos(x),),
    ).op  # fmt: skip
    x = np.array([0.3, 0.7])
    ft.check_grads(op, x, modes=("fwd",))
    with pytest.raises(errors.CheckError, match="reverse"):
        ft.check_grads(op, x)
    with pytest.raises(errors.CheckError, match="reverse"):
        ft.check_grads(op, x, modes=("rev",))


def test_check_grads_rejects_a_function_that_is_not_deterministic():
    rng = np.random.default_rng(0)
    with pytest.raises(errors.CheckError, match="deterministic"):
        ft.check_grads(lambda x: x * rng.normal(), np.ones(2))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions take notes from Python 3.11 on")
@pytest.mark.parametrize("f", [np.sin, lambda x, y: x * y])
def test_check_grads_given_a_tuple_of_arguments_says_how_it_takes_them(f):
    with pytest.raises((TypeError, errors.ConversionError)) as caught:
        ft.check_grads(f, (np.ones(3), np.ones(3)))
    assert "write check_grads(f, *args)" in caught.value.__notes__[-1]


def test_check_grads_is_not_fooled_by_views():
    """A function that returns its own buffer each time compares a value to itself, unless it is copied (chainer#488)."""
    buffer = np.zeros(2)

    def f(x):
        if isinstance(x, np.ndarray):
            buffer[...] = np.sin(x)
            return buffer
        return np.sin(x) * 2

    with pytest.raises(errors.CheckError):
        ft.check_grads(f, np.array([0.3, 0.7]))


def test_check_grads_of_a_function_that_writes_to_its_argument():
    def f(x, y):
        x[1:] *= y
        x += y
        return np.sum(x**2)

    ft.check_grads(f, np.array([0.3, 0.7]), 1.5)


def test_check_grads_accepts_right_ones():
    x, y = np.array([0.3, 0.7]), np.array([1.1, -0.4])
    ft.check_grads(lambda x: np.sin(x) * x, x, order=3)
    ft.check_grads(lambda x, y: {"a": x * y, "b": (np.exp(x) @ y, 3.0)}, x, y)
    ft.check_grads(lambda p: p["a"] ** 3 * p["b"], {"a": x, "b": 2.0})
    ft.check_grads(lambda z: np.abs(z) ** 2 + np.real(z * z), x + 1j * y)
    ft.check_grads(lambda z: np.exp(z), x + 1j * y)
    ft.check_grads(lambda x: x > 0, x)
    ft.check_grads(sinv, x)
    ft.check_grads(sinj, x)
    ft.check_grads(ft.checkpoint(np.sin), x)
    ft.check_grads(ft.grad(lambda x: np.sin(x).sum()), x)


def test_check_grads_names_the_place():
    f = wrong(vjp=lambda x, g: (g * np.cos(x) * np.array([1.0, 5.0]),))
    with pytest.raises(errors.CheckError) as caught:
        ft.check_grads(f, np.array([0.3, 0.7]))
    assert "(1,)" in str(caught.value) and "order 1" in str(caught.value) and "forward" in str(caught.value)


def test_check_grads_warns_on_single_precision():
    with pytest.warns(UserWarning, match="precision"):
        ft.check_grads(np.sin, np.array([0.3], np.float32), rtol=1e-2, atol=1e-2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ft.check_grads(np.sin, np.array([0.3]))


# Empty batches


@pytest.mark.parametrize(
    "f",
    [
        np.argmax,
        lambda x: x[np.argmin(x)],
        lambda x: np.searchsorted(np.arange(3.0), x),
        lambda x: np.partition(x, 1),
        lambda x: ft.cond(x.sum() > 0, np.sin, np.cos, x),
        lambda x: ft.scan(lambda c, u: (c * u, c[0]), x, np.arange(2.0))[1],
    ],
)
def test_an_empty_batch_gives_empty_results(f):
    one, out = np.asarray(f(np.zeros(3))), ft.vmap(f)(np.zeros((0, 3)))
    assert out.shape == (0, *one.shape)
    assert out.dtype == one.dtype


THROUGH_ARRAYS = {
    "mean": np.mean,
    "hstack": lambda x: np.sum(np.hstack([x, -x / 2]) * 2),
    "reshape": lambda x: np.reshape(x, 1).sum(),
    "cumsum": lambda x: np.cumsum(x).sum(),
    "sort": lambda x: np.sort(np.append(x, np.float32(9.0)))[0],
    "itself": lambda x: x,
}


@pytest.mark.parametrize("name", THROUGH_ARRAYS)
@pytest.mark.parametrize("number", [2.0, np.float32(2.0)])
def test_the_gradient_of_a_number_is_a_number(name, number):
    f, kind = THROUGH_ARRAYS[name], np.result_type(number).type
    square = lambda x: f(x) * f(x)
    found = [
        ft.grad(f)(number),
        ft.jit(ft.grad(f))(number),
        ft.vjp(f, number)[1](1.0)[0],
        ft.grad(lambda p: f(p["x"]))({"x": number})["x"],
        ft.jvp(f, (number,), (1.0,))[1],
        ft.grad(ft.grad(square))(number) / 2,
        ft.jit(ft.grad(ft.grad(square)))(number) / 2,
        ft.vmap(ft.grad(f))(np.full(3, number))[0],
    ]
    assert [(type(x), x) for x in found] == [(kind, 1.0)] * len(found)
    assert f"{found[0]:.1f} {round(found[0], 1)}" == "1.0 1.0"
    assert isinstance(ft.grad(np.mean)(np.array(2.0)), np.ndarray)


def test_the_hessian_of_many_outputs_has_their_axes_in_front():
    f = lambda x: {"cubes": x**3, "sum": np.sum(x[0] * x)}
    found, (values, aux) = ft.hessian(f)(X), ft.hessian(lambda x: (np.outer(x, x), "aux"), has_aux=True)(X)
    assert np.allclose(found["cubes"], [np.diag(6 * X * row) for row in np.eye(3)], rtol=0, atol=1e-12)
    assert np.allclose(found["sum"], ft.hessian(lambda x: np.sum(x[0] * x))(X), rtol=0, atol=1e-12)
    assert np.allclose(values, ft.jacfwd(ft.jacfwd(lambda x: np.outer(x, x)))(X), rtol=0, atol=1e-12)
    assert (values.shape, aux) == ((3, 3, 3, 3), "aux")


def test_a_custom_rule_may_use_its_arrays_again():
    x, slopes = np.linspace(0, 1, 3), np.empty(3)
    f = ft.custom_vjp(np.sin)
    f.defvjp(lambda x: (np.sin(x), np.cos(x, out=slopes)), lambda slopes, g: (g * slopes,))
    _, pull = ft.vjp(f, x)
    slopes[:] = 9
    assert np.array_equal(pull(np.ones(3))[0], np.cos(x))
    assert np.allclose(ft.grad(lambda x: f(f(x)).sum())(x), np.cos(np.sin(x)) * np.cos(x))


def test_a_custom_function_may_use_its_result_again():
    x, result = np.array([0.3, 0.9]), np.empty(2)

    def sine(x):
        result[:] = np.sin(x)
        return result

    by_vjp, by_jvp = ft.custom_vjp(sine), ft.custom_jvp(sine)
    by_vjp.defvjp(lambda x: (sine(x), x), lambda x, g: (g * np.cos(x),))
    by_jvp.defjvp(lambda primals, tangents: (sine(*primals), tangents[0] * np.cos(*primals)))
    twice = lambda f: lambda x: (f(f(x) ** 2) * f(x)).sum()
    for f in (by_vjp, by_jvp):
        assert np.allclose(ft.grad(twice(f))(x), ft.grad(twice(np.sin))(x))
        assert np.allclose(ft.jvp(twice(f), (x,), (x,))[1], ft.jvp(twice(np.sin), (x,), (x,))[1])


def test_a_large_array_of_a_custom_rule_is_locked_while_the_derivative_needs_it():
    x, slopes = np.linspace(0, 1, 40000), np.empty(40000)

    def fwd(x):
        slopes[:] = np.cos(x)
        return np.sin(x), slopes

    f = ft.custom_vjp(np.sin)
    f.defvjp(fwd, lambda slopes, g: (g * slopes,))
    with pytest.raises(ft.errors.MutatedError, match="read-only"):
        ft.grad(lambda x: f(f(x)).sum())(x)
    assert np.array_equal(ft.grad(lambda x: f(x).sum())(x), np.cos(x)) and slopes.flags.writeable


def test_a_tangent_by_hand_has_the_dtype_of_its_value():
    x = np.array([1.0, 2.0], np.float32)
    for wide in (np.array([2.0, 2.0]), np.array([2, 2])):
        double = ft.custom_jvp(lambda x: x * 2)
        double.defjvp(lambda primals, tangents, wide=wide: (double(*primals), tangents[0] * wide))
        for found in (ft.jvp(double, (x,), (x,))[1], ft.jacfwd(double)(x), ft.jit(lambda x: ft.jvp(double, (x,), (x,))[1])(x)):
            assert found.dtype == np.float32
    turned = ft.custom_jvp(lambda x: x * 2)
    turned.defjvp(lambda primals, tangents: (turned(*primals), tangents[0] * 2j))
    with pytest.raises(ft.errors.CustomRuleError, match="the tangent of the output is complex64.2., but the output is float32.2."):
        ft.jvp(turned, (x,), (x,))
