"""Operators, methods and properties of traced arrays, and the keyword forms of ufuncs: attached from the declarations."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from functrace import edge, errors
from functrace.core.tracer import BatchTracer, TapeTracer, Tracer, bare
from functrace.operands import refuse_objects
from functrace.ops import elementwise as e
from functrace.ops import inplace as _inplace
from functrace.ops import shape as _shape
from functrace.ops.contract import matmul
from functrace.ops.create import check_cast, lift, operand
from functrace.ops.fast import NUMBERS, within
from functrace.ops.functions import reshape as _reshaped
from functrace.ops.functions import transpose as _permuted
from functrace.ops.inplace import IMAG, REAL, at, inplace, linked, scalar, setitem, view
from functrace.ops.out import store
from functrace.ops.protocol import FUNCTIONS, UFUNC_METHODS, UFUNCS, stamp
from functrace.ops.refusals import REFUSED
from functrace.ops.registry import rules, traced
from functrace.ops.ufuncs import with_axes
from functrace.ops.writing import cycled


def repeats(x: Tracer) -> bool:
    """Whether `x` times a sequence, `[0.0] * n`, is the sequence repeated, as with NumPy's integers. Python does that, with an index."""
    return not x.shape and x.dtype.kind in "bui" and (type(x) is BatchTracer or not isinstance(x.below, np.ndarray))


def _reflected(op: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    inner = within(op)

    def reflected(self: Any, other: Any) -> Any:
        try:
            if isinstance(other, (list, tuple, str, bytes)):
                if op is e.multiply and repeats(self):
                    return NotImplemented
                other = lift(other)
            return inner(other, self)
        except errors.LeakedTracerError as error:
            edge.trim(error)
            raise

    return reflected


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": e.add,
    "sub": e.subtract,
    "mul": e.multiply,
    "truediv": e.divide,
    "floordiv": e.floor_divide,
    "mod": e.remainder,
    "pow": e.power,
    "matmul": matmul,
    "and": e.bitwise_and,
    "or": e.bitwise_or,
    "lshift": lambda x, y: np.left_shift(x, y),  # a ufunc is no method
    "rshift": lambda x, y: np.right_shift(x, y),
    "xor": e.bitwise_xor,
}


def _compared(op: Callable[[Any, Any], Any], other: bool | None = None) -> Callable[[Any, Any], Any]:
    plain = rules(op).fun

    def compare(self: Any, x: Any) -> Any:
        if type(x) in NUMBERS and type(self) is TapeTracer and not self.owner.closed:
            return plain(self.below, x)  # there is nothing to record
        try:
            return op(self, x)
        except errors.LeakedTracerError as error:
            edge.trim(error)
            raise
        except TypeError:
            if getattr(type(x), "__array_ufunc__", ...) is None:  # it wants to be asked: pytest.approx
                return NotImplemented
            if isinstance(x, str) and other is not None:  # `ord == "fro"`: no number is
                return np.full(self.shape, other)[()]
            raise

    return compare


_COMPARISONS = {
    "eq": _compared(e.equal, False),
    "ne": _compared(e.not_equal, True),
    "lt": _compared(e.less),
    "le": _compared(e.less_equal),
    "gt": _compared(e.greater),
    "ge": _compared(e.greater_equal),
}
_UNARY = {"neg": e.negative, "pos": e.positive, "abs": e.absolute, "invert": e.invert}

for _name, _op in _BINARY.items():
    setattr(Tracer, f"__{_name}__", _op)
    setattr(Tracer, f"__r{_name}__", _reflected(_op))
    setattr(Tracer, f"__i{_name}__", inplace(_op))
for _name, _op in (_COMPARISONS | _UNARY).items():
    setattr(Tracer, f"__{_name}__", _op)


_SQUARE, _POSITIVE, _RECIPROCAL, _SQRT, _POWER, _WHOLE_POWER = map(
    within, (e.square, e.positive, e.reciprocal, e.sqrt, e.power, e.whole_power)
)


