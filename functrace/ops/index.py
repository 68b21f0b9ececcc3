"""Indexing: reading a part of an array, writing one, and choosing between two arrays.

An index is a parameter where it is plain, as it is under differentiation: integers have no derivative. Where it is itself
batched, it is an argument of `gather`.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from functrace.core.forward import spread
from functrace.core.primitive import Aval, Primitive
from functrace.core.reverse import fit
from functrace.core.tracer import TapeTracer, Tracer, levels
from functrace.ops.choice import chosen as by_bits
from functrace.ops.create import number
from functrace.ops.kinds import Op, batch_by_loop, general, linear, spread_batch
from functrace.ops.positions import Index, add_in, is_basic, is_mask, parts_of, read, set_in
from functrace.ops.protocol import as_one
from functrace.places import user_line
from functrace.pool import empty, zeros
from functrace.references import IN_LOCAL


def _ndim_taken(p: Any) -> int:
    """How many axes of an array a part of an index takes."""
    if p is None or p is Ellipsis:
        return 0
    a = np.asarray(p)
    return a.ndim if a.dtype == bool else 1


def _advanced(p: Any) -> bool:
    return not (p is None or p is Ellipsis or isinstance(p, slice))


def batch_in_front(index: Index) -> tuple[Index, int]:
    """The index that does the same to an array with a batch as axis 0, and where the batch axis then is.

    NumPy puts the axes of advanced indices first when they are not adjacent: before the batch.
    """
    parts = parts_of(index)
    inside = (slice(None), *parts)
    if is_basic(index):
        return inside, 0
    positions = [k for k, p in enumerate(parts) if _advanced(p)]
    if positions[-1] - positions[0] + 1 == len(positions):
        return inside, 0
    arrays: list[Any] = [p if isinstance(p, Tracer) else np.asarray(p) for p in parts if _advanced(p)]
    shapes = [p.shape if p.dtype != bool else np.nonzero(np.atleast_1d(p))[0].shape for p in arrays]
    return inside, len(np.broadcast_shapes(*shapes))


def _batch_read(_size: int, x: Any, key: Index) -> Any:
    inside, axis = batch_in_front(key)
    out = index(x, inside)  # the key may hold traced values of another run
    return np.moveaxis(out, axis, 0) if axis else out


def _put(g: Any, index: Index, shape: tuple[int, ...]) -> Any:
    out = zeros(shape, g.dtype)
    if is_basic(index):
        out[index] = g
    else:
        add_in(out, g, index)
    return out


def _batch_put(size: int, g: Any, index: Index, shape: tuple[int, ...]) -> Any:
    inside, axis = batch_in_front(index)
    return placed(np.moveaxis(g, 0, axis) if axis else g, inside, (size, *shape))


def _pull_read(cts: list[Any], mine: set[int], g: Any, entry: Any, _inputs: int) -> bool:
    """Add the cotangent of a part into one shared buffer, rather than a dense array for each read."""
    _, _, (i,), (x,), _, (index,) = entry
    c = cts[i]
    if isinstance(g, Tracer) or isinstance(c, Tracer):
        return _pull_traced(cts, mine, g, i, x, index)
    if i not in mine:
        mine.add(i)
        c = cts[i] = zeros(x.shape, x.dtype) if c is None else np.array(c)
    elif not isinstance(c, np.ndarray):
        c = cts[i] = np.array(c)
    add_in(c, g, index)
    return True


def _pull_traced(cts: list[Any], mine: set[int], g: Any, i: int, x: Any, index: Index) -> bool:
    """The same where a tape records the replay: it gets an entry for adding to the buffer, whose rules need no values."""
    c = cts[i]
    trace, before = g.owner if type(g) is TapeTracer else None, -1
    if type(c) is TapeTracer and c.owner is trace:
        c, before = c.below, c.slot
    if trace is None or isinstance(g.below, Tracer) or not (c is None or type(c) is np.ndarray and c.dtype == g.dtype):
        return False
    own = c is None or i in mine  # else another slot may have this cotangent too, and a later entry read it
    c = zeros(x.shape, g.dtype) if c is None else c if own else np.array(c)
    mine.add(i)
    add_in(c, g.below, index)
    slot, aval = trace.next_slot(), Aval(c)
    trace.append((_index_add if own else index_add.primitive, slot, (before, g.slot), (aval, Aval(g)), aval, (index,)))  # type: ignore[attr-defined]
    cts[i] = TapeTracer(c, trace, slot, g.code, g.lasti)
    return True


def _push_read(ts: list[Any], mine: set[int], entry: Any) -> bool:
    _, out, (i,), _, _, (index,) = entry
    if i not in mine or not isinstance(ts[i], np.ndarray):
        return False
    t = read(ts[i], index)
    ts[out] = t.copy() if is_basic(index) else t  # the buffer may be written to
    return True


def _pull_write(cts: list[Any], mine: set[int], g: Any, entry: Any, _inputs: int) -> bool:
    """Take the cotangent of what was written out of a buffer of our own: the rest belongs to the array as it was before."""
    _, out, (i, j), (x, v), ans, (index,) = entry
    if isinstance(g, Tracer):
        return False
    if j >= 0:
        d = fit(np.array(_written(g, ans, x, v, index)), v)
        cts[j] = d if cts[j] is None else cts[j] + d
    if i >= 0:
        cts[i] = g = g if out in mine else np.array(g)  # no later entry reads what was written to
        set_in(g, 0, index)
        mine.add(i)
    return True


def _push_write(ts: list[Any], mine: set[int], entry: Any, put: Any = set_in) -> bool:
    """The tangent of an array that was written to, in the buffer of the tangent before, which no later entry reads."""
    _, out, (i, j), _, ans, (index,) = entry
    before, written = ts[i] if i >= 0 else None, ts[j] if j >= 0 else None
    if isinstance(before, Tracer) or isinstance(written, Tracer):
        return False
    if before is None and written is None:
        return True
    if before is None:
        t = zeros(ans.shape, ans.dtype)
    else:  # views of the buffer show in its reference count
        ts[i] = None
        t = before if i in mine and getrefcount(before) == IN_LOCAL else np.array(before)
    put(t, 0 if written is None else written, index)
    ts[out] = t
    mine.add(out)
    return True


getitem = linear(
    "getitem",
    read,
    lambda g, _ans, _x, index: placed(g, index, _x.shape),
    batch=_batch_read,
    inplace=(_pull_read, _push_read),
)
placed: Any = linear("placed", _put, lambda g, _ans, _x, index, _shape: getitem(g, index), batch=_batch_put)  # in an array of zeros


def _write(x: Any, v: Any, index: Index) -> Any:
    return set_in(np.array(x, dtype=np.result_type(x, v) if np.result_type(x, v).kind == "c" else None), v, index)


def _write_add(x: Any, v: Any, index: Index) -> Any:
    return add_in(np.array(x), v, index)


def _spared(g: Any, _ans: Any, _x: Any, _v: Any, index: Index) -> Any:
    # of what was there before the write, tangent and cotangent alike
    return index_set(g, np.zeros((), g.dtype), index)


def _batch_write(which: str) -> Any:
    def rule(size: int, flags: Sequence[bool], args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        op = index_set if which == "set" else index_add
        x, v = args
        (index,) = params
        inside, axis = batch_in_front(index)
        if flags[1] or axis:
            v = v if flags[1] else np.reshape(v, (1, *np.shape(v)))
            part = np.empty(np.shape(x)[1:] if flags[0] else np.shape(x), bool)[index].ndim
            more = np.ndim(v) - 1 - part  # axes of length 1 that NumPy takes away
            v = np.moveaxis(np.reshape(v, (v.shape[0], *(1,) * -more, *v.shape[1 + max(more, 0) :])), 0, axis)
        x = x if flags[0] else np.broadcast_to(x, (size, *np.shape(x)))
        return op(x, v, inside)

    return rule


def _written(g: Any, _ans: Any, _x: Any, _v: Any, index: Index) -> Any:
    # Of positions written twice the last write counts, as in NumPy; the earlier ones get no cotangent.
    chosen = g[index]
    if is_basic(index) or is_mask(index):
        return chosen
    turn, last = np.arange(chosen.size).reshape(chosen.shape), np.empty(_x.shape, dtype=np.intp)
    last[index] = turn
    return selected(last[index] == turn, chosen)


_SET: Any = {
    "jvps": (_spared, lambda t, _ans, _x, _v, index: index_set(np.zeros(_ans.shape, _ans.dtype), t, index)),
    "batch": _batch_write("set"),
    "linear": True,
}
index_set: Op = general("index_set", _write, _spared, _written, **_SET)
# `index_set` as recorded where nothing else refers to the array: it was written to, and the replays write to buffers of their own
index_write = Primitive("index_set", _write, arity=2, vjps=(_spared, _written), inplace=(_pull_write, _push_write), **_SET)
_ADDED: Any = (lambda g, _ans, _x, _v, _index: g, lambda g, _ans, _x, _v, index: g[index])
_ADD: Any = {
    "jvps": (lambda t, _ans, _x, _v, _index: t, lambda t, _ans, _x, _v, index: index_add(np.zeros(_ans.shape, _ans.dtype), t, index)),
    "batch": _batch_write("add"),
    "linear": True,
}
index_add: Op = general("index_add", _write_add, *_ADDED, **_ADD)
_in_place: Any = (lambda *_: False, lambda ts, mine, entry: _push_write(ts, mine, entry, add_in))
_index_add = Primitive("index_add", _write_add, arity=2, vjps=_ADDED, inplace=_in_place, **_ADD)  # as `index_write`


where: Op = general(
    "where",
    by_bits,
    None,
    lambda g, _ans, condition, _x, _y: selected(_truth(condition), g),
    lambda g, _ans, condition, _x, _y: selected(np.logical_not(condition), g),
    jvps=(
        None,
        lambda t, _ans, c, _x, _y: spread(selected(_truth(c), t), _ans),
        lambda t, _ans, c, _x, _y: spread(selected(np.logical_not(c), t), _ans),
    ),
    stacks=0,
    linear=True,
)


def _truth(condition: Any) -> Any:
    return condition if condition.dtype == bool else condition != 0


_LARGE = 1 << 10  # elements


def selected(chosen: Any, t: Any) -> Any:
    """`t` where `chosen`, a mask or shares, is not zero; elsewhere zero. For rules.

    Multiplying is ten times as fast as `np.where`; a NaN that it makes of infinities is found, and the replay done again with masks.
    """
    if _masked(t):
        return number(np.where(chosen != 0, t * chosen, np.zeros((), t.dtype)))
    if chosen.size > _LARGE and chosen.dtype.kind == "b":  # which ufuncs would convert piece by piece
        if isinstance(chosen, Tracer) or not chosen.flags.c_contiguous:
            chosen = chosen.astype(t.dtype)
        else:
            chosen, mask = empty(chosen.shape, t.dtype), chosen
            chosen[...] = mask
    return t * chosen


def _masked(x: Any) -> bool:
    """Whether a value is a `MaskTracer`, at any level."""
    return isinstance(x, Tracer) and any(hasattr(level, "live") for level in levels(x))


def _gather(x: Any, *rest: Any) -> Any:
    *arrays, template = rest
    index = filled(template, arrays)
    return read(x, index[0] if len(index) == 1 else index)


def filled(template: tuple[Any, ...], arrays: Sequence[Any]) -> tuple[Any, ...]:
    """The index whose traced parts, `HOLE` in the template, are `arrays`."""
    rest = iter(arrays)
    return tuple(next(rest) if p is HOLE else p for p in template)


HOLE = type("Hole", (), {"__repr__": lambda self: "_"})()


def _rows(size: int, ndim: int, arrays: Sequence[Any], template: tuple[Any, ...]) -> tuple[Any, list[Any], int, int]:
    """For an index with batched `arrays` into `ndim` axes: the index of the batch axis, to go in front; the arrays, of one ndim; that
    ndim; and how many axes of the result come before theirs.
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
        return _batch_read(size, x, filled(template, arrays))
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
    linear=True,
).op


