"""Modules that hold a function of `functional` and its options, and those with parameters of their own.

The first kind is a table: a row names the function, and the options with their defaults. What is printed follows from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrace.torch._missing import REQUIRED, init_from_options, own_init
from functrace.torch._tensor import Tensor
from functrace.torch.nn import functional
from functrace.torch.nn._losses import checked
from functrace.torch.nn._norms import check_p
from functrace.torch.nn.module import Module

F: Any = functional
TABLE: dict[str, type[Module]] = {}


def titled(name: str, where: str, base: type[Module], attributes: dict[str, Any]) -> None:
    """Enter a class in the table under PyTorch's name and module, which Python's complaints about arguments shall have too."""
    TABLE[name] = type(name, (base,), {"__module__": f"torch.nn.modules.{where}", **attributes})
    own_init(TABLE[name])


class _Function(Module):
    """A function with its options as attributes."""

    _option_defaults: dict[str, Any] = {}
    _shown_options: Any = None  # the options that are printed by name, or a format
    _layer_function: Any
    _passed_options: Sequence[str] = ()
    _buffered_options: Sequence[str] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "_option_defaults" in cls.__dict__:
            init_from_options(cls, cls._option_defaults, _Function._take_options)

    def _take_options(self, given: dict[str, Any]) -> None:
        super().__init__()
        for name, value in given.items():
            if name in self._buffered_options:
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)
        self._set_up_options()

    def _set_up_options(self) -> None:
        """Checks, and what follows from the options."""

    def forward(self, *inputs: Any, **named: Any) -> Any:
        return self._layer_function(*inputs, **named, **{k: getattr(self, k) for k in self._passed_options})

    def extra_repr(self) -> str:
        if isinstance(self._shown_options, str):
            return self._shown_options.format(**{k: getattr(self, k) for k in self._option_defaults})
        names = self._passed_options if self._shown_options is None else self._shown_options
        return ", ".join(f"{k}={getattr(self, k)}" for k in names if k != "inplace" or self.inplace or "Dropout" in type(self).__name__)


def _rows(where: str, base: type[Module], rows: dict[str, Any]) -> None:
    for name, (function, options, *rest) in rows.items():
        shown = rest[0] if rest else None
        passed = tuple(options) if len(rest) < 2 else rest[1]
        fun = getattr(functional, function) if isinstance(function, str) else function
        titled(
            name,
            where,
            base,
            {"_option_defaults": options, "_layer_function": staticmethod(fun), "_passed_options": passed, "_shown_options": shown},
        )


def _softmax2d(input: Any) -> Any:
    if input.ndim not in (3, 4):
        raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
    return F.softmax(input, -3)


_IN = {"inplace": False}
_rows(
    "activation",
    _Function,
    {
        "ReLU": ("relu", _IN),
        "ReLU6": ("relu6", _IN),
        "LeakyReLU": ("leaky_relu", {"negative_slope": 1e-2, **_IN}),
        "ELU": ("elu", {"alpha": 1.0, **_IN}),
        "CELU": ("celu", {"alpha": 1.0, **_IN}),
        "SELU": ("selu", _IN),
        "GELU": ("gelu", {"approximate": "none"}, "approximate={approximate!r}"),
        "SiLU": ("silu", _IN),
        "Mish": ("mish", _IN),
        "Sigmoid": ("sigmoid", {}),
        "Tanh": ("tanh", {}),
        "LogSigmoid": ("logsigmoid", {}),
        "Softplus": ("softplus", {"beta": 1.0, "threshold": 20.0}),
        "Softsign": ("softsign", {}),
        "Softshrink": ("softshrink", {"lambd": 0.5}, "{lambd}"),
        "Hardshrink": ("hardshrink", {"lambd": 0.5}, "{lambd}"),
        "Tanhshrink": ("tanhshrink", {}),
        "Hardsigmoid": ("hardsigmoid", _IN, ()),
        "Hardswish": ("hardswish", _IN, ()),
        "Threshold": ("threshold", {"threshold": REQUIRED, "value": REQUIRED, **_IN}),
        "GLU": ("glu", {"dim": -1}),
        "Softmax": ("softmax", {"dim": None}),
        "Softmin": ("softmin", {"dim": None}),
        "LogSoftmax": ("log_softmax", {"dim": None}),
        "Softmax2d": (_softmax2d, {}),
    },
)


class _Bounded(_Function):
    def _set_up_options(self) -> None:
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")


_rows("activation", _Bounded, {"Hardtanh": ("hardtanh", {"min_val": -1.0, "max_val": 1.0, **_IN})})


class _Training(_Function):
    """A function that is told whether the module is in training."""

    def forward(self, *inputs: Any, **named: Any) -> Any:
        return self._layer_function(*inputs, **named, training=self.training, **{k: getattr(self, k) for k in self._passed_options})

    def _set_up_options(self) -> None:
        check_p(getattr(self, "p", 0))


_P = {"p": 0.5, "inplace": False}
_rows(
    "dropout",
    _Training,
    {
        "Dropout": ("dropout", _P),
        "Dropout1d": ("dropout1d", _P),
        "Dropout2d": ("dropout2d", _P),
        "Dropout3d": ("dropout3d", _P),
        "AlphaDropout": ("alpha_dropout", _P),
        "FeatureAlphaDropout": ("feature_alpha_dropout", _P),
        "RReLU": ("rrelu", {"lower": 1.0 / 8, "upper": 1.0 / 3, **_IN}),
    },
)
_POOL = {"kernel_size": REQUIRED, "stride": None, "padding": 0}
_MAX = {**_POOL, "dilation": 1, "return_indices": False, "ceil_mode": False}
_AVG = {**_POOL, "ceil_mode": False, "count_include_pad": True}
_SEEN = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")


class _Pool(_Function):
    stride: Any

    def _set_up_options(self) -> None:
        self.stride = self.kernel_size if self.stride is None else self.stride
        name = type(self).__name__
        if name == "AvgPool1d" or "Unpool" in name:
            for option in ("kernel_size", "stride", "padding"):
                size = getattr(self, option)
                setattr(self, option, (size,) * int(name[-2]) if isinstance(size, int) else size)


class _Unpool(_Pool):
    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        return self._layer_function(input, indices, self.kernel_size, self.stride, self.padding, output_size)


for _d in (1, 2, 3):
    _divisor: dict[str, Any] = {"divisor_override": None} if _d > 1 else {}
    _rows(
        "pooling",
        _Pool,
        {
            f"MaxPool{_d}d": (f"max_pool{_d}d", _MAX, _SEEN),
            f"AvgPool{_d}d": (f"avg_pool{_d}d", {**_AVG, **_divisor}, _SEEN[:3]),
        },
    )
    _rows("pooling", _Unpool, {f"MaxUnpool{_d}d": (f"max_unpool{_d}d", _POOL)})
    _rows(
        "pooling",
        _Function,
        {
            f"AdaptiveAvgPool{_d}d": (f"adaptive_avg_pool{_d}d", {"output_size": REQUIRED}),
            f"AdaptiveMaxPool{_d}d": (f"adaptive_max_pool{_d}d", {"output_size": REQUIRED, "return_indices": False}, ("output_size",)),
            f"LPPool{_d}d": (f"lp_pool{_d}d", {"norm_type": REQUIRED, "kernel_size": REQUIRED, "stride": None, "ceil_mode": False}),
        },
    )


class _Fractional(_Function):
    output_ratio: Any

    def _set_up_options(self) -> None:
        name = type(self).__name__
        if self.output_size is None and self.output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if self.output_size is not None and self.output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None:
            ratios = self.output_ratio if isinstance(self.output_ratio, (tuple, list)) else (self.output_ratio,) * int(name[-2])
            if not all(0 < r < 1 for r in ratios):
                raise ValueError(f"output_ratio must be between 0 and 1 (got {self.output_ratio})")
            self.output_ratio = ratios


_FRACTION = {"kernel_size": REQUIRED, "output_size": None, "output_ratio": None, "return_indices": False, "_random_samples": None}
_rows("pooling", _Fractional, {f"FractionalMaxPool{_d}d": (f"fractional_max_pool{_d}d", _FRACTION, ()) for _d in (2, 3)})


class _Pad(_Function):
    padding: Any

    def _set_up_options(self) -> None:
        if isinstance(self.padding, int):
            self.padding = (self.padding,) * (2 * int(type(self).__name__[-2]))
        self.padding = tuple(self.padding)


for _d in (1, 2, 3):
    for _name, _mode in (("Reflection", "reflect"), ("Replication", "replicate"), ("Circular", "circular"), ("Zero", "constant")):
        _f: Any = lambda input, padding, _mode=_mode: F.pad(input, padding, _mode)
        _rows("padding", _Pad, {f"{_name}Pad{_d}d": (_f, {"padding": REQUIRED}, "{padding}")})
    _f = lambda input, padding, value: F.pad(input, padding, "constant", value)
    _rows("padding", _Pad, {f"ConstantPad{_d}d": (_f, {"padding": REQUIRED, "value": REQUIRED})})


_OLD = {"size_average": None, "reduce": None, "reduction": "mean"}


class _Loss(_Function):
    """A loss; its weights are buffers."""

    reduction: Any
    size_average: Any
    reduce: Any

    _option_defaults = _OLD
    _buffered_options = ("weight", "pos_weight")

    def _set_up_options(self) -> None:
        if getattr(self, "size_average", None) is not None or getattr(self, "reduce", None) is not None:
            self.reduction = checked(self.reduction, self.size_average, self.reduce)
            self.size_average = self.reduce = None


class _WeightedLoss(_Loss):
    """A loss, to derive from, that has weights."""

    _option_defaults = {"weight": None, **_OLD}


_W = {"weight": None, "size_average": None}
_LOSSES: dict[str, Any] = {
    "L1Loss": ("l1_loss", _OLD),
    "MSELoss": ("mse_loss", _OLD),
    "NLLLoss": ("nll_loss", {**_W, "ignore_index": -100, "reduce": None, "reduction": "mean"}),
    "CrossEntropyLoss": ("cross_entropy", {**_W, "ignore_index": -100, "reduce": None, "reduction": "mean", "label_smoothing": 0.0}),
    "BCELoss": ("binary_cross_entropy", {**_W, "reduce": None, "reduction": "mean"}),
    "BCEWithLogitsLoss": ("binary_cross_entropy_with_logits", {**_W, "reduce": None, "reduction": "mean", "pos_weight": None}),
    "KLDivLoss": ("kl_div", {**_OLD, "log_target": False}),
    "HuberLoss": ("huber_loss", {"reduction": "mean", "delta": 1.0}),
    "SmoothL1Loss": ("smooth_l1_loss", {**_OLD, "beta": 1.0}),
    "PoissonNLLLoss": (
        "poisson_nll_loss",
        {"log_input": True, "full": False, "size_average": None, "eps": 1e-8, "reduce": None, "reduction": "mean"},
    ),
    "GaussianNLLLoss": ("gaussian_nll_loss", {"full": False, "eps": 1e-6, "reduction": "mean"}),
    "CosineEmbeddingLoss": ("cosine_embedding_loss", {"margin": 0.0, **_OLD}),
    "MarginRankingLoss": ("margin_ranking_loss", {"margin": 0.0, **_OLD}),
    "HingeEmbeddingLoss": ("hinge_embedding_loss", {"margin": 1.0, **_OLD}),
    "TripletMarginLoss": ("triplet_margin_loss", {"margin": 1.0, "p": 2.0, "eps": 1e-6, "swap": False, **_OLD}),
    "TripletMarginWithDistanceLoss": (
        "triplet_margin_with_distance_loss",
        {"distance_function": None, "margin": 1.0, "swap": False, "reduction": "mean"},
    ),
    "SoftMarginLoss": ("soft_margin_loss", _OLD),
    "MultiLabelMarginLoss": ("multilabel_margin_loss", _OLD),
    "MultiLabelSoftMarginLoss": ("multilabel_soft_margin_loss", {"weight": None, **_OLD}),
    "CTCLoss": ("ctc_loss", {"blank": 0, "reduction": "mean", "zero_infinity": False}),
    "MultiMarginLoss": ("multi_margin_loss", {"p": 1, "margin": 1.0, "weight": None, **_OLD}),
}
_rows("loss", _Loss, {name: (function, options, ()) for name, (function, options) in _LOSSES.items()})
_rows(
    "distance",
    _Function,
    {
        "CosineSimilarity": ("cosine_similarity", {"dim": 1, "eps": 1e-8}, ()),
        "PairwiseDistance": ("pairwise_distance", {"p": 2.0, "eps": 1e-6, "keepdim": False}, ()),
    },
)
_rows("pixelshuffle", _Function, {"PixelShuffle": ("pixel_shuffle", {"upscale_factor": REQUIRED})})
_rows("pixelshuffle", _Function, {"PixelUnshuffle": ("pixel_unshuffle", {"downscale_factor": REQUIRED})})
_rows("channelshuffle", _Function, {"ChannelShuffle": ("channel_shuffle", {"groups": REQUIRED})})
_SIZED = {"size": REQUIRED, "alpha": 1e-4, "beta": 0.75, "k": 1.0}, "{size}, alpha={alpha}, beta={beta}, k={k}"
_rows("normalization", _Function, {"LocalResponseNorm": ("local_response_norm", *_SIZED)})
_FOLD = {"kernel_size": REQUIRED, "dilation": 1, "padding": 0, "stride": 1}
_rows("fold", _Function, {"Unfold": ("unfold", _FOLD), "Fold": ("fold", {"output_size": REQUIRED, **_FOLD})})
_f = lambda input, dim, unflattened_size: input.unflatten(dim, unflattened_size)
_rows("flatten", _Function, {"Unflatten": (_f, {"dim": REQUIRED, "unflattened_size": REQUIRED})})
_rows("flatten", _Function, {"Flatten": (Tensor.flatten, {"start_dim": 1, "end_dim": -1})})
_UP = {"size": None, "scale_factor": None, "mode": "nearest", "align_corners": None, "recompute_scale_factor": None}


class _Upsample(_Function):
    scale_factor: Any

    def _set_up_options(self) -> None:
        if type(self).__name__ == "UpsamplingBilinear2d":
            self.mode, self.align_corners = "bilinear", True
        factor = self.scale_factor
        if factor is not None:
            self.scale_factor = tuple(map(float, factor)) if isinstance(factor, tuple) else float(factor)

    def extra_repr(self) -> str:
        name = "size" if self.scale_factor is None else "scale_factor"
        return f"{name}={getattr(self, name)}, mode={self.mode!r}"


_rows("upsampling", _Upsample, dict.fromkeys(("Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d"), ("interpolate", _UP)))
