"""The binding table of selections by index, and of copies with some elements replaced, added to or reduced."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.torch._along import key_along
from functrace.torch._apply import call
from functrace.torch._bind import bind, bound
from functrace.torch._contact import Primitive, Tracer, at_axis, index_add, index_set, on_diagonal, read, same, unread, unset
from functrace.torch._dtypes import as_int64, held, result_type
from functrace.torch._layout import as_given, in_order
from functrace.torch._nodes import Op
from functrace.torch._ops import FUNCTIONS, public
from functrace.torch._shape import axis
from functrace.torch._tensor import Tensor, wrap

_LETTERS = {"sum": "add", "multiply": "prod", "max": "amax", "min": "amin"}


def _reduced(x: Any, src: Any, key: Any, how: str, include_self: bool) -> Any:
    """`x` with the elements of `src` that belong to the same place of `x[key]` added, multiplied, ... to it."""
    how = _LETTERS.get(how, how)
    every = include_self and how != "mean"
    hits = np.zeros(x.shape, int) if every else index_add(np.zeros(x.shape, int), np.ones(src.shape, int), key)
    old = np.ones(x.shape, bool) if include_self else hits == 0
    if how in ("add", "mean"):
        total = index_add(np.where(old, x, 0).astype(x.dtype), src, key)
        if how == "add":
            return total
        count = (hits + old).astype(x.dtype)
        return total / count if x.dtype.kind in "fc" else total // count
    places = np.broadcast_to(read(np.arange(math.prod(x.shape)).reshape(x.shape), key), src.shape)
    if how == "prod":
        return _product(np.where(old, x, 1).astype(x.dtype), src, places)
    info: Any = np.iinfo(x.dtype) if x.dtype.kind in "iu" else np.array([-np.inf, np.inf])
    low, high = (info.min, info.max) if x.dtype.kind in "iu" else info
    start = np.where(old, x, low if how == "amax" else high).astype(x.dtype)
    top = _EXTREMES.op(start, src, places, "maximum" if how == "amax" else "minimum")
    if x.dtype.kind != "f" or not (isinstance(x, Tracer) or isinstance(src, Tracer)):
        return top
    mine, theirs = (x == top) & old, src == top[key]  # the extreme's gradient is shared among all that attain it
    ties = np.maximum(index_add(mine.astype(x.dtype), theirs.astype(x.dtype), key), 1)
    level = np.where(np.isinf(top), 0, top)  # infinity less infinity would be NaN
    return level + index_add(np.where(mine, x - level, 0), np.where(theirs, src - level[key], 0), key) / ties


def _extremes(x: Any, src: Any, places: Any, name: str) -> Any:
    out = np.array(x)
    with np.errstate(invalid="ignore"):  # of NaN
        getattr(np, name).at(out.reshape(-1), places.reshape(-1), src.reshape(-1))
    return out


def _each(size: int, flags: Sequence[bool], args: Sequence[Any], params: tuple[Any, ...]) -> Any:
    return np.stack([_EXTREMES.op(*(a[i] if flag else a for a, flag in zip(args, flags)), *params) for i in range(size)])


_EXTREMES: Primitive = Primitive("extremes", _extremes, arity=3, constant=True, batch=_each)


def _product(x: Any, src: Any, places: Any) -> Any:
    """One element for each place and round, so that no place is written twice at once."""
    places = places.ravel()
    order = np.argsort(places, kind="stable")
    ranks = np.empty(places.size, int)
    ranks[order] = np.arange(places.size) - np.searchsorted(places[order], places[order])
    out, items = np.ravel(x), np.ravel(src)
    for k in range(ranks.max(initial=-1) + 1):
        now = np.flatnonzero(ranks == k)
        out = index_set(out, out[places[now]] * items[now], places[now])
    return np.reshape(out, x.shape)


def _filled(x: Any, v: Any, key: Any) -> Any:
    return as_given(index_set(x, v, key), x)


def _writing(node: str, write: Callable[..., Any]) -> Op:
    """A row of `write(x, v, key)`, one of `index_set` and `index_add`."""

    def fun(x: Any, v: Any, key: Any) -> Any:
        try:
            return write(x, v, key)
        except ValueError:
            shapes = f"shape {list(v.shape)} cannot be broadcast to indexing result of shape {list(x[key].shape)}"
            raise RuntimeError(f"shape mismatch: value tensor of {shapes}") from None

    added = [same, lambda g, _r, _x, _v, key: read(g, key)]
    rules = added if write is index_add else [lambda g, _r, _x, _v, key: index_set(g, np.zeros((), g.dtype), key), unset]
    return Op(node, fun, rules, frees=True, flat=True, lies=None if write is _filled else in_order)


_SCATTER, _SCATTER_NUMBER = (_writing(f"ScatterBackward{k}", index_set) for k in (0, 1))
_SCATTER_ADD = _writing("ScatterAdd", index_add)
_INDEX_COPY, _INDEX_ADD, _INDEX_FILL = _writing("IndexCopy", index_set), _writing("IndexAdd", index_add), _writing("IndexFill", _filled)
_INDEX_PUT = [_writing("IndexPut", write) for write in (index_set, index_add)]


def _written(op: Op, input: Any, dim: int, index: Any, v: Any, whole: bool = False) -> Any:
    """A row along an axis. `whole`: the index has a place for each element of `v`, else one for all that is beside it."""
    x, i, v = (t if t._a.ndim else t.reshape(1) for t in (input, index, v))
    k = axis(dim, x._a.ndim)
    if whole and v._a.shape != i._a.shape:
        v = v[tuple(slice(0, n) for n in i._a.shape)]
    out = call(op, (x, v), (key_along(i._a, k) if whole else at_axis(k, i._a),), (index,))
    return out if x is input else out.reshape(())


def scatter(input: Any, dim: int, index: Any, src: Any = None, *, reduce: Any = None, value: Any = None) -> Any:
    """A copy in which the elements that `index` names along an axis are those of `src`, or a number."""
    src, op = value if src is None else src, _SCATTER
    if not isinstance(src, Tensor):
        op, src = _SCATTER_NUMBER, wrap(np.full(index._a.shape, held(src, input._a.dtype)))
    if reduce is None:
        return _written(op, input, dim, index, src, True)
    if reduce not in ("add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    return FUNCTIONS["scatter_reduce"](input, dim, index, src, "sum" if reduce == "add" else "prod")


def _scatter_reduce(input: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True) -> Any:
    if reduce not in ("sum", "prod", "mean", "amax", "amin", "max", "min"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    return _reduced(input, src[tuple(slice(0, n) for n in index.shape)], key_along(index, dim), reduce, include_self)


def _index_reduce(input: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True) -> Any:
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    shape = [1] * input.ndim
    shape[dim] = -1
    return _reduced(input, source, key_along(np.broadcast_to(np.reshape(index, shape), source.shape), dim), reduce, include_self)


def _take_along_dim(input: Any, indices: Any, dim: Any = None) -> Any:
    return read(np.ravel(input), np.ravel(indices)) if dim is None else read(input, _key(input.shape, indices, dim))


def _key(shape: tuple[int, ...], indices: Any, dim: int) -> tuple[Any, ...]:
    sizes = [np.broadcast_shapes((m,), (n,))[0] if k != dim else n for k, (m, n) in enumerate(zip(shape, indices.shape))]
    return key_along(np.broadcast_to(indices, sizes), dim)


def _untake_along(g: Any, _r: Any, _x: Any, indices: Any, dim: Any) -> Any:
    return _untake(g, _r, _x, np.ravel(indices)) if dim is None else unread(g, _r, _x, _key(_x.shape, indices, dim))


def _put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    write = index_add if accumulate else index_set
    return np.reshape(write(np.ravel(input), np.ravel(source), np.ravel(index)), input.shape)


def _masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    input, mask = np.broadcast_arrays(input, mask)
    if np.size(source) < np.count_nonzero(mask):
        raise RuntimeError("Number of elements of source < number of ones in mask")
    return index_set(input, np.ravel(source)[: np.count_nonzero(mask)], mask)


def _placed(input: Any, src: Any, view: Callable[[Any], Any]) -> Any:
    """A copy with the elements that a view shows replaced."""
    places = view(np.arange(math.prod(input.shape)).reshape(input.shape))
    if places.shape != src.shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = {list(places.shape)}"
        )
    src = src if src.dtype == input.dtype else src.astype(input.dtype)
    return np.reshape(index_set(np.ravel(input), src, places), input.shape)


def strided(a: Any, size: Any, stride: Any, storage_offset: int = 0) -> Any:
    """The elements of a flat array that a view of these strides, counted in elements, shows."""
    places = storage_offset + sum(
        (np.arange(n).reshape((-1, *(1,) * (len(size) - k - 1))) * s for k, (n, s) in enumerate(zip(size, stride))), np.array(0)
    )
    return np.ravel(a)[np.broadcast_to(places, tuple(size))]


def _rot90(input: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    return np.rot90(input, k, tuple(dims))


def _diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    n = input.shape[-1] + abs(offset)
    return np.moveaxis(on_diagonal(input, offset, (*input.shape[:-1], n, n)), (-2, -1), (dim1, dim2))


def _block_diag(*tensors: Any) -> Any:
    for k, x in enumerate(tensors):
        if x.ndim > 2:
            raise RuntimeError(f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {k} has {x.ndim} dimensions")
    d = result_type(*tensors).np
    blocks = [np.atleast_2d(x.astype(d)) for x in tensors]
    width = sum(b.shape[1] for b in blocks)
    starts = itertools.accumulate((b.shape[1] for b in blocks), initial=0)
    return np.concatenate([np.pad(b, ((0, 0), (s, width - s - b.shape[1]))) for b, s in zip(blocks, starts)])


def _combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    if len(input.shape) != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    return input[np.array(list(choose(range(len(input)), r)), int).reshape(-1, r)]


def _repeat_interleave(input: Any, repeats: Any = None, dim: Any = None, output_size: Any = None) -> Any:
    if repeats is None:
        input, repeats = np.arange(len(input), dtype=np.int64), input
    out = np.repeat(input, repeats.astype(np.intp) if isinstance(repeats, np.ndarray) else repeats, axis=dim)
    if output_size not in (None, out.shape[dim or 0]):
        raise RuntimeError(f"repeat_interleave: Invalid output_size, expected {out.shape[dim or 0]} but got {output_size}")
    return out


bind(
    {
        "scatter_reduce": ("ScatterReduce", _scatter_reduce),
        "index_reduce": ("IndexReduce", _index_reduce),
        "masked_scatter": ("MaskedScatter", _masked_scatter),
        "put": ("Put", _put),
        "take_along_dim": ("Gather", _take_along_dim, _untake_along),
        "diag_embed": ("DiagEmbed", _diag_embed, lambda g, _r, _x, offset, i, j: np.diagonal(g, offset, i, j)),
    },
    lies=in_order,
)
bind(
    {
        "diagonal_scatter": (
            "DiagonalScatter",
            lambda input, src, offset=0, dim1=0, dim2=1: _placed(input, src, lambda a: np.diagonal(a, offset, dim1, dim2)),
        ),
        "select_scatter": ("SelectScatter", lambda input, src, dim, index: _placed(input, src, lambda a: np.take(a, index, dim))),
        "slice_scatter": (
            "SliceScatter",
            lambda input, src, dim=0, start=None, end=None, step=1: _placed(input, src, lambda a: a[at_axis(dim, slice(start, end, step))]),
        ),
        "as_strided_scatter": (
            "AsStridedScatter",
            lambda input, src, size, stride, storage_offset=0: _placed(input, src, lambda a: strided(a, size, stride, storage_offset or 0)),
        ),
        "diagflat": ("DiagEmbed", lambda input, offset=0: np.diagflat(input, offset)),
        "repeat_interleave": ("View", _repeat_interleave),
    },
    frees=False,
    lies=in_order,
)
bind(
    {
        "rot90": ("Rot90", _rot90, lambda g, _r, _x, k, dims: _rot90(g, -k, dims)),
        "fliplr": ("Flip", lambda input: np.fliplr(input), lambda g, _r, _x: np.fliplr(g)),
        "flipud": ("Flip", lambda input: np.flipud(input), lambda g, _r, _x: np.flipud(g)),
    }
)
public(scatter)
public(lambda input, dim, index, src: _written(_SCATTER_ADD, input, dim, index, src, True), "scatter_add")
public(lambda input, dim, index, source: _written(_INDEX_COPY, input, dim, index, source), "index_copy")
public(
    lambda input, dim, index, value: _written(
        _INDEX_FILL, input, dim, index, value if isinstance(value, Tensor) else wrap(held(value, input._a.dtype))
    ),
    "index_fill",
)


public(
    lambda input, dim, index, source, *, alpha=1: _written(_INDEX_ADD, input, dim, index, source if alpha == 1 else source * alpha),
    "index_add",
)


@public
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """A copy in which `x[indices]` is `values`, or has them added."""
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"index_put(): argument 'indices' (position 1) must be tuple of Tensors, not {type(indices).__name__}")
    key = tuple(slice(None) if i is None else i._a.view(np.bool_) if i._a.dtype == np.uint8 else i._a for i in indices)
    try:
        return call(_INDEX_PUT[bool(accumulate)], (input, values), (key,), indices)
    except IndexError:
        if sum(i.dtype == np.bool_ and i.ndim or 1 for i in key if not isinstance(i, slice)) > input._a.ndim:
            raise IndexError(f"too many indices for tensor of dimension {input._a.ndim} (got {len(key)})") from None
        input.detach()[tuple(slice(None) if i is None else i for i in indices)]  # says what is wrong with them
        raise


@public
def take(input: Any, index: Any) -> Any:
    """The elements at places counted through the whole tensor."""
    return call(_TAKE, (input,), (index._a,), (index,))


def _untake(g: Any, _r: Any, _x: Any, index: Any) -> Any:
    return np.reshape(index_add(np.zeros(math.prod(_x.shape), g.dtype), g, index), _x.shape)


_TAKE = Op("Take", lambda x, index: read(np.ravel(x), index), [_untake], "Put", frees=True, flat=True, lies=in_order)
bind(
    {
        "combinations": ("Stack", _combinations),
        "vander": ("Flip", lambda x, N=None, increasing=False: np.vander(as_int64(x), N, increasing).astype(as_int64(x).dtype)),
    },
    method=False,
)
_blocks = bound("block_diag", "BlockDiag", lambda tensors: _block_diag(*tensors), frees=False)
public(lambda *tensors: _blocks(tensors), "block_diag", method=False)
