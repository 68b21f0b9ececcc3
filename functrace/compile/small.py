"""Linear algebra of up to three unknowns, on Python's floats: as LAPACK does it, by elimination with partial pivoting.

NumPy takes several microseconds to look at such a matrix before it calls LAPACK. The functions here are written out for each size, and
what solves and inverses of one matrix share, its triangular factors, is computed once. Equal to NumPy's, to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.compile.passes import maker, rewritten
from functrace.compile.program import Instruction, Kind, Program
from functrace.compile.source import Source
from functrace.core.primitive import Primitive

SIZES = (1, 2, 3)


def _factors(n: int) -> list[str]:
    """The source of a function of the elements of a matrix: its factors in place of them, the rows in their order, and its sign."""
    rows = [[f"a{i}{j}" for j in range(n)] + [f"p{i}"] for i in range(n)]
    lines = [f"def factors{n}({', '.join([x for row in rows for x in row[:-1]])}):"]
    lines.append(f"    {', '.join([row[-1] for row in rows])}, sign = {', '.join(map(str, range(n)))}, 1.0")
    for k, top in enumerate(rows):
        for row in rows[k + 1 :]:
            lines.append(f"    if abs({row[k]}) > abs({top[k]}):")
            lines.append(f"        {', '.join([*top, *row, 'sign'])} = {', '.join([*row, *top, '-sign'])}")
        for row in rows[k + 1 :]:
            lines.append(f"    if {top[k]}: {row[k]} /= {top[k]}")
            lines += [f"    {x} -= {row[k]} * {y}" for x, y in zip(row[k + 1 : -1], top[k + 1 : -1])]
    return [*lines, f"    return {', '.join([x for row in rows for x in row])}, sign"]


def _of_factors(n: int) -> list[list[str]]:
    """The sources of the functions of the factors: the solution for a right-hand side, and the determinant, its sign and its logarithm."""
    unpacked = f"    {', '.join([x for i in range(n) for x in (*[f'a{i}{j}' for j in range(n)], f'p{i}')])}, sign = f"
    diagonal = [f"a{i}{i}" for i in range(n)]
    regular = " and ".join(diagonal)
    lines = [f"def solved{n}(f, *b):", unpacked, f"    if not ({regular}): raise LinAlgError('Singular matrix')"]
    for i in range(n):
        lines.append(f"    x{i} = b[p{i}]{''.join([f' - a{i}{j} * x{j}' for j in range(i)])}")
    for i in reversed(range(n)):
        lines.append(f"    x{i} = (x{i}{''.join([f' - a{i}{j} * x{j}' for j in range(i + 1, n)])}) / a{i}{i}")
    return [
        [*lines, f"    return {', '.join([f'x{i}' for i in range(n)])},"],
        [f"def det{n}(f):", unpacked, f"    return sign * {' * '.join(diagonal)}"],
        [
            f"def sign_of_det{n}(f):",
            unpacked,
            *(f"    if {x} < 0: sign = -sign" for x in diagonal),
            f"    return sign if {regular} else 0.0",
        ],
        [f"def log_of_det{n}(f):", unpacked, f"    return {' + '.join([f'log(abs({x}))' for x in diagonal])} if {regular} else -inf"],
    ]


def _function(lines: list[str]) -> tuple[str, Callable[..., Any]]:
    source, name = Source(), lines[0][4 : lines[0].index("(")]
    source.lines = lines
    source.names |= {"log": math.log, "inf": math.inf, "LinAlgError": np.linalg.LinAlgError}
    return name, source.compile("small matrices", name)


FUNCTIONS = dict(_function(lines) for n in SIZES for lines in (_factors(n), *_of_factors(n)))
# What is known here, and the nanoseconds that NumPy takes.
NANOSECONDS = {"linalg.solve": 5000, "linalg.inv": 5000, "linalg.lower_inv": 5000, "linalg.det": 4000}
NANOSECONDS |= {"sign_of_det": 5000, "log_of_det": 5000}


def _internal(name: str, k: int) -> Primitive:
    return Primitive(name, lambda x: np.linalg.slogdet(x)[k], arity=1, constant=True, batch=lambda *_: None)


_PARTS = _internal("sign_of_det", 0), _internal("log_of_det", 1)


def fits(kind: Kind | None) -> bool:
    """Whether a value is one small square matrix of float64."""
    return kind is not None and kind.shape in [(n, n) for n in SIZES] and kind.dtype == np.float64


def halved(program: Program) -> Program:
    """With the sign or the logarithm of the determinant of a small matrix alone, in the place of a part of what `slogdet` gives."""

    def rule(i: Instruction, made: dict[int, Instruction]) -> Instruction | None:
        by = maker(made, i.args[0], "linalg.slogdet")
        if by is None or not fits(program.kinds[by.args[0]]):
            return None
        return Instruction(_PARTS[i.params[0]], i.out, by.args, ())

    return rewritten(program, rule, "item")


def by_elements(i: Instruction, args: list[Any], call: Callable[..., str]) -> Any:
    """The names of the elements of a result, of those of the arguments; `call` names the result of one of `FUNCTIONS`, or an item of it."""
    name, x = i.primitive.name, args[0]
    n = x.shape[-1]
    factors = call(f"factors{n}", *x.flat)
    if name in ("linalg.det", "sign_of_det", "log_of_det"):
        return call(f"{name.removeprefix('linalg.')}{n}", factors)
    sides = args[1] if name == "linalg.solve" else np.where(np.eye(n, dtype=bool), "1.0", "0.0").astype(object)
    columns = np.swapaxes(sides, -1, -2)
    solutions = [call(f"solved{n}", factors, *column) for column in columns.reshape(-1, n)]
    found = [call(f"{{0}}[{j}]", s) for s in solutions for j in range(n)]
    return np.swapaxes(np.array(found, object).reshape(columns.shape), -1, -2)
