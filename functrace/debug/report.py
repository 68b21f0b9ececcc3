"""`explain`: what is kept of a run, forwards and backwards, and how it is told."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from functrace import errors, tree
from functrace.core.reverse import fit
from functrace.core.tracer import bare
from functrace.debug.values import brief, several
from functrace.debug.watch import Op, Watch
from functrace.transforms.naming import fresh, stored
from functrace.transforms.tracing import parameters_of


def _kept(xs: Any) -> Any:
    """The arrays behind a value, or behind each of several."""
    return [bare(x) for x in xs] if isinstance(xs, (list, tuple)) else bare(xs)


class Partial(NamedTuple):
    """The local derivative of an elementwise op in one of its operands."""

    operand: int
    name: str
    value: Any


class Step(NamedTuple):
    """One op, forwards: its name in the listing, itself, its operands' names, and its local derivatives."""

    label: str
    op: Op
    operands: list[str]
    partials: list[Partial]

    @property
    def call(self) -> str:
        """The op as it is called, with those of its parameters that say something."""
        told = () if self.op.primitive.name == "call" else (p for p in self.op.params if p is not None and p is not False)
        return f"{self.op.name}({', '.join([*self.operands, *map(errors.short, told)])})"


class Share(NamedTuple):
    """What one operand is handed backwards, and what it has received in all by then."""

    operand: int
    slot: int
    name: str
    value: Any
    total: Any


class Back(NamedTuple):
    """One op, backwards: the cotangent of its result, and what each operand is handed."""

    label: str
    op: Op
    given: Any
    handed: list[Share]


def varies(x: Any) -> bool:
    """Whether a leaf of an argument is differentiated."""
    return x.dtype.kind in "fc" if hasattr(type(x), "dtype") else type(x) in (int, float, complex)


