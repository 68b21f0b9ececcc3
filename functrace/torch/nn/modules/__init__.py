"""`torch.nn.modules`: the same modules under the names of PyTorch's files, for scripts that import them from there."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from functrace.torch import nn
from functrace.torch.nn import hooks, layers, normalization, parameter, weighted
from functrace.torch.nn import module as _module

_FILES = (
    "activation adaptive batchnorm channelshuffle container conv distance dropout flatten fold instancenorm lazy linear loss module "
    "normalization padding pixelshuffle pooling rnn sparse transformer upsampling utils"
).split()


def _repeated(n: int) -> Any:
    return lambda x: tuple(x) if isinstance(x, (tuple, list)) else (x,) * n


_OTHERS: dict[str, Any] = {
    **{name: getattr(hooks, name) for name in vars(hooks) if name.startswith("register_module")},
    "Parameter": parameter.Parameter,
    "_Loss": layers._Loss,
    "_WeightedLoss": layers._WeightedLoss,
    "_IncompatibleKeys": _module._IncompatibleKeys,
    "_single": _repeated(1),
    "_pair": _repeated(2),
    "_triple": _repeated(3),
    "_quadruple": _repeated(4),
    "_ntuple": lambda n, name="parse": _repeated(n),
    **{name: getattr(normalization, name) for name in ("_NormBase", "_BatchNorm", "_InstanceNorm")},
    **{name: getattr(weighted, name) for name in ("_ConvNd", "_ConvTransposeNd", "NonDynamicallyQuantizableLinear")},
}


class _File(ModuleType):
    """All names, in each of the files."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _OTHERS[name] if name in _OTHERS else getattr(nn, name)


__getattr__ = _File("modules").__getattr__
globals().update({_name: _File(f"{__name__}.{_name}") for _name in _FILES})
for _name, _class in vars(nn).items():  # those whose file this is packages find by looking
    _file = globals().get(str(getattr(_class, "__module__", "")).removeprefix("torch.nn.modules."))
    if isinstance(_file, _File):
        setattr(_file, _name, _class)
