"""Functions of many steps on arrays: the logistic function and erf; large arrays part by part, small ones in float64."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch._contact import HALF, Tracer, buffer, in_floats, looks, plain_logistic, undeclared
from functrace.torch._dtypes import F32, F64

_BLOCK = 1 << 16  # bytes: a dozen arrays of this size stay in the cache


def in_blocks(fun: Callable[..., Any], arity: int = 1) -> Callable[..., Any]:
    """An elementwise function or rule that takes large arrays, which lie in order, part by part: what it makes stays in the cache.

    It takes half numbers for float32, so that what it makes of them on the way is not rounded.
    """
    wide = in_floats(fun, arity)

    def function(*args: Any) -> Any:
        x = args[0]
        if x.dtype is HALF:
            return wide(*args)
        if type(x) is not np.ndarray or (parts := x.nbytes // _BLOCK) < 8:
            return fun(*args)
        given: list[Any] = []
        for a in args:
            if isinstance(a, Tracer) or isinstance(a, np.ndarray) and (a.shape != x.shape or not a.flags.c_contiguous and any(a.strides)):
                return fun(*args)
            given.append(a.reshape(-1) if isinstance(a, np.ndarray) else a)
        out, step = None, -(-x.size // parts)
        for k in range(0, x.size, step):
            part = fun(*[a[k : k + step] if isinstance(a, np.ndarray) else a for a in given])
            if out is None:
                out = buffer(x.shape, part.dtype)
            out.reshape(-1)[k : k + step] = part
        return out

    function.saves = looks(fun, arity)  # type: ignore[attr-defined]
    return function


_SLOW = 1 << 14  # elements from which on float64 would take longer than its last digit is worth


def in_float64(name: str, fun: Any, vjps: Any, jvps: Any) -> Callable[[Any], Any]:
    """A function computed in float64 for float32: NumPy's own is off by up to 3 units in the last place, PyTorch's by 1."""

    def function(x: Any) -> Any:
        if x.dtype is F32 and x.size < _SLOW:
            if type(x) in (np.ndarray, np.float32):
                return fun(x, dtype=F64).astype(F32)
            if isinstance(x, Tracer):
                return traced(x)
        return fun(x)

    traced = undeclared(name, function, *vjps, jvps=jvps)
    return function


def widened(fun: Any) -> Any:
    """A function of an array and options, computed in float64 for small ones in float32, as PyTorch computes variances."""

    def function(x: Any, *options: Any) -> Any:
        has_values = type(x) is np.ndarray or isinstance(x, Tracer)
        if has_values and x.dtype is F32 and x.size < _SLOW:
            return fun(x.astype(F64), *options).astype(F32)
        return fun(x, *options)

    return function


def bounded(x: Any, low: Any = None, high: Any = None) -> Any:
    """The elements, kept between two numbers; NaN stays. `np.maximum` of an array and a number takes three times as long as `np.clip`."""
    if type(x) is np.ndarray and x.size >= _LONG and x.dtype in (F32, F64) and _SIGNED:
        out = buffer(x.shape, x.dtype) if x.flags.c_contiguous else None
        return np.clip(x, -math.inf if low is None else low, math.inf if high is None else high, out=out)
    x = x if low is None else np.maximum(low, x)  # in this order, so that a zero keeps its sign
    return x if high is None else np.minimum(high, x)


_LONG = 1 << 12
_SIGNED = bool(np.signbit(np.clip(np.array([-0.0]), 0.0, math.inf))[0])  # NumPy 2.0 clips the sign of a zero too


def logistic(x: Any) -> Any:
    if type(x) is np.ndarray and x.dtype is F32:
        if x.size >= _SLOW:
            with np.errstate(over="ignore"):
                z = np.exp(-x)
            z += 1
            return np.reciprocal(z, out=z)
        z = np.exp(np.minimum(-x, 700), dtype=F64)
        z += 1
        return np.divide(1, z, out=z if z.ndim else None).astype(F32)
    if x.dtype.kind == "f" and type(x) is np.ndarray:
        return plain_logistic(x)
    if x.dtype.kind == "f" and isinstance(x, Tracer):
        return _traced_logistic(x)
    positive = x >= 0
    z = np.exp(np.where(positive, -x, x))
    return np.where(positive, 1, z) / (1 + z)


_traced_logistic = undeclared("logistic", logistic, lambda t, ans, _x: t * (1 - ans) * ans)

_MANY = 1000  # elements from which on SciPy, if it is there, is worth its import


@functools.cache
def scipy_special() -> Any:
    """`functrace.scipy.special`, imported when it is first needed; None without SciPy."""
    try:
        from functrace.scipy import special
    except ImportError:
        return None
    return special


def _tail(name: str, function: Callable[[float], float], slope: float) -> Any:
    """erf or erfc: a function of Python's `math` on arrays, and its derivative."""
    whole = np.frompyfunc(function, 1, 1)

    def values(x: Any) -> Any:
        if name == "erf" and x.dtype is F32 and x.size >= _SLOW:
            return _quick_erf(x)
        special = scipy_special() if x.size > _MANY else None
        return np.asarray(whole(x) if special is None else getattr(special, name)(x.astype(F64))).astype(x.dtype)

    return undeclared(name, values, lambda t, _ans, x: t * slope * np.exp(-(x * x)))


_QUICK = tuple(map(np.float32, (
    1.1283792742452272, 0.10276905630480222, -0.00019183188100282858, -0.0006197837917703732, 8.763702218634562e-05,
    -5.668428771301146e-06, 1.4184969388686167e-07,
)))  # fmt: skip


def _quick_erf(x: Any) -> Any:
    """erf in float32 as tanh(x p(x x)), off by up to 4 units in the last place; p is fitted to atanh(erf(x)) / x up to 4."""
    square = np.square(np.clip(x, -4, 4))
    p = square * _QUICK[-1]
    for c in _QUICK[-2:0:-1]:
        p += c
        p *= square
    p += _QUICK[0]
    p *= x
    return np.tanh(p, out=p)


ERF = _tail("erf", math.erf, 2 / math.sqrt(math.pi))
ERFC = _tail("erfc", math.erfc, -2 / math.sqrt(math.pi))
