"""Functions of matrices, matrix equations, and matrices made of vectors.

A function of a matrix has its derivative in a block of the same function: f([[A, E], [0, A]]) has f'(A)[E] in its corner (Higham
2008, "Functions of matrices", theorem 3.6).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg as _scipy

from functrace.core.reverse import fit
from functrace.ops.create import lift
from functrace.ops.functions import refuse
from functrace.ops.gauge import adjoint, conj, transposed
from functrace.ops.kinds import general
from functrace.ops.registry import Sample, each, one
from functrace.optimize import implicit
from functrace.scipy._linalg_systems import _apart, _array, declared
from functrace.scipy._shared import double, one_of


def _derivative(f: Any, x: Any, e: Any, *params: Any) -> Any:
    """The derivative of a function of matrices at x in the direction e."""
    n = x.shape[-1]
    zero = np.zeros(x.shape, np.result_type(x.dtype, e.dtype))
    top, bottom = np.concatenate([x + zero, e + zero], axis=-1), np.concatenate([zero, x + zero], axis=-1)
    return f(np.concatenate([top, bottom], axis=-2), *params)[..., :n, n:]


def _function(name: str, fun: Any) -> Any:
    op: Any = general(
        f"scipy.linalg.{name}",
        fun,
        lambda g, _ans, x, *params: fit(transposed(_derivative(op, double(x), transposed(double(g)), *params)), x),
        jvps=(lambda t, ans, x, *params: _derivative(op, double(x), double(t), *params).astype(ans.dtype),),
        stacks=2,
    )
    return op


def _still(fun: Any) -> Any:
    """`fun`, which estimates norms by random numbers, without a trace in NumPy's global generator: for `jit` it draws none."""

    def run(*args: Any) -> Any:
        state = np.random.get_state(legacy=False)  # noqa: NPY002
        try:
            return fun(*args)
        finally:
            np.random.set_state(state)  # noqa: NPY002

    return run


_expm = _function("expm", _scipy.expm)
_logm = _function("logm", _still(_scipy.logm))
_power = _function("fractional_matrix_power", _still(_scipy.fractional_matrix_power))
_SMALL = [Sample(lambda rng: (0.5 * rng.normal(size=(3, 3)),)), Sample(lambda rng: (0.3 * np.eye(2),))]
_POSITIVE = Sample(lambda rng: (0.3 * rng.normal(size=(3, 3)) + 2 * np.diag([1.0, 2.0, 3.0]),))


@declared("expm", *_SMALL, Sample(lambda rng: (0.5 * rng.normal(size=(2, 2, 2)),)))
def expm(A: Any) -> Any:
    return _expm(_array(A))


@declared(
    "expm_frechet",
    Sample(lambda rng: (0.5 * rng.normal(size=(3, 3)), rng.normal(size=(3, 3))), wrt=(0, 1)),
    each((2, 2), (2, 2), compute_expm=False),
    core=(2, 2),
)
def expm_frechet(A: Any, E: Any, method: Any = None, compute_expm: bool = True, check_finite: bool = True) -> Any:
    one_of("method", method, None, "SPS", "blockEnlarge")
    A, E = double(A), double(E)
    out = _derivative(_expm, A, E)
    return (_expm(A), out) if compute_expm else out


def _of_parts(take: Any, turn: complex) -> Any:
    """A function of half the sum, and half the difference, of exp(turn A) and exp(-turn A)."""

    def function(A: Any) -> Any:
        A = _array(A)
        ahead, behind = _expm(turn * A), _expm(-turn * A)
        even, odd = (ahead + behind) / 2, (ahead - behind) / (2 * turn)
        return take(even, odd) if A.dtype.kind == "c" or not isinstance(turn, complex) else take(even.real, odd.real)

    return function


for _turn, _names in ((1j, "cosm sinm tanm"), (1, "coshm sinhm tanhm")):
    for _name, _take in zip(_names.split(), (lambda even, _odd: even, lambda _even, odd: odd, np.linalg.solve)):
        declared(_name, *_SMALL)(_of_parts(_take, _turn))


