"""SciPy's functions with unusual arguments: short integers, stacks, complex numbers beside real ones, parameters that are traced."""

import numpy as np
import pytest
import scipy.fft as sf
import scipy.interpolate as si
import scipy.linalg as sl
import scipy.ndimage as nd
import scipy.signal as ss
import scipy.special as sp

import functrace as ft
from functrace import errors
from functrace.testing import check_grads, numerical_jvp
from tests.helpers import SCIPY

RNG = np.random.default_rng(0)
X = np.array([0.3, 0.7, 1.2])
IMAGE = RNG.normal(size=(4, 5))
older = pytest.mark.skipif(SCIPY < (1, 16), reason="SciPy before 1.16 takes no stacks of matrices, and computes responses in double")


# special


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, bool])
@pytest.mark.parametrize(
    "f",
    [
        lambda n, x: sp.jv(n, x),
        lambda n, x: sp.kv(n, x),
        lambda n, x: sp.ive(n, x),
        lambda n, x: sp.hankel1e(n, x),
        lambda n, x: sp.eval_chebyu(n, x),
        lambda n, x: sp.xlogy(x, n + np.uint8(1)),
        lambda n, x: sp.stdtr(n + np.uint8(2), x),
        lambda n, x: sp.huber(n, x),
        lambda n, x: sp.ellipj(x, 0 * n)[0],
    ],
)
def test_parameters_of_few_bits_do_not_wrap_around_in_derivatives(f, dtype):
    n = np.array([0, 1, 1])
    wanted = ft.jvp(lambda x: f(n.astype(float), x), (X,), (np.ones(3),))[1]
    assert np.allclose(ft.jvp(lambda x: f(n.astype(dtype), x), (X,), (np.ones(3),))[1], wanted, rtol=1e-9)
    assert np.allclose(ft.grad(lambda x: np.sum(np.real(f(n.astype(dtype), x))))(X), np.real(wanted), rtol=1e-9)


