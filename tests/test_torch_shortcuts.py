"""The shorter ways that common calls of functrace.torch take give what the long ones give."""

import numpy as np
import pytest

import functrace.torch as torch
from functrace.torch import _engine
from functrace.torch._reduce import put_in_order


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
        for y, z in zip(found, put_in_order(x, k, largest)):
            np.testing.assert_array_equal(y.numpy(), np.take(z, range(5), k))


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
