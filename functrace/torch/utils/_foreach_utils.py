"""`torch.utils._foreach_utils`: what optimisers that are made like PyTorch's own take from it."""

from __future__ import annotations

from typing import Any


def _group_tensors_by_device_and_dtype(
    tensorlistlist: list[list[Any]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]:
    """Lists of equal length, split by where the tensors of the first are and their dtype; `with_indices` the places in it as well."""
    places: dict[tuple[Any, Any], list[int]] = {}
    for k, t in enumerate(tensorlistlist[0]):
        places.setdefault((t.device, t.dtype), []).append(k)
    return {kind: ([[x[k] for k in found] if x else [] for x in tensorlistlist], found * with_indices) for kind, found in places.items()}
