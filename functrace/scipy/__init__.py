"""SciPy, differentiable: `from functrace.scipy import special`, or plain SciPy after `functrace.scipy.install()`.

SciPy's ufuncs (`scipy.special.gammaln`) find their derivatives on traced values by themselves. Its other functions turn their
arguments into plain arrays, which a traced value refuses; so call ours, which have the same names, or install them.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from functrace import errors
from functrace.ops.protocol import UFUNCS
from functrace.ops.registry import TABLE, plain_first

__all__ = ["install", "uninstall"]

_REFUSED: dict[str, tuple[Any, Callable[..., Any]]] = {}  # "scipy.special.lqn" -> SciPy's function, and ours, which raises
_PATCHED: list[tuple[Any, str, Any, bool]] = []  # owner, attribute, what it was, whether it was in the owner's own __dict__
_LOCK = threading.Lock()


def refuse(library: Any, reasons: dict[str, str]) -> dict[str, Callable[..., Any]]:
    """For each function of a SciPy module that has no derivative here: one that says why, when an argument is traced."""
    out = {}
    for name, reason in reasons.items():
        theirs = getattr(library, name, None)
        if theirs is None:  # not in this version of SciPy
            continue
        out[name] = ours = plain_first(theirs, _refusal(f"{library.__name__}.{name}", reason))
        ours.__name__ = ours.__qualname__ = name
        ours.__doc__ = f"SciPy's own; refused on traced values: {reason}."
        if not isinstance(theirs, type):  # SciPy needs its classes
            _REFUSED[f"{library.__name__}.{name}"] = theirs, ours
        if isinstance(theirs, np.ufunc):
            UFUNCS[theirs] = getattr(ours, "__wrapped__")  # noqa: B009
    return out


def _refusal(name: str, reason: str) -> Callable[..., NoReturn]:
    def function(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise errors.UnsupportedError(
            f"{name} has no derivative rule in functrace: {reason}.\n  At {errors.user_line()}.\n"
            "  Give it a rule with functrace.custom_vjp, or apply it to functrace.value(x)."
        )

    return function


def _replacements(names: tuple[str, ...]) -> Iterator[tuple[str, Any, Callable[..., Any]]]:
    """Where SciPy keeps a function, as a dotted name; the function; and ours."""
    for path, declared in list(TABLE.items()):
        theirs = declared.numpy[0] if isinstance(declared.numpy, tuple) and declared.numpy else declared.numpy
        if path.startswith("scipy.") and callable(theirs) and not isinstance(theirs, np.ufunc) and path.split(".")[1] in names:
            wrapped = hasattr(declared.function, "__wrapped__")
            yield path, theirs, declared.function if wrapped else plain_first(theirs, declared.function)
    for path, (theirs, ours) in _REFUSED.items():
        if path.split(".")[1] in names and not isinstance(theirs, np.ufunc):
            yield path, theirs, ours


def install(*names: str) -> None:
    """Make SciPy's own functions take traced values: each calls ours if an argument is traced, and is itself otherwise.

    `names` are the subpackages to change ("special", "stats", ...), by default all that functrace knows. Functions that were
    imported by name (`from scipy.special import logsumexp`) before the call stay as they are. Calling it again changes nothing;
    `uninstall` undoes it.

    >>> import functrace as ft, functrace.scipy, numpy as np, scipy.special
    >>> functrace.scipy.install("special")
    >>> ft.grad(lambda x: scipy.special.logsumexp(x))(np.zeros(2))
    array([0.5, 0.5])
    >>> functrace.scipy.uninstall()
    """
    known = [m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"functrace.scipy.install: {', '.join(unknown)} is not one of {', '.join(known)}")
    names = names or tuple(known)
    for name in names:
        importlib.import_module(f"{__name__}.{name}")
        importlib.import_module(f"scipy.{name}")
    with _LOCK:
        for path, theirs, ours in _replacements(names):
            *parents, attribute = path.split(".")
            owner: Any = importlib.import_module(".".join(parents[:2]))
            for parent in parents[2:]:
                owner = getattr(owner, parent, None)
            now = getattr(owner, attribute, None)
            if now is not None and now == theirs:  # equal, not identical: a bound method is a new object each time
                _PATCHED.append((owner, attribute, now, attribute in vars(owner)))
                setattr(owner, attribute, ours)


def uninstall() -> None:
    """Give SciPy its own functions back.

    >>> import functrace.scipy, scipy.special
    >>> plain = scipy.special.logsumexp
    >>> functrace.scipy.install("special")
    >>> functrace.scipy.uninstall()
    >>> scipy.special.logsumexp is plain
    True
    """
    with _LOCK:
        while _PATCHED:
            owner, attribute, theirs, own = _PATCHED.pop()
            if own:
                setattr(owner, attribute, theirs)
            else:
                delattr(owner, attribute)
