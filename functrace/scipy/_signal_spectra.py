"""SciPy's spectra of signals cut into segments, of `scipy.signal`: `welch`, `csd`, `stft` and their like.

A segment's spectrum is linear in the signal, and the rest are products. Frequencies, times, warnings and errors are SciPy's own, of a
signal of zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.signal as _scipy

from functrace.ops.create import lift
from functrace.ops.functions import refuse
from functrace.ops.registry import Sample, each, one
from functrace.ops.statistics import as_float
from functrace.scipy._shared import along, named, only_first, real
from functrace.scipy._signal_linear import pad_first, pad_last
from functrace.transforms.arguments import zeros_like


def _spectral(name: str, *samples: Sample) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`named` of a function of signals, in which all else is constant."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(**given: Any) -> Any:
            only_first(name, *(v for k, v in given.items() if k not in ("x", "y", "Zxx")), which="the signal")
            return function(**given)

        call.__doc__ = function.__doc__
        return named(_scipy, name, *samples)(call)

    return enter


def _step(n: int, noverlap: Any) -> int:
    """From the start of a segment of n places to the start of the next."""
    return n - (n // 2 if noverlap is None else int(noverlap))


def _segments(
    x: Any, window: Any, nperseg: Any, noverlap: Any, nfft: Any, detrend: Any, onesided: bool
) -> tuple[Any, Any]:  # fmt: skip
    """The spectra of the segments of the last axis, (..., segment, frequency), and the window."""
    if callable(detrend):
        refuse("a spectrum", detrend=(detrend, None))
    if isinstance(window, (str, tuple)):
        window = _scipy.get_window(window, min(int(nperseg or 256), x.shape[-1]))
    window = real(window, "the window").astype(x.real.dtype)
    n = window.shape[0]
    starts = np.arange(0, x.shape[-1] - n + 1, _step(n, noverlap))
    parts: Any = x[..., starts[:, None] + np.arange(n)]
    if detrend:
        straight: Any = lambda y, k: _scipy.detrend(y, k, detrend)
        parts = along(parts, -1, straight, straight)
    return (np.fft.rfft if onesided else np.fft.fft)(parts * window, nfft), window


def _power(x: Any, y: Any, axis: int, fs: Any, return_onesided: bool, scaling: str, nfft: Any, **options: Any) -> Any:
    """Products of the spectra of two signals, (..., segment, frequency); real if they are the same."""
    onesided = return_onesided and x.dtype.kind != "c" and y.dtype.kind != "c"
    n = max(x.shape[axis], y.shape[axis])
    padded: Any = lambda s: np.pad(np.moveaxis(s, axis, -1), [(0, 0)] * (s.ndim - 1) + [(0, n - s.shape[axis])])
    cut: Any = lambda s: _segments(padded(s), nfft=nfft, onesided=onesided, **options)
    first, window = cut(x)
    power = np.real(first) ** 2 + np.imag(first) ** 2 if y is x else np.conjugate(first) * cut(y)[0]
    scale = fs * np.sum(window * window) if scaling == "density" else np.sum(window) ** 2
    weights = np.full(power.shape[-1], 1 / scale, power.real.dtype)
    if onesided:  # what is left out is the same again, but for frequency 0 and, of even lengths, the highest
        weights[1 : -1 if (nfft or window.shape[0]) % 2 == 0 else None] *= 2
    return power * weights


def _bias(n: int) -> float:
    """The bias of the median of n powers, as an estimate of their mean: Percival & Walden 1993, "Spectral analysis", p. 426."""
    odd = 2 * np.arange(1.0, (n - 1) // 2 + 1)
    return 1.0 + float(np.sum(1 / (odd + 1) - 1 / odd))


_CUT: Any = {"nperseg": 6}
_BOTH: Any = {"nperseg": 6, "return_onesided": False}  # of complex signals SciPy warns else
_PAIR = each((14,), (14,), **_CUT)


@_spectral(
    "csd",
    _PAIR,
    each((2, 9), (2, 12), nperseg=5, detrend="linear"),
    each((9,), (9,), nperseg=9, fs=2.0, scaling="spectrum", detrend=False),
)
def _csd(x: Any, y: Any, average: str, axis: int, **options: Any) -> Any:
    x, y = (as_float(x),) * 2 if y is x else (as_float(x), as_float(y))
    plain = zeros_like(x)
    frequencies, like = _scipy.csd(plain, plain if y is x else zeros_like(y), average=average, axis=axis, **options)
    power = _power(x, y, axis=axis, **options)
    if average == "median":
        middle: Any = lambda p: np.median(p, axis=-2) / _bias(p.shape[-2])
        out = middle(np.real(power)) + 1j * middle(np.imag(power)) if power.dtype.kind == "c" else middle(power)
    else:
        out = np.mean(power, axis=-2)
    return frequencies, np.moveaxis(out, -1, axis).astype(like.dtype)


@_spectral("welch", one(14, **_CUT), one(15, 2, axis=0, nperseg=7, noverlap=2, nfft=9), one(14, average="median", **_CUT))
def _welch(x: Any, **options: Any) -> Any:
    return _csd(x, x, **options)


@_spectral(
    "periodogram", one(9, detrend=False), one(8, window="hann", fs=4.0), one(2, 8, nfft=6, window="hann"), one(7, nfft=9, detrend=False)
)
def _periodogram(x: Any, window: Any, nfft: Any, axis: int, **options: Any) -> Any:
    x = lift(x)
    if nfft is not None and nfft < x.shape[axis]:
        x = np.moveaxis(np.moveaxis(x, axis, -1)[..., :nfft], -1, axis)
    window = "boxcar" if window is None else window
    return _csd(x, x, window=window, nperseg=x.shape[axis], noverlap=0, nfft=nfft, axis=axis, average="mean", **options)


@_spectral("coherence", each((20,), (20,), nperseg=4), each((2, 20), (20,), nperseg=5))
def _coherence(x: Any, y: Any, **options: Any) -> Any:
    options |= {"return_onesided": True, "scaling": "density", "average": "mean"}
    (frequencies, xx), (_, yy), (_, xy) = _csd(x, x, **options), _csd(y, y, **options), _csd(x, y, **options)
    return frequencies, (np.real(xy) ** 2 + np.imag(xy) ** 2) / xx / yy


def _placed(spectra: Any, axis: int) -> Any:
    """Frequencies where the data had their axis, and the segments last."""
    return np.moveaxis(spectra, -1, axis - 1 if axis < 0 else axis)


@_spectral("spectrogram", one(14, **_BOTH), one(14, 2, axis=0, mode="magnitude", **_BOTH))
def _spectrogram(x: Any, noverlap: Any, axis: int, mode: str, scaling: str, **options: Any) -> Any:
    x = as_float(x)
    frequencies, times, like = _scipy.spectrogram(zeros_like(x), noverlap=noverlap, axis=axis, mode=mode, scaling=scaling, **options)
    if noverlap is None:
        n = options["nperseg"] or (256 if isinstance(options["window"], (str, tuple)) else len(options["window"]))
        noverlap = min(int(n), x.shape[axis]) // 8
    if mode == "psd":
        return frequencies, times, _placed(_power(x, x, noverlap=noverlap, axis=axis, scaling=scaling, **options), axis)
    out = _placed(_transform(x, axis, scaling, noverlap=noverlap, **options), axis)
    if mode == "complex":
        return frequencies, times, out
    parts: Any = {"magnitude": np.abs, "angle": np.angle, "phase": lambda z: np.unwrap(np.angle(z), axis=axis - 1 if axis < 0 else axis)}
    return frequencies, times, parts[mode](out).astype(like.dtype)


def _transform(x: Any, axis: int, scaling: str, fs: Any, return_onesided: bool, **options: Any) -> Any:
    spectra, window = _segments(np.moveaxis(x, axis, -1), onesided=return_onesided and x.dtype.kind != "c", **options)
    scale = np.sqrt(fs * np.sum(window * window)) if scaling in ("density", "psd") else abs(np.sum(window))
    return spectra * (1 / scale).astype(window.dtype)


_EDGES: Any = {
    "zeros": {"mode": "constant"},
    "constant": {"mode": "edge"},
    "even": {"mode": "reflect"},
    "odd": {"mode": "reflect", "reflect_type": "odd"},
}


_WAVE: Any = lambda *shape, **kwargs: Sample(lambda rng: (rng.normal(size=shape) + 1j * rng.normal(size=shape),), {**_BOTH, **kwargs})


@_spectral("stft", _WAVE(14), _WAVE(11, 2, axis=0, noverlap=5, boundary="odd"), _WAVE(13, boundary=None, scaling="psd"))
def _stft(x: Any, nperseg: Any, noverlap: Any, boundary: Any, padded: bool, axis: int, **options: Any) -> Any:
    x = as_float(x)
    frequencies, times, _ = _scipy.stft(
        zeros_like(x), nperseg=nperseg, noverlap=noverlap, boundary=boundary, padded=padded, axis=axis, **options
    )
    x, window = np.moveaxis(x, axis, -1), options["window"]
    n = min(int(nperseg or 256), x.shape[-1]) if isinstance(window, (str, tuple)) else len(window)
    ends: Any = lambda x, left, right, **mode: np.pad(x, [(0, 0)] * (x.ndim - 1) + [(left, right)], **mode)
    if boundary is not None:
        x = ends(x, n // 2, n // 2, **_EDGES[boundary])
    if padded:
        x = ends(x, 0, -(x.shape[-1] - n) % _step(n, noverlap) % n)
    return frequencies, times, _placed(_transform(x, -1, nperseg=n, noverlap=noverlap, **options), axis)


def _joined(parts: Any, step: int) -> Any:
    """The sum of segments (..., segment, place), each `step` after the one before."""
    count, n = parts.shape[-2:]
    total: Any = 0.0
    pieces = -(-n // step)
    parts = pad_last(parts, pieces * step - n)
    for k in range(pieces):  # what of each segment falls on the k-th stretch from its start
        stretch = np.reshape(parts[..., k * step : (k + 1) * step], (*parts.shape[:-2], count * step))
        total = total + pad_first(pad_last(stretch, (pieces - 1 - k) * step), k * step)
    return total[..., : n + (count - 1) * step]


_SPECTRA: Any = lambda *shape, **kwargs: Sample(lambda rng: (rng.normal(size=shape) + 1j * rng.normal(size=shape),), kwargs)


@_spectral(
    "istft",
    _SPECTRA(5, 4),
    _SPECTRA(5, 4, nperseg=9),
    _SPECTRA(4, 2, 6, noverlap=4, input_onesided=False, time_axis=0, freq_axis=2, scaling="psd", window="hamming"),
    _SPECTRA(5, 4, nperseg=7, nfft=8, boundary=False, window="boxcar"),
)
def _istft(Zxx: Any, fs: Any, window: Any, nperseg: Any, noverlap: Any, nfft: Any, time_axis: int, freq_axis: int, **options: Any) -> Any:
    spectra = as_float(Zxx)
    times, like = _scipy.istft(
        zeros_like(spectra), fs, window, nperseg, noverlap, nfft, time_axis=time_axis, freq_axis=freq_axis, **options
    )
    onesided = options["input_onesided"]
    frequency, segment = freq_axis % spectra.ndim, time_axis % spectra.ndim
    spectra = np.moveaxis(spectra, (frequency, segment), (-1, -2))
    usual = 2 * (spectra.shape[-1] - 1) if onesided else spectra.shape[-1]
    n = usual if nperseg is None else int(nperseg)
    size = int(nfft) if nfft is not None else n if onesided and n == usual + 1 else usual
    step = _step(n, noverlap)
    window = np.asarray(_scipy.get_window(window, n) if isinstance(window, (str, tuple)) else window)
    scale = np.sum(window) if options["scaling"] == "spectrum" else np.sqrt(fs * np.sum(window**2))
    parts = (np.fft.irfft if onesided else np.fft.ifft)(spectra, size)[..., :n] * (window * scale)
    norm = _joined(np.broadcast_to(window**2, (spectra.shape[-2], n)), step)
    out = _joined(parts, step) / np.where(norm > 1e-10, norm, 1.0)
    out = out[..., n // 2 : -(n // 2)] if options["boundary"] else out
    return times, np.moveaxis(out, -1, segment - (frequency < segment)).astype(like.dtype)
