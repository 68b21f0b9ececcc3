"""Where tensors meet functions of arrays, and tensors of PyTorch itself: the derivative is right, or an error says what to write."""

import sys
import traceback

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.errors import InputTypeError, UnsupportedError

clipped = ft.custom_vjp(lambda x: x * 1)
clipped.defvjp(lambda x: (x * 1, None), lambda _, g: (np.clip(g, -1, 1),))
steeper = ft.custom_jvp(lambda x: x * 1)
steeper.defjvps(lambda t, _ans, _x: 7 * t)

PASSED_BY = {
    "stop_gradient": (ft.stop_gradient, r"x\.detach\(\)"),
    "value": (ft.value, r"x\.detach\(\)"),
    "custom_vjp": (clipped, "autograd.Function"),
    "custom_jvp": (steeper, "autograd.Function"),
    "trace": (ft.trace(lambda x: x * 2), r"draw\(f\(x\)\)"),
    "draw": (lambda x: ft.draw(torch.nn.Linear(1, 1), x), r"draw\(f\(x\)\)"),
    "explain": (lambda x: ft.explain(lambda x: x * 2, x), r"draw\(f\(x\)\)"),
    "profile": (ft.profile(lambda x: x * 2), "cProfile"),
}


@pytest.mark.parametrize("name", PASSED_BY)
def test_functions_of_arrays_that_would_pass_by_the_history_of_a_tensor_refuse_it(name):
    f, remedy = PASSED_BY[name]
    for x in (torch.tensor([3.0], requires_grad=True), torch.tensor([3.0])):
        with pytest.raises(InputTypeError, match=f"(?s)^{name}.*a Tensor keeps a history of its own.*{remedy}"):
            f(x)
    with pytest.raises(InputTypeError, match="history of its own"):
        torch.func.grad(lambda x: (x * f(x)).sum())(torch.tensor([3.0]))


def test_tensors_that_a_shown_function_makes_are_refused_too():
    for show in (ft.trace(torch.as_tensor), ft.profile(torch.as_tensor), lambda x: ft.explain(torch.as_tensor, x)):
        with pytest.raises(InputTypeError, match=r"Return x\.numpy\(\)"):
            show(np.ones(2))
    kept = ft.custom_vjp(lambda x: torch.as_tensor(x))
    kept.defvjp(lambda x: (torch.as_tensor(x), None), lambda _, g: (g,))
    for f in (ft.checkpoint(torch.as_tensor), kept):
        with pytest.raises(InputTypeError, match=r"Return x\.numpy\(\)"):
            ft.grad(lambda x, f=f: f(x).sum())(np.ones(2))
    assert str(ft.profile(lambda: torch.ones(2))()).endswith("For tensors use cProfile.")


LOOPS = {
    "scan": lambda w: ft.scan(lambda c, x: (c * w, c), np.ones(3), np.ones(4)),
    "fori_loop": lambda w: ft.fori_loop(0, 3, lambda i, c: c * w, np.ones(3)),
    "while_loop": lambda w: ft.while_loop(lambda c: True, lambda c: c * w, np.ones(3)),
    "fixed_point": lambda w: ft.fixed_point(lambda x: x * w, np.ones(3)),
}


@pytest.mark.parametrize("name", LOOPS)
def test_the_body_of_a_loop_may_not_make_its_carry_a_tensor(name):
    with pytest.raises(InputTypeError, match=rf"(?s)^{name}: .*\ba Tensor.*x\.numpy\(\)"):
        LOOPS[name](torch.full((3,), 0.5))


def test_the_body_of_a_loop_may_use_a_module():
    layer = torch.nn.Linear(2, 2, dtype=torch.float64)

    def f(x):
        return ft.fori_loop(0, 3, lambda i, c: torch.tanh(layer(torch.as_tensor(c))).numpy(), x).sum()

    ft.check_grads(f, np.array([0.3, -0.2]))


def test_a_function_of_arrays_may_use_a_module_that_has_parameters():
    layer = torch.nn.Linear(3, 1)
    gradient = ft.grad(lambda x: layer(torch.as_tensor(x)).numpy().sum())(np.ones(3, np.float32))
    assert np.array_equal(gradient, layer.weight.detach().numpy()[0])
    with pytest.raises(ft.errors.ConversionError, match="cut the derivative"):
        ft.grad(lambda x: np.asarray(layer(torch.as_tensor(x))).sum())(np.ones(3, np.float32))


@pytest.mark.parametrize("overridden", [False, True])
def test_a_tensor_of_pytorch_beside_one_of_functrace_is_an_error_that_says_so(overridden):
    if overridden:  # by a class that asks for it, anywhere in the process
        torch.overrides.install()
    theirs = pytest.importorskip("torch", reason="it is PyTorch's tensors that are passed")
    x, y = torch.ones(3), theirs.ones(3)
    for f in (lambda: x + y, lambda: y + x, lambda: x == y, lambda: x @ y, lambda: theirs.sin(x), lambda: theirs.nn.Linear(3, 2)(x)):
        with pytest.raises(UnsupportedError, match=r"of PyTorch was given a tensor of functrace.torch(?s:.)*from_numpy"):
            f()
    for g in (lambda: torch.sin(y), lambda: torch.nn.Linear(3, 2)(y), lambda: torch.cat([x, y]), lambda: x.mul_(y)):
        with pytest.raises(TypeError, match="a tensor of PyTorch itself: pass functrace.torch.from_numpy"):
            g()
    assert (x + torch.from_numpy(y.numpy())).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    "ask", [lambda: torch.ones(3).summ(), lambda: torch.ones(3).to_sparse(), lambda: __import__("functrace.torch.export")]
)
def test_errors_about_absent_names_have_no_frames_of_the_library(ask):
    with pytest.raises((AttributeError, ImportError)) as caught:
        ask()
    frames = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert not any("functrace/torch" in name for name in frames)
    assert frames[-1] == __file__ or sys.version_info < (3, 11)  # there the frame that trims stays
