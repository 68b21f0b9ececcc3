"""Where boxes and arrows go: a layered drawing, after Sugiyama, Tagawa and Toda (IEEE Trans. SMC 11, 1981, 109-125).

1. Layers by longest path, so that every arrow points down; inputs, and what hangs by an input alone, come down to just above their use.
2. An arrow over several layers passes through a *bend* in each; arrows that leave one box share their bends.
3. In each layer boxes and bends are ordered by the barycentre of their neighbours, in sweeps down and up; the order with the fewest
   crossings is kept (counted as inversions).
4. Across, each wants to stand at the mean of its neighbours. Given the order and the least distances this is an isotonic regression,
   solved exactly for a layer at a time by pooling adjacent violators (Ayer et al., Ann. Math. Stat. 26, 1955, 641-647). In the last
   sweeps the bends of an arrow, and the boxes of the longest way down, are drawn towards one line.

Nothing recurses; the time is near linear in boxes and bends.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

GAP, SPACE, TRACK = 34.0, 26.0, 14.0  # between layers, between boxes, round a bend
BENDS = 20_000  # more bends than these are not made: what is longest goes straight
SWEEPS = 12

Point = tuple[float, float]


class Placed(NamedTuple):
    """Centres of the boxes, the points that each arrow passes through, top and bottom of the layer at each, and the size of all."""

    centres: list[Point]
    routes: list[list[tuple[float, float, float]]]  # (x, y where it enters, y where it leaves)
    width: float
    height: float


def place(sizes: Sequence[Point], arrows: Sequence[tuple[int, int]], ordered: Sequence[bool]) -> Placed:
    """A place for each box, given widths and heights; arrows run from smaller to larger numbers.

    Where `ordered`, arrows arrive at a box in the order in which they are given, else as they come.
    """
    layer = _layers(len(sizes), arrows)
    bends, chains = _bends(layer, arrows)
    widths = [w for w, _ in sizes] + [TRACK] * (len(bends) - len(sizes))
    rows = _rows(bends)
    ports = _ports(sizes, arrows, ordered)
    links: dict[tuple[int, int], float] = {}  # from a box or bend to one in the next layer, with where it arrives
    for (source, target), chain, port in zip(arrows, chains, ports):
        if chain is not None:
            stops = [source, *chain, target]
            for u, v in pairwise(stops):
                links.setdefault((u, v), port if v == target else 0.0)
    above: list[list[tuple[int, float]]] = [[] for _ in bends]
    below: list[list[tuple[int, float]]] = [[] for _ in bends]
    for (u, v), port in links.items():
        above[v].append((u, port))
        below[u].append((v, port))
    rows = _order(rows, above, below, widths)
    x = _across(rows, above, below, widths, len(sizes), [*_longest(chains), _spine(len(sizes), links)])
    shift = min((x[k] - widths[k] / 2 for k in range(len(bends))), default=0.0)
    x = [v - shift for v in x]
    tops, bottoms = _down(rows, sizes, below, x)
    centres = [(x[k], (tops[bends[k]] + bottoms[bends[k]]) / 2) for k in range(len(sizes))]
    if not all(ordered):
        ports = _ports(sizes, arrows, ordered, x, chains)
    routes = []
    for (source, target), chain, port in zip(arrows, chains, ports):
        (sx, sy), (tx, ty) = centres[source], centres[target]
        middle = [(x[k], tops[bends[k]], bottoms[bends[k]]) for k in chain or ()]
        start, end = sy + sizes[source][1] / 2, ty - sizes[target][1] / 2
        routes.append([(sx, start, max(start, bottoms[bends[source]])), *middle, (tx + port, min(end, tops[bends[target]]), end)])
    width = max((x[k] + widths[k] / 2 for k in range(len(bends))), default=0.0)
    return Placed(centres, routes, width, bottoms[-1] if bottoms else 0.0)


def _layers(count: int, arrows: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each box: one more than the lowest that points to it. What hangs by a thread comes down to its use."""
    layer = [0] * count
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for source, target in sorted(arrows):  # all arrows into `source` are done by then
        layer[target] = max(layer[target], layer[source] + 1)
        above[target].append(source)
        below[source].append(target)
    loose: list[bool] = []  # whether nothing but itself would come down with a box
    for k in range(count):
        loose.append(not above[k] or len(above[k]) == 1 and loose[above[k][0]] and len(below[above[k][0]]) == 1)
    for k in reversed(range(count)):
        if loose[k] and below[k]:
            layer[k] = min(layer[v] for v in below[k]) - 1
    return layer


