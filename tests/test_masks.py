"""No NaN from the branch not taken: in reverse, forward and second order; and a true 0 * nan stays NaN."""

import warnings

import numpy as np
import pytest

import functrace as ft
from functrace.ops.registry import TABLE
from tests.helpers import of_numpy

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in (sqrt|log|divide|power|arccos|multiply|exp|arcsin):RuntimeWarning")


def placed(x):
    y = np.sqrt(x)
    y[x <= 0] = 0.0
    return y.sum()


# (function of a vector, where, gradient, diagonal of the Hessian)
CASES = {
    "where": (lambda x: np.where(x > 0, np.sqrt(x), 0).sum(), [0.0, 4.0, -1.0], [0, 0.25, 0], [0, -1 / 32, 0]),
    "where, the other branch": (lambda x: np.where(x >= 0, x, np.sqrt(-x)).sum(), [1.0, 0.0, -4.0], [1, 1, -0.25], [0, 0, -1 / 32]),
    "where, finite first derivative": (lambda x: np.where(x > 0, x**1.5, 0).sum(), [0.0, 4.0], [0, 3], [0, 0.375]),
    "sinc by hand": (lambda x: np.where(x == 0, 1.0, np.sin(x) / x).sum(), [0.0, np.pi], [0, -1 / np.pi], [0, 2 / np.pi**2]),
    "softplus by hand": (lambda x: np.where(x > 30, x, np.log1p(np.exp(x))).sum(), [1000.0, 0.0], [1, 0.5], [0, 0.25]),
    "select": (lambda x: np.select([x > 0, x < -1], [np.log(x), x * x], 0.0).sum(), [0.0, 2.0, -2.0], [0, 0.5, -4], [0, -0.25, 2]),
    "piecewise": (lambda x: np.piecewise(x, [x > 0], [np.sqrt, lambda x: 3 * x]).sum(), [0.0, 4.0], [3, 0.25], [0, -1 / 32]),
    "an element": (lambda x: np.sqrt(x)[-1], [0.0, 4.0], [0, 0.25], [0, -1 / 32]),
    "a slice": (lambda x: np.sqrt(x)[1:].sum(), [0.0, 4.0], [0, 0.25], [0, -1 / 32]),
    "indices": (lambda x: np.sqrt(x)[[1, 1]].sum(), [0.0, 4.0], [0, 0.5], [0, -1 / 16]),
    "a mask": (lambda x: np.sqrt(x)[x > 0].sum(), [0.0, 4.0], [0, 0.25], [0, -1 / 32]),
    "compress": (lambda x: np.compress([False, True], np.sqrt(x)).sum(), [0.0, 4.0], [0, 0.25], [0, -1 / 32]),
    "take_along_axis": (lambda x: np.take_along_axis(np.sqrt(x), np.array([1]), 0).sum(), [0.0, 4.0], [0, 0.25], [0, -1 / 32]),
    "max": (lambda x: np.sqrt(x).max(), [0.0, 4.0], [0, 0.25], [0, -1 / 32]),
    "min": (lambda x: (-np.sqrt(x)).min(), [0.0, 4.0], [0, -0.25], [0, 1 / 32]),
    "maximum": (lambda x: np.maximum(np.sqrt(x), 1.0).sum(), [0.0, 4.0], [0, 0.25], [0, -1 / 32]),
    "minimum": (lambda x: np.minimum(-np.sqrt(x), -1.0).sum(), [0.0, 4.0], [0, -0.25], [0, 1 / 32]),
    "fmax": (lambda x: np.fmax(np.sqrt(x), 1.0).sum(), [-1.0, 4.0], [0, 0.25], [0, -1 / 32]),
    "clip": (lambda x: np.clip(np.sqrt(x), 1.0, 3.0).sum(), [0.0, 4.0, 16.0], [0, 0.25, 0], [0, -1 / 32, 0]),
    "copysign": (lambda x: np.copysign(x, np.sqrt(x)).sum(), [0.0, 4.0], [0, 1], [0, 0]),
    "heaviside": (lambda x: (x * np.heaviside(np.sqrt(x), 1.0)).sum(), [0.0, 4.0], [1, 1], [0, 0]),
    "sort": (lambda x: np.sort(np.sqrt(x))[-1], [0.0, 4.0], [0, 0.25], [0, -1 / 32]),
    "median": (lambda x: np.median(np.sqrt(x)), [0.0, 4.0, 9.0], [0, 0.25, 0], [0, -1 / 32, 0]),
    "nansum": (lambda x: np.nansum(np.sqrt(x)), [-1.0, 4.0], [0, 0.25], [0, -1 / 32]),
    "nanmean": (lambda x: np.nanmean(np.sqrt(x)), [-1.0, 4.0], [0, 0.25], [0, -1 / 32]),
    "nanmax": (lambda x: np.nanmax(np.sqrt(x)), [-1.0, 4.0, 0.0], [0, 0.25, 0], [0, -1 / 32, 0]),
    "nanprod": (lambda x: np.nanprod(np.sqrt(x)), [-1.0, 4.0], [0, 0.25], [0, -1 / 32]),
    "sum where=": (lambda x: np.sum(np.sqrt(x), where=x > 0), [0.0, 4.0], [0, 0.25], [0, -1 / 32]),
    "masked assignment": (placed, [0.0, 4.0, -1.0], [0, 0.25, 0], [0, -1 / 32, 0]),
    ".at": (lambda x: np.sqrt(x).at[x <= 0].set(0.0).sum(), [0.0, 4.0], [0, 0.25], [0, -1 / 32]),
    "through reshape, sum and concatenate": (
        lambda x: np.concatenate([np.sqrt(x).reshape(2, 1).sum(1), x])[1:].sum(), [0.0, 4.0], [1, 1.25], [0, -1 / 32],
    ),
    "through a matrix product": (lambda x: np.where(x > 0, np.sqrt(x), 0) @ np.array([1.0, 2.0]), [0.0, 4.0], [0, 0.5], [0, -1 / 16]),
    "a norm": (lambda x: np.where(x > 0, np.sqrt(x * x), 0).sum(), [0.0, 2.0], [0, 1], [0, 0]),
    "the square root of what where gave": (lambda x: np.sqrt(np.where(x > 0, x, 0.0)).sum(), [-1.0, 4.0], [0, 0.25], [0, -1 / 32]),
    "arccos": (lambda x: np.where(abs(x) < 1, np.arccos(x), 0).sum(), [1.0, 0.0], [0, -1], [0, 0]),
    "in a checkpoint": (lambda x: ft.checkpoint(lambda x: np.where(x > 0, np.sqrt(x), 0))(x).sum(), [0.0, 4.0], [0, 0.25], [0, -1 / 32]),
    "in vmap": (lambda x: ft.vmap(lambda x: np.where(x > 0, np.sqrt(x), 0))(x).sum(), [0.0, 4.0], [0, 0.25], [0, -1 / 32]),
    "of a checkpoint": (lambda x: np.where(x > 0, ft.checkpoint(np.sqrt)(x), 0).sum(), [0.0, 4.0], [0, 0.25], [0, -1 / 32]),
    "of a jitted function": (lambda x: np.where(x > 0, ROOT(x), 0).sum(), [0.0, 4.0], [0, 0.25], [0, -1 / 32]),
    "of a scan": (
        lambda x: np.where(x > 0, ft.scan(lambda c, _: (c + np.sqrt(x), None), 0 * x, length=2)[0], 0).sum(),
        [0.0, 4.0], [0, 0.5], [0, -1 / 16],
    ),
    "in a reversed scan": (
        lambda x: ft.scan(lambda c, u: (c + np.where(u > 0, np.sqrt(u), 0) * u, None), 0.0, x, reverse=True)[0],
        [0.0, 4.0, 1.0], [0, 3, 1.5], [0, 3 / 8, 3 / 4],
    ),
    "of the results of a reversed scan": (
        lambda x: np.where(x > 0, ft.scan(lambda c, u: (c, np.sqrt(u)), 0.0, x, reverse=True)[1], 0) @ np.array([1.0, 2.0]),
        [0.0, 4.0], [0, 0.5], [0, -1 / 16],
    ),
    "of a while loop": (
        lambda x: np.where(x > 0, ft.while_loop(lambda v: v[0] < 2, lambda v: (v[0] + 1, v[1] + np.sqrt(x)), (0, 0 * x))[1], 0).sum(),
        [0.0, 4.0], [0, 0.5], [0, -1 / 16],
    ),
    "of a cond": (
        lambda x: ft.vmap(lambda x: np.where(x > 0, ft.cond(x > -1, np.sqrt, np.negative, x), 0))(x).sum(),
        [0.0, 4.0, -2.0], [0, 0.25, 0], [0, -1 / 32, 0],
    ),
    "in a cotangent rule by hand": (lambda x: _pulled(x).sum(), [0.0, 4.0, -1.0], [0, 0.25, 0], [0, -1 / 32, 0]),
    "in a tangent rule by hand": (lambda x: _pushed(x).sum(), [0.0, 4.0, -1.0], [0, 0.25, 0], [0, -1 / 32, 0]),
    "a result of a jitted function": (lambda x: ft.jit(_root_and_square)(x)[1].sum(), [0.0, 4.0], [0, 8], [2, 2]),
    "a result of a checkpoint": (lambda x: ft.checkpoint(_root_and_square)(x)[1].sum(), [0.0, 4.0], [0, 8], [2, 2]),
    "an argument of a jitted function": (lambda x: ft.jit(lambda x, y: x * x)(x, np.sqrt(x)).sum(), [0.0, 4.0], [0, 8], [2, 2]),
    "an argument of a checkpoint": (lambda x: ft.checkpoint(lambda x, y: x * x)(x, np.sqrt(x)).sum(), [0.0, 4.0], [0, 8], [2, 2]),
    "the carry of a scan": (
        lambda x: ft.scan(lambda c, _: ((np.sqrt(c[0]), c[1] * x), None), (x, x), length=1)[0][1].sum(), [0.0, 4.0], [0, 8], [2, 2],
    ),
    "the carry of a loop": (
        lambda x: ft.fori_loop(0, 1, lambda _, c: (np.sqrt(c[0]), c[1] * x), (x, x))[1].sum(), [0.0, 4.0], [0, 8], [2, 2],
    ),
    "the carry of a while loop": (
        lambda x: ft.while_loop(lambda c: c[2] < 1, lambda c: (np.sqrt(c[0]), c[1] * x, c[2] + 1), (x, x, 0))[1].sum(),
        [0.0, 4.0], [0, 8], [2, 2],
    ),
}  # fmt: skip
ROOT = ft.jit(np.sqrt)


