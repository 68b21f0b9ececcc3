"""Control flow: `scan`, `fori_loop`, `while_loop`, `map`, `cond` and `switch`, with the signatures of `jax.lax`.

Python's own `if`, `for` and `while` work in any traced function; what these add is one operation in the place of thousands. A body is
recorded once and run for every step; the derivative of a loop is a loop, and so is a batch of it. A body that looks at a number
(`if carry > 0`) has a branch for each answer under `jit` and `vmap`, and is run by Python, step after step, elsewhere. On plain arrays
all of them are plain Python.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from functrace import edge, errors, tree
from functrace.core.tracer import Tracer
from functrace.ops.blank import apart, own
from functrace.ops.create import as_numpy
from functrace.places import user_line
from functrace.pool import owned
from functrace.transforms.arguments import as_row, name_of
from functrace.transforms.batching import vmap
from functrace.transforms.calls import CALL
from functrace.transforms.checkpointing import under_checkpoint
from functrace.transforms.closures import reading, same
from functrace.transforms.control_body import Body, by_python, flagged, hoping, quietly, unflagged, varies
from functrace.transforms.control_branches import cond, every_way, switch
from functrace.transforms.control_carry import Carry, arrays, traced
from functrace.transforms.control_loops import loop
from functrace.transforms.control_while import while_loop

__all__ = ["cond", "fori_loop", "map", "scan", "switch", "while_loop"]

C = TypeVar("C")
R = TypeVar("R")


def _pair(what: str, f: Any, result: Any) -> tuple[Any, Any]:
    if not (isinstance(result, tuple) and len(result) == 2):
        raise errors.ControlFlowError(
            f"{what}: {name_of(f)} must return (carry, y), but returned a {type(result).__name__}.\n"
            "  Return None as y if there is nothing to collect."
        )
    return result


@edge.usage("scan(f, init, xs)", "f(carry, x), which returns (carry, y)")
def scan(
    f: Callable[[C, Any], tuple[C, Any]],
    init: C,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    *,
    checkpoint_every: int | None = None,
) -> tuple[C, Any]:
    """Carry a state along a sequence: `carry, y = f(carry, x)` for each `x`, as in `jax.lax.scan`.

    Args:
        f: one step. The carry keeps its structure, shapes and dtypes. It may close over traced values.
        init: the carry of the first step, a pytree. A Python number takes the dtype that the first step gives it.
        xs: a pytree of arrays; each step gets their next slice along axis 0. None if there are none.
        length: number of steps, needed where `xs` is None.
        reverse: go from the last slice to the first. Results stay at the places of their slices.
        unroll: True records each step on its own. Other values have no effect: steps are not compiled one by one.
        checkpoint_every: keep the carry of every k-th step only, and compute the steps between again in the reverse replay. It is 1
            where `f` is a `checkpoint`.

    Returns:
        The last carry, and the `y` of all steps stacked along axis 0.

    When differentiated, batched or recorded it is one operation: `f` is run for the first two steps, and what it did is repeated for
    the others. Under `jit` and `vmap` an `if` is run both ways, and becomes a branch of the operation. If `f` looks at a number
    otherwise, or does not do the same twice, Python runs every step.

    Raises:
        ControlFlowError: the carry changes its structure, shape or dtype; lengths disagree; `f` does not return a pair.

    >>> import functrace as ft, numpy as np
    >>> ft.scan(lambda c, x: (c + x, c * x), 0.0, np.arange(4.0))
    (np.float64(6.0), array([0., 0., 2., 9.]))
    >>> ft.grad(lambda w: ft.scan(lambda c, x: (w * c + x, None), 0.0, np.ones(3))[0])(2.0)
    np.float64(5.0)
    """
    edge.check_call("scan(f, init, xs)", f)
    step = under_checkpoint(f)
    if step is not None and checkpoint_every is None and unroll is not True:
        f, checkpoint_every = step, 1
    return _scan("scan", f, init, xs, length, reverse, unroll is True, checkpoint_every)


@hoping
def _scan(
    what: str,
    f: Any,
    init: Any,
    xs: Any,
    length: int | None,
    reverse: bool,
    unroll: bool,
    every: int | None,
    at_once: bool = True,
    counts: bool = False,
) -> tuple[Any, Any]:
    """`scan`; `counts` says that `xs` stands for Python's integers."""
    steps = _Steps(what, f, init, xs, length, reverse, counts)
    if every is not None and _whole(what, "checkpoint_every", every, 1) < steps.length:
        return steps.in_blocks(every)
    if not steps.length:
        return steps.none()
    steps.settle()
    if unroll or by_python.get() or not steps.are_traced():
        return steps.by_python()
    return steps.recorded(at_once)


