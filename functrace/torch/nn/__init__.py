"""`torch.nn`: modules, the functions that they hold, and the first values of their parameters."""

from __future__ import annotations

from functrace.torch._missing import as_of as _as_of
from functrace.torch._missing import missing as _missing
from functrace.torch.nn import containers as _containers
from functrace.torch.nn import functional as functional
from functrace.torch.nn import init as init
from functrace.torch.nn import normalization as normalization
from functrace.torch.nn import recurrent as _recurrent
from functrace.torch.nn import transformer as _transformer
from functrace.torch.nn import utils as utils
from functrace.torch.nn import weighted as _weighted
from functrace.torch.nn.layers import TABLE as _TABLE
from functrace.torch.nn.module import Module as Module
from functrace.torch.nn.parameter import Buffer as Buffer
from functrace.torch.nn.parameter import Parameter as Parameter

for _part in (_containers, _recurrent, _transformer, _weighted):
    globals().update({k: x for k, x in vars(_part).items() if k[0] != "_" and isinstance(x, type) and issubclass(x, Module)})
globals().update(_TABLE)
_FILES = {
    "activation": "MultiheadAttention PReLU",
    "container": "ModuleDict ModuleList ParameterDict ParameterList Sequential",
    "linear": "Bilinear Identity Linear",
    "batchnorm": "SyncBatchNorm",
    "normalization": "GroupNorm LayerNorm RMSNorm",
    "rnn": "GRU GRUCell LSTM LSTMCell RNN RNNBase RNNCell RNNCellBase",
    "sparse": "Embedding EmbeddingBag",
    "transformer": "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer",
}
for _file, _names in _FILES.items():
    _as_of(f"torch.nn.modules.{_file}", *(globals()[_name] for _name in _names.split()))
del NonDynamicallyQuantizableLinear  # noqa: F821 - which PyTorch has in `nn.modules.linear` only

_LAZY = ("Linear", *(f"{_name}{_d}d" for _name in ("Conv", "ConvTranspose", "BatchNorm", "InstanceNorm") for _d in (1, 2, 3)))
__getattr__ = _missing(
    "torch.nn",
    {
        "modules": "modules",
        "attention": "_attention",
        "common_types": "common_types",
        "AdaptiveLogSoftmaxWithLoss": "adaptive",
        "DataParallel": "parallel",
        "parallel": "parallel",
        **dict.fromkeys((*(f"Lazy{_name}" for _name in _LAZY), "LazyModuleMixin", "UninitializedParameter"), "lazy"),
    },
)


def __dir__() -> list[str]:
    return sorted(name for name in globals() if not name.startswith("_"))