@declared("logm", _POSITIVE)
def logm(A: Any, *disp: Any) -> Any:
    return _logm(_array(A))


_sqrtm: Any = general(  # X dX + dX X = dA
    "scipy.linalg.sqrtm",
    _scipy.sqrtm,
    lambda g, ans, _x: fit(_sylvester(transposed(ans), transposed(ans), g), _x),  # of a real matrix the root may be complex
    jvps=(lambda t, ans, _x: _sylvester(ans, ans, t + 0 * ans),),
)


@declared("sqrtm", _POSITIVE)
def sqrtm(A: Any, *disp: Any) -> Any:
    return _sqrtm(_array(A))


@declared(
    "fractional_matrix_power",
    *(Sample(_POSITIVE.args, {"t": t}) for t in (0.5, -0.7, 2.3)),
    Sample(lambda rng: (*_POSITIVE.args(rng), 0.4), wrt=(0, 1)),
)
def fractional_matrix_power(A: Any, t: Any) -> Any:
    """`scipy.linalg.fractional_matrix_power`; the power may be traced too."""
    if hasattr(t, "owner"):
        return _expm(t * _logm(_array(A)))
    return _power(_array(A), float(t))


@declared("polar", _apart(3, 3), _apart(3, 3, side="left"), _apart(4, 2), _apart(2, 4, side="left"))
def polar(a: Any, side: str = "right") -> Any:
    one_of("side", side, "right", "left")
    w, s, vh = np.linalg.svd(_array(a), full_matrices=False)
    left = side == "left"
    return w @ vh, (w * s[..., None, :]) @ adjoint(w) if left else (adjoint(vh) * s[..., None, :]) @ vh


# spaces


@declared("orth", _apart(4, 2), _apart(3, 3), core=(2,))
def orth(A: Any, rcond: Any = None) -> Any:
    """`scipy.linalg.orth`, at constant rank."""
    A = _array(A)
    u, s, _ = np.linalg.svd(A, full_matrices=False)
    return u[..., :, : _rank(s, A.shape, rcond)]


@declared("null_space", _apart(2, 3), core=(2,), note="of several dimensions only through the projector, since the basis is a choice")
def null_space(A: Any, rcond: Any = None, **_unused: Any) -> Any:
    """`scipy.linalg.null_space`, at constant rank."""
    A = _array(A)
    _, s, vh = np.linalg.svd(A, full_matrices=True)
    return adjoint(vh[..., _rank(s, A.shape, rcond) :, :])


def _rank(s: Any, shape: tuple[int, ...], rcond: Any) -> int:
    rcond = np.finfo(s.dtype).eps * max(shape[-2:]) if rcond is None else rcond
    return int(np.sum(s > np.max(s) * rcond))


@declared("subspace_angles", each((4, 2), (4, 2)), each((5, 2), (5, 1)), core=(2, 2))
def subspace_angles(A: Any, B: Any) -> Any:
    """`scipy.linalg.subspace_angles` (Knyazev and Argentati 2002)."""
    a, b = orth(A), orth(B)
    inner = adjoint(a) @ b
    cosines = np.linalg.svdvals(inner)
    rest = b - a @ inner if a.shape[1] >= b.shape[1] else a - b @ adjoint(inner)
    sines = np.linalg.svdvals(rest)
    near = cosines**2 >= 0.5
    one = cosines.dtype.type(0.5)
    near_angles = np.arcsin(np.where(near[::-1] | (sines < 0.9), np.minimum(sines, 1.0), one))
    return np.where(near, near_angles[::-1], np.arccos(np.where(near, one, np.minimum(cosines, 1.0))))[::-1]


@declared("orthogonal_procrustes", _apart(3, 3, (3, 3)), each((4, 2), (4, 2)), core=(2, 2))
def orthogonal_procrustes(A: Any, B: Any, check_finite: bool = True) -> Any:
    u, w, vt = np.linalg.svd(transposed(transposed(_array(B)) @ conj(_array(A))))
    return u @ vt, np.sum(w)


