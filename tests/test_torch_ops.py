"""Operations of the shim against PyTorch, where it is installed, and against central differences.

A row of `CASES` is a call: a name in `torch.` (".name" a method of the first tensor, "label" with a function `f(t, *tensors)` any other), its
arguments, and a dict of its keywords. Arrays become tensors; floats and complex ones are differentiated. Values, shapes, dtypes,
names of nodes, gradients, and second derivatives where PyTorch has them, must be PyTorch's.
"""

import warnings

import numpy as np
import pytest

import functrace as ft
import functrace.torch as ours
from functrace.torch._tensor import wrap

try:
    import torch as theirs
except ImportError:
    theirs = None

rng = np.random.default_rng(0)
normal = lambda *shape: rng.normal(size=shape)  # noqa: E731
V, W, U = normal(4), normal(4), normal(3)
M, N, K = normal(3, 4), normal(3, 4), normal(4, 3)
P, Q = rng.uniform(0.2, 2.0, (2, 3, 4))
H = rng.uniform(0.1, 0.9, (3, 4))
B, C = normal(2, 3, 4), normal(2, 4, 3)
S, R = normal(3, 3) + 2 * np.eye(3), normal(3, 3)
D = R @ R.T + np.eye(3)  # symmetric, positive definite
BS, BD = normal(2, 3, 3) + 2 * np.eye(3), np.stack([D, D + S @ S.T])
Z, Y = normal(3, 4) + 1j * normal(3, 4), normal(3, 4) + 1j * normal(3, 4)
ZS = normal(3, 3) + 1j * normal(3, 3) + 2 * np.eye(3)
O = np.array(0.7)  # noqa: E741
HOLES = np.where(rng.random((3, 4)) < 0.3, np.nan, M)
TIES = np.array([[1.0, 3.0, 3.0, 2.0], [2.0, 2.0, 0.0, 2.0], [5.0, 4.0, 5.0, 1.0]])
ZEROS = np.array([[1.0, 0.0, 3.0, 2.0], [0.0, 2.0, 0.0, 2.0], [5.0, 4.0, 5.0, 1.0]])
I, J = np.array([0, 2, 1, 1]), rng.integers(0, 3, (3, 4))  # noqa: E741
K1 = np.array([2, 0, 2])
MASK, MASK2 = M > 0, N > 0
SOUND, WAVES = normal(2, 20), normal(2, 5, 7) + 1j * normal(2, 5, 7)
A, A2 = rng.integers(1, 9, (3, 4)), rng.integers(1, 9, (3, 4))
F32 = M.astype(np.float32)


def words(text):
    return text.split()


