"""`functrace.torch`'s nn, optim and utils.data, held against PyTorch where it is installed, and against first principles everywhere."""

import collections
import copy
import gc
import inspect
import operator
import pickle
import tracemalloc
import warnings

import numpy as np
import pytest

import functrace as ft
import functrace.torch as shim
import functrace.torch.func
import functrace.torch.nn
import functrace.torch.optim
import functrace.torch.utils.data

try:
    import torch as oracle
except ImportError:
    oracle = None
with_oracle = pytest.mark.skipif(
    oracle is None or not oracle.__version__.startswith("2.13"), reason="PyTorch 2.13, the oracle, is not installed"
)
rng = np.random.default_rng(0)


def n(*shape):
    return rng.normal(size=shape)


def plain(x):
    """A result as arrays, texts and containers of them."""
    if isinstance(x, (list, tuple)):
        return [plain(y) for y in x]
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    return x.detach().numpy(force=True).copy() if hasattr(x, "detach") else x


def outcome(f, torch):
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(f(torch))
        except Exception as error:
            return f"{type(error).__name__}: {error}"


def close(got, want, rtol, atol, where=""):
    if isinstance(want, dict):
        assert list(got) == list(want), where
        got, want = list(got.values()), list(want.values())
    if isinstance(want, list):
        assert len(got) == len(want), where
        for k, (a, b) in enumerate(zip(got, want)):
            close(a, b, rtol, atol, f"{where}[{k}]")
    elif isinstance(want, (np.ndarray, float)):
        assert not isinstance(got, str), got
        assert np.asarray(got).dtype == np.asarray(want).dtype and np.shape(got) == np.shape(want), where
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=where)
    else:
        assert got == want, where


def same(f, rtol=1e-6, atol=1e-8):
    """A function of the module `torch` gives the same with both, or raises the same."""
    close(outcome(f, shim), outcome(f, oracle), rtol, atol)


# functional

