"""The hot path: what `bind` and `TapeTrace.process` do, written out for ops of one argument, of two, and of several.

Nothing here says anything new. An eager gradient spends its time in these functions, so those of one and two arguments have no loop,
no tuple of flags and no second call; whatever is not the plain case goes to `bind`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from sys import _getframe
from typing import Any

import numpy as np

from functrace import edge, errors
from functrace.core.primitive import BINARY, INPLACE, LARGE, LINEAR, UNARY, Primitive, bind, lean
from functrace.core.tracer import BatchTracer, TapeTracer, Tracer, bare
from functrace.operands import asked
from functrace.places import is_user_file, outside
from functrace.pool import recycled

SCALARS = frozenset((float, int, np.float64, np.float32))
PYTHONS: dict[Any, Callable[[Any, Any], Any]] = {  # what takes a tenth of the time of a ufunc for two of those, NumPy's among them
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.divide: operator.truediv,
}
NUMBERS = frozenset((float, int, complex, bool, np.float64, np.float32))


def raised(x: Any, ndim: int) -> Any:
    """A batched value with axes of length 1 put after the batch."""
    shape = x.shape
    return x.reshape((shape[0], *(1,) * (ndim - len(shape)), *shape[1:]))


def _below(x: Any, batched: BatchTracer) -> bool:
    """Whether `x` is the same for all examples of a batch, and broadcasts against one of them without new axes."""
    if isinstance(x, Tracer):
        if not 0 < x.owner.id < batched.owner.id:  # 0: an array that is written to, whose operations are NumPy's
            return False
    elif type(x) in NUMBERS:
        return not batched.owner.closed
    elif type(x) is not np.ndarray and not isinstance(x, np.generic):
        return False
    return len(x.shape) < len(batched.below.shape) and not batched.owner.closed


def _asked(y: Any, x: Any) -> bool:
    """Whether Python asks `y` what `x * y` is: beside arrays only if its class says so, since NumPy asks it for each element."""
    said = not x.shape or hasattr(y, "__array_ufunc__") or getattr(y, "__array_priority__", 0) > 0
    return said and not isinstance(y, Tracer) and asked(y)


def _unary(primitive: Primitive, elementwise: bool, depth: int = 1) -> Callable[..., Any]:
    """The op of one argument, for a caller that is called `depth` frames below the user's line."""
    fun = primitive.fun
    ufunc = isinstance(fun, np.ufunc)  # which finds the way through tracers by itself
    of_x = primitive.needed((0,))  # what the rules look into

    def unary(x: Any) -> Any:
        try:
            if type(x) is TapeTracer:
                trace, v = x.owner, x.below
                ans, args, slots = fun(v) if ufunc or not isinstance(v, Tracer) else unary(v), (v,), (x.slot,)
                kept = ans
                if ans.size > LARGE or type(ans) is BatchTracer and bare(ans).size > LARGE:
                    ans = recycled(ans)
                    args, kept = lean(of_x, args, ans)
                slot = trace.next_slot()
                trace.append((primitive, slot, slots, args, kept, ()))
                frame = _getframe(depth)
                return TapeTracer(ans, trace, slot, frame.f_code, frame.f_lasti)
            if elementwise and type(x) is BatchTracer and not x.owner.closed:
                try:
                    return x.owner.tracer(unary(x.below), depth + 1)
                except errors.OF_VALUES:  # of some examples: `bind` finds them
                    pass
            return bind(primitive, (x,), ()) if isinstance(x, Tracer) else fun(x)
        except errors.LeakedTracerError as error:
            edge.trim(error)
            raise

    return unary


def _with_params(primitive: Primitive, depth: int) -> Callable[..., Any]:
    """The op of one argument, and of parameters."""
    fun, needed = primitive.fun, primitive.needed((0,))
    limit = LINEAR if primitive.inplace else LARGE  # an array that is read bit by bit may be written to bit by bit

    def unary_with_params(x: Any, *params: Any) -> Any:
        try:
            if type(x) is TapeTracer:
                trace, v = x.owner, x.below
                ans, args, slots = unary_with_params(v, *params) if isinstance(v, Tracer) else fun(v, *params), (v,), (x.slot,)
                kept = ans
                if v.size > limit or type(v) is BatchTracer and bare(v).size > limit:
                    ans = recycled(ans)
                    args, kept = lean(needed, args, ans)
                slot = trace.next_slot()
                trace.append((primitive, slot, slots, args, kept, params))
                frame = _getframe(depth)
                if not is_user_file[frame.f_code.co_filename]:  # a reduction or an index: a method, or a function of several ops
                    frame = outside(frame.f_back) or frame
                return TapeTracer(ans, trace, slot, frame.f_code, frame.f_lasti)
            return bind(primitive, (x,), params) if isinstance(x, Tracer) else fun(x, *params)
        except errors.LeakedTracerError as error:
            edge.trim(error)
            raise

    return unary_with_params


