"""The binding table of elementwise operations: a name, the NumPy function, and what PyTorch calls its node.

A row's rules are those of the declared op of `functrace.numpy`, unless PyTorch saves other values for them, or has another
convention at a kink; then they are written here, with an underscore before arguments that they do not look into.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch import _dtypes
from functrace.torch._apply import binary, promoted, unary, with_gradient
from functrace.torch._contact import MANY_POWERS, by_magnitude, chosen, rules, same, sinc_
from functrace.torch._curves import ERF, ERFC, bounded, in_blocks, in_float64, logistic
from functrace.torch._dtypes import F32, F64, B
from functrace.torch._index_checks import guarded
from functrace.torch._limits import LIMITS, refuse, refusing_itself
from functrace.torch._nodes import SCALARS, Op
from functrace.torch._tensor import Tensor, wrap
from functrace.torch._views import bad_argument, check_cast, inplace, taking_out, written_to

FUNCTIONS: dict[str, Callable[..., Any]] = {}  # the names of `torch.`
METHODS: set[str] = set()  # those of Tensor


def _whole(fun: Any) -> Any:
    """A rounding function that leaves integers alone, as NumPy's do from 2.1 on."""
    return lambda x: x if x.dtype.kind in "iub" else fun(x)


_OUT = frozenset(  # functions that get `out=` by being wrapped; those that are called often have it themselves
    """
    addcdiv addcmul addmm addmv addr amax amin baddbmm bernoulli bitwise_not ceil_divide chain_matmul clamp_max clamp_min clip column_stack
    cumprod cumsum diag dot dstack float_power floor_divide fmod gather ger hstack index_add index_copy index_select lerp log_softmax
    logical_not logsumexp masked_select msort multinomial mv narrow_copy nonzero norm outer polygamma prod remainder round row_stack scatter
    scatter_add signbit softmax sort square std take tensordot topk tril triu trunc var vdot vstack
    """.split()
)


_SCALED = ("beta", "alpha")
_FACTORS = {
    **dict.fromkeys(("addmm", "addmv", "addr", "addbmm", "baddbmm"), _SCALED),
    **dict.fromkeys(("addcmul", "addcdiv"), ("value",)),
}


