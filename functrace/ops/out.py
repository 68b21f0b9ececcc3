"""What `out=` asks for: a result that is written to an array that is given."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace import errors
from functrace.core.tracer import Tracer
from functrace.ops.protocol import as_one
from functrace.places import own_frame, to_install, user_line


def giving_out(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, which leaves its argument `out` alone, with NumPy's `out=`: the result is written there as `out[...] = result` does.

    Where `out` has the wider dtype and the function takes a `dtype`, it computes in that.
    """
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if "out" not in names:
        return function
    named = names.index("out") >= code.co_argcount
    place = sys.maxsize if named else names.index("out")
    default = (function.__kwdefaults__ or {}).get("casting", "equiv" if name in ("dot", "linalg.multi_dot") else "same_kind")
    wider = {"axis", "dtype"} <= {*names} and "casting" not in names

    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) <= place and "out" not in kwargs:
            return function(*args, **kwargs)
        if not named:
            args, kwargs = (), {**dict(zip(names, args)), **kwargs}
        out = kwargs.pop("out")
        target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
        if target is None:
            return function(*args, **kwargs)
        if wider and kwargs.get("dtype") is None and hasattr(target, "dtype"):
            first = next((a for a in (*args, *kwargs.values()) if hasattr(a, "dtype")), target)
            if np.result_type(first.dtype, target.dtype) == target.dtype:
                kwargs["dtype"] = target.dtype
        return store(name, function(*args, **kwargs), target, kwargs.get("casting", default))

    call.__name__, call.__qualname__, call.__module__, call.__doc__ = name, name, function.__module__, function.__doc__
    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call


def store(name: str, result: Any, target: Any, casting: Any = "same_kind", stretched: bool = False) -> Any:
    """What `out=target` asks for: `target[...] = result`, if `target` is an array whose shape (`stretched`: after
    broadcasting) and dtype fit.
    """
    if not isinstance(target, Tracer) and isinstance(result, Tracer):
        if result.dtype.kind in "biu":  # as where they are stored by an index: no derivative is lost
            return store(name, as_one(result), target, casting, stretched)
        in_place = "Write y = y + x instead of y += x, or make the array with functrace.numpy.zeros."
        instead = "Call the function of functrace.numpy." if _in_numpy() else in_place
        raise not_storable(f"{name}(out=) or an in-place operator", target, instead)
    if not isinstance(target, (Tracer, np.ndarray)):
        raise TypeError(f"{name}: out must be an array, got {type(target).__name__} at {user_line()}")
    result = result.strong() if isinstance(result, Tracer) else np.asarray(result)
    if result.shape != target.shape and not (stretched and np.broadcast_shapes(result.shape, target.shape) == target.shape):
        raise ValueError(f"{name}: the result of shape {result.shape} does not fit out of shape {target.shape} at {user_line()}")
    if not np.can_cast(result.dtype, target.dtype, casting):
        raise TypeError(f"{name}: can't cast {result.dtype} to {target.dtype} of out by the rule {casting!r} at {user_line()}")
    if isinstance(target, Tracer):
        operator.setitem(target, ..., result)  # type: ignore[call-overload]
    else:
        np.copyto(target, result, "unsafe")
    return target


def not_storable(what: str, target: Any, instead: str) -> errors.ArrayStoreError:
    """The error of what would write a traced value to a plain array."""
    told = to_install(own_frame(sys._getframe(1)))
    return errors.ArrayStoreError(
        f"{what} would store a traced value in a plain ndarray ({errors.describe(target)}): the array would keep the number and lose the "
        f"derivative.\n  {told + '.' if told else instead}"
    )


def _in_numpy() -> bool:
    """Whether the innermost frame that is not ours is NumPy's: one of its functions met a traced argument that it did not look at."""
    frame = sys._getframe(2)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("functrace."):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__")).startswith("numpy.")
