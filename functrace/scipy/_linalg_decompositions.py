"""SciPy's decompositions of matrices: what NumPy does not have, and its conventions over NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg as _scipy
from scipy.linalg import lapack

from functrace.ops.decompositions import eigh_pull, eigh_push
from functrace.ops.functions import refuse
from functrace.ops.gauge import adjoint, conj, full_hermitian, transposed, under
from functrace.ops.kinds import general
from functrace.ops.registry import Sample, one
from functrace.optimize import opaque
from functrace.scipy._linalg_systems import (
    _apart,
    _array,
    _both_halves,
    _dense,
    _half,
    _hermitian,
    _rows,
    _triangular,
    declared,
    solve_triangular,
)
from functrace.scipy._shared import matched, one_of

# decompositions


def _lu_pull(g: Any, ans: Any, _a: Any) -> Any:
    n = ans.shape[-1]
    low, high = under(n), ~under(n)
    factor, upper = ans * low + np.eye(n, dtype=bool), ans * high
    middle = (transposed(factor) @ (g * low)) * low + ((g * high) @ transposed(upper)) * high
    left = _triangular(transposed(factor), middle, False, True)
    return transposed(_triangular(upper, transposed(left), False, False))


_FACTORS = {char: getattr(lapack, f"{prefix}getrf") for char, prefix in zip("fdFD", "sdcz")}


def _factored(a: Any) -> Any:
    """`scipy.linalg.lu_factor`, straight from LAPACK where nothing is to be said."""
    factors = _FACTORS.get(a.dtype.char)
    if factors is not None and a.size and np.isfinite(a).all():
        *factored, info = factors(a)
        if not info:
            return factored
    return _scipy.lu_factor(a)


def _lu_fun(a: Any) -> Any:
    packed, pivots = _factored(a)
    if np.any(pivots != np.arange(len(pivots))):
        raise np.linalg.LinAlgError("lu: the choice of pivots is not unique")
    return packed


_lu: Any = general("scipy.linalg.lu", _lu_fun, _lu_pull)  # of a square matrix whose rows are in pivot order: both factors in one


def _order(pivots: Any) -> Any:
    """The permutation of the rows that LAPACK's exchanges make."""
    order = np.arange(len(pivots))
    for k, j in enumerate(pivots):
        order[[k, j]] = order[[j, k]]
    return order


def _packed(a: Any) -> tuple[Any, Any]:
    """Both factors of the LU decomposition in one matrix, and the order of the rows."""
    m, n = a.shape
    k = min(m, n)

    def rows(x: Any) -> Any:
        pivots = _factored(x)[1]
        return _order([*pivots, *range(len(pivots), m)])

    order = opaque(rows, a)
    a = np.take_along_axis(a, order[:, None], axis=0)
    square = _lu(a[:k, :k])
    if m > k:
        upper = square * ~under(k)
        below = transposed(_triangular(transposed(upper), transposed(a[k:]), True, False))
        return np.concatenate([square, below], axis=0), order
    return (np.concatenate([square, _triangular(square, a[:, k:], True, True)], axis=1) if n > k else square), order


_SIZES = ((3, 3), (4, 2), (2, 4))


@declared("lu", *(_apart(*s) for s in _SIZES), _apart(3, 3, permute_l=True), _apart(3, 3, p_indices=True), one(2, 3, 4), core=(2,))
def lu(a: Any, permute_l: bool = False, p_indices: bool = False, **_unused: Any) -> Any:
    """`scipy.linalg.lu`; the permutation is constant."""
    a = _array(a)
    packed, order = _packed(a)
    (m, n), k = a.shape, min(a.shape)
    lower = packed[:, :k] * np.tri(m, k, k=-1, dtype=bool) + np.eye(m, k, dtype=a.dtype)
    upper = packed[:k] * ~np.tri(k, n, k=-1, dtype=bool)
    back = np.argsort(order)
    if permute_l:
        return np.take_along_axis(lower, back[:, None], axis=0), upper
    if p_indices:
        return back.astype(np.int32), lower, upper
    return (back[:, None] == np.arange(m)).astype(a.real.dtype), lower, upper


@declared("lu_factor", *(_apart(*s) for s in _SIZES), core=(2,))
def lu_factor(a: Any, **_unused: Any) -> Any:
    """`scipy.linalg.lu_factor`; the pivots are constant."""
    a = _array(a)
    return _packed(a)[0], opaque(lambda x: _scipy.lu_factor(x)[1], a)


