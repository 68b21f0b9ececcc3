"""NumPy's `fft`, for plain and traced arrays alike.

>>> import functrace.numpy as fnp
>>> fnp.fft.rfft([1.0, 1.0])
array([2.+0.j, 0.+0.j])
"""

from typing import Any

import numpy as _numpy

from functrace.edge import boundary as _boundary
from functrace.ops.rebased import Namespace as _Namespace

_NAMES = _Namespace(_numpy.fft, "fft.")


def _spaced(own: Any, n: int, d: Any, dtype: Any) -> Any:
    frequencies = _numpy.rint(own(n) * n) * (1.0 / (n * d))  # in NumPy's order, to the bit
    return frequencies if dtype is None else frequencies.astype(dtype)


def fftfreq(n: int, d: Any = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
    """`np.fft.fftfreq`, and the array API's `dtype`; the spacing may be traced."""
    return _spaced(_numpy.fft.fftfreq, n, d, dtype)


def rfftfreq(n: int, d: Any = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
    """`np.fft.rfftfreq`, and the array API's `dtype`; the spacing may be traced."""
    return _spaced(_numpy.fft.rfftfreq, n, d, dtype)


@_boundary
def __getattr__(name: str) -> Any:
    found = globals()[name] = getattr(_NAMES, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *(n for n in dir(_numpy.fft) if not n.startswith("_"))})
