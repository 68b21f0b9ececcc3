"""functrace: automatic differentiation of NumPy code, by one tape and its replays.

Derivatives: `grad` `value_and_grad` `vjp` `jvp` `linearize` `jacobian` `jacrev` `jacfwd` `hessian` `hvp` `sparse_jacobian`
`sparse_hessian`; rules by hand: `custom_vjp` `custom_jvp`; constants: `stop_gradient` `value`; memory: `checkpoint`.
Batches: `vmap`. Programs: `jit` `save` `load`. Loops: `scan` `fori_loop` `while_loop` `associative_scan` `map`; branches: `cond` `switch`.
Equations: `implicit_root` `fixed_point` `linear_solve`. Parameters as a vector: `ravel_pytree` `scipy_objective`.
Looking inside: `check_grads` `trace` `draw` `explain` `profile` `debug_nans` `debug_infs` `checks`.
Modules: `numpy` `scipy` `torch` `optim` `random` `nn` `tree` `sparse` `testing` `errors`.

Each has help of its own: `help(functrace.grad)`.

>>> import functrace as ft, numpy as np
>>> ft.grad(lambda x: np.sin(x) * x)(1.0)
np.float64(1.3817732906760363)
"""

from typing import TYPE_CHECKING, Any

from functrace import edge as _edge
from functrace import errors as errors
from functrace import numpy as numpy
from functrace import tree as tree
from functrace.transforms.batching import vmap as vmap
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

if TYPE_CHECKING:
    from functrace import compile as compile
    from functrace import debug as debug
    from functrace import nn as nn
    from functrace import optim as optim
    from functrace import optimize as optimize
    from functrace import random as random
    from functrace import scipy as scipy
    from functrace import sparse as sparse
    from functrace import testing as testing
    from functrace import torch as torch
    from functrace.compile.files import load as load
    from functrace.compile.files import save as save
    from functrace.compile.jit import jit as jit
    from functrace.debug import checks as checks
    from functrace.debug import debug_infs as debug_infs
    from functrace.debug import debug_nans as debug_nans
    from functrace.debug import explain as explain
    from functrace.debug import profile as profile
    from functrace.drawing import draw as draw
    from functrace.optimize import fixed_point as fixed_point
    from functrace.optimize import implicit_root as implicit_root
    from functrace.optimize import linear_solve as linear_solve
    from functrace.optimize import ravel_pytree as ravel_pytree
    from functrace.optimize import scipy_objective as scipy_objective
    from functrace.sparse import sparse_hessian as sparse_hessian
    from functrace.sparse import sparse_jacobian as sparse_jacobian
    from functrace.tapes import trace as trace
    from functrace.testing import check_grads as check_grads
    from functrace.transforms.checkpointing import checkpoint as checkpoint
    from functrace.transforms.constants import stop_gradient as stop_gradient
    from functrace.transforms.constants import value as value
    from functrace.transforms.control import cond as cond
    from functrace.transforms.control import fori_loop as fori_loop
    from functrace.transforms.control import map as map
    from functrace.transforms.control import scan as scan
    from functrace.transforms.control import switch as switch
    from functrace.transforms.control import while_loop as while_loop
    from functrace.transforms.control_associative import associative_scan as associative_scan
    from functrace.transforms.custom import custom_jvp as custom_jvp
    from functrace.transforms.custom import custom_vjp as custom_vjp

__version__ = "0.1.0"

