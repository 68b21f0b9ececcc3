"""Writing into traced arrays: `y[i] = v`, `y += v`, and `y.at[i].set(v)`.

A tracer is a handle. A write computes the new array functionally, and lets the handle stand for it; what was recorded before
is unchanged. Handles made by basic indexing remember what they are views of, so a write through one reaches its base, and
the other views of that base, as in NumPy.

If nothing but the handle refers to the array, nobody can tell a new array from the old one written to. Then that is done: a
loop that fills an array takes linear time.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from functrace import edge, errors
from functrace.core.primitive import Aval
from functrace.core.tracer import BatchTracer, TapeTracer, Tracer, bare, levels
from functrace.ops import elementwise, shape
from functrace.ops.blank import Blank, apart, handle, plain
from functrace.ops.create import lift
from functrace.ops.fast import within
from functrace.ops.index import decided, getitem, holes, index, index_add, index_set, index_write, joined, kept, last, scatter
from functrace.ops.kinds import same, undeclared
from functrace.ops.positions import PLAIN, is_basic, parts_of
from functrace.ops.protocol import as_one
from functrace.ops.shape import astype
from functrace.places import user_line
from functrace.references import IN_SLOT


def _complex(real: Any, imag: Any) -> Any:
    out = np.empty(np.broadcast(real, imag).shape, np.result_type(real, imag, np.complex64))
    out.real, out.imag = np.real(real), np.real(imag)  # complex cotangents of real numbers come here too
    return out[()]


complex_of = undeclared("complex", _complex, same, lambda t, _ans, _re, _im: t * 1j)  # a sum with 1j * imag loses infinities and signs


class View:
    """A kind of view: how to `read` it from its base, and to `write` it back (None: read-only); `shares` says whether NumPy would make
    a view of this base, rather than a copy. With `numbers` what has no axes has memory to share, as PyTorch's tensors have.
    """

    __slots__ = ("numbers", "read", "shares", "write")

    def __init__(
        self, read: Callable[..., Any], write: Callable[..., Any] | None, shares: Callable[..., bool] | None = None, numbers: bool = False
    ) -> None:
        self.read, self.write, self.shares, self.numbers = read, write, shares, numbers


def _reshapes(base: Any, shape_: tuple[int, ...]) -> bool:
    return (m := lying(base)).flags.c_contiguous or np.may_share_memory(m, m.reshape(shape_))


def _indexes(base: Any, _key: Any) -> bool:
    """Whether an index makes a view: of `x.flat` it makes a copy."""
    parent = getattr(base, "parent", None)
    return parent is None or parent[1] is not FLAT


INDEX = View(index, lambda base, v, key: updated(base, key, v, "set"), _indexes)
_back: Callable[..., Any] = lambda base, v, _shape: shape.reshape(v, base.shape)
RESHAPE = View(shape.reshape, _back, _reshapes)
RAVEL = View(shape.reshape, _back, lambda base, _shape: lying(base).flags.c_contiguous)
FLAT = View(shape.reshape, _back)  # however it lies
TRANSPOSE = View(shape.transpose, lambda _base, v, axes: shape.transpose(v, shape.inverse(axes)))
BROADCAST = View(shape.broadcast_to, None)
REAL = View(elementwise.real, lambda base, v: complex_of(v, elementwise.imag(base)))
IMAG = View(elementwise.imag, lambda base, v: complex_of(elementwise.real(base), v))


def view(x: Tracer, key: Any) -> Any:
    """`x[key]`, remembered as a view of `x` if NumPy would make one."""
    try:
        if type(key) in PLAIN or (type(key) is tuple and all(type(p) in PLAIN for p in key)):
            out = getitem(x, key)
            if not (out.shape or _elliptic(key)):  # NumPy's scalar
                return out
            if type(out) is TapeTracer and isinstance(out.below, np.ndarray) and x.below.size > max(_FEW, 8 * out.below.size):
                out.below = np.array(out.below)  # so that a later write to x finds nobody else who refers to its array
            return linked(out, x, INDEX, key)
        out = index(x, key)
        return linked(out, x, INDEX, key) if is_basic(_settled(key)) and (out.shape or _elliptic(key)) else out
    except errors.LeakedTracerError as error:
        edge.trim(error)
        raise


def linked(out: Any, x: Any, how: View, *params: Any) -> Any:
    """`out`, remembered as a view of `x`."""
    if isinstance(out, Tracer) and isinstance(x, Tracer) and out is not x:
        if not x.shape and not how.numbers and scalar(x):
            if how is INDEX and not out.shape:
                out.views = []  # an array
            return out
        if type(out) is Blank and how is INDEX and not _indexes(x, None):
            return apart(out)
        if type(out) is Blank and not np.may_share_memory(out.below, plain(x)):
            if how is not FLAT:
                return out
            out.below.flags.writeable = False  # a copy: what is written to it goes through its base
        out.parent = (x, how, params)
        views = getattr(x, "views", None)
        if views is None:
            x.views = [weakref.ref(out)]
        else:
            views.append(weakref.ref(out))
            if len(views) > _MANY and not len(views) & (len(views) - 1):  # now and then: forget the dead
                x.views = [r for r in views if r() is not None]
    return out


_MANY, _FEW = 64, 256


def _elliptic(key: Any) -> bool:
    """Whether an index has an ellipsis, with which NumPy never gives a scalar."""
    return key is ... or type(key) is tuple and any(p is ... for p in key)


def _settled(key: Any) -> Any:
    """An index with 0 for each traced integer: whether it makes a view, and how that lies, is the same."""
    if type(key) is tuple:
        return tuple(map(_settled, key))
    return 0 if isinstance(key, Tracer) and not key.shape and key.dtype.kind in "iu" else key


def reshaped(x: Any, shape_: tuple[int, ...], how: View = RESHAPE) -> Any:
    """`x` in another shape, a view of it; or, RAVEL, only where it is contiguous."""
    return linked(shape.reshape(x, shape_), x, how, shape_)


def shared(x: Any) -> bool:
    """Whether what was remembered as a view would be one in NumPy: asked when it matters."""
    parent = getattr(x, "parent", None)
    if parent is None:
        return False
    base, how, params = parent
    if how.shares is not None and not how.shares(base, *params):
        x.parent = None
    return x.parent is not None


def _repeats(x: np.ndarray[Any, Any]) -> bool:
    return any(n > 1 and not step for n, step in zip(x.shape, x.strides))


def lying(x: Tracer) -> Any:
    """An array with the strides that NumPy's would have in the place of `x`."""
    for level in levels(x):
        if hasattr(level.owner, "lies"):  # what is recorded holds for arguments that lie as these do
            level.owner.lies()
    return _lying(x)


