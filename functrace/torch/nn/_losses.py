"""Losses. Each takes `reduction`: "none", "mean" or "sum" of the examples' losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.torch._along import counted, key_along, outside, picked
from functrace.torch._apply import call
from functrace.torch._contact import Tracer, chosen, in_floats, index_add, read, value
from functrace.torch._curves import bounded, in_blocks, logistic
from functrace.torch._dtypes import warn
from functrace.torch._nodes import Like, Op
from functrace.torch._ops import FUNCTIONS
from functrace.torch._reduce import log_softmax
from functrace.torch._shape import alike, axis
from functrace.torch._tensor import wrap
from functrace.torch._views import mismatch
from functrace.torch.nn._activations import softplus_of

_REDUCTIONS = ("none", "mean", "sum")


def _reduced(x: Any, reduction: str) -> Any:
    return x if reduction == "none" else x.sum() if reduction == "sum" else x.sum() / x.size


def pair_loss(node: str, each: Any, slope: Any, other: Any = None, again: str = "") -> Op:
    """The row of a loss of the elements of two arrays, and its slopes in them; that in the second is by default the first's, exchanged."""

    def fun(x: Any, y: Any, reduction: str, weight: Any = None, *more: Any) -> Any:
        loss = each(x, y, *more)
        return _reduced(loss if weight is None else loss * weight, reduction)

    def rule(slope: Any) -> Any:
        def pull(g: Any, _r: Any, x: Any, y: Any, reduction: str, weight: Any = None, *more: Any) -> Any:
            d = slope(x, y, *more)
            g = g / d.size if reduction == "mean" else g
            return (d if weight is None else d * weight) * g

        return in_floats(pull, 2)

    rules = [rule(slope), rule(other or (lambda x, y, *more: slope(y, x, *more)))]
    return Op(node, in_floats(fun), rules, again or node + "Backward", frees=True)


