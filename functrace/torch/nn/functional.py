"""`torch.nn.functional`: activations, losses, linear maps, convolutions, pooling, normalisation and attention, as functions."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import numpy as np

from functrace.torch import _dtypes
from functrace.torch._apply import call
from functrace.torch._border import trimmed
from functrace.torch._checks import c_name
from functrace.torch._index_checks import guarded
from functrace.torch._layout import as_image, in_order
from functrace.torch._limits import LIMITS
from functrace.torch._missing import missing
from functrace.torch._nodes import Op
from functrace.torch._ops import FUNCTIONS
from functrace.torch._reduce import DISTANCE
from functrace.torch._shape import axes_of
from functrace.torch.nn import (  # noqa: F401  (what they define is found below)
    _activations,
    _attention,
    _compositions,
    _convolutions,
    _losses,
    _norms,
    _padding,
    _pooling,
    _resampling,
    _tables,
    _windows,
)

_HELPERS = """
    added axes_of check_p checked each filled gather grown indexed lengths mapped pair_loss parts placed raw_windows softplus_of total
    under within
""".split()

for _module in [m for m in globals().values() if isinstance(m, ModuleType) and m.__name__.startswith("functrace.torch.nn._")]:
    for _name, _f in vars(_module).items():
        if callable(_f) and _f.__module__ == _module.__name__ and not _name.startswith("_") and _name not in _HELPERS:
            globals()[_name] = _f
sigmoid, tanh = _activations.sigmoid, _activations.tanh
linear, conv1d, cross_entropy = _attention.linear, _convolutions.conv1d, _losses.cross_entropy
_WITH_INDICES = [f"{kind}max_pool{d}d" for kind in ("", "adaptive_", "fractional_") for d in (1, 2, 3) if kind != "fractional_" or d > 1]
for _name in _WITH_INDICES:
    globals()[_name + "_with_indices"] = functools.partial(getattr(_pooling, _name), return_indices=True)


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """`input1 @ weight[k] @ input2` for each output k."""
    first, second, (outputs, *sizes) = input1._a.shape, input2._a.shape, weight._a.shape
    *lead, _ = first
    if len(first) != len(second):
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {len(first)} and {len(second)}")
    for k, (m, n) in enumerate(zip(first[:-1], second)):
        if m != n:
            raise RuntimeError(f"bilinear(): input batch dimensions do not match at dim {k}: got {m} and {n}")
    for k, (x, n) in enumerate(zip((first, second), sizes), 1):
        if x[-1] != n:
            raise RuntimeError(f"bilinear(): input{k} size does not match weight size: got {x[-1]} but expected {n}")
    if bias is not None and bias._a.shape != (outputs,):
        raise RuntimeError(f"bilinear(): bias size does not match weight size: got {bias._a.shape[0]} but expected {outputs}")
    parts = {"input1": input1, "input2": input2, "weight": weight, "bias": weight if bias is None else bias}
    if len({t._a.dtype for t in parts.values()}) > 1:
        raise RuntimeError("All tensors must have the same dtype, got " + ", ".join(f"{k}: {c_name(t)}" for k, t in parts.items()))
    x, y = input1.reshape(-1, input1._a.shape[-1]), input2.reshape(-1, input2._a.shape[-1])
    out = call(_BILINEAR, (x, y, weight)).reshape(*lead, outputs)
    return out if bias is None else out + bias


_BILINEAR = Op("Trilinear", lambda x, y, w: np.einsum("ni,kij,nj->nk", x, w, y), lies=in_order)


def conv_tbc(input: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
    """`conv1d` of (time, batch, channel), with weights (time, in, out)."""
    return conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)


def linear_cross_entropy(
    input: Any, linear_weight: Any, target: Any, *, linear_bias: Any = None, ignore_index: int | None = None, **options: Any
) -> Any:
    """`cross_entropy` of `linear`."""
    return cross_entropy(
        linear(input, linear_weight, linear_bias), target, ignore_index=-100 if ignore_index is None else ignore_index, **options
    )


# distances


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between vectors along an axis."""
    d = _dtypes.result_type(x1, x2)
    if not d.is_floating_point:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {d.scalar}")
    if eps < 0:
        raise RuntimeError(f"eps must be non-negative, got: {eps:g}")
    x1, x2 = FUNCTIONS["broadcast_tensors"](x1.to(d), x2.to(d))
    x1, x2 = x1 / x1.norm(2, dim, True).clamp_min(eps), x2 / x2.norm(2, dim, True).clamp_min(eps)
    return (x1 * x2).sum(dim)


