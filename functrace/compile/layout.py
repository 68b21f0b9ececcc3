"""How the arrays of a batch lie in memory: with a long axis innermost, where examples or rows have few elements.

NumPy's loops run along the innermost axis. In a batch of short vectors, say (1000, 3), that axis has three elements, and to start
a loop for three of them costs more than the arithmetic, wherever shapes differ or a short axis is summed over. With the batch
innermost in memory (the axes stay as they are) the same operations run along a thousand elements. A program that has such
operations keeps its buffers so; what it gives to the caller lies as usual.

In differences of all pairs of points, say (500, 1000, 3), blocks are made of the first axis, and the second is put innermost: in
the arrays of a block, if none such comes in or goes out, which it would do in another order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from functrace.compile.fuse import REDUCTIONS, axes_of
from functrace.compile.passes import is_elementwise
from functrace.compile.program import Instruction, Program
from functrace.ops.positions import is_basic

LONG = 256  # examples from which on a batch is worth it
SHORT = 24  # elements of an example up to which
PRODUCT = 27  # multiplications in an example's product of matrices up to which einsum's loop along the examples beats one for each
_BY_INDEX = frozenset(("getitem", "gather", "scatter", "index_set", "index_add"))


def tall(shape: Sequence[int]) -> bool:
    """Whether an array of this shape is a long batch of short examples."""
    return len(shape) > 1 and shape[0] >= LONG and 1 < math.prod(shape[1:]) <= SHORT


def narrow(shape: Sequence[int]) -> bool:
    """Whether an array of this shape ends in many short rows."""
    return len(shape) > 1 and 1 < shape[-1] <= SHORT < shape[-2]


def apart(instructions: Sequence[Instruction], kinds: dict[int, Any], ends: Collection[int]) -> bool:
    """Whether some of these instructions have NumPy start a loop for each row of narrow arrays of three axes or more, which with the
    second from the end innermost it does not. No such array is among `ends`, what comes from outside or is made for it.
    """
    deep = [v for v in ends if len(kinds[v].shape) > 2 and kinds[v].shape[0] > 1]
    return not any(narrow(kinds[v].shape) for v in deep) and any(_restarts(i, kinds) for i in instructions)


def _restarts(i: Instruction, kinds: dict[int, Any]) -> bool:
    whole = kinds[i.out].shape
    if len(whole) < 3 or not narrow(whole):
        return False
    ends = [(1, 1, *kinds[a].shape)[-2:] for a in i.args]
    return any((rows == 1) != (row == 1) for rows, row in ends)


def close(x: Any) -> Any:
    """An array, copied with the second axis from the end innermost."""
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


def empty(shape: tuple[int, ...], dtype: Any, make: Callable[..., Any] = np.empty) -> Any:
    """An array, the first axis innermost, of memory that `make` gives."""
    return make((*shape[1:], shape[0]), dtype).transpose(-1, *range(len(shape) - 1))


def turned(x: Any) -> bool:
    """Whether an array lies with its first axis innermost."""
    return x.strides[0] == x.itemsize  # type: ignore[no-any-return]


def laid(x: Any) -> Any:
    """An array, copied with the first axis innermost unless it lies so."""
    if not isinstance(x, np.ndarray) or turned(x):
        return x
    out = empty(x.shape, x.dtype)
    out[...] = x
    return out


def uneven(program: Program) -> bool:
    """Whether a program's operations on tall arrays that start a loop for each example are more than those that pick or place rows,
    which take longer where a row is scattered.
    """
    return sum(_starts(i, program.kinds) - _picks(i, program.kinds) for i in program.instructions) > 0


def _starts(i: Instruction, kinds: dict[int, Any]) -> bool:
    if i.primitive.name in REDUCTIONS:
        x = kinds[i.args[0]]
        return x is not None and tall(x.shape) and 0 not in axes_of(i.params[0], len(x.shape))
    out = kinds.get(i.out)
    if out is None or not tall(out.shape):
        return False
    if subscripts(i, kinds) is not None:
        return True
    if not (is_elementwise(i.primitive) or i.primitive.name == "where"):
        return False
    shapes = [k.shape for a in i.args if (k := kinds[a]) is not None]
    return any(len(s) == len(out.shape) and s[0] == out.shape[0] and s != out.shape for s in shapes)


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
        letters = {label: chr(97 + k) for k, label in enumerate(dict.fromkeys(i.params[0] + i.params[1]))}
        left, right, result = ("".join([letters[k] for k in labels]) for labels in i.params)
        inner = math.prod([n for k, n in zip(left, x) if k not in result]) if left[0] == right[0] == result[0] else PRODUCT
        text = f"{left},{right}->{result}"
    return text if inner * math.prod(out[1:]) <= PRODUCT else None


def multiplied(program: Program) -> set[int]:
    """The values that are read by matrix products alone, as they are or by way of views: BLAS takes them in any order."""
    others = set(program.outputs)
    for i in reversed(program.instructions):
        view = i.primitive.name in ("reshape", "transpose") and i.out not in others
        if not (view or i.primitive.name == "matmul"):
            others.update(i.args)
    return {i.out for i in program.instructions} - others


def _picks(i: Instruction, kinds: dict[int, Any]) -> bool:
    kind = kinds.get(i.args[0] if i.primitive.name == "scatter" else i.out)
    return i.primitive.name in _BY_INDEX and kind is not None and tall(kind.shape) and not is_basic(i.params[0])
