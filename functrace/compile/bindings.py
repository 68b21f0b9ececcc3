"""Bindings, what a function reads beside its arguments: its closure, globals, defaults, and the objects that these lead to.

A program is the function's for as long as all of them are what they were. Names are compared by identity, numbers by value, and
arrays that someone else could write to by their elements: small ones in full; large ones are locked, as those on a tape are.
"""

from __future__ import annotations

import builtins
import io
import os
import random
import re
import sys
import types
import weakref
from array import array
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from functools import lru_cache
from itertools import accumulate, islice
from operator import attrgetter, is_, methodcaller
from sys import getrefcount
from typing import Any

import numpy as np

from functrace import errors, tree
from functrace.compile.bytecode import ANY, BY_TEXT, Reads, read_by
from functrace.compile.program import same
from functrace.core.tracer import Tracer
from functrace.locks import COPY, Lock, locked, samples, writeable
from functrace.places import is_installed, is_user_file
from functrace.references import IN_LIST, IN_LOCAL
from functrace.transforms.tracing import ProgramTracer

_MOST = 1 << 14  # objects that can be looked at before every call: a function that reads more is not compiled
_MANY = 256  # elements from which on a list, or a dict, of numbers and texts is compared as a whole
_ATOMS = (int, float, complex, bool, str, bytes, type(None), np.generic)
_SIMPLE = (*_ATOMS, type, types.FunctionType)  # keys that hold nothing
_OPAQUE = (types.BuiltinFunctionType, types.CodeType, types.FrameType, types.TracebackType, np.ufunc, np.dtype)
_VIEWS: Any = tuple(map(type, ({}.keys(), {}.values(), {}.items())))
_GENERATORS = (np.random.Generator, np.random.BitGenerator, np.random.SeedSequence, np.random.RandomState, random.Random)
_COPIED = (set, frozenset, deque, bytearray, memoryview, array)
_CONTAINERS = "collections", "queue"  # modules whose classes keep in an attribute what is put into them
_CLOSED = "it is given a {}, of which it can't be seen whether it has changed"
_SETTLED = "numpy.", "scipy."  # modules whose functions are taken as they are
_KNOWN = sys.stdlib_module_names.union(("numpy", "scipy", "torch", "functrace"))  # packages that read no attributes of a program's objects


_ABSENT = object()  # what a name stands for that has no value
_ERRORS = (LookupError, ValueError, AttributeError)  # of a name that has none
_cell, _code = attrgetter("cell_contents"), attrgetter("__code__")


def _elements(x: Any) -> list[Any]:
    if _is_frame(x):
        return [*x.arrays, *x.axes]
    if isinstance(x, (list, dict)):  # a subclass may iterate over something else
        return list(list.__iter__(x) if isinstance(x, list) else dict.values(x))
    return list(x.ravel()) if isinstance(x, np.ndarray) else list(x)


def _is_frame(x: Any) -> bool:
    """Whether it is what holds a pandas Series' or DataFrame's columns, where no Python attribute shows them."""
    return type(x).__module__ == "pandas.core.internals.managers"


def _keys(x: Any) -> tuple[Any, ...]:
    kind = next((kind for kind in (OrderedDict, dict) if isinstance(x, kind)), None)
    return tuple(kind.keys(x) if kind else x)  # a subclass may iterate over something else


_COPIES = (tuple, _keys, len)  # what gives another object each time


