"""Normalisations, and dropout."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch._apply import call
from functrace.torch._border import named
from functrace.torch._contact import HALF, BatchTracer, floats, in_floats, products
from functrace.torch._dtypes import float32, warn
from functrace.torch._layout import as_image, in_order, like
from functrace.torch._nodes import Op
from functrace.torch._random import default_generator
from functrace.torch._tensor import Tensor, wrap
from functrace.torch.nn._padding import pad
from functrace.torch.nn._pooling import avg_pool2d


def _mean(x: Any, axes: tuple[int, ...], y: Any = None) -> Any:
    """The mean over some axes, which are kept, of x or of x * y."""
    if type(x) is not np.ndarray or x.dtype.itemsize < 4 or not x.size:
        return np.mean(x if y is None else x * y, axis=axes, keepdims=True)
    total = np.add.reduce(x, axes, keepdims=True) if y is None else products(x, y, axes)  # as `np.mean` does it, and sooner
    total /= x.size // total.size
    return total


def _standard(x: Any, axes: tuple[int, ...], eps: float) -> tuple[Any, ...]:
    """The array with mean 0 and variance 1 over some axes, the factor that made it so, and what mean and variance were."""
    mean = _mean(x, axes)
    d = x - mean
    variance = _mean(d, axes, d)
    factor = 1 / np.sqrt(variance + eps)
    y = np.multiply(d, factor, out=d) if type(d) is type(factor) is np.ndarray else d * factor
    return y, factor, mean, variance


def _waits(view: Any, axes: Any, across: Any) -> bool:
    """Whether a weight is the same for all elements that are normalised together, so that it can wait for the end."""
    return len(across) == len(view) and math.prod([across[k] for k in axes]) == 1


def _made(x: Any, view: Any, axes: tuple[int, ...], eps: float) -> tuple[Any, ...] | None:
    """`_standard` once for the result and its gradients; of traced values each makes its own, which is part of its derivative."""
    return _standard(floats(x).reshape(view), axes, eps) if type(x) is np.ndarray and x.dtype.kind == "f" else None


def _standardised(x: Any, view: Any, axes: Any, eps: float, made: Any) -> tuple[Any, Any]:
    y, factor, *_ = made if made and type(x) is np.ndarray else _standard(x.reshape(view), axes, eps)
    return y, factor


def _normal(x: Any, w: Any, b: Any, view: Any, axes: Any, across: Any, eps: float, made: Any) -> Any:
    y, _ = _standardised(x, view, axes, eps, made)
    y = _affine(y.copy() if made and w is None else y, w, b, across)  # what was made is not given away
    return y if y.shape == x.shape else y.reshape(x.shape)


def _unnormal(g: Any, _r: Any, x: Any, w: Any, _b: Any, view: Any, axes: Any, across: Any, eps: float, made: Any) -> Any:
    y, factor = _standardised(x, view, axes, eps, made)
    g = g.reshape(view)
    if w is not None:
        w = w.reshape(across)
        if _waits(view, axes, across):
            factor = factor * w
        else:
            g = g * w
    down, along = _mean(g, axes), _mean(g, axes, y)
    if type(g) is type(y) is type(along) is type(factor) is np.ndarray:
        d = y * along
        np.subtract(g, d, out=d)
        d -= down
        d *= factor
        return d.reshape(x.shape)
    return ((g - y * along - down) * factor).reshape(x.shape)


def _gathered(g: Any, across: Any, shape: Any) -> Any:
    """Summed over the axes along which a weight was spread."""
    lead = len(g.shape) - len(across)
    axes = (*range(lead), *[lead + k for k, n in enumerate(across) if n == 1 and g.shape[lead + k] != 1])
    return (np.add.reduce(g, axes) if type(g) is np.ndarray else g.sum(axis=axes)).reshape(shape)


def _unscale(g: Any, _r: Any, x: Any, _w: Any, _b: Any, view: Any, axes: Any, across: Any, eps: float, made: Any) -> Any:
    y, g = _standardised(x, view, axes, eps, made)[0], g.reshape(view)
    return _gathered(products(g, y, axes) if _waits(view, axes, across) else g * y, across, _w.shape)


def _unshift(g: Any, _r: Any, _x: Any, _w: Any, _b: Any, view: Any, _axes: Any, across: Any, _eps: float, _made: Any) -> Any:
    return _gathered(g.reshape(view), across, _b.shape)


_NORMS = {
    name: Op(
        f"Native{name}Norm",
        in_floats(_normal),
        [in_floats(rule, 3) for rule in (_unnormal, _unscale, _unshift)],
        f"Native{name}NormBackward",
        frees=True,
        alone=name == "Group",
        lies=in_order if name == "Layer" else as_image,
    )
    for name in ("Batch", "Layer", "Group")
}
_FIXED = Op(  # by statistics that are given
    "NativeBatchNorm",
    lambda x, w, b, mean, factor: _affine((x - mean) * factor, w, b, factor.shape),
    [
        lambda g, _r, _x, w, _b, _mean, factor: g * (factor if w is None else factor * w.reshape(factor.shape)),
        lambda g, _r, x, _w, _b, mean, factor: _gathered(g * ((x - mean) * factor), factor.shape, _w.shape),
        lambda g, _r, _x, _w, _b, _mean, factor: _gathered(g, factor.shape, _b.shape),
    ],
    "NativeBatchNormBackward",
    frees=True,
    lies=as_image,
)


def _affine(y: Any, w: Any, b: Any, across: Any) -> Any:
    y = y if w is None else y * w.reshape(across)
    if b is None:
        return y
    b = b.reshape(across)
    return np.add(y, b, out=y) if type(y) is type(b) is np.ndarray else y + b


def _of_one_dtype(norm: Callable[..., Any]) -> Callable[..., Any]:
    """The normalisation, which refuses parameters of another dtype than the input's; float32 goes with half numbers."""

    @functools.wraps(norm)
    def checked(input: Any, *args: Any, **kwargs: Any) -> Any:
        given = input._a.dtype
        for t in (*args, *kwargs.values()):
            if isinstance(t, Tensor) and t._a.dtype != given:
                break
        else:
            return norm(input, *args, **kwargs)
        d, others = input.dtype, [t.dtype for t in (*args, *kwargs.values()) if isinstance(t, Tensor) and t._a.dtype != given]
        if d.scalar != "Half" or any(other is not float32 for other in others):
            raise RuntimeError(f"mixed dtype (CPU): all inputs must share same datatype; got {d} and {others[0]}")
        return checked(input.float(), *args, **kwargs).to(d)

    return checked


