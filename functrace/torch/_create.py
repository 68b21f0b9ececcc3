"""Making tensors: from data, filled, ranged and random."""

from __future__ import annotations

import functools
import math
import operator
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.torch import _dtypes, _inplace
from functrace.torch._apply import call
from functrace.torch._contact import BatchTracer, Tracer
from functrace.torch._dtypes import device_of, numpy_dtype, to_shape, warn
from functrace.torch._index import stack
from functrace.torch._layout import Meta, formatted, like
from functrace.torch._nodes import SCALARS
from functrace.torch._ops import public
from functrace.torch._shape import FILL
from functrace.torch._tensor import Tensor, wrap
from functrace.torch._views import bad_argument, mismatch


def finish(a: Any, requires_grad: bool, options: Any = None, device: Any = None) -> Any:
    t = wrap(Meta(a.shape, a.dtype) if device_of(device) else formatted(a, options.get("memory_format")) if options else a)
    if requires_grad:
        t._set_requires_grad(True, "Only Tensors of floating point and complex dtype can require gradients")
    return t


_LAYOUT = frozenset(("layout", "pin_memory", "memory_format"))


def keywords(name: str, options: dict[str, Any]) -> None:
    """Raise for a keyword that PyTorch does not have."""
    for option in options:
        if option not in _LAYOUT:
            raise TypeError(f"{name}() got an unexpected keyword argument '{option}'")


def written(out: Any, a: Any) -> Any:
    """An array written to what was given as `out=`, which is resized to fit."""
    if out._a.dtype != a.dtype:
        raise RuntimeError(f"dtype {_dtypes.of(a.dtype).scalar} does not match dtype of out parameter ({out.dtype.scalar})")
    if out._a.shape != a.shape:
        out._a = np.empty(a.shape, a.dtype)
    return out.copy_(wrap(a))


