"""Decompositions of matrices, on the last two axes: cholesky, eigh, eig, svd, qr.

The rules are written with the gradient in the usual sense, df = Re tr(X̄^H dX), which is the conjugate of our cotangent.
Sources: Giles 2008, "An extended collection of matrix derivative results"; Townsend 2016, "Differentiating the singular value
decomposition"; Seeger, Hetzel, Dai, Meissner and Lawrence 2017, "Auto-differentiating linear algebra"; Wan and Zhang 2019,
"Automatic differentiation for complex valued SVD"; Walter and Lehmann 2010 for QR; Roberts and Roberts 2020 for wide QR.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg._linalg import EighResult, EigResult, QRResult, SVDResult

from functrace import errors
from functrace.core.tracer import Tracer
from functrace.ops.create import lift
from functrace.ops.gauge import (
    adjoint,
    check,
    check_phase,
    conj,
    doubtful,
    half_triangle,
    hermitian,
    in_phase,
    off_diagonal,
    ratio,
    real,
    small,
    some,
    transposed,
    unknown,
)
from functrace.ops.kinds import general, jvp_from_vjp
from functrace.ops.registry import Sample, implements


def _definite(*shape: int) -> Any:
    """Matrices of which both triangles would do."""
    return lambda rng: (0.3 * rng.normal(size=shape) + 2 * np.eye(shape[-1]),)


_APART = np.array([[1.0, 0.5, -0.3, 0.8], [0.4, 3.0, 0.2, -0.5], [0.7, 0.6, 5.0, 0.4]])


def _spread(*shape: int) -> Any:
    """Square matrices, not symmetric, whose eigenvalues are apart; those for which LAPACK's choice of signs does not jump nearby."""
    n = shape[-1]
    return lambda rng: (_APART[:n, :n] + 0.02 * rng.normal(size=shape),)


def inverse_op(name: str, fun: Any) -> Any:
    """An inverse of matrices."""
    pull = lambda g, ans, _x: -transposed(ans) @ g @ transposed(ans)
    return general(name, fun, pull, jvps=(lambda t, ans, _x: -ans @ t @ ans,), stacks=2)


def _by_halves(x: Any) -> Any:
    """The inverse of a lower triangular matrix. NumPy's own, which knows of no triangles, takes several times as long on large ones."""
    n = x.shape[-1]
    if n <= 64:
        return np.linalg.inv(x)
    half, out = n // 2, np.zeros(x.shape, x.dtype)
    first, last = _by_halves(x[..., :half, :half]), _by_halves(x[..., half:, half:])
    out[..., :half, :half], out[..., half:, half:] = first, last
    out[..., half:, :half] = -last @ (x[..., half:, :half] @ first)
    return out


_lower_inverse = inverse_op("linalg.lower_inv", _by_halves)


# Cholesky: Murray 2016, "Differentiation of the Cholesky decomposition", eq. 8
def _cholesky_pull(g: Any, ans: Any, _x: Any, upper: bool) -> Any:
    factor, bar = (adjoint(ans), transposed(g)) if upper else (ans, conj(g))
    inner = adjoint(factor) @ bar
    inner = inner * half_triangle(inner.shape[-1], inner.real.dtype)
    inverse = _lower_inverse(factor)
    return conj(adjoint(inverse) @ inner @ inverse)


_cholesky: Any = general("linalg.cholesky", lambda x, upper: np.linalg.cholesky(x, upper=upper), _cholesky_pull, stacks=2)


@implements(
    np.linalg.cholesky,
    [
        Sample(_definite(3, 3)),
        Sample(_definite(3, 3), {"upper": True}),
        Sample(_definite(2, 2, 2)),
        Sample(_definite(1, 1)),
        Sample(_definite(0, 0)),
    ],
    note="one triangle is read; the gradient of a symmetric matrix is symmetric",
)
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    return _cholesky(hermitian(lift(a), lower=not upper), upper)


