"""Modules, and parameters, in lists and dicts."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from functrace.torch._tensor import Tensor
from functrace.torch._views import type_name
from functrace.torch.nn.module import Module
from functrace.torch.nn.parameter import Parameter


class _Named(Module):
    """What containers share: their items are attributes, named by number or key."""

    def _items_by_name(self) -> dict[str, Any]:
        return self._modules  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return len(self._items_by_name())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items_by_name().values())


class _List(_Named):
    """Items named 0, 1, ..."""

    def _name_at(self, k: Any) -> str:
        k = operator.index(k)
        if not -len(self) <= k < len(self):
            raise IndexError(f"index {k} is out of range")
        return str(k % len(self))

    def _refill_items(self, items: Iterable[Any]) -> None:
        items = list(items)
        for name in list(self._items_by_name()):
            self._forget_part(name)
        for k, x in enumerate(items):
            setattr(self, str(k), x)

    def __getitem__(self, k: Any) -> Any:
        items = list(self)
        if isinstance(k, slice):
            return type(self)(items[k])
        return items[int(self._name_at(k))]

    def __setitem__(self, k: Any, x: Any) -> None:
        items = list(self._items_by_name())
        setattr(self, items[int(self._name_at(k))], x)

    def __delitem__(self, k: Any) -> None:
        items = list(self)
        if not isinstance(k, slice):
            k = int(self._name_at(k))
        del items[k]
        self._refill_items(items)

    def append(self, x: Any) -> Any:
        """Add at the end."""
        self._add_item(str(len(self)), x)
        return self

    def _add_item(self, name: str, x: Any) -> None:
        self.add_module(name, x)

    def extend(self, items: Iterable[Any]) -> Any:
        """Add several at the end."""
        if not isinstance(items, Iterable):
            raise TypeError(f"{type(self).__name__}.extend should be called with an iterable, but got {type(items).__name__}")
        for x in list(items):
            self.append(x)
        return self

    def insert(self, index: int, x: Any) -> Any:
        """Add before the item at `index`."""
        if not isinstance(x, Module):
            raise TypeError(f"{type_name(x)} is not a Module subclass")
        items = list(self)
        items.insert(index, x)
        self._refill_items(items)

    def pop(self, k: Any = -1) -> Any:
        """Take an item out."""
        x = self[k]
        del self[k]
        return x

    def __iadd__(self, items: Any) -> Any:
        return self.extend(items)

    def __add__(self, items: Any) -> Any:
        return type(self)([*self, *items])


class Sequential(_List):
    """Modules that are applied one after another.

    >>> import functrace.torch as torch
    >>> torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 2))(torch.zeros(5, 2, 3)).shape
    torch.Size([5, 2])
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for k, module in enumerate(args):
                self.add_module(str(k), module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, slice):
            return type(self)(OrderedDict(list(self._modules.items())[k]))
        return super().__getitem__(k)

    def __delitem__(self, k: Any) -> None:
        names = list(self._modules)
        for name in names[k] if isinstance(k, slice) else [names[int(self._name_at(k))]]:
            del self._modules[name]
        self.__dict__["_modules"] = {str(i): m for i, m in enumerate(self._modules.values())}

    def insert(self, index: int, x: Any) -> Any:
        """Add before the module at `index`."""
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        if not isinstance(x, Module):
            raise TypeError(f"{type_name(x)} is not a Module subclass")
        index += len(self) * (index < 0)
        for i in range(len(self), index, -1):  # other names stay
            self._modules[str(i)] = self._modules[str(i - 1)]
        self._modules[str(index)] = x
        return self

    def __add__(self, other: Any) -> Any:
        return Sequential(*self).__iadd__(other)

    def __iadd__(self, other: Any) -> Any:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return self.extend(other)

    def __mul__(self, times: int) -> Any:
        return Sequential(*self).__imul__(times)

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Any:
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")
        return self.extend(list(self) * (times - 1))


