"""Nodes of operations: their rules, applied to arrays by `backward` and to tensors under `create_graph`.

An `Op` is a row of the binding table: a function of arrays, its rules (where it has none, `functrace.vjp` of the function gives
the pullback), and the name PyTorch gives its node.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.torch import _contact, _dtypes
from functrace.torch._contact import Tracer, fit, replaced, same, vjp
from functrace.torch._engine import FREED, AccumulateGrad, Edge, Node, check_versions, next_number, node_class
from functrace.torch._layout import upright
from functrace.torch._modes import recording
from functrace.torch._tensor import Tensor, new, owned, wrap
from functrace.torch._watch import SavedTensor, saved_names

LARGE = 1 << 10  # elements from which on a node keeps of what no rule looks into only shape and dtype
ARRAYS = (np.ndarray, Tracer)
SCALARS = (float, int, complex, bool, np.generic)
NUMBERS = frozenset((float, int, complex, bool))


class Like:
    """Shape and dtype of an array that is not kept."""

    __slots__ = ("dtype", "ndim", "shape")

    def __init__(self, a: Any) -> None:
        self.shape, self.dtype, self.ndim = a.shape, a.dtype, a.ndim


class Op:
    """A row: `fun(*arrays, *params)`; `rules[k](g, ans, *arrays, *params)` for the gradient of argument k.

    - `second[k]` names the node of that gradient's own graph; `again[k]` is the rule on tensors, where there is one: see `_apply`.
    - `frees`: whether PyTorch saves values for it, which a second `backward` then misses.
    - `many`: the result is a tuple. `view`: it shares its first argument's memory.
    - `alone`: its gradient takes only the cotangent in PyTorch too, as a view's does: that of a constant one does not require grad.
    - `flat`: its gradient depends piecewise constantly on the arguments, so that there is no second derivative.
    - `algebra`: the rules are made of operators and ufuncs, so under `create_graph` they are applied to tensors as they stand,
      each step an operation as in PyTorch.
    - `lies`: how its result lies in memory, a function of `_layout`; None is as NumPy made it.
    """

    def __init__(
        self,
        node: str,
        fun: Callable[..., Any],
        rules: Sequence[Callable[..., Any] | None] | None = None,
        second: str | Sequence[str] = "Mul",
        *,
        frees: bool | None = None,
        view: bool = False,
        many: bool = False,
        alone: bool = False,
        flat: bool = False,
        algebra: bool = False,
        lies: Callable[..., Any] | None = None,
    ) -> None:
        self.name = node if "Backward" in node else node + "Backward0"
        self.fun, self.rules, self.view, self.many, self.flat = fun, None if rules is None else tuple(rules), view, many, flat
        self.alone, self.lies = alone or view, lies
        seconds = (second,) * max(1, len(rules or ())) if isinstance(second, str) else second
        self.second = [s if s[-1].isdigit() else s + "Backward0" for s in seconds]
        if self.rules is None:
            self.frees = True if frees is None else frees
            return
        arity = len(self.rules)
        self.again: list[Callable[..., Any] | None] = list(self.rules) if algebra else [None] * arity
        self.looks = [_contact.looks(rule, arity) for rule in self.rules]
        self.frees = any(any(row) for row in self.looks) if frees is None else frees
        self.by_result = any(row[0] for row in self.looks)
        self.seen: dict[int, tuple[bool, list[int], list[int]]] = {}

    def seen_by(self, wanted: int) -> tuple[bool, list[int], list[int]]:
        """Whether rules of the `wanted` arguments, bits below a leading 1, look into the result; into which arguments; which not."""
        count = wanted.bit_length() - 1
        rows = [row for k, row in enumerate(self.looks[:count]) if wanted >> k & 1]
        seen = [any(row[k] for row in rows) for k in range(count + 1)]
        looked, others = ([k - 1 for k, found in enumerate(seen) if k and found is wish] for wish in (True, False))
        self.seen[wanted] = seen[0], looked, others
        return self.seen[wanted]

    @functools.cached_property
    def node(self) -> Any:
        """The class of its nodes, made with the first of them, for importing is to be fast."""
        if self.rules is None:
            return node_class(self.name, PullNode, self, op=self, frees=self.frees)
        base = RuleNode if self.many else {1: UnaryNode, 2: BinaryNode}.get(len(self.rules), RuleNode)
        return node_class(self.name, base, self, op=self, rules=self.rules, frees=self.frees)

    @functools.cached_property
    def complex_node(self) -> Any:
        """The class of its nodes on complex numbers: PyTorch conjugates what comes and what goes."""
        rules: Any = self.rules
        base = self.node.__bases__[0]
        return node_class(self.name, base, (self, "c"), op=self, rules=tuple(r and _conjugating(r) for r in rules), frees=self.frees)


def _conjugating(rule: Callable[..., Any]) -> Callable[..., Any]:
    def conjugated(g: Any, *rest: Any) -> Any:
        return conjugate(rule(tuple(map(np.conjugate, g)) if isinstance(g, tuple) else np.conjugate(g), *rest))

    return conjugated


def conjugate(d: Any) -> Any:
    """PyTorch's gradient of complex arguments is the conjugate of functrace's. Its zeros have no sign."""
    return np.conjugate(d) + 0


class OpNode(Node):
    """A node of an op; `saved` begins with the arguments and the result, and ends with the checks."""

    op: Op

    def opened(self) -> Any:
        """What is saved, after a check that it was not written to. `UnaryNode` and `BinaryNode` have this inlined."""
        saved = self.saved
        if saved is None:
            raise RuntimeError(FREED)
        for cell, version, _ in saved[-1]:
            if cell[0] != version:
                self.modified(saved[-1], *saved[:2])
        return saved

    def modified(self, checks: Sequence[Any], args: Sequence[Any], ans: Any) -> None:
        """Raise, naming the saved value that was written."""
        rows: list[Any] = [(cell, version, None, k) for cell, version, k in checks if k.__class__ is not int]  # of parameters: the first
        for cell, version, k in checks[len(rows) :]:
            edge: Edge | None = (self, 0)
            if k >= 0:
                edge = self.edges[k] if len(cell) == 1 else (cell[1] if id(args[k]) == cell[2] else "AsStrided", 0)
                edge = ("AsStrided", 0) if edge and getattr(getattr(edge[0], "op", None), "view", False) else edge  # views are made anew
            elif isinstance(ans, tuple):  # of values and indices, those are kept
                edge, ans = None, ans[-1]
            rows.append((cell, version, edge, ans if k < 0 else args[k]))
        check_versions(rows)


class RuleNode(OpNode):
    """A node that has a rule for each argument; `saved` is (args, ans, params, checks)."""

    rules: tuple[Callable[..., Any] | None, ...]

    def pack(self, saved: Any, hook: Callable[[Any], Any]) -> Any:
        """Each array that a rule looks into goes through `hook`, in the order of the gradients; the others are kept as shapes."""
        args, ans, params, checks = saved
        kept, cells = {}, {k: cell for cell, _, k in checks if k.__class__ is int}  # type: tuple[dict[int, Any], dict[int, Any]]
        for edge, row in zip(self.edges, self.op.looks):
            for k in range(1, len(row)) if edge is not None else ():
                if row[k] and k not in kept and isinstance(args[k - 1], ARRAYS):
                    kept[k] = hook(_seen(args[k - 1], self.edges[k - 1], cells.get(k - 1)))
            if edge is not None and row[0] and 0 not in kept and isinstance(ans, ARRAYS):
                kept[0] = hook(unpacked(ans, (self, 0), cells.get(-1)))
        shapes = [Like(a) if isinstance(a, np.ndarray) and a.size > LARGE else a for a in (ans, *args)]
        return kept, shapes, params, [check for check in checks if check[2].__class__ is not int]

    def unpack(self, saved: Any, hook: Callable[[Any], Any]) -> Any:
        """The way back. Only parameters are still checked: a version can't be followed through hooks."""
        kept, shapes, params, checks = saved
        found = {k: hook(x)._a for k, x in kept.items()}
        ans, *args = (found.get(k, a) for k, a in enumerate(shapes))
        return args, ans, params, checks

    def backward(self, g: Any, edges: Sequence[Edge | None]) -> Sequence[Any]:
        args, ans, params, _ = self.opened()
        if ans.__class__ is tuple:
            g = tuple([np.zeros(a.shape, a.dtype) if x is None else x for x, a in zip(g if self.outputs > 1 else (g,), ans)])
        out: list[Any] = []
        for edge, rule, x in zip(edges, self.rules, args):
            if edge is None or rule is None:
                out.append(None)
            else:
                d = rule(g, ans, *args, *params)
                out.append(d if d.dtype is x.dtype and d.shape == x.shape else fit(d, x))
        return out

    def restate(self, g: Any, edges: Sequence[Edge | None]) -> Sequence[Any]:
        """Gradients of the arguments as tensors: each rule, fitted to its argument, is an operation on what was saved."""
        args, ans, params, checks = self.opened()
        op, many, result = self.op, isinstance(ans, tuple), ans
        tensors: Any = args
        if not op.flat:
            tensors = [unpacked(a, e) for a, e in zip(args, self.edges)]
            if op.by_result and not many:
                result = unpacked(ans, (self, 0))
            for cell, _, k in checks:
                if k.__class__ is int and not (many and k < 0):
                    (tensors[k] if k >= 0 else result)._ver = cell
        if many:
            g = [wrap(np.zeros(a.shape, a.dtype)) if x is None else x for x, a in zip(g if self.outputs > 1 else [g], ans)]
        out: list[Any] = []
        for k, (edge, rule, x) in enumerate(zip(edges, self.rules, args)):
            if edge is None or rule is None or op.second[k] == "ZeroBackward0":
                out.append(wrap(np.zeros(x.shape, x.dtype)) if edge and rule else None)
                continue
            if rule is same and g._a.shape == x.shape and g._a.dtype == x.dtype:
                out.append(g)
                continue
            again = op.again[k]
            if again is not None and g._a.dtype.kind == "f":
                d = again(g, result, *tensors, *params)
                out.append(d if d._a.shape == x.shape and d._a.dtype == x.dtype else fit_tensor(d, x))
            else:
                like, (looks, *seen) = Like(x), op.looks[k]
                given = [result if looks else ans, *(t if look else a for t, a, look in zip(tensors, args, seen))]

                def step(*xs: Any, rule: Any = rule, like: Any = like, n: int = len(g) if many else 0) -> Any:
                    return fit(rule(xs[:n], *xs[n:], *params) if n else rule(*xs, *params), like)

                d = graft(op.second[k], step, (*(g if many else (g,)), *given), forced=True)
                if not d._rg and op.second[k].endswith("BackwardBackward0") and not op.alone:
                    d = graft(op.second[k], lambda *_, d=d: d._a, [unpacked(a, e) for a, e in zip(args, self.edges) if e], forced=True)
                out.append(d)
        return out

    def __dir__(self) -> list[str]:
        saved = sorted(saved_names(self.op))
        return [*(f"_raw{name}" for name in saved), *saved, "metadata", "name", "next_functions", "register_hook", "register_prehook"]

    def __getattr__(self, name: str) -> Any:
        names = saved_names(self.op)
        if name.startswith("_raw_saved_") and name[4:] in names:
            return SavedTensor(self, name[4:])
        if name not in names:
            return super().__getattr__(name)
        k = names[name]
        by_result, _, others = self.op.seen_by(sum((1 << j for j, e in enumerate(self.edges) if e is not None), 1 << len(self.edges)))
        if k in others or (k < 0 and not by_result):
            return None  # nothing looks into it
        args, ans, params, _ = self.opened()
        if k < 0:
            return unpacked(ans, (self, 0))
        if k >= len(args):
            return params[k - len(args)]
        edge = self.edges[k]
        return _seen(args[k], edge) if edge is not None else wrap(args[k]) if isinstance(args[k], ARRAYS) else args[k]


