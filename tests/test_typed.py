"""The typed programs run; mypy and pyright check them where `.ci/run` runs them. What they see of `functrace.torch` is as it is."""

import importlib
import inspect
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch

TYPED = pathlib.Path(__file__).parent / "typed"
PRINTED = {"signatures": "4.0 8.0\n", "training": "[3.] [1.]\n", "modules": "torch.Size([2]) 3 True\n"}


@pytest.mark.parametrize("program", PRINTED)
def test_typed_programs_run(program):
    root = str(TYPED.parent.parent)
    done = subprocess.run([sys.executable, TYPED / f"{program}.py"], env={"PYTHONPATH": root}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == PRINTED[program]


def test_every_typed_program_is_run():
    assert {p.stem for p in TYPED.glob("*.py")} == set(PRINTED)


def test_the_stubs_are_of_today():  # in a process of its own: what is imported shows in `dir`
    command = [sys.executable, "-m", "docs.stubs", "--check"]
    done = subprocess.run(command, cwd=TYPED.parent.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["fft", "integrate", "linalg", "ndimage", "optimize", "signal", "spatial", "special", "stats"])
def test_editors_and_prompts_complete_the_names_of_scipy(name):  # which are found when they are asked for
    pytest.importorskip("scipy")
    module = importlib.import_module(f"functrace.scipy.{name}")
    assert f"if TYPE_CHECKING:\n    from scipy.{name} import *" in inspect.getsource(module)
    assert {*importlib.import_module(f"scipy.{name}").__all__} <= {*dir(module)}


def loss(w, x, *, scale=1.0):
    """Of a line."""
    return np.sum(w * x) * scale


@pytest.mark.parametrize("of", [ft.grad, ft.value_and_grad, ft.jit, ft.vmap, ft.checkpoint, ft.hessian, ft.trace, ft.custom_jvp])
def test_a_transform_has_the_signature_and_docstring_of_the_function(of):
    made = of(loss)
    assert inspect.signature(made) == inspect.signature(loss)
    assert (made.__doc__, made.__name__, made.__module__, inspect.unwrap(made)) == (loss.__doc__, "loss", __name__, loss)
    assert inspect.getsource(made) == inspect.getsource(loss)


def test_optimisers_have_the_signature_of_their_options():
    assert list(inspect.signature(torch.optim.SGD).parameters)[:3] == ["params", "lr", "momentum"]
