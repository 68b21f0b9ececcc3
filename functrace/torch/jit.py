"""`torch.jit`: the marks and questions that libraries put into their code; nothing is compiled to TorchScript."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

from functrace.torch._contact import is_installed
from functrace.torch._missing import in_place_of, missing
from functrace.torch.nn.module import Module

F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["Final", "ScriptFunction", "ScriptModule", "annotate", "export", "ignore", "is_scripting", "is_tracing", "script", "unused"]
__getattr__ = missing("torch.jit")


class ScriptModule(Module):
    """What TorchScript makes of a module: there is none."""


class ScriptFunction:
    """What TorchScript makes of a function: there is none."""


def script(obj: F, *args: Any, **kwargs: Any) -> F:
    """What an installed library declares, as it is. Of the program's own it raises, since nothing would be compiled."""
    file = getattr(sys.modules.get(obj.__module__), "__file__", None) or ""
    if not is_installed(file) or obj.__module__.startswith(("torch.", "functrace.")):
        raise NotImplementedError(f"there is no torch.jit.script {in_place_of('jit')}")
    return obj


def is_scripting() -> bool:
    """Whether a function runs as TorchScript: never here."""
    return False


is_tracing = is_scripting


def export(fn: F) -> F:
    """The function, as it is: a mark for `script`."""
    return fn


unused = script_if_tracing = export


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function, as it is; or a decorator."""
    return drop if callable(drop) else export


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value."""
    return the_value
