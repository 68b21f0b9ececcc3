"""The program: a recorded run as a flat list of instructions on numbered values, to be rewritten, printed and run.

Values are numbered from 0, the inputs first; constants are numbered downwards from -1. An instruction applies a primitive to
values and parameters. A guard is an instruction too: it has no result, and says what Python found when it looked at a value.
"""

from __future__ import annotations

import copy
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from functrace import edge, errors
from functrace.core.primitive import Aval, Primitive, bind
from functrace.core.tape import ITEM, Tape
from functrace.core.tracer import Tracer, value
from functrace.ops.create import as_numpy

ARRAY, SCALAR, NUMBER = "array", "scalar", "number"  # what a value is: an ndarray, a NumPy scalar, a Python number


class Kind(NamedTuple):
    """What is known of a value before the program runs."""

    shape: tuple[int, ...]
    dtype: Any
    form: str = ARRAY

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.size * int(self.dtype.itemsize)


_DTYPES = {int: np.dtype(int), float: np.dtype(np.float64), complex: np.dtype(np.complex128), bool: np.dtype(np.bool_)}


def kind_of(x: Any) -> Kind | None:
    """The kind of a value; None for what is no array or number."""
    if type(x) in _DTYPES:
        return Kind((), _DTYPES[type(x)], NUMBER)
    if isinstance(x, np.generic):
        return Kind((), x.dtype, SCALAR)
    return Kind(x.shape, x.dtype) if isinstance(x, np.ndarray) else None


class Instruction:
    """`out = primitive(*args, *params)`."""

    __slots__ = ("args", "out", "params", "primitive")

    def __init__(self, primitive: Primitive, out: int, args: tuple[int, ...], params: tuple[Any, ...]) -> None:
        self.primitive, self.out, self.args, self.params = primitive, out, args, params


def same(a: Any, b: Any) -> bool:
    """Whether a guard finds what it found before: of one type, and equal, NaN to NaN, each zero to that of its sign."""
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return type(a) is type(b) and (repr(a) == repr(b) if isinstance(a, (float, complex, list, np.inexact)) else bool(a == b))


NOTHING = -(1 << 60)  # the number of the result of a guard
GUARD = Primitive("guard", same, arity=1, constant=True, batch=lambda *_: None)


class Program:
    """Instructions in order, the constants, the kind of each value if it is known, the number of inputs, and those of the outputs."""

    __slots__ = ("consts", "instructions", "kinds", "names", "next", "ninputs", "outputs")

    def __init__(
        self,
        ninputs: int,
        instructions: Iterable[Instruction] = (),
        outputs: Sequence[int] = (),
        consts: Sequence[Any] = (),
        kinds: dict[int, Any] | None = None,
        names: Sequence[str] = (),
    ) -> None:
        self.ninputs, self.instructions, self.outputs = ninputs, list(instructions), list(outputs)
        self.consts, self.names = list(consts), names
        self.kinds: dict[int, Any] = dict.fromkeys(range(ninputs)) if kinds is None else kinds
        self.next = max(self.kinds, default=-1) + 1

    def with_(self, instructions: Iterable[Instruction], outputs: Sequence[int] | None = None) -> Program:
        """The same program with other instructions. The two share their kinds and constants, to which a pass may add but changes none."""
        new = copy.copy(self)
        new.instructions, new.outputs = list(instructions), list(self.outputs if outputs is None else outputs)
        return new

    def const(self, x: Any) -> int:
        """The number of a new constant."""
        self.consts.append(x)
        self.kinds[-len(self.consts)] = kind_of(x)
        return -len(self.consts)

    def value(self, kind: Kind | None) -> int:
        """The number of a new value."""
        self.kinds[self.next] = kind
        self.next += 1
        return self.next - 1

    def uses(self) -> Counter[int]:
        """How often each value is an argument or an output."""
        return Counter(chain(self.outputs, chain.from_iterable([i.args for i in self.instructions])))

    def has(self, *names: str) -> bool:
        """Whether there is an instruction with one of these primitives."""
        return not {i.primitive.name for i in self.instructions}.isdisjoint(names)

    def is_array(self, k: int) -> bool:
        """Whether a value is known to be an ndarray."""
        kind = self.kinds[k]
        return kind is not None and kind.form == ARRAY

    def constant(self, k: int) -> Any:
        """The constant of a number."""
        return self.consts[-1 - k]

    def name(self, k: int) -> str:
        """What a value is called where the program is printed."""
        return _short(self.constant(k)) if k < 0 else self.names[k] if k < len(self.names) else f"%{k}"

    def asked(self, guard: Instruction) -> str:
        """What Python asked of a value, as in `float(x)`."""
        return f"{_short(guard.params[0])}({self.name(guard.args[0])})"

    @edge.boundary
    def __call__(self, *inputs: Any) -> list[Any]:
        """The outputs for these inputs, arrays or numbers, or traced values, which are taken in the dtypes that were recorded."""
        given = [*map(as_numpy, inputs)]
        if len(given) != self.ninputs or not all(hasattr(x, "dtype") for x in given):
            raise errors.CallError(
                f"a program of {self.ninputs} inputs ({', '.join(self.names)}) was given {len(given)}: "
                f"{', '.join(map(errors.describe, given))}.\n"
                "  It takes the leaves of the arguments: program(*functrace.tree.leaves(args))."
            )
        for k, x in enumerate(given):
            kind = self.kinds.get(k)
            if kind is not None and (x.shape != kind.shape or not np.can_cast(x.dtype, kind.dtype, "same_kind")):
                name = f" ('{self.names[k]}')" if k < len(self.names) else ""
                raise errors.CallError(
                    f"a program was recorded with {errors.describe(kind)} as input {k}{name}, "
                    f"and was given {errors.describe(x)}.\n"
                    "  A recording is of one shape: record the function anew, or use vmap for a batch."
                )
            if kind is not None and kind.form == NUMBER:
                given[k] = inputs[k]
            elif kind is not None and x.dtype != kind.dtype:  # operations on integers would be others than were recorded
                given[k] = x.astype(kind.dtype)
        return interpret(self, given)

    def __repr__(self) -> str:
        """One instruction a line."""
        name = self.name

        def typed(k: int) -> str:
            kind = self.kinds.get(k)
            return name(k) if kind is None else f"{name(k)} : {errors.describe(kind)}"

        lines = [typed(k) for k in range(self.ninputs)]
        for i in self.instructions:
            if i.primitive is GUARD:
                lines.append(f"guard {self.asked(i)} is {_short(i.params[1])}")
            else:
                lines.append(f"{typed(i.out)} = {i.primitive.name}({', '.join([*map(name, i.args), *map(_short, i.params)])})")
        return "\n".join([*lines, f"return {', '.join(map(name, self.outputs))}"])


