"""Every mistake functrace can name: one class each, with the remedy in its text.

All derive from `FunctraceError` and from the builtin exception that a NumPy user would catch. A message names the function
and the argument, shows what was found beside what was wanted, and ends with the remedy. `code` is stable across releases.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FrameType
from typing import Any

import numpy as np

_PACKAGES = tuple(os.path.dirname(os.path.abspath(f)) + os.sep for f in (__file__, np.__file__))


class FunctraceError(Exception):
    """Base of every functrace error; `code` names the mistake in the documentation."""

    code = "FT000"


class IntegerInputError(FunctraceError, TypeError):
    """A derivative was asked with respect to integers or booleans, which have none."""

    code = "FT101"


class InputTypeError(FunctraceError, TypeError):
    """A derivative was asked with respect to something that is no array or number, or complex without being said to be."""

    code = "FT114"


class MutatedError(FunctraceError, RuntimeError):
    """An array that a tape still needs was changed, or was about to be, after it was recorded."""

    code = "FT115"


class NonScalarOutputError(FunctraceError, TypeError):
    """`grad` needs a function whose output is one real number."""

    code = "FT102"


class CotangentError(FunctraceError, ValueError):
    """A cotangent or tangent does not have the structure, shape or dtype of the value that it belongs to."""

    code = "FT103"


class ConversionError(FunctraceError, TypeError):
    """A traced value was asked to become a plain array or float, which would silently cut the derivative."""

    code = "FT104"


class ArrayStoreError(FunctraceError, TypeError):
    """A traced value was stored in, or written through `out=` to, a plain ndarray."""

    code = "FT105"


class ArgnumsError(FunctraceError, ValueError):
    """`argnums` or `argnames` does not name an argument of the call."""

    code = "FT106"


class LeakedTracerError(FunctraceError, RuntimeError):
    """A traced value was used after the trace that made it had ended."""

    code = "FT107"


class MissingRuleError(FunctraceError, TypeError):
    """An op was declared, or used, without a rule that the transform needs."""

    code = "FT108"


class CheckpointError(FunctraceError, RuntimeError):
    """A checkpointed function did not repeat itself when it was run again for the reverse replay."""

    code = "FT116"


class UnsupportedError(FunctraceError, NotImplementedError):
    """A NumPy function, or a keyword of one, that has no derivative rule here."""

    code = "FT109"


class TreeError(FunctraceError, ValueError):
    """Two pytrees that must have one structure do not."""

    code = "FT110"


class BatchError(FunctraceError, ValueError):
    """`vmap` was given axes or sizes that do not fit its arguments."""

    code = "FT111"


class CustomRuleError(FunctraceError, TypeError):
    """A `custom_vjp` or `custom_jvp` rule is missing, or returned the wrong arity, shape or dtype."""

    code = "FT112"


class DegenerateError(FunctraceError, ArithmeticError):
    """A derivative of eigenvectors or singular vectors that does not exist: equal eigenvalues, or a result that depends on the gauge."""

    code = "FT117"


class CheckError(FunctraceError, AssertionError):
    """`check_grads` found a derivative that disagrees with finite differences."""

    code = "FT113"


class ControlFlowError(FunctraceError, TypeError):
    """A loop's carry changed its structure, shape or dtype, branches disagree, or lengths do."""

    code = "FT118"


class NonFiniteError(FunctraceError, FloatingPointError):
    """`debug_nans` or `debug_infs` found the op that made one."""

    code = "FT119"


class RuleError(FunctraceError, AssertionError):
    """`checks` found a derivative rule whose result does not fit its argument."""

    code = "FT120"


class RetraceError(FunctraceError, RuntimeError):
    """A function that was jitted with `no_retrace` would have to be recorded again."""

    code = "FT121"


def describe(x: Any) -> str:
    """Shape and dtype of a value in the notation of error messages and tapes, as in `float64[3,2]`."""
    dtype = getattr(x, "dtype", None)
    shape = getattr(x, "shape", None)
    if dtype is None or shape is None:
        return type(x).__name__
    return f"{dtype}[{','.join(map(str, shape))}]"


class _UserFiles(dict[str, bool]):
    """Whether a source file lies outside functrace and NumPy; asked for every value made, so remembered."""

    def __missing__(self, filename: str) -> bool:
        self[filename] = answer = not filename.startswith(_PACKAGES)
        return answer


is_user_file = _UserFiles()


def user_frame(depth: int = 1) -> FrameType | None:
    """The innermost frame outside functrace, or None."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and not is_user_file[frame.f_code.co_filename]:
        frame = frame.f_back
    return frame


def line_of(code: CodeType | None, lasti: int) -> str:
    """`file.py:12, in f` for a bytecode position, or the empty string."""
    if code is None:
        return ""
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= lasti < end and number is not None:
            line = number
    return f"{code.co_filename}:{line}, in {code.co_name}"


def user_line(depth: int = 2) -> str:
    """`file.py:12, in f` for the innermost frame outside functrace."""
    frame = user_frame(depth)
    return "" if frame is None else line_of(frame.f_code, frame.f_lasti)


def raising_ours(fun: Callable[..., Any], args: Iterable[Any], locks: Sequence[Any] = ()) -> Any:
    """`fun(*args)`; an error of NumPy's gives way to the one of ours that caused it, or that says more."""
    try:
        return fun(*args)
    except ValueError as error:
        ours = error.__cause__ or error.__context__
        if isinstance(ours, FunctraceError):
            raise ours from None
        if locks and "read-only" in str(error):
            raise MutatedError(
                f"{error}: an array of more than 256 kB that was used with traced values is locked while the derivative needs it "
                f"({', '.join(describe(lock.array) for lock in locks[:3])}).\n  Write to a copy of it."
            ) from error
        raise
