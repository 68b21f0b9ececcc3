"""Gradients cost a moderate multiple of their function, whatever the length: a transpose of quadratic cost would be hundreds of times."""

import sys
import time

import numpy as np
import pytest

import functrace as ft
from functrace.transforms.masks import finite

N = 10_000
X, KERNEL, STARTS = np.linspace(0.5, 1.5, N), np.array([0.5, 1.0, -0.5, 2.0]), np.arange(0, N, 10)
CASES = {
    "convolve": (lambda w: np.convolve(X, w), KERNEL),
    "convolve, valid, of two long ones": (lambda x: np.convolve(x, X[:-3], "valid"), X),
    "correlate": (lambda w: np.correlate(X, w, "same"), KERNEL),
    "add.reduceat": (lambda x: np.add.reduceat(x, STARTS), X),
    "maximum.reduceat": (lambda x: np.maximum.reduceat(x, STARTS), X),
    "rows by index": (lambda x: x[np.arange(N)[::-1] // 100], X.reshape(100, 100)),
    "pad": (lambda x: np.pad(x, 2, mode="reflect"), X),
    "sinc": (np.sinc, X),
    "quantile": (lambda x: np.quantile(x, 0.3), X),
}


def cost(call):
    times = []
    for _ in range(7):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def held(function, x, times=100):
    gradient = ft.grad(lambda x: np.sum(function(x)))
    gradient(x)
    assert cost(lambda: gradient(x)) < times * cost(lambda: np.sum(function(x))) + 2e-3


@pytest.mark.parametrize("name", CASES)
def test_a_gradient_costs_a_multiple_of_its_function(name):
    held(*CASES[name])


SIGNALS = {
    "detrend": lambda s, x: s.detrend(x),
    "hilbert": lambda s, x: np.abs(s.hilbert(x)),
    "convolve": lambda s, x: s.convolve(X, x[:9], method="direct"),
    "correlate2d": lambda s, x: s.correlate2d(X.reshape(100, 100), x[:9].reshape(3, 3), mode="valid"),
    "savgol_filter": lambda s, x: s.savgol_filter(x, 11, 3),
    "savgol_filter, mirrored": lambda s, x: s.savgol_filter(x, 11, 3, mode="mirror"),
    "resample": lambda s, x: s.resample(x, 7000),
    "resample_poly": lambda s, x: s.resample_poly(x, 3, 2),
    "upfirdn": lambda s, x: s.upfirdn(X[:100], x, 3, 2),
    "decimate": lambda s, x: s.decimate(x, 4),
    "decimate, fir": lambda s, x: s.decimate(x, 4, ftype="fir"),
    "czt": lambda s, x: np.abs(s.czt(x)),
    "zoom_fft": lambda s, x: np.abs(s.zoom_fft(x, [0.1, 0.4])),
    "welch": lambda s, x: s.welch(x)[1],
}


@pytest.mark.parametrize("name", SIGNALS)
def test_of_signals(name):
    pytest.importorskip("scipy")
    from functrace.scipy import signal

    held(lambda x: SIGNALS[name](signal, x), X)


IMAGES = {
    **{f"{name}, {mode}": (name, mode) for name in ("sobel", "prewitt") for mode in ("reflect", "nearest", "mirror")},
    **{f"{name}, {mode}": (name, mode) for name in ("laplace", "spline_filter") for mode in ("nearest", "mirror")},
}


@pytest.mark.parametrize("name", IMAGES)
def test_of_images(name):
    pytest.importorskip("scipy")
    from functrace.scipy import ndimage

    function, mode = IMAGES[name]
    held(lambda x: getattr(ndimage, function)(x, mode=mode), np.stack([X, X]))


@pytest.mark.parametrize("name, last", [("binom", 1), ("beta", 1), ("betaln", 1), ("poch", 1), ("y1", 0)])
def test_of_special_functions(name, last):
    pytest.importorskip("scipy")
    from functrace.scipy import special

    x = np.linspace(1.5, 4.5, 30_000)
    held(lambda x: getattr(special, name)(*[x + 3, x][1 - last :]), x, 25)


def test_what_is_special_in_few_places_is_right_there_and_batched():
    pytest.importorskip("scipy")
    from functrace.scipy import special

    n, k = np.array([5.5, 4.0, 3.0, 6.0]), np.array([2.0, -1.0, 5.0, 1e-4])
    for f in (special.binom, special.poch, lambda n, k: special.beta(n, k + 7)):
        one = ft.vmap(ft.grad(f, (0, 1)))
        for rows in (
            ft.vjp(f, n, k)[1](np.ones(4)),
            ft.jit(one)(n, k),
            [np.stack(c) for c in zip(*(ft.grad(f, (0, 1))(*a) for a in zip(n, k)))],
        ):
            for got, want in zip(rows, one(n, k)):
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)
    ft.check_grads(lambda n, k: special.binom(n, k) + special.poch(n, k), n, np.array([2.1, 3.3, 1.2, 0.8]), step=1e-3)


def test_long_recurrences_are_cut_into_parts(rng):
    x = 1 + 1e-3 * rng.normal(size=(40_000, 2))
    g = rng.normal(size=x.shape)
    product = np.cumprod(x, axis=0)
    want = np.cumsum((g * product)[::-1], axis=0)[::-1] / x
    np.testing.assert_allclose(ft.vjp(lambda x: np.cumprod(x, axis=0), x)[1](g)[0], want, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        ft.jvp(lambda x: np.cumprod(x, axis=0), (x,), (g,))[1], product * np.cumsum(g / x, axis=0), rtol=1e-9, atol=1e-9
    )
    gradient = ft.grad(lambda x: np.sum(np.maximum.accumulate(x) * g[:, 0]))(x[:, 0])
    highest = np.maximum.accumulate(x[:, 0])
    places = np.flatnonzero(np.r_[True, np.diff(highest) > 0])
    np.testing.assert_allclose(gradient[places], np.add.reduceat(g[:, 0], places), rtol=1e-9)
    assert np.count_nonzero(gradient) == len(places)


@pytest.mark.parametrize("sizes", [(1, 1), (4, 9), (9, 9)])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolutions_are_differentiated_twice_and_batched(sizes, mode, rng):
    x, w = (rng.normal(size=n) for n in sizes)
    product = lambda x, w: np.sum(np.convolve(x, w, mode) ** 2)
    ft.check_grads(product, x, w)
    batch = np.stack([x, 2 * x]), np.stack([w, -w])
    for axes in ((0, 0), (0, None), (None, 0)):
        args = [b if a == 0 else b[0] for a, b in zip(axes, batch)]
        each = [[b[k] if a == 0 else b[0] for a, b in zip(axes, batch)] for k in (0, 1)]
        got, want = ft.vmap(ft.grad(product, (0, 1)), in_axes=axes)(*args), [ft.grad(product, (0, 1))(*row) for row in each]
        for k in (0, 1):
            np.testing.assert_allclose(got[k], np.stack([row[k] for row in want]))


@pytest.mark.parametrize("mode", ["reflect", "constant", "wrap", "grid-wrap", "nearest", "mirror"])
@pytest.mark.parametrize(
    "name, args",
    [
        ("gaussian_filter1d", (1.3,)),
        ("gaussian_filter1d", (0.8, -1, 1)),
        ("uniform_filter1d", (3,)),
        ("uniform_filter1d", (4,)),
        ("sobel", ()),
    ],
)
def test_filters_of_fewer_elements_than_their_kernel(name, args, mode, rng):
    pytest.importorskip("scipy")
    from functrace.scipy import ndimage

    ft.check_grads(lambda x: np.sum(np.sin(getattr(ndimage, name)(x, *args, mode=mode))), rng.normal(size=3))


_ROWS, _COLUMNS = np.arange(90) % 41 - 3, np.arange(90) % 67
READS = {
    **{mode: lambda a, mode=mode: np.pad(a, ((3, 2), (1, 90)), mode=mode) for mode in ("edge", "wrap", "reflect", "symmetric")},
    "rows": lambda a: a[_ROWS],
    "many rows": lambda a: a[np.resize(_ROWS, (30, 20))],
    "many rows of a transpose": lambda a: a.T[np.resize(_ROWS, 600)],
    "rows by small integers": lambda a: a[_ROWS.astype(np.int8).reshape(9, 10)],
    "columns": lambda a: a[:, _COLUMNS],
    "pairs": lambda a: a[_ROWS[:, None], _COLUMNS],
    "repeated": lambda a: np.repeat(a, 3, axis=1),
    "rolled": lambda a: np.roll(a, (3, -75), (0, 1)),
    "diagonal": lambda a: np.diagonal(a, -7),
}


@pytest.mark.parametrize("name", READS)
def test_elements_of_large_arrays_get_the_sum_of_what_reads_them(name, rng):
    read, x = READS[name], rng.normal(size=(80, 70))
    places = read(np.arange(x.size).reshape(x.shape))
    weights = rng.normal(size=places.shape)
    want = np.bincount(places.ravel(), weights.ravel(), x.size).reshape(x.shape)
    gradient = ft.grad(lambda x: np.sum(read(x) * weights))
    assert np.array_equal(ft.vjp(read, x)[0], read(x))
    for got in (gradient(x), ft.jit(gradient)(x), ft.vmap(gradient)(x[None])[0]):
        np.testing.assert_allclose(got, want, atol=1e-13)
    twice = ft.grad(lambda x: np.sum(ft.grad(lambda x: np.sum(read(x) ** 3))(x) * x))
    np.testing.assert_allclose(twice(x), ft.grad(lambda x: 3 * np.sum(read(x) ** 3))(x), atol=1e-12)


def test_what_is_recorded_is_not_overwritten(rng):
    pytest.importorskip("scipy")
    from functrace.scipy import signal

    def f(x, overwrite):
        y = x * 2.0
        return np.sum(signal.detrend(y, overwrite_data=overwrite) ** 2 * y)

    x = rng.normal(size=12)
    np.testing.assert_array_equal(ft.grad(f)(x, True), ft.grad(f)(x, False))


FEW = {
    "item": (lambda x: x[0], 44),
    "sum": (lambda x: x.sum(), 46),
    "square": (lambda x: (x * x).sum(), 51),
    "product": (lambda x: np.sin(x) @ x, 48),
    "cov": (lambda x: np.cov(x), 160),
    "corrcoef": (lambda x: np.corrcoef(x, np.sin(x))[0, 1], 320),
    "tile": (lambda x: np.tile(x, 2)[0], 110),
    "meshgrid": (lambda x: np.meshgrid(x, x)[0][0, 0], 170),
    "trace": (lambda x: np.trace(x[:9].reshape(3, 3)), 90),
    "gelu": (lambda x: ft.nn.gelu(x)[0], 60),
}


@pytest.mark.parametrize("name", FEW)
def test_a_gradient_of_few_numbers_makes_few_calls(name):
    function, most = FEW[name]
    gradient, calls = ft.value_and_grad(function), []
    gradient(np.arange(10.0))

    def count(frame, event, _arg):
        if event == "call" and frame.f_globals["__name__"].startswith("functrace."):
            calls.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        gradient(np.arange(10.0))
    finally:
        sys.setprofile(before)
    assert len(calls) <= most, calls


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, lambda x: np.repeat(x, 2, axis=1)[:, ::2]])
@pytest.mark.parametrize("shape", [(2, 3), (5, 7)])  # added by Python, and by NumPy
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_is_seen_in_any_layout(layout, shape, bad):
    found = layout(np.full(shape, 1e200))
    assert finite([found])
    found[1, 2] = bad
    assert not finite([found])
    assert not finite([found * (1 + 1j)])


