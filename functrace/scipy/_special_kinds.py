"""Kinds of special functions: how a line of the tables in `_special_*` becomes an op with all its rules.

A line gives, for each argument, the partial derivative as a map `(t, ans, *args)`, or a word on why there is none. Where a
function has no closed derivative in a parameter, `along` differentiates it numerically, in the function's own values.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from math import factorial
from typing import Any

import numpy as np
import scipy.special as s

from functrace import errors
from functrace.core.forward import spread
from functrace.core.primitive import Primitive, bind, looks_into
from functrace.core.reverse import fit
from functrace.ops.elementwise import safe
from functrace.ops.kinds import align, constant, general, undeclared
from functrace.ops.registry import Declared, Sample, declare, plain_first, rules
from functrace.scipy._shared import binding
from functrace.transforms.derivatives import vjp

Map = Callable[..., Any]
Domain = Sequence[Any]
WIDE, POSITIVE, UNIT, PROBABILITY = (-2.0, 2.0), (0.3, 2.5), (-0.9, 0.9), (0.1, 0.9)
INTEGER = "it takes integers"
MAPS: dict[str, tuple[Map, ...]] = {}  # the partial derivatives of each function, for use in those of others

_SHAPES: dict[int, Sequence[tuple[tuple[int, ...], ...]]] = {
    1: (((2, 3),), ((),), ((0,),)),
    2: (((2, 3), (3,)), ((), (2,)), ((0,), (1,))),
    3: (((2,), (), (1,)),),
    4: (((2,), (), (1,), ()),),
    5: (((2,), (), (), (), (1,)),),
}


def declined(name: str, k: int, reason: str) -> Map:
    """A rule that says why there is none."""

    def rule(*_args: Any) -> Any:
        raise errors.UnsupportedError(
            f"scipy.special.{name} has no derivative in argument {k}: {reason}.\n"
            "  Keep that argument constant: pass a plain value, or functrace.stop_gradient(x)."
        )

    return rule


def _draw(domain: Domain, shapes: Sequence[tuple[int, ...]]) -> Callable[[np.random.Generator], tuple[Any, ...]]:
    def one(rng: np.random.Generator, pair: Any, shape: tuple[int, ...]) -> Any:
        lo, hi = pair
        return rng.integers(lo, hi, size=shape, endpoint=True) if type(lo) is int else rng.uniform(lo, hi, size=shape)

    return lambda rng: tuple(one(rng, pair, shape) for pair, shape in zip(domain, shapes))


def _enter(name: str, function: Any, maps: Sequence[Any], domain: Domain, samples: Sequence[Sample], note: str = "") -> None:
    theirs = getattr(s, name)
    domain = domain if isinstance(domain[0], tuple) else (domain,) * len(maps)
    wrt = tuple(k for k, m in enumerate(maps) if not isinstance(m, str))
    calls = [Sample(_draw(domain, shapes), wrt=wrt) for shapes in _SHAPES[len(maps)]]
    notes = [note] * bool(note) + [f"argument {k}: {m}" for k, m in enumerate(maps) if isinstance(m, str)]
    ranges = tuple([(float(lo), float(hi)) for lo, hi in domain])
    public = function if isinstance(theirs, np.ufunc) else plain_first(theirs, _by_name(theirs, function))
    declare(
        Declared(
            f"scipy.special.{name}", public, theirs, (*calls, *samples), domain=ranges, primitive=rules(function), note="; ".join(notes)
        )
    )


def _by_name(theirs: Any, function: Any) -> Any:
    """An op with the argument names of SciPy's function."""
    try:
        signature = inspect.signature(theirs)
    except ValueError:  # what SciPy 1.15 wraps for the array API
        return function
    if any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values()):  # which has no names
        return function
    read = binding(theirs.__name__, signature)

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*read(args, kwargs).values())

    call.__name__ = call.__qualname__ = theirs.__name__
    return call


def op(
    name: str, *maps: Map | str, domain: Domain = WIDE, jvps: tuple[Map, ...] | None = None, samples: Sequence[Sample] = (), note: str = ""
) -> Any:
    """Declare an elementwise function of `scipy.special`, unless this SciPy does not have it."""
    theirs = getattr(s, name, None)
    if theirs is None:
        return None
    function = hidden(name, theirs, *maps, jvps=jvps)
    _enter(name, function, maps, domain, samples, note)
    return function


def _rules(name: str, maps: Sequence[Map | str]) -> tuple[Map, ...]:
    return tuple([declined(name, k, m) if isinstance(m, str) else _widened(m, len(maps)) for k, m in enumerate(maps)])


