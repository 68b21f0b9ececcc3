"""`np.einsum`, in every form: parsed once into diagonals, sums, and contractions of two operands at a time.

What has repeated, lone or length-1 indices is brought to none by views and sums first. What is left is a chain of
`contraction`s, each a matrix product where it can be; their derivatives are contractions again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from functrace.ops import reduce as _reduce
from functrace.ops import shape as _shape
from functrace.ops.contract import Labels, contraction
from functrace.ops.create import lift
from functrace.ops.inplace import View, linked, permuted
from functrace.ops.kinds import linear
from functrace.ops.registry import Sample, implements

_ELLIPSIS = -1  # in a term: where `...` stands. Expanded, its axes are -2, -3, ... counted from the last
Term = tuple[int, ...]


def _unique(labels: Labels) -> Labels:
    return tuple(dict.fromkeys(labels))


def _diagonal(x: Any, labels: Labels) -> Any:
    return np.einsum(x, list(labels), list(_unique(labels)))


def _onto_diagonal(x: Any, labels: Labels, shape: tuple[int, ...]) -> Any:
    out = np.zeros(shape, x.dtype)
    np.einsum(out, list(labels), list(_unique(labels)))[...] = x
    return out


def _with_batch(labels: Labels) -> Labels:
    return (0, *(k + 1 for k in labels))


diagonals: Any = linear(  # of axes with one label only the diagonal: a view
    "diagonals",
    _diagonal,
    lambda g, _ans, _x, labels: onto_diagonals(g, labels, _x.shape),
    batch=lambda _size, x, labels: diagonals(x, _with_batch(labels)),
)
onto_diagonals: Any = linear(
    "onto_diagonals",
    _onto_diagonal,
    lambda g, _ans, _x, labels, _shape: diagonals(g, labels),
    batch=lambda size, x, labels, shape: onto_diagonals(x, _with_batch(labels), (size, *shape)),
)


def _put(base: Any, v: Any, labels: Labels) -> Any:
    return np.where(_onto_diagonal(np.ones(v.shape, bool), labels, base.shape), onto_diagonals(v, labels, base.shape), base)


_DIAGONALS = View(diagonals, _put)


def _terms(subscripts: str, count: int) -> tuple[list[Term], Term | None]:
    """The labels of each operand and of the output (None: implicit) from a subscripts string."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != count:
        fewer = "more" if count > len(parts) else "fewer"
        raise ValueError(f"{fewer} operands provided to einstein sum function than specified in the subscripts string {subscripts!r}")
    return [_letters(part, subscripts) for part in parts], _letters(right, subscripts) if arrow else None


def _letters(part: str, subscripts: str) -> Term:
    before, dots, after = part.partition("...")
    if not all(c.isascii() and c.isalpha() for c in before + after):
        raise ValueError(f"invalid subscripts {part!r} in einstein sum subscripts string {subscripts!r}: letters and one '...' only")
    return (*map(ord, before), *([_ELLIPSIS] if dots else []), *map(ord, after))


def _numbers(sublist: Sequence[Any]) -> Term:
    if any(k is not Ellipsis and not 0 <= k < 52 for k in sublist):
        raise ValueError("einsum: subscripts must be integers from 0 to 51, or Ellipsis")
    return tuple(_ELLIPSIS if k is Ellipsis else int(k) for k in sublist)


def _expand(term: Term, extra: int) -> Labels:
    where = term.index(_ELLIPSIS) if _ELLIPSIS in term else None
    return term if where is None else (*term[:where], *range(-1 - extra, -1), *term[where + 1 :])


class _Operand(NamedTuple):
    """What to do to an operand first, each None if nothing: its labels for diagonals, a shape without broadcast axes, axes to sum."""

    diagonal: Labels | None
    shape: tuple[int, ...] | None
    summed: tuple[int, ...] | None
    labels: Labels


def _prepare(
    terms: tuple[Term, ...], output: Term | None, shapes: tuple[tuple[int, ...], ...]
) -> tuple[tuple[_Operand, ...], Labels, dict[int, int]]:
    """What to do to each operand, the labels of the result, and the length of each label."""
    extras = [len(shape) - len(term) + (_ELLIPSIS in term) for term, shape in zip(terms, shapes)]
    for k, (term, extra) in enumerate(zip(terms, extras)):
        if extra < 0 or extra and _ELLIPSIS not in term:
            raise ValueError(
                f"einstein sum subscripts string contains {len(term)} subscripts for operand {k}, which has {len(shapes[k])} dimensions"
            )
    labels = [_expand(term, extra) for term, extra in zip(terms, extras)]
    sizes: dict[int, int] = {}
    for k, (names, shape) in enumerate(zip(labels, shapes)):
        for name, n in zip(names, shape):
            if any(m != n for other, m in zip(names, shape) if other == name):
                raise ValueError(f"dimensions in operand {k} for collapsing an index don't match: {shape}")
            if sizes.setdefault(name, n) == 1:
                sizes[name] = n
            elif n not in (1, sizes[name]):
                raise ValueError(f"operands could not be broadcast together: an index has lengths {sizes[name]} and {n} (shapes {shapes})")
    if output is None:
        every = [name for names in labels for name in names]
        result = (*range(-1 - max(extras), -1), *sorted(name for name in set(every) if name >= 0 and every.count(name) == 1))
    else:
        result = _expand(output, max(extras))
        if len(set(result)) != len(result):
            raise ValueError("einstein sum subscripts string includes an output subscript multiple times")
        if not set(result) <= set(sizes):
            raise ValueError("einstein sum subscripts string included an output subscript which never appeared in an input")
        if max(extras) and _ELLIPSIS not in output:
            raise ValueError("output has more dimensions than subscripts given in einstein sum, but no '...' ellipsis provided")
    return _operands(labels, shapes, sizes, result), result, sizes


