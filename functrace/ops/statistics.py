"""Means, spreads, products and other summaries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace import errors
from functrace.core.tracer import Tracer, bare
from functrace.ops import reduce as _reduce
from functrace.ops.create import lift, number, operand, typed
from functrace.ops.elementwise import maximum, minimum
from functrace.ops.functions import ABSENT, begun, kept, max_, mean, min_, picked, reduced_axes, refuse, reshape, transpose, with_ones
from functrace.ops.gauge import ratio
from functrace.ops.kinds import general, stopped
from functrace.ops.rebased import later, rebased, steady
from functrace.ops.reduce import expand
from functrace.ops.registry import Sample, apart, each, given, implements, normal, on, one, reductions

Axis = Any
_add: Any = np.add.reduce
_HALF = np.array([True, False, True, True])


REDUCED, RANKED = [*reductions(normal), one(3)], [*reductions(apart), Sample(apart((3,)))]


def count_of(shape: tuple[int, ...], axis: Axis) -> int:
    """How many elements a reduction joins into one."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    return math.prod(shape if axis is None else [shape[k] for k in axes])


def as_float(a: Any, dtype: Any = None) -> Any:
    """Integers as float64, or everything as `dtype`."""
    a = lift(a)
    return typed(a, float if dtype is None and a.dtype.kind not in "fc" else dtype)


# variance: one entry on the tape


def _centred(x: Any, axis: Axis) -> Any:
    return x - mean(x, axis, keepdims=True)


def _scale(x: Any, axis: Axis, ddof: float) -> float:
    n = count_of(x.shape, axis)
    return 2 / (n - ddof) if n > ddof else np.nan


def _var(x: Any, axis: Axis, ddof: float, keepdims: bool) -> Any:
    if x.dtype.char not in "fd" or not x.size or not x.shape:
        return np.var(x, axis=axis, ddof=ddof, keepdims=keepdims)
    total = _add(x, axis, None, None, True)  # as NumPy does it
    n = count_of(x.shape, axis)
    if n <= ddof:
        return np.var(x, axis=axis, ddof=ddof, keepdims=keepdims)
    d = x - total / n
    return _add(np.multiply(d, d, d if isinstance(d, np.ndarray) else None), axis, None, None, keepdims) / (n - ddof)


def _pull_var(g: Any, _ans: Any, x: Any, axis: Axis, ddof: float, keepdims: bool) -> Any:
    return (expand(g, axis, x.ndim, keepdims) * _scale(x, axis, ddof)) * np.conjugate(_centred(x, axis))


def _push_var(t: Any, _ans: Any, x: Any, axis: Axis, ddof: float, keepdims: bool) -> Any:
    return np.sum(np.real(np.conjugate(_centred(x, axis)) * t), axis=axis, keepdims=keepdims) * _scale(x, axis, ddof)


var_: Any = general("var", _var, _pull_var, jvps=(_push_var,), batch="axes")


def _slope(ans: Any, x: Any, axis: Axis, keepdims: bool) -> tuple[Any, Any]:
    """1 / std, and 0 where it is zero but for rounding."""
    centre = mean(x, axis, keepdims=True)
    deviation = expand(ans, axis, x.ndim, keepdims)
    if isinstance(x, np.ndarray) and (deviation > 1e-2 * abs(centre)).all():  # far beyond rounding in any dtype, of any number of elements
        return 1 / deviation, x - centre
    zero = (deviation == 0) | all_equal(x, axis, True, True)
    return ratio(1, deviation, zero).astype(deviation.dtype), x - centre


def _pull_std(g: Any, ans: Any, x: Any, axis: Axis, ddof: float, keepdims: bool) -> Any:
    slope, centred = _slope(ans, x, axis, keepdims)
    return (expand(g, axis, x.ndim, keepdims) * slope * (_scale(x, axis, ddof) / 2)) * np.conjugate(centred)


