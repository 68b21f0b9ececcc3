"""Pytrees: every container, any depth, order and structure kept."""

import collections
import dataclasses
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functrace as ft
from functrace import errors, tree

Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Box:
    a: object
    b: object = 2
    static: str = dataclasses.field(default="s", metadata={"static": True})


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: object


@dataclasses.dataclass
class Late:
    a: object
    total: object = dataclasses.field(init=False, default=0)

    def __post_init__(self):
        self.total = "computed"


@dataclasses.dataclass
class Derived(Box):
    c: object = 3


class Registered:
    def __init__(self, *parts):
        self.parts = parts

    def __eq__(self, other):
        return type(other) is Registered and self.parts == other.parts


tree.register(Registered, lambda r: (r.parts, len(r.parts)), lambda n, parts: Registered(*parts))


class ListSubclass(list):
    pass


@pytest.mark.parametrize(
    ("t", "leaves"),
    [
        (1, [1]), ("text", ["text"]), (None, []), ([], []), ((), []), ({}, []),
        ([1, 2], [1, 2]), ((1, (2, [3])), [1, 2, 3]), ({"b": 1, "a": 2}, [2, 1]), ({2: "x", 1: "y"}, ["y", "x"]),
        ({"a": None, "b": [None, 3]}, [3]), (Point(1, [2]), [1, 2]), (Box(1, [2, 3]), [1, 2, 3]), (Frozen({"k": 1}), [1]),
        (Registered(1, (2, 3)), [1, 2, 3]), (Derived(1, 2), [1, 2, 3]),
        (collections.OrderedDict([("b", 1), ("a", 2)]), None), (collections.defaultdict(int, b=1, a=2), [2, 1]),
        ({"a": 1, 2: 3}, None), ({(1, 2): 1, (0, 5): 2}, [2, 1]),
    ],
    ids=lambda x: type(x).__name__,
)  # fmt: skip
def test_flatten_and_unflatten(t, leaves):
    got, treedef = tree.flatten(t)
    if leaves is not None:
        assert got == leaves
    again = tree.unflatten(treedef, got)
    assert again == t
    assert type(again) is type(t)
    assert tree.structure(t) == treedef and hash(tree.structure(t)) == hash(treedef)
    assert tree.leaves(t) == got
    assert len(got) == treedef.num_leaves
    assert tree.map(lambda x: x, t) == t
    assert isinstance(repr(treedef), str)


def test_dicts_keep_their_order():
    t = {"b": 1, "a": 2, "c": {"z": 3, "y": 4}}
    out = tree.map(lambda x: x * 10, t)
    assert list(out) == ["b", "a", "c"] and list(out["c"]) == ["z", "y"]
    assert tree.structure({"b": 1, "a": 2}) == tree.structure({"a": 1, "b": 2})
    assert tree.map(lambda x, y: x + y, {"b": 1, "a": 2}, {"a": 20, "b": 10}) == {"b": 11, "a": 22}
    d = tree.map(lambda x: x, collections.defaultdict(list, a=1))
    assert d["missing"] == []


def test_structures_differ():
    trees = [
        1,
        [1],
        (1,),
        {"a": 1},
        {"b": 1},
        [1, 2],
        [[1]],
        None,
        Point(1, 2),
        (1, 2),
        Box(1),
        Box(1, static="t"),
        Frozen(1),
        Registered(1),
    ]
    for k, a in enumerate(trees):
        for b in trees[:k]:
            assert tree.structure(a) != tree.structure(b), (a, b)
    assert tree.structure(1) != "no structure"


def test_what_is_told_to_be_a_leaf():
    empty = lambda x: x is None  # noqa: E731
    t = {"b": (None, 1), "a": None}
    leaves, treedef = tree.flatten(t, is_leaf=empty)
    assert leaves == tree.leaves(t, is_leaf=empty) == [None, None, 1] and tree.structure(t, is_leaf=empty) == treedef
    assert tree.unflatten(treedef, leaves) == t
    assert tree.leaves(t) == [1], "of this call only"
    assert tree.map(lambda g, p: p if g is None else g, t, {"b": (2, 3), "a": 4}, is_leaf=empty) == {"b": (2, 1), "a": 4}
    pair = lambda x: isinstance(x, tuple)  # noqa: E731
    assert tree.leaves((1, 2), is_leaf=pair) == [(1, 2)] and tree.leaves((1, 2)) == [1, 2]
    assert tree.map(len, [(1, 2), (3,)], is_leaf=pair) == [2, 1]
    with pytest.raises(errors.TreeError):
        tree.map(lambda a, b: a, [None, 1], [2, 3])


