"""Small functions that a NumPy user writes for himself, for any library that has NumPy's API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def logsumexp_of(np: Any) -> Callable[..., Any]:
    """`logsumexp(x, axis)` in terms of the given `numpy`."""

    def logsumexp(x: Any, axis: int = -1) -> Any:
        top = np.max(x, axis=axis, keepdims=True)
        return np.log(np.sum(np.exp(x - top), axis=axis)) + np.squeeze(top, axis)

    return logsumexp
