"""`vjp` and `jvp`, the two replays, and what follows from them: gradients, Jacobians, Hessians, Hessian products.

Nothing here looks inside a tape.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec, TypeVar, overload

import numpy as np

from functrace import edge, errors, tree
from functrace.core.forward import pushforward
from functrace.core.reverse import pullback as pull
from functrace.core.tape import Tape, record
from functrace.core.tracer import Tracer
from functrace.ops.blank import apart, own
from functrace.places import user_line
from functrace.transforms.arguments import Argnames, Argnums, Flat, as_output, as_pair, check_tuples, matched, name_of, or_zeros, resolve
from functrace.transforms.batching import vmap
from functrace.transforms.masks import replayed
from functrace.transforms.sketches import alike, sketch

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")

AT_ONCE = 1 << 15  # bytes of an input that is copied where the tape is used at once, and so not locked for long


class Run:
    """A recorded call: its tape, and the trees of its results. It is called `grad(f)`, say, in messages."""

    __slots__ = ("aux", "aux_def", "copy", "flat", "has_aux", "name", "out", "tape", "treedef")

    def __init__(self, name: str, flat: Flat, has_aux: bool, copy: int = sys.maxsize) -> None:
        self.name, self.flat, self.has_aux, self.copy, self.aux = name, flat, has_aux, copy, None
        self.tape: Tape = record(self._outputs, flat.inputs, name, copy=copy)
        flat.inputs = self.tape.inputs  # which nobody writes to
        self.out = own(self.tape.outputs)  # the caller's: the tape may need the arrays
        if has_aux:
            count = self.treedef.num_leaves
            self.aux = tree.built(self.aux_def, self.out[count:])
            del self.out[count:], self.tape.slots[count:]

    def _outputs(self, *inputs: Any) -> list[Any]:
        out = self.flat.call(inputs)
        extra: list[Any] = []
        if self.has_aux:
            out, aux = as_pair(self.name, out)
            extra, self.aux_def = tree.flatten(aux)
        if out is None:
            raise errors.NonScalarOutputError(f"{self.name}: the function returned None.\n  Does it end without a return statement?")
        leaves, self.treedef = tree.flatten(out)
        return [x if isinstance(x, Tracer) else as_output(self.name, x) for x in leaves] + extra

    def again(self) -> Tape:
        """The tape of another call, that gives the same."""
        tape, count = Run(self.name, self.flat, self.has_aux, self.copy).tape, self.treedef.num_leaves
        if not alike([*map(sketch, self.tape.outputs[:count])], tape.outputs[:count]):
            raise errors.MutatedError(
                f"{self.name}: the derivative is not finite. To see which infinities the function selects away it was run once more, and "
                f"gave another result.\n  At {user_line()}.\n"
                "  What it reads has changed since, or it draws random numbers, or changes what it reads: pass that as arguments."
            )
        return tape

    def pull(self, cts: Sequence[Any], consume: bool = False) -> list[Any]:
        """Cotangents of the inputs (None: zero) for those of the outputs; with `consume` the tape is used up."""
        return [*map(apart, replayed(pull, self.tape, cts, self.again, consume))]

    def push(self, ts: Sequence[Any]) -> list[Any]:
        """Tangents of the outputs (None: zero) for those of the inputs."""
        return [*map(apart, replayed(pushforward, self.tape, ts, self.again))]

    def result(self) -> Any:
        """The result, as the function returned it."""
        return tree.built(self.treedef, self.out)


@overload
def vjp(f: Callable[..., R], *primals: Any, has_aux: Literal[False] = False, **kwargs: Any) -> tuple[R, Callable[[R], tuple[Any, ...]]]: ...
@overload
def vjp(
    f: Callable[..., tuple[R, A]], *primals: Any, has_aux: Literal[True], **kwargs: Any
) -> tuple[R, Callable[[R], tuple[Any, ...]], A]: ...
@edge.boundary
def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False, **kwargs: Any) -> Any:
    """The value of `f(*primals)` and its pullback, which maps a cotangent of the output to cotangents of the primals.

    Args:
        f: a function of pytrees of arrays, returning a pytree of arrays.
        *primals: where to evaluate it: pytrees of floating-point or complex arrays and numbers.
        has_aux: `f` returns `(output, aux)`, and `vjp` a third result, `aux`.
        **kwargs: passed on to `f`, not differentiated.

    Returns:
        `(out, pullback)`. `pullback(ct)` takes a tree like `out` and returns a tuple with a tree like each primal; it can be
        called any number of times. Complex cotangents are not conjugated (the convention of JAX and autograd).

    Raises:
        CotangentError: a cotangent's structure, shape or dtype is not that of the output.

    >>> import functrace as ft, numpy as np
    >>> out, pullback = ft.vjp(lambda x, y: x * np.sin(y), 2.0, 0.0)
    >>> pullback(1.0)
    (np.float64(0.0), np.float64(2.0))
    """
    edge.check_call("vjp(f, *primals)", f)
    flat = Flat("vjp", f, primals, kwargs, range(len(primals)))
    run = Run(f"vjp({name_of(f)})", flat, has_aux)
    name = f"the pullback of {name_of(f)}"

    def pullback(ct: Any, *more: Any) -> tuple[Any, ...]:
        try:
            if more:
                remedy = f"At {user_line()}.\n  Put them in a container like the output: pullback((a, b))."
                raise errors.CotangentError(f"{name} takes one cotangent, like the output, and was given {1 + len(more)}.\n  {remedy}")
            return tuple(flat.rebuild(run.pull(matched(name, "cotangent", ct, run.treedef, run.out))))
        except Exception as error:
            edge.trim(error)
            raise

    return (run.result(), pullback, run.aux) if has_aux else (run.result(), pullback)


@overload
def linearize(f: Callable[..., R], *primals: Any, has_aux: Literal[False] = False, **kwargs: Any) -> tuple[R, Callable[..., R]]: ...
@overload
def linearize(f: Callable[..., tuple[R, A]], *primals: Any, has_aux: Literal[True], **kwargs: Any) -> tuple[R, Callable[..., R], A]: ...
@edge.boundary
def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False, **kwargs: Any) -> Any:
    """The value of `f(*primals)` and its linear approximation there, a function of tangents that can be called many times.

    Args:
        f: a function of pytrees of arrays, returning a pytree of arrays.
        *primals: where to evaluate it.
        has_aux: `f` returns `(output, aux)`; `aux` is the third result.
        **kwargs: passed on to `f`, not differentiated.

    Returns:
        `(out, f_jvp)`. `f_jvp(*tangents)` takes a tangent like each primal, and returns one like `out`, as `jvp` does, without running
        `f` again.

    Raises:
        CotangentError: a tangent's number, structure, shape or dtype is not that of the primals.

    >>> import functrace as ft, numpy as np
    >>> out, f_jvp = ft.linearize(lambda x: x**3, 2.0)
    >>> f_jvp(1.0)
    np.float64(12.0)
    """
    edge.check_call("linearize(f, *primals)", f)
    flat = Flat("linearize", f, primals, kwargs, range(len(primals)))
    run = Run(f"linearize({name_of(f)})", flat, has_aux)

    @edge.boundary
    def f_jvp(*tangents: Any) -> Any:
        if len(tangents) != len(primals):
            raise errors.CotangentError(f"linearize({name_of(f)}): {len(tangents)} tangents for {len(primals)} primals.\n  Give each one.")
        return _push(run, tangents)

    return (run.result(), f_jvp, run.aux) if has_aux else (run.result(), f_jvp)


def _push(run: Run, tangents: Sequence[Any]) -> Any:
    flat = run.flat
    ts: list[Any] = [None] * len(flat.inputs)
    for tangent, treedef, leaves, places in zip(tangents, flat.treedefs, flat.wholes, flat.places):
        likes = [np.zeros(np.shape(x)) if p is None else flat.inputs[p] for x, p in zip(leaves, places)]
        for t, p in zip(matched(f"the jvp of {name_of(flat.f)}", "tangent", tangent, treedef, likes), places):
            if p is not None:
                ts[p] = t
    outs = run.push(ts)
    return tree.unflatten(run.treedef, [or_zeros(t, x) for t, x in zip(outs, run.out)])


@overload
def jvp(
    f: Callable[..., R], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Literal[False] = False, **kwargs: Any
) -> tuple[R, R]: ...
@overload
def jvp(
    f: Callable[..., tuple[R, A]], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Literal[True], **kwargs: Any
) -> tuple[R, R, A]: ...
@edge.usage("jvp(f, (x,), (v,))")
def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False, **kwargs: Any) -> Any:
    """The value of `f(*primals)` and its directional derivative along `tangents`.

    Args:
        f: a function of pytrees of arrays, returning a pytree of arrays.
        primals: a tuple or list of arguments.
        tangents: a tuple or list like it: the directions, with the arguments' shapes and dtypes.
        has_aux: `f` returns `(output, aux)`; `aux` is the third result.
        **kwargs: passed on to `f`, not differentiated.

    Returns:
        `(out, tangent_out)`, trees of one structure, shapes and dtypes.

    Raises:
        CotangentError: a tangent's structure, shape or dtype is not that of its primal.

    >>> import functrace as ft, numpy as np
    >>> ft.jvp(np.sin, (0.0,), (2.0,))
    (np.float64(0.0), np.float64(2.0))
    """
    return _jvp("jvp", f, primals, tangents, has_aux, kwargs)


def _jvp(what: str, f: Any, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool, kwargs: dict[str, Any]) -> Any:
    check_tuples(what, f, primals, tangents)
    flat = Flat(what, f, primals, kwargs, range(len(primals)))
    run = Run(f"{what}({name_of(f)})", flat, has_aux, AT_ONCE)
    out = (run.result(), _push(run, tangents))
    return (*out, run.aux) if has_aux else out


@edge.transform
def value_and_grad(
    f: Callable[P, R], argnums: Argnums = None, has_aux: bool = False, *, argnames: Argnames = None, holomorphic: bool = False
) -> Callable[P, tuple[R, Any]]:
    """A function that returns `f`'s value and its gradient: for arguments, dtypes and errors see `grad`.

    The value is what `f` returns, a NumPy scalar or a number; with `has_aux` it is `(output, aux)`.

    >>> import functrace as ft, numpy as np
    >>> ft.value_and_grad(lambda x: (x**2).sum())(np.array([1.0, 2.0]))
    (np.float64(5.0), array([2., 4.]))
    """
    return _gradient("value_and_grad", f, argnums, argnames, has_aux, holomorphic)


def _gradient(what: str, f: Any, argnums: Argnums, argnames: Argnames, has_aux: bool, holomorphic: bool) -> Callable[..., Any]:
    valued, name = what == "value_and_grad", f"{what}({name_of(f)})"

    @edge.wraps(f, what, argnums=argnums)
    def gradient(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        keys, several = resolve(what, f, args, kwargs, argnums, argnames)
        flat = Flat(what, f, args, kwargs, keys)
        run = Run(name, flat, has_aux, AT_ONCE)
        grads: Any = flat.rebuild(run.pull([_scalar_seed(run, holomorphic)], consume=True))
        grads = tuple(grads) if several else grads[0]
        if valued:
            return (run.out[0], run.aux) if has_aux else run.out[0], grads
        return (grads, run.aux) if has_aux else grads

    gradient.__qualname__ = name
    return gradient


def _scalar_seed(run: Run, holomorphic: bool) -> Any:
    out = run.out[0] if run.treedef.alone else None
    if out is None or out.shape != ():
        several = f"a {type(run.result()).__name__} of {', '.join(map(errors.describe, run.out))}"
        found = several if out is None else errors.describe(out)
        raise errors.NonScalarOutputError(
            f"{run.name}: the output must be one real number, got {found}.\n  At {user_line(3)}.\n"
            "  Reduce it (.sum(), .mean()), use jacobian for all derivatives, vjp for a product with a cotangent, or has_aux=True for "
            "extra results."
        )
    dtype = out.dtype
    if dtype.kind == "c" and not holomorphic:
        raise errors.NonScalarOutputError(
            f"{run.name}: the output is {dtype}, and a complex number has no gradient.\n  At {user_line(3)}.\n"
            "  Take its real part or absolute value, or pass holomorphic=True if the function is."
        )
    if holomorphic and (dtype.kind != "c" or any(x.dtype.kind != "c" for x in run.flat.inputs)):
        needs = "with holomorphic=True needs complex inputs and output"
        raise errors.InputTypeError(f"{run.name} {needs}, got an output of {dtype}.")
    return dtype.type(1) if dtype.kind in "fc" else np.float64(1)  # an integer is a constant: no input reaches it


@edge.transform
def grad(
    f: Callable[P, Any], argnums: Argnums = None, has_aux: bool = False, *, argnames: Argnames = None, holomorphic: bool = False
) -> Callable[P, Any]:
    """A function that returns the gradient of `f`, whose output is one real number.

    Args:
        f: a function of pytrees of arrays. Python's control flow, printing and debugging work in it.
        argnums: position, or positions, of what to differentiate; by default the first argument.
        has_aux: `f` returns `(output, aux)`, and the gradient function `(gradient, aux)`.
        argnames: name, or names, of what to differentiate, passed by keyword or by position.
        holomorphic: `f` is holomorphic, its output complex.

    Returns:
        A function with `f`'s arguments. Each gradient is a tree like its argument, with its shapes and dtypes; a tuple of them if
        `argnums` or `argnames` is a tuple. A Python number counts as float64. Integer leaves of containers get zeros.

    Raises:
        NonScalarOutputError: the output is not one real number.
        IntegerInputError: an argument to differentiate is an integer array.
        ArgnumsError: `argnums` or `argnames` names no argument of the call.

    >>> import functrace as ft, numpy as np
    >>> ft.grad(lambda w, x: np.tanh(w @ x))(np.zeros(2), np.array([1.0, 2.0]))
    array([1., 2.])
    """
    return _gradient("grad", f, argnums, argnames, has_aux, holomorphic)


def _each(replay: Callable[..., Any], likes: Sequence[Any], results: Sequence[Any], last: bool) -> list[list[Any]]:
    """The blocks of a Jacobian, for each of `likes` those of all `results`, by a replay of unit vectors as one batch.

    A block has the shape `like.shape + result.shape`, or, with `last`, `result.shape + like.shape`.
    """
    *starts, total = np.cumsum([0, *(x.size for x in likes)]).tolist()
    one: Any = lambda *units: [or_zeros(t, y) for t, y in zip(replay(units), results)]
    units = [np.eye(total, x.size, -start, x.dtype).reshape(total, *x.shape) for x, start in zip(likes, starts)]
    if total:
        rows = vmap(one)(*units)
    else:
        rows = [np.zeros((0, *np.shape(y)), y.dtype) for y in one(*(np.zeros(x.shape, x.dtype) for x in likes))]

    def block(y: Any, start: int, x: Any) -> Any:
        part = y[start : start + x.size]
        part = np.reshape(np.moveaxis(part, 0, -1), part.shape[1:] + x.shape) if last else np.reshape(part, x.shape + part.shape[1:])
        if type(part) is not np.ndarray:
            return part
        return part[()] if part.shape == () else part if part.base is None else part.copy()

    return [[block(y, start, x) for y in rows] for start, x in zip(starts, likes)]


def _jacobian(what: str, f: Any, argnums: Argnums, argnames: Argnames, has_aux: bool, holomorphic: bool, mode: str) -> Callable[..., Any]:
    name = f"{what}({name_of(f)})"

    @edge.wraps(f, what, argnums=argnums)
    def jacobian_function(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        keys, several = resolve(what, f, args, kwargs, argnums, argnames)
        flat = Flat(what, f, args, kwargs, keys)
        run = Run(name, flat, has_aux, AT_ONCE)
        _check_complex(run, holomorphic, mode)
        sizes = sum(x.size for x in flat.inputs), sum(x.size for x in run.out)
        reverse = mode == "reverse" or mode == "auto" and sizes[1] <= sizes[0]
        if reverse and run.treedef.alone and run.out[0].shape == ():
            whole = flat.rebuild(run.pull([run.out[0].dtype.type(1)], consume=True))
            out = tuple(whole) if several else whole[0]
            return (out, run.aux) if has_aux else out
        if reverse:
            trees = _each(run.pull, run.out, flat.inputs, False)  # per output, per input
        else:
            trees = [*map(list, zip(*_each(run.push, flat.inputs, run.out, True)))] if flat.inputs else [[] for _ in run.out]
        per_output = [_arguments(flat, row, x, several) for row, x in zip(trees, run.out)]
        out = tree.unflatten(run.treedef, per_output)
        return (out, run.aux) if has_aux else out

    jacobian_function.__qualname__ = name
    return jacobian_function


def _arguments(flat: Flat, row: Sequence[Any], out: Any, several: bool) -> Any:
    trees = []
    for treedef, leaves, places in zip(flat.treedefs, flat.wholes, flat.places):
        trees.append(tree.unflatten(treedef, [np.zeros(out.shape + np.shape(x)) if p is None else row[p] for x, p in zip(leaves, places)]))
    return tuple(trees) if several else trees[0]


def _check_complex(run: Run, holomorphic: bool, mode: str) -> None:
    complex_in = any(x.dtype.kind == "c" for x in run.flat.inputs)
    complex_out = any(x.dtype.kind == "c" for x in run.out)
    if (complex_in or complex_out) and not holomorphic and not (mode == "forward" and not complex_in):
        raise errors.InputTypeError(
            f"{run.name}: complex arguments or results need holomorphic=True, which says that the function is.\n"
            f"  At {user_line(3)}.\n"
            "  For other functions differentiate with respect to the real and imaginary parts."
        )


@edge.transform
def jacrev(
    f: Callable[P, Any], argnums: Argnums = None, has_aux: bool = False, *, argnames: Argnames = None, holomorphic: bool = False
) -> Callable[P, Any]:
    """The Jacobian of `f` by reverse replays, one for each element of the output, as one batch.

    Args:
        f: a function of pytrees of arrays that returns a pytree of arrays, of any shapes.
        argnums, argnames: what to differentiate, by position or name: see `grad`.
        has_aux: `f` returns `(output, aux)`, and the new function `(jacobian, aux)`.
        holomorphic: `f` is holomorphic: complex arguments, complex output.

    Returns:
        A function of `f`'s arguments. For an output of shape `s` and an argument of shape `a` its result has shape `s + a`, in the
        output's tree, each leaf a tree like the argument (a tuple of trees for several arguments), and the dtype of both together.

    Raises:
        IntegerInputError: an argument to differentiate is an integer array.
        InputTypeError: it is complex, without `holomorphic`.

    >>> import functrace as ft, numpy as np
    >>> ft.jacrev(lambda x: x**2)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    return _jacobian("jacrev", f, argnums, argnames, has_aux, holomorphic, "reverse")


