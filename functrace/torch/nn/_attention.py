"""Linear maps, and attention."""

from __future__ import annotations

import contextlib
import enum
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from functrace.torch._apply import call
from functrace.torch._checks import c_name, of_one_dtype
from functrace.torch._contact import HALF, dot_of, product
from functrace.torch._contact import value as value_of
from functrace.torch._device import Absent
from functrace.torch._dtypes import warn
from functrace.torch._index import cat
from functrace.torch._modes import recording
from functrace.torch._nodes import Op, pull_node
from functrace.torch._reduce import added, summed, top_of
from functrace.torch._select import matmul, multiplied, turned
from functrace.torch._shape import VIEW, reshaped, t
from functrace.torch._tensor import wrap
from functrace.torch.nn._norms import dropout
from functrace.torch.nn._padding import pad


def _affine(b: Any, x: Any, w: Any) -> Any:
    y = dot_of(x, w)
    if type(y) is np.ndarray and type(b) is np.ndarray:
        y += b
        return y
    return y + b


_LINEAR = Op(  # `addmm`, whose gradient of the transposed weight lies in memory as the weight does
    "Addmm",
    _affine,
    [
        lambda g, _r, _b, _x, _w: np.add.reduce(g, 0) if type(g) is np.ndarray and g.dtype is not HALF else g,
        lambda g, _r, _b, _x, w: dot_of(g, w.T),
        lambda g, _r, _b, x, _w: dot_of(g.T, x).T,
    ],
    ("Mul", "Mm", "Mm"),
    frees=True,
)
_LINEAR.again = [
    lambda g, _r, _b, _x, _w: call(VIEW, (summed(g, (0,), True),), (g._a.shape[1:],)),
    lambda g, _r, _b, _x, w: multiplied(g, turned(w)),
    lambda g, _r, _b, x, _w: turned(multiplied(turned(g), x)),
]


def _addmm(bias: Any, x: Any, weight: Any) -> Any:
    a, w, b = x._a, weight._a, bias._a
    if w.ndim == 2 and a.shape[1] == w.shape[1] and b.shape == w.shape[:1]:
        return call(_LINEAR, (bias, x, turned(weight)))
    return bias.addmm(x, weight.t())


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """`input @ weight.T + bias`."""
    shape = input._a.shape
    if bias is None:
        return matmul(input, turned(weight) if weight._a.ndim == 2 else t(weight))
    of_one_dtype(bias, input, weight)
    if len(shape) == 2:
        return _addmm(bias, input, weight)
    for a in (input._a, bias._a):
        if type(a) is np.ndarray and not a.flags.c_contiguous:
            return matmul(input, t(weight)) + bias
    rows = reshaped(input, (math.prod(shape[:-1]), shape[-1]), within=True)
    return call(VIEW, (_addmm(bias, rows, weight),), ((*shape[:-1], weight._a.shape[0]),))


def _additive(mask: Any, dtype: Any) -> Any:
    """A mask to be added: a bool one says where to attend, or in `multi_head_attention_forward` where not to."""
    if mask is None or mask._a.dtype != np.bool_:
        return mask
    return wrap(np.where(mask._a, -np.inf, 0).astype(dtype))


def _shares(q: Any, k: Any, mask: Any, scale: float) -> Any:
    """softmax(q k^T scale + mask); a row that attends to nothing has zeros."""
    s = product(q * q.dtype.type(scale), np.swapaxes(k, -1, -2))
    s = s if mask is None else s + mask
    top = top_of(s, -1)
    nothing = top == -np.inf
    if type(s) is np.ndarray and s.flags.writeable and (mask is None or not nothing.any()):
        s -= top
        np.exp(s, out=s)
        s /= added(s, -1)
        return s
    if mask is None:
        s = np.exp(s - top)
        return s / np.sum(s, axis=-1, keepdims=True)
    s = np.exp(s - np.where(nothing, np.zeros((), s.dtype), top))
    return s / np.where(nothing, np.ones((), s.dtype), np.sum(s, axis=-1, keepdims=True))


