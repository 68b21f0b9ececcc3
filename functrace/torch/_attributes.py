"""Small things that a tensor can be asked, and its exchange with other libraries. Attached to `Tensor`."""

from __future__ import annotations

import copy
import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np

from functrace.torch import _dtypes
from functrace.torch._apply import call
from functrace.torch._contact import Tracer, boundary, replaced, tree
from functrace.torch._layout import Meta
from functrace.torch._missing import MissingNameError, answer, in_place_of
from functrace.torch._modes import recording
from functrace.torch._nodes import graft
from functrace.torch._ops import public
from functrace.torch._shape import ALIAS
from functrace.torch._tensor import Tensor, wrap


def _as_subclass(self: Any, cls: Any) -> Any:
    if not issubclass(cls, Tensor):
        raise TypeError(f"as_subclass(): argument 'cls' must be a subclass of Tensor, not {cls.__name__}")
    out = call(ALIAS, (self,), (Ellipsis,))
    out.__class__ = cls
    return out


def _set_(self: Any, source: Any) -> Any:
    """Let it be on the memory of another tensor."""
    if source._a.dtype != self._a.dtype:
        raise RuntimeError(f"Could not set tensor of type {source.dtype.scalar.lower()} to a tensor of type {self.dtype.scalar.lower()}")
    if recording() and self._rg or self._base is not None:
        raise RuntimeError("set_: a view, or a tensor that requires grad, keeps its memory: use copy_, or torch.no_grad().")
    self._ver[0] += 1
    self._a, self._ver = source._a, source._ver
    return self