# Eigenvalues and vectors of a Hermitian matrix: Giles 2008, section 3.1; the phases as `gauge` says
def _gaps(w: Any) -> Any:
    return w[..., None, :] - w[..., :, None]


def eigh_pull(g: Any, ans: Any, _x: Any, uplo: str, of_values: bool = False) -> Any:
    """The cotangent rule of eigenvalues and eigenvectors of a Hermitian matrix, here and in SciPy. `of_values`: the vectors are in the
    derivative of a function of the values, so where values are tied the whole block must vanish, as `gauge` says.
    """
    (gw, gv), (w, v) = g, ans
    if gv is None:
        return conj((v * gw[..., None, :]) @ adjoint(v))
    bar, off = conj(gv), off_diagonal(w.shape[-1])
    if bar.dtype.kind == "c":
        (bar,) = in_phase(np.imag(np.sum(conj(v) * bar, axis=-2)), ((bar, v, 0 if uplo == "L" else -1),), "eigh")
    inner, gaps = adjoint(v) @ bar, _gaps(w)
    tied = small(gaps, w)
    check(tied & off, inner if of_values or gw is not None else inner - adjoint(inner), bar, "eigh")
    middle = ratio(inner, gaps, tied | ~off)
    if gw is not None:
        middle = middle + gw[..., None, :] * ~off
    return conj(v @ middle @ adjoint(v))


def eigh_push(t: Any, ans: Any, x: Any, uplo: str, _of_values: bool = False) -> Any:
    """The tangent rule that belongs to `eigh_pull`."""
    dw, dv = jvp_from_vjp(eigh_pull)(t, ans, x, uplo)
    w, v = ans
    tied = small(_gaps(w), w) & off_diagonal(w.shape[-1])
    if some(tied):
        inner = adjoint(v) @ t @ v
        dv = unknown(dv, doubtful(tied, inner, inner))
    return dw, dv


_eigh: Any = general(
    "linalg.eigh", lambda x, uplo, _of_values=False: tuple(np.linalg.eigh(x, uplo)), eigh_pull, jvps=(eigh_push,), multi=True, stacks=2
)


def _eigvalsh_pull(g: Any, _ans: Any, x: Any, uplo: str) -> Any:
    v = _eigh(x, uplo, isinstance(g, Tracer))[1]
    return conj((v * g[..., None, :]) @ adjoint(v))


def _eigvalsh_push(t: Any, _ans: Any, x: Any, uplo: str) -> Any:
    v = _eigh(x, uplo)[1]
    return real(np.sum(conj(v) * (t @ v), axis=-2))


_eigvalsh: Any = general("linalg.eigvalsh", np.linalg.eigvalsh, _eigvalsh_pull, jvps=(_eigvalsh_push,), stacks=2)
_EIGH = [
    Sample(_spread(3, 3)),
    Sample(_spread(3, 3), {"UPLO": "U"}),
    Sample(_spread(2, 2, 2)),
    Sample(_spread(1, 1)),
    Sample(_spread(0, 0)),
]


def _triangle(UPLO: str) -> str:
    if UPLO.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return UPLO.upper()


@implements(np.linalg.eigh, _EIGH, note="the gradient of a symmetric matrix is symmetric; equal eigenvalues: see docs")
def eigh(a: Any, UPLO: str = "L") -> Any:
    uplo = _triangle(UPLO)
    return EighResult(*_eigh(hermitian(lift(a), uplo == "L"), uplo))


@implements(np.linalg.eigvalsh, _EIGH, note="finite where eigenvalues are equal")
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    uplo = _triangle(UPLO)
    return _eigvalsh(hermitian(lift(a), uplo == "L"), uplo)