def creates(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, which gives an array, as one that makes a tensor, with the options that all such functions have."""

    @functools.wraps(function)
    def make(
        *args: Any, requires_grad: bool = False, device: Any = None, layout: Any = None, pin_memory: bool = False, **named: Any
    ) -> Any:
        return finish(function(*args, **named), requires_grad, None, device)

    return make


def fills(function: Callable[..., Any]) -> Callable[..., Any]:
    """`creates`, with `out=`."""
    make = creates(function)

    @functools.wraps(make)
    def fill(*args: Any, out: Any = None, **named: Any) -> Any:
        return make(*args, **named) if out is None else written(out, make(*args, **{"dtype": out.dtype, **named})._a)

    return fill


_SEQUENCES = (list, tuple, range, deque)


def _flat(data: Any) -> tuple[tuple[int, ...], list[Any]]:
    """The shape of nested sequences, as PyTorch finds it, and their items."""
    shape: list[int] = []
    level = [data]
    while level and isinstance(level[0], _SEQUENCES):
        n = len(level[0])
        for item in level if n else ():
            if not isinstance(item, _SEQUENCES):
                raise TypeError("not a sequence")
            if len(item) != n:
                raise ValueError(f"expected sequence of length {n} at dim {len(shape)} (got {len(item)})")
        shape.append(n)
        level = [x for item in level for x in item] if n else []
    return tuple(shape), level


def _array(data: Any, dtype: Any) -> Any:
    """A new array with the elements of data, of the dtype that PyTorch infers unless one is given."""
    if isinstance(data, Tensor):
        return data._a.astype(numpy_dtype(dtype, data.dtype))
    if isinstance(data, (np.ndarray, np.generic, Tracer)) or hasattr(data, "__array__"):  # a column of a table, too
        given: Any = data
        a = np.copy(given)
        return a.astype(numpy_dtype(dtype, _dtypes.of(a.dtype)), copy=False)
    shape, items = _flat(data)
    if items and isinstance(items[0], np.ndarray):
        return _array(np.array(data), dtype)
    kind: Any = None
    for k, x in enumerate(items):
        if isinstance(x, Tensor):
            if x._a.size != 1:
                raise ValueError("only one element tensors can be converted to Python scalars")
            items[k] = x = x._told().item()
        if not isinstance(x, (bool, int, float, complex, np.generic)):
            raise _no_number(x, kind, bool(shape))
        d = _dtypes.of(x.dtype) if isinstance(x, np.generic) else _dtypes.of_scalar(x)
        kind = d if kind is None else _dtypes.promote_types(kind, d)
    d = numpy_dtype(dtype, kind)
    try:
        return np.array(items, d).reshape(shape)
    except (OverflowError, ValueError):
        if d.kind == "u" and all(isinstance(x, int) and abs(x) <= np.iinfo(d).max for x in items):
            return np.array(items, np.int64).astype(d).reshape(shape)  # negative ones wrap round
        if all(-(2**63) <= x < 2**63 for x in items if isinstance(x, int)):
            raise RuntimeError(f"value cannot be converted to type {d.name} without overflow") from None
        raise ValueError("Overflow when unpacking long long") from None
    except TypeError:
        raise TypeError("must be real number, not complex") from None


def _no_number(x: Any, kind: Any, inside: bool) -> Exception:
    """PyTorch's complaint about what is no number: at the top, or among numbers of a kind."""
    name = type(x).__name__
    if isinstance(x, (list, tuple)):
        real = kind.is_floating_point
        return TypeError(f"must be real number, not {name}" if real else f"'{name}' object cannot be interpreted as an integer")
    if isinstance(x, str) and inside and kind is None:
        return ValueError("too many dimensions 'str'")
    if isinstance(x, (str, bytes)):
        return TypeError(f"new(): invalid data type '{name}'")
    return RuntimeError(f"Could not infer dtype of {name}")


_COPY_CONSTRUCTED = (
    "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
    "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor)."
)


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Any:
    """A new tensor with a copy of `data`: numbers, nested sequences, arrays."""
    if isinstance(data, Tensor):
        warn(_COPY_CONSTRUCTED)
    return finish(_array(data, dtype), requires_grad, None, device)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """`data` as a tensor, on its own memory if that can be."""
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    if not device_of(device) and isinstance(data, (np.ndarray, Tracer)) and (dtype is None or dtype.np == data.dtype):
        return from_numpy(data)
    return tensor(data, dtype=dtype, device=device)


def asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool | None = None) -> Any:
    """`obj` (a tensor, an array, a buffer, numbers) as a tensor: with `copy=False` on its own memory, or ValueError."""
    if isinstance(obj, (bytes, bytearray, memoryview)):
        obj = frombuffer(obj, dtype=dtype or _dtypes.get_default_dtype())
    elif isinstance(obj, np.ndarray):
        obj = from_numpy(obj)
    t = as_tensor(obj, dtype, device)
    if copy is False and t is not obj:
        kinds = f"tensor with dtype '{obj.dtype.scalar}' into dtype '{t.dtype.scalar}'" if isinstance(obj, Tensor) else ""
        raise ValueError(f"can't alias {kinds or 'arbitrary sequence into a tensor'}.")
    t = t.clone() if copy else t
    return t if requires_grad in (None, t.requires_grad) else t.detach().requires_grad_(requires_grad)


def from_numpy(ndarray: Any) -> Any:
    """A tensor on the memory of an array."""
    if not isinstance(ndarray, (np.ndarray, Tracer)):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    _dtypes.of(ndarray.dtype)
    if isinstance(ndarray, np.ndarray):
        if not ndarray.dtype.isnative:
            raise ValueError(
                "given numpy array has byte order different from the native byte order. Conversion between byte orders is currently not "
                "supported."
            )
        if any(s < 0 for s in ndarray.strides):
            raise ValueError(
                "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently supported. "
                "(You can probably work around this by making a copy of your array  with array.copy().) "
            )
        ndarray = ndarray[...]  # the caller's may be given another shape
    return wrap(ndarray)


