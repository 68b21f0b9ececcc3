"""The trace that records a whole program, for `trace` and `jit`; and entries as text."""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any, ClassVar, ParamSpec

import numpy as np

from functrace import errors, tree
from functrace.core.primitive import Primitive, bind
from functrace.core.tape import ITEM, Tape, TapeTrace, record
from functrace.core.tracer import Tracer, value
from functrace.ops.create import as_numpy
from functrace.ops.methods import repeats
from functrace.places import is_user_file
from functrace.transforms.arguments import made_name, name_of, parameters, refuse_tensors
from functrace.transforms.naming import Lines, checks, line_text

P = ParamSpec("P")


def replaced(xs: Iterable[Any], places: Iterable[int], new: Iterable[Any]) -> list[Any]:
    """A copy of `xs`, as a list, with `new` at `places`."""
    out = list(xs)
    for k, x in zip(places, new):
        out[k] = x
    return out


def identity(x: Any) -> Any:
    """A key for a constant or parameter: its value, bit by bit, if it has one, else its id."""
    kind = type(x)
    if kind is tuple:
        return tuple([identity(y) for y in x])
    if kind is slice:
        return kind, identity(x.start), identity(x.stop), identity(x.step)
    if isinstance(x, np.generic) and x.dtype.kind in "fciub":
        return kind, x.tobytes()
    if kind is float:  # as text: -0.0 equals 0.0, and NaN nothing
        return kind, x.hex()
    return (kind, x) if kind in _COMPARED or isinstance(x, np.dtype) else (kind, id(x))


_COMPARED = frozenset((int, bool, str, type(None)))


class ProgramTracer(Tracer):
    """A tracer whose every op is recorded, comparisons too. Each conversion to a Python value is recorded as a guard."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return self.owner.guard(self, bool)  # type: ignore[no-any-return]

    def __int__(self) -> int:
        return self.owner.guard(self, int)  # type: ignore[no-any-return]

    def __index__(self) -> int:
        return self.owner.guard(self, operator.index)  # type: ignore[no-any-return]

    def __float__(self) -> float:
        return self.owner.guard(self, float)  # type: ignore[no-any-return]

    def __complex__(self) -> complex:
        return self.owner.guard(self, complex)  # type: ignore[no-any-return]

    def item(self, *index: Any) -> Any:
        """The value as a Python number; a guard."""
        return self.owner.guard(self, operator.methodcaller("item", *index))

    def tolist(self) -> Any:
        """The value as a list; a guard."""
        return self.owner.guard(self, operator.methodcaller("tolist"))

    def __mul__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, (list, tuple, str)) and repeats(self) else super().__mul__(other)  # type: ignore[misc]

    def __str__(self) -> str:
        return self.owner.text(self, super().__str__())  # type: ignore[no-any-return]

    def __format__(self, spec: str) -> str:
        return self.owner.text(self, super().__format__(spec))  # type: ignore[no-any-return]


@functools.lru_cache(256)
def _handles(code: CodeType) -> bool:
    """Whether there is a `try`, or a `with`, in the code."""
    from opcode import opmap

    return (opmap.get("PUSH_EXC_INFO") or opmap["SETUP_FINALLY"]) in code.co_code[::2]  # the latter in Python 3.10


_FAILING = ("linalg.", "gather", "scatter", "operator.truediv", "operator.floordiv", "operator.mod", "operator.pow")


class ProgramTrace(TapeTrace):
    """A run that records every op, with the user's line, and `guards`: the values that Python has seen.

    A guard is `(number of entries before it, slot, how it was read, what was found)`.
    """

    __slots__ = ("frames", "guards")
    kind: ClassVar[type[Tracer]] = ProgramTracer

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.frames, self.guards = Lines(), []
        self.frames.base = sys._getframe(1 + (type(self).__init__ is not ProgramTrace.__init__))  # from a subclass, too

    def close(self) -> None:
        self.frames.done()
        super().close()

    def guard(self, x: Tracer, read: Callable[[Any], Any]) -> Any:
        """`read(value)`, recorded as a guard."""
        found = read(x.below)
        if not self.closed:
            self.guards.append((len(self.entries), x.slot, read, found))
        return found

    def expect(self, x: Tracer) -> bool:
        """The truth of a flag that should be true; a guard."""
        return self.guard(x, bool)  # type: ignore[no-any-return]

    def tried(self, primitive: Primitive) -> bool:
        """Whether an op may raise for some values, under a `try` of the user's: that it did not is then a result, too."""
        if not primitive.name.startswith(_FAILING):
            return False
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame is not self.frames.base:
            if is_user_file[frame.f_code.co_filename] and _handles(frame.f_code):
                return True
            frame = frame.f_back
        return False

    def text(self, x: Tracer, written: str) -> str:
        """The text of a value. An integer's is a guard, as it may be a key, `params[f"w{i}"]`."""
        if not x.shape and x.dtype.kind not in "fc":
            self.guard(x, str)
        return written

    def reveal(self, tracer: Tracer) -> Any:
        """The value, with a guard on all of it."""
        self.guard(tracer, np.array)
        return tracer.below

    def guarded(self, p: Any) -> Any:
        """A parameter with a guard in place of each tracer: parameters are part of the program."""
        if isinstance(p, Tracer):
            return operator.index(p) if not p.shape else self.reveal(p)
        if type(p) is tuple:
            return tuple([self.guarded(q) for q in p])
        if type(p) is slice and any(isinstance(q, Tracer) for q in (p.start, p.stop, p.step)):
            return slice(self.guarded(p.start), self.guarded(p.stop), self.guarded(p.step))
        return p

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        params = self.guarded(params) if params else params
        slots = tuple([a.slot if isinstance(a, Tracer) and a.owner is self else -1 for a in args])
        values = tuple([a.below if i >= 0 else self.constant(a, True) for a, i in zip(args, slots)])
        ans = self.compute(primitive, values, params)  # `allclose` gives Python's bool
        ans = tuple(map(as_numpy, ans)) if primitive.multi else as_numpy(ans)
        return self.record(primitive, slots, values, ans, params)

    def compute(self, primitive: Primitive, values: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """The result of an op."""
        return bind(primitive, values, params)

    def record(self, primitive: Primitive, slots: tuple[int, ...], args: tuple[Any, ...], ans: Any, params: tuple[Any, ...]) -> Any:
        out = super().record(primitive, slots, args, ans, params)
        entry = self.entries[-1]
        if entry[3] is not args and not primitive.multi:  # no rule looks into a constant, but a replay does
            self.entries[-1] = (*entry[:3], tuple([a if i < 0 else x for a, x, i in zip(args, entry[3], slots)]), *entry[4:])
        self.frames.stamp(sys._getframe(1), [e[1] for e in self.entries[len(self.frames) :]])
        return out


def taped(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], what: str = "trace") -> Tape:
    """The tape of a call, to be read. Array and number leaves of the arguments are its inputs."""
    leaves, treedef = tree.called(args, kwargs)
    refuse_tensors(f"{what}({name_of(f)})", leaves, "functrace.draw(f(x)) draws the history of a tensor that requires grad.")
    places = [
        k for k, x in enumerate(leaves) if isinstance(x, (Tracer, np.ndarray, np.generic, float, int, complex)) and not isinstance(x, bool)
    ]

    def run(*inputs: Any) -> list[Any]:
        positional, keywords = tree.unflatten(treedef, replaced(leaves, places, inputs))
        outputs = tree.leaves(f(*positional, **keywords))
        refuse_tensors(f"{what}({name_of(f)})", outputs, "Return x.numpy().")
        return [np.array(x) if isinstance(x, np.ndarray) else x for x in outputs]

    tape = record(run, [as_numpy(leaves[k]) for k in places], f"{what}({made_name(f)})", ProgramTrace)
    names = argument_names(f, args, kwargs)
    tape.names = [names[k] for k in places]
    return tape


