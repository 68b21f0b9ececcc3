"""`ravel_pytree` and `scipy_objective`."""

import dataclasses
import functools
import subprocess
import sys
import types

import numpy as np
import pytest

import functrace as ft

TREE = {"w": np.arange(6.0).reshape(2, 3), "b": [np.float32(7.0), (8.0, None)], "k": np.array(9.0)}


def test_round_trip():
    flat, unravel = ft.ravel_pytree(TREE)
    assert flat.dtype == np.float64
    assert flat.tolist() == [7.0, 8.0, 9.0, *range(6)]
    back = unravel(flat)
    assert ft.tree.structure(back) == ft.tree.structure(TREE)
    np.testing.assert_array_equal(back["w"], TREE["w"])
    assert type(back["b"][0]) is np.float32
    assert type(back["b"][1][0]) is np.float64
    assert type(back["k"]) is np.ndarray and back["k"].shape == ()
    assert list(back) == ["w", "b", "k"]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128, np.int32, bool])
def test_common_dtype_and_restoring(dtype):
    flat, unravel = ft.ravel_pytree([np.ones((2, 2), dtype), np.zeros(1, dtype)])
    assert flat.dtype == dtype
    assert all(x.dtype == dtype for x in unravel(flat))


def test_mixed_dtypes_come_back():
    tree = (np.ones(2, np.float32), np.arange(3), np.array([True]), np.ones((0, 4)))
    flat, unravel = ft.ravel_pytree(tree)
    assert flat.dtype == np.float64 and flat.shape == (6,)
    for a, b in zip(unravel(flat), tree):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(a, b)


def test_real_leaves_beside_complex_ones_come_back_without_a_warning():
    tree = {"real": np.arange(2.0), "complex": np.array([1j])}
    flat, unravel = ft.ravel_pytree(tree)
    np.testing.assert_array_equal(unravel(flat)["real"], tree["real"])
    np.testing.assert_array_equal(ft.jvp(lambda v: unravel(v)["real"], (flat,), (flat,))[1], tree["real"])
    np.testing.assert_array_equal(ft.grad(lambda v: unravel(v)["real"] @ np.array([2.0, 3.0]))(flat), [0.0, 2.0, 3.0])


def test_python_numbers_count_as_float64():
    flat, unravel = ft.ravel_pytree([1, 2.0])
    assert flat.dtype == np.float64
    assert unravel(flat) == [1.0, 2.0]
    assert ft.ravel_pytree(3j)[0].dtype == np.complex128


def test_empty_and_single():
    flat, unravel = ft.ravel_pytree({})
    assert flat.shape == (0,) and unravel(flat) == {}
    flat, unravel = ft.ravel_pytree(5.0)
    assert flat.tolist() == [5.0] and unravel([6.0]) == 6.0


def test_dataclass():
    @dataclasses.dataclass
    class Layer:
        w: np.ndarray
        b: float

    flat, unravel = ft.ravel_pytree(Layer(np.ones(2), 0.0))
    assert unravel(flat * 2).w.tolist() == [2.0, 2.0]


def test_memory_is_not_shared():
    w = np.ones(3)
    flat, unravel = ft.ravel_pytree(w)
    flat[0] = 5.0
    assert w[0] == 1.0
    back = unravel(flat)
    back[1] = 6.0
    assert flat[1] == 1.0


def test_unravel_is_differentiable():
    flat, unravel = ft.ravel_pytree(TREE)

    def f(x):
        p = unravel(x)
        return np.sum(p["w"] ** 2) * p["k"] + np.sin(p["b"][1][0]) + p["b"][0] * 0.0

    ft.check_grads(lambda x: f(x), flat)
    want, _ = ft.ravel_pytree(ft.grad(lambda p: np.sum(p["w"] ** 2) * p["k"] + np.sin(p["b"][1][0]))(TREE))
    np.testing.assert_allclose(ft.grad(f)(flat), want)
    assert ft.hessian(f)(flat).shape == (9, 9)
    assert ft.vmap(f)(np.stack([flat, flat])).shape == (2,)


def test_ravel_is_differentiable():
    g = ft.grad(lambda p: np.sum(ft.ravel_pytree(p)[0] ** 2))({"a": np.ones((2, 2)), "b": 3.0})
    np.testing.assert_array_equal(g["a"], 2 * np.ones((2, 2)))
    assert g["b"] == 6.0


