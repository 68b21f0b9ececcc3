"""Arithmetic: Python's operators on tensors, NumPy's functions on them, and `torch.add` to `torch.fmod`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch import _dtypes
from functrace.torch._apply import call, promoted
from functrace.torch._attributes import numpy_call
from functrace.torch._bind import underivable
from functrace.torch._checks import fits
from functrace.torch._limits import refuse, refusing_itself
from functrace.torch._nodes import SCALARS, Op
from functrace.torch._ops import (
    ADD_SCALED,
    BINARY,
    FAST,
    FMOD0,
    FUNCTIONS,
    PLAIN,
    POW0,
    POW2,
    REMAINDER0,
    RSUB,
    RSUB0,
    SHIFTS,
    SUB_SCALED,
    TRUE_POWER,
    comparison,
    divisor,
    operator,
    public,
    refusing,
    zero,
)
from functrace.torch._shape import in_dtype
from functrace.torch._tensor import Tensor, wrap
from functrace.torch._views import bad_argument, written_to

_UFUNCS: dict[Any, str] = {
    np.add: "add", np.subtract: "sub", np.multiply: "mul", np.true_divide: "div", np.negative: "neg", np.power: "pow", np.sin: "sin",
    np.cos: "cos", np.tan: "tan", np.arcsin: "asin", np.arccos: "acos", np.arctan: "atan", np.sinh: "sinh", np.cosh: "cosh",
    np.tanh: "tanh", np.exp: "exp", np.exp2: "exp2", np.expm1: "expm1", np.log: "log", np.log2: "log2", np.log10: "log10",
    np.log1p: "log1p", np.sqrt: "sqrt", np.absolute: "abs", np.sign: "sign", np.square: "square", np.reciprocal: "reciprocal",
    np.maximum: "maximum", np.minimum: "minimum", np.arctan2: "atan2", np.hypot: "hypot", np.matmul: "matmul", np.floor: "floor",
    np.ceil: "ceil", np.trunc: "trunc", np.equal: "eq", np.not_equal: "ne", np.less: "lt", np.less_equal: "le", np.greater: "gt",
    np.greater_equal: "ge", np.floor_divide: "floor_divide", np.remainder: "remainder",
}  # fmt: skip


_REFLECTED = {"sub": lambda a, b: a - b, "div": lambda a, b: a / b}  # of one of NumPy's numbers, as of Python's


def _array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """NumPy's functions on tensors are PyTorch's, where there is one; else functrace's."""
    name = _UFUNCS.get(ufunc)
    if name is not None and method == "__call__" and not kwargs:
        given = [
            x if isinstance(x, Tensor) else wrap(x) if isinstance(x, np.ndarray) else x.item() if isinstance(x, np.generic) else x
            for x in inputs
        ]
        if any(isinstance(x, np.ndarray) for x in inputs):  # PyTorch leaves these to NumPy, whose promotion it is then
            d = _dtypes.of(np.result_type(*(x._a.dtype for x in given if isinstance(x, Tensor))))
            given = [in_dtype(x, d) if isinstance(x, Tensor) else x for x in given]
        if name in ("maximum", "minimum"):  # PyTorch's take no numbers
            like = next(x for x in given if isinstance(x, Tensor))
            given = [x if isinstance(x, Tensor) else FUNCTIONS["full_like"](like, x) for x in given]
        if name in _REFLECTED and isinstance(inputs[0], np.generic):
            return _REFLECTED[name](*given)
        return FUNCTIONS[name](*given)
    if any(isinstance(x, Tensor) for x in (inputs[:1] if method == "at" else kwargs.get("out", ()))):
        raise TypeError(f"np.{ufunc.__name__} writes into an array, not into a tensor: give it t.numpy(), which is on the same memory")
    out = numpy_call(getattr(ufunc, method), inputs, kwargs)
    return wrap(np.asarray(out)) if isinstance(out, (np.ndarray, np.generic)) else out


Tensor.__array_ufunc__ = _array_ufunc  # type: ignore[attr-defined]


