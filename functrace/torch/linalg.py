"""`torch.linalg`, and the names of `torch.` that are its functions: a binding table over `functrace.numpy.linalg`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace import stop_gradient, value
from functrace.torch._bind import bind, leading_failure
from functrace.torch._border import trimmed
from functrace.torch._checks import LinAlgError
from functrace.torch._contact import CHOLESKY, DET, INV, MIRROR, SVDVALS, Primitive, are_hermitian
from functrace.torch._dtypes import as_int64
from functrace.torch._index_checks import guarded
from functrace.torch._layout import in_order
from functrace.torch._missing import missing
from functrace.torch._ops import FUNCTIONS, public
from functrace.torch._reduce import vector_norm
from functrace.torch._select import matmul
from functrace.torch._shape import axes_of
from functrace.torch._views import taking_out


def _swap(x: Any) -> Any:
    return np.swapaxes(x, -2, -1)


def _adjoint(x: Any) -> Any:
    return np.conjugate(_swap(x))


def _cholesky(A: Any, upper: bool = False) -> Any:
    lower = np.linalg.cholesky(A)
    if not np.isfinite(value(lower)).all():
        raise np.linalg.LinAlgError("Matrix is not positive definite")
    return _adjoint(lower) if upper else lower


def _uncholesky(g: Any, r: Any, A: Any, upper: bool) -> Any:
    g, r = (_adjoint(g), _adjoint(r)) if upper else (g, r)
    return MIRROR.vjps[0](CHOLESKY.vjps[0](g, r, None, False), None, None, are_hermitian(A), True)


def _tried(fun: Callable[[Any], Any], A: Any, check_errors: bool) -> tuple[Any, Any]:
    """The result and 0; or NaN and where it failed, unless that is to raise."""
    try:
        return fun(A), np.zeros(A.shape[:-2], np.int32)
    except np.linalg.LinAlgError as error:
        if check_errors:
            raise
        info = [leading_failure(a, str(error)) for a in np.reshape(value(A), (-1, *A.shape[-2:]))]
        failed = np.reshape(np.array(info, np.int32), A.shape[:-2])
        found = fun(np.where(failed[..., None, None] > 0, np.eye(A.shape[-1], dtype=A.dtype), A))  # the others as they are alone
        wide = np.reshape(failed, (*failed.shape, *(1,) * (2 - (found.ndim < A.ndim))))
        return np.where(wide > 0, np.nan, found), failed


def _eig(A: Any) -> Any:
    d = np.result_type(A.dtype, np.complex64)  # also where all values are real
    return tuple(x.astype(d) for x in np.linalg.eig(A))


def _eigh(A: Any, UPLO: Any = "L") -> Any:
    return tuple(np.linalg.eigh(A, UPLO))


def _triangle(A: Any, upper: bool, unit: bool) -> Any:
    part = (np.triu if upper else np.tril)(A, (1 if upper else -1) if unit else 0)
    return part + np.eye(A.shape[-1], dtype=A.dtype) if unit else part


def _solve_triangular(A: Any, B: Any, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    return _solve_matrices("solve_triangular", _triangle(A, upper, unitriangular), B, left)


def _solve(A: Any, B: Any, left: bool = True) -> Any:
    vector = B.ndim == 1 or B.shape == A.shape[:-1]
    x = _solve_matrices("solve", A, B[..., None] if vector else B, left)
    return x[..., 0] if vector else x


def _solve_matrices(name: str, A: Any, B: Any, left: bool = True) -> Any:
    if B.ndim < 2:
        raise RuntimeError(f"linalg.{name}: The input tensor B must have at least 2 dimensions.")
    if A.ndim > 1 and A.shape[-1] != B.shape[-2 if left else -1]:
        sizes = " and ".join("x".join(map(str, x.shape[-2:])) for x in (A, B))
        raise RuntimeError(f"linalg.{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} ({sizes})")
    return np.linalg.solve(A, B) if left else _swap(np.linalg.solve(_swap(A), _swap(B)))


def _tensorsolve(A: Any, B: Any, dims: Any = None) -> Any:
    order = [k for k in range(A.ndim) if dims is None or k not in axes_of(dims, A.ndim)]
    moved = np.transpose(A, (*order, *(k for k in range(A.ndim) if k not in order)))
    m, n = math.prod(moved.shape[B.ndim :]), math.prod(B.shape)
    if m != n or n != math.prod(moved.shape[: B.ndim]):
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got {m} != {n}"
        )
    return np.linalg.tensorsolve(A, B, dims)


def _pivots(a: Any) -> tuple[Any, Any]:
    """The rows in the order that partial pivoting takes them, and LAPACK's list of exchanges, of a matrix."""
    a, rows = np.array(a), np.arange(a.shape[0])
    swaps = []
    for j in range(min(a.shape)):
        p = j + int(np.argmax(np.abs(a[j:, j].real) + np.abs(a[j:, j].imag)))  # as LAPACK measures complex numbers
        swaps.append(p + 1)
        a[[j, p]], rows[[j, p]] = a[[p, j]], rows[[p, j]]
        if a[j, j] != 0:
            a[j + 1 :, j] /= a[j, j]
            a[j + 1 :, j + 1 :] -= np.outer(a[j + 1 :, j], a[j, j + 1 :])
    return rows, np.array(swaps, np.int32)


