"""Small tools of the tests; independent of the library's own."""

import inspect

import numpy as np

from functrace.ops.protocol import load_late


def differences(f, x, step=1e-5):
    """The gradient of a function of one float64 array that returns a float, by four-point central differences."""
    x = np.array(x, dtype=float)
    out = np.zeros(x.shape)
    for i in np.ndindex(x.shape):
        e = np.zeros(x.shape)
        e[i] = step
        out[i] = (8 * (f(x + e) - f(x - e)) - (f(x + 2 * e) - f(x - 2 * e))) / (12 * step)
    return out


def here(offset=0):
    """`file.py:line` of the caller's line, moved by `offset`."""
    frame = inspect.currentframe().f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno + offset}"


def of_numpy(table):
    """The declarations that are NumPy's: SciPy's join them when a test imports them."""
    load_late()
    return {name: declared for name, declared in table.items() if not name.startswith("scipy.")}
