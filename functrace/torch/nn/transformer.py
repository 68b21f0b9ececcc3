"""Attention, and the layers of transformers (Vaswani et al. 2017)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from functrace.torch._create import full
from functrace.torch._dtypes import warn
from functrace.torch._missing import own_init
from functrace.torch._modes import is_grad_enabled
from functrace.torch.nn import functional, init
from functrace.torch.nn.containers import ModuleList
from functrace.torch.nn.layers import TABLE
from functrace.torch.nn.module import Module
from functrace.torch.nn.normalization import LayerNorm
from functrace.torch.nn.weighted import Linear, NonDynamicallyQuantizableLinear, empty

F: Any = functional


class MultiheadAttention(Module):
    """Attention of several heads, each with its own projections of query, key and value."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} instead")
        super().__init__()
        if embed_dim % num_heads:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim, self.vdim, self.head_dim = kdim or embed_dim, vdim or embed_dim, embed_dim // num_heads
        self.add_zero_attn = add_zero_attn
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        make: dict[str, Any] = {"dtype": dtype, "device": device}
        same = self._qkv_same_embed_dim
        for name, width in (("q_proj_weight", embed_dim), ("k_proj_weight", self.kdim), ("v_proj_weight", self.vdim)):
            self.register_parameter(name, None if same else empty(embed_dim, width, **make))
        if same:
            self.in_proj_weight = empty(3 * embed_dim, embed_dim, **make)
        else:
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", empty(3 * embed_dim, **make) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, empty(1, 1, embed_dim, **make) if add_bias_kv else None)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for p in (self.bias_k, self.bias_v):
            if p is not None:
                init.xavier_normal_(p)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        """The output, and the weights (None unless `need_weights`)."""
        turned = self.batch_first and query._a.ndim == 3
        if turned:
            views = {k: x.transpose(0, 1) for k, x in {id(x): x for x in (query, key, value)}.items()}  # of one tensor one view
            query, key, value = (views[id(x)] for x in (query, key, value))
        out, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k, self.bias_v,
            self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias, training=self.training,
            key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim, q_proj_weight=self.q_proj_weight, k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight, average_attn_weights=average_attn_weights, is_causal=is_causal,
        )  # fmt: skip
        return (out.transpose(0, 1) if turned else out), weights


class _Layer(Module):
    """What encoder and decoder layers share: attentions, then two linear maps, each added to what it was given and normalised."""

    _attention_names: tuple[str, ...] = ("self_attn",)

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Any], Any] = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        make: dict[str, Any] = {"device": device, "dtype": dtype}
        for name in self._attention_names:
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **make))
        self.linear1 = Linear(d_model, dim_feedforward, bias, **make)
        self.dropout = TABLE["Dropout"](dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **make)
        self.norm_first = norm_first
        parts = range(1, len(self._attention_names) + 2)
        for k in parts:
            setattr(self, f"norm{k}", LayerNorm(d_model, layer_norm_eps, bias=bias, **make))
        for k in parts:
            setattr(self, f"dropout{k}", TABLE["Dropout"](dropout))
        if isinstance(activation, str) and activation not in ("relu", "gelu"):
            raise RuntimeError(f"activation should be relu/gelu, not {activation}")
        self.activation = getattr(F, activation) if isinstance(activation, str) else activation

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__ == __name__:
            own_init(cls)

    def _through_part(self, x: Any, k: int, part: Callable[[Any], Any]) -> Any:
        norm, dropout = getattr(self, f"norm{k}"), getattr(self, f"dropout{k}")
        return x + dropout(part(norm(x))) if self.norm_first else norm(x + dropout(part(x)))

    # the names that PyTorch's subclasses override
    def _sa_block(self, x: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Any:
        return self.self_attn(x, x, x, key_padding_mask, False, attn_mask, is_causal=is_causal)[0]

    def _ff_block(self, x: Any) -> Any:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network."""

    def forward(self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False) -> Any:

        def attend(x: Any) -> Any:
            return self._sa_block(x, src_mask, src_key_padding_mask, is_causal)

        return self._through_part(self._through_part(src, 1, attend), 2, self._ff_block)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output, and a feed-forward network."""

    _attention_names = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:

        def attend(x: Any) -> Any:
            return self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def remember(x: Any) -> Any:
            return self._mha_block(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal)

        return self._through_part(self._through_part(self._through_part(tgt, 1, attend), 2, remember), 3, self._ff_block)

    def _mha_block(self, x: Any, mem: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Any:
        return self.multihead_attn(x, mem, mem, key_padding_mask, False, attn_mask, is_causal=is_causal)[0]


class _Stack(Module):
    """Copies of one layer, one after another."""

    def __init__(self, layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm


def _unnested(layer: Any) -> str:
    """Why PyTorch would not take nested tensors through a layer."""
    if not isinstance(layer, TransformerEncoderLayer):
        return " was not TransformerEncoderLayer"
    attention = layer.self_attn
    known = layer.activation in (F.relu, F.gelu) or isinstance(layer.activation, (TABLE["ReLU"], TABLE["GELU"]))
    return next(why for found, why in (
        (layer.norm_first, ".norm_first was True"),
        (not attention.batch_first, ".self_attn.batch_first was not True(use batch_first for better inference performance)"),
        (attention.in_proj_bias is None, ".self_attn was passed bias=False"),
        (not known, ".activation_relu_or_gelu was not True"),
        (attention.num_heads % 2, ".self_attn.num_heads is odd"),
        (True, ""),
    ) if found)  # fmt: skip


class TransformerEncoder(_Stack):
    """A stack of encoder layers."""

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None, enable_nested_tensor: bool = True, mask_check: bool = True
    ) -> None:
        super().__init__(encoder_layer, num_layers, norm)
        why = _unnested(encoder_layer)
        self.enable_nested_tensor, self.use_nested_tensor = enable_nested_tensor, enable_nested_tensor and not why
        if enable_nested_tensor and why:
            warn(f"enable_nested_tensor is True, but self.use_nested_tensor is False because encoder_layer{why}")

    def forward(self, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None) -> Any:
        padding, first = src_key_padding_mask, self.layers[0]
        nested = self.use_nested_tensor and not first.training and src.ndim == 3 and padding is not None and mask is None
        if nested:  # PyTorch leaves the padding out there, which may only stand at the end, and writes zeros in its place
            padding = padding.bool()
            watched = is_grad_enabled() and any(t._rg for t in (src, *first.parameters()))
            nested = not watched and not (padding[:, :-1] & ~padding[:, 1:]).any()
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))
        if nested:
            src = src.masked_fill(padding.unsqueeze(-1), 0)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(_Stack):
    """A stack of decoder layers."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(self, tgt: Any, memory: Any, *masks: Any, tgt_is_causal: bool | None = None, **named: Any) -> Any:
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks, tgt_is_causal=bool(tgt_is_causal), **named)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder and a decoder."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Any], Any] = "relu",
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder = custom_encoder or TransformerEncoder(TransformerEncoderLayer(*options), num_encoder_layers, norm())
        self.decoder = custom_decoder or TransformerDecoder(TransformerDecoderLayer(*options), num_decoder_layers, norm())
        for p in self.parameters():
            if p._a.ndim > 1:
                init.xavier_uniform_(p)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        if src._a.ndim == 3 and src._a.shape[not self.batch_first] != tgt._a.shape[not self.batch_first]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if not src._a.shape[-1] == tgt._a.shape[-1] == self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal, memory_is_causal=memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Any:
        """The mask that lets each place see itself and what is before it."""
        return full((sz, sz), -math.inf, dtype=dtype, device=device).triu(1)