def _scatter(g: Any, *rest: Any) -> Any:
    *arrays, template, shape = rest
    out = np.zeros(shape, g.dtype)
    add_in(out, g, filled(template, arrays))
    return out


def _last(positions: Any) -> Any:
    """A mask of the positions that no later one repeats."""
    flat = positions.reshape(-1)[::-1]
    out = np.zeros(flat.shape, bool)
    out[np.unique(flat, return_index=True)[1]] = True
    return out[::-1].reshape(positions.shape)


_LAST: Primitive = Primitive("last", _last, arity=1, constant=True, batch=lambda *call: batch_by_loop(_LAST, *call))
last: Op = _LAST.op


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
    linear=True,
).op


def kept(key: Index) -> Index:
    """An advanced index with copies of its arrays: the caller may change them before the reverse replay."""
    if isinstance(key, str):
        raise IndexError(
            f"a traced array is indexed with the label {key!r}, but has none: pandas' data and records are traced as arrays.\n"
            f"  At {user_line()}.\n  Pass a dict of the columns (of a DataFrame, dict(df)), or index by position."
        )
    if not isinstance(key, tuple):
        return key if isinstance(key, Tracer) else _positions(key)
    return tuple(_positions(p) if isinstance(p, (list, tuple, range, np.ndarray)) else p for p in key)


