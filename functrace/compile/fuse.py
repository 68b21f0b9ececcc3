"""Fusion: elementwise instructions on large arrays, grouped so that they run block by block, each block staying in the cache.

A group has a loop axis of `length` rows. A value in it is a *row value*, of which axis 0 is the loop axis, or the same for all rows.
Ufuncs, `where` and casts join a group; so do views, reductions over other axes, what is put together along them, and products of rows with
a small matrix; and, at its end, reductions over the loop axis and products of columns with rows, of which each block gives a part. Where
all arrays of a group have one shape it runs over their elements, whatever their axes.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.compile import parts
from functrace.compile.passes import is_elementwise
from functrace.compile.program import ARRAY, GUARD, Instruction, Kind, Program
from functrace.ops.positions import is_basic, parts_of

LARGE = 1 << 14  # elements of a result from which on a group is begun
LONG = 1 << 17  # elements of a row beyond which blocks are not of whole rows
WINDOW = 64  # instructions put off until a group is closed
INNER, SUMMED = 32, 1 << 13  # terms of an element, and elements of a sum over rows, up to which a product of matrices is part of a loop
SMALL = 256  # multiplications in each of many products up to which they are
REDUCTIONS = {"sum": np.add, "max": np.maximum, "min": np.minimum}
MOVES = frozenset(("reshape", "getitem", "transpose"))  # views, where they keep the loop axis; of matrices, their columns too
MIXING = frozenset(("cross", "roll", "matmul", "contraction", *parts.NAMES))  # what reads elements where it has written already
_BACKWARDS = frozenset(("arctan2", "power"))  # whose last bit is another where NumPy goes along a negative stride: in short blocks


class Group:
    """Instructions that run together, block by block: one step of a program, as an instruction by itself is."""

    __slots__ = ("columns", "flat", "instructions", "length", "made", "parts", "shape", "whole")

    def __init__(self, shape: tuple[int, ...], flat: bool) -> None:
        self.flat, self.shape = flat, shape
        self.length = int(np.prod(shape)) if flat else shape[0]
        self.instructions: list[Instruction] = []
        self.made: set[int] = set()  # row values
        self.parts: set[int] = set()  # results of reductions over the loop axis
        self.columns: set[int] = set()  # row values, transposed
        self.whole: set[int] = set()  # what every block reads all of, or the same columns as it has rows

    def is_row(self, a: int, kind: Kind, ndim: int) -> bool | None:
        """Whether an argument of an op with results of `ndim` axes is a row value (None: it fits neither way)."""
        if a in self.made:
            return len(kind.shape) == ndim or None
        if a in self.columns:
            return None
        if self.flat:
            return True if kind.shape == self.shape else False if kind.size == 1 else None
        return len(kind.shape) == ndim and kind.shape[0] == self.length

    def accepts(self, i: Instruction, kinds: dict[int, Any]) -> bool:
        """Whether an instruction can run in the group, if it is `fusable` and reads none of its `parts`."""
        return JOINING.get(i.primitive.name, Group._goes_along)(self, i, kinds)

    def _lies_along(self, v: int, kinds: dict[int, Any]) -> bool:
        """Whether a value has the group's shape or rows."""
        kind = kinds[v]
        return bool(kind.form == ARRAY and (kind.shape == self.shape if self.flat else kind.shape[:1] == (self.length,)))

    def _goes_along(self, i: Instruction, kinds: dict[int, Any]) -> bool:
        if not self._lies_along(i.out, kinds):
            return False
        rows = [self.is_row(a, kinds[a], len(kinds[i.out].shape)) for a in i.args]
        return None not in rows and any(rows)

    def _mixes(self, i: Instruction, kinds: dict[int, Any]) -> bool:
        return not self.flat and self._goes_along(i, kinds)

    def _rolls(self, i: Instruction, kinds: dict[int, Any]) -> bool:
        return len(i.params[1]) == 1 and i.params[1] != (0,) and self._mixes(i, kinds)

    def _shows(self, i: Instruction, kinds: dict[int, Any]) -> bool:
        return not self.flat and i.args[0] in self.made and (_turns(i) or self._lies_along(i.out, kinds) and _keeps_loop(i))

    def _puts_together(self, i: Instruction, kinds: dict[int, Any]) -> bool:
        indices = None if self.flat or not self._lies_along(i.out, kinds) else parts.indices_of(i, kinds)
        still = indices is not None and all(map(_keeps_rows, indices))
        return still and all(self.is_row(a, kinds[a], len(kinds[a].shape)) for a in i.args)

    def _reduces(self, i: Instruction, kinds: dict[int, Any]) -> bool:
        x = kinds[i.args[0]]
        if i.args[0] not in self.made or x.dtype.char not in "fdFDgG":
            return False
        return not self.flat or len(axes_of(i.params[0], len(x.shape))) == len(x.shape)

    def _multiplies(self, i: Instruction, kinds: dict[int, Any]) -> bool:
        (a, b), x, y, out = i.args, *(kinds[v] for v in (*i.args, i.out))
        if self.flat or not _plain(x, y, out) or min(len(x.shape), len(y.shape)) < 2:
            return False
        if len(out.shape) > 2:
            return x.shape[-1] * math.prod(out.shape[1:]) <= SMALL and self._goes_along(i, kinds)
        if self.sums(i, kinds):
            return out.size <= SUMMED and bool(self.is_row(b, y, 2))
        return 0 < x.shape[1] <= INNER and bool(self.is_row(a, x, 2)) and b not in self.made and b not in self.columns

    def _contracts(self, i: Instruction, kinds: dict[int, Any]) -> bool:
        left, right, result = i.params
        sizes = {k: n for v, labels in zip(i.args, i.params) for k, n in zip(labels, kinds[v].shape)}
        small = math.prod(sizes.values()) <= SMALL * self.length
        one = small and bool(result) and left[:1] == right[:1] == result[:1] and _plain(*(kinds[v] for v in (*i.args, i.out)))
        return one and not self.flat and all(self.is_row(a, kinds[a], len(kinds[a].shape)) for a in i.args)

    def sums(self, i: Instruction, kinds: dict[int, Any]) -> bool:
        """Whether a product of matrices is a sum over the rows."""
        a, b = i.args
        return len(kinds[i.out].shape) == 2 and (
            a in self.columns or b in self.made and a not in self.made and kinds[a].shape[1] == self.length
        )

    def add(self, i: Instruction, kinds: dict[int, Any]) -> None:
        """Take an instruction in."""
        self.instructions.append(i)
        if _turns(i):
            self.columns.add(i.out)
        elif i.primitive.name == "matmul":
            sums = self.sums(i, kinds)
            (self.parts if sums else self.made).add(i.out)
            if len(kinds[i.out].shape) == 2:
                self.whole.add(i.args[0 if sums else 1])
        elif i.primitive.name in REDUCTIONS and 0 in axes_of(i.params[0], len(kinds[i.args[0]].shape)):
            self.parts.add(i.out)
        else:
            self.made.add(i.out)


