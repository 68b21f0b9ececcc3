"""Functions of `scipy.special` that are no ufuncs: sums of exponentials, combinatorial functions, and others with keywords."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special as s

from functrace import errors
from functrace.ops.create import lift, number
from functrace.ops.elementwise import safe
from functrace.ops.kinds import general, negative_axes
from functrace.ops.registry import Sample, given, one
from functrace.ops.statistics import as_float
from functrace.ops.ufuncs import shares
from functrace.scipy._shared import declarer
from functrace.scipy._special_kinds import INTEGER, POSITIVE, drawn, hidden, op

_declared = declarer(s)


# log of a sum of exponentials, axes counted from the end and kept
def _lse(a: Any, b: Any, axes: tuple[int, ...]) -> Any:
    if b is None and a.size and a.dtype in (np.float32, np.float64):  # as SciPy does it, which takes ten times as long on a few numbers
        top = np.max(a, axis=axes, keepdims=True)
        tied = a == top
        if np.isfinite(top).all():
            rest = np.exp(a - top)
            rest -= tied
        else:
            rest = np.exp(np.subtract(a, top, where=~tied, out=np.full(a.shape, -np.inf, a.dtype)))
        ties = np.maximum(np.sum(tied, axis=axes, keepdims=True, dtype=a.dtype), 1)
        return np.log1p(np.sum(rest, axis=axes, keepdims=True) / ties) + np.log(ties) + top
    signed = b is not None and a.dtype.kind != "c"
    out = s.logsumexp(a, axis=axes, b=b, keepdims=True, return_sign=signed)
    return np.reshape(out[0] if signed else out, [1 if k - a.ndim in axes else n for k, n in enumerate(a.shape)])


def _shares(ans: Any, a: Any, b: Any, axes: tuple[int, ...]) -> Any:
    """exp(a - ans), so that b times it sums to one, or to minus one."""
    of = shares(ans, a, axes)
    return of if b is None or a.dtype.kind == "c" else of * np.sign(np.sum(b * of, axis=axes, keepdims=True))


def _lse_a(g: Any, ans: Any, a: Any, b: Any, axes: Any) -> Any:
    return g * _shares(ans, a, b, axes) * (1 if b is None else b)


def _lse_b(g: Any, ans: Any, a: Any, b: Any, axes: Any) -> Any:
    return g * _shares(ans, a, b, axes)


def _lse_batch(size: int, flags: Any, args: Any, params: Any) -> Any:
    a, b = (x if flag or x is None else np.broadcast_to(x, (size, *x.shape)) for x, flag in zip(args, flags))
    return _logsumexp(a, b, *params)


_logsumexp = general(
    "scipy.special.logsumexp",
    _lse,
    _lse_a,
    _lse_b,
    jvps=tuple([lambda t, *rest, m=m: np.sum(m(t, *rest), axis=rest[-1], keepdims=True) for m in (_lse_a, _lse_b)]),
    batch=_lse_batch,
)
_TAIL = given([[0.5, -np.inf, 1.0], [0.1, 0.2, -np.inf]], axis=1)


@_declared(
    "logsumexp",
    one(2, 3),
    one(2, 3, axis=0),
    one(2, 3, axis=(-1, 0), keepdims=True),
    one(2, 3, 2, axis=1, return_sign=True),
    Sample(lambda rng: (rng.normal(size=(2, 3)), 1, rng.uniform(0.5, 2, size=(3,))), wrt=(0, 2)),
    Sample(lambda rng: (rng.normal(size=(2, 3)), 1, rng.uniform(-2, -0.5, size=(2, 3)), True, True), wrt=(0, 2)),
    _TAIL,
    note="shares sum to 1, but are 0 where all is -inf",
)
def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    """`scipy.special.logsumexp`; also in `b`."""
    a = as_float(lift(a))
    if b is not None:
        a, b = np.broadcast_arrays(a, as_float(lift(b)))
        a = a.astype(np.result_type(a.dtype, b.dtype))
    axes = negative_axes(axis, a.ndim)
    axes = axes if isinstance(axes, tuple) else (axes,)
    out = _logsumexp(a, b, axes)
    sign = np.ones(out.shape, out.dtype)
    if a.dtype.kind == "c" and return_sign:
        out, sign = np.real(out), np.exp(1j * np.imag(out))
    elif b is not None and a.dtype.kind != "c":
        top = np.max(a, axis=axes, keepdims=True)
        sign = np.sign(np.sum(b * np.exp(a - np.where(np.isinf(top), 0, top)), axis=axes, keepdims=True))
        out = out if return_sign else np.where(sign < 0, np.nan, out)
    if not keepdims:
        out, sign = (number(np.squeeze(y, axis=axes)) for y in (out, sign))
    return (out, sign) if return_sign else out


_ROWS = [one(2, 3), one(2, 3, axis=-1), one(2, 3, 2, axis=(0, 1))]


@_declared("log_softmax", *_ROWS)
def log_softmax(x: Any, axis: Any = None) -> Any:
    x = as_float(lift(x))
    return x - logsumexp(x, axis, keepdims=True)


@_declared("softmax", *_ROWS)
def softmax(x: Any, axis: Any = None) -> Any:
    return np.exp(log_softmax(x, axis))


if hasattr(s, "softplus"):  # SciPy 1.15

    @_declared("softplus", one(2, 3))
    def softplus(x: Any, **kwargs: Any) -> Any:
        return np.logaddexp(0, x, **kwargs)


# gamma functions of whole arguments
@_declared("multigammaln", Sample(lambda rng: (rng.uniform(2, 4, size=2), 3)))
def multigammaln(a: Any, d: Any) -> Any:
    a = lift(a)
    if not isinstance(d, (int, float, np.number)) or d != int(d):
        raise ValueError("d should be a positive integer (dimension)")
    if np.any(a <= 0.5 * (d - 1)):
        raise ValueError(f"condition a ({a}) > 0.5 * (d-1) ({0.5 * (d - 1)}) not met")
    return log_multigamma(a, int(d))


def log_multigamma(a: Any, d: int) -> Any:
    """`multigammaln` without a look at the arguments."""
    return d * (d - 1) * 0.25 * np.log(np.pi) + sum(s.gammaln(a - 0.5 * k) for k in range(d))


def _inexact(name: str, exact: Any) -> None:
    if exact:
        raise errors.UnsupportedError(f"{name}(exact=True) takes integers only.\n  Use exact=False.")


@_declared("comb", drawn((4.0, 6.0), POSITIVE), drawn((4.0, 6.0), POSITIVE, repetition=True))
def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:
    """`scipy.special.comb` with `exact=False`."""
    _inexact("comb", exact)
    N, k = lift(N), lift(k)
    if repetition:
        N = N + k - 1
    inside = (k <= N) & (N >= 0) & (k >= 0)
    return np.where(inside, s.binom(safe(N, ~inside, 1.0), safe(k, ~inside, 0.0)), 0)


@_declared("perm", drawn((4.0, 6.0), POSITIVE))
def perm(N: Any, k: Any, exact: bool = False) -> Any:
    """`scipy.special.perm` with `exact=False`."""
    _inexact("perm", exact)
    N, k = lift(N), lift(k)
    inside = (k <= N) & (N >= 0) & (k >= 0)
    return np.where(inside, s.poch(safe(N, ~inside, 1.0) - safe(k, ~inside, 0.0) + 1, safe(k, ~inside, 0.0)), 0)


@_declared("factorial", drawn(POSITIVE))
def factorial(n: Any, exact: bool = False, extend: str = "zero") -> Any:
    """`scipy.special.factorial` of real numbers, with `exact=False`."""
    _inexact("factorial", exact)
    n = as_float(lift(n), float)
    if n.dtype.kind == "c" or extend != "zero":
        raise errors.UnsupportedError("factorial: only extend='zero' has a derivative rule.\n  Use gamma(n + 1).")
    return np.where(n < 0, 0, s.gamma(safe(n, n < 0, 0.0) + 1))


@_declared("assoc_laguerre", drawn(POSITIVE, (0, 4), (0.5, 2.0)))
def assoc_laguerre(x: Any, n: Any, k: Any = 0.0) -> Any:
    return s.eval_genlaguerre(n, k, x)


# the Lambert function, DLMF 4.13.4, and Dirichlet's kernel as the sum that it is
_lambertw = hidden("lambertw", s.lambertw, lambda t, ans, z, k, _tol: t * np.exp(-ans) / (1 + ans), INTEGER, "it is a tolerance")


@_declared("lambertw", drawn(POSITIVE), drawn(POSITIVE, k=-1), given([0.0, 1e-3]))
def lambertw(z: Any, k: Any = 0, tol: float = 1e-8) -> Any:
    """`scipy.special.lambertw`; complex, also of real numbers."""
    return _lambertw(z, k, tol)


def _diric(t: Any, _ans: Any, x: Any, n: Any) -> Any:
    n = np.asarray(n, float)[..., None]
    k = np.arange(np.max(n, initial=1))
    harmonic = k - (n - 1) / 2
    return t * np.sum(np.where(k < n, -harmonic * np.sin(harmonic * x[..., None]), 0) / n, axis=-1)


op("diric", _diric, INTEGER, domain=((0.3, 2.5), (2, 5)))
