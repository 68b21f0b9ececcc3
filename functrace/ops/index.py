"""Indexing: reading a part of an array, writing one, and choosing between two arrays.

An index is a parameter where it is plain, as it is under differentiation: integers have no derivative. Where it is itself
batched, it is an argument of `gather`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.core.primitive import Primitive
from functrace.core.tracer import Tracer
from functrace.ops.kinds import Op, align, general, linear, spread_batch

Index = Any


def is_basic(index: Index) -> bool:
    """Whether an index makes a view: no arrays, lists or masks in it. Such an index reads no element twice."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(p is None or p is Ellipsis or isinstance(p, (int, slice, np.integer)) and not isinstance(p, bool) for p in parts)


def _ndim_taken(p: Any) -> int:
    if p is None or p is Ellipsis or isinstance(p, (bool, np.bool_)):
        return 0
    if isinstance(p, (list, np.ndarray)):
        a = np.asarray(p)
        return a.ndim if a.dtype == bool else 1
    return 1


def _advanced(p: Any) -> bool:
    return not (p is None or p is Ellipsis or isinstance(p, slice))


def batch_in_front(index: Index) -> tuple[Index, int]:
    """The index that does the same to an array with a batch as axis 0, and where the batch axis then is.

    NumPy puts the axes of advanced indices first when they are not adjacent: before the batch.
    """
    parts = index if isinstance(index, tuple) else (index,)
    inside = (slice(None), *parts)
    if is_basic(index):
        return inside, 0
    positions = [k for k, p in enumerate(parts) if _advanced(p)]
    if positions[-1] - positions[0] + 1 == len(positions):
        return inside, 0
    shapes = [np.asarray(p).shape if np.asarray(p).dtype != bool else np.nonzero(p)[0].shape for p in parts if _advanced(p)]
    return inside, len(np.broadcast_shapes(*shapes))


def _read(x: Any, index: Index) -> Any:
    return x[index]


def _batch_read(_size: int, x: Any, index: Index) -> Any:
    inside, axis = batch_in_front(index)
    out = x[inside]
    return np.moveaxis(out, axis, 0) if axis else out


def _add_into(buffer: Any, g: Any, index: Index) -> None:
    if is_basic(index) or _is_mask(index):
        buffer[index] += g
    else:
        np.add.at(buffer, index, g)


def _is_mask(index: Index) -> bool:
    return isinstance(index, np.ndarray) and index.dtype == bool


def _unread(g: Any, _ans: Any, _x: Any, index: Index) -> Any:
    return index_add(np.zeros(_x.shape, g.dtype), g, index)


getitem = linear("getitem", _read, _unread, batch=_batch_read, scatter=_add_into)


def _write(x: Any, v: Any, index: Index) -> Any:
    out = np.array(x, dtype=np.result_type(x, v) if np.result_type(x, v).kind == "c" else None)
    out[index] = v
    return out


def _write_add(x: Any, v: Any, index: Index) -> Any:
    out = np.array(x)
    _add_into(out, v, index)
    return out


def _spared(g: Any, _ans: Any, _x: Any, _v: Any, index: Index) -> Any:
    # of what was there before the write, tangent and cotangent alike
    return index_set(g, np.zeros((), g.dtype), index)


