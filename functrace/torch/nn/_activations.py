"""Activations: a row of the binding table for each, and the function that users call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch import _random
from functrace.torch._apply import call, with_gradient
from functrace.torch._border import named
from functrace.torch._contact import chosen
from functrace.torch._curves import bounded, in_blocks, logistic
from functrace.torch._dtypes import warn
from functrace.torch._nodes import Op
from functrace.torch._ops import FUNCTIONS, UNARY
from functrace.torch._reduce import log_softmax as _log_softmax
from functrace.torch._reduce import softmax as _softmax
from functrace.torch._shape import axis
from functrace.torch._tensor import Tensor, wrap
from functrace.torch._views import bad_argument
from functrace.torch._views import inplace as _inplace

_C = math.sqrt(2 / math.pi)


def softplus_of(x: Any) -> Any:
    """log(1 + exp(x)), without overflow."""
    return bounded(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _is_line(x: Any, beta: float, threshold: float) -> bool:
    """Whether `softplus` is beyond the threshold, to the bit, what it is said to be there, so that nothing need be chosen."""
    return bool(x.dtype == np.float32 and beta == 1 and threshold >= 18)


def _softplus(x: Any, beta: float, threshold: float) -> Any:
    if _is_line(x, beta, threshold):
        return softplus_of(x)
    return chosen(x * beta > threshold, x, softplus_of(x * beta) / beta)


def _unsoftplus(g: Any, _r: Any, x: Any, beta: float, threshold: float) -> Any:
    if _is_line(x, beta, threshold):
        return g * logistic(x)
    return chosen(x * beta > threshold, g, g * logistic(x * beta))


def _gate(x: Any, approximate: str, made: Any = None) -> Any:
    """The share of x in `gelu`. It takes longer than all else there, so what was `made` of an array is used again."""
    if made is not None and type(x) is np.ndarray:
        return made
    return 0.5 * (1 + (np.tanh(_C * (x + 0.044715 * x * x * x)) if approximate == "tanh" else UNARY["erf"].fun(x * math.sqrt(0.5))))


def _gelu(x: Any, approximate: str, made: Any) -> Any:
    return x * _gate(x, approximate, made)


def _ungelu(g: Any, _r: Any, x: Any, approximate: str, made: Any) -> Any:
    gate, square = _gate(x, approximate, made), x * x
    if approximate == "tanh":
        return g * (gate + 2 * _C * x * gate * (1 - gate) * (1 + 3 * 0.044715 * square))
    return g * (gate + x * (np.exp(-0.5 * square) / math.sqrt(2 * math.pi)))


_GATES, _SIGMOIDS = in_blocks(_gate), in_blocks(logistic)


def _made(fun: Any, input: Any, *params: Any) -> Any:
    """What takes longest in an activation, once for the result and its gradient; of traced values each makes its own."""
    a = getattr(input, "_a", None)
    return fun(a, *params) if type(a) is np.ndarray and a.dtype.kind == "f" else None


def _bell(x: Any) -> Any:
    """The derivative of the logistic function."""
    s = logistic(x)
    return s * (1 - s)


def _gelu_bend(x: Any, approximate: str) -> Any:
    square = x * x
    if approximate != "tanh":
        return np.exp(-0.5 * square) * (2 - square) / math.sqrt(2 * math.pi)
    t = np.tanh(_C * (x + 0.044715 * x * square))
    slope = _C * (1 + 3 * 0.044715 * square)
    return (1 - t * t) * (slope + x * (3 * 0.044715 * _C * x - t * slope * slope))


def _elu(x: Any, alpha: float, scale: float, input_scale: float) -> Any:
    return chosen(x >= 0, x * scale, scale * alpha * np.expm1(bounded(x, None, 0) * input_scale))


def _unelu(g: Any, _r: Any, x: Any, alpha: float, scale: float, input_scale: float) -> Any:
    return g * chosen(~(x > 0), scale * alpha * input_scale * np.exp(bounded(x, None, 0) * input_scale), scale)


def _sigmoid(x: Any, made: Any) -> Any:
    return made if made is not None and type(x) is np.ndarray else logistic(x)


def _leaky(x: Any, a: float) -> Any:
    return np.maximum(x, x * a) if 0 < a <= 1 else chosen(x > 0, x, x * a)


def _unsilu(g: Any, _r: Any, x: Any, made: Any) -> Any:
    return _silu_pull(g, x, _sigmoid(x, made))


def _silu_pull(g: Any, x: Any, s: Any) -> Any:
    return g * s * (1 + x * (1 - s))


def _unmish(g: Any, _r: Any, x: Any) -> Any:
    t = np.tanh(softplus_of(x))
    return g * (t + x * (1 - t * t) * logistic(x))


def _unclipped(g: Any, _r: Any, x: Any, low: Any, high: Any) -> Any:
    """The rule of what is linear strictly between two bounds and constant beyond."""
    return chosen((x > low) & (x < high), g)


_OPS: dict[str, tuple[str, Any, Any, str]] = {  # function: (node, array function, rule, node of the rule)
    "softplus": ("Softplus", _softplus, _unsoftplus, "SoftplusBackward"),
    "gelu": ("Gelu", _gelu, _ungelu, "GeluBackward"),
    "elu": ("Elu", _elu, _unelu, "EluBackward"),
    "celu": ("Celu", _elu, _unelu, "EluBackward"),
    "silu": ("Silu", lambda x, made: x * _sigmoid(x, made), _unsilu, "Mul"),
    "mish": ("Mish", lambda x: x * np.tanh(softplus_of(x)), _unmish, "Mul"),
    "logsigmoid": ("LogSigmoid", lambda x: -softplus_of(-x), lambda g, _r, x: g * logistic(-x), "LogSigmoidBackward"),
    "leaky_relu": ("LeakyRelu", _leaky, lambda g, _r, x, a: chosen(x > 0, g, g * a), "LeakyReluBackward"),
    "hardtanh": ("Hardtanh", lambda x, low, high: np.clip(x, x.dtype.type(low), x.dtype.type(high)), _unclipped, "HardtanhBackward"),
    "hardsigmoid": (
        "Hardsigmoid",
        lambda x: np.clip(x + 3, 0, 6) / 6,
        lambda g, _r, x: _unclipped(g / 6, _r, x, -3, 3),
        "HardsigmoidBackward",
    ),
    "hardswish": (
        "Hardswish",
        lambda x: x * np.clip(x + 3, 0, 6) / 6,
        lambda g, _r, x: chosen(~(x <= -3), chosen(x < 3, g * (x / 3 + 0.5), g)),
        "HardswishBackward",
    ),
    "threshold": (
        "Threshold",
        lambda x, threshold, value: chosen(~(x <= threshold), x, x.dtype.type(value)),
        lambda g, _r, x, threshold, _value: chosen(~(x <= threshold), g),
        "ThresholdBackward",
    ),
    "hardshrink": (
        "Hardshrink",
        lambda x, lambd: chosen(~(np.abs(x) <= lambd), x),
        lambda g, _r, x, lambd: chosen(~(np.abs(x) <= lambd), g),
        "HardshrinkBackward",
    ),
    "softshrink": (
        "Softshrink",
        lambda x, lambd: np.copysign(bounded(np.abs(x) - lambd, 0), x),
        lambda g, _r, x, lambd: chosen(~(np.abs(x) <= lambd), g),
        "SoftshrinkBackward",
    ),
}
_ROWS: dict[str, Op] = {name: Op(node, in_blocks(fun), [in_blocks(rule)], second) for name, (node, fun, rule, second) in _OPS.items()}
_SLOPES: dict[str, Any] = {  # of the factors in the rules; None: zero
    "softplus": lambda x, beta, threshold: (
        _bell(x) if _is_line(x, beta, threshold) else chosen(~(x * beta > threshold), _bell(x * beta) * beta)
    ),
    "gelu": lambda x, approximate, _made: _gelu_bend(x, approximate),
    **dict.fromkeys(("elu", "celu"), lambda x, alpha, scale, c: chosen(~(x > 0), _unelu(c, None, x, alpha, scale, c))),
    "logsigmoid": lambda x: -_bell(x),
    **dict.fromkeys(("leaky_relu", "hardtanh", "hardsigmoid", "threshold", "hardshrink", "softshrink")),
}
for _name, _slope in _SLOPES.items():
    with_gradient(_ROWS[_name], _slope)


_ROWS["silu"].again = [lambda g, _r, x, _made: _silu_pull(g, x, FUNCTIONS["sigmoid"](x))]  # in steps, as PyTorch does it
_WRITTEN = {  # the rows of in-place forms
    **_ROWS,
    **{
        name: Op(_OPS[name][0] + "Backward1", _ROWS[name].fun, _ROWS[name].rules, _OPS[name][3])
        for name in ("elu", "celu", "leaky_relu", "threshold")
    },
}
_PRELU = Op(
    "PreluKernel",
    lambda x, w: chosen(x > 0, x, x * w),
    [lambda g, _r, x, w: chosen(x > 0, g, g * w), lambda g, _r, x, _w: chosen(~(x > 0), g * x)],
    "PreluKernelBackward",
)

sigmoid, tanh = FUNCTIONS["sigmoid"], FUNCTIONS["tanh"]
_relu = FUNCTIONS["relu"]


def _activate(name: str, x: Any, params: tuple[Any, ...] = (), inplace: bool = False) -> Any:
    if not isinstance(x, Tensor):
        raise bad_argument(name, "input", 1, x)
    return _inplace(_WRITTEN[name], x, (), params) if inplace else call(_ROWS[name], (x,), params)


def relu(input: Any, inplace: bool = False) -> Any:
    """`max(input, 0)`."""
    return input.relu_() if inplace else _relu(input)


def softplus(input: Any, beta: float = 1, threshold: float = 20) -> Any:
    """log(1 + exp(beta x)) / beta."""
    return _activate("softplus", input, (beta, threshold))


def gelu(input: Any, *, approximate: str = "none") -> Any:
    """x times the normal distribution function at x."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return _activate("gelu", input, (approximate, _made(_GATES, input, approximate)))


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x, or alpha (exp(x) - 1) where x is negative."""
    return _activate("elu", input, (alpha, 1.0, 1.0), inplace)


def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x, or alpha (exp(x / alpha) - 1) where x is negative."""
    return _activate("celu", input, (alpha, 1.0, 1.0 / alpha), inplace)