def test_float32_leaves_get_float32_gradients_inside():
    _, unravel = ft.ravel_pytree(np.ones(2, np.float32))
    seen = []

    def f(x):
        p = unravel(x)
        seen.append(p.dtype)
        return p.sum()

    assert ft.grad(f)(np.ones(2)).dtype == np.float64
    assert seen == [np.float32]


def test_an_unravelled_leaf_can_be_written_to():
    _, unravel = ft.ravel_pytree({"w": np.ones((2, 2))})

    def f(x):
        w = unravel(x)["w"]
        w[0, 0] = 0.0
        return w.sum() + x.sum()

    np.testing.assert_array_equal(ft.grad(f)(np.ones(4)), [1.0, 2.0, 2.0, 2.0])


def test_wrong_vectors_are_named():
    _, unravel = ft.ravel_pytree({"w": np.ones(3)})
    with pytest.raises(ft.errors.TreeError, match=r"shape \(4,\), but the tree holds 3 numbers"):
        unravel(np.ones(4))
    with pytest.raises(ft.errors.TreeError, match=r"shape \(3, 1\)"):
        unravel(np.ones((3, 1)))
    with pytest.raises(ft.errors.InputTypeError, match="complex128, but the tree is real"):
        unravel(np.ones(3, complex))
    with pytest.raises(ft.errors.InputTypeError, match=r"leaf 1 is a str[\s\S]*test_optimize.py"):
        ft.ravel_pytree([1.0, "two"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: ft.implicit_root(lambda x: a * x[:2], np.ones(3), solver=lambda g, x0: x0), "its result has 2 numbers, x0 has 3"),
        (lambda a: ft.implicit_root(lambda x: a * x, np.ones(3), solver=lambda g, x0: x0[:2]), "solution found has 2 numbers, x0 has 3"),
        (lambda a: ft.fixed_point(lambda x: a * x[:1], np.ones(3)), r"the shapes of f's result are \(1,\), those of x \(3,\)"),
        (
            lambda a: ft.linear_solve(lambda x: a * x[:2], np.ones(3)),
            r"linear_solve: matvec gives an array of shape \(2,\) for a vector of 3",
        ),
    ],
)
def test_equations_of_another_size_are_named(call, message):
    """They were errors of NumPy's, or of an `unravel` that the user had not called."""
    with pytest.raises((ft.errors.TreeError, ft.errors.InputTypeError), match=rf"{message}(?s:.)*{__name__}"):
        ft.grad(lambda a: call(a).sum())(0.5)


def rosenbrock(p, a=1.0, *, b=100.0):
    return (a - p["x"]) ** 2 + b * np.sum((p["y"] - p["x"] ** 2) ** 2)


def test_objective():
    fun, x0, unravel = ft.scipy_objective(rosenbrock, {"x": -1.0, "y": np.zeros((2, 1), np.float32)}, 2.0, b=10.0)
    assert x0.dtype == np.float64
    value, gradient = fun(x0)
    assert type(value) is float and value == 29.0
    assert gradient.dtype == np.float64
    np.testing.assert_allclose(gradient, [-6.0 - 80.0, -20.0, -20.0])
    assert unravel(x0)["y"].dtype == np.float32
    fun, x0, _ = ft.scipy_objective(rosenbrock, {"x": -1.0, "y": np.zeros(1)})
    assert fun(x0, 2.0)[0] == 109.0


def test_minimize():
    optimize = pytest.importorskip("scipy.optimize")
    fun, x0, unravel = ft.scipy_objective(rosenbrock, {"x": -1.0, "y": np.zeros(2)})
    result = optimize.minimize(fun, x0, jac=True, method="BFGS")
    best = unravel(result.x)
    np.testing.assert_allclose(best["x"], 1.0, atol=1e-4)
    np.testing.assert_allclose(best["y"], [1.0, 1.0], atol=1e-4)
    result = optimize.minimize(fun, x0, args=(2.0,), jac=True, method="L-BFGS-B")
    np.testing.assert_allclose(unravel(result.x)["y"], [4.0, 4.0], atol=1e-2)


