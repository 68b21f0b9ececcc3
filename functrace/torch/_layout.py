"""How results lie in memory; what a leaf keeps of its first gradient: the array itself where nobody else can see it, else a copy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from functrace.torch import _dtypes
from functrace.torch._contact import IN_LOCAL, Tracer, is_buffer

AS_IT_IS = (None, _dtypes.preserve_format)


def in_order(a: Any, *_arrays: Any) -> Any:
    """An array, or a copy whose elements lie in order."""
    return a.copy() if type(a) is np.ndarray and not a.flags.c_contiguous else a


def like(a: Any, make: Callable[[tuple[int, ...]], Any]) -> Any:
    """What `make` gives for the shape of an array, its elements in the order in which the array's lie in memory."""
    if type(a) is not np.ndarray or a.flags.c_contiguous or 0 in a.strides:
        return make(a.shape)
    order = sorted(range(a.ndim), key=lambda k: -a.strides[k])
    return make(tuple(a.shape[k] for k in order)).transpose(np.argsort(order))


def channels_last(a: Any) -> bool:
    """Whether these are images whose channels, axis 1, lie innermost and all else in order, as PyTorch tells it from the strides."""
    if type(a) is not np.ndarray or a.ndim != 4:
        return False
    batch, step, row, pixel = a.strides
    return 0 < step <= pixel and step * a.shape[1] <= pixel and pixel * a.shape[3] <= row and step < row * a.shape[2] <= batch


def as_image(a: Any, x: Any, weight: Any = None, *_rest: Any) -> Any:
    """An array, or a copy: its channels lie last if those of an image, or of a weight, do, else all is in order."""
    if a.ndim == 4 and (channels_last(x) or weight is not None and channels_last(weight)):
        return a if channels_last(a) else formatted(a, _dtypes.channels_last)
    return in_order(a)


def formatted(a: Any, form: Any) -> Any:
    """An array, or a copy of it, in a memory format."""
    if form is _dtypes.channels_last:
        if a.ndim != 4:
            raise RuntimeError("required rank 4 tensor to use channels_last format")
        return np.array(a.transpose(0, 2, 3, 1), order="C").transpose(0, 3, 1, 2) if type(a) is np.ndarray else a
    return in_order(a) if form is _dtypes.contiguous_format else a


def _references(g: Any, _leaf: Any) -> int:
    return sys.getrefcount(g)


class _Probe:
    """Finds how many references the interpreter itself holds to an array that the engine hands over, and nobody else sees."""

    def accumulate(self, g: Any, _tensors: bool) -> int:
        return _references(g, None)


_ALONE = _Probe().accumulate({0: np.zeros(1)}.pop(0), False)


def is_its_own(g: Any, leaf: Any) -> bool:
    """Whether nobody else sees the memory of a gradient, and it lies there as that of the leaf does. Called by `_accumulate` alone."""
    seen = sys.getrefcount(g) - _ALONE
    if seen > 0 and seen > is_buffer(g) or g.strides != leaf.strides or not g.flags.writeable:
        return False
    own = g.base
    if own is None:
        return True
    if type(own) is not np.ndarray or own.base is not None or own.size != g.size:
        return False
    seen = sys.getrefcount(own) - IN_LOCAL - 1  # which the view holds
    return seen <= 0 or seen <= is_buffer(own)


def laid_out(g: Any, leaf: Any) -> Any:
    """A copy of a gradient that lies in memory as the leaf does."""
    if isinstance(g, Tracer):
        return g
    if type(leaf) is not np.ndarray or leaf.shape != np.shape(g):
        return np.array(g)
    out = np.empty_like(leaf, dtype=g.dtype)
    out[...] = g
    return out


def forget(leaves: Iterable[Any], set_to_none: bool) -> None:
    """Let leaves have no gradient, or zeros."""
    for p in leaves:
        if p._grad is not None:
            if set_to_none:
                p._grad = None
            else:
                p._grad.detach_().zero_()


def memory(a: Any) -> tuple[Any, int, tuple[int, ...]]:
    """The flat array that holds the elements, where they begin in it, and their strides."""
    root = a
    while isinstance(root.base, np.ndarray) and root.base.dtype == a.dtype:
        root = root.base
    flat = root.ravel("K")
    if not np.may_share_memory(flat, root) or any(s < 0 or s % a.itemsize for s in a.strides) or not a.size:
        a = root = np.ascontiguousarray(a).reshape(a.shape)
        flat = a.ravel()
    offset = (a.__array_interface__["data"][0] - root.__array_interface__["data"][0]) // a.itemsize
    return flat, offset, tuple(s // a.itemsize for s in a.strides)
