"""How traced values meet Python and NumPy: NumPy's two protocols find the ops, and conversions that would cut the derivative
raise. Attached to `Tracer`, as all operators and methods are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from itertools import islice
from sys import _getframe
from types import CodeType, FrameType
from typing import Any, NoReturn

import numpy as np

from functrace import errors, tree
from functrace.core.tracer import BatchTracer, Tracer, bare
from functrace.places import MADE_FOR_TRACED, home_of, is_user_file, lines_of, outside, own_frame, to_install, user_frame

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
        errors.trim(error)
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
        errors.trim(error)
        raise


def _stores(code: CodeType, lasti: int) -> bool:
    """Whether the instruction at `lasti` is `a[i] = v`."""
    import dis

    return dis.opname[code.co_code[lasti]].startswith(("STORE_SUBSCR", "STORE_SLICE"))


def _formats(code: CodeType, lasti: int) -> bool:
    """Whether the instruction at `lasti` is `%`, which makes a float of its operand for text alone."""
    import dis

    name = dis.opname[code.co_code[lasti]]
    return name.endswith("_MODULO") or name == "BINARY_OP" and code.co_code[lasti + 1] in _REMAINDER  # the former in Python 3.10


_REMAINDER = (6, 19)  # of Python's binary operations: %, %=


_REMEDIES = {  # where a library, called by the user, converts
    "scipy": "call functrace.scipy.install() before importing names from SciPy, or use the functions of functrace.scipy; what is not among "
    "them (docs/scipy.md) needs a rule, functrace.custom_vjp",
    "scipy, installed": "give it a rule with functrace.custom_vjp: it is not among the functions of functrace.scipy (docs/scipy.md), or "
    "its name was imported before functrace.scipy.install()",
    "scipy.sparse": "use A @ x or x @ A, the operations of sparse matrices that take traced values; A.data has their elements",
    "pandas": "give pandas' data as arrays: s.to_numpy(), df.to_numpy(), dict(df); and keep traced values in arrays",
    "matplotlib": "plot the plain value, functrace.value(x)",
    "xarray": "take the array out, da.data, before it leaves xarray",
}


_CALLS = {  # where C code converts, by what the user's expression begins with
    r"[\w.]*(?:np|numpy)\.arange\((?!.*\)\[)": "fix the length, as in np.linspace(0.0, x, n) or x * np.arange(n)",
    r"(?:np|numpy)\.(full|select|vectorize|[rc]_)(?!\w)": r"use functrace.numpy.\1, which takes traced values",
    r"(?:np|numpy)\.(array|as(?:any|contiguous)?array)\((?=[\w.]+[,)])": r"use functrace.numpy.\1, which takes traced values",
    r"(?:np|numpy)\.(float\d+)\(": r"use x.astype(np.\1) for np.\1(x)",
    r"(?:np|numpy)\.fill_diagonal\(": "make the array that is written to with functrace.numpy.zeros",
    r".*(?<!\bnp)(?<!\bnumpy)\.dot\(": "use a @ x for a.dot(x) of a plain array, where a list is joined first, a @ np.stack(x)",
    r"[\w.]*\b(ndenumerate|nditer)\(": r"loop over np.ndindex(x.shape), and index x, in place of np.\1",
    r"[\w.]*\bas_strided\(": "use np.lib.stride_tricks.sliding_window_view, or index x",
    r"(?:(?:np|numpy)\.random\b|[\w.]*\brng\b).*\.(permutation|choice)\(": r"draw positions, as in x[rng.\1(len(x))]",
    r"(?:np|numpy)\.random\b|[\w.]*\brng\.": "draw without it, as in loc + scale * rng.standard_normal(), or with functrace.random",
    r"[\w.]*\bfromiter\(": "use functrace.numpy.array([...]) or np.stack to join traced values",
    r"(?:np|numpy)\.broadcast\(": "use np.broadcast_shapes(np.shape(x), np.shape(y)), or np.broadcast_arrays",
    r".*\.fill\(": "make the array inside the function, with functrace.numpy.zeros, or use functrace.numpy.full",
    r"complex\(": "write x + 1j * y",
    r".*[\"'] ?% ?[\w(]": 'write f"{x:.3f}", if it is to be printed',
}


def _by_line(frame: FrameType | None, usual: str) -> str:
    """What to do instead, worded for the user's line."""
    import linecache
    import re

    line = "" if frame is None else linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    find: Any = re.search
    if frame is not None and hasattr(frame.f_code, "co_positions"):  # from Python 3.11: the expression
        first, last, start, end = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
        find, line = re.match, line.encode()[start : end if first == last else None].decode()
    return next((found.expand(text) for pattern, text in _CALLS.items() if (found := find(pattern, line))), usual)


