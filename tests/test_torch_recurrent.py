"""Recurrent layers of `functrace.torch`: the loops over plain arrays against the steps they stand for, and against PyTorch where it is."""

import functools
import itertools
import operator
import sys

import numpy as np
import pytest

import functrace as ft
import functrace.torch as shim
from functrace.torch.nn import _cells

try:
    import torch as oracle
except ImportError:
    oracle = None
with_oracle = pytest.mark.skipif(
    oracle is None or not oracle.__version__.startswith("2.13"), reason="PyTorch 2.13, the oracle, is not installed"
)
LAYERS, CELLS = ("RNN", "LSTM", "GRU"), ("RNNCell", "LSTMCell", "GRUCell")
SIZES = {"one step": [3], "one each": [1, 1, 1, 1], "equal": [3] * 4, "packed": [4, 4, 2, 1], "nobody": [0, 0]}


def n(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def first(out):
    return out[0] if isinstance(out, tuple) else out


def arguments(mode, bias, proj, batch, rows):
    gates, state = _cells.MODES[mode][0], proj or 4
    shapes = [(rows, 3), (4 * gates, 3), (4 * gates, state), *((4 * gates,),) * 2, (proj, 4), (batch, state)]
    full = [n(*shape, seed=k) / 2 for k, shape in enumerate(shapes)] + [n(batch, 4, seed=9)] * (mode == "LSTM")
    return [a if (bias or k not in (3, 4)) and (proj or k != 5) else None for k, a in enumerate(full)]


CASES = [
    *((mode, sizes, reverse, True, 0) for mode in _cells.MODES for sizes in SIZES for reverse in (False, True)),
    *((mode, "packed", False, False, 0) for mode in _cells.MODES),
    *(("LSTM", sizes, reverse, True, 2) for sizes in ("equal", "packed") for reverse in (False, True)),
]


@pytest.mark.parametrize("mode,sizes,reverse,bias,proj", CASES)
def test_the_loop_is_what_the_steps_are(mode, sizes, reverse, bias, proj):
    sizes = SIZES[sizes]
    given = arguments(mode, bias, proj, sizes[0], sum(sizes))
    places = [k for k, a in enumerate(given) if a is not None]
    step, loop = _cells.MODES[mode][1:]

    def steps(*xs):
        full = list(given)
        for k, x in zip(places, xs):
            full[k] = x
        return tuple(_cells._composed(step, *full, tuple(sizes), reverse))

    want, pullback = ft.vjp(steps, *(given[k] for k in places))
    answers, pull = _cells._swept(steps, given, _cells._spans(sizes, reverse), places, loop)
    gradients = [n(*a.shape, seed=20 + k) for k, a in enumerate(want)]
    untouched = [g.copy() for g in gradients]
    for _ in range(2):  # the pullback can be used again
        for got, wanted in zip([*answers, *pull(gradients)], [*want, *pullback(tuple(gradients))], strict=True):
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12)
    for g, before in zip(gradients, untouched):
        np.testing.assert_array_equal(g, before)


def options():
    for kind, layers, both, first_axis, bias in itertools.product(LAYERS, (1, 2), (False, True), (False, True), (True, False)):
        yield kind, {"num_layers": layers, "bidirectional": both, "batch_first": first_axis, "bias": bias}
    for both in (False, True):
        yield "RNN", {"nonlinearity": "relu", "bidirectional": both}
        yield "LSTM", {"proj_size": 2, "num_layers": 2, "bidirectional": both}


def trained(torch, kind, kwargs, given, packed):
    """Results, gradients, and gradients of the sum of their squares."""
    net = getattr(torch.nn, kind)(3, 4, **kwargs).double()
    with torch.no_grad():
        for k, p in enumerate(net.parameters()):
            p.copy_(torch.tensor(n(*p.shape, seed=k) / 2))
    x = torch.tensor(n(*((2, 5, 3) if kwargs.get("batch_first") else (5, 2, 3)), seed=50), requires_grad=True)
    leaves, hx = [x, *net.parameters()], None
    if given:
        state = [s.detach().clone() for s in (net(x)[1] if kind == "LSTM" else (net(x)[1],))]
        hx = [(s + 0.1).requires_grad_() for s in state]
        leaves += hx
        hx = tuple(hx) if kind == "LSTM" else hx[0]
    rnn = torch.nn.utils.rnn
    first_axis = kwargs.get("batch_first", False)
    out, last = net(rnn.pack_padded_sequence(x, [3, 5], first_axis, enforce_sorted=False) if packed else x, hx)
    outs = [rnn.pad_packed_sequence(out, first_axis)[0] if packed else out, *(last if kind == "LSTM" else (last,))]
    once = torch.autograd.grad(sum((t**3).sum() for t in outs), leaves, create_graph=True)
    twice = torch.autograd.grad(sum((g * g).sum() for g in once), leaves)
    return [t.detach().numpy() for t in (*outs, *once, *twice)]


