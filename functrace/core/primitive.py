"""Chapter 2. Primitives: the rules of one op in one record, and `bind`, the one door through which an op is applied.

Rules are written in NumPy. Because tracers answer NumPy's functions and operators, a rule that runs on tracers is itself
traced, and so every derivative can be differentiated again, batched, or recorded.

A rule for argument k is called as `rule(g, ans, *args, *params)`: `g` is the cotangent of the result (in `vjps`) or the
tangent of argument k (in `jvps`). An argument of a rule whose name begins with an underscore says that the rule looks at most
at its shape and dtype; large values that no rule looks at are not kept on the tape.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from sys import _getframe
from typing import Any

import numpy as np

from functrace.core.tracer import TapeTracer, Tracer
from functrace.errors import MissingRuleError
from functrace.pool import recycled

GENERAL, UNARY, BINARY, ITEM, SCATTER = range(5)
LARGE = 1 << 12  # elements from which on the tape drops what no rule needs

Rule = Callable[..., Any]


class Aval:
    """What the tape keeps of a large value that no rule looks into: its shape and dtype."""

    __slots__ = ("dtype", "shape")

    def __init__(self, x: Any) -> None:
        self.shape: tuple[int, ...] = x.shape
        self.dtype: Any = x.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)


class Primitive:
    """The rules of one op.

    - `fun(*args, *params)` computes it on plain arrays; `arity` counts `args` (None: any number).
    - `vjps[k]`, `jvps[k]`: the rules of argument k, None if it has no derivative. With `arity` None each is one function that
      takes k first.
    - `batch(size, batched, args, params)`: the result for arguments of which those flagged have a batch as axis 0; the result
      has it too.
    - `joint`: `vjps(g, ans, args, params)` gives the cotangents of all arguments at once, `jvps(ts, ans, args, params)` the tangent
      of the result for the tangents of all (None: zero).
    - `constant`: piecewise constant, or integer valued; no rules. `multi`: the result is a tuple.
    - `scatter(buffer, g, *params)`: adds the cotangent into a buffer in place, for ops that read a part of their argument.
    """

    __slots__ = ("arity", "batch", "constant", "fun", "joint", "jvps", "kind", "multi", "name", "op", "saves", "scatter", "vjps")

    def __init__(
        self,
        name: str,
        fun: Callable[..., Any],
        *,
        arity: int | None,
        batch: Any,
        vjps: Any = None,
        jvps: Any = None,
        constant: bool = False,
        multi: bool = False,
        joint: bool = False,
        scatter: Callable[..., Any] | None = None,
        params: bool = True,
    ) -> None:
        missing = ["batch"] if batch is None else []
        if not constant:
            missing += [which for which, rules in (("vjps", vjps), ("jvps", jvps)) if rules is None]
            if arity is not None and vjps is not None and jvps is not None and not len(vjps) == len(jvps) == arity:
                missing += [f"one rule for each of {arity} arguments"]
        if missing:
            raise MissingRuleError(
                f"primitive {name!r} leaves unsaid: {', '.join(missing)}. Declare it with a kind from functrace.ops.kinds."
            )
        self.name, self.fun, self.arity, self.batch = name, fun, arity, batch
        self.vjps, self.jvps, self.constant, self.multi, self.scatter = vjps, jvps, constant, multi, scatter
        self.joint = joint
        self.saves = saved(vjps, jvps, arity)
        self.kind = GENERAL if multi or constant else SCATTER if scatter else {1: UNARY, 2: BINARY}.get(arity or 0, GENERAL)
        self.op = _make_op(self, params)

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def pull(self, slots: Sequence[int], g: Any, ans: Any, args: tuple[Any, ...], params: tuple[Any, ...]) -> Sequence[Any]:
        """The cotangents of the arguments; None where there is none, or the argument is a constant."""
        if self.joint:
            return self.vjps(g, ans, args, params)  # type: ignore[no-any-return]
        if self.arity is None:
            return [self.vjps(k, g, ans, *args, *params) if i >= 0 else None for k, i in enumerate(slots)]
        return [rule(g, ans, *args, *params) if i >= 0 and rule else None for rule, i in zip(self.vjps, slots)]

    def push(self, ts: Sequence[Any], ans: Any, args: tuple[Any, ...], params: tuple[Any, ...]) -> list[Any]:
        """What the tangents of the arguments (None: zero) contribute, one by one, to the tangent of the result."""
        if self.joint:
            return [self.jvps(ts, ans, args, params)] if any(t is not None for t in ts) else []
        if self.arity is None:
            return [self.jvps(k, t, ans, *args, *params) for k, t in enumerate(ts) if t is not None]
        return [rule(t, ans, *args, *params) for rule, t in zip(self.jvps, ts) if t is not None and rule]

    def lean(self, args: tuple[Any, ...], ans: Any) -> tuple[tuple[Any, ...], Any]:
        """`args` and `ans` without the values that no rule looks into."""
        saves = self.saves
        if saves is None:
            return args, ans
        kept = tuple(a if keep or not hasattr(a, "shape") else Aval(a) for a, keep in zip(args, saves[1:]))
        return kept, ans if saves[0] else Aval(ans)


def saved(vjps: Any, jvps: Any, arity: int | None) -> tuple[bool, ...] | None:
    """Which of (ans, *args) the rules look into; None: all, or unknown."""
    if arity is None or vjps is None or jvps is None:
        return None
    keep = [False] * (arity + 1)
    for rule in (*vjps, *jvps):
        if rule is None:
            continue
        names = getattr(rule, "saves", None)
        if names is None:
            code = rule.__code__
            names = [not name.startswith("_") for name in code.co_varnames[1 : min(code.co_argcount, arity + 2)]]
            if code.co_flags & inspect.CO_VARARGS:
                rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
                names += [not rest.startswith("_")] * (arity + 1 - len(names))
        for k, looked_at in enumerate(names):
            keep[k] |= looked_at
    return tuple(keep)


def bind(primitive: Primitive, args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Apply a primitive: the newest trace among its arguments handles it; without tracers it is plain NumPy."""
    newest = None
    for a in args:
        if isinstance(a, Tracer) and (newest is None or a.owner.id > newest.owner.id):
            newest = a
    if newest is None:
        return primitive.fun(*args, *params)
    if newest.owner.closed:
        newest.owner.check_open(newest)
    return newest.owner.process(primitive, args, params)


