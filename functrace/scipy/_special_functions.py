"""Functions of `scipy.special` that are no ufuncs: sums of exponentials, combinatorial functions; and distribution functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.special as s

from functrace import errors
from functrace.ops import activations
from functrace.ops.create import lift, number
from functrace.ops.elementwise import safe
from functrace.ops.kinds import general, negative_axes
from functrace.ops.reduce import expand
from functrace.ops.registry import Sample, given, one
from functrace.ops.statistics import as_float
from functrace.ops.ufuncs import shares
from functrace.scipy._shared import declarer
from functrace.scipy._special_gamma import exprel_slope
from functrace.scipy._special_kinds import INTEGER, MAPS, POSITIVE, PROBABILITY, WIDE, Map, along, drawn, hidden, inverse, op, powers, slope
from functrace.transforms.constants import stop_gradient

_declared = declarer(s)


# log of a sum of exponentials, axes counted from the end and kept
def _lse(a: Any, b: Any, axes: tuple[int, ...]) -> Any:
    if b is None and a.size and a.dtype in (np.float32, np.float64):  # as SciPy does it, which takes ten times as long on a few numbers
        top = np.maximum.reduce(a, axis=axes, keepdims=True)
        tied = a == top
        if finite := np.isfinite(top).all():
            rest = np.asarray(np.exp(a - top))
            np.copyto(rest, 0, where=tied)
        else:
            rest = np.exp(np.subtract(a, top, where=~tied, out=np.full(a.shape, -np.inf, a.dtype)))
        total = np.add.reduce(rest, axis=axes, keepdims=True)
        if finite and np.count_nonzero(tied) == top.size:  # each once
            return np.log1p(total) + top
        ties = np.maximum(np.add.reduce(tied, axis=axes, keepdims=True, dtype=a.dtype), 1)
        return np.log1p(total / ties) + np.log(ties) + top
    signed = b is not None and a.dtype.kind != "c"
    out = s.logsumexp(a, axis=axes, b=b, keepdims=True, return_sign=signed)
    return np.reshape(out[0] if signed else out, [1 if k - a.ndim in axes else n for k, n in enumerate(a.shape)])


def _shares(ans: Any, a: Any, b: Any, axes: tuple[int, ...]) -> Any:
    """exp(a - ans), so that b times it sums to one, or to minus one."""
    of = shares(ans, a, axes)
    return of if b is None or a.dtype.kind == "c" else of * np.sign(np.sum(b * of, axis=axes, keepdims=True))


def _lse_a(t: Any, ans: Any, a: Any, b: Any, axes: Any, keepdims: bool) -> Any:
    slope = t * _shares(expand(ans, axes, a.ndim, keepdims), a, b, axes)
    return slope if b is None else slope * b


def _lse_b(t: Any, ans: Any, a: Any, b: Any, axes: Any, keepdims: bool) -> Any:
    return t * _shares(expand(ans, axes, a.ndim, keepdims), a, b, axes)


def _pulling(rule: Any) -> Any:
    return lambda g, ans, a, b, axes, keepdims: rule(expand(g, axes, a.ndim, keepdims), ans, a, b, axes, keepdims)


def _pushing(rule: Any) -> Any:
    return lambda t, ans, a, b, axes, keepdims: np.sum(rule(t, ans, a, b, axes, keepdims), axis=axes, keepdims=keepdims)


def _lse_batch(size: int, flags: Any, args: Any, params: Any) -> Any:
    a, b = (x if flag or x is None else np.broadcast_to(x, (size, *x.shape)) for x, flag in zip(args, flags))
    return _logsumexp(a, b, *params)


_logsumexp = general(
    "scipy.special.logsumexp",
    lambda a, b, axes, keepdims: _lse(a, b, axes) if keepdims else np.squeeze(_lse(a, b, axes), axes)[()],
    _pulling(_lse_a),
    _pulling(_lse_b),
    jvps=(_pushing(_lse_a), _pushing(_lse_b)),
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
    if b is None and not return_sign:
        return _logsumexp(a, b, axes, bool(keepdims))
    out = _logsumexp(a, b, axes, True)
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
    return activations.log_softmax(x, negative_axes(axis, x.ndim))


@_declared("softmax", *_ROWS)
def softmax(x: Any, axis: Any = None) -> Any:
    x = as_float(lift(x))
    return activations.softmax(x, negative_axes(axis, x.ndim), False)


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
    return d * (d - 1) * 0.25 * np.log(np.pi) + sum(s.gammaln(a - 0.5 * k) for k in range(int(d)))


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


# Distribution functions and their inverses, in terms of the incomplete gamma and beta functions


_PI, _ROOT = float(np.pi), float(np.sqrt(2 * np.pi))
_P = PROBABILITY


def _through(of: str, inner: Map, *partials: Any) -> tuple[Map, ...]:
    """The maps of `of(*inner(*args))`; each partial gives pairs: which argument of `of`, and its derivative."""

    def one(partial: Any) -> Map:
        def rule(t: Any, ans: Any, *args: Any) -> Any:
            pairs: Sequence[Any] = partial(*args) if callable(partial) else partial
            parts = [(c, MAPS[of][i](t * c, ans, *inner(*args))) for i, c in pairs]
            return sum(np.where(c == 0, 0, part) for c, part in parts)  # where c is 0 the other factor may be infinite

        return rule

    return tuple(map(one, partials))


# the gamma distributions
_chi2 = (((0, 0.5),), ((1, 0.5),))
_gamma: tuple[Map, ...] = (lambda a, b, x: ((1, x),), lambda a, b, x: ((0, 1.0),), lambda a, b, x: ((1, a),))
for _tail, _of in (("", "gammainc"), ("c", "gammaincc")):
    op(f"chdtr{_tail}", *_through(_of, lambda v, x: (v / 2, x / 2), *_chi2), domain=POSITIVE)
    op(f"gdtr{_tail}", *_through(_of, lambda a, b, x: (b, a * x), *_gamma), domain=POSITIVE)
op("chdtri", *inverse("chdtrc", 1, 0, None), domain=(POSITIVE, _P))
op("chdtriv", *inverse("chdtr", 0, None, 1), domain=((0.3, 0.7), (1.5, 2.5)))
op("gdtria", *inverse("gdtr", 0, None, 1, 2), domain=(_P, POSITIVE, POSITIVE))
op("gdtrib", *inverse("gdtr", 1, 0, None, 2), domain=(POSITIVE, _P, POSITIVE))
op("gdtrix", *inverse("gdtr", 2, 0, 1, None), domain=(POSITIVE, POSITIVE, _P))


# Poisson, binomial and negative binomial distributions: SciPy takes the whole parts of counts, but its inverses in them do not
def _discrete(name: str, of: str, other: str, inner: Map, *partials: Any) -> None:
    """The distribution function, its complement, and its inverse in the last argument."""
    count = len(partials)
    floored = lambda k, *rest: inner(np.floor(k), *map(np.trunc, rest[:-1]), *rest[-1:])
    counts, domain = (INTEGER,) * (count - 1), ((1, 3), (4, 6))[: count - 1]
    last = POSITIVE if count == 2 else _P
    op(name, *counts, _through(of, floored, *partials)[-1], domain=(*domain, last))
    op(f"{name}c", *counts, _through(other, floored, *partials)[-1], domain=(*domain, last))
    op(f"{name}i", *counts, inverse(name, count - 1, *range(count - 1), None)[-1], domain=(*domain, _P))
    MAPS[name] = _through(of, inner, *partials)


_one = ((0, 1.0),), ((1, 1.0),), ((2, 1.0),)
_discrete("pdtr", "gammaincc", "gammainc", lambda k, m: (k + 1, m), *_one[:2])
_discrete("bdtr", "betaincc", "betainc", lambda k, n, p: (k + 1, n - k, p), ((0, 1.0), (1, -1.0)), *_one[1:])
_discrete("nbdtr", "betainc", "betaincc", lambda k, n, p: (n, k + 1, p), _one[1], _one[0], _one[2])
op("pdtrik", *inverse("pdtr", 0, None, 1, least=lambda _k, m: np.exp(-m)), domain=((0.3, 0.7), (2.0, 4.0)))
op("bdtrik", *inverse("bdtr", 0, None, 1, 2, least=lambda _k, n, p: (1 - p) ** n), domain=((0.4, 0.7), (8.0, 9.0), (0.4, 0.6)))
op("bdtrin", *inverse("bdtr", 1, 0, None, 2), domain=((2.0, 3.0), (0.4, 0.7), (0.4, 0.6)))
op("nbdtrik", *inverse("nbdtr", 0, None, 1, 2, least=lambda _k, n, p: p**n), domain=((0.4, 0.7), (3.0, 4.0), (0.4, 0.6)))
op("nbdtrin", *inverse("nbdtr", 1, 0, None, 2), domain=((2.0, 3.0), (0.4, 0.7), (0.4, 0.6)))


# F and Student's t
def _f(m: Any, n: Any, x: Any) -> Any:
    return m / 2, n / 2, m * x / (n + m * x)


_f_parts: tuple[Map, ...] = (
    lambda m, n, x: ((0, 0.5), (2, n * x / (n + m * x) ** 2)),
    lambda m, n, x: ((1, 0.5), (2, -m * x / (n + m * x) ** 2)),
    lambda m, n, x: ((2, m * n / (n + m * x) ** 2),),
)
op("fdtr", *_through("betainc", _f, *_f_parts), domain=POSITIVE)
op("fdtrc", *_through("betaincc", _f, *_f_parts), domain=POSITIVE)
op("fdtri", *inverse("fdtr", 2, 0, 1, None), domain=(POSITIVE, POSITIVE, _P))
op("fdtridfd", *inverse("fdtr", 1, 0, None, 2), domain=((1.0, 2.0), (0.5, 0.55), (0.9, 1.0)))


def _t_df(t: Any, _ans: Any, df: Any, x: Any) -> Any:
    flip = np.where(x > 1, -1.0, 1.0)  # the smaller tail is the more precise
    return t * flip * slope(s.stdtr, 0, lambda v, x: 3 / v + 0.5 * np.log1p(x * x / v), df, flip * x)


op(
    "stdtr",
    _t_df,
    lambda t, _ans, df, x: t * np.exp(-0.5 * (df + 1) * np.log1p(x * x / df) - s.betaln(df / 2, 0.5)) / np.sqrt(df),
    domain=(POSITIVE, WIDE),
)
op("stdtrit", *inverse("stdtr", 1, 0, None), domain=(POSITIVE, _P))
op("stdtridf", *inverse("stdtr", 0, None, 1), domain=((0.74, 0.8), (2.8, 3.2)))


# noncentral chi square, F and t: DLMF 10.25.2, 13.2.2 for the sums over the Poisson weights
def _chi2_density(x: Any, k: Any, nc: Any) -> Any:
    far = x * nc > np.maximum(1e4, 1400 * k)  # where hyp0f1 would overflow; DLMF 10.39.9
    near = 0.5 * powers(-(x + nc) / 2 - s.gammaln(k / 2), (k / 2 - 1, x / 2)) * s.hyp0f1(k / 2, safe(nc * x / 4, far, 1.0))
    x, nc = np.sqrt(safe(x, ~far, 1.0)), np.sqrt(safe(nc, ~far, 1.0))
    gone = abs(x - nc) > 40
    size = 0.5 * np.exp((k / 2 - 1) * np.log(x / nc) - (x - nc) ** 2 / 2 + np.log(s.ive(k / 2 - 1, safe(x * nc, gone, 1.0))))
    return np.where(far, np.where(gone, 0, size), near)


def _f_sum(shift: int) -> Map:
    def density(m: Any, n: Any, nc: Any, x: Any) -> Any:
        a, b, y = _f(m, n, x)
        weight = powers(-s.betaln(a, b) - nc * (1 - y) / 2, (a - 1 + shift, y), (b - 1 + shift, 1 - y))
        return weight * s.hyp1f1(shift - b, a + shift, -nc * y / 2)  # DLMF 13.2.39, of which no factor overflows

    return density


_AT, _AT_SLOPE = np.sinh(np.arange(-60, 61) / 10), np.log(np.cosh(np.arange(-60, 61) / 10) / 10)


def log_chi_moment(v: Any, w: Any) -> Any:
    """The logarithm of the mean of exp(w s) for s from the chi distribution of v degrees of freedom.

    It is an integral over log(s), about the peak: of positive terms, so that none is lost for negative w, nor overflows for large.
    """
    v, w = v[..., None], w[..., None]
    root = np.hypot(w, 2 * np.sqrt(v))
    peak = stop_gradient(np.where(w > 0, w + root, 4 * v / (root - np.minimum(w, 0))) / 2)
    width = stop_gradient(1 / np.sqrt(peak * peak + v))
    u = np.log(peak) + width * _AT
    terms = v * u - np.exp(2 * u) / 2 + w * np.exp(u) + np.log(width) + _AT_SLOPE
    return logsumexp(terms, axis=-1) - (v[..., 0] / 2 - 1) * np.log(2) - s.gammaln(v[..., 0] / 2)


def _nct(v: Any, nc: Any, x: Any, more: int) -> Any:
    c = 1 + x * x / v
    v, w = np.broadcast_arrays(v, x * nc / np.sqrt(v * c))
    return np.exp(log_chi_moment(v + more, w) - 0.5 * nc * nc) / _ROOT * c ** (-(v + more) / 2)


op(
    "chndtr",
    lambda t, _ans, x, k, nc: t * _chi2_density(x, k, nc),
    along(s.chndtr, 1, lambda x, k, nc: 0.5 + 3 / k + abs(np.log(x / (k + nc)))),
    lambda t, _ans, x, k, nc: -t * _chi2_density(x, k + 2, nc),
    domain=POSITIVE,
)
op("chndtrix", *inverse("chndtr", 0, None, 1, 2), domain=(_P, POSITIVE, POSITIVE))
op("chndtridf", *inverse("chndtr", 1, 0, None, 2), domain=((2.0, 3.0), (0.3, 0.5), (0.3, 0.6)))
op("chndtrinc", *inverse("chndtr", 2, 0, 1, None), domain=((2.0, 3.0), (0.9, 1.2), (0.3, 0.5)))
op(
    "ncfdtr",
    along(s.ncfdtr, 0, lambda m, n, nc, x: 0.5 + 3 / m + 3 / n),
    along(s.ncfdtr, 1, lambda m, n, nc, x: 0.5 + 3 / n + 3 / m),
    lambda t, _ans, m, n, nc, x: -t * _f_sum(1)(m, n, nc, x) / m,
    lambda t, _ans, m, n, nc, x: t * _f_sum(0)(m, n, nc, x) * m * n / (n + m * x) ** 2,
    domain=POSITIVE,
)
op("ncfdtri", *inverse("ncfdtr", 3, 0, 1, 2, None), domain=((2.0, 3.0), (3.0, 5.0), POSITIVE, _P))
op(
    "nctdtr",
    along(s.nctdtr, 0, lambda v, nc, x: 0.5 + 3 / v),
    lambda t, _ans, v, nc, x: -t * _nct(v, nc, x, 0),
    lambda t, _ans, v, nc, x: t * _nct(v, nc, x, 1) * np.exp(s.gammaln(v / 2 + 0.5) - s.gammaln(v / 2)) * np.sqrt(2 / v),
    domain=((2.0, 4.0), POSITIVE, POSITIVE),
)
op("nctdtrit", *inverse("nctdtr", 2, 0, 1, None), domain=((2.0, 4.0), POSITIVE, _P))
op("nctdtridf", *inverse("nctdtr", 0, None, 1, 2), domain=((0.66, 0.72), (0.45, 0.55), (2.9, 3.1)))
op("nctdtrinc", *inverse("nctdtr", 1, 0, None, 2), domain=((2.0, 4.0), (0.3, 0.7), POSITIVE))


# the normal distribution's parameters, the Tukey lambda distribution
def _normal(z: Any) -> Any:
    return _ROOT * np.exp(0.5 * z * z)


op(
    "nrdtrimn",
    lambda t, ans, p, std, x: -t * std * _normal((x - ans) / std),
    lambda t, ans, p, std, x: -t * (x - ans) / std,
    lambda t, *_rest: t,
    domain=(_P, POSITIVE, WIDE),
)
op(
    "nrdtrisd",
    lambda t, ans, mn, p, x: -t * ans / (x - mn),
    lambda t, ans, mn, p, x: -t * ans * ans / (x - mn) * _normal((x - mn) / ans),
    lambda t, ans, mn, p, x: t * ans / (x - mn),
    domain=((-2.0, -1.0), (0.6, 0.9), (1.0, 2.0)),
)


def _tukey(lam: Any, p: Any) -> tuple[Any, Any]:
    """The derivatives of the quantile function (p**lam - (1 - p)**lam) / lam in lam and in p; those in lam are right at 0."""
    u, v = np.log(p), np.log1p(-p)
    squares = [w * w * exprel_slope(lam * w) for w in (u, v)]
    return squares[0] - squares[1], np.exp((lam - 1) * u) + np.exp((lam - 1) * v)


def _tukey_rule(part: Map) -> Map:
    def rule(t: Any, ans: Any, x: Any, lam: Any) -> Any:
        outside = (ans <= 0) | (ans >= 1)
        return t * np.where(outside, 0, part(*_tukey(lam, safe(ans, outside, 0.5))))

    return rule


op("tklmbda", _tukey_rule(lambda _l, p: 1 / p), _tukey_rule(lambda lam, p: -lam / p), domain=((-0.5, 0.5), (0.2, 1.5)))


# the Kolmogorov-Smirnov statistic: Marsaglia, Tsang & Wang 2003; Birnbaum & Tingey 1951
def _kolmogorov(x: Any) -> Any:
    """The density; below 1 by the transformed series."""
    low = x < 1
    y, z = safe(x, ~low | (x <= 0), 0.9), safe(x, low, 1.0)
    squares = [(2 * k - 1) ** 2 * _PI**2 / 8 for k in range(1, 5)]
    below = sum(_ROOT * np.exp(-c / (y * y)) * (2 * c / y**4 - 1 / y**2) for c in squares)
    above = sum(8 * z * (-1) ** (k - 1) * k * k * np.exp(-2 * k * k * z * z) for k in range(1, 6))
    return np.where(x <= 0, 0, np.where(low, below, above))


op("kolmogorov", lambda t, _ans, x: -t * _kolmogorov(x), domain=(0.5, 1.6))
op("kolmogi", lambda t, ans, _p: -t / _kolmogorov(ans), domain=(0.1, 0.9))


def _smirnov(n: Any, d: Any) -> Any:
    """The derivative of d sum_j C(n, j) (d + j/n)**(j-1) (1 - d - j/n)**(n-j), j/n < 1 - d."""
    n = np.asarray(n, float)[..., None]
    j = np.arange(np.max(n, initial=1))
    d = np.asarray(d) if not hasattr(d, "dtype") else d
    d = d[..., None]
    rest = 1 - d - j / n
    inside = rest > 0
    rest, up = safe(rest, ~inside, 0.5), d + j / n
    ways = np.exp(s.gammaln(n + 1) - s.gammaln(j + 1) - s.gammaln(np.maximum(n - j, 0) + 1))
    terms = ways * up ** (j - 1) * rest ** (n - j) * (1 + d * (j - 1) / up - d * (n - j) / rest)
    return np.sum(np.where(inside, terms, 0), axis=-1)


op("smirnov", INTEGER, lambda t, _ans, n, d: t * _smirnov(np.trunc(n), d), domain=((2, 3), (0.17, 0.25)))
op("smirnovi", INTEGER, lambda t, ans, n, _p: t / _smirnov(np.trunc(n), ans), domain=((2, 3), (0.58, 0.66)))