def _short(x: Any) -> str:
    if isinstance(x, np.ndarray) and x.size != 1:
        return errors.describe(x)
    if isinstance(x, tuple):
        return f"({', '.join(map(_short, x))})"
    if isinstance(x, operator.methodcaller):
        return str(x.__reduce__()[1][0])
    if callable(x):
        return getattr(x, "__name__", "...")
    return repr(x.item() if isinstance(x, np.ndarray) else x)


def program_of(tape: Tape) -> Program:
    """The program that a tape of `functrace.trace` recorded."""
    for lock in tape.locks:
        lock.check()
    program = Program(len(tape.inputs), names=tape.names)
    kinds, rows = program.kinds, program.instructions
    kind: Callable[[Any], Kind | None] = lambda x: Kind(x.shape, x.dtype) if isinstance(x, (Aval, Tracer)) else kind_of(x)
    kinds.update(enumerate(map(kind, tape.inputs)))
    guards: dict[int, list[Instruction]] = {}  # by the entry that they stand before
    for k, (index, slot, read, found) in enumerate(tape.guards):
        guards.setdefault(index, []).append(Instruction(GUARD, NOTHING, (slot,), (read, found, k)))
    for index, (primitive, out, slots, args, ans, params) in enumerate(tape.entries):
        rows += guards.get(index, ())
        kinds[out] = kind(ans)
        refs = slots if primitive is ITEM else tuple([s if s >= 0 else program.const(value(a)) for s, a in zip(slots, args)])
        rows.append(Instruction(primitive, out, refs, params))
    rows += guards.get(len(tape.entries), ())
    program.outputs = [s if s >= 0 else program.const(value(x)) for s, x in zip(tape.slots, tape.outputs)]
    program.next = tape.size
    return program


class GuardError(Exception):
    """A guard found something else: at which guard, and what."""

    def __init__(self, number: int, found: Any) -> None:
        super().__init__(number, found)
        self.number, self.found = number, found

    def __str__(self) -> str:
        found = errors.describe(self.found) if isinstance(self.found, np.ndarray) else repr(self.found)
        return f"guard {self.number} found {found}, the run that was recorded something else: record the function anew"


def interpret(program: Program, inputs: Sequence[Any]) -> list[Any]:
    """Run a program one instruction after another, on plain or traced values: the meaning of a program."""
    values = dict(enumerate(inputs))
    for k, x in enumerate(program.consts):
        values[-1 - k] = x
    last = {a: k for k, i in enumerate(program.instructions) for a in i.args} | dict.fromkeys(program.outputs, -1)
    for k, i in enumerate(program.instructions):
        if i.primitive is GUARD:
            read, found, number = i.params
            got = read(values[i.args[0]])
            if not same(got, found):
                raise GuardError(number, got)
        elif i.primitive is ITEM:
            values[i.out] = values[i.args[0]][i.params[0]]
        else:
            args = tuple([values[a] for a in i.args])
            by_python = i.primitive.name.startswith(("operator.", "strong"))  # a traced value has operators of its own
            values[i.out] = i.primitive.fun(*args) if by_python else bind(i.primitive, args, i.params)
            args = ()
        for a in i.args:
            if last[a] == k:  # nothing reads it any more
                values.pop(a, None)
    return [np.array(x) if k < 0 and isinstance(x := values[k], np.ndarray) else values[k] for k in program.outputs]
