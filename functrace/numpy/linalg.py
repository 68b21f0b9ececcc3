"""NumPy's `linalg`, for plain and traced arrays alike.

>>> import functrace.numpy as fnp, numpy as np
>>> fnp.linalg.norm([3.0, 4.0])
np.float64(5.0)
"""

from typing import TYPE_CHECKING, Any

import numpy as _numpy

from functrace.edge import boundary as _boundary
from functrace.ops.rebased import NAMESPACE as _NAMESPACE

if TYPE_CHECKING:
    from numpy.linalg import *  # noqa: F403
else:

    @_boundary
    def __getattr__(name: str) -> Any:
        found = globals()[name] = getattr(_NAMESPACE.linalg, name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *(n for n in dir(_numpy.linalg) if not n.startswith("_"))})
