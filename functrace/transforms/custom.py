"""Rules by hand: `custom_vjp` and `custom_jvp`.

Each puts a whole function on the tape as one entry. The other mode is the transpose of the rule given, so a `custom_vjp`
works under `jvp`, and a `custom_jvp` under `grad`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from functrace import errors, tree
from functrace.core.batch import BatchTrace
from functrace.core.primitive import Primitive
from functrace.core.tracer import Tracer, bare
from functrace.ops.blank import apart, blank, plain
from functrace.ops.create import as_numpy
from functrace.transforms.arguments import by_position, label, listed, name_of, or_zeros, refuse_tensors, zeros_like
from functrace.transforms.batching import ByLeaf, vmap
from functrace.transforms.control_program import Recorder, example, number, reading, same
from functrace.transforms.masks import ruled, transposed, unlike
from functrace.transforms.tracing import ProgramTrace, replaced
from functrace.transforms.wrapped import Wrapped

P = ParamSpec("P")
R = TypeVar("R")


def _newest(leaves: Sequence[Any]) -> Any:
    return max((x.owner for x in leaves if isinstance(x, Tracer)), key=lambda owner: owner.id, default=None)


def _lend(x: Any) -> Any:
    """A value for a function of the user's, that belongs to a tape or a replay: an array read-only, a traced one as a handle of its own."""
    if isinstance(x, np.ndarray):
        x = x.view()
        x.flags.writeable = False
    return apart(x)


def _kept(trace: Any, x: Any) -> Any:
    """An array that a function of the user's made, which may use it again."""
    return trace.constant(x, True) if isinstance(x, np.ndarray) and x.dtype.kind in "biufc" else x


def _unwritten(what: str, function: Any, f: Any) -> Any:
    """`f`, with an error if it writes to an argument, traced or lent: whoever holds it would see that in some transforms, not in others."""

    def run(*args: Any) -> Any:
        before = [(x, x.below, x.slot) for x in tree.leaves(args) if isinstance(x, Tracer)]
        try:
            out, refused = f(*args), None
        except ValueError as error:
            if "read-only" not in str(error) or all(x.flags.writeable for x in tree.leaves(args) if isinstance(x, np.ndarray)):
                raise
            refused = error
        if refused or any(x.below is not value or x.slot != slot for x, value, slot in before):
            given = "buffer source" in str(refused)  # what Cython says of an array that it can't write to, though it may not want to
            raise errors.CustomRuleError(
                f"{what} {name_of(function)!r} {'gives compiled code' if given else 'writes to'} its argument, which the caller still has"
                f"{' and which is read-only' * given}.\n  {'Give it' if given else 'Write to'} a copy: x = x.copy()."
            ) from refused
        return out

    run.__name__ = name_of(function)
    return run


LATER = object()  # residuals that nothing has asked for yet


def is_float(x: Any) -> bool:
    """Whether `x` is an array or scalar of floats or complex numbers."""
    return hasattr(type(x), "dtype") and x.dtype.kind in "fc"


def floats(xs: Sequence[Any]) -> list[int]:
    """The places of those."""
    return [k for k, x in enumerate(xs) if is_float(x)]


class Body(NamedTuple):
    """A part of a loop or a branch, as it is shown: a recorded program, with names for its inputs and outputs."""

    title: str
    program: Any
    inputs: list[str]
    outputs: list[str]


