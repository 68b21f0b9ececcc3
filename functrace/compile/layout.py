"""How the arrays of a batch lie in memory: with the batch innermost, where an example has few elements.

NumPy's loops run along the innermost axis. In a batch of short vectors, say (1000, 3), that axis has three elements, and to start
a loop for three of them costs more than the arithmetic, wherever shapes differ or a short axis is summed over. With the batch
innermost in memory (the axes stay as they are) the same operations run along a thousand elements. A program that has such
operations keeps its buffers so; what it gives to the caller lies as usual.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.compile.fuse import REDUCTIONS, axes_of
from functrace.compile.passes import is_elementwise
from functrace.compile.program import Program

LONG = 256  # examples from which on a batch is worth it
SHORT = 24  # elements of an example up to which


def tall(shape: Sequence[int]) -> bool:
    """Whether an array of this shape is a long batch of short examples."""
    return len(shape) > 1 and shape[0] >= LONG and 1 < math.prod(shape[1:]) <= SHORT


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
    """Whether a program has an operation on tall arrays that starts a loop for each example."""
    kinds = program.kinds
    for i in program.instructions:
        out = kinds.get(i.out)
        shapes = [k.shape for a in i.args if (k := kinds[a]) is not None]
        if i.primitive.name in REDUCTIONS:
            if shapes and tall(shapes[0]) and 0 not in axes_of(i.params[0], len(shapes[0])):
                return True
        elif out is not None and tall(out.shape) and (is_elementwise(i.primitive) or i.primitive.name == "where"):
            repeated = [len(s) == len(out.shape) and s[0] == out.shape[0] and s != out.shape for s in shapes]
            if any(repeated):
                return True
    return False
