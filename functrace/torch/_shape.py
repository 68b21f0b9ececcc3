"""Operations that move elements: views, copies and casts, indexing and assignment, joining and splitting."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.torch import _dtypes
from functrace.torch._apply import call, step, with_transpose
from functrace.torch._checks import out_of_range, whole
from functrace.torch._contact import BROADCAST, GETITEM, RESHAPE, TRANSPOSE, Tracer, at_axis, in_floats, index_set, read, same, unread
from functrace.torch._dtypes import cast, to_shape
from functrace.torch._layout import AS_IT_IS, Meta, channels_last, formatted, in_order, stretched, without_data
from functrace.torch._nodes import SCALARS, Op
from functrace.torch._ops import as_method, public, zero
from functrace.torch._tensor import Tensor, wrap
from functrace.torch._views import bad_argument, check_broadcast, expanded, inplace


def _shape_view(node: str, second: str) -> Op:
    return with_transpose(Op(node, RESHAPE.fun, RESHAPE.vjps, second, view=True))


def _axes_view(node: str) -> Op:
    op = Op(node, TRANSPOSE.fun, TRANSPOSE.vjps, node, view=True)
    op.again = [lambda g, _r, _x, order: call(op, (g,), (tuple(map(order.index, range(len(order)))),))]
    return op


def _part_view(node: str, second: str) -> Op:
    return with_transpose(Op(node, GETITEM.fun, GETITEM.vjps, second, view=True))


VIEW = _shape_view("View", "View")
UNSAFE_VIEW = with_transpose(Op("UnsafeView", RESHAPE.fun, RESHAPE.vjps, "View"))
UNSQUEEZE = _shape_view("Unsqueeze", "SqueezeBackward1")
SQUEEZE = {k: _shape_view(f"SqueezeBackward{k}", "Unsqueeze") for k in (0, 1, 2, 4)}
T, TRANSPOSED, PERMUTED = _axes_view("T"), _axes_view("Transpose"), _axes_view("Permute")
SELECT, SLICE, ALIAS = _part_view("Select", "SelectBackward"), _part_view("Slice", "SliceBackward"), _part_view("Alias", "Alias")


def _expanded(a: Any, shape: tuple[int, ...]) -> Any:
    if type(a) is np.ndarray and a.shape == shape:
        return a[...]
    out = stretched(a, shape) if type(a) is np.ndarray and a.flags.c_contiguous else BROADCAST.fun(a, shape)
    if type(out) is np.ndarray:  # through parts in which no element is there twice; `opened` sees to the others
        out.flags.writeable = a.flags.writeable
    return out


def _laid(a: Any, made: Any) -> Any:
    """A copy lies as the original does, or in order if that has elements twice."""
    return in_order(made) if type(a) is np.ndarray and 0 in a.strides else made


EXPAND = with_transpose(Op("Expand", _expanded, [in_floats(rule) for rule in BROADCAST.vjps], "SumBackward1", view=True))
INDEX = Op("Index", read, [unread], "IndexPutImpl", frees=True, lies=in_order)  # NumPy lays the picked axes out first
CLONE = Op("Clone", lambda a: _laid(a, np.copy(a)), [same], "Clone")
_FORMATTED = Op("Clone", formatted, [same], "Clone")
COPIED = Op("CopyBackwards", np.copy, [same], "Clone")
TO = Op("ToCopy", lambda a, d, *form: formatted(_laid(a, cast(a, d)), *form) if form else _laid(a, cast(a, d)), [same], "ToCopy")
COPY = Op("CopyBackwards", lambda a, v: cast(v if v.shape == a.shape else _expanded(v, a.shape), a.dtype), [zero, same], ("Zero", "Copy"))
FILL = {k: Op(f"FillBackward{k}", lambda a, v: np.full(a.shape, v, a.dtype), [zero], "Zero") for k in (0, 2)}  # of numbers
FILL |= {k: Op(f"FillBackward{k}", COPY.fun, [zero, same], ("Zero", "Copy")) for k in (1, 3)}
ZERO = Op("Zero", lambda a: np.zeros(a.shape, a.dtype), [zero], "Zero")


def _put(a: Any, v: Any, index: Any) -> Any:
    if isinstance(a, Tracer):
        return index_set(a, v, index)
    (out := np.array(a))[index] = v
    return out


def _unput(g: Any, _r: Any, _x: Any, _v: Any, index: Any) -> Any:
    return _put(g, np.zeros((), g.dtype), index)


INDEX_PUT = Op("IndexPut", _put, [_unput, lambda g, _r, _x, _v, index: g[index]], ("IndexPut", "Index"), frees=True)


def axis(dim: int, ndim: int) -> int:
    """A non-negative axis. Raises IndexError as PyTorch does."""
    if type(dim) is not int:
        dim = whole("dim", dim)
    n = ndim or 1
    if not -n <= dim < n:
        raise out_of_range(dim, n)
    return dim % n


def axes_of(dim: Any, ndim: int) -> tuple[int, ...]:
    """Non-negative axes from an int or a sequence; None and () mean all."""
    if dim is None:
        return tuple(range(ndim))
    if type(dim) is int and ndim:
        return (axis(dim, ndim),)
    return some_axes(tuple(dim) if isinstance(dim, (tuple, list)) else (dim,), ndim) or tuple(range(ndim))


def some_axes(dims: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    """Non-negative axes, all different."""
    found: list[int] = []
    for d in dims:
        k = axis(d, ndim)
        if k in found:
            raise RuntimeError(f"dim {k} appears multiple times in the list of dims")
        found.append(k)
    return tuple(found) if ndim else ()


def along(op: Op, x: Any, dim: Any, *params: Any) -> Any:
    """A row that works along an axis, which is its first parameter; a 0-d tensor counts as one of one element."""
    k = axis(dim, x._a.ndim)
    return call(op if x._a.ndim else _lone(op), (x,), (k, *params))


@functools.cache
def _lone(op: Op) -> Op:
    def fun(x: Any, *params: Any) -> Any:
        found = op.fun(np.reshape(x, (1,)), *params)
        return tuple(np.reshape(y, ()) for y in found) if op.many else np.reshape(found, ())

    return Op(op.name, fun, many=op.many, frees=op.frees)


def need(name: str, x: Any, argument: str = "input", position: int = 1) -> Any:
    """`x`, which must be a tensor."""
    if not isinstance(x, Tensor):
        raise bad_argument(name, argument, position, x)
    return x


# views


def sized(name: str, sizes: tuple[Any, ...], what: str = "size") -> tuple[int, ...]:
    """A shape from arguments of ints or one tuple; PyTorch's complaint about others."""
    try:
        shape = to_shape(sizes)
    except TypeError:
        bad = sizes[0] if len(sizes) == 1 else next(n for n in sizes if not isinstance(n, int))
        kind = type(bad).__name__
        raise TypeError(f"{name}(): argument '{what}' (position 1) must be tuple of ints, not {kind}") from None
    if not sizes:
        raise TypeError(f'{name}() missing 1 required positional arguments: "{what}"')
    return shape


