"""What a function reads beside its arguments: its closure, its globals, its defaults, and the objects that these lead to.

A program is the function's for as long as all of them are what they were. Names are compared by identity, numbers by value, and
arrays that someone else could write to by their elements: small ones in full; large ones are locked, as those on a tape are.
"""

from __future__ import annotations

import os
import random
import sys
import types
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import Any

import numpy as np

from functrace import errors
from functrace.compile.program import same
from functrace.core.tracer import Tracer
from functrace.locks import COPY, Lock, writeable

_LIMIT = 2000  # objects looked at
_ATOMS = (int, float, complex, bool, str, bytes, type(None), np.generic)
_OPAQUE = (types.BuiltinFunctionType, types.CodeType, types.FrameType, types.TracebackType, np.ufunc, np.dtype)
_COPIED = (set, frozenset, deque, bytearray, memoryview, array)
_LIBRARY = os.path.dirname(os.__file__)


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
        if self.get is list:  # a copy
            return len(now) != len(self.was) or not all(map(_unchanged, now, self.was))
        return not _unchanged(now, self.was)


def _unchanged(now: Any, was: Any) -> bool:
    return now is was or isinstance(was, _ATOMS) and same(now, was)


def _names_of(code: types.CodeType) -> list[str]:
    """The names, of globals and of attributes, that a function and those defined in it may read."""
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
    if isinstance(x, (*_ATOMS, *_OPAQUE, type, types.ModuleType)) or callable(x):
        return False
    return _ours(x) or not (isinstance(getattr(x, "__dict__", None), dict) or _slots(type(x)))


def _ours(x: Any) -> bool:
    return type(x).__module__.startswith(("numpy", "functrace."))


@lru_cache(1024)
def _is_users(module: str) -> bool:
    """Whether a module belongs to the program, and to no library."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return module not in sys.builtin_module_names
    return errors.is_user_file[file] and not file.startswith(_LIBRARY) and "-packages" not in file


def _slots(cls: type) -> list[tuple[str, Callable[[Any], Any]]]:
    """The attributes of a class's objects that are in no `__dict__`."""
    members = {k: v for c in reversed(cls.__mro__) for k, v in vars(c).items()}
    return [(k, v.__get__) for k, v in members.items() if isinstance(v, types.MemberDescriptorType)]


