"""The carry of a loop: checks that each step keeps its structure, shapes and dtypes, and which parts of it a batch changes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace import errors, tree
from functrace.core.tracer import Tracer
from functrace.operands import is_tensor, unwrapped
from functrace.ops.blank import own
from functrace.ops.create import as_numpy
from functrace.transforms.control_body import NUMBERS, Body, mapped, number

_NUMERIC = (Tracer, np.ndarray, np.generic, *NUMBERS)


def arrays(what: str, which: str, given: Any) -> tuple[list[Any], Any, list[bool]]:
    """Leaves as arrays, the structure, and which were Python's numbers: those take the dtype that they meet."""
    leaves, treedef = tree.flatten(given)
    for x in leaves:
        if not isinstance(x, _NUMERIC):
            remedy = "Take its numbers, x.numpy()" if is_tensor(x) else "Close over it, or register its class with functrace.tree.register"
            raise errors.InputTypeError(f"{what}: {which} holds a {type(x).__name__}, which is not an array or a number.\n  {remedy}.")
    return [as_numpy(unwrapped(x)) for x in leaves], treedef, [number(x) is not None for x in leaves]


def traced(xs: Sequence[Any]) -> bool:
    """Whether any of the values is traced."""
    return any(isinstance(x, Tracer) for x in xs)


class Carry:
    """The structure, shapes and dtypes of a carry, which each step must keep. Python's numbers take the dtype of the first step."""

    def __init__(self, what: str, init: Any) -> None:
        self.what, self.init = what, tree.leaves(init)
        self.leaves, self.treedef, self.weak = arrays(what, "the initial carry", init)
        self.names = tree.paths(init)

    def settle(self, body: Callable[[Any], Any]) -> None:
        """Give Python's numbers the dtypes that `body`, the first step, makes of them."""
        if any(self.weak):
            given = [old if weak else x for old, weak, x in zip(self.init, self.weak, self.fresh())]
            for k, x in enumerate(self.check(body(self.tree(given)))):
                if self.weak[k]:
                    self.leaves[k] = self.leaves[k].astype(x.dtype)
            self.weak = [False] * len(self.weak)

    def fresh(self) -> list[Any]:
        """The initial leaves, which a body may write to."""
        return own(self.leaves)

    def check(self, new: Any) -> list[Any]:
        """The leaves of a step's new carry."""
        leaves, treedef, _ = arrays(self.what, "the carry that the body returns", new)
        if treedef != self.treedef:
            raise errors.ControlFlowError(
                f"{self.what}: the body must return a carry like the one it is given, {self.treedef!r}, but returned {treedef!r}.\n"
                f"  {'Does it end without a return statement?' if new is None else 'Return as many parts as it takes.'}"
            )
        for old, x, weak, name in zip(self.leaves, leaves, self.weak, self.names):
            if x.shape != old.shape or x.dtype != old.dtype and not (weak and np.can_cast(old.dtype, x.dtype, "same_kind")):
                raise errors.ControlFlowError(
                    f"{self.what}: the carry{name} is {errors.describe(old)} before the step and {errors.describe(x)} after it; it must "
                    f"keep its shape and dtype.\n"
                    "  Start with an array of the right shape and dtype, or convert it in the body."
                )
        return leaves

    def tree(self, leaves: Sequence[Any]) -> Any:
        """A carry of these leaves."""
        return tree.unflatten(self.treedef, leaves)


def of_batch(
    body: Body, flags: Sequence[bool], start: int, count: int, size: int, what: str
) -> tuple[list[bool], Callable[..., list[Any]]]:
    """Which of the `count` values that a step carries, the inputs from `start` on, differ in a batch; and the step for the batch.

    The others stay one value for all examples: a counter that is an index is one number, and what looks at it takes one way.
    """
    moves, end = list(flags[start : start + count]), start + count
    while True:
        flags = [*flags[:start], *moves, *flags[end:]]
        moved = {i for i, f in zip(body.inputs, flags) if f}
        for _, out, ins, _ in body.code:
            if not moved.isdisjoint(ins):
                moved.add(out)
        now = [m or i in moved for m, i in zip(moves, body.outputs)]
        if now == moves:
            break
        moves = now
    wide = [*moves, *(True for _ in body.outputs[count:])]

    def step(flat: list[Any]) -> list[Any]:
        one = list[Any]()

        def run(*xs: Any) -> list[Any]:
            out = body.call(*xs)
            one[:] = [y for y, w in zip(out, wide) if not w]
            return [y for y, w in zip(out, wide) if w]

        each = iter(mapped(run, flat, flags, size, what))
        return [next(each) if w else one.pop(0) for w in wide]

    return moves, step


def parted(flat: Sequence[Any], *counts: int) -> list[Any]:
    """Consecutive parts of a list, of so many values each, and what is left."""
    ends = [0, *itertools.accumulate(counts), len(flat)]
    return [flat[a:b] for a, b in itertools.pairwise(ends)]


def widened(x: Any, size: int) -> Any:
    """A value for each example."""
    return np.broadcast_to(x, (size, *np.shape(x)))
