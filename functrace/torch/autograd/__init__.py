"""`torch.autograd`: gradients by name, the grad modes, and operations with the user's own backward."""

from functrace.torch import _device, _modes, _watch
from functrace.torch._backward import backward as backward
from functrace.torch._backward import grad as grad
from functrace.torch._border import trimmed as _trimmed
from functrace.torch._missing import missing as _missing
from functrace.torch._missing import names as _names
from functrace.torch._modes import enable_grad as enable_grad
from functrace.torch._modes import inference_mode as inference_mode
from functrace.torch._modes import no_grad as no_grad
from functrace.torch._modes import set_grad_enabled as set_grad_enabled
from functrace.torch._modes import set_multithreading_enabled as set_multithreading_enabled
from functrace.torch._watch import detect_anomaly as detect_anomaly
from functrace.torch._watch import set_detect_anomaly as set_detect_anomaly

__all__ = [
    "Function", "Variable", "backward", "detect_anomaly", "enable_grad", "grad", "gradcheck", "gradgradcheck", "inference_mode", "no_grad",
    "set_detect_anomaly", "set_grad_enabled",
]  # fmt: skip

_LAZY = _names(function="Function", graph="Variable", functional="", forward_ad="", gradcheck="gradgradcheck GradcheckError")
_LAZY["variable"], grad_mode, anomaly_mode, profiler = "graph", _modes, _watch, _device.profiler
globals().update(_trimmed({"backward": backward, "grad": grad}))
__getattr__ = _missing("torch.autograd", _LAZY)
