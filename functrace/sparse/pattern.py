"""Which outputs of a recorded run depend on which inputs: a walk along the tape that carries sets of inputs instead of tangents.

Each slot has a boolean matrix, a row for each element and a column for each input. What an op does to the rows is known for the
ops that move, join or combine elements. Of any other op it is found from its tangent rule: applied to positive random numbers on
the half of the argument whose index has a certain bit set, then on the other half, it shows on which half each result depends.
Where one bit after the other is decided, the result depends on one element; what stays open is taken for a dependence. The bits are
those of the Gray code, in which neighbours differ in one bit, so that windows of neighbours are found almost exactly. The
result may hold too much, and too little only if random numbers cancel exactly. It is that of the branches the run took.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from functrace.core.forward import tangent
from functrace.core.primitive import ITEM, Primitive
from functrace.core.tape import Tape
from functrace.ops.index import filled
from functrace.sparse.coloring import columns
from functrace.transforms.batching import vmap

_AT_ONCE = 1 << 22  # elements of a batch of probes
_FEW = 64  # columns

# Ops whose result is made of elements of their first arguments (None: of all), found by applying them to the elements' numbers.
_MOVES: dict[str, int | None] = {
    "reshape": 1,
    "transpose": 1,
    "broadcast_to": 1,
    "getitem": 1,
    "gather": 1,
    "take_along": 1,
    "roll": 1,
    "diagonals": 1,
    "index_set": 2,
    "stack": None,
    "concatenate": None,
}
_ALIKE = ("where", "astype")  # not elementwise by declaration, but each element depends on those at its place


def _shape(x: Any) -> tuple[int, ...]:
    return tuple(x.shape) if hasattr(x, "shape") else np.shape(x)


def _size(x: Any) -> int:
    return int(np.prod(_shape(x), dtype=np.int64))


def _numbers(shape: tuple[int, ...], start: int = 0) -> Any:
    return np.arange(start, start + int(np.prod(shape, dtype=np.int64))).reshape(shape)


def stacked(parts: Sequence[Any], sizes: Sequence[int], width: int) -> Any:
    """Rows one after the other; empty ones, of which `sizes` says how many, for None."""
    from scipy import sparse

    rows = [sparse.csr_array((n, width), dtype=bool) if p is None else p for p, n in zip(parts, sizes)]
    return sparse.vstack(rows, "csr") if rows else sparse.csr_array((0, width), dtype=bool)


def _matrix(rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
    from scipy import sparse

    return sparse.csr_array((np.ones(len(rows), bool), (rows, columns)), shape=shape)


def _moved(primitive: Primitive, deps: Sequence[Any], args: Sequence[Any], params: tuple[Any, ...], width: int) -> Any:
    """The rows of the arguments, in the places where the op puts their elements; constants have empty rows."""
    count = _MOVES[primitive.name]
    data = len(args) if count is None else count
    sizes = [_size(a) for a in args[:data]]
    starts = np.cumsum([0, *sizes]).tolist()
    numbered = [_numbers(_shape(a), start) for a, start in zip(args[:data], starts)]
    rows = deps[0] if data == 1 else stacked(deps[:data], sizes, width)
    return rows[np.ravel(primitive.fun(*numbered, *args[data:], *params))]


def _alike(deps: Sequence[Any], args: Sequence[Any], ans: Any) -> Any:
    return _all(_spread(d, _shape(x), _shape(ans)) for d, x in zip(deps, args) if d is not None)


def _all(rows: Iterable[Any]) -> Any:
    return functools.reduce(lambda one, other: one if one is other else one + other, rows)


def _spread(rows: Any, shape: tuple[int, ...], to: tuple[int, ...]) -> Any:
    return rows if shape == to else rows[np.ravel(np.broadcast_to(_numbers(shape), to))]


def _added(places: Any, rows: Any, size: int) -> Any:
    places = np.ravel(places)
    return _matrix(places, np.arange(len(places)), (size, len(places))) @ rows


def _special(primitive: Primitive, deps: Sequence[Any], args: Sequence[Any], ans: Any, params: tuple[Any, ...]) -> Any:
    """The rows of the result of an op whose dependence is known by its name; None for the others."""
    name, size = primitive.name, _size(ans)
    if name in ("placed", "scatter"):
        where = filled(params[0], args[1:]) if name == "scatter" else params[0]
        return _added(np.broadcast_to(_numbers(params[-1])[where], _shape(args[0])), deps[0], size)
    if name == "index_add":
        places = _numbers(_shape(args[0]))[params[0]]
        v = None if deps[1] is None else _added(places, _spread(deps[1], _shape(args[1]), _shape(places)), size)
        return _all(d for d in (deps[0], v) if d is not None)
    if name == "sum":
        kept = np.sum(np.zeros(_shape(args[0]), bool), axis=params[0], keepdims=True).shape
        return _added(np.broadcast_to(_numbers(kept), _shape(args[0])), deps[0], size)
    if name == "sparse_matmul":
        return product_rows(params[0].matrix(*args[1:]), deps[0], _shape(args[0]), False)
    if name == "matmul" and (deps[0] is None or deps[1] is None) and max(len(_shape(x)) for x in args) <= 2:
        known, other = (0, 1) if deps[0] is None else (1, 0)
        if len(_shape(args[known])) == 2:
            return product_rows(args[known], deps[other], _shape(args[other]), known == 0)
    return None


def product_rows(a: Any, rows: Any, shape: tuple[int, ...], left: bool) -> Any:
    """The rows of the product of a constant matrix, on the left or on the right, and an array of this shape."""
    from scipy import sparse

    a = sparse.csr_array(a if left else a.T) != 0
    rest = sparse.eye_array(math.prod(shape[1:] if left else shape[:-1]), dtype=bool)
    return sparse.csr_array(sparse.kron(a, rest) if left else sparse.kron(rest, a), dtype=bool) @ rows


def _codes(shape: tuple[int, ...]) -> tuple[Any, int]:
    """A number for each element, of the bits of the Gray codes of its indices; and how many bits."""
    total, bits = np.zeros(shape, np.int64), 0
    for axis, n in enumerate(shape):
        gray = np.arange(n) ^ (np.arange(n) >> 1)
        total += (gray << bits).reshape(-1, *(1,) * (len(shape) - axis - 1))
        bits += max(n - 1, 0).bit_length()
    return total.reshape(-1), max(bits, 1)


def _probed(primitive: Primitive, k: int, args: tuple[Any, ...], ans: Any, params: tuple[Any, ...], rng: Any) -> list[tuple[Any, Any]]:
    """For each result `(kinds, which)`: rows of dependences on argument k, and which of them each element has (-1: none)."""
    x = args[k]
    codes, bits = _codes(_shape(x))
    anses = ans if primitive.multi else (ans,)

    def push(t: Any) -> tuple[Any, ...]:
        ts: list[Any] = [None] * len(args)
        ts[k] = t
        total = tangent(primitive, ts, ans, args, params)
        parts = total if primitive.multi and total is not None else [total] * len(anses)
        return tuple(np.zeros(_shape(y)) if t is None else t for t, y in zip(parts, anses))

    def shown(halves: Any) -> list[Any]:
        """For each row of `halves`, which elements of each result depend on the elements of x that are chosen in it."""
        seen = [np.zeros((len(halves), _size(y)), bool) for y in anses]
        step = max(1, _AT_ONCE // max(1, _size(x)))
        for _ in range(1 if x.dtype.char in "dDgG" else 2):  # fewer digits cancel sooner
            marks = rng.uniform(1, 2, len(codes))
            for start in range(0, len(halves), step):
                batch = (halves[start : start + step] * marks).astype(x.dtype).reshape(-1, *_shape(x))
                for s, out in zip(seen, vmap(push)(batch)):
                    s[start : start + step] |= np.reshape(out, (len(batch), s.shape[1])) != 0
        return seen

    halves = np.stack([(codes >> b & 1) == side for b in range(bits) for side in (0, 1)])
    found = [_rows(s, codes, bits) for s in shown(halves)]
    return [_narrowed(kinds, which, shown, r) for r, (kinds, which) in enumerate(found)]


def _narrowed(kinds: Any, which: Any, shown: Callable[[Any], list[Any]], result: int) -> tuple[Any, Any]:
    """Where a few columns are left for each row: those of them that a probe by colours shows."""
    most = np.diff(kinds.indptr).max(initial=0)
    if not 3 <= most <= _FEW or most == kinds.shape[1]:
        return kinds, which
    touched = np.flatnonzero(which >= 0)
    local = kinds[which[touched]]
    colors = columns(local)
    if colors.max() >= _FEW:
        return kinds, which
    seen = shown(colors == np.arange(colors.max() + 1)[:, None])[result]
    rows = np.repeat(touched, np.diff(local.indptr))
    keep = seen[colors[local.indices], rows]
    return _matrix(rows[keep], local.indices[keep], (len(which), kinds.shape[1])), np.arange(len(which))


def _rows(seen: Any, codes: Any, bits: int) -> tuple[Any, Any]:
    zeros, ones = seen[0::2], seen[1::2]
    weights = 1 << np.arange(bits)
    value = weights @ (ones & ~zeros)
    open_bits = weights @ (ones == zeros)
    touched = np.flatnonzero(seen.any(axis=0))
    kinds, inverse = np.unique(np.stack([value, open_bits])[:, touched], axis=1, return_inverse=True)
    which = np.full(seen.shape[1], -1)
    which[touched] = np.ravel(inverse)
    order = np.argsort(codes)
    rows, columns = [np.zeros(0, int)], [np.zeros(0, int)]
    for mask in np.unique(kinds[1]):
        mine = np.flatnonzero(kinds[1] == mask)
        free = [1 << b for b in range(bits) if mask >> b & 1]
        if 2 ** len(free) <= 2 * len(codes):
            combinations = np.zeros(1, np.int64)
            for bit in free:
                combinations = np.concatenate([combinations, combinations | bit])
            wanted = kinds[0][mine][:, None] | combinations
            at = np.minimum(np.searchsorted(codes, wanted, sorter=order), len(codes) - 1)
            i, j = np.nonzero(codes[order[at]] == wanted)
            rows.append(mine[i])
            columns.append(order[at[i, j]])
        else:
            for kind in mine:
                found = np.flatnonzero((codes & ~mask) == kinds[0][kind])
                rows.append(np.full(len(found), kind))
                columns.append(found)
    return _matrix(np.concatenate(rows), np.concatenate(columns), (kinds.shape[1], len(codes))), which


def dependence(tape: Tape) -> Any:
    """A boolean `csr_array`: whether each element of the outputs, one after the other, depends on each of the inputs."""
    from scipy import sparse

    width = sum(_size(x) for x in tape.inputs)
    found: dict[int, Any] = {}  # by slot; a list for several results
    start = 0
    for slot, x in enumerate(tape.inputs):
        n = _size(x)
        found[slot] = sparse.eye_array(n, width, k=start, dtype=bool, format="csr")
        start += n
    last = {s: row for row, entry in enumerate(tape.entries) for s in entry[2]}
    wanted = set(tape.slots)
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        for row, (primitive, out, slots, args, ans, params) in enumerate(tape.entries):
            deps: list[Any] = [found.get(s) for s in slots]
            if any(d is not None for d in deps):
                after = deps[0][params[0]] if primitive.kind == ITEM else _after(primitive, deps, args, ans, params, width, rng)
                if after is not None:
                    found[out] = after
            for s in slots:
                if last.get(s) == row and s not in wanted:
                    found.pop(s, None)
    return stacked([found.get(s) for s in tape.slots], [_size(y) for y in tape.outputs], width)


def _after(
    primitive: Primitive, deps: Sequence[Any], args: tuple[Any, ...], ans: Any, params: tuple[Any, ...], width: int, rng: Any
) -> Any:
    if primitive.elementwise or primitive.name in _ALIKE:
        return _alike(deps, args, ans)
    if primitive.name in _MOVES:
        return _moved(primitive, deps, args, params, width)
    known = None if primitive.multi else _special(primitive, deps, args, ans, params)
    if known is not None:
        return known
    totals: list[Any] = [None] * (len(ans) if primitive.multi else 1)
    for k, d in enumerate(deps):
        if d is None or not _size(args[k]):
            continue
        for r, (kinds, which) in enumerate(_probed(primitive, k, args, ans, params, rng)):
            rows = stacked([kinds @ d, None], [0, 1], width)[np.where(which < 0, kinds.shape[0], which)]
            totals[r] = rows if totals[r] is None else totals[r] + rows
    return totals if primitive.multi else totals[0]
