"""What is linear in a signal, of `scipy.signal`: smoothing, other rates, spectra on parts of the circle; and linear systems.

A system is the tuple that SciPy's functions take, (num, den), (zeros, poles, gain) or (A, B, C, D), of what may be traced, or an object of
SciPy's. Its steps are exponentials of matrices that hold the input beside the state: Franklin, Powell & Workman 1998, "Digital control of
dynamic systems", 4.3.
"""

from __future__ import annotations

import functools
from math import gcd
from typing import Any

import numpy as np
import scipy.ndimage as _ndimage
import scipy.signal as _scipy

from functrace import errors
from functrace.ops.arrange import as_line
from functrace.ops.functions import refuse
from functrace.ops.kinds import general
from functrace.ops.registry import Sample, each, holds_tracer, normal, one
from functrace.ops.statistics import as_float
from functrace.scipy._linalg_functions import expm
from functrace.scipy._shared import Map, along, declarer, linear_along, one_of, only_first, real, single
from functrace.transforms.control import scan

_declared = declarer(_scipy)
_signal: Any = lambda *args: Sample(lambda rng: (rng.normal(size=(2, 12)), *args))
_linear = functools.partial(linear_along, _scipy)


def pad_first(x: Any, count: int) -> Any:
    """`x` with zeros before it, along its last axis."""
    return np.concatenate([np.zeros((*x.shape[:-1], count), x.dtype), x], axis=-1)


def pad_last(x: Any, count: int) -> Any:
    """`x` with zeros after it, along its last axis."""
    return np.concatenate([x, np.zeros((*x.shape[:-1], count), x.dtype)], axis=-1) if count else x


@_declared("hilbert", _signal(), one(9, 2, axis=0), one(2, 5, N=6))
def hilbert(x: Any, N: Any = None, axis: int = -1) -> Any:
    x = single(x)
    if x.dtype.kind == "c":
        raise ValueError("x must be real.")
    n = x.shape[axis] if N is None else N
    spectrum: Any = np.fft.fft(x, n, axis)
    weights = np.zeros(n, spectrum.real.dtype)
    weights[: n // 2 + 1] = 1.0
    weights[1 : (n + 1) // 2] = 2.0
    return np.fft.ifft(spectrum * as_line(weights, axis % x.ndim, x.ndim), axis=axis)


_linear("detrend", _signal(), _signal(0, "constant"), _signal(-1, "linear", [5]), adjoint=lambda f, _n, **_rest: f)


# smoothing

_ENDS = {"mirror": "reflect", "nearest": "edge", "wrap": "wrap", "constant": "constant"}


@_declared(
    "savgol_filter",
    _signal(5, 2),
    one(9, window_length=4, polyorder=2),
    one(2, 9, window_length=5, polyorder=3, deriv=1, mode="nearest"),
    *(one(7, 2, window_length=5, polyorder=2, axis=0, mode=mode, cval=0.3) for mode in _ENDS),
)
def savgol_filter(
    x: Any, window_length: int, polyorder: int, deriv: int = 0, delta: Any = 1.0, axis: int = -1, mode: str = "interp", cval: Any = 0.0
) -> Any:
    only_first("savgol_filter", delta)
    one_of("mode", mode, "interp", *_ENDS)
    x = np.moveaxis(as_float(x), axis, -1)
    x = x if x.dtype == np.float32 else real(x, "savgol_filter")
    n, half = x.shape[-1], window_length // 2
    weights = _scipy.savgol_coeffs(window_length, polyorder, deriv=deriv, delta=delta)
    f: Map = lambda y, k: _ndimage.convolve1d(y, weights, k, mode="constant")
    back: Map = lambda y, k: _ndimage.correlate1d(y, weights, k, mode="constant")
    if mode != "interp":
        more = {"constant_values": cval} if mode == "constant" else {}
        continued: Any = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(half, half)], mode=_ENDS[mode], **more)  # type: ignore[call-overload]
        return np.moveaxis(along(continued, -1, f, back)[..., half : half + n], -1, axis)
    if window_length > n:
        raise ValueError("If mode is 'interp', window_length must be less than or equal to the size of x.")
    fits = _scipy.savgol_filter(np.eye(window_length), window_length, polyorder, deriv, delta, axis=0).astype(x.dtype)
    ends = x[..., :window_length] @ fits[:half].T, x[..., n - window_length :] @ fits[window_length - half :].T
    return np.moveaxis(np.concatenate([ends[0], along(x, -1, f, back)[..., half : n - half], ends[1]], axis=-1), -1, axis)


