"""Tensors that a module knows as its own: `Parameter`, which is trained, and `Buffer`, which is only kept."""

from __future__ import annotations

from typing import Any

from functrace.torch._missing import as_of, missing
from functrace.torch._tensor import Tensor, wrap


class _Marked(type):
    """The class of `Parameter`, of which are tensors of other classes too that are marked so."""

    def __instancecheck__(cls, instance: Any) -> bool:
        marked = cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)
        return marked or super().__instancecheck__(instance)


class Parameter(Tensor, metaclass=_Marked):
    """A tensor that requires grad, which a module knows as its own. Of a subclass of Tensor it is of that class."""

    _is_param = True

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Parameter:
        kind: Any = type(data)
        data = Tensor() if data is None else data.detach()
        if getattr(kind, "_kept", False):
            if type(data) is not kind:
                raise RuntimeError(f"nn.Parameter of a {kind.__name__}: its detach() gave a {type(data).__name__}, not one of its class.")
            t, t._is_param = data, True
        else:
            t = wrap(data._a, cls)
            t._ver = data._ver
        t._set_requires_grad(requires_grad, "Only Tensors of floating point and complex dtype can require gradients")
        return t  # type: ignore[no-any-return]

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Without the gradient, as PyTorch copies parameters."""
        t = super().__deepcopy__(memo)  # type: ignore[misc]
        t._grad = None
        return t

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuild, (self.detach(), self._rg)


def _rebuild(data: Any, requires_grad: bool) -> Any:
    return Parameter(data, requires_grad)


class Buffer(Tensor):
    """A tensor that a module keeps, saves (if `persistent`) and moves, but does not train."""

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Buffer:
        data = Tensor() if data is None else data.detach()
        t = wrap(data._a, cls)
        t._ver, t.persistent = data._ver, persistent
        return t  # type: ignore[no-any-return]

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return repr(self.detach())


__getattr__ = missing("torch.nn", {"UninitializedParameter": "lazy"})


as_of("torch.nn.parameter", Parameter, Buffer)
