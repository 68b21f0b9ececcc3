"""Making tensors: from data, filled, ranged and random."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.torch import _dtypes, _random
from functrace.torch._dtypes import to_shape
from functrace.torch._index import stack
from functrace.torch._ops import public
from functrace.torch._tensor import Tensor, wrap
from functrace.torch._views import bad_argument


def _finish(a: Any, requires_grad: bool) -> Any:
    t = wrap(a)
    if requires_grad:
        t._set_requires_grad(True, "Only Tensors of floating point and complex dtype can require gradients")
    return t


def _np(dtype: Any, otherwise: Any = None) -> Any:
    if dtype is None:
        return (otherwise or _dtypes.get_default_dtype()).np
    if not isinstance(dtype, _dtypes.dtype):
        raise TypeError(f"argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")
    return dtype.np


def _leaves(data: Any) -> tuple[tuple[int, ...], list[Any]]:
    """The shape of nested sequences, as PyTorch finds it, and their items."""
    shape: list[int] = []
    level = [data]
    while level and isinstance(level[0], (list, tuple, range)):
        n = len(level[0])
        for item in level:
            if not isinstance(item, (list, tuple, range)):
                raise TypeError(f"not a sequence at dim {len(shape)}")
            if len(item) != n:
                raise ValueError(f"expected sequence of length {n} at dim {len(shape)} (got {len(item)})")
        shape.append(n)
        level = [x for item in level for x in item]
        if not n:
            break
    return tuple(shape), level


def _array(data: Any, dtype: Any) -> Any:
    """A new array with the elements of data, of the dtype that PyTorch infers unless one is given."""
    if isinstance(data, Tensor):
        return data._a.astype(_np(dtype, data.dtype))
    if isinstance(data, (np.ndarray, np.generic)):
        a = np.array(data)
        return a.astype(_np(dtype, _dtypes.of(a.dtype)))
    shape, items = _leaves(data)
    if items and isinstance(items[0], np.ndarray):
        return _array(np.array(data), dtype)
    kind: Any = None
    for k, x in enumerate(items):
        if isinstance(x, Tensor):
            items[k] = x = x.item()
        if not isinstance(x, (bool, int, float, complex, np.generic)):
            if x is None:
                raise RuntimeError("Could not infer dtype of NoneType")
            raise TypeError(f"new(): invalid data type '{type(x).__name__}'")
        d = _dtypes.of(x.dtype) if isinstance(x, np.generic) else _dtypes.of_scalar(x)
        kind = d if kind is None else _dtypes.promote_types(kind, d)
    try:
        return np.array(items, _np(dtype, kind)).reshape(shape)
    except OverflowError:
        raise ValueError("Overflow when unpacking long long") from None


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Any:
    """A new tensor with a copy of `data`: numbers, nested sequences, arrays."""
    _device(device)
    return _finish(_array(data, dtype), requires_grad)


def _device(device: Any) -> None:
    if device is not None:
        _dtypes.device(device)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """`data` as a tensor, on its own memory if that can be."""
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)  # type: ignore[attr-defined]
    if isinstance(data, np.ndarray) and (dtype is None or dtype.np == data.dtype):
        return from_numpy(data)
    return tensor(data, dtype=dtype, device=device)


asarray = as_tensor


def from_numpy(ndarray: Any) -> Any:
    """A tensor on the memory of an array."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    _dtypes.of(ndarray.dtype)
    return wrap(ndarray)


