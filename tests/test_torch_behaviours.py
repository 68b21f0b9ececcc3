"""What scripts rely on beyond values and gradients: modes, subclasses, hooks, batches of selections, parametrisations, data, averages."""

import io
import subprocess
import sys

import numpy as np
import pytest

import functrace.torch as torch


def test_names_that_are_not_there_say_what_to_use():
    with pytest.raises(AttributeError, match=r"to_sparse.*dense tensors"):
        torch.ones(2).to_sparse()
    assert not hasattr(torch.ones(2), "no_such_method")
    code = "import functrace.torch as t; t.install()\ntry:\n    import torch.distributed\nexcept ImportError as e:\n    print(e)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "No module named 'torch.distributed'" in printed and "one process" in printed


def test_classes_that_are_not_tensors_are_asked_from_the_start(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\nclass Two:\n    @classmethod\n    def __torch_function__(cls, func, types, args=(), kwargs=None):\n"
        "        return 2\nprint(torch.mean(Two()), torch.nn.functional.relu(Two()))\n"
    )
    done = subprocess.run([sys.executable, "-m", "functrace.torch", str(script)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("2 2\n", "")


def test_parametrised_modules_save_their_state_not_themselves():
    layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="state_dict"):
        torch.save(layer, io.BytesIO())
    other = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other.weight, layer.weight)


def test_no_grad_in_a_dual_level_is_refused():
    with torch.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match="detach"), torch.no_grad():
        pass


def test_random_numbers_are_imported_when_they_are_drawn():
    code = "import sys, functrace.torch as t; assert not {'numpy.random', 'numpy.fft'} & set(sys.modules); t.rand(1); t.fft.fft(t.ones(2))"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_gradient_is_kept_as_it_is_where_nobody_else_sees_it(monkeypatch):
    w = torch.ones(300, 200, requires_grad=True)
    copies, real = [], np.empty_like
    monkeypatch.setattr(np, "empty_like", lambda *args, **kwargs: copies.append(1) or real(*args, **kwargs))
    torch.nn.functional.linear(torch.ones(5, 200), w, torch.ones(300)).sum().backward()
    assert w.grad[0, 0] == 5 and not copies
    w.grad = None
    (w * 2).register_hook(seen := [].append)
    product = w * 2
    product.register_hook(seen)
    (product + w).sum().backward()
    assert w.grad[0, 0] == 3
