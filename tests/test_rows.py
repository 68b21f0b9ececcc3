"""Reductions over short rows agree with NumPy's: through columns to the bit, by products to rounding."""

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace.ops import reduce, rows
from functrace.ops.positions import add_in
from functrace.ops.reduce import running

SHAPES = [(2000, 3), (600, 7), (600, 8), (300, 4, 11), (50_000, 15), (9000, 2), (200_000, 2)]
COMPARED = [(4000, 16), (20_000, 25), (300, 10), (3000, 33), (20_000, 64)]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_way_back_of_running_products_takes_each_line_for_itself(axis):
    x, g = np.random.default_rng(0).uniform(0.5, 1.5, size=(2, 60, 50, 40))
    (found,) = ft.vjp(lambda x: np.cumprod(x, axis), x)[1](g)
    lines = [np.moveaxis(a, axis, -1).reshape(-1, x.shape[axis]) for a in (x, g, found)]
    for line, weights, want in list(zip(*lines))[::97]:
        np.testing.assert_array_equal(ft.vjp(np.cumprod, line)[1](weights)[0], want)


@pytest.mark.parametrize("ufunc, whole", [(np.add, np.cumsum), (np.multiply, np.cumprod)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128, np.int32])
def test_running_sums_and_products_of_wide_arrays_take_all_lines_at_once(ufunc, whole, dtype, monkeypatch):
    x = np.random.default_rng(0).uniform(0.9, 1.1, size=(30, 300)).astype(dtype)
    for y in (x, x.T, x[::-1], x[:, ::-1], x[:, :5], x[:0], x.reshape(30, 60, 5)):
        for axis in range(y.ndim):
            found, want = running(ufunc, y, axis), whole(y, axis=axis)
            np.testing.assert_array_equal(found, want)
            assert found.dtype == want.dtype
    chars = reduce._RUNNING[ufunc][1]
    monkeypatch.setitem(reduce._RUNNING, ufunc, (lambda *_, **__: None, chars))
    one_by_one = [running(ufunc, y, axis) is None for y, axis in ((x, 0), (x.T, 1), (x, 1), (x[:, :5], 0))]
    assert one_by_one == ([False, False, True, True] if x.dtype.char in chars else [True] * 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [*SHAPES, *COMPARED])
def test_columns_are_bit_equal(shape, dtype):
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    assert rows.short(x, -1, compared=True) and rows.short(x, len(shape) - 1, compared=True)
    assert rows.short(x, (-1,)) == (shape in SHAPES) and not rows.short(x, 0) and not rows.short(x, None)
    x[3] = np.inf
    x[5, ..., 1] = np.nan
    x[7, ..., 0], x[7, ..., 1] = -np.inf, np.inf
    for keepdims in (False, True):
        if shape in SHAPES:
            with np.errstate(invalid="ignore"):
                np.testing.assert_array_equal(rows.added(x, keepdims), x.sum(-1, keepdims=keepdims), strict=True)
        np.testing.assert_array_equal(rows.extreme(np.maximum, x, keepdims), x.max(-1, keepdims=keepdims), strict=True)
        np.testing.assert_array_equal(rows.extreme(np.minimum, x, keepdims), x.min(-1, keepdims=keepdims), strict=True)


def test_rows_of_one_number_repeated_are_short_too():
    x = np.broadcast_to(np.linspace(0, 1, 9000)[:, None], (9000, 3))
    assert rows.short(x, -1) and not rows.short(x[:, ::2].T, -1)
    np.testing.assert_array_equal(rows.added(x, False), x.sum(-1))


@pytest.mark.parametrize("shape", [(40, 7), (700, 25), (3000, 64), (3000, 4, 5)])
def test_compiled_sums(shape):
    x = np.random.default_rng(1).normal(size=shape)

    def f(x):
        e = fnp.exp(x - fnp.max(x, axis=-1, keepdims=True))
        return fnp.sum(e / fnp.sum(e, axis=-1, keepdims=True) * x, axis=-1), fnp.min(x, -1)

    g = ft.jit(f)
    for _ in range(2):
        for a, b in zip(g(x), f(x)):
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("dtype", "fdFDe")
@pytest.mark.parametrize("shape", [(7, 300), (300, 7), (5, 90, 3), (90, 1, 5), (1, 400), (400, 1)])
def test_running_sums_are_numpys_to_the_last_bit_however_the_array_lies(shape, dtype):
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    for axis in range(x.ndim):
        for y in (x, np.asfortranarray(x), np.flip(x, axis), np.flip(x), x.astype(x.dtype.newbyteorder())):
            out, pullback = ft.vjp(lambda y, axis=axis: np.cumsum(y, axis), y)
            np.testing.assert_array_equal(out, np.cumsum(y, axis))
            np.testing.assert_array_equal(pullback(out)[0], np.flip(np.cumsum(np.flip(out, axis), axis), axis))
            assert out.dtype == np.cumsum(y, axis).dtype


@pytest.mark.parametrize("order", "CF")
def test_parts_are_added_alike_to_arrays_in_either_order(order):
    rng = np.random.default_rng(0)
    x, g = np.asarray(rng.normal(size=(40, 6)), order=order), rng.normal(size=(500, 6))
    i, j = rng.integers(-40, 40, 500), rng.integers(-6, 6, 500)
    for index, part in ((i, g), (i % 40, g), ((i, j), g[:, 0]), ((i % 40, j % 6), g[:, 0]), ((slice(None), j), g[:40, :1])):
        want, got = x.copy(order), x.copy(order)
        np.add.at(want, index, part)
        add_in(got, part, index)
        np.testing.assert_array_equal(got, want)
    with pytest.raises(IndexError):
        add_in(x, g, np.full(500, 40))


@pytest.mark.parametrize(
    "shape, axes", [((8, 7, 2, 7, 2, 8), (2, 4)), ((4, 6, 7, 2, 7, 3), (-3, 5)), ((250, 4, 9), 1), ((40, 3, 3, 9, 2), (4, 1, 2))]
)
def test_windows_are_reduced_place_by_place(shape, axes):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, shape) + rng.normal(size=shape) * (rng.random(shape) < 0.5)
    assert rows.windows(x, axes) and not rows.windows(x[:1, :1], axes)
    assert not any(rows.windows(np.zeros(s), a) for s, a in (((4, 5000), 0), ((3000, 3), -1), ((300, 2, 64), 1), ((900, 5, 2), (1, 2))))
    for keepdims in (False, True):
        for f in (np.max, np.min, np.sum):
            whole = lambda x, f=f, keepdims=keepdims: f(x, axis=axes, keepdims=keepdims)
            slope = ft.grad(lambda x, whole=whole: np.sum(whole(x) ** 2))
            fast, fast_slope = ft.jit(whole), ft.jit(slope)
            for y in (x, x + np.where(x == 8, np.nan, np.where(x == 7, np.inf, 0)), x[::-1]):
                np.testing.assert_allclose(fast(y), whole(y), rtol=1e-14 * (f is np.sum), atol=1e-14 * (f is np.sum))
                np.testing.assert_array_equal(ft.jvp(whole, (y,), (y,))[0], whole(y))
            for _ in range(2):
                np.testing.assert_allclose(fast_slope(x), slope(x), rtol=1e-13, atol=1e-13)
            assert "folded" in fast.show() and fast(x).shape == whole(x).shape
