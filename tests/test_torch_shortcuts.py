"""The shorter ways that common calls of functrace.torch take give what the long ones give."""

import numpy as np
import pytest

import functrace.torch as torch
from functrace.ops.choice import chosen
from functrace.torch import _along, _engine, _moves, _nodes
from functrace.torch._contact import vjp
from functrace.torch.nn import _attention, _compositions


@pytest.mark.parametrize("call", [lambda x: torch.einsum("ij,kj->ik", x, x), lambda x: x.sin() @ x, lambda x: torch.stack([x, x])])
def test_calls_make_no_class_of_nodes_each(call):
    x = torch.ones(3, 3, requires_grad=True)
    call(x)
    before = len(_engine._classes)
    call(x).sum().backward()
    made = len(_engine._classes)
    call(x).sum().backward()
    assert len(_engine._classes) == made >= before


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("kind", ["distinct", "ties", "nan"])
def test_topk_of_long_lines_is_the_start_of_the_order(kind, largest):
    a = np.random.default_rng(0).normal(size=(9, 700)).astype(np.float32)
    a = np.round(a, 1) if kind == "ties" else np.where(a > 2.5, np.nan, a) if kind == "nan" else a
    for k, x in ((1, a), (0, np.ascontiguousarray(a.T))):
        found = torch.from_numpy(x).topk(5, k, largest)
        for y, z in zip(found, _along.put_in_order(x, k, largest)):
            np.testing.assert_array_equal(y.numpy(), np.take(z, range(5), k))


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("kind", ["distinct", "ties", "nan", "integers"])
def test_many_elements_are_put_in_order_as_few_are(kind, descending):
    a = np.random.default_rng(0).normal(size=(70, 60)).astype(np.float32)
    a = np.round(a, 1) * -1 if kind != "distinct" else a
    a = np.where(a > 1.5, np.nan, a) if kind == "nan" else (a * 10).astype(int) if kind == "integers" else a
    for x in (a, a.T):
        for k in (0, 1):
            values, order = _along.put_in_order(x, k, descending)
            lines, found = np.moveaxis(x, k, -1), np.moveaxis(order, k, -1)
            for line, want in zip(lines, found):
                np.testing.assert_array_equal(_along.put_in_order(line, 0, descending)[1], want)
            np.testing.assert_array_equal(values, np.take_along_axis(x, order, k))


@pytest.mark.parametrize("k", [0, 1, 2])
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_places_are_counted_through_an_array_as_an_index_names_them(k, dtype):
    rng = np.random.default_rng(0)
    x, index = rng.normal(size=(20, 21, 22)), rng.integers(0, 20, (18, 19, 20)).astype(dtype)
    key = _along.key_along(index, k)
    assert index.size >= _along.MANY
    np.testing.assert_array_equal(_along.taken(x, index, k), x[key])
    g, want = rng.normal(size=index.shape), np.zeros(x.shape)
    np.add.at(want, key, g)
    np.testing.assert_allclose(_along.untaken(g, None, x, index, k), want, atol=1e-12)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("widths", [(2, 1), (1, 0, 2, 3), (-1, 2, 1, -2), (0, 0, 0, 2)])
def test_borders_are_those_of_an_index_and_go_back_to_where_they_came_from(mode, widths):
    x = torch.arange(60.0, dtype=torch.float64).reshape(3, 4, 5).requires_grad_()
    key = []
    for n, lo, hi in zip(x.shape[::-1], widths[::2], widths[1::2]):
        k = np.arange(-lo, n + hi)
        if mode == "circular":
            start, end = max(-lo, 0), n - max(-hi, 0)  # what is cut off is not seen on the other side
            key.insert(0, start + (k - start) % (end - start))
        else:
            key.insert(0, np.clip(k, 0, n - 1) if mode == "replicate" else n - 1 - abs(n - 1 - abs(k)))
    out = torch.nn.functional.pad(x, widths, mode)
    want = x[(..., *(torch.from_numpy(i).reshape(-1, *(1,) * (len(key) - 1 - j)) for j, i in enumerate(key)))]
    assert torch.equal(out, want)
    weights = torch.randn(out.shape, dtype=torch.float64).requires_grad_()
    (found,) = torch.autograd.grad(out, x, weights, create_graph=True)
    assert torch.allclose(found, torch.autograd.grad(want, x, weights)[0])
    (back,) = torch.autograd.grad(found, weights, x.detach())
    assert torch.equal(back, out)


