"""`jit`: record a function once for each signature and each way through its `if`s, and from then on run the programs.

A call is looked up by its signature: the tree of its arguments, the shapes and dtypes of arrays, the types of Python numbers, and
the values of all else. A signature has a tree of paths: a path is a program, and its guards tell when it is not the one to run.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import numpy as np

import functrace.compile.bodies  # noqa: F401  # control flow, for programs
from functrace import edge, errors, tree
from functrace.compile.bindings import Bindings, drawn, watched
from functrace.compile.capture import Captured, capture
from functrace.compile.nesting import call_traced, remembered
from functrace.compile.paths import Path, Variant
from functrace.compile.program import GuardError, Program
from functrace.core.tracer import Tracer
from functrace.operands import unwrapped
from functrace.ops import blank
from functrace.places import level, user_line
from functrace.pool import Recycled, owned
from functrace.transforms.arguments import check_taken, listed, made_name, name_of, positional
from functrace.transforms.tracing import argument_names, replaced
from functrace.transforms.wrapped import Wrapped

P = ParamSpec("P")
R = TypeVar("R")

PATHS = 16  # recorded ways through one signature, from which on it runs without being recorded
_NUMBERS = frozenset((int, float, complex))
_ARRAYS = (np.ndarray, np.generic)
_TEXTS = (str, bytes)  # NumPy has scalars of these, too
_SINGULAR = "divide reciprocal power float_power sqrt log log2 log10 log1p arctanh call".split()  # what makes infinities in derivatives
_RETURNED = (np.ndarray, np.generic, int, float, complex, bool, str, bytes)


class _Text(str):
    """Text that is for people: a session shows it as `print` does."""

    __slots__ = ()
    __repr__ = str.__str__


class Jitted(Wrapped[P, R]):
    """A function that is recorded once for each signature, and then replayed: what `jit` returns.

    >>> import functrace as ft, numpy as np
    >>> double = ft.jit(lambda x: x * 2)
    >>> double(np.ones(2)), double(np.zeros(2)), double(np.ones(3))
    (array([2., 2.]), array([0., 0.]), array([2., 2., 2.]))
    >>> double.cache_info()  # "hits" are replays, "eager" calls that were not compiled
    {'signatures': 2, 'paths': 2, 'hits': 1, 'recorded': 2, 'eager': 0}
    """

    def __init__(
        self,
        fun: Callable[P, R],
        static_argnums: Sequence[int],
        static_argnames: Sequence[str],
        paths: int,
        no_retrace: bool,
        donate_argnums: Sequence[int] = (),
    ) -> None:
        super().__init__(fun)
        self.static_argnums, self.static_argnames, self.max_paths, self.no_retrace = static_argnums, static_argnames, paths, no_retrace
        self.donate_argnums = donate_argnums
        self._variants: dict[Any, Variant] = {}
        self._lock = threading.RLock()
        self._log: deque[str] = deque(maxlen=256)
        self._counts = {"hits": 0, "recorded": 0, "eager": 0}
        self._warned = self._handles = False
        self._derived: dict[Any, Jitted[..., Any]] = {}  # what `nesting` makes of it

    def _another(self, function: Callable[..., Any]) -> Jitted[..., Any]:
        """A function jitted with the same options."""
        return Jitted(function, (), (), self.max_paths, self.no_retrace)

    def _made_of(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self.fun, self.static_argnums, self.static_argnames, self.max_paths, self.no_retrace, self.donate_argnums), {}

    def __repr__(self) -> str:
        return f"<jit({made_name(self.fun)})>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            call, statics = self._split(args, kwargs) if self.static_argnums or self.static_argnames else ((args, kwargs), ())
            leaves, treedef = tree.called(*call)
            specs: list[Any] = []
            inputs: list[Any] = []
            others: list[Any] = []
            if statics:  # objects among them that are no values
                others += [y for s in statics for y in tree.leaves(s[1]) if callable(y) or y.__class__.__hash__ is object.__hash__]
            for x in leaves:
                t = type(x)
                if t is np.ndarray:
                    specs.append((x.shape, x.dtype))
                    inputs.append(x)
                elif t in _NUMBERS:
                    specs.append(t)
                    inputs.append(x)
                elif isinstance(x, np.generic) and not isinstance(x, _TEXTS):
                    specs.append(x.dtype)
                    inputs.append(x)
                elif isinstance(x, np.ndarray):
                    x = unwrapped(x).view(np.ndarray)
                    specs.append((t, x.shape, x.dtype))
                    inputs.append(x)
                elif isinstance(x, Tracer):
                    return call_traced(self, args, kwargs)  # type: ignore[no-any-return]
                else:
                    specs.append((tree.exact(x), _hashable(x)))
                    others.append(x)
            key = (treedef, *map(tuple, treedef.orders.values()), tuple(specs), statics)  # dicts of another order may give other results
            variant = self._variants.get(key)
            if variant is None:
                variant = remembered(self._variants, key, Variant(others), self._lock)
            if variant.reason is not None:
                self._counts["eager"] += 1
                return self._plainly(args, kwargs)  # type: ignore[no-any-return]
            stale = variant.stale()  # before the path is looked up: another thread may record a new one in between
            path = variant.last
            if path is None:
                why = self._new(leaves, statics)
            elif stale is not None:
                with self._lock:
                    variant.clear()
                why = f": {stale}"
            else:
                tried: list[Path] = []
                broken: Exception | None = None
                while path is not None and path not in tried:
                    try:
                        out = path.run(inputs) if self.donate_argnums else path.executable(inputs)
                    except GuardError as failed:
                        number, now = failed.number, failed.found
                        tried.append(path)
                        path = variant.sibling(path, number, now)
                        continue
                    except Exception as error:
                        broken = error
                    if broken is not None:  # no longer in the `except`: what is raised below has nothing to do with it
                        if path.executable.overwritten:
                            raise broken
                        return self._eager(variant, args, kwargs, f"it catches {broken!r}")  # type: ignore[no-any-return]
                    if tried:
                        with self._lock:  # the next call begins with it, unless it was forgotten meanwhile
                            variant.last = path if path in variant.paths else variant.last
                    self._counts["hits"] += 1
                    return tree.built(path.outdef, out)  # type: ignore[no-any-return]
                why = f" took a new path: {tried[-1].left(number, now)}"
            return self._record(variant, leaves, treedef, args, kwargs, others, name_of(self.fun) + why)  # type: ignore[no-any-return]
        except Exception as error:
            edge.trim(error)
            raise

    def _new(self, leaves: list[Any], statics: tuple[Any, ...]) -> str:
        """The reason for recording a new signature, for `explain`."""
        told = [type(x).__name__ if type(x) in _NUMBERS else errors.short(x) for x in leaves]
        told += [f"{dict(enumerate(self._places)).get(k, k)}={errors.short(x)}" for k, x, *_ in statics]
        return f": a new signature, {', '.join(told)}"

    @functools.cached_property
    def _places(self) -> list[str]:
        return positional(self.fun)

    def _split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
        """The arguments that are not static, and those that are."""
        numbers = {k % len(args) for k in self.static_argnums if -len(args) <= k < len(args)}
        names = set(self.static_argnames)
        numbers |= {k for k, name in enumerate(self._places[: len(args)]) if name in names}
        names |= {self._places[k] for k in self.static_argnums if -len(self._places) <= k < len(self._places)}
        fixed = [(k, args[k]) for k in sorted(numbers)] + [(k, kwargs[k]) for k in sorted(kwargs) if k in names]
        moving = tuple(None if k in numbers else a for k, a in enumerate(args)), {k: v for k, v in kwargs.items() if k not in names}
        for k, x in fixed:
            try:
                hash(x)
            except TypeError:
                found = f"a traced value of {x.owner.what}" if isinstance(x, Tracer) else f"a {type(x).__name__}, which can't be hashed"
                raise errors.CallError(
                    f"jit({name_of(self.fun)}): the static argument {k!r} is {found}.\n"
                    f"  Static arguments are looked up by value: pass a tuple, or do not declare it static."
                ) from None
        return moving, tuple([(k, x, *map(tree.exact, tree.leaves(x))) for k, x in fixed])

    def _record(
        self, variant: Variant, leaves: list[Any], treedef: Any, args: tuple[Any, ...], kwargs: dict[str, Any], others: list[Any], why: str
    ) -> Any:
        name = name_of(self.fun)
        recorded = self._counts["recorded"]
        if self.no_retrace and recorded:
            raise errors.RetraceError(
                f"jit({name}) was told not to record again: {why}.\n  At {user_line(3)}.\n"
                "  Call it with shapes and dtypes that it was recorded with, or leave out no_retrace."
            )
        self._log.append(why)
        if len(variant.paths) >= self.max_paths or variant.recorded >= 8 * self.max_paths:
            variant.clear()
            return self._eager(
                variant, args, kwargs, f"it took more than {self.max_paths} paths, or what it reads keeps changing; the last time {why}"
            )
        before = Bindings(self.fun, *others)
        if before.traced:
            return tree.map(blank.apart, self._plainly(args, kwargs))
        if before.closed:
            return self._eager(variant, args, kwargs, before.closed)
        contents = watched((), before.arrays)
        state = drawn()
        places = [k for k, x in enumerate(leaves) if type(x) in _NUMBERS or isinstance(x, _ARRAYS) and not isinstance(x, _TEXTS)]
        captured = None
        try:
            captured, outdef = self._captured(leaves, treedef, places, args, kwargs)
        except (errors.UnsupportedError, errors.ConversionError, errors.ArrayStoreError, AttributeError, IndexError, TypeError) as error:
            why = f"it can't be recorded: {error.args[0] if error.args else error}"
        finally:
            after = Bindings(self.fun, *others)  # with what it made for itself
            kept = after.settled(before)
        if captured is None:
            return self._eager(variant, args, kwargs, why)  # or its own error
        self._counts["recorded"] += 1
        variant.recorded += 1
        outputs = tree.unflatten(outdef, _own(captured.outputs, leaves, () if captured.program is None else captured.program.consts))
        if captured.program is None:  # it closes over a traced value: this run was right, and there is nothing to replay
            return outputs
        strange = next((x for x in captured.outputs if not isinstance(x, _RETURNED)), None)
        if strange is not None:
            return self._eager(variant, args, kwargs, f"it returns a {type(strange).__name__}, which is not an array or a number")
        reason = captured.unfit(variant.recorded, contents, outdef.orders.values()) or after.closed or None
        if kept:
            reason = f"it keeps a traced value in {kept}"
        if before.drew() or state != drawn():
            reason = "it draws random numbers"
        variant.side_effects, variant.used, again = after.since(before, variant.used)
        if again is not None:
            reason = f"it reads {again}, and sets it each time"
        if reason is not None:
            self._refuse(variant, reason)
        else:
            path = Path(captured.program, outdef, captured.asked, self._donated(treedef, leaves, places))
            self._keep(variant, captured, after, path)
        return outputs

    def _captured(
        self, leaves: list[Any], treedef: Any, places: list[int], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Captured, Any]:
        """A recorded run, the leaves at `places` its inputs, and the structure of its result."""
        outdef: list[Any] = []

        def run(*inputs: Any) -> list[Any]:
            positional, keywords = tree.unflatten(treedef, replaced(leaves, places, inputs))
            positional = tuple([args[k] if x is None else x for k, x in enumerate(positional)])  # the static ones
            out, structure = tree.flatten(self.fun(*positional, **{**kwargs, **keywords}))
            outdef.append(structure)
            return out

        names = argument_names(self.fun, *tree.unflatten(treedef, leaves))
        found = capture(run, [leaves[k] for k in places], f"jit({name_of(self.fun)})", [names[k] for k in places])
        return found, outdef[0]

    def _keep(self, variant: Variant, captured: Captured, bindings: Bindings, path: Path) -> None:
        """Add a recorded path, and what is to be looked at before it is replayed."""
        if captured.handling and ("errstate" in bindings.names or path.program.has(*_SINGULAR)):
            path.executable.function = np.errstate(**captured.handling)(path.executable.function)
        with self._lock:
            variant.bindings = bindings
            variant.arrays = list({id(w.array): w for w in (*variant.arrays, *watched(captured.sources, bindings.arrays, True))}.values())
            variant.paths = [*(p for p in variant.paths if not p.like(path)), path]  # another thread may have recorded it
            variant.last = path

    def _donated(self, treedef: Any, leaves: list[Any], places: list[int]) -> list[int]:
        """The numbers of the inputs that belong to donated arguments."""
        counts = [tree.structure(x).num_leaves for x in tree.unflatten(treedef, leaves)[0]] if self.donate_argnums else []
        ends = np.cumsum(counts)
        given = {k for n in self.donate_argnums if -len(counts) <= n < len(counts) for k in range(ends[n] - counts[n], ends[n])}
        return [number for number, k in enumerate(places) if k in given]

    def _eager(self, variant: Variant, args: tuple[Any, ...], kwargs: dict[str, Any], reason: str) -> Any:
        out = self._plainly(args, kwargs)
        self._refuse(variant, reason)
        return out

    def _plainly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`f` run by Python, on copies of its arrays, its results copied: as with a program, they share no memory with the arguments."""
        if not self._handles:
            try:
                copied = tree.map(_copied, (args, kwargs))
                return tree.map(_copied, self.fun(*copied[0], **copied[1]))
            except AttributeError as error:
                if error.name != "at" or not isinstance(error.obj, np.ndarray):
                    raise
            self._handles = True  # arrays that have it
        return tree.map(_copied, blank.run(self.fun, args, kwargs))

    def _refuse(self, variant: Variant, reason: str) -> None:
        variant.reason = reason
        self._log.append(f"{name_of(self.fun)} runs without being compiled: {reason}")
        if not self._warned:
            self._warned = True
            warnings.warn(f"jit({name_of(self.fun)}) runs without being compiled: {reason}", errors.JitWarning, stacklevel=level())

    def clear_cache(self) -> None:
        """Forget all programs, and give back their memory and locks."""
        with self._lock:
            self._variants, self._derived = {}, {}

    cache_clear = clear_cache  # as `functools` calls it

    def _all(self) -> list[Variant]:
        return list(self._variants.copy().values())  # another thread may add to it

    def cache_info(self) -> dict[str, int]:
        """How many signatures and paths there are, how often one was replayed, recorded, or run without either."""
        variants = self._all()
        return {"signatures": len(variants), "paths": sum(len(v.paths) for v in variants), **self._counts}

    def explain(self) -> str:
        """Why the function was recorded, each time; what runs without being compiled; what it does beside returning results."""
        effects = sorted({b.name for v in self._all() if v.reason is None for b in v.side_effects})
        lines = [f"{k + 1}. {why}" for k, why in enumerate(self._log.copy())]
        return _Text("\n".join(lines + [f"It sets {name}: done once, when it is recorded." for name in effects]))

    def programs(self) -> list[Program]:
        """The programs as they were recorded."""
        return [path.program for v in self._all() for path in v.paths]

    def show(self) -> str:
        """The programs as they run, and the passes that made them: see `functrace.compile.passes`."""
        return _Text("\n\n".join(path.executable.text for v in self._all() for path in v.paths))


