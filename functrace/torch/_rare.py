"""Names of `torch.` that scripts seldom use: functions of `torch.nn` under the signatures that PyTorch's kernels have, copies of views,
decompositions of low rank. Imported when one is used.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from functrace.torch import _dtypes, linalg
from functrace.torch._contact import at_axis
from functrace.torch._draws import randn as _randn
from functrace.torch._missing import FOREACH
from functrace.torch._ops import FUNCTIONS
from functrace.torch._reduce import vector_norm
from functrace.torch._tensor import Tensor
from functrace.torch._views import type_name
from functrace.torch.nn import _cells
from functrace.torch.nn import functional as _functional
from functrace.torch.nn.utils.parametrizations import norm_except

F: Any = _functional
_REDUCTIONS = ("none", "mean", "sum")


# functions of `nn.functional` under other signatures; a reduction is 0, 1 or 2

embedding = lambda weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False: F.embedding(
    indices, weight, None if padding_idx < 0 else padding_idx, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse
)
constant_pad_nd = lambda input, pad, value=0: F.pad(input, pad, value=value)
batch_norm = lambda input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled: F.batch_norm(
    input, running_mean, running_var, weight, bias, training, momentum, eps
)
instance_norm = lambda input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled: F.instance_norm(
    input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
)
binary_cross_entropy_with_logits = lambda input, target, weight=None, pos_weight=None, reduction=0: F.binary_cross_entropy_with_logits(
    input, target, weight, reduction=_REDUCTIONS[reduction], pos_weight=pos_weight
)
kl_div = lambda input, target, reduction=0, *, log_target=False: F.kl_div(
    input, target, reduction=_REDUCTIONS[reduction], log_target=log_target
)
hinge_embedding_loss = lambda input, target, margin=1.0, reduction=0: F.hinge_embedding_loss(
    input, target, margin, reduction=_REDUCTIONS[reduction]
)
cosine_embedding_loss = lambda input1, input2, target, margin=0.0, reduction=0: F.cosine_embedding_loss(
    input1, input2, target, margin, reduction=_REDUCTIONS[reduction]
)
margin_ranking_loss = lambda input1, input2, target, margin=0.0, reduction=0: F.margin_ranking_loss(
    input1, input2, target, margin, reduction=_REDUCTIONS[reduction]
)
poisson_nll_loss = lambda input, target, log_input, full, eps, reduction: F.poisson_nll_loss(
    input, target, log_input, full, eps=eps, reduction=_REDUCTIONS[reduction]
)
triplet_margin_loss = lambda anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, reduction=0: F.triplet_margin_loss(
    anchor, positive, negative, margin, p, eps, swap, reduction=_REDUCTIONS[reduction]
)
ctc_loss = lambda log_probs, targets, input_lengths, target_lengths, blank=0, reduction=0, zero_infinity=False: F.ctc_loss(
    log_probs, targets, input_lengths, target_lengths, blank, _REDUCTIONS[reduction], zero_infinity
)
affine_grid_generator = lambda theta, size, align_corners: F.affine_grid(theta, list(size), align_corners)
dropout = lambda input, p, train: F.dropout(input, p, train)
alpha_dropout = lambda input, p, train: F.alpha_dropout(input, p, train)
feature_dropout = lambda input, p, train: F.dropout2d(input, p, train)
feature_alpha_dropout = lambda input, p, train: F.feature_alpha_dropout(input, p, train)
nuclear_norm = lambda input, dim=(-2, -1), keepdim=False: linalg.matrix_norm(input, "nuc", dim, keepdim)
frobenius_norm = lambda input, dim, keepdim=False: vector_norm(input, 2, dim, keepdim)
alias_copy = lambda input: input.clone()
view_as_real_copy = lambda input: FUNCTIONS["view_as_real"](input).clone()
view_as_complex_copy = lambda input: FUNCTIONS["view_as_complex"](input).clone()


def _foreach(name: str) -> Callable[..., Any]:
    """`torch._foreach_add_(tensors, others)` and the like: a method of each tensor; what is no list is for all of them."""
    method = name.replace("maximum", "clamp_min").replace("minimum", "clamp_max")  # which take numbers too
    one: Any = vector_norm if name == "norm" else getattr(Tensor, method)

    def each(self: Any, *args: Any, **kwargs: Any) -> Any:
        lists = [a if isinstance(a, (list, tuple)) else [a] * len(self) for a in args]
        for a in lists:
            if len(a) != len(self):
                raise RuntimeError(f"Tensor lists must have the same number of tensors, got {len(self)} and {len(a)}")
        made = [one(*row[:3], **dict(zip(("value",), row[3:])), **kwargs) for row in zip(self, *lists)]
        return self if name.endswith("_") else tuple(made)

    return each


for _name in FOREACH:
    globals()["_foreach_" + _name] = _foreach(_name)
for _name, _function in list(globals().items()):
    if getattr(_function, "__name__", "") == "<lambda>":
        _function.__name__ = _function.__qualname__ = _name  # Python's TypeErrors name it


def grid_sampler(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    """`nn.functional.grid_sample`."""
    modes = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    return F.grid_sample(input, grid, modes[0][interpolation_mode], modes[1][padding_mode], align_corners)


grid_sampler_2d = grid_sampler_3d = grid_sampler


adaptive_max_pool1d = F.adaptive_max_pool1d_with_indices


def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """The norm along all axes but one, which are kept; along all for `dim=-1`."""
    return norm_except(v, dim, pow)


def slice_copy(input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """A copy of a slice along an axis."""
    return input[at_axis(dim % input.ndim, slice(start, end, step))].clone()


def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    """A product with the orthogonal matrix whose reflectors are given."""
    rows, width = input.shape[-2:]
    square = _functional.pad(input, (0, rows - width))
    q = linalg.householder_product(square, _functional.pad(tau, (0, rows - tau.shape[-1])))
    q = q.mH if transpose else q
    return q @ other if left else other @ q


def _cell(mode: str) -> Callable[..., Any]:
    def cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
        new = _cells.rnn_cell(mode, input, (w_ih, w_hh, b_ih, b_hh), tuple(hx) if mode == "LSTM" else (hx,))
        return new if mode == "LSTM" else new[0]

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


_SAME = """
    atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod cdist chain_matmul einsum istft meshgrid norm split stft
    tensordot unique unique_consecutive unravel_index
""".split()
functional = SimpleNamespace(Tensor=Tensor, F=_functional, **{name: FUNCTIONS[name] for name in _SAME})


def typename(obj: Any) -> str:
    """The name of a tensor's type, or of a class."""
    return obj.type() if isinstance(obj, Tensor) else type_name(obj if isinstance(obj, type) else type(obj))


def set_default_tensor_type(t: Any) -> None:
    """The dtype of a class of tensors, or of its name, as the default."""
    name = t.rpartition(".")[2] if isinstance(t, str) else getattr(t, "__name__", "")
    found = [d for d in _dtypes.NAMES.values() if d.storage == name]
    if not found:
        raise TypeError(f"invalid type object: only floating-point types are supported as the default type: {t}")
    _dtypes.set_default_dtype(found[0])
