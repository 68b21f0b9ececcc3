"""What the files of `functrace.scipy` share: how functions are declared and refused, dtypes, and what is linear along one axis."""

from __future__ import annotations

import fnmatch
import inspect
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from functrace import edge, errors
from functrace.core.reverse import fit
from functrace.ops.create import lift, number
from functrace.ops.functions import refuse
from functrace.ops.kinds import linear
from functrace.ops.registry import TABLE, Sample, holds_tracer, implements
from functrace.places import user_line
from functrace.scipy import refuse as refuse_names

Declarer = Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]


def declarer(module: Any) -> Declarer:
    """`implements` for the functions of a module of SciPy: `declared(name, *samples, note=...)`. Without tracers SciPy's own run."""

    def declared(name: str, *samples: Sample, **more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def enter(function: Callable[..., Any]) -> Callable[..., Any]:
            function.__name__, path = name, f"{module.__name__}.{name}"
            implements(getattr(module, name, None), samples, name=path, **more)(function)
            return TABLE[path].function

        return enter

    return declared


def taking(name: str, own: Any, function: Callable[..., Any], read: Any = None) -> Callable[..., Any]:
    """A function of the arguments of SciPy's that gives ours those that it takes, by SciPy's names, and where they were left out as SciPy
    has them. The others are refused, unless they are as SciPy has them or change no result. With `read` the first comes by position, as
    that makes it.
    """
    signature, known = inspect.signature(own), inspect.signature(function).parameters
    every = any(p.kind is p.VAR_KEYWORD for p in known.values())
    open_ended = [p.name for p in signature.parameters.values() if every and p.kind is p.VAR_KEYWORD]
    read_call = binding(name, signature, defaults=True)

    def call(*args: Any, **kwargs: Any) -> Any:
        given = read_call(args, kwargs)
        for k in open_ended:
            given |= given.pop(k)
        first = [read(given.pop(next(iter(given))))] if read else []
        taken = {k: given.pop(k) for k in [*given] if every or k in known}
        refuse(name, **{k: (v, signature.parameters[k].default) for k, v in given.items() if k not in _HARMLESS})
        return function(*first, **taken)

    call.__doc__, call.__signature__ = function.__doc__, signature  # type: ignore[attr-defined]
    return call


_HARMLESS = (  # the derivatives that a solver needs are found here
    "Dfun bc_jac fprime fprime2 fun_jac hess hessp jac check_finite complex_func disp overwrite_x sum_check workers x1"
).split()


def named(module: Any, name: str, *samples: Sample, read: Any = None, **more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`declarer` for a function that takes its arguments as `taking` gives them."""
    return lambda function: declarer(module)(name, *samples, **more)(taking(name, getattr(module, name), function, read))


def binding(name: str, signature: inspect.Signature, defaults: bool = False) -> Callable[[Any, Any], dict[str, Any]]:
    """What gives the arguments of a call by their names in SciPy's signature, and the defaults of the others: Python's own `bind`, but
    most calls without its fifteen microseconds.
    """
    known = signature.parameters
    plain = [p.name for p in known.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    usual = all(p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in known.values())
    needed = {p.name for p in known.values() if p.default is p.empty}

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        given = {**dict(zip(plain, args)), **kwargs}
        if usual and len(args) <= len(plain) and len(given) == len(args) + len(kwargs) and needed <= given.keys() <= known.keys():
            return {k: given.get(k, p.default) for k, p in known.items() if defaults or k in given}
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        if defaults:
            bound.apply_defaults()
        return bound.arguments

    return bind


def by_name(reasons: dict[str, str], among: Sequence[str] = ()) -> dict[str, str]:
    """Each name that is listed under a reason, and the reason; `*_zeros` is what of `among` ends so."""
    listed = [(word, reason) for reason, words in reasons.items() for word in words.split()]
    return {name: reason for word, reason in listed for name in (fnmatch.filter(among, word) if "*" in word else [word])}


def late(module: Any, refused: dict[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of our twin of SciPy's module: what is declared; what is refused, and why; SciPy's own else."""
    raising = refuse_names(module, refused)

    def find(name: str) -> Any:
        path = f"{module.__name__}.{name}"
        if path in TABLE:
            return TABLE[path].function
        try:
            return raising[name] if name in raising else getattr(module, name)
        except AttributeError as error:
            edge.trim(error)
            raise

    return find, lambda: sorted(name for name in dir(module) if not name.startswith("_"))


def double(x: Any) -> Any:
    """An array in double precision, as some functions use whatever they are given."""
    x = lift(x)
    return x if x.dtype in (np.float64, np.complex128) else x.astype(np.complex128 if x.dtype.kind == "c" else float)


def single(x: Any) -> Any:
    """An array, of which half precision becomes single."""
    x = lift(x)
    return x.astype(np.float32) if x.dtype == np.float16 else x


def one_of(keyword: str, given: Any, *known: Any) -> None:
    """Raise for a keyword's value that SciPy's function does not know."""
    if not any(given is k or type(given) is type(k) and given == k for k in known):
        raise ValueError(f"{keyword}={given!r} is none of {', '.join(map(repr, known))}.\n  At {user_line()}.")


def choice(keyword: str, given: Any, table: dict[Any, Any]) -> Any:
    """What a table says of a keyword's value; it raises for one that is not there."""
    if not isinstance(given, Hashable) or given not in table:
        raise ValueError(f"{keyword}={given!r} is none of {', '.join(map(repr, table))}.\n  At {user_line()}.")
    return table[given]


def real(x: Any, name: str = "scipy.stats") -> Any:
    """An array of float64; complex numbers are refused."""
    x = lift(x)
    if x.dtype.kind == "c":
        raise errors.InputTypeError(f"{name}: complex arguments ({errors.describe(x)}) are not supported.")
    return x if x.dtype == np.float64 else x.astype(float)


def with_axes(x: Any, *counts: int) -> Any:
    """An array that must have so many axes."""
    if x.ndim not in counts:
        raise ValueError(
            f"an array with {counts[0]} axes is wanted, got {errors.describe(x)}.\n  At {user_line()}.\n"
            "  Map over many with functrace.vmap."
        )
    return x


def matched(ours: Any, theirs: Any) -> Any:
    """Where in `ours` each of the numbers `theirs` is, none twice."""
    order: list[int] = []
    for x in theirs:
        distance = np.abs(ours - x)
        distance[order] = np.inf
        order.append(int(np.argmin(distance)))
    return np.array(order)


def root(x: Any) -> Any:
    """The square root, with derivative zero at 0."""
    zero = x == 0
    return number(np.where(zero, 0.0, np.sqrt(np.where(zero, 1.0, x))))


def _transposed_along(g: Any, _ans: Any, x: Any, axis: int, f: Any, adjoint: Any) -> Any:
    if adjoint is not None:
        return fit(_along(g, axis, adjoint, f), x)
    matrix = f(np.eye(x.shape[axis]), 0)
    return fit(np.moveaxis(np.tensordot(matrix, g, axes=(0, axis)), 0, axis), x)


_along: Any = linear(
    "scipy.along",
    lambda x, axis, f, _adjoint: f(x, axis),
    _transposed_along,
    batch="leading",  # axis is negative
)
Map = Callable[[Any, int], Any]


def along(x: Any, axis: int, f: Map, adjoint: Map | None = None) -> Any:
    """`f(x, axis)` for any code `f` that is linear along one axis, with the code of its transpose; without that it is that of the
    matrix of `f`, of a square of the length.
    """
    return _along(x, normalize_axis_index(axis, x.ndim) - x.ndim, f, adjoint)


def only_first(name: str, *others: Any, which: str = "the first argument") -> None:
    """Raise if what is a constant to the derivative of a function is traced."""
    if holds_tracer(others):
        raise errors.UnsupportedError(f"{name}: only {which} has a derivative rule in functrace.")


def linear_along(module: Any, name: str, *samples: Sample, adjoint: Callable[..., Map]) -> None:
    """Declare a function of SciPy that is linear in its first argument, along the axis `axis`; the others are constants, of which, and of
    the function and the length, `adjoint` makes the transpose.
    """
    own = getattr(module, name)

    def function(**given: Any) -> Any:
        (_, x), *others = given.items()
        rest = {k: False if k.startswith("overwrite") else v for k, v in others}  # what is recorded stays as it is
        axis = rest.pop("axis")
        only_first(name, *rest.values())
        x = lift(x)
        f: Map = lambda y, k: own(y, **rest, axis=k)
        return along(x, axis, f, adjoint(f, x.shape[axis], **rest))

    function.__doc__ = f"`{module.__name__}.{name}`, linear in its first argument."
    named(module, name, *samples)(function)


def sobol_steps(dimension: int, bits: int) -> Any:
    """The direction numbers of Sobol's points in each dimension, of which SciPy has the table."""
    from scipy.stats import qmc

    return qmc.Sobol(dimension, scramble=False, bits=bits)._sv.astype(np.int64)
