"""`torch.jit`: the marks and questions that libraries put into their code; nothing is compiled to TorchScript."""

from __future__ import annotations

import typing
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, TypeVar

from functrace.torch._missing import missing
from functrace.torch.nn.module import Module

F = TypeVar("F", bound=Callable[..., Any])

__all__ = [
    "Final",
    "ScriptFunction",
    "ScriptModule",
    "TracerWarning",
    "annotate",
    "export",
    "ignore",
    "is_scripting",
    "is_tracing",
    "script",
    "unused",
]
__getattr__ = missing("torch.jit")
__path__: list[str] = []  # of it `annotations` is imported


class TracerWarning(Warning):
    """What `trace` would warn of: nothing is traced, so there is none."""


class ScriptModule(Module):
    """What TorchScript makes of a module: there is none."""


class ScriptFunction:
    """What TorchScript makes of a function: there is none."""


def script(obj: F, *args: Any, **kwargs: Any) -> F:
    """The function, class or module as it is: nothing is compiled, so it has no `code`, `graph` or `save`."""
    return obj


def is_scripting() -> bool:
    """Whether a function runs as TorchScript: never here."""
    return False


is_tracing = is_scripting


def export(fn: F) -> F:
    """The function, as it is: a mark for `script`."""
    return fn


unused = script_if_tracing = _script_if_tracing = _overload_method = _overload = export


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function, as it is; or a decorator."""
    return drop if callable(drop) else export


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value."""
    return the_value


annotations = SimpleNamespace(  # type: ignore[assignment]
    **{name: getattr(typing, name) for name in "Any Dict List Optional Tuple Union".split()},
    **dict.fromkeys(("BroadcastingList1", "BroadcastingList2", "BroadcastingList3"), list),
)
