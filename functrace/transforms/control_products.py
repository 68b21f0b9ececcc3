"""Products in the step of a derivative: where the state meets several factors, these are multiplied first, out of the loop.

Such a step is linear in its state. Its slopes, like `1 - tanh(x)**2`, come as factors one after the other, which need no carry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from functrace.core.primitive import Aval, Primitive
from functrace.ops.elementwise import add, divide, multiply, negative, subtract
from functrace.transforms.control_body import Body, Instruction

_FUNCTIONS: tuple[Any, ...] = (add, subtract, multiply, divide, negative)
_OPS: dict[str, Primitive] = {f.__name__: f.primitive for f in _FUNCTIONS}
_SUMS = ("add", "subtract")
_Chain = tuple[int, int, bool]  # what needs the state, the rest, whether it is negated


class _Regrouping:
    """A program while its instructions are written anew."""

    def __init__(self, step: Body) -> None:
        self.template, self.avals = step.template.copy(), step.avals.copy()
        self.code: list[Instruction] = []
        self.chains: dict[int, _Chain] = {}  # products that are not yet written, or of which a factor may join others
        self.written: set[int] = set()

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
        self.code.append((_OPS[name], out, ins, ()))
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
            if i in self.chains and i not in self.written:
                self.written.add(i)
                x, rest, negated = self.chains[i]
                self.code.append((_OPS["multiply"], i, (x, self.made("negative", rest) if negated else rest), ()))

    def joined(self, name: str, ins: Sequence[int], mine: Sequence[int], dtype: Any) -> _Chain | None:
        """The product that an instruction with a result of that dtype makes of products; None if it is another instruction."""
        if name in _SUMS:
            return self._summed(name, *(self.chains.get(i) for i in ins))
        if name not in ("multiply", "divide", "negative") or len(mine) != 1:
            return None
        x, rest, negated = self.chains.get(mine[0], (mine[0], -1, False))
        if name != "multiply" and (ins[0] != mine[0] or rest < 0 or self.avals[rest].dtype == bool):
            return None
        factors = [self.strong(i, dtype) for i in ins if i not in mine]
        if any(self.avals[i] is None or self.avals[i].dtype not in (dtype, bool) for i in (*mine, *factors)):
            return None
        for i in factors:
            rest = i if rest < 0 else self.made(name, rest, i)
        return x, rest, negated ^ (name == "negative")

    def _summed(self, name: str, a: _Chain | None, b: _Chain | None) -> _Chain | None:
        """`x * p + x * q` is `x * (p + q)`."""
        if a is None or b is None or a[0] != b[0] or self.avals[a[1]].dtype == self.avals[b[1]].dtype == bool:
            return None
        minus = b[2] ^ (name == "subtract")
        if a[2] == minus:
            return a[0], self.made("add", a[1], b[1]), minus
        return a[0], self.made("subtract", *((a[1], b[1]) if minus else (b[1], a[1]))), False


def regrouped(step: Body, fixed: int, states: int) -> Body:
    """A step with `x * a * b / c` as `x * (a * b / c)`, where only `x` needs the state: the inputs after those that are `fixed`.

    Not for loops that users write, which give what Python does to the last bit.
    """
    moving = {*step.inputs[fixed : fixed + states]}
    uses = Counter([*step.outputs, *(i for row in step.code for i in row[2])])
    new = _Regrouping(step)
    for row in step.code:
        primitive, out, ins, _ = row
        mine = [i for i in ins if i in moving]
        moving.update([out] * bool(mine))
        aval = new.avals.get(out)
        chain = new.joined(primitive.name, ins, mine, aval.dtype) if mine and aval is not None else None
        if chain is None:
            new.write(ins)
            new.code.append(row)
            continue
        new.chains[out] = chain
        if uses[out] > 1:
            new.write([out])
            if out in step.outputs[:states] or uses[out] - step.outputs.count(out) > 1:
                del new.chains[out]  # else only results of the loop need it, which come after it
    new.write(step.outputs)
    return step.derived(code=new.code, template=new.template, avals=new.avals)
