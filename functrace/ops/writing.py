"""NumPy's functions that write into their argument, which must be traced: it stands for the new array afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace import errors
from functrace.core.tracer import Tracer, bare
from functrace.ops.create import cast, check_cast, common_dtype, dtype_of, fitted, lift
from functrace.ops.functions import reshape, single_axis
from functrace.ops.index import decided, index
from functrace.ops.inplace import setitem, updated, write
from functrace.ops.out import not_storable
from functrace.ops.protocol import FUNCTIONS
from functrace.ops.registry import found


def _target(name: str, x: Any) -> Any:
    if not isinstance(x, Tracer):
        raise not_storable(name, x, "Make the array with functrace.numpy (zeros, full ...), or use np.where.")
    if isinstance(bare(x), (np.generic, int, float, complex)):  # NumPy leaves it as it is, without a word, or raises
        raise TypeError(f"{name}: a NumPy scalar ({errors.describe(x)}) can't be written to: give its name another value")
    return x


def cycled(v: Any, x: Any, count: int) -> Any:
    """The first `count` elements of `v`, repeated as often as needed; None of none."""
    v = reshape(fitted(v, x.dtype), -1)
    return index(v, np.resize(np.arange(v.size), count)) if v.size else None


def _masked(name: str, mask: Any, x: Any) -> Any:
    """A mask of as many elements as `x`, flat."""
    mask = reshape(lift(mask), -1)
    if mask.size != x.size:
        raise ValueError(f"{name}: mask and data must be the same size")
    return mask


def _safe(v: Any, x: Any) -> Any:
    """`v`; an array whose numbers `x` can't hold raises."""
    if getattr(v, "shape", ()):
        check_cast(v, x.dtype, "safe")
    return v


def _write_flat(x: Any, v: Any, positions: Any) -> None:
    write(x, reshape(updated(reshape(x, (x.size,)), positions, v, "set"), x.shape))


def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """`np.copyto`."""
    dst = _target("copyto", dst)
    fits = isinstance(dtype_of(src), (int, float, complex)) and common_dtype(dst.dtype, src) == dst.dtype  # a number's dtype is weak
    src = fitted(src, dst.dtype) if fits else cast(lift(src), dst.dtype, casting)
    setitem(dst, ..., src if where is True else np.where(where, src, dst))


def putmask(a: Any, mask: Any, values: Any) -> None:
    """`np.putmask`: `values` are those at the same places, repeated if too few."""
    a = _target("putmask", a)
    mask, new = _masked("putmask", mask, a), cycled(_safe(values, a), a, a.size)
    if new is not None:
        write(a, np.where(reshape(mask, a.shape), reshape(new, a.shape), a))


def place(arr: Any, mask: Any, vals: Any) -> None:
    """`np.place`: `vals` are used in turn."""
    arr = _target("place", arr)
    positions = np.flatnonzero(decided(_masked("place", mask, arr)))
    new = cycled(_safe(vals, arr), arr, len(positions))
    if new is not None:
        _write_flat(arr, new, positions)
    elif len(positions):
        raise ValueError("Cannot insert from an empty array!")


def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """`np.put`."""
    a, ind = _target("put", a), reshape(lift(ind), -1)
    new = cycled(v, a, ind.size)
    if new is not None and ind.size:
        _write_flat(a, new, found("take").function(np.arange(a.size), ind, mode=mode))


def fill(a: Any, value: Any) -> None:
    """`ndarray.fill`."""
    setitem(_target("fill", a), ..., value)


def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """`np.put_along_axis`."""
    arr = _target("put_along_axis", arr)
    if axis is None:
        _write_flat(arr, fitted(values, arr.dtype), np.reshape(indices, -1))
        return
    axis = single_axis(arr, axis)
    grid = np.ogrid[tuple(slice(n) for n in arr.shape)]
    setitem(arr, (*grid[:axis], lift(indices), *grid[axis + 1 :]), fitted(values, arr.dtype))


def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """`np.fill_diagonal`."""
    a = _target("fill_diagonal", a)
    mask = np.zeros(a.shape, bool)
    np.fill_diagonal(mask, True, wrap)
    positions = np.flatnonzero(mask)
    _write_flat(a, cycled(val, a, len(positions)), positions)


FUNCTIONS.update(
    {
        np.copyto: copyto,
        np.putmask: putmask,
        np.place: place,
        np.put: put,
        np.put_along_axis: put_along_axis,
        np.fill_diagonal: fill_diagonal,
    }
)
Tracer.put, Tracer.fill = put, fill  # type: ignore[attr-defined]
