"""SciPy, differentiable: `from functrace.scipy import special`, or plain SciPy after `functrace.scipy.install()`.

SciPy's ufuncs (`scipy.special.gammaln`) find their derivatives on traced values by themselves. Its other functions turn their
arguments into plain arrays, which a traced value refuses; so call ours, which have the same names, or install them.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from functrace import edge, errors
from functrace.ops.protocol import UFUNCS
from functrace.ops.registry import TABLE, holds_tracer, plain_first

__all__ = ["install", "uninstall"]

if importlib.util.find_spec("scipy") is None:
    raise ModuleNotFoundError("functrace.scipy needs SciPy, which is not installed: pip install 'functrace[scipy]'", name="scipy")

_REFUSED: dict[str, tuple[Any, Callable[..., Any]]] = {}  # "scipy.special.lqn" -> SciPy's function, and ours, which raises
_PATCHED: list[tuple[Any, str, Any, bool]] = []  # owner, attribute, what it was, whether it was in the owner's own __dict__
_METHODS: dict[tuple[Any, ...], Callable[..., Any]] = {}  # a distribution's class, its name, one of its methods -> ours
_LOCK = threading.Lock()


@edge.boundary
def __getattr__(name: str) -> Any:
    if name in _known():
        return importlib.import_module(f"{__name__}.{name}")
    return edge.renamed(__name__, {"misc": "functrace.scipy.special"})(name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_known()])


def _known() -> list[str]:
    return [m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")]


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
        if isinstance(theirs, type):
            vars(ours).update({n: getattr(theirs, n) for n in dir(theirs) if not n.startswith("_")})
        else:  # SciPy needs its classes
            _REFUSED[f"{library.__name__}.{name}"] = theirs, ours
        if isinstance(theirs, np.ufunc):
            UFUNCS[theirs] = getattr(ours, "__wrapped__")  # noqa: B009
    return out


def _refusal(name: str, reason: str) -> Callable[..., NoReturn]:
    def function(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise errors.UnsupportedError(
            f"{name} has no derivative rule in functrace: {reason}.\n"
            "  Give it a rule with functrace.custom_vjp, or apply it to functrace.value(x)."
        )

    return function


def _replacements(names: tuple[str, ...]) -> Iterator[tuple[str, Any, Callable[..., Any]]]:
    """Where SciPy keeps a function, as a dotted name; the function; and ours."""
    for path, declared in list(TABLE.items()):
        theirs = declared.theirs
        if path.startswith("scipy.") and callable(theirs) and not isinstance(theirs, np.ufunc) and path.split(".")[1] in names:
            wrapped = hasattr(declared.function, "__wrapped__")
            yield path, theirs, declared.function if wrapped else plain_first(theirs, declared.function)
    for path, (theirs, ours) in _REFUSED.items():
        if path.split(".")[1] in names and not isinstance(theirs, np.ufunc):
            yield path, theirs, ours


_CLASSES = {"interpolate": "interpolate", "stats": "stats", "spatial": "spatial.transform"}


def _others(names: tuple[str, ...]) -> Iterator[tuple[Any, str, Any, Any]]:
    """What we have beside the functions of the table: interpolants, a density estimate, rotations. Module, name, SciPy's and ours."""
    for name in [_CLASSES[name] for name in names if name in _CLASSES]:
        module, own = importlib.import_module(f"{__name__}.{name}"), importlib.import_module(f"scipy.{name}")
        for attribute in own.__all__:
            theirs, ours = getattr(own, attribute, None), vars(module).get(attribute)
            covered = f"scipy.{name}.{attribute}" in TABLE or attribute in module.REFUSED or hasattr(theirs, "functrace")
            if not covered and callable(ours) and ours.__module__.startswith(__name__):
                yield own, attribute, theirs, ours


def _either(theirs: Any, ours: Any) -> Any:
    """A class of SciPy's, or a function that makes such an object, that makes ours of traced arguments."""

    def make(*args: Any, **kwargs: Any) -> Any:
        if holds_tracer([*args, *kwargs.values()]):
            return ours(*args, **kwargs)
        made = theirs(*args, **kwargs)
        if hasattr(made, "__dict__") and not hasattr(made, "functrace"):
            made.functrace = functools.partial(ours, *args, **kwargs)
            _put_frozen(type(made), "__call__")
        return made

    if not isinstance(theirs, type):
        make.functrace = True  # type: ignore[attr-defined]
        return functools.wraps(theirs)(make)
    meta: Any = type(theirs)

    class Either(meta):  # type: ignore[misc]  # a subclass in name, so that isinstance and attributes of the class are SciPy's
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            return make(*args, **kwargs) if cls is found else super().__call__(*args, **kwargs)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, (theirs, *kinds)) if cls is found else super().__instancecheck__(instance)

        def __subclasscheck__(cls, subclass: Any) -> bool:
            return issubclass(subclass, theirs) if cls is found else super().__subclasscheck__(subclass)

    def maker(name: str) -> Any:
        @functools.wraps(getattr(theirs, name))
        def call(cls: Any, *args: Any, **kwargs: Any) -> Any:
            traced = holds_tracer([*args, *kwargs.values()])
            return getattr(ours if traced else theirs if cls is found else super(found, cls), name)(*args, **kwargs)

        return classmethod(call)

    kinds = (ours,) if isinstance(ours, type) else ()
    makers = {n: maker(n) for n, m in vars(ours).items() if isinstance(m, classmethod) and hasattr(theirs, n)}
    found = Either(theirs.__name__, (theirs,), {"__module__": theirs.__module__, "__doc__": theirs.__doc__, "functrace": True, **makers})
    return found


