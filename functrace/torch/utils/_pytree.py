"""`torch.utils._pytree`, which libraries over PyTorch use: dicts in the order of their keys' arrival, None a leaf."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

PyTree = Any


class TreeSpec(NamedTuple):
    """The structure of a tree: the class of a node, what it is built with beside its children, and their structures."""

    type: Any
    context: Any
    children_specs: tuple[Any, ...]

    @property
    def num_leaves(self) -> int:
        """How many leaves there are."""
        return 1 if self.type is None else sum(c.num_leaves for c in self.children_specs)


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __new__(cls) -> LeafSpec:
        return super().__new__(cls, None, None, ())


class NodeDef(NamedTuple):
    """How a node is taken apart, and built."""

    flatten_fn: Callable[[Any], tuple[Any, Any]]
    unflatten_fn: Callable[[Any, Any], Any]


class MappingKey(NamedTuple):
    """Where in a mapping a child is."""

    key: Any


def _dict_flatten_with_keys(d: Any) -> tuple[list[tuple[MappingKey, Any]], Any]:
    return [(MappingKey(k), x) for k, x in d.items()], list(d)


_LEAF = LeafSpec()
_MAPPINGS = (dict, OrderedDict, defaultdict)
SUPPORTED_NODES: dict[Any, NodeDef] = {}


def register_pytree_node(cls: Any, flatten_fn: Callable[[Any], Any], unflatten_fn: Callable[[Any, Any], Any], **names: Any) -> None:
    """Make a class a node: `flatten_fn(x)` gives children and a context, `unflatten_fn(children, context)` builds it again."""
    SUPPORTED_NODES[cls] = NodeDef(flatten_fn, unflatten_fn)


register_pytree_node(dict, lambda d: (list(d.values()), list(d)), lambda values, keys: dict(zip(keys, values)))
register_pytree_node(OrderedDict, lambda d: (list(d.values()), list(d)), lambda values, keys: OrderedDict(zip(keys, values)))
register_pytree_node(
    defaultdict,
    lambda d: (list(d.values()), (d.default_factory, list(d))),
    lambda values, context: defaultdict(context[0], zip(context[1], values)),
)
register_pytree_node(list, lambda x: (x, None), lambda values, _: list(values))
register_pytree_node(tuple, lambda x: (x, None), lambda values, _: tuple(values))
register_pytree_node(namedtuple, lambda x: (list(x), type(x)), lambda values, cls: cls(*values))
register_pytree_node(deque, lambda x: (list(x), x.maxlen), deque)


def _get_node_type(x: Any) -> Any:
    cls = type(x)
    return namedtuple if issubclass(cls, tuple) and hasattr(cls, "_fields") else cls


def _node(x: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[Any, list[Any], Any] | None:
    if is_leaf is not None and is_leaf(x):
        return None
    kind = _get_node_type(x)
    return (kind, *SUPPORTED_NODES[kind].flatten_fn(x)) if kind in SUPPORTED_NODES else None


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves, and the structure."""
    leaves: list[Any] = []

    def spec(x: Any) -> TreeSpec:
        node = _node(x, is_leaf)
        if node is None:
            leaves.append(x)
            return _LEAF
        cls, children, context = node
        return TreeSpec(cls, context, tuple([spec(c) for c in children]))

    return leaves, spec(tree)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of leaves."""
    rest, wanted = list(leaves), treespec.num_leaves
    if len(rest) != wanted:
        raise ValueError(
            f"treespec.unflatten(leaves): `leaves` has length {len(rest)} but the spec refers to a pytree that holds {wanted} items "
            f"({treespec})."
        )
    following = iter(rest)

    def build(spec: TreeSpec) -> Any:
        if spec.type is None:
            return next(following)
        children = [build(c) for c in spec.children_specs]
        return SUPPORTED_NODES[spec.type].unflatten_fn(children, spec.context)

    return build(treespec)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The structure."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """`func` of each leaf, and of those in its place in other trees."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return tree_unflatten(map(func, leaves, *[_up_to(spec, r) for r in rests]), spec)


def _up_to(spec: TreeSpec, tree: Any) -> list[Any]:
    if spec.type is None:
        return [tree]
    node = _node(tree)
    mappings = spec.type in _MAPPINGS and type(tree) in _MAPPINGS  # which stand for one another
    if node is None or not (mappings or node[0] is spec.type):
        raise ValueError(f"Node type mismatch; expected {spec.type}, but got {type(tree)}.")
    if len(node[1]) != len(spec.children_specs):
        raise ValueError(f"Node arity mismatch; expected {len(spec.children_specs)}, but got {len(node[1])}.")
    children: Sequence[Any] = node[1]
    if mappings:
        keys = spec.context[1] if spec.type is defaultdict else spec.context
        if missing := set(keys) - tree.keys():
            raise ValueError(f"Node keys mismatch; missing key(s): {missing}; extra key(s): {tree.keys() - set(keys)}.")
        children = [tree[k] for k in keys]
    elif spec.type is namedtuple and node[2] is not spec.context:
        raise ValueError(f"Node context mismatch for node type {spec.type!r}; expected {spec.context!r}, but got {node[2]!r}.")
    return [x for s, c in zip(spec.children_specs, children) for x in _up_to(s, c)]


def tree_map_only(kind: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """`func` of the leaves of a class, or of those for which `kind` is true; the others as they are."""
    chosen = (lambda x: isinstance(x, kind)) if isinstance(kind, (type, tuple)) else kind
    return tree_map(lambda x: func(x) if chosen(x) else x, tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether `pred` holds for all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether `pred` holds for a leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))
