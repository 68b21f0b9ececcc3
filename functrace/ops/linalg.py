"""Linear equations, inverses and determinants, on the last two axes.

Sources: Giles 2008, "An extended collection of matrix derivative results" (solve, inv, det); Golub and Pereyra 1973, "The
differentiation of pseudo-inverses and nonlinear least squares problems" (pinv, lstsq).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg._linalg import SlogdetResult

from functrace.core.forward import spread
from functrace.core.primitive import Primitive
from functrace.core.tracer import Tracer, value
from functrace.ops import products
from functrace.ops.create import lift, number, typed
from functrace.ops.decompositions import _svd, inverse_op, svd, svdvals
from functrace.ops.functions import ABSENT
from functrace.ops.gauge import adjoint, conj, full_hermitian, some, transposed
from functrace.ops.kinds import align, general, undeclared_constant
from functrace.ops.norms import norm
from functrace.ops.rebased import steady
from functrace.ops.reduce import others
from functrace.ops.registry import Sample, given, implements, normal, one
from functrace.ops.statistics import as_float

_MINORS = 24  # size up to which the cofactors of a singular matrix are determinants of its minors, exact to every order


def regular(*shapes: tuple[int, ...], **kwargs: Any) -> Sample:
    """A sample of well-conditioned matrices, of which the first is square, and others."""
    first = shapes[0]
    return Sample(
        lambda rng: (rng.uniform(-1, 1, size=first) + 3 * np.eye(first[-1]), *(rng.normal(size=s) for s in shapes[1:])),
        kwargs,
        wrt=tuple(range(len(shapes))),
    )


def _solve_pull(g: Any, ans: Any, args: Any, _params: Any) -> tuple[Any, Any]:
    d = np.linalg.solve(transposed(args[0]), g)
    return -d @ transposed(ans), d


def _solve_push(ts: Any, ans: Any, args: Any, _params: Any) -> Any:
    (t, tb), x = ts, args[0]
    first = None if t is None else -np.linalg.solve(x, t @ ans)
    second = None if tb is None else np.linalg.solve(x, tb)
    return spread(first if second is None else second if first is None else first + second, ans)


_solve: Any = Primitive(
    "linalg.solve",
    np.linalg.solve,  # b is a matrix
    arity=None,
    vjps=_solve_pull,
    jvps=_solve_push,
    joint=True,
    batch=lambda size, flags, args, _params: _solve(*align(size, flags, args)),
).op


@implements(
    np.linalg.solve,
    [
        *(regular((3, 3), b) for b in ((3,), (3, 2), (4, 3, 2), (3, 0))),
        *(regular((4, 3, 3), b) for b in ((3,), (4, 3, 2), (3, 2))),
        regular((2, 1, 2, 2), (3, 2, 1)),
        regular((0, 0), (0,)),
    ],
)
def solve(a: Any, b: Any) -> Any:
    """`np.linalg.solve`; b is a vector if it has one axis, as in NumPy 2."""
    a, b = lift(a), lift(b)
    return _solve(a, b[:, None])[..., 0] if b.ndim == 1 else _solve(a, b)


_inv = inverse_op("linalg.inv", np.linalg.inv)
_SQUARE = [regular((3, 3)), regular((4, 2, 2)), regular((1, 1)), regular((0, 0))]


@implements(np.linalg.inv, _SQUARE)
def inv(a: Any) -> Any:
    return _inv(lift(a))


def _inverted(x: Any, det: Any) -> tuple[Any, Any]:
    """Which matrices, of these determinants, are safely inverted, and the inverses, if there are any."""
    if not x.size:
        return np.ones(x.shape[:-2], bool), x
    try:
        with np.errstate(all="ignore"):
            inverse, size = np.linalg.inv(x), np.abs(det)
            condition = np.sqrt(_squared(x) * _squared(inverse))  # by Frobenius' norms
    except np.linalg.LinAlgError:
        return np.zeros(x.shape[:-2], bool), None
    info = np.finfo(x.dtype)
    return (condition < info.eps**-0.5) & (size >= info.tiny) & (size < np.inf), inverse


def _squared(x: Any) -> Any:
    """The sum of the squares of each matrix."""
    return np.einsum("...ij,...ij->...", x, np.conj(x)).real


# an op, so that a program that `jit` records is guarded by the answer, not by the matrix
_are_regular = undeclared_constant("are_regular", lambda x: _inverted(x, np.linalg.det(x))[0])


def _inverse(x: Any, det: Any) -> Any:
    if not isinstance(x, np.ndarray):
        return np.linalg.inv(x) if np.all(value(_are_regular(x))) else None
    regular, inverse = _inverted(x, value(det))
    return inverse if regular.all() else None


def _cofactors(ans: Any, x: Any) -> Any:
    """The derivative of det: ans times the transposed inverse, and for small and for singular matrices the cofactors without division."""
    n = x.shape[-1]
    if n == 1:
        return np.ones_like(x)
    if n == 2:
        return x[..., ::-1, ::-1] * np.array([[1, -1], [-1, 1]], x.real.dtype)
    if n == 3:
        return np.cross(np.roll(x, -1, -2), np.roll(x, 1, -2))
    inverse = _inverse(x, ans)
    if inverse is not None:
        return ans[..., None, None] * transposed(inverse)
    if n <= _MINORS:
        kept = np.array([[k for k in range(n) if k != i] for i in range(n)], int).reshape(n, n - 1)
        minors = np.linalg.det(x[..., kept[:, None, :, None], kept[None, :, None, :]])
        return minors * (1 - 2 * (np.add.outer(np.arange(n), np.arange(n)) % 2)).astype(x.real.dtype)
    u, s, vh = _svd(x, False)
    return conj((u * (others(s, s.ndim - 1) * conj(np.linalg.det(u) * np.linalg.det(vh))[..., None])[..., None, :]) @ vh)


_det: Any = general(
    "linalg.det",
    np.linalg.det,
    lambda g, ans, x: g[..., None, None] * _cofactors(ans, x),
    jvps=(lambda t, ans, x: np.sum(_cofactors(ans, x) * t, axis=(-2, -1)),),
    stacks=2,
)
_SINGULAR = [
    given([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]),
    given([[[1.0, 2.0], [2.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]]]),
]


@implements(np.linalg.det, _SQUARE + _SINGULAR, note="right at singular matrices, to every order up to size 24")
def det(a: Any) -> Any:
    return _det(lift(a))


def _slogdet_pull(g: Any, ans: Any, x: Any) -> Any:
    (gsign, glog), (sign, _) = g, ans
    factor = glog
    if gsign is not None and x.dtype.kind == "c":
        turned = np.imag(gsign * sign) * 1j
        factor = turned if glog is None else glog + turned
    return None if factor is None else factor[..., None, None] * transposed(np.linalg.inv(x))


_slogdet: Any = general("linalg.slogdet", lambda x: tuple(np.linalg.slogdet(x)), _slogdet_pull, stacks=2, multi=True)


@implements(np.linalg.slogdet, _SQUARE, note="raises LinAlgError at singular matrices, where it has no derivative")
def slogdet(a: Any) -> Any:
    return SlogdetResult(*_slogdet(lift(a)))


def _between(a: Any, b: Any, c: Any) -> Any:
    """`a @ b @ c`, by the smaller of the two products between: an oblong matrix must not become a large square one."""
    return a @ (b @ c) if a.shape[-2] * c.shape[-2] > a.shape[-1] * c.shape[-1] else (a @ b) @ c


def _pinv_pull(g: Any, ans: Any, x: Any, *_params: Any) -> Any:
    bar, h = conj(g), adjoint(ans)
    outer, inner = _between(adjoint(bar), ans, h), _between(h, ans, adjoint(bar))
    return conj(outer - _between(h, bar, h) - _between(x, ans, outer) + inner - _between(inner, ans, x))


def _pinv_push(t: Any, ans: Any, x: Any, *_params: Any) -> Any:
    h, th = adjoint(ans), adjoint(t)
    outer, inner = _between(ans, h, th), _between(th, h, ans)
    return outer - _between(ans, t, ans) - _between(outer, x, ans) + inner - _between(ans, x, inner)


_pinv: Any = general(
    "linalg.pinv",
    lambda x, rcond, symmetric: np.linalg.pinv(x, rcond, symmetric),
    _pinv_pull,
    jvps=(_pinv_push,),
    stacks=2,
)


def _oblong(*shape: int, **kwargs: Any) -> Sample:
    """Well-conditioned matrices with singular values apart."""
    return Sample(
        lambda rng: (0.2 * rng.uniform(-1, 1, size=shape) + np.eye(shape[-2], shape[-1]) * np.arange(1.0, 1 + shape[-1]),), kwargs
    )


_ANY = [_oblong(3, 2), _oblong(2, 3), _oblong(4, 2, 3)]


@implements(
    np.linalg.pinv,
    [
        *_ANY,
        regular((3, 3)),
        regular((3, 3), hermitian=True),
        _oblong(3, 2, rcond=1e-8),
        _oblong(3, 2, rtol=1e-8),
        _oblong(3, 2, rcond=0.8),
        _oblong(4, 2, 3, rtol=0.8),
    ],
    note="the derivative at constant rank",
)
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = ABSENT) -> Any:
    a = as_float(a)
    if rtol is not ABSENT:
        if rcond is not None:
            raise ValueError("`rtol` and `rcond` can't be both set.")
        rcond = max(a.shape[-2:]) * np.finfo(a.dtype).eps if rtol is None else rtol
    a = full_hermitian(a) if hermitian else a
    return _pinv(a, None, bool(hermitian)) if rcond is None else _cut(a, rcond, svdvals(a), bool(hermitian))


def _cut(a: Any, rcond: Any, s: Any, hermitian: bool = False) -> Any:
    """The pseudo-inverse without the small singular values `s`. If a dropped one is not zero, the subspace dropped depends on `a` as
    well.
    """
    largest = np.max(s, axis=-1, keepdims=True, initial=0)
    rounding, traced = max(a.shape[-2:]) * np.finfo(s.dtype).eps, isinstance(rcond, Tracer)
    kept, other = s > lift(rcond)[..., None] * largest, s > rounding * largest
    if not some(kept != other if traced else ~kept & other):
        return _pinv(a, rounding if traced else rcond, hermitian)
    u, s, vh = svd(a, full_matrices=False)
    return (adjoint(vh) * np.where(kept, 1 / np.where(kept, s, 1), 0)[..., None, :]) @ adjoint(u)


@implements(
    np.linalg.lstsq,
    [
        *(Sample(normal(*pair), {"rcond": None}, (0, 1)) for pair in (((4, 2), (4,)), ((4, 2), (4, 3)), ((2, 3), (2,)))),
        regular((3, 3), (3,), rcond=None),
    ],
    note="the derivative at constant rank",
)
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    a, b = lift(a), lift(b)
    dtype = np.result_type(*(x.dtype if x.dtype.kind in "fc" else float for x in (a, b)))
    a, b = typed(a, dtype), typed(b, dtype)
    if a.ndim != 2 or b.ndim not in (1, 2):
        raise np.linalg.LinAlgError(f"{a.ndim if a.ndim != 2 else b.ndim}-dimensional array given. Array must be two-dimensional")
    m, n = a.shape
    if m != len(b):
        raise np.linalg.LinAlgError("Incompatible dimensions")
    eps = float(np.finfo(dtype).eps)
    rcond = eps * max(m, n) if rcond is None else eps if rcond == -1 else rcond
    s = svdvals(a)
    rank = np.sum(s > rcond * np.max(s, initial=0)).astype(np.int32)
    x = _cut(a, rcond, s) @ b
    if m > n and np.all(rank == n):
        rest = b - a @ x
        squares = np.real(rest * conj(rest))
        residuals = np.sum(squares if b.ndim == 2 else squares[:, None], axis=0)
    else:
        residuals = np.zeros(0, s.dtype)
    return x, residuals, rank, s


@implements(
    np.linalg.tensorsolve,
    [
        Sample(lambda rng: (rng.uniform(-0.5, 0.5, size=(2, 3, 6)) + 3 * np.eye(6).reshape(2, 3, 6), rng.normal(size=(2, 3))), wrt=(0, 1)),
        Sample(
            lambda rng: (rng.uniform(-0.5, 0.5, size=(6, 2, 3)) + 3 * np.eye(6).reshape(6, 2, 3), rng.normal(size=(2, 3))),
            {"axes": (0,)},
            (0, 1),
        ),
    ],
)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    a, b = lift(a), lift(b)
    if axes is not None:
        a = np.moveaxis(a, tuple(axes), tuple(range(a.ndim - len(axes), a.ndim)))
    shape = a.shape[b.ndim :]
    if a.size != b.size**2 or int(np.prod(shape)) != b.size:
        raise np.linalg.LinAlgError("Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])")
    return np.reshape(solve(np.reshape(a, (b.size, b.size)), np.reshape(b, -1)), shape)


def _chain(*shapes: tuple[int, ...]) -> Sample:
    return Sample(lambda rng: ([rng.normal(size=s) for s in shapes],))


def _graded(p: Any) -> Sample:
    """A matrix whose rows and columns have no equal sums, nor those of its inverse."""
    return Sample(lambda rng: (np.array([[2.0, 0.5, -0.4], [0.6, 4.0, 0.5], [-0.5, 0.7, 7.0]]) + 0.02 * rng.normal(size=(3, 3)),), {"p": p})


_are_singular = undeclared_constant("are_singular", lambda x: np.isinf(np.linalg.cond(x, 1)))


@implements(np.linalg.cond, [*_ANY, *(_graded(p) for p in (None, 2, -2, "fro", "nuc", 1, -1, np.inf, -np.inf))])
def cond(x: Any, p: Any = None) -> Any:
    """`np.linalg.cond`: infinite where it divides by nothing, with a derivative of 0."""
    x = lift(x)
    if x.ndim < 2 or not x.size:
        np.linalg.cond(np.empty(x.shape), p)  # which says what is wrong
    if p in (None, 2, -2):
        s = svdvals(x)
        over, under = (s[..., -1], s[..., 0]) if p == -2 else (s[..., 0], s[..., -1])
        singular = under == 0
        return number(np.where(singular, np.inf, over / np.where(singular, 1, under)))
    singular = _are_singular(x)
    if not np.any(value(singular)):
        return norm(x, p, axis=(-2, -1)) * norm(_inv(x), p, axis=(-2, -1))
    inverse = _inv(np.where(singular[..., None, None], np.eye(x.shape[-1], dtype=x.dtype), x))
    return number(np.where(singular, np.inf, norm(x, p, axis=(-2, -1)) * norm(inverse, p, axis=(-2, -1))))


_rank = undeclared_constant("linalg.matrix_rank", lambda x, tol, symmetric, rtol: np.linalg.matrix_rank(x, tol, symmetric, rtol=rtol))


@implements(np.linalg.matrix_rank, [*_ANY, *_SINGULAR, one(3), one(3, 3, tol=0.1)], constant=True)
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """`np.linalg.matrix_rank`: a constant."""
    A = lift(A)
    if A.ndim < 2:
        return np.any(A != 0).astype(int)
    return _rank(A, tol, hermitian, rtol)


# what NumPy's own code does with the above


for _name, _samples in {
    "matrix_power": [*(regular((2, 2), n=n) for n in (0, 1, 2, 3, 5, -1, -2)), regular((3, 2, 2), n=5)],
    "multi_dot": [
        _chain((2, 3), (3, 4)),
        _chain((2, 3), (3, 4), (4, 2)),
        _chain((3,), (3, 2), (2, 4), (4,)),
        _chain((3, 5), (5, 2), (2, 4), (4, 1)),
    ],
    "outer": products.both(((3,), (2,))),
    "cross": [*products.both(((2, 3), (2, 3))), *products.both(((3, 2), (3, 2)), axis=0)],
    "matmul": products.both(((2, 3), (3, 2)), ((4, 2, 3), (3,))),
    "vecdot": [*products.both(((2, 3), (3,))), *products.both(((3, 2), (3, 2)), axis=0)],
    "diagonal": [one(2, 3, 3), one(3, 3, offset=1)],
    "trace": [one(2, 3, 3), one(3, 3, offset=-1)],
    "tensordot": [*products.both(((2, 3, 4), (3, 4, 2))), *products.both(((2, 3), (3, 2)), axes=1)],
    "matrix_transpose": [one(2, 3, 4)],
    "tensorinv": [
        Sample(lambda rng: (rng.uniform(-0.5, 0.5, size=(2, 3, 6)) + 3 * np.eye(6).reshape(2, 3, 6),)),
        Sample(lambda rng: (rng.uniform(-0.5, 0.5, size=(6, 3, 2)) + 3 * np.eye(6).reshape(6, 3, 2),), {"ind": 1}),
    ],
}.items():
    steady(np.linalg, _name, _samples, prefix="linalg.")
