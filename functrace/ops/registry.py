"""The table of everything declared: what the sweep tests, the documentation lists and NumPy's protocols dispatch to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functrace import edge, errors
from functrace.core.primitive import Primitive
from functrace.core.tracer import Tracer
from functrace.ops.out import giving_out
from functrace.ops.protocol import FUNCTIONS, UFUNCS, load_late, stamp

Sampler = Callable[["np.random.Generator"], tuple[Any, ...]]  # a string: numpy.random is not imported before it is used


class Sample(NamedTuple):
    """One call to test: `args` made from a random generator, of which `wrt` are differentiated, and fixed keywords."""

    args: Sampler
    kwargs: dict[str, Any] = {}
    wrt: tuple[int, ...] = (0,)


class Declared(NamedTuple):
    """A function of the library: its name in `functrace.numpy`, NumPy's own function, and how to test it.

    `constant`: its derivative is zero almost everywhere, by definition. `note` says what a user should know, for the docs.
    """

    name: str
    function: Callable[..., Any]
    numpy: Any
    samples: tuple[Sample, ...]
    constant: bool = False
    domain: tuple[tuple[float, float], ...] | None = None
    primitive: Primitive | None = None
    note: str = ""

    @property
    def theirs(self) -> Any:
        """NumPy's own function, of several that mean the same the first."""
        return self.numpy[0] if isinstance(self.numpy, tuple) and self.numpy else self.numpy


TABLE: dict[str, Declared] = {}


def declare(declared: Declared) -> None:
    """Enter a function in the table, and make NumPy's protocols find it. What has no function of NumPy's may be declared anew."""
    if declared.name in TABLE and TABLE[declared.name].theirs is not None:
        raise errors.CallError(f"{declared.name!r} is declared already, for NumPy's function.\n  Choose another name.")
    TABLE[declared.name] = declared
    inner = getattr(declared.function, "__wrapped__", declared.function)  # the protocols come here with a traced value only
    for function in declared.numpy if isinstance(declared.numpy, tuple) else (declared.numpy,):
        if isinstance(function, np.ufunc):
            UFUNCS[function] = inner
        elif function is not None:
            FUNCTIONS[function] = inner


def found(name: str) -> Declared:
    """The declaration of this name; what is declared late is imported for it. Raises `KeyError` if there is none."""
    if name not in TABLE:
        load_late()
    return TABLE[name]


@functools.cache
def traced(name: str) -> Callable[..., Any]:
    """What NumPy's function of this name is where an argument is traced."""
    function = found(name).function
    return getattr(function, "__wrapped__", function)


def sought(name: str, theirs: Any) -> Declared | None:
    """The declaration of this name for NumPy's function `theirs`, if there is one; nothing is imported for constants and classes."""
    if name not in TABLE and (theirs is None or callable(theirs) and not isinstance(theirs, type)):
        load_late()
    return TABLE.get(name)


def rules(op: str | Callable[..., Any]) -> Primitive:
    """The primitive behind an op, or the op's name: `fun(*arrays, *params)`, and in `vjps[k](g, ans, *arrays, *params)` the
    pullback of argument k, for those who differentiate one op at a time. Raises `TypeError` for a function made of several ops.
    """
    function = found(op).function if isinstance(op, str) else op
    primitive = getattr(getattr(function, "__wrapped__", function), "primitive", None)
    if primitive is None:
        raise TypeError(f"{op!r} is made of several ops, and has no rules of its own: use functrace.vjp")
    return primitive  # type: ignore[no-any-return]


def normal(*shapes: tuple[int, ...]) -> Sampler:
    """Arguments of these shapes, drawn from the normal distribution."""
    return lambda rng: tuple(rng.normal(size=shape) for shape in shapes)


def one(*shape: int, **kwargs: Any) -> Sample:
    """A call with one array of this shape, drawn from the normal distribution, and keywords."""
    return Sample(normal(shape), kwargs)


def each(*shapes: tuple[int, ...], **kwargs: Any) -> Sample:
    """A call with arrays of these shapes, differentiated in each."""
    return Sample(normal(*shapes), kwargs, tuple(range(len(shapes))))


def on(axis: Any, sampler: Callable[..., Sampler] = normal, **kwargs: Any) -> Sample:
    """A call with one array of three axes, and `axis`."""
    return Sample(sampler((2, 3, 4)), {"axis": axis, **kwargs})


def reductions(sampler: Callable[..., Sampler]) -> list[Sample]:
    """Calls of a reduction in all its forms."""
    over = [on(0, sampler), on((0, 2), sampler), *(on(axis, sampler, keepdims=True) for axis in (-1, (-1, 0), None))]
    return [Sample(sampler((2, 3))), *over]


def given(array: Any, *rest: Any, **kwargs: Any) -> Sample:
    """A call with this array, and what follows it."""
    return Sample(lambda _rng: (np.array(array), *rest), kwargs)


def apart(*shapes: tuple[int, ...]) -> Sampler:
    """Arguments of these shapes, in random order but well apart: for what has kinks at ties."""
    sizes = [int(np.prod(shape)) for shape in shapes]
    return lambda rng: tuple(rng.permutation(0.3 * np.arange(n) + 0.1 * rng.random(n) - 0.71).reshape(s) for n, s in zip(sizes, shapes))


def holds_tracer(x: Any) -> bool:
    """Whether a list or tuple has a traced value somewhere inside."""
    todo = [x]
    while todo:
        for item in todo.pop():
            if isinstance(item, Tracer):
                return True
            if isinstance(item, (list, tuple)):
                todo.append(item)
    return False


def plain_first(numpy: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, but NumPy's own where nothing is traced: its speed, its results and its exceptions."""

    def call(*args: Any, **kwargs: Any) -> Any:
        for a in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(a, Tracer) or isinstance(a, (list, tuple)) and holds_tracer(a):
                return stamp(function(*args, **kwargs))
        try:
            return numpy(*args, **kwargs)
        except Exception as error:
            edge.trim(error)
            raise

    call.__name__, call.__qualname__ = function.__name__, function.__qualname__  # functools.wraps, in a quarter of its time
    call.__module__, call.__doc__, call.__wrapped__ = function.__module__, function.__doc__, function  # type: ignore[attr-defined]
    return call


def implements(
    numpy: Any, samples: Sequence[Sample] = (), *, name: str | None = None, constant: bool = False, note: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a Python function as the implementation of NumPy's `numpy` (a function, a tuple of synonyms, or None).

    Written in declared ops it needs no rules of its own. It takes NumPy's arguments; one that it does not honour must raise,
    but for `out`, which is dealt with here. If it has no docstring it gets one, NumPy's name.
    It is called only if an argument is traced, or holds a traced value in a list.
    """

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        own = numpy[0] if isinstance(numpy, tuple) and numpy else numpy
        prefix = {"numpy": "", "numpy.linalg": "linalg."}.get(getattr(own, "__module__", None) or "")
        title = name or (function.__name__ if prefix is None else prefix + own.__name__)
        function.__qualname__ = title  # what Python's errors about arguments call it
        function.__doc__ = function.__doc__ or f"`{title if title.startswith('scipy.') else f'np.{title}'}`."
        traced = giving_out(title, function)
        public = plain_first(own, traced) if callable(own) else traced
        declare(Declared(title, public, numpy, tuple(samples), constant, note=note))
        return function

    return enter
