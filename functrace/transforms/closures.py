"""What functions hold and read beside their arguments: closures, defaults, attributes, globals.

`lift_closure` finds the traced values among it, and puts others in their places; `reading` and its like tell two recordings apart.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from functrace import errors, tree
from functrace.core.tracer import Tracer, bare
from functrace.locks import COPY
from functrace.ops.inplace import relatives
from functrace.places import is_user_file, user_line
from functrace.transforms.arguments import name_of

_MOST = 1000  # objects that are looked into: beside a large model of another library a function would take longer to search than to run
_ATOMS = (int, float, complex, bool, str, bytes, type(None), np.ndarray, np.generic, type, types.ModuleType, types.BuiltinFunctionType)
_WHOLE = (*_ATOMS, np.ufunc, np.dtype)


def lift_closure(f: Any) -> tuple[Callable[[Sequence[Any]], Callable[..., Any]], list[Any]]:
    """`(reopen, captured)`: the traced values that `f` holds; `reopen(others)` is `f` with others.

    They are looked for in the variables that functions close over, in their defaults, in arguments of `functools.partial`, and in the
    attributes of objects, such as a method's `self`; not in globals and classes. What leads to one is copied, all else shared.
    """
    entered: dict[int, Any] = {}
    captured: dict[int, Any] = {}
    holders: dict[int, list[int]] = {}
    queue = [f]
    objects = 0
    for x in queue:  # which grows, and keeps the ids from being used again
        if isinstance(x, Tracer):
            captured[id(x)] = x
        elif id(x) not in entered and not isinstance(x, _ATOMS):
            held = _held(x, objects < _MOST)
            if held:
                entered[id(x)] = x
                objects += 1
                for y in held:
                    holders.setdefault(id(y), []).append(id(x))
                queue += held
    if not captured:
        return lambda _captured: f, []
    seen = set(captured)
    for k in (order := list(captured)):
        more = dict.fromkeys(n for n in holders.get(k, ()) if n not in seen)
        seen.update(more)
        order += more
    traced = list(captured.values())
    old = [entered[k] for k in order if k in entered]  # no ids: what `reopen` reads must be the same for every recording of a loop's body

    def reopen(others: Sequence[Any]) -> Callable[..., Any]:
        made: dict[int, Any] = dict(zip(map(id, traced), others))
        changing = {*made, *map(id, old)}
        new: Callable[[Any], Any] = lambda x: made.get(id(x), x)
        made.update((id(x), types.CellType()) for x in old if isinstance(x, types.CellType))
        made.update((id(x), shell) for x in old if (shell := _shell(x, new)) is not None)
        waiting = [x for x in old if id(x) not in made]  # what can't be changed once it is made
        while waiting:
            ready = [x for x in waiting if all(id(y) in made or id(y) not in changing for y in _held(x))]
            made.update((id(x), _made(x, new)) for x in ready)
            waiting = [x for x in waiting if id(x) not in made]
        for x in old:
            _fill(made[id(x)], x, new)
        return _watched(made[id(f)], [(x, made[id(x)]) for x in old if _state(x) is not None], f)

    return reopen, traced


def _watched(f: Any, copies: Sequence[tuple[Any, Any]], name: Any) -> Callable[..., Any]:
    """`f`, which works on copies: plain numbers that it sets as attributes are set in what was copied; any other change is refused."""
    states = [_state(copied) for _, copied in copies]
    originals = {id(copied): x for x, copied in copies}

    def watched(*args: Any, **kwargs: Any) -> Any:
        out = f(*args, **kwargs)
        for (x, copied), before in zip(copies, states):
            now = _state(copied)
            for key in [k for k in {**before, **now} if k not in now or k not in before or now[k] is not before[k]]:
                if isinstance(getattr(type(x), str(key), None), cached_property):
                    continue
                traced = key not in now or any(isinstance(leaf, Tracer) for leaf in tree.leaves(now[key]))
                if traced or _names(x) is None:
                    what = f"{type(x).__name__}.{key}" if _names(x) is not None else "a variable, list or dict"
                    raise errors.MutatedError(
                        f"{name_of(name)}: it sets {what} which it also reads a traced value from; that is not seen outside of it.\n"
                        f"  At {user_line()}.\n  Return it instead, or pass what it reads as an argument."
                    )
                before[key] = now[key]
                object.__setattr__(x, key, originals.get(id(now[key]), now[key]))
        return out

    return watched if copies else f


def _state(x: Any) -> Any:
    """What can be changed in `x`, by name or place; None if nothing can."""
    if isinstance(x, types.CellType):
        return {"": x.cell_contents}
    if type(x) in (list, dict):
        return dict(x.items() if type(x) is dict else enumerate(x))
    names = _names(x)
    return None if names is None else dict(_values(x, names))


def parts(x: Any) -> list[Any] | None:
    """What a function is made of beside its code, or a cell, a method or a `functools.partial`; None of anything else."""
    if isinstance(x, types.FunctionType):
        return [*(x.__closure__ or ()), x.__defaults__, x.__kwdefaults__]
    if isinstance(x, types.CellType):
        return [x.cell_contents] if x != _EMPTY else []
    if isinstance(x, types.MethodType):
        return [x.__func__, x.__self__]
    return [x.func, x.args, x.keywords] if isinstance(x, partial) else None


_EMPTY = types.CellType()


def _held(x: Any, objects: bool = True) -> Sequence[Any]:
    """What `x` holds, if it is one of the things that are looked into."""
    if (found := parts(x)) is not None:
        return [*found, *vars(x).values()] if isinstance(x, types.FunctionType) else found
    if type(x) is dict:
        return list(x.values())
    if type(x) in (list, tuple):
        return list(x)
    if (names := _names(x)) is not None:
        return [y for _, y in _values(x, names)] if objects else []
    held = tree.leaves(x)
    return held if len(held) != 1 or held[0] is not x else []


def _names(x: Any) -> list[str] | None:
    """The names of the slots of an object that can be copied by its attributes; None for others."""
    cls: Any = type(x)
    return _attributes(cls)


@lru_cache(256)
def _attributes(cls: Any) -> list[str] | None:
    own = cls.__module__.partition(".")[0] == "functrace" and not cls.__module__.startswith("functrace.scipy")
    if own or issubclass(cls, tuple) or hasattr(cls, "__del__") or hasattr(cls, "__next__"):
        return None
    try:
        _new(cls)
    except TypeError:  # it is built on a class of C code
        return None
    slots: Iterable[Any] = [c.__dict__.get("__slots__", ()) for c in cls.__mro__]
    names = [n for c in slots for n in ([c] if isinstance(c, str) else c)]
    if not names and not getattr(cls, "__dictoffset__", 0):
        return None
    return [n for n in names if n not in ("__dict__", "__weakref__")]


def _new(cls: type) -> Any:
    return cls() if cls is types.SimpleNamespace else object.__new__(cls)


def _values(x: Any, names: Sequence[str]) -> list[tuple[str, Any]]:
    missing = object()
    slots = [(n, y) for n in names if (y := getattr(x, n, missing)) is not missing]
    return [*getattr(x, "__dict__", {}).items(), *slots]


def _shell(x: Any, new: Callable[[Any], Any]) -> Any:
    """Another of the kind of `x`, to be filled; None if it must be made at once, or is a cell."""
    if isinstance(x, types.FunctionType):
        return types.FunctionType(x.__code__, x.__globals__, x.__name__, None, tuple(map(new, x.__closure__ or ())))
    if isinstance(x, partial):
        return type(x)(x.func)
    if type(x) in (list, dict):
        return type(x)()
    return None if _names(x) is None else _new(type(x))


def _made(x: Any, new: Callable[[Any], Any]) -> Any:
    if isinstance(x, types.MethodType):
        return types.MethodType(new(x.__func__), new(x.__self__))
    if type(x) is tuple:
        return tuple(map(new, x))
    leaves, treedef = tree.flatten(x)
    return tree.unflatten(treedef, map(new, leaves))


def _fill(shell: Any, x: Any, new: Callable[[Any], Any]) -> None:
    if isinstance(x, types.FunctionType):
        shell.__defaults__, shell.__kwdefaults__ = new(x.__defaults__), new(x.__kwdefaults__)
        shell.__qualname__ = x.__qualname__
        vars(shell).update((k, new(y)) for k, y in vars(x).items())
    elif isinstance(x, types.CellType):
        shell.cell_contents = new(x.cell_contents)
    elif isinstance(x, partial):
        shell.__setstate__((new(x.func), new(x.args), new(x.keywords), vars(x)))
    elif type(x) is list:
        shell[:] = map(new, x)
    elif type(x) is dict:
        shell.update((k, new(y)) for k, y in x.items())
    elif (names := _names(x)) is not None:
        for name, y in _values(x, names):
            object.__setattr__(shell, name, new(y))


# What is read


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
        if len(found) >= _MOST:
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
            if isinstance(x, types.FunctionType):
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