X, Y, P = n(3, 4), n(3, 4), rng.uniform(0.1, 0.9, (3, 4))
IMAGE = n(2, 4, 7, 6)
DIFFERENCES = [
    ("conv2d", (n(1, 2, 4, 4), n(2, 1, 2, 2), n(2)), {"stride": 2, "padding": 1, "groups": 2}), ("conv_transpose1d", (n(1, 2, 3), n(2, 1, 2)), {"stride": 2}),
    ("max_pool2d", (n(1, 1, 4, 4), 2), {}), ("avg_pool1d", (n(1, 2, 5), 3, 2, 1), {}), ("interpolate", (n(1, 1, 2, 3),), {"scale_factor": 2, "mode": "bilinear"}),
    ("layer_norm", (n(2, 3), (3,), n(3), n(3)), {}), ("batch_norm", (n(3, 2, 2), None, None, n(2), n(2), True), {}), ("cross_entropy", (n(3, 4), np.array([0, 2, 3])), {"label_smoothing": 0.1}),
    ("scaled_dot_product_attention", (n(2, 3), n(4, 3), n(4, 2)), {}), ("gelu", (n(4),), {}), ("embedding", (np.array([1, 0, 1]), n(3, 2)), {}), ("glu", (n(2, 4),), {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "kwargs"), DIFFERENCES, ids=[name for name, _, _ in DIFFERENCES])
def test_two_derivatives_are_limits_of_differences(name, args, kwargs):
    given = [shim.tensor(a) if isinstance(a, np.ndarray) else a for a in args]
    leaves = [k for k, t in enumerate(given) if isinstance(t, shim.Tensor) and t.dtype == shim.float64]

    def function(*tensors):
        row = list(given)
        for k, t in zip(leaves, tensors):
            row[k] = t
        return getattr(shim.nn.functional, name)(*row, **kwargs)

    inputs = tuple(given[k].requires_grad_() for k in leaves)
    assert shim.autograd.gradcheck(function, inputs) and shim.autograd.gradgradcheck(function, inputs)


BAGS = [
    (np.zeros(1),),
    (np.zeros(0, int), None, 2, False, "mean", False, None, True),
]
REFUSED = [
    ("nll_loss", (X, np.array([0, 2, 4]))), ("nll_loss", (X, np.array([0, 2]))), ("cross_entropy", (X, n(3, 3))), ("cross_entropy", (X, np.array([[1]]))),
    ("mse_loss", (X, n(3, 3))), ("mse_loss", (X, Y, None, None, "most")), ("binary_cross_entropy", (X, P)), ("binary_cross_entropy_with_logits", (X, n(3))),
    ("linear", (X, n(2, 5), n(2))), ("embedding", (np.array([4]), n(4, 3))), ("embedding", (X, n(4, 3))), ("one_hot", (np.array([3]), 2)), ("one_hot", (X,)),
    ("conv2d", (n(2, 3, 7, 6), n(6, 4, 3, 2))), ("conv2d", (n(4), n(6, 4, 3, 2))), ("conv2d", (IMAGE, n(6, 4, 9, 9))), ("conv2d", (IMAGE, n(6, 4, 3, 2), None, 2, "same")),
    ("conv2d", (IMAGE.astype("f"), n(6, 4, 3, 2))), ("conv_transpose2d", (n(2, 5, 7, 6), n(4, 3, 3, 2))), ("conv_transpose2d", (IMAGE, n(4, 3, 3, 2), None, 1, 0, 1)),
    ("max_pool2d", (n(3, 3), 2)), ("max_pool2d", (IMAGE, 2, 2, 2)), ("max_pool2d", (IMAGE, 9)), ("fold", (n(2, 12, 20), (6, 6), 2)), ("pad", (IMAGE, (9,))),
    ("pad", (IMAGE, (9, 9), "reflect")), ("pad", (IMAGE, (9, 9, 9, 9), "circular")), ("interpolate", (IMAGE,)), ("interpolate", (IMAGE[0], 7, None, "bilinear")), ("prelu", (X, n(3))),
    ("batch_norm", (X, None, None, None, None, False)), ("layer_norm", (X, (3,))), ("group_norm", (n(2, 3), 2)), ("dropout", (X, 1.5)), ("gelu", (X, "x")), ("glu", (n(3),)),
    ("glu", (X, 2)), ("glu", (np.array(1.0),)), ("prelu", (X, np.ones(4, "f"))), ("prelu", (X, n(1, 4))), ("batch_norm", (n(3), n(3), n(3))), ("batch_norm", (X, n(4), None, None, None, True)),
    ("batch_norm", (X, n(4), P[0], None, None, False, 0.1, -1.0)), ("bilinear", (n(2, 3), n(2, 4), n(5, 3, 4), np.ones(5, "f"))), ("mse_loss", (X, Y, None, None, "mean", n(4))),
    ("l1_loss", (X, Y, None, None, "mean", n(3, 1))), ("huber_loss", (X, Y, "mean", 1.0, n(4))), *(("embedding_bag", (np.array([0, 1]), X, at, *more)) for at, *more in BAGS),
]  # fmt: skip


@with_oracle
@pytest.mark.parametrize(("name", "args"), REFUSED, ids=[name for name, _ in REFUSED])
def test_refused_with_pytorchs_words(name, args):
    def run(torch):
        return getattr(torch.nn.functional, name)(*(torch.tensor(a) if isinstance(a, np.ndarray) else a for a in args))

    assert isinstance(outcome(run, shim), str)
    same(run)


EXTREME = [0.0, -0.0, np.nan, np.inf, -np.inf, 3.0, -3.0, 6.0, 0.5, 1.0, -100.0, 104.0, -1e4, 1e4, 1e-30, 0.1]
CURVES = """relu silu elu selu softplus sigmoid leaky_relu hardtanh hardsigmoid hardswish mish logsigmoid gelu hardshrink softshrink erf erfc logit
mse_loss huber_loss smooth_l1_loss binary_cross_entropy_with_logits soft_margin_loss""".split()


@with_oracle
@pytest.mark.parametrize(
    "function",
    [
        lambda torch, x: torch.nn.functional.huber_loss(x, x.detach() * 0, delta=0.5, reduction="sum"),
        lambda torch, x: torch.nn.functional.smooth_l1_loss(x, x.detach() * 0, beta=0.5, reduction="sum"),
        lambda torch, x: torch.nn.functional.soft_margin_loss(x, x.detach() + 2, reduction="sum"),
        lambda torch, x: torch.logit(x).sum(),
    ],
)
def test_derivatives_at_bounds_and_beyond_are_pytorchs(function):
    def run(torch):
        x = torch.tensor([0.5, -0.5, 0.2, 1.5, -2.0, 0.9, float("nan")], dtype=torch.float64, requires_grad=True)
        (g,) = torch.autograd.grad(function(torch, x), x, create_graph=True)
        return g, torch.autograd.grad(g[:3].sum(), x)

    same(run)


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("name", CURVES)
def test_large_arrays_have_the_values_of_their_parts(name, dtype):
    function = getattr(shim.nn.functional, name, None) or getattr(shim, name)
    loss = "loss" in name or "logits" in name

    def of(*arrays, turned=False):
        given = [shim.tensor(a, requires_grad=True) for a in arrays]
        x, y, weight = (t.view(101, -1).t() for t in given) if turned else given
        out = function(x, y, reduction="none") if loss else function(x)
        assert out.stride() == x.stride()
        grads = shim.autograd.grad(out, given[: 1 + loss], weight)
        return [t.detach().numpy() for t in (out.t().reshape(-1) if turned else out, *grads)]

    parts = [np.concatenate([EXTREME, np.random.default_rng(k).normal(size=1583)]).astype(dtype) for k in range(3)]
    wholes = [np.tile(a, 101) for a in parts]
    with np.errstate(all="ignore"):
        alone, *large = of(*parts), of(*wholes), of(*wholes, turned=True)
    for a, *several in zip(alone, *large):
        for found in several:
            np.testing.assert_allclose(
                found.reshape(101, -1), np.broadcast_to(a, (101, a.size)), *((3e-5, 1e-6) if dtype == "f" else (1e-11, 1e-14))
            )


def test_what_is_not_honoured_is_refused():
    F = shim.nn.functional
    for call in (
        lambda: F.embedding(shim.tensor([0]), shim.zeros(2, 2), sparse=True),
        lambda: shim.optim.SparseAdam,
        lambda: shim.optim.Adam([shim.zeros(1)], differentiable=True),
    ):
        with pytest.raises(NotImplementedError):
            call()


# modules

PRINTED = """ReLU() ReLU(True) LeakyReLU() GELU('tanh') Softshrink() Hardsigmoid() Threshold(0.1,20) PReLU() RReLU() Softmax() Softmax2d() Dropout(0.2)
Identity() Flatten() Unflatten(1,(2,3)) Linear(2,3) Bilinear(2,3,4) Embedding(5,3) Embedding(5,3,padding_idx=0,max_norm=1.) Conv1d(2,4,3)
Conv2d(2,4,(3,5),stride=2,padding=1,dilation=2,groups=2,bias=False,padding_mode='circular') ConvTranspose2d(2,4,3,stride=2,output_padding=1)
MaxPool1d(2) MaxPool2d((2,3),stride=(1,2),padding=1,ceil_mode=True) AvgPool1d(2) AvgPool2d(2) AdaptiveAvgPool2d((1,1)) AdaptiveMaxPool2d((5,None))
LPPool2d(2,3) MaxUnpool2d(2) BatchNorm1d(4) BatchNorm2d(4,affine=False) LayerNorm((3,4),elementwise_affine=False) GroupNorm(2,4)
InstanceNorm1d(4) RMSNorm(4) LocalResponseNorm(2) RNN(2,3) LSTM(2,3,2,batch_first=True,bidirectional=True,dropout=0.1) GRU(2,3,bias=False)
RNNCell(2,3,nonlinearity='relu') GRUCell(2,3,bias=False) MultiheadAttention(4,2) Transformer(4,2,2,2,8) CrossEntropyLoss(label_smoothing=0.1)
TripletMarginLoss() CosineSimilarity() PixelShuffle(2) Upsample(scale_factor=2) Upsample((3,4),mode='bilinear',align_corners=True)
UpsamplingNearest2d(scale_factor=2) ZeroPad2d(1) ConstantPad1d(2,3.5) Fold((4,5),(2,2)) Sequential(nn.Linear(2,3),nn.ReLU()) Sequential()
ModuleList([nn.Linear(2,3),nn.Linear(2,3),nn.ReLU()]) ModuleDict({'a':nn.Linear(2,3)}) ParameterList([nn.Parameter(torch.zeros(2,3))])
ParameterDict({'a':nn.Parameter(torch.zeros(2,3))})""".split()


@with_oracle
def test_modules_print_as_pytorchs():
    for made in PRINTED:
        same(lambda torch, made=made: repr(eval(f"nn.{made}", {"nn": torch.nn, "torch": torch})))


def f(*shape):
    return n(*shape).astype(np.float32)


MODULES = {
    "linear": (lambda nn: nn.Linear(5, 3), [f(2, 4, 5)]),
    "bilinear": (lambda nn: nn.Bilinear(3, 4, 2), [f(5, 3), f(5, 4)]),
    "embedding": (lambda nn: nn.Embedding(7, 3, padding_idx=2), [np.array([[1, 2], [6, 2]])]),
    "conv1d": (lambda nn: nn.Conv1d(4, 6, 3, padding="same", padding_mode="reflect", bias=False), [f(2, 4, 9)]),
    "conv2d": (lambda nn: nn.Conv2d(4, 6, 3, padding=2, padding_mode="circular", stride=2), [f(2, 4, 9, 8)]),
    "transposed": (lambda nn: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1), [f(2, 4, 5, 4)]),
    "batch norm": (lambda nn: nn.BatchNorm1d(4), [f(3, 4, 5)]),
    "batch norm, average": (lambda nn: nn.BatchNorm2d(4, momentum=None, affine=False), [f(3, 4, 5, 2)]),
    "batch norm, untracked": (lambda nn: nn.BatchNorm2d(4, track_running_stats=False), [f(3, 4, 5, 2)]),
    "instance norm": (lambda nn: nn.InstanceNorm1d(4, affine=True, track_running_stats=True), [f(3, 4, 5)]),
    "layer norm": (lambda nn: nn.LayerNorm((3, 4)), [f(2, 3, 4)]),
    "prelu": (lambda nn: nn.PReLU(4), [f(2, 4)]),
    "rnn": (lambda nn: nn.RNN(3, 5, nonlinearity="relu"), [f(6, 2, 3)]),
    "lstm": (lambda nn: nn.LSTM(3, 5, 2, batch_first=True, bidirectional=True), [f(2, 6, 3)]),
    "lstm, one example": (lambda nn: nn.LSTM(3, 5, bias=False), [f(6, 3)]),
    "gru": (lambda nn: nn.GRU(3, 5, 2), [f(6, 2, 3), f(2, 2, 5)]),
    "lstm cell": (lambda nn: nn.LSTMCell(3, 5), [f(2, 3)]),
    "gru cell": (lambda nn: nn.GRUCell(3, 5), [f(3)]),
    "attention": (lambda nn: nn.MultiheadAttention(6, 2), [f(4, 2, 6), f(5, 2, 6), f(5, 2, 6)]),
    "attention, other sizes": (
        lambda nn: nn.MultiheadAttention(6, 2, kdim=3, vdim=4, add_bias_kv=True, add_zero_attn=True, batch_first=True),
        [f(2, 4, 6), f(2, 5, 3), f(2, 5, 4)],
    ),
    "encoder": (
        lambda nn: nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 8, 0.0, "gelu", batch_first=True, norm_first=True), 2),
        [f(2, 4, 6)],
    ),
    "transformer": (lambda nn: nn.Transformer(6, 2, 1, 1, 8, dropout=0.0), [f(4, 2, 6), f(5, 2, 6)]),
}


@with_oracle
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", MODULES)
def test_modules_compute_what_pytorchs_do(name, training):
    make, inputs = MODULES[name]

    def run(torch):
        module = make(torch.nn).train(training)
        first = {k: v.clone() for k, v in module.state_dict().items()}
        tensors = [torch.tensor(x) for x in inputs]
        flat = [o for o in _leaves(module(*tensors)) if o is not None]
        if any(o.requires_grad for o in flat):
            sum((o * o * (k + 1)).sum() for k, o in enumerate(flat)).backward()
        return first, flat, {k: p.grad for k, p in module.named_parameters()}, module.state_dict()

    close(outcome(run, shim), outcome(run, oracle), 2e-4, 2e-5)