class Binding:
    """One name, and what it stood for."""

    __slots__ = ("get", "holder", "key", "name", "read", "was")

    def __init__(self, name: str, get: Callable[[Any], Any], key: Any, read: bool | None = None, holder: str = "") -> None:
        self.name, self.get, self.key = name, get, key
        self.read = read  # whether a function looks at it, and does not only update it; None: its name may tell
        self.holder = holder  # the name of the container that it is in, or tells the length or the keys of
        self.was = self.now()

    def now(self) -> Any:
        """What it stands for."""
        try:
            return self.get(self.key)
        except _ERRORS:
            return _ABSENT

    def changed(self) -> bool:
        """Whether it stands for something else now."""
        now = self.now()
        if self.get is _elements:  # a copy
            return len(now) != len(self.was) or not (all(map(is_, now, self.was)) or all(map(_unchanged, now, self.was)))
        return now != self.was if self.get in _COPIES else not _unchanged(now, self.was)

    def place(self) -> int:
        """A number that is the same for all names in one place."""
        key = self.key[0] if self.get is _lacks else self.key
        return key if type(key) is int else id(key)

    def is_that(self, other: Binding) -> bool:
        """Whether both are the same name in the same place, even if found by different paths."""
        if self.get is other.get is _lacks:
            return self.key[0] is other.key[0]
        of_class = isinstance(getattr(self.get, "__self__", None), types.MappingProxyType)  # which is another each time
        there = self.get == other.get or of_class and self.name == other.name
        return there and (self.key is other.key or type(self.key) is type(other.key) is int and self.key == other.key)

    def used(self, parts: Collection[Any], contents: set[str], made: Collection[Any]) -> bool:
        """Whether functions that look at these attributes and items, and at these containers' contents, look at it.

        Of what is new but for what a descriptor has `made`.
        """
        if self.within(contents):
            return True
        if self.get in (_lacks, _keys, tuple):
            home, known = (self.key[0], ()) if self.get is _lacks else (self.key, self.was)
            return any(k in parts and k not in known and k not in made for k in home if isinstance(k, (str, int)))
        if self.get is _elements:
            names = _keys(self.key) if isinstance(self.key, dict) else range(len(self.was))
            return any(k in parts and not _unchanged(*both) for k, *both in zip(names, self.now(), self.was))
        name = self.key if isinstance(self.key, (str, int)) else self.name.rpartition(".")[2]
        return name in parts and self.get not in (_cell, len) if self.read is None else self.read

    def within(self, contents: set[str]) -> bool:
        """Whether it is a part of a container whose `contents` are looked at, whatever they are."""
        path = re.findall(r"[^.\[]+(?:\[.*)?$", self.holder)  # the variable or attribute, and the keys
        return not contents.isdisjoint(name for part in path for name in re.findall(r"[^\['\"\]]+", part))

    def put(self, x: Any) -> None:
        """Let it stand for `x`, if it is a variable, an attribute of an object or an item."""
        home = getattr(self.get, "__self__", None)
        if self.get is _cell:
            self.key.cell_contents = x
        elif isinstance(home, (list, dict)):
            home[self.key] = x


def _unchanged(now: Any, was: Any) -> bool:
    return now is was or isinstance(was, _ATOMS) and same(now, was)


def _call(x: Any) -> Any:
    return x()


def _lacks(key: tuple[Any, frozenset[str]]) -> bool:
    return key[0].keys().isdisjoint(key[1])  # type: ignore[no-any-return]


def _is_closed(x: Any) -> bool:
    """Whether an argument is an object with a state that can't be seen."""
    if isinstance(x, (*_ATOMS, *_OPAQUE, type(...), frozenset, type, types.ModuleType)) or callable(x):
        return False
    seen = isinstance(getattr(x, "__dict__", None), dict) or _slots(type(x))
    return type(x).__module__.startswith(("numpy", "functrace.")) or not seen


@lru_cache(1024)
def _is_users(module: str) -> bool:
    """Whether a module belongs to the program, and to no library."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return module.partition(".")[0] not in _KNOWN
    return is_user_file[file] and not is_installed(file)


def _slots(cls: type) -> list[tuple[str, Callable[[Any], Any]]]:
    """The attributes of a class's objects that are in no `__dict__`."""
    members = {k: v for c in reversed(cls.__mro__) for k, v in vars(c).items()}
    return [(k, v.__get__) for k, v in members.items() if isinstance(v, types.MemberDescriptorType)]


