"""Arrays that are put together: which part is written where, or added to what is there."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.compile.program import Instruction
from functrace.core.primitive import Primitive
from functrace.ops.positions import is_basic
from functrace.ops.shape import along
from functrace.pool import empty, zeros


def _put_together(*args: Any, made: Any = None) -> Any:
    *arrays, indices, shape, dtype, covered = args
    make = empty if covered else zeros
    out = make(shape, dtype) if made is None else made(shape, dtype, make)
    for x, (index, first) in zip(arrays, indices):
        if first:
            out[index] = x
        else:
            out[index] += x
    return out


PARTS = Primitive("sum_of_parts", _put_together, arity=None, constant=True, batch=lambda *_: None)  # made after all tracing is done
NAMES = frozenset(("placed", "stack", "concatenate", PARTS.name))


def covering(shape: tuple[int, ...], dtype: Any, indices: Sequence[Any]) -> tuple[Any, ...]:
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


def indices_of(i: Instruction, kinds: dict[int, Any]) -> list[Any] | None:
    """Where each argument is put, of an instruction that puts together; None of any other."""
    name = i.primitive.name
    if i.primitive is PARTS:
        return [index for index, _ in i.params[0]]
    if name == "placed" and is_basic(i.params[0]):
        return [i.params[0]]
    if name == "stack":
        return [along(i.params[0], k) for k in range(len(i.args))]
    if name == "concatenate" and all(kinds[a] is not None and kinds[a].shape for a in i.args):
        ends = [0, *itertools.accumulate(kinds[a].shape[i.params[0]] for a in i.args)]
        return [along(i.params[0], slice(start, end)) for start, end in itertools.pairwise(ends)]
    return None


def filled(i: Instruction, kinds: dict[int, Any]) -> tuple[Any, ...] | None:
    """The parameters of PARTS for what makes an array of parts."""
    if i.primitive is PARTS:
        return i.params
    indices = indices_of(i, kinds)
    return None if indices is None else covering(kinds[i.out].shape, kinds[i.out].dtype, indices)
