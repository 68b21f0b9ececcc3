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

from functrace.torch._bind import SYNONYMS
from functrace.torch._contact import boundary
from functrace.torch._views import bad_argument

_THEMSELVES = ("functrace.torch", "functrace.torch._apply", "functrace.torch._bind", "functrace.torch.nn.module")
_PLAIN = ("__new__", "__getattr__", "__init_subclass__", "__hash__", "__setattr__", "__len__", "__bool__", "backward")


@functools.cache
def _names(function: Any) -> tuple[Sequence[str], Sequence[str]]:
    """The names of parameters that may be passed by position, and of all parameters."""
    code = inspect.unwrap(function).__code__
    return code.co_varnames[: code.co_argcount], code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _complaint(function: Any, first: int, error: Exception, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The call's keywords renamed from NumPy's names to PyTorch's, if that is what was wrong.

    Raises PyTorch's complaint about an argument that lacks what the shim asked of it.
    """
    positional, own = _names(function)
    if isinstance(error, TypeError):
        renamed = {SYNONYMS[k] if k not in own and SYNONYMS.get(k) in own else k: x for k, x in kwargs.items()}
        return renamed if len(renamed) == len(kwargs) and renamed != kwargs else None
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not trace.tb_frame.f_globals.get("__name__", "").startswith("functrace."):
        return None
    for k, (name, x) in enumerate({**dict(zip(positional, args)), **kwargs}.items()):
        if x is getattr(error, "obj", None) and not hasattr(x, "_a"):
            raise bad_argument(function.__name__, name, k + 1 - first, x) from None
    return None


def trimmed(names: Mapping[str, Any], first: int = 0) -> dict[str, Any]:
    """The functions of the shim among `names`, with their errors trimmed; arguments are counted from number `first`."""
    found = {
        name: boundary(f, functools.partial(_complaint, f, first))
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
    """Trim the errors of the methods of a class: see `trimmed`."""
    for name, method in trimmed(vars(cls), first=1).items():
        setattr(cls, name, method)


def named(name: str, doc: str) -> Callable[[Any], Any]:
    """Decorates a function that is made in another: its name, and what it says of itself."""

    def enter(function: Any) -> Any:
        function.__name__ = function.__qualname__ = name
        function.__doc__ = doc
        return function

    return enter
