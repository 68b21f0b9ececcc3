"""NumPy's `polynomial`: its own code, over functions that take traced values. So are the classes.

>>> import functrace as ft
>>> from functrace.numpy.polynomial import Chebyshev
>>> ft.grad(lambda c: (Chebyshev([c, 2.0, 3.0]) ** 2)(0.5))(1.0)
np.float64(1.0)
"""

from typing import TYPE_CHECKING, Any

from functrace.edge import boundary as _boundary
from functrace.ops.polynomials import polynomial as _polynomial

if TYPE_CHECKING:
    from numpy.polynomial import *  # noqa: F403
else:

    @_boundary
    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_polynomial, name)


def __dir__() -> list[str]:
    return sorted(n for n in dir(_polynomial) if not n.startswith("_"))
