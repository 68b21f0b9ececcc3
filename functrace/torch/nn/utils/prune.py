"""`torch.nn.utils.prune`: parameters of which some elements are kept at zero by a mask.

A pruned parameter `w` becomes the attribute `w = w_orig * w_mask`, made anew before each call of the module: `w_orig` is the
parameter that is trained, `w_mask` a buffer.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from functrace.torch._create import ones_like, zeros_like
from functrace.torch._draws import rand, rand_like
from functrace.torch._missing import own_init
from functrace.torch._reduce import norm
from functrace.torch.nn.utils import parameters_to_vector


class BasePruningMethod(abc.ABC):
    """What makes a mask. A subclass says in `PRUNING_TYPE` what it looks at, and defines `compute_mask`."""

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abc.abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask of a tensor of importances; what `default_mask` leaves out stays out."""

    def apply_mask(self, module: Any) -> Any:
        """The parameter times its mask."""
        name = self._tensor_name
        mask, original = getattr(module, name + "_mask"), getattr(module, name + "_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any) -> BasePruningMethod:
        """Prune a parameter by this method, which gets the other arguments; after methods that pruned it before."""
        before = [(k, hook) for k, hook in module._forward_pre_hooks.items() if getattr(hook, "_tensor_name", None) == name]
        before = [(k, hook) for k, hook in before if isinstance(hook, BasePruningMethod)]
        original = getattr(module, name)
        if importance_scores is not None and importance_scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, got {importance_scores.shape} vs "
                f"{original.shape}"
            )
        method = cls(*args, **kwargs)
        method._tensor_name = name
        mask, whole = ones_like(original), method
        for _, old in before:
            container = old if isinstance(old, PruningContainer) else PruningContainer(old)
            container.add_pruning_method(method)
            mask, whole = getattr(module, name + "_mask").detach().clone(), container
        mask = whole.compute_mask(original if importance_scores is None else importance_scores, default_mask=mask)
        for k, _ in before:
            del module._forward_pre_hooks[k]
        if not before:
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, whole.apply_mask(module))
        module.register_forward_pre_hook(whole)
        return whole

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """A tensor times its mask."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(f"importance_scores should have the same shape as tensor t, got {scores.shape} vs {t.shape}")
        return t * self.compute_mask(scores, default_mask=ones_like(t) if default_mask is None else default_mask)

    def remove(self, module: Any) -> None:
        """Make the pruned tensor the parameter."""
        name = self._tensor_name
        pruned = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters[name + "_orig"]
        original.data = pruned.data
        del module._parameters[name + "_orig"]
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Methods that were applied one after another."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if len(args) == 1 and isinstance(args[0], Iterable):
            args = tuple(args[0])
        elif len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method of the same tensor."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pruning_methods)

    def __getitem__(self, k: int) -> Any:
        return self._pruning_methods[k]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask of the last method, of what the others left."""
        method, mask = self._pruning_methods[-1], default_mask.clone().to(dtype=t.dtype)
        kept: Any = slice(None)
        if method.PRUNING_TYPE == "unstructured":
            kept = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim % t.dim()
            kept = (*(slice(None),) * dim, mask.sum(dim=[k for k in range(t.dim()) if k != dim]) != 0)
        elif method.PRUNING_TYPE != "global":
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        mask[kept] = method.compute_mask(t[kept], default_mask=mask[kept]).to(dtype=mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        return default_mask


class _Amount(BasePruningMethod):
    """A method that leaves out some elements: a number of them, or a share."""

    PRUNING_TYPE = "unstructured"
    _least: Any  # (tensor, how many) to the places of those to leave out

    def __init__(self, amount: Any) -> None:
        if isinstance(amount, bool) or not isinstance(amount, (int, float)):
            raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
        if amount < 0 or isinstance(amount, float) and amount > 1:
            raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")
        self.amount = amount

    def _count(self, size: int) -> int:
        if isinstance(self.amount, float):
            return round(self.amount * size)
        if self.amount > size:
            raise ValueError(f"amount={self.amount} should be smaller than the number of parameters to prune={size}")
        return self.amount

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        count, mask = self._count(t.numel()), default_mask.clone()
        if count:
            mask.view(-1)[self._least(t, count)] = 0
        return mask


class RandomUnstructured(_Amount):
    """Leaves out elements by chance."""

    def _least(self, t: Any, count: int) -> Any:
        return rand_like(t).view(-1).topk(count).indices


class L1Unstructured(_Amount):
    """Leaves out the elements of least magnitude."""

    def _least(self, t: Any, count: int) -> Any:
        return t.abs().view(-1).topk(count, largest=False).indices


class _Structured(_Amount):
    """A method that leaves out whole entries along an axis."""

    PRUNING_TYPE = "structured"
    _kept: Any  # (tensor, size of the axis, how many to leave out) to a mask of the axis

    def __init__(self, amount: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        if t.dim() <= 1:
            raise ValueError(
                f"Structured pruning can only be applied to multidimensional tensors. Found tensor of shape {t.shape} with {t.dim()} dims"
            )
        if self.dim >= t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        size = t.shape[self.dim]
        count = self._count(size)
        if not count:
            return default_mask
        mask = zeros_like(t)
        mask[(*(slice(None),) * (self.dim % t.dim()), self._kept(t, size, count))] = 1
        mask *= default_mask.to(dtype=mask.dtype)
        return mask


class RandomStructured(_Structured):
    """Leaves out entries along an axis by chance."""

    def _kept(self, _t: Any, size: int, count: int) -> Any:
        chances = rand(size)
        return chances > chances.kthvalue(count).values


class LnStructured(_Structured):
    """Leaves out the entries along an axis that have the least norm."""

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _kept(self, t: Any, size: int, count: int) -> Any:
        return norm(t, self.n, [k for k in range(t.dim()) if k != self.dim % t.dim()]).topk(size - count).indices


class CustomFromMask(BasePruningMethod):
    """A mask that is given."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}")
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def identity(module: Any, name: str) -> Any:
    """Give a parameter a mask that leaves nothing out."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: Any) -> Any:
    """Keep `amount` of a parameter's elements, a number or a share, at zero: chosen by chance."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: Any, importance_scores: Any = None) -> Any:
    """Keep `amount` of a parameter's elements, a number or a share, at zero: those of least magnitude, or importance.

    >>> import functrace.torch as torch
    >>> from functrace.torch.nn.utils import prune
    >>> m = torch.nn.Linear(3, 1, bias=False)
    >>> m.weight.data = torch.tensor([[1.0, -2.0, 0.5]])
    >>> prune.l1_unstructured(m, "weight", amount=1).weight
    tensor([[ 1., -2.,  0.]], grad_fn=<MulBackward0>)
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: Any, dim: int) -> Any:
    """Keep `amount` of the entries along an axis at zero: chosen by chance."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None) -> Any:
    """Keep `amount` of the entries along an axis at zero: those of least n-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Any) -> Any:
    """Keep a parameter's elements at zero where the mask is."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters: Any, pruning_method: Callable[..., Any], importance_scores: Any = None, **kwargs: Any) -> None:
    """Prune several parameters, pairs of a module and a name, as if they were one tensor."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    parameters = list(parameters)
    scores = importance_scores or {}
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of type '
            f"{method.PRUNING_TYPE}"
        )
    tensors = [getattr(module, name) for module, name in parameters]
    importances = parameters_to_vector([scores.get(key, t) for key, t in zip(parameters, tensors)])
    masks = [getattr(module, name + "_mask", ones_like(t)) for (module, name), t in zip(parameters, tensors)]
    container = PruningContainer()
    container._tensor_name = method._tensor_name = "temp"
    container.add_pruning_method(method)
    whole = container.compute_mask(importances, parameters_to_vector(masks))
    for (module, name), t, mask in zip(parameters, tensors, whole.split([t.numel() for t in tensors])):
        custom_from_mask(module, name, mask=mask.view_as(t))


def remove(module: Any, name: str) -> Any:
    """Make what a parameter was pruned to the parameter."""
    for k, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[k]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Any) -> bool:
    """Whether a module, or one of its own, has pruned parameters."""
    return any(isinstance(hook, BasePruningMethod) for part in module.modules() for hook in part._forward_pre_hooks.values())


for _class in (PruningContainer, Identity, RandomUnstructured, L1Unstructured, RandomStructured, LnStructured, CustomFromMask):
    _class.__module__ = "torch.nn.utils.prune"
    own_init(_class)