# other rates


def _window(window: Any, n: int) -> Any:
    """The weights of the frequencies, as SciPy's resampling at the same rate shows them: how it shifts windows depends on its version."""
    return np.fft.fft(_scipy.resample(np.eye(1, n, dtype=complex)[0], n, window=window))


@_declared(
    "resample",
    _signal(7),
    one(6, 2, num=9),
    one(6, 2, num=4),
    one(6, num=6),
    one(7, num=12, window="hann"),
    Sample(lambda rng: (rng.normal(size=(6, 2)) + 1j * rng.normal(size=(6, 2)), 4), {"domain": "freq"}),
)
def resample(x: Any, num: int, t: Any = None, axis: int = 0, window: Any = None, domain: str = "time") -> Any:
    """`scipy.signal.resample`, of the frequencies that both rates have; the highest stands for itself and its negative."""
    one_of("domain", domain, "time", "freq")
    only_first("resample", window)
    x = np.moveaxis(single(as_float(x)), axis, -1)
    n, is_real = x.shape[-1], domain == "time" and x.dtype.kind != "c"
    spectrum: Any = np.fft.fft(x) if domain == "time" else x + 0j
    kind = x.dtype if domain == "time" else spectrum.dtype
    if window is not None:
        spectrum = spectrum * _window(window, n)
    places, most = np.rint(np.fft.fftfreq(num, 1 / num)).astype(int), min(n, num)
    ends = (2 * abs(places) == most) & (n != num)
    weights = np.where(2 * abs(places) <= most, num / n, 0.0)
    if num > n:
        weights[ends] /= 2
    scaled = spectrum[..., places % n] * weights.astype(spectrum.real.dtype)
    if num < n:
        scaled = scaled + np.where(ends, spectrum[..., -places % n] * weights.astype(spectrum.real.dtype), 0)
    out: Any = np.fft.ifft(scaled)
    like = _scipy.resample(np.zeros(n, kind), num, window=window)
    out = np.moveaxis((np.real(out) if is_real else out).astype(like.dtype), -1, axis)
    return out if t is None else (out, t[0] + (t[1] - t[0]) * (n / num) * np.arange(num))


def _filtered(h: Any, up: int, down: int, n: int) -> Map:
    """The transpose of `upfirdn(h, x, up, down)` for n elements, which is that with the filter backwards and the rates exchanged."""
    late = -(len(h) - 1) % up  # zeros before the filter, so that the first element falls on a sample
    first, back = (len(h) - 1 + late) // up, np.concatenate([np.zeros(late, h.dtype), h[::-1]])

    def adjoint(g: Any, axis: int) -> Any:
        out = np.moveaxis(_scipy.upfirdn(back, g, down, up, axis), axis, -1)[..., first : first + n]
        return np.moveaxis(pad_last(out, n - out.shape[-1]), -1, axis)

    return adjoint


@_declared(
    "upfirdn",
    *(Sample(normal((4,), (6,)), kw, (0, 1)) for kw in ({}, {"up": 3, "down": 2})),
    each((3,), (5, 2), up=2, axis=0),
    *(
        Sample(lambda rng: (np.array([0.3, 1.0, -0.5, 0.2, 0.4]), rng.normal(size=6)), kw, (1,))
        for kw in ({"up": 2, "down": 5}, {"up": 4, "down": 3}, {"mode": "line"}, {"cval": 2.0})
    ),
)
def upfirdn(h: Any, x: Any, up: int = 1, down: int = 1, axis: int = -1, mode: str = "constant", cval: Any = 0) -> Any:
    """`scipy.signal.upfirdn`; of traced filters with zeros outside of the signal."""
    h, x = single(as_float(h)), single(as_float(x))
    if not holds_tracer([h]):
        f: Map = lambda y, k: _scipy.upfirdn(h, y, up, down, k, mode)
        out = along(x, axis, f, _filtered(h, up, down, x.shape[axis]) if mode == "constant" else None)
        return out + _scipy.upfirdn(h, np.zeros(x.shape, x.dtype), up, down, axis, mode, cval) if mode == "constant" and cval else out
    refuse("upfirdn of a traced filter", mode=(mode, "constant"), cval=(cval or 0, 0))
    x = np.moveaxis(x, axis, -1)
    n = x.shape[-1] * up
    total: Any = 0
    for k in range(0, h.shape[0], up):  # products are padded, never factors: a NaN stays in its place
        part = pad_last(x[..., None] * h[k : k + up], up - min(up, h.shape[0] - k))
        total = total + pad_first(pad_last(np.reshape(part, (*x.shape[:-1], n)), h.shape[0] - 1 - k), k)
    return np.moveaxis(total[..., : n - up + h.shape[0] : down], -1, axis)


