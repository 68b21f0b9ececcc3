"""SciPy's `fft`, for plain and traced arrays alike: Fourier, cosine and sine transforms.

>>> import functrace as ft, numpy as np
>>> from functrace.scipy import fft
>>> ft.grad(lambda x: fft.dct(x)[1])(np.ones(2)).round(3)
array([ 1.414, -1.414])
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.fft as _scipy
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from functrace.core.reverse import fit
from functrace.ops.arrange import as_line
from functrace.ops.create import lift
from functrace.ops.functions import refuse
from functrace.ops.kinds import linear
from functrace.ops.registry import one
from functrace.ops.statistics import as_float
from functrace.places import user_line
from functrace.scipy._shared import by_name, choice, late, named, single

if TYPE_CHECKING:
    from scipy.fft import *  # noqa: F403

_SWAPPED = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}
_numpy: Any = np.fft
_DCT = _scipy.dct  # before it is installed
_named = functools.partial(named, _scipy)


def _axes(x: Any, s: Any, axes: Any) -> Any:
    if s is None:
        return axes
    return tuple(range(-len(np.atleast_1d(s)), 0)) if axes is None else axes


def _of_one_axis(name: str) -> Callable[..., Any]:
    numpy = getattr(_numpy, name)
    return lambda x, n, axis, norm: numpy(single(x), n, axis, norm)


def _of_axes(name: str) -> Callable[..., Any]:
    own = _numpy.irfftn if name.startswith("hfft") else _numpy.rfftn if "hfft" in name else getattr(_numpy, name)

    def function(x: Any, s: Any, axes: Any, norm: Any) -> Any:
        x = single(x)
        over = _axes(x, s, axes)
        if "hfft" not in name:
            return own(x, s, over, norm)
        swapped = choice("norm", norm, _SWAPPED)
        return own(np.conj(x), s, over, swapped) if name.startswith("hfft") else np.conj(own(x, s, over, swapped))

    return function


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _named(_name, one(5), one(3, 4, axis=0, n=4, norm="ortho"))(_of_one_axis(_name))
    _named(f"{_name}2", one(3, 4))(_of_axes(f"{_name}2"))
    _named(f"{_name}n", one(3, 4), one(3, 4, s=(4,), norm="forward"))(_of_axes(f"{_name}n"))
for _shift in (_numpy.fftshift, _numpy.ifftshift):
    _named(_shift.__name__, one(3, 4), one(5, axes=0))(lambda x, axes, _f=_shift: _f(x, axes))


def _ends(x: Any, axis: int, first: float, last: float) -> Any:
    weights = np.ones(x.shape[axis], x.real.dtype)
    weights[0] *= first
    weights[-1] *= last
    return x * as_line(weights, axis % x.ndim, x.ndim)


def _transposed(g: Any, _ans: Any, x: Any, own: Any, kind: int, axis: int) -> Any:
    """Of the matrices without a norm: type II is type III but for a factor of 2, the others are symmetric but for the ends."""
    end = (2.0, 1.0) if own is _DCT else (1.0, 2.0)
    if kind == 2:
        out = _raw(_ends(g, axis, *end), own, 3, axis)
    elif kind == 3:
        out = _ends(_raw(g, own, 2, axis), axis, 1 / end[0], 1 / end[1])
    elif kind == 1 and own is _DCT:
        out = _ends(_raw(_ends(g, axis, 2.0, 2.0), own, 1, axis), axis, 0.5, 0.5)
    else:
        out = _raw(g, own, kind, axis)
    return fit(out, x)


_raw: Any = linear(
    "scipy.fft.r2r",
    lambda x, own, kind, axis: own(x, kind, axis=axis),
    _transposed,
    batch="leading",  # axis is negative
)


def _transform(own: Any, inverse: bool, x: Any, kind: int, n: Any, axis: int, norm: Any, orthogonalize: Any) -> Any:
    if kind not in (1, 2, 3, 4) or norm not in _SWAPPED:
        raise ValueError(f"type {kind} is not one of 1, 2, 3, 4, or norm {norm!r} none of {', '.join(map(repr, _SWAPPED))}")
    x = as_float(single(x))
    if x.dtype.kind == "c":  # of which SciPy ignores it
        refuse(f"{own.__name__} of complex numbers", orthogonalize=(orthogonalize, None))
    axis = normalize_axis_index(axis, x.ndim) - x.ndim
    if n is not None:
        if n < 1:
            raise ValueError(f"invalid number of data points ({n}) specified")
        keep, pad = [slice(None)] * x.ndim, [(0, 0)] * x.ndim
        keep[axis], pad[axis] = slice(n), (0, max(n - x.shape[axis], 0))
        x = np.pad(x[tuple(keep)], pad)
    if inverse:
        kind, norm = {2: 3, 3: 2}.get(kind, kind), _SWAPPED[norm]
    cosine = own is _DCT
    scaled = orthogonalize or (orthogonalize is None and norm == "ortho")
    root = np.sqrt(2.0)
    both = root if kind == 1 else 1.0
    if scaled and (kind == 3 or kind == 1 and cosine):
        x = _ends(x, axis, *((root, both) if cosine else (1.0, root)))
    y = _raw(x, own, kind, axis)
    if scaled and (kind == 2 or kind == 1 and cosine):
        y = _ends(y, axis, *((1 / root, 1 / both) if cosine else (1.0, 1 / root)))
    length = 2 * (x.shape[axis] + (0 if kind != 1 else -1 if cosine else 1))
    return y if norm in (None, "backward") else y * (1 / length if norm == "forward" else length**-0.5)


def _along_axis(name: str) -> Callable[..., Any]:
    own, inverse = getattr(_scipy, name.removeprefix("i")), name.startswith("i")
    return lambda x, type, n, axis, norm, orthogonalize: _transform(own, inverse, x, type, n, axis, norm, orthogonalize)


def _along_axes(name: str) -> Callable[..., Any]:
    own, inverse = getattr(_scipy, name.removeprefix("i").removesuffix("n")), name.startswith("i")

    def function(x: Any, type: int, s: Any, axes: Any, norm: Any, orthogonalize: Any) -> Any:
        x = lift(x)
        over = _axes(x, s, axes)
        over = normalize_axis_tuple(range(x.ndim) if over is None else over, x.ndim)
        sizes = [None] * len(over) if s is None else np.atleast_1d(s).tolist()
        if len(sizes) != len(over):
            raise ValueError(f"{name}: s has {len(sizes)} lengths for {len(over)} axes.\n  At {user_line()}.")
        for axis, n in zip(over, sizes):
            x = _transform(own, inverse, x, type, None if n == -1 else n, axis, norm, orthogonalize)
        return x

    return function


_KINDS = ((1, "ortho"), (1, None), (2, "forward"), (3, "ortho"), (4, None))
_SAMPLES = [one(4, type=k, norm=norm) for k, norm in _KINDS]
for _name in ("dct", "idct", "dst", "idst"):
    _named(_name, *_SAMPLES, *(one(3, 4, axis=0, n=n) for n in (5, 2)))(_along_axis(_name))
    _more = one(3, 4), one(3, 4, type=3, s=(5,), norm="ortho"), one(3, 4, s=(-1, 5))
    _named(f"{_name}n", *_more)(_along_axes(f"{_name}n"))

REFUSED = by_name({"a logarithmic grid, and its transform is not covered yet": "fht ifht"})
__getattr__, __dir__ = late(_scipy, REFUSED)
