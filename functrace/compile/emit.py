"""Code generation: a program as the source of one flat Python function, compiled once.

Every value is a local variable, of which there are as many as values live at a time. Results of ufuncs are written to buffers that
the program keeps between calls, planned by liveness; what the caller gets is never one of them. Each call in progress has a set of
buffers of its own, so a program may run in many threads at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.compile.blocks import Loop
from functrace.compile.fuse import Group, fuse
from functrace.compile.merge import WRITES
from functrace.compile.optimise import optimise
from functrace.compile.passes import is_elementwise
from functrace.compile.program import ARRAY, GUARD, NUMBER, SCALAR, Instruction, Kind, Program, kind_of
from functrace.compile.source import KEYWORD, REDUCE, Source, targets
from functrace.core.tape import ITEM
from functrace.ops.index import is_basic
from functrace.transforms.control_loops import ScanCall

# What may be a view of its argument, and what surely is not; of the rest it is assumed that it may.
VIEWS = frozenset(("reshape", "transpose", "broadcast_to", "getitem", "real", "imag", "diagonals", "mirror", "stop_gradient"))
FRESH = frozenset(
    "sum max min prod cumsum where astype astype_constant concatenate stack index_set index_add gather scatter matmul any all argmax "
    "sum_of_parts sum_of_products placed taken argmin argsort contraction take_along add_along logaddexp_weight strong isclose".split()
)
# Whose results are arrays of nobody else, which may be written to.
OWN = frozenset((*WRITES, "placed", "taken", "where", "matmul", "concatenate", "stack", "cumsum", "sum_of_parts", "sum_of_products"))
KEPT = 1 << 28  # bytes of buffers that a program keeps between calls
_OPERATORS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}


def roots(steps: Sequence[Instruction | Group], kinds: dict[int, Kind | None]) -> dict[int, tuple[int, ...]]:
    """For each value the values whose memory it may share."""
    out: dict[int, tuple[int, ...]] = {}
    for step in steps:
        for i in step.instructions if isinstance(step, Group) else (step,):
            if i.primitive is GUARD:
                continue
            fun = i.primitive.fun
            kind = kinds[i.out]
            number = kind is not None and kind.form != ARRAY
            read = i.primitive.name == "getitem" and not is_basic(i.params[0])
            if number or read or isinstance(fun, np.ufunc) or i.primitive.name in FRESH:
                out[i.out] = (i.out,)
            else:
                args = i.args[:1] if i.primitive.name in VIEWS else i.args
                out[i.out] = tuple(dict.fromkeys(r for a in args for r in out.get(a, (a,)))) or (i.out,)
                if i.primitive.name not in VIEWS and i.primitive is not ITEM:
                    out[i.out] = (*out[i.out], i.out)
    return out


class _Plan:
    """Who reads what for the last time where, and which buffers there are."""

    def __init__(self, program: Program, steps: Sequence[Instruction | Group]) -> None:
        self.kinds = program.kinds
        self.roots = roots(steps, program.kinds)
        self.last: dict[int, int] = {}  # of each root, by way of all that shares its memory
        self.reads: dict[int, int] = {}  # of each value itself
        for index, step in enumerate(steps):
            for i in step.instructions if isinstance(step, Group) else (step,):
                for a in i.args:
                    self.reads[a] = index
                    for r in self.roots.get(a, (a,)):
                        self.last[r] = index
        self.out: set[int] = set()
        for v in program.outputs:
            self.reads[v] = len(steps)
            for r in self.roots.get(v, (v,)):
                self.last[r] = len(steps)
                self.out.add(r)
        self.buffers: list[tuple[tuple[int, ...], Any]] = []
        self.free: dict[Any, list[int]] = {}
        self.owner: dict[int, int] = {}
        self.ends: dict[int, list[int]] = {}  # step -> roots that end there
        for r, index in self.last.items():
            self.ends.setdefault(index, []).append(r)

    def release(self, index: int) -> None:
        """Give back the buffers that nothing reads after this step."""
        for r in self.ends.get(index, ()):
            b = self.owner.pop(r, None)
            if b is not None:
                self.free.setdefault(self.buffers[b], []).append(b)

    def take(self, v: int) -> str:
        """The name of a buffer for a value."""
        kind = self.kinds[v]
        assert kind is not None
        return f"B{self.number(kind.shape, kind.dtype, v)}"

    def number(self, shape: tuple[int, ...], dtype: Any, v: int) -> int:
        """A buffer of a shape and dtype, kept until `v` ends."""
        free = self.free.get((shape, dtype))
        if free:
            b = free.pop()
        else:
            b = len(self.buffers)
            self.buffers.append((shape, dtype))
        self.owner[v] = b
        return b


class Executable:
    """A program that runs: `executable(inputs)` gives the outputs, which belong to the caller."""

    def __init__(self, program: Program, what: str = "a program", donated: Sequence[int] = ()) -> None:
        self.program = program
        self.donated = list(donated)  # inputs that results may be written to, not yet taken
        self.overwritten: list[int] = []  # those taken
        self.steps = fuse(program)
        self.plan = _Plan(program, self.steps)
        self.source = Source()
        self.loops: list[str] = []
        self.items: dict[int, set[int]] = {}  # which results of several are asked for
        self.own: set[int] = set()  # arrays that were made for nobody else
        for i in program.instructions:
            if (is_elementwise(i.primitive) or i.primitive.name in OWN) and program.is_array(i.out):
                self.own.add(i.out)
            if i.primitive is ITEM:
                self.items.setdefault(i.args[0], set()).add(i.params[0])
        body = self._body()
        self.text, self.function = self._define(body, what)
        self.sets: list[list[Any]] = []
        self.bytes = sum(Kind(shape, dtype).nbytes for shape, dtype in self.plan.buffers)

    def _define(self, body: list[str], what: str) -> tuple[str, Callable[..., Any]]:
        """The source, and the function that it defines."""
        program = self.program
        head = ["def program(inputs, buffers):", f"    {targets([f'x{k}' for k in range(program.ninputs)])} = inputs"]
        if self.plan.buffers:
            head.append(f"    {targets([f'B{k}' for k in range(len(self.plan.buffers))])} = buffers")
        self.source.lines = [*self.loops, *(head if program.ninputs else head[:1] + head[2:]), *body]
        return "\n".join(self.source.lines), self.source.compile(what)["program"]

    def __call__(self, inputs: list[Any]) -> list[Any]:
        try:  # a set that no other call in progress uses
            buffers = self.sets.pop()
        except IndexError:
            buffers = [np.empty(shape, dtype) for shape, dtype in self.plan.buffers]
        try:
            return self.function(inputs, buffers)  # type: ignore[no-any-return]
        finally:
            if self.bytes <= KEPT:
                self.sets.append(buffers)

    def show(self) -> str:
        """The source."""
        return self.text

    def _body(self) -> list[str]:
        lines: list[str] = []
        plan, program = self.plan, self.program
        self.variable: dict[int, str] = {k: f"x{k}" for k in range(program.ninputs)}
        spare: list[str] = []
        count = 0
        dying: dict[int, list[int]] = {}
        for v, index in plan.reads.items():
            dying.setdefault(index, []).append(v)
        for index, step in enumerate(self.steps):
            if isinstance(step, Group):
                made = [i.out for i in step.instructions if plan.reads.get(i.out, -1) > index]
                for v in made:
                    self.variable[v] = spare.pop() if spare else f"r{count}"
                    count += self.variable[v] == f"r{count}"
                lines += self._group(step, made, index)
                plan.release(index)
            elif step.primitive is GUARD:
                lines.append(self._guard(step))
                plan.release(index)
            else:
                text = self._instruction(step, index)
                for v in dying.get(index, ()):
                    if v >= program.ninputs:
                        spare.append(self.variable[v])
                self.variable[step.out] = spare.pop() if spare else f"r{count}"
                count += self.variable[step.out] == f"r{count}"
                lines.append(f"    {self.variable[step.out]} = {text}")
                continue
            spare += [self.variable[v] for v in dying.get(index, ()) if v >= program.ninputs and v in self.variable]
        lines.append(f"    return [{', '.join(self._outputs())}]")
        return lines

    def _outputs(self) -> list[str]:
        taken: set[int] = set()
        out = []
        for v in self.program.outputs:
            kind = self.program.kinds.get(v)
            text = self._arg(v)
            mine = self.plan.roots.get(v, (v,))
            if (
                kind is not None
                and kind.form == ARRAY
                and (v < 0 or any(r < self.program.ninputs or r in taken for r in mine) or mine != (v,))
            ):
                text = f"np.array({text})"
            taken.update(mine)
            out.append(text)
        return out

    def _arg(self, v: int) -> str:
        return self.variable[v] if v >= 0 else self.source.name(self.program.constant(v))

    def _guard(self, i: Instruction) -> str:
        read, found, number = i.params
        x = self._arg(i.args[0])
        if read is bool:
            return f"    if {'not ' * found}{x}: fail({number}, {not found})"
        name = self.source.name(read, "g")
        return f"    if not same({name}({x}), {self.source.name(found)}): fail({number}, {name}({x}))"

    def _instruction(self, i: Instruction, index: int) -> str:
        """The expression of one instruction; releases what it reads for the last time."""
        plan, kinds, p = self.plan, self.program.kinds, i.primitive
        out = kinds[i.out]
        args = [self._arg(a) for a in i.args]
        if p is ITEM:
            plan.release(index)
            return f"{args[0]}[{i.params[0]}]"
        if p.name == "call" and type(i.params[0]) is ScanCall and i.params[0].length:
            plan.release(index)
            loop = Scan(i.params[0], self.items.get(i.out, set()))
            self.loops.append("\n".join(f"# scan: {line}" for line in loop.text.split("\n")))
            return f"{self.source.name(loop, 'scan')}([{', '.join(args)}])"
        if is_elementwise(p):
            if p.name in _OPERATORS and out is not None and out.form != ARRAY and self._scalars(i.args):
                plan.release(index)
                return f" {_OPERATORS[p.name]} ".join(args)
            buffered = self._buffered(i, out, index)
            return f"{self.source.function(p)}({', '.join(args)}{buffered})"
        if p.name in WRITES and i.args[0] in self.own and self._overwrites(i, index):
            buffer = plan.owner.pop(i.args[0], None)
            plan.release(index)
            if buffer is not None:
                plan.owner[i.out] = buffer
            return f"{self.source.name(WRITES[p.name], WRITES[p.name].__name__)}({', '.join(args)}, {self.source.name(i.params[0])})"
        text = self._special(i, args, out)
        if text is None:
            if p.name == "matmul" and out is not None and all(len(kinds[a].shape) <= 2 for a in i.args):  # type: ignore[union-attr]
                return f"{self.source.name(np.matmul, 'f')}({', '.join(args)}{self._buffered(i, out, index, inplace=False)})"
            text = f"{self.source.function(p)}({', '.join([*args, *(self.source.name(q) for q in i.params)])})"
        plan.release(index)
        return text

    def _given(self, v: int, index: int, group: Group | None = None) -> int | None:
        """A donated input that this result may be written to: of its kind, not read after it, nor needed if a guard fails."""
        plan, kind = self.plan, self.program.kinds[v]
        guarded = any(not isinstance(s, Group) and s.primitive is GUARD for s in self.steps[index + 1 :]) if self.donated else False
        for k in self.donated if v in plan.out and not guarded else ():
            if self.program.kinds[k] != kind or plan.last.get(k, -1) > index:
                continue
            if group is not None:
                made = [i.out for i in group.instructions].index(v)
                late = any(k in i.args for i in group.instructions[made + 1 :])
                if late or any(k in plan.roots.get(a, ()) for i in group.instructions for a in i.args):  # a view of it, in another order
                    continue
            self.donated.remove(k)
            self.overwritten.append(k)
            return k
        return None

    def _overwrites(self, i: Instruction, index: int) -> bool:
        """Whether nothing else looks, now or later, into the array that an instruction makes a changed copy of."""
        (x, v), plan, kinds = i.args, self.plan, self.program.kinds
        alone = plan.roots.get(x) == (x,) and plan.last.get(x) == index and x not in plan.roots.get(v, (v,))
        return alone and kinds[x] == kinds[i.out] and not (x in plan.owner and i.out in plan.out)

    def _scalars(self, args: Sequence[int]) -> bool:
        return all((k := self.program.kinds[a]) is not None and k.form != ARRAY and (k.form != NUMBER or k.dtype.kind == "f") for a in args)

    def _buffered(self, i: Instruction, out: Kind | None, index: int, inplace: bool = True) -> str:
        plan = self.plan
        out_is = ", out=" if i.primitive.fun in KEYWORD else ", "
        if out is None or out.form != ARRAY or not out.shape or i.out in plan.out or i.out not in plan.last:
            given = self._given(i.out, index) if inplace else None
            plan.release(index)
            return f"{out_is}x{given}" if given is not None else ""
        if inplace:
            plan.release(index)
            return out_is + plan.take(i.out)
        buffer = plan.take(i.out)
        plan.release(index)
        return out_is + buffer

    def _special(self, i: Instruction, args: list[str], out: Kind | None) -> str | None:
        name, params = i.primitive.name, i.params
        if name == "getitem":
            return f"{args[0]}[{self.source.name(params[0])}]"
        if name == "reshape":
            return f"{args[0]}.reshape({self.source.name(params[0])})"
        if name == "transpose":
            return f"{args[0]}.transpose({self.source.name(params[0])})"
        if name == "sum":
            kind = self.program.kinds[i.args[0]]
            if kind is not None and kind.form == ARRAY and not (len(kind.shape) > 1 and 1 < kind.shape[-1] < 8 and kind.size >= 512):
                return f"{self.source.name(REDUCE['sum'], 'f')}({args[0]}, {params[0]}, None, None, {params[1]})"
        if name in ("max", "min"):
            return f"{self.source.name(REDUCE[name], 'f')}({args[0]}, {params[0]}, None, None, {params[1]})"
        return None

    # Groups

    def _group(self, group: Group, made: list[int], index: int) -> list[str]:
        """The call of a group's loop, whose functions are put before the program."""
        emitter = Loop(self.program, group, made)
        name = f"loop{len(self.loops)}"
        lines = []
        for v in made:
            if v in group.made:
                kind = self.program.kinds[v]
                assert kind is not None
                given = self._given(v, index, group)
                if given is not None:
                    lines.append(f"    {self.variable[v]} = x{given}")
                elif v in self.plan.out:
                    lines.append(f"    {self.variable[v]} = empty({kind.shape}, {self.source.name(kind.dtype)})")
                else:
                    lines.append(f"    {self.variable[v]} = {self.plan.take(v)}")
        self.source.names[name] = loop = emitter.build(name)
        self.loops.append(emitter.text(name))
        call = ", ".join([*(self._arg(a) for a in emitter.inputs), *(self.variable[v] for v in made if v in group.made)])
        results = [self.variable[v] for v in made if v in group.parts]
        lines.append(f"    {targets(results)} = {name}({call})" if results else f"    {name}({call})")
        assert loop is not None and index >= 0
        return lines


