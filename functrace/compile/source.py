"""What generated code is made of: lines, and the names of the constants and functions in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.compile.fuse import REDUCTIONS, axes_of
from functrace.compile.program import GuardError, Kind, same
from functrace.core.primitive import Primitive
from functrace.ops.choice import chosen
from functrace.pool import empty
from functrace.sums import LONGEST, MANY, alone

REDUCE = {name: f.reduce for name, f in REDUCTIONS.items()}
KEYWORD = (np.maximum, np.minimum)  # whose `out` by position is deprecated
LONG = 256  # lines of a program with many variables: see `Source.compile`


def by_products(x: Kind, axis: Any) -> bool:
    """Whether a sum over `axis` is one over the last, short axis of a floating-point array, that BLAS may do."""
    n = len(x.shape)
    return n > 1 and 1 < x.shape[-1] <= LONGEST and x.size >= 256 and x.dtype.char in "fd" and axes_of(axis, n) == (n - 1,)


def by_rows(x: Kind, axis: Any) -> tuple[int, ...]:
    """The axes of a sum, counted from the end, if they are axes before the last, of which `total` may add the rows by a product."""
    n = len(x.shape)
    axes = axes_of(axis, n)
    return tuple(k - n for k in axes) if n > 1 and x.size >= MANY and n - 1 not in axes and x.dtype.char in "fd" else ()


def targets(names: Sequence[str]) -> str:
    """Names on the left of an assignment that unpacks."""
    return ", ".join(names) + ("," if len(names) == 1 else "")


def select(condition: Any, x: Any, y: Any, out: Any) -> None:
    """`np.where` into `out`."""
    if not condition.any():
        if y is not out:
            np.copyto(out, y)
    elif condition.all():
        np.copyto(out, x)
    else:
        chosen(condition, x, y, out)


def product(x: Any, y: Any, out: Any) -> None:
    """`x @ y` into `out`, in pieces of rows that BLAS does on one thread, as `functrace.sums` says: others of ours run beside it."""
    count = alone(*y.shape)
    whole = len(x) - len(x) % count
    if whole:
        np.matmul(x[:whole].reshape(-1, count, x.shape[1]), y, out[:whole].reshape(-1, count, y.shape[1]))
    if whole == len(x):
        return
    x, out = x[whole:], out[whole:]
    if out.flags.c_contiguous:
        np.dot(x, y, out)
    elif out.flags.f_contiguous:
        np.dot(y.T, x.T, out.T)
    else:
        out[...] = np.dot(x, y)


def summed_product(x: Any, y: Any) -> Any:
    """`x @ y`, a sum over many rows of `y`, in such pieces."""
    rows, count = len(y), alone(len(x), y.shape[1])
    whole = rows - rows % count
    if not whole:
        return x.dot(y)
    parts = np.matmul(x[:, :whole].reshape(len(x), -1, count).swapaxes(0, 1), y[:whole].reshape(-1, count, y.shape[1]))
    found = np.add.reduce(parts, 0)
    return found if whole == rows else np.add(found, x[:, whole:].dot(y[whole:]), found)


def fail(number: int, found: Any) -> None:
    """Leave a program at a guard."""
    raise GuardError(number, found)


class Source:
    """Lines of code, and the names that they use."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"np": np, "fail": fail, "same": same, "select": select, "empty": empty}
        self.known: dict[int, str] = {}

    def name(self, x: Any, prefix: str = "c") -> str:
        """The name of a constant or function."""
        if x is None or type(x) in (bool, int) or type(x) is tuple and all(type(p) in (int, bool) for p in x):
            return repr(x)
        name = self.known.get(id(x))
        if name is None:
            name = f"{prefix}{len(self.known)}"
            self.known[id(x)] = name
            self.names[name] = x  # which keeps it, and so its id
        return name

    def function(self, p: Primitive) -> str:
        """The name of what computes a primitive."""
        name = p.name if p.name.isidentifier() and p.name not in self.names else ""
        if not name:
            return self.name(p.fun, "f")
        if id(p.fun) not in self.known:
            self.known[id(p.fun)] = name
            self.names[name] = p.fun
        return self.known[id(p.fun)]

    def compile(self, what: str, name: str) -> Callable[..., Any]:
        """The function of this name that the lines define. Its namespace has it not: it would keep itself alive.

        A long one runs as a generator: its many variables would fill the piece of memory from which Python 3.11 and later take the
        variables of functions, so that each function that it calls may have to fetch another piece, and give it back.
        """
        *lines, last = self.lines
        long = len(lines) > LONG and last.startswith("    return ")
        exec(compile("\n".join([*lines, last.replace("return", "yield", 1) if long else last]), f"<jit of {what}>", "exec"), self.names)
        made = self.names.pop(name)
        return (lambda *args: next(made(*args))) if long else made
