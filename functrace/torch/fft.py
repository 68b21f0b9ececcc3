"""`torch.fft`: a binding table over `numpy.fft`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch._bind import bind, bound
from functrace.torch._border import trimmed
from functrace.torch._create import fills
from functrace.torch._dtypes import numpy_dtype
from functrace.torch._layout import in_order
from functrace.torch._missing import missing
from functrace.torch._tensor import Tensor

_OPPOSITE: dict[Any, Any] = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _one(fun: Callable[..., Any]) -> Callable[..., Any]:
    return lambda input, n=None, dim=-1, norm=None: fun(input, n, axis=dim, norm=norm)


def _many(fun: Callable[..., Any], default: Any = None) -> Callable[..., Any]:
    def function(input: Any, s: Any = None, dim: Any = default, norm: Any = None) -> Any:
        axes = range(input.ndim - len(s) if s is not None else 0, input.ndim) if dim is None else dim
        return fun(input, s if s is None else tuple(s), axes=tuple(axes), norm=norm)

    return function


_NODES = {"": "FftC2C", "i": "FftC2C", "r": "FftR2C", "ir": "FftC2R", "h": "FftC2R", "ih": "Conj"}
_ALL: dict[str, Any] = {kind: getattr(np.fft, f"{kind}fftn", None) for kind in _NODES} | {
    "h": lambda x, s, axes, norm: np.fft.irfftn(np.conjugate(x), s, axes=axes, norm=_OPPOSITE[norm]),
    "ih": lambda x, s, axes, norm: np.conjugate(np.fft.rfftn(x, s, axes=axes, norm=_OPPOSITE[norm])),
}
_space: dict[str, Any] = {}
_rows: dict[str, Any] = {f"{kind}fft": (node, _one(getattr(np.fft, f"{kind}fft"))) for kind, node in _NODES.items()}
_rows |= {f"{kind}fft2": (node, _many(_ALL[kind], (-2, -1))) for kind, node in _NODES.items()}
_rows |= {f"{kind}fftn": (node, _many(_ALL[kind])) for kind, node in _NODES.items()}
bind(_rows, space=_space, prefix="fft_", floating=True, lies=in_order)


def _of_any(name: str) -> Callable[..., Any]:
    """A transform of complex numbers, by another node for real ones."""
    whole, real = _space[name], bound(f"fft_{name}", "Conj" if name[0] == "i" else "FftR2C", _rows[name][1], floating=True, lies=in_order)

    def function(input: Any, *args: Any, **named: Any) -> Any:
        is_real = isinstance(input, Tensor) and input._a.dtype.kind != "c"
        return (real if is_real else whole)(input, *args, **named)

    function.__name__ = function.__qualname__ = name
    return function


def _of_some(name: str, kind: str, default: Any = None) -> Callable[..., Any]:
    """A transform along several axes, which may be none where results are complex: elsewhere no dim means all."""
    whole = _space[name]

    def function(input: Any, s: Any = None, dim: Any = default, *args: Any, **named: Any) -> Any:
        sizes, dims = ((k,) if isinstance(k, int) else k for k in (s, dim))
        if sizes is not None and dims is not None and len(sizes) != len(dims):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        if not (input.dim() if sizes is dims is None else len(sizes if dims is None else dims)):
            if kind not in ("", "i"):
                raise RuntimeError(f"{kind}fftn must transform at least one axis")
            return input + 0j
        return whole(input, sizes, dims, *args, **named)

    function.__name__ = function.__qualname__ = name
    return function


_space |= {name: _of_any(name) for name in ("fft", "ifft")}
_space |= {f"{kind}fft2": _of_some(f"{kind}fft2", kind, (-2, -1)) for kind in _NODES}
_space |= {f"{kind}fftn": _of_some(f"{kind}fftn", kind) for kind in _NODES}
bind(
    {
        "fftshift": ("Roll", lambda input, dim=None: np.fft.fftshift(input, dim)),
        "ifftshift": ("Roll", lambda input, dim=None: np.fft.ifftshift(input, dim)),
    },
    space=_space,
    prefix="fft_",
    frees=False,
    lies=in_order,
)


def _frequencies(fun: Callable[..., Any]) -> Callable[..., Any]:
    def function(n: int, d: float = 1.0, *, dtype: Any = None) -> Any:
        return fun(n, d).astype(numpy_dtype(dtype))

    return fills(function)


_space |= {"fftfreq": _frequencies(np.fft.fftfreq), "rfftfreq": _frequencies(np.fft.rfftfreq)}


globals().update(_space)
globals().update(trimmed(globals()))
__getattr__ = missing("torch.fft")