def _positions(key: Any) -> Any:
    return np.array(key, np.intp if not (isinstance(key, np.ndarray) or np.size(key)) else None)


def decided(mask: Any) -> Any:
    """A traced mask as a plain array, for which a batch is split where examples differ; any other part of an index as it is."""
    return as_one(mask) if isinstance(mask, Tracer) and mask.dtype.kind == "b" else mask


def joined(key: Index) -> Index:
    """An index in which lists of traced integers are arrays."""
    if type(key) is list:
        return np.stack(key) if any(isinstance(p, Tracer) for p in key) else key
    return tuple(map(joined, key)) if type(key) is tuple and list in map(type, key) else key


def index(x: Any, key: Index) -> Any:
    """`x[key]` for a traced `x` or traced (batched) integer arrays in `key`."""
    key = joined(key)
    parts = parts_of(key)
    if any(isinstance(p, Tracer) and p.dtype.kind == "b" for p in parts):  # the shape of the result depends on it
        parts = tuple(map(decided, parts))
        key = parts if isinstance(key, tuple) else parts[0]
    if not any(isinstance(p, Tracer) for p in parts):
        if not is_basic(key):
            key = kept(key)
        return getitem(x, key)
    template, arrays = holes(parts)
    return gather(x, *arrays, params=(template,))


def holes(parts: Sequence[Any]) -> tuple[tuple[Any, ...], list[Any]]:
    """An index with `HOLE` for each array, and the arrays: beside batched ones, plain ones need an axis for the batch too."""
    template, arrays = [], []
    for p in parts:
        found: list[Any] = [p] if isinstance(p, Tracer) else []
        if isinstance(p, (list, tuple, range, np.ndarray)) and np.ndim(p):
            a = _positions(p)
            found = list(np.nonzero(a)) if a.dtype == bool else [a]
        template.extend([HOLE] * len(found) or [p])
        arrays.extend(found)
    return tuple(template), arrays
