"""The methods of ufuncs on traced values: `reduce`, `outer`, `reduceat` and `at`. (`accumulate` is in `cumulative`.)"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace import edge
from functrace.core.tracer import Tracer
from functrace.ops.arrange import lying_as
from functrace.ops.create import lift, typed
from functrace.ops.elementwise import safe
from functrace.ops.fast import within
from functrace.ops.functions import begun, concatenate, picked, reduced_axes, reshape, with_ones
from functrace.ops.index import index, placed
from functrace.ops.inplace import in_turn, updated, write
from functrace.ops.kinds import general, linear
from functrace.ops.out import giving_out, not_storable
from functrace.ops.protocol import UFUNC_METHODS
from functrace.ops.registry import Sample, apart, each, found, implements
from functrace.ops.shape import along
from functrace.places import user_line

_NAMED: dict[Any, str] = {
    np.add: "sum",
    np.multiply: "prod",
    np.maximum: "max",
    np.minimum: "min",
    np.logical_and: "all",
    np.logical_or: "any",
}
_NEUTRAL: dict[Any, float] = {np.logaddexp: -np.inf, np.logaddexp2: -np.inf, np.hypot: 0.0, np.fmax: np.nan, np.fmin: np.nan}
_ASSOCIATIVE = tuple(_NEUTRAL)


def _shared(x: Any, ans: Any, axes: tuple[int, ...], exp: Any) -> Any:
    if np.isfinite(ans).all():
        return exp(x - ans)
    tie = (x == ans) & np.isinf(x)
    ties = np.sum(tie, axis=axes, keepdims=True)
    return np.where(tie, (ans > 0) / np.maximum(ties, 1), exp(safe(x, tie, 0.0) - np.where(ties > 0, np.inf, ans)))


def _slope(t: Any, s: Any, x: Any, _ans: Any, _axes: Any, exp: Any) -> Any:
    return t * (np.where(np.isinf(x), 0, s) * (1 if exp is np.exp else math.log(2)))


_shares: Any = general(
    "shares",
    _shared,
    _slope,
    lambda g, *rest: -_slope(g, *rest),
    jvps=(_slope, lambda t, *rest: -_slope(t, *rest)),
    stacks=0,
)


def shares(ans: Any, x: Any, axes: tuple[int, ...], exp: Any = np.exp) -> Any:
    """The share of each number in a sum of exponentials whose logarithm is `ans`: even ones of +inf, and none where all is -inf."""
    return _shares(x, ans, axes, exp)


def _fractions(ans: Any, x: Any, exp: Any) -> Any:
    """The shares of a whole, which add up to 1 though `ans`, a large number, is rounded."""
    s = shares(ans, x, (-1,), exp)
    total = np.sum(s, axis=-1, keepdims=True)
    return s / np.where(total == 0, 1, total)


def _logarithmic(ufunc: np.ufunc, exp: Any) -> Any:
    """`ufunc.reduce` along the last axis, which is kept."""
    return general(
        f"{ufunc.__name__}.reduce",
        lambda x: ufunc.reduce(x, axis=-1, keepdims=True),
        lambda g, ans, x: (g * _fractions(ans, x, exp)).astype(x.dtype),
        jvps=(lambda t, ans, x: np.sum(t * _fractions(ans, x, exp), axis=-1, keepdims=True).astype(ans.dtype),),
        batch="leading",
    )


_LOGARITHMIC = {ufunc: _logarithmic(ufunc, exp) for ufunc, exp in ((np.logaddexp, np.exp), (np.logaddexp2, np.exp2))}


def as_ufunc(function: Callable[..., Any], ufunc: np.ufunc) -> Callable[..., Any]:
    """A function with the keywords, methods and attributes of NumPy's ufunc, which finds its way back to ours if it has to."""
    shown = function
    function = within(function)

    def full(*args: Any, **kwargs: Any) -> Any:
        args = tuple(lift(a) if type(a) in _LISTS else a for a in args)
        return ufunc(*args, **kwargs) if kwargs or len(args) != ufunc.nin else function(*args)

    def of_one(x: Any, /, *rest: Any, **kwargs: Any) -> Any:
        try:
            return full(x, *rest, **kwargs) if rest or kwargs or type(x) in _LISTS else function(x)
        except Exception as error:
            edge.trim(error)
            raise

    def of_two(x: Any, y: Any, /, *rest: Any, **kwargs: Any) -> Any:
        try:
            out = full(x, y, *rest, **kwargs) if rest or kwargs or type(x) in _LISTS or type(y) in _LISTS else function(x, y)
            return ufunc(x, y) if out is NotImplemented else out  # which asks the operand, or says that it can't
        except Exception as error:
            edge.trim(error)
            raise

    kinds: dict[int, Callable[..., Any]] = {1: of_one, 2: of_two}
    call = kinds.get(ufunc.nin, full)
    call.__name__ = call.__qualname__ = ufunc.__name__
    call.__module__, call.__doc__, call.__wrapped__ = shown.__module__, shown.__doc__, shown  # type: ignore[attr-defined]
    vars(call).update({name: getattr(ufunc, name) for name in _SHOWN})
    return call


