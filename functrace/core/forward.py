"""Chapter 5. The forward replay: walk the tape from its start, carrying tangents.

The values are on the tape already, so only tangents are computed: the same entries, the same rules' other half. A primitive
that states no tangent rule gets it from its cotangent rule: that is linear in the cotangent, so recorded on a tape of its own
and replayed in reverse it gives its transpose, which is the tangent rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.core.primitive import BINARY, INPLACE, ITEM, UNARY, Primitive
from functrace.core.reverse import pullback
from functrace.core.tape import Tape, record
from functrace.pool import owned


def pushforward(tape: Tape, tangents: Sequence[Any]) -> list[Any]:
    """Tangents of the outputs, given those of the inputs (None: zero). Outputs that nothing reaches get None."""
    for lock in tape.locks:
        lock.check()
    ts: list[Any] = [*tangents, *[None] * (tape.size - len(tangents))]
    mine: set[int] = set()  # slots whose tangent is a buffer made here
    for entry in tape.entries:
        primitive, out, slots, args, ans, params = entry
        kind = primitive.kind
        if kind == UNARY:
            t = ts[slots[0]]
            if t is not None:
                ts[out] = primitive.jvps[0](t, ans, args[0], *params)
        elif kind == ITEM:
            bundle = ts[slots[0]]
            if bundle is not None:
                ts[out] = bundle[params[0]]
        elif kind == INPLACE and primitive.inplace[1](ts, mine, entry):
            pass
        else:
            ts[out] = tangent(primitive, [ts[i] if i >= 0 else None for i in slots], ans, args, params)
    return owned([ts[slot] if slot >= 0 else None for slot in tape.slots], tangents)


def tangent(primitive: Primitive, ts: Sequence[Any], ans: Any, args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """The tangent of a result, the sum of what those of the arguments contribute; None where none does."""
    total: Any = None
    for d in primitive.push(ts, ans, args, params):
        if primitive.multi:
            total = d if total is None else [b if a is None else a if b is None else a + b for a, b in zip(total, d)]
        else:
            d = spread(d, ans) if primitive.kind == BINARY else d
            total = d if total is None else total + d
    return total


def spread(t: Any, ans: Any) -> Any:
    """A tangent broadcast to the shape, and cast to the dtype, of the result that it belongs to."""
    t = t if t.shape == ans.shape else np.broadcast_to(t, ans.shape)
    return t if t.dtype == ans.dtype else t.astype(ans.dtype)


def transpose(linear: Callable[..., Sequence[Any]], points: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """The transpose of a linear function, applied to `tangents`, one for each of its results (None: zero).

    The function is recorded at `points`, whose shapes and dtypes the result has; None where nothing reaches.
    """
    return pullback(record(linear, points, "a transposed rule"), tangents)
