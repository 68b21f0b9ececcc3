"""`torch.utils.checkpoint`: what backward needs is not kept but computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from functrace.torch._backward import backward
from functrace.torch._dtypes import warn
from functrace.torch._engine import check_versions
from functrace.torch._modes import enable_grad
from functrace.torch._random import default_generator, fork_rng
from functrace.torch._tensor import Tensor
from functrace.torch.autograd.function import Function
from functrace.torch.autograd.graph import saved_tensors_hooks

__all__ = ["CheckpointError", "CheckpointFunction", "checkpoint", "checkpoint_sequential", "detach_variable"]
__all__ += ["get_device_states", "noop_context_fn", "set_device_states"]

_ASK = (
    "torch.utils.checkpoint{}: the use_reentrant parameter should be passed explicitly. {}. use_reentrant=False is recommended, but if you "
    "need to preserve the current default behavior, you can pass use_reentrant=True. Refer to docs for more details on the differences "
    "between the two variants."
)
Contexts = Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]]


class CheckpointError(RuntimeError):
    """The second run of the function saved other tensors than the first."""


def noop_context_fn() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Contexts for the two runs that do nothing."""
    return nullcontext(), nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Contexts = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, whose saved tensors are not kept: backward runs the function again.

    With `use_reentrant=False` any tensors may need gradients, those that the function closes over too, and `autograd.grad` works.
    """
    if use_reentrant is None:
        later = "Starting in PyTorch 2.9, calling checkpoint without use_reentrant will raise an exception"
        warn(_ASK.format("", later))
        use_reentrant = True
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    state = default_generator.get_state() if preserve_rng_state else None
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        if not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            warn("None of the inputs have requires_grad=True. Gradients will be None")
        return CheckpointFunction.apply(function, state, *args)
    first, again = context_fn()
    saved: list[Any] = []
    computed: dict[int, Any] = {}
    given = [(a._ver, a._ver[0], a._edge, a._a) for a in args if isinstance(a, Tensor)]

    def pack(t: Any) -> int:
        saved.append(_metadata(t))
        return len(saved) - 1

    def repack(t: Any) -> None:
        computed[len(computed)] = t.detach(), t._ver, t._ver[0]

    def unpack(k: int) -> Any:
        if k not in computed:
            computed.clear()
            check_versions(given)
            with _random_from(state), enable_grad(), again, saved_tensors_hooks(repack, lambda t: t):
                function(*args, **kwargs)
            _check_repeated(saved, [_metadata(t) for t, *_ in computed.values()], determinism_check == "default")
        t, cell, version = computed.pop(k)
        check_versions([(cell, version, None, t._a)])
        return t.to(saved[k]["dtype"])

    with saved_tensors_hooks(pack, unpack), first:
        return function(*args, **kwargs)


def _check_repeated(saved: list[Any], again: list[Any], alike: bool) -> None:
    """Whether the second run saved as many tensors as the first, and `alike` ones."""
    if len(again) != len(saved):
        raise CheckpointError(
            "torch.utils.checkpoint: A different number of tensors was saved during the original forward and recomputation.\nNumber of "
            f"tensors saved during forward: {len(saved)}\nNumber of tensors saved during recomputation: {len(again)}."
        )
    for k, (then, now) in enumerate(zip(saved, again)):
        if alike and now != then:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during the forward "
                f"pass.\ntensor at position {k}:\nsaved metadata: {then}\nrecomputed metadata: {now}"
            )


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """The accelerators on which tensors are, and their random states: none."""
    return [], []


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Nothing: there are no accelerators."""


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Leaves in the place of tensors, which require gradients as they do."""
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)


def _metadata(t: Any) -> dict[str, Any]:
    return {"shape": t.shape, "dtype": t.dtype, "device": t.device}


@contextmanager
def _random_from(state: Any) -> Iterator[None]:
    """The random numbers of an earlier moment, or without one those of now."""
    with fork_rng(enabled=state is not None):
        if state is not None:
            default_generator.set_state(state)
        yield


class CheckpointFunction(Function):
    """The older form: one node, whose backward runs the function, and backward through it."""

    @staticmethod
    def forward(ctx: Any, function: Any, state: Any, *args: Any) -> Any:
        """Run the function without recording."""
        ctx.function, ctx.state, ctx.args = function, state, [None if isinstance(a, Tensor) else a for a in args]
        ctx.save_for_backward(*(a if isinstance(a, Tensor) else None for a in args))
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        """Run it again, recording."""
        saved = ctx.saved_tensors
        inputs = detach_variable(tuple(a if t is None else t for a, t in zip(ctx.args, saved)))
        with _random_from(ctx.state), enable_grad():
            outs = ctx.function(*inputs)
        pairs = [(o, g) for o, g in zip(outs if isinstance(outs, tuple) else (outs,), gs) if isinstance(o, Tensor) and o.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([o for o, _ in pairs], [g for _, g in pairs])
        return None, None, *(t.grad if isinstance(t, Tensor) else None for t in inputs)


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any) -> Any:
    """A chain of modules in `segments` parts, all but the last under `checkpoint`."""
    if use_reentrant is None:
        later = "In version 2.9 we will raise an exception if use_reentrant is not passed"
        warn(_ASK.format(".checkpoint_sequential", later))
        use_reentrant = True
    steps: Sequence[Any] = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(steps) // segments

    def chain(start: int, end: int) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for step in steps[start:end]:
                x = step(x)
            return x

        return run

    for place in range(0, size * (segments - 1), size or 1):
        input = checkpoint(chain(place, place + size), input, use_reentrant=use_reentrant, **kwargs)
    return chain(size * (segments - 1), len(steps))(input)