def _moved(old: Any, new: Any, momentum: float) -> None:
    if isinstance(new, BatchTracer) and getattr(old._a, "owner", None) is not new.owner:
        raise RuntimeError(
            "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, were not "
            "batched.\nIf you are using a module and do not need eval mode, please set `track_running_stats` to be False.If you are using "
            "a prebuilt module and do not need eval mode, please see the functorch website for resources on how to patch your module to "
            "work with vmap"
        )
    old._a[...] = momentum * new + (1 - momentum) * old._a
    old._ver[0] += 1


@_of_one_dtype
def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Each channel (axis 1) with mean 0 and variance 1 over all other axes, or by the running statistics."""
    shape = input._a.shape
    if eps < 0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    if training and (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    channels, axes = shape[1] if len(shape) > 1 else 0, (0, *range(2, len(shape)))
    across = (1, channels, *(1,) * (len(shape) - 2))
    for t, what in ((running_mean, "running_mean"), (running_var, "running_var"), (weight, "weight"), (bias, "bias")):
        if t is not None and t._a.size != channels:
            raise RuntimeError(f"{what} should contain {channels} elements not {t._a.size}")
    if not training:
        for t, what in ((running_mean, "running_mean"), (running_var, "running_var")):
            if t is None:
                raise RuntimeError(f"{what} must be defined in evaluation mode")
        factor = 1 / np.sqrt(running_var._a + running_var._a.dtype.type(eps))
        return call(_FIXED, (input, weight, bias), (running_mean._a.reshape(across).copy(), factor.reshape(across)))
    n = math.prod(shape) // max(1, channels)
    if n == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    made = _made(input._a, shape, axes, eps)
    if running_mean is not None and n:
        mean, variance = (made or _standard(input.detach()._a, axes, eps))[2:]
        _moved(running_mean, mean.reshape(channels), momentum)
        _moved(running_var, variance.reshape(channels) * (n / (n - 1)), momentum)
    return call(_NORMS["Batch"], (input, weight, bias), (shape, axes, across, eps, made))


@_of_one_dtype
def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Each channel of each example with mean 0 and variance 1."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps).view(input._a.shape)
    shape = input._a.shape
    axes = tuple(range(2, len(shape)))
    if math.prod(shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    if running_mean is not None:
        a = floats(input.detach()._a)
        n = math.prod(shape[2:])
        _moved(running_mean, np.mean(a, axis=(0, *axes)), momentum)
        _moved(running_var, np.mean(np.var(a, axis=axes) * (n / (n - 1)), axis=0), momentum)
    made = _made(input._a, shape, axes, eps)
    out = call(_NORMS["Batch"], (input, weight, bias), (shape, axes, (1, shape[1], *(1,) * len(axes)), eps, made))
    return out.view(shape)


@_of_one_dtype
def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Each example with mean 0 and variance 1 over the last axes, which are of `normalized_shape`."""
    wanted, shape = _same_end("layer_norm", normalized_shape, input, weight, bias)
    axes = tuple(range(-len(wanted), 0))
    return call(_NORMS["Layer"], (input, weight, bias), (shape, axes, wanted, eps, _made(input._a, shape, axes, eps)))


