"""Rules, constants, branches and recorded programs, each under transforms in both orders."""

import numpy as np
import pytest

import functrace as ft
from functrace.scipy import special

ROWS = np.arange(15.0).reshape(3, 5) / 7 - 1


def over_rows(f, xs):
    return np.stack([f(x) for x in xs])


@pytest.mark.parametrize("nested", [lambda f: f, ft.jit, lambda f: lambda x: ft.vmap(f)(np.stack([x, 2 * x]))[0]])
def test_a_constant_of_a_batch_is_one_for_the_derivative_outside(nested):
    f = nested(lambda x: x * ft.stop_gradient(x * x))
    xs = np.array([0.3, 0.5, -1.0])
    np.testing.assert_array_equal(ft.grad(lambda xs: ft.vmap(f)(xs).sum())(xs), xs * xs)
    np.testing.assert_array_equal(ft.jvp(ft.vmap(f), (xs,), (np.ones(3),))[1], xs * xs)


@ft.custom_vjp
def read_vjp(x, places, keep):
    return np.where(keep, np.take(x, places), 0.0)


def _back(saved, g):
    (size,), places, keep = saved
    return np.bincount(places, np.where(keep, g, 0.0), minlength=5) * (size == 5), None, None


read_vjp.defvjp(lambda x, places, keep: (read_vjp(x, places, keep), (x.shape, places, keep)), _back)


@ft.custom_jvp
def read_jvp(x, places, keep):
    return np.where(keep, np.take(x, places), 0.0)


read_jvp.defjvp(lambda xs, ts: (read_jvp(*xs), np.where(xs[2], np.take(ts[0], xs[1]), 0.0)))
plain = read_jvp.fun
READERS = {"custom_vjp": read_vjp, "custom_jvp": read_jvp, "checkpoint": ft.checkpoint(plain), "jit": ft.jit(plain)}


@pytest.mark.parametrize("places", [[4, 0, 2], [1, 1, 3, 0]], ids=["as many as examples", "more"])
@pytest.mark.parametrize("name", READERS)
def test_an_array_of_integers_is_the_same_for_all_examples(name, places):
    places = np.array(places)
    keep = places != 0
    f = lambda x: np.sum(READERS[name](x, places, keep) * x[0])  # noqa: E731
    g = lambda x: np.sum(plain(x, places, keep) * x[0])  # noqa: E731
    want, slopes = over_rows(g, ROWS), over_rows(ft.grad(g), ROWS)
    np.testing.assert_allclose(ft.vmap(f)(ROWS), want)
    np.testing.assert_allclose(ft.vmap(ft.grad(f))(ROWS), slopes)
    np.testing.assert_allclose(ft.grad(lambda xs: ft.vmap(f)(xs).sum())(ROWS), slopes)
    np.testing.assert_allclose(ft.vmap(ft.vmap(ft.grad(f)))(np.stack([ROWS, 2 * ROWS]))[1], over_rows(ft.grad(g), 2 * ROWS))


def test_a_batched_argument_that_a_rule_does_not_get_is_named():
    scaled = ft.custom_vjp(lambda k, x: x * k, nondiff_argnums=(0,))
    scaled.defvjp(lambda k, x: (x * k, None), lambda k, _, g: (g * k,))
    with pytest.raises(ft.errors.CustomRuleError, match="not one of nondiff_argnums"):
        ft.vmap(lambda k, x: scaled(k, x))(np.ones(3), ROWS)


def grown(x):
    return ft.while_loop(lambda c: c < 50, lambda c: c * 1.5 + x, x + 0.1)


def by_python(x):
    if x <= 1:
        return 2 * x
    c = x + 0.1
    while c < 50:
        c = c * 1.5 + x
    return c


BRANCHES = {
    "cond": lambda x: ft.cond(x > 1, grown, lambda x: 2 * x, x),
    "switch": lambda x: ft.switch((x > 1).astype(int) if hasattr(x, "dtype") else int(x > 1), [lambda x: 2 * x, grown], x),
    "scan": lambda x: ft.scan(lambda c, _: (ft.cond(c > 1, grown, lambda x: 2 * x, c), None), x, None, 1)[0],
}


