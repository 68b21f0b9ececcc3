"""Programs as people bring them from JAX, autograd and plain NumPy: what they came upon stays mended."""

import numpy as np
import pytest
import scipy.special

import functrace as ft
import functrace.numpy as fnp
from functrace import random
from functrace.errors import JitWarning
from functrace.scipy import special
from tests.helpers import Python

RNG = np.random.default_rng(7)
A, B, OBSERVED = RNG.normal(size=(3, 3)), RNG.normal(size=(3, 4)), np.array([0, 3, 1, 1, 2, 0, 3, 2, 2, 1])
TWO = np.stack([A, 1.1 * A])
LARGE = np.inf

TRANSFORMS = {
    "grad": lambda f: ft.grad(f)(A),
    "hessian": lambda f: ft.hessian(f)(A),
    "jit of grad": lambda f: ft.jit(ft.grad(f))(A),
    "grad of jit": lambda f: ft.grad(ft.jit(f))(A),
    "jit of hessian": lambda f: ft.jit(ft.hessian(f))(A),
    "vmap": lambda f: ft.vmap(f)(TWO),
    "vmap of grad": lambda f: ft.vmap(ft.grad(f))(TWO),
    "jit of vmap of grad": lambda f: ft.jit(ft.vmap(ft.grad(f)))(TWO),
    "grad of vmap": lambda f: ft.grad(lambda a: np.sum(ft.vmap(f)(a)))(TWO),
}


def forward_algorithm(loop):
    """The likelihood of a hidden Markov model: `logsumexp` in a loop, of what the derivative reaches, and of constants."""

    def loss(a):
        transition, emission = special.log_softmax(a, axis=1), special.log_softmax(B, axis=1)

        def step(alpha, symbol):
            alpha = special.logsumexp(alpha[:, None] + transition, axis=0) + emission @ np.eye(4)[:, symbol]
            return alpha, special.logsumexp(transition, axis=0)

        alpha, beside = loop(step, np.zeros(3), OBSERVED)
        return special.logsumexp(alpha) + np.sum(beside**2)

    return loss


def branches_in_a_loop(loop):
    """Each step has a branch of two results, of which the carry needs one, and what comes after the loop the other."""

    def loss(a):
        def step(c, x):
            big, small = ft.cond(c[0] > 0, lambda u: (u * a[0], np.sin(u)), lambda u: (np.cos(u), u * a[1]), x + c)
            return np.tanh(small + c), big

        c, ys = loop(step, np.full(3, 0.1), np.linspace(-1, 1, 27).reshape(9, 3))
        return np.sum(c) + np.sum(ys**2)

    return loss


def factors_in_a_loop(loop):
    def loss(a):
        def step(c, x):
            q, r = np.linalg.qr(a + 3 * np.eye(3) + np.diag(c))
            return np.sin(q @ x), np.diagonal(r)

        c, ys = loop(step, np.full(3, 0.1), np.linspace(-1, 1, 27).reshape(9, 3))
        return np.sum(c) + np.sum(ys**2)

    return loss


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("program", [forward_algorithm, branches_in_a_loop, factors_in_a_loop])
def test_a_scan_is_its_loop(program, transform):
    run = TRANSFORMS[transform]
    np.testing.assert_allclose(run(program(ft.scan)), run(program(Python.scan)), rtol=1e-9, atol=1e-11)


@ft.custom_vjp
def doubled(x):
    return 2 * x


doubled.defvjp(lambda x: (2 * x, None), lambda _, g: (2 * g,))

MADE_INSIDE = {
    "carry": lambda x: ft.scan(lambda c, _: (c * x + 1, None), fnp.zeros(2), None, 3)[0],
    "sequence": lambda x: ft.scan(lambda c, v: (c * x + v, None), 1.0, fnp.ones(3))[0],
    "while": lambda x: ft.while_loop(lambda s: np.sum(s) < 5, lambda s: s + x, fnp.zeros(2)),
    "branch": lambda x: ft.cond(x > 1, lambda v: v * x, lambda v: v + 1, fnp.ones(2)),
    "rule": lambda x: x * doubled(fnp.ones(2)),
    "rule for all": lambda x: doubled(fnp.ones(2)),
    "checkpoint": lambda x: x * ft.checkpoint(lambda v: 2 * v)(fnp.ones(2)),
    "jit": lambda x: x * ft.jit(lambda v: 2 * v)(fnp.ones(2)),
}


@pytest.mark.parametrize("name", MADE_INSIDE)
def test_arrays_made_while_tracing_are_arguments_of_calls(name):
    f, xs = MADE_INSIDE[name], np.array([0.8, 3.0])
    one = [f(x) for x in xs]
    np.testing.assert_allclose(ft.vmap(f)(xs), one)
    np.testing.assert_allclose(ft.vmap(ft.jit(f))(xs), one)
    step = 1e-6
    np.testing.assert_allclose([ft.jacrev(f)(x) for x in xs], [(np.asarray(f(x + step)) - f(x - step)) / (2 * step) for x in xs], atol=1e-6)


