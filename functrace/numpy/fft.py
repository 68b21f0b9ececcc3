"""NumPy's `fft`, for plain and traced arrays alike.

>>> import functrace.numpy as fnp
>>> fnp.fft.rfft([1.0, 1.0])
array([2.+0.j, 0.+0.j])
"""

from typing import Any

import numpy as _numpy

from functrace.errors import boundary as _boundary
from functrace.ops.rebased import Namespace as _Namespace

_NAMES = _Namespace(_numpy.fft, "fft.")


def fftfreq(n: int, d: Any = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
    """`np.fft.fftfreq`, and the array API's `dtype`; the spacing may be traced."""
    frequencies = _numpy.fft.fftfreq(n) / d
    return frequencies if dtype is None else frequencies.astype(dtype)


def rfftfreq(n: int, d: Any = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
    """`np.fft.rfftfreq`, and the array API's `dtype`; the spacing may be traced."""
    frequencies = _numpy.fft.rfftfreq(n) / d
    return frequencies if dtype is None else frequencies.astype(dtype)


@_boundary
def __getattr__(name: str) -> Any:
    found = globals()[name] = getattr(_NAMES, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *(n for n in dir(_numpy.fft) if not n.startswith("_"))})