_BACKGROUND: dict[str, Any] = {"mean": np.mean, "median": np.median, "minimum": np.min, "maximum": np.max}


@_declared(
    "resample_poly",
    _signal(3, 2),
    _signal(4, 6),
    one(11, up=2, down=3, window=np.array([0.2, 1.0, 0.7, 0.1])),
    *(one(7, 2, up=3, down=4, padtype=kind) for kind in (*_BACKGROUND, "line")),
    one(7, up=3, down=4, cval=0.6),
)
def resample_poly(
    x: Any, up: int, down: int, axis: int = 0, window: Any = ("kaiser", 5.0), padtype: str = "constant", cval: Any = None
) -> Any:
    only_first("resample_poly", window, cval)
    x = single(as_float(x))
    if padtype in _BACKGROUND:
        if cval is not None:
            raise ValueError("cval has no effect when padtype is ", padtype)
        level = _BACKGROUND[padtype](x, axis=axis, keepdims=True)
        return resample_poly(x - level, up, down, axis, window) + level
    up, down = up // gcd(up, down), down // gcd(up, down)
    f: Map = lambda y, k: _scipy.resample_poly(y, up, down, k, window, padtype)
    if padtype != "constant" or up == down:
        return along(x, axis, f, None if up != down else f)
    most, n = max(up, down), x.shape[axis]
    taps: Any = window if isinstance(window, (list, np.ndarray)) else _scipy.firwin(20 * most + 1, 1 / most, window=window)
    taps = np.concatenate([np.zeros(1 - len(taps) % 2), np.asarray(taps)])[::-1] * (up / down)
    back: Map = lambda g, k: np.take(_scipy.resample_poly(g, down, up, k, taps.astype(g.dtype)), np.arange(n), k)
    out = along(x, axis, f, back)
    return out + _scipy.resample_poly(np.zeros(x.shape, x.dtype), up, down, axis, window, padtype, cval) if cval else out


# spectra


def _of_czt(_f: Map, n: int, m: Any, w: Any, a: Any) -> Map:
    def adjoint(g: Any, axis: int) -> Any:
        if w is None:  # points all round the circle
            out = np.take(np.fft.fft(g, axis=axis), np.arange(n) % g.shape[axis], axis)
        else:
            out = _scipy.czt(g, n, w, axis=axis)
        return out * as_line((1.0 * a) ** -np.arange(n), axis % g.ndim, g.ndim)

    return adjoint


def _of_zoom(_f: Map, n: int, fn: Any, m: Any, fs: Any, endpoint: bool) -> Map:
    """By the same transform of as many points from frequency 0 on."""
    m = n if m is None else m
    first, last = fn if np.size(fn) == 2 else (0.0, float(np.ravel(fn)[0]))
    step = (last - first) / (m - 1 if endpoint else m)

    def adjoint(g: Any, axis: int) -> Any:
        out = _scipy.zoom_fft(g, [0.0, n * step], n, fs=fs, axis=axis)
        return out * as_line(np.exp(-2j * np.pi * first / fs * np.arange(n)), axis % g.ndim, g.ndim)

    return adjoint


_linear("czt", _signal(5), _signal(15), _signal(5, 0.9 * np.exp(0.3j), 1.1), one(7, 2, axis=0), adjoint=_of_czt)
_linear("zoom_fft", _signal([0.1, 0.4], 5), _signal(0.4, 15), one(7, 2, fn=[0.2, 0.7], fs=3, endpoint=True, axis=0), adjoint=_of_zoom)


# linear systems


