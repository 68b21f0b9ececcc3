"""Views and in-place operations: PyTorch's rules of base, view and version.

A view knows its base and the chain of functions that leads from the base's array to its own. A write through it gives the base a
`CopySlices` node, and all views of that base read it anew.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from functrace.torch import _dtypes
from functrace.torch._contact import HALF, BatchTracer, Tracer, View, complex_of, linked, vjp
from functrace.torch._dtypes import result_class, warn
from functrace.torch._engine import Edge, Node, next_number
from functrace.torch._layout import Meta, memory
from functrace.torch._modes import Untracked, check_inference, recording
from functrace.torch._nodes import LARGE, NUMBERS, Like, Op, graft, prepared, record
from functrace.torch._tensor import Tensor, new, settled, wrap


def view_of(x: Any, a: Any, edge: Edge | None, chain: tuple[Callable[[Any], Any], ...]) -> Any:
    """A tensor on `a`, a view of `x`; `chain` leads to it from the base."""
    t = new(Tensor)
    t._a = a
    version, base = x._ver, x._base
    t._ver = version
    t._base = x if base is None else base
    t._chain = chain
    t._seen = 0 if version.__class__ is Untracked else version[0]
    if edge is not None:
        t._made, t._rg = edge, True
    if x._origin or not recording():
        t._origin = x._origin or "no_grad"
    if a.__class__ is not np.ndarray and isinstance(a, Tracer) and not (x._a.shape and _shares(a, x._a)):  # NumPy's scalars have no views
        linked(a, x._a, _traced_view(t))
    return t


def _shares(a: Any, base: Any) -> bool:
    """Whether a traced value is a view of another, or itself."""
    while a is not base and getattr(a, "parent", None) is not None:
        a = a.parent[0]
    return a is base


def _traced_view(t: Any) -> View:
    """How a traced view is read from the array that it is one of, and written back to it."""
    steps, tensor, array = t._chain[-1:], weakref.ref(t), weakref.ref(t._a)

    def last() -> Any:
        alive = tensor()
        return steps or (alive._chain[-1:] if alive is not None else ())  # one of several results gets its chain later

    def read(base: Any) -> Any:
        return follow(base, last()) if last() else array()

    def write(base: Any, part: Any) -> Any:
        return _put(_mask(np.zeros(base.shape, base.dtype), last()), _spread(part, base, last()), base)

    return View(read, write, numbers=True)


def viewed(op: Op, x: Any, arrays: Sequence[Any], ans: Any, params: tuple[Any, ...], grad: bool) -> Any:
    edge = (record(op, (x,), arrays, ans, params, x._ver), 0) if grad else None
    return view_of(x, ans, edge, (*x._chain, lambda a: op.fun(a, *params)))


def follow(a: Any, chain: Sequence[Callable[[Any], Any]]) -> Any:
    """The part to which a chain of views leads."""
    for step in chain:
        a = step(a)
    return a


def unfollow(g: Any, _ans: Any, _x: Any, chain: Any) -> Any:
    """The cotangent rule of `follow`."""
    dtype = _x.dtype if "c" in (_x.dtype.kind, g.dtype.kind) else g.dtype
    if type(g) is np.ndarray and dtype.kind != "c":
        whole: Any = np.zeros(_x.shape, dtype)
        part = follow(whole, chain)
        if part.flags.writeable and np.may_share_memory(part, whole) and _once(part):
            part[...] = g
            return whole
    return vjp(lambda a: (follow(a, chain),), np.zeros(_x.shape, dtype))[1]((g,))[0]


def _once(a: Any) -> bool:
    """Whether no two elements of an array are one in memory, as far as its strides tell."""
    span = 0
    for step, n in sorted((abs(s), n) for s, n in zip(a.strides, a.shape) if n > 1):
        if step < span + a.itemsize:
            return False
        span += step * (n - 1)
    return True


def _spread(part: Any, base: Any, chain: Any) -> Any:
    """Zeros like the base, with `part` where a chain leads."""
    return np.conjugate(unfollow(np.conjugate(part), None, base, chain))


def _mask(zeros: Any, chain: Any) -> Any:
    """Zeros made 1 where a chain leads; of complex numbers perhaps one part only."""
    part = follow(zeros, chain)
    part[...] = 1 + 1j if part.dtype.kind == "c" else 1
    return zeros


def _put(mask: Any, part: Any, whole: Any) -> Any:
    """`part` where a `_mask` is not zero, else `whole`."""
    if mask.dtype.kind == "c":
        return complex_of(_put(mask.real, part.real, whole.real), _put(mask.imag, part.imag, whole.imag))
    return np.where(mask != 0, part, whole)


AS_STRIDED = Op("AsStrided", follow, [unfollow], "AsStrided")


_FORBIDDEN = {
    "no_grad": " with grad mode enabled. Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code "
    "by moving both the view and the inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or both "
    "outside (if you want the inplace to be tracked).",
    "multi": ". This view is the output of a function that returns multiple views. Such functions do not allow the output views to be "
    "modified inplace. You should replace the inplace operation by an out-of-place one.",
    "custom": ". This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic to handle "
    "view+inplace would override the custom backward associated with the custom Function, leading to incorrect gradients. This behavior "
    "is forbidden. You can fix this by cloning the output of the custom Function.",
}


def _forbidden(x: Any, what: str) -> RuntimeError:
    """PyTorch's complaint about a view that, or whose base, was written to."""
    unrecorded, made = x._origin == "no_grad", x._made
    who = f"Output {made[1]} of {type(made[0]).__name__.rpartition('Backward')[0]} is a view" if made else "A view"
    how = f"{' of a view which' if made else ''} was created in no_grad mode" if unrecorded else ""
    return RuntimeError(f"{who}{how} and {what} modified inplace{_FORBIDDEN[x._origin]}")


