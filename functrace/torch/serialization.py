"""`torch.serialization`."""

from functrace.torch._serialization import add_safe_globals, clear_safe_globals, get_safe_globals, load, safe_globals, save

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]
