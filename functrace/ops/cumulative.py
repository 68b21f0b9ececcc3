"""Running sums, products and extremes along an axis.

All that is not a running sum stands on one op, the linear recurrence s[k] = a[k] s[k-1] + b[k]: it divides by nothing, so zeros
are right to every order, and its derivatives are such recurrences again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.core.primitive import Primitive
from functrace.ops import reduce as _reduce
from functrace.ops.create import lift, typed
from functrace.ops.fast import fast
from functrace.ops.functions import concatenate, reshape, single_axis
from functrace.ops.index import selected
from functrace.ops.kinds import general, spread_batch
from functrace.ops.out import giving_out
from functrace.ops.protocol import UFUNC_METHODS
from functrace.ops.reduce import divisible, flipped, running
from functrace.ops.registry import Sample, apart, given, implements, one, rules
from functrace.ops.select import add_along, take_along
from functrace.ops.shape import along
from functrace.ops.ufuncs import looped, only_axis, stepwise

RUNNING = [one(2, 3), one(2, 3, axis=0), one(2, 3, axis=-1), one(4), one(), one(1), one(0), one(2, 3, axis=1, dtype=np.float64)]


def shifted(x: Any, axis: int, fill: float) -> Any:
    """`x` moved up by one along an axis; `fill` comes first."""
    before = x[along(axis, slice(0, -1))]
    if type(x) is not np.ndarray:
        return concatenate([np.full_like(x[along(axis, slice(0, 1))], fill), before], axis)
    out = np.empty_like(x)
    out[along(axis, slice(0, 1))] = fill
    out[along(axis, slice(1, None))] = before
    return out


# the linear recurrence


_LONG = 30_000  # elements from which parts are faster than doubling
_CACHED = 1 << 15  # elements that stay in the cache while they are doubled


def _parts(x: Any, length: int) -> Any:
    """An array cut along its first axis into parts of this length, the last filled up with zeros: (place, part, ...)."""
    full = np.concatenate([x, np.zeros((-len(x) % length, *x.shape[1:]), x.dtype)])
    return np.ascontiguousarray(full.reshape(-1, length, *x.shape[1:]).swapaxes(0, 1))


def _recurrence(a: Any, b: Any, axis: int) -> Any:
    """By doubling: after step d every element covers the 2d elements up to it. What is long is cut into parts, done side by side."""
    a, b = a.swapaxes(axis, 0), b.swapaxes(axis, 0)
    n = len(b)
    if n > _LONG and b.size:
        a, s = _parts(a, math.isqrt(n)), _parts(b, math.isqrt(n))
        for k in range(1, len(s)):
            s[k] += a[k] * s[k - 1]
            a[k] *= a[k - 1]
        s[:, 1:] += a[:, 1:] * _recurrence(a[-1], s[-1], 0)[:-1]  # what was before each part
        return s.swapaxes(0, 1).reshape(-1, *b.shape[1:])[:n].swapaxes(0, axis)
    if b.size <= _CACHED:
        return _doubled(np.copy(a), np.copy(b)).swapaxes(0, axis)
    s, width = np.empty_like(b), max(_CACHED * b.shape[-1] // max(b.size, 1), 1)
    for k in range(0, b.shape[-1], width) if b.ndim > 1 else (0,):
        part = (..., slice(k, k + width)) if b.ndim > 1 else ...
        s[part] = _doubled(np.copy(a[part]), np.copy(b[part]))
    return s.swapaxes(0, axis)


def _doubled(a: Any, s: Any) -> Any:
    step = 1
    while step < len(s):
        s[step:] += a[step:] * s[:-step]
        a[step:] *= a[:-step]
        step *= 2
    return s


def _back(a: Any, g: Any, axis: int) -> Any:
    """The transpose of the recurrence in b: the same from the end, s[k] = a[k+1] s[k+1] + g[k]."""
    return flipped(recurrence(shifted(flipped(a, axis), axis, 0), flipped(g, axis), params=(axis,)), axis)


def _suffix(k: int, g: Any, ans: Any, a: Any, b: Any, axis: int) -> Any:
    back = _back(a, g, axis)
    return back if k else back * shifted(ans, axis, 0)


_RECURRENCE = Primitive(
    "recurrence",
    _recurrence,  # a and b have one shape; axis is not negative
    arity=None,
    vjps=_suffix,
    jvps=lambda k, t, ans, a, _b, axis: recurrence(a, t if k else t * shifted(ans, axis, 0), params=(axis,)),
    batch=lambda size, flags, args, params: recurrence(*spread_batch(size, flags, args), params=(params[0] + 1,)),
)
recurrence: Any = fast(_RECURRENCE, params=True)


# sums and products


def _prepared(a: Any, axis: Any, dtype: Any) -> tuple[Any, int]:
    a = typed(lift(a), dtype)
    if axis is None or not a.shape:
        if axis not in (None, 0, -1):
            single_axis(a, axis)
        return (a if len(a.shape) == 1 else reshape(a, (a.size,))), 0
    return a, single_axis(a, axis)


@implements(np.cumsum, RUNNING)
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    a, axis = _prepared(a, axis, dtype)
    return typed(_reduce.cumsum(a, axis), dtype)


def _uncumprod(g: Any, ans: Any, x: Any, axis: int) -> Any:
    if divisible(ans, x):
        return flipped(np.cumsum(flipped(g * ans, axis), axis=axis), axis) / x
    return shifted(ans, axis, 1) * _back(x, g, axis)


_cumprod: Any = general(
    "cumprod",
    lambda x, axis: running(np.multiply, x, axis),  # axis is not negative
    _uncumprod,
    jvps=(lambda t, ans, x, axis: recurrence(x, t * shifted(ans, axis, 1), params=(axis,)),),
    batch="axis",
)


@implements(np.cumprod, [*RUNNING, given([0.5, 0.0, 2.0, 3.0]), given([0.5, 0.0, 2.0, 0.0, 1.5]), given([[0.0, 0.0], [2.0, 0.0]], axis=0)])
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """`np.cumprod`; right at zeros, to every order."""
    a, axis = _prepared(a, axis, dtype)
    return typed(_cumprod(a, axis), dtype)


def _cumulative(function: Callable[..., Any], first: float, name: str) -> Callable[..., Any]:
    def cumulative(x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False) -> Any:
        x = lift(x)
        x = x if x.shape else reshape(x, (1,))
        if axis is None and len(x.shape) != 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = only_axis(x, axis)
        total = function(x, axis, dtype)
        if not include_initial:
            return total
        head = np.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), first, total.dtype)
        return concatenate([head, total], axis)

    cumulative.__name__ = cumulative.__qualname__ = name
    cumulative.__doc__ = f"`np.{name}`, of NumPy 2.1."
    return cumulative


_CUMULATIVE = [one(3), one(2, 3, axis=0), one(2, 3, axis=-1, include_initial=True)]
for _function, _start, _name in ((cumsum, 0.0, "cumulative_sum"), (cumprod, 1.0, "cumulative_prod")):
    implements(getattr(np, _name, ()), _CUMULATIVE, name=_name)(_cumulative(_function, _start, _name))


# extremes: elements that equal the running extreme share it evenly


def _shares(ans: Any, x: Any, axis: int) -> tuple[Any, Any, Any]:
    """For each running extreme whether it equals the one before, whether its element equals it, and how many elements so far do."""
    before, dtype = shifted(ans, axis, np.nan), np.float32 if ans.dtype == np.float16 else ans.dtype
    same = ((ans == before) | (before != before)).astype(dtype)
    chosen = (x == ans) | (x != x)
    count = recurrence(same, chosen.astype(dtype), params=(axis,))
    return same, chosen, np.where(count == 0, 1, count)


def _attained(ans: Any, x: Any, axis: int) -> Any:
    """A mask of the elements that begin a new running extreme; None if others equal one, or that cannot be seen."""
    if type(x) is not np.ndarray or not x.size:
        return None
    chosen, later = x == ans, along(axis, slice(1, None))
    alone = chosen[along(axis, 0)].all() and (chosen[later] == (ans[later] != ans[along(axis, slice(0, -1))])).all()
    return chosen if alone else None


def _begun(chosen: Any, axis: int) -> Any:
    """For each running extreme the place where it began."""
    places = np.arange(chosen.shape[axis]).reshape([-1 if k == axis else 1 for k in range(chosen.ndim)])
    return np.maximum.accumulate(chosen * places, axis)


def _unextreme(g: Any, ans: Any, x: Any, axis: int) -> Any:
    chosen = _attained(ans, x, axis)
    if chosen is not None and type(g) is np.ndarray:
        rows, starts = np.ascontiguousarray(g.swapaxes(axis, -1)), np.flatnonzero(chosen.swapaxes(axis, -1))
        out = np.zeros(rows.shape, g.dtype)
        out.reshape(-1)[starts] = np.add.reduceat(rows.reshape(-1), starts)
        return out.swapaxes(axis, -1)
    if chosen is not None:
        return add_along(g, _begun(chosen, axis), params=(axis, x.shape[axis]))
    same, chosen, count = _shares(ans, x, axis)
    return typed(selected(chosen, _back(same, g / count, axis)), g.dtype)


def _push_extreme(t: Any, ans: Any, x: Any, axis: int) -> Any:
    chosen = _attained(ans, x, axis)
    if chosen is not None:
        return take_along(t, _begun(chosen, axis), params=(axis,))
    same, chosen, count = _shares(ans, x, axis)
    return typed(recurrence(same, typed(selected(chosen, t), same.dtype), params=(axis,)) / count, t.dtype)


def _running(ufunc: Any, pull: Any = _unextreme, push: Any = _push_extreme) -> Any:  # axis is not negative
    return general(f"{ufunc.__name__}.accumulate", lambda x, axis: ufunc.accumulate(x, axis=axis), pull, jvps=(push,), batch="axis")


# smooth ufuncs: s[k] = f(s[k-1], x[k]) has the recurrence for its derivative, with the partial derivatives of f there


def _running_smooth(ufunc: Any) -> Any:
    def partials(ans: Any, x: Any, axis: int) -> tuple[Any, Any]:
        head = np.ones_like(x[along(axis, slice(0, 1))])
        before, after, new = ans[along(axis, slice(0, -1))], ans[along(axis, slice(1, None))], x[along(axis, slice(1, None))]
        ones = np.ones_like(after)
        kept, taken = (partial(ones, after, before, new) for partial in rules(ufunc.__name__).vjps)
        return concatenate([0 * head, kept], axis), concatenate([head, taken], axis)

    def pull(g: Any, ans: Any, x: Any, axis: int) -> Any:
        kept, taken = partials(ans, x, axis)
        return _back(kept, g, axis) * taken

    def push(t: Any, ans: Any, x: Any, axis: int) -> Any:
        kept, taken = partials(ans, x, axis)
        return recurrence(kept, t * taken, params=(axis,))

    return _running(ufunc, pull, push)


_ACCUMULATE: dict[Any, Callable[..., Any]] = {
    np.add: _reduce.cumsum,
    np.multiply: _cumprod,
    np.maximum: _running(np.maximum),
    np.minimum: _running(np.minimum),
    **{ufunc: _running_smooth(ufunc) for ufunc in (np.logaddexp, np.logaddexp2, np.hypot)},
}


def _accumulate(ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
    running = _ACCUMULATE.get(ufunc) or stepwise(ufunc)
    array = looped(ufunc, typed(lift(array), dtype))
    if not array.shape:
        raise TypeError("cannot accumulate on a scalar")
    return typed(running(array, only_axis(array, axis)), dtype)


UFUNC_METHODS["accumulate"] = giving_out("accumulate", _accumulate)
for _ufunc in (*_ACCUMULATE, np.subtract):
    implements(
        _ufunc.accumulate,
        [Sample(apart((5,))), Sample(apart((2, 3))), Sample(apart((2, 3)), {"axis": -1}), one(1)],
        name=f"{_ufunc.__name__}.accumulate",
    )(lambda *args, ufunc=_ufunc, **kwargs: UFUNC_METHODS["accumulate"](ufunc, *args, **kwargs))
