"""Autograd as a person who has learnt PyTorch knows it: gradients, hooks, custom Functions, modes, checks."""

import asyncio
import gc
import warnings

import numpy as np
import pytest

import functrace.torch as torch
from functrace.torch.autograd import forward_ad, gradcheck, gradgradcheck
from functrace.torch.autograd.function import once_differentiable
from functrace.torch.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x**3
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, _ = ctx.saved_tensors
        return g * 3 * x**2


class Double(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass


def leaf(*values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def test_functions_pass_gradcheck():
    x = leaf(0.5, -1.5)
    assert gradcheck(Cube.apply, x, check_forward_ad=True, check_batched_grad=True) and gradgradcheck(Cube.apply, x)


def test_function_runs_on_the_batch_and_with_its_own_rule_for_it():
    class Twice(Double):
        @staticmethod
        def backward(ctx, g):
            return g * 2

        @staticmethod
        def vmap(info, in_dims, x):
            assert info.batch_size == 3 and in_dims == (0,)
            return Twice.apply(x) + 1, 0

    x = torch.arange(3.0)
    assert torch.vmap(Twice.apply)(x).tolist() == [1.0, 3.0, 5.0]
    assert torch.vmap(torch.func.grad(Twice.apply))(x).tolist() == [2.0, 2.0, 2.0]
    assert torch.vmap(torch.func.grad(Cube.apply))(x).tolist() == [0.0, 3.0, 12.0]


def test_function_with_only_a_jvp_is_transposed():
    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_forward(x)
            ctx.set_materialize_grads(False)
            return x.sin(), x * 2

        @staticmethod
        def jvp(ctx, t):
            (x,) = ctx.saved_tensors
            return t * x.cos(), t * 2

    x = leaf(0.5, 1.0)
    Sine.apply(x)[0].sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos([0.5, 1.0]))


def test_once_differentiable_raises_at_the_second_derivative():
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return g * 2

    x, v = leaf(1.0), leaf(1.0)
    (g,) = torch.autograd.grad(Once.apply(x), x, v, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice a function that was marked with @once_differentiable"):
        g.sum().backward()


def test_gradients_of_several_outputs_of_one_function():
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            return g * 2 + h * 3

    x = leaf(1.0, 2.0)
    a, b = Two.apply(x)
    (a * b).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [12.0, 24.0])


def test_anomaly_names_the_line_and_the_node():
    x = leaf(0.0, 1.0)
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        with (
            torch.autograd.detect_anomaly(),
            pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"),
        ):
            y = x.sqrt() * 0  # the line to be named
            y.sum().backward()
    text = str(caught[-1].message)
    assert "Error detected in SqrtBackward0" in text and "y = x.sqrt() * 0" in text and not torch.is_anomaly_enabled()


def test_looking_on_is_over_afterwards():
    from functrace.torch._engine import Node

    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert "__setattr__" in Node.__dict__
        with torch.autograd.set_detect_anomaly(True):
            pass
    with pytest.raises(ValueError), torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        raise ValueError
    assert "__setattr__" not in Node.__dict__


def test_saved_tensors_may_be_kept_elsewhere():
    store = []

    def pack(t):
        store.append(t.numpy().copy())
        return len(store) - 1

    def program(x, w):
        y = torch.sigmoid(x @ w)
        y = (y * y).cumsum(0)[1:].sin()
        y.mul_(2)
        return (Cube.apply(y) * torch.linspace(0.0, 1.0, 2, dtype=torch.float64)).sum()

    x, w = leaf(0.1, 0.2, 0.3), torch.ones(3, 3, dtype=torch.float64, requires_grad=True)
    plain = torch.autograd.grad(program(x, w), (x, w))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda k: torch.from_numpy(store[k])):
        value = program(x, w)
    hooked = torch.autograd.grad(value, (x, w), create_graph=True)
    assert len(store) >= 8
    for a, b in zip(plain, hooked):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-12)
    second = torch.autograd.grad(hooked[1].sum(), x)
    (expected,) = torch.autograd.grad(torch.autograd.grad(program(x, w), w, create_graph=True)[0].sum(), x)
    np.testing.assert_allclose(second[0].numpy(), expected.numpy(), rtol=1e-12)


def test_checkpoint_runs_again_and_keeps_nothing():
    runs = []

    def f(x, w):
        runs.append(torch.is_grad_enabled())
        return torch.tanh(x * w) * w

    x, w = leaf(0.3, 0.6), leaf(1.0, 2.0)
    expected = torch.autograd.grad(f(x, w).sum(), (x, w))
    runs.clear()
    y = checkpoint(f, x, w, use_reentrant=False)
    assert "saved" not in y.grad_fn.__dict__
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert runs == [True, True, True]
    np.testing.assert_allclose(x.grad.numpy(), 2 * expected[0].numpy())
    np.testing.assert_allclose(w.grad.numpy(), 2 * expected[1].numpy())
    x.grad = None
    chain = checkpoint_sequential([torch.sin, torch.cos, torch.exp], 2, x, use_reentrant=False)
    chain.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), torch.autograd.grad(torch.exp(torch.cos(torch.sin(x))).sum(), x)[0].numpy())


def test_checkpoint_notices_another_second_run():
    flags = [True]

    def f(x):
        return x.exp() * x if flags and flags.pop() else x.exp()

    y = checkpoint(f, leaf(1.0), use_reentrant=False)
    with pytest.raises(CheckpointError, match="different number of tensors"):
        y.sum().backward()


