"""Sequences of several lengths: padded to one length, or packed without the padding."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.torch._dtypes import as_int64
from functrace.torch._index import cat, stack
from functrace.torch._tensor import Tensor, wrap
from functrace.torch.nn._padding import pad

_Fields = namedtuple("_Fields", "data batch_sizes sorted_indices unsorted_indices", defaults=(None, None, None))


class PackedSequence(_Fields):
    """The first elements of all sequences, then the second ones, and so on, longest sequence first. Made by `pack_padded_sequence`."""

    __module__ = "torch.nn.utils.rnn"
    __slots__ = ()

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Its elements converted to a dtype, as a tensor's `to` does it."""
        return self._replace(data=self.data.to(*args, **kwargs))

    is_cuda = property(lambda self: self.data.is_cuda)

    def _lengths(self) -> Any:
        sizes = self.batch_sizes._a
        return (sizes[:, None] > np.arange(sizes[0])).sum(0, dtype=np.int64)

    def _unpacked(self) -> tuple[Any, Any]:
        """Padded, time first, and the lengths."""
        lengths = self._lengths()
        steps, batch = int(lengths.max()), len(lengths)
        running = np.arange(steps)[:, None] < lengths
        index = np.where(running, np.cumsum(running).reshape(running.shape) - 1, 0)
        ended = ~running.reshape(steps, batch, *(1,) * (self.data._a.ndim - 1))
        return self.data[wrap(index)].masked_fill(wrap(ended), 0), lengths


def _converted(name: str) -> Any:
    return lambda self, *args, **kwargs: self._replace(data=getattr(self.data, name)(*args, **kwargs))


for _name in "cpu double float half long int short char byte".split():
    setattr(PackedSequence, _name, _converted(_name))


def _running(steps: int, lengths: Any) -> tuple[Any, Any]:
    t, b = np.nonzero(np.arange(steps)[:, None] < lengths)
    return wrap(t), wrap(b)


def pack_padded_sequence(input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True) -> PackedSequence:
    """A padded batch without its padding."""
    sizes = np.asarray(lengths._a if isinstance(lengths, Tensor) else lengths, np.int64)
    x = input.transpose(0, 1) if batch_first else input
    if (sizes <= 0).any():
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0")
    if len(sizes) != x._a.shape[1]:
        raise RuntimeError(f"Expected `len(lengths)` to be equal to batch_size, but got {len(sizes)} (batch_size={x._a.shape[1]})")
    if (sizes > x._a.shape[0]).any():
        raise RuntimeError("Expected `lengths` to be at most the length of the sequences, but got a larger one.")
    order = None
    if not enforce_sorted:
        order = as_int64(np.argsort(-sizes, kind="stable"))
        sizes, x = sizes[order], x.index_select(1, wrap(order))
    elif (np.diff(sizes) > 0).any():
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass `enforce_sorted=False` to "
            "pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not need ONNX exportability."
        )
    counts = (np.arange(sizes[0])[:, None] < sizes).sum(1, dtype=np.int64)
    data = x[_running(x._a.shape[0], sizes)]
    if order is None:
        return PackedSequence(data, wrap(counts))
    return PackedSequence(data, wrap(counts), wrap(order), wrap(as_int64(np.argsort(order))))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Any, Any]:
    """A packed batch padded again, and the lengths."""
    x, lengths = sequence._unpacked()
    steps = x._a.shape[0] if total_length is None else total_length
    if steps < x._a.shape[0]:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={steps} and max sequence length being {x._a.shape[0]}"
        )
    ended = np.arange(steps)[:, None] >= lengths
    if steps > x._a.shape[0]:
        x = cat([x, x.new_zeros(steps - x._a.shape[0], *x._a.shape[1:])])
    if padding_value:
        x = x.masked_fill(wrap(ended.reshape(*ended.shape, *(1,) * (x._a.ndim - 2))), padding_value)
    x = x.transpose(0, 1) if batch_first else x
    if sequence.unsorted_indices is not None:
        x, lengths = x.index_select(1 - batch_first, sequence.unsorted_indices), lengths[sequence.unsorted_indices._a]
    return x, wrap(lengths)


def pad_sequence(sequences: Sequence[Any], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right") -> Any:
    """Sequences of several lengths in one tensor."""
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    if len(sequences) == 0:
        raise RuntimeError("received an empty list of sequences")
    longest = max(s._a.shape[0] for s in sequences)
    rows = []
    for s in sequences:
        missing = longest - s._a.shape[0]
        rows.append(
            pad(s, [0, 0] * (s._a.ndim - 1) + ([missing, 0] if padding_side == "left" else [0, missing]), "constant", padding_value)
        )
    return stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """The sequences of a padded batch, each of its own length."""
    x = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[np.arange(len(row)) < int(n)] for row, n in zip(x.unbind(0), lengths)]


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """The sequences of a packed batch, each of its own length."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)


def pack_sequence(sequences: Sequence[Any], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences of several lengths, packed."""
    return pack_padded_sequence(pad_sequence(sequences), [s._a.shape[0] for s in sequences], enforce_sorted=enforce_sorted)