def _lying(x: Any) -> Any:
    parent = getattr(x, "parent", None)
    if parent is None and type(x.below) is np.ndarray and type(x) is not BatchTracer and not _repeats(x.below):
        return x.below
    chain = []
    while parent is not None:
        x, *how = parent
        chain.append(how)
        parent = getattr(x, "parent", None)
    found = np.asarray(bare(x))
    if batches := sum(isinstance(level, BatchTracer) for level in levels(x)):
        found = found[(0,) * batches] if found.size else np.empty(x.shape)
    if _repeats(found):  # what was made by repeating has memory of its own
        found = np.empty(found.shape)
    elif batches:  # an example for itself has no gaps, whatever lies between its elements
        found = np.empty_like(found)
    for how, params in reversed(chain):
        found = how.read(found, *map(_settled, params))
    return found


def packed(x: Any, to: tuple[int, ...] | None = None) -> Any:
    """A copy that lies in memory in order C, of the shape `to`, or its own."""
    return shape.reshape(shape.astype(shape.reshape(x, (x.size,)), x.dtype), x.shape if to is None else to)


def _laid_as(x: Any, new: Any) -> Any:
    """`new`, copied if it does not lie in memory as `x`, whose place it takes: a write moves nothing."""
    was, now = x.below, getattr(new, "below", new)
    if isinstance(was, np.ndarray) and isinstance(now, np.ndarray) and (was.ndim < 2 or was.strides == now.strides):
        return new
    there, here = _lying(x), _lying(new) if isinstance(new, Tracer) else new
    wanted = np.empty_like(there).strides
    if not x.size or wanted == np.empty_like(here).strides:
        return new
    axes = tuple(sorted(range(len(wanted)), key=lambda k: -wanted[k]))
    return shape.transpose(packed(shape.transpose(new, axes)), shape.inverse(axes))


def permuted(x: Any, axes: tuple[int, ...]) -> Any:
    """`x` with its axes in another order, a view of it."""
    return linked(shape.transpose(x, axes), x, TRANSPOSE, axes)