class UnaryNode(RuleNode):
    """One argument, one result."""

    def backward(self, g: Any, edges: Sequence[Edge | None]) -> Sequence[Any]:
        saved = self.saved
        if saved is None:
            raise RuntimeError(FREED)
        args, ans, params, checks = saved
        for cell, version, _ in checks:
            if cell[0] != version:
                self.modified(checks, args, ans)
        x = args[0]
        d = self.rules[0](g, ans, x, *params)  # type: ignore[misc]
        return (d if d.dtype is x.dtype and d.shape == x.shape else fit(d, x),)


class BinaryNode(RuleNode):
    """Two arguments, one result."""

    def backward(self, g: Any, edges: Sequence[Edge | None]) -> Sequence[Any]:
        saved = self.saved
        if saved is None:
            raise RuntimeError(FREED)
        args, ans, params, checks = saved
        for cell, version, _ in checks:
            if cell[0] != version:
                self.modified(checks, args, ans)
        first, second = edges
        x, y = args
        a = b = None
        if first is not None:
            a = self.rules[0](g, ans, x, y, *params)  # type: ignore[misc]
            if a.dtype is not x.dtype or a.shape != x.shape:
                a = fit(a, x)
        if second is not None:
            b = self.rules[1](g, ans, x, y, *params)  # type: ignore[misc]
            if b.dtype is not y.dtype or b.shape != y.shape:
                b = fit(b, y)
        return a, b


