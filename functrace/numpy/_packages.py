"""Packages written for NumPy: what their modules call `np`, `math`, `float` and `isinstance` takes traced values while installed."""

from __future__ import annotations

import dis
import functools
import importlib
import math
import sys
from collections.abc import Callable
from itertools import pairwise
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from functrace.core.tracer import BatchTracer, Tracer
from functrace.places import MADE_FOR_TRACED

_ABSENT = object()
_PUT: list[tuple[dict[str, Any], str, Any]] = []  # the globals of a module, a name, and what it stood for


def is_instance(x: Any, kinds: Any) -> bool:
    """`isinstance`, to which a traced value is what it stands for: an array, or a number."""
    if isinstance(x, kinds) or not isinstance(x, Tracer):
        return isinstance(x, kinds)
    number = not x.shape and (isinstance(x, BatchTracer) or not isinstance(x.below, np.ndarray))
    return issubclass(x.dtype.type if number else np.ndarray, kinds)


def _number(x: Any) -> Any:
    """What is a number to Python: of an array, its one element."""
    if not isinstance(x, Tracer) or not x.shape:
        return x
    if x.size != 1:
        raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
    one: Any = x
    return one.reshape(())


class _Scalar(type):
    """That of what stands for `float` or `np.float64`: traced values stay traced; for the rest, as a dtype too, it is that itself."""

    theirs: type[Any]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if not args or not isinstance(args[0], Tracer):
            return cls.theirs(*args, **kwargs)
        x: Any = args[0]
        return (_number(x) if cls.theirs is float else x).astype(cls.theirs)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.theirs, name)

    def __eq__(cls, other: object) -> bool:
        return other is cls.theirs or other is cls

    def __hash__(cls) -> int:
        return hash(cls.theirs)

    def __instancecheck__(cls, x: Any) -> bool:
        return is_instance(x, cls.theirs)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls.theirs)


def _scalar(theirs: type[Any]) -> Any:
    return _Scalar(theirs.__name__, (), {"theirs": theirs, "dtype": np.dtype(theirs)})


_SCALARS = {id(kind): _scalar(kind) for kind in (float, np.float64, np.float32)}


def _either(theirs: Callable[..., Any], ours: Any) -> Callable[..., Any]:
    @functools.wraps(theirs)
    def call(*args: Any, **kwargs: Any) -> Any:
        return ours(*map(_number, args), **kwargs) if any(isinstance(x, Tracer) for x in args) else theirs(*args, **kwargs)

    return call


def _special(name: str) -> Callable[..., Any]:
    return lambda x: getattr(importlib.import_module("scipy.special"), name)(x)


def _isclose(a: Any, b: Any, *, rel_tol: float = 1e-09, abs_tol: float = 0.0) -> bool:
    return a == b or bool(abs(a - b) <= max(rel_tol * max(abs(a), abs(b)), abs_tol))


# What `math` has otherwise than NumPy; `floor`, `ceil` and `trunc` of a traced number are an int already.
_MATH: dict[str, Any] = {
    **{name: getattr(math, name) for name in ("ceil", "floor", "trunc")},
    **{name: _special({"lgamma": "gammaln"}.get(name, name)) for name in ("erf", "erfc", "gamma", "lgamma")},
    "isclose": _isclose,
    "log": lambda x, base=math.e: np.log(x) if base == math.e else np.log(x) / np.log(base),
}


@functools.cache
def _ours() -> dict[int, Any]:
    """What takes traced values in the place of an object of NumPy's or of `math`, by its id."""
    fnp = sys.modules[__name__.rpartition(".")[0]]
    found: dict[int, Any] = {}
    for theirs, ours in ((np, fnp), (np.linalg, fnp.linalg), (np.fft, fnp.fft)):
        found[id(theirs)] = ours
        for name, x in vars(theirs).items():
            if name in ("r_", "c_", "mgrid", "ogrid") or name[0] != "_" and callable(x) and not isinstance(x, np.ufunc):
                found[id(x)] = getattr(ours, name)
    both = found[id(math)] = ModuleType("math")
    for name, x in vars(math).items():
        instead = _MATH.get(name, getattr(np, name, None))
        if instead is not x and (name in _MATH or isinstance(instead, np.ufunc)):
            found[id(x)] = _either(x, instead)
        setattr(both, name, found.get(id(x), x))
    return found


