"""The traps of autodiff, each a test named after it. Reports of the peers: docs give the numbers.

A trap whose test stands in another file is named in TRAPS.
"""

import asyncio
import gc
import itertools
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from helpers import differences

import functrace as ft
import functrace.numpy as fnp
from functrace import errors

exact = np.testing.assert_array_equal


def both(f, x):
    """The gradient of a scalar function, which must agree with its forward mode."""
    g = ft.grad(f)(x)
    x = np.asarray(x, float)
    for k in range(x.size):
        t = np.zeros(x.shape)
        t.flat[k] = 1.0
        out = ft.jvp(f, (x,), (t,))[1]
        assert np.array_equal(out, np.ravel(g)[k], equal_nan=True), f"forward {out}, reverse {np.ravel(g)[k]}"
    return g


# Kinks, zeros, infinities


@pytest.mark.parametrize("f", [np.maximum, np.minimum, np.fmax, np.fmin])
def test_ties_of_two_arguments_share(f):
    for reverse in (ft.grad(lambda x, y: f(x, y), (0, 1))(1.0, 1.0), ft.grad(lambda x, y: f(y, x), (0, 1))(1.0, 1.0)):
        assert reverse == (0.5, 0.5)
    assert ft.jvp(f, (1.0, 1.0), (1.0, 0.0))[1] == 0.5
    assert both(lambda x: f(x, 1.0), 1.0) == 0.5
    assert both(lambda x: f(x, x), 1.0) == 1.0
    exact(both(lambda x: f(x, np.zeros(3)).sum(), np.zeros(3)), [0.5] * 3)


@pytest.mark.parametrize(
    "f", [np.max, np.min, np.amax, lambda x: x.max(), lambda x: np.max(x, axis=0), lambda x: x.min(axis=-1, keepdims=True).sum()]
)
def test_ties_in_a_reduction_share(f):
    exact(both(f, np.array([2.0, 2.0, 2.0, 2.0])), [0.25] * 4)
    assert both(f, np.array([1.0, 2.0, 1.0])).sum() == 1.0


def test_ties_two_ways_of_relu():
    assert both(lambda x: np.maximum(x, 0), 0.0) == 0.5
    exact(ft.vmap(ft.grad(lambda x: np.maximum(x, 0.0)))(np.array([-1.0, 0.0, 1.0])), [0.0, 0.5, 1.0])


def test_clip_equals_minimum_of_maximum():
    for x in (-1.0, 0.0, 0.5, 1.0, 2.0):
        assert both(lambda x: np.clip(x, 0.0, 1.0), x) == both(lambda x: np.minimum(np.maximum(x, 0.0), 1.0), x)


def test_kinks_at_zero():
    for f in (np.abs, np.fabs, abs, np.absolute):
        assert both(f, 0.0) == 0.0
        assert both(f, -2.0) == -1.0
    assert both(np.sign, 0.0) == 0.0
    exact(both(lambda x: np.abs(x).sum(), np.array([-1.0, 0.0, 2.0])), [-1.0, 0.0, 1.0])


def test_the_same_variable_twice_under_max():
    assert both(lambda x: np.max(np.stack([x, x])), 3.0) == 1.0
    assert both(lambda x: np.maximum(x, x), 3.0) == 1.0
    assert both(lambda x: fnp.array([x, x, x]).max(), 3.0) == 1.0


def test_norms_at_zero():
    exact(both(lambda x: np.hypot(x[0], x[1]), np.zeros(2)), [0.0, 0.0])
    exact(both(lambda x: np.hypot(x[0], x[1]), np.array([3.0, 4.0])), [0.6, 0.8])
    z = ft.grad(lambda z: np.abs(z))(0j)
    assert z == 0


def test_norm_at_zero():
    exact(both(lambda x: np.linalg.norm(x), np.zeros(3)), np.zeros(3))
    np.testing.assert_allclose(ft.grad(lambda x: np.linalg.norm(x))(np.array([3.0, 4.0])), [0.6, 0.8])


def test_std_of_equal_numbers():
    exact(both(lambda x: np.std(x), np.ones(3)), np.zeros(3))


def test_sqrt_at_zero_never_divides_by_zero_as_python_does():
    with np.errstate(all="ignore"):
        for x in (0.0, 0, np.float64(0)):
            assert np.isinf(ft.grad(np.sqrt)(x))
            assert not np.isfinite(ft.grad(lambda x: np.sqrt(x) ** 2)(x))
            assert np.isinf(ft.grad(lambda x: 1 / x)(x))
            assert np.isinf(ft.grad(np.log)(x))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 0.0, 2.0, 3.0, np.int64(2), np.float64(3)])
def test_powers_at_zero(n):
    """d/dx x**n at 0, to order 4."""
    f = lambda x: x**n  # noqa: E731
    for order in range(1, 5):
        f = ft.grad(f)
        want = np.prod([float(n) - k for k in range(order)]) if n == order else 0.0
        assert f(0.0) == want, f"order {order}"


