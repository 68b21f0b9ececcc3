"""One door for all operations: compute with NumPy, wrap, and record a node if a gradient can flow.

`call` applies a row of the binding table to tensors. `unary` and `binary` make of a row the function that users call, with the
common case written out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.torch import _dtypes, _modes
from functrace.torch._contact import HALF, Primitive, Tracer, batched, bind, fit, jvp_from_vjp, looks, trim
from functrace.torch._dtypes import F32, F64
from functrace.torch._engine import next_number
from functrace.torch._layout import upright
from functrace.torch._limits import LIMITS, refuse
from functrace.torch._modes import recording
from functrace.torch._nodes import LARGE, NUMBERS, Like, Op, pull_node, record
from functrace.torch._tensor import Tensor, new, owned, settled, wrap
from functrace.torch._views import bad_argument, beside, mismatch, view_of, viewed, written_to


def call(op: Op, inputs: Sequence[Any], params: tuple[Any, ...] = (), sources: Sequence[Any] = ()) -> Any:
    """Apply a row to tensors (or arrays and numbers) and parameters; `sources` are tensors that parameters were read from."""
    if op.view and not op.many:
        x = inputs[0]
        a = x._a
        if a.__class__ is np.ndarray:
            return viewed(op, x, (a,), op.fun(a, *params), params, bool(x._rg and recording()))
    for p in params:
        if isinstance(p, np.generic):  # a number, though to NumPy one of a dtype that counts
            params = tuple(p.item() if isinstance(p, np.generic) else p for p in params)
            break
    arrays: list[Any] = []
    grad = traced = False
    for t in inputs:
        if isinstance(t, Tensor):
            a = t._a
            grad = grad or t._rg
        else:
            a = t
        if a.__class__ is not np.ndarray and a is not None:
            traced = traced or _traced((a,))
        arrays.append(a)
    grad = grad and bool(recording())
    if grad and op.rules is None:
        which = [k for k, t in enumerate(inputs) if isinstance(t, Tensor) and t._rg]
        fun = op.fun

        def whole(*xs: Any) -> tuple[Any, ...]:
            out = fun(*xs, *params)
            return out if op.many else (out,)

        results = pull_node(op, op.node, whole, inputs, arrays, which)
        return results if op.many else results[0]
    ruled = traced and op.rules and not op.view and not _traced(params)  # a view is one of functrace too, so that writes pass
    ans = bind(_primitive(op), tuple(arrays), params) if ruled else op.fun(*arrays, *params)
    if op.many:
        return _several(op, inputs, arrays, ans, params, grad)
    if type(ans) is not np.ndarray:
        ans = settled(ans)
    if op.view:
        return viewed(op, inputs[0], arrays, ans, params, grad)
    t = new(Tensor)
    t._a = ans = owned(ans, arrays, op.lies)
    cell = t._ver = [0]
    if grad and ans.dtype.kind in "fc":
        t._rg = True
        t._edge = (record(op, inputs, arrays, ans, params, cell, sources), 0)
    else:
        t._rg = False
        if _modes.depth:
            _modes.mark(t)
    return t


def step(op: Op, x: Any, *params: Any, made: Any = None) -> Any:
    """Apply a row as a step of another operation: no view is made, though memory may be shared, since users see only one of the two.

    `made` is the result in memory of its own, if it is known already.
    """
    a = x._a
    if a.__class__ is not np.ndarray:
        return call(op, (x,), params)
    t = new(Tensor)
    t._a = ans = op.fun(a, *params) if made is None else made
    cell = t._ver = x._ver if made is None else [0]
    t._rg = False
    if x._rg and recording():
        t._rg, t._edge = True, (record(op, (x,), (a,), ans, params, cell), 0)
    return t


def _traced(arrays: Sequence[Any]) -> bool:
    return any(isinstance(a, Tracer) or isinstance(a, tuple) and _traced(a) for a in arrays)


@functools.cache
def _primitive(op: Op) -> Primitive:
    """A row as a primitive of functrace, so that traced values, as in `torch.func`, get PyTorch's derivatives."""

    def cotangent(rule: Any, k: int) -> Any:
        def vjp(g: Any, ans: Any, *rest: Any) -> Any:
            if op.many:
                g = tuple(np.zeros(a.shape, a.dtype) if d is None else d for d, a in zip(g, ans))
            return fit(rule(g, ans, *rest), rest[k])

        vjp.saves = looks(rule, n)  # type: ignore[attr-defined]
        return vjp

    def tangent(vjp: Any) -> Any:
        transposed = jvp_from_vjp(vjp)

        def jvp(t: Any, ans: Any, *rest: Any) -> Any:
            out = transposed(t, ans, *rest)
            return np.zeros(ans.shape, ans.dtype) if out is None else out

        jvp.saves = vjp.saves  # type: ignore[attr-defined]
        return jvp

    rules: Any = op.rules
    n = len(rules)
    vjps = [rule and cotangent(rule, k) for k, rule in enumerate(rules)]
    jvps = [rule and tangent(rule) for rule in vjps]

    def batch(size: int, flags: Sequence[bool], args: Sequence[Any], params: tuple[Any, ...]) -> Any:
        def one(*xs: Any) -> Sequence[Any]:
            out = op.fun(*xs, *params)
            return out if op.many else [out]

        found = tuple(a for a, _ in batched(one, args, flags, size, op.name))
        return found if op.many else found[0]

    return Primitive(op.name, op.fun, arity=n, vjps=vjps, jvps=jvps, batch=batch, multi=op.many)


