"""`torch.storage`: the memory that a tensor lies in, as a flat row of elements or of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.torch import _dtypes
from functrace.torch._dtypes import warn
from functrace.torch._layout import memory
from functrace.torch._missing import missing

_DEPRECATED = (
    "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage class. This should only "
    "matter to you if you are using storages directly.  To access UntypedStorage directly, use tensor.untyped_storage() instead of "
    "tensor.storage()"
)


class UntypedStorage:
    """The bytes of a tensor's memory. Reading and writing an element reaches the tensor."""

    __module__ = "torch.storage"
    device = _dtypes.CPU

    def __init__(self, flat: Any) -> None:
        self._flat = flat

    def __len__(self) -> int:
        return len(self._flat)

    def __sizeof__(self) -> int:
        return 48 + self.nbytes()

    def size(self) -> int:
        """Number of elements."""
        return len(self._flat)

    def nbytes(self) -> int:
        """Number of bytes."""
        return int(self._flat.nbytes)

    def element_size(self) -> int:
        """Bytes of an element."""
        return int(self._flat.itemsize)

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self._flat.ctypes.data)

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        return self._flat.tolist()  # type: ignore[no-any-return]

    def fill_(self, value: Any) -> UntypedStorage:
        """Set all elements."""
        self._flat[...] = _dtypes.held(value, self._flat.dtype)
        return self

    def clone(self) -> UntypedStorage:
        """A copy of the memory."""
        return type(self)(self._flat.copy())

    def __getitem__(self, k: Any) -> Any:
        return self._flat[self._place(k)].item()

    def __setitem__(self, k: Any, value: Any) -> None:
        self._flat[self._place(k)] = _dtypes.held(value, self._flat.dtype)

    def _place(self, k: Any) -> int:
        if not isinstance(k, (int, np.integer)):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        n = len(self._flat)
        if not -n <= k < n:
            raise IndexError(f"index {k} out of range for storage of size {n}")
        return int(k)

    def _kind(self) -> str:
        return ""

    def __repr__(self) -> str:
        rows = "\n".join(f" {x}" for x in self.tolist())
        return f"{rows}\n[{self.__module__}.{type(self).__name__}({self._kind()}device=cpu) of size {len(self)}]"


class TypedStorage(UntypedStorage):
    """The elements of a tensor's memory."""

    __module__ = "torch.storage"

    @property
    def dtype(self) -> _dtypes.dtype:
        """Type of the elements."""
        return _dtypes.of(self._flat.dtype)

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return UntypedStorage(self._flat.view(np.uint8))

    def _kind(self) -> str:
        return f"dtype={self.dtype}, "


def storage(tensor: Any) -> TypedStorage:
    """`tensor.storage()`."""
    warn(_DEPRECATED)
    return TypedStorage(memory(tensor._a)[0])


def untyped_storage(tensor: Any) -> UntypedStorage:
    """`tensor.untyped_storage()`."""
    return TypedStorage(memory(tensor._a)[0]).untyped()


def is_storage(obj: Any) -> bool:
    """Whether an object is a tensor's memory."""
    return isinstance(obj, UntypedStorage)


__all__ = ["TypedStorage", "UntypedStorage"]
__getattr__ = missing("torch.storage")