class Bindings:
    """Everything that functions, and what else they are given, could be found to read: `changed` names what is no longer the same."""

    __slots__ = ("arrays", "bindings", "closed", "generators", "names", "spaces", "traced")

    def __init__(self, *roots: Any) -> None:
        self.bindings: list[Binding] = []
        self.arrays: dict[int, tuple[str, Any]] = {}
        self.generators: list[Any] = []
        self.closed = next((type(x).__name__ for x in roots if _is_closed(x)), "")  # what can't be looked into
        self.traced = False  # whether a traced value is among them
        self.names: dict[str, None] = {}  # that functions read, of globals or of attributes
        self.spaces: dict[int, tuple[str, Any, set[str]]] = {}  # modules and classes of the program, and the names that were looked up
        seen: set[int] = set()
        todo: list[tuple[str, Any]] = [(getattr(x, "__name__", type(x).__name__), x) for x in roots]
        while (todo or self._spaces(todo)) and len(self.bindings) < _LIMIT:
            name, x = todo.pop()
            if isinstance(x, Tracer) and not x.owner.closed:
                self.traced = True
            if id(x) in seen or isinstance(x, (*_ATOMS, *_OPAQUE, Tracer)):
                continue
            seen.add(id(x))
            if isinstance(x, np.ndarray):
                self.arrays[id(x)] = (name, x)
            elif isinstance(x, types.FunctionType):
                todo += self._function(name, x)
            elif isinstance(x, (type, types.ModuleType)):
                for space in x.__mro__ if isinstance(x, type) else (x,):
                    if _is_users(space.__module__ if isinstance(space, type) else space.__name__):
                        self.spaces.setdefault(id(space), (space.__name__, space, set()))
            elif isinstance(x, (np.random.Generator, np.random.RandomState, random.Random)):
                self.generators.append((x, _state(x)))
            else:
                todo += self._members(name, x)

    def _bind(self, label: str, get: Callable[[Any], Any], key: Any, value: Any) -> tuple[str, Any]:
        self.bindings.append(Binding(label, get, key, value))
        return label, value

    def _function(self, name: str, f: types.FunctionType) -> list[tuple[str, Any]]:
        found = []
        for label, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
            try:
                found.append(self._bind(label, _cell, cell, cell.cell_contents))
            except ValueError:  # not yet assigned
                continue
        if errors.is_user_file[f.__code__.co_filename]:
            names = _names_of(f.__code__)
            self.names.update(dict.fromkeys(names))
            found += [self._bind(k, f.__globals__.__getitem__, k, f.__globals__[k]) for k in names if k in f.__globals__]
            for defaults in ("__defaults__", "__kwdefaults__"):
                if getattr(f, defaults):
                    found.append(self._bind(f"{name}.{defaults}", attrgetter(defaults), f, getattr(f, defaults)))
        return [*found, (name, getattr(f, "__wrapped__", None))]

    def _spaces(self, todo: list[tuple[str, Any]]) -> bool:
        """Put to `todo` what the names that functions read stand for in modules and classes, where that has not been done."""
        for name, space, done in list(self.spaces.values()):
            members = vars(space)
            for k in [k for k in members if k not in done and (k in self.names or k.startswith("__") and isinstance(space, type))]:
                done.add(k)
                if k in self.names:
                    todo.append(self._bind(f"{name}.{k}", members.__getitem__, k, members[k]))
                elif isinstance(members[k], types.FunctionType):  # an operator, a call
                    todo.append((f"{name}.{k}", members[k]))
        return bool(todo)

    def _members(self, name: str, x: Any) -> list[tuple[str, Any]]:
        if isinstance(x, tuple):
            return [(f"{name}[{k}]", v) for k, v in enumerate(x[:_LIMIT])] + [(name, type(x))]
        found: list[tuple[str, Any]] = [(name, type(x))]
        if isinstance(x, (list, dict)):
            self._bind(f"len({name})", len, x, len(x))
            items = islice(enumerate(x) if isinstance(x, list) else x.items(), _LIMIT)
            found += [self._bind(f"{name}[{k!r}]", x.__getitem__, k, v) for k, v in items]
        elif isinstance(x, _COPIED):
            found += [(name, v) for v in self._bind(name, list, x, list(x))[1][:_LIMIT]]
        elif _ours(x):  # a function with a rule of its own, or a jitted one
            return [(name, v) for v in getattr(x, "__dict__", {}).values() if callable(v)]
        inside = getattr(x, "__dict__", None)
        if isinstance(inside, dict):
            self._bind(f"len({name})", len, inside, len(inside))
            found += [self._bind(f"{name}.{k}", inside.__getitem__, k, v) for k, v in list(inside.items())]
        elif hasattr(type(x), "__next__"):
            self.closed = type(x).__name__
        for k, get in _slots(type(x)):
            try:
                found.append(self._bind(f"{name}.{k}", get, x, get(x)))
            except AttributeError:  # not yet assigned
                continue
        return found

    def changed(self) -> str | None:
        """The name of something that is not what it was."""
        for b in self.bindings:
            now = None
            try:
                now = b.get(b.key)
            except (LookupError, ValueError, AttributeError):
                return b.name
            if now is not b.was and b.changed():
                return b.name
        return None

    def drew(self) -> bool:
        """Whether a random generator among them was used."""
        return any(_state(g) != state for g, state in self.generators)


def _state(g: Any) -> Any:
    if isinstance(g, random.Random):
        return g.getstate()
    return _frozen(g.bit_generator.state if isinstance(g, np.random.Generator) else g.get_state(legacy=False))


def _frozen(state: Any) -> Any:
    """The state of a generator, to be compared: its arrays as bytes."""
    if isinstance(state, dict):
        return {k: _frozen(v) for k, v in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state


def drawn() -> tuple[Any, ...]:
    """The state of the generators of the process: another once someone has drawn from them."""
    return _frozen(np.random.get_state(legacy=False)) if "numpy.random" in sys.modules else None, random.getstate()  # noqa: NPY002


def _root(x: np.ndarray[Any, Any]) -> Any:
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


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