def _same_end(name: str, end: Any, input: Any, *parts: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(end, int):
        raise TypeError(f"{name}(): argument 'normalized_shape' (position 2) must be tuple of ints, not int")
    wanted, shape = tuple(end), input._a.shape
    if not wanted:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = []"
        )
    _fit(parts, wanted, "of same shape as normalized_shape", f"normalized_shape = {list(wanted)}")
    if shape[-len(wanted) :] != wanted:
        star = ", ".join(["*", *map(str, wanted)])
        raise RuntimeError(f"Given normalized_shape={list(wanted)}, expected input with shape [{star}], but got input of size{list(shape)}")
    return wanted, shape


def _fit(parts: Any, wanted: tuple[int, ...], of: str, seen: str) -> None:
    for what, t in zip(("weight", "bias"), parts):
        if t is not None and t._a.shape != wanted:
            raise RuntimeError(f"Expected {what} to be {of}, but got {what} of shape {list(t.shape)} and {seen}")


@_of_one_dtype
def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Each group of channels of each example with mean 0 and variance 1."""
    if input._a.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input._a.ndim}")
    n, channels, *rest = input._a.shape
    grouped = [n * channels // num_groups, num_groups, *rest]
    if grouped[0] * math.prod(rest) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {grouped}")
    _fit((weight, bias), (channels,), "a vector of size equal to the number of channels in input", f"input of shape {list(input.shape)}")
    if channels % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.shape)} and num_groups={num_groups}"
        )
    view = (n, num_groups, channels // num_groups, *rest)
    across, axes = (num_groups, channels // num_groups, *(1,) * len(rest)), tuple(range(2, len(view)))
    return call(_NORMS["Group"], (input, weight, bias), (view, axes, across, eps, _made(input._a, view, axes, eps)))


def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """Each example divided by its root mean square over the last axes."""
    wanted, _ = _same_end("rms_norm", normalized_shape, input, weight)
    x = input.float() if input._a.dtype == HALF else input
    eps = float(np.finfo(x._a.dtype).eps) if eps is None else eps
    y = x * ((x * x).mean(tuple(range(-len(wanted), 0)), True) + eps).rsqrt()
    return (y if weight is None else y * weight).to(input.dtype)


def local_response_norm(input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Any:
    """Each element divided by a power of the mean square of its neighbours' channels (Krizhevsky et al. 2012)."""
    if input._a.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality                          input (got {input._a.ndim} dimensions)")
    shape = input._a.shape
    squares = pad((input * input).reshape(shape[0], 1, shape[1], math.prod(shape[2:])), (0, 0, size // 2, (size - 1) // 2))
    return input / (avg_pool2d(squares, (size, 1), stride=1).reshape(shape) * alpha + k) ** beta


def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Any = None) -> Any:
    """Divided by its norm along an axis."""
    y = input / input.norm(p, dim, True).clamp(min=eps).expand_as(input)
    return y if out is None else out.copy_(y)


# dropout


def _kept(input: Any, p: float, channels: tuple[int, ...] | None) -> Any:
    def draw(shape: tuple[int, ...]) -> Any:
        return default_generator.events(math.prod(shape), 1 - p).reshape(shape).astype(input._a.dtype)  # as `bernoulli_` draws

    return wrap(draw(channels) if channels else like(input._a, draw))


def check_p(p: float) -> None:
    """Raise for a probability of dropout that is none."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _whole(input: Any, p: float, training: bool) -> bool:
    """Whether nothing is to be dropped."""
    check_p(p)
    return not training or p == 0 or not input._a.size


def _dropped(input: Any, p: float, training: bool, inplace: bool, channels: tuple[int, ...] | None = None) -> Any:
    if _whole(input, p, training):
        return input
    noise = _kept(input, p, channels).div_(1 - p) if p < 1 else wrap(np.zeros((), input._a.dtype))
    return input.mul_(noise) if inplace else input * noise


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zero each element with probability p and scale the rest."""
    return _dropped(input, p, training, inplace)


def _per_channel(shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(shape) < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return (*shape[:2], *(1,) * (len(shape) - 2))


def _channel_dropout(d: int) -> Any:
    @named(f"dropout{d}d", "Zero whole channels with probability p and scale the rest.")
    def channel_dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        ndim = input._a.ndim
        shape = input._a.shape
        if d == 1 and ndim not in (2, 3):
            raise RuntimeError(
                f"dropout1d: Expected 2D or 3D input, but received a {ndim}D input. Note that dropout1d exists to provide channel-wise "
                "dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
            )
        if d > 1 and ndim not in (d + 1, d + 2):
            warn(
                f"dropout{d}d: Received a {ndim}-D input to dropout{d}d, which is deprecated and will result in an error in a future "
                "release. To retain the behavior and silence this warning, please use dropout instead. Note that dropout"
                f"{d}d exists to provide channel-wise dropout on inputs with {d} spatial dimensions, a channel dimension, and an optional "
                f"batch dimension (i.e. {d + 1}D or {d + 2}D inputs)."
            )
        if d == 2 and ndim == 3:
            warn(
                "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired - input is "
                "interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a future release to interpret "
                "the input as one without a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise dropout behavior, "
                "please switch to using dropout1d instead."
            )
        if d != 2 and ndim and ndim != d + 2:  # one example without a batch axis; for images PyTorch takes it for a batch
            return _dropped(input, p, training, inplace, (shape[0], *(1,) * (ndim - 1)))
        return input if _whole(input, p, training) else _dropped(input, p, training, inplace, _per_channel(shape))

    return channel_dropout


dropout1d, dropout2d, dropout3d = map(_channel_dropout, (1, 2, 3))


def _alpha(input: Any, p: float, training: bool, inplace: bool, channels: tuple[int, ...] | None = None) -> Any:
    if _whole(input, p, training):
        return input
    if p == 1:
        return input * 0
    alpha = 1.7580993408473766
    a = 1.0 / math.sqrt((alpha * alpha * p + 1) * (1 - p))
    noise = _kept(input, p, channels)
    b = (noise - 1) * (alpha * a) + alpha * a * p
    noise = noise * a
    return input.mul_(noise).add_(b) if inplace else input * noise + b


def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """Dropout that keeps mean and variance after `selu` (Klambauer et al. 2017)."""
    return _alpha(input, p, training, inplace)


def feature_alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """`alpha_dropout` of whole channels."""
    return input if _whole(input, p, training) else _alpha(input, p, training, inplace, _per_channel(input._a.shape))
