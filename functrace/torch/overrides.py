"""`torch.overrides`, and `__torch_function__`: subclasses of Tensor see each operation on them, and may do something else.

Nothing here costs anything until a program defines such a subclass: then the public functions and methods are put in a wrapper that
looks at the classes of the arguments. What an operation calls on its way is not looked at.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from types import FunctionType, SimpleNamespace
from typing import Any

from functrace.errors import UnsupportedError
from functrace.torch import _dtypes
from functrace.torch._contact import trim
from functrace.torch._device import Absent
from functrace.torch._missing import missing
from functrace.torch._ops import FUNCTIONS, METHODS
from functrace.torch._tensor import Tensor
from functrace.torch.nn.parameter import Buffer, Parameter

_inside: ContextVar[bool] = ContextVar("functrace.torch.override", default=False)
_stack: ContextVar[tuple[Any, ...]] = ContextVar("functrace.torch.function_modes", default=())
_SPACES = tuple(f"functrace.torch{name}" for name in ("", ".nn.functional", ".nn._cells", ".linalg", ".fft", ".special"))
_installed = False
_OWN_NAMES = {f"__{prefix}{name}__": f"__{prefix}{name}__" for name in ("and", "or", "xor", "lshift", "rshift") for prefix in ("", "i")}
_OWN_NAMES |= {"__floordiv__": "__floordiv__", "__eq__": "__eq__", "__rtruediv__": "__rdiv__"}  # the other operators go by that of a method


class DisableTorchFunctionSubclass:
    """While it lasts, operations on subclasses are ordinary ones."""

    def __enter__(self) -> None:
        self.before = _inside.get()
        _inside.set(True)

    def __exit__(self, *exc: object) -> None:
        _inside.set(self.before)


class TorchFunctionMode:
    """While it lasts, operations of any tensors are asked of its `__torch_function__`, which is called outside of it."""

    __module__ = "torch.overrides"

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> TorchFunctionMode:
        install()
        _stack.set((*_stack.get(), self))
        return self

    def __exit__(self, *exc: object) -> None:
        _stack.set(_stack.get()[:-1])


def _disabled_torch_function_impl(func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def _parse_to(*args: Any, **named: Any) -> tuple[Any, ...]:
    device, dtype, non_blocking, _, memory_format = _dtypes.parse_to(*args, **named)
    return None if device is None else _dtypes.device(device), dtype, non_blocking, memory_format


# what libraries take from PyTorch's own extension module
_C = Absent("_C")
vars(_C).update(
    DisableTorchFunctionSubclass=DisableTorchFunctionSubclass,
    _TensorMeta=type(Tensor),
    _nn=SimpleNamespace(_parse_to=_parse_to),
    _disabled_torch_function_impl=_disabled_torch_function_impl,
    _get_tracing_state=lambda: None,
    _log_api_usage_once=lambda event: None,
)


def _overriding(args: Iterable[Any]) -> list[Any]:
    """The classes that have a say, each once: subclasses before their bases, else from left to right."""
    found: list[Any] = []
    for x in args:
        for y in x if type(x) in (list, tuple) else (x,):
            cls = type(y)
            ours = cls is Tensor or cls.__module__ == "torch" or cls.__module__.startswith("torch.nn")  # or PyTorch's, refused later
            if ours or getattr(cls, "__torch_function__", _disabled_torch_function_impl) is _disabled_torch_function_impl or cls in found:
                continue
            place = next((k for k, other in enumerate(found) if issubclass(cls, other)), len(found))
            found.insert(place, cls)
    return found


def overridable(function: Callable[..., Any], operator: bool = False) -> Callable[..., Any]:
    """The function, which first asks the classes of its arguments. Of an operator Python asks the other argument, where it fails.

    What the classes are given is `shown`: the function itself, but for operators that go by the name of a method.
    """

    @functools.wraps(function)
    def asking(*args: Any, **kwargs: Any) -> Any:
        types: list[Any] = []
        try:
            types = [] if _inside.get() else _overriding((*args, *kwargs.values()))
            if modes := _stack.get():
                before = _stack.set(modes[:-1])
                try:
                    out = modes[-1].__torch_function__(asking, tuple(types), args, kwargs)
                finally:
                    _stack.reset(before)
                if out is not NotImplemented:
                    return out
            for cls in types:
                out = cls.__torch_function__(asking.shown, tuple(types), args, kwargs or None)  # type: ignore[attr-defined]
                if out is not NotImplemented:
                    return out
            if not types and not modes:
                return function(*args, **kwargs)
            name = getattr(function, "__name__", "function")
            asked = [f"  - mode object {mode}" for mode in modes[-1:]] + [f"  - tensor subclass {cls}" for cls in types]
            raise TypeError(
                f"Multiple dispatch failed for 'torch.{name}'; all __torch_function__ handlers returned NotImplemented:\n\n"
                + "\n".join(asked)
            )
        except Exception as error:
            if operator and types and isinstance(error, TypeError):
                return NotImplemented
            trim(error)
            raise

    asking.overridable, asking.shown = True, asking  # type: ignore[attr-defined]
    return asking


def default(cls: type[Any], func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
    """The operation itself, its results turned into tensors of a class, if that is one of all the types."""
    names = getattr(func, "__globals__", None)
    if names is None or names["__name__"].partition(".")[0] == "torch":  # not of this library: it was given tensors of both
        raise UnsupportedError(
            f"{getattr(func, '__name__', func)} of PyTorch was given a tensor of functrace.torch.\n"
            "  Make the tensors one library's: from_numpy(x.numpy()), PyTorch's or functrace.torch's."
        )
    if not all(issubclass(cls, other) for other in types):
        return NotImplemented
    return _turned(_disabled_torch_function_impl(func, (), args, kwargs), cls)


def _turned(out: Any, cls: type[Any]) -> Any:
    if type(out) is Tensor and issubclass(cls, Tensor):
        out.__class__ = cls
    elif isinstance(out, (list, tuple)):
        for x in out:
            _turned(x, cls)
    return out


def install() -> None:
    """Put the public functions and methods in their wrappers."""
    global _installed
    if _installed:
        return
    _installed = True
    kind: Any
    for kind in (Parameter, Buffer):
        kind.__torch_function__ = staticmethod(_disabled_torch_function_impl)
    wrapped: dict[int, Any] = {}

    def once(function: Any, name: str) -> Any:
        if type(function) is not FunctionType or hasattr(function, "overridable"):
            return function
        if id(function) not in wrapped:
            wrapped[id(function)] = overridable(function)
            if function.__name__ not in METHODS and function.__name__ not in FUNCTIONS:  # one of a kind: as PyTorch calls it
                plain = name.strip("_")
                wrapped[id(function)].__name__ = plain if plain in METHODS else name
        return wrapped[id(function)]

    plain = {name: vars(Tensor)[name] for name in METHODS if name.startswith("__")}
    for name in (*METHODS, "backward", "detach", "detach_", "requires_grad_"):
        setattr(Tensor, name, once(vars(Tensor).get(name), name) if name in vars(Tensor) else getattr(Tensor, name))
    for name, function in plain.items():
        method = getattr(Tensor, name).__name__
        if name in _OWN_NAMES or not method.startswith("__"):
            operator: Any = overridable(function, operator=True)
            operator.__name__ = _OWN_NAMES.get(name, method)
            for place in {name, operator.__name__} - METHODS | {name}:
                setattr(Tensor, place, operator)
            operator.shown = operator if name in _OWN_NAMES else getattr(Tensor, method)
    for name in ("T", "mT", "H", "mH", "real", "imag"):
        held = vars(Tensor)[name]
        setattr(Tensor, name, held.getter(once(held.fget, "__get__")))
    for space in _SPACES:
        module = importlib.import_module(space)
        for name, function in list(vars(module).items()):
            if not name.startswith("_") and (name in FUNCTIONS or space != "functrace.torch"):
                setattr(module, name, once(function, name))


def has_torch_function(args: Iterable[Any]) -> bool:
    """Whether an argument has a class that has a say."""
    return bool(_overriding(args)) and not _inside.get()


def handle_torch_function(public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Ask the classes of the arguments."""
    for cls in _overriding(relevant_args):
        out = cls.__torch_function__(public_api, tuple(_overriding(relevant_args)), args, kwargs)
        if out is not NotImplemented:
            return out
    raise TypeError(f"no implementation found for '{public_api.__module__}.{public_api.__name__}'")


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor, or its class has a `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


__getattr__ = missing("torch.overrides")
