"""Indexing, assignment, and joining."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from functrace.torch import _dtypes
from functrace.torch._apply import call
from functrace.torch._contact import Tracer, at_axis, fit
from functrace.torch._dtypes import Size, warn
from functrace.torch._engine import node_class
from functrace.torch._layout import as_image, channels_last, in_order
from functrace.torch._modes import recording
from functrace.torch._nodes import Op, RuleNode, fit_tensor
from functrace.torch._ops import public
from functrace.torch._shape import ALIAS, COPY, FILL, INDEX, INDEX_PUT, SELECT, SLICE, alike, reshaped, select_at, to, unsqueeze
from functrace.torch._shape import axis as axis_of
from functrace.torch._tensor import Tensor, wrap
from functrace.torch._views import apart, check_expands, inplace, opened, type_name, written_to

_BOUND = (int, type(None))
_BASIC = (int, slice)
_PLAIN = (*_BASIC, type(None), type(...))
_PARTS = (slice, type(...), type(None), list, tuple, Tensor, np.ndarray)


_NO_SLICE = "slice() cannot be applied to a 0-dim tensor."
_NO_AXES = (
    "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim tensor to a number"
)


def _key(x: Any, index: Any) -> tuple[Any, Any]:
    """The view that the slices and integers of an index make, and an index with arrays into that, or None."""
    single = not isinstance(index, tuple)
    if not (x._rg and recording()) and isinstance(x._a, np.ndarray) and all(map(_is_plain, (index,) if single else index)):
        try:  # nothing is recorded, so one view will do
            return call(SLICE, (x,), ((index, ...) if single else (*index, ...),)), None
        except IndexError:  # of which PyTorch's words are below
            pass
    if isinstance(index, list) and len(index) < 32 and any(isinstance(i, _PARTS) for i in index):  # as PyTorch takes it
        index, single = tuple(index), False
    parts = (index,) if single else index
    parts = tuple([p if p.__class__ in _PLAIN else _as_index(p) for p in parts])
    taken = 0
    for p in parts:
        taken += 1 if p.__class__ in _BASIC else _taken(p)
    ndim, removed = x._a.ndim, 0
    if taken > ndim:
        if single and not isinstance(parts[0], (Tensor, np.ndarray)):
            raise IndexError(_NO_SLICE if isinstance(parts[0], slice) else _NO_AXES)
        raise IndexError(f"too many indices for tensor of dimension {ndim}")
    out, k = x, 0
    arrays: dict[int, Any] = {}
    for p in parts:
        if isinstance(p, builtins.bool):
            out = unsqueeze(out, k)
            arrays[k] = np.array([p])
            k += 1
        elif isinstance(p, int):
            out = select_at(out, k, p, removed)
            removed += 1
        elif isinstance(p, slice):
            out = _slice(out, k, p, single)
            k += 1
        elif p is None:
            out = unsqueeze(out, k)
            k += 1
        elif p is Ellipsis:
            k += ndim - taken
        else:
            arrays[k] = p
            k += max(1, p.ndim) if p.dtype == np.bool_ else 1
    if not arrays:
        return (call(ALIAS, (x,), (Ellipsis,)) if out is x else out), None
    full: list[Any] = []
    for j in range(k):
        if j in arrays:
            full.append(arrays[j])
        elif not any(i < j < i + a.ndim for i, a in arrays.items() if a.dtype == np.bool_):
            full.append(slice(None))
    return out, tuple(full)


def _picked_shape(shape: tuple[int, ...], index: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape of what an index with arrays picks."""
    try:
        return np.broadcast_to(np.empty((), np.bool_), shape)[index].shape  # type: ignore[no-any-return]
    except IndexError as error:
        if "broadcast" not in str(error):
            _check_arrays(shape, index)
            raise
        parts = [np.nonzero(p) if p.dtype == np.bool_ else (p,) for p in index if not isinstance(p, slice)]
        shapes = ", ".join(str(list(p.shape)) for part in parts for p in part)
        raise IndexError(f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}") from None


