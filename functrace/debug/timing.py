"""`profile`: where the time and the memory of a run went, by op, by line of the program, and by the blocks of jitted programs."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any, NamedTuple

from functrace import tree
from functrace.compile.emit import Executable
from functrace.compile.fuse import Group
from functrace.compile.program import GUARD
from functrace.core.tracer import bare
from functrace.debug.watch import Op, Watch

_BLOCKS = 12  # of a program that are listed one by one
_RUNS = 5  # of a jitted program, of which the fastest counts


class Row(NamedTuple):
    """Time, in seconds, memory made, in bytes, and calls, of an op or a line: forwards and backwards."""

    name: str
    forward: float
    reverse: float
    bytes: int
    calls: int


class Block(NamedTuple):
    """A step of a jitted program: the ops that it does at once, its time in seconds, and the bytes that it writes."""

    name: str
    ops: tuple[str, ...]
    seconds: float
    bytes: int


class Program(NamedTuple):
    """A jitted function as it runs when nobody watches: its steps, and the seconds that a whole call takes."""

    name: str
    blocks: list[Block]
    seconds: float


class Profile(Watch):
    """Where time and memory went: see `profile`. `result` is what the function returned, `seconds` what it took in all, watched."""

    result: Any = None
    seconds = 0.0

    def __init__(self) -> None:
        self.entries: list[Any] = []  # op, line, direction, seconds, bytes, whether it is a call
        self.programs: list[Program] = []
        self._jitted: dict[int, tuple[Any, Any, Any]] = {}
        super().__init__()

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__()} - {*vars(Watch), "applied", "finish"})  # what a run calls is for no one else

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k != "applied"}  # a copy is of what was found

    def forward(self, op: Op, seconds: float) -> None:
        way = self.applied.rules[-1][1] if self.applied.rules else "forward"
        self.entries.append((op.name, op.line, way, seconds, _bytes(op.ans), True))

    def rule(self, op: Op, which: str, k: int | None, given: Any, result: Any, seconds: float) -> None:
        self.entries.append((op.name, op.line, which, seconds, _bytes(result), False))

    def jitted(self, function: Any, args: Any, kwargs: Any) -> None:
        if not any(hasattr(x, "owner") for x in tree.leaves((args, kwargs))):
            self._jitted.setdefault(id(function), (function, args, kwargs))

    def finish(self) -> None:
        """Time what was jitted as it runs when nobody watches."""
        for function, args, kwargs in self._jitted.values():
            program = _timed_program(function, args, kwargs)
            if program is not None:
                self.programs.append(program)
        self._jitted = {}

    def total(self, direction: str) -> float:
        """Seconds spent in `"forward"` ops, or in the rules, `"reverse"`."""
        return float(sum(entry[3] for entry in self.entries if entry[2] == direction))

    def _rows(self, key: int) -> list[Row]:
        found: dict[str, list[Any]] = {}
        for entry in self.entries:
            row = found.setdefault(entry[key], [0.0, 0.0, 0, 0])
            row[entry[2] == "reverse"] += entry[3]
            row[2] += entry[4]
            row[3] += entry[5]
        return sorted((Row(name, *row) for name, row in found.items()), key=lambda row: -(row.forward + row.reverse))

    def by_op(self) -> list[Row]:
        """A row for each kind of op, the slowest first."""
        return self._rows(0)

    def by_line(self) -> list[Row]:
        """A row for each line of the program, the slowest first."""
        return self._rows(1)

    def _tables(self) -> Iterator[tuple[str, list[str], list[list[str]]]]:
        for title, rows in (("op", self.by_op()), ("line", self.by_line())):
            whole = sum(row.forward + row.reverse for row in rows) or 1.0
            shown = [
                [
                    _time(row.forward),
                    _time(row.reverse),
                    f"{100 * (row.forward + row.reverse) / whole:.0f} %",
                    _size(row.bytes),
                    str(row.calls),
                    os.path.basename(row.name) or "-",
                ]
                for row in rows[:20]
            ]
            yield f"by {title}", ["forward", "reverse", "share", "memory", "calls", title], shown
        for program in self.programs:
            whole = sum(block.seconds for block in program.blocks) or 1.0
            shown = [
                [_time(b.seconds), f"{100 * b.seconds / whole:.0f} %", _size(b.bytes), f"{b.name}: {_listed(b.ops)}" if b.ops else b.name]
                for b in _gathered(program.blocks, whole / 100)
            ]
            yield f"{program.name} as it runs when nobody watches: {_time(program.seconds)}", ["time", "share", "memory", "block"], shown

    def _summary(self) -> str:
        forward, reverse = self.total("forward"), self.total("reverse")
        rest = max(0.0, self.seconds - forward - reverse)
        return (
            f"{_time(forward)} in ops, {_time(reverse)} in their rules backwards, {_time(rest)} in Python, recording and watching: "
            f"{_time(self.seconds)} in all"
        )

    def __str__(self) -> str:
        if not self.entries:
            return (
                "Nothing was traced: profile a function that is differentiated, batched or jitted, or one with floating-point arguments. "
                "For tensors use cProfile."
            )
        out = [self._summary()]
        for title, head, rows in self._tables():
            widths = [max(len(row[k]) for row in [head, *rows]) for k in range(len(head) - 1)]
            lines = ["  ".join([*(x.rjust(w) for x, w in zip(row, widths)), row[-1]]) for row in [head, *rows]]
            out += ["", title, *lines]
        return "\n".join(out)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self.entries:
            return f"<p>{escape(str(self))}</p>"
        right, left = "text-align:right;padding:.15em .8em;white-space:nowrap", "text-align:left;padding:.15em .8em;font-family:monospace"
        parts = [f"<p>{escape(self._summary())}</p>"]
        for title, head, rows in self._tables():
            share = head.index("share")
            body = []
            for row in rows:
                cells = []
                for k, x in enumerate(row):
                    bar = float(x.split()[0]) if k == share else 0.0
                    back = f";background:linear-gradient(to right,#4a90d955 {bar:.0f}%,transparent {bar:.0f}%)" if bar else ""
                    cells.append(f'<td style="{left if k == len(row) - 1 else right}{back}">{escape(x)}</td>')
                body.append(f"<tr>{''.join(cells)}</tr>")
            top = "".join(f'<th style="{left if k == len(head) - 1 else right}">{escape(x)}</th>' for k, x in enumerate(head))
            style = "border-collapse:collapse;font-variant-numeric:tabular-nums"
            parts.append(
                f'<p><b>{escape(title)}</b></p><table style="{style}"><thead><tr>{top}</tr></thead><tbody>{"".join(body)}</tbody></table>'
            )
        return "".join(parts)


def _bytes(x: Any) -> int:
    return sum(_bytes(y) for y in x) if isinstance(x, (tuple, list)) else int(getattr(bare(x), "nbytes", 0))


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms" if seconds < 1 else f"{seconds:.3f} s"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def _gathered(blocks: list[Block], least: float) -> list[Block]:
    """The blocks in their order; of many, those that take less than this as one, at the end."""
    small = [b for b in blocks if b.seconds < least]
    if len(blocks) <= _BLOCKS or len(small) < 2:
        return blocks
    rest = Block(f"{len(small)} others", (), sum(b.seconds for b in small), sum(b.bytes for b in small))
    return [*(b for b in blocks if b.seconds >= least), rest]


def _listed(ops: Sequence[str]) -> str:
    return ", ".join(ops[:12]) + (f" and {len(ops) - 12} more" if len(ops) > 12 else "")


# Programs of `jit`, line by line


_NUMBERS = "numbers"  # operations on the elements of small arrays


class _Timed:
    """An executable whose steps are timed; in all else it is the one that it stands for."""

    def __init__(self, executable: Executable) -> None:
        self.executable = executable
        lines = executable.text.split("\n")
        start = next(k for k, line in enumerate(lines) if line.startswith("def program"))
        body = start + 1 + sum(line.endswith(("= inputs", "= buffers")) for line in lines[start + 1 : start + 3])
        self.count = len(lines) - body
        timed = copy.copy(executable.source)
        timed.names = {**timed.names, "tick": self._tick}
        ticking = [row for k, line in enumerate(lines[body:]) for row in ([line, f"    tick({k})"] if k < self.count - 1 else [line])]
        timed.lines = [*lines[:body], "    tick(-1)", *ticking]
        self.function = timed.compile("a timed program", "program")
        self.runs: list[tuple[float, list[float]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.executable, name)

    def _tick(self, k: int) -> None:
        self.ticks[k + 1] = time.perf_counter()

    def __call__(self, inputs: list[Any]) -> Any:
        self.ticks = [0.0] * self.count
        buffers = self.executable.buffers()
        self.function(list(inputs), buffers)  # once to touch the buffers
        start = time.perf_counter()
        out = self.function(inputs, buffers)
        self.runs.append((time.perf_counter() - start, [b - a for a, b in zip(self.ticks, self.ticks[1:])]))
        return out

    def blocks(self) -> list[Block]:
        """What the steps took in the fastest run: the lines of a step together."""
        seconds, start = min(self.runs)[1], 0
        out: list[Block] = []
        executable = self.executable
        kinds, reads = executable.program.kinds, executable.plan.reads
        for index, (step, end) in enumerate(zip(executable.steps, executable.ends)):
            took, start = sum(seconds[start:end]), end
            if isinstance(step, Group):
                made = [kinds[i.out] for i in step.instructions if reads.get(i.out, -1) > index]
                size = sum(kind.nbytes for kind in made if kind is not None)
                names = tuple(i.primitive.name for i in step.instructions)
                out.append(Block(f"loop of {len(names)} ops", names, took, size))
            elif step.out in executable.few:
                before = out.pop() if out and out[-1].name == _NUMBERS else Block(_NUMBERS, (), 0.0, 0)
                out.append(Block(_NUMBERS, (*before.ops, step.primitive.name), before.seconds + took, 0))
            else:
                kind = kinds.get(step.out)
                name = "guard" if step.primitive is GUARD else step.primitive.name
                out.append(Block(name, (), took, 0 if kind is None else kind.nbytes))
        return out


def _timed_program(function: Any, args: Any, kwargs: Any) -> Program | None:
    """The program that a jitted function runs for these arguments, timed; None if it runs as Python."""
    function(*args, **kwargs)
    seconds = min(_seconds(function, args, kwargs) for _ in range(_RUNS))
    paths = [path for variant in function._all() for path in variant.paths]
    timed = [_Timed(path.executable) for path in paths]
    for path, one in zip(paths, timed):
        path.executable = one
    try:
        for _ in range(_RUNS):
            function(*args, **kwargs)
    finally:
        for path, one in zip(paths, timed):
            path.executable = one.executable
    ran = next((one for one in timed if one.runs), None)
    return None if ran is None else Program(repr(function).strip("<>"), ran.blocks(), seconds)


def _seconds(function: Callable[..., Any], args: Any, kwargs: Any) -> float:
    start = time.perf_counter()
    function(*args, **kwargs)
    return time.perf_counter() - start
