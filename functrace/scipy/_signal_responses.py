"""How filters answer frequencies, from each of their forms, and from one form to another; and the periodogram of uneven times."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.signal as _scipy

from functrace.ops.functions import refuse
from functrace.ops.registry import Sample, holds_tracer
from functrace.ops.statistics import as_float
from functrace.scipy._shared import declarer, real, single, with_axes

_declared = declarer(_scipy)
_TWO_PI = 2 * np.pi
_TF = Sample(lambda rng: (rng.normal(size=3), np.array([2.0, 0.5, 0.3])), wrt=(0, 1))
_SOS = Sample(lambda rng: (np.concatenate([rng.normal(size=(2, 3)), [[1.0, 0.5, 0.3], [1.0, -0.2, 0.4]]], 1),))
_AT = {"worN": np.array([0.1, 0.7, 1.3])}


def _line(x: Any) -> Any:
    return with_axes(np.atleast_1d(as_float(x)), 1)


def frequencies(own: Any, w: Any, fs: Any) -> tuple[Any, Any, Any]:
    """SciPy's frequencies, their places on the unit circle, and the response's dtype; `own(w, fs)` is SciPy's answer for a plain filter."""
    if not holds_tracer([w, fs]):
        w, answer = own(w, fs)
        return w, np.exp(_TWO_PI * 1j / fs * np.asarray(w, float)), answer.dtype
    w = np.atleast_1d(as_float(w)) if np.ndim(w) else w
    turns, answer = own(np.zeros(1, w.dtype) if np.ndim(w) else w, 1.0)
    turns = w.astype(turns.dtype) / fs if np.ndim(w) else turns
    return turns * fs, np.exp(_TWO_PI * 1j * turns), answer.dtype


@_declared("tf2zpk", _TF)
def tf2zpk(b: Any, a: Any) -> Any:
    """`scipy.signal.tf2zpk`, of numerators that do not begin with 0."""
    b, a = _line(b), _line(a)
    refuse("tf2zpk of a numerator that begins with 0", b=(b if abs(b[0]) <= 1e-14 * abs(a[0]) else None, None))
    return np.roots(b), np.roots(a), b[0] / a[0]


@_declared("sos2tf", _SOS)
def sos2tf(sos: Any) -> Any:
    sos = with_axes(as_float(sos), 2)
    b, a = np.ones(1, sos.dtype), np.ones(1, sos.dtype)
    for row in sos:
        b, a = np.convolve(b, row[:3]), np.convolve(a, row[3:])
    return np.trim_zeros(b, "f"), np.trim_zeros(a, "f")


def second_orders(sos: Any) -> Any:
    """Sections of filters, checked as SciPy does."""
    sos = np.atleast_2d(as_float(sos))
    if sos.ndim != 2 or sos.shape[1] != 6:
        raise ValueError(f"sos must have the shape (n_sections, 6), not {sos.shape}.")
    if not np.all(sos[:, 3] == 1):
        raise ValueError("sos[:, 3] should be all ones")
    return sos


@_declared("freqz_sos")
def freqz_sos(sos: Any, worN: Any = 512, whole: bool = False, fs: float = _TWO_PI) -> Any:
    sos = second_orders(sos)
    if not sos.shape[0]:
        raise ValueError("Cannot compute frequencies with no sections")
    w, z, dtype = frequencies(lambda w, fs: _scipy.freqz_sos(np.ones((1, 6), sos.dtype), w, whole, fs), worN, fs)
    powers = z ** np.array([[0], [-1], [-2]])
    return w, np.prod((sos[:, :3] @ powers) / (sos[:, 3:] @ powers), axis=0).astype(dtype)


_declared("sosfreqz")(lambda *args, **kwargs: freqz_sos(*args, **kwargs))


@_declared("freqz_zpk", Sample(lambda rng: (np.array([0.3, -0.7]), np.array([-0.4, 0.3, 0.2]), 1.5), _AT, (0, 1, 2)))
def freqz_zpk(z: Any, p: Any, k: Any, worN: Any = 512, whole: bool = False, fs: float = _TWO_PI) -> Any:
    z, p = single(_line(z)), single(_line(p))
    none = np.zeros(1, np.result_type(z.dtype, p.dtype))
    w, at, dtype = frequencies(lambda w, fs: _scipy.freqz_zpk(none, none, 1.0, w, whole, fs), worN, fs)
    over, under = (np.prod(at[:, None] - x, axis=-1) for x in (z, p))
    return w, (k * over / under).astype(dtype)


@_declared("group_delay", Sample(lambda rng: ((rng.normal(size=3), np.array([2.0, 0.5, 0.3])),), {"w": _AT["worN"]}))
def group_delay(system: Any, w: Any = 512, whole: bool = False, fs: float = _TWO_PI) -> Any:
    """`scipy.signal.group_delay`, where the response is not 0."""
    b, a = map(_line, system)
    w, at, _ = frequencies(lambda w, fs: _scipy.freqz([1.0], 1, w, whole, fs=fs), w, fs)
    c = np.convolve(b, np.conj(a[::-1]))
    powers = at[:, None] ** -np.arange(c.shape[0])
    return w, np.real((powers @ (c * np.arange(c.shape[0]))) / (powers @ c)) - a.shape[0] + 1


@_declared(
    "lombscargle",
    *(
        Sample(lambda rng: (np.sort(rng.uniform(0, 9, size=7)), rng.normal(size=7), np.array([0.5, 1.3])), kw, (0, 1, 2))
        for kw in ({}, {"normalize": True})
    ),
)
def lombscargle(
    x: Any, y: Any, freqs: Any, precenter: bool = False, normalize: Any = False, *, weights: Any = None, floating_mean: bool = False
) -> Any:
    """`scipy.signal.lombscargle`, of equal weights and without a floating mean."""
    named = normalize if isinstance(normalize, str) else None
    refuse("lombscargle", weights=(weights, None), floating_mean=(floating_mean or None, None), normalize=(named, None))
    x, y, freqs = (with_axes(real(v, "lombscargle"), 1) for v in (x, y, freqs))
    y = y - np.mean(y) if precenter else y
    turns = freqs[:, None] * x
    turns = turns - np.arctan2(np.sum(np.sin(2 * turns), axis=1), np.sum(np.cos(2 * turns), axis=1))[:, None] / 2
    power = sum((f(turns) @ y) ** 2 / np.sum(f(turns) ** 2, axis=1) for f in (np.cos, np.sin))
    return power / (y @ y) if normalize else power / 2