def _root_and_square(x):
    return np.sqrt(x), x * x


def _root(x):
    return np.where(x > 0, np.sqrt(x), 0)


_pulled, _pushed = ft.custom_vjp(_root), ft.custom_jvp(_root)
_pulled.defvjp(lambda x: (_root(x), x), lambda x, g: ft.vjp(_root, x)[1](g))
_pushed.defjvp(lambda x, t: (_root(x[0]), np.where(x[0] > 0, t[0] / (2 * np.sqrt(x[0])), 0)))


@pytest.mark.parametrize("name", CASES)
def test_first_order(name):
    f, x, gradient, _ = CASES[name]
    x = np.array(x)
    np.testing.assert_allclose(ft.grad(f)(x), gradient, atol=1e-12)
    np.testing.assert_allclose(ft.vjp(f, x)[1](1.0)[0], gradient, atol=1e-12)
    np.testing.assert_allclose(ft.jacfwd(f)(x), gradient, atol=1e-12)
    np.testing.assert_allclose(ft.jacrev(f)(x), gradient, atol=1e-12)
    np.testing.assert_allclose(ft.jvp(f, (x,), (np.ones(len(x)),))[1], np.sum(gradient), atol=1e-12)
    np.testing.assert_allclose(ft.vmap(ft.grad(f))(np.stack([x, x])), [gradient, gradient], atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_second_order(name):
    f, x, _, second = CASES[name]
    x = np.array(x)
    off = f is CASES["nanprod"][0]
    for hessian in (ft.hessian, lambda f: ft.jacrev(ft.grad(f)), lambda f: ft.jacfwd(ft.jacfwd(f)), lambda f: ft.jacrev(ft.jacfwd(f))):
        out = hessian(f)(x)
        np.testing.assert_allclose(np.diag(out), second, atol=1e-12)
        assert off or not (out - np.diag(np.diag(out))).any()


def test_third_order():
    assert ft.grad(ft.grad(ft.grad(lambda x: np.where(x > 0, x**2.5, x))))(0.0) == 0.0


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (0 * np.log(x)).sum(),
        lambda x: (np.sqrt(x) * np.zeros(2)).sum(),
        lambda x: np.where(x >= 0, 0 * np.log(x), 0).sum(),
        lambda x: np.sum(np.sqrt(x) @ np.zeros(2)),
        lambda x: np.sum(0 * ft.jit(np.sqrt)(x)),
        lambda x: np.sum(0 * ft.checkpoint(np.sqrt)(x)),
        lambda x: 0 * ft.scan(lambda c, u: (c, np.sqrt(u)), 0.0, x)[1].sum(),
    ],
)
def test_a_true_zero_times_infinity_stays_nan(f):
    assert np.isnan(ft.grad(f)(np.array([0.0, 1.0]))[0])


