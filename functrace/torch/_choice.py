"""`np.where` of floats by their bits: NumPy's own takes ten times as long where the CPU can't guess the mask."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.torch._contact import buffer

_MANY = 256  # elements from which on it is worth the calls
_BITS = {np.dtype(f"f{n}"): np.dtype(f"i{n}") for n in (2, 4, 8)}


def chosen(mask: Any, x: Any, y: Any = None) -> Any:
    """`np.where(mask, x, y)`, to the bit; None: zeros.

    >>> chosen(np.array([True, False]), np.array([np.inf, np.nan]))
    array([inf,  0.])
    """
    if type(mask) is type(x) is np.ndarray and x.size >= _MANY and mask.shape == x.shape and mask.dtype == np.bool_ and x.dtype in _BITS:
        alike = isinstance(y, (np.ndarray, np.generic)) and y.dtype == x.dtype and y.shape in ((), x.shape)
        if y is None or alike or type(y) in (int, float):
            bits = _BITS[x.dtype]
            out, kept, first = buffer(x.shape, x.dtype), np.negative(mask.view(np.int8)), x.view(bits)
            if y is None:
                np.bitwise_and(first, kept, out=out.view(bits))
                return out
            second = np.asarray(y, x.dtype).view(bits)
            found = np.bitwise_xor(first, second, out=out.view(bits))
            found &= kept
            found ^= second
            return out
    return np.where(mask, x, np.zeros((), x.dtype) if y is None else y)
