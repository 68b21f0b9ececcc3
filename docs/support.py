"""Writes `docs/support.md` from the declarations: `python -m docs.support`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import functrace  # the declarations are made by importing it
from functrace.ops.coverage import PLAIN, REFUSED
from functrace.ops.protocol import FUNCTIONS
from functrace.ops.registry import TABLE, Declared

PAGE = Path(__file__).with_name("support.md")

_HEAD = """# What is supported

<!-- Written by `python -m docs.support` from functrace.ops.registry.TABLE. Don't edit. -->

Each function is available as `functrace.numpy.NAME`. NumPy's own function does the same on traced values where the second column
names it. These tables hold every public name of `numpy`, `numpy.linalg`, `numpy.fft`, `numpy.emath`, `numpy.polynomial` and
`ndarray`: what is covered, what no traced value enters, and what is refused. A refused function raises when it is called on a
traced value, and is NumPy's own, untouched, on any other.

- *differentiable*: reverse, forward, batched (`vmap`) and to any order. *constant*: it works on traced values, its derivative is
  zero by definition (comparisons, rounding, index functions, shapes), and its results are no part of the tape.
- *domain*: where the tests draw the arguments from, one interval for each argument, or one for all. The function works wherever
  NumPy's does.
- *samples*: the number of calls that its declaration gives to the [sweep](../CONTRIBUTING.md#how-the-sweep-works), each checked in
  every mode.
"""


def _numpy_name(declared: Declared) -> str:
    found = declared.numpy if isinstance(declared.numpy, tuple) else (declared.numpy,)
    names = []
    for function in found:
        name = getattr(function, "__name__", "")
        owner: Any = getattr(function, "__self__", None)  # np.add.reduce is a method of np.add
        name = f"{owner.__name__}.{name}" if hasattr(owner, "__name__") and hasattr(owner, "nin") else name
        module = getattr(function, "__module__", None) or "numpy"
        if name:
            names.append(f"`{'np' + module.removeprefix('numpy') if module.startswith('numpy') else module}.{name}`")
    return ", ".join(dict.fromkeys(names)) or "(only in `functrace.numpy`)"


def _domain(declared: Declared) -> str:
    if declared.domain is None:
        return ""
    intervals = [f"({lo:g}, {hi:g})" for lo, hi in declared.domain]
    return intervals[0] if len(set(intervals)) == 1 else " × ".join(intervals)


def _row(declared: Declared) -> str:
    note = declared.note.replace("|", "\\|")
    return f"| `{declared.name}` | {_numpy_name(declared)} | {_domain(declared)} | {len(declared.samples)} | {note} |"


def _table(title: str, rows: Iterable[Declared]) -> str:
    rows = sorted(rows, key=lambda d: d.name)
    head = f"## {title}: {len(rows)}\n\n| function | NumPy's own | domain | samples | note |\n|---|---|---|---|---|\n"
    return head + "".join(_row(d) + "\n" for d in rows)


def _reasons(title: str, table: dict[str, str]) -> str:
    rows = "".join(f"| {reason} | {' '.join(f'`{name}`' for name in sorted(names.split()))} |\n" for reason, names in table.items())
    return f"## {title}: {sum(len(names.split()) for names in table.values())}\n\n| why | names |\n|---|---|\n{rows}"


def _others() -> str:
    declared = {id(f) for d in TABLE.values() for f in (d.numpy if isinstance(d.numpy, tuple) else (d.numpy,))}
    names = sorted({f.__name__ for f in FUNCTIONS if id(f) not in declared})
    classes = "`poly1d` `polynomial.Polynomial` `Chebyshev` `Legendre` `Hermite` `HermiteE` `Laguerre` `vectorize` `r_` `c_` `ndenumerate`"
    return (
        "## Not in the sweep\n\nFunctions that write into their argument, or give dtypes, text or indices, have tests of their own: "
        f"{' '.join(f'`{name}`' for name in names)}.\nOf `functrace.numpy`: {classes}, `chebinterpolate` of a function that gives traced "
        "values. (`poly1d`: NumPy's own class, of traced coefficients.)\n"
    )


def page() -> str:
    """The page as it should be."""
    assert inspect.ismodule(functrace)
    differentiable = _table("Differentiable", (d for d in TABLE.values() if not d.constant))
    constant = _table("Constant", (d for d in TABLE.values() if d.constant))
    rest = f"{_others()}\n{_reasons('Plain', PLAIN)}\n{_reasons('Refused', REFUSED)}"
    return f"{_HEAD}\n{differentiable}\n{constant}\n{rest}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE}: {len(TABLE)} functions")
