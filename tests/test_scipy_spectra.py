"""Spectra of signals cut into segments: SciPy's values, shapes and dtypes for each of the keywords, and derivatives of what people fit."""

import numpy as np
import pytest

import functrace as ft

scipy_signal = pytest.importorskip("scipy.signal")
pytestmark = pytest.mark.filterwarnings("ignore:nperseg", "ignore:Input data is complex")
RNG = np.random.default_rng(0)
X, ROWS, COLUMNS = RNG.normal(size=40), RNG.normal(size=(3, 40)), RNG.normal(size=(40, 2))
Z = X + 1j * RNG.normal(size=40)


@pytest.fixture
def signal():
    from functrace.scipy import signal

    return signal


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("welch", (X,), {}),
        ("welch", (X,), {"nperseg": 15, "scaling": "spectrum", "fs": 3.0, "detrend": "linear"}),
        ("welch", (COLUMNS,), {"nperseg": 8, "axis": 0, "average": "median"}),
        ("welch", (X,), {"window": np.hanning(10)}),
        ("welch", (X,), {"window": ("kaiser", 4.0), "nperseg": 9, "nfft": 20, "noverlap": 0}),
        ("welch", (Z,), {"nperseg": 8}),
        ("welch", (X.astype(np.float32),), {"nperseg": 8, "detrend": False}),
        ("csd", (X, X[:30]), {"nperseg": 8}),
        ("csd", (X, ROWS), {"nperseg": 8, "average": "median"}),
        ("csd", (Z, X), {"nperseg": 8}),
        ("periodogram", (X, 1.0, None, 64), {}),
        ("periodogram", (COLUMNS,), {"axis": 0, "nfft": 30, "scaling": "spectrum"}),
        ("coherence", (X, ROWS), {"nperseg": 8}),
        ("spectrogram", (X,), {"nperseg": 16}),
        ("spectrogram", (COLUMNS,), {"nperseg": 16, "axis": 0, "noverlap": 3}),
        ("spectrogram", (ROWS,), {"nperseg": 8, "mode": "phase"}),
        ("spectrogram", (X,), {"nperseg": 8, "mode": "angle"}),
        ("spectrogram", (X,), {"window": np.ones(9), "mode": "complex"}),
        ("stft", (X,), {}),
        ("stft", (X,), {"nperseg": 9, "noverlap": 5, "boundary": "even"}),
        ("stft", (X,), {"nperseg": 9, "boundary": "constant", "padded": False}),
        ("stft", (COLUMNS,), {"nperseg": 8, "axis": 0, "detrend": "constant", "boundary": None}),
        ("stft", (ROWS,), {"window": np.ones(7), "nperseg": 7, "nfft": 12, "scaling": "psd"}),
    ],
)
def test_traced_they_give_what_scipy_gives(signal, name, args, kwargs):
    want = getattr(scipy_signal, name)(*args, **kwargs)
    found = []

    def f(*xs):
        found.extend(getattr(signal, name)(*xs, *args[len(xs) :], **kwargs))
        return np.sum(np.abs(found[-1]))

    ft.vjp(f, *(a for a in args if isinstance(a, np.ndarray)))
    assert len(found) == len(want)
    single = args[0].dtype == np.float32
    for got, right in zip(map(ft.value, found), want):
        assert got.shape == right.shape and got.dtype == right.dtype
        np.testing.assert_allclose(got, right, rtol=1e-4 if single else 1e-10, atol=1e-6 if single else 1e-13)


@pytest.mark.parametrize(
    "power",
    [
        lambda s, x: s.welch(x, nperseg=8)[1],
        lambda s, x: s.welch(x, nperseg=7, average="median")[1],
        lambda s, x: s.csd(x, x**2, nperseg=8)[1],
        lambda s, x: s.stft(x, nperseg=8)[2],
        lambda s, x: s.spectrogram(x, nperseg=8, mode="phase", detrend=False)[2],
        lambda s, x: s.coherence(x, np.sin(x), nperseg=8)[1],
    ],
)
def test_spectra_have_two_derivatives(signal, power):
    ft.check_grads(lambda x: power(signal, x), X[:30])


def test_a_frequency_is_found_by_its_spectrogram(signal):
    t = np.arange(200) / 100
    heard = signal.spectrogram(np.sin(2 * np.pi * 12.0 * t), 100, nperseg=50)[2]
    cost = lambda f: np.sum((signal.spectrogram(np.sin(2 * np.pi * f * t), 100, nperseg=50)[2] - heard) ** 2)
    f = 12.3
    for _ in range(30):
        f = f - ft.grad(cost)(f) / ft.grad(ft.grad(cost))(f)
    assert np.isclose(f, 12.0, rtol=1e-9)


def test_a_detrending_function_is_refused(signal):
    with pytest.raises(ft.errors.UnsupportedError, match="detrend"):
        ft.grad(lambda x: np.sum(signal.welch(x, nperseg=8, detrend=lambda s: s - 1)[1]))(X)


@pytest.mark.parametrize("name", ["freqz_sos", "sosfreqz"])
def test_sections_answer_frequencies_as_the_whole_filter_does(name, signal):
    sos = scipy_signal.butter(5, 0.3, output="sos")
    answered = lambda b: getattr(signal, name)(np.concatenate([b, sos[:, 3:]], 1), 9, fs=3.0)
    for got, want in zip(ft.vjp(lambda b: answered(b)[1], sos[:, :3])[0], getattr(scipy_signal, name)(sos, 9, fs=3.0)[1]):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)
    whole = lambda b: signal.freqz(*signal.sos2tf(np.concatenate([b, sos[:, 3:]], 1)), 9, fs=3.0)[1]
    power = lambda f: ft.grad(lambda b: np.sum(np.abs(f(b)) ** 2))
    np.testing.assert_allclose(power(lambda b: answered(b)[1])(sos[:, :3]), power(whole)(sos[:, :3]), rtol=1e-8, atol=1e-10)
    with pytest.raises(ValueError, match="all ones"):
        ft.vjp(lambda s: getattr(signal, name)(s), 2 * sos)


@pytest.mark.parametrize("kwargs", [{}, {"precenter": True}, {"normalize": True}])
@pytest.mark.filterwarnings("ignore:.*precenter:DeprecationWarning")
def test_the_periodogram_of_uneven_times_is_scipys(kwargs, signal):
    x, at = np.sort(RNG.uniform(0, 9, size=20)), np.array([0.7, 1.9])
    got, back = ft.vjp(lambda y, w: signal.lombscargle(x, y, w, **kwargs), X[:20], at)
    np.testing.assert_allclose(got, scipy_signal.lombscargle(x, X[:20], at, **kwargs), rtol=1e-9)
    ft.check_grads(lambda y, w: signal.lombscargle(x, y, w, **kwargs), X[:20], at, order=2)
    with pytest.raises(ft.errors.UnsupportedError, match="floating_mean"):
        ft.grad(lambda y: signal.lombscargle(x, y, at, floating_mean=True)[0])(X[:20])