def test_powers_at_one_and_below_zero():
    assert both(lambda x: x**3, -2.0) == 12.0
    assert both(lambda x: x**-1, 2.0) == -0.25
    assert both(lambda x: np.power(x, 2), -3.0) == -6.0
    with np.errstate(all="ignore"):
        assert np.isnan(ft.grad(lambda x: x**0.5)(-1.0))
    x = np.array([-2.0, 0.0, 3.0])
    exact(both(lambda x: (x ** np.array([2, 0, 1])).sum(), x), [-4.0, 0.0, 1.0])


def test_powers_of_zero_by_the_exponent():
    assert ft.grad(lambda b: 0.0**b)(2.0) == 0.0
    assert ft.grad(lambda b: np.power(0.0, b))(2.0) == 0.0
    assert ft.grad(lambda a, b: a**b, 1)(0.0, 2.0) == 0.0
    with np.errstate(all="raise"):  # the logarithm is taken only where the base is positive
        exact(ft.grad(lambda b: (np.array([0.0, 1.0, np.e]) ** b).sum())(np.full(3, 2.0)), [0.0, 0.0, np.e**2])
    x = ft.grad(lambda x: x**x)(2.0)
    np.testing.assert_allclose(x, 4 * (1 + np.log(2)))
    np.testing.assert_allclose(ft.grad(ft.grad(lambda b: 2.0**b))(3.0), 8 * np.log(2) ** 2)


@pytest.mark.parametrize("op", [np.power, np.float_power])
def test_the_mixed_derivative_of_a_power_whose_exponent_is_zero(op):
    """d/da d/db a**b = a**(b - 1) * (1 + b * log(a)), which at b = 0 is 1 / a."""
    want = np.array([[0.0, 0.4], [0.4, np.log(2.5) ** 2]])
    f = lambda v: op(v[0], v[1])  # noqa: E731
    v = np.array([2.5, 0.0])
    for h in (ft.hessian(f), ft.jacrev(ft.grad(f)), ft.jacrev(ft.jacfwd(f)), ft.jit(ft.hessian(f)), ft.jit(ft.jacrev(ft.grad(f)))):
        np.testing.assert_allclose(h(v), want, rtol=1e-12)
    for a in (np.nan, 0.0, 1e-320):  # d/da a**0 is 0, also where it is recorded that the exponent may be another
        assert ft.jit(ft.grad(op))(a, np.zeros(())) == 0.0


@pytest.mark.parametrize("x", [[2.0, 3.0, 4.0], [2.0, 0.0, 4.0], [0.0, 0.0, 4.0], [0.0, 0.0, 0.0]])
def test_prod_with_zeros(x):
    x = np.array(x)
    want = np.array([np.prod(np.delete(x, k)) for k in range(3)])
    exact(both(np.prod, x), want)
    h = ft.hessian(np.prod)(x)
    exact(h, [[0.0 if i == j else np.prod(np.delete(x, [i, j])) for j in range(3)] for i in range(3)])
    third = ft.jacfwd(ft.hessian(np.prod))(x)
    exact(third, [[[1.0 if len({i, j, k}) == 3 else 0.0 for k in range(3)] for j in range(3)] for i in range(3)])


@pytest.mark.parametrize("x", [[2.0, 3.0, 4.0], [2.0, 0.0, 4.0], [0.0, 0.0, 4.0]])
def test_cumprod_with_zeros(x):
    x = np.array(x)
    got = ft.jacrev(np.cumprod)(x)
    want = [[np.prod(np.delete(x[: i + 1], j)) if j <= i else 0.0 for j in range(3)] for i in range(3)]
    exact(got, want)
    exact(ft.jacfwd(np.cumprod)(x), want)
    w = np.array([1.0, 10.0, 100.0])
    h = ft.hessian(lambda x: np.cumprod(x) @ w)(x)
    np.testing.assert_allclose(
        h, np.stack([differences(lambda y: ft.grad(lambda z: np.cumprod(z) @ w)(y)[k], x) for k in range(3)]), atol=1e-7
    )


def test_logaddexp_at_minus_infinity_and_ties():
    inf = np.inf
    with np.errstate(all="raise"):
        assert ft.grad(np.logaddexp, (0, 1))(-inf, -inf) == (0.0, 0.0)
        assert ft.grad(np.logaddexp, (0, 1))(-inf, 1.0) == (0.0, 1.0)
        assert ft.grad(np.logaddexp, (0, 1))(1.0, -inf) == (1.0, 0.0)
        assert ft.grad(np.logaddexp, (0, 1))(inf, 1.0) == (1.0, 0.0)
        assert ft.grad(np.logaddexp, (0, 1))(2.0, 2.0) == (0.5, 0.5)
    with np.errstate(under="ignore"):
        assert ft.grad(np.logaddexp, (0, 1))(0.0, -1000.0) == (1.0, 0.0)
    assert both(lambda x: np.logaddexp(x, x), 3.0) == 1.0
    np.testing.assert_allclose(ft.grad(ft.grad(lambda x: np.logaddexp(x, 0.0)))(0.0), 0.25)
    np.testing.assert_allclose(
        ft.grad(ft.grad(lambda x: np.logaddexp(x, 1.0)))(0.5), differences(ft.grad(lambda x: np.logaddexp(x, 1.0)), 0.5)
    )


