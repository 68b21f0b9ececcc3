"""How tensors and results lie in memory: in order, as an argument does, or as images whose channels lie last; on "meta" not at all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from functrace.torch import _dtypes

AS_IT_IS = (None, _dtypes.preserve_format)


def in_order(a: Any, *_arrays: Any) -> Any:
    """An array, or a copy whose elements lie in order."""
    return a.copy() if type(a) is np.ndarray and not a.flags.c_contiguous else a


def upright(a: Any, *_arrays: Any) -> Any:
    """An array, or a copy of one whose elements lie backwards: tensors' don't."""
    return a.copy() if type(a) is np.ndarray and min(a.strides, default=0) < 0 else a


def like(a: Any, make: Callable[[tuple[int, ...]], Any]) -> Any:
    """What `make` gives for the shape of an array, its elements in the order in which the array's lie in memory."""
    if type(a) is not np.ndarray or a.flags.c_contiguous or 0 in a.strides:
        return make(a.shape)
    order = sorted(range(a.ndim), key=lambda k: -a.strides[k])
    return make(tuple(a.shape[k] for k in order)).transpose(np.argsort(order))


def as_given(a: Any, x: Any) -> Any:
    """An array, or a copy that lies as an argument of its shape does."""
    if type(a) is not np.ndarray or type(x) is not np.ndarray or x.flags.c_contiguous:
        return a
    out = like(x, lambda shape: np.empty(shape, a.dtype))
    out[...] = a
    return out


def channels_last(a: Any) -> bool:
    """Whether these are images whose channels, axis 1, lie innermost and all else in order, as PyTorch tells it from the strides."""
    if type(a) is not np.ndarray or a.ndim != 4:
        return False
    batch, step, row, pixel = a.strides
    return 0 < step <= pixel and step * a.shape[1] <= pixel and pixel * a.shape[3] <= row and step < row * a.shape[2] <= batch


def as_image(a: Any, x: Any, weight: Any = None, *_rest: Any) -> Any:
    """An array, or a copy: its channels lie last if those of an image, or of a weight, do, else all is in order."""
    if a.ndim == 4 and (channels_last(x) or weight is not None and channels_last(weight)):
        return a if channels_last(a) else formatted(a, _dtypes.channels_last)
    return in_order(a)


def formatted(a: Any, form: Any) -> Any:
    """An array, or a copy of it, in a memory format."""
    if form is _dtypes.channels_last:
        if a.ndim != 4:
            raise RuntimeError("required rank 4 tensor to use channels_last format")
        return np.array(a.transpose(0, 2, 3, 1), order="C").transpose(0, 3, 1, 2) if type(a) is np.ndarray else a
    return in_order(a) if form is _dtypes.contiguous_format else a


def memory(a: Any) -> tuple[Any, int, tuple[int, ...]]:
    """The flat array that holds the elements, where they begin in it, and their strides."""
    root = a
    while isinstance(root.base, np.ndarray) and root.base.dtype == a.dtype:
        root = root.base
    flat = root.ravel("K")
    if not np.may_share_memory(flat, root) or any(s < 0 or s % a.itemsize for s in a.strides) or not a.size:
        a = root = np.ascontiguousarray(a).reshape(a.shape)
        flat = a.ravel()
    offset = (a.__array_interface__["data"][0] - root.__array_interface__["data"][0]) // a.itemsize
    return flat, offset, tuple(s // a.itemsize for s in a.strides)


def stretched(a: Any, shape: tuple[int, ...]) -> Any:
    """`np.broadcast_to` of an array in order, without its four microseconds."""
    lead = len(shape) - a.ndim
    strides = [0] * len(shape)
    for k, (m, n, step) in enumerate(zip(a.shape, shape[lead:], a.strides), lead):
        if m == n:
            strides[k] = step
        elif m != 1:
            return np.broadcast_to(a, shape)  # which says what is wrong
    out: Any = np.ndarray(shape, a.dtype, a, 0, strides)
    out.flags.writeable = False
    return out


class Meta:
    """What a tensor on "meta" has in the place of an array. What would need its elements raises; what writes them does nothing."""

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
    if device is not None and not _dtypes.device_of(device):
        raise NotImplementedError(
            "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving "
            "module from meta to a different device."
        )
    return Meta(a.shape, d)
