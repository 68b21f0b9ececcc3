"""NumPy's own Python code, run over functrace's functions: polynomials, `emath`, histograms, `r_`.

What NumPy writes in Python is not written again here. `rebased(f)` is a function with the code of `f` and other globals: there `np` is
`NAMESPACE`, and functions and classes of its module are rebased too. So the arrays it makes take traced values, lists of those are
stacked, and NumPy's signature, checks and warnings stay.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from types import CellType, FunctionType, ModuleType
from typing import Any

import numpy as np

from functrace.core.tracer import Tracer
from functrace.ops.blank import making
from functrace.ops.registry import TABLE, Sample, implements, sought

MAKERS = (  # what makes arrays
    "arange array asanyarray asarray asarray_chkfinite ascontiguousarray asfortranarray copy empty empty_like eye full full_like geomspace "
    "identity indices linspace logspace ones ones_like require tri zeros zeros_like"
).split()


class Namespace:
    """A module of NumPy's by names: what is declared here under `prefix + name`, else NumPy's own."""

    def __init__(self, module: Any, prefix: str = "", **extra: Any) -> None:
        self._module, self._prefix = module, prefix
        vars(self).update(extra)

    def __getattr__(self, name: str) -> Any:
        theirs = getattr(self._module, name, None)
        declared = sought(self._prefix + name, theirs)
        found = declared.function if declared is not None else getattr(self._module, name)
        if isinstance(theirs, np.ufunc):  # it finds traced values by itself, and has methods
            found = theirs
        if not self._prefix and name in MAKERS:
            found = making(found, given=True)
        setattr(self, name, found)
        return found


NAMESPACE = Namespace(np, ndarray=(np.ndarray, Tracer), linalg=Namespace(np.linalg, "linalg."))
_globals: dict[int, dict[str, Any]] = {}


def _other(value: Any, name: str, old: dict[str, Any], new: dict[str, Any]) -> Any:
    """What stands in the globals `new` for a global of a module of NumPy's, whose globals are `old`."""
    if isinstance(value, ModuleType) and value.__name__.startswith("numpy"):
        if hasattr(value, "ndarray"):
            return NAMESPACE if value is np else Namespace(value, ndarray=NAMESPACE.ndarray)
        if hasattr(value, "eigvals"):
            return NAMESPACE.linalg
        return ModuleOf(value.__name__) if value.__name__.startswith("numpy.polynomial") else value
    if isinstance(value, FunctionType):
        if value.__globals__ is old:
            return _function(value, new)
        return rebased(value) if value.__module__.startswith("numpy.polynomial") else value
    if name in MAKERS and getattr(np, name) is value:
        return getattr(NAMESPACE, name)
    return value


def _rebase(old: dict[str, Any]) -> dict[str, Any]:
    new = _globals.get(id(old))
    if new is None:
        new = _globals[id(old)] = dict(old)
        for name, value in old.items():
            new[name] = _other(value, name, old, new)
    return new


def _function(function: FunctionType, new: dict[str, Any], closure: tuple[CellType, ...] | None = None) -> Callable[..., Any]:
    out = FunctionType(function.__code__, new, function.__name__, function.__defaults__, closure or function.__closure__)
    out.__kwdefaults__, out.__doc__, out.__qualname__ = function.__kwdefaults__, function.__doc__, function.__qualname__
    return out


def rebased(x: Any) -> Any:
    """A function or a class of NumPy's with other globals; anything else as it is.

    Names of a class that its bases define are looked up in the class itself, so that all its methods are rebased.
    """
    function = getattr(x, "__wrapped__", x)  # what a dispatcher wraps
    if isinstance(function, FunctionType):
        return _function(function, _rebase(function.__globals__))
    if not isinstance(x, type):
        return x
    methods: dict[str, Any] = {}
    for base in reversed(x.__mro__[:-1]):
        for name, value in vars(base).items():
            if isinstance(value, (staticmethod, classmethod)):
                methods[name] = type(value)(rebased(value.__func__))
            elif isinstance(value, FunctionType):
                methods[name] = rebased(value)
    return type(x)(x.__name__, (x,), {**methods, "__doc__": x.__doc__, "__module__": x.__module__, "__slots__": ()})


def later(name: str, find: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """A function that is looked for when it is first called."""
    found = functools.cache(find)

    def call(*args: Any, **kwargs: Any) -> Any:
        return found()(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"NumPy's `{name}`: its own code, over functions that take traced values."
    return call


def steady(numpy: Any, name: str, samples: Sequence[Sample], note: str = "", prefix: str = "", synonyms: tuple[Any, ...] = ()) -> None:
    """Declare a function of NumPy's, implemented by its own code, rebased."""
    function = getattr(numpy, name)
    ours = later(name, lambda: rebased(function))
    ours.__wrapped__ = function  # type: ignore[attr-defined]  # of which `help` tells the arguments
    implements((function, *synonyms), samples, name=prefix + name, note=note)(ours)


class ModuleOf:
    """A module of NumPy's, imported and rebased as its names are asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(importlib.import_module(self._name), name)
        declared = TABLE.get(f"{self._name}.{name}".removeprefix("numpy."))
        if declared is not None:
            return declared.function
        if not name.startswith("__"):
            found = ModuleOf(found.__name__) if isinstance(found, ModuleType) else rebased(found)
            setattr(self, name, found)
        return found

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module(self._name))
