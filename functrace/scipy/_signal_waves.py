"""SciPy's waveforms, of `scipy.signal`."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.signal as _scipy
import scipy.special as sp

from functrace.ops.create import lift
from functrace.ops.registry import Sample, one
from functrace.scipy import _special_gamma  # noqa: F401
from functrace.scipy._shared import declarer, one_of, real

_declared = declarer(_scipy)


@_declared("gausspulse", one(4, fc=0.8), one(4, fc=0.8, retquad=True, retenv=True))
def gausspulse(
    t: Any, fc: float = 1000, bw: float = 0.5, bwr: float = -6, tpr: float = -60, retquad: bool = False, retenv: bool = False
) -> Any:
    t = lift(t)
    envelope = np.exp(t * t * ((np.pi * fc * bw) ** 2 / (4.0 * np.log(10.0 ** (bwr / 20.0)))))
    out = (
        envelope * np.cos(2 * np.pi * fc * t),
        *([envelope * np.sin(2 * np.pi * fc * t)] if retquad else []),
        *([envelope] if retenv else []),
    )
    return out if len(out) > 1 else out[0]


@_declared(
    "chirp",
    *(
        Sample(lambda rng: (rng.uniform(0.1, 1.0, size=4), 0.5, 2.0, 1.5), {"method": m}, (0, 1, 2, 3))
        for m in ("linear", "quadratic", "logarithmic", "hyperbolic")
    ),
)
def chirp(
    t: Any, f0: Any, t1: Any, f1: Any, method: str = "linear", phi: Any = 0, vertex_zero: bool = True, *, complex: bool = False
) -> Any:
    t, f0, t1, f1 = (real(v, "scipy.signal.chirp") for v in (t, f0, t1, f1))
    if method in ("linear", "lin", "li"):
        phase = f0 * t + (f1 - f0) / t1 * t * t / 2
    elif method in ("quadratic", "quad", "q"):
        rate = (f1 - f0) / t1**2
        phase = f0 * t + rate * t**3 / 3 if vertex_zero else f1 * t + rate * ((t1 - t) ** 3 - t1**3) / 3
    elif method in ("logarithmic", "log", "lo"):
        if np.any(f0 * f1 <= 0):
            raise ValueError("For a logarithmic chirp, f0 and f1 must be nonzero and have the same sign.")
        phase = f0 * t * sp.exprel(np.log(f1 / f0) / t1 * t)
    else:
        one_of("method", method, "linear", "quadratic", "logarithmic", "hyperbolic", "hyp")
        if np.any(f0 * f1 == 0):
            raise ValueError("For a hyperbolic chirp, f0 and f1 must be nonzero.")
        u = t * (f1 - f0) / (f1 * t1)
        near = np.abs(u) < 1e-3
        far, series = np.where(near, 0.5, u), 1 + u * (1 / 2 + u * (1 / 3 + u * (1 / 4 + u / 5)))
        phase = f0 * t * np.where(near, series, -np.log(np.abs(1 - far)) / far)
    phase = 2 * np.pi * phase + phi * (np.pi / 180)
    return np.exp(1j * phase) if complex else np.cos(phase)


@_declared(
    "sawtooth",
    Sample(lambda rng: (rng.uniform(0.3, 2.5, (2, 3)), rng.uniform(0.5, 0.9, 3)), wrt=(0, 1)),
    Sample(lambda rng: (rng.uniform(10.5, 12.5, 4), rng.uniform(0.1, 0.5, 4)), wrt=(0, 1)),
    Sample(lambda rng: (rng.uniform(-6.0, -0.3, 4),)),
)
def sawtooth(t: Any, width: Any = 1) -> Any:
    dtype = _scipy.sawtooth(np.zeros(1, lift(t).dtype)).dtype  # of float32 it depends on SciPy
    t, width = lift(t).astype(dtype), lift(width).astype(dtype)
    period = np.mod(t, 2 * np.pi) / (2 * np.pi)
    rising = period < width
    rise, fall = 2 * period / np.where(rising, width, 1) - 1, (1 + width - 2 * period) / np.where(rising, 1, 1 - width)
    return np.where((width >= 0) & (width <= 1), np.where(rising, rise, fall), np.nan)
