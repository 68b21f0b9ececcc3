"""Capture: run a function once, on concrete values, and keep the program of what it did."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from typing import Any

import numpy as np

import functrace.ops.methods  # noqa: F401  # attaches the operators that are looked up here
from functrace import edge, errors, tree
from functrace.compile.bindings import Watched
from functrace.compile.program import GUARD, NOTHING, Instruction, Program, kind_of, same
from functrace.core.primitive import Primitive, bind
from functrace.core.tape import ITEM
from functrace.core.tracer import Tracer
from functrace.locks import writeable
from functrace.operands import unwrapped
from functrace.ops.create import as_numpy
from functrace.places import user_place
from functrace.pool import recycled
from functrace.transforms.tracing import ProgramTrace, ProgramTracer

# Operations whose results have shapes, or dtypes, that depend on values.
DYNAMIC = frozenset("nonzero flatnonzero argwhere unique intersect1d histogram linalg.eig".split())


def form(x: Any) -> tuple[Any, ...]:
    """The shape and dtype of a value."""
    return np.shape(x), x.dtype.str


def order(x: Any) -> tuple[Any, ...]:
    """The memory layout of an array, as far as results of operations inherit it."""
    return x.flags.c_contiguous, x.flags.f_contiguous, tuple(sorted(range(x.ndim), key=lambda k: -abs(x.strides[k])))


_READS: dict[str, Any] = {f.__name__: f for f in (bool, int, float, complex, operator.index, form, np.array, type, str, round)}
_METHODS = ("item", "tolist")


def read_word(read: Any) -> Any:
    """How a guard reads a value, by name; a method with its arguments as a list. None for what has no name."""
    if isinstance(read, operator.methodcaller):
        method = list(read.__reduce__()[1])
        return method if method[0] in _METHODS else None
    return next((w for w, f in _READS.items() if f is read), None)


def reader(word: Any) -> Any:
    """How a guard reads a value, from the word that `read_word` gave it."""
    if isinstance(word, str):
        return _READS[word]
    if word[0] not in _METHODS or not all(type(k) is int for k in word[1:]):
        raise errors.UnsupportedError(f"load: the file reads a value by {word!r}, which is none of {', '.join([*_READS, *_METHODS])}")
    return operator.methodcaller(*word)


class NumberTracer(ProgramTracer):
    """A tracer for a Python number, which is weak: it takes the dtype of the arrays that it meets, and Python's own arithmetic
    with other numbers.
    """

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """That of a number."""
        return ()

    @property
    def dtype(self) -> Any:
        """What NumPy makes of the number."""
        kind = kind_of(self.below)
        assert kind is not None
        return kind.dtype

    def strong(self) -> Tracer:
        """The number as a NumPy scalar."""
        return self.owner.process(_STRONG, (self,), ())  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"Traced({self.below!r})"


NUMBERS = (int, float, complex, bool)
PYTHON: dict[str, Primitive] = {}  # Python's own arithmetic, and what makes NumPy's numbers of its, by name


def _python(name: str, arity: int, function: Callable[..., Any] | None = None) -> Primitive:
    fun = function or getattr(operator, f"__{name}__")
    primitive = Primitive(f"operator.{name}", fun, arity=arity, constant=True, batch=lambda _n, _f, args, _p: fun(*args))
    return PYTHON.setdefault(primitive.name, primitive)


def _operator(name: str, reflected: bool = False) -> Callable[..., Any]:
    primitive = _python(name, 2)
    above = getattr(ProgramTracer, f"__{'r' if reflected else ''}{name}__", None)

    def method(self: Any, other: Any) -> Any:
        if type(other) in NUMBERS or type(other) is NumberTracer and other.owner is self.owner:
            args = (other, self) if reflected else (self, other)
            return self.owner.process(primitive, args, ())
        return above(self, other) if above is not None else NotImplemented

    return method


def _unary(name: str, function: Callable[..., Any] | None = None) -> Callable[..., Any]:
    primitive = _python(name, 1, function)
    return lambda self: self.owner.process(primitive, (self,), ())


def _round(self: NumberTracer, digits: Any = None) -> Any:
    return self.owner.guard(self, round) if digits is None else self.owner.process(_ROUND, (self, digits), ())


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "or", "xor"):
    setattr(NumberTracer, f"__{_name}__", _operator(_name))
    setattr(NumberTracer, f"__r{_name}__", _operator(_name, True))
    setattr(NumberTracer, f"__i{_name}__", _operator(_name))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(NumberTracer, f"__{_name}__", _operator(_name))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(NumberTracer, f"__{_name}__", _unary(_name))
for _name, _part in {"real": np.real, "imag": np.imag}.items():
    setattr(NumberTracer, _name, property(_unary(_name, _part)))
_ROUND = _python("round", 2, round)
for _name, _method in {
    "__copy__": lambda self: self,
    "__deepcopy__": lambda self, memo: self,
    "__round__": _round,
    "conjugate": _unary("conjugate", operator.methodcaller("conjugate")),
    "__divmod__": lambda self, other: (self // other, self % other),
    "__rdivmod__": lambda self, other: (other // self, other % self),
}.items():
    setattr(NumberTracer, _name, _method)
_STRONG = PYTHON.setdefault("strong", Primitive("strong", as_numpy, arity=1, constant=True, batch=lambda *_: None))

_WEAK = frozenset((*PYTHON, "where", "stop_gradient"))  # what takes Python's numbers as they are, as ufuncs do
_INLINED = frozenset(("custom_vjp", "custom_jvp", "checkpoint", "jit"))  # calls whose operations join the program


class Capture(ProgramTrace):
    """The trace of a run that becomes a `Program`: it appends instructions, and keeps no value longer than the function does."""

    __slots__ = tuple("asked caught context foreign handling modes numbers orders program sources told".split())

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.program = Program(0)
        self.numbers: dict[Any, tuple[int, Any]] = {}  # of constants
        self.sources: list[Any] = []  # arrays that a constant was copied from, or is, and that could be written to
        self.asked: list[Any] = []  # the user's line of each guard
        self.orders: dict[int, Any] = {}  # of the arguments with several axes, until it is asked how a value lies
        self.foreign = False  # whether a tracer of another run was used, for which a replay has no value
        self.caught: str | None = None  # an error, which other values would not have raised
        self.told: list[str] = []  # values that became text, without a guard
        self.context, self.modes = copy_context(), dict[str, Any](np.geterr())
        self.handling: dict[str, Any] = {}  # of floating-point errors, where `np.errstate` sets it

    def tracer(self, x: Any, slot: int) -> Tracer:
        """A tracer of this trace; where it was made is not kept."""
        cls = NumberTracer if type(x) in NUMBERS else ProgramTracer
        return cls(x, self, slot, None, 0)

    def input(self, x: Any) -> Tracer:
        """A tracer for an argument."""
        slot = self.next_slot()
        self.program.kinds[slot] = kind_of(x)
        if isinstance(x, np.ndarray) and x.ndim > 1:
            self.orders[slot] = order(x)
        return self.tracer(recycled(x), slot)

    def lies(self) -> None:
        """Add guards on how the arguments lie in memory: the run has asked it of a value."""
        for slot, found in self.orders.items():
            self.ask(slot, order, found)
        self.orders = {}

    def ask(self, slot: int, read: Callable[[Any], Any], found: Any) -> None:
        """Append a guard."""
        self.program.instructions.append(Instruction(GUARD, NOTHING, (slot,), (read, found, len(self.asked))))
        self.asked.append(user_place(1))

    def guard(self, x: Tracer, read: Callable[[Any], Any]) -> Any:
        """`read` of the value of a tracer, as an instruction of the program."""
        found = self.attempt(read, x.below)
        if not self.closed:
            self.ask(x.slot, read, found)
        return found

    def attempt(self, function: Callable[..., Any], *args: Any) -> Any:
        """`function(*args)`; an error that the user's function may catch is noted in `caught`."""
        try:
            return function(*args)
        except Exception as error:
            self.caught = self.caught if isinstance(error, TypeError) else repr(error)
            raise

    def text(self, x: Tracer, written: str) -> str:
        """The text of a value; those of arrays and fractions are collected in `told`."""
        if x.shape or x.dtype.kind in "fc":
            self.told.append(written)
        return super().text(x, written)

    def number(self, x: Any) -> int:
        """The number of a constant. What could be written to is copied, or locked as long as the function runs."""
        if isinstance(x, np.ndarray):
            old = self.numbers.get(id(x))
            if old is not None and (old[1] is x or same(old[1], x)):
                return old[0]
            kept = x
            if x.size > 1 and x.strides == (0,) * x.ndim:  # one number, as far as the eye can see
                kept = np.broadcast_to(np.array(x[(0,) * x.ndim]), x.shape)
            elif writeable(x):
                self.sources.append(x)
                kept = self.constant(x if type(x) is np.ndarray else x.view(np.ndarray), True)
        else:
            key = (type(x), repr(x)) if isinstance(x, (*NUMBERS, np.generic)) else id(x)
            old = self.numbers.get(key)
            if old is not None:
                return old[0]
            kept = x
        k = self.program.const(kept)
        self.numbers[id(x) if isinstance(x, np.ndarray) else key] = (k, kept)
        return k

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        if self.closed:  # what bind sees of arrays, Python's own arithmetic does not ask
            self.check_open(next(a for a in args if isinstance(a, Tracer)))
        refs, values = [], []
        for a in args:
            if isinstance(a, Tracer) and a.owner is self:
                if type(a) is NumberTracer and not (isinstance(primitive.fun, np.ufunc) or primitive.name in _WEAK):
                    a = a.strong()
                refs.append(a.slot)
                values.append(a.below)
                continue
            a = self.constant(a, False) if isinstance(a, Tracer) else unwrapped(a)
            self.foreign |= isinstance(a, Tracer)
            refs.append(self.number(a))
            values.append(a)
        if params:
            params = self.guarded(params)
        return self.enter(primitive, tuple(refs), self.attempt(bind, primitive, tuple(values), params), params)

    def record(self, primitive: Primitive, slots: tuple[int, ...], args: tuple[Any, ...], ans: Any, params: tuple[Any, ...]) -> Any:
        if primitive.name == "call" and params[0].what in _INLINED:
            leaves = [self.tracer(a, s) if s >= 0 else a for s, a in zip(slots, args)]
            return tuple(tree.leaves(params[0].evaluate(leaves)))
        refs = tuple([s if s >= 0 else self.number(a) for s, a in zip(slots, args)])
        return self.enter(primitive, refs, ans, params)

    def enter(self, primitive: Primitive, refs: tuple[int, ...], ans: Any, params: tuple[Any, ...]) -> Any:
        """Append an instruction, and give the tracer of its result."""
        if (context := copy_context()) != self.context:  # of which NumPy's error state is a part
            self.context = context
            self.handling |= {k: v for k, v in np.geterr().items() if v != self.modes[k]}
        slot, watched = self.next_slot(), primitive.name in DYNAMIC or self.tried(primitive)
        kinds, instructions = self.program.kinds, self.program.instructions
        instructions.append(Instruction(primitive, slot, refs, params))
        if not primitive.multi:
            kinds[slot] = kind_of(ans)
            out = self.tracer(recycled(ans), slot)
            if watched or primitive.name == "operator.pow":  # of integers: an int or a float
                self.guard(out, form if hasattr(ans, "dtype") else type)
            return out
        kinds[slot] = None
        results = []
        for k, x in enumerate(ans):
            item = self.next_slot()
            instructions.append(Instruction(ITEM, item, (slot,), (k,)))
            kinds[item] = kind_of(x)
            results.append(self.tracer(x, item))
            if watched:
                self.guard(results[-1], form)
        return tuple(results)

    def close(self) -> None:
        super().close()
        self.program, self.numbers, self.sources = Program(0), {}, []


