"""The shim's graph: depth, memory, threads, modes, histories; and that it stands apart."""

import copy
import gc
import pickle
import subprocess
import sys

import numpy as np
import pytest

import functrace.torch as torch
from functrace.torch._missing import MissingNameError
from tests.helpers import in_threads


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


def test_deep_graph_is_built_run_and_freed_without_recursion():
    source = """if True:
    import sys, gc, threading
    import functrace.torch as torch
    sys.setrecursionlimit(200)
    gc.disable()
    def main():
        x = torch.ones(2, requires_grad=True)
        y = x
        for _ in range(60_000):
            y = y * 1.0
        y.sum().backward()
        print(x.grad)
        del y
        y = x
        for _ in range(60_000):
            y = torch.sin(y) + x[0]
        del y
    threading.stack_size(1 << 20)  # a frame for each node would not fit, neither of Python's nor of C's
    thread = threading.Thread(target=main)
    thread.start()
    thread.join()
    """
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("tensor([1., 1.])\n", "", 0)


@pytest.mark.parametrize("step", ["chain", "inplace", "leaf", "second"])
def test_nothing_is_left_behind_with_the_collector_off(step):
    w = torch.ones(4, 4, requires_grad=True)

    def chain():
        (torch.sin(w @ w)[0] * 2).sum().backward()

    def inplace():
        v = w * 1
        v[0][0] = w[1][1] ** 2
        v.sum().backward()

    def second():
        (g,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)
        (g * g).sum().backward()

    def new_leaf():
        t = torch.ones(2, requires_grad=True)
        (t * 2).sum().backward()

    run = {"chain": chain, "inplace": inplace, "leaf": new_leaf, "second": second}[step]
    for _ in range(5):
        run()
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(50):
            run()
            w.grad = None
        assert len(gc.get_objects()) - before < 20
    finally:
        gc.enable()


def test_backward_frees_what_was_saved():
    x = leaf(1.0, 2.0)
    y = x.exp()
    y.sum().backward()
    assert y.grad_fn.saved is None
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()
    y = x + 1  # saves nothing, so it can be run again, as in PyTorch
    y.sum().backward()
    y.sum().backward()


def test_gradients_own_their_memory():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    g = torch.ones(2)
    (x + y).backward(g)
    g[0] = 9.0
    x.grad[1] = 7.0
    assert x.grad.tolist() == [1.0, 7.0] and y.grad.tolist() == [1.0, 1.0]
    first = x.grad
    (x * 2).sum().backward()
    assert x.grad is first and first.tolist() == [3.0, 9.0]


def test_order_of_leaves_and_errors():
    w, b = leaf(2.0, 3.0), leaf(1.0, 1.0)
    z = (w * w + b).sum()
    z.backward()
    with pytest.raises(RuntimeError, match="second time"):
        z.backward()
    # PyTorch adds to a leaf as soon as its gradient is complete: b's is before the product is found to be freed.
    assert b.grad.tolist() == [2.0, 2.0] and w.grad.tolist() == [4.0, 6.0]


def test_threads_have_their_own_mode_and_do_not_disturb():
    wrong = []

    def work(k):
        for i in range(100):
            x = leaf(float(k), 2.0)
            with torch.no_grad():
                if (x * 2).requires_grad:
                    wrong.append(k)
            (x * x * x).sum().backward()
            if x.grad.tolist() != [3.0 * k * k, 12.0]:
                wrong.append((k, i))

    with torch.no_grad():
        in_threads(work, 4)
    assert not wrong and torch.is_grad_enabled()


def test_modes_as_contexts_and_decorators():
    x = leaf(1.0)

    @torch.no_grad()
    def off():
        return x * 2

    @torch.no_grad
    def bare():
        return x * 2

    @torch.no_grad()
    def generator():
        yield torch.is_grad_enabled()
        yield torch.is_grad_enabled()

    assert not off().requires_grad and not bare().requires_grad
    seen = [(inside, torch.is_grad_enabled()) for inside in generator()]
    assert seen == [(False, True), (False, True)]
    with torch.no_grad(), torch.enable_grad():
        assert (x * 2).requires_grad
    with torch.set_grad_enabled(False):
        assert not torch.is_grad_enabled()
    with torch.inference_mode():
        assert not (x * 2).requires_grad
    with pytest.raises(ValueError), torch.no_grad():
        raise ValueError
    assert torch.is_grad_enabled()


