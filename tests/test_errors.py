"""Every mistake is named: the function, the argument, what was found beside what was wanted, the user's line, the remedy.

And it changes nothing: after every error the next call is right.
"""

import dataclasses
import importlib
import inspect
import math
import os
import pickle
import re
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers import here

import functrace as ft
import functrace.numpy as fnp
from functrace import errors
from functrace.core.primitive import Primitive
from functrace.ops.kinds import bilinear, elementwise, general, linear
from functrace.ops.registry import TABLE


@pytest.fixture(autouse=True)
def the_next_call_is_right():
    yield
    assert ft.grad(lambda x: x * np.sin(x))(0.0) == 0.0
    np.testing.assert_array_equal(ft.vmap(ft.grad(lambda x: x**3))(np.array([1.0, 2.0])), [3.0, 12.0])


def raises(kind, builtin, *needed, call, line=True):
    """`call` raises `kind`, which is also `builtin`, and its message holds all of `needed` and this file's line."""
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert type(caught.value) is kind
    assert isinstance(caught.value, builtin)
    assert isinstance(caught.value, errors.FunctraceError)
    for word in needed:
        assert word in message, f"{word!r} is not in: {message}"
    if line:
        first = inspect.getsourcelines(call)[1]
        last = first + len(inspect.getsourcelines(call)[0])
        assert any(f"{__file__}:{n}" in message for n in range(first, last + 1)), f"lines {first}-{last} are not named in: {message}"
    return message


def loss(x, weight=1.0):
    return np.sum(x * weight)


X = np.array([1.0, 2.0, 3.0])


# What can't be differentiated with respect to


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint16, bool])
@pytest.mark.parametrize("transform", [ft.grad, ft.jacrev, ft.jacfwd, ft.hessian, ft.value_and_grad])
def test_integer_array(transform, dtype):
    x = np.array([0, 1, 1], dtype)
    raises(
        errors.IntegerInputError, TypeError, "loss", "argument 0 ('x')", str(np.dtype(dtype)), "[3]", "astype(float)",
        call=lambda: transform(loss)(x),
    )  # fmt: skip


def test_integer_array_under_vjp_and_jvp():
    raises(errors.IntegerInputError, TypeError, "vjp(loss)", "argument 0 ('x')", call=lambda: ft.vjp(loss, np.arange(3)))
    raises(errors.IntegerInputError, TypeError, "jvp(loss)", "argument 0 ('x')", call=lambda: ft.jvp(loss, (np.arange(3),), (np.ones(3),)))
    raises(errors.IntegerInputError, TypeError, "loss", call=lambda: ft.linearize(loss, np.arange(3)))


def test_integer_array_as_a_later_argument():
    raises(errors.IntegerInputError, TypeError, "argument 1 ('weight')", call=lambda: ft.grad(loss, 1)(X, np.arange(3)))
    raises(errors.IntegerInputError, TypeError, "'weight'", call=lambda: ft.grad(loss, argnames="weight")(X, weight=np.arange(3)))


def test_numpy_integer_and_bool_scalars():
    raises(errors.IntegerInputError, TypeError, "int64", call=lambda: ft.grad(loss)(np.int64(3)))
    raises(errors.IntegerInputError, TypeError, "bool", call=lambda: ft.grad(loss)(True))
    assert ft.grad(loss)(3) == 1.0  # a Python int counts as a float


def test_batched_integers():
    with pytest.raises(errors.IntegerInputError):
        ft.vmap(ft.grad(loss))(np.arange(3))


@pytest.mark.parametrize(
    "leaf", ["text", b"bytes", object(), {1, 2}, range(3), len, np.datetime64("2020-01-01")], ids=lambda x: type(x).__name__
)
def test_a_leaf_that_is_no_number(leaf):
    kind = (errors.InputTypeError, errors.IntegerInputError)
    with pytest.raises(kind) as caught:
        ft.grad(lambda x: 1.0)(leaf)
    assert "argument 0 ('x')" in str(caught.value)


def test_a_string_leaf_inside_a_container():
    message = raises(
        errors.InputTypeError,
        TypeError,
        "loss",
        "argument 0 ('x')",
        "str",
        "tree.register",
        call=lambda: ft.grad(loss)({"name": "a", "w": 1.0}),
    )
    assert "holds" in message


@pytest.mark.parametrize("dtype", ["O", "S3", "U3", "datetime64[s]"])
def test_arrays_of_no_numbers(dtype):
    x = np.zeros(3, dtype)
    with pytest.raises((errors.InputTypeError, errors.IntegerInputError)) as caught:
        ft.grad(lambda x: 1.0)(x)
    assert "argument 0 ('x')" in str(caught.value)


# Outputs


def vector(x):
    return np.sin(x)


def test_output_that_is_no_scalar():
    raises(errors.NonScalarOutputError, TypeError, "vector", "float64[3]", ".sum()", "jacobian", "vjp", call=lambda: ft.grad(vector)(X))
    raises(errors.NonScalarOutputError, TypeError, "float64[1]", call=lambda: ft.grad(vector)(X[:1]))
    raises(errors.NonScalarOutputError, TypeError, "float64[3]", call=lambda: ft.value_and_grad(vector)(X))
    raises(errors.NonScalarOutputError, TypeError, "float64[3]", call=lambda: ft.hvp(vector, (X,), (X,)))


def test_output_that_is_a_container():
    raises(errors.NonScalarOutputError, TypeError, "tuple", "has_aux", call=lambda: ft.grad(lambda x: (x.sum(), x))(X))
    raises(errors.NonScalarOutputError, TypeError, "dict", "has_aux", call=lambda: ft.grad(lambda x: {"loss": x.sum()})(X))
    raises(errors.NonScalarOutputError, TypeError, "None", line=False, call=lambda: ft.grad(lambda x: None)(X))


def test_complex_output():
    raises(
        errors.NonScalarOutputError,
        TypeError,
        "complex128",
        "real part",
        "holomorphic=True",
        call=lambda: ft.grad(lambda x: (x * 1j).sum())(X),
    )
    raises(errors.NonScalarOutputError, TypeError, "complex128", call=lambda: ft.grad(lambda z: z * z)(1.0 + 2.0j))


def test_integer_output_that_does_not_depend_on_the_argument():
    # a count does not depend on x: its gradient is zero everywhere
    np.testing.assert_array_equal(ft.grad(lambda x: np.sum(x > 0))(X), np.zeros(3))


