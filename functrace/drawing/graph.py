"""What a tape or a jitted program says, as a plain graph: boxes with lines of text, and arrows. Boxes stand before those they point to.

A tape's forward graph has a box for each input, each constant array, each op (several results leave one box) and each output. Its
backward graph has one for the cotangent of each output, the pullback of each op that a cotangent reaches, the gradient of each input,
and a sum wherever several cotangents meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from functrace import errors
from functrace.compile.bodies import body_program
from functrace.compile.program import GUARD, Instruction, Program, program_of
from functrace.core.primitive import Primitive
from functrace.core.tape import ITEM, Tape
from functrace.core.tracer import value
from functrace.places import text_of
from functrace.transforms.calls import CALL, is_float
from functrace.transforms.naming import Lines, checks, names_of
from functrace.transforms.tracing import constant_text, parameter_names


class Box:
    """A box: its `kind`, which is its colour, its lines of text, and `hint`, which shows when the mouse is over it.

    What can be folded has `like`: equal for ops that are alike. `calls` are the user's calls that it was made in, as pairs of a number
    and a name, the outermost first; `line` is the user's line; `count` is the number of ops in it. `inner` are the graphs of what a
    loop repeats, and of the branches of a `cond`, which are drawn inside.
    """

    __slots__ = ("calls", "count", "hint", "inner", "kind", "like", "line", "ordered", "text")

    def __init__(
        self,
        kind: str,
        text: Sequence[str],
        hint: str = "",
        like: Any = None,
        calls: Sequence[tuple[int, str]] = (),
        line: str = "",
        count: int = 1,
        ordered: bool = False,
        inner: Sequence[Graph] = (),
    ) -> None:
        self.kind, self.text, self.hint, self.like, self.calls = kind, list(text), hint, like, tuple(calls)
        self.inner = list(inner)
        self.line, self.count, self.ordered = line, count, ordered  # `ordered`: its arrows arrive in the order of the arguments


class Arrow(NamedTuple):
    """An arrow between two boxes, by number, with a short label and a hint."""

    source: int
    target: int
    label: str = ""
    hint: str = ""


class Graph:
    """Boxes in an order in which arrows run forwards, and arrows.

    It is a graph of a run's "values", of its "cotangents", or of a tensor's "history"; `reverse` where arrows run as cotangents do.
    """

    def __init__(self, title: str, of: str = "values", reverse: bool = False) -> None:
        self.title, self.of, self.reverse = title, of, reverse
        self.boxes: list[Box] = []
        self.arrows: list[Arrow] = []

    def add(self, box: Box) -> int:
        """Append a box; its number."""
        self.boxes.append(box)
        return len(self.boxes) - 1

    def join(self, source: int, target: int, label: str = "", hint: str = "") -> None:
        """Append an arrow."""
        self.arrows.append(Arrow(source, target, label, hint))

    def __repr__(self) -> str:
        return f"<graph of {self.title}: {len(self.boxes)} boxes, {len(self.arrows)} arrows>"


def kind_text(x: Any) -> str:
    """Shape and dtype of a value, or of each of several."""
    return " × ".join(map(errors.describe, x)) if isinstance(x, tuple) else errors.describe(x)


def _is_inline(x: Any) -> bool:
    """Whether a constant is short enough to be written in the box of its op."""
    return not (hasattr(x, "shape") and np.shape(x) != ()) and not isinstance(x, (list, tuple, dict))


def _call_text(primitive: Primitive, operands: Sequence[str], params: tuple[Any, ...]) -> str:
    """An op with its parameters, and its operands where some are numbers: `sum(axis=0)`, `multiply(·, 2)`."""
    if primitive.name == "call":
        return str(params[0])
    shown = [n + constant_text(p) for n, p in zip(parameter_names(primitive, len(params)), params)]
    shown = [s for s in shown if s not in ("axis=None", "keepdims=False", "mode='reduced'")]
    inner = [*operands, *shown] if any(o != "·" for o in operands) else shown
    return f"{primitive.name}({', '.join(inner)})" if inner else primitive.name


def _like(primitive: Primitive, params: tuple[Any, ...], operands: Sequence[str], kind: str) -> tuple[Any, ...]:
    return primitive.name, tuple(map(constant_text, params)), tuple(o == "·" for o in operands), kind


def _function(tape: Tape) -> str:
    return tape.what[tape.what.find("(") + 1 : -1] if tape.what.endswith(")") else tape.what


def places(tape: Tape) -> list[tuple[str, tuple[tuple[int, str], ...]]]:
    """For each entry the user's line, and the calls that it was made in, without that of the traced function itself."""
    lines = tape.frames
    if not isinstance(lines, Lines):
        return [("", ())] * len(tape.entries)
    paths: list[tuple[tuple[int, str], ...]] = []
    for call in lines.calls:  # a call comes after the one that it was made in
        paths.append((*(paths[call.parent] if call.parent >= 0 else ()), (len(paths), call.name)))
    cut = len({p[0][0] for p in paths} | ({-1} if -1 in lines.call else set())) == 1
    return [(lines.text(row), paths[k][cut:] if k >= 0 else ()) for row, k in enumerate(lines.call)]