def way(t: Any) -> Any:
    """The chain from the base's array to the view's; it begins by undoing what turned the base in place since."""
    turns = t._base._chain
    if t._chain[: len(turns)] == turns:
        return t._chain[len(turns) :]
    return (*(turn.undo for turn in reversed(turns)), *t._chain)


def _regenerate(t: Any) -> Edge | None:
    """The edge of a view whose base was written to: it reads the base or, if that is detached, what the view last wrote."""
    base = t._base
    if not base._rg and t._written is not None and t._written[1] == t._ver[0]:
        base = wrap(base._a)
        base._rg, base._edge = True, t._written[0]
    if t._origin and recording():
        raise _forbidden(t, "its base or another view of its base has been")
    node = record(AS_STRIDED, (base,), [base._a], t._a, (way(t),), t._ver)
    _keep(t, t._made, node, 0)
    return node, 0


def _keep(x: Any, old: Edge | None, node: Any, k: int) -> None:
    """Move `retain_grad` of a tensor from its old edge to output `k` of a node."""
    if old is not None and old[0].retains and "_retains" in x.__dict__:
        old[0].retains = {j: ref for j, ref in old[0].retains.items() if ref() is not x}
        node.retains, node.watched = {**(node.retains or {}), k: weakref.ref(x)}, True


Tensor._regenerate = _regenerate  # type: ignore[assignment]