def test_output_of_no_number():
    with pytest.raises(TypeError, match="str"):
        ft.grad(lambda x: "loss")(1.0)
    with pytest.raises(TypeError, match="has_aux"):
        ft.grad(lambda x: x, has_aux=True)(1.0)


def test_holomorphic_needs_complex():
    raises(errors.InputTypeError, TypeError, "complex", "float64", line=False, call=lambda: ft.grad(np.abs, holomorphic=True)(1j))
    raises(
        errors.InputTypeError, TypeError, "holomorphic", "complex", line=False, call=lambda: ft.grad(lambda z: z * z, holomorphic=True)(1.0)
    )
    raises(errors.InputTypeError, TypeError, "holomorphic=True", line=False, call=lambda: ft.jacrev(lambda z: z * z)(np.array([1j])))


# Cotangents and tangents


def test_cotangent_of_the_wrong_shape():
    _, pull = ft.vjp(vector, X)
    raises(errors.CotangentError, ValueError, "vector", "(5, 3)", "(3,)", "broadcast_to", call=lambda: pull(np.ones((5, 3))))
    raises(errors.CotangentError, ValueError, "()", "(3,)", call=lambda: pull(1.0))
    raises(errors.CotangentError, ValueError, "(1,)", "(3,)", call=lambda: pull(np.ones(1)))
    np.testing.assert_allclose(pull(np.ones(3))[0], np.cos(X))


def test_cotangent_of_the_wrong_dtype():
    _, pull = ft.vjp(vector, X)
    raises(errors.CotangentError, ValueError, "vector", "complex128", "float64", "astype('float64')", call=lambda: pull(np.ones(3) * 1j))
    _, pull = ft.vjp(vector, X.astype(np.float32))
    assert pull(np.ones(3))[0].dtype == np.float32  # a float is cast, as NumPy would in place


def test_cotangent_of_the_wrong_structure():
    _, pull = ft.vjp(lambda x: {"a": x, "b": (x, x)}, X)
    raises(errors.CotangentError, ValueError, "structure", "'a'", "'b'", call=lambda: pull({"a": X, "b": X}))
    raises(errors.CotangentError, ValueError, "structure", call=lambda: pull([X, X, X]))
    raises(errors.CotangentError, ValueError, "structure", call=lambda: pull({"a": X}))
    raises(errors.CotangentError, ValueError, "structure", call=lambda: pull(None))


def test_tangent_of_the_wrong_shape_dtype_structure():
    raises(errors.CotangentError, ValueError, "vector", "tangent", "(2,)", "(3,)", call=lambda: ft.jvp(vector, (X,), (np.ones(2),)))
    raises(errors.CotangentError, ValueError, "tangent", "complex128", "float64", call=lambda: ft.jvp(vector, (X,), (X * 1j,)))
    raises(errors.CotangentError, ValueError, "tangent", "structure", call=lambda: ft.jvp(lambda t: t[0], ([X, X],), ((X, X),)))
    raises(errors.CotangentError, ValueError, "vector", "2 tangents", line=False, call=lambda: ft.jvp(vector, (X,), (X, X)))
    _, push = ft.linearize(vector, X)
    raises(errors.CotangentError, ValueError, "tangent", "(3,)", call=lambda: push(np.ones(2)))
    raises(errors.CotangentError, ValueError, "vector", "2 tangents", line=False, call=lambda: push(X, X))
    raises(errors.CotangentError, ValueError, "tangent", "(3,)", call=lambda: ft.hvp(loss, (X,), (np.ones(2),)))
    for primals, tangents in ((X, X), ((X,), X[None]), (X[None], (X,))):
        with pytest.raises(TypeError, match="tuples"):
            ft.jvp(vector, primals, tangents)


# Conversions that would cut the derivative

CUTS = {
    "float": (lambda x: float(x), "float()"),
    "complex": (lambda x: complex(x), "complex()"),
    "math.sin": (lambda x: math.sin(x), "np.sin"),
    "math.sqrt": (lambda x: math.sqrt(x), "float()"),
    "np.asarray": (lambda x: np.asarray(x, dtype=float), "use functrace.numpy.asarray, which"),
    "np.array": (lambda x: np.array(x), "use functrace.numpy.array, which"),
    "np.array of a list": (lambda x: np.array([x, 1.0]), "functrace.numpy.array"),
    "np.array of nested lists": (lambda x: np.array([[x], [1.0]]), "functrace.numpy.array"),
    "np.asarray of an array": (lambda x: np.asarray(x * np.ones(3)), "functrace.numpy.array"),
    "np.array of rows": (lambda x: np.array([x * np.ones(3), np.ones(3)]), "functrace.numpy.array"),
    "np.ascontiguousarray": (lambda x: np.ascontiguousarray(x), "functrace.numpy.ascontiguousarray, which"),
    "np.float64": (lambda x: np.float64(x), "Instead use x.astype(np.float64)"),
    "np.fill_diagonal": (lambda x: np.fill_diagonal(np.eye(2), x), "functrace.numpy.zeros"),
    "a masked array": (lambda x: np.ma.masked_array([1.0]) - x, "a.filled(0.0), with a.mask"),
    "item": (lambda x: x.item(), "functrace.value"),
    "tolist": (lambda x: (x * np.ones(2)).tolist(), "functrace.value"),
    "list of floats": (lambda x: [float(v) for v in x * np.ones(2)], "float()"),
    "sum of math": (lambda x: sum(math.exp(v) for v in x * np.ones(2)), "float()"),
}


@pytest.mark.parametrize("name", CUTS)
@pytest.mark.parametrize("transform", ["grad", "jvp", "nested"])
def test_conversions_that_cut_the_derivative(name, transform):
    cut, advice = CUTS[name]
    line = f"{__file__}:{inspect.getsourcelines(cut)[1]}"

    def f(x):
        cut(x)
        return x * 1.0

    call = {
        "grad": lambda: ft.grad(f)(0.5),
        "jvp": lambda: ft.jvp(f, (0.5,), (1.0,)),
        "nested": lambda: ft.grad(lambda z: ft.grad(f)(z))(0.5),
    }[transform]
    message = raises(errors.ConversionError, TypeError, advice, "float64", "functrace.value(x)", "stop_gradient", call=call, line=False)
    assert "silently cut the derivative" in message
    assert __file__ in message
    if name not in ("np.array of a list",):
        assert line in message or "CUTS" not in message, f"must name {line}: {message}"


