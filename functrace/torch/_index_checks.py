"""What PyTorch asks of indices, masks, shapes and numbers: more of the table of `_checks`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch._along import outside
from functrace.torch._checks import ALIKE, CHECKS, LinAlgError, alike, c_name, check_of, fits, out_of_range, place_of, wrong
from functrace.torch._contact import value
from functrace.torch._limits import LIMITS, refuse


def guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, after what is asked of its arguments: by its check, and of the dtype of its first one by the table of those."""
    check, words = CHECKS.get(name), ALIKE.get(name)
    kinds = "" if getattr(function, "limits", False) else "".join(LIMITS.get(name, ()))
    if check is None and words is None and not kinds:
        return function

    @functools.wraps(function)
    def careful(*args: Any, **kwargs: Any) -> Any:
        try:  # `suppress` takes longer than most checks
            if words is not None:
                alike(words, (*args, *kwargs.values()))
            if check is not None:
                check(*args, **kwargs)
        except (TypeError, AttributeError):  # arguments of another kind: the operation itself says what is wrong
            pass
        if kinds:
            a = getattr(args[0] if args else kwargs.get("input"), "_a", None)
            if a is not None and a.dtype.kind in kinds:
                refuse(name, a.dtype)
        return function(*args, **kwargs)

    return careful


def _index(name: str, index: Any, what: str = "int32/int64") -> None:
    if index._a.dtype.kind != "i" or index._a.dtype.itemsize < 4:
        wrong(f"{name}(): Expected dtype {what} for index")


def _in_range(index: Any, k: int, n: int, kind: type[Exception] = RuntimeError, prefix: str = "", low: int = 0) -> None:
    a = index._a
    if isinstance(a, np.ndarray) and (a.size and (a.max() >= n or a.min() < low) if low else outside(a, n)):
        bad = a[(a < low) | (a >= n)][0]
        wrong(f"{prefix}index {bad} is out of bounds for dimension {k} with size {n}", kind)


@check_of("gather", "scatter", "scatter_add", "scatter_reduce")
def _grid(name: str, input: Any, dim: int, index: Any, *rest: Any, **_named: Any) -> None:
    x, i = input._a, index._a
    k = place_of(dim, x.ndim)
    if not 0 <= k < max(1, x.ndim):
        return
    _index(name if name != "scatter_add" else "scatter", index)
    if max(i.ndim, 1) != max(x.ndim, 1) and i.size:
        wrong(f"Index tensor must have the same number of dimensions as {'input' if name == 'gather' else 'self'} tensor")
    if rest and hasattr(rest[0], "_a") and rest[0]._a.dtype != x.dtype:
        wrong("scatter(): Expected self.dtype to be equal to src.dtype")
    if rest and hasattr(rest[0], "_a") and i.size and max(i.ndim, 1) != max(rest[0]._a.ndim, 1):
        wrong("Index tensor must have the same number of dimensions as src tensor")
    large = next((j for j, (m, n) in enumerate(zip(i.shape, x.shape)) if j != k and m > n), None) if i.size else None
    if large is None and i.size and rest and hasattr(rest[0], "_a"):
        large = next((j for j, (m, n) in enumerate(zip(i.shape, rest[0]._a.shape or (1,))) if m > n), None)
    if large is not None:
        source = f" and to be no larger size than src {list(rest[0]._a.shape)}" if rest and hasattr(rest[0], "_a") else ""
        what = f"Size does not match at dimension {large} expected index" if name == "gather" else "Expected index"
        wrong(f"{what} {list(i.shape)} to be no larger than self {list(x.shape)} apart from dimension {k}{source}")
    _in_range(index, k, x.shape[k] if x.ndim else 1)


