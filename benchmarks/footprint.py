"""What a gradient costs beside time: memory of the reverse replay, a tape of a million entries, import time."""

from __future__ import annotations

import gc
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from typing import Any

import numpy as np

from benchmarks.harness import duration


def replay_memory() -> dict[str, Any]:
    """Peak of the reverse replay above what the forward run keeps, in arrays of the size of the argument."""
    import functrace as ft
    import functrace.numpy as fnp
    from functrace import pool

    x = np.linspace(0.1, 0.2, 1 << 17)

    def f(x: Any) -> Any:
        for _ in range(20):
            x = fnp.sin(x) * x + x
        return fnp.sum(x)

    ft.grad(f)(x)
    smallest, pool.SMALLEST = pool.SMALLEST, sys.maxsize  # what the tape holds, not what is kept for its next use
    tracemalloc.start()
    try:
        start = tracemalloc.get_traced_memory()[0]
        _, pullback = ft.vjp(f, x)
        residuals = tracemalloc.get_traced_memory()[0] - start
        tracemalloc.reset_peak()
        pullback(np.ones(()))
        peak_vjp = tracemalloc.get_traced_memory()[1] - start
        del pullback, _
        start = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        ft.grad(f)(x)
        peak_grad = tracemalloc.get_traced_memory()[1] - start
    finally:
        tracemalloc.stop()
        pool.SMALLEST = smallest
    size = x.nbytes
    return {"residuals": residuals / size, "peak of pullback": peak_vjp / size, "peak of grad": peak_grad / size}


def long_tape(entries: int) -> dict[str, Any]:
    """A tape of so many scalar entries under a stack of 200 frames, without the garbage collector."""
    import functrace as ft

    def f(x: Any) -> Any:
        for _ in range(entries // 2):
            x = x * 0.999 + 0.001
        return x

    gradient = ft.grad(f)
    x = np.float64(0.5)
    limit = sys.getrecursionlimit()
    gradient(x)
    gc.collect()
    gc.disable()
    try:
        sys.setrecursionlimit(200)
        start = time.perf_counter()
        got = gradient(x)
        seconds = time.perf_counter() - start
        assert np.isclose(got, 0.999 ** (entries // 2)), got
        del got
        tracemalloc.start()
        gradient(x)  # fills the interpreter's own lists of freed tuples
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        gradient(x)
        after, peak = tracemalloc.get_traced_memory()
    finally:
        sys.setrecursionlimit(limit)
        tracemalloc.stop()
        gc.enable()
    return {"seconds": seconds, "bytes per entry": (peak - before) / entries, "bytes kept": after - before}


def import_time(module: str, rounds: int, cache: str) -> float:
    """Median seconds that `import module` takes in a new interpreter that has imported NumPy, with bytecode in the folder `cache`.

    A folder of its own, filled by the first run, so that all are compiled alike, whatever the environment says.
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    program = f"import time, numpy; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    times = []
    for _ in range(rounds + 1):
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
        if run.returncode:
            return float("nan")
        times.append(float(run.stdout))
    return statistics.median(times[1:])


def start_up(rounds: int) -> dict[str, float]:
    """Median seconds of whole processes: a program that only imports PyTorch, by the shim and by PyTorch, beside NumPy's own import.

    Without the site's start-up files, which an environment for development has many of.
    """
    program = ["-c", "import torch"]
    commands = {"numpy": ["-c", "import numpy"], "functrace.torch": ["-m", "functrace.torch", *program], "torch": program}
    times: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as cache:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for _ in range(rounds + 1):  # the first fills the cache
            for name, command in commands.items():
                start = time.perf_counter()
                run = subprocess.run([sys.executable, "-S", *command], capture_output=True, check=False, env=environment)
                times[name].append(float("nan") if run.returncode else time.perf_counter() - start)
    return {name: statistics.median(seconds[1:]) for name, seconds in times.items()}


def report(quick: bool) -> dict[str, Any]:
    """Measure and print all three."""
    out: dict[str, Any] = {}
    try:
        out["memory"] = memory = replay_memory()
        print("\nmemory of grad, 20 x (x = sin(x) * x + x), in arrays of the size of x")
        print("  " + ", ".join(f"{name} {value:.1f}" for name, value in memory.items()))
        entries = 100_000 if quick else 1_000_000
        out["tape"] = tape = long_tape(entries)
        print(f"\ntape of {entries} scalar entries, recursion limit 200, no garbage collection")
        print(f"  {duration(tape['seconds'])}, {tape['bytes per entry']:.0f} bytes per entry at the peak, {tape['bytes kept']} bytes kept")
    except Exception as error:
        print(f"\nfootprint FAILED: {type(error).__name__}: {error}")
    print("\nimport time over NumPy's own")
    rounds = 3 if quick else 7
    with tempfile.TemporaryDirectory() as cache:
        out["import"] = {module: import_time(module, rounds, cache) for module in ("functrace", "autograd", "mygrad", "jax", "torch")}
    for module, seconds in out["import"].items():
        print(f"  {module:12}{duration(seconds) if math.isfinite(seconds) else 'absent':>10}")
    out["start"] = start_up(rounds)
    print("\na program that only imports it, whole")
    for module, seconds in out["start"].items():
        print(f"  {module:16}{duration(seconds) if math.isfinite(seconds) else 'absent':>10}")
    return out
