"""Lets `import torch`, and `import torch.nn.functional`, find the shim."""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

from functrace.torch._device import Absent
from functrace.torch._missing import in_place_of


class _Finder:
    """Gives for `torch.x` the module `functrace.torch.x` itself. A finder and a loader; `importlib.abc` would take 10 ms to import."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname in _BESIDE and importlib.machinery.PathFinder.find_spec(fullname) is None:
            raise ModuleNotFoundError(f"No module named '{fullname}' {in_place_of(fullname)}", name=fullname)
        if not fullname.startswith("torch."):
            return None
        loader: Any = self
        return importlib.machinery.ModuleSpec(fullname, loader, is_package=hasattr(_found(fullname), "__path__"))

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module: ModuleType = _found(spec.name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has put its own there


def _found(fullname: str) -> Any:
    """The module of a name, or what is like one: `torch.backends.cudnn`."""
    try:
        return importlib.import_module("functrace." + fullname)
    except ModuleNotFoundError as error:
        if not ("functrace." + fullname).startswith(error.name or "-"):
            raise
        parent, _, name = fullname.rpartition(".")
        found = getattr(sys.modules[parent], name, None)
        if not isinstance(found, (ModuleType, SimpleNamespace, Absent)):
            raise ModuleNotFoundError(f"No module named '{fullname}' {in_place_of(fullname)}", name=fullname) from None
        found.__dict__.setdefault("__path__", []), found.__dict__.setdefault("__spec__", None)
        return found


_BESIDE = ("torchaudio", "torchtext", "torchvision")  # what courses import together with PyTorch
_finder = _Finder()


def install(module: ModuleType) -> None:
    """Make `module` what `import torch` gives. Raises RuntimeError if PyTorch itself is already imported."""
    present = sys.modules.get("torch")
    if present is not None and present is not module:
        raise RuntimeError("functrace.torch.install(): PyTorch is already imported; install before the first `import torch`.")
    sys.modules["torch"] = module
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