def _push_std(t: Any, ans: Any, x: Any, axis: Axis, ddof: float, keepdims: bool) -> Any:
    slope, centred = _slope(ans, x, axis, keepdims)
    return np.sum(slope * np.real(np.conjugate(centred) * t), axis=axis, keepdims=keepdims) * (_scale(x, axis, ddof) / 2)


std_: Any = general(
    "std",
    lambda x, axis, ddof, keepdims: np.sqrt(_var(x, axis, ddof, keepdims)),
    _pull_std,
    jvps=(_push_std,),
    batch="axes",
)


def squares(a: Any, axis: Axis, keepdims: bool, where: Any, mean: Any = None) -> tuple[Any, Any]:
    """The sum of squared distances from a given or their own mean of the elements that `where` (an array, maybe batched, or True)
    chooses, and how many they are.
    """
    if where is True:
        n: Any = count_of(a.shape, axis)
    else:
        where = np.broadcast_to(picked(where, a), a.shape)
        n = np.sum(where, axis=axis, keepdims=True)
    if mean is None:
        chosen = a if where is True else np.where(where, a, np.zeros((), a.dtype))
        mean = np.sum(chosen, axis=axis, keepdims=True) / np.maximum(n, 1).astype(a.real.dtype)
    d = a - mean
    total = d * d if a.dtype.kind != "c" else np.real(d * np.conjugate(d))
    if where is not True:
        total = np.where(where, total, np.zeros((), total.dtype))
        n = n if keepdims else np.squeeze(n, reduced_axes(axis, len(a.shape)))
    return np.sum(total, axis=axis, keepdims=keepdims), n


def over(total: Any, n: Any) -> Any:
    """A sum over a count, in the dtype of the sum."""
    return total / (n.astype(total.dtype) if hasattr(n, "astype") else total.dtype.type(n))


def root(variance: Any, flat: Any) -> Any:
    """The deviation: its derivative is 0 where all elements are equal."""
    flat = flat | (variance == 0)
    return number(np.where(flat, np.sqrt(stopped(variance)), np.sqrt(np.where(flat, np.ones((), variance.dtype), variance))))


def all_equal(a: Any, axis: Axis, keepdims: bool, where: Any) -> Any:
    """Whether all elements that count are equal: then what a mean differs from them by is rounding."""
    return max_(a, axis, None, keepdims, -np.inf, where) == min_(a, axis, None, keepdims, np.inf, where)


def degrees(ddof: Any, correction: Any) -> Any:
    """`ddof`, which is also called `correction`."""
    if correction is ABSENT:
        return ddof
    if ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    return correction


def _measured(a: Any, axis: Axis, dtype: Any, where: Any, centre: Any) -> tuple[Any, Any]:
    """The array in the dtype in which it is measured. The distances of complex numbers from a real mean stay complex, as in NumPy."""
    a = lift(a)
    if dtype is not None and np.dtype(dtype).kind not in "fc":
        raise errors.UnsupportedError(f"var, std: dtype={np.dtype(dtype)} would round on the way.\n  Use astype on the result.")
    if a.dtype.kind != "c" or dtype is None or np.dtype(dtype).kind == "c":
        return as_float(a, dtype), centre
    return a, mean(a.astype(dtype), axis, keepdims=True, where=where) if centre is ABSENT else centre


def _spread(op: Any, a: Any, axis: Axis, dtype: Any, ddof: Any, keepdims: bool, where: Any, centre: Any) -> Any:
    """The variance or the deviation: by the op, or, where it can't, from the squares."""
    a, centre = _measured(a, axis, dtype, where, centre)
    if where is True and centre is ABSENT and not isinstance(ddof, Tracer):
        return typed(op(a, axis, ddof, keepdims), dtype)
    total, n = squares(a, axis, keepdims, where, None if centre is ABSENT else operand(centre))
    spread = over(total, np.maximum(n - ddof, 0))
    if op is std_:
        spread = root(spread, all_equal(a, axis, keepdims, where) if centre is ABSENT else np.False_)
    return typed(spread, dtype)


