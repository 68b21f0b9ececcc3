"""Views beyond those of `_shape`, splitting, what changes a tensor's shape in place, and casts by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch import _dtypes
from functrace.torch._apply import call
from functrace.torch._contact import Tracer, at_axis, complex_of, in_floats, on_diagonal, vjp
from functrace.torch._dtypes import Size, as_int64, to_shape, warn
from functrace.torch._engine import node_class
from functrace.torch._layout import in_order, memory
from functrace.torch._modes import recording
from functrace.torch._nodes import Op, summed_to
from functrace.torch._ops import FUNCTIONS, as_method, public
from functrace.torch._scatter import strided
from functrace.torch._shape import ALIAS, PERMUTED, axis, narrow, to, transpose
from functrace.torch._tensor import Tensor, wrap
from functrace.torch._views import check_writable, follow


def _seen(
    node: str, fun: Callable[..., Any], second: str, traced: Callable[..., Any] | None = None, plain: Callable[..., Any] | None = None
) -> Op:
    """A row of a view. Its rule is `plain`, if given, for plain arrays; else the pullback of `fun`, or of `traced`, which does the same."""
    pulled = traced or fun

    def rule(g: Any, _r: Any, _x: Any, *params: Any) -> Any:
        if plain is not None and type(g) is np.ndarray:
            return plain(g, _x.shape, *params)
        return vjp(lambda a: (pulled(a, *params),), np.zeros(_x.shape, _x.dtype if _x.dtype.kind == "c" else g.dtype))[1]((g,))[0]

    return Op(node, lambda a, *params: (pulled if isinstance(a, Tracer) else fun)(a, *params), [rule], second, view=True)


def _as_strided(a: Any, size: Any, stride: Any, offset: int) -> Any:
    flat = np.reshape(a, -1)[offset:]
    return np.lib.stride_tricks.as_strided(flat, size, tuple(s * a.itemsize for s in stride))


def _windows(a: Any, k: int, size: int, step: int) -> Any:
    if not isinstance(a, np.ndarray):  # a traced value, whose own windows could not be written to
        return np.moveaxis(np.take(a, np.arange(0, a.shape[k] - size + 1, step)[:, None] + np.arange(size), k), k + 1, -1)
    windows = np.lib.stride_tricks.sliding_window_view(a, size, k, writeable=a.flags.writeable and size <= step)
    return windows[at_axis(k, slice(None, None, step))]


def _overlap(g: Any, shape: tuple[int, ...], k: int, size: int, step: int) -> Any:
    """The sum of windows where they lie in an array."""
    out = np.zeros(shape, g.dtype)
    lead, stop = (slice(None),) * k, g.shape[k] * step
    for j in range(size)[::-1]:
        out[(*lead, slice(j, j + stop, step))] += g[..., j]
    return out


def _pairs(a: Any) -> Any:
    return a[..., None].view(a.real.dtype)


def _joined(a: Any) -> Any:
    return a.view(np.result_type(a.dtype, np.complex64))[..., 0]


def _diagonal(a: Any, offset: int, i: int, j: int) -> Any:
    d: Any = np.diagonal(a, offset, i, j)
    if type(a) is np.ndarray:
        d.flags.writeable = a.flags.writeable
    else:
        d.parent = None  # NumPy's is read-only; this is written to as other views are
    return d


def _undiagonal(g: Any, _r: Any, _x: Any, offset: int, i: int, j: int) -> Any:
    rest = [n for k, n in enumerate(_x.shape) if k not in (i, j)]
    return np.moveaxis(on_diagonal(g, offset, (*rest, _x.shape[i], _x.shape[j])), (-2, -1), (i, j))


_DIAGONAL = Op("Diagonal", _diagonal, [_undiagonal], "DiagonalBackward", view=True)
_STRIDED = _seen("AsStrided", _as_strided, "AsStridedScatter", strided)
_UNFOLD = _seen("Unfold", _windows, "UnfoldBackward", plain=_overlap)
_PAIRS = _seen("ViewAsReal", _pairs, "ViewAsComplex", lambda a: np.stack([a.real, a.imag], -1), lambda g, _s: _joined(in_order(g)).conj())
_JOINED = _seen("ViewAsComplex", _joined, "ViewAsReal", lambda a: complex_of(a[..., 0], a[..., 1]), lambda g, _s: _pairs(g.conj()))


@public
def movedim(input: Any, source: Any, destination: Any) -> Any:
    """Some axes moved to other places."""
    n = input._a.ndim
    for ends, what in ((source, "source"), (destination, "destination")):
        places = [ends] if isinstance(ends, int) else list(ends)
        if len({axis(d, n) for d in places}) < len(places):
            raise RuntimeError(f"movedim: repeated dim in `{what}` ({places})")
    ends = [tuple(axis(d, n) for d in ((ds,) if isinstance(ds, int) else ds)) for ds in (source, destination)]
    if len(ends[0]) != len(ends[1]):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(ends[0])} dims) should contain the same number of dims as "
            f"destination ({list(ends[1])} dims)"
        )
    order = [k for k in range(n) if k not in ends[0]]
    for to_place, k in sorted(zip(ends[1], ends[0])):
        order.insert(to_place, k)
    if not n:
        return call(ALIAS, (input,), (Ellipsis,))
    return call(PERMUTED, (input,), (tuple(order[:n]),))


public(movedim, "moveaxis")


@in_floats
def _unrepeat(g: Any, _r: Any, _x: Any, sizes: tuple[int, ...]) -> Any:
    ndim = max(len(sizes), len(_x.shape))
    pairs = [((1,) * (ndim - len(s)) + tuple(s)) for s in (sizes, _x.shape)]
    return np.reshape(np.sum(np.reshape(g, tuple(n for pair in zip(*pairs) for n in pair)), axis=tuple(range(0, 2 * ndim, 2))), _x.shape)


_ROLL = Op(
    "Roll", np.roll, [lambda g, _r, _x, shifts, dims: np.roll(g, np.negative(shifts), dims)], "Roll", frees=False, flat=True, lies=in_order
)
_REPEAT = Op("Repeat", np.tile, [_unrepeat], "SumBackward1", frees=False, flat=True, lies=in_order)
public(lambda input, shifts, dims=None: call(_ROLL, (input,), (shifts, None if dims in ((), []) else dims)), "roll")
public(lambda self, *sizes, repeats=(): call(_REPEAT, (self,), (_dtypes.to_shape(sizes or (repeats,)),)), "repeat", torch=False)
public(lambda input, *d, dims=None: call(_REPEAT, (input,), (_dtypes.to_shape(d or (dims,)),)), "tile")


def _transposed_property(self: Any) -> Any:
    n = self._a.ndim
    if not n:
        warn("Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases.")
    elif n != 2:
        warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will throw an error in a "
            "future release. Consider `x.mT` to transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse "
            "the dimensions of a tensor."
        )
    return call(PERMUTED, (self,), (tuple(range(n))[::-1],))


Tensor.T = property(_transposed_property)  # type: ignore[assignment, method-assign]


def _matrix_transposed(name: str) -> property:
    def get(self: Any) -> Any:
        n = self._a.ndim
        if not n:
            advice = "This function is the identity in these cases" if name == "mT" else "Consider using x.conj()"
            warn(f"Tensor.{name} is deprecated on 0-D tensors. {advice}.")
            return self.conj_physical() if name != "mT" and self._a.dtype.kind == "c" else self
        if n < 2 or (name == "H" and n > 2):
            where = "matrices (2-D tensors)" if name == "H" else "matrices or batches of matrices"
            more = " For batches of matrices, consider using tensor.mH" if name == "H" and n > 2 else ""
            raise RuntimeError(f"tensor.{name} is only supported on {where}. Got {n}-D tensor.{more}")
        out = transpose(self, -2, -1)
        return out.conj_physical() if name != "mT" and self._a.dtype.kind == "c" else out

    return property(get)


for _name in ("mT", "mH", "H"):
    setattr(Tensor, _name, _matrix_transposed(_name))


@public
def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonal of a matrix, as the last axis."""
    return call(_DIAGONAL, (input,), (offset, axis(dim1, input._a.ndim), axis(dim2, input._a.ndim)))


