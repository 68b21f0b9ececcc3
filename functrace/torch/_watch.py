"""What may look on while nodes are made: saved-tensor hooks, and anomaly detection.

Nobody does as a rule, and then it costs nothing: only while somebody looks on, `Node` has a `__setattr__`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from functrace.torch._contact import is_user_file
from functrace.torch._dtypes import warn
from functrace.torch._missing import as_of
from functrace.torch._modes import paused

_anomaly: ContextVar[bool | None] = ContextVar("functrace.torch.anomaly", default=None)
anomaly = _anomaly.get  # None: off; else whether gradients are looked through for NaN
set_anomaly = _anomaly.set
saving: ContextVar[tuple[Any, ...]] = ContextVar("functrace.torch.saving", default=())  # pairs (pack, unpack), innermost last
parent: ContextVar[Sequence[str]] = ContextVar("functrace.torch.parent", default=())  # the lines of the node that is run backwards
_node: Any = None
_watchers = 0
_lock = threading.Lock()


def watch_nodes(cls: Any) -> None:
    """Say which class is to be looked on."""
    global _node
    _node = cls


def watch(change: int) -> None:
    """One more, one less, or as many who look on."""
    global _watchers
    with _lock:
        _watchers += change
        if change > 0 and _watchers == 1:
            _node.__setattr__ = _observed
        elif change < 0 and _watchers == 0:
            del _node.__setattr__


def _observed(node: Any, name: str, value: Any) -> None:
    if name == "number" and anomaly() is not None:
        node.__dict__["metadata"] = {"traceback_": forward_lines(), "parent_": parent.get()}
    elif name == "saved" and value is not None:
        hooks = saving.get()
        if hooks and (packed := node.pack(value, packing(hooks[-1][0]))) is not None:
            node.__dict__.update(_packed=(packed, unpacking(hooks[-1][1])), watched=True)
            return
    node.__dict__[name] = value


def forward_lines() -> list[str]:
    """The stack of the user's program."""
    import traceback

    return traceback.format_list(
        [frame for frame in traceback.extract_stack() if is_user_file[name := frame.filename] and name[:7] != "<frozen"]
    )


def packing(pack: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A pack hook that must leave its tensor alone. It is called with recording off, as in PyTorch."""

    def packed(tensor: Any) -> Any:
        version = tensor._ver[0]
        with paused():
            kept = pack(tensor)
        if tensor._ver[0] != version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot be modified by "
                "in-place operations as this can lead to unexpected side-effects. Please open an issue if you need to perform in-place "
                "operations on the input to a pack hook."
            )
        return kept

    return packed


_ARGUMENTS = {  # and numbers, by the names that PyTorch gives them, where these are not self and other
    "Addmm": "bias mat1 mat2", "Bmm": "self mat2", "Dot": "self tensor", "Mm": "self mat2", "Mv": "self vec",
    "Pow": "self exponent", "PowBackward1": "self exponent", "PowBackward2": "exponent self",
}  # fmt: skip


def saved_names(op: Any) -> dict[str, int]:
    """What PyTorch calls the arguments and the result (-1) that rules look into, as attributes of nodes."""
    kind = op.name.removesuffix("Backward0")
    args = _ARGUMENTS.get(kind, "self target" if "Loss" in kind or "Entropy" in kind else "self other").split()
    seen = [kind[:3] == "Pow" or any(column) for column in zip(*op.looks)][1:]
    found = {f"_saved_{name}": k for k, (name, looked) in enumerate(zip(args, [*seen, kind[:3] == "Pow"])) if looked}
    return found if op.many or kind == "Pow" or not op.by_result else {**found, "_saved_result": -1}


class SavedTensor:
    """A tensor that a node saved, to which hooks can be given: `grad_fn._raw_saved_self`."""

    def __init__(self, node: Any, name: str) -> None:
        self._node, self._name = node, name

    def register_hooks(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        """Keep the tensor as `pack_hook(tensor)`, and read it by `unpack_hook`. Raises RuntimeError if it has such hooks, or is freed."""
        node = self._node
        if "_packed" in node.__dict__:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks is allowed at a "
                "time."
            )
        if node.__dict__.get("saved") is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph are freed when "
                "you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second "
                "time or if you need to access saved variables after calling backward."
            )
        this = getattr(node, self._name)._a
        packed, unpacked = packing(pack_hook), unpacking(unpack_hook)
        others = [False] if self._name == "_saved_other" and node.saved[0][0] is this else []  # x * x: the second of two
        others.append(True)

        def pack(t: Any) -> tuple[bool, Any]:
            hooked = t._a is this and bool(others) and others.pop(0)
            return hooked, packed(t.detach()) if hooked else t

        kept = node.pack(node.saved, pack)
        del node.__dict__["saved"]
        node.__dict__.update(_packed=(kept, lambda pair: unpacked(pair[1]) if pair[0] else pair[1]), watched=True)


def unpacking(unpack: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """An unpack hook, whose result is checked."""

    def unpacked(kept: Any) -> Any:
        with paused():
            tensor = unpack(kept)
        if not hasattr(tensor, "_a"):
            raise TypeError(f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(tensor).__name__}")
        return tensor

    return unpacked


class set_detect_anomaly:
    """Switch anomaly detection on or off, at once; as a context manager, until its end."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.before = anomaly()
        _switch(check_nan if mode else None)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _switch(self.before)


def _switch(mode: bool | None) -> None:
    watch((mode is not None) - (anomaly() is not None))
    set_anomaly(mode)


class detect_anomaly(set_detect_anomaly):
    """While it lasts, NaN in a gradient raises RuntimeError, and the line of the forward operation is shown in a warning."""

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warn("Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for debugging.")

    def __enter__(self) -> None:
        super().__init__(True, self.check_nan)


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on."""
    return anomaly() is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Whether it looks for NaN."""
    return anomaly() is not False


as_of("torch._C._autograd", SavedTensor)
as_of("torch.autograd.anomaly_mode", set_detect_anomaly, detect_anomaly)