@pytest.mark.parametrize("write", [lambda x: x.add_(1), lambda x: x.detach().add_(1), lambda x: x.view(1, 2).mul_(2)])
def test_checkpoint_notices_that_its_argument_was_written(write):
    for x in (leaf(0.2, 0.4), leaf(0.2, 0.4) * 2):
        y = checkpoint(lambda x: x.sin() * 2, x, use_reentrant=False)
        with torch.no_grad():
            write(x)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_forward_mode_agrees_with_reverse_mode():
    def f(x):
        y = x.clone()
        y[0] = x[1] * x[2]
        a, b = y.split([1, 2])
        return torch.cat([a.exp(), (b @ b).reshape(1), torch.softmax(x, 0)])

    x, t = torch.tensor([0.3, -0.2, 0.7], dtype=torch.float64), torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(f(forward_ad.make_dual(x, t))).tangent
    expected = torch.autograd.functional.jacobian(f, x) @ t
    with pytest.raises(AssertionError, match='strategy to be either "forward-mode" or "reverse-mode"'):
        torch.autograd.functional.jacobian(f, x, strategy="forward")
    np.testing.assert_allclose(tangent.numpy(), expected.numpy(), rtol=1e-12)
    with forward_ad.dual_level():
        y = forward_ad.make_dual(x, t) ** 2
        x.add_(1)  # after which the tangent of y can't be found any more
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            forward_ad.unpack_dual(y)


def test_forward_mode_does_not_lose_tangents_silently():
    with forward_ad.dual_level():
        d = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        with pytest.raises(NotImplementedError, match="tangents follow the recorded graph"), torch.no_grad():
            d * 2
    with torch.no_grad(), forward_ad.dual_level():
        d = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        assert forward_ad.unpack_dual(d * 2).tangent.tolist() == [2.0, 2.0]


def test_modes_hold_in_coroutines():
    @torch.no_grad()
    async def off():
        await asyncio.sleep(0)
        return torch.is_grad_enabled()

    async def main():
        return await asyncio.gather(off(), off()), torch.is_grad_enabled()

    assert asyncio.run(main()) == ([False, False], True)


def test_create_graph_leaks_nothing_with_the_collector_off():
    w = leaf(1.0, 2.0)

    def step():
        (Cube.apply(w) * w).sum().backward(create_graph=True)
        w.grad.sum().backward()

    step()
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(20):
            w.grad = None
            step()
        assert len(gc.get_objects()) - before < 20
    finally:
        gc.enable()


def test_what_one_should_not_do_with_functions_is_said():
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        Cube()
    y = Cube.apply(leaf(1.0))
    with pytest.warns(DeprecationWarning, match="use 'saved_tensors'"):
        assert len(y.grad_fn.saved_variables) == 2


def test_batched_gradients_with_none_for_one_of_the_results():
    x = leaf(1.0, 2.0)
    (g,) = torch.autograd.grad([x * x, (x * 3).sum()], x, [torch.eye(2, dtype=torch.float64), None], is_grads_batched=True)
    assert g.tolist() == [[5.0, 3.0], [3.0, 7.0]]


def test_gradient_of_a_leaf_that_is_gone_is_dropped():
    def value():
        x = leaf(1.0, 2.0)
        return (x * x).sum()

    value().backward()


def test_gradgradcheck_finds_a_wrong_second_derivative():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x.detach()

    x = leaf(1.0, 2.0)
    assert gradcheck(Wrong.apply, x)
    assert not gradgradcheck(Wrong.apply, x, raise_exception=False)

    class Cut(Wrong):
        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g.detach() * 2 * x

    assert not gradgradcheck(Cut.apply, x, raise_exception=False)  # the gradient of the gradients that come in counts too
    assert gradgradcheck(Cut.apply, x, torch.ones(2, dtype=torch.float64))


def test_gradcheck_finds_a_wrong_jvp_a_wrong_batch_and_nan():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2, x > 0

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx, g, _):
            return Doubled.apply(g)

        @staticmethod
        def jvp(ctx, t):
            return t * factor, None

    class Doubled(Double):
        @staticmethod
        def vmap(info, in_dims, x):
            return x * factor, 0

    x = leaf(1.0, 2.0)
    for factor in (2, 3):
        for kind in ("forward_ad", "batched_grad"):
            assert gradcheck(Wrong.apply, x, raise_exception=False, **{f"check_{kind}": True}) == (factor == 2)
    assert not gradcheck(lambda x: x * float("nan"), x, raise_exception=False)
    assert gradcheck(lambda x, y: x.sum() + y, (leaf(), x))


def test_a_tangent_has_no_tangent_in_forward_mode():
    forward = torch.autograd.forward_ad
    x, v = torch.tensor([0.3, 0.7], requires_grad=True), torch.tensor([1.0, 2.0])
    with forward.dual_level():
        p = forward.make_dual(x, v)
        t = forward.unpack_dual(p.sin()).tangent
        assert forward.unpack_dual(t).tangent is None
        assert forward.unpack_dual(t[0] * 2).tangent is None
        assert torch.equal(forward.unpack_dual(t * p).tangent, t * v)
        assert t.grad_fn.name() == "MulBackward0"
        (g,) = torch.autograd.grad(t.sum(), x)
    assert torch.allclose(g, -x.sin() * v)


def test_copies_and_products_that_were_made_in_steps_are_written_alone():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    square = x * x
    turned = x.t().reshape(4)  # a copy
    turned.mul_(2)
    w = torch.ones(2, 2)
    product = torch.stack([x, x]) @ w
    product.add_(1)
    assert not turned._is_view() and not product._is_view()
    assert turned.grad_fn.next_functions[0][0].name() == "UnsafeViewBackward0"
    (square.sum() + turned.sum() + product.sum()).backward()
    assert x.grad.tolist() == [[8.0, 10.0], [12.0, 14.0]] and x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