def test_an_aux_that_can_be_written_to():
    """As in JAX's own example of a registered class, whose aux is a dict of options."""

    class Scaled:
        def __init__(self, x, options):
            self.x, self.options = x, options

    tree.register(Scaled, lambda s: ((s.x,), s.options), lambda options, children: Scaled(*children, options))
    f = ft.jit(lambda s, y: s.x * y if s.options["scale"] else y)
    s = Scaled(2.0, {"scale": True})
    assert f(s, 3.0) == 6.0
    s.options["scale"] = False
    assert f(s, 3.0) == 3.0, "the same dict, with something else in it"
    s.options["scale"] = True
    assert f(s, 3.0) == 6.0 and f(Scaled(5.0, {"scale": False}), 3.0) == 3.0
    assert ft.jit(ft.grad(lambda s: s.x**2))(s).x == 4.0


def test_rows_of_leaves_share_one_structure():
    assert tree.leaves([1.0, np.ones(3)])[0] == 1.0  # whose classes are known from now on
    for make in (tuple, list):
        assert tree.structure(make((1.0, 2.0))) is tree.structure(make((np.ones(3), 4.0))) != tree.structure(make((1.0,)))
    assert tree.structure((1.0, (2.0,))) != tree.structure((1.0, 2.0)) != tree.structure([1.0, 2.0])
    assert tree.flatten(()) == ([], tree.structure(()))
    assert tree.flatten((1.0, None))[0] == [1.0]


def test_structures_print():
    assert repr(tree.structure({"a": [1, 2], "b": None})) == "TreeDef({'a': [*, *], 'b': None})"
    assert repr(tree.structure(1)) == "TreeDef(*)"


def test_dataclasses():
    out = tree.map(lambda x: x * 2, Box(1, 5, static="kept"))
    assert out == Box(2, 10, static="kept")
    assert tree.map(lambda x: x + 1, Frozen(1)) == Frozen(2)
    late = tree.map(lambda x: x * 2, Late(1))
    assert late.a == 2 and late.total == "computedcomputed"
    assert tree.leaves(Box) == [Box], "a class is a leaf, only its instances are containers"
    with pytest.raises(TypeError, match="a must be a number"):
        tree.map(str, Checked(1))


def test_an_array_in_a_static_field_is_structure_by_its_elements():
    weigh = ft.jit(lambda box: box.a * box.static.sum())
    box = Box(3.0, None, np.ones(2000))
    assert weigh(box) == weigh(Box(3.0, None, np.ones(2000))) == 6000.0
    box.static[1000] = 5.0
    assert weigh(box) == 6012.0
    grad = ft.grad(lambda box: box.a**2 * box.static.sum())(box)
    assert grad.a == 6.0 * 2004.0 and grad.static is box.static
    assert tree.map(lambda a, b: a + b, Box(1, 2, np.ones(2)), Box(3, 4, np.ones(2))).a == 4
    for other in (np.zeros(2), np.ones(3), np.ones(2, int), 1.0):
        assert tree.structure(Box(1, 2, np.ones(2))) != tree.structure(Box(1, 2, other))


@dataclasses.dataclass
class Checked:
    a: object

    def __post_init__(self):
        if isinstance(self.a, str):
            raise TypeError("a must be a number")


def test_subclasses_of_containers_keep_their_type_or_are_leaves():
    t = ListSubclass([1, 2])
    leaves, treedef = tree.flatten(t)
    again = tree.unflatten(treedef, leaves)
    assert type(again) is ListSubclass and again == t


def test_leaves_are_never_compared_or_copied():
    a = np.ones(3)
    leaves, treedef = tree.flatten([a, object])
    assert leaves[0] is a
    assert tree.unflatten(treedef, leaves)[0] is a


def test_errors():
    treedef = tree.structure([1, 2])
    with pytest.raises(errors.TreeError, match="2 leaves, got 3"):
        tree.unflatten(treedef, [1, 2, 3])
    with pytest.raises(errors.TreeError, match="structure"):
        tree.map(lambda a, b: a, [1], (1,))
    with pytest.raises(errors.TreeError, match="structure"):
        tree.map(lambda a, b: a, {"a": 1}, {"b": 1})


