"""What the workloads share: contestants, the check that they agree, interleaved timing, and the table.

Every contestant runs in a process of its own, so that no library lives with the allocator and the threads of another. The
processes stay, and take turns: times are medians over rounds, in which each has one turn, so that noise of the machine falls
on all alike. A turn is a pause, in which the worker threads of the one before go to sleep (OpenBLAS spins for a tenth of a
second), then a tenth of a second of calls that are not counted, as in a loop that has been running (caches fill, clocks rise, and the
kernel moves a second thread to the second core only after some 50 ms), then those that are. The garbage collector stays on, as it is
for users.
"""

from __future__ import annotations

import importlib
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

Run = Callable[[], Any]
Build = Callable[[Any], Run]
OURS, EAGER, JIT, HAND = "ours", "eager", "jit", "by hand"
FASTEST = "fastest eager peer"
PAUSE = 0.15  # seconds
WARM = 0.1
COUNTED = 0.02


@dataclass
class Target:
    """`ours` is to take at most `most` times the time of `peer`."""

    peer: str
    most: float
    ours: str = "functrace"


@dataclass
class Workload:
    """One computation in several libraries, for several sizes of the problem."""

    name: str
    about: str
    problem: Callable[..., Any]
    sizes: Mapping[str, Mapping[str, Any]]
    targets: list[Target] = field(default_factory=list)
    quick: tuple[str, ...] = ()  # the sizes of a quick run; empty: all
    rtol: float = 1e-6
    contestants: list[tuple[str, str, Build]] = field(default_factory=list)

    def contestant(self, kind: str, label: str) -> Callable[[Build], Build]:
        """Decorator: the function builds this contestant. If it raises ImportError, it does not take part."""

        def enter(build: Build) -> Build:
            self.contestants.append((kind, label, build))
            return build

        return enter


@dataclass
class Row:
    """A contestant in one run, and what became of it."""

    kind: str
    label: str
    samples: list[float] = field(default_factory=list)
    faults: float = 0.0
    note: str = ""

    @property
    def seconds(self) -> float:
        """Median time of one call."""
        return statistics.median(self.samples) if self.samples else float("nan")


def jax() -> Any:
    """JAX, told to honour float64 as all others do."""
    import jax

    jax.config.update("jax_enable_x64", True)
    return jax


