"""`torch.types`: the names that annotations give to what functions take."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Union

from functrace.torch._dtypes import Size, device, dtype, layout
from functrace.torch._missing import missing
from functrace.torch._tensor import Tensor

_int, _float, _bool, _complex, _str, _bytes = int, float, bool, complex, str, bytes
_dtype, _device, _layout = dtype, device, layout
Number = int | float | bool
_Number = (int, float, bool)
_size = Size | list[int] | tuple[int, ...]
Device = device | str | int | None
FileLike = Union[str, "os.PathLike[str]", IO[bytes]]
_TensorOrTensors = Tensor | Sequence[Tensor]
__getattr__ = missing("torch.types")
