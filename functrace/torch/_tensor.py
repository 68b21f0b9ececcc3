"""`Tensor`: a NumPy array, what made it, and its gradient.

    _a        the array; views share its memory
    _ver      a cell [n] that counts the writes to that memory, shared by all tensors on it
    _rg       whether it requires grad
    _edge     (node, number) of the operation that made it; for a leaf, of its accumulator
    _base     of a view, the tensor whose memory it is; `_chain` leads from the base's array to the view's

`_rg` and `_edge` are plain attributes of ordinary tensors. A view keeps neither (but for an `_rg` that will stay True), so that reading
them comes to the class and follows the base: a write to the base changes the history of all its views. Operations and methods are
attached by `_ops`.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from functrace.torch import _dtypes, _format, _modes
from functrace.torch._contact import BatchTracer, BranchSplit, Tracer, View, boundary, linked, stop_gradient, value
from functrace.torch._dtypes import Size, warn
from functrace.torch._engine import AccumulateGrad, Edge, Handle, Node, accumulator
from functrace.torch._layout import Meta
from functrace.torch._leaves import is_its_own, laid_out
from functrace.torch._modes import recording

if TYPE_CHECKING:
    from functrace.torch._methods import Methods
else:
    Methods = object

new: Callable[[Any], Any] = object.__new__
_NON_LEAF_GRAD = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated during "
    "autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf "
    "Tensor. If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead. See "
    "github.com/pytorch/pytorch/pull/30531 for more information."
)
_CHANGE_FLAGS = (
    "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph that doesn't "
    "require differentiation use var_no_grad = var.detach()."
)
_NO_HISTORY = (
    "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\nConsider using tensor.detach() first."
)
_ITEM = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, please try to rewrite "
    "what you're doing with other operations. If error is occurring somewhere inside PyTorch internals, please file a bug report."
)


class _FoundEdge:
    """The `_edge` of a tensor that has none of its own: a leaf's accumulator, or a view's."""

    def __get__(self, t: Any, cls: Any = None) -> Any:
        if t is None:
            return self
        base = t._base
        if base is None:
            if not t._rg:
                return None
            t._edge = edge = accumulator(t)
            return edge
        if (base._rg or t._made is not None) and t._seen != t._ver[0]:
            t._made, t._seen = t._regenerate(), t._ver[0]
        if t._made is None and t._own_rg:  # a view made under no_grad of what requires grad has neither history nor gradient
            return accumulator(t)
        return t._made


class _FoundRequiresGrad:
    """The `_rg` of a tensor that has none of its own: a view."""

    def __get__(self, t: Any, cls: Any = None) -> Any:
        if t is None:
            return self
        base = t._base
        return base is not None and (t._own_rg or t._made is not None or base._rg)


_DETACHED = View(  # what is written to it leaves the derivative that there was
    stop_gradient,
    lambda base, part: part + np.where(np.isfinite(base), base - stop_gradient(base), 0) if base.dtype.kind in "fc" else part,
    numbers=True,
)


class Tensor(Methods):
    """An n-dimensional array that can remember how it was computed."""

    __module__ = "torch"
    __array_priority__ = 1000

    _rg: Any = _FoundRequiresGrad()
    _edge: Any = _FoundEdge()
    _base: Any = None
    _chain: tuple[Callable[[Any], Any], ...] = ()
    _origin = ""  # why writing through the view is refused: "no_grad", "multi" or "custom"
    _grad: Any = None
    _accumulator: Edge | None = None
    _post_accumulate_grad_hooks: Any = None
    _own_rg = _kept = False  # `_kept`, of a subclass: whether results of operations are of it too
    _made: Edge | None = None
    _written: Any = None  # of a view: the history of its base after the last write through it, and the version then
    _copied: ClassVar[Callable[[Any, Any], Any]]
    _start: int  # of what is detached from a view: where in the memory it begins
    _a: Any
    _ver: list[int]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls._construct(*args, **kwargs)

    @staticmethod
    def _make_subclass(kind: Any, data: Any, require_grad: bool = False) -> Any:
        out = wrap(data._a, kind)
        out._ver = data._ver
        return out.requires_grad_(require_grad)

    @classmethod
    def _construct(cls, *args: Any, dtype: Any = None) -> Any:
        d = (dtype or _dtypes.get_default_dtype()).np
        if len(args) == 1 and not isinstance(args[0], (int, Size)):
            x = args[0]
            a = x._a if isinstance(x, Tensor) else np.array(x, d)
            return wrap(a.astype(d, copy=False), cls)
        return wrap(np.empty(_dtypes.to_shape(args) if args else (0,), d), cls)

    # what it is
    @property
    def shape(self) -> Size:
        """Shape, a `torch.Size`."""
        return Size(self._a.shape)

    @property
    def dtype(self) -> _dtypes.dtype:
        """Type of the elements."""
        return _dtypes.of(self._a.dtype)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._a.ndim  # type: ignore[no-any-return]

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._a.itemsize  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._a.nbytes  # type: ignore[no-any-return]

    @property
    def device(self) -> _dtypes.device:
        """Where it is: the CPU, or "meta"."""
        return _dtypes.META if self.is_meta else _dtypes.CPU

    layout = _dtypes.strided
    is_cuda = is_sparse = is_quantized = is_mps = False
    _cdata = property(id)

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient can flow to it. Settable on leaves."""
        return self._rg  # type: ignore[no-any-return]

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise RuntimeError("requires_grad must be a bool")
        if not self.is_leaf and value:
            raise RuntimeError(_CHANGE_FLAGS.partition(" If")[0])
        self._set_requires_grad(value, "only Tensors of floating point and complex dtype can require gradients")

    def _set_requires_grad(self, value: bool, complaint: str) -> None:
        if not self.is_leaf:
            if not value:
                raise RuntimeError(_CHANGE_FLAGS)
            return
        if value and self._a.dtype.kind not in "fc":
            raise RuntimeError(complaint)
        if value and self.is_inference() and not _modes.is_inference_mode_enabled():
            raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
        if self._base is not None:
            self._own_rg = value
        else:
            self._rg = value

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Let operations on it be recorded from now on. Raises RuntimeError for integer tensors and non-leaves."""
        if not isinstance(requires_grad, bool):
            raise TypeError(f"requires_grad_(): argument 'requires_grad' (position 1) must be bool, not {type(requires_grad).__name__}")
        self._set_requires_grad(requires_grad, "only Tensors of floating point dtype can require gradients")
        return self

    @property
    def grad_fn(self) -> Node | None:
        """The node of the operation that made it; None for a leaf."""
        if self.is_leaf:
            return None
        return self._edge[0]  # type: ignore[no-any-return]

    @property
    def output_nr(self) -> int:
        """Which output of `grad_fn` it is."""
        return 0 if self.is_leaf else self._edge[1]

    @property
    def is_leaf(self) -> bool:
        """Whether it was made by the user rather than by a recorded operation."""
        if self._base is None:
            return not self._rg or type(self._edge[0]) is AccumulateGrad
        edge = self._edge
        return edge is None or type(edge[0]) is AccumulateGrad

    @property
    def grad(self) -> Tensor | None:
        """The gradient that `backward` added up, None before."""
        if self._grad is None and not self.is_leaf and not self.retains_grad:
            warn(_NON_LEAF_GRAD)
        return self._grad  # type: ignore[no-any-return]

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}")
            if value is self:
                raise RuntimeError("can't assign Variable as its own grad")
            if value._a.shape != self._a.shape:
                raise RuntimeError(
                    f"attempting to assign a gradient of size '{list(value._a.shape)}' to a tensor of size '{list(self._a.shape)}'. Please "
                    "ensure that the gradient and the tensor are the same size"
                )
            if value._a.dtype != self._a.dtype:
                raise RuntimeError(
                    f"attempting to assign a gradient with dtype '{value.dtype.scalar.lower()}' to a tensor with grad_dtype "
                    f"'{self.dtype.scalar}'. The gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). You can set "
                    "the tensor's grad_dtype attribute with a specific dtype, or None to allow any dtype. Set grad_dtype with caution. "
                    "Diverging the dtypes of a tensor and its gradient may break downstream systems that assume they match."
                )
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    @property
    def retains_grad(self) -> bool:
        """Whether it is a non-leaf on which `retain_grad` was called."""
        return not self.is_leaf and "_retains" in self.__dict__

    @property
    def _version(self) -> int:
        if self.is_inference():
            raise RuntimeError("Inference tensors do not track version counter.")
        return self._ver[0]

    def is_inference(self) -> bool:
        """Whether it was made in `inference_mode`."""
        return self._ver.__class__ is _modes.Untracked

    def _is_view(self) -> bool:
        return self._base is not None and not self.is_inference()

    @property
    def data(self) -> Tensor:
        """A tensor on the same memory that autograd knows nothing of: writes to it are not noticed."""
        plain = self._base is None and not type(self)._kept and not isinstance(self._a, Tracer)
        out: Any = wrap(self._a) if plain else self.detach()
        out._ver = [0]
        return out  # type: ignore[no-any-return]

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if (value._a.dtype.kind in "fc") < bool(self._rg):
            raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
        self._a = value._a

    def detach(self) -> Tensor:
        """A tensor on the same memory that is not part of the graph. Writes to it are noticed."""
        a = self._a
        t: Tensor = wrap(linked(stop_gradient(a), a, _DETACHED) if isinstance(a, Tracer) else a)
        t._ver = self._ver
        if self._base is not None or "_start" in self.__dict__:
            t._start = self.storage_offset()
        return t

    def detach_(self) -> Tensor:
        """Take it out of the graph: it becomes a leaf."""
        if self._base is not None and not _modes.is_inference_mode_enabled():
            raise RuntimeError(
                "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for training, and "
                "gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence detach_() cannot be called on these "
                "gradients. To fix this error, please refer to the Optimizer.zero_grad() function in "
                "torch/optim/optimizer.py as the solution."
            )
        self._rg = False
        self.__dict__.pop("_edge", None)
        return self

    # gradients
    @boundary
    def backward(self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None) -> None:
        """Add to the `.grad` of the leaves the gradient of this tensor, times `gradient` (1 if it is a scalar).

        Raises RuntimeError where the graph was freed by an earlier `backward`, or a saved value was written since.
        """
        self._run(gradient, retain_graph, create_graph, None, inputs)

    def _run(self, *args: Any) -> None:
        raise NotImplementedError  # set by `_backward`

    def _regenerate(self) -> Edge | None:
        raise NotImplementedError  # set by `_views`

    def _accumulate(self, g: Any, tensors: bool) -> None:
        """Add an arriving gradient to `.grad`: in place, unless the additions are recorded too."""
        old = self._grad
        if tensors:
            self._grad = self._copied(g) if old is None else old + g
        elif old is None:
            self._grad = wrap(g if type(g) is np.ndarray and is_its_own(g, self._a) else laid_out(g, self._a))
        else:
            old._a += g
            old._ver[0] += 1
        hooks = self._post_accumulate_grad_hooks
        for hook in list(hooks.values()) if hooks else ():
            if (found := hook(self)) is not None and found is not self:
                tensor = isinstance(found, Tensor)
                text = "Tensor post accumulate grad hooks should return None."
                raise RuntimeError(text) if tensor else TypeError(f"expected Variable, but hook returned '{type(found).__name__}'")

    def retain_grad(self) -> None:
        """Keep the gradient of a non-leaf in its `.grad` too."""
        if not self._rg:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if not self.is_leaf and not self.retains_grad:
            node, k = self._edge
            node.retains, node.watched = {**(node.retains or {}), k: weakref.ref(self)}, True
            self._retains = True

    def register_hook(self, hook: Callable[[Any], Any]) -> Handle:
        """Call `hook(grad)` when the gradient of this tensor is complete; what it returns replaces the gradient."""
        if not self._rg:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        node, k = self._edge or accumulator(self)
        return Handle(node.hooks_on(k), hook)

    @property
    def _backward_hooks(self) -> Any:
        node, k = (self._edge if self._rg else None) or (None, 0)
        return (node.pre or {}).get(k) if node is not None else None

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], Any]) -> Handle:
        """Call `hook(tensor)` after each addition to the `.grad` of a leaf."""
        if not self._rg:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if not self.is_leaf:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        return Handle(self.__dict__.setdefault("_post_accumulate_grad_hooks", OrderedDict()), hook)

    # Python and NumPy
    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """The elements as an ndarray on this memory, read-only if it requires grad and that is recorded; a traced value if they are one."""
        a = self._a[...]  # that may be given another shape
        if self._rg and recording() and not force and type(a) is np.ndarray:
            a.flags.writeable = False
        return a  # type: ignore[no-any-return]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if self._rg and not isinstance(self._a, Tracer):
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        a = np.asarray(self.numpy())  # a traced value raises, and says why
        return a.astype(dtype) if dtype is not None and a.dtype != dtype else a.copy() if copy else a

    def __array_wrap__(self, a: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return wrap(a)

    def item(self) -> Any:
        """The one element as a Python number. Raises RuntimeError if there are several."""
        if self._a.size != 1:
            raise RuntimeError(f"a Tensor with {self._a.size} elements cannot be converted to Scalar")
        try:
            return self._scalar()
        except BranchSplit:
            raise RuntimeError(_ITEM) from None

    def tolist(self) -> Any:
        """The elements as (nested lists of) Python numbers."""
        return self._a.tolist()

    def __bool__(self) -> bool:
        if self._a.size != 1:
            which = "more than one value" if self._a.size else "no values"
            raise RuntimeError(f"Boolean value of Tensor with {which} is ambiguous")
        return bool(self._scalar())

    def _scalar(self) -> Any:
        """The one element, also of a batch in which it is the same for all examples."""
        a = self._a
        if isinstance(a, BatchTracer):
            a = a.owner.agreed(a)
        return (a if a.__class__ is np.ndarray else value(a)).item()

    def __int__(self) -> int:
        return int(self._number("int64_t"))

    def __float__(self) -> float:
        return float(self._number("double"))

    def __complex__(self) -> complex:
        return complex(self._number())

    def _number(self, real: str = "") -> Any:
        if self._a.size != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        found = (self if real == "int64_t" else self._told()).item()
        if real and isinstance(found, complex):
            if found.imag:
                raise RuntimeError(f"value cannot be converted to type {real} without overflow")
            return found.real
        return found

    def _told(self) -> Tensor:
        """Itself, after the warning that a Python number has no history, if the tensor has one."""
        if self._rg and recording():
            _dtypes.warn_once(_NO_HISTORY)
        return self

    def __index__(self) -> int:
        if self._a.size != 1 or self._a.dtype.kind not in "iub":
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self._scalar())

    def __len__(self) -> int:
        if not self._a.ndim:
            raise TypeError("len() of a 0-d tensor")
        return len(self._a)

    def __iter__(self) -> Iterator[Tensor]:
        if not self._a.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __contains__(self, x: Any) -> bool:
        if not isinstance(x, (Tensor, int, float, bool, complex)):
            raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(x)}.")
        return bool((self._a == (x._a if isinstance(x, Tensor) else x)).any())

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return _format.shown(self)

    def __format__(self, spec: str) -> str:
        number = not self._a.ndim and type(self) is Tensor
        return object.__format__(self, spec) if not number else format(self.item(), spec) if spec else str(self.item())


def settled(a: Any) -> Any:
    """A result as a tensor can hold it: an array, or a traced value, which under `no_grad` is a constant."""
    if isinstance(a, Tracer):
        return stop_gradient(a) if recording() is False else a
    return a if type(a) is Meta else np.asarray(a)


def owned(ans: Any, arrays: Sequence[Any], lies: Callable[..., Any] | None = None) -> Any:
    """A result in memory of its own: none but a view may share its argument's. How it `lies` is one of the functions of `_layout`."""
    if type(ans) is np.ndarray:
        if lies is not None and (ans.ndim == 4 or not ans.flags.c_contiguous):
            ans = lies(ans, *arrays)
        for a in arrays:
            if a is ans or (ans.base is not None and type(a) is np.ndarray and np.may_share_memory(a, ans)):
                return ans.copy("K")
    return ans


def wrap(a: Any, cls: type[Tensor] = Tensor) -> Any:
    """A tensor on the memory of an array, without history."""
    t = new(cls)
    t._a = a if type(a) is np.ndarray else settled(a)
    t._ver = [0]
    t._rg = False
    if _modes.depth:
        _modes.mark(t)
    return t


Node.wrap = staticmethod(wrap)
