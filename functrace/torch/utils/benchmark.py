"""`torch.utils.benchmark`: how long a statement takes, as Python's `timeit` measures it."""

from __future__ import annotations

import statistics
import sys
import timeit
from typing import Any

from functrace.torch._missing import missing

_UNITS = {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


class Measurement:
    """What `Timer` found: `times` in seconds, each the mean of `number_per_run` runs."""

    def __init__(self, number_per_run: int, raw_times: list[float], stmt: str) -> None:
        self.number_per_run, self.raw_times, self.stmt = number_per_run, raw_times, stmt
        self.times = [t / number_per_run for t in raw_times]
        self.mean, self.median = statistics.fmean(self.times), statistics.median(self.times)

    def __repr__(self) -> str:
        number, unit = next((1 / size, u) for u, size in _UNITS.items() if self.median >= size or u == "ns")
        runs = f"{len(self.times)} measurements, {self.number_per_run} runs per measurement"
        return f"{object.__repr__(self)}\n{self.stmt}\n  {self.median * number:.2f} {unit}\n  {runs}"


class Timer:
    """Measures `stmt`, after `setup`, in the names of `globals`; labels are for the caller, and there is one thread."""

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", *, globals: dict[str, Any] | None = None, timer: Any = timeit.default_timer, **_: Any
    ) -> None:
        names = {"torch": sys.modules["functrace.torch"], **(globals or {})}
        self.stmt, self._timer = stmt, timeit.Timer(stmt, setup, timer, names)

    def timeit(self, number: int = 1000000) -> Measurement:
        """The mean of `number` runs."""
        self._timer.timeit(max(number // 100, 2))
        return Measurement(number, [self._timer.timeit(number)], self.stmt)

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """As many measurements as fit into `min_run_time` seconds, at least one."""
        number, last = self._timer.autorange()
        number = max(1, round(number * min_run_time / 20 / last))
        raw = [self._timer.timeit(number)]
        while sum(raw) < min_run_time:
            raw.append(self._timer.timeit(number))
        return Measurement(number, raw, self.stmt)

    adaptive_autorange = blocked_autorange


__getattr__ = missing("torch.utils.benchmark")