def test_what_padding_would_show_of_nothing_is_refused():
    for mode, text in (("replicate", "non-zero dimensions"), ("circular", "wrapping around more than once")):
        with pytest.raises(RuntimeError, match=text):
            torch.nn.functional.pad(torch.zeros(2, 0), (2, 2), mode)
    with pytest.raises(RuntimeError, match="#6.*at dimension 1"):
        torch.nn.functional.pad(torch.zeros(1, 2, 3), (1, 1, 2, 0), "reflect")
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        torch.nn.functional.pad(torch.zeros(1, 3), (2, -2), "circular")


@pytest.mark.parametrize("points", [5, 13])  # few, and more than there are coordinates
def test_distances_made_column_by_column_are_those_of_the_norm(points):
    x, y = torch.randn(7, 3, dtype=torch.float64), torch.randn(2, points, 3, dtype=torch.float64)
    y[0, 2] = x[4]
    x.requires_grad_(), y.requires_grad_()
    weights = torch.randn(2, 7, points, dtype=torch.float64)
    found, want = torch.cdist(x, y), (x[:, None] - y[:, None]).norm(dim=-1)
    assert torch.allclose(found, want)
    for a, b in zip(*(torch.autograd.grad(d, (x, y), weights, create_graph=True) for d in (found, want))):
        assert torch.allclose(a, b) and a.isfinite().all()
    assert not torch.autograd.grad(torch.cdist(x[4:5], y[0, 2:3]).sum(), x)[0].any()


@pytest.mark.parametrize("times", [2, (3, 1), (5, 4)])
def test_the_nearest_of_a_whole_scale_are_each_so_many_times(times):
    x = torch.randn(2, 3, 4, 4, requires_grad=True)
    rows, columns = (times, times) if isinstance(times, int) else times
    for mode in ("nearest", "nearest-exact"):
        found = torch.nn.functional.interpolate(x, scale_factor=times, mode=mode)
        want = x.repeat_interleave(rows, 2).repeat_interleave(columns, 3)
        weights = torch.randn(found.shape)
        assert torch.equal(found, want)
        assert torch.allclose(*(torch.autograd.grad(y, x, weights)[0] for y in (found, want)), atol=1e-6)