class Recording(Watch):
    """The ops of the outermost run, in the order in which they ran, and the cotangents that passed through them."""

    def __init__(self, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.what = getattr(f, "__name__", type(f).__name__)
        self.names: dict[int, str] = {}
        self.inputs: list[tuple[str, Any]] = []
        self.floats: list[bool] = []  # of all leaves of arguments that vary, which are differentiated
        for name, arg in zip(parameters_of(f, len(args)), args):
            floats = [*map(varies, tree.leaves(arg))]
            if not any(floats):  # labels, say: it is passed on
                continue
            self.floats += floats
            for path, leaf, wanted in zip(tree.paths(arg), tree.leaves(arg), floats):
                if wanted:
                    self.names[len(self.inputs)] = name + path
                    self.inputs.append((name + path, leaf))
        self.ops: list[Op] = []
        self.rules: list[tuple[Op, int | None, Any, Any]] = []
        self.trace: Any = None

    def forward(self, op: Op, seconds: float) -> None:
        if self.trace is None or op.trace is self.trace:
            self.trace = op.trace
            self.ops.append(op)

    def name(self) -> None:
        """Call results what the program calls them: a name that is used again gets a number, as on a tape."""
        taken = dict.fromkeys(self.names.values(), 0)
        for op, after in zip(self.ops, [*self.ops[1:], None]):
            line = (op.code, op.lasti)  # only what it made in the end gets its name
            last = after is None or line != (after.code, after.lasti) or after.within <= op.within  # it is visited again
            found = stored(op.code, op.lasti) or [] if op.code is not None and op.out >= 0 and last else []
            many = len(op.ans) if isinstance(op.ans, tuple) else 0
            for k, name in enumerate(found if len(found) == (many or 1) else []):
                self.names[op.out + k + bool(many)] = fresh(name, taken)

    def rule(self, op: Op, which: str, k: int | None, given: Any, result: Any, seconds: float) -> None:
        if op.trace is self.trace and which == "reverse":
            self.rules.append((op, k, _kept(given), _kept(result)))

    def label(self, slot: int, x: Any) -> str:
        """What an operand is called: its name, or a constant's numbers."""
        return brief(x) if slot < 0 else self.names.get(slot, f"%{slot}")

    def result(self, op: Op) -> str:
        """What the result of an op is called; those of an op that has several."""
        if isinstance(op.ans, tuple):
            return ", ".join(self.label(op.out + 1 + k, x) for k, x in enumerate(op.ans))
        return self.label(op.out, op.ans)

    def steps(self) -> list[Step]:
        """The ops, forwards."""
        out = []
        for op in self.ops:
            operands = [self.label(s, a) for s, a in zip(op.slots, op.args)]
            partials = []
            if op.primitive.elementwise and op.out >= 0:
                one = np.ones(np.shape(op.ans), op.ans.dtype)[()]
                with np.errstate(all="ignore"):
                    for k, (slot, rule) in enumerate(zip(op.slots, op.primitive.vjps)):
                        if slot >= 0 and rule is not None:
                            partials.append(Partial(k, operands[k], rule(one, op.ans, *op.args, *op.params)))
            out.append(Step(self.result(op) if op.out >= 0 else "", op, operands, partials))
        return out

    def backs(self) -> list[Back]:
        """The ops, backwards; the rules of one op together."""
        out: list[Back] = []
        totals: dict[int, Any] = {}
        for op, k, given, result in self.rules:
            many = isinstance(result, (list, tuple))
            if not out or op is not out[-1].op:
                out.append(Back(self.result(op), op, given, []))
            for j, d in zip(range(len(op.args)), result) if many else [(k or 0, result)]:
                slot = op.slots[j]
                if d is not None and slot >= 0:
                    d = fit(d, op.args[j])
                    totals[slot] = d if slot not in totals else totals[slot] + d
                    out[-1].handed.append(Share(j, slot, self.label(slot, op.args[j]), d, totals[slot]))
        return out


def _folded(line: str, first: str, rest: list[str]) -> str:
    """A line, or where it is too long for a terminal one for each part."""
    return line if len(line) <= 100 else "\n      ".join([first, *rest])


class Explanation:
    """A run, forwards and backwards, with its numbers: see `explain`."""

    def __init__(self, recording: Recording, out: Sequence[Any], grads: Sequence[Any]) -> None:
        recording.name()
        self.what, self.inputs = recording.what, recording.inputs
        self.forward, self.reverse = recording.steps(), recording.backs()
        leaves = [g for g, wanted in zip(tree.leaves(list(grads)), recording.floats) if wanted]
        self.gradient = [(name, g) for (name, _), g in zip(self.inputs, leaves)]
        self.out = out

    def text(self, lines: bool = True) -> str:
        """As text, one op a line; `lines` adds those of the program."""
        return "\n".join(self._rows(lines))

    def _rows(self, lines: bool) -> Iterator[str]:
        yield from ["forward", *(f"  {name} = {brief(x)}" for name, x in self.inputs)]
        for step in self.forward:
            head = f"{step.label} = " if step.label else ""
            slopes = [f"d/d{name} = {brief(d)}" for _, name, d in step.partials]
            where = f"   # {os.path.basename(step.op.line)}" if lines and step.op.line else ""
            first = f"  {head}{step.call} = {several(step.op.ans)}"
            yield _folded("   ".join([first, *slopes]) + where, first + where, slopes)
        yield "reverse"
        for back in self.reverse:
            handed = [f"{share.name} += {brief(share.value)}" for share in back.handed]
            first = f"  {back.label} gets {several(back.given)} :"
            yield _folded(f"{first} {', '.join(handed)}", first, handed)
        yield from ["gradient", *(f"  {name} : {brief(g)}" for name, g in self.gradient)]

    __str__ = __repr__ = text

    def to_html(self) -> str:
        """A page by itself, that steps forwards and backwards through the run: buttons, or the arrow keys."""
        from functrace.debug.page import page  # most who explain print the text

        return page(self)

    html = to_html

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, whose name ends in .html."""
        if not (found := os.fspath(path)).lower().endswith((".html", ".htm")):
            raise ValueError(
                f"explain: {found!r} does not end in .html; an explanation is saved as a page.\n  functrace.draw makes pictures."
            )
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_html())

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that it meets nothing else in a notebook."""
        from html import escape

        style = f"width:100%;height:{min(46, 22 + 2 * len(self.forward))}rem;border:1px solid #8884;border-radius:8px"
        return f'<iframe srcdoc="{escape(self.to_html())}" style="{style}" title="explain({escape(self.what)})"></iframe>'