def test_lu_warns_of_a_singular_matrix_and_takes_what_lapack_does_not():
    linalg = pytest.importorskip("scipy.linalg")
    from functrace.scipy import linalg as ours

    x = np.arange(9.0).reshape(3, 3) + 4 * np.eye(3)
    for dtype in (np.float32, np.float64, np.complex128):
        found = ft.vjp(lambda x: ours.lu(x)[1:], x.astype(dtype))[0]
        for part, want in zip(found, linalg.lu(x.astype(dtype))[1:]):
            assert part.dtype == want.dtype and np.allclose(part, want)
    with pytest.warns(linalg.LinAlgWarning, match="Singular"):
        ft.vjp(lambda x: ours.lu_factor(x)[0], np.zeros((2, 2)))
    with pytest.raises(ValueError, match="infs or NaNs"):
        ft.vjp(lambda x: ours.lu(x)[1], np.full((2, 2), np.nan))


@pytest.mark.parametrize("y", [None, (), (1,), (5,), (2, 5), (5, 2), (1, 5)])
@pytest.mark.parametrize("x", [(), (1,), (5,), (3, 5), (5, 3), (0,), (2, 1)])
@pytest.mark.parametrize("options", [{}, {"bias": True}, {"ddof": 2}, {"rowvar": False}])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_covariances_are_numpys(x, y, options, rng):
    x, y = np.asarray(rng.normal(size=x)), None if y is None else np.asarray(rng.normal(size=y))
    try:
        want = np.cov(x, y, **options)
    except Exception as error:
        with pytest.raises(type(error)):
            ft.vjp(lambda x: np.cov(x, y, **options), x)
        return
    found = ft.vjp(lambda x: np.cov(x, y, **options), x)[0]
    assert found.shape == want.shape and np.allclose(found, want, equal_nan=True)
