"""Optimisers over pytrees, in Optax's convention: an optimiser is a pair of pure functions, `init` and `update`.

`init(params)` makes the state, `update(grads, state, params)` returns the step to take and the next state, and `apply_updates` takes it.
States are namedtuples of arrays, that is pytrees, so a step can be jitted, mapped over an ensemble, looped with `scan`, saved, and
differentiated, also with respect to the learning rate. Parameters keep their dtype: float32 stays float32.

>>> import functrace as ft, numpy as np
>>> from functrace import optim
>>> def loss(p):
...     return np.sum((p["w"] - np.arange(3.0)) ** 2) + p["b"] ** 2
>>> params = {"w": np.zeros(3), "b": 1.0}
>>> optimizer = optim.adam(0.1)
>>> state = optimizer.init(params)
>>> for _ in range(300):
...     updates, state = optimizer.update(ft.grad(loss)(params), state, params)
...     params = optim.apply_updates(params, updates)
>>> params["w"].round(3)
array([0., 1., 2.])
"""

from functrace import edge as _edge
from functrace.optim.optimizers import adagrad as adagrad
from functrace.optim.optimizers import adam as adam
from functrace.optim.optimizers import adamw as adamw
from functrace.optim.optimizers import lion as lion
from functrace.optim.optimizers import momentum as momentum
from functrace.optim.optimizers import rmsprop as rmsprop
from functrace.optim.optimizers import sgd as sgd
from functrace.optim.schedules import constant as constant
from functrace.optim.schedules import cosine_decay as cosine_decay
from functrace.optim.schedules import exponential_decay as exponential_decay
from functrace.optim.schedules import linear as linear
from functrace.optim.schedules import piecewise_constant as piecewise_constant
from functrace.optim.schedules import warmup_cosine as warmup_cosine
from functrace.optim.solvers import MinimizeResult as MinimizeResult
from functrace.optim.solvers import lbfgs as lbfgs
from functrace.optim.solvers import minimize as minimize
from functrace.optim.transforms import GradientTransformation as GradientTransformation
from functrace.optim.transforms import add_decayed_weights as add_decayed_weights
from functrace.optim.transforms import apply_updates as apply_updates
from functrace.optim.transforms import chain as chain
from functrace.optim.transforms import clip as clip
from functrace.optim.transforms import clip_by_global_norm as clip_by_global_norm
from functrace.optim.transforms import global_norm as global_norm
from functrace.optim.transforms import identity as identity
from functrace.optim.transforms import scale as scale
from functrace.optim.transforms import scale_by_adagrad as scale_by_adagrad
from functrace.optim.transforms import scale_by_adam as scale_by_adam
from functrace.optim.transforms import scale_by_learning_rate as scale_by_learning_rate
from functrace.optim.transforms import scale_by_lion as scale_by_lion
from functrace.optim.transforms import scale_by_rms as scale_by_rms
from functrace.optim.transforms import scale_by_schedule as scale_by_schedule
from functrace.optim.transforms import trace as trace

__getattr__ = _edge.renamed(  # what has another name in Optax
    __name__,
    {
        "Adam": "functrace.optim.adam",
        "AdamW": "functrace.optim.adamw",
        "SGD": "functrace.optim.sgd",
        "RMSprop": "functrace.optim.rmsprop",
        "cosine_decay_schedule": "functrace.optim.cosine_decay",
        "warmup_cosine_decay_schedule": "functrace.optim.warmup_cosine",
        "linear_schedule": "functrace.optim.linear",
        "constant_schedule": "functrace.optim.constant",
        "piecewise_constant_schedule": "functrace.optim.piecewise_constant",
        "l2_loss": "functrace.nn.mse",
        "huber_loss": "functrace.nn.huber",
        "softmax_cross_entropy softmax_cross_entropy_with_integer_labels": "functrace.nn.softmax_cross_entropy",
        "sigmoid_binary_cross_entropy": "functrace.nn.sigmoid_binary_cross_entropy",
        "incremental_update": "functrace.tree.map",
    },
)
