"""Random numbers that are drawn until one is accepted: gamma, Poisson and binomial, from PyTorch's stream."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch import _random

_F64 = np.dtype(np.float64)


def _drawn(draw: Callable[..., float], source: Any, *parameters: Any) -> np.ndarray[Any, Any]:
    """One number for each element of the parameters, in order."""
    source = source or _random.default_generator
    rows = np.broadcast_arrays(*parameters)
    flat = zip(*(np.ravel(row).astype(np.float64).tolist() for row in rows))
    return np.reshape(np.array([draw(source, *row) for row in flat], np.float64), rows[0].shape)


def _uniform(source: Any) -> float:
    return float(source.uniform(1, _F64)[0])


def _gamma(source: Any, shape: float) -> float:
    """G. Marsaglia and W. W. Tsang (2000), A simple method for generating gamma variables."""
    if shape == 0:
        return 0.0
    scale = 1.0
    if shape < 1:
        scale, shape = (1 - _uniform(source)) ** (1 / shape), shape + 1
    d = shape - 1 / 3
    c = 1 / math.sqrt(9 * d)
    while True:
        x = float(source.normals(1)[0])
        y = 1 + c * x
        if y <= 0:
            continue
        v, u = y**3, 1 - _uniform(source)
        if u < 1 - 0.0331 * x**4 or math.log(u) < x * x / 2 + d * (1 - v + math.log(v)):
            return scale * d * v


def _poisson(source: Any, rate: float) -> float:
    """Products of uniform numbers for a small rate; W. Hörmann's transformed rejection (1993, PTRS) from 10 on."""
    if rate == 0:
        return 0.0
    if rate < 10:
        product, limit, k = _uniform(source), math.exp(-rate), 0
        while product > limit:
            product *= _uniform(source)
            k += 1
        return float(k)
    root, log_rate = math.sqrt(rate), math.log(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    log_alpha, fast = math.log(1.1239 + 1.1328 / (b - 3.4)), 0.9277 - 3.6224 / (b - 2)
    while True:
        u, v = _uniform(source) - 0.5, _uniform(source)
        room = 0.5 - abs(u)
        k = math.floor((2 * a / room + b) * u + rate + 0.43)
        if room >= 0.07 and v <= fast:
            return float(k)
        if k < 0 or (room < 0.013 and v > room):
            continue
        if math.log(v) + log_alpha - math.log(a / room**2 + b) <= k * log_rate - rate - math.lgamma(k + 1):
            return float(k)


def _tail(k: float) -> float:
    """What Stirling's formula leaves of log k!."""
    return math.lgamma(k + 1) - ((k + 0.5) * math.log(k + 1) - (k + 1) + math.log(2 * math.pi) / 2)


def _binomial(source: Any, n: float, p: float) -> float:
    if n <= 0 or p <= 0:
        return 0.0
    if p >= 1:
        return n
    return n - _fewer(source, n, 1 - p) if p > 0.5 else _fewer(source, n, p)


def _fewer(source: Any, n: float, p: float) -> float:
    """Sums of geometric numbers where few are expected; else W. Hörmann's transformed rejection (1993, BTRS)."""
    if n * p < 10:
        total, k = 0.0, -1
        while total <= n:
            total += math.ceil(math.log(_uniform(source)) / math.log1p(-p))
            k += 1
        return float(k)
    spread = math.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a, c, fast = -0.0873 + 0.0248 * b + 0.01 * p, n * p + 0.5, 0.92 - 4.2 / b
    odds, alpha, m = p / (1 - p), (2.83 + 5.1 / b) * spread, math.floor((n + 1) * p)
    while True:
        u, v = _uniform(source) - 0.5, _uniform(source)
        room = 0.5 - abs(u)
        k = math.floor((2 * a / room + b) * u + c)
        if room >= 0.07 and v <= fast:
            return float(k)
        if not 0 <= k <= n:
            continue
        bound = (m + 0.5) * math.log((m + 1) / (odds * (n - m + 1))) + (n + 1) * math.log((n - m + 1) / (n - k + 1))
        bound += (k + 0.5) * math.log(odds * (n - k + 1) / (k + 1)) + _tail(m) + _tail(n - m) - _tail(k) - _tail(n - k)
        if math.log(v * alpha / (a / room**2 + b)) <= bound:
            return float(k)


def gamma(shape: Any, generator: Any = None) -> np.ndarray[Any, Any]:
    """Gamma numbers of rate 1, in float64."""
    return _drawn(_gamma, generator, shape)


def poisson(rate: Any, generator: Any = None) -> np.ndarray[Any, Any]:
    """Poisson numbers, in float64."""
    return _drawn(_poisson, generator, rate)


def binomial(count: Any, prob: Any, generator: Any = None) -> np.ndarray[Any, Any]:
    """Binomial numbers, in float64."""
    return _drawn(_binomial, generator, count, prob)
