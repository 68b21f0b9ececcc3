"""Arguments of the wrong kind: the message names the function, what was given, the user's line, and what to write."""

import os
import sys
import traceback

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace import errors, nn, optim, random, testing

V = np.ones(2)
KEY = random.key(0)


def scaled(x, k=1.0):
    return x * k


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ft.sparse_jacobian(V), r"sparse_jacobian is applied to a function, and was given float64\[2\]"),
        (lambda: ft.debug_nans()(3), "debug_nans is applied to a function, and was given int"),
        (lambda: ft.profile(3), "profile is applied to a function, and was given int"),
        (lambda: ft.scipy_objective(scaled, "a"), "ravel_pytree: leaf 0 is a str"),
        (lambda: optim.chain(optim.clip(1.0), optim.adam), "chain: function stands where a transformation is expected"),
        (lambda: ft.vjp(V, 1.0), r"vjp: float64\[2\] stands where a function is expected(?s:.)*Write vjp\(f, \*primals\)"),
        (lambda: ft.linearize(None, 1.0), "linearize: NoneType stands where a function is expected"),
        (lambda: ft.custom_vjp(V), r"custom_vjp: float64\[2\] stands where a function is expected"),
        (lambda: ft.jit(scaled, max_paths="8"), r"jit\(scaled\): max_paths must be a whole number, got '8'"),
        (lambda: ft.jit(scaled, max_paths=-1), r"max_paths must be a whole number, got -1(?s:.)*Leave it out"),
        (lambda: ft.custom_jvp(3), "custom_jvp: int stands where a function is expected"),
        (lambda: ft.fixed_point(1.0, 2.0), r"fixed_point: float stands where a function is expected(?s:.)*fixed_point\(f, x0\)"),
        (lambda: ft.implicit_root(np.sin, 1.0, solver=None), "implicit_root: NoneType stands where a function is expected"),
        (lambda: ft.linear_solve(lambda x: x, np.eye(2)), r"linear_solve: b must be a vector of numbers, got float64\[2,2\](?s:.)*vmap"),
        (lambda: ft.linear_solve(lambda x: x + 1, V), r"matvec is not linear: of zeros it gives \[1. 1.\](?s:.)*Subtract that from b"),
        (lambda: ft.sparse_jacobian(np.sin, "diagonal")(V), "the pattern must be a matrix, of SciPy or NumPy, got str"),
        (lambda: ft.sparse_hessian(np.sum, V)(V), r"the pattern must be a matrix, of SciPy or NumPy, got float64\[2\]"),
        (lambda: ft.check_grads(np.sin, 1.0, step=0), "the step of the differences must be positive, got step=0"),
        (lambda: ft.check_grads(np.sin, 1.0, order=1.5), "nothing to check with order=1.5"),
        (lambda: ft.custom_vjp(np.sin).defvjp(np.sin, None), "defvjp: NoneType stands where a function is expected"),
        (lambda: ft.custom_jvp(np.sin).defjvp(V), r"defjvp: float64\[2\] stands where a function is expected"),
        (lambda: ft.linear_solve(lambda x: x, "b"), "linear_solve: b must be a vector of numbers, got str"),
        (lambda: ft.map(V, np.sin), r"map: float64\[2\] stands where a function is expected(?s:.)*Write map\(f, xs\)"),
        (lambda: ft.tree.map(V, V), r"tree.map: float64\[2\] stands where a function is expected"),
        (lambda: ft.tree.unflatten(V, [1]), r"tree.unflatten: float64\[2\] stands where a structure is expected"),
        (lambda: ft.vmap(lambda x: (y for y in x))(np.eye(2)), r"vmap\(<lambda>\): the function returned a generator"),
        (lambda: ft.map(lambda x: np.sin, V), "map: the function returned a ufunc"),
        (lambda: ft.scan(lambda c, x: (c, [x, np.sin]), 0.0, V), "scan: the function returned a ufunc"),
        (lambda: random.uniform(KEY, (3,), 2.0, 1.0), "random.uniform: dtype must be float16, float32 or float64, got 2.0"),
        (lambda: testing.verify(np.sin), "verify: ufunc stands where a declaration is expected"),
        (lambda: nn.one_hot(np.arange(2), 2.5), "nn.one_hot: num_classes must be an integer, got float"),
        (lambda: testing.check_tape(np.sin), "check_tape: ufunc stands where a tape is expected"),
        (lambda: optim.adam(None), "optim: learning_rate must be a number, got NoneType"),
        (lambda: optim.sgd("0.1"), "optim: learning_rate must be a number, got str"),
        (lambda: optim.lion(V), r"optim: learning_rate must be a number, got float64\[2\]"),
        (lambda: optim.cosine_decay(0.1, V), r"cosine_decay: decay_steps must be a number, got float64\[2\]"),
        (lambda: ft.vjp(scaled)(1.0), r"vjp: there is no argument(?s:.)*Write vjp\(f, x\), not vjp\(f\)\(x\)"),
        (lambda: ft.linearize(scaled, k=2.0), r"linearize: there is no argument(?s:.)*Write linearize\(f, x\), not linearize\(f\)\(x\)"),
        (lambda: ft.jvp(scaled, (), ()), r"jvp: there is no argument(?s:.)*Write jvp\(f, \(x,\), \(v,\)\)"),
        (lambda: ft.optimize.opaque(1), "opaque: int stands where a function is expected"),
        (lambda: optim.piecewise_constant(1.0, None), "piecewise_constant: boundaries_and_scales must be a dict, got NoneType"),
        (lambda: optim.piecewise_constant(1.0, {"a": 0.5}), "piecewise_constant: boundary must be a number, got str"),
        (lambda: optim.piecewise_constant(scaled, {1: 0.5}), "piecewise_constant: init_value must be a number, got function"),
        (lambda: optim.constant(None), "constant: value must be a number, got NoneType"),
        (lambda: optim.linear(1.0, None, 3), "linear: end_value must be a number, got NoneType"),
        (lambda: optim.exponential_decay(1.0, 3, None), "exponential_decay: decay_rate must be a number, got NoneType"),
        (lambda: optim.warmup_cosine(0.0, 1.0, None, 9), "warmup_cosine: warmup_steps must be a number, got NoneType"),
        (lambda: nn.glorot_uniform(KEY, None), r"nn.glorot_uniform: a shape is an int or a sequence of ints, got None"),
        (lambda: nn.he_normal(KEY, (3, 4.0)), r"nn.he_normal: a shape is an int or a sequence of ints, got \(3, 4.0\)"),
        (lambda: nn.sigmoid(1j), "nn.sigmoid: complex stands where"),
        (lambda: nn.relu("a"), "nn.relu: str stands where an array of real numbers is expected"),
        (lambda: nn.gelu(1j), "nn.gelu: complex stands where an array of real numbers is expected"),
        (lambda: nn.huber(np.sin, V), "nn.huber: ufunc stands where an array of real numbers is expected"),
        (lambda: ft.grad(lambda x: nn.relu(1j * x).real)(1.0), r"nn.relu: complex128\[\] stands where"),
    ],
)
def test_the_message_says_what_was_given(call, message):
    with pytest.raises((errors.CallError, errors.InputTypeError), match=rf"{message}(?s:.)*") as caught:
        call()
    ours = [frame for frame in traceback.extract_tb(caught.tb) if frame.filename.startswith(os.path.dirname(ft.__file__))]
    assert len(ours) <= (sys.version_info < (3, 11)) or message.startswith("nn.")  # where a frame more costs time


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.glorot_normal(KEY, 3), r"nn.glorot_normal: a weight has an axis for its inputs and one for its outputs, got \(3,\)"),
        (lambda: nn.orthogonal(KEY, 3), r"nn.orthogonal: a weight has an axis for its inputs and one for its outputs, got \(3,\)"),
        (lambda: nn.lecun_uniform(KEY, (3, -4)), r"nn.lecun_uniform: the lengths of a shape can't be negative, got \(3, -4\)"),
        (lambda: random.normal(KEY, -1), "random: the lengths of a shape can't be negative, got -1"),
        (lambda: nn.he_uniform(KEY, (3, 4), in_axis=2), "nn.he_uniform: axis 2 is out of bounds for array of dimension 2"),
    ],
)
def test_a_wrong_shape_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ft.custom_vjp(scaled, None), r"custom_vjp\(scaled\): nondiff_argnums must be an int or a tuple of ints, got None\.\n"),
        (lambda: ft.custom_jvp(scaled, "x"), r"custom_jvp\(scaled\): nondiff_argnums must be an int or a tuple of ints, got 'x'"),
        (lambda: ft.jit(scaled, static_argnums="k"), r"jit\(scaled\): static_argnums must be.*got 'k'; for a name use static_argnames="),
        (lambda: ft.jit(scaled, static_argnames=1), r"jit\(scaled\): static_argnames must be a string or a tuple of strings, got 1"),
        (lambda: ft.jit(scaled, donate_argnums=[None]), r"jit\(scaled\): donate_argnums must be an int or a tuple of ints, got \[None\]"),
        (lambda: ft.jit(scaled, static_argnames=["typo"]), r"static_argnames names 'typo'(?s:.)*its parameters are \['x', 'k'\]"),
        (lambda: ft.grad(scaled, argnames=[1])(1.0), r"grad\(scaled\): argnames must be a string or a tuple of strings, got \[1\]"),
        (lambda: ft.grad(scaled, argnames={"x", "k"})(1.0, k=1.0), "argnames must be a string or a tuple of strings, got {"),
    ],
)
def test_an_option_that_names_arguments_is_checked(call, message):
    with pytest.raises(errors.ArgnumsError, match=message):
        call()


