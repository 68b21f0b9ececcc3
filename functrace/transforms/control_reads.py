"""What functions read beside their arguments, by which two recordings of one body might differ: closures, globals, attributes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from functrace.core.tracer import Tracer, bare
from functrace.locks import COPY
from functrace.ops.inplace import relatives
from functrace.places import is_user_file
from functrace.transforms.closures import parts

_LIMIT = 1000  # things looked at
_WHOLE = (np.ndarray, np.generic, int, float, complex, str, bytes, type(None), type, BuiltinFunctionType, ModuleType, np.ufunc, np.dtype)


def reading(call: Any) -> list[Any]:
    """What the functions of a `Call` may read beside their arguments: to tell two recordings of a step apart.

    Traced values are arguments, or refused elsewhere.
    """
    found = _read([x for k, x in vars(call).items() if k not in ("outdef", "read")])
    return _kept(x for x in found if not isinstance(x, Tracer))


def read_by(function: Any) -> list[Any]:
    """What a function may read beside its arguments, as it is now: to see later whether it has changed."""
    return _kept(map(bare, _read([function])))


def _kept(found: Iterable[Any]) -> list[Any]:
    return [x.copy() if isinstance(x, np.ndarray) and x.nbytes <= COPY else x for x in found]


def closed_over(functions: Sequence[Any]) -> list[Tracer]:
    """The traced values, of open traces, that functions may read beside their arguments."""
    return [x for x in _read([*functions]) if isinstance(x, Tracer) and x.owner.id and not x.owner.closed]


def _read(todo: list[Any]) -> list[Any]:
    """What is found in functions and containers: closures, defaults, the user's globals, and attributes are followed."""
    found: list[Any] = []
    seen = set()
    for x in todo:  # which grows: what is near comes before what a large table holds
        if len(found) >= _LIMIT:
            break
        if id(x) in seen:
            continue
        if isinstance(x, _WHOLE):
            found.append(x)
            continue
        seen.add(id(x))
        if isinstance(x, Tracer):
            found.append(x)
            todo += relatives(x)
        elif (held := parts(x)) is not None:
            todo += held
            if isinstance(x, FunctionType):
                code = x.__code__
                found.append(code)
                todo += [x.__globals__[n] for n in code.co_names if n in x.__globals__] if is_user_file[code.co_filename] else []
        elif isinstance(x, dict):
            found.append([*x])
            todo += x.values()
        elif isinstance(x, (list, tuple, set, frozenset)):
            found.append((type(x), len(x)))
            todo += x
        else:
            inside, ours = getattr(x, "__dict__", None), type(x).__module__.startswith("functrace.")  # a jitted function counts its calls
            found.append(x if inside is None else type(x))
            todo += [v for v in inside.values() if callable(v)] if ours and inside else [inside]
    return found


def same(a: Any, b: Any) -> bool:
    """Whether two values are the same, to any depth: of traced ones the numbers."""
    todo = [(a, b)]
    while todo:
        a, b = (bare(x) for x in todo.pop())
        if a is b:
            continue
        if type(a) is not type(b):
            return False
        if isinstance(a, (tuple, list)):
            if len(a) != len(b):
                return False
            todo.extend(zip(a, b))
        elif isinstance(a, (np.ndarray, np.generic)):
            if a.dtype != b.dtype or a.dtype.kind != "O" and not np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"):
                return False
        elif hasattr(a, "alike"):
            if not a.alike(b):
                return False
        elif a != b:
            return False
    return True