# Eigenvalues and vectors of any square matrix: Giles 2008, section 3.1, then the length and phase that LAPACK gives the vectors
def _normalised(bar: Any, v: Any) -> Any:
    """The cotangent of the vectors before they were scaled to length 1, and their largest component made real."""
    along = np.sum(conj(v) * bar, axis=-2)
    out = bar - v * real(along)[..., None, :]
    if v.dtype.kind != "c":
        return out
    size = np.where(np.imag(v) == 0, np.abs(v), -1.0)
    pivot = size == np.max(size, axis=-2, keepdims=True)
    pivot = pivot & (np.cumsum(pivot, axis=-2) == 1)
    largest = np.sum(v.real * pivot, axis=-2)
    missing = np.max(size, axis=-2) <= 0
    turn = np.imag(along)
    check_phase(np.where(missing, turn, 0), bar, "eig")
    return out - 1j * pivot * np.where(missing, 0, turn / np.where(missing, 1, largest))[..., None, :]


def _eig_pull(g: Any, ans: Any, _x: Any) -> Any:
    (gw, gv), (w, v) = g, ans
    off = off_diagonal(w.shape[-1])
    middle = None if gw is None else conj(gw)[..., None, :] * ~off
    if gv is not None:
        gaps = conj(_gaps(w))
        inner = adjoint(v) @ _normalised(conj(gv), v)
        tied = small(gaps, w)
        check(tied & off, inner, gv, "eig")
        vectors = ratio(inner, gaps, tied | ~off)
        middle = vectors if middle is None else middle + vectors
    return conj(np.linalg.solve(adjoint(v), middle @ adjoint(v)))


_eig: Any = general("linalg.eig", lambda x: tuple(np.linalg.eig(x)), _eig_pull, stacks=2, multi=True)
_TURNING = np.array([[2.5, 4.0, 0.0], [-1.0, 2.4, 0.1], [0.2, 0.3, -3.0]])
_EIG = [
    Sample(_spread(3, 3)),
    Sample(_spread(2, 2, 2)),
    Sample(lambda rng: (_TURNING + 0.1 * rng.normal(size=(3, 3)),)),
    Sample(_spread(1, 1)),
]


@implements(np.linalg.eig, _EIG, note="derivatives of the vectors as LAPACK scales them")
def eig(a: Any) -> Any:
    return EigResult(*_eig(lift(a)))


@implements(np.linalg.eigvals, _EIG)
def eigvals(a: Any) -> Any:
    return _eig(lift(a))[0]


# Singular values: with dP = U^H dA V, and skew Ω = U^H dU, Ψ = V^H dV: (Ω + Ψ)_ij (s_j - s_i) = (dP + dP^H)_ij and
# (Ω - Ψ)_ij (s_j + s_i) = (dP - dP^H)_ij. Kept apart so that the polar factor U V^H is right where singular values are equal.
def _without_rest(bar: Any, vectors: Any, k: int, what: str) -> tuple[Any, Any]:
    """(cotangent, vectors) of the first k vectors; the others span the complement, and their cotangent is moved to the first."""
    if vectors.shape[-1] == k:
        return bar, vectors
    first, rest = vectors[..., :k], vectors[..., k:]
    turn = adjoint(rest) @ bar[..., k:]
    check(np.ones(turn.shape[-2:], bool), turn - adjoint(turn), bar, what)
    return bar[..., :k] - rest @ (adjoint(bar[..., k:]) @ first), first


def _vanishing(s: Any) -> Any:
    """Singular values that are zero: at their kink they have the derivative zero, as absolute values do."""
    return small(s[..., None, :], s)[..., 0, :]


