"""Layers that learn the size of their input from the first call, and then are the ordinary ones."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from functrace.torch import _dtypes
from functrace.torch._tensor import wrap
from functrace.torch.nn.layers import TABLE
from functrace.torch.nn.module import Module
from functrace.torch.nn.parameter import Parameter
from functrace.torch.nn.weighted import Linear

_UNUSABLE = (
    "Attempted to use an uninitialized parameter in an operation. When using LazyModules Call `forward` with a dummy batch to initialize "
    "the parameters before calling torch functions"
)
_SHAPELESS = (
    "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in `load_state_dict` when trying to load "
    "an uninitialized parameter into an initialized one. Call `forward` to initialize the parameters before accessing their attributes."
)


class UninitializedParameter(Parameter):
    """A parameter whose shape is still to be learned: `materialize` gives it one."""

    __module__ = "torch.nn.parameter"

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        if device is not None:
            _dtypes.usable(device)
        made = Parameter(wrap(np.empty(0, (dtype or _dtypes.get_default_dtype()).np)), requires_grad)
        made.__class__ = cls
        return made

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary parameter, whose values are still to be set."""
        made = np.empty(tuple(shape), (dtype or self.dtype).np)
        self.__class__ = Parameter  # type: ignore[assignment]
        self._a = made

    @property
    def _a(self) -> Any:
        """Raises ValueError: whatever computes asks for it."""
        raise ValueError(_UNUSABLE)

    @_a.setter
    def _a(self, a: Any) -> None:
        self.__dict__["_a"] = a

    @property  # type: ignore[misc]
    def data(self) -> Any:
        """An empty tensor: what is done to it is lost, as in PyTorch."""
        return wrap(self.__dict__["_a"])

    @property
    def dtype(self) -> Any:
        """Type of the elements that there will be."""
        return _dtypes.of(self.__dict__["_a"].dtype)

    @property
    def shape(self) -> NoReturn:
        """Raises RuntimeError."""
        raise RuntimeError(_SHAPELESS)

    def detach(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return memo.setdefault(id(self), _unmade(self._rg, self.dtype))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _unmade, (self._rg, self.dtype)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return "<UninitializedParameter>"


def _unmade(requires_grad: bool, dtype: Any) -> Any:
    return UninitializedParameter(requires_grad, dtype=dtype)


class LazyModuleMixin(Module):
    """What lazy layers share. A subclass names the class to become and says in `initialize_parameters` what an input tells."""

    __module__ = "torch.nn.modules.lazy"
    cls_to_become: Any = None

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter has no shape yet."""
        return any(isinstance(p, UninitializedParameter) for p in self._parameters.values())

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Learn the sizes from the arguments of the first call."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.initialize_parameters(*args, **kwargs)
        self.__class__ = self.cls_to_become
        return self(*args, **kwargs)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        for name, t in (*self._parameters.items(), *self._buffers.items()):
            saved = state_dict.get(prefix + name)
            if saved is None or t is None or isinstance(saved, UninitializedParameter):
                continue
            if isinstance(t, UninitializedParameter):
                t.materialize(saved.shape)
            elif not t._a.size:
                t._a = np.empty(saved.shape, t._a.dtype)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class _Lazy(LazyModuleMixin):
    def reset_parameters(self) -> None:
        """Nothing: there are no sizes yet."""

    def _wait(self) -> None:
        """Forget the parameters that were made for inputs of size 0."""
        for name, p in self._parameters.items():
            if p is not None:
                self._parameters[name] = UninitializedParameter(dtype=p.dtype)

    def _settle(self, **shapes: Any) -> None:
        """Give the parameters and buffers their shapes, and the parameters their first values."""
        fresh = self.has_uninitialized_params()
        for name, shape in shapes.items():
            p = self._parameters.get(name)
            if isinstance(p, UninitializedParameter):
                p.materialize(shape)
        if fresh:
            self.cls_to_become.reset_parameters(self)


class LazyLinear(_Lazy, Linear):
    """`Linear`, whose `in_features` is the last size of its first input."""

    __module__ = "torch.nn.modules.linear"
    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, bias, device, dtype)
        self.out_features = out_features
        self._wait()

    def initialize_parameters(self, input: Any) -> None:
        self.in_features = input._a.shape[-1]
        self._settle(weight=(self.out_features, self.in_features), bias=(self.out_features,))


class _LazyConv(_Lazy):
    _spatial_dims: int
    transposed: bool

    def __init__(self, out_channels: int, kernel_size: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(0, 0, kernel_size, *args, **kwargs)
        self.out_channels: int = out_channels
        self._wait()

    def initialize_parameters(self, input: Any) -> None:
        shape, d = input._a.shape, self._spatial_dims
        if len(shape) not in (d + 1, d + 2):
            raise RuntimeError(
                f"Expected {d + 1}D (unbatched) or {d + 2}D (batched) input to {type(self).__name__}, but got input of size: {input.shape}"
            )
        self.in_channels = shape[-d - 1]
        first, second = (self.in_channels, self.out_channels)[:: 1 if self.transposed else -1]
        self._settle(weight=(first, second // self.groups, *self.kernel_size), bias=(self.out_channels,))


class _LazyNorm(_Lazy):
    def __init__(self, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True, *args: Any, **kwargs: Any) -> None:
        super().__init__(0, eps, momentum, affine, *(args or (kwargs.pop("track_running_stats", True),)), **kwargs)
        self._wait()

    def initialize_parameters(self, input: Any) -> None:
        n = self.num_features = input._a.shape[1]
        for name, b in self._buffers.items():
            if b is not None and b._a.ndim and len(b._a) != n:
                b._a = np.full(n, float(name == "running_var"), b._a.dtype)
        self._settle(weight=(n,), bias=(n,))


def _lazy(base: type[Module], kind: type[_Lazy]) -> type[Module]:
    about = f"`{base.__name__}`, whose number of channels is that of its first input."
    return type(f"Lazy{base.__name__}", (kind, base), {"__module__": base.__module__, "__doc__": about, "cls_to_become": base})


for _kind, _names in ((_LazyConv, ("Conv", "ConvTranspose")), (_LazyNorm, ("BatchNorm", "InstanceNorm"))):
    for _name in _names:
        for _d in (1, 2, 3):
            globals()[f"Lazy{_name}{_d}d"] = _lazy(TABLE[f"{_name}{_d}d"], _kind)