def _attend(q: Any, k: Any, v: Any, mask: Any, scale: float) -> Any:
    return product(_shares(q, k, mask, scale), v)


class SDPBackend(enum.IntEnum):
    """Kernels that scripts choose from with `torch.nn.attention.sdpa_kernel`. Here there is one."""

    ERROR, MATH, FLASH_ATTENTION, EFFICIENT_ATTENTION, CUDNN_ATTENTION, OVERRIDEABLE = range(-1, 5)


attention = SimpleNamespace(SDPBackend=SDPBackend, sdpa_kernel=lambda backends, set_priority=False: contextlib.nullcontext())
attention.flex_attention = flex = Absent("nn.attention.flex_attention", "not here: use scaled_dot_product_attention, with a mask")
vars(flex).update({_name: flex.part(_name) for _name in ("create_block_mask", "flex_attention")}, _DEFAULT_SPARSE_BLOCK_SIZE=128)
_ATTENTION = Op("ScaledDotProductFlashAttentionForCpu", _attend)


def _attention(inputs: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """Attention as one operation: what is left for the way back are the weights."""
    q, k, v = arrays = [t._a for t in inputs]
    if not all(type(a) is np.ndarray for a in arrays):
        return call(_ATTENTION, inputs, params)
    weights = _shares(q, k, *params)
    out = product(weights, v) if q.flags.c_contiguous else np.matmul(weights, v, out=np.empty_like(q))  # it lies as the queries do
    which = [j for j, t in enumerate(inputs) if t._rg] if recording() else []
    if not which:
        return wrap(out)
    mask, scale = params
    params = None if mask is None else mask.copy(), scale  # the user's own may be written to

    def pull(cts: Sequence[Any]) -> list[Any]:
        (g,) = cts
        found: list[Any] = [None, None, product(np.swapaxes(weights, -1, -2), g) if 2 in which else None]
        if which != [2]:
            d = product(g, np.swapaxes(v, -1, -2))
            d -= np.einsum("...i,...i->...", d, weights)[..., None]  # without an array of the products
            d *= weights
            d *= q.dtype.type(scale)
            found[:2] = product(d, k), product(np.swapaxes(d, -1, -2), q)
        return [found[j] for j in which]

    def whole(q: Any, k: Any, v: Any) -> tuple[Any, ...]:
        return (_attend(q, k, v, *params),)

    return pull_node(_ATTENTION, _ATTENTION.node, whole, inputs, arrays, which, made=((out,), pull))[0]


def _at_once(query: Any, key: Any, value: Any, mask: Any) -> bool:
    """Whether PyTorch takes its one operation for attention."""
    q, k, v = (t._a for t in (query, key, value))
    if not (len(q.shape) == len(k.shape) == len(v.shape) == 4 and q.dtype == k.dtype == v.dtype and q.dtype.kind == "f"):
        return False
    if not (q.shape[:2] == k.shape[:2] == v.shape[:2] and q.shape[3] == k.shape[3] == v.shape[3] and k.shape[2] == v.shape[2]):
        return False
    if 0 in q.shape or 0 in k.shape or mask is None:
        return 0 not in q.shape and 0 not in k.shape
    fits = all(m in (1, n) for m, n in zip(mask._a.shape[::-1], (k.shape[2], q.shape[2], *q.shape[1::-1])))
    return fits and not mask._rg and mask._a.ndim in (2, 4) and type(mask._a) is np.ndarray and mask._a.dtype in (q.dtype, np.bool_)


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """softmax(query key^T * scale + mask) value (Vaswani et al. 2017)."""
    if is_causal and attn_mask is not None:
        raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    dims = [t._a.ndim for t in (query, key, value)]
    if min(dims) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            "{} key.dim: {} and value.dim: {} instead.".format(*dims)
        )
    if enable_gqa:
        times = query._a.shape[-3] // key._a.shape[-3]
        key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
    pair = query._a.shape[-2], key._a.shape[-2]
    if attn_mask is not None and attn_mask._a.dtype not in (np.bool_, np.float32, query._a.dtype):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{c_name(attn_mask)} and  query.dtype: {c_name(query)} instead."
        )
    if attn_mask is not None and any(m not in (1, n) for m, n in zip(attn_mask._a.shape[::-1], pair[::-1])):
        raise RuntimeError(f"scaled_dot_product_attention: attn_mask should broadcast to {pair}, but has shape {list(attn_mask.shape)}")
    dtype, at_once = query._a.dtype, not dropout_p and _at_once(query, key, value, attn_mask)
    scale = 1 / math.sqrt(query._a.shape[-1]) if scale is None else scale
    if is_causal:
        attn_mask = wrap(np.tri(*pair, dtype=bool))
    if attn_mask is not None and attn_mask._a.dtype == np.bool_:
        attn_mask = wrap(np.where(attn_mask._a, dtype.type(0), dtype.type(-np.inf)))
    if at_once:
        return _attention((query, key, value), (None if attn_mask is None else attn_mask._a, scale))
    scores = query.matmul(key.transpose(-2, -1)) * scale
    if attn_mask is not None:
        scores = scores + attn_mask
    nothing = None if attn_mask is None else scores.isneginf().all(-1, True)  # the rows that attend to nothing
    if nothing is not None and np.any(value_of(nothing._a)):
        weights = scores.masked_fill(nothing, 0).softmax(-1).masked_fill(nothing, 0)
    else:
        weights = scores.softmax(-1)
    return (dropout(weights, dropout_p) if dropout_p else weights).matmul(value)