class PullNode(OpNode):
    """A node whose pullback came from `vjp`; `saved` is (args, avals, pull, fun, which, checks)."""

    def pack(self, saved: Any, hook: Callable[[Any], Any]) -> Any:
        """The arguments go through `hook`; the pullback is found again from them."""
        args, avals, _, fun, which, checks = saved
        arrays, cells = [isinstance(a, ARRAYS) for a in args], {k: cell for cell, _, k in checks}
        rows = [hook(_seen(a, e, cells.get(k))) if arrays[k] else a for k, (a, e) in enumerate(zip(args, self.edges))]
        return fun, rows, arrays, which, avals

    def unpack(self, saved: Any, hook: Callable[[Any], Any]) -> Any:
        fun, args, arrays, which, avals = saved
        args = [hook(a)._a if is_array else a for a, is_array in zip(args, arrays)]
        return args, avals, vjp(_of(fun, args, which), *(args[k] for k in which))[1], fun, which, ()

    def backward(self, g: Any, edges: Sequence[Edge | None]) -> Sequence[Any]:
        args, avals, pull, _, which, _ = self.opened()
        row = g if self.outputs > 1 else (g,)
        cts: Any = [np.zeros(a.shape, a.dtype) if x is None else x if x.dtype == a.dtype else x.astype(a.dtype) for x, a in zip(row, avals)]
        out: list[Any] = [None] * len(self.edges)
        for k, d in zip(which, pull(tuple(map(np.conjugate, cts) if "c" in [a.dtype.kind for a in avals] else cts))):
            out[k] = fit(conjugate(d) if d.dtype.kind == "c" else d, args[k])
        return out

    def restate(self, g: Any, edges: Sequence[Edge | None]) -> Sequence[Any]:
        """Gradients of the arguments as tensors: `vjp` inside an operation on the cotangents and the arguments."""
        args, avals, _, fun, which, checks = self.opened()
        cells = {k: cell for cell, _, k in checks}
        asked = [k for k in which if edges[k] is not None]
        row = [wrap(np.zeros(a.shape, a.dtype)) if x is None else x for x, a in zip(g if self.outputs > 1 else [g], avals)]
        n = len(row)

        def step(*xs: Any) -> Any:
            return _pull_back(fun, replaced(args, which, xs[n:]), asked, xs[:n], avals)

        tensors = [args[k] if self.op.flat else unpacked(args[k], self.edges[k], cells.get(k)) for k in which]
        return replaced([None] * len(self.edges), asked, graft(self.op.second[0], step, (*row, *tensors), many=True))