def parameters_of(f: Any, count: int) -> list[str]:
    """Names for the first `count` positional arguments of a function."""
    names = [p.name for p in parameters(f) or ()]
    return names + [f"arg{k}" for k in range(len(names), count)]


def argument_names(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """A name for each leaf: the parameter's, and the way to the leaf in it."""
    out = []
    for name, arg in [*zip(parameters_of(f, len(args)), args), *((k, kwargs[k]) for k in sorted(kwargs))]:
        out += [name + path for path in tree.paths(arg)]
    return out


def rows(tape: Tape, which: Sequence[int], names: dict[int, str]) -> Iterator[tuple[str, Any, str, str]]:
    """(name, result, call as text, user's line) for the entries `which` of a tape that are no checks.

    Operands stand by name, constants in full if they are short, parameters as keywords.
    """
    hidden = checks(tape)
    for row in which:
        if row in hidden:
            continue
        primitive, out, slots, args, ans, params = tape.entries[row]
        operands = [names[s] if s >= 0 else constant_text(a) for s, a in zip(slots, args)]
        if primitive.name == "call":
            call = f"{params[0]}({', '.join(operands)})"
        else:
            operands += [name + constant_text(p) for name, p in zip(parameter_names(primitive, len(params)), params)]
            call = f"{primitive.name}({', '.join(operands)})"
        yield names[out], ans, call, line_text(tape, row)


def returned(tape: Tape, names: dict[int, str]) -> str:
    """What a tape returns, by name."""
    return ", ".join(names[s] if s >= 0 else constant_text(x) for s, x in zip(tape.slots, tape.outputs))


def parameter_names(primitive: Primitive, count: int) -> list[str]:
    """`axis=` for each parameter of an op, as its function calls them."""
    if primitive is ITEM:
        return [""]
    names = [p.name for p in parameters(primitive.fun) or ()][primitive.arity or 0 :]
    return [f"{name}=" for name in names[:count]] if primitive.arity and len(names) >= count else [""] * count


def constant_text(x: Any) -> str:
    """A constant or parameter, in full if it is short."""
    x = value(x)
    if isinstance(x, np.ndarray) and 0 < x.size <= FEW:
        return numbers_text(x)
    if isinstance(x, tuple) and all(isinstance(item, _SHORT) for item in x):
        return errors.listed(map(errors.written, x))
    if isinstance(x, _SHORT) or hasattr(x, "function"):
        return errors.written(x)
    return errors.describe(x) if hasattr(x, "dtype") else "..."


FEW = 6  # elements of an array that are shown


def numbers_text(x: Any) -> str:
    """The elements of an array, on a line."""
    return np.array2string(x, precision=4, separator=", ", max_line_width=10**6).replace("\n", "")


_SHORT = (int, float, complex, bool, str, slice, type(None), type(...), np.dtype, np.generic)
