"""What scripts rely on beyond values and gradients: modes, subclasses, hooks, batches of selections, parametrisations, data, averages."""

import io
import subprocess
import sys
import warnings

import numpy as np
import pytest

import functrace.torch as torch


def test_names_that_are_not_there_say_what_to_use():
    with pytest.raises(AttributeError, match=r"to_sparse.*dense tensors"):
        torch.ones(2).to_sparse()
    assert not hasattr(torch.ones(2), "no_such_method")
    code = "import functrace.torch as t; t.install()\ntry:\n    import torch.nested\nexcept ImportError as e:\n    print(e)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "No module named 'torch.nested'" in printed and "pad to one length" in printed
    assert not torch.distributed.is_available() and not hasattr(torch.distributed, "all_reduce")


def test_names_that_are_imported_and_not_there_say_so_when_they_are_used():
    from functrace.torch._C import Value
    from functrace.torch.distributed.fsdp import FullyShardedDataParallel, wrap
    from functrace.torch.multiprocessing import spawn
    from functrace.torch.nn.parallel.scatter_gather import scatter

    class Own(torch.fx.Tracer, dict):  # may be defined: packages do, where nobody asks for it
        pass

    for use, text in (
        (Own, r"torch\.fx\.Tracer\(\) is not in .*functrace\.trace"),
        (Value, r"torch\._C\.Value\(\) is not in functrace"),
        (
            lambda: FullyShardedDataParallel(torch.nn.Linear(1, 1)),
            r"torch\.distributed\.fsdp\.FullyShardedDataParallel\(\): .* only the CPU",
        ),
        (wrap, r"torch\.distributed\.fsdp\.wrap\(\): .* only the CPU"),
        (lambda: scatter([], []), r"torch\.cuda\.comm\.scatter\(\): .* only the CPU"),
        (lambda: spawn(print, nprocs=2), r"torch\.multiprocessing\.spawn\(\) is not in functrace.*Python's multiprocessing"),
        (lambda: torch.multiprocessing.Process(target=print), r"torch\.multiprocessing\.Process\(\) is not .*Python's multiprocessing"),
        (lambda: torch.multiprocessing.set_start_method("spawn"), r"multiprocessing\.set_start_method is not .*Python's multiprocessing"),
        (lambda: torch.fx.symbolic_trace(torch.sin), r"torch\.fx\.symbolic_trace is not .*functrace\.trace"),
        (lambda: torch.onnx.export(torch.nn.Linear(1, 1), torch.ones(1)), r"torch\.onnx\.export is not .*state_dict"),
        (torch.futures.Future, r"torch\.futures\.Future\(\) is not .*concurrent\.futures"),
    ):
        with pytest.raises(NotImplementedError, match=text):
            use()