@pytest.mark.parametrize(
    "f, args",
    [(sp.nbdtr, (2.0, 2.7, 0.4)), (sp.bdtri, (2.5, 5.6, 0.3)), (sp.pdtri, (2.5, 0.3)), (sp.smirnov, (3.5, 0.3)), (sp.kn, (1.5, 2.0)), (sp.yn, (1.5, 2.0))],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:floating point number truncated:RuntimeWarning", "ignore:non-integer arg n:DeprecationWarning")
def test_of_parameters_that_scipy_makes_whole_the_whole_part_counts(f, args):
    *given, x = args
    assert np.isclose(ft.grad(lambda x: f(*given, x))(x), numerical_jvp(lambda x: f(*given, x), [x], [1.0])[0])


def test_special_functions_have_the_keywords_of_ufuncs_and_take_lists():
    from functrace.scipy import special

    def written(x):
        y = x * 1.0
        special.xlogy(x, 2.0, out=y, where=np.array([True, False, True]))
        return y

    value, slope = ft.jvp(written, (X,), (np.ones(3),))
    assert np.allclose(value, [0.3 * np.log(2), 0.7, 1.2 * np.log(2)])
    assert np.allclose(slope, [np.log(2), 1, np.log(2)])
    assert ft.vjp(lambda x: special.erf(x, dtype="f4"), X)[0].dtype == special.erf(X, dtype="f4").dtype == np.float32
    assert np.allclose(ft.jacfwd(lambda a: special.betainc([1.0, a], a, 0.3, casting="same_kind"))(0.8).shape, 2)
    assert special.jv.nin == 2


# ndimage


@pytest.mark.parametrize(
    "f",
    [
        lambda m, c: m.uniform_filter(IMAGE, 2, mode="constant", cval=c),
        lambda m, c: m.gaussian_filter(IMAGE, 0.8, mode="grid-constant", cval=c),
        lambda m, c: m.sobel(IMAGE, mode="constant", cval=c),
        lambda m, c: m.correlate(IMAGE, np.ones((2, 2)), mode="constant", cval=c),
        lambda m, c: m.maximum_filter(IMAGE, 2, mode="constant", cval=c - 9),
        lambda m, c: m.shift(IMAGE, 0.3, order=1, mode="grid-constant", cval=c),
    ],
)
@pytest.mark.parametrize("cval", [0.0, 0.7])
def test_what_lies_beyond_the_edge_may_be_traced(f, cval):
    from functrace.scipy import ndimage

    value, slope = ft.jvp(lambda c: f(ndimage, c), (cval,), (1.0,))
    assert np.allclose(value, f(nd, cval))
    assert np.allclose(slope, numerical_jvp(lambda c: f(nd, float(c)), [cval], [1.0])[0])
    assert np.any(slope != 0) or f(nd, 0.0).max() == f(nd, 1.0).max()


@pytest.mark.parametrize(
    "f",
    [
        lambda m, x: m.gaussian_filter(x, 1.0),
        lambda m, x: m.convolve1d(x, [1.0, 2.0]),
        lambda m, x: m.map_coordinates(x, [[0.5], [1.5]], order=1),
        lambda m, x: m.zoom(x, 2.0),
    ],
)
def test_images_of_integers_are_refused_where_the_result_is_rounded(f):
    from functrace.scipy import ndimage

    image = (100 * np.abs(IMAGE)).astype(np.uint8)
    with pytest.raises(errors.UnsupportedError, match="uint8 too, rounded"):
        ft.vmap(lambda x: f(ndimage, x))(image[None])
    with pytest.warns(errors.JitWarning):
        assert np.array_equal(ft.jit(lambda x: f(ndimage, x))(image), f(nd, image))
    assert np.array_equal(ft.vmap(lambda x: ndimage.median_filter(x, 2))(image[None])[0], nd.median_filter(image, 2))


def test_the_spread_of_a_complex_image_is_real():
    from functrace.scipy import ndimage

    z = IMAGE + 1j * IMAGE[::-1]
    for name in ("variance", "standard_deviation"):
        assert np.isclose(ft.vjp(getattr(ndimage, name), z)[0], getattr(nd, name)(z))
    check_grads(lambda z: np.real(ndimage.variance(z)), z)
    with pytest.raises(errors.UnsupportedError, match="output="):
        ft.vjp(lambda x: ndimage.spline_filter(x, output=np.float32), IMAGE)


# linalg


@pytest.fixture
def linalg():
    from functrace.scipy import linalg

    return linalg


def test_matrix_equations_of_real_and_complex_matrices_are_solved(linalg):
    a, b, q = RNG.normal(size=(3, 3)), RNG.normal(size=(2, 2)), RNG.normal(size=(3, 2)) + 1j * RNG.normal(size=(3, 2))
    x = ft.vjp(lambda q: linalg.solve_sylvester(a, b, q), q)[0]
    assert np.allclose(a @ x + x @ b, q)  # SciPy's own x is not
    check_grads(linalg.solve_sylvester, a, b, q)
    check_grads(linalg.solve_continuous_lyapunov, a, q @ q.T)


@pytest.mark.parametrize("name", ["solve_continuous_are", "solve_discrete_are", "solve_continuous_lyapunov"])
def test_matrix_equations_of_numbers_are_those_of_matrices_of_one_element(linalg, name):
    solve, numbers = getattr(linalg, name), [-0.5, 1.2, 0.7, 2.0][: 2 if name.endswith("lyapunov") else 4]
    check_grads(solve, *map(np.float64, numbers))
    assert ft.vjp(solve, *numbers)[0] == getattr(linalg, name)(*numbers)


@pytest.mark.usefixtures("random_state")
def test_logarithms_of_matrices_with_negative_eigenvalues_have_second_derivatives(linalg):
    a = np.array([[-1.0, 0.4, 0.0], [0.3, 2.7, 0.2], [0.1, 0.5, 1.4]])
    check_grads(linalg.logm, a)
    check_grads(lambda a: linalg.fractional_matrix_power(a, 0.5), a @ a)


@older
def test_stacks_of_matrices_are_taken_each_for_itself(linalg):
    small = RNG.normal(size=(3, 2, 1)) @ RNG.normal(size=(3, 1, 4)) * np.array([1e-9, 1.0, 1e9])[:, None, None]
    mixed = np.concatenate([small, RNG.normal(size=(1, 2, 4))])
    out, rank = ft.vjp(lambda a: linalg.pinv(a, return_rank=True)[0], mixed)[0], linalg.pinv(ft.stop_gradient(mixed), return_rank=True)[1]
    wanted, ranks = sl.pinv(mixed, return_rank=True)
    assert all(np.allclose(x, y) for x, y in zip(out * 1, wanted)) and np.array_equal(rank, ranks)
    assert np.array_equal(ft.vmap(lambda a: linalg.pinv(a, return_rank=True)[1])(mixed[:, None])[:, 0], ranks)

    a, b = RNG.normal(size=(3, 1, 3, 3)), RNG.normal(size=(3, 3))  # as many as each has rows
    a, b = a + np.swapaxes(a, -1, -2), b @ b.T + 3 * np.eye(3)
    for kind in (1, 2, 3):
        (w, v), pull = ft.vjp(lambda b, kind=kind: linalg.eigh(a, b, type=kind), b)
        assert np.allclose(v, sl.eigh(a, b, type=kind)[1])
        assert pull((np.ones_like(w), np.ones_like(v)))[0].shape == (3, 3)
    ends = [np.min(sl.eigvalsh(a)) - 1, 0.0]
    same = np.stack([b - 4 * np.eye(3), b - 4.1 * np.eye(3)])
    assert np.allclose(ft.vjp(lambda a: linalg.eigvalsh(a, subset_by_value=ends), same)[0], sl.eigvalsh(same, subset_by_value=ends))
    with pytest.raises(errors.UnsupportedError, match="different numbers of such values"):
        ft.vjp(lambda a: linalg.eigvalsh(a, subset_by_value=ends), np.stack([b, -b]))

    blocks = RNG.normal(size=(2, 1, 2, 2)), RNG.normal(size=(3, 1, 1)), RNG.normal(size=3)
    assert np.array_equal(ft.vjp(linalg.block_diag, *blocks)[0], sl.block_diag(*blocks))
    assert np.array_equal(ft.vjp(lambda c: linalg.toeplitz(c, [1.0, 2.0]), 2.5)[0], sl.toeplitz(2.5, [1.0, 2.0]))


def test_a_matrix_between_stacks_has_its_gradient():
    a, b = RNG.normal(size=(2, 1, 3, 3)), RNG.normal(size=(3, 3))
    check_grads(lambda b: b.T @ a @ b, b)


@pytest.mark.filterwarnings("ignore:.minkowski_distance:DeprecationWarning")  # of SciPy 1.18
@pytest.mark.parametrize("order", [1.0, 2.0, 3.0])
def test_an_order_alone_may_be_traced_where_it_is_a_special_one(linalg, order):
    from functrace.scipy import spatial, stats

    check_grads(lambda p: linalg.norm(X, p), order)
    check_grads(lambda p: spatial.distance.minkowski(X, 2 * X[::-1], p), order)
    check_grads(lambda p: spatial.minkowski_distance(X, 2 * X[::-1], p), order)
    wanted = numerical_jvp(lambda p: stats.pmean(X, float(p)), [order], [1.0])[0]
    assert np.isclose(ft.grad(lambda p: stats.pmean(X, p))(order), wanted)
    with pytest.raises(errors.UnsupportedError, match="pmean of order 0"):
        ft.grad(lambda p: stats.pmean(X, p))(0.0)


# signal


@pytest.fixture
def signal():
    from functrace.scipy import signal

    return signal


@pytest.mark.parametrize("name", ["welch", "periodogram", "spectrogram", "stft"])
def test_spectra_refuse_traced_options(signal, name):
    with pytest.raises(errors.UnsupportedError, match="only the signal has a derivative rule"):
        ft.vjp(lambda fs: getattr(signal, name)(np.arange(9.0), fs), 2.0)
    with pytest.raises(errors.UnsupportedError, match="only the signal has a derivative rule"):
        ft.vjp(lambda w: signal.csd(np.arange(9.0), np.ones(9), window=w, nperseg=4), np.ones(4))


def test_images_of_integers_are_continued_by_fractions_and_by_what_is_traced(signal):
    image, kernel = (9 * np.abs(IMAGE)).astype(np.uint16), RNG.normal(size=(2, 3))
    for f in (lambda m, k, c: m.convolve2d(image, k, fillvalue=c), lambda m, k, c: m.correlate2d(image, k, "same", fillvalue=c)):
        for c in (0.0, 1.5):
            value, slope = ft.jvp(lambda k, c, f=f: f(signal, k, c), (kernel, c), (kernel, 1.0))
            assert np.allclose(value, f(ss, kernel, c))
            assert np.allclose(slope, numerical_jvp(lambda k, c, f=f: f(ss, k, float(c)), [kernel, c], [kernel, 1.0])[0])
    z = kernel + 1j * kernel[::-1]
    for f in (ss.correlate, ss.correlate2d):
        assert np.allclose(ft.vjp(lambda z, f=f: getattr(signal, f.__name__)(z, IMAGE + 1j, "valid"), z)[0], f(z, IMAGE + 1j, "valid"))


@older
@pytest.mark.parametrize("dtype", ["f2", "f4", "c8"])
def test_responses_have_scipys_dtypes(signal, dtype):
    b, a = np.array([1.0, 0.5], dtype), np.array([1.0, -0.3], dtype)
    for f in (lambda m, b: m.freqz(b, a, 5), lambda m, b: m.freqz_zpk(b[1:], a[1:], 1.5, 5)):
        for got, want in zip(ft.vjp(lambda b, f=f: f(signal, b), b)[0], f(ss, b)):
            assert got.dtype == want.dtype
            assert np.allclose(got, want, rtol=1e-2 if dtype == "f2" else 1e-5)


def test_the_answer_to_a_frequency_may_be_differentiated_in_it_and_in_the_sampling_rate(signal):
    b, a, sos = np.array([1.0, 0.4]), np.array([1.0, -0.3]), np.array([[1.0, 0.4, 0.1, 1.0, -0.3, 0.2]])
    for f in (
        lambda m, w, fs: m.freqz(b, a, w, fs=fs),
        lambda m, w, fs: m.freqz_sos(sos, w, fs=fs),
        lambda m, w, fs: m.freqz_zpk(a[1:], b[1:], 1.5, w, fs=fs),
        lambda m, w, fs: m.group_delay((b, a), w, fs=fs),
    ):
        for w in (4, X):
            assert all(map(np.allclose, ft.vjp(lambda fs, f=f, w=w: f(signal, w, fs), 3.0)[0], f(ss, w, 3.0)))
        wanted = numerical_jvp(lambda w, fs, f=f: f(ss, w, float(fs)), [X, 3.0], [np.ones(3), 0.5])
        assert all(map(np.allclose, ft.jvp(lambda w, fs, f=f: f(signal, w, fs), (X, 3.0), (np.ones(3), 0.5))[1], wanted))


def test_cosine_transforms_of_complex_numbers_refuse_what_scipy_ignores():
    from functrace.scipy import fft

    with pytest.raises(errors.UnsupportedError, match="orthogonalize="):
        ft.vjp(lambda z: fft.dct(z, orthogonalize=True), X + 1j)
    assert np.allclose(ft.vjp(lambda z: fft.dct(z, norm="ortho"), X + 1j)[0], sf.dct(X + 1j, norm="ortho"))


# interpolation and distances


def test_places_that_are_complex_are_refused_and_derivatives_may_be_listed():
    from functrace.scipy import interpolate

    x = np.arange(5.0)
    for curve in (interpolate.CubicSpline(x, x**2), interpolate.interp1d(x, x**2), interpolate.RBFInterpolator(x[:, None], x)):
        with pytest.raises(errors.InputTypeError, match="complex"):  # SciPy takes the real part
            ft.vjp(curve, np.array([[1 + 1j]]))
    for name in ("krogh_interpolate", "barycentric_interpolate"):
        got = ft.vjp(lambda at, name=name: getattr(interpolate, name)(x, np.sin(x), at, der=[0, 2]), X)[0]
        state = np.random.get_state()  # noqa: NPY002 - from which SciPy draws before 1.15
        want = getattr(si, name)(x, np.sin(x), X, der=[0, 2])
        np.random.set_state(state)  # noqa: NPY002
        assert np.allclose(got, want)
    with pytest.raises(errors.UnsupportedError, match="wi="):
        ft.vjp(lambda y: interpolate.BarycentricInterpolator(x, y, wi=np.ones(5))(X), x)


@pytest.mark.parametrize("name, more", [("braycurtis", ()), ("canberra", ()), ("seuclidean", (X,))])
def test_distances_that_are_of_real_vectors_refuse_complex_ones(name, more):  # SciPy takes the real part
    from functrace.scipy.spatial import distance

    with pytest.raises(errors.InputTypeError, match="complex"):
        ft.vjp(lambda u: getattr(distance, name)(u, X[::-1], *more), X + 1j)
    with pytest.raises(errors.InputTypeError, match="complex"):
        ft.vjp(lambda x: distance.pdist(x, name), np.stack([X + 1j, X]))