def _label(x: Any) -> str:
    """What a function or object is called, in which the names begin."""
    inside = getattr(x, "__dict__", None)  # not the attribute: an object may answer for any name, or raise
    x = inside.get("__wrapped__", x) if isinstance(inside, dict) else x
    if isinstance(x, types.MethodType):
        return "self"
    return x.__name__ if isinstance(x, (types.FunctionType, type)) else type(x).__name__


def _is_plain(x: Any) -> bool:
    """Whether only the program's own functions read the attributes of an object, by name: it is no tree, nor a library's."""
    cls = type(x)
    ours = all(c is object or c.__module__ in ("abc", "typing") or _is_users(c.__module__) for c in cls.__mro__)
    return ours and not hasattr(cls, "__dataclass_fields__") and any(leaf is x for leaf in tree.leaves(x))


class Bindings:
    """Everything that functions, and what else they are given, could be found to read: `changed` names what is no longer the same."""

    __slots__ = ("arrays", "bindings", "called", "closed", "contents", "generators", "kept", "names", "parts", "spaces", "traced")

    def __init__(self, *roots: Any) -> None:
        self.bindings: list[Binding] = []
        self.arrays: dict[int, tuple[str, Any]] = {}
        self.generators: list[Any] = []
        self.closed = next((_CLOSED.format(type(x).__name__) for x in roots if _is_closed(x)), "")  # why it can't be seen what changes
        self.traced = False  # whether a traced value is among them
        self.kept: dict[int, tuple[str, Any]] = {}  # traced values of programs that are recorded already, and where they are
        self.names: dict[str, None] = {}  # that functions read, of globals or of attributes
        self.parts: set[Any] = set()  # attributes and items
        self.contents: set[str] = set()  # names of containers in which they look
        self.spaces: dict[int, tuple[str, Any, set[str]]] = {}  # of the program, by id: modules, classes, objects; the names looked up
        self.called: set[int] = set()  # classes that may be called, which are not only those of objects
        seen: set[int] = set()
        todo: list[tuple[str, Any]] = [(_label(x), x) for x in roots]
        while todo or self._spaces(todo):
            if len(seen) + len(self.bindings) > _MOST:
                self.closed = f"it reads more than {_MOST} objects beside its arguments, which it should be given as such"
                break
            name, x = todo.pop()
            if isinstance(x, Tracer):
                self.traced |= not x.owner.closed
                if isinstance(x, ProgramTracer) and x.owner.closed:
                    self.kept[id(x)] = name, x
            anything = callable(x) and getattr(x, "__name__", None) in ANY  # by another name
            if anything:
                self.names[x.__name__] = None
            if isinstance(x, _VIEWS):
                x = x.mapping
            elif isinstance(x, types.BuiltinFunctionType) and not isinstance(x.__self__, (type, types.ModuleType)):
                x = x.__self__  # a method: `table.get`
            elif isinstance(x, types.MethodType):
                todo.append((name, x.__func__))
                x = x.__self__
            if id(x) in seen or isinstance(x, (*_ATOMS, *_OPAQUE, Tracer)):
                continue
            seen.add(id(x))
            if anything and getattr(x, "__module__", "") in sys.stdlib_module_names:  # all that it reads: not the library behind it too
                continue
            todo += self._looked_into(name, x)
        if not {"environ", "getenv"}.isdisjoint(self.names):
            self._bind("os.environ", _keys, vars(os.environ)["_data"].items())  # its own items decode each text anew
        for name, space, done in self.spaces.values():
            self._bind(f"a new name in {name}", _lacks, (vars(space), frozenset(self.names).difference(done)))

    def _looked_into(self, name: str, x: Any) -> list[tuple[str, Any]]:
        """Bind what an object holds; what these names stand for, which is still to be looked at."""
        if isinstance(x, np.ndarray):
            self.arrays[id(x)] = (name, x)
            held = self._bind(name, _elements, x)[1] if x.dtype.hasobject else ()
            return [(name, v) for v in held if not isinstance(v, _ATOMS)] + ([] if type(x) is np.ndarray else self._members(name, x))
        if isinstance(x, types.FunctionType):
            return self._function(name, x)
        if isinstance(x, (type, types.ModuleType)):
            self._space(x)
            self.called.update(map(id, getattr(x, "__mro__", ())))
        elif isinstance(x, _GENERATORS):
            self.generators.append((x, _state(x)))
        else:
            return self._members(name, x)
        return []

    def _bind(self, label: str, get: Callable[[Any], Any], key: Any, read: bool | None = None, holder: str = "") -> tuple[str, Any]:
        self.bindings.append(Binding(label, get, key, read, holder))
        return label, self.bindings[-1].was

    def _space(self, x: Any) -> None:
        above: Any = type(x)
        for space in (*x.__mro__, *above.__mro__) if isinstance(x, type) else (x,):
            module = str(space.__module__ if isinstance(space, type) else space.__name__)  # of Cython's metaclass a descriptor
            if id(space) not in self.spaces and _is_users(module):
                self.spaces[id(space)] = space.__name__, space, set()
            elif module.partition(".")[0] not in _KNOWN and not _is_users(module):
                self.names["vars"] = None  # what it is given it may read by any name

    def _function(self, name: str, f: types.FunctionType) -> list[tuple[str, Any]]:
        ours = not is_user_file[f.__code__.co_filename]
        users = not (ours or str(f.__globals__.get("__name__")).startswith(_SETTLED))
        does = read_by(f.__code__) if users else Reads([], [], [], Counter(), set(), set())
        cells = zip(f.__code__.co_freevars, f.__closure__ or ())
        found = [(k, Binding(k, _cell, cell).was) if ours else self._bind(k, _cell, cell, does.looks[k] > 0) for k, cell in cells]
        if users:
            self._bind(f"the code of {name}", _code, f)
            if vars(f) or f.__name__ in (*does.variables, *f.__code__.co_freevars):
                self.spaces[id(f)] = name, f, set()
            self.names.update(dict.fromkeys(does.attributes))
            self.parts.update(does.parts)
            self.contents.update(does.contents)
            space, known = f.__globals__, vars(builtins)
            found += [self._bind(k, space.__getitem__, k, does.looks[k] > 0) for k in does.variables if k in space]
            others = [k for k in does.variables if k not in space]
            if others:
                self._bind("a new global name", space.keys().isdisjoint, frozenset(others))
            found += [self._bind(k, known.__getitem__, k) for k in others if not isinstance(known.get(k, len), (*_OPAQUE, type))]
            above = ["", *accumulate(str(space.get("__package__")).split("."), "{}.{}".format)]  # that an import may be relative to
            found += [(k, sys.modules[k]) for m in does.modules for a in above if (k := f"{a}.{m}".strip(".")) in sys.modules]
            for defaults in ("__defaults__", "__kwdefaults__"):
                if getattr(f, defaults):
                    found.append(self._bind(f"{name}.{defaults}", attrgetter(defaults), f))
        return [*found, (name, getattr(f, "__wrapped__", None))]

    def _spaces(self, todo: list[tuple[str, Any]]) -> bool:
        """Put to `todo` what the names that functions read stand for in modules, classes and objects, where that has not been done."""
        anything, by_text = not ANY.isdisjoint(self.names), not BY_TEXT.isdisjoint(self.names)
        for name, space, done in list(self.spaces.values()):
            a_class, a_module, members = isinstance(space, type), isinstance(space, types.ModuleType), vars(space)
            makes = id(space) in self.called or not {"type", "__class__", "cls"}.isdisjoint(self.names)
            for k, v in [(k, v) for k, v in members.items() if k not in done]:
                if a_class and k[:2] == "__":  # operators, that no name tells of
                    read = isinstance(v, types.FunctionType) and (k != "__init__" or makes)
                elif a_class or a_module:
                    read = by_text and not hasattr(v, "__next__") and (a_class or isinstance(v, _ATOMS))
                else:
                    read = anything
                if read or k in self.names:
                    done.add(k)
                    todo.append(self._bind(f"{name}.{k}", members.__getitem__, k))
        return bool(todo)

    def _members(self, name: str, x: Any) -> list[tuple[str, Any]]:
        found = [(f"{name}[{k}]", v) for k, v in enumerate(x) if not isinstance(v, _ATOMS)] if isinstance(x, tuple) else []
        self._space(type(x))
        base: Any = next((c for c in (list, dict, types.MappingProxyType) if isinstance(x, c)), None)
        if base is not None:
            what = "len" if base is list else "the keys of"
            self._bind(f"{what}({name})", len if base is list else tuple if type(x) is dict else _keys, x, holder=name)
            get = base.__getitem__.__get__(x)  # not that of a subclass
            found += [(name, k) for k in (dict.keys(x) if base is dict else ()) if not isinstance(k, _SIMPLE)]
            if base in (list, dict) and len(x) > _MANY and all(isinstance(v, _ATOMS) for v in _elements(x)):
                self._bind(name, _elements, x, holder=name)
            else:
                keys = range(list.__len__(x)) if base is list else base.keys(x)
                found += [self._bind(f"{name}[{k!r}]", get, k, holder=name) for k in islice(keys, _MOST + 1)]
        elif isinstance(x, _COPIED) or _is_frame(x):
            _, held = self._bind(name, _elements, x, holder=name)
            found += [(name, v) for v in (x.arrays if _is_frame(x) else held) if not isinstance(v, _ATOMS)]  # labels are never written to
        elif isinstance(x, (attrgetter, methodcaller)):
            self.names["getattr"] = None
        elif isinstance(x, (weakref.ref, ContextVar)):
            found.append(self._bind(name, _call if isinstance(x, weakref.ref) else ContextVar.get, x, holder=name))
        elif type(x).__module__.startswith("functrace."):  # a function with a rule of its own, or a jitted one
            inside = getattr(x, "__dict__", {})
            return [self._bind(f"{name}.{k}", inside.__getitem__, k) for k, v in list(inside.items()) if callable(v)]
        inside = getattr(x, "__dict__", None)
        if isinstance(inside, dict):
            for what, get in (("type", type), ("vars", vars)):
                self._bind(f"{what}({name})", get, x)
            if _is_plain(x):  # what of it is read is looked up when it is known what functions read
                self.spaces[id(x)] = name, x, set()
            else:
                self._bind(f"len({name})", len, inside)
                of = "'s " if type(x).__module__ in _CONTAINERS else "."
                found += [self._bind(f"{name}{of}{k}", inside.__getitem__, k) for k in list(inside)]
        if hasattr(type(x), "__next__") and not isinstance(x, io.IOBase):  # which a function may write its log to
            self.closed = _CLOSED.format(type(x).__name__)
        return found + [self._bind(f"{name}.{k}", get, x) for k, get in _slots(type(x))]

    def changed(self) -> str | None:
        """The name of something that is not what it was."""
        for b in self.bindings:
            try:
                now = b.get(b.key)
            except _ERRORS:
                now = _ABSENT
            if now is not b.was and b.changed():
                return b.name
        return None

    def settled(self, before: Bindings) -> str:
        """Replace traced values that the function has stored since `before` by plain ones; the names of where they were."""
        new = self.kept.keys() - before.kept.keys()
        for b in self.bindings:
            if id(b.was) in new and not hasattr(b.was.owner, "ways"):  # in the body of a loop it is that of an example
                b.put(np.array(b.was.below) if isinstance(b.was.below, np.ndarray) else b.was.below)
        return ", ".join(sorted({name for k, (name, _) in self.kept.items() if k in new})[:3])

    def since(self, before: Bindings, last: Sequence[Binding]) -> tuple[list[Binding], list[Binding], str | None]:
        """What a run set that began at `before`: what it only sets; what it also looks at, which from now on must be what it was; and the
        name of something that it did that with in the `last` run, too.
        """
        changed = [b for b in before.bindings if b.changed()]
        made = {b.key for b in before.bindings if isinstance(b.key, str) and not isinstance(b.was, _ATOMS)}
        used = [b for b in changed if b.used(self.parts, self.contents, made)]
        at: dict[int, list[Binding]] = {}
        for b in changed:
            at.setdefault(b.place(), []).append(b)
        self.bindings = [b for b in self.bindings if not any(map(b.is_that, at.get(b.place(), ())))] + used
        lasting = (b for b in used if b.within(self.contents) or b.get not in (_lacks, *_COPIES))
        again = (b.name for b in lasting if any(map(b.is_that, last)))
        return [b for b in changed if b not in used], used, next(again, None)

    def drew(self) -> bool:
        """Whether a random generator among them was used."""
        return any(_state(g) != state for g, state in self.generators)


