"""Shifts in the step of a loop: a maximum that is subtracted before `exp`, only to keep it in range, and makes no difference to the
results has no derivative, so that none is computed.

A value that depends on the maximum m is known as a + k m or as a exp(k m), with a that does not depend on it. Where that is so of no
result, but for k = 0, none depends on m.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.ops.positions import keeps_all

_SHIFTED, _SCALED = "a + k m", "a exp(k m)"
_MOVES = frozenset(("reshape", "getitem", "transpose", "broadcast_to"))


class _Unknown(Exception):
    """A value depends on the maximum in another way."""


class _State:
    """How a value depends on the maximum: the form, k, and for each axis which of the maximum's it is; None for one along which it is
    the same.
    """

    def __init__(self, form: str, k: int, axes: tuple[Any, ...]) -> None:
        self.form, self.k, self.axes = form, k, axes


def shifts(body: Any) -> set[int]:
    """The places in a recorded body of the maxima on which no result depends."""
    return {row[1] for n, row in enumerate(body.code) if row[0].name in ("max", "min") and _is_shift(body, n)}


def _is_shift(body: Any, n: int) -> bool:
    m = body.code[n][1]
    shape = body.avals[m].shape
    states = {m: _State(_SHIFTED, 1, tuple([k if size > 1 else None for k, size in enumerate(shape)]))}
    try:
        for primitive, out, ins, params in body.code[n + 1 :]:
            if states.keys().isdisjoint(ins) or primitive.constant:
                continue
            found = _after(primitive.name, [states.get(i) for i in ins], [body.avals.get(i) for i in ins], body.avals.get(out), params)
            if found.k:
                states[out] = found
    except _Unknown:
        return False
    return states.keys().isdisjoint(body.outputs)


def _after(name: str, states: list[Any], avals: list[Any], out: Any, params: Any) -> _State:
    """The state of a result."""
    first = states[0]
    if out is None or any(a is None for a in avals):
        raise _Unknown
    if name in _MOVES:
        return _State(first.form, first.k, _moved(name, first.axes, avals[0], out, params))
    if name == "sum" and first.form == _SCALED:
        return _State(_SCALED, first.k, _summed(first.axes, *params))
    if name == "exp" and first.form == _SHIFTED:
        return _State(_SCALED, first.k, first.axes)
    if name == "log" and first.form == _SCALED:
        return _State(_SHIFTED, first.k, first.axes)
    if name == "negative":
        return _State(first.form, -first.k if first.form == _SHIFTED else first.k, first.axes)
    form = _SHIFTED if name in ("add", "subtract") else _SCALED
    if name not in ("add", "subtract", "multiply", "divide") or any(s is not None and s.form != form for s in states):
        raise _Unknown
    sign = -1 if name in ("subtract", "divide") else 1
    axes = {(None,) * (len(out.shape) - len(s.axes)) + s.axes for s in states if s is not None}
    if len(axes) > 1:
        raise _Unknown
    k, more = [0 if s is None else s.k for s in states]
    return _State(form, k + sign * more, axes.pop())


def _moved(name: str, axes: tuple[Any, ...], x: Any, out: Any, params: Any) -> tuple[Any, ...]:
    if name == "transpose":
        return tuple([axes[k] for k in params[0]])
    if name == "broadcast_to":
        return (None,) * (len(out.shape) - len(axes)) + axes
    sizes = [size for size in x.shape if size > 1]
    if name == "getitem" and not keeps_all(params[0], x, out) or sizes != [size for size in out.shape if size > 1]:
        raise _Unknown
    rest = iter([axis for axis, size in zip(axes, x.shape) if size > 1])
    return tuple([next(rest) if size > 1 else None for size in out.shape])


def _summed(axes: tuple[Any, ...], axis: Any, keepdims: bool) -> tuple[Any, ...]:
    gone = range(len(axes)) if axis is None else {k % len(axes) for k in np.atleast_1d(axis)}
    if any(axes[k] is not None for k in gone):
        raise _Unknown
    return tuple([None if k in gone else a for k, a in enumerate(axes) if keepdims or k not in gone])
