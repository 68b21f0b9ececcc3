"""`torch.utils`: loading of data, and `checkpoint`."""

from __future__ import annotations

from types import SimpleNamespace

from functrace.torch._attributes import from_dlpack
from functrace.torch._create import to_dlpack
from functrace.torch._device import Absent, hub
from functrace.torch._engine import Handle
from functrace.torch._missing import missing, names
from functrace.torch.utils import checkpoint as checkpoint
from functrace.torch.utils import data as data

dlpack = SimpleNamespace(from_dlpack=from_dlpack, to_dlpack=to_dlpack)
model_zoo = SimpleNamespace(load_url=hub.load_state_dict_from_url)
flop_counter = Absent("utils.flop_counter")
hooks = SimpleNamespace(RemovableHandle=Handle)
__getattr__ = missing("torch.utils", names(benchmark="", _pytree="", _foreach_utils=""))