def _moved(kind: str) -> Any:
    def move(self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
        place = _dtypes.device(kind if device is None else device)
        if place.type != kind:
            raise RuntimeError(f"Invalid device, must be {kind} device")
        return _dtypes.usable(place)

    return move


def _dlpack(self: Any, *, stream: Any = None, **kwargs: Any) -> Any:
    if self._rg:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if isinstance(self._a, Tracer):
        raise BufferError("Can't export a tensor of a running transform.")
    return self._a.__dlpack__(stream=stream, **kwargs)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor on the memory of another library's array, or of what a capsule holds, which NumPy lets nobody write to."""
    _dtypes.device_of(device)
    if type(ext_tensor).__name__ == "PyCapsule":
        ext_tensor = SimpleNamespace(__dlpack__=answer(ext_tensor), __dlpack_device__=answer((1, 0)))
    a = ext_tensor if isinstance(ext_tensor, np.ndarray) else np.from_dlpack(ext_tensor)  # NumPy 2.0 makes it read-only
    return wrap(a.copy() if copy else a)


_REDUCTIONS = frozenset(("sum", "prod", "mean", "max", "min", "any", "all"))  # NumPy calls the method of that name


def numpy_call(function: Any, args: Any, kwargs: Any) -> Any:
    """A function of NumPy on tensors: recorded, by functrace's rules, if one of them requires grad; else plain NumPy on the arrays."""
    leaves, treedef = tree.flatten((args, kwargs))
    places = [k for k, x in enumerate(leaves) if isinstance(x, Tensor)]
    outdef: list[Any] = []

    def plain(*arrays: Any) -> Any:
        given, named = tree.unflatten(treedef, replaced(leaves, places, arrays))
        return function(*given, **named)

    def flat(*arrays: Any) -> tuple[Any, ...]:
        out, structure = tree.flatten(plain(*arrays))
        outdef[:] = [structure]
        return tuple(out)

    tensors = [leaves[k] for k in places]
    if not _recorded(tensors):
        return plain(*(t._a for t in tensors))
    found = graft("NumpyBackward0", flat, tensors, many=True)
    return tree.unflatten(outdef[0], found)


def _array_function(self: Any, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    own = getattr(function, "__wrapped__", None)
    if own is not None and (function.__name__ in _REDUCTIONS or not _recorded(tree.leaves((args, kwargs)))):
        return own(*args, **kwargs)
    return numpy_call(function, args, kwargs)


def _recorded(leaves: Any) -> bool:
    return bool(recording()) and any(isinstance(t, Tensor) and t._rg for t in leaves)


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  If you were "
            "attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, see "
            "https://github.com/pytorch/pytorch/pull/103001"
        )
    if id(self) not in memo:
        t = memo[id(self)] = wrap(self._a.copy("K"), type(self))
        t._rg = self._rg
        t._grad = None if self._grad is None else self._grad.__deepcopy__(memo)
        t.__dict__.update(copy.deepcopy(_given(self), memo))
    return memo[id(self)]


def _given(t: Any) -> dict[str, Any]:
    """The attributes that a program gave a tensor."""
    return {k: x for k, x in t.__dict__.items() if k[0] != "_" or k == "_is_param"}


def _reduce(self: Any, protocol: Any) -> Any:
    return _rebuild, (
        np.ascontiguousarray(self._a).reshape(self._a.shape),
        self.is_leaf and self._rg,
        None if type(self) is Tensor else type(self),
        _given(self),
    )


def _rebuild(a: Any, requires_grad: bool, cls: type[Tensor] | None, attributes: Any = ()) -> Any:
    t = wrap(a, cls or Tensor)
    t._rg = requires_grad
    t.__dict__.update(attributes)
    return t


Tensor.__deepcopy__, Tensor.__reduce_ex__ = _deepcopy, _reduce  # type: ignore[attr-defined, method-assign]


class _NotHere:
    """A method of PyTorch's tensors that these do not have."""

    def __init__(self, name: str) -> None:
        self.name = name

    @boundary
    def __get__(self, t: Any, cls: Any) -> Any:
        raise MissingNameError(f"'{cls.__name__}' object has no attribute '{self.name}' {in_place_of(self.name)}")


for _name in (
    "bfloat16 ccol_indices chalf coalesce col_indices crow_indices dense_dim dequantize geqrf indices int_repr ormqr q_per_channel_axis "
    "q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point qscheme record_stream row_indices set_ smm sparse_dim sparse_mask "
    "sparse_resize_ sspaddmm to_dense to_mkldnn to_padded_tensor to_sparse to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc "
    "to_sparse_csr values".split()
):
    setattr(Tensor, _name, _NotHere(_name))


def _map_(self: Any, tensor: Any, callable: Any) -> Any:
    return self.copy_(wrap(np.reshape([callable(x, y) for x, y in zip(self.flatten().tolist(), tensor.flatten().tolist())], self.shape)))


def _init_subclass(cls: Any, /, **kwargs: Any) -> None:
    super(Tensor, cls).__init_subclass__(**kwargs)
    if not cls.__module__.startswith(("torch", "functrace.")):
        from functrace.torch.overrides import _disabled_torch_function_impl, install

        install()
        cls._kept = cls.__torch_function__ is not _disabled_torch_function_impl


def _torch_function(cls: Any, /, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """What an operation on tensors of a subclass does: it computes, and its results are of that class."""
    from functrace.torch.overrides import default

    return default(cls, func, types, args, kwargs or {})


def _later(module: str, name: str) -> Any:
    """A method that is a function of a module which is imported when it is called."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(f"functrace.torch.{module}"), name)(self, *args, **kwargs)

    return method


for _name in ("stft", "istft"):
    public(_later("_spectra", _name), _name)
METHODS: dict[str, Any] = {
    "map_": _map_,
    "prelu": _later("nn.functional", "prelu"),
    "hardshrink": _later("nn.functional", "hardshrink"),
    "storage": _later("storage", "storage"),
    "untyped_storage": _later("storage", "untyped_storage"),
    "__array_function__": _array_function,
    "__init_subclass__": classmethod(_init_subclass),
    "__torch_function__": classmethod(boundary(_torch_function)),
    "__reversed__": lambda self: self.flip(0),
    "as_subclass": _as_subclass,
    "set_": _set_,
    "cuda": _moved("cuda"),
    "xpu": _moved("xpu"),
    "__dlpack__": _dlpack,
    "__dlpack_device__": lambda self: (1, 0),
    "is_set_to": lambda self, tensor: (self.data_ptr(), self.stride(), self.shape) == (tensor.data_ptr(), tensor.stride(), tensor.shape),
    "is_pinned": lambda self, device=None: False,
    "is_shared": lambda self: False,
    "is_coalesced": lambda self: False,
    "share_memory_": lambda self: self,
    "pin_memory": lambda self, device=None: self,
    "has_names": lambda self: False,
    "is_meta": property(lambda self: type(self.__dict__.get("_a")) is Meta),
    "is_cpu": property(lambda self: not self.is_meta),
}
for _name, _method in METHODS.items():
    setattr(Tensor, _name, _method)
