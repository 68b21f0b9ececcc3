"""Pytrees: nested containers whose leaves are arrays, flattened to a list and built again, without recursion but for shallow ones.

Containers are dict, OrderedDict, defaultdict, list, tuple, namedtuple, None, dataclass instances, and classes given to
`register`. Everything else is a leaf. A dataclass field with `metadata={"static": True}` is structure, not a leaf.

>>> leaves, treedef = flatten({"w": [1.0, 2.0], "b": None})
>>> leaves
[1.0, 2.0]
>>> unflatten(treedef, [10.0, 20.0])
{'w': [10.0, 20.0], 'b': None}
"""

from __future__ import annotations

import builtins
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Any

import numpy as np

from functrace.edge import boundary, check_call, own_names, renamed
from functrace.errors import CallError, TreeError, describe

__all__ = ["TreeDef", "flatten", "leaves", "map", "paths", "register", "structure", "unflatten"]

Flatten = Callable[[Any], tuple[Sequence[Any], Any]]
Unflatten = Callable[[Any, Sequence[Any]], Any]

_registry: dict[type, tuple[Flatten, Unflatten]] = {}
_leaf_types: set[type] = set()  # classes found to be leaves


@boundary
def register(cls: type, flatten: Flatten, unflatten: Unflatten) -> type:
    """Make instances of `cls` containers.

    `flatten(obj)` returns `(children, aux)` with hashable `aux`; `unflatten(aux, children)` builds the object again.
    JAX's `register_pytree_node` with the same argument order. Returns `cls`.

    >>> import functrace as ft
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> _ = ft.tree.register(Pair, lambda p: ((p.a, p.b), None), lambda aux, children: Pair(*children))
    >>> ft.tree.leaves(Pair(1, [2, 3]))
    [1, 2, 3]
    """
    _registry[cls] = (flatten, unflatten)
    _leaf_types.discard(cls)
    return cls


def _sorted_keys(d: Any) -> list[Any]:
    try:
        return sorted(d)
    except TypeError:  # of several types
        return sorted(d, key=lambda k: (type(k).__qualname__, repr(k)))


_DATACLASS = "__dataclass_fields__"


def _fields(obj: Any) -> Any:
    import dataclasses  # a user of them has it already; here it would be half of the time of importing the engine

    return dataclasses.fields(obj)


