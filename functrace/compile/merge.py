"""Merging: parts of one array written at once, or added to it where they belong; sums of products of small matrices done as one product.

The sums are the cotangents of what was used many times: the results are those of the single operations, to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.compile import layout
from functrace.compile.passes import ADD, GETITEM, TRANSPOSE, dead, rewritten
from functrace.compile.program import Instruction, Program
from functrace.core.primitive import Primitive
from functrace.ops.index import add_in, index_add, is_basic, set_in
from functrace.pool import empty, zeros

_MOST = 256  # terms of one sum
_COPIED = 1 << 10  # elements of two matrices up to which copying them costs less than a call, even where their product is smaller
WRITES = {"index_set": set_in, "index_add": add_in}  # what makes a changed copy of its first argument, and what changes it in its place
INDEX_ADD: Primitive = index_add.primitive  # type: ignore[attr-defined]


def _parts(*args: Any) -> Any:
    *arrays, indices, shape, dtype, covered = args
    if layout.tall(shape) and any(x.ndim > 1 and layout.turned(x) for x in arrays):
        out = layout.empty(shape, dtype, empty if covered else zeros)
    else:
        out = empty(shape, dtype) if covered else zeros(shape, dtype)
    for x, (index, first) in zip(arrays, indices):
        if first:
            out[index] = x
        else:
            out[index] += x
    return out


def _products(*args: Any) -> Any:
    """The sum of x @ y over pairs of matrices, the first of each passed transposed."""
    xs, ys = np.concatenate(args[::2]), np.concatenate(args[1::2])
    return np.matmul(xs.T, ys)


def _internal(name: str, fun: Any) -> Primitive:
    return Primitive(name, fun, arity=None, constant=True, batch=lambda *_: None)  # made after all tracing is done


PARTS, PRODUCTS = _internal("sum_of_parts", _parts), _internal("sum_of_products", _products)
TAKEN = _internal("taken", lambda x, index: np.array(x[index]))


def _covering(shape: tuple[int, ...], dtype: Any, indices: list[Any]) -> tuple[Any, ...]:
    """Parameters of PARTS: for each index whether it is the first to write there, and whether the first ones leave nothing out."""
    seen, assigned = np.zeros(shape, bool), np.zeros(shape, bool)
    out = []
    for index in indices:
        first = not seen[index].any()
        out.append((index, first))
        seen[index] = True
        if first:
            assigned[index] = True
    return tuple(out), shape, dtype, bool(assigned.all())


def merged(program: Program) -> Program:
    """With sums of parts, and of products with a transposed matrix, as one instruction."""
    if not program.has("placed", "matmul"):
        return program
    kinds = program.kinds
    uses: dict[int, int] = dict.fromkeys(program.outputs, 2)
    for i in program.instructions:
        for a in i.args:
            uses[a] = uses.get(a, 0) + 1
    terms: dict[int, tuple[str, list[Any]]] = {}  # of a sum: "parts" with their indices, or "pairs" of matrices

    def term(a: int, made: dict[int, Instruction]) -> tuple[str, list[Any]] | None:
        by = made.get(a)
        if a < 0:
            return "parts", [(a, ...)]
        if a in terms or by is None:
            return terms.get(a)
        if by.primitive.name == "placed" and is_basic(by.params[0]):
            return "parts", [(by.args[0], by.params[0])]
        if by.primitive.name == "matmul":
            left, (x, y, out) = made.get(by.args[0]), [kinds[v] for v in (*by.args, by.out)]
            if left is not None and left.primitive is TRANSPOSE and left.params[0] == (1, 0) and x and y and out and len(y.shape) == 2:
                return ("pairs", [(left.args[0], by.args[1])]) if x.size + y.size <= max(out.size, _COPIED) else None
        return None

    def rule(i: Instruction, made: dict[int, Instruction]) -> Instruction | None:
        out = kinds.get(i.out)
        if i.primitive is not ADD or out is None or any(uses.get(a) != 1 or kinds[a] != out for a in i.args):
            return None
        first, second = term(i.args[0], made), term(i.args[1], made)
        if first is None or second is None or first[0] != second[0] or len(first[1]) + len(second[1]) > _MOST:
            return None
        what, both = terms[i.out] = first[0], first[1] + second[1]
        if what == "pairs":
            return Instruction(PRODUCTS, i.out, tuple(a for pair in both for a in pair), ())
        return Instruction(PARTS, i.out, tuple(a for a, _ in both), (out.shape, out.dtype, [index for _, index in both]))

    def complete(i: Instruction, _made: dict[int, Instruction]) -> Instruction | None:
        return Instruction(PARTS, i.out, i.args, _covering(*i.params)) if i.primitive is PARTS else None

    return rewritten(dead(rewritten(program, rule)), complete)


def gathered(program: Program) -> Program:
    """With a part added to an array where it belongs, in the place of the array plus one of zeros that holds the part."""
    if not program.has("placed"):
        return program
    kinds = program.kinds

    def rule(i: Instruction, made: dict[int, Instruction]) -> Instruction | None:
        if i.primitive is ADD:
            for whole, part in (i.args, i.args[::-1]):
                by = made.get(part)
                if by is not None and by.primitive.name == "placed" and kinds[whole] == kinds[part] == kinds[i.out]:
                    return Instruction(INDEX_ADD, i.out, (whole, by.args[0]), by.params[:1])
        return None

    return rewritten(program, rule)


def reads_first(program: Program) -> Program:
    """With the parts that are read of an array taken out before it is written to, where that lets the write be done in its place."""
    if not program.has(*WRITES):
        return program
    uses: dict[int, list[Instruction]] = {}
    position: dict[int, int] = {}
    for n, i in enumerate(program.instructions):
        position[id(i)] = n
        for a in i.args:
            uses.setdefault(a, []).append(i)
    before: dict[int, list[Instruction]] = {}
    moved: set[int] = set()
    for w in program.instructions:
        if w.primitive.name not in WRITES or w.args[0] < program.ninputs or w.args[0] in program.outputs or w.args[0] in w.args[1:]:
            continue
        late = [i for i in uses[w.args[0]] if position[id(i)] > position[id(w)]]
        if late and all(i.primitive is GETITEM for i in late):
            moved.update(map(id, late))
            before[id(w)] = [Instruction(TAKEN, i.out, i.args, i.params) if program.is_array(i.out) else i for i in late]
    if not moved:
        return program
    return program.with_([j for i in program.instructions if id(i) not in moved for j in (*before.get(id(i), ()), i)])