@with_oracle
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind,kwargs", list(options()))
def test_layers_and_their_two_derivatives_are_pytorchs(kind, kwargs, packed):
    given = kwargs.get("num_layers") == 2
    for got, want in zip(*(trained(torch, kind, kwargs, given, packed) for torch in (shim, oracle)), strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


def nodes(torch):
    rnn = torch.nn.utils.rnn
    packed = rnn.pack_sequence([torch.ones(3, 3), torch.ones(2, 3)])
    found = []
    for kind, kwargs in (
        *((k, {}) for k in LAYERS),
        *((k, {"batch_first": True}) for k in LAYERS),
        ("LSTM", {"proj_size": 2}),
        ("LSTM", {"bias": False}),
        ("LSTM", {"dtype": torch.float64}),
        *((k, {"bidirectional": True}) for k in LAYERS),
    ):
        x = torch.ones(2, 1, 3, dtype=kwargs.get("dtype"))
        for given in (x, x[0]) if "dtype" in kwargs else (x, x[0], packed):
            out, last = getattr(torch.nn, kind)(3, 4, **kwargs)(given)
            out = out.data if given is packed else out
            found.append([t.grad_fn.name() for t in (out, *(last if kind == "LSTM" else (last,)))])
    for kind in CELLS:
        for x in (torch.ones(2, 3), torch.ones(3)):
            out = getattr(torch.nn, kind)(3, 4)(x)
            found.append([t.grad_fn.name() for t in (out if kind == "LSTMCell" else (out,))])
    return found


@with_oracle
@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_results_print_pytorchs_nodes():
    assert nodes(shim) == nodes(oracle)


def made(kind):
    shim.manual_seed(3)
    net = getattr(shim.nn, kind)(3, 4).double()
    return net, shim.tensor(n(*((5, 3) if kind in CELLS else (4, 5, 3)))), 0 if kind in CELLS else 1


@pytest.mark.parametrize("kind", LAYERS + CELLS)
def test_examples_of_a_batch_and_models_of_an_ensemble_are_mapped(kind):
    net, x, axis = made(kind)
    weights = {name: p.detach() for name, p in net.named_parameters()}

    def loss(weights, x):
        return first(shim.func.functional_call(net, weights, (x.unsqueeze(axis),))).pow(2).sum()

    each = shim.func.vmap(shim.func.grad(loss), in_dims=(None, axis))(weights, x)
    for k in range(5):
        alone = shim.func.grad(loss)(weights, x.select(axis, k))
        for name in weights:
            np.testing.assert_allclose(each[name][k].numpy(), alone[name].numpy(), atol=1e-12)
    doubled = {name: shim.stack([w, w * 2]) for name, w in weights.items()}
    both = shim.func.vmap(lambda w: first(shim.func.functional_call(net, w, (x,))))(doubled)
    for k in range(2):
        alone = first(shim.func.functional_call(net, {name: w[k] for name, w in doubled.items()}, (x,)))
        np.testing.assert_allclose(both[k].numpy(), alone.numpy(), atol=1e-12)


@pytest.mark.parametrize("kind", LAYERS + CELLS)
def test_second_derivatives_forward_mode_and_batches_of_gradients(kind):
    net, x, _ = made(kind)
    x = (x[:2] if kind in CELLS else x[:2, :2]).requires_grad_()
    assert shim.autograd.gradcheck(lambda x: first(net(x)), x)
    assert shim.autograd.gradgradcheck(lambda x: first(net(x)), x)
    _, pushed = shim.func.jvp(lambda x: first(net(x)), (x.detach(),), (shim.ones_like(x),))
    jacobian = shim.func.jacrev(lambda x: first(net(x)))(x.detach())
    np.testing.assert_allclose(pushed.numpy(), jacobian.sum((-1, -2, -3)[: x.ndim]).numpy(), atol=1e-12)
    out = first(net(x))
    rows = shim.stack([shim.ones_like(out), out.detach()])
    (batch,) = shim.autograd.grad(out, x, rows, is_grads_batched=True, retain_graph=True)
    for k in range(2):
        np.testing.assert_allclose(batch[k].numpy(), shim.autograd.grad(out, x, rows[k], retain_graph=True)[0].numpy(), atol=1e-12)


@pytest.mark.parametrize("kind", LAYERS + CELLS)
def test_what_is_done_to_results_does_not_reach_the_way_back(kind):
    net, x, _ = made(kind)
    out = first(net(x))
    want = shim.autograd.grad(out.sum(), list(net.parameters()), retain_graph=True)
    again = first(net(x))
    kept = again * 1
    with shim.no_grad():
        again.mul_(0)
    for got, g in zip(shim.autograd.grad(kept.sum(), list(net.parameters())), want):
        np.testing.assert_array_equal(got.numpy(), g.numpy())
    with shim.no_grad():
        net.get_parameter("weight_hh" if kind in CELLS else "weight_hh_l0").mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
    with shim.no_grad():
        a, b = (net(x), net(x)) if kind in CELLS else (net(x)[0], net(x)[1])
    first(a).mul_(0)
    assert not np.any(first(a).numpy()) and np.all(first(b).numpy())


@pytest.mark.parametrize("kind", LAYERS + CELLS)
def test_what_hooks_keep_elsewhere_comes_back(kind):
    net, x, _ = made(kind)
    first(net(x)).pow(2).sum().backward()
    want = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    with shim.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(force=True).copy(), shim.tensor):
        out = first(net(x))
    out.pow(2).sum().backward()
    for p, g in zip(net.parameters(), want):
        np.testing.assert_allclose(p.grad.numpy(), g.numpy(), atol=1e-12)


