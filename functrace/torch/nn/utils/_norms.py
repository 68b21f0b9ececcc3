"""`weight_norm` and `spectral_norm` as they were before parametrisations: the weight is computed by a hook before `forward`."""

from __future__ import annotations

from typing import Any

from functrace.torch._create import empty
from functrace.torch._dtypes import warn
from functrace.torch._modes import no_grad
from functrace.torch.nn import functional as F
from functrace.torch.nn.module import Module
from functrace.torch.nn.parameter import Parameter
from functrace.torch.nn.utils.parametrizations import axis_of, matrix_of, norm_except, positive, stretched_to

_WEIGHT_NORM = "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`."


class _Hook:
    """What is called before `forward`, with the module; it knows what is to be computed."""

    def __init__(self, module: Module, name: str) -> None:
        self.name = name
        for other in module._forward_pre_hooks.values():
            if type(other) is type(self) and other.name == name:
                raise RuntimeError(f"Cannot register two {self.what} hooks on the same parameter {name}")
        self.weight = module._parameters[name]
        delattr(module, name)

    what = ""

    def compute(self, module: Module) -> Any:
        raise NotImplementedError

    def __call__(self, module: Module, _args: Any) -> None:
        setattr(module, self.name, self.compute(module))


def _remove(module: Module, name: str, kind: type[_Hook], parts: tuple[str, ...]) -> Module:
    for k, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:
            with no_grad():
                weight = hook.compute(module).detach()
            delattr(module, name)
            for part in parts:
                delattr(module, name + part)
            module.register_parameter(name, Parameter(weight))
            del module._forward_pre_hooks[k]
            return module
    raise ValueError(f"{kind.what} of '{name}' not found in {module}")


class WeightNorm(_Hook):
    """Length times direction."""

    what = "weight_norm"

    def __init__(self, module: Module, name: str, dim: int) -> None:
        super().__init__(module, name)
        self.dim, weight = dim, self.weight.detach()
        module.register_parameter(name + "_g", Parameter(norm_except(weight, dim)))
        module.register_parameter(name + "_v", Parameter(weight))
        del self.weight

    def compute(self, module: Module) -> Any:
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return stretched_to(v, g, self.dim)


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Weights as length times direction (Salimans and Kingma 2016): parameters `weight_g` and `weight_v`."""
    warn(_WEIGHT_NORM, FutureWarning)
    hook = WeightNorm(module, name, -1 if dim is None else dim)
    hook(module, ())
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """One parameter again."""
    return _remove(module, name, WeightNorm, ("_g", "_v"))


class SpectralNorm(_Hook):
    """The weight over its largest singular value."""

    what = "spectral_norm"

    def __init__(self, module: Module, name: str, times: int, eps: float, dim: int) -> None:
        super().__init__(module, name)
        self.times, self.eps, self.dim = positive(times), eps, dim
        module.register_parameter(name + "_orig", self.weight)
        matrix = matrix_of(self.weight, dim)
        for part, n in zip(("_u", "_v"), matrix.shape):
            module.register_buffer(name + part, F.normalize(empty(n, dtype=matrix.dtype).normal_(0, 1), dim=0, eps=eps))
        setattr(module, name, self.weight.data)
        del self.weight

    def compute(self, module: Module, iterate: bool = False) -> Any:
        weight, u, v = (getattr(module, self.name + part) for part in ("_orig", "_u", "_v"))
        matrix = matrix_of(weight, self.dim)
        if iterate:
            with no_grad():
                for _ in range(self.times):
                    v.copy_(F.normalize(matrix.t().mv(u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix.mv(v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()
        return weight / u.dot(matrix.mv(v))

    def __call__(self, module: Module, _args: Any) -> None:
        setattr(module, self.name, self.compute(module, module.training))


def spectral_norm(module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None) -> Module:
    """Weights over their largest singular value (Miyato et al. 2018): parameter `weight_orig`, buffers `weight_u` and `weight_v`."""
    module.register_forward_pre_hook(SpectralNorm(module, name, n_power_iterations, eps, axis_of(module, dim)))
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """One parameter again."""
    return _remove(module, name, SpectralNorm, ("_u", "_v", "_orig"))