def _all_pivots(A: Any) -> tuple[Any, Any]:
    (m, n), lead = A.shape[-2:], A.shape[:-2]
    found = [_pivots(a) for a in np.reshape(A, (math.prod(lead), m, n))]
    rows, swaps = (np.array([f[k] for f in found], d) for k, d in enumerate((np.int64, np.int32)))
    return np.reshape(rows, (*lead, m)), np.reshape(swaps, (*lead, min(m, n)))


_PIVOTS: Primitive = Primitive(
    "pivots", _all_pivots, arity=1, constant=True, multi=True, batch=lambda size, flags, args, params: _PIVOTS.op(args[0])
)


def _lu_parts(A: Any, pivot: bool = True) -> tuple[Any, Any, Any, Any]:
    """Rows, exchanges, L and U. The elimination itself is differentiated; the pivots are constants."""
    (m, n), lead = A.shape[-2:], A.shape[:-2]
    rows, swaps = _PIVOTS.op(A) if pivot else (np.broadcast_to(np.arange(k), (*lead, k)) for k in (m, min(m, n)))
    rest = np.take_along_axis(A, rows[..., None], -2)
    lower, upper = [], []
    for j in range(min(m, n)):
        row, first = rest[..., :1, :], rest[..., :1, :1]
        column = rest[..., 1:, :1] / (np.where(first == 0, np.ones((), A.dtype), first) if pivot else first)  # zeros, where the pivot is
        zeros = np.zeros((*lead, j, 1), A.dtype)
        lower.append(np.concatenate([zeros, np.ones((*lead, 1, 1), A.dtype), column], axis=-2))
        upper.append(np.concatenate([_swap(zeros), row], axis=-1))
        rest = rest[..., 1:, 1:] - column * row[..., :, 1:]
    return rows, swaps, np.concatenate(lower, axis=-1), np.concatenate(upper, axis=-2)


def _lu_factor(A: Any, pivot: bool = True, check_errors: bool = True) -> tuple[Any, Any, Any]:
    both, swaps = _compact(A, pivot)
    zero = np.diagonal(both, 0, -2, -1) == 0
    if not np.any(value(zero)):
        return both, swaps, np.zeros(both.shape[:-2], np.int32)
    info = np.where(np.any(zero, -1), np.argmax(zero, -1) + 1, 0).astype(np.int32)
    if check_errors:
        k = value(info)[value(info) > 0].flat[0]
        raise RuntimeError(
            f"torch.linalg.lu_factor: U[{k},{k}] is zero and using it on lu_solve would result in a division by zero. If you still want to "
            "perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
        )
    return both, swaps, info


def _permutation(rows: Any, dtype: Any) -> Any:
    return (rows[..., None, :] == np.arange(rows.shape[-1])[:, None]).astype(dtype)


def _lu(A: Any, pivot: bool = True) -> Any:
    rows, _, lower, upper = _lu_parts(A, pivot)
    return _permutation(rows, A.dtype), lower, upper


def _compact(A: Any, pivot: bool = True) -> Any:
    _, swaps, lower, upper = _lu_parts(A, pivot)
    (m, n), k = A.shape[-2:], lower.shape[-1]
    pad = [(0, 0)] * (A.ndim - 2)
    return np.pad(np.tril(lower, -1), [*pad, (0, 0), (0, n - k)]) + np.pad(upper, [*pad, (0, m - k), (0, 0)]), swaps