def _refuse(x: Tracer, what: str, instead: str) -> NoReturn:
    x.owner.check_open(x)
    frame = user_frame(3)
    instead, theirs, scipy = _by_line(frame, instead), "", False
    while frame is not None and (library := home_of(frame)) in _REMEDIES:
        if library == "scipy":
            installed = getattr(sys.modules.get("functrace.scipy"), "_PATCHED", ())
            library = "scipy.sparse" if "sparse" in str(frame.f_globals["__name__"]) else "scipy, installed" if installed else "scipy"
            scipy = True
        instead = theirs = _REMEDIES[library]
        frame = frame.f_back
    frame = own_frame(frame) or user_frame(3)
    line, told = lines_of(frame), to_install(frame, scipy) if scipy or not theirs else ""
    stored = not theirs and frame is not None and _stores(frame.f_code, frame.f_lasti)
    cut = "the array would keep the number and lose the derivative" if stored else "that would silently cut the derivative"
    batch = isinstance(x, BatchTracer)
    why = "it differs between the examples" if batch else "that would fix its value in the program" if hasattr(x.owner, "guard") else cut
    if stored:
        raise errors.ArrayStoreError(
            f"a traced value ({errors.describe(x)}) of {x.owner.what} can't be stored in a plain ndarray: {why}.\n  At {line}.\n"
            f"  {told or _MAKE}."
        )
    # NumPy's nditer puts words of its own in the place of a TypeError
    raise (errors.UnsupportedError if "nditer" in instead else errors.ConversionError)(
        f"a traced value ({errors.describe(x)}) of {x.owner.what} can't become {what}: {why}.\n"
        f"  At {line}.\n"
        f"  {told or f'Instead {instead}'}.\n"
        f"  {_ONE_BY_ONE if batch else _PLAIN}"
    )


_MAKE = "Make the array inside the function, with functrace.numpy.zeros; or build it from its parts with np.stack; or use x.at[i].set(v)"
_PLAIN = "If the derivative is not wanted: functrace.value(x) is the plain value, functrace.stop_gradient(x) a constant."
_ONE_BY_ONE = "functrace.value(x) is the plain batch; functrace.map, in place of vmap, takes one example after another, as C code wants it."

_to_index = (
    "use functrace.numpy.take(array, x) if it is the index of a plain array (of two indices, x is "
    "functrace.numpy.ravel_multi_index((i, j), array.shape)); "
)
_to_array = "use functrace.numpy.array([...]) or np.stack to join traced values; a single one as it is"


@errors.boundary
def _array(self: Tracer, *_args: Any, **_kwargs: Any) -> Any:
    caller = _getframe(2)
    if caller.f_code.co_name in ("_matmul_dispatch", "_mul_dispatch") and str(caller.f_globals.get("__name__")).startswith("scipy.sparse"):
        return np.array(None, object)  # of what is no array, SciPy lets Python ask the operator: our __rmatmul__
    integers = self.dtype.kind in "ui"
    if _compared(caller) or self.dtype == bool or integers and (_installed(caller) or _stores(caller.f_code, caller.f_lasti)):
        # a mask, or indices that are kept, or a package's: examples of a batch that have others go another way
        return np.asarray(as_one(self))
    theirs = str(caller.f_globals.get("__name__")).split(".")
    if theirs[0] == "numpy" and theirs[1:2] and theirs[1] in _WITHIN:
        return _refuse(self, "a plain ndarray", _WITHIN[theirs[1]])
    vectorized = getattr(caller.f_code, "co_qualname", "").startswith("vectorize.")
    return _refuse(self, "a plain ndarray", "use functrace.numpy.vectorize" if vectorized else (_to_index if integers else "") + _to_array)


_WITHIN = {  # of NumPy's own modules
    "polynomial": "use functrace.numpy.polynomial, which takes traced values",
    "ma": "pass the numbers of a masked array, a.filled(0.0), with a.mask for np.where",
    "testing": "compare the plain values, functrace.value(x)",
}


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
    return errors.boundary(lambda self, *_args, **_kwargs: _refuse(self, what, instead))


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
            return _refuse(self, what, instead)
        if name == "tolist":
            return _list(self)
        return self[args] if len(args) > 1 else self.reshape(-1)[args] if args else self.reshape(())

    return errors.boundary(convert)


def _number(kind: type, instead: str) -> Callable[[Tracer], Any]:
    @errors.boundary
    def number(self: Tracer) -> Any:
        caller = _getframe(2)
        if _compared(caller) or _counts(self):
            return kind(as_one(self))
        above = caller.f_code is number.__wrapped__.__code__  # type: ignore[attr-defined]  # the tracer of which this is the value was asked
        if not isinstance(self, BatchTracer) and (above or _formats(caller.f_code, caller.f_lasti)):
            return kind(self.below)
        return _refuse(self, f"{kind.__name__}()", instead)

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