def summed_to(d: Any, shape: tuple[int, ...]) -> Any:
    """A tensor summed over the axes that broadcasting from this shape added or stretched, or expanded to it."""
    old = d._a.shape
    if old != shape:
        lead = len(old) - len(shape)
        axes = (*range(lead), *(lead + k for k, n in enumerate(shape) if n == 1 and old[lead + k] != 1))
        if axes:
            d = d.sum(axes, True)
        if lead > 0:
            d = d.view(shape)
        elif d._a.shape != shape:
            d = d.expand(shape)
    return d


def fit_tensor(d: Any, like: Any) -> Any:
    """A gradient, a tensor, summed back to the shape and cast to the dtype of its argument."""
    d = summed_to(d, like.shape)
    return d if d._a.dtype == like.dtype else d.to(_dtypes.of(like.dtype))


def unpacked(a: Any, edge: Edge | None, cell: list[int] | None = None) -> Any:
    """A saved array as the tensor that it was; `cell` counts the writes to it."""
    if not isinstance(a, ARRAYS):
        return a
    t = wrap(a)
    if cell is not None:
        t._ver = cell
    if edge is not None:
        t._rg, t._edge = True, edge
    return t


def _seen(a: Any, edge: Edge | None, cell: list[int] | None = None) -> Any:
    """A saved argument as the user gets it: the leaf itself, or a tensor with the history that it had."""
    leaf = edge[0].variable if edge is not None and isinstance(edge[0], AccumulateGrad) else None
    return leaf if leaf is not None and leaf._a is a else unpacked(a, edge, cell)


