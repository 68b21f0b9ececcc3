"""Sample calls of `torch.nn.functional`: (name, arguments, keywords), and as the rows of `torch_calls`, `CASES`.

What is not to be differentiated is read-only: `fixed`.
"""

import numpy as np

rng = np.random.default_rng(0)


def n(*shape):
    return rng.normal(size=shape)


def fixed(x):
    x = np.array(x)
    x.flags.writeable = False
    return x


X, Y, P, Q = n(3, 4), n(3, 4), rng.uniform(0.1, 0.9, (3, 4)), rng.uniform(0.1, 0.9, (3, 4))
T, W = np.array([0, 2, 3]), fixed(rng.uniform(0.2, 2, 4))
HEADS = [np.random.default_rng(k).normal(size=(2, 3, length, 5)) for k, length in enumerate((4, 6, 6))]
IMAGE, GRID = n(2, 4, 7, 6), rng.uniform(-1.2, 1.2, (2, 5, 6, 2))
CALLS = [(name, (3 * X,), {}) for name in (
    "relu relu6 elu selu celu leaky_relu gelu silu mish logsigmoid hardtanh hardswish hardshrink softshrink tanhshrink softsign "
    "softplus sigmoid tanh glu rrelu normalize"
).split()]  # fmt: skip
CALLS += [
    ("gelu", (X,), {"approximate": "tanh"}), ("threshold", (X, 0.1, 20), {}), ("prelu", (X, n(4)), {}), ("softmax", (X, 1), {}),
    ("softmin", (X, 0), {}), ("log_softmax", (X, -1), {}), ("softplus", (X,), {"beta": 2, "threshold": 1}), ("celu", (X,), {"alpha": 0.5}),
    ("linear", (X, n(2, 4), n(2)), {}), ("linear", (n(2, 3, 4), n(2, 4), n(2)), {}), ("linear", (n(4), n(2, 4), n(2)), {}),
    ("bilinear", (X, n(3, 5), n(2, 4, 5), n(2)), {}), ("embedding", (np.array([[1, 2, 1], [0, 4, 1]]), n(5, 3)), {"padding_idx": 1}),
    ("one_hot", (np.array([1, 0, 3]), 5), {}), ("cosine_similarity", (X, Y), {}), ("pairwise_distance", (X, Y), {}),
    ("batch_norm", (n(2, 6, 3, 4), None, None, n(6), n(6), True), {}), ("instance_norm", (n(2, 6, 5),), {"weight": n(6), "bias": n(6)}),
    ("layer_norm", (X, (4,), n(4), n(4)), {}), ("layer_norm", (n(2, 3, 4), (3, 4)), {}), ("group_norm", (n(2, 6, 5), 3, n(6), n(6)), {}),
    ("rms_norm", (X, (4,), n(4)), {}), ("local_response_norm", (n(2, 6, 4, 5), 3), {"alpha": 0.5, "k": 2.0}),
    ("pixel_shuffle", (n(2, 8, 3, 4), 2), {}), ("pixel_unshuffle", (n(2, 2, 6, 4), 2), {}), ("channel_shuffle", (n(2, 6, 3), 3), {}),
    ("unfold", (n(2, 3, 6, 5), 2), {"dilation": 2, "padding": 1, "stride": 2}), ("fold", (n(2, 12, 20), (5, 6), 2), {}),
    ("affine_grid", (n(2, 2, 3), [2, 3, 4, 5]), {}), ("conv3d", (n(1, 2, 4, 4, 4), n(3, 2, 2, 3, 2), n(3)), {"padding": 1}),
    ("max_pool3d", (n(1, 2, 4, 4, 4), 2), {}), ("avg_pool3d", (n(1, 2, 4, 4, 4), 2), {}),
    ("interpolate", (n(2, 3, 4), 7), {"mode": "linear"}),
    ("scaled_dot_product_attention", (n(2, 3, 4, 5), n(2, 3, 6, 5), n(2, 3, 6, 7), n(4, 6)), {}),
    ("scaled_dot_product_attention", (n(2, 4, 5), n(2, 6, 5), n(2, 6, 5), rng.random((4, 6)) > 0.4), {}),
    ("scaled_dot_product_attention", (n(2, 4, 5), n(2, 6, 5), n(2, 6, 5)), {"is_causal": True, "scale": 0.3}),
    *(("scaled_dot_product_attention", (*HEADS, *mask), {"scale": 0.3} if mask else {"is_causal": causal}) for causal, *mask in (
        (False,), (True,), (False, np.tri(4, 6, -1, dtype=bool)), (False, fixed(np.tri(4, 6))), (False, np.arange(12).reshape(2, 1, 1, 6) % 5 > 0),
        (False, np.arange(72).reshape(3, 4, 6) % 5 > 0),
    )),
]  # fmt: skip
for _r in ("none", "mean", "sum"):
    _o = {"reduction": _r}
    CALLS += [(name, (X, Y), _o) for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits")]
    CALLS += [
        ("smooth_l1_loss", (X, Y), {**_o, "beta": 0.3}), ("binary_cross_entropy", (P, Q), _o), ("binary_cross_entropy", (P, Q, X.astype(int)), _o),
        ("binary_cross_entropy_with_logits", (X, Q), {**_o, "weight": fixed(Y), "pos_weight": W}), ("nll_loss", (X, T), _o),
        ("nll_loss", (X, T), {**_o, "weight": W, "ignore_index": 2}), ("nll_loss", (n(2, 3, 4, 5), rng.integers(0, 3, (2, 4, 5))), _o),
        ("cross_entropy", (X, T), {**_o, "label_smoothing": 0.1, "weight": W, "ignore_index": 2}), ("cross_entropy", (X, P), _o),
        ("cross_entropy", (X, P), {**_o, "label_smoothing": 0.1, "weight": W}), ("cross_entropy", (n(3), np.array(1)), _o),
        ("kl_div", (X, P), _o), ("kl_div", (X, Y), {**_o, "log_target": True}), ("poisson_nll_loss", (X, 3 * P), {**_o, "full": True}),
        ("gaussian_nll_loss", (X, Y, P), {**_o, "full": True, "eps": 0.5}), ("triplet_margin_loss", (X, Y, n(3, 4)), {**_o, "swap": True}),
        ("multilabel_soft_margin_loss", (X, (Y > 0) * 1.0), _o),
    ]  # fmt: skip
for _d in (1, 2):
    _x, _k = (IMAGE[..., 0], IMAGE)[_d - 1], (3, 2)[:_d]
    CALLS += [
        (f"conv{_d}d", (_x, n(6, 4, *_k), n(6)), {"stride": s, "padding": p, "dilation": d}) for s in (1, 2) for p in (0, 1) for d in (1, 2)
    ]
    CALLS += [
        (f"conv_transpose{_d}d", (_x, n(4, 3, *_k), n(3)), {"stride": s, "padding": p, "output_padding": s - 1})
        for s in (1, 2)
        for p in (0, 1)
    ]
    CALLS += [
        (f"conv{_d}d", (_x, n(6, 2, *_k), n(6)), {"groups": 2}), (f"conv{_d}d", (_x[0], n(6, 4, *_k)), {"padding": "same"}),
        (f"adaptive_avg_pool{_d}d", (_x, 3), {}), (f"adaptive_avg_pool{_d}d", (_x, 1), {}), (f"lp_pool{_d}d", (_x**2, 2, 2), {}),
        (f"adaptive_max_pool{_d}d", (_x, 3), {"return_indices": True}),
    ]  # fmt: skip
    for _g in ((2, None, 0, 1, False), (3, 2, 1, 1, True), (2, 2, 1, 2, False), (3, 2, 0, 1, True)):
        CALLS += [(f"max_pool{_d}d", (_x, *_g), {}), (f"max_pool{_d}d", (np.sign(_x), *_g), {"return_indices": True})]
    CALLS += [(f"avg_pool{_d}d", (_x, 3, 2, 1, c, i), {}) for c in (False, True) for i in (False, True)]
    CALLS += [("pad", (_x, (1, 2, 2, 1)[: 2 * _d], mode), {}) for mode in ("constant", "reflect", "replicate", "circular")]
CALLS += [("pad", (IMAGE, (-1, 2), "constant", 3.5), {})]
CALLS += [("interpolate", (n(2, 3, 4, 6), (5, 9)), {"mode": m}) for m in ("nearest", "nearest-exact", "bilinear", "bicubic", "area")]
CALLS += [("interpolate", (n(2, 3, 4, 6),), {"mode": m, "scale_factor": f}) for m in ("nearest", "bilinear", "bicubic") for f in (2, 0.6)]
CALLS += [("interpolate", (n(2, 3, 4, 6), 7), {"mode": m, "align_corners": True}) for m in ("bilinear", "bicubic")]
CALLS += [
    ("grid_sample", (n(2, 3, 4, 7), GRID, m, p, a), {}) for m in ("bilinear", "nearest") for p in ("zeros", "border") for a in (True, False)
]
CALLS += [
    ("hardsigmoid", (3 * X,), {}),
    ("multi_margin_loss", (X, T), {"p": 2, "margin": 0.5, "weight": W}), ("multi_margin_loss", (n(4), np.array(2)), {}),
    ("multilabel_margin_loss", (X, np.array([[3, 0, -1, 1], [0, -1, 1, 2], [-1, 0, 0, 0]])), {}), ("max_unpool2d", (n(1, 2, 2, 2), np.array([[[[0, 3], [9, 11]], [[5, 6], [8, 14]]]]), 2), {}),
    ("cosine_embedding_loss", (X, Y, np.array([1.0, -1, 1])), {"margin": 0.1}), ("margin_ranking_loss", (n(5), n(5), np.sign(n(5))), {"margin": 0.3}),
    ("hinge_embedding_loss", (X, np.sign(Y)), {}), ("soft_margin_loss", (X, np.sign(Y).astype(int)), {}),
]  # fmt: skip
_O3 = {"return_indices": True}
_SMALL = n(1, 2, 4, 4, 5)
_HEADS = lambda *more: (4, 2, n(12, 4), n(12), None, None, False, 0.0, n(4, 4), n(4), *more)  # noqa: E731
_LONG = np.array([[1, 2, 0, 3], [0, 4, 4, 1]])
CALLS += [  # second calls
    *((name, (n(2, 4, 3),), {}) for name in "hardshrink hardswish logsigmoid mish relu6 selu silu softsign tanhshrink hardsigmoid tanh sigmoid relu".split()),
    ("elu", (X,), {"alpha": 0.3}), ("leaky_relu", (X,), {"negative_slope": 0.3}), ("hardtanh", (2 * X, -0.5, 1.5), {}), ("hardshrink", (X, 0.2), {}), ("softshrink", (X, 0.2), {}), ("glu", (n(4, 3), 0), {}), ("rrelu", (X, 0.1, 0.4), {}),
    ("rrelu", (X, 0.1, 0.4, True), {}), ("threshold", (X, -0.3, 2.0), {}), ("prelu", (X, n(1)), {}), ("softmin", (n(2, 3, 4), 1), {}), ("softmax", (n(2, 3), 0), {"dtype": "float32"}), ("log_softmax", (n(2, 3), 0), {"dtype": "float32"}), ("max_pool3d", (_SMALL, 2, 1, 1), {"ceil_mode": True}), ("normalize", (n(2, 3, 4), 1.0, 2), {}), ("embedding", (_LONG, n(5, 3)), {"scale_grad_by_freq": True}), ("one_hot", (_LONG,), {}),
    ("cosine_similarity", (n(2, 3, 4), n(1, 3, 4)), {"dim": -1}), ("pairwise_distance", (X, Y, 1.0), {"keepdim": True}), ("pdist", (X, 1.0), {}), ("pdist", (n(5, 2),), {}), ("bilinear", (n(2, 3), n(2, 4), n(5, 3, 4)), {}),
    ("batch_norm", (n(4, 3), fixed(n(3)), fixed(np.abs(n(3))), n(3)), {}), ("batch_norm", (n(4, 3), fixed(n(3)), fixed(np.abs(n(3)))), {"eps": 0.1}), ("instance_norm", (n(2, 3, 4, 5),), {"eps": 0.1}), ("group_norm", (n(2, 6), 2), {"eps": 0.1}), ("rms_norm", (n(2, 3, 4), (3, 4)), {"eps": 0.1}), ("local_response_norm", (n(2, 6, 4), 2), {}),
    ("pixel_shuffle", (n(1, 9, 2, 2), 3), {}), ("pixel_unshuffle", (n(1, 1, 6, 6), 3), {}), ("channel_shuffle", (n(1, 4, 3, 3), 2), {}), ("native_channel_shuffle", (n(1, 4, 3, 3), 2), {}), ("native_channel_shuffle", (n(2, 6, 3), 3), {}), ("fold", (n(1, 8, 4), (4, 4), 2), {"stride": 2}), ("unfold", (n(1, 2, 5, 5), (3, 2)), {}),
    ("affine_grid", (n(2, 2, 3), [2, 1, 3, 3]), {"align_corners": True}), ("affine_grid", (n(1, 3, 4), [1, 2, 2, 3, 4]), {"align_corners": False}), ("conv3d", (n(1, 4, 3, 3, 3), n(4, 2, 2, 2, 2)), {"groups": 2, "stride": 2}), ("conv_transpose3d", (n(1, 2, 3, 3, 3), n(2, 3, 2, 2, 2), n(3)), {}),
    ("conv_transpose3d", (n(1, 4, 2, 2, 2), n(4, 1, 2, 2, 2)), {"stride": 2, "groups": 2, "output_padding": 1}), ("conv_tbc", (n(5, 2, 3), n(2, 3, 4), n(4)), {}), ("conv_tbc", (n(5, 2, 3), n(3, 3, 2), n(2), 1), {}), *(("upsample_nearest", (n(1, 2, 3, 4),), {"scale_factor": f}) for f in (2, 3)), *(("upsample_bilinear", (n(1, 2, 3, 4),), o) for o in ({"scale_factor": 2}, {"size": (5, 7)})), ("upsample", (n(1, 2, 3), 5), {}), ("upsample", (n(1, 2, 3, 4),), {"scale_factor": 2, "mode": "bilinear", "align_corners": True}),
    *((f"{kind}{d}d{more}", (_SMALL[(0,) * (3 - d)] if d < 3 else _SMALL, 2), {}) for kind, more in (("max_pool", "_with_indices"), ("adaptive_max_pool", "_with_indices"), ("adaptive_max_pool", ""), ("adaptive_avg_pool", "")) for d in (1, 2, 3)),
    *((f"{kind}{d}d{more}", (_SMALL[(0,) * (3 - d)] if d < 3 else _SMALL, 3), {}) for kind, more in (("max_pool", "_with_indices"), ("adaptive_max_pool", "_with_indices"), ("adaptive_max_pool", ""), ("adaptive_avg_pool", "")) for d in (1, 2, 3)),
    ("max_pool3d", (_SMALL, (2, 1, 2), 1), _O3), ("avg_pool3d", (_SMALL, 2, 1, 1, False, False), {}), ("lp_pool1d", (n(1, 2, 6), 3, 2), {"stride": 1}), ("lp_pool2d", (n(1, 2, 5, 5), 3, 3), {"ceil_mode": True}), *(("lp_pool3d", (_SMALL, p, 2), {}) for p in (2, 3)), ("max_unpool1d", (n(1, 2, 2), np.array([[[0, 3], [1, 2]]]), 2), {}), ("max_unpool1d", (n(1, 1, 2), np.array([[[1, 4]]]), 2, 3), {"output_size": (1, 1, 5)}),
    ("max_unpool2d", (n(1, 1, 2, 2), np.array([[[[0, 3], [9, 11]]]]), 2), {"output_size": (5, 4)}), ("max_unpool3d", (n(1, 1, 1, 2, 2), np.array([[[[[0, 3], [9, 15]]]]]), 2), {}), ("max_unpool3d", (n(1, 2, 1, 1, 2), np.array([[[[[0, 3]]], [[[7, 9]]]]]), 2), {}),
    *((f"fractional_max_pool{d}d{w}", (_SMALL if d == 3 else _SMALL[0], 2, 2), {"_random_samples": fixed(rng.random((1, 2, 3) if d == 3 else (2, 4, 2)))}) for d in (2, 3) for w in ("", "_with_indices") for _ in "12"),
    ("cosine_embedding_loss", (X, Y, np.array([1, -1, 1])), {"reduction": "sum"}), ("margin_ranking_loss", (X, Y, np.sign(n(3, 4))), {"reduction": "none"}), ("hinge_embedding_loss", (X, np.sign(Y)), {"margin": 0.3, "reduction": "sum"}), ("soft_margin_loss", (X, fixed(np.sign(Y))), {"reduction": "none"}), ("multilabel_margin_loss", (n(4), np.array([1, 0, -1, 2])), {"reduction": "sum"}),
    ("triplet_margin_with_distance_loss", (X, Y, n(3, 4)), {}), ("triplet_margin_with_distance_loss", (X, Y, n(3, 4)), {"margin": 2.0, "swap": True, "reduction": "none"}), ("linear_cross_entropy", (X, n(5, 4), T), {}), ("linear_cross_entropy", (X, n(5, 4), T), {"reduction": "sum", "label_smoothing": 0.1}),
    ("multi_head_attention_forward", (n(3, 2, 4), n(5, 2, 4), n(5, 2, 4), *_HEADS()), {}), ("multi_head_attention_forward", (n(3, 4), n(3, 4), n(3, 4), *_HEADS()), {"average_attn_weights": False}),
    ("ctc_loss", (lambda t, x, *a, **k: t.nn.functional.ctc_loss(x.log_softmax(-1), *a, **k), n(6, 2, 5), np.array([[1, 2, 2], [3, 4, 0]]), np.array([6, 5]), np.array([3, 2])), {}), ("ctc_loss", (lambda t, x, *a, **k: t.nn.functional.ctc_loss(x.log_softmax(-1), *a, **k), n(6, 2, 5), np.array([1, 2, 2, 3, 4]), np.array([6, 5]), np.array([3, 2])), {"reduction": "none"}),
    ("ctc_loss", (n(6, 2, 5), np.array([[1, 2, 2], [3, 4, 0]]), np.array([6, 3]), np.array([3, 2])), {"reduction": "sum", "zero_infinity": True}), ("embedding_bag", (np.array([1, 2, 0, 3, 0]), n(5, 3), np.array([0, 2, 2])), {}), *(("embedding_bag", (_LONG, n(5, 3)), {"mode": m}) for m in ("sum", "mean", "max")), ("embedding_bag", (_LONG, n(5, 3)), {"mode": "sum", "per_sample_weights": n(2, 4)}), ("embedding_bag", (_LONG, n(5, 3)), {"padding_idx": 0, "mode": "mean"}), ("embedding_bag", (np.array([1, 2, 0, 3]), n(5, 3), np.array([0, 3, 4])), {"include_last_offset": True, "mode": "max"}),
    *((name, (n(2, 4, 3, 3),), {"p": p}) for name in "dropout dropout2d alpha_dropout feature_alpha_dropout".split() for p in (0.0, 0.4)), *((f"dropout{d}d", (n(2, 4, *(3,) * d),), {"p": p}) for d in (1, 3) for p in (0.0, 0.4)), *(("gumbel_softmax", (X,), o) for o in ({}, {"tau": 0.5, "hard": True, "dim": 0})),
    *(("grid_sample", (n(2, 3, 4, 7), GRID, "bicubic", p, a), {}) for p in ("zeros", "border") for a in (True, False)), *(("grid_sample", (n(2, 3, 4, 7), GRID, m, "reflection", a), {}) for m in ("bilinear", "nearest", "bicubic") for a in (True, False)), *(("grid_sample", (n(1, 2, 3, 4, 3), rng.uniform(-1.2, 1.2, (1, 2, 3, 2, 3)), m), {"align_corners": True}) for m in ("bilinear", "nearest")),
    *(("interpolate", (n(1, 2, 5, 7), s), {"mode": m, "antialias": True, "align_corners": a}) for m in ("bilinear", "bicubic") for s in ((3, 4), (8, 9), (1, 7)) for a in (True, False)), ("interpolate", (n(1, 2, 5, 7),), {"mode": "bilinear", "antialias": True, "scale_factor": 0.4}), ("interpolate", (n(1, 2, 3, 3, 3),), {"mode": "trilinear", "scale_factor": 2}), ("interpolate", (n(1, 2, 3, 3, 3), 5), {"mode": "nearest"}),
]  # fmt: skip
CASES = [(f"nn.functional.{name}", *args, kwargs) for name, args, kwargs in CALLS]

# the same functions in `torch.`, and those with arguments of their own
_CELL = lambda k: (n(3, 4), n(3, 5), n(5 * k, 4), n(5 * k, 5), n(5 * k), n(5 * k))  # noqa: E731
_RNN = lambda k, h: (n(3, 2, 4), h, [n(5 * k, 4), n(5 * k, 5), n(5 * k), n(5 * k)], True, 1, 0.0, False, False, False)  # noqa: E731
SAME = ("adaptive_avg_pool1d avg_pool1d bilinear celu channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d "
  "cosine_similarity group_norm hardshrink layer_norm max_pool1d max_pool2d max_pool3d pairwise_distance pixel_shuffle pixel_unshuffle prelu rms_norm rrelu selu threshold "
  "native_channel_shuffle max_pool1d_with_indices pdist").split()  # fmt: skip
CASES += [(name, *args, kwargs) for name, args, kwargs in CALLS if name in SAME and "return_indices" not in kwargs] + [
    *(("adaptive_max_pool1d", n(2, 3, 7), k) for k in (2, 3)), *((name, n(2, 4, 3, 3), p, True) for name in "dropout alpha_dropout feature_alpha_dropout feature_dropout".split() for p in (0.0, 0.4)), *(("batch_norm", n(4, 3), n(3), n(3), fixed(n(3)), fixed(np.abs(n(3))), how, 0.1, 1e-5, False) for how in (True, False)), *(("instance_norm", n(2, 3, 4), n(3), n(3), None, None, True, 0.1, e, False) for e in (1e-5, 0.1)),
    *(("binary_cross_entropy_with_logits", X, Q, w, None, r) for w, r in ((None, 1), (fixed(Y), 2))), *(("kl_div", X, P, r) for r in (0, 2)), ("kl_div", X, Y, 1, {"log_target": True}), *(("hinge_embedding_loss", X, np.sign(Y), 0.7, r) for r in (0, 1)), *(("margin_ranking_loss", X, Y, np.sign(n(3, 4)), 0.1, r) for r in (1, 2)), *(("cosine_embedding_loss", X, Y, np.array([1, -1, 1]), 0.1, r) for r in (0, 2)), *(("poisson_nll_loss", X, P, True, f, 1e-8, 1) for f in (True, False)), *(("triplet_margin_loss", X, Y, n(3, 4), 1.0, p) for p in (1.0, 2.0)),
    *(("constant_pad_nd", X, pad, 2.0) for pad in ((1, 2), (0, 1, 1, 0))), *(("embedding", n(5, 3), _LONG, k) for k in (-1, 1)), *(("embedding_bag", n(5, 3), np.array([1, 2, 0, 3, 0]), np.array([0, 2, 2]), False, m) for m in (0, 1, 2)), *((f"grid_sampler{d}", n(2, 3, 4, 7), GRID, 0, p, True) for d in ("", "_2d") for p in (0, 1)), *(("grid_sampler_3d", n(1, 2, 3, 4, 3), rng.uniform(-1.2, 1.2, (1, 2, 3, 2, 3)), m, 0, True) for m in (0, 1)), *(("affine_grid_generator", n(2, 2, 3), [2, 1, 3, 3], a) for a in (True, False)),
    *(("convolution", n(1, 2, 5), n(2, 3, 2) if t else n(3, 2, 2), n(3), [1], [0], [1], t, [0], 1) for t in (False, True)), *((name, *_CELL(k)) for k, name in ((3, "gru_cell"), (1, "rnn_tanh_cell"), (1, "rnn_relu_cell")) for _ in "12"), *(("lstm_cell", x, [h, n(3, 5)], *rest) for x, h, *rest in (_CELL(4), _CELL(4))), *((name, *_RNN(k, n(1, 2, 5))) for k, name in ((3, "gru"), (1, "rnn_tanh"), (1, "rnn_relu")) for _ in "12"), *(("lstm", *_RNN(4, [n(1, 2, 5), n(1, 2, 5)])) for _ in "12"), *(("ctc_loss", lambda t, x, *a: t.ctc_loss(x.log_softmax(-1), *a), n(6, 2, 5), np.array([[1, 2, 2], [3, 4, 0]]), [6, 5], [3, 2], 0, r) for r in (0, 2)),
]  # fmt: skip