def _binary(primitive: Primitive, elementwise: bool, squared: Primitive | None, depth: int) -> Callable[..., Any]:
    """The op of two arguments."""
    fun = primitive.fun
    ufunc = isinstance(fun, np.ufunc)
    python = PYTHONS.get(fun)
    of_both, of_x, of_y = map(primitive.needed, ((0, 0), (0, -1), (-1, 0)))
    square = _unary(squared, elementwise, depth + 1) if squared else None

    def binary(x: Any, y: Any) -> Any:
        try:
            if type(x) is TapeTracer:
                trace, a = x.owner, x.below
                if type(y) is TapeTracer:
                    if y is x and square is not None:
                        return square(x)
                    if y.owner is trace:
                        b, slots, needed = y.below, (x.slot, y.slot), of_both
                    elif 0 < y.owner.id < trace.id:  # the newer trace takes the other's value for a constant
                        b, slots, needed = y.kept(), (x.slot, -1), of_x
                    elif 0 < trace.id < y.owner.id:
                        trace, a, b, slots, needed = y.owner, x.kept(), y.below, (-1, y.slot), of_y
                    else:
                        return bind(primitive, (x, y), ())
                elif isinstance(y, Tracer):
                    return bind(primitive, (x, y), ())
                elif type(y) in NUMBERS:
                    b, slots, needed = y, (x.slot, -1), of_x
                else:
                    b, slots, needed = trace.constant(y, of_x[-1]), (x.slot, -1), of_x
                    if b is y and _asked(y, x):
                        return NotImplemented
                    if type(b) is np.ndarray and b.size > LARGE:
                        b = recycled(b)
            elif type(y) is TapeTracer and not isinstance(x, Tracer):
                trace, b, slots, needed = y.owner, y.below, (-1, y.slot), of_y
                a = x if type(x) in NUMBERS else trace.constant(x, of_y[1])
                if type(a) is np.ndarray and a.size > LARGE:
                    a = recycled(a)
            else:
                try:
                    if elementwise and type(x) is BatchTracer:
                        if type(y) is BatchTracer and y.owner is x.owner:
                            if not x.owner.closed:
                                a, b = x.below, y.below
                                m, n = len(a.shape), len(b.shape)
                                return x.owner.tracer(binary(a if m >= n else raised(a, n), b if m <= n else raised(b, m)), depth + 1)
                        elif _below(y, x):
                            return x.owner.tracer(binary(x.below, y), depth + 1)
                    if elementwise and type(y) is BatchTracer and _below(x, y):
                        return y.owner.tracer(binary(x, y.below), depth + 1)
                except errors.OF_VALUES:
                    pass
                return NotImplemented if isinstance(x, Tracer) and _asked(y, x) else bind(primitive, (x, y), ())
            if type(a) in SCALARS and type(b) in SCALARS and python is not None:
                ans = python(a, b)
            else:
                ans = fun(a, b) if ufunc or not (isinstance(a, Tracer) or isinstance(b, Tracer)) else binary(a, b)
            args = (a, b)
            kept = ans
            if ans.size > LARGE or type(ans) is BatchTracer and bare(ans).size > LARGE:
                ans = recycled(ans)
                args, kept = lean(needed, args, ans)
            slot = trace.next_slot()
            trace.append((primitive, slot, slots, args, kept, ()))
            frame = _getframe(depth)
            return TapeTracer(ans, trace, slot, frame.f_code, frame.f_lasti)
        except errors.LeakedTracerError as error:
            edge.trim(error)
            raise

    return binary


def _several(primitive: Primitive) -> Callable[..., Any]:
    """The op of any number of arguments: of one trace, or constants."""
    fun, arity, multi = primitive.fun, primitive.arity, primitive.multi
    limit = LINEAR if primitive.linear is True else LARGE

    def several(*args: Any, params: tuple[Any, ...] = ()) -> Any:
        if arity is not None:
            args, params = args[:arity], args[arity:]
        trace, slots, values = None, [], []
        for x in args:
            if type(x) is TapeTracer and not isinstance(x.below, Tracer) and (trace is None or x.owner is trace):
                trace = x.owner
                slots.append(x.slot)
                values.append(x.below)
            elif isinstance(x, Tracer):
                return bind(primitive, args, params)
            else:
                slots.append(-1)
                values.append(x)
        if trace is None or trace.closed:
            return bind(primitive, args, params)
        places = tuple(slots)
        if -1 in slots:
            needed = primitive.needed(places)
            values = [x if i >= 0 else trace.constant(x, keep) for x, i, keep in zip(values, places, needed[1:])]
        ans = fun(*values, *params)
        if multi or ans.size > limit:
            return trace.record(primitive, places, tuple(values), ans, params)
        slot = trace.next_slot()
        trace.append((primitive, slot, places, tuple(values), ans, params))
        frame = _getframe(1)
        if not is_user_file[frame.f_code.co_filename]:
            frame = outside(frame.f_back) or frame
        return TapeTracer(ans, trace, slot, frame.f_code, frame.f_lasti)

    return several


def fast(primitive: Primitive, params: bool, elementwise: bool = False, squared: Primitive | None = None) -> Callable[..., Any]:
    """The function that users call; `params` says whether the op has any. Elementwise ops pass through a batch as they are.

    `squared` is the op of one argument that this one of two is where both are the same. The attribute `deeper` makes what `within` gives.
    """
    op = _fast(primitive, params, elementwise, squared, 1)
    if op is None:
        if not primitive.constant:
            primitive.op = several = _several(primitive)
            several.primitive = primitive  # type: ignore[attr-defined]
        return primitive.op
    op.deeper = functools.partial(_fast, primitive, params, elementwise, squared, 2)  # type: ignore[attr-defined]
    primitive.op = op
    return op


def within(op: Callable[..., Any]) -> Callable[..., Any]:
    """The op for a function of ours that users call: they are told their own line, not ours."""
    return op.deeper() if hasattr(op, "deeper") else op


def _fast(primitive: Primitive, params: bool, elementwise: bool, squared: Primitive | None, depth: int) -> Callable[..., Any] | None:
    if primitive.kind == UNARY and not params:
        op = _unary(primitive, elementwise, depth)
    elif primitive.kind in (UNARY, INPLACE) and primitive.arity == 1:
        op = _with_params(primitive, depth)
    elif primitive.kind in (BINARY, INPLACE) and not params:
        op = _binary(primitive, elementwise, squared, depth)
    else:
        return None
    op.__name__ = op.__qualname__ = primitive.name
    op.primitive = primitive  # type: ignore[attr-defined]
    return op
