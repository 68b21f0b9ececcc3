"""Names of `torch.` that scripts seldom use: functions of `torch.nn` under the signatures that PyTorch's kernels have, copies of views,
decompositions of low rank. Imported when one is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrace.torch import _dtypes, linalg
from functrace.torch._draws import randn as _randn
from functrace.torch._ops import FUNCTIONS
from functrace.torch._reduce import vector_norm
from functrace.torch._tensor import Tensor
from functrace.torch.nn import functional as _functional
from functrace.torch.nn import recurrent

F: Any = _functional
_REDUCTIONS = ("none", "mean", "sum")


def embedding(weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False) -> Any:
    """`nn.functional.embedding`."""
    return F.embedding(indices, weight, None if padding_idx < 0 else padding_idx, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def constant_pad_nd(input: Any, pad: Any, value: Any = 0) -> Any:
    """`nn.functional.pad` with a constant."""
    return F.pad(input, pad, value=value)


def batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    """`nn.functional.batch_norm`."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    """`nn.functional.instance_norm`."""
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def binary_cross_entropy_with_logits(input: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 0) -> Any:
    """`nn.functional.binary_cross_entropy_with_logits`."""
    return F.binary_cross_entropy_with_logits(input, target, weight, reduction=_REDUCTIONS[reduction], pos_weight=pos_weight)


def kl_div(input: Any, target: Any, reduction: int = 0, *, log_target: bool = False) -> Any:
    """`nn.functional.kl_div`."""
    return F.kl_div(input, target, reduction=_REDUCTIONS[reduction], log_target=log_target)


def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, reduction: int = 0) -> Any:
    """`nn.functional.hinge_embedding_loss`."""
    return F.hinge_embedding_loss(input, target, margin, reduction=_REDUCTIONS[reduction])


def cosine_embedding_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 0) -> Any:
    """`nn.functional.cosine_embedding_loss`."""
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=_REDUCTIONS[reduction])


def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 0) -> Any:
    """`nn.functional.margin_ranking_loss`."""
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_REDUCTIONS[reduction])


def poisson_nll_loss(input: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: int) -> Any:
    """`nn.functional.poisson_nll_loss`."""
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_REDUCTIONS[reduction])


def triplet_margin_loss(
    anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2, eps: float = 1e-6, swap: bool = False, reduction: int = 0
) -> Any:
    """`nn.functional.triplet_margin_loss`."""
    return F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=_REDUCTIONS[reduction])


def grid_sampler(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    """`nn.functional.grid_sample`."""
    modes = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    return F.grid_sample(input, grid, modes[0][interpolation_mode], modes[1][padding_mode], align_corners)


grid_sampler_2d = grid_sampler_3d = grid_sampler


def affine_grid_generator(theta: Any, size: Any, align_corners: bool) -> Any:
    """`nn.functional.affine_grid`."""
    return F.affine_grid(theta, list(size), align_corners)


adaptive_max_pool1d = F.adaptive_max_pool1d_with_indices


def feature_dropout(input: Any, p: float, train: bool) -> Any:
    """`nn.functional.dropout2d`, for any number of axes: whole channels are dropped."""
    return F.dropout2d(input, p, train)


def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """The norm along all axes but one, which are kept; along all for `dim=-1`."""
    return vector_norm(v, pow, [k for k in range(v.ndim) if k != dim], dim >= 0)


def slice_copy(input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """A copy of a slice along an axis."""
    return input[(slice(None),) * (dim % input.ndim) + (slice(start, end, step),)].clone()


def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    """A product with the orthogonal matrix whose reflectors are given."""
    rows, width = input.shape[-2:]
    square = _functional.pad(input, (0, rows - width))
    q = linalg.householder_product(square, _functional.pad(tau, (0, rows - tau.shape[-1])))
    q = q.mH if transpose else q
    return q @ other if left else other @ q


def nuclear_norm(input: Any, dim: Any = (-2, -1), keepdim: bool = False) -> Any:
    """The sum of the singular values."""
    return linalg.matrix_norm(input, "nuc", dim, keepdim)


def frobenius_norm(input: Any, dim: Any, keepdim: bool = False) -> Any:
    """The root of the sum of squares."""
    return vector_norm(input, 2, dim, keepdim)


def ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = 1, zero_infinity: bool = False
) -> Any:
    """`nn.functional.ctc_loss`."""
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, _REDUCTIONS[reduction], zero_infinity)


def _cell(mode: str) -> Callable[..., Any]:
    def cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
        weights = [w_ih, w_hh] if b_ih is None else [w_ih, w_hh, b_ih, b_hh]
        new = recurrent._step(mode, F.linear(input, w_ih, b_ih), tuple(hx) if mode == "LSTM" else (hx,), weights)
        return tuple(new) if mode == "LSTM" else new[0]

    return cell


lstm_cell, gru_cell, rnn_tanh_cell, rnn_relu_cell = map(_cell, ("LSTM", "GRU", "RNN_TANH", "RNN_RELU"))


def _copied(name: str) -> Callable[..., Any]:
    def copy(input: Any, *args: Any, **named: Any) -> Any:
        found = getattr(input, name)(*args, **named)
        return tuple(x.clone() for x in found) if isinstance(found, (tuple, list)) else found.clone()

    return copy


_VIEWS = "as_strided detach diagonal expand permute select split split_with_sizes squeeze t transpose unbind unfold unsqueeze view".split()
for _name in _VIEWS:
    globals()[f"{_name}_copy"] = _copied(_name)
view_as_real_copy, view_as_complex_copy = (lambda input, f=f: FUNCTIONS[f](input).clone() for f in ("view_as_real", "view_as_complex"))


def alias_copy(input: Any) -> Any:
    """A copy."""
    return input.clone()


def svd_lowrank(A: Any, q: int = 6, niter: int = 2, M: Any = None) -> Any:
    """The `q` largest singular values, nearly, and their vectors (N. Halko, P. G. Martinsson and J. A. Tropp 2009)."""
    A = A if M is None else A - M
    wide = A.shape[-2] < A.shape[-1]
    A = A.mH if wide else A
    span = linalg.qr(A @ _randn(A.shape[-1], q, dtype=A.dtype)).Q
    for _ in range(niter):
        span = linalg.qr(A @ linalg.qr(A.mH @ span).Q).Q
    U, S, Vh = linalg.svd(span.mH @ A, full_matrices=False)
    U, V = span @ U, Vh.mH
    return (V, S, U) if wide else (U, S, V)


def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """`svd_lowrank` of the columns less their means."""
    m, n = A.shape[-2:]
    q = min(6, m, n) if q is None else q
    if not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    return svd_lowrank(A - A.mean(-2, True) if center else A, q, niter)


def typename(obj: Any) -> str:
    """The name of a tensor's type, or of a class."""
    if isinstance(obj, Tensor):
        return obj.type()  # type: ignore[attr-defined, no-any-return]
    kind = obj if isinstance(obj, type) else type(obj)
    return kind.__qualname__ if kind.__module__ in ("builtins", "__builtin__") else f"{kind.__module__}.{kind.__qualname__}"


def set_default_tensor_type(t: Any) -> None:
    """The dtype of a class of tensors, or of its name, as the default."""
    name = t.rpartition(".")[2] if isinstance(t, str) else t.__name__
    found = [d for d in _dtypes.NAMES.values() if d.storage == name]
    if not found:
        raise TypeError(f"invalid type object: only floating-point types are supported as the default type: {t}")
    _dtypes.set_default_dtype(found[0])