def test_a_conversion_is_refused_by_what_it_would_lose():
    raises(errors.ConversionError, TypeError, "differs between the examples", "functrace.map", call=lambda: ft.vmap(math.sin)(X))
    raises(errors.ConversionError, TypeError, "cut the derivative", call=lambda: ft.grad(lambda x: math.sin(x))(1.0))
    store = lambda x: _store_scalar(np.ones(1), x)
    raises(errors.ArrayStoreError, TypeError, "differs between", line=False, call=lambda: ft.vmap(store)(X))
    with pytest.warns(UserWarning, match="would fix its value in the program"):
        ft.jit(lambda x: np.array([x, 1.0]))(2.0)


def test_an_old_format_takes_the_number_as_an_f_string_does(capsys):
    assert ft.grad(ft.grad(lambda x: print("%.2f" % x) or x**3))(2.0) == 12.0  # noqa: UP031
    assert ft.jit(ft.grad(lambda x: print("%5.1f" % x) or x**2))(3.0) == 6.0  # noqa: UP031
    assert capsys.readouterr().out == "2.00\n  3.0\n"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python says from 3.11 on which expression of a line it is")
@pytest.mark.parametrize(
    ("cut", "advice"),
    [
        (lambda x: np.arange(x), "np.linspace(0.0, x, n)"),
        (lambda x: np.arange(3) * float(x), "np.sin, not math.sin"),
        (lambda x: np.full(2, 1.0) + np.array([x]), "functrace.numpy.array([...])"),
        (lambda x: 1.0 + np.full(2, x), "functrace.numpy.full"),
        (lambda x: "%d" % 3 + str(float(x)), "np.sin, not math.sin"),  # noqa: UP031
        (lambda x: np.add(np.random.default_rng(0).normal(float(x)), 1), "np.sin, not math.sin"),  # fmt: skip
        (lambda x: 2 * np.random.normal(x), "loc + scale * rng.standard_normal()"),  # noqa: NPY002
    ],
)
def test_the_advice_is_for_the_call_that_failed(cut, advice):
    with pytest.raises(errors.ConversionError) as caught:
        ft.grad(cut)(1.0)
    assert advice in str(caught.value).split("Instead")[1]


def _store_scalar(a, x):
    a[0] = x


def _store_in_a_row(a, x):
    a[0, 1] = x


def _store_slice(a, x):
    a[:] = x * np.ones(a.shape)


def _store_mask(a, x):
    a[a == 0] = x


def _store_fancy(a, x):
    a[[0, 1]] = x * np.ones(2)


def _store_list(a, x):
    a[:2] = [x, x]


def _store_ellipsis(a, x):
    a[...] = x


def _loop(a, x):
    for k in range(3):
        a[k] = x * k


def _fill(a, x):
    a.fill(x)


def _iadd(a, x):
    a += x


def _imul_slice(a, x):
    a[:2] *= x


def _isub(a, x):
    a -= x * np.ones(3)


def _out(a, x):
    np.add(a, x, out=a)


def _out_unary(a, x):
    np.sin(x * np.ones(3), out=a)


STORES = [
    _store_scalar, _store_slice, _store_mask, _store_fancy, _store_list, _store_ellipsis, _loop, _iadd, _imul_slice, _isub, _out, _out_unary,
]  # fmt: skip