# matrix equations


def _solved_sylvester(*matrices: Any) -> Any:
    dtype = np.result_type(*matrices)  # SciPy mistakes the Schur form of a real matrix beside complex ones
    return _scipy.solve_sylvester(*(x.astype(dtype, copy=False) for x in matrices))


_sylvester: Any = general(
    "scipy.linalg.solve_sylvester",  # A X + X B = Q
    _solved_sylvester,
    lambda g, ans, a, b, _q: -_sylvester(transposed(a), transposed(b), g) @ transposed(ans),
    lambda g, ans, a, b, _q: -transposed(ans) @ _sylvester(transposed(a), transposed(b), g),
    lambda g, _ans, a, b, _q: _sylvester(transposed(a), transposed(b), g),
    jvps=(
        lambda t, ans, a, b, _q: -_sylvester(a, b, t @ ans),
        lambda t, ans, a, b, _q: -_sylvester(a, b, ans @ t),
        lambda t, _ans, a, b, _q: _sylvester(a, b, t),
    ),
)


def _stable(*shapes: tuple[int, ...], **kwargs: Any) -> Sample:
    return Sample(
        lambda rng: tuple(0.2 * rng.normal(size=s) + (0.5 if k == 0 else 0.8) * np.eye(s[0], s[1]) for k, s in enumerate(shapes)),
        kwargs,
        tuple(range(len(shapes))),
    )


@declared(
    "solve_sylvester",
    Sample(lambda rng: (rng.normal(size=(3, 3)) + 3 * np.eye(3), rng.normal(size=(2, 2)), rng.normal(size=(3, 2))), wrt=(0, 1, 2)),
)
def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    return _sylvester(*(_array(x) for x in (a, b, q)))


@declared("solve_continuous_lyapunov", _stable((3, 3), (3, 3)))
def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """`scipy.linalg.solve_continuous_lyapunov`: A X + X A^H = Q."""
    a, q = (np.atleast_2d(_array(x)) for x in (a, q))
    return _sylvester(a, adjoint(a), q)


declared("solve_lyapunov", _stable((3, 3), (3, 3)))(lambda a, q: solve_continuous_lyapunov(a, q))


@declared("solve_discrete_lyapunov", _stable((3, 3), (3, 3)), _stable((3, 3), (3, 3), method="bilinear"), core=(2, 2))
def solve_discrete_lyapunov(a: Any, q: Any, method: Any = None) -> Any:
    """`scipy.linalg.solve_discrete_lyapunov`: A X A^H - X + Q = 0."""
    one_of("method", method, None, "direct", "bilinear")
    a, q = double(a), double(q)
    n = a.shape[0]
    eye = np.eye(n, dtype=a.dtype)
    if method == "direct" or method is None and n < 10:
        system = np.eye(n * n, dtype=a.dtype) - np.kron(a, conj(a))
        return np.reshape(np.linalg.solve(system, np.reshape(q, n * n)), (n, n))
    right = np.linalg.inv(adjoint(a) + eye)
    b = (adjoint(a) - eye) @ right
    return _sylvester(adjoint(b), b, -2 * np.linalg.inv(a + eye) @ q @ right)


