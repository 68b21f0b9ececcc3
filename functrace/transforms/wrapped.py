"""Functions as objects with attributes of their own."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from functrace import edge

if TYPE_CHECKING:
    from typing_extensions import Self

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


class Wrapped(Generic[P, R]):
    """An object in a function's place, with its name, docstring and signature: a method in a class, pickled and copied by its name.

    cloudpickle (joblib, dask, ray) sends functions without a name elsewhere by value, and so these.
    """

    def __init__(self, fun: Callable[P, R]) -> None:
        functools.update_wrapper(self, fun, updated=edge.own_attributes(fun))
        self.fun = fun

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Self: ...
    @overload
    def __get__(self: Wrapped[Concatenate[Any, Q], R], instance: object, owner: Any = None) -> Callable[Q, R]: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> Any:
        return (type(self), *self._made_of()) if _by_value(self) else str(self.__qualname__)  # type: ignore[attr-defined]

    def _made_of(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What makes it anew: arguments, and attributes to be set."""
        return (self.fun,), vars(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        raise NotImplementedError


def _by_value(f: Any) -> bool:
    """For a `__reduce__`: whether cloudpickle asks, and another process would not find `f` by its name."""
    caller: Any = sys._getframe(2)
    if "cloudpickle" not in str(caller.f_globals.get("__name__")):
        return False
    found: Any = sys.modules.get(f.__module__)
    for part in f.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is not f or f.__module__ == "__main__"
