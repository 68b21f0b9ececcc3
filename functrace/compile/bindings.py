"""What a function reads beside its arguments: its closure, its globals, its defaults, and the objects that these lead to.

A program is the function's for as long as all of them are what they were. Names are compared by identity, numbers by value, and
arrays that someone else could write to by their elements: small ones in full; large ones are locked, as those on a tape are.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from functrace import errors
from functrace.core.tracer import Tracer
from functrace.locks import COPY, Lock

_LIMIT = 2000  # objects looked at
_ATOMS = (int, float, complex, bool, str, bytes, type(None), np.generic)
_OPAQUE = (type, types.ModuleType, types.BuiltinFunctionType, np.ufunc, np.dtype)


class Binding:
    """One name, and what it stood for."""

    __slots__ = ("get", "key", "name", "was")

    def __init__(self, name: str, get: Callable[[Any], Any], key: Any, was: Any) -> None:
        self.name, self.get, self.key, self.was = name, get, key, was

    def changed(self) -> bool:
        """Whether it stands for something else now."""
        try:
            now = self.get(self.key)
        except (LookupError, ValueError, AttributeError):
            return True
        was = self.was
        return now is not was and not (isinstance(was, _ATOMS) and type(now) is type(was) and (now == was or (now != now and was != was)))


def _names_of(code: types.CodeType) -> list[str]:
    """The global names that a function and those defined in it may read."""
    names: dict[str, None] = {}
    todo = [code]
    while todo:
        c = todo.pop()
        names.update(dict.fromkeys(c.co_names))
        todo += [k for k in c.co_consts if isinstance(k, types.CodeType)]
    return list(names)


def _cell(cell: types.CellType) -> Any:
    return cell.cell_contents


def _is_closed(x: Any) -> bool:
    """Whether an argument is an object with a state that can't be seen."""
    return not (isinstance(x, (*_ATOMS, *_OPAQUE)) or callable(x) or isinstance(getattr(x, "__dict__", None), dict) and not _ours(x))


def _ours(x: Any) -> bool:
    return type(x).__module__.startswith(("numpy", "functrace."))


class Bindings:
    """Everything that functions, and what else they are given, could be found to read: `changed` names what is no longer the same."""

    __slots__ = ("arrays", "bindings", "closed", "generators", "traced")

    def __init__(self, *roots: Any) -> None:
        self.bindings: list[Binding] = []
        self.arrays: dict[int, tuple[str, Any]] = {}
        self.generators: list[Any] = []
        self.closed = next((type(x).__name__ for x in roots if _is_closed(x)), "")  # a root that can't be looked into
        self.traced = False  # whether a traced value is among them
        seen: set[int] = set()
        todo: list[tuple[str, Any]] = [(getattr(x, "__name__", type(x).__name__), x) for x in roots]
        while todo and len(self.bindings) < _LIMIT:
            name, x = todo.pop()
            if isinstance(x, Tracer):
                self.traced = True
            if id(x) in seen or isinstance(x, (*_ATOMS, *_OPAQUE, Tracer)):
                continue
            seen.add(id(x))
            if isinstance(x, np.ndarray):
                self.arrays[id(x)] = (name, x)
            elif isinstance(x, types.FunctionType):
                todo += self._function(name, x)
            elif isinstance(x, types.MethodType):
                todo += [(name, x.__func__), ("self", x.__self__)]
            elif isinstance(x, (np.random.Generator, np.random.RandomState)):
                self.generators.append((x, _state(x)))
            else:
                todo += self._members(name, x)

    def _function(self, name: str, f: types.FunctionType) -> list[tuple[str, Any]]:
        found = []
        for label, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
            try:
                contents = cell.cell_contents
            except ValueError:  # not yet assigned
                continue
            self.bindings.append(Binding(label, _cell, cell, contents))
            found.append((label, contents))
        if errors.is_user_file[f.__code__.co_filename]:
            for label in _names_of(f.__code__):
                if label in f.__globals__:
                    self.bindings.append(Binding(label, f.__globals__.__getitem__, label, f.__globals__[label]))
                    found.append((label, f.__globals__[label]))
        return found + [(name, x) for x in (f.__defaults__ or (), f.__kwdefaults__ or {}, getattr(f, "__wrapped__", None))]

    def _members(self, name: str, x: Any) -> list[tuple[str, Any]]:
        items: list[tuple[str, Any, Any]]
        if isinstance(x, (list, tuple)):
            items = [(f"{name}[{k}]", k, v) for k, v in enumerate(x[:_LIMIT])]
        elif isinstance(x, dict):
            items = [(f"{name}[{k!r}]", k, v) for k, v in islice(x.items(), _LIMIT)]
        elif isinstance(getattr(x, "__dict__", None), dict) and not _ours(x):
            x = x.__dict__
            items = [(f"{name}.{k}", k, v) for k, v in x.items()]
        elif hasattr(x, "__dict__"):  # ours: a function with a rule of its own, or a jitted one
            return [(name, v) for v in vars(x).values() if callable(v)]
        else:
            return []
        if not isinstance(x, tuple):
            self.bindings.append(Binding(f"len({name})", _length, x, len(x)))
            self.bindings += [Binding(label, x.__getitem__, k, v) for label, k, v in items]
        return [(label, v) for label, _, v in items]

    def changed(self) -> str | None:
        """The name of something that is not what it was."""
        for b in self.bindings:
            now = None
            try:
                now = b.get(b.key)
            except (LookupError, ValueError):
                return b.name
            if now is not b.was and b.changed():
                return b.name
        return None

    def drew(self) -> bool:
        """Whether a random generator among them was used."""
        return any(_state(g) != state for g, state in self.generators)


