"""`torch.nn.parallel`: `DataParallel`, which without a GPU is the module that it is given."""

from __future__ import annotations

from typing import Any

from functrace.torch._device import cuda, distributed
from functrace.torch._missing import missing
from functrace.torch.nn.module import Module


class DataParallel(Module):
    """Runs a module; its parameters have `module.` before their names."""

    def __init__(self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module, self.device_ids = module, list[int]()

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        return self.module(*inputs, **kwargs)


DistributedDataParallel = distributed.DistributedDataParallel
scatter_gather = cuda.part("comm")
__path__: list[str] = []
__getattr__ = missing("torch.nn.parallel")
