"""Large work in pieces on several threads: NumPy gives up the interpreter's lock in its loops.

One pool for the whole process, made when it is first needed, of as many threads as there are CPUs that the process may use.
`FUNCTRACE_THREADS=1` in the environment, or `set_count(1)`, turns it off.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from queue import SimpleQueue


class _Pool:
    """Threads that wait for jobs. A job is its pieces, which whoever is free takes one by one, the caller too."""

    def __init__(self) -> None:
        from queue import SimpleQueue

        self.jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.started = 0
        self.starting = threading.Lock()

    def start(self, workers: int) -> int:
        """Have this many threads, or as many as can be had: a browser's Python has none, nor has any that is about to end."""
        with self.starting, contextlib.suppress(RuntimeError):
            while self.started < workers:
                threading.Thread(target=self.serve, name=f"functrace-{self.started}", daemon=True).start()
                self.started += 1
        return min(self.started, workers)

    def serve(self) -> None:
        while True:
            self.jobs.get()()


@functools.cache
def _pool() -> _Pool:
    return _Pool()


def _cpus() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    return len(affinity(0)) if affinity else os.cpu_count() or 1


_given = os.environ.get("FUNCTRACE_THREADS") or str(_cpus())
if not _given.strip().isdecimal():
    raise ValueError(
        f"the environment variable FUNCTRACE_THREADS is {_given!r}; it must be a number of threads, 1 for none but the caller's"
    )
_count = max(1, int(_given))


def count() -> int:
    """How many threads work at a time, the caller's among them. 1: none but the caller's."""
    return _count


def set_count(n: int) -> int:
    """Let `n` threads work at a time, the caller's among them, and return how many it were before.

    >>> before = set_count(1)
    >>> set_count(before)
    1
    """
    global _count
    if n < 1:
        raise ValueError(f"threads.set_count: n is {n}; it must be 1 (no other threads) or more")
    before, _count = _count, n
    return before


def run(task: Callable[[Any], object], pieces: Iterable[Any]) -> None:
    """Call `task` with each piece, on all threads at once; return when all are done, raising the first exception of any.

    Pieces that have not begun when one raises are dropped. A task may itself call `run`: the caller never waits for a thread to
    become free, only for pieces already begun.

    >>> out = [0, 0]
    >>> run(lambda k: out.__setitem__(k, k + 1), [0, 1])
    >>> out
    [1, 2]
    """
    todo = deque(functools.partial(task, piece) for piece in pieces)  # empty in the end: helpers that come too late hold nothing
    helpers = min(_count, len(todo)) - 1
    if helpers < 1:
        for piece in todo:
            piece()
        return
    from queue import SimpleQueue  # here: a program of small arrays needs none of this

    pool = _pool()
    if pool.started < helpers:
        helpers = pool.start(helpers)
    begun, ended = [False] * helpers, [False] * helpers
    raised: list[BaseException] = []
    done: SimpleQueue[None] = SimpleQueue()

    def take() -> None:
        while todo:
            try:
                piece = todo.popleft()
            except IndexError:
                return
            try:
                piece()
            except BaseException as error:
                todo.clear()
                raised.append(error)

    def helper(k: int, context: contextvars.Context) -> Callable[[], None]:
        def job() -> None:
            if todo:
                begun[k] = True
                context.run(take)
                ended[k] = True
                done.put(None)

        return job

    jobs = map(helper, range(helpers), [contextvars.copy_context() for _ in begun])  # NumPy's error state is a context variable
    while True:
        try:
            for job in jobs:
                pool.jobs.put(job)
            take()
            while begun != ended:  # who begins only now finds no piece
                done.get()
            break
        except BaseException as error:  # an interrupt: nobody may write to what the caller holds once it has gone on
            todo.clear()
            raised.append(error)
    if raised:
        raise raised[0]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # the threads stayed with the parent
