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
from functrace.numpy import linalg as linalg
from functrace.ops.blank import making as _making
from functrace.ops.inplace import at
from functrace.ops.protocol import load_late as _load_late
from functrace.ops.rebased import MAKERS as _MAKERS
from functrace.ops.rebased import Namespace as _Namespace
from functrace.ops.rebased import rebased as _rebased
from functrace.ops.registry import TABLE as _TABLE
from functrace.ops.ufuncs import as_ufunc as _as_ufunc

__all__ = ["at", "emath", "fft", "linalg", "polynomial"]

globals().update({name: declared.function for name, declared in _TABLE.items() if "." not in name})


def _ordering(function: Any) -> Any:
    """A sorting function with the array API's `descending`, which NumPy's own has not."""

    @_wraps(function)
    def call(*args: Any, descending: bool = False, **kwargs: Any) -> Any:
        return function.__wrapped__(*args, descending=True, **kwargs) if descending else function(*args, **kwargs)

    return call


sort, argsort = _ordering(_TABLE["sort"].function), _ordering(_TABLE["argsort"].function)
for _name in _MAKERS:
    globals()[_name] = _making(globals().get(_name) or getattr(_numpy, _name))
for _name, _declared in _TABLE.items():
    _ufunc = getattr(_numpy, _name, None)
    if isinstance(_ufunc, _numpy.ufunc):
        globals()[_name] = _as_ufunc(_declared.function, _ufunc)


def ndenumerate(arr: Any) -> Any:
    """`np.ndenumerate`: the indices and elements of an array, which may be traced."""
    return ((index, arr[index]) for index in _numpy.ndindex(*arr.shape))


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


def __getattr__(name: str) -> Any:
    if name in ("r_", "c_"):
        globals()[name] = _rebased(type(getattr(_numpy, name)))()
    elif name == "vectorize":
        from functrace.ops.vectorized import vectorize

        globals()[name] = vectorize
    elif name in ("fft", "polynomial"):
        globals()[name] = _import_module(f"functrace.numpy.{name}")
    elif name in _late():
        globals()[name] = _TABLE[name].function
    elif name == "emath":
        globals()[name] = _Namespace(_numpy.emath, "emath.")
    else:
        return getattr(_numpy, name)
    return globals()[name]


def _late() -> set[str]:
    """The names that are declared when they are first asked for."""
    _load_late()
    return {name for name in _TABLE if "." not in name} - globals().keys()


def __dir__() -> list[str]:
    globals().update({name: _TABLE[name].function for name in _late()})
    return sorted({*globals(), *(n for n in dir(_numpy) if not n.startswith("_"))})
