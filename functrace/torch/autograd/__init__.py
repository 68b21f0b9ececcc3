"""`torch.autograd`: gradients by name, the grad modes, and operations with the user's own backward."""

from functrace.torch._backward import backward as backward
from functrace.torch._backward import grad as grad
from functrace.torch._border import trimmed as _trimmed
from functrace.torch._missing import missing as _missing
from functrace.torch._missing import names as _names
from functrace.torch._modes import enable_grad as enable_grad
from functrace.torch._modes import inference_mode as inference_mode
from functrace.torch._modes import no_grad as no_grad
from functrace.torch._modes import set_grad_enabled as set_grad_enabled

__all__ = [
    "Function", "Variable", "backward", "detect_anomaly", "enable_grad", "grad", "gradcheck", "gradgradcheck", "inference_mode", "no_grad",
    "set_detect_anomaly", "set_grad_enabled",
]  # fmt: skip

_LAZY = _names(
    function="Function",
    variable="Variable",
    graph="",
    functional="",
    forward_ad="",
    grad_mode="set_multithreading_enabled",
    anomaly_mode="detect_anomaly set_detect_anomaly",
    gradcheck="gradgradcheck GradcheckError",
)
globals().update(_trimmed({"backward": backward, "grad": grad}))
__getattr__ = _missing("torch.autograd", _LAZY)
