"""NumPy's API, for plain and traced arrays alike: `import functrace.numpy as fnp`.

Plain `numpy` functions on traced values do the same; this namespace has what NumPy's protocols can't catch (`fnp.array`
of a list of traced values), and everything else of NumPy (dtypes, constants) unchanged. In a function that is being traced,
what makes arrays makes them so that traced values can be written into them; elsewhere it makes ndarrays. It is a namespace of
the Python array API standard, and the one that `x.__array_namespace__()` of a traced `x` returns.

>>> import functrace.numpy as fnp
>>> fnp.sin(0.0)
np.float64(0.0)
"""

from functools import wraps as _wraps
from importlib import import_module as _import_module
from typing import Any

import numpy as _numpy

from functrace.core.tracer import Tracer as _Tracer
from functrace.edge import boundary as _boundary
from functrace.numpy import linalg as linalg
from functrace.numpy._packages import install as install
from functrace.numpy._packages import is_instance as _is_instance
from functrace.numpy._packages import uninstall as uninstall
from functrace.ops.blank import making as _making
from functrace.ops.inplace import at
from functrace.ops.protocol import load_late as _load_late
from functrace.ops.rebased import MAKERS as _MAKERS
from functrace.ops.rebased import Namespace as _Namespace
from functrace.ops.rebased import rebased as _rebased
from functrace.ops.registry import TABLE as _TABLE
from functrace.ops.registry import sought as _sought
from functrace.ops.ufuncs import as_ufunc as _as_ufunc

__all__ = ["at", "emath", "fft", "install", "linalg", "polynomial", "uninstall"]


def _ordering(function: Any) -> Any:
    """A sorting function with the array API's `descending`, which NumPy's own has not."""

    @_wraps(function)
    def call(*args: Any, descending: bool = False, **kwargs: Any) -> Any:
        return function.__wrapped__(*args, descending=True, **kwargs) if descending else function(*args, **kwargs)

    return call


def _made(name: str) -> Any:
    theirs = getattr(_numpy, name, None)
    declared = _sought(name, theirs)
    found = getattr(_numpy, name) if declared is None else declared.function
    if name in ("sort", "argsort"):
        return _ordering(found)
    if name in _MAKERS:
        return _making(found)
    return _as_ufunc(found, theirs) if declared is not None and isinstance(theirs, _numpy.ufunc) else found


def ndenumerate(arr: Any) -> Any:
    """`np.ndenumerate`: the indices and elements of an array, which may be traced."""
    return ((index, arr[index]) for index in _numpy.ndindex(*arr.shape))


def isscalar(element: Any) -> bool:
    """`np.isscalar`, of a traced value too."""
    return _numpy.isscalar(element) or _is_instance(element, _numpy.generic)


def finfo(type: Any, /) -> Any:
    """`np.finfo`, of a traced value too."""
    return _numpy.finfo(type.dtype if isinstance(type, (_numpy.ndarray, _Tracer)) else type)


def iinfo(type: Any, /) -> Any:
    """`np.iinfo`, of a traced value too."""
    return _numpy.iinfo(type.dtype if isinstance(type, (_numpy.ndarray, _Tracer)) else type)


def __array_namespace__(self: Any, /, *, api_version: str | None = None) -> Any:
    """What code written to the array API standard asks an array for: `functrace.numpy`."""
    import functrace.numpy

    if api_version is not None and api_version > __getattr__("__array_api_version__"):
        raise ValueError(f"version {api_version!r} of the array API standard is not supported")
    return functrace.numpy


_Tracer.__array_namespace__ = __array_namespace__  # type: ignore[attr-defined]


@_boundary
def __getattr__(name: str) -> Any:
    if name in ("r_", "c_", "mgrid", "ogrid"):
        globals()[name] = _rebased(type(getattr(_numpy, name)))()
    elif name == "vectorize":
        from functrace.ops.vectorized import vectorize

        globals()[name] = vectorize
    elif name in ("fft", "polynomial"):
        globals()[name] = _import_module(f"functrace.numpy.{name}")
    elif name == "emath":
        globals()[name] = _Namespace(_numpy.emath, "emath.")
    elif hasattr(_numpy, name):
        globals()[name] = _made(name)
    else:
        return _made(name)  # which may be declared anew
    return globals()[name]


def __dir__() -> list[str]:
    _load_late()
    names = {*globals(), *(n for n in _TABLE if "." not in n), *(n for n in dir(_numpy) if not n.startswith("_"))}
    return sorted(names - {"Any"})