def shape_of(name: str, size: Sequence[Any], named: Any = None) -> tuple[int, ...]:
    size = size if named is None else (named,)
    if not size:
        raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
    try:
        shape = to_shape(size)
    except TypeError:
        inner = size[0] if isinstance(size[0], (list, tuple)) else size
        k, bad = next((k, type(n).__name__) for k, n in enumerate(inner) if not isinstance(n, (int, np.integer)))
        if k:
            what = f'failed to unpack the object at pos {k + 1} with error "type must be tuple of ints,but got {bad}"'
        else:
            what = "(position 1) must be tuple of ints, " + (f"not {bad}" if inner is size else f"but found element of type {bad} at pos 0")
        raise TypeError(f"{name}(): argument 'size' {what}") from None
    if any(n < 0 for n in shape):
        if name == "zeros":
            raise RuntimeError(f"{name}: Dimension size must be non-negative.")
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    return shape


Maker = Callable[..., Any]


def each(a: Any, x: Any) -> Any:
    """An array; beside one example of a batch, an array for each of them, so that it can be written to."""
    if not isinstance(a, BatchTracer):
        return x
    return a.owner.tracer(each(a.below, np.array(np.broadcast_to(x, (a.below.shape[0], *x.shape)))))


def makers(name: str, make: Any, *more: str) -> tuple[Maker, Maker]:
    """The functions `name` and `name_like` of `make(shape, dtype)`, to which the first passes the keywords `more`."""

    def plain(
        *shape: Any, size: Any = None, dtype: Any = None, requires_grad: bool = False, device: Any = None, out: Any = None, **options: Any
    ) -> Any:
        fun = np.empty if device_of(device) else make
        if options:
            given = {k: options.pop(k) for k in more if k in options}
            fun = functools.partial(make, **given) if fun is make else fun
            keywords(name, options)
        d = out._a.dtype if out is not None and dtype is None else numpy_dtype(dtype, None, name)
        a = fun(shape_of(name, shape, size), d)
        return finish(a, requires_grad, options, device) if out is None else written(out, a)

    def as_another(input: Any, *, dtype: Any = None, requires_grad: bool = False, device: Any = None, **options: Any) -> Any:
        if options:
            keywords(f"{name}_like", options)
        if not isinstance(input, Tensor):
            raise bad_argument(f"{name}_like", "input", 1, input)
        d = numpy_dtype(dtype, input.dtype, f"{name}_like")
        return finish(each(input._a, like(input._a, lambda shape: make(shape, d))), requires_grad, options, device or input.device)

    plain.__name__, as_another.__name__ = name, f"{name}_like"
    return plain, as_another


zeros, zeros_like = makers("zeros", np.zeros)
ones, ones_like = makers("ones", np.ones)
empty, empty_like = makers("empty", np.empty)


@fills
def full(size: Any, fill_value: Any, *, dtype: Any = None) -> Any:
    """One number everywhere; its kind decides the dtype unless one is given."""
    if isinstance(size, int):
        raise TypeError("full(): argument 'size' (position 1) must be tuple of ints, not int")
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    if not isinstance(value, SCALARS):
        raise TypeError(f"full(): argument 'fill_value' (position 2) must be Number, not {type(value).__name__}")
    return np.full(shape_of("full", (size,)), _dtypes.held(value, numpy_dtype(dtype, _dtypes.of_scalar(value), "full")))


def full_like(input: Any, fill_value: Any, *, dtype: Any = None, requires_grad: bool = False, device: Any = None, **options: Any) -> Any:
    """One number everywhere, in the shape and dtype of another tensor."""
    keywords("full_like", options)
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    held = _dtypes.held(value, numpy_dtype(dtype, input.dtype))
    return finish(each(input._a, like(input._a, lambda shape: np.full(shape, held))), requires_grad, options, device or input.device)


@creates
def scalar_tensor(s: Any, *, dtype: Any = None) -> Any:
    """A 0-d tensor of the default dtype."""
    return np.asarray(s, numpy_dtype(dtype))


@fills
def eye(n: int, m: int | None = None, *, dtype: Any = None) -> Any:
    """The n x m matrix with ones on its diagonal."""
    if not isinstance(n, (int, np.integer, Tensor)):
        raise TypeError(f"eye(): argument 'n' (position 1) must be int, not {type(n).__name__}")
    for size, letter in ((n, "n"), (m, "m")):
        if size is not None and size < 0:
            raise RuntimeError(f"{letter} must be greater or equal to 0, got {size}")
    return np.eye(n, m, dtype=numpy_dtype(dtype))


