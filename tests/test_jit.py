"""`jit`: capture, guards, retracing, nesting, aliasing, threads, errors."""

import copy
import dataclasses
import functools
import gc
import inspect
import itertools
import math
import pickle
import sys
import time
import warnings
import weakref
from decimal import Decimal

import numpy as np
import pytest

import functrace as ft
from functrace import jit, threads
from functrace.compile import nesting
from functrace.compile import paths as jit_paths
from functrace.core.tracer import Tracer
from functrace.errors import JitWarning, LeakedTracerError, RetraceError
from tests.helpers import alike, here, in_threads

X = np.array([0.3, -0.7, 1.1])


def f(w, x):
    return (np.tanh(x @ w) ** 2).sum()


W, D = np.random.default_rng(0).normal(size=(3, 2)), np.random.default_rng(1).normal(size=(5, 3))


def close(got, want, rtol=1e-12):
    got, want = ft.tree.leaves(got), ft.tree.leaves(want)
    assert len(got) == len(want)
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-14)


# Capture and signatures


def test_the_function_runs_once_for_a_signature():
    calls = []

    def g(x):
        calls.append(x.shape)
        return x * 2

    h = jit(g)
    for k in range(4):
        np.testing.assert_array_equal(h(X + k), (X + k) * 2)
    h(X[:2])
    h(X.astype(np.float32))
    assert len(calls) == 3
    assert h.cache_info() == {"signatures": 3, "paths": 3, "hits": 3, "recorded": 3, "eager": 0}


def test_python_numbers_are_weak_and_not_part_of_the_signature():
    h = jit(lambda x, a, n: x * a + n)
    x32 = X.astype(np.float32)
    for a, n in ((2.0, 3), (0.5, -1), (1e3, 0)):
        got = h(x32, a, n)
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, x32 * a + n)
    assert h.cache_info()["recorded"] == 1


