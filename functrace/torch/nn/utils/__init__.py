"""`torch.nn.utils`: gradients kept small, parameters as one vector, sequences packed."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from functrace.torch._index import cat, stack
from functrace.torch._missing import missing, names
from functrace.torch._modes import no_grad
from functrace.torch._random import fork_rng
from functrace.torch._reduce import array_norm
from functrace.torch._tensor import Tensor, wrap
from functrace.torch.nn.utils import rnn as rnn


def _gradients(parameters: Any) -> list[Any]:
    return [p._grad for p in ([parameters] if isinstance(parameters, Tensor) else parameters) if p._grad is not None]


def get_total_norm(tensors: Iterable[Any], norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None) -> Any:
    """The norm of several tensors as if they were one vector."""
    p, tensors = float(norm_type), list(tensors)
    if tensors and all(type(t._a) is np.ndarray and t._a.dtype == tensors[0]._a.dtype for t in tensors):
        norms = [array_norm(t._a, p, tuple(range(t._a.ndim)), False) for t in tensors]
        total = wrap(array_norm(np.stack(norms), p, (0,), False))
    else:
        with no_grad():
            total = stack([t.norm(p) for t in tensors]).norm(p) if tensors else wrap(np.zeros((), np.float32))
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {float(norm_type)} for gradients from `parameters` is non-finite, so it cannot be clipped. To "
            "disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Any, foreach: bool | None = None) -> None:
    """Scale the gradients so that their common norm, which is given, becomes at most `max_norm`."""
    factor = (max_norm / (total_norm.detach() + 1e-6)).clamp(max=1.0)
    for g in _gradients(parameters):
        a = g._a
        if type(a) is np.ndarray and a.dtype == factor._a.dtype and a.flags.writeable:
            np.multiply(a, factor._a, a)
            g._ver[0] += 1
        else:
            g.detach().mul_(factor)


def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Any:
    """Scale the gradients so that their common norm is at most `max_norm`. Returns the norm that they had."""
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, float(max_norm), total)
    return total


clip_grad_norm = clip_grad_norm_


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Keep each element of the gradients between -clip_value and clip_value."""
    for g in _gradients(parameters):
        g.detach().clamp_(-float(clip_value), float(clip_value))


def parameters_to_vector(parameters: Iterable[Any]) -> Any:
    """All parameters as one vector."""
    return cat([p.reshape(-1) for p in parameters])


_flatten_dense_tensors = parameters_to_vector  # the names of `torch._utils`


def _unflatten_dense_tensors(flat: Any, tensors: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(x.view_as(t) for x, t in zip(flat.split([t.numel() for t in tensors]), tensors))


def vector_to_parameters(vec: Any, parameters: Iterable[Any]) -> None:
    """Write the elements of a vector into the parameters."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    values: Any = vec
    start = 0
    for p in parameters:
        p.data = values[start : start + p._a.size].view_as(p).data
        start += p._a.size


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """A module whose parameters have no particular values yet."""
    with fork_rng():
        return module_cls(*args, **kwargs)


clip_grad = convert_parameters = sys.modules[__name__]  # PyTorch has a module for each
_OLD = "weight_norm remove_weight_norm spectral_norm remove_spectral_norm"
_FUSED = "fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights"
__getattr__ = missing("torch.nn.utils", names(fusion=_FUSED, parametrize="", parametrizations="", prune="", stateless="", _norms=_OLD))
