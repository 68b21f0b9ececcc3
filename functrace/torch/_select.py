"""Matrix products, selections, and questions about tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch import _dtypes
from functrace.torch._along import foremost, taken, unpick, untaken
from functrace.torch._apply import binary, call, step
from functrace.torch._bind import underivable
from functrace.torch._checks import c_name, vectors
from functrace.torch._contact import MATMUL, RESHAPE, Tracer, at_axis, chosen, dot_of, index_set, read, same, unread
from functrace.torch._curves import bounded
from functrace.torch._dtypes import B, as_int64, result_class
from functrace.torch._layout import in_order
from functrace.torch._limits import refuse
from functrace.torch._modes import recording
from functrace.torch._nodes import SCALARS, Op
from functrace.torch._ops import as_method, public
from functrace.torch._shape import (
    EXPAND,
    TRANSPOSED,
    UNSAFE_VIEW,
    T,
    alike,
    along,
    axis,
    in_dtype,
    need,
    reshaped,
    squeeze,
    unsqueeze,
    view,
)
from functrace.torch._tensor import Tensor, wrap
from functrace.torch._views import bad_argument, follow, mismatch, way, written_to

Dim = Any


def _shapes(x: Any) -> str:
    return "x".join(map(str, x._a.shape))


def _agree(x: Any, y: Any, what: str) -> None:
    if x._a.dtype != y._a.dtype:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {c_name(x)} != {c_name(y)}")
    if x._a.dtype is B:
        refuse(f"_{what}", B)


_DOT = Op("Dot", MATMUL.fun, MATMUL.vjps, "Mul")
_MM, _MV, _BMM = (Op(n, dot_of if n == "Mm" else MATMUL.fun, MATMUL.vjps, n) for n in ("Mm", "Mv", "Bmm"))
multiplied = binary("mm", _MM)  # of matrices that fit


def turned(x: Any) -> Any:
    """A matrix, or each of several, transposed, for a product."""
    return step(T, x, (1, 0)) if x._a.ndim == 2 else step(TRANSPOSED, x, (0, 2, 1))


_DOT.again = [lambda g, _r, _x, y: g * y, lambda g, _r, x, _y: g * x]
_MM.again = [lambda g, _r, _x, y: multiplied(g, turned(y)), lambda g, _r, x, _y: multiplied(turned(x), g)]
_MV.again = [lambda g, _r, _x, y: outer(g, y), lambda g, _r, x, _y: call(_MV, (turned(x), g))]
_BMM.again = [lambda g, _r, _x, y: call(_BMM, (g, turned(y))), lambda g, _r, x, _y: call(_BMM, (turned(x), g))]
_SQUEEZE4 = Op("SqueezeBackward4", RESHAPE.fun, RESHAPE.vjps, "Unsqueeze")


@public
def dot(input: Any, tensor: Any) -> Any:
    """The product of two vectors."""
    vectors(input, tensor)
    _agree(input, tensor, "dot")
    return call(_DOT, (input, tensor))


@public
def mv(input: Any, vec: Any) -> Any:
    """A matrix times a vector."""
    if input._a.ndim != 2 or vec._a.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {input._a.ndim}, {vec._a.ndim}")
    if input._a.shape[1] != vec._a.shape[0]:
        raise RuntimeError(f"size mismatch, got input ({input._a.shape[0]}), mat ({_shapes(input)}), vec ({len(vec)})")
    _agree(input, vec, "mv")
    return call(_MV, (input, vec))


@public
def mm(input: Any, mat2: Any, *, out: Any = None) -> Any:
    """A matrix times a matrix."""
    if out is not None:
        return written_to("mm", out, mm(input, mat2))
    for z, what in ((input, "self"), (mat2, "mat2")):
        if z._a.ndim != 2:
            raise RuntimeError(f"{what} must be a matrix")
    _check_mm(input, mat2)
    return multiplied(input, mat2)


def _check_mm(x: Any, y: Any) -> None:
    if x._a.shape[-1] != y._a.shape[-2]:
        left = _shapes(x) if x._a.ndim > 1 else f"1x{len(x)}"
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({left} and {_shapes(y)})")
    _agree(x, y, "mm")


@public
def bmm(input: Any, mat2: Any, *, out: Any = None) -> Any:
    """Matrices times matrices, one by one."""
    if out is not None:
        return written_to("bmm", out, bmm(input, mat2))
    for z, what in ((input, "batch1"), (mat2, "batch2")):
        if z._a.ndim != 3:
            raise RuntimeError(f"{what} must be a 3D tensor")
    _check_bmm(input, mat2)
    return call(_BMM, (input, mat2))


def _check_bmm(x: Any, y: Any) -> None:
    if x._a.shape[0] != y._a.shape[0] or x._a.shape[2] != y._a.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{x._a.shape[0]}, {x._a.shape[2]}] but got: "
            f"[{y._a.shape[0]}, {y._a.shape[1]}]."
        )
    _agree(x, y, "bmm")


@public
def matmul(input: Any, other: Any, *, out: Any = None) -> Any:
    """`input @ other`: vectors, matrices, or batches of matrices."""
    if out is not None:
        return written_to("matmul", out, matmul(input, other))
    x, y = input, other
    m, n = x._a.ndim, y._a.ndim
    if not m or not n:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {m}D and {n}D")
    if m == 1 and n == 1:
        return dot(x, y)
    if m == 2 and n == 1:
        return mv(x, y)
    if m == 2 and n == 2:
        return mm(x, y)
    if n == 2:
        if m == 1:
            _check_mm(x, y)
            return step(_SQUEEZE4, mm(unsqueeze(x, 0), y), (y._a.shape[1],))
        rows = _rows(x)
        _check_mm(rows, y)
        return step(UNSAFE_VIEW, multiplied(rows, y), (*x._a.shape[:-1], y._a.shape[1]))
    if n == 1:
        return step(UNSAFE_VIEW, mv(_rows(x), y), x._a.shape[:-1])
    if m == 1:
        x = unsqueeze(x, 0)
    lead = x._a.shape[:-2]
    if lead != y._a.shape[:-2]:
        try:
            lead = np.broadcast_shapes(lead, y._a.shape[:-2])
        except ValueError:
            raise (mismatch(np.empty(lead), np.empty(y._a.shape[:-2])) or RuntimeError("matmul: shapes do not fit")) from None
    out = bmm(_stacked(x, lead), _stacked(y, lead))
    if out._rg or len(lead) != 1:
        out = step(UNSAFE_VIEW, out, (*lead, x._a.shape[-2], y._a.shape[-1]))
    return squeeze(out, -2) if m == 1 else out


def _rows(x: Any) -> Any:
    """Matrices as one, above each other."""
    *lead, n = x._a.shape
    return reshaped(x, (math.prod(lead), n), within=True)


def _stacked(x: Any, lead: tuple[int, ...]) -> Any:
    """Matrices for each place of the leading axes, along one axis."""
    size = x._a.shape[-2:]
    if x._a.shape == (*lead, *size) and len(lead) == 1 and not x._rg:  # no view of it will be seen
        return x
    return reshaped(step(EXPAND, x, (*lead, *size)), (math.prod(lead), *size), within=True)


def _matmul_operator(self: Any, other: Any) -> Any:
    return matmul(self, other) if isinstance(other, Tensor) else NotImplemented


public(_matmul_operator, "__matmul__", torch=False)


@public
def outer(input: Any, vec2: Any) -> Any:
    """All products of the elements of two vectors."""
    need("outer", input), need("outer", vec2, "vec2", 2)
    return view(input, -1, 1) * vec2


public(outer, "ger")
_ADDMM = Op(
    "Addmm",
    lambda c, x, y, beta, alpha: (c if beta == 1 else beta * c) + (np.matmul(x, y) if alpha == 1 else alpha * np.matmul(x, y)),
    [
        lambda g, _r, _c, _x, _y, beta, _alpha: g if beta == 1 else g * beta,
        lambda g, _r, _c, _x, y, _beta, alpha: np.matmul(g, y.T) if alpha == 1 else np.matmul(g, y.T) * alpha,
        lambda g, _r, _c, x, _y, _beta, alpha: np.matmul(x.T, g) if alpha == 1 else np.matmul(x.T, g) * alpha,
    ],
    ("Mul", "Mm", "Mm"),
    frees=True,
)
_ADDMM.again = [
    lambda g, _r, _c, _x, _y, beta, _alpha: g if beta == 1 else g * beta,
    lambda g, _r, _c, _x, y, _beta, alpha: multiplied(g, turned(y)) if alpha == 1 else multiplied(g, turned(y)) * alpha,
    lambda g, _r, _c, x, _y, _beta, alpha: multiplied(turned(x), g) if alpha == 1 else multiplied(turned(x), g) * alpha,
]


@public
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta * input + alpha * (mat1 @ mat2)`."""
    _check_mm(mat1, mat2)
    return call(_ADDMM, (input, mat1, mat2), (beta, alpha))


