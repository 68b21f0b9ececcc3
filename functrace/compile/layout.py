"""How the arrays of a batch lie in memory: with a long axis innermost, where examples or rows have few elements.

NumPy's loops run along the innermost axis. In a batch of short vectors, say (1000, 3), that axis has three elements, and to start
a loop for three of them costs more than the arithmetic, wherever shapes differ or a short axis is summed over. With the batch
innermost in memory (the axes stay as they are) the same operations run along a thousand elements. A program in which such loops take
longer than copies would keeps its buffers so; what it gives to the caller lies as usual.

Where the result of a ufunc is small, what it would broadcast is copied to an array of its shape first: NumPy sets out to broadcast in four
times the time of an operation on a few hundred numbers that lie alike, and a copy takes half of one.

In differences of all pairs of points, say (500, 1000, 3), the last axis is put outermost: to NumPy they are three matrices.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.compile.elements import SUMS, TESTS
from functrace.compile.fuse import REDUCTIONS, SMALL, axes_of, long
from functrace.compile.parts import NAMES
from functrace.compile.passes import is_elementwise
from functrace.compile.program import ARRAY, GUARD, Instruction, Program
from functrace.ops.positions import is_basic

LONG = 256  # examples from which on a batch is worth it
SHORT, EXAMPLE = 24, 256  # elements along which a loop is a short one; elements of an example up to which
MOVED = 8  # elements that are copied to another order in the time that a loop takes to start
PRODUCT = 27  # multiplications in an example's product of matrices up to which einsum's loop along the examples beats one for each
FIRST, LAST = 1, 2  # the ways: the first axis innermost; the last axis outermost
SPREAD = 1 << 10  # elements of a result up to which what it broadcasts is copied
_EXACT = frozenset((*SUMS, *TESTS, "divide"))  # of which every bit is the same in any of NumPy's loops
_ANY_ORDER = frozenset(("where", "astype", "astype_constant", "broadcast_to", "transpose", "cross", *REDUCTIONS, *NAMES))
_BY_INDEX = frozenset(("getitem", "index_set", "index_add"))


def tall(shape: Sequence[int]) -> bool:
    """Whether an array of this shape is a long batch of short examples."""
    return len(shape) > 1 and shape[0] >= LONG and 1 < math.prod(shape[1:]) <= EXAMPLE


def narrow(shape: Sequence[int]) -> bool:
    """Whether an array of this shape ends in many short rows."""
    return len(shape) > 1 and 1 < shape[-1] <= SHORT < shape[-2]


def deep(shape: Sequence[int]) -> bool:
    """Whether an array of this shape is a matrix of short rows, of which the last axis is to be outermost."""
    return len(shape) > 2 and narrow(shape) and math.prod(shape[:-2]) > 1 and not long(shape)


def _run(shapes: Sequence[Sequence[int]], out: Sequence[int]) -> int:
    """Elements along which NumPy's innermost loop runs: of the last axes, along which each argument goes on, or is repeated."""
    run, ways = 1, None
    for k in range(1, len(out) + 1):
        if out[-k] > 1:
            now = [len(s) >= k and s[-k] == out[-k] for s in shapes]
            if ways is not None and now != ways:
                break
            ways = now
            run *= out[-k]
    return run


def _whole(i: Instruction) -> int:
    """The value along whose elements NumPy's loops go, of a ufunc or a reduction."""
    return i.args[0] if i.primitive.name in REDUCTIONS else i.out


def loops(i: Instruction, kinds: dict[int, Any]) -> int:
    """How many loops over few elements NumPy makes of an instruction: none, if each is over many, or if it is no ufunc or reduction."""
    if any(kinds[v] is None for v in (*i.args, i.out)):
        return 0
    whole = kinds[_whole(i)]
    if i.primitive.name in REDUCTIONS:
        axes = axes_of(i.params[0], len(whole.shape))
        shapes = [tuple(1 if k in axes else n for k, n in enumerate(whole.shape))]
    elif is_elementwise(i.primitive) or i.primitive.name == "where":
        shapes = [kinds[a].shape for a in i.args]
    else:
        return 0
    run = _run(shapes, whole.shape)
    return whole.size // run if 1 < run <= SHORT else 0


def empty(shape: tuple[int, ...], dtype: Any, make: Callable[..., Any] = np.empty, way: int = FIRST) -> Any:
    """An array that lies in a way, of memory that `make` gives."""
    if way == LAST:
        return make((shape[-1], *shape[:-1]), dtype).transpose(*range(1, len(shape)), 0)
    return make((*shape[1:], shape[0]), dtype).transpose(-1, *range(len(shape) - 1))


EMPTY: dict[int, Callable[..., Any]] = {FIRST: empty, LAST: functools.partial(empty, way=LAST)}


def laid(x: Any, way: int = FIRST) -> Any:
    """An array, copied to lie in a way unless it does."""
    if not isinstance(x, np.ndarray) or (x.strides[0] == x.itemsize if way == FIRST else x.strides[-1] == max(x.strides)):
        return x
    out = empty(x.shape, x.dtype, way=way)
    out[...] = x
    return out