class ModuleList(_List):
    """Modules in a list."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def __repr__(self) -> str:
        groups: list[list[Any]] = []
        for k, module in enumerate(self):
            text = repr(module)
            if groups and groups[-1][2] == text:
                groups[-1][1] = k
            else:
                groups.append([k, k, text])
        lines = [f"({i}): {text}" if i == j else f"({i}-{j}): {j - i + 1} x {text}" for i, j, text in groups]
        return f"{self._get_name()}(" + ("\n  " + "\n".join(lines).replace("\n", "\n  ") + "\n" if lines else "") + ")"


class _Dict(_Named):
    """Items by key."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._items_by_name()[key]

    def __setitem__(self, key: str, x: Any) -> None:
        setattr(self, key, x)

    def __delitem__(self, key: str) -> None:
        del self._items_by_name()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items_by_name())

    def __contains__(self, key: str) -> bool:
        return key in self._items_by_name()

    def keys(self) -> Iterable[str]:
        """The keys."""
        return self._items_by_name().keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Keys and what they stand for."""
        return self._items_by_name().items()

    def values(self) -> Iterable[Any]:
        """What the keys stand for."""
        return self._items_by_name().values()

    def clear(self) -> None:
        """Take everything out."""
        self._items_by_name().clear()

    def pop(self, key: str) -> Any:
        """Take an item out."""
        x = self[key]
        del self[key]
        return x

    def update(self, items: Any) -> None:
        """Add the items of a mapping, or pairs."""
        for key, x in items.items() if isinstance(items, (Mapping, _Dict)) else items:
            self[key] = x


class ModuleDict(_Dict):
    """Modules by key."""

    def __setitem__(self, key: str, x: Any) -> None:
        self.add_module(key, x)


def _parameter(x: Any) -> Any:
    return Parameter(x) if isinstance(x, Tensor) and not isinstance(x, Parameter) else x


def _described(x: Any, kind: Callable[[Any], str]) -> str:
    if not isinstance(x, Tensor):
        return f"Object of type: {type(x).__name__}"
    return f"{'Parameter' if isinstance(x, Parameter) else 'Tensor'} containing: [{kind(x)} of size {'x'.join(map(str, x.shape))}]"


class ParameterList(_List):
    """Parameters in a list; tensors become parameters, and other objects stay what they are."""

    def __init__(self, values: Any = None) -> None:
        super().__init__()
        self._size = 0
        self.extend(values or ())

    def _items_by_name(self) -> dict[str, Any]:
        return {str(k): getattr(self, str(k)) for k in range(self._size)}

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, k: Any) -> Any:
        return super().__getitem__(k) if isinstance(k, slice) else getattr(self, self._name_at(k))

    def __setitem__(self, k: Any, x: Any) -> None:
        setattr(self, self._name_at(k), x)

    def __setattr__(self, name: str, x: Any) -> None:
        super().__setattr__(name, _parameter(x))

    def _add_item(self, name: str, x: Any) -> None:
        setattr(self, name, x)
        self._size += 1

    def _refill_items(self, items: Iterable[Any]) -> None:
        items = list(items)
        super()._refill_items(items)
        self._size = len(items)

    def extra_repr(self) -> str:
        return "\n".join(f"  ({k}): {_described(x, lambda p: str(p.dtype))}" for k, x in enumerate(self))


class ParameterDict(_Dict):
    """Parameters by key; tensors become parameters, and other objects stay what they are."""

    def __init__(self, parameters: Any = None) -> None:
        Module.__init__(self)
        self._keys: dict[str, None] = {}
        self.update(() if parameters is None else parameters)

    def _items_by_name(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in self._keys}

    def __setitem__(self, key: str, x: Any) -> None:
        setattr(self, key, _parameter(x))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        self._forget_part(key)

    def clear(self) -> None:
        """Take everything out."""
        for key in list(self):
            del self[key]

    def update(self, items: Any) -> None:
        """Add the parameters of a mapping, or pairs. Those of a plain dict are sorted by key."""
        super().update(sorted(items.items()) if isinstance(items, Mapping) and not isinstance(items, OrderedDict) else items)

    def get(self, key: str, default: Any = None) -> Any:
        """The parameter of a key, or `default`."""
        return self._items_by_name().get(key, default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The parameter of a key; `default`, which is added, if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def popitem(self) -> tuple[str, Any]:
        """Take the last one out, with its key."""
        key, _ = dict(self._keys).popitem()
        return key, self.pop(key)

    def copy(self) -> ParameterDict:
        """Another dict of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self))

    def __or__(self, other: Any) -> ParameterDict:
        return self.copy().__ior__(other)

    def __ior__(self, other: Any) -> ParameterDict:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        return "\n".join(f"  ({key}): {_described(x, lambda p: p.type())}" for key, x in self.items())