# choosing

_AT = Op("Gather", taken, [untaken], frees=True, flat=True, lies=in_order)
_INDEX_AT = Op("IndexSelect", read, [unread], frees=True, flat=True, lies=in_order)


def _unselect(g: Any, _r: Any, _x: Any, m: Any) -> Any:
    shape = np.broadcast_shapes(_x.shape, m.shape)
    return index_set(np.zeros(shape, g.dtype), g, np.broadcast_to(m, shape))


_MASKED_SELECT = Op(
    "MaskedSelect",
    lambda x, m: np.broadcast_to(x, np.broadcast_shapes(x.shape, m.shape))[np.broadcast_to(m, np.broadcast_shapes(x.shape, m.shape))],
    [_unselect],
    frees=True,
    flat=True,
)


_BYTES = (
    "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future version of PyTorch. Use a "
    "boolean condition instead."
)
_WHERE = Op(
    "Where",
    lambda x, y, c: chosen(c, x, y),
    [lambda g, _r, _x, _y, c: chosen(c, g), lambda g, _r, _x, _y, c: chosen(~c, g)],
    "Where",
    frees=True,
)
_PASSED = Op("Where", lambda x, m: chosen(m, x), [lambda g, _r, _x, m: chosen(m, g)], frees=True)
_PASSED.again = [lambda g, _r, _x, m: passed(g, m)]
_WHERE.again = [lambda g, _r, _x, _y, c: passed(g, c.copy()), lambda g, _r, _x, _y, c: passed(g, ~c)]