def _batch_write(which: str) -> Any:
    def rule(size: int, flags: Sequence[bool], args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        op = index_set if which == "set" else index_add
        x, v = args
        (index,) = params
        if flags[1]:
            part = np.ndim(np.zeros(np.shape(x)[1:] if flags[0] else np.shape(x))[index])
            v = np.reshape(v, (size, *(1,) * (part - (np.ndim(v) - 1)), *v.shape[1:]))
        x = x if flags[0] else np.broadcast_to(x, (size, *np.shape(x)))
        inside, axis = batch_in_front(index)
        if axis and flags[1]:
            v = np.moveaxis(v, 0, axis)
        return op(x, v, inside)

    return rule


def _tangent_v(t: Any, _ans: Any, _x: Any, _v: Any, index: Index) -> Any:
    return index_add(np.zeros(_ans.shape, _ans.dtype), t, index)


def _written(g: Any, _ans: Any, _x: Any, _v: Any, index: Index) -> Any:
    # Of positions written twice the last write counts, as in NumPy; the earlier ones get no cotangent.
    if not is_basic(index) and not _is_mask(index):
        positions = np.arange(int(np.prod(_x.shape))).reshape(_x.shape)
        order = np.empty(_x.shape, dtype=np.intp)
        chosen = positions[index]
        order[index] = np.arange(chosen.size).reshape(chosen.shape)
        return g[index] * (order[index] == np.arange(chosen.size).reshape(chosen.shape))
    return g[index]


index_set: Op = general(
    "index_set",
    _write,
    _spared,
    _written,
    jvps=(_spared, lambda t, _ans, _x, _v, index: index_set(np.zeros(_ans.shape, _ans.dtype), t, index)),
    batch=_batch_write("set"),
)
index_add = general(
    "index_add",
    _write_add,
    lambda g, _ans, _x, _v, _index: g,
    lambda g, _ans, _x, _v, index: g[index],
    jvps=(lambda t, _ans, _x, _v, _index: t, _tangent_v),
    batch=_batch_write("add"),
)


def _where(condition: Any, x: Any, y: Any) -> Any:
    return np.where(condition, x, y)


where: Op = general(
    "where",
    _where,
    None,
    lambda g, _ans, condition, _x, _y: np.where(condition, g, np.zeros((), g.dtype)),
    lambda g, _ans, condition, _x, _y: np.where(condition, np.zeros((), g.dtype), g),
    jvps=(
        None,
        lambda t, _ans, condition, _x, _y: np.where(condition, t, np.zeros((), t.dtype)),
        lambda t, _ans, condition, _x, _y: np.where(condition, np.zeros((), t.dtype), t),
    ),
    batch=lambda size, flags, args, _params: where(*align(size, flags, args)),
)


def _gather(x: Any, *rest: Any) -> Any:
    *arrays, template = rest
    return x[_fill(template, arrays)]


def _fill(template: tuple[Any, ...], arrays: Sequence[Any]) -> tuple[Any, ...]:
    """The index whose traced parts, `_HOLE` in the template, are `arrays`."""
    rest = iter(arrays)
    return tuple(next(rest) if p is HOLE else p for p in template)


HOLE = type("Hole", (), {"__repr__": lambda self: "_"})()


def _rows(size: int, ndim: int, arrays: Sequence[Any], template: tuple[Any, ...]) -> tuple[Any, list[Any], int, int]:
    """An index for the batch axis that goes in front of batched `arrays`, made of one ndim, of an array that has `ndim` axes alone.

    Also how many axes the results of the index have, and how many of the others come before them: the batch is not beside them then.
    """
    most = max(np.ndim(a) for a in arrays)
    arrays = [np.reshape(a, (size, *(1,) * (most - np.ndim(a)), *a.shape[1:])) for a in arrays]
    rows = np.arange(size).reshape((size, *(1,) * (most - 1)))
    positions = [k for k, p in enumerate(template) if p is HOLE or _advanced(p)]
    if positions[-1] - positions[0] + 1 != len(positions):
        return rows, arrays, most, 0
    before = positions[0]
    if any(p is Ellipsis for p in template[:before]):
        before = ndim - sum(_ndim_taken(p) for p in template[before:])
    return rows, arrays, most, before


def _batch_gather(size: int, flags: Sequence[bool], args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    (template,) = params
    x, *arrays = args
    if not any(flags[1:]):
        return _batch_read(size, x, _fill(template, arrays))
    rows, arrays, ndim, before = _rows(size, np.ndim(x) - flags[0], spread_batch(size, flags[1:], arrays), template)
    if flags[0]:
        out = gather(x, rows, *arrays, params=((HOLE, *template),))
        return np.moveaxis(out, tuple(range(1, ndim)), tuple(range(1 + before, before + ndim))) if before else out
    out = gather(x, *arrays, params=(template,))
    return np.moveaxis(out, before, 0) if before else out


gather: Op = Primitive(
    "gather",
    _gather,
    arity=None,
    vjps=lambda k, g, _ans, x, *rest: scatter(g, *rest[:-1], params=(rest[-1], x.shape)) if k == 0 else None,
    jvps=lambda k, t, _ans, _x, *rest: gather(t, *rest[:-1], params=rest[-1:]) if k == 0 else None,
    batch=_batch_gather,
).op


def _scatter(g: Any, *rest: Any) -> Any:
    *arrays, template, shape = rest
    out = np.zeros(shape, g.dtype)
    _add_into(out, g, _fill(template, arrays))
    return out


def _batch_scatter(size: int, flags: Sequence[bool], args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    template, shape = params
    g, *arrays = spread_batch(size, flags, args)
    rows, arrays, ndim, before = _rows(size, len(shape), arrays, template)
    if before:
        g = np.moveaxis(g, tuple(range(1 + before, before + ndim)), tuple(range(1, ndim)))
    return scatter(g, rows, *arrays, params=((HOLE, *template), (size, *shape)))


scatter: Op = Primitive(
    "scatter",
    _scatter,  # the transpose of gather
    arity=None,
    vjps=lambda k, g, _ans, _x, *rest: gather(g, *rest[:-2], params=rest[-2:-1]) if k == 0 else None,
    jvps=lambda k, t, _ans, _x, *rest: scatter(t, *rest[:-2], params=rest[-2:]) if k == 0 else None,
    batch=_batch_scatter,
).op


def kept(key: Index) -> Index:
    """An advanced index with copies of its arrays: the caller may change them before the reverse replay."""
    if not isinstance(key, tuple):
        return np.array(key)
    return tuple(np.array(p) if isinstance(p, (list, np.ndarray)) else p for p in key)


def index(x: Any, key: Index) -> Any:
    """`x[key]` for a traced `x` or traced (batched) integer arrays in `key`."""
    parts = key if isinstance(key, tuple) else (key,)
    if not any(isinstance(p, Tracer) for p in parts):
        if not is_basic(key):
            key = kept(key)
        return getitem(x, key)
    if any(p.dtype.kind == "b" for p in parts if hasattr(p, "dtype")):
        raise IndexError(
            "a boolean mask that is itself batched or traced selects a different number of elements each time; use np.where(mask, x, 0)"
        )
    template = tuple(HOLE if isinstance(p, Tracer) else p for p in parts)
    return gather(x, *(p for p in parts if isinstance(p, Tracer)), params=(template,))