JOINING: dict[str, Callable[[Group, Instruction, dict[int, Any]], bool]] = {  # what joins a group, and when; ufuncs do as `where`
    **dict.fromkeys(("where", "astype", "astype_constant", "broadcast_to"), Group._goes_along),
    **dict.fromkeys(REDUCTIONS, Group._reduces),
    **dict.fromkeys(MOVES, Group._shows),
    **dict.fromkeys(parts.NAMES, Group._puts_together),
    "cross": Group._mixes,
    "roll": Group._rolls,
    "matmul": Group._multiplies,
    "contraction": Group._contracts,
}


def _plain(*kinds: Kind) -> bool:
    """Whether values are of one floating-point dtype."""
    return kinds[0].dtype.char in "fd" and all(k.dtype == kinds[0].dtype for k in kinds)


def _turns(i: Instruction) -> bool:
    """Whether an instruction gives the columns of a matrix."""
    return i.primitive.name == "transpose" and i.params[0] == (1, 0)


def _keeps_loop(i: Instruction) -> bool:
    """Whether a view has the loop axis where it was, if its length is the same."""
    if i.primitive.name == "getitem":
        return _keeps_rows(i.params[0])
    return i.primitive.name == "reshape" or i.params[0][:1] == (0,)


def _keeps_rows(index: Any) -> bool:
    """Whether an index takes of each row the same part."""
    return index is ... or isinstance(index, tuple) and is_basic(index) and index[:1] == (slice(None),)


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes of a reduction, not negative."""
    if axis is None:
        return tuple(range(ndim))
    return tuple(sorted(a % ndim for a in (axis if isinstance(axis, tuple) else (axis,)))) if ndim else ()


def fusable(i: Instruction, kinds: dict[int, Any]) -> bool:
    """Whether an instruction could run in a group."""
    if not (is_elementwise(i.primitive) or i.primitive.name in JOINING):
        return False
    return all((k := kinds[v]) is not None and k.dtype.kind in "fcbui" for v in (i.out, *i.args))


def instructions_of(step: Instruction | Group) -> Sequence[Instruction]:
    """The instructions of a step: a group, or one by itself."""
    return step.instructions if isinstance(step, Group) else (step,)


def fuse(program: Program) -> list[Instruction | Group]:
    """The instructions of a program, those that can be fused in groups; the order of what depends on each other is kept."""
    kinds = program.kinds
    if not any(k is not None and k.size >= LARGE for i in program.instructions if (k := kinds[i.out] if i.out >= 0 else None)):
        return list(program.instructions)
    done: list[Instruction | Group] = []
    uses = program.uses()
    reverse = {i.out for i in program.instructions if i.primitive.name == "getitem" and _reverses(i.params[0])}
    alone = {i.out for i in program.instructions if i.primitive.name in _BACKWARDS and not reverse.isdisjoint(i.args)}
    todo = deque(program.instructions)
    while todo:
        before, group = _next_group(todo, kinds, alone)
        done += before
        if group is not None:
            views = _views(group, program, uses)
            done += [group] if len(group.instructions) > 1 else group.instructions
            done += views
    return done


def _reverses(index: Any) -> bool:
    return any(isinstance(p, slice) and isinstance(p.step, int) and p.step < 0 for p in parts_of(index))


def _views(group: Group, program: Program, uses: Counter[int]) -> list[Instruction]:
    """The views that others read of what a group makes, taken out of it, so that it need not write them; it keeps those it reads itself."""
    inside = Counter(a for i in group.instructions for a in i.args)
    renamed: dict[int, int] = {}
    views: list[Instruction] = []
    for i in reversed(group.instructions):
        if i.primitive.name in (*MOVES, "broadcast_to") and uses[i.out] > inside[i.out]:
            views.insert(0, i)
            of = group.columns if i.out in group.columns else group.made
            of.remove(i.out)
            if inside[i.out]:
                renamed[i.out] = program.value(program.kinds[i.out])
                of.add(renamed[i.out])
                uses[i.args[0]] += 1
            else:
                inside[i.args[0]] -= 1
    if views:
        left = group.made | group.parts | group.columns | renamed.keys()
        kept = [i for i in group.instructions if i.out in left]
        args = [tuple([renamed.get(a, a) for a in i.args]) for i in kept]
        group.instructions = [Instruction(i.primitive, renamed.get(i.out, i.out), a, i.params) for i, a in zip(kept, args)]
    return views


def long(shape: Sequence[int]) -> bool:
    """Whether the rows of an array of this shape are so long that its elements, as they lie, are taken in blocks."""
    return math.prod(shape[1:]) > LONG


def _starts(i: Instruction, kinds: dict[int, Any]) -> Group | None:
    out = kinds[i.out]
    if out.form != ARRAY or out.size < LARGE or i.primitive.name in parts.NAMES:
        return None
    group = Group(out.shape, long(out.shape))
    return group if group.accepts(i, kinds) else None


def _next_group(todo: deque[Instruction], kinds: dict[int, Any], alone: set[int]) -> tuple[list[Any], Group | None]:
    """What runs before the first group, and the group; both are taken from `todo`. Those of `alone` are in none."""
    before: list[Any] = []
    group: Group | None = None
    after: list[Instruction] = []
    late: set[int] = set()  # values that are made after the group, or at its end
    while todo and len(after) < WINDOW:
        i = todo.popleft()
        if group is None:
            group = _starts(i, kinds) if i.out not in alone and fusable(i, kinds) else None
            if group is None:
                before.append(i)
            else:
                group.add(i, kinds)
            continue
        depends = any(a in late or a in group.parts for a in i.args)
        if not depends and i.out not in alone and fusable(i, kinds) and group.accepts(i, kinds):
            group.add(i, kinds)
        elif depends or any(a in group.made or a in group.columns for a in i.args):
            after.append(i)
            late.add(i.out)
            if i.primitive is GUARD:  # nothing that comes after it may run before it
                break
        else:
            before.append(i)
    todo.extendleft(reversed(after))
    return before, group