def test_sinc_at_zero():
    assert both(np.sinc, 0.0) == 0.0
    np.testing.assert_allclose(ft.grad(ft.grad(np.sinc))(0.0), -(np.pi**2) / 3, rtol=1e-6)


def test_arctan2_at_the_origin_and_far_out():
    exact(ft.grad(np.arctan2, (0, 1))(0.0, 0.0), (0.0, 0.0))
    for scale in (1e-200, 1e-300, 1e200, 1e300):
        y, x = ft.grad(np.arctan2, (0, 1))(3 * scale, 4 * scale)
        np.testing.assert_allclose((y * scale, x * scale), (4 / 25, -3 / 25), rtol=1e-12)


def law(name):
    return getattr(pytest.importorskip("functrace.scipy.stats"), name)


INF, TIED = np.inf, np.diag([1.0, 1.0, 2.0])
KINKS = {  # the rows of docs/conventions.md: a function, where, and its derivative
    "`max`, `min`": (lambda x: np.max(x) + 3 * np.min(-x), [1.0, 3.0, 3.0], [0.0, -1.0, -1.0]),
    "`maximum`, `minimum`, `fmax`, `fmin`": (lambda x: np.maximum(x[0], x[1]) + 3 * np.fmin(x[1], x[2]), [2.0, 2.0, 2.0], [0.5, 2.0, 1.5]),
    "`maximum.accumulate`, `minimum.accumulate`": (lambda x: np.maximum.accumulate(x)[2], [2.0, 1.0, 2.0], [0.5, 0.0, 0.5]),
    "`clip`": (lambda x: np.clip(x, 0.0, 1.0).sum(), [-1.0, 0.0, 0.3, 1.0, 2.0], [0.0, 0.5, 1.0, 0.5, 0.0]),
    "`abs`, `fabs`": (lambda x: (np.abs(x) + np.fabs(x)).sum(), [0.0, -1.0], [0.0, -2.0]),
    "`nn.relu`, `nn.relu6`, `nn.hard_tanh`, `nn.leaky_relu`": (
        lambda x: ft.nn.relu(x[0]) + ft.nn.relu6(x[1]) + ft.nn.hard_tanh(x[2]) + ft.nn.leaky_relu(x[3]),
        [0.0, 6.0, -1.0, 0.0],
        [0.0, 0.0, 0.0, 0.01],
    ),
    "`sign`, `floor`, `round`, `astype(int)`, comparisons": (
        lambda x: (np.sign(x) + np.floor(x) + np.round(x) + x.astype(int) + (x > 1)).sum(),
        [0.0, 1.0, 2.5],
        [0.0, 0.0, 0.0],
    ),
    "`linalg.norm`, `hypot`, `std`, complex `abs`": (
        lambda x: np.linalg.norm(x) + np.hypot(x[0], x[1]) + np.std(x) + np.abs(x[0] * 1j),
        [0.0, 0.0],
        [0.0, 0.0],
    ),
    "`arctan2`, `angle`": (lambda x: np.arctan2(x[0], x[1]) + np.angle(x[0] + 1j * x[1]), [0.0, 0.0], [0.0, 0.0]),
    "`sort`, `median`, `quantile`": (lambda x: np.sort(x)[0] + np.quantile(x, 0.5) + np.median(x), [1.0, 1.0, 1.0], [1.0, 2.0, 0.0]),
    "`x[np.argmax(x)]`": (lambda x: x[np.argmax(x)], [1.0, 3.0, 3.0], [0.0, 1.0, 0.0]),
    "`unique`, `union1d`, `intersect1d`": (
        lambda x: (np.unique(x) + np.union1d(x, x) + np.intersect1d(x, np.ones(1))).sum(),
        [1.0, 1.0],
        [3.0, 0.0],
    ),
    "`interp`; `quantile` in `q`": (
        lambda x: np.interp(x, [0.0, 1.0, 2.0], [0.0, 1.0, 4.0]).sum() + np.quantile(np.array([0.0, 1.0, 4.0]), x[1] / 2),
        [0.5, 1.0],
        [1.0, 6.0],
    ),
    "`eigh`, `svd`: values": (
        lambda x: np.linalg.eigvalsh(TIED * x[0] + x[1] * np.eye(3)).sum() + np.linalg.svd(np.eye(2) * x[0])[1].sum(),
        [1.0, 0.0],
        [6.0, 3.0],
    ),
    "`eigh`, `svd`: vectors": (
        lambda x: (lambda v: (v[:, :2] @ v[:, :2].T)[0, 2])(np.linalg.eigh(TIED + x[0] * (np.eye(3)[[2, 1, 0]] - np.diag([0, 1, 0])))[1]),
        [0.0],
        [-1.0],
    ),
    "`x**n`": (lambda x: (x ** np.array([1, 2, 3])).sum(), [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
    "`x**0`": (lambda x: (x**0).sum(), [0.0, 2.0], [0.0, 0.0]),
    "`0**b` in `b`": (lambda b: (0.0**b).sum(), [2.0, 0.5], [0.0, 0.0]),
    "`prod`, `cumprod`": (lambda x: np.prod(x) + np.cumprod(x)[1], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]),
    "`logaddexp`, `logsumexp`": (
        lambda x: np.logaddexp(x[0], x[1]) + np.logaddexp(x[2], x[3]) + ft.nn.logsumexp(x[:2]) + ft.nn.logsumexp(x[2:]),
        [2.0, 2.0, -INF, -INF],
        [1.0, 1.0, 0.0, 0.0],
    ),
    "`sinc`": (lambda x: np.sinc(x).sum(), [0.0, 1.0], [0.0, -1.0]),
    "`nansum`, `nanmax`, `nanmean` ...": (lambda x: np.nansum(x) + np.nanmax(x) + np.nanmean(x), [1.0, np.nan, 3.0], [1.5, 0.0, 2.5]),
    "`max`, `maximum`, `maximum.accumulate`, `median`, `quantile` ...": (
        lambda x: np.max(x) + np.maximum(x[0], x[1]) + np.maximum.accumulate(x)[2] + np.median(x) + np.quantile(x, 0.3),
        [1.0, np.nan, 3.0],
        [0.0, 5.0, 0.0],
    ),
    "`sqrt`": (lambda x: np.sqrt(x).sum(), [0.0, 4.0], [INF, 0.25]),
    "`scipy.stats`: `pdf`, `cdf`, `sf` and their logarithms": (
        lambda x: (
            law("gamma").pdf(x, 2.2).sum() + law("gamma").cdf(x[0], 2.2) + law("gamma").sf(x[0], 2.2) + law("gamma").logpdf(x[0], 2.2)
        ),
        [-1.0, 0.0],
        [0.0, 0.0],
    ),
    "`scipy.stats`: `logcdf`, `logsf`": (
        lambda x: law("laplace").logcdf(x[0]) + law("laplace").logsf(x[1]),
        [-1000.0, 2000.0],
        [1.0, -1.0],
    ),
    "`scipy.stats`: `logpdf`, `logcdf`, `logsf`": (
        lambda x: law("gumbel_r").logpdf(x[0]) + law("gumbel_r").logcdf(x[1]),
        [-1000.0, -1000.0],
        [INF, INF],
    ),
}


def test_the_table_of_kinks_has_a_test_for_every_row():
    page = (Path(__file__).parents[1] / "docs" / "conventions.md").read_text(encoding="utf-8")
    rows = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if line.startswith("| `")]
    assert rows == list(KINKS)