def test_arithmetic_of_python_numbers_is_pythons():
    h = jit(lambda a, b: (a + b, a * b, a / b, a // b, a % b, a**b, -a, abs(a), a < b))
    for a, b in ((7, 2), (2, 3), (9, 4)):
        assert [type(v) for v in h(a, b)[:3]] == [int, int, float]
        assert h(a, b)[:8] == (a + b, a * b, a / b, a // b, a % b, a**b, -a, abs(a))
    assert h.cache_info()["recorded"] == 1
    with pytest.raises(ZeroDivisionError):
        h(1, 0)


def test_a_gradient_at_a_python_number_is_float64():
    g = jit(ft.grad(lambda s, x: (s * x).sum()))
    for s in (2.0, 3.0):
        got = g(s, X.astype(np.float32))
        want = ft.grad(lambda s, x: (s * x).sum())(s, X.astype(np.float32))
        assert type(got) is type(want) and got == want


def test_a_gradient_at_a_whole_python_number():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JitWarning)
        g = jit(ft.grad(lambda s: s * s * 0.5))
        assert g(3) == g(3) == 3.0


def test_trees_keywords_and_other_leaves():
    h = jit(lambda p, *, mode, k=1.0: {"out": p["a"] * k if mode == "x" else p["b"][0] * k, "mode": mode, "none": None})
    p = {"a": X, "b": [X + 1, np.float32(3)]}
    for mode in ("x", "y", "x"):
        got = h(p, mode=mode, k=2.0)
        assert got["mode"] == mode and got["none"] is None
        np.testing.assert_array_equal(got["out"], (X if mode == "x" else X + 1) * 2)
    assert h.cache_info()["recorded"] == 2


def test_arguments_that_never_change_are_values():
    h = jit(lambda x, place, factors: x[place] * sum(factors))
    for factors in ((1.0, 2.0), (2.0, 1.0), (3.0,)):
        alike(h(X, ..., frozenset(factors)), X * sum(factors))
    assert (h.cache_info()["recorded"], h.cache_info()["hits"]) == (2, 1)


def test_static_arguments_by_number_and_by_name():
    for h in (
        jit(lambda x, n: sum(x**k for k in range(n)), static_argnums=1),
        jit(lambda x, n: sum(x**k for k in range(n)), static_argnames="n"),
    ):
        for n in (2, 3, 2):
            np.testing.assert_array_equal(h(X, n), sum(X**k for k in range(n)))
        np.testing.assert_array_equal(h(X, n=3), sum(X**k for k in range(3)))
    with pytest.raises(TypeError, match="hashed"):
        h(X, [1])
    first = jit(lambda n, x: sum(x**k for k in range(n)), static_argnums=-2)
    rest = jit(lambda x, *ns: sum(x**k for n in ns for k in range(n)), static_argnums=(1, -1))
    for n in (2, 3, 2):
        alike(first(n=n, x=X), sum(X**k for k in range(n)))
        alike(rest(X, n), sum(X**k for k in range(n)))
        alike(rest(X, n, 1), sum(X**k for k in range(n)) + X**0)
    assert (first.cache_info()["signatures"], rest.cache_info()["signatures"]) == (2, 4)


def test_a_static_argument_that_is_no_value_counts_with_what_is_read_of_it():
    class Model:
        k = 2.0

        @functools.partial(ft.jit, static_argnums=0)
        def __call__(self, x):
            return self.k * x

        def method(self, x):
            return self.k * x

    model, apply, scale = Model(), ft.jit(lambda f, x: f(x), static_argnums=0), 2.0
    ways = model, functools.partial(apply, model.method), functools.partial(apply, lambda x: scale * x)
    assert [f(3.0) for f in ways] == [6.0] * 3
    model.k = scale = 5.0
    assert [f(3.0) for f in ways] == [15.0] * 3
    with pytest.warns(JitWarning, match="Generator"):
        draw = ft.jit(lambda rng, x: x + rng.normal(), static_argnums=0)
        assert len({float(draw(rng, 0.0)) for rng in [np.random.default_rng(0)] * 3}) == 3


def test_a_static_keyword_is_not_one_of_any_number_of_arguments():
    f = lambda x, *xs, k=2, **others: k * sum(xs, x) + sum(others.values())
    jitted = jit(f, static_argnames="k")
    for x in (X, X + 1):
        for k in (2, 3):
            alike(jitted(x, x, x, x, k=k, w=x), f(x, x, x, x, k=k, w=x))
    alike(jitted(X, X, X, X), f(X, X, X, X))
    assert jitted.cache_info()["recorded"] == 3


def test_jit_as_a_decorator_and_on_methods():
    class Model:
        def __init__(self, w):
            self.w = w

        @jit
        def __call__(self, x):
            return self.w * x

    @jit(max_paths=2)
    def g(x):
        """Doc."""
        return x + 1

    m = Model(2.0)
    np.testing.assert_array_equal(m(X), 2 * X)
    np.testing.assert_array_equal(m(X), 2 * X)
    m.w = 5.0
    np.testing.assert_array_equal(m(X), 5 * X)
    assert g.__doc__ == "Doc." and g(1.0) == g(1.0) == 2.0


class Scaled:
    def __init__(self, w):
        self.w = w

    @jit
    def predict(self, x, k=2.0):
        """Doc."""
        return self.w * x * k


def test_a_jitted_method_of_an_object_has_the_methods_of_a_jitted_function():
    m = Scaled(3.0)
    assert (m.predict(1.0), m.predict(2.0), m.predict(1.0, k=1.0)) == (6.0, 12.0, 3.0)
    assert m.predict.cache_info()["hits"] >= 1
    assert "predict: a new signature" in m.predict.explain()
    assert "def program" in m.predict.show() and m.predict.programs()
    assert (m.predict.__name__, m.predict.__doc__, str(inspect.signature(m.predict))) == ("predict", "Doc.", "(x, k=2.0)")
    assert m.predict == m.predict and m.predict.__self__ is m
    assert pickle.loads(pickle.dumps(m.predict))(1.0) == ft.grad(m.predict)(1.0) == 6.0
    m.predict.clear_cache()
    assert Scaled.predict.cache_info()["signatures"] == 0


# Under grad a jitted function is run once more


@pytest.mark.parametrize(
    "make",
    [
        lambda: lambda x: x * np.random.normal(),  # noqa: NPY002
        lambda: lambda x, rng=np.random.default_rng(0): x * rng.normal(),
        lambda: lambda x, steps=itertools.count(1): x * next(steps),
    ],
    ids=["NumPy's state", "a generator", "an iterator"],
)
def test_the_derivative_is_of_the_run_that_gave_the_value(make, random_state):
    f = jit(make())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JitWarning)
        for _ in range(3):
            out, pullback = ft.vjp(f, 1.0)
            assert pullback(1.0) == (out,)
            value, slope = ft.jvp(f, (1.0,), (1.0,))
            assert value == slope


def test_what_a_function_reads_may_not_change_before_its_derivative():
    m, w = Scaled(1.0), np.ones(3)
    attribute, element = jit(lambda x: x * m.w), jit(lambda x: np.sum(x * w))

    def loss(x):
        for m.w in (1.0, 2.0, 3.0):
            x = attribute(x)
        return x

    for transform in (lambda: ft.grad(loss)(1.0), lambda: ft.jvp(loss, (1.0,), (1.0,))):
        with pytest.raises(
            ft.errors.MutatedError, match=r"jit\(<lambda>\): m.w has changed since the call.*\n.*test_jit.py(?s:.)*argument"
        ):
            transform()
    _, pullback = ft.vjp(element, np.ones(3))
    np.testing.assert_array_equal(pullback(1.0)[0], w)
    w[0] = 5.0
    with pytest.raises(ft.errors.MutatedError, match="an array that it reads, w, has changed"):
        pullback(1.0)
    np.testing.assert_array_equal(ft.grad(element)(np.ones(3)), w)


# Guards


def test_what_an_object_sets_when_it_is_called_is_no_reason_to_refuse_its_derivative():
    class Model:
        def __init__(self):
            self.seen, self.weights = 0, np.ones(2)

        def __call__(self, x):
            self.seen += 1
            self.mean = self.weights * 0.5
            return np.sum(self.weights * x**2)

    model = ft.jit(Model())
    for _ in range(3):
        np.testing.assert_array_equal(ft.grad(model)(np.array([1.0, 2.0])), [2.0, 4.0])


def test_both_branches_are_recorded_and_replayed():
    h = jit(lambda x: x * 2 if x.sum() > 0 else -x)
    for x in (X, -X, X, -X, 2 * X):
        np.testing.assert_array_equal(h(x), x * 2 if x.sum() > 0 else -x)
    info = h.cache_info()
    assert info["recorded"] == 2 and info["paths"] == 2 and info["hits"] == 3


def test_loops_on_values_are_guarded_at_every_turn():
    def collatz(x):
        n = 0
        while x > 1:
            x = x / 2 if x % 2 == 0 else 3 * x + 1
            n += 1
        return x * n

    h = jit(collatz, max_paths=64)
    for x in (6.0, 7.0, 6.0, 3.0, 1.0, 7.0):
        assert h(x) == collatz(x)
    assert h.cache_info()["hits"] == 2


def test_int_float_item_and_index_are_guards():
    h = jit(lambda x, i: x[int(i[0])] * float(x[0]) + x.argmax() + i[1].item())
    for x, i in ((X, np.array([0, 1])), (X + 1, np.array([2, 1])), (X, np.array([0, 1]))):
        assert h(x, i) == x[i[0]] * x[0] + x.argmax() + i[1]


def test_the_plain_value_is_a_guard():
    h = jit(lambda x: x * (ft.value(x).max() > 1))
    for x in (X, X / 2, X):
        np.testing.assert_array_equal(h(x), x * (x.max() > 1))


def test_numbers_that_are_others_in_each_call_are_not_guarded_for_long():
    f = lambda x: x * ft.value(x).max()
    h = jit(f)
    with pytest.warns(JitWarning, match=r"it looks at all the numbers of float64\[3\]"):
        for k in range(5):
            np.testing.assert_array_equal(h(X + k), f(X + k))
    assert h.cache_info()["recorded"] == 3 and h.cache_info()["eager"] == 2
    assert "found float64[3]" in h.explain()


@jit
def doubled(x):
    return x * 2


@ft.custom_vjp
def tripled(x):
    return x * 3


@pytest.mark.parametrize("f", [doubled, tripled], ids=["jit", "custom_vjp"])
def test_decorated_functions_are_pickled_and_copied_as_functions_are(f):
    assert pickle.loads(pickle.dumps(f)) is f
    assert copy.copy(f) is f and copy.deepcopy([f])[0] is f
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(jit(lambda x: x))


def test_a_guard_under_grad_and_vmap():
    g = jit(ft.grad(lambda x: x * x if x > 0 else -x))
    assert [g(3.0), g(-1.0), g(5.0), g(-2.0)] == [6.0, -1.0, 10.0, -1.0]
    h = jit(ft.vmap(lambda x: x if x > 0 else -x))
    for x in (X, -X, X, abs(X)):
        np.testing.assert_array_equal(h(x), abs(x))


def test_nan_is_the_same_as_nan_for_a_guard():
    h = jit(lambda x: x * (float(x[0]) if x[0] == x[0] else 2.0))
    x = np.array([np.nan, 1.0])
    h(x), h(x)
    assert h.cache_info()["recorded"] == 1


def test_past_the_bound_it_runs_eagerly_and_says_so_once():
    h = jit(lambda x: x * int(x[0]), max_paths=3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(10):
            np.testing.assert_array_equal(h(np.array([float(k), 2.0])), np.array([float(k), 2.0]) * k)
    assert [w.category for w in caught] == [JitWarning] and "more than 3 paths" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert h.cache_info()["eager"] > 0 and "took a new path" in h.explain()


def test_explain_says_what_to_change_and_where():
    class Model:
        w = np.ones(3)

    @jit
    def f(x, kind):
        return getattr(np, kind)(x) * math.sin(x) * Model.w

    power = jit(lambda x, n: x**n, static_argnames="n")
    for x, kind in ((1.0, "sin"), (2.0, "sin"), (2.0, "cos")):
        f(x, kind), power(x, n=len(kind))
    Model.w[0] = 2.0
    f(2.0, "cos")
    first, second, third, fourth = f.explain().splitlines()
    assert first == "1. f: a new signature, float, 'sin'" and third == "3. f: a new signature, float, 'cos'"
    assert second.startswith("2. f took a new path: float(x) found 2.0, at ") and __file__ in second and second.endswith(", in f")
    assert fourth == "4. f: the elements of Model.w have changed"
    assert power.explain() == "1. <lambda>: a new signature, float, n=3"
    assert repr(f.show()) == f.show() and "def program" in f.show() and repr(f.explain()) == f.explain()


def test_past_the_bound_arrays_still_have_at():
    """A plain array has none; what was written before `.at` was met is not written twice."""
    seen = []

    def f(x, n):
        seen.append(n)
        x[2] += 1
        return x.at[n : n + 1].set(0.0), ft.numpy.zeros(3).at[int(n)].add(x[2]), x.at[n].get()

    h = jit(f, max_paths=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JitWarning)
        for n in (0, 1, 2, 1, 0):
            x, e = X + [0, 0, 1], np.eye(3)[n]
            for out, expected in zip(h(X, n), (x * (1 - e), e * x[2], x[n])):
                assert not isinstance(out, Tracer)
                np.testing.assert_array_equal(out, expected)
        assert h.cache_info()["eager"] > 0
        calls = len(seen)
        h(X, 1)
        assert len(seen) == calls + 1, "the way to run it is found once"
        with pytest.raises(IndexError, match="out of bounds"):
            jit(lambda x, n: x.at[n].get())(X, 99)
        numbers = jit(lambda x, n: (x + 1).at[int(n)].set(7), max_paths=1)
        assert numbers(np.zeros(2, int), 0).tolist() == [7, 1]
        with pytest.raises(AttributeError, match=r"functrace\.numpy\.at\(x\)"):  # what is computed of integers is plain
            numbers(np.zeros(2, int), 1)
        missing = jit(lambda x, n: (seen.append(n), x.nowhere if int(n) else x)[1], max_paths=1)
        missing(X, 0)
        calls = len(seen)
        with pytest.raises(AttributeError, match="nowhere"):
            missing(X, 1)
        assert len(seen) == calls + 1, "only for the lack of `at` is it run once more"


def test_no_retrace_raises():
    h = jit(lambda x: x * 2, no_retrace=True)
    h(X)
    h(X + 1)
    with pytest.raises(RetraceError, match="new signature"):
        h(X[:2])


@pytest.mark.parametrize("f", [lambda x: np.nonzero(x > 0)[0], lambda x: np.flatnonzero(x > 0) * 2 + 1])
def test_shapes_that_depend_on_values(f):
    h = jit(f)
    for x in (X, -X, abs(X), X):
        np.testing.assert_array_equal(h(x), f(x))
    assert h.cache_info()["recorded"] == 3 and not h.cache_info()["eager"]


# It composes


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: ft.grad(f),
        lambda f: ft.grad(f, (0, 1)),
        lambda f: ft.hessian(f),
        lambda f: ft.jacrev(f),
        lambda f: ft.jacfwd(f),
        lambda f: ft.vmap(f, (None, 0)),
        lambda f: ft.vmap(ft.grad(f), (None, 0)),
        lambda f: ft.grad(lambda w, x: ft.vmap(f, (None, 0))(w, x).sum()),
        lambda f: lambda w, x: ft.jvp(f, (w, x), (w, x)),
        lambda f: lambda w, x: ft.vjp(f, w, x)[1](1.0),
        lambda f: lambda w, x: ft.hvp(lambda w: f(w, x), (w,), (w,)),
        lambda f: ft.grad(lambda w, x: (ft.grad(f)(w, x) ** 2).sum()),
        lambda f: ft.grad(lambda w, x: f(jit(lambda y: w * y)(w), x)),
        lambda f: ft.value_and_grad(lambda w, x: (f(w, x), {"aux": x.sum(), "n": 3}), has_aux=True),
        lambda f: ft.grad(ft.checkpoint(f)),
    ],
)
def test_jit_outside_inside_and_twice(transform):
    want = transform(f)(W, D)
    for g in (jit(transform(f)), transform(jit(f)), jit(transform(jit(f)))):
        for _ in range(2):
            close(g(W, D), want)


