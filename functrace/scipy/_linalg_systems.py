"""Linear systems with and without structure, and what the other files on linear algebra share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.linalg as _scipy
from scipy.linalg import lapack

from functrace.ops.create import lift
from functrace.ops.functions import refuse
from functrace.ops.gauge import adjoint, conj, full_hermitian, transposed, under
from functrace.ops.kinds import general
from functrace.ops.linalg import regular
from functrace.ops.norms import norm as _norm
from functrace.ops.registry import Sample, each
from functrace.ops.statistics import as_float
from functrace.scipy._shared import binding, choice, declarer, double, single
from functrace.transforms.batching import vmap

_declared = declarer(_scipy)


def declared(name: str, *samples: Sample, core: tuple[int, ...] = (), **more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function of `scipy.linalg`, which is given what is optional by name, however it was passed. It is mapped over the axes of
    each argument before the `core` ones, unless it sees to that itself, or (0) the argument has none.
    """

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        _declared(name, *samples, **more)(_by_name(getattr(_scipy, name, None), function, core))
        return function

    return enter


def _mapped(function: Callable[..., Any], core: tuple[int, ...], needed: Sequence[Any], rest: dict[str, Any]) -> Any:
    needed = [lift(x) if n else x for x, n in zip(needed, core)] if core else needed
    extra = [n and max(x.ndim - n, 0) for x, n in zip(needed, core)]
    if not any(extra):
        return function(*needed, **rest)
    axes = [0 if k == max(extra) else None for k in extra]
    return vmap(lambda *xs: _mapped(function, core, xs, rest), in_axes=axes)(*needed)


def _by_name(own: Any, function: Callable[..., Any], core: tuple[int, ...]) -> Callable[..., Any]:
    signature = inspect.signature(own or function)
    parameters = signature.parameters.values()
    if own is None or any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return function
    read = binding(own.__name__, signature)

    def call(*args: Any, **kwargs: Any) -> Any:
        given = read(args, kwargs)
        needed = [given.pop(p.name) for p in parameters if p.default is p.empty]
        return _mapped(function, core, needed, given)

    call.__doc__, call.__signature__ = function.__doc__, signature  # type: ignore[attr-defined]
    return call


def _array(x: Any) -> Any:
    return as_float(single(x))


def _definite(n: int, *shapes: tuple[int, ...], **kwargs: Any) -> Sample:
    """A matrix of which both triangles would do, and others."""
    return Sample(
        lambda rng: (0.2 * rng.normal(size=(n, n)) + np.diag(2.0 + np.arange(n)), *(rng.normal(size=s) for s in shapes)),
        kwargs,
        tuple(range(1 + len(shapes))),
    )


def _apart(m: int, n: int, *shapes: tuple[int, ...], **kwargs: Any) -> Sample:
    """A matrix whose eigenvalues and singular values are apart."""
    return Sample(
        lambda rng: (
            np.eye(m, n) * (1.5 * np.arange(n) + 1) + 0.3 * np.sin(np.arange(m * n) + 1.0).reshape(m, n),
            *(rng.normal(size=s) for s in shapes),
        ),
        kwargs,
        tuple(range(1 + len(shapes))),
    )


# linear systems


def _mask(lower: bool, unit: bool, n: int) -> Any:
    return under(n, -1 if unit else 0) if lower else ~under(n, 0 if unit else -1)


_SOLVERS = {char: getattr(lapack, f"{prefix}trtrs") for char, prefix in zip("fdFD", "sdcz")}


def _solved(a: Any, b: Any, lower: bool, unit: bool) -> Any:
    """`scipy.linalg.solve_triangular` for a matrix b, straight from LAPACK: of small matrices a fifth of the time."""
    solver = _SOLVERS.get(np.result_type(a, b).char)
    if solver is None or not b.size or b.ndim != 2 or a.shape != (len(b), len(b)):
        return _scipy.solve_triangular(a, b, lower=lower, unit_diagonal=unit, check_finite=False)
    turned = not a.flags.f_contiguous  # as LAPACK reads it, the transpose
    x, info = solver(a.T if turned else a, b, lower=lower != turned, trans=turned, unitdiag=unit)
    if info > 0:
        raise np.linalg.LinAlgError(f"singular matrix: resolution failed at diagonal {info - 1}")
    return x


_triangular: Any = general(
    "scipy.linalg.solve_triangular",
    _solved,  # b is a matrix
    lambda g, ans, a, _b, lower, unit: (
        -(_triangular(transposed(a), g, not lower, unit) @ transposed(ans)) * _mask(lower, unit, a.shape[-1])
    ),
    lambda g, _ans, a, _b, lower, unit: _triangular(transposed(a), g, not lower, unit),
    jvps=(
        lambda t, ans, a, _b, lower, unit: -_triangular(a, (t * _mask(lower, unit, a.shape[-1])) @ ans, lower, unit),
        lambda t, _ans, a, _b, lower, unit: _triangular(a, t, lower, unit),
    ),
)