@pytest.mark.parametrize("row", KINKS)
def test_kinks_as_the_table_says(row):
    f, x, want = KINKS[row]
    with np.errstate(divide="ignore", over="ignore"):
        np.testing.assert_allclose(ft.grad(f)(np.array(x)), want, rtol=1e-12, atol=1e-14)
        for k, t in enumerate(np.eye(len(x))):
            if want[k] != INF:  # forward mode multiplies it by the zeros of the other directions
                got = ft.jvp(lambda y, k=k, t=t: f(np.where(t == 1, y, x)), (np.array(x),), (t,))[1]
                np.testing.assert_allclose(got, want[k], rtol=1e-12, atol=1e-14)


# Shape and type


SHAPES = [
    ((), (3,)),
    ((1,), (3,)),
    ((3, 1), (3,)),
    ((2, 3), (3,)),
    ((1, 1), (2, 3)),
    ((0,), (1,)),
    ((2, 1, 3), (4, 1)),
    ((0, 3), (3,)),
    ((1,), ()),
    ((1, 0), (2, 1)),
]


@pytest.mark.parametrize(("a", "b"), SHAPES, ids=str)
@pytest.mark.parametrize("op", [np.add, np.subtract, np.multiply, np.divide, np.power, np.maximum, np.arctan2, np.hypot, np.logaddexp])
def test_broadcasting_back(op, a, b, rng):
    x, y = rng.uniform(0.5, 2.0, a), rng.uniform(0.5, 2.0, b)
    out, pull = ft.vjp(op, x, y)
    w = rng.normal(size=np.shape(out))
    gx, gy = pull(w)
    assert np.shape(gx) == a and np.shape(gy) == b
    np.testing.assert_allclose(gx, differences(lambda x: np.sum(w * op(x, y)), x), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(gy, differences(lambda y: np.sum(w * op(x, y)), y), rtol=1e-7, atol=1e-9)
    assert np.shape(ft.jvp(op, (x, y), (x, y))[1]) == np.shape(out)
    gy = ft.grad(lambda y: np.sum(w * op(x, y)))(y)
    assert np.shape(gy) == b


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ii->i", (3, 3)), ("ii", (3, 3)), ("iij->j", (2, 2, 3)), ("ij->ji", (2, 3)),
    ("i,i->", (3,), (3,)), ("i,j->ij", (2,), (3,)), ("ij->", (2, 3)), ("ij->j", (2, 3)), ("ii,ij->i", (2, 2), (2, 3)), ("...ij,...jk->...ik", (5, 2, 3), (3, 4)),
    ("i...->...", (2, 3, 4)), ("ij,ij,ij->i", (2, 3), (2, 3), (2, 3)), ("i,ij,j->", (2,), (2, 3), (3,)), ("abc,cd->abd", (2, 3, 4), (4, 5)), ("ij,kl->", (2, 3), (2, 2)),
    ("...,...->...", (2, 3), (3,)), ("ij,jk->ik", (1, 3), (3, 1)), ("ij,jj->i", (2, 3), (3, 3)),
]  # fmt: skip


