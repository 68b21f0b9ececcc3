"""`torch.autograd.Variable`: the old name of tensors that require grad."""

from __future__ import annotations

from typing import Any

from functrace.torch._tensor import Tensor, wrap


class _Tensors(type):
    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor)


class Variable(metaclass=_Tensors):
    """`Variable(t, requires_grad=True)` is a tensor on the memory of `t`; every tensor is a Variable."""

    __module__ = "torch.autograd.variable"

    def __new__(cls, data: Any, requires_grad: bool = False) -> Any:
        t = wrap(data._a)
        return t.requires_grad_() if requires_grad else t