def _scaled(name: str, scaled: Op) -> Callable[..., Any]:
    plain = operator(name, FAST[name])

    def function(input: Any, other: Any, *last: Any, alpha: Any = 1, out: Any = None) -> Any:
        if last:  # in PyTorch 1 the factor came first
            alpha, (other,) = other, last
        if alpha == 1 and alpha.__class__ is not bool:
            return plain(input, other, out=out)
        result = promoted(scaled, input, other, params=(_dtypes.factor(alpha, _dtypes.result_type(input, other)),))
        return result if out is None else written_to(name, out, result)

    return function


_sub = refusing(FAST["sub"])
public(_scaled("add", ADD_SCALED), "add")
public(refusing(_scaled("sub", SUB_SCALED)), "sub", "subtract")


@refusing
def rsub(input: Any, other: Any, alpha: Any = 1) -> Any:
    """`other - alpha * input`."""
    if isinstance(other, Tensor) or alpha.__class__ is bool or alpha != 1:
        return promoted(RSUB0, input, other, params=(_dtypes.factor(alpha, _dtypes.result_type(input, other)),))
    if not isinstance(other, SCALARS):
        raise bad_argument("rsub", "other", 2, other)
    d = _dtypes.result_type(input, other)
    number = _dtypes.wrapped(other, d.np) if d.np.kind in "iu" else other
    return call(RSUB, (in_dtype(input, d),), (number,))


public(rsub, "rsub")


def _check_exponent(d: _dtypes.dtype, number: Any) -> None:
    if d.category <= _dtypes.INT:
        if number < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        _dtypes.held(number, d.np)


def _pow(self: Any, exponent: Any) -> Any:
    number: Any = exponent
    if isinstance(exponent, Tensor):
        return promoted(BINARY["pow"], self, exponent, name="pow")
    if not isinstance(exponent, SCALARS):
        return NotImplemented
    if self._a.dtype.kind == "f" and exponent.__class__ in (int, float):
        return call(POW0, (self,), (exponent,))
    d = _dtypes.result_type(self, exponent)
    if d is _dtypes.bool_:
        return call(TRUE_POWER, (self,), (exponent,))
    _check_exponent(d, number)
    return call(POW0, (in_dtype(self, d),), (exponent,))


@public
@refusing_itself
def pow(input: Any, exponent: Any, *, out: Any = None) -> Any:
    """`input` to the power `exponent`; either may be a number."""
    if isinstance(input, Tensor):
        result, wrong = _pow(input, exponent), ("exponent", 2, exponent)
    else:
        result, wrong = _rpow(exponent, input) if isinstance(exponent, Tensor) else NotImplemented, ("input", 1, input)
    if result is NotImplemented:
        raise bad_argument("pow", *wrong)
    return result if out is None else written_to("pow", out, result)


def _rpow(self: Any, base: Any) -> Any:
    if not isinstance(base, SCALARS):
        return NotImplemented
    d = _dtypes.result_type(self, base)
    refuse("pow", d.np)
    return call(POW2, (in_dtype(self, d),), (base,))


@public
def square(input: Any) -> Any:
    """`input ** 2`."""
    return _pow(input, 2)


@public
def round(input: Any, *, decimals: int = 0) -> Any:
    """To the nearest integer, halves to even; or to `decimals` digits."""
    if not decimals:
        return FUNCTIONS["_round"](input)
    if input._a.dtype.kind in "biu":
        raise NotImplementedError(f"\"round_cpu\" not implemented for '{input.dtype.scalar}'")
    return call(DIGITS, (input,), (decimals,))


DIGITS = Op("RoundBackward1", lambda x, n: np.rint(x * 10.0**n) / 10.0**n if n > 0 else np.rint(x / 10.0**-n) * 10.0**-n, [zero], "Zero")


@public
def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Any = None) -> Any:
    """`input / other`, rounded down ("floor") or towards zero ("trunc") on demand."""
    if rounding_mode is None:
        return _true_divide(input, other, out=out)
    if rounding_mode not in ("floor", "trunc"):
        raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'")
    d = _dtypes.result_type(input, other)
    refuse("floor_divide" if rounding_mode == "floor" else "_div_trunc", d.np)
    fits(input, other)
    given = [in_dtype(x, d) if isinstance(x, Tensor) else np.asarray(_dtypes.wrapped(x, d.np)) for x in (input, other)]
    result = call(_ROUNDED, given, (rounding_mode,))
    return result if out is None else written_to("div", out, result)


