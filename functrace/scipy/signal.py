"""SciPy's `signal`, for plain and traced arrays alike: convolutions, filters, and what is linear in the signal.

>>> import functrace as ft, numpy as np
>>> from functrace.scipy import signal
>>> ft.grad(lambda h: signal.convolve(np.arange(4.0), h, "valid").sum())(np.ones(2))
array([6., 3.])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.signal as _scipy
from numpy.lib.array_utils import normalize_axis_tuple

from functrace.core.tracer import value
from functrace.ops.create import lift
from functrace.ops.functions import refuse
from functrace.ops.kinds import batch_by_loop, general
from functrace.ops.registry import TABLE, Sample, each, found, given, one
from functrace.ops.statistics import as_float
from functrace.optimize import opaque
from functrace.scipy import _signal_spectra, _signal_waves  # noqa: F401
from functrace.scipy._shared import by_name, choice, declarer, late, matched, named, one_of, only_first, real, single, with_axes
from functrace.scipy._signal_linear import pad_first, pad_last, resample_poly, upfirdn, zpk2tf
from functrace.scipy._signal_products import flip, mode_of, product
from functrace.scipy._signal_responses import frequencies, second_orders
from functrace.scipy.ndimage import rank_filter
from functrace.transforms.batching import vmap

if TYPE_CHECKING:
    from scipy.signal import *  # noqa: F403

_declared = declarer(_scipy)


_SHAPES = [((5,), (3,)), ((2,), (4,)), ((3, 4), (2, 3))]
_MODES = [each(a, b, mode=mode) for a, b in _SHAPES for mode in ("full", "same", "valid")]


@_declared("convolve", *_MODES, each((5,), (3,), method="fft"))
def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    return product(in1, in2, mode, method)


@_declared("correlate", *_MODES, each((4,), (4,), method="direct"))
def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    return _correlated(in1, in2, mode, lambda a, v: product(a, v, mode, method))


def _correlated(in1: Any, in2: Any, mode: str, convolved: Callable[[Any, Any], Any], turned: Any = np.conjugate) -> Any:
    """A correlation as a convolution with the mirror image; of the smaller array, as SciPy orders them, where they overlap wholly."""
    a, v = lift(in1), lift(in2)
    if mode == "valid" and all(m <= n for m, n in zip(a.shape, v.shape)) and a.shape != v.shape:
        return turned(flip(convolved(v, np.conjugate(flip(a)))))
    return convolved(a, np.conjugate(flip(v)))


def _fft_convolve(in1: Any, in2: Any, mode: str, axes: Any) -> Any:
    a, v = single(in1), single(in2)
    if axes is None:
        return product(a, v, mode, "fft")
    axes = normalize_axis_tuple(axes, a.ndim)
    others = [k for k in range(a.ndim) if k not in axes]
    order = (*others, *sorted(axes))
    a, v = np.transpose(a, order), np.transpose(v, order)
    outer = np.broadcast_shapes(a.shape[: len(others)], v.shape[: len(others)])
    a, v = (np.broadcast_to(x, (*outer, *x.shape[len(others) :])) for x in (a, v))
    run: Any = lambda x, y: product(x, y, mode, "fft")
    for _ in others:
        run = vmap(run)
    return np.transpose(run(a, v), np.argsort(order).tolist())


for _name in ("fftconvolve", "oaconvolve"):
    _declared(_name, *_MODES[:3], *_MODES[6:], each((2, 5), (2, 3), axes=1), each((5, 2), (3, 1), axes=0, mode="same"))(
        lambda in1, in2, mode="full", axes=None: _fft_convolve(in1, in2, mode, axes)
    )


_EDGES = {
    "fill": "constant", "pad": "constant", "wrap": "wrap", "circular": "wrap", "symm": "symmetric", "symmetric": "symmetric",
}  # fmt: skip


def _plane(in1: Any, in2: Any, mode: str, boundary: str, fillvalue: Any, start: Any) -> Any:
    """A convolution of images; `start(n)` is where mode "same" begins for a kernel of length n."""
    one_of("mode", mode, "full", "valid", "same")
    a, v = with_axes(lift(in1), 2), with_axes(lift(in2), 2)
    if mode == "valid":
        return product(a, v, mode, "direct")
    padded, edge = a, choice("boundary", boundary, _EDGES)
    if edge != "constant" or type(fillvalue) not in (int, float) or fillvalue != 0:  # a traced 0 has a derivative
        more = {"constant_values": fillvalue} if edge == "constant" else {}
        padded = found("pad").function(a.astype(np.result_type(a.dtype, v.dtype)), [(n - 1, n - 1) for n in v.shape], mode=edge, **more)
    full = mode_of(padded, v, "full" if padded is a else "valid", "direct")
    return full if mode == "full" else full[tuple(slice(start(n), start(n) + m) for m, n in zip(a.shape, v.shape))]


@_declared(
    "convolve2d",
    *_MODES[6:],
    *(each((3, 4), (3, 2), mode="same", boundary=b) for b in _EDGES),
    each((3, 4), (2, 2), boundary="symm"),
    each((3, 4), (2, 2), fillvalue=2.0),
)
def convolve2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    return _plane(in1, in2, mode, boundary, fillvalue, lambda n: (n - 1) // 2)


@_declared(
    "correlate2d", *_MODES[6:8], each((3, 4), (2, 2), mode="valid"), *(each((3, 4), (3, 2), mode="same", boundary=b) for b in _EDGES)
)
def correlate2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    plane: Any = lambda a, v: _plane(a, v, mode, boundary, fillvalue, lambda n: n // 2)
    return _correlated(in1, in2, mode, plane, lambda x: x)  # where it exchanges them SciPy conjugates the other


# recursive filters: 1 / A has rules of its own, B / A is that of a convolution


def _delayed(a: Any, y: Any) -> Any:
    """The convolution of a[1:], one step late, with y along its last axis."""
    n = y.shape[-1]
    out = 0 * y
    for k in range(1, min(a.shape[0], n)):
        out = out + pad_first(a[k] * y[..., : n - k], k)
    return out


def _backwards(a: Any, g: Any) -> Any:
    return _pole(a, g[..., ::-1])[..., ::-1]


def _pole_first(g: Any, ans: Any, a: Any, _x: Any) -> Any:
    h, n = _backwards(a, g), ans.shape[-1]
    parts = [-np.sum(h[..., k:] * ans[..., : max(n - k, 0)]) if 0 < k < n else 0 * np.sum(h[..., :0]) for k in range(a.shape[0])]
    return np.stack(parts)


_pole: Any = general(
    "scipy.signal.allpole",  # y with sum_k a[k] y[n - k] = x[n], where a[0] is 1
    lambda a, x: _scipy.lfilter(np.ones(1, a.dtype), a, x),
    _pole_first,
    lambda g, _ans, a, _x: _backwards(a, g),
    jvps=(lambda t, ans, a, _x: -_pole(a, _delayed(t, ans)), lambda t, _ans, a, _x: _pole(a, t)),
    batch=lambda size, flags, args, _params: (
        _pole(*args) if flags == [False, True] else batch_by_loop(_pole.primitive, size, flags, args, ())
    ),
)


def _coefficients(b: Any, a: Any) -> tuple[Any, Any]:
    return np.atleast_1d(as_float(b)), np.atleast_1d(as_float(a))


def _filter(b: Any, a: Any, x: Any, zi: Any) -> tuple[Any, Any]:
    """The filtered signal along the last axis, and the final state (direct form II transposed)."""
    if np.any(a[0] == 0):
        raise ValueError("a filter whose first coefficient a[0] is 0 can't be run.")
    order, n = max(a.shape[0], b.shape[0]) - 1, x.shape[-1]
    b, a = pad_last(b, order + 1 - b.shape[0]) / a[0], pad_last(a, order + 1 - a.shape[0]) / a[0]
    long = pad_last(x, order)
    driven = b[0] * long + _delayed(b, long)
    if zi is not None:
        driven = driven + pad_last(np.broadcast_to(zi, (*x.shape[:-1], order)), n)
    y = _pole(a, driven[..., :n])
    return y, (driven - _delayed(a, pad_last(y, order)))[..., n:]


_FILTERS = [
    Sample(lambda rng: (rng.normal(size=3), np.array([1.5, -0.6, 0.2]), rng.normal(size=6)), kw, (0, 1, 2))
    for kw in ({}, {"zi": np.array([0.3, -0.2])})
]


@_declared(
    "lfilter",
    *_FILTERS,
    Sample(lambda rng: (rng.normal(size=2), np.array([2.0, 0.5, 0.3]), rng.normal(size=(5, 2))), {"axis": 0}, (0, 1, 2)),
)
def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """`scipy.signal.lfilter`; the coefficients and the state may be traced too."""
    b, a = (with_axes(c, 1) for c in _coefficients(b, a))
    state = None if zi is None else np.moveaxis(as_float(zi), axis, -1)
    y, final = _filter(b, a, np.moveaxis(as_float(x), axis, -1), state)
    return np.moveaxis(y, -1, axis) if zi is None else (np.moveaxis(y, -1, axis), np.moveaxis(final, -1, axis))


@_declared("lfilter_zi", Sample(lambda rng: (rng.normal(size=3), np.array([1.5, -0.6, 0.2])), wrt=(0, 1)))
def lfilter_zi(b: Any, a: Any) -> Any:
    b, a = _coefficients(b, a)
    n = max(a.shape[0], b.shape[0])
    b, a = pad_last(b, n - b.shape[0]) / a[0], pad_last(a, n - a.shape[0]) / a[0]
    eye = np.eye(n - 1, dtype=np.result_type(a.dtype, b.dtype))
    companion = eye[:, :1] * -a[1:] + np.eye(n - 1, k=-1, dtype=eye.dtype)
    return np.linalg.solve(eye - companion.T, b[1:] - a[1:] * b[0])


def _extended(x: Any, padtype: Any, count: int) -> Any:
    """The signal, continued at both ends of the last axis."""
    one_of("padtype", padtype, "odd", "even", "constant", None)
    if padtype is None or not count:
        return x
    left, right = x[..., count:0:-1], x[..., -2 : -(count + 2) : -1]
    if padtype == "odd":
        left, right = 2 * x[..., :1] - left, 2 * x[..., -1:] - right
    elif padtype == "constant":
        left, right = left * 0 + x[..., :1], right * 0 + x[..., -1:]
    return np.concatenate([left, x, right], axis=-1)


def _forth_and_back(x: Any, axis: int, padtype: Any, padlen: Any, run: Any) -> Any:
    """`run(x, first value)` along the signal and back."""
    x = np.moveaxis(as_float(x), axis, -1)
    count = 0 if padtype is None else max(padlen, 0)
    if count >= x.shape[-1]:
        raise ValueError(f"The length of the input vector x must be greater than padlen, which is {count}.")
    y = _extended(x, padtype, count)
    for _ in range(2):
        y = run(y, y[..., :1])[..., ::-1]
    return np.moveaxis(y[..., count : y.shape[-1] - count], -1, axis)


@named(
    _scipy,
    "filtfilt",
    *(
        Sample(lambda rng: (rng.normal(size=2), np.array([1.5, -0.6]), rng.normal(size=9)), kw, (0, 1, 2))
        for kw in ({}, {"padtype": "even"}, {"padtype": None}, {"padlen": -1})
    ),
)
def filtfilt(b: Any, a: Any, x: Any, axis: int, padtype: Any, padlen: Any) -> Any:
    """`scipy.signal.filtfilt`, with method "pad"."""
    b, a = _coefficients(b, a)
    zi = lfilter_zi(b, a)
    padlen = 3 * max(a.shape[0], b.shape[0]) if padlen is None else padlen
    return _forth_and_back(x, axis, padtype, padlen, lambda y, start: _filter(b, a, y, zi * start)[0])


_SOS = np.array([[0.7, 0.3, 0.1, 1.0, -0.4, 0.2], [1.2, -0.5, 0.3, 1.0, 0.3, 0.1]])


@_declared(
    "sosfilt",
    *(Sample(lambda rng: (_SOS, rng.normal(size=(2, 6))), kw, (1,)) for kw in ({}, {"zi": 0.1 * np.arange(8.0).reshape(2, 2, 2)})),
)
def sosfilt(sos: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    sos, y = second_orders(sos), np.moveaxis(as_float(x), axis, -1)
    state = None if zi is None else np.moveaxis(as_float(zi), (axis % lift(x).ndim) + 1, -1)
    finals = []
    for k in range(sos.shape[0]):
        y, final = _filter(sos[k, :3], sos[k, 3:], y, None if state is None else state[k])
        finals.append(final)
    y = np.moveaxis(y, -1, axis)
    return y if zi is None else (y, np.moveaxis(np.stack(finals), -1, (axis % y.ndim) + 1))


@_declared("sosfilt_zi", given(_SOS))
def sosfilt_zi(sos: Any) -> Any:
    sos = as_float(sos)
    gain, out = 1.0, []
    for k in range(sos.shape[0]):
        out.append(gain * lfilter_zi(sos[k, :3], sos[k, 3:]))
        gain = gain * (np.sum(sos[k, :3]) / np.sum(sos[k, 3:]))
    return np.stack(out)


@_declared("sosfiltfilt", Sample(lambda rng: (_SOS, rng.normal(size=17)), wrt=(1,)))
def sosfiltfilt(sos: Any, x: Any, axis: int = -1, padtype: Any = "odd", padlen: Any = None) -> Any:
    sos = second_orders(sos)
    zi, count = sosfilt_zi(sos), sos.shape[0]
    if padlen is None:
        padlen = 3 * (2 * count + 1 - min(int(np.sum(sos[:, 2] == 0)), int(np.sum(sos[:, 5] == 0))))

    def run(y: Any, start: Any) -> Any:
        for k in range(count):
            y = _filter(sos[k, :3], sos[k, 3:], y, zi[k] * start)[0]
        return y

    return _forth_and_back(x, axis, padtype, padlen, run)


@_declared("deconvolve", Sample(lambda rng: (rng.normal(size=6), np.array([2.0, 0.5, 0.3])), wrt=(0, 1)))
def deconvolve(signal: Any, divisor: Any) -> Any:
    num, den = with_axes(as_float(signal), 1), with_axes(as_float(divisor), 1)
    n, d = num.shape[0], den.shape[0]
    if d > n:
        return np.zeros(0), num
    quotient = _filter(num, den, np.eye(1, n - d + 1)[0], None)[0]
    return quotient, num - convolve(den, quotient)


@named(
    _scipy,
    "freqz",
    Sample(lambda rng: (rng.normal(size=3).tolist(), [2.0, 0.5, 0.3]), {"worN": np.array([0.1, 0.7, 1.3])}, (0, 1)),
    Sample(lambda rng: (rng.normal(size=(3, 2, 1)).tolist(), rng.normal(size=(2, 4)).tolist()), {"worN": 4}, (0, 1)),
    Sample(lambda rng: (rng.normal(size=3), 1.0, np.array([0.1, 0.7, 1.3])), wrt=(0, 2)),
)
def freqz(b: Any, a: Any, worN: Any, whole: bool, fs: float, include_nyquist: bool) -> Any:
    b, a = _coefficients(b, a)
    one_ = np.ones(1, np.result_type(b.dtype, a.dtype))
    w, z, dtype = frequencies(lambda w, fs: _scipy.freqz(one_, one_, w, whole, None, fs, include_nyquist), worN, fs)

    def at(c: Any) -> Any:  # coefficients along the first axis, the others go with the frequencies
        c = c if c.ndim > 1 else c[:, None]
        return np.sum(c * z ** -np.reshape(np.arange(c.shape[0]), (-1, *(1,) * (c.ndim - 1))), axis=0)

    return w, (at(b) / at(a)).astype(dtype)


@_declared(
    "decimate",
    *(Sample(lambda rng: (rng.normal(size=(2, 40)), 2), kw) for kw in ({}, {"zero_phase": False}, {"n": 3})),
    one(30, q=2, ftype="fir"),
    one(31, 2, q=3, ftype="fir", axis=0, zero_phase=False),
    Sample(lambda rng: (rng.normal(size=30), 2), {"ftype": _scipy.dlti([1.0, 0.4], [1.0, 0.3, 0.2])}),
)
def decimate(x: Any, q: int, n: Any = None, ftype: Any = "iir", axis: int = -1, zero_phase: bool = True) -> Any:
    x = as_float(x)
    every = (slice(None),) * (axis % x.ndim) + (slice(None, None, int(q)),)
    kind = x.dtype if x.dtype != np.float16 else np.float64
    if isinstance(ftype, _scipy.dlti):
        system = ftype.to_tf()
        b, a = np.atleast_1d(system.num), np.atleast_1d(system.den)
        if len(a) > 1:
            return (filtfilt if zero_phase else lfilter)(b, a, x, axis=axis)[every]
        taps = b / a
    elif ftype == "fir":
        taps = _scipy.firwin((20 * q if n is None else n) + 1, 1.0 / q, window="hamming").astype(kind)
    else:
        one_of("ftype", ftype, "iir", "fir")
        sos = _scipy.cheby1(8 if n is None else n, 0.05, 0.8 / q, output="sos").astype(kind)
        return (sosfiltfilt if zero_phase else sosfilt)(sos, x, axis=axis)[every]
    if zero_phase:
        return resample_poly(x, 1, q, axis, taps)
    return upfirdn(taps, x, 1, q, axis)[every[:-1] + (slice(0, -(-x.shape[axis] // q)),)]


@named(
    _scipy,
    "freqs",
    Sample(lambda rng: (rng.normal(size=3).tolist(), [2.0, 0.5, 0.3], np.array([0.1, 0.7, 1.3])), wrt=(0, 1, 2)),
    Sample(lambda rng: (rng.normal(size=3).tolist(), [2.0, 0.5, 0.3]), {"worN": 5}, (0, 1)),
)
def freqs(b: Any, a: Any, worN: Any) -> Any:
    """`scipy.signal.freqs`; the frequencies that it chooses are powers of ten, which jump."""
    b, a = _coefficients(b, a)
    w = opaque(lambda b, a: _scipy.findfreqs(b, a, 200 if worN is None else worN), b, a) if np.ndim(worN) == 0 else lift(worN)
    return w, np.polyval(b, 1j * w) / np.polyval(a, 1j * w)


def _ranked(a: Any, domain: Any, rank: Any) -> Any:
    """For each element the one of rank `rank` among those in the window `domain` around it, with zeros beyond the ends."""
    only_first("order_filter", domain)
    if not np.all(np.array(np.shape(domain)) % 2):
        raise ValueError("Each dimension of domain argument should have an odd number of elements.")
    return rank_filter(single(as_float(a)), rank, footprint=np.asarray(domain) != 0, mode="constant")


def _median(volume: Any, kernel_size: Any = None) -> Any:
    x = lift(volume)
    sizes = np.broadcast_to(3 if kernel_size is None else kernel_size, (x.ndim,)).astype(int)
    if np.any(sizes % 2 != 1):
        raise ValueError("Each element of kernel_size should be odd.")
    return _ranked(x, np.ones(sizes), int(np.prod(sizes)) // 2)


_SPREAD: Any = lambda rng: (rng.permutation(20).reshape(4, 5) + 0.1 * rng.random((4, 5)),)
_declared("medfilt", Sample(_SPREAD), Sample(_SPREAD, {"kernel_size": (1, 3)}))(_median)
_declared("medfilt2d", Sample(_SPREAD))(lambda input, kernel_size=3: _median(with_axes(lift(input), 2), kernel_size))
_declared("order_filter", Sample(lambda rng: (*_SPREAD(rng), np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]]), 2)))(_ranked)


@_declared("wiener", one(4, 5), one(9, mysize=5, noise=0.4), one(4, 5, mysize=(1, 3)))
def wiener(im: Any, mysize: Any = None, noise: Any = None) -> Any:
    x = real(im, "wiener")
    ones = np.ones(np.broadcast_to(3 if mysize is None else mysize, (x.ndim,)).astype(int))
    mean, square = (product(y, ones, "same", "auto") / ones.size for y in (x, x * x))
    spread = square - mean * mean
    noise = np.mean(spread) if noise is None else noise
    quiet = spread < noise
    return np.where(quiet, mean, mean + (x - mean) * (1 - noise / np.where(quiet, 1.0, spread)))


# designs: the roots of SciPy's analogue low pass, moved to traced frequencies as its `lp2bp_zpk`, `bilinear_zpk` and the like do


def _moved(w: Any, kind: str, z: Any, p: Any, k: Any) -> tuple[Any, Any, Any]:
    """The zeros, poles and gain of an analogue filter with these edges."""
    more, two, turned = len(p) - len(z), w.shape[0] > 1, kind.lower().startswith(("h", "bs", "bands", "s"))
    width, square = (w[1] - w[0], w[0] * w[1]) if two else (w[0], 0.0)

    def move(r: Any) -> Any:
        r = width / (1 + two) / r if turned else r * width / (1 + two)  # in SciPy's order, by which zeros have their signs
        root = np.sqrt(r * r - square)
        return np.concatenate([r + root, r - root]) if two else r

    middle = np.sqrt(square + 0j) * 1j
    ends = (middle, -middle) if two and turned else (0.0,) * (two or turned)
    gain = np.real(np.prod(-z) / np.prod(-p)) if turned else width**more
    return np.concatenate([move(z), *(x * np.ones(more) for x in ends)]), move(p), k * gain


def _designer(name: str, *samples: Sample) -> None:
    def function(btype: str, analog: bool, output: str, fs: Any, **given: Any) -> Any:
        wn = lift(given.pop("Wn"))
        wn, kind = real(wn, name), wn.dtype
        only_first(name, fs, *given.values(), which="Wn")
        make: Any = lambda w, *how: getattr(_scipy, name)(**given, Wn=w, **dict(zip(("btype", "analog", "output", "fs"), how)))
        sections: Any = lambda w: make(w, btype, analog, output, fs)
        w = np.reshape(wn if fs is None else 2 * wn / fs, -1)
        n = w.shape[0]
        like = sections((np.arange(1, n + 1) / (n + 1) * (1 if fs is None else fs / 2)).reshape(wn.shape).astype(kind))
        if not np.all(w > 0) or not np.all(w[1:] > w[:-1]) or not (analog or np.all(w < 1)):
            sections(value(wn))  # which says what is wrong
        z, p, k = _moved(w if analog else 4 * np.tan(np.pi / 2 * w), btype, *make(1.0, "low", True, "zpk", None))
        if not analog:
            k = k * np.real(np.prod(4 - z) / np.prod(4 - p))
            z, p = (4 + z) / (4 - z), (4 + p) / (4 - p)
            z = np.concatenate([z, -np.ones(p.shape[0] - z.shape[0])])
        if output != "sos":
            found = (z, p, k) if output == "zpk" else map(np.real, zpk2tf(z, p, k))
            return tuple([c.astype(np.result_type(x)) for c, x in zip(found, like)])
        refuse(f"{name} with output='sos'", analog=(analog or None, None))

        def half(first: int, r: Any) -> Any:
            r = np.concatenate([r, np.zeros(2 * len(like) - r.shape[0])])
            pairs = opaque(lambda w, r: matched(r, [x for row in sections(w) for x in np.roots(row[first : first + 3])]), wn, r)
            a, b = np.reshape(np.take_along_axis(r, pairs, 0), (-1, 2)).T
            return np.real(np.stack([1 + 0 * a, -a - b, a * b], axis=1))

        return np.concatenate([half(0, z) * (1 + (k - 1) * np.eye(len(like), 1)), half(3, p)], axis=1).astype(like.dtype)

    function.__doc__ = f"`scipy.signal.{name}`, differentiable in `Wn`."
    named(_scipy, name, *samples)(function)


_BANDS = {"btype": "band", "output": "sos"}, {"btype": "stop", "output": "zpk", "analog": True}
_designer("iirfilter", *(Sample(lambda rng: (2, np.array([0.2, 0.55])), kw, (1,)) for kw in _BANDS))
for _name, _ripples in (("butter", ()), ("cheby1", (1.0,)), ("cheby2", (30.0,)), ("ellip", (1.0, 30.0)), ("bessel", ())):
    _draw: Any = lambda rng, r=_ripples: (3, *r, 0.3)
    _low = Sample(_draw, wrt=(1 + len(_ripples),))
    _designer(_name, _low, _low._replace(kwargs={"btype": "high", "output": "sos"}))


_REASONS = {
    "it gives places, which jump": "find_peaks find_peaks_cwt peak_prominences peak_widths argrelmax argrelmin argrelextrema",
    "a design from plain numbers: its results are constants to the derivative": "firls firwin firwin2 remez iirdesign iirnotch "
    "iirpeak iircomb gammatone",
    "it holds plain numbers: give the tuple (num, den), (zeros, poles, gain) or (A, B, C, D) to lsim, step, freqresp ... instead": "dlti "
    "StateSpace TransferFunction ZerosPolesGain lti",
    "the gains are not unique; for one input Ackermann's formula has a derivative": "place_poles",
}
REFUSED = by_name(_REASONS)

for _name in _scipy.__all__:
    _theirs = getattr(_scipy, _name)
    if f"scipy.signal.{_name}" not in TABLE and callable(_theirs) and not isinstance(_theirs, type):
        REFUSED.setdefault(_name, "not covered yet, or a design from plain numbers")

__getattr__, __dir__ = late(_scipy, REFUSED)
