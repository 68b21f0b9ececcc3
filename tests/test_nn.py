"""`functrace.nn`: values and gradients against PyTorch's and SciPy's, at ordinary and at extreme arguments; initialisers by statistics."""

import numpy as np
import pytest
from scipy import special

import functrace as ft
from functrace import errors, nn, random
from tests.helpers import differences, here

POINTS = np.array([-1e4, -100.0, -20.0, -3.0, -1.0, -1e-3, 0.0, 1e-3, 0.5, 2.0, 20.0, 100.0, 1e4])
KEY = random.key(0)

ACTIVATIONS = {
    "relu": (nn.relu, lambda F, x: F.relu(x)),
    "leaky_relu": (nn.leaky_relu, lambda F, x: F.leaky_relu(x)),
    "elu": (nn.elu, lambda F, x: F.elu(x)),
    "celu": (lambda x: nn.celu(x, 2.0), lambda F, x: F.celu(x, 2.0)),
    "selu": (nn.selu, lambda F, x: F.selu(x)),
    "hard_tanh": (nn.hard_tanh, lambda F, x: F.hardtanh(x)),
    "relu6": (nn.relu6, lambda F, x: F.relu6(x)),
    "sigmoid": (nn.sigmoid, lambda F, x: x.sigmoid()),
    "log_sigmoid": (nn.log_sigmoid, lambda F, x: F.logsigmoid(x)),
    "softplus": (nn.softplus, lambda F, x: F.softplus(x, threshold=1e9)),
    "silu": (nn.silu, lambda F, x: F.silu(x)),
    "gelu": (nn.gelu, lambda F, x: F.gelu(x, approximate="tanh")),
    "gelu, exact": (lambda x: nn.gelu(x, approximate=False), lambda F, x: F.gelu(x)),
}
SMOOTH = {"sigmoid", "log_sigmoid", "softplus", "silu", "gelu", "gelu, exact"}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_pytorchs(name):
    torch = pytest.importorskip("torch", reason="PyTorch is an oracle, not needed otherwise")
    ours, theirs = ACTIVATIONS[name]
    points = POINTS[np.abs(POINTS) <= 100] if name == "softplus" else POINTS  # PyTorch's overflows
    x = torch.tensor(points.tolist(), dtype=torch.float64, requires_grad=True)
    want = theirs(torch.nn.functional, x)
    want.sum().backward()
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_allclose(ours(points), want.detach().numpy(), rtol=1e-12, atol=1e-40)
        np.testing.assert_allclose(ft.vmap(ft.grad(ours))(points), x.grad.numpy(), rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_activations_keep_the_dtype_and_are_finite_to_second_order(name, dtype):
    f, _ = ACTIVATIONS[name]
    points = np.clip(POINTS, -6e4, 6e4).astype(dtype)
    y = f(points)
    assert y.dtype == dtype and np.isfinite(y).all()
    assert f(points[0]).dtype == dtype and f(points[0]).shape == ()
    for order in (ft.grad(f), ft.grad(ft.grad(f))):
        assert np.isfinite(ft.vmap(order)(points)).all()
    with np.errstate(invalid="ignore"):  # np.logaddexp warns of a NaN that comes in
        assert np.isnan(f(dtype(np.nan)))
        assert np.isnan(ft.jit(f)(np.full(2, np.nan, dtype))).all()
    assert isinstance(f(2), np.floating)
    if name in SMOOTH and dtype is np.float64:
        middle = points[np.abs(points) < 50]
        np.testing.assert_allclose(ft.grad(lambda x: f(x).sum())(middle), differences(lambda x: f(x).sum(), middle, 1e-3), atol=1e-8)


DIFFERENTIABLE = {name: f for name, (f, _) in ACTIVATIONS.items()} | {
    "softmax": nn.softmax,
    "log_softmax of columns": lambda x: nn.log_softmax(x, 0),
    "logsumexp": nn.logsumexp,
    "logsumexp of rows": lambda x: nn.logsumexp(x, -1),
    "glu": nn.glu,
}
SUMMED = {"softmax", "log_softmax of columns", "logsumexp", "logsumexp of rows"}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_to_second_order_and_compiled(name, rng):
    f = DIFFERENTIABLE[name]
    x = rng.normal(size=(2, 4))
    x[np.abs(x) < 0.05] = 0.3
    ft.check_grads(f, x, order=2)
    for dtype in (np.float64, np.float32):
        x = rng.normal(size=(30, 80)).astype(dtype)
        square = lambda x: np.sum(f(x) ** 2)
        for g in (f, ft.vmap(f) if "columns" not in name else f, ft.grad(square), lambda x, s=square: ft.hvp(s, (x,), (x,))):
            compiled = ft.jit(g)
            compiled(x)
            want = g(x)
            rounding = 8 * np.finfo(dtype).eps * np.abs(want).max() if name in SUMMED else 0  # a program's sums are equal to rounding
            assert np.abs(compiled(x) - want).max() <= rounding


def test_slopes_of_activations_are_arguments_too(rng):
    x = rng.normal(size=(2, 4))
    for f in (nn.leaky_relu, nn.elu, nn.celu):
        ft.check_grads(f, x, 0.7, order=2)
        np.testing.assert_array_equal(ft.vmap(f, (None, 0))(x, np.array([0.1, 0.2])), [f(x, 0.1), f(x, 0.2)])


def test_third_derivatives_where_the_functions_are_composed_of_kinks():
    third = ft.grad(ft.grad(ft.grad(nn.sigmoid)))
    np.testing.assert_allclose(third(0.0), -1 / 8)
    np.testing.assert_allclose(ft.grad(third)(1.0), (third(1.001) - third(0.999)) / 0.002, rtol=1e-5)


def test_large_logits_of_float32_lose_nothing():
    x = np.float32([10000.0, 10001.0, 10003.0])
    want = special.log_softmax(x.astype(np.float64))
    np.testing.assert_allclose(nn.log_softmax(x), want, rtol=1e-6)
    np.testing.assert_allclose(ft.grad(nn.logsumexp)(x), np.exp(want), rtol=1e-6)


def test_gates_and_classes():
    assert nn.swish is nn.silu
    x = np.arange(-6.0, 6.0).reshape(2, 6)
    for axis, values, gates in ((-1, x[:, :3], x[:, 3:]), (0, x[:1], x[1:])):
        np.testing.assert_allclose(nn.glu(x, axis), values * special.expit(gates))
    for bad in (x[:, :3], np.array(1.0)):
        with pytest.raises(ValueError, match=f"even length, got an array of shape .*\n.*{here(1)}"):
            nn.glu(bad)
    labels = np.array([[0, 2], [1, 3]])
    rows = nn.one_hot(labels, 3)
    assert rows.dtype == float and rows[0, 1].tolist() == [0, 0, 1] and not rows[1, 1].any()
    for axis in (0, 1, -2):
        np.testing.assert_array_equal(nn.one_hot(labels, 3, dtype=np.float32, axis=axis), np.moveaxis(rows, -1, axis))
    assert nn.one_hot(1, 2).tolist() == [0, 1]
    np.testing.assert_array_equal(ft.vmap(ft.jit(lambda k: nn.one_hot(k, 3)))(labels), rows)
    with pytest.raises(ValueError, match="integers, got float64"):
        nn.one_hot(labels * 1.0, 3)


def test_logsumexp_and_softmax_are_scipys():
    rows = np.array([[1.0, 2.0, 3.0], [1000.0, 1000.0, -1000.0], [-np.inf, 0.0, -1e300], [-1e300, -1e300, -1e300], [0.0, -np.inf, -np.inf]])
    for axis in (-1, 0, None, (0, 1)):
        np.testing.assert_allclose(nn.logsumexp(rows, axis), special.logsumexp(rows, axis=axis))
        assert nn.logsumexp(rows, axis, keepdims=True).shape == special.logsumexp(rows, axis=axis, keepdims=True).shape
    np.testing.assert_allclose(nn.softmax(rows), special.softmax(rows, axis=-1))
    np.testing.assert_allclose(nn.softmax(rows[:1], axis=0), special.softmax(rows[:1], axis=0))
    np.testing.assert_allclose(nn.log_softmax(rows[:2]), special.log_softmax(rows[:2], axis=-1))
    np.testing.assert_allclose(ft.vmap(ft.grad(nn.logsumexp))(rows), special.softmax(rows, axis=-1), atol=1e-15)
    assert isinstance(nn.logsumexp(rows), np.float64)
    assert nn.logsumexp(np.array([np.inf, 0.0])) == np.inf


def test_the_logsumexp_of_nothing():
    empty = np.full(3, -np.inf)
    assert nn.logsumexp(empty) == -np.inf
    assert np.array_equal(ft.grad(nn.logsumexp)(empty), np.zeros(3))
    hessian = ft.hessian(nn.logsumexp)(np.array([0.0, 1000.0, -np.inf]))
    assert np.array_equal(hessian, np.zeros((3, 3)))


def test_cross_entropy_is_pytorchs(rng):
    torch = pytest.importorskip("torch", reason="PyTorch is an oracle, not needed otherwise")
    logits, labels = rng.normal(size=(6, 4)) * [1, 10, 100, 1000], rng.integers(0, 4, 6)
    z = torch.tensor(logits.tolist(), dtype=torch.float64, requires_grad=True)
    want = torch.nn.functional.cross_entropy(z, torch.tensor(labels.tolist()), reduction="none")
    want.sum().backward()
    np.testing.assert_allclose(nn.softmax_cross_entropy(logits, labels), want.detach().numpy(), rtol=1e-12, atol=1e-12)
    got = ft.grad(lambda z: nn.softmax_cross_entropy(z, labels).sum())(logits)
    np.testing.assert_allclose(got, z.grad.numpy(), rtol=1e-10, atol=1e-14)
    one_hot = np.eye(4)[labels]
    np.testing.assert_allclose(nn.softmax_cross_entropy(logits, one_hot), nn.softmax_cross_entropy(logits, labels), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(nn.softmax_cross_entropy(logits.T, labels, axis=0), nn.softmax_cross_entropy(logits, labels))
    each = ft.vmap(nn.softmax_cross_entropy)(logits, labels)
    np.testing.assert_allclose(each, nn.softmax_cross_entropy(logits, labels))
    assert np.array_equal(ft.jit(nn.softmax_cross_entropy)(logits, labels), nn.softmax_cross_entropy(logits, labels))
    assert nn.softmax_cross_entropy(logits.astype(np.float32), labels).dtype == np.float32


def test_an_impossible_class_costs_infinity_and_one_of_no_weight_nothing():
    logits = np.array([0.0, -np.inf])
    assert nn.softmax_cross_entropy(logits, 1) == np.inf
    assert nn.softmax_cross_entropy(logits, np.array([1.0, 0.0])) == 0.0
    assert np.array_equal(ft.grad(lambda z: nn.softmax_cross_entropy(z, np.array([1.0, 0.0])))(logits), [0.0, 0.0])


def test_binary_cross_entropy_is_pytorchs():
    torch = pytest.importorskip("torch", reason="PyTorch is an oracle, not needed otherwise")
    for label in (0.0, 0.3, 1.0):
        z = torch.tensor(POINTS.tolist(), dtype=torch.float64, requires_grad=True)
        want = torch.nn.functional.binary_cross_entropy_with_logits(z, torch.full_like(z, label), reduction="none")
        want.sum().backward()
        np.testing.assert_allclose(nn.sigmoid_binary_cross_entropy(POINTS, label), want.detach().numpy(), rtol=1e-12, atol=1e-15)
        got = ft.vmap(ft.grad(lambda z, y=label: nn.sigmoid_binary_cross_entropy(z, y)))(POINTS)
        np.testing.assert_allclose(got, z.grad.numpy(), rtol=1e-9, atol=1e-15)


def test_tails_keep_their_relative_precision():
    x = np.array([20.0, 40.0, 300.0])
    e = np.exp(-x)
    np.testing.assert_allclose(nn.sigmoid(-x), e / (1 + e), rtol=1e-13)
    np.testing.assert_allclose(nn.softplus(-x), np.log1p(e), rtol=1e-13)
    np.testing.assert_allclose(nn.sigmoid_binary_cross_entropy(x, 1.0), np.log1p(e), rtol=1e-13)
    for sign in (-1, 1):
        np.testing.assert_allclose(ft.vmap(ft.grad(nn.sigmoid))(sign * x), e / (1 + e) ** 2, rtol=1e-13)


def test_other_losses_are_pytorchs(rng):
    torch = pytest.importorskip("torch", reason="PyTorch is an oracle, not needed otherwise")
    F = torch.nn.functional
    a, b = rng.normal(size=(5, 3)) * 3, rng.normal(size=(5, 3))
    p, q = special.softmax(a, axis=1), special.softmax(b, axis=1)
    p[0] = [1.0, 0.0, 0.0]
    ta, tb, tp, tq = (torch.tensor(x.tolist(), dtype=torch.float64) for x in (a, b, p, np.log(q)))
    np.testing.assert_allclose(nn.mse(a, b), F.mse_loss(ta, tb).item())
    np.testing.assert_allclose(nn.huber(a, b, 0.7), F.huber_loss(ta, tb, reduction="none", delta=0.7).numpy())
    np.testing.assert_allclose(nn.kl_divergence(np.log(q), p), F.kl_div(tq, tp, reduction="none").sum(dim=1).numpy())
    near = np.array([-0.7, -0.2, 0.0, 0.7, 5.0])
    np.testing.assert_allclose(ft.grad(lambda r: nn.huber(r, np.zeros(5), 0.7).sum())(near), np.clip(near, -0.7, 0.7))
    assert np.isfinite(ft.grad(lambda p: nn.kl_divergence(np.log(q), p).sum())(p)).all()


def test_mistakes_are_named():
    with pytest.raises(ValueError, match=r"mse: predictions of shape \(3, 1\) and targets of shape \(3,\)(?s:.)*reshape") as info:
        nn.mse(np.zeros((3, 1)), np.zeros(3))
    assert here(-1) in str(info.value)
    for labels in ([0, 3], [-1, 0]):
        with pytest.raises(ValueError, match="labels must be from 0 to 2"):
            nn.softmax_cross_entropy(np.zeros((2, 3)), np.array(labels))
    with pytest.raises(ValueError, match=r"integers of shape \(2,\) or probabilities of shape \(2, 3\), got int64\[3\]"):
        nn.softmax_cross_entropy(np.zeros((2, 3)), np.array([0, 1, 2]))
    for call in (lambda: nn.softmax_cross_entropy(np.zeros((2, 3)), np.zeros(2, int), axis=2), lambda: nn.glu(np.zeros((2, 2)), 2)):
        with pytest.raises(np.exceptions.AxisError, match=r"nn\.\w+: axis 2 is out of bounds for array of dimension 2"):
            call()
    with pytest.raises(ValueError, match=r"glorot_normal: a weight has an axis.*got \(3,\)(?s:.)*biases"):
        nn.glorot_normal(KEY, (3,))
    with pytest.raises(errors.InputTypeError, match="one key"):
        nn.he_normal(0, (3, 3))


INITIALISERS = {
    "glorot_uniform": (nn.glorot_uniform, lambda i, o: 2 / (i + o)),
    "glorot_normal": (nn.glorot_normal, lambda i, o: 2 / (i + o)),
    "he_uniform": (nn.he_uniform, lambda i, o: 2 / i),
    "he_normal": (nn.he_normal, lambda i, o: 2 / i),
    "lecun_uniform": (nn.lecun_uniform, lambda i, o: 1 / i),
    "lecun_normal": (nn.lecun_normal, lambda i, o: 1 / i),
}


@pytest.mark.parametrize("name", INITIALISERS)
def test_initialisers_have_their_variance(name):
    make, variance = INITIALISERS[name]
    w = make(KEY, (200, 100))
    np.testing.assert_allclose(w.var(), variance(200, 100), rtol=0.05)
    assert abs(w.mean()) < 3 * w.std() / 20000**0.5
    if "uniform" in name:
        np.testing.assert_allclose(abs(w).max(), (3 * variance(200, 100)) ** 0.5, rtol=1e-3)
    np.testing.assert_allclose(make(KEY, (3, 3, 40, 50)).var(), variance(360, 450), rtol=0.05)
    np.testing.assert_allclose(make(KEY, (100, 200), in_axis=1, out_axis=0).var(), variance(200, 100), rtol=0.05)
    assert make(KEY, (2, 3), np.float32).dtype == np.float32 and make(KEY, (0, 3)).shape == (0, 3)
    keys = random.split(KEY, 3)
    assert np.array_equal(ft.vmap(lambda k: make(k, (4, 2)))(keys)[1], make(keys[1], (4, 2)))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (2, 3, 4), (1, 1)])