def _svd_pull(g: Any, ans: Any, _x: Any, _full: bool, of_values: bool = False) -> Any:
    (gu, gs, gvh), (u, s, vh) = g, ans
    k = s.shape[-1]
    if gs is not None:
        gs = gs * ~_vanishing(s)
    if gu is None and gvh is None:
        return conj((u[..., :k] * gs[..., None, :]) @ vh[..., :k, :])
    v = adjoint(vh)
    ubar = np.zeros(u.shape, u.dtype) if gu is None else conj(gu)
    vbar = np.zeros(v.shape, v.dtype) if gvh is None else transposed(gvh)
    (ubar, u), (vbar, v) = _without_rest(ubar, u, k, "svd"), _without_rest(vbar, v, k, "svd")
    if u.dtype.kind == "c":
        turn = np.imag(np.sum(conj(u) * ubar, axis=-2) + np.sum(conj(v) * vbar, axis=-2))
        vbar, ubar = in_phase(turn, ((vbar, v, 0), (ubar, u, 0)), "svd")
    nu, nv = adjoint(u) @ ubar, adjoint(v) @ vbar
    off, gaps, sums = off_diagonal(k), _gaps(s), s[..., None, :] + s[..., :, None]
    tied, null = small(gaps, s), small(sums, s)
    plus, minus = nu + nv, nu - nv
    scale = np.concatenate([ubar, vbar], axis=-2)
    whole = of_values or gs is not None
    check(tied & off, plus if whole else plus - adjoint(plus), scale, "svd")
    check(null & off, minus if whole else minus - adjoint(minus), scale, "svd")
    middle = (ratio(plus - adjoint(plus), gaps, tied | ~off) + ratio(minus - adjoint(minus), sums, null)) / 2
    if gs is not None:
        middle = middle + gs[..., None, :] * ~off
    out = u @ middle @ adjoint(v)
    row = s[..., None, :]
    none = small(row, s)
    if u.shape[-2] > k:
        beyond = ubar - u @ nu
        check(none, beyond, scale, "svd")
        out = out + ratio(beyond, row, none) @ adjoint(v)
    if v.shape[-2] > k:
        beyond = vbar - v @ nv
        check(none, beyond, scale, "svd")
        out = out + ratio(u, row, none) @ adjoint(beyond)
    return conj(out)


def _svd_push(t: Any, ans: Any, x: Any, full: bool, _of_values: bool = False) -> Any:
    du, ds, dvh = jvp_from_vjp(_svd_pull)(t, ans, x, full)
    u, s, vh = ans
    k = s.shape[-1]
    off, tied, null = off_diagonal(k), small(_gaps(s), s), small(s[..., None, :] + s[..., :, None], s)
    if some((tied | null) & off) or some(null) and u.shape[-2] != vh.shape[-1]:
        inner = adjoint(u[..., :k]) @ t @ adjoint(vh[..., :k, :])
        doubt = doubtful(tied & off, inner + adjoint(inner), inner) | doubtful(null & off, inner - adjoint(inner), inner)
        if u.shape[-2] != vh.shape[-1]:
            doubt = doubt | null & ~off
        lost = np.any(doubt, axis=(-2, -1))[..., None, None]
        du, dvh = np.where(lost, np.nan, du), np.where(lost, np.nan, dvh)
    return du, ds, dvh


_svd: Any = general(
    "linalg.svd", lambda x, full, _of_values=False: tuple(np.linalg.svd(x, full)), _svd_pull, jvps=(_svd_push,), multi=True, stacks=2
)


def _svdvals_pull(g: Any, ans: Any, x: Any) -> Any:
    u, _, vh = _svd(x, False, isinstance(g, Tracer))
    return conj((u * (g * ~_vanishing(ans))[..., None, :]) @ vh)


def _svdvals_push(t: Any, ans: Any, x: Any) -> Any:
    u, _, vh = _svd(x, False)
    return real(np.sum(conj(u) * (t @ adjoint(vh)), axis=-2)) * ~_vanishing(ans)


_svdvals: Any = general("linalg.svdvals", lambda x: np.linalg.svd(x, compute_uv=False), _svdvals_pull, jvps=(_svdvals_push,), stacks=2)


def _rectangle(*shape: int, **kwargs: Any) -> Sample:
    m, n = shape[-2:]
    return Sample(lambda rng: (_APART[:m, :n] + 0.02 * rng.normal(size=shape),), kwargs)


