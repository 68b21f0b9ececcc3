"""Large graphs, folded: the user's calls and repeated runs of ops become one box each, until what is left can be read.

Ops stand in the order in which they ran, and only neighbours are folded together. A box for a stretch of that order can't be part of a
circle, whatever the arrows are. The ops of a call are such a stretch, and so are the passes through a loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from functrace.drawing.graph import Arrow, Box, Graph, source
from functrace.transforms.naming import REPLAYS

SMALL = 40  # boxes up to which nothing is folded
FEW, MANY = 32, 60  # boxes of ops: what is opened again, and what is folded further
OTHERS = 24  # boxes of inputs, constants and outputs
DEEP = 8  # calls in calls that are told apart
SHORT = 3  # repeats up to which a run may be opened again
LISTED = 6  # lines of what is in a box


class Part:
    """A stretch of ops: an op, a call, a run of equal stretches (`times`), or what stands on one line of the program, or neither."""

    __slots__ = ("key", "kind", "name", "ops", "parts", "times")

    def __init__(self, kind: str, ops: list[int], key: Any, name: str = "", parts: Sequence[Part] = (), times: int = 1) -> None:
        self.kind, self.ops, self.key, self.name, self.parts, self.times = kind, ops, key, name, list(parts), times

    def body(self) -> list[Part]:
        """The parts of one of the equal stretches."""
        return self.parts[: len(self.parts) // self.times]


class _Numbers(dict[Any, int]):
    """Equal keys have one number."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


