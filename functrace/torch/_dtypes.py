"""Dtypes, `Size`, devices, named results, and PyTorch's rules of type promotion.

NumPy promotes an int64 array and a float32 array to float64, PyTorch to float32; a 0-d tensor is promoted only if its kind
(bool < int < float < complex) is higher; a Python scalar counts as its kind alone.
"""

from __future__ import annotations

import functools
import math
import operator
import re
import warnings
from collections.abc import Iterable
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any, SupportsIndex

import numpy as np

from functrace.torch._contact import level, note, tree
from functrace.torch._missing import as_of

BOOL, INT, FLOAT, COMPLEX = range(4)
_CATEGORY = {"b": BOOL, "i": INT, "u": INT, "f": FLOAT, "c": COMPLEX}
_KINDS: dict[Any, int] = {bool: BOOL, int: INT, float: FLOAT, complex: COMPLEX}


class dtype:
    """Type of the elements of a tensor, as `torch.float32`."""

    __slots__ = ("category", "name", "np", "scalar", "storage")

    def __init__(self, name: str, scalar: str) -> None:
        self.name = name
        self.np = np.dtype(name)
        self.category = _CATEGORY[self.np.kind]
        self.scalar = scalar  # the name in error messages
        self.storage = scalar + "Tensor"  # the name in x.type()

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return _by_name, (self.name,)

    @property
    def is_floating_point(self) -> bool:
        """Whether it is a real floating type."""
        return self.category == FLOAT

    @property
    def is_complex(self) -> bool:
        """Whether it is a complex type."""
        return self.category == COMPLEX

    @property
    def is_signed(self) -> bool:
        """Whether it holds negative numbers."""
        return self.np.kind not in "bu"

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.np.itemsize

    def to_complex(self) -> dtype:
        """The complex type of the same precision."""
        return of(np.result_type(self.np, np.complex64))

    def to_real(self) -> dtype:
        """The real type of the same precision."""
        return of(np.empty(0, self.np).real.dtype)


_SCALARS = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "uint16": "UInt16",
    "uint32": "UInt32", "uint64": "UInt64", "float16": "Half", "float32": "Float", "float64": "Double", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}  # fmt: skip
_ALIASES = {
    "short": "int16", "int": "int32", "long": "int64", "half": "float16", "float": "float32", "double": "float64", "cfloat": "complex64",
    "cdouble": "complex128",
}  # fmt: skip
NAMED: dict[str, dtype] = {}  # which NumPy has not: `_info` makes them
NAMES = {name: dtype(name, scalar) for name, scalar in _SCALARS.items()}  # the public names, aliases too
_BY_NP: dict[np.dtype[Any], dtype] = {d.np: d for d in NAMES.values()}
NAMES.update({alias: NAMES[name] for alias, name in _ALIASES.items()})

float32, float64, int64, bool_ = NAMES["float32"], NAMES["float64"], NAMES["int64"], NAMES["bool"]
complex64, complex128, uint8 = NAMES["complex64"], NAMES["complex128"], NAMES["uint8"]
F32, F64, I64, B = float32.np, float64.np, int64.np, bool_.np


def _by_name(name: str) -> dtype:
    return NAMES.get(name) or NAMED[name]


def of(x: Any) -> dtype:
    """The torch dtype of a NumPy dtype. Raises TypeError for one that PyTorch lacks."""
    found = _BY_NP.get(x)
    if found is None:
        found = _BY_NP.get(np.dtype(x).newbyteorder("="))
    if found is None:
        raise TypeError(
            f"can't convert np.ndarray of type numpy.{np.dtype(x).type.__name__}. The only supported types are: float64, float32, float16, "
            "complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool."
        )
    return found


_default = float32


def get_default_dtype() -> dtype:
    """The dtype of tensors made from Python floats: float32 unless changed."""
    return _default


PYTHON: dict[Any, Any] = {bool: bool_, int: int64, float: float64, complex: complex128}


