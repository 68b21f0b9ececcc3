"""No NaN from the branch not taken: cotangents that know where they are zero because a selection threw the rest away.

`where(x > 0, sqrt(x), 0)` sends nothing back to `sqrt` where x is 0, and nothing times the infinite derivative of `sqrt` is
nothing. The number 0 that stands for nothing can't say so: 0 times infinity is NaN, and must be, where the 0 was computed. So
a cotangent (or a tangent) is replaced by a tracer that carries, beside its value, where it is *live*. What a linear op does
to that is found by applying the op to it; elementwise ops keep it; all others make everything live.

This costs something, and is done only when a derivative came out not finite.
"""

from __future__ import annotations

import functools
import operator
from cmath import isfinite
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from functrace import edge
from functrace.core.forward import transpose
from functrace.core.primitive import Primitive, bind
from functrace.core.tape import Tape
from functrace.core.tracer import BatchTracer, TapeTracer, Trace, Tracer
from functrace.ops.choice import chosen
from functrace.ops.create import number
from functrace.ops.kinds import same
from functrace.pool import owned
from functrace.sums import ALONE, checksum

Replay = Callable[..., list[Any]]
wanted: ContextVar[bool] = ContextVar("masks", default=False)
_GOLDEN = (5**0.5 - 1) / 2
_FEW = 16  # elements that Python has added before NumPy begins


class MaskTracer(Tracer):
    """A cotangent or tangent, and where it is live: a boolean array of its shape."""

    __slots__ = ("live",)
    live: Any

    def kept(self) -> MaskTracer:
        """Another handle of the same array, as live."""
        return self.owner.tracer(self.below, self.live)  # type: ignore[no-any-return]


