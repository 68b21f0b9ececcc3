"""Sketches of results: a few numbers for each array, to tell whether a second run of a function gave the same, to rounding."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from functrace.core.tracer import bare, levels
from functrace.transforms.control_body import Recorder, example


def digest(x: Any) -> tuple[Any, ...]:
    """Shape, dtype and a checksum of the bits."""
    x = np.ascontiguousarray(bare(x))
    return x.shape, x.dtype, zlib.crc32(x)


def sketch(x: Any) -> tuple[Any, Any]:
    """Marks of the first example of a batch, and of the whole batch; None for the whole where only an example is at hand."""
    one, whole, recorded = example(x), bare(x), any(isinstance(level.owner, Recorder) for level in levels(x))
    first = _marks(one, np.shape(x))
    return first, None if recorded else first if whole is one else _marks(whole, np.shape(x))


def _marks(x: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Sums over the elements, which differ if arrays do by more than rounding; integers exactly, by their digest.

    They are means over the batch, so a result that is the same for all examples may come once, or once for each.
    """
    length, x = max(math.prod(shape), 1), np.ravel(x)
    batch = max(x.size // length, 1)
    if x.dtype.kind not in "fc":
        return digest(np.unique(x.reshape(batch, -1), axis=0))
    count, size, block = 0, 0.0, 2048
    mark: Any = 0.0
    for k in range(0, x.size, block):  # in blocks: the arrays in between would be the peak of the memory that a checkpoint is to save
        part = x[k : k + block].astype(np.result_type(x, np.float64), copy=False)
        part = np.where(np.abs(part) < _HUGE, part, 0)
        count += int(np.count_nonzero(part))
        mark += part @ (1 + np.arange(k, k + part.size) % length / length)
        size += np.sum(np.abs(part))
    return shape, x.dtype.newbyteorder("="), count / batch, mark / batch, size / batch


_HUGE = 1e300  # from here on elements are left out, as infinities are: their sums would not be finite


def alike(first: list[tuple[Any, Any]], results: Iterable[Any]) -> bool:
    """Whether results match the sketches of the first run."""
    again = [*map(sketch, results)]
    return len(first) == len(again) and all(_close(*zip(*pair)) for pair in zip(first, again))


def _close(examples: tuple[Any, ...], wholes: tuple[Any, ...]) -> bool:
    one, other = examples if None in wholes else wholes
    if one[:3] != other[:3] or len(one) == 3:
        return bool(one == other)
    return bool(abs(one[3] - other[3]) <= 4 * np.finfo(one[1]).eps ** 0.5 * one[4])
