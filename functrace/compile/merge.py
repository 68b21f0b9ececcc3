"""Merging: parts of one array written at once, or added to it where they belong; products with one matrix, and sums of products of
small matrices, done as one product; sorts without their order.

The sums are the cotangents of what was used many times: the results are those of the single operations, to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from functrace.compile.elements import FEW
from functrace.compile.fuse import axes_of
from functrace.compile.parts import PARTS, covering
from functrace.compile.passes import GETITEM, RESHAPE, TRANSPOSE, dead, is_elementwise, maker, rewritten, turned
from functrace.compile.program import ARRAY, Instruction, Kind, Program
from functrace.core.primitive import Primitive
from functrace.ops.index import index_add
from functrace.ops.positions import add_in, is_basic, parts_of, set_in
from functrace.ops.registry import rules

_MOST = 256  # terms of one sum
_FEW, _EACH, _ALL = 8, 1 << 15, 1 << 22  # products that are joined at least; elements of a factor or result, and of all results, at most
_ABREAST = 1 << 11  # elements of a stretch of an array up to which
_OUTER = 1 << 9  # elements of the product of a column and a row from which on such are joined
_COLUMN = (..., None), (slice(None), None)  # indices that make a column of a vector
_COPIED = 1 << 10  # elements of two matrices up to which copying them costs less than a call, even where their product is smaller
WRITES = {"index_set": set_in, "index_add": add_in}  # what makes a changed copy of its first argument, and what changes it in its place
INDEX_ADD = rules(index_add)


def _products(*args: Any) -> Any:
    """The sum of x @ y over pairs of matrices, the first of each passed transposed; or of columns times rows, passed as vectors."""
    return np.matmul(_rows(args[::2]).T, _rows(args[1::2]))


def _rows(xs: Sequence[Any]) -> Any:
    """The rows of matrices, and vectors as rows, as one matrix."""
    if all(x.ndim == 1 for x in xs):
        return np.array(xs)
    return np.concatenate([x if x.ndim > 1 else x[None] for x in xs])


def _sorted(x: Any, axis: int) -> Any:
    """Sorted stably; by NumPy's fastest sort where what is equal is so to the bit: neither zeros, which have signs, nor NaN."""
    alike = x.dtype.kind in "biu" or x.dtype.kind == "f" and x.size and x.all() and not np.isnan(np.max(x))
    return np.sort(x, axis, None if alike else "stable")


def _internal(name: str, fun: Any) -> Primitive:
    return Primitive(name, fun, arity=None, constant=True, batch=lambda *_: None)  # made after all tracing is done


PRODUCTS = _internal("sum_of_products", _products)
TAKEN = _internal("taken", lambda x, index: np.array(x[index]))
SORTED = _internal("sorted", _sorted)


def _outer(program: Program, by: Instruction, made: dict[int, Instruction]) -> tuple[int, int] | None:
    """A vector and a row, if what multiplies is the vector as a column, times the row."""
    kinds, out = program.kinds, program.kinds[by.out]
    for column, row in (by.args, by.args[::-1]):
        of = maker(made, column, "getitem", "reshape")
        if of is None or of.primitive is GETITEM and not (is_basic(of.params[0]) and of.params[0] in _COLUMN):
            continue
        x, y = kinds[of.args[0]], kinds[row]
        if not (x and y and out and x.dtype == y.dtype == out.dtype and kinds[column].shape == (*x.shape, 1) == (*out.shape[:1], 1)):
            continue
        if out.size >= _OUTER and y.shape in (out.shape[1:], (1, *out.shape[1:])):
            return of.args[0], row
    return None