def leaves(tree: Any) -> Iterator[np.ndarray]:
    """The arrays of a result, in the order of its containers."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, (list, tuple)):
        for part in tree:
            yield from leaves(part)
    elif tree is not None:
        yield np.asarray(tree.detach() if hasattr(tree, "detach") else tree)


def disagreement(expected: list[np.ndarray], got: list[np.ndarray], rtol: float) -> str:
    """What differs between two results; empty if they agree to `rtol` of the largest element of each array."""
    if len(expected) != len(got):
        return f"{len(got)} arrays instead of {len(expected)}"
    for k, (a, b) in enumerate(zip(expected, got)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"array {k} is {b.dtype}{b.shape} instead of {a.dtype}{a.shape}"
        if not np.allclose(a, b, rtol=rtol, atol=rtol * float(np.abs(a).max(initial=0))):
            return f"array {k} differs by {np.abs(a - b).max():.2g} (largest element {np.abs(a).max():.2g})"
    return ""


def clock(run: Run, number: int) -> float:
    """Seconds for one call, from `number` calls."""
    start = time.perf_counter()
    for _ in range(number):
        run()
    return (time.perf_counter() - start) / number


def page_faults() -> int:
    """Pages of memory that this process had to be given so far."""
    try:
        import resource
    except ImportError:  # not a Unix
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def contest(pipe: Any, module: str, name: str, size: str, label: str) -> None:
    """The process of one contestant: build it, send its result or why there is none; then one turn for each message."""
    run, answer = None, None
    try:
        workload = next(w for w in importlib.import_module(module).WORKLOADS if w.name == name)
        build = next(build for _, one, build in workload.contestants if one == label)
        run = build(workload.problem(**workload.sizes[size]))
        answer = [np.array(x) for x in leaves(run())]
    except ImportError as error:
        run, answer = None, f"skipped: {error}"
    except Exception as error:  # a broken contestant is a line in the table, not the end of the run
        run, answer = None, f"FAILED: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    pipe.send(answer)
    if run is None:
        return
    once = clock(run, 1)
    once = min(once, clock(run, max(1, int(2e-3 / max(once, 1e-7)))))
    number = max(1, int(COUNTED / max(once, 1e-7)))
    while pipe.recv():
        end = time.perf_counter() + WARM
        while time.perf_counter() < end:
            clock(run, (number + 9) // 10)
        faults = page_faults()
        seconds = clock(run, number)
        pipe.send((seconds, (page_faults() - faults) / number))


def measure(module: str, workload: Workload, size: str, seconds: float) -> list[Row]:
    """Start the contestants, check them against each other, and time them in turn, about `seconds` each."""
    context = multiprocessing.get_context("spawn")
    rows = [Row(kind, label) for kind, label, _ in workload.contestants]
    pipes, processes = [], []
    for row in rows:
        ours, theirs = context.Pipe()
        processes.append(context.Process(target=contest, args=(theirs, module, workload.name, size, row.label), daemon=True))
        processes[-1].start()
        theirs.close()
        pipes.append(ours)
    try:
        expected: list[np.ndarray] = []
        for row, pipe in zip(rows, pipes):
            try:
                got = pipe.recv()
            except EOFError:
                got = "FAILED: the process died"
            if isinstance(got, str):
                row.note = got
            elif expected and (difference := disagreement(expected, got, workload.rtol)):
                row.note = f"DISAGREES: {difference}"
            expected = expected or (got if not row.note else [])
        able = [(row, pipe) for row, pipe in zip(rows, pipes) if not row.note]
        end = time.perf_counter() + seconds * len(able)
        while able and (len(able[0][0].samples) < 5 or time.perf_counter() < end):
            for row, pipe in able:
                time.sleep(PAUSE)
                pipe.send(True)
                sample, row.faults = pipe.recv()
                row.samples.append(sample)
        return rows
    finally:
        for process in processes:
            process.terminate()


def ratios(workload: Workload, rows: list[Row]) -> list[tuple[Target, float]]:
    """The targets of the workload, with what was measured."""
    times = {row.label: row.seconds for row in rows if row.samples}
    peers = [row.seconds for row in rows if row.samples and row.kind == EAGER]
    if peers:
        times[FASTEST] = min(peers)
    return [(t, times[t.ours] / times[t.peer]) for t in workload.targets if t.ours in times and t.peer in times]


def duration(seconds: float) -> str:
    """Three figures and a unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def table(title: str, workload: Workload, rows: list[Row]) -> str:
    """The rows by time, beside functrace's, and the targets."""
    ours = next((row.seconds for row in rows if row.kind == OURS and row.samples), float("nan"))
    lines = [title, f"  {'':34}{'kind':>9}{'median':>11}{'/ functrace':>13}{'functrace /':>13}{'page faults':>13}"]
    for row in sorted(rows, key=lambda row: (not row.samples, row.seconds)):
        if row.samples:
            times = f"{duration(row.seconds):>11}{row.seconds / ours:>13.2f}{ours / row.seconds:>13.2f}"
            lines.append(f"  {row.label:34}{row.kind:>9}{times}{row.faults:>13.0f}")
        else:
            lines.append(f"  {row.label:34}{row.kind:>9}  {row.note}")
    for target, ratio in ratios(workload, rows):
        verdict = "met" if ratio <= target.most else "MISSED"
        lines.append(f"  target: {target.ours} at most {target.most:g} x {target.peer}: {ratio:.2f}  {verdict}")
    return "\n".join(lines)


def namespace(**items: Any) -> SimpleNamespace:
    """A problem: named arrays."""
    return SimpleNamespace(**items)
