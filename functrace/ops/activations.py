"""Activations as ops, for `functrace.nn`: one entry of the tape each, with rules that are stable where those of its formula are not.

In a compiled program the steps of the formula stand in their place.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.core.tracer import bare
from functrace.ops.create import number
from functrace.ops.elementwise import logistic
from functrace.ops.index import selected, where
from functrace.ops.kinds import Op, general, undeclared
from functrace.ops.reduce import expand

_GELU = 2 * math.sqrt(2 / math.pi)  # Hendrycks & Gimpel 2016
_CUBE = 0.044715 * _GELU


def _sigmoid_slope(x: Any) -> Any:
    z = np.exp(-np.abs(x))
    return z / np.square(1 + z)


def _gate(x: Any) -> tuple[Any, Any, Any]:
    """What `gelu` multiplies by; and x, within limits, and its square."""
    near = x.clip(-30, 30)  # beyond, the gate is 0 or 1, while the cube might overflow
    square = near * near
    return logistic(near * (_GELU + _CUBE * square)), near, square


def _gelu_slope(t: Any, _ans: Any, x: Any) -> Any:
    gate, near, square = _gate(x)
    return t * (gate + near * gate * (1 - gate) * (_GELU + 3 * _CUBE * square))


sigmoid_slope: Op = undeclared("sigmoid_slope", _sigmoid_slope, lambda t, ans, x: t * (-ans * np.tanh(0.5 * x)))
sigmoid: Op = undeclared("sigmoid", logistic, lambda t, _ans, x: t * sigmoid_slope(x))
softplus: Op = undeclared("softplus", lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))), lambda t, _ans, x: t * sigmoid(x))
log_sigmoid: Op = undeclared("log_sigmoid", lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))), lambda t, _ans, x: t * sigmoid(-x))
silu: Op = undeclared("silu", lambda x: x * logistic(x), lambda t, _ans, x: t * (sigmoid(x) + x * sigmoid_slope(x)))
gelu: Op = undeclared("gelu", lambda x: x * _gate(x)[0], _gelu_slope)
relu: Op = undeclared("relu", lambda x: np.maximum(x, 0), lambda t, ans, _x: selected(ans != 0, t))
relu6: Op = undeclared("relu6", lambda x: np.minimum(np.maximum(x, 0), 6), lambda t, ans, _x: selected((ans != 0) & (ans != 6), t))
hard_tanh: Op = undeclared("hard_tanh", lambda x: np.minimum(np.maximum(x, -1), 1), lambda t, ans, _x: selected(np.abs(ans) != 1, t))
leaky_relu: Op = undeclared(
    "leaky_relu",
    lambda x, slope: number(where(x <= 0, slope * x, x)),
    lambda t, _ans, x, slope: t * where(x <= 0, slope, np.ones((), x.dtype)),
    lambda t, _ans, x, _slope: t * np.minimum(x, 0),
)
elu: Op = undeclared(
    "elu",
    lambda x, alpha: number(where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))),
    lambda t, _ans, x, alpha: t * where(x > 0, np.ones((), x.dtype), alpha * np.exp(where(x > 0, 0, x))),
    lambda t, _ans, x, _alpha: t * np.expm1(where(x > 0, 0, x)),
)


# Along axes, which are counted from the end


def _shift(x: Any, axis: Any) -> Any:
    """The largest element; 0 where it is not finite."""
    top = x.max(axis=axis, keepdims=True)
    finite = np.isfinite(top)
    return top if isinstance(finite, np.ndarray) and finite.all() else np.where(finite, top, 0)


def _softmax(x: Any, axis: Any, empty: bool) -> Any:
    """With `empty`, 0 where all is -inf, not NaN."""
    e = np.exp(x - (_shift(x, axis) if empty else x.max(axis=axis, keepdims=True)))
    total = e.sum(axis=axis, keepdims=True)
    return e / (np.where(total == 0, 1, total) if empty else total)


def _softmax_rule(t: Any, ans: Any, _x: Any, axis: Any, _empty: bool) -> Any:
    return ans * (t - (ans * t).sum(axis=axis, keepdims=True))


def _log_softmax(x: Any, axis: Any) -> Any:
    below = x - _shift(x, axis)
    return below - np.log(np.exp(below).sum(axis=axis, keepdims=True))


def _logsumexp(x: Any, axis: Any, keepdims: bool) -> Any:
    top = _shift(x, axis)
    total = np.exp(x - top).sum(axis=axis, keepdims=True)
    out = np.where(total == 0, -np.inf, np.log(np.where(total == 0, 1, total))) + top
    return out if keepdims else np.squeeze(out, axis=axis)[()]


def _shares(ans: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    """Each number's share in the sum; infinities share evenly. A program recorded without any gives NaN, and so is recorded anew."""
    if np.any(bare(ans) == np.inf):
        top = expand(ans, axis, x.ndim, keepdims) == np.inf
        x = np.where(top, np.where(x == np.inf, 0, -np.inf), x).astype(x.dtype)
    return softmax(x, axis, True)


softmax: Op = general("softmax", _softmax, _softmax_rule, jvps=(_softmax_rule,), batch="leading")
log_softmax: Op = general(
    "log_softmax",
    _log_softmax,
    lambda g, ans, _x, axis: g - np.exp(ans) * g.sum(axis=axis, keepdims=True),
    jvps=(lambda t, ans, _x, axis: t - (np.exp(ans) * t).sum(axis=axis, keepdims=True),),
    batch="leading",
)
logsumexp: Op = general(
    "logsumexp",
    _logsumexp,
    lambda g, ans, x, axis, keepdims: expand(g, axis, x.ndim, keepdims) * _shares(ans, x, axis, keepdims),
    jvps=(lambda t, ans, x, axis, keepdims: (t * _shares(ans, x, axis, keepdims)).sum(axis=axis, keepdims=keepdims),),
    batch="leading",
)

COMPOSED = frozenset(
    "sigmoid sigmoid_slope softplus log_sigmoid silu gelu relu relu6 hard_tanh leaky_relu elu softmax log_softmax logsumexp".split()
)