def _state(g: Any) -> Any:
    if isinstance(g, random.Random):
        return g.getstate()
    return _frozen(g.get_state(legacy=False) if isinstance(g, np.random.RandomState) else getattr(g, "bit_generator", g).state)


def _frozen(state: Any) -> Any:
    if isinstance(state, dict):
        return {k: _frozen(v) for k, v in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state


def drawn() -> tuple[Any, ...]:
    """The state of the process's random generators, which every draw changes."""
    return _frozen(np.random.get_state(legacy=False)) if "numpy.random" in sys.modules else None, random.getstate()  # noqa: NPY002


def _root(x: np.ndarray[Any, Any]) -> Any:
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


class Watched:
    """An array that others could write to, and its name. A large one that the program itself reads is locked, or what it is a view of.

    Of one with more than `COPY` bytes 64 elements are compared.
    """

    __slots__ = ("array", "dtype", "lock", "name", "read", "shape", "was")

    def __init__(self, name: str, x: np.ndarray[Any, Any], lock: bool) -> None:
        self.name, self.array, root = name, x, _root(x)
        lock = lock and x.nbytes > COPY and root.base is None and (root.flags.writeable or locked(root))
        self.lock = Lock(root) if lock else None
        plain = np.asarray(x)  # a quantity with a unit does not let its bytes be read
        self.shape, self.dtype, self.read = x.shape, x.dtype, plain.tobytes if x.nbytes <= COPY else samples(plain)
        self.was = self.read()

    def changed(self) -> bool:
        """Whether its elements, or how they are read, are not what they were."""
        x = self.array
        return x.shape != self.shape or x.dtype != self.dtype or self.read() != self.was


def watched(sources: Sequence[Any], known: dict[int, tuple[str, Any]], lock: bool = False) -> list[Watched]:
    """Those of the arrays that constants came from that someone else holds, and the arrays `known` to be read.

    An array that only `sources` refers to was made by the function itself, and can't change. `lock`: of those known, the ones with a name
    of their own, of which a program may hold an element, or a sum, that can't be traced back to them.
    """
    out: dict[int, Watched] = {}
    for k in range(len(sources)):
        if id(sources[k]) not in out:
            root = _root(sources[k])
            own = 1 if sources[k].nbytes <= COPY or sources[k].base is not None else 2  # sources, and the constant itself
            one = root is sources[k]  # held by the name, too; a view holds its root
            alone = root.base is None and getrefcount(root) <= IN_LOCAL + own and getrefcount(sources[k]) <= IN_LIST - 1 + own + one
            if not alone:
                name, _ = known.get(id(sources[k])) or known.get(id(root)) or (errors.describe(sources[k]), None)
                out[id(sources[k])] = Watched(name, sources[k], True)
    for key, (name, x) in known.items():
        if key not in out and writeable(x) and not x.dtype.hasobject:
            out[key] = Watched(name, x, lock and name.isidentifier())
    return list(out.values())
