"""What a function reads beside its arguments, as its bytecode tells: names, and what is done with them."""

from __future__ import annotations

import dis
import re
import types
from collections import Counter, OrderedDict, deque
from functools import lru_cache
from typing import Any, NamedTuple

BY_TEXT = frozenset("getattr hasattr vars globals __dict__ modules import_module attrgetter eval exec".split())  # what takes names as text
ANY = BY_TEXT.union(  # what may read any attribute of an object
    "__getattribute__ getattr_static methodcaller match dir copy deepcopy replace asdict astuple evolve getmembers dump dumps format "
    "format_map".split()
)
_TELLING = ANY.union(("type", "environ", "getenv", "errstate"))  # globals that matter wherever they come from
_PUT = frozenset("append appendleft extend extendleft insert add update clear".split())  # methods that only put something into a container
_TAKE = (
    frozenset[str]().union(*map(dir, (list, OrderedDict, set, deque, bytearray))).difference(_PUT)
)  # and those that look at what is in it
_ATTRIBUTE, _CONSTANT = ("LOAD_ATTR", "LOAD_METHOD"), ("LOAD_CONST", "LOAD_SMALL_INT")


class Reads(NamedTuple):
    """What a function, and those defined in it, may read; of `_TELLING` as globals and as attributes."""

    variables: list[str]
    """Globals."""
    attributes: list[str]
    modules: list[str]
    looks: Counter[str]
    """How often it looks at a variable, but for `x += y`: nothing but `x` depends on that."""
    parts: set[Any]
    """The attributes and items at which it looks, but for `x.a += y`."""
    contents: set[str]
    """Names of containers whose contents it looks at, and does not only put something in."""


@lru_cache(1024)
def read_by(code: types.CodeType) -> Reads:
    """What the functions of a piece of code read."""
    variables, attributes, modules, texts = dict[str, None](), dict[str, None](), dict[str, None](), dict[str, None]()
    looks, parts, contents = Counter[str](), set[Any](), {"__defaults__", "__kwdefaults__"}
    todo: list[Any] = [code]
    while todo:
        c = todo.pop()
        if isinstance(c, types.CodeType):
            run = [i for i in dis.get_instructions(c) if i.opname not in ("EXTENDED_ARG", "SWAP", "ROT_TWO", "ROT_THREE")]
            for k, i in enumerate(run):
                last, loaded = run[k - 1], None
                if i.opname in _ATTRIBUTE:
                    loaded = i.argval
                    if last.opname not in ("COPY", "DUP_TOP"):
                        parts.add(loaded)
                elif i.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"):
                    loaded = i.argval
                    looks[loaded] += 1
                elif i.opname in ("STORE_GLOBAL", "STORE_DEREF"):
                    looks[i.argval] -= last.opname.startswith("INPLACE") or last.opname == "BINARY_OP" and last.argrepr.endswith("=")
                elif _is_item(i) and last.opname in _CONSTANT and isinstance(last.argval, (str, int)):
                    loaded = last.argval
                    parts.add(loaded)
                if loaded is not None and _looked_into(*(*run[k + 1 : k + 4], i, i, i)[:3]):
                    contents.add(str(loaded))
                if "GLOBAL" in i.opname or i.opname == "LOAD_NAME":
                    variables[i.argval] = None
                elif i.opname == "IMPORT_NAME":
                    modules[i.argval] = None
                elif i.opname == "MATCH_CLASS":
                    attributes["match"] = None
                elif i.opcode in dis.hasname:
                    attributes[i.argval] = None
            todo += c.co_consts
        elif isinstance(c, (tuple, frozenset)):
            todo += c
        elif isinstance(c, str):
            texts.update(dict.fromkeys(re.findall(r"[^\W\d]\w*", c)))
    attributes.update(dict.fromkeys(_TELLING.intersection((*variables, *modules))))
    if not BY_TEXT.isdisjoint(attributes):
        for names in (variables, attributes, modules):
            names.update(texts)
        looks.update(list(texts))
        for some in (parts, contents):
            some.update(texts)
    return Reads(list(variables), list(attributes), list(modules), looks, parts, contents)


def _is_item(i: dis.Instruction) -> bool:
    return i.opname == "BINARY_SUBSCR" or i.argrepr == "[]"


def _looked_into(first: dis.Instruction, second: dis.Instruction, third: dis.Instruction) -> bool:
    """Whether the instructions after the load of a container may depend on all of it, and do not just read or write one item."""
    if first.opname in _ATTRIBUTE:
        return first.argval in _TAKE
    if not first.opname.startswith("LOAD_"):
        return True
    if second.opname in ("STORE_SUBSCR", "COPY", "DUP_TOP_TWO"):  # x[k] = y, x[k] += y
        return False
    key: Any = first.argval if first.opname in _CONSTANT else None
    one = isinstance(key, str) or isinstance(key, int) and key >= 0
    return not (_is_item(second) and (one or third.opname in _ATTRIBUTE and third.argval in _PUT))  # x[k].append(y)
