"""Blocks: the code of a fused group, which takes a block of rows at a time, each thread with scratch arrays of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace import threads
from functrace.blockwise import BLOCK
from functrace.compile.fuse import MIXING, MOVES, REDUCTIONS, Group, axes_of
from functrace.compile.layout import FIRST, LAST, LONG, Layout, einsum_text, laid, loops, narrow, products, tall
from functrace.compile.parts import NAMES, filled
from functrace.compile.passes import is_elementwise
from functrace.compile.program import ARRAY, NUMBER, Instruction, Kind, Program
from functrace.compile.source import KEYWORD, REDUCE, Source, by_products, by_rows, product, summed_product, targets
from functrace.ops.rows import extreme, folded, short, windows
from functrace.sums import summed, total

_OWN_AXES = frozenset((*REDUCTIONS, *MOVES, *NAMES, "contraction"))  # whose arguments need not have as many axes as the result
PARALLEL, WORK = 1 << 18, 1 << 22  # elements, or results of instructions, from which on several threads work


Axes = tuple[int, ...]


def staggered(specs: Sequence[tuple[tuple[int, ...], Any, Axes]]) -> list[Any]:
    """Arrays in one piece of memory, each with its axes in an order of its own, none of which begins at the same place in a page as
    another: such are slow to use together.
    """
    sizes = [dtype.itemsize * math.prod(shape) for shape, dtype, _ in specs]
    starts, end = [], 0
    for k, size in enumerate(sizes):
        end += -end % 4096 + 704 * (k + 1) % 4096
        starts.append(end)
        end += size
    memory = np.empty(end, np.uint8)
    made = []
    for start, size, (shape, dtype, order) in zip(starts, sizes, specs):
        flat = memory[start : start + size].view(dtype)
        made.append(flat.reshape([shape[a] for a in order]).transpose(np.argsort(order)))
    return made


def _reduction(i: Instruction) -> Callable[..., Any]:
    """How the parts of a reduction over rows are put together."""
    return REDUCE["sum" if i.primitive.name == "matmul" else i.primitive.name]


class Loop:
    """The code of one group."""

    def __init__(self, program: Program, group: Group, made: list[int], layout: Layout) -> None:
        self.program, self.group, self.kinds = program, group, program.kinds
        inside = {i.out for i in group.instructions}
        self.inputs = list(dict.fromkeys(a for i in group.instructions for a in i.args if a not in inside and a >= 0))
        self.outputs = [v for v in made if v in group.made]
        self.parts = [i for i in group.instructions if i.out in group.parts and i.out in made]
        self.apart = layout.deep and not group.flat
        self.laid: dict[tuple[int, int], Any] = {}  # constants, copied to lie as the block's arrays do
        self.copied: set[int] = set()  # inputs that are as narrow arrays are
        self.source = Source()
        self.lines: list[str] = []
        self.names: dict[int, str] = {}  # of values made in the block
        self.cut: dict[int, str] = {}  # of the block's rows of what comes from outside
        self.last: dict[int, int] = {}  # the instruction that reads a value, or a view of it, for the last time
        self.shows: dict[int, int] = {}  # of a view: whose memory it shows
        self.pieces: set[int] = set()  # views that show a part of it, or in another order
        self.scratch: list[tuple[tuple[int, ...], Any, Axes]] = []
        self.owned: dict[int, int] = {}  # the scratch array that a value is in
        self.free: dict[Any, list[int]] = {}
        self.opened: dict[int, str] = {}  # the block's rows of outputs
        self.shared: dict[int, int] = {}  # the input whose memory an output takes
        self.across: set[int] = set()  # outputs that do not lie as the block's arrays do: copied to when they are made
        self._cut_up()
        starts = self.rows >= LONG // 4 and self._stands_alone() and any(loops(i, self.kinds) for i in group.instructions)
        short = layout.uneven and not group.flat and any(tall(self.kinds[i.out].shape) for i in group.instructions if i.out in group.made)
        self.turned = starts or short  # with the loop axis innermost
        self._last_uses()

    def _cut_up(self) -> None:
        """Decide how many rows a block has, and whether several threads are to work."""
        group = self.group
        rows = [self.row(i.out) for i in group.instructions if i.primitive.name not in MOVES]
        size = max(1, sum(n * n for n in rows) // max(1, sum(rows)))  # of the operation that an element is in, on average
        total, widest = group.length * size, group.length * max(rows, default=1)
        block = BLOCK // max(kind.dtype.itemsize for i in group.instructions if (kind := self.kinds[i.out]))
        self.parallel = widest >= PARALLEL or total >= block and group.length * sum(rows) >= WORK
        count = -(-total // block)
        count += count % 2 if self.parallel else 0
        self.rows = max(1, min(-(-group.length // count), block // size))
        self.count = -(-group.length // self.rows)
        self.piece = "[lo:hi]" if self.count > 1 else ""

    def row(self, v: int) -> int:
        """Elements in a row of a value."""
        kind = self.kinds[v]
        return 1 if self.group.flat or v in self.group.parts else kind.size // self.group.length

    def _stands_alone(self) -> bool:
        """Whether no array of rows goes out, and only factors of products come in."""
        pairs = [(a, self._ndim(a, i)) for i in self.group.instructions if i.primitive.name != "matmul" for a in i.args if a in self.inputs]
        rows = [*self.outputs, *(a for a, ndim in pairs if self.group.is_row(a, self.kinds[a], ndim))]
        return not any(len(self.kinds[v].shape) > 1 for v in rows)

    def text(self, name: str) -> str:
        """What is shown of it."""
        return "\n".join(f"# {name}: {line}" for line in self.source.lines)

    def _shape(self, v: int) -> tuple[int, ...]:
        kind = self.kinds[v]
        return (self.rows,) if self.group.flat else (self.rows, *kind.shape[1:])

    def build(self, name: str) -> Callable[..., Any]:
        """Compile the function of one block, and make the loop over all."""
        for index, i in enumerate(self.group.instructions):
            self._add(index, i)
        head = "def block(b, lo, hi, scratch, inputs, outputs, parts):"
        unpack = [
            f"    {targets([f'{letter}{k}' for k in range(n)])} = {what}"
            for letter, n, what in (("i", len(self.inputs), "inputs"), ("w", len(self.outputs), "outputs"), ("p", len(self.parts), "parts"))
            if n
        ]
        if self.scratch:
            unpack.append(f"    {targets([f's{k}' for k in range(len(self.scratch))])} = scratch")
        self.source.lines = [head, *unpack, *self.lines]
        return self._loop(self.source.compile(name, "block"))

    def _last_uses(self) -> None:
        for index, i in enumerate(self.group.instructions):
            for a in i.args:
                self.last[a] = self.last[self._shown(a)] = index
            if i.primitive.name in MOVES:
                self.shows[i.out] = self._shown(i.args[0])
                if i.primitive.name != "reshape" or i.args[0] in self.pieces:
                    self.pieces.add(i.out)

    def _shown(self, a: int) -> int:
        """The value whose memory a value shows: its own, if it is no view."""
        return self.shows.get(a, a)

    def _add(self, index: int, i: Instruction) -> None:
        out = self.kinds[i.out]
        name = i.primitive.name
        args = [
            self._factor(i, n) if name == "matmul" and len(out.shape) == 2 else self._arg(a, self._ndim(a, i)) for n, a in enumerate(i.args)
        ]
        if name in MOVES:
            self._show(i, args[0], f"v{index}")
            return
        over = [a for a in {self._shown(a) for a in i.args} if self.last[a] == index]
        late = self._mixes(i) or name == "sign"  # which, in place, takes NumPy ten times as long where signs can't be guessed
        for a in over if not late else ():
            self._release(a)
        if i.out in self.group.parts:
            if i in self.parts:
                self._write(self._part(i, args))
            return
        target = self._target(i.out, index)
        WRITING.get(name, Loop._ufunc)(self, i, args, target)
        if i.out in self.across:
            self._write(f"w{self.outputs.index(i.out)}{self.piece or '[:]'} = {target}")
        for a in over if late else ():
            self._release(a)
        if i.out not in self.last:
            self._release(i.out)

    def _write(self, line: str) -> None:
        self.lines.append("    " + line)

    def _mixes(self, i: Instruction) -> bool:
        """Whether an instruction reads elements after it has written others: its result must not lie where an argument does."""
        return i.primitive.name in MIXING or not self.pieces.isdisjoint(i.args)

    def _ndim(self, a: int, i: Instruction) -> int:
        """How many axes an argument would have as a row value."""
        return len(self.kinds[a if i.primitive.name in _OWN_AXES else i.out].shape)

    def _arg(self, a: int, ndim: int) -> str:
        """How a value is written: of an input, and of a constant, that has the group's rows, those of the block."""
        if a in self.names:
            return self.names[a]
        kind = self.kinds[a]
        row = self.group.is_row(a, kind, ndim)
        whole = f"i{self.inputs.index(a)}" if a >= 0 else self._constant(a, bool(row))
        if not row:
            if a >= 0 and self.apart and narrow(kind.shape):
                self.copied.add(self.inputs.index(a))
            return f"{whole}.reshape(-1)" if self.group.flat and len(kind.shape) > 1 else whole
        if a not in self.cut:
            self.cut[a] = f"a{len(self.cut)}"
            flat = ".reshape(-1)" if self.group.flat and len(kind.shape) != 1 and a < 0 else ""
            piece = f"{whole}{flat}{self.piece}"
            if self.apart and len(kind.shape) > 2 and kind.shape[-2] == 1 < kind.shape[-1]:
                piece = f"{self.source.name(laid, 'laid')}({piece}, {LAST})"
            self._write(f"{self.cut[a]} = {piece}")
        return self.cut[a]

    def _constant(self, a: int, row: bool) -> str:
        """The name of a constant, which lies as the block's arrays do."""
        shape = self.kinds[a].shape
        way = FIRST if row and self.turned and len(shape) > 1 else LAST if not row and self.apart and narrow(shape) else 0
        if way and (a, way) not in self.laid:
            self.laid[a, way] = laid(self.program.constant(a), way)
        return self.source.name(self.laid[a, way] if way else self.program.constant(a))

    def _factor(self, i: Instruction, n: int) -> str:
        """How an argument of a product is written: the block's rows, or its columns, or all of it."""
        a, sums = i.args[n], i.out in self.group.parts
        if a in self.names or sums == bool(n):
            return self._arg(a, 2)
        whole = f"i{self.inputs.index(a)}" if a >= 0 else self.source.name(self.program.constant(a))
        return f"{whole}[:, lo:hi]" if sums and self.piece else whole

    def _part(self, i: Instruction, args: Sequence[str]) -> str:
        """A reduction over rows, of which each block makes its part."""
        x = args[0]
        if i.primitive.name == "matmul":
            return f"p{self.parts.index(i)}[b] = {self.source.name(summed_product, 'summed_product')}({x}, {args[1]})"
        kind = self.kinds[i.args[0]]
        over = by_rows(kind, i.params[0]) if i.primitive.name == "sum" and not (self.group.flat or self.turned) else ()
        if over and over[-1] - over[0] + 1 == len(over):
            return f"p{self.parts.index(i)}[b] = {self.source.name(total, 'total')}({x}, {over})"
        f = self.source.name(REDUCE[i.primitive.name], "f")
        axes, keepdims = (None, False) if self.group.flat else (axes_of(i.params[0], len(kind.shape)), i.params[1])
        return f"p{self.parts.index(i)}[b] = {f}({x}, {axes}, None, None, {keepdims})"

    def _target(self, v: int, index: int) -> str:
        kind = self.kinds[v]
        home = v if v in self.outputs and v not in self.across else self._heir(v, index)
        if home is not None:
            if home in self.shared:
                self.opened[home] = self._arg(self.shared[home], 1 if self.group.flat else len(kind.shape))
            elif home not in self.opened:
                self.opened[home] = f"o{self.outputs.index(home)}"
                self._write(f"{self.opened[home]} = w{self.outputs.index(home)}{self.piece}")
            self.names[v] = self.opened[home]
            return self.names[v]
        shape = self._shape(v)
        key = shape, kind.dtype, self._order(shape)
        if free := self.free.get(key):
            self.owned[v] = free.pop()
        else:
            self.owned[v] = len(self.scratch)
            self.scratch.append(key)
        self.names[v] = f"s{self.owned[v]}"
        return self.names[v]

    def _order(self, shape: tuple[int, ...]) -> Axes:
        """The axes of a scratch array, the innermost last."""
        axes = tuple(range(len(shape)))
        if self.turned:
            return (*axes[1:], 0)
        return (*axes[-1:], *axes[:-1]) if self.apart and len(axes) > 2 and narrow(shape) else axes

    def share(self, v: int, k: int) -> bool:
        """Put an output where an input lies that nobody needs after the group, if its rows are read by then; says whether they are."""
        made, by = next((index, i) for index, i in enumerate(self.group.instructions) if i.out == v)
        fits = self.kinds[v] == self.kinds[k] and self.last.get(k, -1) <= made - self._mixes(by)
        fits = fits and k not in self.shared.values() and k not in self.group.whole
        fits = fits and all(self.group.is_row(k, self.kinds[k], self._ndim(k, i)) for i in self.group.instructions if k in i.args)
        if fits and k in self.inputs:
            self.shared[v] = k
        return fits

    def _heir(self, v: int, index: int) -> int | None:
        """The output made where a value is read for the last time, if it can be made in place: the value is put into its array."""
        i = self.group.instructions[self.last.get(v, index)]
        alike = v in i.args and self.kinds[i.out] == self.kinds[v]
        below = self.shared.get(i.out)
        free = i.out in self.outputs and i.out not in self.opened and i.out not in self.across
        free = free and (below is None or self.last[below] <= index - self._mixes(self.group.instructions[index]))
        return i.out if alike and free and (is_elementwise(i.primitive) or i.primitive.name == "where") else None

    def _release(self, v: int) -> None:
        if v in self.owned:
            number = self.owned.pop(v)
            self.free.setdefault(self.scratch[number], []).append(number)

    # How the result of an instruction is written to its place, or shown

    def _show(self, i: Instruction, x: str, name: str) -> None:
        """A view, which keeps the memory of what it shows."""
        out = self.kinds[i.out]
        shape = f"-1, {', '.join(map(str, out.shape[1:]))}" if i.primitive.name == "reshape" else ", ".join(map(str, i.params[0]))
        view = f"[{self.source.name(i.params[0])}]" if i.primitive.name == "getitem" else f".{i.primitive.name}(({shape}))"
        self.names[i.out] = name
        self._write(f"{name} = {x}{view}")

    def _ufunc(self, i: Instruction, args: list[str], target: str) -> None:
        if i.primitive.fun in KEYWORD and i.args[1] < 0 and args[0] != target and self.kinds[i.out].dtype.char == "f":
            self._write(f"{target}.fill({args[1]})")  # of float32, NumPy's loop for an array and a number is slower
            args[1] = target
        out = "out=" if i.primitive.fun in KEYWORD else ""
        self._write(f"{self.source.function(i.primitive)}({', '.join(args)}, {out}{target})")

    def _own_function(self, i: Instruction, args: list[str], target: str) -> None:
        """Of a primitive whose function takes the array to be written to last."""
        self._write(f"{self.source.function(i.primitive)}({', '.join([*args, *map(self.source.name, i.params), target])})")

    def _cast(self, _i: Instruction, args: list[str], target: str) -> None:
        self._write(f"np.copyto({target}, {args[0]}, 'unsafe')")

    def _select(self, i: Instruction, args: list[str], target: str) -> None:
        dtype = self.kinds[i.out].dtype
        for n, a in enumerate(i.args):
            if a < 0 and dtype.kind == "f" and self.kinds[a].form != ARRAY and self.kinds[a].dtype.kind != "b":
                args[n] = self.source.name(np.array(self.program.constant(a), dtype))
        if self.kinds[i.args[0]].form == NUMBER:
            args[0] = f"np.bool_({args[0]})"
        self._write(f"select({', '.join(args)}, {target})")

    def _multiply(self, i: Instruction, args: list[str], target: str) -> None:
        f = product if len(self.kinds[i.out].shape) == 2 else products if self.turned else np.matmul
        self._write(f"{self.source.name(f, f.__name__)}({', '.join(args)}, {target})")

    def _contract(self, i: Instruction, args: list[str], target: str) -> None:
        text = einsum_text(i.params)
        self._write(f"{self.source.name(np.einsum, 'einsum')}({text!r}, {', '.join(args)}, out={target})")

    def _fill(self, i: Instruction, args: list[str], target: str) -> None:
        params = filled(i, self.kinds)
        assert params is not None  # the group would not have accepted it
        indices, _, _, covered = params
        if not covered:
            self._write(f"{target}.fill(0)")
        for x, (index, first) in zip(args, indices):
            self._write(f"{target}[{self.source.name(index)}] {'=' if first else '+='} {x}")

    def _reduce(self, i: Instruction, args: list[str], target: str) -> None:
        name, (axis, keepdims, *_), x = i.primitive.name, i.params, self.kinds[i.args[0]]
        block = Kind((self.rows, *x.shape[1:]), x.dtype)
        f: Any
        if not (self.turned or self.apart) and windows(block, axis):
            f, rest = folded, f"{self.source.name(REDUCTIONS[name])}, {args[0]}, {axis}, {keepdims}, {target}"
        elif name == "sum" and not self.turned and by_products(x, axis):
            f, rest = summed, f"{args[0]}, {keepdims}, {target}"
        elif name == "sum" and not self.turned and (axes := by_rows(x, axis)):
            f, rest = total, f"{args[0]}, {axes}, {target}"
        elif name in ("max", "min") and not self.turned and short(block, axis, True):
            f, rest = extreme, f"{self.source.name(REDUCTIONS[name])}, {args[0]}, {keepdims}, {target}"
        else:
            f, rest = REDUCE[name], f"{args[0]}, {axes_of(axis, len(x.shape))}, None, {target}, {keepdims}"
        self._write(f"{self.source.name(f, getattr(f, '__name__', 'f'))}({rest})")

    def _loop(self, block: Callable[..., Any]) -> Callable[..., Any]:
        rows, length, count, scratch_specs = self.rows, self.group.length, self.count, self.scratch
        inputs_n, flat = len(self.inputs), self.group.flat and len(self.group.shape) != 1
        shape = self.group.shape
        parts = [(() if self.group.flat else self.kinds[i.out].shape, self.kinds[i.out], _reduction(i)) for i in self.parts]
        parallel = self.parallel
        copied = self.copied
        sets: list[list[Any]] = []

        def run(*arrays: Any) -> Any:
            ins: Any = [laid(x, LAST) if k in copied else x for k, x in enumerate(arrays[:inputs_n])] if copied else arrays[:inputs_n]
            outs: Any = arrays[inputs_n:]
            if flat:
                ins = [x.reshape(-1) if isinstance(x, np.ndarray) and x.shape == shape else x for x in ins]
                outs = [x.reshape(-1) for x in outs]
            pieces: list[Any] = [[None] if count == 1 else np.empty((count, *s), k.dtype) for s, k, _ in parts]

            def task(b: int) -> None:
                lo = b * rows
                hi = min(lo + rows, length)
                try:
                    scratch = sets.pop()
                except IndexError:
                    scratch = staggered(scratch_specs)
                try:
                    block(b, lo, hi, scratch if hi - lo == rows else [s[: hi - lo] for s in scratch], ins, outs, pieces)
                finally:
                    sets.append(scratch)

            if count == 1:
                task(0)
            elif parallel:
                threads.run(task, range(count))
            else:
                for b in range(count):
                    task(b)
            results = []
            for piece, (_, kind, reduce) in zip(pieces, parts):
                total = piece[0] if count == 1 else reduce(piece, 0)
                results.append(total if total.shape == kind.shape else total.reshape(kind.shape))
            return results

        return run


WRITING: dict[str, Callable[[Loop, Instruction, list[str], str], None]] = {  # how it is written; views are shown, all others are ufuncs
    "where": Loop._select,
    **dict.fromkeys(("astype", "astype_constant", "broadcast_to"), Loop._cast),
    **dict.fromkeys(REDUCTIONS, Loop._reduce),
    **dict.fromkeys(NAMES, Loop._fill),
    **dict.fromkeys(("cross", "roll"), Loop._own_function),
    "matmul": Loop._multiply,
    "contraction": Loop._contract,
}
