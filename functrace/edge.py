"""The edge of the library, which users' calls cross on their way in, and errors on their way out.

An error leaves the frames of functrace and NumPy behind (`trim`): what Python prints ends with the user's own line.
`FUNCTRACE_TRACEBACK=full` in the environment keeps them.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType, FunctionType, TracebackType
from typing import Any, TypeVar

from functrace import errors
from functrace.places import is_library, is_user_file, line_of, to_install, user_line

_F = TypeVar("_F", bound=Callable[..., Any])
_Called = Callable[[tuple[Any, ...], dict[str, Any]], Any]


def raising_ours(fun: Callable[..., Any], args: Iterable[Any], locks: Sequence[Any] = ()) -> Any:
    """`fun(*args)`; an error of NumPy's, or of other C code, gives way to the one of ours that caused it, or that says more."""
    try:
        return fun(*args)
    except (ValueError, SystemError) as error:  # a SystemError comes from C code that went on after an error
        ours = error.__cause__ or error.__context__
        if isinstance(ours, errors.FunctraceError):
            raise ours.with_traceback(error.__traceback__) from None
        if locks and "read-only" in str(error):
            held = dict.fromkeys(errors.describe(lock.array) for lock in locks[:3])
            lines = [line_of(t.tb_frame.f_code, t.tb_lasti) for t, mine in _links(error.__traceback__) if mine]
            raise errors.MutatedError(
                f"{error}: an array of more than 256 kB that was used with traced values is locked while the derivative needs it "
                f"({', '.join(held)}).\n  At {lines[-1] if lines else user_line()}.\n  Write to a copy of it."
            ).with_traceback(error.__traceback__) from None
        raise


def _links(traceback: TracebackType | None) -> Iterator[tuple[TracebackType, bool]]:
    """The links of a traceback, outermost first, each with whether its frame is the user's: not ours, NumPy's or a library's."""
    inside = False
    while traceback is not None:
        name, module = traceback.tb_frame.f_code.co_filename, str(traceback.tb_frame.f_globals.get("__name__"))  # Cython has no file
        inside = not is_user_file[name] or module.startswith("numpy.") or inside and is_library(name)
        yield traceback, not inside
        traceback = traceback.tb_next


def trim(error: BaseException) -> None:
    """Take the frames that are not the user's out of the traceback of an error, and of those that led to it.

    To be called where an error leaves functrace: `except Exception as error: trim(error); raise`. A `raise` of nothing adds no frame,
    so the next above is the caller's. (In Python 3.10 it does: there the frame of the function that calls this stays.)
    """
    if os.environ.get("FUNCTRACE_TRACEBACK") == "full":
        return
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        e = todo.pop()
        if e is None or id(e) in seen:
            continue
        seen.add(id(e))
        todo += (e.__cause__, e.__context__)
        links = list(_links(e.__traceback__))
        if e is error and not isinstance(e, errors.FunctraceError):
            _annotate(e, [link.tb_frame for link, mine in links], max((k + 1 for k, (_, mine) in enumerate(links) if mine), default=0))
        if e is error and links and links[-1][1] and re.search(_CONTAINER, str(e)):
            note(e, "A list or tuple of numbers is a container, not an array: pass np.array(...) to compute with it as a whole.")
        last = next((link.tb_frame for link, mine in reversed(links) if mine), None)
        if e is error and re.search(_NAMED, f"{type(e).__name__} {e}") and (told := to_install(last)):
            note(e, f"{told}.")
        obj: Any = getattr(e, "obj", None) if e is error else None
        if isinstance(e, AttributeError) and type(obj).__name__ in ("TapeTracer", "BatchTracer"):
            e.args = (f"a traced value ({errors.describe(obj)}) of {obj.owner.what} has no attribute {e.name!r}",)
        if e is error and "truth value of an array" in str(e):
            note(e, "np.where(condition, a, b) chooses for each element; conditions are combined as in (0 < x) & (x < 1).")
        if isinstance(e, ModuleNotFoundError) and str(e.name)[:5] == "scipy" and links and not links[-1][1] and "functrace" not in e.msg:
            e.msg += ", which this function of functrace needs: pip install 'functrace[scipy]'"
        kept: TracebackType | None = None
        for link, mine in reversed(links):
            if mine:
                kept = TracebackType(kept, link.tb_frame, link.tb_lasti, link.tb_lineno)
        if e is error and sys.version_info < (3, 11) and links:
            links[0][0].tb_next = kept
        else:
            e.__traceback__ = kept