def test_writes_to_recorded_values_are_noticed():
    for write in (lambda t: t.add_(1), lambda t: t.__setitem__(0, 5.0), lambda t: t[1:].mul_(2), lambda t: t.detach().zero_()):
        x = leaf(1.0, 2.0) * 1
        y = (x * x).sum()
        write(x)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


def test_numpy_shares_memory_and_is_read_only_under_grad():
    t = torch.zeros(3)
    t.numpy()[0] = 5.0
    assert t.tolist() == [5.0, 0.0, 0.0]
    a = np.ones(2)
    torch.from_numpy(a)[0] = 4.0
    assert a.tolist() == [4.0, 1.0]
    t = leaf(1.0, 2.0)
    with pytest.raises(ValueError):
        t.numpy()[0] = 3.0
    with torch.no_grad():
        t.numpy()[0] = 3.0
    assert t.tolist() == [3.0, 2.0]


def test_numpy_functions_on_tensors_are_differentiated():
    x = leaf(0.5)
    (np.sin(x) * np.float64(2.0)).backward()
    np.testing.assert_allclose(x.grad.numpy(), [2 * np.cos(np.float32(0.5))], rtol=1e-6)


def test_copies():
    x = leaf(1.0, 2.0)
    x.grad = torch.ones(2)
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.requires_grad and y.is_leaf and y.tolist() == [1.0, 2.0] and y is not x
    assert pickle.loads(pickle.dumps(torch.float32)) is torch.float32
    assert pickle.loads(pickle.dumps(torch.Size([2]))) == torch.Size([2])


def test_hooks():
    x = leaf(1.0, 2.0)
    y = x * 3
    seen = []
    handle = y.register_hook(lambda g: g * 2)
    x.register_hook(seen.append)
    y.retain_grad()
    y.grad_fn.register_hook(lambda ins, outs: seen.append(len(ins)))
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0] and y.grad.tolist() == [2.0, 2.0]
    assert [s if isinstance(s, int) else s.tolist() for s in seen] == [2, [6.0, 6.0]]
    handle.remove()


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y.exp_(), lambda y: y.mul_(y.detach() + 1), lambda y: y[0].sin_(), lambda y: y.atan2_(y.detach() + 1), lambda y: y.abs_(),
        lambda y: y.cumprod_(0), lambda y: y.div_(y.detach()),
    ],
)  # fmt: skip
def test_a_write_whose_pack_hook_raises_leaves_the_tensor_or_an_error(write):
    def refuse(_):
        raise KeyError("full")

    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    with pytest.raises(KeyError, match="full"), torch.autograd.graph.saved_tensors_hooks(refuse, lambda t: t):
        write(y)
    if y.tolist() == [1.0, 2.0, 3.0]:
        (y * 2).sum().backward()
        assert x.grad.tolist() == [2.0, 2.0, 2.0]
    else:
        with pytest.raises(RuntimeError, match="nothing was saved for backward, since a pack hook"):
            (y * 2).sum().backward()


def test_missing_names_say_so():
    with pytest.raises(MissingNameError, match="functrace.torch"):
        torch.no_such_name  # noqa: B018
    assert not hasattr(torch.nn, "NoSuchLayer")
    with pytest.raises(AssertionError, match="CUDA") as caught:
        torch.zeros(2, device="cuda")
    assert sys.version_info < (3, 11) or "only the CPU: use 'cpu'" in caught.value.__notes__[0]
    assert not torch.cuda.is_available()


def test_functrace_does_not_import_the_shim():
    code = "import functrace, sys; assert not [m for m in sys.modules if m.startswith('functrace.torch')]"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_file_of_the_shim_is_short():
    from pathlib import Path

    long = {p.name: n for p in Path(torch.__file__).parent.rglob("*.py") if (n := len(p.read_text(encoding="utf-8").splitlines())) > 500}
    assert not long


def test_joins_of_lists_of_any_length_leave_nothing_behind():
    import tracemalloc

    x = torch.ones(2, requires_grad=True)

    def join(n):
        parts = [x * k for k in range(n)]
        torch.cat([torch.cat(parts), torch.stack(parts, 1).reshape(-1)]).sum().backward()

    join(60)  # which also fills what the interpreter keeps of freed tuples and lists
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for n in range(4, 60):
            join(n)
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert held < 20_000, f"{held} bytes"
    assert x.grad.tolist() == [2 * sum(n * (n - 1) // 2 for n in range(4, 61))] * 2
