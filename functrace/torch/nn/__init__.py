"""`torch.nn`: modules, the functions that they hold, and the first values of their parameters."""

from __future__ import annotations

from functrace.torch._missing import missing as _missing
from functrace.torch.nn import functional as functional
from functrace.torch.nn import init as init
from functrace.torch.nn import normalization as normalization
from functrace.torch.nn import utils as utils
from functrace.torch.nn.containers import ModuleDict as ModuleDict
from functrace.torch.nn.containers import ModuleList as ModuleList
from functrace.torch.nn.containers import ParameterDict as ParameterDict
from functrace.torch.nn.containers import ParameterList as ParameterList
from functrace.torch.nn.containers import Sequential as Sequential
from functrace.torch.nn.layers import TABLE as _TABLE
from functrace.torch.nn.module import Module as Module
from functrace.torch.nn.parameter import Buffer as Buffer
from functrace.torch.nn.parameter import Parameter as Parameter
from functrace.torch.nn.recurrent import GRU as GRU
from functrace.torch.nn.recurrent import LSTM as LSTM
from functrace.torch.nn.recurrent import RNN as RNN
from functrace.torch.nn.recurrent import GRUCell as GRUCell
from functrace.torch.nn.recurrent import LSTMCell as LSTMCell
from functrace.torch.nn.recurrent import RNNBase as RNNBase
from functrace.torch.nn.recurrent import RNNCell as RNNCell
from functrace.torch.nn.recurrent import RNNCellBase as RNNCellBase
from functrace.torch.nn.transformer import MultiheadAttention as MultiheadAttention
from functrace.torch.nn.transformer import Transformer as Transformer
from functrace.torch.nn.transformer import TransformerDecoder as TransformerDecoder
from functrace.torch.nn.transformer import TransformerDecoderLayer as TransformerDecoderLayer
from functrace.torch.nn.transformer import TransformerEncoder as TransformerEncoder
from functrace.torch.nn.transformer import TransformerEncoderLayer as TransformerEncoderLayer
from functrace.torch.nn.weighted import Bilinear as Bilinear
from functrace.torch.nn.weighted import Embedding as Embedding
from functrace.torch.nn.weighted import EmbeddingBag as EmbeddingBag
from functrace.torch.nn.weighted import Identity as Identity
from functrace.torch.nn.weighted import Linear as Linear
from functrace.torch.nn.weighted import PReLU as PReLU

globals().update(_TABLE)

_LAZY = ("Linear", *(f"{_name}{_d}d" for _name in ("Conv", "ConvTranspose", "BatchNorm", "InstanceNorm") for _d in (1, 2, 3)))
__getattr__ = _missing(
    "torch.nn",
    {
        "modules": "modules",
        "AdaptiveLogSoftmaxWithLoss": "adaptive",
        "DataParallel": "parallel",
        "parallel": "parallel",
        **dict.fromkeys((*(f"Lazy{_name}" for _name in _LAZY), "LazyModuleMixin", "UninitializedParameter"), "lazy"),
    },
)


def __dir__() -> list[str]:
    return sorted(name for name in globals() if not name.startswith("_"))