class Call:
    """A function call as one entry of a tape: subclasses say how to run it, and its two rules, on flat lists of leaves."""

    what = "function"
    lends = False  # whether a function of the user's sees the values
    by_hand = False  # whether its rules are the user's
    takes, needed_by = "", ""  # what those are given, and who needs their transpose
    told_by: tuple[str, ...] = ("read",)  # the attributes in which two recordings of it may differ

    def __init__(self, function: Any, treedef: Any, f: Any = None) -> None:
        self.function, self.f = function, f and _unwritten(self.what, function, f)
        self.treedef = treedef  # of the arguments, a tuple
        self.outdef: Any = None
        self.read: Any = None  # what the user's functions read when it was recorded as a part of a body

    def __call__(self, leaves: Sequence[Any]) -> Any:
        if self.by_hand:
            refuse_tensors(self, leaves, "Write its rule as a torch.autograd.Function.")
        given, leaves = leaves, [*map(plain, leaves)]
        trace = _newest(leaves)
        if trace is None:
            out = self.plain(leaves)
            return tree.map(blank, out) if _newest(given) else out
        for x in leaves:
            if isinstance(x, Tracer):
                x.owner.check_open(x)
        mine = [isinstance(x, Tracer) and x.owner is trace for x in leaves]
        if isinstance(trace, BatchTrace):
            out = self.batched(trace.size, [x.below if m else x for x, m in zip(leaves, mine)], mine)
            return tree.map(lambda y: trace.tracer(self._outer(y, trace)), out)
        values = [x.below if m else trace.constant(x, True) if isinstance(x, (np.ndarray, Tracer)) else x for x, m in zip(leaves, mine)]
        shown = [*map(_lend, values)] if self.lends else values
        records = isinstance(trace, ProgramTrace)  # which differentiates nothing
        if records:
            out, residuals = self.sample([*map(example, shown)]) if isinstance(trace, Recorder) else self(shown), LATER
            if self.lends and isinstance(trace, Recorder):
                self.read = reading(self)  # now: a table that it fills when it is first run is no change
        else:
            out, residuals = self.forward(shown, mine)
        ys, self.outdef = tree.flatten(tree.map(lambda y: self._outer(y, trace), out))
        refuse_tensors(self, ys, "Return x.numpy().")
        if self.lends:  # and may be given them back, or a part of them
            lenders = {id(v): x for v, x in zip(shown, values)}
            ys = [lenders.get(id(y), y) for y in ys]
            ys = [np.array(y) if isinstance(y, np.ndarray) and not y.flags.writeable else y for y in ys]
            if not records:
                safe = {*map(id, values)}
                ys = [_kept(trace, y) if is_float(y) and id(y) not in safe else y for y in ys]
                if self.by_hand and residuals is not None:
                    residuals = tree.map(lambda r: lenders[id(r)] if id(r) in lenders else _kept(trace, r), residuals)
        ys = [as_numpy(plain(y)) for y in ys]
        slots = tuple(x.slot if m else -1 for x, m in zip(leaves, mine))
        outs = trace.record(CALL, slots, tuple(values), tuple(ys), (self, residuals))
        return tree.unflatten(self.outdef, [o if records or is_float(y) else y for o, y in zip(outs, ys)])

    def sample(self, leaves: Sequence[Any]) -> Any:
        """The result for an example, or what is like it: all that a recording of a body needs."""
        return self(leaves)

    def _outer(self, y: Any, trace: Any) -> Any:
        if isinstance(y, Tracer) and y.owner.id >= trace.id:
            raise errors.CustomRuleError(
                f"{self.what} {name_of(self.function)!r} closes over a traced value ({errors.describe(y)} depends on it), which its "
                f"rule can't differentiate.\n  Pass it as an argument, and not one of nondiff_argnums."
            )
        return y

    def __repr__(self) -> str:
        return f"{self.what} {name_of(self.function)}"

    def bodies(self) -> list[Body]:
        """What it runs again and again, or chooses from, to be shown."""
        return []

    def alike(self, other: Call) -> bool:
        """Whether two recordings of one program made the same call."""
        return all(same(getattr(self, name), getattr(other, name)) for name in self.told_by)

    def args(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments again, as the user's trees."""
        return tree.unflatten(self.treedef, leaves)  # type: ignore[no-any-return]

    def plain(self, leaves: Sequence[Any]) -> Any:
        """The result where nothing is differentiated."""
        return self.f(*self.args(leaves))

    def forward(self, leaves: Sequence[Any], mine: Sequence[bool]) -> tuple[Any, Any]:
        """The result, and what the rules need, to differentiate with respect to those leaves that are `mine`: nothing, unless stated."""
        return copy.copy(self)(leaves), None

    def residuals(self, given: Any, leaves: Sequence[Any]) -> Any:
        """What the rules need: computed now if the call was recorded by a run that differentiates nothing."""
        if given is not LATER:
            return given
        if self.read is not None and not same(self.read, reading(self)):
            raise errors.MutatedError(
                f"{self!r}, in the body of a loop or branch, reads something that has changed since. Its derivative runs it once more.\n"
                f"  At {errors.user_line()}.\n  Pass it as an argument."
            )
        out, needed = self.forward(leaves, [is_float(x) for x in leaves])
        self.outdef = tree.structure(out)
        return needed

    def pull(self, residuals: Any, leaves: Sequence[Any], ans: Sequence[Any], gs: Sequence[Any]) -> list[Any]:
        """`reverse`, where a cotangent may be None."""
        return self.reverse(residuals, leaves, [or_zeros(g, y) for g, y in zip(gs, ans)])

    def reverse(self, residuals: Any, leaves: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """Cotangents of the leaves of the arguments."""
        raise NotImplementedError

    def tangent(self, residuals: Any, leaves: Sequence[Any], ans: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        """Tangents of the leaves of the result: unless stated, the transpose of `reverse`."""
        moving = [k for k, t in enumerate(ts) if t is not None]

        def linear(*cts: Any) -> list[Any]:
            back = self.reverse(residuals, leaves, cts)
            return [or_zeros(back[k], leaves[k]) for k in moving]

        return self.transposed(linear, ans, [ts[k] for k in moving])

    def transposed(self, linear: Callable[..., Sequence[Any]], likes: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """The transpose of a rule, which is recorded at zeros; one by hand elsewhere, since it may ask whether what it gets is zero."""
        if not self.by_hand:
            return transposed(linear, [np.zeros(x.shape, x.dtype) for x in likes], given)

        def checked(*xs: Any) -> Sequence[Any]:
            out = linear(*xs)
            for y in out:
                if not (isinstance(y, Tracer) and y.owner is xs[0].owner) and np.any(bare(y)):
                    raise errors.CustomRuleError(
                        f"{self.what} {name_of(self.function)!r}: the rule returns numbers that do not depend on the {self.takes} that it "
                        f"is given, so its transpose, which {self.needed_by}, would be zero.\n"
                        "  A rule must be linear in what it is given: leave functrace.value and stop_gradient out of it."
                    )
            return out

        return transposed(checked, [*map(unlike, likes)], given)

    def batched(self, size: int, leaves: Sequence[Any], flags: Sequence[bool]) -> Any:
        """The result for a batch, from a call of the same kind whose function and rules are mapped."""
        numeric = [hasattr(type(x), "dtype") and number(x) is None for x in leaves]  # Python's stay as they are
        values = [np.broadcast_to(x, (size, *np.shape(x))) if n and not b else x for x, b, n in zip(leaves, flags, numeric)]
        return self.mapped(ByLeaf(0 if n else None for n in numeric))(values)

    def mapped(self, axes: ByLeaf) -> Call:
        """The same call for a batch, each argument having it as axis 0 or, where `axes` says None, not at all."""
        raise NotImplementedError


def _ruled(rule: Callable[..., list[Any]], given: Sequence[Any], ans: Any, args: Any, params: Any, likes: Sequence[Any] = ()) -> list[Any]:
    """The results of a call's rule, given cotangents of `likes`, or tangents. Of ours they keep the masks of a masked replay."""
    call, residuals = params
    run: Any = lambda gs: rule(call.residuals(residuals, args), args, ans, gs)
    return ruled(run, given, likes, call.by_hand)


def _pulled(given: Sequence[Any], ans: Sequence[Any], args: Sequence[Any], params: Any) -> list[Any]:
    """Cotangents of the arguments; what comes back to a whole number is none."""
    given = [g if y.dtype.kind in "fc" else None for g, y in zip(given, ans)]
    moved = any(g is not None for g in given)
    return _ruled(params[0].pull, given, ans, args, params, ans) if moved else [None] * len(args)


CALL = Primitive(  # params: the call, and its residuals
    "call",
    lambda *args: tuple(map(as_numpy, tree.leaves(args[-2].plain(args[:-2])))),
    arity=None,
    vjps=_pulled,
    jvps=lambda ts, ans, args, params: _ruled(params[0].tangent, ts, ans, args, params),
    batch=lambda size, flags, args, params: tuple(tree.leaves(params[0].batched(size, args, flags))),
    multi=True,
    joint=True,
)


class _Custom(Wrapped[P, R]):
    def __init__(self, fun: Callable[P, R], nondiff_argnums: Sequence[int] = ()) -> None:
        errors.check_call(f"{type(self).__name__}(f)", fun)
        super().__init__(fun)
        self.nondiff_argnums = listed(type(self).__name__, fun, "nondiff_argnums", nondiff_argnums, int)

    def _split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Callable[..., tuple[Any, ...]], list[Any], tuple[Any, ...]]:
        args = by_position(self.fun, args, kwargs)
        if wrong := [k for k in self.nondiff_argnums if not -len(args) <= k < len(args)]:
            raise errors.CustomRuleError(f"{name_of(self.fun)}: nondiff_argnums names argument {wrong[0]}, but the call has {len(args)}.")
        fixed = {k % len(args): args[k] for k in self.nondiff_argnums}
        moving = tuple(x for k, x in enumerate(args) if k not in fixed)

        def merge(*rest: Any) -> tuple[Any, ...]:
            left = iter(rest)
            return tuple(fixed[k] if k in fixed else next(left) for k in range(len(args)))

        return merge, [fixed[k] for k in sorted(fixed)], moving

    def __repr__(self) -> str:
        return f"<{type(self).__name__}({name_of(self.fun)})>"


class custom_vjp(_Custom[P, R]):
    """A function whose reverse rule is given by hand: JAX's `custom_vjp`, that works under `jvp` too.

    `f.defvjp(fwd, bwd)`: `fwd` takes `f`'s arguments and returns `(out, residuals)`; `bwd(residuals, ct)` returns a tuple with a
    cotangent for each argument, None for zero. Arguments listed in `nondiff_argnums` are passed to `bwd` in front. In forward
    mode the tangent is the transpose of `bwd`.

    Raises:
        CustomRuleError: no rule was given; a rule returns the wrong number, shape or dtype; the function closes over a traced value.

    >>> import functrace as ft, numpy as np
    >>> @ft.custom_vjp
    ... def clip_gradient(x):
    ...     return x
    >>> clip_gradient.defvjp(lambda x: (x, None), lambda _, g: (np.clip(g, -1, 1),))
    >>> ft.grad(lambda x: 5 * clip_gradient(x))(2.0)
    np.float64(1.0)
    """

    @errors.boundary
    def __init__(self, fun: Callable[P, R], nondiff_argnums: Sequence[int] = ()) -> None:
        super().__init__(fun, nondiff_argnums)
        self.fwd: Any = None
        self.bwd: Any = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """State the rule."""
        self.fwd, self.bwd = fwd, bwd

    @errors.boundary
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.fwd is None:
            raise errors.CustomRuleError(f"custom_vjp {name_of(self.fun)!r} has no rule.\n  Call its defvjp(fwd, bwd) first.")
        merge, fixed, moving = self._split(args, kwargs)
        leaves, treedef = tree.flatten(moving)
        f: Any = self.fun
        fwd, bwd = self.fwd, self.bwd
        numbers = [k % (len(moving) + len(fixed)) for k in self.nondiff_argnums]
        call = _VjpCall(f, treedef, lambda *xs: f(*merge(*xs)), lambda *xs: fwd(*merge(*xs)), lambda *r: bwd(*fixed, *r), numbers)
        return call(leaves)  # type: ignore[no-any-return]


class _VjpCall(Call):
    what, lends, by_hand = "custom_vjp", True, True
    takes, needed_by = "cotangent", "forward mode needs (jvp, hessian; jacrev(grad(f)) does without)"

    def __init__(self, function: Any, treedef: Any, f: Any, fwd: Any, bwd: Any, fixed: Sequence[int]) -> None:
        super().__init__(function, treedef, f)
        self.fwd, self.bwd, self.fixed = fwd, bwd, fixed  # the numbers of arguments that have no cotangent

    def forward(self, leaves: Sequence[Any], mine: Sequence[bool]) -> tuple[Any, Any]:
        result = self._rule("fwd(*args)", self.fwd, *self.args(leaves))
        if not (isinstance(result, tuple) and len(result) == 2):
            name, got = name_of(self.function), errors.describe(result)
            raise errors.CustomRuleError(f"custom_vjp {name!r}: fwd must return (out, residuals), got {got}.\n  Residuals may be None.")
        return result

    def _rule(self, call: str, rule: Callable[..., Any], *args: Any) -> Any:
        try:
            return rule(*args)
        except Exception as error:
            name, traced = name_of(self.function), any(isinstance(x, Tracer) for x in tree.leaves(args))
            plain = isinstance(error, errors.ConversionError) and rule is self.fwd and traced
            advice = f" Let it call {name} itself, which runs on plain values, and whose rule then counts." * plain
            errors.note(error, f"In the rule of custom_vjp {name!r}, which is called as {call}.{advice}")
            raise

    def reverse(self, residuals: Any, leaves: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        name = name_of(self.function)
        args = self.args(leaves)
        cotangent = tree.unflatten(self.outdef, [*map(_lend, cts)])
        back = self._rule("bwd(residuals, cotangent)", self.bwd, tree.map(_lend, residuals), cotangent)
        if not isinstance(back, (tuple, list)) or len(back) != len(args):
            got = f"{len(back)} of them" if isinstance(back, (tuple, list)) else errors.describe(back)
            count, wanted = len(args), ", ".join(f"g{k}" for k in range(len(args)))
            raise errors.CustomRuleError(
                f"custom_vjp {name!r}: bwd must return a tuple of {count} cotangent{'s' * (count > 1)}, one for each argument, got {got}.\n"
                f"  Return ({wanted}{',' * (count == 1)}); None is zero."
            )
        out: list[Any] = []
        places = [k for k in range(len(args) + len(self.fixed)) if k not in self.fixed]
        for k, (arg, g) in enumerate(zip(args, back)):
            likes, treedef = tree.flatten(arg)
            gs, structure = ([None] * len(likes), treedef) if g is None else tree.flatten(g)
            if structure != treedef:
                raise errors.CustomRuleError(f"custom_vjp {name!r}: bwd's cotangent {k} has {structure!r}, the argument {treedef!r}.")
            out.extend(self._checked(name, places[k], a, x) for a, x in zip(gs, likes))
        return out

    def _checked(self, name: str, k: int, g: Any, x: Any) -> Any:
        if g is None or not is_float(x):
            return None
        g = g if hasattr(g, "dtype") else np.asarray(g)
        if g.shape != x.shape or not np.can_cast(g.dtype, x.dtype, "same_kind"):
            raise errors.CustomRuleError(
                f"custom_vjp {name!r}: bwd returned {errors.describe(g)} for {label(self.function, k)}, which is {errors.describe(x)}.\n"
                "  A cotangent has the shape and dtype of its argument: "
                f"{'np.broadcast_to(g, x.shape)' if g.shape != x.shape else 'np.real(g)'}. None is zero."
            )
        # A copy: the rule may hand out its residuals or its own argument, which the replay must not write to.
        return np.array(g) if type(g) is np.ndarray else g

    def mapped(self, axes: ByLeaf) -> Call:
        return _VjpCall(self.function, self.treedef, vmap(self.f, axes), vmap(self.fwd, axes), vmap(self.bwd), self.fixed)


class custom_jvp(_Custom[P, R]):
    """A function whose forward rule is given by hand: JAX's `custom_jvp`. In reverse mode its transpose is used.

    `@f.defjvp` on a function `rule(primals, tangents)` that returns `(out, tangent_out)`; the tangent must be linear in `tangents`.

    >>> import functrace as ft, numpy as np
    >>> @ft.custom_jvp
    ... def log1pexp(x):
    ...     return np.log1p(np.exp(x))
    >>> @log1pexp.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), t / (1 + np.exp(-x))
    >>> ft.grad(log1pexp)(0.0)
    np.float64(0.5)
    """

    @errors.boundary
    def __init__(self, fun: Callable[P, R], nondiff_argnums: Sequence[int] = ()) -> None:
        super().__init__(fun, nondiff_argnums)
        self.jvp: Any = None

    def defjvp(self, jvp: Callable[..., Any]) -> Callable[..., Any]:
        """State the rule; returns it, so that it can be used as a decorator."""
        self.jvp = jvp
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """State the rule argument by argument: `jvp(t, ans, *primals)` is what the tangent `t` of an argument adds; None adds nothing.

        >>> import functrace as ft, numpy as np
        >>> @ft.custom_jvp
        ... def power(x, n):
        ...     return x**n
        >>> power.defjvps(lambda t, ans, x, n: t * n * x ** (n - 1), None)
        >>> ft.grad(power, (0, 1))(3.0, 2.0)
        (np.float64(6.0), np.float64(0.0))
        """
        f: Any = self

        def rule(*given: Any) -> tuple[Any, Any]:
            primals, tangents = given[-2:]
            if len(jvps) != len(primals) or len(given) > 2:
                raise errors.CustomRuleError(
                    f"custom_jvp {name_of(self.fun)!r}: defjvps takes a rule, or None, for each of the {len(primals)} arguments, and got "
                    f"{len(jvps)}; with nondiff_argnums use defjvp."
                )
            ans = f(*primals)
            parts = [jvp(t, ans, *primals) for jvp, t in zip(jvps, tangents) if jvp is not None]
            return ans, tree.map(lambda *ts: sum(ts[1:], ts[0]), *parts) if parts else tree.map(zeros_like, ans)

        self.jvp = rule

    @errors.boundary
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.jvp is None:
            raise errors.CustomRuleError(f"custom_jvp {name_of(self.fun)!r} has no rule.\n  Decorate one with its defjvp first.")
        merge, fixed, moving = self._split(args, kwargs)
        leaves, treedef = tree.flatten(moving)
        f: Any = self.fun
        return _JvpCall(f, treedef, lambda *xs: f(*merge(*xs)), lambda *r: self.jvp(*fixed, *r))(leaves)  # type: ignore[no-any-return]


class _JvpCall(Call):
    what, lends, by_hand = "custom_jvp", True, True
    takes, needed_by = "tangents", "reverse mode needs (vjp, grad)"

    def __init__(self, function: Any, treedef: Any, f: Any, rule: Any) -> None:
        super().__init__(function, treedef, f)
        self.rule = rule

    def tangent(self, residuals: Any, leaves: Sequence[Any], ans: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        full = [or_zeros(t, x) if is_float(x) else 0.0 if isinstance(x, (int, float, complex)) else t for t, x in zip(ts, leaves)]
        result = self.rule(self.args([*map(_lend, leaves)]), self.args([*map(_lend, full)]))
        name = name_of(self.function)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise errors.CustomRuleError(
                f"custom_jvp {name!r}: the rule must return (out, tangent_out), got {errors.describe(result)}.\n"
                "  Write return f(x), t_out, the value and the tangent of f at the primals."
            )
        pushed, structure = tree.flatten(result[1])
        pushed = [t if hasattr(t, "dtype") else np.asarray(t)[()] for t in pushed]
        fits = [t.shape == y.shape and (not is_float(y) or np.can_cast(t.dtype, y.dtype, "same_kind")) for t, y in zip(pushed, ans)]
        if structure != self.outdef or not all(fits):
            both = (pushed, structure), (ans, self.outdef)
            found, wanted = (", ".join(map(errors.describe, xs)) + f" in {s!r}" * (structure != self.outdef) for xs, s in both)
            raise errors.CustomRuleError(
                f"custom_jvp {name!r}: the tangent of the output is {found}, but the output is {wanted}.\n"
                "  A tangent has the structure, shape and dtype of its value. The rule gets two tuples, (x,), (t,) = primals, tangents."
            )
        return [t.astype(y.dtype) if is_float(y) and t.dtype != y.dtype else t for t, y in zip(pushed, ans)]

    def reverse(self, residuals: Any, leaves: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        moving = floats(leaves)
        ans, none = list(cts), [None] * len(leaves)
        linear: Any = lambda *ts: self.tangent(None, leaves, ans, replaced(none, moving, ts))
        return replaced(none, moving, self.transposed(linear, [leaves[k] for k in moving], cts))

    def mapped(self, axes: ByLeaf) -> Call:
        return _JvpCall(self.function, self.treedef, vmap(self.f, axes), vmap(self.rule, (axes, axes)))
