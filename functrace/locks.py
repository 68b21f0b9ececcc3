"""Recorded arrays must not change under the tape: most are copied, large ones locked as long as the tape lives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace import errors
from functrace.operands import refuse_objects
from functrace.places import user_line
from functrace.pool import SMALLEST, empty

COPY = 1 << 18  # bytes up to which an array is copied, rather than locked
_SAMPLES = 64
_locks: dict[int, int] = {}
_guard = threading.RLock()  # re-entrant: a lock may be released by the collector, anywhere


class Lock:
    """A large array that a tape needs, read-only as long as the tape lives.

    Views of it that were made before can still be written through; `check` compares a few elements, and raises.
    """

    __slots__ = ("array", "digest")

    def __init__(self, array: Any) -> None:
        self.digest = samples(array)()
        with _guard:
            _locks[id(array)] = _locks.get(id(array), 0) + 1
            self.array = array  # counted from here on: an interrupt may come at any call before
            array.flags.writeable = False

    def check(self) -> None:
        """Raise if the array was changed."""
        if samples(self.array)() != self.digest:
            raise errors.MutatedError(
                f"an array ({errors.describe(self.array)}) was changed after it was recorded, through a view of it, so the derivative "
                f"would be of other numbers.\n  At {user_line(3)}.\n  Write to a copy of it, or make the derivative first."
            )

    def __del__(self) -> None:
        if not hasattr(self, "array"):
            return
        with _guard:
            _locks[id(self.array)] -= 1
            if not _locks[id(self.array)]:
                del _locks[id(self.array)]
                self.array.flags.writeable = True


def locked(x: Any) -> bool:
    """Whether a tape or a program keeps this array read-only."""
    return id(x) in _locks


def samples(x: Any) -> Callable[[], bytes]:
    """A function that reads some elements, by which a change of the array is noticed."""
    step = max(1, x.size // _SAMPLES)
    if x.flags.c_contiguous:
        return x.reshape(-1)[::step].tobytes  # type: ignore[no-any-return]
    return lambda: x.flat[::step].tobytes()


def writeable(x: Any) -> bool:
    """Whether anything that shares memory with `x` could be written to."""
    while isinstance(x, np.ndarray):
        if x.flags.writeable:
            return True
        x = x.base
    return x is not None


def safe(x: Any, copy: int = COPY) -> Any:
    """What a tape may keep of an array: itself if nothing can change it, a copy, or a `Lock` if it has more than `copy` bytes."""
    if x.dtype.kind == "O":
        refuse_objects()
    if locked(x):
        return Lock(x)
    if not writeable(x):
        return x
    if x.nbytes > copy and x.base is None and x.flags.c_contiguous:
        return Lock(x)
    if not x.flags.c_contiguous and (shown := _shown(x)) is not None:
        start, end = (a.__array_interface__["data"][0] for a in (shown, x))
        return np.ndarray(x.shape, x.dtype, shown.copy(), end - start, x.strides)
    if x.nbytes < SMALLEST or not x.flags.c_contiguous:
        return x.copy("K")  # lying as it does: NumPy's reshape asks
    out = empty(x.shape, x.dtype)
    out[...] = x
    return out


def _shown(x: Any) -> Any:
    """The smaller array behind `x`, if windows or broadcasting repeat its elements; else None."""
    root = x
    while (below := getattr(root, "base", None)) is not None:  # NumPy's windows are of an object that has the array
        root = below
    return root if type(root) is np.ndarray and root.flags.c_contiguous and root.nbytes < x.nbytes else None