def test_what_cannot_be_varied_is_refused():
    with pytest.raises(ft.errors.IntegerInputError, match=r"scipy_objective\(<lambda>\): leaf 0 of the parameters is int64\[3\]"):
        ft.scipy_objective(lambda p: 0.0, {"a": np.arange(3)})
    with pytest.raises(ft.errors.IntegerInputError):
        ft.scipy_objective(lambda p: 0.0, {"a": True})
    with pytest.raises(ft.errors.InputTypeError, match="real and imaginary"):
        ft.scipy_objective(lambda p: 0.0, 1j)
    fun, x0, _ = ft.scipy_objective(lambda p: p * 2, np.ones(3))
    with pytest.raises(ft.errors.NonScalarOutputError):
        fun(x0)


def test_scipy_is_not_imported():
    code = "import sys, functrace as ft; ft.scipy_objective(lambda p: p**2, 1.0)[0]([2.0]); sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_linear_solve_of_a_tree_names_the_vector_of_it():
    with pytest.raises(ft.errors.InputTypeError, match="ravel_pytree"):
        ft.linear_solve(lambda x: x, (np.ones(2), np.ones(3)))


def test_the_equation_is_the_one_that_was_solved():
    p, x = np.array([0.5, 0.6]), np.array([0.3, 0.4])
    dense = lambda matvec, b: np.linalg.solve(np.stack([matvec(e) for e in np.eye(2)], 1), b)
    for f in (
        lambda a: ft.fixed_point(lambda x: p * np.cos(x) * a, np.zeros(2)),
        lambda a: ft.fixed_point(lambda x: p * np.cos(x) * a, np.zeros(2), linear_solver=dense),
        lambda a: ft.linear_solve(lambda x: a * x + p * x, np.ones(2), solver=dense),
    ):
        p[:] = 0.5, 0.6
        _, pull = ft.vjp(f, x)
        _, push = ft.linearize(f, x)
        assert np.array_equal(pull(x)[0], pull(x)[0])
        p[:] = 9
        for derivative in (pull, push):
            with pytest.raises(ft.errors.MutatedError, match=r"another result than when it was solved.*\n.*test_optimize.py"):
                derivative(x)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_fixed_point_whose_rounding_goes_to_and_fro_is_found(dtype):
    rng = np.random.default_rng(8)
    A, b = rng.normal(size=(5, 5)).astype("f4").astype(dtype) * dtype(0.15), rng.normal(size=5).astype("f4").astype(dtype)
    x = ft.fixed_point(lambda x: np.tanh(A @ x + b), np.zeros(5, dtype))
    y = ft.fixed_point(lambda y: dtype(1.1) - dtype(0.9) * y, dtype(1))
    eps = np.finfo(dtype).eps
    assert np.abs(np.tanh(A @ x + b) - x).max() <= max(8 * eps, 2e-14) and abs(y - 1.1 / 1.9) <= max(50 * eps, 2e-14)


def test_a_traced_start_is_an_array_or_a_number_as_it_is():
    f = lambda a: ft.fixed_point(lambda x, a: 0.5 * np.cos(x) + 0.3 * a, a * 0.0, a)
    for a in (np.array([0.3, 0.9, -0.5]), np.array(0.5), 0.5):
        wanted = f(a)
        for found in (ft.jit(f)(a), ft.vjp(f, a)[0], ft.jit(ft.vmap(f))(np.stack([a, a]))[1]):
            assert np.shape(found) == np.shape(a) and np.array_equal(found, wanted)


def test_a_number_of_a_tree_is_a_number_under_jit():
    f = lambda a: (ft.ravel_pytree({"u": a, "v": np.ones(2)})[1](np.arange(3.0) + a), ft.fixed_point(lambda x: a * np.cos(x), 1.0))
    compiled = ft.jit(f)
    for a in (0.3, 0.4):
        (tree_, x), (wanted, y) = compiled(a), f(a)
        assert type(tree_["u"]) is type(wanted["u"]) is type(x) is type(y) is np.float64 and (tree_["u"], x) == (wanted["u"], y)


# What a function holds beside its arguments