def products(x: Any, y: Any, out: Any) -> None:
    """`x @ y` into `out`, of many small matrices with the first axis innermost: along their number, if there is more to do term by term."""
    x, y = laid(x), laid(y)
    if x.shape[-1] * math.prod(out.shape[1:]) <= PRODUCT:
        np.einsum("...ij,...jk->...ik", x, y, out=out)
        return
    np.multiply(x[..., :1], y[..., :1, :], out)
    term = np.empty_like(out)
    for k in range(1, x.shape[-1]):
        np.multiply(x[..., k : k + 1], y[..., k : k + 1, :], term)
        np.add(out, term, out)


class Layout:
    """In which way the arrays of a program are to lie."""

    def __init__(self, program: Program) -> None:
        self.uneven, self.deep = _worth(program, tall), _worth(program, deep)

    def way(self, kind: Any) -> int:
        """How a value is to lie: 0 as NumPy would lay it."""
        if kind is None or kind.form != ARRAY:
            return 0
        return FIRST if self.uneven and tall(kind.shape) else LAST if self.deep and deep(kind.shape) else 0

    def crossing(self, i: Instruction, kinds: dict[int, Any]) -> list[bool]:
        """For each argument of an elementwise instruction whether it lies across the result: NumPy would else loop in its order."""
        if not self.deep or self.way(kinds[i.out]) != LAST:
            return []
        n = kinds[i.out].shape[-1]
        return [kinds[a].shape[-1:] == (n,) and kinds[a].size > n and not self.way(kinds[a]) for a in i.args]


def _worth(program: Program, lies: Callable[[Sequence[int]], bool]) -> bool:
    """Whether the short loops over arrays that could lie in a way take longer to start than it takes to copy to and from that way."""
    kinds = program.kinds
    gained = 0
    for i in (i for i in program.instructions if i.primitive is not GUARD):
        known = [k for v in (i.out, *i.args) if (k := kinds.get(v)) is not None]
        if not any(lies(k.shape) for k in known):
            continue
        if (whole := kinds.get(_whole(i))) is not None and lies(whole.shape):
            gained += MOVED * (whole.size if subscripts(i, kinds) is not None else loops(i, kinds))
        gained -= sum(k.size for k in _moved(i, kinds, known) if lies(k.shape))
    ends = [k for v in {*range(program.ninputs), *program.outputs} if (k := kinds.get(v)) is not None]
    return bool(gained > sum(k.size for k in ends if lies(k.shape)))


def _moved(i: Instruction, kinds: dict[int, Any], known: list[Any]) -> list[Any]:
    """Of the kinds that are known of an instruction's result and arguments those that it takes or makes in NumPy's own order only."""
    name = i.primitive.name
    if len(known) <= len(i.args):
        return known
    if is_elementwise(i.primitive) or name in _ANY_ORDER or name in _BY_INDEX and is_basic(i.params[0]) or subscripts(i, kinds) is not None:
        return []
    if name == "reshape":
        return [] if known[0].shape[:1] == known[1].shape[:1] else known[:1]
    if name == "matmul":
        many = len(known[0].shape) > 2
        return [] if many and known[1].shape[-1] * math.prod(known[0].shape[1:]) <= SMALL else known if many else known[:1]
    return known


def subscripts(i: Instruction, kinds: dict[int, Any]) -> str | None:
    """Those of einsum, of an instruction that multiplies small matrices, one of each example."""
    if i.primitive.name not in ("matmul", "contraction") or any(kinds[v] is None for v in (*i.args, i.out)):
        return None
    x, y, out = (kinds[v].shape for v in (*i.args, i.out))
    if not tall(out) or min(len(x), len(y)) < 2:
        return None
    if i.primitive.name == "matmul":
        text, inner = "...ij,...jk->...ik", x[-1] if len(out) > 2 else PRODUCT
    else:
        text, (left, right, result) = einsum_text(i.params), i.params
        inner = math.prod([n for k, n in zip(left, x) if k not in result]) if left[0] == right[0] == result[0] else PRODUCT
    return text if inner * math.prod(out[1:]) <= PRODUCT else None


def einsum_text(labels: Sequence[Sequence[int]]) -> str:
    """The subscripts of a contraction, as einsum takes them."""
    letters = {label: chr(97 + k) for k, label in enumerate(dict.fromkeys([*labels[0], *labels[1]]))}
    left, right, result = ("".join([letters[k] for k in one]) for one in labels)
    return f"{left},{right}->{result}"


def multiplied(program: Program) -> set[int]:
    """The values that are read by matrix products alone, as they are or by way of views: BLAS takes them in any order."""
    others = set(program.outputs)
    for i in reversed(program.instructions):
        view = i.primitive.name in ("reshape", "transpose") and i.out not in others
        if not (view or i.primitive.name == "matmul"):
            others.update(i.args)
    return {i.out for i in program.instructions} - others


def spreading(i: Instruction, kinds: dict[int, Any], still: range) -> list[int]:
    """The arguments of an elementwise instruction, by place, that are to be spread: those `still`, and constants, and one other."""
    out, args = kinds[i.out], [kinds[a] for a in i.args]
    if i.primitive.name not in _EXACT or out is None or out.form != ARRAY or not 0 < out.size <= SPREAD or None in args:
        return []
    if args[0].dtype.char not in "fd" or any(k.dtype != args[0].dtype for k in args):
        return []
    found = [n for n, k in enumerate(args) if k.shape != out.shape and (k.shape or k.form != ARRAY and i.args[n] in still)]
    moving = [n for n in found if i.args[n] >= 0 and i.args[n] not in still and args[n].size > 1]
    return found if len(moving) < 2 else []
