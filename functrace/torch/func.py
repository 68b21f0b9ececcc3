"""`torch.func`: PyTorch's function transforms. They follow the recorded graph, so they nest, and gradients flow through them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.torch._backward import grad as _autograd
from functrace.torch._batch import chunks, running, vmap
from functrace.torch._contact import boundary, replaced, tree
from functrace.torch._engine import AccumulateGrad, Edge, Same, below, next_number
from functrace.torch._modes import enable_grad, recording
from functrace.torch._ops import FUNCTIONS
from functrace.torch._tensor import Tensor, wrap
from functrace.torch.autograd.function import pushing

__all__ = [
    "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
]  # fmt: skip

_vmap = vmap  # which libraries import from `torch._vmap_internals`
Argnums = int | tuple[int, ...]
_LEVELS = {"grad_and_value": 1, "vjp": 1, "jvp": 1, "jacrev": 1, "jacfwd": 2, "hessian": 2}  # that PyTorch counts, where it shows them
_CALLED = {"grad_and_value": "grad_and_value(f)(*args)", "jvp": "jvp(f, primals, tangents)", "jacfwd": "jvp(f, primals, tangents)"}


class Alias(Same):
    """An argument of a transformed function: the tensor itself, but its gradient stops here first."""

    __module__ = "builtins"
    enters = True

    def __init__(self, edge: Edge | None) -> None:
        self.edges, self.number = (edge,), next_number()


def alias(t: Any, outer: bool, kind: type[Alias] = Alias) -> Any:
    """A tensor on the same memory with a node of its own, below which is, if `outer`, the tensor's history."""
    out = wrap(t._a)
    out._ver = t._ver
    out._rg, out._edge = True, (kind(t._edge if outer and t._rg else None), 0)
    return out


class Run:
    """A call of a function on aliases of its arguments: the edges of those, and the results."""

    def __init__(self, what: str, fun: Callable[..., Any], args: Sequence[Any], which: Sequence[int], kwargs: Any, has_aux: bool) -> None:
        self.outer = bool(recording())
        self.start = next_number()
        called = _CALLED.get(what, "vjp(f, *primals)")
        self.args = [args[k] for k in which]
        leaves, self.treedef = tree.flatten(self.args)
        for t in leaves:
            if not isinstance(t, Tensor):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {type(t)}")
            if t._a.dtype.kind not in "fc":
                raise RuntimeError("only Tensors of floating point dtype can require gradients")
        self.inputs = leaves
        inner = [alias(t, self.outer) for t in leaves]
        self.edges = [t._edge for t in inner]
        with enable_grad(), running(self.start, "GradTrackingTensor(lvl={}, value=", self._tracks, _LEVELS.get(what, 0)):
            out = fun(*replaced(args, which, tree.unflatten(self.treedef, inner)), **kwargs)
        self.aux = None
        if has_aux:
            if not (isinstance(out, tuple) and len(out) == 2):
                raise RuntimeError(f"{called}: output of function f should be a tuple: (output, aux) if has_aux is True")
            out, aux = out
            self.aux = tree.map(self.settle, aux)
        self.out, self.outdef = tree.flatten(out)
        for t in self.out:
            if not isinstance(t, Tensor):
                if what == "grad_and_value":
                    raise RuntimeError(f"{what}(f)(*args): Expected f(*args) to return a Tensor, got {type(t)}")
                raise RuntimeError(f"{called}: expected f(*primals) to return only tensors, got unsupported type {type(t)}")
            if what in ("vjp", "jacrev") and t._a.dtype.kind not in "fc":
                raise RuntimeError(
                    f"vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype {t.dtype}"
                )
        self.create = self.outer and self._reaches_out([t for t in self.out if t._rg])

    def _tracks(self, t: Any) -> bool:
        """Whether a tensor depends on the arguments."""
        mine = {edge[0] for edge in self.edges}
        return t._rg and not mine.isdisjoint(below([t._edge[0]], mine.__contains__))

    def _reaches_out(self, tensors: Sequence[Any]) -> bool:
        """Whether the results depend on a tensor that requires grad outside: then the derivative is to be recorded too."""
        mine = {edge[0] for edge in self.edges}
        if any(node.edges[0] is not None for node in mine):
            return True
        others = (node for node in below((t._edge[0] for t in tensors), mine.__contains__) if node not in mine)
        return any(node.number < self.start or type(node) is AccumulateGrad for node in others)

    def settle(self, t: Any) -> Any:
        """A result as it looks from outside: with a history only if there is one outside."""
        if not isinstance(t, Tensor) or not t._rg:
            return t
        return t if self.outer and self._reaches_out([t]) else wrap(t._a)

    def result(self) -> Any:
        """The results of the function."""
        return tree.unflatten(self.outdef, [self.settle(t) for t in self.out])

    def pull(self, cotangents: Sequence[Any], batched: bool = False) -> list[Any]:
        """Gradients of the arguments, as a flat list; zeros where nothing arrives."""
        pairs = [(t, g) for t, g in zip(self.out, cotangents) if t._rg]
        return self._carried(pairs, [Place(e) for e in self.edges], self.inputs, len(cotangents[0]._a) if batched else None)

    def _carried(self, pairs: Sequence[Any], places: Sequence[Any], likes: Sequence[Any], size: int | None) -> list[Any]:
        """The gradients at places of pairs of a tensor and what comes in there, a batch of a size; zeros where nothing arrives."""
        if not pairs:
            return [_zeros(x, size) for x in likes]
        found = _autograd(
            [t for t, _ in pairs],
            places,
            [g for _, g in pairs],
            retain_graph=True,
            create_graph=self.create or self.outer and any(g._rg for _, g in pairs),
            allow_unused=True,
            is_grads_batched=size is not None,
        )
        return [_zeros(x, size) if g is None else g for g, x in zip(found, likes)]

    def reached(self, t: Any) -> list[bool]:
        """Which arguments a result depends on."""
        if not t._rg:
            return []
        found = _autograd(t, [Place(e) for e in self.edges], _zeros(t), retain_graph=True, allow_unused=True)
        return [g is not None for g in found]

    def pushing(self) -> Callable[..., list[Any]]:
        """The tangents of the results, as a flat list, from those of the arguments: the gradient of the gradient is linear."""
        with enable_grad():
            seeds = [alias(_zeros(t), False) for t in self.out]
            pairs = [(t, v) for t, v in zip(self.out, seeds) if t._rg]
            gs: Any = [None] * len(self.edges)
            if pairs:
                places = [Place(e) for e in self.edges]
                with pushing():
                    gs = _autograd([t for t, _ in pairs], places, [v for _, v in pairs], create_graph=True, allow_unused=True)

        def push(tangents: Sequence[Any], batched: bool = False) -> list[Any]:
            used = [(g, t) for g, t in zip(gs, tangents) if g is not None and g._rg]
            return self._carried(used, seeds, self.out, len(tangents[0]._a) if batched else None)

        return push