def _check_arrays(shape: tuple[int, ...], index: Sequence[Any]) -> None:
    k = place = 0  # the axis, and its number among those with arrays, which PyTorch moves to the front
    for p in index:
        if isinstance(p, slice):
            k += 1
        elif p.dtype == np.bool_:
            masked = shape[k : k + p.ndim]
            if p.shape != masked:
                j = next((j for j, n in enumerate(masked) if n != p.shape[j]), len(masked))
                raise IndexError(
                    f"The shape of the mask {list(p.shape)} at index {j} does not match the shape of the indexed tensor "
                    f"{list(shape)} at index {k + j}"
                )
            k, place = k + p.ndim, place + p.ndim
        else:
            n = shape[k]
            bad: Any = p[(p < -n) | (p >= n)] if isinstance(p, np.ndarray) else ()
            if len(bad):
                where = f"index {bad[0]} is out of bounds for dimension {place} with size {n}"
                raise IndexError(where if n else "index is out of bounds for dimension with size 0")
            k, place = k + 1, place + 1


def _as_index(p: Any) -> Any:
    if isinstance(p, (builtins.bool, slice)) or p is None or p is Ellipsis:
        return p
    if isinstance(p, (int, np.integer)):
        return int(p)
    if isinstance(p, Tensor):
        p = p._a
        if p.dtype.kind not in "iub" or (p.dtype.char in "bh" and p.ndim):
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        if p.dtype == np.uint8:  # a mask
            if p.ndim:
                warn("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.")
            p = p != 0
        return p.item() if not p.ndim and not isinstance(p, Tracer) else p
    if isinstance(p, (list, tuple, range, np.ndarray)):
        a = np.asarray([int(i) if isinstance(i, Tensor) else i for i in p] if not isinstance(p, np.ndarray) else p)
        if a.dtype.kind in "US":
            raise TypeError("new(): invalid data type 'str'")
        return a.item() if not a.ndim else a.astype(np.int64) if not a.size and a.dtype.kind == "f" else a.copy() if a is p else a
    if isinstance(p, str):
        raise TypeError("new(): invalid data type 'str'")
    raise IndexError(
        f"only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {type(p).__name__})"
    )


def _is_plain(p: Any) -> builtins.bool:
    return type(p) is int or p is None or (type(p) is slice and p.step is None and type(p.start) in _BOUND and type(p.stop) in _BOUND)


def _taken(p: Any) -> int:
    if p is None or p is Ellipsis or isinstance(p, builtins.bool):
        return 0
    return p.ndim if isinstance(p, np.ndarray) and p.dtype == np.bool_ else 1


def _slice(x: Any, k: int, s: slice, single: builtins.bool) -> Any:
    if not x._a.ndim:
        raise IndexError(_NO_SLICE)
    if not _is_plain(s):
        if s.step is not None and int(s.step) <= 0:
            raise ValueError("step must be greater than zero" if s.step else "slice step cannot be zero")
        try:
            s = slice(*(None if v is None else operator.index(v) for v in (s.start, s.stop, s.step)))
        except TypeError as error:
            if "tensors" in str(error):
                raise
            raise TypeError("slice indices must be integers or None or have an __index__ method") from None
    n = x._a.shape[k]
    start, stop, step = s.indices(n)
    if not single and (start, stop, step) == (0, n, 1):
        return x
    return call(SLICE, (x,), (at_axis(k, slice(start, max(start, stop), step)),))


def _sources(index: Any) -> list[Any]:
    return [p for p in (index if isinstance(index, (tuple, list)) else (index,)) if isinstance(p, Tensor)]


def getitem(self: Any, index: Any) -> Any:
    """`x[index]`: views for integers and slices, copies for tensors, lists and masks."""
    if type(index) is int:
        if not self._a.ndim:
            raise IndexError(_NO_AXES)
        return select_at(self, 0, index)
    part, arrays = _key(self, index)
    if arrays is None:
        return part
    if part._a.__class__ is not np.ndarray:
        _check_arrays(part._a.shape, arrays)
    try:
        return call(INDEX, (part,), (arrays,), _sources(index))
    except IndexError:
        if not any(isinstance(p, Tracer) for p in arrays):
            _picked_shape(part._a.shape, arrays)  # says in PyTorch's words what is wrong
        raise