@pytest.mark.parametrize("store", STORES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("transform", ["grad", "jvp", "vmap", "nested"])
def test_storing_in_a_plain_array(store, transform):
    def f(x):
        a = np.zeros(3)
        store(a, x)
        return np.sum(a)

    call = {
        "grad": lambda: ft.grad(f)(0.5),
        "jvp": lambda: ft.jvp(f, (0.5,), (1.0,)),
        "vmap": lambda: ft.vmap(f)(np.array([0.5, 1.0])),
        "nested": lambda: ft.grad(lambda z: ft.grad(f)(z))(0.5),
    }[transform]
    message = raises(errors.ArrayStoreError, TypeError, "plain ndarray", call=call, line=False)
    first = inspect.getsourcelines(store)[1]
    assert any(f"{__file__}:{first + k}" in message for k in (1, 2)), message
    assert any(word in message for word in ("np.stack", "y = y + x", ".at["))


@pytest.mark.parametrize("store", [_fill], ids=lambda f: f.__name__)
def test_storing_by_a_method_of_a_plain_array(store):
    """NumPy asks for a float here: refused all the same, under either name."""

    def f(x):
        a = np.zeros(3)
        store(a, x)
        return np.sum(a)

    with pytest.raises((errors.ArrayStoreError, errors.ConversionError)):
        ft.grad(f)(0.5)


def test_a_store_error_keeps_the_array():
    a = np.arange(3.0)

    def f(x):
        a[0] = x
        return a.sum()

    with pytest.raises(errors.ArrayStoreError):
        ft.grad(f)(0.5)
    np.testing.assert_array_equal(a, np.arange(3.0))


def test_a_store_error_may_be_caught_where_it_happens():
    def f(x):
        a = np.zeros(2)
        try:
            a[0] = x
        except (TypeError, ValueError):
            return x * 3.0
        return a.sum()

    assert ft.grad(f)(1.0) == 3.0


def test_a_user_error_in_numpy_passes_as_it_is():
    with pytest.raises(ValueError, match="sequence") as caught:
        ft.grad(lambda x: np.array([1.0, [2.0, 3.0]]).sum() * x)(1.0)
    assert not isinstance(caught.value, errors.FunctraceError)
    with pytest.raises(ValueError, match="broadcast"):
        ft.grad(lambda x: (x * np.ones(2)).sum())(X)


# Which argument


def test_argnums_out_of_range():
    raises(errors.ArgnumsError, ValueError, "grad(loss)", "argnums=5", "argument 5", "1 positional", call=lambda: ft.grad(loss, 5)(X))
    raises(errors.ArgnumsError, ValueError, "argument -3", call=lambda: ft.grad(loss, -3)(X, 1.0))
    raises(errors.ArgnumsError, ValueError, "argument 2", call=lambda: ft.grad(loss, (0, 2))(X, 1.0))
    raises(errors.ArgnumsError, ValueError, "argument 0", call=lambda: ft.grad(loss)())
    raises(errors.ArgnumsError, ValueError, "argument 1", call=lambda: ft.jacrev(loss, 1)(X))
    raises(errors.ArgnumsError, ValueError, "['weight']", call=lambda: ft.grad(loss, 3)(X, weight=2.0))


@pytest.mark.parametrize("bad", ["x", 1.0, (0, "x"), (0.5,)], ids=repr)
def test_argnums_of_the_wrong_type(bad):
    raises(errors.ArgnumsError, ValueError, "loss", "argnums", "argnames", line=False, call=lambda: ft.grad(loss, bad)(X, 1.0))


def test_argnums_twice():
    raises(errors.ArgnumsError, ValueError, "loss", "twice", line=False, call=lambda: ft.grad(loss, (0, 0))(X))
    raises(errors.ArgnumsError, ValueError, "loss", "twice", line=False, call=lambda: ft.grad(loss, (0, -2))(X, 1.0))
    raises(errors.ArgnumsError, ValueError, "loss", "twice", line=False, call=lambda: ft.grad(loss, 0, argnames="x")(X))


def test_argnames_unknown():
    raises(
        errors.ArgnumsError, ValueError, "loss", "'wieght'", "['x', 'weight']", call=lambda: ft.grad(loss, argnames="wieght")(X, weight=1.0)
    )
    raises(errors.ArgnumsError, ValueError, "'weight'", call=lambda: ft.grad(loss, argnames="weight")(X))
    raises(errors.ArgnumsError, ValueError, "'b'", call=lambda: ft.grad(loss, argnames=("x", "b"))(X))


# Ops without a rule


def test_a_numpy_function_without_a_rule():
    """The function here must be one that no issue makes differentiable."""
    message = raises(
        errors.UnsupportedError, NotImplementedError, "packbits", "custom_vjp", "functrace.value", line=False,
        call=lambda: ft.grad(lambda x: np.packbits(x))(X),
    )  # fmt: skip
    assert f"{__file__}:" in message


def test_a_ufunc_without_a_rule():
    mine = np.frompyfunc(lambda a, b: a + b, 2, 1)
    message = raises(
        errors.UnsupportedError,
        NotImplementedError,
        "ufunc",
        "custom_vjp",
        line=False,
        call=lambda: ft.grad(lambda x: mine(x, 1.0).sum())(X),
    )
    assert f"{__file__}:" in message


def test_a_keyword_without_a_rule():
    for f in (lambda x: np.sin(x, where=x > 0), lambda x: np.sum(x, out=np.zeros(())), lambda x: np.sort(x, order="a")):
        with pytest.raises((errors.UnsupportedError, errors.ArrayStoreError)) as caught:
            ft.grad(lambda x: f(x).sum())(X)
        assert f"{__file__}:" in str(caught.value)


def test_an_unknown_keyword_is_a_type_error():
    with pytest.raises(TypeError):
        ft.grad(lambda x: np.sum(x, axes=0))(X)
    with pytest.raises((TypeError, AttributeError)):
        ft.grad(lambda x: x.no_such_method())(X)


def test_a_primitive_that_leaves_a_rule_unsaid_is_refused_when_declared():
    def declare(**rules):
        return lambda: Primitive("half_done", np.sin, arity=1, **rules)

    rule, batch = (lambda g, ans, x: g), (lambda *_: None)
    for missing, rules in {
        "batch": {"vjps": (rule,), "jvps": (rule,), "batch": None},
        "vjps": {"jvps": (rule,), "batch": batch},
        "jvps": {"vjps": (rule,), "batch": batch},
        "one rule for each": {"vjps": (rule, rule), "jvps": (rule, rule), "batch": batch},
    }.items():
        raises(errors.MissingRuleError, TypeError, "'half_done'", missing, "kind", call=declare(**rules), line=False)
    Primitive("whole", np.sin, arity=1, vjps=(rule,), jvps=(rule,), batch=batch)
    Primitive("constant", np.sin, arity=1, constant=True, batch=batch)


def test_an_op_declared_by_hand_is_checked_there_and_may_be_declared_anew():
    try:
        for k in (2, 3):
            cube = elementwise("cube", None, lambda t, ans, x, k=k: k * t * x * x, fun=lambda x: x**3)
            assert ft.grad(cube)(2.0) == 4.0 * k and fnp.cube is cube
        for call in (
            lambda: elementwise("cube", None, lambda t, x: 3 * t * x * x, fun=lambda x: x**3),
            lambda: general("cube", lambda x: x**3, lambda t, x: 3 * t * x * x),
            lambda: linear("twice", lambda x: 2 * x, lambda t: 2 * t, batch=lambda size, x: 2 * x),
            lambda: bilinear("times", np.multiply, lambda t, ans: t, lambda t, ans: t, batch=lambda *_: None),
        ):
            raises(errors.MissingRuleError, TypeError, "a rule of", "Write lambda t, ans, x", call=call)
        raises(errors.MissingRuleError, TypeError, "'cube'", "fun", call=lambda: elementwise("cube", None, lambda t, ans, x: t))
        raises(errors.CallError, TypeError, "'sin'", "another name", call=lambda: elementwise("sin", np.sin, lambda t, ans, x: t))
    finally:
        TABLE.pop("cube", None)


# Custom rules


def test_custom_rules_that_were_not_given():
    @ft.custom_vjp
    def no_rule(x):
        return x

    @ft.custom_jvp
    def no_tangent(x):
        return x

    raises(errors.CustomRuleError, TypeError, "'no_rule'", "defvjp", line=False, call=lambda: ft.grad(no_rule)(1.0))
    raises(errors.CustomRuleError, TypeError, "'no_rule'", "defvjp", line=False, call=lambda: no_rule(1.0))
    raises(errors.CustomRuleError, TypeError, "'no_tangent'", "defjvp", line=False, call=lambda: ft.grad(no_tangent)(1.0))


def product(fwd, bwd):
    @ft.custom_vjp
    def times(x, y):
        return x * y

    times.defvjp(fwd, bwd)
    return times


def test_custom_vjp_with_a_wrong_rule():
    fwd = lambda x, y: (x * y, (x, y))  # noqa: E731
    wrong = {
        "2 cotangents": lambda r, g: (g * r[1],),
        "got 3": lambda r, g: (g, g, g),
        "got float64[3]": lambda r, g: g * r[1],
        "float64[1]": lambda r, g: (np.ones(1), g),
        "argument 1 ('y')": lambda r, g: (g, np.ones(2)),
        "float64[3]": lambda r, g: (np.ones(1), g),
        "complex128": lambda r, g: (g * 1j, g),
        "cotangent 0": lambda r, g: ([g, g], g),
    }
    for word, bwd in wrong.items():
        f = product(fwd, bwd)
        raises(errors.CustomRuleError, TypeError, "'times'", word, call=lambda: ft.grad(lambda x: f(x, x).sum())(X), line=False)
    for fwd in (lambda x, y: x * y, lambda x, y: (x * y, x, y)):
        f = product(fwd, lambda r, g: (g, g))
        raises(
            errors.CustomRuleError, TypeError, "'times'", "(out, residuals)", call=lambda: ft.grad(lambda x: f(x, x).sum())(X), line=False
        )


@pytest.mark.parametrize("fixed", [(0,), (-3,)])
@pytest.mark.parametrize("cotangents, name", [((np.ones(7), np.ones(3)), "x"), ((np.ones(3), np.ones(2)), "y")])
def test_custom_vjp_counts_the_arguments_without_a_cotangent(fixed, cotangents, name):
    f = ft.custom_vjp(lambda n, x, y: x * n + y, nondiff_argnums=fixed)
    f.defvjp(lambda n, x, y: (x * n + y, None), lambda n, _, g: cotangents)
    for transform in (ft.grad, lambda f: lambda x: ft.vmap(ft.grad(f))(np.stack([x, x]))):
        with pytest.raises(errors.CustomRuleError, match=rf"argument {1 + (name == 'y')} \('{name}'\)"):
            transform(lambda x: np.sum(f(2.0, x, x)))(np.ones(3))


def test_custom_jvp_with_a_wrong_rule():
    for rule in (
        lambda p, t: p[0],
        lambda p, t: (p[0], np.ones(2)),
        lambda p, t: (p[0], (t[0], t[0])),
        lambda p, t: None,
        lambda p, t: (*p, *t, 1),
    ):
        f = ft.custom_jvp(lambda x: x * 1.0)
        f.defjvp(rule)
        for call in (lambda: ft.jvp(f, (X,), (X,)), lambda: ft.grad(lambda x: f(x).sum())(X)):
            with pytest.raises(errors.CustomRuleError):
                call()


def test_custom_rules_that_take_or_return_other_trees():
    f = ft.custom_jvp(lambda x: x * 2.0)
    f.defjvp(lambda p, t: (p * 2, t))  # of tuples
    for call in (lambda: ft.jvp(f, (X,), (X,)), lambda: ft.grad(lambda x: f(x).sum())(X)):
        raises(errors.CustomRuleError, TypeError, "'<lambda>'", "TreeDef((*,))", "(x,), (t,) = primals, tangents", line=False, call=call)
    g = ft.custom_vjp(lambda p: p["a"] * p["b"])
    g.defvjp(lambda p: (p["a"] * p["b"], p), lambda p, g: ({"c": g * p["b"], "d": g * p["a"]},))
    raises(
        errors.CustomRuleError, TypeError, "cotangent 0 has TreeDef({'c': *, 'd': *}), the argument TreeDef({'a': *, 'b': *})",
        line=False, call=lambda: ft.grad(g)({"a": 2.0, "b": 3.0}),
    )  # fmt: skip


def test_custom_vjp_that_closes_over_a_traced_value():
    def outer(x):
        @ft.custom_vjp
        def scale(y):
            return x * y

        scale.defvjp(lambda y: (x * y, None), lambda _, g: (x * g,))
        return scale(2.0) + scale(x)

    raises(
        errors.CustomRuleError, TypeError, "'scale'", "closes over", "Pass it as an argument", line=False, call=lambda: ft.grad(outer)(3.0)
    )


def test_a_checkpoint_that_reads_a_traced_value_of_a_class():
    def layer(x):
        class model:  # noqa: N801
            weight = x

        return ft.checkpoint(lambda y: model.weight * y)(2 * x)

    raises(
        errors.CustomRuleError,
        TypeError,
        "checkpoint",
        "closes over",
        "one in a global variable or a class",
        line=False,
        call=lambda: ft.grad(layer)(3.0),
    )


def test_custom_rules_of_keyword_only_functions():
    @ft.custom_vjp
    def f(x, *, k):
        return x * k

    f.defvjp(lambda x, k: (x * k, k), lambda k, g: (k * g, None))
    with pytest.raises(errors.CustomRuleError, match="k can be passed by keyword only"):
        ft.grad(lambda x: f(x, k=2.0))(1.0)


# checkpoint


def test_checkpoint_that_does_not_repeat_itself():
    calls = []

    def f(x):
        calls.append(1)
        return x * len(calls)

    message = raises(
        errors.CheckpointError, RuntimeError, "checkpoint(f)", "second run", line=False, call=lambda: ft.grad(ft.checkpoint(f))(1.0)
    )
    assert "arguments" in message
    rng = np.random.default_rng(0)
    with pytest.raises(errors.CheckpointError):
        ft.grad(ft.checkpoint(lambda x: x * rng.normal()))(1.0)
    assert ft.grad(ft.checkpoint(lambda x: x * np.random.default_rng(0).normal()))(1.0) == np.random.default_rng(0).normal()


def test_a_checkpoint_whose_result_has_the_other_order_of_bytes():
    """NumPy keeps it where a traced value may not, so the second run gives other bytes of the same numbers."""
    z = np.array([1 + 2j, 3 - 1j], ">c16")
    pullback = ft.vjp(ft.checkpoint(lambda x: np.pad(x, 1)), z)[1]
    assert np.array_equal(pullback(np.arange(4) + 0j)[0], [1, 2])


# vmap


def test_vmap_sizes_and_axes():
    a, b = np.ones((2, 3)), np.ones((4, 3))
    raises(errors.BatchError, ValueError, "loss", "disagree", "2", "4", call=lambda: ft.vmap(loss)(a, b))
    raises(errors.BatchError, ValueError, "loss", "axis 0", "float64[]", "in_axes=None", call=lambda: ft.vmap(loss)(a, 1.0))
    raises(errors.BatchError, ValueError, "axis 5", "float64[2,3]", call=lambda: ft.vmap(loss, in_axes=5)(a))
    raises(
        errors.BatchError,
        ValueError,
        "loss",
        "in_axes has 3 entries for 2",
        line=False,
        call=lambda: ft.vmap(loss, in_axes=(0, 0, 0))(a, a),
    )
    raises(errors.BatchError, ValueError, "loss", "no argument is batched", line=False, call=lambda: ft.vmap(loss, in_axes=None)(a))
    raises(errors.BatchError, ValueError, "loss", "disagree", call=lambda: ft.vmap(loss, axis_size=7)(a))
    raises(
        errors.BatchError,
        ValueError,
        "in_axes",
        "structure",
        line=False,
        call=lambda: ft.vmap(lambda t: t["a"], in_axes=({"b": 0},))({"a": a}),
    )
    raises(
        errors.BatchError, ValueError, "out_axes", "structure", line=False, call=lambda: ft.vmap(lambda x: (x, x), out_axes=(0, 0, 0))(a)
    )
    raises(errors.BatchError, ValueError, "in_axes", line=False, call=lambda: ft.vmap(loss, in_axes="0")(a))
    raises(
        errors.BatchError, ValueError, "some examples give", "TreeDef([*, *]) of shapes [(), ()]", "an array of shape ()",
        call=lambda: ft.vmap(lambda x: [x, x] if x > 1 else x)(np.arange(3.0)),
    )  # fmt: skip


def test_vmap_out_axes_out_of_range():
    with pytest.raises((errors.BatchError, ValueError)):
        ft.vmap(lambda x: x, out_axes=5)(np.ones(3))


def test_vmap_out_axes_none_of_a_batched_result():
    """out_axes=None promises that the result does not depend on the batch: taking one example would be silently wrong."""
    with pytest.raises(errors.BatchError):
        ft.vmap(lambda x: x, out_axes=None)(np.arange(3.0))
    assert ft.vmap(lambda x: 5.0, out_axes=None)(np.arange(3.0)) == 5.0


def test_branches_of_a_batch_that_return_different_shapes():
    def f(x):
        return x if x > 0 else np.stack([x, x])

    message = raises(
        errors.BatchError, ValueError, "vmap(f)", "(2,)", "()", "same", line=False, call=lambda: ft.vmap(f)(np.array([-1.0, 1.0]))
    )
    assert f"{__file__}:" in message


# Pytrees


def test_tree_errors():
    raises(errors.TreeError, ValueError, "2 leaves", "got 1", line=False, call=lambda: ft.tree.unflatten(ft.tree.structure([1, 2]), [1]))
    raises(errors.TreeError, ValueError, "structure", line=False, call=lambda: ft.tree.map(lambda a, b: a, [1, 2], (1, 2)))


# check_grads


def test_check_grads_error():
    @ft.custom_vjp
    def f(x):
        return x * x

    f.defvjp(lambda x: (x * x, x), lambda x, g: (3 * x * g,))
    message = raises(errors.CheckError, AssertionError, "order 1", "must be", line=False, call=lambda: ft.check_grads(f, 1.5))
    assert "mode" in message


# A leaked tracer has its own file, test_nesting.py; here only that it is one of the family


def test_leaked_tracer_error():
    box = []
    ft.grad(lambda x: box.append(x * 2.0) or x)(1.0)
    raises(
        errors.LeakedTracerError,
        RuntimeError,
        "grad(<lambda>)",
        "float64[]",
        "has_aux=True",
        "functrace.value",
        line=False,
        call=lambda: box[0] + 1,
    )


# What works


def test_what_python_may_do_with_a_traced_value(capsys):
    seen = {}

    def f(x):
        print(x)
        print(f"{x:.3f}", f"{x}", "%s %.1f" % (x, x))  # noqa: UP031
        if x > 1:
            seen["if"] = True
        k = 0
        while x * k < 4:
            k += 1
        seen["while"] = k
        seen["int"] = int(x)
        seen["bool"] = bool(x)
        seen["round"] = ft.value(round(x, 1))
        seen["divmod"] = [ft.value(v) for v in divmod(x, 1.0)]
        seen["and"] = x > 0 and x < 3
        seen["not"] = not x
        seen["max"] = ft.value(max(x, x * 2))
        seen["sorted"] = [float(ft.value(v)) for v in sorted([x * 3, x, x * 2])]
        seen["in"] = x in [1.0, x]
        seen["chain"] = 0 < x < 3
        assert x == 2.25, "comparison with a number"
        assert repr(x).startswith("Traced(")
        return x * k

    assert ft.grad(f)(2.25) == 2.0
    out = capsys.readouterr().out
    assert out == "2.25\n2.250 2.25 2.25 2.2\n"
    assert seen == {
        "if": True, "while": 2, "int": 2, "bool": True, "round": 2.2, "divmod": [2.0, 0.25], "and": True, "not": False, "max": 4.5,
        "sorted": [2.25, 4.5, 6.75], "in": True, "chain": True,
    }  # fmt: skip


def test_what_python_may_do_with_a_traced_array(capsys):
    seen = {}

    def f(x):
        print(x)
        seen["len"] = len(x)
        seen["shape"] = x.shape, x.ndim, x.size, x.dtype, x.itemsize, x.nbytes
        total = 0.0
        for k, v in enumerate(x):
            total = total + v * k
        a, b, c = x
        head, *rest = x
        seen["rest"] = len(rest)
        seen["in"] = 2.0 in x
        seen["any"] = bool((x > 2).any()), bool((x > 2).all()), bool(any(v > 2 for v in x))
        seen["isinstance"] = isinstance(x.shape, tuple)
        seen["list"] = [v.shape for v in list(x)]
        seen["reversed"] = [float(ft.value(v)) for v in reversed(x)]
        seen["zip"] = len(list(zip(x, x)))
        seen["index"] = [10, 20, 30][np.argmax(x)]
        seen["range"] = list(range(np.argmax(x)))
        seen["mask"] = x[x > 1].shape
        return total + a * b + head + sum(x)

    np.testing.assert_array_equal(ft.grad(f)(X), np.array([0, 1, 2]) + np.array([2, 1, 0]) + np.array([1, 0, 0]) + 1.0)
    assert capsys.readouterr().out == "[1. 2. 3.]\n"
    assert seen == {
        "len": 3, "shape": ((3,), 1, 3, np.dtype(float), 8, 24), "rest": 2, "in": True, "any": (True, False, True), "isinstance": True,
        "list": [()] * 3, "reversed": [3.0, 2.0, 1.0], "zip": 3, "index": 30, "range": [0, 1], "mask": (2,),
    }  # fmt: skip


# Who made the mistake, and where


@dataclasses.dataclass
class Named:
    w: float
    name: str


@pytest.mark.parametrize(
    ("error", "call", "words"),
    [
        (errors.NonScalarOutputError, lambda: ft.hvp(lambda x: x * 1.0, (X,), (X,)), ["hvp(<lambda>)"]),
        (errors.IntegerInputError, lambda: ft.hvp(np.sum, (np.arange(3),), (X,)), ["hvp(sum)"]),
        (errors.NonScalarOutputError, lambda: ft.hessian(lambda x: None)(1.0), ["hessian(<lambda>)"]),
        (errors.NonScalarOutputError, lambda: ft.value_and_grad(vector)(X), ["value_and_grad(vector)"]),
        (errors.IntegerInputError, lambda: ft.explain(np.sum, np.arange(3)), ["explain(sum)"]),
        (errors.CallError, lambda: ft.hvp(1.0, (X,), (X,)), ["hvp(f, (x,), (v,))"]),
        (errors.ArgnumsError, lambda: ft.grad(lambda x, *, lr: x * lr, argnums=1)(1.0, lr=2.0), ["['x', 'lr']", "argnames='lr'"]),
        (errors.BatchError, lambda: ft.vmap(lambda x, *, s: x * s)(X, s=2.0), ["functools.partial(f, s=...)"]),
        (errors.BatchError, lambda: ft.vmap(lambda x, *, s: x)(X, s=np.ones(2)), ["functools.partial(f, s=...)"]),
        (errors.InputTypeError, lambda: ft.grad(lambda d: d.w)(Named(1.0, "a")), ["field(metadata={'static': True})"]),
        (errors.ControlFlowError, lambda: ft.map(np.sin, [1.0, 2.0]), ["np.array(...)", "got xs of float64[], float64[]."]),
        (errors.ConvergenceError, lambda: ft.fixed_point(lambda x: 1 - x, 2.0, maxiter=9), ["fixed_point(<lambda>)", "changed x by 3"]),
        (errors.CallError, lambda: ft.trace(np.sin, 2.0), ["functrace.trace(f)(x)"]),
        (errors.CallError, lambda: ft.profile(np.sin, 2.0), ["functrace.profile(f)(x)"]),
        (errors.CallError, lambda: ft.grad(argnums=1), ["@functools.partial(functrace.grad, argnums=1)"]),
        (errors.CallError, lambda: ft.checkpoint(), ["write @functrace.checkpoint."]),
    ],
)
def test_the_function_that_was_called_is_named_with_what_to_write(error, call, words):
    message = raises(error, Exception, *words, call=call, line=False)
    assert f"At {__file__}:" in message


def test_a_transform_leaves_the_errors_of_functions_alone():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'") as caught:
        ft.grad(lambda x, y: x)(1.0)
    assert not isinstance(caught.value, errors.FunctraceError)


def test_under_a_solver_of_scipys_the_users_line_is_named():
    root = pytest.importorskip("scipy.optimize").root
    raises(errors.IntegerInputError, TypeError, "Start SciPy from floats", call=lambda: root(vector, [1, 1, 1], jac=ft.jacobian(vector)))


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        *[
            ("detach", "stop_gradient"),
            ("numpy", "value(x)"),
            ("_value", "value(x)"),
            ("backward", "grad(f)(x)"),
            ("groupby", "np.bincount"),
        ],
        *[("exp", "np.exp(x)"), ("abs", "np.abs(x)"), ("unsqueeze", "x[:, None]"), ("clone", "x.copy()"), ("view", "x.reshape(")],
    ],
)
def test_an_attribute_of_other_libraries_has_a_remedy(name, remedy):
    def f(x):
        assert not hasattr(x, name)
        assert getattr(x, name, 0) == 0
        return getattr(x, name)

    with pytest.raises(AttributeError, match=f"a traced value has no {name}: .*{re.escape(remedy)}"):
        ft.grad(f)(1.0)


