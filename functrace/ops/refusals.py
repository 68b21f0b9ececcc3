"""What is refused: names of NumPy's, and conversions of a traced value to a plain one, with what to do instead of those."""

from __future__ import annotations

import sys
from itertools import islice
from types import CodeType, FrameType
from typing import Any, NoReturn

from functrace import errors
from functrace.core.tracer import BatchTracer, Tracer
from functrace.places import home_of, lines_of, own_frame, to_install, user_frame

REFUSED = {  # NumPy's public names, by the reason; docs/support.py lists those that no traced value enters
    "a traced value has no memory of its own that others may read": (
        "broadcast byte_bounds flatiter from_dlpack frombuffer isfortran memmap nditer nested_iters shares_memory "
        "lib.stride_tricks.as_strided lib.array_utils.byte_bounds ndarray.__array_interface__ ndarray.__array_struct__ ndarray.__dlpack__ "
        "ndarray.base ndarray.ctypes ndarray.data ndarray.flags ndarray.setflags ndarray.strides"
    ),
    "it takes the numbers out, which would cut the derivative: use functrace.value(x)": (
        "fromiter save savetxt savez savez_compressed ndarray.dump ndarray.dumps ndarray.tobytes ndarray.tofile ndarray.item "
        "ndarray.tolist ndarray.__float__ ndarray.__complex__ ndarray.__array__ ndarray.tostring"
    ),
    "not covered yet; nested calls of the function of one variable are": (
        "polynomial.polynomial.polyvalnd polynomial.chebyshev.chebvalnd polynomial.hermite.hermvalnd polynomial.hermite_e.hermevalnd "
        "polynomial.laguerre.lagvalnd polynomial.legendre.legvalnd"
    ),
    "bit patterns have no derivative": "packbits unpackbits ndarray.byteswap ndarray.getfield ndarray.setfield ndarray.view",
    "NumPy advises against matrices, and records hold no traced values": "asmatrix bmat matrix recarray",
    "ufuncs of Python objects": "frompyfunc",
    "an array's elements can't be deleted": "ndarray.__delitem__",
}

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

_WITHIN = {  # where a module of NumPy's own does
    "polynomial": "use functrace.numpy.polynomial, which takes traced values",
    "ma": "pass the numbers of a masked array, a.filled(0.0), with a.mask for np.where",
    "testing": "compare the plain values, functrace.value(x)",
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


def of_array(caller: FrameType, integers: bool) -> str:
    """The usual remedy where `caller` makes a plain array of a traced one."""
    package, _, rest = str(caller.f_globals.get("__name__")).partition(".")
    if package == "numpy" and (module := rest.partition(".")[0]) in _WITHIN:
        return _WITHIN[module]
    if getattr(caller.f_code, "co_qualname", "").startswith("vectorize."):
        return "use functrace.numpy.vectorize"
    return (_TO_INDEX if integers else "") + _TO_JOIN


_TO_INDEX = (
    "use functrace.numpy.take(array, x) if it is the index of a plain array (of two indices, x is "
    "functrace.numpy.ravel_multi_index((i, j), array.shape)); "
)
_TO_JOIN = "use functrace.numpy.array([...]) or np.stack to join traced values; a single one as it is"


def _library(frame: FrameType) -> str:
    """The package whose code a frame runs, as `_REMEDIES` tells them apart."""
    library = home_of(frame)
    if library != "scipy":
        return library
    if "sparse" in str(frame.f_globals["__name__"]):
        return "scipy.sparse"
    return "scipy, installed" if getattr(sys.modules.get("functrace.scipy"), "_PATCHED", ()) else "scipy"


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


def refuse(x: Tracer, what: str, instead: str) -> NoReturn:
    """Raise, since a traced value can't become `what`; `instead` is the usual remedy."""
    x.owner.check_open(x)
    first = frame = user_frame(3)
    theirs, scipy = "", False
    while frame is not None and (library := _library(frame)) in _REMEDIES:
        theirs, scipy, frame = _REMEDIES[library], scipy or library.startswith("scipy"), frame.f_back
    instead = theirs or _by_line(first, instead)
    frame = own_frame(frame) or first
    line, told = lines_of(frame), to_install(frame, scipy) if scipy or not theirs else ""
    stored = not theirs and frame is not None and stores(frame.f_code, frame.f_lasti)
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


def stores(code: CodeType, lasti: int) -> bool:
    """Whether the instruction at `lasti` is `a[i] = v`."""
    import dis

    return dis.opname[code.co_code[lasti]].startswith(("STORE_SUBSCR", "STORE_SLICE"))


def formats(code: CodeType, lasti: int) -> bool:
    """Whether the instruction at `lasti` is `%`, which makes a float of its operand for text alone."""
    import dis

    name = dis.opname[code.co_code[lasti]]
    return name.endswith("_MODULO") or name == "BINARY_OP" and code.co_code[lasti + 1] in _REMAINDER  # the former in Python 3.10


_REMAINDER = (6, 19)  # of Python's binary operations: %, %=