class CopySlices(Node):
    """A write through a view: the base's history runs through the operation on the part, and round it for the rest."""

    __module__ = "builtins"
    frees = False

    def name(self) -> str:
        """Its name in PyTorch."""
        return "torch::autograd::CopySlices"

    def __init__(self, base: Any, chain: Any, inner: Any) -> None:
        self.chain, self.inner, self.like = chain, inner, base._a
        if not isinstance(base._a, np.ndarray):
            self.like = Like(base._a)
        elif base._a.size <= LARGE:
            self.like = np.empty_like(base._a)
        self.edges = (base._edge if base._rg else None, *inner.edges[1:])
        self.saved = True

    def backward(self, g: Any, edges: Sequence[Edge | None]) -> Sequence[Any]:
        """Gradients of the base, and of the other arguments of the operation."""
        if isinstance(g, Tracer) or isinstance(self.like, Like):
            part = follow(g, self.chain)
            first, *others = self.inner.backward(part, self._inner(edges))
            return [None if edges[0] is None else self._rest(self._mask(), g, first), *others]
        whole = np.empty_like(self.like, dtype=g.dtype)  # laid out as the base is, so that the view is one of it too
        whole[...] = g
        part = follow(whole, self.chain)
        first, *others = self.inner.backward(part.copy(), self._inner(edges))
        part[...] = 0 if first is None else first
        return [whole if edges[0] is not None else None, *others]

    def _inner(self, edges: Sequence[Edge | None]) -> Sequence[Edge | None]:
        return edges[0] and self.inner.edges[0], *edges[1:]

    def _mask(self) -> Any:
        return _mask(np.zeros(self.like.shape, self.like.dtype) if isinstance(self.like, Like) else np.zeros_like(self.like), self.chain)

    def _rest(self, mask: Any, whole: Any, d: Any = None) -> Any:
        return _put(mask, np.zeros((), whole.dtype) if d is None else _spread(d, self.like, self.chain), whole)

    def restate(self, g: Any, edges: Sequence[Edge | None]) -> Sequence[Any]:
        """`backward` on tensors."""
        part = graft("AsStridedBackward0", lambda a: follow(a, self.chain), (g,))
        self.inner.edges = (self.inner.edges[0], *self.edges[1:])  # `vmap` may have put nodes before them
        first, *others = self.inner.restate(part, self._inner(edges))
        if edges[0] is None:
            return [None, *others]
        mask = self._mask()
        return [graft("CopySlices", lambda *gs: self._rest(mask, *gs), (g,) if first is None else (g, first)), *others]


# in-place operations


def beside(arrays: list[Any], dtype: Any) -> list[Any]:
    """The arguments of an operation; beside float16 arrays Python numbers are float32."""
    return [np.asarray(a, np.float32) if a.__class__ in NUMBERS else a for a in arrays] if dtype == HALF else arrays


def inplace(op: Op, x: Any, others: Sequence[Any] = (), params: tuple[Any, ...] = (), sources: Sequence[Any] = ()) -> Any:
    """Write the result of a row on `x` and others into `x`, and let `x`'s history (and its base's) be that."""
    recorded, a = opened(x, others), x._a
    if a.__class__ is Meta:
        return x
    inputs = (x, *others)
    arrays = beside([t._a if isinstance(t, Tensor) else t for t in inputs], a.dtype)
    for b in arrays[1:]:
        if b is not a and isinstance(b, np.ndarray) and isinstance(a, np.ndarray) and _partly(a, b):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. "
                "Please clone() the tensor before performing the operation."
            )
    try:
        ans = op.fun(*arrays, *params)
        if ans.__class__ is not np.ndarray:
            ans = settled(ans)
            if isinstance(ans, BatchTracer) and a.__class__ is np.ndarray:
                raise RuntimeError(
                    "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that "
                    "has more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped over in a "
                    "vmap. Please try to use out-of-place operators, or make `self` of what is vmapped over, as with x.new_zeros(...)."
                )
    except ValueError:
        raise (mismatch(*arrays[:2]) or RuntimeError(f"{op.name}: shapes do not fit")) from None
    except OverflowError:  # of a number that does not fit
        ans = settled(op.fun(*(_dtypes.wrapped(b, a.dtype) if b.__class__ is int else b for b in arrays), *params))
    if ans.dtype != a.dtype and a.dtype == HALF and ans.dtype.kind == "f":
        ans = ans.astype(HALF)
    if ans.shape != a.shape or ans.dtype != a.dtype:
        check_result(ans, a)
    if not (recorded and a.dtype.kind in "fc"):
        a[...] = ans
        x._ver[0] += 1
        return x
    if op.rules is None:
        raise NotImplementedError(f"{op.name}: no in-place form; use the operation that returns a new tensor.")
    if any(row[1] for row in op.looks):
        arrays[0] = a.copy()  # the rules want the values from before
    node, (args, answer, params, checks) = prepared(op, inputs, arrays, a, params, x._ver, sources)
    old = [check for check in checks if check[2].__class__ is not int or check[2] > 0]
    a[...] = ans
    x._ver[0] += 1
    if any(k.__class__ is int and k < 0 for _, _, k in checks):
        old.append((x._ver, x._ver[0], -1))
    rebase(x, node)  # before what may raise: hooks on what is saved
    node.saved = args, answer, params, old
    return x


