"""Transformations of gradients: the pieces that optimisers are chained of.

A transformation is a pair of pure functions: `init(params)` gives its state, `update(updates, state, params=None)` new updates and the
next state. Updates are trees like the parameters: gradients at first, at the end the step that `apply_updates` adds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from functrace import edge, errors, tree
from functrace.core.tracer import Tracer
from functrace.optimize import as_float
from functrace.places import user_line

T = TypeVar("T")
Schedule = Callable[[Any], Any]
Rate = Any  # a number, a traced value, or a schedule


class GradientTransformation(NamedTuple):
    """`init(params) -> state` and `update(updates, state, params=None) -> (updates, state)`.

    >>> from functrace import optim
    >>> double = optim.GradientTransformation(lambda params: (), lambda g, state, params=None: (2 * g, state))
    >>> double.update(3.0, double.init(1.0))
    (6.0, ())
    """

    init: Callable[[Any], Any]
    update: Callable[..., tuple[Any, Any]]


def _leaf(what: str, which: str, x: Any) -> Any:
    x = as_float(x)
    kind = getattr(getattr(x, "dtype", None), "kind", "")
    if kind and kind in "biuf":
        return x
    if kind == "c":
        raise errors.InputTypeError(
            f"{what}: the {which} hold {errors.describe(x)}; optimisers take real numbers.\n  At {user_line(4)}.\n"
            "  Hold real and imaginary parts as two leaves."
        )
    raise errors.InputTypeError(
        f"{what}: the {which} hold a {type(x).__name__}, which is not an array or a number.\n  At {user_line(4)}.\n"
        "  Leave it out of the tree."
    )


def columns(what: str, **trees: Any) -> tuple[Any, list[list[Any]]]:
    """The structure that all the trees share, and the leaves of each; they must agree in their shapes too."""
    flat = {which: tree.flatten(t) for which, t in trees.items()}
    first, (_, treedef) = next(iter(flat.items()))
    out: list[list[Any]] = []
    for which, (leaves, structure) in flat.items():
        if structure != treedef:
            raise errors.TreeError(
                f"{what}: the {first} have the structure {treedef!r}, the {which} {structure!r}.\n  At {user_line(3)}.\n"
                "  Both must be trees like the parameters that init was given."
            )
        out.append([_leaf(what, which, x) for x in leaves])
    for k, row in enumerate(zip(*out)):
        for which, x in zip(flat, row):
            if x.shape != row[0].shape:
                raise errors.TreeError(
                    f"{what}: at {tree.paths(trees[first])[k] or 'the only leaf'} the {first} have shape {row[0].shape}, the {which} "
                    f"{x.shape}.\n  At {user_line(3)}.\n  Both must be trees like the parameters that init was given."
                )
    return treedef, out


def number(what: str, name: str, x: Any) -> Any:
    """A hyperparameter, if it is a real number, which may be traced."""
    if not isinstance(x, Tracer) and (np.ndim(x) or np.asarray(x).dtype.kind not in "biuf"):
        params = name == "learning_rate" and (isinstance(x, (dict, list, tuple)) or np.ndim(x))
        remedy = "\n  The parameters are for init: state = optimizer.init(params)." * bool(params)
        raise errors.InputTypeError(f"{what}: {name} must be a number, got {errors.describe(x)}.{remedy}")
    return x


def cast(h: Any, x: Any) -> Any:
    """A hyperparameter as a factor of `x` that leaves it its dtype: NumPy scalars and traced values would raise it."""
    return h if type(h) in (float, int) or h.dtype == x.dtype else h.astype(x.dtype)


def _root(v: Any) -> Any:
    """`sqrt(v)`; where v is 0 because the gradient is, its derivative, infinite by itself, counts as 0."""
    traced, root = isinstance(v, Tracer), np.sqrt(v)
    return np.where(v == 0, 0, root) if traced else root


def _average(old: Any, decay: Any, new: Any) -> Any:
    return cast(decay, old) * old + cast(1 - decay, old) * new


def _zeros(what: str, params: Any) -> Any:
    def zeros(x: Any) -> Any:
        x = _leaf(what, "parameters", x)
        if x.dtype.kind != "f":
            return np.zeros(x.shape)
        return np.zeros_like(x) if x.shape else x.dtype.type(0)

    return tree.map(zeros, params)


_START = np.int64(0)


class EmptyState(NamedTuple):
    """The state of a transformation that needs none."""


class CountState(NamedTuple):
    """How many updates there were."""

    count: Any


class TraceState(NamedTuple):
    """The decaying sum of the gradients."""

    trace: Any


class AdamState(NamedTuple):
    """Number of updates, and the decaying averages of gradients and of their squares."""

    count: Any
    mu: Any
    nu: Any


class LionState(NamedTuple):
    """The decaying average of the gradients."""

    mu: Any


class SquaresState(NamedTuple):
    """The decaying average, or the sum, of squared gradients."""

    nu: Any


class CenteredState(NamedTuple):
    """The decaying averages of gradients and of their squares."""

    mu: Any
    nu: Any


def _stateful(what: str, kind: Any, step: Callable[..., tuple[Any, ...]], start: Any = None) -> GradientTransformation:
    """The transformation of states of this kind: perhaps a count, then trees like the parameters, of zeros, or what `start` makes of each.

    `step(gs, *fields)` takes lists of leaves, and the number of updates with this one, and gives the updates and the trees after it.
    """
    counted = kind._fields[:1] == ("count",)
    names = ("state", "second")[: len(kind._fields) - counted]

    @edge.boundary
    def init(params: Any) -> Any:
        zeros = _zeros(what, params) if names else None
        first = tree.map(start, zeros) if start else zeros
        return kind(*[_START] * counted, *[first] * len(names))

    @edge.boundary
    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        if not isinstance(state, kind):
            raise errors.TreeError(
                f"optim: update needs the {kind.__name__} of its own init, and was given {type(state).__name__}.\n"
                f"  Call update(grads, state, params), with the state that init, or the last update, returned."
            )
        counts = [count + 1 for count in state[:counted]]
        treedef, (gs, *fields) = columns(what, updates=updates, **dict(zip(names, state[counted:])))
        if fields:
            gs = [g if g.dtype == x.dtype else g.astype(x.dtype) for g, x in zip(gs, fields[0])]
        out, *new = [tree.built(treedef, xs) for xs in step(gs, *counts, *fields)]
        return out, kind(*counts, *new)

    return GradientTransformation(init, update)


def _stateless(update: Callable[[Any, Any], Any]) -> GradientTransformation:
    @edge.boundary
    def passed(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        return update(updates, params), state

    return GradientTransformation(lambda params: EmptyState(), passed)


def _leafwise(what: str, rule: Callable[[Any], Callable[[Any], Any]]) -> GradientTransformation:
    """The transformation of each leaf by what `rule` makes of all updates."""

    def update(updates: Any, _params: Any) -> Any:
        treedef, (us,) = columns(what, updates=updates)
        return tree.built(treedef, [*map(rule(updates), us)])

    return _stateless(update)


def _times(factor: Any) -> Callable[[Any], Any]:
    return lambda u: cast(factor, u) * u


def identity() -> GradientTransformation:
    """The transformation that changes nothing.

    >>> from functrace import optim
    >>> optim.identity().update(3.0, ())
    (3.0, ())
    """
    return _stateless(lambda updates, _params: updates)


@edge.boundary
def chain(*transformations: GradientTransformation) -> GradientTransformation:
    """Transformations, one after the other. The state is the tuple of theirs.

    `transformations` are applied from the first to the last; what an optimiser returned is one too.

    >>> from functrace import optim
    >>> careful = optim.chain(optim.clip_by_global_norm(1.0), optim.sgd(0.1))
    >>> updates, state = careful.update(5.0, careful.init(2.0))
    >>> updates
    np.float64(-0.1)
    """
    for t in transformations:
        if not hasattr(t, "init"):
            raise errors.CallError(f"chain: {errors.describe(t)} stands where a transformation is expected.\n  Write optim.adam(0.1).")

    def init(params: Any) -> Any:
        return tuple(t.init(params) for t in transformations)

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        if not isinstance(state, tuple) or len(state) != len(transformations):
            raise errors.TreeError(
                f"optim: the state is not that of this optimiser, a chain of {len(transformations)} transformations: it is "
                f"{tree.structure(state)!r}.\n"
                "  Call update(grads, state, params), with the state that init, or the last update, returned."
            )
        states = []
        for t, s in zip(transformations, state):
            updates, s = t.update(updates, s, params)
            states.append(s)
        return updates, tuple(states)

    return GradientTransformation(edge.boundary(init), edge.boundary(update))


@edge.boundary
def apply_updates(params: T, updates: Any) -> T:
    """The parameters after a step: their sum with the updates, in their own dtypes. Arrays of integers or booleans stay as they are.

    `params` and `updates` are trees of one structure and the same shapes, else `TreeError` is raised.

    >>> import numpy as np
    >>> from functrace import optim
    >>> optim.apply_updates({"w": np.ones(2, np.float32), "n": np.array(3)}, {"w": np.full(2, 0.5), "n": np.array(0.0)})
    {'w': array([1.5, 1.5], dtype=float32), 'n': array(3)}
    """
    treedef, (ps, us) = columns("apply_updates", parameters=params, updates=updates)
    given = tree.leaves(params)
    return tree.unflatten(treedef, [p + cast(u, p) if p.dtype.kind == "f" else x for x, p, u in zip(given, ps, us)])  # type: ignore[no-any-return]


@edge.boundary
def global_norm(updates: Any) -> Any:
    """The Euclidean norm of all numbers of a tree, taken in float64. `updates` is any tree of real numbers.

    >>> from functrace import optim
    >>> optim.global_norm({"a": 3.0, "b": [4.0]})
    np.float64(5.0)
    """
    _, (xs,) = columns("global_norm", updates=updates)
    return _root(sum((np.sum(np.square(x.astype(float))) for x in xs), np.float64(0)))


@edge.boundary
def scale(factor: Any) -> GradientTransformation:
    """Updates times a number. `factor` may be traced; dtypes stay.

    >>> from functrace import optim
    >>> optim.scale(-0.5).update(3.0, ())[0]
    np.float64(-1.5)
    """
    factor = number("scale", "factor", factor)
    return _leafwise("scale", lambda _: _times(factor))


def scale_by_schedule(schedule: Schedule) -> GradientTransformation:
    """Updates times `schedule(count)`; `count` is the number of updates before this one.

    >>> from functrace import optim
    >>> halving = optim.scale_by_schedule(lambda count: 0.5**count)
    >>> first, state = halving.update(1.0, halving.init(0.0))
    >>> first, halving.update(1.0, state)[0]
    (np.float64(1.0), np.float64(0.5))
    """
    return _stateful("scale_by_schedule", CountState, lambda us, count: ([*map(_times(schedule(count - 1)), us)],))


@edge.boundary
def scale_by_learning_rate(learning_rate: Rate) -> GradientTransformation:
    """Updates times minus `learning_rate`: a number, a traced value, or a schedule (a function of the number of updates so far).

    >>> from functrace import optim
    >>> optim.scale_by_learning_rate(0.1).update(2.0, ())[0]
    np.float64(-0.2)
    """
    if callable(learning_rate):
        return scale_by_schedule(lambda count: -learning_rate(count))
    return scale(-number("optim", "learning_rate", learning_rate))


@edge.boundary
def clip(limit: Any) -> GradientTransformation:
    """Each number of the updates clipped to `[-limit, limit]`.

    >>> import numpy as np
    >>> from functrace import optim
    >>> optim.clip(1.0).update(np.array([-3.0, 0.5]), ())[0]
    array([-1. ,  0.5])
    """
    limit = number("clip", "limit", limit)
    return _leafwise("clip", lambda _: lambda u: np.clip(u, -cast(limit, u), cast(limit, u)))


@edge.boundary
def clip_by_global_norm(limit: Any) -> GradientTransformation:
    """Updates scaled down so that their global norm is at most `limit` (Pascanu et al. 2013).

    >>> import numpy as np
    >>> from functrace import optim
    >>> optim.clip_by_global_norm(1.0).update(np.array([3.0, 4.0]), ())[0]
    array([0.6, 0.8])
    """
    limit = number("clip_by_global_norm", "limit", limit)
    return _leafwise("clip_by_global_norm", lambda updates: _times(limit / np.maximum(global_norm(updates), limit)))


@edge.boundary
def add_decayed_weights(weight_decay: Any, mask: Any = None) -> GradientTransformation:
    """Updates plus `weight_decay` times the parameters.

    `mask`, a tree of booleans like the parameters, or a function that makes one of them, says which are decayed.

    >>> from functrace import optim
    >>> optim.add_decayed_weights(0.1).update(1.0, (), 5.0)[0]
    np.float64(1.5)
    """
    weight_decay = number("add_decayed_weights", "weight_decay", weight_decay)

    def update(updates: Any, params: Any) -> Any:
        if params is None and tree.leaves(updates):
            raise errors.TreeError(
                "add_decayed_weights (in adamw, lion, or a chain): update needs the parameters.\n  Call update(grads, state, params)."
            )
        treedef, (us, ps) = columns("add_decayed_weights", updates=updates, parameters=params)
        on, structure = tree.flatten(mask(params) if callable(mask) else mask)
        if mask is None:
            on, structure = [True] * len(us), treedef
        if structure != treedef:
            raise errors.TreeError(
                f"add_decayed_weights: the parameters have the structure {treedef!r}, the mask {structure!r}.\n"
                "  The mask is a tree like the parameters, of booleans."
            )
        return tree.unflatten(treedef, [u + cast(weight_decay, u) * cast(p, u) if k else u for u, p, k in zip(us, ps, on)])

    return _stateless(update)


@edge.boundary
def trace(decay: Any, nesterov: bool = False) -> GradientTransformation:
    """The momentum of the updates: `t = g + decay * t`; with `nesterov`, `g + decay * t` of the new t (Sutskever et al. 2013).

    >>> from functrace import optim
    >>> heavy = optim.trace(0.5)
    >>> first, state = heavy.update(1.0, heavy.init(0.0))
    >>> first, heavy.update(1.0, state)[0]
    (np.float64(1.0), np.float64(1.5))
    """
    decay = number("trace", "decay", decay)

    def step(gs: Any, ts: Any) -> tuple[Any, ...]:
        ts = [g + cast(decay, t) * t for g, t in zip(gs, ts)]
        return [g + cast(decay, t) * t for g, t in zip(gs, ts)] if nesterov else ts, ts

    return _stateful("trace", TraceState, step)


def scale_by_adam(b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8, eps_root: Any = 0.0) -> GradientTransformation:
    """Kingma & Ba 2015, algorithm 1: `m / (1 - b1^t) / (sqrt(v / (1 - b2^t) + eps_root) + eps)` of the decaying averages m, v of g, g^2.

    >>> from functrace import optim
    >>> step = optim.scale_by_adam(eps=0.0)
    >>> step.update(-3.0, step.init(0.0))[0].round(12)
    np.float64(-1.0)
    """

    def step(gs: Any, count: Any, ms: Any, vs: Any) -> tuple[Any, ...]:
        ms = [_average(m, b1, g) for m, g in zip(ms, gs)]
        vs = [_average(v, b2, np.square(g)) for v, g in zip(vs, gs)]
        first, second = 1 - b1**count, 1 - b2**count
        return [m / cast(first, m) / (_root(v / cast(second, v) + cast(eps_root, v)) + cast(eps, v)) for m, v in zip(ms, vs)], ms, vs

    return _stateful("adam", AdamState, step)


def scale_by_lion(b1: Any = 0.9, b2: Any = 0.99) -> GradientTransformation:
    """Chen et al. 2023, algorithm 2: the sign of `b1 * m + (1 - b1) * g`, then `m = b2 * m + (1 - b2) * g`.

    >>> import numpy as np
    >>> from functrace import optim
    >>> step = optim.scale_by_lion()
    >>> step.update(np.array([-3.0, 0.0, 1e-9]), step.init(np.zeros(3)))[0]
    array([-1.,  0.,  1.])
    """

    def step(gs: Any, ms: Any) -> tuple[Any, ...]:
        return [np.sign(_average(m, b1, g)) for m, g in zip(ms, gs)], [_average(m, b2, g) for m, g in zip(ms, gs)]

    return _stateful("lion", LionState, step)


def scale_by_rms(decay: Any = 0.9, eps: Any = 1e-8, centered: bool = False) -> GradientTransformation:
    """Tieleman & Hinton 2012: `g / (sqrt(v) + eps)`, v the decaying average of g^2; where `centered`, less the squared average of g.

    >>> from functrace import optim
    >>> step = optim.scale_by_rms(decay=0.75, eps=0.0)
    >>> step.update(-3.0, step.init(0.0))[0]
    np.float64(-2.0)
    """

    def step(gs: Any, *fields: Any) -> tuple[Any, ...]:
        *means, vs = fields
        vs = [_average(v, decay, np.square(g)) for v, g in zip(vs, gs)]
        means = [[_average(m, decay, g) for m, g in zip(ms, gs)] for ms in means]  # one if centered, else none
        spread = [np.maximum(v - np.square(m), 0) for v, m in zip(vs, means[0])] if centered else vs  # rounding may go below 0
        return [g / (_root(v) + cast(eps, v)) for g, v in zip(gs, spread)], *means, vs

    return _stateful("rmsprop", CenteredState if centered else SquaresState, step)


def scale_by_adagrad(initial_accumulator_value: Any = 0.0, eps: Any = 1e-10) -> GradientTransformation:
    """Duchi et al. 2011: `g / (sqrt(s) + eps)`, s the sum of all g^2.

    >>> from functrace import optim
    >>> step = optim.scale_by_adagrad(initial_accumulator_value=16.0)
    >>> step.update(3.0, step.init(0.0))[0].round(9)
    np.float64(0.6)
    """

    def step(gs: Any, vs: Any) -> tuple[Any, ...]:
        vs = [v + np.square(g) for v, g in zip(vs, gs)]
        return [g / (_root(v) + cast(eps, v)) for g, v in zip(gs, vs)], vs

    return _stateful("adagrad", SquaresState, step, lambda x: x + cast(initial_accumulator_value, x))
