"""Sums by BLAS are NumPy's, to rounding, and made of pieces for which BLAS takes no second thread."""

import itertools

import numpy as np
import pytest

import functrace as ft
from functrace import sums

SHAPES = [(2000, 3), (600, 7), (600, 8), (300, 4, 11), (50_000, 15), (9000, 2), (200_000, 2)]


@pytest.mark.parametrize(
    "shape, wider, axes",
    [
        ((1000, 5, 1), (1000, 5, 2), (-3,)),
        ((1000, 1, 4), (1000, 5, 4), (-3,)),
        ((300, 20), (50, 300, 20), (-2,)),
        ((30, 1, 1), (30, 200, 20), (-3, -1)),
        ((1, 40, 1), (300, 40, 5), (-2,)),
    ],
)
def test_what_is_broadcast_is_summed_once(shape, wider, axes, monkeypatch):
    x = np.broadcast_to(np.random.default_rng(0).normal(size=shape), wider)
    want, sizes, real = x.sum(axes), [], sums.total
    monkeypatch.setattr(sums, "total", lambda x, axes: sizes.append(x.size) or real(x, axes))
    found = real(x, axes)
    np.testing.assert_allclose(found, want, rtol=1e-12)
    assert found.flags.c_contiguous and found.flags.owndata and max(sizes) < x.size


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [*SHAPES, (1, 5), (0, 5), (20_000, 64), (3, 1), (4, 0), (8193, 2)])
def test_products_are_equal_to_rounding(shape, dtype):
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    for keepdims in (False, True):
        for case in (x, x[::-1], np.asfortranarray(x)):
            got, expected = sums.summed(case, keepdims), case.sum(-1, keepdims=keepdims)
            assert got.shape == expected.shape and got.dtype == dtype
            np.testing.assert_allclose(got, expected, rtol=0, atol=np.finfo(dtype).eps * max(1, shape[-1]) * 4)
    if x.size > 100:
        x.reshape(-1)[[0, 40, 41]] = np.inf, np.nan, -np.inf
        np.testing.assert_array_equal(np.isfinite(sums.summed(x, False)), np.isfinite(x.sum(-1)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(25, 100, 10), (3, 4, 30, 60), (4096, 3), (1, 5000, 2), (2048, 1), (70, 70)])
def test_totals_over_any_axes_are_equal_to_rounding(shape, dtype):
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    for count in range(1, len(shape) + 1):
        for axes in itertools.combinations(range(-len(shape), 0), count):
            for case in (x, x.T.copy().T):
                got, expected = sums.total(case, axes), np.add.reduce(x.astype(float), axes)
                assert np.shape(got) == expected.shape and got.dtype == dtype
                np.testing.assert_allclose(got, expected, rtol=0, atol=x.size * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("shape", [(0,), (sums.ALONE,), (sums.ALONE + 1,), (3, 5000), (1 << 17,)])
def test_what_is_not_finite_is_found_wherever_it_is(shape, dtype, rng):
    x = np.asarray(rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype in "FD" else 0), dtype)
    assert np.isfinite(sums.checksum(x))
    for k in {0, x.size // 2, x.size - 1} if x.size else ():
        for wrong in (np.inf, -np.inf, np.nan):
            y = x.copy()
            y.flat[k] = wrong
            assert not np.isfinite(sums.checksum(y))
    assert np.isfinite(sums.checksum(np.full(shape, 1e200 if dtype in "dD" else 1e20, dtype)))


@pytest.mark.parametrize("x", [np.full((3, 2), 6e4, np.float16), np.full((2, 3), 1e308).T, np.array([[1e308, 1e308, -1e308]])])
def test_a_gradient_whose_sum_overflows_is_given_without_a_warning(x):
    for f in (ft.grad, lambda f: ft.jit(ft.grad(f))):
        np.testing.assert_array_equal(f(lambda v: np.sum(v * x))(np.zeros_like(x)), x)


@pytest.mark.parametrize("shape", [(25, 100, 10), (7, 30, 40), (3, 4, 1000), (50, 60), (2, 3, 40, 50), (1, 3000, 1), (5000,)], ids=str)
def test_total_is_numpys_sum_however_the_array_lies_in_memory(shape, rng):
    stored = rng.normal(size=shape)
    for order in itertools.permutations(range(len(shape))):
        x = stored.transpose(order)
        for count in range(1, len(shape) + 1):
            for axes in itertools.combinations(range(-len(shape), 0), count):
                got, want = sums.total(x, axes), np.add.reduce(x, axes)
                assert np.shape(got) == want.shape
                np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("axes", [(0,), (1,)])
@pytest.mark.parametrize("shape", [(40_000, 30), (3, 200_000), (200_000, 3)], ids=str)
def test_no_product_is_so_large_that_blas_takes_a_second_thread(shape, axes, rng, monkeypatch):
    sizes = []
    for name in ("vdot", "dot", "matmul"):
        real = getattr(np, name)

        def noted(x, y, *out, real=real):
            sizes.extend(a.size if a.ndim < 2 else a.shape[-1] * a.shape[-2] for a in (x, y))
            return real(x, y, *out)

        monkeypatch.setattr(np, name, noted)
    x = rng.normal(size=shape)
    g = ft.grad(lambda b, x: np.sum(np.tanh(x + b)))(np.zeros([1 if k in axes else n for k, n in enumerate(shape)]), x)
    np.testing.assert_allclose(g, (1 - np.tanh(x) ** 2).sum(axes, keepdims=True), rtol=1e-10)
    ft.grad(lambda x: np.sum(np.sin(x)))(x)
    assert max(sizes, default=0) <= 1 << 15


@pytest.mark.parametrize("axes", [(), (0,), (-1,), (1, 2), (0, 2), (0, 1, 2), (-3, -1)], ids=str)
@pytest.mark.parametrize("shape", [(3, 4, 5), (8, 40, 64), (2, 3, 12544), (1, 2, 50021), (0, 3, 4)], ids=str)
def test_sums_of_products_are_numpys(shape, axes):
    x, y = np.random.default_rng(0).normal(size=(2, *shape))
    for a, b in ((x, y), (x, x), (np.asfortranarray(x), y), (x.astype("f"), y.astype("f"))):
        found, expected = sums.products(a, b, axes), np.sum(a * b, axes, keepdims=True)
        assert found.dtype == expected.dtype and found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(a).sum() ** 0.5)
