"""Lets `import torch`, and `import torch.nn.functional`, find the shim."""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from types import ModuleType
from typing import Any

from functrace.torch._missing import in_place_of


class _Finder:
    """Gives for `torch.x` the module `functrace.torch.x` itself. A finder and a loader; `importlib.abc` would take 10 ms to import."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname in _BESIDE and importlib.machinery.PathFinder.find_spec(fullname) is None:
            raise ModuleNotFoundError(f"No module named '{fullname}' {in_place_of(fullname)}", name=fullname)
        if not fullname.startswith("torch."):
            return None
        try:
            module = importlib.import_module("functrace." + fullname)
        except ModuleNotFoundError as error:
            if error.name != "functrace." + fullname:
                raise
            raise ModuleNotFoundError(f"No module named '{fullname}' {in_place_of(fullname)}", name=fullname) from None
        loader: Any = self
        return importlib.machinery.ModuleSpec(fullname, loader, is_package=hasattr(module, "__path__"))

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module("functrace." + spec.name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has put its own there


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