def test_grad_of_jit_runs_compiled_both_ways():
    calls = []

    def counted(w, x):
        calls.append(1)
        return f(w, x)

    g = ft.grad(jit(counted))
    for k in range(4):
        close(g(W + k, D), ft.grad(f)(W + k, D))
    assert len(calls) == 2


@pytest.mark.parametrize(
    "what", [lambda f: f, lambda f: lambda p: ft.grad(lambda p: f(p)["y"])(p), lambda f: lambda p: ft.jvp(f, (p,), (p,))]
)
def test_a_function_that_goes_by_the_order_of_a_dict(what):
    def f(params):
        y = 0.3
        for layer in params.values():
            y = np.tanh(layer["w"] * y + layer["b"])
        return {"y": y, **params}

    jitted, plain = what(jit(f)), what(f)
    one = {"first": {"w": 1.5, "b": 0.2}, "second": {"w": -0.7, "b": 0.1}}
    for params in (one, dict(reversed(one.items())), one, {"w": one["first"], "b": one["second"]}, {"b": one["second"], "w": one["first"]}):
        for _ in range(2):
            got, want = jitted(params), plain(params)
            assert list(ft.tree.leaves(got)) == pytest.approx(list(ft.tree.leaves(want)), rel=1e-14)
            assert repr(ft.tree.map(lambda _: 0, got)) == repr(ft.tree.map(lambda _: 0, want))


