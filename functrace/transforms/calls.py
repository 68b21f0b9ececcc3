"""A function call as one entry of a tape: what rules by hand, checkpoints, loops and branches are.

A subclass of `Call` says how to run it and states its two rules, on flat lists of leaves; either may be the transpose of the other.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functrace import errors, tree
from functrace.core.batch import BatchTrace
from functrace.core.primitive import Primitive
from functrace.core.tracer import Tracer, bare
from functrace.ops.blank import apart, blank, plain
from functrace.ops.create import as_numpy
from functrace.places import user_line
from functrace.transforms.arguments import name_of, or_zeros, refuse_tensors
from functrace.transforms.batching import ByLeaf
from functrace.transforms.closures import reading, same
from functrace.transforms.control_body import Recorder, example, number
from functrace.transforms.masks import ruled, transposed, unlike
from functrace.transforms.tracing import ProgramTrace


def _newest(leaves: Sequence[Any]) -> Any:
    return max((x.owner for x in leaves if isinstance(x, Tracer)), key=lambda owner: owner.id, default=None)


def lend(x: Any) -> Any:
    """A value of a tape or a replay as a function of the user's gets it: a read-only view of an array, another handle of a tracer."""
    if isinstance(x, np.ndarray):
        x = x.view()
        x.flags.writeable = False
    return apart(x)


def _kept(trace: Any, x: Any) -> Any:
    """An array that the user's function returned, copied or locked, since the function may still write to it."""
    return trace.constant(x, True) if isinstance(x, np.ndarray) and x.dtype.kind in "biufc" else x


def unwritten(what: str, function: Any, f: Any, arrays: bool = True) -> Any:
    """`f`, made to raise if it writes to an argument: the caller would see the write under some transforms and not under others.

    Without `arrays` only traced ones: what else it may not write to, NumPy refuses.
    """

    def run(*args: Any) -> Any:
        before = [(x, x.below, x.slot) for x in tree.leaves(args) if isinstance(x, Tracer)]
        try:
            out, refused = f(*args), None
        except ValueError as error:
            if (
                not arrays
                or "read-only" not in str(error)
                or all(x.flags.writeable for x in tree.leaves(args) if isinstance(x, np.ndarray))
            ):
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
    """The places in `xs` of arrays and scalars of floats or complex numbers."""
    return [k for k, x in enumerate(xs) if is_float(x)]


