"""What derivatives of eigenvectors and singular vectors have in common: ties, and the choice of phases.

Vectors of equal eigenvalues, and the phases of complex ones, are a choice (a gauge). A result that does not depend on it has
a derivative though the vectors have none, and then the terms in question vanish: they are masked. It is decided on values:

- in reverse mode the cotangent tells. If the eigenvalues are used as well, a term 0/0 may hide a limit other than zero (in a
  matrix function V f(w) V^H it is f'(w)), so then the whole block of the tied vectors must vanish; otherwise `DegenerateError`.
- in forward mode nothing tells what the vectors are used for: tangents that do not exist are NaN.

The phase is LAPACK's where it makes one component real (found by looking), so the derivative is that of the numbers returned.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from functrace import errors
from functrace.core.tracer import Tracer, value
from functrace.ops.kinds import general, undeclared_constant


def transposed(x: Any) -> Any:
    """The transpose of the last two axes."""
    return x.swapaxes(-1, -2)


def adjoint(x: Any) -> Any:
    """The conjugate transpose of the last two axes."""
    return np.conjugate(transposed(x)) if x.dtype.kind == "c" else transposed(x)


def conj(x: Any) -> Any:
    """The complex conjugate; a real array as it is."""
    return np.conjugate(x) if x.dtype.kind == "c" else x


def real(x: Any) -> Any:
    """The real part; a real array as it is."""
    return np.real(x) if x.dtype.kind == "c" else x


def diagonal(x: Any) -> Any:
    """The diagonal of the last two axes."""
    return np.diagonal(x, axis1=-2, axis2=-1)


def some(x: Any) -> bool:
    """Whether any element is true, in any example of any batch."""
    return bool(np.asarray(value(x)).any())


def _precision(x: Any) -> float:
    return float(np.finfo(x.dtype).eps)


def small(x: Any, values: Any) -> Any:
    """Where |x| is rounding error, compared with the largest of the (eigen)values on the last axis."""
    if not values.shape[-1]:
        return np.abs(x) <= 0
    tolerance = 8 * values.shape[-1] * _precision(values)
    return np.abs(x) <= tolerance * np.abs(values).max(axis=-1)[..., None, None]


def _negligible(x: Any, scale: Any) -> Any:
    return ~(np.abs(x) > np.sqrt(_precision(x)) * np.max(np.abs(scale), axis=(-2, -1), keepdims=True)) if scale.size else np.abs(x) <= 0


def _kept(make: Any) -> Any:
    """`make(n, ...)`, of which what it made for small n is kept."""
    found = lru_cache(maxsize=64)(make)
    return lambda n, *rest: (found if n <= 64 else make)(n, *rest)


@_kept
def off_diagonal(n: int) -> Any:
    """A mask of what is not on the diagonal."""
    return ~np.eye(n, dtype=bool)


@_kept
def under(n: int, k: int = -1) -> Any:
    """A mask of the kth diagonal of a square matrix, and of what is below it."""
    return np.tri(n, k=k, dtype=bool)


@_kept
def half_triangle(n: int, dtype: Any) -> Any:
    """The weights that make of a matrix its lower triangle, and half of the diagonal."""
    return np.tri(n, k=-1, dtype=dtype) + np.eye(n, dtype=dtype) / 2


def check(where: Any, must_vanish: Any, scale: Any, what: str) -> None:
    """Raise unless `must_vanish` is negligible beside `scale`, the cotangent of the vectors, `where` these can be chosen."""
    if some(where) and some(where & ~_negligible(must_vanish, scale)):
        raise errors.DegenerateError(
            f"{what}: vectors that belong to equal values, or fill up a space, have no derivative, and the result depends on them.\n"
            "  Use the values only (eigvalsh, svdvals), a function of the matrix with a rule of its own (inv, pinv, det, solve, norm),\n"
            "  or remove the tie by adding a small known diagonal matrix."
        )


def ratio(numerator: Any, denominator: Any, zero: Any) -> Any:
    """numerator / denominator, and 0 where the denominator is `zero`."""
    return np.where(zero, 0, numerator / np.where(zero, 1, denominator))


def doubtful(zero: Any, numerator: Any, scale: Any) -> Any:
    """Where a tangent would divide a `numerator` that is not negligible by zero."""
    return zero & ~_negligible(numerator, scale)


def unknown(vectors: Any, doubt: Any) -> Any:
    """Tangents of vectors (columns), NaN where they do not exist."""
    return np.where(np.any(doubt, axis=-2)[..., None, :], np.nan, vectors) if some(doubt) else vectors


def in_phase(turn: Any, candidates: tuple[tuple[Any, Any, int], ...], what: str) -> list[Any]:
    """The (conjugated) cotangents of complex vectors, given the phases that LAPACK chose: it made one component of each real.

    `turn`: how much the result changes when a vector is turned. `candidates`: cotangents, vectors, and the row that may be real.
    If none is, the result must not depend on the phases.
    """
    for k, (_, vectors, row) in enumerate(candidates):
        if not turn.size:
            break
        pivot = vectors[..., row, :]
        rounding = 64 * _precision(pivot)
        if not some(np.abs(np.imag(pivot)) > rounding) and not some(np.abs(pivot) <= rounding):
            unit = np.zeros((vectors.shape[-2], 1), np.real(pivot).dtype)
            unit[row] = 1
            return [bar - 1j * unit * (turn / np.real(pivot))[..., None, :] if j == k else bar for j, (bar, _, _) in enumerate(candidates)]
    check_phase(turn, candidates[0][0], what)
    return [bar for bar, _, _ in candidates]


def check_phase(turn: Any, scale: Any, what: str) -> None:
    """Raise if turning the vectors changes the result."""
    if turn.size and some(~_negligible(turn[..., None, :], scale)):
        raise errors.DegenerateError(
            f"{what}: the result depends on the phases of the complex vectors, which are arbitrary.\n"
            "  Use only what does not: absolute values, or products v v^H."
        )


def _weights(found: Any, like: Any, lower: bool) -> Any:
    """The weight of each element in the sum of a cotangent and its adjoint."""
    if not isinstance(found, Tracer) and found.all():
        return 0.5
    n, dtype = like.shape[-1], real(like).dtype
    side = half_triangle(n, dtype)
    return np.where(found, 0.5, side if lower else side.T)


def _mirror(t: Any, _ans: Any, _x: Any, found: Any, lower: bool) -> Any:
    half = t * _weights(found, t, lower)
    return half + adjoint(half)


mirror: Any = general(
    "mirror",
    lambda x, _found, _lower: x,
    lambda g, _ans, _x, found, lower: (g + adjoint(g)) * _weights(found, g, lower),
    None,
    jvps=(_mirror, None),
    stacks=2,
)


def _hermitian_ones(x: Any) -> Any:
    off = x - adjoint(x)
    if isinstance(off, np.ndarray) and not off.any():  # to the last bit, as most are
        return np.ones((*x.shape[:-2], 1, 1), bool)
    scale = np.maximum.reduce(np.abs(x), axis=(-2, -1), keepdims=True, initial=0.0)
    return np.logical_and.reduce(np.abs(off) <= 64 * _precision(x) * scale, axis=(-2, -1), keepdims=True)


_are_hermitian = undeclared_constant("are_hermitian", _hermitian_ones)  # an op: a program decides anew, and looks at no matrix


def check_square(x: Any) -> None:
    """Raise NumPy's errors unless an array is a stack of square matrices."""
    if x.ndim < 2:
        raise np.linalg.LinAlgError(f"{x.ndim}-dimensional array given. Array must be at least two-dimensional")
    if x.shape[-1] != x.shape[-2]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")


def hermitian(x: Any, lower: bool) -> Any:
    """`x` for a function that reads one triangle of it.

    Where the value is Hermitian, so is taken to be the argument, and the gradient is Hermitian too, as in JAX and PyTorch. Where it
    is not, the derivative is with respect to the triangle that is read. Under a Hermitian parametrisation both are the same.
    """
    check_square(x)
    return mirror(x, _are_hermitian(x), lower) if x.dtype.kind in "fc" else x


def full_hermitian(x: Any) -> Any:
    """`x`, of which a function reads the lower triangle, with the upper one made to fit."""
    check_square(x)
    found = _are_hermitian(x) if x.dtype.kind in "fc" else np.False_
    same = mirror(x, found, True) if x.dtype.kind in "fc" else x
    if not isinstance(found, Tracer) and np.all(found):
        return same
    low = np.tril(x, -1)
    return np.where(found, same, low + adjoint(low) + real(x) * np.eye(x.shape[-1], dtype=bool))