def checked(reduction: str, size_average: Any = None, reduce: Any = None) -> str:
    """The reduction, or what the two old keywords mean together."""
    if size_average is not None or reduce is not None:
        reduction = "none" if not (reduce is None or reduce) else "mean" if size_average is None or size_average else "sum"
        warn(f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.")
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def total(loss: Any, reduction: str) -> Any:
    """A tensor of losses reduced."""
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def _plain(x: Any, name: str, like: Any) -> Any:
    """The array of a weight, which must not require grad, in the dtype of another."""
    if x is None:
        return None
    if x._rg:
        raise RuntimeError(
            f"The function '{name}' is not differentiable with respect to argument 'weight'. This input cannot have requires_grad True."
        )
    if error := mismatch(x._a, like._a):
        raise error
    return x._a.astype(like._a.dtype, copy=False)


def _bce_logits(x: Any, y: Any, pos_weight: Any) -> Any:
    positive = softplus_of(-x)
    return (1 - y) * x + (positive if pos_weight is None else (1 + (pos_weight - 1) * y) * positive)


def _unbce_logits(x: Any, y: Any, pos_weight: Any) -> Any:
    s = logistic(x)
    return s - y if pos_weight is None else (pos_weight * y + 1 - y) * s - pos_weight * y


def _unbce_logits_target(x: Any, _y: Any, pos_weight: Any) -> Any:
    return -x if pos_weight is None else -x + (pos_weight - 1) * softplus_of(-x)


def _bce_logits_again(g: Any, _r: Any, x: Any, y: Any, reduction: str, weight: Any, pos_weight: Any) -> Any:
    s, positive = FUNCTIONS["sigmoid"](x), None if pos_weight is None else wrap(pos_weight.copy()) * y
    d = s - y if positive is None else (positive + 1 - y) * s - positive
    d = (d if weight is None else d * wrap(weight.copy())) * g
    return call(_DIV_BY_COUNT, (d,), (d._a.size,)) if reduction == "mean" else d


_BCE_LOGITS = pair_loss("BinaryCrossEntropyWithLogits", _bce_logits, _unbce_logits, _unbce_logits_target, "DivBackward1")
_BCE_LOGITS.again = [_bce_logits_again, None]  # in steps, as PyTorch does it


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
    if target._a.dtype.kind == "b":
        target - target  # which says what to do
    if target._a.dtype.kind not in "fc":
        raise RuntimeError(f"result type {input.dtype.scalar} can't be cast to the desired output type {target.dtype.scalar}")
    name = "binary_cross_entropy_with_logits"
    options = checked(reduction, size_average, reduce), _plain(weight, name, target), _plain(pos_weight, name, target)
    given = input if input.dtype is target.dtype else input.to(target.dtype), target
    return call(_BCE_LOGITS, given, options, (weight, pos_weight))


_BCE = pair_loss(
    "BinaryCrossEntropy",
    lambda p, y: -(y * bounded(np.log(p), -100) + (1 - y) * bounded(np.log1p(-p), -100)),
    lambda p, y: (p - y) / bounded((1 - p) * p, 1e-12),
    lambda p, _y: bounded(np.log1p(-p), -100) - bounded(np.log(p), -100),
    "Div",
)


def binary_cross_entropy(
    input: Any, target: Any, weight: Any = None, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Any:
    """The cross entropy of probabilities `input` and `target`."""
    if target._a.shape != input._a.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. "
            "Please ensure they have the same size."
        )
    if target._a.dtype != input._a.dtype:
        raise RuntimeError(f"Found dtype {target.dtype.scalar} but expected {input.dtype.scalar}")
    for t, what in ((input, "input"), (target, "target")):
        a = value(t._a)
        if a.size and not (a.min() >= 0 and a.max() <= 1):
            raise RuntimeError(f"all elements of {what} should be between 0 and 1")
    options = checked(reduction, size_average, reduce), _plain(weight, "binary_cross_entropy", input)
    return call(_BCE, (input, target), options, (weight,))


def _apart(node: str, loss: Any, slope: Any) -> Op:
    """The row of a loss of differences."""
    loss, slope = (in_blocks(lambda x, y, *more, f=f: f(x - y, *more)) for f in (loss, slope))
    return pair_loss(node, loss, slope)


def _smooth(d: Any, beta: float) -> Any:
    return _huber(d, beta) / beta if beta else np.abs(d)


def _huber(d: Any, delta: float) -> Any:
    size = np.abs(d)
    near = bounded(size, None, delta)
    return near * (size - 0.5 * near)


def _unhuber(d: Any, delta: float) -> Any:
    if type(d) is np.ndarray:
        return np.clip(d, -delta, delta)
    return chosen(np.abs(d) < delta, d, delta * np.sign(d))  # the same, but at the bounds it counts as constant


_MSE = _apart("MseLoss", lambda d: d * d, lambda d: 2 * d)
_MSE_SLOPE: Any = _MSE.rules[0]  # type: ignore[index]
_MSE_BACK = Op(
    _MSE.second[0],
    lambda g, x, y, reduction: _MSE_SLOPE(g, None, x, y, reduction),
    [
        lambda h, _r, _g, x, y, reduction: _MSE_SLOPE(h, None, x, y, reduction),
        lambda h, _r, g, _x, _y, reduction: h * (2 * g / (h.size if reduction == "mean" else 1)),
        lambda h, _r, g, _x, _y, reduction: h * (-2 * g / (h.size if reduction == "mean" else 1)),
    ],
)
_MSE.again = [
    lambda g, _r, x, y, reduction: call(_MSE_BACK, (g, x, y), (reduction,)),
    lambda g, _r, x, y, reduction: call(_MSE_BACK, (g, y, x), (reduction,)),
]
_SMOOTH = _apart("SmoothL1Loss", _smooth, lambda d, beta: _unhuber(d, beta) / beta if beta else np.sign(d))
_HUBER = _apart("HuberLoss", _huber, _unhuber)


def _sizes(input: Any, target: Any) -> None:
    if target._a.shape != input._a.shape:
        warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will likely lead to incorrect "
            "results due to broadcasting. Please ensure they have the same size."
        )
        try:
            np.broadcast_shapes(input._a.shape, target._a.shape)
        except ValueError:
            input - target


def _weigh(loss: Any, weight: Any) -> Any:
    if weight._a.shape != loss._a.shape:
        raise ValueError("Weights and input must have the same size.")
    return loss * weight


def _weighted(loss: Any, weight: Any, reduction: str) -> Any:
    loss = _weigh(loss, weight)
    return loss.sum() / weight.sum() if reduction == "mean" else total(loss, reduction)