CASES = [
    *((name, x) for name in words("abs angle atan asinh ceil cos cosh deg2rad erf erfc exp exp2 floor frac i0 nan_to_num neg positive rad2deg relu "
      "round sgn sigmoid sign sin sinc sinh square tan tanh trunc expm1 isfinite isinf isnan isneginf isposinf isreal logical_not signbit argmax "
      "argmin any all amax amin max min sum mean median nanmedian nansum nanmean prod std var std_mean var_mean aminmax msort flatten ravel t "
      "numel fliplr flipud rot90 clone cov corrcoef tril triu count_nonzero argwhere nonzero unique_consecutive argsort") for x in (M, )),
    *((name, P) for name in words("log log10 log1p log2 sqrt rsqrt reciprocal lgamma digamma")), ("acosh", P + 1.5),
    *((name, H) for name in words("acos asin atanh erfinv logit")),
    *((name, Z) for name in words("abs angle conj real imag exp sin cos tan tanh sinh cosh log sqrt square reciprocal sgn sum mean prod neg "
      "view_as_real conj_physical resolve_conj is_complex sigmoid isreal asin atan acos asinh atanh exp2 expm1 log2 log10 log1p cumsum:0 cumprod:0 "
      "rsqrt std var logcumsumexp:0") if ":" not in name),
    *((name, A) for name in words("sin abs sqrt sum prod neg exp sigmoid lgamma square sign floor relu reciprocal max min median mode aminmax argmax any all "
      "msort bitwise_not i0 erf rsqrt tanh")),
    *((name, F32) for name in words("sin sum mean median sigmoid exp var std lgamma digamma erf i0 logcumsumexp:0 softmax:0") if ":" not in name),
    *((name, M, N) for name in words("add sub mul div atan2 arctan2 maximum minimum fmax fmin copysign hypot logaddexp logaddexp2 dist eq ne lt le gt ge "
      "greater less not_equal isclose equal allclose cdist inner kron vdot_ rsub multiply true_divide ldexp logical_and logical_or logical_xor cross_ "
      "nextafter heaviside fmod remainder") if name[-1] != "_"),
    *((name, A, A2) for name in words("add sub mul div floor_divide fmod remainder bitwise_and bitwise_or bitwise_xor bitwise_left_shift "
      "bitwise_right_shift gcd lcm maximum true_divide atan2 hypot_ pow xlogy float_power") if name[-1] != "_"),
    *((name, Z, Y) for name in words("add sub mul div pow eq dist")),
    *((name, M, O) for name in words("add mul div maximum xlogy_ fmod hypot") if name[-1] != "_"),
    *((name, x, dim) for name in words("amax amin argmax argmin all any cummax cummin cumprod cumsum logcumsumexp logsumexp max min mean median mode "
      "nanmean nanmedian nansum prod softmax log_softmax sort std sum var var_mean std_mean argsort") if name[-1] != "_" and ":" not in name
      for x, dim in ((M, 0), (M, -1), (O, 0))),
    *((name, x, 1) for name in words("cumsum cumprod prod amax max cummax cummin logcumsumexp mode min amin logsumexp median") for x in (ZEROS,)),
    *((name, TIES, {"dim": 1}) for name in words("amax amin aminmax max min logsumexp sum")), ("max", TIES), ("amax", TIES), ("median", TIES), ("prod", ZEROS),
    *((name, HOLES) for name in words("median nanmedian nansum nanmean nan_to_num isnan sum")), *((name, HOLES, 1) for name in words("nanmedian median nansum nanmean")),
    *((name, M, {"dim": (0, 1), "keepdim": True}) for name in words("sum mean amax amin std var nansum nanmean logsumexp var_mean all_") if name[-1] != "_"),
    ("quantile", M, 0.3), ("quantile", M, np.array([0.2, 0.7]), 1, True), ("nanquantile", HOLES, 0.4, 0), ("aminmax", M, {"dim": 1, "keepdim": True}),
    *(("quantile", M, 0.4, 1, {"interpolation": how}) for how in words("lower higher nearest midpoint")),
    ("kthvalue", M, 2), ("kthvalue", M, 2, 0, True), ("topk", M, 2), ("topk", M, 2, 0, False), ("sort", M, 0, True), ("sort", M, {"descending": True}), ("sort", TIES, {"stable": True}),
    ("std", M, {"correction": 0}), ("var", M, 1, {"correction": 2}), ("var", M, False), ("std", M, 1, False), ("var_mean", M, 0, {"correction": 0}), ("std", np.ones((2, 3))),
    ("norm", M), ("norm", M, 1), ("norm", M, np.inf, 0), ("norm", M, 3, 1, True), ("norm", M, "nuc"), ("norm", Z), ("norm", M, 0), ("norm", M, -np.inf),
    ("renorm", M, 2, 0, 0.5), ("renorm", M, 1, 1, 1.0), ("dist", M, N, 1), ("dist", M, N, np.inf), ("cdist", M, N, 1.0), ("cdist", B, B + 1), ("cdist", M, M), ("pdist", M),
    ("diff", M), ("diff", M, 2), ("diff", M, {"dim": 0}), ("diff", M, {"prepend": N, "append": N[:, :1]}), ("trapezoid", M), ("trapezoid", M, V), ("trapezoid", M, {"dx": 0.5, "dim": 0}), ("trapz", M, N),
    ("cumulative_trapezoid", M), ("cumulative_trapezoid", M, V), ("gradient", M), ("gradient", M, {"dim": 1, "spacing": 2.0}), ("gradient", V, {"spacing": (np.array([0.0, 1.0, 3.0, 4.0]),)}), ("gradient", M, {"edge_order": 2}),
    ("cov", M, {"correction": 0}), ("cov", V), ("cov", M, {"aweights": P[0]}), ("corrcoef", V), ("histc", M, 4), ("histc", M, {"bins": 3, "min": -1, "max": 1}), ("histogram", M, 3), ("bincount", I), ("bincount", I, V.clip(0)), ("bincount", I, None, 6),
    ("searchsorted", np.sort(M), N), ("searchsorted", np.sort(V), N, {"right": True}), ("searchsorted", np.sort(V), N, {"side": "right", "out_int32": True}), ("bucketize", M, np.sort(V)), ("isin", A, A2[0]), ("isin", A, A2[0], {"invert": True}),
    ("unique", A), ("unique", A, {"return_inverse": True, "return_counts": True}), ("unique", A, {"dim": 0}), ("unique_consecutive", np.array([1.0, 1.0, 2.0, 1.0]), {"return_counts": True}), ("unique_consecutive", A, {"dim": 0, "return_inverse": True}), ("nonzero", MASK), ("nonzero", MASK, {"as_tuple": True}),
    ("logit", M, 0.1), ("nan_to_num", HOLES, 2.0), ("round", 10 * M, {"decimals": 1}), ("round", 100 * M, {"decimals": -1}), ("clamp", M, -0.5, 0.5), ("clamp", M, {"min": 0}), ("clamp", M, N, N + 1), ("clamp_min", M, 0.1), ("clamp_max", M, 0.1), ("clamp_min", M, N), ("clip", M, {"max": 0.5}),
    ("clamp", TIES, 1.0, 3.0), ("relu", ZEROS), ("abs", ZEROS), ("maximum", TIES, ZEROS), ("fmin", TIES, ZEROS), ("atan2", ZEROS, P), ("hypot", ZEROS, P), ("logaddexp", TIES, TIES),
    ("pow", P, Q), ("pow", M, 2), ("pow", M, 3), ("pow", P, 0.5), ("pow", P, -1.5), ("pow", 2.0, M), ("pow", ZEROS, 2), ("pow", ZEROS, 0), ("pow", ZEROS, P), ("pow", P, ZEROS), ("float_power", P, Q), ("float_power", A, 2), ("float_power", P, -1.5),
    ("add", M, N, {"alpha": 2}), ("sub", M, N, {"alpha": 2}), ("rsub", M, N), ("rsub", M, 2.0), ("div", M, P, {"rounding_mode": "floor"}), ("div", M, P, {"rounding_mode": "trunc"}), ("floor_divide", M, P), ("fmod", M, 0.7), ("remainder", M, 0.7), ("fmod", M, P), ("remainder", M, P),
    ("xlogy", P, Q), ("xlogy", ZEROS, P), ("xlogy", P, 2.0), ("copysign", M, -1.0), ("ldexp", M, A), ("polygamma", 1, P), ("polygamma", 2, P), ("mvlgamma", P + 2, 3), ("igamma", P, Q), ("igammac", P, Q), ("frexp", M), ("lerp", M, N, 0.3), ("lerp", M, N, H),
    ("addcmul", M, N, P, {"value": 0.5}), ("addcdiv", M, N, P, {"value": 0.5}), ("addmm", D, M, K), ("addmm", D, M, K, {"beta": 0.5, "alpha": 2}), ("addmv", U, M, V), ("addr", M, U, V, {"alpha": 2}), ("baddbmm", BS, B, C), ("addbmm", D, B, C, {"beta": 0.5}),
    ("bmm", B, C), ("mm", M, K), ("mv", M, V), ("dot", V, W), ("vdot", V, W), ("vdot", Z[0], Y[0]), ("inner", V, W), ("outer", U, V), ("ger", U, V), ("kron", M, U[None]), ("kron", S, R), ("matmul", B, C), ("matmul", B, K), ("matmul", V, K), ("matmul", B, V), ("chain_matmul", M, K, D),
    ("tensordot", M, K, 1), ("tensordot", B, B, {"dims": ([0, 1], [0, 1])}), ("tensordot", M, N, 2), ("einsum", "ij,jk->ik", M, K), ("einsum", "ii->i", S), ("einsum", "bij,bjk", B, C), ("einsum", "i,j->ij", U, V), ("einsum", "...ij->...ji", B), ("cross", S, R), ("cross", M, N, {"dim": 0}),
    ("complex", M, N), ("polar", P, M), ("view_as_complex", normal(3, 2)), (".conj", M), (".sum_to_size", M, 1, 4), (".view", M, 4, 3), (".view", M, 2, -1), ("reshape", M, (2, 6)), ("permute", B, (2, 0, 1)), ("transpose", B, 0, 2), ("swapaxes", B, 0, 2), ("movedim", B, 0, 2), ("moveaxis", B, (0, 1), (2, 0)), ("adjoint", Z),
    (".expand", V, 3, 4), (".expand", O, 3), ("broadcast_to", V, (3, 4)), ("squeeze", M[None]), ("squeeze", M[None], 0), ("unsqueeze", M, -1), ("flatten", B, 1), ("unflatten", M, 1, (2, 2)), (".unfold", M, 1, 2, 1), (".unfold", V, 0, 2, 2), ("as_strided", M, (2, 2), (1, 2)), ("as_strided", M, (2, 2), (1, 1), 1),
    ("select", M, 1, 2), ("narrow", M, 1, 1, 2), ("narrow_copy", M, 1, 1, 2), ("diagonal", S), ("diagonal", B, 1, 1, 2), ("diag", S), ("diag", V), ("diag", V, 1), ("diag_embed", M), ("diag_embed", M, 1, 0, 2), ("diagflat", M), ("tril", S, -1), ("triu", S, 1), ("tril", B), ("trace", S), ("flip", M, (0, 1)), ("roll", M, 1), ("roll", M, (1, 2), (0, 1)), ("rot90", M, 2), ("rot90", B, 1, (1, 2)),
    ("tile", M, (2, 1)), (".repeat", M, 2, 1, 2), ("repeat_interleave", M, 2), ("repeat_interleave", M, 2, 1), ("repeat_interleave", M, np.array([1, 0, 2]), 0), ("repeat_interleave", np.array([1, 0, 2])), ("cat", [M, N]), ("cat", [M, N], 1), ("stack", [M, N], 1), ("hstack", [M, N]), ("vstack", [M, V]), ("dstack", [M, N]), ("column_stack", [U, M]), ("row_stack", [M, N]), ("block_diag", M, U), ("cartesian_prod", U, V), ("combinations", V), ("combinations", U, 2, True), ("meshgrid", U, V), ("vander", V), ("vander", V, 3, True), ("atleast_2d", V), ("atleast_3d", M),
    ("split", M, 2), ("split", M, [1, 2]), ("chunk", M, 2, 1), ("tensor_split", M, 3, 1), ("tensor_split", M, (1, 3), 1), ("hsplit", M, 2), ("vsplit", M, [1]), ("dsplit", B, 2), ("unbind", M, 1), ("split_with_sizes", M, [1, 2]), ("unsafe_chunk", M, 2), ("unsafe_split", M, 2),
    ("gather", M, 1, J), ("gather", M, 0, J[:2, :3]), ("take", M, I), ("take_along_dim", M, J, 0), ("take_along_dim", M, np.argsort(M, 1), 1), ("take_along_dim", M, I), ("index_select", M, 1, I), ("masked_select", M, MASK), ("masked_fill", M, MASK, 2.0), ("masked_fill", M, MASK, O), ("masked_scatter", M, MASK, N), ("where", MASK, M, N), ("where", MASK, M, 0.0), ("where", MASK, M, O), ("where", MASK),
    ("scatter", M, 1, np.argsort(N, 1), N), ("scatter", M, 1, K1[:, None], N), ("scatter", M, 0, J, 2.0), ("scatter", M, 1, K1[:, None], N, {"reduce": "add"}), ("scatter", M, 1, K1[:, None], N, {"reduce": "multiply"}), ("scatter_add", M, 0, J, N), ("scatter_add", M, 1, J[:, :2], N),
    *(("scatter_reduce", x, 0, J, y, how, {"include_self": own}) for how in words("sum prod mean amax amin") for own in (True, False) for x, y in ((M, N), (ZEROS, TIES)) if own or x is M or how[0] != "a"),
    *(("index_reduce", x, 1, I, y, how, {"include_self": own}) for how in words("prod mean amax amin") for own in (True, False) for x, y in ((M, N), (ZEROS, TIES)) if own or x is M or how[0] != "a"),
    ("index_add", M, 1, I, N), ("index_add", M, 0, np.array([1]), V[None], {"alpha": 2}), ("index_copy", M, 1, np.array([2, 0]), N[:, :2]), ("index_fill", M, 1, I[:2], 2.0), ("index_fill", M, 1, I[:2], O), ("index_put", M, (K1, np.arange(3)), U), ("index_put", M, (K1, K1), U, True), ("put", M, I[:3], U), ("put", M, I, V, True),
    ("diagonal_scatter", S, U), ("diagonal_scatter", B, normal(2, 3), 1, 1, 2), ("select_scatter", M, V, 0, 1), ("slice_scatter", M, N[:2], 0, 1), ("slice_scatter", M, N[:, :2], 1, 0, 4, 2),
    ("tril_indices", 3, 4, 1), ("triu_indices", 3, 3), ("unravel_index", I, (2, 2)), ("broadcast_shapes", (2, 1), (3,)), ("broadcast_tensors", U[:, None], V), ("cumsum", A, 0), ("cumprod", A, 0), ("det", S), ("logdet", D), ("slogdet", S), ("inverse", S), ("pinverse", M), ("cholesky", D), ("cholesky_inverse", np.tril(D)), ("cholesky_solve", S, np.tril(D)), ("cholesky_solve", S, np.triu(D), True),
    ("matrix_power", S, 3), ("matrix_power", S, -2), ("matrix_exp", S), ("lu_solve", R, *np.split(D, 1), np.array([1, 2, 3], np.int32)), ("triangular_solve", R, D), ("qr", M), ("svd_values", lambda t, x: t.svd(x)[1], M), ("softmax", M, 1), ("log_softmax", M, 0), ("logsumexp", M, (0, 1)), ("equal", M, M), ("isclose", M, M + 1e-9), ("cumsum", M, 0, {"dtype": "float32"}), ("sum", M, {"dtype": "float32"}),
    # linalg
    *((f"linalg.{name}", x) for name in words("det inv slogdet matrix_exp cond pinv svdvals matrix_norm norm vector_norm lu lu_factor qr") for x in (S, BS, ZS)), *((f"linalg.{name}", D) for name in words("cholesky eigvalsh cholesky_ex inv_ex lu_factor_ex matrix_rank")), ("linalg.cholesky", BD), ("linalg.cholesky", D, {"upper": True}),
    ("linalg.qr", M), ("linalg.qr", K), ("linalg.qr", K, {"mode": "complete"}), ("linalg.qr", K, {"mode": "r"}), ("linalg.lu", M), ("linalg.lu", K), ("eigh", lambda t, x: t.linalg.eigh(x)[1].abs(), D), ("eigh values", lambda t, x: t.linalg.eigh(x)[0], BD), ("eigh function", lambda t, x: (lambda w, v: v @ t.diag(w.exp()) @ v.mT)(*t.linalg.eigh(x)), D), ("svd", lambda t, x: (lambda u, s, v: u @ t.diag(s.sin()) @ v)(*t.linalg.svd(x, False)), M), ("svd vectors", lambda t, x: t.linalg.svd(x, False)[0].abs(), M), ("svd complex", lambda t, x: t.linalg.svd(x, full_matrices=False)[2].abs(), Z),
    ("eig", lambda t, x: (lambda w, v: v @ t.diag(w) @ t.linalg.inv(v))(*t.linalg.eig(x)).real, S), ("eigvals", lambda t, x: t.linalg.eigvals(x).abs().sum(), S), ("linalg.solve", S, R), ("linalg.solve", S, U), ("linalg.solve", BS, normal(2, 3, 2)), ("linalg.solve", S, R, {"left": False}), ("linalg.solve", ZS, ZS.T), ("linalg.solve_ex", S, R), ("linalg.solve_triangular", D, R, {"upper": True}), ("linalg.solve_triangular", D, R, {"upper": False, "unitriangular": True}), ("linalg.solve_triangular", D, R, {"upper": True, "left": False}), ("linalg.lstsq", K, normal(4, 2)),
    ("lu solve", lambda t, x, b: t.linalg.lu_solve(*t.linalg.lu_factor(x), b), S, R), ("lu unpack", lambda t, x: t.lu_unpack(*t.linalg.lu_factor(x))[1], S), ("linalg.multi_dot", [M, K, D]), ("linalg.tensorinv", normal(2, 3, 6), {"ind": 2}), ("linalg.tensorsolve", normal(2, 3, 6), normal(2, 3)), ("linalg.vander", V), ("linalg.vander", M, {"N": 3}), ("linalg.vecdot", M, N), ("linalg.vecdot", Z, Y), ("linalg.cross", S, R), ("linalg.householder_product", K, U), ("orgqr", K, U), ("lu_solve", R, D, np.array([2, 3, 3], np.int32)), ("linalg.matrix_power", S, 2), ("linalg.matmul", M, K), ("linalg.diagonal", S), ("linalg.pinv", M), ("linalg.pinv", Z),
    *(("linalg.matrix_norm", S, order) for order in ("fro", "nuc", np.inf, -np.inf, 1, -1, 2, -2)), *(("linalg.vector_norm", M, order) for order in (0, 1, 2, 3.5, np.inf, -np.inf)), ("linalg.norm", M, 2), ("linalg.norm", V, 3), ("linalg.norm", M, "nuc"), ("linalg.norm", M, None, 1), ("linalg.vector_norm", M, 2, 1, True), *(("linalg.cond", S, p) for p in (None, 1, "fro", -2)),
    # fft
    *((f"fft.{name}", Z) for name in words("fft ifft fft2 ifft2 fftn ifftn irfft irfft2 irfftn hfft hfft2 hfftn fftshift")), *((f"fft.{name}", M) for name in words("fft rfft ihfft rfft2 rfftn ihfft2 ihfftn fftshift ifftshift ifft fft2")), ("fft.fft", Z, 6), ("fft.fft", Z, 3), ("fft.rfft", M, 5, 0), ("fft.irfft", Z, 5), ("fft.irfft", Z, 6, 0), ("fft.hfft", Z, 5), ("fft.fft", Z, {"norm": "ortho"}), ("fft.rfft", M, {"norm": "forward"}), ("fft.irfft", Z, {"norm": "ortho"}), ("fft.hfft", Z, {"norm": "ortho"}), ("fft.fftn", B, (3, 3)), ("fft.rfftn", B, {"dim": (0, 2)}), ("fft.irfftn", Z, (3, 5)), ("fft.fftfreq", 5), ("fft.rfftfreq", 6, 0.5), ("fft.fftshift", M, 1),
    ("stft", SOUND, 8, {"return_complex": True}), ("stft", SOUND, 8, 3, 6, np.hanning(8)[1:7], {"return_complex": True, "normalized": True, "center": False}), ("stft", SOUND[0], 8, {"onesided": False, "return_complex": False}), ("istft", WAVES, 8), ("istft", WAVES, 8, 3, 6, np.hanning(8)[1:7], {"length": 12}),
    # special
    *((f"special.{name}", P) for name in words("bessel_j0 bessel_j1 bessel_y0 bessel_y1 digamma entr erf erfc erfcx exp2 expit expm1 gammaln i0 i0e i1 i1e log1p log_ndtr modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 ndtr psi round scaled_modified_bessel_k0 scaled_modified_bessel_k1 sinc spherical_bessel_j0 airy_ai")), *((f"special.{name}", H) for name in words("erfinv logit ndtri")),
    *((f"special.{name}", P, Q) for name in words("gammainc gammaincc xlog1py xlogy")), ("special.zeta", P + 1.5, Q), ("special.polygamma", 1, P), ("special.multigammaln", P + 2, 2), ("special.logsumexp", M, 0), ("special.softmax", M, 0), ("special.log_softmax", M, 0),
    *((f"special.{name}", H, n) for name in words("chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w") for n in (0, 3)),
]  # fmt: skip


