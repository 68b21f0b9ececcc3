"""The passes, in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Callable

from functrace.compile.cancel import cancelled
from functrace.compile.merge import early_sums, flattened, gathered, merged, ranked, reads_first, stacked
from functrace.compile.passes import algebra, checks, common, dead, expand, moves, regroup, scalars, sink
from functrace.compile.program import Program

PASSES: tuple[Callable[[Program], Program], ...] = (
    dead,
    expand,
    moves,
    sink,
    algebra,
    early_sums,
    checks,
    flattened,
    common,
    cancelled,
    stacked,
    regroup,
    merged,
    gathered,
    ranked,
    dead,
    scalars,
    reads_first,
)


def optimise(program: Program) -> Program:
    """All passes, in order."""
    for one in PASSES:
        program = one(program)
    return program