def become(handle: Tracer, new: Tracer) -> None:
    """Let a handle stand for the array of another."""
    handle.__class__ = type(new)
    for name in ("below", "owner", "slot", "code", "lasti"):
        setattr(handle, name, getattr(new, name))


def relatives(x: Tracer) -> list[Any]:
    """The array of which `x` is a view, and the views of `x`."""
    parent, views = getattr(x, "parent", None), getattr(x, "views", ())
    return [*(parent or ())[:1], *(v for r in views if (v := r()) is not None)]


def _spans(shape: tuple[int, ...], key: Any) -> list[range]:
    """The positions that an index takes along its leading axes, as far as by integers and slices."""
    out = []
    for n, p in zip(shape, key if type(key) is tuple else (key,)):
        if type(p) is not int and type(p) is not slice:
            break
        out.append(range(n)[p if type(p) is slice else slice(p, p + 1 or None)])
    return out


def _disjoint(a: range, b: range) -> bool:
    if not a or not b or max(min(a[0], a[-1]), min(b[0], b[-1])) > min(max(a[0], a[-1]), max(b[0], b[-1])):
        return True
    return len(a) == 1 and a[0] not in b or len(b) == 1 and b[0] not in a


def _touched(x: Any, spans: list[range], v: Any) -> bool:
    """Whether a write to `x` at these positions may change its view `v`; true where that is not easily told."""
    if type(v) is Blank or (parent := getattr(v, "parent", None)) is None or parent[0] is not x or parent[1] is not INDEX:
        return True
    return not (spans and any(map(_disjoint, spans, _spans(x.shape, parent[2][0]))))


def write(x: Tracer, new: Any, key: Any = None) -> None:
    """Let `x` stand for `new`, which differs from its array at `key` only; its bases, and their other views, change with it."""
    if type(x) is Blank and x.below.flags.writeable and (type(new) is Blank or not isinstance(new, Tracer)):
        x.below[...] = plain(new)
        return
    if not x.shape and scalar(new):
        new = updated(x, (), new, "set")  # an array without axes stays one, which the next write reaches
    chain = [(x, new)]
    while shared(chain[-1][0]):
        base, how, params = chain[-1][0].parent
        if how.write is None:
            raise ValueError(f"assignment destination is read-only: a diagonal or a broadcast view, at {user_line()}")
        if how is INDEX and len(chain) == 1 and _write_now(base, params[0], new, x):
            return
        chain.append((base, how.write(base, chain[-1][1], *params)))
    done = [node for node, _ in chain]
    keys = [key, *(node.parent[2][0] if node.parent[1] is INDEX else None for node in done[:-1])]  # where each is written to
    spans = {id(node): _spans(node.shape, at) for node, at in zip(done, keys)}
    for node in done:  # and the views, as long as all lies in memory as it did
        node.views = [r for r in getattr(node, "views", ()) if (v := r()) is not None and shared(v) and v.parent[0] is node]
        for v in [v for r in node.views if (v := r()) is not None]:
            if id(v) not in spans and _touched(node, spans[id(node)], v):
                spans[id(v)] = []
                done.append(v)
    for node, now in chain:
        become(node, handle(_laid_as(node, now)))
    for v in done[len(chain) :]:
        become(v, handle(v.parent[1].read(v.parent[0], *v.parent[2])))


def _write_now(x: Tracer, key: Any, v: Any, through: Tracer | None = None) -> bool:
    """Write into the very array that `x` stands for, and say whether that was possible; `through` is the view that becomes `v`.

    No other view may show what is written. An array that a tape or a variable refers to is copied once.
    """
    made = type(x) is Blank and type(v) is TapeTracer  # a new array becomes traced
    if not (made or type(x) is TapeTracer) or isinstance(x.below, Tracer) or getattr(x, "parent", None) is not None:
        return False
    if any(r() is not None for r in getattr(through, "views", ())):
        return False
    if views := getattr(x, "views", ()):
        spans = _spans(x.shape, key)
        if any((w := r()) is not None and w is not through and _touched(x, spans, w) for r in views):
            return False
    trace, before = (v.owner, -1) if made else (x.owner, x.slot)
    if trace.closed:
        trace.check_open(v if made else x)
    v, key = _cast(x, v), key if is_basic(key) else kept(key)
    a, slot = (v.below, v.slot) if type(v) is TapeTracer and v.owner is trace else (plain(v), -1)
    if isinstance(a, Tracer) or _has_tracer(key):
        return False
    if through is not None:
        become(through, v)
    sole = type(x.below) is np.ndarray and x.below.base is None and getrefcount(x.below) == IN_SLOT and x.below.flags.writeable
    if not sole:
        x.below = np.array(x.below)
    x.below[key] = a
    aval = Aval(x.below)
    new = trace.next_slot()
    op = index_write if sole else index_set.primitive  # type: ignore[attr-defined]
    trace.append((op, new, (before, slot), (aval, Aval(a)), aval, (key,)))
    if made:
        become(x, trace.tracer(x.below, new))
    x.slot = new
    return True


