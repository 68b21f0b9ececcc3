"""Rules by hand: `custom_vjp` and `custom_jvp`.

Each puts a whole function on the tape as one entry. The other mode is the transpose of the rule given, so a `custom_vjp`
works under `jvp`, and a `custom_jvp` under `grad`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from functrace import edge, errors, tree
from functrace.core.tracer import Tracer
from functrace.transforms.arguments import by_position, label, listed, name_of, or_zeros, zeros_like
from functrace.transforms.batching import ByLeaf, vmap
from functrace.transforms.calls import Call, floats, is_float, lend, unwritten
from functrace.transforms.tracing import replaced
from functrace.transforms.wrapped import Wrapped

P = ParamSpec("P")
R = TypeVar("R")


class _Custom(Wrapped[P, R]):
    @edge.boundary
    def __init__(self, fun: Callable[P, R], nondiff_argnums: Sequence[int] = ()) -> None:
        edge.check_call(f"{type(self).__name__}(f)", fun)
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


class _ByHand(Call):
    """A call whose rules are the user's."""

    lends, by_hand = True, True

    def _rule(self, call: str, rule: Callable[..., Any], *args: Any) -> Any:
        try:
            return rule(*args)
        except Exception as error:
            name, traced = name_of(self.function), any(isinstance(x, Tracer) for x in tree.leaves(args))
            plain = isinstance(error, errors.ConversionError) and call.startswith("fwd") and traced
            advice = f" Let it call {name} itself, which runs on plain values, and whose rule then counts." * plain
            edge.note(error, f"In the rule of {self.what} {name!r}, which is called as {call}.{advice}")
            raise


class custom_vjp(_Custom[P, R]):
    """A function whose reverse rule is given by hand: JAX's `custom_vjp`, which works under `jvp` too.

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

    fwd: Any = None
    bwd: Any = None

    @edge.boundary
    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """State the rule."""
        edge.check_call("defvjp(fwd, bwd), two functions", fwd, bwd)
        self.fwd, self.bwd = fwd, bwd

    @edge.boundary
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


class _VjpCall(_ByHand):
    what = "custom_vjp"
    takes, needed_by = "cotangent", "forward mode needs (jvp, hessian; jacrev(grad(f)) does without)"

    def __init__(self, function: Any, treedef: Any, f: Any, fwd: Any, bwd: Any, fixed: Sequence[int]) -> None:
        super().__init__(function, treedef, f)
        self.fwd = unwritten(self.what, function, fwd, arrays=False)
        self.bwd, self.fixed = bwd, fixed  # fixed: the numbers of arguments that have no cotangent
        self.usage = f"bwd({'nondiff, ' * len(fixed)}residuals, cotangent)"

    def forward(self, leaves: Sequence[Any], mine: Sequence[bool]) -> tuple[Any, Any]:
        result = self._rule("fwd(*args)", self.fwd, *self.args(leaves))
        if not (isinstance(result, tuple) and len(result) == 2):
            name, got = name_of(self.function), errors.describe(result)
            raise errors.CustomRuleError(f"custom_vjp {name!r}: fwd must return (out, residuals), got {got}.\n  Residuals may be None.")
        return result

    def reverse(self, residuals: Any, leaves: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        name = name_of(self.function)
        args = self.args(leaves)
        cotangent = tree.unflatten(self.outdef, [*map(lend, cts)])
        back = self._rule(self.usage, self.bwd, tree.map(lend, residuals), cotangent)
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

    jvp: Any = None

    @edge.boundary
    def defjvp(self, jvp: Callable[..., Any]) -> Callable[..., Any]:
        """State the rule; returns it, so that it can be used as a decorator."""
        edge.check_call("defjvp(rule), a function of (primals, tangents)", jvp)
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

    @edge.boundary
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.jvp is None:
            raise errors.CustomRuleError(f"custom_jvp {name_of(self.fun)!r} has no rule.\n  Decorate one with its defjvp first.")
        merge, fixed, moving = self._split(args, kwargs)
        leaves, treedef = tree.flatten(moving)
        f: Any = self.fun
        return _JvpCall(f, treedef, lambda *xs: f(*merge(*xs)), lambda *r: self.jvp(*fixed, *r))(leaves)  # type: ignore[no-any-return]


class _JvpCall(_ByHand):
    what = "custom_jvp"
    takes, needed_by = "tangents", "reverse mode needs (vjp, grad)"

    def __init__(self, function: Any, treedef: Any, f: Any, rule: Any) -> None:
        super().__init__(function, treedef, f)
        self.rule = rule

    def tangent(self, residuals: Any, leaves: Sequence[Any], ans: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        full = [or_zeros(t, x) if is_float(x) else 0.0 if isinstance(x, (int, float, complex)) else t for t, x in zip(ts, leaves)]
        pair = self.args([*map(lend, leaves)]), self.args([*map(lend, full)])
        result = self._rule("rule(primals, tangents), two tuples, with nondiff_argnums before them", self.rule, *pair)
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