_MEAN = np.array([[0.1], [0.2], [0.3]])
_OPTIONS: Any = ((0, {"ddof": 1}), (-1, {"correction": 1}), (1, {"dtype": float}), (-1, {"where": _HALF}), (-1, {"mean": _MEAN, "ddof": 1}))
_SPREADS = [*RANKED, *(on(axis, apart, **more) for axis, more in _OPTIONS)]  # no two elements are equal: there std has a kink


@implements(np.var, _SPREADS)
def var(
    a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: bool = False, *, where: Any = True,
    mean: Any = ABSENT, correction: Any = ABSENT,
) -> Any:  # fmt: skip
    """`np.var`; of complex values the mean square distance, real."""
    return _spread(var_, a, axis, dtype, degrees(ddof, correction), kept(keepdims), where, mean)


@implements(np.std, _SPREADS, note="zero subgradient where the deviation is 0")
def std(
    a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: bool = False, *, where: Any = True,
    mean: Any = ABSENT, correction: Any = ABSENT,
) -> Any:  # fmt: skip
    """`np.std`; its derivative is 0 where all elements are equal."""
    return _spread(std_, a, axis, dtype, degrees(ddof, correction), kept(keepdims), where, mean)


# products


@implements(
    np.prod,
    [
        *REDUCED,
        given([2.0, 0.0, 3.0]),
        given([0.0, 0.0, 3.0]),
        on(1, initial=2.0),
        on(-1, where=_HALF),
        on(0, dtype=np.float64),
        one(),
    ],
    note="right at zeros, to every order",
)
def prod(
    a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = ABSENT, where: Any = True
) -> Any:
    """`np.prod`. Zeros are right to every order; where no factor is 0 or extreme it divides."""
    a = lift(a)
    if where is not True and where is not ABSENT:
        a = np.where(picked(where, a), a, np.ones((), a.dtype))
    if dtype is not None:
        a = a.astype(dtype)
    elif a.dtype.kind in "bui":
        a = a.astype(np.prod(np.ones(0, a.dtype)).dtype)
    ndim = len(a.shape)
    axes = reduced_axes(axis, ndim)
    rest = [k for k in range(ndim) if k not in axes]
    if len(axes) == 1:
        total = _reduce.prod(a, axes[0])
    else:
        shape = tuple(a.shape[k] for k in rest)
        joined = reshape(a if not rest else transpose(a, (*rest, *axes)), (*shape, count_of(a.shape, axes)))
        total = _reduce.prod(joined, len(shape))
    if kept(keepdims):
        total = reshape(total, with_ones(a.shape, axes))
    total = typed(total, dtype)  # NumPy multiplies bool and short integers as they are
    return total if initial is ABSENT or initial is None else total * begun(initial, total.dtype)


# other summaries


@implements(np.ptp, RANKED)
def ptp(a: Any, axis: Axis = None, out: Any = None, keepdims: Any = False) -> Any:
    """`np.ptp`: the range of the values; ties share the derivative evenly."""
    keepdims = kept(keepdims)
    return max_(a, axis, None, keepdims) - min_(a, axis, None, keepdims)


def _weighted(shape: tuple[int, ...], weights: tuple[int, ...], **kwargs: Any) -> Sample:
    return Sample(
        lambda rng: (rng.normal(size=shape), kwargs.get("axis"), rng.uniform(0.5, 2.0, size=weights)),
        {k: v for k, v in kwargs.items() if k != "axis"},
        (0, 2),
    )


steady(
    np,
    "average",
    [
        *REDUCED,
        _weighted((2, 3), (2, 3)),
        _weighted((2, 3), (3,), axis=1, keepdims=True),
        _weighted((2, 3, 4), (2, 3), axis=(0, 1), keepdims=True),
        _weighted((2, 3), (2,), axis=0, returned=True),
        on(0, returned=True),
    ],
)