class _Steps:
    """A loop that is to be done: its step, and what it goes over."""

    def __init__(self, what: str, f: Any, init: Any, xs: Any, length: int | None, reverse: bool, counts: bool) -> None:
        self.what, self.f, self.reverse, self.counts = what, f, reverse, counts
        self.carry = Carry(what, init)
        self.seqs, self.xs_def, _ = arrays(what, "xs", xs)
        self.length = _length(what, self.seqs, length)
        self.order = range(self.length)[:: -1 if reverse else 1]
        self.done: list[Any] = []  # results of the first steps: each run of `f` is one, in case that it does not repeat itself
        self.weak = False  # whether the very first saw Python's numbers

    def call(self, carry: Any, x: Any) -> tuple[Any, Any]:
        """One step."""
        return _pair(self.what, self.f, self.f(carry, x))

    def step(self, state: Sequence[Any], k: int) -> tuple[Any, Any]:
        """The step at place `k`, by its leaves."""
        return self.call(self.carry.tree(state), self.slices(k))

    def slices(self, k: int) -> Any:
        """The slices that step `k` gets."""
        rows = [int(x[k]) if self.counts else x[k] for x in self.seqs]
        for x in rows:
            if isinstance(x, np.ndarray):
                x.flags.writeable = False  # it is a view of the caller's array
        return tree.unflatten(self.xs_def, own(rows) if traced(rows) else rows)

    def settle(self) -> None:
        """Find what dtypes the first step gives to Python's numbers."""

        def begin(c: Any) -> Any:
            self.done.append(self.call(c, self.slices(self.order[0])))
            return self.done[0][0]

        self.carry.settle(begin)
        del self.done[self.length - 1 :]
        self.weak = bool(self.done)

    def are_traced(self) -> bool:
        """Whether the steps have traced values: they may close over them."""
        if traced(self.carry.leaves) or traced(self.seqs):
            return True
        self.done = self.done or [self.step(self.carry.fresh(), self.order[0])]
        return traced(tree.leaves(self.done[0]))

    def none(self) -> tuple[Any, Any]:
        """The result of no steps, which has the form of what a step would give."""
        carry = self.carry
        with np.errstate(all="ignore"):
            x = tree.unflatten(self.xs_def, [np.zeros(x.shape[1:], x.dtype) for x in self.seqs])
            carry.settle(lambda c: self.call(c, x)[0])
            y = self.call(carry.tree(carry.fresh()), x)[1]
        empty: Any = lambda y: np.zeros((0, *np.shape(y)), y.dtype if hasattr(y, "dtype") else np.asarray(y).dtype)
        return carry.tree(carry.fresh()), tree.map(empty, y)

    def by_python(self) -> tuple[Any, Any]:
        """The loop as Python runs it."""
        rows: list[Any] = [None] * self.length
        state: Any = self.carry.fresh()
        y_def: Any = None
        for n, k in enumerate(self.order):
            new, y = self.done[n] if n < len(self.done) else self.step(state, k)
            state = self.carry.check(new)
            leaves, structure = tree.flatten(y)
            y_def = structure if y_def is None else y_def
            if structure != y_def:
                raise errors.ControlFlowError(f"{self.what}: every y must have the same structure, not {y_def!r} and then {structure!r}.")
            rows[k] = own(leaves)  # a later step may write to it
        if self.weak:
            first, second = (rows[k] for k in self.order[:2])
            rows[self.order[0]] = [as_row(self.what, y).astype(as_row(self.what, like).dtype) for y, like in zip(first, second)]
        return self.carry.tree(own(state)), tree.unflatten(y_def, [self.stack(column) for column in zip(*rows)])

    def stack(self, column: Sequence[Any]) -> Any:
        """What the steps gave, as one array."""
        ys = [x if hasattr(x, "dtype") else as_row(self.what, x) for x in column]
        if others := [y for y in ys if y.shape != ys[0].shape]:
            found = f"{errors.describe(ys[0])} and then {errors.describe(others[0])}"
            raise errors.ControlFlowError(f"{self.what}: every y must have the same shape, not {found}.\n  They are stacked: pad them.")
        return np.stack(ys)

    def recorded(self, at_once: bool) -> tuple[Any, Any]:
        """One operation, if the first two steps do the same."""
        forks = varies([*self.carry.leaves, *self.seqs, *tree.leaves(self.done)])
        runs = [self.record(self.carry.leaves, self.order[0], forks)]
        body, _, state = runs[0]
        if not body.looked and self.length > 1:
            runs.append(self.record([x.below if isinstance(x, Tracer) and x.owner.closed else x for x in state], self.order[1], forks))
        if any(run.looked for run, *_ in runs):
            return self.by_python()
        last, y_def, _ = runs[-1]
        if not (last.alike(body) and same(last.lifted, body.lifted)):
            self.replay(runs)
            return self.by_python()
        with quietly(last):
            out = unflagged(last, loop(last, self.f, (last.lifted, self.carry.leaves, self.seqs), self.length, self.reverse, at_once))
        return self.result([apart(x) for x in owned(out, self.seqs)], y_def)

    def record(self, state: Sequence[Any], k: int, forks: Any) -> tuple[Body, Any, list[Any]]:
        """A step as a program, the structure of its y, and the carry after it."""
        count = len(state)
        found: list[tuple[Any, list[Any]]] = []  # of each way through it

        def flat(leaves: list[Any]) -> list[Any]:
            new, y = self.call(self.carry.tree(leaves[:count]), tree.unflatten(self.xs_def, leaves[count:]))
            ys, structure = tree.flatten(y)
            found.append((structure, self.carry.check(new)))
            return [*found[-1][1], *(as_numpy(y) for y in ys)]

        numbers = [None] * count + [int if self.counts else None] * len(self.seqs)
        body = every_way(flat, [*state, *(x[k] for x in self.seqs)], f"{self.what}({name_of(self.f)})", numbers, [self.f], forks)
        flagged([body])
        body.looked = body.looked or any(structure != found[0][0] for structure, _ in found)
        return body, *(found[-1] if found else (None, []))

    def replay(self, runs: Sequence[tuple[Body, Any, list[Any]]]) -> None:
        """Take the results of the first steps from the runs that recorded them."""
        state = self.carry.check(self.done[0][0]) if self.done else self.carry.fresh()
        for k, (run, y_def, _) in zip(self.order[len(self.done) :], runs):
            _check_repeatable(self.what, run)
            with quietly(run):
                out = unflagged(run, run.call(*run.lifted, *state, *(x[k] for x in self.seqs)))
            state = out[: len(state)]
            self.done.append(self.result(out, y_def))

    def result(self, leaves: Sequence[Any], y_def: Any) -> tuple[Any, Any]:
        """A carry and a y of these leaves."""
        count = len(self.carry.leaves)
        return self.carry.tree(leaves[:count]), tree.unflatten(y_def, leaves[count:])

    def in_blocks(self, every: int) -> tuple[Any, Any]:
        """A scan of scans: what an operation in a body needs for its derivative is its arguments alone, here the carry of each block."""
        whole = self.length // every * every

        def part(state: Any, xs: Sequence[Any], steps: int) -> tuple[Any, Any]:
            return _scan(self.what, self.f, state, tree.unflatten(self.xs_def, xs), steps, self.reverse, False, None)

        def blocks(state: Any) -> tuple[Any, Any]:
            cut = [np.reshape(x[:whole], (whole // every, every, *x.shape[1:])) for x in self.seqs]
            state, ys = _scan(self.what, lambda c, x: part(c, x, every), state, cut, whole // every, self.reverse, False, None, False)
            return state, tree.map(lambda y: np.reshape(y, (whole, *y.shape[2:])), ys)

        def rest(state: Any) -> tuple[Any, Any]:
            return part(state, [x[whole:] for x in self.seqs], self.length - whole)

        state = self.carry.tree(self.carry.leaves)
        if whole == self.length:
            return blocks(state)
        if self.reverse:
            state, last = rest(state)
            state, ys = blocks(state)
        else:
            state, ys = blocks(state)
            state, last = rest(state)
        return state, tree.map(lambda a, b: np.concatenate([a, b]), ys, last)


def _check_repeatable(what: str, run: Body) -> None:
    for primitive, _, _, params in run.code:
        if primitive is CALL and params[0].lends and not same(params[0].read, reading(params[0])):
            raise errors.ControlFlowError(
                f"{what}: {params[0]!r}, in the body, reads something that changes from step to step, and is run once more.\n"
                f"  At {user_line()}.\n  Pass it as an argument, or take it from xs."
            )


def _whole(what: str, name: str, x: Any, least: int | None = None) -> int:
    if not hasattr(type(x), "__index__") or np.shape(x) != () or least is not None and x < least:
        wanted = {None: "whole", 0: "whole and not negative", 1: "positive and whole"}
        raise errors.ControlFlowError(f"{what}: {name} must be {wanted[least]}, got {x!r}.\n  Pass an int.")
    return operator.index(x)


def _length(what: str, seqs: Sequence[Any], length: int | None) -> int:
    length = None if length is None else _whole(what, "length", length, 0)
    sizes = {len(x) if x.shape else -1 for x in seqs} | ({length} if length is not None else set())
    if len(sizes) != 1 or -1 in sizes:
        found = ", ".join([errors.describe(x) for x in seqs]) or "no arrays"
        option, given, remedy = ", or length=", f" and length={length}", "Without an array of the steps in xs, give length="
        if what == "map":
            option, given, remedy = "", "", "Pass an array of the steps"
        if -1 in sizes:
            remedy = "A number has no steps, and a list of numbers is a container of them: pass np.array(...)"
        elif len(sizes) > 1:
            remedy = "Cut the arrays to one length, or pad them"
        raise errors.ControlFlowError(
            f"{what}: the number of steps is the length of axis 0 of each array in xs{option}; got xs of {found}{given}.\n  {remedy}."
        )
    return sizes.pop()


@edge.usage("map(f, xs)", "f(x)")
def map(f: Callable[[Any], R], xs: Any, *, batch_size: int | None = None) -> R:
    """`f` of each slice of `xs` along axis 0, one after another, with the results stacked, as `jax.lax.map`.

    It needs the memory of one call of `f` at a time, where `vmap` needs that of all. With `batch_size` so many are done at once.

    >>> import functrace as ft, numpy as np
    >>> ft.map(lambda x: x**2, np.arange(3.0))
    array([0., 1., 4.])
    """
    edge.check_call("map(f, xs)", f)
    seqs, xs_def, _ = arrays("map", "xs", xs)
    length = _length("map", seqs, None)
    if batch_size is None or _whole("map", "batch_size", batch_size, 1) and not length:
        return _scan("map", lambda _, x: (None, f(x)), None, xs, None, False, False, None, False)[1]  # type: ignore[no-any-return]
    whole = length // batch_size * batch_size
    parts = []
    if whole:
        cut = [np.reshape(x[:whole], (whole // batch_size, batch_size, *x.shape[1:])) for x in seqs]
        ys = map(vmap(f), tree.unflatten(xs_def, cut))
        parts.append(tree.map(lambda y: np.reshape(y, (whole, *y.shape[2:])), ys))
    if whole < length:
        parts.append(vmap(f)(tree.unflatten(xs_def, [x[whole:] for x in seqs])))
    return parts[0] if len(parts) == 1 else tree.map(lambda a, b: np.concatenate([a, b]), *parts)  # type: ignore[no-any-return]


@edge.usage("fori_loop(lower, upper, body_fun, init_val)", "body_fun(i, val)")
def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, C], C], init_val: C, *, unroll: int | bool | None = None) -> C:
    """`for i in range(lower, upper): val = body_fun(i, val)`, begun with `init_val`, as in `jax.lax.fori_loop`.

    Args:
        lower, upper: integers; no step is done if `upper <= lower`.
        body_fun: one step; `val` keeps its structure, shapes and dtypes.
        init_val: a pytree.
        unroll: as in `scan`.

    Raises:
        ControlFlowError: the value changes its structure, shape or dtype.

    A body that uses `i` as the index of a plain array is run by Python.

    >>> import functrace as ft
    >>> ft.fori_loop(0, 4, lambda i, x: x * 2.0, 1.0)
    np.float64(16.0)
    """
    edge.check_call("fori_loop(lower, upper, body_fun, init_val)", body_fun)
    if isinstance(lower, Tracer) or isinstance(upper, Tracer):
        start = lower + 0 * upper, init_val
        return while_loop(lambda s: s[0] < upper, lambda s: (s[0] + 1, body_fun(s[0], s[1])), start)[1]
    first, last = _whole("fori_loop", "lower", lower), _whole("fori_loop", "upper", upper)
    steps = np.arange(first, max(first, last))
    if not len(steps):
        leaves, treedef = tree.flatten(init_val)
        return tree.unflatten(treedef, own(leaves))  # type: ignore[no-any-return]
    step = lambda c, i: (body_fun(i, c), None)
    return _scan("fori_loop", step, init_val, steps, None, False, unroll is True, None, counts=True)[0]  # type: ignore[no-any-return]