@check_of("index_select")
def _index_select(input: Any, dim: int, index: Any) -> None:
    a, i = input._a, index._a
    if i.ndim > 1:
        wrong("index_select(): Index is supposed to be a vector", IndexError)
    if i.dtype.kind != "i" or i.dtype.itemsize < 4:
        wrong("index_select(): Expected dtype int32 or int64 for index")
    k = place_of(dim, a.ndim)
    if not a.ndim and i.size != 1:
        wrong(f"index_select(): Index to scalar can have only 1 value, got {i.size} value(s)")
    n = 1 if not a.ndim else a.shape[k] if k < a.ndim else 1
    if isinstance(i, np.ndarray) and outside(i, n):
        if a.ndim == 2 and k and not input._rg:
            wrong(f"INDICES element is out of DATA bounds, id={i[(i < 0) | (i >= n)][0]} axis_dim={n}")
        wrong("index out of range in self", IndexError)


_NUMBERS = {
    "index_fill": (IndexError, "index_fill_(): Expected dtype int64 for index."),
    "take_along_dim": (RuntimeError, "torch.take_along_dim(): dtype of indices should be Long but got {}"),
    **{name: (RuntimeError, name + "(): Expected a long tensor for index, but got {}") for name in ("index_copy_", "take", "put_")},
    **{name: (RuntimeError, name + "_(): Expected dtype int32/int64 for index but got: {}") for name in ("index_add", "index_reduce")},
}


def _numbers(name: str, index: Any) -> None:
    """The index is of 64 bits, where this is enough of 32."""
    if index._a.dtype.name != "int64" and (index._a.dtype.name != "int32" or name not in ("index_add", "index_reduce")):
        kind, text = _NUMBERS[name]
        wrong(text.format(index.dtype.scalar), kind)


@check_of("take_along_dim")
def _take_along(_input: Any, indices: Any, *_rest: Any, **_named: Any) -> None:
    _numbers("take_along_dim", indices)


@check_of("index_reduce")
def _index_reduce(input: Any, dim: int, index: Any, *_rest: Any, **_named: Any) -> None:
    _numbers("index_reduce", index)
    k, shape = place_of(dim, input._a.ndim), input._a.shape
    if k < len(shape) and isinstance(index._a, np.ndarray) and outside(index._a, shape[k]):
        wrong("index out of range in self", IndexError)