class Captured:
    """The outcome of `capture`: results; the program, None if it can't be replayed; the arrays of constants; the error state that was
    set; the texts of values; and the user's line of each guard.
    """

    __slots__ = ("asked", "handling", "outputs", "program", "sources", "told")

    def __init__(self, outputs: list[Any], program: Program | None, trace: Capture) -> None:
        self.outputs, self.program, self.sources, self.handling, self.told = outputs, program, trace.sources, trace.handling, trace.told
        self.asked = trace.asked

    def unfit(self, times: int, contents: Sequence[Watched], orders: Iterable[Iterable[Any]]) -> str | None:
        """Why the program, of the last of several runs, with these keys of dicts in its results, can't be replayed."""
        if any(mode != "ignore" for mode in self.handling.values()):
            return f"it sets np.errstate to {self.handling}"
        if times > 2:  # an array of floats that Python looked at as a whole: a guard that seldom holds twice
            guards = (i.params[1] for i in (self.program.instructions if self.program else ()) if i.primitive is GUARD)
            seen = next((x for x in guards if isinstance(x, np.ndarray) and x.dtype.kind in "fc" and x.size > 1), None)
            if seen is not None:
                return f"it looks at all the numbers of {errors.describe(seen)}, which are others in each call"
        texts = [text for text in self.told if not text.isalnum()]  # `2` may be in a name by itself
        written = next((key for order in orders for key in order if isinstance(key, str) and any(text in key for text in texts)), None)
        if written is not None:
            return f"it returns the key {written!r}, into which a traced value was written"
        return "it writes to an array that it was not passed" if any(w.changed() for w in contents) else None


