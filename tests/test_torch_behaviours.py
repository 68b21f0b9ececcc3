"""What scripts rely on beyond values and gradients: modes, subclasses, hooks, batches of selections, parametrisations, data, averages.

`PROGRAMS` says what PyTorch 2.13 prints: see `torch_programs`.
"""

import io
import subprocess
import sys

import numpy as np
import pytest
import torch_programs

import functrace.torch as torch

PROGRAMS = r"""
## inference_tensors_are_marked_and_their_views_too
w = torch.ones(2, requires_grad=True)
with torch.inference_mode():
    x, y, v = torch.ones(2), w * 2, w.view(2, 1)
    print([t.is_inference() for t in (x, y, v, x.view(2, 1), x + 1)], y.requires_grad, torch.is_inference_mode_enabled())
    print(x.add_(1), (w * 2).requires_grad)
    with torch.enable_grad(): print((w * 2).requires_grad)
    with torch.inference_mode(False): print(torch.ones(1).is_inference(), (w * 2).requires_grad)
print(x.is_inference(), x.clone().is_inference(), (x + 1).is_inference(), x.detach().is_inference(), torch.ones(1).is_inference())
#> [True, True, False, True, True] False True
#> tensor([2., 2.]) False
#> False
#> False True
#> True False False True False
## inference_tensors_are_not_saved_for_backward
w = torch.ones(2, requires_grad=True)
with torch.inference_mode(): x = torch.ones(2)
for f in (lambda: w * x, lambda: torch.atan2(w, x), lambda: x.requires_grad_(), lambda: x._version, lambda: torch.einsum("i,i", w, x)):
    try: print(f())
    except RuntimeError as e: print(e)
(w + x).sum().backward(); print(w.grad)
(w * x.clone()).sum().backward(); print(w.grad)
#> Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`.
#> Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`.
#> Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.
#> Inference tensors do not track version counter.
#> Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`.
#> tensor([1., 1.])
#> tensor([2., 2.])
## inference_tensors_are_not_written_outside
with torch.inference_mode(): x = torch.ones(2)
for f in (lambda: x.add_(1), lambda: x.clamp_(0), lambda: x.__setitem__(0, 1)):
    try: f()
    except RuntimeError as e: print(str(e)[:90])
#> Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clo
#> Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clo
#> Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clo
## inference_mode_decorates
@torch.inference_mode()
def f(a): return a * 2
@torch.inference_mode
def g(a): return a * 2
w = torch.ones(2, requires_grad=True)
print(f(w), f(w).is_inference(), g(w).is_inference(), (w * 2).requires_grad)
#> tensor([2., 2.]) True True True
## subclasses_keep_their_class
class Tagged(torch.Tensor):
    pass
t = torch.ones(2).as_subclass(Tagged)
print(t, type(t + 1), type(1 + t), type(torch.sin(t)), type(t.sum()), type(t[0]), type(t.detach()), type(torch.cat([t, t])), type(t.numpy()))
t.note = "kept"
import copy
print(type(copy.copy(t)), copy.copy(t).note)
u = torch.Tensor._make_subclass(Tagged, torch.ones(2), True)
(u * 3).sum().backward()
print(u, u.requires_grad, u.grad)
#> Tagged([1., 1.]) <class '__main__.Tagged'> <class '__main__.Tagged'> <class '__main__.Tagged'> <class '__main__.Tagged'> <class '__main__.Tagged'> <class '__main__.Tagged'> <class '__main__.Tagged'> <class 'numpy.ndarray'>
#> <class '__main__.Tagged'> kept
#> Tagged([1., 1.], requires_grad=True) True tensor([3., 3.])
## torch_function_sees_each_operation
class Logged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        print(func.__name__, [x.__name__ for x in types], len(args), kwargs)
        return super().__torch_function__(func, types, args, kwargs or {})
l = torch.ones(2).as_subclass(Logged)
r = torch.add(l, 2, alpha=3)
r = torch.stack([l, l]).sum()
r = l * l
#> add ['Logged'] 2 {'alpha': 3}
#> stack ['Logged'] 1 None
#> sum ['Logged'] 1 None
#> mul ['Logged'] 2 None
## torch_function_of_other_classes
class Loud(torch.Tensor): pass
class Half:
    def __init__(self, value): self.value = value
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return args[0].value / 2 if func is torch.mean else NotImplemented
print(torch.mean(Half(3)))
try: torch.sin(Half(3))
except TypeError as e: print(str(e)[:40])
#> 1.5
#> Multiple dispatch failed for 'torch.sin'
## vmap_of_orderings_and_selections
v, x = torch.vmap, torch.tensor([[3., 1., 2.], [1., 5., 4.]])
print(v(lambda a: a.sort().values)(x), v(lambda a: a.argsort(descending=True))(x), v(lambda a: a.topk(2))(x))
print(v(lambda a: a.max(0))(x), v(lambda a: a.median())(x), v(lambda a: a.kthvalue(2).values)(x), v(lambda a: a.cummax(0).values)(x))
print(v(lambda a, i: a[i])(x, torch.tensor([0, 2])), v(lambda a, i: a.index_select(0, i))(x, torch.tensor([[0, 1], [2, 2]])))
print(v(torch.func.grad(lambda a: a.topk(2).values.sum() * a.max()))(x))
#> tensor([[1., 2., 3.],
#>         [1., 4., 5.]]) tensor([[0, 2, 1],
#>         [1, 2, 0]]) torch.return_types.topk(
#> values=tensor([[3., 2.],
#>         [5., 4.]]),
#> indices=tensor([[0, 2],
#>         [1, 2]]))
#> torch.return_types.max(
#> values=tensor([3., 5.]),
#> indices=tensor([0, 1])) tensor([2., 4.]) tensor([2., 4.]) tensor([[3., 3., 3.],
#>         [1., 5., 5.]])
#> tensor([3., 4.]) tensor([[3., 1.],
#>         [4., 4.]])
#> tensor([[ 8.,  0.,  3.],
#>         [ 0., 14.,  5.]])
## vmap_says_what_it_can_not_do
for f in (lambda a: a.item(), lambda a: a if a > 0 else -a, lambda a: a + torch.rand(1), lambda a: 3):
    try: torch.vmap(f)(torch.tensor([1., -1.]))
    except Exception as e: print(type(e).__name__, str(e)[:100])
torch.manual_seed(0)
try: torch.vmap(lambda a: a + torch.rand(1))(torch.ones(2))
except RuntimeError: print(torch.rand(1))
#> RuntimeError vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() o
#> RuntimeError vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't
#> RuntimeError vmap: called random operation while in randomness error mode. Please either use the 'same' or 'diffe
#> ValueError vmap(<lambda>, ...): `<lambda>` must only return Tensors, got type <class 'int'>. Did you mean to se
#> tensor([0.4963])
## saved_tensors_can_be_given_hooks
x = torch.tensor([1., 2.], requires_grad=True)
y = x * x
raw = y.grad_fn._raw_saved_self
print(raw)
raw.register_hooks(lambda t: print("pack", t.detach()) or t, lambda t: print("unpack") or t)
try: raw.register_hooks(lambda t: t, lambda t: t)
except RuntimeError as e: print(str(e)[:70])
y.sum().backward(); print(x.grad)
try: raw.register_hooks(lambda t: t, lambda t: t)
except RuntimeError as e: print(str(e)[:70])
#> <torch._C._autograd.SavedTensor object at 0x>
#> pack tensor([1., 2.])
#> Calling register_hooks on a saved tensor whose hooks have already been
#> unpack
#> tensor([2., 4.])
#> Calling register_hooks on a saved tensor after it has been freed. Save
## module_hooks_on_all_modules
nn = torch.nn
net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
handles = [register_module_forward_hook(lambda m, i, o: print("after", type(m).__name__, tuple(o.shape))),
           register_module_forward_pre_hook(lambda m, i: print("before", type(m).__name__))]
out = net(torch.ones(1, 2))
for h in handles: h.remove()
out = net(torch.ones(1, 2))
h = net.register_forward_hook(lambda m, i, o: o * 0); print(len(net._forward_hooks), net(torch.ones(1, 2)))
net._forward_hooks.clear(); print(net._forward_hooks, len(net._forward_pre_hooks))
#> before Sequential
#> before Linear
#> after Linear (1, 3)
#> before ReLU
#> after ReLU (1, 3)
#> after Sequential (1, 3)
#> 1 tensor([[0., 0., 0.]], grad_fn=<MulBackward0>)
#> OrderedDict() 0
## modules_have_pytorchs_files
from torch.nn.modules.utils import _pair
from torch.nn.modules.loss import MSELoss
print(_pair(3), _pair((1, 2)), torch.nn.modules.conv.Conv2d is torch.nn.Conv2d, MSELoss is torch.nn.MSELoss)
#> (3, 3) (1, 2) True True
## duals_are_printed_with_their_tangents
import torch.autograd.forward_ad as fw
with fw.dual_level():
    x = fw.make_dual(torch.tensor([1., 2.]), torch.tensor([1., 0.]))
    print(x, x * x, fw.unpack_dual(x.exp()).tangent)
    p = torch.tensor([3.], requires_grad=True)
    print(fw.unpack_dual(x[0] * p).tangent.requires_grad)
#> tensor([1., 2.], tangent=tensor([1., 0.])) tensor([1., 4.], tangent=tensor([2., 0.])) tensor([2.7183, 0.0000])
#> True
## lstm_with_projections
torch.manual_seed(0)
m = torch.nn.LSTM(3, 4, num_layers=2, proj_size=2, bidirectional=True)
print(m, [tuple(p.shape) for p in m.parameters()])
out, (h, c) = m(torch.ones(2, 1, 3)); print(out.detach(), h.shape, c.shape)
for bad in (dict(proj_size=4), dict(proj_size=-1)):
    try: torch.nn.LSTM(3, 4, **bad)
    except ValueError as e: print(e)
#> LSTM(3, 4, proj_size=2, num_layers=2, bidirectional=True) [(16, 3), (16, 2), (16,), (16,), (2, 4), (16, 3), (16, 2), (16,), (16,), (2, 4), (16, 4), (16, 2), (16,), (16,), (2, 4), (16, 4), (16, 2), (16,), (16,), (2, 4)]
#> tensor([[[0.1266, 0.0310, 0.0320, 0.0592]],
#>
#>         [[0.1795, 0.0408, 0.0197, 0.0396]]]) torch.Size([4, 1, 2]) torch.Size([4, 1, 4])
#> proj_size has to be smaller than hidden_size
#> proj_size should be a positive integer or zero to disable projections
## parametrisations
import torch.nn.utils.parametrize as P
nn = torch.nn
class Symmetric(nn.Module):
    def forward(self, x): return x.triu() + x.triu(1).mT
    def right_inverse(self, x): return x.triu()
torch.manual_seed(0)
lin = nn.Linear(3, 3)
P.register_parametrization(lin, "weight", Symmetric())
print(lin, lin.weight, list(lin.state_dict()), P.is_parametrized(lin, "bias"))
with P.cached(): print(lin.weight is lin.weight)
lin.weight = torch.ones(3, 3); print(lin.weight, lin.parametrizations.weight.original)
lin(torch.ones(3)).sum().backward(); print(lin.parametrizations.weight.original.grad)
P.remove_parametrizations(lin, "weight"); print(lin, lin.weight, P.is_parametrized(lin))
#> ParametrizedLinear(
#>   in_features=3, out_features=3, bias=True
#>   (parametrizations): ModuleDict(
#>     (weight): ParametrizationList(
#>       (0): Symmetric()
#>     )
#>   )
#> ) tensor([[-0.0043,  0.3097, -0.4752],
#>         [ 0.3097, -0.2224,  0.1548],
#>         [-0.4752,  0.1548, -0.0512]], grad_fn=<AddBackward0>) ['bias', 'parametrizations.weight.original'] False
#> True
#> tensor([[1., 1., 1.],
#>         [1., 1., 1.],
#>         [1., 1., 1.]], grad_fn=<AddBackward0>) Parameter containing:
#> tensor([[1., 1., 1.],
#>         [0., 1., 1.],
#>         [0., 0., 1.]], requires_grad=True)
#> tensor([[1., 2., 2.],
#>         [0., 1., 2.],
#>         [0., 0., 1.]])
#> Linear(in_features=3, out_features=3, bias=True) Parameter containing:
#> tensor([[1., 1., 1.],
#>         [1., 1., 1.],
#>         [1., 1., 1.]], requires_grad=True) False
## parametrisations_are_checked
import torch.nn.utils.parametrize as P
nn = torch.nn
def making(f): return type("Made", (nn.Module,), {"forward": lambda self, x: f(x)})()
for f in (lambda x: x[0], lambda x: x.double(), lambda x: 3):
    try: P.register_parametrization(nn.Linear(3, 3), "weight", making(f))
    except ValueError as e: print(e)
m = nn.Linear(3, 3)
P.register_parametrization(m, "weight", making(lambda x: x * 2))
try: m.weight = torch.ones(3, 3)
except RuntimeError as e: print(e)
for f in (lambda: P.register_parametrization(m, "weight", making(lambda x: x[0])), lambda: P.remove_parametrizations(nn.ReLU(), "weight"),
          lambda: P.register_parametrization(m, "nothing", nn.Identity())):
    try: f()
    except ValueError as e: print(str(e)[-80:])
#> Registering a parametrization may not change the shape of the tensor, unless `unsafe` flag is enabled.
#> unparametrized shape: torch.Size([3, 3])
#> parametrized shape: torch.Size([3])
#> Registering a parametrization may not change the dtype of the tensor, unless `unsafe` flag is enabled.
#> unparametrized dtype: torch.float32
#> parametrized dtype: torch.float64
#> A parametrization must return a tensor. Got int.
#> parametrization Made does not implement right_inverse.
#> .shape: torch.Size([3, 3])
#> parametrization(module.weight).shape: torch.Size([3])
#> Module ReLU() does not have a parametrization on weight
#> es not have a parameter, a buffer, or a parametrized element with name 'nothing'
## weight_and_spectral_norm
nn = torch.nn
torch.manual_seed(0)
a = nn.utils.weight_norm(nn.Linear(3, 2)); print(sorted(a.state_dict()), a.weight_g, a(torch.ones(3)))
a(torch.ones(3)).sum().backward(); print(a.weight_g.grad, a.weight_v.grad)
nn.utils.remove_weight_norm(a); print(sorted(a.state_dict()))
b = nn.utils.parametrizations.weight_norm(nn.Conv2d(1, 2, 2), dim=None); print(b, b.parametrizations.weight.original0)
c = nn.utils.spectral_norm(nn.Linear(3, 2)); out = c(torch.ones(3)); print(list(c.state_dict()), c.weight_u.shape, c.weight.requires_grad)
d = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2)); print(torch.linalg.matrix_norm(d.weight, 2).item() < 1.01, sorted(d.state_dict()))
e = nn.utils.parametrizations.orthogonal(nn.Linear(2, 3)); print(torch.allclose(e.weight.mT @ e.weight, torch.eye(2), atol=1e-6))
#> ['bias', 'weight_g', 'weight_v'] Parameter containing:
#> tensor([[0.5672],
#>         [0.5039]], requires_grad=True) tensor([-0.1812, -0.0347], grad_fn=<ViewBackward0>)
#> tensor([[-0.2993],
#>         [-0.9772]]) tensor([[0.9977, 1.1634, 0.7492],
#>         [0.1761, 0.5688, 1.3002]])
#> ['bias', 'weight']
#> ParametrizedConv2d(
#>   1, 2, kernel_size=(2, 2), stride=(1, 1)
#>   (parametrizations): ModuleDict(
#>     (weight): ParametrizationList(
#>       (0): _WeightNorm()
#>     )
#>   )
#> ) Parameter containing:
#> tensor(0.6577, requires_grad=True)
#> ['bias', 'weight_orig', 'weight_u', 'weight_v'] torch.Size([2]) True
#> True ['bias', 'parametrizations.weight.0._u', 'parametrizations.weight.0._v', 'parametrizations.weight.original']
#> True
## averaged_models
from torch.optim.swa_utils import AveragedModel, SWALR, get_ema_multi_avg_fn, update_bn
nn = torch.nn
torch.manual_seed(0)
m = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
mean, slow = AveragedModel(m), AveragedModel(m, multi_avg_fn=get_ema_multi_avg_fn(0.9))
for k in range(3):
    with torch.no_grad(): m[0].weight.add_(1)
    mean.update_parameters(m); slow.update_parameters(m)
print(mean.n_averaged, mean.module[0].weight, slow.module[0].weight)
update_bn([torch.ones(4, 2), torch.zeros(4, 2)], mean); print(mean.module[1].running_mean, mean.module[1].momentum)
o = torch.optim.SGD(m.parameters(), lr=1.0); s = SWALR(o, swa_lr=0.1, anneal_epochs=3)
rates = []
for k in range(5): o.step(); s.step(); rates.append(round(o.param_groups[0]["lr"], 4))
print(rates)
#> tensor(3) Parameter containing:
#> tensor([[1.9947, 2.3793],
#>         [1.4180, 1.4796]], requires_grad=True) Parameter containing:
#> tensor([[1.2847, 1.6693],
#>         [0.7080, 0.7696]], requires_grad=True)
#> tensor([1.9147, 1.6384]) 0.1
#> [0.775, 0.325, 0.1, 0.1, 0.1]
## streams_of_data
from torch.utils.data import ChainDataset, DataLoader, IterableDataset, WeightedRandomSampler, get_worker_info
class Count(IterableDataset):
    def __init__(self, n): self.n = n
    def __iter__(self): return iter(range(self.n))
print(list(DataLoader(Count(2) + Count(3), batch_size=2)), list(ChainDataset([Count(1), Count(2)])), get_worker_info())
for f in (lambda: DataLoader([1], num_workers=-1), lambda: WeightedRandomSampler([1.0], 0), lambda: WeightedRandomSampler([[1.0]], 1)):
    try: f()
    except ValueError as e: print(e)
#> [tensor([0, 1]), tensor([0, 1]), tensor([2])] [0, 0, 1] None
#> num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.
#> num_samples should be a positive integer value, but got num_samples=0
#> weights should be a 1d sequence but given weights have shape (1, 1)
## gradients_lie_in_memory_as_their_leaves_do
w = torch.ones(3, 2, requires_grad=True)
(w.t() * torch.ones(2, 3)).sum().backward(); print(w.grad.stride(), w.grad.view(-1).shape)
v = torch.ones(3, 2).t().requires_grad_(); (v * 1).sum().backward(); print(v.stride(), v.grad.stride())
p = torch.ones(3, 2, 4, requires_grad=True); p.permute(2, 0, 1).sin().sum().backward(); print(p.grad.stride())
#> (2, 1) torch.Size([6])
#> (1, 2) (1, 2)
#> (8, 4, 1)
## gradients_of_two_leaves_are_two_arrays
a, b = torch.ones(2, 2, requires_grad=True), torch.ones(2, 2, requires_grad=True)
(a.t() + b).sin().sum().backward()
a.grad.add_(1); print(b.grad); b.grad.mul_(0); print(a.grad)
seen = []
c = torch.ones(2, requires_grad=True); d = c * 1; d.register_hook(seen.append); d.sum().backward()
c.grad.add_(5); print(seen)
#> tensor([[-0.4161, -0.4161],
#>         [-0.4161, -0.4161]])
#> tensor([[0.5839, 0.5839],
#>         [0.5839, 0.5839]])
#> [tensor([1., 1.])]
## what_zeros_and_the_like_take
out = torch.empty(0)
print(torch.ones(2, out=out) is out, out, torch.zeros(2, dtype=int), torch.ones(1, dtype=bool), torch.full((2,), 3, out=torch.zeros(2)))
for f in (lambda: torch.zeros(2, speed=1), lambda: torch.ones(2, dtype="float32"), lambda: torch.zeros(2, out=torch.zeros(2).int(), dtype=torch.float)):
    try: f()
    except (TypeError, RuntimeError) as e: print(type(e).__name__, str(e)[:80])
print(torch.zeros(2, layout=torch.strided, pin_memory=False), torch.empty(2, memory_format=torch.contiguous_format).shape)
#> True tensor([1., 1.]) tensor([0, 0]) tensor([True]) tensor([3., 3.])
#> TypeError zeros() got an unexpected keyword argument 'speed'
#> TypeError ones(): argument 'dtype' must be torch.dtype, not str
#> RuntimeError dtype Float does not match dtype of out parameter (Int)
#> tensor([0., 0.]) torch.Size([2])
## bytes_can_be_read_as_another_dtype
x = torch.tensor([1.0, 2.0])
print(x.view(torch.int32), x.view(torch.uint8), torch.tensor([1 + 2j]).view(torch.float32), x.view(torch.float64).shape)
x.view(torch.int32)[0] = 0; print(x)
#> tensor([1065353216, 1073741824], dtype=torch.int32) tensor([  0,   0, 128,  63,   0,   0,   0,  64], dtype=torch.uint8) tensor([1., 2.]) torch.Size([1])
#> tensor([0., 2.])
"""  # programs

TABLE = torch_programs.parse(PROGRAMS)


@pytest.mark.parametrize("name", TABLE)
def test_prints_what_pytorch_prints(name):
    source, expected = TABLE[name]
    assert torch_programs.run(source, torch) == expected


def test_programs_are_pytorchs():
    pytorch = pytest.importorskip("torch", reason="the oracle: PyTorch is not installed")
    if not pytorch.__version__.startswith("2.13"):
        pytest.skip(f"the outputs are of PyTorch 2.13, here is {pytorch.__version__}")
    found = torch_programs.oracle(PROGRAMS)
    assert found == {name: expected for name, (_, expected) in TABLE.items()}


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