def setitem(self: Any, index: Any, value: Any) -> None:
    """`x[index] = value`, which becomes part of `x`'s history."""
    part, arrays = _key(self, index)
    if arrays is not None:
        _check_arrays(part._a.shape, arrays)
    if part._a.shape == self._a.shape:  # all of it, which is no view
        part = self
    if not isinstance(value, Tensor):
        value = _constant(self, value)
    elif arrays is None and value._a.shape != part._a.shape:
        value = apart(value, part)
    target = None
    if arrays is None or value._a.ndim or sum(not isinstance(p, slice) for p in arrays) > 1:
        target = part._a.shape if arrays is None else _picked_shape(part._a.shape, arrays)
        extra = value._a.ndim - len(target)
        if extra > 0 and all(n == 1 for n in value._a.shape[:extra]):
            value = reshaped(value, value._a.shape[extra:])
    if arrays is None:
        check_expands(value, part._a.shape)
        inplace(FILL[3] if part._a.ndim and not value._a.ndim else COPY, part, (value,))
        return
    if target is not None:
        try:
            np.broadcast_to(value._a, target)
        except ValueError:
            given = list(value._a.shape)
            raise RuntimeError(
                f"shape mismatch: value tensor of shape {given} cannot be broadcast to indexing result of shape {list(target)}"
            ) from None
    if value._a.dtype != part._a.dtype and value._a.size == 1 and [p.dtype.kind for p in arrays if hasattr(p, "dtype")] == ["b"]:
        value = value.to(part.dtype)
    elif value._a.dtype != part._a.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, "
            f"got {part.dtype.scalar} for the destination and {value.dtype.scalar} for the source."
        )
    if not value._a.ndim and isinstance(value._a, np.ndarray) and isinstance(part._a, np.ndarray) and not opened(part, (value,)):
        part._a[arrays] = value._a
        part._ver[0] += 1
    else:
        inplace(INDEX_PUT, part, (value,), (arrays,), _sources(index))


def _constant(x: Any, value: Any) -> Any:
    """A number as a tensor of the dtype of the tensor that it is assigned to."""
    if not isinstance(value, (builtins.bool, int, float, complex)):
        raise TypeError(f"can't assign a {type_name(value)} to a {x.type()}")
    return wrap(_dtypes.held(value, x._a.dtype))


public(getitem, "__getitem__", torch=False)
public(setitem, "__setitem__", torch=False)


# joining


def _joined(a: Any, *arrays: Any) -> Any:
    return as_image(a, arrays[0]) if a.ndim == 4 and all(map(channels_last, arrays)) else in_order(a)


class _Part(RuleNode):
    """The node of a join: each argument gets what lies in its place."""

    op: _Join

    def backward(self, g: Any, edges: Sequence[Any]) -> Sequence[Any]:
        args, _, (axis,), _ = self.opened()
        parts = zip(edges, args, self.op.places(args, axis))
        return [None if e is None else d if (d := g[at]).dtype is x.dtype and d.shape == x.shape else fit(d, x) for e, x, at in parts]

    def restate(self, g: Any, edges: Sequence[Any]) -> Sequence[Any]:
        args, _, (axis,), _ = self.opened()
        parts = zip(edges, args, self.op.places(args, axis))
        return [None if e is None else fit_tensor(call(self.op.view_of, (g,), (at,)), x) for e, x, at in parts]


class _Join(Op):
    """A row of any number of arrays: `places` gives where in the result each of them is."""

    def __init__(self, node: str, fun: Callable[..., Any], places: Callable[..., Iterator[Any]], view_of: Op) -> None:
        super().__init__(node, lambda *args: fun(args[:-1], axis=args[-1]), (), frees=False, lies=_joined)
        self.places, self.view_of, self.looks = places, view_of, [(False, False)]
        self.node = self.complex_node = node_class(self.name, _Part, self, op=self, frees=False)

    def seen_by(self, wanted: int) -> tuple[bool, list[int], list[int]]:
        """That nothing is looked into but shapes."""
        return False, [], list(range(wanted.bit_length() - 1))


def _one_after_another(arrays: Sequence[Any], axis: int) -> Iterator[Any]:
    end = 0
    for a in arrays:
        start, end = end, end + a.shape[axis]
        yield at_axis(axis, slice(start, end))


def _side_by_side(arrays: Sequence[Any], axis: int) -> Iterator[Any]:
    return ((*(slice(None),) * axis, k, ...) for k in range(len(arrays)))