def test_operations_named_in_a_class_of_a_script_are_not_its_methods(tmp_path):
    (script := tmp_path / "script.py").write_text(
        "import enum, torch\nclass A:\n    f = torch.add\nprint(A().f(torch.ones(1), 2), A.f(torch.ones(1), 2))\n"
        "class E(enum.Enum):\n    RELU, F = torch.relu, torch.nn.functional.relu\nprint(list(E.__members__), E.RELU.value(torch.ones(1)))\n"
        "exec('class B(torch.nn.Module): pass\\nprint(B())', {'torch': torch})\n"
    )
    done = subprocess.run([sys.executable, "-m", "functrace.torch", str(script)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("tensor([3.]) tensor([3.])\n['RELU'] tensor([1.])\nB()\n", "")


def test_classes_that_are_not_tensors_are_asked_from_the_start(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\nclass Two:\n    @classmethod\n    def __torch_function__(cls, func, types, args=(), kwargs=None):\n"
        "        return 2\nprint(torch.mean(Two()), torch.nn.functional.relu(Two()))\n"
    )
    done = subprocess.run([sys.executable, "-m", "functrace.torch", str(script)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("2 2\n", "")


def test_classes_of_libraries_are_asked_and_their_bodies_hold_the_functions_that_ask(tmp_path):
    (tmp_path / "library.py").write_text(
        "import torch\nclass Two:\n    known = {torch.abs: 1, torch.linalg.det: 2}\n    @classmethod\n"
        "    def __torch_function__(cls, func, types, args=(), kwargs=None):\n        return cls.known[func]\n"
    )
    (script := tmp_path / "script.py").write_text(
        "import torch, library\nprint(torch.abs(library.Two()), torch.linalg.det(library.Two()))\n"
    )
    done = subprocess.run([sys.executable, "-m", "functrace.torch", str(script)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("1 2\n", "")


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


def test_what_scripts_import_is_there(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, torch.cuda.amp, torch.distributed, torch.backends.cudnn as cudnn, torch.serialization, random\n"
        "from torch.cuda.amp import GradScaler, autocast\nfrom torch.autograd.variable import Variable\n"
        "from torch.autograd.grad_mode import no_grad\nfrom torch.optim.lr_scheduler import *\nfrom torch.nn import *\nfrom torch import *\n"
        "from torch.distributions.transformed_distribution import TransformedDistribution\n"
        "print(OneCycleLR.__name__, Conv2d.__name__, ones(1), random.randint(1, 1), torch.distributed.is_available(), cudnn.enabled)\n"
        "print(torch.cuda.amp.autocast is autocast, Variable is torch.autograd.Variable, no_grad is torch.no_grad)\n"
        "print(torch.serialization.load is torch.load)\n"
        "from torch.cuda import nvtx\nfrom torch.utils.data.dataloader import _collate_fn_t\n"
        "from torch.distributions.multivariate_normal import _precision_to_scale_tril\n"
        "print(nvtx.range('a')(lambda: 3)(), isinstance(1, torch.distributed.fsdp.FSDPModule), _precision_to_scale_tril(eye(2) * 4))\n"
        "from torch.distributed import init_process_group\ntry:\n    init_process_group()\nexcept AttributeError as e:\n    print(str(e)[:39])\n"
    )
    done = subprocess.run([sys.executable, "-m", "functrace.torch", str(script)], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == (
        "OneCycleLR Conv2d tensor([1.]) 1 False True\nTrue True True\nTrue\n"
        "3 False tensor([[0.5000, 0.0000],\n        [0.0000, 0.5000]])\ntorch.distributed.init_process_group():\n"
    )


def test_mixed_precision_is_refused_where_it_would_be_and_told_of_where_it_is_not():
    for make in (lambda **enabled: torch.autocast("cpu", **enabled), lambda **enabled: torch.amp.GradScaler("cpu", **enabled)):
        with pytest.raises(NotImplementedError, match="enabled=False"):
            make()
        make(enabled=False)
    told = {torch.autocast: "CUDA is not available or torch_xla", torch.amp.GradScaler: "CUDA is not available"}
    for make, text in told.items():
        with pytest.warns(UserWarning, match=text):
            make("cuda")
        make("cuda", enabled=False)
    with pytest.warns(UserWarning, match="Disabling autocast"):
        assert torch.cuda.amp.autocast(True).device == "cuda"
    assert torch.cuda.amp.autocast(False).device == "cuda"


def test_measurements_are_means_of_runs_in_fitting_units():
    from functrace.torch.utils.benchmark import Measurement, Timer

    clock, runs = iter(range(10**6)), []
    timer = Timer("runs.append(1)", globals={"runs": runs}, timer=lambda: next(clock))  # each timing takes a second
    found = timer.timeit(500)
    assert (found.raw_times, found.times, found.mean, found.median) == ([1], [1 / 500], 1 / 500, 1 / 500)
    assert len(runs) == 505 and "\nruns.append(1)\n  2.00 ms\n  1 measurements, 500 runs" in repr(found)  # 5 before, to warm up
    assert timer.blocked_autorange(min_run_time=3.0).raw_times == [1, 1, 1]
    for seconds, text in ((2.0, "2.00 s"), (1.0, "1.00 s"), (3e-6, "3.00 us"), (5e-9, "5.00 ns"), (1e-10, "0.10 ns")):
        assert f"\n  {text}\n" in repr(Measurement(1, [seconds], "pass"))


def test_another_shape_for_the_array_is_not_one_for_the_tensor():
    a = np.arange(6.0)
    t = torch.from_numpy(a)
    assert t.numpy() is not a and np.shares_memory(t.numpy(), a)
    b = t.numpy()
    b.resize((2, 3), refcheck=False) if b.base is None else None
    a.flags.writeable = False
    t.add_(1)
    assert t.shape == (6,) and a[0] == 1.0


def test_gradients_of_gamma_samples_are_those_of_the_distribution_function():
    stats = pytest.importorskip("scipy.stats")
    torch.manual_seed(1)
    a = torch.tensor([0.7, 3.0], dtype=torch.float64, requires_grad=True)
    x = torch.distributions.Gamma(a, 1.0).rsample()
    x.sum().backward()
    for shape, value, slope in zip(a.tolist(), x.tolist(), a.grad.tolist()):
        level, h = stats.gamma.cdf(value, shape), 1e-5
        assert slope == pytest.approx((stats.gamma.ppf(level, shape + h) - stats.gamma.ppf(level, shape - h)) / (2 * h), rel=1e-5)


def test_gradients_of_wishart_samples_of_which_some_are_drawn_again():
    def total(v):  # with PyTorch's numbers; there `backward` raises
        torch.manual_seed(0)
        df = torch.tensor([3.0, 4.0], dtype=torch.float64)
        return (torch.distributions.Wishart(df, scale_tril=torch.linalg.cholesky(v)).rsample((3,)) ** 2).sum()

    v, h = torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=torch.float64, requires_grad=True), 1e-6
    total(v).backward()
    for e in torch.eye(2, dtype=torch.float64).diag_embed():
        slope = (total(v.detach() + h * e) - total(v.detach() - h * e)) / (2 * h)
        assert float((v.grad * e).sum()) == pytest.approx(float(slope), rel=1e-6)


@pytest.mark.parametrize("name", ["conv3d", "kl_div", "embedding", "lstm_cell", "pca_lowrank", "transpose_copy", "constant_pad_nd"])
def test_seldom_used_names_are_there(name):
    assert callable(getattr(torch, name))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.searchsorted(x, "a"),
        lambda x: torch.isin(x, "a"),
        lambda x: torch.isin(1, 2),
        lambda x: torch.rsub(x, "a"),
        lambda x: torch.floor_divide(x, "a"),
        lambda x: x.pow_([1, 2]),
        lambda x: x.floor_divide_(None),
    ],
)
def test_what_is_no_tensor_is_refused_not_ignored(call):
    """As PyTorch does, in the words of its functions with one signature."""
    x = torch.ones(2)
    with pytest.raises(TypeError, match=r"\(\): argument '\w+' \(position \d\) must be Tensor, not \w+"):
        call(x)
    assert x.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["ctc_loss", "embedding_bag", "max_unpool1d", "fractional_max_pool2d"])
def test_what_differs_between_examples_and_decides_on_places_is_refused_under_vmap(name):
    F, v = torch.nn.functional, torch.func.vmap
    images = torch.arange(32.0).view(2, 1, 4, 4)
    calls = {
        "ctc_loss": lambda: v(lambda p, t: F.ctc_loss(p, t, torch.tensor([4]), torch.tensor([2])))(
            torch.zeros(2, 4, 1, 3), torch.tensor([[[1, 2]], [[2, 2]]])
        ),
        "embedding_bag": lambda: v(lambda i: F.embedding_bag(i, torch.eye(3)))(torch.tensor([[[0, 1]], [[2, 2]]])),
        "max_unpool1d": lambda: v(lambda x, i: F.max_unpool1d(x, i, 2))(torch.ones(2, 1, 2), torch.tensor([[[0, 2]], [[1, 3]]])),
        "fractional_max_pool2d": lambda: v(lambda x, r: F.fractional_max_pool2d(x, 2, 2, _random_samples=r))(
            images, torch.ones(2, 1, 1, 2) / 2
        ),
    }
    with pytest.raises(NotImplementedError, match=f"{name} under vmap: its indices, targets or lengths differ"):
        calls[name]()


def test_a_number_of_a_tensor_with_a_history_warns_once():
    """`float` and `complex`, and lists of such tensors; not `item`, `int` or what has no history."""
    from functrace.torch import _dtypes

    x = torch.tensor(2.0, requires_grad=True)
    y = x * 2
    _dtypes.warn_once.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [y.item(), int(y), float(y.detach()), f"{y:.0f}"] == [4.0, 4, 4.0, "4"]
        with torch.no_grad():
            float(y)
    for convert in (float, complex, lambda t: torch.tensor([t, 1.0])):
        _dtypes.warn_once.cache_clear()
        with pytest.warns(UserWarning, match="Converting a tensor with requires_grad=True to a scalar") as told:
            convert(y)
            convert(y)
        assert len(told) == 1


def test_weight_norm_of_old_says_what_replaces_it():
    with pytest.warns(FutureWarning, match="in favor of `torch.nn.utils.parametrizations.weight_norm`"):
        torch.nn.utils.weight_norm(torch.nn.Linear(1, 1))


def test_what_is_asked_for_in_bfloat16_is_refused_at_once():
    x, layer = torch.ones(2), torch.nn.Linear(2, 2)
    for ask in (
        lambda: x.bfloat16(),
        lambda: layer.bfloat16(),
        lambda: x.to(torch.bfloat16),
        lambda: torch.nn.Linear(2, 2, dtype=torch.bfloat16),
        lambda: torch.set_default_dtype(torch.bfloat16),
    ):
        with pytest.raises(NotImplementedError, match=r"use (torch\.)?float32"):
            ask()
    assert torch.get_default_dtype() is torch.float32 and layer.weight.dtype is torch.float32


def test_names_in_programs_are_taken_and_profiles_refused():
    from functrace.torch.profiler import ProfilerActivity, profile, record_function

    with record_function("forward"), torch.autograd.profiler.record_function("below"):
        assert record_function("as a decorator")(lambda: 2)() == 2
    with pytest.raises(AttributeError, match="cProfile"):
        profile(activities=[ProfilerActivity.CPU])
    with pytest.raises(AttributeError, match=r"did you mean torch\.testing\.assert_close"):
        _ = torch.testing.assert_allclose


@pytest.mark.parametrize(
    "f", [torch.sin, torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.cpu, torch.nn.functional.relu, lambda x: x + 1, np.sin]
)
def test_operations_on_meta_raise(f):
    with pytest.raises(NotImplementedError, match="meta"):
        f(torch.empty(2, 2, device="meta"))
    with pytest.raises(NotImplementedError, match="to_empty"):
        torch.nn.Linear(2, 2, device="meta")(torch.ones(2))
    with pytest.raises(NotImplementedError, match="no data"):
        torch.nn.Linear(2, 2, device="meta").cpu()


def test_the_divergence_of_wisharts_is_the_mean_of_the_difference_in_a_batch_too_and_has_gradients():
    W, kl = torch.distributions.Wishart, torch.distributions.kl_divergence
    df, v = torch.tensor([3.5, 2.2], dtype=torch.float64), torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=torch.float64)
    q = W(torch.tensor(4.0, dtype=torch.float64), torch.eye(2, dtype=torch.float64) + 0.2)
    batch = kl(W(df, v), q)
    assert torch.allclose(batch, torch.stack([kl(W(d, v), q) for d in df]))
    torch.manual_seed(0)
    p = W(df[0], v)
    s = p.sample((20000,))
    assert abs((p.log_prob(s) - q.log_prob(s)).mean() - batch[0]) < 0.05
    factor = torch.linalg.cholesky(v).requires_grad_()
    assert torch.autograd.gradcheck(lambda d, f: kl(W(d, scale_tril=f.tril()), q), (df.clone().requires_grad_(), factor))


@pytest.mark.parametrize("write", [lambda y: y.sin_(), lambda y: y.clamp_(min=0.2), lambda y: y.fill_(2.0)])
def test_a_checkpoint_that_writes_to_what_it_has_saved_raises_as_without_one(write):
    def f(x):
        y = torch.tanh(x)
        write(y)
        return y * y

    x = torch.linspace(-1, 1, 3).requires_grad_()
    for run in (f, lambda x: torch.utils.checkpoint.checkpoint(f, x, use_reentrant=False)):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            (2 * run(x)).sum().backward()


def test_operations_of_packages_go_through_transforms_and_raise_where_gradients_would_be_lost():
    def cube(x: torch.Tensor) -> torch.Tensor:
        return x * x * x

    op = torch.library.custom_op("here::cube", cube, mutates_args=())
    op.register_autograd(lambda ctx, g: 3 * ctx.x**2 * g, setup_context=lambda ctx, inputs, output: setattr(ctx, "x", inputs[0]))
    x = torch.tensor([1.0, 2.0])
    assert torch.func.grad(lambda x: op(x).sum())(x).tolist() == [3.0, 12.0]
    assert torch.func.jvp(op, (x,), (torch.ones(2),))[1].tolist() == [3.0, 12.0]
    assert torch.vmap(op)(x).tolist() == [1.0, 8.0]
    assert torch.vmap(torch.func.grad(op))(x).tolist() == [3.0, 12.0]
    seen = []
    torch.library.register_vmap("here::cube", lambda info, dims, x: (seen.append((info.batch_size, dims)) or op(x), dims[0]))
    assert torch.vmap(op)(x).tolist() == [1.0, 8.0] and seen == [(2, (0,))]

    def scaled(x: torch.Tensor, *, by: torch.Tensor) -> torch.Tensor:
        return x * by

    named = torch.library.custom_op("here::scaled", scaled, mutates_args=())
    assert named(x, by=x).tolist() == [1.0, 4.0]
    with pytest.raises(NotImplementedError, match="no gradients of tensors by name"):
        named(x, by=x.clone().requires_grad_())
    with pytest.raises(NotImplementedError, match="no kernel is registered for the Meta backend"):
        named(x.to("meta"), by=x)
    with pytest.raises(RuntimeError, match="does not exist"):
        torch.library.register_fake("here::absent", lambda x: x)
    with pytest.raises(NotImplementedError, match="can't be replaced"):
        torch.library.Library("aten", "IMPL").impl("sin", lambda x: x)
