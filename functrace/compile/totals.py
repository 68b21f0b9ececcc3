"""Totals: sums of small arrays, and of any that were multiplied with weights, as products with a vector, of ones or of the weights, in
half the time of NumPy's reduction or less, to rounding; and the sums that tell whether all is finite, of the smallest arrays that do.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.compile.elements import FEW
from functrace.compile.fuse import INNER, SUMMED, axes_of
from functrace.compile.layout import tall
from functrace.compile.passes import AND, MATMUL, MULTIPLY, RESHAPE, TRANSPOSE, maker, rewritten
from functrace.compile.program import ARRAY, SCALAR, Instruction, Kind, Program
from functrace.core.primitive import Primitive
from functrace.sums import ALONE

_LONGEST = 512  # terms of a sum that BLAS may add: it does so in fewer parts than NumPy


def totals(program: Program) -> Program:
    """With products for weighted sums, and for sums over an axis of vectors and matrices that BLAS multiplies on one thread."""
    if not program.has("sum"):
        return program
    kinds, uses = program.kinds, program.uses()
    looked = {a for i in program.instructions if i.primitive.name == "isfinite" for a in i.args}  # which `checksum` makes faster
    ones: dict[Any, int] = {}

    def vector(n: int, dtype: Any) -> int:
        if (n, dtype) not in ones:
            ones[n, dtype] = program.const(np.ones(n, dtype))
        return ones[n, dtype]

    def weights(x: int, axes: tuple[int, ...], made: dict[int, Instruction]) -> tuple[int, int | None]:
        """What an array is the product of, and weights along the axes; None if it is not known as one."""
        by, kind = maker(made, x, MULTIPLY.name), kinds[x]
        along = tuple([n if a in axes else 1 for a, n in enumerate(kind.shape)])
        for whole, row in (by.args, by.args[::-1]) if by is not None and uses[x] == 1 else ():
            k = kinds[row]
            alike = kinds[whole] == kind and k is not None and k.form == ARRAY and k.dtype == kind.dtype
            if alike and (1,) * (len(along) - len(k.shape)) + k.shape == along:
                return whole, row
        return x, None

    def rule(i: Instruction, made: dict[int, Instruction]) -> tuple[Instruction, ...] | None:
        (x,), kind, out = i.args, kinds[i.args[0]], kinds[i.out]
        if kind is None or kind.dtype.char not in "fd" or kind.size <= FEW or i.out in looked and uses[i.out] == 1:
            return None
        n = len(kind.shape)
        axes = axes_of(i.params[0], n)
        count, rest = math.prod([kind.shape[a] for a in axes]), math.prod([kind.shape[a] for a in range(n) if a not in axes])
        first = axes == (*range(len(axes)),)
        if not axes or len(axes) == n > 1 or not (first or axes == (*range(n - len(axes), n),)):
            return None
        x, row = weights(x, axes, made)
        if kind.size > ALONE or n > 2 or tall(kind.shape):
            if row is None or (rest > SUMMED if first else count > INNER):  # of which a loop over rows would not take the product
                return None
        elif count > _LONGEST or kind.dtype.char == "f":  # of few of which OpenBLAS's kernels for AVX-512 may warn: invalid, of none
            return None
        steps: list[Instruction] = []

        def step(primitive: Primitive, args: tuple[int, ...], shape: tuple[int, ...], *params: Any) -> int:
            steps.append(Instruction(primitive, program.value(Kind(shape, kind.dtype, ARRAY if shape else SCALAR)), args, params))
            return steps[-1].out

        def shaped(v: int, *shape: int) -> int:
            return v if kinds[v].shape == shape else step(RESHAPE, (v,), shape, shape)

        row = vector(count, kind.dtype) if row is None else row
        if kind.size <= ALONE:
            row, whole = shaped(row, count), x if n == 1 else shaped(x, *((count, rest) if first else (rest, count)))
            product = step(MATMUL, (row, whole) if first else (whole, row), (rest,) if n > 1 else ())
        elif first:
            product = step(MATMUL, (step(TRANSPOSE, (shaped(row, count, 1),), (1, count), (1, 0)), shaped(x, count, rest)), (1, rest))
        else:
            product = step(MATMUL, (shaped(x, rest, count), shaped(row, count, 1)), (rest, 1))
        if kinds[product].shape == out.shape:
            steps[-1] = Instruction(MATMUL, i.out, steps[-1].args, ())
            return tuple(steps)
        return *steps, Instruction(RESHAPE, i.out, (product,), (out.shape,))

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
