"""The graph of recorded operations, and `backward` over it.

Each operation that needs a gradient leaves a `Node`: its rules, the arrays that they look at, and `edges`, one for each tensor
argument, `(node that made it, which of its outputs)` or None. `run` visits the nodes that can be reached from the roots in
the order in which they were made, latest first, so that every use of a value has been passed when its node is reached; there
is no recursion. A leaf's gradient is added as soon as its last use has been passed.

Under `create_graph` a node's rules are applied to tensors, as operations that are recorded themselves: see `_apply.graft`.
"""

from __future__ import annotations

import itertools
import re
import weakref
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from functrace.torch import _dtypes

next_number = itertools.count().__next__  # one counter for the process: a later op has a larger number, in any thread

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). "
    "Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you "
    "need to backward through the graph a second time or if you need to access saved tensors after calling backward."
)

Edge = tuple[Any, int]
Hook = Callable[[Any], Any]


class Node:
    """An operation of the graph. `t.grad_fn` is one; its class is named after the operation."""

    outputs = 1
    pre: dict[int, list[Hook]] | None = None  # hooks on a gradient before the node, by output
    retains: dict[int, Any] | None = None  # tensors that keep their gradient, by output
    post: list[Callable[..., Any]] | None = None
    frees: ClassVar[bool] = True  # whether it saves values that `backward` frees
    wrap: ClassVar[Any]  # makes a tensor of an array: set by `_tensor`

    edges: tuple[Edge | None, ...]
    number: int
    saved: Any

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"

    def name(self) -> str:
        """Name of the operation, with `Backward0`."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes of the arguments, each with the number of its output."""
        return tuple((None, 0) if e is None else e for e in self.edges)

    def backward(self, g: Any) -> Sequence[Any]:
        """Gradients of the arguments, arrays, from that of the result; None where there is none."""
        raise NotImplementedError

    def restate(self, g: Any) -> Sequence[Any]:
        """The same on tensors, recorded."""
        raise NotImplementedError

    def register_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(grad_inputs, grad_outputs)` after the node; what it returns replaces the grad_inputs."""
        self.post = [*(self.post or ()), hook]
        return Handle(self.post, hook)


class Handle:
    """What `register_hook` returns: `remove()` takes the hook away."""

    __module__ = "torch.utils.hooks"

    def __init__(self, hooks: list[Any], hook: Any) -> None:
        self._hooks, self._hook = hooks, hook

    def remove(self) -> None:
        """Take the hook away; again does nothing."""
        if self._hook in self._hooks:
            self._hooks.remove(self._hook)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


Handle.__name__ = Handle.__qualname__ = "RemovableHandle"


class AccumulateGrad(Node):
    """Where a leaf collects its gradient."""

    frees = False
    edges = ()

    def __init__(self, variable: Any) -> None:
        self.variable = variable
        self.number = next_number()

    def name(self) -> str:
        """Its name in PyTorch."""
        return "torch::autograd::AccumulateGrad"


_classes: dict[str, type[Node]] = {}


def node_class(name: str, base: type[Node], key: Any = None, **attributes: Any) -> type[Node]:
    """The class of nodes of one operation, made once."""
    key = (name, base, key)
    found = _classes.get(key)
    if found is None:
        found = _classes[key] = type(name, (base,), attributes)
    return found


def check_versions(node: Node, checks: Sequence[Any]) -> None:
    """Raise if an array that the node saved was written since: `checks` is (cell, version, edge, array) for each."""
    for cell, version, edge, a in checks:
        if cell[0] != version:
            made = ""
            if edge is not None and not isinstance(edge[0], AccumulateGrad):
                name = edge[0] if isinstance(edge[0], str) else edge[0].name()
                made = f", which is output {edge[1]} of {re.sub('Backward[0-9]*$', '', name)},"
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[torch.{_dtypes.of(a.dtype).storage} {list(a.shape)}]{made} is at version {cell[0]}; expected version {version} instead. "
                "Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
                "torch.autograd.set_detect_anomaly(True, check_nan=False)."
            )


def run(roots: Sequence[tuple[Edge, Any]], keep: bool, tensors: bool, wanted: Sequence[Edge] | None, accumulate: bool) -> list[Any]:
    """Carry gradients from `roots`, pairs of an edge and its gradient, to the leaves.

    `keep` leaves the saved values in place; with `tensors` gradients are tensors and what is done to them is recorded. The
    gradients that arrive at the `wanted` edges are returned (None: nothing arrived), and only what leads there is visited;
    leaves add to their `.grad` if `accumulate`.
    """
    grads: dict[Node, Any] = {}
    for (node, k), g in roots:
        _add(grads, node, k, g)
    order, last = _reachable(list(grads))
    needed = _leading(order, wanted) if wanted is not None else None
    places: dict[Node, list[tuple[int, int]]] = {}
    for place, (node, k) in enumerate(wanted or ()):
        places.setdefault(node, []).append((k, place))
    results: list[Any] = [None] * len(wanted or ())

    while order:
        node = order.pop()
        leaves = last.get(node)
        if needed is None or node in needed:
            g = grads.pop(node, None)
            if g is not None:
                if node.pre is not None or node.retains is not None:
                    g = _hooked(node, g, tensors)
                for k, place in places.get(node, ()) if places else ():
                    results[place] = g if node.outputs == 1 else g[k]
                if needed is None or needed[node]:
                    ds: Any = node.restate(g) if tensors else node.backward(g)
                    if node.post is not None:
                        ds = _after(node, ds, g, tensors)
                    if not keep and node.frees:
                        node.saved = None
                    for edge, d in zip(node.edges, ds):
                        if d is not None and edge is not None:
                            target, k = edge
                            if target.outputs == 1:
                                c = grads.get(target)
                                grads[target] = d if c is None else c + d
                            else:
                                _add(grads, target, k, d)
                    d = c = g = ds = None
        if leaves is not None:
            for leaf in leaves:
                if leaf in grads and (needed is None or leaf in needed):
                    if leaf.pre is not None:
                        grads[leaf] = _hooked(leaf, grads[leaf], tensors)
                    for _, place in places.get(leaf, ()):
                        results[place] = grads[leaf]
                    if accumulate:
                        leaf.variable._accumulate(grads.pop(leaf), tensors)
    return results


def _reachable(roots: list[Node]) -> tuple[list[Node], dict[Node, list[AccumulateGrad]]]:
    """The nodes below the roots, oldest first, and the leaves that each is the last to reach."""
    order = [node for node in roots if type(node) is not AccumulateGrad]
    seen = set(order)
    stack = list(order)
    final: dict[AccumulateGrad, Node] = {}
    while stack:
        user = stack.pop()
        for edge in user.edges:
            if edge is not None:
                node = edge[0]
                if type(node) is AccumulateGrad:
                    if node not in final or user.number < final[node].number:
                        final[node] = user
                elif node not in seen:
                    seen.add(node)
                    order.append(node)
                    stack.append(node)
    order.sort(key=_number)
    last: dict[Node, list[AccumulateGrad]] = {}
    for leaf, user in final.items():
        last.setdefault(user, []).append(leaf)
    for node in roots:
        if type(node) is AccumulateGrad and node not in final:
            order.append(node)  # a leaf that is itself a root: nothing to run, only to add
            last[node] = [node]
    return order, last


def _number(node: Node) -> int:
    return node.number


def _add(grads: dict[Node, Any], node: Node, k: int, g: Any) -> None:
    if node.outputs == 1:
        c = grads.get(node)
        grads[node] = g if c is None else c + g
        return
    row = grads.get(node)
    if row is None:
        row = grads[node] = [None] * node.outputs
    row[k] = g if row[k] is None else row[k] + g


def _leading(order: Sequence[Node], wanted: Sequence[Edge]) -> dict[Node, bool]:
    """The nodes from which a wanted one is reached; True where the node itself must be run."""
    targets = {node for node, _ in wanted}
    needed: dict[Node, bool] = dict.fromkeys(targets, False)
    for node in order:
        beyond = any(e is not None and e[0] in needed for e in node.edges)
        if beyond or node in targets:
            needed[node] = beyond
    return needed


def _hooked(node: Node, g: Any, tensors: bool) -> Any:
    row = list(g) if node.outputs > 1 else [g]
    for k, hooks in (node.pre or {}).items():
        for hook in list(hooks):
            if row[k] is not None:
                new = hook(row[k] if tensors else node.wrap(row[k]))
                if new is not None:
                    row[k] = new if tensors else new._a
    for k, ref in (node.retains or {}).items():
        tensor = ref()
        if tensor is not None and row[k] is not None:
            tensor._accumulate(row[k], tensors)
    return row if node.outputs > 1 else row[0]


def _after(node: Node, ds: Sequence[Any], g: Any, tensors: bool) -> Sequence[Any]:
    def given(xs: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(x if tensors or x is None else node.wrap(x) for x in xs)

    outs = given(g if node.outputs > 1 else (g,))
    for hook in list(node.post or ()):
        new = hook(given(ds), outs)
        if new is not None:
            ds = [x if tensors or x is None else x._a for x in (new if isinstance(new, tuple) else (new,))]
    return ds


def accumulator(leaf: Any) -> Edge:
    """The edge of a leaf that requires grad. The leaf holds its node weakly, so that the two are no cycle."""
    ref = leaf.__dict__.get("_accumulator")
    node = ref() if ref is not None else None
    if node is None:
        node = AccumulateGrad(leaf)
        if "_leaf_hooks" in leaf.__dict__:
            node.pre = {0: leaf._leaf_hooks}
        leaf._accumulator = weakref.ref(node)
    return node, 0