def _operands(labels: list[Labels], shapes: Sequence[tuple[int, ...]], sizes: dict[int, int], result: Labels) -> tuple[_Operand, ...]:
    diagonal = [tuple(map(names.index, names)) if len(set(names)) < len(names) else None for names in labels]
    lengths = [dict(zip(names, shape)) for names, shape in zip(labels, shapes)]
    squeezed = [any(n != sizes[k] for k, n in part.items()) for part in lengths]
    kept = [tuple(k for k, n in part.items() if n == sizes[k]) for part in lengths]
    out = []
    for i, names in enumerate(kept):
        elsewhere = {k for j, other in enumerate(kept) if j != i for k in other} | set(result)
        summed = tuple(axis for axis, k in enumerate(names) if k not in elsewhere)
        shape = tuple(sizes[k] for k in names) if squeezed[i] else None
        out.append(_Operand(diagonal[i], shape, summed or None, tuple(k for k in names if k in elsewhere)))
    return tuple(out)


def _path(labels: list[Labels], result: Labels, length: dict[int, int], optimize: Any) -> list[tuple[int, ...]]:
    """The order of contractions, from NumPy's own planner: operands taken out, the result put at the end."""
    names = {k: n for n, k in enumerate(length)}
    if len(labels) <= 2 or len(names) > 52:
        return [(0, 1)] * (len(labels) - 1)
    if isinstance(optimize, tuple) and optimize[0] == "einsum_path":
        return [tuple(step) for step in optimize[1:]]
    call: list[Any] = []
    for part in labels:
        call += [np.broadcast_to(0.0, tuple(length[k] for k in part)), [names[k] for k in part]]
    method = optimize if optimize and not isinstance(optimize, bool) else "greedy"
    return [tuple(step) for step in np.einsum_path(*call, [names[k] for k in result], optimize=method)[0][1:]]


Step = tuple[int, int, Labels, Labels, Labels]


def _steps(labels: list[Labels], result: Labels, path: list[tuple[int, ...]]) -> tuple[list[Step], Labels]:
    """Contractions of two values each, by position in the list of all values so far; and the labels of the last."""
    steps: list[Step] = []
    waiting = list(range(len(labels)))
    labels = list(labels)
    for taken in path:
        chosen = [waiting[k] for k in taken]
        waiting = [k for k in waiting if k not in chosen]
        x = chosen[0]
        for n, y in enumerate(chosen[1:], 2):
            others = waiting + chosen[n:]
            needed = {k for other in others for k in labels[other]} | set(result)
            lo = result if not others else tuple(k for k in _unique(labels[x] + labels[y]) if k in needed)
            shift = -min((0, *labels[x], *labels[y]))
            lx, ly, lz = (tuple(k + shift for k in part) for part in (labels[x], labels[y], lo))
            steps.append((x, y, lx, ly, lz))
            labels.append(lo)
            x = len(labels) - 1
        waiting.append(x)
    return steps, labels[-1]


@lru_cache(maxsize=1024)
def _program(
    subscripts: Any, output: Any, shapes: tuple[tuple[int, ...], ...], optimize: Any
) -> tuple[tuple[_Operand | None, ...], list[Step], Labels | None]:
    """The plan for these subscripts and shapes: preparations, contractions, and a last transposition."""
    if isinstance(subscripts, str):
        terms, out = _terms(subscripts, len(shapes))
    else:
        terms, out = [_numbers(sublist) for sublist in subscripts], None if output is None else _numbers(output)
    plan, result, sizes = _prepare(tuple(terms), out, shapes)
    labels = [todo.labels for todo in plan]
    length = {k: sizes[k] for names in labels for k in names}
    steps, last = _steps(labels, result, _path(labels, result, length, optimize))
    axes = tuple(last.index(k) for k in result)
    idle = [todo.diagonal is None and todo.shape is None and todo.summed is None for todo in plan]
    return tuple(None if no else todo for todo, no in zip(plan, idle)), steps, None if axes == tuple(range(len(axes))) else axes


def _hashable(optimize: Any) -> Any:
    return tuple(_hashable(k) for k in optimize) if isinstance(optimize, (list, tuple)) else optimize