def opened(x: Any, others: Iterable[Any]) -> bool:
    """Raise unless `x` may be written to; whether that is recorded, given the other arguments."""
    if x._ver.__class__ is Untracked:
        check_inference(x)
    recorded = False
    if recording():
        recorded = x._rg
        for t in others:
            recorded = recorded or (isinstance(t, Tensor) and t._rg)
        if recorded or x._base is not None:
            check_writable(x, recorded)
    a = x._a
    if type(a) is np.ndarray and (
        not a.flags.writeable or (a.ndim and 0 in a.strides and a.size > 1 and any(s == 0 and n > 1 for s, n in zip(a.strides, a.shape)))
    ):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() "
            "the tensor before performing the operation."
        )
    return recorded


def check_result(ans: Any, a: Any) -> None:
    """Raise unless a result can be written into an array."""
    if ans.shape != a.shape:
        raise RuntimeError(f"output with shape {list(a.shape)} doesn't match the broadcast shape {list(ans.shape)}")
    if ans.dtype is not a.dtype:
        check_cast(_dtypes.of(ans.dtype), _dtypes.of(a.dtype))


def check_cast(found: _dtypes.dtype, wanted: _dtypes.dtype) -> None:
    """Raise unless results of one dtype can be written to a tensor of another."""
    if not _dtypes.can_cast(found, wanted):
        raise RuntimeError(f"result type {found.scalar} can't be cast to the desired output type {wanted.scalar}")


def _partly(a: Any, b: Any) -> bool:
    """Whether two dense arrays share some, not all, of their memory."""
    if a.base is b.base is None or not np.may_share_memory(a, b):
        return False
    if a.strides == b.strides and a.shape == b.shape and a.ctypes.data == b.ctypes.data:
        return False
    return bool(_dense(a) and _dense(b))


def apart(value: Any, x: Any) -> Any:
    """`value`, or a copy of it if it shares memory with `x`, into which it is to be written."""
    a, b = value._a, x._a
    return value.clone() if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.may_share_memory(a, b) else value


def _dense(a: Any) -> bool:
    return bool(a.flags.c_contiguous or a.flags.f_contiguous)


def check_writable(x: Any, recorded: bool) -> None:
    if x._base is None:
        if x._rg and x.is_leaf:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        return
    if x._origin == "custom" or x._origin and (recorded if x._origin == "no_grad" else x._rg):
        raise _forbidden(x, "is being")
    if x._rg and x._base.is_leaf:
        raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")


def rebase(x: Any, node: Any, k: int = 0) -> None:
    """Let the history of `x`, which was written, be output `k` of a node."""
    if x._base is not None:
        slices = CopySlices(x._base, way(x), node)
        slices.number = next_number()
        x._written = (slices, 0), x._ver[0]
        x, node, k = x._base, slices, 0
    old = x._edge if x._rg else None
    x._rg, x._edge = True, (node, k)
    _keep(x, old, node, k)
    x._ver[1:] = [node.name(), id(x._a)]  # for the error text, should an older node have saved this


def type_name(x: Any) -> str:
    """The name of an object's type, or of a class, as PyTorch writes it."""
    if isinstance(x, type):
        return x.__qualname__ if x.__module__ == "builtins" else f"{x.__module__}.{x.__qualname__}"
    if hasattr(type(x), "requires_grad") and not hasattr(x, "_a"):
        return "a tensor of PyTorch itself: pass functrace.torch.from_numpy(x.numpy())"
    return "numpy." * (type(x).__module__ == "numpy") + type(x).__name__