def _wide(x: Any) -> Any:
    dtype = getattr(x, "dtype", None)
    return x if dtype is None or dtype.kind not in "biu" or dtype == np.int64 else x.astype(np.int64)


def _widened(m: Map, arity: int) -> Map:
    """A rule that is given whole numbers in 64 bits: those of fewer would wrap around, and have logarithms of few digits."""
    if arity == 1:
        return m
    rule = lambda *values: m(*map(_wide, values))
    rule.saves = looks_into(m, arity)  # type: ignore[attr-defined]
    return rule


def hidden(name: str, fun: Any, *maps: Map | str, jvps: tuple[Map, ...] | None = None) -> Any:
    """The op that `op` declares, for use in other functions."""
    partials = MAPS[name] = _rules(name, maps)
    pulls = (_fitted(partials[0]),) if len(maps) == 1 else partials
    pushes = [_widened(m, len(maps)) for m in jvps] if jvps else partials
    return undeclared(f"scipy.special.{name}", fun, *pulls, jvps=tuple(map(_spread, pushes)))


def _fitted(m: Map) -> Map:
    # The reverse replay takes a unary op's cotangent as it is; SciPy computes float16 in float32, and some of real z are complex.
    rule = lambda g, ans, x: fit(m(g, ans, x), x)
    rule.saves = looks_into(m, 1)  # type: ignore[attr-defined]
    return rule


def _spread(m: Map) -> Map:
    rule = lambda t, ans, *args: spread(m(t, ans, *args), ans)
    rule.saves = looks_into(m, 5)  # type: ignore[attr-defined]
    return rule


def multi(name: str, *maps: Map | str, domain: Domain = WIDE, pulls: Any = None, pushes: Any = None) -> Any:
    """Declare a function with several results: each map `(ans, *args)` gives the tuple of their partial derivatives.

    `pulls` and `pushes` are the two rules of each argument, for those that are not holomorphic.
    """
    theirs = getattr(s, name, None)
    if theirs is None:
        return None

    pull: Any = lambda m: lambda g, ans, *args: sum(c * d for c, d in zip(g, m(ans, *args)) if c is not None)
    push: Any = lambda m: lambda t, ans, *args: tuple([spread(t * d, y) for d, y in zip(m(ans, *args), ans)])
    function = general(
        f"scipy.special.{name}",
        theirs,
        *(pulls or map(pull, _rules(name, maps))),
        jvps=pushes or tuple(map(push, _rules(name, maps))),
        stacks=0,
        multi=True,
    )
    _enter(name, function, maps, domain, ())
    return function


def flat(name: str, arity: int = 1) -> None:
    """Declare a piecewise constant function."""
    constant(f"scipy.special.{name}", getattr(s, name), arity)


# Central differences of order 10: the derivative of an analytic function to about 1e-13 of its size, when the step is a small part
# of the length over which it changes (`1 / rate`). Fornberg, Math. Comp. 51 (1988) 699, has the weights.
_M = 5
_STEPS = np.array([k for k in range(-_M, _M + 1) if k])
_WEIGHTS = np.array([(-1) ** (k + 1) * factorial(_M) ** 2 / (k * factorial(_M - k) * factorial(_M + k)) for k in _STEPS.tolist()])


def _step(*args: Any) -> Any:
    *xs, rate = args
    with np.errstate(all="ignore"):
        found = np.broadcast_to(rate(*xs), np.broadcast_shapes(*map(np.shape, xs)))
        return 0.06 / np.where(np.isfinite(found), found, 6.0)


_STEP: Any = Primitive(
    "step", _step, arity=None, constant=True, batch=lambda size, flags, xs, rate: bind(_STEP, tuple(align(size, flags, xs)), rate)
)


def slope(f: Map, k: int, rate: Map, *args: Any) -> Any:
    """The derivative of the elementwise `f` in argument k, by differences of its own values.

    It is a sum of values of `f`, so its derivatives in the other arguments are as exact as those of `f`, and differentiating it
    again in argument k takes differences of differences. `rate(*args)` says how fast `f` changes: the sum of its logarithmic
    derivative and of about three over the distance to a singularity.
    """
    h = bind(_STEP, args, (rate,))[..., None]
    columns = [x[..., None] if hasattr(x, "dtype") else x for x in args]
    columns[k] = columns[k] + h * _STEPS
    return np.sum(f(*columns) * (_WEIGHTS / h), axis=-1)