def _leaves(x):
    return [y for item in x for y in _leaves(item)] if isinstance(x, tuple) else [x]


@with_oracle
@pytest.mark.parametrize("fill", ["uniform_", "xavier_uniform_", "kaiming_uniform_"])
def test_first_values_are_pytorchs_to_the_last_bit(fill):
    for shape in ((3, 4), (7, 5), (4, 2, 3)):
        same(lambda torch, shape=shape: getattr(torch.nn.init, fill)(torch.empty(*shape)), 0, 0)
    same(lambda torch: list(torch.nn.Linear(6, 5).parameters()) + list(torch.nn.Conv2d(3, 4, 3).parameters()), 0, 0)


@with_oracle
def test_other_first_values_are_pytorchs():
    for fill in ("normal_", "xavier_normal_", "kaiming_normal_", "orthogonal_"):
        for shape in ((3, 3), (7, 5)):
            same(lambda torch, fill=fill, shape=shape: getattr(torch.nn.init, fill)(torch.empty(*shape)), 2e-6, 2e-6)
    for options in ({"std": 0.02}, {"std": 2.0, "a": -1, "b": 1.5}, {"mean": 3.0}):
        same(lambda torch, options=options: torch.nn.init.trunc_normal_(torch.empty(5, 4), **options), 1e-5, 1e-6)
    same(lambda torch: torch.nn.init.sparse_(torch.empty(5, 4), 0.5), 1e-5, 1e-6)
    same(lambda torch: torch.nn.functional.gumbel_softmax(torch.ones(4, 5), 0.7), 1e-5, 1e-6)
    same(lambda torch: torch.nn.functional.rrelu(torch.linspace(-1, 1, 20), training=True), 1e-5, 1e-6)
    same(lambda torch: torch.nn.init.dirac_(torch.empty(4, 4, 3), 2))
    same(lambda torch: [torch.nn.init.calculate_gain(*a) for a in (("relu",), ("leaky_relu", 0.2), ("tanh",), ("conv2d",))])


def network(torch):
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 3)
            self.b = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
            self.register_buffer("c", torch.ones(3))
            self.register_buffer("d", torch.ones(1), persistent=False)
            self.tied = self.a

        def forward(self, x):
            return self.b(self.a(x)) * self.c

    return Net()


@with_oracle
def test_parts_of_a_module_are_named_as_in_pytorch():
    def run(torch):
        net = network(torch)
        return [
            [k for k, _ in net.named_parameters()], [k for k, _ in net.named_parameters(remove_duplicate=False)], [k for k, _ in net.named_buffers()],
            [k for k, _ in net.named_modules()], [k for k, _ in net.named_children()], list(net.state_dict()), dict(net.state_dict()._metadata),
            str(net), net.get_parameter("b.0.bias"), str(net.get_submodule("b.1")), str(net.load_state_dict(net.state_dict())),
            [p.requires_grad for p in net.requires_grad_(False).parameters()], str(net.double().a.weight.dtype), "training" in dir(net), net.eval().b.training,
        ]  # fmt: skip

    same(run)


@with_oracle
def test_mistakes_with_modules_are_told_in_pytorchs_words():
    def broken(torch, change):
        state = collections.OrderedDict(network(torch).state_dict())
        change(torch, state)
        return network(torch).load_state_dict(state)

    class Late:
        def __new__(cls, torch, value):
            def init(self):
                self.a = value

            return type("Late", (torch.nn.Module,), {"__init__": init})()

    for run in (
        lambda torch: broken(torch, lambda torch, s: (s.pop("c"), s.update({"e": torch.ones(1), "a.weight": torch.ones(3)}))),
        lambda torch: broken(torch, lambda torch, s: s.update(c=3)),
        lambda torch: network(torch).load_state_dict(3),
        lambda torch: Late(torch, torch.nn.Parameter(torch.ones(1))),
        lambda torch: Late(torch, torch.nn.ReLU()),
        lambda torch: network(torch).nothing,
        lambda torch: setattr(network(torch), "a", 3),
        lambda torch: setattr(network(torch), "c", 3),
        lambda torch: setattr(network(torch).a, "weight", torch.ones(3, 2)),
        lambda torch: network(torch).register_buffer("a", torch.ones(1)),
        lambda torch: network(torch).register_parameter("x.y", None),
        lambda torch: network(torch).register_parameter("k", torch.nn.Parameter(torch.ones(2)) * 2),
        lambda torch: network(torch).add_module("z", 3),
        lambda torch: network(torch).get_submodule("a.x"),
        lambda torch: network(torch).get_parameter("c"),
        lambda torch: network(torch).train(3),
        lambda torch: network(torch).to(torch.int32),
        lambda torch: torch.nn.Module()(1),
        lambda torch: torch.nn.Sequential(3),
        lambda torch: torch.nn.Sequential(torch.nn.ReLU())[2],
        lambda torch: torch.nn.Conv2d(3, 4, 3, groups=2),
        lambda torch: torch.nn.Conv2d(3, 4),
        lambda torch: torch.nn.Conv2d(3, 4, 3, kernel=3),
        lambda torch: torch.nn.Conv1d(3, 4, 3, 1, 0, 1, 1, True, "zeros", None, None, 5),
        lambda torch: torch.nn.ConvTranspose2d(3, 4, 3, dilated=3),
        lambda torch: torch.nn.Dropout(1.5),
        lambda torch: torch.nn.MultiheadAttention(5, 2),
        lambda torch: torch.nn.LSTM(2, 3)(torch.zeros(4, 5)),
        lambda torch: torch.nn.LSTM(2, 3)(torch.zeros(4)),
        lambda torch: torch.nn.BatchNorm1d(3)(torch.zeros(1, 3)),
        lambda torch: torch.nn.BatchNorm2d(3)(torch.zeros(3, 3)),
    ):
        assert isinstance(outcome(run, shim), (str, type(None)))
        same(run)


def _hooks(torch):
    seen, net = [], network(torch)
    handles = [
        net.a.register_forward_pre_hook(lambda m, args: (args[0] * 2,)),
        net.a.register_forward_hook(lambda m, args, out: out + 1),
        net.b.register_full_backward_hook(lambda m, gi, go: seen.append((gi[0].sum().item(), go[0].sum().item()))),
        net.b.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,)),
        net.a.register_full_backward_hook(lambda m, gi, go: seen.append((gi[0] is None, go[0].sum().item()))),
    ]
    x = torch.tensor([[0.5, -1.0]])
    out = net(x)
    out.sum().backward()
    grads = [p.grad for p in net.parameters()]
    for handle in handles:
        handle.remove()
    return [out, grads, [list(map(float, row)) for row in seen], net(x)]


@with_oracle
def test_hooks_see_and_change_what_pytorchs_do():
    close(outcome(_hooks, shim), outcome(_hooks, oracle), 1e-5, 1e-6)


def test_modules_are_copied_and_pickled_with_their_state():
    net = network(shim)
    x = shim.ones(1, 2)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(shim.nn.Sequential(net.a, net.b)))):
        assert shim.equal(other(x), net(x) if hasattr(other, "c") else net.b(net.a(x)))
        assert next(other.parameters()) is not net.a.weight
    net.a.weight.data.zero_()
    assert float(net.state_dict()["a.weight"].abs().sum()) == 0


@pytest.mark.parametrize("name", ["tanh", "relu", "logsumexp", "nn.functional.relu", "nn.functional.gelu"])
def test_functions_that_modules_keep_can_be_pickled(name):
    function = operator.attrgetter(name)(shim)
    assert pickle.loads(pickle.dumps(function)) is function
    assert pickle.loads(pickle.dumps(shim.device("cpu"))) == shim.device("cpu")
    layer = shim.nn.TransformerEncoderLayer(4, 2, 8)
    layer.activation = function if name.endswith(("relu", "gelu")) else layer.activation
    x = shim.ones(3, 1, 4)
    assert shim.equal(pickle.loads(pickle.dumps(layer)).eval()(x), layer.eval()(x))


