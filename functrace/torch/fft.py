"""`torch.fft`: a binding table over `numpy.fft`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrace import value
from functrace.torch._bind import bind, bound
from functrace.torch._border import trimmed
from functrace.torch._contact import index_add
from functrace.torch._create import creates, numpy_dtype
from functrace.torch._missing import missing
from functrace.torch._tensor import Tensor

_OPPOSITE: dict[Any, Any] = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _one(fun: Callable[..., Any]) -> Callable[..., Any]:
    return lambda input, n=None, dim=-1, norm=None: fun(input, n, axis=dim, norm=norm)


def _many(fun: Callable[..., Any], default: Any = None) -> Callable[..., Any]:
    def function(input: Any, s: Any = None, dim: Any = default, norm: Any = None) -> Any:
        s, dim = ((k,) if isinstance(k, int) else k for k in (s, dim))
        axes = range(input.ndim - len(s) if s is not None else 0, input.ndim) if dim is None else dim
        return fun(input, s if s is None else tuple(s), axes=tuple(axes), norm=norm) if len(axes) else input + 0j

    return function


def _hfftn(x: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    return np.fft.irfftn(np.conjugate(x), s, axes=axes, norm=_OPPOSITE[norm])


def _ihfftn(x: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    return np.conjugate(np.fft.rfftn(x, s, axes=axes, norm=_OPPOSITE[norm]))


_NODES = {"": "FftC2C", "i": "FftC2C", "r": "FftR2C", "ir": "FftC2R", "h": "FftC2R", "ih": "Conj"}
_ALL: dict[str, Any] = {kind: getattr(np.fft, f"{kind}fftn", None) for kind in _NODES} | {"h": _hfftn, "ih": _ihfftn}
_space: dict[str, Any] = {}
_rows: dict[str, Any] = {f"{kind}fft": (node, _one(getattr(np.fft, f"{kind}fft"))) for kind, node in _NODES.items()}
_rows |= {f"{kind}fft2": (node, _many(_ALL[kind], (-2, -1))) for kind, node in _NODES.items()}
_rows |= {f"{kind}fftn": (node, _many(_ALL[kind])) for kind, node in _NODES.items()}
bind(_rows, space=_space, prefix="fft_", floating=True)


def _of_any(name: str) -> Callable[..., Any]:
    """A transform of complex numbers, by another node for real ones."""
    whole, real = _space[name], bound(f"fft_{name}", "FftR2C", _rows[name][1], floating=True)

    def function(input: Any, *args: Any, **named: Any) -> Any:
        is_real = isinstance(input, Tensor) and input._a.dtype.kind != "c"
        return (real if is_real else whole)(input, *args, **named)

    function.__name__ = function.__qualname__ = name
    return function


_space |= {name: _of_any(name) for name in ("fft", "ifft")}
bind(
    {
        "fftshift": ("Roll", lambda input, dim=None: np.fft.fftshift(input, dim)),
        "ifftshift": ("Roll", lambda input, dim=None: np.fft.ifftshift(input, dim)),
    },
    space=_space,
    prefix="fft_",
)


def _frequencies(fun: Callable[..., Any]) -> Callable[..., Any]:
    def function(n: int, d: float = 1.0, *, dtype: Any = None) -> Any:
        return fun(n, d).astype(numpy_dtype(dtype))

    return creates(function)


_space |= {"fftfreq": _frequencies(np.fft.fftfreq), "rfftfreq": _frequencies(np.fft.rfftfreq)}


def _windowed(n_fft: int, hop_length: Any, win_length: Any, window: Any, dtype: Any) -> tuple[int, Any]:
    size = win_length or n_fft
    w = np.ones(size, dtype) if window is None else window
    left = (n_fft - size) // 2
    return hop_length or n_fft // 4, np.pad(w, (left, n_fft - size - left))


def _stft(
    input: Any,
    n_fft: int,
    hop_length: Any = None,
    win_length: Any = None,
    window: Any = None,
    center: bool = True,
    pad_mode: Any = "reflect",
    normalized: bool = False,
    onesided: Any = None,
    return_complex: Any = None,
) -> Any:
    real = input.dtype.kind != "c"
    if return_complex is None and real:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and will further require that return_complex=True in a "
            "future PyTorch release."
        )
    hop, w = _windowed(n_fft, hop_length, win_length, window, input.real.dtype)
    x = np.pad(input, [(0, 0)] * (input.ndim - 1) + [(n_fft // 2, n_fft // 2)], pad_mode) if center else input
    frames = np.lib.stride_tricks.sliding_window_view(x, n_fft, -1)[..., ::hop, :] * w
    out = (np.fft.rfft if (real if onesided is None else onesided) else np.fft.fft)(frames, norm="ortho" if normalized else None)
    out = np.swapaxes(out, -1, -2)
    return out if return_complex or (return_complex is None and not real) else np.stack([out.real, out.imag], -1)


def _istft(
    input: Any,
    n_fft: int,
    hop_length: Any = None,
    win_length: Any = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: Any = None,
    length: Any = None,
    return_complex: bool = False,
) -> Any:
    hop, w = _windowed(n_fft, hop_length, win_length, window, input.real.dtype)
    whole = return_complex or onesided is False
    frames = (np.fft.ifft if whole else np.fft.irfft)(np.swapaxes(input, -1, -2), n_fft, norm="ortho" if normalized else None)
    frames = (frames if return_complex or not whole else frames.real) * w
    count = frames.shape[-2]
    places = hop * np.arange(count)[:, None] + np.arange(n_fft)
    size = n_fft + hop * (count - 1)
    total = index_add(np.zeros((*input.shape[:-2], size), frames.dtype), frames, (..., places))
    weight = index_add(np.zeros(size, frames.real.dtype), np.broadcast_to(w * w, places.shape), places)
    start = n_fft // 2 if center else 0
    stop = start + length if length is not None else size - start if center else size
    part = slice(start, min(stop, size))
    if np.any(np.abs(value(weight[part])) < 1e-11):
        raise RuntimeError("istft(...) window overlap add min: 1")
    out = total[..., part] / weight[part]
    return np.pad(out, [(0, 0)] * (out.ndim - 1) + [(0, stop - size)]) if stop > size else out


_SPECTRA: dict[str, Callable[..., Any]] = {}  # functions of `torch`, and methods: see `_moves`
bind({"stft": ("View", _stft), "istft": ("Div", _istft)}, space=_SPECTRA)
globals().update(_space)
globals().update(trimmed(globals()))
__getattr__ = missing("torch.fft")
