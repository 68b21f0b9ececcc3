"""Errors leave the shim without its frames, as they leave the library: the last line of a traceback is the user's own.

The functions of the elementwise tables, `Tensor.backward` and `Module.__call__` see to that themselves, at no cost. All others are put in
a wrapper here, once their module is complete; inside the shim they are called without it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from functrace.errors import boundary
from functrace.torch._views import bad_argument

_THEMSELVES = ("functrace.torch", "functrace.torch._apply", "functrace.torch._bind", "functrace.torch.nn.module")
_PLAIN = ("__new__", "__getattr__", "__init_subclass__", "__hash__", "__setattr__", "__len__", "__bool__", "backward")


def _no_tensor(function: Any, first: int, error: AttributeError, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise PyTorch's complaint if it is an argument that has not the attribute, and not the user's code that asked for it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not trace.tb_frame.f_globals.get("__name__", "").startswith("functrace."):
        return
    code = inspect.unwrap(function).__code__
    for k, (name, x) in enumerate({**dict(zip(code.co_varnames[: code.co_argcount], args)), **kwargs}.items()):
        if x is error.obj and not hasattr(x, "_a"):
            raise bad_argument(function.__name__, name, k + 1 - first, x) from None


def trimmed(names: Mapping[str, Any], first: int = 0) -> dict[str, Any]:
    """Those of `names` that are functions of the shim, with their errors trimmed; arguments are counted from number `first`."""
    found = {
        name: boundary(f, functools.partial(_no_tensor, f, first))
        for name, f in names.items()
        if type(f) is FunctionType
        and f.__module__.startswith("functrace.torch")
        and f.__module__ not in _THEMSELVES
        and name not in _PLAIN
        and (name[0] != "_" or name.endswith("__"))
    }
    for name, f in found.items() if "__name__" in names else ():
        f.__module__, f.__qualname__ = names["__name__"], name  # where pickle finds it
    return found


def trim_methods(cls: type) -> None:
    """The same for the methods of a class."""
    for name, method in trimmed(vars(cls), first=1).items():
        setattr(cls, name, method)


def named(name: str, doc: str) -> Callable[[Any], Any]:
    """Decorates a function that is made in another: its name, and what it says of itself."""

    def enter(function: Any) -> Any:
        function.__name__ = function.__qualname__ = name
        function.__doc__ = doc
        return function

    return enter