def _check_attention(query: Any, key: Any, value: Any, padding: Any, mask: Any) -> None:
    """Whether the numbers of axes go together."""
    if query._a.ndim not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {query._a.ndim}-D query tensor")
    n = query._a.ndim
    what = f"For {'batched' if n == 3 else 'unbatched'} ({n}-D) `query`, expected"
    if (key._a.ndim, value._a.ndim) != (n, n):
        raise AssertionError(f"{what} `key` and `value` to be {n}-D but found {key._a.ndim}-D and {value._a.ndim}-D tensors respectively")
    if padding is not None and padding._a.ndim != n - 1:
        raise AssertionError(f"{what} `key_padding_mask` to be `None` or {n - 1}-D but found {padding._a.ndim}-D tensor instead")
    if mask is not None and mask._a.ndim not in (2, 3):
        raise AssertionError(f"{what} `attn_mask` to be `None`, 2-D or 3-D but found {mask._a.ndim}-D tensor instead")
    for name, m in (("key_padding_mask", padding), ("attn_mask", mask)):
        if m is not None and m._a.dtype.kind not in "bf":
            raise AssertionError(f"only bool and floating types of {name} are supported")


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Any, Any]:
    """Attention of several heads, on (length, batch, features) or (length, features): the output, and the weights."""
    if static_k is not None or static_v is not None:
        raise NotImplementedError("multi_head_attention_forward: static_k and static_v are not in functrace.torch.")
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    _check_attention(query, key, value, key_padding_mask, attn_mask)
    if None not in (key_padding_mask, attn_mask) and key_padding_mask._a.dtype != attn_mask._a.dtype:
        warn("Support for mismatched key_padding_mask and attn_mask is deprecated. Use same type for both instead.")
    alone = query._a.ndim == 2
    if alone:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, width = query._a.shape
    if width != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    if not use_separate_proj_weight and key._a.shape != value._a.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    source = key._a.shape[0]
    _check_masks(attn_mask, key_padding_mask, batch, num_heads, length, source)
    head = width // num_heads
    apart = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _projected(query, key, value, in_proj_weight, in_proj_bias, apart)
    attn_mask, key_padding_mask = _additive(attn_mask, q._a.dtype), _additive(key_padding_mask, q._a.dtype)
    if attn_mask is not None and attn_mask._a.ndim == 2:
        attn_mask = attn_mask.unsqueeze(0)
    if bias_k is not None:
        k, v = (cat([x, extra.expand(1, batch, width)], 0) for x, extra in ((k, bias_k), (v, bias_v)))
    q, k, v = (x.reshape(x._a.shape[0], batch * num_heads, head).transpose(0, 1) for x in (q, k, v))
    if add_zero_attn:
        k, v = (cat([x, x.new_zeros(batch * num_heads, 1, head)], 1) for x in (k, v))
    source = k._a.shape[1]
    mask = _joint_mask(attn_mask, key_padding_mask, batch, num_heads, source)
    p = dropout_p if training else 0.0
    if need_weights:
        weights = _weights(q, k, mask, p)
        out, weights = weights.bmm(v), weights.view(batch, num_heads, length, source)
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        q, k, v = (x.view(batch, num_heads, x._a.shape[1], head) for x in (q, k, v))
        if mask is not None:
            mask = mask.unsqueeze(0) if mask._a.shape[0] == 1 else mask.view(batch, num_heads, mask._a.shape[1], source)
        out, weights = scaled_dot_product_attention(q, k, v, mask, p).view(batch * num_heads, length, head), None
    out = linear(out.transpose(0, 1).reshape(length * batch, width), out_proj_weight, out_proj_bias)
    out = out.view(length, batch, out_proj_weight._a.shape[0])
    if alone:
        return out.squeeze(1), None if weights is None else weights.squeeze(0)
    return out, weights


