"""`torch.nn.functional`: activations, losses, and linear maps, as functions."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from functrace.torch import _random
from functrace.torch._apply import call
from functrace.torch._contact import GETITEM
from functrace.torch._missing import missing
from functrace.torch._nodes import Op
from functrace.torch._ops import FUNCTIONS, UNARY, logistic
from functrace.torch._reduce import log_softmax, softmax
from functrace.torch._select import addmm, matmul
from functrace.torch._shape import t
from functrace.torch._tensor import wrap

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "hardtanh",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsigmoid",
    "mse_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softplus",
    "tanh",
]

sigmoid, tanh = FUNCTIONS["sigmoid"], FUNCTIONS["tanh"]
_relu = FUNCTIONS["relu"]
_REDUCTIONS = ("none", "mean", "sum")


def relu(input: Any, inplace: bool = False) -> Any:
    """`max(input, 0)`."""
    return input.relu_() if inplace else _relu(input)


def _logistic(x: Any) -> Any:
    """log(1 + exp(x)), without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _reduced(x: Any, reduction: str) -> Any:
    return x if reduction == "none" else np.sum(x) if reduction == "sum" else np.sum(x) / x.size


def _scale(g: Any, n: int, reduction: str) -> Any:
    return g / n if reduction == "mean" else g


def _check(reduction: str) -> str:
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


# activations: (name, node, function of the array and its parameters, rule, node of the rule)


def _softplus(x: Any, beta: float, threshold: float) -> Any:
    return np.where(x * beta > threshold, x, _logistic(x * beta) / beta)


def _erf(x: Any) -> Any:
    return UNARY["erf"].fun(x)


