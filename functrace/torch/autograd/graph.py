"""`torch.autograd.graph`: the nodes, where saved tensors are kept, and hooks on several gradients at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple

from functrace.torch._backward import sequence
from functrace.torch._dtypes import warn
from functrace.torch._engine import Handle, Node, current_run
from functrace.torch._missing import as_of
from functrace.torch._tensor import Tensor, wrap
from functrace.torch._watch import saving, watch

__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge", "increment_version",
    "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
]  # fmt: skip


class saved_tensors_hooks:
    """While it lasts, every tensor that is saved for backward is kept as `pack_hook(tensor)`, and read by `unpack_hook`."""

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        active = saving.get()
        if active and isinstance(active[-1], str):
            raise RuntimeError(active[-1])
        saving.set((*active, (self.pack_hook, self.unpack_hook)))
        watch(1)

    def __exit__(self, *exc: object) -> None:
        saving.set(saving.get()[:-1])
        watch(-1)


class save_on_cpu(saved_tensors_hooks):
    """Saved tensors are copies."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda t: t.clone(), lambda t: t)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """While it lasts, `saved_tensors_hooks` raises RuntimeError with this message."""
    active = saving.get()
    if active:
        raise RuntimeError(error_message)
    saving.set((error_message,))
    try:
        yield
    finally:
        saving.set(active)


class allow_mutation_on_saved_tensors(save_on_cpu):
    """While it lasts, tensors that backward needs may be written: what was saved is a copy."""


class GradientEdge(NamedTuple):
    """Where a gradient arrives: output `output_nr` of `node`."""

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """The edge of a tensor, which `autograd.grad` takes in place of the tensor itself."""
    if not tensor._rg:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(*tensor._edge)


def increment_version(tensor: Any) -> None:
    """Say that a tensor's memory was written."""
    for t in sequence(tensor):
        t._ver[0] += 1


def register_multi_grad_hook(tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all") -> Any:
    """Call `fn` with the list of the gradients of these tensors when all are there in a run of backward (None: not reached).

    With mode "any", with the first that is. Raises ValueError for other modes.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")

    lock, seen = Lock(), {}  # type: ignore[var-annotated]

    def one(k: int, g: Any) -> None:
        run = current_run()
        with lock:
            if seen.get("run") is not run:  # the first of a run: which others will come?
                order, last, needed = run
                coming = {nodes[k], *order, *(leaf for leaves in last.values() for leaf in leaves)}
                coming = coming if needed is None else coming.intersection(needed)
                seen.update(run=run, missing=sum(node in coming for node in nodes), row=[None] * len(nodes), done=False)
            seen["row"][k] = g
            seen["missing"] -= 1
            ready = not seen["done"] and (mode == "any" or seen["missing"] == 0)
            seen["done"] |= ready
            row = seen["row"]
            if seen["missing"] == 0:
                seen.clear()
        if ready:
            fn(g if mode == "any" else row)

    handles = [t.register_hook(functools.partial(one, k)) for k, t in enumerate(tensors)]
    nodes = [t._edge[0] for t in tensors]
    return _MultiHandle(handles)


class _MultiHandle(Handle):
    """Several hooks, taken away together."""

    def __init__(self, handles: Sequence[Any]) -> None:
        super().__init__({})
        self.handles = handles

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self.handles:
            handle.remove()


class _Tensors(type):
    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor)


class Variable(metaclass=_Tensors):
    """`Variable(t, requires_grad=True)` is a tensor on the memory of `t`; every tensor is a Variable."""

    def __new__(cls, data: Any, requires_grad: bool = False, volatile: bool = False) -> Any:
        if volatile:
            warn("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.")
        t = wrap(data._a)
        return t.requires_grad_() if requires_grad else t


as_of("torch.autograd.graph", GradientEdge, _MultiHandle, save_on_cpu, saved_tensors_hooks)
as_of("torch.autograd.variable", Variable)