class _Fixed:
    """An array in a static field, compared by its elements as they were at the first comparison."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @cached_property
    def key(self) -> tuple[Any, ...]:
        return self.array.shape, self.array.dtype, self.array.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Fixed) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _dataclass_children(obj: Any) -> tuple[list[Any], Any]:
    names, values, static = [], [], []
    for field in _fields(obj):
        value = getattr(obj, field.name)
        if field.metadata.get("static"):
            static.append((field.name, _Fixed(value) if isinstance(value, np.ndarray) else value))
        else:
            names.append(field.name)
            values.append(value)
    return values, (tuple(names), tuple(static))


@lru_cache(256)
def _takes_fields(cls: Any) -> bool:
    """Whether its `__init__` is dataclass's, or like it: one of the user's own may make its fields of something else."""
    import inspect

    parameters = inspect.signature(cls).parameters.values()
    names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    wanted = {p.name for p in parameters if p.default is p.empty}  # a `*rest` too
    return wanted <= {f.name for f in _fields(cls) if f.init} <= names <= set(getattr(cls, _DATACLASS))


def _build_dataclass(cls: Any, aux: Any, children: Sequence[Any]) -> Any:
    names, static = aux
    values = dict(zip(names, children)) | {k: x.array if type(x) is _Fixed else x for k, x in static}
    obj = cls(**{f.name: values[f.name] for f in _fields(cls) if f.init}) if _takes_fields(cls) else object.__new__(cls)
    for name, value in values.items():
        object.__setattr__(obj, name, value)
    return obj


class TreeDef:
    """The structure of a pytree: its nodes in postorder, each (type, number of children, aux). Compares by structure.

    >>> import functrace as ft
    >>> ft.tree.structure([1, (2, None)])
    TreeDef([*, (*, None)])
    >>> ft.tree.structure([1, (2, None)]).num_leaves
    2
    """

    __slots__ = ("build", "hashed", "nodes", "num_leaves", "orders")

    def __init__(
        self, nodes: tuple[Any, ...], num_leaves: int, orders: dict[int, Any], build: Callable[[Sequence[Any]], Any] | None = None
    ) -> None:
        self.build = build  # does what `built` does, faster
        self.hashed: int | None = None
        self.nodes = nodes
        self.num_leaves = num_leaves
        self.orders = orders  # by node, what is not compared: the insertion order of a dict, the exact types in an aux

    @property
    def alone(self) -> bool:
        """Whether it is a leaf by itself, or one inside the labels of an array (pandas, xarray), but in no other container."""
        return self is ONE_LEAF or self.num_leaves == 1 and all(cls is None or getattr(aux, "labels", False) for cls, _, aux in self.nodes)

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, TreeDef) and self.nodes == other.nodes

    def __hash__(self) -> int:
        if self.hashed is None:
            try:
                self.hashed = hash(self.nodes)
            except TypeError:  # an aux that is a dict, say; its text changes when it is written to
                return hash(repr(self.nodes))
        return self.hashed

    def __reduce__(self) -> tuple[Any, ...]:
        return TreeDef, (self.nodes, self.num_leaves, self.orders)  # hashes are of one process

    def __repr__(self) -> str:
        parts: list[str] = []
        for cls, count, aux in self.nodes:
            inside = [parts.pop() for _ in range(count)][::-1]
            names = aux[0] if cls is not None and aux and cls not in _registry else ()
            labelled = ", ".join([f"{k!r}: {p}" for k, p in zip(names, inside)] if names else inside) + "," * (cls is tuple and count == 1)
            left, right = _BRACKETS.get(cls, (f"{getattr(cls, '__name__', '')}(", ")"))
            text = left + labelled + right
            parts.append(text if len(text) < 200 else "...")
        return f"TreeDef({parts[0]})"


_BRACKETS: dict[Any, tuple[str, str]] = {None: ("*", ""), list: ("[", "]"), tuple: ("(", ")"), dict: ("{", "}"), type(None): ("None", "")}
ENTERING: dict[str, Callable[[type], bool]] = {}  # what registers a class of a library when one is met, if it knows the class
_LEAF = (None, 0, None)
ONE_LEAF = TreeDef((_LEAF,), 1, {}, itemgetter(0))


def exact(x: Any) -> Any:
    """A key that differs for leaves that compare equal but are not the same: 1 and 1.0 and True, 0.0 and -0.0."""
    return (type(x), repr(x)) if isinstance(x, (float, complex, np.inexact, frozenset)) else type(x)


def _children(node: Any) -> tuple[Sequence[Any], Any, Any] | None:
    """(children, aux, what `TreeDef.orders` keeps) of a container, None for a leaf."""
    cls = type(node)
    if cls in _registry:
        children, aux = _registry[cls][0](node)
        return children, aux, aux if aux is None else [*builtins.map(exact, leaves(aux))]
    if cls is list or cls is tuple:
        return node, None, None
    if cls is dict or cls is OrderedDict or cls is defaultdict:
        keys = _sorted_keys(node)
        factory = node.default_factory if cls is defaultdict else None
        return [node[k] for k in keys], (tuple(keys), factory), list(node)
    if node is None:
        return (), None, None
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        return node, None, None
    if hasattr(type(node), _DATACLASS):
        values, aux = _dataclass_children(node)
        return values, aux, [*builtins.map(exact, leaves(aux[1]))] if aux[1] else None
    enter = ENTERING.get(cls.__module__.partition(".")[0])
    return _children(node) if enter is not None and enter(cls) else None


def _common(tree: Any, leaves: list[Any], depth: int = 4) -> Any:
    """A hashable key for the structure of a common tree, whose leaves are appended to `leaves`; None for other trees.

    Common are leaves of types met before, None, and shallow nestings of tuples, lists and dicts with strings for keys.
    """
    cls = type(tree)
    if cls in _leaf_types:
        leaves.append(tree)
        return _ALONE
    keys: Any = ()
    items: Any = tree
    if cls is dict and _NAMES.issuperset(builtins.map(type, tree)):
        keys, items = tree, [tree[k] for k in sorted(tree)]
    elif cls is not tuple and cls is not list:
        return _NOTHING if tree is None else None
    if _leaf_types.issuperset(builtins.map(type, items)):
        leaves += items
        return (cls, len(items), *keys)
    kinds = [_common(x, leaves, depth - 1) for x in items] if depth else [None]
    return None if None in kinds else (cls, tuple(kinds), *keys)


_ALONE, _NOTHING = (None, 1), (type(None), 0)
_NAMES = frozenset((str,))  # 1, 1.0 and True are one key


@lru_cache(maxsize=256)
def _of_kind(kind: Any) -> TreeDef:
    """The structure for which `_common` gives this key, with a `build` of its own."""
    cls, inside, *keys = kind
    if cls is None:
        return ONE_LEAF
    if kind == _NOTHING:
        return TreeDef(((*kind, None),), 0, {}, lambda leaves: None)
    flat = isinstance(inside, int)
    nodes, orders, spans, count = _beside((_ALONE,) * inside if flat else inside)
    names = tuple(sorted(keys))
    orders |= {len(nodes): keys} if cls is dict else {}
    nodes.append((cls, len(spans), (names, None) if cls is dict else None))
    places = [(k, *spans[names.index(k)]) for k in keys]
    build: Any = cls
    if cls is dict and flat:
        build = lambda leaves: {k: leaves[i] for k, _, i, _ in places}
    elif cls is dict:
        build = lambda leaves: {k: part(leaves[i:j]) for k, part, i, j in places}
    elif not flat:
        build = lambda leaves: cls([part(leaves[i:j]) for part, i, j in spans])
    return TreeDef(tuple(nodes), count, orders, build)


def _beside(kinds: Sequence[Any]) -> tuple[list[Any], dict[int, Any], list[Any], int]:
    """For trees of these kinds, side by side: all nodes and orders, `(build, start, end)` of the leaves of each, the number of leaves."""
    nodes: list[Any] = []
    orders: dict[int, Any] = {}
    spans: list[Any] = []
    count = 0
    for kind in kinds:
        treedef = _of_kind(kind)
        orders.update({len(nodes) + index: order for index, order in treedef.orders.items()})
        nodes += treedef.nodes
        spans.append((treedef.build, count, count + treedef.num_leaves))
        count += treedef.num_leaves
    return nodes, orders, spans, count


@lru_cache(maxsize=256)
def _of_call(*kinds: Any) -> TreeDef:
    """The structure of a call with arguments of these kinds, by position."""
    return _of_kind((tuple, ((tuple, kinds), (dict, 0))))


def called(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], TreeDef]:
    """`flatten((args, kwargs))`, quicker where the arguments are arrays, or rows and dicts of them."""
    leaves: list[Any] = []
    kinds: list[Any] = [_common(x, leaves) for x in args]
    if kwargs or None in kinds:
        return flatten((args, kwargs))
    return leaves, _of_call(*kinds)


def flatten(tree: Any, is_leaf: Callable[[Any], Any] | None = None) -> tuple[list[Any], TreeDef]:
    """The leaves of `tree`, left to right (dict entries in the order of their sorted keys), and its structure.

    A container for which `is_leaf` is true is a leaf too.

    >>> import functrace as ft
    >>> ft.tree.flatten({"b": 1.0, "a": [2.0, None]})
    ([2.0, 1.0], TreeDef({'a': [*, None], 'b': *}))
    >>> ft.tree.flatten({"b": 1.0, "a": [2.0, None]}, is_leaf=lambda x: x is None)
    ([2.0, None, 1.0], TreeDef({'a': [*, *], 'b': *}))
    """
    leaves: list[Any] = []
    if is_leaf is not None:
        pass
    elif type(tree) in _leaf_types:
        return [tree], ONE_LEAF
    elif kind := _common(tree, leaves):
        return leaves, _of_kind(kind)
    elif _children(tree) is None:
        _leaf_types.add(type(tree))
        return [tree], ONE_LEAF
    leaves.clear()
    nodes: list[Any] = []
    orders: dict[int, Any] = {}
    stack: list[Any] = [(iter((tree,)), None, None)]  # the open containers: an iterator over the rest of each, its node, its order
    while stack:
        rest, node, order = stack[-1]
        for child in rest:
            found = None if type(child) in _leaf_types or is_leaf is not None and is_leaf(child) else _children(child)
            if found is not None:
                children, aux, order = found
                stack.append((iter(children), (type(child), len(children), aux), order))
                break
            if is_leaf is None:
                _leaf_types.add(type(child))
            leaves.append(child)
            nodes.append(_LEAF)
        else:
            stack.pop()
            if order is not None:
                orders[len(nodes)] = order
            if node is not None:
                nodes.append(node)
    return leaves, TreeDef(tuple(nodes), len(leaves), orders)


def _build(cls: Any, aux: Any, children: list[Any], order: Any) -> Any:
    if cls is tuple:
        return tuple(children)
    if cls is list:
        return children
    if cls in _registry:
        return _registry[cls][1](aux, children)
    if cls is dict or cls is OrderedDict or cls is defaultdict:
        keys, factory = aux
        items = dict(zip(keys, children))
        ordered = {k: items[k] for k in order}
        return defaultdict(factory, ordered) if cls is defaultdict else cls(ordered)  # type: ignore[call-overload]
    if cls is type(None):
        return None
    if issubclass(cls, tuple):
        return cls(*children)
    return _build_dataclass(cls, aux, children)


@boundary
def unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """The pytree of structure `treedef` with these leaves. Raises `TreeError` if their number is wrong.

    >>> import functrace as ft
    >>> ft.tree.unflatten(ft.tree.structure({"b": 1.0, "a": [2.0, None]}), ["first", "second"])
    {'b': 'second', 'a': ['first', None]}
    """
    if not isinstance(treedef, TreeDef):
        raise CallError(
            f"tree.unflatten: {describe(treedef)} stands where a structure is expected.\n  Write tree.unflatten(tree.structure(x), leaves)."
        )
    leaves = list(leaves)
    if len(leaves) != treedef.num_leaves:
        raise TreeError(
            f"tree.unflatten: the structure {treedef!r} has {treedef.num_leaves} leaves, got {len(leaves)}.\n"
            "  Give one for each *; functrace.tree.leaves of a tree of that structure are such."
        )
    return built(treedef, leaves)


def built(treedef: TreeDef, leaves: Sequence[Any]) -> Any:
    """`unflatten`, for callers who know that there are as many leaves as `treedef` has."""
    if treedef.build is not None:
        return treedef.build(leaves)
    stack: list[Any] = []
    rest = iter(leaves)
    for index, (cls, count, aux) in enumerate(treedef.nodes):
        if cls is None:
            stack.append(next(rest))
        else:
            first = len(stack) - count
            stack[first:] = (_build(cls, aux, stack[first:], treedef.orders.get(index)),)
    return stack[0]


def leaves(tree: Any, is_leaf: Callable[[Any], Any] | None = None) -> list[Any]:
    """The leaves of `tree`, left to right; `is_leaf` is `flatten`'s.

    >>> leaves({"b": 1.0, "a": [2.0, None]})
    [2.0, 1.0]
    """
    return flatten(tree, is_leaf)[0]


def paths(tree: Any) -> list[str]:
    """Where each leaf of `tree` is, as Python would write it.

    >>> import functrace as ft
    >>> ft.tree.paths({"w": [1.0, 2.0], "b": 3.0})
    ["['b']", "['w'][0]", "['w'][1]"]
    """
    out: list[str] = []
    todo: list[tuple[Any, str]] = [(tree, "")]
    while todo:
        node, path = todo.pop()
        found = _children(node)
        if found is None:
            out.append(path)
            continue
        children, aux, _ = found
        names: Sequence[str]
        if isinstance(node, dict) and type(node) not in _registry:
            names = [f"[{k!r}]" for k in aux[0]]
        elif hasattr(node, "_fields") or hasattr(type(node), _DATACLASS) and type(node) not in _registry:
            names = [f".{name}" for name in (node._fields if hasattr(node, "_fields") else aux[0])]
        else:
            names = [f"[{k}]" for k in range(len(children))]
        todo.extend((child, path + name) for child, name in reversed(list(zip(children, names))))
    return out


def _paired(a: Any, b: Any) -> list[tuple[Any, Any]] | None:
    """The children of two containers of one kind, side by side; None if they are not. All sequences are of one kind, and so are dicts.

    >>> import functrace as ft
    >>> ft.tree._paired({"w": [0, 1], "b": 2}, {"w": 3, "b": 4})
    [(2, 4), ([0, 1], 3)]
    """
    mine, theirs = _children(a), _children(b)
    if mine is None or theirs is None or len(mine[0]) != len(theirs[0]):
        return None
    sequences = isinstance(a, (tuple, list)) and isinstance(b, (tuple, list))
    dicts = isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys()
    alike = sequences or dicts or type(a) is type(b) and mine[1] == theirs[1]
    return list(zip(mine[0], theirs[0])) if alike else None


def structure(tree: Any, is_leaf: Callable[[Any], Any] | None = None) -> TreeDef:
    """The structure of `tree`, without its leaves; `is_leaf` is `flatten`'s.

    >>> import functrace as ft
    >>> ft.tree.structure({"a": 1.0, "b": (2.0,)}) == ft.tree.structure({"a": 0, "b": ("x",)})
    True
    """
    return flatten(tree, is_leaf)[1]


@boundary
def map(function: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Callable[[Any], Any] | None = None) -> Any:
    """`function` applied to each leaf of `tree` and the leaves of `rest` at the same place. `is_leaf` is `flatten`'s.

    Raises `TreeError` where a tree of `rest` has another structure.

    >>> import functrace as ft
    >>> ft.tree.map(lambda a, b: a + b, {"x": 1, "y": (2,)}, {"x": 10, "y": (20,)})
    {'x': 11, 'y': (22,)}
    """
    check_call("tree.map(function, tree)", function)
    first, treedef = flatten(tree, is_leaf)
    others = []
    for other in rest:
        more, structure_ = flatten(other, is_leaf)
        if structure_ != treedef:
            raise TreeError(
                f"tree.map: the trees differ in structure: {treedef!r} and {structure_!r}.\n"
                "  Compare functrace.tree.structure of both; a gradient has the structure of its argument."
            )
        others.append(more)
    return unflatten(treedef, [function(*xs) for xs in zip(first, *others)])


__dir__ = own_names(globals())
__getattr__ = renamed(  # what has another name in JAX
    __name__,
    {
        "reduce all": "functools.reduce and all over functrace.tree.leaves(tree)",
        "map_with_path leaves_with_path flatten_with_path": "functrace.tree.paths(tree), in the order of the leaves",
        "register_pytree_node register_pytree_node_class": "functrace.tree.register(cls, flatten, unflatten)",
        "register_dataclass": 'a dataclass as it is; what is no array is a field(metadata={"static": True})',
        "transpose": "functrace.tree.map(lambda *xs: list(xs), *trees)",
        "zeros_like ones_like": "functrace.tree.map(np.zeros_like, tree)",
        "tree_map": "functrace.tree.map",
        "ravel ravel_pytree": "functrace.ravel_pytree",
    },
)