def test_the_oldest_signatures_are_forgotten(monkeypatch):
    monkeypatch.setattr(nesting, "SIGNATURES", 2)
    h = jit(np.sin)
    for n in (1, 2, 3, 2, 3, 1):
        np.testing.assert_array_equal(h(np.ones(n)), np.sin(np.ones(n)))
    assert (h.cache_info()["signatures"], h.cache_info()["recorded"], h.cache_info()["hits"]) == (2, 4, 2)
    total = jit(lambda d: sum(d.values()))
    for name in "abcab":
        assert ft.grad(total)({name: 1.0}) == {name: 1.0}
    assert len(total._derived) == 2  # and not two for each structure


def test_arrays_of_a_class_of_their_own():
    class Named(np.ndarray):
        pass

    h = jit(lambda x: x * 2 + 1)
    for x in (X, X.view(Named), X, X.view(Named)):
        alike(h(x), X * 2 + 1)
    assert h.cache_info()["recorded"] == h.cache_info()["hits"] == 2


def test_a_jitted_function_returns_no_value_of_a_call_that_has_ended():
    kept = []
    ft.grad(lambda x: kept.append(x * 2) or x)(1.0)
    with pytest.raises(LeakedTracerError, match=f"grad.*\n.*made at {here(-1)}"):
        jit(lambda x: (x, kept[0]))(1.0)
    with pytest.warns(JitWarning, match="keeps a traced value in kept"):
        jit(lambda x: kept.append((x,)) or x)(1.0)
    assert repr(kept[1]) == "(Traced(1.0),)"
    for use in (lambda s: s + 1, lambda s: 1 - s, lambda s: s > 0, lambda s: -s):
        with pytest.raises(LeakedTracerError, match="jit.*is used after that call has ended"):
            use(kept[1][0])


