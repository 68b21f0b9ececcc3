"""Losses that are compositions of operations on tensors: of counts, of normal numbers, of margins, of labels without alignment."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.torch._apply import call
from functrace.torch._bind import bound
from functrace.torch._border import named
from functrace.torch._contact import alike, value
from functrace.torch._curves import logistic
from functrace.torch._nodes import Op
from functrace.torch._tensor import Tensor, wrap
from functrace.torch.nn._activations import softplus_of
from functrace.torch.nn._losses import checked, pair_loss, total


def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    size_average: Any = None,
    eps: float = 1e-8,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """Minus the log-probability of counts, without its constant unless `full` (by Stirling's formula)."""
    reduction = checked(reduction, size_average, reduce)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return total(loss, reduction)


def gaussian_nll_loss(input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Any:
    """Minus the log-density of normal numbers, without its constant unless `full`. The variance is kept above `eps`."""
    if isinstance(var, (int, float)):
        var = input.new_zeros(input.shape) + var
    if np.any(value(var._a) < 0):
        raise ValueError("var has negative entry/entries")
    if var._a.ndim == input._a.ndim - 1:
        var = var.unsqueeze(-1)
    try:
        np.broadcast_to(var._a, input._a.shape)
    except ValueError:
        raise ValueError("var is of incorrect size") from None
    held = var + (var.detach().clamp(min=eps) - var.detach())  # the gradient goes past the bound, as in PyTorch
    loss = 0.5 * (held.log() + (input - target) ** 2 / held)
    return total(loss + 0.5 * math.log(2 * math.pi) if full else loss, checked(reduction))


def _named_loss(name: str, what: str, loss: Any, node: str = "") -> Any:
    """A loss of a table: `loss(*tensors, **options)` of the examples, reduced; all in one `node`, if PyTorch has one for it."""

    def reduced(arrays: Any, options: Any, reduction: str) -> Any:
        return total(loss(*map(wrap, arrays), **options), reduction)._a

    whole, order = bound(name, node, reduced) if node else None, loss.__code__.co_varnames

    @named(name, what)
    def function(*tensors: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean", **options: Any) -> Any:
        reduction = checked(reduction, size_average, reduce)
        for k in order[len(tensors) :]:
            if not isinstance(options.get(k), Tensor):
                break
            tensors = (*tensors, options.pop(k))
        return total(loss(*tensors, **options), reduction) if whole is None else whole([*tensors], options, reduction)

    return function


def _cosine_embedding(input1: Any, input2: Any, target: Any, margin: float = 0.0) -> Any:
    shapes = [t._a.shape for t in (target, input1, input2)]
    if len(shapes[0]) > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if any(len(s) != len(shapes[0]) + 1 for s in shapes[1:]):
        raise RuntimeError(
            f"{len(shapes[0])}D target tensor expects {len(shapes[0]) + 1}D input tensors, but found inputs with sizes "
            f"{list(shapes[1])} and {list(shapes[2])}."
        )
    product = (input1 * input2).sum(-1)
    cosine = product / (((input1 * input1).sum(-1) + 1e-12) * ((input2 * input2).sum(-1) + 1e-12)).sqrt()
    return ((1 - cosine) * (target == 1)) + (cosine - margin).clamp_min(0) * (target == -1)


def _triplet(anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2, eps: float = 1e-6, swap: bool = False) -> Any:
    apart = lambda x, y: (x - y + eps).norm(p, -1)
    return _triplet_by(anchor, positive, negative, distance_function=apart, margin=margin, swap=swap)


def _triplet_by(
    anchor: Any, positive: Any, negative: Any, *, distance_function: Any = None, margin: float = 1.0, swap: bool = False
) -> Any:
    if distance_function is None:
        return _triplet(anchor, positive, negative, margin, swap=swap)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    a, b, c = (x._a.ndim for x in (anchor, positive, negative))
    if not a == b == c:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor "
            f"{a}D, positive {b}D, and negative {c}D inputs"
        )
    far = distance_function(anchor, negative)
    far = far.minimum(distance_function(positive, negative)) if swap else far
    return (margin + distance_function(anchor, positive) - far).clamp_min(0)


def _ranking(input1: Any, input2: Any, target: Any, margin: float = 0.0) -> Any:
    if not input1._a.ndim == input2._a.ndim == target._a.ndim:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape} "
        )
    return (-target * (input1 - input2) + margin).clamp_min(0)


def _multilabel_soft(input: Any, target: Any, weight: Any = None) -> Any:
    loss = target * _softplus(-input) + (1 - target) * _softplus(input)
    return (loss if weight is None else loss * weight).sum(input._a.ndim - 1) / input._a.shape[-1]


_SOFTPLUS = Op("LogSigmoid", softplus_of, [lambda g, _r, x: g * logistic(x)], "LogSigmoidBackward")


def _softplus(x: Any) -> Any:
    return call(_SOFTPLUS, (x,))


