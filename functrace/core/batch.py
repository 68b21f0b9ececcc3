"""Chapter 6. Batching: run a function once for a whole batch of arguments.

The batch is always axis 0 of the value and never shows in the tracer's shape. An op whose arguments are batched asks the
batching rule of its primitive for the result of the whole batch. Values may be tracers of outer traces, other batches too.

Python can follow only one branch at a time: where an `if` looks at a value that differs between the examples, the batch is
split, and the function run anew on each part.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace import edge, errors
from functrace.core.primitive import Primitive
from functrace.core.tracer import BatchTracer, Trace, Tracer, levels, value
from functrace.operands import unwrapped
from functrace.pool import recycled


class BranchSplit(BaseException):
    """Leaves the function when the examples of `trace` go different ways: its `ways`, a number for each, which no `except` hides."""

    def __init__(self, trace: Any, ways: Any) -> None:
        self.trace, trace.ways = trace, ways if trace.ways is None else trace.ways


class BatchTrace(Trace):
    """A run on a batch of `size` examples."""

    __slots__ = ("size", "ways")

    def __init__(self, what: str, size: int) -> None:
        super().__init__(what)
        self.size = size
        self.ways: Any = None

    def tracer(self, x: Any, depth: int = 1) -> BatchTracer:
        """A tracer for a value with the batch as axis 0, made on the line of the frame `depth` above."""
        frame = sys._getframe(depth)
        return BatchTracer(recycled(x) if type(x) is np.ndarray else x, self, -1, frame.f_code, frame.f_lasti)

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Apply the primitive's batching rule to the values."""
        batched = [isinstance(a, BatchTracer) and a.owner is self for a in args]
        values = tuple([a.below if b else a.kept() if isinstance(a, Tracer) else unwrapped(a) for a, b in zip(args, batched)])
        try:
            out = primitive.batch(self.size, batched, values, params)
        except errors.OF_VALUES as error:  # of one example, it may be, and the function may catch it
            raise (BranchSplit(self, 2 * np.arange(self.size) // self.size) if self.size > 1 else error) from None
        return tuple([self.tracer(x, 4) for x in out]) if primitive.multi else self.tracer(out, 4)

    def agreed(self, tracer: Tracer) -> Any:
        """The one value that all examples share, of this batch and of those around it; where they differ, the batch is split."""
        found = np.asarray(value(tracer))
        for trace in [x.owner for x in levels(tracer) if isinstance(x, BatchTracer)][::-1]:
            if not found.size:
                return np.zeros(tracer.shape, found.dtype)
            if not (found == found[:1]).all():  # one look, where they agree
                rows, ways = np.unique(found.reshape(len(found), -1), axis=None if found.size == len(found) else 0, return_inverse=True)
                if len(rows) > 1:  # NaN is NaN
                    raise BranchSplit(trace, ways.reshape(-1))
            found = found[0]
        return found

    def run(self, fun: Callable[..., Sequence[Any]], args: Sequence[Any], flags: Sequence[bool]) -> list[tuple[Any, bool]] | None:
        """What `batched` gives, if all examples go one way; None if they do not, and `ways` says who goes where."""
        try:
            out = edge.raising_ours(fun, [self.tracer(a) if b else a for a, b in zip(args, flags)])
        except (BranchSplit, Exception):  # what a `finally` raised on the way out, it may be
            if self.ways is None:
                raise
        finally:
            self.close()
        return [(self.lower(x), isinstance(x, BatchTracer) and x.owner is self) for x in out] if self.ways is None else None

    def lower(self, x: Any) -> Any:
        """The value of a result, with the batch as axis 0 whether or not it depends on the batch."""
        if isinstance(x, Tracer):
            if x.owner is self:
                return x.below
            x.owner.check_open(x)
            x = x.kept()
        return np.broadcast_to(x, (self.size, *np.shape(x)))


def batched(fun: Callable[..., Sequence[Any]], args: Sequence[Any], flags: Sequence[bool], size: int, what: str) -> list[tuple[Any, bool]]:
    """Run `fun`, which returns a flat sequence, on `args`, of which the flagged have the batch as axis 0.

    So have all results; with each comes whether it depends on the batch.
    """
    parts: list[tuple[Any, list[tuple[Any, bool]]]] = []
    todo = [np.arange(size)]
    while todo:
        rows = todo.pop()
        trace = BatchTrace(what, len(rows))
        found = trace.run(fun, args if len(rows) == size else [a[rows] if b else a for a, b in zip(args, flags)], flags)
        if found is not None:
            parts.append((rows, found))
        else:
            todo.extend(rows[trace.ways == k] for k in range(trace.ways.max(), -1, -1))
    if len(parts) == 1:
        return parts[0][1]
    order = np.argsort(np.concatenate([rows for rows, _ in parts]))
    return [(np.concatenate([x for x, _ in column])[order], True) for column in zip(*(results for _, results in parts))]