def test_a_nan_that_was_selected_stays():
    np.testing.assert_array_equal(ft.grad(lambda x: np.where(x > 0, x * np.nan, x).sum())(np.array([1.0, -1.0])), [np.nan, 1.0])


def test_an_infinite_derivative_stays_infinite():
    assert ft.grad(lambda x: np.sqrt(x)[0])(np.array([0.0, 1.0]))[0] == np.inf


def test_it_costs_nothing_where_all_is_finite(monkeypatch):
    from functrace.transforms import masks

    monkeypatch.setattr(masks, "MaskTrace", None)  # would fail if one were made
    assert ft.grad(lambda x: np.where(x > 0, np.sqrt(x), 0).sum())(np.array([4.0]))[0] == 0.25


def test_the_replay_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(ft.grad(lambda x: np.where(x > 0, np.sqrt(abs(x)), 0).sum())(np.array([0.0, 4.0])), [0.0, 0.25])


def test_a_custom_rule_gets_a_plain_cotangent():
    double = ft.custom_vjp(lambda x: 2 * x)
    double.defvjp(lambda x: (2 * x, None), lambda _, g: (2 * np.asarray(g),))
    f = lambda x: double(np.where(x > 0, np.sqrt(x), 0)).sum()
    np.testing.assert_array_equal(ft.grad(f)(np.array([0.0, 4.0])), [0.0, 0.5])


