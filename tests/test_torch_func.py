"""`torch.func`; and functrace's own transforms with tensors."""

import gc

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vmap


def f(x):
    y = torch.tanh(x) @ x
    return y * torch.exp(-x.pow(2).sum())


def second(x):
    return ft.jacobian(ft.grad(lambda a: np.tanh(a) @ a * np.exp(-np.sum(a**2))))(x)


@pytest.mark.parametrize(
    "part", [lambda s: s.view(1), lambda s: s[None], lambda s: s[...], lambda s: s.reshape(1, 1)[0], lambda s: s.expand(1)]
)
def test_a_write_through_a_view_reaches_a_tensor_without_axes(part):
    def f(x):
        s = x.sum()
        w, v = s[None], part(s)
        v.mul_(2)
        w += 1
        return s * v.sum() + w.sum()  # with s = 2 x.sum() + 1: s^2 + s

    x = torch.ones(3, dtype=torch.float64)
    assert f(x) == vmap(f)(x[None]).item() == jvp(f, (x,), (x,))[0] == 56
    assert grad(f)(x).tolist() == vmap(grad(f))(x[None])[0].tolist() == [30.0] * 3


@pytest.mark.parametrize("outer", [jacfwd, jacrev])
@pytest.mark.parametrize("inner", [jacfwd, jacrev, grad])
def test_second_derivatives_by_every_pair_of_modes(outer, inner):
    x = np.array([0.3, -0.2, 0.5])
    found = outer(inner(f))(torch.tensor(x))
    np.testing.assert_allclose(found.numpy(), second(x), rtol=1e-10)
    assert not found.requires_grad
    batch = vmap(outer(inner(f)))(torch.tensor(np.stack([x, 2 * x])))
    np.testing.assert_allclose(batch.numpy(), [second(x), second(2 * x)], rtol=1e-10)


def test_third_derivative_and_perturbation_confusion():
    x = torch.tensor(0.7, dtype=torch.float64)
    np.testing.assert_allclose(grad(grad(grad(torch.sin)))(x).item(), -np.cos(0.7))
    assert grad(lambda x: x * grad(lambda y: x + y)(torch.tensor(2.0)))(torch.tensor(1.0)).item() == 1.0


def test_jvp_of_grad_is_the_product_with_the_hessian():
    x, v = np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, -1.0])
    _, product = jvp(grad(f), (torch.tensor(x),), (torch.tensor(v),))
    np.testing.assert_allclose(product.numpy(), second(x) @ v, rtol=1e-10)


def test_gradients_flow_through_transforms_to_what_they_close_over():
    w = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    x = torch.tensor([[0.5, 0.1], [0.2, 0.4], [0.9, 0.3]], dtype=torch.float64, requires_grad=True)

    def loss(w, x):
        return vmap(lambda row: torch.sin(row * w).sum() ** 2)(x).sum()

    def plain(w, x):
        return (torch.sin(x * w).sum(1) ** 2).sum()

    for create in (False, True):
        found = torch.autograd.grad(loss(w, x), (w, x), create_graph=create)
        wanted = torch.autograd.grad(plain(w, x), (w, x), create_graph=create)
        for a, b in zip(found, wanted):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12)
    for a, b in zip(torch.autograd.grad(found[0].sum(), (w, x)), torch.autograd.grad(wanted[0].sum(), (w, x))):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)
    outer = vmap(lambda row: grad(lambda r: (r * w).sum() ** 3)(row))(x)
    outer.sum().backward()
    expected = torch.autograd.grad((3 * (x * w).sum(1, keepdim=True) ** 2 * w).sum(), w)[0]
    np.testing.assert_allclose(w.grad.numpy(), expected.numpy(), rtol=1e-12)


def test_writes_inside_transforms():
    def g(x):
        y = x.clone()
        y[0] = x[1] * 2
        y.mul_(3)
        return y.sum() + (x * x).sum()

    x = torch.tensor([1.0, 2.0])
    assert grad(g)(x).tolist() == [2.0, 13.0]
    assert vmap(grad(g))(torch.stack([x, x + 1])).tolist() == [[2.0, 13.0], [4.0, 15.0]]


def test_inner_backward_under_vmap_belongs_to_the_example():
    def slope(x):
        w = torch.ones((), requires_grad=True)
        (g,) = torch.autograd.grad((w * x) ** 2, w)
        return g

    assert vmap(slope)(torch.arange(3.0)).tolist() == [0.0, 2.0, 8.0]


def test_branches_that_differ_between_examples_raise():
    with pytest.raises(RuntimeError, match="data-dependent control flow"):
        vmap(lambda x: x if x > 0 else -x)(torch.tensor([-1.0, 1.0]))


