"""Chapter 3. The tape: what a traced run leaves behind, a flat list in the order in which the ops ran.

An entry is a tuple `(primitive, out, slots, args, ans, params)`. `out` is the slot of the result; `slots[k]` is the slot of
argument k, or -1 for a constant; `args` and `ans` are the values that the rules may look at. Slots are numbered by the trace:
the arguments of the traced function come first. A primitive with several results gives one slot that stands for their tuple,
followed by an `item` entry for each. The list is in topological order as it stands: replays need no sort and no recursion.
"""

from __future__ import annotations

import itertools
import operator
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar

import numpy as np

from functrace import edge, errors
from functrace.core.primitive import ITEM as ITEM_KIND
from functrace.core.primitive import LARGE, LINEAR, Primitive, bind, lean
from functrace.core.tracer import TapeTracer, Trace, Tracer, bare
from functrace.locks import COPY, Lock, safe
from functrace.operands import unwrapped
from functrace.places import user_line, user_place
from functrace.pool import recycled

Entry = tuple[Primitive, int, tuple[int, ...], tuple[Any, ...], Any, tuple[Any, ...]]


class TapeTrace(Trace):
    """A run that is being recorded, on tracers of class `kind`."""

    __slots__ = ("append", "entries", "locks", "next_slot")
    kind: ClassVar[type[Tracer]] = TapeTracer
    frames: Any = ()  # kept by runs that are to be read, as are guards
    guards: Any = ()

    def __init__(self, what: str) -> None:
        Trace.__init__(self, what)
        self.entries: list[Entry] = []
        self.append: Callable[[Entry], None] = self.entries.append
        self.next_slot = itertools.count().__next__  # atomic, as list.append is: a tracer may be used in another thread
        self.locks: list[Lock] = []

    def constant(self, x: Any, needed: bool, copy: int = COPY) -> Any:
        """A constant as the tape may keep it: an array that a rule will look at must be safe from later writes."""
        if type(x) is not np.ndarray:
            x = x.kept() if isinstance(x, Tracer) else unwrapped(x)
            if not isinstance(x, np.ndarray):
                return x
        elif x.size <= LARGE and x.dtype.char in "fd?":  # `safe`, of most without its questions
            return x.copy("K") if needed else x
        kept = safe(x, copy) if needed or x.dtype.kind == "O" else x
        if isinstance(kept, Lock):
            self.locks.append(kept)
            return kept.array
        return kept

    def tracer(self, x: Any, slot: int) -> Tracer:
        """A tracer of this trace, made on the user's line."""
        return self.kind(x, self, slot, *user_place(2))

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Compute the values one level down, and record."""
        slots = tuple([a.slot if isinstance(a, Tracer) and a.owner is self else -1 for a in args])
        needed = primitive.needed(slots)
        values = tuple([a.below if i >= 0 else self.constant(a, keep) for a, i, keep in zip(args, slots, needed[1:])])
        ans = bind(primitive, values, params)
        return ans if primitive.constant else self.record(primitive, slots, values, ans, params)

    def record(self, primitive: Primitive, slots: tuple[int, ...], args: tuple[Any, ...], ans: Any, params: tuple[Any, ...]) -> Any:
        """Append an entry, and give the tracer of its result (a tuple of tracers, if it has several)."""
        slot = self.next_slot()
        kept = ans = recycled(ans)
        if not primitive.multi and getattr(bare(ans), "size", 0) > (LINEAR if primitive.linear is True else LARGE):
            args, kept = lean(primitive.needed(slots), args, ans)
        self.append((primitive, slot, slots, args, kept, params))
        if not primitive.multi:
            return self.tracer(ans, slot)
        return self.items(slot, ans)

    def items(self, slot: int, ans: tuple[Any, ...]) -> tuple[Tracer, ...]:
        """Append an entry for each of several results, and give their tracers."""
        items = [(self.next_slot(), x) for x in ans]
        for k, (item, x) in enumerate(items):
            self.append((ITEM, item, (slot,), (len(ans),), x, (k,)))
        return tuple([self.tracer(x, item) for item, x in items])

    def close(self) -> None:
        """End the run. The entries live on in its `Tape`; a leaked tracer can't reach them, so it keeps nothing alive."""
        self.closed = True
        self.entries, self.locks, self.append = [], [], _leaked


def _leaked(entry: Entry) -> None:
    # A fast op comes here without looking whether the trace is open: the tracer is among its local variables.
    names = sys._getframe(1).f_locals
    for x in (names.get("x"), names.get("y")):
        if isinstance(x, Tracer) and x.owner.closed:
            x.owner.check_open(x)
    raise errors.LeakedTracerError(f"a traced value is used after its call has ended, at {user_line()}.")


ITEM = Primitive("item", operator.getitem, arity=1, batch=lambda *_: None, vjps=(None,), jvps=(None,))
ITEM.kind = ITEM_KIND


class Tape:
    """A recorded run (see `trace`): its entries, `inputs` (the values of the first slots), and the slot and value of each output."""

    __slots__ = ("entries", "frames", "guards", "inputs", "locks", "names", "outputs", "size", "slots", "what")

    def __init__(self, trace: TapeTrace, inputs: list[Any], outputs: Sequence[Any]) -> None:
        self.what = trace.what
        self.entries = trace.entries
        self.frames, self.guards, self.locks = trace.frames, trace.guards, trace.locks
        self.inputs = inputs
        self.names: Sequence[str] = ()
        self.slots: list[int] = []
        self.outputs: list[Any] = []
        for x in outputs:
            mine = isinstance(x, Tracer) and x.owner is trace
            if not mine and isinstance(x, Tracer):
                x.owner.check_open(x)
            self.slots.append(x.slot if mine else -1)
            self.outputs.append(x.below if mine else x.kept() if isinstance(x, Tracer) else x)
        self.size = trace.next_slot()


recorder: ContextVar[type[TapeTrace]] = ContextVar("recorder", default=TapeTrace)  # another in a debugger's context


def record(
    fun: Callable[..., Sequence[Any]], inputs: Sequence[Any], what: str, kind: type[TapeTrace] | None = None, copy: int = sys.maxsize
) -> Tape:
    """Run `fun` on tracers for `inputs`, arrays or tracers of outer traces; it returns a flat sequence of results.

    Inputs are kept safe from later writes; those of more than `copy` bytes by a lock.
    """
    trace = (kind or recorder.get())(what)
    try:
        code, lasti = user_place(2)
        values, tracers = [], []
        for x in inputs:
            values.append(x.strong() if isinstance(x, Tracer) else trace.constant(x, True, copy))
            tracers.append(trace.kind(recycled(values[-1]), trace, trace.next_slot(), code, lasti))
        return Tape(trace, values, edge.raising_ours(fun, tracers, trace.locks))
    finally:
        trace.close()
