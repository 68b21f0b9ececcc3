"""Arrays made between traced ends, and index helpers that take traced values."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.ops.arrange import as_line
from functrace.ops.constants import constant_op
from functrace.ops.create import common_dtype, lift, operand, typed
from functrace.ops.inplace import as_array
from functrace.ops.protocol import FUNCTIONS
from functrace.ops.registry import Sample, holds_tracer, implements


def _ends(a: tuple[int, ...], b: tuple[int, ...], **kwargs: Any) -> Sample:
    return Sample(lambda rng: (rng.uniform(0.5, 1.0, size=a), rng.uniform(2.0, 3.0, size=b)), kwargs, (0, 1))


_ENDS = [
    _ends((), (), num=5),
    _ends((3,), (2, 1), num=4),
    _ends((3,), (), num=4, axis=-1),
    _ends((), (), num=4, endpoint=False),
    _ends((), (), num=1),
]


def _pair(start: Any, stop: Any, least: Any = np.float16) -> tuple[Any, Any]:
    dtype = np.result_type(common_dtype(start, stop, 1.0), least)
    start, stop = lift(start), lift(stop)
    shape = np.broadcast_shapes(start.shape, stop.shape)
    start, stop = (typed(x, dtype) for x in (start, stop))
    return np.broadcast_to(start, shape), np.broadcast_to(stop, shape)


def _steps(num: Any, endpoint: bool, like: Any) -> tuple[Any, int]:
    num = int(num.__index__())
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    return np.arange(num).reshape((-1, *(1,) * len(like.shape))).astype(like.real.dtype), num - 1 if endpoint else num


def _placed(x: Any, axis: int, dtype: Any) -> Any:
    x = x if dtype is None or x.dtype == np.dtype(dtype) else (np.floor(x) if np.dtype(dtype).kind in "iu" else x).astype(dtype)
    return x if axis == 0 else np.moveaxis(x, 0, axis)


@implements(np.linspace, [*_ENDS, _ends((), (2,), num=3, retstep=True)])
def linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0, *,
    device: Any = None,
) -> Any:  # fmt: skip
    """`np.linspace`; the ends may be traced."""
    start, stop = _pair(start, stop)
    k, parts = _steps(num, endpoint, start)
    if parts > 0:
        step = (stop - start) / parts
        out = k * step + start
        out = np.where(k == parts, stop, out) if endpoint else out
    else:
        step = np.array(np.nan)
        out = k * (stop - start) + start
    out = _placed(out, axis, dtype)
    return (out, step) if retstep else out


@implements(np.logspace, [*_ENDS, _ends((), (), num=4, base=2.5)])
def logspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0) -> Any:
    """`np.logspace`; the ends and the base may be traced."""
    wanted = common_dtype(start, stop, base, 1.0) if dtype is None else dtype
    base = operand(base)
    if np.ndim(base):
        shape = np.broadcast_shapes(lift(start).shape, lift(stop).shape, base.shape)
        start, stop, base = (np.broadcast_to(lift(x), shape) for x in (start, stop, base))
        base = base[None]
    return _placed(np.power(base, linspace(start, stop, num, endpoint)), axis, wanted)


@implements(np.geomspace, [*_ENDS[:-1], Sample(lambda rng: (-1.5, -4.0), {"num": 3}, (0, 1))])
def geomspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Any:
    """`np.geomspace`; the ends may be traced."""
    start, stop = _pair(start, stop, np.float64)
    if np.any(start == 0) or np.any(stop == 0):
        raise ValueError("Geometric sequence cannot include zero")
    k, parts = _steps(num, endpoint, start)
    w = k / max(parts, 1)
    sign = np.sign(start)
    out = sign * np.power(start / sign, 1 - w) * np.power(stop / sign, w)
    return _placed(np.where(k == parts, stop, out) if endpoint and parts else out, axis, dtype)


@implements((), [Sample(lambda rng: ((2, 3), rng.normal()), wrt=(1,)), Sample(lambda rng: ((2, 3), rng.normal(size=3)), wrt=(1,))])
def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, like: Any = None) -> Any:
    """`np.full` with a fill that may be traced; NumPy's own function can't see that."""
    fill_value = fill_value if isinstance(fill_value, np.ndarray) else lift(fill_value)
    if not holds_tracer([fill_value]):
        return np.full(shape, fill_value, dtype, order)
    return as_array(np.broadcast_to(fill_value if dtype is None else fill_value.astype(dtype), shape).copy())


@implements(getattr(np, "astype", ()), [Sample(lambda rng: (rng.normal(size=(2, 3)), np.float64))])
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """`np.astype`, of NumPy 2.1."""
    return lift(x).astype(dtype, copy=copy)


_unravel = constant_op("unravel_index", np.unravel_index, multi=True)


def _unravel_index(indices: Any, shape: Any, order: Any = "C") -> Any:
    return _unravel(lift(indices), params=(shape, order))


def _ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: Any = "C") -> Any:
    return _ravel(*map(lift, multi_index), params=(dims, mode, order))


_ravel = constant_op("ravel_multi_index", lambda *a: np.ravel_multi_index(a[:-3], *a[-3:]))


def _ix(*args: Any) -> Any:
    lines = [np.nonzero(x)[0] if x.dtype == bool else x for x in map(lift, args)]
    return tuple(as_line(x, k, len(lines)) for k, x in enumerate(lines))


FUNCTIONS.update({np.unravel_index: _unravel_index, np.ravel_multi_index: _ravel_multi_index, np.ix_: _ix})