def _bends(layer: list[int], arrows: Sequence[tuple[int, int]]) -> tuple[list[int], list[list[int] | None]]:
    """The layers of boxes and then bends; and the bends of each arrow, None if it goes straight although it is long."""
    reach: dict[int, int] = {}
    for source, target in arrows:
        reach[source] = max(reach.get(source, 0), layer[target])
    allowed, made = set(), 0
    for source in sorted(reach, key=lambda k: reach[k] - layer[k]):
        made += max(0, reach[source] - layer[source] - 1)
        if made > BENDS:
            break
        allowed.add(source)
    places = list(layer)
    tracks: dict[int, list[int]] = {}
    for source in sorted(allowed):
        span = range(layer[source] + 1, reach[source])
        tracks[source] = list(range(len(places), len(places) + len(span)))
        places.extend(span)
    chains = [tracks[s][: layer[t] - layer[s] - 1] if s in allowed or layer[t] == layer[s] + 1 and s in tracks else None for s, t in arrows]
    return places, [[] if c is None and layer[t] == layer[s] + 1 else c for c, (s, t) in zip(chains, arrows)]


def _rows(places: Sequence[int]) -> list[list[int]]:
    rows: list[list[int]] = [[] for _ in range(max(places, default=-1) + 1)]
    for k, layer in enumerate(places):
        rows[layer].append(k)
    return rows


def _ports(
    sizes: Sequence[Point],
    arrows: Sequence[tuple[int, int]],
    ordered: Sequence[bool],
    x: Sequence[float] = (),
    chains: Sequence[list[int] | None] = (),
) -> list[float]:
    """How far from the middle of its box's top each arrow arrives."""
    arriving: dict[int, list[int]] = {}
    for k, (_, target) in enumerate(arrows):
        arriving.setdefault(target, []).append(k)
    out = [0.0] * len(arrows)
    for target, found in arriving.items():
        if x and not ordered[target]:
            found.sort(key=lambda k: x[(chains[k] or [arrows[k][0]])[-1]])
        room = min(sizes[target][0] * 0.7, 26.0 * (len(found) - 1))
        for j, k in enumerate(found):
            out[k] = room * (j / (len(found) - 1) - 0.5) if len(found) > 1 else 0.0
    return out


def _order(
    rows: list[list[int]], above: list[list[tuple[int, float]]], below: list[list[tuple[int, float]]], widths: Sequence[float]
) -> list[list[int]]:
    best, fewest = [list(row) for row in rows], _crossings(rows, below)
    for sweep in range(SWEEPS if len(above) < 4000 else 4):
        if not fewest:
            break
        down = sweep % 2 == 0
        near, path = (above, rows) if down else (below, rows[::-1])
        place = {k: float(j) for row in rows for j, k in enumerate(row)}
        for row in path:
            centre = {}
            for j, k in enumerate(row):
                found = near[k]
                if down:
                    centre[k] = sum(place[u] - port * 1e-3 for u, port in found) / len(found) if found else float(j)
                else:
                    centre[k] = sum(place[v] + port / widths[v] for v, port in found) / len(found) if found else float(j)
            row.sort(key=centre.__getitem__)
            for j, k in enumerate(row):
                place[k] = float(j)
        count = _crossings(rows, below)
        if count < fewest:
            best, fewest = [list(row) for row in rows], count
    return best


def _crossings(rows: Sequence[Sequence[int]], below: Sequence[Sequence[tuple[int, float]]]) -> int:
    """How many pairs of links between neighbouring layers cross."""
    total = 0
    for upper, lower in pairwise(rows):
        place = {k: float(j) for j, k in enumerate(lower)}
        seen: list[float] = []
        for u in upper:
            ends = sorted(place[v] + port * 1e-3 for v, port in below[u])
            for end in ends:
                total += len(seen) - bisect_right(seen, end)
            for end in ends:
                insort(seen, end)
    return total


