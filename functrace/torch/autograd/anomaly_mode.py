"""Anomaly detection: NaN in a gradient raises, and a failing backward names the line of its forward operation."""

from __future__ import annotations

import warnings

from functrace.torch._watch import anomaly, set_anomaly, watch

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class set_detect_anomaly:
    """Switch anomaly detection on or off, at once; as a context manager, until its end."""

    __module__ = "torch.autograd.anomaly_mode"

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.before = anomaly()
        _switch(check_nan if mode else None)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _switch(self.before)


def _switch(mode: bool | None) -> None:
    watch((mode is not None) - (anomaly() is not None))
    set_anomaly(mode)


class detect_anomaly(set_detect_anomaly):
    """While it lasts, NaN in a gradient raises RuntimeError, and the line of the forward operation is shown in a warning."""

    __module__ = "torch.autograd.anomaly_mode"

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        super().__init__(True, self.check_nan)


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on."""
    return anomaly() is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Whether it looks for NaN."""
    return anomaly() is not False