def capture(fun: Callable[..., Sequence[Any]], inputs: Sequence[Any], what: str, names: Sequence[str] = ()) -> Captured:
    """Run `fun` on tracers for `inputs`; it returns a flat sequence of results."""
    trace = Capture(what)
    try:
        outputs = [trace.constant(x, False) for x in edge.raising_ours(fun, [trace.input(x) for x in inputs], trace.locks)]
        for x in outputs:
            if isinstance(x, Tracer):
                x.owner.check_open(x)
        if trace.caught is not None:
            raise errors.UnsupportedError(f"{what} catches {trace.caught}")
        mine = [isinstance(x, Tracer) and x.owner is trace for x in outputs]
        if trace.told and (written := next((x for x in outputs if isinstance(x, str)), None)) is not None:
            raise errors.UnsupportedError(f"{what} returns the text {written[:40]!r}, into which a traced value was written")
        foreign = trace.foreign or any(isinstance(x, Tracer) and not m for x, m in zip(outputs, mine))
        slots = [x.slot if m else trace.number(x) for x, m in zip(outputs, mine)]
        run = trace.program
        program = None if foreign else Program(len(inputs), run.instructions, slots, run.consts, run.kinds, names)
        results = [x.below if m else np.array(x) if isinstance(x, np.ndarray) else x for x, m in zip(outputs, mine)]
        return Captured(results, program, trace)
    finally:
        trace.close()
