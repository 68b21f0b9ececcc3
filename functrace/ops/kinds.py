"""Kinds of ops: a declaration states what is particular to an op, its kind derives all the rules.

elementwise   how each argument's change is scaled: both the tangent rule and the cotangent rule, the Jacobian being diagonal
linear        its transpose; the tangent rule is the op itself
bilinear      the transpose in each argument
general       a cotangent rule for each argument; the tangent rule is its transpose, or stated
constant      nothing: zero derivative by definition (comparisons, rounding, index functions)

Every kind says how it is batched. Rules are called as `rule(g, ans, *args, *params)`, see `functrace.core.primitive`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace import edge, errors
from functrace.core.forward import transpose
from functrace.core.primitive import Primitive, Rule, bind, looks_into
from functrace.core.tracer import TapeTracer, Tracer
from functrace.ops.fast import fast, raised
from functrace.ops.registry import Declared, Sample, declare, rules

Op = Callable[..., Any]
Domain = tuple[tuple[float, float], ...] | tuple[float, float]
_WIDE: tuple[float, float] = (-2.0, 2.0)
_ELEMENTWISE_SHAPES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((3,), (3,), (3,)),
    ((2, 3), (3,), (2, 1)),
    ((), (2,), (1,)),
    ((1,), (2, 1), ()),
    ((0,), (0,), (1,)),
)


def same(t: Any, *_rest: Any) -> Any:
    """The rule of an argument whose partial derivative is 1."""
    return t


def align(_size: int, flags: Sequence[bool], args: Sequence[Any]) -> Sequence[Any]:
    """The arguments, with axes of length 1 put in after the batch, so that examples broadcast as they would alone."""
    most = 0
    for a, b in zip(args, flags):
        n = len(getattr(a, "shape", ())) + (not b)  # as if all had the batch
        most = max(most, n)
    return [raised(a, most) if b and len(a.shape) < most else a for a, b in zip(args, flags)]


def spread_batch(size: int, flags: Sequence[bool], args: Sequence[Any]) -> list[Any]:
    """All arguments with the batch in front, those without it repeated (as views)."""
    return [a if b else np.broadcast_to(a, (size, *np.shape(a))) for a, b in zip(args, flags)]


def negative_axes(axis: Any, ndim: int) -> Any:
    """`axis` (None, int or tuple) counted from the end, so that a leading batch axis does not change its meaning."""
    if axis is None or not ndim and axis in (0, -1):
        return tuple(range(-ndim, 0))
    if isinstance(axis, tuple):
        return tuple(np.lib.array_utils.normalize_axis_index(a, ndim) - ndim for a in axis)
    return np.lib.array_utils.normalize_axis_index(axis, ndim) - ndim


def _batch_leading(op: Op, own: int, size: int, flags: Sequence[bool], args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """The batching rule of an op that takes leading axes, which broadcast, in front of `own` axes of its own."""
    if own and any(b and len(a.shape) <= own for a, b in zip(args, flags)):
        op(*(np.empty(a.shape[1:], a.dtype) if b else a for a, b in zip(args, flags)), *params)  # which says what is wrong
    return op(*align(size, flags, args), *params)


_MOVED: dict[str, Callable[..., tuple[Any, ...]]] = {  # the parameters of an op, where a batch axis is put in front: see `linear`
    "leading": lambda _ndim, *params: params,
    "axis": lambda _ndim, *params: (*params[:-1], params[-1] + 1),
    "axes": lambda ndim, axes, *params: (negative_axes(axes, ndim), *params),
}


def _batch_by_word(op: Op, word: str, args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """The batching rule of an op of one array that a word stands for: see `linear`."""
    return op(args[0], *_MOVED[word](len(args[0].shape) - 1, *params))


def _takes(name: str, rules: Sequence[Rule | None], arity: int) -> None:
    """Refuse a rule that takes too few arguments: a replay would not say whose rule it is."""
    for rule in filter(None, rules):
        if len(looks_into(rule, arity)) <= arity:
            args = ", ".join("xyzuvw"[:arity])
            raise errors.MissingRuleError(
                f"a rule of {name!r} takes {rule.__code__.co_argcount} arguments, and is given {arity + 2}.\n"
                f"  Write lambda t, ans, {args}: ... (and behind them the parameters, if the op has any)."
            )


def _ranges(domain: Domain, arity: int) -> Any:
    """The range of each argument."""
    return domain if isinstance(domain[0], tuple) else (domain,) * arity


def _drawn(ranges: Any, wrt: tuple[int, ...]) -> tuple[Sample, ...]:
    """Samples whose arguments are drawn from these ranges, in all ways of broadcasting."""
    draw: Any = lambda shapes: lambda rng: tuple(rng.uniform(lo, hi, size=s) for (lo, hi), s in zip(ranges, shapes))
    return tuple(Sample(draw(shapes), wrt=wrt) for shapes in _ELEMENTWISE_SHAPES)


@edge.boundary
def elementwise(
    name: str,
    numpy: Any,
    *maps: Rule | None,
    domain: Domain = _WIDE,
    jvps: tuple[Rule, ...] | None = None,
    samples: Sequence[Sample] = (),
    fun: Op | None = None,
    synonyms: tuple[Any, ...] = (),
    note: str = "",
    squared: Op | None = None,
) -> Op:
    """Declare an op that works element by element, with broadcasting, from `maps[k](t, ans, *args)`.

    A map scales a tangent of argument k, or a cotangent of the result, by the partial derivative. `jvps` is stated only where
    the two differ: ops that are not holomorphic. `domain` is where the sweep draws the arguments. `squared` is what the op of
    two arguments is where both are the same.
    """
    arity = len(maps)
    op = undeclared(name, fun or numpy, *maps, jvps=jvps, squared=squared)
    ranges = _ranges(domain, arity)
    drawn = _drawn(ranges, tuple(k for k, rule in enumerate(maps) if rule is not None))
    declare(Declared(name, op, (numpy, *synonyms), (*drawn, *samples), domain=ranges, primitive=rules(op), note=note))
    return op


def undeclared(name: str, fun: Op, *maps: Rule | None, jvps: tuple[Rule, ...] | None = None, squared: Op | None = None) -> Op:
    """An elementwise op for use in rules, not for users: it has all the rules, but no name in `functrace.numpy`."""
    _takes(name, (*maps, *(jvps or ())), len(maps))
    batch: Any = lambda *call: _batch_leading(primitive.op, 0, *call)
    primitive: Primitive = Primitive(name, fun, arity=len(maps), vjps=maps, jvps=jvps or maps, batch=batch, elementwise=True)
    return fast(primitive, params=False, elementwise=True, squared=rules(squared) if squared else None)


@edge.boundary
def constant(
    name: str,
    numpy: Any,
    arity: int | None = 1,
    *,
    samples: Sequence[Sample] = (),
    batch: Any = None,
    domain: Domain = _WIDE,
    fun: Op | None = None,
    synonyms: tuple[Any, ...] = (),
) -> Op:
    """Declare an op without a derivative: elementwise, unless it states its `batch`."""
    batch = batch or (lambda *call: _batch_leading(primitive.op, 0, *call))
    primitive: Primitive = Primitive(name, fun or numpy, arity=arity, constant=True, batch=batch)
    primitive.op = quick(primitive)
    if not samples and arity is not None:
        samples = _drawn(_ranges(domain, arity), tuple(range(arity)))
    declare(Declared(name, primitive.op, (numpy, *synonyms), tuple(samples), constant=True, primitive=primitive))
    return primitive.op


def undeclared_constant(name: str, fun: Op, batch: str = "leading") -> Op:
    """An op of one array without a derivative, for use in rules, not for users; `batch` as in `linear`."""
    rule: Any = lambda _size, _flags, args, params: _batch_by_word(op, batch, args, params)
    primitive = Primitive(name, fun, arity=1, constant=True, batch=rule)
    whole = quick(primitive)

    def op(x: Any, *params: Any) -> Any:
        return whole(x, params=params)

    op.primitive = primitive  # type: ignore[attr-defined]
    return op


def quick(primitive: Primitive) -> Op:
    """The op of a primitive without a derivative, which on tapes that nothing else traces only computes, without `bind`."""
    fun = primitive.fun

    def op(*args: Any, params: tuple[Any, ...] = ()) -> Any:
        values = [x.below if type(x) is TapeTracer and not x.owner.closed else x for x in args]
        for x in values:
            if isinstance(x, Tracer):
                return bind(primitive, args, params)
        return fun(*values, *params)

    op.primitive = primitive  # type: ignore[attr-defined]
    return op


stopped = undeclared_constant("stop_gradient", lambda x: x)


@edge.boundary
def linear(name: str, fun: Op, transpose: Rule, *, batch: Callable[..., Any] | str, inplace: tuple[Op, Op] | None = None) -> Op:
    """A linear op of one array: `transpose(g, ans, x, *params)`; `batch(size, x, *params)` with the batch as axis 0 of x.

    `batch` is a word where the op itself does it: "leading" if such an axis changes nothing; "axis" if but for the last parameter, an axis
    that is not negative; "axes" if but for the first, the axes of a reduction.
    """
    _takes(name, (transpose,), 1)

    def jvp(t: Any, _ans: Any, _x: Any, *params: Any) -> Any:
        return primitive.op(t, *params)

    def rule(size: int, _flags: Sequence[bool], args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        return _batch_by_word(primitive.op, batch, args, params) if isinstance(batch, str) else batch(size, args[0], *params)

    primitive = Primitive(name, fun, arity=1, vjps=(transpose,), jvps=(jvp,), inplace=inplace, batch=rule, linear=True)
    return fast(primitive, params=True)


@edge.boundary
def bilinear(
    name: str, fun: Op, *transposes: Rule, batch: Callable[..., Any], params: bool = False, inplace: tuple[Op, Op] | None = None
) -> Op:
    """An op linear in each of two arrays: the transpose in each; `batch(size, flags, args, params)`."""
    _takes(name, transposes, 2)

    def first(t: Any, _ans: Any, _x: Any, y: Any, *params: Any) -> Any:
        return primitive.op(t, y, *params)

    def second(t: Any, _ans: Any, x: Any, _y: Any, *params: Any) -> Any:
        return primitive.op(x, t, *params)

    primitive = Primitive(name, fun, arity=2, vjps=transposes, jvps=(first, second), batch=batch, inplace=inplace, linear="each")
    return fast(primitive, params)


def batch_by_loop(primitive: Primitive, size: int, flags: Sequence[bool], args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """The batching rule for any primitive: one example after another, stacked. Always right, never fast."""
    if not size:  # an example tells shapes and dtypes
        args = tuple(np.zeros((1, *a.shape[1:]), a.dtype) if b else a for a, b in zip(args, flags))
    rows = [bind(primitive, tuple(a[k] if b else a for a, b in zip(args, flags)), params) for k in range(max(size, 1))]
    try:
        stacks = [np.stack(column) for column in (zip(*rows) if primitive.multi else [rows])]
    except ValueError:
        raise IndexError("the shape of the result differs between the examples") from None  # for which the batch is split
    stacks = stacks if size else [x[:0] for x in stacks]
    return tuple(stacks) if primitive.multi else stacks[0]


def jvp_from_vjp(vjp: Callable[..., Any]) -> Callable[..., Any]:
    """The tangent rule that belongs to a cotangent rule, both called as `rule(g or t, ans, *args, *params)`."""

    def jvp(t: Any, ans: Any, *rest: Any) -> Any:
        if isinstance(ans, tuple):
            return transpose(lambda *g: [vjp(g, ans, *rest)], [np.zeros(y.shape, y.dtype) for y in ans], [t])
        return transpose(lambda g: [vjp(g, ans, *rest)], [np.zeros(ans.shape, ans.dtype)], [t])[0]

    return jvp


def _transposed(rule: Rule | None, arity: int) -> Rule | None:
    if rule is None:
        return None
    jvp = jvp_from_vjp(rule)
    jvp.saves = looks_into(rule, arity)  # type: ignore[attr-defined]
    return jvp


@edge.boundary
def general(
    name: str,
    fun: Op,
    *vjps: Rule | None,
    jvps: tuple[Rule | None, ...] | None = None,
    batch: Callable[..., Any] | str | None = None,
    stacks: int | None = None,
    multi: bool = False,
    linear: bool = False,
) -> Op:
    """An op with a cotangent rule for each argument, called as `vjps[k](g, ans, *args, *params)`.

    Where `multi`, g and ans are tuples, and g holds None for results without a cotangent. Without `jvps` the tangent rules
    are the transposes of the cotangent rules; without `batch` (a word is as in `linear`) the examples are taken one by one, unless the op
    `stacks`, that is takes leading axes, which broadcast, in front of so many of its own. `linear`: in all together.
    """
    _takes(name, (*vjps, *(jvps or ())), len(vjps))

    def rule(*call: Any) -> Any:
        if isinstance(batch, str):
            return _batch_by_word(primitive.op, batch, *call[2:])
        return batch_by_loop(primitive, *call) if stacks is None else _batch_leading(primitive.op, stacks, *call)

    primitive = Primitive(
        name,
        fun,
        arity=len(vjps),
        vjps=vjps,
        jvps=jvps or tuple(_transposed(rule, len(vjps)) for rule in vjps),
        batch=batch if callable(batch) else rule,
        multi=multi,
        linear=linear,
    )
    return fast(primitive, params=True)