def _projected(query: Any, key: Any, value: Any, weight: Any, bias: Any, apart: Any) -> Any:
    """Query, key and value, each by its own part of the weight, or by its own weight of those `apart`."""
    if query is key is value and apart is None:  # one product for all three
        length, batch, width = query._a.shape
        together = linear(query, weight, bias).view(length, batch, 3, width)
        return together.permute(2, 0, 1, 3).contiguous().unbind(0)
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return map(linear, (query, key, value), weight.chunk(3) if apart is None else apart, biases)


def _weights(q: Any, k: Any, mask: Any, p: float) -> Any:
    scores = (q * math.sqrt(1.0 / q._a.shape[-1])).bmm(k.transpose(1, 2))
    weights = (scores if mask is None else scores + mask).softmax(-1)
    return dropout(weights, p) if p else weights


def _check_masks(attn_mask: Any, key_padding_mask: Any, batch: int, heads: int, length: int, source: int) -> None:
    if attn_mask is not None:
        wanted = (length, source) if attn_mask._a.ndim == 2 else (batch * heads, length, source)
        if attn_mask._a.shape != wanted:
            raise RuntimeError(f"The shape of the {len(wanted)}D attn_mask is {attn_mask.shape}, but should be {wanted}.")
    for j, wide in enumerate((batch, source)):
        if key_padding_mask is not None and key_padding_mask._a.shape[j] != wide:
            raise AssertionError(f"Expected key_padded_mask.shape[{j}] to be {wide}, but got {key_padding_mask._a.shape[j]}")


def _joint_mask(attn_mask: Any, key_padding_mask: Any, batch: int, heads: int, source: int) -> Any:
    """What is added to the scores, or None."""
    mask = None if attn_mask is None else _longer_mask(attn_mask, source)
    if key_padding_mask is None:
        return mask
    rows = _longer_mask(key_padding_mask, source).view(batch, 1, 1, source).expand(-1, heads, -1, -1)
    rows = rows.reshape(batch * heads, 1, source)
    return rows if mask is None else mask + rows


def _longer_mask(mask: Any, source: int) -> Any:
    missing = source - mask._a.shape[-1]
    return pad(mask, (0, missing)) if missing else mask