def selu(input: Any, inplace: bool = False) -> Any:
    """Self-normalising `elu` (Klambauer et al. 2017)."""
    return _activate("elu", input, (1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1.0), inplace)


def silu(input: Any, inplace: bool = False) -> Any:
    """x sigmoid(x)."""
    return _activate("silu", input, (_made(_SIGMOIDS, input),), inplace)


def mish(input: Any, inplace: bool = False) -> Any:
    """x tanh(softplus(x))."""
    return _activate("mish", input, (), inplace)


def logsigmoid(input: Any) -> Any:
    """log(sigmoid(x))."""
    return _activate("logsigmoid", input)


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """x, or a fraction of it where x is negative."""
    return _activate("leaky_relu", input, (negative_slope,), inplace)


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """x between two bounds."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _activate("hardtanh", input, (min_val, max_val), inplace)


def relu6(input: Any, inplace: bool = False) -> Any:
    """x between 0 and 6."""
    return hardtanh(input, 0.0, 6.0, inplace)


def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    """0 up to -3, 1 from 3, a line between."""
    return _activate("hardsigmoid", input, (), inplace)


def hardswish(input: Any, inplace: bool = False) -> Any:
    """x hardsigmoid(x)."""
    return _activate("hardswish", input, (), inplace)


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """x, or `value` where it is not above the threshold."""
    return _activate("threshold", input, (threshold, value), inplace)


def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """x, or 0 between -lambd and lambd."""
    return _activate("hardshrink", input, (lambd,))


def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """x moved towards 0 by lambd."""
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd:g}.")
    return _activate("softshrink", input, (lambd,))


def tanhshrink(input: Any) -> Any:
    """x - tanh(x)."""
    return input - tanh(input)


def softsign(input: Any) -> Any:
    """x / (1 + |x|)."""
    return input / (input.abs() + 1)


def prelu(input: Any, weight: Any) -> Any:
    """`leaky_relu` with a slope that is learned, one for all or one for each channel (axis 1)."""
    n = weight._a.size
    if weight._a.dtype != input._a.dtype:
        raise RuntimeError(f"prelu: Type promoting not supported. Got {input.dtype.scalar} and {weight.dtype.scalar}")
    if weight._a.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight._a.ndim}")
    if n != 1:
        channels = input._a.shape[1] if input._a.ndim > 1 else 1
        if not input._a.ndim:
            raise RuntimeError("Not allow zero-dim input tensor.")
        if n != channels:
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {n} and channel size = {channels}."
            )
    ndim = input._a.ndim
    slope = weight if weight._a.ndim == ndim == 1 else weight.view((1, n, *(1,) * (ndim - 2)) if ndim > 1 else (n,) * ndim)
    return call(_PRELU, (input, slope))


_RRELU = {k: Op(f"RreluWithNoiseBackward{k}", lambda x, slopes: x * slopes, [lambda g, _r, _x, slopes: g * slopes]) for k in (0, 1)}


def rrelu(input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False) -> Any:
    """`leaky_relu` with slopes drawn uniformly while training, their mean otherwise."""
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    slopes, negative = np.ones_like(input._a), input._a <= 0
    shares = _random.draw("uniform", (int(negative.sum()),), np.dtype(np.float64)) if training else 0.5
    slopes[negative] = shares * (upper - lower) + lower
    return _inplace(_RRELU[1], input, (), (slopes,)) if inplace else call(_RRELU[0], (input,), (slopes,))


def glu(input: Any, dim: int = -1) -> Any:
    """One half of the tensor, gated by the sigmoid of the other."""
    if not input._a.ndim:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    k = axis(dim, input._a.ndim)
    if input._a.shape[k] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {k} is size {input._a.shape[k]}")
    return call(_GLU, (input,), (k,))


def _halves(x: Any, k: int) -> Any:
    n, lead = x.shape[k] // 2, (slice(None),) * k
    return x[(*lead, slice(n))], x[(*lead, slice(n, None))]


def _gated(x: Any, k: int) -> Any:
    a, b = _halves(x, k)
    return a * logistic(b)


def _ungated(g: Any, _r: Any, x: Any, k: int) -> Any:
    a, b = _halves(x, k)
    s = logistic(b)
    d = g * s
    return np.concatenate([d, d * a * (1 - s)], axis=k)


_GLU = Op("Glu", _gated, [_ungated], "GluBackward")


def _implicit(name: str, ndim: int) -> int:
    warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.")
    return 0 if ndim in (0, 1, 3) else 1


def _over_axis(name: str, function: Callable[..., Any]) -> Any:
    @named(name, f"`torch.{name}`; without `dim` PyTorch's old choice of an axis, with a warning.")
    def over_axis(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
        dim = _implicit(name, input._a.ndim) if dim is None else dim
        return function(input, dim) if dtype is None else function(input.to(dtype), dim)

    return over_axis


softmax, log_softmax = _over_axis("softmax", _softmax), _over_axis("log_softmax", _log_softmax)
softmin = _over_axis("softmin", lambda x, dim: _softmax(-x, dim))


def gumbel_softmax(logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Any:
    """A sample of a distribution over classes that can be differentiated (Jang et al. 2017); one-hot if `hard`."""
    a = logits._a
    gumbels = wrap(-np.log(wrap(np.empty(a.shape, a.dtype)).exponential_()._a))
    soft = _softmax((logits + gumbels) / tau, dim)
    if not hard:
        return soft
    k = dim % a.ndim
    ones = (np.argmax(soft._a, k, keepdims=True) == np.arange(a.shape[k]).reshape(-1, *(1,) * (a.ndim - k - 1))).astype(a.dtype)
    return wrap(ones) - soft.detach() + soft
