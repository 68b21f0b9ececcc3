"""NumPy's products of vectors, matrices and tensors, over the primitives of `contract`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from functrace import errors
from functrace.core.primitive import Primitive
from functrace.core.tracer import Tracer
from functrace.operands import is_sparse
from functrace.ops.contract import contraction, matmul
from functrace.ops.create import lift
from functrace.ops.elementwise import multiply
from functrace.ops.functions import reshape
from functrace.ops.gauge import conj
from functrace.ops.inplace import as_array
from functrace.ops.kinds import align, bilinear
from functrace.ops.protocol import stamp
from functrace.ops.registry import Sample, implements, normal

_BOTH = (0, 1)


def both(*shapes: tuple[tuple[int, ...], tuple[int, ...]], **kwargs: Any) -> list[Sample]:
    """Samples of two arrays, both differentiated."""
    return [Sample(normal(*pair), kwargs, wrt=_BOTH) for pair in shapes]


def sum_product(a: Any, b: Any, over_a: tuple[int, ...], over_b: tuple[int, ...]) -> Any:
    """The sum over pairs of axes: the others of `a`, then those of `b`, remain."""
    m, n = a.ndim, b.ndim
    la, lb = tuple(range(m)), list(range(m, m + n))
    for i, j in zip(over_a, over_b):
        if a.shape[i] != b.shape[j]:
            raise ValueError(f"shape-mismatch for sum: axis {i} of {a.shape} has not the length of axis {j} of {b.shape}")
        lb[j] = i
    return contraction(a, b, la, tuple(lb), tuple(k for k in la if k not in over_a) + tuple(k for k in lb if k >= m))


@implements(
    np.dot,
    both(
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((2, 3), (3, 2)),
        ((4, 2, 3), (3,)),
        ((3,), (2, 3, 4)),
        ((2, 3), (4, 3, 2)),
        ((2, 1, 3), (2, 3, 2)),
        ((), (2, 3)),
        ((2,), ()),
        ((2, 0), (0, 3)),
    ),
)
def dot(a: Any, b: Any, out: Any = None) -> Any:
    a, b = lift(a), lift(b)
    if a.ndim == 0 or b.ndim == 0:
        return np.multiply(a, b)
    if b.ndim <= 2 or a.ndim == 1:
        return matmul(a, b)
    return sum_product(a, b, (a.ndim - 1,), (b.ndim - 2,))


@implements(
    np.inner, both(((3,), (3,)), ((2, 3), (3,)), ((3,), (2, 3)), ((2, 3), (4, 3)), ((2, 1, 3), (2, 3)), ((), (3,)), ((2, 0), (3, 0)))
)
def inner(a: Any, b: Any, /) -> Any:
    a, b = lift(a), lift(b)
    if a.ndim == 0 or b.ndim == 0:
        return np.multiply(a, b)
    return sum_product(a, b, (a.ndim - 1,), (b.ndim - 1,))


@implements(np.outer, both(((3,), (2,)), ((2, 2), (3,)), ((), (2,)), ((0,), (2,))))
def outer(a: Any, b: Any, out: Any = None) -> Any:
    b = lift(b)
    return multiply(reshape(a, (-1, 1)), b if b.ndim == 1 else reshape(b, -1))


@implements(np.vdot, both(((3,), (3,)), ((2, 3), (3, 2)), ((), ()), ((0,), (0,))))
def vdot(a: Any, b: Any, /) -> Any:
    """`np.vdot`: the first argument is conjugated."""
    return matmul(reshape(conj(lift(a)), -1), reshape(b, -1))


def _axes(axes: Any, m: int, n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    normalize = np.lib.array_utils.normalize_axis_index
    try:
        first, second = axes
    except TypeError:
        count = int(axes)
        if count > min(m, n):
            raise ValueError(f"tensordot: {count} axes of arrays with {m} and {n} dimensions") from None
        first, second = list(range(m - count, m)), list(range(count))
    ones: list[list[Any]] = [[k] if isinstance(k, (int, np.integer)) else list(k) for k in (first, second)]
    first, second = ones
    if len(first) != len(second):
        raise ValueError("shape-mismatch for sum")
    over = tuple(int(normalize(k, m)) for k in first), tuple(int(normalize(k, n)) for k in second)
    if any(len(set(axes)) < len(axes) for axes in over):
        raise ValueError("duplicate axes are not allowed in tensordot")
    return over


@implements(
    np.tensordot,
    [
        *both(((2, 3, 4), (3, 4, 2)), ((2, 3), (2, 3))),
        *both(((2, 3), (3, 2)), axes=1),
        *both(((2,), (3,)), ((2,), ()), axes=0),
        *both(((2, 3, 4), (4, 3, 2)), axes=([1, 2], [1, 0])),
        *both(((2, 3, 4), (4, 5)), axes=(2, 0)),
        *both(((2, 3, 4), (3, 4, 2)), axes=((-2, -1), (0, 1))),
        *both(((2, 3), (2, 3)), axes=((0, 1), (0, 1))),
        *both(((2, 0), (0, 3)), axes=1),
    ],
)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """`np.tensordot`, all forms of `axes`."""
    a, b = lift(a), lift(b)
    return as_array(sum_product(a, b, *_axes(axes, a.ndim, b.ndim)))


@implements(np.kron, both(((2,), (3,)), ((2, 3), (2, 1)), ((2,), (2, 3)), ((2, 1, 2), (3,)), ((), (2,)), ((0,), (2,))))
def kron(a: Any, b: Any) -> Any:
    a, b = lift(a), lift(b)
    ndim = max(a.ndim, b.ndim)
    shape_a, shape_b = (1,) * (ndim - a.ndim) + a.shape, (1,) * (ndim - b.ndim) + b.shape
    spread_a = tuple([n for k in shape_a for n in (k, 1)])
    spread_b = tuple([n for k in shape_b for n in (1, k)])
    return reshape(multiply(reshape(a, spread_a), reshape(b, spread_b)), tuple([m * n for m, n in zip(shape_a, shape_b)]))


_NEXT, _LAST = np.array([1, 2, 0]), np.array([2, 0, 1])
_FEW = 4096  # elements up to which whole copies, three calls less for each component, are faster


def _cross(x: Any, y: Any, out: Any = None) -> Any:
    """`np.cross` on the last axis, bit by bit, without its general preparation."""
    if out is None and x.size + y.size <= _FEW:
        return x.take(_NEXT, -1) * y.take(_LAST, -1) - x.take(_LAST, -1) * y.take(_NEXT, -1)
    if out is None:
        shape = np.broadcast_shapes(x.shape, y.shape)
        out = np.empty_like(x if x.shape == shape else y, np.result_type(x, y), "C", shape=shape)
    for k, (i, j) in enumerate(((1, 2), (2, 0), (0, 1))):
        np.multiply(x[..., i], y[..., j], out=out[..., k])
        out[..., k] -= x[..., j] * y[..., i]
    return out


cross3: Any = bilinear(  # a x b of three components on the last axis: a.(b x c) is the same for cyclic exchanges
    "cross",
    _cross,
    lambda g, _ans, _x, y: cross3(y, g),
    lambda g, _ans, x, _y: cross3(g, x),
    batch=lambda size, flags, args, _params: cross3(*align(size, flags, args)),
)


@implements(
    np.cross,
    [
        *both(((3,), (3,)), ((2, 3), (3,)), ((3,), (2, 3)), ((2, 1, 3), (4, 3))),
        *both(((3, 2), (3, 2)), axis=0),
        *both(((3, 2), (2, 3)), axisa=0, axisc=0),
    ],
)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """`np.cross`; vectors of two components as NumPy took them before deprecating them."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = (x if k == -1 else np.moveaxis(x, k, -1) for x, k in ((lift(a), axisa), (lift(b), axisb)))
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise ValueError("incompatible dimensions for cross product\n(dimension must be 2 or 3)")
    if a.shape[-1] == b.shape[-1] == 2:
        return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    a, b = _three(a), _three(b)
    if a.dtype != b.dtype:
        dtype = np.result_type(a.dtype, b.dtype)
        a, b = a.astype(dtype), b.astype(dtype)
    out = cross3(a, b)
    return out if axisc in (-1, out.ndim - 1) else np.moveaxis(out, -1, axisc)