@declared(
    "lu_solve",
    *(
        Sample(
            lambda rng: ((rng.normal(size=(3, 3)) + 3 * np.eye(3), np.array([1, 1, 2], np.int32)), rng.normal(size=(3, 2))),
            {"trans": t},
            (1,),
        )
        for t in (0, 1, 2)
    ),
    core=(0, 2),
)
def lu_solve(lu_and_piv: Any, b: Any, trans: int = 0, **_unused: Any) -> Any:
    """`scipy.linalg.lu_solve`; the factors may be traced too."""
    packed, order, b = _array(lu_and_piv[0]), opaque(_order, lu_and_piv[1]), _array(b)
    pick = order.reshape(-1, *(1,) * (b.ndim - 1))
    if trans == 0:
        b = np.take_along_axis(b, pick, axis=0)
        return solve_triangular(packed, solve_triangular(packed, b, lower=True, unit_diagonal=True))
    x = solve_triangular(packed, solve_triangular(packed, b, trans), trans, lower=True, unit_diagonal=True)
    return np.take_along_axis(x, np.argsort(pick, axis=0), axis=0)


@declared("qr",
    _apart(3, 3), *(_apart(*s, mode="economic") for s in _SIZES), _apart(4, 2, mode="r"), _apart(2, 4, mode="r"),
    _apart(4, 3, mode="economic", pivoting=True), core=(2,), note="full rank; extra columns only through their projector",
)  # fmt: skip
def qr(a: Any, mode: str = "full", pivoting: bool = False, **_unused: Any) -> Any:
    refuse("qr", mode=(None if mode in ("full", "economic", "r") else mode, None))
    a, order = _array(a), list[Any]()
    if pivoting:
        order = [opaque(lambda x: _scipy.qr(x, mode="r", pivoting=True)[1], a)]
        a = np.take_along_axis(a, order[0][None, :], axis=1)
    if mode == "r":  # of the full size
        r: Any = np.linalg.qr(a, "r")
        return (np.concatenate([r, np.zeros((a.shape[0] - r.shape[0], a.shape[1]), r.dtype)], axis=0), *order)
    return (*np.linalg.qr(a, "complete" if mode == "full" else "reduced"), *order)


@declared("rq", _apart(3, 3), _apart(2, 4, mode="economic"), _apart(3, 3, mode="r"), core=(2,))
def rq(a: Any, mode: str = "full", **_unused: Any) -> Any:
    """`scipy.linalg.rq`: the QR decomposition seen from the last row."""
    refuse("rq", mode=(None if mode in ("full", "economic", "r") else mode, None))
    flip: Any = lambda x: adjoint(x)[::-1, ::-1]
    q, r = np.linalg.qr(flip(_array(a)), "reduced" if mode == "economic" else "complete")
    return flip(r) if mode == "r" else (flip(r), flip(q))


@declared("qr_multiply", _apart(4, 3, (2, 4)), _apart(4, 3, (3, 2), mode="left"), _apart(4, 3, (4,)), core=(2, 2))
def qr_multiply(a: Any, c: Any, mode: str = "right", pivoting: bool = False, conjugate: bool = False, **_unused: Any) -> Any:
    """`scipy.linalg.qr_multiply`, for matrices that are not wide."""
    a, c = _array(a), _array(c)
    if a.shape[0] < a.shape[1]:
        refuse("qr_multiply of a wide matrix", a=(a, None))
    q, r, *order = qr(a, mode="economic", pivoting=pivoting)
    q = conj(q) if conjugate else q
    return (c @ q if mode == "right" else q @ c, r, *order)


@declared("svd", _apart(3, 3), *(_apart(*s, full_matrices=False) for s in _SIZES), _apart(3, 2, compute_uv=False))
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, lapack_driver: str = "gesdd", **_unused: Any) -> Any:
    refuse("svd", lapack_driver=(lapack_driver, "gesdd"))
    decompose: Any = np.linalg.svd
    out = decompose(_array(a), full_matrices, compute_uv)
    return tuple(out) if compute_uv else out


@declared("svdvals", _apart(3, 2), _apart(2, 4))
def svdvals(a: Any, **_unused: Any) -> Any:
    return np.linalg.svdvals(_array(a))


