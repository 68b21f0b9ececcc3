"""`vmap`: run a function of one example on a batch of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from functrace import edge, errors, tree
from functrace.core.batch import BatchTrace, BranchSplit, batched
from functrace.core.tracer import Tracer, bare
from functrace.operands import unwrapped
from functrace.ops.blank import apart
from functrace.ops.create import lift
from functrace.places import user_line
from functrace.pool import owned
from functrace.transforms.arguments import as_row, label, name_of


def _told(structure: Any, shapes: list[Any]) -> str:
    return f"an array of shape {shapes[0]}" if structure.alone else f"{structure!r} of shapes {shapes}"


# Whether results must show if they depend on the batch, as `out_axes=None` asks; a call that is one operation batches them all.
inlines: ContextVar[bool] = ContextVar("inlines", default=False)


def _batched(asked: bool, fun: Any, args: Sequence[Any], *call: Any) -> list[tuple[Any, bool]]:
    before = inlines.get()
    try:
        inlines.set(asked)
        return (_by_masks if any(map(in_program, args)) else batched)(fun, args, *call)
    finally:
        inlines.set(before)


def in_program(x: Any) -> bool:
    """Whether a value belongs to a program that is being recorded."""
    owner = None
    while isinstance(x, Tracer):
        owner, x = x.owner, x.below
    return hasattr(owner, "guard")


class _MaskedTrace(BatchTrace):
    """A batch in a recorded program, of which the mask of the examples that take a branch is a value; whether any do is a guard.

    `taken` has the answers to the `if`s so far, `known` the first, of the run that was split.
    """

    __slots__ = ("known", "taken")

    def __init__(self, what: str, size: int, known: Sequence[bool]) -> None:
        super().__init__(what, size)
        self.known, self.taken = known, list[bool]()

    def agreed(self, tracer: Tracer) -> Any:
        if tracer.dtype.kind != "b" or tracer.size != 1:
            return super().agreed(tracer)
        ways = np.reshape(tracer.below, (self.size,))
        if len(self.taken) < len(self.known):
            way = self.known[len(self.taken)]
            if np.any(bare(ways) != way):  # the function does not repeat itself
                raise BranchSplit(self, np.arange(self.size))
        else:
            way, other = bool(np.any(ways)), bool(np.any(~ways))
            if way and other:
                raise BranchSplit(self, ways)
        self.taken.append(way)
        return np.full(tracer.shape, way)


def filled(x: Any, mask: Any) -> Any:
    """A batch with the examples outside `mask` replaced by the first inside."""
    if not len(mask):
        return x
    return picked(mask, x, x[np.argmax(mask)])


def picked(mask: Any, x: Any, other: Any) -> Any:
    """A batch with the examples in `mask` taken from `x`, the rest from `other`."""
    return np.where(np.reshape(mask, (len(mask), *(1,) * (x.ndim - 1))), x, other)


def _by_masks(
    fun: Callable[..., Sequence[Any]], args: Sequence[Any], flags: Sequence[bool], size: int, what: str
) -> list[tuple[Any, bool]]:
    """`batched` in a recorded program: each branch runs on the whole batch, `filled` with examples that take it."""
    parts: list[tuple[Any, list[tuple[Any, bool]]]] = []
    todo: list[Any] = [(None, [])]
    while todo:
        mask, known = todo.pop()
        trace = _MaskedTrace(what, size, known)
        found = trace.run(fun, args if mask is None else [filled(a, mask) if b else a for a, b in zip(args, flags)], flags)
        if found is not None:
            parts.append((mask, found))
        elif trace.ways.dtype.kind == "b":
            for way, those in ((False, ~trace.ways), (True, trace.ways)):
                todo.append((those if mask is None else those & mask, [*trace.taken, way]))
        else:
            return batched(fun, args, flags, size, what)  # by numbers, or after an error: not for all batches
    (_, results), *others = parts
    for mask, more in others:
        results = [(picked(mask, y, x), True) for (x, _), (y, _) in zip(results, more)]
    return results


class ByLeaf:
    """Axes of all leaves of a tree, in their order: a tree of ints is more than a user's class may take."""

    __slots__ = ("axes",)

    def __init__(self, axes: Iterable[int | None]) -> None:
        self.axes = tuple(axes)


def spread(axes: Any, given: Any) -> list[Any] | None:
    """An axis for each leaf: `axes` is a prefix of the tree, its ints and Nones covering all below them. None: it does not fit."""
    out: list[Any] = []
    todo = [(axes, given)]
    while todo:
        axis, part = todo.pop()
        if axis is None or isinstance(axis, (int, np.integer)):
            out.extend([axis] * tree.structure(part).num_leaves)
        elif isinstance(axis, ByLeaf):
            out.extend(axis.axes)
        elif (pairs := tree._paired(axis, part)) is not None:
            todo.extend(reversed(pairs))
        else:
            return None
    return out


def _axes(what: str, axes: Any, given: Any) -> list[Any]:
    out = spread(axes, given)
    if out is None:
        raise errors.BatchError(
            f"{what} = {axes!r} does not fit the structure of what it is for, {tree.structure(given)!r}.\n"
            "  Give an int or None for all of it, or a tuple with an entry for each part, which may be a tree again: "
            "({'w': 0, 'b': None}, 0)."
        )
    return out