def _order(swaps: Any, m: int) -> Any:
    """The rows in the order that a list of exchanges gives."""
    out = np.empty((*swaps.shape[:-1], m), int)
    for i in np.ndindex(swaps.shape[:-1]):
        row = np.arange(m)
        for j, p in enumerate(swaps[i]):
            row[[j, p - 1]] = row[[p - 1, j]]
        out[i] = row
    return out


_ORDER: Primitive = Primitive("order", _order, arity=1, constant=True, batch=lambda size, flags, args, params: _ORDER.op(*args, *params))


def _unpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    m, n = LU_data.shape[-2:]
    k = min(m, n)
    lower = np.tril(LU_data[..., :k], -1) + np.eye(m, k, dtype=LU_data.dtype)
    parts = _permutation(_ORDER.op(LU_pivots, m), LU_data.dtype), lower, np.triu(LU_data[..., :k, :])
    return tuple(x if wanted else np.zeros(0, x.dtype) for x, wanted in zip(parts, (unpack_pivots, unpack_data, unpack_data)))


def _lu_solve(LU: Any, pivots: Any, B: Any, left: bool = True, adjoint: bool = False) -> Any:
    p, lower, upper = _unpack(LU, pivots)
    a = p @ lower @ upper
    return _solve_matrices("lu_solve", _adjoint(a) if adjoint else a, B, left)


def _lstsq(A: Any, B: Any, rcond: Any = None, driver: Any = None) -> Any:
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError("torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    vector = B.shape == A.shape[:-1]
    b = B[..., None] if vector else B
    n, none = A.shape[-1], np.zeros(0, A.real.dtype)
    x = _pinv(A, None if driver == "gels" else rcond) @ b
    rank = none.astype(np.int64) if driver == "gels" else _matrix_rank(stop_gradient(A), rtol=rcond)
    full = driver in ("gels", "gelsd", "gelss") and A.shape[-2] > n and np.all(rank == n)
    residuals = np.sum(np.abs(A @ x - b) ** 2, axis=-2) if full else none
    values = np.linalg.svdvals(stop_gradient(A)) if driver in ("gelsd", "gelss") else none
    return (x[..., 0] if vector else x), residuals, rank, values


_PADE = (64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0, 10559470521600.0,
         670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0)  # fmt: skip


def _matrix_exp(A: Any) -> Any:
    """Scaling, the Padé approximant of degree 13, squaring (Higham 2005)."""
    size = float(np.max(np.sum(np.abs(value(A)), axis=-2), initial=0.0))
    squarings = max(0, math.ceil(math.log2(size / 5.4))) if 5.4 < size < math.inf else 0
    a = A / 2**squarings
    one = np.eye(A.shape[-1], dtype=A.dtype)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    b = [A.dtype.type(c) for c in _PADE]
    odd = a @ (a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one)
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    out = np.linalg.solve(even - odd, even + odd)
    for _ in range(squarings):
        out = out @ out
    return out


def matrix_norm(A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Any:
    """A norm of matrices: "fro", "nuc", 1, -1, 2, -2, inf or -inf."""
    x = A if dtype is None else A.to(dtype)
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dim))}")
    i, j = axes_of(dim, x._a.ndim)
    if ord == "fro":
        result = vector_norm(x, 2, (i, j), keepdim)
    elif ord in ("nuc", 2, -2):
        s = _space["svdvals"](x.movedim((i, j), (-2, -1)))
        result = s.sum(-1) if ord == "nuc" else s.amax(-1) if ord == 2 else s.amin(-1)
        result = result.unsqueeze(min(i, j)).unsqueeze(max(i, j)) if keepdim else result
    elif not isinstance(ord, str) and abs(ord) in (1, np.inf):
        first, second = (i, j) if abs(ord) == 1 else (j, i)
        sizes = x.abs().sum(first, keepdim)
        second -= 0 if keepdim or first > second else 1
        result = sizes.amax(second, keepdim) if ord > 0 else sizes.amin(second, keepdim)
    else:
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    return result


