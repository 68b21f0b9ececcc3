"""`torch.nn.common_types`: the names that annotations give to a layer's sizes."""

from __future__ import annotations

from typing import Any, TypeVar

from functrace.torch._missing import missing
from functrace.torch._tensor import Tensor

T = TypeVar("T")
for _name, _what in (("_scalar_or_tuple", T), ("_size", int), ("_ratio", float)):
    _kind: Any = _what
    globals()[f"{_name}_any_t"] = _kind | tuple[_kind, ...]
    for _n in range(1, 7):
        globals()[f"{_name}_{_n}_t"] = _kind | tuple.__class_getitem__((_kind,) * _n)
_size_any_opt_t = int | tuple[int | None, ...] | None
_size_2_opt_t = int | tuple[int | None, int | None] | None
_size_3_opt_t = int | tuple[int | None, int | None, int | None] | None
_tensor_list_t = Tensor | tuple[Tensor, ...]
_maybe_indices_t = Tensor | tuple[Tensor, Tensor]
__getattr__ = missing("torch.nn.common_types")