def _pow(x: Any, y: Any) -> Any:
    # A Python number as exponent is by far the commonest: no derivative in y, and the small ones are products.
    if type(y) is int and isinstance(x, Tracer):
        truth = type(x) is not TapeTracer and x.dtype.kind == "b"  # whose powers are integers, but for an array's square
        if y == 2 and not (truth and not x.shape and scalar(x)):
            return _SQUARE(x)
        if y == 1 and not truth:
            return _POSITIVE(x)
        if y == -1 and x.dtype.kind == "c":  # where C's power is another, at infinities, and below at the cut
            return _RECIPROCAL(x)
    if type(y) is float and y == 0.5 and isinstance(x, Tracer) and x.dtype.kind == "c":
        return _SQRT(x)
    if (
        type(y) in (int, float)
        and not (-2 < y <= 2 or y % 1)
        and isinstance(x, Tracer)
        and x.dtype.kind == "f"
        and np.size(bare(x)) >= e.MANY_POWERS
    ):
        return _WHOLE_POWER(x, y)
    return _POWER(x, y)


setattr(Tracer, "__ipow__", inplace(_pow))  # noqa: B010
setattr(Tracer, "__pow__", _pow)  # noqa: B010  # not an assignment: mypy would then check every operator


def _iterate(self: Tracer) -> Any:
    if not self.shape:
        raise TypeError("iteration over a 0-d array")
    return (self[k] for k in range(len(self)))  # type: ignore[index]


def _divmod(x: Any, y: Any) -> Any:
    return e.floor_divide(x, y), e.remainder(x, y)


def _transposed(self: Any) -> Any:
    return stamp(_permuted(self))


def _round(self: Any, ndigits: Any = None) -> Any:
    if self.shape or not scalar(self) or self.dtype.kind == "c":
        of = "ndarray" if self.shape or not scalar(self) else self.dtype.name
        raise TypeError(f"type numpy.{of} doesn't define __round__ method")
    return int(np.round(self)) if ndigits is None else np.round(self, ndigits)


def _dtype(given: Any) -> Any:
    """A dtype, or one of NumPy's classes of them, which `np.dtype` takes for objects."""
    kind: Any = given
    return kind() if isinstance(given, type) and issubclass(given, np.dtype) else np.dtype(kind)