def merged(program: Program) -> Program:
    """With sums of parts, and of products with a transposed matrix, or of columns and rows, as one instruction."""
    if not program.has("placed", "matmul"):
        return program
    kinds = program.kinds
    uses = program.uses()
    terms: dict[int, tuple[str, list[Any]]] = {}  # of a sum: "parts" with their indices, or "pairs" of matrices

    def term(a: int, made: dict[int, Instruction]) -> tuple[str, list[Any]] | None:
        if a < 0:
            return "parts", [(a, ...)]
        if a in terms:
            return terms[a]
        if (by := maker(made, a, "placed")) is not None and is_basic(by.params[0]):
            return "parts", [(by.args[0], by.params[0])]
        if (by := maker(made, a, "matmul")) is not None:
            left, (x, y, out) = turned(program, by.args[0], made), [kinds[v] for v in (*by.args, by.out)]
            if left is not None and x and y and out and len(y.shape) == 2 and x.size + y.size <= max(out.size, _COPIED):
                return "pairs", [(left, by.args[1])]
        by = maker(made, a, "multiply")
        pair = None if by is None else _outer(program, by, made)
        return None if pair is None else ("pairs", [pair])

    def rule(i: Instruction, made: dict[int, Instruction]) -> Instruction | None:
        out = kinds.get(i.out)
        if out is None or any(uses[a] != 1 or kinds[a] != out for a in i.args):
            return None
        first, second = term(i.args[0], made), term(i.args[1], made)
        if first is None or second is None or first[0] != second[0] or len(first[1]) + len(second[1]) > _MOST:
            return None
        what, both = terms[i.out] = first[0], first[1] + second[1]
        if what == "pairs":
            return Instruction(PRODUCTS, i.out, tuple(a for pair in both for a in pair), ())
        return Instruction(PARTS, i.out, tuple(a for a, _ in both), (out.shape, out.dtype, [index for _, index in both]))

    def complete(i: Instruction, _made: dict[int, Instruction]) -> Instruction | None:
        return Instruction(PARTS, i.out, i.args, covering(*i.params))

    return rewritten(dead(rewritten(program, rule, "add")), complete, PARTS.name)


def _row_of(program: Program, a: int, made: dict[int, Instruction]) -> tuple[int | None, int] | None:
    """(array, number of the row) for a value that is a row of an array; (None, its own number) for a constant."""
    if a < 0:
        return None, a
    by = maker(made, a, "getitem")
    if by is None or (kind := program.kinds[by.args[0]]) is None:
        return None
    (k,) = by.params[0] if isinstance(by.params[0], tuple) and len(by.params[0]) == 1 else by.params
    return (by.args[0], k % kind.shape[0]) if type(k) is int else None