def numpy_dtype(asked: Any, otherwise: Any = None, name: str = "tensor") -> Any:
    """The NumPy dtype that an argument `dtype`, torch's or Python's, asks for; without one that of `otherwise`, or the default."""
    if asked is None:
        return (otherwise or get_default_dtype()).np
    if not isinstance(asked, dtype):
        if asked not in PYTHON:
            raise TypeError(f"{name}(): argument 'dtype' must be torch.dtype, not {type(asked).__name__}")
        asked = PYTHON[asked]
    return asked.np


def set_default_dtype(d: Any) -> None:
    """Change the dtype of tensors made from Python floats. Raises TypeError unless it is a floating type."""
    global _default
    if not isinstance(d, dtype) or d.category != FLOAT:
        raise TypeError("only floating-point types are supported as the default type")
    _default = of(d.np)


def of_scalar(x: Any) -> dtype:
    """The dtype that a Python (or NumPy) scalar has of its own."""
    if isinstance(x, (bool, np.bool_)):
        return bool_
    if isinstance(x, (int, np.integer)):
        return int64
    return _default if isinstance(x, (float, np.floating)) else _default.to_complex()


def wrapped(number: Any, target: Any) -> Any:
    """A Python number in a NumPy dtype; an integer that does not fit wraps round, as in C."""
    try:
        return target.type(number)
    except OverflowError:
        kind = np.uint64 if number > 0 else np.int64
        if not -(2**63) <= number < 2**64:
            raise OverflowError("int too big to convert") from None
        return np.asarray(kind(number)).astype(target)[()]


@functools.cache
def _bounds(target: Any) -> tuple[float, float]:
    """Between which finite numbers those lie that may be put into a tensor of a dtype."""
    if target.kind in "iu":
        info = np.iinfo(target)
        return info.min or -info.max, info.max
    high = float(np.finfo(target).max) if target.name in ("float16", "float32", "complex64") else math.inf
    return -high, high


def held(number: Any, target: Any) -> Any:
    """A number in the NumPy dtype of a tensor that it is put into. Negative ones wrap round in unsigned dtypes, others must fit."""
    if isinstance(number, complex) and number.imag == 0 and target.kind != "c":
        number = number.real
    if isinstance(number, complex):
        fits = target.kind not in "iuf"
    else:
        low, high = _bounds(target)
        fits = low <= number <= high or target.kind not in "iu" and not abs(number) < math.inf
    if not fits:
        raise RuntimeError(f"value cannot be converted to type {_C_NAMES.get(target.name, target.name)} without overflow")
    return np.array(number, target) if target.kind == "f" else np.asarray(number).astype(target)


def cast(a: Any, d: Any) -> Any:
    """An array in another dtype; PyTorch's warning where that loses something."""
    if a.dtype.kind == "c" and np.dtype(d).kind not in "cb":
        warn_once("Casting complex values to real discards the imaginary part")
        a = a.real
    return a.astype(d)


def kind_of(d: Any) -> str:
    """What some of PyTorch's errors call tensors of a dtype."""
    return f"CPU{of(d).scalar}Type" if d.kind in "bc" else f"torch.{of(d).storage}"


def warn(text: str, kind: type[Warning] = UserWarning) -> None:
    """PyTorch's warning, at the user's line."""
    warnings.warn(text, kind, stacklevel=level())


warn_once = functools.cache(warn)  # the first time


def as_int64(a: Any) -> Any:
    """Integers as PyTorch has its own, indices and counts too, of 64 bits: NumPy's may have 32. Others as they are."""
    return a if a.dtype is I64 or a.dtype.kind not in "biu" else a.astype(I64)


def factor(number: Any, d: dtype) -> Any:
    """A number given as `alpha=` to an op with results of dtype `d`. Raises RuntimeError if it is of another kind, or does not fit."""
    if d.category >= FLOAT and not isinstance(number, bool):
        return number.item() if isinstance(number, np.generic) else number
    if isinstance(number, bool) and d is not bool_:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if not isinstance(number, int):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    return held(number, d.np) if d is not bool_ else bool(number)