@pytest.mark.parametrize("name", BRANCHES)
def test_a_loop_in_a_branch_is_differentiated_for_the_steps_that_it_takes(name):
    f, xs = BRANCHES[name], np.array([1.1, 0.5, 3.3, 9.0])
    slopes = over_rows(ft.grad(by_python), xs)
    np.testing.assert_allclose(ft.vmap(ft.grad(f))(xs), slopes)
    np.testing.assert_allclose(ft.vmap(ft.jacfwd(f))(xs), slopes)
    np.testing.assert_allclose(ft.grad(lambda xs: ft.vmap(f)(xs).sum())(xs), slopes)
    for compiled in (ft.jit(ft.grad(f)), ft.jit(ft.jacfwd(f))):
        np.testing.assert_allclose([compiled(x) for x in xs], slopes)
    np.testing.assert_allclose(ft.jit(ft.vmap(ft.grad(f)))(xs), slopes)


def test_a_program_with_python_arithmetic_is_differentiated():
    f = ft.jit(lambda x: np.sum(x * 3.0 + 1) - round(x / 4, 1) * 0.0)
    f(2.0)
    (program,) = f.programs()
    assert program(2.0) == [7.0]
    assert ft.grad(lambda x: program(x)[0])(2.0) == 3.0
    np.testing.assert_array_equal(ft.vmap(lambda x: program(x)[0])(np.ones(2)), [4.0, 4.0])


@pytest.mark.parametrize("n", [0, 3, 300])
def test_products_of_arrays_in_the_other_byte_order(n):
    x = np.arange(4.0 * n).reshape(4, n).astype(">f8") if n < 9 else np.eye(n).astype(">f8")
    f = lambda x: (x @ x.T) @ x  # noqa: E731
    compiled = ft.jit(f)
    for got in (compiled(x), compiled(x), ft.vjp(f, x)[0]):
        assert got.dtype == f(x).dtype
        np.testing.assert_array_equal(got, f(x))


def test_counts_of_traced_integers_are_integers():
    places = np.array([3, 1, 0, 1])
    for f in (np.bincount, lambda x: np.bincount(x, minlength=6)):
        compiled = ft.jit(f)
        for _ in range(2):
            assert compiled(places).dtype == f(places).dtype
            np.testing.assert_array_equal(compiled(places), f(places))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["jv", "beta", "xlogy", "struve"])
def test_a_number_beside_an_array_finds_the_same_loop_again(name, dtype):
    finds_the_same_loop_again(getattr(special, name), np.array([0.3, 1.2], dtype))


@pytest.mark.parametrize("name", ["jv", "xlogy", "kv"])
def test_a_number_beside_a_complex_array_finds_the_same_loop_again(name):
    finds_the_same_loop_again(getattr(special, name), np.array([0.3, 1.2 + 0.5j]))


def finds_the_same_loop_again(function, x):
    want = function(2, x)
    compiled = ft.jit(lambda x: function(2, x))
    for _ in range(2):
        assert compiled(x).dtype == want.dtype
        np.testing.assert_array_equal(compiled(x), want)


def test_a_program_with_an_empty_constant_is_printed():
    f = ft.jit(lambda x: x * np.zeros(0))
    f(np.zeros(0))
    assert "multiply(x, float64[0])" in str(f.programs()[0])


def test_a_rule_in_a_loop_may_call_a_jitted_function():
    inner = ft.jit(lambda x: np.sin(x) * x)
    outer = ft.custom_jvp(lambda x: inner(x))
    outer.defjvp(lambda p, t: ft.jvp(inner, p, t))
    loop = lambda x: ft.scan(lambda c, a: (c + outer(a), None), 0.0, x)[0]  # noqa: E731
    x = np.array([0.5, 1.2, -0.7])
    np.testing.assert_allclose(ft.grad(loop)(x), np.cos(x) * x + np.sin(x))


def _skipping(x, g):
    return (3 * x**2 * g,) if np.any(g) else (np.zeros_like(x),)


@pytest.mark.parametrize("nested", [lambda f: f, ft.jit])
def test_a_rule_that_skips_its_work_for_zeros_is_transposed_with_it(nested):
    backward = ft.custom_vjp(lambda x: x**3)
    backward.defvjp(lambda x: (backward(x), x), _skipping)
    x, t = np.array([1.0, -2.0]), np.array([0.5, 2.0])
    np.testing.assert_array_equal(nested(lambda x, t: ft.jvp(backward, (x,), (t,))[1])(x, t), 3 * x**2 * t)
    np.testing.assert_allclose(nested(ft.hessian(lambda x: np.sum(backward(x) ** 2)))(x), np.diag(30 * x**4))
    np.testing.assert_allclose(nested(ft.vmap(ft.grad(ft.grad(backward))))(x), 6 * x)

    forward = ft.custom_jvp(lambda x, y: x * y)

    @forward.defjvp
    def rule(primals, tangents):
        out = np.zeros(2)
        for t, other in zip(tangents, primals[::-1]):
            if np.any(t):
                out = out + t * other
        return forward(*primals), out

    for k, g in enumerate(nested(ft.grad(lambda x, y: np.sum(forward(x, y)), (0, 1)))(x, t)):
        np.testing.assert_array_equal(g, (t, x)[k])


