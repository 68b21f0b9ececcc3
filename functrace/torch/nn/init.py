"""`torch.nn.init`: first values of parameters, with PyTorch's random numbers, so that the same seed gives the same parameters."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.errors import level
from functrace.torch import _draws, _random
from functrace.torch._leaves import like
from functrace.torch._limits import refuse
from functrace.torch._tensor import wrap

_GAINS = {"sigmoid": 1.0, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
_LINEAR = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """The factor by which a nonlinearity shrinks the spread of what passes it, undone."""
    if nonlinearity in _LINEAR:
        return 1.0
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
        warnings.warn(f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.", FutureWarning, stacklevel=2)
        return globals()[name + "_"](*args, **kwargs)

    return function


for _name in "uniform normal constant eye dirac xavier_uniform xavier_normal kaiming_uniform kaiming_normal orthogonal sparse".split():
    globals()[_name] = _old(_name)


def _fill(tensor: Any, a: Any) -> Any:
    tensor._a[...] = a
    tensor._ver[0] += 1
    return tensor


def _drawn(name: str, tensor: Any, first: float, second: float, generator: Any) -> Any:
    a = tensor._a
    if not a.size:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=level())
        return tensor
    refuse(name, a.dtype)
    drawn = _draws.FILLS[name](a, generator or _random.default_generator, first, second)
    return _fill(tensor, like(a, lambda shape: drawn.reshape(shape)))


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    """Uniform between a and b."""
    return _drawn("uniform_", tensor, a, b, generator)


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Normal."""
    return _drawn("normal_", tensor, mean, std, generator)


def _phi(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def trunc_normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None) -> Any:
    """Normal, cut off at a and b, by rejection: of normal numbers where enough of them are inside, else of uniform ones."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect.", stacklevel=2
        )
    if a > b:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={a:g} > to={b:g}")

    def draw(fill: Callable[..., Any], first: float, second: float) -> Any:
        return fill(wrap(np.empty_like(tensor._a)), first, second, generator)._a

    pending, out = np.ones(tensor._a.shape, bool), tensor._a
    normal = _phi((b - mean) / std) - _phi((a - mean) / std) > 0.3
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    while pending.any():
        x = draw(normal_, mean, std) if normal else draw(uniform_, a, b)
        out = np.where(pending, x, out)
        if normal:
            pending = (out < a) | (out > b)
        else:
            pending &= np.log(draw(uniform_, 0, 1)) > -0.5 * ((x - mean) / std) ** 2 - peak
    return _fill(tensor, out)


def constant_(tensor: Any, val: float) -> Any:
    """One number everywhere."""
    return _fill(tensor, val)


def ones_(tensor: Any) -> Any:
    """Ones."""
    return _fill(tensor, 1)


def zeros_(tensor: Any) -> Any:
    """Zeros."""
    return _fill(tensor, 0)


def _need(tensor: Any, least: int, what: str, most: int | None = None) -> tuple[int, ...]:
    shape: tuple[int, ...] = tensor._a.shape
    if not least <= len(shape) <= (most or len(shape)):
        raise ValueError(what)
    return shape


def eye_(tensor: Any) -> Any:
    """The identity matrix."""
    rows, columns = _need(tensor, 2, "Only tensors with 2 dimensions are supported", 2)
    return _fill(tensor, np.eye(rows, columns))


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
    return _fill(tensor, a)


def _fans(tensor: Any) -> tuple[int, int]:
    shape = _need(tensor, 2, "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


_calculate_fan_in_and_fan_out = _fans


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Uniform, with the spread of Glorot and Bengio (2010)."""
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Normal, with the spread of Glorot and Bengio (2010)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))), generator)


def _kaiming(tensor: Any, a: float, mode: str, nonlinearity: str) -> float:
    if not tensor._a.size:
        return 0.0  # nothing will be drawn
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return calculate_gain(nonlinearity, a) / math.sqrt(_fans(tensor)[mode == "fan_out"])


def kaiming_uniform_(tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None) -> Any:
    """Uniform, with the spread of He et al. (2015)."""
    bound = math.sqrt(3.0) * _kaiming(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None) -> Any:
    """Normal, with the spread of He et al. (2015)."""
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Any, gain: float = 1, generator: Any = None) -> Any:
    """Orthonormal rows or columns (Saxe et al. 2013), times `gain`."""
    shape = _need(tensor, 2, "Only tensors with 2 or more dimensions are supported")
    rows, columns = shape[0], math.prod(shape[1:])
    a = _random.draw("normal", (rows, columns), tensor._a.dtype, generator)
    q, r = np.linalg.qr(a.T if rows < columns else a)
    q = q * np.sign(np.diagonal(r))
    return _fill(tensor, (q.T if rows < columns else q).reshape(shape) * q.dtype.type(gain))


def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None) -> Any:
    """Normal, but a part `sparsity` of each column is zero (Martens 2010)."""
    rows, columns = _need(tensor, 2, "Only tensors with 2 dimensions are supported", 2)
    normal_(tensor, 0, std, generator)
    for k in range(columns):
        zero = (generator or _random.default_generator).permutation(rows)[: math.ceil(sparsity * rows)]
        tensor._a[zero, k] = 0
    return tensor