def _gelu(x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return x * 0.5 * (1 + _erf(x * math.sqrt(0.5)))


def _ungelu(g: Any, _r: Any, x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        c = math.sqrt(2 / math.pi)
        u = np.tanh(c * (x + 0.044715 * x * x * x))
        return g * (0.5 * (1 + u) + 0.5 * x * (1 - u * u) * c * (1 + 3 * 0.044715 * x * x))
    return g * (0.5 * (1 + _erf(x * math.sqrt(0.5))) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi))


def _elu(x: Any, alpha: float, scale: float, input_scale: float) -> Any:
    return np.where(x >= 0, x * scale, scale * alpha * np.expm1(np.minimum(x, 0) * input_scale))


def _unelu(g: Any, _r: Any, x: Any, alpha: float, scale: float, input_scale: float) -> Any:
    return g * np.where(x > 0, scale + 0 * x, scale * alpha * input_scale * np.exp(np.minimum(x, 0) * input_scale))


def _unsilu(g: Any, _r: Any, x: Any) -> Any:
    s = logistic(x)
    return g * s * (1 + x * (1 - s))


_SOFTPLUS = Op(
    "Softplus",
    _softplus,
    [lambda g, _r, x, beta, threshold: np.where(x * beta > threshold, g, g * logistic(x * beta))],
    "SoftplusBackward",
)
_GELU = Op("Gelu", _gelu, [_ungelu], "GeluBackward")
_ELU = Op("Elu", _elu, [_unelu], "EluBackward")
_SILU = Op("Silu", lambda x: x * logistic(x), [_unsilu])
_LOG_SIGMOID = Op("LogSigmoid", lambda x: -_logistic(-x), [lambda g, _r, x: g * logistic(-x)], "LogSigmoidBackward")
_LEAKY = Op("LeakyRelu", lambda x, a: np.where(x > 0, x, x * a), [lambda g, _r, x, a: np.where(x > 0, g, g * a)], "LeakyReluBackward")
_HARDTANH = Op(
    "Hardtanh",
    lambda x, low, high: np.clip(x, x.dtype.type(low), x.dtype.type(high)),
    [lambda g, _r, x, low, high: np.where((x > low) & (x < high), g, np.zeros((), g.dtype))],
    "HardtanhBackward",
)


def softplus(input: Any, beta: float = 1, threshold: float = 20) -> Any:
    """log(1 + exp(beta x)) / beta."""
    return call(_SOFTPLUS, (input,), (beta, threshold))


def gelu(input: Any, approximate: str = "none") -> Any:
    """x times the normal distribution function at x."""
    return call(_GELU, (input,), (approximate,))


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x, or alpha (exp(x) - 1) where x is negative."""
    return call(_ELU, (input,), (alpha, 1.0, 1.0))


def selu(input: Any, inplace: bool = False) -> Any:
    """Self-normalising `elu`."""
    return call(_ELU, (input,), (1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1.0))


def silu(input: Any, inplace: bool = False) -> Any:
    """x sigmoid(x)."""
    return call(_SILU, (input,))


def logsigmoid(input: Any) -> Any:
    """log(sigmoid(x))."""
    return call(_LOG_SIGMOID, (input,))


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """x, or a fraction of it where x is negative."""
    return call(_LEAKY, (input,), (negative_slope,))


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """x between two bounds."""
    return call(_HARDTANH, (input,), (min_val, max_val))


def relu6(input: Any, inplace: bool = False) -> Any:
    """x between 0 and 6."""
    return hardtanh(input, 0.0, 6.0)


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zero each element with probability p and scale the rest. Not PyTorch's own random choice."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    kept = _random.draw("uniform", input._a.shape, np.dtype(np.float64)) >= p
    return input * wrap((kept / (1 - p if p < 1 else 1)).astype(input._a.dtype))


def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    """Divided by its norm along an axis."""
    return input / FUNCTIONS["norm"](input, p, dim, True).clamp(min=eps).expand_as(input)


def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """Rows of the identity matrix."""
    n = int(tensor._a.max()) + 1 if num_classes < 0 else num_classes
    return wrap(np.eye(n, dtype=np.int64)[tensor._a])


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """`input @ weight.T + bias`."""
    if bias is not None and input._a.ndim == 2:
        return addmm(bias, input, t(weight))
    out = matmul(input, t(weight))
    return out if bias is None else out + bias


_EMBEDDING = Op("Embedding", GETITEM.fun, GETITEM.vjps, frees=True, flat=True)


def embedding(input: Any, weight: Any, padding_idx: Any = None) -> Any:
    """The rows of `weight` that `input` names."""
    return call(_EMBEDDING, (weight,), (input._a,))


# losses


def _bce_logits(x: Any, y: Any, weight: Any, pos_weight: Any, reduction: str) -> Any:
    positive = _logistic(-x)
    loss = (1 - y) * x + (positive if pos_weight is None else (1 + (pos_weight - 1) * y) * positive)
    return _reduced(loss if weight is None else loss * weight, reduction)


def _bce_logits_x(g: Any, _r: Any, x: Any, y: Any, weight: Any, pos_weight: Any, reduction: str) -> Any:
    s = logistic(x)
    d = s - y if pos_weight is None else (pos_weight * y + 1 - y) * s - pos_weight * y
    return _scale(g * (d if weight is None else d * weight), x.size, reduction)


def _bce_logits_y(g: Any, _r: Any, x: Any, _y: Any, weight: Any, pos_weight: Any, reduction: str) -> Any:
    d = -x if pos_weight is None else -x + (pos_weight - 1) * _logistic(-x)
    return _scale(g * (d if weight is None else d * weight), x.size, reduction)


_BCE_LOGITS = Op("BinaryCrossEntropyWithLogits", _bce_logits, [_bce_logits_x, _bce_logits_y], "DivBackward1", frees=True)


def _plain(x: Any) -> Any:
    return None if x is None else x._a


def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    """The cross entropy of probabilities `sigmoid(input)` and `target`."""
    if target._a.shape != input._a.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    return call(_BCE_LOGITS, (input, target), (_plain(weight), _plain(pos_weight), _check(reduction)))


def _bce(p: Any, y: Any, weight: Any, reduction: str) -> Any:
    loss = -(y * np.maximum(np.log(p), -100) + (1 - y) * np.maximum(np.log1p(-p), -100))
    return _reduced(loss if weight is None else loss * weight, reduction)


def _unbce(g: Any, _r: Any, p: Any, y: Any, weight: Any, reduction: str) -> Any:
    d = (p - y) / np.maximum((1 - p) * p, 1e-12)
    return _scale(g * (d if weight is None else d * weight), p.size, reduction)


def _unbce_target(g: Any, _r: Any, p: Any, _y: Any, weight: Any, reduction: str) -> Any:
    d = np.maximum(np.log1p(-p), -100) - np.maximum(np.log(p), -100)
    return _scale(g * (d if weight is None else d * weight), p.size, reduction)


_BCE = Op("BinaryCrossEntropy", _bce, [_unbce, _unbce_target], "Div", frees=True)


def binary_cross_entropy(
    input: Any, target: Any, weight: Any = None, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Any:
    """The cross entropy of probabilities `input` and `target`."""
    if target._a.shape != input._a.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. "
            "Please ensure they have the same size."
        )
    if ((input._a < 0) | (input._a > 1)).any():
        raise RuntimeError("all elements of input should be between 0 and 1")
    return call(_BCE, (input, target), (_plain(weight), _check(reduction)))


def _pair_loss(node: str, loss: Any, slope: Any) -> Op:
    def fun(x: Any, y: Any, reduction: str, *more: Any) -> Any:
        return _reduced(loss(x - y, *more), reduction)

    def first(g: Any, _r: Any, x: Any, y: Any, reduction: str, *more: Any) -> Any:
        d = x - y
        return _scale(g * slope(d, *more), d.size, reduction)

    def second(g: Any, _r: Any, x: Any, y: Any, reduction: str, *more: Any) -> Any:
        d = x - y
        return _scale(-g * slope(d, *more), d.size, reduction)

    return Op(node, fun, [first, second], node + "Backward", frees=True)


def _smooth(d: Any, beta: float) -> Any:
    size = np.abs(d)
    return np.where(size < beta, 0.5 * d * d / (beta or 1), size - 0.5 * beta)


def _huber(d: Any, delta: float) -> Any:
    size = np.abs(d)
    return np.where(size <= delta, 0.5 * d * d, delta * (size - 0.5 * delta))


_MSE = _pair_loss("MseLoss", lambda d: d * d, lambda d: 2 * d)
_SMOOTH = _pair_loss("SmoothL1Loss", _smooth, lambda d, beta: np.where(np.abs(d) < beta, d / (beta or 1), np.sign(d)))
_HUBER = _pair_loss("HuberLoss", _huber, lambda d, delta: np.clip(d, -delta, delta))


def _sizes(input: Any, target: Any) -> None:
    if target._a.shape != input._a.shape:
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will likely "
            "lead to incorrect results due "
            "to broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )
        try:
            np.broadcast_shapes(input._a.shape, target._a.shape)
        except ValueError:
            input - target


def mse_loss(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> Any:
    """The mean of the squared differences."""
    _sizes(input, target)
    return call(_MSE, (input, target), (_check(reduction),))


def smooth_l1_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean", beta: float = 1.0
) -> Any:
    """The mean of the differences' size, squared below `beta`."""
    _sizes(input, target)
    return call(_SMOOTH, (input, target), (_check(reduction), beta))


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    """`smooth_l1_loss` times `delta`."""
    _sizes(input, target)
    return call(_HUBER, (input, target), (_check(reduction), delta))


def l1_loss(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> Any:
    """The mean of the differences' size."""
    _sizes(input, target)
    d = (input - target).abs()
    return d if _check(reduction) == "none" else d.mean() if reduction == "mean" else d.sum()


def _pick(x: Any, target: Any) -> tuple[Any, ...]:
    """The index of each example's own class, class axis 1 (0 for a single example)."""
    if x.ndim == 1:
        return (np.maximum(target, 0),)
    grid = np.ix_(*(np.arange(n) for n in target.shape))
    return (grid[0], np.maximum(target, 0), *grid[1:])


def _nll(x: Any, target: Any, weight: Any, ignore: int, reduction: str) -> Any:
    kept = (target != ignore).astype(x.dtype)
    w = kept if weight is None else weight[np.maximum(target, 0)] * kept
    loss = -x[_pick(x, target)] * w
    return loss if reduction == "none" else np.sum(loss) if reduction == "sum" else np.sum(loss) / np.sum(w)


_NLL = Op("NllLoss", _nll, frees=True)


def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """Minus the log-probability of each example's class."""
    classes = input._a.shape[0 if input._a.ndim == 1 else 1]
    wrong = target._a[(target._a != ignore_index) & ((target._a < 0) | (target._a >= classes))]
    if wrong.size:
        raise IndexError(f"Target {wrong.flat[0]} is out of bounds.")
    if input._a.ndim > 1 and input._a.shape[0] != target._a.shape[0]:
        raise ValueError(f"Expected input batch_size ({input._a.shape[0]}) to match target batch_size ({target._a.shape[0]}).")
    return call(_NLL, (input,), (target._a, _plain(weight), ignore_index, _check(reduction)))


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """`nll_loss` of `log_softmax`; or with probabilities as target, the cross entropy with them."""
    if label_smoothing:
        raise NotImplementedError("cross_entropy: label_smoothing is not there yet; mix the target with the uniform distribution yourself.")
    k = 0 if input._a.ndim == 1 else 1
    logs = log_softmax(input, k)
    if target._a.dtype.kind != "f":
        return nll_loss(logs, target, weight, ignore_index=ignore_index, reduction=reduction)
    weighted = logs * target if weight is None else logs * target * weight.view(*(1,) * k, -1, *(1,) * (input._a.ndim - k - 1))
    if _check(reduction) == "none":
        return -weighted.sum(k)
    total = -weighted.sum()
    return total if reduction == "sum" else call(_DIV_BY_COUNT, (total,), (input._a.size // input._a.shape[k],))


_DIV_BY_COUNT = Op("DivBackward1", lambda x, n: x / n, [lambda g, _r, _x, n: g / n], "DivBackward1")


def kl_div(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    """The relative entropy of `target` and the log-probabilities `input`."""
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = FUNCTIONS["where"](target > 0, target * (target.log() - input), 0.0)
    if reduction == "batchmean":
        return loss.sum() / input._a.shape[0]
    return loss if _check(reduction) == "none" else loss.sum() if reduction == "sum" else loss.mean()


__getattr__ = missing("torch.nn.functional")