def _bounds(**kwargs: Any) -> Sample:
    return Sample(apart((2, 3)), kwargs)


@implements(
    np.clip,
    [
        _bounds(a_min=-0.5, a_max=0.4),
        _bounds(a_min=None, a_max=0.4),
        _bounds(a_min=0.1, a_max=None),
        Sample(lambda rng: (*apart((2, 3))(rng), rng.uniform(-0.54, -0.48, size=3), rng.uniform(0.36, 0.42, size=(2, 1))), wrt=(0, 1, 2)),
    ],
    note="minimum(maximum(a, low), high): 1/2 at ties",
)
def clip(
    a: Any, a_min: Any = ABSENT, a_max: Any = ABSENT, out: Any = None, *, min: Any = ABSENT, max: Any = ABSENT, where: Any = True,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """`np.clip`: minimum(maximum(a, a_min), a_max), the derivative at ties too."""
    refuse("clip", where=(where, True))
    low = a_min if a_min is not ABSENT else min
    high = a_max if a_max is not ABSENT else max
    a = unbounded = lift(a)
    for bound, (op, ufunc, nearer, end) in zip((low, high), _SIDES):
        if bound is not ABSENT and bound is not None:
            bound = operand(bound)
            if a.dtype.kind in "iu" and isinstance(bare(bound), int):  # Python's, which may be beyond what the dtype can hold
                bound = nearer(bound, getattr(np.iinfo(a.dtype), end))
            a = ufunc(a, bound, **kwargs) if kwargs else op(a, bound)
    return np.positive(a, **kwargs) if a is unbounded else a


_SIDES: Any = (maximum, np.maximum, max, "min"), (minimum, np.minimum, min, "max")


_numpys_cov = later("cov", lambda: rebased(np.cov))


@implements(
    np.cov,
    [
        one(3, 5),
        one(3, 5, rowvar=False, bias=True),
        one(5),
        each((2, 5), (5,)),
        each((5, 2), (5, 1), rowvar=False),
        one(3, 5, ddof=0, fweights=np.array([1, 2, 0, 3, 1])),
        one(3, 5, aweights=np.array([0.5, 0.0, 2.0, 1.0, 0.3])),
    ],
)
def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None, aweights: Any = None, *,
    dtype: Any = None,
) -> Any:  # fmt: skip
    free, given = (0 if bias else 1) if ddof is None else ddof, [lift(m)] if y is None else [lift(m), lift(y)]
    usual = all(len(x.shape) in (1, 2) and x.dtype == np.float64 for x in given) and type(free) is int
    usual = usual and (rowvar or y is None and 1 not in given[0].shape)  # of which NumPy's versions think differently
    rows = [x[None] if len(x.shape) == 1 else x if rowvar else x.T for x in given if usual]
    count = min([x.shape[1] for x in rows], default=0)
    known = rows and free < count == rows[-1].shape[1] == rows[0].shape[1]
    if not known or any(p is not None for p in (fweights, aweights, dtype)):
        return _numpys_cov(m, y, rowvar, bias, ddof, fweights, aweights, dtype=dtype)
    x = rows[0] if y is None else np.concatenate(rows)
    x = x - mean(x, 1, keepdims=True)
    out = x @ x.T * (1 / (count - free))
    return out if len(out) > 1 else np.squeeze(out)


@implements(np.corrcoef, [one(3, 5), one(5, 3, rowvar=False), each((5,), (5,))])
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """`np.corrcoef`; rounding is not clipped to [-1, 1], which would cut the derivative."""
    c = np.cov(x, y, rowvar, dtype=dtype)
    if not c.shape:
        return c / c
    deviation = np.sqrt(np.real(np.diagonal(c)))
    return c / deviation[:, None] / deviation[None, :]
