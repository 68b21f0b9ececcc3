"""How traced values meet Python and NumPy: NumPy's two protocols find the ops, and conversions that would cut the derivative
raise. Attached to `Tracer`, as all operators and methods are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from sys import _getframe
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from functrace import edge, errors, tree
from functrace.core.tracer import BatchTracer, Tracer, bare
from functrace.ops.refusals import formats, of_array, refuse, stores
from functrace.places import MADE_FOR_TRACED, home_of, is_user_file, outside

UFUNCS: dict[Any, Callable[..., Any]] = {}  # np.sin -> the op: filled by the declarations
UFUNC_METHODS: dict[str, Callable[..., Any]] = {}  # "reduce", or "__call__" with keywords -> how to do it
FUNCTIONS: dict[Any, Callable[..., Any]] = {}  # np.sum -> its implementation
LATE = {  # modules of ours that are imported when a function of these is met that nobody has declared yet
    "numpy": "ops.calculus ops.counting ops.decompositions ops.einsum ops.fourier ops.linalg ops.nanfunctions ops.norms ops.pad "
    "ops.polynomials ops.quantiles ops.ranges ops.select ops.sorting ops.statistics",
    "scipy.special": "scipy.special",
}


def stamp(out: Any) -> Any:
    """Say that a result was made on the user's line, when an op was reached through frames of our own."""
    if isinstance(out, Tracer):
        frame = _getframe(2)
        if not is_user_file[frame.f_code.co_filename]:
            user = outside(frame.f_back)
            if user is None:
                return out
            frame = user
        out.code, out.lasti = frame.f_code, frame.f_lasti
    return out


def load_late() -> None:
    """Declare all that the libraries which the program has loaded by now have to offer."""
    for theirs, ours in LATE.items():
        if theirs in sys.modules:
            for module in ours.split():
                import_module(f"functrace.{module}")


def _late(function: Any) -> Callable[..., Any] | None:
    load_late()
    return UFUNCS.get(function) or FUNCTIONS.get(function)


def _array_ufunc(self: Tracer, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    try:
        op = UFUNCS.get(ufunc) or _late(ufunc)
        if op is not None and method == "__call__" and not kwargs:
            return stamp(op(*inputs))
        return stamp(UFUNC_METHODS[method](ufunc, *inputs, **kwargs))
    except Exception as error:
        edge.trim(error)
        raise


def _array_function(self: Tracer, func: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        implementation = FUNCTIONS.get(func) or _late(func)
        if implementation is None:
            raise errors.UnsupportedError(
                f"{func.__module__}.{func.__name__} has no derivative rule in functrace (called on a value of {self.owner.what}).\n"
                "  Write it with supported functions, give it a rule with functrace.custom_vjp, or apply it to functrace.value(x)."
            )
        return stamp(implementation(*args, **kwargs))
    except Exception as error:
        edge.trim(error)
        raise


@edge.boundary
def _array(self: Tracer, *_args: Any, **_kwargs: Any) -> Any:
    caller = _getframe(2)
    if caller.f_code.co_name in ("_matmul_dispatch", "_mul_dispatch") and str(caller.f_globals.get("__name__")).startswith("scipy.sparse"):
        return np.array(None, object)  # of what is no array, SciPy lets Python ask the operator: our __rmatmul__
    integers = self.dtype.kind in "ui"
    if _compared(caller) or self.dtype == bool or integers and (_installed(caller) or stores(caller.f_code, caller.f_lasti)):
        # a mask, or indices that are kept, or a package's: examples of a batch that have others go another way
        return np.asarray(as_one(self))
    return refuse(self, "a plain ndarray", of_array(caller, integers))


def _compared(caller: FrameType) -> bool:
    """Whether it is NumPy's comparison of lists, which takes an error for a "no"."""
    return caller.f_code.co_name in ("array_equal", "array_equiv") and str(caller.f_globals.get("__name__")).startswith("numpy.")


def as_one(x: Any) -> Any:
    """The plain value, noted by `jit`; `vmap` is split where the examples differ."""
    while isinstance(x, Tracer) and not isinstance(x, BatchTracer):
        x = x.owner.reveal(x)
    return x.owner.agreed(x) if isinstance(x, Tracer) else x


def as_numbers(x: Any) -> Any:
    """Sizes or positions, in containers or not, of which some may be traced, as NumPy wants them: see `as_one`."""
    return x if isinstance(x, (int, np.integer, np.ndarray)) else tree.map(as_one, x)


def _refusal(what: str, instead: str) -> Callable[..., NoReturn]:
    return edge.boundary(lambda self, *_args, **_kwargs: refuse(self, what, instead))


def _installed(caller: FrameType) -> bool:
    return home_of(caller) in MADE_FOR_TRACED


def _list(x: Any) -> Any:
    return [_list(part) for part in x] if x.shape else x


def _counts(x: Tracer) -> bool:
    """Whether it is a batch of truths or integers, which has no derivative to lose: it is split, as `int` and `bool` split it."""
    return isinstance(x, BatchTracer) and x.dtype.kind in "biu"


def _python(name: str, what: str, instead: str) -> Callable[..., Any]:
    def convert(self: Any, *args: Any) -> Any:
        if _counts(self):
            return getattr(as_one(self), name)(*args)
        if not _installed(_getframe(2)):
            return refuse(self, what, instead)
        if name == "tolist":
            return _list(self)
        return self[args] if len(args) > 1 else self.reshape(-1)[args] if args else self.reshape(())

    return edge.boundary(convert)


def _number(kind: type, instead: str) -> Callable[[Tracer], Any]:
    @edge.boundary
    def number(self: Tracer) -> Any:
        caller = _getframe(2)
        if _compared(caller) or _counts(self):
            return kind(as_one(self))
        above = caller.f_code is number.__wrapped__.__code__  # type: ignore[attr-defined]  # the tracer of which this is the value was asked
        if not isinstance(self, BatchTracer) and (above or formats(caller.f_code, caller.f_lasti)):
            return kind(self.below)
        return refuse(self, f"{kind.__name__}()", instead)

    return number


def _format(self: BatchTracer, spec: str) -> str:
    """A number in the given format, for each of the examples."""
    if self.shape or not spec:
        return format(self.below, spec)
    format(x := self.below, "")  # which tells those to whom the value belongs that it is printed
    return np.array2string(bare(x), formatter={"all": lambda number: format(number, spec)})


BatchTracer.__format__ = _format  # type: ignore[method-assign, assignment]
for _name, _method in {
    "__array_ufunc__": _array_ufunc,
    "__array_function__": _array_function,
    "__float__": _number(float, "use it as it is (np.sin, not math.sin)"),
    "__complex__": _number(complex, "use it as it is (np.exp, not cmath.exp)"),
    "__array__": _array,
    "tolist": _python("tolist", "a list", "index it, or iterate over it"),
    "_sympy_": _refusal("a number of SymPy", "make a NumPy function of the expression, sympy.lambdify(x, expression)"),
    "__reduce__": _refusal("a pickle", "use it in this process, and send plain values to others"),
    "item": _python("item", "a Python scalar", "use it as it is, or x.reshape(()) for a 0-d array"),
}.items():
    setattr(Tracer, _name, _method)
Tracer.__pandas_priority__ = 5000  # type: ignore[attr-defined]  # above that of a Series or DataFrame, which leave the operators to us