def test_numpys_own_errors_for_arrays():
    with pytest.raises(ValueError, match="truth value"):
        ft.grad(lambda x: x.sum() if x > 0 else 0.0)(X)
    with pytest.raises(TypeError, match="unsized"):
        ft.grad(lambda x: len(x) * x)(1.0)
    with pytest.raises(TypeError, match="0-d"):
        ft.grad(lambda x: sum(x))(1.0)
    with pytest.raises(IndexError):
        ft.grad(lambda x: x[5])(X)
    with pytest.raises(TypeError, match="hash"):
        ft.grad(lambda x: {x: 1})(1.0)
    with pytest.raises(TypeError):
        ft.grad(lambda x: [1, 2][x])(1.0)  # a float is no index
    with pytest.raises(ValueError, match="reshape"):
        ft.grad(lambda x: x.reshape(2, 2).sum())(X)
    with pytest.raises(ValueError):
        ft.grad(lambda x: x @ np.ones(4))(X)


def test_codes_are_unique_and_documented():
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.FunctraceError)]
    assert len(classes) > 10
    codes = [c.code for c in classes]
    assert len(set(codes)) == len(codes)
    for c in classes:
        assert c.__doc__ and len(c.__doc__) > 20
        assert issubclass(c, errors.FunctraceError)
        assert c is errors.FunctraceError or len(c.__mro__) > 4, f"{c.__name__} must also be a builtin exception that a user would catch"