def call(t, row, arrays, differentiate=True):
    """Run a row; the tensors that were differentiated, and the results."""
    name, *args = row
    kwargs = args.pop() if args and isinstance(args[-1], dict) else {}
    function = args.pop(0) if args and callable(args[0]) else None
    leaves = []

    def tensor(x):
        if isinstance(x, (list, tuple)) and any(isinstance(y, np.ndarray) for y in x):
            return type(x)(tensor(y) for y in x)
        if not isinstance(x, np.ndarray):
            return x
        made = arrays(x)
        if differentiate and x.dtype.kind in "fc":
            made.requires_grad_()
            leaves.append(made)
        return made

    args = [tensor(x) for x in args]
    kwargs = {k: getattr(t, v) if k == "dtype" else tensor(v) for k, v in kwargs.items()}
    if function is not None:
        return leaves, function(t, *args)
    if name.startswith("."):
        return leaves, getattr(args[0], name[1:])(*args[1:], **kwargs)
    for part in name.split("."):
        t = getattr(t, part)
    return leaves, t(*args, **kwargs)


def flat(out):
    return [x for y in out for x in flat(y)] if isinstance(out, (list, tuple)) else [out]


def weights(a, k):
    w = np.cos(np.arange(a.size) + k).reshape(a.shape)
    return (w + 1j * w[..., ::-1] if w.ndim and a.dtype.kind == "c" else w).astype(a.dtype)