def passed(x: Any, mask: Any) -> Any:
    """A tensor where a mask holds, 0 elsewhere; nobody else may write to the mask."""
    return call(_PASSED, (x,), (mask,))


@public
def where(condition: Any, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """`input` where the condition holds, else `other`; of the condition alone, where it holds."""
    if input is None:
        return tuple(wrap(in_order(as_int64(i))) for i in np.nonzero(np.atleast_1d(condition._a)))
    for k, x in enumerate((input, other)):
        if not isinstance(x, (Tensor, *SCALARS)):
            raise bad_argument("where", ("input", "other")[k], k + 2, x)
    d = _dtypes.result_type(input, other)
    arrays = [in_dtype(x, d) if isinstance(x, Tensor) else wrap(_dtypes.held(x, d.np)) for x in (input, other)]
    if condition._a.dtype.kind != "b":  # what is not 0 counts as True, here and in the gradients
        _dtypes.warn_once(_BYTES)
        condition = wrap(condition._a != 0)
    result = call(_WHERE, arrays, (condition._a,), (condition,))
    return result if out is None else written_to("where", out, result)


Tensor.where = lambda self, condition, other: where(condition, self, other)  # type: ignore[method-assign]


def _clamp(x: Any, low: Any, high: Any) -> Any:
    low = low if low is None else _dtypes.held(low, x.dtype)
    return bounded(x, low, high if high is None else _dtypes.held(high, x.dtype))


def _within(x: Any, low: Any, high: Any) -> Any:
    above, below = low is None or x >= low, high is None or x <= high
    return below if above is True else above if below is True else above & below


_CLAMPS = {}
for _name, _node in {"clamp": "ClampBackward1", "clamp_min": "ClampMinBackward0", "clamp_max": "ClampMaxBackward0"}.items():
    _rule: Any = lambda g, _r, x, low, high: chosen(_within(x, low, high), g)
    _CLAMPS[_name] = Op(_node, _clamp, [_rule], "Where", frees=True, flat=True)
    _CLAMPS[_name].again = [lambda g, _r, x, low, high: passed(g, _within(x, low, high))]


def _common(*given: Any) -> Any:
    d = _dtypes.result_type(*[x for x in given if x is not None])
    refuse("clamp", d.np)
    return d


def _between(x: Any, low: Any, high: Any) -> Any:
    d = _common(x, low, high)
    bounds = [in_dtype(b, d) if isinstance(b, Tensor) else wrap(_dtypes.held(b, d.np)) for b in (low, high) if b is not None]
    return call(_BETWEEN[low is not None, high is not None], (in_dtype(x, d), *bounds))


def _kept(x: Any, *bounds: Any) -> Any:
    low, high = bounds
    x = x if low is None else np.where((x >= low) | np.isnan(x), x, low)  # NaN stays, as one among the bounds does
    return x if high is None else np.where((x <= high) | np.isnan(x), x, high)


_BETWEEN = {
    (True, True): Op("Clamp", _kept),
    (True, False): Op("ClampMinBackward1", lambda x, low: _kept(x, low, None)),
    (False, True): Op("ClampMaxBackward1", lambda x, high: _kept(x, None, high)),
}


@public
def clamp(input: Any, min: Any = None, max: Any = None, *, out: Any = None) -> Any:
    """The elements, kept between `min` and `max`."""
    need("clamp", input)
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    tensors = isinstance(min, Tensor) or isinstance(max, Tensor)
    result = _between(input, min, max) if tensors else _clamped("clamp", input, min, max)
    return result if out is None else written_to("clamp", out, result)


def _clamped(name: str, x: Any, low: Any, high: Any) -> Any:
    return call(_CLAMPS[name], (in_dtype(x, _common(x, low, high)),), (low, high))


public(clamp, "clip")
public(lambda input, min: _between(input, min, None) if isinstance(min, Tensor) else _clamped("clamp_min", input, min, None), "clamp_min")
public(lambda input, max: _between(input, None, max) if isinstance(max, Tensor) else _clamped("clamp_max", input, None, max), "clamp_max")

_MASKED_FILL = Op(
    "MaskedFill",
    lambda x, m, v: chosen(~m, x, _dtypes.held(v, x.dtype)),
    [lambda g, _r, _x, m, _v: chosen(~m, g)],
    "MaskedFill",
    frees=True,
    lies=in_order,
)
_MASKED_FILL.again = [lambda g, _r, _x, m, _v: call(_MASKED_FILL, (g,), (m.copy(), 0))]
_MASKED_FILL1 = Op("MaskedFillBackward1", lambda x, v, m: np.where(m, v.astype(x.dtype), x), lies=in_order)


@public
def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """`input`, but `value` where the mask is true."""
    if isinstance(value, Tensor):
        return call(_MASKED_FILL1, (input, value, mask))
    return call(_MASKED_FILL, (input,), (mask._a, value), (mask,))


public(lambda input, mask: call(_MASKED_SELECT, (input,), (mask._a,), (mask,)), "masked_select")


@public
def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """`out[i][j] = input[index[i][j]][j]` along axis 0, and so on."""
    k = axis(dim, input._a.ndim)
    input = input if input._a.ndim else view(input, 1)
    return call(_AT, (input,), (index._a, k), (index,))


@public
def index_select(input: Any, dim: int, index: Any) -> Any:
    """The entries along an axis that a vector of integers names."""
    if not input._a.ndim:
        axis(dim, 1)
        return input.clone()
    key = np.reshape(index._a, -1)
    return call(_INDEX_AT, (input,), (at_axis(axis(dim, input._a.ndim), key),), (index,))


def _between_ends(x: Any, y: Any, w: Any) -> Any:
    """A mean of x and y, reckoned from the nearer one."""
    if np.ndim(w):
        return np.where(np.abs(w) < 0.5, x + w * (y - x), y - (y - x) * (1 - w))
    return x + w * (y - x) if abs(w) < 0.5 else y - (y - x) * (1 - w)


_LERP0 = Op("LerpBackward0", _between_ends, [lambda g, _r, _x, _y, w: g * (1 - w), lambda g, _r, _x, _y, w: g * w], frees=False)
_LERP1 = Op(
    "LerpBackward1",
    _between_ends,
    [lambda g, _r, _x, _y, w: g * (1 - w), lambda g, _r, _x, _y, w: g * w, lambda g, _r, x, y, _w: g * (y - x)],
)
_ADDCMUL = Op(
    "Addcmul",
    lambda x, y, z, c: x + (c if x.dtype.kind in "fc" else _dtypes.held(c, x.dtype)) * y * z,
    [same, lambda g, _r, _x, _y, z, c: g * (z * c), lambda g, _r, _x, y, _z, c: g * (y * c)],
)
_ADDCDIV = Op(
    "Addcdiv",
    lambda x, y, z, c: x + c * (y / z),
    [same, lambda g, _r, _x, _y, z, c: g * (c / z), lambda g, _r, _x, y, z, c: -g * (c * y / (z * z))],
)


@public
def lerp(input: Any, end: Any, weight: Any) -> Any:
    """`input + weight * (end - input)`."""
    return call(_LERP1, (input, end, weight)) if isinstance(weight, Tensor) else call(_LERP0, (input, end), (weight,))


def _addc(op: Op) -> Callable[..., Any]:
    def function(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
        return call(op, alike((input, tensor1, tensor2)), (value,))

    return function


public(_addc(_ADDCMUL), "addcmul")
public(_addc(_ADDCDIV), "addcdiv")


_TOPK = Op("Topk", foremost, [lambda g, r, _x, k, _n, _l: unpick(g, r, _x, k, True)], "Gather", many=True, frees=True, flat=True)
_topk_result = result_class("topk")


@public
def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The k largest (or smallest) elements along an axis, and where they were."""
    return _topk_result(along(_TOPK, input, dim, k, largest))


# questions


def _close(name: str, fun: Any, finish: Any) -> None:
    def function(input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
        return finish(fun(input._a, other._a, rtol, atol, equal_nan))

    public(function, name)


public(lambda input, other: bool(input._a.shape == other._a.shape and np.array_equal(input._a, other._a)), "equal")
_close("allclose", np.allclose, bool)
_close("isclose", np.isclose, wrap)
public(lambda input: int(input._a.size), "numel")
public(lambda self: int(self._a.size), "nelement", torch=False)
public(lambda self: int(self._a.ndim), "dim", "ndimension", torch=False)
public(lambda input: input._a.dtype.kind == "f", "is_floating_point")
public(lambda input: input._a.dtype.kind == "c", "is_complex")
public(lambda self: int(self._a.itemsize), "element_size", torch=False)
public(lambda self: int(self._a.ctypes.data), "data_ptr", torch=False)
public(lambda input, *, as_tuple=False: where(input) if as_tuple else wrap(as_int64(np.argwhere(input._a))), "nonzero")


@public
def unique(input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """The different elements, in order."""
    find: Any = np.unique
    along = None if dim is None else axis(dim, input._a.ndim)
    found = find(input._a, return_inverse=return_inverse, return_counts=return_counts, axis=along, equal_nan=False)
    first, *others = found if isinstance(found, tuple) else (found,)
    values, rest = wrap(first), [wrap(as_int64(a)) for a in others]
    if input._rg and recording():
        values = call(underivable("_unique2", "Unique2Backward0"), (values, input))
    return (values, *rest) if rest else values


@as_method
def stride(self: Any, dim: int | None = None) -> Any:
    """Elements from one entry to the next along each axis. Those of a traced value are taken to lie in order."""
    unknown = isinstance(self._a, Tracer) or not (self._a.size or any(self._a.strides))  # those of no elements are zero in NumPy
    a = np.empty([max(n, 1) for n in self._a.shape], self._a.dtype) if unknown else self._a
    steps = tuple(s // a.itemsize for s in a.strides)
    return steps if dim is None else steps[axis(dim, self._a.ndim)]


@as_method
def storage_offset(self: Any) -> int:
    """Elements from the start of the memory."""
    base, a = self._base, self._a
    start = getattr(self if base is None else base, "_start", 0)  # of what is detached
    if base is None:
        return start
    whole = base._a
    if isinstance(a, Tracer):  # the same part of a plain array
        whole = np.empty(whole.shape, whole.dtype)
        a = follow(whole, way(self))
    return start + int(a.ctypes.data - whole.ctypes.data) // int(a.itemsize) if np.may_share_memory(a, whole) else start