def test_a_jitted_function_that_closes_over_a_traced_value():
    def outer(w):
        inner = jit(lambda y: (w * y).sum())
        return inner(X) + inner(w)

    close(ft.grad(outer)(X), X + 2 * X)
    shared = {}
    inner = jit(lambda y: (shared["w"] * y).sum())

    def other(w):
        shared["w"] = w
        return inner(X)

    for k in range(3):
        close(ft.grad(other)(X + k), X)
    shared["w"] = 2.0
    close(inner(X), 2 * X.sum())


def test_custom_rules_and_writes_under_jit():
    @ft.custom_vjp
    def clip(x):
        return x * 1.0

    clip.defvjp(lambda x: (x * 1.0, None), lambda _, g: (np.clip(g, -1, 1),))

    def g(x):
        y = clip(x) * 5
        y[0] = x[1] * 3
        y[1:] += 1
        return (y * y).sum()

    h = jit(ft.grad(g))
    for k in range(3):
        close(h(X + k), ft.grad(g)(X + k))


def test_scan_under_jit_is_one_operation():
    def net(w, xs):
        return ft.scan(lambda h, x: (np.tanh(w @ h + x), h), np.zeros(3), xs)[0].sum()

    w, xs = np.random.default_rng(0).normal(size=(3, 3)), np.random.default_rng(1).normal(size=(50, 3))
    g = jit(ft.grad(net))
    for k in range(3):
        close(g(w, xs + k), ft.grad(net)(w, xs + k), 1e-9)
    assert len(g.programs()[0].instructions) < 500


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_with_several_carries_and_results(reverse):
    def step(carry, x):
        a, (b, n) = carry
        new = a * 0.5 + np.sin(x) * b
        return (new, (b + a.sum(), n)), {"y": new * x, "x": x, "a": a}

    def run(x, b):
        return ft.scan(step, (np.zeros(2), (b, np.ones(2))), x, reverse=reverse)

    x = np.random.default_rng(0).normal(size=(7, 2))
    h, g = jit(run), jit(ft.grad(lambda x, b: sum((v * v).sum() for v in ft.tree.leaves(run(x, b))), (0, 1)))
    for k in range(3):
        close(h(x + k, 2.0), run(x + k, 2.0))
        close(g(x + k, 2.0), ft.grad(lambda x, b: sum((v * v).sum() for v in ft.tree.leaves(run(x, b))), (0, 1))(x + k, 2.0), 1e-9)