class MaskTrace(Trace):
    """One replay with masks."""

    __slots__ = ()

    def tracer(self, x: Any, live: Any) -> MaskTracer:
        """A value that is zero where it is not `live`."""
        out = MaskTracer(x, self, -1, None, 0)
        out.live = live
        return out

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Rules are linear in what is masked; so, of the arguments of a linear op, the others are zero."""
        lives = [a.live if isinstance(a, MaskTracer) and a.owner is self else None for a in args]
        values = [a.below if m is not None else a.kept() if isinstance(a, Tracer) else a for a, m in zip(args, lives)]
        ans = bind(primitive, tuple(values), params)
        if primitive.constant:
            return ans
        if primitive.elementwise:
            live: Any = functools.reduce(operator.or_, [m for m in lives if m is not None])
            live = live if np.shape(live) == ans.shape else np.broadcast_to(live, ans.shape)
            return self.tracer(number(chosen(live, ans)), live)
        if primitive.linear:
            others = np.ones_like if primitive.linear == "each" else same  # any numbers, or those of the op, which are zero
            marks = [others(a) if m is None else _marks(m) for a, m in zip(args, lives)]
            return self.tracer(ans, bind(primitive, tuple(marks), params) != 0)
        some = any(m is not None and m.any() for m in lives)
        results = [self.tracer(x, np.full(np.shape(x), some)) for x in (ans if primitive.multi else (ans,))]
        return tuple(results) if primitive.multi else results[0]


def _marks(live: Any) -> Any:
    """Positive numbers where live, such that no linear op takes a few of them to zero by chance."""
    steps = np.arange(live.size) * _GOLDEN
    return live * (1 + (steps - np.floor(steps)).reshape(live.shape))


def ruled(rule: Callable[[Sequence[Any]], list[Any]], given: Sequence[Any], likes: Sequence[Any], by_hand: bool) -> list[Any]:
    """A rule of a call, under masks. The user's gets plain values, and its results are live. Ours see a missing cotangent as zeros that
    are live nowhere; a result without a mask becomes None.
    """
    trace = next((g.owner for g in given if isinstance(g, MaskTracer)), None)
    if trace is None:
        return rule(given)
    if by_hand:
        out = rule([g.below if isinstance(g, MaskTracer) else g for g in given])
        return [None if d is None else trace.tracer(d, np.ones(np.shape(d), bool)) for d in out]
    given = [*given]
    for k, y in enumerate(likes):
        if given[k] is None and y.dtype.kind in "fc":
            given[k] = trace.tracer(np.zeros(y.shape, y.dtype), np.zeros(y.shape, bool))
    return [d if isinstance(d, MaskTracer) else None for d in rule(given)]


def masked(xs: Sequence[Any]) -> bool:
    """Whether a rule is given masks."""
    return any(isinstance(x, MaskTracer) for x in xs)


def finite(results: Sequence[Any]) -> bool:
    """Whether all numbers of a derivative are finite; in a recorded program that becomes a guard."""
    found: Any = None  # one flag for all values of a recorded program
    for x in results:
        if type(x) is np.ndarray and x.size <= ALONE:
            flat = x.ravel("K")
            if isfinite(sum(flat.tolist()) if x.size <= _FEW else np.vdot(flat, flat)):  # `checksum`, of most without a call
                continue
        elif x is None or isinstance(x, float) and isfinite(x):
            continue
        x = beneath(x)
        if isinstance(x, Tracer):
            found = np.isfinite(checksum(x)) if found is None else found & np.isfinite(checksum(x))
        elif x is not None and not np.isfinite(checksum(x)):
            return False
    return found is None or _expected(found)


def beneath(x: Any) -> Any:
    """The array of a value, or its tracer in a program that is being recorded."""
    while isinstance(x, (TapeTracer, BatchTracer, MaskTracer)):
        x = x.below
    return x


def _expected(found: Any) -> bool:
    """The truth of a flag that should be true; in a recorded program that becomes a guard."""
    return found.owner.expect(found) if isinstance(found, Tracer) else bool(found)


def met(flags: Any) -> bool:
    """Whether the flags of all steps, or of all branches, are true."""
    return _expected(np.all(beneath(flags)))


def _masked(replay: Replay, tape: Tape, seeds: Sequence[Any]) -> list[Any]:
    trace = MaskTrace("a replay with masks")
    try:
        seeds_ = [None if g is None else trace.tracer(g, np.ones(g.shape, bool)) for g in seeds]
        out = edge.raising_ours(replay, (tape, seeds_))
    finally:
        trace.close()
    return owned([x.below if isinstance(x, MaskTracer) else x.kept() if isinstance(x, Tracer) else x for x in out], seeds)


@np.errstate(divide="ignore", invalid="ignore")
def replayed(replay: Replay, tape: Tape, seeds: Sequence[Any], again: Callable[[], Tape], consumed: bool = False) -> list[Any]:
    """`replay(tape, seeds)`; where that is not finite, once more with masks, if need be on a tape of masked derivatives.

    `again` runs the function anew, for a tape that was consumed, or on which derivatives were recorded that carry no masks. NumPy
    does not warn of what a replay divides by: the derivative of a function may well be infinite, and may be thrown away.
    """
    if wanted.get():
        return _masked(replay, tape, seeds)
    out = replay(tape, seeds, consumed) if consumed else replay(tape, seeds)
    if finite(out):
        return out
    if not consumed:
        out = _masked(replay, tape, seeds)
        if finite(out):
            return out
    try:
        wanted.set(True)
        return _masked(replay, again(), seeds)
    finally:
        wanted.set(False)


def transposed(linear: Callable[..., Sequence[Any]], points: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """`transpose`, without NaN from what the function selects away."""
    none: Any = None
    return replayed(lambda _, ts: transpose(linear, points, ts), none, tangents, lambda: none)


def unlike(x: Any) -> Any:
    """A point at which to record the user's function for transposing: small numbers, not zero, unlike their neighbours."""
    if x.dtype.kind not in "fc":
        return np.zeros(x.shape, x.dtype)
    return np.resize(np.linspace(1e-6, 2e-6, 1021).astype(x.dtype), x.shape)
