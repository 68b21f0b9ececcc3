"""What a tensor on the device "meta" has in the place of an array: a shape and a dtype, and no elements."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from functrace.torch._dtypes import device_of


class Meta:
    """The shape and dtype of an array. What would need its elements raises; what writes them does nothing."""

    __slots__ = ("dtype", "itemsize", "nbytes", "ndim", "shape", "size", "strides")

    def __init__(self, shape: Any, dtype: Any) -> None:
        self.shape, self.dtype, self.ndim, self.size, self.itemsize = shape, dtype, len(shape), math.prod(shape), dtype.itemsize
        self.nbytes = self.size * self.itemsize
        self.strides = tuple(self.itemsize * math.prod(shape[k + 1 :]) for k in range(self.ndim))

    def copy(self, _order: str = "K") -> Meta:
        """Itself, as nothing writes to it."""
        return self

    def __len__(self) -> int:
        return self.shape[0]  # type: ignore[no-any-return]

    def __getitem__(self, key: Any) -> Meta:
        if key is ...:  # the whole array, as `numpy()` gives it
            self._refuse()
        return Meta(np.broadcast_to(np.zeros((), self.dtype), self.shape)[key].shape, self.dtype)

    def __setitem__(self, key: Any, x: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(name)
        self._refuse()

    def _refuse(self, *_args: Any, **_options: Any) -> NoReturn:
        raise NotImplementedError(
            "A tensor on the device 'meta' has a shape, but no elements, and functrace.torch does not compute the shapes of results: put "
            "tensors in the places of a module's by functional_call, to_empty(device='cpu') or load_state_dict(..., assign=True)."
        )

    __array__ = __array_ufunc__ = __array_function__ = _refuse


def without_data(a: Any, d: Any, device: Any) -> Meta:
    """What is left of an array, perhaps in another dtype, on "meta". Raises NotImplementedError for any other device."""
    if device is not None and not device_of(device):
        raise NotImplementedError(
            "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving "
            "module from meta to a different device."
        )
    return Meta(a.shape, d)
