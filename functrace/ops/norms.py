"""Norms of vectors and matrices: zero subgradient where a norm is zero, even shares where a maximum is attained several times."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.core.tracer import Tracer
from functrace.ops.create import number
from functrace.ops.decompositions import svdvals
from functrace.ops.functions import reduced_axes
from functrace.ops.gauge import conj, real
from functrace.ops.index import selected
from functrace.ops.kinds import general
from functrace.ops.reduce import expand, sum_
from functrace.ops.registry import Sample, implements
from functrace.ops.statistics import as_float


def _length(x: Any, axis: Any, keepdims: bool) -> Any:
    if axis is None and not keepdims:
        flat = x.ravel()
        return np.sqrt(flat.dot(flat) if x.dtype.kind != "c" else flat.real.dot(flat.real) + flat.imag.dot(flat.imag))
    squares = x * x if x.dtype.kind != "c" else x.real**2 + x.imag**2
    return np.sqrt(sum_(squares, axis, keepdims))


def _over(g: Any, length: Any) -> Any:
    """g / length, and 0 for no length: the zero subgradient."""
    return selected(length != 0, g) / (length + (length == 0))


length: Any = general(  # the Euclidean length over one axis, several (a tuple), or all (None)
    "length",
    _length,
    lambda g, ans, x, axis, keepdims: conj(x) * expand(_over(g, ans), axis, x.ndim, keepdims),
    jvps=(lambda t, ans, x, axis, keepdims: _over(np.sum(real(conj(x) * t), axis=axis, keepdims=keepdims), ans),),
    batch="axes",
)


def _extreme(x: Any, order: float, axis: Any, keepdims: bool) -> Any:
    """The largest, 0 of none, or with a negative order the smallest."""
    if order < 0:
        return np.min(x, axis=axis, keepdims=keepdims)
    return np.max(x, axis=axis, keepdims=keepdims) if x.size else np.max(x, axis=axis, keepdims=keepdims, initial=0)


def _vector(x: Any, order: Any, axes: Any, keepdims: bool) -> Any:
    traced = isinstance(order, Tracer)
    if traced and np.isfinite(order) and order != 0:
        return _power_mean(np.abs(x), order, axes, keepdims)
    if order is None or order == 2:
        return length(x, axes, keepdims)
    if isinstance(order, str):
        raise ValueError(f"Invalid norm order '{order}' for vectors")
    size = abs(x)
    if order in (np.inf, -np.inf):
        return _extreme(size, order, axes, keepdims)
    if order == 0:
        return np.sum((x != 0).astype(size.dtype), axis=axes, keepdims=keepdims)
    if order == 1:
        return size.sum(axis=axes, keepdims=keepdims)
    return _power_mean(size, order, axes, keepdims) if order < 0 else _power_length(size, axes, keepdims, order)


def _power_mean(size: Any, order: Any, axes: Any, keepdims: bool) -> Any:
    """The norm of an order that is no special case, or that is differentiated itself; in units of a power of two, as powers over- and
    underflow long before their root.
    """
    extreme = np.min(size, axes, keepdims=True, initial=np.inf) if order < 0 else np.max(size, axes, keepdims=True, initial=0)
    exponent = np.frexp(extreme)[1]
    size = np.ldexp(size, -exponent)
    exponent = exponent if keepdims else np.squeeze(exponent, axes)
    if order < 0:
        return np.ldexp(np.sum(size**order, axis=axes, keepdims=keepdims) ** (1 / order), exponent)
    zero: Any = size == 0
    powers = np.where(zero, 0, np.where(zero, 1, size) ** order) if isinstance(order, Tracer) or order < 2 else size**order
    total = np.sum(powers, axis=axes, keepdims=keepdims)
    zero = total == 0
    return number(np.where(zero, 0, np.ldexp(np.where(zero, 1, total) ** (1 / order), exponent)))


def _slope(t: Any, ans: Any, size: Any, axes: Any, keepdims: bool, order: Any) -> Any:
    """The powers of the elements beside the norm: those never overflow. Zero where there is nothing."""
    ans, zero = expand(ans, axes, size.ndim, keepdims), size == 0
    return t * np.where(zero, 0, (np.where(zero, 1, size) / np.where(ans == 0, 1, ans)) ** (order - 1)).astype(t.dtype)


_power_length: Any = general(
    "power_length",
    lambda size, axes, keepdims, order: _power_mean(size, order, axes, keepdims),
    lambda g, ans, size, axes, keepdims, order: _slope(expand(g, axes, size.ndim, keepdims), ans, size, axes, keepdims, order),
    jvps=(lambda t, *rest: np.sum(_slope(t, *rest), axis=rest[2], keepdims=rest[3]),),
    batch="axes",
)


def _matrix(x: Any, order: Any, row: int, col: int) -> Any:
    if isinstance(order, Tracer):
        raise ValueError("Invalid norm order for matrices.")
    if order in (None, "fro", "f"):
        return length(x, (row, col), True)
    if order in (2, -2, "nuc"):
        s = svdvals(np.moveaxis(x, (row, col), (-2, -1)))
        out = np.sum(s, axis=-1) if order == "nuc" else _extreme(s, order, -1, False)
        return np.expand_dims(out, (row, col))
    if order in (1, -1, np.inf, -np.inf):
        sums = np.sum(np.abs(x), axis=row if abs(order) == 1 else col, keepdims=True)
        return _extreme(sums, order, (row, col), True)
    raise ValueError("Invalid norm order for matrices.")


_VECTOR = (None, 0, 1, 2, 3, 2.5, 0.5, -1, np.inf, -np.inf)
_MATRIX = (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)


def _away(*shape: int) -> Any:
    """Arguments away from 0, where most norms have a kink, and whose rows and columns have no equal sums."""

    def draw(rng: np.random.Generator) -> tuple[Any, ...]:
        steps = np.arange(math.prod(shape)).reshape(shape) * 0.8
        signs = np.resize([1.0, 1.0, -1.0, 1.0, -1.0, -1.0, 1.0], shape)
        return (signs * (0.6 + steps + rng.uniform(0, 0.05, size=shape)),)

    return draw


_NORM = [
    *(Sample(_away(*s)) for s in ((3,), (2, 3), (2, 3, 2), (), (0,))),
    *(Sample(_away(3), {"ord": p}) for p in _VECTOR),
    *(Sample(_away(3, 3), {"ord": p}) for p in _MATRIX),
    *(Sample(_away(2, 3), {"ord": p, "axis": 0}) for p in (None, 1, 3, np.inf)),
    *(Sample(_away(2, 3), {"ord": p, "axis": -1, "keepdims": True}) for p in (None, 2, -np.inf)),
    *(Sample(_away(2, 3, 3), {"ord": p, "axis": (0, 2)}) for p in _MATRIX if p != -1),
    *(Sample(_away(2, 3, 3), {"ord": p, "axis": (-1, 0), "keepdims": True}) for p in ("fro", "nuc", 1, 2)),
    Sample(_away(2, 3), {"keepdims": True}),
]


@implements(np.linalg.norm, _NORM, note="zero subgradient where the norm is 0")
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """`np.linalg.norm`, every order."""
    x = as_float(x)
    if axis is None:
        plain = not isinstance(ord, Tracer)
        if ord is None or plain and (ord in ("f", "fro") and x.ndim == 2 or ord == 2 and x.ndim == 1):
            return length(x, None if not keepdims else tuple(range(x.ndim)), keepdims)
        axis = tuple(range(x.ndim))
    elif not isinstance(axis, tuple):
        axis = (int(axis),)
    axes = tuple(np.lib.array_utils.normalize_axis_index(a, x.ndim) for a in axis)
    if len(axes) == 1:
        return _vector(x, ord, axes[0], keepdims)
    if len(axes) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    if axes[0] == axes[1]:
        raise ValueError("Duplicate axes given.")
    out = _matrix(x, ord, *axes)
    return out if keepdims else number(np.squeeze(out, axes))


@implements(
    np.linalg.vector_norm,
    [
        *(Sample(_away(2, 3), {"ord": p}) for p in _VECTOR if p is not None),
        *(Sample(_away(2, 3, 2), {"ord": p, "axis": (0, 2)}) for p in (1, 2, 3, np.inf)),
        Sample(_away(2, 3), {"axis": 0, "keepdims": True}),
        Sample(_away(2, 3), {"keepdims": True}),
    ],
    note="zero subgradient where the norm is 0",
)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    x = as_float(x)
    axes = None if axis is None else reduced_axes(axis, x.ndim)
    return _vector(x, ord, axes, keepdims)


@implements(np.linalg.matrix_norm, [*(Sample(_away(2, 3, 3), {"ord": p}) for p in _MATRIX), Sample(_away(3, 3), {"keepdims": True})])
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return norm(x, ord, axis=(-2, -1), keepdims=keepdims)