def _rarely(mask: Any, *args: Any) -> Any:
    *xs, f = args
    mask, *xs = np.broadcast_arrays(mask, *xs)
    out = np.zeros(mask.shape, np.result_type(*xs, np.float16))
    if np.any(mask):
        out[mask] = f(*(x[mask] for x in xs))
    return out[()]


@functools.cache
def _partial(f: Map, k: int) -> Map:
    def partial(*xs: Any) -> Any:
        y, pull = vjp(lambda x: f(*xs[:k], x, *xs[k + 1 :]), xs[k])
        return pull(np.ones(y.shape, y.dtype))[0]

    return partial


def _rare_rule(k: int, g: Any, ans: Any, *args: Any) -> Any:
    return g * rarely(_partial(args[-1], k - 1), *args[:-1])  # of the mask, argument 0, there is none


_RARELY: Any = Primitive(
    "rarely",
    _rarely,
    arity=None,
    vjps=lambda k, g, ans, *args: fit(_rare_rule(k, g, ans, *args), args[k]) if k else None,
    jvps=lambda k, t, ans, *args: spread(_rare_rule(k, t, ans, *args), ans),
    batch=lambda size, flags, xs, f: bind(_RARELY, tuple(align(size, flags, xs)), f),
)


def rarely(f: Map, mask: Any, *args: Any) -> Any:
    """The elementwise `f(*args)` where `mask`, and 0 elsewhere, where it is not computed. `f` is one object for all calls."""
    return bind(_RARELY, (mask, *args), (f,))


def along(f: Map, k: int, rate: Map) -> Map:
    """The map of argument k of a function without a closed derivative in it."""
    return lambda t, _ans, *args: t * slope(f, k, rate, *args)


def along_each(name: str, k: int, rate: Map) -> Map:
    """`along` for a function with several results: the map that `multi` takes."""
    f: Any = getattr(s, name)

    def derivatives(ans: Any, *args: Any) -> tuple[Any, ...]:
        return tuple([slope(lambda *a, j=j: f(*a)[j], k, rate, *args) for j in range(len(ans))])

    return derivatives


def followed(moved: Any, slope: Any) -> Any:
    """How the argument of a function moves that keeps its value, which `moved`; not at an end of the range, where neither moves."""
    return np.where((moved == 0) & ~((abs(slope) > 0) & (abs(slope) < np.inf)), 0, 0 - moved / slope)


def inverse(of: str, unknown: int, *places: int | None, least: Map | None = None) -> tuple[Map, ...]:
    """The maps of the inverse of the function `of` in its argument `unknown`.

    `places[j]` says which argument of `of` the inverse's argument j is; None: its value. From F(x, y) = p: dy = (dp - F_x dx) / F_y.
    `least` is F at 0, where SciPy's answer is 0 also for smaller values.
    """
    forward = MAPS[of]

    def partial(j: int | None) -> Map:
        def rule(t: Any, ans: Any, *args: Any) -> Any:
            full = {place: a for place, a in zip(places, args) if place is not None} | {unknown: ans}
            values = [full[i] for i in range(len(full))]
            p = args[places.index(None)]
            slope = forward[unknown](1.0, p, *values)
            moved = t / slope if j is None else followed(forward[j](t, p, *values), slope)
            return moved if least is None else np.where((ans == 0) & (p < least(*values)), 0, moved)

        return rule

    return tuple(partial(j) for j in places)


def drawn(*domain: tuple[Any, Any], wrt: tuple[int, ...] | None = None, shape: tuple[int, ...] = (2,), **kwargs: Any) -> Sample:
    """Arguments of one shape, drawn from these intervals; integers where the ends are integers."""
    inexact = tuple(k for k, (lo, _) in enumerate(domain) if type(lo) is not int)
    return Sample(_draw(domain, [shape] * len(domain)), kwargs, inexact if wrt is None else wrt)


def pole_rate(x: Any) -> Any:
    """One, and three over the distance to the nearest of 0, -1, -2, ..."""
    return 1 + 3 / abs(x - np.minimum(np.round(np.real(x)), 0))


def powers(rest: Any, *pairs: tuple[Any, Any]) -> Any:
    """exp(rest) times x**p for each pair (p, x), in logarithms, but right to every order where x is 0."""
    at_zero: Any = 1.0
    for p, x in pairs:
        zero = x == 0
        rest = rest + p * np.log(safe(x, zero, 1.0))
        at_zero = at_zero * np.where(zero, x, 1.0) ** np.where(zero, p, 0.0)
    return at_zero * np.exp(rest)