_NAMED = r"^TypeError|(Tape|Batch)Tracer|'Blank'"  # what a package says to a value that it does not know
_CONTAINER = (
    r"operand type.*'(list|tuple)'|can't multiply sequence|'(list|tuple)' object has no attribute '(sum|mean|shape|size|ndim|dtype|T|dot)'"
)


def note(error: BaseException, text: str) -> None:
    """Add a line to what is printed of an error, once; from Python 3.11 on."""
    if sys.version_info >= (3, 11) and f"  {text}" not in getattr(error, "__notes__", ()):
        error.add_note(f"  {text}")


def _annotate(error: BaseException, frames: Sequence[FrameType], start: int) -> None:
    """Say of which op of the user's an error of NumPy's is: the first that a frame from `start` on applies."""
    for frame in frames[start:]:
        names = frame.f_locals
        functions = [names.get(k) for k in ("func", "ufunc", "primitive", "op")]
        name = next((n for f in functions if isinstance(n := getattr(f, "__name__", None) or getattr(f, "name", None), str)), None)
        several = (v for k in ("args", "inputs") if isinstance(v := names.get(k), (tuple, list)) and v)  # not an array of that name
        operands = next(several, [names[k] for k in ("self", "x", "other", "y") if k in names])
        each = (y for x in operands for y in (x if isinstance(x, (list, tuple)) else (x,)))
        owners = (getattr(x, "owner", None) for x in each if hasattr(type(x), "owner"))  # None: it was being made when the stack ended
        traced: Any = sorted((trace for trace in owners if hasattr(trace, "what")), key=lambda trace: trace.id)
        owner = traced[-1].what if traced else ""  # above the constants that can be errors.written to
        if name and owner:
            shown = [errors.short(x) for x in (*operands, *(names.get("params") or ()))]
            shown += [f"{k}={errors.short(x)}" for k, x in (names.get("kwargs") or {}).items()]
            hint = next((f"\n  {advice}" for word, advice in _ADVICE.items() if word in f"{name} {error}"), "")
            note(error, f"In {name}({', '.join(shown)}), under {owner}.{hint}")
            return


_PRODUCT = "The last axis of the first must be as long as the last but one (the only one, of a vector) of the second."
_ADVICE = {
    "matmul": _PRODUCT,
    "not aligned": _PRODUCT,
    "broadcast": "Shapes must agree axis by axis from the last, or be 1 there: x[:, None] adds an axis.",
    "zero-dimensional": "np.stack makes an array of numbers.",
    "Singular": "Add a small multiple of the identity, or use np.linalg.lstsq or pinv.",
}


def boundary(function: _F, complain: Callable[..., Any] | None = None) -> _F:
    """A function of ours that users call, whose errors are trimmed. For those that are called often `try` in the function costs less.

    `complain(error, args, kwargs)` may raise another error in the place of an AttributeError or TypeError, or give keywords to try instead.
    """
    return functools.wraps(function)(_trimming(function, complain))  # type: ignore[return-value]


def _trimming(function: Callable[..., Any], complain: Callable[..., Any] | None = None) -> Callable[..., Any]:
    def outermost(*args: Any, **kwargs: Any) -> Any:
        try:
            try:
                return function(*args, **kwargs)
            except (AttributeError, TypeError) as error:
                again = complain and complain(error, args, kwargs)
                if not again:
                    raise
            return function(*args, **again)
        except Exception as error:
            trim(error)
            raise

    return outermost