def different_size(primal: Any, tangent: Any) -> str:
    """PyTorch's complaint about a tangent."""
    return (
        "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not supported. Tensor is of "
        f"size {list(primal._a.shape)} while the given forward gradient is of size {list(tangent._a.shape)}."
    )


class Place:
    """An edge, as `autograd.grad` takes it."""

    def __init__(self, edge: Edge) -> None:
        self.node, self.output_nr = edge


def _zeros(t: Any, size: int | None = None) -> Any:
    return wrap(np.zeros(t._a.shape if size is None else (size, *t._a.shape), t._a.dtype))


def _which(argnums: Argnums, args: Sequence[Any]) -> list[int]:
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    chosen = argnums if isinstance(argnums, tuple) else (argnums,)
    if not chosen:
        raise RuntimeError("argnums must be non-empty")
    for k in chosen:
        if not -len(args) <= k < len(args):
            raise RuntimeError(f"Got argnum={k}, but only {len(args)} positional inputs")
    which = [k % len(args) for k in chosen]
    if len(set(which)) < len(which):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return which


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of `func`, whose result is one number, and that result."""

    @boundary
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        run = Run("grad_and_value", func, args, _which(argnums, args), kwargs, has_aux)
        if len(run.out) != 1 or len(run.outdef.nodes) != 1:
            raise RuntimeError(
                f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(tree.unflatten(run.outdef, run.out))}"
            )
        (out,) = run.out
        if out._a.shape:
            raise RuntimeError(
                f"grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with {len(out._a.shape)} dims. Maybe "
                "you wanted to use the vjp or jacrev APIs instead?"
            )
        if out._a.dtype.kind != "f":
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {out.dtype}")
        gs = tree.unflatten(run.treedef, run.pull([wrap(np.ones_like(out._a))]))
        found = tuple(gs) if isinstance(argnums, tuple) else gs[0]
        return (found, (run.result(), run.aux)) if has_aux else (found, run.result())

    return wrapper


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of `func`, whose result is one number.

    >>> import functrace.torch as torch
    >>> torch.func.grad(torch.func.grad(torch.sin))(torch.tensor(0.5))
    tensor(-0.4794)
    """
    both = grad_and_value(func, argnums, has_aux)

    @boundary
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gs, value = both(*args, **kwargs)
        return (gs, value[1]) if has_aux else gs

    return wrapper


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The result of `func(*primals)`, and a function of cotangents of it that returns a tuple of gradients."""
    run = Run("vjp", func, primals, range(len(primals)), {}, has_aux)

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        leaves, treedef = tree.flatten(cotangents)
        if treedef != run.outdef:
            raise RuntimeError(
                f"Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. "
                f"cotangents: {treedef!r}, primal output: {run.outdef!r}"
            )
        return tuple(tree.unflatten(run.treedef, run.pull(leaves)))

    return (run.result(), vjp_fn, run.aux) if has_aux else (run.result(), vjp_fn)


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """The result of `func(*primals)`, and its derivative along `tangents`."""
    if not isinstance(primals, tuple):
        raise RuntimeError("jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    for given, what in ((primals, "primals"), (tangents, "tangents")):
        leaves = tree.leaves(list(given))
        if not leaves:
            raise RuntimeError(f"jvp(f, primals, tangents): Expected {what} to contain at least one Tensor.")
        for x in leaves:
            if not isinstance(x, Tensor):
                raise RuntimeError(f"jvp(f, primals, tangents): Expected {what} to only contain Tensors, got {type(x)}")
    run = Run("jvp", func, primals, range(len(primals)), {}, has_aux)
    if strict and not all(any(run.reached(t)) for t in run.out):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed with strict=True."
        )
    out = run.result(), _pushed(run, run.pushing(), tangents)
    return (*out, run.aux) if has_aux else out


def _pushed(run: Run, push: Callable[..., list[Any]], tangents: Any) -> Any:
    leaves, treedef = tree.flatten(list(tangents))
    if treedef != run.treedef:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. For example, if primals is a "
            "tuple of 3 tensors, tangents also must be."
        )
    for t, x in zip(leaves, run.inputs):
        if t._a.shape != x._a.shape:
            raise RuntimeError(different_size(x, t))
    return tree.unflatten(run.outdef, push(leaves))


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The result of `func(*primals)`, and its derivative there, a function of tangents."""
    run = Run("linearize", func, primals, range(len(primals)), {}, False)
    push = run.pushing()
    return run.result(), lambda *tangents: _pushed(run, push, tangents)


