"""`torch.nn`, as far as it goes: `functional`, and `Parameter`."""

from __future__ import annotations

from typing import Any

from functrace.torch._missing import missing
from functrace.torch._tensor import Tensor, wrap
from functrace.torch.nn import functional as functional

__all__ = ["Parameter", "functional"]


class Parameter(Tensor):
    """A tensor that requires grad, which a module knows as its own."""

    __module__ = "torch.nn.parameter"

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        t = wrap(Tensor()._a if data is None else data._a, cls)
        t._ver = [0] if data is None else data._ver
        t._set_requires_grad(requires_grad, "Only Tensors of floating point and complex dtype can require gradients")
        return t

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuild, (self.detach(), self._rg)


def _rebuild(data: Any, requires_grad: bool) -> Any:
    return Parameter(data, requires_grad)


__getattr__ = missing("torch.nn")
