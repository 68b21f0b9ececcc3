"""Finding what went wrong, and seeing what happens: `debug_nans`, `debug_infs`, `checks`, `explain` and `profile`.

All of them watch the ops as they run and the rules as they are applied, and name the line of your program that an op came from. They
see what is traced: what runs under `grad`, `vjp`, `jvp`, `vmap` and the rest, in any nesting; jitted functions run as Python while
they watch. They cost nothing when they are off.
"""

from __future__ import annotations

import gc
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ParamSpec, TypeVar, overload

import numpy as np

from functrace import edge, errors, tree
from functrace.core.batch import BatchTrace
from functrace.core.tape import record
from functrace.core.tracer import Tracer, bare
from functrace.debug.report import Explanation, Recording, varies
from functrace.debug.timing import Profile
from functrace.debug.watch import Op, Watch, place, plain, show, unwatched, watched
from functrace.places import line_of
from functrace.transforms.arguments import Flat, name_of, refuse_tensors
from functrace.transforms.calls import is_float
from functrace.transforms.derivatives import Run
from functrace.transforms.sketches import digest
from functrace.transforms.tracing import replaced

__all__ = ["Explanation", "Profile", "checks", "debug_infs", "debug_nans", "explain", "profile"]


P = ParamSpec("P")
_F = TypeVar("_F", bound=Callable[..., Any])
_WIDTH = 120