def plain(x):
    return x.detach().resolve_conj().numpy() if hasattr(x, "detach") else x


def objective(t, outs, k):
    """A real number that depends on all results."""
    total = 0
    for x in outs:
        if x.requires_grad:
            part = (x * t.from_numpy(weights(np.asarray(plain(x)), k))).sum()
            total = total + (part.real if x.is_complex() else part)
    return total


def derivatives(t, leaves, outs, k=1):
    goal = objective(t, outs, k)
    if not hasattr(goal, "requires_grad"):
        return None, None
    first = t.autograd.grad(goal, leaves, create_graph=True, allow_unused=True)
    kept = [g for g in first if g is not None and g.requires_grad]
    goal = objective(t, kept, 2)
    second = None if not hasattr(goal, "requires_grad") else t.autograd.grad(goal, leaves, allow_unused=True)
    return [None if g is None else plain(g) for g in first], second and [None if g is None else plain(g) for g in second]


def same(what, got, want, rtol=1e-6, atol=1e-9):
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        if a is None or b is None:
            a, b = (np.zeros(()) if x is None else x for x in (a, b))  # nothing and zero are both right
        elif isinstance(b, np.ndarray):
            assert (a.shape, a.dtype) == (b.shape, b.dtype), what
        np.testing.assert_allclose(a, b, rtol, atol, err_msg=f"{what} {k}")