def usage(call: str, calls: str = "") -> Callable[[_F], _F]:
    """A `boundary` whose errors about arguments show how it is called, and how it `calls` the functions that it is given."""

    def misused(error: BaseException, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if "argument" in str(error) and not any(mine for _, mine in _links(error.__traceback__)):
            name = call.partition("(")[0]
            if str(error).startswith(f"{name}()"):
                raise errors.CallError(f"{error}.\n  At {user_line(3)}.\n  Write {call}.") from None
            if calls and not isinstance(error, errors.FunctraceError):
                note(error, f"{name} calls {calls}.")

    return lambda function: boundary(function, misused)


def transform(function: _F) -> _F:
    """A `boundary` for a transform of functions; the error for arguments that it does not take shows how it is used."""
    name = f"functrace.{function.__name__}"

    def misused(error: BaseException, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:  # the call did fit
            return
        from difflib import get_close_matches

        options = [k for k in function.__annotations__ if k not in ("f", "return")]
        if args and (near := [k for unknown in {*kwargs} - {*options} for k in get_close_matches(unknown, options, 1)]):
            remedy = f"Its options are {', '.join(options)}: write {near[0]}="
        elif args:
            remedy = f"Write {name}(f)(x), with the arguments in parentheses of their own, and options by name"
        else:
            given = "".join(f", {k}={v!r}" for k, v in kwargs.items())
            remedy = f"Above a function write @functools.partial({name}{given})" if given else f"Above a function write @{name}"
        told = str(error).partition(". Did you mean")[0]  # Python 3.13 guesses too
        raise errors.CallError(f"{told}.\n  At {user_line(3)}.\n  {remedy}.") from None

    return boundary(function, misused)


def check_call(call: str, *functions: Any, args: Any = None) -> None:
    """Refuse `functions` that can't be called, and empty `args` for them; `call` is how it should look, say "explain(f, *args)"."""
    what = call.partition("(")[0]
    for f in functions:
        if not callable(f):
            raise errors.CallError(
                f"{what}: {errors.describe(f)} stands where a function is expected.\n  At {user_line()}.\n  Write {call}."
            )
    if args is not None and not args:
        raise errors.CallError(f"{what}: there is no argument for the function.\n  At {user_line()}.\n  Write {call}.")


def wraps(wrapped: Any, what: str, **which: Any) -> Callable[[_Called], Callable[..., Any]]:
    """`functools.wraps` and `boundary` for what the transform `what` makes of `wrapped`, given as a function of `args` and `kwargs`.

    `which` is its option that names arguments.
    """
    if not callable(wrapped):
        raise errors.CallError(
            f"{what} is applied to a function, and was given {errors.describe(wrapped)}.\n  At {user_line()}.\n"
            f"  Write {what}(f)(x), not {what}(f(x))."
        )
    for option, given in which.items():
        if given is None or type(given) is int:
            continue
        parts = given.values() if isinstance(given, dict) else given if isinstance(given, (tuple, list)) else (given,)
        names = option == "argnums"
        if any(names and isinstance(x, float) or getattr(getattr(x, "dtype", None), "kind", None) in ("f", "c") for x in parts):
            raise (errors.ArgnumsError if names else errors.BatchError)(
                f"{what}({getattr(wrapped, '__name__', '')}): {option} says which arguments are meant, by ints, and was given "
                f"{errors.describe(given)}.\n  At {user_line()}.\n"
                f"  Write {what}(f)(x), not {what}(f, x){'; for names use argnames=' * names}."
            )

    def decorate(function: _Called) -> Callable[..., Any]:
        def trimming(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(args, kwargs)
            except Exception as error:
                trim(error)
                raise

        trimming.__name__ = type(wrapped).__name__  # of an object that has no name
        return functools.wraps(wrapped, updated=own_attributes(wrapped))(trimming)

    return decorate


def own_attributes(f: Any) -> tuple[str, ...]:
    """What `functools.wraps` is to copy of `f` beside its names: the attributes of a function, not the state of an object."""
    return functools.WRAPPER_UPDATES if isinstance(f, FunctionType) else ()


# The names of modules


def own_names(module: dict[str, Any]) -> Callable[[], list[str]]:
    """`__dir__` of the module with these globals: what it defines or lists in `__all__`, and not what else it imports.

    >>> from functrace import tree
    >>> "map" in dir(tree), "Callable" in dir(tree)
    (True, False)
    """

    def own(name: str, x: Any) -> bool:
        return name in module["__all__"] if "__all__" in module else str(getattr(x, "__module__", "")).startswith(module["__name__"])

    return lambda: [name for name, x in module.items() if name[:2] == "__" or name[0] != "_" and callable(x) and own(name, x)]


def renamed(module: str, instead: dict[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a module that says what names of other libraries are here. `instead` may have several of them in a string."""

    @boundary
    def missing(name: str) -> Any:
        there = next((f": use {ours}" for names, ours in instead.items() if name in names.split()), "")
        raise AttributeError(f"module {module!r} has no attribute {name!r}{there}", name=name, obj=sys.modules[module])

    return missing