def _make_op(primitive: Primitive, params: bool) -> Callable[..., Any]:
    """The function that users call. Three do what `bind` and `TapeTrace.process` do, for the common case, without a loop."""
    fun, lean, arity, saves = primitive.fun, primitive.lean, primitive.arity, primitive.saves
    keep_x, keep_y = (saves is None or saves[1], saves is None or saves[2]) if arity == 2 else (False, False)

    def unary(x: Any) -> Any:
        if type(x) is TapeTracer:
            trace, v = x.owner, x.value
            ans, args = fun(v), (v,)
            kept = ans
            if ans.size > LARGE:
                ans = recycled(ans)
                args, kept = lean(args, ans)
            slot = trace.next_slot()
            trace.append((primitive, slot, (x.slot,), args, kept, ()))
            frame = _getframe(1)
            return TapeTracer(ans, trace, slot, frame.f_code, frame.f_lasti)
        return bind(primitive, (x,), ()) if isinstance(x, Tracer) else fun(x)

    def unary_with_params(x: Any, *params: Any) -> Any:
        if type(x) is TapeTracer:
            trace, v = x.owner, x.value
            ans, args = op(v, *params) if isinstance(v, Tracer) else fun(v, *params), (v,)
            kept = ans
            if v.size > LARGE:
                kept = ans = recycled(ans)
                args, kept = lean(args, ans)
            slot = trace.next_slot()
            trace.append((primitive, slot, (x.slot,), args, kept, params))
            frame = _getframe(1)
            return TapeTracer(ans, trace, slot, frame.f_code, frame.f_lasti)
        return bind(primitive, (x,), params) if isinstance(x, Tracer) else fun(x, *params)

    def binary(x: Any, y: Any) -> Any:
        if type(x) is TapeTracer:
            trace, a = x.owner, x.value
            if type(y) is TapeTracer:
                if y.owner is not trace:
                    return bind(primitive, (x, y), ())
                b, slots = y.value, (x.slot, y.slot)
            elif isinstance(y, Tracer):
                return bind(primitive, (x, y), ())
            else:
                b, slots = trace.keep(y) if keep_y and type(y) is np.ndarray else y, (x.slot, -1)
        elif type(y) is TapeTracer and not isinstance(x, Tracer):
            trace, b, slots = y.owner, y.value, (-1, y.slot)
            a = trace.keep(x) if keep_x and type(x) is np.ndarray else x
        else:
            return bind(primitive, (x, y), ())
        ans, args = fun(a, b), (a, b)
        kept = ans
        if ans.size > LARGE:
            ans = recycled(ans)
            args, kept = lean(args, ans)
        slot = trace.next_slot()
        trace.append((primitive, slot, slots, args, kept, ()))
        frame = _getframe(1)
        return TapeTracer(ans, trace, slot, frame.f_code, frame.f_lasti)

    def general(*args: Any) -> Any:
        return bind(primitive, args[:arity], args[arity:])

    def variadic(*args: Any, params: tuple[Any, ...] = ()) -> Any:
        return bind(primitive, args, params)

    op: Callable[..., Any]
    if arity is None:
        op = variadic
    elif primitive.kind == UNARY and not params:
        op = unary
    elif primitive.kind in (UNARY, SCATTER):
        op = unary_with_params
    elif primitive.kind == BINARY and not params:
        op = binary
    else:
        op = general
    op.__name__ = op.__qualname__ = primitive.name
    return op