def _piled(arrays: Sequence[Any], axis: int) -> Any:
    """`np.stack` of arrays known to be of one shape."""
    for a in arrays:
        if a.__class__ is not np.ndarray:
            return np.stack(arrays, axis)
    new = at_axis(axis, None)
    return np.concatenate([a[new] for a in arrays], axis)


CAT = _Join("Cat", np.concatenate, _one_after_another, SLICE)
STACK = _Join("Stack", _piled, _side_by_side, SELECT)


@public
def cat(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Tensors one after another along an axis."""
    tensors = _checked("cat", tensors)
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    n = tensors[0]._a.ndim
    for x in tensors:
        if not n or x._a.ndim != n:
            tensors = _of_one_rank(tensors)
            break
    d = axis_of(dim, tensors[0]._a.ndim)
    try:
        joined = call(CAT, alike(tensors), (d,))
    except ValueError:
        first = tensors[0]._a.shape
        for i, x in enumerate(tensors):
            for k, m in enumerate(first):
                if k != d and x._a.shape[k] != m:
                    raise RuntimeError(
                        f"Sizes of tensors must match except in dimension {d}. Expected size {m} but got size "
                        f"{x._a.shape[k]} for tensor number {i} in the list."
                    ) from None
        raise
    return joined if out is None else written_to("cat", out, joined)


def _of_one_rank(tensors: Sequence[Any]) -> Sequence[Any]:
    """The tensors without those of shape (0,), which count for nothing but their dtype."""
    for k, x in enumerate(tensors):
        if not x._a.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {k}) cannot be concatenated")
    kept = [x for x in tensors if x._a.shape != (0,)]
    n = kept[0]._a.ndim
    for x in kept:
        if x._a.ndim != n:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {n} and {x._a.ndim}")
    kind = _dtypes.result_type(*tensors)
    return [to(x, kind) for x in kept]


for _name in ("concat", "concatenate"):
    public(cat, _name, method=False)


def _checked(name: str, tensors: Any) -> list[Any]:
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type(tensors).__name__}")
    for k, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            raise TypeError(f"expected Tensor as element {k} in argument 0, but got {type_name(x)}")
    return list(tensors)


@public
def stack(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Tensors of one shape along a new axis."""
    tensors = _checked("stack", tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    for i, x in enumerate(tensors):
        if x._a.shape != tensors[0]._a.shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(tensors[0]._a.shape)} at entry 0 and "
                f"{list(x._a.shape)} at entry {i}"
            )
    joined = call(STACK, alike(tensors), (axis_of(dim, tensors[0]._a.ndim + 1),))
    return joined if out is None else written_to("stack", out, joined)


def _at_least(n: int) -> Callable[..., Any]:
    def function(*tensors: Any) -> Any:
        alone = len(tensors) == 1 and not isinstance(tensors[0], (tuple, list))
        out = []
        for x in tensors if alone or len(tensors) != 1 else tensors[0]:
            if not x._a.ndim:
                x = x.reshape((1,) * n)
            while x._a.ndim < n:
                x = unsqueeze(x, 0 if x._a.ndim < 2 else -1)
            out.append(x)
        return out[0] if alone else tuple(out)

    return function


for _n in (1, 2, 3):
    public(_at_least(_n), f"atleast_{_n}d", method=False)


def _stacked(name: str, part: Callable[[Any], Any], axis: int) -> None:
    def function(tensors: Any) -> Any:
        if not (tensors := _checked(name, tensors)):
            raise RuntimeError(f"{name.replace('row_', 'v')} expects a non-empty TensorList")
        return cat(list(map(part, tensors)), 0 if name == "hstack" and tensors[0]._a.ndim < 2 else axis)

    public(function, name, method=False)


_stacked("hstack", _at_least(1), 1)
_stacked("vstack", _at_least(2), 0)
_stacked("row_stack", _at_least(2), 0)
_stacked("dstack", _at_least(3), 2)
_stacked("column_stack", lambda x: x if x._a.ndim > 1 else x.reshape(-1, 1), 1)


@public
def size(self: Any, dim: int | None = None) -> Any:
    """The shape, or one of its entries."""
    if dim is not None and not self._a.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return Size(self._a.shape) if dim is None else self._a.shape[axis_of(dim, self._a.ndim)]
