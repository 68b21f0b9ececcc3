"""The passes, in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Callable

from functrace.compile.cancel import cancelled
from functrace.compile.matrices import joined, symmetric, triangles
from functrace.compile.merge import abreast, early_sums, flattened, gathered, merged, ranked, reads_first, stacked
from functrace.compile.passes import algebra, common, dead, expand, moves, regroup, scalars, sink
from functrace.compile.program import Program
from functrace.compile.small import halved
from functrace.compile.totals import checks, totals

PASSES: tuple[Callable[[Program], Program], ...] = (
    dead,  # for those that ask how often a value is used
    expand,  # to lay open what the others look for
    moves,
    sink,
    algebra,
    symmetric,
    early_sums,  # of products that `algebra` has rid of their signs
    checks,
    flattened,  # the products that `early_sums` and `checks` have left whole
    common,
    cancelled,  # which tells values by their numbers: those of `common`
    abreast,
    triangles,
    joined,
    stacked,
    regroup,
    merged,
    gathered,  # the parts that `merged` has left single
    ranked,
    halved,
    totals,  # after those that look for sums
    dead,
    scalars,  # after those that ask whether a constant is a number of Python's
    reads_first,  # last: it makes an instruction that no other pass knows, and an order that they do not keep
)


def optimise(program: Program) -> Program:
    """All passes, in order."""
    for one in PASSES:
        program = one(program)
    return program