def test_numbers_that_run_over_are_no_warning():
    for kind in LAYERS:
        net = getattr(shim.nn, kind)(1, 1)
        with shim.no_grad():
            for p in net.parameters():
                p.fill_(-500.0)
        out, _ = net(shim.ones(3, 1, 1))
        out.sum().backward()
        assert shim.isfinite(out).all() and all(shim.isfinite(p.grad).all() for p in net.parameters())


def wrong(torch, make):
    try:
        return str(make(torch))
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


@with_oracle
@pytest.mark.parametrize(
    "make",
    [
        lambda torch: torch.nn.LSTM(3, 2)(torch.ones(2, 1, 3, dtype=torch.float64)),
        lambda torch: torch.nn.GRU(3, 2)(torch.ones(2, 1, 3, dtype=torch.int64)),
        lambda torch: torch.nn.GRU(3, 2)(torch.ones(2, 1, 3), torch.zeros(1, 1, 2, dtype=torch.float64)),
        lambda torch: torch.nn.RNN(3, 2)(torch.ones(0, 1, 3)),
        lambda torch: torch.nn.LSTMCell(3, 2)(torch.ones(1, 3, dtype=torch.float64)),
        lambda torch: torch.nn.LSTM(3, 2)(torch.ones(2, 0, 3))[0].shape,
    ],
)
def test_mistakes_are_named_as_in_pytorch(make):
    assert wrong(shim, make) == wrong(oracle, make)


def test_subclasses_of_tensor_see_layers_and_cells():
    class Noted(shim.Tensor):
        seen = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = shim.ones(2, 1, 3).as_subclass(Noted)
    assert type(shim.nn.GRU(3, 2)(x)[0]) is Noted and "rnn" in Noted.seen
    assert type(shim.nn.GRUCell(3, 2)(x[0])) is Noted and "rnn_cell" in Noted.seen
    for y in (shim.ones(2), x[0, 0]):  # from now on all functions look for such classes; no error shows the look
        with pytest.raises(RuntimeError, match="must match the size") as raised:
            shim.add(y, shim.ones(4))
        if sys.version_info >= (3, 11):  # 3.10 keeps the frame that cuts the others off
            assert {str(entry.path) for entry in raised.traceback} == {__file__}


@with_oracle
def test_subclasses_of_tensor_see_what_writes_to_them():
    def seen(torch):
        class Noted(torch.Tensor):
            names = []

            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                cls.names.append(func.__name__)
                return super().__torch_function__(func, types, args, kwargs or {})

        x = torch.ones(3).as_subclass(Noted)
        x.sin_().asin_().add_(1).mul_(2).multiply_(2).div_(2).relu_().uniform_().unsqueeze_(0)
        x -= 1
        x %= 2
        x //= 2
        x **= 2
        x.requires_grad_()
        return Noted.names

    assert seen(shim) == seen(oracle)


@with_oracle
@pytest.mark.parametrize("name", ["distributions.Normal", "distributions.HalfNormal", "distributions.NegativeBinomial",
                                  "distributions.Bernoulli", "nn.TransformerEncoderLayer", "nn.TransformerDecoderLayer"])  # fmt: skip
def test_complaints_about_arguments_name_the_class_that_was_called(name):
    def told(torch):
        with pytest.raises(TypeError) as raised:
            operator.attrgetter(name)(torch)(bogus=1)
        return str(raised.value)

    assert told(shim) == told(oracle)


def test_a_gradient_that_several_share_is_not_added_to():
    x, y = shim.ones(3, requires_grad=True), shim.ones(3, requires_grad=True)
    a, b = x * 2, y * 3
    a.retain_grad()
    b.retain_grad()
    total = functools.reduce(shim.add, [a + b, a, a, a])  # one array reaches a and b, then others a
    total.backward(shim.ones(3), retain_graph=True)
    assert [t.grad.tolist() for t in (a, b, x, y)] == [[4.0] * 3, [1.0] * 3, [8.0] * 3, [3.0] * 3]
    total.backward(shim.ones(3))
    assert [t.grad.tolist() for t in (a, b, x, y)] == [[8.0] * 3, [2.0] * 3, [16.0] * 3, [6.0] * 3]
