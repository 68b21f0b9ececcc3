"""`torch.utils`: loading of data, and `checkpoint`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from functrace.torch._attributes import from_dlpack
from functrace.torch._create import to_dlpack
from functrace.torch._device import Absent, hub
from functrace.torch._engine import Handle
from functrace.torch._missing import missing, names
from functrace.torch.utils import checkpoint as checkpoint
from functrace.torch.utils import data as data

dlpack = SimpleNamespace(from_dlpack=from_dlpack, to_dlpack=to_dlpack)
model_zoo = SimpleNamespace(load_url=hub.load_state_dict_from_url)


def _by_kind(tensorlistlist: Any, with_indices: bool = False) -> dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]:
    places: dict[tuple[Any, Any], list[int]] = {}
    for k, t in enumerate(tensorlistlist[0]):
        places.setdefault((t.device, t.dtype), []).append(k)
    return {kind: ([[x[k] for k in found] if x else [] for x in tensorlistlist], found * with_indices) for kind, found in places.items()}


_foreach_utils = SimpleNamespace(_group_tensors_by_device_and_dtype=_by_kind)
flop_counter = Absent("utils.flop_counter")
hooks = SimpleNamespace(RemovableHandle=Handle)
__getattr__ = missing("torch.utils", names(benchmark="", _pytree=""))