# PyTorch composes these of others, whose names vary with the arguments.
LOOSE = set(words("einsum trapezoid trapz cumulative_trapezoid corrcoef copysign narrow_copy diag repeat_interleave unsafe_chunk unsafe_split "
  "index_fill eig scatter linalg.lstsq xlogy special.ndtr fft.fft fft.ifft fft.ihfft2 fft.ihfftn stft istft"))  # fmt: skip


def named(row):
    return row[0]


@pytest.mark.skipif(theirs is None, reason="the oracle: PyTorch is not installed")
@pytest.mark.parametrize("row", CASES, ids=named)
def test_agrees_with_pytorch(row):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = []
        for t in (theirs, ours):
            leaves, out = call(t, row, lambda x, t=t: t.from_numpy(x.copy()))
            outs = flat(out)
            values = [plain(x) for x in outs]
            nodes = [x.grad_fn.name() if getattr(x, "requires_grad", False) and x.grad_fn else None for x in outs]
            try:
                found.append((values, nodes, *derivatives(t, leaves, [x for x in outs if hasattr(x, "requires_grad")])))
            except (RuntimeError, NotImplementedError) as error:
                found.append((values, nodes, str(error), None))
    (values, nodes, first, second), got = found
    same("value", got[0], values)
    if isinstance(first, str):
        return  # no derivative there
    if row[0].startswith("special.") and not any(nodes):
        return  # PyTorch has no derivative; ours is checked against differences
    assert got[1] == nodes or row[0] in LOOSE, (got[1], nodes)
    assert not isinstance(got[2], str), got[2]
    if first is not None:
        same("gradient", got[2], first)
    if second is not None:
        mine = got[3] or [None] * len(second)
        known = [None if b is None else np.where(np.isnan(b), 0, b) for b in second]
        mine = [
            a if a is None or b is None else np.where(np.isnan(b), 0, a) for a, b in zip(mine, second)
        ]  # 0 or inf where PyTorch has NaN
        same("second derivative", mine, known, 1e-5, 1e-7)


