"""Connectionist temporal classification: the loss of a sequence of labels, whatever its alignment to the steps of the input."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.torch._bind import bound
from functrace.torch._contact import value
from functrace.torch.nn._losses import checked


def _ctc(log_probs: Any, labels: Any, steps: Any, lengths: Any, blank: int, zero_infinity: bool) -> Any:
    """The forward variables of Graves et al. (2006), for all examples and states at once."""
    n, rows = len(steps), np.arange(len(steps))
    states = np.full((n, 2 * labels.shape[1] + 1), blank)  # a blank before, between and after the labels
    states[:, 1::2] = labels
    skips = np.zeros(states.shape, bool)  # a blank may be left out between labels that differ
    skips[:, 2:] = (states[:, 2:] != blank) & (states[:, 2:] != states[:, :-2])
    none = np.full((n, 2), -np.inf, log_probs.dtype)
    first = np.arange(states.shape[1]) < np.where(lengths > 0, 2, 1)[:, None]
    alpha = np.where(first, log_probs[0][rows[:, None], states], -np.inf)
    for t in range(1, int(steps.max(initial=0))):
        before = np.concatenate([none, alpha], axis=1)
        reached = np.logaddexp(np.logaddexp(alpha, before[:, 1:-1]), np.where(skips, before[:, :-2], -np.inf))
        alpha = np.where((t < steps)[:, None], reached + log_probs[t][rows[:, None], states], alpha)
    last = np.where(lengths > 0, alpha[rows, 2 * lengths - 1], -np.inf)
    loss = -np.logaddexp(alpha[rows, 2 * lengths], last)
    return np.where(np.isinf(loss), 0, loss).astype(loss.dtype) if zero_infinity else loss


_CTC = bound("ctc_loss", "CtcLoss", _ctc)


def _counts(x: Any, name: str) -> Any:
    a = np.asarray(value(getattr(x, "_a", x)))
    if a.dtype.kind not in "iu":
        raise RuntimeError(f"{name} must be integral")
    return a.ravel()


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
    given, most = value(targets._a).astype(int), int(lengths.max(initial=0))
    together = given.ndim == 1 and not single  # the examples' labels one after another
    k, needed = (0, int(lengths.sum())) if together else (given.ndim - 1, most)
    if given.shape[k] < needed or (together and given.shape[0] != needed):
        raise RuntimeError(
            f"Expected tensor to have size {'' if together else 'at least '}{needed} at dimension {k}, but got size {given.shape[k]} for "
            f"argument #2 'targets' {where}"
        )
    inside = np.arange(most) < lengths[:, None]
    labels = np.full((n, most), blank)
    labels[inside] = given if together else given.reshape(n, -1)[:, :most][inside]
    if ((labels < 0) | (labels >= classes)).any():
        raise RuntimeError(f"ctc_loss: targets must be numbers of classes, from 0 to {classes - 1}, but got {given.tolist()}")
    loss = _CTC(x, labels, steps, lengths, blank, zero_infinity)
    if reduction == "mean":
        return (loss / loss.new_tensor(np.maximum(lengths, 1))).mean()
    return loss.sum() if reduction == "sum" else loss.squeeze(0) if single else loss
