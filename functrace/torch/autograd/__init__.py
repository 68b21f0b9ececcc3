"""`torch.autograd`: gradients by name, and the grad modes."""

from functrace.torch._backward import backward as backward
from functrace.torch._backward import grad as grad
from functrace.torch._engine import Node as _Node
from functrace.torch._missing import missing as _missing
from functrace.torch._modes import enable_grad as enable_grad
from functrace.torch._modes import inference_mode as inference_mode
from functrace.torch._modes import no_grad as no_grad
from functrace.torch._modes import set_grad_enabled as set_grad_enabled
from functrace.torch._tensor import Tensor as Variable

__all__ = ["Variable", "backward", "enable_grad", "grad", "inference_mode", "no_grad", "set_grad_enabled"]


class graph:
    """`torch.autograd.graph`."""

    Node = _Node


class grad_mode:
    """`torch.autograd.grad_mode`."""

    no_grad, enable_grad, set_grad_enabled, inference_mode = no_grad, enable_grad, set_grad_enabled, inference_mode


__getattr__ = _missing("torch.autograd")