def setitem(x: Tracer, key: Any, v: Any) -> None:
    """`x[key] = v`."""
    try:
        key = joined(key)
        v = lift(v) if isinstance(v, (list, tuple)) and x.dtype.kind in "fc" else v
        parent = getattr(v, "parent", None)
        if parent is not None and parent[0] is x and parent[1] is INDEX and (key is parent[2][0] or is_basic(key) and key == parent[2][0]):
            return  # the end of x[key] += w: the view has been written to, and it is what x shows here
        if type(x) is Blank and x.below.flags.writeable and not isinstance(plain(v), Tracer) and not _has_tracer(key):
            x.below[key] = plain(v)
        elif not _write_now(x, key, v):
            write(x, updated(x, key, v, "set"), key)
    except errors.LeakedTracerError as error:
        edge.trim(error)
        raise


def _has_tracer(key: Any) -> bool:
    return any(isinstance(p, Tracer) for p in key) if isinstance(key, tuple) else isinstance(key, Tracer)


def _cast(x: Any, v: Any) -> Any:
    """`v` with the dtype of the array `x` that it is written to."""
    v = v if hasattr(v, "dtype") else np.asarray(v, None if np.asarray(v).dtype.kind not in "fiub" else x.dtype)
    if v.dtype == x.dtype:
        return v
    if v.dtype.kind == "c" and x.dtype.kind != "c":
        raise TypeError(f"can't write complex values into a {x.dtype} array at {user_line()}")
    return astype(v, x.dtype) if isinstance(v, Tracer) else v.astype(x.dtype)


def _mask_over(mask: Any, x: Any) -> Any:
    return shape.reshape(mask, mask.shape + (1,) * (np.ndim(x) - mask.ndim))


def updated(x: Any, key: Any, v: Any, how: str) -> Any:
    """A copy of `x` with `v` set, or added, at `key`; shapes and casting as in NumPy."""
    key = joined(key)
    if isinstance(key, Tracer) and key.dtype == bool and not np.ndim(v):  # a mask that differs between the examples of a batch
        return np.where(_mask_over(key, x), _cast(x, v) if how == "set" else x + _cast(x, v), x)
    if _has_tracer(key):
        key = tuple(map(decided, key)) if isinstance(key, tuple) else decided(key)
    if _has_tracer(key):
        return _scattered(x, key, _cast(x, v), how)
    return (index_set if how == "set" else index_add)(x, _cast(x, v), key if is_basic(key) else kept(key))


def scalar(x: Any) -> bool:
    """Whether a traced value without axes is a NumPy scalar, and no array: of a batch, unless it was written to, is or has a view."""
    found = x
    while isinstance(found, Tracer) and type(found) is not BatchTracer:
        found = found.below
    return not (isinstance(found, np.ndarray) or isinstance(found, Tracer) and (hasattr(x, "views") or hasattr(x, "parent")))


def as_array(x: Any) -> Any:
    """A traced number as an array without axes, which can be written to; a traced array as it is."""
    if x.shape or not isinstance(x, Tracer) or not scalar(x):
        return x
    return linked(index(x, ...), x, INDEX, ...)