INPLACE = [
    row for row in CASES if isinstance(row[1], np.ndarray) and hasattr(ours.Tensor, row[0] + "_") and not row[0].startswith("logical")
]
MOVES = words("t transpose swapaxes squeeze unsqueeze as_strided")
UNTOLD = ("modified by an inplace", "not implemented", "ZeroTensor", "invalid gradient")  # where PyTorch gives up, and we need not


@pytest.mark.skipif(theirs is None, reason="the oracle: PyTorch is not installed")
@pytest.mark.parametrize("how", ["whole", "view", "no_grad"])
@pytest.mark.parametrize("row", INPLACE, ids=named)
def test_in_place_forms_agree_with_pytorch(row, how):
    name = row[0]
    if how == "no_grad" and name in MOVES:
        return  # the history no longer fits the shape
    found = []
    for t in (theirs, ours):

        def inplace(t, x, *args, **kwargs):
            y = x.clone()
            target = y[:] if how == "view" and y.ndim else y
            with t.set_grad_enabled(how != "no_grad"):
                assert getattr(target, name + "_")(*args, **kwargs) is target
            return y

        kwargs = {k: getattr(t, v) if k == "dtype" else v for k, v in row[-1].items()} if isinstance(row[-1], dict) else {}
        args = row[1 : -1 if kwargs else None]
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                leaves, out = call(
                    t, (name, lambda t, *a, kwargs=kwargs: inplace(t, *a, **kwargs), *args), lambda x, t=t: t.from_numpy(x.copy())
                )
                node = out.grad_fn.name() if out.requires_grad and how == "whole" else None
                found.append((plain(out), node, out._version, derivatives(t, leaves, [out])[0]))
        except (RuntimeError, NotImplementedError, IndexError) as error:
            found.append(error)
    if isinstance(found[0], Exception):
        assert isinstance(found[1], Exception) or any(text in str(found[0]) for text in UNTOLD), found
        return
    assert not isinstance(found[1], Exception), found[1]
    assert found[0][2] == found[1][2] and (
        found[0][1] == found[1][1] or name in (*LOOSE, *MOVES, "conj_physical") or "Copy" in found[1][1]
    ), (found[1][1:3], found[0][1:3])
    same("value", [found[1][0]], [found[0][0]])
    if found[0][3] is not None:
        same("gradient", found[1][3], found[0][3])


SPECIAL_POINTS = (TIES, ZEROS, HOLES)  # kinks: no differences there
JUMPS = set(words("fmod remainder frexp round div unique_consecutive"))  # or steps near, and functions of symmetric matrices
NONE = set(words("floor_divide histc histogram unique bincount cholesky linalg.cholesky linalg.cholesky_ex linalg.eigvalsh eigh")) | {
    "eigh values",
    "eigh function",
}
GENERIC = [
    row
    for row in CASES
    if any(isinstance(x, np.ndarray) and x.dtype == float for x in row)
    and row[0] not in JUMPS | NONE
    and not any(x is y for x in row for y in SPECIAL_POINTS)
    and "float32" not in str(row[-1])
]


def function_of(row):
    """A row as a function of its float64 arrays, with functrace's traced values inside the tensors; and those arrays."""
    places = [k for k, x in enumerate(row) if isinstance(x, np.ndarray) and x.dtype == float]

    def f(*arrays):
        held = {id(row[k]): a for k, a in zip(places, arrays)}
        _, out = call(ours, row, lambda x: wrap(held.get(id(x), x)), differentiate=False)
        return [x._a for x in flat(out) if isinstance(x, ours.Tensor) and x._a.dtype.kind == "f"]

    return f, [row[k] for k in places]


