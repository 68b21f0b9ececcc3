"""How running derivatives are watched: every op and every rule is seen, with the user's line, while a watch is on.

Nothing in the engine asks whether it is watched. While a watch is on, new traces are of a class whose tracers do not take the short way
through the ops, and whose tape holds the same primitives with their rules wrapped. Jitted functions run as Python then, and so do
the steps of a scan, so that each op has its line.
"""

from __future__ import annotations

import copy
import functools
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any

import numpy as np

from functrace import edge, errors, tree
from functrace.compile import jit
from functrace.compile.capture import capture
from functrace.core.batch import BatchTrace
from functrace.core.primitive import GENERAL, INPLACE, Primitive, bind
from functrace.core.tape import TapeTrace, record, recorder
from functrace.core.tracer import BatchTracer, TapeTracer, Tracer, bare
from functrace.places import is_user_file, line_of
from functrace.transforms import masks
from functrace.transforms.calls import is_float
from functrace.transforms.control_body import by_python
from functrace.transforms.tracing import replaced

_watches: ContextVar[tuple[Watch, ...]] = ContextVar("watches", default=())


def place() -> tuple[Any, int, int]:
    """Where the program is: code and instruction of the user's line, and the instruction in what that calls.

    Inside a rule of ours it is the line of the op that the rule belongs to.
    """
    frame: Any = sys._getframe(1)
    below = frame
    while frame is not None and not is_user_file[frame.f_code.co_filename]:
        if frame.f_code is _TOLD:
            op = frame.f_locals["op"]
            return op.code, op.lasti, op.within
        below, frame = frame, frame.f_back
    return (None, 0, 0) if frame is None else (frame.f_code, frame.f_lasti, below.f_lasti)


class Op:
    """One op that ran: what, where in the user's program, on what, and what came out. `note` is for a watch."""

    __slots__ = ("ans", "args", "code", "lasti", "note", "out", "params", "primitive", "slots", "trace", "within")

    def __init__(self, primitive: Any, args: Sequence[Any], ans: Any, params: Any, slots: Any, out: int, trace: Any) -> None:
        self.primitive, self.args, self.ans, self.params = primitive, args, ans, params
        self.slots, self.out, self.trace = slots, out, trace
        self.note: Any = None
        self.code, self.lasti, self.within = place()

    @property
    def line(self) -> str:
        """`file.py:12, in f`."""
        return line_of(self.code, self.lasti)

    @property
    def name(self) -> str:
        """Name of the op; of a call with a rule of its own, what it calls."""
        return repr(self.params[0]) if self.primitive.name == "call" else self.primitive.name


class Applied(threading.local):
    """The rules that are being applied in this thread: op and direction of each, the innermost last."""

    def __init__(self) -> None:
        self.rules: list[tuple[Op, str]] = []


class Watch:
    """What is told of ops and rules. Times are in seconds, without those of ops that ran inside."""

    def __init__(self) -> None:
        self.applied = Applied()

    def forward(self, op: Op, seconds: float) -> None:
        """An op has run."""

    def before(self, op: Op, which: str) -> None:
        """A rule of an op is about to be applied: `which` is "reverse" or "forward"."""
        self.applied.rules.append((op, which))

    def after(self, op: Op) -> None:
        """The rule of an op that was announced is over, by an error perhaps."""
        self.applied.rules.pop()

    def rule(self, op: Op, which: str, k: int | None, given: Any, result: Any, seconds: float) -> None:
        """A rule was applied: `which` is "reverse" or "forward"; k says of which argument, None of all."""

    def value(self, name: str, ans: Any, where: str) -> None:
        """An op of `functrace.torch` has run."""

    def jitted(self, function: Any, args: Any, kwargs: Any) -> None:
        """A jitted function is called: it runs as Python while it is watched."""

    def node(self, name: str, line: str, given: Any, results: Sequence[Any]) -> None:
        """A node of `functrace.torch` was run backwards; `line` is that of its forward operation."""

    def traced(self, tracer: Tracer) -> None:
        """A traced value was made."""


