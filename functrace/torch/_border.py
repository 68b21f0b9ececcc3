"""Errors leave the shim without its frames, as they leave the library: the last line of a traceback is the user's own.

The functions of the elementwise tables, `Tensor.backward` and `Module.__call__` see to that themselves, at no cost. All others are put in
a wrapper here, once their module is complete; inside the shim they are called without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from functrace.errors import boundary

_THEMSELVES = ("functrace.torch._apply", "functrace.torch._bind", "functrace.torch.nn.module")
_PLAIN = ("__new__", "__getattr__", "__init_subclass__", "__hash__", "__setattr__", "__len__", "__bool__", "backward")


def trimmed(names: Mapping[str, Any], module: str = "functrace.torch") -> dict[str, Any]:
    """Those of `names` that are functions of the shim, with their errors trimmed."""
    return {
        name: boundary(f)
        for name, f in names.items()
        if type(f) is FunctionType
        and f.__module__.startswith(module)
        and f.__module__ not in _THEMSELVES
        and name not in _PLAIN
        and (name[0] != "_" or name.endswith("__"))
    }


def trim_methods(cls: type) -> None:
    """The same for the methods of a class."""
    for name, method in trimmed(vars(cls)).items():
        setattr(cls, name, method)


def named(name: str, doc: str) -> Callable[[Any], Any]:
    """Decorates a function that is made in another: its name, and what it says of itself."""

    def enter(function: Any) -> Any:
        function.__name__ = function.__qualname__ = name
        function.__doc__ = doc
        return function

    return enter
