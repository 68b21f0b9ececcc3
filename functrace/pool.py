"""Large buffers, used again: what a tape frees is what its next operations write to.

Memory that is given back to the system must be taken from it page by page, which on large arrays costs more than the
arithmetic. `recycled(x)` is `x` as a `Recycled`, an ndarray whose ufuncs write their results to buffers of a pool, as
`Recycled` again: a computation that starts with one stays in the pool without knowing of it. A buffer is free when nothing
but the pool refers to it. Each thread has its own pool, of at most `LIMIT` bytes; `clear` empties it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from functools import lru_cache
from sys import getrefcount
from typing import Any

import numpy as np

from functrace import threads
from functrace.later import Products
from functrace.references import IN_LIST

SMALLEST = 1 << 18  # bytes: below this the C library keeps freed memory itself
LIMIT = 1 << 27  # bytes that a thread's pool may hold
_BESIDE = 4  # how far from the last buffer taken a free one is looked for

# Freed untouched: glibc keeps what is freed up to the size of the largest block it has seen freed, and of 32 MB at most.
np.empty((1 << 22) - (1 << 12))


class _Pool(threading.local):
    """The buffers of a thread, by shape and dtype, and where the last of each was taken.

    Tapes take and free as stacks do, so a free buffer lies beside the last one taken: a few looks find it, however many are in use.
    """

    def __init__(self) -> None:
        self.buffers: dict[Any, list[Any]] = {}
        self.last: dict[Any, int] = {}
        self.bytes = self.refused = 0

    def take(self, shape: tuple[int, ...], dtype: Any) -> Any:
        key = (shape, dtype)
        buffers = self.buffers.get(key)
        if buffers is None:
            buffers = self.buffers[key] = []
        last = self.last.get(key, 0)
        for start in (max(last - _BESIDE, 0), 0):
            for k in range(start, min(start + 2 * _BESIDE, len(buffers))):
                if getrefcount(buffers[k]) == IN_LIST:
                    self.last[key] = last - 1 if start <= k < last else k
                    buffers[k].flags.writeable = True  # a lock that was interrupted while it was given back leaves it read-only
                    return buffers[k]
        new = np.empty(shape, dtype)
        if self.bytes + new.nbytes > LIMIT:
            self.refused += new.nbytes
            if self.refused > LIMIT >> 3:  # looking through them all each time would take longer than it saves
                self.drop_unused()
        if self.bytes + new.nbytes <= LIMIT:
            self.bytes += new.nbytes
            self.last[key] = len(buffers)
            buffers.append(new)
        return new

    def drop_unused(self) -> None:
        for buffers in self.buffers.values():
            buffers[:] = [buffers[k] for k in range(len(buffers)) if getrefcount(buffers[k]) > IN_LIST]
        self.last.clear()
        self.bytes, self.refused = sum(b.nbytes for buffers in self.buffers.values() for b in buffers), 0


_pool = _Pool()


class Recycled(np.ndarray[Any, Any]):
    """An array whose ufuncs write to the pool."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain: list[Any] = []
        shape: tuple[int, ...] | None = None
        dtype = self.dtype
        simple = _pooled(dtype) and method == "__call__" and not kwargs and ufunc.nout == 1 and ufunc.signature is None
        for x in inputs:
            kind = type(x)
            if kind is Recycled:
                plain.append(x.view(np.ndarray))
            elif kind is np.ndarray or kind is float or kind is int or isinstance(x, np.generic):
                plain.append(x)
            elif hasattr(x, "__array_ufunc__") and not isinstance(x, np.ndarray):
                return NotImplemented  # a tracer: it decides
            else:
                plain.append(x)
                simple = False
            if simple and kind is not float and kind is not int:
                if x.dtype is not dtype:
                    simple = False
                elif shape is None:
                    shape = x.shape
                elif x.shape != shape:
                    shape = np.broadcast_shapes(shape, x.shape)
        if simple and shape and _keeps(ufunc, dtype.char):
            rows = self.flags.c_contiguous or self.shape != shape or any(np.shape(x) == shape and x.flags.c_contiguous for x in plain)
            out = _pool.take(shape, dtype) if rows else _in_order_of(self, shape, dtype)
            if len(plain) == 2 and 1 < shape[-1] <= _SHORT and out.flags.c_contiguous:
                _spread(plain, out)
            if out.size >= (_HEAVY if ufunc in _SLOW else _LIGHT) and threads.count() > 1:
                _in_pieces(ufunc, plain, out)
            else:
                ufunc(*plain, out=out)
            return out.view(Recycled)
        if "out" in kwargs:
            kwargs["out"] = tuple(o.view(np.ndarray) if type(o) is Recycled else o for o in kwargs["out"])
        if ufunc is np.matmul and method == "__call__" and not kwargs:
            return recycled(product(*plain))
        if method == "at":
            return getattr(ufunc, method)(*plain, **kwargs)
        return recycled(getattr(ufunc, method)(*plain, **kwargs))

    def __reduce__(self) -> Any:
        return np.array(self).__reduce__()


