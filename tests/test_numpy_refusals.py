"""What NumPy refuses is refused of traced values too, by an error of the same kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft

X, CUBE, LINE = np.arange(6.0).reshape(2, 3), np.ones((2, 2, 2)), np.arange(3.0)
CASES = {
    "norm of no order": (np.linalg.norm, LINE, "nuc"),
    "norm of a matrix, of no order": (np.linalg.norm, X, 3),
    "norm over three axes": (np.linalg.norm, CUBE, None, (0, 1, 2)),
    "norm over one axis twice": (np.linalg.norm, X, None, (1, 1)),
    "eigenvalues of what is not square": (np.linalg.eigvalsh, X),
    "a triangle that there is not": (np.linalg.eigh, np.eye(2), "X"),
    "maximum over what is masked": (lambda x: np.max(x, where=x > 1), LINE),
    "a mask of numbers": (lambda x: np.sum(x, where=np.ones(3)), LINE),
    "a mask of another shape": (lambda x: np.sum(x, where=np.ones((2, 3), bool)), LINE),
    "reshape to another size": (np.reshape, X, (4, 2)),
    "reshape to a size that does not divide": (np.reshape, X, (4, -1)),
    "reshape to a broken length": (np.reshape, X, (2.5, 3)),
    "tile by a broken number": (np.tile, X, 2.5),
    "a broken power of a matrix": (np.linalg.matrix_power, np.eye(2), 2.5),
    "diagonal beside a broken number": (np.diagonal, X, 0.5),
    "transpose by an axis twice": (np.transpose, X, (0, 0)),
    "variance along an axis of a number": (np.var, np.float64(2.0), 0),
    "spread along an axis of a number": (np.std, np.float64(2.0), -1),
    "no such axis": (np.cumsum, np.float64(2.0), 1),
    "matrix_transpose of a vector": (np.matrix_transpose, LINE),
    "fliplr of a vector": (np.fliplr, LINE),
    "flipud of a number": (np.flipud, np.float64(2.0)),
    "diag of three axes": (np.diag, CUBE),
    "diagonal of a vector": (np.diagonal, LINE),
    "squeeze of what is long": (np.squeeze, X, 0),
    "moveaxis of two to one": (np.moveaxis, X, (0, 1), (0,)),
    "roll by a table": (np.roll, X, [[1]], 0),
    "take outside": (np.take, LINE, [4]),
    "take in no mode": (np.take, LINE, [1], None, None, "bounce"),
    "choose outside": (lambda x: np.choose([0, 2], [x, x]), np.ones(2)),
    "select of nothing": (lambda x: np.select([], [], x), LINE),
    "select by numbers": (lambda x: np.select([np.ones(3)], [x]), LINE),
    "stack of nothing alike": (lambda x: np.stack([x, x[:2]]), LINE),
    "concatenate by a rule": (lambda x: np.concatenate([x, x], dtype=int, casting="safe"), LINE),
    "split in parts that differ": (np.split, LINE, 2),
    "hsplit of a number": (np.hsplit, np.float64(1.0), 1),
    "quantile beyond 1": (np.quantile, LINE, 1.5),
    "quantile of complex numbers": (np.quantile, LINE + 1j, 0.5),
    "ddof and correction": (lambda x: np.var(x, ddof=1, correction=1), LINE),
    "ddof and correction, without NaN": (lambda x: np.nanstd(x, ddof=1, correction=1), LINE),
    "average of no weight": (lambda x: np.average(x, weights=np.zeros(3)), LINE),
    "covariance of no weight": (lambda x: np.cov(x, aweights=np.zeros(3)), LINE),
    "gradient of too few": (lambda x: np.gradient(x, edge_order=2), LINE[:2]),
    "diff of a negative order": (np.diff, LINE, -1),
    "einsum beyond its letters": (lambda x: np.einsum(x, [60]), LINE),
    "einsum of too few axes": (lambda x: np.einsum("ij->i", x), LINE),
    "convolve of a table": (np.convolve, X, LINE),
    "convolve in no mode": (np.convolve, LINE, LINE, "wide"),
    "counts at broken places": (lambda x: np.bincount(LINE, x), LINE),
    "counts at negative places": (lambda x: np.bincount([0, -1, 2], x), LINE),
    "counts of too few weights": (lambda x: np.bincount([0, 1], x), LINE),
    "histogram of too few weights": (lambda x: np.histogram(X, 2, weights=x), LINE),
    "histogram of no bins": (np.histogram, LINE, 0),
    "histogram of bins out of order": (lambda x: np.histogram(LINE, [0, 2, 1], weights=x), LINE),
    "unstack of a number": (lambda x: np.unstack(x), np.array(1.0)),
    "an FFT in no mode": (lambda x: np.fft.fft2(x, norm="x"), X),
    "an FFT of no length": (lambda x: np.fft.rfft2(x, s=(0, 2)), X),
    "a power of what is not square": (np.linalg.matrix_power, X, 2),
    "reduce by one argument": (np.sin.reduce, LINE),
    "accumulate of two results": (np.divmod.accumulate, LINE),
    "a device that there is not": (lambda x: x.to_device("gpu"), LINE),
    "an imaginary part set": (lambda x: setattr(x, "imag", 1.0), LINE),
    "cross of four components": (np.cross, np.ones(4), np.ones(4)),
    "tensordot over one axis twice": (lambda x: np.tensordot(x, x, ([0, 0], [0, 0])), CUBE),
    "putmask by a mask of another size": (lambda x: np.putmask(x * 1, np.array([True]), [5.0]), LINE),
    "place by a mask of another size": (lambda x: np.place(x * 1, [True, False], [5.0]), LINE),
    "place of nothing": (lambda x: np.place(x * 1, x >= 0, []), LINE),
    "insert of a complex number": (lambda x: np.insert(x, 1, [1j]), LINE),
    "ediff1d to a complex number": (lambda x: np.ediff1d(x, to_end=1j), LINE),
    "pad by a negative width": (np.pad, LINE, -1),
    "pad in no mode": (np.pad, LINE, 1, "bounce"),
    "reduction of what can't be reordered": (lambda x: np.subtract.reduce(x, axis=(0, 1)), X),
    "accumulate of a number": (lambda x: np.add.accumulate(x), np.float64(1.0)),
    "reduceat outside": (lambda x: np.add.reduceat(x, [3]), LINE),
    "astype by a rule": (lambda x: x.astype("f4", casting="safe"), LINE),
    "resize of a view": (lambda x: x[:2].resize(4), LINE),
    "a number in a list of numbers to iterate": (lambda x: list(x), np.array(1.0)),
    "an index that there is not": (lambda x: x[5], LINE),
}


@pytest.mark.parametrize("case", CASES)
def test_numpys_refusals_hold_for_traced_values(case: str) -> None:
    f, x, *rest = CASES[case]
    with pytest.raises(Exception) as plain:
        f(np.array(x), *rest)
    with pytest.raises(plain.type) as traced:
        ft.vjp(lambda x: f(x, *rest), x)
    if case.startswith("reshape"):  # of an example, too
        with pytest.raises(plain.type) as mapped:
            ft.vmap(lambda x: f(x, *rest))(np.stack([x, x]))
        assert str(traced.value) == str(mapped.value) == str(plain.value)


WRITES = {
    "put": lambda x: np.put(x, [0], 300),
    "putmask": lambda x: np.putmask(x, x > 0, 300),
    "place": lambda x: np.place(x, x > 0, [300, 1]),
    "copyto": lambda x: np.copyto(x, -129),
    "fill_diagonal": lambda x: np.fill_diagonal(x.reshape(1, 3), 300),
    "put_along_axis": lambda x: np.put_along_axis(x, np.array([0]), 300, 0),
    "insert": lambda x: np.insert(x, 0, 300),
    "full_like": lambda x: np.full_like(x, 300),
    "piecewise": lambda x: np.piecewise(x, [x > 0], [300]),
}


@pytest.mark.parametrize("name", WRITES)
def test_an_integer_that_does_not_fit_is_not_written(name: str) -> None:
    f = lambda x: WRITES[name](x.astype(np.int8))
    if name in ("copyto", "full_like") and np.__version__.startswith("2.0."):
        pytest.skip("NumPy 2.0 wraps what these are given, as it wraps NumPy's own integers")
    with pytest.raises(OverflowError) as plain:
        f(LINE)
    for traced in (lambda: ft.vjp(f, LINE), lambda: ft.vmap(f)(np.stack([LINE, LINE]))):
        with pytest.raises(OverflowError, match=str(plain.value)):
            traced()


@pytest.mark.parametrize("write", [lambda x: x.fill(7.0), lambda x: x.put([0], 7.0), lambda x: np.putmask(x, x > 0, 7.0)])
def test_a_scalar_is_not_written_to(write: Any) -> None:
    for scalar in (np.sum, lambda x: x[1], lambda x: x[1].reshape(())):
        with pytest.raises(TypeError, match="NumPy scalar"):
            ft.vjp(lambda x, scalar=scalar: write(scalar(x)), LINE)
    out, _ = ft.vjp(lambda x: write(x) or x, np.array(2.0))  # an array without axes
    assert out == 7.0


@pytest.mark.parametrize("name", "det inv slogdet cholesky qr svd svdvals eig eigvals eigh eigvalsh pinv cond matrix_power".split())
def test_a_batch_of_vectors_is_no_matrix(name: str) -> None:
    f = lambda x: getattr(np.linalg, name)(x, *[2] * (name == "matrix_power"))
    x = np.diag([1.0, 2.0, 3.0])
    for rows, many in ((x, ft.vmap(f)), (np.stack([x, x]), ft.vmap(ft.vmap(f))), (x, ft.jit(ft.vmap(f))), (x, ft.jacfwd(ft.vmap(f)))):
        with pytest.raises(np.linalg.LinAlgError):
            many(rows)


@pytest.mark.parametrize("f", [np.linalg.cholesky, np.linalg.eigvalsh, lambda a: np.linalg.matrix_power(a, 2)])
@pytest.mark.parametrize("x", [np.ones(3), np.ones((3, 2))])
def test_what_is_no_square_matrix_is_refused_in_numpys_words(f: Any, x: Any) -> None:
    with pytest.raises(np.linalg.LinAlgError) as plain:
        f(x)
    with pytest.raises(np.linalg.LinAlgError, match=str(plain.value)):
        ft.vjp(f, x)


@pytest.mark.parametrize("shapes", [((3,), (3,)), ((3, 2), (2,)), ((2, 2), (2, 2, 2)), ((1, 2, 2), (2,))])
def test_what_is_no_system_is_refused_in_numpys_words(shapes: Any) -> None:
    a, b = map(np.ones, shapes)
    with pytest.raises(np.linalg.LinAlgError) as plain:
        np.linalg.lstsq(a, b)
    with pytest.raises(np.linalg.LinAlgError, match=str(plain.value)):
        ft.vjp(np.linalg.lstsq, a, b)


def test_a_batch_of_numbers_is_no_vector() -> None:
    for x, y in ((LINE, LINE), (LINE, X.T), (X.T, LINE)):
        with pytest.raises(ValueError, match="matmul"):
            ft.vmap(np.matmul)(x, y)


def test_a_complex_number_is_not_rounded() -> None:
    """Older NumPy does, and says that it will raise."""
    with pytest.raises(TypeError, match="complex128 doesn't define __round__"):
        ft.vjp(lambda x: round(x[0]), LINE + 1j)
