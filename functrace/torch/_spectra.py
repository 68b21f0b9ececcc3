"""`torch.stft` and its inverse, imported when one of them is called: with NumPy's FFT, which most programs do not need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrace import value
from functrace.torch._bind import bind
from functrace.torch._contact import index_add


def _windowed(name: str, n_fft: int, hop_length: Any, win_length: Any, window: Any, dtype: Any) -> tuple[int, Any]:
    size = n_fft if win_length is None else win_length
    hop = n_fft // 4 if hop_length is None else hop_length
    _need(0 < size <= n_fft, name, f"0 < win_length <= n_fft, but got win_length={size}, n_fft={n_fft}")
    _need(hop > 0, name, f"hop_length > 0, but got hop_length={hop}")
    w = np.ones(size, dtype) if window is None else window
    got = f"but got window with size {list(w.shape)}"
    _need(w.shape == (size,), name, f"a 1D window tensor of size equal to win_length={size}, {got}")
    left = (n_fft - size) // 2
    return hop, np.pad(w, (left, n_fft - size - left))


def _need(holds: bool, name: str, what: str) -> None:
    if not holds:
        raise RuntimeError(f"{name}(...) : expected {what}")


_PADS: dict[str, Any] = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


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
    _need(input.ndim in (1, 2) and input.dtype.kind in "fc", "stft", "a 1D or 2D tensor of floating point or complex values")
    hop, w = _windowed("stft", n_fft, hop_length, win_length, window, input.real.dtype)
    n = input.shape[-1]
    fits = n_fft <= n if not center else n_fft // 2 < n or pad_mode in ("constant", "replicate")
    _need(fits, "stft", f"0 < n_fft < {n * (1 + center)}, but got n_fft={n_fft}")
    if pad_mode not in _PADS:
        raise NotImplementedError(f"Unrecognised padding mode {pad_mode}")
    x = np.pad(input, [(0, 0)] * (input.ndim - 1) + [(n_fft // 2, n_fft // 2)], _PADS[pad_mode]) if center else input
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
    if input.dtype.kind != "c":
        raise RuntimeError("istft requires a complex-valued input tensor matching the output from stft with return_complex=True.")
    _need(input.ndim in (2, 3), "istft", f"a tensor with 2 or 3 dimensions, but got {input.ndim}")
    hop, w = _windowed("istft", n_fft, hop_length, win_length, window, input.real.dtype)
    whole = return_complex or onesided is False
    rows = n_fft if whole else n_fft // 2 + 1
    _need(
        input.shape[-2] in (rows, n_fft if onesided is None else rows),
        "istft",
        f"the frequency dimension of the input tensor to be {rows}, but got {input.shape[-2]}",
    )
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


_space: dict[str, Callable[..., Any]] = {}
bind({"stft": ("View", _stft), "istft": ("Div", _istft)}, space=_space)
globals().update(_space)
