"""What `explain` and `profile` keep of a run, and how they show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functrace import errors, tree
from functrace.core.reverse import fit
from functrace.debug.watch import Op, Watch, number
from functrace.transforms.arguments import signature


def brief(x: Any) -> str:
    """A value in a few characters: its numbers if they are few, else shape, dtype and range."""
    plain = number(x)
    if isinstance(plain, (bool, int, float, complex)):
        plain = np.asarray(plain)
    if not isinstance(plain, (np.ndarray, np.generic)):
        return errors.describe(plain)
    a = np.asarray(plain)
    if a.size <= 6:
        return np.array2string(a, precision=4, separator=", ", max_line_width=10**6).replace("\n", "")
    if a.dtype.kind not in "iuf" or not np.isfinite(a).all():
        return errors.describe(a)
    return f"{errors.describe(a)} in [{a.min():.4g}, {a.max():.4g}]"


def several(xs: Any) -> str:
    """A value, or the values of a tuple of them, in a few characters."""
    return ", ".join("-" if x is None else brief(x) for x in xs) if isinstance(xs, (list, tuple)) else brief(xs)


class Step(NamedTuple):
    """One op, forwards: its name in the listing, itself, its operands' names, and its local derivatives by operand."""

    label: str
    op: Op
    operands: list[str]
    partials: list[tuple[str, Any]]


class Back(NamedTuple):
    """One op, backwards: the cotangent of its result, and what each operand is handed."""

    label: str
    given: Any
    handed: list[tuple[str, Any]]


