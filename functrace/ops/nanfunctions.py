"""Summaries that skip NaN. The derivative at a NaN entry is zero, never NaN."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from functrace.core.tracer import value
from functrace.ops.create import lift, number, typed
from functrace.ops.cumulative import RUNNING
from functrace.ops.functions import ABSENT, kept, max_, min_, picked
from functrace.ops.index import where as where_
from functrace.ops.inplace import complex_of
from functrace.ops.out import store
from functrace.ops.registry import Sample, given, implements
from functrace.ops.statistics import RANKED, REDUCED, all_equal, as_float, degrees, over, root, squares

Axis = Any
_HOLES = np.array([[1.0, np.nan, 3.0, 0.5], [2.0, -1.0, np.nan, 1.5]])


def _given(**kwargs: Any) -> Sample:
    return Sample(lambda rng: (_HOLES + 0.1 * rng.uniform(size=_HOLES.shape),), kwargs)


_FIRST = np.array([True, True, True, False])
_SAMPLES = [*REDUCED, _given(), _given(axis=0), _given(axis=-1, keepdims=True), _given(axis=1, where=_FIRST)]


def _filled(a: Any, fill: float, where: Any = True) -> tuple[Any, Any]:
    """The array with `fill` for what is left out, and which elements count."""
    a = lift(a)
    chosen = ~np.isnan(a)
    if where is not True and where is not ABSENT:
        chosen = chosen & picked(where, a)
    return where_(chosen, a, a.dtype.type(fill)), chosen


def _skipping(name: str, of_all: Any, neutral: float, samples: list[Sample]) -> None:
    def function(a: Any, *args: Any, **kwargs: Any) -> Any:
        return of_all(_filled(a, neutral)[0], *args, **kwargs)

    function.__doc__ = f"`np.{name}`; the derivative at NaN entries is zero."
    implements(getattr(np, name), samples, name=name)(function)


_MORE = [*_SAMPLES, _given(initial=2.0), _given(axis=0, dtype=np.float64)]
_skipping("nansum", np.sum, 0.0, _MORE)
_skipping("nanprod", np.prod, 1.0, _MORE)
_skipping("nancumsum", np.cumsum, 0.0, [*RUNNING, given([1.0, np.nan, 2.0])])
_skipping("nancumprod", np.cumprod, 1.0, [*RUNNING, given([1.0, np.nan, 2.0])])
_EXTREMES = [
    *RANKED,
    _given(),
    _given(axis=0),
    _given(axis=-1, keepdims=True),
    _given(axis=1, initial=2.5),
    _given(axis=1, initial=2.5, where=_FIRST),
]


def _extreme(name: str, of_all: Any, fill: float) -> None:
    def function(a: Any, axis: Axis = None, out: Any = None, keepdims: Any = ABSENT, initial: Any = ABSENT, where: Any = True) -> Any:
        a = lift(a)
        filled, chosen = _filled(a, fill) if a.dtype.kind in "fc" else (a, np.ones(a.shape, bool))
        best = of_all(filled, axis, None, keepdims, initial, where is ABSENT or where)
        empty = ~np.any(chosen, axis=axis, keepdims=kept(keepdims))
        if initial is ABSENT and np.any(value(empty)):
            warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=3)
            best = _nan_if(empty, best)
        return best

    function.__doc__ = f"`np.{name}`; ties share the derivative evenly, and at NaN entries it is zero."
    implements(getattr(np, name), _EXTREMES, name=name)(function)


_extreme("nanmax", max_, -np.inf)
_extreme("nanmin", min_, np.inf)


def _nan_if(empty: Any, x: Any) -> Any:
    return number(np.where(empty, np.array(np.nan, x.dtype), x))


@implements(np.nanmean, [*_SAMPLES, _given(axis=0, dtype=np.float64)])
def nanmean(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: Any = ABSENT, *, where: Any = True) -> Any:
    """`np.nanmean`; the derivative at NaN entries is zero."""
    filled, chosen = _filled(as_float(_inexact(a, dtype), dtype), 0.0, where)
    n = np.sum(chosen, axis=axis, keepdims=kept(keepdims))
    average = np.sum(filled, axis=axis, keepdims=kept(keepdims)) / np.maximum(n, 1).astype(filled.real.dtype)
    if np.any(value(n) == 0):
        warnings.warn("Mean of empty slice", RuntimeWarning, stacklevel=3)
        average = _nan_if(n == 0, average)
    return average


def _variance(a: Any, axis: Axis, dtype: Any, ddof: Any, keepdims: Any, where: Any, mean: Any, correction: Any) -> Any:
    """The variance; and what tells where it is one of equal elements, measured from their own mean."""
    ddof = degrees(ddof, correction)
    a = _inexact(a, dtype)
    if a.dtype.kind == "c" and dtype is not None and np.dtype(dtype).kind != "c" and mean is ABSENT:  # NumPy measures from a real mean
        mean = nanmean(a.astype(dtype), axis, keepdims=True, where=where)
    elif mean is ABSENT:
        a = as_float(a, dtype)
    filled, chosen = _filled(as_float(a), 0.0, where)
    mean = None if mean is ABSENT else lift(mean).astype(filled.dtype)
    total, n = squares(filled, axis, kept(keepdims), chosen, mean)

    def flat() -> Any:
        return all_equal(filled, axis, kept(keepdims), chosen) if mean is None else np.False_

    few = n <= ddof
    if not np.any(value(few)):
        return over(total, n - ddof), flat
    warnings.warn("Degrees of freedom <= 0 for slice.", RuntimeWarning, stacklevel=4)
    return _nan_if(few, over(total, np.where(few, 1, n - ddof))), flat


def _inexact(a: Any, dtype: Any) -> Any:
    a = lift(a)
    if a.dtype.kind in "fc" and dtype is not None and np.dtype(dtype).kind not in "fc":
        raise TypeError("If a is inexact, then dtype must be inexact")
    return a


_SPREAD = [
    *RANKED,
    *_SAMPLES[len(REDUCED) :],
    _given(axis=0, ddof=0, dtype=np.float64),
    _given(axis=1, ddof=1),
    _given(axis=1, correction=1),
    _given(axis=1, mean=np.array([[1.0], [0.5]])),
]


@implements(np.nanvar, _SPREAD)
def nanvar(
    a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = ABSENT, *, where: Any = True,
    mean: Any = ABSENT, correction: Any = ABSENT,
) -> Any:  # fmt: skip
    """`np.nanvar`; the derivative at NaN entries is zero."""
    return typed(_variance(a, axis, dtype, ddof, keepdims, where, mean, correction)[0], dtype)


@implements(np.nanstd, _SPREAD)
def nanstd(
    a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = ABSENT, *, where: Any = True,
    mean: Any = ABSENT, correction: Any = ABSENT,
) -> Any:  # fmt: skip
    """`np.nanstd`; the derivative at NaN entries is zero, and so it is where all others are equal."""
    variance, flat = _variance(a, axis, dtype, ddof, keepdims, where, mean, correction)
    return typed(root(variance, flat()), dtype)


@implements(
    np.nan_to_num,
    [REDUCED[0], given([1.0, np.nan, np.inf, -np.inf]), given([1.0, np.nan, np.inf, -np.inf], nan=5.0, posinf=1.0, neginf=-1.0)],
)
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """`np.nan_to_num`; the derivative where a number was put in is zero."""
    x = lift(x)
    if not copy:
        return store("nan_to_num", nan_to_num(x, True, nan, posinf, neginf), x)
    if x.dtype.kind not in "fc":
        return x.astype(x.dtype)
    if x.dtype.kind == "c":
        return complex_of(*(nan_to_num(part, True, nan, posinf, neginf) for part in (np.real(x), np.imag(x))))
    limits = np.finfo(x.dtype)
    nan, high, low = (
        lift(v).astype(x.dtype) for v in (nan, limits.max if posinf is None else posinf, limits.min if neginf is None else neginf)
    )
    return number(np.where(np.isfinite(x), x, np.where(np.isnan(x), nan, np.where(x > 0, high, low))))