def _pull_back(
    fun: Callable[..., Any], inputs: Sequence[Any], which: Sequence[int], cts: Sequence[Any], avals: Sequence[Any]
) -> tuple[Any, ...]:
    """Gradients in PyTorch's sense of `fun`, which returns a tuple, with respect to some of its inputs."""
    _, pull = vjp(_of(fun, inputs, which), *(inputs[k] for k in which))
    if any(a.dtype.kind == "c" for a in avals):
        cts = tuple(map(np.conjugate, cts))
    ds = pull(tuple(cts))
    return tuple(fit(conjugate(d) if d.dtype.kind == "c" else d, inputs[k]) for k, d in zip(which, ds))


def _of(fun: Callable[..., Any], inputs: Sequence[Any], which: Sequence[int]) -> Callable[..., Any]:
    return lambda *xs: fun(*replaced(inputs, which, xs))


def graft(name: str, fun: Callable[..., Any], inputs: Sequence[Any], many: bool = False, forced: bool = False) -> Any:
    """Apply a function of arrays that has no row of its own: a gradient under `create_graph`.

    A result that the tape shows not to depend on the inputs requires no grad, unless `forced`.
    """
    arrays = [t._a if isinstance(t, Tensor) else t for t in inputs]
    which = [k for k, t in enumerate(inputs) if isinstance(t, Tensor) and t._rg]
    whole = fun if many else lambda *xs: (fun(*xs),)
    if not which or not recording():
        out = tuple(wrap(upright(a)) for a in whole(*arrays))
        return out if many else out[0]
    results = pull_node(_GRAFT, node_class(name, PullNode, op=_GRAFT), whole, inputs, arrays, which, forced)
    return results if many else results[0]


