"""Programs as courses and forums have them, and what PyTorch 2.13 prints: distributions, comparisons, `out=`, shapes that do not fit.

See `torch_programs` for how they are written.
"""

import numpy as np
import pytest
import torch_programs

import functrace.torch as torch

PROGRAMS = r"""
## schedulers_in_sequence
import torch.optim.lr_scheduler as L
for make in (L.StepLR, L.MultiplicativeLR, L.CyclicLR, L.PolynomialLR, L.ExponentialLR):
    o = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    more = {"StepLR": (2,), "MultiplicativeLR": (lambda e: 0.9,), "CyclicLR": (0.01, 0.1, 2), "PolynomialLR": (5, 2.0)}.get(make.__name__, (0.9,))
    s, rates = L.SequentialLR(o, [L.ConstantLR(o, 0.5, 2), make(o, *more)], [3]), []
    for _ in range(6):
        o.step(); rates.append(round(o.param_groups[0]["lr"], 6)); s.step()
    print(make.__name__, rates, s.last_epoch)
o = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
s = L.SequentialLR(o, [L.SequentialLR(o, [L.ConstantLR(o, 0.1, 2), L.ExponentialLR(o, 0.9)], milestones=[2]), L.LinearLR(o)], [4]); rates = []
for _ in range(6): o.step(); rates.append(round(o.param_groups[0]["lr"], 6)); s.step()
print(rates)
#> StepLR [0.05, 0.05, 0.1, 0.1, 0.1, 0.01] 6
#> MultiplicativeLR [0.05, 0.05, 0.1, 0.09, 0.081, 0.0729] 6
#> CyclicLR [0.05, 0.05, 0.1, 0.01, 0.055, 0.1] 6
#> PolynomialLR [0.05, 0.05, 0.1, 0.1, 0.064, 0.036] 6
#> ExponentialLR [0.05, 0.05, 0.1, 0.1, 0.09, 0.081] 6
#> [0.01, 0.1, 0.09, 0.081, 0.033333, 0.046667]
## schedulers_belong_together
import torch.optim.lr_scheduler as L
o, p = (torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1) for _ in range(2))
for f in (lambda: L.SequentialLR(o, [], []), lambda: L.SequentialLR(o, [L.ReduceLROnPlateau(o)], []), lambda: L.ChainedScheduler([]), lambda: L.SequentialLR(o, [3], []), lambda: L.ChainedScheduler([L.StepLR(o, 1), L.StepLR(p, 1)])):
    try: f()
    except (ValueError, TypeError) as e: print(type(e).__name__, str(e)[:90])
#> ValueError SequentialLR expects at least one scheduler, but got no scheduler.
#> ValueError SequentialLR does not support `ReduceLROnPlateau` scheduler as it requires additional kwar
#> ValueError ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.
#> TypeError SequentialLR at index 0 should have `optimizer` as its attribute.
#> ValueError ChainedScheduler expects all schedulers to belong to the same optimizer, but got scheduler
## padding_is_zero_whatever_the_data
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence
p = pack_sequence([torch.tensor([float("inf"), 1.0]), torch.tensor([-2.0])], enforce_sorted=False)
print(pad_packed_sequence(p), pad_packed_sequence(p, batch_first=True, padding_value=-1)[0])
#> (tensor([[inf, -2.],
#>         [ 1.,  0.]]), tensor([2, 1])) tensor([[inf,  1.],
#>         [-2., -1.]])
## out_is_resized_filled_and_refused
E, b = lambda: torch.empty(0), torch.arange(6.).view(2, 3)
for f in (lambda o: torch.mul(b, 3, out=o), lambda o: torch.matmul(b, b.T, out=o), lambda o: torch.sum(b, 1, out=o), lambda o: torch.sin(b, out=o), lambda o: torch.cat([b, b], out=o), lambda o: torch.where(b > 1, b, -b, out=o), lambda o: torch.clamp(b, 1, 2, out=o), lambda o: torch.linalg.norm(b, out=o), lambda o: torch.pow(b, 2, out=o), lambda o: torch.arange(3, out=o), lambda o: torch.tril(b, out=o)):
    o = E(); r = f(o); print(r is o, o.tolist())
print(torch.any(b, out=torch.empty(0, dtype=torch.bool)), torch.max(b, 1, out=(E(), torch.empty(0, dtype=torch.long))))
w = torch.ones(2, requires_grad=True)
for f in (lambda: torch.sin(w, out=E()), lambda: torch.matmul(w, w, out=E()), lambda: torch.add(b, b, out=torch.empty(0, dtype=torch.int))):
    try: f()
    except (RuntimeError, TypeError) as e: print(type(e).__name__, str(e)[:80])
#> True [[0.0, 3.0, 6.0], [9.0, 12.0, 15.0]]
#> True [[5.0, 14.0], [14.0, 50.0]]
#> True [3.0, 12.0]
#> True [[0.0, 0.8414709568023682, 0.9092974066734314], [0.14112000167369843, -0.756802499294281, -0.9589242935180664]]
#> True [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
#> True [[-0.0, -1.0, 2.0], [3.0, 4.0, 5.0]]
#> True [[1.0, 1.0, 2.0], [2.0, 2.0, 2.0]]
#> True 7.416198253631592
#> True [[0.0, 1.0, 4.0], [9.0, 16.0, 25.0]]
#> True [0.0, 1.0, 2.0]
#> True [[0.0, 0.0, 0.0], [3.0, 4.0, 0.0]]
#> tensor(True) torch.return_types.max_out(
#> values=tensor([2., 5.]),
#> indices=tensor([2, 2]))
#> RuntimeError sin(): functions with out=... arguments don't support automatic differentiation,
#> RuntimeError matmul(): functions with out=... arguments don't support automatic differentiati
#> RuntimeError result type Float can't be cast to the desired output type Int
## steps_of_own_optimisers_call_hooks_and_count
class Plain(torch.optim.Optimizer):
    def __init__(self, params, lr): super().__init__(params, dict(lr=lr))
    @torch.no_grad()
    def step(self, closure=None):
        for g in self.param_groups:
            for p in g["params"]: p.add_(p.grad, alpha=-g["lr"])
p = torch.nn.Parameter(torch.ones(2)); o = Plain([p], 0.1)
o.register_step_pre_hook(lambda o, a, k: print("before", a, k)); h = o.register_step_post_hook(lambda o, a, k: print("after", p.tolist()))
(p ** 2).sum().backward(); o.step(); h.remove(); o.step()
import warnings
s = torch.optim.lr_scheduler.StepLR(o, 1, 0.5)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always"); o.step(); s.step(); print(len(seen), o.param_groups[0]["lr"])
#> before (Plain (
#> Parameter Group 0
#>     lr: 0.1
#> ),) {}
#> after [0.800000011920929, 0.800000011920929]
#> before (Plain (
#> Parameter Group 0
#>     lr: 0.1
#> ),) {}
#> before (Plain (
#> Parameter Group 0
#>     initial_lr: 0.1
#>     lr: 0.1
#> ),) {}
#> 0 0.05
## python_types_are_dtypes
x = torch.ones(2)
print(x.to(float), x.to(int), x.to(bool), x.to("cpu", int), x.to(dtype=float).dtype)
a = torch.arange(6.); b = a[:2]; a.resize_(2, 2).zero_(); print(a, b)
#> tensor([1., 1.], dtype=torch.float64) tensor([1, 1]) tensor([True, True]) tensor([1, 1]) torch.float64
#> tensor([[0., 0.],
#>         [0., 0.]]) tensor([0., 0.])
## shapes_that_do_not_fit
x = torch.ones(2, 3)
for f in (lambda: torch.baddbmm(x, x, x), lambda: torch.addr(x, torch.ones(2), torch.ones(2)), lambda: torch.addbmm(x, x, x), lambda: torch.vdot(x, x), lambda: torch.inner(x, torch.ones(2)), lambda: torch.cross(x, torch.ones(2, 2)), lambda: torch.linalg.multi_dot([x, x]), lambda: torch.linalg.multi_dot([x]), lambda: torch.dist(x, torch.ones(4)), lambda: torch.quantile(x, torch.tensor(.5, dtype=torch.float64)), lambda: torch.histc(torch.arange(3)), lambda: torch.cat(x), lambda: torch.roll(x, 1, 5), lambda: torch.repeat_interleave(x, torch.tensor([1, 2, 3]), dim=0), lambda: torch.unbind(torch.tensor(1)), lambda: torch.triu_indices(-1, 2), lambda: x.type("foo"), lambda: torch.device("foo"), lambda: x.select(0, 4), lambda: torch.mv(x, x), lambda: x[:, torch.ones(2, dtype=torch.bool)], lambda: x[torch.ones(2, 2, dtype=torch.bool)], lambda: torch.linalg.svd(torch.ones(3)), lambda: torch.linalg.norm(torch.ones(2, 2, 2), 2), lambda: torch.linalg.norm(torch.ones(2, 2, 2), 2, dim=(0, 1, 2)), lambda: torch.linalg.matrix_norm(torch.ones(3)), lambda: torch.linalg.solve(torch.eye(2), torch.ones(2, 3), left=False)):
    try: print(f())
    except (RuntimeError, IndexError, TypeError, ValueError) as e: print(type(e).__name__, str(e)[:170])
#> IndexError Dimension out of range (expected to be in range of [-2, 1], but got 2)
#> RuntimeError The expanded size of the tensor (2) must match the existing size (3) at non-singleton dimension 1.  Target sizes: [2, 2].  Tensor sizes: [2, 3]
#> IndexError Dimension out of range (expected to be in range of [-2, 1], but got 2)
#> RuntimeError 1D tensors expected, but got 2D and 2D tensors
#> RuntimeError inner() the last dimension must match on both input tensors but got shapes [2, 3] and [2]
#> RuntimeError linalg.cross: inputs dimension 1 must have length 3. Got 3 and 2
#> RuntimeError multi_dot(): tensors 0 and 1 with shapes [2, 3] and [2, 3] cannot be multiplied
#> RuntimeError multi_dot(): expected at least 2 tensors but got 1
#> RuntimeError The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1
#> RuntimeError quantile() q tensor must be same dtype as the input tensor
#> NotImplementedError "histogram_cpu" not implemented for 'Long'
#> TypeError cat(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor
#> IndexError Dimension out of range (expected to be in range of [-2, 1], but got 5)
#> RuntimeError repeats must have the same size as input along dim, but got repeats.size(0) = 3 and input.size(0) = 2
#> IndexError Dimension specified as 0 but tensor has no dimensions
#> RuntimeError row must be non-negative, got-1
#> ValueError invalid type: 'foo'
#> RuntimeError Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, privateuseone device type at start of de
#> IndexError select(): index 4 out of range for tensor of size [2, 3] at dimension 0
#> RuntimeError vector + matrix @ vector expected, got 1, 2, 2
#> IndexError The shape of the mask [2] at index 0 does not match the shape of the indexed tensor [2, 3] at index 1
#> IndexError The shape of the mask [2, 2] at index 1 does not match the shape of the indexed tensor [2, 3] at index 1
#> RuntimeError linalg.svd: The input tensor A must have at least 2 dimensions.
#> RuntimeError linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got 3D.
#> RuntimeError linalg.norm: If dim is specified, it must be of length 1 or 2. Got [0, 1, 2]
#> RuntimeError linalg.matrix_norm: The input tensor A must have at least 2 dimensions.
#> RuntimeError linalg.solve: Incompatible shapes of A and B for the equation XA = B (2x2 and 2x3)
## eigenvalues_are_complex
v, w = torch.linalg.eig(torch.tensor([[2., 0.], [0., 3.]]))
print(v.dtype, w.dtype, torch.linalg.eigvals(torch.eye(2, dtype=torch.float64)).dtype, v.real)
#> torch.complex64 torch.complex64 torch.complex128 tensor([2., 3.])
## solve_from_the_right
A, B = torch.tensor([[2., 1.], [1., 3.]]), torch.arange(6.).view(3, 2)
print(torch.allclose(torch.linalg.solve(A, B, left=False) @ A, B), torch.cartesian_prod(torch.arange(3)))
#> True tensor([0, 1, 2])
## close_and_not_close
import torch.testing as T
t = torch.tensor
for a, b, kw in ((t([1., 1.]), t([1., 2.]), {}), (t([1.]), t([1., 1.]), {}), (t([1.]), t([1.], dtype=torch.float64), {}), (1., 1.1, {}), (t(1.), t(1.1), {}), (t([1, 2]), t([1, 3]), {}), ({"a": [t([1.])]}, {"a": [t([2.])]}, {}), ([1, 2], [1], {}), ({"a": 1}, {"b": 1}, {}), (None, 1, {}), (True, False, {}), (t([1.]), [1.], {}), (t([1.]), t([float("nan")]), {}), (t([float("nan")]), t([float("nan")]), {"equal_nan": True}), (t([1.]), t([2.]), {"msg": "mine"}), (t([1.]), t([2.]), {"msg": lambda m: "my " + m[:10]}), (t([1.]), t([1.]), {"rtol": 0.1}), (t([[1., 2.], [3., 4.]]), t([[1., 2.5], [3., 8.]]), {"rtol": 0, "atol": 0}), (t(1 + 1j), t(1 + 2j), {})):
    try: print(T.assert_close(a, b, **kw))
    except (AssertionError, TypeError, ValueError) as e: print(type(e).__name__, e)
torch.manual_seed(0); print(T.make_tensor((3,), dtype=torch.float32, device="cpu"), T.make_tensor(2, dtype=torch.int64, device="cpu"))
#> AssertionError Tensor-likes are not close!
#>
#> Mismatched elements: 1 / 2 (50.0%)
#> Greatest absolute difference: 1.0 at index (1,) (up to 1e-05 allowed)
#> Greatest relative difference: 0.5 at index (1,) (up to 1.3e-06 allowed)
#> AssertionError The values for attribute 'shape' do not match: torch.Size([1]) != torch.Size([2]).
#> AssertionError The values for attribute 'dtype' do not match: torch.float32 != torch.float64.
#> AssertionError Scalars are not close!
#>
#> Expected 1.1 but got 1.0.
#> Absolute difference: 0.10000000000000009 (up to 1e-07 allowed)
#> Relative difference: 0.09090909090909098 (up to 1e-07 allowed)
#> AssertionError Scalars are not close!
#>
#> Expected 1.100000023841858 but got 1.0.
#> Absolute difference: 0.10000002384185791 (up to 1e-05 allowed)
#> Relative difference: 0.09090911061310529 (up to 1.3e-06 allowed)
#> AssertionError Tensor-likes are not equal!
#>
#> Mismatched elements: 1 / 2 (50.0%)
#> Greatest absolute difference: 1 at index (1,)
#> Greatest relative difference: 0.3333333432674408 at index (1,)
#> AssertionError Tensor-likes are not close!
#>
#> Mismatched elements: 1 / 1 (100.0%)
#> Greatest absolute difference: 1.0 at index (0,) (up to 1e-05 allowed)
#> Greatest relative difference: 0.5 at index (0,) (up to 1.3e-06 allowed)
#>
#> The failure occurred for item ['a'][0]
#> AssertionError The length of the sequences mismatch: 2 != 1
#> AssertionError The keys of the mappings do not match:
#> Missing keys in the actual mapping: ['b']
#> Additional keys in the actual mapping: ['a']
#> AssertionError None mismatch: None is not 1
#> AssertionError Booleans mismatch: True is not False
#> TypeError No comparison pair was able to handle inputs of type <class 'torch.Tensor'> and <class 'list'>.
#> AssertionError Tensor-likes are not close!
#>
#> Mismatched elements: 1 / 1 (100.0%)
#> Greatest absolute difference: nan at index (0,) (up to 1e-05 allowed)
#> Greatest relative difference: nan at index (0,) (up to 1.3e-06 allowed)
#> None
#> AssertionError mine
#> AssertionError my Tensor-lik
#> ValueError Both 'rtol' and 'atol' must be either specified or omitted, but got no atol.
#> AssertionError Tensor-likes are not equal!
#>
#> Mismatched elements: 2 / 4 (50.0%)
#> Greatest absolute difference: 4.0 at index (1, 1)
#> Greatest relative difference: 0.5 at index (1, 1)
#> AssertionError Scalars are not close!
#>
#> Expected (1+2j) but got (1+1j).
#> Absolute difference: 1.0 (up to 1e-05 allowed)
#> Relative difference: 0.4472135954999579 (up to 1.3e-06 allowed)
#> tensor([-0.0674,  4.8280, -7.4074]) tensor([-9,  2])
## poisson_and_binomial_numbers
torch.manual_seed(0)
print(torch.poisson(torch.tensor([0., 0.5, 3., 9.9, 10., 50., 1000.])), torch.binomial(torch.full((8,), 10.), torch.linspace(0, 1, 8)))
print(torch.binomial(torch.full((6,), 1000.), torch.full((6,), 0.7)), torch.poisson(torch.ones(1, requires_grad=True)).requires_grad)
#> tensor([   0.,    2.,    4.,   10.,   13.,   54., 1002.]) tensor([ 0.,  2.,  4.,  5.,  8.,  6., 10., 10.])
#> tensor([688., 687., 697., 697., 696., 704.]) True
## normal_distribution
from torch.distributions import Normal, kl_divergence
torch.manual_seed(0); d = Normal(torch.tensor([0., 1.]), torch.tensor([1., 2.]))
print(d, d.sample(), d.rsample((2,)), d.log_prob(torch.tensor([.5, .5])), d.entropy(), d.cdf(torch.tensor(.3)), d.mean, d.variance, d.batch_shape, d.event_shape, d.support)
print(Normal(0, 1), Normal(torch.tensor([0.]), 1.), d.expand((3, 2)), kl_divergence(d, Normal(0., 1.)))
mu, ls = torch.tensor([.5], requires_grad=True), torch.tensor([.1], requires_grad=True)
q = Normal(mu, ls.exp()); (q.rsample((5,)) ** 2).mean().backward(); print(mu.grad, ls.grad, q.sample().requires_grad)
for f in (lambda: Normal(0., -1.), lambda: Normal(torch.zeros(2), torch.tensor([1., -1.])), lambda: d.log_prob(torch.ones(3)), lambda: d.log_prob(2.), lambda: Normal("a", 1), lambda: Normal(torch.zeros(2), torch.ones(3))):
    try: print(f())
    except (ValueError, RuntimeError, NotImplementedError) as e: print(type(e).__name__, e)
#> Normal(loc: torch.Size([2]), scale: torch.Size([2])) tensor([1.5410, 0.4131]) tensor([[-2.1788,  2.1369],
#>         [-1.0845, -1.7972]]) tensor([-1.0439, -1.6433]) tensor([1.4189, 2.1121]) tensor([0.6179, 0.3632]) tensor([0., 1.]) tensor([1., 4.]) torch.Size([2]) torch.Size([]) Real()
#> Normal(loc: 0.0, scale: 1.0) Normal(loc: tensor([0.]), scale: tensor([1.])) Normal(loc: torch.Size([3, 2]), scale: torch.Size([3, 2])) tensor([0.0000, 1.3069])
#> tensor([0.7888]) tensor([0.8231]) False
#> ValueError Expected parameter scale (Tensor of shape ()) of distribution Normal(loc: 0.0, scale: -1.0) to satisfy the constraint GreaterThan(lower_bound=0.0), but found invalid values:
#> -1.0
#> ValueError Expected parameter scale (Tensor of shape (2,)) of distribution Normal(loc: torch.Size([2]), scale: torch.Size([2])) to satisfy the constraint GreaterThan(lower_bound=0.0), but found invalid values:
#> tensor([ 1., -1.])
#> ValueError Value is not broadcastable with batch_shape+event_shape: torch.Size([3]) vs torch.Size([2]).
#> ValueError The value argument to log_prob must be a Tensor
#> ValueError Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__.
#> RuntimeError The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0
## categorical_distribution
from torch.distributions.categorical import Categorical
torch.manual_seed(0); c = Categorical(torch.tensor([.25, .25, .5]))
print(c, c.sample(), c.sample((4,)), c.log_prob(torch.tensor([0, 2])), c.entropy(), c.logits, c.mode, c.enumerate_support(), c)
b = Categorical(logits=torch.randn(3, 4)); print(b, b.sample(), b.sample((2,)).shape, b.log_prob(torch.tensor([0, 1, 2])), b.batch_shape, b.event_shape)
for f in (lambda: Categorical(torch.tensor([-1., 2.])), lambda: Categorical(), lambda: c.log_prob(torch.tensor(3)), lambda: c.rsample()):
    try: print(f())
    except (ValueError, NotImplementedError) as e: print(type(e).__name__, e)
#> Categorical(probs: torch.Size([3]), logits: torch.Size([3])) tensor(2) tensor([2, 2, 2, 0]) tensor([-1.3863, -0.6931]) tensor(1.0397) tensor([-1.3863, -1.3863, -0.6931]) tensor(2) tensor([0, 1, 2]) Categorical(probs: torch.Size([3]), logits: torch.Size([3]))
#> Categorical(probs: torch.Size([3, 4]), logits: torch.Size([3, 4])) tensor([3, 1, 2]) torch.Size([2, 3]) tensor([-2.7326, -0.7123, -1.6040]) torch.Size([3]) torch.Size([])
#> ValueError Expected parameter probs (Tensor of shape (2,)) of distribution Categorical(probs: torch.Size([2])) to satisfy the constraint Simplex(), but found invalid values:
#> tensor([-1.,  2.])
#> ValueError Either `probs` or `logits` must be specified, but not both.
#> ValueError Expected value argument (Tensor of shape ()) to be within the support (IntegerInterval(lower_bound=0, upper_bound=2)) of the distribution Categorical(probs: torch.Size([3]), logits: torch.Size([3])), but found invalid values:
#> 3
#> NotImplementedError
## distributions_have_pytorchs_samples_and_densities
from torch.distributions import *
torch.manual_seed(0); t = torch.tensor
for d, v in ((Bernoulli(t([.3, .5, .9])), t([0., 1., 1.])), (Uniform(t([0., 1.]), 3.), t([.5, 2.])), (Exponential(t([1., 3.])), t([.5, 2.])), (Laplace(t([1., 3.]), 2.), t([.5, 2.])), (Cauchy(t([1., 3.]), 2.), t([.5, 2.])), (LogNormal(t([1., 3.]), .5), t([.5, 2.])), (HalfNormal(t([1., 3.])), t([.5, 2.])), (Geometric(t([.5, .3])), t([1., 2.])), (OneHotCategorical(t([.5, .3, .2])), t([1., 0., 0.])), (MultivariateNormal(torch.zeros(2), t([[2., .5], [.5, 1.]])), t([.3, .4])), (MultivariateNormal(torch.zeros(2), precision_matrix=t([[2., .5], [.5, 1.]])), t([.3, .4])), (Independent(Normal(torch.zeros(2, 3), 1.), 1), torch.ones(2, 3)), (MixtureSameFamily(Categorical(t([.3, .7])), Normal(t([0., 5.]), 1.)), t([1., 2.]))):
    print(d, d.batch_shape, d.event_shape, d.has_rsample, d.support, d.mean, d.variance)
    print(d.sample(), d.sample((2,)), d.log_prob(v), d.expand((3, *d.batch_shape)).sample().shape)
    try: print(d.entropy(), d.rsample())
    except NotImplementedError: print("no")
#> Bernoulli(probs: torch.Size([3])) torch.Size([3]) torch.Size([]) False Boolean() tensor([0.3000, 0.5000, 0.9000]) tensor([0.2100, 0.2500, 0.0900])
#> tensor([0., 0., 1.]) tensor([[1., 1., 1.],
#>         [0., 0., 1.]]) tensor([-0.3567, -0.6931, -0.1054]) torch.Size([3, 3])
#> no
#> Uniform(low: torch.Size([2]), high: torch.Size([2])) torch.Size([2]) torch.Size([]) True Interval(lower_bound=tensor([0., 1.]), upper_bound=tensor([3., 3.])) tensor([1.5000, 2.0000]) tensor([0.7500, 0.3333])
#> tensor([0.4831, 1.5645]) tensor([[2.0448, 2.8304],
#>         [1.1913, 2.7483]]) tensor([-1.0986, -0.6931]) torch.Size([3, 2])
#> tensor([1.0986, 0.6931]) tensor([0.9153, 2.8640])
#> Exponential(rate: torch.Size([2])) torch.Size([2]) torch.Size([]) True GreaterThanEq(lower_bound=0.0) tensor([1.0000, 0.3333]) tensor([1.0000, 0.1111])
#> tensor([0.5230, 0.0767]) tensor([[1.0937, 0.5122],
#>         [0.2362, 0.3764]]) tensor([-0.5000, -4.9014]) torch.Size([3, 2])
#> tensor([ 1.0000, -0.0986]) tensor([1.3680, 0.0861])
#> Laplace(loc: torch.Size([2]), scale: torch.Size([2])) torch.Size([2]) torch.Size([]) True Real() tensor([1., 3.]) tensor([8., 8.])
#> tensor([2.2047, 4.0289]) tensor([[-0.7947,  3.7194],
#>         [ 2.5925,  2.7302]]) tensor([-1.6363, -1.8863]) torch.Size([3, 2])
#> tensor([2.3863, 2.3863]) tensor([1.9985, 6.5269])
#> Cauchy(loc: torch.Size([2]), scale: torch.Size([2])) torch.Size([2]) torch.Size([]) True Real() tensor([nan, nan]) tensor([inf, inf])
#> tensor([0.8794, 5.6823]) tensor([[  0.1193,   1.2610],
#>         [-14.2757,   4.9836]]) tensor([-1.8985, -2.0610]) torch.Size([3, 2])
#> tensor([3.2242, 3.2242]) tensor([6.0359, 5.1704])
#> LogNormal() torch.Size([2]) torch.Size([]) True GreaterThan(lower_bound=0.0) tensor([ 3.0802, 22.7599]) tensor([  2.6948, 147.1288])
#> tensor([ 2.6858, 27.7711]) tensor([[ 6.4689, 18.7879],
#>         [ 1.7904, 32.8769]]) tensor([ -5.2661, -11.5621]) torch.Size([3, 2])
#> tensor([1.7258, 3.7258]) tensor([ 5.3519, 19.9731])
#> HalfNormal() torch.Size([2]) torch.Size([]) True GreaterThanEq(lower_bound=0.0) tensor([0.7979, 2.3937]) tensor([0.3634, 3.2704])
#> tensor([0.5928, 2.4201]) tensor([[0.3174, 1.1021],
#>         [0.6445, 4.9261]]) tensor([-0.3508, -1.5466]) torch.Size([3, 2])
#> tensor([0.7258, 1.8244]) tensor([0.6105, 2.9913])
#> Geometric(probs: torch.Size([2])) torch.Size([2]) torch.Size([]) False IntegerGreaterThan(lower_bound=0) tensor([1.0000, 2.3333]) tensor([2.0000, 7.7778])
#> tensor([1., 3.]) tensor([[1., 2.],
#>         [4., 7.]]) tensor([-1.3863, -1.9173]) torch.Size([3, 2])
#> no
#> OneHotCategorical() torch.Size([]) torch.Size([3]) False OneHot() tensor([0.5000, 0.3000, 0.2000]) tensor([0.2500, 0.2100, 0.1600])
#> tensor([1., 0., 0.]) tensor([[0., 1., 0.],
#>         [1., 0., 0.]]) tensor(-0.6931) torch.Size([3, 3])
#> no
#> MultivariateNormal(loc: torch.Size([2]), covariance_matrix: torch.Size([2, 2])) torch.Size([]) torch.Size([2]) True IndependentConstraint(Real(), 1) tensor([0., 0.]) tensor([2.0000, 1.0000])
#> tensor([-0.6391, -0.5389]) tensor([[ 2.1037,  0.3173],
#>         [-1.4223, -0.7427]]) tensor(-2.2005) torch.Size([3, 2])
#> tensor(3.1177) tensor([-1.6431, -0.0191])
#> MultivariateNormal(loc: torch.Size([2]), precision_matrix: torch.Size([2, 2])) torch.Size([]) torch.Size([2]) True IndependentConstraint(Real(), 1) tensor([0., 0.]) tensor([0.5714, 1.1429])
#> tensor([0.6459, 0.8668]) tensor([[ 0.8558, -0.1086],
#>         [-1.2695,  1.2174]]) tensor(-1.7881) torch.Size([3, 2])
#> tensor(2.5581) tensor([ 0.5080, -0.7868])
#> Independent(Normal(loc: torch.Size([2, 3]), scale: torch.Size([2, 3])), 1) torch.Size([2]) torch.Size([3]) True IndependentConstraint(Real(), 1) tensor([[0., 0., 0.],
#>         [0., 0., 0.]]) tensor([[1., 1., 1.],
#>         [1., 1., 1.]])
#> tensor([[-0.1896, -0.1901,  1.3565],
#>         [ 0.7341,  0.8062,  0.7410]]) tensor([[[ 0.6088, -0.5560,  0.5477],
#>          [ 0.4383,  0.0394, -1.1895]],
#>
#>         [[-0.5015, -0.1455,  0.1522],
#>          [-1.4437, -0.2284, -0.3552]]]) tensor([-4.2568, -4.2568]) torch.Size([3, 2, 3])
#> tensor([4.2568, 4.2568]) tensor([[ 0.1158, -0.9226,  1.0272],
#>         [-1.1210,  0.7308, -0.0440]])
#> MixtureSameFamily(
#>   Categorical(probs: torch.Size([2]), logits: torch.Size([2])),
#>   Normal(loc: torch.Size([2]), scale: torch.Size([2]))) torch.Size([]) torch.Size([]) False MixtureSameFamilyConstraint(Real()) tensor(3.5000) tensor(6.2500)
#> tensor(0.7091) tensor([5.0602, 6.5462]) tensor([-2.6216, -3.9477]) torch.Size([3])
#> no
## divergences
from torch.distributions import *
from torch.distributions.kl import kl_divergence as kl
t = torch.tensor
for p, q in ((Bernoulli(t([.2, 0., 1.])), Bernoulli(t([.5, .3, .2]))), (Categorical(t([.2, .8])), Categorical(t([0., 1.]))), (Uniform(0., 1.), Uniform(-1., 2.)), (Uniform(0., 1.), Uniform(.5, 2.)), (Exponential(1.), Exponential(3.)), (Poisson(2.), Poisson(3.)), (Geometric(.2), Geometric(.3)), (Laplace(0., 1.), Laplace(1., 2.)), (MultivariateNormal(torch.zeros(2), torch.eye(2)), MultivariateNormal(torch.ones(2), 2 * torch.eye(2))), (Independent(Normal(torch.zeros(2), 1.), 1), Independent(Normal(torch.ones(2), 1.), 1)), (Binomial(3, .4), Binomial(3, .6)), (LogNormal(0., 1.), LogNormal(1., 1.))): print(type(p).__name__, kl(p, q))
#> Bernoulli tensor([0.1927, 0.3567, 1.6094])
#> Categorical tensor(inf)
#> Uniform tensor(1.0986)
#> Uniform tensor(inf)
#> Exponential tensor(0.9014)
#> Poisson tensor(0.1891)
#> Geometric tensor(0.1287)
#> Laplace tensor(0.3771)
#> MultivariateNormal tensor(0.6931)
#> Independent tensor(1.)
#> Binomial tensor(0.2433)
#> LogNormal tensor(0.5000)
## arguments_and_values_of_distributions_are_checked
from torch.distributions import *
for f in (lambda: Bernoulli(1.5), lambda: Uniform(2., 1.), lambda: Uniform(0., 1.).log_prob(torch.tensor(2.)), lambda: Exponential(1.).log_prob(torch.tensor(-2.)), lambda: Dirichlet(torch.tensor([1., -1.])), lambda: Poisson(1.).log_prob(torch.tensor(1.5)), lambda: Binomial(3, .5).log_prob(torch.tensor(5.)), lambda: MultivariateNormal(torch.zeros(2), -torch.eye(2)), lambda: MultivariateNormal(torch.zeros(2)), lambda: MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.zeros(3)), lambda: Independent(Normal(0., 1.), 1), lambda: Bernoulli(1.5, validate_args=False)):
    try: print(f())
    except ValueError as e: print(e)
#> Expected parameter probs (Tensor of shape ()) of distribution Bernoulli(probs: 1.5) to satisfy the constraint Interval(lower_bound=0.0, upper_bound=1.0), but found invalid values:
#> 1.5
#> Expected parameter low (Tensor of shape ()) of distribution Uniform(low: 2.0, high: 1.0) to satisfy the constraint LessThan(upper_bound=1.0), but found invalid values:
#> 2.0
#> Expected value argument (Tensor of shape ()) to be within the support (Interval(lower_bound=0.0, upper_bound=1.0)) of the distribution Uniform(low: 0.0, high: 1.0), but found invalid values:
#> 2.0
#> Expected value argument (Tensor of shape ()) to be within the support (GreaterThanEq(lower_bound=0.0)) of the distribution Exponential(rate: 1.0), but found invalid values:
#> -2.0
#> Expected parameter concentration (Tensor of shape (2,)) of distribution Dirichlet(concentration: torch.Size([2])) to satisfy the constraint IndependentConstraint(GreaterThan(lower_bound=0.0), 1), but found invalid values:
#> tensor([ 1., -1.])
#> Expected value argument (Tensor of shape ()) to be within the support (IntegerGreaterThan(lower_bound=0)) of the distribution Poisson(rate: 1.0), but found invalid values:
#> 1.5
#> Expected value argument (Tensor of shape ()) to be within the support (IntegerInterval(lower_bound=0, upper_bound=3.0)) of the distribution Binomial(total_count: 3.0, probs: 0.5), but found invalid values:
#> 5.0
#> Expected parameter covariance_matrix (Tensor of shape (2, 2)) of distribution MultivariateNormal(loc: torch.Size([2]), covariance_matrix: torch.Size([2, 2])) to satisfy the constraint PositiveDefinite(), but found invalid values:
#> tensor([[-1., -0.],
#>         [-0., -1.]])
#> Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.
#> The right-most size of value must match event_shape: torch.Size([3]) vs torch.Size([2]).
#> Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual 1 vs 0
#> Bernoulli(probs: 1.5)
"""  # programs

