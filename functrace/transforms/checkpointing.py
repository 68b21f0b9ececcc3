"""`checkpoint`: keep the arguments of a call only, and run it again in the reverse replay for the values in between."""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from functrace import edge, errors, tree
from functrace.core.reverse import pullback
from functrace.core.tape import record
from functrace.core.tracer import Tracer
from functrace.transforms.arguments import as_output, name_of, or_zeros, refuse_tensors
from functrace.transforms.batching import ByLeaf, vmap
from functrace.transforms.calls import Call, floats, is_float
from functrace.transforms.closures import lift_closure
from functrace.transforms.derivatives import jvp, vjp
from functrace.transforms.masks import masked, wanted
from functrace.transforms.sketches import alike, sketch
from functrace.transforms.tracing import replaced

P = ParamSpec("P")
R = TypeVar("R")


@edge.transform
def checkpoint(f: Callable[P, R], *, prevent_cse: bool = True, static_argnums: int | Sequence[int] = ()) -> Callable[P, R]:
    """`f`, keeping only its arguments on the tape: the reverse replay runs it again for the values in between.

    Traced values that `f` closes over are differentiated too, also as defaults or in objects, but not in globals and classes. NumPy's
    global random state is put back for the second run.
    `prevent_cse` and `static_argnums` are JAX's and change nothing: an argument is traced only if it was.

    Raises:
        CheckpointError: the second run gave another result than the first.
        CustomRuleError: a global variable or a class that `f` uses holds a traced value.
        MutatedError: `f` sets a traced value in an object that holds one.

    >>> import functrace as ft, numpy as np
    >>> ft.grad(ft.checkpoint(lambda x: np.sin(np.sin(x))))(1.0) == ft.grad(lambda x: np.sin(np.sin(x)))(1.0)
    np.True_
    """

    @edge.wraps(f, "checkpoint")
    def checkpointed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        open_f, captured = lift_closure(f)
        leaves, treedef = tree.flatten((args, kwargs, captured))
        return _CheckpointCall(f, treedef, lambda a, k, c: open_f(c)(*a, **k))(leaves)

    _MADE.add(checkpointed)
    return checkpointed


_MADE: weakref.WeakSet[Any] = weakref.WeakSet()


def under_checkpoint(f: Any) -> Any:
    """The function of which `f` is the `checkpoint`; None if it is none."""
    return getattr(f, "__wrapped__", None) if isinstance(f, types.FunctionType) and f in _MADE else None


def _swap_random_state(new: Any = None) -> Any:
    """NumPy's global random state, then set to `new` if that is given; None before numpy.random was ever used."""
    if "numpy.random" not in sys.modules:
        return None
    state = np.random.get_state(legacy=False)  # noqa: NPY002
    if new is not None:
        np.random.set_state(new)  # noqa: NPY002
    return state


class _CheckpointCall(Call):
    what, lends = "checkpoint", True

    def forward(self, leaves: Sequence[Any], mine: Sequence[bool]) -> tuple[Any, Any]:
        state = _swap_random_state()
        out, _ = super().forward(leaves, mine)
        refuse_tensors(self, tree.leaves(out), "Return x.numpy().")
        what = f"checkpoint({name_of(self.function)})"
        results = [x if isinstance(x, (Tracer, str, bytes)) else as_output(what, x) for x in tree.leaves(out)]
        return out, (state, [*map(sketch, results)])

    def _again(self, residuals: Any, run: Callable[[], Any]) -> Any:
        """`run()` in the random state of the first run. It gives `(results, rest)`: if the results are the first run's, `rest()`."""
        state, first = residuals
        now = _swap_random_state(state)
        try:
            out, rest = run()
        finally:
            _swap_random_state(now)
        if not alike(first, out):
            raise errors.CheckpointError(
                f"checkpoint({name_of(self.function)}): the second run gave another result than the first, so its derivative would be of "
                f"another function.\n"
                "  A checkpointed function must repeat itself: pass what it reads as arguments, and random generators as their seeds."
            )
        return rest()

    def _moving(self, leaves: Sequence[Any]) -> tuple[list[int], Callable[..., list[Any]]]:
        moving = floats(leaves)
        return moving, lambda *xs: tree.leaves(self.evaluate(replaced(leaves, moving, xs)))

    def reverse(self, residuals: Any, leaves: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        moving, flat = self._moving(leaves)

        def run() -> Any:
            inputs = [leaves[k] for k in moving]
            if wanted.get() or masked(cts):
                out, pull = vjp(flat, *inputs)
                return out, lambda: pull([g if is_float(y) else y for g, y in zip(cts, out)])
            tape = record(lambda *xs: [x if isinstance(x, Tracer) else as_output(self.what, x) for x in flat(*xs)], inputs, self.what)
            out = tape.outputs  # whether the gradient is finite is asked by the replay that this is part of
            return out, lambda: pullback(tape, [g if is_float(y) else None for g, y in zip(cts, out)], True)

        return replaced([None] * len(leaves), moving, self._again(residuals, run))

    def tangent(self, residuals: Any, leaves: Sequence[Any], ans: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        moving, flat = self._moving(leaves)

        def run() -> Any:
            out, pushed = jvp(flat, [leaves[k] for k in moving], [or_zeros(ts[k], leaves[k]) for k in moving])
            return out, lambda: pushed

        return self._again(residuals, run)  # type: ignore[no-any-return]

    def mapped(self, axes: ByLeaf) -> Call:
        return _CheckpointCall(self.function, self.treedef, vmap(self.f, axes))