@with_oracle
def test_lazy_modules_are_pytorchs():
    def told(torch, use):
        layer = torch.nn.LazyLinear(3)
        try:
            return use(layer.weight)
        except ValueError as error:
            assert "uninitialized parameter" in str(error)
            return "not yet"

    def run(torch):
        nn = torch.nn
        known, lazy = nn.BatchNorm1d(4), nn.LazyBatchNorm1d()
        known.running_mean.fill_(2.0)
        loaded = str(lazy.load_state_dict(known.state_dict()))
        two = nn.LazyConv2d(2, 3)
        other = str(two.load_state_dict(nn.LazyConv2d(2, 3).state_dict()))
        uses = (
            lambda w: w.sum(), lambda w: w + 1, lambda w: torch.exp(w), lambda w: w.numel(), lambda w: w.norm() ** 2, lambda w: torch.cat([w, w]), lambda w: w.clone(),
            lambda w: str(w.dtype), lambda w: w.requires_grad, lambda w: isinstance(w, nn.parameter.UninitializedParameter),
        )  # fmt: skip
        return [
            loaded, lazy(torch.arange(8.0).reshape(2, 4)), lazy.running_mean, other, two(torch.ones(1, 2, 4, 4)), [told(torch, use) for use in uses],
            nn.LazyLinear(2).double()(torch.ones(1, 3, dtype=torch.float64)), copy.deepcopy(nn.LazyLinear(2))(torch.ones(1, 3)),
        ]  # fmt: skip

    assert isinstance(outcome(run, shim), list), outcome(run, shim)
    same(run)


@with_oracle
@pytest.mark.parametrize("name", ["batch_norm", "instance_norm", "layer_norm", "group_norm", "rms_norm"])
def test_normalisations_take_parameters_of_the_inputs_dtype_and_single_ones_with_half(name):
    def run(torch, x, w):
        F, x, w = torch.nn.functional, torch.tensor(n_, dtype=getattr(torch, x)), torch.linspace(0.5, 2, 4, dtype=getattr(torch, w))
        if name in ("layer_norm", "rms_norm"):
            return getattr(F, name)(x.permute(0, 2, 1), (4,), w)
        return F.group_norm(x, 2, w) if name == "group_norm" else getattr(F, name)(x, None, None, w, None, True)

    n_ = n(3, 4, 5)
    for x, w in (("float16", "float32"), ("float32", "float32"), ("float64", "float64")):
        same(lambda torch, x=x, w=w: run(torch, x, w), 2e-3, 2e-3)
    for x, w in (("float32", "float64"), ("float64", "float32"), ("float16", "float64")):
        if name == "rms_norm":
            same(lambda torch, x=x, w=w: run(torch, x, w), 2e-3, 2e-3)
        else:
            assert all(
                "RuntimeError: mixed dtype (CPU)" in outcome(lambda torch, x=x, w=w: run(torch, x, w), torch) for torch in (shim, oracle)
            )


def test_digits_are_no_attributes_and_an_empty_dict_has_no_last_parameter():
    assert not {"0", "1"} & set(dir(shim.nn.Sequential(shim.nn.ReLU(), shim.nn.ReLU())))
    with pytest.raises(KeyError):
        shim.nn.ParameterDict().popitem()
    parameters = shim.nn.ParameterDict({"a": shim.ones(1), "b": shim.zeros(1)})
    assert parameters.popitem()[0] == "b" and list(parameters) == ["a"]


def test_a_convolution_is_the_sum_that_defines_it():
    x, w = n(2, 4, 6, 5), n(6, 2, 3, 2)
    got = shim.nn.functional.conv2d(shim.tensor(x), shim.tensor(w), stride=(2, 1), padding=1, dilation=(1, 2), groups=2).numpy()
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    want = np.zeros(got.shape)
    for b, o, i, j in np.ndindex(*want.shape):
        for c, p, q in np.ndindex(*w.shape[1:]):
            want[b, o, i, j] += w[o, c, p, q] * padded[b, 2 * (o // 3) + c, 2 * i + p, j + 2 * q]
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("padding", [0, 1, (3, 0), (4, 2)])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channels, groups", [((4, 2), 1), ((2, 4), 1), ((4, 4), 2), ((2, 6), 2)])
def test_the_gradient_of_a_convolution_is_its_transpose(channels, groups, stride, padding):
    few, many = channels
    x, w = shim.tensor(n(2, few, 7, 5), requires_grad=True), shim.tensor(n(many, few // groups, 3, 2))
    y = shim.nn.functional.conv2d(x, w, stride=stride, padding=padding, dilation=(2, 1), groups=groups)
    columns = [shim.zeros_like(x).reshape(-1) for _ in range(x.numel())]
    for k, column in enumerate(columns):
        column[k] = 1
    rows = shim.nn.functional.conv2d(shim.stack(columns).reshape(-1, *x.shape[1:]), w, None, stride, padding, (2, 1), groups)
    g = shim.tensor(n(*y.shape))
    want = (rows.reshape(x.numel(), *y.shape) * g).sum((1, 2, 3, 4)).reshape(x.shape)
    np.testing.assert_allclose(shim.autograd.grad(y, x, g)[0].numpy(), want.numpy(), rtol=1e-12, atol=1e-13)


def test_a_convolution_of_many_images_takes_some_of_them_at_a_time():
    x, w = shim.tensor(n(16, 1, 100, 100)).float(), shim.tensor(n(1, 1, 9, 9)).float()
    tracemalloc.start()
    try:
        y = shim.nn.functional.conv2d(x, w)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 81 * y.numpy().nbytes / 2
    np.testing.assert_array_equal(y[9:10].numpy(), shim.nn.functional.conv2d(x[9:10], w).numpy())


@pytest.mark.parametrize("size, kernel", [(7, 7), (24, 5)])  # a window for each image, and many
def test_the_gradients_of_a_convolution_hold_no_product_for_each_image(size, kernel):
    x, w = shim.tensor(n(64, 8, size, size), requires_grad=True), shim.tensor(n(40, 8, kernel, kernel), requires_grad=True)
    y = shim.nn.functional.conv2d(x, w)
    g = n(*y.shape)
    tracemalloc.start()
    try:
        found = shim.autograd.grad(y, (x, w), shim.tensor(g))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * x.nbytes + y.nbytes + (1 << 22)
    some = [shim.autograd.grad(shim.nn.functional.conv2d(x[k : k + 1], w), (x, w), shim.tensor(g[k : k + 1])) for k in range(64)]
    np.testing.assert_allclose(found[0].numpy(), sum(dx for dx, _ in some).numpy(), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found[1].numpy(), sum(dw for _, dw in some).numpy(), rtol=1e-10, atol=1e-10)


def test_what_is_summed_is_added_term_by_term_as_in_pytorch():
    F = shim.nn.functional
    image = np.array([[1, 1e8], [-1e8, 1]], np.float32)  # row by row its sum would be 0
    assert F.avg_pool2d(shim.tensor(image[None]), 2).item() == 0.25
    index, g, want = np.arange(200) % 3, n(200, 2).astype(np.float32), np.zeros((3, 2), np.float32)
    for k, row in zip(index, g):
        want[k] += row
    table = shim.zeros(3, 2, requires_grad=True)
    F.embedding(shim.tensor(index), table).backward(shim.tensor(g))
    np.testing.assert_array_equal(table.grad.numpy(), want)


def test_a_convolution_channel_by_channel_holds_no_copy_of_the_image_for_each_place_of_its_kernel():
    x, w = shim.zeros(2, 8, 50, 50, requires_grad=True), shim.ones(8, 1, 5, 5)
    y = shim.nn.functional.conv2d(x, w, padding=2, groups=8)
    y.sum().backward()
    y = shim.nn.functional.conv2d(x, w, padding=2, groups=8)
    tracemalloc.start()
    try:
        y.sum().backward()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert x.grad[0, 0, 25, 25] == 50 and x.grad[0, 0, 0, 0] == 18
    assert peak < 8 * x.numpy(force=True).nbytes


def test_per_example_gradients_of_a_network_by_vmap_agree_with_a_loop():
    nn, func = shim.nn, functrace.torch.func
    net = nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.LayerNorm(8), nn.Linear(8, 3)).double()
    x, y = shim.tensor(n(4, 1, 5, 5)), shim.tensor([0, 2, 1, 1])
    parameters = {k: p.detach() for k, p in net.named_parameters()}

    def loss(parameters, example, label):
        return nn.functional.cross_entropy(func.functional_call(net, parameters, (example.unsqueeze(0),)), label.unsqueeze(0))

    each = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    for k in range(4):
        net.zero_grad()
        nn.functional.cross_entropy(net(x[k : k + 1]), y[k : k + 1]).backward()
        for name, p in net.named_parameters():
            np.testing.assert_allclose(each[name][k].numpy(), p.grad.numpy(), atol=1e-12)


@with_oracle
def test_sequences_are_packed_and_padded_as_in_pytorch():
    x, rows = f(6, 3, 4), [f(3, 2), f(5, 2), f(1, 2)]

    def run(torch):
        rnn = torch.nn.utils.rnn
        packed = rnn.pack_padded_sequence(torch.tensor(x), [3, 6, 2], enforce_sorted=False)
        out, last = torch.nn.GRU(4, 5, 2, bidirectional=True)(packed)
        tensors = list(map(torch.tensor, rows))
        return [
            list(packed), list(out), last, list(rnn.pad_packed_sequence(out, padding_value=0.5, total_length=7)),
            rnn.pad_sequence(tensors, True, -1.0), list(rnn.pack_sequence(tensors, enforce_sorted=False)),
            rnn.unpad_sequence(torch.tensor(x), torch.tensor([2, 6, 1])),
        ]  # fmt: skip

    close(outcome(run, shim), outcome(run, oracle), 1e-5, 1e-6)


@with_oracle
def test_gradients_are_clipped_as_in_pytorch():
    def run(torch):
        weights = [torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(2, 2))]
        utils = torch.nn.utils
        results = []
        for norm in (2.0, 1.0, float("inf")):
            for k, w in enumerate(weights):
                w.grad = torch.full_like(w, float(k + 1))
            results += [utils.clip_grad_norm_(weights, 1.5, norm), weights[0].grad.clone(), weights[1].grad.clone()]
        utils.clip_grad_value_(weights, 0.3)
        vector = utils.parameters_to_vector(weights)
        utils.vector_to_parameters(vector * 2, weights)
        return [*results, weights[1].grad, vector, weights[1]]

    same(run, 1e-6, 1e-7)


def test_training_leaves_nothing_behind_with_the_collector_off():
    nn = shim.nn
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 8), nn.Dropout(0.1)
    )
    rnn = nn.LSTM(8, 4)
    net[1].register_full_backward_hook(lambda module, grad_input, grad_output: None)
    optimizer = shim.optim.Adam([*net.parameters(), *rnn.parameters()])
    loader = shim.utils.data.DataLoader(shim.utils.data.TensorDataset(shim.randn(8, 1, 8, 8)), 4, shuffle=True)

    def epoch():
        for (x,) in loader:
            optimizer.zero_grad()
            rnn(net(x))[0].pow(2).sum().backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()

    epoch()
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            epoch()
        assert gc.collect() == 0
    finally:
        gc.enable()