class Scan(Executable):
    """A loop of `scan`: the program of its body, in a loop of its own."""

    def __init__(self, call: ScanCall, used: set[int]) -> None:
        self.call = call
        body = call.body
        number = {place: k for k, place in enumerate(body.inputs)}
        kinds: dict[int, Kind | None] = {}
        consts: list[Any] = []

        def kind(place: int) -> Kind | None:
            aval = body.avals.get(place)
            return None if aval is None else Kind(aval.shape, np.dtype(aval.dtype), ARRAY if aval.shape else SCALAR)

        for place, x in enumerate(body.template):
            if place not in number and x is not None:
                consts.append(x)
                number[place] = -len(consts)
                kinds[-len(consts)] = kind_of(x)
            elif place in number:
                kinds[number[place]] = kind(place)
        rows = []
        for primitive, out, ins, params in body.code:
            number[out] = k = max(len(body.inputs), *(n + 1 for n in number.values()))
            kinds[k] = kind(out)
            rows.append(Instruction(primitive, k, tuple([number[i] for i in ins]), params))
        carried = call.counts[1]
        self.stacked = [k for k in range(carried, len(body.outputs)) if k in used]  # of the results, those that are asked for
        outputs = [number[body.outputs[k]] for k in (*range(carried), *self.stacked)]
        super().__init__(optimise(Program(len(body.inputs), rows, outputs, consts, kinds)), "scan")

    def _define(self, body: list[str], what: str) -> tuple[str, Callable[..., Any]]:
        call, n = self.call, self.program.ninputs
        a, b = call.counts
        lines = body[:-1]
        results = ", ".join(map(self._arg, self.program.outputs))  # what they share memory with, nobody writes to
        count = len(self.program.outputs)
        names = [f"y{k}" for k in range(count)]
        head = ["def program(inputs, buffers):"]
        head.append(f"    {targets([f'x{k}' for k in range(a + b)] + [f'z{k}' for k in range(a + b, n)])} = inputs")
        if self.plan.buffers:
            head.append(f"    {targets([f'B{k}' for k in range(len(self.plan.buffers))])} = buffers")
        for k, v in enumerate(self.program.outputs[b:], b):
            kind = self.program.kinds[v]
            assert kind is not None
            head.append(f"    s{k} = empty({(call.length, *kind.shape)}, {self.source.name(kind.dtype)})")
        steps = f"range({call.length - 1}, -1, -1)" if call.reversed else f"range({call.length})"
        loop = [f"    for k in {steps}:", *(f"        x{k} = z{k}[k]" for k in range(a + b, n)), *("    " + line for line in lines)]
        loop.append(f"        {targets(names)} = {results}" + ("," if count == 1 else ""))
        loop += [f"        s{k}[k] = y{k}" for k in range(b, count)]
        if b:
            loop.append(f"        {targets([f'x{k}' for k in range(a, a + b)])} = {targets(names[:b])}")
        stacks = {k: f"s{b + n}" for n, k in enumerate(self.stacked)}
        out = [f"x{k}" for k in range(a, a + b)] + [stacks.get(k, "None") for k in range(b, len(call.body.outputs))]
        self.source.lines = [*self.loops, *head, *loop, f"    return [{', '.join(out)}]"]
        return "\n".join(self.source.lines), self.source.compile(what)["program"]
