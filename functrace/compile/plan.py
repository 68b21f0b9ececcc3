"""The memory of a program: what is a view of what, and which buffers there are, planned by liveness."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from functrace.compile.fuse import Group, instructions_of
from functrace.compile.layout import SPREAD, Layout
from functrace.compile.parts import PARTS
from functrace.compile.passes import is_elementwise
from functrace.compile.program import ARRAY, GUARD, Instruction, Kind, Program
from functrace.core.tape import ITEM
from functrace.ops.positions import is_basic

# What may be a view of its argument, and what surely is not; of the rest it is assumed that it may.
VIEWS = frozenset(("reshape", "transpose", "broadcast_to", "getitem", "gather", "real", "imag", "diagonals", "mirror"))
FRESH = frozenset(
    "sum max min prod cumsum where astype astype_constant concatenate stack index_set index_add scatter matmul any all argmax "
    "sum_of_parts sum_of_products placed taken argmin argsort contraction take_along add_along strong isclose "
    "sorted repeat roll convolve convolve_within on_diagonal extended shares".split()
)


def roots(steps: Sequence[Instruction | Group], kinds: dict[int, Any], few: Collection[int] = ()) -> dict[int, tuple[int, ...]]:
    """For each value the values whose memory it may share; those of `few` are made of elements."""
    out: dict[int, tuple[int, ...]] = {}
    for i in (i for step in steps for i in instructions_of(step) if i.primitive is not GUARD):
        if isinstance(i.primitive.fun, np.ufunc) or i.out in few:
            out[i.out] = (i.out,)
            continue
        kind, name = kinds[i.out], i.primitive.name
        number = kind is not None and kind.form != ARRAY
        arrays = i.args[1:] if name == "gather" else ()  # of indices: with one, NumPy copies
        copied = name == "getitem" and not is_basic(i.params[0]) or any((k := kinds[a]) is None or k.shape for a in arrays)
        if number or copied or name in FRESH:
            out[i.out] = (i.out,)
        else:
            out[i.out] = tuple(dict.fromkeys(r for a in i.args for r in out.get(a, (a,))))
            if name not in VIEWS and i.primitive is not ITEM:
                out[i.out] += (i.out,)
    return out


def places(program: Program, steps: Sequence[Instruction | Group], few: Collection[int], layout: Layout) -> dict[int, tuple[int, Any]]:
    """Results that are one part of an array, which they are written to: that array, and where they belong in it."""
    kinds, uses, found = program.kinds, program.uses(), dict[int, tuple[int, Any]]()
    single = [i for i in steps if not isinstance(i, Group) and i.out not in few]
    ufuncs = {i.out for i in single if is_elementwise(i.primitive)}
    for i in single:
        if i.primitive is not PARTS or layout.way(kinds[i.out]) or kinds[i.out].size > SPREAD:  # what is larger is faster in one piece
            continue
        indices, shape, dtype, covered = i.params
        if covered and all(first for _, first in indices):
            whole = np.broadcast_to(np.empty((), dtype), shape)
            for a, (index, _) in zip(i.args, indices):
                part = whole[index].shape
                if a in ufuncs and uses[a] == 1 and part and kinds[a] == Kind(part, dtype) and not layout.way(kinds[a]):
                    found[a] = i.out, index
    return found


class Plan:
    """The plan of buffers: the last use of each value, and the buffers that are free at each step."""

    def __init__(self, program: Program, steps: Sequence[Instruction | Group], few: Collection[int]) -> None:
        self.kinds, self.layout = program.kinds, Layout(program)
        self.roots = roots(steps, program.kinds, few)
        self.last: dict[int, int] = {}  # of each root, by way of all that shares its memory
        self.reads: dict[int, int] = {}  # of each value itself
        args = [(index, a) for index, step in enumerate(steps) for i in instructions_of(step) for a in i.args]
        for index, a in [*args, *((len(steps), v) for v in program.outputs)]:
            self.reads[a] = index
            for r in self.roots.get(a, (a,)):
                self.last[r] = index
        self.out = {r for r, index in self.last.items() if index == len(steps)}  # what leaves the program
        self.buffers: list[tuple[tuple[int, ...], Any, int]] = []  # shape, dtype, in which way it lies
        self.free: dict[Any, list[int]] = {}
        self.owner: dict[int, int] = {}  # of each root that is in a buffer: which
        self.ends: dict[int, list[int]] = {}  # of each step: the roots that end there
        for r, index in self.last.items():
            self.ends.setdefault(index, []).append(r)

    def release(self, index: int) -> None:
        """Let others have the buffers of what ends with a step."""
        self.give(self.owner.pop(r) for r in self.ends.get(index, ()) if r in self.owner)

    def take(self, v: int, turned: bool = True) -> str:
        """The name of a buffer for a value, kept until it ends; if `turned`, of one that lies in the layout's way."""
        kind = self.kinds[v]
        b = self.owner[v] = self.buffer((kind.shape, kind.dtype, self.layout.way(kind) if turned else 0))
        return f"B{b}"

    def give(self, buffers: Iterable[int]) -> None:
        """Let others have these buffers."""
        for b in buffers:
            self.free.setdefault(self.buffers[b], []).append(b)

    def buffer(self, spec: tuple[tuple[int, ...], Any, int]) -> int:
        """The number of a buffer that nothing is in."""
        if free := self.free.get(spec):
            return free.pop()
        self.buffers.append(spec)
        return len(self.buffers) - 1