def _rounded(x: Any, y: Any, how: str) -> Any:
    return (
        np.floor_divide(x, divisor(y))
        if how == "floor"
        else (np.trunc(x / y) if x.dtype.kind == "f" else x // divisor(y) + ((x % y != 0) & ((x < 0) != (y < 0))))
    )


_ROUNDED = Op("DivBackward2", _rounded, [zero, zero], "Zero")
_true_divide = operator("div", FAST["div"])
for _name in ("true_divide", "divide"):
    public(div, _name)


def floor_divide(input: Any, other: Any) -> Any:
    """`input // other`, rounded down. It has no derivative."""
    if not isinstance(other, (Tensor, *SCALARS)):
        return NotImplemented
    d = _dtypes.result_type(input, other)
    refuse("floor_divide", d.np)
    fits(input, other)
    x, y = (t._a.astype(d.np) if isinstance(t, Tensor) else np.asarray(_dtypes.wrapped(t, d.np)) for t in (input, other))
    return call(underivable("floor_divide"), (np.floor_divide(x, divisor(y)), input, other))


public(operator("floor_divide", floor_divide), "floor_divide")


def _modulo(name: str, by_number: Op) -> Callable[..., Any]:
    by_tensor = operator(name, FAST[name])

    @refusing_itself
    def function(input: Any, other: Any) -> Any:
        if isinstance(other, SCALARS) and isinstance(input, Tensor):
            d = _dtypes.result_type(input, other)
            refuse(name, d.np)
            return call(by_number, (in_dtype(input, d),), (other,))
        return by_tensor(input, other)

    return function


public(_modulo("remainder", REMAINDER0), "remainder")
public(_modulo("fmod", FMOD0), "fmod")


def _of_number(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A reflected operator, which is asked only for what is no tensor."""
    return lambda self, other: apply(self, other) if isinstance(other, SCALARS) else NotImplemented


def _reversed(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return _of_number(lambda self, other: apply(other, self))


_OPERANDS = (Tensor, *SCALARS)


def augmented(method: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """A method in place as an operator, which answers NotImplemented to what it does not take."""

    @functools.wraps(method)
    def operator(self: Any, other: Any) -> Any:
        return method(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    return operator


def _invert(self: Any) -> Any:
    if self._a.dtype.kind in "fc":
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return FUNCTIONS["bitwise_not"](self)


def _no_deletion(self: Any, key: Any) -> None:
    raise TypeError("Tensor does not support deleting items")


_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": FAST["add"], "radd": FAST["add"], "sub": _sub, "rsub": _of_number(rsub), "mul": FAST["mul"], "rmul": FAST["mul"],
    "truediv": FAST["div"], "rtruediv": _of_number(lambda self, other: FUNCTIONS["reciprocal"](self) * other), "pow": _pow,
    "rpow": _rpow, "floordiv": floor_divide, "rfloordiv": _reversed(floor_divide),
    "mod": FUNCTIONS["remainder"], "rmod": _reversed(FAST["remainder"]), "neg": FUNCTIONS["neg"],
    "pos": FUNCTIONS["positive"], "abs": FUNCTIONS["abs"],
    **{f"i{name}": augmented(getattr(Tensor, f"{name}_")) for name in ("add", "sub", "mul")}, "itruediv": augmented(Tensor.div_),
    "invert": _invert,
    **{prefix + name: comparison(f"bitwise_{name}", PLAIN[f"bitwise_{name}"]) for name in ("and", "or", "xor") for prefix in ("", "r")},
    **{name: comparison(name, fun) for name, fun in SHIFTS.items()}, "rlshift": _reversed(comparison("lshift", SHIFTS["lshift"])),
    "rrshift": _reversed(comparison("rshift", SHIFTS["rshift"])),
    "delitem": _no_deletion, **{name: comparison(name, PLAIN[name]) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
}  # fmt: skip
for _name, _method in _OPERATORS.items():
    public(_method, f"__{_name}__", torch=False)
