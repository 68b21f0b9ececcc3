"""Reductions and cumulative ops. `axis` is None, an int or a tuple, `keepdims` a bool, as in NumPy."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from functrace.core.primitive import Primitive
from functrace.ops import rows
from functrace.ops.create import typed
from functrace.ops.index import selected
from functrace.ops.kinds import Op, general, linear, negative_axes, undeclared_constant
from functrace.ops.shape import along
from functrace.pool import empty

Axis = Any
_FEW = 1024  # elements of a repeated number up to which writing them is faster than describing it
_MANY = 512  # elements from which on a sort that is not stable is faster, the look for equal ones included


@lru_cache(maxsize=1024)
def _left(axis: Axis, ndim: int) -> tuple[int, ...]:
    axes = range(ndim) if axis is None else [a % ndim for a in (axis if isinstance(axis, tuple) else (axis,))] if ndim else ()
    return tuple(k for k in range(ndim) if k not in axes)


def expand(g: Any, axis: Axis, ndim: int, keepdims: bool) -> Any:
    """A reduced array with the reduced axes put back, of length 1."""
    if keepdims or axis is None and np.ndim(g) == 0:
        return g
    shape = [1] * ndim
    for k, n in zip(_left(axis, ndim), g.shape):
        shape[k] = n
    return g.reshape(shape)


_add_reduce: Any = np.add.reduce  # np.sum without its Python wrapper


def _sum(x: Any, axis: Axis, keepdims: bool) -> Any:
    return rows.added(x, keepdims) if rows.short(x, axis) else _add_reduce(x, axis, None, None, keepdims)


def _unsum(g: Any, _ans: Any, _x: Any, axis: Axis, keepdims: bool) -> Any:
    shape = _x.shape
    if isinstance(g, np.generic) and math.prod(shape) <= _FEW:
        out = np.empty(shape, g.dtype)
        out.fill(g)
        return out
    if isinstance(g, np.generic) or (type(g) is np.ndarray and g.flags.c_contiguous):
        strides = [0] * len(shape)
        if g.shape:
            left = _left(axis, len(shape))
            for k, step in zip(left, [g.strides[k] for k in left] if keepdims else g.strides):
                strides[k] = step
        return np.ndarray(shape, g.dtype, np.asarray(g), 0, strides)  # np.broadcast_to, without its five microseconds
    return np.broadcast_to(expand(g, axis, len(shape), keepdims), shape)


sum_: Op = linear("sum", _sum, _unsum, batch="axes")


def _chosen(ans: Any, x: Any, axis: Axis, keepdims: bool) -> tuple[Any, Any]:
    """Which elements equal the extreme, and how many do, which share the derivative; 1 if there are no ties."""
    chosen = x == expand(ans, axis, x.ndim, keepdims)
    if type(chosen) is np.ndarray and np.count_nonzero(chosen) == ans.size == np.count_nonzero(ans == ans):
        return chosen, 1
    chosen = chosen | (x != x)
    ones = chosen.astype(x.dtype) if x.dtype.itemsize > 2 else chosen  # counted in floats, which `selected` needs too
    return chosen, np.sum(ones, axis=axis, keepdims=True).astype(np.float32 if x.dtype == np.float16 else x.dtype)


def _unpick(g: Any, ans: Any, x: Any, axis: Axis, keepdims: bool) -> Any:
    chosen, count = _chosen(ans, x, axis, keepdims)
    g = expand(g, axis, x.ndim, keepdims)
    return selected(chosen, g if type(count) is int else typed(g / count, g.dtype))


def _pick(t: Any, ans: Any, x: Any, axis: Axis, keepdims: bool) -> Any:
    chosen, count = _chosen(ans, x, axis, keepdims)
    return typed(np.sum(selected(chosen, t) / count, axis=axis, keepdims=keepdims), t.dtype)


def _extreme(name: str, of_two: Any) -> Op:
    whole = of_two.reduce

    def fun(x: Any, axis: Axis, keepdims: bool) -> Any:
        if rows.windows(x, axis):
            return rows.folded(of_two, x, axis, keepdims)
        return rows.extreme(of_two, x, keepdims) if rows.short(x, axis, True) else whole(x, axis, None, None, keepdims)

    return general(name, fun, _unpick, jvps=(_pick,), batch="axes")


max_, min_ = _extreme("max", np.maximum), _extreme("min", np.minimum)


def flipped(x: Any, axis: int) -> Any:
    """`x` backwards along an axis."""
    return x[along(axis, slice(None, None, -1))]


def _shifted_product(x: Any, axis: int) -> Any:
    """The product of the elements before each one along an axis, without division."""
    before = [np.ones_like(x[along(axis, slice(0, 1))]), x[along(axis, slice(0, -1))]]
    return np.cumprod(np.concatenate(before, axis=axis), axis=axis)


def divisible(ans: Any, x: Any) -> bool:
    """Whether a product, or running ones, can be divided by the factors: nothing is 0, infinite, or so small that digits are lost.

    In a recorded program the answer is a guard.
    """
    expect = bool if isinstance(x, np.ndarray) else getattr(getattr(x, "owner", None), "expect", None)
    if expect is None or x.dtype.kind not in "fc":
        return False
    size = np.abs(ans)
    return bool(expect(np.all((size >= np.finfo(x.dtype).tiny) & (size < np.inf))))


def others(x: Any, axis: int) -> Any:
    """For each element the product of all others along an axis. Made from both ends without division, so it is right at zeros."""
    return _shifted_product(x, axis) * flipped(_shifted_product(flipped(x, axis), axis), axis)


def _others(ans: Any, x: Any, axis: int) -> Any:
    return expand(ans, axis, x.ndim, False) / x if divisible(ans, x) else others(x, axis)


prod: Op = general(
    "prod",
    lambda x, axis: np.prod(x, axis=axis),  # one axis, not negative
    lambda g, ans, x, axis: expand(g, axis, x.ndim, False) * _others(ans, x, axis),
    jvps=(lambda t, ans, x, axis: np.sum(_others(ans, x, axis) * t, axis=axis),),
    batch="axis",
)


_WIDE = 256  # elements beside each other from which to take them at once, step by step, beats NumPy, which goes along the axis
_RUNNING: Any = {np.add: (np.cumsum, "fdFD"), np.multiply: (np.cumprod, "fd")}


def running(ufunc: Any, x: Any, axis: int) -> Any:
    """`np.cumsum` or `cumprod` along an axis, not negative. Of a flipped `x` it is flipped in memory, so that flipping it back is free."""
    whole, chars = _RUNNING[ufunc]
    if x.dtype.char not in chars or not x.dtype.isnative or x.size < _WIDE:
        return whole(x, axis=axis)
    last = axis == x.ndim - 1
    out = np.empty_like(x, subok=False) if last and abs(x.strides[axis]) != x.itemsize else empty(x.shape, x.dtype)
    out = flipped(out, axis) if x.strides[axis] < 0 else out
    if last and abs(out.strides[axis]) == x.itemsize or x[along(axis, 0)].size < _WIDE:
        return whole(x, axis=axis, out=out)
    steps, found = np.moveaxis(x.view(np.ndarray), axis, 0), np.moveaxis(out, axis, 0)
    found[:1] = steps[:1]
    for before, step, after in zip(found, steps[1:], found[1:]):
        ufunc(before, step, after)
    return out


cumsum: Op = linear(
    "cumsum",
    lambda x, axis: running(np.add, x, axis),
    lambda g, _ans, _x, axis: flipped(np.cumsum(flipped(g, axis), axis=axis), axis),
    batch="axis",
)


_or_reduce: Any = np.logical_or.reduce  # np.any and np.all without their Python wrappers
_and_reduce: Any = np.logical_and.reduce
any_ = undeclared_constant("any", lambda x, axis, keepdims: _or_reduce(x, axis, None, None, keepdims), "axes")
all_ = undeclared_constant("all", lambda x, axis, keepdims: _and_reduce(x, axis, None, None, keepdims), "axes")


def _arg_extreme(fun: Any) -> Any:
    """The op of `np.argmax`, or of one like it, on `(x, axis, keepdims)`."""

    def batch(size: int, _flags: Any, args: Any, params: Any) -> Any:
        (x,), (axis, keepdims) = args, params
        if axis is None:
            out = fun(np.reshape(x, (size, math.prod(x.shape[1:]))), axis=1)
            return np.reshape(out, (size, *(1,) * (np.ndim(x) - 1))) if keepdims else out
        return fun(x, axis=negative_axes(axis, np.ndim(x) - 1), keepdims=keepdims)

    name = fun.__name__
    return Primitive(name, lambda x, axis, keepdims: fun(x, axis=axis, keepdims=keepdims), arity=1, constant=True, batch=batch).op


argmax, argmin, nanargmax, nanargmin = map(_arg_extreme, (np.argmax, np.argmin, np.nanargmax, np.nanargmin))


def _argsort(x: Any, axis: int) -> Any:
    """The stable order; of many numbers by NumPy's fastest sort, and then of those that are equal by their places."""
    n = x.shape[axis]
    if n >= _MANY and x.dtype.char in "fd":
        order = np.moveaxis(np.argsort(x, axis=axis), axis, -1)
        ranked = np.take_along_axis(np.moveaxis(x, axis, -1), order, -1)
        more = ranked[..., 1:] > ranked[..., :-1]
        if np.all(more):
            return np.moveaxis(order, -1, axis)
        if not np.isnan(ranked[..., -1]).any():
            rank = np.zeros(order.shape, np.int64)  # not intp, which may have 32 bits
            np.cumsum(more, -1, out=rank[..., 1:])
            rank *= n
            order = (np.sort(rank + order, -1) - rank).astype(np.intp, copy=False)
            return np.moveaxis(order, -1, axis)
    return np.argsort(x, axis=axis, kind="stable")


argsort = undeclared_constant("argsort", _argsort, "axis")