def _spine(boxes: int, links: Iterable[tuple[int, int]]) -> list[int]:
    """The longest way down through boxes alone: what the picture hangs on."""
    length, after = [0] * boxes, [-1] * boxes
    for u, v in sorted(links, reverse=True):
        if v < boxes and u < boxes and length[v] >= length[u]:
            length[u], after[u] = length[v] + 1, v
    k = max(range(boxes), key=length.__getitem__, default=-1)
    spine = []
    while k >= 0:
        spine.append(k)
        k = after[k]
    return spine


def _longest(chains: Sequence[Sequence[int] | None]) -> list[list[int]]:
    """Of the chains that begin alike the longest."""
    found: dict[int, list[int]] = {}
    for chain in chains:
        if chain and len(chain) > len(found.get(chain[0], ())):
            found[chain[0]] = list(chain)
    return list(found.values())


def _across(
    rows: Sequence[Sequence[int]],
    above: Sequence[Sequence[tuple[int, float]]],
    below: Sequence[Sequence[tuple[int, float]]],
    widths: Sequence[float],
    boxes: int,
    chains: Sequence[list[int]],
) -> list[float]:
    """The middle of each box and bend. In the last sweeps those of a chain want to be straight below one another, boxes a little."""
    x = [0.0] * len(widths)
    for row in rows:
        at = 0.0
        for k in row:
            x[k] = at + widths[k] / 2
            at += widths[k] + SPACE
        for k in row:
            x[k] -= at / 2
    sweeps = 30 if len(widths) < 2000 else 5
    line: dict[int, float] = {}
    for sweep in range(sweeps):
        if 2 * sweep > sweeps:
            for chain in filter(None, chains):
                mean = sum(x[k] for k in chain) / len(chain)
                line.update((k, mean) for k in chain)
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            wanted, weights = [], []
            for k in row:
                pulls = [(line[k], 40.0 if k >= boxes else 2.0)] if k in line else []
                for near, sign in ((above[k], -1.0), (below[k], 1.0)):
                    for u, port in near:
                        straight = 8.0 if u >= boxes and k >= boxes else 2.0 if u >= boxes or k >= boxes else 1.0
                        pulls.append((x[u] + sign * port, straight / max(1, len(near)) ** 0.5))
                total = sum(w for _, w in pulls)
                wanted.append(sum(v * w for v, w in pulls) / total if pulls else x[k])
                weights.append(max(total, 0.1))
            _spread(row, wanted, weights, widths, x, boxes)
    return x


def _spread(
    row: Sequence[int], wanted: Sequence[float], weights: Sequence[float], widths: Sequence[float], x: list[float], boxes: int
) -> None:
    """Put a layer's boxes as near as may be to where they want to be, in their order and without overlap."""
    offsets, at = [], 0.0
    for j, k in enumerate(row):
        if j:
            before = row[j - 1]
            at += (widths[before] + widths[k]) / 2 + (SPACE if before < boxes and k < boxes else SPACE / 2)
        offsets.append(at)
    pools: list[tuple[float, float, int]] = []  # mean, weight, how many
    for want, weight, offset in zip(wanted, weights, offsets):
        mean, total, count = want - offset, weight, 1
        while pools and pools[-1][0] > mean:
            other, heavy, many = pools.pop()
            mean, total, count = (mean * total + other * heavy) / (total + heavy), total + heavy, count + many
        pools.append((mean, total, count))
    j = 0
    for mean, _, count in pools:
        for _ in range(count):
            x[row[j]] = mean + offsets[j]
            j += 1


def _down(
    rows: Sequence[Sequence[int]], sizes: Sequence[Point], below: Sequence[Sequence[tuple[int, float]]], x: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Top and bottom of each layer; where arrows go far across there is more room below."""
    tops, bottoms, at = [], [], 0.0
    for row in rows:
        tops.append(at)
        at += max((sizes[k][1] for k in row if k < len(sizes)), default=0.0)
        bottoms.append(at)
        far = max((abs(x[k] - x[v]) for k in row for v, _ in below[k]), default=0.0)
        at += min(90.0, max(GAP, 0.14 * far))
    return tops, bottoms
