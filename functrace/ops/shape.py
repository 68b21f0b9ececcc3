"""Primitives that only move elements: each is linear, and states its transpose and what a leading batch axis does to it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.core.primitive import Primitive
from functrace.core.reverse import fit
from functrace.ops.fast import fast
from functrace.ops.kinds import Op, linear, spread_batch, undeclared_constant


def along(axis: int, part: Any) -> tuple[Any, ...]:
    """An index of one axis, the others whole."""
    return (slice(None),) * axis + (part,)


@functools.lru_cache(1 << 8)
def inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes another."""
    back = [0] * len(axes)
    for k, a in enumerate(axes):
        back[a] = k
    return tuple(back)


reshape = linear(
    "reshape",
    lambda x, shape: x.reshape(shape),  # which is concrete: no -1
    lambda g, _ans, _x, _shape: g.reshape(_x.shape),
    batch=lambda size, x, shape: np.reshape(x, (size, *shape)),
)

transpose: Op = linear(
    "transpose",
    lambda x, axes: x.transpose(axes),  # a full permutation
    lambda g, _ans, _x, axes: transpose(g, inverse(axes)),
    batch=lambda _size, x, axes: np.transpose(x, (0, *(a + 1 for a in axes))),
)


def _fitted(g: Any, _ans: Any, _x: Any, _param: Any) -> Any:
    """The transpose of a broadcast or a cast: the `fit` that the replay does to every cotangent."""
    return fit(g, _x)


def _batch_broadcast(size: int, x: Any, shape: tuple[int, ...]) -> Any:
    ones = (1,) * (len(shape) - (np.ndim(x) - 1))
    return np.broadcast_to(np.reshape(x, (size, *ones, *x.shape[1:])), (size, *shape))


broadcast_to = linear("broadcast_to", np.broadcast_to, _fitted, batch=_batch_broadcast)


def _cast(x: Any, dtype: Any) -> Any:
    return x.astype(dtype)


astype = linear("astype", _cast, _fitted, batch="leading")
astype_constant = undeclared_constant("astype_constant", _cast)


def _join(*args: Any) -> Any:
    *arrays, axis = args
    return np.concatenate(arrays, axis=axis)


def _parts(g: Any, _ans: Any, _arrays: tuple[Any, ...], params: tuple[Any, ...]) -> list[Any]:
    (axis,) = params
    stops = itertools.accumulate(a.shape[axis] for a in _arrays)
    return [g[along(axis, slice(stop - a.shape[axis], stop))] for stop, a in zip(stops, _arrays)]


def _joining(name: str, fun: Op, parts: Callable[..., list[Any]]) -> Op:
    """The op that joins arrays along an axis, which is not negative; `parts` are the cotangents of all arrays."""

    def jvp(ts: Sequence[Any], _ans: Any, _arrays: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        return op(*[np.zeros(a.shape, _ans.dtype) if t is None else t for t, a in zip(ts, _arrays)], params=params)

    def batch(size: int, flags: Sequence[bool], args: Sequence[Any], params: tuple[Any, ...]) -> Any:
        return op(*spread_batch(size, flags, args), params=(params[0] + 1,))

    op: Op = fast(Primitive(name, fun, arity=None, vjps=parts, jvps=jvp, joint=True, batch=batch, linear=True), params=True)
    return op


concatenate = _joining("concatenate", _join, _parts)


def _layers(g: Any, _ans: Any, _arrays: tuple[Any, ...], params: tuple[Any, ...]) -> list[Any]:
    return [g[along(params[0], k)] for k in range(len(_arrays))]


def _pile(*args: Any) -> Any:
    *arrays, axis = args
    return np.stack(arrays, axis=axis) if axis else np.array(arrays)  # which takes a fiftieth of the time for numbers


stack = _joining("stack", _pile, _layers)