@implements(
    np.linalg.svd,
    [
        _rectangle(3, 3),
        *(_rectangle(*shape, full_matrices=False) for shape in ((3, 2), (2, 3), (2, 3, 2), (1, 1), (0, 2))),
        *(_rectangle(*shape, compute_uv=False) for shape in ((3, 3), (2, 4), (2, 3, 2))),
        Sample(_spread(3, 3), {"compute_uv": False, "hermitian": True}),
        Sample(_spread(3, 3), {"hermitian": True}),
    ],
    note="with full_matrices the vectors that fill up the space may enter the result only through their projector",
)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    a = lift(a)
    if hermitian:
        w, v = eigh(a)
        s = np.abs(w)
        order = np.argsort(s, axis=-1)[..., ::-1]
        if not compute_uv:
            return np.take_along_axis(s, order, axis=-1)
        s, sign = np.take_along_axis(s, order, axis=-1), np.take_along_axis(np.sign(w), order, axis=-1)
        u = np.take_along_axis(v, order[..., None, :], axis=-1)
        return SVDResult(u, s, adjoint(u * sign[..., None, :]))
    if not compute_uv:
        return _svdvals(a)
    return SVDResult(*_svd(a, bool(full_matrices)))


@implements(np.linalg.svdvals, [_rectangle(3, 3), _rectangle(2, 4), _rectangle(2, 3, 2)], note="finite where values are equal")
def svdvals(x: Any, /) -> Any:
    return _svdvals(lift(x))


# QR: Walter and Lehmann 2010, sections 3 and 4; wide matrices as Roberts and Roberts 2020, section 3
def _qr_pull(g: Any, ans: Any, x: Any, _mode: str) -> Any:
    (gq, gr), (q, r) = g, ans
    m, n = x.shape[-2:]
    k = min(m, n)
    qbar = np.zeros(q.shape, q.dtype) if gq is None else conj(gq)
    rbar = np.zeros(r.shape, r.dtype) if gr is None else conj(gr)
    qbar, q = _without_rest(qbar, q, k, "qr")
    r, rbar = r[..., :k, :], rbar[..., :k, :]
    right = None
    if n > m:  # A = [X Y] = Q [R, Q^H Y]
        right = q @ rbar[..., m:]
        qbar = qbar + x[..., m:] @ adjoint(rbar[..., m:])
        r, rbar = r[..., :m], rbar[..., :m]
    inner = r @ adjoint(rbar) - adjoint(qbar) @ q
    half = inner * half_triangle(k, inner.real.dtype)
    total = qbar + q @ (half + adjoint(half))
    if any(isinstance(y, Tracer) or y is not None and y.any() for y in g):  # columns that depend on others leave vectors to choose
        d = np.diagonal(r, 0, -2, -1)
        check(small(d[..., None, :], d), np.ones((1, 1)), np.ones((1, 1)), "qr")
        total = adjoint(np.linalg.solve(r, adjoint(total)))
    return conj(total if right is None else np.concatenate([total, right], axis=-1))


_qr: Any = general("linalg.qr", lambda x, mode: tuple(np.linalg.qr(x, mode)), _qr_pull, stacks=2, multi=True)


@implements(
    np.linalg.qr,
    [
        *(_rectangle(*shape) for shape in ((3, 3), (3, 2), (2, 3), (2, 3, 2), (1, 1))),
        _rectangle(3, 3, mode="complete"),
        _rectangle(3, 2, mode="r"),
        _rectangle(2, 3, mode="r"),
    ],
    note="full rank; with mode='complete' the vectors that fill up the space may enter the result only through their projector",
)
def qr(a: Any, mode: str = "reduced") -> Any:
    if mode not in ("reduced", "complete", "r"):
        raise errors.UnsupportedError(f"qr: mode={mode!r} has no derivative rule in functrace.\n  Use reduced, complete or r.")
    q, r = _qr(lift(a), "reduced" if mode == "r" else mode)
    return r if mode == "r" else QRResult(q, r)
