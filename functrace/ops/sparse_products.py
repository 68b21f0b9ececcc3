"""Products of traced arrays with constant SciPy matrices: `A @ x` and `x @ A`, for any of its sparse formats.

SciPy asks an operand that it can't read as an array for its own operator (see `protocol`), and so comes here. Its matrix is known by its
methods: SciPy is not imported.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from functrace import errors
from functrace.core.primitive import Primitive
from functrace.core.tracer import Tracer
from functrace.locks import is_sparse
from functrace.ops.contract import matmul
from functrace.ops.create import lift
from functrace.ops.protocol import stamp


class Layout(NamedTuple):
    """What the arrays of a matrix in compressed rows mean: its class and shape; and whether the product is with its transpose."""

    cls: Any
    shape: tuple[int, int]
    transposed: bool

    def __repr__(self) -> str:
        return f"{self.cls.__name__}{self.shape}{'.T' if self.transposed else ''}"

    def turned(self) -> Layout:
        """That of the transpose."""
        return Layout(self.cls, self.shape, not self.transposed)

    def matrix(self, data: Any, indices: Any, starts: Any) -> Any:
        """The matrix of these arrays."""
        out = self.cls((data, indices, starts), shape=self.shape)
        return out.T if self.transposed else out


def _product(x: Any, data: Any, indices: Any, starts: Any, layout: Layout) -> Any:
    """`x @ A` over the last axis of x."""
    turned = layout.turned().matrix(data, indices, starts)
    rows = np.asarray(x).reshape(-1, x.shape[-1])
    out = turned @ rows[0] if len(rows) == 1 else np.ascontiguousarray((turned @ rows.T).T)
    return np.asarray(out).reshape(*x.shape[:-1], turned.shape[0])


def _of_x(g: Any, _ans: Any, _x: Any, data: Any, indices: Any, starts: Any, layout: Layout) -> Any:
    return _multiply(g, data, indices, starts, layout.turned())


def _along_x(t: Any, _ans: Any, _x: Any, data: Any, indices: Any, starts: Any, layout: Layout) -> Any:
    return _multiply(t, data, indices, starts, layout)


_multiply: Any = Primitive(
    "sparse_matmul",
    _product,
    arity=4,
    vjps=(_of_x, None, None, None),
    jvps=(_along_x, None, None, None),
    batch=lambda _size, _flags, args, params: _multiply(*args, *params),  # the batch is one more leading axis
    linear=True,
).op


def product(x: Any, y: Any) -> Any:
    """`x @ y` where one is a SciPy matrix and the other a traced vector or matrix."""
    a, v, left = (x, y, True) if is_sparse(x) else (y, x, False)
    shapes = f"{x.shape} @ {y.shape}"
    if len(a.shape) != 2 or not 1 <= v.ndim <= 2:
        raise errors.UnsupportedError(
            f"matmul: a SciPy matrix and a traced value of the shapes {shapes}; supported are matrices, and vectors or matrices.\n"
            f"  For more axes reshape the traced value to two, or use functrace.vmap."
        )
    if (a.shape[1] if left else a.shape[0]) != (v.shape[0] if left else v.shape[-1]):
        raise ValueError(f"matmul: dimension mismatch: {shapes}")
    rows = a.tocsr()
    layout = Layout(type(rows), rows.shape, left)
    parts = rows.data, rows.indices, rows.indptr, layout
    if not left or v.ndim == 1:
        return _multiply(v, *parts)
    return np.swapaxes(_multiply(np.swapaxes(v, 0, 1), *parts), 0, 1)


def _matmul(x: Any, y: Any) -> Any:
    # Most operands are arrays, traced or not: they go their way without another look.
    return stamp(matmul(x, y) if type(y) is np.ndarray or isinstance(y, Tracer) or not is_sparse(y) else product(x, y))


def _rmatmul(x: Any, y: Any) -> Any:
    return stamp(product(y, x) if is_sparse(y) else matmul(lift(y) if isinstance(y, (list, tuple)) else y, x))


for _name, _operator in {"__matmul__": _matmul, "__rmatmul__": _rmatmul}.items():
    setattr(Tracer, _name, _operator)
