"""Recorded constants must not change under the tape: small ones are copied, large ones locked as long as the tape lives."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

_COPY = 1 << 20  # bytes up to which a constant is copied, rather than locked
_locks: dict[int, int] = {}
_locks_guard = threading.RLock()  # a lock may be released by the collector, anywhere


class Lock:
    """A large array that a tape needs, read-only as long as the tape lives: who writes to it is told by NumPy."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array
        with _locks_guard:
            _locks[id(array)] = _locks.get(id(array), 0) + 1
            array.flags.writeable = False

    def __del__(self) -> None:
        with _locks_guard:
            _locks[id(self.array)] -= 1
            if not _locks[id(self.array)]:
                del _locks[id(self.array)]
                self.array.flags.writeable = True


def safe(x: Any) -> Any:
    """What the tape may keep of a constant: the value itself if nothing can change it, a copy, or a `Lock` that holds it."""
    if type(x) is not np.ndarray or not x.flags.writeable:
        return x
    return x.copy() if x.nbytes <= _COPY or x.base is not None else Lock(x)
