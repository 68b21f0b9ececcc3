"""Elementwise rules of large arrays, a block at a time.

A replay that goes from rule to rule reads and writes whole arrays, which costs more than the arithmetic where the cache does not hold
them. Of entries in a row that are elementwise all rules are applied to one block, while it is in the cache, and then to the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace import threads
from functrace.pool import Recycled, empty

LARGE = 1 << 19  # bytes of an array from which on the cache does not hold several
BLOCK = 1 << 19  # bytes of a block: several blocks stay in the cache, and threads seldom wait for the interpreter's lock
_ARRAYS = (np.ndarray, Recycled)


class _Like:
    """A block of a value that no rule looks into: its shape and dtype."""

    __slots__ = ("dtype", "ndim", "shape", "size")

    def __init__(self, size: int, dtype: Any) -> None:
        self.shape, self.size, self.ndim, self.dtype = (size,), size, 1, dtype


def pulled(entries: list[Any], entry: Any, cts: list[Any]) -> bool:
    """Replay `entry` backwards, and those at the end of `entries` that go with it, taking them off; false if there are none."""
    g = cts[entry[1]]
    if g.nbytes < LARGE or not _fits(entry, g):
        return False
    run, ends, count = [entry], {i: None for i in entry[2] if i >= 0}, len(entries)
    while count:
        e = entries[count - 1]
        own = cts[e[1]]
        if own is not None or e[1] in ends:
            if not _fits(e, g) or not _adds(own, g):
                break
            run.append(e)
            ends.pop(e[1], None)
            for i in e[2]:
                if i >= 0:
                    ends[i] = None
        count -= 1
    if len(run) == 1 or not all(_adds(cts[i], g) for i in ends):
        return False
    del entries[count:]
    _replay(run, [*ends], cts, g)
    return True


def _adds(own: Any, g: Any) -> bool:
    """Whether a cotangent is none yet, or an array like `g`."""
    return own is None or type(own) in _ARRAYS and own.shape == g.shape and own.dtype == g.dtype


def _fits(entry: Any, g: Any) -> bool:
    """Whether the rules of an entry may be applied to blocks: all that they look into are arrays like `g`, or numbers."""
    primitive, _, slots, args, ans, _ = entry
    if not primitive.elementwise or primitive.constant or primitive.multi or primitive.op.primitive is not primitive:  # a debugger's
        return False
    shape = g.shape
    needed = primitive.needed(slots)
    if ans.shape != shape or ans.dtype != g.dtype or needed[0] and type(ans) not in _ARRAYS:
        return False
    for rule, i, x, looked in zip(primitive.vjps, slots, args, needed[1:]):
        if i >= 0 and (rule is None or x.shape != shape or x.dtype != g.dtype):
            return False
        if np.shape(x) != shape and np.shape(x) or looked and type(x) not in _ARRAYS and not isinstance(x, (int, float, np.generic)):
            return False
    return True


def _flat(x: Any, g: Any) -> Any:
    """An array as blocks are taken of it, `_Like` for what no rule looks into, and a number as it is. An array that repeats one number
    is not written out.
    """
    if np.shape(x) != g.shape:
        return x
    if type(x) not in _ARRAYS:
        return _Like
    return x.reshape(-1).view(np.ndarray) if any(x.strides) else np.broadcast_to(x[(0,) * x.ndim], g.size)


def _replay(run: list[Any], ends: list[int], cts: list[Any], g: Any) -> None:
    seeds = {}
    for i in (*(e[1] for e in run), *ends):
        if cts[i] is not None:
            seeds[i], cts[i] = _flat(cts[i], g), None
    code = [(e[0].vjps, e[1], e[2], [_flat(x, g) for x in e[3]], _flat(e[4], g), e[5]) for e in run]
    made = {i: empty(g.shape, g.dtype) for i in ends}
    out = {i: x.reshape(-1) for i, x in made.items()}
    several = threads.count() > 1 and g.nbytes >= 8 * BLOCK
    step = BLOCK // g.itemsize

    def replay(start: int) -> None:
        block = slice(start, min(start + step, g.size))
        like = _Like(block.stop - start, g.dtype)

        def of(x: Any) -> Any:
            return like if x is _Like else x[block] if type(x) is np.ndarray and x.ndim else x

        local = {i: x[block] for i, x in seeds.items()}
        for rules, number, slots, args, ans, params in code:
            t = local.pop(number)
            values = of(ans), *map(of, args), *params
            for rule, i in zip(rules, slots):
                if i >= 0:
                    d = rule(t, *values)
                    local[i] = local[i] + d if i in local else d
        for i, x in out.items():
            x[block] = local[i]

    starts = range(0, g.size, step)
    if several:
        threads.run(replay, starts)
    else:
        for start in starts:
            replay(start)
    for i, x in made.items():
        cts[i] = x.view(Recycled)
