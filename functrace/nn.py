"""Activations, losses and initialisers that NumPy has not: plain functions, of plain and traced arrays.

They are stable where their formula written out is not (large arguments, certain predictions), keep the dtype, and have derivatives
without NaN there. A NaN that comes in goes out.

>>> import functrace as ft, numpy as np
>>> from functrace import nn
>>> ft.grad(lambda z: nn.softmax_cross_entropy(z, 1))(np.array([0.0, 1000.0, 1000.0]))
array([ 0. , -0.5,  0.5])
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import functrace.numpy as fnp
from functrace import edge, errors, random
from functrace.core.tracer import Tracer
from functrace.ops import activations
from functrace.ops.create import lift
from functrace.ops.kinds import negative_axes
from functrace.ops.protocol import stamp
from functrace.places import is_user_file, user_line

Axis = int | tuple[int, ...] | None


def _called() -> str:
    """The function of this module that the user called, for messages."""
    name, frame = "", sys._getframe(1)
    while frame and not is_user_file[frame.f_code.co_filename]:
        name, frame = f"nn.{frame.f_code.co_name}" if frame.f_globals is globals() else name, frame.f_back  # type: ignore[assignment]
    return name


def _refusal(kind: type[Exception], found: str, *remedy: str) -> Exception:
    return kind("\n  ".join([f"{_called()}: {found}.", f"At {user_line()}.", *remedy]))


def _floating(x: Any) -> Any:
    """An array of floating-point numbers; integers become float64."""
    array = x if type(x) is np.ndarray else lift(x)
    if array.dtype.kind not in "fbiu":
        found = f"{errors.describe(x)} stands where an array of real numbers is expected"
        raise _refusal(errors.InputTypeError, found, "Give it x.real, x.imag or abs(x) of complex ones.")
    return array if array.dtype.kind == "f" else array.astype(float)


def _place(axis: int, ndim: int) -> int:
    return np.lib.array_utils.normalize_axis_index(axis, ndim, _called())


# Activations


def relu(x: Any) -> Any:
    """`max(x, 0)`; its derivative at 0 is 0.

    >>> import functrace as ft, numpy as np
    >>> ft.vmap(ft.value_and_grad(ft.nn.relu))(np.array([-1.0, 0.0, 2.0]))
    (array([0., 0., 2.]), array([0., 0., 1.]))
    """
    return stamp(activations.relu(_floating(x)))


def leaky_relu(x: Any, negative_slope: Any = 0.01) -> Any:
    """`x` where it is positive, `negative_slope * x` elsewhere.

    >>> import functrace as ft, numpy as np
    >>> ft.nn.leaky_relu(np.array([-1.0, 2.0]))
    array([-0.01,  2.  ])
    """
    return stamp(activations.leaky_relu(_floating(x), negative_slope))


def elu(x: Any, alpha: Any = 1.0) -> Any:
    """`x` where it is positive, `alpha * (exp(x) - 1)` elsewhere (Clevert et al. 2016).

    >>> import functrace as ft, numpy as np
    >>> ft.nn.elu(np.array([-1000.0, 0.0, 2.0]))
    array([-1.,  0.,  2.])
    """
    return stamp(activations.elu(_floating(x), alpha))


def celu(x: Any, alpha: Any = 1.0) -> Any:
    """`x` where it is positive, `alpha * (exp(x / alpha) - 1)` elsewhere: smooth for every `alpha` (Barron 2017).

    >>> import functrace as ft, numpy as np
    >>> ft.nn.celu(np.array([-1000.0, 0.0, 2.0]), 2.0)
    array([-2.,  0.,  2.])
    """
    return alpha * elu(_floating(x) / alpha)


def selu(x: Any) -> Any:
    """`elu` of `x`, scaled so that mean 0 and variance 1 stay through many layers (Klambauer et al. 2017).

    >>> import functrace as ft, numpy as np
    >>> ft.nn.selu(np.array([-1.0, 0.0, 1.0])).round(4)
    array([-1.1113,  0.    ,  1.0507])
    """
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


def hard_tanh(x: Any) -> Any:
    """`x` from -1 to 1, and the nearer of them beyond; its derivative there is 0.

    >>> import functrace as ft, numpy as np
    >>> ft.vmap(ft.value_and_grad(ft.nn.hard_tanh))(np.array([-2.0, 0.5, 1.0]))
    (array([-1. ,  0.5,  1. ]), array([0., 1., 0.]))
    """
    return stamp(activations.hard_tanh(_floating(x)))


def relu6(x: Any) -> Any:
    """`min(max(x, 0), 6)`; its derivative at 0 and at 6 is 0.

    >>> import functrace as ft, numpy as np
    >>> ft.vmap(ft.value_and_grad(ft.nn.relu6))(np.array([-1.0, 2.0, 7.0]))
    (array([0., 2., 6.]), array([0., 1., 0.]))
    """
    return stamp(activations.relu6(_floating(x)))


def sigmoid(x: Any) -> Any:
    """`1 / (1 + exp(-x))`, without overflow.

    >>> import functrace as ft, numpy as np
    >>> ft.nn.sigmoid(np.array([-1000.0, 0.0, 1000.0]))
    array([0. , 0.5, 1. ])
    """
    return stamp(activations.sigmoid(_floating(x)))


def log_sigmoid(x: Any) -> Any:
    """The logarithm of `sigmoid`, `-softplus(-x)`.

    >>> import functrace as ft, numpy as np
    >>> ft.nn.log_sigmoid(np.array([-1000.0, 1000.0]))
    array([-1000.,     0.])
    """
    return stamp(activations.log_sigmoid(_floating(x)))


def softplus(x: Any) -> Any:
    """`log(1 + exp(x))`, without overflow.

    >>> import functrace as ft, numpy as np
    >>> ft.nn.softplus(np.array([-1000.0, 1000.0]))
    array([   0., 1000.])
    """
    return stamp(activations.softplus(_floating(x)))


def silu(x: Any) -> Any:
    """`x * sigmoid(x)`, also called swish (Elfwing et al. 2018).

    >>> import functrace as ft, numpy as np
    >>> ft.nn.silu(np.array([-1000.0, 0.0, 1000.0]))
    array([  -0.,    0., 1000.])
    """
    return stamp(activations.silu(_floating(x)))


swish = silu


@edge.boundary
def glu(x: Any, axis: int = -1) -> Any:
    """The first half of `x` along `axis`, times the sigmoid of the second (Dauphin et al. 2017).

    Raises `ValueError` where the axis can't be halved.

    >>> import functrace as ft, numpy as np
    >>> ft.nn.glu(np.array([1.0, 2.0, 0.0, 1000.0]))
    array([0.5, 2. ])
    """
    x = _floating(x)
    if not x.ndim or x.shape[_place(axis, x.ndim)] % 2:
        raise _refusal(ValueError, f"axis {axis} must be of even length, got an array of shape {x.shape}")
    values, gates = np.split(x, 2, axis)
    return values * sigmoid(gates)


def gelu(x: Any, approximate: bool = True) -> Any:
    """`x` times the normal distribution function (Hendrycks & Gimpel 2016), by default its approximation with tanh.

    Exactly, with `approximate=False`, it needs SciPy.

    >>> import functrace as ft, numpy as np
    >>> ft.nn.gelu(np.array([-100.0, 1.0, 100.0])).round(4)
    array([ -0.    ,   0.8412, 100.    ])
    >>> ft.nn.gelu(1.0, approximate=False).round(4)
    np.float64(0.8413)
    """
    x = _floating(x)
    if approximate:
        return stamp(activations.gelu(x))
    from functrace.scipy import special

    return x * special.ndtr(np.clip(x, -40, 40)).astype(x.dtype)  # beyond it is 0 or 1, while the square might overflow


@edge.boundary
def one_hot(labels: Any, num_classes: int, *, dtype: Any = float, axis: int = -1) -> Any:
    """1 at the place of each label, 0 at the others, along a new `axis` of length `num_classes`; all 0 for a label out of range.

    `labels` are integers, else it raises `ValueError`; the result, of this `dtype`, has the shape `(*labels.shape, num_classes)` unless
    `axis` is another.

    >>> import functrace as ft, numpy as np
    >>> ft.nn.one_hot(np.array([2, 0, -1]), 3)
    array([[0., 0., 1.],
           [1., 0., 0.],
           [0., 0., 0.]])
    """
    labels = lift(labels)
    if labels.dtype.kind not in "iu":
        raise _refusal(ValueError, f"labels must be integers, got {errors.describe(labels)}")
    if not isinstance(num_classes, (int, np.integer)):
        raise _refusal(errors.InputTypeError, f"num_classes must be an integer, got {errors.describe(num_classes)}")
    axis = _place(axis, labels.ndim + 1)
    classes = np.reshape(np.arange(num_classes), (-1,) + (1,) * (labels.ndim - axis))
    return (np.expand_dims(labels, axis) == classes).astype(dtype)


@edge.boundary
def logsumexp(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """`log(sum(exp(x)))` without overflow; of `-inf` only, `-inf`, with a gradient of 0.

    `axis` and `keepdims` as in `np.sum`.

    >>> import functrace as ft, numpy as np
    >>> ft.nn.logsumexp(np.array([1000.0, 1000.0])).round(4)
    np.float64(1000.6931)
    """
    x = _floating(x)
    return stamp(activations.logsumexp(x, negative_axes(axis, x.ndim), keepdims))


@edge.boundary
def softmax(x: Any, axis: Axis = -1) -> Any:
    """`exp(x) / sum(exp(x))` along an axis, without overflow.

    >>> import functrace as ft, numpy as np
    >>> ft.nn.softmax(np.array([1000.0, 1000.0, -1000.0]))
    array([0.5, 0.5, 0. ])
    """
    x = _floating(x)
    return stamp(activations.softmax(x, negative_axes(axis, x.ndim), False))


@edge.boundary
def log_softmax(x: Any, axis: Axis = -1) -> Any:
    """The logarithm of `softmax(x, axis)`.

    >>> import functrace as ft, numpy as np
    >>> ft.nn.log_softmax(np.array([0.0, 1000.0]))
    array([-1000.,     0.])
    """
    x = _floating(x)
    return stamp(activations.log_softmax(x, negative_axes(axis, x.ndim)))


# Losses


@edge.boundary
def softmax_cross_entropy(logits: Any, labels: Any, axis: int = -1) -> Any:
    """`-log(softmax(logits))` of the right class, for each example.

    Args:
        logits: an array with the classes along `axis`.
        labels: the classes, integers in an array without that axis; or their probabilities, an array of the logits' shape.
        axis: that of the classes.

    Raises:
        ValueError: the shapes do not fit, or a label is not one of the classes.

    >>> import functrace as ft, numpy as np
    >>> ft.nn.softmax_cross_entropy(np.array([[2.0, 0.0], [0.0, 1000.0]]), np.array([0, 0])).round(4)
    array([1.269e-01, 1.000e+03])
    """
    logits, labels = _floating(logits), lift(labels)
    place = _place(axis, logits.ndim)
    count, others = logits.shape[place], logits.shape[:place] + logits.shape[place + 1 :]
    if labels.dtype.kind in "iu" and labels.shape == others:
        if not isinstance(labels, Tracer) and labels.size and (labels.min() < 0 or labels.max() >= count):
            raise _refusal(ValueError, f"labels must be from 0 to {count - 1}, got {labels.min()} to {labels.max()}")
        of_label = fnp.take_along_axis(logits, np.expand_dims(labels, axis), axis=axis)
        return logsumexp(logits, axis) - np.squeeze(of_label, axis=axis)[()]
    if labels.shape != logits.shape or labels.dtype.kind != "f":
        wanted = f"labels are integers of shape {others} or probabilities of shape {logits.shape}, got"
        raise _refusal(ValueError, f"{wanted} {errors.describe(labels)}")
    return -np.sum(labels * np.where(labels == 0, 0, log_softmax(logits, axis)), axis=axis)


@edge.boundary
def sigmoid_binary_cross_entropy(logits: Any, labels: Any) -> Any:
    """`-labels * log(sigmoid(logits)) - (1 - labels) * log(1 - sigmoid(logits))`, for each element; labels from 0 to 1.

    >>> import functrace as ft, numpy as np
    >>> ft.nn.sigmoid_binary_cross_entropy(np.array([-1000.0, 1000.0]), np.array([1, 1]))
    array([1000.,    0.])
    """
    logits = _floating(logits)
    labels = lift(labels).astype(logits.dtype)
    return labels * softplus(-logits) + (1 - labels) * softplus(logits)


@edge.boundary
def mse(predictions: Any, targets: Any) -> Any:
    """The mean of the squared differences of `predictions` and `targets`, of one shape.

    >>> import functrace as ft, numpy as np
    >>> ft.nn.mse(np.array([1.0, 2.0]), np.array([0.0, 4.0]))
    np.float64(2.5)
    """
    return np.mean(np.square(np.subtract(*_alike(predictions, targets))))


@edge.boundary
def huber(predictions: Any, targets: Any, delta: Any = 1.0) -> Any:
    """Half the squared difference of `predictions` and `targets` up to `delta`, beyond it linear (Huber 1964), for each element.

    >>> import functrace as ft, numpy as np
    >>> ft.nn.huber(np.array([0.5, 1000.0]), np.zeros(2))
    array([1.250e-01, 9.995e+02])
    """
    r = np.subtract(*_alike(predictions, targets))
    near = np.clip(r, -delta, delta)
    return near * (r - 0.5 * near)


@edge.boundary
def kl_divergence(log_predictions: Any, targets: Any, axis: int = -1) -> Any:
    """`sum(targets * (log(targets) - log_predictions))` along an axis: of predictions, given by their logarithms, from targets.

    Targets of 0 contribute nothing.

    >>> import functrace as ft, numpy as np
    >>> ft.nn.kl_divergence(np.log([0.5, 0.5]), np.array([1.0, 0.0])).round(4)
    np.float64(0.6931)
    """
    log_q, p = _alike(log_predictions, targets)
    return np.sum(p * (np.log(np.where(p == 0, 1, p)) - np.where(p == 0, 0, log_q)), axis=axis)


def _alike(predictions: Any, targets: Any) -> tuple[Any, Any]:
    """Both as arrays; shapes that differ would broadcast, and make a table of all differences."""
    a, b = _floating(predictions), _floating(targets)
    if a.shape != b.shape:
        found = f"predictions of shape {a.shape} and targets of shape {b.shape} must have one shape"
        raise _refusal(ValueError, found, "Broadcasting them would compare each with all: reshape one of them.")
    return a, b


# Initialisers


def _fans(shape: Any, in_axis: int, out_axis: int) -> tuple[int, int]:
    """The numbers of inputs and outputs of a weight: the axes in and out, each times the product of the others."""
    shape = random.keys.as_tuple(shape, _called())
    if len(shape) < 2:
        raise _refusal(ValueError, f"a weight has an axis for its inputs and one for its outputs, got {shape}", "Start biases from zeros.")
    ins, outs = (shape[_place(axis, len(shape))] for axis in (in_axis, out_axis))
    rest = math.prod(shape) / max(1, ins * outs)
    return max(1, int(ins * rest)), max(1, int(outs * rest))


def _uniform(key: Any, shape: Sequence[int], dtype: Any, variance: float) -> Any:
    return random.uniform(key, shape, dtype, -math.sqrt(3 * variance), math.sqrt(3 * variance))


def _normal(key: Any, shape: Sequence[int], dtype: Any, variance: float) -> Any:
    return random.normal(key, shape, dtype, scale=math.sqrt(variance))


@edge.boundary
def glorot_uniform(key: Any, shape: Sequence[int], dtype: Any = float, in_axis: int = -2, out_axis: int = -1) -> Any:
    """Uniform weights of variance `2 / (inputs + outputs)` (Glorot & Bengio 2010), also called Xavier's.

    Args:
        key: a key of `functrace.random`.
        shape: that of the weight, with at least two axes.
        dtype: by default float64.
        in_axis, out_axis: the axes of the inputs and outputs, by default the last two, as in `x @ w`. Both count times the product of the
            other axes, so that of a kernel of a convolution too.

    >>> import functrace as ft
    >>> w = ft.nn.glorot_uniform(ft.random.key(0), (100, 50))
    >>> w.shape, abs(w).max() <= (6 / 150) ** 0.5
    ((100, 50), np.True_)
    """
    return _uniform(key, shape, dtype, 2 / sum(_fans(shape, in_axis, out_axis)))


@edge.boundary
def glorot_normal(key: Any, shape: Sequence[int], dtype: Any = float, in_axis: int = -2, out_axis: int = -1) -> Any:
    """Normal weights of variance `2 / (inputs + outputs)`: see `glorot_uniform`.

    >>> import functrace as ft
    >>> ft.nn.glorot_normal(ft.random.key(0), (300, 100)).std().round(3)
    np.float64(0.071)
    """
    return _normal(key, shape, dtype, 2 / sum(_fans(shape, in_axis, out_axis)))


@edge.boundary
def he_uniform(key: Any, shape: Sequence[int], dtype: Any = float, in_axis: int = -2, out_axis: int = -1) -> Any:
    """Uniform weights of variance `2 / inputs`, for layers before `relu` (He et al. 2015), also called Kaiming's.

    Arguments: see `glorot_uniform`.

    >>> import functrace as ft
    >>> ft.nn.he_uniform(ft.random.key(0), (200, 100)).std().round(2)
    np.float64(0.1)
    """
    return _uniform(key, shape, dtype, 2 / _fans(shape, in_axis, out_axis)[0])


@edge.boundary
def he_normal(key: Any, shape: Sequence[int], dtype: Any = float, in_axis: int = -2, out_axis: int = -1) -> Any:
    """Normal weights of variance `2 / inputs`, for layers before `relu` (He et al. 2015), also called Kaiming's.

    Arguments: see `glorot_uniform`.

    >>> import functrace as ft
    >>> ft.nn.he_normal(ft.random.key(0), (200, 100)).std().round(2)
    np.float64(0.1)
    """
    return _normal(key, shape, dtype, 2 / _fans(shape, in_axis, out_axis)[0])


@edge.boundary
def lecun_uniform(key: Any, shape: Sequence[int], dtype: Any = float, in_axis: int = -2, out_axis: int = -1) -> Any:
    """Uniform weights of variance `1 / inputs` (LeCun et al. 1998): see `glorot_uniform`.

    >>> import functrace as ft
    >>> ft.nn.lecun_uniform(ft.random.key(0), (100, 100)).std().round(2)
    np.float64(0.1)
    """
    return _uniform(key, shape, dtype, 1 / _fans(shape, in_axis, out_axis)[0])


@edge.boundary
def lecun_normal(key: Any, shape: Sequence[int], dtype: Any = float, in_axis: int = -2, out_axis: int = -1) -> Any:
    """Normal weights of variance `1 / inputs` (LeCun et al. 1998): see `glorot_uniform`.

    >>> import functrace as ft
    >>> ft.nn.lecun_normal(ft.random.key(0), (100, 100)).std().round(2)
    np.float64(0.1)
    """
    return _normal(key, shape, dtype, 1 / _fans(shape, in_axis, out_axis)[0])


@edge.boundary
def orthogonal(key: Any, shape: Sequence[int], dtype: Any = float, scale: float = 1.0) -> Any:
    """`scale` times a random matrix with orthonormal columns, or rows if those are fewer (Saxe et al. 2014).

    Of a `shape` with more than two axes all but the last count as one. `key` is one of `functrace.random`, `dtype` by default float64.

    >>> import functrace as ft, numpy as np
    >>> q = ft.nn.orthogonal(ft.random.key(0), (4, 3))
    >>> np.allclose(q.T @ q, np.eye(3))
    True
    """
    _fans(shape, -2, -1)
    rows, columns = math.prod(shape[:-1]), shape[-1]
    q, r = np.linalg.qr(random.normal(key, (max(rows, columns), min(rows, columns))))
    q = q * np.where(np.diagonal(r) < 0, -1, 1)  # else the distribution is not that of the whole orthogonal group
    return (scale * np.reshape(q if rows >= columns else q.T, shape)).astype(dtype)


xavier_uniform, xavier_normal, kaiming_uniform, kaiming_normal = glorot_uniform, glorot_normal, he_uniform, he_normal


__dir__ = edge.own_names(globals())
__getattr__ = edge.renamed(
    __name__,
    {
        "initializers": "functrace.nn.he_normal(key, shape)",
        "mish soft_sign hard_sigmoid layer_norm batch_norm standardize dropout dot_product_attention": "its formula",
        "tanh identity": "NumPy's",
        "hardtanh": "functrace.nn.hard_tanh",
        "logsigmoid": "functrace.nn.log_sigmoid",
        "cross_entropy cross_entropy_loss nll_loss": "functrace.nn.softmax_cross_entropy(logits, labels)",
        "binary_cross_entropy binary_cross_entropy_with_logits": "functrace.nn.sigmoid_binary_cross_entropy(logits, labels)",
        "mse_loss MSELoss": "functrace.nn.mse",
        "huber_loss smooth_l1_loss": "functrace.nn.huber",
        "Module Linear Dense Sequential Conv2d functional": "functrace.torch.nn, or functions of a dict of parameters",
    },
)
