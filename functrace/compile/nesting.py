"""Jitted functions on traced values: under `grad`, `jvp` and `vmap` a call is one operation, and its rules are jitted too.

Inside another `jit`, and where values are traced several times over, the function simply runs: its operations join the outer program,
or the outer tapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrace import errors, tree
from functrace.compile.bindings import Bindings, Watched, watched
from functrace.core.batch import BatchTrace
from functrace.core.tape import TapeTrace
from functrace.core.tracer import Tracer
from functrace.ops.blank import apart, own
from functrace.transforms.arguments import name_of
from functrace.transforms.batching import ByLeaf, inlines, vmap
from functrace.transforms.calls import Call, floats
from functrace.transforms.derivatives import jvp, vjp
from functrace.transforms.tracing import ProgramTrace, replaced

SIGNATURES = 512  # remembered


def remembered(cache: dict[Any, Any], key: Any, new: Any, lock: Any) -> Any:
    """The entry of a cache for a key, set to `new` if there is none; of many entries the oldest goes."""
    with lock:
        if len(cache) >= SIGNATURES:
            del cache[next(iter(cache))]
        return cache.setdefault(key, new)


class JitCall(Call):
    """A call of a jitted function; `derived(key, make)` gives a jitted function that is made from it once."""

    what = "jit"

    def __init__(self, function: Any, treedef: Any, f: Any, jitted: Any, key: Any, bindings: Bindings) -> None:
        super().__init__(function, treedef, f)
        self.jitted, self.key, self.bindings = jitted, key, bindings

    def _derived(self, what: str, moving: Sequence[int], make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
        key = (what, self.key, self.treedef, tuple(moving))
        known = self.jitted._derived
        return known.get(key) or remembered(known, key, self.jitted._another(make()), self.jitted._lock)  # type: ignore[no-any-return]

    def evaluate(self, leaves: Sequence[Any]) -> Any:
        if any(isinstance(x, Tracer) for x in leaves):
            return self.f(*self.args(leaves))
        return self._derived("call", (), lambda: self.f)(*self.args(leaves))

    def forward(self, leaves: Sequence[Any], mine: Sequence[bool]) -> tuple[Any, Any]:
        arrays = watched((), self.bindings.arrays)
        return self.evaluate(leaves), arrays

    @property
    def refused(self) -> bool:
        """Whether the function was found not to be one that can be recorded."""
        made = self.jitted._derived.get(("call", self.key, self.treedef, ()))
        return made is not None and any(v.reason for v in made._all())

    def _check(self, arrays: Sequence[Watched]) -> None:
        """Refuse to run the function once more, for its derivative, where it would be another; what it sets itself does not count."""
        changed = {f"an array that it reads, {w.name}," for w in arrays if w.changed()}
        if self.bindings.changed():
            own = [b for made in self.jitted._derived.copy().values() for v in made._all() for b in v.side_effects]
            changed |= {b.name for b in self.bindings.bindings if b.changed() and not any(map(b.is_that, own))}
        if changed:
            raise errors.MutatedError(
                f"jit({name_of(self.function)}): {min(changed)} has changed since the call, whose derivative runs the function once more.\n"
                f"  Pass it as an argument."
            )

    def _flat(self, moving: Sequence[int]) -> Callable[..., Callable[..., list[Any]]]:
        """The function of some leaves, given all; it holds no `jitted`, which holds what is derived from it."""
        f, treedef = self.f, self.treedef
        return lambda leaves: lambda *xs: _numbers(tree.leaves(f(*tree.unflatten(treedef, replaced(leaves, moving, xs)))))

    def reverse(self, residuals: Any, leaves: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        self._check(residuals)
        moving = floats(leaves)
        flat = self._flat(moving)

        def pulled(leaves: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            return list(vjp(flat(leaves), *(leaves[k] for k in moving))[1](list(cts)))

        return replaced([None] * len(leaves), moving, self._derived("reverse", moving, lambda: pulled)(list(leaves), _numbers(cts)))

    def tangent(self, residuals: Any, leaves: Sequence[Any], ans: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        self._check(residuals)
        moving = [k for k in floats(leaves) if ts[k] is not None]
        flat = self._flat(moving)

        def pushed(leaves: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
            return list(jvp(flat(leaves), [leaves[k] for k in moving], ts)[1])

        return self._derived("tangent", moving, lambda: pushed)(list(leaves), [ts[k] for k in moving])  # type: ignore[no-any-return]

    def batched(self, size: int, leaves: Sequence[Any], flags: Sequence[bool]) -> Any:
        """The call of the mapped function; what has no batch stays as it is, a Python number too."""
        return self.mapped(ByLeaf(0 if b else None for b in flags))(leaves)

    def mapped(self, axes: ByLeaf) -> Call:
        key = (self.key, "vmap", axes.axes)
        return JitCall(self.function, self.treedef, vmap(self.f, axes), self.jitted, key, self.bindings)


def _numbers(xs: Sequence[Any]) -> list[Any]:
    """Results, or their cotangents, without text, which has none."""
    return [0.0 if isinstance(x, str) else x for x in xs]


def call_traced(jitted: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call of a jitted function of which some argument is traced."""
    leaves, treedef = tree.called(args, kwargs)
    fun = jitted.fun

    def call(*given: Any) -> Any:  # what it writes to, or returns, is none of the caller's
        leaves, form = tree.flatten(given)
        args, kwargs = tree.unflatten(form, own(leaves))
        return tree.map(apart, fun(*args, **kwargs))

    traces = [x.owner for x in leaves if isinstance(x, Tracer)]
    newest = max(traces, key=lambda trace: trace.id)
    alone = all(trace is newest for trace in traces) and not any(isinstance(x.below, Tracer) for x in leaves if isinstance(x, Tracer))
    differentiates = isinstance(newest, (BatchTrace, TapeTrace)) and not isinstance(newest, ProgramTrace) and not inlines.get()
    inexact = all(hasattr(x, "dtype") or isinstance(x, (int, float, complex, bool)) for x in leaves)
    static = jitted.static_argnums or jitted.static_argnames
    if not (alone and differentiates and inexact) or static or (bindings := Bindings(jitted.fun)).traced or bindings.closed:
        return call(args, kwargs)
    one = JitCall(jitted.fun, treedef, call, jitted, (*map(tuple, treedef.orders.values()),), bindings)
    out = None if one.refused else one(leaves)
    return call(args, kwargs) if one.refused else out  # a function that draws random numbers, say, would draw others the second time