def _shape(name: str, size: Sequence[Any], named: Any = None) -> tuple[int, ...]:
    size = size if named is None else (named,)
    try:
        shape = to_shape(size)
    except TypeError:
        bad = size[0][0] if isinstance(size[0], (list, tuple)) else size[0]
        raise TypeError(f"{name}(): argument 'size' (position 1) must be tuple of ints, not {type(bad).__name__}") from None
    if any(n < 0 for n in shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    return shape


Maker = Callable[..., Any]


def _filled(name: str, make: Any) -> tuple[Maker, Maker]:
    def plain(*size: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None, out: Any = None, **_options: Any) -> Any:
        _device(device)
        return _finish(make(_shape(name, size, _options.get("size")), _np(dtype)), requires_grad)

    def like(input: Any, *, dtype: Any = None, requires_grad: bool = False, device: Any = None, **_options: Any) -> Any:
        if not isinstance(input, Tensor):
            raise bad_argument(f"{name}_like", "input", 1, input)
        return _finish(make(input._a.shape, _np(dtype, input.dtype)), requires_grad)

    plain.__name__, like.__name__ = name, f"{name}_like"
    return plain, like


zeros, zeros_like = _filled("zeros", np.zeros)
ones, ones_like = _filled("ones", np.ones)
empty, empty_like = _filled("empty", np.empty)


def full(size: Any, fill_value: Any, *, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Any:
    """One number everywhere; its kind decides the dtype unless one is given."""
    if isinstance(size, int):
        raise TypeError("full(): argument 'size' (position 1) must be tuple of ints, not int")
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    return _finish(np.full(_shape("full", (size,)), value, _np(dtype, _dtypes.of_scalar(value))), requires_grad)


def full_like(input: Any, fill_value: Any, *, dtype: Any = None, requires_grad: bool = False) -> Any:
    """One number everywhere, in the shape and dtype of another tensor."""
    return _finish(np.full(input._a.shape, fill_value, _np(dtype, input.dtype)), requires_grad)


def scalar_tensor(s: Any, *, dtype: Any = None) -> Any:
    """A 0-d tensor of the default dtype."""
    return wrap(np.asarray(s, _np(dtype)))


def eye(n: int, m: int | None = None, *, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Any:
    """The n x m matrix with ones on its diagonal."""
    return _finish(np.eye(n, m, dtype=_np(dtype)), requires_grad)


def arange(start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Any:
    """Numbers from `start` (0) up to but without `end`."""
    start, end, step = (x.item() if isinstance(x, Tensor) else x for x in (start, end, step))
    if end is None:
        start, end = 0, start
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) / step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    whole = all(isinstance(x, int) for x in (start, end, step))
    n = max(0, math.ceil((end - start) / step))
    d = _np(dtype, _dtypes.int64 if whole else None)
    values = start + np.arange(n, dtype=np.int64 if whole else np.float64) * step
    return _finish(values.astype(d), requires_grad)


def _range(function: Callable[..., Any]) -> Callable[..., Any]:
    def plain(start: Any, end: Any, steps: int, *args: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Any:
        d = _np(dtype)
        return _finish(function(start, end, operator.index(steps), d, *args), requires_grad)

    return plain


def _linspace(start: Any, end: Any, n: int, d: Any) -> Any:
    """From both ends towards the middle, in the dtype of the result, as PyTorch does."""
    if n < 2 or d.kind not in "f":
        return np.linspace(start, end, n).astype(d)
    step = d.type((d.type(end) - d.type(start)) / d.type(n - 1))
    k = np.arange(n)
    return np.where(k < n // 2, d.type(start) + step * k.astype(d), d.type(end) - step * (n - 1 - k).astype(d)).astype(d)


linspace = _range(_linspace)
logspace = _range(lambda start, end, n, d, base=10.0: np.power(base, np.linspace(start, end, n)).astype(d))


def _drawn(name: str, kind: str) -> tuple[Maker, Maker]:
    def plain(
        *size: Any,
        generator: Any = None,
        dtype: Any = None,
        requires_grad: bool = False,
        device: Any = None,
        out: Any = None,
        **_options: Any,
    ) -> Any:
        _device(device)
        return _finish(_random.draw(kind, _shape(name, size, _options.get("size")), _floating(name, _np(dtype)), generator), requires_grad)

    def like(input: Any, *, dtype: Any = None, requires_grad: bool = False, device: Any = None, **_options: Any) -> Any:
        return _finish(_random.draw(kind, input._a.shape, _floating(name, _np(dtype, input.dtype))), requires_grad)

    plain.__name__, like.__name__ = name, f"{name}_like"
    return plain, like


def _floating(name: str, d: Any) -> Any:
    if d.kind not in "fc":
        raise NotImplementedError(
            f"\"{'check_uniform_bounds' if name == 'rand' else 'normal_kernel_cpu'}\" not implemented for '{_dtypes.of(d).scalar}'"
        )
    return d


rand, rand_like = _drawn("rand", "uniform")
randn, randn_like = _drawn("randn", "normal")


def randint(
    low: int,
    high: Any = None,
    size: Any = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    requires_grad: bool = False,
    device: Any = None,
) -> Any:
    """Integers from `low` (0) to `high - 1`."""
    if size is None:
        low, high, size = 0, low, high
    if high is None:
        low, high = 0, low
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    shape = _shape("randint", (size,))
    values = (generator or _random.default_generator).below(low, high, math.prod(shape)).reshape(shape)
    return _finish(values.astype(_np(dtype, _dtypes.int64)), requires_grad)


def randint_like(input: Any, low: int, high: int | None = None, *, dtype: Any = None) -> Any:
    """Integers, in the shape and dtype of another tensor."""
    return randint(*((0, low) if high is None else (low, high)), tuple(input.shape), dtype=dtype or input.dtype)


def randperm(n: int, *, generator: Any = None, dtype: Any = None) -> Any:
    """The integers below n in random order."""
    return wrap((generator or _random.default_generator).permutation(n).astype(_np(dtype, _dtypes.int64)))


def normal(mean: Any, std: Any = 1.0, size: Any = None, *, generator: Any = None, dtype: Any = None, requires_grad: bool = False) -> Any:
    """Normal numbers of a mean and standard deviation, numbers or tensors."""
    if size is not None:
        return _finish(
            _random.draw("normal", _shape("normal", (size,)), _np(dtype), generator) * _np(dtype).type(std) + _np(dtype).type(mean),
            requires_grad,
        )
    like = mean if isinstance(mean, Tensor) else std
    shape = np.broadcast_shapes(np.shape(getattr(mean, "_a", mean)), np.shape(getattr(std, "_a", std)))
    return wrap(_random.draw("normal", shape, like._a.dtype, generator)) * std + mean


def bernoulli(input: Any, p: Any = None, *, generator: Any = None) -> Any:
    """1 with the probability that each element is, else 0."""
    chance = input._a if p is None else np.full(input._a.shape, p, input._a.dtype)
    drawn = _random.draw("uniform", chance.shape, chance.dtype, generator)
    return wrap((drawn < chance).astype(chance.dtype))


def _fill_random(kind: str) -> Callable[..., Any]:
    def method(self: Any, a: Any = 0.0, b: Any = 1.0, *, generator: Any = None) -> Any:
        """Overwrite with random numbers."""
        drawn = _random.draw(kind, self._a.shape, self._a.dtype, generator)
        one = self._a.dtype.type
        values = drawn * one(b - a) + one(a) if kind == "uniform" else drawn * one(b) + one(a)
        return self.copy_(wrap(values.astype(self._a.dtype)))

    return method


Tensor.uniform_, Tensor.normal_ = _fill_random("uniform"), _fill_random("normal")  # type: ignore[attr-defined]
Tensor.bernoulli_ = lambda self, p=0.5, *, generator=None: self.copy_(bernoulli(self, p, generator=generator))  # type: ignore[attr-defined]


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Any, ...]:
    """Coordinates of a grid."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    n = len(tensors)
    swap = indexing == "xy" and n > 1
    order = (1, 0, *range(2, n)) if swap else tuple(range(n))
    sizes = [tensors[k]._a.size for k in order]
    out: list[Any] = [None] * n
    for place, k in enumerate(order):
        shape = [1] * n
        shape[place] = sizes[place]
        out[k] = tensors[k].view(*shape).expand(*sizes)
    return tuple(out)


def cartesian_prod(*tensors: Any) -> Any:
    """All combinations of the elements of vectors, one a row."""
    return stack([g.reshape(-1) for g in meshgrid(*tensors)], 1)


def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """Tensors expanded to their common shape."""
    shape = np.broadcast_shapes(*(t._a.shape for t in tensors))
    return tuple(t.expand(*shape) for t in tensors)


NAMES = (
    "arange as_tensor asarray bernoulli broadcast_tensors cartesian_prod empty empty_like eye from_numpy full full_like linspace "
    "logspace meshgrid normal ones ones_like rand rand_like randint randint_like randn randn_like randperm scalar_tensor tensor zeros "
    "zeros_like"
).split()
for _name in NAMES:
    public(globals()[_name], _name, method=False)
_MAKERS = {"zeros": zeros, "ones": ones, "empty": empty}
for _name, _maker in _MAKERS.items():
    public(
        lambda self, *size, _f=_maker, dtype=None, **more: _f(*size, dtype=dtype or self.dtype, **more),
        f"new_{_name}",
        torch=False,
    )
public(lambda self, size, value, dtype=None, **more: full(size, value, dtype=dtype or self.dtype, **more), "new_full", torch=False)
public(lambda self, data, dtype=None, **more: tensor(data, dtype=dtype or self.dtype, **more), "new_tensor", torch=False)


class _StorageMeta(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor) and x.dtype.storage == cls.__name__


def _legacy(storage: str, d: _dtypes.dtype) -> Any:
    return _StorageMeta(storage, (), {"__module__": "torch", "__new__": lambda cls, *args: Tensor._construct(*args, dtype=d), "dtype": d})


LEGACY = {d.storage: _legacy(d.storage, d) for d in _dtypes.NAMES.values()}