def _charpoly_pull(g: Any, ans: Any, a: Any) -> Any:
    """d det(s - A) = -tr(adj(s - A) dA), with the coefficients of the adjugate by Horner's rule: Gantmacher 1959, chapter IV."""
    adjugate, out = np.eye(a.shape[0], dtype=ans.dtype), 0 * a
    for k in range(1, a.shape[0] + 1):
        out = out - g[k] * adjugate.T
        adjugate = a @ adjugate + ans[k] * np.eye(a.shape[0], dtype=ans.dtype)
    return out


_charpoly: Any = general("scipy.signal.charpoly", lambda a: np.poly(a).astype(a.dtype), _charpoly_pull)


def _coefficients(num: Any, den: Any) -> tuple[Any, Any]:
    """Numerators, one a row, and the denominator: as many coefficients each, the denominator's first is 1."""
    num, den = np.atleast_2d(as_float(num)), np.atleast_1d(as_float(den))
    while den.shape[0] > 1 and den[0] == 0:
        den = den[1:]
    while num.shape[1] > den.shape[0] and not np.any(num[:, 0]):
        num = num[:, 1:]
    if num.shape[1] > den.shape[0]:
        raise ValueError("Improper transfer function. `num` is longer than `den`.")
    return pad_first(num, den.shape[0] - num.shape[1]) / den[0], den / den[0]


def _state(system: Any) -> Any:
    if hasattr(system, "to_ss"):
        system = system.to_ss()
        return system.A, system.B, system.C, system.D
    if len(system) in (2, 3):
        return tf2ss(*(system if len(system) == 2 else zpk2tf(*system)))
    if len(system) != 4:
        raise ValueError(f"a system is (num, den), (zeros, poles, gain) or (A, B, C, D), not {len(system)} arrays.")
    return tuple([np.atleast_2d(as_float(m)) for m in system])


def _given(name: str, what: str, value: Any) -> Any:
    if value is None:
        raise errors.UnsupportedError(f"{name}: SciPy chooses {what} by the system, with which it would move.\n  Pass {what}.")
    return np.atleast_1d(as_float(value))


_ZPK = Sample(lambda rng: (np.array([0.3, -0.7]), np.array([-0.4, -1.3, -2.0]), 1.5), wrt=(0, 1, 2))


@_declared("zpk2tf", _ZPK)
def zpk2tf(z: Any, p: Any, k: Any) -> Any:
    z, p = np.atleast_1d(as_float(z)), np.atleast_1d(as_float(p))
    if z.ndim == 1:
        return k * _product(z), _product(p)
    return np.reshape(as_float(k), (-1, 1)) * np.stack([_product(row) for row in z]), _product(p)


def _product(roots: Any) -> Any:
    x = np.atleast_1d(np.poly(roots))
    return x.astype(roots.dtype if x.dtype.kind == "c" else roots.real.dtype)  # half precision, of which NumPy's is double


@_declared("zpk2ss", _ZPK)
def zpk2ss(z: Any, p: Any, k: Any) -> Any:
    return tf2ss(*zpk2tf(z, p, k))


@_declared("tf2ss", Sample(lambda rng: (rng.normal(size=2), np.array([2.0, 0.5, 0.3])), wrt=(0, 1)))
def tf2ss(num: Any, den: Any) -> Any:
    """`scipy.signal.tf2ss`, in controller canonical form."""
    num, den = _coefficients(num, den)
    n, first = den.shape[0] - 1, num[:, :1]
    if not n:
        return np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((num.shape[0], 1)), first
    return np.concatenate([-den[None, 1:], np.eye(n - 1, n)]), np.eye(n, 1), num[:, 1:] - first * den[1:], first


@_declared("ss2tf", each((3, 3), (3, 2), (2, 3), (2, 2), input=1))
def ss2tf(A: Any, B: Any, C: Any, D: Any, input: int = 0) -> Any:
    """`scipy.signal.ss2tf`."""
    a, b, c, d = _state((A, B, C, D))
    den = _charpoly(a)
    return np.stack([_charpoly(a - b[:, input, None] * c[k]) + (d[k, input] - 1) * den for k in range(c.shape[0])]), den


_SYSTEM = np.array([[0.1, 1.0], [-2.0, -0.3]]), np.array([[0.0], [1.0]]), np.array([[1.0, 0.4]]), np.array([[0.2]])
_POLES = [0.4, 1.0], [1.0, 0.5, 0.8]
_METHODS = {"bilinear": 0.5, "tustin": 0.5, "euler": 0.0, "forward_diff": 0.0, "backward_diff": 1.0}


