"""Cancellation: a maximum that is subtracted before `exp` only to keep it in range has no derivative, and none is computed.

`exp(x - m) / sum(exp(x - m))` and `m + log(sum(exp(x - m)))` are the same for every m. A tape does not know: it computes a cotangent of
m, which is a rounding error, and gives it to the elements that are the maximum. Here it is shown to be zero by algebra. Values are written
as polynomials, whose variables are elements, what is the same along a row, and sums of products of elements along the row.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.compile.fuse import axes_of
from functrace.compile.passes import maker, rewritten
from functrace.compile.program import Instruction, Program

Term = frozenset  # of pairs: a variable, and its power
_KNOWN = frozenset("add subtract multiply divide negative square sum reshape getitem placed broadcast_to".split())
_KEEP_ZEROS = frozenset(("multiply", "divide", "negative", "reshape", "transpose", "astype"))
_DEEP, _LONG = 30, 8  # instructions that a value is followed through; terms of a polynomial
_ROUNDING = 1e-14


def _sum_of(p: dict[Any, Any], q: dict[Any, Any], sign: int = 1) -> dict[Any, Any]:
    out = dict(p)
    for term, c in q.items():
        before, c = out.pop(term, 0.0), sign * c
        if not np.all(np.abs(before + c) <= _ROUNDING * (np.abs(before) + np.abs(c))):  # NaN is none
            out[term] = before + c
    return out


def _product_of(p: dict[Any, Any], q: dict[Any, Any], sign: int = 1) -> dict[Any, Any]:
    """p * q, or p / q if `sign` is -1 and q one term."""
    out: dict[Any, Any] = {}
    for s, a in p.items():
        for t, b in q.items():
            powers = dict(s)
            for x, n in t:
                powers[x] = powers.get(x, 0) + sign * n
            out = _sum_of(out, {Term((x, n) for x, n in powers.items() if n): a * b if sign > 0 else a / b})
    return out


class _Rows:
    """Values as polynomials along the rows of an array: the axes that a maximum was taken over."""

    def __init__(self, program: Program, made: dict[int, Instruction], shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
        self.program, self.made, self.axes = program, made, axes
        self.full, self.row = shape, tuple(1 if k in axes else n for k, n in enumerate(shape))
        self.flat = tuple(n for k, n in enumerate(shape) if k not in axes)  # rows whose axes are gone
        self.count = math.prod([shape[k] for k in axes])
        self.known: dict[int, dict[Any, Any]] = {}

    def of(self, v: int, deep: int = 0) -> dict[Any, Any] | None:
        kind = self.program.kinds[v]
        if kind is None or kind.dtype.kind != "f" and v >= 0 or kind.shape not in (self.full, self.row, self.flat, ()):
            return None
        if v not in self.known:
            by = self.made.get(v)
            found = self._made(by, deep + 1) if by is not None and deep < _DEEP else None
            self.known[v] = self._variable(v) if found is None or len(found) > _LONG else found
        return self.known[v]

    def _variable(self, v: int) -> dict[Any, Any]:
        if v < 0 and self.program.kinds[v].shape != self.full:
            x = np.asarray(self.program.constant(v), np.float64)
            return {Term(): x.reshape(self.row) if x.shape else float(x)}
        return {Term(((v, 1),)): 1.0}

    def _made(self, i: Instruction, deep: int) -> dict[Any, Any] | None:
        name, kinds = i.primitive.name, self.program.kinds
        shapes = [kinds[a].shape if kinds[a] is not None else None for a in i.args]
        if name not in _KNOWN:
            return None
        found = [p for a in i.args if (p := self.of(a, deep)) is not None]
        if len(found) < len(i.args):
            return None
        p, q = found[0], found[-1]
        if name == "sum":
            return self._summed(p) if shapes[0] == self.full and axes_of(i.params[0], len(self.full)) == self.axes else None
        if name in ("reshape", "getitem", "placed"):
            return p if self._still(i, shapes[0], kinds[i.out].shape) else None
        if name == "broadcast_to":
            return p if shapes[0] in ((), self.row) and kinds[i.out].shape in (self.full, self.row) else None
        if self.flat and self.flat in shapes and not {*shapes} <= {self.flat, ()}:
            return None  # its axes meet others
        if name in ("negative", "square"):
            return _sum_of({}, p, -1) if name == "negative" else _product_of(p, p)
        if name in ("add", "subtract"):
            return _sum_of(p, q, -1 if name == "subtract" else 1)
        if name == "divide" and (len(q) != 1 or any(np.any(c == 0) for c in q.values())):
            return None
        return _product_of(p, q, -1 if name == "divide" else 1)

    def _still(self, i: Instruction, before: Any, after: Any) -> bool:
        """Whether an instruction keeps each row, and the order of the elements in it."""
        if before == after and i.primitive.name == "reshape":
            return True
        if not {before, after} <= {self.row, self.flat}:
            return False
        places = np.arange(math.prod(before)).reshape(before)
        return i.primitive.name == "reshape" or bool(np.array_equal(np.ravel(i.primitive.fun(places, *i.params)), places.reshape(-1)))

    def _summed(self, p: dict[Any, Any]) -> dict[Any, Any]:
        """The sum along the row."""
        out: dict[Any, Any] = {}
        for term, c in p.items():
            inside = Term((x, n) for x, n in term if isinstance(x, int) and self.program.kinds[x].shape == self.full)
            rest = {term - inside: c}
            ((constant, power),) = inside if len(inside) == 1 else [(0, 0)]
            if not inside:
                rest = {term: c * self.count}
            elif constant < 0 and power == 1:
                rest = {term - inside: c * np.sum(self.program.constant(constant), self.axes, np.float64, keepdims=True)}
            else:
                rest = _product_of(rest, {Term(((inside, 1),)): 1.0})  # a variable of its own
            out = _sum_of(out, rest)
        return out


def cancelled(program: Program) -> Program:
    """Without the cotangents of maxima that are zero by algebra."""
    if not program.has("max"):
        return program
    kinds = program.kinds
    zeros: set[int] = set()
    rows: dict[Any, _Rows] = {}

    def finite(v: int, made: dict[int, Instruction]) -> bool:
        """Whether a value is a constant that is neither infinite nor 0, or of truth values."""
        by = maker(made, v, "astype")
        kind = kinds[v if by is None else by.args[0]]
        if v < 0:
            return bool(np.all(np.isfinite(program.constant(v)) & (program.constant(v) != 0)))
        return kind is not None and kind.dtype == bool

    def rule(i: Instruction, made: dict[int, Instruction]) -> int | None:
        name = i.primitive.name
        if name == "divide":
            maximum = _counted(i.args[1], made)
            if maximum is not None and (kind := kinds[maximum.args[0]]) is not None:
                axes = axes_of(maximum.params[0], len(kind.shape))
                of = rows.setdefault((kind.shape, axes), _Rows(program, made, kind.shape, axes))
                if of.row != of.full and of.of(i.args[0]) == {}:
                    zeros.add(i.out)
        if name in _KEEP_ZEROS and sum(a in zeros for a in i.args) == 1 and (name != "divide" or i.args[0] in zeros):
            if all(a in zeros or finite(a, made) for a in i.args):
                zeros.add(i.out)
        elif name in ("add", "subtract"):
            x, y = i.args
            if y in zeros and kinds[x] == kinds[i.out]:
                return x
            if name == "add" and x in zeros and kinds[y] == kinds[i.out]:
                return y
        return None

    return rewritten(program, rule)


def _counted(v: int, made: dict[int, Instruction]) -> Instruction | None:
    """The maximum, if a value is the number of elements that are it."""
    steps = []
    for name in ("sum", "astype", "bitwise_or", "equal"):
        by = maker(made, v, name)
        if by is None:
            return None
        steps.append(by)
        v = by.args[0]
    x, m = steps[-1].args
    while (by := maker(made, m, "reshape")) is not None:
        m = by.args[0]
    by = maker(made, m, "max")
    return by if by is not None and by.args[0] == x else None