# optimisers

STEPS = [
    ("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    ("SGD", {"lr": 0.01, "maximize": True}), ("Adam", {}), ("Adam", {"lr": 0.1, "betas": (0.3, 0.5), "weight_decay": 0.1, "amsgrad": True}), ("AdamW", {"lr": 0.1}),
    ("RMSprop", {}), ("RMSprop", {"momentum": 0.5, "centered": True, "weight_decay": 0.1}), ("Adagrad", {"lr": 0.3, "lr_decay": 0.1, "initial_accumulator_value": 0.2}),
    ("Adadelta", {"rho": 0.5, "weight_decay": 0.1}), ("Adamax", {"lr": 0.1, "weight_decay": 0.1}), ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1}), ("ASGD", {"lr": 0.1, "t0": 3}), ("Rprop", {}), ("LBFGS", {"lr": 0.1, "max_iter": 5}), ("LBFGS", {"line_search_fn": "strong_wolfe"}),
]  # fmt: skip


def trained(torch, name, options, steps=8):
    weights = [torch.nn.Parameter(torch.tensor(np.cos(np.arange(k * k, dtype=float)).reshape(k, k))) for k in (3, 2)]
    optimizer = getattr(torch.optim, name)([{"params": weights[:1]}, {"params": weights[1:]}] if name != "LBFGS" else weights, **options)

    def closure():
        optimizer.zero_grad()
        loss = ((weights[0] @ weights[0] - 1) ** 2).sum() * 0.1 + (weights[1].sum() * weights[0].sum()).sin()
        loss.backward()
        return loss

    return weights, [float(optimizer.step(closure)) for _ in range(steps)], optimizer


@with_oracle
@pytest.mark.parametrize(("name", "options"), STEPS, ids=[name for name, _ in STEPS])
def test_optimisers_take_pytorchs_steps(name, options):
    def run(torch):
        weights, losses, optimizer = trained(torch, name, options)
        state = optimizer.state_dict()
        return [weights, losses, state if name != "LBFGS" else sorted(state), str(optimizer)]

    close(outcome(run, shim), outcome(run, oracle), 1e-7, 1e-9)


def test_the_first_step_of_adam_is_the_learning_rate():
    w = shim.tensor([1.0, -2.0, 3.0], requires_grad=True)
    optimizer = shim.optim.Adam([w], lr=0.25)
    (w * shim.tensor([5.0, -0.1, 2.0])).sum().backward()
    optimizer.step()
    np.testing.assert_allclose(w.detach().numpy(), [0.75, -1.75, 2.75], rtol=1e-5)
    assert w._version == 1


@pytest.mark.parametrize("amsgrad", [False, True])
def test_a_step_of_adam_holds_no_copy_of_a_large_parameter(amsgrad):
    values, gradients = n(1000, 300).astype(np.float32), n(2, 1000, 300).astype(np.float32)

    def moved(parts):
        weights = [shim.tensor(some, requires_grad=True) for some in np.split(values, parts)]
        optimizer = shim.optim.Adam(weights, lr=0.1, amsgrad=amsgrad)
        for gradient in gradients:
            for w, g in zip(weights, np.split(gradient, parts)):
                w.grad = shim.tensor(g)
            tracemalloc.start()
            try:
                optimizer.step()
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
        return shim.cat(weights).detach().numpy(), peak

    whole, peak = moved(1)
    np.testing.assert_array_equal(whole, moved(20)[0])
    assert peak < values.nbytes


@with_oracle
def test_mistakes_with_optimisers_are_told_in_pytorchs_words():
    for call in (
        lambda o, w, torch: o.SGD([]), lambda o, w, torch: o.SGD(w), lambda o, w, torch: o.SGD([3]), lambda o, w, torch: o.SGD([w * 2]), lambda o, w, torch: o.SGD([w], lr=-1),
        lambda o, w, torch: o.Adam([w], betas=(1, 2)), lambda o, w, torch: o.SGD([w], nesterov=True), lambda o, w, torch: o.SGD([w]).add_param_group({"params": [w]}),
        lambda o, w, torch: o.SGD([w]).load_state_dict(o.SGD([w, torch.nn.Parameter(w.detach())]).state_dict()), lambda o, w, torch: o.SGD([{"params": [w]}, {"params": {w}}]),
        lambda o, w, torch: o.LBFGS([{"params": [w]}, {"params": [torch.nn.Parameter(w.detach())]}]), lambda o, w, torch: o.lr_scheduler.StepLR(3, 1),
        lambda o, w, torch: o.lr_scheduler.StepLR(o.SGD([w]), 1, last_epoch=3), lambda o, w, torch: o.lr_scheduler.OneCycleLR(o.SGD([w]), 1.0),
    ):  # fmt: skip
        run = lambda torch, call=call: call(torch.optim, torch.nn.Parameter(torch.ones(2)), torch)
        assert isinstance(outcome(run, shim), str)
        same(run)


