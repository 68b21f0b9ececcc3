# Written by `python -m docs.stubs`.
import builtins
from typing import Any

from functrace.torch._modes import enable_grad as enable_grad, inference_mode as inference_mode, no_grad as no_grad, set_grad_enabled as set_grad_enabled, set_multithreading_enabled as set_multithreading_enabled
from functrace.torch._tensor import Tensor as Tensor
from functrace.torch._watch import detect_anomaly as detect_anomaly, set_detect_anomaly as set_detect_anomaly
from functrace.torch.autograd import forward_ad as forward_ad, function as function, functional as functional, graph as graph
from functrace.torch.autograd.function import Function as Function
from functrace.torch.autograd.gradcheck import GradcheckError as GradcheckError
from functrace.torch.autograd.graph import Variable as Variable

def backward(tensors: Any, grad_tensors: Any = None, retain_graph: builtins.bool | None = None, create_graph: builtins.bool = False, grad_variables: Any = None, inputs: Any = None) -> None: ...
def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: builtins.bool | None = None, create_graph: builtins.bool = False, only_inputs: builtins.bool = True, allow_unused: builtins.bool | None = None, is_grads_batched: builtins.bool = False, materialize_grads: builtins.bool = False) -> tuple[Any, ...]: ...
def gradcheck(func: Any, inputs: Any, *, eps: builtins.float = 1e-06, atol: builtins.float = 1e-05, rtol: builtins.float = 0.001, raise_exception: builtins.bool = True, nondet_tol: builtins.float = 0.0, check_undefined_grad: builtins.bool = True, check_grad_dtypes: builtins.bool = False, check_batched_grad: builtins.bool = False, check_batched_forward_grad: builtins.bool = False, check_forward_ad: builtins.bool = False, check_backward_ad: builtins.bool = True, fast_mode: builtins.bool = False, masked: builtins.bool | None = None) -> Any: ...
def gradgradcheck(func: Any, inputs: Any, grad_outputs: Any = None, *, eps: builtins.float = 1e-06, atol: builtins.float = 1e-05, rtol: builtins.float = 0.001, gen_non_contig_grad_outputs: builtins.bool = False, raise_exception: builtins.bool = True, nondet_tol: builtins.float = 0.0, check_undefined_grad: builtins.bool = True, check_grad_dtypes: builtins.bool = False, check_batched_grad: builtins.bool = False, check_fwd_over_rev: builtins.bool = False, check_rev_over_rev: builtins.bool = True, fast_mode: builtins.bool = False, masked: builtins.bool = False) -> Any: ...
profiler: Any
