"""Moments and entropies of distributions: SciPy's value, and the derivative of an integral over the density in every parameter.

The integral is a sum over the nodes of Takahasi and Mori (1974), Publ. RIMS 9, 721, which are right at ends where the density is not
smooth, and in heavy tails. Where the sum does not give SciPy's value to six digits, as in tails that are too heavy, it raises.
The mass of a tail, where it is too small to be what another number lacks of 1, or smaller than any number, is such an integral too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.stats as _scipy

from functrace import errors
from functrace.core.tracer import value
from functrace.ops.kinds import undeclared
from functrace.scipy._special_functions import logsumexp
from functrace.scipy._stats_laws import Law
from functrace.transforms.constants import stop_gradient
from functrace.transforms.derivatives import jvp

Terms = tuple[Any, Any]  # what is summed: values of z along the last axis, the logarithms of their weights
_H = 1 / 160
_T = np.arange(-736, 737) * _H
_COARSE = np.where(np.arange(len(_T)) % 2 == 0, 2.0, 0.0)  # the same sum with every second node
_E, _SLOPE = np.pi / 2 * np.sinh(_T), np.log(np.pi / 2 * _H * np.cosh(_T))
_HALF_LINE = np.exp(_E), _E + _SLOPE
_LINE = np.sinh(_E), np.logaddexp(_E, -_E) - np.log(2) + _SLOPE
_UNIT = 1 / (1 + np.exp(-2 * _E)), -2 * np.logaddexp(_E, -_E) + np.log(2) + _SLOPE
_FEW, _FEW_SLOPE = np.exp(_E[::12]), (_SLOPE + np.log(12))[::12]  # enough for a tail
_MOST = 20_000  # terms of a sum over whole numbers
_LEAST = -60.0  # terms of the size of its exponential are left out


def _between(lo: Any, hi: Any) -> Terms:
    """Nodes and weights on the intervals from lo to hi, of which either may be infinite."""
    left, right = np.isfinite(lo), np.isfinite(hi)
    a, b = np.where(left, lo, 0.0), np.where(right, hi, 0.0)
    width = np.where(left & right, b - a, 1.0)
    z = np.where(left & right, a + width * _UNIT[0], np.where(left, a + _HALF_LINE[0], np.where(right, b - _HALF_LINE[0], _LINE[0])))
    plain = np.where(left & right, _UNIT[1], np.where(left | right, _HALF_LINE[1], _LINE[1]))
    return z, plain + np.log(width)


def _last(name: str, law: Law, shapes: Any) -> int:
    """Beyond this, on either side of 0, what a law over whole numbers has left is rounded away. SciPy's own `isf` may search forever."""
    lo, hi = law.ends(shapes)
    mean = np.abs(getattr(_scipy, name).mean(*shapes))
    last: int = math.ceil(np.max(mean, where=mean < _MOST, initial=30))  # at the mean the mass is not small yet
    while last < _MOST:
        ends = [np.where((lo <= z) & (z <= hi), law.log(np.float64(z), *shapes), -np.inf) for z in (last, -last)]
        if np.fmax.reduce(ends, axis=None) + math.log(last) < -36:
            break
        last *= 2
    return min(last, _MOST)


def _terms(name: str, law: Law, shapes: Any) -> Terms:
    lo, hi = law.ends(shapes)
    if law.discrete:
        with np.errstate(all="ignore"):
            last = _last(name, law, [np.asarray(value(s)) for s in shapes])
        first, last = math.ceil(max(np.min(value(lo)), -last)), math.floor(min(np.max(value(hi), initial=0), last))
        z = np.arange(first, last + 1)
        return z, np.where((z >= lo) & (z <= hi), 0.0, -np.inf)
    ends = [lo, *(law.knots(*shapes) if law.knots is not None else ()), hi]
    parts = [_between(*pair) for pair in itertools.pairwise(ends)]
    shape = np.broadcast_shapes(*(np.shape(z)[:-1] for z, _ in parts))
    z, w = (np.concatenate([np.broadcast_to(part[k], (*shape, np.shape(part[k])[-1])) for part in parts], axis=-1) for k in (0, 1))
    return z, w


def beyond(law: Law, sign: int) -> Callable[..., Any]:
    """The logarithm of the mass of the tail below z (sign -1) or above it (1), by its own density."""

    def mass(z: Any, *shapes: Any) -> Any:
        z, shapes = z[..., None], tuple(s[..., None] for s in shapes)
        end: Any = law.ends(shapes)[sign > 0]
        if law.discrete:
            u = z + sign * np.arange(sign > 0, _tail_length(law, sign, z, shapes))
            weight, inside = 0.0, sign * (end - u) >= 0
        else:
            ends = np.isfinite(end)
            end, room = np.where(ends, end, 0.0), np.where(ends, sign * (end - z), np.inf)
            step = stop_gradient(1 / (np.abs(_steepness(law, z, shapes)) + 1 / room)) * _FEW
            left = 1 / (1 + step / room)  # the part of the room that is beyond
            u = np.where(ends, end - sign * np.where(ends, room, 1.0) * left, z + sign * step)
            weight, inside = _FEW_SLOPE + np.log(step) + 2 * np.log(left), u != end
        size = stop_gradient(law.log(u, *shapes) + weight)
        size = np.where(inside & (size == size), size, -np.inf)
        good = size > np.maximum(np.max(size, axis=-1, keepdims=True) - 40, -1e300)
        terms = np.where(good, law.log(np.where(good, u, z), *shapes) + weight, -np.inf)
        out = logsumexp(terms, axis=-1)
        return np.where(np.isfinite(out), out, law.log(z, *shapes)[..., 0])

    return mass


