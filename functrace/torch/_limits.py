"""The dtypes for which PyTorch has no kernel, and its words, where NumPy would go on: a table by operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrace.torch import _dtypes

_INVERT = " is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
_NEEDS_FLOAT = "linalg.vector_norm: Expected a floating point or complex tensor as input. Got {scalar}"
_CONTINUOUS = " distribution is a continuous probability distribution. dtype must be a floating point but you specified {scalar}"
_ONE_WORD = "\"{kernel}\" not implemented for '{scalar}'"

# Operations; NumPy's letters for the kinds that are refused; the name of the kernel that is missing, or a sentence.
# A sentence that begins with "!" is raised as NotImplementedError, another one as RuntimeError.
_ROWS = (
    ("abs", "b", "abs_cpu"),
    ("neg nn.soft_margin_loss", "b", "Negation, the `-` operator, on a bool tensor" + _INVERT),
    ("floor ceil trunc", "b", "{name}_vml_cpu"),
    ("floor ceil trunc", "c", "!{name} is not supported for complex inputs"),
    ("_round", "bc", "round_vml_cpu"),
    ("frac", "biuc", "frac_cpu"),
    ("relu", "b", "Boolean inputs not supported for relu"),
    ("relu clamp clamp_min clamp_max clip", "c", "!clamp is not supported for complex types"),
    ("sign", "c", "!Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."),
    ("erf erfc lgamma erfinv i0", "c", "{name}_vml_cpu"),
    ("deg2rad rad2deg", "c", "{name} is not supported for complex tensors."),
    ("signbit", "c", "!signbit is not implemented for complex tensors."),
    ("bitwise_not bitwise_and bitwise_or bitwise_xor", "fc", "{name}_cpu"),
    ("fft_rfft fft_ihfft", "c", "{fft} expects a real input tensor, but got {scalar}"),
    ("fft_rfft2 fft_rfftn", "c", "rfftn expects a real-valued input tensor, but got {scalar}"),
    ("gcd lcm", "bfc", "{name}_cpu"),
    ("bincount", "b", "bincount_cpu"),
    ("histc", "biuc", "histogram_cpu"),
    ("poisson", "biuc", "{name}_cpu"),
    ("lshift rshift", "bfc", "{name}_cpu"),
    ("lt le gt ge atan2 copysign xlogy cummax cummin aminmax mode logit", "c", "{name}_cpu"),
    ("floor_divide", "bc", "div_floor_cpu"),
    ("_div_trunc", "bc", "div_trunc_cpu"),
    ("logaddexp2 nextafter", "biuc", "{name}_cpu"),
    ("logaddexp", "biu", "{name}_cpu"),
    ("remainder fmod kthvalue", "bc", "{name}_cpu"),
    ("hypot", "biuc", "hypot_cpu"),
    ("maximum minimum fmax fmin", "c", "{name} not implemented for complex tensors."),
    ("heaviside", "c", "heaviside is not yet implemented for complex tensors."),
    ("pow", "b", "pow"),
    ("sub", "b", "Subtraction, the `-` operator, with a bool tensor" + _INVERT),
    ("max min", "c", "{name}_all"),
    ("max_along min_along", "c", "{verb}(): does not support complex input"),
    ("argmax argmin", "b", "{name}(): does not support bool input"),
    ("argmax argmin", "c", "{name}(): does not support complex input"),
    ("amax", "c", "max_values_cpu"),
    ("amin", "c", "min_values_cpu"),
    ("sort argsort msort", "c", " Sort does not support complex dtypes on CPU"),
    ("topk", "b", "topk does not support bool dtypes on CPU"),
    ("topk", "c", " topk does not support complex dtypes on CPU"),
    ("unique digamma", "c", "{name}"),
    ("trace", "b", "trace"),
    ("median nanmedian", "bc", "median_cpu"),
    ("quantile nanquantile", "biuc", "{name}() input tensor must be either float or double dtype"),
    ("std var", "biu", "std and var only support floating point and complex dtypes"),
    ("std_mean var_mean", "biu", "{name} only support floating point and complex dtypes"),
    ("norm", "biu", _NEEDS_FLOAT),
    ("dist", "biu", "norm(): input dtype should be either floating point or complex. Got {scalar} instead."),
    ("nanmean", "biu", "nanmean(): expected input to have floating point or complex dtype but got {scalar}"),
    ("nansum nanmean", "c", "nansum on CPU does not support complex inputs"),
    ("logcumsumexp", "biu", "logcumsumexp_out_cpu"),
    ("trapezoid cumulative_trapezoid", "b", "{name}: received a bool input for `x` or `y`, but bool is not supported"),
    ("cov corrcoef", "b", "cov(): bool dtype is not supported for input"),
    ("isin", "bc", "Unsupported input type encountered for isin(): {scalar}"),
    ("searchsorted bucketize", "bc", "searchsorted_out_cpu"),
    ("addcmul", "b", "addcmul_cpu_out"),
    ("renorm", "biu", _NEEDS_FLOAT),
    ("bernoulli", "biu", "bernoulli_tensor_cpu_p_"),
    ("bernoulli", "c", "bernoulli_tensor_cpu_self_"),
    ("linalg_vecdot", "biu", "linalg.vecdot: Expected a floating point or complex tensor as input. Got {scalar}"),
    ("cross linalg_cross", "b", "cross"),
    ("lerp", "biu", "lerp_kernel_scalar"),
    ("_dot _bmm baddbmm", "b", "{name}"),
    ("vdot", "b", "dot"),
    ("addbmm chain_matmul inner tensordot", "b", "addmm_impl_cpu_"),
    ("gradient", "u", "torch.gradient does not support uint8 input."),
    ("isposinf isneginf", "c", "{name} does not support complex inputs."),
    ("_mm", "b", "addmm_impl_cpu_"),
    ("_mv addmv", "b", "addmv_impl_cpu"),
    ("uniform_", "biu", "check_uniform_bounds"),
    ("normal_", "biu", "normal_kernel_cpu"),
    ("log_normal_", "biuc", "log_normal_cpu"),
    ("geometric_", "bc", "geometric_cpu"),
    ("bernoulli_", "c", "bernoulli_scalar_cpu_"),
    ("random_", "c", "random_kernel_cpu"),
    ("exponential_", "biuc", "Exponential" + _CONTINUOUS),
    ("cauchy_", "biuc", "Cauchy" + _CONTINUOUS),
    ("linalg_inv linalg_det linalg_slogdet linalg_solve linalg_cholesky linalg_qr linalg_svd linalg_pinv "
     "linalg_matrix_norm linalg_matrix_exp inverse logdet linalg_inv_ex linalg_solve_ex linalg_cholesky_ex", "biu",
     "{verb}: Expected a floating point or complex tensor as input. Got {scalar}"),
    ("slogdet qr svd", "biu", "linalg.{name}: Expected a floating point or complex tensor as input. Got {scalar}"),
    ("linalg_svdvals linalg_cond", "biu", "linalg.svd: Expected a floating point or complex tensor as input. Got {scalar}"),
    ("linalg_tensorinv", "biu", "linalg.inv: Expected a floating point or complex tensor as input. Got {scalar}"),
    ("linalg_eig linalg_eigvals", "biu", "Unknown Complex ScalarType for {scalar}"),
    ("linalg_eigh linalg_eigvalsh", "biu", "linalg_eigh_cpu"),
    ("linalg_vander", "b", "linalg.vander supports floating point, complex, and integer tensors, but got {scalar}"),
    ("linalg_lu linalg_lu_factor linalg_lu_factor_ex lu", "biu", "lu_cpu"),
    ("linalg_householder_product orgqr", "biu", "orgqr_cpu"),
    ("linalg_lstsq linalg_matrix_rank", "biu", "This function doesn't handle types other than float and double"),
    ("frexp", "biuc", "torch.frexp() only supports floating-point dtypes"),
    ("cholesky", "biu", "cholesky_cpu"),
    ("cholesky_inverse", "biu", "cholesky_inverse_out_cpu"),
    ("linalg_solve_triangular triangular_solve", "biu", "triangular_solve_cpu"),
    ("igamma igammac", "biuc", "{name}_cpu"),
    ("cdist", "biuc", "cdist only supports floating-point dtypes, X1 got: {scalar}"),
    ("pdist", "biuc", "pdist only supports floating-point dtypes"),
    # of torch.nn.functional
    ("nn.hardtanh nn.relu6", "b", "Bool inputs not supported for hardtanh"),
    ("nn.hardtanh nn.relu6", "c", "!clamp is not supported for complex types"),
    ("nn.elu nn.celu nn.selu", "biuc", "elu_cpu"),
    ("nn.leaky_relu nn.rrelu", "biuc", "leaky_relu_cpu"),
    ("nn.gelu", "biuc", "GeluKernelImpl"),
    ("nn.softplus nn.hardshrink nn.prelu", "biuc", "{name}_cpu"),
    ("nn.softshrink", "biuc", "softshrink_check"),
    ("nn.logsigmoid nn.binary_cross_entropy_with_logits nn.multilabel_soft_margin_loss", "biuc", "log_sigmoid_cpu"),
    ("nn.silu", "biu", "silu_cpu"),
    ("nn.mish", "biuc", "mish_cpu"),
    ("nn.threshold", "bc", "threshold_cpu"),
    ("nn.mse_loss", "c", "mse_cpu"),
    ("nn.smooth_l1_loss", "biuc", "smooth_l1_cpu"),
    ("nn.huber_loss", "biuc", "huber_cpu"),
    ("nn.nll_loss", "biuc", "nll_loss_out_frame"),
    ("nn.soft_margin_loss", "iu", "result type Float can't be cast to the desired output type {scalar}"),
    ("nn.kl_div", "c", "kl_div: Complex inputs not supported."),
    ("nn.ctc_loss", "biuc", "{name}_cpu"),
    ("nn.binary_cross_entropy", "biuc", "binary_cross_entropy"),
    ("nn.multi_margin_loss", "biu", "multi_margin_loss_cpu_kernel"),
    ("nn.max_pool1d", "biuc", "max_pool1d_impl"),
    ("nn.max_pool2d", "bc", "max_pool2d"),
    ("nn.avg_pool1d nn.avg_pool2d nn.local_response_norm", "buc", "avg_pool2d"),
    ("nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d", "biuc", "adaptive_avg_pool2d"),
    ("nn.adaptive_avg_pool3d nn.adaptive_max_pool3d", "biuc", "{name}_cpu"),
    ("nn.adaptive_max_pool1d nn.adaptive_max_pool2d", "biuc", "adaptive_max_pool2d"),
    ("nn.hardsigmoid nn.hardswish nn.glu", "biuc", "{name}_cpu"),
    ("nn.avg_pool3d", "buc", "avg_pool3d_out_frame"),
    ("nn.fold", "biu", "col2im_out_cpu"),
    ("nn.max_unpool1d nn.max_unpool2d", "biuc", "max_unpool2d"),
    ("nn.max_unpool3d", "biuc", "max_unpool3d"),
    ("nn.unfold", "iu", "im2col_out_cpu"),
    ("nn.interpolate nn.upsample", "bic", "compute_indices_weights_nearest"),
    ("nn.grid_sample", "biuc", "grid_sampler_2d_cpu_kernel_impl"),
    ("nn.layer_norm", "biuc", "LayerNormKernelImpl"),
    ("nn.group_norm", "biuc", "GroupNormKernelImpl"),
    ("nn.batch_norm nn.instance_norm", "biuc", "batch_norm"),
    ("nn.rms_norm", "biu", "rms_norm"),
)  # fmt: skip

LIMITS: dict[str, dict[str, str]] = {}
for _names, _kinds, _words in _ROWS:
    for _name in _names.split():
        LIMITS.setdefault(_name, {}).update(dict.fromkeys(_kinds, _words))


def refuse(name: str, d: Any) -> None:
    """Raise if PyTorch has no kernel of this name for a NumPy dtype."""
    words = LIMITS.get(name, {}).get(d.kind)
    if words is None:
        return
    verb = name.replace("linalg_", "linalg.").replace("_along", "").replace("inverse", "linalg.inv").removesuffix("_ex")
    plain, fft = name.removeprefix("_").removeprefix("nn."), name.removeprefix("fft_")
    text = words.format(name=plain, verb=verb, scalar=_dtypes.of(d).scalar, fft=fft)
    if " " not in text:
        raise NotImplementedError(_ONE_WORD.format(kernel=text, scalar=_dtypes.of(d).scalar))
    raise NotImplementedError(text[1:]) if text[0] == "!" else RuntimeError(text)


def refusing_itself(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function that looks at dtypes itself, since they are promoted first."""
    function.limits = True  # type: ignore[attr-defined]
    return function