@pytest.mark.parametrize("row", GENERIC, ids=named)
def test_derivatives_are_those_of_differences_in_both_modes(row):
    f, arrays = function_of(row)
    ft.check_grads(f, *arrays, order=1, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("row", GENERIC, ids=named)
def test_vmap_is_a_loop(row):
    f, arrays = function_of(row)
    batches = [np.stack([x, 0.97 * x]) for x in arrays]
    got = ft.vmap(f)(*batches)
    rows = [f(*xs) for xs in zip(*batches)]
    for a, b in zip(got, zip(*rows), strict=True):
        np.testing.assert_allclose(a, np.stack(b), 1e-9, 1e-11)


FILLS = {
    "uniform_": (-1.5, 2.0),
    "normal_": (1.0, 2.0),
    "bernoulli_": (0.3,),
    "exponential_": (2.0,),
    "geometric_": (0.3,),
    "cauchy_": (1.0, 2.0),
    "random_": (),
    "random_ to": (5,),
}
DRAWS = {
    **{f"{name} {dtype}": (lambda t, n, name=name, a=args, d=dtype: getattr(t.empty(n, dtype=getattr(t, d)), name.split()[0])(*a))
       for name, args in FILLS.items() for dtype in ("float32", "float64")},
    **{f"random_ {d}": (lambda t, n, d=d: t.empty(n, dtype=getattr(t, d)).random_()) for d in words("int64 int32 int16 uint8 bool")},
    **{f"{name} {d}": (lambda t, n, name=name, d=d: getattr(t, name)(n, dtype=getattr(t, d))) for name in ("rand", "randn") for d in words("float32 float64 complex64 complex128")},
    "rand half": lambda t, n: t.rand(n, dtype=t.float16), "randint": lambda t, n: t.randint(3, 10, (n,)), "randint wide": lambda t, n: t.randint(0, 1 << 40, (n,)),
    "randperm": lambda t, n: t.randperm(n), "normal": lambda t, n: t.normal(0.5, 2.0, (n,)), "normal of tensors": lambda t, n: t.normal(t.arange(n) * 1.0, t.arange(1, n + 1) * 1.0),
    "bernoulli": lambda t, n: t.bernoulli(t.full((n,), 0.3)), "bernoulli float64": lambda t, n: t.bernoulli(t.full((n,), 0.3, dtype=t.float64)), "bernoulli p": lambda t, n: t.bernoulli(t.zeros(n), 0.4), "bernoulli_ of tensor": lambda t, n: t.zeros(n).bernoulli_(t.full((n,), 0.4)),
    "dropout": lambda t, n: t.nn.functional.dropout(t.ones(n), 0.3), "multinomial": lambda t, n: t.multinomial(t.arange(1.0, n + 1), min(n, 7)), "multinomial again": lambda t, n: t.multinomial(t.arange(1.0, n + 1), 9, True), "multinomial rows": lambda t, n: t.multinomial(t.arange(1.0, 2 * n + 1).view(2, n), 1),
    "rand_like": lambda t, n: t.rand_like(t.zeros(n, dtype=t.float64)), "randint_like": lambda t, n: t.randint_like(t.zeros(n), 9), "state": lambda t, n: (t.rand(n), t.randn(3), t.get_rng_state())[2],
}  # fmt: skip


@pytest.mark.skipif(theirs is None, reason="the oracle: PyTorch is not installed")
@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers_are_pytorchs_bit_for_bit(name):
    for n in (1, 15, 16, 17, 1000):
        drawn = []
        for t in (theirs, ours):
            t.manual_seed(5 + n)
            drawn.append((DRAWS[name](t, n).numpy(), t.rand(1).item()))
        (want, after), (got, ours_after) = drawn
        assert got.dtype == want.dtype and after == ours_after
        np.testing.assert_array_equal(got, want)


def test_log_normal_numbers_are_pytorchs_to_rounding():
    if theirs is None:
        pytest.skip("the oracle: PyTorch is not installed")
    theirs.manual_seed(0), ours.manual_seed(0)
    np.testing.assert_allclose(ours.empty(50).log_normal_().numpy(), theirs.empty(50).log_normal_().numpy(), 1e-6)


def test_a_state_of_the_generator_brings_its_numbers_back():
    g = ours.Generator().manual_seed(3)
    for draw in (lambda: ours.rand(3, generator=g), lambda: ours.randn(3, generator=g), lambda: ours.randn(700, generator=g)):
        state = g.get_state()
        first = draw().tolist()
        assert ours.Generator().set_state(state).get_state().tolist() == state.tolist()
        g.set_state(state)
        assert draw().tolist() == first
    with ours.random.fork_rng():
        inside = ours.rand(2).tolist()
    assert ours.rand(2).tolist() == inside
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        g.set_state(ours.zeros(3, dtype=ours.uint8))


def test_out_receives_the_result_and_refuses_gradients():
    x, y = ours.tensor([[1.0, 2.0], [3.0, 5.0]]), ours.ones(2, 2)
    out = ours.empty(0)
    assert ours.quantile(x, 0.5, out=out) is out and out.tolist() == 2.5
    assert ours.linalg.inv(x, out=out) is out and out.shape == (2, 2)
    assert ours.xlogy(x, y, out=out).tolist() == [[0, 0], [0, 0]]
    values, indices = ours.empty(0), ours.empty(0, dtype=ours.int64)
    ours.median(x, 1, out=(values, indices))
    assert values.tolist() == [1, 3] and indices.tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="functions with out=... arguments don't support automatic differentiation"):
        ours.lgamma(x.requires_grad_(), out=out)


@pytest.mark.parametrize("t", [ours, theirs], ids=["ours", "theirs"])
def test_what_does_not_fit_is_refused_in_pytorchs_words(t):
    if t is None:
        pytest.skip("the oracle: PyTorch is not installed")
    x = t.ones(2, 3)
    for wrong, error, text in [
        (lambda: t.median([1.0]), TypeError, "must be Tensor"),
        (lambda: x.quantile(2.0), RuntimeError, r"q must be in the range \[0, 1\] but got 2"),
        (lambda: x.cummax(2), IndexError, r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 2\)"),
        (lambda: x.nansum(tim=1), TypeError, "unexpected keyword argument"),
        (lambda: t.linalg.inv(t.ones(2, 2)), t.linalg.LinAlgError, "The diagonal element 2 is zero, the inversion could not be completed"),
        (lambda: t.linalg.cholesky(-t.eye(2)), RuntimeError, r"the leading minor of order 1 is not positive-definite"),
        (lambda: t.linalg.solve(t.zeros(2, 2), x), t.linalg.LinAlgError, "The solver failed because the input matrix is singular"),
        (lambda: t.multinomial(t.ones(2), 3), RuntimeError, "without replacement"),
        (lambda: t.ones(2, dtype=t.int64).lgamma_(), RuntimeError, "result type Float can't be cast to the desired output type Long"),
        (
            lambda: t.ones(1).expand(3).lgamma_(),
            RuntimeError,
            "more than one element of the written-to tensor refers to a single memory location",
        ),
        (lambda: x.kthvalue(4), RuntimeError, "selected number k out of range for dimension 1"),
        (lambda: x.as_strided((3, 3), (3, 1)), RuntimeError, "are out of bounds for storage of size 24"),
        (lambda: x.unfold(0, 3, 1), RuntimeError, "maximum size for tensor at dimension 0 is 2 but size is 3"),
        (lambda: t.heaviside(x.requires_grad_(), x).sum().backward(), RuntimeError, "derivative for aten::heaviside is not implemented"),
    ]:
        with pytest.raises(error, match=text):
            wrong()


