"""`torch.autograd.Function`: operations with the user's own backward."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from functrace.torch._backward import grad
from functrace.torch._contact import BatchTracer, Tracer, replaced
from functrace.torch._dtypes import warn
from functrace.torch._engine import FREED, Edge, Node, check_versions, next_number
from functrace.torch._missing import as_of
from functrace.torch._modes import enable_grad, paused, recording
from functrace.torch._nodes import Like, fit_tensor, unpacked
from functrace.torch._tensor import Tensor, new, wrap
from functrace.torch._views import check_writable, rebase, view_of

__all__ = ["BackwardCFunction", "Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]


_pushing: ContextVar[bool] = ContextVar("functrace.torch.pushing", default=False)


def is_pushing() -> bool:
    """Whether tangents are being computed."""
    return _pushing.get()


@contextmanager
def pushing(on: bool = True) -> Iterator[None]:
    """While it lasts, a Function's own jvp is used, where it has one: its transpose in the place of its backward."""
    token = _pushing.set(on)
    try:
        yield
    finally:
        _pushing.reset(token)


class VmapInfo(NamedTuple):
    """What a Function's `vmap` is told of the batch."""

    batch_size: int
    randomness: str


class FunctionCtx:
    """What `forward` leaves for `backward`."""

    _to_save: tuple[Any, ...] = ()
    saved_for_forward: tuple[Any, ...] = ()
    dirty_tensors: tuple[Any, ...] = ()
    non_differentiable: tuple[Any, ...] = ()
    materialize_grads = True
    needs_input_grad: tuple[bool, ...] = ()
    _node: Any = None

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for `backward`, where they are `ctx.saved_tensors`; writes to them are noticed."""
        self._to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for `jvp`, where they are `ctx.saved_tensors` too."""
        if not all(isinstance(t, Tensor) or t is None for t in tensors):
            raise AssertionError("save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes on ctx.")
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Say which arguments `forward` wrote to; it must return them."""
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say which results have no gradient."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros (else None) for results that no gradient reached."""
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` was given."""
        node = self._node and self._node()
        if node is None or self._forwarding:
            return self.saved_for_forward or self._to_save
        return tuple(node.recall())

    _forwarding = False

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The old name."""
        warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning)
        return self.saved_tensors

    @property
    def next_functions(self) -> tuple[Any, ...]:
        """The nodes of the arguments."""
        return self._node().next_functions  # type: ignore[no-any-return]

    def name(self) -> str:
        """Name of the node."""
        return type(self).__name__


class BackwardCFunction(FunctionCtx):
    """The context of one application."""


class FunctionNode(Node):
    """The node of an application; `saved` has, for each saved tensor, (tensor or array, version, number of the output or None)."""

    function: Any
    ctx: Any
    positions: list[Like | None]
    likes: list[Any]
    arity: int
    given: tuple[Edge | None, ...]  # the edges as they were when it was applied

    def __getattr__(self, name: str) -> Any:
        if name not in ("saved", "metadata") and "ctx" in self.__dict__:
            return getattr(self.ctx, name)
        return super().__getattr__(name)

    def keep(self, tensors: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Save tensors; outputs are kept as arrays, so that node and output are no cycle."""
        rows = []
        for t in tensors:
            k = next((j for j, out in enumerate(outputs) if out is t and t is not None), None)
            made = k is not None and t._rg and t._edge == (self, k)
            rows.append((None, 0, None, None) if t is None else (t._a if made else t, t._ver[0], t._ver, k if made else None))
        self.saved = rows

    def pack(self, saved: Any, hook: Callable[[Any], Any]) -> Any:
        """Every saved tensor goes through `hook`."""
        rows: list[Any] = []
        for t, _, _, k in saved:
            edge = None if t is None else (self, k) if k is not None else t._edge if t._rg else None
            rows.append(None if t is None else (hook(t if k is None else unpacked(t, edge)), edge))
        return rows

    def unpack(self, saved: Any, hook: Callable[[Any], Any]) -> Any:
        rows: list[Any] = []
        for row in saved:
            t = row and hook(row[0])
            rows.append((t if row is None or row[1] is None else unpacked(t._a, row[1]), 0, None, None))
        return rows

    def recall(self) -> list[Any]:
        """The saved tensors, if nothing was written to them since."""
        saved = self.saved
        if saved is None:
            raise RuntimeError(FREED)
        out = []
        for t, version, cell, k in saved:
            if k is not None:
                t = unpacked(t, (self, k), cell)
            if cell is not None and cell[0] != version:
                check_versions([(cell, version, t._edge, t._a)])
            out.append(t)
        return out

    def backward(self, g: Any, edges: Sequence[Edge | None]) -> Sequence[Any]:
        """Gradients of the arguments, by the user's backward."""
        row = [None if x is None else wrap(x) for x in (g if self.outputs > 1 else (g,))]
        return [None if d is None else d._a for d in self._apply(row)]

    def restate(self, g: Any, edges: Sequence[Edge | None]) -> Sequence[Any]:
        """`backward` on tensors: made of operations on them, the user's backward is recorded as it runs.

        It reads the arguments themselves; where `vmap` has put a node before one that all examples share, so must what is recorded.
        """
        start, before = next_number(), dict(zip(self.given, self.edges))
        ds = self._apply(list(g) if self.outputs > 1 else [g])
        if any(old != new for old, new in before.items()):
            ds = [d if d is None or not d._rg or d._edge not in before else unpacked(d._a, before[d._edge]) for d in ds]
            stack = [d._edge[0] for d in ds if d is not None and d._rg]
            while stack:
                node = stack.pop()
                if node.number > start:
                    node.edges = tuple(before.get(e, e) for e in node.edges)
                    stack += [e[0] for e in node.edges if e is not None]
        return ds

    def _apply(self, row: list[Any]) -> list[Any]:
        function, ctx, name = self.function, self.ctx, type(self).__name__
        if ctx.materialize_grads:
            row = [wrap(np.zeros(a.shape, a.dtype)) if x is None and a is not None else x for x, a in zip(row, self.likes)]
        rule = function.backward if function.backward is not Function.backward else function.vjp
        if function.jvp is not Function.jvp and (rule is Function.vjp or _pushing.get()):
            ds = self._transposed(row)
        else:
            ds = rule(ctx, row) if function.boxed_grads_call else rule(ctx, *row)
        ds = ds if isinstance(ds, tuple) else (ds,)
        if len(ds) < self.arity or any(d is not None for d in ds[self.arity :]):
            raise RuntimeError(f"function {name} returned an incorrect number of gradients (expected {self.arity}, got {len(ds)})")
        out: list[Any] = []
        for k, (d, like) in enumerate(zip(ds, self.positions)):
            if d is not None and not isinstance(d, Tensor):
                raise RuntimeError(f"expected Variable or None (got {type(d).__name__})")
            if like is None:
                if d is not None:
                    raise RuntimeError(
                        f"function {name} returned a gradient different than None at position {k + 1}, but the corresponding forward input "
                        "was not a Variable"
                    )
                continue
            if d is not None and self.edges[len(out)] is not None:
                shape, wanted = d._a.shape, like.shape
                lead = len(shape) - len(wanted)
                if lead < 0 or any(n not in (1, m) for n, m in zip(wanted, shape[lead:])):
                    raise RuntimeError(
                        f"Function {name} returned an invalid gradient at index {len(out)} - got {list(shape)} but expected shape "
                        f"compatible with {list(wanted)}"
                    )
                d = fit_tensor(d, like)
            out.append(d)
        return out

    def _transposed(self, row: list[Any]) -> tuple[Any, ...]:
        """The transpose of the user's jvp, which is linear in the tangents."""
        with enable_grad(), pushing(False):  # a jvp may apply its Function to the tangents
            ts = [
                None if like is None or like.dtype.kind not in "fc" else wrap(np.zeros(like.shape, like.dtype)).requires_grad_()
                for like in self.positions
            ]
            outs = self.push(ts)
            pairs = [(o, g) for o, g in zip(outs, row) if o is not None and g is not None and o._rg]
            which = [t for t in ts if t is not None]
            found = iter(grad([o for o, _ in pairs], which, [g for _, g in pairs], create_graph=True, allow_unused=True))
        return tuple(None if t is None else next(found) for t in ts)

    def push(self, tangents: Sequence[Any]) -> tuple[Any, ...]:
        """The tangents of the results, by the user's jvp."""
        self.ctx._forwarding = True
        try:
            out = self.function.jvp(self.ctx, *tangents)
        finally:
            del self.ctx._forwarding
        return out if isinstance(out, tuple) else (out,)


class _FunctionMeta(type):
    """Gives each Function the classes of its nodes."""

    def __init__(cls, name: str, bases: tuple[type, ...], attributes: dict[str, Any]) -> None:
        super().__init__(name, bases, attributes)
        made = {"__module__": "torch.autograd.function"}
        cls._ctx = type(name + "Backward", (BackwardCFunction,), {**made, "_forward_cls": cls})
        cls._node = type(name + "Backward", (FunctionNode,), {**made, "function": cls})


class Function(metaclass=_FunctionMeta):
    """Base of operations with their own `forward(ctx, ...)` and `backward(ctx, ...)`, used as `MyFunction.apply(...)`.

    Instead of taking `ctx`, `forward` may leave the context to `setup_context(ctx, inputs, output)`. `jvp` is used in forward mode,
    `vmap` under `torch.func.vmap` (without it the function is run on the batch, as with `generate_vmap_rule`).
    """

    generate_vmap_rule = boxed_grads_call = False
    _ctx: Any
    _node: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should invoke them on the "
            "class itself. Instantiating an autograd function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function with static "
            "forward method. (Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The operation."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save what `backward` needs."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(*args: Any, **kwargs: Any) -> Any:
        """The gradients of the arguments, from those of the results."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(*args: Any, **kwargs: Any) -> Any:
        """The tangents of the results, from those of the arguments."""
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with forward mode AD.")

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """The results for a batch, and their batch axes."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Apply the operation, and record it."""
        if kwargs or cls.setup_context is not Function.setup_context:
            args = _in_order(cls, args, kwargs)
        tensors = [a for a in args if isinstance(a, Tensor)]
        if any(isinstance(t._a, Tracer) and not isinstance(t._a, BatchTracer) for t in tensors):
            return _under_functrace(cls, args)
        ctx = cls._ctx()
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and bool(a._rg) for a in args)
        executable = recording() and any(ctx.needs_input_grad)
        node = new(cls._node)
        edges = tuple(t._edge if t._rg else None for t in tensors)
        with paused():
            output = _forward(cls, ctx, args)
        outputs = output if isinstance(output, tuple) else (output,)
        _check_dirty(ctx, outputs)
        if executable:
            node.ctx, node.edges, node.given, ctx._node = ctx, edges, edges, weakref.ref(node)
            node.number = next_number()
            node.arity = len(args)
            node.positions = [Like(a._a) if isinstance(a, Tensor) else None for a in args]
            node.likes = [Like(o._a) if isinstance(o, Tensor) else None for o in outputs]
            if len(outputs) > 1:
                node.outputs = len(outputs)
        results = tuple(_finished(ctx, node if executable else None, k, o, tensors) for k, o in enumerate(outputs))
        if executable:
            for k, t in enumerate(ctx._to_save):
                if t is not None and not isinstance(t, Tensor):
                    raise TypeError(f"save_for_backward can only save variables, but argument {k} is of type {type(t).__name__}")
            node.keep(ctx._to_save, results)
            ctx._to_save = ()
        return results if isinstance(output, tuple) else results[0]


def _in_order(cls: Any, args: tuple[Any, ...], kwargs: Any) -> tuple[Any, ...]:
    """Named arguments in their places, so that they get their gradients; the missing ones too, where `setup_context` sees them."""
    separate = cls.setup_context is not Function.setup_context
    given = inspect.signature(cls.forward).bind(*(args if separate else (None, *args)), **kwargs)
    if separate:
        given.apply_defaults()
    for name in given.kwargs:
        raise TypeError(f"forward() got an unexpected keyword argument '{name}'")
    return given.args if separate else given.args[1:]


def _check_dirty(ctx: Any, outputs: Sequence[Any]) -> None:
    if any(not any(t is o for o in outputs) for t in ctx.dirty_tensors):
        raise RuntimeError(
            "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified inplace "
            "must all be outputs of the Function."
        )


def _finished(ctx: Any, node: Any, k: int, out: Any, inputs: Sequence[Any]) -> Any:
    """A result with its history."""
    if not isinstance(out, Tensor):
        return out
    given = any(out is t for t in inputs)
    dirty = any(out is t for t in ctx.dirty_tensors)
    if node is None or out._a.dtype.kind not in "fc" or any(out is t for t in ctx.non_differentiable):
        if dirty:
            return out if node is None else out.detach()
        return view_of(out, out._a, None, (*out._chain, lambda a: a)) if given else out
    if dirty:
        if out._base is not None and node.outputs > 1:
            raise RuntimeError(
                "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return more than one "
                "Tensor: clone the input, or return only one."
            )
        if out._rg and out.is_leaf:
            raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
        if out._base is not None and out is not inputs[0]:
            raise NotImplementedError("mark_dirty of a view that is not the first argument: pass a clone.")
        check_writable(out, True)
        out._ver[0] += 1
        rebase(out, node, k)
        return out
    if given:
        out = view_of(out, out._a, None, (*out._chain, lambda a: a))
    if out._base is not None:
        out._made, out._seen, out._origin = (node, k), out._ver[0], "custom"
    else:
        out._rg, out._edge = True, (node, k)
    return out


def _forward(cls: Any, ctx: Any, args: tuple[Any, ...]) -> Any:
    separate = cls.setup_context is not Function.setup_context
    traces = [a._a.owner for a in args if isinstance(a, Tensor) and isinstance(a._a, BatchTracer)]
    if cls.vmap is not Function.vmap and traces:
        trace = max(traces, key=lambda t: t.id)
        output = _mapped(cls, trace, args)
    else:
        output = cls.forward(*args) if separate else cls.forward(ctx, *args)
    if separate:
        cls.setup_context(ctx, args, output)
    return output


def _mapped(cls: Any, trace: Any, args: tuple[Any, ...]) -> Any:
    """The user's own rule for a batch."""
    mine = [isinstance(a, Tensor) and isinstance(a._a, BatchTracer) and a._a.owner is trace for a in args]
    whole = [wrap(a._a.below) if m else a for a, m in zip(args, mine)]
    output, dims = cls.vmap(VmapInfo(trace.size, "error"), tuple(0 if m else None for m in mine), *whole)
    several = isinstance(output, tuple)
    outputs = output if several else (output,)
    dims = dims if isinstance(dims, tuple) else (dims,) * len(outputs)
    back = tuple(o if d is None else wrap(trace.tracer(np.moveaxis(o._a, d, 0))) for o, d in zip(outputs, dims))
    return back if several else back[0]


def _under_functrace(cls: Any, args: tuple[Any, ...]) -> Any:
    """Inside functrace's own transforms the user's backward becomes a custom rule."""
    from functrace import custom_vjp  # seldom needed, and not imported with functrace

    places = [k for k, a in enumerate(args) if isinstance(a, Tensor)]
    shape: list[Any] = []

    def fill(arrays: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(replaced(args, places, map(wrap, arrays)))

    def taken(output: Any) -> Any:
        shape[:] = [isinstance(output, tuple)]
        return tuple(o._a for o in (output if shape[0] else (output,)))

    def forward(*arrays: Any) -> Any:
        ctx = cls._ctx()
        with paused():
            return taken(_forward(cls, ctx, fill(arrays)))

    def forward_and_node(*arrays: Any) -> Any:
        inputs = fill([wrap(a) for a in arrays])
        inputs = tuple(t.requires_grad_() if isinstance(t, Tensor) and t._a.dtype.kind in "fc" else t for t in inputs)
        with enable_grad():
            output = cls.apply(*inputs)
        outputs = output if isinstance(output, tuple) else (output,)
        return taken(output), next(o._edge[0] for o in outputs if o._rg)

    def backward(node: Any, cts: Any) -> Any:
        ds = node.backward(tuple(cts) if node.outputs > 1 else cts[0], node.edges)
        return tuple(np.zeros(node.positions[k].shape, node.positions[k].dtype) if d is None else d for k, d in zip(places, ds))

    rule = custom_vjp(forward)
    rule.defvjp(forward_and_node, backward)
    results = tuple(map(wrap, rule(*(args[k]._a for k in places))))
    return results if shape[0] else results[0]


class InplaceFunction(Function):
    """A Function with an `inplace` flag, for older code."""


class DelayedError(Node):
    """Stands where a derivative is not there."""

    frees = False

    def backward(self, g: Any, edges: Sequence[Edge | None]) -> Sequence[Any]:
        """Raises."""
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")

    restate = backward


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """For a `backward` that can't be differentiated itself: to try that raises RuntimeError."""

    @functools.wraps(function)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with paused():
            outputs = function(ctx, *args)
        edges: list[Edge] = [a._edge for a in args if isinstance(a, Tensor) and a._rg]
        if not recording() or not edges:
            return outputs
        node = DelayedError()
        node.edges, node.number = tuple(edges), next_number()
        several = outputs if isinstance(outputs, tuple) else (outputs,)
        several = tuple(unpacked(o._a, (node, 0)) if isinstance(o, Tensor) else o for o in several)
        return several if isinstance(outputs, tuple) else several[0]

    return wrapper


as_of("torch.autograd.function", FunctionCtx, BackwardCFunction, Function, InplaceFunction)