def _put(owner: Any, attribute: str, ours: Any) -> None:
    """Set an attribute of a module or class, until `uninstall`."""
    _PATCHED.append((owner, attribute, vars(owner).get(attribute), attribute in vars(owner)))
    setattr(owner, attribute, ours)


def _key(distribution: Any, method: str) -> tuple[Any, ...]:
    return type(distribution), getattr(distribution, "name", None), method


def _put_method(distribution: Any, method: str, ours: Callable[..., Any]) -> None:
    """Change a method in the class of a distribution of SciPy's: so for whoever has imported it by name, and for what is frozen."""
    _METHODS[_key(distribution, method)] = ours
    owner = next(c for c in type(distribution).__mro__ if method in vars(c))
    theirs = vars(owner)[method]
    if hasattr(theirs, "functrace"):
        return

    @functools.wraps(theirs)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = _METHODS.get(_key(self, method))
        if found is not None and holds_tracer([*args, *kwargs.values()]):
            return found(*args, **kwargs)
        out = theirs(self, *args, **kwargs)
        if method == "__call__" and found is not None and hasattr(out, "_dist"):  # frozen, of vectors: it does not keep its parameters
            out.functrace = functools.partial(found, *args, **kwargs)
            for name in {name for owner, _, name in _METHODS if owner is type(self)} - {method}:
                _put_frozen(type(out), name)
        return out

    call.functrace = True  # type: ignore[attr-defined]
    _put(owner, method, call)


def _put_frozen(owner: Any, method: str) -> None:
    """Change a method in a class of objects that hold, as `functrace`, how to make ours: frozen distributions of vectors, interpolants."""
    owner = next((c for c in owner.__mro__ if method in vars(c)), owner)
    theirs = vars(owner).get(method)
    if theirs is None or hasattr(theirs, "functrace"):
        return

    @functools.wraps(theirs)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        ours = getattr(self, "functrace", None) if holds_tracer([*args, *kwargs.values()]) else None
        return getattr(ours(), method)(*args, **kwargs) if callable(ours) else theirs(self, *args, **kwargs)

    call.functrace = True  # type: ignore[attr-defined]
    _put(owner, method, call)


def install(*names: str) -> None:
    """Make SciPy's own functions take traced values: each calls ours if an argument is traced, and is itself otherwise.

    `names` are the subpackages to change ("special", "stats", ...), by default all that functrace knows. Distributions are changed
    wherever they are, frozen ones too. Functions that were imported by name (`from scipy.special import logsumexp`) before the call
    stay as they are: install first, or import them from `functrace.scipy`. Calling it again changes nothing; `uninstall` undoes it.

    >>> import functrace as ft, functrace.scipy, numpy as np, scipy.special, scipy.stats
    >>> functrace.scipy.install("special", "stats")
    >>> ft.grad(lambda x: scipy.special.logsumexp(x))(np.zeros(2))
    array([0.5, 0.5])
    >>> ft.grad(lambda m: scipy.stats.norm(m, 2.0).logpdf(1.0))(0.0)
    np.float64(0.25)
    >>> functrace.scipy.uninstall()
    """
    known = _known()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"functrace.scipy.install: {', '.join(map(str, unknown))} is not one of {', '.join(known)}")
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
            if owner is None:  # not in this version of SciPy
                continue
            if isinstance(owner, (type, ModuleType)):
                if getattr(owner, attribute, None) is theirs:
                    _put(owner, attribute, ours)
            else:
                _put_method(owner, attribute, ours)
                _put_method(owner, "__call__", getattr(importlib.import_module(f"{__name__}.stats"), parents[2]))
        for owner, attribute, theirs, ours in _others(names):
            _put(owner, attribute, _either(theirs, ours))
            if attribute == "Rotation" and theirs.__flags__ & 1 << 9:  # before SciPy 1.17 the class is C's, and can't be changed
                made: Callable[..., Any] = lambda r, ours=ours: functools.partial(ours.from_quat, r.as_quat())
                _put(theirs, "functrace", property(made))
                _put_frozen(theirs, "apply")


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
        _METHODS.clear()