@fills
def arange(start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None) -> Any:
    """Numbers from `start` (0) up to but without `end`."""
    start, end, step = (x.item() if isinstance(x, Tensor) else x for x in (start, end, step))
    start, end, step = (_dtypes.held(x, np.dtype(np.float64)).item() if isinstance(x, complex) else x for x in (start, end, step))
    if end is None:
        start, end = 0, start
    for position, (name, x) in enumerate((("start", start), ("end", end), ("step", step)), 1):
        if not isinstance(x, SCALARS):
            raise TypeError(f"arange(): argument '{name}' (position {position}) must be Number, not {type(x).__name__}")
    whole = all(isinstance(x, int) for x in (start, end, step))
    d = numpy_dtype(dtype, _dtypes.int64 if whole else None)
    first, by = (int(start), int(step)) if d.kind in "iu" else (start, step)  # of whole numbers each is one
    if d == np.int64:
        start, end, step = first, int(end), by
    if by == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) / step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    n = max(0, math.ceil((end - start) / step))
    values = first + np.arange(n, dtype=np.int64 if whole or d.kind in "iu" else np.float64) * by
    return values.astype(d)


def _range(start: Any, end: Any, steps: int, dtype: Any) -> tuple[Any, Any, int, Any]:
    start, end = (x.item() if isinstance(x, Tensor) else x for x in (start, end))
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    usual = _dtypes.of_scalar(1j) if isinstance(start, complex) or isinstance(end, complex) else None
    return start, end, operator.index(steps), numpy_dtype(dtype, usual)


def spaced(start: Any, end: Any, n: int, d: Any) -> Any:
    """Evenly spaced numbers, as an array: from both ends towards the middle, in the dtype of the result, as PyTorch does."""
    if n < 2 or d.kind not in "fc":
        return np.linspace(start, end, n).astype(d)
    step = d.type((d.type(end) - d.type(start)) / d.type(n - 1))
    k = np.arange(n, dtype={"f": np.float64, "d": np.longdouble}.get(d.char, d))  # product and sum are rounded once
    return np.where(k < n // 2, d.type(start) + step * k, d.type(end) - step * (n - 1 - k)).astype(d)


@fills
def linspace(start: Any, end: Any, steps: int, *, dtype: Any = None) -> Any:
    """Evenly spaced numbers."""
    return spaced(*_range(start, end, steps, dtype))


@fills
def logspace(start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Any = None) -> Any:
    """The powers of `base` with evenly spaced exponents."""
    start, end, n, d = _range(start, end, steps, dtype)
    return np.power(base, np.linspace(start, end, n)).astype(d)


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Any, ...]:
    """Coordinates of a grid."""
    if indexing is None:
        warn("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.")
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
        out[k] = tensors[k].view(shape).expand(sizes)
    return tuple(out)


def cartesian_prod(*tensors: Any) -> Any:
    """All combinations of the elements of vectors, one a row."""
    for t in tensors:
        if t._a.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(t._a.shape)}")
        if t._a.dtype != tensors[0]._a.dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    return stack([g.reshape(-1) for g in meshgrid(*tensors, indexing="ij")], 1) if len(tensors) > 1 else tensors[0]


def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """Tensors expanded to their common shape."""
    shape: tuple[int, ...] = ()
    for t in tensors:
        if not shape or t._a.shape == shape:
            shape = t._a.shape
            continue
        try:
            shape = np.broadcast_shapes(shape, t._a.shape)
        except ValueError:
            raise (mismatch(np.broadcast_to(0, shape), t._a) or RuntimeError("broadcast_tensors(): shapes do not fit")) from None
    return tuple(t if t._a.shape == shape else t.expand(shape) for t in tensors)


@fills
def _range_with_end(start: Any = 0, end: Any = None, step: Any = 1, *, dtype: Any = None) -> Any:
    """Numbers from `start` up to and with `end`."""
    warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with Python's range "
        "builtin. Instead, use torch.arange, which produces values in [start, end)."
    )
    n = int((end - start) / step) + 1
    return (start + np.arange(n) * step).astype(numpy_dtype(dtype))


