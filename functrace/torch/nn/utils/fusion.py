"""`torch.nn.utils.fusion`: a batch normalisation, as it is after training, made part of the layer before it."""

from __future__ import annotations

import copy
from typing import Any

from functrace.torch._create import ones_like, zeros_like
from functrace.torch.nn.parameter import Parameter


def _fused(w: Any, b: Any, mean: Any, var: Any, eps: float, bn_w: Any, bn_b: Any, shape: list[int]) -> tuple[Parameter, Parameter]:
    b = zeros_like(mean) if b is None else b
    scale = (ones_like(mean) if bn_w is None else bn_w) * (var + eps).rsqrt()
    weight, bias = w * scale.reshape(shape), (b - mean) * scale + (0 if bn_b is None else bn_b)
    return Parameter(weight.detach().to(w.dtype), w.requires_grad), Parameter(bias.detach().to(b.dtype), b.requires_grad)


def fuse_conv_bn_weights(
    conv_w: Any, conv_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any, transpose: bool = False
) -> tuple[Parameter, Parameter]:
    """The weight and the bias of the convolution that does what a convolution and a normalisation do."""
    shape = [1, -1] if transpose else [-1, 1]
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape + [1] * (conv_w.dim() - 2))


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Parameter, Parameter]:
    """The weight and the bias of the linear map that does what a linear map and a normalisation do."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def _fuse(layer: Any, bn: Any, fuse: Any, *options: Any) -> Any:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    fused = copy.deepcopy(layer)
    fused.weight, fused.bias = fuse(layer.weight, layer.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, *options)
    return fused


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of a convolution that does what it and a normalisation do, both as in evaluation.

    >>> import functrace.torch as torch
    >>> from functrace.torch.nn.utils.fusion import fuse_conv_bn_eval
    >>> conv, bn, x = torch.nn.Conv2d(1, 2, 3).eval(), torch.nn.BatchNorm2d(2).eval(), torch.rand(1, 1, 4, 4)
    >>> torch.allclose(fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)))
    True
    """
    return _fuse(conv, bn, fuse_conv_bn_weights, transpose)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of a linear map that does what it and a normalisation do, both as in evaluation."""
    if bn.num_features not in (1, linear.out_features):
        raise AssertionError(
            f"To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got linear.out_features={linear.out_features} and "
            f"bn.num_features={bn.num_features}"
        )
    return _fuse(linear, bn, fuse_linear_bn_weights)