def test_no_recursion():
    deep = 0
    for k in range(20_000):
        deep = [deep] if k % 2 else (deep,)
    old, frame, depth = sys.getrecursionlimit(), sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    sys.setrecursionlimit(depth + 100)
    try:
        leaves, treedef = tree.flatten(deep)
        assert leaves == [0]
        assert tree.leaves(tree.map(lambda x: x + 1, deep)) == [1]
        assert treedef == tree.structure(deep)
        hash(treedef)
    finally:
        sys.setrecursionlimit(old)


def test_printing_a_deep_structure_does_not_recurse():
    deep = 0
    for _ in range(5000):
        deep = [deep]
    assert isinstance(repr(tree.structure(deep)), str)


def test_cyclic_structures_are_not_followed_forever():
    """A container inside itself has no leaves list; Python's own limit on memory is not the answer."""
    t = [1]
    t.append((t[0],))
    assert tree.leaves(t) == [1, 1]


TREES = st.recursive(
    st.integers() | st.text(max_size=2) | st.none() | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.dictionaries(st.integers() | st.text(max_size=1), inner, max_size=3)
        | st.tuples(inner, inner).map(lambda ab: Point(*ab))
        | st.tuples(inner, inner).map(lambda ab: Box(*ab))
        | st.lists(inner, max_size=3).map(lambda xs: Registered(*xs))
        | st.dictionaries(st.text(max_size=2), inner, max_size=3).map(collections.OrderedDict)
    ),
    max_leaves=15,
)


@given(TREES)
def test_round_trip(t):
    leaves, treedef = tree.flatten(t)
    assert tree.unflatten(treedef, leaves) == t
    assert tree.flatten(tree.unflatten(treedef, range(len(leaves))))[0] == list(range(len(leaves)))
    assert tree.structure(tree.map(lambda x: [x], t)).num_leaves == len(leaves)


@given(TREES, TREES)
def test_equal_structures_have_equal_hashes(a, b):
    one, two = tree.structure(a), tree.structure(b)
    if one == two:
        assert hash(one) == hash(two)
        assert tree.map(lambda x, y: y, a, b) == b
    else:
        with pytest.raises(errors.TreeError):
            tree.map(lambda x, y: y, a, b)


def test_a_structure_that_was_hashed_is_found_in_another_process():
    structure = tree.structure({"a": 1.0, "b": [2.0]})
    code = (
        "import pickle, sys; from functrace import tree\n"
        f"sent = pickle.loads({pickle.dumps({hash(structure): structure})!r})\n"
        "print([{tree.structure({'b': [0], 'a': 0}): 'found'}.get(x) for x in sent.values()])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "['found']"


@pytest.mark.parametrize(
    "call", [((), {}), ((1.0,), {}), ((1.0, [2.0], (3.0,), [(4.0,)]), {}), ((), {"a": 1.0}), ((1.0,), {"a": 2.0}), (({}, []), {})]
)
def test_calls_are_flattened_as_their_arguments_and_keywords(call):
    leaves, structure = tree.called(*call)
    assert (leaves, structure) == tree.flatten(call)
    assert structure.orders == tree.flatten(call)[1].orders
    assert tree.built(structure, leaves) == call


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_the_order_of_names_is_that_of_each_dict(names):
    given = {name: 1.0 for name in names}
    rebuilt = [tree.built(*reversed(tree.flatten(x))) for x in (given, (given,), [[given]])]
    rebuilt.append(tree.built(*reversed(tree.called((given, 2.0), {})))[0])
    assert ["".join(x) for x in (rebuilt[0], rebuilt[1][0], rebuilt[2][0][0], rebuilt[3][0])] == [names] * 4


def test_the_order_of_keys_of_several_types_does_not_count():
    a, b = {1: 1.0, "a": 2.0, (1, 2): 3.0}, {(1, 2): 3.0, "a": 2.0, 1: 1.0}
    assert tree.structure(a) == tree.structure(b) and tree.leaves(a) == tree.leaves(b)
    assert tree.map(lambda x, y: x - y, a, b) == {1: 0.0, "a": 0.0, (1, 2): 0.0}
