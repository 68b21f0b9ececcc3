"""`associative_scan`: all partial results of an associative operation, of many elements at once instead of one after another.

It is no operation of its own but a composition of NumPy's, so its derivatives, batches and programs need no rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from functrace import edge, errors, tree
from functrace.ops.blank import own
from functrace.transforms.arguments import name_of
from functrace.transforms.control_carry import arrays

T = TypeVar("T")


@edge.usage("associative_scan(fn, elems)", "fn(a, b), of two pytrees like elems")
def associative_scan(fn: Callable[[T, T], T], elems: T, reverse: bool = False, axis: int = 0) -> T:
    """`elems[0]`, `fn(elems[0], elems[1])`, `fn(fn(elems[0], elems[1]), elems[2])` and so on, as in `jax.lax.associative_scan`.

    Args:
        fn: an associative operation: `fn(fn(a, b), c)` is `fn(a, fn(b, c))`. It works on whole arrays, as `a + b` and, for matrices
            along axis 0, `a @ b` do: given two pytrees like `elems`, as long as each other along `axis`, it combines the first of the
            one with the first of the other, and so on.
        elems: a pytree of arrays, all of one length along `axis`.
        reverse: begin with the last element: `fn(elems[-1], elems[-2])` comes last but one.
        axis: the axis along which the elements lie.

    Returns:
        A pytree like `elems`.

    Of n elements `fn` combines less than 2 n pairs, in about 2 log2(n) calls (Blelloch, "Prefix sums and their applications", 1990).
    A linear recurrence, such as a state space model, so takes a few operations on whole arrays, where `scan` takes n small ones.

    Raises:
        ControlFlowError: lengths disagree; an array has no such axis; `fn` returns another structure, or other shapes or dtypes.

    >>> import functrace as ft, numpy as np
    >>> ft.associative_scan(np.maximum, np.array([1.0, 3.0, 2.0, 5.0]))
    array([1., 3., 3., 5.])
    >>> def after(f, g):  # of maps x -> a x + b, g after f
    ...     return f[0] * g[0], f[1] * g[0] + g[1]
    >>> ft.associative_scan(after, (np.full(4, 0.5), np.ones(4)))[1]  # x = 0.5 x + 1, from 0 on
    array([1.   , 1.5  , 1.75 , 1.875])
    """
    edge.check_call("associative_scan(fn, elems)", fn)
    given, treedef, _ = arrays("associative_scan", "elems", elems)
    length = _length(given, axis)

    def turned(xs: Sequence[Any], source: int, to: int) -> list[Any]:
        return [np.moveaxis(x, source, to) for x in xs] if axis else [*xs]

    def combined(xs: Sequence[Any], ys: Sequence[Any]) -> list[Any]:
        taken = [turned(each, 0, axis) for each in (xs, ys)]
        out, outdef, _ = arrays("associative_scan", "the result of fn", fn(*[tree.unflatten(treedef, each) for each in taken]))
        if outdef != treedef or any(z.shape != x.shape or z.dtype != x.dtype for x, z in zip(taken[0], out)):
            raise errors.ControlFlowError(
                f"associative_scan: {name_of(fn)} was given {_listed(taken[0])}, twice, and returned {_listed(out)}"
                f"{'' if outdef == treedef else f' ({outdef!r} instead of {treedef!r})'}.\n"
                "  It must return as many elements of the same kind: it works on whole arrays, along the axis of the elements."
            )
        return turned(out, axis, 0)

    xs = turned(own(given) if length < 2 else given, axis, 0)  # one element is its own result
    levels = [[x[::-1] for x in xs] if reverse else xs]
    while length > 1:  # each level has what pairs of the one below come to
        levels.append(combined(*[[x[k : length - length % 2 : 2] for x in levels[-1]] for k in (0, 1)]))
        length //= 2
    odd = levels.pop()
    while levels:  # what ends with a pair is known; what ends in the middle of one has one element more than that before it
        xs = levels.pop()
        between = len(xs[0][2::2])
        later = combined([x[:between] for x in odd], [x[2::2] for x in xs]) if between else [x[:0] for x in xs]
        odd = [_interleaved(np.concatenate([x[:1], y]), z) for x, y, z in zip(xs, later, odd)]
    out = turned([x[::-1] for x in odd] if reverse else odd, 0, axis)
    return tree.unflatten(treedef, out)  # type: ignore[no-any-return]


def _interleaved(even: Any, odd: Any) -> Any:
    pairs = np.reshape(np.stack([even[: len(odd)], odd], 1), (2 * len(odd), *odd.shape[1:]))
    return pairs if len(even) == len(odd) else np.concatenate([pairs, even[-1:]])


def _length(xs: Sequence[Any], axis: int) -> int:
    sizes = {x.shape[axis] if -x.ndim <= axis < x.ndim else -1 for x in xs}
    if len(sizes) != 1 or -1 in sizes:
        raise errors.ControlFlowError(
            f"associative_scan: the elements lie along axis {axis} of each array in elems; got {_listed(xs)}.\n"
            "  Pass arrays (not lists of numbers) that have this axis, of one length."
        )
    return sizes.pop()


def _listed(xs: Sequence[Any]) -> str:
    return ", ".join(map(errors.describe, xs)) or "no arrays"