def factors_anywhere(function: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """A function of three tensors that takes its factors before them and among them too, as in PyTorch 1."""

    @functools.wraps(function)
    def reordered(*args: Any, **named: Any) -> Any:
        if len(args) > 3:
            named.update(zip(names, (x for x in args if isinstance(x, SCALARS))))
            args = tuple(x for x in args if not isinstance(x, SCALARS))
        return function(*args, **named)

    return reordered


def public(function: Callable[..., Any], *names: str, method: bool = True, torch: bool = True) -> Callable[..., Any]:
    """Enter a function in `torch.` and as a method of Tensor, under its own name and others."""
    first = (names or (function.__name__,))[0]
    if "<" in function.__qualname__:
        for f in (function, getattr(function, "__wrapped__", function)):
            f.__name__ = f.__qualname__ = first  # Python's TypeErrors name it
    function = guarded(first, function)
    function = factors_anywhere(function, *_FACTORS[first]) if first in _FACTORS else function
    for name in names or (function.__name__,):
        if torch:
            FUNCTIONS[name] = taking_out(name, function) if name in _OUT else function
        if method:
            setattr(Tensor, name, function)
            METHODS.add(name)
    return function


def as_method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Enter a function as a method of Tensor alone."""
    return public(function, torch=False)


_ALGEBRAIC: tuple[Any, ...] = ("Mul", "Div", "Neg", ("Div", "Mul"), ("Sub", "Neg"), "Add")  # rules made of operators and ufuncs


def row(node: str, numpy: Any, second: str | tuple[str, ...] = "Mul", *own: Callable[..., Any], flat: bool = False) -> Op:
    """A row of the table: the NumPy function, or the name of its declaration; its own rules if they differ."""
    declared = None if own else rules(numpy)
    algebra = second in _ALGEBRAIC and not flat
    if declared:
        return Op(node, declared.fun, declared.vjps, second, algebra=algebra)
    return Op(node, numpy, own, second, flat=flat, algebra=algebra)


def precise(node: str, numpy: str, second: str = "Mul", *own: Callable[..., Any]) -> Op:
    """A row of the table whose function is computed in float64."""
    declared = rules(numpy)
    function = in_float64(numpy, declared.fun, declared.vjps, declared.jvps)
    return Op(node, function, own or declared.vjps, second, algebra=second in _ALGEBRAIC)


def zero(g: Any, *_rest: Any) -> Any:
    return np.zeros(g.shape, g.dtype)


def _relu(x: Any) -> Any:
    return bounded(x, x.dtype.type(0))


def _abs(g: Any, _r: Any, x: Any) -> Any:
    return g * np.sign(x) if x.dtype.kind != "c" else rules("absolute").vjps[0](g, np.absolute(x), x)


def _sign(x: Any) -> Any:
    """The sign, 0 of NaN."""
    return x if x.dtype.kind == "b" else np.where(x == x, np.sign(x), np.zeros((), x.dtype))


def _rounded(x: Any) -> Any:
    return np.rint(x) if x.dtype.kind in "fc" else x


UNARY: dict[str, Op] = {
    "sin": precise("Sin", "sin"),
    "cos": precise("Cos", "cos"),
    "tan": precise("Tan", "tan"),
    "asin": precise("Asin", "arcsin", "Mul", lambda g, _r, x: g * (1 / np.sqrt(1 - x * x))),
    "acos": precise("Acos", "arccos", "Mul", lambda g, _r, x: g * -(1 / np.sqrt(1 - x * x))),
    "atan": precise("Atan", "arctan", "Div", lambda g, _r, x: g / (x * x + 1)),
    "sinh": precise("Sinh", "sinh"),
    "cosh": precise("Cosh", "cosh"),
    "tanh": precise("Tanh", "tanh", "TanhBackward"),
    "asinh": precise("Asinh", "arcsinh", "Mul", lambda g, _r, x: g * (1 / np.sqrt(x * x + 1))),
    "acosh": precise("Acosh", "arccosh", "Mul", lambda g, _r, x: g * (1 / (np.sqrt(x - 1) * np.sqrt(x + 1)))),
    "atanh": precise("Atanh", "arctanh", "Div", lambda g, _r, x: g / (1 - x * x)),
    "exp": precise("Exp", "exp"),
    "exp2": precise("Exp2Backward0", "exp2", "MulBackward1"),
    "expm1": precise("Expm1Backward0", "expm1"),
    "log": precise("Log", "log", "Div"),
    "log2": precise("Log2Backward0", "log2", "Div"),
    "log10": precise("Log10Backward0", "log10", "Div"),
    "log1p": precise("Log1PBackward0", "log1p", "Div"),
    "sqrt": row("Sqrt", "sqrt", "Div"),
    "rsqrt": row("Rsqrt", lambda x: 1 / np.sqrt(x), "Mul", lambda g, r, _x: -0.5 * g * r * r * r),
    "reciprocal": row("Reciprocal", np.reciprocal, "Mul", lambda g, r, _x: -g * (r * r)),
    "abs": row("Abs", np.absolute, "MulBackward0", _abs),
    "sign": row("Sign", _sign, "Zero", zero),
    "deg2rad": row("Deg2RadBackward0", "deg2rad"),
    "rad2deg": row("Rad2DegBackward0", "rad2deg"),
    "sigmoid": row("Sigmoid", in_blocks(logistic), "SigmoidBackward", in_blocks(lambda g, r, _x: g * (1 - r) * r)),
    "erf": row("Erf", in_blocks(ERF), "Mul", in_blocks(rules(ERF).vjps[0])),
    "erfc": row("Erfc", in_blocks(ERFC), "Mul", in_blocks(rules(ERFC).vjps[0])),
    "sinc": row("Sinc", np.sinc, "Where", lambda g, _r, x: g * sinc_(x, 1)),
}
WHOLE: dict[str, Op] = {  # on integers too they give integers
    "neg": row("Neg", "negative", "Neg"),
    "relu": row("Relu", _relu, "ThresholdBackward", lambda g, r, _x: chosen(~(r <= 0), g)),
    "floor": row("Floor", _whole(np.floor), "Zero", zero),
    "ceil": row("Ceil", _whole(np.ceil), "Zero", zero),
    "trunc": row("Trunc", _whole(np.trunc), "Zero", zero),
    "frac": row("Frac", lambda x: x - np.trunc(x), "Frac", same),
    "_round": row("Round", _rounded, "Zero", zero),
    "conj_physical": row(
        "ConjPhysical", lambda x: np.logical_or(x, x) if x.dtype == B else np.conjugate(x), "Conj", lambda g, _r, _x: np.conjugate(g)
    ),
}
_ALIASES = {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "absolute": "abs",
    "negative": "neg", "fix": "trunc", "expit": "sigmoid", "multiply": "mul", "greater": "gt", "less": "lt", "greater_equal": "ge",
    "less_equal": "le", "not_equal": "ne",
}  # fmt: skip


def _larger(g: Any, _r: Any, x: Any, y: Any) -> Any:
    return np.where(x < y, np.zeros((), g.dtype), np.where(x == y, g / 2, g))


def _smaller(g: Any, _r: Any, x: Any, y: Any) -> Any:
    return _larger(g, None, y, x)


def _parted(first: Any) -> tuple[Any, Any]:
    """The rules of an extreme that is the first argument where that is so, or where the second is NaN; else the second."""
    return (
        lambda g, _r, x, y: np.where(first(x, y) | (y != y), g, 0),
        lambda g, _r, x, y: np.where(first(x, y) | (y != y), 0, g),
    )


def power(x: Any, p: Any) -> Any:
    """x**p, for the common exponents by multiplication as PyTorch does it."""
    if isinstance(x, Tensor):
        return x**p
    if p.__class__ is int or p.__class__ is float:
        if p == 2:
            return x * x
        if p == 3:
            return x * x * x
        if p == 1:
            return x * 1
        if x.dtype.kind == "f":
            if p == 0.5:
                return np.sqrt(x)
            if p == -1:
                return 1 / x
            if p == -0.5:
                return 1 / np.sqrt(x)
            if p == -2:
                return 1 / (x * x)
            raised = by_magnitude if type(x) is np.ndarray and x.size >= MANY_POWERS and not p % 1 else np.power
            return raised(x.astype(F64), p).astype(F32) if x.dtype is F32 else raised(x, p)
    return np.power(x, p)


def _power_of_number(g: Any, _r: Any, x: Any, p: Any) -> Any:
    if p == 0:
        return wrap(np.zeros_like(g._a)) if isinstance(g, Tensor) else np.zeros(g.shape, g.dtype)
    return g * (p * power(x, p - 1))


def _power_self(g: Any, _r: Any, x: Any, y: Any) -> Any:
    return np.where(y == 0, np.zeros((), g.dtype), g * (y * np.power(x, y - 1)))


def _power_exponent(g: Any, r: Any, x: Any, y: Any) -> Any:
    return np.where((x == 0) & (y >= 0), np.zeros((), g.dtype), g * (r * np.log(x)))


def _exponent_of_number(g: Any, r: Any, _y: Any, base: Any) -> Any:
    return np.zeros(g.shape, g.dtype) if base == 0 else g * (r * np.log(base))


def _integer_power(x: Any, y: Any) -> Any:
    """`x ** y`, for integers with negative exponents too: 1, -1, and all others rounded to 0."""
    if x.dtype.kind not in "iu" or y.dtype.kind != "i" or not np.any(y < 0):
        return np.power(x, y)
    return np.where((y >= 0) | (abs(x) == 1), np.power(x, np.where(y < 0, y & 1, y)), np.zeros((), x.dtype))


def divisor(y: Any) -> Any:
    """An array to divide by; integers may not hold 0."""
    if y.dtype.kind in "iu" and np.any(y == 0):
        raise RuntimeError("ZeroDivisionError")
    return y


def remainder(x: Any, y: Any) -> Any:
    """`x % y` with the sign of y; a zero has that of x."""
    if x.dtype.kind != "f":
        return np.remainder(x, divisor(y))
    r = np.fmod(x, y)
    return np.where((r != 0) & ((r < 0) != (y < 0)), r + y, r)


def logaddexp(x: Any, y: Any) -> Any:
    if np.result_type(x, y).kind != "c":
        return np.logaddexp(x, y)
    first = x.real >= y.real
    high, low = np.where(first, x, y), np.where(first, y, x)
    return high + np.log1p(np.exp(low - high))


BINARY: dict[str, Op] = {
    "add": row("Add", np.add, "Add", same, same),
    "sub": row("Sub", np.subtract, ("Sub", "Neg"), same, lambda g, _r, _x, _y: -g),
    "mul": row("Mul", "multiply"),
    "div": row("Div", np.true_divide, ("Div", "Mul"), lambda g, _r, _x, y: g / y, lambda g, _r, x, y: -g * ((x / y) / y)),
    "pow": row("PowBackward1", _integer_power, ("Where", "Mul"), _power_self, _power_exponent),
    "atan2": Op("Atan2Backward0", np.arctan2, rules("arctan2").vjps),
    "maximum": row("Maximum", np.maximum, "MaskedFill", _larger, _smaller, flat=True),
    "minimum": row("Minimum", np.minimum, "MaskedFill", _smaller, _larger, flat=True),
    "fmax": row("Fmax", np.fmax, "MaskedFill", *_parted(np.greater_equal), flat=True),
    "fmin": row("Fmin", np.fmin, "MaskedFill", *_parted(np.less_equal), flat=True),
    "fmod": row("FmodBackward1", lambda x, y: np.fmod(x, divisor(y)), ("Fmod", "Mul"), same, lambda g, _r, x, y: -g * np.trunc(x / y)),
    "remainder": row("RemainderBackward1", remainder, ("Remainder", "Mul"), same, lambda g, _r, x, y: -g * np.floor(x / y)),
    "xlogy": row(
        "Xlogy",
        lambda x, y: np.where(x == 0, np.where(y != y, y, 0), x * np.log(np.where((x == 0) & (y == y), 1, y))),
        "MulBackward0",
        lambda g, _r, x, y: g * np.where((x == 0) & (y <= 0), 0, np.log(np.where((x == 0) & (y <= 0), 1, y))),
        lambda g, _r, x, y: g * x / y,
    ),
    "nextafter": row("Nextafter", np.nextafter, ("Mul", "Zero"), same, zero),
    "hypot": row("Hypot", np.hypot, "Div", lambda g, r, x, _y: g * x / r, lambda g, r, _x, y: g * y / r),
    "logaddexp": row(
        "Logaddexp", logaddexp, "Div", lambda g, _r, x, y: g / (1 + np.exp(y - x)), lambda g, _r, x, y: g / (1 + np.exp(x - y))
    ),
}
_FLOATING = ("div", "atan2", "logaddexp", "xlogy")
PLAIN: dict[str, Any] = {  # results without a gradient
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
}  # fmt: skip
SHIFTS: dict[str, Any] = {"lshift": np.left_shift, "rshift": np.right_shift}
_PREDICATES: dict[str, Any] = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "logical_not": np.logical_not,
    "bitwise_not": np.invert,
    "signbit": np.signbit,
}


with_gradient(UNARY["tanh"], lambda r: -2 * r, algebra=True)
with_gradient(UNARY["sigmoid"], lambda r: 1 - 2 * r, algebra=True)
with_gradient(WHOLE["relu"])
POW0 = Op("PowBackward0", power, [_power_of_number], algebra=True)
TRUE_POWER = Op("PowBackward0", lambda x, p: x | (not p), [zero])
POW2 = Op("PowBackward2", lambda y, base: _integer_power(np.asarray(_dtypes.wrapped(base, y.dtype)), y), [_exponent_of_number])
RSUB = Op("RsubBackward1", lambda x, c: c - x, [lambda g, _r, _x, _c: -g], "Neg", algebra=True)
RSUB0 = Op("Rsub", lambda x, y, c: y - c * x, [lambda g, _r, _x, _y, c: -c * g, same])
ADD_SCALED = Op("Add", lambda x, y, c: x + c * y, [same, lambda g, _r, _x, _y, c: g * c])
SUB_SCALED = Op("Sub", lambda x, y, c: x - c * y, [same, lambda g, _r, _x, _y, c: -c * g])
# The rule of the argument, not the number, is all there is where the divisor is a number.
REMAINDER0 = Op("RemainderBackward0", lambda x, c: remainder(x, _dtypes.wrapped(c, x.dtype)), [same])
FMOD0 = Op("FmodBackward0", lambda x, c: np.fmod(x, divisor(_dtypes.wrapped(c, x.dtype))), [same])

FAST: dict[str, Callable[..., Any]] = {name: binary(name, op, name in _FLOATING) for name, op in BINARY.items()}


_TENSOR_FIRST = ("eq", "ne", "lt", "le", "gt", "ge", "fmod")
_TENSORS_ONLY = "atan2 maximum minimum fmax fmin hypot logaddexp nextafter logical_and logical_or logical_xor".split()


def operator(name: str, apply: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A function of `torch.` from an operator, which answers NotImplemented to what it does not take."""
    second = (Tensor,) if name in _TENSORS_ONLY else (Tensor, *SCALARS)
    first = (Tensor,) if name in _TENSOR_FIRST else second

    @refusing_itself
    def function(input: Any, other: Any, *, out: Any = None) -> Any:
        if not isinstance(input, first):
            raise bad_argument(name, "input", 1, input)
        if not isinstance(other, second):
            raise bad_argument(name, "other", 2, other)
        result = apply(input, other)
        return result if out is None else written_to(name, out, result)

    return function


def comparison(name: str, fun: Any) -> Callable[[Any, Any], Any]:
    refused = "".join(LIMITS.get(name, ()))

    @refusing_itself
    def function(self: Any, other: Any) -> Any:
        if not isinstance(self, Tensor):
            self = wrap(np.asarray(self, _dtypes.of_scalar(self).np))
        if isinstance(other, Tensor):
            a, b = self._a, other._a
            if a.dtype is not b.dtype:
                d = _dtypes.result_type(self, other).np
                a, b = a.astype(d), b.astype(d)
        elif other.__class__ in (float, int) and self._a.dtype.kind == "f":
            a, b = self._a, other
        elif isinstance(other, SCALARS):
            a, b = self._a, other
            d = _dtypes.result_type(self, other).np
            if a.dtype != d:
                a = a.astype(d)
            if d.kind in "iu":
                b = _dtypes.wrapped(other, d)
        else:
            return NotImplemented
        if a.dtype.kind in refused:
            refuse(name, a.dtype)
        try:
            return wrap(fun(a, b))
        except ValueError:
            return promoted(_COMPARED, self, other)

    function.__name__ = function.__qualname__ = name
    return function


_COMPARED = Op("Compare", np.equal, [zero, zero])


def _unary_inplace(name: str, op: Op, floating: bool) -> Callable[[Any], Any]:
    def method(input: Any) -> Any:
        refuse(name, input._a.dtype)
        if floating and input._a.dtype.kind in "biu":
            check_cast(_dtypes.get_default_dtype(), input.dtype)
        return inplace(op, input)

    return method


def _binary_inplace(name: str, scaled: Op | None) -> Callable[..., Any]:
    """The form in place of an operation of training loops; `scaled` is its row with a factor."""
    op = BINARY[name]

    def method(self: Any, other: Any, *last: Any, alpha: Any = 1) -> Any:
        if last and scaled:  # in PyTorch 1 the factor came first
            alpha, (other,) = other, last
        elif last or (alpha != 1 and not scaled):
            raise TypeError(f"{name}_() takes one argument, and no factor")
        if not isinstance(other, (Tensor, *SCALARS)):
            raise bad_argument(name + "_", "other", 1, other)
        a = self._a
        if a.dtype.kind != "f" or (a.dtype is not other._a.dtype if isinstance(other, Tensor) else other.__class__ not in (float, int)):
            d = _dtypes.result_type(self, other)
            refuse(name, d.np)
            check_cast(_dtypes.get_default_dtype() if name == "div" and d.category < _dtypes.FLOAT else d, self.dtype)
        if scaled and (alpha.__class__ is bool or alpha != 1):
            return inplace(scaled, self, (other,), (_dtypes.factor(alpha, self.dtype),))
        return inplace(op, self, (other,))

    return method


def _is_bool(x: Any) -> bool:
    return x._a.dtype is B if isinstance(x, Tensor) else x.__class__ is bool


def refusing(fast: Callable[..., Any]) -> Callable[..., Any]:
    """A subtraction that refuses bools."""

    @refusing_itself
    @functools.wraps(fast)
    def method(self: Any, other: Any, *last: Any, **named: Any) -> Any:
        first, second = _is_bool(self), _is_bool(other)
        if first and second:
            raise RuntimeError(
                "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead."
            )
        if first or second:
            refuse("sub", B)
        return fast(self, other, *last, **named)

    return method


def _attach() -> None:
    for name, op in {**UNARY, **WHOLE}.items():
        floating = name in UNARY and name not in ("abs", "sign", "sgn")
        public(unary(name, op, floating), name)
        public(_unary_inplace(name, op, floating), name + "_", torch=False)
    for name, scaled in (("add", ADD_SCALED), ("sub", SUB_SCALED), ("mul", None), ("div", None)):
        method = _binary_inplace(name, scaled)
        public(refusing(method) if name == "sub" else method, name + "_", torch=False)
    public(_binary_inplace("mul", None), "multiply_", torch=False)
    for name in BINARY.keys() - ("add", "sub", "div", "pow", "fmod", "remainder"):
        public(operator(name, FAST[name]), name)
    fun: Any
    for name, fun in PLAIN.items():
        public(operator(name, comparison(name, fun)), name)
    for name, fun in _PREDICATES.items():
        public(_predicate(name, fun), name)
    for alias, name in _ALIASES.items():
        public(FUNCTIONS[name], alias, method=alias != "expit")


def _predicate(name: str, fun: Any) -> Callable[..., Any]:
    @refusing_itself
    def function(input: Any) -> Any:
        if not isinstance(input, Tensor):
            raise bad_argument(name, "input", 1, input)
        refuse(name, input._a.dtype)
        return wrap(fun(input._a))

    return function


_attach()