def test_errors_are_raised_on_the_users_traceback():
    """The innermost user frame of the traceback is the line that did it."""
    line = None

    def f(x):
        nonlocal line
        y = x * 2
        line = here(1)
        return math.sin(y)

    with pytest.raises(errors.ConversionError) as caught:
        ft.grad(f)(1.0)
    frames = [f"{e.path}:{e.lineno + 1}" for e in caught.traceback]
    assert line in frames


def test_recursion_limit_is_not_needed_for_messages():
    deep = 1.0
    for _ in range(5000):
        deep = [deep]
    _, pull = ft.vjp(lambda t: ft.tree.leaves(t)[0], deep)
    with pytest.raises(errors.CotangentError):
        pull([1.0])
    assert sys.getrecursionlimit() > 100
    assert fnp is ft.numpy


# Tracebacks


def frames(call):
    """The functions in the traceback of what `call` raises, from the frame of `call` on; and the error."""
    with pytest.raises(Exception) as caught:
        call()
    found = traceback.extract_tb(caught.value.__traceback__)
    ours = os.path.dirname(errors.__file__)
    if sys.version_info < (3, 11) and "FUNCTRACE_TRACEBACK" not in os.environ:  # one frame of ours stays
        assert sum(f.filename.startswith(ours) for f in found) <= 1
        found = [f for f in found if not f.filename.startswith(ours)]
    names = [(os.path.basename(f.filename), f.name) for f in found]
    return names[[name for _, name in names].index("raising") :], caught.value


