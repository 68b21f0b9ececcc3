"""The bodies of `scan`, `while_loop`, `cond` and `switch`, compiled: a loop is one flat program, and so is each branch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from functrace.compile.blocks import Loop
from functrace.compile.elements import fits, nested, takes_floats
from functrace.compile.emit import CALLS, Executable
from functrace.compile.optimise import optimise
from functrace.compile.passes import dead, maker
from functrace.compile.plan import VIEWS
from functrace.compile.program import ARRAY, GUARD, NOTHING, SCALAR, Instruction, Kind, Program
from functrace.compile.source import targets
from functrace.ops.positions import is_basic, parts_of
from functrace.transforms.control_body import Body, settled
from functrace.transforms.control_branches import SwitchCall
from functrace.transforms.control_loops import ScanCall
from functrace.transforms.control_while import WhileCall


def add(program: Program, body: Body, inputs: Sequence[int]) -> list[int]:
    """Add the instructions of a body to a program, for inputs of these numbers; the numbers of its outputs."""
    number = dict(zip(body.inputs, inputs))
    for place in sorted(body.read() - number.keys() - {out for _, out, _, _ in body.code}):
        number[place] = program.const(body.template[place])
    for primitive, out, ins, params in body.code:
        number[out] = program.value(None)
        program.instructions.append(Instruction(primitive, number[out], tuple([number[i] for i in ins]), params))
    for place, k in number.items():
        if k >= 0 and (aval := body.avals.get(place)) is not None:
            program.kinds[k] = Kind(aval.shape, np.dtype(aval.dtype), ARRAY if aval.shape else SCALAR)
    return [number[i] for i in body.outputs]


def body_program(body: Body) -> Program:
    """A body as a program."""
    program = Program(len(body.inputs))
    program.outputs = add(program, body, range(program.ninputs))
    return program


def needed(program: Program, inputs: range, asked: Iterable[int], others: Iterable[int]) -> list[int]:
    """The values of a state, given by its `inputs`, after a step. What neither those that are asked for nor other outputs need stays as
    it is: a counter, or how much the last step changed, which only the condition of a loop looked at.
    """
    after, todo = [*inputs], [program.outputs[k] for k in others]
    by = {i.out: i for i in program.instructions}
    seen: set[int] = set()
    for k in asked:
        after[k] = program.outputs[k]
        todo.append(program.outputs[k])
    while todo:
        v = todo.pop()
        if v in seen:
            continue
        seen.add(v)
        todo += by[v].args if v in by else ()
        if v in inputs and after[k := v - inputs.start] != program.outputs[k]:
            after[k] = program.outputs[k]
            todo.append(after[k])
    return after


class Repeated(Executable):
    """The body of a loop, some of whose inputs are its state. What of the state no operation on arrays reads is kept as elements."""

    def _read_as(self) -> tuple[set[int], set[int]]:
        arrays, floats = self._read_inside()
        kinds = self.program.kinds
        read = {a for i in self.program.instructions if i.out in self.few for a in i.args}
        self.kept = {
            k for k, v in self.states.items() if k not in arrays and (k in read or v in self.few) and fits(kinds[k]) and fits(kinds[v])
        }
        for k, v in self.states.items():
            (floats if k in self.kept else arrays).add(v)
        self._ends(arrays, floats)
        self.unpacked.update(v for v in floats if v >= 0 and self._brings(v))
        return arrays, floats

    def _ends(self, arrays: set[int], floats: set[int]) -> None:
        """Add the stacked results to what leaves the loop, as arrays or as elements."""

    def _brings(self, v: int) -> bool:
        return v < self.program.ninputs and (v not in self.states or v in self.kept)

    def _arg(self, v: int, floats: bool = False) -> str:
        return self.elements.array(v) if v in self.kept else super()._arg(v, floats)

    def _part(self, whole: str, where: Any) -> str:
        text = super()._part(whole, where)
        return self._ahead(text) if whole.startswith("B") else text

    def _ahead(self, text: str) -> str:
        """The name of a view that is the same in all steps, and is taken before the loop."""
        name = f"v{len(self.before)}"
        self.before[name] = [f"{name} = {text}"]
        return name

    def _special(self, i: Instruction, args: list[str], out: Kind | None) -> str | None:
        """Views of what lies in the same place in all steps, a buffer or a constant, are taken before the loop."""
        name, plan = i.primitive.name, self.plan
        if out is None or not out.shape or name not in ("getitem", "reshape", "transpose") or plan.layout.uneven or plan.layout.deep:
            return super()._special(i, args, out)
        (a,), part = i.args, name == "getitem" and is_basic(i.params[0])
        if part and (row := self._row(a)) is not None:
            return self._part(row, i.params[0])
        if a not in plan.owner and a not in (self.still or ()) or name == "getitem" and not part:
            return super()._special(i, args, out)
        whole = f"B{plan.owner[a]}" if a in plan.owner else args[0]
        return self._ahead(super()._special(i, [whole], out) or whole)

    def _row(self, v: int) -> str | None:
        """The row of a stack in which a value lies."""
        return None

    def _taken(self, inputs: Iterable[int]) -> list[str]:
        """The lines before the loop that take the elements out of inputs, and spread some."""
        spread = [f"    {line}" for lines in self.before.values() for line in lines]
        taken = [k for k in inputs if k in self.kept or k in self.unpacked and self._brings(k)]
        return spread + [f"    {self.elements.unpacked(k, f'x{k}')}" for k in taken]

    def _next(self) -> list[str]:
        """The lines at the end of a step that make its results the state."""
        lines, old, new = [], [], []
        for k, v in self.states.items():
            if k == v:
                continue
            if k not in self.kept:
                old.append(f"x{k}")
                new.append(self._arg(v))
                continue
            if v >= 0 and v not in self.few and v not in self.unpacked and not self._brings(v):
                self.unpacked.add(v)
                lines.append(f"        {self.elements.unpacked(v, self._arg(v))}")
            old += self.elements.of(k).reshape(-1).tolist()
            new += self.elements.of(v).reshape(-1).tolist()
        return [*lines, f"        {targets(old)} = {targets(new)}"] if old else lines

    def _last(self) -> list[str]:
        """The state as arrays and scalars."""
        return [self._arg(k) if k in self.kept else f"x{k}" for k in self.states]


class _Text:
    """The text of a loop, while it is put together."""

    def __init__(self, head: list[str]) -> None:
        self.head = head  # the lines before it, those at the end of a step, and those after it
        self.loop: list[str] = []
        self.tail: list[str] = []
        self.each: dict[str, str] = {}  # the names that each step takes, and of what
        self.number: dict[int, str] = {}  # of each stack: what is returned
        self.lists: dict[Any, str] = {}  # for what is appended the list


class Scan(Repeated):
    """A loop of `scan`: the program of its body, in a loop of its own."""

    def __init__(self, call: ScanCall, used: set[int]) -> None:
        self.call = call
        recorded, carried = body_program(call.body), call.counts[1]
        results = recorded.outputs
        self.stacked = [k for k in range(carried, len(results)) if k in used]  # of the results, those that are asked for
        carry = needed(recorded, range(call.counts[0], sum(call.counts)), [k for k in range(carried) if k in used], self.stacked)
        program = optimise(recorded.with_(recorded.instructions, [*carry, *(results[k] for k in self.stacked)]))
        self.stacks = dict(enumerate(program.outputs[carried:], carried))  # of the results that are stacked: number and value
        self.shown = self._parts_of_others(program)
        program = dead(program.with_(program.instructions, [*program.outputs[:carried], *self.stacks.values()]))
        self.rows = {v: k for k, v in reversed(self.stacks.items()) if v >= program.ninputs}  # the stack that a value is written to
        self.written: set[int] = set()  # the values that are written there at once
        self.columns: dict[str, tuple[str, Any]] = {}  # parts of rows: of which, and where
        self.follows: dict[int, int] = {}  # stacks of a state before the step: the value after it, which is that of the next step
        states: dict[int, int] = {}
        for k, v in self.stacks.items():
            if 0 <= v - call.counts[0] < carried:
                after = program.outputs[v - call.counts[0]]
                same = after >= program.ninputs and program.kinds[v] == program.kinds[after]
                if same and states.setdefault(after, v) == v:  # not two states that become one
                    self.follows[k] = after
                    self.rows.setdefault(after, k)
        self.states, self.still = dict(zip(range(call.counts[0], sum(call.counts)), program.outputs)), range(call.counts[0])
        super().__init__(program, "scan")

    def _parts_of_others(self, program: Program) -> dict[int, tuple[int, Any]]:
        """The stacks that are parts of others, which are made instead: of which, and where; if those are not much larger."""
        makes = {i.out: i for i in program.instructions}
        parts: dict[int, list[int]] = {}
        for k, v in self.stacks.items():
            by = maker(makes, v, "getitem")
            if by is not None and program.is_array(v) and is_basic(by.params[0]) and maker(makes, by.args[0], *VIEWS) is None:
                parts.setdefault(by.args[0], []).append(k)
        shown: dict[int, tuple[int, Any]] = {}
        for whole, ks in parts.items():
            known = next((k for k, v in self.stacks.items() if v == whole), None)
            size = sum([program.kinds[v].size for v in {self.stacks[k] for k in ks}])
            if whole in makes and program.is_array(whole) and (known is not None or program.kinds[whole].size <= 2 * size):
                known = max(self.stacks) + 1 if known is None else known
                shown |= {k: (known, (slice(None), *parts_of(makes[self.stacks[k]].params[0]))) for k in ks}
                self.stacks = {k: v for k, v in self.stacks.items() if k not in ks} | {known: whole}
        return shown

    def _ends(self, arrays: set[int], floats: set[int]) -> None:
        self.listed = {k for k, v in self.stacks.items() if v in self.few or v in self.kept}  # stacks that are lists of elements first
        for k, v in self.stacks.items():
            (floats if k in self.listed else arrays).add(v)

    def _home(self, v: int, index: int, loop: Loop | None = None, inplace: bool = True) -> str | None:
        """The row of the stack that a result goes to."""
        kind = self.program.kinds[v]
        if v not in self.rows or self.rows[v] in self.listed or kind is None or not kind.shape:
            return None
        self.written.add(v)
        return f"w{self.rows[v]}"

    def _row(self, v: int) -> str | None:
        return f"w{self.rows[v]}" if v in self.written else None

    def _part(self, whole: str, where: Any) -> str:
        if not whole.startswith("w"):
            return super()._part(whole, where)
        name = f"{whole}_{len(self.columns)}"
        self.columns[name] = whole, (slice(None), *parts_of(where))
        return name

    def _define(self, body: list[str], what: str) -> tuple[str, Callable[..., Any]]:
        call, n = self.call, self.program.ninputs
        a, b = call.counts
        way = "[::-1]" * call.reversed
        text = _Text(self._head([f"x{k}" for k in range(a + b)] + [f"z{k}" for k in range(a + b, n)]))
        rows = [k for k in range(a + b, n) if k in self.plan.reads and (k not in self.unpacked or k in self.arrays)]
        text.each |= {f"x{k}": f"z{k}{way}" for k in rows}
        for k in range(a + b, n):  # by way of a memoryview, which gives Python's floats as they are asked for
            for place, name in np.ndenumerate(self.elements.of(k)) if k in self.unpacked else ():
                column = f"memoryview(z{k}[{', '.join([':', *map(str, place)])}]){way}"
                text.each[name] = f"map(float, {column})" if self.program.kinds[k].dtype.kind == "i" else column
        hosts = {k: self.rows[v] for k, v in self.follows.items() if v in self.written and k not in self.listed}  # others, one step late
        text.number = {k: f"s{k}" for k in self.stacks}
        for k in self.stacks:
            late = [m for m in hosts if hosts[m] == k]
            if k in self.listed:
                self._append(text, k, way)
            elif k in late or k not in hosts:
                self._fill(text, k, way, late)
        text.number |= {k: f"{text.number[whole]}[{self.source.name(where)}]" for k, (whole, where) in self.shown.items()}
        text.loop += self._next()  # what the states share memory with, nobody writes to
        each = text.each
        steps = f"zip({', '.join(each.values())})" if len(each) > 1 else "".join(each.values()) or f"range({call.length})"
        done = [*("    " + line for line in body[:-1]), *text.loop]
        loop = [f"    for {', '.join(each) or '_'} in {steps}:", *done] if done else []
        asked = {n: text.number[k] for k, n in enumerate(self.stacked, b)}
        out = self._last() + [asked.get(k, "None") for k in range(b, len(call.body.outputs))]
        return self._compiled([*text.head, *self._taken(range(a + b)), *loop, *text.tail, f"    return [{', '.join(out)}]"], what)

    def _append(self, text: _Text, k: int, way: str) -> None:
        """A stack as a list to which each step appends; stacks of the same value share one list."""
        v = self.stacks[k]
        kind = self.program.kinds[v]
        names = nested(self.elements.of(v).reshape(-1) if kind.shape else self.elements.of(v))
        text.number[k] = text.lists.setdefault((kind, names), f"s{k}")
        if text.number[k] == f"s{k}":
            text.head += [f"    s{k} = []", f"    w{k} = s{k}.{'extend' if kind.shape else 'append'}"]
            text.loop.append(f"        w{k}({names})")
            whole = f"array(s{k}, {self.source.name(kind.dtype)}).reshape({(self.call.length, *kind.shape)})"
            text.tail.append(f"    s{k} = {whole}{'[::-1].copy()' * bool(way)}")

    def _fill(self, text: _Text, k: int, way: str, late: list[int]) -> None:
        """A stack as an array whose rows the steps fill. The stacks `late`, of a state before the step, are the same rows one step late."""
        v = self.stacks[k]
        kind = self.program.kinds[v]
        first, before, after = (-1, "[1:]", "[:-1]") if way else (0, "[:-1]", "[1:]")
        shape = (self.call.length + bool(late), *(kind.shape or (1,)))
        text.head.append(f"    s{k} = empty({shape}, {self.source.name(kind.dtype)})")
        text.each[f"w{k}"] = rows = f"s{k}{after * bool(late)}{way}"
        for name, (row, where) in self.columns.items():
            if row == f"w{k}":
                text.each[name] = f"{rows}[{self.source.name(where)}]"
        if late:
            text.head.append(f"    s{k}[{first}] = x{self.stacks[late[0]]}")
            text.number |= {k: f"s{k}{after}"} | dict.fromkeys(late, f"s{k}{before}")
        elif not kind.shape:
            text.number[k] = f"s{k}[:, 0]"
        if not late and not (v in self.written and self.rows[v] == k):
            text.loop.append(f"        w{k}[{'...' if kind.shape else 0}] = {self._arg(v)}")


class While(Repeated):
    """A `while_loop`: the test, a guard that leaves the loop, and the body, as one program."""

    def __init__(self, call: WhileCall, _used: set[int]) -> None:
        a, b = call.counts
        n = len(call.test.inputs) + b
        program = Program(n)
        (more,) = add(program, call.test, [*range(a), *range(a + b, n)])
        program.instructions.append(Instruction(GUARD, NOTHING, (more,), (bool, True, 0)))
        program.outputs = add(program, call.body, range(a, n))
        program = optimise(program)
        self.states, self.still = dict(zip(range(a + b, n), program.outputs)), range(a + b)
        super().__init__(program, "while_loop")

    def __call__(self, inputs: list[Any]) -> list[Any]:
        return super().__call__(settled(inputs))

    def _guard(self, i: Instruction) -> str:
        return f"    if not {self._arg(i.args[0], takes_floats(i, self.program.kinds))}: break"

    def _define(self, body: list[str], what: str) -> tuple[str, Callable[..., Any]]:
        head = self._head([f"x{k}" for k in range(self.program.ninputs)])
        loop = ["    while True:", *("    " + line for line in body[:-1]), *self._next()]
        return self._compiled([*head, *self._taken(range(self.program.ninputs)), *loop, f"    return [{', '.join(self._last())}]"], what)


class Switch:
    """A `cond` or `switch`: a program for each branch."""

    def __init__(self, call: SwitchCall, _used: set[int]) -> None:
        self.call = call
        self.branches = [Executable(optimise(body_program(body)), "a branch") for body in call.programs]
        self.text = "\n".join(f"# branch {k}\n{branch.text}" for k, branch in enumerate(self.branches))

    def __call__(self, inputs: list[Any]) -> list[Any]:
        k = self.call.taken(inputs[0])
        return self.branches[k](settled(self.call.of(k, inputs)))


CALLS[ScanCall] = Scan
CALLS[WhileCall] = While
CALLS[SwitchCall] = Switch


def compiled(loop: ScanCall | WhileCall) -> Any:
    """A loop as a program that gives all of its results."""
    return CALLS[type(loop)](loop, set(range(len(loop.body.outputs))))