@edge.transform
def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, *, axis_size: int | None = None) -> Callable[..., Any]:
    """A function that applies `f` to every example of a batch at once, as one run of array operations.

    An `if` may depend on a value that differs between the examples: `f` is then run once for each branch, on the examples that take it.
    Likewise, if an operation fails for some examples only, as at a singular matrix, an `except` in `f` is run for these alone.

    Args:
        f: a function of single examples (pytrees of arrays).
        in_axes: the batch axis of the arguments: an int for all, or a sequence with an int, None (not batched) or tree of them for
            each positional argument. In keyword arguments it is axis 0.
        out_axes: where the batch axis goes in the results; None for a result that does not depend on the batch.
        axis_size: the size of the batch, where no argument has one.

    Returns:
        A function with `f`'s arguments.

    Raises:
        BatchError: the arguments disagree about the size of the batch, or lack the axis.

    >>> import functrace as ft, numpy as np
    >>> ft.vmap(np.dot)(np.ones((3, 2)), np.ones((3, 2)))
    array([2., 2., 2.])
    >>> ft.vmap(ft.grad(lambda w, x: (w * x) ** 2), in_axes=(None, 0))(3.0, np.arange(3.0))
    array([ 0.,  6., 24.])
    >>> ft.vmap(lambda x: x if x > 0 else -x)(np.array([-1.0, 2.0]))
    array([1., 2.])
    """
    asked = any(cls is type(None) for cls, _, _ in tree.structure(out_axes).nodes)

    @edge.wraps(f, "vmap", in_axes=in_axes)
    def mapped(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        what = f"vmap({name_of(f)})"
        leaves, treedef = tree.called(args, kwargs)
        count = tree.structure(args).num_leaves
        spec = tuple(in_axes) if isinstance(in_axes, (tuple, list)) else in_axes
        if isinstance(spec, tuple) and len(spec) != len(args):
            raise errors.BatchError(
                f"{what}: in_axes has {len(spec)} entries for {len(args)} positional arguments.\n  Give an axis or None for each."
            )
        axes = _axes(f"{what}: in_axes", spec, args) + [0] * (len(leaves) - count)
        leaves = [x if a is None else lift(unwrapped(x)) for x, a in zip(leaves, axes)]
        size = _size(what, leaves, axes, axis_size, lambda k: _place(f, (args, kwargs), k))
        flags = [a is not None for a in axes]
        values = [np.moveaxis(x, a, 0) if a else x for x, a in zip(leaves, axes)]
        returns: list[tuple[Any, Any]] = []

        def run(*inputs: Any) -> list[Any]:
            positional, keywords = tree.unflatten(treedef, inputs)
            out, structure = tree.flatten(f(*positional, **keywords))
            out = [x if isinstance(x, Tracer) else as_row(what, x) for x in out]
            returned = structure, [x.shape for x in out]
            if returns and returned != returns[0]:  # the batch was split
                raise errors.BatchError(
                    f"{what}: some examples give {_told(*returns[0])}, others {_told(*returned)}.\n"
                    f"  All branches must return the same structure and shapes."
                )
            returns.append(returned)
            return out

        results = _batched(asked, run, values, flags, size, what)
        outputs = [*map(apart, owned([x for x, _ in results], leaves))]
        out_def = returns[0][0]
        if not (isinstance(out_axes, (int, np.integer)) and out_axes == 0):
            places = _axes(f"{what}: out_axes", out_axes, tree.unflatten(out_def, outputs))
            outputs = [_moved(what, x, a, depends) for x, a, (_, depends) in zip(outputs, places, results)]
        return tree.unflatten(out_def, outputs)

    return mapped


def _moved(what: str, x: Any, axis: int | None, depends: bool) -> Any:
    """A result with its batch, axis 0, at another axis; None: without it."""
    if axis is None and depends:
        raise errors.BatchError(
            f"{what}: out_axes says None for a result that differs between the examples.\n"
            "  Give it an axis, or reduce it over the batch after the call."
        )
    if axis is not None and not -x.ndim <= axis < x.ndim:
        raise errors.BatchError(f"{what}: out_axes asks for axis {axis} of a result that is {errors.describe(x)} in all.")
    return x[0] if axis is None else np.moveaxis(x, 0, axis)


def _place(f: Any, given: Any, k: int) -> tuple[str, str]:
    """Which argument leaf `k` of `(args, kwargs)` is, or is in, `argument 0 ('params')['w']`; and how to leave out one without in_axes."""
    path = tree.paths(given)[k]
    key, _, rest = path[4:].partition("]")
    if path[1] == "0":
        return label(f, int(key)) + rest, ""
    name = key.strip("'")
    remedy = f"Keywords are batched, too. Bind one that is the same for all examples: vmap(functools.partial(f, {name}=...))."
    return label(f, name) + rest, remedy


def _size(what: str, leaves: Sequence[Any], axes: Sequence[Any], size: int | None, place: Callable[[int], tuple[str, str]]) -> int:
    for k, (x, a) in enumerate(zip(leaves, axes)):
        if a is None:
            continue
        if not -x.ndim <= a < x.ndim:
            where, bind = place(k)
            same = bind or "Give in_axes=None for an argument that is the same for all examples."
            raise errors.BatchError(
                f"{what}: in_axes asks for axis {a} of {where}, which is {errors.describe(x)}.\n  At {user_line(3)}.\n"
                f"  {'A list of numbers is a container of them: pass np.array(...). ' * where.endswith(']')}{same}"
            )
        if size is not None and x.shape[a] != size:
            where, bind = place(k)
            raise errors.BatchError(
                f"{what}: the arguments disagree about the size of the batch: {size}, and {x.shape[a]} on axis {a} of {where}, "
                f"which is {errors.describe(x)}.\n  At {user_line(3)}.\n"
                f"  {bind or 'Give in_axes the axis of each argument, None where it is the same for all examples.'}"
            )
        size = x.shape[a]
    if size is None:
        raise errors.BatchError(f"{what}: no argument is batched; give in_axes an int for at least one, or axis_size=.")
    return size