@with_oracle
@pytest.mark.parametrize("name", ["SGD", "Adam", "Adagrad"])
def test_training_goes_on_from_a_saved_state(name):
    def run(torch):
        weights, _, optimizer = trained(torch, name, {"lr": 0.05}, 3)
        other = [torch.nn.Parameter(w.detach().clone()) for w in weights]
        resumed = getattr(torch.optim, name)([{"params": other[:1]}, {"params": other[1:]}], lr=1.0)
        resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        for w, v in zip(weights, other):
            w.grad = v.grad = torch.ones_like(w)
        optimizer.step()
        resumed.step()
        assert all(torch.equal(w, v) for w, v in zip(weights, other))
        return other

    same(run)


STATES = [
    ("SGD", {"momentum": 0.9, "lr": 0.1}),
    *((name, {}) for name in "Adam AdamW RMSprop Adagrad Adadelta Adamax NAdam RAdam ASGD Rprop".split()),
]


@with_oracle
@pytest.mark.parametrize("dtype", ["complex64", "float64"])
@pytest.mark.parametrize(("name", "options"), STATES, ids=[name for name, _ in STATES])
def test_optimisers_go_on_from_each_others_states(name, options, dtype):
    start, *grads = ((n(2, 3) + 1j * n(2, 3) if dtype == "complex64" else n(2, 3)).astype(dtype) for _ in range(5))

    def stepped(torch, w, state, grads):
        w = torch.tensor(w, requires_grad=True)
        optimizer = getattr(torch.optim, name)([w], **options)
        if state is not None:
            optimizer.load_state_dict({**state, "state": {0: {k: torch.tensor(x) for k, x in state["state"][0].items()}}})
        for g in grads:
            w.grad = torch.tensor(g)
            optimizer.step()
        return w.detach().numpy().copy(), plain(optimizer.state_dict())

    whole, _ = stepped(oracle, start, None, grads)
    half = stepped(oracle, start, None, grads[:2])
    _, want = stepped(oracle, *half, grads[2:])
    for first, then in ((half, shim), (stepped(shim, start, None, grads[:2]), oracle), (stepped(shim, start, None, grads[:2]), shim)):
        got, state = stepped(then, *first, grads[2:])
        np.testing.assert_allclose(got, whole, 1e-5 if dtype == "complex64" else 1e-7)
        close(state["state"][0], want["state"][0], 1e-5, 1e-7)


def test_what_is_built_from_a_table_of_options_shows_them():
    for cls, shown in (
        (shim.nn.MaxPool1d, "(kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False)"),
        (
            shim.optim.Rprop,
            "(params, lr=0.01, etas=(0.5, 1.2), step_sizes=(1e-06, 50), *, foreach=None, maximize=False, "
            "differentiable=False, capturable=False)",
        ),
    ):
        assert str(inspect.signature(cls)) == shown
        with pytest.raises(TypeError, match=rf"{cls.__name__}\.__init__\(\) got an unexpected keyword argument 'size'"):
            cls([shim.ones(1)], size=2)


@pytest.mark.parametrize("name", ["SGD", "Adam", "LBFGS", "Rprop"])
def test_optimisers_schedulers_and_data_are_copied_and_pickled(name):
    data = shim.utils.data
    w = shim.ones(2, requires_grad=True)
    optimizer = getattr(shim.optim, name)([w], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    for other in (pickle.loads(pickle.dumps(optimizer)), copy.deepcopy(optimizer)):
        assert type(other) is type(optimizer) and str(other) == str(optimizer)
        close(plain(other.state_dict()), plain(optimizer.state_dict()), 0, 0)
        (v,) = other.param_groups[0]["params"]
        assert v is not w and v in other.state
        other.register_step_post_hook(lambda optimizer, args, kwargs: stepped.append(optimizer))
        stepped = []
        other.step(lambda: (v * v).sum())
        assert stepped == [other]
    if name == "SGD":
        for scheduler in (shim.optim.lr_scheduler.OneCycleLR(optimizer, 1.0, 10), shim.optim.lr_scheduler.StepLR(optimizer, 2)):
            assert pickle.loads(pickle.dumps(scheduler)).state_dict() == scheduler.state_dict()
        pairs = data.TensorDataset(shim.arange(4.0))
        for examples in (pairs, data.Subset(pairs, [2, 0]), pairs + pairs):
            assert list(pickle.loads(pickle.dumps(examples))) == list(examples)


def test_rprop_takes_no_step_by_what_is_no_number():
    w = shim.tensor([1.0, 2.0], requires_grad=True)
    optimizer = shim.optim.Rprop([w], lr=0.5)
    for _ in range(2):
        w.grad = shim.tensor([float("nan"), 1.0])
        optimizer.step()
    np.testing.assert_allclose(w.detach().numpy(), [1.0, 2 - 0.5 - 0.6], rtol=1e-6)


@with_oracle
def test_schedulers_resume_and_count_groups_as_pytorchs():
    def resumed(torch, name, last_epoch, **options):
        optimizer = torch.optim.SGD([{"params": [torch.ones(1, requires_grad=True)], "initial_lr": 0.5}], lr=0.3, momentum=0.9)
        scheduler = getattr(torch.optim.lr_scheduler, name)(optimizer, last_epoch=last_epoch, **options)
        rates = []
        for _ in range(7):
            rates += [scheduler.get_last_lr()]
            optimizer.step()
            scheduler.step()
        return rates

    for name, options in (
        ("CosineAnnealingLR", {"T_max": 3}),
        ("CosineAnnealingWarmRestarts", {"T_0": 2}),
        ("CosineAnnealingWarmRestarts", {"T_0": 2, "T_mult": 2}),
    ):
        for last in (0, 3, 8):
            same(lambda torch, name=name, options=options, last=last: resumed(torch, name, last, **options), 1e-12, 1e-15)
    for name, options in (
        ("CyclicLR", {"base_lr": [0.1, 0.2], "max_lr": 1.0}), ("CyclicLR", {"base_lr": 0.1, "max_lr": [1.0, 2.0]}), ("OneCycleLR", {"max_lr": [1.0, 2.0], "total_steps": 5}),
        ("CyclicLR", {"base_lr": 0.1, "max_lr": 1.0, "base_momentum": [0.8, 0.8]}), ("OneCycleLR", {"max_lr": 1.0, "total_steps": 5, "max_momentum": [0.9, 0.9]}),
    ):  # fmt: skip
        run = lambda torch, name=name, options=options: resumed(torch, name, -1, **options)
        assert "must have the same length as optimizer.param_groups" in outcome(run, shim)
        same(run)


def test_a_scheduler_of_ones_own_can_ask_whether_it_is_in_a_step():
    class Own(shim.optim.lr_scheduler.LRScheduler):
        def get_lr(self):
            assert self._get_lr_called_within_step
            return self.base_lrs

    optimizer = shim.optim.SGD([shim.ones(1, requires_grad=True)], lr=0.1)
    scheduler = Own(optimizer)
    optimizer.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [0.1]


SCHEDULES = [
    ("StepLR", {"step_size": 3}), ("MultiStepLR", {"milestones": [2, 5, 5, 9], "gamma": 0.3}), ("ConstantLR", {}), ("LinearLR", {"start_factor": 0.2, "total_iters": 7}),
    ("ExponentialLR", {"gamma": 0.9}), ("PolynomialLR", {"total_iters": 6, "power": 2.0}), ("CosineAnnealingLR", {"T_max": 7, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2}), ("OneCycleLR", {"max_lr": [1.0, 2.0], "total_steps": 30}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 30, "three_phase": True, "anneal_strategy": "linear"}), ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.4, "step_size_up": 4, "mode": "triangular2"}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.4, "step_size_up": 4, "mode": "exp_range", "gamma": 0.9}), ("LambdaLR", {"lr_lambda": lambda k: 0.9**k}),
    ("MultiplicativeLR", {"lr_lambda": lambda k: 0.95}), ("ReduceLROnPlateau", {"patience": 2, "cooldown": 1, "min_lr": 0.001}),
    ("SequentialLR", lambda L, o: L.SequentialLR(o, [L.LinearLR(o, 0.1, total_iters=4), L.CosineAnnealingLR(o, 6), L.ExponentialLR(o, 0.9)], [4, 10])),
    ("ChainedScheduler", lambda L, o: L.ChainedScheduler([L.ConstantLR(o, 0.5, 3), L.ExponentialLR(o, 0.9)])),
]  # fmt: skip