def _several(
    op: Op, inputs: Sequence[Any], arrays: Sequence[Any], ans: Sequence[Any], params: tuple[Any, ...], grad: bool
) -> tuple[Any, ...]:
    cell = [0]
    base = inputs[0]
    if op.view:
        tensors = [view_of(base, a, None, (*base._chain, _picking(op.fun, params, k))) for k, a in enumerate(ans)]
        for t in tensors:
            t._origin = t._origin or "multi"
    else:
        tensors = [wrap(owned(a, arrays, op.lies)) for a in ans]
    floating = [k for k, a in enumerate(ans) if a.dtype.kind in "fc"] if grad else ()
    if floating:
        answers = tuple([t._a for t in tensors])
        indices = [t for t in tensors if t._a.dtype.kind not in "fc"]  # what rules look into, where there are any
        node = record(op, inputs, arrays, answers, params, indices[0]._ver if indices else cell)
        if len(answers) > 1:
            node.outputs = len(answers)
        for k in floating:
            if op.view:
                tensors[k]._made, tensors[k]._rg = (node, k), True
            else:
                tensors[k]._rg, tensors[k]._edge, tensors[k]._ver = True, (node, k), cell
    return tuple(tensors)


def with_transpose(op: Op) -> Op:
    """A row of a function that is linear in its one argument. Its gradient is a row too, whose own gradient is the function again."""
    fun, (rule,) = op.fun, op.rules  # type: ignore[misc]
    back = Op(
        op.second[0],
        lambda g, like, *params: rule(g, None, like, *params),  # type: ignore[misc]
        [lambda h, _r, _g, _like, *params: fun(h, *params)],
        frees=False,
        lies=upright,
    )
    op.again = [lambda g, _r, x, *params: call(back, (g,), (Like(getattr(x, "_a", x)), *params))]
    back.again = [lambda h, _r, _g, _like, *params: call(op, (h,), params)]
    return op


def gradient_row(op: Op, *rules: Callable[..., Any]) -> Callable[..., Any]:
    """Make the gradient of a row of one argument a row too, with these rules: of `g` and of `a`, the result or the argument, of which it
    looks into one. It is returned as an operation of tensors, whose `op` it is.
    """
    (rule,), ((by_result, _),) = op.rules, op.looks  # type: ignore[misc]

    def fun(g: Any, a: Any, *params: Any) -> Any:
        return rule(g, a, None, *params) if by_result else rule(g, None, a, *params)  # type: ignore[misc]

    back = Op(op.second[0], fun, rules)
    quick = binary(op.name, back)

    def apply(g: Any, a: Any, *params: Any) -> Any:
        return call(back, (g, a), params) if params else quick(g, a)

    op.again = [lambda g, r, x, *params: apply(g, r if by_result else x, *params)]
    apply.op = back  # type: ignore[attr-defined]
    return apply