class Debugging:
    """What `debug_nans`, `debug_infs` and `checks` return: a context, which may be entered again; or a decorator."""

    def __init__(self, what: str, start: Callable[[], AbstractContextManager[Any]]) -> None:
        self._what, self._start = what, start
        self._open: list[AbstractContextManager[Any]] = []
        self._used = False

    def __repr__(self) -> str:
        return f"<{self._what}>"

    def __del__(self) -> None:
        if not self._used:
            warnings.warn(f"{self._what}() by itself does nothing: write `with functrace.{self._what}():`", stacklevel=2)

    @edge.boundary
    def __enter__(self) -> None:
        self._used = True
        context = self._begin()
        context.__enter__()
        self._open.append(context)

    def __exit__(self, *raised: Any) -> None:
        try:
            self._open.pop().__exit__(*raised)
        except Exception as error:
            edge.trim(error)
            raise

    @edge.boundary
    def __call__(self, function: _F) -> _F:
        self._used = True

        @edge.wraps(function, self._what)
        def debugged(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            with self._begin():
                return function(*args, **kwargs)

        return debugged  # type: ignore[return-value]

    def of(self, f: Any) -> Any:
        """Itself, or the function that it stands above, as in `@debug_nans`."""
        self._used = f is not None
        if isinstance(f, bool):
            raise errors.CallError(f"{self._what} takes no {f}: it is a context.\n  Write with functrace.{self._what}():")
        return self if f is None else self(f)

    def _begin(self) -> AbstractContextManager[Any]:
        run = unwatched()
        if run:
            raise errors.CallError(
                f"{self._what} begins inside {run}, whose operations are recorded already, and are not seen.\n"
                f"  Put it around the call: with functrace.{self._what}(): {run}(...), or functrace.{self._what}({run})."
            )
        return self._start()


class _NonFinite(Watch):
    def __init__(self, noun: str, test: Callable[[Any], Any]) -> None:
        super().__init__()
        self.noun, self.test = noun, test

    def bad(self, x: Any) -> Any:
        """Where a value is bad; None if nowhere, or it holds no floats."""
        a = plain(x)
        if a is None or a.dtype.kind not in "fc":
            return None
        found = np.asarray(self.test(a))
        return found if found.any() else None

    def forward(self, op: Op, seconds: float) -> None:
        for x in op.ans if isinstance(op.ans, tuple) else (op.ans,):
            where = self.bad(x)
            if where is not None:
                if op.primitive.name == "call":
                    call = op.params[0]
                    f = getattr(call, "fwd", None) or call.f
                    self.inside(op, lambda leaves: f(*call.args(leaves)), op.args)
                batch = ", in a batch (axis 0 is the example)" if isinstance(op.trace, BatchTrace) else ""
                self.fail(f"{self.named(op.name)} made", where, x, f"At {op.line}{batch}.", self._arguments(op), "result")

    def named(self, name: str) -> str:
        """An op's name, and the op in whose rule it runs, if any."""
        return f"{name}, in a derivative of {self.applied.rules[-1][0].name}," if self.applied.rules else name

    def rule(self, op: Op, which: str, k: int | None, given: Any, result: Any, seconds: float) -> None:
        many = isinstance(result, (list, tuple))
        for j, d in enumerate(result if many else [result]):
            where = self.bad(d)
            if where is not None:
                if op.primitive.name == "call" and which == "reverse":
                    call, residuals = op.params
                    self.inside(op, lambda cts: call.pull(residuals, op.args, op.ans, cts), [bare(g) for g in given])
                of = f"the cotangent of argument {j if many else k}" if which == "reverse" else "the tangent of the result"
                seeds = given if isinstance(given, (list, tuple)) else [given]
                rows = [(f"the {'cotangent of the result' if which == 'reverse' else 'tangent of the argument'}", g) for g in seeds]
                head = f"the {which} rule of {op.name} made"
                ans = [("its result", op.ans)] if not isinstance(op.ans, tuple) else []
                self.fail(head, where, d, f"The op ran at {op.line}.", [*rows, *self._arguments(op), *ans], of, f" in {of}")

    def inside(self, op: Op, run: Callable[..., Any], given: Sequence[Any]) -> None:
        """Look for the op that made it in a function with a rule by hand, or in that rule: they run on plain arrays."""

        def again(*xs: Any) -> list[Any]:
            run(replaced(given, places, xs))
            return []

        places = [k for k, x in enumerate(given) if is_float(x)]
        try:
            record(again, [bare(given[k]) for k in places], repr(op.params[0]))
        except errors.NonFiniteError:
            raise
        except Exception:  # it can't be run again: then the call itself is all that is known
            return

    def value(self, name: str, ans: Any, where: str) -> None:
        found = self.bad(ans)
        if found is not None:
            self.fail(f"{self.named(name)} made", found, ans, f"At {line_of(*place()[:2])}, {where}.", [], "result")

    def node(self, name: str, line: str, given: Any, results: Sequence[Any]) -> None:
        for k, d in enumerate(results):
            found = self.bad(d)
            if found is not None:
                gs = [("the gradient of the result", getattr(g, "_a", g)) for g in (given if isinstance(given, (list, tuple)) else [given])]
                at = f"The operation ran at {line}." if line else "The operation ran before debugging was on."
                self.fail(f"{name} made", found, d, at, gs, f"the gradient of argument {k}", f" in the gradient of argument {k}")

    def _arguments(self, op: Op) -> list[tuple[str, Any]]:
        return [(f"argument {k}{'' if slot >= 0 else ', a constant'}", a) for k, (a, slot) in enumerate(zip(op.args, op.slots))]

    def fail(self, head: str, where: Any, x: Any, line: str, rows: Sequence[tuple[str, Any]], what: str, place: str = "") -> None:
        """Raise, with the operands and what was bad before."""
        index = tuple(int(i) for i in np.argwhere(where)[0])
        count = f" ({where.sum()} of {where.size} elements, the first at {list(index)})" if where.shape else ""
        lines = [f"{head} {self.noun}{place}{count}.", f"  {line}"]
        shown = []
        for name, a in rows[:6]:
            found = self.bad(a)
            here = ""
            if found is not None:
                here = f" - it has {self.noun} already" + ("" if "argument" in name else ": where several uses were added")
            elif where.shape and np.shape(bare(a)) == where.shape and np.size(bare(a)) > 6:
                here = f", there {bare(a)[index]}"
            shown.append(f"{name}: {show(a)}{here}")
        if sum(map(len, shown)) < 2 * _WIDTH:  # on one line: what is printed of an error should be short
            shown = ["; ".join(shown)] if shown else []
        lines += [f"  {row}" for row in shown]
        lines.append(f"  {what}: {show(x)}")
        lines.append("  Keep the operands where the op and its derivative are finite: np.where or np.maximum before it.")
        raise errors.NonFiniteError("\n".join(lines))


@contextmanager
def _watching(noun: str, test: Callable[[Any], Any]) -> Iterator[None]:
    with np.errstate(all="ignore"), watched(_NonFinite(noun, test), masked=True):
        yield


@overload
def debug_nans(f: None = None) -> Debugging: ...
@overload
def debug_nans(f: _F) -> _F: ...
@edge.boundary
def debug_nans(f: Any = None) -> Any:
    """Raise at the first op, forwards or backwards, that makes a NaN; to be used in `with`, or as a decorator of a function `f`.

    The error names the op, its operands and the line of your program; for a derivative, the line of the op that it belongs to. A NaN
    that a selection throws away, as in the derivative of `where(x > 0, sqrt(x), 0)`, does not count. Operations that are not traced are
    not watched: use `np.errstate(all="raise")` for those.

    Raises:
        errors.NonFiniteError: a NaN was made, or met in an op whose operand had one already, which the error then says.

    >>> import functrace as ft, numpy as np
    >>> with ft.debug_nans():
    ...     ft.grad(lambda x: np.sqrt(x) * 0.0)(0.0)
    Traceback (most recent call last):
    functrace.errors.NonFiniteError: the reverse rule of sqrt made a NaN in the cotangent of argument 0.
      The op ran at <doctest functrace.debug.debug_nans[1]>:2, in <lambda>.
      the cotangent of the result: float64[] = 0.; argument 0: float64[] = 0.; its result: float64[] = 0.
      the cotangent of argument 0: float64[] = nan
      Keep the operands where the op and its derivative are finite: np.where or np.maximum before it. [FT119, docs/errors.md]
    """
    return Debugging("debug_nans", lambda: _watching("a NaN", np.isnan)).of(f)


@overload
def debug_infs(f: None = None) -> Debugging: ...
@overload
def debug_infs(f: _F) -> _F: ...
@edge.boundary
def debug_infs(f: Any = None) -> Any:
    """Raise at the first op, forwards or backwards, that makes an infinity, in `with` or as a decorator of `f`: see `debug_nans`.

    >>> import functrace as ft, numpy as np
    >>> ft.debug_infs(ft.grad(np.exp))(2.0).round(3)
    np.float64(7.389)
    """
    return Debugging("debug_infs", lambda: _watching("an infinity", np.isinf)).of(f)


class _Checks(Watch):
    """Rules give what fits; what they look into has not changed; no traced value outlives its call."""

    def __init__(self) -> None:
        super().__init__()
        self.tracers: list[Any] = []

    def forward(self, op: Op, seconds: float) -> None:
        arrays = [bare(x) for x in (*op.args, *(op.ans if isinstance(op.ans, tuple) else (op.ans,)))]
        op.note = [(a, digest(a)) for a in arrays if isinstance(a, np.ndarray) and a.dtype.kind in "biufc"]

    def traced(self, tracer: Tracer) -> None:
        self.tracers.append(weakref.ref(tracer))

    def before(self, op: Op, which: str) -> None:
        super().before(op, which)
        for a, before in op.note or ():
            if digest(a) != before:
                raise errors.MutatedError(
                    f"an array ({errors.describe(a)}) that {op.name} used or made was changed before its derivative was computed.\n"
                    f"  The op ran at {op.line}.\n"
                    "  Something wrote to it: your code through a view of it, or a rule. Write to a copy."
                )

    def rule(self, op: Op, which: str, k: int | None, given: Any, result: Any, seconds: float) -> None:
        if which == "reverse":
            many = isinstance(result, (list, tuple))
            pairs = list(zip(range(len(op.args)), result, op.args)) if many else [(k, result, op.args[k or 0])]
        else:
            pairs = [] if isinstance(op.ans, tuple) else [(k, result, op.ans)]
        for j, d, x in pairs:
            if d is not None and hasattr(d, "shape") and hasattr(x, "shape") and not _fits(d, x):
                target = f"argument {j}" if which == "reverse" else "the result"
                raise errors.RuleError(
                    f"the {which} rule of {op.name} gave {errors.describe(d)} for {target}, which is {errors.describe(x)}.\n"
                    f"  The op ran at {op.line}.\n"
                    "  A rule's result has the shape and dtype of what it belongs to, or broadcasts from it or to it."
                )

    def leaks(self) -> list[Tracer]:
        gc.collect()
        return [t for t in (ref() for ref in self.tracers) if t is not None and t.owner.closed]


def _fits(d: Any, x: Any) -> bool:
    try:
        shape = np.broadcast_shapes(d.shape, x.shape)
    except ValueError:
        return False
    return shape in (d.shape, x.shape) and (np.can_cast(d.dtype, x.dtype, "same_kind") or d.dtype.kind == "c")


@contextmanager
def _checking() -> Iterator[None]:
    watch = _Checks()
    with watched(watch):
        yield
    left = watch.leaks()
    if left:
        first, many = left[0], len(left) > 1
        raise errors.LeakedTracerError(
            f"{len(left)} traced value{'s outlive the calls' if many else ' outlives the call'} that made {'them' if many else 'it'}: "
            f"{errors.describe(first)} of {first.owner.what}.\n"
            f"  It was made at {line_of(first.code, first.lasti) or 'the call itself: it is an argument'}.\n"
            "  Return it from the function (has_aux=True carries extra results out), or keep functrace.value(x), a plain array."
        )


@overload
def checks(f: None = None) -> Debugging: ...
@overload
def checks(f: _F) -> _F: ...
@edge.boundary
def checks(f: Any = None) -> Any:
    """Check, while the context lasts, what the library takes for granted; to be used in `with`, or as a decorator of a function `f`.

    These are: every rule returns a result of the right shape and dtype; no array that a rule needs has been changed; and, when the
    context ends, no traced value is left over from a call that has ended.

    Raises:
        errors.RuleError: a rule gave a result of the wrong shape or dtype.
        MutatedError: an array was changed under the tape.
        LeakedTracerError: a traced value is still held.

    >>> import functrace as ft
    >>> kept = []
    >>> with ft.checks():
    ...     ft.grad(lambda x: kept.append(x * 2) or x)(1.0)
    Traceback (most recent call last):
    functrace.errors.LeakedTracerError: 1 traced value outlives the call that made it: float64[] of grad(<lambda>).
      It was made at <doctest functrace.debug.checks[2]>:2, in <lambda>.
      Return it from the function (has_aux=True carries extra results out), or keep functrace.value(x), a plain array. [FT107, docs/errors.md]
    """  # noqa: E501
    return Debugging("checks", _checking).of(f)


def _ones(what: str, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, list[Any], Any]:
    """The result of `f`, its floating-point leaves, and the gradient of their sum with respect to all arguments that vary."""
    result = None

    @edge.wraps(f, what)
    def leaves(xs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        nonlocal result
        result = f(*xs, **kwargs)
        refuse_tensors(f"{what}({name_of(f)})", tree.leaves(result), "Return x.numpy().")
        return [x for x in tree.leaves(result) if hasattr(x, "dtype") and x.dtype.kind in "fc"]

    keys = [k for k, x in enumerate(args) if any(map(varies, tree.leaves(x)))]
    flat = Flat(what, leaves, args, kwargs, keys or range(len(args)))
    run = Run(f"{what}({name_of(f)})", flat, False)
    return result, run.out, tuple(flat.rebuild(run.pull([np.ones(np.shape(y), y.dtype)[()] for y in run.out])))


@edge.boundary
def explain(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """What `grad(f)(*args)` does, op by op, with its numbers: print it, or `save("page.html")` a page that steps.

    Forwards each op with its operands, its value and, where it works element by element, the local derivative; backwards what
    cotangent arrives at it, and what it hands to each operand. All float arguments are differentiated, others passed on; an
    output that is not one number is summed.

    Args:
        f: a function of pytrees of arrays.
        *args: where to run it. Keyword arguments are passed on, not differentiated.

    Returns:
        An `Explanation`: `text()`; `to_html()`, `save(path)`, and in a notebook itself, the page that steps forwards and backwards with
        buttons, slider or arrow keys; `forward`, `reverse` and `gradient`, its steps as data.

    >>> import functrace as ft, numpy as np
    >>> print(ft.explain(lambda x, y: x * np.sin(y), 2.0, 0.0).text(lines=False))
    forward
      x = 2.
      y = 0.
      %2 = sin(y) = 0.   d/dy = 1.
      %3 = multiply(x, %2) = 0.   d/dx = 0.   d/d%2 = 2.
    reverse
      %3 gets 1. : x += 0., %2 += 2.
      %2 gets 2. : y += 2.
    gradient
      x : 0.
      y : 2.
    """
    edge.check_call("explain(f, *args)", f, args=args or kwargs)
    refuse_tensors(f"explain({name_of(f)})", tree.leaves((args, kwargs)), "functrace.draw(f(x)) draws a tensor's history.")
    recording = Recording(f, args, kwargs)
    with np.errstate(all="ignore"), watched(recording, masked=True):
        _, out, grads = _ones("explain", f, args, kwargs)
    return Explanation(recording, out, grads)


@edge.transform
def profile(f: Callable[P, Any]) -> Callable[P, Profile]:
    """A function that runs `f` and tells where time and memory went: by op, and by line of your program, forwards and backwards.

    A function in which nothing is traced is measured together with its derivative; `profile(ft.grad(loss))(x)` measures exactly that
    gradient. A jitted function is shown twice: op by op, as Python runs it, and as the compiled program, with the ops that each of its
    loops does at once. `str` of the result is a table, and `result` is what `f` returned. Measuring slows small ops down, each by the
    same time, which is not counted as theirs.

    >>> import functrace as ft, numpy as np
    >>> found = ft.profile(ft.grad(lambda x: np.sum(np.sin(x) ** 2)))(np.ones(1000))
    >>> sorted(row.name for row in found.by_op())
    ['sin', 'square', 'sum']
    >>> found.total("forward") > 0 and found.total("reverse") > 0
    True
    """

    @edge.wraps(f, "profile")
    def profiled(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Profile:
        refuse_tensors(f"profile({name_of(f)})", tree.leaves((args, kwargs)), "Use Python's cProfile for what tensors do.")
        found = Profile()
        start = time.perf_counter()
        with watched(found):
            found.result = f(*args, **kwargs)
            if not found.entries and any(is_float(x) or type(x) in (float, complex) for x in tree.leaves(args)):
                start = time.perf_counter()
                found.result = tree.map(
                    lambda x: np.array(bare(x))[()] if isinstance(x, Tracer) else x, _ones("profile", f, args, kwargs)[0]
                )
        found.seconds = time.perf_counter() - start
        found.finish()
        return found

    return profiled


__dir__ = edge.own_names(globals())
