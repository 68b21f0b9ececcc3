"""`torch.optim`: optimisers, and learning-rate schedulers."""

from __future__ import annotations

from functrace.torch._missing import missing
from functrace.torch.optim import algorithms as _algorithms
from functrace.torch.optim import lr_scheduler as lr_scheduler
from functrace.torch.optim.algorithms import ASGD as ASGD
from functrace.torch.optim.algorithms import SGD as SGD
from functrace.torch.optim.algorithms import Adadelta as Adadelta
from functrace.torch.optim.algorithms import Adafactor as Adafactor
from functrace.torch.optim.algorithms import Adagrad as Adagrad
from functrace.torch.optim.algorithms import Adam as Adam
from functrace.torch.optim.algorithms import Adamax as Adamax
from functrace.torch.optim.algorithms import AdamW as AdamW
from functrace.torch.optim.algorithms import NAdam as NAdam
from functrace.torch.optim.algorithms import RAdam as RAdam
from functrace.torch.optim.algorithms import RMSprop as RMSprop
from functrace.torch.optim.algorithms import Rprop as Rprop
from functrace.torch.optim.lbfgs import LBFGS as LBFGS
from functrace.torch.optim.optimizer import Optimizer as Optimizer

globals().update(dict.fromkeys("adadelta adagrad adam adamax adamw asgd nadam radam rmsprop rprop sgd".split(), _algorithms))
__getattr__ = missing("torch.optim", {"swa_utils": "swa_utils"})