def _span(index: Any, shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Axis, start and end of what an index takes, if that is one stretch of one axis, and all of the others."""
    parts = [*parts_of(index)]
    if Ellipsis in parts:
        k = parts.index(Ellipsis)
        parts[k : k + 1] = [slice(None)] * (len(shape) - len(parts) + 1)
    if not all(isinstance(p, slice) and p.step in (None, 1) for p in parts):
        return None
    cut = [(axis, *p.indices(n)[:2]) for axis, (p, n) in enumerate(zip(parts, shape)) if p.indices(n)[:2] != (0, n)]
    return cut[0] if len(cut) == 1 else None


class _Source(NamedTuple):
    """What has stretches: an axis of an array, or an operation on the stretches of another, with what it is done."""

    array: int
    axis: int
    before: int = -1
    how: tuple[int | None, ...] = ()


def _stretches(program: Program) -> tuple[list[_Source], dict[int, tuple[int, tuple[int, int]]]]:
    """What has stretches, and of each small stretch: of which of them, and where it begins and ends."""
    kinds = program.kinds
    numbers: dict[Any, int] = {}
    sources: list[_Source] = []
    spans: dict[int, tuple[int, tuple[int, int]]] = {}

    def number(key: Any, source: _Source) -> int:
        if key not in numbers:
            numbers[key] = len(sources)
            sources.append(source)
        return numbers[key]

    for i in program.instructions:
        out = kinds.get(i.out)
        if out is None or out.form != ARRAY or not FEW < out.size <= _ABREAST:
            continue
        if i.primitive is GETITEM and program.is_array(x := i.args[0]) and is_basic(i.params[0]):
            if (found := _span(i.params[0], kinds[x].shape)) is not None and math.prod(out.shape[: found[0]]) == 1:
                axis, *ends = found
                spans[i.out] = number((x, axis), _Source(x, axis)), (ends[0], ends[1])
        elif is_elementwise(i.primitive) and len(of := {a for a in i.args if a in spans}) == 1:
            (x,) = of
            if kinds[x].shape == out.shape and all(a == x or a < 0 and (k := kinds[a]) is not None and k.size == 1 for a in i.args):
                before, part = spans[x]
                how = tuple([None if a == x else a for a in i.args])
                source = sources[before]._replace(before=before, how=how)
                spans[i.out] = number((i.primitive, how, out.dtype, before), source), part
    return sources, spans


def _neighbours(stretches: set[tuple[int, tuple[int, int]]]) -> dict[Any, tuple[int, int]]:
    """Of each stretch that others of its kind adjoin: where all of them together begin and end."""
    runs: dict[Any, tuple[int, int]] = {}
    row: list[tuple[int, tuple[int, int]]] = []
    for stretch in [*sorted(stretches), (-1, (-1, -1))]:
        if row and (stretch[0], stretch[1][0]) != (row[-1][0], row[-1][1][1]):
            runs |= {s: (row[0][1][0], row[-1][1][1]) for s in row if len(row) > 1}
            row = []
        row.append(stretch)
    return runs


def abreast(program: Program) -> Program:
    """With one operation for those on neighbouring stretches of one array, as of the gates of a recurrent network, if they are small."""
    kinds = program.kinds
    sources, spans = _stretches(program)
    runs = _neighbours({span for span in spans.values() if sources[span[0]].before >= 0})
    whole: dict[Any, int] = {}

    def rule(i: Instruction, _made: Any) -> tuple[Instruction, ...] | None:
        span = spans.get(i.out)
        if span is None or (run := runs.get(span)) is None:
            return None
        (made, part), steps = span, list[Instruction]()
        array, axis, before, how = sources[made]

        def kind(start: int, end: int, dtype: Any) -> Kind:
            shape = kinds[i.out].shape
            return Kind((*shape[:axis], end - start, *shape[axis + 1 :]), dtype)

        def stretch(x: int, start: int, end: int, out: int) -> int:
            steps.append(Instruction(GETITEM, out, (x,), ((*(slice(None),) * axis, slice(start, end)),)))
            return out

        if (made, run) not in whole:
            first, x = 0, array
            if sources[before].before >= 0:
                others = runs.get((before, part), (0, 0))
                if not others[0] <= run[0] < run[1] <= others[1]:
                    return None
                first, x = others[0], whole[before, others]
            if kinds[x].shape[axis] != run[1] - run[0]:
                x = stretch(x, run[0] - first, run[1] - first, program.value(kind(*run, kinds[x].dtype)))
            whole[made, run] = program.value(kind(*run, kinds[i.out].dtype))
            steps.append(Instruction(i.primitive, whole[made, run], tuple([x if a is None else a for a in how]), ()))
        stretch(whole[made, run], part[0] - run[0], part[1] - run[0], i.out)
        return tuple(steps)

    return rewritten(program, rule) if runs else program


def flattened(program: Program) -> Program:
    """With one product of two for that of many matrices with the same one, or the same vector: NumPy calls BLAS once for each."""
    kinds = program.kinds

    def rule(i: Instruction, made: dict[int, Instruction]) -> tuple[Instruction, ...] | None:
        if not all(program.is_array(v) for v in (*i.args, i.out)):
            return None
        x, y, out = (kinds[v] for v in (*i.args, i.out))
        if len(x.shape) < 3 or len(y.shape) > 2 or not out.size:
            return None
        by = maker(made, i.args[0], "reshape")
        source = i.args[0] if by is None else by.args[0]
        rest = out.shape[-1:] if len(y.shape) == 2 else ()
        flat, product = (Kind((out.size // math.prod(rest), *end), k.dtype) for k, end in ((x, x.shape[-1:]), (out, rest)))
        if source < 0:
            source = program.const(program.constant(source).reshape(flat.shape))
        steps = [] if kinds[source] == flat else [Instruction(RESHAPE, program.value(flat), (source,), (flat.shape,))]
        steps.append(Instruction(i.primitive, program.value(product), (steps[0].out if steps else source, i.args[1]), i.params))
        return *steps, Instruction(RESHAPE, i.out, (steps[-1].out,), (out.shape,))

    return rewritten(program, rule, "matmul")


def stacked(program: Program) -> Program:
    """With one product for those of many rows of an array, or of many constants, with the same matrix: what a loop does with its
    inputs need not wait for the step before.
    """
    if not program.has("matmul"):
        return program
    kinds = program.kinds
    groups: dict[Any, dict[int, int]] = {}  # for each array, or None of constants, and matrix: of which row each product is
    made: dict[int, Instruction] = {}
    for i in program.instructions:
        made[i.out] = i
        if i.primitive.name != "matmul" or not all(program.is_array(v) for v in (*i.args, i.out)):
            continue
        x, y, out = (kinds[v] for v in (*i.args, i.out))
        second = len(x.shape) == 2 and len(y.shape) == 1  # whether the row is the second factor
        if not (second or len(y.shape) == 2 and len(x.shape) <= 2) or not x.dtype == y.dtype == out.dtype:
            continue
        row, matrix = i.args[second], i.args[not second]
        small = out.size and max(kinds[row].size, out.size) <= _EACH
        if small and (source := _row_of(program, row, made)) is not None:
            groups.setdefault((source[0], matrix, second, kinds[row].shape), {})[i.out] = source[1]
    joined: dict[int, Any] = {}
    for (array, matrix, second, shape), rows in groups.items():
        count = len(rows) if array is None else kinds[array].shape[0]
        if len(rows) >= max(_FEW, count // 2) and count * kinds[next(iter(rows))].size <= _ALL:
            if array is None:
                array = program.const(np.stack([program.constant(k) for k in rows.values()]))
                rows = {v: n for n, v in enumerate(rows)}
            joined.update(dict.fromkeys(rows, (array, matrix, second, shape, rows)))
    done: dict[int, int] = {}

    def rule(i: Instruction, _made: Any) -> tuple[Instruction, ...] | None:
        if i.out not in joined:
            return None
        source, matrix, second, shape, rows = joined[i.out]
        steps: list[Instruction] = []

        def value(primitive: Primitive, shape: tuple[int, ...], args: tuple[int, ...], *params: Any) -> int:
            steps.append(Instruction(primitive, program.value(Kind(shape, kinds[i.out].dtype)), args, params))
            return steps[-1].out

        if i.out not in done:
            whole, flat = (kinds[source].shape[0], *kinds[i.out].shape), (kinds[source].size // shape[-1], shape[-1])
            source = value(RESHAPE, flat, (source,), flat) if len(shape) == 2 else source
            matrix = value(TRANSPOSE, kinds[matrix].shape[::-1], (matrix,), (1, 0)) if second else matrix
            product = value(i.primitive, (flat[0], kinds[matrix].shape[1]), (source, matrix))
            done.update(dict.fromkeys(rows, value(RESHAPE, whole, (product,), whole)))
        return *steps, Instruction(GETITEM, i.out, (done[i.out],), (rows[i.out],))

    return rewritten(program, rule) if joined else program


def early_sums(program: Program) -> Program:
    """With a sum over the rows of a matrix product, which nothing else reads, as the product of the sum: it is right to rounding."""
    kinds = program.kinds
    uses = program.uses()

    def rule(i: Instruction, made: dict[int, Instruction]) -> tuple[Instruction, ...] | None:
        moved = maker(made, i.args[0], "transpose")
        product = maker(made, i.args[0] if moved is None else moved.args[0], "matmul")
        if product is None or uses[i.args[0]] != 1 or uses[product.out] != 1:
            return None
        x, y, whole, out = (kinds[k] for k in (*product.args, product.out, i.out))
        if x is None or y is None or whole is None or out is None or whole.dtype.itemsize < 4:
            return None
        n = len(whole.shape)
        if not len(x.shape) == n >= 2 <= len(y.shape):
            return None
        axes = tuple([moved.params[0][a] if moved is not None else a for a in axes_of(i.params[0], n)])
        if n - 2 not in axes or n - 1 in axes or len(y.shape) > 2 and len(axes) > 1:
            return None
        total = program.value(Kind(tuple([1 if k in axes else d for k, d in enumerate(x.shape)]), x.dtype))
        row = program.value(Kind(tuple([1 if k in axes else d for k, d in enumerate(whole.shape)]), whole.dtype))
        steps = [
            Instruction(i.primitive, total, (product.args[0],), (axes, True)),
            Instruction(product.primitive, row, (total, product.args[1]), ()),
        ]
        if moved is not None:
            back = program.value(Kind(tuple([kinds[row].shape[a] for a in moved.params[0]]), whole.dtype))
            steps.append(Instruction(TRANSPOSE, back, (row,), moved.params))
        return *steps, Instruction(RESHAPE, i.out, (steps[-1].out,), (out.shape,))

    return rewritten(program, rule, "sum")


def gathered(program: Program) -> Program:
    """With a part added to an array where it belongs, in the place of the array plus one of zeros that holds the part."""
    if not program.has("placed"):
        return program
    kinds = program.kinds

    def rule(i: Instruction, made: dict[int, Instruction]) -> Instruction | None:
        for whole, part in (i.args, i.args[::-1]):
            by = maker(made, part, "placed")
            if by is not None and kinds[whole] == kinds[part] == kinds[i.out]:
                return Instruction(INDEX_ADD, i.out, (whole, by.args[0]), by.params[:1])
        return None

    return rewritten(program, rule, "add")


def ranked(program: Program) -> Program:
    """With a plain sort in the place of an argsort whose order is only used to sort."""
    uses = program.uses()

    def rule(i: Instruction, made: dict[int, Instruction]) -> Instruction | None:
        order = maker(made, i.args[1], "argsort")
        if order is None or uses[order.out] != 1:
            return None
        return Instruction(SORTED, i.out, order.args, i.params) if order.args == i.args[:1] and order.params == i.params else None

    return rewritten(program, rule, "take_along")


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
