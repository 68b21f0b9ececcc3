"""What a leaf keeps of the first gradient that arrives: the array itself where nobody else can see it, else a copy."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from functrace.torch._contact import IN_LOCAL, Tracer, is_buffer


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
        g = p._grad
        if set_to_none:
            p._grad = None
        elif g is not None:
            (g.requires_grad_(False) if g.grad_fn is None else g.detach_()).zero_()