def fold(graph: Graph, mode: bool | None = None) -> Graph:
    """The graph with fewer boxes. `mode`: True folds all calls and repeats, False nothing, None as much as its size asks for."""
    if mode is False or (mode is None and len(graph.boxes) <= SMALL):
        return graph
    order = [k for k, box in enumerate(graph.boxes) if box.like is not None]
    parts = _parts(graph, order, exact=True)
    if mode is None:
        if len(parts) > MANY:
            parts = _parts(graph, order, exact=False)
        parts = _opened(parts)
    if len(parts) > MANY:
        parts = _by_line(graph, parts)
    if len(parts) > MANY:
        size = -(-len(parts) // FEW)
        stretches = [parts[k : k + size] for k in range(0, len(parts), size)]
        parts = [Part("rest", [j for p in s for j in p.ops], None, "", s) for s in stretches]
    return _folded(graph, parts)


def _parts(graph: Graph, order: Sequence[int], exact: bool) -> list[Part]:
    """The ops as a list of calls, runs and single ops; `exact` tells ops of other shapes and parameters apart."""
    numbers = _Numbers()
    root = Part("call", [], None)
    path: list[tuple[tuple[int, str], Part]] = []

    def close(depth: int) -> None:
        while len(path) > depth:
            (_, name), part = path.pop()
            inside = _runs(part.parts, numbers)
            part.parts, part.key = inside, numbers["call", name, tuple([p.key for p in inside])]
            (path[-1][1] if path else root).parts.append(part if len(part.ops) > 1 else part.parts[0])

    for k in order:
        calls = graph.boxes[k].calls[:DEEP]
        same = 0
        while same < min(len(path), len(calls)) and path[same][0] == calls[same]:
            same += 1
        close(same)
        for call in calls[same:]:
            path.append((call, Part("call", [], None, call[1])))
        for _, part in path:
            part.ops.append(k)
        like = graph.boxes[k].like
        inner = path[-1][1] if path else root
        inner.parts.append(Part("op", [k], numbers["op", like if exact else like[:2] if like[0] == "pullback" else like[0]]))
    close(0)
    parts = _runs(root.parts, numbers)
    while len(parts) == 1 and parts[0].kind == "call":
        parts = parts[0].parts
    return parts


def _runs(parts: list[Part], numbers: _Numbers) -> list[Part]:
    """With stretches that follow one another and are equal as one part each: at each place the period that covers most."""
    n = len(parts)
    least = np.array([3 if p.kind == "op" else 2 for p in parts])  # two equal ops are told one by one
    keys = np.array([p.key for p in parts])
    cover, period = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for p in range(1, min(n // 2, 2000) + 1):
        equal = keys[:-p] == keys[p:]
        if np.count_nonzero(equal) < p:
            continue
        index = np.arange(n - p)
        until = np.minimum.accumulate(np.where(equal, n - p, index)[::-1])[::-1]  # where the next is that differs
        repeats = (until - index) // p + 1
        length = np.where(repeats >= (least[: n - p] if p == 1 else 2), repeats * p, 0)
        better = length > cover[: n - p]
        cover[: n - p][better], period[: n - p][better] = length[better], p
    out, k = [], 0
    while k < n:
        if not cover[k] or (k + 1 < n and cover[k + 1] > cover[k] + 1):
            out.append(parts[k])
            k += 1
            continue
        covered = int(cover[k])
        whole, times = parts[k : k + covered], covered // int(period[k])
        key = ("run", times, *keys[k : k + period[k]].tolist())
        out.append(Part("run", [j for part in whole for j in part.ops], numbers[key], "", whole, times))
        k += covered
    return out


def _opened(parts: list[Part]) -> list[Part]:
    """With calls and short runs opened as long as there are few boxes: those of the fewest parts first, and all that are equal."""
    parts = list(parts)
    while True:
        sizes: Counter[Any] = Counter()
        for p in parts:
            if p.parts and p.times <= SHORT:
                sizes[p.key] += len(p.parts) - 1
        fitting = [(more, k) for k, p in enumerate(parts) if (more := sizes.get(p.key)) is not None and len(parts) + more <= FEW]
        if not fitting:
            return parts
        chosen = parts[min(fitting)[1]].key
        parts = [q for p in parts for q in (p.parts if p.key == chosen and p.parts else [p])]


def _by_line(graph: Graph, parts: list[Part]) -> list[Part]:
    """With neighbours of one line of the program as one part."""
    out: list[Part] = []
    for part in parts:
        lines = {graph.boxes[k].line for k in part.ops} if part.kind in ("op", "line") else {""}
        line = lines.pop() if len(lines) == 1 else ""
        if line and out and out[-1].name == line:
            last = out[-1]
            out[-1] = Part("line", [*last.ops, *part.ops], None, line, [*(last.parts or [last]), part])
        else:
            out.append(Part(part.kind, part.ops, part.key, line, part.parts, part.times) if line else part)
    return out


def _counted(graph: Graph, parts: Sequence[Part]) -> list[str]:
    """What is in a box, a line for each op or call; equal neighbours on one."""
    told = [_title(graph, p) for p in parts if not (p.kind == "op" and graph.boxes[p.ops[0]].kind == "sum")]
    lines = [(name, len([*equal])) for name, equal in groupby(told)]
    shown = [name if times == 1 else f"{name} × {times}" for name, times in lines]
    return shown if len(shown) <= LISTED else [*shown[: LISTED - 1], f"… {len(shown) - LISTED + 1} more"]


def _title(graph: Graph, part: Part) -> str:
    if part.kind == "op":
        return graph.boxes[part.ops[0]].text[0]
    if part.kind == "call":
        return part.name if part.name in REPLAYS.values() else f"{part.name}()"
    if part.kind == "run":
        body = part.body()
        return f"{_title(graph, body[0])} × {part.times}" if len(body) == 1 else f"({len(body)} operations) × {part.times}"
    return f"{len(part.ops)} operations"


def _box(graph: Graph, part: Part) -> Box:
    boxes = [graph.boxes[k] for k in part.ops]
    if part.kind == "op":
        return boxes[0]
    count = sum(b.count for b in boxes)
    total = f"{count} operation{'s' if count != 1 else ''}"
    hint, last = "", boxes[-1]
    if part.kind == "call":
        text = [_title(graph, part), *_counted(graph, part.parts)]
    elif part.kind == "run":
        body = part.body()
        text = [f"{_title(graph, body[0])} × {part.times}" if len(body) == 1 else f"× {part.times}"]
        inside = body[0].parts if len(body) == 1 and body[0].kind == "call" else body if len(body) > 1 else ()
        text += _counted(graph, inside)
        hint = f"{part.times} times the same"
    elif part.kind == "line":
        where = source(part.name).split("\n")
        text = [where[-1] if len(where) > 1 else _tail(part.name), *_counted(graph, part.parts)[:2]]
    else:
        common = Counter(b.text[0].partition("(")[0] for b in boxes).most_common(4)
        text = [total, *(f"{name} × {n}" for name, n in common)]
    if last.kind == "op" and len(last.text) > 1:
        text.append(f"→ {last.text[1]}")
    lines = list(dict.fromkeys(b.line for b in boxes if b.line))
    hint = "\n".join([*([hint] if hint else []), total, *map(source, lines[:4]), *(["…"] if len(lines) > 4 else [])])
    return Box("fold", text, hint, ("fold",), (), boxes[0].line, count)


def _tail(line: str) -> str:
    return line.rpartition("/")[2]


def _folded(graph: Graph, parts: Sequence[Part]) -> Graph:
    out = Graph(graph.title, graph.of, graph.reverse)
    total = sum(b.count for b in graph.boxes if b.like is not None)
    out.title = f"{graph.title} ({total} operations)"
    place: dict[int, int] = {}  # old box -> group
    groups: list[tuple[list[int], Box]] = []
    pointed = {a.target for a in graph.arrows}
    rest = [k for k, b in enumerate(graph.boxes) if b.like is None]
    owner = {k: j for j, part in enumerate(parts) for k in part.ops}
    bundles = _bundles(graph, rest, owner)
    sources = [b for b in bundles if b[0] not in pointed]
    middle = [b for b in bundles if b[0] in pointed and graph.boxes[b[0]].kind == "accumulate"]  # which are between ops and leaves
    sinks = [b for b in bundles if b[0] in pointed and graph.boxes[b[0]].kind != "accumulate"]
    early, late = (sources, middle + sinks) if graph.reverse else (sources + middle, sinks)
    groups += [(b, _bundle_box(graph, b)) for b in early]
    groups += [(part.ops, _box(graph, part)) for part in parts]
    groups += [(b, _bundle_box(graph, b)) for b in late]
    for number, (members, box) in enumerate(groups):
        out.add(box)
        for k in members:
            place[k] = number
    single = [len(members) == 1 for members, _ in groups]
    merged: dict[tuple[int, int], list[Arrow]] = {}
    for a in graph.arrows:
        s, t = place[a.source], place[a.target]
        if s == t:
            continue
        if single[s] and single[t]:
            out.join(s, t, a.label, a.hint)
        else:
            merged.setdefault((s, t), []).append(a)
    for (s, t), found in merged.items():
        hints = list(dict.fromkeys(a.hint for a in found if a.hint))
        out.join(
            s, t, found[0].label if len(found) == 1 else "", "\n".join([*hints[:6], *([f"and {len(hints) - 6} more"] if hints[6:] else [])])
        )
    return out


def _bundles(graph: Graph, rest: Sequence[int], owner: dict[int, int]) -> list[list[int]]:
    """Inputs, constants and outputs that are drawn as one: those with the same neighbours, where there are many."""
    if len(rest) <= OTHERS:
        return [[k] for k in rest]
    near: dict[int, set[Any]] = {k: set() for k in rest}
    steps = {k: k for k in rest}
    for a in graph.arrows:  # a leaf's neighbours are those of the box that accumulates its gradient
        if a.source in near and a.target in near:
            steps[a.source] = a.target
    for a in graph.arrows:
        for one, other in ((a.source, a.target), (a.target, a.source)):
            if one in near and other in owner:
                near[one].add((one == a.source, owner[other]))
    keys = [(graph.boxes[k].kind, frozenset(near[k] or near[steps[k]]), graph.boxes[k].text[0].split("[")[0].split(".")[0]) for k in rest]
    for level in (3, 2, 1):  # those of one argument, if that makes them few enough
        found: dict[Any, list[int]] = {}
        for k, key in zip(rest, keys):
            found.setdefault(key[:level], []).append(k)
        if len(found) <= OTHERS:
            break
    return list(found.values())


def _bundle_box(graph: Graph, members: Sequence[int]) -> Box:
    first = graph.boxes[members[0]]
    if len(members) == 1:
        return first
    names = [graph.boxes[k].text[0] for k in members]
    noun = {"input": "inputs", "constant": "constants", "output": "outputs", "accumulate": first.text[0]}.get(first.kind, first.kind)
    head = f"{noun} × {len(members)}" if first.kind == "accumulate" else f"{len(members)} {noun}"
    distinct = list(dict.fromkeys(names))
    listed = [", ".join(distinct[:3]) + (" …" if len(distinct) > 3 else "")] if distinct != [first.text[0]] or first.kind == "input" else []
    return Box(first.kind, [head, *listed], "\n".join(graph.boxes[k].hint for k in members[:12]))