class Recording(Watch):
    """The ops of the outermost run, in the order in which they ran, and the cotangents that passed through them."""

    def __init__(self, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self.names: dict[int, str] = {}
        self.inputs: list[tuple[str, Any]] = []
        try:
            parameters = list(signature(f).parameters)
        except (TypeError, ValueError):
            parameters = []
        parameters += [f"arg{k}" for k in range(len(parameters), len(args))]
        self.floats: list[bool] = []  # of all leaves, which are differentiated
        for name, arg in zip(parameters, args):
            for path, leaf in zip(tree.paths(arg), tree.leaves(arg)):
                self.floats.append(leaf.dtype.kind in "fc" if hasattr(leaf, "dtype") else type(leaf) in (int, float, complex))
                if self.floats[-1]:
                    self.names[len(self.inputs)] = name + path
                    self.inputs.append((name + path, leaf))
        self.ops: list[Op] = []
        self.rules: list[tuple[Op, int | None, Any, Any]] = []
        self.trace: Any = None

    def forward(self, op: Op, seconds: float) -> None:
        if self.trace is None or op.trace is self.trace:
            self.trace = op.trace
            self.ops.append(op)

    def rule(self, op: Op, which: str, k: int | None, given: Any, result: Any, seconds: float) -> None:
        """A rule was applied."""
        if op.trace is self.trace and which == "reverse":
            self.rules.append((op, k, given, result))

    def label(self, slot: int, x: Any) -> str:
        """What an operand is called: its name, or a constant's numbers."""
        return brief(x) if slot < 0 else self.names.get(slot, f"%{slot}")

    def result(self, op: Op) -> str:
        """What the result of an op is called; those of an op that has several."""
        if isinstance(op.ans, tuple):
            return ", ".join(f"%{op.out + 1 + k}" for k in range(len(op.ans)))
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
                            partials.append((operands[k], rule(one, op.ans, *op.args, *op.params)))
            out.append(Step(self.result(op) if op.out >= 0 else "", op, operands, partials))
        return out

    def backs(self) -> list[Back]:
        """The ops, backwards; the rules of one op together."""
        out: list[Back] = []
        last: Op | None = None
        for op, k, given, result in self.rules:
            many = isinstance(result, (list, tuple))
            pairs = zip(range(len(op.args)), result) if many else [(k or 0, result)]
            handed = [(self.label(op.slots[j], op.args[j]), fit(d, op.args[j])) for j, d in pairs if d is not None and op.slots[j] >= 0]
            if op is last:
                out[-1].handed.extend(handed)
            else:
                out.append(Back(self.result(op), given, handed))
            last = op
        return out


class Explanation:
    """A run, forwards and backwards, with its numbers: see `functrace.debug.explain`."""

    def __init__(self, recording: Recording, out: Sequence[Any], grads: Sequence[Any]) -> None:
        self.inputs = recording.inputs
        self.forward, self.reverse = recording.steps(), recording.backs()
        leaves = [g for g, wanted in zip(tree.leaves(list(grads)), recording.floats) if wanted]
        self.gradient = [(name, g) for (name, _), g in zip(self.inputs, leaves)]
        self.out = out

    def text(self, lines: bool = True) -> str:
        """As text, one op a line; `lines` adds those of the program."""
        rows = ["forward", *(f"  {name} = {brief(x)}" for name, x in self.inputs)]
        for step in self.forward:
            head = f"{step.label} = " if step.label else ""
            value = several(step.op.ans)
            slopes = "".join(f"   d/d{name} = {brief(d)}" for name, d in step.partials)
            where = f"   # {step.op.line}" if lines and step.op.line else ""
            rows.append(f"  {head}{step.op.name}({', '.join(step.operands)}) = {value}{slopes}{where}")
        rows.append("reverse")
        for back in self.reverse:
            given = several(back.given)
            rows.append(f"  {back.label} gets {given} : {', '.join(f'{name} += {brief(d)}' for name, d in back.handed)}")
        return "\n".join([*rows, "gradient", *(f"  {name} : {brief(g)}" for name, g in self.gradient)])

    __str__ = __repr__ = text

    def to_html(self) -> str:
        """A page by itself, that steps forwards and backwards through the run: buttons, or the arrow keys."""
        import html  # these two take longer to import than all of this module
        import json

        frames: list[tuple[str, int, str]] = []
        ops = {step.label: k for k, step in enumerate(self.forward) if step.label}
        for k, step in enumerate(self.forward):
            value = several(step.op.ans)
            slopes = "".join(f"<br>local derivative in {html.escape(name)}: <b>{html.escape(brief(d))}</b>" for name, d in step.partials)
            call = html.escape(f"{step.op.name}({', '.join(step.operands)})")
            frames.append(("forward", k, f"{call} = <b>{html.escape(value)}</b>{slopes}<br><small>{html.escape(step.op.line)}</small>"))
        for back in self.reverse:
            given = several(back.given)
            handed = "".join(f"<br>to {html.escape(name)}: <b>{html.escape(brief(d))}</b>" for name, d in back.handed)
            frames.append(
                ("reverse", ops.get(back.label, 0), f"cotangent of {html.escape(back.label)}: <b>{html.escape(given)}</b>{handed}")
            )
        rows = "".join(
            f"<tr id=r{k}><td>{html.escape(step.label)}</td><td>{html.escape(step.op.name)}({html.escape(', '.join(step.operands))})</td>"
            f"<td class=v></td><td class=g></td></tr>"
            for k, step in enumerate(self.forward)
        )
        end = "".join(f"<li>{html.escape(name)}: {html.escape(brief(g))}</li>" for name, g in self.gradient)
        start = "".join(f"<li>{html.escape(name)} = {html.escape(brief(x))}</li>" for name, x in self.inputs)
        script = json.dumps(frames).replace("</", "<\\/")
        return _PAGE.replace("@start", start).replace("@rows", rows).replace("@end", end).replace("@frames", script)

    _repr_html_ = to_html


_PAGE = """<!doctype html><meta charset=utf-8><title>functrace: explain</title>
<style>
body{font:15px/1.45 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
table{border-collapse:collapse;width:100%}
td{padding:.25rem .6rem;border-bottom:1px solid #e3e3e3;font-family:ui-monospace,monospace}
tr.forward{background:#e8f1fb}tr.reverse{background:#fdeee2}#now{min-height:7rem;border-left:4px solid #888;padding:.4rem .8rem;
margin:1rem 0}
#now.forward{border-color:#2b6cb0}#now.reverse{border-color:#c05621}
button{font:inherit;padding:.2rem .8rem}li{font-family:ui-monospace,monospace}
</style>
<h1>Forwards, then backwards</h1><ul>@start</ul>
<p><button id=back>&larr; back</button> <button id=next>next &rarr;</button> <span id=count></span></p>
<div id=now></div><table><tr><td>name<td>op<td>value<td>cotangent</tr>@rows</table><h2>Gradient</h2><ul>@end</ul>
<script>
const frames=@frames;let k=0;const $=id=>document.getElementById(id);
function bold(t){const m=t.match(/<b>(.*?)<\\/b>/);return m?m[1]:''}
function show(){document.querySelectorAll('tr').forEach(r=>{r.className=''});
document.querySelectorAll('.v,.g').forEach(c=>{c.innerHTML=''});
frames.slice(0,k+1).forEach(([way,row,text])=>{$('r'+row).querySelector(way=='forward'?'.v':'.g').innerHTML=bold(text)});
const [way,row,text]=frames[k];$('r'+row).className=way;$('now').className=way;$('now').innerHTML=way+'<br>'+text;
$('count').textContent=(k+1)+' of '+frames.length}
function move(d){k=Math.max(0,Math.min(frames.length-1,k+d));show()}
$('back').onclick=()=>move(-1);$('next').onclick=()=>move(1);
document.onkeydown=e=>{if(e.key=='ArrowRight')move(1);if(e.key=='ArrowLeft')move(-1)};if(frames.length)show();
</script>
"""


class Row(NamedTuple):
    """Time, in seconds, memory made, in bytes, and calls, of an op or a line: forwards and backwards."""

    name: str
    forward: float
    reverse: float
    bytes: int
    calls: int


class Profile(Watch):
    """Where time and memory went: see `functrace.debug.profile`. `result` is what the function returned."""

    result: Any = None

    def __init__(self) -> None:
        self.entries: list[Any] = []  # op, line, direction, seconds, bytes

    def forward(self, op: Op, seconds: float) -> None:
        made = sum(getattr(number(x), "nbytes", 0) for x in (op.ans if isinstance(op.ans, tuple) else (op.ans,)))
        self.entries.append((op.name, op.line, "forward", seconds, made))

    def rule(self, op: Op, which: str, k: int | None, given: Any, result: Any, seconds: float) -> None:
        """A rule was applied."""
        made = sum(getattr(number(x), "nbytes", 0) for x in (result if isinstance(result, (tuple, list)) else (result,)))
        self.entries.append((op.name, op.line, "reverse", seconds, made))

    def total(self, direction: str) -> float:
        """Seconds spent in `"forward"` ops, or in the rules, `"reverse"`."""
        return float(sum(seconds for _, _, way, seconds, _ in self.entries if way == direction))

    def _rows(self, key: int) -> list[Row]:
        found: dict[str, list[Any]] = {}
        for entry in self.entries:
            row = found.setdefault(entry[key], [0.0, 0.0, 0, 0])
            row[entry[2] == "reverse"] += entry[3]
            row[2] += entry[4]
            row[3] += entry[2] == "forward"
        return sorted((Row(name, *row) for name, row in found.items()), key=lambda row: -(row.forward + row.reverse))

    def by_op(self) -> list[Row]:
        """A row for each kind of op, the slowest first."""
        return self._rows(0)

    def by_line(self) -> list[Row]:
        """A row for each line of the program, the slowest first."""
        return self._rows(1)

    def __str__(self) -> str:
        out = []
        for title, rows in (("op", self.by_op()), ("line", self.by_line())):
            out.append(f"{'forward':>11} {'reverse':>11} {'memory':>9} {'calls':>6}  {title}")
            for row in rows[:20]:
                out.append(f"{_time(row.forward)} {_time(row.reverse)} {row.bytes / 1e6:>6.1f} MB {row.calls:>6}  {row.name}")
            out.append("")
        return "\n".join(out)

    __repr__ = __str__


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:>8.3f} ms"