def _multi_margin(input: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None) -> Any:
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    rows = input if input._a.ndim == 2 else input.unsqueeze(0)
    own = target.reshape(-1, 1)
    if target._a.ndim > 1 or len(own) != len(rows):
        raise RuntimeError(f"multi_margin_loss: expected a target of size [{len(rows)}], but got {list(target.shape)}")
    if weight is not None and weight.shape != rows.shape[1:]:
        raise RuntimeError(f"inconsistent weight size, expected {rows.shape[1]} but got {list(weight.shape)}")
    loss = (margin - rows.gather(1, own) + rows).clamp_min(0) ** p
    if weight is not None:
        loss = loss * weight[own]
    loss = loss.scatter(1, own, 0.0).sum(1) / rows._a.shape[1]
    return loss if target._a.ndim else loss[0]


def _multilabel_margin(input: Any, target: Any) -> Any:
    if target.shape != input.shape:
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    rows, labels = (input, target) if input._a.ndim == 2 else (input.unsqueeze(0), target.unsqueeze(0))
    valid = np.cumprod(labels._a >= 0, axis=1, dtype=bool)  # labels end at the first negative one
    mine = np.zeros(rows._a.shape, bool)
    np.put_along_axis(mine, np.where(valid, labels._a, labels._a[:, :1]), True, 1)
    mine &= valid[:, :1]
    pairs = np.nonzero(valid[:, :, None] & ~mine[:, None, :])
    own = rows[pairs[0].tolist(), labels._a[pairs[0], pairs[1]].tolist()]
    other = rows[pairs[0].tolist(), pairs[2].tolist()]
    n, classes = rows._a.shape
    each = rows.new_zeros(n).index_add(0, labels.new_tensor(pairs[0]), (1 - (own - other)).clamp_min(0)) / classes
    return each if input._a.ndim == 2 else each[0]


cosine_embedding_loss = _named_loss(
    "cosine_embedding_loss", "1 - cosine of pairs that belong together, the cosine of others.", _cosine_embedding
)
margin_ranking_loss = _named_loss(
    "margin_ranking_loss",
    "How far the first input fails to be larger (target 1) or smaller (-1) than the second.",
    _ranking,
)
triplet_margin_loss = _named_loss("triplet_margin_loss", "How far the positive is not nearer than the negative by a margin.", _triplet)
triplet_margin_with_distance_loss = _named_loss(
    "triplet_margin_with_distance_loss", "`triplet_margin_loss` with a distance of one's own.", _triplet_by
)
hinge_embedding_loss = _named_loss(
    "hinge_embedding_loss",
    "The input where the target is 1, what it lacks to a margin where it is -1.",
    lambda input, target, margin=1.0: (margin - input).clamp_min(0).where(target != 1, 0) + input.where(target != -1, 0),
)
_SOFT_MARGIN = pair_loss("SoftMarginLoss", lambda x, y: softplus_of(-y * x), lambda x, y: -y * logistic(-y * x))


