"""Writing into traced arrays: `y[i] = v`, `y += v`, and `y.at[i].set(v)`.

A tracer is a handle. A write computes the new array functionally, and lets the handle stand for it; what was recorded before
is unchanged. Handles made by basic indexing remember what they are views of, so a write through one reaches its base, and
the other views of that base, as in NumPy.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace import errors
from functrace.core.tracer import Tracer
from functrace.ops.index import index, index_add, index_set, is_basic
from functrace.ops.shape import astype


def view(x: Tracer, key: Any) -> Any:
    """`x[key]`, remembered as a view of `x` if NumPy would make one."""
    out = index(x, key)
    if isinstance(out, Tracer) and out.shape and is_basic(key):
        _link(out, x, key)
    return out


def _link(out: Tracer, x: Tracer, key: Any) -> None:
    out.parent = (x, key)
    try:
        x.views.append(weakref.ref(out))
    except AttributeError:
        x.views = [weakref.ref(out)]


def link_reshaped(out: Any, x: Any) -> Any:
    """Mark a reshaped or transposed array: NumPy would share memory, so a write through it is refused rather than lost."""
    if isinstance(out, Tracer) and isinstance(x, Tracer) and out is not x:
        out.parent = (x, _RESHAPED)
    return out


_RESHAPED = object()


def _become(handle: Tracer, new: Tracer) -> None:
    handle.__class__ = type(new)
    for name in ("value", "owner", "slot", "code", "lasti"):
        setattr(handle, name, getattr(new, name))


def write(x: Tracer, new: Any) -> None:
    """Let the array that `x` stands for become `new`, in its bases and their other views too."""
    base = getattr(x, "parent", None)
    if base is not None and base[1] is _RESHAPED:
        raise errors.UnsupportedError(
            f"writing into a reshaped or transposed view of a traced array ({errors.describe(x)}).\n  At {errors.user_line()}.\n"
            "  Write into the array itself, x[i] = v, or take a copy first."
        )
    _become(x, new)
    chain = [x]
    while base is not None:
        parent, key = base
        base = getattr(parent, "parent", None)
        _become(parent, index_set(parent, chain[-1], key))
        chain.append(parent)
    for node in reversed(chain):
        _refresh(node, keep=chain)


def _refresh(x: Tracer, keep: list[Tracer]) -> None:
    """Read the views of a written array again."""
    todo = [x]
    while todo:
        node = todo.pop()
        alive = [(v, r) for r in getattr(node, "views", ()) if (v := r()) is not None and v.parent[0] is node]
        if alive:
            node.views = [r for _, r in alive]
        for v, _ in alive:
            if not any(v is k for k in keep):
                _become(v, index(node, v.parent[1]))
                todo.append(v)


def setitem(x: Tracer, key: Any, v: Any) -> None:
    """`x[key] = v`."""
    write(x, updated(x, key, v, "set"))


def updated(x: Any, key: Any, v: Any, how: str) -> Any:
    """A copy of `x` with `v` set, or added, at `key`; shapes and casting as in NumPy."""
    parts = key if isinstance(key, tuple) else (key,)
    if any(isinstance(p, Tracer) for p in parts):
        raise errors.UnsupportedError(
            f"assignment at a batched or traced index.\n  At {errors.user_line()}.\n  Use np.where(np.arange(n) == i, v, x) instead."
        )
    if not is_basic(key):
        key = tuple(np.asarray(p) if isinstance(p, list) else p for p in parts) if isinstance(key, tuple) else np.asarray(key)
    v = v if hasattr(v, "dtype") else np.asarray(v, None if np.asarray(v).dtype.kind not in "fiub" else x.dtype)
    if v.dtype != x.dtype:
        if v.dtype.kind == "c" and x.dtype.kind != "c":
            raise TypeError(f"can't write complex values into a {x.dtype} array at {errors.user_line()}")
        v = astype(v, x.dtype) if isinstance(v, Tracer) else v.astype(x.dtype)
    return (index_set if how == "set" else index_add)(x, v, key)


def inplace(op: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The method for `x += y`: the handle changes, as an array would. NumPy's scalars are immutable, and so are traced ones."""

    def method(self: Any, other: Any) -> Any:
        new = op(self, other)
        if not self.shape or new is NotImplemented:
            return new
        if new.shape != self.shape:
            raise ValueError(f"non-broadcastable output operand with shape {self.shape} doesn't match the broadcast shape {new.shape}")
        if new.dtype != self.dtype:
            if not np.can_cast(new.dtype, self.dtype, "same_kind"):
                raise TypeError(f"can't cast {new.dtype} to {self.dtype} in place at {errors.user_line()}")
            new = astype(new, self.dtype)
        write(self, new)
        return self

    return method


class _At:
    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x

    def __getitem__(self, key: Any) -> _AtIndex:
        return _AtIndex(self.x, key)


class _AtIndex:
    __slots__ = ("key", "x")

    def __init__(self, x: Any, key: Any) -> None:
        self.x, self.key = x, key

    def get(self) -> Any:
        """The part itself."""
        return index(self.x, self.key)

    def set(self, v: Any) -> Any:
        """A copy with `v` at the index."""
        return updated(self.x, self.key, v, "set")

    def add(self, v: Any) -> Any:
        """A copy with `v` added at the index; repeated positions add up."""
        return updated(self.x, self.key, v, "add")

    def multiply(self, v: Any) -> Any:
        """A copy with the elements at the index multiplied by `v`."""
        return self.set(self.get() * v)

    def divide(self, v: Any) -> Any:
        """A copy with the elements at the index divided by `v`."""
        return self.set(self.get() / v)

    def power(self, v: Any) -> Any:
        """A copy with the elements at the index raised to `v`."""
        return self.set(self.get() ** v)

    def min(self, v: Any) -> Any:
        """A copy with the smaller of the elements at the index and `v`."""
        return self.set(np.minimum(self.get(), v))

    def max(self, v: Any) -> Any:
        """A copy with the larger of the elements at the index and `v`."""
        return self.set(np.maximum(self.get(), v))

    def apply(self, function: Callable[[Any], Any]) -> Any:
        """A copy with `function` applied to the elements at the index."""
        return self.set(function(self.get()))


def at(x: Any) -> _At:
    """Functional updates, JAX's way: `at(x)[i].set(v)`; on traced arrays also `x.at[i].set(v)`.

    >>> import functrace.numpy as fnp, numpy as np
    >>> fnp.at(np.zeros(3))[1].add(5.0)
    array([0., 5., 0.])
    """
    return _At(x)