# Aliasing, memory, order


def test_results_never_share_memory_with_anything():
    const = np.arange(3.0)
    h = jit(lambda x, y: (x, x, x[1:], x.T, x * y, x * y, const, y.reshape(3, 1), np.zeros(3), np.exp(x)[1:]))
    seen = []
    for k in range(3):
        x, y = X + k, X * 2
        out = h(x, y)
        close(out, (x, x, x[1:], x, x * y, x * y, const, y.reshape(3, 1), np.zeros(3), np.exp(x)[1:]))
        arrays = [a for a in out if isinstance(a, np.ndarray)]
        assert all(a.base is None for a in arrays)  # nor do they keep more memory than their own
        for a in (*arrays, *seen):
            assert not any(np.shares_memory(a, b) for b in (x, y, const))
        assert sum(np.shares_memory(a, b) for a in arrays for b in arrays) == len(arrays)
        assert not any(np.shares_memory(a, b) for a in arrays for b in seen)
        for a in arrays:
            a += 1
        seen += arrays


@pytest.mark.parametrize("n", [3, 40_000, 300_000])
def test_a_later_call_does_not_change_an_earlier_result(n):
    h = jit(lambda x: (np.sin(x) * x + 1) * np.exp(-x))
    x = np.linspace(0, 1, n)
    first = h(x)
    kept = h(x)
    copy = kept.copy()
    for k in range(4):
        h(x + k)
    np.testing.assert_array_equal(kept, copy)
    np.testing.assert_array_equal(first, copy)


@pytest.mark.parametrize("n", [4, 200, 300])
def test_layouts_read_only_and_zero_size(n):
    def g(x):
        y = np.tanh(x) * x.sum(axis=1, keepdims=True) + x.max(axis=0)
        return y, y.sum(), (y * 2).sum(axis=0), y.reshape(-1) * 2

    h = jit(g)
    base = np.random.default_rng(0).normal(size=(2 * n, 2 * n))
    frozen = base[:n, :n].copy()
    frozen.flags.writeable = False
    for x in (frozen, base[:n, :n], base[::2, ::-2], np.asfortranarray(frozen), base.T[:n, :n], frozen):
        close(h(x), g(x), 1e-11)
    assert h.cache_info()["recorded"] == 1
    empty = jit(lambda x: (np.sin(x) * 2, x.sum(axis=0), np.exp(x).sum()))
    for _ in range(2):
        close(empty(np.zeros((0, 3))), (np.zeros((0, 3)), np.zeros(3), 0.0))


def test_memory_is_given_back():
    h = jit(lambda x: np.sin(x) * np.cos(x) + x)
    x = np.ones(100_000)
    h(x), h(x)
    path = next(iter(h._variants.values())).last
    kept = weakref.ref(path.executable)
    del path
    h.clear_cache()
    gc.collect()
    assert kept() is None


# Threads and errors


def test_many_threads_at_once():
    h = jit(lambda x: (np.sin(x) * x + np.exp(-x), (x * x).sum()))
    wrong = []

    def work(k):
        x = np.linspace(k, k + 1, 50_000 if k % 2 else 50)
        want = np.sin(x) * x + np.exp(-x)
        for _ in range(20):
            if not np.array_equal(h(x)[0], want):
                wrong.append(k)

    in_threads(work, 6)
    assert not wrong