def soft_margin_loss(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> Any:
    """log(1 + exp(-target * input))."""
    return call(_SOFT_MARGIN, (input, target.to(input.dtype).expand_as(input)), (checked(reduction, size_average, reduce),))


multilabel_soft_margin_loss = _named_loss(
    "multilabel_soft_margin_loss", "The mean of the classes' `binary_cross_entropy_with_logits`.", _multilabel_soft
)
multi_margin_loss = _named_loss(
    "multi_margin_loss", "How far other classes come within a margin of the right one.", _multi_margin, "MultiMarginLoss"
)
multilabel_margin_loss = _named_loss(
    "multilabel_margin_loss", "`multi_margin_loss` with several right classes.", _multilabel_margin, "MultilabelMarginLoss"
)


def _ctc_states(labels: Any, lengths: Any, blank: int, dtype: Any) -> tuple[Any, ...]:
    """The states of each example, a blank before, between and after the labels; and as logarithms of 1 or 0 which of them may come
    after that before the one before, begin, and end.
    """
    states = np.full((len(labels), 2 * labels.shape[1] + 1), blank)
    states[:, 1::2] = labels
    skips = np.zeros(states.shape, bool)  # a blank may be left out between labels that differ
    skips[:, 2:] = (states[:, 2:] != blank) & (states[:, 2:] != states[:, :-2])
    place, end = np.arange(states.shape[1]), 2 * lengths[:, None]
    masks = skips, place < np.minimum(end, 1) + 1, (place == end) | (place == end - 1)
    return states, *(np.where(m, dtype.type(0), dtype.type(-np.inf)) for m in masks)


def _ctc_sweep(begin: Any, skips: Any, emitted: Any) -> Any:
    """The logarithms of the sums over all paths to each state, at each step, without what is emitted there."""
    none, found = np.full((len(skips), 2), -np.inf, skips.dtype), [begin]
    for t in range(emitted.shape[0] - 1):
        before = np.concatenate([none, found[-1] + emitted[t]], axis=1)
        found.append(np.logaddexp(np.logaddexp(before[:, 2:], before[:, 1:-1]), before[:, :-2] + skips))
    return np.stack(found)


def _ctc(x: Any, labels: Any, steps: Any, lengths: Any, blank: int, zero_infinity: bool) -> Any:
    """By the forward variables of Graves et al. (2006), for all examples and states at once."""
    rows, last = np.arange(len(steps)), np.maximum(steps, 1) - 1
    states, skips, begin, end = _ctc_states(labels, lengths, blank, x.dtype)
    emitted = x[:, rows[:, None], states]
    reached = _ctc_sweep(begin, skips, emitted)[last, rows] + emitted[last, rows] + end
    loss = -np.logaddexp.reduce(reached, axis=1)
    return np.where(np.isinf(loss), np.zeros((), loss.dtype), loss) if zero_infinity else loss


def _unctc(g: Any, _r: Any, x: Any, labels: Any, steps: Any, lengths: Any, blank: int, _zero_infinity: bool) -> Any:
    """By the forward and the backward variables, which are the forward ones of the sequence read from its end."""
    rows, last = np.arange(len(steps)), np.maximum(steps, 1) - 1
    states, skips, begin, end = _ctc_states(labels, lengths, blank, x.dtype)
    emitted = x[:, rows[:, None], states]
    n, back = len(steps), last - np.arange(x.shape[0])[:, None]
    there = np.maximum(back, 0)
    turned = np.concatenate([skips[:, 2:], np.full((n, 2), -np.inf, x.dtype)], axis=1)[:, : states.shape[1]]
    both = _ctc_sweep(
        np.concatenate([begin, end[:, ::-1]]),
        np.concatenate([skips, turned[:, ::-1]]),
        np.concatenate([emitted, emitted[there, rows][..., ::-1]], axis=1),
    )
    paths = both[:, :n] + emitted + both[:, n:][there, rows][..., ::-1]
    whole = np.logaddexp.reduce(paths[last, rows], axis=1)
    whole = np.where(np.isinf(whole), np.zeros((), x.dtype), whole)
    share = np.where((back >= 0)[..., None], np.exp(paths - whole[:, None]), np.zeros((), x.dtype))
    classes = (states[..., None] == np.arange(x.shape[2])).astype(x.dtype)
    return np.swapaxes(np.matmul(np.swapaxes(share * -g[:, None], 0, 1), classes), 0, 1)


_CTC = Op("CtcLoss", _ctc, [_unctc], "CtcLossBackward", frees=True)


def _counts(x: Any, name: str) -> Any:
    a = np.asarray(alike(getattr(x, "_a", x), "ctc_loss"))
    if a.dtype.kind not in "iu":
        raise RuntimeError(f"{name} must be integral")
    return a.flatten()  # a copy, for the way back


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """Minus the log-probability of label sequences, `log_probs` (steps, examples, classes) being those of the labels at each step."""
    single = log_probs._a.ndim == 2
    x = log_probs.unsqueeze(1) if single else log_probs
    (longest, n, classes), reduction = x._a.shape, checked(reduction)
    steps, lengths = _counts(input_lengths, "input_lengths"), _counts(target_lengths, "target_lengths")
    where = "(while checking arguments for ctc_loss_allocate_outputs)"
    for name, found in (("input_lengths", steps), ("target_lengths", lengths)):
        if found.size != n:
            raise RuntimeError(f"{name} must be of size batch_size")
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    if steps.max(initial=0) > longest:
        raise RuntimeError(f"Expected input_lengths to have value at most {longest}, but got value {steps.max()} {where}")
    given, most = alike(targets._a, "ctc_loss").astype(int), int(lengths.max(initial=0))
    together = given.ndim == 1 and not single  # the examples' labels one after another
    exact = together or (given.ndim == 2 and len(given) != n)
    k, needed = (0, int(lengths.sum()) if together else n) if exact else (given.ndim - 1, most)
    if given.shape[k] < needed or (exact and given.shape[k] != needed):
        raise RuntimeError(
            f"Expected tensor to have size {'' if exact else 'at least '}{needed} at dimension {k}, but got size {given.shape[k]} for "
            f"argument #2 'targets' {where}"
        )
    inside = np.arange(most) < lengths[:, None]
    labels = np.full((n, most), blank)
    labels[inside] = given if together else given.reshape(n, -1)[:, :most][inside]
    if ((labels < 0) | (labels >= classes)).any():
        raise RuntimeError(f"ctc_loss: targets must be numbers of classes, from 0 to {classes - 1}, but got {given.tolist()}")
    loss = call(_CTC, (x,), (labels, steps, lengths, blank, zero_infinity))
    if reduction == "mean":
        return (loss / loss.new_tensor(np.maximum(lengths, 1))).mean()
    return loss.sum() if reduction == "sum" else loss.squeeze(0) if single else loss