def pdist(input: Any, p: float = 2.0) -> Any:
    """The distances between all pairs of rows."""
    return FUNCTIONS["pdist"](input, p)


def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """The p-norm of the differences of vectors."""
    x = x1 - x2 + eps
    return call(DISTANCE[p == 2], (x,), (float(p), axes_of(-1, x._a.ndim), keepdim))


# sizes


def _shuffled(x: Any, r: int) -> Any:
    *lead, c, h, w = x.shape
    n = len(lead)
    x = np.transpose(np.reshape(x, (*lead, c // (r * r), r, r, h, w)), (*range(n + 1), n + 3, n + 1, n + 4, n + 2))
    return np.reshape(x, (*lead, c // (r * r), h * r, w * r))


def _unshuffled(x: Any, r: int) -> Any:
    *lead, c, h, w = x.shape
    n = len(lead)
    x = np.transpose(np.reshape(x, (*lead, c, h // r, r, w // r, r)), (*range(n + 1), n + 2, n + 4, n + 1, n + 3))
    return np.reshape(x, (*lead, c * r * r, h // r, w // r))


def _channels_shuffled(x: Any, groups: int) -> Any:
    n, c, *rest = x.shape
    return np.reshape(np.swapaxes(np.reshape(x, (n, groups, c // groups, *rest)), 1, 2), x.shape)


_SHUFFLE = Op("PixelShuffle", _shuffled, [lambda g, _r, _x, r: _unshuffled(g, r)], "PixelUnshuffle", frees=False, lies=as_image)
_UNSHUFFLE = Op("PixelUnshuffle", _unshuffled, [lambda g, _r, _x, r: _shuffled(g, r)], "PixelShuffle", frees=False, lies=as_image)
_CHANNELS = Op(
    "ChannelShuffle",
    _channels_shuffled,
    [lambda g, _r, _x, k: _channels_shuffled(g, _x.shape[1] // k)],
    "ChannelShuffle",
    frees=False,
    lies=as_image,
)


def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """Groups of r * r channels as blocks of r x r pixels."""
    r, c = upscale_factor, input._a.shape[-3]
    if c % (r * r):
        raise RuntimeError(
            f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
            f"input.size(-3)={c} is not divisible by {r * r}"
        )
    return call(_SHUFFLE, (input,), (r,))


def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """Blocks of r x r pixels as groups of r * r channels."""
    for n, what, k in zip(input._a.shape[-2:], ("height", "width"), (-2, -1)):
        if n % downscale_factor:
            raise RuntimeError(
                f"pixel_unshuffle expects {what} to be divisible by downscale_factor, but input.size({k})={n} is not divisible by "
                f"{downscale_factor}"
            )
    return call(_UNSHUFFLE, (input,), (downscale_factor,))


def channel_shuffle(input: Any, groups: int) -> Any:
    """The channels of several groups in turn."""
    if input._a.shape[1] % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {input._a.shape[1]} channels and {groups} groups.")
    return call(_CHANNELS, (input,), (groups,))


native_channel_shuffle = channel_shuffle


globals().update({name: guarded("nn." + name, f) for name, f in list(globals().items()) if "nn." + name in LIMITS})
globals().update(trimmed(globals()))
for _name in ("relu", "elu", "celu", "selu", "leaky_relu", "threshold", "hardtanh", "rrelu"):
    globals()[_name + "_"] = functools.partial(globals()[_name], inplace=True)
__getattr__ = missing("torch.nn.functional")


def __dir__() -> list[str]:
    return sorted(name for name in globals() if not name.startswith("_"))
