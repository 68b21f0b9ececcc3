"""Products and sums in the step of a loop: what needs no carry is multiplied or added first, out of the loop.

The step of a derivative is linear in its state, which meets several factors: slopes, like `1 - tanh(x)**2`, one after the other. In the
step of a recurrent network a product with the state meets those with the inputs, and a bias.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from functrace.core.primitive import Aval, Primitive
from functrace.ops.elementwise import add, divide, multiply, negative, subtract
from functrace.transforms.control_body import Body, Instruction

_FUNCTIONS: tuple[Any, ...] = (add, subtract, multiply, divide, negative)
_OPS: dict[str, Primitive] = {f.__name__: f.primitive for f in _FUNCTIONS}
_FEW = 1 << 11  # elements up to which it is the call that takes the time of a sum
_SUMS = ("add", "subtract")
_Chain = tuple[int, int, bool]  # what needs the state, the rest (-1 if it is 1), whether it is negated


class _Rewriting:
    """A program while its instructions are written anew."""

    def __init__(self, step: Body) -> None:
        self.template, self.avals = step.template.copy(), step.avals.copy()
        self.code: list[Instruction] = []

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


class _Regrouping(_Rewriting):
    def __init__(self, step: Body) -> None:
        super().__init__(step)
        self.chains: dict[int, _Chain] = {}  # products that are not yet written, or of which a factor may join others
        self.written: set[int] = set()

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
                rest = self.made("negative", rest) if negated and rest >= 0 else rest
                self.code.append((_OPS["negative"], i, (x,), ()) if rest < 0 else (_OPS["multiply"], i, (x, rest), ()))

    def joined(self, name: str, ins: Sequence[int], mine: Sequence[int], dtype: Any) -> _Chain | None:
        """The product that an instruction with a result of that dtype makes of products; None if it is another instruction."""
        if name in _SUMS:
            return self._summed(name, *(self.chains.get(i) for i in ins))
        if name not in ("multiply", "divide", "negative") or len(mine) != 1:
            return None
        x, rest, negated = self.chains.get(mine[0], (mine[0], -1, False))
        if name == "divide" and (ins[0] != mine[0] or rest < 0) or rest < 0 and negated and name == "negative":
            return None
        if name == "divide" and self.avals[rest].dtype == bool:
            return None
        factors = [self.strong(i, dtype) for i in ins if i not in mine]
        if any(self.avals[i] is None or self.avals[i].dtype not in (dtype, bool) for i in (*mine, *factors)):
            return None
        for i in factors:
            rest = i if rest < 0 else self.made(name, rest, i)
        negated ^= name == "negative"
        return None if negated and rest >= 0 and self.avals[rest].dtype == bool else (x, rest, negated)

    def _summed(self, name: str, a: _Chain | None, b: _Chain | None) -> _Chain | None:
        """`x * p + x * q` is `x * (p + q)`."""
        if a is None or b is None or a[0] != b[0] or min(a[1], b[1]) < 0 or self.avals[a[1]].dtype == self.avals[b[1]].dtype == bool:
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


def carry_last(body: Body, level: dict[int, int]) -> Body:
    """A step with `h @ w + x + b` as `h @ w + (x + b)`, and `exp(-(h * w + x))` as `exp(h * -w - x)`, where only h has level 2.

    Nobody sees a difference: a matrix product is right to rounding, and so its sum; the exponential is the same to the last bit.
    """
    made = {row[1]: row for row in body.code}
    users: dict[int, list[Instruction | None]] = {i: [None] for i in body.outputs}
    for row in body.code:
        for i in row[2]:
            users.setdefault(i, []).append(row)
    new = _Rewriting(body)
    sums: dict[int, tuple[int, int]] = {}  # what needs the carry, and what does not, of sums that are not yet written

    def next_of(i: int, name: str) -> Instruction | None:
        """The only instruction that reads a value, if it is one of this name."""
        (first, *more) = users[i]
        return first if not more and first is not None and first[0].name == name else None

    def opposite(i: int) -> int | None:
        """The negative of a product with what needs no carry, which is negated in its place."""
        primitive, _, ins, params = made.get(i, (None, -1, (), ()))
        early = [k for k in ins if level[k] < 2]
        if primitive is None or primitive.name not in ("matmul", "multiply") or len(early) != 1 or len(users[i]) > 1:
            return None
        if not _alike(new, i, *ins):
            return None
        out = new.place(None, new.avals[i])
        sign = new.made("negative", early[0])
        new.code.append((primitive, out, tuple([sign if k == early[0] else k for k in ins]), params))
        return out

    for row in body.code:
        primitive, out, ins, _ = row
        late = [i for i in ins if level[i] == 2]
        if primitive.name == "add" and len(late) == 1 and level[out] == 2:
            core, rest = late[0], ins[ins[0] == late[0]]
            if core in sums and _alike(new, core, rest):
                core, before = sums.pop(core)
                rest = new.made("add", before, rest)
                row = (primitive, out, (core, rest), ())
            by, negated = made.get(core), next_of(out, "negative")
            waits = by is not None and by[0].name == "matmul" and next_of(out, "add") or negated and next_of(negated[1], "exp")
            if waits and _alike(new, core, rest):
                sums[out] = core, rest
                continue
        if primitive.name == "negative" and ins[0] in sums:
            core, rest = sums.pop(ins[0])
            minus, rest = opposite(core), new.made("negative", rest)
            row = (_OPS["subtract"], out, (rest, core), ()) if minus is None else (_OPS["add"], out, (minus, rest), ())
        for i in row[2]:
            if i in sums:
                new.code.append((_OPS["add"], i, sums.pop(i), ()))
        new.code.append(row)
    if len(new.template) == len(body.template):
        return body
    return body.derived(code=new.code, template=new.template, avals=new.avals)


def _alike(new: _Rewriting, *places: int) -> bool:
    """Whether values are small, and of one dtype, a floating-point one in which sums do not overflow soon."""
    avals: list[Any] = [new.avals.get(i) for i in places]
    if any(aval is None or math.prod(aval.shape) > _FEW for aval in avals):
        return False
    return len({aval.dtype for aval in avals}) == 1 and avals[0].dtype.kind == "f" and avals[0].dtype.itemsize >= 4