def with_gradient(op: Op, slope: Callable[..., Any] | None = None, algebra: bool = False) -> None:
    """Make the gradient of an elementwise row of one argument a row too.

    It is `g` times a factor that depends on the result or the argument, `a`; `slope(a, *params)` is the factor's own, None where that is 0.
    With `algebra` the slope is made of operators, and is that of tensors too.
    """

    def bent(h: Any, _r: Any, g: Any, a: Any, *params: Any) -> Any:
        return h * g * slope(a, *params)  # type: ignore[misc]

    def flat(h: Any, _r: Any, _g: Any, _a: Any, *_params: Any) -> Any:
        return np.zeros(h.shape, h.dtype)

    apply: Any = gradient_row(op, lambda h, _r, _g, a, *params: apply.op.fun(h, a, *params), bent if slope else flat)
    apply.op.again = [
        lambda h, _r, _g, a, *params: apply(h, a, *params),
        (bent if algebra else None) if slope else lambda h, _r, _g, _a, *_params: wrap(np.zeros_like(h._a)),
    ]


def _picking(fun: Callable[..., Any], params: tuple[Any, ...], k: int) -> Callable[[Any], Any]:
    return lambda a: fun(a, *params)[k]


def unary(name: str, op: Op, floating: bool = True) -> Callable[..., Any]:
    """The function of an elementwise row of one argument. `floating`: integers are first cast to the default dtype."""
    fun, seen = op.fun, op.looks[0]
    saves_x, saves_r = seen[1], seen[0]
    cls: Any = None

    def general(x: Any) -> Any:
        if not isinstance(x, Tensor):
            raise bad_argument(name, "input", 1, x)
        if name in LIMITS:
            refuse(name, x._a.dtype)
        if floating and x._a.dtype.kind in "biu":
            return wrap(fun(x._a.astype(_dtypes.get_default_dtype().np)))
        return call(op, (x,))

    def function(input: Any, *, out: Any = None) -> Any:
        nonlocal cls
        try:
            if input.__class__ is not Tensor or out is not None:
                return general(input) if out is None else written_to(name, out, general(input))
            a = input._a
            d = a.dtype
            if (d is not F32 and d is not F64) or (a.__class__ is not np.ndarray and isinstance(a, Tracer)):
                return general(input)
            r = fun(a)
            if r.dtype is not d:
                return general(input)
            if r.__class__ is not np.ndarray:
                r = np.asarray(r)
            t = new(Tensor)
            t._a = r
            cell = t._ver = [0]
            if input._rg and recording():
                if cls is None:
                    cls = op.node
                node = new(cls)
                node.edges = (input._edge,)
                node.number = next_number()
                if saves_x:
                    version = input._ver
                    checks: Any = ((version, version[0], 0),)
                    node.saved = (a,), r, (), (*checks, (cell, 0, -1)) if saves_r else checks
                elif saves_r:
                    node.saved = (a if a.size <= LARGE else Like(a),), r, (), ((cell, 0, -1),)
                else:
                    node.saved = (a if a.size <= LARGE else Like(a),), r if r.size <= LARGE else Like(r), (), ()
                t._rg = True
                t._edge = (node, 0)
            else:
                t._rg = False
                if _modes.depth:
                    _modes.mark(t)
            return t
        except Exception as error:
            trim(error)
            raise

    function.__name__ = function.__qualname__ = name
    function.limits = True  # type: ignore[attr-defined]
    return function


