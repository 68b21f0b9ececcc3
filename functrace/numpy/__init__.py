"""NumPy's API, for plain and traced arrays alike: `import functrace.numpy as fnp`.

Plain `numpy` functions on traced values do the same; this namespace has what NumPy's protocols can't catch (`fnp.array`
of a list of traced values), and everything else of NumPy (dtypes, constants, creation) unchanged.

>>> import functrace.numpy as fnp
>>> fnp.sin(0.0)
np.float64(0.0)
"""

from typing import Any

import numpy as _numpy

from functrace.numpy import linalg as linalg
from functrace.ops.inplace import at
from functrace.ops.registry import TABLE as _TABLE

__all__ = ["at", "linalg"]

globals().update({name: declared.function for name, declared in _TABLE.items() if "." not in name})


def __getattr__(name: str) -> Any:
    return getattr(_numpy, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *(n for n in dir(_numpy) if not n.startswith("_"))})