@pytest.mark.parametrize("n", [5, 5000])
def test_a_clamp_lets_nan_and_the_sign_of_zero_through_as_pytorch_does(n):
    x = torch.tensor([np.nan, -0.0, 0.0, 2.0, -2.0] * (n // 5))
    for low, high, ends in ((0, None, [2, 0]), (None, 0, [0, -2]), (0, 1, [1, 0])):
        y = x.clamp(low, high)[:5].numpy()
        assert np.isnan(y[0]) and np.signbit(y[1:3]).tolist() == [True, False] and y[3:].tolist() == ends


def test_a_view_that_is_read_after_a_write_goes_back_to_its_own_part():
    x = torch.arange(12.0).reshape(3, 4).requires_grad_()
    y = x * 1
    column, windows = y[:, 1], y.unfold(1, 2, 1)  # of which the second names elements twice
    y[:, 1] += 2
    y[0] *= 3
    (found,) = torch.autograd.grad((column * column).sum() + windows.sum(), x)
    want = np.tile([1.0, 2.0, 2.0, 1.0], (3, 1)) * [[3.0], [1.0], [1.0]]
    want[:, 1] += 2 * column.detach().numpy() * [3, 1, 1]
    assert found.tolist() == want.tolist()


@pytest.mark.parametrize(
    "index", [(1, 2), (slice(1, 3), 0), (-1,), (slice(None), slice(2, None)), (), (0, ..., 1), (slice(3, 1),), (slice(0, 99), -2)]
)
def test_an_index_gives_one_view_unless_it_is_recorded(index):
    a = np.arange(12.0).reshape(3, 4)
    plain, recorded = torch.from_numpy(a.copy()), torch.from_numpy(a.copy()).requires_grad_()
    view = plain[index]
    np.testing.assert_array_equal(view.numpy(), a[index])
    np.testing.assert_array_equal(recorded[index].detach().numpy(), a[index])
    assert view._base is plain and view._version == 0
    view.add_(1.0)
    a[index] += 1
    np.testing.assert_array_equal(plain.numpy(), a)
    assert plain._version == 1


def test_a_view_that_was_not_recorded_follows_its_base_when_that_is():
    x, w = torch.zeros(3, 4), torch.ones((), requires_grad=True)
    view = x[1, 1:3]
    x[1, 2] = w * 3
    assert view.requires_grad and view.tolist() == [0.0, 3.0]
    view.sum().backward()
    assert w.grad.item() == 3.0


@pytest.mark.parametrize(
    ("index", "text"),
    [
        ((3, 0), "index 3 is out of bounds for dimension 0 with size 3"),
        ((0, -5), "index -5 is out of bounds for dimension 1 with size 4"),
        ((0, 0, 0), "too many indices for tensor of dimension 2"),
    ],
)
def test_an_index_that_does_not_fit_is_refused_in_the_same_words(index, text):
    for x in (torch.zeros(3, 4), torch.zeros(3, 4, requires_grad=True)):
        with pytest.raises(IndexError) as error:
            x[index]
        assert str(error.value) == text


@pytest.mark.parametrize("index", [np.array([0, 2]), np.array([True, False, True])])
def test_a_number_put_at_places_counts_as_a_write(index):
    x, w = torch.ones(3), torch.ones(3, requires_grad=True)
    y = (w * x).sum()
    x[torch.from_numpy(index)] = 5.0
    assert x.tolist() == [5.0, 1.0, 5.0] and x._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
    z = w * 2
    z[torch.from_numpy(index)] = 0.0
    z.sum().backward()
    assert w.grad.tolist() == [0.0, 2.0, 0.0]


@pytest.mark.parametrize("number", [3.40282356e38, -1e39])
def test_a_number_beyond_float32_is_refused(number):
    with pytest.raises(RuntimeError, match="value cannot be converted to type float without overflow"):
        torch.full((1,), number)


@pytest.mark.parametrize("dtype", ["float32", "uint8", "bool", "complex64"])
def test_numbers_that_fit_are_kept(dtype):
    numbers = {"uint8": [255, -1], "bool": [2.0, float("nan")]}.get(dtype, [float("inf"), float("nan"), 3.4028234663852886e38])
    for number in numbers:
        found = torch.zeros(2, dtype=getattr(torch, dtype)).fill_(number).numpy()
        np.testing.assert_array_equal(found, np.array([number, number]).astype(dtype))


def test_second_derivatives_through_products_are_those_of_mathematics():
    rng = np.random.default_rng(1)
    x, w, b = (torch.from_numpy(rng.normal(size=s)).requires_grad_() for s in ((3, 2), (4, 2), (4,)))

    found = torch.autograd.grad((torch.nn.functional.linear(x, w, b) ** 3).sum(), x, create_graph=True)[0]
    np.testing.assert_allclose(found.detach(), 3 * ((x @ w.T + b) ** 2 @ w).detach(), rtol=1e-12)
    for product in (torch.nn.functional.linear, lambda x, w, b: x @ w.T * b, lambda x, w, b: torch.addmm(b, x, w.t(), beta=2, alpha=3)):
        assert torch.autograd.gradgradcheck(lambda *args, product=product: product(*args) ** 3, (x, w, b))
    assert torch.autograd.gradgradcheck(lambda x, w: torch.bmm(x[None], w.t()[None]) ** 3, (x, w))


def test_a_compiled_function_of_tensors_is_recorded_once():
    seen = []

    @torch.compile
    def f(x, y):
        return (x * y).sin()

    x = torch.ones(3)
    for k in range(3):
        assert torch.equal(f(x + k, x), ((x + k) * x).sin())
        seen.append(len(f.programs))
    assert seen == [1, 1, 1]
    assert torch.equal(f(x, y=x), x.sin()) and len(f.programs) == 2


def test_large_sums_of_products_agree_with_small_ones():
    rng = np.random.default_rng(2)
    x, y = torch.from_numpy(rng.normal(size=(5, 30, 40))), torch.from_numpy(rng.normal(size=(5, 40, 30)))
    for equation in ("bij,bjk->bik", "bij,bjk->ik", "...ij,...jk", "bij,bji->b"):
        np.testing.assert_allclose(torch.einsum(equation, x, y), np.einsum(equation, x.numpy(), y.numpy()), rtol=1e-10, atol=1e-12)


MASKS = [None, np.tri(4, 6), np.where(np.tri(4, 6, -1), 0.0, -np.inf), np.where(np.arange(12).reshape(2, 1, 1, 6) % 4, 0.0, -np.inf)]


@pytest.mark.parametrize("mask", MASKS, ids=["none", "added", "a row attends to nothing", "of each example"])
@pytest.mark.parametrize("wanted", [(0, 1, 2), (0,), (1,), (2,), (0, 2)])
def test_the_way_back_of_attention_is_the_pullback_of_its_formula(mask, wanted):
    arrays = [np.random.default_rng(k).normal(size=(2, 3, n, 5)) for k, n in enumerate((4, 6, 6))]
    tensors = [torch.tensor(a, requires_grad=k in wanted) for k, a in enumerate(arrays)]
    out = torch.nn.functional.scaled_dot_product_attention(*tensors, None if mask is None else torch.tensor(mask), scale=0.3)
    assert out.grad_fn.name() == "ScaledDotProductFlashAttentionForCpuBackward0"
    g = np.random.default_rng(9).normal(size=out.shape)
    found = torch.autograd.grad(out, [tensors[k] for k in wanted], torch.tensor(g), retain_graph=True)
    again = torch.autograd.grad(out, [tensors[k] for k in wanted], torch.tensor(g), create_graph=True)
    value, pull = vjp(lambda *xs: _attention._attend(*xs, mask, 0.3), *arrays)
    np.testing.assert_allclose(out.detach(), value, rtol=1e-12)
    for k, d, e in zip(wanted, found, again):
        np.testing.assert_allclose(d, pull(g)[k], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(e.detach(), pull(g)[k], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 5])
def test_the_rule_of_ctc_loss_is_the_pullback_of_its_sweep(classes):
    rng = np.random.default_rng(classes)
    x, labels = rng.normal(size=(7, 6, classes)), rng.integers(1, classes, (6, 3))
    steps, lengths = np.array([7, 7, 5, 4, 1, 3]), np.array([3, 2, 1, 0, 1, 3])  # the last has no path, where labels are alike
    g = rng.normal(size=6)
    loss, pull = vjp(lambda x: _compositions._ctc(x, labels, steps, lengths, 0, True), x)
    found = _compositions._unctc(np.where(loss == 0, 0, g), None, x, labels, steps, lengths, 0, True)
    np.testing.assert_allclose(found, pull(g)[0], rtol=1e-9, atol=1e-12)
    assert np.isfinite(found).all() and (found[steps[1] :, 1] == 0).all()


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_forgets_its_step_where_it_is_differentiated_again(approximate):
    x = torch.linspace(-4, 4, 1100, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(torch.nn.functional.gelu(x, approximate=approximate).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    at = np.linspace(-4, 4, 1100)
    step = 1e-5
    for slope, function in (
        (first, lambda a: torch.nn.functional.gelu(a, approximate=approximate)),
        (second, lambda a: _slope(a, approximate)),
    ):
        near, far = (function(torch.tensor(at + s)).numpy() for s in (step, -step))
        np.testing.assert_allclose(slope.detach(), (near - far) / (2 * step), atol=1e-8)


def _slope(a, approximate):
    a.requires_grad_()
    return torch.autograd.grad(torch.nn.functional.gelu(a, approximate=approximate).sum(), a)[0]


def test_a_leaf_that_was_used_is_still_a_leaf_and_its_copy_another():
    import copy

    x = torch.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    for y in (copy.deepcopy(x), torch.nn.Parameter(x)):
        y.grad = None
        (y * 3).sum().backward()
        assert y.is_leaf and y.grad.tolist() == [3.0, 3.0] and x.grad.tolist() == [2.0, 2.0]
    x.requires_grad_(False)
    assert x.is_leaf and not (x * 2).requires_grad
    x.requires_grad_()
    (x * 5).sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "longdouble", "complex64", "int64"])
@pytest.mark.parametrize("shape", [(7,), (3000,), (50, 60)])
def test_a_choice_by_bits_is_that_of_where(dtype, shape):
    rng = np.random.default_rng(0)
    x, y, mask = rng.normal(size=shape).astype(dtype), rng.normal(size=shape).astype(dtype), rng.random(shape) > 0.5
    if dtype != "int64":
        x.flat[:3], y.flat[:3] = (np.nan, np.inf, -0.0), (-np.inf, np.nan, -0.0)
    for other in (y, 3, np.asarray(2, dtype), y[:1], *(() if dtype == "int64" else (-0.0, np.float64(0.5), y.dtype.type(-0.0)))):
        want, found = np.where(mask, x, other), chosen(mask, x, other)
        assert found.dtype == want.dtype and _bits(found) == _bits(want)
    assert _bits(chosen(mask, x)) == _bits(np.where(mask, x, np.zeros((), dtype)))
    assert _bits(chosen(mask.T, x.T, y.T)) == _bits(np.where(mask.T, x.T, y.T))
    for k in (0, 1):  # into one of the two
        both = [x.copy(), y.copy()]
        assert chosen(mask, *both, out=both[k]) is both[k] and _bits(both[k]) == _bits(np.where(mask, x, y))
    assert _bits(chosen(mask[::2], x[::2], y[::2])) == _bits(np.where(mask[::2], x[::2], y[::2]))


def _bits(x):
    """The bytes that are part of the number: of the 16 of x86's long double, 10."""
    size = 10 if x.dtype == np.longdouble and np.finfo(x.dtype).nmant == 63 else x.itemsize
    return np.ascontiguousarray(x).view(np.uint8).reshape(-1, x.itemsize)[:, :size].tobytes()


@pytest.mark.parametrize("n", [5, 1000])
def test_relu_lets_nan_and_the_sign_of_zero_through_as_pytorch_does(n):
    x = torch.tensor([np.nan, -0.0, 0.0, 2.0, -2.0] * (n // 5), requires_grad=True)
    y = x.relu()
    y.backward(torch.full((n,), 3.0))
    assert np.array_equal(x.grad[:5], [3, 0, 0, 3, 0])
    assert np.isnan(y[0].item()) and np.signbit(y[1:3].detach().numpy()).tolist() == [True, False]


@pytest.mark.parametrize(
    "name", ["sigmoid", "relu", "silu", "gelu", "elu", "leaky_relu", "softplus", "hardswish", "softmax", "log_softmax"]
)
def test_activations_of_a_number_are_those_of_an_array(name):
    options = {"dim": 0} if "softmax" in name else {}
    for value in (-1.5, 0.5):
        number, array = torch.tensor(value, requires_grad=True), torch.tensor([value], requires_grad=True)
        for x in (number, array):
            getattr(torch.nn.functional, name)(x, **options).sum().backward()
        found, want = (getattr(torch.nn.functional, name)(x, **options) for x in (number, array))
        assert found.shape == () and found.item() == want.item() and number.grad.item() == array.grad.item()


def test_what_is_written_after_attention_does_not_reach_its_gradients():
    arrays = [np.random.default_rng(k).normal(size=(1, 2, 4, 3)) for k in range(3)]
    want = None
    for written in (False, True):
        tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
        mask = torch.tensor(np.tri(4))
        out = torch.nn.functional.scaled_dot_product_attention(*tensors, mask)
        if written:
            mask.zero_()
            out.detach().fill_(7.0)
        g = torch.cos(torch.tensor(np.arange(24.0).reshape(1, 2, 4, 3)))
        first = torch.autograd.grad(out, tensors, g, create_graph=True)
        second = torch.autograd.grad(sum(d.sum() for d in first), tensors)
        found = [d.detach().numpy() for d in (*first, *second)]
        want = want or found
        for a, b in zip(found, want):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_lengths_written_after_ctc_loss_do_not_reach_its_gradient():
    x = torch.tensor(np.random.default_rng(0).normal(size=(6, 2, 4)), requires_grad=True)
    steps, lengths, labels = torch.tensor([6, 5]), torch.tensor([2, 1]), torch.tensor([[1, 2], [3, 3]])
    (want,) = torch.autograd.grad(torch.nn.functional.ctc_loss(x, labels, steps, lengths), x)
    loss = torch.nn.functional.ctc_loss(x, labels, steps, lengths)
    for t in (steps, lengths, labels):
        t.fill_(1)
    assert torch.equal(torch.autograd.grad(loss, x)[0], want)


ROWS, MASK = torch.tensor([2, 0]), torch.tensor([[True, False], [False, True], [True, True]])
GRID = torch.tensor([[0, 1], [2, 0], [1, 1]])
RULED = {
    "prod": lambda x: x.prod(),
    "prod of an axis": lambda x: x.prod(1),
    "cumprod": lambda x: x.cumprod(0),
    "var_mean": lambda x: torch.var_mean(x, 1)[0],
    "std_mean": lambda x: torch.std_mean(x, 0)[1],
    "index_fill": lambda x: x.index_fill(0, ROWS, x.sum()),
    "roll": lambda x: x.roll((1, -1), (0, 1)),
    "repeat": lambda x: x.repeat(2, 1, 3),
    "tile": lambda x: x.tile(2),
    "trace": lambda x: x.trace(),
    "diag": lambda x: x.diag(-1),
    "diagonal": lambda x: x.diagonal(1),
    "scatter": lambda x: x.scatter(0, GRID[:1], x[1:]),
    "scatter_add": lambda x: x.scatter_add(0, GRID, x.sin()),
    "index_add": lambda x: x.index_add(0, ROWS, x[:2], alpha=2),
    "index_copy": lambda x: x.index_copy(0, ROWS, x[:2]),
    "index_put": lambda x: x.index_put((ROWS,), x[0], accumulate=True),
    "take": lambda x: x.take(GRID),
    "masked_select": lambda x: x.masked_select(MASK),
    "embedding_bag": lambda x: torch.nn.functional.embedding_bag(GRID, x, mode="mean"),
    "grid_sample": lambda x: torch.nn.functional.grid_sample(x.view(1, 1, 3, 2), torch.zeros(1, 2, 2, 2), align_corners=False),
    "median": lambda x: x.expand(2, 3, 2).median(),
    "median of an axis": lambda x: x.median(0, keepdim=True)[0],
    "nanmedian": lambda x: x.nanmedian(-1)[0],
    "mode": lambda x: x.expand(2, 3, 2).mode(0)[0],
    "kthvalue": lambda x: x.kthvalue(2, 0)[0],
    "cummax": lambda x: x.flip(0).cummax(0)[0],
    "cummin": lambda x: x.cummin(1)[0],
    "msort": lambda x: x.flip(0).msort(),
    "nansum": lambda x: x.nansum(),
    "nansum of an axis": lambda x: x.masked_fill(MASK, float("nan")).nansum(0, keepdim=True),
    "nan_to_num": lambda x: x.masked_fill(MASK, float("inf")).nan_to_num(posinf=1.0),
    "take_along_dim": lambda x: x.take_along_dim(GRID % 2, 1),
    "take_along_dim of all": lambda x: x.take_along_dim(GRID),
    "diag_embed": lambda x: x.diag_embed(1, 0, 2),
    "rot90": lambda x: x.rot90(3),
    "fliplr": lambda x: x.fliplr(),
    "flipud": lambda x: x.flipud(),
    "cross": lambda x: x.cross(x.sin()),
    "cross of the last axis": lambda x: torch.linalg.cross(x.t()[:1], x.t().cos()),
    "det": lambda x: x[:2].det(),
    "inv": lambda x: torch.linalg.inv(x[:2]),
    "complex": lambda x: torch.view_as_real(torch.complex(x, x.sin())),
    "view_as_complex": lambda x: torch.view_as_real(torch.view_as_complex(x) * (1 + 2j)),
    "unfold": lambda x: x.unfold(0, 2, 1),
    "unfold with gaps": lambda x: x.flatten().unfold(0, 3, 2),
    "pad": lambda x: torch.nn.functional.pad(x, (1, 0), mode="reflect"),
    "pad by repetition": lambda x: torch.nn.functional.pad(x[None], (2, 1, 0, 3), mode="replicate"),
    "interpolate": lambda x: torch.nn.functional.interpolate(x[None, None], scale_factor=2),
    "adaptive_max_pool": lambda x: torch.nn.functional.adaptive_max_pool2d(x[None], 2),
    "max_pool": lambda x: torch.nn.functional.max_pool2d(x[None], 2, 1, 1),
    "avg_pool": lambda x: torch.nn.functional.avg_pool2d(x[None], 2, 1, 1),
}


@pytest.mark.parametrize("name", RULED)
def test_common_operations_are_not_recorded_to_be_differentiated(name, monkeypatch):
    x = torch.arange(1.0, 7.0).view(3, 2).requires_grad_()
    y = x.detach().requires_grad_()
    (pull,) = torch.func.vjp(RULED[name], x.detach())[1:]
    out = RULED[name](x)
    weights = torch.arange(1.0, out.numel() + 1).view(out.shape)
    (want,) = pull(weights)

    def recorded(*_):
        raise AssertionError(f"{name} is recorded")

    for module in (_nodes, _moves):
        monkeypatch.setattr(module, "vjp", recorded)
    RULED[name](y).backward(weights)
    np.testing.assert_allclose(y.grad.numpy(), want.numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    "name", ["rot90", "diag_embed", "msort", "kthvalue", "cummax", "nansum", "nan_to_num", "take_along_dim", "interpolate"]
)
def test_a_gradient_that_no_element_changes_has_no_history_of_the_tensor(name):
    x = torch.arange(1.0, 7.0).view(3, 2).requires_grad_()
    out = RULED[name](x)
    g = torch.ones_like(out).requires_grad_()
    (d,) = torch.autograd.grad(out, x, g, create_graph=True)
    first, second = torch.autograd.grad((d * d).sum(), (x, g), allow_unused=True)
    assert first is None and second is not None  # as PyTorch has it


@pytest.mark.parametrize(
    "name", ["cross", "cross of the last axis", "det", "inv", "complex", "median", "unfold with gaps", "view_as_complex"]
)
def test_stated_rules_are_right_to_second_order(name):
    x = (torch.arange(1.0, 7.0, dtype=torch.float64).view(3, 2) ** 1.5).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: RULED[name](x * x), (x,))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_the_median_of_what_is_not_finite_is_one_of_the_elements(value):
    x = torch.tensor([value, value, 1.0 if value != -np.inf else -2e38, value]).requires_grad_()
    for out in (x.median(), x.median(0)[0]):
        np.testing.assert_array_equal(out.detach().numpy(), np.float32(value))
    x.median().backward()
    third = np.float32(1 / 3)
    assert x.grad.tolist() == [third, third, 0.0, third]
    np.testing.assert_allclose(torch.func.grad(lambda x: x.median())(x.detach()).numpy(), x.grad.numpy(), rtol=1e-6)
    empty = torch.zeros(0, requires_grad=True)
    empty.median().backward()
    assert empty.grad.shape == (0,)


def test_what_saves_nothing_can_go_back_twice_and_be_written_to():
    x = torch.ones(2, 3, requires_grad=True)
    y = x + 1
    z = y.rot90()
    y.mul_(3)
    for _ in range(2):
        z.backward(torch.ones(3, 2))
    assert x.grad.tolist() == [[2.0] * 3] * 2
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        w = x * 2
        out = w.nansum()
        w.mul_(3)
        out.backward()


def test_what_does_not_fit_is_said_in_the_same_words_with_and_without_gradients():
    for grad in (False, True):
        x, zero = torch.ones(3, 3, requires_grad=grad), torch.zeros(2, 2, requires_grad=grad)
        with pytest.raises(torch.linalg.LinAlgError, match="linalg.inv: The diagonal element 1 is zero"):
            torch.linalg.inv(zero)
        with pytest.raises(RuntimeError, match=r"The size of tensor a \(3\) must match the size of tensor b \(5\)"):
            x.take_along_dim(torch.zeros(5, 3, dtype=torch.int64), 1)


def test_the_weights_of_a_resampling_are_shared_and_cannot_be_written():
    x = torch.rand(1, 1, 4, 4, requires_grad=True)
    ups = [torch.nn.functional.interpolate(x, scale_factor=s, mode="bilinear") for s in (2, 2.0, 3)]
    assert torch.equal(ups[0], ups[1]) and ups[2].shape[-1] == 12
    maps = ups[0].grad_fn.saved[2][0]
    assert maps[0] is ups[1].grad_fn.saved[2][0][0] and not maps[0].flags.writeable


@pytest.mark.parametrize(
    ("write", "shapes"),
    [
        (torch.Tensor.index_add, r"self.shape = \[3, 2\] source.shape = \[2, 3\]"),
        (torch.Tensor.index_copy, "Destination slice shape: 2 at dimension 0 and source slice shape: 3 at dimension 0"),
        (lambda x, _, i, v: x.index_put((i,), v), r"of shape \[2, 3\] cannot be broadcast to indexing result of shape \[2, 2\]"),
    ],
)
def test_rows_that_do_not_fit_are_refused_with_both_shapes(write, shapes):
    with pytest.raises(RuntimeError, match=shapes):
        write(torch.zeros(3, 2, requires_grad=True), 0, ROWS, torch.zeros(2, 3))


def test_what_a_later_write_replaced_gets_no_gradient_not_even_of_an_infinite_one():
    x, v = torch.zeros(2, requires_grad=True), torch.ones(3, requires_grad=True)
    x.scatter(0, torch.tensor([1, 1, 0]), v).backward(torch.tensor([2.0, np.inf]))
    assert v.grad.tolist() == [0.0, np.inf, 2.0] and x.grad.tolist() == [0.0, 0.0]


def nodes_below(x):
    found, todo = set(), [x.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in found:
            found.add(node)
            todo.extend(n for n, _ in node.next_functions)
    return [node.name() for node in found]


@pytest.mark.parametrize("batch_first", [True, False])
def test_attention_to_oneself_is_one_product_in_and_one_operation(batch_first):
    attention = torch.nn.MultiheadAttention(4, 2, batch_first=batch_first)
    x = torch.rand(3, 5, 4, requires_grad=True)
    y, z = (attention(x, key, x, need_weights=False)[0] for key in (x, x.clone()))
    for out, products in ((y, 2), (z, 4)):
        names = nodes_below(out)
        assert sum(name in ("AddmmBackward0", "MmBackward0") for name in names) == products
        assert names.count("ScaledDotProductFlashAttentionForCpuBackward0") == 1
    torch.testing.assert_close(y, z)