def _vector(b: Any, solve: Callable[[Any], Any]) -> Any:
    """`solve(b)` for a matrix b; a vector is a matrix of one column."""
    b = _array(b)
    return solve(b[:, None])[:, 0] if b.ndim == 1 else solve(b)


@declared(
    "solve_triangular",
    _definite(3, (3,)),
    _definite(3, (3, 2), lower=True),
    _definite(3, (3,), trans=1),
    _definite(3, (3, 2), trans="T", unit_diagonal=True),
    _definite(3, (3,), trans="C", lower=True),
    core=(2, 2),
)
def solve_triangular(a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False, **_unused: Any) -> Any:
    a = _array(a)
    code = choice("trans", trans, {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2})
    if code:
        a, lower = (adjoint(a) if code == 2 else transposed(a)), not lower
    return _vector(b, lambda c: _triangular(a, c, bool(lower), bool(unit_diagonal)))


def _hermitian(a: Any, lower: bool) -> Any:
    """The Hermitian matrix of which one triangle is read."""
    return full_hermitian(a if lower else adjoint(a))


_STRUCTURES = {
    "sym": "symmetric", "her": "hermitian", "pos": "positive definite", "gen": "general", "upper triangular": "upper",
    "lower triangular": "lower",
}  # fmt: skip


def _structured(a: Any, assume_a: Any, lower: bool) -> Any:
    """The matrix that `solve` and `inv` make of `a`, reading a part of it."""
    kind = _STRUCTURES.get(assume_a, assume_a)
    if kind in (None, "general", "banded"):
        return a
    if kind in ("symmetric", "hermitian", "positive definite"):
        if kind == "symmetric" and a.dtype.kind == "c":
            half = np.tril(a, -1) if lower else np.triu(a, 1)
            return half + transposed(half) + a * np.eye(a.shape[-1], dtype=bool)
        return _hermitian(a, lower)
    n = a.shape[-1]
    bands = {"upper": (0, n), "lower": (n, 0), "diagonal": (0, 0), "tridiagonal": (1, 1)}
    if kind not in bands:
        raise ValueError(f"{assume_a} is not a recognized matrix structure")
    low, high = bands[kind]
    return a * (np.tri(n, k=high, dtype=bool) & ~np.tri(n, k=-low - 1, dtype=bool))


_ASSUMED = ("gen", "sym", "her", "pos", "tridiagonal", "diagonal", "upper triangular", "lower triangular")


@declared("solve",
    regular((3, 3), (3,)), regular((3, 3), (3, 2)), regular((3, 3), (3,), transposed=True), regular((2, 3, 3), (2, 3, 2)),
    *(_definite(3, (3,), assume_a=kind) for kind in _ASSUMED), _definite(3, (3,), assume_a="pos", lower=True),
)  # fmt: skip
def solve(a: Any, b: Any, lower: bool = False, assume_a: Any = None, transposed: bool = False, **_unused: Any) -> Any:
    """`scipy.linalg.solve`; with `assume_a` the derivative is with respect to the part of `a` that is read."""
    a, b = _structured(_array(a), assume_a, lower), _array(b)
    if transposed:
        if a.dtype.kind == "c":
            raise NotImplementedError("scipy.linalg.solve can currently not solve a^T x = b or a^H x = b for complex matrices.")
        a = np.swapaxes(a, -1, -2)
    return np.linalg.solve(a, b)


@declared("inv", regular((3, 3)), regular((2, 3, 3)), _definite(3, assume_a="pos"), _definite(3, assume_a="pos", lower=True))
def inv(a: Any, assume_a: Any = None, lower: bool = False, **_unused: Any) -> Any:
    return np.linalg.inv(_structured(_array(a), assume_a, lower))


@declared("det", regular((3, 3)), regular((2, 3, 3)), Sample(lambda rng: (np.arange(9.0).reshape(3, 3),)))
def det(a: Any, **_unused: Any) -> Any:
    return np.linalg.det(double(a))


@declared(
    "norm",
    Sample(lambda rng: (rng.normal(size=3).tolist(),)),
    *(Sample(lambda rng: (rng.normal(size=(3, 2)).tolist(),), {"ord": p}) for p in (None, 1, 2, "fro", "nuc", np.inf)),
    each((3, 2), axis=1),
)
def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, **_unused: Any) -> Any:
    return _norm(lift(a), ord, axis, keepdims)  # NumPy's own would compare a traced order with 1 and 2