def _length(x: Any) -> int:
    return len(x)


def _state(g: Any) -> str:
    return str(g.bit_generator.state if isinstance(g, np.random.Generator) else g.get_state(legacy=False))


def _root(x: np.ndarray[Any, Any]) -> Any:
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


def writeable(x: Any) -> bool:
    """Whether anything that shares memory with `x` could be written to."""
    while isinstance(x, np.ndarray):
        if x.flags.writeable:
            return True
        x = x.base
    return x is not None


class Watched:
    """An array that others could write to. A large one that the program itself reads is locked."""

    __slots__ = ("array", "digest", "lock")

    def __init__(self, x: np.ndarray[Any, Any], lock: bool) -> None:
        self.array = x
        self.lock = Lock(x) if lock and x.nbytes > COPY and x.base is None else None
        self.digest = digest(x)

    def changed(self) -> bool:
        """Whether its elements are not what they were."""
        return digest(self.array) != self.digest


def digest(x: Any) -> bytes:
    """The elements of an array that is not locked, 64 elements of a larger one."""
    if x.nbytes <= COPY:
        return x.tobytes()  # type: ignore[no-any-return]
    return bytes(np.ascontiguousarray(x.reshape(-1)[:: x.size // 64] if x.flags.c_contiguous else x.flat[:: x.size // 64]))


def watched(sources: Sequence[Any], known: dict[int, tuple[str, Any]]) -> list[Watched]:
    """Those of the arrays that constants came from that someone else holds, and the arrays `known` to be read.

    An array that only `sources` refers to was made by the function itself, and can't change.
    """
    out: dict[int, Watched] = {}
    for k in range(len(sources)):
        if id(sources[k]) not in out:
            root = _root(sources[k])
            own = 1 if sources[k].nbytes <= COPY or sources[k].base is not None else 2  # sources, and the constant itself
            # Held also by: the name `root`, the call of getrefcount; a view holds its root.
            alone = root.base is None and sys.getrefcount(root) <= 2 + own and sys.getrefcount(sources[k]) <= 1 + own + (root is sources[k])
            if not alone or id(root) in known:
                out[id(sources[k])] = Watched(sources[k], True)
    for key, (_, x) in known.items():
        if key not in out and writeable(x) and x.dtype.kind != "O":
            out[key] = Watched(x, False)
    return list(out.values())