@check_of("index_add", "index_copy", "index_fill")
def _index_write(name: str, input: Any, dim: int, index: Any, source: Any = None, *_rest: Any, **_named: Any) -> None:
    a, i = input._a, index._a
    _numbers("index_copy_" if name == "index_copy" else name, index)
    k = place_of(dim, a.ndim)
    if not 0 <= k < a.ndim:
        return
    if i.ndim > 1:
        _no_vector(name, index)
    s = getattr(source, "_a", None)
    if name == "index_fill":
        if s is not None and s.ndim:
            wrong(f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {s.ndim} dimension(s).")
    elif s is not None:
        _fits_along(name, a, k, i.size, s)
    kind: type[Exception] = RuntimeError if name == "index_add" else IndexError
    _in_range(index, k, a.shape[k], kind, "index_copy_(): " if name == "index_copy" else "", -a.shape[k] if name == "index_fill" else 0)


def _no_vector(name: str, index: Any) -> None:
    n = index._a.ndim
    if name == "index_fill":
        wrong("Index has to be a vector/scalar")
    if name == "index_copy":
        wrong(f"index_copy_(): Index should have dimension 1 or 0 (got {n})", IndexError)
    found = f"dim: {n} with type: {index.dtype.scalar} and size: {list(index._a.shape)}"
    wrong(f"index_add_(): Index is supposed to be a vector, but got {found}", IndexError)


def _fits_along(name: str, a: Any, k: int, n: int, s: Any) -> None:
    """What is written along axis k has a slice for each of n indices, and slices as the tensor has."""
    if name == "index_add":
        if s.ndim and k >= s.ndim:
            wrong(f"index_add_(): Indexing dim {k} is out of bounds of the source tensor with dim {s.ndim}")
        if n != (s.shape[k] if s.ndim else 1):
            size = f"({s.shape[k]})" if s.ndim else "(1)"
            wrong(f"index_add_(): Number of indices ({n}) should be equal to source.size(dim): {size}, for dim: {k}")
        if s.ndim != a.ndim or (s.shape[:k], s.shape[k + 1 :]) != (a.shape[:k], a.shape[k + 1 :]):
            shapes = f"self.shape = {list(a.shape)} source.shape = {list(s.shape)}"
            wrong(f"source tensor shape must match self tensor shape, excluding the specified dimension. Got {shapes}")
        return
    if not s.ndim and n != 1:
        wrong(f"index_copy_(): When source is scalar, index should have one element (got {n})", IndexError)
    if s.ndim and s.ndim != a.ndim:
        which = f"Source dimensionality ({s.ndim}), destination dimensionality ({a.ndim})"
        wrong(f"index_copy_(): When source and destination are not scalars, their dimensionality must match. {which}", IndexError)
    mine, theirs = (" ".join(map(str, x.shape[:k] + x.shape[k + 1 :])) for x in (a, s))
    if mine != theirs:
        wrong(
            f"index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: {mine} at dimension {k} and "
            f"source slice shape: {theirs} at dimension 0."
        )
    if s.ndim and n != s.shape[k]:
        wrong(f"index_copy_(): Number of indices ({n}) should be equal to source.size(dim) ({s.shape[k]})", IndexError)


@check_of("take", "put")
def _flat_index(name: str, input: Any, index: Any, *rest: Any, **_named: Any) -> None:
    n, i = input._a.size, index._a
    _numbers("put_" if name == "put" else name, index)
    if name == "put" and rest[0]._a.size != i.size:
        found = f"source.numel() = {rest[0]._a.size}, index.numel() = {i.size}"
        wrong(f"put_(): Expected source and index to have the same number of elements, but got {found}", IndexError)
    if name == "put" and i.size and not n:
        wrong("put_(): Tried to put elements into an empty tensor", IndexError)
    bad: Any = i[(i < -n) | (i >= n)] if isinstance(i, np.ndarray) else ()
    if len(bad):
        wrong(f"out of range: tried to access index {bad[0]} on a tensor of {n} elements.", IndexError)


@check_of("narrow")
def _narrow(input: Any, dim: int, start: Any, length: int) -> None:
    if not input._a.ndim:
        wrong("narrow() cannot be applied to a 0-dim tensor.")
    n = input._a.shape[place_of(dim, input._a.ndim)] if -input._a.ndim <= dim < input._a.ndim else None
    if n is None:
        return
    if length < 0:
        wrong("narrow(): length must be non-negative.")
    start = int(start)
    if not -n <= start <= n:
        wrong(f"start out of range (expected to be in range of [{-n}, {n}], but got {start})", IndexError)
    start += n if start < 0 else 0
    if start + length > n:
        wrong(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")


@check_of("masked_scatter")
def _masked_scatter(_input: Any, mask: Any, _source: Any) -> None:
    if mask._a.dtype.kind != "b":
        wrong(f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype.scalar}")


@check_of("masked_fill")
def _masked_fill(input: Any, mask: Any, value: Any) -> None:
    if mask._a.dtype.kind != "b":
        wrong(f"masked_fill_ only supports boolean masks, but got mask with dtype {c_name(mask)}")
    if hasattr(value, "_a") and value._a.ndim:
        wrong(f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value._a.ndim} dimension(s).")
    fits(mask, input)


@check_of("fill")
def _fill(_input: Any, value: Any) -> None:
    if hasattr(value, "_a") and value._a.ndim:
        wrong(f"fill_ only supports 0-dimension value tensor but got tensor with {value._a.ndim} dimensions.")


@check_of("masked_select")
def _masked_select(input: Any, mask: Any) -> None:
    if mask._a.dtype.kind != "b":
        wrong("masked_select: expected BoolTensor for mask")
    fits(mask, input)


@check_of("repeat")
def _repeat(self: Any, *sizes: Any) -> None:
    sizes = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    shape = self._a.shape
    if sizes and len(sizes) < len(shape):
        wrong("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    full = [m * n for m, n in zip(sizes, (1,) * (len(sizes) - len(shape)) + shape)]
    if min(full, default=0) < 0:
        wrong(f"Trying to create tensor with negative dimension {min(full)}: {full}")


@check_of("unflatten")
def _unflatten(input: Any, dim: int, sizes: Any) -> None:
    a = input._a
    if not a.ndim:
        wrong(f"unflatten got an unexpected error:\nDimension specified as {dim} but tensor has no dimensions")
    if not -a.ndim <= dim < a.ndim:
        return
    known = 1
    for s in sizes:
        known *= s if s != -1 else 1
    n = a.shape[dim]
    if known != n and (-1 not in sizes or not known or n % known):
        wrong(f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} ({n}) in the input tensor")


@check_of("meshgrid")
def _meshgrid(*tensors: Any, indexing: str = "ij") -> None:
    tensors = tuple(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    if len({t._a.dtype for t in tensors}) > 1:
        wrong("meshgrid expects all tensors to have the same dtype")
    if indexing not in ("xy", "ij"):
        wrong(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if any(t._a.ndim > 1 for t in tensors):
        wrong("torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got one with more dimensions.")


@check_of("roll")
def _roll(input: Any, shifts: Any, dims: Any = ()) -> None:
    m, n = (len(x) if isinstance(x, (tuple, list)) else 0 if x is None else 1 for x in (shifts, dims))
    if n and m != n:
        wrong(f"shifts and dimensions must align. shifts: {m}, dims:{n}")
    size = max(input._a.ndim, 1)
    for k in (dims if isinstance(dims, (tuple, list)) else (dims,)) if n else ():
        if not -size <= k < size:
            raise out_of_range(k, size)


@check_of("rot90")
def _rot90(input: Any, k: int = 1, dims: Any = (0, 1)) -> None:
    if input._a.ndim < 2:
        wrong(f"expected total dims >= 2, but got total dims = {input._a.ndim}")
    if dims[0] == dims[1]:
        wrong(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")


@check_of("split")
def _split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> None:
    if not tensor._a.ndim:
        wrong("split expects at least a 1-dimensional tensor")
    size, n = split_size_or_sections, tensor._a.shape[dim] if -tensor._a.ndim <= dim < tensor._a.ndim else 0
    if isinstance(size, int):
        if size < 0:
            wrong(f"split expects split_size be non-negative, but got split_size={size}")
        if size == 0 and n:
            wrong(f"split_size can only be 0 if dimension size is 0, but got dimension size of {n}")


@check_of("chunk")
def _chunk(input: Any, chunks: int, dim: int = 0) -> None:
    if not input._a.ndim:
        wrong("chunk expects at least a 1-dimensional tensor")
    if chunks < 1:
        wrong(f"chunk expects `chunks` to be greater than 0, got: {chunks}")


@check_of("svd", "pinverse", *(f"linalg_{name}" for name in ("svd", "svdvals", "pinv", "matrix_rank", "lstsq", "cond")))
def _finite(_name: str, input: Any, *_rest: Any, **_named: Any) -> None:
    """LAPACK may never return from infinities."""
    if input._a.ndim < 2:
        wrong(f"linalg.svd: input should have at least 2 dimensions, but has {input._a.ndim} dimensions instead")
    good = np.isfinite(value(input._a)).all((-2, -1))
    if not good.all():
        where = f"(Batch element {int(np.argmin(good))}): " if good.ndim else ""
        why = "The algorithm failed to converge because the input matrix contained non-finite values."
        raise LinAlgError(f"linalg.svd: {where}{why}")
