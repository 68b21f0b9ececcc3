"""Arguments of the wrong kind: the message names the function, what was given, the user's line, and what to write."""

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace import errors, nn, optim, random, testing

V = np.ones(2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ft.vjp(V, 1.0), r"vjp: float64\[2\] stands where a function is expected(?s:.)*Write vjp\(f, \*primals\)"),
        (lambda: ft.linearize(None, 1.0), "linearize: NoneType stands where a function is expected"),
        (lambda: ft.custom_vjp(V), r"custom_vjp: float64\[2\] stands where a function is expected"),
        (lambda: ft.custom_jvp(3), "custom_jvp: int stands where a function is expected"),
        (lambda: ft.fixed_point(1.0, 2.0), r"fixed_point: float stands where a function is expected(?s:.)*fixed_point\(f, x0\)"),
        (lambda: ft.implicit_root(np.sin, 1.0, solver=None), "implicit_root: NoneType stands where a function is expected"),
        (lambda: ft.linear_solve(lambda x: x, np.eye(2)), r"linear_solve: b must be a vector of numbers, got float64\[2,2\](?s:.)*vmap"),
        (lambda: ft.linear_solve(lambda x: x, "b"), "linear_solve: b must be a vector of numbers, got str"),
        (lambda: ft.tree.map(V, V), r"tree.map: float64\[2\] stands where a function is expected"),
        (lambda: ft.tree.unflatten(V, [1]), r"tree.unflatten: float64\[2\] stands where a structure is expected"),
        (lambda: testing.check_tape(np.sin), "check_tape: ufunc stands where a tape is expected"),
        (lambda: optim.adam(None), "optim: learning_rate must be a number, got NoneType"),
        (lambda: optim.sgd("0.1"), "optim: learning_rate must be a number, got str"),
        (lambda: optim.lion(V), r"optim: learning_rate must be a number, got float64\[2\]"),
        (lambda: optim.cosine_decay(0.1, V), r"cosine_decay: decay_steps must be a number, got float64\[2\]"),
        (lambda: nn.relu("a"), "nn.relu: str stands where an array of real numbers is expected"),
        (lambda: nn.gelu(1j), "nn.gelu: complex stands where an array of real numbers is expected"),
        (lambda: nn.huber(np.sin, V), "nn.huber: ufunc stands where an array of real numbers is expected"),
        (lambda: ft.grad(lambda x: nn.relu(1j * x).real)(1.0), r"nn.relu: complex128\[\] stands where"),
    ],
)
def test_the_message_says_what_was_given(call, message):
    with pytest.raises((errors.CallError, errors.InputTypeError), match=rf"{message}(?s:.)*"):
        call()


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