_LATE = {  # imported when they are first asked for: most programs use few of them
    "functrace.compile.files": "load save",
    "functrace.compile.jit": "jit",
    "functrace.debug": "checks debug_infs debug_nans explain profile",
    "functrace.drawing": "draw",
    "functrace.optimize": "fixed_point implicit_root linear_solve ravel_pytree scipy_objective",
    "functrace.sparse": "sparse_hessian sparse_jacobian",
    "functrace.tapes": "trace",
    "functrace.testing": "check_grads",
    "functrace.transforms.constants": "stop_gradient value",
    "functrace.transforms.control": "cond fori_loop map scan switch while_loop",
    "functrace.transforms.control_associative": "associative_scan",
    "functrace.transforms.checkpointing": "checkpoint",
    "functrace.transforms.custom": "custom_jvp custom_vjp",
}
_INSTEAD = {  # what has another name in JAX, autograd or PyTorch
    "elementwise_grad egrad": "functrace.grad(lambda x: np.sum(f(x)))",
    "make_vjp": "functrace.vjp(f, x)",
    "make_jvp": "functrace.jvp(f, (x,), (v,))",
    "make_hvp hessian_vector_product hessian_tensor_product": "functrace.hvp(f, (x,), (v,))",
    "grad_and_aux": "functrace.grad(f, has_aux=True)",
    "holomorphic_grad": "functrace.grad(f, holomorphic=True)",
    "grad_and_value": "functrace.value_and_grad(f)",
    "primitive defvjp defjvp extend custom_gradient pure_callback io_callback custom_batching Function": "functrace.custom_vjp",
    "multigrad_dict grad_named": "functrace.grad(f, argnames=...)",
    "tensor_jacobian_product linear_transpose": "functrace.vjp(f, x)",
    "make_ggnvp": "functrace.linearize, hvp and vjp, as in docs/from_autograd.md",
    "deriv derivative gradient": "functrace.grad",
    "misc": "functrace.optim and functrace.ravel_pytree",
    "test_util": "functrace.check_grads",
    "lax": "functrace itself, as in functrace.scan",
    "tree_util tree_map tree_leaves tree_flatten tree_unflatten tree_structure": "functrace.tree, as in functrace.tree.map",
    "flatten_util flatten": "functrace.ravel_pytree",
    "make_jaxpr": "functrace.trace(f)(x)",
    "PRNGKey key": "functrace.random.key(seed)",
    "remat": "functrace.checkpoint",
    "checkpoint_policies checkpoint_name": "functrace.checkpoint, which has no policies",
    "Array": "numpy.ndarray; a traced value is none",
    "eval_shape device_put device_get block_until_ready": "nothing in its place: functions run on values, arrays are NumPy's",
    "ShapeDtypeStruct pmap disable_jit enable_x64 config": "nothing in its place: float64 is the default, and values can be looked at",
    "custom_root": "functrace.implicit_root",
    "no_grad detach": "functrace.stop_gradient(x); for tensors functrace.torch",
    "array asarray arange linspace zeros ones eye sum mean sin cos exp log sqrt linalg fft": "NumPy, or functrace.numpy",
    "special stats": "functrace.scipy",
    "minimize": "functrace.optim.minimize",
    "tensor Tensor as_tensor Variable backward requires_grad": "NumPy's arrays and functrace.grad; for tensors functrace.torch",
}
_MODULES = ("compile", "debug", "nn", "optim", "optimize", "random", "scipy", "sparse", "testing", "torch")


def _enter(cls: type) -> bool:
    from functrace._labels import enter

    return enter(cls)


def _compiled(loop: Any) -> Any:
    from functrace.compile.bodies import compiled

    return compiled(loop)


tree.ENTERING.update(pandas=_enter, xarray=_enter)


@_edge.boundary
def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _LATE.items():
        if name in names.split():
            if module == "functrace.transforms.control":
                import_module("functrace.transforms.control_body").COMPILERS.update(scan=_compiled, while_loop=_compiled)
            found = globals()[name] = getattr(import_module(module), name)
            return found
    if name in _MODULES:
        return import_module(f"functrace.{name}")
    return _edge.renamed(__name__, _INSTEAD)(name)


def __dir__() -> list[str]:
    functions = [n for n, x in list(globals().items()) if n[0] != "_" and str(getattr(x, "__module__", "")).startswith("functrace.")]
    return sorted({*functions, *_MODULES, *" ".join(_LATE.values()).split(), "__version__", "__doc__", "errors", "numpy", "tree"})