def failing(x):
    return np.sum(np.sin(x) / {}["missing"])


ERRORS_HERE = os.path.basename(__file__)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: ft.grad(f)(X),
        lambda f: ft.grad(lambda x: np.sum(ft.grad(f)(x)))(X),
        lambda f: ft.jit(f)(X),
        lambda f: ft.jit(ft.vmap(ft.grad(f)))(np.ones((2, 3))),
        lambda f: ft.vmap(f)(X),
        lambda f: ft.jvp(f, (X,), (X,)),
        lambda f: ft.hvp(f, (X,), (X,)),
        lambda f: ft.hessian(f)(X),
        lambda f: ft.linearize(f, X),
        lambda f: ft.grad(ft.checkpoint(f))(X),
        lambda f: ft.scan(lambda c, x: (f(x), x), 0.0, X),
        lambda f: ft.cond(True, f, f, X),
        lambda f: ft.trace(f)(X),
        lambda f: ft.check_grads(f, X),
        lambda f: ft.explain(f, X),
        lambda f: ft.profile(ft.grad(f))(X),
        lambda f: ft.debug_nans()(ft.grad(f))(X),
        lambda f: np.apply_along_axis(lambda x: ft.grad(f)(x), 0, X),
    ],
)
def test_a_users_error_passes_through_with_the_users_frames_only(transform):
    def raising():
        transform(failing)

    found, error = frames(raising)
    assert type(error) is KeyError
    assert found[-1] == (ERRORS_HERE, "failing")
    assert not hasattr(error, "__notes__")
    assert all(name == ERRORS_HERE or "lib" in name or name.startswith("_shape_base") for name, _ in found), found


