"""Chapter 4. The reverse replay: walk the tape from its end, carrying cotangents.

Each slot owns a place for its cotangent. An entry whose result has none is skipped; the others ask their rules what reaches
their arguments, and add. When an entry is reached every later use of its result has been passed, so the sum is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from functrace.blockwise import pulled
from functrace.core.primitive import BINARY, INPLACE, ITEM, UNARY
from functrace.core.tape import Tape
from functrace.pool import Recycled, owned
from functrace.sums import total


def pullback(tape: Tape, cotangents: Sequence[Any], consume: bool = False) -> list[Any]:
    """Cotangents of the inputs, given those of the outputs (None: zero). Inputs that nothing reaches get None.

    With `consume` the tape is emptied on the way: what it kept is freed as the replay passes.
    """
    for lock in tape.locks:
        lock.check()
    cts: list[Any] = [None] * tape.size
    mine: set[int] = set()  # slots whose cotangent is a buffer made here, which nothing else can see
    for slot, g in zip(tape.slots, cotangents):
        if slot >= 0 and g is not None:
            cts[slot] = g if cts[slot] is None else cts[slot] + g
    entries = tape.entries if consume else tape.entries.copy()
    pop = entries.pop
    while entries:
        entry = pop()
        primitive, out, slots, args, ans, params = entry
        g = cts[out]
        if g is None or type(g) is Recycled and pulled(entries, entry, cts):
            continue
        cts[out] = None
        kind = primitive.kind
        if kind == BINARY:
            i, j = slots
            x, y = args
            if i >= 0:
                d = primitive.vjps[0](g, ans, x, y, *params) if params else primitive.vjps[0](g, ans, x, y)
                if d.shape != x.shape or d.dtype is not x.dtype:
                    d = fit(d, x)
                c = cts[i]
                cts[i] = d if c is None else c + d
            if j >= 0:
                d = primitive.vjps[1](g, ans, x, y, *params) if params else primitive.vjps[1](g, ans, x, y)
                if d.shape != y.shape or d.dtype is not y.dtype:
                    d = fit(d, y)
                c = cts[j]
                cts[j] = d if c is None else c + d
        elif kind == UNARY:
            (i,) = slots
            (x,) = args
            d = primitive.vjps[0](g, ans, x, *params) if params else primitive.vjps[0](g, ans, x)
            c = cts[i]
            cts[i] = d if c is None else c + d
        elif kind == INPLACE and primitive.inplace[0](cts, mine, g, entry, len(tape.inputs)):
            pass
        elif kind == ITEM:
            bundle = cts[slots[0]]
            if bundle is None:
                bundle = cts[slots[0]] = [None] * args[0]
            bundle[params[0]] = g
        else:
            for i, d, x in zip(slots, primitive.pull(slots, g, ans, args, params), args):
                if i >= 0 and d is not None:
                    d = fit(d, x)
                    c = cts[i]
                    cts[i] = d if c is None else c + d
    return owned(cts[: len(tape.inputs)], cotangents)


def fit(d: Any, x: Any) -> Any:
    """A cotangent summed back to the shape, and cast to the dtype, of the value that it belongs to."""
    shape = x.shape
    if d.shape != shape:
        axes = _repeated(shape, d.shape)
        d = total(d, axes).reshape(shape) if axes else np.broadcast_to(d, shape)
    if d.dtype != x.dtype:
        if d.dtype.kind == "c" and x.dtype.kind != "c":
            d = d.real
        d = d.astype(x.dtype)
    return d


@lru_cache(maxsize=1024)
def _repeated(shape: tuple[int, ...], wider: tuple[int, ...]) -> tuple[int, ...]:
    """The axes along which broadcasting repeats an array of `shape` to make it `wider`."""
    return tuple(k for k in range(-len(wider), 0) if k < -len(shape) or shape[k] == 1 != wider[k])