class WatchedTracer(TapeTracer):
    """Not a `TapeTracer` to the short ways, which compare the class, but to all who ask."""

    __slots__ = ()


def unwatched() -> str:
    """What is being recorded around here, by a trace that was begun before any watch; empty if nothing is."""
    frame: Any = None if _watches.get() else sys._getframe(1)
    while frame is not None:
        if frame.f_code in (record.__code__, capture.__code__) and not isinstance(frame.f_locals.get("trace"), WatchedTrace):
            return str(frame.f_locals["what"])
        frame = frame.f_back
    return ""


class _Clock(threading.local):
    inside = 0.0  # what ops inside the one that runs have taken


_clock = _Clock()


def _timed(f: Callable[[], Any]) -> tuple[Any, float]:
    before, _clock.inside = _clock.inside, 0.0
    start = time.perf_counter()
    try:
        out = f()
    finally:
        whole = time.perf_counter() - start
        own, _clock.inside = whole - _clock.inside, before + whole
    return out, own


class WatchedTrace(TapeTrace):
    """A run that is recorded and watched."""

    __slots__ = ("last",)
    kind = WatchedTracer
    last: Op

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        watches = _watches.get()
        if not watches:
            return super().process(primitive, args, params)
        slots = tuple([a.slot if isinstance(a, Tracer) and a.owner is self else -1 for a in args])
        values = tuple([a.below if i >= 0 else self.constant(a, True) for a, i in zip(args, slots)])
        ans, seconds = _timed(lambda: bind(primitive, values, params))
        op = Op(primitive, values, ans, params, slots, -1, self)
        for watch in watches:
            watch.forward(op, seconds)
        return ans if primitive.constant else self._enter(op)

    def record(self, primitive: Primitive, slots: tuple[int, ...], args: tuple[Any, ...], ans: Any, params: tuple[Any, ...]) -> Any:
        """Calls with rules of their own come here directly."""
        op = Op(primitive, args, ans, params, slots, -1, self)
        for watch in _watches.get():
            watch.forward(op, 0.0)
        return self._enter(op)

    def _enter(self, op: Op) -> Any:
        out = super().record(_watched(op), op.slots, tuple(op.args), op.ans, op.params)
        first = out[0] if isinstance(out, tuple) else out
        op.out = first.slot - 1 if isinstance(out, tuple) else first.slot
        return out

    def tracer(self, x: Any, slot: int) -> Tracer:
        out = super().tracer(x, slot)
        for watch in _watches.get():
            watch.traced(out)
        return out


def _telling(op: Op, rule: Any, which: str, k: int | None) -> Any:
    """A rule of an op, that tells when it is applied."""
    if rule is None:
        return None

    @functools.wraps(rule)
    def told(*given: Any) -> Any:
        watches = _watches.get()
        for watch in watches:
            watch.before(op, which)
        result = None
        try:
            result, seconds = _timed(lambda: rule(*given))
        finally:
            for watch in watches:
                watch.after(op)
        number_of, first = (given[0], given[1]) if k is None and not op.primitive.joint else (k, given[0])
        for watch in watches:
            watch.rule(op, which, number_of, first, result, seconds)
        return result

    return told


_TOLD = _telling(Op.__new__(Op), place, "", 0).__code__


def _watched(op: Op) -> Primitive:
    """The primitive of an op, whose rules tell."""
    primitive: Primitive = copy.copy(op.primitive)
    for which, name in (("reverse", "vjps"), ("forward", "jvps")):
        rules = getattr(primitive, name)
        several = isinstance(rules, (tuple, list))
        told = tuple(_telling(op, r, which, k) for k, r in enumerate(rules)) if several else _telling(op, rules, which, None)
        setattr(primitive, name, told)
    if primitive.kind == INPLACE:  # the rules, not the short cuts of the replays
        primitive.kind = GENERAL
    return primitive


