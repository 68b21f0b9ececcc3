"""Scalar replacement: arrays of a few float64 elements as Python's floats, one local variable for each element.

A call of NumPy's takes as long as fifteen operations on floats. Where a program works on states of two or three numbers, on points in
space or on small matrices, it is faster without such arrays; and what only moves elements (an index, `stack`, `transpose`) is done once,
when the program is written, on arrays of names. Arithmetic on floats is NumPy's to the last bit, but for the order of sums; it does not
warn of overflows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from functrace.compile import small
from functrace.compile.passes import is_elementwise
from functrace.compile.program import ARRAY, GUARD, NUMBER, SCALAR, Instruction, Kind, Program

FEW = 9  # elements of an array, at most
LINES = 1 << 15  # operations on elements in one program, at most
LONGEST = 100  # letters of an expression that is written where it is read
FLOAT, BOOL = np.dtype(np.float64), np.dtype(np.bool_)

SUMS = {"add": "{0} + {1}", "subtract": "{0} - {1}", "multiply": "{0} * {1}"}
ARITHMETIC = SUMS | {"square": "{0} * {0}", "negative": "-{0}", "absolute": "abs({0})"}
_CHOSEN = "{{0}} if {{0}} {0} {{1}} or {{0}} != {{0}} else {{1}}"  # of two zeros the second
CHOICES = {"maximum": _CHOSEN.format(">"), "minimum": _CHOSEN.format("<")}
TESTS = {"less": "{0} < {1}", "less_equal": "{0} <= {1}", "greater": "{0} > {1}", "greater_equal": "{0} >= {1}"}
TESTS |= {"equal": "{0} == {1}", "not_equal": "{0} != {1}"}
CHOICE = "{1} if {0} else {2}"
_DIVIDED = "{0} / {1} if {1} else quotient({0}, {1})"
FINITE = {"isfinite": "-inf < {0} < inf"}
_ROOT = "root({0}) if {0} >= 0 else real_root({0})"
_FLOATS = ARITHMETIC | CHOICES | {"divide": _DIVIDED, "sqrt": _ROOT}
_FLOATS |= {"sign": "1.0 if {0} > 0 else -1.0 if {0} < 0 else {0} if {0} else 0.0"}
_LOGIC = {"bitwise_and": "{0} and {1}", "bitwise_or": "{0} or {1}", "logical_and": "{0} and {1}", "logical_or": "{0} or {1}"}
_LOGIC |= {"invert": "not {0}", "logical_not": "not {0}"}
# What makes arrays of elements of others, or of sums and products of them, and the nanoseconds that NumPy takes.
_MOVES = {"getitem": 80, "reshape": 90, "transpose": 110, "broadcast_to": 1500, "stack": 1200, "concatenate": 500, "placed": 700}
_MOVES |= {"index_add": 600, "index_set": 600, "sum": 650, "matmul": 400, "sum_of_parts": 800, "roll": 500}
_MOVES |= {"diagonals": 500, "on_diagonal": 700, "taken": 300, "repeat": 500, "cumsum": 800, "prod": 700, "cross": 9000}
_CASTS = {"astype": 500, "astype_constant": 500}
_MOVES |= _CASTS
_TOTALS = frozenset(("sum", "matmul"))  # which are never -0
_UFUNC, _OF_SCALARS, _WHERE, _LINE, _BRANCH, _CALL = 200, 38, 500, 13, 8, 300  # nanoseconds too


def _quotient(x: float, y: float) -> float:
    return float(np.divide(x, y))


def _real_root(x: float) -> float:
    return float(np.sqrt(x))


# What the lines call; at zeros and negative numbers NumPy, which gives infinities and NaN, and warns.
NAMES: dict[str, Any] = {"root": math.sqrt, "quotient": _quotient, "real_root": _real_root, "inf": math.inf, "nan": math.nan}
NAMES |= {"float64": np.float64, "bool_": np.bool_, "array": np.array} | small.FUNCTIONS


class Element:
    """An element as its text, a name or a number. Its operators, which NumPy calls where it sums objects, write lines."""

    __slots__ = ("text", "write")

    def __init__(self, text: str, write: Callable[[str, tuple[str, ...]], str]) -> None:
        self.text, self.write = text, write

    def _with(self, form: str, *operands: Any) -> Element:
        return Element(self.write(form, tuple(map(_text, operands))), self.write)

    def __add__(self, other: Any) -> Element:
        return self._with(SUMS["add"], self, other)

    def __radd__(self, other: Any) -> Element:
        return self._with(SUMS["add"], other, self)

    def __mul__(self, other: Any) -> Element:
        return self._with(SUMS["multiply"], self, other)

    def __sub__(self, other: Any) -> Element:
        return self._with(SUMS["subtract"], self, other)


def text_of(x: Any) -> str:
    """A number as the text of a float, a truth value as that of a bool."""
    if isinstance(x, (bool, np.bool_)):
        return repr(bool(x))
    x = float(x)
    return repr(x) if math.isfinite(x) else "nan" if x != x else f"{'-' * (x < 0)}inf"


def _text(x: Any) -> str:
    x = x[()] if isinstance(x, np.ndarray) else x
    return x.text if isinstance(x, Element) else text_of(x)


_texts_of = np.frompyfunc(_text, 1, 1)


def nested(names: Any, opening: str = "(", closing: str = ")") -> str:
    """An array of names as tuples in tuples."""
    if not names.shape:
        return str(names[()])
    parts = [nested(x, opening, closing) for x in names] if names.ndim > 1 else names.tolist()
    return f"{opening}{', '.join(parts)}{',' * (len(parts) == 1)}{closing}"


@cache
def _reads(form: str) -> tuple[int, ...]:
    """How often a form reads each of its operands."""
    return tuple([form.count(f"{{{k}}}") for k in range(FEW + 1)])


def takes_floats(i: Instruction, kinds: dict[int, Any]) -> bool:
    """Whether an instruction may be given Python floats for its scalars: a guard, or a ufunc of scalars alone without an operator."""
    if i.primitive is GUARD:
        return all((kind := kinds[a]) is not None and kind.form != ARRAY for a in i.args)
    if not _is_scalar(kinds[i.out]) or not is_elementwise(i.primitive) or i.primitive.name in _FLOATS:
        return False
    return all(_is_scalar(kinds[a]) for a in i.args)


def _is_scalar(kind: Kind | None) -> bool:
    return kind is not None and kind.form != ARRAY and bool(kind.dtype == FLOAT)


def fits(kind: Kind | None) -> bool:
    """Whether a value is a small array of floats or truth values, or one of them."""
    return kind is not None and kind.dtype in (FLOAT, BOOL) and 0 < kind.size <= FEW


class Elements:
    """Which results of a program are kept as elements (`few`), and the lines that compute them.

    `steps` are the instructions that run one by one. In the body of a loop the inputs that are `still` cost nothing, nor does a part of
    the state that nobody reads as an array.
    """

    def __init__(self, program: Program, steps: Sequence[Instruction], states: dict[int, int], still: range | None) -> None:
        self.program, self.kinds = program, program.kinds
        self.few: set[int] = set()
        self.names: dict[int, Any] = {}  # of each value, as far as it can be read by elements: an array of texts
        self.lines: dict[int, list[tuple[str, str, tuple[str, ...]]]] = {}  # of each result: name = form.format(*operands)
        self.calls: dict[Any, str] = {}  # of the functions of `small`, with these operands, which are not all numbers: the result
        self.count = 0
        self.uses: Counter[str] = Counter()
        self.inlined: dict[str, str] = {}
        self.steps: list[Instruction] = []  # those that can be done on elements
        if "raise" in np.geterr().values():  # Python's floats would not
            return
        with np.errstate(all="ignore"):
            self.steps = [i for i in steps if i.primitive is not GUARD and self.count < LINES and self._compute(i)]
        made = {i.out for i in self.steps}
        arrays = set(program.outputs) if still is None else set()
        for i in program.instructions:
            if i.out not in made and not takes_floats(i, self.kinds):
                arrays.update(i.args)
        free = {*(still or ()), *(k for k in states if k not in arrays)}
        arrays |= {v for k, v in states.items() if k not in free}
        for part in self._parts():
            if self._cost(part, arrays, free) < sum(map(self._usual, part)):
                self.few.update(i.out for i in part)

    # What can be done

    def of(self, v: int) -> Any:
        """The texts of the elements of a value, in an array of its shape; None if it has too many, or others than floats and truths."""
        if v not in self.names and self._takes(v):
            if v < 0:
                self.names[v] = np.array(_texts_of(np.asarray(self.program.constant(v), object)), object)
            else:
                shape = self.kinds[v].shape
                self.names[v] = np.array([f"x{v}_{k}" for k in range(math.prod(shape))], object).reshape(shape)
        return self.names.get(v)

    def _takes(self, v: int) -> bool:
        kind = self.kinds[v]
        if kind is not None and kind.dtype.kind == "i" and not kind.shape:
            return abs(self.program.constant(v)) < 2**53 if v < 0 else bool(kind.form == SCALAR)
        return fits(kind)

    def _compute(self, i: Instruction) -> bool:
        """Write the lines of an instruction, and name its elements, if that can be done."""
        out = self.kinds[i.out]
        if not fits(out) or out.form == NUMBER or not i.args:
            return False
        args = [self.of(a) for a in i.args]
        if any(a is None for a in args):
            return False
        lines: list[tuple[str, str, tuple[str, ...]]] = []
        floats = all(a < 0 or self.kinds[a].dtype == FLOAT for a in i.args)

        def write(form: str, operands: tuple[str, ...]) -> str:
            if floats and operands[-1] == "1.0" and form in (SUMS["multiply"], _DIVIDED):
                return operands[0]
            if floats and operands[0] == "1.0" and form == SUMS["multiply"]:
                return operands[1]
            if form in CHOICES.values() and operands[0][0] in "-0123456789":  # not NaN
                form = form.replace(" or {0} != {0}", "")
            if form == _DIVIDED and operands[1][0] in "-0123456789" and float(operands[1]):
                form = "{0} / {1}"
            lines.append((f"e{self.count + len(lines)}", form, operands))
            return lines[-1][0]

        def call(form: str, *operands: str) -> str:
            if "{" not in form:
                form += f"({', '.join([f'{{{k}}}' for k in range(len(operands))])})"
            key = form, operands
            if key not in self.calls:
                name = write(form, operands)
                if all(x in NAMES or not x.isidentifier() for x in operands):  # which other parts may have, too
                    return name
                self.calls[key] = name
            return self.calls[key]

        form = self._form(i, out)
        if i.primitive.name in small.NANOSECONDS:
            if not small.fits(self.kinds[i.args[0]]):
                return False
            found = small.by_elements(i, args, call)
        elif form is not None:
            found = np.frompyfunc(lambda *operands: write(form, operands), len(args), 1)(*args)
        elif i.primitive.name in _MOVES and all(self.kinds[a].dtype == out.dtype for a in i.args):
            objects = [np.array(np.frompyfunc(lambda x: Element(x, write), 1, 1)(a), object) for a in args]
            try:
                found = i.primitive.fun(*objects, *[np.dtype(object) if isinstance(p, np.dtype) else p for p in i.params])
                found = _texts_of(found + 0.0 if i.primitive.name in _TOTALS else found)
            except (TypeError, ValueError, AttributeError):  # it is not for objects
                return False
        else:
            return False
        self.names[i.out], self.lines[i.out] = np.array(found, object), lines
        self.count += len(lines)
        return True

    def _form(self, i: Instruction, out: Kind) -> str | None:
        """How each element of an elementwise result is computed; None if it is not known."""
        name, dtypes = i.primitive.name, [self.kinds[a].dtype for a in i.args]
        if name == "where":
            same = all(d == out.dtype or a < 0 and BOOL not in (d, out.dtype) for a, d in zip(i.args[1:], dtypes[1:]))
            return CHOICE if dtypes[0] == BOOL and same else None
        if name in _CASTS:
            return "1.0 if {0} else 0.0" if dtypes == [BOOL] and out.dtype == FLOAT else None
        if not is_elementwise(i.primitive):
            return None
        if out.dtype == FLOAT:
            return _FLOATS.get(name) if FLOAT in dtypes and (BOOL not in dtypes or name in SUMS) else None
        if all(d == BOOL for d in dtypes):
            return _LOGIC.get(name)
        return (TESTS | FINITE).get(name) if all(d == FLOAT or a < 0 and d != BOOL for a, d in zip(i.args, dtypes)) else None

    # What is worth it

    def _parts(self) -> list[list[Instruction]]:
        """The instructions in parts that share no value."""
        root: dict[int, int] = {}

        def find(v: int) -> int:
            while root.setdefault(v, v) != v:
                root[v] = v = root[root[v]]
            return v

        for i in self.steps:
            for a in i.args:
                if a >= 0:
                    root[find(a)] = find(i.out)
        parts: dict[int, list[Instruction]] = {}
        for i in self.steps:
            parts.setdefault(find(i.out), []).append(i)
        return list(parts.values())

    def _usual(self, i: Instruction) -> int:
        """Nanoseconds of an instruction, done by NumPy."""
        name, scalar = i.primitive.name, self.kinds[i.out].form != ARRAY
        if name in small.NANOSECONDS:
            return small.NANOSECONDS[name]
        if scalar and (name == "getitem" or name not in _MOVES):
            return _OF_SCALARS
        return _MOVES.get(name, _WHERE if name == "where" else _UFUNC)

    def _cost(self, part: Sequence[Instruction], arrays: set[int], free: set[int]) -> int:
        """Nanoseconds of some instructions on elements: their lines; the elements of values that are not `free`, taken out of arrays;
        those put into `arrays`.
        """
        made = {i.out for i in part}
        forms = [form for i in part for _, form, _ in self.lines[i.out]]
        inputs = {a for i in part for a in i.args if a >= 0} - made - free
        total = _LINE * len(forms) + _BRANCH * sum(" if " in form for form in forms)
        total += _CALL * sum(form.partition("(")[0] in small.FUNCTIONS for form in forms)
        total += sum(50 + 6 * kind.size if kind.form == ARRAY else 18 for kind in map(self.kinds.__getitem__, inputs))
        return total + sum(40 + 27 * kind.size if kind.form == ARRAY else 57 for kind in map(self.kinds.__getitem__, made & arrays))

    # What is written

    def need(self, values: Iterable[int]) -> None:
        """Keep the lines that the elements of these values need, which keep their names."""
        self.whole = {x for v in values for x in self.of(v).flat}
        self.uses.update(self.whole)
        for i in reversed([i for i in self.steps if i.out in self.few]):
            kept = []
            for name, form, operands in reversed(self.lines[i.out]):
                if name in self.uses:
                    kept.append((name, form, operands))
                    for x, times in zip(operands, _reads(form)):
                        self.uses[x] += times
            self.lines[i.out] = kept[::-1]

    def read(self, v: int) -> bool:
        """Whether a line reads an element of a value."""
        return not self.uses.keys().isdisjoint(self.of(v).flat)

    def code(self, v: int) -> list[str]:
        """The lines of a result. What is read once, by another line, is written there."""
        out = []
        for name, form, operands in self.lines[v]:
            text = form.format(*[self.inlined.get(x, x) for x in operands])
            if self.uses[name] == 1 and name not in self.whole and len(text) < LONGEST:
                self.inlined[name] = f"({text})"
            else:
                out.append(f"{name} = {text}")
        return out

    def unpacked(self, v: int, array: str) -> str:
        """The line that takes the elements out of an array, or makes a scalar Python's."""
        kind, names = self.kinds[v], nested(self.of(v))
        return f"{names[1:-1]} = {array}.tolist()" if kind.shape else f"{names} = {'bool' if kind.dtype == BOOL else 'float'}({array})"

    def array(self, v: int) -> str:
        """The expression of a new array, or scalar, of the elements."""
        kind, names = self.kinds[v], nested(self.of(v), "[", "]")
        return f"array({names})" if kind.form == ARRAY else f"{'bool_' if kind.dtype == BOOL else 'float64'}({names})"

    def stores(self, v: int, array: str) -> list[str]:
        """The lines that write the elements to an array."""
        return [f"{array}[{', '.join(map(str, place))}] = {name}" for place, name in np.ndenumerate(self.of(v))]
