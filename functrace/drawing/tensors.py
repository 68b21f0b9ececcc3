"""The history of a tensor as a graph: nodes by the names that PyTorch gives them, as in the figure of its tutorial.

Read by duck typing from `grad_fn` and `next_functions`, so that nothing has to be imported; tensors of PyTorch have these too.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from types import FrameType
from typing import Any

from functrace.drawing.graph import Box, Graph, saves


def is_tensor(x: Any) -> bool:
    """Whether a value has a history that can be drawn."""
    return hasattr(x, "grad_fn") and hasattr(x, "requires_grad") and not isinstance(x, type)


def describe(t: Any) -> str:
    """Shape and dtype, as in `float32[5,3]`."""
    return f"{str(t.dtype).removeprefix('torch.')}[{','.join(map(str, t.shape))}]"


def label(node: Any) -> str:
    """The name of a node without its namespace."""
    return str(node.name()).rpartition("::")[2]


def history(tensors: Sequence[Any], names: dict[int, str], backward: bool = False) -> Graph:
    """The graph that `backward` of the tensors walks. Arrows run from the leaves to the tensors, or with `backward` against that."""
    for t in tensors:
        if not t.requires_grad:
            raise ValueError(
                f"draw: the tensor {names.get(id(t), '')}".rstrip() + f" ({describe(t)}) has no history: it does not require grad.\n"
                "  Make its leaves with requires_grad=True, and compute it outside of no_grad()."
            )
    title = ", ".join(names.get(id(t)) or (label(t.grad_fn) if t.grad_fn is not None else "leaf") for t in tensors)
    graph = Graph(title + (", backward" if backward else ""), "history")
    nodes, uses = _nodes([t.grad_fn for t in tensors if t.grad_fn is not None])
    place: dict[int, int] = {}
    leaves: dict[int, int] = {}

    def leaf(t: Any) -> int:
        if id(t) not in leaves:
            name = names.get(id(t))
            kept = "" if t.grad is None else "\nhas a .grad"
            leaves[id(t)] = graph.add(Box("input", [name or "leaf", describe(t)], f"leaf {name or ''} : {describe(t)}{kept}"))
        return leaves[id(t)]

    for node in nodes:
        several = [f"adds {uses[id(node)]} gradients"] if uses[id(node)] > 1 else []
        hooks = _hooks(node)
        if hasattr(node, "variable"):
            variable = node.variable
            text = ["AccumulateGrad", *several, *hooks]
            start = (
                leaf(variable) if variable is not None else graph.add(Box("input", ["leaf", "gone"], "a leaf that nothing holds any more"))
            )
            place[id(node)] = graph.add(Box("accumulate", text, f"{node.name()}: adds what arrives to the leaf's .grad"))
            graph.join(start, place[id(node)])
            continue
        saved = _saved(node)
        text = [label(node), *saves(saved), *several, *hooks]
        hint = "\n".join([node.name(), *(f"saves {s}" for s in saved), *several, *hooks])
        place[id(node)] = graph.add(Box("back", text, hint, (label(node), tuple(saved)), ordered=True))
        for k, (other, output) in enumerate(node.next_functions):
            if other is not None:
                graph.join(place[id(other)], place[id(node)], f"[{output}]" if output else "", f"argument {k} of {label(node)}")
    for t in tensors:
        name = names.get(id(t))
        if t.grad_fn is None:
            leaf(t)
            continue
        end = graph.add(Box("output", [name or "result", describe(t)], f"{name or 'result'} : {describe(t)}"))
        nr = getattr(t, "output_nr", 0)
        graph.join(place[id(t.grad_fn)], end, f"[{nr}]" if nr else "")
    return _reversed(graph) if backward else graph


def _reversed(graph: Graph) -> Graph:
    """The graph with its arrows turned round."""
    out, last = Graph(graph.title, graph.of, True), len(graph.boxes) - 1
    for box in reversed(graph.boxes):
        box.ordered = False
        out.add(box)
    for a in reversed(graph.arrows):
        out.join(last - a.target, last - a.source, a.label, a.hint)
    return out


def _nodes(roots: Sequence[Any]) -> tuple[list[Any], dict[int, int]]:
    """All nodes, each after those of its arguments and otherwise in the order in which they were made; and how often each is used."""
    found: dict[int, Any] = {}
    uses: dict[int, int] = {}
    todo = list(roots)
    while todo:
        node = todo.pop()
        if id(node) in found:
            continue
        found[id(node)] = node
        todo.extend(other for other, _ in node.next_functions if other is not None)
    waiting: dict[int, int] = {}
    users: dict[int, list[Any]] = {}
    for key, node in found.items():
        below = [other for other, _ in node.next_functions if other is not None]
        waiting[key] = len(below)
        for other in below:
            users.setdefault(id(other), []).append(node)
            uses[id(other)] = uses.get(id(other), 0) + 1
    for root in roots:
        uses[id(root)] = uses.get(id(root), 0) + 1
    ready = [(-1 if hasattr(n, "variable") else n._sequence_nr(), k, n) for k, n in enumerate(found.values()) if not waiting[id(n)]]
    heapq.heapify(ready)
    order: list[Any] = []
    while ready:
        node = heapq.heappop(ready)[2]
        order.append(node)
        for user in users.get(id(node), ()):
            waiting[id(user)] -= 1
            if not waiting[id(user)]:
                heapq.heappush(ready, (user._sequence_nr(), len(found) + len(order), user))
    return order, uses


def _saved(node: Any) -> list[str]:
    """What a node keeps for its gradient, by name and shape."""
    inside = getattr(node, "__dict__", {})
    if "_packed" in inside:
        return ["what hooks packed"]
    op, saved = getattr(node, "op", None), inside.get("saved")
    if op is not None and getattr(op, "looks", None) is not None:  # functrace.torch, a row with rules
        if saved is None:
            return ["nothing: freed"] if op.frees else []
        args, ans, _, _ = saved
        rows = [row for edge, row in zip(node.edges, op.looks) if edge is not None]
        seen = [any(column) for column in zip(*rows)]
        words = ("self", "other") if len(args) <= 2 else [f"argument {k}" for k in range(len(args))]
        pairs = [(n, a) for n, a, s in zip(words, args, seen[1:]) if s] + ([("result", ans)] if seen and seen[0] else [])
        return [f"{n} {describe(a)}" for n, a in pairs if hasattr(a, "shape")]
    if op is not None and "saved" in inside:  # the pullback of a function, and its arguments
        given = () if saved is None else enumerate(saved[2])
        return ["nothing: freed"] if saved is None else [f"argument {k} {describe(a)}" for k, a in given if hasattr(a, "shape")]
    try:
        kept = [(n.removeprefix("_saved_"), getattr(node, n)) for n in dir(node) if n.startswith("_saved_")]
        kept += [(f"tensor {k}", t) for k, t in enumerate(getattr(node, "saved_tensors", ()) or ())]
    except RuntimeError:
        return ["nothing: freed"]
    return [f"{n} {describe(t)}" for n, t in kept if hasattr(t, "shape") and hasattr(t, "dtype")]


def _hooks(node: Any) -> list[str]:
    """What runs when a gradient passes."""
    inside = getattr(node, "__dict__", {})
    count = sum(len(h) for h in (inside.get("pre") or {}).values()) + len(inside.get("ahead") or ()) + len(inside.get("post") or ())
    kept = ["keeps its gradient"] if inside.get("retains") else []
    return [*([f"{count} hook{'s' if count > 1 else ''}"] if count else []), *kept]


def names_in(frame: FrameType | None) -> dict[int, str]:
    """The names of tensors in a user's frame, by identity: of variables, and of the parameters of modules."""
    found: dict[int, str] = {}
    if frame is None:
        return found
    for name, x in [*list(frame.f_globals.items()), *list(frame.f_locals.items())]:
        if name.startswith("_"):
            continue
        if is_tensor(x):
            found[id(x)] = name
        elif callable(getattr(type(x), "named_parameters", None)) and not isinstance(x, type):
            for path, parameter in x.named_parameters():
                found.setdefault(id(parameter), f"{name}.{path}")
    return found