def test_functional_call_and_ensembles():
    torch.manual_seed(0)
    models = [torch.nn.Linear(3, 2) for _ in range(4)]
    params, buffers = stack_module_state(models)
    x = torch.randn(5, 3)
    out = vmap(lambda p: functional_call(models[0], p, (x,)))(params)
    for k, model in enumerate(models):
        np.testing.assert_allclose(out[k].detach().numpy(), model(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    loss = lambda p, row: functional_call(models[0], p, (row,)).pow(2).sum()
    one = {k: v.detach() for k, v in models[0].named_parameters()}
    per_sample = vmap(grad(loss), in_dims=(None, 0))(one, x)
    for k in range(5):
        models[0].zero_grad()
        models[0](x[k]).pow(2).sum().backward()
        np.testing.assert_allclose(per_sample["weight"][k].numpy(), models[0].weight.grad.numpy(), rtol=1e-4, atol=1e-6)
    assert models[0].weight.requires_grad and not buffers


def test_functraces_transforms_of_functions_of_tensors():
    def program(a):
        x = torch.as_tensor(a)
        y = torch.relu(x) * x
        z = y.clone()
        z[0] = x[1] * 2
        z.mul_(3)
        return (z.sum() + x @ x).numpy()

    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(ft.grad(program)(x), [2.0, 22.0])
    np.testing.assert_allclose(ft.vmap(ft.grad(program))(np.stack([x, 2 * x])), [[2.0, 22.0], [4.0, 38.0]])
    np.testing.assert_allclose(ft.jvp(program, (x,), (np.ones(2),))[1], 24.0)
    np.testing.assert_allclose(ft.grad(lambda a: grad(lambda y: (y**3).sum())(torch.as_tensor(a)).sum().numpy())(x), 6 * x)


def test_detached_values_are_constants_to_functraces_transforms():
    def program(a):
        x = torch.as_tensor(a)
        with torch.no_grad():
            b = x * 2
        return (b * x + x.detach() * x).sum().numpy()

    np.testing.assert_allclose(ft.grad(program)(np.array([1.0, 2.0])), [3.0, 6.0])


def test_custom_functions_keep_their_backward_in_functraces_transforms():
    class Straight(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, g):
            return g * 5

    x = np.array([1.2, 2.0])
    np.testing.assert_allclose(ft.grad(lambda a: Straight.apply(torch.as_tensor(a)).sum().numpy())(x), [5.0, 5.0])
    assert grad(lambda t: Straight.apply(t).sum())(torch.tensor(x)).tolist() == [5.0, 5.0]

    class Picked(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, index, scale):
            ctx.save_for_backward(index)
            return x[index] * scale

        @staticmethod
        def backward(ctx, g):
            return g[torch.argsort(ctx.saved_tensors[0])] * 7, None, None

    def picked(a):
        return (Picked.apply(torch.as_tensor(a), torch.tensor([1, 0]), 3.0) * torch.tensor([1.0, 2.0])).sum().numpy()

    np.testing.assert_allclose(ft.grad(picked)(x), [14.0, 7.0])


def test_vmap_hands_on_what_no_example_changes():
    y = (w := torch.ones(2, requires_grad=True)) * 2
    _, out = vmap(lambda x: (x, y), out_dims=(0, None))(torch.ones(3))
    (out * 3).sum().backward()
    assert w.grad.tolist() == [6.0, 6.0]  # not once for each example
    a, b = vmap(lambda x: (x * 2, y), out_dims=(0, None), chunk_size=2)(torch.arange(3.0))
    assert a.tolist() == [0.0, 2.0, 4.0] and b.tolist() == [2.0, 2.0]
    outer, inner = torch.arange(3.0), torch.arange(2.0)
    a, b = vmap(lambda u: vmap(lambda v: (v * u, u * 2), out_dims=(0, None))(inner))(outer)  # the same in the inner batch only
    assert a.tolist() == [[0.0, 0.0], [0.0, 1.0], [0.0, 2.0]] and b.tolist() == [0.0, 2.0, 4.0]


def test_backward_inside_functraces_transforms():
    def program(a):
        w = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
        (w * torch.as_tensor(a)).pow(2).sum().backward()
        return w.grad.sum().numpy()

    np.testing.assert_allclose(ft.grad(program)(np.array([1.2, 2.0])), [4.8, 16.0])


def test_transforms_leave_nothing_behind_with_the_collector_off():
    w = torch.ones(3, requires_grad=True)

    def step():
        w.grad = None
        vmap(lambda x: (x * w).sum() ** 2)(torch.ones(2, 3)).sum().backward()
        hessian(lambda x: (x**3 * w.detach()).sum())(torch.ones(3))
        grad(lambda x: (x * w).sum() ** 2)(torch.ones(3)).sum().backward()

    step()
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(10):
            step()
        assert len(gc.get_objects()) - before < 20
    finally:
        gc.enable()


W = np.random.default_rng(0).random((4, 4))
M = torch.tensor(W)
F = torch.nn.functional
OPERATIONS = {
    **{
        name: (lambda x, name=name: getattr(torch, name)(x))
        for name in "sin tan exp log sqrt sigmoid abs prod max std t det inverse trace".split()
    },
    **{name: (lambda x, name=name: getattr(torch, name)(x, 0)) for name in ("cumsum", "softmax", "logsumexp", "cumprod")},
    "matmul": lambda x: x @ M + M @ x,
    "square": lambda x: x @ x,
    "where": lambda x: torch.where(x > 0.5, x, M),
    "cat": lambda x: torch.cat([x, M]),
    "stack": lambda x: torch.stack([x, x * 2], 1),
    "slice": lambda x: x[1:, ::2],
    "fancy": lambda x: x[[0, 2], [1, 1]],
    "reshape": lambda x: x.view(2, 8).permute(1, 0).reshape(-1),
    "expand": lambda x: x[None].expand(2, 4, 4),
    "split": lambda x: x.split(2)[0] * x.chunk(2)[1],
    "gather": lambda x: x.gather(0, torch.zeros(1, 4, dtype=torch.int64)),
    "clamp": lambda x: x.clamp(0.3, 0.6),
    "power": lambda x: x**2.5 + 2**x + x**x,
    "divide": lambda x: x / M + 1 / x,
    "maximum": lambda x: torch.maximum(x, M),
    "einsum": lambda x: torch.einsum("ij,jk->ik", x, M),
    "in place": lambda x: x.clone().mul_(2).add_(x),
    "solve": lambda x: torch.linalg.solve(x + 4 * torch.eye(4, dtype=x.dtype), M),
    "cholesky": lambda x: torch.linalg.cholesky(x @ x.T + torch.eye(4, dtype=x.dtype)),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.tensor([0, 1, 2, 3])),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "linear": lambda x: F.gelu(F.linear(x, M, M[0])),
    "max_pool2d": lambda x: F.max_pool2d(x[None, None], 2),
    "detach": lambda x: x * x.detach(),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_vmap_of_grad_is_the_loop_and_second_derivatives_agree(name):
    def s(x):
        y = OPERATIONS[name](x)
        return (y * y.detach().cos()).sum()

    xs = torch.tensor(np.random.default_rng(1).random((3, 4, 4)) * 0.8 + 0.1)
    loop = np.stack([grad(s)(x).numpy() for x in xs])
    np.testing.assert_allclose(vmap(grad(s))(xs).numpy(), loop, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(jacfwd(grad(s))(xs[0]).numpy(), jacrev(grad(s))(xs[0]).numpy(), rtol=1e-8, atol=1e-10)


def _several_views(x):
    y = x.clone().reshape(3, 1)
    z = y.view(-1)
    z[1:].mul_(x[0])
    y[0, 0] = x[2]
    return (y * y).sum() + z[0]


def _transposed(x):
    y = torch.outer(x, x)
    d = y.t()
    d[0].zero_()
    d[1, 2] += x[0]
    return (y * torch.arange(9.0, dtype=x.dtype).reshape(3, 3)).sum()


def _written_base(x):
    y = x.clone()
    v, w = y.unsqueeze(0).expand(2, 3), y[1]
    y.mul_(2)
    return v.sum() * w


def _diagonal(x):
    y = torch.outer(x, x)
    v = y.diagonal()
    y.add_(1)
    return (v * v).sum()


@pytest.mark.parametrize("program", [_several_views, _transposed, _written_base, _diagonal])
def test_views_and_writes_of_traced_tensors(program):
    points = np.random.default_rng(0).random((3, 3))

    def difference(x):
        steps = 1e-6 * np.eye(3)
        return np.array([(program(torch.tensor(x + e)).item() - program(torch.tensor(x - e)).item()) / 2e-6 for e in steps])

    expected = np.array([difference(x) for x in points])
    arrays = lambda a: program(torch.as_tensor(a)).numpy()
    np.testing.assert_allclose(vmap(grad(program))(torch.tensor(points)).numpy(), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(np.array([grad(program)(torch.tensor(x)).numpy() for x in points]), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(np.array([ft.grad(arrays)(x) for x in points]), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(ft.vmap(ft.grad(arrays))(points), expected, rtol=1e-6, atol=1e-6)


def test_jacobians_of_scalars_with_respect_to_scalars():
    x, y = torch.tensor([1.0, 2.0]), torch.tensor(3.0)
    (xx, xy), (yx, yy) = hessian(lambda x, y: (x * x).sum() * y, argnums=(0, 1))(x, y)
    assert xx.tolist() == [[6.0, 0.0], [0.0, 6.0]] and xy.tolist() == yx.tolist() == [2.0, 4.0] and yy.tolist() == 0.0
    assert jacfwd(torch.sin)(y).shape == jacrev(torch.sin)(y).shape == ()


def test_jacobians_of_nothing_are_empty():
    assert jacrev(lambda x: x[:0] * 2)(torch.ones(3)).shape == (0, 3)
    assert jacfwd(lambda x: x.sum() * torch.ones(2))(torch.ones(0)).shape == (2, 0)


def test_a_batch_of_none_is_empty():
    x = torch.zeros(0, 3)
    assert vmap(lambda x: x * 2)(x).shape == (0, 3)
    assert vmap(grad(lambda x: (x**2).sum()))(x).shape == (0, 3)
    assert vmap(lambda x: {"sum": x.sum()}, chunk_size=2)(x)["sum"].shape == (0,)


def test_what_is_given_to_vmap_by_keyword_has_no_batch():
    x, seen = torch.arange(6.0).reshape(3, 2), torch.arange(5.0)
    out = vmap(lambda a, scale, n: a * scale * n["n"])(x, scale=x, n={"n": torch.tensor(2.0)})
    assert out.tolist() == (x[:, None] * x * 2).tolist()
    assert vmap(lambda a, scale: a.sum() * scale, chunk_size=2)(x, scale=seen).shape == (3, 5)


@pytest.mark.parametrize("product", [torch.autograd.functional.hvp, torch.autograd.functional.vhp])
def test_the_value_beside_a_hessian_product_has_the_shape_that_the_function_gave_it(product):
    x = torch.tensor([1.0, 2.0])
    value, found = product(lambda x: (x**3).sum(0, keepdim=True), x, x)
    assert value.tolist() == [9.0] and found.tolist() == [6.0, 24.0]
    value, _ = product(lambda x: (x**3).sum(), x, x, create_graph=True)
    assert type(value.grad_fn).__name__ == "SumBackward0"


@pytest.mark.parametrize("dims", [((0,),), ((0, 0, 0),), ({"a": 0},), ((0, {"a": 0}),)])
def test_dims_that_do_not_fit_the_arguments_are_refused(dims):
    pair = (torch.ones(2), torch.ones(2))
    with pytest.raises(ValueError, match="in_dims is not compatible with the structure of `inputs`"):
        vmap(lambda p: p[0] + p[1], in_dims=dims)(pair)
    with pytest.raises(ValueError, match="out_dims is not compatible with the structure of `outputs`"):
        vmap(lambda a: (a, a), out_dims=dims[0])(pair[0])


def test_random_numbers_raise_where_they_are_drawn_under_vmap():
    x, own = torch.zeros(3), torch.Generator()
    torch.manual_seed(0)
    torch.randn(1)  # of which half a pair is left
    state = torch.get_rng_state()
    for draw in (
        lambda z: z + torch.randn(1),
        lambda z: z + torch.rand(1, generator=own),
        lambda z: z + torch.rand(0).sum(),
        lambda z: vmap(lambda y: y + torch.rand(1), randomness="same")(x).sum() + z,
        lambda z: torch.nn.functional.dropout(z, 0.5),
    ):
        with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
            vmap(draw)(x)
    assert torch.equal(torch.get_rng_state(), state)
    assert vmap(lambda z: (torch.manual_seed(3), z)[1])(x).tolist() == [0.0] * 3


@pytest.mark.parametrize("f", [torch.tanh, torch.exp, torch.log1p, torch.sigmoid, torch.nn.functional.silu, lambda x: x**2.5])
def test_float32_has_the_same_bits_in_a_batch(f):
    """The functions that are computed in float64 for float32 are so in a transform too: PyTorch's tutorials compare by `allclose`."""
    x = (torch.arange(56.0).reshape(8, 7) / 9).requires_grad_()
    f(x).sum().backward()
    assert torch.equal(torch.func.vmap(f)(x.detach()), f(x.detach()))
    assert torch.equal(torch.func.vmap(torch.func.vmap(torch.func.grad(f)))(x.detach()), x.grad)
