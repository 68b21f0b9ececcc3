"""Recorded bodies: one step of a loop, or one branch, as a flat list of operations that is run without tracing it again.

A body is recorded with tracers of its own. What it uses of outer traces (a matrix of weights in a closure) shows in the
recording, and becomes an argument: so a loop is one operation of its arguments, whatever its body closes over. A body that looks
at a number, or may catch an error, can't be recorded once for all steps; its recording says so, by `looked`. An `if` can be, by
recording both of its ways. What should hold (that a gradient is finite) is hoped for: a flag among the results tells whether it did,
and if not, all is done again without hope.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import numpy as np

from functrace import edge, tree
from functrace.core.batch import batched
from functrace.core.forward import pushforward
from functrace.core.primitive import Aval, Primitive, bind
from functrace.core.reverse import pullback
from functrace.core.tape import ITEM, TapeTrace, record
from functrace.core.tracer import BatchTracer, Tracer, bare, levels
from functrace.locks import COPY
from functrace.ops.create import as_numpy
from functrace.ops.inplace import become
from functrace.pool import owned
from functrace.transforms.arguments import or_zeros
from functrace.transforms.closures import closed_over, same
from functrace.transforms.masks import met
from functrace.transforms.tracing import ProgramTrace, ProgramTracer, identity

hopeful: ContextVar[bool] = ContextVar("hopeful", default=True)
by_python: ContextVar[bool] = ContextVar("by_python", default=False)  # set by the debugger: steps and branches one by one
P = ParamSpec("P")
R = TypeVar("R")
Instruction = tuple[Primitive, int, tuple[int, ...], tuple[Any, ...]]


def example(x: Any) -> Any:
    """A plain value to record a body with: what is behind a traced value; of a batch, the first example."""
    whole, batches = bare(x), sum(isinstance(level, BatchTracer) for level in levels(x))
    if not batches:
        return whole
    return whole[(0,) * batches] if 0 not in whole.shape[:batches] else np.zeros(x.shape, x.dtype)[()]


NUMBERS = (bool, int, float, complex)  # Python's
_KINDS = dict(zip("ifc", NUMBERS[1:]))  # by the kind of dtype that NumPy makes of them
_ARITHMETIC = frozenset(
    "add subtract multiply divide floor_divide remainder power square negative positive absolute".split()
)  # Python's, too


def number(x: Any) -> type | None:
    """The type of the Python number that a value is, or stands for: it takes the dtype of the arrays that it meets."""
    if isinstance(x, Tracer):
        return x.owner.weak.get(x.slot) if isinstance(x.owner, Recorder) else number(x.below) if isinstance(x, ProgramTracer) else None
    return type(x) if type(x) in NUMBERS else None


class Fork(BaseException):
    """Leaves a body at an `if` that may go another way in another step; no `except` hides it."""


class Recorder(ProgramTrace):
    """A run of a body. Constants are kept safe from later writes: the program may be run again in the reverse replay.

    `weak` has the slots of values that stand for Python's numbers, and the types of those. `ways` are the answers to the first `if`s
    of the body, None if any is as the example has it; `fork` is the value of which the next one asks. `hopes` are values that should
    be true, None if they are asked for; `derives` says that there was one, which is so where derivatives are taken.
    """

    __slots__ = ("asked", "derives", "fork", "hopes", "ways", "weak")

    def __init__(self, what: str, ways: Sequence[bool] | None = None, hopes: list[Tracer] | None = None) -> None:
        super().__init__(what)
        self.hopes, self.derives = hopes, False
        self.weak: dict[int, type] = {}
        self.ways, self.asked = ways, 0
        self.fork: Tracer | None = None

    def guard(self, x: Tracer, read: Callable[[Any], Any]) -> Any:
        """A guard; or, of an `if` whose branches are both recorded, the answer of this one."""
        if self.ways is None or read is not bool or x.shape or self.closed:
            return super().guard(x, read)
        if self.asked == len(self.ways):
            self.fork = x if self.fork is None else self.fork
            raise Fork
        self.asked += 1
        return self.ways[self.asked - 1]

    def close(self) -> None:
        super().close()
        self.fork = self.hopes = None  # values of its own

    def expect(self, x: Tracer) -> bool:
        """True, where it is for the example: the flag joins the `hopes`, looked at later."""
        self.derives = True
        if self.hopes is None or self.closed or not x.below:
            return super().expect(x)
        self.hopes.append(x)
        return True

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Python numbers are weak: beside arrays they take their dtype, among themselves they give a number."""
        kinds = [None if kind is bool else kind for kind in map(number, args)]
        apart = int(primitive.name == "where")  # the condition
        fun: Any = np.add if apart else primitive.fun
        if not any(kind and isinstance(a, Tracer) for kind, a in zip(kinds, args)) or not isinstance(fun, np.ufunc):
            return super().process(primitive, args, params)
        operands = [kind or as_numpy(a).dtype for kind, a in zip(kinds, args)][apart:]
        dtypes = [np.dtype(bool)] * apart + list(fun.resolve_dtypes((*operands, *[None] * fun.nout)))
        strong: list[Any] = [a.strong() if isinstance(a, Tracer) and k and d.kind in "fc" else None for a, k, d in zip(args, kinds, dtypes)]
        args = tuple([a if x is None else x if x.dtype == d else x.astype(d) for a, x, d in zip(args, strong, dtypes)])
        out = super().process(primitive, args, params)
        if all(kinds) and primitive.name in _ARITHMETIC and out.dtype.kind in _KINDS:
            self.weak[out.slot] = _KINDS[out.dtype.kind]
        return out

    def compute(self, primitive: Primitive, values: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """An example of the result. An error that the body may catch, in this step or another, is something that it looks at."""
        if self.tried(primitive):
            self.guards.append((len(self.entries), -1, bool, None))
        values = tuple([example(v) for v in values])
        return tuple(tree.leaves(params[0].sample(values))) if primitive.name == "call" else bind(primitive, values, params)

    def constant(self, x: Any, needed: bool, copy: int = COPY) -> Any:
        return TapeTrace.constant(self, x, True, copy)

    def reveal(self, tracer: Tracer) -> Any:
        self.guards.append((len(self.entries), tracer.slot, bool, None))
        return tracer.below

    def record(self, primitive: Primitive, slots: tuple[int, ...], args: tuple[Any, ...], ans: Any, params: tuple[Any, ...]) -> Any:
        slot = self.next_slot()
        self.append((primitive, slot, slots, args, ans, params))
        return self.items(slot, ans) if primitive.multi else self.tracer(ans, slot)


class Body:
    """Instructions over numbered places. `inputs` and `outputs` are places; `template` has the constants at theirs.

    `avals` describes what each place held while it was recorded; `items` gives the places of the results of an instruction that
    has several. A body that `hopes` has a flag as its last output.
    """

    def __init__(self, trace: Recorder, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self.size = size = trace.next_slot()  # places from here on are of constants, and of what comes from outside
        self.looked, self.locks, self.what = bool(trace.guards), trace.locks, trace.what
        calls = [row[5][0] for row in trace.entries if row[0].name == "call"]
        self.hopes, self.derives = bool(trace.hopes), trace.derives or any(b.program.derives for call in calls for b in call.bodies())
        self.template: list[Any] = [None] * size
        self.avals: dict[int, Any] = {k: Aval(x) for k, x in enumerate(inputs)}
        self.items: dict[int, list[int]] = {}
        self.fork: bool | None = None  # of a program that ends at an `if`: what the example has, and has at each place
        self.samples: dict[int, Any] = {}
        self.lifted: list[Any] = []  # values of outer traces, which became the first inputs
        places: dict[Any, int] = {}
        constants: dict[Any, int] = {}

        def place(x: Any) -> int:
            traced = isinstance(x, Tracer)
            key = (x.owner.id, x.slot if x.slot >= 0 else id(x.below)) if traced else identity(x)
            known = places if traced else constants
            if key in known:
                return known[key]
            self.template.append(None if traced else x)
            known[key] = at = len(self.template) - 1
            self.avals[at] = Aval(x) if hasattr(x, "shape") else None
            if traced:
                x.owner.check_open(x)
                self.lifted.append(x)
            return at

        code: list[Instruction] = []
        done: dict[Any, int] = {}  # what was computed, and its place
        twins: dict[int, int] = {}  # the place of what was computed again, as `y[0]` is in the rules of each step
        self.looked = self.looked or any(isinstance(p, Tracer) for row in trace.entries for p in row[5])
        for primitive, out, slots, args, ans, params in trace.entries:
            ins = tuple([twins.get(s, s) if s >= 0 else place(a) for s, a in zip(slots, args)])
            if not primitive.multi and (first := done.setdefault((primitive, ins, identity(params)), out)) != out:
                twins[out] = first
                continue
            if primitive is ITEM:
                self.items.setdefault(slots[0], []).append(out)
            code.append((primitive, out, ins, params))
            if not primitive.multi:
                self.avals[out] = Aval(ans) if hasattr(ans, "shape") else None
        self.outputs = [twins.get(x.slot, x.slot) if isinstance(x, Tracer) and x.owner is trace else place(x) for x in outputs]
        self.inputs = [*places.values(), *range(len(inputs))]
        self.code = self._live(code)
        if trace.fork is not None:  # what follows the `if` may need more
            self.code, self.fork, self.samples = code, bool(trace.fork.below), {row[1]: row[4] for row in trace.entries}

    def _live(self, code: list[Instruction]) -> list[Instruction]:
        live = set(self.outputs)
        for _, out, ins, _ in reversed(code):
            if out in live:
                live.update(ins)
        return [row for row in code if row[1] in live or row[0] is ITEM and row[2][0] in live]

    def derived(self, **changes: Any) -> Body:
        """The program with other `inputs`, `outputs` or `code`."""
        new = object.__new__(Body)
        new.__dict__.update(self.__dict__)
        new.__dict__.update(changes)
        new.code = new._live(new.code)
        return new

    def read(self) -> set[int]:
        """The places that an instruction takes something from, or an output."""
        return {k for _, _, ins, _ in self.code for k in ins}.union(self.outputs)

    def environment(self, inputs: Sequence[Any]) -> list[Any]:
        """The places, those of the constants and inputs filled."""
        env = self.template.copy()
        for i, x in zip(self.inputs, inputs):
            env[i] = x
        return env

    def call(self, *inputs: Any) -> list[Any]:
        """The results for inputs that may be traced."""
        env = self.environment(inputs)
        run(self.code, env)
        return [env[i] for i in self.outputs]

    def stepper(self) -> Callable[[list[Any]], None]:
        """A function that runs one step on plain arrays: it fills the places of an `environment`."""
        rows: list[tuple[Any, ...]] = [
            (len(ins) if not params else 0, p.fun, out, *(*ins, 0, 0)[:2], ins, params) for p, out, ins, params in self.code
        ]

        def step(env: list[Any]) -> None:
            for count, fun, out, i, j, ins, params in rows:
                if count == 2:
                    env[out] = fun(env[i], env[j])
                elif count == 1:
                    env[out] = fun(env[i])
                else:
                    env[out] = fun(*[env[k] for k in ins], *params)

        return step

    def alike(self, other: Body) -> bool:
        """Whether this is the same program, with the same constants; what it closes over is given to it, and compared where that is."""
        return (
            [row[:3] for row in self.code] == [row[:3] for row in other.code]
            and self.inputs == other.inputs
            and self.outputs == other.outputs
            and same([row[3] for row in self.code], [row[3] for row in other.code])
            and same(self.template, other.template)
        )


def numbered(name: str, count: int) -> list[str]:
    """A name for each of several."""
    return [name] if count == 1 else [f"{name}[{k}]" for k in range(count)]


def run(code: Sequence[Instruction], env: list[Any]) -> None:
    """Run instructions on values that may be traced."""
    for primitive, out, ins, params in code:
        env[out] = bind(primitive, tuple([env[i] for i in ins]), params)


def recorded(
    fun: Callable[[list[Any]], Sequence[Any]],
    inputs: Sequence[Any],
    what: str,
    numbers: Sequence[type | None] = (),
    reads: Sequence[Any] = (),
    ways: Sequence[bool] | None = None,
    flag: bool = False,
) -> Body:
    """The program of `fun`, which maps a list to a list; `inputs` are arrays, or tracers of outer traces as examples of them.

    `numbers` are the types of those that stand for Python's numbers. What the functions in `reads` close over stays as it was; if it
    did not by itself, the program is one that `looked`. `ways` answers the first `if`s; at one more, recording stops and the program
    computes its condition (`fork`: the example's answer). With `flag` the last output says whether what was hoped for held.
    """
    hopes: list[Tracer] = []
    trace, closed = Recorder(what, ways, hopes if flag and hopeful.get() else None), closed_over(reads)
    with as_they_were(closed) as old:
        try:
            inputs = [example(x.strong()) if isinstance(x, Tracer) else x for x in inputs]
            inputs = [as_numpy(x) for x in inputs]
            tracers = [ProgramTracer(x, trace, trace.next_slot(), None, 0) for x in inputs]
            trace.weak = {x.slot: kind for x, kind in zip(tracers, numbers) if kind is not None}
            try:
                outputs = edge.raising_ours(fun, [tracers])
                outputs = [*outputs, _all(hopes)] if flag else outputs
            except (Fork, Exception):
                if trace.fork is None:
                    raise
            program = Body(trace, inputs, outputs if trace.fork is None else [trace.fork])
        finally:
            trace.close()
        program.looked = program.looked or any(x.below is not y.below or x.slot != y.slot for x, y in zip(closed, old))
    return program


def _all(hopes: Sequence[Any]) -> Any:
    return functools.reduce(lambda a, b: a & b, hopes) if hopes else np.True_


def flagged(programs: Sequence[Body]) -> bool:
    """Whether any program hopes; if none does, their flags are dropped."""
    hopes = any(body.hopes for body in programs)
    for body in programs:
        body.hopes = hopes
        body.outputs = body.outputs[: len(body.outputs) - (not hopes)]
    return hopes


class _Unmet(Exception):
    """A flag that a body hopes to be true was false in some step or branch."""


def unflagged(body: Body, out: list[Any]) -> list[Any]:
    """The results of an operation without the flag of its bodies, which must hold."""
    if body.hopes and not met(out[-1]):
        raise _Unmet
    return out[: len(out) - body.hopes]


def quietly(*bodies: Body) -> AbstractContextManager[None]:
    """Derivatives may divide by zero, and do so without a warning, in a body as elsewhere."""
    return np.errstate(divide="ignore", invalid="ignore") if any(body.derives for body in bodies) else nullcontext()


def hoping(fun: Callable[P, R]) -> Callable[P, R]:
    """A function that is run again without `hopeful` where a flag of its bodies turned out false."""

    @functools.wraps(fun)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return fun(*args, **kwargs)
        except _Unmet:
            token = hopeful.set(False)
            try:
                return fun(*args, **kwargs)
            finally:
                hopeful.reset(token)

    return run


@contextmanager
def as_they_were(handles: Sequence[Tracer]) -> Iterator[list[Tracer]]:
    """A context at whose end handles stand for what they did before, which is given."""
    old = [x.kept() for x in handles]
    try:
        yield old
    finally:
        for x, kept in zip(handles, old):
            become(x, kept)


def varies(xs: Sequence[Any]) -> bool:
    """Whether any value differs between the examples of a batch, or between the runs of a program: else Python decides faster."""
    several: Any = lambda x: isinstance(x, BatchTracer) or isinstance(x, ProgramTracer) and getattr(x.owner, "ways", ()) is not None
    return any(several(level) for x in xs for level in levels(x))


MANY = 512  # steps of a loop on plain arrays from which on it is compiled, which takes the time of one or two hundred
COMPILERS: dict[str, Callable[[Any], Any]] = {}  # for each kind of loop, by its name; from above


def compiled(call: Any, inputs: list[Any], leaves: Sequence[Any]) -> list[Any]:
    """The results of a loop as a program, none of which is one of its constants or of the arguments."""
    run = COMPILERS[call.what](call)
    return owned(run(inputs), (*leaves, *run.program.consts))


def settled(leaves: Sequence[Any]) -> list[Any]:
    """Plain leaves for a loop: small operations need no pool, and compiled programs may hand out Python's numbers."""
    return [x if type(x) is np.ndarray else x.view(np.ndarray) if isinstance(x, np.ndarray) else as_numpy(x) for x in leaves]


def mapped(f: Callable[..., Sequence[Any]], xs: Sequence[Any], flags: Sequence[bool], size: int, what: str) -> list[Any]:
    """The results of a flat function for a batch, all with the batch as axis 0, as have those arguments that are flagged."""
    return [y for y, _ in batched(f, xs, flags, size, what)]


def pulled(f: Callable[..., Sequence[Any]], inputs: Sequence[Any], gs: Sequence[Any]) -> list[Any]:
    """Cotangents of the inputs of a flat function. Unlike `vjp` it does not look at them."""
    return [or_zeros(d, x) for d, x in zip(pullback(record(f, inputs, "a body"), gs), inputs)]


def pushed(f: Callable[..., Sequence[Any]], inputs: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
    """Tangents of the results of a flat function, as `pulled`."""
    tape = record(f, inputs, "a body")
    return [or_zeros(d, y) for d, y in zip(pushforward(tape, ts), tape.outputs)]