def by_loop(spec, *arrays):
    """einsum by the definition: a sum over all indices."""
    left, _, right = spec.partition("->")
    terms = left.split(",")
    if "->" not in spec:
        right = "".join(sorted(c for c in set(left) - {","} if left.count(c) == 1))
    letters = sorted(set("".join(terms)))
    sizes = {c: max(a.shape[t.index(c)] for t, a in zip(terms, arrays) if c in t) for c in letters}
    out = np.zeros([sizes[c] for c in right])
    for values in itertools.product(*(range(sizes[c]) for c in letters)):
        at = dict(zip(letters, values))
        out[tuple(at[c] for c in right)] += np.prod([a[tuple(at[c] for c in t)] for t, a in zip(terms, arrays)])
    return out


@pytest.mark.parametrize(("spec", "shapes"), [(s[0], s[1:]) for s in EINSUMS], ids=str)
def test_einsum(spec, shapes, rng):
    arrays = [rng.normal(size=s) for s in shapes]
    out, pull = ft.vjp(lambda *xs: np.einsum(spec, *xs), *arrays)
    np.testing.assert_allclose(out, np.einsum(spec, *arrays), rtol=1e-12)
    w = rng.normal(size=np.shape(out))
    grads = pull(w)
    total = (lambda *xs: np.sum(w * by_loop(spec, *xs))) if "." not in spec else (lambda *xs: np.sum(w * np.einsum(spec, *xs)))
    for k, (g, x) in enumerate(zip(grads, arrays)):
        assert g.shape == x.shape
        want = differences(lambda x: total(*(x if j == k else a for j, a in enumerate(arrays))), x, 1e-3)
        np.testing.assert_allclose(g, want, rtol=1e-8, atol=1e-9)


def test_einsum_with_sublists(rng):
    a, b = rng.normal(size=(2, 3)), rng.normal(size=(3, 2))
    f = lambda a: np.einsum(a, [0, 1], b, [1, 0], [0]).sum()  # noqa: E731
    np.testing.assert_allclose(ft.grad(f)(a), b.T)


def test_repeated_fancy_indices(rng):
    x = rng.normal(size=4)
    index = np.array([0, 0, 3, 0])
    w = np.array([1.0, 10.0, 100.0, 1000.0])
    exact(both(lambda x: (x[index] * w).sum(), x), [1011.0, 0.0, 0.0, 100.0])
    exact(both(lambda x: (x[[1, 1]] * w[:2]).sum() + x[1], x), [0.0, 12.0, 0.0, 0.0])
    m = rng.normal(size=(3, 4))
    exact(ft.grad(lambda m: m[[0, 0], [1, 1]].sum())(m), [[0, 2, 0, 0], [0] * 4, [0] * 4])
    exact(ft.grad(lambda m: np.take(m, [0, 0], axis=1).sum())(m), [[2, 0, 0, 0]] * 3)