SPECIAL = r"""
## gamma_and_its_kin
from torch.distributions import *
torch.manual_seed(0); t = torch.tensor
for d, v in ((Gamma(t([.5, 3.]), 2.), t([.5, 2.])), (Chi2(t([1., 3.])), t([.5, 2.])), (StudentT(t([3., 1.])), t([.5, 2.])), (Beta(t([.5, 3.]), 2.), t([.5, .2])), (Dirichlet(t([.5, 3., 1.])), t([.5, .2, .3])), (Binomial(10, t([.5, .3])), t([1., 2.])), (Poisson(t([.5, 30.])), t([1., 2.])), (Multinomial(5, t([.5, .3, .2])), t([1., 2., 2.]))):
    print(d, d.sample(), d.sample((2,)), d.log_prob(v), d.mean, d.variance)
    try: print(d.entropy())
    except NotImplementedError: print("no")
for p, q in ((Gamma(2., 3.), Gamma(1., 1.)), (Beta(2., 3.), Beta(1., 1.)), (Dirichlet(t([2., 3.])), Dirichlet(t([1., 1.])))): print(kl_divergence(p, q))
#> Gamma(concentration: torch.Size([2]), rate: torch.Size([2])) tensor([3.9468e-04, 6.3642e-01]) tensor([[0.0362, 2.1413],
#>         [0.2509, 2.1430]]) tensor([-0.8792, -1.2274]) tensor([0.2500, 1.5000]) tensor([0.1250, 0.7500])
#> tensor([-0.6025,  1.1544])
#> Chi2() tensor([0.4100, 3.2357]) tensor([[1.1850, 1.5190],
#>         [0.0992, 1.0076]]) tensor([-0.8224, -1.5724]) tensor([1., 3.]) tensor([2., 6.])
#> tensor([0.7838, 2.0541])
#> StudentT(df: torch.Size([2]), loc: torch.Size([2]), scale: torch.Size([2])) tensor([ 0.5394, -8.2567]) tensor([[-1.0975,  0.2522],
#>         [-0.5604,  3.5529]]) tensor([-1.1610, -2.7542]) tensor([0., nan]) tensor([3., nan])
#> tensor([1.7735, 2.5310])
#> Beta() tensor([0.1566, 0.5657]) tensor([[7.0027e-07, 6.1433e-01],
#>         [1.6895e-02, 7.2916e-01]]) tensor([-0.6343, -0.9571]) tensor([0.2000, 0.6000]) tensor([0.0457, 0.0400])
#> tensor([-0.7653, -0.2349])
#> Dirichlet(concentration: torch.Size([3])) tensor([0.0742, 0.6126, 0.3132]) tensor([[0.0631, 0.6849, 0.2519],
#>         [0.0997, 0.5466, 0.3537]]) tensor(-1.6841) tensor([0.1111, 0.6667, 0.2222]) tensor([0.0180, 0.0404, 0.0314])
#> tensor(-1.9322)
#> Binomial(total_count: torch.Size([2]), probs: torch.Size([2]), logits: torch.Size([2])) tensor([8., 3.]) tensor([[4., 3.],
#>         [5., 2.]]) tensor([-4.6289, -1.4547]) tensor([5., 3.]) tensor([2.5000, 2.1000])
#> tensor([1.8760, 1.7791])
#> Poisson(rate: torch.Size([2])) tensor([ 0., 38.]) tensor([[ 0., 25.],
#>         [ 0., 31.]]) tensor([ -1.1931, -23.8908]) tensor([ 0.5000, 30.0000]) tensor([ 0.5000, 30.0000])
#> no
#> Multinomial() tensor([1., 4., 0.]) tensor([[2., 3., 0.],
#>         [1., 3., 1.]]) tensor(-2.9188) tensor([2.5000, 1.5000, 1.0000]) tensor([1.2500, 1.0500, 0.8000])
#> tensor(2.5918)
#> tensor(0.1881)
#> tensor(0.2349)
#> tensor(0.2349)
## gradients_of_gamma_samples
from torch.distributions import *
torch.manual_seed(0); a = torch.tensor([.5, 2., 7.], dtype=torch.float64, requires_grad=True); torch.set_printoptions(precision=2)
for d in (Gamma(a, 2.), Beta(a, 2.), Dirichlet(a)):
    a.grad = None; x = d.rsample(); (x * torch.arange(1., 4.)).sum().backward(); print(x, a.grad)
torch.set_printoptions(profile="default")
#> tensor([3.95e-04, 3.16e-01, 3.54e+00], dtype=torch.float64,
#>        grad_fn=<DivBackward0>) tensor([0.01, 0.57, 1.55], dtype=torch.float64)
#> tensor([0.10, 0.75, 0.90], dtype=torch.float64, grad_fn=<SelectBackward0>) tensor([0.36, 0.18, 0.04], dtype=torch.float64)
#> tensor([0.00, 0.12, 0.87], dtype=torch.float64, grad_fn=<_DirichletBackward>) tensor([-0.04, -0.08,  0.02], dtype=torch.float64)
## transformed_distributions
from torch.distributions import *; import torch.distributions
import torch.distributions.transforms as tr
t = torch.tensor; torch.manual_seed(1)
d = TransformedDistribution(Normal(t([0., 1.]), 1.), [tr.AffineTransform(1., 2.), tr.ExpTransform()])
print(d, d.batch_shape, d.event_shape, d.has_rsample, d.support, d.transforms, d.base_dist)
x = d.sample((2,)); print(x, d.log_prob(x), d.cdf(t(2.)), d.icdf(t(0.3)), d.expand((3, 2)).sample().shape)
mu = t(0.5, requires_grad=True); s = TransformedDistribution(Normal(mu, 1.), tr.TanhTransform()); z = s.rsample(); lp = s.log_prob(z); (z + lp).backward(); print(z, lp, mu.grad)
g = TransformedDistribution(Uniform(0., 1.), [tr.SigmoidTransform().inv, tr.AffineTransform(loc=t([1., 2.]), scale=t(3.))]); print(g.sample(), g.log_prob(t([0.5, -1.])), g.event_shape, g.batch_shape, g.support)
i = TransformedDistribution(Normal(torch.zeros(3), 1.), [tr.AffineTransform(0., t([1., 2., 3.]), event_dim=1)]); print(i.log_prob(torch.ones(3)), i.event_shape, Independent(TransformedDistribution(Normal(torch.zeros(3), 1.), [tr.ExpTransform()]), 1).log_prob(torch.ones(3)))
for f in (lambda: d.log_prob(t([-1., 1.])), lambda: TransformedDistribution(Normal(0., 1.), 3), lambda: TransformedDistribution(Normal(0., 1.), [3]), lambda: d.mean, lambda: d.entropy(), lambda: TransformedDistribution(Bernoulli(0.5), [tr.ExpTransform()]).rsample()):
    try: print(f())
    except Exception as e: print(type(e).__name__, str(e)[:130])
#> TransformedDistribution() torch.Size([2]) torch.Size([]) True GreaterThan(lower_bound=0.0) [AffineTransform(), ExpTransform()] Normal(loc: torch.Size([2]), scale: torch.Size([2]))
#> tensor([[10.2032, 34.2555],
#>         [ 3.0752, 69.5910]]) tensor([[-4.1535, -5.1816],
#>         [-2.7373, -6.0477]]) tensor([0.4390, 0.1244]) tensor([0.9524, 7.0371]) torch.Size([3, 2])
#> tensor(-0.3733, grad_fn=<TanhBackward0>) tensor(-1.1669, grad_fn=<AddBackward0>) tensor(0.1140)
#> tensor([-0.9929,  2.2875]) tensor([-2.4918, -2.7251]) torch.Size([]) torch.Size([2]) Real()
#> tensor(-5.2291) torch.Size([3]) tensor(-2.7568)
#> ValueError Expected value argument (Tensor of shape (2,)) to be within the support (GreaterThan(lower_bound=0.0)) of the distribution Transfo
#> ValueError transforms must be a Transform or list, but was 3
#> ValueError transforms must be a Transform or a list of Transforms
#> NotImplementedError
#> NotImplementedError
#> NotImplementedError
## divergences_of_two_kinds
from torch.distributions import *; import torch.distributions
t = torch.tensor; B, E, G, L, N, U = Beta(t(2.), t(3.)), Exponential(t(1.5)), Gamma(t(2.), t(3.)), Laplace(t(0.2), t(0.7)), Normal(t(0.3), t(1.2)), Uniform(t(0.2), t(0.9))
for p in (B, E, G, L, N, U):
    for q in (B, E, G, L, N, U, Uniform(t(-9.), t(9.)), Uniform(t(0.), t(1.))):
        try: print(f"{kl_divergence(p, q).item():.4f}", end=" ")
        except NotImplementedError as e: print("no", end=" ")
    print()
print(kl_divergence(Bernoulli(t(0.3)), Poisson(t(2.))), kl_divergence(Poisson(t(2.)), Bernoulli(t(0.3))), kl_divergence(Poisson(t(2.)), Binomial(3, t(0.3))), kl_divergence(Uniform(t(-1.), t(1.)), G), kl_divergence(Uniform(t(0.5), t(2.)), B), kl_divergence(Uniform(t(-1.), t(1.)), E))
x = t(0.4, requires_grad=True); kl_divergence(Normal(x, 1.), Laplace(t(0.), t(1.))).backward(); print(x.grad)
a, b = (TransformedDistribution(Normal(t(m), 1.), [torch.distributions.transforms.ExpTransform()]) for m in (0., 1.)); print(kl_divergence(a, b))
#> 0.0000 0.4294 0.3210 no 1.3535 inf 3.1253 0.2349
#> inf 0.0000 0.1909 no 0.7077 inf inf inf
#> inf 0.1159 0.0000 no 0.7465 inf inf inf
#> inf inf inf 0.0000 0.1085 inf inf inf
#> inf inf inf 0.1078 0.0000 inf inf inf
#> 0.3996 0.7762 0.4851 no 1.4938 0.0000 3.2470 0.3567
#> tensor(1.1812) tensor(inf) tensor(inf) tensor(inf) tensor(inf) tensor(inf)
#> tensor(0.3108)
#> tensor(0.5000)
"""  # special