@public
def as_strided(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """A view of the tensor's memory with the strides given, counted in elements."""
    base = input._base  # or the input, whichever has its history
    if base is None or input._own_rg or input._origin or (input._rg and not base._rg):
        base = input
    if not isinstance(base._a, Tracer) and not base._a.flags.c_contiguous:
        base = base.permute(sorted(range(base._a.ndim), key=lambda k: -base._a.strides[k]))  # as its elements lie
        if not base._a.flags.c_contiguous:
            raise NotImplementedError("as_strided: the memory must belong to a tensor without gaps; call .contiguous() first.")
    if any(s < 0 for s in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    offset = input.storage_offset() if storage_offset is None else storage_offset
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    offset -= base.storage_offset()
    last = offset + sum((n - 1) * s for n, s in zip(size, stride))
    if offset < 0:
        raise NotImplementedError(f"as_strided: the storage offset {storage_offset} lies before the tensor, which is {-offset} further on.")
    if last >= base._a.size and 0 not in size:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and itemsize {base._a.itemsize} requiring a "
            f"storage size of {(last + 1) * base._a.itemsize} are out of bounds for storage of size {base._a.nbytes}"
        )
    return call(_STRIDED, (base,), (tuple(size), tuple(stride), offset))


@as_method
def unfold(self: Any, dimension: int, size: int, step: int) -> Any:
    """Windows of `size` entries along an axis, each `step` after the last, along a new last axis."""
    k = axis(dimension, self._a.ndim)
    n = self._a.shape[k] if self._a.ndim else 1
    if size > n:
        raise RuntimeError(f"maximum size for tensor at dimension {k} is {n} but size is {size}")
    if not self._a.ndim:
        return self.reshape(1)[:size]
    return call(_UNFOLD, (self,), (k, size, step))


@public
def view_as_real(input: Any) -> Any:
    """A complex tensor as a real one whose last axis is (real, imaginary)."""
    if input._a.dtype.kind != "c":
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return call(_PAIRS, (input,))


@public
def view_as_complex(input: Any) -> Any:
    """A real tensor whose last axis is (real, imaginary) as a complex one."""
    if not input._a.ndim or input._a.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if input._a.dtype.kind != "f":
        raise RuntimeError(
            f"view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: {input.dtype.scalar}"
        )
    if isinstance(input._a, np.ndarray) and input.stride(-1) != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    return call(_JOINED, (input,))


def real(input: Any) -> Any:
    """The real part: a view, or a real tensor itself."""
    return view_as_real(input).select(-1, 0) if input._a.dtype.kind == "c" else input


def imag(input: Any) -> Any:
    """The imaginary part: a view."""
    if input._a.dtype.kind != "c":
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return view_as_real(input).select(-1, 1)


_CONJ = Op("Conj", np.conjugate, [lambda g, _r, _x: np.conjugate(g)], "Conj")
public(lambda input: call(_CONJ, (input,)) if input._a.dtype.kind == "c" else input, "conj")
public(lambda input: input, "resolve_conj", "resolve_neg")
public(lambda input: False, "is_conj", "is_neg")
public(real, "real", method=False)
public(imag, "imag", method=False)


def _settable(part: Callable[[Any], Any]) -> Any:
    return property(part, lambda self, value: part(self).__setitem__(..., value))


Tensor.real, Tensor.imag = _settable(real), _settable(imag)  # type: ignore[method-assign]


@public
def adjoint(input: Any) -> Any:
    """The last two axes exchanged, complex numbers conjugated."""
    if input._a.ndim == 1:
        raise RuntimeError("tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.")
    turned = input.transpose(-2, -1) if input._a.ndim else input
    return turned.conj() if input._a.dtype.kind == "c" else turned


@public
def tensor_split(input: Any, indices_or_sections: Any = None, dim: int = 0, *, sections: Any = None, indices: Any = None) -> Any:
    """Parts along an axis: so many of nearly one length, or between the places given."""
    if not input._a.ndim:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    k = axis(dim, input._a.ndim)
    n = input._a.shape[k]
    if indices_or_sections is None:
        indices_or_sections = indices if sections is None else sections
    where = indices_or_sections._a.tolist() if isinstance(indices_or_sections, Tensor) else indices_or_sections
    if isinstance(where, int):
        each, more = divmod(n, where)
        where = [each * i + min(i, more) for i in range(1, where)]
    bounds = [slice(a, b).indices(n)[:2] for a, b in zip([0, *where], [*where, n])]
    return tuple(narrow(input, k, a, max(0, b - a)) for a, b in bounds)


def _splitter(name: str, least: int, k: int) -> None:
    def function(input: Any, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None) -> Any:
        ndim, where = input._a.ndim, indices_or_sections
        indices_or_sections = where if where is not None else sections if indices is None else indices
        if ndim < least:
            raise RuntimeError(f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {ndim} dimensions!")
        d = 0 if ndim == 1 else k
        if isinstance(indices_or_sections, int) and input._a.shape[d] % indices_or_sections:
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {d}, but the size of the dimension {input._a.shape[d]} is not "
                f"divisible by the split_size {indices_or_sections}!"
            )
        return tensor_split(input, indices_or_sections, d)

    public(function, name)


_splitter("hsplit", 1, 1)
_splitter("vsplit", 2, 0)
_splitter("dsplit", 3, 2)
public(FUNCTIONS["split"], "unsafe_split")
public(lambda input, split_sizes, dim=0: FUNCTIONS["split"](input, [*split_sizes], dim), "split_with_sizes", "unsafe_split_with_sizes")
public(FUNCTIONS["chunk"], "unsafe_chunk")
public(lambda input, dim, start, length: narrow(input, dim, start, length).clone(), "narrow_copy")
public(
    lambda *shapes: Size(np.broadcast_shapes(*(tuple(s) if not isinstance(s, int) else s for s in shapes))),
    "broadcast_shapes",
    method=False,
)


@as_method
def sum_to_size(self: Any, *size: Any) -> Any:
    """Summed over the axes that broadcasting to this shape would add or stretch."""
    shape, old = to_shape(size), self._a.shape
    lead = len(old) - len(shape)
    if lead < 0 or any(n not in (1, old[k + lead]) for k, n in enumerate(shape)):
        raise RuntimeError(f"size {{{list(shape)}}} is not expandable to size {{{list(old)}}}.")
    return summed_to(self, shape)


public(lambda indices, shape: tuple(wrap(as_int64(x)) for x in np.unravel_index(indices._a, shape)), "unravel_index", method=False)


class _Turn:
    """What was done in place to a tensor that may have views; they are read from the tensor as it was before."""

    def __init__(self, name: str, shape: tuple[int, ...], chain: Any) -> None:
        self.name, self.shape, self.chain = name, shape, chain

    def __call__(self, a: Any) -> Any:
        return follow(a, self.chain)

    def undo(self, a: Any) -> Any:
        if self.name == "as_strided":
            raise RuntimeError("as_strided_(): views from before it have no gradient; take them after it, or use as_strided.")
        return a.reshape(self.shape) if "squeeze" in self.name else self(a)


def _turned(name: str) -> None:
    """The form of a view that changes the tensor itself."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if recording():
            check_writable(self, self._rg)
        twin = wrap(self._a)
        twin._ver = self._ver
        if self._rg:
            twin._rg, twin._edge = True, self._edge
        turned = FUNCTIONS[name](twin, *args, **kwargs)
        self._ver[0] += 1
        chain = turned._chain
        if self._base is None and chain:
            chain = (_Turn(name, self._a.shape, chain),)
        self._chain = (*self._chain, *chain)
        if turned._made is not None:
            node = turned._made[0]
            kind, _, number = type(node).__name__.partition("Backward")
            node.__class__ = node_class(f"{kind}Backward{int(number) + (3 if kind == 'Squeeze' else 1)}", type(node))
            if self._base is None:
                self._rg, self._edge = True, turned._made
            else:
                self._made, self._seen = turned._made, self._ver[0]
        self._a = turned._a
        return self

    public(method, name + "_", torch=False)


for _name in "t transpose swapaxes swapdims squeeze unsqueeze as_strided".split():
    _turned(_name)


@as_method
def resize_(self: Any, *sizes: Any, memory_format: Any = None) -> Any:
    """Another shape, in place, of the elements as they lie in memory; further ones are not set."""
    if self._rg:
        raise RuntimeError("cannot resize variables that require grad")
    shape = to_shape(sizes)
    flat, offset, _ = memory(self._a)
    rest, n = flat[offset:], math.prod(shape)
    self._a = rest[:n].reshape(shape) if n <= rest.size else np.resize(rest, shape)
    self._ver[0] += 1
    return self


public(lambda self, the_template, *, memory_format=None: resize_(self, *the_template.shape), "resize_as_", torch=False)


def type_(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of its type, as 'torch.FloatTensor'; or itself converted."""
    if dtype is None:
        return f"torch.{self.dtype.storage}"
    if isinstance(dtype, str):
        found = [d for d in _dtypes.NAMES.values() if d.storage == dtype.removeprefix("torch.")]
        if not found:
            raise ValueError(f"invalid type: '{dtype}'")
        dtype = found[0]
    return to(self, dtype.dtype if isinstance(dtype, type) and hasattr(dtype, "dtype") else dtype)  # a class, as torch.FloatTensor


public(type_, "type", torch=False)
