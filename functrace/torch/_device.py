"""What there is to ask about the machine: one CPU, no accelerator."""

from __future__ import annotations

import contextlib
import importlib
import os
from types import SimpleNamespace
from typing import Any, NoReturn

from functrace.torch import _dtypes
from functrace.torch._missing import MissingNameError, answer, in_place_of


class Absent:
    """An accelerator, or other processes, that are not there: says so when it is asked, and raises when it is used."""

    def __init__(self, name: str, why: str = "") -> None:
        self.__name__ = "torch." + name
        self._why = why or f"functrace.torch has only the CPU (torch.{name}.is_available() is False)."

    def __getattr__(self, name: str) -> Any:
        if name == "amp":
            return importlib.import_module("functrace.torch.amp")
        if name.startswith("__"):
            raise AttributeError(name)
        if name[0].isupper() or name == "nn":  # a class, which annotations and `isinstance` may name; a module that is imported
            return self.__dict__.setdefault(name, Absent(f"{self.__name__[6:]}.{name}", self._why))
        raise self._missing("." + name)

    def __call__(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise self._missing("()")

    def __or__(self, other: Any) -> Any:  # in annotations
        return Any

    __ror__ = __or__

    def __instancecheck__(self, instance: Any) -> bool:
        return False

    def _missing(self, name: str) -> MissingNameError:
        return MissingNameError(f"{self.__name__}{name}: {self._why}")

    is_available = is_initialized = is_built = is_bf16_supported = staticmethod(answer(False))
    device_count = staticmethod(answer(0))
    current_accelerator = staticmethod(answer(None))
    memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = staticmethod(answer(0))
    synchronize = empty_cache = manual_seed = manual_seed_all = seed_all = staticmethod(answer(None))


cuda, mps, xpu, accelerator, distributed = map(Absent, ("cuda", "mps", "xpu", "accelerator", "distributed"))
library = Absent("library", f"nothing is registered {in_place_of('library')}")  # libraries import it
backends = SimpleNamespace(
    mps=mps,
    cuda=SimpleNamespace(is_built=answer(False), matmul=SimpleNamespace(allow_tf32=False)),
    cudnn=SimpleNamespace(
        is_available=answer(False), version=answer(None), enabled=True, deterministic=False, benchmark=False, allow_tf32=False
    ),
    **{name: SimpleNamespace(is_available=answer(False)) for name in ("mkl", "mkldnn", "openmp")},
)


def _download(*_args: Any, **_kwargs: Any) -> NoReturn:
    raise MissingNameError(f"Nothing is downloaded {in_place_of('torch.hub')}")


def _profile(*_args: Any, **_kwargs: Any) -> NoReturn:
    raise MissingNameError(f"Nothing is profiled {in_place_of('torch.profiler')}")


class record_function(contextlib.ContextDecorator):
    """A name for a stretch of a program, for profilers: nothing, as there is none."""

    def __init__(self, name: str, args: str | None = None) -> None:
        pass

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *_error: object) -> None:
        pass


profiler = SimpleNamespace(
    record_function=record_function, profile=_profile, schedule=_profile, tensorboard_trace_handler=_profile,
    ProfilerActivity=SimpleNamespace(CPU="CPU", CUDA="CUDA"),
)  # fmt: skip
hub = SimpleNamespace(load=_download, load_state_dict_from_url=_download, download_url_to_file=_download)  # which models import
version = SimpleNamespace(__version__="2.13.0+functrace", cuda=None, hip=None)


class _State:
    threads = 1
    deterministic = False
    precision = "highest"


def get_num_threads() -> int:
    """The number that was set, 1 before. NumPy's BLAS has its own threads."""
    return _State.threads


def set_num_threads(n: int) -> None:
    """Only remembered: NumPy's BLAS reads OMP_NUM_THREADS when it starts."""
    _State.threads = int(n)


def get_num_interop_threads() -> int:
    """The number of processors."""
    return os.cpu_count() or 1


def set_num_interop_threads(n: int) -> None:
    """Nothing: an operation never waits for another one's thread."""


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """All algorithms are deterministic."""
    _State.deterministic = bool(mode)


def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` said."""
    return _State.deterministic


def set_float32_matmul_precision(precision: str) -> None:
    """Products of float32 matrices are computed in float32 whatever is said."""
    _State.precision = precision


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` said."""
    return _State.precision


def set_default_device(device: Any) -> None:
    """Where tensors are made without `device=`: on the CPU, or on "meta"."""
    _dtypes.entered.set((_dtypes.device(device or "cpu"),))


def get_default_device() -> _dtypes.device:
    """The one that is entered, or set: else the CPU."""
    return _dtypes.entered.get()[-1]


ALL = {
    name: value
    for name, value in globals().items()
    if name.startswith(("get_", "set_", "use_", "are_"))
    or name in ("cuda", "mps", "xpu", "accelerator", "distributed", "library", "backends", "hub", "profiler", "version")
}