def pull_node(
    op: Op,
    cls: Any,
    whole: Callable[..., Any],
    inputs: Sequence[Any],
    arrays: list[Any],
    which: list[int],
    forced: bool = True,
    made: tuple[Sequence[Any], Any] | None = None,
) -> tuple[Any, ...]:
    """The results of `whole`, and the node that keeps its pullback; `made` has both, where there is a faster way than `vjp`."""
    depends: list[bool] = []

    def noting(*xs: Any) -> Any:
        out = whole(*replaced(arrays, which, xs))
        depends.extend(forced or not isinstance(r, (np.ndarray, np.generic)) for r in out)  # traced: it depends on the arguments
        return out

    # Views, for the library below locks large arrays that it records; here version counters do that, as in PyTorch.
    answers, pull = made or vjp(noting, *[arrays[k][...] if isinstance(arrays[k], np.ndarray) else arrays[k] for k in which])
    node = new(cls)
    node.op = op
    node.edges = tuple(inputs[k]._edge if k in which else None for k in range(len(inputs)))
    node.number = next_number()
    tensors = []
    for k, r in enumerate(answers):
        t = wrap(owned(r, arrays, op.lies))
        if t._a.dtype.kind in "fc" and (made or depends[k]):
            t._rg, t._edge = True, (node, k)
        tensors.append(t)
    if len(tensors) > 1:
        node.outputs = len(tensors)
    kept = [k for k, t in enumerate(inputs) if isinstance(t, Tensor) and arrays[k] is t._a] if op.frees else ()
    checks = tuple((inputs[k]._ver, inputs[k]._ver[0], k) for k in kept)
    node.saved = arrays, [Like(t._a) for t in tensors], pull, whole, which, checks
    return tuple(tensors)


_GRAFT = Op("Graft", lambda x: x, lies=upright)


def prepared(
    op: Op, inputs: Sequence[Any], arrays: Sequence[Any], ans: Any, params: tuple[Any, ...], cell: list[int], sources: Sequence[Any] = ()
) -> tuple[Any, tuple[Any, ...]]:
    """The node, and what it is to save. `sources`: tensors, or None, that parameters were read from, which must not be written to."""
    checks: list[Any] = [(t._ver, t._ver[0], t._a) for t in sources if t is not None] if sources else []
    if len(inputs) == 1 and (a := arrays[0]).__class__ is ans.__class__ is np.ndarray and a.dtype.kind == ans.dtype.kind == "f":
        (by_result, by_argument), version = op.looks[0], inputs[0]._ver
        node = new(op.node)
        node.edges = (inputs[0]._edge,)
        node.number = next_number()
        if by_argument:
            checks.append((version, version[0], 0))
        elif a.size > LARGE:
            a = Like(a)
        if by_result:
            checks.append((cell, cell[0], -1))
        return node, ((a,), ans if by_result or ans.size <= LARGE else Like(ans), params, checks)
    edges: list[Any] = []
    wanted, bit = 0, 1  # the arguments that need a gradient, as bits
    many = ans.__class__ is tuple
    holds_complex = False
    for a in ans if many else (ans,):
        if a.dtype.kind == "c":
            holds_complex = True
    for t, a in zip(inputs, arrays):
        if isinstance(t, Tensor) and t._rg:
            edges.append(t._edge)
            wanted |= bit
            if a.dtype.kind == "c":
                holds_complex = True
        else:
            edges.append(None)
        bit += bit
    by_result, looked, others = op.seen.get(wanted + bit) or op.seen_by(wanted + bit)
    for k in looked:
        if isinstance(t := inputs[k], Tensor):
            version = t._ver
            checks.append((version, version[0], k))
    kept = list(arrays)
    for k in others:
        kept[k] = _unseen(kept[k])
    node = new(op.complex_node if holds_complex else op.node)
    node.edges = tuple(edges)
    node.number = next_number()
    if by_result:
        checks.append((cell, cell[0], -1))
    else:
        ans = tuple(map(_unseen, ans)) if many else _unseen(ans)
    return node, (kept, ans, params, checks)


def record(
    op: Op, inputs: Sequence[Any], arrays: Sequence[Any], ans: Any, params: tuple[Any, ...], cell: list[int], sources: Sequence[Any] = ()
) -> Any:
    """The node of an application of a row with rules: see `prepared`."""
    node, saved = prepared(op, inputs, arrays, ans, params, cell, sources)
    node.saved = saved
    return node


def _unseen(a: Any) -> Any:
    """What is kept of an array that no rule looks into."""
    return Like(a) if a.__class__ is np.ndarray and a.size > LARGE else a
