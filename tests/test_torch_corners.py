"""Where PyTorch rounds or gives NaN the shim gives the value; and modules that have PyTorch's name only, without `install`."""

import importlib
import math

import numpy as np
import pytest

import functrace.torch as torch

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("random", "_random"), ("serialization", "_serialization"), ("autograd.grad_mode", "_modes"), ("nn.modules.loss", "nn.modules.loss"),
        ("utils.data.dataset", "utils.data"), ("distributions.normal", "distributions.continuous"), ("optim.adam", "optim.algorithms"),
        ("nn.utils.clip_grad", "nn.utils"), ("cuda.amp", "amp"),
    ],
)  # fmt: skip
def test_modules_with_names_of_pytorchs_files_can_be_imported(name, module):
    found = importlib.import_module(f"functrace.torch.{name}")
    assert found is importlib.import_module(f"functrace.torch.{module}")
    assert found.__spec__ is None or found.__spec__.name == found.__name__
    for part in name.split("."):
        module = getattr(torch if part == name.split(".")[0] else module, part)
    assert module is found


@pytest.mark.parametrize(("name", "advice"), [("jit", "functrace.jit"), ("optim.muon", "custom_vjp"), ("nn.no_such_file", "custom_vjp")])
def test_modules_that_are_not_there_say_what_to_use(name, advice):
    with pytest.raises(ModuleNotFoundError, match=rf"No module named 'torch\.{name}' in functrace.torch.*{advice}"):
        importlib.import_module(f"functrace.torch.{name}")


def slope(f, *values, order):
    xs = [torch.tensor(v, requires_grad=True) for v in values]
    out = f(*xs)
    for _ in range(order):
        grads = torch.autograd.grad(out, xs, create_graph=True)
        out = grads[0]
    return [g.item() for g in grads]


@pytest.mark.parametrize(
    ("f", "values", "order", "wanted"),
    [
        (torch.atan2, (1e-30, 1e-30), 1, (5e29, -5e29)),
        (torch.atan2, (INF, 1.0), 1, (0.0, 0.0)),
        (torch.atan2, (0.0, 0.0), 1, (0.0, 0.0)),
        (torch.sinc, (1e-30,), 1, (-(math.pi**2) / 3 * 1e-30,)),
        (torch.sinc, (0.0,), 2, (-(math.pi**2) / 3,)),
        (torch.logit, (0.0,), 1, (INF,)),
        (torch.logit, (1.0,), 1, (INF,)),
        (torch.logit, (0.25,), 2, (-(1 - 0.5) / (0.25 * 0.75) ** 2,)),
        (torch.nn.functional.celu, (INF,), 1, (1.0,)),
        (torch.i0, (NAN,), 1, (NAN,)),
    ],
)
def test_slopes_at_the_ends(f, values, order, wanted):
    with np.errstate(all="ignore"):  # as the runner of scripts does: PyTorch does not warn
        found = slope(f, *values, order=order)
    assert found == pytest.approx(wanted, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("f", [torch.fliplr, torch.rot90, lambda a: torch.matrix_power(a, 1), lambda a: torch.einsum("ij->ji", a)])
def test_results_do_not_share_their_arguments_memory_unseen(f, requires_grad):
    a = torch.arange(4.0).view(2, 2).requires_grad_(requires_grad)
    r = f(a)
    before = a.detach().clone()
    with torch.no_grad():
        r.mul_(7)
    assert torch.equal(a.detach(), before) or r._base is not None


def test_results_in_traced_functions_are_the_same():
    x = torch.arange(6.0).view(2, 3)
    assert torch.equal(torch.func.vmap(lambda v: v.flip(0))(x), x.flip(1))
    assert torch.equal(torch.func.grad(lambda v: (v.flip(0) * torch.arange(3)).sum())(x[0]), torch.tensor([2.0, 1.0, 0.0]))
    both = torch.func.jvp(torch.complex, (x, x + 1), (x, x))[1]
    assert torch.equal(both, torch.complex(x, x))


def test_a_negative_offset_reads_no_foreign_memory():
    with pytest.raises(RuntimeError, match="invalid storage offset -1"):
        torch.ones(3).as_strided((2,), (1,), -1)
