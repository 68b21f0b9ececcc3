"""`torch.random`: the generator's state, and a context that restores it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from functrace.torch._missing import missing
from functrace.torch._random import default_generator, initial_seed, manual_seed, seed


def get_rng_state() -> Any:
    """The state of the default generator, a uint8 tensor in PyTorch's layout."""
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Go back to a state of the default generator."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, **_options: Any) -> Iterator[None]:
    """Restore the default generator on leaving."""
    state = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(state)


__all__ = ["default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]
__getattr__ = missing("torch.random")
