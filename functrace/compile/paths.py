"""What a jitted function knows of one signature: the ways through it that were recorded, and when they may be replayed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace import errors
from functrace.compile.bindings import Binding, Bindings, Watched
from functrace.compile.capture import form
from functrace.compile.emit import Executable
from functrace.compile.optimise import optimise
from functrace.compile.program import GUARD, Program, same
from functrace.places import line_of


class Path:
    """One recorded way through a function: the program as recorded, what runs, and the structure of the result."""

    __slots__ = ("asked", "executable", "found", "guards", "outdef", "program")

    def __init__(self, program: Program, outdef: Any, asked: Sequence[Any], donated: Sequence[int] = ()) -> None:
        self.program, self.outdef, self.asked = program, outdef, asked
        self.guards = [i for i in program.instructions if i.primitive is GUARD]
        self.found = [i.params[1] for i in self.guards]
        fails = any(i.params[0] is form for i in self.guards)  # it may, in a `try`, and is run again
        self.executable = Executable(optimise(program), "f", () if fails else donated)

    def like(self, other: Path) -> bool:
        """Whether another is the same way."""
        return len(self.found) == len(other.found) and all(map(same, self.found, other.found))

    def run(self, inputs: list[Any]) -> Any:
        """The results. Donated inputs that may not be written to (read-only, views, passed twice) are copied first."""
        for k in self.executable.overwritten:
            x = inputs[k]
            others = (y for j, y in enumerate(inputs) if j != k and isinstance(y, np.ndarray))
            if not (x.flags.writeable and x.flags.c_contiguous and x.flags.owndata) or any(np.may_share_memory(x, y) for y in others):
                inputs[k] = x.copy()
        return self.executable(inputs)

    def left(self, number: int, found: Any) -> str:
        """The guard at which a replay left this path: what Python asked of a value, what it found, and the user's line."""
        told = errors.describe(found) if isinstance(found, np.ndarray) else repr(found)
        return f"{self.program.asked(self.guards[number])} found {told}, at {line_of(*self.asked[number])}"


class Variant:
    """What is known of one signature: its paths, and what the function read beside its arguments when they were recorded."""

    __slots__ = ("arrays", "bindings", "last", "others", "paths", "reason", "recorded", "side_effects", "used")

    def __init__(self, others: Sequence[Any]) -> None:
        self.others = others  # arguments that are neither arrays nor numbers
        self.reason: str | None = None  # why it runs without being compiled
        self.side_effects: list[Binding] = []
        self.used: list[Binding] = []  # that it both set and read when it was recorded
        self.recorded = 0
        self.clear()

    def clear(self) -> None:
        """Forget its paths."""
        self.paths: list[Path] = []
        self.last: Path | None = None
        self.bindings: Bindings | None = None
        self.arrays: list[Watched] = []

    def stale(self) -> str | None:
        """What has changed outside the function since it was recorded."""
        if self.bindings is not None and (name := self.bindings.changed()) is not None:
            return f"{name} has changed"
        return next((f"the elements of {w.name} have changed" for w in self.arrays if w.changed()), None)

    def sibling(self, path: Path, number: int, found: Any) -> Path | None:
        """A path that agrees with `path` up to a guard, where it finds what was found now."""
        way = [*path.found[:number], found]
        return next((p for p in self.paths if len(p.found) >= len(way) and all(map(same, p.found, way))), None)