@pytest.mark.skipif(theirs is None, reason="the oracle: PyTorch is not installed")
@pytest.mark.parametrize("row", [row for row in CASES if "aweights" not in str(row[-1])], ids=named)
def test_float32_gives_pytorchs_dtypes_and_values(row):
    def single(x):
        return x.astype({"f": np.float32, "c": np.complex64}.get(x.dtype.kind, x.dtype))

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        want, got = (
            [plain(x) for x in flat(call(t, row, lambda x, t=t: t.from_numpy(single(x)), differentiate=False)[1])] for t in (theirs, ours)
        )
    same("value", got, want, 2e-4, 2e-4)


KEYWORDS = {  # the keywords that scripts use
    "sum": lambda t, x: t.sum(input=x, axis=1, keepdims=True), "max": lambda t, x: x.max(dim=1, keepdim=True)[1], "max axis": lambda t, x: t.max(x, axis=0)[0],
    "argmax": lambda t, x: t.argmax(x, axis=0), "cat": lambda t, x: t.cat(tensors=(x, x), axis=1), "stack": lambda t, x: t.stack([x, x], axis=1), "flip": lambda t, x: t.flip(x, dims=(0,)),
    "split": lambda t, x: x.split(split_size=1)[0], "view": lambda t, x: x.view(size=(3, 2)), "expand": lambda t, x: x.expand(size=(4, 2, 3)), "tile": lambda t, x: t.tile(x, dims=(2,)),
    "swapaxes": lambda t, x: t.swapaxes(x, axis0=0, axis1=1), "sections": lambda t, x: t.tensor_split(x, sections=2, dim=1)[1], "indices": lambda t, x: t.tensor_split(x, indices=(1,), dim=1)[1],
    "logspace": lambda t, x: t.logspace(start=0, end=1, steps=3, base=2), "scatter": lambda t, x: t.scatter(x, 1, (x > 0).long(), value=2.0), "std": lambda t, x: x.std(dim=0, unbiased=False),
    "topk": lambda t, x: t.topk(x, k=2, dim=1, largest=False, sorted=True)[0], "where": lambda t, x: t.where(condition=x > 0, input=x, other=x * 2), "norm": lambda t, x: t.norm(x, p=1, dim=0, keepdim=True),
    "sort": lambda t, x: t.sort(x, dim=1, descending=True, stable=True)[1], "reshape": lambda t, x: t.reshape(input=x, shape=(-1,)), "permute": lambda t, x: t.permute(x, dims=(1, 0)), "movedim": lambda t, x: t.movedim(x, source=0, destination=1),
    "tensordot": lambda t, x: t.tensordot(x, x, dims=([0, 1], [0, 1])), "addmm": lambda t, x: t.addmm(input=t.ones(2, 2), mat1=x, mat2=x.t(), beta=0.5), "quantile": lambda t, x: t.quantile(x, q=t.tensor([0.2, 0.5]), dim=0),
    "meshgrid": lambda t, x: t.meshgrid(x[0], x[1], indexing="xy")[0], "div": lambda t, x: t.div(x, 0.3, rounding_mode="floor"), "sub": lambda t, x: t.sub(x, x, alpha=0.5), "full": lambda t, x: t.full(size=(2,), fill_value=3.0),
    "arange": lambda t, x: t.arange(start=1, end=5, step=2), "linspace": lambda t, x: t.linspace(start=0, end=1, steps=5), "solve": lambda t, x: t.linalg.solve(A=2 * t.eye(2), B=x), "windows": lambda t, x: t.cat([t.hann_window(7), t.hamming_window(8, False), t.bartlett_window(6), t.kaiser_window(6, True, 8.0)]),
}  # fmt: skip


@pytest.mark.skipif(theirs is None, reason="the oracle: PyTorch is not installed")
@pytest.mark.parametrize("name", KEYWORDS)
def test_keywords_are_pytorchs(name):
    want, got = (KEYWORDS[name](t, t.tensor([[0.3, -0.7, 0.9], [0.1, 0.5, -0.2]])) for t in (theirs, ours))
    same(name, [got.numpy()], [want.numpy()], 1e-6, 1e-6)


def test_special_functions_say_what_to_install_where_scipy_is_not(monkeypatch):
    from functrace.torch import _elementwise

    monkeypatch.setattr(_elementwise, "scipy_special", lambda: None)
    for call in (lambda: ours.lgamma(ours.ones(1)), lambda: ours.special.bessel_j0(ours.ones(1))):
        with pytest.raises(ImportError, match=r"pip install 'functrace\[scipy\]'"):
            call()
    assert ours.erf(ours.zeros(1)).tolist() == ours.xlogy(ours.zeros(1), ours.zeros(1)).tolist() == [0.0]
