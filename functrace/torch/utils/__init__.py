"""`torch.utils`: loading of data, and `checkpoint`."""

from __future__ import annotations

from functrace.torch._missing import missing
from functrace.torch.utils import checkpoint as checkpoint
from functrace.torch.utils import data as data

__getattr__ = missing("torch.utils")
