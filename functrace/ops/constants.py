"""Functions without a derivative: predicates, index functions, rounding. They work on traced values and give plain arrays.

Under `vmap` the result differs from example to example, and is traced as batched. Most are taken one example after another;
a result whose shape depends on the values (`nonzero`) can't be batched unless the shapes agree.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace import errors
from functrace.core.primitive import Primitive
from functrace.core.tracer import Tracer, value
from functrace.ops import index as _index
from functrace.ops import reduce as _reduce
from functrace.ops.create import dtype_of, lift
from functrace.ops.functions import kept, on_axis, picked, refuse
from functrace.ops.kinds import align, batch_by_loop, quick
from functrace.ops.out import store
from functrace.ops.protocol import FUNCTIONS
from functrace.ops.registry import Sample, each, given, implements, normal, on, one, reductions

_X = one(2, 3)
_GIVEN = np.array([[1.0, 2.0, 0.0], [0.0, -1.0, 5.0]])
_COUNTS = np.array([[1, 2, 0], [0, -1, 5]])  # integers: a batch of them has the same zeros


NAMED: dict[str, Primitive] = {}  # what `constant_op` made


def constant_op(name: str, fun: Callable[..., Any], *, elementwise: bool = False, multi: bool = False) -> Callable[..., Any]:
    """An op without a derivative, called as `op(*arrays, params=(...))`; `fun(*arrays, *params)` computes it."""

    def batch(size: int, flags: Any, args: Any, params: Any) -> Any:
        return op(*align(size, flags, args), params=params) if elementwise else batch_by_loop(primitive, size, flags, args, params)

    primitive = NAMED[name] = Primitive(name, fun, arity=None, constant=True, multi=multi, batch=batch)
    op = primitive.op = quick(primitive)
    return op


def _declare(numpy: Any, arity: int, samples: Sequence[Sample], *, elementwise: bool = False, multi: bool = False) -> None:
    """Declare one of NumPy's functions as a constant of its first `arity` arguments; the others must be plain."""
    name = numpy.__name__
    compute = np.trunc if numpy is np.fix else numpy  # which NumPy 2.5 deprecates

    @functools.cache
    def signature() -> Any:  # not at import: it takes long
        import inspect

        return inspect.signature(numpy)

    def fun(*args: Any) -> Any:
        return compute(*args[:arity], **dict(zip(list(signature().parameters)[arity:], args[arity:])))

    op = constant_op(name, fun, elementwise=elementwise, multi=multi)

    def function(*args: Any, **kwargs: Any) -> Any:
        passed = signature().bind(*args, **kwargs)
        passed.apply_defaults()
        out = passed.arguments.get("out")
        values = [None if key == "out" else v for key, v in passed.arguments.items()]
        if any(isinstance(p, Tracer) for p in values[arity:]):
            raise errors.UnsupportedError(f"{name}: only the first {arity} arguments may be traced.")
        result = op(*map(lift, values[:arity]), params=tuple(values[arity:]))
        return result if out is None else store(name, result, out, stretched=True)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`np.{name}`; its derivative is zero."
    implements(numpy, samples, name=name, constant=True)(function)


_PAIR = each((2, 3), (3,))
_SORTED = Sample(lambda rng: (np.array([-1.0, 0.0, 1.0]), rng.normal(size=(2, 3))), wrt=(0, 1))
_BINNED = Sample(lambda rng: (rng.normal(size=(2, 3)), np.array([-1.0, 0.0, 1.0])), wrt=(0,))

_function: Any
for _function in (np.iscomplex, np.isreal, np.isposinf, np.isneginf, np.fix):
    _declare(_function, 1, [_X, one()], elementwise=True)
_declare(np.isclose, 2, [_PAIR, each((2, 3), (2, 1), atol=0.5)], elementwise=True)
for _function in (np.allclose, np.array_equal, np.array_equiv):
    _declare(_function, 2, [_PAIR])
_declare(np.isin, 2, [_PAIR, given(_GIVEN, np.array([0.0, 5.0])), given(_GIVEN, np.array([0.0, 5.0]), invert=True)])
_declare(np.digitize, 2, [_BINNED, Sample(_BINNED.args, {"right": True})])
_declare(np.argpartition, 1, [given(_GIVEN, 1), given(_GIVEN, 1, axis=0), given(_GIVEN, 2, axis=None)])
_declare(np.argwhere, 1, [given(_COUNTS)])
_declare(np.flatnonzero, 1, [given(_COUNTS)])
_declare(np.nonzero, 1, [given(_COUNTS), given([0, 2])], multi=True)

_searchsorted = constant_op("searchsorted", lambda a, v, side: np.searchsorted(a, v, side))


@implements(
    np.searchsorted,
    [
        _SORTED,
        Sample(_SORTED.args, {"side": "right"}, (0, 1)),
        given([0.0, 1.0, 2.0], 1.5),
        Sample(lambda rng: (np.array([1.0, -1.0, 0.0]), rng.normal(size=(2, 3))), {"sorter": np.array([1, 2, 0])}, (0, 1)),
    ],
    constant=True,
)
def searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    """`np.searchsorted`; its derivative is zero."""
    a = lift(a) if sorter is None else np.take(lift(a), sorter, 0)
    return _searchsorted(a, lift(v), params=(side,))


lexsort_ = constant_op("lexsort", lambda keys, axis: np.lexsort(keys, axis=axis))


