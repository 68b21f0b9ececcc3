"""`while_loop`: as one operation, and under differentiation as a scan of the steps that it took."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from functrace import edge, errors
from functrace.core.tracer import BatchTracer, Tracer
from functrace.ops.blank import own
from functrace.ops.create import as_numpy
from functrace.pool import owned
from functrace.transforms.arguments import name_of
from functrace.transforms.calls import Call, Shown
from functrace.transforms.closures import read_by, same
from functrace.transforms.control_body import (
    COMPILERS,
    MANY,
    NUMBERS,
    Body,
    by_python,
    compiled,
    flagged,
    hoping,
    mapped,
    numbered,
    quietly,
    recorded,
    settled,
    unflagged,
    varies,
)
from functrace.transforms.control_branches import every_way
from functrace.transforms.control_carry import Carry, of_batch, parted, traced, widened
from functrace.transforms.control_loops import ScanCall

C = TypeVar("C")


@edge.usage("while_loop(cond_fun, body_fun, init_val)", "cond_fun(val) and body_fun(val), each with one argument, which may be a tuple")
@hoping
def while_loop(cond_fun: Callable[[C], Any], body_fun: Callable[[C], C], init_val: C) -> C:
    """`while cond_fun(val): val = body_fun(val)`, begun with `init_val`, as in `jax.lax.while_loop`; unlike there, reverse mode works.

    `init_val` is a pytree; `cond_fun` returns one boolean, `body_fun` a tree with the same structure, shapes and dtypes.

    The number of steps counts as fixed under differentiation. Under `vmap` it goes on until the last example is done; an example that is
    done keeps its value.

    Raises:
        ControlFlowError: the value changes its structure, shape or dtype.

    >>> import functrace as ft
    >>> ft.grad(lambda x: ft.while_loop(lambda v: v < 100.0, lambda v: v * v, x))(3.0)
    np.float64(17496.0)
    """
    edge.check_call("while_loop(cond_fun, body_fun, init_val)", cond_fun, body_fun)
    carry = Carry("while_loop", init_val)

    def holds(state: Any) -> Any:
        more = cond_fun(state)
        if np.shape(more) != () or not isinstance(more, (Tracer, np.generic, np.ndarray, *NUMBERS)):
            raise errors.ControlFlowError(
                f"while_loop: cond_fun must return one boolean, got {errors.describe(more)}.\n  Reduce an array with .any() or .all()."
            )
        return more

    before = [read_by(f) for f in (body_fun, cond_fun)]
    if not traced(carry.leaves):
        more = holds(init_val)
        if not isinstance(more, Tracer) and not more:
            return carry.tree(carry.fresh())  # type: ignore[no-any-return]
    carry.settle(body_fun)
    state = carry.fresh()
    if not traced(state):
        while not isinstance(more := holds(carry.tree(state)), Tracer):
            if not more:
                return carry.tree(own(state))  # type: ignore[no-any-return]
            state = carry.check(body_fun(carry.tree(state)))
            if traced(state):
                break
        state = carry.fresh()

    def flat_body(leaves: list[Any]) -> list[Any]:
        return carry.check(body_fun(carry.tree(leaves)))

    def flat_cond(leaves: list[Any]) -> list[Any]:
        return [as_numpy(holds(carry.tree(leaves)))]

    with np.errstate(all="ignore"):
        body = _repeated(flat_body, state, body_fun, before[0])
        test = _repeated(flat_cond, state, cond_fun, before[1])
    if body.looked or test.looked or by_python.get():
        while holds(carry.tree(state)):
            state = carry.check(body_fun(carry.tree(state)))
        return carry.tree(own(state))  # type: ignore[no-any-return]
    if flagged([test, body]):
        return carry.tree(_hopeful(body_fun, test, body, state))  # type: ignore[no-any-return]
    with quietly(test, body):
        return carry.tree(_of_what_moves(body_fun, test, body, state))  # type: ignore[no-any-return]


def _repeated(flat: Callable[[list[Any]], list[Any]], state: list[Any], function: Any, before: list[Any]) -> Body:
    """The program of a function, which must do the same in every step. It is run again if what it reads has changed `before` and now."""
    run = functools.partial(every_way, flat, state, "while_loop", reads=[function], forks=varies(state))
    body = run()
    if body.looked or same(before, read_by(function)):
        return body
    for _ in range(2):  # it may have filled a table when it was run first
        body, last = run(), body
        if body.looked or body.alike(last) and same(body.lifted, last.lifted):
            return body
    raise errors.ControlFlowError(
        f"while_loop: {name_of(function)} changes something that it also reads, and is run once for all steps.\n"
        "  Make that a part of init_val, which it is given and returns."
    )


def _of_what_moves(function: Any, test: Body, body: Body, state: list[Any]) -> list[Any]:
    """The loop, with what is carried along unchanged, as parameters are, among its constants."""
    a, b = len(test.lifted), len(body.lifted)
    of_test, of_body = test.inputs[a:], body.inputs[b:]
    moving = [k for k, place in enumerate(of_body) if body.outputs[k] != place]
    still, read = [k for k in range(len(state)) if k not in moving], test.read()
    asked = [k for k in still if of_test[k] in read]
    test = test.derived(inputs=[*test.inputs[:a], *(of_test[k] for k in (*asked, *moving))])
    body = body.derived(inputs=[*body.inputs[:b], *(of_body[k] for k in (*still, *moving))], outputs=[body.outputs[k] for k in moving])
    fixed = [*test.lifted, *(state[k] for k in asked)], [*body.lifted, *(state[k] for k in still)]
    out = WhileCall(function, test, body, (len(fixed[0]), len(fixed[1])))([*fixed[0], *fixed[1], *(state[k] for k in moving)])
    new = dict(zip(still, owned([state[k] for k in still], state))) | dict(zip(moving, out))
    return [new[k] for k in range(len(state))]


def _hopeful(function: Any, test: Body, body: Body, state: list[Any]) -> list[Any]:
    """The loop with the flag in its value: it ends where that falls, since a loop on what is not finite might not."""
    a, b = len(test.lifted), len(body.lifted)

    def asks(flat: list[Any]) -> list[Any]:
        more, fine = test.call(*flat[:-1])
        return [np.logical_and(more, fine & flat[-1])]

    def goes(flat: list[Any]) -> list[Any]:
        *new, fine = body.call(*flat[:-1])
        return [*new, fine & flat[-1]]

    with np.errstate(all="ignore"):
        first = recorded(asks, [*test.lifted, *state, np.True_], "while_loop")
        then = recorded(goes, [*body.lifted, *state, np.True_], "while_loop")
        out = WhileCall(function, first, then, (a, b))([*test.lifted, *body.lifted, *state, np.True_])
        unflagged(test, test.call(*test.lifted, *out[:-1]))
    return unflagged(body, out)


_SAMPLE = 1000  # steps after which recording stops running an example: it may be on a branch that is not its own, and never end


class WhileCall(Call):
    """A loop with a condition, on the flat list of the constants of the condition, those of the body, and the value."""

    what, told_by = "while_loop", ("test", "body")

    def __init__(self, function: Any, test: Body, body: Body, counts: tuple[int, int]) -> None:
        super().__init__(function, None)
        self.test, self.body, self.counts = test, body, counts

    def bodies(self) -> list[Shown]:
        """The condition, and one step."""
        a, b = self.counts
        state = numbered("value", len(self.body.outputs))
        return [
            Shown("as long as", self.test, [*["constant"] * a, *state], ["go on"]),
            Shown("each step", self.body, [*["constant"] * b, *state], state),
        ]

    def split(self, leaves: Sequence[Any]) -> list[Any]:
        """Constants of the condition, of the body, and the value."""
        return parted(leaves, *self.counts)

    def evaluate(self, leaves: Sequence[Any], most: int = sys.maxsize) -> list[Any]:
        a, b, state = self.split(settled(leaves))
        test, body = self.test, self.body
        asks, goes = test.stepper(), body.stepper()
        t_env, b_env = test.environment(a), body.environment(b)
        t_in, b_in = test.inputs[len(a) :], body.inputs[len(b) :]
        for k in range(most):
            if k == MANY and most == sys.maxsize and self.what in COMPILERS:
                return compiled(self, [*a, *b, *state], leaves)
            for i, x in zip(t_in, state):
                t_env[i] = x
            asks(t_env)
            if not t_env[test.outputs[0]]:
                break
            for i, x in zip(b_in, state):
                b_env[i] = x
            goes(b_env)
            state = [b_env[i] for i in body.outputs]
        return owned(state, (*leaves, *body.template))

    def sample(self, leaves: Sequence[Any]) -> list[Any]:
        """The value after some steps."""
        return self.evaluate(leaves, _SAMPLE)

    def _as_scan(self, leaves: Sequence[Any]) -> tuple[ScanCall, list[Any]]:
        """The same loop for a known number of steps: how many is found by running it."""
        a, b, state = self.split(leaves)

        def counted(flat: list[Any]) -> list[Any]:
            return [*self.body.call(*flat[:-1]), flat[-1] + 1]

        def tested(flat: list[Any]) -> list[Any]:
            return self.test.call(*flat[:-1])

        zero = np.zeros((), int)[()]
        with np.errstate(all="ignore"):
            body = recorded(counted, [*b, *state, zero], self.what)
            test = recorded(tested, [*a, *state, zero], self.what)
        count = WhileCall(self.function, test, body, self.counts)([*a, *b, *state, zero])[-1]
        each = count
        while isinstance(count, BatchTracer):
            count = np.max(count.below, initial=0)
        if isinstance(each, BatchTracer):  # examples that are done sooner stay as they are
            wide, steps = _masked(self.test, self.body, len(a), len(b)), [*a, *b]
            with np.errstate(all="ignore"):
                body = recorded(wide, [*steps, *state], self.what)
        else:
            body, steps = self.body, list(b)
        return ScanCall(self.function, body, (len(steps), len(state)), int(count), False, True), [*steps, *state]

    def forward(self, leaves: Sequence[Any], mine: Sequence[bool]) -> tuple[Any, Any]:
        call, inputs = self._as_scan(leaves)
        if not call.length:
            return list(self.split(leaves)[2]), (call, None)
        mine = [*mine[len(leaves) - len(inputs) :]]
        out, residuals = call.forward(inputs, mine)
        return out, (call, residuals)

    def pull(self, residuals: Any, leaves: Sequence[Any], ans: Sequence[Any], gs: Sequence[Any]) -> list[Any]:
        """The cotangents, those of the scan."""
        call, rest = residuals
        skipped = len(leaves) - len(call.body.inputs)
        if not call.length:
            return [*[None] * (len(leaves) - len(gs)), *gs]
        return [*[None] * skipped, *call.pull(rest, leaves[skipped:], ans, gs)]

    def tangent(self, residuals: Any, leaves: Sequence[Any], ans: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        call, rest = residuals
        skipped = len(leaves) - len(call.body.inputs)
        return list(ts[-len(ans) :]) if not call.length else call.tangent(rest, leaves[skipped:], ans, ts[skipped:])

    def batched(self, size: int, leaves: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
        """A loop that goes on until the last example is done."""
        a, b, state = self.split(leaves)
        fa, fb, fs = self.split(flags)
        moves, step = of_batch(self.body, [*fb, *fs], len(b), len(state), size, self.what)
        if not any(fa) and not any(m and i in self.test.read() for m, i in zip(moves, self.test.inputs[len(a) :])):  # as many steps for all
            wide = [widened(x, size) if m and not f else x for x, f, m in zip(state, fs, moves)]
            with np.errstate(all="ignore"):
                body = recorded(step, [*b, *wide], self.what)
            out = WhileCall(self.function, self.test, body, (len(a), len(body.lifted) + len(b)))([*a, *body.lifted, *b, *wide])
            return [x if m else widened(x, size) for x, m in zip(out, moves)]
        wide = [x if f else widened(x, size) for x, f in zip(state, fs)]
        all_flags = [*fa, *fb, *(True for _ in wide)]
        masked = _masked(self.test, self.body, len(a), len(b))

        def together(flat: list[Any]) -> list[Any]:
            return mapped(lambda *xs: masked(list(xs)), flat, all_flags, size, self.what)

        def any_left(flat: list[Any]) -> list[Any]:
            return [np.any(mapped(self.test.call, flat, [*fa, *(True for _ in wide)], size, self.what)[0])]

        with np.errstate(all="ignore"):
            body = recorded(together, [*a, *b, *wide], self.what)
            test = recorded(any_left, [*a, *wide], self.what)
        return WhileCall(self.function, test, body, (len(a), len(a) + len(b)))([*a, *a, *b, *wide])  # type: ignore[no-any-return]


def _masked(test: Body, body: Body, a: int, b: int) -> Callable[[list[Any]], list[Any]]:
    """A step that leaves the value as it is where the condition does not hold."""

    def step(flat: list[Any]) -> list[Any]:
        more = test.call(*flat[:a], *flat[a + b :])[0]
        return [np.where(more, new, old) for new, old in zip(body.call(*flat[a:]), flat[a + b :])]

    return step