@declared("lstsq", each((4, 2), (4,)), each((4, 2), (4, 3)), each((2, 3), (2,)), core=(2, 2), note="the derivative at constant rank")
def lstsq(a: Any, b: Any, cond: Any = None, lapack_driver: Any = None, **_unused: Any) -> Any:
    refuse("lstsq", lapack_driver=(lapack_driver if lapack_driver not in ("gelsd", "gelss") else None, None))
    a, b = _array(a), _array(b)
    cond = float(np.finfo(np.result_type(a.dtype, b.dtype)).eps) if cond is None else cond
    x, residuals, rank, s = np.linalg.lstsq(a, b, cond)
    return x, residuals[0] if b.ndim == 1 and residuals.shape[0] else residuals, rank.astype(np.int64), s


@declared("pinv", each((3, 2)), each((2, 3)), regular((3, 3)), each((3, 2), atol=0.01), note="the derivative at constant rank")
def pinv(a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False, **_unused: Any) -> Any:
    a = _array(a)
    s = np.linalg.svdvals(a)
    largest = np.max(s, axis=-1, initial=0.0)
    rtol = max(a.shape[-2:]) * np.finfo(s.dtype).eps if rtol is None and not atol else rtol or 0.0
    threshold = (0.0 if atol is None else atol) + largest * rtol
    out = np.linalg.pinv(a, rcond=threshold / np.maximum(largest, np.finfo(s.dtype).tiny))
    return (out, np.sum(s > np.expand_dims(threshold, -1), axis=-1)) if return_rank else out


@declared("pinvh", _definite(3), _definite(3, lower=False))
def pinvh(a: Any, atol: Any = None, rtol: Any = None, lower: bool = True, return_rank: bool = False, **_unused: Any) -> Any:
    return pinv(_hermitian(_array(a), lower), atol=atol, rtol=rtol, return_rank=return_rank)


@declared("cholesky", _definite(3), _definite(3, lower=True), note="one triangle is read")
def cholesky(a: Any, lower: bool = False, **_unused: Any) -> Any:
    return np.linalg.cholesky(_array(a), upper=not lower)


@declared("cho_factor", _definite(3), _definite(3, lower=True), core=(2,))
def cho_factor(a: Any, lower: bool = False, **_unused: Any) -> Any:
    a = _array(a)
    return np.where(_mask(bool(lower), False, a.shape[-1]), cholesky(a, lower), a), np.bool_(lower)


_FACTORED = {char: getattr(lapack, f"{prefix}potrs") for char, prefix in zip("fdFD", "sdcz")}


def _from_factor(c: Any, b: Any, lower: bool) -> Any:
    x, info = _FACTORED[c.dtype.char](c, b, lower=lower)
    if info:
        raise ValueError(f"illegal value in {-info}th argument of internal potrs")
    return x


def _factor_pull(g: Any, ans: Any, c: Any, _b: Any, lower: bool) -> Any:  # of L L^H x = b, or U^H U x = b
    z, read = _chosolve(c, conj(g), lower), _mask(lower, False, c.shape[-1])
    both, factor = z @ adjoint(ans) + ans @ adjoint(z), c * read
    return -conj((both @ factor if lower else factor @ both) * read)


_chosolve: Any = general(
    "scipy.linalg.cho_solve", _from_factor, _factor_pull, lambda g, _ans, c, _b, lower: conj(_chosolve(c, conj(g), lower))
)


def _factored(draw: Callable[[Any, bool], Any]) -> list[Sample]:
    """Samples of factors, upper and lower, and a right side."""
    return [
        Sample(functools.partial(lambda low, rng: ((draw(rng, low), low), rng.normal(size=(4, 2))), low), wrt=(1,)) for low in (False, True)
    ]


@declared("cho_solve", *_factored(lambda rng, _low: rng.normal(size=(4, 4)) + 4 * np.eye(4)))
def cho_solve(c_and_lower: Any, b: Any, **_unused: Any) -> Any:
    c, lower = c_and_lower
    c, b = _array(c), _array(b)
    if c.dtype == b.dtype and b.size and c.ndim == 2 and c.shape == b.shape[:1] * 2 and b.ndim in (1, 2):
        return _vector(b, lambda b: _chosolve(c, b, bool(lower)))
    first, second = ("N", "C") if lower else ("C", "N")
    return solve_triangular(c, solve_triangular(c, b, first, lower), second, lower)


# bands: ab[u + i - j, j] is a[i, j]


def _rows(count: int, n: int, upper: int) -> tuple[Any, Any]:
    """For each place of the bands the row of the matrix, and whether there is one."""
    rows = np.arange(n) + np.arange(count)[:, None] - upper
    return np.clip(rows, 0, max(n - 1, 0)), (rows >= 0) & (rows < n)