def _two(a: str, first: tuple[int, ...], second: tuple[int, ...], **kwargs: Any) -> Sample:
    return Sample(lambda rng: (a, rng.normal(size=first), rng.normal(size=second)), kwargs, wrt=(1, 2))


def _one(a: str, shape: tuple[int, ...]) -> Sample:
    return Sample(lambda rng: (a, rng.normal(size=shape)), wrt=(1,))


def _lists(*calls: Any, **kwargs: Any) -> Sample:
    """Alternating shapes and sublists; a shape becomes an array."""
    where = tuple(k for k, item in enumerate(calls) if isinstance(item, tuple))
    return Sample(lambda rng: tuple(rng.normal(size=c) if isinstance(c, tuple) else c for c in calls), kwargs, wrt=where)


_SAMPLES = [
    *(_one(a, (3, 3)) for a in ("ij->ji", "ii", "ii->i", "ij->", "ij->j", "ji", "...j->...", "i...")),
    *(_one(a, (2, 2, 2)) for a in ("iij->j", "iji->ij", "iii", "iii->i", "ij...->...i", "...ii->...i")),
    *(_two(a, (2, 3), (3, 4)) for a in ("ij,jk->ik", "ij,jk", "ij,jk->ki", "ij,kl->il", "ij,jk->", "...ij,...jk->...ik")),
    *(_two(a, (2, 3), (2, 3)) for a in ("ij,ij->", "ij,ij->ij", "ij,ij->i", "ij,ij->ji", "ij,ik->jk", "ij,kj->ki")),
    *(_two(a, (4, 2, 3), (4, 3, 2)) for a in ("bij,bjk->bik", "bij,bji->b", "bij,bjk->ikb", "bij,cjk->bcik", "bij,bkl->il")),
    _two("i,j->ij", (3,), (2,)),
    _two("i,i", (3,), (3,)),
    _two(",i->i", (), (3,)),
    _two("ij,jk->ik", (2, 1), (3, 2)),
    _two("...i,...i->...", (2, 1, 3), (4, 3)),
    _two("ii,ij->j", (3, 3), (3, 2)),
    _two("ij,jk->ik", (2, 0), (0, 3)),
    _two("ijkl,klj->i", (2, 3, 2, 2), (2, 2, 3)),
    _lists((2, 3), [0, 1], (3, 2), [1, 2]),
    _lists((2, 3), [0, 1], (3, 2), [1, 2], [2, 0]),
    _lists((2, 3), [..., 1], (3,), [1], [...]),
    _lists((3, 3), [4, 4]),
    *(
        Sample(lambda rng: ("ij,jk,kl->il", *(rng.normal(size=s) for s in ((2, 3), (3, 4), (4, 2)))), {"optimize": how}, (1, 2, 3))
        for how in (False, True, "optimal")
    ),
    Sample(
        lambda rng: ("i,ij,j,j->", *(rng.normal(size=s) for s in ((2,), (2, 3), (3,), (3,)))),
        {"optimize": ["einsum_path", (0, 1), (0, 1), (0, 1)]},
        (1, 2, 3, 4),
    ),
]


@implements(np.einsum, _SAMPLES, note="always contracted two by two, as with optimize=True")
def einsum(*operands: Any, out: Any = None, optimize: Any = False, dtype: Any = None, order: Any = "K", casting: Any = "safe") -> Any:
    """`np.einsum`: strings and sublists, implicit outputs, repeated, lone and broadcast indices, any number of operands."""
    subscripts: Any = operands[0]
    output = None
    if isinstance(subscripts, str):
        arrays = [lift(a) for a in operands[1:]]
    else:
        arrays = [lift(a) for a in operands[: len(operands) // 2 * 2 : 2]]
        subscripts = tuple(map(tuple, operands[1::2]))
        output = tuple(operands[-1]) if len(operands) % 2 else None
    common = arrays[0].dtype if dtype is None else np.dtype(dtype)
    if any(a.dtype != common for a in arrays):
        common = np.result_type(*(a.dtype for a in arrays)) if dtype is None else common
        arrays = [a if a.dtype == common else a.astype(common, casting=casting if dtype is not None else "unsafe") for a in arrays]
    plan, steps, axes = _program(subscripts, output, tuple([a.shape for a in arrays]), _hashable(optimize))
    values = [a if todo is None else _ready(a, todo) for a, todo in zip(arrays, plan)]
    for x, y, lx, ly, lo in steps:
        values.append(contraction(values[x], values[y], lx, ly, lo))
    return values[-1] if axes is None else (_shape.transpose if steps else permuted)(values[-1], axes)


def _ready(a: Any, todo: _Operand) -> Any:
    if todo.diagonal is not None:
        a = linked(diagonals(a, todo.diagonal), a, _DIAGONALS, todo.diagonal)
    if todo.shape is not None:
        a = _shape.reshape(a, todo.shape)
    if todo.summed is not None:
        a = np.sum(a, axis=todo.summed, dtype=a.dtype) if a.dtype.kind in "bui" else _reduce.sum_(a, todo.summed, False)
    return a
