"""`torch.nn.utils.parametrize`: parameters of a module that are computed from others, by modules, whenever they are read."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from functrace.torch._modes import no_grad
from functrace.torch._tensor import Tensor
from functrace.torch.nn.containers import ModuleDict, ModuleList
from functrace.torch.nn.module import Module
from functrace.torch.nn.parameter import Parameter

__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations"]

_cache: ContextVar[dict[Any, Any] | None] = ContextVar("functrace.torch.parametrize", default=None)


@contextmanager
def cached() -> Iterator[None]:
    """While it lasts, each parametrised tensor is computed once."""
    outer = _cache.get()
    _cache.set({} if outer is None else outer)
    try:
        yield
    finally:
        _cache.set(outer)


def _tensor(made: Any) -> Any:
    if not isinstance(made, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(made).__name__}.")
    return made


class ParametrizationList(ModuleList):
    """The modules that make a tensor, and what they make it of: `original`, or `original0`, `original1` ..."""

    __module__ = "torch.nn.utils.parametrize"
    _found_in = __name__
    original: Any

    def __init__(self, modules: Any, original: Any, unsafe: bool = False) -> None:
        modules = list(modules)
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        new: Any = original.detach()
        with no_grad():
            for module in reversed(modules):
                if hasattr(module, "right_inverse"):
                    with suppress(NotImplementedError):
                        new = module.right_inverse(new)
        self.is_tensor = isinstance(new, Tensor)
        for name, x in zip(self._names(len(new) if not self.is_tensor else 0), (new,) if self.is_tensor else new):
            if self.is_tensor and x._a.dtype != original._a.dtype:
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the dtype.\noriginal.dtype: {original.dtype}\n"
                    f"right_inverse(original).dtype: {x.dtype}"
                )
            if self.is_tensor:  # it stays the one that optimisers know
                original.data, x = x.data, original
            elif isinstance(original, Parameter):
                x = Parameter(x, original._rg and x._a.dtype.kind in "fc")
            if isinstance(original, Parameter):
                setattr(self, name, x)
            else:
                self.register_buffer(name, x)
        if not unsafe:
            made = _tensor(self())
            for what in ("dtype", "shape"):
                old, now = getattr(original, what), getattr(made, what)
                if old != now:
                    raise ValueError(
                        f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` flag is enabled.\n"
                        f"unparametrized {what}: {old}\nparametrized {what}: {now}"
                    )

    def _names(self, n: int = 0) -> list[str]:
        return [f"original{k}" for k in range(n)] if n else ["original"]

    def _originals(self) -> list[Any]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, name) for name in self._names(1 + max(int(k[8:]) for k in (*self._parameters, *self._buffers)))]

    def right_inverse(self, value: Any) -> None:
        """Let the originals be such that the tensor has this value, by the `right_inverse` of the modules."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            for k, (old, new) in enumerate(zip(self._originals(), (value,) if self.is_tensor else value)):
                if old._a.dtype != new._a.dtype:
                    who, whose = ("The tensor", "original") if self.is_tensor else (f"Tensor {k}", f"original{k}")
                    raise ValueError(f"{who} returned by `right_inverse` has dtype {new.dtype} while `{whose}` has dtype {old.dtype}")
                old.data = new.detach().clone().data

    def forward(self) -> Any:
        """The tensor."""
        first, *rest = list(self)
        out = first(*self._originals())
        for module in rest:
            out = module(out)
        return out


def _tensor_of(name: str) -> property:
    def get(self: Module) -> Any:
        kept = _cache.get()
        make = self.parametrizations[name]
        if kept is None:
            return make()
        key = id(self), name
        if key not in kept:
            kept[key] = make()
        return kept[key]

    def put(self: Module, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, put)


def _class_of(module: Module) -> None:
    """Give a module a class of its own, in which tensors can be properties."""
    plain = type(module)

    def __setattr__(self: Module, name: str, value: Any) -> None:
        if name in type(self).__dict__ and isinstance(type(self).__dict__[name], property):
            object.__setattr__(self, name, value)
        else:
            plain.__setattr__(self, name, value)

    def __deepcopy__(self: Module, memo: dict[int, Any]) -> Module:
        out = memo[id(self)] = object.__new__(type(self))
        out.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return out

    def __reduce_ex__(self: Module, protocol: Any) -> Any:
        raise RuntimeError("Serialization of parametrized modules is only supported through state_dict(). See:\n"
                           "https://pytorch.org/tutorials/beginner/saving_loading_models.html#saving-loading-a-general-checkpoint-for-inference-"
                           "and-or-resuming-training")  # fmt: skip

    module.__class__ = type(
        f"Parametrized{plain.__name__}",
        (plain,),
        {
            "__module__": __name__.removeprefix("functrace."),
            "__setattr__": __setattr__,
            "__deepcopy__": __deepcopy__,
            "__reduce_ex__": __reduce_ex__,
        },
    )
    module.__dict__["_modules"]["parametrizations"] = ModuleDict()


def register_parametrization(module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False) -> Module:
    """Let `module.tensor_name` be `parametrization(original)` from now on. Returns the module."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        row = module.parametrizations[tensor_name]
        if not unsafe:
            value = getattr(module, tensor_name)
            made = _tensor(parametrization(value))
            if made._a.shape != value._a.shape:
                raise ValueError(
                    "Registering a parametrization may not change the shape of the tensor, unless the `unsafe` flag is enabled.\n"
                    f"module.{tensor_name}.shape: {value.shape}\nparametrization(module.{tensor_name}).shape: {made.shape}"
                )
        row.append(parametrization)
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        row = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _class_of(module)
        setattr(type(module), tensor_name, _tensor_of(tensor_name))
        module.parametrizations[tensor_name] = row
    else:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'")
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrised tensors, or one of that name."""
    rows = module._modules.get("parametrizations")
    if not isinstance(rows, ModuleDict):
        return False
    return len(rows) > 0 if tensor_name is None else tensor_name in rows


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Let the tensor be an ordinary parameter again: with the value that it has, or else its original. Returns the module."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    row = module.parametrizations[tensor_name]
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name)
        if row.is_tensor:
            original = row.original
            original.data = value.detach().data
        else:
            original = Parameter(value) if row._parameters else value
    elif row.is_tensor:
        original = row.original
    else:
        raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a sequence of "
                         "tensors.")  # fmt: skip
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if not len(module.parametrizations):
        del module.__dict__["_modules"]["parametrizations"]
        module.__class__ = type(module).__bases__[0]
    if isinstance(original, Parameter):
        module.register_parameter(tensor_name, original)
    else:
        module.register_buffer(tensor_name, original)
    return module
