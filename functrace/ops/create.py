"""Making arrays, and lifting what users pass (lists, scalars, traced values) to what the ops take."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.core.tracer import TapeTracer, Tracer
from functrace.operands import refuse_objects, unwrapped
from functrace.ops.registry import holds_tracer, implements, one
from functrace.ops.shape import stack


def lift(x: Any) -> Any:
    """`x` as something with a shape and a dtype: traced values as they are, lists of them stacked, the rest as NumPy does."""
    if type(x) is TapeTracer or isinstance(x, (np.ndarray, np.generic)):
        return x
    if isinstance(x, Tracer):
        return x.strong()
    if isinstance(x, (list, tuple)) and holds_tracer(x):
        return stack(*_common([lift(item) for item in x]), params=(0,))
    if hasattr(type(x), "__array__"):  # it may hold a traced value, which NumPy would refuse
        held = x.data if type(x).__module__.startswith("xarray.") else x.__array__()
        if isinstance(held, Tracer):
            return held
    return np.asarray(unwrapped(x))


def operand(x: Any) -> Any:
    """`x` lifted, except Python numbers, whose dtype is weak."""
    return x if isinstance(x, (Tracer, int, float, complex)) else lift(x)


def number(x: Any) -> Any:
    """`x`, a scalar if it has no axes: what NumPy's functions return, where `np.where` and `np.reshape` make arrays."""
    return x if x.shape else x[()]


def as_numpy(x: Any) -> Any:
    """`x`; a Python number as NumPy's scalar."""
    return x if hasattr(x, "dtype") else np.asarray(x)[()]


def typed(x: Any, dtype: Any) -> Any:
    """`x` in this dtype, if it is not None."""
    return x if dtype is None or x.dtype == np.dtype(dtype) else x.astype(dtype)


def fitted(x: Any, dtype: Any) -> Any:
    """`x` in the dtype of an array that it is written into; a Python integer that does not fit raises, as in NumPy."""
    written = isinstance(x, (int, float, complex, list, tuple)) and not holds_tracer((x,))
    return np.asarray(x, dtype) if written else typed(lift(x), dtype)


def check_cast(x: Any, dtype: Any, casting: Any) -> None:
    """Raise unless the rule `casting` allows `x` in this dtype."""
    if not np.can_cast(x.dtype, dtype, casting):
        raise TypeError(f"Cannot cast array data from {x.dtype!r} to {np.dtype(dtype)!r} according to the rule {casting!r}")


def cast(x: Any, dtype: Any, casting: Any) -> Any:
    """`x` in this dtype, if the rule `casting` allows it."""
    check_cast(x, dtype, casting)
    return typed(x, dtype)


def common_dtype(*given: Any) -> Any:
    """`np.result_type` of arrays, traced values, lists of them and Python's numbers, whose dtype is weak."""
    return np.result_type(*(x if isinstance(x, (int, float, complex, np.dtype)) else lift(x).dtype for x in map(dtype_of, given)))


def dtype_of(x: Any) -> Any:
    """What `np.result_type` takes in the place of a traced value: its dtype, or the Python number that it stands for; else `x`."""
    return x if not isinstance(x, Tracer) else x.dtype if hasattr(x.below, "dtype") else x.below


def _common(parts: list[Any]) -> list[Any]:
    dtype = np.result_type(*(p.dtype if p.shape else p.dtype.type(0) for p in parts))
    return [typed(p, dtype) for p in parts]


@implements((), [one(2, 3)], name="array", note="np.array can't see traced values inside a list: use functrace.numpy.array")
def array(
    object: Any, dtype: Any = None, *, copy: bool | None = True, order: Any = "K", subok: bool = False, ndmin: int = 0, like: Any = None,
    **more: Any,
) -> Any:  # fmt: skip
    """`np.array` that also takes (nested) lists of traced values. Shape and dtype are those that NumPy would give.

    >>> import functrace as ft, functrace.numpy as fnp
    >>> ft.grad(lambda x: fnp.array([x, 2 * x]).sum())(1.0)
    np.float64(3.0)
    """
    if not isinstance(object, Tracer) and not (isinstance(object, (list, tuple)) and holds_tracer(object)):
        return np.array(object, dtype=dtype, copy=copy, order=order, subok=subok, ndmin=ndmin, **more)
    np.array(0.0, **more)  # NumPy 2.4 has ndmax=, of which only fewer axes than there are mean something: an array of objects
    copied = getattr(copy, "value", copy) == 1  # a CopyMode, too, of which IF_NEEDED is neither true nor false
    out: Any = typed(lift(object), dtype)
    if copied and (isinstance(object, Tracer) or order == "F"):
        out = np.copy(out, order or "K")
    if out.ndim > more.get("ndmax", out.ndim):
        refuse_objects()
    return out if out.ndim >= ndmin else np.reshape(out, (1,) * (ndmin - out.ndim) + out.shape)