def _riccati(name: str, residual: Any) -> None:
    """Declare a Riccati equation, whose solution SciPy finds and whose derivative follows from its `residual(x, a, b, q, r)`."""
    solver = getattr(_scipy, name)

    def solve(a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True) -> Any:
        refuse(name, e=(e, None), s=(s, None))
        params = tuple(np.atleast_2d(_array(x)) for x in (a, b, q, r))
        n = params[0].shape[0]
        if any(x.dtype.kind == "c" for x in params):
            refuse(f"{name} of complex matrices", a=(a, None))
        flat = implicit(
            lambda x, p: np.reshape(residual(np.reshape(x, (n, n)), *p), n * n),
            lambda _x0, p: np.reshape(solver(*p, balanced=balanced), n * n),
            np.zeros(n * n),
            params,
        )
        return np.reshape(flat, (n, n))

    solve.__doc__ = f"`scipy.linalg.{name}`, of real matrices, without `e` and `s`."
    sample = Sample(
        lambda rng: (0.5 * rng.normal(size=(2, 2)), rng.normal(size=(2, 1)), np.diag([1.0, 2.0]), np.array([[1.5]])), wrt=(0, 1)
    )
    declared(name, sample, core=(2, 2, 2, 2))(solve)


def _discrete(x: Any, a: Any, b: Any, q: Any, r: Any) -> Any:
    inner = b.T @ x @ a
    return a.T @ x @ a - x - (a.T @ x @ b) @ np.linalg.solve(r + b.T @ x @ b, inner) + q


_riccati("solve_continuous_are", lambda x, a, b, q, r: a.T @ x + x @ a - x @ b @ np.linalg.solve(r, b.T @ x) + q)
_riccati("solve_discrete_are", _discrete)


# matrices made of vectors


def _cat(*parts: Any) -> Any:
    return np.concatenate(parts, axis=-1)


def _arranged(name: str, vectors: tuple[Any, ...], *rest: Any) -> Any:
    """The matrix that SciPy makes of vectors: where it puts the numbers of their elements go the elements, elsewhere 0."""
    ends = np.cumsum([1, *(v.shape[-1] for v in vectors)])
    places = getattr(_scipy, name)(*map(np.arange, ends, ends[1:]), *rest)
    return _cat(np.zeros((*vectors[0].shape[:-1], 1), vectors[0].dtype), *vectors)[..., places]


def _monic(name: str, a: Any) -> Any:
    """The matrix that SciPy makes of the coefficients of a polynomial, divided by the first, in whose place 1 stands."""
    k = np.arange(1, a.shape[0] + 1)
    places = getattr(_scipy, name)(np.where(k > 1, -k, k)).astype(int)
    return _cat(np.array([0, 1], a.dtype), -a[1:] / (1.0 * a[:1]))[places]


@declared("toeplitz", each((3,)), each((3,), (4,)))
def toeplitz(c: Any, r: Any = None) -> Any:
    c = np.atleast_1d(lift(c))
    return _arranged("toeplitz", (c, conj(c) if r is None else np.atleast_1d(lift(r))))


@declared("hankel", each((3,)), each((3,), (4,)))
def hankel(c: Any, r: Any = None) -> Any:
    return _arranged("hankel", tuple([np.ravel(lift(v)) for v in (c, r) if v is not None]))


declared("circulant", each((3,)), each((2, 3)), core=(1,))(lambda c: _arranged("circulant", (c,)))
declared("leslie", each((3,), (2,)), core=(1, 1))(lambda f, s: _arranged("leslie", (f, s)))
declared("convolution_matrix", *(each((3,), n=5, mode=mode) for mode in ("full", "same", "valid")), core=(1, 0))(
    lambda a, n, mode="full": _arranged("convolution_matrix", (a,), n, mode)
)
declared("diagsvd", one(3, M=3, N=4), one(3, M=4, N=3), core=(1, 0, 0))(lambda s, M, N: _arranged("diagsvd", (s,), M, N))
for _name in ("companion", "fiedler_companion"):
    declared(_name, Sample(lambda rng: (rng.normal(size=5) + np.array([3, 0, 0, 0, 0]),)), core=(1,))(
        lambda a, _name=_name: _monic(_name, a)
    )


@declared("fiedler", each((3,)), core=(1,))
def fiedler(a: Any) -> Any:
    return np.abs(a[:, None] - a)