_LISTS = frozenset((list, tuple))
_SHOWN = "reduce accumulate outer reduceat at nin nout nargs types ntypes identity signature resolve_dtypes".split()


def with_axes(ufunc: np.ufunc, op: Any, inputs: Any, axes: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """A ufunc on the last axes, `matmul` and the like, on those that `axes` or `axis` names, as NumPy reads them."""
    if ufunc.signature is None or ufunc.signature != "(n),(n)->()" and (axis is not None or keepdims):
        raise TypeError(f"{ufunc.__name__} does not take all of axes=, axis= and keepdims=, at {user_line()}")
    if axes is not None and (not isinstance(axes, list) or len(axes) not in (ufunc.nin, ufunc.nin + ufunc.nout)):
        raise ValueError(f"{ufunc.__name__}: axes={axes!r} must be a list with an entry for each of {ufunc.nin} inputs and the output")
    given = [k if isinstance(k, tuple) else (k,) for k in axes or [-1 if axis is None else axis] * ufunc.nin]
    result = op(*(np.moveaxis(lift(x), k, range(-len(k), 0)) for x, k in zip(inputs, given)))
    if keepdims:
        return np.expand_dims(result, given[-1])
    back = given[ufunc.nin] if len(given) > ufunc.nin else ()
    return np.moveaxis(result, range(-len(back), 0), back) if back else result


def _halved(ufunc: np.ufunc, x: Any, axis: int) -> Any:
    """An associative ufunc between all elements of an axis, which becomes of length 1: the halves of the array, again and again."""
    while (n := x.shape[axis]) > 1:
        half = n // 2
        pairs = ufunc(index(x, along(axis, slice(0, half))), index(x, along(axis, slice(half, 2 * half))))
        x = concatenate([pairs, index(x, along(axis, slice(2 * half, None)))], axis) if n % 2 else pairs
    return x


def looped(ufunc: np.ufunc, x: Any) -> Any:
    """`x` in the dtype in which a ufunc takes two of its elements together."""
    return typed(x, ufunc.resolve_dtypes((x.dtype, x.dtype, None))[2])


def stepwise(ufunc: np.ufunc) -> Callable[[Any, int], Any]:
    """The running result of any ufunc of two arguments, one element after the other."""

    def running(x: Any, axis: int) -> Any:
        steps = [index(x, along(axis, slice(0, 1)))] if x.shape[axis] else [x]
        for k in range(1, x.shape[axis]):
            steps.append(ufunc(steps[-1], index(x, along(axis, slice(k, k + 1)))))
        return concatenate(steps, axis)

    return running


def _reduce(
    ufunc: np.ufunc, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Any:  # fmt: skip
    x, name = lift(array), _NAMED.get(ufunc)
    if name in ("any", "all") and initial is not None:
        return ufunc(_reduce(ufunc, x, axis, dtype, None, keepdims, where=where), initial)
    if name is not None:
        extra = {"dtype": dtype} if name in ("sum", "prod") else {}
        extra |= {"initial": initial} if initial is not None else {}
        extra |= {"where": where} if where is not True else {}
        x = x if dtype is None or extra.get("dtype") is not None else x.astype(dtype)
        return found(name).function(x, axis=axis, keepdims=keepdims, **extra)
    x = looped(ufunc, typed(x, dtype))
    axes = reduced_axes(axis, len(x.shape))
    if len(axes) > 1 and ufunc not in _ASSOCIATIVE:
        raise ValueError(f"reduction operation '{ufunc.__name__}' is not reorderable, so at most one axis may be specified")
    rest = tuple(k for k in range(len(x.shape)) if k not in axes)
    shape = tuple(x.shape[k] for k in rest)
    joined = (*shape, math.prod(x.shape[k] for k in axes))
    flat: Callable[[Any], Any] = lambda y: reshape(np.transpose(y, (*rest, *axes)), joined)
    where = where if where is True else flat(np.broadcast_to(picked(where, x), x.shape))
    initial = None if initial is None else begun(initial, x.dtype)
    total = _folded(ufunc, flat(x), len(shape), (*shape, 1), initial, where)
    return reshape(total, with_ones(x.shape, axes)) if keepdims else index(total, along(len(shape), 0))


def _folded(ufunc: np.ufunc, x: Any, k: int, kept: tuple[int, ...], initial: Any, where: Any) -> Any:
    """A ufunc between the elements of an axis, which becomes of length 1, and `initial` before them."""
    if initial is None and ufunc.identity is None and (where is not True or not x.shape[k]):
        raise ValueError(
            f"zero-size array to reduction operation {ufunc.__name__} which has no identity"
            if where is True
            else f"reduction operation '{ufunc.__name__}' does not have an identity, so to use a where mask one has to specify 'initial'"
        )
    first = np.broadcast_to(np.array(ufunc.identity or 0, x.dtype) if initial is None else initial, kept)
    if where is not True:
        if ufunc in _ASSOCIATIVE and x.dtype.kind in "fc":  # integers have no NaN
            x = np.where(where, x, np.array(_NEUTRAL[ufunc], x.dtype))
        else:
            total = first
            for n in range(x.shape[k]):
                at = along(k, slice(n, n + 1))
                total = np.where(index(where, at), ufunc(total, index(x, at)), total)
            return total
    if not x.shape[k]:
        return first
    if ufunc not in _ASSOCIATIVE:
        x = x if initial is None else concatenate([first, x], k)
        return index(stepwise(ufunc)(x, k), along(k, slice(-1, None)))
    if ufunc in _LOGARITHMIC:
        total = _LOGARITHMIC[ufunc](x)
    else:
        total = np.hypot(0.0, x).astype(x.dtype) if ufunc is np.hypot and x.shape[k] == 1 else _halved(ufunc, x, k)
    return total if initial is None else ufunc(first, total)


def _outer(ufunc: np.ufunc, a: Any, b: Any, **kwargs: Any) -> Any:
    a, b = lift(a), lift(b)
    return ufunc(reshape(a, a.shape + (1,) * len(b.shape)), b, **kwargs)


def _spread(g: Any, _ans: Any, _x: Any, starts: Any, axis: int) -> Any:
    counts = np.maximum(np.append(starts[1:], _x.shape[axis]) - starts, 1)
    places: Any = slice(int(starts[0]), None)
    if (starts[1:] <= starts[:-1]).any():
        places = np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    return placed(np.repeat(g, counts, axis), along(axis, places), _x.shape)


_sums: Any = linear(
    "add.reduceat",
    lambda x, starts, axis: np.add.reduceat(x, starts, axis),  # axis is not negative
    _spread,
    batch="axis",
)


def only_axis(x: Any, axis: Any) -> int:
    """The axis of `accumulate` and `reduceat`: a number, alone in a tuple or not, or None of a vector."""
    axes = reduced_axes(axis, len(x.shape))
    if len(axes) != 1:
        raise ValueError(f"accumulate and reduceat take one axis, not {axis}")
    return axes[0]


def _reduceat(ufunc: np.ufunc, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
    x = looped(ufunc, typed(lift(array), dtype))
    axis = only_axis(x, axis)
    n = x.shape[axis]
    starts = np.array([int(i) for i in indices], np.intp)
    if ((starts < 0) | (starts >= n)).any():
        raise IndexError(f"index out-of-bounds in {ufunc.__name__}.reduceat [0, {n})")
    if not starts.size:
        return index(x, along(axis, slice(0)))
    if ufunc is np.add and x.dtype.kind in "fc":
        return _sums(x, starts, axis)
    parts, lengths = [], np.maximum(np.diff(starts, append=n), 1)
    for length in np.unique(lengths):  # what is of one length together
        rows = index(x, along(axis, starts[lengths == length][:, None] + np.arange(length)))
        parts.append(_reduce(ufunc, rows, axis + 1) if length > 1 else index(rows, along(axis + 1, 0)))
    places = np.argsort(np.argsort(lengths, kind="stable"))
    out = parts[0] if len(parts) == 1 else index(concatenate(parts, axis), along(axis, places))
    return lying_as(typed(out, dtype), "C")


def _at(ufunc: np.ufunc, a: Any, indices: Any, b: Any = None) -> None:
    """`np.add.at(a, i, b)` on a traced `a`, which then stands for the result; positions that come again are taken in turn."""
    if not isinstance(a, Tracer):
        instead = "Make the array with functrace.numpy.zeros, or use functrace.numpy.at(a)[i].add(b)."
        raise not_storable(f"{ufunc.__name__}.at", a, instead)
    write(a, updated(a, indices, b, "add") if ufunc is np.add else in_turn(a, indices, ufunc, *([] if b is None else [lift(b)])))


UFUNC_METHODS["reduce"], UFUNC_METHODS["reduceat"] = giving_out("reduce", _reduce), giving_out("reduceat", _reduceat)
UFUNC_METHODS["outer"], UFUNC_METHODS["at"] = _outer, _at


def _declare(ufunc: Any, method: str, samples: list[Sample]) -> None:
    implements(getattr(ufunc, method), samples, name=f"{ufunc.__name__}.{method}")(
        lambda *args, **kwargs: UFUNC_METHODS[method](ufunc, *args, **kwargs)
    )


_REDUCED = [Sample(apart((5,))), Sample(apart((2, 3))), Sample(apart((3, 4)), {"axis": -1, "keepdims": True}), Sample(apart((1,)))]
for _ufunc in (np.add, np.multiply, np.maximum, np.minimum, *_ASSOCIATIVE, np.subtract):
    _declare(_ufunc, "reduce", [*_REDUCED, Sample(apart((3,)), {"initial": 0.05})])
for _ufunc in (np.add, np.multiply, np.maximum):
    _declare(
        _ufunc,
        "reduceat",
        [Sample(lambda rng: (rng.normal(size=6), [0, 4, 1, 5])), Sample(lambda rng: (rng.normal(size=(2, 4)), [1, 0]), {"axis": 1})],
    )
for _ufunc in (np.add, np.subtract, np.multiply, np.maximum):
    _declare(_ufunc, "outer", [each((2,), (3,)), each((2, 2), ())])
