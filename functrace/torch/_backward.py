"""`backward` and `grad`: from tensors and their gradients to a run of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.torch._engine import Edge, run
from functrace.torch._tensor import Tensor, wrap


def _sequence(x: Any) -> Sequence[Any]:
    return (x,) if isinstance(x, Tensor) or x is None else tuple(x)


def _roots(outputs: Sequence[Any], gradients: Sequence[Any], tensors: bool) -> list[tuple[Edge, Any]]:
    made = []
    for k, (out, g) in enumerate(zip(outputs, gradients)):
        if g is None:
            if out._rg:
                if out._a.size != 1:
                    raise RuntimeError("grad can be implicitly created only for scalar outputs")
                if out._a.dtype.kind != "f":
                    raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {out.dtype}")
            g = wrap(np.ones_like(out._a))
        elif not isinstance(g, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
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
        if not out._rg:
            raise RuntimeError(f"element {k} of tensors does not require grad and does not have a grad_fn")
        if g._a.dtype != out._a.dtype:
            g = g.to(out.dtype) if tensors else wrap(g._a.astype(out._a.dtype))
        roots.append((out._edge, g if tensors else g._a))
    return roots


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
        inputs = _sequence(inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        wanted = [t._edge for t in inputs]
    outputs = _sequence(tensors)
    gradients = _sequence(grad_tensors) if grad_tensors is not None else (None,) * len(outputs)
    keep = create_graph if retain_graph is None else retain_graph
    roots = _roots(outputs, gradients, create_graph)
    arrived = run(roots, keep, create_graph, wanted, True)
    for t, g in zip(inputs or (), arrived):
        if g is not None and not t.is_leaf:
            t._accumulate(g, create_graph)


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

    Raises RuntimeError for an input that the outputs do not depend on, unless `allow_unused` (None in its place) or
    `materialize_grads` (zeros in its place).
    """
    outputs, inputs = _sequence(outputs), _sequence(inputs)
    gradients = _sequence(grad_outputs) if grad_outputs is not None else (None,) * len(outputs)
    if allow_unused is False and materialize_grads:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False.")
    if is_grads_batched:
        raise NotImplementedError("autograd.grad: is_grads_batched=True is not there yet: loop over the rows of grad_outputs.")
    if any(not t._rg for t in inputs):
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    keep = create_graph if retain_graph is None else retain_graph
    arrived = run(_roots(outputs, gradients, create_graph), keep, create_graph, [t._edge for t in inputs], False)
    results = []
    for k, (t, g) in enumerate(zip(inputs, arrived)):
        if g is None:
            if not allow_unused and not materialize_grads:
                raise RuntimeError(
                    f"The differentiated Tensor at index {k} appears to not have been used in the graph. Set allow_unused=True if this is "
                    "the desired behavior."
                )
            results.append(wrap(np.zeros_like(t._a)) if materialize_grads else None)
        else:
            results.append(g if create_graph else wrap(np.array(g)))
    return tuple(results)


Tensor._run = backward  # type: ignore[assignment]