@pytest.mark.parametrize("x", [0.0, np.nan, np.float32(0.0)])
@pytest.mark.parametrize("f", [np.sqrt, lambda x: np.log(x * x), lambda x: np.maximum(x, 0) * np.nan, lambda x: np.where(x > 0, x, x / 0)])
def test_a_derivative_that_is_not_finite_is_a_scalar_too(f, x):
    with np.errstate(all="ignore"):
        for g in (ft.grad(f), ft.jit(ft.grad(f))):
            for out in ft.tree.leaves((g(x), g(x))):
                assert type(out) is (np.float32 if type(x) is np.float32 else np.float64)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype, size", [(np.float32, 1e30), (float, 1e200), (complex, 1e200)])
def test_the_look_for_nan_says_nothing_of_large_gradients(dtype, size):
    with np.errstate(all="raise"):
        gradient = ft.grad(lambda x: np.sum(x.real) * dtype(size).real)(np.ones(3, dtype))
    np.testing.assert_array_equal(gradient, np.full(3, size, dtype))


DIFFERENTIABLE = sorted(name for name, declared in of_numpy(TABLE).items() if not declared.constant)


def total(out):
    return sum(np.sum(np.real(y)) for y in ft.tree.leaves(out) if getattr(y, "dtype", np.dtype(int)).kind in "fc")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_what_was_never_selected_sends_nothing_through_any_op(name):
    """The op's argument is moved by `sqrt` of zeros, whose derivative is infinite; its result is thrown away."""
    function, samples = TABLE[name].function, TABLE[name].samples
    for sample in samples:
        args = sample.args(np.random.default_rng(0))
        for k in sample.wrt:

            def f(zeros, k=k, args=args, kwargs=sample.kwargs):
                moved = ft.tree.map(lambda a, z: a + np.sqrt(z), args[k], zeros)
                return np.where(total(zeros) > 0, total(function(*args[:k], moved, *args[k + 1 :], **kwargs)), 0.0)

            zeros = ft.tree.map(lambda a: np.zeros(np.shape(a)), args[k])
            pushed = ft.jvp(f, (zeros,), (ft.tree.map(np.ones_like, zeros),))[1]
            for got in (*ft.tree.leaves(ft.grad(f)(zeros)), pushed):
                np.testing.assert_array_equal(got, 0.0)


