"""Checks of derivatives against numbers: `check_grads` for users' functions, `verify` for declarations of ops.

Everything is checked along random directions: forward mode against finite differences, reverse mode against forward mode, then
the same again for the derivative itself, up to the order asked for.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from functrace import tree
from functrace.core.tape import Tape
from functrace.core.tracer import Tracer, value
from functrace.edge import boundary, check_call, note, own_names
from functrace.errors import CallError, CheckError, IntegerInputError, describe
from functrace.operands import unwrapped
from functrace.ops.registry import Declared, Sample, plain_first
from functrace.places import level as user_level
from functrace.transforms.arguments import as_output
from functrace.transforms.batching import vmap
from functrace.transforms.derivatives import grad, jvp, vjp
from functrace.transforms.tracing import replaced

# Six-point central differences: the error is of order step**6, so a large step is precise and rounding stays small.
_STEP = 3e-3
_WEIGHTS = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))


def _inexact(x: Any) -> bool:
    return np.asarray(x).dtype.kind in "fc"


def _draw(rng: np.random.Generator, x: Any) -> Any:
    x = np.asarray(x)
    t = rng.normal(size=x.shape)
    if x.dtype.kind == "c":
        t = t + 1j * rng.normal(size=x.shape)
    return np.asarray(t, x.dtype)


def _dot(xs: Iterable[Any], ys: Iterable[Any]) -> Any:
    """The real part of the product of two lists of arrays."""
    return sum(np.sum(np.real(x * y)) for x, y in zip(xs, ys))


def numerical_jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], step: float = _STEP) -> Any:
    """The directional derivative of `f` at `primals` along `tangents`, by six-point central differences.

    `primals` and `tangents` are sequences of as many float64 or complex128 arrays, of the same shapes; `step` scales the tangents.
    Returns the list of the leaves of `f`'s result, each replaced by its derivative; those that are integers or booleans get zeros. The
    error is of the order of `step**6`, and of rounding divided by `step`.

    >>> import numpy as np
    >>> print(numerical_jvp(np.sin, [0.0], [1.0])[0].round(12))
    1.0
    """
    totals: list[Any] = []
    for k, weight in _WEIGHTS:
        ahead, behind = (tree.leaves(f(*(np.asarray(x + sign * k * step * t) for x, t in zip(primals, tangents)))) for sign in (1, -1))
        totals = totals or [np.zeros(np.shape(y)) for y in ahead]
        for j, (a, b) in enumerate(zip(ahead, behind)):
            if _inexact(a):
                totals[j] = totals[j] + weight * (np.asarray(a) - np.asarray(b)) / step
    return totals


def _worst(got: Any, want: Any) -> tuple[Any, float]:
    difference = np.abs(np.asarray(got) - np.asarray(want))
    where = np.unravel_index(int(np.argmax(np.where(np.isnan(difference), np.inf, difference))), difference.shape)
    return tuple(int(k) for k in where), float(difference[where])


def _compare(what: str, got: Any, want: Any, rtol: float, atol: float) -> None:
    got, want = np.asarray(value(got)), np.asarray(value(want))
    if got.shape != want.shape:
        raise CheckError(f"{what}: has shape {got.shape}, must have {want.shape}")
    if not (np.array_equal(got, want) or np.allclose(got, want, rtol=rtol, atol=atol, equal_nan=True)):  # the first is much cheaper
        where, error = _worst(got, want)
        relative = error / max(abs(want[where]), 1e-300)
        raise CheckError(
            f"{what}: at index {where} the derivative is {got[where]:.8g}, but must be {want[where]:.8g} (relative error {relative:.2g}).\n"
            "  Mend the rule. If there is none, value, stop_gradient or an isinstance cuts the derivative, or the function has a kink near "
            "the point, or too little precision."
        )


@boundary
def check_grads(
    f: Callable[..., Any],
    *args: Any,
    order: int = 2,
    modes: Sequence[str] = ("fwd", "rev"),
    rtol: float = 1e-5,
    atol: float = 1e-6,
    step: float = _STEP,
    seed: int = 0,
) -> None:
    """Check `f`'s derivatives at `args` against central differences, in both modes and up to `order`.

    Args:
        f: a function of pytrees of floating-point arrays, real or complex, returning such.
        *args: where to check; use float64, and stay away from kinks by more than `3 * step`.
        order: how many times to differentiate.
        modes: "fwd", "rev", or both.
        rtol, atol: tolerances, as in `np.allclose`.
        step: of the six-point differences.
        seed: of the random directions.

    Raises:
        CheckError: names the order, the mode, the worst index, and both values; also if `f` is not deterministic.

    Warns on float32 arguments, whose differences are hardly more than noise.

    >>> import functrace as ft, numpy as np
    >>> ft.check_grads(lambda x: np.sin(x) * x, np.array([0.3, 0.7]))
    """
    check_call("check_grads(f, *args)", f, args=args)
    if not step > 0:
        raise CallError(f"check_grads: the step of the differences must be positive, got step={step!r}.\n  Leave it out, or give 0.001.")
    if not isinstance(order, (int, np.integer)) or order < 1 or isinstance(modes, str) or not modes or not {"fwd", "rev"}.issuperset(modes):
        raise CallError(
            f"check_grads: nothing to check with order={order!r} and modes={modes!r}.\n"
            '  Give order=1 or more, and modes=("fwd",), ("rev",) or both.'
        )
    name = f"check_grads({getattr(f, '__name__', 'f')})"
    leaves, treedef = tree.flatten(args)
    arrays = [np.array(unwrapped(x), float if type(x) is int else None) for x in leaves]
    if strange := [x for x in arrays if x.dtype.kind not in "fc"]:
        raise IntegerInputError(
            f"{name}: an argument is or holds {describe(strange[0])}, which has no derivative.\n"
            "  Pass x.astype(float), or close over what does not vary."
        )
    if any(x.dtype in (np.float32, np.float16, np.complex64) for x in arrays):
        warnings.warn("check_grads: an argument has less than double precision; differences will be noisy", stacklevel=user_level())
    rng = np.random.default_rng(seed)

    def flat(*xs: Any) -> list[Any]:
        out = f(*tree.unflatten(treedef, [x if isinstance(x, Tracer) else x.copy() for x in xs]))  # f may write to them
        if out is None:
            raise CheckError(f"{name}: the function returned None.\n  Does it end without a return statement?")
        return [x if isinstance(x, Tracer) else np.array(as_output(name, x)) for x in tree.leaves(out)]

    try:
        first, second = flat(*arrays), flat(*arrays)
        if any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(first, second)):
            raise CheckError(
                "check_grads: the function is not deterministic: two calls gave different results.\n"
                "  Pass random numbers as arguments, or make their generator in the function, from a seed."
            )
        level, g, primals = f"order 1 of {getattr(f, '__name__', 'f')}", flat, arrays
        for _ in range(order):
            _check_first(level, g, primals, modes, rtol, atol, step, rng)
            g, primals = _derivative(g, primals, modes, rng)
            level = f"order {int(level.split()[1]) + 1} of {level.split(' of ')[1]}"
    except Exception as error:
        if len(args) == 1 and type(args[0]) is tuple:
            note(error, "check_grads was given one argument, a tuple. For the arguments that are in it write check_grads(f, *args).")
        raise


def _check_first(
    level: str, f: Any, primals: list[Any], modes: Sequence[str], rtol: float, atol: float, step: float, rng: np.random.Generator
) -> None:
    tangents = [_draw(rng, x) for x in primals]
    wanted = numerical_jvp(f, primals, tangents, step)
    out, pushed = jvp(f, primals, tangents)
    if "fwd" in modes:
        for k, (got, want) in enumerate(zip(pushed, wanted)):
            _compare(f"check_grads: {level}, forward mode, output {k}", got, want, rtol, atol)
    if "rev" in modes:
        _, pull = vjp(f, *primals)
        cts = [_draw(rng, y) for y in out]
        back = pull(cts)
        large = max(1, sum(np.size(c) for c in cts))
        _compare(f"check_grads: {level}, reverse mode, projected", _dot(back, tangents), _dot(cts, wanted), rtol, atol * large)


def _derivative(f: Any, primals: list[Any], modes: Sequence[str], rng: np.random.Generator) -> tuple[Any, list[Any]]:
    """The function to check next: the pullback at a fixed cotangent, or the tangent at fixed tangents."""
    if "rev" in modes:
        cts = [_draw(rng, y) for y in f(*primals)]
        return lambda *xs: list(vjp(f, *xs)[1](cts)), primals
    tangents = [_draw(rng, x) for x in primals]
    return lambda *xs: jvp(f, xs, tangents)[1], primals


@boundary
def check_tape(tape: Tape) -> None:
    """Raise `CheckError` unless every slot of a tape is written once, before it is read, and every entry fits its primitive.

    >>> import functrace as ft, numpy as np
    >>> check_tape(ft.trace(ft.grad(np.sin))(1.0))
    """
    if not isinstance(tape, Tape):
        raise CallError(f"check_tape: {describe(tape)} stands where a tape is expected.\n  Write check_tape(functrace.trace(f)(x)).")
    written = set(range(len(tape.inputs)))
    for primitive, out, slots, args, _ans, _params in tape.entries:
        if len(slots) != len(args) or primitive.arity not in (None, len(args)):
            raise CheckError(f"{primitive.name} takes {primitive.arity} arguments, has {len(args)} in {len(slots)} slots")
        if any(s not in written for s in slots if s >= 0):
            raise CheckError(f"{primitive.name} reads a slot before it is written: {slots}")
        if out in written:
            raise CheckError(f"{primitive.name} writes slot {out}, which was written before")
        written.add(out)
    if any(s not in written for s in tape.slots if s >= 0):
        raise CheckError("an output was never written")


# Declarations


class _Checker:
    def __init__(self, declared: Declared, seed: int) -> None:
        self.declared, self.rng, self.count = declared, np.random.default_rng(seed), 0

    def compare(self, what: str, got: Any, want: Any, rtol: float = 1e-6, atol: float = 1e-7) -> None:
        got_leaves, want_leaves = tree.leaves(got), tree.leaves(want)
        if len(got_leaves) != len(want_leaves):
            raise CheckError(f"{self.declared.name}: {what}: {len(got_leaves)} results, must be {len(want_leaves)}")
        for a, b in zip(got_leaves, want_leaves):
            _compare(f"{self.declared.name}: {what}", a, b, rtol, atol)
        self.count += 1

    def projected(self, what: str, back: Any, ts: Any, cts: Any, pushed: Any) -> None:
        """Compare cotangents and tangents, in the direction of the others."""
        scale = _dot(map(np.abs, cts), map(np.abs, pushed))
        self.compare(what, _dot(back, ts), _dot(cts, pushed), 1e-6, 1e-7 * (1 + scale))

    def like(self, what: str, got: Any, want: Any) -> None:
        for a, b in zip(tree.leaves(got), tree.leaves(want)):
            if what.startswith("value") and isinstance(b, np.generic) and isinstance(a, np.ndarray):
                raise CheckError(f"{self.declared.name}: {what}: an array without axes, must be a scalar")
            a, b = (x if hasattr(x, "dtype") else np.asarray(x) for x in (a, b))
            if a.shape != b.shape or a.dtype != b.dtype:
                raise CheckError(f"{self.declared.name}: {what}: {a.dtype}{a.shape}, must be {b.dtype}{b.shape}")
        self.count += 1


def _numpy_function(declared: Declared) -> Any:
    function = declared.theirs
    if not callable(function):
        return None
    deaf = not isinstance(function, np.ufunc) and (getattr(function, "__module__", None) or "").startswith("scipy")
    return plain_first(function, declared.function) if deaf else function  # SciPy's own converts its arguments


@boundary
def verify(declared: Declared, order: int = 2, seed: int = 0) -> int:
    """Run every check that a declaration promises, on each of its samples; returns how many there were.

    Args:
        declared: an entry of `functrace.ops.registry.TABLE`: a name, a function and samples of its arguments.
        order: how many times to differentiate.
        seed: of the random arguments and directions.

    Values, shapes and dtypes against NumPy; reverse, forward and higher order against differences; `vmap` against a loop for
    every choice of batched arguments; the NumPy function through the protocols; float32, float16 and complex arguments;
    read-only ones.

    Raises:
        CheckError: names the check, the worst index, and both values.

    >>> from functrace.ops.registry import TABLE
    >>> import functrace.numpy
    >>> verify(TABLE["square"]) > 50
    True
    """
    if not isinstance(declared, Declared):
        raise CallError(f"verify: {describe(declared)} stands where a declaration is expected.\n  Write verify(TABLE[name]).")
    checker = _Checker(declared, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of NumPy's function itself
        for sample in declared.samples:
            args = sample.args(checker.rng)
            f, plain = _bound(declared.function, sample), _bound(_numpy_function(declared) or declared.function, sample)
            _check_values(checker, f, plain, args, sample)
            if sample.wrt and not declared.constant:
                _check_derivatives(checker, f, plain, args, sample, order)
                _check_dtypes(checker, f, plain, args, sample)
            _check_batches(checker, f, args, sample)
    return checker.count


def _bound(function: Any, sample: Sample) -> Any:
    return lambda *args: function(*args, **sample.kwargs)


def _frozen(x: Any) -> Any:
    x = np.array(x)
    x.flags.writeable = False
    return x


def _check_values(checker: _Checker, f: Any, plain: Any, args: Sequence[Any], sample: Sample) -> None:
    args = tree.map(lambda x: _frozen(x) if isinstance(x, np.ndarray) else x, list(args))
    want = plain(*args)
    checker.compare("value, nothing traced", f(*args), want, 1e-12, 0)
    if not sample.wrt:
        return
    results: list[Any] = []

    def traced(*xs: Any) -> Any:
        out = f(*replaced(args, sample.wrt, xs))
        results.append(out)
        return tree.map(lambda y: np.sum(y * 1.0) if not _is_bool(y) else 0.0, out)

    vjp(traced, *(_float(args[k]) for k in sample.wrt))
    got = tree.map(value, results[0])
    checker.compare("value, traced", got, want, 1e-12, 0)
    checker.like("value, traced", got, want)


def _is_bool(y: Any) -> bool:
    return np.asarray(value(y)).dtype.kind in "bSUO"


def _float(x: Any) -> Any:
    return tree.map(lambda a: np.asarray(a) if np.asarray(a).dtype.kind in "fc" else np.asarray(a, float), x)


def _projected(checker: _Checker, f: Any, args: Sequence[Any], sample: Sample) -> tuple[Any, list[Any], list[Any]]:
    """The sample as a function of a flat list of arrays that returns one; the arrays; and directions for them."""
    xs = [_float(args[k]) for k in sample.wrt]
    leaves, treedef = tree.flatten(xs)

    def flat(*ys: Any) -> list[Any]:
        return [y for y in tree.leaves(f(*replaced(args, sample.wrt, tree.unflatten(treedef, ys)))) if value(y).dtype.kind in "fc"]

    return flat, leaves, [_draw(checker.rng, x) for x in leaves]


def _check_derivatives(checker: _Checker, f: Any, plain: Any, args: Sequence[Any], sample: Sample, order: int) -> None:
    flat, xs, ts = _projected(checker, f, args, sample)
    level: Any = flat
    for k in range(1, order + 1):
        want = numerical_jvp(level, xs, ts)
        out, pushed = jvp(level, xs, ts)
        checker.compare(f"forward, order {k}", pushed, want)
        _, pull = vjp(level, *xs)
        cts = [_draw(checker.rng, y) for y in out]
        back = pull(cts)
        checker.like(f"reverse, order {k}", list(back), xs)
        checker.projected(f"reverse, order {k}", back, ts, cts, want)
        if k == 1:
            checker.compare("through NumPy's function", vjp(_projected(checker, plain, args, sample)[0], *xs)[1](cts), back, 1e-12, 0)
        level = lambda *ys, f=level, cts=cts: list(vjp(f, *ys)[1](cts))


def _check_dtypes(checker: _Checker, f: Any, plain: Any, args: Sequence[Any], sample: Sample) -> None:
    exact = [np.asarray(args[k]) for k in sample.wrt if not isinstance(args[k], (list, tuple, dict))]
    if len(exact) != len(sample.wrt) or "dtype" in sample.kwargs:
        return
    for dtype in (np.float32, np.float16, np.complex128, np.complex64):
        if np.dtype(dtype).kind == "f" and any(x.dtype.kind == "c" for x in exact):
            continue
        xs = [np.asarray(x + 0.3j * checker.rng.normal(size=x.shape) if np.dtype(dtype).kind == "c" else x, dtype) for x in exact]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
                want = plain(*replaced(args, sample.wrt, xs))
        except (TypeError, ValueError, NotImplementedError, np.exceptions.ComplexWarning):
            continue  # NumPy itself has no such loop
        if any(y.dtype.kind not in "fc" for y in map(np.asarray, tree.leaves(want))):
            continue

        def flat(*ys: Any) -> list[Any]:
            return tree.leaves(f(*replaced(args, sample.wrt, ys)))

        out, pull = vjp(flat, *xs)
        checker.like(f"value, {np.dtype(dtype)}", out, tree.leaves(want))
        cts = [_draw(checker.rng, y) for y in out]
        back = pull(cts)
        checker.like(f"reverse, {np.dtype(dtype)}", list(back), xs)
        ts = [_draw(checker.rng, x) for x in xs]
        _, pushed = jvp(flat, xs, ts)
        checker.like(f"forward, {np.dtype(dtype)}", pushed, out)
        if dtype is np.complex128:
            wanted = numerical_jvp(flat, xs, ts)
            checker.compare("forward, complex", pushed, wanted)
            checker.projected("reverse, complex", back, ts, cts, wanted)


def _check_batches(checker: _Checker, f: Any, args: Sequence[Any], sample: Sample) -> None:
    """`vmap` of the function, and of its gradient, against a loop: every argument batched, in front or at the end, or not."""
    which = sample.wrt

    def call(*xs: Any) -> list[Any]:
        return tree.leaves(f(*replaced(args, which, xs)))

    def total(*xs: Any) -> Any:
        return sum(np.sum(np.real(y)) for y in call(*xs) if value(y).dtype.kind in "fc")

    gradient = lambda *xs: tree.leaves(grad(total, tuple(range(len(which))))(*xs))
    given = [{None: args[k], **_examples(checker.rng, args[k])} for k in which]
    checks: list[Any] = [("vmap", call, lambda x: x), ("vmap of grad", gradient, _float)]
    for what, function, taken in checks[: 1 if checker.declared.constant else 2]:
        xs = [{pick: taken(x) for pick, x in of.items()} for of in given]
        row: Any = functools.cache(lambda *picks: function(*(x[pick] for x, pick in zip(xs, picks))))
        ways = [(None, 0, -1) if any(np.ndim(y) for y in tree.leaves(x[0])) else (None, 0) for x in xs]  # 0 and -1 are one axis of numbers
        for axes in itertools.product(*ways):
            if any(a is not None for a in axes):
                batched = [x[None] if a is None else tree.map(lambda *two: np.stack(two, a), x[0], x[1]) for x, a in zip(xs, axes)]
                with np.errstate(all="ignore"):
                    rows = [row(*(None if a is None else k for a in axes)) for k in (0, 1)]
                    got = vmap(function, in_axes=axes)(*batched)
                checker.compare(f"{what}, in_axes={list(axes)}", got, [np.stack(column) for column in zip(*rows)], 1e-9, 1e-10)


def _examples(rng: np.random.Generator, x: Any) -> dict[int, Any]:
    """Two examples of an argument: itself, and one near it."""
    near = lambda a: a + 0.01 * rng.normal(size=a.shape).astype(a.dtype) if a.dtype.kind in "fc" else a
    first = tree.map(lambda a: np.array(a)[()], x)
    return {0: first, 1: tree.map(near, first)}


__dir__ = own_names(globals())