def forward(tape: Tape) -> Graph:
    """The ops of a tape, as they ran."""
    where = {entry[1]: place for entry, place in zip(tape.entries, places(tape))}
    recorded, hidden = program_of(tape), {tape.entries[row][1] for row in checks(tape)}
    recorded.instructions = [i for i in recorded.instructions if i.out not in hidden]
    return program(recorded, _function(tape), names=names_of(tape), where=where)


DEEP = 3  # loops in loops that are drawn, each in the box of the one that it is in


def inside(primitive: Primitive, params: tuple[Any, ...], depth: int = 0) -> list[Graph]:
    """The graphs of what an op repeats or chooses from, where it is a loop or a branch."""
    graphs = []
    for body in params[0].bodies() if primitive is CALL and depth < DEEP else ():
        recorded = body_program(body.program)
        graphs.append(program(recorded, body.title, body.outputs, depth + 1, dict(enumerate(body.inputs))))
    return graphs


def program(
    compiled: Program, title: str = "program", outputs: Sequence[str] = (), depth: int = 0, names: Any = None, where: Any = None
) -> Graph:
    """The instructions of a program: of a jitted function, with its guards; of a tape, of whose results `where` gives line and calls; or
    of the body of a loop.
    """
    graph = Graph(title)
    kinds = {k: errors.describe(kind) for k, kind in compiled.kinds.items() if kind is not None}
    several: dict[int, list[str]] = {}
    for i in compiled.instructions:
        if i.primitive is ITEM:
            several.setdefault(i.args[0], []).append(kinds.get(i.out, ""))
    kinds |= {k: " × ".join(parts) for k, parts in several.items()}
    names = {k: f"%{k}" for k in range(compiled.next)} | dict(enumerate(compiled.names)) | (names or {})
    made: dict[int, tuple[int, str]] = {}  # value -> box and label of the arrow
    constants: dict[int, int] = {}

    def told(k: int) -> str:
        return f"{names[k]} : {kinds[k]}" if kinds.get(k) else names[k]

    def start(k: int) -> tuple[int, str] | None:
        """Where the arrow of an argument starts; None of a constant that is written in the box."""
        if k >= 0:
            return made[k]
        x = compiled.constant(k)
        if _is_inline(x):
            return None
        if id(x) not in constants:
            constants[id(x)] = graph.add(Box("constant", ["constant", kind_text(x)], f"constant {kind_text(x)}"))
        return constants[id(x)], ""

    def guard(i: Instruction) -> Box:
        read, found, _ = i.params
        word = f"{getattr(read, '__name__', 'value')}: {constant_text(found)}"
        return Box("guard", [word], f"the program is replayed where {word}", ("guard", word), ordered=True)

    def op(i: Instruction, operands: list[str]) -> Box:
        call, (line, calls) = _call_text(i.primitive, operands, i.params), (where or {}).get(i.out, ("", ()))
        like = _like(i.primitive, i.params, operands, kinds.get(i.out, ""))
        hint = f"{told(i.out)} = {call}" + (f"\n{source(line)}" if line else "")
        return Box("op", [call, told(i.out)], hint, like, calls, line, 1, True, inside(i.primitive, i.params, depth))

    used = {k for i in compiled.instructions for k in i.args} | set(compiled.outputs)
    for k in range(compiled.ninputs):
        if k in used or not depth:
            made[k] = graph.add(Box("input", [names[k], kinds.get(k, "")], f"input {told(k)}")), ""
    for i in compiled.instructions:
        if i.primitive is ITEM:
            made[i.out] = made[i.args[0]][0], f"[{i.params[0]}]" if names[i.out].startswith("%") else names[i.out]
            continue
        if i.primitive is GUARD and where is not None:
            continue
        starts = [*map(start, i.args)]
        operands = [constant_text(compiled.constant(k)) if s is None else "·" for k, s in zip(i.args, starts)]
        box = graph.add(guard(i) if i.primitive is GUARD else op(i, operands))
        if i.primitive is not GUARD:
            made[i.out] = box, ""
        for j, (k, arrow) in enumerate(zip(i.args, starts)):
            if arrow is not None:
                graph.join(arrow[0], box, arrow[1], f"{told(k) if k >= 0 else 'a constant'}, argument {j} of {i.primitive.name}")
    for n, k in enumerate(compiled.outputs):
        title = outputs[n] if outputs else f"output {n}" if len(compiled.outputs) > 1 else "output"
        constant = k < 0 and _is_inline(compiled.constant(k))
        shown = f"constant {constant_text(compiled.constant(k))}" if constant else kinds.get(k, "")
        box = graph.add(Box("output", [title, shown], f"{title} : {shown}"))
        if k >= 0:
            graph.join(made[k][0], box, made[k][1], told(k))
    return graph