def bad_argument(name: str, argument: str, position: int, found: Any) -> TypeError:
    """PyTorch's complaint about something that is not a tensor."""
    traced = isinstance(found, Tracer)
    given = "a traced value of functrace: pass torch.as_tensor(x), or take torch.func.grad of the function" if traced else type_name(found)
    return TypeError(f"{name}(): argument '{argument}' (position {position}) must be Tensor, not {given}")


def expanded(self: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The lengths to which `expand` brings a tensor, where -1 keeps one. Raises RuntimeError where it can't."""
    old = self._a.shape
    if len(shape) < len(old):
        raise RuntimeError(
            f"expand({_dtypes.kind_of(self._a.dtype)}{{{list(old)}}}, size={list(shape)}): the number of sizes provided ({len(shape)}) "
            f"must be greater or equal to the number of dimensions in the tensor ({len(old)})"
        )
    lead = len(shape) - len(old)
    full = []
    for k, n in reversed(list(enumerate(shape))):
        if n == -1 and k < lead:
            raise RuntimeError(f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {k}")
        m = old[k - lead] if k >= lead else 1
        n = m if n == -1 else n
        if m not in (1, n):
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) must match the existing size ({m}) at non-singleton dimension {k}.  Target sizes: "
                f"{list(shape)}.  Tensor sizes: {list(old)}"
            )
        full.append(n)
    return tuple(full[::-1])


def check_broadcast(x: Any, shape: tuple[int, ...]) -> None:
    """Raise unless a tensor can be written to one of that shape."""
    if x._a.shape != shape:
        if error := mismatch(np.broadcast_to(0, shape), x._a):
            raise error
        if (whole := np.broadcast_shapes(shape, x._a.shape)) != shape:
            raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(whole)}")


def check_expands(x: Any, shape: tuple[int, ...]) -> None:
    """Raise unless a tensor broadcasts to a shape."""
    if x._a.shape and x._a.shape != shape:
        expanded(x, shape)


def mismatch(a: Any, b: Any) -> RuntimeError | None:
    """PyTorch's error for arrays that do not broadcast."""
    x, y = np.shape(a), np.shape(b)
    n = max(len(x), len(y))
    x, y = (1,) * (n - len(x)) + x, (1,) * (n - len(y)) + y
    for k in range(n - 1, -1, -1):
        if x[k] != y[k] and 1 not in (x[k], y[k]):
            return RuntimeError(f"The size of tensor a ({x[k]}) must match the size of tensor b ({y[k]}) at non-singleton dimension {k}")
    return None


def written_to(name: str, out: Any, result: Any, given: Sequence[Any] = ()) -> Any:
    """What `out=` receives: resized to fit, and without a gradient, as in PyTorch."""
    if isinstance(result, tuple):
        for o, r in zip(out, result):
            written_to(name, o, r, given)
        fields = getattr(result, "fields", None)
        if fields is None:
            return out
        return result_class(f"{name}_out", *fields)(tuple(out))
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if recording() and any(isinstance(x, Tensor) and x._rg for x in (out, result, *given)):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad."
        )
    check_cast(result.dtype, out.dtype)
    if out._a.shape != result._a.shape:
        if out._a.size:
            warn(
                f"An output with one or more elements was resized since it had shape {list(out._a.shape)}, which does not match the "
                f"required output shape {list(result._a.shape)}. This behavior is deprecated, and in a future PyTorch release outputs will "
                "not be resized unless they have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, to zero "
                "elements with t.resize_(0)."
            )
        flat, start, _ = memory(out._a)
        part = flat[start : start + result._a.size]  # what shares the memory sees what is written
        out._a = part.reshape(result._a.shape) if part.size == result._a.size else np.empty(result._a.shape, out._a.dtype)
    return out.copy_(result)


def taking_out(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with `out=`."""

    @functools.wraps(function)
    def taking(*args: Any, out: Any = None, **named: Any) -> Any:
        result = function(*args, **named)
        return result if out is None else written_to(name, out, result, args)

    return taking