def mse_loss(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean", weight: Any = None) -> Any:
    """The mean of the squared differences."""
    _sizes(input, target)
    input, target = alike((input, target))
    if input._a.dtype.kind not in "fc":
        raise NotImplementedError(f"\"mse_cpu\" not implemented for '{input.dtype.scalar}'")
    reduction = checked(reduction, size_average, reduce)
    if weight is not None:
        return _weighted(call(_MSE, (input, target), ("none",)), weight, reduction)
    return call(_MSE, (input, target), (reduction,))


def smooth_l1_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean", beta: float = 1.0
) -> Any:
    """The mean of the differences' size, squared below `beta`."""
    _sizes(input, target)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return l1_loss(input, target, size_average, reduce, reduction)
    return call(_SMOOTH, alike((input, target)), (checked(reduction, size_average, reduce), None, beta))


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None) -> Any:
    """`smooth_l1_loss` times `delta`."""
    _sizes(input, target)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    target = target.to(input.dtype)
    if weight is not None:  # a mean is of all elements, not of the weights
        return total(_weigh(call(_HUBER, (input, target), ("none", None, delta)), weight), checked(reduction))
    return call(_HUBER, (input, target), (checked(reduction), None, delta))


def l1_loss(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean", weight: Any = None) -> Any:
    """The mean of the differences' size."""
    _sizes(input, target)
    reduction, loss = checked(reduction, size_average, reduce), (input - target).abs()
    return total(loss, reduction) if weight is None else _weighted(loss, weight, reduction)


# classes


def placed(g: Any, index: Any, k: int, n: int) -> Any:
    """The transpose of `picked`: zeros with `g` at `index`."""
    out: Any = np.zeros((*g.shape[:k], n, *g.shape[k:]), g.dtype)
    index, g = np.expand_dims(index, k), np.expand_dims(g, k)
    if isinstance(g, Tracer) or isinstance(index, Tracer):
        return index_add(out, g, key_along(index, k))  # the places differ, but to see that takes time
    out.reshape(-1)[counted(out.shape, index, k)] = g
    return out


def _shares(dtype: Any, target: Any, weight: Any, ignore: int | None, reduction: str) -> tuple[Any, Any, Any]:
    """Which examples count, each one's class, and how much its loss counts."""
    kept = target != (-1 if ignore is None else ignore)
    safe = np.where(kept, target, 0)
    w = kept.astype(dtype)
    if weight is not None:
        w = w * read(weight, safe)
    return kept, safe, w / np.sum(w) if reduction == "mean" else w


def _all_count(x: Any, target: Any, weight: Any, ignore: int | None) -> bool:
    """The common case: a matrix of log-probabilities, whose rows all count alike."""
    return ignore is None and weight is None and type(x) in (np.ndarray, Like) and x.ndim == 2 and type(target) is np.ndarray


@in_floats
def _nll(x: Any, target: Any, weight: Any, ignore: int | None, reduction: str) -> Any:
    if _all_count(x, target, weight, ignore):
        loss = -x[np.arange(len(target)), target]
        return loss if reduction == "none" else np.add.reduce(loss) / (len(target) if reduction == "mean" else 1)
    kept, safe, w = _shares(x.dtype, target, weight, ignore, "sum")
    loss = np.where(kept, -picked(x, safe, min(1, len(x.shape) - 1)), np.zeros((), x.dtype)) * w
    return loss if reduction == "none" else np.sum(loss) / (np.sum(w) if reduction == "mean" else 1)


def _unnll(g: Any, _r: Any, _x: Any, target: Any, weight: Any, ignore: int | None, reduction: str) -> Any:
    if _all_count(_x, target, weight, ignore) and type(g) is np.ndarray:
        out = np.zeros(_x.shape, g.dtype)
        out[np.arange(len(target)), target] = g / -len(target) if reduction == "mean" else -g
        return out
    kept, safe, w = _shares(_x.dtype, target, weight, ignore, reduction)
    k = min(1, len(_x.shape) - 1)
    return placed(np.where(kept, -g * w, np.zeros((), g.dtype)), safe, k, _x.shape[k])


def indexed(node: str, fun: Any, rule: Any, more: int, **options: Any) -> Any:
    """A function of a tensor, `more` tensors that it is not differentiated in, and parameters.

    The node has an edge for the first alone; but within `vmap` the others may differ between the examples, and are arguments too.
    """
    alone, all_of = (Op(node, fun, [rule, *[None] * k], node + "Backward", frees=True, **options) for k in (0, more))

    def function(x: Any, others: Sequence[Any], params: tuple[Any, ...]) -> Any:
        arrays = [None if t is None else t._a for t in others]
        for a in arrays:
            if isinstance(a, Tracer):
                return call(all_of, (x, *others), params)
        return call(alone, (x,), (*arrays, *params), others)

    return function


_CLASSES = np.dtype(np.int64), np.dtype(np.uint8)
_NLL = {k: indexed(f"NllLoss{k}", _nll, _unnll, 2) for k in ("", "2D")}


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
    reduction = checked(reduction, size_average, reduce)
    if input._a.ndim == 1 and target._a.ndim == 1:
        if target._a.size != 1:
            raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {target._a.size}")
        target = target[0]
    x, y = input._a, target._a
    if len(x.shape) > 1 and (not y.ndim or x.shape[0] != y.shape[0]):
        raise ValueError(f"Expected input batch_size ({x.shape[0]}) to match target batch_size ({y.shape[0] if y.ndim else 0}).")
    if y.ndim != max(len(x.shape) - 1, 0) or y.shape[1:] != x.shape[2:]:
        if len(x.shape) == 2:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        raise RuntimeError(f"Expected target size {[x.shape[0], *x.shape[2:]]}, got {list(y.shape)}")
    if y.dtype not in _CLASSES:
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {target.dtype.scalar}")
    classes = x.shape[0 if len(x.shape) == 1 else 1]
    plain, ignored = y if type(y) is np.ndarray else value(y), ignore_index if 0 <= ignore_index < classes else None
    if outside(plain, classes):
        wrong = plain[(plain != ignore_index) & ((plain < 0) | (plain >= classes))]
        if wrong.size:
            raise IndexError(f"Target {wrong.flat[0]} is out of bounds.")
        ignored = ignore_index
    if weight is not None:
        if weight._a.shape != (classes,):
            raise RuntimeError(
                f"weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of shape: "
                f"{list(weight.shape)}"
            )
        if weight._a.dtype != x.dtype:
            raise RuntimeError(f"expected scalar type {input.dtype.scalar} but found {weight.dtype.scalar}")
        _plain(weight, "nll_loss", weight)
    return _NLL["" if len(x.shape) < 3 else "2D"](input, (target, weight), (ignored, reduction))


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
    reduction = checked(reduction, size_average, reduce)
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}")
    ndim = input._a.ndim
    k = 0 if ndim == 1 else 1
    classes = input._a.shape[axis(k, ndim)]
    across = None if weight is None else weight.view((*(1,) * k, -1, *(1,) * (ndim - k - 1)))
    if target._a.shape == input._a.shape:
        if target._a.dtype.kind != "f":
            raise RuntimeError(f"Expected floating point type for target with class probabilities, got {target.dtype.scalar}")
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        if label_smoothing:
            target = target * (1 - label_smoothing) + label_smoothing / classes
        weighted = log_softmax(input, k) * target if weight is None else log_softmax(input, k) * target * across
        if reduction == "none":
            return -weighted.sum(k)
        total = -weighted.sum()
        return total if reduction == "sum" else call(_DIV_BY_COUNT, (total,), (input._a.size // classes,))
    logs = log_softmax(input, k)
    loss = nll_loss(logs, target, weight, ignore_index=ignore_index, reduction=reduction)
    if not label_smoothing:
        return loss
    smooth = -(logs if weight is None else logs * across).sum(k)
    kept = target != ignore_index
    smooth = smooth * kept.to(smooth.dtype)
    if reduction == "mean":
        counts = kept.sum() if weight is None else weight[target * kept.to(target.dtype)].mul(kept).sum()
        smooth = smooth.sum() / counts
    elif reduction == "sum":
        smooth = smooth.sum()
    return loss * (1 - label_smoothing) + smooth * (label_smoothing / classes)


_DIV_BY_COUNT = Op("DivBackward1", lambda x, n: x / n, [lambda g, _r, _x, n: g / n], "DivBackward1")


def kl_div(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean", log_target: bool = False) -> Any:
    """The relative entropy of `target` and the log-probabilities `input`."""
    if input._a.dtype.kind not in "fc" or target._a.dtype.kind not in "fc":
        raise RuntimeError("kl_div: Integral inputs not supported.")
    batch = reduction == "batchmean"
    if reduction == "mean":
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides only by the batch "
            "size, and aligns with the KL div math definition.'mean' will be changed to behave the same as 'batchmean' in the next major "
            "release."
        )
    reduction = checked("sum" if batch else reduction, size_average, reduce)
    loss = target.exp() * (target - input) if log_target else call(_ENTROPY, (target,)) - target * input
    return loss.sum() / (input._a.shape[0] if input._a.ndim else 1) if batch else total(loss, reduction)


_ENTROPY = Op(
    "Xlogy",
    lambda y: np.where(y == 0, y * 0, y * np.log(np.where(y == 0, 1, y))).astype(y.dtype),
    [lambda g, _r, y: g * (np.log(y) + 1)],
)
