"""Chapter 6. Batching: run a function once for a whole batch of arguments.

The batch is always axis 0 of the value and never shows in the tracer's shape. An op whose arguments are batched asks the
batching rule of its primitive for the result of the whole batch. Values may be tracers of outer traces, other batches too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace import errors
from functrace.core.primitive import Primitive
from functrace.core.tracer import BatchTracer, Trace, Tracer
from functrace.pool import recycled


class BatchTrace(Trace):
    """A run on a batch of `size` examples."""

    __slots__ = ("size",)

    def __init__(self, what: str, size: int) -> None:
        super().__init__(what)
        self.size = size

    def tracer(self, x: Any, depth: int = 1) -> BatchTracer:
        """A tracer for a value with the batch as axis 0; made on the line of the frame `depth` above, if that is the user's."""
        frame = sys._getframe(depth)
        code = frame.f_code if errors.is_user_file[frame.f_code.co_filename] else None
        return BatchTracer(recycled(x), self, -1, code, frame.f_lasti)

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Apply the primitive's batching rule to the values."""
        batched = [isinstance(a, BatchTracer) and a.owner is self for a in args]
        values = tuple([a.value if b else a for a, b in zip(args, batched)])
        out = primitive.batch(self.size, batched, values, params)
        return tuple([self.tracer(x, 4) for x in out]) if primitive.multi else self.tracer(out, 4)

    def lower(self, x: Any) -> Any:
        """The value of a result, with the batch as axis 0 whether or not it depends on the batch."""
        if isinstance(x, Tracer):
            if x.owner is self:
                return x.value
            if x.owner.closed:
                x.owner.check_open(x)
        return np.broadcast_to(x, (self.size, *np.shape(x)))


def batched(fun: Callable[..., Sequence[Any]], args: Sequence[Any], flags: Sequence[bool], size: int, what: str) -> list[tuple[Any, bool]]:
    """Run `fun`, which returns a flat sequence, on `args`, of which the flagged have the batch as axis 0.

    So have all results; with each comes whether it depends on the batch.
    """
    trace = BatchTrace(what, size)
    try:
        out = errors.raising_ours(fun, [trace.tracer(a) if b else a for a, b in zip(args, flags)])
        return [(trace.lower(x), isinstance(x, BatchTracer) and x.owner is trace) for x in out]
    finally:
        trace.close()
