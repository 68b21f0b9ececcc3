"""Loops as one operation: a recorded body, run for every step; its derivatives, and its batches, are loops again.

The inputs of a body are constants, the carry, and the step's slice of each sequence; its outputs are the new carry and the step's
results. What needs no carry is taken out of the loop first, and done for all steps at once by its batching rules: in a recurrent
network the products with the inputs, and in the reverse loop the slopes. What the carry does not need comes after it in the same way,
so that a loop of several layers becomes one loop for each layer. The cotangent of a constant (the weights) is left out of the
reverse loop too: it is one product over all steps afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.core.forward import tangent
from functrace.core.primitive import Aval, Primitive, bind
from functrace.core.reverse import fit
from functrace.core.tape import ITEM
from functrace.pool import owned
from functrace.transforms.arguments import or_zeros, zeros_like
from functrace.transforms.calls import CALL, Call, Shown, floats
from functrace.transforms.control_body import COMPILERS, MANY, Body, Instruction, compiled, mapped, numbered, pulled, recorded, run, settled
from functrace.transforms.control_carry import of_batch, parted, widened
from functrace.transforms.control_products import carry_last, regrouped
from functrace.transforms.control_shifts import shifts
from functrace.transforms.derivatives import jvp, vjp
from functrace.transforms.masks import masked
from functrace.transforms.tracing import replaced

_FEW = 8  # steps from which on a loop is taken apart
_AT_ONCE, _SMALL = 1 << 26, 1 << 17  # bytes of a result for all steps, and for one, up to which it is computed for all at once


def _batches_well(primitive: Primitive) -> bool:
    """Whether a batch is one array operation, not a loop over the examples."""
    return primitive is not CALL and not primitive.batch.__qualname__.startswith("general.")


def loop(body: Body, function: Any, parts: Sequence[Sequence[Any]], length: int, reverse: bool, at_once: bool = True) -> list[Any]:
    """Run `body` for `length` steps; `parts` are the constants, the initial carry, and the sequences. The carry, and stacked results."""
    constants, carry, xs = parts
    a, b = len(constants), len(carry)
    if still := [k for k in range(b) if body.outputs[k] == body.inputs[a + k]]:  # parameters that are carried along
        order = still + [k for k in range(b) if k not in still]
        states, end = order[len(still) :], a + b
        same = body.derived(
            inputs=[*body.inputs[:a], *(body.inputs[a + k] for k in order), *body.inputs[end:]],
            outputs=[*(body.outputs[k] for k in states), *body.outputs[b:]],
        )
        parts = [*constants, *(carry[k] for k in still)], [carry[k] for k in states], xs
        given = loop(same, function, parts, length, reverse, at_once)
        new = dict(zip(still, owned([carry[k] for k in still], carry))) | dict(zip(states, given))
        return [*(new[k] for k in range(b)), *given[len(states) :]]
    level = _levels(body, len(constants), len(carry), length, at_once)
    if (summed := carry_last(body, level)) is not body:
        body, level = summed, _levels(summed, len(constants), len(carry), length, at_once)
    groups: list[list[Instruction]] = [[], [], []]
    for row in body.code:
        groups[level[row[1]]].append(row)
    env = body.environment([*constants, *carry, *xs])
    run(groups[0], env)
    keep = {i for row in groups[2] for i in row[2]} | set(body.outputs[: len(carry)])  # what the loop itself needs
    made = [i for i in (row[1] for row in groups[1]) if i not in body.items and (i in keep or i in body.outputs)]
    if made:
        x_places = body.inputs[len(constants) + len(carry) :]
        template = env.copy()

        def together(*slices: Any) -> list[Any]:
            inner = template.copy()
            for i, x in zip(x_places, slices):
                inner[i] = x
            run(groups[1], inner)
            return [inner[i] for i in made]

        for i, x in zip(made, mapped(together, xs, [True] * len(xs), length, "a loop")):
            env[i] = x
    results = body.outputs[len(carry) :]
    looped = [i for i in results if level[i] == 2]
    carries = body.inputs[len(constants) : len(constants) + len(carry)]
    fixed = [i for i in (*body.inputs[: len(constants)], *(row[1] for row in groups[0])) if i in keep]
    moving = [i for i in (*body.inputs[len(constants) + len(carry) :], *made) if i in keep]
    rest = body.derived(inputs=[*fixed, *carries, *moving], outputs=[*body.outputs[: len(carry)], *looped], code=groups[2])
    out: list[Any] = list(carry)
    if carry or looped:
        call = ScanCall(function, rest, (len(fixed), len(carry)), length, reverse, at_once)
        leaves = [env[i] for i in rest.inputs]
        apart = _in_turn(call, leaves) if at_once and carry else None
        out = call(leaves) if apart is None else apart
    for i, x in zip(looped, out[len(carry) :]):
        env[i] = x
    stacked = [env[i] if level[i] else np.broadcast_to(env[i], (length, *np.shape(env[i]))) for i in results]
    return [*out[: len(carry)], *stacked]


def _levels(body: Body, constants: int, carry: int, length: int, at_once: bool) -> dict[int, int]:
    """For each value when it is computed. 0: once, the same in all steps; 1: for all steps at once, since it needs no carry; 2: in each."""
    level = dict.fromkeys(range(len(body.template)), 0)
    level |= dict.fromkeys(body.inputs[constants:], 2) | dict.fromkeys(body.inputs[constants + carry :], 1)
    for primitive, place, ins, _ in body.code:
        high = max([level[i] for i in ins], default=0)
        aval = body.avals.get(place)
        size = aval.dtype.itemsize * math.prod(aval.shape) if aval else 0
        large = size > _SMALL or size * length > _AT_ONCE
        apart = primitive is not ITEM and (not at_once or large or not _batches_well(primitive))
        level[place] = 2 if high == 1 and apart else high
    return level


def _in_turn(call: ScanCall, leaves: Sequence[Any]) -> list[Any] | None:
    """The loop in parts, one after the other: first a part of the carry that needs none of the rest, then what is left, which finds
    the values of the first in sequences. None if the loop has one part only.
    """
    body, length = call.body, call.length
    constants, ins, x_ins = call.split(body.inputs)
    outs, results = body.outputs[: len(ins)], body.outputs[len(ins) :]
    first = _closed(body, ins, outs)
    inner = body.derived(outputs=[outs[k] for k in first]).code
    inside = {row[1] for row in inner}
    outer = [row for row in body.code if row[1] not in inside]
    others = [k for k in range(len(ins)) if k not in first]
    read = {i for row in outer for i in row[2]} | {outs[k] for k in others} | set(results)
    shared = [i for i in (*(ins[k] for k in first), *inside) if i in read and i not in body.items]
    sizes = [body.avals[i].dtype.itemsize * math.prod(body.avals[i].shape) for i in shared]
    more = len(shared) - len(set(results) if not others else inside.intersection(results))  # rows that each step has to keep
    worth = sum(_batches_well(row[0]) and row[0] is not ITEM for row in outer) > more
    if not worth or length < _FEW or any(size > _SMALL or size * length > _AT_ONCE for size in sizes):
        return None
    env = body.environment(leaves)
    part = body.derived(inputs=[*constants, *(ins[k] for k in first), *x_ins], outputs=[*(outs[k] for k in first), *shared], code=inner)
    counts = len(constants), len(first)
    done = ScanCall(call.function, part, counts, length, call.reversed, True)([env[i] for i in part.inputs])
    rest = body.derived(
        inputs=[*constants, *(ins[k] for k in others), *x_ins, *shared], outputs=[*(outs[k] for k in others), *results], code=outer
    )
    parts = [[env[i] for i in constants], [env[ins[k]] for k in others], [*(env[i] for i in x_ins), *done[len(first) :]]]
    after = loop(rest, call.function, parts, length, call.reversed)
    new = dict(zip(first, done)) | dict(zip(others, after))
    return [*(new[k] for k in range(len(ins))), *after[len(others) :]]


def _closed(body: Body, ins: Sequence[int], outs: Sequence[int]) -> list[int]:
    """The smallest part of the carry that depends on no other part of it."""
    on: dict[int, frozenset[int]] = {i: frozenset((k,)) for k, i in enumerate(ins)}
    for _, out, arguments, _ in body.code:
        on[out] = frozenset().union(*(on.get(i, frozenset()) for i in arguments))
    best = frozenset(range(len(ins)))
    for k in range(len(ins)):
        found, todo = {k}, [k]
        while todo and len(found) < len(best):
            new = on.get(outs[todo.pop()], frozenset()) - found
            found |= new
            todo += new
        if len(found) < len(best):
            best = frozenset(found)
    return sorted(best)


class ScanCall(Call):
    """A loop, on the flat list of constants, carry and sequences; `counts` says how many there are of the first two."""

    what, told_by = "scan", ("counts", "length", "reversed", "body")

    def __init__(self, function: Any, body: Body, counts: tuple[int, int], length: int, reverse: bool, at_once: bool) -> None:
        super().__init__(function, None)
        self.body, self.counts, self.length, self.reversed, self.at_once = body, counts, length, reverse, at_once

    def bodies(self) -> list[Shown]:
        """One step."""
        a, b = self.counts
        carry, order = numbered("carry", b), ", the last first" if self.reversed else ""
        inputs = [*["constant"] * a, *carry, *numbered("x", len(self.body.inputs) - a - b)]
        outputs = [*carry, *numbered("y", len(self.body.outputs) - b)]
        return [Shown(f"each of {self.length} steps{order}", self.body, inputs, outputs)]

    def split(self, leaves: Sequence[Any]) -> list[Any]:
        """Constants, carry, and sequences."""
        return parted(leaves, *self.counts)

    def first(self, xs: Sequence[Any]) -> list[Any]:
        """The slices of the step that runs first."""
        return [x[-1 if self.reversed else 0] for x in xs]

    def evaluate(self, leaves: Sequence[Any]) -> list[Any]:
        if self.length >= MANY and self.what in COMPILERS:
            return compiled(self, settled(leaves), leaves)
        constants, carry, xs = self.split(settled(leaves))
        body = self.body
        env = body.environment([*constants, *carry])
        _, ins, x_ins = self.split(body.inputs)
        carry_out, results = body.outputs[: len(ins)], body.outputs[len(ins) :]
        step = body.stepper()
        stacks: dict[int, Any] = {}
        for k in range(self.length - 1, -1, -1) if self.reversed else range(self.length):
            for i, x in zip(x_ins, xs):
                env[i] = x[k]
            step(env)
            if not stacks:
                stacks = {i: np.empty((self.length, *np.shape(env[i])), np.result_type(env[i])) for i in results}
                rows = list(stacks.items())
            for i, stack in rows:
                stack[k] = env[i]
            new = [env[i] for i in carry_out]
            for i, c in zip(ins, new):
                env[i] = c
        return owned([*(env[i] for i in ins), *(stacks[i] for i in results)], (*leaves, *body.template))

    def unrolled(self, *leaves: Any) -> list[Any]:
        """The loop as single operations, for bodies whose rules look at numbers."""
        constants, carry, xs = self.split(leaves)
        rows: list[Any] = [None] * self.length
        for k in range(self.length - 1, -1, -1) if self.reversed else range(self.length):
            out = self.body.call(*constants, *carry, *(x[k] for x in xs))
            carry, rows[k] = out[: len(carry)], out[len(carry) :]
        return [*carry, *(np.stack(column) for column in zip(*rows))]

    def _reached(self, active: set[int]) -> set[int]:
        """Of the inputs those that depend on the `active` ones, after some steps."""
        body, ins = self.body, self.split(self.body.inputs)[1]
        while True:
            found = set(active)
            for primitive, out, arguments, _ in body.code:
                if not primitive.constant and not found.isdisjoint(arguments):
                    found.add(out)
            new = {i for i, out in zip(ins, body.outputs) if out in found and body.avals[i].dtype.kind in "fc"} - active
            if not new:
                return active
            active = active | new

    def _asked(self, active: set[int], gs: Sequence[Any]) -> set[int]:
        """Of the `active` places those on which a result depends that has a cotangent, and the states that are one before a step."""
        body, ins = self.body, self.split(self.body.inputs)[1]
        asked = {i for i, g in zip(body.outputs, gs) if g is not None}
        while True:
            found = asked.copy()
            for _, out, arguments, _ in reversed(body.code):
                if out in found:
                    found.update(active.intersection(arguments))
            new = {out for i, out in zip(ins, body.outputs) if i in found} - asked
            if not new:
                return active & (found | {i for i, out in zip(ins, body.outputs) if out in asked})
            asked |= new

    def _needs(self, mine: Sequence[bool]) -> tuple[set[int], list[int], list[Instruction]]:
        """The places that a derivative reaches, those whose values its rules need, and the uses of constants left for afterwards."""
        body = self.body
        constants, ins, _ = self.split(body.inputs)
        active = self._reached({i for i, m in zip(body.inputs, mine) if m and body.avals[i].dtype.kind in "fc"})
        moving = {*ins, *(row[1] for row in body.code)}
        saved: dict[int, None] = {}
        later: list[Instruction] = []
        still = shifts(body)
        for row in body.code:
            primitive, out, arguments, _ = row
            if primitive.constant or active.isdisjoint(arguments) or out in still:
                continue
            active.add(out)
            if primitive is ITEM:
                continue
            tap = not primitive.multi and _batches_well(primitive) and any(i in constants and i in active for i in arguments)
            needed = list(primitive.needed(tuple([i if i in active else -1 for i in arguments])))
            if primitive is CALL:
                needed[0] = False
            if tap:
                later.append(row)
                needed[1:] = [n or needed[0] for n in needed[1:]]  # a result that is looked into is computed again
            for i, need in zip((out, *arguments), needed):
                if need:
                    saved.update(dict.fromkeys(k for k in body.items.get(i, [i]) if k in moving))
        return active, list(saved), later

    def forward(self, leaves: Sequence[Any], mine: Sequence[bool]) -> tuple[Any, Any]:
        saved = self._needs(mine)[1]
        count = len(self.body.outputs)
        longer = self.body.derived(outputs=[*self.body.outputs, *saved])
        out = ScanCall(self.function, longer, self.counts, self.length, self.reversed, self.at_once)(leaves)
        return out[:count], (out[count:], list(mine))

    def _values(self, leaves: Sequence[Any], saved: Sequence[int], stacks: Sequence[Any]) -> list[Any]:
        """The places in one step, those that no rule looks into described."""
        body = self.body
        env = [body.avals.get(i) if x is None else x for i, x in enumerate(body.template)]
        for i, x in [*zip(body.inputs, leaves), *zip(saved, stacks)]:
            env[i] = x
        for i, places in body.items.items():
            env[i] = tuple([env[k] for k in places])
        return env

    def _step_of(self, leaves: Sequence[Any]) -> list[Any]:
        """Leaves of one step: the carry is not known, but among what was saved where it is needed."""
        constants, carry, _ = self.split(leaves)
        return [*constants, *(Aval(c) for c in carry)]

    def pull(self, residuals: Any, leaves: Sequence[Any], ans: Sequence[Any], gs: Sequence[Any]) -> list[Any]:
        """The cotangents, by a loop that runs the other way."""
        if masked(gs):
            return self._pull_unrolled(leaves, ans, gs)
        stacks, mine = residuals
        body = self.body
        for lock in body.locks:
            lock.check()
        constants, carry, xs = self.split(leaves)
        c_in, ins, x_in = self.split(body.inputs)
        active, saved, later = self._needs(mine)
        active = self._asked(active, gs)
        later = [row for row in later if row[1] in active]
        floats = [k for k, i in enumerate(ins) if i in active]
        seeds = [or_zeros(gs[k], ans[k]) for k in floats]
        cts = [(i, g) for i, g in zip(body.outputs[len(carry) :], gs[len(carry) :]) if g is not None and i in active]
        wanted = [i for i in x_in if i in active]
        tapped = {row[1] for row in later}
        direct = {i for row in body.code if row[1] not in tapped for i in row[2]} | set(body.outputs)
        summed = [i for i in c_in if i in active and i in direct]

        def back(flat: list[Any]) -> list[Any]:
            head, state, sums, given, slices, g_results = parted(flat, len(constants), len(floats), len(summed), len(saved), len(xs))
            values = self._values([*self._step_of([*head, *carry]), *slices], saved, given)
            into: dict[int, Any] = {}
            for i, g in [*((body.outputs[k], g) for k, g in zip(floats, state)), *((i, g) for (i, _), g in zip(cts, g_results))]:
                _add(into, i, g)
            taps = _pull(body.code, values, into, active, tapped, set(c_in))
            new = [or_zeros(into.get(ins[k]), body.avals[ins[k]]) for k in floats]
            return [
                *new,
                *(a + into[i] if i in into else a for a, i in zip(sums, summed)),
                *(or_zeros(into.get(i), body.avals[i]) for i in wanted),
                *(or_zeros(taps.get(row[1]), body.avals[row[1]]) for row in later),
            ]

        totals = [zeros_like(body.avals[i]) for i in summed]
        sequences = [*stacks, *xs, *(g for _, g in cts)]
        step = recorded(back, [*constants, *seeds, *totals, *(x[0 if self.reversed else -1] for x in sequences)], self.what)
        if step.looked:
            return self._pull_unrolled(leaves, ans, gs)
        parts = [[*step.lifted, *constants], [*seeds, *totals], sequences]
        step = regrouped(step, len(parts[0]), len(parts[1]))
        out = loop(step, self.function, parts, self.length, not self.reversed, self.at_once)
        grads: dict[int, Any] = dict(zip([*(ins[k] for k in floats), *summed, *wanted], out))
        for i, g in self._products(later, active, leaves, saved, stacks, out[len(out) - len(later) :]):
            _add(grads, i, g)
        return [grads.get(i) for i in body.inputs]

    def _products(self, later: Any, active: set[int], leaves: Any, saved: Any, stacks: Any, gs: Any) -> list[tuple[int, Any]]:
        """Cotangents of the constants whose uses were left for after the loop, with those of their results."""
        if not later:
            return []
        body = self.body
        constants, ins, x_in = self.split(body.inputs)
        known = dict(enumerate(body.environment(leaves)))
        rows = dict(zip(saved, stacks)) | {i: known[i] for i in x_in}
        made = {row[1] for row in body.code}
        for i in {i for row in later for i in row[2]} & made - rows.keys():  # no rule looks into it
            rows[i] = np.broadcast_to(np.zeros((), body.avals[i].dtype), (self.length, *body.avals[i].shape))
        used = [i for i in constants if i in active and any(i in row[2] for row in later)]

        def again(*weights: Any) -> list[Any]:
            env = known | dict(zip(used, weights))

            def one(*slices: Any) -> list[Any]:
                inner = env | dict(zip(rows, slices))
                return [bind(p, tuple([inner[i] for i in arguments]), params) for p, _, arguments, params in later]

            return mapped(one, list(rows.values()), [True] * len(rows), self.length, self.what)

        return list(zip(used, pulled(again, [known[i] for i in used], list(gs))))

    def _pull_unrolled(self, leaves: Sequence[Any], ans: Sequence[Any], gs: Sequence[Any]) -> list[Any]:
        moving = floats(leaves)
        _, pullback = vjp(self._at(leaves, moving), *(leaves[k] for k in moving))
        grads = dict(zip(moving, pullback([or_zeros(g, y) for g, y in zip(gs, ans)])))
        return [grads.get(k) for k in range(len(leaves))]

    def _at(self, leaves: Sequence[Any], moving: Sequence[int]) -> Callable[..., list[Any]]:
        return lambda *xs: self.unrolled(*replaced(leaves, moving, xs))

    def _push_unrolled(self, leaves: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        which = [k for k in floats(leaves) if ts[k] is not None]
        return jvp(self._at(leaves, which), [leaves[k] for k in which], [ts[k] for k in which])[1]

    def tangent(self, residuals: Any, leaves: Sequence[Any], ans: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        if masked(ts):
            return self._push_unrolled(leaves, ts)
        stacks, mine = residuals
        body = self.body
        constants, carry, xs = self.split(leaves)
        c_in, ins, x_in = self.split(body.inputs)
        active, saved, _ = self._needs(mine)
        given = dict(zip(body.inputs, ts))
        floats = [k for k, i in enumerate(ins) if i in active]
        moving = [i for i in c_in if given[i] is not None and i in active]
        moved = [i for i in x_in if given[i] is not None and i in active]
        counts = len(constants), len(moving), len(floats), len(saved), len(xs)

        def push(flat: list[Any]) -> list[Any]:
            head, t_const, state, kept, slices, t_xs = parted(flat, *counts)
            values = self._values([*self._step_of([*head, *carry]), *slices], saved, kept)
            tangents = dict(zip(moving, t_const)) | {ins[k]: t for k, t in zip(floats, state)} | dict(zip(moved, t_xs))
            _push(body.code, values, tangents, active)
            outputs = [body.outputs[k] for k in floats] + [i for i in body.outputs[len(carry) :] if i in active]
            return [or_zeros(tangents.get(i), body.avals[i]) for i in outputs]

        fixed = [*constants, *(given[i] for i in moving)]
        state = [or_zeros(given[ins[k]], carry[k]) for k in floats]
        sequences = [*stacks, *xs, *(given[i] for i in moved)]
        step = recorded(push, [*fixed, *state, *self.first(sequences)], self.what)
        if step.looked:
            return self._push_unrolled(leaves, ts)
        parts = [[*step.lifted, *fixed], state, sequences]
        step = regrouped(step, len(parts[0]), len(state))
        out = iter(loop(step, self.function, parts, self.length, self.reversed, self.at_once))
        new = dict(zip(floats, out))
        return [*(new.get(k) for k in range(len(carry))), *(next(out) if i in active else None for i in body.outputs[len(carry) :])]

    def batched(self, size: int, leaves: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
        """The loop of a batch: its body is batched."""
        constants, carry, xs = self.split(leaves)
        c_flags, k_flags, x_flags = self.split(flags)
        moves, together = of_batch(self.body, [*c_flags, *k_flags, *x_flags], len(constants), len(carry), size, self.what)
        wide = [widened(c, size) if m and not b else c for c, b, m in zip(carry, k_flags, moves)]
        rows = [np.moveaxis(x, 1, 0) if b else x for x, b in zip(xs, x_flags)]
        step = recorded(together, [*constants, *wide, *self.first(rows)], self.what)
        if step.looked:
            return mapped(self.unrolled, leaves, flags, size, self.what)
        out = loop(step, self.function, ([*step.lifted, *constants], wide, rows), self.length, self.reversed, self.at_once)
        return [*(c if m else widened(c, size) for c, m in zip(out, moves)), *(np.moveaxis(y, 0, 1) for y in out[len(carry) :])]


def _add(into: dict[int, Any], i: int, g: Any) -> None:
    into[i] = into[i] + g if i in into else g


def _pull(code: Any, env: list[Any], into: dict[int, Any], active: set[int], tapped: set[int], constants: set[int]) -> dict[int, Any]:
    """Carry the cotangents in `into` back through one step, and take them from it as they pass; return those of the `tapped`."""
    taps: dict[int, Any] = {}
    for primitive, out, ins, params in reversed(code):
        g = into.pop(out, None)
        if g is None or out not in active:
            continue
        if primitive is ITEM:
            bundle = into.setdefault(ins[0], [None] * len(env[ins[0]]))
            bundle[params[0]] = g
            continue
        if out in tapped:
            taps[out] = g
        slots = tuple([i if i in active and not (out in tapped and i in constants) else -1 for i in ins])
        args = tuple([env[i] for i in ins])
        for i, d, x in zip(slots, primitive.pull(slots, g, env[out], args, params), args):
            if i >= 0 and d is not None:
                _add(into, i, fit(d, x))
    return taps


def _push(code: Any, env: list[Any], tangents: dict[int, Any], active: set[int]) -> None:
    for primitive, out, ins, params in code:
        if out not in active:
            continue
        if primitive is ITEM:
            bundle = tangents.get(ins[0])
            if bundle is not None and bundle[params[0]] is not None:
                tangents[out] = bundle[params[0]]
            continue
        ts = [tangents.get(i) for i in ins]
        if primitive.constant or all(t is None for t in ts):
            continue
        total = tangent(primitive, ts, env[out], tuple([env[i] for i in ins]), params)
        if total is not None:
            tangents[out] = total