@_declared(
    "cont2discrete",
    *(Sample(lambda rng: (_SYSTEM, 0.3), {"method": m}, (0, 1)) for m in ("zoh", "foh", "bilinear")),
    Sample(lambda rng: ((*_SYSTEM[:3], np.zeros((1, 1))), 0.3), {"method": "impulse"}, (1,)),
    Sample(lambda rng: (_POLES, 0.3), {"method": "gbt", "alpha": 0.3}, (0, 1)),
)
def cont2discrete(system: Any, dt: Any, method: str = "zoh", alpha: Any = None) -> Any:
    """`scipy.signal.cont2discrete`."""
    one_of("method", method, "gbt", "zoh", "foh", "impulse", *_METHODS)
    if not hasattr(system, "to_ss") and len(system) == 3:
        refuse("cont2discrete of zeros and poles, which it would give back", system=(system, None))
    if not hasattr(system, "to_ss") and len(system) == 2:
        return *ss2tf(*cont2discrete(tf2ss(*system), dt, method, alpha)[:4]), dt
    a, b, c, d = _state(system)
    n, m = b.shape
    eye = np.eye(n)
    if method == "zoh":
        step = expm(_driven(a, b, dt, 0))
        return step[:n, :n], step[:n, n:], c, d, dt
    if method == "foh":
        step = expm(_driven(a, b, dt, 1))
        ramp = step[:n, n + m :]
        return step[:n, :n], step[:n, n : n + m] - ramp + step[:n, :n] @ ramp, c, d + c @ ramp, dt
    if method == "impulse":
        if np.any(d):
            raise ValueError("Impulse method is only applicable to strictly proper systems")
        return expm(a * dt), expm(a * dt) @ b * dt, c, c @ b * dt, dt
    alpha = _METHODS.get(method, alpha)
    if alpha is None or not 0 <= alpha <= 1:
        raise ValueError("the method 'gbt' needs alpha, between 0 and 1")
    implied = eye - alpha * dt * a
    b = np.linalg.solve(implied, dt * b)
    c = np.swapaxes(np.linalg.solve(implied.T, c.T), 0, 1)
    return np.linalg.solve(implied, eye + (1 - alpha) * dt * a), b, c, d + alpha * (_state(system)[2] @ b), dt


def _driven(a: Any, b: Any, dt: Any, order: int) -> Any:
    """The matrix of the state, of inputs that are polynomials of this order in time, and of their derivatives."""
    n, m = b.shape
    top = np.concatenate([a * dt, b * dt], axis=1)
    zeros = np.zeros((n + m * (order + 1), m * (order + 1) + n), a.dtype)
    inputs = zeros[n:] + np.eye(m * (order + 1), n + m * (order + 1), n + m)
    return np.concatenate([np.concatenate([top, zeros[:n, : m * order]], axis=1), inputs])


_T = np.linspace(0.0, 1.5, 5)


@_declared(
    "lsim",
    *(Sample(lambda rng: (_SYSTEM, rng.normal(size=5), _T, rng.normal(size=2)), {"interp": i}, (0, 1, 3)) for i in (True, False)),
    Sample(lambda rng: (_POLES, None, _T + 0.2, rng.normal(size=2)), {}, (0, 3)),
)
def lsim(system: Any, U: Any, T: Any, X0: Any = None, interp: bool = True) -> Any:
    """`scipy.signal.lsim`."""
    a, b, c, d = _state(system)
    t = np.atleast_1d(as_float(T))
    n, m = b.shape
    if t[0] < 0:
        raise ValueError("Initial time must be nonnegative")
    start = np.broadcast_to(0.0 if X0 is None else as_float(X0), (n,))
    start = start @ expm(a.T * t[0]) if t[0] else start
    driven = not (U is None or isinstance(U, (int, float)) and not U)
    u = np.atleast_1d(as_float(U)) if driven else np.zeros((t.shape[0], m))
    u = u[:, None] if u.ndim == 1 else u
    if u.shape != (t.shape[0], m):
        raise ValueError(f"lsim: U has the shape {u.shape}, where {t.shape[0]} times and {m} inputs want {(t.shape[0], m)}")
    dt = t[1] - t[0] if t.shape[0] > 1 else 0.0
    if not np.allclose(t[1:] - t[:-1], dt):
        raise ValueError("Time steps are not equally spaced.")
    step = expm(_driven(a, b, dt, 1 if interp else 0)).T
    ahead = step[n + m :, :n] if interp else 0 * step[n : n + m, :n]
    pushes = u[:-1] @ (step[n : n + m, :n] - ahead) + u[1:] @ ahead
    x = _steps(step[:n, :n], pushes, start)
    return T, np.squeeze(x @ c.T) + np.squeeze(u @ d.T), np.squeeze(x)


