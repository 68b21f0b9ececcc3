"""The graph of recorded operations, and `backward` over it.

Each operation that needs a gradient leaves a `Node`: its rules, the arrays that they look at, and `edges`, one for each tensor
argument, `(node that made it, which of its outputs)` or None. `run` visits the nodes that can be reached from the roots in
the order in which they were made, latest first, so that every use of a value has been passed when its node is reached; there
is no recursion. A leaf's gradient is added as soon as its last use has been passed.

Under `create_graph` a node's rules are applied to tensors, as operations that are recorded themselves: see `_apply.graft`.
"""

from __future__ import annotations

import functools
import itertools
import operator
import re
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar

import numpy as np

from functrace.torch import _dtypes
from functrace.torch._dtypes import warn
from functrace.torch._modes import recording, set_recording
from functrace.torch._watch import anomaly, watch_nodes

next_number = itertools.count().__next__  # one counter for the process: a later op has a larger number, in any thread

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). "
    "Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you "
    "need to backward through the graph a second time or if you need to access saved tensors after calling backward."
)

Edge = tuple[Any, int]


Hooks = dict[int, Callable[..., Any]]


class Node:
    """An operation of the graph. `t.grad_fn` is one; its class is named after the operation."""

    outputs = 1
    pre: dict[int, Hooks] | None = None  # hooks on a gradient before the node, by output
    ahead: Hooks | None = None  # hooks on all gradients before the node
    retains: dict[int, Any] | None = None  # tensors that keep their gradient, by output
    post: Hooks | None = None
    watched = False  # whether any of these is there, or `_packed`
    frees: ClassVar[bool] = True  # whether it saves values that `backward` frees
    enters = False  # whether it is where an argument of a transform enters, and is not shown
    wrap: ClassVar[Any]  # makes a tensor of an array: set by `_tensor`

    edges: tuple[Edge | None, ...] = ()
    number: int
    saved: Any

    def __getattr__(self, name: str) -> Any:
        if name == "saved":
            if "_packed" not in self.__dict__:
                raise RuntimeError(f"{self.name()}: nothing was saved for backward, since a pack hook of saved_tensors_hooks raised")
            return self.unpack(*self.__dict__["_packed"])  # what hooks keep elsewhere: see `_watch`
        if name == "metadata":
            return self.__dict__.setdefault(name, {})
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def pack(self, saved: Any, hook: Callable[[Any], Any]) -> Any:
        """What is to be saved, with `hook(tensor)` in place of each array that a rule looks into; None: nothing is."""
        return None

    def unpack(self, saved: Any, hook: Callable[[Any], Any]) -> Any:
        """The way back."""
        raise NotImplementedError

    def name(self) -> str:
        """Name of the operation, with `Backward0`."""
        name = type(self).__name__
        return "torch::autograd::" + name if name in ("CopyBackwards", "NotImplemented") else name

    def _sequence_nr(self) -> int:
        return self.number

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes of the arguments, each with the number of its output."""
        return tuple((None, 0) if e is None else e for e in self.edges)

    def backward(self, g: Any, edges: Sequence[Edge | None]) -> Sequence[Any]:
        """Gradients of the arguments, arrays, from that of the result; None where there is none.

        `edges` are those of the node, but None for an argument whose gradient nobody asks for: it need not be computed.
        """
        raise NotImplementedError

    def restate(self, g: Any, edges: Sequence[Edge | None]) -> Sequence[Any]:
        """`backward` on tensors, recorded."""
        raise NotImplementedError

    def __call__(self, *grads: Any) -> Any:
        """The gradients of the arguments, tensors, from those of the results; of one argument, its own."""
        if len(grads) != self.outputs:
            raise TypeError(f"expected {self.outputs} arguments, got {len(grads)} instead")
        given = [None if g is None else g if recording() else g._a for g in grads]
        rule = self.restate if recording() else self.backward
        found = tuple(_given(self, rule(given if self.outputs > 1 else given[0], self.edges), bool(recording())))
        return found[0] if len(found) == 1 else found

    def register_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(grad_inputs, grad_outputs)` after the node; what it returns replaces the grad_inputs."""
        self.watched, self.post = True, self.post or OrderedDict()
        return Handle(self.post, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(grad_outputs)` before the node; what it returns replaces the grad_outputs."""
        self.watched, self.ahead = True, self.ahead or OrderedDict()
        return Handle(self.ahead, hook)

    def hooks_on(self, k: int) -> Hooks:
        """The hooks on the gradient of output k."""
        self.watched, self.pre = True, {} if self.pre is None else self.pre
        return self.pre.setdefault(k, OrderedDict())


watch_nodes(Node)


class Handle:
    """What `register_hook` returns: `remove()` takes the hook away."""

    __module__ = "torch.utils.hooks"
    next_id = 0

    def __init__(self, hooks: Any, hook: Any = None, first: bool = False) -> None:
        self.id = Handle.next_id
        Handle.next_id += 1
        self.hooks_dict_ref = weakref.ref(hooks) if isinstance(hooks, OrderedDict) else lambda: hooks
        if hook is not None:
            hooks[self.id] = hook
        if first:
            hooks.move_to_end(self.id, last=False)

    def remove(self) -> None:
        """Take the hook away; again does nothing."""
        hooks = self.hooks_dict_ref()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


Handle.__name__ = Handle.__qualname__ = "RemovableHandle"


class Same(Node):
    """A node that hands on what it is given."""

    frees = False

    def backward(self, g: Any, edges: Sequence[Edge | None]) -> Sequence[Any]:
        return (g,)

    restate = backward


class AccumulateGrad(Node):
    """Where a leaf collects its gradient. The leaf holds its node, the node the leaf weakly, so that the two are no cycle."""

    __module__ = "builtins"
    frees = False

    def __init__(self, leaf: Any) -> None:
        self.leaf = weakref.ref(leaf)
        self.number = next_number()

    @property
    def variable(self) -> Any:
        """The leaf."""
        return self.leaf()

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

    def backward(self, g: Any, edges: Sequence[Edge | None]) -> Sequence[Any]:
        if self.variable._rg:
            self.variable._accumulate(g, hasattr(g, "_a"))
        return ()

    restate = backward


_classes: dict[str, type[Node]] = {}


def node_class(name: str, base: type[Node], key: Any = None, **attributes: Any) -> type[Node]:
    """The class of nodes of one operation, made once."""
    key = (name, base, key)
    found = _classes.get(key)
    if found is None:
        found = _classes[key] = type(name, (base,), {"__module__": "builtins", **attributes})
    return found


def check_versions(checks: Sequence[Any]) -> None:
    """Raise if an array that was saved has been written since: `checks` is (cell, version, edge, array) for each."""
    for cell, version, edge, a in checks:
        if cell[0] != version:
            made = ""
            if edge is not None and not isinstance(edge[0], AccumulateGrad):
                name = edge[0] if isinstance(edge[0], str) else edge[0].name()
                made = f", which is output {edge[1]} of {re.sub('Backward0?$|Backward', '', name)},"
            kind = _dtypes.kind_of(a.dtype)
            hint = (
                "enable anomaly detection to find the operation that failed to compute its gradient, with "
                "torch.autograd.set_detect_anomaly(True, check_nan=False)."
                if anomaly() is None
                else "the backtrace further above shows the operation that failed to compute its gradient. The variable in question was "
                "changed in there or anywhere later. Good luck!"
            )
            raise RuntimeError(
                f"one of the variables needed for gradient computation has been modified by an inplace operation: [{kind} "
                f"{list(a.shape)}]{made} is at version {cell[0]}; expected version {version} instead. Hint: {hint}"
            )


def run(roots: Sequence[tuple[Edge, Any]], keep: bool, tensors: bool, wanted: Sequence[Edge] | None, accumulate: bool) -> list[Any]:
    """Carry gradients from `roots`, pairs of an edge and its gradient, to the leaves.

    `keep` leaves the saved values in place; with `tensors` gradients are tensors and what is done to them is recorded. The
    gradients that arrive at the `wanted` edges are returned (None: nothing arrived), and only what leads there is visited;
    leaves add to their `.grad` if `accumulate`.
    """
    before, outer = recording(), current_run()
    frame: list[Any] = []
    try:  # an interrupt may come after any call
        set_recording(tensors or None)  # for hooks and the user's own rules
        _run.set(frame)
        return _walk(frame, roots, keep, tensors, wanted, accumulate)
    finally:
        set_recording(before)
        _run.set(outer)


_run: ContextVar[list[Any]] = ContextVar("functrace.torch.run")
current_run = functools.partial(_run.get, None)  # the `order`, `last` and `needed` of the `_walk` in progress


def _walk(
    frame: list[Any], roots: Sequence[tuple[Edge, Any]], keep: bool, tensors: bool, wanted: Sequence[Edge] | None, accumulate: bool
) -> list[Any]:
    grads: dict[Node, Any] = {}
    sums: set[Node] = set()  # nodes whose gradient is an array made here, so that it can be added to in place
    for (node, k), g in roots:
        _add(grads, node, k, g)
    order, last = _reachable(list(grads))
    needed = _leading(order, wanted) if wanted is not None else None
    frame[:] = order, last, needed
    places: dict[Node, list[tuple[int, int]]] = {}
    for place, (node, k) in enumerate(wanted or ()):
        places.setdefault(node, []).append((k, place))
    results: list[Any] = [None] * len(wanted or ())
    careful = anomaly() is not None
    ds: Any

    while order:
        node = order.pop()
        leaves = last.get(node)
        edges = node.edges if needed is None else needed.get(node)
        g = None if edges is None else grads.pop(node, None)
        if edges is not None and g is not None:
            run_it, watched = needed is None or edges, node.watched
            if watched and not run_it:
                g = _hooked(node, g, tensors, False)
            if places and node in places:
                for k, place in places[node]:
                    results[place] = g if node.outputs == 1 else g[k]
            if run_it:
                if watched:
                    g = _hooked(node, g, tensors, True)
                ds = _checked(node, g, edges, tensors) if careful else node.restate(g, edges) if tensors else node.backward(g, edges)
                if watched and node.post:
                    ds = _after(node, ds, g, tensors)
                if not keep and node.frees:
                    node.saved = None
                    if watched:
                        node.__dict__.pop("_packed", None)
                for edge, d in zip(edges, ds):
                    if d is not None and edge is not None:
                        target, k = edge
                        if target.outputs == 1:
                            c = grads.get(target)
                            if c is None:
                                grads[target] = d
                            elif target in sums and type(c) is type(d) is np.ndarray:
                                c += d
                            else:
                                grads[target] = c + d
                                sums.add(target)
                        else:
                            _add(grads, target, k, d)
                d = c = g = ds = None
        for leaf in leaves or ():
            if leaf in grads and (needed is None or leaf in needed):
                if leaf.watched:
                    grads[leaf] = _hooked(leaf, grads[leaf], tensors, accumulate)
                for _, place in places.get(leaf, ()):
                    results[place] = grads[leaf]
                if accumulate:
                    _left(leaf, grads, tensors)
    return results


def _left(leaf: Any, grads: dict[Node, Any], tensors: bool) -> None:
    """Give a leaf its gradient, which no name holds then: the leaf need not copy it."""
    given = grads[leaf] if leaf.post else None
    variable = leaf.leaf()
    if variable is None or not variable._rg:
        del grads[leaf]
    else:
        variable._accumulate(grads.pop(leaf), tensors)
    if leaf.post:
        _after(leaf, (), given, tensors)


def _checked(node: Node, g: Any, edges: Sequence[Edge | None], tensors: bool) -> Any:
    """Run a node under anomaly detection: name the line of the forward operation if it fails or gives NaN."""
    try:
        ds: Any = node.restate(g, edges) if tensors else node.backward(g, edges)
        for k, d in enumerate(ds if anomaly() else ()):
            a = getattr(d, "_a", d)
            if a is not None and (a != a).any():
                raise RuntimeError(f"Function '{node.name()}' returned nan values in its {k}th output.")
        return ds
    except Exception:
        made = node.metadata.get("traceback_")
        warn(
            f"Error detected in {node.name()}. "
            + (
                f"Traceback of forward call that caused the error:\n{''.join(made)}"
                if made
                else "No forward pass information available. Enable detect anomaly during forward pass for more information."
            )
        )
        raise


def _reachable(roots: list[Node]) -> tuple[list[Node], dict[Node, list[AccumulateGrad]]]:
    """The nodes below the roots, oldest first, and for each node the leaves of which it is the last user."""
    order = [node for node in roots if type(node) is not AccumulateGrad]
    seen = set(order)
    final: dict[AccumulateGrad, Node] = {}
    for user in order:  # which grows
        for edge in user.edges:
            if edge is not None:
                node = edge[0]
                if type(node) is AccumulateGrad:
                    before = final.get(node)
                    if before is None or user.number < before.number:
                        final[node] = user
                elif node not in seen:
                    seen.add(node)
                    order.append(node)
    order.sort(key=operator.attrgetter("number"))
    last: dict[Node, list[AccumulateGrad]] = {}
    for leaf, user in final.items():
        last.setdefault(user, []).append(leaf)
    for node in roots:
        if type(node) is AccumulateGrad and node not in final:
            order.append(Node())  # a leaf that is itself a root: nothing to run, only to add
            last[order[-1]] = [node]
    return order, last


def below(nodes: Iterable[Any], ends: Callable[[Any], bool]) -> Iterator[Any]:
    """Some nodes and all below them, without what is below a node at which `ends` is true."""
    stack = list(nodes)
    seen = set(stack)
    while stack:
        node = stack.pop()
        yield node
        for edge in () if ends(node) else node.edges:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])


def _add(grads: dict[Node, Any], node: Node, k: int, g: Any) -> None:
    if node.outputs == 1:
        c = grads.get(node)
        grads[node] = g if c is None else c + g
        return
    row = grads.get(node)
    if row is None:
        row = grads[node] = [None] * node.outputs
    row[k] = g if row[k] is None else row[k] + g


def _leading(order: Sequence[Node], wanted: Sequence[Edge]) -> dict[Node, tuple[Edge | None, ...]]:
    """The nodes that lead to a wanted one, with their edges, None for others; () for a node that need not run."""
    needed: dict[Node, tuple[Edge | None, ...]] = {node: () for node, _ in wanted}
    for node in order:
        for edge in node.edges:
            if edge is not None and edge[0] in needed:
                needed[node] = tuple([e if e is not None and e[0] in needed else None for e in node.edges])
                break
    return needed


def _replaced(hook: Any, old: Any, new: Any) -> Any:
    """The gradient that a hook returned in place of another, checked."""
    name = getattr(hook, "__name__", type(hook).__name__)
    if not hasattr(new, "_a"):
        kind = type(new).__name__
        raise TypeError(f"expected Variable, but hook returned '{'numpy.' * (kind == 'ndarray')}{kind}'")
    if old is not None and new._a.dtype != old._a.dtype:
        types = [_dtypes.kind_of(t._a.dtype) for t in (old, new)]
        raise RuntimeError(f"hook '{name}' has changed the type of value (was {types[0]} got {types[1]})")
    if old is not None and new._a.shape != old._a.shape:
        raise RuntimeError(f"hook '{name}' has changed the size of value")
    return new


def _call_all(hooks: Hooks, row: list[Any], *others: Any) -> list[Any]:
    """A row of gradients after hooks that take, and may replace, it as a whole."""
    for hook in list(hooks.values()):
        new = hook(tuple(row), *others)
        if new is not None:
            if not isinstance(new, tuple):
                raise TypeError(f"expected tuple, but hook returned '{type(new).__name__}'")
            if len(new) != len(row):
                name = getattr(hook, "__name__", type(hook).__name__)
                raise RuntimeError(f"hook '{name}' has returned an incorrect number of values (got {len(new)}, but expected {len(row)})")
            row = [None if n is None else _replaced(hook, o, n) for o, n in zip(row, new)]
    return row


def _given(node: Node, xs: Iterable[Any], tensors: bool) -> list[Any]:
    return [x if tensors or x is None else node.wrap(x) for x in xs]


def _taken(xs: Iterable[Any], tensors: bool) -> list[Any]:
    return [x if tensors or x is None else x._a for x in xs]


def _hooked(node: Node, g: Any, tensors: bool, runs: bool) -> Any:
    """The gradient of a node after the hooks on it; those of the node itself only if it `runs`."""
    row = list(g) if node.outputs > 1 else [g]
    for k, hooks in (node.pre or {}).items():
        if hooks and row[k] is not None:
            held = row[k] if tensors else node.wrap(row[k])  # one tensor for all hooks: they leave each other notes on it
            for hook in list(hooks.values()):
                new = hook(held)
                held = held if new is None else _replaced(hook, held, new)
            row[k] = held if tensors else held._a
            held = new = None
    for k, ref in (node.retains or {}).items():
        tensor = ref()
        if tensor is not None and row[k] is not None:
            tensor._accumulate(row[k], tensors)
    if node.ahead and runs:
        row = _taken(_call_all(node.ahead, _given(node, row, tensors)), tensors)
    return row if node.outputs > 1 else row[0]


def _after(node: Node, ds: Sequence[Any], g: Any, tensors: bool) -> Sequence[Any]:
    outs = tuple(_given(node, g if node.outputs > 1 else (g,), tensors))
    return _taken(_call_all(node.post or {}, _given(node, ds, tensors), outs), tensors)


def accumulator(leaf: Any) -> Edge:
    """The edge of a leaf that requires grad."""
    edge = leaf._accumulator
    if edge is None:
        edge = leaf._accumulator = AccumulateGrad(leaf), 0
    return edge  # type: ignore[no-any-return]
