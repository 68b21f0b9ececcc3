"""functrace: automatic differentiation of NumPy code, by one tape and its replays.

>>> import functrace as ft, numpy as np
>>> ft.grad(lambda x: np.sin(x) * x)(1.0)
np.float64(1.3817732906760363)
"""

from functrace import errors as errors
from functrace import numpy as numpy
from functrace import tree as tree
from functrace.core.tracer import value as value
from functrace.optimize import ravel_pytree as ravel_pytree
from functrace.optimize import scipy_objective as scipy_objective
from functrace.testing import check_grads as check_grads
from functrace.transforms.batching import vmap as vmap
from functrace.transforms.custom import checkpoint as checkpoint
from functrace.transforms.custom import custom_jvp as custom_jvp
from functrace.transforms.custom import custom_vjp as custom_vjp
from functrace.transforms.custom import stop_gradient as stop_gradient
from functrace.transforms.derivatives import grad as grad
from functrace.transforms.derivatives import hessian as hessian
from functrace.transforms.derivatives import hvp as hvp
from functrace.transforms.derivatives import jacfwd as jacfwd
from functrace.transforms.derivatives import jacobian as jacobian
from functrace.transforms.derivatives import jacrev as jacrev
from functrace.transforms.derivatives import jvp as jvp
from functrace.transforms.derivatives import linearize as linearize
from functrace.transforms.derivatives import value_and_grad as value_and_grad
from functrace.transforms.derivatives import vjp as vjp
from functrace.transforms.tracing import trace as trace

__version__ = "0.1.0"
