"""What meets traced values in an operation and is none: as NumPy sees it, or refused if its operations are its own."""

from __future__ import annotations

from numbers import Rational
from typing import Any, NoReturn

import numpy as np

from functrace import errors
from functrace.pool import Recycled

_PLAIN = (np.ndarray, np.generic, float, int, complex, str, type(None), slice, type(...))
_EXACTLY = frozenset((*_PLAIN, np.float64, np.float32))
_OWN = "__mul__", "__array_ufunc__", "__array_function__"  # what makes the operations of a class of arrays its own


def is_sparse(x: Any) -> bool:
    """Whether `x` is a SciPy sparse matrix or array, by its looks."""
    return hasattr(type(x), "tocsr") and hasattr(type(x), "nnz")


def is_tensor(x: Any) -> bool:
    """Whether `x` is a tensor, which keeps a history of its own, by its looks."""
    return callable(getattr(type(x), "numpy", None))


def refuse_objects(what: str = "array") -> NoReturn:
    """Raise, since the operations of objects are their own."""
    raise errors.UnsupportedError(
        f"{'an' if what[0] in 'aeio' else 'a'} {what} of objects meets a traced value in an operation.\n"
        "  Objects are not differentiated: convert it to numbers, or join traced values with functrace.numpy.stack."
    )


def asked(x: Any) -> bool:
    """Whether `x`, an object of a user's class or with units, defines operators that Python asks when a NumPy scalar is beside it."""
    if isinstance(x, _PLAIN) or unwrapped(x) is not x:
        return False
    return hasattr(type(x), "__array_ufunc__") or np.asarray(x).dtype == object


def unwrapped(x: Any) -> Any:
    """A constant operand as NumPy sees it: lists, and what holds an array (a pandas Series, an xarray DataArray), as that array."""
    if type(x) in _EXACTLY:
        return x
    if isinstance(x, _PLAIN):
        if isinstance(x, np.ndarray) and type(x) is not Recycled and any(getattr(type(x), k) is not getattr(np.ndarray, k) for k in _OWN):
            raise errors.UnsupportedError(
                f"a {type(x).__name__} ({errors.describe(x)}) can't be traced, nor meet a traced value: its operations are not an array's."
                "\n  Pass its numbers: np.asarray(x); of a masked array x.filled(0.0), with x.mask for np.where."
            )
        return x
    if isinstance(x, (list, tuple)):
        return np.asarray(x)
    if is_sparse(x):
        raise errors.UnsupportedError(
            f"a SciPy sparse matrix ({type(x).__name__} of shape {x.shape}) meets a traced value in an operation that is not `@`.\n"
            "  Write A @ x or x @ A. For other operations use x[rows] * A.data with A's coordinates, or A.toarray() if it is small."
        )
    holds = hasattr(type(x), "__array__") and not hasattr(type(x), "__array_ufunc__")  # with it, NumPy asks them
    if holds or type(x).__module__.partition(".")[0] in ("pandas", "xarray"):
        out = np.asarray(x)
        return out if out.dtype != object else refuse_objects(type(x).__name__)
    if is_tensor(x):
        raise errors.UnsupportedError(
            f"a {type(x).__name__} meets a traced value in an operation.\n"
            f"  Take its numbers, x.numpy(), or do the operation among {type(x).__name__}s: torch.as_tensor(traced)."
        )
    return float(x) if isinstance(x, Rational) else x
