"""How `explain` shows a value: in a few characters, or in full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrace import errors
from functrace.core.tracer import bare
from functrace.debug.watch import plain
from functrace.transforms.tracing import FEW, numbers_text

_BARS = " ▁▂▃▄▅▆▇█"
_SAMPLE = 1 << 14  # elements that a histogram looks at


def _odd(a: Any) -> str:
    """How many NaNs and infinities an array has, if any."""
    if a.dtype.kind not in "fc":
        return ""
    nans, infs = int(np.isnan(a).sum()), int(np.isinf(a).sum())
    return ", ".join(f"{n} {what}" for n, what in ((nans, "nan"), (infs, "inf")) if n)


def brief(x: Any) -> str:
    """A value in a few characters: its numbers if they are few, else shape, dtype, range, and how many are not finite."""
    a = plain(x)
    if a is None:
        return errors.describe(bare(x))
    if a.size <= FEW:
        return numbers_text(a)
    odd = _odd(a)
    if a.dtype.kind in "iuf":
        finite = a[np.isfinite(a)] if odd else a
        if finite.size:
            low, high = finite.min(), finite.max()
            spread = f", all {low:.4g}" if low == high and not odd else f" in [{low:.4g}, {high:.4g}]{' and ' + odd if odd else ''}"
            return errors.describe(a) + spread
    return f"{errors.describe(a)}{' with ' + odd if odd else ''}"


def full(x: Any) -> str:
    """A value on a few lines: all numbers of up to 48; of more their mean, spread and histogram."""
    a = plain(x)
    if a is None or a.size <= FEW and a.ndim < 2:
        return ""
    if a.size <= 48:
        return np.array2string(a, precision=4, separator=", ", max_line_width=90, suppress_small=True)
    if a.dtype.kind not in "iuf":
        return ""
    some = a.reshape(-1)[:: -(-a.size // _SAMPLE)]
    some = some[np.isfinite(some)].astype(float)
    low, high = some.min(initial=np.inf), some.max(initial=-np.inf)
    if not low < high:
        return ""
    counts = np.histogram(np.interp(some, (low, high), (0, 1)), 32, (0, 1))[0]  # of numbers that differ by rounding alone, too
    bars = "".join(_BARS[int(np.ceil(8 * n / counts.max()))] for n in counts)
    return f"mean {some.mean():.4g}, standard deviation {some.std():.4g}\n{low:.3g} {bars} {high:.3g}"


def several(xs: Any, how: Callable[[Any], str] = brief) -> str:
    """A value, or the values of a tuple of them, by `how`."""
    return ", ".join("-" if x is None else how(x) for x in xs) if isinstance(xs, (list, tuple)) else how(xs)