_C_NAMES = {"float32": "float", "float64": "double", "int64": "int64_t", "int32": "int", "uint8": "uint8_t", "int8": "int8_t",
            "int16": "int16_t", "float16": "c10::Half", "complex64": "c10::complex<float>"}  # fmt: skip


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype to which both can be cast, in PyTorch's sense."""
    if type1 is type2:
        return type1
    for d, other in ((type1, type2), (type2, type1)):
        if d.name in ("uint16", "uint32", "uint64") and other.category == INT:
            raise RuntimeError(
                f"Promotion for uint16, uint32, uint64 types is not supported, attempted to promote {type1.scalar} and {type2.scalar}"
            )
    low, high = sorted((type1, type2), key=lambda d: d.category)
    if low.category <= INT < high.category:
        return high
    return of(np.promote_types(type1.np, type2.np))


def _combine(high: dtype | None, low: dtype | None) -> dtype | None:
    if high is None or low is None:
        return high or low
    if high.category == COMPLEX:
        return high
    if high.category == FLOAT:
        return high.to_complex() if low.category == COMPLEX else high
    if high.category == BOOL or low.category >= FLOAT:
        return promote_types(high, low)
    return high


def result_type(*operands: Any) -> dtype:
    """The dtype of an op on these: arrays (anything with `shape` and `dtype`) and Python scalars."""
    first = getattr(operands[0], "dtype", None)
    if first.__class__ is dtype:
        for x in operands[1:]:
            if _KINDS.get(x.__class__, COMPLEX + 1) > first.category and getattr(x, "dtype", None) is not first:
                break
        else:  # the most common case: nothing is promoted
            return first
    dim = zero = wrapped = None
    for x in operands:
        d = getattr(x, "dtype", None)
        if d is None or isinstance(x, np.generic):
            d = of_scalar(x)
            wrapped = d if wrapped is None else promote_types(wrapped, d)
            continue
        d = d if isinstance(d, dtype) else of(d)
        if x.ndim:
            dim = d if dim is None else promote_types(dim, d)
        else:
            zero = d if zero is None else promote_types(zero, d)
    found = _combine(dim, _combine(zero, wrapped))
    assert found is not None
    return found


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether an in-place op may store a result of dtype `from_` in a tensor of dtype `to`."""
    return from_.category <= to.category


class Size(tuple[int, ...]):
    """Shape of a tensor: a tuple of ints."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    __str__ = __repr__

    def numel(self) -> int:
        """Product of the sizes."""
        return math.prod(self)

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: Any) -> Size:
        return Size(tuple.__add__(other, self))

    def __mul__(self, other: SupportsIndex) -> Size:
        return Size(tuple.__mul__(self, other))

    __rmul__ = __mul__

    def __getitem__(self, index: Any) -> Any:
        out = tuple.__getitem__(self, index)
        return Size(out) if isinstance(index, slice) else out

    def __reduce__(self) -> tuple[Any, tuple[tuple[int, ...]]]:
        return _to_size, (tuple(self),)


def _to_device(name: str) -> device:
    return device(name)


def _to_size(sizes: tuple[int, ...]) -> Size:
    return Size(sizes)


_DEVICES = "cpu cuda ipu xpu mkldnn opengl opencl ideep hip ve fpga maia xla lazy vulkan mps meta hpu mtia privateuseone".split()


class device:
    """Where a tensor lives: the CPU, or "meta", which is nowhere. Others can be named, and raise when something is to be there."""

    __slots__ = ("index", "type")

    def __init__(self, type: Any = None, index: int | None = None, device: Any = None) -> None:
        type = device if type is None else type
        if isinstance(type, int):
            raise RuntimeError("Cannot access accelerator device when none is available.")
        if not isinstance(type, (str, self.__class__)):
            raise TypeError(f"device() received an invalid combination of arguments - got ({type.__class__.__name__})")
        name, colon, number = str(type).partition(":")
        if not str(type):
            raise RuntimeError("Device string must not be empty")
        if not re.fullmatch("[a-zA-Z_]+", name) or colon and not re.fullmatch("0|[1-9][0-9]*", number):
            raise RuntimeError(f"Invalid device string: '{type}'")
        if name not in _DEVICES:
            raise RuntimeError(f"Expected one of {', '.join(_DEVICES)} device type at start of device string: {name}")
        if colon and index is not None:
            raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {type}")
        if index is not None and index < 0:
            raise RuntimeError("Device index must not be negative")
        self.type = name
        self.index = int(number) if number else index

    def __enter__(self) -> device:
        entered.set((*entered.get(), self))
        return self

    def __exit__(self, *_error: object) -> None:
        entered.set(entered.get()[:-1])

    def __reduce__(self) -> Any:
        return _to_device, (str(self),)

    def __repr__(self) -> str:
        return f"device(type='{self.type}'{'' if self.index is None else f', index={self.index}'})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))