@pytest.mark.parametrize("cut", [ft.value, ft.stop_gradient, np.sign], ids=["value", "stop_gradient", "sign"])
def test_a_rule_that_cuts_what_it_is_given_has_no_transpose(cut):
    backward = ft.custom_vjp(lambda x: x**2)
    backward.defvjp(lambda x: (backward(x), x), lambda x, g: (2 * x * cut(g),))
    x = np.array([1.0, -2.0])
    np.testing.assert_array_equal(ft.grad(lambda x: np.sum(backward(x)))(x), 2 * x)
    for f in lambda x: ft.jvp(backward, (x,), (x,)), ft.hessian(lambda x: np.sum(backward(x) ** 2)):
        with pytest.raises(ft.errors.CustomRuleError, match="do not depend on the cotangent"):
            f(x)

    forward = ft.custom_jvp(lambda x: x**2)
    forward.defjvp(lambda p, t: (forward(*p), 2 * p[0] * cut(t[0])))
    with pytest.raises(ft.errors.CustomRuleError, match="do not depend on the tangents"):
        ft.grad(lambda x: np.sum(forward(x)))(x)


@pytest.mark.parametrize(
    "bend", [lambda t: t**2, lambda t: t + 1.0, np.exp, lambda t: t * np.sum(t)], ids=["square", "summand", "exp", "product"]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_a_rule_that_is_not_linear_has_no_transpose(bend, dtype):
    x = np.array([1.0, -2.0], dtype)
    backward = ft.custom_vjp(lambda x: x**2)
    backward.defvjp(lambda x: (backward(x), x), lambda x, g: (2 * x * bend(g),))
    forward = ft.custom_jvp(lambda x: x**2)
    forward.defjvp(lambda p, t: (forward(*p), 2 * p[0] * bend(t[0])))
    loss = lambda x: np.sum(np.abs(forward(x)))
    for f in lambda x: ft.jvp(backward, (x,), (x,)), ft.grad(loss), ft.jit(ft.grad(loss)), lambda x: ft.jvp(ft.grad(loss), (x,), (x,)):
        with pytest.raises(ft.errors.CustomRuleError, match="not proportional to the"):
            f(x)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize(
    "linear",
    [
        lambda t: 3 * t,
        lambda t: np.conj(t),
        lambda t: t.real,
        lambda t: np.where(np.arange(t.size) > 0, t, 0),
        lambda t: np.cumsum(t - t[0]),
        lambda t: (t * 0.7 - t * 1.1) + t * 0.4,
    ],
    ids=["scaled", "conjugate", "real", "selected", "cancelled", "nothing but rounding"],
)
def test_a_rule_that_is_linear_in_the_reals_has_one(linear, dtype):
    x = np.random.default_rng(0).normal(size=50).astype(dtype) * dtype(1 if np.dtype(dtype).kind == "f" else 1 + 2j)
    forward = ft.custom_jvp(linear)
    forward.defjvp(lambda p, t: (forward(*p), linear(t[0])))
    ours, theirs = (ft.grad(lambda x, f=f: np.sum(np.abs(f(x) * x[::-1]))) for f in (forward, linear))
    rounding = 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(ours(x), theirs(x), rtol=1e-2 if dtype == np.float16 else 1e-4, atol=rounding)


def test_a_rule_in_plain_numpy_is_told_to_call_its_function():
    compiled = lambda x: np.exp(np.asarray(x))  # noqa: E731
    f = ft.custom_vjp(compiled)
    f.defvjp(lambda x: (compiled(x), x), lambda x, g: (f(x) * g,))
    with pytest.raises(ft.errors.ConversionError) as raised:
        ft.hessian(f)(0.0)
    advice = "Let it call <lambda> itself"
    assert advice in "".join(getattr(raised.value, "__notes__", [advice]))  # Python 3.10 has no notes
    f.defvjp(lambda x: (f(x), x), lambda x, g: (f(x) * g,))
    assert ft.hessian(f)(0.0) == 1.0


def test_a_complex_cotangent_of_a_real_argument_is_told_how_to_be_real():
    f = ft.custom_vjp(lambda x: x * 1j)
    f.defvjp(lambda x: (f(x), None), lambda _, g: (1j * g,))
    with pytest.raises(ft.errors.CustomRuleError, match=r"np\.real\(g\)"):
        ft.grad(lambda x: np.abs(f(x)))(2.0)
