"""`trace`: the tape of a function, to be read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace import errors, tree
from functrace.core.primitive import Primitive
from functrace.core.tape import Tape, record
from functrace.core.tracer import Tracer, value
from functrace.transforms.arguments import name_of, signature


def trace(f: Callable[..., Any]) -> Callable[..., Tape]:
    """A function that returns the tape of `f`: every op that ran, one a line, with names, shapes, dtypes and the user's line.

    Array and number leaves of the arguments are the tape's inputs. Transforms inside `f` show as the ops that they run.

    >>> import functrace as ft, numpy as np
    >>> tape = ft.trace(lambda x: np.sin(x) * 2)(1.0)
    >>> print(str(tape).split("  #")[0])
    x : float64[]
    %1 : float64[] = sin(x)
    """

    @functools.wraps(f)
    def traced(*args: Any, **kwargs: Any) -> Tape:
        leaves, treedef = tree.flatten((args, kwargs))
        places = [
            k
            for k, x in enumerate(leaves)
            if isinstance(x, (Tracer, np.ndarray, np.generic, float, int, complex)) and not isinstance(x, bool)
        ]

        def run(*inputs: Any) -> list[Any]:
            full = list(leaves)
            for k, x in zip(places, inputs):
                full[k] = x
            positional, keywords = tree.unflatten(treedef, full)
            return tree.leaves(f(*positional, **keywords))

        inputs = [leaves[k] if hasattr(leaves[k], "dtype") else np.asarray(leaves[k])[()] for k in places]
        tape = record(run, inputs, f"trace({name_of(f)})", everything=True)
        tape.names = [_names(f, args, kwargs)[k] for k in places]
        return tape

    return traced


def _names(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """A name for each leaf: the parameter's, and the way to the leaf in it."""
    try:
        parameters = list(signature(f).parameters)
    except (TypeError, ValueError):
        parameters = []
    parameters += [f"arg{k}" for k in range(len(parameters), len(args))]
    out = []
    for name, arg in [*zip(parameters, args), *((k, kwargs[k]) for k in sorted(kwargs))]:
        out += [name + path for path in tree.paths(arg)]
    return out


def show(tape: Tape) -> str:
    """A tape as text: one op a line, with names, shapes, dtypes and the user's line where it was kept."""
    names = dict(enumerate(tape.names))
    lines = [f"{names.get(k, f'%{k}')} : {errors.describe(x)}" for k, x in enumerate(tape.inputs)]
    for row, (primitive, out, slots, args, ans, params) in enumerate(tape.entries):
        names.setdefault(out, f"%{out}")
        operands = [names.get(s, f"%{s}") if s >= 0 else _constant(a) for s, a in zip(slots, args)]
        shown = [*operands, *(name + _constant(p) for name, p in zip(_parameters(primitive, len(params)), params))]
        where = f"  # {errors.line_of(*tape.frames[row])}" if row < len(tape.frames) else ""
        kind = " x ".join(map(errors.describe, ans)) if isinstance(ans, tuple) else errors.describe(ans)
        lines.append(f"{names[out]} : {kind} = {primitive.name}({', '.join(shown)}){where}")
    returned = [names.get(s, f"%{s}") if s >= 0 else _constant(x) for s, x in zip(tape.slots, tape.outputs)]
    return "\n".join([*lines, f"return {', '.join(returned)}"])


def _parameters(primitive: Primitive, count: int) -> list[str]:
    """`axis=` for each parameter of an op, as its function calls them."""
    try:
        names = list(signature(primitive.fun).parameters)[primitive.arity or 0 :]
    except (TypeError, ValueError):
        names = []
    return [f"{name}=" for name in names[:count]] if primitive.arity and len(names) >= count else [""] * count


def _constant(x: Any) -> str:
    """A constant or parameter, in full if it is short by nature."""
    x = value(x)
    if isinstance(x, tuple) and all(isinstance(item, _SHORT) for item in x):
        return repr(x)
    if isinstance(x, _SHORT) or (hasattr(x, "dtype") and x.shape == ()) or hasattr(x, "function"):
        return repr(x)
    return errors.describe(x) if hasattr(x, "dtype") else "..."


_SHORT = (int, float, complex, bool, str, slice, type(None), type(...), np.dtype, np.generic)


Tape.__str__ = Tape.__repr__ = show  # type: ignore[method-assign, assignment]