def norm(input: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """A vector norm along one axis, or of all elements if no order is given; else a matrix norm."""
    axes = axes_of(dim, input._a.ndim)
    if dim is None and ord is not None and input._a.ndim not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {input._a.ndim}D.")
    if dim is not None and len(axes) > 2:
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    if ord is not None and (isinstance(ord, str) or len(axes) == 2):
        return _space["matrix_norm"](input, ord, axes, keepdim, dtype=dtype)
    return vector_norm(input, 2 if ord is None else ord, axes, keepdim, dtype=dtype)


def _householder(A: Any, tau: Any) -> Any:
    one = np.eye(*A.shape[-2:], dtype=A.dtype)
    vectors, out = np.tril(A, -1) + one, np.broadcast_to(one, A.shape)
    for k in reversed(range(tau.shape[-1])):
        v = vectors[..., k, None]
        out = out - tau[..., k, None, None] * v @ (_adjoint(v) @ out)
    return out


def _share_of_largest(A: Any, rtol: Any, atol: Any) -> Any:
    """`rtol`, or what it is where it is not given: 0 beside an `atol`, else as many times the precision as the longer axis is long."""
    if rtol is not None:
        return rtol
    return 0.0 if atol is not None and np.any(value(atol)) else max(A.shape[-2:]) * np.finfo(A.dtype).eps


def _pinv(A: Any, rtol: Any = None, hermitian: bool = False, atol: Any = None, rcond: Any = None) -> Any:
    rtol = _share_of_largest(A, rcond if rtol is None else rtol, atol)
    if atol is not None and A.size:
        largest = np.max(np.linalg.svdvals(stop_gradient(A)), axis=-1)
        rtol = np.maximum(value(rtol), np.where(largest > 0, value(atol) / np.where(largest > 0, largest, 1), 0))
    if hermitian:  # the lower triangle counts, the gradient is that of any matrix
        plain = stop_gradient(A)
        A = A + (np.tril(plain) + _adjoint(np.tril(plain, -1)) - plain)
    return np.linalg.pinv(A, rcond=rtol)


def _matrix_power(A: Any, n: int) -> Any:
    if not isinstance(n, int):
        raise TypeError(f"linalg_matrix_power(): argument 'n' (position 2) must be int, not {type(n).__name__}")
    return np.linalg.matrix_power(A, n)


def _matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, atol: Any = None, rtol: Any = None) -> Any:
    values = np.abs(np.linalg.eigvalsh(A)) if hermitian else np.linalg.svdvals(A)
    if tol is None:
        tol = np.maximum(0 if atol is None else atol, _share_of_largest(A, rtol, atol) * np.max(values, axis=-1, initial=0.0))
    return np.sum(values > np.expand_dims(tol, -1), axis=-1, dtype=np.int64)


def _cross(input: Any, other: Any, dim: Any = -1) -> Any:
    return np.cross(input, other, axis=dim)


def _first_three(input: Any, other: Any, dim: Any = None) -> Any:
    return _cross(input, other, input.shape.index(3) if dim is None else dim)


_UNCROSS = (
    lambda g, _r, _x, y, dim: _cross(y, g, _x.shape.index(3) if dim is None else dim),
    lambda g, _r, x, _y, dim: _cross(g, x, x.shape.index(3) if dim is None else dim),
)


def _svd(A: Any, full_matrices: bool = True, driver: Any = None) -> Any:
    return tuple(np.linalg.svd(A, full_matrices))


def _old_svd(input: Any, some: bool = True, compute_uv: bool = True) -> Any:
    if not compute_uv:
        u, vh = (np.zeros((*input.shape[:-2], n, n), input.dtype) for n in input.shape[-2:])
        return u, np.linalg.svdvals(input), vh
    u, s, vh = np.linalg.svd(input, not some)
    return u, s, _adjoint(vh)


def _qr(A: Any, mode: Any = "reduced") -> Any:
    return (np.zeros(0, A.dtype), np.linalg.qr(A, "r")) if mode == "r" else tuple(np.linalg.qr(A, mode))


def _added(input: Any, product: Any, beta: Any, alpha: Any) -> Any:
    c = product if alpha == 1 else alpha * product
    return c if beta == 0 else input + c if beta == 1 else beta * input + c


def _tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    dims = value(dims).tolist() if hasattr(dims, "tolist") else dims
    return np.tensordot(a, b, dims)


def _logdet(A: Any) -> Any:
    sign, log = np.linalg.slogdet(A)
    return np.where(sign < 0, np.nan, log).astype(A.dtype) if A.dtype.kind == "f" else log + np.log(sign)


def _from_factor(L: Any, upper: bool) -> Any:
    """The matrix that a triangle of `L` is the Cholesky factor of."""
    factor = _triangle(L, upper, False)
    return _adjoint(factor) @ factor if upper else factor @ _adjoint(factor)