def _astype(self: Any, dtype: Any, order: Any = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> Any:
    """A copy with another dtype; to an integer, boolean, text or date the derivative is zero."""
    dtype = _dtype(dtype)
    check_cast(self, dtype, casting)
    if dtype.kind == "O" or self.dtype.kind == "O":
        refuse_objects()
    if dtype.kind == "V":
        raise errors.UnsupportedError(f"a traced value can't become {dtype}: records hold none.\n  Keep an array for each field.")
    if dtype.kind in "buiSUmM":
        return _shape.astype_constant(self, dtype)
    return _shape.astype(self, dtype) if dtype != self.dtype or copy else self


def _reshape(self: Any, *shape: Any, order: Any = "C", copy: Any = None) -> Any:
    op, args = _reshaped, (self, shape[0] if len(shape) == 1 else shape)  # an error is told by these names
    return stamp(op(*args, order, copy=copy))


def _transpose(self: Any, *axes: Any) -> Any:
    return stamp(_permuted(self, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None))


def _method(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return stamp(traced(name)(self, *args, **kwargs))
        except errors.LeakedTracerError as error:
            edge.trim(error)
            raise

    method.__name__ = name
    return method


# Methods that are functions of the same name and arguments.
for _name in (
    "all any argmax argmin argpartition argsort choose clip cumprod cumsum diagonal dot max mean min nonzero prod ptp "
    "ravel repeat round searchsorted squeeze std sum swapaxes take trace var"
).split():
    setattr(Tracer, _name, _method(_name))


def _part_setter(part: str) -> Callable[[Any, Any], None]:
    """`x.real = v` and `x.imag = v`."""

    def write(self: Any, v: Any) -> None:
        if self.dtype.kind != "c" and part == "imag":
            raise TypeError("array does not have imaginary part to set")
        _inplace.setitem(getattr(self, part), ..., v)

    return write


def _flat(self: Any) -> Any:
    return _inplace.reshaped(self, (self.size,), _inplace.FLAT)


def _set_flat(self: Any, v: Any) -> None:
    """`x.flat = v`: the elements of `v`, again and again."""
    new = cycled(v, self, self.size)
    if new is not None:
        _inplace.setitem(_flat(self), ..., new)


def _resize(self: Any, *shape: Any, refcheck: bool = True) -> None:
    """`x.resize(shape)`: in place, filled up with zeros."""
    if _inplace.shared(self):
        raise ValueError("cannot resize this array: it does not own its data")
    wanted = np.empty(shape[0] if len(shape) == 1 else shape, bool)
    flat = np.ravel(self)[: wanted.size]
    padded: Any = np.concatenate([flat, np.zeros(wanted.size - flat.size, self.dtype)])
    _inplace.become(self, padded.reshape(wanted.shape))


def _set_shape(self: Any, shape: Any) -> None:
    if _inplace.shared(self) or any(r() is not None for r in getattr(self, "views", ())):
        raise AttributeError(f"the shape of a traced array that shares its memory can't be set: write x = x.reshape({shape}).")
    _inplace.become(self, _reshaped(self, shape))


def _delitem(self: Any, key: Any) -> NoReturn:
    raise errors.UnsupportedError("elements of an array can't be deleted.\n  Use np.delete(x, i), which makes another.")


def _conjugate(self: Any, out: Any = None) -> Any:
    return self if self.dtype.kind != "c" and out is None else np.conjugate(self, out=out)


def _to_device(self: Any, device: Any, /, *, stream: Any = None) -> Any:
    if device != "cpu" or stream is not None:
        raise ValueError(f"Unsupported device: {device!r}")
    return self


_PROPERTIES: dict[str, Callable[[Any], Any]] = {
    "T": _transposed,
    "mT": lambda self: np.swapaxes(self, -1, -2),
    "at": at,
    "device": lambda self: "cpu",
    "itemsize": lambda self: self.dtype.itemsize,
    "nbytes": lambda self: self.size * self.dtype.itemsize,
}
for _name, _get in _PROPERTIES.items():
    setattr(Tracer, _name, property(_get))
for _class in Tracer, BatchTracer:
    _class.shape = vars(_class)["shape"].setter(_set_shape)  # type: ignore[method-assign]


def _without(name: str, reason: str) -> property:
    def missing(_self: Any) -> NoReturn:
        raise AttributeError(f"a traced value has no {name}: {reason}.", name=name, obj=None)  # Python has nothing to suggest then

    return property(missing)


for _reason, _names in REFUSED.items():
    for _name in re.findall(r"ndarray\.([a-z]\w+)", _names):
        if not hasattr(Tracer, _name):
            _also = "; for another shape x.reshape(...)" if _name == "view" else ""
            setattr(Tracer, _name, _without(_name, f"{_reason}{_also}.\n  That of the plain value is functrace.value(x).{_name}"))
for _names, _reason in {
    "backward grad requires_grad requires_grad_": "gradients are functrace.grad(f)(x); functrace.torch has PyTorch's tensors",
    "detach": "use functrace.stop_gradient(x)",
    "_value numpy to_numpy values": "it is used as an array as it is; the plain one is functrace.value(x)",
    "iloc loc": "it is an array: use x[i]",
    "clone": "use x.copy()",
    "unsqueeze": "use x[:, None], or np.expand_dims",
    "permute": "use x.transpose(axes)",
    "numel": "use x.size",
    "pow": "use x**n",
    **{name: f"use np.{name}(x)" for name in "abs exp log log1p sqrt sin cos tanh".split()},
    "groupby": "it is an array: np.bincount(labels, x) sums by group",
}.items():
    for _name in _names.split():
        setattr(Tracer, _name, _without(_name, _reason))
setattr(Tracer, "flat", property(_flat, _set_flat))  # noqa: B010  # without NumPy's docstring
for _name, _get in {
    "real": lambda self: linked(e.real(self), self, REAL) if self.dtype.kind == "c" else self,
    "imag": lambda self: linked(e.imag(self), self, IMAG) if self.dtype.kind == "c" else e.imag(self),
}.items():
    setattr(Tracer, _name, property(_get, _part_setter(_name)))
for _name, _function in {
    "__getitem__": view,
    "__setitem__": setitem,
    "__delitem__": _delitem,
    "__iter__": _iterate,
    "__contains__": lambda self, v: bool(np.any(self == v)),
    "__divmod__": _divmod,
    "__rdivmod__": lambda self, other: _divmod(other, self),
    "resize": _resize,
    "to_device": _to_device,
    "conj": _conjugate,
    "conjugate": _conjugate,
    "__round__": _round,
    "__floor__": lambda self: int(np.floor(self)),  # math.floor, which like int() gives a plain number
    "__ceil__": lambda self: int(np.ceil(self)),
    "__trunc__": lambda self: int(self),
    "astype": _astype,
    "reshape": _reshape,
    "transpose": _transpose,
    "sort": lambda self, *args, **kwargs: _inplace.setitem(self, ..., np.sort(self, *args, **kwargs)),
    "partition": lambda self, *args, **kwargs: _inplace.setitem(self, ..., np.partition(self, *args, **kwargs)),
    "compress": lambda self, condition, axis=None, out=None: np.compress(condition, self, axis, out),
    "copy": lambda self, order="C": np.copy(self, order) if self.shape or not scalar(self) else _shape.astype(self, self.dtype),
    "__copy__": lambda self: _astype(self, self.dtype),
    "__deepcopy__": lambda self, memo: _astype(self, self.dtype),
    "flatten": lambda self, order="C": _astype(np.ravel(self, order), self.dtype),
}.items():
    _function.__qualname__ = _name
    setattr(Tracer, _name, _function)


def _call(
    ufunc: np.ufunc,
    *inputs: Any,
    out: Any = None,
    where: Any = True,
    dtype: Any = None,
    signature: Any = None,
    casting: Any = "same_kind",
    order: Any = None,  # of memory, which a traced value has not
    subok: bool = True,
    **rest: Any,
) -> Any:
    """`np.multiply(x, y, out=, where=, dtype=)`. `out` may be a traced array, which then stands for the result."""
    op = UFUNCS.get(ufunc)
    if op is None:
        raise errors.UnsupportedError(
            f"the ufunc {ufunc.__name__} has no derivative rule in functrace.\n"
            "  Give it one with functrace.custom_vjp (np.frompyfunc: use functrace.numpy.vectorize), or apply it to functrace.value(x)."
        )
    if dtype is not None or signature is not None or casting != "same_kind":
        signature = (None,) * ufunc.nin + (None if dtype is None else _dtype(dtype),) * ufunc.nout if signature is None else signature
        inputs = tuple(map(operand, inputs))
        given = tuple(getattr(x, "dtype", np.dtype(bool) if type(x) is bool else type(x)) for x in inputs) + (None,) * ufunc.nout
        rule: Any = "no" if casting == "equiv" and not {int, float, complex}.isdisjoint(given) else casting  # for which NumPy crashes
        wanted = ufunc.resolve_dtypes(given, signature=signature, casting=rule)
        inputs = tuple(x.astype(d) if hasattr(x, "astype") else d.type(x) for x, d in zip(inputs, wanted))
    result = with_axes(ufunc, op, inputs, **rest) if rest else op(*inputs)
    if out is None:
        if where is not True:
            raise errors.UnsupportedError(f"{ufunc.__name__}(where=) without out= leaves values undefined.\n  Use np.where.")
        return result
    many = isinstance(result, tuple)
    made = [
        r if t is None else store(ufunc.__name__, r if where is True else np.where(where, r, t), t, casting, stretched=True)
        for r, t in zip(result if many else (result,), out if isinstance(out, tuple) else (out,))
    ]
    return tuple(made) if many else made[0]


UFUNC_METHODS["__call__"] = _call

FUNCTIONS[np.real] = lambda val: val.real  # as the property, a view
FUNCTIONS[np.imag] = lambda val: val.imag
