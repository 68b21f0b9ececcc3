"""Limits of dtypes: `finfo`, `iinfo`; and the dtypes that NumPy has not, of which there is no more than these."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from functrace.torch._dtypes import COMPLEX, FLOAT, INT, NAMED, PYTHON, dtype, get_default_dtype
from functrace.torch._missing import as_of


class _Named(dtype):
    """A type that NumPy has not: it can be asked for its name and limits, but not used."""

    __slots__ = ("limits",)

    def __init__(self, name: str, scalar: str, bits: int, precision: int, eps: float, most: float, least: float) -> None:
        self.name, self.scalar, self.storage, self.category = name, scalar, scalar + "Tensor", FLOAT
        NAMED[name] = self
        self.limits = SimpleNamespace(bits=bits, precision=precision, eps=eps, max=most, min=-most, smallest_normal=least)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return int(self.limits.bits // 8)

    is_signed = True

    def to_real(self) -> dtype:
        """Itself."""
        return self

    @property
    def np(self) -> Any:  # type: ignore[override]
        """Raises NotImplementedError."""
        raise NotImplementedError(
            f"torch.{self.name}: functrace.torch has no such tensors, since NumPy has no such type: use torch.float32."
        )


bfloat16 = _Named("bfloat16", "BFloat16", 16, 2, 2.0**-7, 2.0**128 - 2.0**120, 2.0**-126)
_Named("float8_e4m3fn", "Float8_e4m3fn", 8, 0, 2.0**-3, 448.0, 2.0**-6)
_Named("float8_e5m2", "Float8_e5m2", 8, 0, 2.0**-2, 57344.0, 2.0**-14)
_Named("complex32", "ComplexHalf", 32, 3, 2.0**-10, 65504.0, 2.0**-14).category = COMPLEX


class finfo:
    """Limits of a floating dtype, the default one if none is given."""

    def __init__(self, type: dtype | None = None) -> None:
        d = PYTHON.get(type, type) or get_default_dtype()
        if d.category < FLOAT:
            raise TypeError("torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'")
        info: Any = d.limits if isinstance(d, _Named) else np.finfo(d.np)
        self.bits = int(info.bits)
        self.eps, self.max, self.min = float(info.eps), float(info.max), float(info.min)
        self.tiny = self.smallest_normal = float(info.smallest_normal)
        self.resolution = float(f"1e-{info.precision}")
        self.dtype = d.to_real().name

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:
    """Limits of an integer dtype."""

    def __init__(self, type: dtype) -> None:
        d = PYTHON.get(type, type)
        if d.category != INT:
            raise TypeError("torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'")
        info = np.iinfo(d.np)
        self.bits, self.min, self.max, self.dtype = info.bits, int(info.min), int(info.max), d.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"


as_of("torch", _Named, finfo, iinfo)