def _hashable(x: Any) -> Any:
    try:
        hash(x)
    except TypeError:
        return id(x)  # which no other object gets: the variant keeps it
    return x


def _copied(x: Any) -> Any:
    return np.array(x, subok=True) if isinstance(x, np.ndarray) else x


def _own(outputs: Sequence[Any], inputs: Sequence[Any], consts: Sequence[Any]) -> list[Any]:
    """Results as the caller's own: no memory in common with arguments, constants or each other."""
    whole = [x if type(x) in (np.ndarray, Recycled) or not isinstance(x, np.ndarray) else np.array(x) for x in outputs]
    return owned(whole, (*inputs, *consts))


@overload
def jit(
    f: Callable[P, R],
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    max_paths: int = PATHS,
    no_retrace: bool = False,
    donate_argnums: int | Sequence[int] = (),
) -> Jitted[P, R]: ...
@overload
def jit(
    f: None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    max_paths: int = PATHS,
    no_retrace: bool = False,
    donate_argnums: int | Sequence[int] = (),
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
@edge.boundary
def jit(
    f: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    max_paths: int = PATHS,
    no_retrace: bool = False,
    donate_argnums: int | Sequence[int] = (),
) -> Any:
    """`f`, recorded on its first call and from then on replayed as one flat NumPy program.

    The first call with a new signature runs `f`, on its arguments, and returns what it returns; so does a call that takes another
    way through `f`'s `if`s. All others run the recorded program. A signature is the structure of the arguments, the shapes and dtypes
    of arrays, the types of Python numbers (whose values are free), and the values of everything else.

    Args:
        f: a function of pytrees, plain or made by `grad`, `vmap` and the like. Without it, a decorator with these options.
        static_argnums, static_argnames: arguments that are part of the signature, by value; they must be hashable.
        max_paths: how many ways through one signature are recorded. Past it `f` runs as it is, after one `JitWarning`.
        no_retrace: raise `RetraceError` where `f` would be recorded a second time.
        donate_argnums: arguments that the caller gives away: results may be written into their arrays, which saves the memory, and the
            time to take it. Don't look at them afterwards. An array that is read-only, a view, or passed twice is not written to.

    Returns:
        A function with `f`'s arguments and `cache_info()`, `explain()` (why it was recorded, each time), `programs()`, `show()` (the
        code that runs) and `clear_cache()`. Its results share no memory with arguments, constants or earlier results. Under `grad`,
        `jvp` and `vmap` its rules are jitted too; inside another `jit` it joins that program.

    Before every call, what `f` reads beside its arguments is compared with what it was: closure variables, globals, attributes of
    objects, of classes and of the program's own modules, items, the environment; arrays up to 256 kB by all elements, larger ones by 64
    of them (those that the program uses are locked, so that a write raises). If anything changed, `f` is recorded anew. Changes inside
    other libraries, in files and of clocks are not noticed. Side effects (printing, appending to a list) happen when `f` is recorded,
    and `explain` names the variables it sets. `f` is not compiled, and runs as it is, on copies of its arguments, if it draws random
    numbers, takes from an iterator, reads more than 16384 objects, writes to an outer array, keeps a computed value outside, changes in
    each call a variable or container that it also reads, catches an error of an operation, or sets `np.errstate` to more than "ignore"
    (which holds for the whole program).

    Raises:
        RetraceError: see `no_retrace`.
        ArgnumsError: an option names an argument that `f` does not take.
        CallError: `f` is no function, or `max_paths` no whole number.

    >>> import functrace as ft, numpy as np
    >>> g = ft.jit(ft.grad(lambda x: x * x if x > 0 else -x))
    >>> g(3.0), g(-1.0), g(5.0)
    (np.float64(6.0), np.float64(-1.0), np.float64(10.0))
    >>> g.cache_info()["recorded"]
    2
    """
    if f is not None and not callable(f):
        edge.wraps(f, "jit")  # which refuses it
    if f is None:
        return functools.partial(
            jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            max_paths=max_paths,
            no_retrace=no_retrace,
            donate_argnums=donate_argnums,
        )
    if not isinstance(max_paths, int) or max_paths < 0:
        raise errors.CallError(
            f"jit({name_of(f)}): max_paths must be a whole number, got {max_paths!r}.\n  Leave it out for {PATHS}; 0 is to compile nothing."
        )
    numbers = listed("jit", f, "static_argnums", static_argnums, int)
    names = listed("jit", f, "static_argnames", static_argnames, str)
    donated = listed("jit", f, "donate_argnums", donate_argnums, int)
    for option, keys in (("static_argnums", numbers), ("static_argnames", names), ("donate_argnums", donated)):
        if keys:
            check_taken(f, option, keys)
    if set(donated) & set(numbers):
        raise ValueError(f"jit({name_of(f)}): the arguments {sorted(set(donated) & set(numbers))} are both static and donated")
    return Jitted(f, numbers, names, max_paths, no_retrace, donated)
