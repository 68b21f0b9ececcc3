"""`functorch`, which PyTorch still installs beside itself: `torch.func` by its old names, and modules as functions of their parameters."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from functrace.torch import func as _func
from functrace.torch import nn
from functrace.torch._contact import boundary
from functrace.torch._device import version as _version
from functrace.torch._missing import as_of

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "functionalize", "grad", "grad_and_value", "hessian",
    "jacfwd", "jacrev", "jvp", "make_functional", "make_functional_with_buffers", "vjp", "vmap",
]  # fmt: skip

__version__ = _version.__version__


def _deprecated(f: Callable[..., Any], instead: str = "") -> Callable[..., Any]:
    """The function, which warns as PyTorch does."""
    name = f.__name__
    text = (
        "We've integrated functorch into PyTorch. As the final step of the integration, "
        f"`functorch.{name}` is deprecated as of PyTorch 2.0 and will be deleted in a future version of PyTorch >= 2.3. Please use "
        f"`torch.{instead or f'func.{name}'}` instead; see the PyTorch 2.0 release notes and/or the `torch.func` migration guide for more "
        "details https://pytorch.org/docs/main/func.migrating.html"
    )

    @boundary
    @functools.wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(text, FutureWarning, stacklevel=3)
        return f(*args, **kwargs)

    return function


grad, grad_and_value, vjp, jvp, jacrev, jacfwd, hessian, functionalize = (
    _deprecated(getattr(_func, name)) for name in "grad grad_and_value vjp jvp jacrev jacfwd hessian functionalize".split()
)
vmap = _deprecated(_func.vmap, "vmap")


class FunctionalModule(nn.Module):
    """A module as a function of its parameters; what it was made of is not changed by calls."""

    def __init__(self, model: Any, disable_autograd_tracking: bool) -> None:
        super().__init__()
        self.stateless_model = copy.deepcopy(model)
        states = (("param_names", self.stateless_model.named_parameters()), ("buffer_names", self.stateless_model.named_buffers()))
        self._state = []
        for names, found in states:
            pairs = list(found)
            setattr(self, names, tuple(name for name, _ in pairs))
            self._state.append(tuple(t for _, t in pairs))
        if disable_autograd_tracking:
            self.stateless_model.requires_grad_(False)

    def forward(self, params: Any, *args: Any, **kwargs: Any) -> Any:
        """The module's result with these parameters."""
        return _func.functional_call(self.stateless_model, dict(zip(self.param_names, params)), args, kwargs)


class FunctionalModuleWithBuffers(FunctionalModule):
    """A module as a function of its parameters and buffers."""

    def forward(self, params: Any, buffers: Any, *args: Any, **kwargs: Any) -> Any:
        """The module's result with these parameters and buffers."""
        given = dict(zip((*self.param_names, *self.buffer_names), (*params, *buffers)))
        return _func.functional_call(self.stateless_model, given, args, kwargs)


@functools.partial(_deprecated, instead="func.functional_call")
def make_functional(model: Any, disable_autograd_tracking: bool = False) -> Any:
    """(function of parameters and arguments, parameters): the module, and copies of its parameters."""
    if any(True for _ in model.buffers()):
        raise RuntimeError("make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead.")
    function = FunctionalModule(model, disable_autograd_tracking)
    return function, function._state[0]


@functools.partial(_deprecated, instead="func.functional_call")
def make_functional_with_buffers(model: Any, disable_autograd_tracking: bool = False) -> Any:
    """(function of parameters, buffers and arguments, parameters, buffers)."""
    function = FunctionalModuleWithBuffers(model, disable_autograd_tracking)
    return function, *function._state


@functools.partial(_deprecated, instead="func.stack_module_state")
def combine_state_for_ensemble(models: Sequence[Any]) -> Any:
    """(function, parameters, buffers): those of all the modules, stacked, for `vmap` over them."""
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if len({bool(m.training) for m in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")
    params, buffers = _func.stack_module_state(models)
    return FunctionalModuleWithBuffers(models[0], False), *(tuple(t.detach() for t in state.values()) for state in (params, buffers))


as_of("torch._functorch.make_functional", FunctionalModule, FunctionalModuleWithBuffers)
