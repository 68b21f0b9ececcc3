"""`torch.amp`: what scripts say of mixed precision where there is none. All is computed in the dtypes that tensors have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrace.torch._dtypes import device, warn
from functrace.torch._missing import answer, missing


class autocast:
    """A context, or decorator, that does nothing: for a device that is not there, or not `enabled`.

    Raises:
        NotImplementedError: `autocast("cpu")` that is enabled, for a dtype of 16 bits, since NumPy has no bfloat16.
    """

    __module__ = "torch.amp.autocast_mode"

    def __init__(self, device_type: Any = "cuda", dtype: Any = None, enabled: bool = True, cache_enabled: Any = None) -> None:
        if isinstance(device_type, bool):  # torch.cuda.amp.autocast(enabled)
            device_type, enabled = "cuda", device_type
        if enabled and device(device_type).type == "cpu":
            if dtype is None or dtype.itemsize == 2:
                raise NotImplementedError("torch.autocast('cpu'): functrace.torch has no bfloat16: compute in float32, with enabled=False.")
            warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
                "CPU Autocast only supports dtypes of torch.bfloat16, torch.float16 currently."
            )
        if enabled and device_type == "cuda":
            warn("CUDA is not available or torch_xla is imported. Disabling autocast.")
        self.device, self.fast_dtype = device_type, dtype

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function


class GradScaler:
    """Leaves losses, gradients and steps as they are: gradients in float32 need no scale. For a device that is not there, or not `enabled`.

    Raises:
        NotImplementedError: `GradScaler("cpu")` that is enabled.
    """

    __module__ = "torch.amp.grad_scaler"

    def __init__(self, device: str = "cuda", *_options: Any, enabled: bool = True, **_named: Any) -> None:
        if enabled and device == "cpu":
            raise NotImplementedError("torch.amp.GradScaler('cpu'): functrace.torch computes in float32: use enabled=False.")
        if enabled:
            warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.")

    def scale(self, outputs: Any) -> Any:
        """`outputs`."""
        return outputs

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """The optimiser's step."""
        return optimizer.step(*args, **kwargs)

    unscale_ = update = load_state_dict = answer(None)
    get_scale, is_enabled = answer(1.0), answer(False)

    def state_dict(self) -> dict[str, Any]:
        """Empty."""
        return {}


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """False."""
    return False


is_autocast_available = is_autocast_enabled


def custom_fwd(fwd: Callable[..., Any] | None = None, *, device_type: str = "cuda", cast_inputs: Any = None) -> Any:
    """The `forward` of an `autograd.Function` as it is; or a decorator. `cast_inputs` is for what runs in `autocast`: here nothing does."""
    return (lambda fwd: fwd) if fwd is None else fwd


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str = "cuda") -> Any:
    """The `backward` of an `autograd.Function` as it is; or a decorator."""
    return custom_fwd(bwd)


__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
__getattr__ = missing("torch.amp")