def _jacobian(what: str, func: Callable[..., Any], argnums: Argnums, has_aux: bool, chunk_size: int | None) -> Callable[..., Any]:
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"{what}: `chunk_size` should be greater than 0.")

    @boundary
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        run = Run(what, func, args, _which(argnums, args), kwargs, has_aux)
        blocks = jacobian_blocks(run, what == "jacfwd", chunk_size)
        rows = []
        for row in blocks:
            found = tree.unflatten(run.treedef, row)
            rows.append(tuple(found) if isinstance(argnums, tuple) else found[0])
        out = tree.unflatten(run.outdef, rows)
        return (out, run.aux) if has_aux else out

    return wrapper


def jacobian_blocks(run: Run, forward: bool, chunk_size: int | None = None) -> list[list[Any]]:
    """For each result, the derivative of it with respect to each argument: its shape is the result's, then the argument's."""
    ends, starts = (run.inputs, run.out) if forward else (run.out, run.inputs)
    total = sum(t._a.size for t in ends)
    if not total:
        return [[wrap(np.zeros((*t._a.shape, *x._a.shape), t._a.dtype)) for x in run.inputs] for t in run.out]
    push = run.pushing() if forward else run.pull
    parts = [push(basis(ends, part, total), True) for part in chunks(total, chunk_size)]
    whole = [column[0] if len(column) == 1 else FUNCTIONS["cat"](column) for column in zip(*parts)]
    blocks, place = [], 0
    for end in ends:
        n = end._a.size
        blocks.append([w[place : place + n].reshape((*end._a.shape, *s._a.shape)) for w, s in zip(whole, starts)])
        place += n
    if not forward:
        return blocks
    return [[_turned(blocks[k][j], len(x._a.shape)) for k, x in enumerate(run.inputs)] for j in range(len(run.out))]


