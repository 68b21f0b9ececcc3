"""Making tensors: from data, filled, ranged and random."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.torch import _dtypes, _inplace, _random
from functrace.torch._contact import Tracer
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
    if isinstance(data, (np.ndarray, np.generic, Tracer)):
        given: Any = data
        a = np.copy(given)
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
    if isinstance(data, (np.ndarray, Tracer)) and (dtype is None or dtype.np == data.dtype):
        return from_numpy(data)
    return tensor(data, dtype=dtype, device=device)


asarray = as_tensor


def from_numpy(ndarray: Any) -> Any:
    """A tensor on the memory of an array."""
    if not isinstance(ndarray, (np.ndarray, Tracer)):
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
    def plain(
        start: Any, end: Any, steps: int, *args: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None, **more: Any
    ) -> Any:
        d = _np(dtype)
        return _finish(function(start, end, operator.index(steps), d, *args, **more), requires_grad)

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


def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    requires_grad: bool = False,
    out: Any = None,
) -> Any:
    """Normal numbers of a mean and standard deviation, numbers or tensors."""
    if size is not None:
        made = empty(_shape("normal", (size,)), dtype=dtype)
        return made.normal_(mean, std, generator=generator).requires_grad_(requires_grad)
    like = mean if isinstance(mean, Tensor) else std
    shape = np.broadcast_shapes(np.shape(getattr(mean, "_a", mean)), np.shape(getattr(std, "_a", std)))
    return wrap(_random.draw("normal", shape, like._a.dtype, generator)) * std + mean


def bernoulli(input: Any, p: Any = None, *, generator: Any = None, out: Any = None) -> Any:
    """1 with the probability that each element is (or p), else 0."""
    made = empty_like(input if out is None else out)
    return (made if out is None else out).bernoulli_(input if p is None else p, generator=generator)


def _source(generator: Any) -> _random.Generator:
    return generator or _random.default_generator


def _uniform(x: Any, source: Any, a: float = 0.0, b: float = 1.0) -> Any:
    return _random.scaled(source.uniform(x.size, x.dtype), b - a, a, x.dtype)


def _normal(x: Any, source: Any, mean: float = 0.0, std: float = 1.0) -> Any:
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    if x.dtype.kind == "c":
        return _random.draw("normal", (x.size,), x.dtype, source) * std + mean
    return _random.normal(x.size, x.dtype, source, mean, std)


def _bernoulli(x: Any, source: Any, p: Any = 0.5) -> Any:
    if isinstance(p, Tensor):
        chance = np.broadcast_to(p._a, x.shape).ravel()
        kind = chance.dtype if chance.dtype.kind == "f" else np.dtype(np.float32)
    else:
        chance, kind = p, np.dtype(np.float64)
    if not np.all((chance >= 0) & (chance <= 1)):
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={chance}")
    return source.uniform(x.size, kind) < chance


def _integers(x: Any, source: Any, low: Any = None, high: Any = None) -> Any:
    if low is not None:
        return source.below(*((0, low) if high is None else (low, high)), x.size)
    if x.dtype.kind == "f":
        digits = {2: 11, 4: 24, 8: 53}[x.dtype.itemsize]
        return (source.doublewords(x.size) if digits == 53 else source.words(x.size)) % np.uint64((1 << digits) + 1)
    if x.dtype == np.bool_:
        return source.words(x.size) & np.uint64(1)
    return (source.doublewords if x.dtype.itemsize == 8 else source.words)(x.size) % np.uint64(int(np.iinfo(x.dtype).max) + 1)


_F64 = np.dtype(np.float64)
_FILLS: dict[str, Callable[..., Any]] = {
    "uniform_": _uniform,
    "normal_": _normal,
    "bernoulli_": _bernoulli,
    "random_": _integers,
    "exponential_": lambda x, source, lambd=1.0: -np.log1p(-source.uniform(x.size, _F64)) / lambd,
    "geometric_": lambda x, source, p: np.ceil(np.log(source.uniform(x.size, _F64)) / np.log1p(-p)),
    "cauchy_": lambda x, source, median=0.0, sigma=1.0: median + sigma * np.tan(np.pi * (source.uniform(x.size, _F64) - 0.5)),
    "log_normal_": lambda x, source, mean=1.0, std=2.0: np.exp(source.normals(x.size) * std + mean),
}


def _filling(name: str, fill: Callable[..., Any]) -> None:
    renamed = {"from": "a" if name == "uniform_" else "low", "to": "b" if name == "uniform_" else "high"}

    def method(self: Any, *args: Any, generator: Any = None, **named: Any) -> Any:
        named = {renamed.get(k, k): v for k, v in named.items()}
        drawn = fill(self._a, _source(generator), *args, **named)
        return self.copy_(wrap(np.reshape(drawn, self._a.shape).astype(self._a.dtype)))

    method.__name__ = name
    method.__doc__ = "Overwrite with random numbers."
    setattr(Tensor, name, method)


for _name, _fill in _FILLS.items():
    _filling(_name, _fill)
public(lambda self, *p, generator=None: bernoulli(self, *p, generator=generator), "bernoulli", torch=False)


def multinomial(input: Any, num_samples: int, replacement: bool = False, *, generator: Any = None, out: Any = None) -> Any:
    """Indices drawn from each row with probabilities proportional to its elements."""
    p = input._a
    if not np.all((p >= 0) & np.isfinite(p)):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if not replacement and num_samples > p.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if not replacement or num_samples == 1:
        ratio = wrap(p) / empty_like(input).exponential_(generator=generator)
        return ratio.argmax(-1, True) if num_samples == 1 else ratio.topk(num_samples)[1]
    rows = p.reshape(-1, p.shape[-1])
    sums = np.cumsum(rows, axis=1, dtype=p.dtype)
    drawn = _source(generator).uniform(len(rows) * num_samples, _F64).reshape(len(rows), -1)
    found = [np.searchsorted(s / s[-1], u) for s, u in zip(sums, drawn)]
    return wrap(np.reshape(found, (*p.shape[:-1], num_samples)).astype(np.int64))


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


def _range_with_end(start: Any = 0, end: Any = None, step: Any = 1, *, dtype: Any = None, requires_grad: bool = False) -> Any:
    """Numbers from `start` up to and with `end`."""
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with Python's range "
        "builtin. Instead, use torch.arange, which produces values in [start, end).",
        stacklevel=2,
    )
    n = int((end - start) / step) + 1
    return _finish((start + np.arange(n) * step).astype(_np(dtype)), requires_grad)


def empty_strided(size: Any, stride: Any, *, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Any:
    """A tensor of these strides, counted in elements, whose elements are not set."""
    _device(device)
    n = 1 + sum((k - 1) * s for k, s in zip(size, stride)) if 0 not in size else 0
    flat = np.zeros(n, _np(dtype))
    return _finish(np.lib.stride_tricks.as_strided(flat, size, [s * flat.itemsize for s in stride]), requires_grad)


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Any:
    """A tensor on the memory of a buffer."""
    return _finish(np.frombuffer(buffer, _np(dtype), count, offset), requires_grad)


def _window(fun: Any) -> Callable[..., Any]:
    def window(
        window_length: int, periodic: bool = True, *shape: float, dtype: Any = None, requires_grad: bool = False, device: Any = None
    ) -> Any:
        _device(device)
        a = fun(window_length + periodic, *shape)[:window_length] if window_length > 1 else np.ones(window_length)
        return _finish(a.astype(_np(dtype)), requires_grad)

    return window


_WINDOWS: dict[str, Any] = {
    "bartlett": np.bartlett, "blackman": np.blackman, "hann": np.hanning, "kaiser": lambda n, beta=12.0: np.kaiser(n, beta),
    "hamming": lambda n, alpha=0.54, beta=0.46: alpha - beta * np.cos(2 * np.pi * np.arange(n) / (n - 1)),
}  # fmt: skip
public(_range_with_end, "range", method=False)
for _name, _fun in _WINDOWS.items():
    public(_window(_fun), _name + "_window", method=False)
public(lambda input, value: input.clone().fill_(value), "fill", method=False)
public(lambda input: input.detach(), "detach", method=False)
public(lambda input: bool(input), "is_nonzero")
public(lambda input, other: input._a.shape == other._a.shape, "is_same_size")
public(lambda input: input.dtype.is_signed, "is_signed")
public(lambda input: -1, "get_device")

NAMES = (
    "arange as_tensor asarray bernoulli broadcast_tensors cartesian_prod empty empty_like empty_strided eye from_numpy frombuffer full "
    "full_like linspace logspace meshgrid multinomial normal ones ones_like rand rand_like randint randint_like randn randn_like "
    "randperm scalar_tensor tensor zeros zeros_like"
).split()
for _name in NAMES:
    public(globals()[_name], _name, method=_name == "multinomial")
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
_inplace.attach()