def usable(x: Any) -> device:
    """A device on which tensors can be. Raises what PyTorch raises of a device that it was not compiled for."""
    place = x if isinstance(x, device) else device(x)
    if place.type in ("cpu", "meta"):
        return place
    if place.type in ("cuda", "xpu"):
        error: Exception = AssertionError(f"Torch not compiled with {place.type.upper()} enabled")
    else:
        error = RuntimeError(f"PyTorch is not linked with support for {place.type} devices")
    note(error, f"functrace.torch has only the CPU: use 'cpu', not {str(place)!r} (torch.cuda.is_available() is False).")
    raise error


def device_of(x: Any) -> bool:
    """Whether `device=`, or where it is not given the one that is entered, is "meta". Raises for all others but the CPU."""
    return usable(entered.get()[-1] if x is None else x).type == "meta"


def parse_to(*args: Any, **named: Any) -> tuple[Any, Any, bool, bool, Any]:
    """What `to(...)` is asked for: device, dtype, non_blocking, copy, memory_format."""
    place, kind, flags = named.get("device"), named.get("dtype"), list[bool]()
    for x in args:
        if isinstance(x, bool):
            flags.append(x)
        elif isinstance(x, (dtype, type)):
            kind = x
        elif hasattr(x, "is_meta"):
            place, kind = x.device, x.dtype
        elif isinstance(x, (float, complex)):  # to PyTorch a tensor
            kind = type(x)
        else:
            place = x
    if kind is not None and not isinstance(kind, dtype):
        kind = of(numpy_dtype(kind, None, "to"))
    flags += [named.get(name, False) for name in ("non_blocking", "copy")[len(flags) :]]
    return place, kind, flags[0], flags[1], named.get("memory_format")


class layout:
    """Memory layout: always strided here."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


class memory_format(layout):
    """How a dense tensor's axes lie in memory."""


strided = layout("strided")
LAYOUTS = {name: layout(name) for name in "sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc".split()}  # which no tensor has
contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last = memory_format("channels_last")
CPU, META = device("cpu"), device("meta")
entered: ContextVar[tuple[device, ...]] = ContextVar("functrace.torch.device", default=(CPU,))


def to_shape(sizes: Iterable[Any]) -> tuple[int, ...]:
    """A shape from `f(2, 3)` or `f((2, 3))`, the arguments after any name."""
    sizes = tuple(sizes)
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = tuple(sizes[0])
    return tuple(map(operator.index, sizes))


as_of("torch", dtype, Size, device, layout, memory_format)


return_types = SimpleNamespace()


class _Result(tuple[Any, ...]):
    """A named result, as `torch.return_types.max`."""

    fields: tuple[str, ...] = ("values", "indices")

    def __repr__(self) -> str:
        rows = ",\n".join(f"{name}={x!r}" for name, x in zip(self.fields, self))
        return f"torch.return_types.{type(self).__name__}(\n{rows})"


def result_class(name: str, *fields: str) -> type[_Result]:
    """The class of a named result."""
    if hasattr(return_types, name):
        return getattr(return_types, name)  # type: ignore[no-any-return]
    fields = fields or _Result.fields
    places: dict[str, Any] = {field: property(operator.itemgetter(k)) for k, field in enumerate(fields)}
    cls = type(name, (_Result,), {"fields": fields, "__module__": "torch.return_types", "n_fields": len(fields), **places})
    setattr(return_types, name, cls)
    tree.register(cls, lambda result: (tuple(result), None), lambda _, children: cls(children))
    return cls