def _check_pair(name: str, few: str, b: Any, A: Any) -> None:
    if b.ndim < 2:
        raise RuntimeError(few)
    if b.shape[-2] != A.shape[-1]:
        sizes = f"each A matrix is {A.shape[-2]} by {A.shape[-1]} but each b matrix is {b.shape[-2]} by {b.shape[-1]}"
        raise RuntimeError(f"Incompatible matrix sizes for {name}: {sizes}")


def _cholesky_solve(input: Any, L: Any, upper: bool = False) -> Any:
    _check_pair("cholesky_solve", f"b should have at least 2 dimensions, but has {input.ndim} dimensions instead", input, L)
    return np.linalg.solve(_from_factor(L, upper), input)


def _uncholesky_solve(g: Any, r: Any, _input: Any, L: Any, upper: bool) -> Any:
    d = -np.linalg.solve(_from_factor(L, upper), g) @ _adjoint(r)
    factor = _triangle(L, upper, False)
    return _triangle(factor @ (d + _adjoint(d)) if upper else (d + _adjoint(d)) @ factor, upper, False)


def _triangular(b: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> Any:
    few = f"torch.triangular_solve: Expected b to have at least 2 dimensions, but it has {b.ndim} dimensions instead"
    _check_pair("triangular_solve", few, b, A)
    a = _triangle(A, upper, unitriangular)
    return np.linalg.solve(_swap(a) if transpose else a, b), A


_space: dict[str, Any] = {
    f.__name__: taking_out(n, guarded(n, f)) for f in (norm, matrix_norm, vector_norm) for n in ["linalg_" + f.__name__]
}
_TABLE: dict[str, Any] = {
    "cholesky": ("LinalgCholeskyEx", _cholesky, _uncholesky),
    "cond": ("SqueezeBackward1", lambda A, p=None: np.linalg.cond(A, p)),
    "cross": ("LinalgCross", _cross, *_UNCROSS),
    "det": ("LinalgDet", lambda A: np.linalg.det(A), *DET.vjps),
    "eigvals": ("LinalgEig", lambda A: _eig(A)[0]),
    "eigvalsh": ("LinalgEigh", lambda A, UPLO="L": _eigh(A, UPLO)[0]),
    "householder_product": ("LinalgHouseholderProduct", _householder),
    "inv": ("LinalgInvEx", lambda A: np.linalg.inv(A), *INV.vjps),
    "lu_solve": ("LinalgLuSolve", _lu_solve),
    "matrix_exp": ("LinalgMatrixExp", _matrix_exp),
    "matrix_power": ("Mm", _matrix_power),
    "multi_dot": ("View", lambda tensors: np.linalg.multi_dot(tensors) if len(tensors) > 1 else tensors[0]),
    "pinv": ("LinalgPinv", _pinv),
    "solve": ("LinalgSolveEx", _solve),
    "solve_triangular": ("LinalgSolveTriangular", _solve_triangular),
    "svdvals": ("LinalgSvd", lambda A, driver=None: np.linalg.svd(A, compute_uv=False), lambda g, r, A, _driver: SVDVALS.vjps[0](g, r, A)),
    "tensorinv": ("ReshapeAlias", lambda A, ind=2: np.linalg.tensorinv(A, ind)),
    "tensorsolve": ("View", _tensorsolve),
    "vander": ("Cat", lambda x, N=None: as_int64(x)[..., None] ** np.arange(x.shape[-1] if N is None else N).astype(as_int64(x).dtype)),
}  # fmt: skip
_NAMED: dict[str, Any] = {
    "L info": {
        "cholesky_ex": (
            "LinalgCholeskyEx",
            lambda A, upper=False, check_errors=False: _tried(lambda a: _cholesky(a, upper), A, check_errors),
        )
    },
    "eigenvalues eigenvectors": {"eig": ("LinalgEig", lambda A: _eig(A)), "eigh": ("LinalgEigh", _eigh)},
    "inverse info": {"inv_ex": ("LinalgInvEx", lambda A, check_errors=False: _tried(np.linalg.inv, A, check_errors))},
    "solution residuals rank singular_values": {"lstsq": ("LinalgLstsq", _lstsq)},
    "P L U": {"lu": ("LinalgLu", _lu)},
    "LU pivots": {"lu_factor": ("LinalgLuFactorEx", lambda A, pivot=True: _lu_factor(A, pivot)[:2])},
    "LU pivots info": {"lu_factor_ex": ("LinalgLuFactorEx", lambda A, pivot=True, check_errors=False: _lu_factor(A, pivot, check_errors))},
    "Q R": {"qr": ("LinalgQr", _qr)},
    "sign logabsdet": {"slogdet": ("LinalgSlogdet", lambda A: tuple(np.linalg.slogdet(A)))},
    "result info": {
        "solve_ex": ("LinalgSolveEx", lambda A, B, left=True, check_errors=False: _tried(lambda a: _solve(a, B, left), A, check_errors))
    },
    "U S Vh": {"svd": ("LinalgSvd", _svd)},
}
bind(_TABLE, space=_space, prefix="linalg_", lies=in_order)
for _fields, _group in _NAMED.items():
    bind(_group, space=_space, prefix="linalg_", fields=_fields, lies=in_order)
bind({"matrix_rank": ("MatrixRank", _matrix_rank)}, space=_space, prefix="linalg_", constant="zero")
_vecdot = guarded("linalg_vecdot", lambda x, y, *, dim=-1: (x.conj() * y).sum(dim))
_space |= {"LinAlgError": LinAlgError, "matmul": matmul, "vecdot": taking_out("linalg_vecdot", _vecdot)}
_space["diagonal"] = lambda A, *, offset=0, dim1=-2, dim2=-1: FUNCTIONS["diagonal"](A, offset, dim1, dim2)
globals().update(_space)
globals().update(trimmed(globals()))
__getattr__ = missing("torch.linalg")

for _name in "det matrix_exp matrix_power".split():
    public(_space[_name], _name)
public(_space["inv"], "inverse")
public(_space["householder_product"], "orgqr")


def _old_lu(A: Any, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """LU and its pivots, with the infos of each matrix if they are asked for."""
    return tuple(_space["lu_factor_ex"](A, pivot=pivot, out=out))[: 3 if get_infos else 2]


public(_old_lu, "lu")
public(_space["matrix_norm"], "_matrix_norm", method=False)
public(lambda *matrices: _space["multi_dot"](matrices) if len(matrices) > 1 else matrices[0], "chain_matmul", method=False)
bind(
    {
        "pinverse": ("LinalgPinv", lambda input, rcond=1e-15: np.linalg.pinv(input, rcond=rcond)),
        "logdet": ("Where", _logdet),
        "cholesky": ("Cholesky", _cholesky, _uncholesky),
        "cholesky_inverse": ("CholeskyInverse", lambda input, upper=False: np.linalg.inv(_from_factor(input, upper))),
        "cross": ("LinalgCross", _first_three, *_UNCROSS),
        "vdot": ("Vdot", lambda input, other: np.vdot(input, other)),
        "addmv": ("Addmv", lambda input, mat, vec, beta=1, alpha=1: _added(input, mat @ vec, beta, alpha)),
        "baddbmm": ("Baddbmm", lambda input, batch1, batch2, beta=1, alpha=1: _added(input, batch1 @ batch2, beta, alpha)),
        "addbmm": (
            "Addbmm",
            lambda input, batch1, batch2, beta=1, alpha=1: _added(input, np.sum(batch1 @ batch2, 0, input.dtype), beta, alpha),
        ),
        "cholesky_solve": (
            "CholeskySolve",
            _cholesky_solve,
            lambda g, _r, _input, L, upper: np.linalg.solve(_from_factor(L, upper), g),
            _uncholesky_solve,
        ),
        "lu_solve": ("LinalgLuSolve", lambda b, LU_data, LU_pivots: _lu_solve(LU_data, LU_pivots, b)),
    },
    lies=in_order,
)
bind({"inner": ("View", lambda input, other: np.inner(input, other))}, operands=2)
bind({"kron": ("UnsafeView", lambda input, other: np.kron(input, other))}, operands=2)
bind({"addr": ("Addr", lambda input, vec1, vec2, beta=1, alpha=1: _added(input, np.outer(vec1, vec2), beta, alpha))}, operands=3)
bind({"tensordot": ("View", _tensordot)}, method=False)
bind(_NAMED["sign logabsdet"], fields="sign logabsdet")
bind({"svd": ("LinalgSvd", _old_svd)}, fields="U S V", lies=in_order)
bind({"qr": ("LinalgQr", lambda input, some=True: _qr(input, "reduced" if some else "complete"))}, fields="Q R")
bind({"triangular_solve": ("TriangularSolve", _triangular)}, fields="solution cloned_coefficient")
bind({"lu_unpack": ("LuUnpack", _unpack)}, fields="P L U", method=False)
