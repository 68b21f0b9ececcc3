"""Products in the step of a derivative: where the state meets several factors, these are multiplied first, out of the loop.

Such a step is linear in its state. Its slopes, like `1 - tanh(x)**2`, come as factors one after the other, which need no carry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from functrace.core.primitive import Aval, Primitive
from functrace.transforms.control_program import Instruction, Program

_LINKS = frozenset(("multiply", "divide", "negative"))


class _Regrouping:
    """A program while its instructions are written anew."""

    def __init__(self, step: Program) -> None:
        self.template, self.avals = step.template.copy(), step.avals.copy()
        self.code: list[Instruction] = []
        self.ops: dict[str, Primitive] = {}
        self.chains: dict[int, tuple[int, int, bool]] = {}  # not yet written: what needs the state, the rest, the sign

    def place(self, x: Any, aval: Aval) -> int:
        """A new place, of a constant or a result."""
        self.template.append(x)
        self.avals[len(self.template) - 1] = aval
        return len(self.template) - 1

    def made(self, name: str, *ins: int) -> int:
        """The place of a new result."""
        kinds = [self.avals[i] for i in ins]
        zero = np.zeros((), np.result_type(*(a.dtype for a in kinds)))
        out = self.place(None, Aval(np.broadcast_to(zero, np.broadcast_shapes(*(a.shape for a in kinds)))))
        self.code.append((self.ops[name], out, ins, ()))
        return out

    def strong(self, i: int, dtype: Any) -> int:
        """A factor; a number of Python's in the dtype of what it meets."""
        x = self.template[i]
        if self.avals.get(i) is not None or type(x) not in (int, float) or dtype.kind != "f":
            return i
        return self.place(dtype.type(x), Aval(dtype.type(x)))

    def write(self, places: Iterable[int]) -> None:
        """The instructions of products that are asked for."""
        for i in places:
            if i in self.chains:
                x, rest, negated = self.chains.pop(i)
                self.code.append((self.ops["multiply"], i, (x, self.made("negative", rest) if negated else rest), ()))


def regrouped(step: Program, fixed: int, states: int) -> Program:
    """A step with `x * a * b / c` as `x * (a * b / c)`, where only `x` needs the state: the inputs after those that are `fixed`.

    Not for loops that users write, which give what Python does to the last bit.
    """
    moving = {*step.inputs[fixed : fixed + states]}
    uses = Counter([*step.outputs, *(i for row in step.code for i in row[2])])
    new = _Regrouping(step)
    chains, avals = new.chains, new.avals
    for row in step.code:
        primitive, out, ins, _ = row
        name, mine = primitive.name, [i for i in ins if i in moving]
        moving.update([out] * bool(mine))
        linked = name in _LINKS and len(mine) == 1
        if linked and name != "multiply":
            linked = ins[0] in chains and avals[chains[ins[0]][1]].dtype != bool
        factors = [new.strong(i, avals[out].dtype) for i in ins if i not in moving] if linked else []
        if not linked or any(avals[i] is None or avals[i].dtype not in (avals[out].dtype, bool) for i in (*mine, *factors)):
            new.write(ins)
            new.code.append(row)
            continue
        new.ops[name] = primitive
        x, rest, negated = chains.pop(mine[0], (mine[0], -1, False))
        for i in factors:
            rest = i if rest < 0 else new.made(name, rest, i)
        chains[out] = x, rest, negated ^ (name == "negative")
        new.write([out] * (uses[out] > 1))
    new.write(step.outputs)
    return step.derived(code=new.code, template=new.template, avals=avals)
