"""`np.fft`. The transform of one axis is a symmetric matrix, so it is its own transpose, and all others are made of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.ops.create import lift, typed
from functrace.ops.functions import single_axis
from functrace.ops.kinds import linear
from functrace.ops.rebased import steady
from functrace.ops.registry import Sample, implements, one

_SWAPPED = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}  # what scales the other direction


def _fitted(x: Any, n: int, axis: int) -> Any:
    """`x` cut, or filled up with zeros, to length `n` on an axis counted from the end."""
    m = x.shape[axis]
    if m > n:
        return x[(..., slice(0, n), *(slice(None),) * (-1 - axis))]
    return x if m == n else np.concatenate([x, np.zeros((*x.shape[:axis], n - m, *x.shape[axis:][1:]), x.dtype)], axis)


def _like(d: Any, x: Any) -> Any:
    d = np.real(d) if x.dtype.kind != "c" else d
    return typed(d, x.dtype)


def _halves(m: int, n: int, axis: int, dtype: Any) -> Any:
    """1/2 for the frequencies of a real transform that stand for two, 1 for those that are alone: zero, and half of an even n."""
    w = np.full(m, 0.5, dtype)
    w[0] = 1
    if n % 2 == 0 and n // 2 < m:
        w[n // 2] = 1
    return w.reshape((-1, *(1,) * (-1 - axis)))


def _declared(name: str, fun: Any, transpose: Callable[..., Any]) -> Any:
    """A transform `op(x, n, axis, norm)` with `axis` counted from the end, which a batch in front does not change."""

    def pull(g: Any, _ans: Any, _x: Any, n: int, axis: int, norm: Any) -> Any:
        return _like(_fitted(transpose(g, n, axis, norm), _x.shape[axis], axis), _x)

    return linear(name, fun, pull, batch="leading")


def _unrfft(g: Any, n: int, axis: int, norm: Any) -> Any:
    return irfft_(np.conjugate(g) * _halves(g.shape[axis], n, axis, g.real.dtype), n, axis, _SWAPPED[norm])


def _unirfft(g: Any, n: int, axis: int, norm: Any) -> Any:
    return np.conjugate(rfft_(g, n, axis, _SWAPPED[norm])) / _halves(n // 2 + 1, n, axis, g.dtype)


fft_: Any = _declared("fft", np.fft.fft, lambda g, n, axis, norm: fft_(g, n, axis, norm))
ifft_: Any = _declared("ifft", np.fft.ifft, lambda g, n, axis, norm: ifft_(g, n, axis, norm))
rfft_: Any = _declared("rfft", np.fft.rfft, _unrfft)
irfft_: Any = _declared("irfft", np.fft.irfft, _unirfft)


def _complex(*shape: int, **kwargs: Any) -> Sample:
    return Sample(lambda rng: (rng.normal(size=shape) + 1j * rng.normal(size=shape),), kwargs)


_ONE = [one(5), one(4, n=6), one(2, 5, n=3, norm="ortho"), one(4, 2, axis=0, norm="forward"), one(3, 1)]
_NONREAL = [_complex(5), _complex(4, n=6, norm="ortho"), _complex(2, 5, n=4), _complex(4, 2, axis=0, norm="forward"), _complex(3, n=2)]


def _declare(name: str, op: Any, samples: list[Sample]) -> None:
    numpy, of_half = getattr(np.fft, name), op is irfft_

    def function(a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
        a = lift(a)
        axis = single_axis(a, axis) - a.ndim
        n = (2 * (a.shape[axis] - 1) if of_half else a.shape[axis]) if n is None else int(n)
        if n < 1 or norm not in _SWAPPED:
            return numpy(np.empty(a.shape), n, axis, norm)  # which says what is wrong
        return op(a, n, axis, norm)

    function.__doc__ = f"`np.fft.{name}`."
    implements(numpy, samples, name=f"fft.{name}")(function)


_declare("fft", fft_, _ONE + _NONREAL[:2])
_declare("ifft", ifft_, _ONE[1:4] + _NONREAL)
_declare("rfft", rfft_, _ONE)
_declare("irfft", irfft_, [*_NONREAL, _ONE[0]])
_steady = functools.partial(steady, np.fft, prefix="fft.")
_steady("hfft", [*_NONREAL, _ONE[0]])
_steady("ihfft", _ONE)
for _name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"):
    _made = _complex if "irfft" in _name else one
    _steady(_name, [_made(3, 4), _made(2, 3, 4, s=(2, 5), axes=(0, -1)), _made(3, 3, norm="ortho"), _made(3, 3, s=(4, 2), axes=(0, 1))])
for _name in ("fftshift", "ifftshift"):
    _steady(_name, [one(5), one(3, 4), one(3, 4, axes=0)])