def _instead(x: Any) -> Any:
    """What is to stand where a module has `x`."""
    home, name = getattr(x, "__module__", None), getattr(x, "__name__", None)
    if isinstance(home, str) and isinstance(name, str) and home.startswith("scipy.") and callable(x):
        public = (sys.modules.get(place) for place in (home, ".".join(home.split(".")[:2])))
        ours = (getattr(module, name, x) for module in public)  # after functrace.scipy.install
        return next((y for y in ours if y is not x and getattr(y, "__name__", "").rpartition(".")[2] == name), x)
    if isinstance(x, np.vectorize):
        return _ours()[id(np.vectorize)](x.pyfunc, x.otypes, x.__doc__, x.excluded, x.cache, x.signature)
    return _ours().get(id(x), x)


def _codes(names: dict[str, Any]) -> list[CodeType]:
    inside = [f for c in names.values() if isinstance(c, type) for f in vars(c).values()]
    todo = [f.__code__ for f in (*names.values(), *inside) if isinstance(f, FunctionType)]
    for code in todo:
        todo += [x for x in code.co_consts if isinstance(x, CodeType)]
    return todo


def _asked_for(name: str, codes: list[CodeType]) -> bool:
    """Whether a module asks `is` of what it calls so, for which nothing else may stand then."""
    steps = (pairwise(dis.get_instructions(code)) for code in codes if name in code.co_names)
    return any(a.argval == name and b.opname == "IS_OP" for each in steps for a, b in each)


def _enter(module: ModuleType) -> None:
    names, codes = vars(module), None
    for key, x in [*names.items(), ("float", float), ("isinstance", isinstance)]:
        instead = is_instance if x is isinstance else _SCALARS.get(id(x)) or _instead(x)
        if instead is x or key.startswith("__"):
            continue
        if isinstance(instead, _Scalar):
            codes = codes or _codes(names)
            if _asked_for(key, codes):
                continue
        _PUT.append((names, key, names.get(key, _ABSENT)))
        names[key] = instead


class _Later:
    """A finder that changes modules of the packages as they are imported."""

    @staticmethod
    def find_spec(name: str, path: Any, target: Any = None) -> Any:
        if name.partition(".")[0] not in MADE_FOR_TRACED:
            return None
        finders = [finder for finder in sys.meta_path if finder is not _Later and hasattr(finder, "find_spec")]
        spec = next((spec for finder in finders if (spec := finder.find_spec(name, path, target))), None)
        loader: Any = getattr(spec, "loader", None)
        if hasattr(loader, "exec_module"):
            run = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                if name.partition(".")[0] in MADE_FOR_TRACED:
                    _enter(module)

            loader.exec_module = exec_module
        return spec


def install(*packages: str) -> None:
    """Make packages that were written for NumPy take traced values: in all of their modules `np` is `functrace.numpy`.

    `packages` are the names by which they are imported. In their modules, also those imported later, NumPy, its functions, `math`,
    `float` and `isinstance` are replaced by functrace's: arrays that are made in a traced function can be written to, `np.array` and
    `float` keep the derivative, and a traced value is an instance of the type that it stands for. Where nothing is traced, all of these
    do what NumPy's and Python's do. Imports inside a function are not replaced, and code in C still refuses traced values. If a package
    imports functions of SciPy by name, call `functrace.scipy.install` first.

    >>> import statistics, functrace as ft, functrace.numpy as fnp
    >>> fnp.install("statistics")
    >>> ft.grad(lambda m: statistics.NormalDist(m, 2.0).pdf(1.0))(0.0).round(6)
    np.float64(0.044008)
    >>> fnp.uninstall()
    """
    for package in packages:
        if not isinstance(package, str) or package in ("numpy", "scipy", "functrace") or "." in package:
            raise ValueError(f"functrace.numpy.install: {package!r} is not the name of a package that is written for NumPy")
        importlib.import_module(package)
        if package in MADE_FOR_TRACED:
            continue
        MADE_FOR_TRACED.add(package)
        for name, module in list(sys.modules.items()):
            if isinstance(module, ModuleType) and name.partition(".")[0] == package:
                _enter(module)
    if packages and _Later not in sys.meta_path:
        sys.meta_path.insert(0, _Later)


def uninstall() -> None:
    """Give all packages back what `install` changed.

    >>> import functrace.numpy as fnp
    >>> fnp.uninstall()
    """
    MADE_FOR_TRACED.clear()
    if _Later in sys.meta_path:
        sys.meta_path.remove(_Later)
    while _PUT:
        names, key, x = _PUT.pop()
        if x is _ABSENT:
            names.pop(key, None)
        else:
            names[key] = x