def _flipped(ab: Any, lower: int, upper: int) -> Any:
    columns, inside = _rows(lower + upper + 1, ab.shape[-1], lower)
    return ab[(lower + upper - np.arange(lower + upper + 1))[:, None], columns] * inside


def _banded_first(g: Any, ans: Any, ab: Any, _b: Any, lower: int, upper: int, _check: bool) -> Any:
    rows, inside = _rows(ab.shape[0], ab.shape[1], upper)
    return -np.sum(_banded(_flipped(ab, lower, upper), g, upper, lower, False)[rows] * ans, axis=-1) * inside


_banded: Any = general(
    "scipy.linalg.solve_banded",
    lambda ab, b, lower, upper, check: _scipy.solve_banded((lower, upper), ab, b, check_finite=check),  # b is a matrix
    _banded_first,
    lambda g, _ans, ab, _b, lower, upper, _check: _banded(_flipped(ab, lower, upper), g, upper, lower, False),
)
_BANDS = Sample(lambda rng: ((1, 2), rng.normal(size=(4, 5)) + 5 * np.eye(4)[[2]].T, rng.normal(size=(5, 2))), wrt=(1, 2))


@declared(
    "solve_banded",
    _BANDS,
    Sample(lambda rng: ((1, 1), rng.normal(size=(3, 4)) + 4 * np.eye(3)[[1]].T, rng.normal(size=4)), wrt=(1, 2)),
    core=(0, 2, 2),
)
def solve_banded(l_and_u: Any, ab: Any, b: Any, check_finite: bool = True, **_unused: Any) -> Any:
    """`scipy.linalg.solve_banded`, in linear time, its derivative too."""
    return _vector(b, lambda c: _banded(_array(ab), c, *map(int, l_and_u), check_finite))


def _both_halves(ab: Any, lower: bool) -> tuple[Any, int]:
    """All the bands of a Hermitian matrix, of which the lower or the upper are given; and how many there are above."""
    k = ab.shape[0] - 1
    if not lower:
        ab = conj(_flipped(np.concatenate([ab, np.zeros((k, ab.shape[1]), ab.dtype)], axis=0), k, k))[k:] if k else ab
    above = conj(_flipped(np.concatenate([np.zeros((k, ab.shape[1]), ab.dtype), ab], axis=0), k, k))[:k]
    return np.concatenate([above, np.real(ab[:1]).astype(ab.dtype), ab[1:]], axis=0), k


def _dense(ab: Any, upper: int) -> Any:
    n = ab.shape[1]
    k = upper + np.arange(n)[:, None] - np.arange(n)
    return ab[np.clip(k, 0, ab.shape[0] - 1), np.arange(n)] * ((k >= 0) & (k < ab.shape[0]))


def _half(n: int, *shapes: tuple[int, ...], **kwargs: Any) -> Sample:
    row = 0 if kwargs.get("lower") else 1
    return Sample(
        lambda rng: (0.3 * rng.normal(size=(2, n)) + np.eye(2)[[row]].T * (3 + np.arange(n)), *(rng.normal(size=s) for s in shapes)),
        kwargs,
        tuple(range(1 + len(shapes))),
    )


@declared("solveh_banded", _half(4, (4,)), _half(4, (4, 2), lower=True), core=(2, 2))
def solveh_banded(ab: Any, b: Any, lower: bool = False, **_unused: Any) -> Any:
    full, k = _both_halves(_array(ab), lower)
    return solve_banded((k, k), full, b)


@declared("cholesky_banded", _half(4), _half(4, lower=True), core=(2,))
def cholesky_banded(ab: Any, lower: bool = False, **_unused: Any) -> Any:
    """`scipy.linalg.cholesky_banded`, by the dense matrix."""
    full, k = _both_halves(_array(ab), lower)
    factor = np.linalg.cholesky(_dense(full, k), upper=not lower)
    rows, inside = _rows(k + 1, factor.shape[0], 0 if lower else k)
    return np.where(inside, factor[rows, np.arange(factor.shape[0])], lift(ab))


@declared("cho_solve_banded", *_factored(lambda rng, low: rng.normal(size=(2, 4)) + np.eye(2)[[0 if low else 1]].T * 4))
def cho_solve_banded(cb_and_lower: Any, b: Any, **_unused: Any) -> Any:
    cb, lower = _array(cb_and_lower[0]), cb_and_lower[1]
    k = cb.shape[0] - 1
    shape = (k, 0) if lower else (0, k)
    other = conj(_flipped(cb, *shape))
    first, second = (cb, other) if lower else (other, cb)
    return solve_banded((0, k), second, solve_banded((k, 0), first, b))
