"""`torch.optim`: optimisers, and learning-rate schedulers."""

from __future__ import annotations

from functrace.torch._missing import missing
from functrace.torch.optim import algorithms as _algorithms
from functrace.torch.optim import lr_scheduler as lr_scheduler
from functrace.torch.optim.lbfgs import LBFGS as LBFGS
from functrace.torch.optim.optimizer import Optimizer as Optimizer

globals().update({k: x for k, x in vars(_algorithms).items() if isinstance(x, type) and issubclass(x, Optimizer)})
globals().update(dict.fromkeys("adadelta adagrad adam adamax adamw asgd nadam radam rmsprop rprop sgd".split(), _algorithms))
__getattr__ = missing("torch.optim", {"swa_utils": "swa_utils"})