def _turned(block: Any, n: int) -> Any:
    """The argument's axes, which are in front, go to the end."""
    rest = len(block._a.shape) - n
    return block.permute(*range(n, n + rest), *range(n)) if n and rest else block


def basis(ends: Sequence[Any], part: slice, total: int) -> list[Any]:
    """A part of the basis of what several tensors hold together: of each, its rows along a first axis."""
    first = part.start or 0
    n = part.stop - first
    columns = np.split(np.eye(n, total, first), np.cumsum([end._a.size for end in ends])[:-1], axis=1)
    return [wrap(rows.astype(end._a.dtype).reshape(n, *end._a.shape)) for rows, end in zip(columns, ends)]


def jacrev(func: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None) -> Callable[..., Any]:
    """A function that returns the Jacobian of `func`, computed row by row, all rows at once."""
    return _jacobian("jacrev", func, argnums, has_aux, chunk_size)


def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error", chunk_size: int | None = None
) -> Callable[..., Any]:
    """A function that returns the Jacobian of `func`, computed column by column, all columns at once."""
    return _jacobian("jacfwd", func, argnums, has_aux, chunk_size)


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that returns the second derivatives of `func`."""
    return _jacobian("hessian", jacrev(func, argnums), argnums, False, None)


def functional_call(
    module: Any, parameter_and_buffer_dicts: Any, args: Any = None, kwargs: Any = None, *, tie_weights: bool = True, strict: bool = False
) -> Any:
    """Call a module with other tensors in the place of its parameters and buffers.

    `parameter_and_buffer_dicts` maps their names to tensors (or is a sequence of such dicts). A tensor that the module has under
    several names is replaced in all of them, if `tie_weights`. With `strict`, all must be given.
    """
    given = parameter_and_buffer_dicts
    if not isinstance(given, dict):
        merged: dict[str, Any] = {}
        for d in given:
            twice = merged.keys() & d.keys()
            if twice:
                raise ValueError(f"{sorted(twice)} appeared in multiple dictionaries; behavior of functional call is ambiguous")
            merged.update(d)
        given = merged
    slots: dict[str, tuple[dict[str, Any], str]] = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        for table in (part._parameters, part._buffers):
            slots.update({f"{prefix}.{k}" if prefix else k: (table, k) for k, v in table.items() if v is not None})
    old = {k: table[key] for k, (table, key) in slots.items()}
    new = {k: v for k, v in given.items() if k in slots}
    if tie_weights:
        tied: dict[int, Any] = {}
        for k, v in new.items():
            if tied.setdefault(id(old[k]), v) is not v:
                names = [name for name in new if old[name] is old[k]]
                raise ValueError(f"functional_call got multiple values for keys {names}, which are tied. Consider using tie_weights=False")
        new.update({k: tied[id(t)] for k, t in old.items() if k not in new and id(t) in tied})
    rows = (("Unexpected", given.keys() - slots), ("Missing", slots.keys() - new))
    wrong = [f"{what} key(s): {', '.join(map(repr, sorted(names)))}." for what, names in rows if names]
    if strict and wrong:
        raise RuntimeError("\n\t".join((f"Error(s) in reparametrizing for {type(module).__name__}:", *wrong)))
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    try:
        for k, v in new.items():
            slots[k][0][slots[k][1]] = v
        return module(*args, **(kwargs or {}))
    finally:
        for k, tensor in new.items():
            table, key = slots[k]
            if k in given and table[key] is not tensor:
                given[k] = table[key]
            table[key] = old[k]


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters, and the buffers, of models of one kind, stacked: for `vmap` over models."""
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({type(m) for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")

    def stacked(rows: list[dict[str, Any]]) -> dict[str, Any]:
        out = {}
        for k, first in rows[0].items():
            whole = FUNCTIONS["stack"]([r[k].detach() for r in rows])
            out[k] = whole.requires_grad_() if first._rg else whole
        return out

    return stacked([dict(m.named_parameters()) for m in models]), stacked([dict(m.named_buffers()) for m in models])


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """The module, whose normalisations now keep no running statistics: `vmap` could not write what differs between examples to them."""
    for m in root.modules():
        if getattr(m, "track_running_stats", False):
            m.running_mean = m.running_var = m.num_batches_tracked = None
            m.track_running_stats = False
    return root


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """The function itself: in-place operations need no removal here."""
    return func
