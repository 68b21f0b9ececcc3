"""Cotangents of a matrix that is used again and again: products put off give what products at once give."""

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace import later

RNG = np.random.default_rng(3)


def recurrent(w, v, xs):
    h = np.zeros((xs.shape[1], w.shape[0]), xs.dtype)
    for x in xs:
        h = fnp.tanh(h @ w + x @ v)
    return fnp.sum(h * h)


def at_once(monkeypatch, f, *args):
    monkeypatch.setattr(later.Products, "add", lambda self, x, g: setattr(self, "sum", self.sum + x.T @ g))
    try:
        return f(*args)
    finally:
        monkeypatch.undo()


@pytest.mark.parametrize("rows", [1, 2, 7, 512])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_agree(monkeypatch, rows, dtype):
    args = [RNG.normal(size=s).astype(dtype) / 3 for s in ((4, 4), (3, 4), (20, 5, 3))]
    g = ft.grad(recurrent, (0, 1, 2))
    expected = at_once(monkeypatch, g, *args)
    monkeypatch.setattr(later, "ROWS", rows)
    for a, b in zip(g(*args), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=1e-5 if dtype == np.float32 else 1e-12)
        assert a.dtype == dtype and a.flags.owndata


@pytest.mark.parametrize(
    "f",
    [
        lambda w, x: fnp.sum((x @ w) @ w) + fnp.sum(x @ w) ** 2,
        lambda w, x: fnp.sum(w * w) + fnp.sum((x @ w) * (x[::-1] @ w)),  # other uses before and after
        lambda w, x: fnp.sum((x @ w) * (x[::-1] @ w) * (x @ w)) + fnp.sum(w[0]) * fnp.sum(w.T),
        lambda w, x: fnp.sum(w @ w @ w) + w[0, 1],
        lambda w, x: fnp.sum((x @ w) @ w @ x[0]) + (x[1] @ w) @ w @ x[0],  # vectors too
        lambda w, x: fnp.sum(fnp.where(w != 0, fnp.sqrt(abs(w)), 0) @ x.T) + fnp.sum((x @ w) * (x @ w) * (x @ w)),
    ],
)
def test_among_other_uses(f):
    rng = np.random.default_rng(1)
    w, x = rng.normal(size=(4, 4)), rng.normal(size=(6, 4))
    w[0, 0] = 0.0
    g = ft.grad(f)(w, x)
    np.testing.assert_allclose(
        g[1:], [[(f(w + d, x) - f(w - d, x)) / 2e-5 for d in row] for row in unit(w.shape)[1:]], rtol=1e-6, atol=1e-7
    )
    again = ft.vjp(f, w, x)[1]
    for _ in range(2):  # a pullback may be called again
        np.testing.assert_allclose(again(np.float64(1))[0], g, rtol=1e-13, atol=1e-13)  # BLAS rounds as the memory lies
    np.testing.assert_allclose(ft.jit(ft.grad(f))(w, x), g, rtol=1e-12, atol=1e-13)


def unit(shape):
    out = np.zeros((*shape, *shape))
    for k in np.ndindex(shape):
        out[k][k] = 1e-5
    return out


def test_what_is_held_back_is_bounded():
    w, x = RNG.normal(size=(8, 8)), RNG.normal(size=(100, 8))
    held = later.Products(np.zeros((8, 8)))
    for k in range(40):
        held.add(x, x)
        assert sum(map(len, held.xs)) < later.ROWS
        assert k < 5 or held.own
    np.testing.assert_allclose(held.total(), 40 * x.T @ x)
    np.testing.assert_allclose(np.asarray(held + w), 40 * x.T @ x + w)


def test_second_order():
    w, v, xs = RNG.normal(size=(3, 3)) / 2, RNG.normal(size=(2, 3)), RNG.normal(size=(6, 4, 2))
    ft.check_grads(lambda w, v: recurrent(w, v, xs), w, v, order=2)


def test_of_two_precisions():
    w, x, wide = np.eye(2, dtype=np.float32), np.ones((1, 2), np.float32), np.array([[0.1, 0.2]])
    g = ft.grad(lambda w: fnp.sum(wide @ w) + fnp.sum(x @ w) + fnp.sum(x @ w))(w)
    assert g.dtype == np.float32
    np.testing.assert_allclose(g, [[2.1, 2.1], [2.2, 2.2]], rtol=1e-6)
    g = ft.grad(lambda w: fnp.sum(x @ w) + fnp.sum(x @ w) + fnp.sum(wide @ w) + fnp.sum(x @ w))(w)
    assert g.dtype == np.float32
    np.testing.assert_allclose(g, [[3.1, 3.1], [3.2, 3.2]], rtol=1e-6)