A = np.array([[1.0, 2.0], [3.0, 4.0]])


def test_products_with_other_numbers_keep_apart_what_was_selected():
    np.testing.assert_array_equal(ft.grad(lambda x: np.where(x.sum() > 0, (A @ np.sqrt(x)).sum(), 0.0))(np.zeros(2)), [0.0, 0.0])
    rows_ok, x = np.array([True, False]), np.array([[1.0, 4.0], [0.0, 0.0]])
    got = ft.grad(lambda x: np.where(rows_ok[:, None], np.sqrt(x) @ A, 0).sum())(x)
    np.testing.assert_allclose(got, [A.sum(1) / (2 * np.sqrt(x[0])), [0.0, 0.0]])
    assert np.isnan(ft.grad(lambda x: (np.sqrt(x) @ np.array([0.0, 1.0])).sum())(np.zeros(2))[0])  # 0 * inf


def slope_of(x):
    return ft.grad(lambda y: np.where(y > 0, y**1.5, 0.0).sum())(x)


def test_a_second_pull_is_at_the_first_point():
    x = np.array([0.0, 1.0, 4.0])
    out, pull = ft.vjp(slope_of, x)
    _, push = ft.linearize(lambda p: slope_of(p["x"]), {"x": x})
    for values in (x, [0.0, 9.0, 16.0], np.nan):
        x[:] = values
        out[:] = 7
        assert np.allclose(pull(np.ones(3))[0], [0, 0.75, 0.375])
        assert np.allclose(push({"x": np.ones(3)}), [0, 0.75, 0.375])


def test_a_function_that_gives_something_else_when_run_for_its_masks_raises():
    rng, w, x = np.random.default_rng(0), np.ones(3), np.array([0.0, 1.0, 4.0])

    def writes(x, s):
        s += 1.0
        return (s * np.where(x > 0, np.sqrt(x), 0)).sum()

    _, pull = ft.vjp(lambda x: w * slope_of(x), x)
    w[:] = 2
    again = pytest.raises(ft.errors.MutatedError, match=r"(?s)gave another result.*test_masks.py.*draws random numbers")
    with again:
        pull(np.ones(3))
    with again:
        ft.grad(lambda x: (rng.normal(size=3) * np.where(x > 0, np.sqrt(x), 0)).sum())(x)
    with again:
        ft.value_and_grad(writes)(x, np.zeros(3))
    nan = ft.grad(lambda x: rng.normal() * np.sqrt(x).sum() * np.nan)(x)  # not finite both times
    assert np.isnan(nan).all()