@pytest.mark.parametrize("order", [(0, None), (None, 0)])
def test_checkpoint_of_results_that_the_batch_reaches_in_part(order):
    def f(w, c):
        for _ in range(2):
            wide, narrow, place = ft.checkpoint(lambda u, v: (w @ u, np.tanh(u * v), np.argmax(u)))(c, np.sin(c))
            c = 0.3 * wide + narrow + place
        return np.sum(c)

    c = np.array([0.3, 0.1, 0.2])
    args = (TWO, c) if order[0] == 0 else (A, np.stack([c, -c]))
    expected = [ft.grad(f, 1)(*(x if axis is None else x[k] for x, axis in zip(args, order))) for k in range(2)]
    np.testing.assert_allclose(ft.vmap(ft.grad(f, 1), order)(*args), expected)
    both = ft.vmap(ft.vmap(ft.grad(lambda v, w, c: np.sum(v) * f(w, c), 2), (None, 0, None)), (0, None, None))
    np.testing.assert_allclose(both(TWO, TWO, c), [[np.sum(v) * ft.grad(f, 1)(w, c) for w in TWO] for v in TWO])


def test_checkpoint_in_a_batch_finds_another_result():
    noise = np.random.default_rng(0)
    with pytest.raises(ft.errors.CheckpointError):
        ft.vmap(ft.grad(ft.checkpoint(lambda x: np.sum(x * noise.random(3)))))(np.ones((2, 3)))


def test_defjvps_states_a_rule_for_each_argument():
    @ft.custom_jvp
    def f(x, y):
        return {"a": np.sin(x) * y**2, "b": x + y}

    f.defjvps(lambda t, ans, x, y: {"a": np.cos(x) * t * y**2, "b": t}, lambda t, ans, x, y: {"a": 2 * np.sin(x) * y * t, "b": t})
    for k in "ab":
        ours, plain = (lambda x, y, k=k: f(x, y)[k]), (lambda x, y, k=k: f.fun(x, y)[k])
        for order in (lambda g: ft.grad(g, (0, 1)), lambda g: ft.jit(ft.hessian(g, (0, 1))), lambda g: ft.jacfwd(ft.grad(g), (0, 1))):
            np.testing.assert_allclose(order(ours)(0.4, 1.3), order(plain)(0.4, 1.3))
    f.defjvps(None, None)
    assert ft.grad(lambda x: f(x, x)["a"])(1.0) == 0.0
    f.defjvps(None)
    with pytest.raises(ft.errors.CustomRuleError, match="each of the 2 arguments, and got 1"):
        ft.grad(lambda x: f(x, x)["a"])(1.0)


@pytest.mark.parametrize(
    "rows",
    [
        RNG.normal(size=(4, 5)),
        RNG.normal(size=(4, 5)).astype(np.float32),
        1e-20 * RNG.normal(size=(2, 3)),
        np.array([[1e300, -1e300, 0.0], [700.0, 700.0, 3.0]]),
        np.array([[-LARGE] * 3, [LARGE, 1.0, LARGE], [np.nan, 1.0, 2.0], [-LARGE, 1.0, 1.0], [LARGE, -LARGE, 0.0]]),
    ],
)
@pytest.mark.parametrize("axis", [-1, 0, (0, 1)])
def test_logsumexp_is_scipys(rows, axis):
    found = ft.vjp(lambda x: special.logsumexp(x, axis=axis), rows)[0]
    expected = scipy.special.logsumexp(rows, axis=axis)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(found.dtype).eps)


def test_a_table_read_at_two_traced_places():
    table = np.arange(12.0).reshape(3, 4)

    def read(x):
        i = np.floor(x).astype(int)
        return table[i, i + 1] * x

    def taken(x):
        i = np.floor(x).astype(int)
        return fnp.take(table, fnp.ravel_multi_index((i, i + 1), table.shape)) * x

    x = np.array([0.5, 1.5])
    with pytest.warns(JitWarning, match=r"take\(array, x\).*ravel_multi_index\(\(i, j\), array.shape\)"):
        ft.jit(read)(x)
    for f in (ft.vmap(read), ft.vmap(taken), ft.jit(ft.vmap(taken))):  # the first one example at a time
        np.testing.assert_array_equal(f(x), [read(v) for v in x])
    for f in (read, taken):
        np.testing.assert_array_equal(ft.vmap(ft.grad(f))(x), [1.0, 6.0])


def test_keys_in_a_shape():
    key = random.key(0)
    keys = random.split(key, (2, 3))
    np.testing.assert_array_equal(keys.reshape(6, 2), random.split(key, 6))
    assert ft.vmap(ft.vmap(random.normal))(keys).shape == (2, 3)
    with pytest.raises(ft.errors.InputTypeError):
        random.split(key, 2.5)


