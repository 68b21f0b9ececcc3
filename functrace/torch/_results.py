"""Named results: `torch.return_types`."""

from __future__ import annotations

import operator
from types import SimpleNamespace
from typing import Any

from functrace.torch._contact import tree

return_types = SimpleNamespace()


class _Result(tuple[Any, ...]):
    """A named result, as `torch.return_types.max`."""

    fields: tuple[str, ...] = ("values", "indices")

    def __repr__(self) -> str:
        rows = ",\n".join(f"{name}={x!r}" for name, x in zip(self.fields, self))
        return f"torch.return_types.{type(self).__name__}(\n{rows})"


def result_class(name: str, *fields: str) -> type[_Result]:
    """The class of a named result."""
    if hasattr(return_types, name):
        return getattr(return_types, name)  # type: ignore[no-any-return]
    fields = fields or _Result.fields
    places: dict[str, Any] = {field: property(operator.itemgetter(k)) for k, field in enumerate(fields)}
    cls = type(name, (_Result,), {"fields": fields, "__module__": "torch.return_types", "n_fields": len(fields), **places})
    setattr(return_types, name, cls)
    tree.register(cls, lambda result: (tuple(result), None), lambda _, children: cls(children))
    return cls