TABLE = torch_programs.parse(PROGRAMS.lstrip("\n"))
NEEDS_SCIPY = torch_programs.parse(SPECIAL.lstrip("\n"))


@pytest.mark.parametrize("name", TABLE)
def test_programs_print_what_pytorch_prints(name):
    source, expected = TABLE[name]
    assert torch_programs.run(source, torch) == expected


@pytest.mark.parametrize("name", NEEDS_SCIPY)
def test_programs_with_special_functions(name):
    pytest.importorskip("scipy")
    source, expected = NEEDS_SCIPY[name]
    assert torch_programs.run(source, torch) == expected


def test_the_outputs_are_pytorchs():
    pytorch = pytest.importorskip("torch")
    if not pytorch.__version__.startswith("2.13"):
        pytest.skip(f"the outputs are of PyTorch 2.13, here is {pytorch.__version__}")
    found = torch_programs.oracle(PROGRAMS.lstrip("\n") + SPECIAL.lstrip("\n"))
    assert found == {name: expected for name, (_, expected) in {**TABLE, **NEEDS_SCIPY}.items()}


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


@pytest.mark.parametrize("name", ["conv3d", "kl_div", "embedding", "lstm_cell", "pca_lowrank", "transpose_copy", "constant_pad_nd"])
def test_seldom_used_names_are_there(name):
    assert callable(getattr(torch, name))