@with_oracle
@pytest.mark.parametrize(("name", "options"), SCHEDULES, ids=[name for name, _ in SCHEDULES])
def test_learning_rates_are_pytorchs(name, options):
    def run(torch):
        w, v = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(1))
        optimizer = torch.optim.SGD([{"params": [w]}, {"params": [v], "lr": 0.2}], lr=0.5, momentum=0.9)
        L = torch.optim.lr_scheduler
        scheduler = options(L, optimizer) if callable(options) else getattr(L, name)(optimizer, **options)
        rates = []
        for k in range(22):
            optimizer.step()
            scheduler.step(*([abs(k - 5) * 0.1] if name == "ReduceLROnPlateau" else []))
            rates.append([*map(float, scheduler.get_last_lr()), float(optimizer.param_groups[0]["momentum"])])
        return rates

    same(run, 1e-12, 1e-15)


def test_a_scheduler_before_the_optimiser_warns():
    optimizer = shim.optim.SGD([shim.ones(1, requires_grad=True)], lr=0.1)
    with pytest.warns(UserWarning, match="Detected call of `lr_scheduler.step\\(\\)` before `optimizer.step\\(\\)`"):
        shim.optim.lr_scheduler.StepLR(optimizer, 1).step()


# data


@with_oracle
def test_data_are_drawn_and_collated_as_in_pytorch():
    def run(torch):
        D = torch.utils.data

        class Examples(D.Dataset):
            def __len__(self):
                return 11

            def __getitem__(self, i):
                return {"x": torch.arange(3) + i, "y": i * 0.5, "n": np.float32(i), "s": str(i), "t": (i, np.arange(2) * i)}

        class Stream(D.IterableDataset):
            def __iter__(self):
                return iter(range(5))

        pairs = D.TensorDataset(torch.arange(20.0).view(10, 2), torch.arange(10))
        first, second = D.random_split(pairs, [7, 3])
        parts = D.random_split(pairs, [0.5, 0.3, 0.2], generator=torch.Generator().manual_seed(3))
        shuffled = D.DataLoader(second, 2, shuffle=True, generator=torch.Generator().manual_seed(5))
        return [
            list(D.DataLoader(Examples(), 4, shuffle=True)), [list(D.DataLoader(pairs, 3, shuffle=True, drop_last=True)) for _ in range(2)],
            first.indices, [part.indices for part in parts], list(D.DataLoader(first, 2)), [list(shuffled), list(shuffled)],
            list(D.RandomSampler(range(5), replacement=True, num_samples=40)), list(D.RandomSampler(range(5), num_samples=8)),
            list(D.SubsetRandomSampler([4, 7, 9])), list(D.WeightedRandomSampler([0.1, 0.9, 0.4], 6)),
            list(D.BatchSampler(D.SequentialSampler(range(7)), 3, False)), (first + second)[8], D.ConcatDataset([first, second])[-1],
            list(D.DataLoader(Stream(), 2)), list(D.DataLoader(Stream(), None)), len(D.DataLoader(pairs, 3)), list(D.DataLoader([[1, 2], [3, 4]], 2)),
            torch.rand(2),
        ]  # fmt: skip

    same(run)


@with_oracle
def test_loaders_draw_ask_and_refuse_in_pytorchs_order():
    class Row(list):
        pass

    class Pairs(collections.UserList):
        pass

    def run(torch):
        D = torch.utils.data

        class Batches:
            def __iter__(self):
                return iter(torch.randperm(6).reshape(2, 3).tolist())

        class Stream(D.IterableDataset):
            def __iter__(self):
                return iter(torch.rand(3).tolist())

        batches, stream = iter(D.DataLoader(range(6), batch_sampler=Batches())), iter(D.DataLoader(Stream(), 2))
        drawn = torch.rand(1)  # after the orders of both
        kept = [
            D.default_collate([Row([1, 2.0]), Row([3, 4.0])]),
            D.default_collate([Pairs([1]), Pairs([2])]),
            D.default_convert(Row([np.ones(2)])),
            D.default_convert(range(2)),
        ]
        loader = D.DataLoader([1, 2], worker_init_fn=print)
        return [
            drawn, list(batches), list(stream), [type(x).__name__ for x in kept], list(map(list, kept)),
            [loader.prefetch_factor, loader.persistent_workers, loader.worker_init_fn is print],
        ]  # fmt: skip

    def refused(torch, name):
        D = torch.utils.data
        stream = type("Stream", (D.IterableDataset,), {"__iter__": lambda self: iter([1])})()
        return {
            "sampler": lambda: D.DataLoader(stream, sampler=[1]), "batch_sampler": lambda: D.DataLoader(stream, batch_sampler=[[1]]), "shuffle": lambda: D.DataLoader(stream, shuffle=True),
            "nothing": lambda: list(D.RandomSampler([], True, 3)), "set": lambda: setattr(D.DataLoader([1]), "persistent_workers", True),
        }[name]()  # fmt: skip

    assert isinstance(outcome(run, shim), list), outcome(run, shim)
    same(run)
    for name in ("sampler", "batch_sampler", "shuffle", "nothing", "set"):
        assert isinstance(outcome(lambda torch, name=name: refused(torch, name), shim), str)
        same(lambda torch, name=name: refused(torch, name))


@pytest.mark.parametrize("kind", [tuple, list, np.array, shim.tensor], ids=["tuple", "list", "array", "tensor"])
def test_a_batch_of_numbers_may_be_any_sequence(kind):
    pairs = shim.utils.data.TensorDataset(shim.arange(6.0).reshape(3, 2), shim.arange(3))
    for examples in (pairs, shim.utils.data.Subset(pairs, [0, 1, 2])):
        ((x, y),) = shim.utils.data.DataLoader(examples, batch_sampler=[kind([0, 2])])
        assert x.tolist() == [[0.0, 1.0], [4.0, 5.0]] and y.tolist() == [0, 2]


def test_every_example_is_loaded_once():
    loader = shim.utils.data.DataLoader(shim.utils.data.TensorDataset(shim.arange(23)), batch_size=4, shuffle=True)
    assert sorted(int(k) for (batch,) in loader for k in batch) == list(range(23)) and len(loader) == 6
    shim.utils.data.DataLoader([1], num_workers=2)  # as tutorials have it: the batches are the same, so there is nothing to warn of
    with pytest.warns(UserWarning, match="num_workers=2 is ignored"):
        shim.utils.data.DataLoader([1], num_workers=2, worker_init_fn=print)


@with_oracle
@pytest.mark.parametrize("p", [0.2, 0.5])
def test_dropout_is_pytorchs(p):
    for name, shape in (
        ("dropout", (20, 5)),
        ("dropout2d", (3, 8, 2, 2)),
        ("alpha_dropout", (20, 5)),
        ("feature_alpha_dropout", (3, 8, 2, 2)),
    ):
        same(lambda torch, name=name, shape=shape: getattr(torch.nn.functional, name)(torch.ones(*shape), p, True), 1e-5, 1e-6)


def test_dropout_keeps_the_mean():
    shim.manual_seed(0)
    x = shim.ones(4000, requires_grad=True)
    out = shim.nn.functional.dropout(x, 0.25)
    assert np.allclose(np.unique(out.detach().numpy()), [0, 4 / 3]) and abs(float(out.detach().mean()) - 1) < 0.05
    out.sum().backward()
    assert shim.equal(x.grad, out.detach())
    assert shim.nn.functional.dropout(x, 0.25, training=False) is x


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("make", ["BatchNorm1d(4, affine={})", "GroupNorm(2, 4, affine={})", "LayerNorm(5, elementwise_affine={})"])
def test_a_normalised_result_that_is_written_to_leaves_the_gradient_as_it_was(make, affine):
    net = eval("shim.nn." + make.format(affine))
    x = shim.tensor(n(3, 4, 5).astype(np.float32), requires_grad=True)
    (want,) = shim.autograd.grad(shim.relu(net(x)).pow(2).sum(), x)
    (got,) = shim.autograd.grad(shim.relu_(net(x)).pow(2).sum(), x)
    np.testing.assert_array_equal(got.numpy(), want.numpy())
    with shim.no_grad():
        net(x).zero_()
    (again,) = shim.autograd.grad(shim.relu(net(x)).pow(2).sum(), x)
    np.testing.assert_array_equal(again.numpy(), want.numpy())