@declared("block_diag", each((2, 2), (1, 3)), each((2,), (2, 1), ()))
def block_diag(*arrs: Any) -> Any:
    blocks = [a if len(a.shape) > 1 else np.atleast_2d(a) for a in map(lift, arrs or ([],))]
    stacks = {b.shape[:-2] for b in blocks}
    if len(stacks) > 1:
        stack = np.broadcast_shapes(*stacks)
        blocks = [np.broadcast_to(b, (*stack, *b.shape[-2:])) for b in blocks]
    width = sum(b.shape[-1] for b in blocks)
    rows, start = [], 0
    for b in blocks:
        left, right = (np.zeros((*b.shape[:-1], n), b.dtype) for n in (start, width - start - b.shape[-1]))
        rows.append(np.concatenate([left, b, right], axis=-1))
        start += b.shape[-1]
    return np.concatenate(rows, axis=-2)


@declared("khatri_rao", each((3, 2), (4, 2)), core=(2, 2))
def khatri_rao(a: Any, b: Any) -> Any:
    """`scipy.linalg.khatri_rao`: the Kronecker products of the columns."""
    return np.reshape(a[:, None, :] * b[None], (-1, a.shape[1]))


def _pair(c_or_cr: Any) -> tuple[Any, Any]:
    return (lift(c_or_cr[0]), lift(c_or_cr[1])) if isinstance(c_or_cr, tuple) else (lift(c_or_cr), None)


_TOEPLITZ = [
    Sample(lambda rng: (rng.normal(size=3) + np.array([4, 0, 0]), rng.normal(size=3)), wrt=(0, 1)),
    Sample(lambda rng: ((rng.normal(size=3) + np.array([4, 0, 0]), rng.normal(size=3)), rng.normal(size=(3, 2))), wrt=(0, 1)),
]


@declared("solve_toeplitz", *_TOEPLITZ)
def solve_toeplitz(c_or_cr: Any, b: Any, check_finite: bool = True) -> Any:
    """`scipy.linalg.solve_toeplitz`, by the dense matrix."""
    return np.linalg.solve(double(toeplitz(*_pair(c_or_cr))), double(b))


@declared("matmul_toeplitz", *_TOEPLITZ)
def matmul_toeplitz(c_or_cr: Any, x: Any, check_finite: bool = False, workers: Any = None) -> Any:
    """`scipy.linalg.matmul_toeplitz`, by the dense matrix."""
    return double(toeplitz(*_pair(c_or_cr))) @ double(x)


@declared(
    "solve_circulant",
    _TOEPLITZ[0],
    Sample(lambda rng: (rng.normal(size=(2, 3)) + 4 * np.eye(1, 3), rng.normal(size=(3, 2))), wrt=(0, 1)),
    Sample(
        lambda rng: (rng.normal(size=(3, 2)) + 4 * np.eye(3, 1), rng.normal(size=(4, 3, 2))),
        {"caxis": 0, "baxis": 1, "outaxis": -1},
        (0, 1),
    ),
)
def solve_circulant(c: Any, b: Any, singular: str = "raise", tol: Any = None, caxis: int = -1, baxis: int = 0, outaxis: int = 0) -> Any:
    """`scipy.linalg.solve_circulant`: Fourier transforms make the matrix diagonal."""
    refuse("solve_circulant", singular=(singular, "raise"))
    c, b = np.moveaxis(np.atleast_1d(lift(c)), caxis, -1), np.moveaxis(np.atleast_1d(lift(b)), baxis, -1)
    if c.shape[-1] != b.shape[-1]:
        raise ValueError(f"solve_circulant: {c.shape[-1]} elements of c along caxis, but {b.shape[-1]} of b along baxis.")
    values = np.fft.fft(c)
    size = np.abs(values)
    if np.any(size <= (np.max(size, -1, keepdims=True) * c.shape[-1] * np.finfo(float).eps if tol is None else tol)):
        raise np.linalg.LinAlgError("near singular circulant matrix.")
    x = np.fft.ifft(np.fft.fft(b) / values)
    return np.moveaxis(x if "c" in c.dtype.kind + b.dtype.kind else x.real, -1, outaxis)