@creates
def empty_strided(size: Any, stride: Any, *, dtype: Any = None) -> Any:
    """A tensor of these strides, counted in elements, whose elements are not set."""
    n = 1 + sum((k - 1) * s for k, s in zip(size, stride)) if 0 not in size else 0
    flat = np.zeros(n, numpy_dtype(dtype))
    return np.lib.stride_tricks.as_strided(flat, size, [s * flat.itemsize for s in stride])


@creates
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0) -> Any:
    """A tensor on the memory of a buffer."""
    return np.frombuffer(buffer, numpy_dtype(dtype), count, offset)


def _points(fun: Any, n: int, periodic: bool, dtype: Any) -> Any:
    return (fun(n + periodic)[:n] if n > 1 else np.ones(n)).astype(numpy_dtype(dtype))


def _plain(fun: Any) -> Any:
    return lambda window_length, periodic=True, *, dtype=None: _points(fun, window_length, periodic, dtype)


public(_range_with_end, "range", method=False)
for _name, _fun in {
    "bartlett": _plain(np.bartlett), "blackman": _plain(np.blackman), "hann": _plain(np.hanning),
    "hamming": lambda window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None: _points(
        lambda n: alpha - beta * np.cos(2 * np.pi * np.arange(n) / (n - 1)), window_length, periodic, dtype
    ),
    "kaiser": lambda window_length, periodic=True, beta=12.0, *, dtype=None: _points(
        lambda n: np.kaiser(n, beta), window_length, periodic, dtype),
}.items():  # fmt: skip
    public(creates(_fun), _name + "_window", method=False)


def _indices(name: str) -> Any:
    def function(row: int, col: int, offset: int = 0, *, dtype: Any = None) -> Any:
        return np.stack(getattr(np, name)(row, offset, col)).astype(numpy_dtype(dtype, _dtypes.int64))

    return creates(function)


for _name in ("tril_indices", "triu_indices"):
    public(_indices(_name), _name, method=False)


def fill(input: Any, value: Any) -> Any:
    """One value, a number or a 0-d tensor, everywhere."""
    if isinstance(value, Tensor):
        return call(FILL[1], (input, value))
    return call(FILL[0], (input,), (_dtypes.held(value, input._a.dtype)[()],))


public(fill, method=False)
public(lambda input: input.detach(), "detach", method=False)
public(lambda input: bool(input), "is_nonzero")
public(lambda input, other: input._a.shape == other._a.shape, "is_same_size")
public(lambda input: input.dtype.is_signed, "is_signed")
public(lambda input: -1, "get_device")
public(lambda input: input.is_inference(), "is_inference", method=False)
public(lambda input: input.detach_(), "detach_", method=False)
to_dlpack = public(lambda tensor: tensor.__dlpack__(), "to_dlpack", method=False)

NAMES = (
    "arange as_tensor asarray broadcast_tensors cartesian_prod empty empty_like empty_strided eye from_numpy frombuffer full full_like "
    "linspace logspace meshgrid ones ones_like scalar_tensor tensor zeros zeros_like"
).split()
for _name in NAMES:
    public(globals()[_name], _name, method=False)


def _new(maker: Maker) -> Maker:
    def function(self: Any, *args: Any, dtype: Any = None, requires_grad: bool = False, **more: Any) -> Any:
        made = maker(*args, dtype=dtype or self.dtype, **more)
        return finish(each(self._a, made._a), requires_grad)

    return function


for _maker in (zeros, ones, empty, full):
    public(_new(_maker), f"new_{_maker.__name__}", torch=False)
public(lambda self, data, dtype=None, **more: tensor(data, dtype=dtype or self.dtype, **more), "new_tensor", torch=False)
public(lambda self, *args: Tensor._construct(*args, dtype=self.dtype), "new", torch=False)


class _StorageMeta(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor) and x.dtype.storage == cls.__name__


def _legacy(storage: str, d: _dtypes.dtype) -> Any:
    return _StorageMeta(storage, (), {"__module__": "torch", "__new__": lambda cls, *args: Tensor._construct(*args, dtype=d), "dtype": d})


LEGACY = {d.storage: _legacy(d.storage, d) for d in _dtypes.NAMES.values()}
_inplace.attach()