class Shown(NamedTuple):
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
        self.function, self.f = function, f and unwritten(self.what, function, f)
        self.treedef = treedef  # of the arguments, a tuple
        self.outdef: Any = None
        self.read: Any = None  # what the user's functions read when it was recorded as a part of a body

    def __call__(self, leaves: Sequence[Any]) -> Any:
        if self.by_hand:
            refuse_tensors(self, leaves, "Write its rule as a torch.autograd.Function.")
        given, leaves = leaves, [*map(plain, leaves)]
        trace = _newest(leaves)
        if trace is None:
            out = self.evaluate(leaves)
            return tree.map(blank, out) if _newest(given) else out
        for x in leaves:
            if isinstance(x, Tracer):
                x.owner.check_open(x)
        mine = [isinstance(x, Tracer) and x.owner is trace for x in leaves]
        if isinstance(trace, BatchTrace):
            out = self.batched(trace.size, [x.below if m else x for x, m in zip(leaves, mine)], mine)
            return tree.map(lambda y: trace.tracer(self._outer(y, trace)), out)
        values = [x.below if m else trace.constant(x, True) if isinstance(x, (np.ndarray, Tracer)) else x for x, m in zip(leaves, mine)]
        shown = [*map(lend, values)] if self.lends else values
        records = isinstance(trace, ProgramTrace)  # which differentiates nothing
        out, residuals = (self._recorded(trace, shown), LATER) if records else self.forward(shown, mine)
        ys, self.outdef = tree.flatten(tree.map(lambda y: self._outer(y, trace), out))
        refuse_tensors(self, ys, "Return x.numpy().")
        if self.lends:
            ys, residuals = self._taken_back(trace, dict(zip(map(id, shown), values)), ys, residuals)
        ys = [as_numpy(plain(y)) for y in ys]
        slots = tuple(x.slot if m else -1 for x, m in zip(leaves, mine))
        outs = trace.record(CALL, slots, tuple(values), tuple(ys), (self, residuals))
        return tree.unflatten(self.outdef, [o if records or is_float(y) else y for o, y in zip(outs, ys)])

    def _recorded(self, trace: Any, shown: Sequence[Any]) -> Any:
        """The result where a program is recorded."""
        if not isinstance(trace, Recorder):
            return self(shown)
        out = self.sample([*map(example, shown)])
        if self.lends:
            self.read = reading(self)  # now: a table that it fills when it is first run is no change
        return out

    def _taken_back(self, trace: Any, lenders: dict[int, Any], ys: list[Any], residuals: Any) -> tuple[list[Any], Any]:
        """Results and residuals, safe to keep: the user's function may return an argument, a view of it, or an array that it writes to
        again. `lenders` are the values by the `id` of what was lent.
        """
        safe = {*map(id, lenders.values())}
        ys = [lenders.get(id(y), y) for y in ys]
        ys = [np.array(y) if isinstance(y, np.ndarray) and not y.flags.writeable else y for y in ys]
        if residuals is LATER:
            return ys, residuals
        ys = [_kept(trace, y) if is_float(y) and id(y) not in safe else y for y in ys]
        if not self.by_hand or residuals is None:
            return ys, residuals
        return ys, tree.map(lambda r: lenders[id(r)] if id(r) in lenders else _kept(trace, r), residuals)

    def sample(self, leaves: Sequence[Any]) -> Any:
        """A result of the right structure, shapes and dtypes, for an example: all that the recording of a body needs."""
        return self(leaves)

    def _outer(self, y: Any, trace: Any) -> Any:
        if isinstance(y, Tracer) and y.owner.id >= trace.id:
            remedy = ", and not one of nondiff_argnums" if self.by_hand else ": one in a global variable or a class is not found"
            raise errors.CustomRuleError(
                f"{self.what} {name_of(self.function)!r} closes over a traced value ({errors.describe(y)} depends on it), which its "
                f"rule can't differentiate.\n  Pass it as an argument{remedy}."
            )
        return y

    def __repr__(self) -> str:
        return f"{self.what} {name_of(self.function)}"

    def bodies(self) -> list[Shown]:
        """The bodies of a loop, or the branches, for printing and drawing."""
        return []

    def alike(self, other: Call) -> bool:
        """Whether two recordings of one program made the same call."""
        return all(same(getattr(self, name), getattr(other, name)) for name in self.told_by)

    def args(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments again, as the user's trees."""
        return tree.unflatten(self.treedef, leaves)  # type: ignore[no-any-return]

    def evaluate(self, leaves: Sequence[Any]) -> Any:
        """The result where nothing is differentiated."""
        return self.f(*self.args(leaves))

    def forward(self, leaves: Sequence[Any], mine: Sequence[bool]) -> tuple[Any, Any]:
        """The result and the residuals, to differentiate with respect to the leaves that are `mine`. Without an override no residuals."""
        return copy.copy(self)(leaves), None

    def residuals(self, given: Any, leaves: Sequence[Any]) -> Any:
        """The residuals: computed now if the call was recorded by a run that does not differentiate."""
        if given is not LATER:
            return given
        if self.read is not None and not same(self.read, reading(self)):
            raise errors.MutatedError(
                f"{self!r}, in the body of a loop or branch, reads something that has changed since. Its derivative runs it once more.\n"
                f"  At {user_line()}.\n  Pass it as an argument."
            )
        out, needed = self.forward(leaves, [is_float(x) for x in leaves])
        self.outdef = tree.structure(out)
        return needed

    def pull(self, residuals: Any, leaves: Sequence[Any], ans: Sequence[Any], gs: Sequence[Any]) -> list[Any]:
        """`reverse` for cotangents of which some may be None."""
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
        """The transpose of a linear rule, recorded at zeros; the user's own, which may test for zero, elsewhere, and checked."""
        if not self.by_hand:
            return transposed(linear, [np.zeros(x.shape, x.dtype) for x in likes], given)

        found: list[Any] = []

        def checked(*xs: Any) -> Sequence[Any]:
            out = found[:] = linear(*xs)
            for y in out:
                if not (isinstance(y, Tracer) and y.owner is xs[0].owner) and np.any(bare(y)):
                    raise errors.CustomRuleError(
                        f"{self.what} {name_of(self.function)!r}: the rule returns numbers that do not depend on the {self.takes} that it "
                        f"is given, so its transpose, which {self.needed_by}, would be zero.\n"
                        "  A rule must be linear in what it is given: leave functrace.value and stop_gradient out of it."
                    )
            return out

        points = [*map(unlike, likes)]
        back = transposed(checked, points, given)
        if _proportional(found, points, given, back):
            return back
        larger = [p * 3e6 for p in points]  # where a square outweighs the rounding of what cancels
        if not _proportional(found, larger, given, transposed(checked, larger, given), rounding=64.0):
            raise errors.CustomRuleError(
                f"{self.what} {name_of(self.function)!r}: what the rule returns is not proportional to the {self.takes} that it is given, "
                f"so it has no transpose, which {self.needed_by}.\n"
                "  A rule must be linear in what it is given: no powers of it, nothing added."
            )
        return back

    def batched(self, size: int, leaves: Sequence[Any], flags: Sequence[bool]) -> Any:
        """The result for a batch, from a call of the same kind whose function and rules are mapped."""
        numeric = [hasattr(type(x), "dtype") and number(x) is None for x in leaves]  # Python's stay as they are
        values = [np.broadcast_to(x, (size, *np.shape(x))) if n and not b else x for x, b, n in zip(leaves, flags, numeric)]
        return self.mapped(ByLeaf(0 if n else None for n in numeric))(values)

    def mapped(self, axes: ByLeaf) -> Call:
        """The same call for a batch, each argument having it as axis 0 or, where `axes` says None, not at all."""
        raise NotImplementedError


def _proportional(out: Sequence[Any], points: Sequence[Any], given: Sequence[Any], back: Sequence[Any], rounding: float = 0.0) -> bool:
    """Whether `<given, f(points)> = <back, points>`, as for a linear `f` whose transpose takes `given` to `back`: a square or a summand
    does more than rounding, of which `rounding` says how many units in the last place. Of a batch nothing is said.
    """
    terms = [
        (sign, np.ravel(bare(x)), np.ravel(bare(y)))
        for sign, xs, ys in ((1, given, out), (-1, back, points))
        for x, y in zip(xs, ys)
        if x is not None
    ]
    if any(x.shape != y.shape for _, x, y in terms):
        return True
    with np.errstate(all="ignore"):
        products = [sign * float(np.dot(x, y).real) for sign, x, y in terms]
        sizes: Any = lambda: sum(float(np.dot(np.abs(x), np.abs(y))) for _, x, y in terms)  # which takes longer
        if not rounding:
            return not abs(sum(products)) > 0.05 * sum(map(abs, products)) or not abs(sum(products)) > 0.05 * sizes()
        lengths = [sum(float(np.linalg.norm(bare(x))) for x in xs if x is not None) for xs in (given, points)]
        unit = rounding * max(float(np.finfo(p.dtype).eps) for p in points if p.dtype.kind in "fc")
        return not abs(sum(products)) > unit * (lengths[0] * lengths[1] + sizes())


def _ruled(rule: Callable[..., list[Any]], given: Sequence[Any], ans: Any, args: Any, params: Any, likes: Sequence[Any] = ()) -> list[Any]:
    """A rule of a call, applied to cotangents of `likes` or to tangents; our own rules keep the masks of a masked replay."""
    call, residuals = params
    run: Any = lambda gs: rule(call.residuals(residuals, args), args, ans, gs)
    return ruled(run, given, likes, call.by_hand)


def _pulled(given: Sequence[Any], ans: Sequence[Any], args: Sequence[Any], params: Any) -> list[Any]:
    """Cotangents of the arguments; those of integer results are dropped."""
    given = [g if y.dtype.kind in "fc" else None for g, y in zip(given, ans)]
    moved = any(g is not None for g in given)
    return _ruled(params[0].pull, given, ans, args, params, ans) if moved else [None] * len(args)


CALL = Primitive(  # params: the call, and its residuals
    "call",
    lambda *args: tuple([as_numpy(plain(y)) for y in tree.leaves(args[-2].evaluate(args[:-2]))]),
    arity=None,
    vjps=_pulled,
    jvps=lambda ts, ans, args, params: _ruled(params[0].tangent, ts, ans, args, params),
    batch=lambda size, flags, args, params: tuple(tree.leaves(params[0].batched(size, args, flags))),
    multi=True,
    joint=True,
)
