"""Code generation: a program as the source of one flat Python function, compiled once.

Every value is a local variable, of which there are as many as values live at a time. Results of ufuncs are written to buffers that
the program keeps between calls, planned by liveness; what the caller gets is never one of them. Each call in progress has a set of
buffers of its own, so a program may run in many threads at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.compile.blocks import Loop
from functrace.compile.elements import ARITHMETIC, CHOICE, CHOICES, FINITE, NAMES, SUMS, TESTS, Elements, takes_floats
from functrace.compile.fuse import REDUCTIONS, Group, fuse, instructions_of
from functrace.compile.layout import EMPTY, FIRST, LAST, empty, laid, multiplied, spreading, subscripts
from functrace.compile.merge import WRITES
from functrace.compile.parts import PARTS, filled
from functrace.compile.passes import is_elementwise
from functrace.compile.plan import Plan, places
from functrace.compile.program import ARRAY, GUARD, NUMBER, SCALAR, Instruction, Kind, Program
from functrace.compile.source import KEYWORD, REDUCE, Source, by_products, by_rows, targets
from functrace.core.tape import ITEM
from functrace.ops.positions import add_at, distinct, is_basic, known_places, set_in, taken
from functrace.ops.rows import folded, short, windows
from functrace.pool import zeros
from functrace.sums import checksum, summed, total

# Whose results are arrays of nobody else, which may be written to.
OWN = frozenset((*WRITES, "placed", "taken", "where", "matmul", "concatenate", "stack", "cumsum", "sum_of_parts", "sum_of_products"))
HELD = 1 << 16  # bytes from which on an array that nothing reads any more is let go at once, not when its name is taken
COUNTED = 1 << 22  # elements up to which it is looked whether an index names one twice
ROLLED = 1 << 11  # elements up to which an index is faster than two slices
KEPT = 1 << 28  # bytes of buffers that a program keeps between calls
CALLS: dict[type, Callable[[Any, set[int]], Any]] = {}  # how control flow is compiled: the call, and which of its results are used
_OF_ONE = FINITE | {name: form for name, form in ARITHMETIC.items() if name not in SUMS}
_OPERATORS = SUMS | {"divide": "{0} / {1}", "bitwise_and": "{0} & {1}", "bitwise_or": "{0} | {1}"} | TESTS
_CHOICES = CHOICES | {"where": CHOICE}


class Executable:
    """A program that runs: `executable(inputs)` gives the outputs, which belong to the caller.

    Its steps are groups and single instructions. `few` are the results that are kept as elements; arrays are made of them where
    something else reads them.
    """

    states: dict[int, int] = {}  # in a loop: of each input that is a part of the state the value that it has in the next step
    still: range | None = None  # and the inputs that are the same in all steps

    def __init__(self, program: Program, what: str = "a program", donated: Sequence[int] = ()) -> None:
        self.program = program
        self.donated = list(donated)  # inputs that results may be written to, not yet taken
        self.overwritten: list[int] = []  # those taken
        self.steps = fuse(program)
        self.last_guard = max((k for k, s in enumerate(self.steps) if instructions_of(s)[0].primitive is GUARD), default=0)
        self.elements = Elements(program, [s for s in self.steps if not isinstance(s, Group)], self.states, self.still)
        self.few = self.elements.few
        self.plan = Plan(program, self.steps, self.few)
        self.source = Source()
        self.source.names |= NAMES
        self.loops: list[str] = []
        self.ends: list[int] = []  # the number of lines of the body after each step
        self.items: dict[int, set[int]] = {}  # which results of several are asked for
        self.turned: dict[Any, Any] = {}  # constants, with their first axis innermost, or of another shape
        self.first: list[str] = []  # lines that come before that of the next result
        self.before: dict[str, list[str]] = {}  # of each name that is known before the loop: its lines
        self.multiplied = multiplied(program)
        self.read: set[int] = set(program.outputs)  # by more than looks whether it is finite
        makes: dict[int, Instruction] = {}
        for i in program.instructions:
            makes[i.out] = i
            if i.primitive.name != "isfinite":
                self.read.update(i.args)
            if i.primitive is ITEM:
                self.items.setdefault(i.args[0], set()).add(i.params[0])
        written = [by for i in program.instructions if i.primitive.name in WRITES and (by := makes.get(i.args[0])) is not None]
        self.own = {  # arrays that are written to, and were made for nobody else
            i.out for i in written if (is_elementwise(i.primitive) or i.primitive.name in OWN) and program.is_array(i.out)
        }
        self.places = places(program, self.steps, self.few, self.plan.layout)
        self.wholes: dict[int, str] = {}  # arrays of which parts are written already
        body = self._body()
        self.text, self.function = self._define(body, what)
        del self.elements
        self.sets: list[list[Any]] = []
        self.bytes = sum(Kind(shape, dtype).nbytes for shape, dtype, _ in self.plan.buffers)

    def _define(self, body: list[str], what: str) -> tuple[str, Callable[..., Any]]:
        return self._compiled([*self._head([f"x{k}" for k in range(self.program.ninputs)]), *body], what)

    def _head(self, inputs: Sequence[str]) -> list[str]:
        named = {"inputs": inputs, "buffers": [f"B{k}" for k in range(len(self.plan.buffers))]}
        return ["def program(inputs, buffers):", *(f"    {targets(names)} = {what}" for what, names in named.items() if names)]

    def _compiled(self, lines: Sequence[str], what: str) -> tuple[str, Callable[..., Any]]:
        self.source.lines = [*self.loops, *lines]
        return "\n".join(self.source.lines), self.source.compile(what, "program")

    def __call__(self, inputs: list[Any]) -> list[Any]:
        try:  # a set that no other call in progress uses
            buffers = self.sets.pop()
        except IndexError:
            buffers = self.buffers()
        try:
            return self.function(inputs, buffers)  # type: ignore[no-any-return]
        finally:
            if self.bytes <= KEPT:
                self.sets.append(buffers)

    def buffers(self) -> list[Any]:
        """A new set of buffers."""
        return [empty(shape, dtype, way=way) if way else np.empty(shape, dtype) for shape, dtype, way in self.plan.buffers]

    def _body(self) -> list[str]:
        lines: list[str] = []
        plan, program = self.plan, self.program
        self.variable: dict[int, str] = {k: f"x{k}" for k in range(program.ninputs)}
        self.unpacked: set[int] = set()  # the values that came as arrays or scalars, of which there are elements too
        self.arrays, floats = self._read_as()
        self.elements.need([*floats, *(self.arrays & self.few)])
        spare: list[str] = []
        new = map("r{}".format, itertools.count())
        dying: dict[int, list[int]] = {}
        for v, index in plan.reads.items():
            dying.setdefault(index, []).append(v)
        for k in range(program.ninputs):
            if (way := plan.layout.way(program.kinds[k])) and k not in self.donated:
                lines.append(f"    x{k} = {self.source.name(laid, 'laid')}(x{k}, {way})")
        for index, step in enumerate(self.steps):
            text = taken = ""  # the expression of a result, and its variable
            if isinstance(step, Group):
                made = [i.out for i in step.instructions if plan.reads.get(i.out, -1) > index]
                self.variable |= {v: spare.pop() if spare else next(new) for v in made}
                lines += self._group(step, made, index)
                plan.release(index)
            elif step.primitive is GUARD:
                lines.append(self._guard(step))
                plan.release(index)
            elif step.out in self.few:
                lines += self._by_elements(step)
                text = self._packed(step.out, index)
            else:
                text = self._instruction(step, index)
            lines += self.first
            self.first = []
            dead = [v for v in dying.get(index, ()) if v >= program.ninputs and v in self.variable]
            spare += [self.variable[v] for v in dead]
            if text and not isinstance(step, Group):
                self.variable[step.out] = taken = spare.pop() if spare else next(new)
                lines.append(f"    {taken} = {text}")
                if step.out in self.few and step.out in plan.owner:
                    lines += [f"    {line}" for line in self.elements.stores(step.out, taken)]
            large = [v for v in dead if (kind := program.kinds[v]) is None or kind.nbytes >= HELD]
            if held := [r for v in large if (r := self.variable[v]) != taken]:
                lines.append(f"    {' = '.join(held)} = None")
            self.ends.append(len(lines))
        lines.append(f"    return [{', '.join(self._outputs())}]")
        return lines

    def _read_as(self) -> tuple[set[int], set[int]]:
        """The values that are read as arrays, and those whose elements are read by others than the results of `few`."""
        arrays, floats = self._read_inside() if self.few else (set(), set())
        return arrays | set(self.program.outputs), floats

    def _read_inside(self) -> tuple[set[int], set[int]]:
        """What instructions read as arrays, and by elements: see `_read_as`, which adds the outputs."""
        arrays: set[int] = set()
        floats: set[int] = set()
        for step in self.steps:
            for i in (i for i in instructions_of(step) if i.out not in self.few):
                alone = not isinstance(step, Group) and takes_floats(i, self.program.kinds)
                floats.update(self.few.intersection(i.args) if alone else ())
                arrays.update(set(i.args) - self.few if alone else i.args)
        return arrays, floats

    def _by_elements(self, i: Instruction) -> list[str]:
        """The lines of one of `few`, after those that take the elements of its arguments out of arrays."""
        lines = []
        for a in i.args:
            if a >= 0 and a not in self.few and a not in self.unpacked and self.elements.read(a):
                self.unpacked.add(a)
                if not self._brings(a):
                    lines.append(self.elements.unpacked(a, self._arg(a)))
        return [f"    {line}" for line in [*lines, *self.elements.code(i.out)]]

    def _brings(self, v: int) -> bool:
        """Whether the elements of a value are there from the beginning."""
        return False

    def _packed(self, v: int, index: int) -> str:
        """The array of a result of `few`, if it is asked for: a buffer, to be filled, or a new one."""
        kind, plan = self.program.kinds[v], self.plan
        plan.release(index)
        if v not in self.arrays:
            return ""
        return self.elements.array(v) if kind.form != ARRAY or not kind.shape or v in plan.out else plan.take(v)

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
                text = f"np.array({text}, order='C')"
            elif self.plan.layout.way(kind) or self.plan.layout.deep and kind is not None and len(kind.shape) > 1:
                text = f"np.ascontiguousarray({text})"
            taken.update(mine)
            out.append(text)
        return out

    def _arg(self, v: int, floats: bool = False) -> str:
        if v in self.few and (floats or v not in self.variable):
            return str(self.elements.of(v)[()]) if floats else self.elements.array(v)
        if v >= 0:
            return self.variable[v]
        x = self.program.constant(v)
        way = self.plan.layout.way(self.program.kinds[v])
        return self.source.name(self.turned.setdefault(v, laid(x, way)) if way else x)

    def _guard(self, i: Instruction) -> str:
        read, found, number = i.params
        x = self._arg(i.args[0], takes_floats(i, self.program.kinds))
        if read is bool:
            return f"    if {'not ' * found}{x}: fail({number}, {not found})"
        name = self.source.name(read, "g")
        return f"    if not same({name}({x}), {self.source.name(found)}): fail({number}, {name}({x}))"

    def _instruction(self, i: Instruction, index: int) -> str:
        """The expression of one instruction; releases what it reads for the last time."""
        plan, kinds, p = self.plan, self.program.kinds, i.primitive
        out = kinds[i.out]
        floats = takes_floats(i, kinds)
        args = [self._arg(a, floats) for a in i.args]
        if p is ITEM:
            plan.release(index)
            return f"{args[0]}[{i.params[0]}]"
        if p.name == "call" and type(i.params[0]) in CALLS and getattr(i.params[0], "length", True):
            plan.release(index)
            part, what = CALLS[type(i.params[0])](i.params[0], self.items.get(i.out, set())), i.params[0].what
            self.loops.append("\n".join(f"# {what}: {line}" for line in part.text.split("\n")))
            return f"{self.source.name(part, what)}([{', '.join(args)}])"
        if (text := self._of_scalars(i, args, out)) is not None:
            plan.release(index)
            return text
        if is_elementwise(p):
            for k, crossing in enumerate(plan.layout.crossing(i, kinds)):
                args[k] = f"{self.source.name(laid, 'laid')}({args[k]}, {LAST})" if crossing else args[k]
            places = () if plan.layout.way(out) else spreading(i, kinds, self.still or range(0))
            taken = [self._spread(i.args[n], args, n, out) for n in places]
            buffered = self._buffered(i, out, index)
            plan.give(b for b in taken if b is not None)
            return f"{self.source.function(p)}({', '.join(args)}{buffered})"
        if p.name in WRITES and i.args[0] in self.own and self._overwrites(i, index):
            buffer = plan.owner.pop(i.args[0], None)
            plan.release(index)
            if buffer is not None:
                plan.owner[i.out] = buffer
            write = self.source.name(WRITES[p.name], WRITES[p.name].__name__)
            added = self._added(args[0], args[1], out, i.params[0]) if p.name == "index_add" else None
            return added or f"{write}({', '.join(args)}, {self.source.name(i.params[0])})"
        text = self._special(i, args, out)
        if text is None:
            if p.name == "cross" and plan.layout.way(out) == FIRST:
                return f"{self.source.function(p)}({', '.join(args)}{self._buffered(i, out, index, inplace=False, turned=True)})"
            if p.name == "matmul" and out is not None and all(len(kinds[a].shape) <= 2 for a in i.args):
                return f"{args[0]}.dot({args[1]}{self._buffered(i, out, index, inplace=False)})"
            text = f"{self.source.function(p)}({', '.join([*args, *(self.source.name(q) for q in i.params)])})"
        plan.release(index)
        return text

    def _place(self, v: int, index: int) -> str:
        """The part of an array that a result is written to."""
        whole, where = self.places[v]
        if whole not in self.wholes:
            kind, home = self.program.kinds[whole], self._home(whole, index, inplace=False)
            if home is None and whole in self.plan.out:
                home = f"p{whole}"
                self.first.append(f"    {home} = empty({kind.shape}, {self.source.name(kind.dtype)})")
            self.wholes[whole] = home or self.plan.take(whole)
        return self._part(self.wholes[whole], where)

    def _part(self, whole: str, where: Any) -> str:
        """The expression of a part of an array."""
        return f"{whole}[{self.source.name(where)}]"

    def _spread(self, v: int, args: list[str], n: int, out: Kind) -> int | None:
        """Let an argument be an array of the shape of the result, or a number; the buffer that is filled for it, if one is."""
        kind = self.program.kinds[v]
        shape = out.shape if kind.size > 1 else ()
        if v < 0:
            x = np.reshape(self.program.constant(v), shape) if not shape else np.broadcast_to(self.program.constant(v), shape).copy()
            args[n] = self.source.name(self.turned.setdefault((v, shape), x))
        elif v in (self.still or ()):
            name = f"h{v}_{'x'.join(map(str, shape))}"
            whole = f"empty({shape}, {self.source.name(kind.dtype)})"
            self.before[name] = [f"{name} = {whole}", f"{name}[...] = {args[n]}"] if shape else [f"{name} = array({args[n]}).reshape(())"]
            args[n] = name
        elif not shape:
            args[n] = f"{args[n]}.reshape(())"
        else:
            b = self.plan.buffer((shape, kind.dtype, 0))
            self.first.append(f"    B{b}[...] = {args[n]}")
            args[n] = f"B{b}"
            return b
        return None

    def _home(self, v: int, index: int, loop: Loop | None = None, inplace: bool = True) -> str | None:
        """Where else than to a new array a result that leaves the program may be written to. Here: to a donated input of its kind,
        not read after it (nor by it, unless `inplace`), nor needed if a guard fails.
        """
        plan, kind = self.plan, self.program.kinds[v]
        if not inplace or kind is None or kind.form != ARRAY:
            return None
        for k in self.donated if v in plan.out and self.last_guard <= index else ():
            if self.program.kinds[k] != kind or plan.last.get(k, -1) > index or loop is not None and not self._shares(loop, v, k):
                continue
            self.donated.remove(k)
            self.overwritten.append(k)
            return f"x{k}"
        return None

    def _overwrites(self, i: Instruction, index: int) -> bool:
        """Whether an instruction that returns a changed copy of an array may change it in place: nothing reads it later."""
        (x, v), plan, kinds = i.args, self.plan, self.program.kinds
        alone = plan.roots.get(x) == (x,) and plan.last.get(x) == index and x not in plan.roots.get(v, (v,))
        return alone and kinds[x] == kinds[i.out] and not (x in plan.owner and i.out in plan.out)

    def _of_scalars(self, i: Instruction, args: Sequence[str], out: Kind | None) -> str | None:
        """The expression where Python's operators do what the ufunc does: of NumPy's scalars, and of floats that meet one."""
        if out is None or out.form != SCALAR:
            return None
        kinds: Any = [self.program.kinds[a] for a in i.args]
        name, constant = i.primitive.name, self.program.constant
        if any(k is None or k.form == ARRAY for k in kinds):
            return None
        if all(k.dtype == int and (k.form == SCALAR or a < 0) for a, k in zip(i.args, kinds)) and any(k.form == SCALAR for k in kinds):
            small = min(i.args) < 0 and abs(constant(min(i.args))) < 1 << 31  # a counter, not a product that wraps round
            form = TESTS.get(name) or (SUMS[name] if small and name in ("add", "subtract") else None)
            return None if form is None else form.format(*args)
        last = [*zip(i.args, kinds, args)][-2:]
        if name in _CHOICES and out.dtype.kind == "f" and all(k == out or a < 0 and k.form == NUMBER for a, k, _ in last):
            return _CHOICES[name].format(
                *args[:-2], *(r if k == out else self.source.name(out.dtype.type(constant(a))) for a, k, r in last)
            )
        scalars = {k.dtype for k in kinds if k.form == SCALAR}
        if len(scalars) == 1 and (dtype := scalars.pop()).kind == "f":
            if name in _OF_ONE:
                return _OF_ONE[name].format(*args)
            whole = [a < 0 and type(constant(a)) is int and abs(constant(a)) < 2**53 for a in i.args]
            args = [self.source.name(dtype.type(constant(a))) if w else x for a, w, x in zip(i.args, whole, args)]
            kinds = [k for k, w in zip(kinds, whole) if not w]
        plain = name in _OPERATORS and all(k.form == SCALAR or k.dtype.kind == "f" for k in kinds)
        return _OPERATORS[name].format(*args) if plain and any(k.form == SCALAR for k in kinds) else None

    def _buffered(self, i: Instruction, out: Kind | None, index: int, inplace: bool = True, turned: bool = False) -> str:
        plan = self.plan
        out_is = ", out=" if i.primitive.fun in KEYWORD else ", "
        if i.out in self.places:
            place = self._place(i.out, index)  # which is taken before the arguments are free: it may lie across them
            plan.release(index)
            return out_is + place
        if out is None or out.form != ARRAY or not out.shape or i.out in plan.out or i.out not in plan.last:
            home = self._home(i.out, index, inplace=inplace)
            plan.release(index)
            return out_is + home if home is not None else ""
        if inplace:
            plan.release(index)
            return out_is + plan.take(i.out)
        buffer = plan.take(i.out, turned)  # one that is free before the arguments'; BLAS writes rows
        plan.release(index)
        return out_is + buffer

    def _special(self, i: Instruction, args: list[str], out: Kind | None) -> str | None:
        name, params = i.primitive.name, i.params
        if i.out in self.wholes:
            whole = self.wholes[i.out]
            for a, x, (where, _) in zip(i.args, args, params[0]):
                self.first += [] if a in self.places else [f"    {whole}[{self.source.name(where)}] = {x}"]
            return whole
        if name == "getitem":
            kind = self.program.kinds[i.args[0]]
            found = None if kind is None else taken(kind.shape, params[0])
            if found is None:
                return f"{args[0]}[{self.source.name(params[0])}]"
            return f"{args[0]}.take({self.source.name(found[0])}, {found[1]})"
        if name == "placed" and out is not None and out.size <= COUNTED and not is_basic(params[0]):
            made = f"{self.source.name(zeros, 'zeros')}({params[1]}, {self.source.name(out.dtype)})"
            if distinct(params[1], params[0]):
                return f"{self.source.name(set_in, 'set_in')}({made}, {args[0]}, {self.source.name(params[0])})"
            return self._added(made, args[0], out, params[0])
        if name == "index_add" and out is not None and out == self.program.kinds[i.args[0]] and not self.plan.layout.way(out):
            return self._added(f"np.array({args[0]}, order='C')", args[1], out, params[0])
        if name == "roll" and out is not None and len(params[1]) == 1 and 0 < out.size <= ROLLED:
            places = np.roll(np.arange(out.shape[params[1][0]]), *params[0])
            return f"{args[0]}.take({self.source.name(places)}, {params[1][0]})"
        if (way := self.plan.layout.way(out)) and (text := self._turned(i, args, way)) is not None:
            return text
        if name == "stack" and out is not None and i.out in self.multiplied and params == (len(out.shape) - 1,):  # each part in one piece
            return f"{self.source.name(np.array, 'array')}([{', '.join(args)}]).transpose({(*range(1, len(out.shape)), 0)})"
        if name == "reshape":
            return f"{args[0]}.reshape({self.source.name(params[0])})"
        if name == "transpose":
            return f"{args[0]}.T" if params[0] == (*range(len(params[0])),)[::-1] else f"{args[0]}.transpose({self.source.name(params[0])})"
        if name in REDUCE:
            kind = self.program.kinds[i.args[0]]
            if name == "sum" and params[0] is None and i.out not in self.read:
                return f"{self.source.name(checksum, 'checksum')}({args[0]})"
            if kind is not None and kind.form == ARRAY and windows(kind, params[0]) and not self.plan.layout.way(kind):
                return f"{self.source.name(folded, 'folded')}({self.source.name(REDUCTIONS[name])}, {args[0]}, {params[0]}, {params[1]})"
            if kind is not None and name == "sum" and by_products(kind, params[0]) and not self.plan.layout.way(kind):
                return f"{self.source.name(summed, 'summed')}({args[0]}, {params[1]})"
            if kind is not None and name == "sum" and not params[1] and (axes := by_rows(kind, params[0])):
                return f"{self.source.name(total, 'total')}({args[0]}, {axes})"
            far = self.plan.layout.way(kind) == LAST
            if kind is not None and kind.form == ARRAY and (far or not short(kind, params[0], name != "sum")):
                return f"{self.source.name(REDUCE[name], 'f')}({args[0]}, {params[0]}, None, None, {params[1]})"
        return None

    def _added(self, x: str, v: str, kind: Kind | None, index: Any) -> str | None:
        """The expression that adds to an array at places that are known."""
        places = known_places(kind.shape, index) if kind is not None and kind.size <= COUNTED else None
        if places is None:
            return None
        return f"{self.source.name(add_at, 'add_at')}({x}, {v}, {self.source.name(index)}, {self.source.name(places)})"

    def _turned(self, i: Instruction, args: list[str], way: int) -> str | None:
        """The expression of what else would give an array, or read arrays, as NumPy lays them."""
        kinds = self.program.kinds
        if way == FIRST and (found := subscripts(i, kinds)) is not None:
            lay = self.source.name(laid, "laid")
            return f"{self.source.name(np.einsum, 'einsum')}({found!r}, {', '.join([f'{lay}({x})' for x in args])})"
        if (params := filled(i, kinds)) is None:
            return None
        text = ", ".join([*args, *(self.source.name(q) for q in params)])
        return f"{self.source.name(PARTS.fun, 'filled')}({text}, made={self.source.name(EMPTY[way])})"

    # Groups

    def _group(self, group: Group, made: list[int], index: int) -> list[str]:
        """The call of a group's loop, whose functions are put before the program."""
        emitter = Loop(self.program, group, made, self.plan.layout)
        name = f"loop{len(self.loops)}"
        lines = []
        for v in made:
            if v in group.made:
                kind = self.program.kinds[v]
                across = emitter.turned and len(kind.shape) > 1 and (v in self.plan.out or self.plan.layout.way(kind) != FIRST)
                if across:
                    emitter.across.add(v)
                home = None if across else self._home(v, index, emitter)
                if home is not None:
                    lines.append(f"    {self.variable[v]} = {home}")
                elif v in self.plan.out:
                    lines.append(f"    {self.variable[v]} = empty({kind.shape}, {self.source.name(kind.dtype)})")
                else:
                    lines.append(f"    {self.variable[v]} = {self._inherited(v, index, emitter) or self.plan.take(v)}")
        self.source.names[name] = emitter.build(name)
        self.loops.append(emitter.text(name))
        call = ", ".join([*(self._arg(a) for a in emitter.inputs), *(self.variable[v] for v in made if v in group.made)])
        results = [self.variable[v] for v in made if v in group.parts]
        lines.append(f"    {targets(results)} = {name}({call})" if results else f"    {name}({call})")
        return lines

    def _shares(self, loop: Loop, v: int, k: int) -> bool:
        """Whether a result of a group takes the memory of an argument that ends with it, block by block, of which there is no view."""
        return not any(k in self.plan.roots.get(a, (a,)) for a in loop.inputs if a != k) and loop.share(v, k)

    def _inherited(self, v: int, index: int, loop: Loop) -> str | None:
        """The buffer of an argument that ends with the group, if a result can take it over."""
        plan, kind = self.plan, self.program.kinds[v]
        spec = kind.shape, kind.dtype, plan.layout.way(kind)
        for k in loop.inputs:
            if k in plan.owner and plan.last[k] == index and plan.buffers[plan.owner[k]] == spec and self._shares(loop, v, k):
                plan.owner[v] = plan.owner.pop(k)
                return f"B{plan.owner[v]}"
        return None
