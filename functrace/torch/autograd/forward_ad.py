"""`torch.autograd.forward_ad`: dual tensors.

A dual tensor is an alias with a node of its own, which knows the tangent. `unpack_dual` follows the graph back to such nodes; the
gradient there is linear in what comes in, and the gradient of that, along the tangents, is the tangent of the result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functrace.torch._backward import grad
from functrace.torch._engine import Edge, below
from functrace.torch._modes import enable_grad, forward_levels, recording, set_recording
from functrace.torch._tensor import wrap
from functrace.torch.autograd.function import is_pushing, pushing
from functrace.torch.func import Alias, Place, alias, different_size


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` returns."""

    primal: Any
    tangent: Any


class Dual(Alias):
    """The node of a dual tensor."""

    enters = False
    tangent: Any
    level: Any


Dual.__name__ = "ViewBackward0"


class Tangent(Alias):
    """The node of a tangent: it has none of its own, so nothing passes it while tangents are computed."""

    enters = False

    def backward(self, g: Any, edges: Sequence[Edge | None]) -> Sequence[Any]:
        return (None,) if is_pushing() else (g,)

    restate = backward


@functools.cache
def _shown_as(name: str) -> type[Tangent]:
    """The node of tangents that an operation of this name made."""
    return type(name, (Tangent,), {"__module__": "builtins"})


class dual_level:
    """Dual tensors are there while it lasts. Operations are recorded in it, also where they were not before."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exc: object) -> None:
        exit_dual_level()


def enter_dual_level() -> int:
    """Begin a level. There is only one."""
    if forward_levels.get():
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    forward_levels.set((object(), recording(), unpack_dual))
    set_recording(True)
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level: its tangents are gone."""
    active = forward_levels.get()
    if not active:
        raise RuntimeError("Trying to exit a forward AD level but no level is active.")
    forward_levels.set(())
    set_recording(active[1])


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """A dual tensor: the tensor, and its tangent. Raises RuntimeError outside of a level, and where shapes differ."""
    active = forward_levels.get()
    if not active:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first.")
    for x, what in ((tensor, "primal"), (tangent, "tangent")):
        if x._a.dtype.kind not in "fc":
            raise ValueError(f"Expected {what} to be floating point or complex, but got: {x.dtype}")
    if tensor._a.shape != tangent._a.shape:
        raise RuntimeError(different_size(tensor, tangent))
    out = wrap(tensor._a)
    out._ver = tensor._ver
    node = Dual(tensor._edge if tensor._rg else None)
    node.tangent, node.level = tangent, active[0]
    out._rg, out._edge = True, (node, 0)
    return out


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The tensor without its tangent, and the tangent; None if it has none."""
    active = forward_levels.get()
    if not tensor._rg:
        return UnpackedDualTensor(tensor, None)
    duals, outside = _duals(tensor, active[0] if active else None)
    if not active:
        return UnpackedDualTensor(tensor if outside else wrap(tensor._a), None)
    primal = alias(tensor, True, _shown_as("Identity")) if outside else wrap(tensor._a)
    if not duals:
        return UnpackedDualTensor(primal, None)
    if tensor._edge[0] is duals[0]:
        return UnpackedDualTensor(primal, duals[0].tangent)
    with enable_grad(), pushing():
        seed = alias(wrap(np.zeros_like(tensor._a)), False)
        gs = grad(tensor, [Place((node, 0)) for node in duals], seed, create_graph=True)
        used = [(g, node.tangent) for g, node in zip(gs, duals) if g._rg]
        create, tangent = outside or any(t._rg for _, t in used), None
        if used:
            (tangent,) = grad([g for g, _ in used], [seed], [t for _, t in used], create_graph=create, allow_unused=True)
    if tangent is None:
        return UnpackedDualTensor(primal, wrap(np.zeros_like(tensor._a)))
    if tangent._rg:
        tangent = alias(tangent, True, _shown_as(type(tangent._edge[0]).__name__))
    return UnpackedDualTensor(primal, tangent)


def _duals(tensor: Any, level: Any) -> tuple[list[Any], bool]:
    """The dual nodes below a tensor, and whether it depends on something else that requires grad."""
    ends: Callable[[Any], bool] = lambda node: isinstance(node, Tangent) or isinstance(node, Dual) and node.level is level
    nodes = list(below([tensor._edge[0]], ends))
    found = [node for node in nodes if isinstance(node, Dual) and ends(node)]
    return found, any(node.edges[0] is not None if ends(node) else not node.edges for node in nodes)