def test_what_is_known_can_be_asked_while_another_thread_records():
    h, interval, done = jit(lambda x, k: x + k, static_argnums=1), sys.getswitchinterval(), []
    for k in range(300):
        h(1.0, k)

    def work(number):
        k = 300
        while number and not done:
            h(1.0, k := k + 1)
        if not number:
            try:
                found = [(h.explain(), h.programs(), h.cache_info()) for _ in range(600)]
                done.append(len(found))
            except RuntimeError as error:
                done.append(error)

    try:
        sys.setswitchinterval(1e-6)
        in_threads(work, 2)
    finally:
        sys.setswitchinterval(interval)
    assert done == [600]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_blocks_on_threads_give_the_same(count):
    before = threads.set_count(count)
    try:
        h = jit(lambda x: (np.tanh(x) * np.exp(-x * x), (x * x).sum(), x.max()))
        x = np.linspace(-2, 2, 600_001)
        for _ in range(2):
            a, b, c = h(x)
            np.testing.assert_array_equal(a, np.tanh(x) * np.exp(-x * x))
            np.testing.assert_allclose(b, (x * x).sum(), rtol=1e-13)
            assert c == 2.0
    finally:
        threads.set_count(before)


def test_an_error_of_the_function_is_raised_as_it_is_and_leaves_nothing_behind():
    h = jit(lambda x, y: np.linalg.inv(x) @ y)
    close(h(np.eye(3), X), X)
    with pytest.raises(np.linalg.LinAlgError):
        h(np.zeros((3, 3)), X)
    close(h(2 * np.eye(3), X), X / 2)
    bad = jit(lambda x: x + np.ones(7))
    with pytest.raises(ValueError, match="broadcast"):
        bad(X)
    with pytest.raises(ValueError, match="broadcast"):
        bad(X)


def test_what_cannot_be_recorded_runs_eagerly_with_a_warning():
    h = jit(lambda x: np.asarray(x) * 2)
    with pytest.warns(JitWarning, match="can't be recorded"):
        np.testing.assert_array_equal(h(X), X * 2)
    np.testing.assert_array_equal(h(X + 1), (X + 1) * 2)


def test_a_function_that_returns_objects_of_another_kind_runs_eagerly():
    class Box:
        def __init__(self, x):
            self.x = x

    h = jit(lambda x: Box(x * 2))
    with pytest.warns(JitWarning, match="returns a Box"):
        first = h(X)
    second = h(X + 1)
    assert first is not second
    np.testing.assert_array_equal(second.x, (X + 1) * 2)


def test_numpys_warnings_are_those_of_an_eager_run():
    h = jit(lambda x: np.log(x) * 2)
    h(X + 1)
    with pytest.warns(RuntimeWarning, match="invalid"):
        h(X)
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        h(X)
    with np.errstate(invalid="ignore"):
        assert np.isnan(h(X)[1])


def test_a_recursive_and_reentrant_function():
    @jit
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    np.testing.assert_allclose(power(X, 4), X**4)
    np.testing.assert_allclose(power(X + 1, 3), (X + 1) ** 3)


def test_a_loop_of_ten_thousand_operations():
    def g(x):
        for _ in range(5000):
            x = np.sin(x) * 0.9
        return x

    h = jit(g)
    h(X)
    np.testing.assert_array_equal(h(X), g(X))


def test_a_long_program_keeps_its_variables_apart_from_those_of_functions():
    """A frame of many variables would leave no room in its piece of the stack: each call from it would fetch one, several times as slow."""

    def g(x):
        for k in range(200):
            x = np.linalg.inv(x) + (k if np.sum(x) > 0 else -k) * np.eye(len(x))
        return x

    h, x = jit(g), np.eye(3) + 0.1
    for y in (x, x, -x, -x):
        np.testing.assert_array_equal(h(y), g(y))
    assert h.cache_info()["paths"] == 2
    for path in h._all()[0].paths:
        assert inspect.isgeneratorfunction(inspect.getclosurevars(path.executable.function).nonlocals["made"])
    with pytest.raises(np.linalg.LinAlgError):
        h(np.zeros((3, 3)))


# Arguments and results


@pytest.mark.parametrize("calls", [[(2,), (2.0,), (True,)], [2, 2.0, True], [0.0, -0.0]])
def test_static_arguments_that_are_equal_but_not_alike(calls):
    def f(x, p):
        return (x / p, x**p) if not isinstance(p, tuple) else x ** p[0]

    jitted = ft.jit(f, static_argnums=1)
    with np.errstate(divide="ignore"):
        for p in [*calls, *calls]:
            alike(jitted(np.arange(1, 4), p), f(np.arange(1, 4), p))


@pytest.mark.parametrize("static", [(), 1])
@pytest.mark.parametrize("make, sign", [(lambda s: complex(1.0, s), np.imag), (np.float32, np.positive), (lambda s: frozenset([s]), min)])
def test_a_zero_of_another_sign_is_another_argument(make, sign, static):
    jitted = ft.jit(lambda x, p: np.copysign(x, sign(p)), static_argnums=static)
    for _ in range(2):
        assert jitted(X, make(0.0)).min() > 0 > jitted(X, make(-0.0)).max()


class Registered:
    def __init__(self, w, k):
        self.w, self.k = w, k