def inplace(op: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The method for `x += y`: the handle changes, as an array would. NumPy's scalars are immutable, and so are traced ones."""
    op = within(op)  # the name by which errors find it

    def method(self: Any, other: Any) -> Any:
        new = op(self, other)
        if new is NotImplemented or not self.shape and scalar(self):
            return new
        if new.shape != self.shape:
            raise ValueError(f"non-broadcastable output operand with shape {self.shape} doesn't match the broadcast shape {new.shape}")
        if new.dtype != self.dtype:
            if not np.can_cast(new.dtype, self.dtype, "same_kind"):
                raise TypeError(f"can't cast {new.dtype} to {self.dtype} in place at {user_line()}")
            new = astype(new, self.dtype)
        write(self, new)
        return self

    return method


def _scattered(x: Any, key: Any, v: Any, how: str) -> Any:
    """`updated` at integers that differ between the examples of a batch."""
    parts = parts_of(key)
    template, arrays = holes(parts)
    params = template, x.shape
    chosen = index(x, key).shape
    if how == "set" and np.ndim(v) > len(chosen) and (chosen or _elliptic(key)):
        v = np.squeeze(v, tuple(range(np.ndim(v) - len(chosen))))  # axes of one element before the others, as NumPy does
    v = np.broadcast_to(v, chosen)
    if how == "add":
        return x + scatter(v, *arrays, params=params)
    written = last(index(np.arange(x.size).reshape(x.shape), key))
    hits = scatter(written.astype(np.int32), *arrays, params=params)
    return np.where(hits > 0, scatter(np.where(written, v, np.zeros((), v.dtype)), *arrays, params=params), x)


def in_turn(x: Any, key: Any, op: Callable[..., Any], *values: Any) -> Any:
    """A copy of `x` with `op(element, *values)` at `key`; repeated positions one after the other, as with NumPy's `op.at`."""
    if is_basic(_settled(key)):  # no position twice
        return updated(x, key, op(index(x, key), *values), "set")
    positions = as_one(index(np.arange(x.size).reshape(x.shape), key))
    values = tuple([np.reshape(np.broadcast_to(v, positions.shape), (positions.size,)) for v in values])
    flat, positions = np.reshape(x, (x.size,)), positions.reshape(-1)
    order = np.argsort(positions, kind="stable")
    starts = np.searchsorted(positions[order], positions[order])
    turn = np.empty(positions.size, int)
    turn[order] = np.arange(positions.size) - starts  # how often the position came before
    for k in range(int(turn.max(initial=-1)) + 1):
        chosen = np.flatnonzero(turn == k)
        flat = updated(flat, positions[chosen], op(index(flat, positions[chosen]), *(index(v, chosen) for v in values)), "set")
    return np.reshape(flat, x.shape)


class _At:
    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x

    def __getitem__(self, key: Any) -> _AtIndex:
        return _AtIndex(self.x, key)


class _AtIndex:
    __slots__ = ("key", "x")

    def __init__(self, x: Any, key: Any) -> None:
        self.x, self.key = x, key

    def get(self) -> Any:
        """The part itself."""
        return index(self.x, self.key)

    def set(self, v: Any) -> Any:
        """A copy with `v` at the index."""
        return updated(self.x, self.key, v, "set")

    def add(self, v: Any) -> Any:
        """A copy with `v` added at the index; repeated positions add up."""
        return updated(self.x, self.key, v, "add")

    def subtract(self, v: Any) -> Any:
        """A copy with `v` subtracted at the index; repeated positions add up."""
        return self.add(np.negative(v))

    def multiply(self, v: Any) -> Any:
        """A copy with the elements at the index multiplied by `v`; also `mul`."""
        return self._each(np.multiply, v)

    mul = multiply

    def divide(self, v: Any) -> Any:
        """A copy with the elements at the index divided by `v`."""
        return self._each(np.divide, v)

    def power(self, v: Any) -> Any:
        """A copy with the elements at the index raised to `v`."""
        return self._each(np.power, v)

    def min(self, v: Any) -> Any:
        """A copy with the smaller of the elements at the index and `v`."""
        return self._each(np.minimum, v)

    def max(self, v: Any) -> Any:
        """A copy with the larger of the elements at the index and `v`."""
        return self._each(np.maximum, v)

    def apply(self, function: Callable[[Any], Any]) -> Any:
        """A copy with `function` applied to the elements at the index, once to each."""
        return self.set(function(self.get()))

    def _each(self, op: Callable[[Any, Any], Any], v: Any) -> Any:
        """A copy with `op(element, v)` at the index: see `in_turn`."""
        if isinstance(self.key, Tracer) and self.key.dtype == bool and not np.ndim(v):
            return np.where(_mask_over(self.key, self.x), op(self.x, v), self.x)
        return in_turn(self.x, self.key, op, v)


def at(x: Any) -> _At:
    """Functional updates, JAX's way: `at(x)[i].set(v)`; on traced arrays also `x.at[i].set(v)`.

    >>> import functrace.numpy as fnp, numpy as np
    >>> fnp.at(np.zeros(3))[1].add(5.0)
    array([0., 5., 0.])
    """
    return _At(x)