def _steps(matrix: Any, pushes: Any, start: Any) -> Any:
    """All x with x[0] = start and x[i + 1] = x[i] @ matrix + pushes[i]."""

    def step(x: Any, push: Any) -> Any:
        x = x @ matrix + push
        return x, x

    start = start + np.zeros(start.shape, np.result_type(matrix.dtype, pushes.dtype, start.dtype))
    return np.concatenate([start[None], scan(step, start, pushes)[1]]) if pushes.shape[0] else start[None]


_TRANSFER = Sample(lambda rng: (_POLES,), {"T": _T})


@_declared("step", _TRANSFER, note="at given times")
def step(system: Any, X0: Any = None, T: Any = None, N: Any = None) -> Any:
    """`scipy.signal.step` at given times."""
    t = _given("step", "T", T)
    return T, lsim(system, np.ones(t.shape), t, X0, interp=False)[1]


@_declared("impulse", _TRANSFER, note="at given times")
def impulse(system: Any, X0: Any = None, T: Any = None, N: Any = None) -> Any:
    """`scipy.signal.impulse` at given times."""
    t, first = _given("impulse", "T", T), np.squeeze(_state(system)[1])
    return T, lsim(system, None, t, first if X0 is None else first + X0, interp=False)[1]


@_declared("dlsim", Sample(lambda rng: ((*_SYSTEM, 0.5), rng.normal(size=5)), {"x0": np.array([0.3, -0.2])}, (1,)), note="without t")
def dlsim(system: Any, u: Any, t: Any = None, x0: Any = None) -> Any:
    """`scipy.signal.dlsim`, without `t`."""
    refuse("dlsim", t=(t, None))
    a, b, c, d = _state(system if hasattr(system, "to_ss") else system[:-1])
    dt = system.dt if hasattr(system, "to_ss") else system[-1]
    u = as_float(u)
    u = u[:, None] if u.ndim == 1 else u
    x = _steps(a.T, u[:-1] @ b.T, np.broadcast_to(0.0 if x0 is None else as_float(x0), a.shape[:1]))
    out = np.arange(u.shape[0]) * dt, x @ c.T + u @ d.T
    return (*out, x) if isinstance(system, _scipy.StateSpace) or not hasattr(system, "to_ss") and len(system) == 5 else out


@_declared("freqresp", Sample(lambda rng: (_SYSTEM,), {"w": _T + 0.1}), _TRANSFER._replace(kwargs={"w": _T + 0.1}), note="at given w")
def freqresp(system: Any, w: Any = None, n: int = 10000) -> Any:
    """`scipy.signal.freqresp` at given frequencies."""
    at = _given("freqresp", "w", w)
    if not hasattr(system, "to_ss") and len(system) in (2, 3):
        (num,), den = _coefficients(*(system if len(system) == 2 else zpk2tf(*system)))
        return w, np.polyval(num, 1j * at) / np.polyval(den, 1j * at)
    a, b, c, d = _state(system)
    if d.shape != (1, 1):
        raise ValueError("freqresp() requires a SISO (single input, single output) system.")
    states = np.linalg.solve(1j * at[:, None, None] * np.eye(a.shape[0]) - a, b + 0j)
    return w, (c @ states + d)[:, 0, 0]


@_declared("bode", _TRANSFER._replace(kwargs={"w": _T + 0.1}), note="at given frequencies")
def bode(system: Any, w: Any = None, n: int = 100) -> Any:
    """`scipy.signal.bode` at given frequencies."""
    w, y = freqresp(system, w)
    return w, 20 * np.log10(np.abs(y)), np.unwrap(np.angle(y)) * (180 / np.pi)