@implements(
    np.lexsort,
    [Sample(lambda rng: (rng.normal(size=(2, 3)),)), Sample(lambda rng: ([rng.normal(size=3), rng.normal(size=3)],))],
    constant=True,
)
def lexsort(keys: Any, axis: int = -1) -> Any:
    """`np.lexsort`; its derivative is zero."""
    return lexsort_(lift(keys), params=(axis,))


@implements(np.may_share_memory, [Sample(lambda rng: (rng.normal(size=3), np.zeros(3)), wrt=(0,))], constant=True)
def may_share_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    """`np.may_share_memory`: two traced values may, and a traced one never does with an array."""
    return isinstance(a, Tracer) and isinstance(b, Tracer) and a.size > 0 < b.size


_round = constant_op("round", np.round, elementwise=True)


@implements(np.round, [_X, one(2, 3, decimals=1), one()], constant=True)
def round_(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """`np.round`; its derivative is zero."""
    return _round(lift(a), params=(decimals,))


@implements(np.around, [_X, one(2, 3, decimals=1)], constant=True)
def around(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """`np.around`; its derivative is zero."""
    return round_(a, decimals)


_REDUCED = [*reductions(normal), one(), on(-1, where=np.arange(4) > 1)]


def _declare_logical(numpy: Any, op: Any, neutral: bool) -> None:
    def function(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True) -> Any:
        a = lift(a)
        if where is not True:
            a = _index.where(picked(where, a), a != 0, neutral)
        return op(a, axis, kept(keepdims))

    implements(numpy, _REDUCED, constant=True)(function)


_declare_logical(np.any, _reduce.any_, False)
_declare_logical(np.all, _reduce.all_, True)


@implements(np.count_nonzero, [given(_COUNTS), given(_COUNTS, axis=0), given(_COUNTS, axis=(0, 1), keepdims=True)], constant=True)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """`np.count_nonzero`; its derivative is zero."""
    return np.sum(lift(a) != 0, axis=axis, dtype=np.intp, keepdims=keepdims)


def _declare_place(numpy: Any, op: Any, *samples: Sample) -> None:
    def function(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
        a = lift(a)
        return op(a, None if not a.shape and axis in (0, -1) else axis, kept(keepdims))

    function.__doc__ = f"`np.{numpy.__name__}`; the first of ties."
    shared = [_X, on(0), on(-1, keepdims=True), on(None, keepdims=True), given([1.0, 3.0, 3.0])]
    implements(numpy, [*shared, *samples], constant=True)(function)


_declare_place(np.argmax, _reduce.argmax)
_declare_place(np.argmin, _reduce.argmin)
_declare_place(np.nanargmax, _reduce.nanargmax, given([1.0, np.nan, 3.0]))
_declare_place(np.nanargmin, _reduce.nanargmin, given([1.0, np.nan, 3.0]))


@implements(np.argsort, [_X, on(0), on(None), given([2.0, 1.0, 2.0, 1.0])], constant=True, note="always stable")
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None, descending: bool = False) -> Any:
    """`np.argsort`, and the array API's `descending`; always stable, whatever `kind`."""
    refuse("argsort", order=(order, None))
    if kind is not None or stable is not None:
        np.empty(0).sort(kind=kind, stable=stable)  # NumPy's errors
    a, axis = on_axis(a, axis, scalars=True)
    if descending:
        return a.shape[axis] - 1 - np.flip(argsort(np.flip(a, axis), axis), axis)
    return _reduce.argsort(a, axis)


@implements(np.iscomplexobj, [_X], constant=True)
def iscomplexobj(x: Any) -> bool:
    return bool(lift(x).dtype.kind == "c")


@implements(np.isrealobj, [_X], constant=True)
def isrealobj(x: Any) -> bool:
    return not iscomplexobj(x)


def _of_shape(function: Any) -> Any:
    return lambda arr, *args, **kwargs: function(np.empty(arr.shape, bool), *args, **kwargs)


def _of_value(function: Any) -> Any:
    return lambda a, *args, **kwargs: function(value(a), *args, **kwargs)


# What gives dtypes, index arrays of a shape, or text: nothing to differentiate, and nothing for the sweep to compare.
FUNCTIONS[np.result_type] = lambda *given: np.result_type(*map(dtype_of, given))
FUNCTIONS[np.common_type] = lambda *given: np.common_type(*(np.empty(0, a.dtype) if isinstance(a, Tracer) else a for a in given))
FUNCTIONS.update({f: _of_shape(f) for f in (np.tril_indices_from, np.triu_indices_from, np.diag_indices_from)})
FUNCTIONS.update({f: _of_value(f) for f in (np.array2string, np.array_repr, np.array_str, np.min_scalar_type)})
if hasattr(np, "in1d"):  # until NumPy 2.3
    FUNCTIONS[np.in1d] = lambda ar1, ar2, *args, **kwargs: np.isin(np.ravel(ar1), ar2, *args, **kwargs)  # noqa: NPY201
FUNCTIONS[np.einsum_path] = lambda *operands, **kwargs: np.einsum_path(
    *(np.empty(x.shape, bool) if isinstance(x, Tracer) else x for x in operands), **kwargs
)


@implements(np.can_cast, [Sample(lambda rng: (np.float32, np.float64), wrt=())], constant=True)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(dtype_of(from_), to, casting)