@with_oracle
def test_short_private_names_are_left_to_subclasses():
    """What a class that users inherit from has beyond PyTorch's attributes is no single word after an underscore, or users would have it too."""

    def names(torch):
        torch.manual_seed(0)
        layer = torch.nn.Linear(2, 2)
        optimizer = torch.optim.Adam(layer.parameters())
        normal = torch.distributions.Normal(0.0, 1.0)
        data = torch.utils.data
        made = [
            layer, torch.nn.Sequential(layer), torch.nn.ModuleList([layer]), torch.nn.ModuleDict({"a": layer}), torch.nn.ParameterList([]),
            torch.nn.Conv2d(1, 1, 1), torch.nn.ConvTranspose1d(1, 1, 1), torch.nn.BatchNorm2d(1), torch.nn.LayerNorm(1), torch.nn.LSTM(1, 1),
            torch.nn.LSTMCell(1, 1), torch.nn.Embedding(1, 1), torch.nn.ReLU(), torch.nn.CrossEntropyLoss(), torch.nn.MultiheadAttention(2, 1),
            torch.nn.TransformerEncoderLayer(2, 1, 2), optimizer, torch.optim.SGD(layer.parameters()), torch.optim.LBFGS(layer.parameters()),
            torch.optim.lr_scheduler.StepLR(optimizer, 1), torch.optim.swa_utils.AveragedModel(layer), normal,
            torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2)), torch.distributions.transforms.ExpTransform(),
            data.Dataset(), data.SequentialSampler([0]),
        ]  # fmt: skip
        return [(type(x).__name__, {*getattr(x, "__dict__", {}), *(n for c in type(x).__mro__ for n in vars(c))}) for x in made]

    for (kind, ours), (_, theirs) in zip(names(shim), names(oracle)):
        short = {n for n in ours - theirs if n[0] == "_" and "_" not in n[1:].removesuffix("_")}
        assert short <= {"_cdf"}, (kind, short)


@pytest.mark.parametrize("name", ["batch", "instance", "group", "layer", "plane"])
@pytest.mark.parametrize("shape", [(3, 4, 5, 6), (8, 16, 16, 16), (2, 4, 80, 128)], ids=str)
def test_normalisations_of_all_sizes_are_what_their_formula_says(name, shape):
    channels, wide = shape[1], shape[2:]
    like = {"layer": (shape[-1],), "plane": shape}.get(name, (channels,))
    x, w, b, g = (n(*s) + k for k, s in enumerate((shape, like, like, shape)))
    axes = {"batch": (0, 2, 3), "group": (2, 3, 4), "instance": (2, 3), "layer": (3,), "plane": (0, 1, 2, 3)}[name]
    view, across = (shape[0], 2, channels // 2, *wide) if name == "group" else shape, like if len(like) != 1 else (channels, 1, 1)
    across = like if name == "layer" else across

    def formula(x, w, b):
        x = x.reshape(view)
        d = x - x.mean(axes, keepdims=True)
        return ((d / np.sqrt((d * d).mean(axes, keepdims=True) + 1e-5)).reshape(shape) * w.reshape(across) + b.reshape(across)) * g

    calls = {
        "batch": lambda x, w, b: shim.nn.functional.batch_norm(x, None, None, w, b, True),
        "instance": lambda x, w, b: shim.nn.functional.instance_norm(x, None, None, w, b),
        "group": lambda x, w, b: shim.nn.functional.group_norm(x, 2, w, b),
        "layer": lambda x, w, b: shim.nn.functional.layer_norm(x, like, w, b),
        "plane": lambda x, w, b: shim.nn.functional.layer_norm(x, like, w, b),
    }
    tensors = [shim.tensor(a, dtype=shim.float32, requires_grad=True) for a in (x, w, b)]
    y = calls[name](*tensors)
    y.backward(shim.tensor(g, dtype=shim.float32))
    value, grads = ft.value_and_grad(lambda *args: formula(*args).sum(), (0, 1, 2))(x, w, b)
    np.testing.assert_allclose((y.detach().numpy() * g).sum(), value, rtol=1e-4)
    for t, expected in zip(tensors, grads):
        np.testing.assert_allclose(t.grad.numpy(), expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max() + 1e-5)


@with_oracle
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_of_any_size_are_pytorchs(mode):
    weight, index = n(30, 8).astype(np.float32), rng.integers(0, 30, 50)
    for offsets, padding in (([0, 0, 7, 7, 40, 50, 50], None), ([0, 3], 4), (list(range(50)), 1), ([0], None)):

        def run(torch, offsets=offsets, padding=padding):
            w = torch.tensor(weight, requires_grad=True)
            starts = torch.tensor(offsets)
            y = torch.nn.functional.embedding_bag(torch.tensor(index), w, starts, mode=mode, padding_idx=padding)
            (y * y).sum().backward()
            return y.detach().numpy(), w.grad.numpy()

        for mine, theirs in zip(run(shim), run(oracle)):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("places", [(9,), (7, 5), (20, 3), (3, 4, 5), (12, 12)], ids=str)
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(("dilation", "stride", "padding", "groups"), [(1, 1, 0, 1), (2, 1, 1, 1), (1, 2, 1, 2), (1, 1, 2, 2)])
def test_gradients_of_convolutions_are_their_transposes(places, large, dilation, stride, padding, groups):
    d = len(places)
    kernel = (17, 5, 3)[d - 1] if large else 2
    padding = min(padding, (kernel - 1) * dilation // 2)
    sizes = [(m - 1) * stride + (kernel - 1) * dilation + 1 - 2 * padding for m in places]
    x = shim.tensor(n(3, 4, *sizes), requires_grad=True)
    w = shim.tensor(n(6, 4 // groups, *(kernel,) * d), requires_grad=True)
    y = getattr(shim.nn.functional, f"conv{d}d")(x, w, None, stride, padding, dilation, groups)
    g = n(*y.shape)
    y.backward(shim.tensor(g))
    for t in (x, w):  # linear in each
        np.testing.assert_allclose((t.grad * t).sum().item(), (y.detach().numpy() * g).sum(), rtol=1e-9)
    at = tuple(int(k) // 2 for k in x.shape)
    moved = x.detach().clone()
    moved[at] += 1
    change = getattr(shim.nn.functional, f"conv{d}d")(moved, w.detach(), None, stride, padding, dilation, groups) - y.detach()
    np.testing.assert_allclose(x.grad[at].item(), (change.numpy() * g).sum(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("sizes", "out", "kernel", "stride", "dilation"),
    [
        ((140, 8, 6, 6), 16, (3, 3), 1, 1),
        ((2, 4, 5, 5), 64, (3, 3), 2, 1),
        ((140, 16, 8), 4, (3,), 1, 2),
        ((3, 24, 3, 4, 5), 6, (2, 3, 1), 1, 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("last", [False, True], ids=["in order", "channels last"])
def test_convolutions_of_small_images_are_what_their_formula_says(sizes, out, kernel, stride, dilation, last):
    d = len(kernel)
    x, w, b = n(*sizes), n(out, sizes[1], *kernel), n(out)

    def formula(x, w, b):
        x = np.pad(x, ((0, 0), (0, 0), *((1, 1),) * d))
        places = [(m - 1 - (k - 1) * dilation) // stride + 1 for m, k in zip(x.shape[2:], kernel)]
        y = b.reshape(-1, *(1,) * d)
        for at in np.ndindex(*kernel):
            span = tuple(slice(k * dilation, k * dilation + stride * (m - 1) + 1, stride) for k, m in zip(at, places))
            y = y + np.einsum("nc...,oc->no...", x[(slice(None), slice(None), *span)], w[(..., *at)])
        return y

    given = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1) if last else x
    tensors = [shim.from_numpy(np.array(a, copy=True, order="K")).requires_grad_() for a in (given, w, b)]
    y = getattr(shim.nn.functional, f"conv{d}d")(*tensors, stride, 1, dilation)
    expected, pull = ft.vjp(formula, x, w, b)
    np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-9, atol=1e-9)
    g = n(*expected.shape)
    y.backward(shim.tensor(g))
    for t, gradient in zip(tensors, pull(g)):
        np.testing.assert_allclose(t.grad.numpy(), gradient, rtol=1e-9, atol=1e-9)