def source(line: str) -> str:
    """The user's line with its text, where it can be read."""
    text = text_of(line)
    return f"{line}\n{text}" if text else line


def backward(tape: Tape) -> Graph:
    """The cotangents of a tape's reverse replay: from those of the outputs, through the ops' pullbacks, to the inputs' gradients."""
    names, where = names_of(tape), places(tape)
    graph = Graph(f"{_function(tape)}, backward", "cotangents", True)
    arriving: dict[int, list[tuple[int, str]]] = {}
    for k, (s, x) in enumerate(zip(tape.slots, tape.outputs)):
        if s >= 0 and _varies(x):
            title = f"cotangent of output {k}" if len(tape.slots) > 1 else "cotangent of output"
            arriving.setdefault(s, []).append((graph.add(Box("output", [title, kind_text(x)], f"{title} : {kind_text(x)}")), ""))
    shapes = dict(enumerate(map(kind_text, tape.inputs))) | {e[1]: kind_text(e[4]) for e in tape.entries}

    def reach(s: int, target: int) -> None:
        """Arrows from what has arrived for a slot to a box."""
        for start, label in arriving[s]:
            graph.join(start, target, label, f"cotangent of {names[s]} : {shapes[s]}")

    def summed(s: int, calls: Any, line: str) -> None:
        """One box for the sum, where several cotangents have arrived for a slot."""
        if len(arriving[s]) > 1:
            hint = f"the cotangent of {names[s]} : {shapes[s]} is a sum of {len(arriving[s])}"
            plus = graph.add(Box("sum", ["+"], hint, ("+", len(arriving[s])), calls, line, count=0))
            reach(s, plus)
            arriving[s] = [(plus, "")]

    for row in range(len(tape.entries) - 1, -1, -1):
        primitive, out, slots, args, ans, params = tape.entries[row]
        if out not in arriving or primitive.constant:
            continue
        line, calls = where[row]
        if not primitive.multi:  # of those the cotangents are a tuple
            summed(out, calls, line)
        if primitive is ITEM:
            arriving.setdefault(slots[0], []).append((arriving[out][0][0], f"[{params[0]}]"))
            continue
        saved = _saved(primitive, slots, args, out, names)
        text = [f"pullback of {primitive.name if primitive.name != 'call' else params[0]}", *saves(saved)]
        hint = f"pullback of {names[out]} = {primitive.name}" + "".join(f"\nsaves {s}" for s in saved)
        like = ("pullback", *_like(primitive, params, ["·" if s >= 0 else "" for s in slots], shapes[out]))
        box = graph.add(Box("back", text, hint + (f"\n{source(line)}" if line else ""), like, calls, line))
        if primitive.multi:  # each of its results has an arrow, though it is one pullback
            reach(out, box)
        else:
            start, label = arriving[out][0]
            graph.join(start, box, label, f"cotangent of {names[out]} : {shapes[out]}")
        rules = [True] * len(slots) if primitive.arity is None or primitive.joint else [r is not None for r in primitive.vjps]
        for s, a, rule in zip(slots, args, rules):
            if s >= 0 and rule and _varies(a):
                arriving.setdefault(s, []).append((box, ""))
    for k, x in enumerate(tape.inputs):
        if _varies(x):
            if k in arriving:
                summed(k, (), "")
            shown = kind_text(x) if k in arriving else f"{kind_text(x)}, zero"
            box = graph.add(Box("input", [f"gradient of {names[k]}", shown], f"gradient of {names[k]} : {shown}"))
            if k in arriving:
                reach(k, box)
    return graph


def _varies(x: Any) -> bool:
    """Whether a value has a derivative: it is of floats or complex numbers."""
    return is_float(x) or isinstance(x, (float, complex))


def _saved(primitive: Primitive, slots: tuple[int, ...], args: tuple[Any, ...], out: int, names: dict[int, str]) -> list[str]:
    """What the reverse replay looks into: values by name, with shapes; constants that are arrays too."""
    first, *rest = primitive.needed(slots) or (False,)
    shown = [names[s] if s >= 0 else kind_text(value(a)) if not _is_inline(a) else "" for s, a, keep in zip(slots, args, rest) if keep]
    return [s for s in dict.fromkeys([*shown, *([names[out]] if first else [])]) if s]


def saves(parts: Sequence[str]) -> list[str]:
    """`saves x, y`: what a box says of the values that the reverse replay needs, in lines of about 30 characters."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(part) + 2 <= 30:
            lines[-1] += f", {part}"
        else:
            lines.append(("  " if lines else "saves ") + part)
    return lines if len(lines) <= 4 else [*lines[:3], f"  and {len(parts) - 3} more"]
