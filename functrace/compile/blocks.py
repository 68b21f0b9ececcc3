"""Blocks: the code of a fused group, which takes a block of rows at a time, each thread with scratch arrays of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace import threads
from functrace.compile.fuse import BLOCK, MOVES, REDUCTIONS, Group, axes_of
from functrace.compile.layout import empty, tall
from functrace.compile.program import ARRAY, Instruction, Program
from functrace.compile.source import KEYWORD, REDUCE, Source, by_products, targets
from functrace.ops.rows import summed

BLOCK_SHARED = 1 << 16  # elements of a block on several threads: they take turns at the interpreter's lock between blocks
PARALLEL, WORK = 1 << 18, 1 << 22  # elements, or results of instructions, from which on several threads work


def staggered(specs: Sequence[tuple[tuple[int, ...], Any]], turned: bool) -> list[Any]:
    """Arrays in one piece of memory, none of which begins at the same place in a page as another: such are slow to use together.

    If `turned`, their first axis is innermost.
    """
    sizes = [dtype.itemsize * math.prod(shape) for shape, dtype in specs]
    starts, end = [], 0
    for k, size in enumerate(sizes):
        end += -end % 4096 + 704 * (k + 1) % 4096
        starts.append(end)
        end += size
    memory = np.empty(end, np.uint8)
    made = []
    for start, size, (shape, dtype) in zip(starts, sizes, specs):
        flat = memory[start : start + size].view(dtype)
        made.append(empty(shape, dtype, lambda shape, _, x=flat: x.reshape(shape)) if turned else flat.reshape(shape))
    return made


class Loop:
    """The code of one group."""

    def __init__(self, program: Program, group: Group, made: list[int], uneven: bool = False) -> None:
        self.program, self.group, self.kinds = program, group, program.kinds
        self.turned = uneven and tall(group.shape)
        inside = {i.out for i in group.instructions}
        self.inputs = list(dict.fromkeys(a for i in group.instructions for a in i.args if a not in inside and a >= 0))
        self.outputs = [v for v in made if v in group.made]
        self.parts = [i for i in group.instructions if i.out in group.parts and i.out in made]
        self.source = Source()
        self.scratch: list[tuple[tuple[int, ...], Any]] = []
        size = max(self.row(i.out) for i in group.instructions)
        self.size = max(1, size)
        total = group.length * self.size
        self.parallel = total >= PARALLEL or total >= BLOCK_SHARED and total * len(group.instructions) >= WORK
        block = BLOCK_SHARED if self.parallel and threads.count() > 1 else BLOCK
        self.rows = max(1, min(group.length, block // self.size))
        self.count = -(-group.length // self.rows)

    def row(self, v: int) -> int:
        """Elements in a row of a value."""
        kind = self.kinds[v]
        assert kind is not None
        return 1 if self.group.flat or v in self.group.parts else kind.size // self.group.length

    def text(self, name: str) -> str:
        """What is shown of it."""
        return "\n".join(f"# {name}: {line}" for line in self.source.lines)

    def _shape(self, v: int) -> tuple[int, ...]:
        kind = self.kinds[v]
        assert kind is not None
        return (self.rows,) if self.group.flat else (self.rows, *kind.shape[1:])

    def build(self, name: str) -> Callable[..., Any]:
        """Compile the function of one block, and make the loop over all."""
        group, kinds = self.group, self.kinds
        last: dict[int, int] = {}
        shows: dict[int, int] = {}  # of a view: whose memory it shows
        for index, i in enumerate(group.instructions):
            for a in i.args:
                last[a] = last[shows.get(a, a)] = index
            if i.primitive.name in MOVES:
                shows[i.out] = shows.get(i.args[0], i.args[0])
        shows.clear()
        free: dict[Any, list[int]] = {}
        owner: dict[int, int] = {}
        names: dict[int, str] = {}
        lines: list[str] = []
        rows: dict[tuple[int, bool], str] = {}

        def arg(a: int, ndim: int) -> str:
            kind = kinds[a]
            assert kind is not None
            if a in names:
                return names[a]
            whole = f"i{self.inputs.index(a)}" if a >= 0 else self.source.name(self.program.constant(a))
            row = bool(group.is_row(a, kind, ndim))
            if (a, row) not in rows:
                rows[a, row] = f"a{len(rows)}" if row else whole
                if row:
                    flat = ".reshape(-1)" if group.flat and len(kind.shape) != 1 and a < 0 else ""
                    lines.append(f"    {rows[a, row]} = {whole}{flat}[lo:hi]")
            return rows[a, row]

        for index, i in enumerate(group.instructions):
            out = kinds[i.out]
            assert out is not None
            ndim = 1 if group.flat else len(out.shape)
            reduces = i.primitive.name in REDUCTIONS
            moves = i.primitive.name in MOVES
            args = [arg(a, len(kinds[a].shape) if reduces or moves else len(out.shape)) for a in i.args]  # type: ignore[union-attr]
            if moves:  # a view: it keeps the memory of what it shows
                names[i.out] = f"v{index}"
                lines.append(f"    {names[i.out]} = {args[0]}.reshape((-1, {', '.join(map(str, out.shape[1:]))}))")
                shows[i.out] = shows.get(i.args[0], i.args[0])
                if i.out in self.outputs:
                    lines.append(f"    w{self.outputs.index(i.out)}[lo:hi] = {names[i.out]}")
                continue
            for a in {shows.get(a, a) for a in i.args}:
                if last[a] == index and a in owner:
                    key = self.scratch[owner[a]]
                    free.setdefault(key, []).append(owner.pop(a))
            if i.out in group.parts:
                part = next((k for k, p in enumerate(self.parts) if p is i), None)
                if part is not None:
                    x = kinds[i.args[0]]
                    assert x is not None
                    axes = None if group.flat else axes_of(i.params[0], len(x.shape))
                    f = self.source.name(REDUCE[i.primitive.name], "f")
                    lines.append(f"    p{part}[b] = {f}({args[0]}, {axes}, None, None, {False if group.flat else i.params[1]})")
                continue
            if i.out in self.outputs:
                target = names[i.out] = f"o{self.outputs.index(i.out)}"
                lines.append(f"    {target} = w{self.outputs.index(i.out)}[lo:hi]")
            else:
                key = (self._shape(i.out), out.dtype)
                available = free.get(key)
                if available:
                    number = available.pop()
                else:
                    number = len(self.scratch)
                    self.scratch.append(key)
                owner[i.out] = number
                target = names[i.out] = f"s{number}"
            lines.append("    " + self._line(i, args, target, ndim))
            if i.out not in last and i.out in owner:
                free.setdefault(self.scratch[owner[i.out]], []).append(owner.pop(i.out))
        head = "def block(b, lo, hi, scratch, inputs, outputs, parts):"
        unpack = [
            f"    {targets([f'{letter}{k}' for k in range(n)])} = {what}"
            for letter, n, what in (("i", len(self.inputs), "inputs"), ("w", len(self.outputs), "outputs"), ("p", len(self.parts), "parts"))
            if n
        ]
        if self.scratch:
            unpack.append(f"    {targets([f's{k}' for k in range(len(self.scratch))])} = scratch")
        self.source.lines = [head, *unpack, *lines]
        block = self.source.compile(name)["block"]
        return self._loop(block)

    def _line(self, i: Instruction, args: list[str], target: str, ndim: int) -> str:
        name = i.primitive.name
        if name == "where":
            dtype = self.kinds[i.out].dtype  # type: ignore[union-attr]
            args = [self.source.name(np.array(c, dtype)) if self._is_number(a, dtype) else x for a, x, c in self._consts(i, args)]
            return f"select({', '.join(args)}, {target})"
        if name in ("astype", "astype_constant", "broadcast_to"):
            return f"np.copyto({target}, {args[0]}, 'unsafe')"
        if name in REDUCTIONS:
            f = self.source.name(REDUCE[name], "f")
            x = self.kinds[i.args[0]]
            assert x is not None and ndim > 0
            if name == "sum" and not self.turned and by_products(x, i.params[0]):
                return f"{self.source.name(summed, 'summed')}({args[0]}, {i.params[1]}, {target})"
            return f"{f}({args[0]}, {axes_of(i.params[0], len(x.shape))}, None, {target}, {i.params[1]})"
        out = "out=" if i.primitive.fun in KEYWORD else ""
        return f"{self.source.function(i.primitive)}({', '.join(args)}, {out}{target})"

    def _consts(self, i: Instruction, args: list[str]) -> list[tuple[int, str, Any]]:
        return [(a, x, self.program.constant(a) if a < 0 else None) for a, x in zip(i.args, args)]

    def _is_number(self, a: int, dtype: Any) -> bool:
        """Whether an argument is a constant number that takes a floating-point dtype."""
        kind = self.kinds[a]
        return a < 0 and kind is not None and kind.form != ARRAY and dtype.kind == "f" and kind.dtype.kind != "b"

    def _loop(self, block: Callable[..., Any]) -> Callable[..., Any]:
        rows, length, count, scratch_specs, turned = self.rows, self.group.length, self.count, self.scratch, self.turned
        inputs_n, flat = len(self.inputs), self.group.flat
        shape = self.group.shape
        parts = [(self._part_shape(i), self.kinds[i.out], REDUCE[i.primitive.name]) for i in self.parts]
        parallel = self.parallel
        sets: list[list[Any]] = []

        def run(*arrays: Any) -> Any:
            ins: Any = arrays[:inputs_n]
            outs: Any = arrays[inputs_n:]
            if flat and len(shape) != 1:
                ins = [x.reshape(-1) if isinstance(x, np.ndarray) and x.shape == shape else x for x in ins]
                outs = [x.reshape(-1) for x in outs]
            pieces = [np.empty((count, *s), k.dtype) for s, k, _ in parts]  # type: ignore[union-attr]

            def task(b: int) -> None:
                lo = b * rows
                hi = min(lo + rows, length)
                try:
                    scratch = sets.pop()
                except IndexError:
                    scratch = staggered(scratch_specs, turned)
                try:
                    block(b, lo, hi, scratch if hi - lo == rows else [s[: hi - lo] for s in scratch], ins, outs, pieces)
                finally:
                    sets.append(scratch)

            if parallel:
                threads.run(task, range(count))
            else:
                for b in range(count):
                    task(b)
            results = []
            for piece, (_, kind, reduce) in zip(pieces, parts):
                total = reduce(piece, 0)
                results.append(total if total.shape == kind.shape else total.reshape(kind.shape))  # type: ignore[union-attr]
            return results

        return run

    def _part_shape(self, i: Instruction) -> tuple[int, ...]:
        kind = self.kinds[i.out]
        assert kind is not None
        return () if self.group.flat else kind.shape