def _in_order_of(x: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """A buffer whose axes lie in memory as those of `x` do: then a ufunc walks both in step."""
    strides = x.strides
    order = sorted(range(len(shape)), key=lambda k: -abs(strides[k]))
    inverse = [0] * len(order)
    for k, axis in enumerate(order):
        inverse[axis] = k
    return _pool.take(tuple(shape[k] for k in order), dtype).transpose(inverse)


@lru_cache
def _keeps(ufunc: np.ufunc, code: str) -> bool:
    """Whether a ufunc gives the dtype that all its arguments have: `hankel1` of real numbers, or `less`, does not."""
    return f"{code * ufunc.nin}->{code}" in ufunc.types


_SHORT = 32  # length of a last axis up to which repeating an array along it first is faster than doing so in the ufunc


def _spread(inputs: list[Any], out: Any) -> None:
    """Write an input that is to be repeated along a short last axis into `out`, which takes its place: NumPy is slow to repeat it."""
    for k, x in enumerate(inputs):
        if np.ndim(x) == out.ndim > 1 and (x.shape[-1] == 1 or x.strides[-1] == 0):
            np.copyto(out, x)
            inputs[k] = out
            return


_SLOW = frozenset(  # tens of cycles an element, so that fewer elements are worth the wait for a thread
    {
        np.exp, np.expm1, np.exp2, np.log, np.log1p, np.log2, np.log10, np.sin, np.cos, np.tan, np.sinh, np.cosh, np.tanh, np.arcsin,
        np.arccos, np.arctan, np.arcsinh, np.arccosh, np.arctanh, np.arctan2, np.power, np.logaddexp, np.hypot, np.cbrt,
    }
)  # fmt: skip
_HEAVY, _LIGHT = 1 << 17, 1 << 19  # elements from which on threads take a share: waking one takes up to half a millisecond


def _in_pieces(ufunc: np.ufunc, inputs: list[Any], out: Any) -> None:
    """The ufunc on blocks, on several threads: along the outermost axis in memory that is long enough, so that a block is of few pieces."""
    most = 32 * threads.count()
    axis = max(range(out.ndim), key=lambda k: (min(out.shape[k], most), out.strides[k])) - out.ndim
    n = out.shape[axis]
    step = -(-n // (2 * threads.count()))

    def part(start: int) -> None:
        cut = (..., slice(start, start + step), *(slice(None),) * (-1 - axis))
        ufunc(*[x[cut] if np.ndim(x) >= -axis and x.shape[axis] == n else x for x in inputs], out=out[cut])

    threads.run(part, range(0, n, step))


def _pooled(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "fc" and dtype.isnative


def recycled(x: Any) -> Any:
    """A large array as a `Recycled` view of it; a small part of a `Recycled` as a plain array; anything else as it is."""
    if type(x) is np.ndarray:
        return x.view(Recycled) if x.nbytes >= SMALLEST and _pooled(x.dtype) else x
    return x.view(np.ndarray) if type(x) is Recycled and x.nbytes < SMALLEST else x


def empty(shape: tuple[int, ...], dtype: Any) -> Any:
    """A plain array to be filled."""
    return _pool.take(shape, dtype) if dtype.itemsize * math.prod(shape) >= SMALLEST else np.empty(shape, dtype)


def zeros(shape: tuple[int, ...], dtype: Any) -> Any:
    """A plain array of zeros."""
    if dtype.itemsize * math.prod(shape) < SMALLEST:
        return np.zeros(shape, dtype)
    out = _pool.take(shape, dtype)
    out[...] = 0
    return out


def holds(x: Any) -> bool:
    """Whether an array is a buffer of this thread's pool, which then refers to it too."""
    return any(x is b for b in _pool.buffers.get((x.shape, x.dtype), ())) if x.nbytes >= SMALLEST else False


def product(x: Any, y: Any) -> Any:
    """`x @ y` of arrays; a large one is written to the pool."""
    plain = isinstance(x, np.ndarray) and isinstance(y, np.ndarray)  # NumPy tells the user of numbers
    small = not plain or x.ndim < 2 or y.ndim < 2 or x.size * y.shape[-1] < SMALLEST // 8 * x.shape[-1]
    if small or x.dtype != y.dtype or not x.dtype.isnative:
        return np.matmul(x, y)
    x, y = np.asarray(x), np.asarray(y)
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2]) if x.ndim > 2 or y.ndim > 2 else ()
    return np.matmul(x, y, out=empty((*lead, x.shape[-2], y.shape[-1]), x.dtype))


def owned(xs: Iterable[Any], given: Iterable[Any]) -> list[Any]:
    """Arrays that own their memory, and are neither one another nor one of those `given`; no copies where none are needed."""
    taken = {*map(id, given)}
    out = []
    for x in xs:
        if type(x) is Products:
            x = x.total()
        if isinstance(x, np.ndarray):
            if type(x) is Recycled:
                base = x.base
                whole = type(base) is np.ndarray and base.base is None and base.shape == x.shape and base.strides == x.strides
                x = base if whole else np.array(x)
            if x.base is not None or not x.flags.writeable or id(x) in taken:
                x = np.array(x)
            taken.add(id(x))
        out.append(x)
    return out


def clear() -> None:
    """Give back all memory that this thread keeps for later use."""
    _pool.__init__()  # type: ignore[misc]
