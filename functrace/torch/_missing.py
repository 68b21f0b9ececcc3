"""The one error for names of PyTorch that are not here."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn


class MissingNameError(AttributeError, NotImplementedError):
    """A name of PyTorch that `functrace.torch` does not have."""


def missing(module: str) -> Callable[[str], NoReturn]:
    """A `__getattr__` for a module, which says what is missing."""

    def __getattr__(name: str) -> NoReturn:
        raise MissingNameError(
            f"module '{module}' has no attribute '{name}' in functrace.torch, which does not have all of PyTorch: write it with the "
            "operations that are here, or in NumPy with functrace.custom_vjp."
        )

    return __getattr__