def test_orthogonal_matrices(shape):
    q = nn.orthogonal(KEY, shape, scale=2.0)
    assert q.shape == shape
    flat = q.reshape(-1, shape[-1]) / 2
    gram = flat.T @ flat if flat.shape[0] >= flat.shape[1] else flat @ flat.T
    np.testing.assert_allclose(gram, np.eye(min(flat.shape)), atol=1e-12)
    assert nn.orthogonal(KEY, shape, np.float32).dtype == np.float32


def test_orthogonal_matrices_have_no_preferred_sign():
    signs = [np.sign(nn.orthogonal(k, (3, 3))[0, 0]) for k in random.split(KEY, 400)]
    assert abs(np.mean(signs)) < 0.2


def test_the_tail_of_gelu_keeps_its_digits():
    x = np.array([-4.0, -6.0, -9.0, -11.0])
    u = np.sqrt(2 / np.pi) * x * (1 + 0.044715 * x * x)
    gate, slope = 1 / (1 + np.exp(-2 * u)), np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x * x)
    np.testing.assert_allclose(nn.gelu(x), x * gate, rtol=1e-12)
    np.testing.assert_allclose(ft.grad(lambda x: nn.gelu(x).sum())(x), gate + 2 * x * gate * (1 - gate) * slope, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_infinities_share_logsumexp_evenly():
    x = np.array([[1.0, np.inf], [np.inf, np.inf], [1.0, 1.0]])
    want = [[0.0, 1.0], [0.5, 0.5], [0.5, 0.5]]
    for f in (lambda x: nn.logsumexp(x, axis=1).sum(), lambda x: np.logaddexp.reduce(x, axis=1).sum()):
        np.testing.assert_array_equal(ft.grad(f)(x), want)
    g = ft.jit(ft.grad(nn.logsumexp))
    np.testing.assert_array_equal([g(x[2]), g(x[0])], [want[2], want[0]])
    assert ft.jvp(nn.logsumexp, (x[0],), (np.array([5.0, 3.0]),))[1] == 3