ft.tree.register(Registered, lambda r: ((r.w,), r.k), lambda k, children: Registered(*children, k))


@dataclasses.dataclass
class Fields:
    w: np.ndarray
    k: object = dataclasses.field(metadata={"static": True})


@pytest.mark.parametrize("cls", [Registered, Fields])
@pytest.mark.parametrize("ks", [(2, 2.0, np.float32(2)), (1, True, 1.0), ((0.0, 1), (-0.0, 1))])
def test_what_is_fixed_in_a_tree_is_equal_but_not_alike(cls, ks):
    def f(m):
        k = m.k[0] if isinstance(m.k, tuple) else m.k
        return m.w * k, np.copysign(1.0, k) * m.w

    jitted = ft.jit(f)
    for k in (*ks, *ks):
        alike(jitted(cls(np.arange(3), k)), f(cls(np.arange(3), k)))
    assert jitted.cache_info()["recorded"] == len(ks)


def test_equal_arguments_that_tell_themselves_apart():
    jitted = ft.jit(lambda x, d: x * len(str(d)))
    with pytest.warns(JitWarning, match="Decimal"):
        assert [jitted(2.0, Decimal(text)) for text in ("1.5", "1.50", "1.5")] == [6.0, 8.0, 6.0]


def test_a_function_that_runs_without_being_compiled_says_so_once():
    draws = iter(range(100))
    jitted = ft.jit(lambda x: x + next(draws))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for x in (1.0, X, 2, X):
            jitted(x)
    assert [w.category for w in caught] == [JitWarning]


def test_what_runs_without_being_compiled_keeps_its_hands_off_the_arguments():
    def f(x, rows):
        rows[1] += 1.0
        return x, rows[: int(x[0])]

    jitted = ft.jit(f, max_paths=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(1, 4):
            x, rows = np.array([float(k)]), np.zeros(4)
            same, part = jitted(x, rows)
            assert not rows.any() and not np.shares_memory(same, x) and not np.shares_memory(part, rows)
            np.testing.assert_array_equal(part, [0.0, 1.0, 0.0, 0.0][:k])
    assert jitted.cache_info()["eager"] > 0


def test_what_runs_without_being_compiled_gives_no_array_away_that_it_reads():
    weights, rng = np.ones(3), np.random.default_rng(0)
    jitted = ft.jit(lambda x: (weights, [weights[1:], x + rng.random()]))
    with pytest.warns(JitWarning, match="draws random numbers"):
        jitted(1.0)
    whole, (part, _) = jitted(1.0)
    whole[:], part[:] = 7.0, 8.0
    assert jitted.cache_info()["eager"] == 1 and weights.tolist() == [1.0, 1.0, 1.0]


def test_an_error_in_a_replay_leaves_the_arguments_as_they_were():
    def f(x):
        x[0, 0] += 1.0
        return np.linalg.inv(x)

    jitted = ft.jit(f)
    jitted(np.eye(2))
    x = np.array([[-1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(np.linalg.LinAlgError):
        jitted(x)
    assert x[0, 0] == -1.0


def test_threads_that_record_the_same_path_leave_one():
    def f(x):
        time.sleep(0.01)
        return x * 2 if x[0] > 0 else -x

    jitted, wrong = ft.jit(f), []

    def work(k):
        x = np.array([(-1.0) ** k, k])
        if not np.array_equal(jitted(x), f(x)):
            wrong.append(k)

    in_threads(work, 24)
    assert not wrong and jitted.cache_info()["paths"] == 2 and jitted.cache_info()["eager"] == 0


@pytest.mark.parametrize("where", [(jit_paths.Variant, "stale"), (jit_paths.Executable, "__call__")], ids=["before", "within"])
@pytest.mark.parametrize("sign", [1, -1])
def test_what_another_thread_records_meanwhile_is_not_undone(where, sign, monkeypatch):
    scale = 2.0
    jitted = ft.jit(lambda x: x * scale if x[0] > 0 else -x * scale)
    for x in (-X, X):
        jitted(x)
    plain = getattr(*where)

    def interrupted(*args):
        nonlocal scale
        monkeypatch.undo()
        scale = 3.0
        for x in (X, -X):  # by the other thread
            jitted(x)
        return plain(*args)

    monkeypatch.setattr(*where, interrupted)
    got = jitted(sign * X)
    assert where[1] == "__call__" or np.array_equal(got, X * 3)
    for x in (X, -X):
        np.testing.assert_array_equal(jitted(x), X * 3)


def test_a_class_as_an_argument():
    jitted = ft.jit(lambda x, t: x.astype(t))
    for t in (np.float32, np.int64, np.float32):
        alike(jitted(X, t), X.astype(t))
