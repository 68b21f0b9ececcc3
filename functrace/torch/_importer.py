"""Lets `import torch`, and `import torch.nn.functional`, find the shim; and `torch.random` and the like, which are no files here."""

from __future__ import annotations

import builtins
import enum
import functools
import importlib
import importlib.machinery
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

from functrace.torch._contact import boundary, user_frame
from functrace.torch._device import Absent
from functrace.torch._missing import in_place_of, no_methods
from functrace.torch._tensor import Tensor


class _Finder:
    """Gives for a name the module that `found` says. A finder and a loader; `importlib.abc` would take 10 ms to import."""

    def __init__(self, found: Callable[[str], Any]) -> None:
        self.found = found

    @boundary
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        found, loader = self.found(fullname), self
        return found and importlib.machinery.ModuleSpec(fullname, loader, is_package=hasattr(found, "__path__"))  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module: ModuleType = self.found(spec.name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has put its own there


def _not_here(fullname: str) -> ModuleNotFoundError:
    name = fullname.removeprefix("functrace.")
    return ModuleNotFoundError(f"No module named '{name}' {in_place_of(name)}", name=fullname)


def _same(fullname: str) -> Any:
    """For `torch.x`, `functrace.torch.x`."""
    if fullname in _BESIDE and importlib.machinery.PathFinder.find_spec(fullname) is None:
        asking: Any = user_frame()
        if asking.f_back.f_globals.get("__name__") == "importlib.util":  # a program that only asks whether it is there
            return None
        raise _not_here(fullname)
    if fullname == "functorch":
        return importlib.import_module("functrace.torch._functorch")
    if not fullname.startswith("torch."):
        return None
    try:
        return importlib.import_module("functrace." + fullname)
    except ModuleNotFoundError as error:
        error.name = fullname if error.name == "functrace." + fullname else error.name
        raise


def _attribute(fullname: str) -> Any:
    """For `functrace.torch.x`, which is no file, the module of this name in `functrace.torch`, or what is like one: `backends.cudnn`."""
    parent, _, name = fullname.rpartition(".")
    if not f"{parent}.".startswith("functrace.torch."):
        return None
    holder = sys.modules[parent]
    found = getattr(holder, name, None) or (holder.part(name) if isinstance(holder, Absent) else None)
    if not isinstance(found, (ModuleType, SimpleNamespace, Absent)):
        raise _not_here(fullname)
    found.__dict__.setdefault("__path__", []), found.__dict__.setdefault("__spec__", None)
    return found


_BESIDE = ("torchaudio", "torchtext", "torchvision")  # what courses import together with PyTorch
_finder = _Finder(_same)
sys.meta_path.append(_Finder(_attribute))


def install(module: ModuleType) -> None:
    """Make `module` what `import torch` gives. Raises RuntimeError if PyTorch itself is already imported."""
    present = sys.modules.get("torch")
    if present is not None and present is not module:
        raise RuntimeError("functrace.torch.install(): PyTorch is already imported; install before the first `import torch`.")
    sys.modules["torch"] = module
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
        builtins.__build_class__ = _with_operations(builtins.__build_class__)
        if binds := getattr(enum, "_is_descriptor", None):  # Python's own, which later versions may not have: then they are methods
            enum.__dict__["_is_descriptor"] = lambda x: getattr(x, "__module__", "") != "functrace.torch" and binds(x)


def _with_operations(build: Callable[..., Any]) -> Callable[..., Any]:
    """Python's making of classes, before which comes the wrapping of operations if a class has a say in them: its body may name some.
    Operations that it names are not its methods, and members of an Enum, as PyTorch's, which are written in C, are.
    """

    @functools.wraps(build)
    def __build_class__(body: Any, /, *args: Any, **kwargs: Any) -> Any:
        if "__torch_function__" in body.__code__.co_names and not str(body.__module__).startswith("functrace."):
            importlib.import_module("functrace.torch.overrides").install()
        made = build(body, *args, **kwargs)
        if isinstance(made, type) and not issubclass(made, Tensor):  # of whose methods some are our operations
            no_methods(made)
        return made

    return __build_class__