def _bands_of(x: Any) -> Any:
    rows, inside = _rows(x.shape[0], x.shape[0], 0)
    return x[rows, np.arange(x.shape[0])] * inside


_EIGH: dict[str, Any] = {
    "L": lambda x: _scipy.eigh(x),
    "U": lambda x: _scipy.eigh(x, lower=False),
    "evd": lambda x: _scipy.eigh(x, driver="evd"),
    "tridiagonal": lambda x: _scipy.eigh_tridiagonal(np.diagonal(x), np.diagonal(x, -1)),
    "banded": lambda x: _scipy.eig_banded(_bands_of(x), lower=True),
}  # how SciPy comes to its vectors: the signs differ
_eigh: Any = general("scipy.linalg.eigh", lambda x, how: tuple(_EIGH[how](x)), eigh_pull, jvps=(eigh_push,), multi=True)


def _chosen(w: Any, v: Any, by_index: Any, by_value: Any, vectors: bool) -> Any:
    if by_index is not None:
        part = slice(int(by_index[0]), int(by_index[1]) + 1)
    elif by_value is not None:
        first, last = (np.sum(w <= value, axis=-1) for value in by_value)
        if np.ptp(first) or np.ptp(last):
            refuse("eigh of matrices with different numbers of such values", subset_by_value=(by_value, None))
        part = slice(int(np.max(first)), int(np.max(last)))
    else:
        part = slice(None)
    return (w[..., part], v[..., part]) if vectors else w[..., part]


def _pencil(**kwargs: Any) -> Sample:
    return Sample(
        lambda rng: (np.diag(1.5 * np.arange(3)) + 0.3 * rng.normal(size=(3, 3)), 0.2 * rng.normal(size=(3, 3)) + 2 * np.eye(3)),
        kwargs,
        (0, 1),
    )


_HERMITIAN = [_pencil(), _pencil(type=2), _pencil(type=3)]


@declared(
    "eigh",
    *_HERMITIAN,
    _pencil(lower=False),
    *(_apart(3, 3, eigvals_only=True, **kw) for kw in ({}, {"lower": False}, {"subset_by_index": [0, 1]})),
    note="as numpy.linalg.eigh; also generalised",
)
def eigh(
    a: Any, b: Any = None, *, lower: bool = True, eigvals_only: bool = False, type: int = 1, subset_by_index: Any = None,
    subset_by_value: Any = None, driver: Any = None, **_unused: Any,
) -> Any:  # fmt: skip
    refuse("eigh", driver=(driver, None))
    a = _hermitian(_array(a), lower)
    if b is None:
        w, v = _eigh(a, "L" if lower else "U")
    else:
        b = _array(b)
        if not eigvals_only and "c" in a.dtype.kind + b.dtype.kind:
            refuse("eigh of complex matrices, with vectors", b=(b, None))
        b = _hermitian(b, lower)
        factor = np.linalg.cholesky(b)
        if type == 1:
            half = solve_triangular(factor, a, lower=True)
            inner = adjoint(solve_triangular(factor, adjoint(half), lower=True))
        else:
            inner = adjoint(factor) @ a @ factor
        w, v = _eigh(full_hermitian(inner), "evd")
        v = factor @ v if type == 3 else solve_triangular(factor, v, "C", lower=True)
        v = v * opaque(lambda ours, x, y: _same_sign(ours, _scipy.eigh(x, y, lower=lower, type=type)[1]), v, a, b)
    return _chosen(w, v, subset_by_index, subset_by_value, not eigvals_only)


def _same_sign(ours: Any, theirs: Any) -> Any:
    return np.where(np.sum(np.real(np.conj(ours) * theirs), axis=-2, keepdims=True) < 0, -1.0, 1.0).astype(np.real(ours).dtype)


@declared("eigvalsh", *_HERMITIAN, _apart(3, 3), _apart(3, 3, lower=False, subset_by_index=[0, 1]))
def eigvalsh(a: Any, b: Any = None, *, type: int = 1, lower: bool = True, **kwargs: Any) -> Any:
    return eigh(a, b, lower=lower, eigvals_only=True, type=type, **kwargs)