class Problem:
    """As people write them: parameters and counters are attributes, the equation is a method."""

    def __init__(self, a):
        self.a, self.calls, self.parts, self.parent, self.time, self.last = a, 0, [], None, 0.0, None

    def add(self, part):
        self.parts.append(part)
        part.parent = self
        return self

    @property
    def half(self):
        return self.a / 2

    @functools.cached_property
    def double(self):
        return self.a * 2

    def update(self, x):
        self.calls += 1
        return 0.3 * np.cos(x * self.half) + sum(part.update(x) for part in self.parts) + 0.1 * np.sin(self.double)

    def __call__(self, x):
        return self.update(x)

    def later(self, x):
        self.time += 0.1
        return x * self.a * self.time

    def kept(self, x):
        self.last = x * self.a
        return self.last


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: object

    def update(self, x):
        return 0.3 * np.cos(x * self.a)


def looping(a):
    p = Problem(a)
    p.me, p.update_me = p, lambda x: p.me.update(x)
    return p.update_me


def stepped(a):
    scale = 0.5

    def steps(x, n):
        return 0.1 * a if n == 0 else steps(x, n - 1) * scale + 0.1 * np.sin(x * a)

    return functools.partial(steps, n=3)


HOLDERS = {
    "method": lambda a: Problem(a).update,
    "object": Problem,
    "parts that know their whole": lambda a: Problem(0.4).add(Problem(a)).add(Problem(2 * a)).update,
    "an object that holds itself": looping,
    "frozen": lambda a: Frozen(a).update,
    "namespace": lambda a: functools.partial(lambda p, x: 0.3 * np.cos(x * p.a), types.SimpleNamespace(a=a)),
    "default": lambda a: lambda x, a=a: 0.3 * np.cos(x * a),
    "keyword default": lambda a: lambda x, *, a=a: 0.3 * np.cos(x * a),
    "partial": lambda a: functools.partial(lambda x, a: 0.3 * np.cos(x * a), a=a),
    "recursion": stepped,
    "functions in a list": lambda a: lambda x, fs=(np.cos, lambda y: y * a): 0.3 * fs[0](fs[1](x)),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_what_an_equation_holds_is_differentiated(name):
    def plainly(a):
        update, x = HOLDERS[name](a), 0.5
        for _ in range(60):
            x = update(x)
        return x

    a = 0.7
    found = lambda a: ft.fixed_point(HOLDERS[name](a), 0.5)
    checkpointed = lambda a: ft.checkpoint(HOLDERS[name](a))(a * a)
    direct = lambda a: HOLDERS[name](a)(a * a)
    for f, expected in (found, plainly), (checkpointed, direct):
        np.testing.assert_allclose(ft.grad(f)(a), ft.grad(expected)(a), rtol=1e-10)
        np.testing.assert_allclose(ft.jvp(f, (a,), (1.0,))[1], ft.grad(expected)(a), rtol=1e-10)
        np.testing.assert_allclose(ft.grad(ft.grad(f))(a), ft.grad(ft.grad(expected))(a), rtol=1e-9)
        np.testing.assert_allclose(ft.jit(ft.grad(f))(a), ft.grad(expected)(a), rtol=1e-10)
        np.testing.assert_allclose(ft.vmap(ft.grad(f))(np.array([a, 1.1])), [ft.grad(expected)(a), ft.grad(expected)(1.1)], rtol=1e-10)


def test_what_a_method_counts_is_counted():
    def counted(a):
        problem = Problem(a)
        return ft.fixed_point(problem.update, 0.5), problem.calls

    assert ft.grad(counted, has_aux=True)(0.7)[1] > 5


def test_an_object_that_changes_from_run_to_run_is_refused():
    def steps(method, error, text):
        def f(a):
            problem, x = Problem(a), a
            for _ in range(3):
                x = ft.checkpoint(getattr(problem, method))(x)
            return x

        with pytest.raises(error, match=text):
            ft.grad(f)(1.5)

    steps("later", ft.errors.CheckpointError, "gave another result than the first")
    steps("kept", ft.errors.MutatedError, "it sets Problem.last")

    def written(a):
        history = [a]

        def f(x):
            history.append(x)
            return x * history[0]

        return ft.checkpoint(f)(a * a) + sum(history)

    with pytest.raises(ft.errors.MutatedError, match="a variable, list or dict"):
        ft.grad(written)(1.5)