def _three(x: Any) -> Any:
    return x if x.shape[-1] == 3 else np.concatenate([x, np.zeros((*x.shape[:-1], 1), x.dtype)], axis=-1)


@implements(np.vecdot, both(((3,), (3,)), ((2, 3), (3,)), ((2, 1, 3), (4, 3)), ((2, 0), (2, 0))) + both(((3, 2), (3, 2)), axis=0))
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """`np.vecdot`: the first argument is conjugated."""
    x1, x2 = lift(x1), lift(x2)
    if axis != -1:
        x1, x2 = np.moveaxis(x1, axis, -1), np.moveaxis(x2, axis, -1)
    if x1.shape[-1:] != x2.shape[-1:]:
        raise ValueError(f"vecdot: the vectors have different lengths, in arrays of the shapes {x1.shape} and {x2.shape}")
    if x1.ndim == x2.ndim == 1:
        return matmul(conj(x1), x2)
    return np.einsum("...i,...i->...", conj(x1), x2)


if hasattr(np, "matvec"):  # NumPy 2.2

    @implements(np.matvec, both(((2, 3), (3,)), ((4, 2, 3), (3,)), ((2, 3), (4, 3)), ((4, 2, 3), (4, 3))))
    def matvec(x1: Any, x2: Any, /) -> Any:
        x1, x2 = lift(x1), lift(x2)
        return matmul(x1, x2) if x2.ndim == 1 else matmul(x1, x2[..., None])[..., 0]

    @implements(np.vecmat, both(((2,), (2, 3)), ((4, 2), (2, 3)), ((2,), (4, 2, 3)), ((4, 2), (4, 2, 3))))
    def vecmat(x1: Any, x2: Any, /) -> Any:
        """`np.vecmat`: the vector is conjugated."""
        x1, x2 = conj(lift(x1)), lift(x2)
        return matmul(x1, x2) if x1.ndim == 1 else matmul(x1[..., None, :], x2)[..., 0, :]


# Products with constant SciPy matrices, `A @ x` and `x @ A`, for any of its sparse formats. SciPy asks an operand that it can't read as an
# array for its own operator (see `protocol`), and so comes here. Its matrix is known by its methods: SciPy is not imported.


class Layout(NamedTuple):
    """What the arrays of a matrix in compressed rows mean: its class and shape; and whether the product is with its transpose."""

    cls: Any
    shape: tuple[int, int]
    transposed: bool

    def __repr__(self) -> str:
        return f"{self.cls.__name__}{self.shape}{'.T' if self.transposed else ''}"

    def turned(self) -> Layout:
        """The layout of the transpose."""
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


_multiply: Any = Primitive(
    "sparse_matmul",
    _product,
    arity=4,
    vjps=(lambda g, _ans, _x, data, indices, starts, layout: _multiply(g, data, indices, starts, layout.turned()), None, None, None),
    jvps=(lambda t, _ans, _x, data, indices, starts, layout: _multiply(t, data, indices, starts, layout), None, None, None),
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