def _sized(x: Any, sizes: tuple[Any, ...], name: str = "reshape", what: str = "shape") -> tuple[int, ...]:
    shape = sized(name, sizes, what)
    n = x._a.size
    if math.prod(shape) == n and min(shape, default=0) >= 0:
        return shape
    if shape.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    if min(shape, default=0) < -1:
        raise RuntimeError(f"invalid shape dimension {min(shape)}")
    if -1 in shape:
        rest = -math.prod(shape)
        if n == rest == 0:
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension size -1 can be any value "
                "and is ambiguous"
            )
        if rest and n % rest == 0:
            return tuple([n // rest if s == -1 else s for s in shape])
    raise RuntimeError(f"shape '{list(to_shape(sizes))}' is invalid for input of size {n}")


def _is_view(x: Any, shape: tuple[int, ...]) -> bool:
    return isinstance(x._a, Tracer) or x._a.flags.c_contiguous or x._a.size == 0 or bool(np.may_share_memory(np.reshape(x._a, shape), x._a))


@as_method
def view(self: Any, *sizes: Any, size: Any = None, dtype: Any = None) -> Any:
    """The same memory with another shape. Raises RuntimeError where that needs a copy."""
    if sizes and isinstance(sizes[0], _dtypes.dtype) or dtype is not None:
        return _reinterpreted(self, sizes[0] if dtype is None else dtype)
    shape = _sized(self, sizes if size is None else (size,), "view", "size")
    if not _is_view(self, shape):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous "
            "subspaces). Use .reshape(...) instead."
        )
    return call(VIEW, (self,), (shape,))


def _reinterpreted(x: Any, d: _dtypes.dtype) -> Any:
    """The same bytes as elements of another dtype. No gradient passes, but between complex and real numbers."""
    a = x._a
    if isinstance(a, Tracer):
        raise NotImplementedError("Tensor.view(dtype): bytes of a traced value can't be seen; use .to(dtype) to convert values.")
    old, new = a.dtype.itemsize, d.np.itemsize
    if new > old and a.ndim and a.shape[-1] % (new // old):
        raise RuntimeError(
            f"self.size(-1) must be divisible by {new // old} to view {x.dtype.scalar} as {d.scalar} (different element sizes), but got "
            f"{a.shape[-1]}"
        )
    if a.ndim == 0 and new != old:
        raise RuntimeError(f"self.dim() cannot be 0 to view {x.dtype.scalar} as {d.scalar} (different element sizes)")
    out = wrap(a.view(d.np))
    out._ver = x._ver
    return out


def reshaped(x: Any, shape: tuple[int, ...], within: bool = False) -> Any:
    """Another shape: a view where possible, else a copy. `within`: as a step of another operation."""
    a = x._a
    if a.__class__ is np.ndarray and a.size and not a.flags.c_contiguous and not np.may_share_memory(a, made := a.reshape(shape)):
        copy = step(_FORMATTED, x, _dtypes.contiguous_format, made=made.reshape(a.shape))
        return step(UNSAFE_VIEW, copy, shape, made=made)
    return step(VIEW, x, shape) if within else call(VIEW, (x,), (shape,))


@public
def reshape(input: Any, *sizes: Any, shape: Any = None) -> Any:
    """Another shape: a view where possible, else a copy."""
    return reshaped(input, _sized(input, sizes if shape is None else (shape,)))


@public
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """The axes from `start_dim` to `end_dim` as one."""
    first, last = axis(start_dim, input._a.ndim), axis(end_dim, input._a.ndim)
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    s = input._a.shape
    if first == last and s:
        return input
    return reshaped(input, (*s[:first], math.prod(s[first : last + 1]), *s[last + 1 :]))


@public
def ravel(input: Any) -> Any:
    """All elements along one axis."""
    x = contiguous(input)
    return call(VIEW, (x,), ((x._a.size,),))


@public
def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """One axis as several."""
    k = axis(dim, input._a.ndim)
    known = math.prod(s for s in sizes if s != -1)
    sizes = tuple(input._a.shape[k] // known if s == -1 else s for s in sizes)
    return view(input, *input._a.shape[:k], *sizes, *input._a.shape[k + 1 :])


public(lambda self, other: view(self, other.shape), "view_as", torch=False)
public(lambda self, other: reshape(self, other.shape), "reshape_as", torch=False)


@public
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Two axes exchanged."""
    n = input._a.ndim
    i, j = axis(dim0, n), axis(dim1, n)
    order = list(range(n))
    if n:
        order[i], order[j] = order[j], order[i]
    return call(TRANSPOSED, (input,), (tuple(order),))


public(lambda input, axis0, axis1: transpose(input, axis0, axis1), "swapaxes")
public(transpose, "swapdims")


@public
def t(input: Any) -> Any:
    """A matrix transposed; a vector or number as it is."""
    n = input._a.ndim
    if n > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {n}D")
    return call(T, (input,), (tuple(range(n))[::-1],))


@public
def permute(input: Any, *order: Any, dims: Any = None) -> Any:
    """The axes in another order."""
    n = input._a.ndim
    order = to_shape(order if dims is None else (dims,))
    if len(order) != n:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions "
            f"i.e. input.dim() = {n} is not equal to len(dims) = {len(order)}"
        )
    order = tuple([axis(d, n) for d in order])
    if len(set(order)) != n:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return call(PERMUTED, (input,), (order,))


@public
def unsqueeze(input: Any, dim: int) -> Any:
    """An axis of length 1 put in."""
    s, k = input._a.shape, axis(dim, input._a.ndim + 1)
    return call(UNSQUEEZE, (input,), ((*s[:k], 1, *s[k:]),))


@public
def squeeze(input: Any, dim: Any = None) -> Any:
    """Axes of length 1 left out: all, or those named."""
    chosen = () if dim in ((), []) else axes_of(dim, input._a.ndim)
    shape = tuple([n for k, n in enumerate(input._a.shape) if n != 1 or k not in chosen])
    return call(SQUEEZE[0 if dim is None else 1 if isinstance(dim, int) else 2], (input,), (shape,))


@as_method
def expand(self: Any, *sizes: Any, size: Any = None) -> Any:
    """Axes of length 1 repeated, without a copy; -1 keeps a length."""
    shape = sized("expand", sizes if size is None else (size,))
    return call(EXPAND, (self,), (expanded(self, shape),))


public(lambda self, other: expand(self, other.shape), "expand_as", torch=False)
public(lambda input, *sizes, size=None: expand(input, *sizes, size=size), "broadcast_to")


@public
def select(input: Any, dim: int, index: Any) -> Any:
    """One entry along an axis."""
    k, i = axis(dim, input._a.ndim), int(index)
    if input._a.ndim and not -input._a.shape[k] <= i < input._a.shape[k]:
        raise IndexError(f"select(): index {i} out of range for tensor of size {list(input.shape)} at dimension {k}")
    return select_at(input, k, i)


def select_at(x: Any, k: int, i: int, removed: int = 0) -> Any:
    """Entry `i` along axis k, of which the user sees `removed` more in front."""
    n = x._a.shape[k] if x._a.ndim else 0
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of bounds for dimension {k + removed} with size {n}")
    return call(SELECT, (x,), ((*(slice(None),) * k, i, ...),))  # the ellipsis makes it a view, 0-d too


@public
def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """`length` entries along an axis from `start`."""
    k, start = axis(dim, input._a.ndim), int(start)
    start += input._a.shape[k] if start < 0 else 0
    return call(SLICE, (input,), (at_axis(k, slice(start, start + length)),))


def _parts(a: Any, k: int, bounds: tuple[int, ...]) -> tuple[Any, ...]:
    front = (slice(None),) * k
    return tuple([a[(*front, slice(i, j))] for i, j in itertools.pairwise(bounds)])


def _joined(g: Any, _r: Any, _x: Any, k: int, _bounds: Any) -> Any:
    return np.concatenate(g, axis=k)


SPLIT, SPLIT_SIZES = (Op(node, _parts, [_joined], "Cat", many=True, view=True) for node in ("Split", "SplitWithSizes"))
UNBIND = Op(
    "Unbind",
    lambda a, k: tuple([a[(*(slice(None),) * k, i, ...)] for i in range(a.shape[k])]),
    [lambda g, _r, _x, k: np.stack(g, axis=k)],
    "Stack",
    many=True,
    view=True,
)


@public
def split(tensor: Any, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None) -> Any:
    """Parts along an axis: all of one length (the last may be shorter), or of the lengths given."""
    split_size_or_sections = split_size if split_size_or_sections is None else split_size_or_sections
    k = axis(dim, tensor._a.ndim)
    n = tensor._a.shape[k]
    if hasattr(split_size_or_sections, "__index__"):
        step = int(split_size_or_sections)
        bounds = (*range(0, n, step), n) if n else (0, 0)
        return call(SPLIT, (tensor,), (k, bounds))
    sizes = tuple(split_size_or_sections)
    if sum(sizes) != n:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {k}), but got "
            f"split_sizes={list(sizes)}"
        )
    return call(SPLIT_SIZES, (tensor,), (k, tuple(np.cumsum((0, *sizes)).tolist())))


@public
def chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    """At most `chunks` parts of one length along an axis."""
    chunks, n = int(chunks), input._a.shape[axis(dim, input._a.ndim)]
    return split(input, -(-n // chunks) if n else [0] * chunks, dim)


@public
def unbind(input: Any, dim: int = 0) -> Any:
    """The entries along an axis."""
    if not input._a.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return call(UNBIND, (input,), (axis(dim, input._a.ndim),))


# copies and casts


@public
def clone(input: Any, *, memory_format: Any = None) -> Any:
    """A copy, through which gradients flow."""
    need("clone", input)
    return call(CLONE, (input,)) if memory_format in AS_IT_IS else call(_FORMATTED, (input,), (memory_format,))


@as_method
def is_contiguous(self: Any, memory_format: Any = _dtypes.contiguous_format) -> bool:
    """Whether the elements lie in order, that of a memory format. Those of a traced value lie as is wanted."""
    a = self._a
    if isinstance(a, Tracer):
        return True
    if memory_format is _dtypes.channels_last:
        return a.ndim == 4 and bool(a.transpose(0, 2, 3, 1).flags.c_contiguous)
    return bool(a.flags.c_contiguous)


@as_method
def contiguous(self: Any, memory_format: Any = _dtypes.contiguous_format) -> Any:
    """Itself, or a copy whose elements lie in order, that of a memory format."""
    return self if is_contiguous(self, memory_format) else call(_FORMATTED, (self,), (memory_format,))


@as_method
def to(
    self: Any, *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False, copy: bool = False, memory_format: Any = None
) -> Any:
    """With another dtype (or that of another tensor), in a memory format, or without elements, on "meta". Itself if nothing changes."""
    if args or dtype.__class__ is not _dtypes.dtype:
        device, dtype, _, copy, memory_format = _dtypes.parse_to(*args, device=device, dtype=dtype, copy=copy, memory_format=memory_format)
    if device is not None and _dtypes.device_of(device) or type(self._a) is Meta:
        return wrap(without_data(self._a, (dtype or self.dtype).np, device))
    same_dtype = dtype is None or dtype.np == self._a.dtype
    if same_dtype and not copy and (memory_format in AS_IT_IS or channels_last(self._a) == (memory_format is _dtypes.channels_last)):
        return self
    d = (dtype or self.dtype).np
    return call(TO, (self,), (d, memory_format) if memory_format else (d,))


for _name in ("float", "double", "half", "int", "long", "short", "bool", "cfloat", "cdouble", "byte=uint8", "char=int8"):
    _name, _, _theirs = _name.partition("=")
    _d = _dtypes.NAMES[_theirs or _name]
    public(lambda self, *, memory_format=None, _d=_d: to(self, _d, memory_format=memory_format), _name, torch=False)
public(lambda self, *_, memory_format=None: to(self, device=_dtypes.CPU, memory_format=memory_format), "cpu", torch=False)
public(lambda self, other: to(self, other.dtype), "type_as", torch=False)


def in_dtype(x: Any, d: _dtypes.dtype) -> Any:
    """A tensor with another dtype; itself if that is its own."""
    return x if x._a.dtype is d.np else to(x, d)


def alike(tensors: Sequence[Any]) -> Sequence[Any]:
    """Tensors in the dtype that they have together."""
    first = tensors[0]._a.dtype
    for x in tensors:
        if x._a.dtype is not first:
            d = _dtypes.result_type(*tensors)
            return [to(y, d) for y in tensors]
    return tensors


@as_method
def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Write the elements of `src`, broadcast and cast, into it."""
    from_ = wrap(np.asarray(src)) if isinstance(src, SCALARS) else need("copy_", src, "other")
    check_broadcast(from_, self._a.shape)
    return inplace(COPY, self, (from_,))


Tensor._copied = lambda self, g: call(COPIED, (g,))