def in_argument(f: Callable[..., Any], args: Sequence[Any], k: int) -> Any:
    """`f(*args)` of arrays, and its derivative in argument k, both element by element."""
    return jvp(lambda x: f(*args[:k], x, *args[k + 1 :]), (args[k],), (np.ones(args[k].shape),))


def _steepness(law: Law, z: Any, shapes: Any) -> Any:
    found = in_argument(law.log, (z, *shapes), 0)[1]
    return np.where(np.isfinite(found), found, 0.0)


def _tail_length(law: Law, sign: int, z: Any, shapes: Any) -> int:
    """How many terms of a sum over whole numbers matter: of a geometric one, with the ratio of the first two."""
    fall = law.log(z + sign, *shapes) - law.log(z + 2 * sign, *shapes)
    terms = np.max(np.clip(50 / np.where(fall > 0, fall, 1.0), 8, _MOST), initial=8)
    return int(2 ** np.ceil(np.log2(terms)))


_POWER: dict[str, Callable[[Any, Any, Any], Any]] = {
    "mean": lambda z, _p, _m: z,
    "var": lambda z, _p, m: (z - m("mean")) ** 2,
    "skew": lambda z, _p, m: (z - m("mean")) ** 3 / m("var") ** 1.5,
    "kurtosis": lambda z, _p, m: (z - m("mean")) ** 4 / m("var") ** 2 - 3,
    "entropy": lambda _z, log, _m: -log,
}


def _power(k: int) -> Callable[[Any, Any, Any], Any]:
    return lambda z, _p, _m: z**k


def _expectation(name: str, law: Law, what: str, *shapes: Any) -> Any:
    """The mean over the standard distribution of what `what` stands for; and the same by a coarser sum."""
    columns = [s[..., None] for s in shapes]
    with np.errstate(all="ignore"):
        z, weight = _terms(name, law, columns)
        log = law.log(z, *columns)
        size = log + weight + 4 * np.log1p(np.abs(z))
        good = np.isfinite(size) & (size > _LEAST)
        z, weight = np.where(good, z, law.at[0]), np.where(good, weight, 0.0)
        log = np.where(good, law.log(z, *columns), 0.0)
        mass = np.where(good, np.exp(log + weight), 0.0)
        found: dict[str, Any] = {}
        terms: dict[str, Any] = {}

        def mean(what: str) -> Any:
            if what not in found:
                terms[what] = (_POWER.get(what) or _power(int(what)))(z, log, mean)
                found[what] = np.sum(mass * terms[what], axis=-1, keepdims=True)
            return found[what]

        mean(what)
        coarse = np.tile(_COARSE, z.shape[-1] // len(_COARSE)) if not law.discrete else 1.0
        return found[what][..., 0], np.sum(mass * terms[what] * coarse, axis=-1)


def _scipys(name: str, what: str) -> Callable[..., Any]:
    own = getattr(_scipy, name)
    if what in ("skew", "kurtosis"):
        return lambda *shapes: np.asarray(own.stats(*shapes, moments=what[0]))[()]
    if what in ("mean", "var", "entropy"):
        return lambda *shapes: np.asarray(getattr(own, what)(*shapes))[()]
    return lambda *shapes: np.asarray(own.moment(int(what), *shapes))[()]


_OPS: dict[tuple[str, str], Any] = {}


def _op(name: str, law: Law, what: str) -> Any:
    """An elementwise op of the shape parameters: a moment, or the entropy, of the standard distribution."""
    if (name, what) in _OPS:
        return _OPS[name, what]

    def shape_map(k: int) -> Callable[..., Any]:
        def rule(t: Any, ans: Any, *shapes: Any) -> Any:
            spread = [s + np.zeros(ans.shape) for s in shapes]
            (summed, _), (slope, coarse) = in_argument(lambda *s: _expectation(name, law, what, *s), spread, k)
            right = np.isclose(summed, ans, rtol=1e-6, atol=1e-10)
            precise = np.isclose(slope, coarse, rtol=1e-6, atol=1e-8)
            if not np.all(right & precise | ~np.isfinite(ans)):
                label = what if what in _POWER else f"moment of order {what}"
                raise errors.UnsupportedError(
                    f"scipy.stats.{name}: the {label} is not summed precisely enough to be differentiated: "
                    f"its tails are too heavy, or it is too narrow."
                )
            return t * np.where(np.isfinite(ans), slope, np.nan)

        return rule

    maps = [shape_map(k) for k in range(len(law.at) - 1)]
    op = undeclared(f"scipy.stats.{name}.{what}", _scipys(name, what), *maps) if maps else lambda: _scipys(name, what)()
    _OPS[name, what] = op
    return op


def summary(name: str, law: Law, what: str, order: Any, shapes: Any, loc: Any, scale: Any) -> Any:
    """`mean`, `var`, `std`, `entropy`, `skew`, `kurtosis` or `moment` of a distribution with location and scale."""

    def of(what: str) -> Any:
        return _op(name, law, what)(*shapes)

    if what == "mean":
        return of("mean") * scale + loc
    if what == "var":
        return of("var") * scale**2
    if what == "std":
        return np.sqrt(of("var")) * scale
    if what == "entropy":
        return of("entropy") + np.log(scale)
    if what == "moment":
        total: Any = loc**order
        for k in range(1, order + 1):
            own = of(str(k))
            own = np.where((loc == 0) & np.isinf(own), 0.0, own) if k < order else own  # which is taken 0 times
            total = total + math.comb(order, k) * loc ** (order - k) * scale**k * own
        return total
    return of(what) + 0.0 * (loc + scale)
