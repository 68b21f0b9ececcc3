"""`vmap` of functions of tensors, whose graph runs through it.

Inside, a tensor's array is a `BatchTracer`: it has the batch, and does not show it. Nodes are recorded as ever. Where the graph
enters and leaves, nodes change between the batch's two forms; where inner nodes reach out to tensors that have no batch (the
function closes over them), the gradients of all examples are summed. So backward, and backward of backward, run through.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from functrace.torch._checks import out_of_range
from functrace.torch._contact import BatchTrace, BatchTracer, BranchSplit, Tracer, levels, replaced, spread, tree
from functrace.torch._engine import AccumulateGrad, Edge, Node, below, next_number
from functrace.torch._modes import recording, transforms
from functrace.torch._ops import FUNCTIONS
from functrace.torch._random import no_draws
from functrace.torch._tensor import Tensor, wrap

SPLIT = (
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that yet, please file an "
    "issue at https://github.com/pytorch/pytorch/issues ."
)


@contextmanager
def running(start: int, text: str, holds: Callable[[Any], bool], times: int = 1) -> Iterator[None]:
    """While it lasts, tensors of which `holds` is true are printed as in the wrapper that PyTorch has round them; it is `times` levels.

    `start` is older than the nodes of the transform.
    """
    token = transforms.set((*transforms.get(), *[(start, text, holds)] * times))
    try:
        yield
    finally:
        transforms.reset(token)


def _below(trace: Any, a: Any, axis: int, change: Callable[[Any, int], Any]) -> Any:
    """`change(array, axis)` applied at the level of `trace`, under the batches of the runs inside of it."""
    if not (isinstance(a, Tracer) and a.owner.id > trace.id):
        return change(a, axis)
    if not isinstance(a, BatchTracer):
        raise NotImplementedError("vmap: its graph can't be differentiated by functrace's own transforms; use those of torch.func.")
    return a.owner.tracer(_below(trace, a.below, axis + 1, change))


def _enter(trace: Any, a: Any, axis: int) -> Any:
    """An array as a tracer whose batch is what was `axis`."""
    return _below(trace, a, axis, lambda x, k: trace.tracer(np.moveaxis(x, k, 0)))


def _leave(trace: Any, a: Any, axis: int) -> Any:
    """The way back."""
    return _below(trace, a, axis, lambda x, k: np.moveaxis(trace.lower(x), 0, k))


def _together(x: Any) -> Any:
    """The sum of the gradients of all examples; with one example its own, in which -0.0 keeps its sign."""
    return x[0] if len(x) == 1 else x.sum(0)


_CHANGES: dict[str, tuple[Callable[..., Any], str]] = {  # what is done to a gradient, and the change that undoes it
    "in": (_leave, "out"),  # the graph enters: the gradient of the argument leaves
    "out": (_enter, "in"),
    # a tensor without the batch: all examples' gradients are summed
    "shared": (lambda trace, g, axis: _below(trace, g, axis, lambda x, _k: _together(trace.lower(x))), "spread"),
    "spread": (lambda _trace, g, _axis: g, "shared"),  # what is the same in all examples: each has the gradient
}


class _Change(Node):
    """A node of a linear change of form, on arrays; its transpose is another."""

    __module__ = "builtins"
    frees = False

    def __init__(self, kind: str, trace: Any, axis: int, edge: Edge | None, number: int) -> None:
        self.kind, self.trace, self.axis, self.edges, self.number = kind, trace, axis, (edge,), number
        self.enters = kind == "in"

    def backward(self, g: Any, edges: Sequence[Edge | None]) -> Sequence[Any]:
        return (_CHANGES[self.kind][0](self.trace, g, self.axis),)

    def restate(self, g: Any, edges: Sequence[Edge | None]) -> Sequence[Any]:
        (t,) = map(wrap, self.backward(g._a, edges))
        if g._rg:
            t._rg, t._edge = True, (_Change(_CHANGES[self.kind][1], self.trace, self.axis, g._edge, next_number()), 0)
        return (t,)


_Change.__name__ = "VmapBackward0"


def enter(trace: Any, t: Any, axis: int) -> Any:
    """A tensor as one example of the batch that is its `axis`."""
    out = wrap(_enter(trace, t._a, axis))
    if t._rg and recording():
        out._rg, out._edge = True, (_Change("in", trace, axis, t._edge, next_number()), 0)
    return out


def leave(trace: Any, t: Any, axis: int | None) -> Any:
    """A result with the batch as its `axis`; None: without it."""
    if axis is None:
        if isinstance(t._a, BatchTracer) and t._a.owner is trace:
            raise ValueError("vmap: out_dims says None for a result that differs between the examples")
        return t
    rank = len(t._a.shape) + 1
    if not -rank <= axis < rank:
        raise out_of_range(axis, rank)
    axis = axis % rank
    a = _leave(trace, t._a, axis)
    out = wrap(np.array(a) if isinstance(a, np.ndarray) else a)
    if t._rg:
        out._rg, out._edge = True, (_Change("out", trace, axis, t._edge, next_number()), 0)
    return out


def close(trace: Any, start: int, results: Sequence[Any]) -> None:
    """End a run whose graph nobody can reach; else put "shared" changes wherever its nodes reach out of it."""
    nodes = [t._edge[0] for t in results if isinstance(t, Tensor) and t._rg]
    if not nodes:
        trace.close()
        return
    borders: dict[Edge, Edge] = {}

    def inner(edge: Edge | None) -> Edge | None:
        if edge is None or not _outer(trace, start, edge[0]):
            return edge
        return borders.setdefault(edge, (_Change("shared", trace, 0, edge, start), 0))

    def ends(node: Any) -> bool:
        return node.number < start or isinstance(node, _Change) and node.trace is trace and node.kind in ("in", "shared")

    for node in below(nodes, ends):
        if not ends(node):
            node.edges = tuple(map(inner, node.edges))


def _outer(trace: Any, start: int, node: Any) -> bool:
    if isinstance(node, AccumulateGrad):
        a = getattr(node.variable, "_a", None)
        return not (isinstance(a, BatchTracer) and a.owner is trace)
    return node.number <= start  # type: ignore[no-any-return]


def mapped(fun: Callable[..., Sequence[Any]], tensors: Sequence[Any], axes: Sequence[int | None], size: int, out_axes: Any) -> list[Any]:
    """Run `fun`, which takes and returns tensors, once for all examples. `out_axes(results)` gives an axis for each result."""
    trace, start = BatchTrace("vmap", size), next_number()
    results: list[Any] = []

    def holds(t: Any) -> bool:
        return any(x.owner is trace for x in levels(t._a))

    try:
        inner = [t if axis is None else enter(trace, t, axis) for t, axis in zip(tensors, axes)]
        before = [x._a for x in inner]
        with running(start, "BatchedTensor(lvl={}, bdim=0, value=", holds):
            out = list(fun(*inner))
        for t, x, a, axis in zip(tensors, inner, before, axes):
            if x is not t and x._a is a and x._ver[0]:  # `fun` wrote to its argument
                t.copy_(leave(trace, x, axis))
        results = [leave(trace, t, axis) for t, axis in zip(out, out_axes(out))]
        return results
    except BranchSplit as split:
        if split.trace is trace:
            raise RuntimeError(SPLIT) from None
        raise
    finally:
        close(trace, start, results)


def chunks(size: int, chunk: int | None) -> list[slice]:
    """The parts of a batch."""
    step = chunk or size
    return [slice(k, min(k + step, size)) for k in range(0, size, step or 1)] or [slice(0, 0)]


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Callable[..., Any]:
    """A function that applies `func` to each example of a batch, as one run of operations on the whole.

    `in_dims` says which axis of each argument is the batch (None: it has none), `out_dims` where it goes in the results. What is
    given by keyword has none. Random operations raise unless `randomness` is "same", or "different", which runs the examples one by one.

    >>> import functrace.torch as torch
    >>> torch.vmap(torch.dot)(torch.ones(2, 3), torch.ones(2, 3))
    tensor([3., 3.])
    """
    if randomness not in ("error", "same", "different"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    name = getattr(func, "__name__", type(func).__name__)
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not args:
            raise ValueError(
                f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function with no "
                "inputs. The latter is unsupported."
            )
        leaves, treedef = tree.flatten(list(args))
        axes = _in_axes(f"vmap({name}, in_dims={in_dims}, ...)(<inputs>)", in_dims, args, leaves)
        sizes = [x._a.shape[axis] for x, axis in zip(leaves, axes) if axis is not None]
        if not sizes:
            raise ValueError("vmap: Expected at least one Tensor to vmap over")
        if len({*sizes}) > 1:
            raise ValueError(
                f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped dimension"
            )
        places = [k for k, axis in enumerate(axes) if axis is not None]
        outdef: list[Any] = []
        outs: list[Any] = []

        def flat(*tensors: Any) -> list[Any]:
            given = tree.unflatten(treedef, replaced(leaves, places, tensors))
            out, outdef[:] = _flat_output(name, func(*given, **kwargs))
            return out

        def out_axes(out: Sequence[Any]) -> list[Any]:
            outs[:] = _out_axes(name, out_dims, tree.unflatten(outdef[0], out))
            return outs

        parts = []
        for part in chunks(sizes[0], 1 if randomness == "different" else chunk_size):
            given = [leaves[k] for k in places]
            if part != slice(0, sizes[0]):
                given = [t.narrow(axes[k], part.start, part.stop - part.start) for t, k in zip(given, places)]
            with _random(randomness):
                parts.append(mapped(flat, given, [axes[k] for k in places], part.stop - part.start, out_axes))
        whole = parts[0] if len(parts) == 1 else [c[0] if a is None else FUNCTIONS["cat"](c, a) for c, a in zip(zip(*parts), outs)]
        return tree.unflatten(outdef[0], whole)

    return wrapper


@contextmanager
def _random(randomness: str) -> Iterator[None]:
    """Random numbers raise where each example would get the same, unless that, or the opposite, is asked for at every level."""
    token = no_draws.set(no_draws.get() or randomness == "error")
    try:
        yield
    finally:
        no_draws.reset(token)


def _in_axes(call: str, dims: Any, args: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
    """An axis, counted from the front, or None, for each leaf of the arguments."""
    if not isinstance(dims, (int, tuple)):
        raise ValueError(
            f"{call}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: {type(dims)}."
        )
    if isinstance(dims, tuple) and len(dims) != len(args):
        raise ValueError(
            f"{call}: in_dims is not compatible with the structure of `inputs`. in_dims has {len(dims)} entries but inputs has {len(args)}."
        )
    axes = [dims] * len(leaves) if isinstance(dims, int) else spread(dims, args)
    if axes is None:
        raise ValueError(f"{call}: in_dims is not compatible with the structure of `inputs`.")
    return [None if axis is None else _in_axis(call, axis, x) for axis, x in zip(axes, leaves)]


def _in_axis(call: str, axis: int, x: Any) -> int:
    if not isinstance(x, Tensor):
        raise ValueError(
            f"{call}: Got in_dim={axis} for an input but the input is of type {type(x)}. We cannot vmap over non-Tensor arguments, please "
            "use None as the respective in_dim"
        )
    rank = len(x._a.shape)
    if not -rank <= axis < rank:
        raise ValueError(
            f"{call}: Got in_dim={axis} for some input, but that input is a Tensor of dimensionality {rank} so expected in_dim to satisfy "
            f"-{rank} <= in_dim < {rank}."
        )
    return axis % rank


def _out_axes(name: str, dims: Any, out: Any) -> list[Any]:
    if isinstance(dims, tuple) and not isinstance(out, (tuple, list, dict)):
        dims = dims[0] if len(dims) == 1 else dims
    axes = spread(dims, out)
    if axes is None:
        raise ValueError(f"vmap({name}, ..., out_dims={dims}): out_dims is not compatible with the structure of `outputs`.")
    return axes


def _flat_output(name: str, out: Any) -> tuple[list[Any], list[Any]]:
    leaves, treedef = tree.flatten(out)
    for t in leaves if out is not None else [None]:
        if not isinstance(t, Tensor):
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(t)}. Did you mean to set out_dims= to None "
                "for output?"
            )
    return leaves, [treedef]