@edge.transform
def jacfwd(
    f: Callable[P, Any], argnums: Argnums = None, has_aux: bool = False, *, argnames: Argnames = None, holomorphic: bool = False
) -> Callable[P, Any]:
    """The Jacobian of `f` by forward replays, one for each element of the arguments, as one batch.

    For arguments, shapes and errors see `jacrev`.

    >>> import functrace as ft, numpy as np
    >>> ft.jacfwd(lambda x: np.array([1.0, 2.0]) * x)(3.0)
    array([1., 2.])
    """
    return _jacobian("jacfwd", f, argnums, argnames, has_aux, holomorphic, "forward")


@edge.transform
def jacobian(
    f: Callable[P, Any], argnums: Argnums = None, has_aux: bool = False, *, argnames: Argnames = None, holomorphic: bool = False
) -> Callable[P, Any]:
    """The Jacobian of `f` by reverse or forward replays, whichever are fewer: for arguments, shapes and errors see `jacrev`.

    >>> import functrace as ft, numpy as np
    >>> ft.jacobian(lambda x: x[:2] * x[2])(np.array([1.0, 2.0, 3.0]))
    array([[3., 0., 1.],
           [0., 3., 2.]])
    """
    return _jacobian("jacobian", f, argnums, argnames, has_aux, holomorphic, "auto")


