"""What `sys.getrefcount` gives for an object with one owner: a local variable, an item of a list, an attribute.

Python 3.14 lends a local variable to a call, where it used to count one more.
"""

from __future__ import annotations

from sys import getrefcount


class _Holder:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = object()


def _of_local() -> int:
    x = object()
    return getrefcount(x)


def _of_item(holders: list[object]) -> int:
    return getrefcount(holders[0])


def _of_attribute(holder: _Holder) -> int:
    return getrefcount(holder.value)


IN_LOCAL, IN_LIST, IN_SLOT = _of_local(), _of_item([object()]), _of_attribute(_Holder())
