"""Totals: sums of small arrays as products with a vector, of ones or of what was multiplied with, in half the time of NumPy's reduction,
to rounding; and the sums that tell whether all is finite, of the smallest arrays that do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.compile.elements import FEW
from functrace.compile.fuse import axes_of
from functrace.compile.layout import tall
from functrace.compile.passes import AND, MATMUL, MULTIPLY, RESHAPE, maker, rewritten
from functrace.compile.program import ARRAY, SCALAR, Instruction, Kind, Program
from functrace.sums import ALONE

_LONGEST = 512  # terms of a sum that BLAS may add: it does so in fewer parts than NumPy


def totals(program: Program) -> Program:
    """With products for sums over an axis of vectors and matrices that BLAS multiplies on one thread."""
    if not program.has("sum"):
        return program
    kinds, uses = program.kinds, program.uses()
    looked = {a for i in program.instructions if i.primitive.name == "isfinite" for a in i.args}  # which `checksum` makes faster
    ones: dict[Any, int] = {}

    def vector(n: int, dtype: Any) -> int:
        if (n, dtype) not in ones:
            ones[n, dtype] = program.const(np.ones(n, dtype))
        return ones[n, dtype]

    def factors(x: int, axis: int, made: dict[int, Instruction]) -> tuple[int, int | None]:
        """What an array is the product of, and a vector along an axis; None if it is not known as one."""
        by, kind = maker(made, x, MULTIPLY.name), kinds[x]
        for whole, row in (by.args, by.args[::-1]) if by is not None and uses[x] == 1 else ():
            k = kinds[row]
            if kinds[whole] != kind or k is None or k.form != ARRAY or k.dtype != kind.dtype or k.size != kind.shape[axis]:
                continue
            if k.shape == kind.shape[axis:] or len(k.shape) == 2 and k.shape[axis] == k.size:
                return whole, row
        return x, None

    def rule(i: Instruction, made: dict[int, Instruction]) -> tuple[Instruction, ...] | None:
        (x,), kind, out = i.args, kinds[i.args[0]], kinds[i.out]
        if kind is None or kind.dtype.char not in "fd" or not FEW < kind.size <= ALONE or len(kind.shape) > 2 or tall(kind.shape):
            return None
        axes = axes_of(i.params[0], len(kind.shape))
        if len(axes) != 1 or kind.shape[axes[0]] > _LONGEST or i.out in looked and uses[i.out] == 1:
            return None
        (axis,) = axes
        x, row = factors(x, axis, made)
        steps: list[Instruction] = []
        if row is None:
            row = vector(kind.shape[axis], kind.dtype)
        elif kinds[row].shape != (kind.shape[axis],):
            steps.append(Instruction(RESHAPE, program.value(Kind((kind.shape[axis],), kind.dtype)), (row,), ((kind.shape[axis],),)))
            row = steps[-1].out
        rest = kind.shape[1 - axis : 2 - axis]
        product = program.value(Kind(rest, kind.dtype, ARRAY if rest else SCALAR)) if i.params[1] else i.out
        steps.append(Instruction(MATMUL, product, (row, x) if axis == 0 else (x, row), ()))
        return (*steps, Instruction(RESHAPE, i.out, (product,), (out.shape,))) if i.params[1] else tuple(steps)

    return rewritten(program, rule, "sum")


def checks(program: Program) -> Program:
    """With a look at the factors, where it is asked whether all of a matrix product is finite, and they have fewer elements.

    What overflows in the product of finite numbers is no matter of what a selection threw away, which is why it is asked.
    """
    kinds = program.kinds
    uses = program.uses()

    def rule(i: Instruction, made: dict[int, Instruction]) -> tuple[Instruction, ...] | None:
        total = maker(made, i.args[0], "sum")
        product = maker(made, total.args[0], "matmul") if total is not None else None
        if total is None or product is None or total.params[0] is not None or uses[total.out] != 1:
            return None
        factors = [a for a in product.args if a >= 0 or not np.all(np.isfinite(program.constant(a)))]
        whole, parts = kinds[product.out], [kinds[a] for a in factors]
        if whole is None or not parts or any(k is None or k.dtype != whole.dtype or not k.shape for k in parts):
            return None
        if 2 * sum(k.size for k in parts if k is not None) > whole.size:
            return None
        sums = {j.args[0]: j.out for j in made.values() if j.primitive.name == "sum" and not j.params[1] and kinds[j.out].shape}
        steps, found = [], []
        for a in (sums.get(a, a) for a in factors):  # of which a sum, a bias's gradient, say, is finite only if they are
            steps.append(Instruction(total.primitive, program.value(kinds[total.out]), (a,), total.params))
            found.append(i.out if len(factors) == 1 else program.value(kinds[i.out]))
            steps.append(Instruction(i.primitive, found[-1], (steps[-1].out,), i.params))
        return (*steps, Instruction(AND, i.out, tuple(found), ())) if len(factors) == 2 else tuple(steps)

    return rewritten(program, rule, "isfinite")
