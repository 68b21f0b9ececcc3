"""`torch.nn.init`: first values of parameters, with PyTorch's random numbers, so that the same seed gives the same parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch import _random
from functrace.torch._create import empty, empty_like
from functrace.torch._dtypes import warn
from functrace.torch._modes import no_grad
from functrace.torch._tensor import wrap

_GAINS = {"sigmoid": 1, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
_LINEAR = ("linear", *(f"conv{how}{d}d" for how in ("", "_transpose") for d in (1, 2, 3)))


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """The factor by which a nonlinearity shrinks the spread of what passes it, undone."""
    if nonlinearity in _LINEAR:
        return 1
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


def _old(name: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        warn(f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.", FutureWarning)
        return globals()[name + "_"](*args, **kwargs)

    return function


for _name in "uniform normal constant eye dirac xavier_uniform xavier_normal kaiming_uniform kaiming_normal orthogonal sparse".split():
    globals()[_name] = _old(_name)


@no_grad()
def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    """Uniform between a and b."""
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Normal."""
    return tensor.normal_(mean, std, generator=generator)


def _phi(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


@no_grad()
def trunc_normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None) -> Any:
    """Normal, cut off at a and b, by rejection: of normal numbers where enough of them are inside, else of uniform ones."""
    if tensor.is_meta:
        return tensor
    if mean < a - 2 * std or mean > b + 2 * std:
        warn("mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect.")
    normal = _phi((b - mean) / std) - _phi((a - mean) / std) > 0.3
    low, high = tensor.new_tensor(a).item(), tensor.new_tensor(b).item()
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2

    def draw(x: Any) -> Any:
        return x.normal_(mean, std, generator=generator) if normal else x.uniform_(a, b, generator=generator)

    def outside(x: Any) -> Any:
        if normal:
            return (x < low) | (x > high)
        density = x.sub(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        return empty_like(x).uniform_(generator=generator).log_() > density

    out = draw(tensor)
    pending = outside(out)
    while pending.any():
        new = draw(empty_like(tensor))
        out = new.where(pending, out)
        pending = pending & outside(new)
    return tensor.copy_(out)


@no_grad()
def constant_(tensor: Any, val: float) -> Any:
    """One number everywhere."""
    return tensor.fill_(val)


def ones_(tensor: Any) -> Any:
    """Ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Any) -> Any:
    """Zeros."""
    return constant_(tensor, 0.0)


@no_grad()
def _copied(tensor: Any, a: Any) -> Any:
    return tensor.copy_(wrap(a))


def _need(tensor: Any, least: int, what: str, most: int | None = None) -> tuple[int, ...]:
    shape: tuple[int, ...] = tensor._a.shape
    if not least <= len(shape) <= (most or len(shape)):
        raise ValueError(what)
    return shape


def eye_(tensor: Any) -> Any:
    """The identity matrix."""
    rows, columns = _need(tensor, 2, "Only tensors with 2 dimensions are supported", 2)
    return _copied(tensor, np.eye(rows, columns))


def dirac_(tensor: Any, groups: int = 1) -> Any:
    """A convolution's weight that lets as many channels through unchanged as can be."""
    shape = _need(tensor, 3, "Only tensors with 3, 4, or 5 dimensions are supported", 5)
    if shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    each = shape[0] // groups
    a = np.zeros(shape)
    centre = tuple(n // 2 for n in shape[2:])
    for g in range(groups):
        for d in range(min(each, shape[1])):
            a[(g * each + d, d, *centre)] = 1
    return _copied(tensor, a)


def _fans(tensor: Any) -> tuple[int, int]:
    shape = _need(tensor, 2, "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


_calculate_fan_in_and_fan_out = _fans


def _calculate_correct_fan(tensor: Any, mode: str) -> int:
    if mode.lower() not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode.lower()} not supported, please use one of ['fan_in', 'fan_out']")
    return _fans(tensor)[mode.lower() == "fan_out"]


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Uniform, with the spread of Glorot and Bengio (2010)."""
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Normal, with the spread of Glorot and Bengio (2010)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))), generator)


def _kaiming(fill: Any, scale: float, tensor: Any, a: float, mode: str, nonlinearity: str, generator: Any) -> Any:
    if not tensor._a.size:
        warn("Initializing zero-element tensors is a no-op")
        return tensor
    fan = _calculate_correct_fan(tensor, mode)
    std = scale * (calculate_gain(nonlinearity, a) / math.sqrt(fan))
    return fill(tensor, -std if scale != 1 else 0.0, std, generator)


def kaiming_uniform_(tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None) -> Any:
    """Uniform, with the spread of He et al. (2015)."""
    return _kaiming(uniform_, math.sqrt(3.0), tensor, a, mode, nonlinearity, generator)


def kaiming_normal_(tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None) -> Any:
    """Normal, with the spread of He et al. (2015)."""
    return _kaiming(normal_, 1, tensor, a, mode, nonlinearity, generator)


@no_grad()
def orthogonal_(tensor: Any, gain: float = 1, generator: Any = None) -> Any:
    """Orthonormal rows or columns (Saxe et al. 2013), times `gain`."""
    shape = _need(tensor, 2, "Only tensors with 2 or more dimensions are supported")
    if 0 in shape or tensor.is_meta:
        return tensor
    a = empty(shape[0], math.prod(shape[1:]), dtype=tensor.dtype).normal_(generator=generator)._a
    wide = a.shape[0] < a.shape[1]
    q, r = np.linalg.qr(a.T if wide else a)
    q = q * np.sign(np.diagonal(r))
    return tensor.copy_(wrap((q.T if wide else q).reshape(shape))).mul_(gain)


@no_grad()
def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None) -> Any:
    """Normal, but a part `sparsity` of each column is zero (Martens 2010)."""
    rows, columns = _need(tensor, 2, "Only tensors with 2 dimensions are supported", 2)
    tensor.normal_(0, std, generator=generator)
    for k in range(columns):
        zero = _random.default_generator.permutation(rows)[: math.ceil(sparsity * rows)]  # PyTorch draws these from its own generator
        tensor._a[zero, k] = 0
    return tensor
