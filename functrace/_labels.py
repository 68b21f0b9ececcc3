"""Arrays with labels: pandas' Series and DataFrame, xarray's DataArray and Dataset, as pytrees of the arrays in them.

Imported when the first of them is met. Flattening gives the arrays; unflattening arrays of the same shapes gives them their labels back,
so a gradient has those of its argument, while an array of another shape stays without. A pandas object can't hold a traced value, so
there the traced function gets the array alone; xarray's can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.tree import register

_NUMBERS = "biufc"


class Labels:
    """The aux of a labelled array: `make` builds the object again from arrays; two are equal if `same` says so of their `key`."""

    __slots__ = ("digest", "key", "make", "same")
    labels = True

    def __init__(self, key: Any, digest: Any, same: Callable[[Any, Any], bool], make: Callable[[Sequence[Any]], Any]) -> None:
        self.key, self.digest, self.same, self.make = key, digest, same, make

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, Labels) and self.digest == other.digest and self.same(self.key, other.key)

    def __hash__(self) -> int:
        return hash(self.digest)


class Opaque(Labels):
    """The aux of an object that is not taken apart, since it holds other things than numbers: the object itself."""

    __slots__ = ()
    labels = False

    def __init__(self, x: Any) -> None:
        super().__init__(x, id(x), lambda a, b: a is b, lambda _children: x)


def _numeric(x: Any) -> bool:
    return isinstance(x, np.dtype) and x.kind in _NUMBERS


def _pandas_same(a: Any, b: Any) -> bool:
    return all(x.equals(y) for x, y in zip(a, b))


def _series(s: Any) -> tuple[tuple[Any, ...], Labels]:
    if not _numeric(s.dtype):
        return (), Opaque(s)
    cls, index, name = type(s), s.index, s.name
    digest = cls, name, len(s)
    make = lambda parts: cls(parts[0], index=index, name=name) if _fits(parts[0], s.shape) else parts[0]
    return (s.to_numpy(),), Labels((index,), digest, _pandas_same, make)


def _frame(d: Any) -> tuple[tuple[Any, ...], Labels]:
    dtypes = set(d.dtypes)
    if len(dtypes) > 1 or not all(map(_numeric, dtypes)):
        return (), Opaque(d)
    cls, index, columns, shape = type(d), d.index, d.columns, d.shape
    make = lambda parts: cls(parts[0], index=index, columns=columns) if _fits(parts[0], shape) else parts[0]
    return (d.to_numpy(),), Labels((index, columns), (cls, shape), _pandas_same, make)


def _fits(x: Any, shape: tuple[int, ...]) -> bool:
    return isinstance(x, np.ndarray) and x.shape == shape


def _coords_same(a: Any, b: Any) -> bool:
    return a.keys() == b.keys() and all(a[k].variable.identical(b[k].variable) for k in a)


def _data_array(x: Any) -> tuple[tuple[Any, ...], Labels]:
    data = x.data
    if not hasattr(data, "__array_function__") or not _numeric(data.dtype):
        return (), Opaque(x)
    cls, dims, coords, name, attrs, shape = type(x), x.dims, x.coords, x.name, x.attrs, tuple(x.shape)

    def make(parts: Sequence[Any]) -> Any:
        (part,) = parts
        fits = hasattr(part, "__array_function__") and tuple(part.shape) == shape
        return cls(part, dims=dims, coords=coords, name=name, attrs=attrs) if fits else part

    return (data,), Labels(coords, (cls, dims, name, shape), _coords_same, make)


def _dataset(x: Any) -> tuple[tuple[Any, ...], Labels]:
    cls, names, coords, attrs = type(x), tuple(x.data_vars), x.coords, x.attrs
    kind = type(x[names[0]]) if names else None

    def make(parts: Sequence[Any]) -> Any:
        variables = dict(zip(names, parts))
        return cls(variables, coords=coords, attrs=attrs) if all(type(v) is kind for v in parts) else variables

    return tuple(x[name] for name in names), Labels(coords, (cls, names), _coords_same, make)


_KINDS = {"Series": _series, "DataFrame": _frame, "DataArray": _data_array, "Dataset": _dataset}


def enter(cls: type) -> bool:
    """Register a class of pandas or xarray as a container, if it is one of `_KINDS`; says whether it is."""
    flatten = _KINDS.get(cls.__name__)
    if flatten is not None:
        register(cls, flatten, lambda aux, children: aux.make(children))
    return flatten is not None