def _part(select: Any, select_range: Any) -> tuple[Any, Any]:
    one_of("select", select, 0, 1, 2, *"avi", "all", "value", "index")
    kind = {0: "a", 1: "v", 2: "i"}.get(select) or select[0]
    return (select_range if kind == "i" else None), (select_range if kind == "v" else None)


_TRIDIAGONAL = [
    Sample(lambda rng: (np.arange(4.0), 0.3 + 0.1 * rng.random(3)), kw, (0, 1)) for kw in ({}, {"select": "i", "select_range": (1, 2)})
]


@declared("eigh_tridiagonal", *_TRIDIAGONAL, core=(1, 1))
def eigh_tridiagonal(d: Any, e: Any, eigvals_only: bool = False, select: Any = "a", select_range: Any = None, **_unused: Any) -> Any:
    d, e = _array(d), _array(e)
    full = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
    w, v = _eigh(full, "tridiagonal")
    out = _chosen(w, v, *_part(select, select_range), not eigvals_only)
    if eigvals_only or select == "a":
        return out
    return out[0], out[1] * opaque(
        lambda v, x, y: _same_sign(v, _scipy.eigh_tridiagonal(x, y, False, select, select_range)[1]), out[1], d, e
    )


@declared("eigvalsh_tridiagonal", *_TRIDIAGONAL, core=(1, 1))
def eigvalsh_tridiagonal(d: Any, e: Any, select: Any = "a", select_range: Any = None, **_unused: Any) -> Any:
    return eigh_tridiagonal(d, e, True, select, select_range)


@declared("eig_banded", _half(4), _half(4, lower=True), core=(2,))
def eig_banded(
    a_band: Any, lower: bool = False, eigvals_only: bool = False, overwrite_a_band: bool = False, select: Any = "a",
    select_range: Any = None, **_unused: Any,
) -> Any:  # fmt: skip
    full = _dense(*_both_halves(_array(a_band), lower))
    w, v = _eigh(full, "banded")
    return _chosen(w, v, *_part(select, select_range), not eigvals_only)


@declared("eigvals_banded", _half(4), _half(4, lower=True), core=(2,))
def eigvals_banded(
    a_band: Any, lower: bool = False, overwrite_a_band: bool = False, select: Any = "a", select_range: Any = None, **_more: Any
) -> Any:
    return eig_banded(a_band, lower, True, select=select, select_range=select_range)


_TURNING = Sample(lambda rng: (np.array([[2.5, 4.0, 0.0], [-1.0, 2.4, 0.1], [0.2, 0.3, -3.0]]) + 0.1 * rng.normal(size=(3, 3)),))


@declared("eig", _apart(3, 3), _TURNING, note="right vectors of one matrix")
def eig(a: Any, b: Any = None, left: bool = False, right: bool = True, homogeneous_eigvals: bool = False, **_unused: Any) -> Any:
    refuse("eig", left=(left, False), homogeneous_eigvals=(homogeneous_eigvals, False))
    if b is not None or not right:
        refuse("eig", b=(b if right else None, None))
        return eigvals(a, b)
    w, v = np.linalg.eig(_array(a))
    return w.astype(np.result_type(w.dtype, np.complex64)), v


_PENCIL = Sample(
    lambda rng: (
        np.array([[1.0, 3.0, -2.0], [3.0, 8.0, 0.0], [2.0, 0.0, 30.0]]) + 0.1 * rng.normal(size=(3, 3)),
        np.array([[0.5, 0.3, 0.0], [-0.2, 1.3, -0.2], [0.0, -0.4, 0.9]]),
    ),
    wrt=(0, 1),
)  # whose eigenvalues SciPy gives in one order wherever the checks look


@declared("eigvals", _apart(3, 3), _TURNING, _PENCIL)
def eigvals(a: Any, b: Any = None, overwrite_a: bool = False, check_finite: bool = True, homogeneous_eigvals: bool = False) -> Any:
    refuse("eigvals", homogeneous_eigvals=(homogeneous_eigvals, False))
    a = _array(a)
    if b is None:
        return np.linalg.eigvals(a).astype(np.result_type(a.dtype, np.complex64))
    b = _array(b)
    w = np.linalg.eigvals(np.linalg.solve(b, a)).astype(np.result_type(a.dtype, b.dtype, np.complex64))
    return np.take_along_axis(w, opaque(lambda w, a, b: matched(w, _scipy.eigvals(a, b)), w, a, b), axis=-1)