def promoted(op: Op, x: Any, y: Any, floating: bool = False, name: str = "", params: tuple[Any, ...] = ()) -> Any:
    """Apply a row of two arguments under PyTorch's type promotion. `floating`: integers give the default dtype."""
    d = _dtypes.result_type(x, y)
    if name in LIMITS:
        refuse(name, d.np)
    if floating and d.category < _dtypes.FLOAT:
        d = _dtypes.get_default_dtype()
    fun, target = op.fun, d.np

    def cast(a: Any) -> Any:
        if not hasattr(a, "ndim") or isinstance(a, np.generic):
            return _dtypes.wrapped(a, target)
        return a if a.dtype == target or target == HALF and not a.ndim else a.astype(target)

    arrays = beside([t._a if isinstance(t, Tensor) else t for t in (x, y)], target)
    try:
        given = [cast(a) for a in arrays]
        ans = bind(_primitive(op), tuple(given), params) if _traced(given) else np.asarray(fun(*given, *params))
        ans = ans.astype(HALF) if target == HALF and ans.dtype.kind == "f" else ans
    except ValueError:
        raise (mismatch(*arrays) or RuntimeError(f"{op.name}: shapes do not fit")) from None
    t = wrap(ans)
    if recording() and (getattr(x, "_rg", False) or getattr(y, "_rg", False)) and ans.dtype.kind in "fc":
        t._rg, t._edge = True, (record(op, (x, y), arrays, ans, params, t._ver), 0)
    return t


def binary(name: str, op: Op, floating: bool = False) -> Callable[..., Any]:
    """The function of an elementwise row of two arguments, tensors or numbers."""
    fun, cls = op.fun, None
    # What is saved, of x, y and the result, when only the first, only the second, or both arguments need a gradient.
    wants = [[any(row[k] for j, row in enumerate(op.looks) if case >> j & 1) for k in (1, 2, 0)] for case in range(4)]

    def general(x: Any, y: Any) -> Any:
        return promoted(op, x, y, floating, name)

    def function(input: Any, other: Any) -> Any:
        nonlocal cls
        try:
            try:
                a = input._a
            except AttributeError:  # a number
                return general(input, other)
            if a.__class__ is not np.ndarray:
                return general(input, other)
            if other.__class__ is Tensor or isinstance(other, Tensor):
                b = other._a
                if a.dtype is not b.dtype or b.__class__ is not np.ndarray:
                    return general(input, other)
                rg = other._rg
            elif other.__class__ in NUMBERS:
                if a.dtype is HALF:
                    return general(input, other)
                b, rg = other, False
            elif isinstance(other, np.generic):
                return general(input, other.item())
            else:
                return NotImplemented
            try:
                r = fun(a, b)
            except (ValueError, TypeError, OverflowError):
                return general(input, other)
            if (r.dtype is not F32 and r.dtype is not F64) or r.dtype is not a.dtype:
                return general(input, other)
            if r.__class__ is not np.ndarray:
                r = np.asarray(r)
            t = new(Tensor)
            t._a = r
            cell = t._ver = [0]
            if (rg or input._rg) and recording():
                if cls is None:
                    cls = op.node
                node = new(cls)
                if input._rg:
                    if rg:
                        node.edges, (save_x, save_y, save_r) = (input._edge, other._edge), wants[3]
                    else:
                        node.edges, (save_x, save_y, save_r) = (input._edge, None), wants[1]
                else:
                    node.edges, (save_x, save_y, save_r) = (None, other._edge), wants[2]
                node.number = next_number()
                if r.size > LARGE or save_r or (save_x and save_y and b is other):
                    node = record(op, (input, other), (a, b), r, (), cell)
                elif save_x and save_y:
                    u, v = input._ver, other._ver
                    node.saved = (a, b), r, (), ((u, u[0], 0), (v, v[0], 1))
                elif save_x:
                    u = input._ver
                    node.saved = (a, b), r, (), ((u, u[0], 0),)
                elif save_y and b is not other:
                    v = other._ver
                    node.saved = (a, b), r, (), ((v, v[0], 1),)
                else:
                    node.saved = (a, b), r, (), ()
                t._rg = True
                t._edge = (node, 0)
            else:
                t._rg = False
                if _modes.depth:
                    _modes.mark(t)
            return t
        except Exception as error:
            trim(error)
            raise

    function.__name__ = function.__qualname__ = name
    return function