@edge.transform
def hessian(
    f: Callable[P, Any], argnums: Argnums = None, has_aux: bool = False, *, argnames: Argnames = None, holomorphic: bool = False
) -> Callable[P, Any]:
    """The second derivatives of `f`, forward over reverse: see `jacrev` for arguments and errors.

    For an output of shape `s` (mostly one number, `()`) and an argument of shape `a` it is an array of shape `s + a + a`; for a tree, a
    tree of trees, as `jacobian` of `grad` gives.

    >>> import functrace as ft, numpy as np
    >>> ft.hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 2.0]))
    array([[4., 2.],
           [2., 0.]])
    """
    first = _jacobian("hessian", f, argnums, argnames, has_aux, holomorphic, "reverse")
    return _jacobian("hessian", first, argnums, argnames, has_aux, holomorphic, "forward")


@edge.usage("hvp(f, (x,), (v,))")
def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], **kwargs: Any) -> Any:
    """The Hessian of `f` at `primals` times `tangents`, without the Hessian: forward over reverse.

    Args:
        f: a function that returns one real number.
        primals, tangents: tuples or lists of as many trees; a tangent has its primal's shapes and dtypes.
        **kwargs: passed on to `f`, not differentiated.

    Returns:
        A tree like the primal, a tuple of them if there are several.

    Raises:
        NonScalarOutputError: the output is not one real number.
        CotangentError: a tangent does not look like its primal.

    >>> import functrace as ft, numpy as np
    >>> ft.hvp(lambda x: (x**3).sum(), (np.array([1.0, 2.0]),), (np.array([1.0, 1.0]),))
    array([ 6., 12.])
    """
    edge.check_call("hvp(f, (x,), (v,))", f)
    check_tuples("hvp", f, primals, tangents)
    argnums = tuple(range(len(primals))) if len(primals) > 1 else 0
    return _jvp("hvp", _gradient("hvp", f, argnums, None, False, False), primals, tangents, False, kwargs)[1]
