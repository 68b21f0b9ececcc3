"""Every mistake functrace can name: one class each, with the remedy in its text.

All derive from `FunctraceError` and from the builtin exception that a NumPy user would catch. A message names the function
and the argument, shows what was found beside what was wanted, gives the remedy, and ends with its code, which is stable across
releases and has a section in `docs/errors.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from functrace.places import user_line

# What NumPy raises where others of that shape and dtype pass; a warning, where it is made an error.
OF_VALUES = (ArithmeticError, IndexError, np.linalg.LinAlgError, RuntimeWarning)

_LINE = re.compile(r":\d+, in ")  # of the user's program, in a message


class FunctraceError(Exception):
    """Base of every functrace error; `code` names the mistake in the documentation.

    >>> import functrace as ft, numpy as np
    >>> try:
    ...     ft.grad(np.sum)(np.arange(3))
    ... except FunctraceError as error:
    ...     print(error.code, type(error).__name__, isinstance(error, TypeError))
    FT101 IntegerInputError True
    """

    code = "FT000"

    def __init__(self, message: str = "") -> None:
        first, *rest = message.split("\n", 1)
        if not _LINE.search(message) and (line := user_line(2)):  # the line was left out
            message = "\n".join([f"{first}\n  At {line}.", *rest])
        super().__init__(message)

    def __str__(self) -> str:
        return f"{super().__str__()} [{self.code}, docs/errors.md]"


class IntegerInputError(FunctraceError, TypeError):
    """A derivative was asked with respect to integers or booleans, which have none."""

    code = "FT101"


class InputTypeError(FunctraceError, TypeError):
    """A derivative was asked with respect to something that is no array or number, or complex without being said to be.

    Or a tensor, which keeps a history of its own, met a function of arrays that does not see it.
    """

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


class CallError(FunctraceError, TypeError):
    """A transform was given what it can't work with: no function, a primal outside of a tuple, a static argument without a hash."""

    code = "FT122"


class RetraceError(FunctraceError, RuntimeError):
    """A function that was jitted with `no_retrace` would have to be recorded again."""

    code = "FT121"


class ConvergenceError(FunctraceError, ArithmeticError):
    """A solver found no solution, so there is none to differentiate."""

    code = "FT123"


class JitWarning(UserWarning):
    """A jitted function runs without being compiled: the text says why, once for each function. `Jitted.explain()` says it again.

    >>> import functrace as ft, warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     f = ft.jit(lambda x: x * 2 if x > 0 else x, max_paths=1)
    ...     _ = f(1.0), f(-1.0)
    >>> caught[0].category.__name__
    'JitWarning'
    """


# How messages show values

_MANY, _LONG = 6, 30  # elements, and characters, from which on one is not written out


def describe(x: Any) -> str:
    """Shape and dtype of a value in the notation of error messages and tapes, as in `float64[3,2]`."""
    try:
        dtype, shape = x.dtype, x.shape
    except Exception:  # an object may answer for any name, or raise what it likes: a KeyError, say
        return type(x).__name__
    if dtype is None or not isinstance(shape, tuple):
        return type(x).__name__
    return f"{dtype}[{','.join(map(str, shape))}]"


def short(x: Any) -> str:
    """An argument of an op in a few characters."""
    if isinstance(x, (tuple, list)):
        return listed(map(short, x)) if len(x) < _MANY else f"{len(x)} of them"
    if not isinstance(x, (dict, int, float, str, slice, type(None), type(...), np.dtype)) or isinstance(x, np.generic):
        return describe(x)
    return text if len(text := written(x)) < _LONG else type(x).__name__


def written(x: Any) -> str:
    """A constant, or a part of an index, as a program writes it."""
    if isinstance(x, slice):
        return ":".join("" if k is None else repr(k) for k in (x.start, x.stop, x.step)[: 3 if x.step is not None else 2])
    return "..." if x is ... else str(x) if isinstance(x, (np.dtype, np.generic)) else repr(x)


def listed(parts: Iterable[str]) -> str:
    """A tuple of what is written."""
    return f"({', '.join(parts := [*parts])}{',' * (len(parts) == 1)})"


def __dir__() -> list[str]:
    ours = FunctraceError, JitWarning
    return [name for name, x in globals().items() if name[:2] == "__" or isinstance(x, type) and issubclass(x, ours)]