LISTS = {
    "fnp.array": lambda x: fnp.array([x[0], x[1] * 2, 3.0]).sum(),
    "fnp.array nested": lambda x: (fnp.array([[x[0], 1.0], [2.0, x[1]]]) @ np.array([1.0, 2.0])).sum(),
    "fnp.array of rows": lambda x: fnp.array([x, x * 2]).sum(),
    "fnp.asarray": lambda x: fnp.asarray([x[0], x[1]]).sum(),
    "np.stack": lambda x: np.stack([x[0], x[1]]).sum(),
    "np.sum of a list": lambda x: fnp.sum([x[0], x[1]]),
    "np.mean of a list": lambda x: fnp.mean([x[0], x[1]]),
    "np.max of a list": lambda x: fnp.max([x[0], x[1]]),
    "np.concatenate": lambda x: np.concatenate([x, [1.0], x[:1]]).sum(),
    "np.dot with a list": lambda x: x @ np.array([1.0, 2.0]),
    "list @": lambda x: [1.0, 2.0] @ x,
    "list *": lambda x: ([1.0, 2.0] * x).sum(),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_tracers_never_become_object_arrays(name):
    f = LISTS[name]
    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(both(f, x), differences(f, x), rtol=1e-8)


def test_dtype_does_not_creep():
    x = np.ones(4, np.float32)
    for f in (
        lambda x: sum(x),
        lambda x: sum(v * v for v in x),
        lambda x: x.sum() / len(x),
        lambda x: x.sum() / np.int64(4),
        lambda x: (x * 2 + 1 - 0.5).sum() ** 2,
        lambda x: (x * np.arange(4)).sum(),
        lambda x: (x + np.float64(1)).sum(),
        lambda x: np.where(x > 0, x, 0.0).sum(),
        lambda x: (x * np.ones(4)).sum(),
        lambda x: np.mean(x) * np.pi,
        lambda x: np.maximum(x, 0).sum(),
    ):
        assert ft.grad(f)(x).dtype == np.float32
        plain, traced = f(x), []
        ft.grad(lambda x, f=f: traced.append(f(x)) or traced[-1])(x)
        assert traced[0].dtype == plain.dtype
        for y in ft.jvp(f, (x,), (x,)):
            assert y.dtype == plain.dtype
    assert ft.grad(lambda x: x * x)(np.float16(2)).dtype == np.float16


def test_integers():
    assert ft.grad(lambda x: x * x)(3) == 6.0
    with pytest.raises(errors.IntegerInputError, match="astype"):
        ft.grad(lambda x: (x * x).sum())(np.arange(3))
    g = ft.grad(lambda t: t["x"] * t["k"][0])({"x": 2.0, "k": np.array([3])})
    assert g["k"].dtype == np.float64 and g["k"].tolist() == [0.0]
    # an integer cast to a float inside does not matter; a float cast to an integer stops the derivative
    assert ft.grad(lambda x: x * x.astype(int))(2.5) == 2.0


def test_sort_on_ties_is_stable():
    x = np.array([2.0, 1.0, 2.0, 1.0])
    w = np.array([1.0, 10.0, 100.0, 1000.0])
    exact(both(lambda x: np.sort(x) @ w, x), [100.0, 1.0, 1000.0, 10.0])
    exact(both(lambda x: x[np.argsort(x, kind="stable")] @ w, x), [100.0, 1.0, 1000.0, 10.0])


def test_solve_with_a_vector():
    a, b = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    ga, gb = ft.grad(lambda a, b: np.linalg.solve(a, b).sum(), (0, 1))(a, b)
    np.testing.assert_allclose(gb, np.linalg.inv(a).T @ np.ones(2))
    np.testing.assert_allclose(ga, -np.outer(np.linalg.inv(a).T @ np.ones(2), np.linalg.solve(a, b)))


def test_eigenvalues_at_ties_are_finite():
    g = ft.grad(lambda a: np.linalg.eigvalsh(a).sum())(np.eye(3))
    np.testing.assert_allclose(g, np.eye(3), atol=1e-12)
    g = ft.grad(lambda a: np.linalg.eigh(a)[0].sum())(np.eye(3))
    np.testing.assert_allclose(g, np.eye(3), atol=1e-12)
    g = ft.grad(lambda a: np.linalg.svd(a, compute_uv=False).sum())(np.eye(2))
    np.testing.assert_allclose(g, np.eye(2), atol=1e-12)


# Engine


def test_arrays_changed_after_being_recorded():
    x = np.array([3.0])
    _, pull = ft.vjp(lambda x: (x * x).sum(), x)
    x[0] = 5.0
    assert pull(1.0)[0].tolist() == [6.0]


def test_aliased_cotangents():
    ct, x = np.ones(3), np.ones(3)
    for f in (lambda z: z + 0, lambda z: np.reshape(z, (3,)), lambda z: z):
        (g,) = ft.vjp(f, x)[1](ct)
        g[0] = 9.0
        assert ct.tolist() == [1.0] * 3


def test_in_place_on_views():
    def f(x):
        y = x * 1.0
        a, b = y[:2], y[1:]
        a *= 2
        b[0] = b[0] + a[0]
        return y.sum() + a.sum()

    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(ft.grad(f)(x), differences(lambda x: f(x.copy()), x))


def test_perturbation_confusion():
    D = ft.grad
    assert D(lambda x: x * D(lambda y: x + y)(1.0))(1.0) == 1.0


def test_closures_over_tracers_in_checkpoint_are_lifted():
    assert ft.grad(lambda w: ft.checkpoint(lambda x: w * x)(3.0))(2.0) == 3.0


def test_thread_local_levels():
    """Traces of other threads have other ids: a value that crosses is right, and nothing stays broken."""
    out = []

    def f(x):
        thread = threading.Thread(target=lambda: out.append(ft.grad(lambda y: y * x)(1.0)))
        thread.start()
        thread.join()
        return out[-1] * x

    assert ft.grad(f)(3.0) == 6.0
    assert ft.grad(lambda x: x * x)(3.0) == 6.0


def test_no_ambient_mode():
    """A generator suspended within a trace, an async task, a context manager: nothing decides that a value is not traced."""

    def suspended(x):
        y = x * 2
        yield y
        yield y * x

    def f(x):
        g = suspended(x)
        a = next(g)
        ft.grad(np.sin)(1.0)

        async def task():
            await asyncio.sleep(0)
            return a * next(g)

        return asyncio.run(task())

    assert ft.grad(f)(2.0) == 12 * 4.0


def test_exceptions_and_nesting():
    with pytest.raises(ZeroDivisionError):
        ft.grad(lambda x: x * ft.grad(lambda y: y * x / (1 // 0))(x))(1.0)
    assert ft.grad(lambda x: x * x)(3.0) == 6.0


def test_deep_graphs():
    limit, frame, depth = sys.getrecursionlimit(), sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    sys.setrecursionlimit(depth + 150)
    try:

        def f(x):
            for _ in range(50_000):
                x = x + 1e-6
            return x

        assert ft.grad(f)(1.0) == 1.0
        out, pull = ft.vjp(f, 1.0)
        del out, pull  # freeing does not recurse
        gc.collect()
    finally:
        sys.setrecursionlimit(limit)


def test_shared_nodes_are_counted_once():
    def f(x):
        y = x * x
        z = y + y
        return z * y  # 2 x**4

    assert ft.grad(f)(3.0) == 8 * 27.0


@pytest.mark.parametrize(
    "f",
    [np.sin, np.exp, np.tanh, np.sqrt, np.log, lambda x: x**2.5, lambda x: 1 / x, lambda x: x * x * x, np.arctan, np.log1p],
)
def test_third_order_is_not_lost(f):
    x = 0.7
    first, second, third = (ft.grad(f), ft.grad(ft.grad(f)), ft.grad(ft.grad(ft.grad(f))))
    np.testing.assert_allclose(second(x), differences(first, x), rtol=1e-8)
    np.testing.assert_allclose(third(x), differences(second, x), rtol=1e-8)
    np.testing.assert_allclose(ft.jacfwd(ft.jacrev(ft.jacfwd(f)))(x), third(x), rtol=1e-12)


def test_vmap_guarded_branches():
    """Both branches of np.where are computed, only one counts."""
    xs = np.array([-1.0, 2.0])
    exact(ft.vmap(ft.grad(lambda x: np.where(x > 0, x * x, -x)))(xs), [-1.0, 4.0])


def test_checkpoint_random_state_and_divergence():
    count = itertools.count()
    with pytest.raises(errors.CheckpointError):
        ft.grad(ft.checkpoint(lambda x: x * next(count)))(1.0)

    def early(x):
        if ft.value(x) > 0:
            raise KeyError
        return x

    with pytest.raises(KeyError):
        ft.grad(ft.checkpoint(early))(1.0)
    assert ft.grad(ft.checkpoint(np.sin))(0.0) == 1.0


def test_outputs_of_mixed_kinds_are_aligned_by_position():
    """Integer and boolean outputs beside float ones (PT#194869)."""
    f = lambda x: (x > 1, x * 2, np.argmax(x), x.astype(int), x.sum())  # noqa: E731
    x = np.array([1.0, 2.0])
    out, tangents = ft.jvp(f, (x,), (np.ones(2),))
    exact(tangents[1], [2.0, 2.0])
    assert tangents[4] == 2.0
    assert not np.any(tangents[0]) and not np.any(tangents[3])


def test_wrong_shaped_cotangents():
    with pytest.raises(errors.CotangentError):
        ft.vjp(np.sin, np.ones(3))[1](np.ones((5, 3)))


def test_unused_inputs_get_zeros():
    a, b = ft.grad(lambda x, y: (x * 1.0).sum(), (0, 1))(np.ones(2), np.ones((2, 2), np.float32))
    exact(b, np.zeros((2, 2)))
    assert b.dtype == np.float32


def test_complex_to_real_real_to_complex_and_complex_to_complex():
    z = np.array([0.3 + 0.4j, -1.2 + 0.5j])
    exact(ft.grad(lambda z: np.sum(np.abs(z) ** 2))(z), 2 * np.conj(z))  # cotangents are not conjugated, as in JAX and autograd
    np.testing.assert_allclose(ft.grad(lambda x: np.real(np.exp(1j * x)))(0.7), -np.sin(0.7))
    np.testing.assert_allclose(ft.grad(lambda z: np.sin(z) * z, holomorphic=True)(z[0]), np.cos(z[0]) * z[0] + np.sin(z[0]))
    with pytest.raises(errors.FunctraceError):
        ft.grad(lambda z: z * z)(z[0])
    for f in (np.arccosh, np.arcsinh, np.arccos, np.arcsin, np.sqrt, np.log):  # on both sides of their cuts
        for w in (-2 + 0.3j, 2 - 0.3j, -0.3 - 2j, 0.3 + 2j):
            d = 1e-6
            np.testing.assert_allclose(ft.grad(f, holomorphic=True)(w), (f(w + d) - f(w - d)) / (2 * d), rtol=1e-7)


def test_solve_takes_b_for_a_vector_as_numpy_2_does():
    a, b = np.eye(2) + np.zeros((3, 2, 2)), np.ones((3, 2, 1))
    assert ft.vjp(np.linalg.solve, a, b)[0].shape == np.linalg.solve(a, b).shape == (3, 2, 1)
    f = lambda x: np.array([1.0, 2.0]) @ (lambda z: np.stack([np.real(z), np.imag(z)]))(np.sign(x[0] + 1j * x[1]))  # noqa: E731
    np.testing.assert_allclose(ft.grad(f)(np.array([3.0, 4.0])), differences(f, [3.0, 4.0]), rtol=1e-8)  # sign is x / |x|
    assert abs(ft.grad(lambda x: np.abs(np.sign(x)))(3 + 4j)) < 1e-15


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_sign_of_a_complex_number_is_numpys_at_the_ends():
    parts = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 1e-310, 1e308]
    z = np.array([complex(a, b) for a in parts for b in parts])
    for kind in (np.complex128, np.complex64):
        x, expected = z.astype(kind), np.sign(z.astype(kind))
        for sign in (
            lambda x: ft.vjp(np.sign, x)[0],
            lambda x: ft.jvp(np.sign, (x,), (x,))[0],
            ft.vmap(np.sign),
            ft.jit(lambda x: np.sign(+x)),
        ):
            found = sign(x)
            assert found.dtype == kind and np.array_equal(found.view(found.real.dtype), expected.view(found.real.dtype), equal_nan=True)
            assert np.array_equal(np.signbit(found.real[found == found]), np.signbit(expected.real[found == found]))
            assert np.array_equal(np.signbit(found.imag[found == found]), np.signbit(expected.imag[found == found]))
    assert ft.jvp(np.sign, (complex(np.inf, 1.0),), (1j,))[1] == 0
    ft.check_grads(lambda x: np.sum(np.abs(np.sign(x) + 0.3) ** 2), np.array([3 + 4j, -1 + 0.5j]), order=3)


HERE = "test_traps.py"
TRAPS = {
    "where with a NaN branch": ("test_masks.py", "test_first_order"),
    "ties": (HERE, "test_ties_of_two_arguments_share"),
    "the same variable twice under max": (HERE, "test_the_same_variable_twice_under_max"),
    "norm, hypot, std at 0": (HERE, "test_norms_at_zero"),
    "power": (HERE, "test_powers_at_zero"),
    "prod, cumprod with zeros": (HERE, "test_prod_with_zeros"),
    "logsumexp, logaddexp at -inf": (HERE, "test_logaddexp_at_minus_infinity_and_ties"),
    "sinc": (HERE, "test_sinc_at_zero"),
    "broadcasting back": (HERE, "test_broadcasting_back"),
    "einsum": (HERE, "test_einsum"),
    "repeated fancy indices": (HERE, "test_repeated_fancy_indices"),
    "lists of tracers falling into object arrays": (HERE, "test_lists_of_tracers_never_become_object_arrays"),
    "sort, argsort, median, partition": (HERE, "test_sort_on_ties_is_stable"),
    "dtype creep": (HERE, "test_dtype_does_not_creep"),
    "integers": (HERE, "test_integers"),
    "complex": (HERE, "test_complex_to_real_real_to_complex_and_complex_to_complex"),
    "eigh, svd degeneracy": (HERE, "test_eigenvalues_at_ties_are_finite"),
    "NumPy 2": (HERE, "test_solve_takes_b_for_a_vector_as_numpy_2_does"),
    "arrays changed after being recorded": (HERE, "test_arrays_changed_after_being_recorded"),
    "aliased cotangents": (HERE, "test_aliased_cotangents"),
    "in-place on views": (HERE, "test_in_place_on_views"),
    "perturbation confusion": (HERE, "test_perturbation_confusion"),
    "closures over tracers": (HERE, "test_closures_over_tracers_in_checkpoint_are_lifted"),
    "thread-local levels alone": (HERE, "test_thread_local_levels"),
    "context managers in generators and async": (HERE, "test_no_ambient_mode"),
    "exceptions and nesting": (HERE, "test_exceptions_and_nesting"),
    "deep graphs": (HERE, "test_deep_graphs"),
    "shared nodes counted twice": (HERE, "test_shared_nodes_are_counted_once"),
    "cycles keeping memory": ("test_memory.py", "test_no_cycles_hold_what_a_gradient_made"),
    "second order lost": (HERE, "test_third_order_is_not_lost"),
    "vmap": (HERE, "test_vmap_guarded_branches"),
    "checkpoint": (HERE, "test_checkpoint_random_state_and_divergence"),
    "gradcheck with functions that return views": ("test_transforms.py", "test_check_grads_is_not_fooled_by_views"),
    "wrong-shaped cotangent": (HERE, "test_wrong_shaped_cotangents"),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_every_trap_has_its_test(trap):
    file, name = TRAPS[trap]
    assert f"\ndef {name}(" in (Path(__file__).parent / file).read_text(encoding="utf-8")
