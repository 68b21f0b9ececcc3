"""Modules that normalise."""

from __future__ import annotations

from typing import Any

from functrace.torch._create import ones, zeros
from functrace.torch._dtypes import int64, warn
from functrace.torch._missing import own_init
from functrace.torch.nn import functional
from functrace.torch.nn.layers import TABLE, titled
from functrace.torch.nn.module import Module
from functrace.torch.nn.weighted import empty

F: Any = functional


class _Affine(Module):
    """A normalisation with a weight and a bias, ones and zeros at first."""

    def _make_affine(self, shape: Any, weight: bool, bias: bool, dtype: Any, device: Any) -> None:
        for name, wanted in (("weight", weight), ("bias", bias)):
            self.register_parameter(name, empty(*shape, dtype=dtype, device=device) if wanted else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for name, value in (("weight", 1), ("bias", 0)):
            if self._parameters.get(name) is not None:
                self._parameters[name]._a[...] = value


class _NormBase(_Affine):
    """What batch and instance normalisation share: running statistics, in buffers."""

    _version = 2
    _input_dims: tuple[int, ...] = ()

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum, self.affine = num_features, eps, momentum, affine
        self.track_running_stats = track_running_stats
        kept = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, dtype=dtype, device=device) if kept else None)
        self.register_buffer("running_var", ones(num_features, dtype=dtype, device=device) if kept else None)
        self.register_buffer("num_batches_tracked", zeros((), dtype=int64, device=device) if kept else None)
        self._make_affine((num_features,), affine, affine and bias, dtype, device)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        count, key = self._buffers["num_batches_tracked"], prefix + "num_batches_tracked"
        if count is not None and local_metadata.get("version", 0) < 2:  # files of old, and dicts that were put together by hand
            state_dict.setdefault(key, count)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def reset_running_stats(self) -> None:
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def _check_input_dim(self, input: Any) -> None:
        n = input._a.ndim
        if n not in self._input_dims:
            wanted = " or ".join(f"{k}D" for k in self._input_dims)
            raise ValueError(f"expected {wanted} input (got {n}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    def forward(self, input: Any) -> Any:
        self._check_input_dim(input)
        training, tracked, factor = self.training, self.track_running_stats, self.momentum
        if training and tracked and (count := self.num_batches_tracked) is not None:
            count.add_(1)
            factor = 1.0 / count.item() if factor is None else factor
        mean, var = (self.running_mean, self.running_var) if not training or tracked else (None, None)
        own = training or mean is None
        return F.batch_norm(input, mean, var, self.weight, self.bias, own, 0.0 if factor is None else factor, self.eps)


class _InstanceNorm(_NormBase):
    def forward(self, input: Any) -> Any:
        self._check_input_dim(input)
        alone = input._a.ndim == self._input_dims[0]
        k = 0 if alone else 1
        if input._a.shape[k] != self.num_features:
            if self.affine:
                n = input._a.shape[k]
                raise ValueError(f"expected input's size at dim={k} to match num_features ({self.num_features}), but got: {n}.")
            warn(
                f"input's size at dim={k} does not match num_features. You can silence this warning by not passing in num_features, which "
                "is not used because affine=False"
            )
        own = self.training or not self.track_running_stats
        x = input.unsqueeze(0) if alone else input
        y = F.instance_norm(x, self.running_mean, self.running_var, self.weight, self.bias, own, self.momentum or 0.0, self.eps)
        return y.squeeze(0) if alone else y


own_init(_InstanceNorm, affine=False, track_running_stats=False)
for _d, _dims in ((1, (2, 3)), (2, (4,)), (3, (5,))):
    titled(f"BatchNorm{_d}d", "batchnorm", _BatchNorm, {"_input_dims": _dims})
    titled(f"InstanceNorm{_d}d", "instancenorm", _InstanceNorm, {"_input_dims": (_d + 1, _d + 2)})


class SyncBatchNorm(_BatchNorm):
    """`BatchNorm` for any number of axes. PyTorch's takes the statistics of all processes together; here there is one."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Any) -> None:
        if input._a.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {input._a.ndim}D input)")

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """The module, whose batch normalisations are now of this class."""
        out = module
        if isinstance(module, _BatchNorm):
            options = (module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats, process_group)
            out = SyncBatchNorm(*options, bias=module.bias is not None)
            out._parameters.update(module._parameters)
            out._buffers.update(module._buffers)
            out.training = module.training
        for name, child in list(module.named_children()):
            out.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return out


class LayerNorm(_Affine):
    """Each example with mean 0 and variance 1 over the last axes."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._make_affine(self.normalized_shape, elementwise_affine, elementwise_affine and bias, dtype, device)

    def forward(self, input: Any) -> Any:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"


class RMSNorm(_Affine):
    """Each example divided by its root mean square over the last axes."""

    def __init__(
        self, normalized_shape: Any, eps: float | None = None, elementwise_affine: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.register_parameter("weight", empty(*self.normalized_shape, dtype=dtype, device=device) if elementwise_affine else None)
        self.reset_parameters()

    def forward(self, x: Any) -> Any:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Affine):
    """Each group of channels of each example with mean 0 and variance 1."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self._make_affine((num_channels,), affine, affine and bias, dtype, device)

    def forward(self, input: Any) -> Any:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"


TABLE.update(LayerNorm=LayerNorm, RMSNorm=RMSNorm, GroupNorm=GroupNorm, SyncBatchNorm=SyncBatchNorm)
