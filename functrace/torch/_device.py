"""What there is to ask about the machine: one CPU, no accelerator."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
from types import SimpleNamespace
from typing import Any, NoReturn

from functrace.torch import _dtypes
from functrace.torch._missing import MissingNameError, answer, in_place_of


class _NotCompiled(MissingNameError, AssertionError):
    """Where PyTorch raises AssertionError."""


class OutOfMemoryError(RuntimeError):
    """Never raised: programs name it where they catch errors."""


class Absent:
    """An accelerator, or other processes, that are not there: says so when it is asked, and raises when it is used. Libraries import them,
    and name their classes in annotations and for `isinstance`.
    """

    _elsewhere = {"amp": "functrace.torch"}  # what is there, and the module that has it

    def __init__(self, name: str, why: str = "") -> None:
        self.__name__ = "functrace.torch." + name  # under which the import system looks for its parts
        self._why = why

    def __getattr__(self, name: str) -> Any:
        if name in self._elsewhere:
            return getattr(importlib.import_module(self._elsewhere[name]), name)
        if name.startswith("__"):
            raise AttributeError(name)
        if name[0].isupper() or name in ("fsdp", "nn", "tensor"):
            return self.__dict__.setdefault(name, self.part(name))
        raise self._missing("." + name)

    def part(self, name: str) -> Absent:
        """What is imported from it."""
        return Absent(f"{self.__name__.removeprefix('functrace.torch.')}.{name}", self._why)

    def __call__(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise self._missing("()")

    def __getitem__(self, parameters: Any) -> Absent:
        return self

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:  # a class derived from it raises when one is made
        return (type(self.__name__.rpartition(".")[2], (), {"__new__": lambda *args, **kwargs: self()}),)

    def __or__(self, other: Any) -> Any:  # in annotations
        return Any

    __ror__ = __or__

    def __instancecheck__(self, instance: Any) -> bool:
        return False

    __subclasscheck__ = __instancecheck__

    def _missing(self, name: str) -> MissingNameError:
        name = self.__name__.removeprefix("functrace.") + name
        if self._why:
            return MissingNameError(f"{name}: {self._why}")
        what = name.split(".")[1]
        if what in _ELSEWHERE:
            kind, told = (_NotCompiled, "Torch not compiled with CUDA enabled; ") if what == "cuda" else (MissingNameError, "")
            return kind(f"{name}: {told}functrace.torch has only the CPU (torch.{what}.is_available() is False).")
        return MissingNameError(f"{name} is not {in_place_of(name)}.")

    is_available = is_initialized = is_built = is_bf16_supported = is_in_onnx_export = staticmethod(answer(False))
    _initialized = False
    device_count = staticmethod(answer(0))
    current_accelerator = staticmethod(answer(None))
    memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = staticmethod(answer(0))
    synchronize = empty_cache = manual_seed = manual_seed_all = seed_all = set_rng_state_all = staticmethod(answer(None))
    get_rng_state_all: Any = staticmethod(list)


_ELSEWHERE = ("cuda", "mps", "xpu", "accelerator", "distributed")
cuda, mps, xpu, accelerator, distributed = map(Absent, _ELSEWHERE)
vars(cuda).update({_name: cuda.part(_name) for _name in ("device", "graph", "stream")}, OutOfMemoryError=OutOfMemoryError)
futures, fx, multiprocessing, onnx, PyTorchFileReader = map(Absent, ("futures", "fx", "multiprocessing", "onnx", "PyTorchFileReader"))
Future = futures.Future
_PYTHONS = dict.fromkeys(("cpu_count", "current_process", "get_start_method", "parent_process"), "multiprocessing")
vars(multiprocessing)["_elsewhere"] = Absent._elsewhere | _PYTHONS
vars(fx)["wrap"] = lambda function: function
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


class record_function(contextlib.ContextDecorator):
    """A name for a stretch of a program, for profilers: nothing, as there is none."""

    def __init__(self, name: str, args: str | None = None) -> None:
        pass

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *_error: object) -> None:
        pass


vars(cuda)["nvtx"] = SimpleNamespace(range=record_function)
profiler = Absent("profiler")
_USED = ("profile", "schedule", "tensorboard_trace_handler", "emit_nvtx", "emit_itt")
vars(profiler).update({_name: profiler.part(_name) for _name in _USED}, record_function=record_function, kineto_available=answer(False))


def _torch_home() -> str:
    """Where PyTorch keeps what it has downloaded."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


hub = SimpleNamespace(  # which models import
    load=_download, load_state_dict_from_url=_download, download_url_to_file=_download, _get_torch_home=_torch_home,
    get_dir=lambda: os.path.join(_torch_home(), "hub"), HASH_REGEX=re.compile(r"-([a-f0-9]*)\."),
    urlparse=lambda *args, **kwargs: importlib.import_module("urllib.parse").urlparse(*args, **kwargs),
)  # fmt: skip
__config__ = SimpleNamespace(show=answer("NumPy's BLAS"))
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


is_deterministic_algorithms_warn_only_enabled = answer(False)


def set_float32_matmul_precision(precision: str) -> None:
    """Products of float32 matrices are computed in float32 whatever is said."""
    _State.precision = precision


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` said."""
    return _State.precision


def set_default_device(device: Any) -> None:
    """Where tensors are made without `device=`: on the CPU, or on "meta"; elsewhere making one raises."""
    _dtypes.entered.set((_dtypes.device(device or "cpu"),))


def get_default_device() -> _dtypes.device:
    """The one that is entered, or set: else the CPU."""
    return _dtypes.usable(_dtypes.entered.get()[-1])


ALL = {
    name: value
    for name, value in globals().items()
    if name.startswith(("get_", "set_", "use_", "are_", "is_"))
    or (isinstance(value, Absent) and name[0] != "_")
    or name in ("OutOfMemoryError", "__config__", "backends", "hub", "version")
}
