"""Chapter 2. Primitives: the rules of one op in one record, and `bind`, the one door through which an op is applied.

Rules are written in NumPy. Because tracers answer NumPy's functions and operators, a rule that runs on tracers is itself
traced, and so every derivative can be differentiated again, batched, or recorded.

A rule for argument k is called as `rule(g, ans, *args, *params)`: `g` is the cotangent of the result (in `vjps`) or the
tangent of argument k (in `jvps`). An argument of a rule whose name begins with an underscore says that the rule looks at most
at its shape and dtype; large values that no rule looks at are not kept on the tape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrace.core.tracer import Tracer
from functrace.errors import MissingRuleError

GENERAL, UNARY, BINARY, ITEM, INPLACE = range(5)
_VARARGS = 0x04  # inspect.CO_VARARGS, without the time that importing inspect takes
LARGE, LINEAR = 1 << 12, 1 << 8  # elements beyond which the tape drops what no rule needs, of any op and of one that is linear

Rule = Callable[..., Any]


class Aval:
    """What the tape keeps of a large value that no rule looks into: its shape and dtype, and how it lies in memory."""

    __slots__ = ("dtype", "shape", "strides")

    def __init__(self, x: Any) -> None:
        self.shape: tuple[int, ...] = x.shape
        self.strides = getattr(x, "strides", None)
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
    - `inplace`: for ops that read or write a part of their argument, how the two replays do so in buffers of their own:
      `(pull(cts, mine, g, entry, inputs), push(ts, mine, entry))`, true if done. `mine` are the slots whose array nobody else can
      see, `inputs` how many slots are of the tape's inputs.
    - `linear`: in all its floating arguments together, or in "each". `elementwise`: each element of the result depends on one of each.
    """

    __slots__ = tuple("arity batch constant elementwise fun inplace joint jvps kind linear looks multi name needs op vjps".split())

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
        inplace: Any = None,
        linear: bool | str = False,
        elementwise: bool = False,
    ) -> None:
        missing = [which for which, x in (("fun", fun), ("batch", batch)) if x is None]
        if not constant:
            missing += [which for which, rules in (("vjps", vjps), ("jvps", jvps)) if rules is None]
            if arity is not None and vjps is not None and jvps is not None and not len(vjps) == len(jvps) == arity:
                missing += [f"one rule for each of {arity} arguments"]
        if missing:
            raise MissingRuleError(
                f"primitive {name!r} leaves unsaid: {', '.join(missing)}. Declare it with a kind from functrace.ops.kinds."
            )
        self.name, self.fun, self.arity, self.batch = name, fun, arity, batch
        self.vjps, self.jvps, self.constant, self.multi = vjps, jvps, constant, multi
        self.inplace, self.joint, self.linear, self.elementwise = inplace, joint, linear, elementwise
        self.looks = _looks((vjps,), (jvps,), 1) if joint else _looks(vjps, jvps, arity)  # a joint rule takes all arguments as one
        self.needs: dict[tuple[bool, ...], tuple[bool, ...]] = {}
        self.kind = GENERAL if multi or constant else INPLACE if inplace else {1: UNARY, 2: BINARY}.get(arity or 0, GENERAL)
        self.op = _op(self)

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

    def needed(self, slots: tuple[int, ...]) -> tuple[bool, ...]:
        """Which of (ans, *args) a rule of a recorded argument looks into."""
        if self.looks is None or self.joint:
            ans, each = self.looks[0] if self.looks else (not self.constant,) * 2
            return (ans, *[each] * len(slots))
        recorded = tuple([i >= 0 for i in slots])
        if recorded not in self.needs:
            self.needs[recorded] = tuple(map(any, zip(*(row for row, mine in zip(self.looks, recorded) if mine))))
        return self.needs[recorded]


def lean(needed: tuple[bool, ...], args: tuple[Any, ...], ans: Any) -> tuple[tuple[Any, ...], Any]:
    """`args` and `ans` without the values that, by `needed`, no rule will look into."""
    if False not in needed:
        return args, ans
    kept = tuple([a if keep or not hasattr(a, "shape") else Aval(a) for a, keep in zip(args, needed[1:])])
    return kept, ans if needed[0] else Aval(ans)


def looks_into(rule: Rule | None, arity: int) -> list[bool]:
    """Which of (ans, *args) a rule looks into: those whose names do not begin with an underscore."""
    if rule is None:
        return [False] * (arity + 1)
    stated = getattr(rule, "saves", None)
    if stated is not None:
        return [*stated, *[False] * (arity + 1 - len(stated))]
    code = rule.__code__
    names = [not name.startswith("_") for name in code.co_varnames[1 : min(code.co_argcount, arity + 2)]]
    if code.co_flags & _VARARGS:
        rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
        names += [not rest.startswith("_")] * (arity + 1 - len(names))
    return names


def _looks(vjps: Any, jvps: Any, arity: int | None) -> tuple[tuple[bool, ...], ...] | None:
    """For each argument, which of (ans, *args) its rules look into; None: all, or there are no rules."""
    if arity is None or vjps is None:
        return None
    return tuple(tuple(a or b for a, b in zip(looks_into(v, arity), looks_into(j, arity))) for v, j in zip(vjps, jvps))


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


def _op(primitive: Primitive) -> Callable[..., Any]:
    """The function that users call: arguments and parameters by position; for any number of arguments, `params=` apart."""
    arity = primitive.arity

    def fixed(*args: Any) -> Any:
        return bind(primitive, args[:arity], args[arity:])

    def variadic(*args: Any, params: tuple[Any, ...] = ()) -> Any:
        return bind(primitive, args, params)

    op: Callable[..., Any] = variadic if arity is None else fixed
    op.primitive = primitive  # type: ignore[attr-defined]
    return op
