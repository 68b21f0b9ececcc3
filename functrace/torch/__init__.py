"""PyTorch's API over functrace: `import functrace.torch as torch`, or `python -m functrace.torch script.py`.

Tensors are NumPy arrays that remember how they were made; `backward` runs the pullbacks that `functrace.vjp` gives. Values,
dtypes, printing, error texts and random numbers are PyTorch's. What many scripts do not need is imported when it is used.
"""

from __future__ import annotations

import sys as _sys
from typing import Any as _Any

from functrace.torch import _attributes as _attributes
from functrace.torch import _backward as _backward
from functrace.torch import _create as _create
from functrace.torch import _device as _device
from functrace.torch import _draws as _draws
from functrace.torch import _dtypes as _dtypes
from functrace.torch import _format as _format
from functrace.torch import _importer as _importer
from functrace.torch import _info as _info
from functrace.torch import _modes as _modes
from functrace.torch import _ops as _ops
from functrace.torch import _random as _random
from functrace.torch import autograd as autograd
from functrace.torch._border import trim_methods as _trim_methods
from functrace.torch._border import trimmed as _trimmed
from functrace.torch._missing import FOREACH as _FOREACH
from functrace.torch._missing import missing as _missing
from functrace.torch._missing import names as _names
from functrace.torch._tensor import Tensor as Tensor

__version__ = "2.13.0+functrace"
pi, e, inf, nan, newaxis = 3.141592653589793, 2.718281828459045, float("inf"), float("nan"), None

_LISTED = {
    _attributes: "from_dlpack",
    _dtypes: "Size can_cast channels_last contiguous_format device dtype get_default_dtype layout memory_format "
    "preserve_format promote_types result_type set_default_dtype strided",
    _format: "set_printoptions",
    _info: "finfo iinfo",
    _modes: "enable_grad inference_mode is_grad_enabled is_inference_mode_enabled no_grad set_grad_enabled",
    _random: "Generator default_generator get_rng_state initial_seed manual_seed seed set_rng_state",
}
for _module, _found in _LISTED.items():
    globals().update({_name: getattr(_module, _name) for _name in _found.split()})
globals().update(_dtypes.NAMES | _dtypes.NAMED | _dtypes.LAYOUTS)
globals().update(_device.ALL)
globals().update(_create.LEGACY)
globals().update({name: f for name, f in _ops.FUNCTIONS.items() if not name.startswith("_")})
globals().update(_trimmed(globals()))
for _f in _ops.FUNCTIONS.values():
    if _f.__module__ in ("functrace.torch._apply", "functrace.torch._bind"):
        _f.__module__ = __name__  # where pickle finds it
_trim_methods(Tensor)


def is_tensor(obj: _Any) -> bool:
    """Whether an object is a tensor."""
    return isinstance(obj, Tensor)


def install() -> None:
    """Let `import torch` find this module from now on: `python -m functrace.torch script.py` does it for a script.

    Raises:
        RuntimeError: PyTorch itself is imported already.

    >>> import subprocess, sys
    >>> code = "import functrace.torch; functrace.torch.install(); import torch; print(torch.ones(2))"
    >>> print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout, end="")
    tensor([1., 1.])
    """
    _importer.install(_sys.modules[__name__])


_LAZY = _names(
    func="vmap",
    _serialization="save load",
    _compile="compile compiler _dynamo",
    nn="",
    optim="",
    linalg="",
    fft="",
    special="",
    quasirandom="",
    types="",
    utils="",
    storage="is_storage UntypedStorage TypedStorage",
    amp="autocast is_autocast_enabled",
    jit="ScriptModule ScriptFunction",
    library="ops Tag",
    overrides="_C",
    testing="",
    distributions="",
    _rare="""
        embedding constant_pad_nd batch_norm instance_norm binary_cross_entropy_with_logits kl_div hinge_embedding_loss
        cosine_embedding_loss margin_ranking_loss poisson_nll_loss triplet_margin_loss grid_sampler grid_sampler_2d affine_grid_generator
        adaptive_max_pool1d dropout alpha_dropout feature_dropout feature_alpha_dropout norm_except_dim slice_copy ormqr
        grid_sampler_3d ctc_loss nuclear_norm frobenius_norm lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell svd_lowrank pca_lowrank typename
        set_default_tensor_type alias_copy as_strided_copy detach_copy diagonal_copy expand_copy permute_copy select_copy split_copy
        split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy unfold_copy unsqueeze_copy view_as_complex_copy
        view_as_real_copy view_copy functional
    """,
)
_LAZY.update(return_types="_dtypes", serialization="_serialization", random="_random")
_LAZY.update(dict.fromkeys(("_foreach_" + name for name in _FOREACH), "_rare"))
_LAZY.update(_standard_gamma="distributions.continuous", _vmap_internals="func", _tensor_str="_format", _utils="nn.utils")
_LAZY.update(dict.fromkeys(("is_anomaly_enabled", "is_anomaly_check_nan_enabled"), "_watch"))
_IN_FUNCTIONAL = """
    adaptive_avg_pool1d avg_pool1d bilinear celu celu_ channel_shuffle conv1d conv2d conv3d conv_tbc
    conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity group_norm hardshrink layer_norm
    max_pool1d max_pool2d max_pool3d pairwise_distance pixel_shuffle pixel_unshuffle prelu rms_norm rrelu rrelu_ selu selu_ threshold
    threshold_ max_pool1d_with_indices native_channel_shuffle
"""
_LAZY.update(dict.fromkeys(_IN_FUNCTIONAL.split(), "nn.functional"))
torch = _sys.modules[__name__]  # as PyTorch has it
__getattr__ = _missing("torch", _LAZY)


def __dir__() -> list[str]:
    return sorted(name for name in (*globals(), *_LAZY) if not name.startswith("_"))