class WatchedBatchTracer(BatchTracer):
    """Not a `BatchTracer` to the short ways."""

    __slots__ = ()


_plain_tracer, _plain_process = BatchTrace.tracer, BatchTrace.process
_plain_call = jit.Jitted.__call__


def _batch_tracer(self: BatchTrace, x: Any, depth: int = 1) -> BatchTracer:
    out = _plain_tracer(self, x, depth + 1)
    if _watches.get():
        out.__class__ = WatchedBatchTracer
        for watch in _watches.get():
            watch.traced(out)
    return out


def _batch_process(self: BatchTrace, primitive: Primitive, args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    watches = _watches.get()
    out, seconds = _timed(lambda: _plain_process(self, primitive, args, params))
    if watches:
        mine = [isinstance(a, BatchTracer) and a.owner is self for a in args]
        values = tuple(a.below if m else a for a, m in zip(args, mine))
        ans = tuple(x.below for x in out) if isinstance(out, tuple) else out.below
        if not any(isinstance(x, Tracer) for x in (ans if isinstance(ans, tuple) else (ans,))):  # else it is seen there
            op = Op(primitive, values, ans, params, tuple(0 if m else -1 for m in mine), -1, self)
            for watch in watches:
                watch.forward(op, seconds)
    return out


@edge.boundary
def _eager_call(self: Any, *args: Any, **kwargs: Any) -> Any:
    watches = _watches.get()
    for watch in watches:
        watch.jitted(self, args, kwargs)
    return _recorded(self, args, kwargs) if watches else _plain_call(self, *args, **kwargs)


def _recorded(jitted: Any, args: Any, kwargs: Any) -> Any:
    """What a jitted function returns, from a run in Python that is recorded, so that it is watched, where nothing is traced yet."""
    leaves, treedef = tree.flatten(jitted._split(args, kwargs)[0])  # static arguments stay what they are
    places = [k for k, x in enumerate(leaves) if is_float(x) or type(x) in (float, complex)]
    if not places or any(isinstance(x, Tracer) for x in leaves):
        return jitted.fun(*args, **kwargs)
    structure: Any = None

    def run(*xs: Any) -> list[Any]:
        nonlocal structure
        positional, keywords = tree.unflatten(treedef, replaced(leaves, places, xs))
        result = jitted.fun(*(b if a is None else a for a, b in zip(positional, args)), **{**kwargs, **keywords})
        out, structure = tree.flatten(result)
        return out

    try:
        tape = record(run, [leaves[k] for k in places], repr(jitted).strip("<>"))
    except errors.ConversionError:  # then it is not compiled either, but run as it is
        return jitted.fun(*args, **kwargs)
    return tree.unflatten(structure, [np.array(x)[()] if isinstance(x, np.ndarray) else x for x in tape.outputs])


_plain_start = threading.Thread.start


def _watched_start(thread: threading.Thread) -> None:
    """Start a thread that is watched as the one that starts it."""
    if _watches.get():
        context, run = copy_context(), thread.run
        thread.run = lambda: context.run(run)  # type: ignore[method-assign]
    _plain_start(thread)


def _assigned(tensor: Any, name: str, x: Any) -> None:
    """The array of a tensor is set: an operation of `functrace.torch` has run."""
    object.__setattr__(tensor, name, x)
    if name in ("_a", "_edge") and (watches := _watches.get()) and (made := _operation(sys._getframe(1))):
        for watch in watches:  # what is written into a tensor does not set its array, but its history
            watch.value(made, tensor._a, "in functrace.torch")


def _operation(frame: Any) -> str:
    """The name of the operation of `functrace.torch` that runs; empty where a tensor is made of numbers, or of none yet."""
    while frame is not None and not is_user_file[frame.f_code.co_filename]:
        names = frame.f_locals
        op, node = names.get("op"), names.get("cls")
        made = getattr(op, "name", None) or getattr(node, "__name__", None) or names.get("name")
        if isinstance(made, str) and made not in ("Tensor", "Parameter"):
            return "" if made.startswith("empty") else made.removesuffix("Backward0").lower()
        frame = frame.f_back
    return ""


def _run_node(plain: Callable[..., Any]) -> Callable[..., Any]:
    def run(node: Any, g: Any, edges: Any, tensors: bool) -> Any:
        watches = _watches.get()
        if not watches:
            return plain(node, g, edges, tensors)
        frames = node.metadata.get("parent_") or node.metadata.get("traceback_") or [""]
        parent = sys.modules["functrace.torch._watch"].parent
        token = parent.set(frames)
        try:
            ds = node.restate(g, edges) if tensors else node.backward(g, edges)
        finally:
            parent.reset(token)
        found = re.match(r' *File "(.*)", line (\d+), in (.*)', frames[-1])
        arrays = [getattr(d, "_a", d) for d in ds]
        for watch in watches:
            watch.node(node.name(), "{}:{}, in {}".format(*found.groups()) if found else "", g, arrays)
        return ds

    return run


_guard = threading.Lock()
_users = [0]
_undo: list[Callable[[], Any]] = []


def _put(owner: Any, name: str, new: Any) -> None:
    old = vars(owner).get(name)
    setattr(owner, name, new)
    _undo.append(lambda: delattr(owner, name) if old is None else setattr(owner, name, old))


def _switch(change: int) -> None:
    """Make new traces watched ones while anyone, in any thread, watches."""
    with _guard:
        _users[0] += change
        if change > 0 and _users[0] == 1:
            _put(BatchTrace, "tracer", _batch_tracer)
            _put(BatchTrace, "process", _batch_process)
            _put(jit.Jitted, "__call__", _eager_call)
            _put(threading.Thread, "start", _watched_start)
            torch = sys.modules.get("functrace.torch._tensor")
            if torch is not None:  # the layer above: it is watched where it is in use, and never imported
                engine, nodes = sys.modules["functrace.torch._engine"], sys.modules["functrace.torch._watch"]
                _put(torch.Tensor, "__setattr__", _assigned)
                _put(engine, "_checked", _run_node(engine._checked))
                nodes.watch(1)
                _undo.append(lambda: nodes.watch(-1))
        elif _users[0] == 0:
            while _undo:
                _undo.pop()()


@contextmanager
def watched(watch: Watch, masked: bool = False) -> Iterator[Watch]:
    """Tell `watch` of all that runs in this context. `masked`: cotangents that a selection threw away are nothing from the start."""
    torch = sys.modules.get("functrace.torch._watch")
    variables: list[tuple[ContextVar[Any], Any]] = [(_watches, (*_watches.get(), watch)), (by_python, True), (recorder, WatchedTrace)]
    variables += [(masks.wanted, masked or masks.wanted.get())] + ([] if torch is None else [(torch._anomaly, True)])
    tokens = [(variable, variable.set(x)) for variable, x in variables]
    _switch(1)
    try:
        yield watch
    finally:
        _switch(-1)
        for variable, token in reversed(tokens):
            variable.reset(token)


def plain(x: Any) -> Any:
    """The array behind a value; None if it is none, or was not kept."""
    x = bare(x)
    return np.asarray(x) if isinstance(x, (np.ndarray, np.generic, bool, int, float, complex)) else None


def show(x: Any, limit: int = 6) -> str:
    """Shape, dtype, and the numbers if they are few."""
    a = plain(x)
    if a is None:
        return f"{errors.describe(x)}, not kept" if hasattr(x := bare(x), "shape") else type(x).__name__
    text = np.array2string(a, precision=6, separator=", ", max_line_width=10**6).replace("\n", "") if a.size <= limit else ""
    return f"{errors.describe(a)}{' = ' + text if text else ''}"