def test_options_that_name_arguments_may_be_of_any_kind_that_does():
    assert ft.jit(scaled, static_argnames={"k"})(2.0, k=3.0) == 6.0
    assert ft.jit(scaled, static_argnums=np.int64(1))(2.0, 3.0) == 6.0
    assert ft.grad(scaled, range(2))(2.0, 3.0) == (3.0, 2.0)
    assert ft.vjp(lambda k=3.0: k)[0] == 3.0


def test_a_single_logit_has_no_categories():
    with pytest.raises(ValueError, match=r"random.categorical: logits must have an axis of categories, got float64\[\]"):
        random.categorical(random.key(0), 1.0)


class Asked:
    """An operand that wants to be asked, as pytest.approx does."""

    __array_ufunc__ = None
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = lambda self, other: "asked"
    __hash__ = None


@pytest.mark.parametrize("transform", [ft.grad, ft.jit, ft.vmap])
def test_comparisons_ask_an_operand_that_wants_to_be_asked(transform):
    found = []

    def f(x):
        other = Asked()
        found.extend((x == other, x != other, x < other, x <= other, x > other, x >= other))
        return np.sum(x)

    transform(f)(V[None])
    assert set(found) == {"asked"}


def test_functrace_numpy_lists_no_names_of_its_own():
    assert "Any" not in dir(fnp)
