"""`backward` and `grad`: from tensors and their gradients to a run of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.torch._batch import mapped
from functrace.torch._contact import BatchTrace
from functrace.torch._dtypes import Size
from functrace.torch._engine import Edge, accumulator, run
from functrace.torch._tensor import Tensor, wrap


def sequence(x: Any) -> Sequence[Any]:
    """One or several as a tuple."""
    return (x,) if isinstance(x, Tensor) or x is None or hasattr(x, "output_nr") else tuple(x)


def _roots(outputs: Sequence[Any], gradients: Sequence[Any], tensors: bool) -> list[tuple[Edge, Any]]:
    made = []
    for k, (out, g) in enumerate(zip(outputs, gradients)):
        if not isinstance(out, Tensor):  # an edge, whose shape nobody knows
            if g is None:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            made.append(g)
            continue
        if g is None:
            if out._rg:
                if out._a.size != 1:
                    raise RuntimeError("grad can be implicitly created only for scalar outputs")
                if out._a.dtype.kind != "f":
                    raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {out.dtype}")
            g = wrap(np.ones_like(out._a) if out._a.ndim else np.asarray(1, out._a.dtype))
        if g._a.shape != out._a.shape:
            raise RuntimeError(f"Mismatch in shape: grad_output[{k}] has a shape of {g.shape} and output[{k}] has a shape of {out.shape}.")
        if (g._a.dtype.kind == "c") != (out._a.dtype.kind == "c"):
            raise RuntimeError(
                "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
                f"grad_output[{k}] has a dtype of {g.dtype} and output[{k}] has a dtype of {out.dtype}."
            )
        made.append(g)
    roots = []
    for k, (out, g) in enumerate(zip(outputs, made)):
        if not isinstance(out, Tensor):
            roots.append(((out.node, out.output_nr), g if tensors else g._a))
            continue
        if not out._rg or out._edge is None:
            raise RuntimeError(f"element {k} of tensors does not require grad and does not have a grad_fn")
        if g._a.dtype != out._a.dtype:
            g = g.to(out.dtype) if tensors else wrap(g._a.astype(out._a.dtype))
        roots.append((out._edge, g if tensors else g._a))
    return roots


def _gradients(outputs: Sequence[Any], given: Any) -> Sequence[Any]:
    gradients = sequence(given) if given is not None else (None,) * len(outputs)
    for g in gradients:
        if g is not None and not isinstance(g, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    if len(gradients) < len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(gradients)} gradients")
    return gradients


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add up the gradients of `tensors`, each times its `grad_tensors`, in the leaves (or only in `inputs`)."""
    wanted = None
    if inputs is not None:
        inputs = sequence(inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    outputs = sequence(tensors)
    keep = create_graph if retain_graph is None else retain_graph
    roots = _roots(outputs, _gradients(outputs, grad_tensors), create_graph)
    if inputs is not None:
        if not all(t._rg for t in inputs):
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        wanted = [_edge_of(t) for t in inputs]
        for t in inputs:
            if not t.is_leaf:
                t.retain_grad()
    run(roots, keep, create_graph, wanted, True)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of `outputs`, each times its `grad_outputs`, with respect to `inputs`: a tuple of tensors.

    With `is_grads_batched` the first axis of the `grad_outputs` is a batch, and that of the results. Raises RuntimeError for an
    input that the outputs do not depend on, unless `allow_unused` (None in its place) or `materialize_grads` (zeros in its place).
    """
    if allow_unused is False and materialize_grads:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False.")
    outputs, inputs = sequence(outputs), sequence(inputs)
    if not all(isinstance(t, Tensor) or hasattr(t, "output_nr") for t in outputs):
        raise AssertionError("Expected output to be a torch.Tensor")
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    gradients = _gradients(outputs, grad_outputs)
    for k, t in enumerate(outputs):
        if isinstance(t, Tensor) and not t._rg:
            raise RuntimeError(f"element {k} of tensors does not require grad and does not have a grad_fn")
    edges = [_edge_of(t) for t in inputs]
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        arrived = _batched(outputs, gradients, edges, keep, create_graph)
    else:
        arrived = run(_roots(outputs, gradients, create_graph), keep, create_graph, edges, False)
    results = []
    for k, (t, g) in enumerate(zip(inputs, arrived)):
        if g is None:
            if not allow_unused and not materialize_grads:
                raise RuntimeError(
                    f"The differentiated Tensor at index {k} appears to not have been used in the graph. Set allow_unused=True if this is "
                    "the desired behavior."
                )
            results.append(wrap(np.zeros_like(t._a)).requires_grad_(bool(create_graph)) if materialize_grads else None)
        else:
            results.append(g if isinstance(g, Tensor) else wrap(np.array(g) if isinstance(g, np.ndarray) else g))
    return tuple(results)


def _edge_of(t: Any) -> Edge:
    if hasattr(t, "output_nr") and not isinstance(t, Tensor):
        return t.node, t.output_nr
    if not isinstance(t, Tensor):
        raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(t).__name__}")
    if not t._rg:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    return t._edge or accumulator(t)


def _batched(outputs: Sequence[Any], gradients: Sequence[Any], edges: Sequence[Edge], keep: bool, tensors: bool) -> Sequence[Any]:
    """A run for each row of the gradients: all at once, unless the runs are to be recorded."""
    for k, (out, g) in enumerate(zip(outputs, gradients)):
        if g is not None and g._a.shape[1:] != out._a.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. The sizes of the "
                "remaining dimensions are expected to match the shape of corresponding output, but a mismatch was detected: "
                f"grad_output[{k}] has a shape of {Size(g._a.shape[1:])} and output[{k}] has a shape of {out.shape}. If you only want some "
                "tensors in `grad_output` to be considered batched, consider using vmap."
            )
    size = next(g._a.shape[0] for g in gradients if g is not None)
    if tensors:
        reached: list[bool] = []

        def once(*rows: Any) -> list[Any]:
            given = iter(rows)
            found = run(_roots(outputs, [g if g is None else next(given) for g in gradients], True), keep, True, edges, False)
            reached[:] = [g is not None for g in found]
            return [g for g in found if g is not None]

        whole = [g for g in gradients if g is not None]
        back = iter(mapped(once, whole, [0] * len(whole), size, lambda out: [0] * len(out)))
        return [next(back) if r else None for r in reached]
    trace = BatchTrace("autograd.grad", size)
    try:
        whole = [g if g is None else wrap(trace.tracer(g._a)) for g in gradients]
        return [g if g is None else trace.lower(g) for g in run(_roots(outputs, whole, False), keep, False, edges, False)]
    finally:
        trace.close()


Tensor._run = backward  # type: ignore[assignment]
