"""`torch.utils.data`: data sets, samplers, and loaders of batches, which draw the same orders as PyTorch's from the same seed.

A loader works in the calling process: `num_workers` makes no difference to the batches of a data set that has an order. Where it would,
each worker having a stream or a seed of its own, it is taken with a warning.
"""

from __future__ import annotations

import bisect
import copy
import itertools
import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from types import SimpleNamespace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from functrace.torch import _random
from functrace.torch._create import as_tensor, tensor
from functrace.torch._dtypes import float64, warn
from functrace.torch._index import stack
from functrace.torch._missing import Pickled, as_of, missing, names
from functrace.torch._tensor import Tensor, wrap

T_co = TypeVar("T_co", covariant=True)


class _Indexed(Protocol[T_co]):
    """What a loader takes for a data set: a list, too."""

    def __getitem__(self, index: Any, /) -> T_co: ...


class Dataset(Pickled, Generic[T_co]):
    """The base of data sets with `__getitem__` and, for most uses, `__len__`."""

    _found_in = "functrace.torch.utils.data"

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Any) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """The base of data sets with `__iter__` only."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Any) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class ChainDataset(IterableDataset[Any]):
    """Streams one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors of one length; an example is a tuple of their rows."""

    def __init__(self, *tensors: Any) -> None:
        if any(len(t) != len(tensors[0]) for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class StackDataset(Dataset[Any]):
    """Data sets of one length, side by side: examples are tuples, or dicts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            both = "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, but both types are given."
            raise ValueError(both)
        self.datasets: Any = kwargs or args
        lengths = {len(d) for d in (kwargs.values() if kwargs else args)}
        if len(lengths) != 1:
            raise ValueError("Size mismatch between datasets" if lengths else "At least one dataset should be passed")
        self._length = lengths.pop()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {k: d[index] for k, d in self.datasets.items()}
        return tuple(d[index] for d in self.datasets)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[Any]):
    """Data sets one after another."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        k = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[k][index - (self.cumulative_sizes[k - 1] if k else 0)]


class Subset(Dataset[T_co]):
    """Some examples of a data set."""

    def __init__(self, dataset: _Indexed[T_co], indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> T_co:
        return self.dataset[[self.indices[i] for i in index] if isinstance(index, list) else self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Dataset[T_co], lengths: Sequence[float], generator: Any = None) -> list[Subset[T_co]]:
    """A data set in parts at random; the lengths are numbers of examples, or fractions of the whole."""
    total = len(dataset)  # type: ignore[arg-type]
    sizes: list[Any] = list(lengths)
    if math.isclose(sum(sizes), 1) and sum(sizes) <= 1:
        for k, part in enumerate(sizes):
            if not 0 <= part <= 1:
                raise ValueError(f"Fraction at index {k} is not between 0 and 1")
        sizes = [math.floor(total * part) for part in sizes]
        for k in range(total - sum(sizes)):
            sizes[k % len(sizes)] += 1
        for k, n in enumerate(sizes):
            if n == 0:
                warn(f"Length of split at index {k} is 0. This might result in an empty dataset.")
    if sum(sizes) != total:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = (generator or _random.default_generator).permutation(total).tolist()
    return [Subset(dataset, order[end - n : end]) for end, n in zip(itertools.accumulate(sizes), sizes)]


# samplers


def _seed(generator: Any = None) -> int:
    """A seed as PyTorch draws it: 63 bits."""
    return int((generator or _random.default_generator).doublewords(1)[0]) & ((1 << 63) - 1)


class Sampler:
    """The base of samplers: an iterator over numbers of examples."""

    def __init__(self, data_source: Any = None) -> None:
        pass

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError


class SequentialSampler(Sampler):
    """In order."""

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """In random order; with `replacement`, or `num_samples` of them."""

    def __init__(self, data_source: Any, replacement: bool = False, num_samples: int | None = None, generator: Any = None) -> None:
        if num_samples is not None and (not isinstance(num_samples, int) or num_samples <= 0):
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.data_source, self.replacement, self._num_samples, self.generator = data_source, replacement, num_samples, generator
        if not self.num_samples:
            raise ValueError("num_samples should be a positive integer value, but got num_samples=0")

    @property
    def num_samples(self) -> int:
        """How many numbers there will be."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, wanted = len(self.data_source), self.num_samples
        source = self.generator or _random.Generator().manual_seed(_seed())
        if self.replacement:
            if not n:
                raise RuntimeError("random_ expects 'from' to be less than 'to', but got from=0 >= to=0")
            for _ in range(wanted // 32):
                yield from source.below(0, n, 32).tolist()
            yield from source.below(0, n, wanted % 32).tolist()
            return
        for _ in range(wanted // n):
            yield from source.permutation(n).tolist()
        yield from source.permutation(n).tolist()[: wanted % n]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """Given numbers in random order."""

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        for k in (self.generator or _random.default_generator).permutation(len(self.indices)).tolist():
            yield self.indices[k]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Numbers drawn with given weights."""

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True, generator: Any = None) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = as_tensor(weights, dtype=float64)
        if self.weights.ndim != 1:
            raise ValueError(f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}")
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        yield from self.weights.multinomial(self.num_samples, self.replacement, generator=self.generator).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """The numbers of another sampler in lists of one length."""

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        numbers = iter(self.sampler)
        while batch := list(itertools.islice(numbers, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


# loaders


def _in(like: Any, items: dict[Any, Any] | list[Any]) -> Any:
    """The items in a container of a kind, in a plain one where its class can't be made of them."""
    try:
        if not isinstance(like, (MutableMapping, MutableSequence)):
            return type(like)(items)
        found = copy.copy(like)
        for key, x in items.items() if isinstance(items, dict) else enumerate(items):
            found[key] = x
        return found
    except TypeError:
        return items


def default_collate(batch: Sequence[Any]) -> Any:
    """Examples as one batch: tensors and numbers are stacked, containers keep their form."""
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(list(batch), 0)
    if isinstance(first, (np.ndarray, np.generic)):
        if first.dtype.kind in "SUO":
            raise TypeError(f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {first.dtype}")
        return stack([as_tensor(np.asarray(x)) for x in batch], 0) if first.shape else as_tensor(np.asarray(batch))
    if isinstance(first, float):
        return tensor(list(batch), dtype=float64)
    if isinstance(first, int):
        return tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _in(first, {k: default_collate([x[k] for x in batch]) for k in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(column) for column in zip(*batch)))
    if isinstance(first, Sequence):
        if any(len(x) != len(first) for x in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [default_collate(column) for column in zip(*batch)]
        return columns if isinstance(first, tuple) else _in(first, columns)
    raise TypeError(f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}")


def default_convert(data: Any) -> Any:
    """Arrays as tensors, containers keep their form."""
    if isinstance(data, (np.ndarray, np.generic)) and data.dtype.kind not in "SUO":
        return as_tensor(np.asarray(data))
    if isinstance(data, Mapping):
        return _in(data, {k: default_convert(x) for k, x in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if not isinstance(data, Sequence) or isinstance(data, (str, bytes)):
        return data
    items = [default_convert(x) for x in data]
    return items if isinstance(data, tuple) else _in(data, items)


def _rows(dataset: Any, numbers: Sequence[int]) -> list[Any] | None:
    """The batch of a `TensorDataset`, or a subset of one, by one index for each tensor: what collating its examples gives."""
    while type(dataset) is Subset:
        dataset, numbers = dataset.dataset, [dataset.indices[k] for k in numbers]
    if type(dataset) is not TensorDataset or any(t._rg or type(t) is not Tensor for t in dataset.tensors):
        return None
    places = list(map(operator.index, numbers))
    return [wrap(t._a[places]) for t in dataset.tensors]


def _check_workers(num_workers: int, timeout: float, prefetch: Any, persistent: bool, context: Any) -> None:
    if min(num_workers, timeout) < 0:
        remedy = "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
        raise ValueError(remedy if num_workers < 0 else "timeout option should be non-negative")
    if num_workers:
        return
    if prefetch is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable multiprocessing, otherwise "
            "set prefetch_factor to None."
        )
    if persistent:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if context is not None:
        raise ValueError("multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got num_workers=0")


_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class DataLoader(Generic[T_co]):
    """Batches of a data set, in order or shuffled.

    >>> import functrace.torch as torch
    >>> from functrace.torch.utils.data import DataLoader
    >>> list(DataLoader([1.0, 2.0, 3.0], batch_size=2))
    [tensor([1., 2.], dtype=torch.float64), tensor([3.], dtype=torch.float64)]
    """

    def __init__(
        self,
        dataset: _Indexed[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Any = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context)
        streamed = isinstance(dataset, IterableDataset)
        if num_workers and (streamed or worker_init_fn is not None):
            warn(f"DataLoader: functrace.torch loads in the calling process; num_workers={num_workers} is ignored.")
        for name, x in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler)) if streamed else ():
            if x is not None:
                raise ValueError(f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={x}")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
        if batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None and not streamed:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        self.dataset, self.sampler, self.generator, self.drop_last = dataset, sampler, generator, drop_last
        self.num_workers, self.pin_memory, self.timeout, self.worker_init_fn = num_workers, pin_memory, timeout, worker_init_fn
        self.prefetch_factor, self.persistent_workers, self.in_order = prefetch_factor, persistent_workers, in_order
        self.pin_memory_device, self.multiprocessing_context = pin_memory_device, multiprocessing_context
        self.batch_size = None if batch_sampler is not None else batch_size
        self.batch_sampler = batch_sampler
        if batch_sampler is None and batch_size is not None:
            self.batch_sampler = BatchSampler(itertools.repeat(None) if streamed else sampler, batch_size, drop_last)
        self.collate_fn: Callable[[Any], Any] = collate_fn or (default_collate if self.batch_sampler is not None else default_convert)
        self._initialized = True

    def __setattr__(self, name: str, value: Any) -> None:
        if "_initialized" in self.__dict__ and name in _FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.dataset, IterableDataset):
            _seed(self.generator)
            return _SingleProcessDataLoaderIter(self, map(self.collate_fn, self._batched(iter(self.dataset))))
        numbers = iter(self.sampler if self.batch_sampler is None else self.batch_sampler)
        _seed(self.generator)  # PyTorch draws a seed for its workers here, before its own samplers draw
        return _SingleProcessDataLoaderIter(self, self._batches(numbers))

    def _batched(self, examples: Any) -> Any:
        """A stream, in batches if there are any."""
        return examples if self.batch_size is None else BatchSampler(examples, self.batch_size, self.drop_last)

    def _batches(self, sampled: Any) -> Iterator[Any]:
        if self.batch_sampler is None:
            yield from (self.collate_fn(self.dataset[k]) for k in sampled)
            return
        whole = getattr(self.dataset, "__getitems__", None)
        plain = self.collate_fn is default_collate
        for numbers in sampled:
            rows = _rows(self.dataset, numbers) if plain else None
            yield rows if rows is not None else self.collate_fn(whole(numbers) if whole else [self.dataset[k] for k in numbers])

    def __len__(self) -> int:
        if isinstance(self.dataset, IterableDataset):
            return len(self._batched(self.dataset))
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)


class _BaseDataLoaderIter(Iterator[Any]):
    """One pass through a loader."""

    def __init__(self, loader: Any, batches: Iterator[Any]) -> None:
        self._loader, self._batches = loader, batches

    def __next__(self) -> Any:
        return next(self._batches)

    def __len__(self) -> int:
        return len(self._loader)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """The one that there is."""


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """The one that there is not."""


def get_worker_info() -> None:
    """None: all is loaded in the calling process."""


dataloader = dataset = sampler = sys.modules[__name__]  # PyTorch has a module for each; scripts import from them
_utils = SimpleNamespace(collate=dataloader)
_collate_fn_t = Callable[[list[Any]], Any]  # which packages import
__getattr__ = missing("torch.utils.data", names(distributed="DistributedSampler"))


as_of("torch.utils.data.dataset", Dataset, IterableDataset, ChainDataset, TensorDataset, StackDataset, ConcatDataset, Subset)
as_of("torch.utils.data.sampler", Sampler, SequentialSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler, BatchSampler)
as_of("torch.utils.data.dataloader", DataLoader, _SingleProcessDataLoaderIter)
