"""Chapter 1. Tracers: values that remember which run of which function they belong to.

A *trace* is one run of one function under one transform. A *tracer* stands for an array in that run: it holds the concrete
value, so Python's `if`, `while` and `print` work while a function is traced, and the trace that it belongs to. When an op
meets several tracers, the trace that was opened last handles it, and sees the others as constants. That is all there is to
nesting. In

    def inner(y): return x * y
    grad(lambda x: x * grad(inner)(1.0))(1.0)

`grad` opens trace 1 and calls the lambda with a tracer of trace 1, `x`. The inner `grad` opens trace 2, whose tracer `y` has
the value 1.0. In `x * y` trace 2 is the newer: it takes `x` for a constant, computes its value by multiplying `x` (a tracer!)
by 1.0, and so *that* product is seen by trace 1. The inner derivative, computed from these values by ordinary ops, is `x`, a
tracer of trace 1; the outer one differentiates `x * x`, and the answer is 2. A trace is told from another by identity, never
by depth, so two derivatives cannot be confused however the calls interleave, in one thread or in many.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator
from types import CodeType
from typing import Any, ClassVar

import numpy as np

from functrace import errors
from functrace.places import line_of, user_line

_next_id = itertools.count(1).__next__  # one counter for the process: atomic, so ids are unique across threads


class Trace:
    """One run of one function under one transform. `id` grows: of two live traces, the inner has the larger."""

    __slots__ = ("closed", "id", "what")

    def __init__(self, what: str) -> None:
        self.id, self.what, self.closed = _next_id(), what, False

    def close(self) -> None:
        """End the run: whatever still holds one of its tracers is refused from now on."""
        self.closed = True

    def process(self, primitive: Any, args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Apply a primitive of which this trace holds the newest argument."""
        raise NotImplementedError

    def reveal(self, tracer: Tracer) -> Any:
        """The value of a tracer for code that looks at it outside of any op."""
        return tracer.below

    def check_open(self, tracer: Tracer) -> None:
        """Raise if the run has ended."""
        if self.closed:
            made = line_of(tracer.code, tracer.lasti) or "the arguments of the call"
            raise errors.LeakedTracerError(
                f"a traced value ({errors.describe(tracer.below)}) of {self.what} is used after that call has ended.\n"
                f"  It was made at {made}\n"
                f"  and used at {user_line()}.\n"
                "  Return it from the function (has_aux=True carries extra results out), or keep functrace.value(x), a plain array."
            )


class Tracer:
    """An array in a traced run: `below` is what it stands for, `slot` its place on the tape.

    `code` and `lasti` say where in the user's program it was made. A value may itself be a tracer, of an outer trace.
    Operators, methods and properties other than these are attached by the layers above, from the declarations of the ops.
    """

    __slots__ = ("__weakref__", "below", "code", "lasti", "owner", "parent", "slot", "views")  # parent, views: set on demand
    __hash__: ClassVar[None] = None  # type: ignore[assignment]
    __array_priority__ = 1000.0

    parent: Any
    views: Any

    def __init__(self, value: Any, trace: Any, slot: int, code: CodeType | None, lasti: int) -> None:
        self.below = value
        self.owner = trace
        self.slot = slot
        self.code = code
        self.lasti = lasti

    def kept(self) -> Any:
        """What others keep of a handle that may be written to: another handle of the same array."""
        return type(self)(self.below, self.owner, self.slot, self.code, self.lasti)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array, known while tracing."""
        return self.below.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the array, known while tracing."""
        return self.below.dtype  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("len() of unsized object")
        return shape[0]

    def strong(self) -> Tracer:
        """The same as an array or NumPy scalar, where it stands for a Python number."""
        return self

    def __bool__(self) -> bool:
        return bool(self.below)

    def __int__(self) -> int:
        return int(self.below)

    def __index__(self) -> int:
        return operator.index(self.below)

    def __repr__(self) -> str:
        return repr(self.below) if isinstance(self.below, Tracer) else f"Traced({str(self.below).strip()}, {errors.describe(self)})"

    def __str__(self) -> str:
        return str(self.below)

    def __format__(self, spec: str) -> str:
        return format(self.below, spec)


class TapeTracer(Tracer):
    """A tracer whose ops are recorded for differentiation."""

    __slots__ = ()


class BatchTracer(Tracer):
    """A tracer whose value has one more axis than it shows: the batch, always axis 0."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one example."""
        return self.below.shape[1:]  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"Traced(batch of {self.owner.size}: {str(self.below).strip()}, {errors.describe(self)})"

    def __bool__(self) -> bool:
        return bool(self.owner.agreed(self))

    def __int__(self) -> int:
        return int(self.owner.agreed(self))

    def __index__(self) -> int:
        return operator.index(self.owner.agreed(self))


def levels(x: Any) -> Iterator[Tracer]:
    """A traced value, and what it stands for as long as that is traced too: the newest trace first."""
    while isinstance(x, Tracer):
        yield x
        x = x.below


def value(x: Any) -> Any:
    """The plain array behind a traced value (all levels of it), with the batch axes in front; anything else unchanged."""
    if not isinstance(x, Tracer):
        return x
    while isinstance(x, Tracer):
        x = x.owner.reveal(x)
    if isinstance(x, np.ndarray):
        x = x.view(np.ndarray)
        x.flags.writeable = False  # the tape may need it
    return x


def bare(x: Any) -> Any:
    """`value` without a guard, and without a read-only view."""
    while isinstance(x, Tracer):
        x = x.below
    return x
