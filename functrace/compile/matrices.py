"""Linear algebra with one matrix: factorisations and products that several instructions need are computed once. Equal to rounding.

NumPy solves no triangular systems as such, and gives no factors away: each `solve` and `inv` begins anew.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np

from functrace.compile import small
from functrace.compile.fuse import axes_of
from functrace.compile.passes import GETITEM, TRANSPOSE, is_elementwise, maker, rewritten
from functrace.compile.program import Instruction, Kind, Program
from functrace.core.primitive import Primitive
from functrace.ops import linalg
from functrace.ops.contract import matmul
from functrace.ops.decompositions import _lower_inverse
from functrace.ops.registry import rules
from functrace.ops.shape import concatenate

LOWER_INVERSE, SOLVE, MATMUL, CONCATENATE = map(rules, (_lower_inverse, linalg._solve, matmul, concatenate))
_EVEN = frozenset(("square", "absolute", "cos", "cosh"))  # the same of -x and x
_COMMUTATIVE = frozenset(("add", "multiply", "maximum", "minimum"))
_LOOKED_AT = 1 << 20  # elements up to which a constant, or what moves elements, is looked at


def _square(kind: Kind | None) -> bool:
    return kind is not None and len(kind.shape) >= 2 and kind.shape[0] == kind.shape[1] and kind.dtype.kind in "fb"


class _Parity:
    """The parity of values under exchange of their first two axes: 1 for symmetric, -1 for antisymmetric, 0 for not known."""

    def __init__(self, program: Program) -> None:
        self.program, self.kinds = program, program.kinds
        self.known: dict[int, int] = {}

    def of(self, v: int) -> int:
        kind = self.kinds[v]
        if v < 0 and v not in self.known:
            x = np.asarray(self.program.constant(v))
            whole = _square(kind) and x.size <= _LOOKED_AT
            self.known[v] = 1 if x.size == 1 or whole and np.array_equal(x, x.swapaxes(0, 1)) else 0
        return 1 if kind is not None and kind.size == 1 else self.known.get(v, 0)

    def swapped(self, args: tuple[int, ...], made: dict[int, Instruction]) -> bool:
        """Whether two values are views of one, and one of them is the other with its first two axes in the other order."""
        x, y = (maker(made, v, "getitem", "reshape", "transpose") for v in args)
        if x is None or y is None or x.args != y.args or (kind := self.kinds[x.args[0]]) is None or kind.size > _LOOKED_AT:
            return False
        places = np.arange(kind.size).reshape(kind.shape)
        one, other = (np.asarray(i.primitive.fun(places, *i.params)) for i in (x, y))
        return one.ndim >= 2 and np.array_equal(one.swapaxes(0, 1), other)

    def made(self, i: Instruction, made: dict[int, Instruction]) -> int:
        """The parity of a result."""
        name, out = i.primitive.name, self.kinds.get(i.out)
        if out is None or not _square(out) or any(self.kinds[a] is None for a in i.args):
            return 0
        found = [self.of(a) for a in i.args]
        if len(out.shape) == 2:
            if name == "matmul":
                return int(self._gram(i.args, made))
            if name == "on_diagonal":
                return int(i.params[0] == 0)
            if name in ("linalg.inv", "transpose"):
                return found[0]
        if name == "sum":
            return found[0] if min(axes_of(i.params[0], len(self.kinds[i.args[0]].shape)), default=0) > 1 else 0
        if name == "reshape":
            return found[0] if self.kinds[i.args[0]].shape[:2] == out.shape[:2] else 0
        if not (is_elementwise(i.primitive) or name == "where") or any(len(self.kinds[a].shape) not in (0, len(out.shape)) for a in i.args):
            return 0
        if len(found) == 2 and 0 in found and (name in _COMMUTATIVE or name == "subtract") and self.swapped(i.args, made):
            return 1 if name in _COMMUTATIVE else -1
        if name in ("multiply", "divide"):
            return found[0] * found[1]
        if min(found) == 1 or name in _EVEN and found[0]:
            return 1
        return -1 if max(found) == -1 and name in ("negative", "add", "subtract") else 0

    def _gram(self, args: tuple[int, ...], made: dict[int, Instruction]) -> bool:
        """Whether a product is one of a matrix, or a multiple of it, with its transpose."""
        factors = [*args]
        for k, v in enumerate(factors):
            by = maker(made, v, "multiply")
            if by is not None:
                factors[k] = next((b for a, b in (by.args, by.args[::-1]) if self.kinds[a].size == 1), v)
        ends = [maker(made, v, "transpose") for v in factors]
        return any(by is not None and by.params[0] == (1, 0) and by.args[0] == other for by, other in zip(ends, factors[::-1]))


def symmetric(program: Program) -> Program:
    """With a symmetric matrix itself in the place of its transpose, and without checks that it is symmetric."""
    if not program.has("linalg.solve", "linalg.inv", "are_hermitian"):
        return program
    parity = _Parity(program)
    sure: list[int] = []

    def rule(i: Instruction, made: dict[int, Instruction]) -> Any:
        if i.primitive.name == "transpose" and i.params[0] == (1, 0) and parity.of(i.args[0]) == 1 and program.kinds[i.out].shape[0] > 1:
            return i.args[0] if i.args[0] >= 0 else None
        if i.primitive.name == "mirror":  # which says how its argument moves, not what it is
            return i.args[0] if i.args[0] >= 0 else None
        if i.primitive.name == "where" and i.args[0] in sure and i.args[1] < 0 and program.kinds[i.args[1]].size == 1:
            return program.const(np.broadcast_to(program.constant(i.args[1]), program.kinds[i.out].shape))
        if i.primitive.name == "are_hermitian" and parity.of(i.args[0]) == 1 and len(program.kinds[i.args[0]].shape) == 2:
            sure.append(program.const(np.ones(program.kinds[i.out].shape, bool)))
            return sure[-1]
        if i.out not in parity.known and (found := parity.made(i, made)):
            parity.known[i.out] = found
        return None

    return rewritten(program, rule)


def triangles(program: Program) -> Program:
    """With products with the inverse of a triangular factor, which is made once, in the place of solves with it and its transpose."""
    if not program.has("linalg.cholesky"):
        return program
    kinds = program.kinds
    lower: dict[int, tuple[int, bool]] = {}  # of factors and their transposes: the factor that is lower triangular, and whether it is that
    asked: Counter[int] = Counter()
    for i in program.instructions:
        if i.primitive.name == "linalg.cholesky" and _square(kind := kinds[i.out]) and len(kind.shape) == 2 and not small.fits(kind):
            lower[i.out] = i.out, not i.params[0]
        elif i.primitive is TRANSPOSE and i.args[0] in lower:
            root, straight = lower[i.args[0]]
            lower[i.out] = root, not straight
        elif i.primitive in (SOLVE, LOWER_INVERSE) and i.args[0] in lower:
            asked[lower[i.args[0]][0]] += 1
    inverses: dict[tuple[int, bool], int] = {}

    def rule(i: Instruction, _made: dict[int, Instruction]) -> Any:
        if i.primitive not in (SOLVE, LOWER_INVERSE) or i.args[0] not in lower or asked[lower[i.args[0]][0]] < 2:
            return None
        root, straight = lower[i.args[0]]
        if i.primitive is LOWER_INVERSE:
            found = inverses.setdefault((root, True), i.out)
            return None if found == i.out else found
        steps: list[Instruction] = []

        def step(primitive: Primitive, arg: int, *params: Any) -> int:
            steps.append(Instruction(primitive, program.value(kinds[root]), (arg,), params))
            return steps[-1].out

        if (root, True) not in inverses:
            inverses[root, True] = step(LOWER_INVERSE, i.args[0] if straight else step(TRANSPOSE, i.args[0], (1, 0)))
        if (root, straight) not in inverses:
            inverses[root, straight] = step(TRANSPOSE, inverses[root, True], (1, 0))
        return *steps, Instruction(MATMUL, i.out, (inverses[root, straight], i.args[1]), ())

    return rewritten(program, rule) if max(asked.values(), default=0) > 1 else program


def joined(program: Program) -> Program:
    """With one solve for all right-hand sides of a matrix that are known when the first is solved for; the identity's is the inverse."""
    if not program.has("linalg.solve"):
        return program
    kinds = program.kinds
    place = {i.out: n for n, i in enumerate(program.instructions)}
    groups: dict[int, list[Instruction]] = {}
    views: dict[int, Instruction] = {}  # right-hand sides that are made earlier than they were

    def known(v: int, n: int) -> bool:
        """Whether a value is made before a place, or can be."""
        if place.get(v, -1) < n:
            return True
        by = program.instructions[place[v]]
        if by.primitive.name in ("getitem", "reshape") and place.get(by.args[0], -1) < n:
            views[v] = by
        return v in views

    for i in program.instructions:
        if i.primitive is SOLVE or i.primitive.name == "linalg.inv":
            shapes = [kinds[v] for v in (i.args[0], i.out)]
            if all(k is not None and len(k.shape) == 2 and k.dtype.kind == "f" for k in shapes) and not small.fits(shapes[0]):
                first = groups.setdefault(i.args[0], [i])[0]
                if first is not i and all(known(a, place[first.out]) for a in i.args[1:]):
                    groups[i.args[0]].append(i)
    moved: set[int] = set()
    of = {i.out: group for group in groups.values() if len(group) > 1 for i in group}

    def rule(i: Instruction, _made: dict[int, Instruction]) -> tuple[Instruction, ...] | None:
        group = of.get(i.out)
        if group is None or i.out != group[0].out:
            return () if group is not None or i.out in views else None
        matrix = kinds[i.args[0]]
        sides = [j.args[1] if j.primitive is SOLVE else program.const(np.eye(*matrix.shape, dtype=matrix.dtype)) for j in group]
        ends = np.cumsum([0, *(kinds[v].shape[1] for v in sides)]).tolist()
        whole = Kind((matrix.shape[0], ends[-1]), kinds[i.out].dtype)
        side, solution = program.value(whole), program.value(whole)
        early = [views[v] for v in dict.fromkeys(sides) if v in views and v not in moved]
        moved.update(sides)
        parts = [Instruction(GETITEM, j.out, (solution,), ((slice(None), slice(*end)),)) for j, end in zip(group, itertools.pairwise(ends))]
        if max(sides) < 0:
            return Instruction(SOLVE, solution, (i.args[0], program.const(np.concatenate([*map(program.constant, sides)], 1))), ()), *parts
        return *early, Instruction(CONCATENATE, side, tuple(sides), (1,)), Instruction(SOLVE, solution, (i.args[0], side), ()), *parts

    return rewritten(program, rule) if of else program