def test_generators_and_threads_keep_the_users_frames():
    def steps(x):
        yield np.sin(x)
        yield failing(x)

    def loss(x):
        return sum(steps(x))

    def raising():
        ft.grad(loss)(1.0)

    assert [name for _, name in frames(raising)[0]] == ["raising", "loss", "steps", "failing"]
    with ThreadPoolExecutor(1) as pool:
        error = pool.submit(ft.grad(failing), X).exception()
    assert [f.name for f in traceback.extract_tb(error.__traceback__)][-1] == "failing"
    assert not any("functrace/core" in f.filename for f in traceback.extract_tb(error.__traceback__))


@pytest.mark.parametrize(
    "module", ["numpy", "numpy.linalg", "numpy.fft", "numpy.polynomial", "scipy.special", "scipy.linalg", "scipy.stats"]
)
def test_a_name_that_is_nowhere_does_not_show_our_frames(module):
    if module.startswith("scipy"):
        pytest.importorskip("scipy")
    namespace = importlib.import_module(f"functrace.{module}")

    def raising():
        return namespace.nonsense

    found, error = frames(raising)
    assert [name for _, name in found] == ["raising"] and "has no attribute 'nonsense'" in str(error)


def test_what_led_to_an_error_is_trimmed_as_well():
    def f(x):
        try:
            ft.grad(failing)(x)
        except KeyError as error:
            raise ValueError("worse") from error

    def raising():
        ft.grad(f)(X)

    found, error = frames(raising)
    assert found == [(ERRORS_HERE, "raising"), (ERRORS_HERE, "f")]
    cause = [f.name for f in traceback.extract_tb(error.__cause__.__traceback__) if f.filename != errors.__file__]
    assert cause == ["f", "failing"]


def test_an_error_of_numpys_says_which_op_it_was():
    def f(x):
        return np.sum(x @ np.ones((2, 4)))

    def raising():
        ft.grad(f)(X)

    found, error = frames(raising)
    assert found[-1] == (ERRORS_HERE, "f")
    if sys.version_info >= (3, 11):
        assert "matmul(float64[3], float64[2,4]), under grad(f)" in error.__notes__[0]
        assert len(error.__notes__) == 1  # however many boundaries it passes


def test_an_operand_of_a_leaked_value_does_not_show_our_frames():
    kept = []
    ft.grad(lambda x: kept.append(x) or np.sum(x))(X)
    (x,) = kept
    for use in (lambda: x + 1, lambda: 1 - x, lambda: np.sin(x), lambda: x[0], lambda: x.sum(), lambda: np.concatenate([x, x])):

        def raising():
            use()

        found, error = frames(raising)
        assert type(error) is errors.LeakedTracerError
        assert found[-1] == (ERRORS_HERE, "<lambda>")


def test_messages_end_with_their_code_and_survive_pickling():
    with pytest.raises(errors.IntegerInputError) as caught:
        ft.grad(np.sum)(np.arange(3))
    assert str(caught.value).endswith(" [FT101, docs/errors.md]")
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is errors.IntegerInputError
    assert str(again) == str(caught.value)


def test_a_message_without_a_line_gets_one():
    assert f"\n  At {here()}, in test_a_message_without_a_line_gets_one.\n  Remedy." in str(errors.TreeError("a: b.\n  Remedy."))


@pytest.mark.parametrize(
    "transform", [ft.grad, ft.value_and_grad, ft.jacrev, ft.jacfwd, ft.jacobian, ft.hessian, ft.vmap, ft.jit, ft.trace, ft.checkpoint]
)
def test_a_value_in_place_of_a_function(transform):
    raises(errors.CallError, TypeError, "applied to a function", "float64[]", call=lambda: transform(loss(X)))

    def raising():
        transform(loss(X))

    assert frames(raising)[0] == [(ERRORS_HERE, "raising")]


@pytest.mark.parametrize("module", [ft, ft.scipy])
def test_a_name_that_is_not_there(module):
    def raising():
        return module.grda

    names, error = frames(raising)
    assert names == [(ERRORS_HERE, "raising")]
    assert (error.name, error.obj) == ("grda", module)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="notes are of Python 3.11")
@pytest.mark.parametrize("transform", [ft.grad, ft.vmap, lambda f: ft.vmap(ft.grad(f))])
def test_an_error_in_a_jitted_function_names_it(transform):
    with pytest.raises(ValueError) as caught:
        transform(ft.jit(lambda x: mismatched(x)))(np.ones((2, 3)) if transform is not ft.grad else X)
    assert "<lambda>)" in caught.value.__notes__[0]


def mismatched(x):
    return np.sum(x * np.ones((5, 1, 4)) @ np.ones(3))


def test_warnings_name_the_users_line():
    with pytest.warns(UserWarning, match="precision") as caught:
        ft.check_grads(np.sin, np.array([0.3], np.float32), rtol=1e-2, atol=1e-2)
    assert caught[0].filename == __file__


def test_full_tracebacks_on_demand(monkeypatch):
    monkeypatch.setenv("FUNCTRACE_TRACEBACK", "full")

    def raising():
        ft.grad(failing)(X)

    assert ("tape.py", "record") in frames(raising)[0]
