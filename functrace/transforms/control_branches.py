"""`cond` and `switch`. Where Python knows which branch is taken it takes it; else all are recorded, and are one operation."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from typing import Any, NamedTuple, TypeVar

import numpy as np

from functrace import edge, errors, tree
from functrace.core.tracer import Tracer
from functrace.ops.create import as_numpy
from functrace.ops.inplace import become
from functrace.ops.out import store
from functrace.pool import owned
from functrace.transforms.arguments import name_of, or_zeros, zeros_like
from functrace.transforms.batching import filled, in_program, picked
from functrace.transforms.calls import Call, Shown, floats
from functrace.transforms.closures import closed_over
from functrace.transforms.control_body import (
    NUMBERS,
    Body,
    as_they_were,
    flagged,
    hoping,
    mapped,
    number,
    numbered,
    pulled,
    pushed,
    quietly,
    recorded,
    settled,
    unflagged,
)
from functrace.transforms.control_carry import arrays
from functrace.transforms.masks import beneath, masked
from functrace.transforms.tracing import replaced

R = TypeVar("R")


@edge.usage("cond(pred, true_fun, false_fun, *operands)", "true_fun(*operands) or false_fun(*operands)")
def cond(pred: Any, true_fun: Callable[..., R], false_fun: Callable[..., R], *operands: Any) -> R:
    """`true_fun(*operands) if pred else false_fun(*operands)`, as in `jax.lax.cond`.

    Under `vmap` `pred` may differ between the examples: each gets the result, and the derivative, of its own branch. Values that the
    branches close over count like operands.

    Raises:
        ControlFlowError: `pred` is not one number; the branches' results differ in structure, shape or dtype where both are needed.

    >>> import functrace as ft, numpy as np
    >>> ft.vmap(lambda x: ft.cond(x > 0, np.sqrt, lambda x: -x, x))(np.array([4.0, -1.0]))
    array([2., 1.])
    """
    edge.check_call("cond(pred, true_fun, false_fun, *operands)", true_fun, false_fun)
    if np.shape(pred) != () or not (hasattr(pred, "dtype") or isinstance(pred, NUMBERS)):
        raise errors.ControlFlowError(
            f"cond: pred must be one boolean, got {errors.describe(pred)}.\n  Reduce an array with .any() or .all()."
        )
    test: Any = pred
    index = (test != 0).astype(int) if isinstance(pred, Tracer) else int(bool(pred))
    return _switch("cond", index, (false_fun, true_fun), operands)  # type: ignore[no-any-return]


@edge.usage("switch(index, branches, *operands)", "a branch with the operands")
def switch(index: Any, branches: Sequence[Callable[..., R]], *operands: Any) -> R:
    """`branches[index](*operands)`, as in `jax.lax.switch`: an `index` out of range is clamped. For the rest see `cond`.

    >>> import functrace as ft
    >>> ft.switch(1, [lambda x: x, lambda x: 2 * x], 3.0)
    6.0
    """
    several = isinstance(branches, Sequence)
    edge.check_call("switch(index, [f, g, ...], *operands)", *(branches if several else ()))
    whole = index.dtype.kind in "ui" if hasattr(index, "dtype") else type(index) is int
    if not (several and branches and whole) or np.shape(index) != ():
        found = f"{len(branches)} branches" if several else errors.describe(branches)
        raise errors.ControlFlowError(
            f"switch: needs one integer, and a list of at least one branch; got {errors.describe(index)} and {found}.\n"
            f"  Write switch(index, [f, g, ...], *operands), with int(index)."
        )
    return _switch("switch", index, branches, operands)  # type: ignore[no-any-return]


@hoping
def _switch(what: str, index: Any, branches: Sequence[Callable[..., Any]], operands: tuple[Any, ...]) -> Any:
    plain = _decided(index)
    if plain is not None:
        return branches[_clamped(plain, branches)](*operands)
    choice = _Choice(what, branches, operands)
    try:
        programs = choice.recorded()
        looked = any(body.looked for body in programs)
    except errors.OF_VALUES:  # of an example that may take another branch
        looked = True
    if looked:
        return branches[_clamped(index, branches)](*operands)  # as Python does: a batch is split
    flagged(programs)
    return choice.made(index, programs)


class _Choice:
    """Branches that are to be recorded, and what they take: the operands, and the traced values that they close over."""

    def __init__(self, what: str, branches: Sequence[Callable[..., Any]], operands: tuple[Any, ...]) -> None:
        self.what, self.branches = what, branches
        self.given, self.treedef = tree.flatten(operands)
        self.moving = [k for k, x in enumerate(self.given) if type(x) not in NUMBERS]  # such a number takes the dtype that it meets
        self.closed = closed_over(branches)
        self.targets = [*(self.given[k] for k in self.moving), *self.closed]
        self.leaves = arrays(what, "an operand", self.targets)[0]
        self.structures: dict[int, Any] = {}
        self.written: dict[int, None] = {}  # those of the targets that some branch writes to

    def recorded(self) -> list[Body]:
        """A program for each branch, which gives what the targets that are written to become, too."""
        programs = self._programs()
        return self._programs() if self.written else programs

    def _programs(self) -> list[Body]:
        self.structures.clear()
        numbers = [number(x) for x in self.targets]
        return [every_way(self._flat(k), self.leaves, self.what, numbers) for k in range(len(self.branches))]

    def _flat(self, k: int) -> Callable[[list[Any]], list[Any]]:
        """A branch as a function of the leaves."""
        name, count = name_of(self.branches[k]), len(self.moving)

        def run(xs: list[Any]) -> list[Any]:
            slots = [x.slot for x in xs]
            operands = tree.unflatten(self.treedef, replaced(self.given, self.moving, xs))
            with as_they_were(self.closed):
                for x, y in zip(self.closed, xs[count:]):
                    become(x, y)  # meanwhile: so what the branch computes of what it closes over is a part of its recording
                ys, structure = tree.flatten(self.branches[k](*operands))
                ys, now = [*map(_fixed, ys)], [*xs[:count], *map(_fixed, self.closed)]
            if (before := self.structures.setdefault(k, structure)) != structure:
                raise errors.ControlFlowError(f"{self.what}: {name} returns {before!r} one way, {structure!r} another.")
            out = ys + [now[k] for k in self.written]
            self.written.update((k, None) for k, x in enumerate(now) if x.slot != slots[k])
            return out

        run.__name__ = name
        return run

    def made(self, index: Any, programs: Sequence[Body]) -> Any:
        """The result of one operation that makes the choice, after which what the branch wrote to is written to."""
        count = len(self.moving)
        used = sorted({*range(count)}.union(*(body.read() & {*range(len(self.leaves))} for body in programs)))
        programs = [body.derived(inputs=[*body.inputs[: len(body.lifted)], *used]) for body in programs]
        _check_alike(self.what, [self.structures[k] for k in range(len(programs))], programs)
        shown = self.what, [*map(name_of, self.branches)], len(used) - count
        with quietly(*programs):
            out = unflagged(programs[0], switched(programs, index, [self.leaves[k] for k in used], self.branches[0], *shown))
        results = len(out) - len(self.written)
        for k, x in zip(self.written, out[results:]):
            store(self.what, x, self.targets[k])
        return tree.unflatten(self.structures[0], out[:results])


def _check_alike(what: str, structures: Sequence[Any], programs: Sequence[Body]) -> None:
    kinds = [", ".join(errors.describe(body.avals[i]) for i in body.outputs) for body in programs]
    for structure, found in zip(structures, kinds):
        if structure != structures[0] or found != kinds[0]:
            raise errors.ControlFlowError(
                f"{what}: the branches must return the same structure, shapes and dtypes, but return {structures[0]!r} of {kinds[0]} and "
                f"{structure!r} of {found}.\n  Give them one shape and dtype: reshape, astype."
            )


def _fixed(x: Any) -> Any:
    """A result as it is now."""
    x = as_numpy(x)
    return x.kept() if isinstance(x, Tracer) else x


def _clamped(index: Any, among: Sequence[Any]) -> int:
    return min(max(int(index), 0), len(among) - 1)


def _decided(index: Any) -> int | None:
    """The one branch that is taken; None if it differs between examples, or between runs of a program."""
    x = beneath(index)
    if isinstance(x, Tracer):
        return None
    if isinstance(index, Tracer):
        found = np.unique(x)
        return int(found[0]) if len(found) == 1 else None
    return int(x)


def _results(body: Body, xs: list[Any], own: list[int], wanted: list[int], which: list[int]) -> Callable[..., list[Any]]:
    """Some results of a branch as a function of some of its inputs."""

    def f(*ws: Any) -> list[Any]:
        full = replaced(xs, wanted, ws)
        out = body.call(*(full[i] for i in own))
        return [out[k] for k in which]

    return f


class SwitchCall(Call):
    """One of several programs, on the flat list of the index, the constants of each, and the operands of all."""

    what, told_by = "switch", ("programs",)

    def __init__(
        self,
        function: Any,
        programs: Sequence[Body],
        counts: Sequence[int],
        what: str = "switch",
        names: Sequence[str] = (),
        closed: int = 0,
    ) -> None:
        super().__init__(function, None)
        self.programs, self.counts, self.what, self.names, self.closed = programs, counts, what, names, closed

    def __repr__(self) -> str:
        names = self.names[::-1] if self.what == "cond" else self.names  # as they were given
        return f"{self.what} {', '.join(names)}" if names else super().__repr__()

    def bodies(self) -> list[Shown]:
        """The branches."""
        heads = ["if false", "if true"] if self.what == "cond" else [f"branch {k}" for k in range(len(self.programs))]
        titles = [f"{head}: {name}" for head, name in zip(heads, self.names)] if self.names else heads
        closed = ["constant"] * self.closed
        operands = [numbered("operand", len(body.inputs) - count - self.closed) for body, count in zip(self.programs, self.counts)]
        return [
            Shown(title, body, [*["constant"] * count, *operand, *closed], numbered("result", len(body.outputs)))
            for title, body, count, operand in zip(titles, self.programs, self.counts, operands)
        ]

    def taken(self, index: Any) -> int:
        """The program for an index."""
        return _clamped(index, self.programs)

    def of(self, k: int, leaves: Sequence[Any]) -> list[Any]:
        """The inputs of program `k`."""
        start = 1 + sum(self.counts[:k])
        return [*leaves[start : start + self.counts[k]], *leaves[1 + sum(self.counts) :]]

    def evaluate(self, leaves: Sequence[Any]) -> list[Any]:
        k = self.taken(leaves[0])
        return owned(self.programs[k].call(*self.of(k, settled(leaves))), (*leaves, *self.programs[k].template))

    def forward(self, leaves: Sequence[Any], mine: Sequence[bool]) -> tuple[Any, Any]:
        return super().forward(leaves, mine)[0], mine

    def _derived(self, leaves: Sequence[Any], more: Sequence[Any], rule: Callable[..., list[Any]]) -> list[Any]:
        """A switch between what `rule(program, all inputs, own places, more)` makes of each program."""
        count = len(leaves) - 1

        def ruled(k: int) -> Callable[[list[Any]], list[Any]]:
            own = [i - 1 for i in self.of(k, range(count + 1))]
            return lambda xs: rule(self.programs[k], xs[:count], own, xs[count:])

        programs: list[Body] = []
        with np.errstate(all="ignore"), suppress(*errors.OF_VALUES):  # of a branch that is not taken
            every = [] if masked(more) else range(len(self.programs))
            programs = [recorded(ruled(k), [*leaves[1:], *more], self.what) for k in every]
        if not programs or any(body.looked for body in programs):  # at the number of a loop's steps, for one
            return ruled(self.taken(leaves[0]))([*leaves[1:], *more])
        return switched(programs, leaves[0], [*leaves[1:], *more], self.function)

    def pull(self, residuals: Any, leaves: Sequence[Any], ans: Sequence[Any], gs: Sequence[Any]) -> list[Any]:
        """The cotangents, by a switch between the branches' derivatives."""
        moving = [k for k in floats(leaves[1:]) if residuals[k + 1]]
        results = floats(ans)

        def rule(body: Body, xs: list[Any], own: list[int], more: list[Any]) -> list[Any]:
            wanted = [i for i in own if i in moving]
            f = _results(body, xs, own, wanted, results)
            back = dict(zip(wanted, pulled(f, [xs[i] for i in wanted], more))) if wanted else {}
            return [or_zeros(back.get(i), xs[i]) for i in moving]

        seeds = [or_zeros(gs[k], ans[k]) for k in results]
        grads = dict(zip(moving, self._derived(leaves, seeds, rule)))
        return [None, *(grads.get(k) for k in range(len(leaves) - 1))]

    def tangent(self, residuals: Any, leaves: Sequence[Any], ans: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        moving = [k for k in floats(leaves[1:]) if ts[k + 1] is not None]
        results = floats(ans)

        def rule(body: Body, xs: list[Any], own: list[int], more: list[Any]) -> list[Any]:
            given = dict(zip(moving, more))
            wanted = [i for i in own if i in moving]
            if not wanted:
                return [zeros_like(ans[k]) for k in results]
            return pushed(_results(body, xs, own, wanted, results), [xs[i] for i in wanted], [given[i] for i in wanted])

        out = dict(zip(results, self._derived(leaves, [ts[k + 1] for k in moving], rule)))
        return [out.get(k) for k in range(len(ans))]

    def batched(self, size: int, leaves: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
        """Each branch for the examples that take it."""
        index: Any = leaves[0]
        rest = list(leaves[1:])

        def one(k: int, xs: Sequence[Any], count: int) -> list[Any]:
            own = self.of(k, range(len(leaves)))
            return mapped(self.programs[k].call, [xs[i - 1] for i in own], [flags[i] for i in own], count, self.what)

        def wide(body: Body, xs: list[Any], own: list[int], more: list[Any]) -> list[Any]:
            return mapped(body.call, [xs[i] for i in own], [flags[i + 1] for i in own], size, self.what)

        if not flags[0]:
            return self._derived(leaves, [], wide)
        top = len(self.programs) - 1
        index = np.clip(index, 0, top)
        if isinstance(index, Tracer):  # its numbers are not known, or differ in another batch
            known: Any = index
            masks = [known == k for k in range(top + 1)]
            with nullcontext() if in_program(index) else np.errstate(all="ignore"):  # a branch that no example takes is computed, too
                outs = [one(k, [filled(x, mask) if f else x for x, f in zip(rest, flags[1:])], size) for k, mask in enumerate(masks)]
            result = outs[0]
            for mask, out in zip(masks[1:], outs[1:]):
                result = [picked(mask, y, r) for y, r in zip(out, result)]
            return result
        parts, rows = [], []
        for k in np.unique(index) if size else [0]:
            chosen = np.flatnonzero(index == k)
            rows.append(chosen)
            parts.append(one(int(k), [x[chosen] if f else x for x, f in zip(rest, flags[1:])], len(chosen)))
        back = np.argsort(np.concatenate(rows), kind="stable")
        return [np.concatenate(ys)[back] for ys in zip(*parts)]


def switched(programs: Sequence[Body], index: Any, leaves: Sequence[Any], function: Any, *shown: Any) -> list[Any]:
    """What the program that `index` says makes of the leaves; `shown` are further arguments of `SwitchCall`."""
    call = SwitchCall(function, programs, [len(body.lifted) for body in programs], *shown)
    return call([index, *(x for body in programs for x in body.lifted), *leaves])  # type: ignore[no-any-return]


def every_way(
    fun: Callable[[list[Any]], Sequence[Any]],
    inputs: Sequence[Any],
    what: str,
    numbers: Sequence[type | None] = (),
    reads: Sequence[Any] = (),
    forks: bool = True,
) -> Body:
    """`recorded` with a flag, in which, if it `forks`, an `if` becomes a switch between the programs of its two ways.

    If there are many, or the ways differ in what they return, or one raises, the program has `looked`: Python decides, step by step.
    """
    run = functools.partial(recorded, fun, inputs, what, numbers, reads, flag=True)
    with np.errstate(all="ignore"):
        if not forks:
            return run()
        found = _explored(run, itertools.count(1))
        joined = _joined(found, 0, [], inputs, (*reads, fun)[0], what)
        joined.hopes, joined.derives = (any(getattr(body, k) for body in _ends(found)) for k in ("hopes", "derives"))
        return joined


def _explored(run: Callable[..., Body], runs: Iterator[int], ways: tuple[bool, ...] = ()) -> Body | _Ways:
    """The recordings of `run` in which the first `if`s have these answers."""
    test = run(ways=ways)
    test.looked = test.looked or next(runs) > _RUNS
    if test.fork is None or test.looked:
        return test
    try:  # the example's own way last: others look at its results
        parts = {way: _explored(run, runs, (*ways, way)) for way in (not test.fork, test.fork)}
    except Exception:
        test.looked = True
        return test
    ends = [_ends(part)[-1] for part in parts.values()]
    kinds = [[errors.describe(end.avals[k]) for k in end.outputs] for end in ends]
    test.looked = any(end.looked or not _follows(end, test) for end in ends) or kinds[0] != kinds[1]
    return test if test.looked else _Ways(test, parts[False], parts[True])


class _Ways(NamedTuple):
    """The program of a condition, with what is done before it, and the two ways on, each from the beginning."""

    test: Body
    no: Any
    yes: Any


def _ends(ways: Body | _Ways) -> list[Body]:
    return [*_ends(ways.no), *_ends(ways.yes)] if isinstance(ways, _Ways) else [ways]


def _follows(end: Body, test: Body) -> bool:
    """Whether a branch begins with what led to the condition."""
    done = {row[1]: row[0] for row in test.code}
    return all(done.get(row[1]) is row[0] for row in end.code if row[1] < test.size)


def _rest(ways: Body | _Ways, start: int, count: int) -> tuple[Body, list[int]]:
    """What is done from `start` on, to where two ways part, and the places that are handed on to them; `count`: of inputs."""
    if not isinstance(ways, _Ways):
        return ways.derived(code=[row for row in ways.code if row[1] >= start]), []
    test = ways.test
    shared = sorted(_needs(ways.no, test.size, count) | _needs(ways.yes, test.size, count))
    return test.derived(outputs=[*test.outputs, *shared], code=[row for row in test.code if row[1] >= start]), shared


def _needs(ways: Body | _Ways, start: int, count: int) -> set[int]:
    """The places before `start`, beside the inputs, that what is done from there on reads."""
    return {k for k in _rest(ways, start, count)[0].read() if count <= k < start}


def _joined(ways: Body | _Ways, start: int, given: Sequence[int], inputs: Sequence[Any], function: Any, what: str) -> Body:
    """One program of all that is done from `start` on, which takes what is in the places `given` as further inputs."""
    count = len(inputs)
    rest, shared = _rest(ways, start, count)
    head = rest.derived(inputs=[*rest.inputs, *given])
    if not isinstance(ways, _Ways):
        return head
    bodies = [_joined(way, ways.test.size, shared, inputs, function, what) for way in (ways.no, ways.yes)]

    def either(xs: list[Any]) -> list[Any]:
        found, *values = head.call(*head.lifted, *xs)
        truth = found if hasattr(found, "dtype") and found.dtype == bool else found != 0  # np.allclose gives Python's bool
        return switched(bodies, truth + 0, [*xs[:count], *values], function, "cond")

    return recorded(either, [*inputs, *(ways.test.samples[k] for k in given)], what)


_RUNS = 15  # of a body, for all its ways
