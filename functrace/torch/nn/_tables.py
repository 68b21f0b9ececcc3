"""Rows of tables: embeddings, bags of them, and one-hot rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.torch._along import outside
from functrace.torch._apply import call
from functrace.torch._bind import bound
from functrace.torch._contact import alike, in_floats, index_add, read, unread, value
from functrace.torch._dtypes import kind_of
from functrace.torch._layout import in_order
from functrace.torch._nodes import Op
from functrace.torch._tensor import Tensor, wrap
from functrace.torch.autograd.function import is_pushing
from functrace.torch.nn import _losses


def _unembed(g: Any, _r: Any, _w: Any, index: Any, padding: int | None) -> Any:
    if padding is not None and not is_pushing():  # its tangents count
        g = np.where((index != padding)[..., None], g, np.zeros((), g.dtype))
    return unread(g, None, _w, (index,))


_EMBEDDING = _losses.indexed("Embedding", lambda w, index, _padding: read(w, (index,)), _unembed, 1, alone=True, flat=True)


def _numbered(input: Any, name: str) -> None:
    if input._a.dtype not in (np.int64, np.int32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{kind_of(input._a.dtype)} instead (while checking arguments for {name})"
        )


def _shorten(weight: Any, index: Any, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are used and longer than `max_norm` down to it, in place."""
    used = np.unique(index)
    norms = np.linalg.norm(weight._a[used], norm_type, axis=1)
    long = norms > max_norm
    weight._a[used[long]] *= (max_norm / (norms[long] + 1e-7))[:, None].astype(weight._a.dtype)
    weight._ver[0] += 1


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """The rows of `weight` that `input` names; the row `padding_idx` gets no gradient."""
    if scale_grad_by_freq or sparse:
        raise NotImplementedError("embedding: scale_grad_by_freq=True and sparse=True are not in functrace.torch: leave them False.")
    if weight._a.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    _numbered(input, "embedding")
    rows, plain = weight._a.shape[0], value(input._a)
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    if outside(plain, rows):
        raise IndexError("index out of range in self")
    if max_norm is not None:
        _shorten(weight, plain, max_norm, norm_type)
    return _EMBEDDING(weight, (input,), (None if padding_idx is None else padding_idx % rows,))


@in_floats
def _bagged(weight: Any, samples: Any, index: Any, bag: Any, n: int, mode: str) -> Any:
    rows = read(weight, (index,)) if samples is None else weight[index] * samples[:, None]
    if mode == "max":
        width = weight.shape[1]
        bags = [np.flatnonzero(bag == k) for k in range(n)]
        first = np.stack([read(m, np.argmax(rows[m], axis=0)) if m.size else np.zeros(width, int) for m in bags])
        full = np.isin(np.arange(n), bag)[:, None]
        return np.where(full, rows[first, np.arange(width)], 0).astype(rows.dtype) if len(index) else np.zeros((n, width), weight.dtype)
    total = np.zeros((n, weight.shape[1]), rows.dtype)
    if type(rows) is np.ndarray and rows.size:
        starts = np.flatnonzero(np.diff(bag, prepend=-1))  # bags are in order
        total[bag[starts]] = np.add.reduceat(rows, starts, axis=0)
    else:
        total = index_add(total, rows, (bag,))
    return total if mode == "sum" else total / _filling(bag, n, rows.dtype)


def _filling(bag: Any, n: int, dtype: Any) -> Any:
    return np.maximum(np.bincount(bag, minlength=n), 1)[:, None].astype(dtype)


def _unbag(g: Any, _r: Any, _w: Any, index: Any, bag: Any, n: int, mode: str) -> Any:
    return _unembed((g if mode == "sum" else g / _filling(bag, n, g.dtype))[bag], None, _w, index, None)


_BAGS = bound("embedding_bag", "EmbeddingBag", _bagged)
_EVEN_BAGS = Op("EmbeddingBag", lambda w, *how: _bagged(w, None, *how), [_unbag], frees=True, flat=True)


def _check_bags(input: Any, offsets: Any, mode: str, per_sample_weights: Any) -> None:
    shape = input._a.shape
    if per_sample_weights is not None and per_sample_weights._a.shape != shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the same shape as the input "
            f"({input.shape})"
        )
    if len(shape) not in (1, 2):
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {len(shape)}")
    if len(shape) == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. However, found "
            f"offsets of type {type(offsets)}"
        )
    if len(shape) == 1 and (not isinstance(offsets, Tensor) or offsets._a.ndim != 1):
        raise ValueError("offsets has to be a 1D Tensor" + ("" if isinstance(offsets, Tensor) else f" but got {offsets}"))
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got mode="
            f"'{mode}'). Please open a feature request on GitHub."
        )


def _bag_sizes(shape: tuple[int, ...], offsets: Any, include_last_offset: bool) -> Any:
    """How many indices each bag has."""
    if offsets is None:
        return np.full(shape[0], shape[1])
    starts, size = alike(offsets._a, "embedding_bag"), shape[0]
    if include_last_offset and not starts.size:
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    if starts.size and starts[0]:
        raise RuntimeError(
            f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {starts[0]}"
        )
    if starts.size and starts[-1] > size:
        raise RuntimeError(f"offsets[-1] can not be greater than input's length {size} but got offsets[-1] of {starts[-1]}")
    counts = np.diff(starts if include_last_offset else np.append(starts, size))
    if (counts < 0).any():
        raise RuntimeError(f"embedding_bag: offsets must not decrease, but got {starts.tolist()}")
    return counts


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Sums, means or maxima of rows of `weight`: of those that each row of `input` names, or each part of it, which begin at `offsets`."""
    if scale_grad_by_freq or sparse:
        raise NotImplementedError("embedding_bag: scale_grad_by_freq=True and sparse=True are not in functrace.torch: leave them False.")
    _check_bags(input, offsets, mode, per_sample_weights)
    for t in (input, offsets):
        if t is not None:
            _numbered(t, "embedding_bag")
    index, rows = alike(input._a, "embedding_bag").ravel(), weight._a.shape[0]
    counts = _bag_sizes(input._a.shape, offsets, include_last_offset)
    n = len(counts)
    wrong = np.flatnonzero((index < 0) | (index >= rows))
    if wrong.size:
        raise RuntimeError(f"Index {wrong[0]} of input takes value {index[wrong[0]]} which is not in the valid range [0, {rows})")
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise RuntimeError(f"padding_idx must be within the number of embeddings, -{rows} through {rows - 1}, but got {padding_idx}")
    if max_norm is not None:
        _shorten(weight, index, max_norm, norm_type)
    bag = np.repeat(np.arange(n), counts.astype(np.intp, copy=False))
    kept = np.flatnonzero(index[: bag.size] != (-1 if padding_idx is None else padding_idx % rows))
    samples = None if per_sample_weights is None else per_sample_weights.reshape(-1)[wrap(kept)]
    how = index[kept], bag[kept], n, mode
    return _BAGS(weight, samples, *how) if mode == "max" or samples is not None else call(_EVEN_BAGS, (weight,), how)


def one_hot(input: Any, num_classes: int = -1) -> Any:
    """Rows of the identity matrix."""
    a = input._a
    if a.dtype != np.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if not a.size and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    if a.size and a.min() < 0:
        raise RuntimeError("Class values must be non-negative.")
    if num_classes != -1 and a.size and a.max() >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    n = int(a.max()) + 1 if num_classes < 0 else num_classes
    return wrap(in_order((a[..., None] == np.arange(n)).astype(np.int64)))