@pytest.mark.parametrize("x", [1.3, np.array([0.3, -0.4]), A])
def test_elementwise_grad_is_the_gradient_of_the_sum(x):
    def elementwise_grad(f):
        return ft.grad(lambda x: np.sum(f(x)))

    third = elementwise_grad(elementwise_grad(elementwise_grad(np.tanh)))
    t = np.tanh(x)
    np.testing.assert_allclose(third(x), (1 - t**2) * (6 * t**2 - 2), rtol=1e-12)


@pytest.mark.parametrize("transform", [ft.vmap, lambda f: ft.vmap(ft.grad(f)), lambda f: ft.jit(ft.vmap(f))])
def test_a_number_of_a_batch_is_printed_in_its_format(transform, capsys):
    def loss(x):
        print(f"{x:.2f}", f"{2 * x}")
        return x**2

    transform(loss)(np.array([0.125, 3.0]))
    assert capsys.readouterr().out.splitlines()[0] == "[0.12 3.00] [0.25 6.  ]"


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda x: fnp.arange(x[0]), "fix the length"),
        (lambda x: np.polynomial.Polynomial(x)(1.0), r"use functrace\.numpy\.polynomial, which"),
        (np.polynomial.Polynomial([1.0, 2.0]), r"use functrace\.numpy\.polynomial, which"),
        (lambda x: np.c_[x, x], r"use functrace\.numpy\.c_, which"),
        (lambda x: sum(v for _, v in np.ndenumerate(x)), r"loop over np\.ndindex\(x\.shape\)"),
        (lambda x: np.lib.stride_tricks.as_strided(x, (2, 2), (8, 8)), r"use np\.lib\.stride_tricks\.sliding_window_view"),
    ],
)
def test_what_numpy_converts_has_its_remedy(call, remedy):
    with pytest.raises(ft.errors.ConversionError, match=f"Instead {remedy}"):
        ft.grad(lambda x: np.sum(call(x)))(np.ones(3))


CALLS = {
    "jit": ft.jit(lambda y: y + 1),
    "checkpoint": ft.checkpoint(lambda y: y + 1),
    "scan": lambda y: ft.scan(lambda c, _: (c + 1, None), y, None, 1)[0],
    "rule": lambda y: doubled(y) + 1,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_result_of_arrays_made_while_tracing_can_be_written_to(call):
    def f(x):
        z = call(fnp.zeros(2))
        z[0] = x[0]
        return np.sum(z * x)

    x = np.array([3.0, 4.0])
    np.testing.assert_array_equal(ft.grad(f)(x), [6.0, 1.0])
    np.testing.assert_array_equal(ft.vmap(ft.grad(f))(np.stack([x, x])), [[6.0, 1.0]] * 2)
    (_, made), _ = ft.value_and_grad(lambda x: (np.sum(x), ft.checkpoint(lambda x: fnp.zeros(2))(x)), has_aux=True)(x)
    assert type(made) is np.ndarray


def test_what_a_file_can_not_name_is_named(tmp_path):
    rule = ft.custom_vjp(lambda x: x * x)
    rule.defvjp(lambda x: (x * x, x), lambda x, g: (2 * x * g,))
    with pytest.raises(ft.errors.UnsupportedError, match="save: .*custom_vjp.* is not a declared operation"):
        ft.save(tmp_path / "rule.tape", ft.trace(rule)(2.0))


@pytest.mark.parametrize(("name", "reason"), [("view", "bit patterns"), ("strides", "no memory"), ("tobytes", "numbers out")])
def test_an_attribute_that_traced_values_lack_has_its_reason(name, reason):
    def looks(x):
        assert not hasattr(x, name)
        return getattr(x, name)

    for transform in (ft.grad, ft.vmap):
        with pytest.raises(AttributeError, match=f"no {name}: .*{reason}(.|\\n)*functrace.value"):
            transform(looks)(np.ones(2))


def test_a_path_of_einsum_depends_on_the_shapes_alone():
    def chain(a):
        path = np.einsum_path("ij,jk,kl->il", a, a, a)[0]
        return np.einsum("ij,jk,kl->il", a, a, a, optimize=path)

    a = np.arange(12.0).reshape(3, 2, 2)
    np.testing.assert_allclose(ft.vmap(chain)(a), a @ a @ a)
    np.testing.assert_allclose(ft.jit(ft.jacobian(chain))(a[1]), ft.jacobian(lambda a: a @ a @ a)(a[1]))


def test_a_try_around_a_loop_does_not_unroll_it():
    def rolled(a):
        return np.sum(ft.scan(lambda c, k: (np.tanh(c @ a) + a[:, k], None), np.ones(3), np.arange(20) % 3)[0])

    try:
        assert len(ft.trace(rolled)(A).entries) < 20
        compiled = ft.jit(ft.grad(rolled))
        compiled(A)
    finally:
        assert len(compiled.programs()[0].instructions) < 50
