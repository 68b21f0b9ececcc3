"""Layers with parameters of their own: linear maps, embeddings, convolutions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from functrace.torch import _create
from functrace.torch.nn import functional, init
from functrace.torch.nn._windows import each
from functrace.torch.nn.layers import titled
from functrace.torch.nn.module import Module
from functrace.torch.nn.parameter import Parameter

if TYPE_CHECKING:
    from typing_extensions import Self

F: Any = functional


def empty(*shape: int, dtype: Any = None, device: Any = None) -> Any:
    """A parameter whose values are still to be set."""
    return Parameter(_create.empty(shape, dtype=dtype, device=device))


def draw_all(module: Module, inputs: int) -> None:
    """Draw all the parameters from the range that PyTorch takes for this many inputs."""
    bound = 1 / math.sqrt(inputs)
    for p in module.parameters():
        init.uniform_(p, -bound, bound)


class Identity(Module):
    """What is given, unchanged. Takes any arguments, and ignores them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class PReLU(Module):
    """`leaky_relu` with a slope that is learned."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = empty(num_parameters, dtype=dtype, device=device)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.constant_(self.weight, self.init)

    def forward(self, input: Any) -> Any:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


# linear maps


class Linear(Module):
    """`x @ weight.T + bias`."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = empty(out_features, in_features, dtype=dtype, device=device)
        self.register_parameter("bias", empty(out_features, dtype=dtype, device=device) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.kaiming_uniform_(self.weight, math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Any) -> Any:
        if type(self) is Linear and "weight" in (parts := self._parameters) and "bias" in parts:  # found as its class finds them
            return F.linear(input, parts["weight"], parts["bias"])
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """`Linear`, under the name that attention prints."""


class Bilinear(Module):
    """`x1 @ weight[k] @ x2 + bias[k]` for each output k."""

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = empty(out_features, in1_features, in2_features, dtype=dtype, device=device)
        self.register_parameter("bias", empty(out_features, dtype=dtype, device=device) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        draw_all(self, self.in1_features)

    def forward(self, input1: Any, input2: Any) -> Any:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        sizes = f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}"
        return f"{sizes}, bias={self.bias is not None}"


class Embedding(Module):
    """A table of vectors, looked up by number."""

    _usual_options = {
        "padding_idx": None,
        "max_norm": None,
        "norm_type": 2,
        "scale_grad_by_freq": False,
        "sparse": False,
    }  # what is not printed

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise AssertionError("Padding_idx must be within num_embeddings")
        if _weight is not None and list(_weight.shape) != [num_embeddings, embedding_dim]:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse = max_norm, norm_type, scale_grad_by_freq, sparse
        if _weight is not None:
            self.weight = Parameter(_weight, not _freeze)
            return
        self.weight = empty(num_embeddings, embedding_dim, dtype=dtype, device=device)
        self.weight.requires_grad = not _freeze
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight._a[self.padding_idx] = 0

    @classmethod
    def from_pretrained(cls, embeddings: Any, freeze: bool = True, *args: Any, **options: Any) -> Self:
        """A table that is given; not trained if `freeze`. Takes the options of the class, from `padding_idx` or `max_norm` on."""
        if embeddings._a.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        return cls(*embeddings._a.shape, *args, **{**options, "_weight": embeddings, "_freeze": freeze})

    def forward(self, input: Any) -> Any:
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse)

    def extra_repr(self) -> str:
        more = [f"{k}={getattr(self, k)!r}" for k, v in self._usual_options.items() if getattr(self, k) is not v and getattr(self, k) != v]
        return ", ".join([str(self.num_embeddings), str(self.embedding_dim), *more])


class EmbeddingBag(Embedding):
    """Sums, means or maxima of vectors of a table, looked up by number."""

    _usual_options = {"max_norm": None, "norm_type": 2, "scale_grad_by_freq": False, "mode": None, "padding_idx": None}

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
        _freeze: bool = False,
    ) -> None:
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise AssertionError("padding_idx must be within num_embeddings")
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight, _freeze, device, dtype
        )
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )


# convolutions


class _ConvNd(Module):
    _spatial_dims = 1
    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
        *,
        output_padding: Any = 0,
    ) -> None:
        super().__init__()
        d = self._spatial_dims
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        for n, what in ((in_channels, "in_channels"), (out_channels, "out_channels")):
            if n % groups:
                raise ValueError(f"{what} must be divisible by groups")
        self.stride = each(stride, d)
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}")
            if padding == "same" and self.stride != (1,) * d:
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError(
                f"padding_mode must be one of {{'circular', 'reflect', 'replicate', 'zeros'}}, but got padding_mode='{padding_mode}'"
            )
        if self.transposed and padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        self.in_channels, self.out_channels, self.groups, self.padding_mode = in_channels, out_channels, groups, padding_mode
        self.kernel_size, self.dilation = each(kernel_size, d), each(dilation, d)
        self.padding: Any = padding if isinstance(padding, str) else each(padding, d)
        self.output_padding = each(output_padding, d)
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        self.weight = empty(first, second // groups, *self.kernel_size, dtype=dtype, device=device)
        self.register_parameter("bias", empty(out_channels, dtype=dtype, device=device) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.kaiming_uniform_(self.weight, math.sqrt(5))
        if self.bias is not None and self.weight._a.size:
            bound = 1 / math.sqrt(math.prod(self.weight._a.shape[1:]))
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Any, output_size: Any = None) -> Any:
        weight, bias = self.weight, self.bias
        if self.transposed:
            name = f"conv_transpose{self._spatial_dims}d"
            extra = self.output_padding if output_size is None else self._extra_padding(input, output_size)
            return getattr(F, name)(input, weight, bias, self.stride, self.padding, extra, self.groups, self.dilation)
        return self._conv_forward(input, weight, bias)

    def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
        padding = self.padding
        if self.padding_mode != "zeros":
            pads: list[int] = []
            for k, (n, e) in enumerate(zip(self.kernel_size, self.dilation)):
                total = e * (n - 1) if padding == "same" else 0
                pads[:0] = (total // 2, total - total // 2) if isinstance(padding, str) else (padding[k], padding[k])
            input, padding = F.pad(input, pads, self.padding_mode), 0
        return getattr(F, f"conv{self._spatial_dims}d")(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def _extra_padding(self, input: Any, output_size: Any) -> tuple[int, ...]:
        geometry = zip(input._a.shape[-self._spatial_dims :], self.kernel_size, self.stride, self.padding, self.dilation)
        least = [(n - 1) * s - 2 * p + e * (k - 1) + 1 for n, k, s, p, e in geometry]
        extra = tuple(m - n for m, n in zip(output_size[-self._spatial_dims :], least))
        if any(not 0 <= m < s for m, s in zip(extra, self.stride)):
            most = [n + s - 1 for n, s in zip(least, self.stride)]
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {least} to {most} (for an input of "
                f"{input.shape[-self._spatial_dims :]})"
            )
        return extra

    def extra_repr(self) -> str:
        d = self._spatial_dims
        usual = {"padding": (0,) * d, "dilation": (1,) * d, "output_padding": (0,) * d, "groups": 1}
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        parts += [f"{k}={getattr(self, k)}" for k, v in usual.items() if getattr(self, k) != v]
        parts += ["bias=False"] if self.bias is None else []
        return ", ".join(parts + ([f"padding_mode={self.padding_mode}"] if self.padding_mode != "zeros" else []))


class _ConvTransposeNd(_ConvNd):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype,
            output_padding=output_padding,
        )  # fmt: skip


for _d in (1, 2, 3):
    titled(f"Conv{_d}d", "conv", _ConvNd, {"_spatial_dims": _d})
    titled(f"ConvTranspose{_d}d", "conv", _ConvTransposeNd, {"_spatial_dims": _d})
