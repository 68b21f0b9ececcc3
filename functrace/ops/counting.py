"""Counts: `bincount` and `histogram`."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.core.tracer import Tracer, value
from functrace.ops.constants import constant_op
from functrace.ops.create import cast, lift
from functrace.ops.functions import reshape
from functrace.ops.index import HOLE, index_add, kept, scatter
from functrace.ops.registry import Sample, implements, one


@implements(np.bincount, [Sample(lambda rng: (np.array([0, 2, 2, 1]), rng.normal(size=4)), {"minlength": n}, (1,)) for n in (0, 5)])
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    """`np.bincount`; the weights may be traced, and the positions plain."""
    x, minlength = lift(x), int(minlength)
    if x.dtype.kind not in "biu":
        raise TypeError(f"Cannot cast array data from {x.dtype!r} to dtype('int64') according to the rule 'safe'")
    if x.ndim != 1 or minlength < 0 or not np.all(x >= 0):
        np.bincount(np.full(x.shape, -1), minlength=minlength)  # which says what is wrong
    weights = np.ones(x.shape, np.intp) if weights is None else cast(lift(weights), np.float64, "safe")
    if x.shape != weights.shape:
        raise ValueError("The weights and list don't have the same length.")
    n = minlength if np.all(x < minlength) else int(np.max(x)) + 1
    return scatter(weights, x, params=((HOLE,), (n,))) if isinstance(x, Tracer) else index_add(np.zeros(n, weights.dtype), weights, kept(x))


@implements(
    np.histogram,
    [
        one(6, bins=np.array([-1.0, 0.0, 1.0])),
        Sample(lambda rng: (np.array([0.0, 3.9, 1.7, 0.5, 2.2, 3.1]) + 0.05 * rng.normal(size=6),), {"bins": 3}),
        one(6, bins=3, range=(-1.0, 1.0), density=True),
        Sample(lambda rng: (rng.normal(size=6), 3, (-2.0, 2.0), None, rng.normal(size=6)), wrt=(0, 4)),
    ],
)
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """`np.histogram`: counts are constant in `a`, linear in `weights`; edges found from the data move with its extremes."""
    a, shape = reshape(lift(a), -1), np.shape(a)
    edges = _edges(a, bins, range)
    if weights is None:
        counts = _counts(a, edges)
    else:
        if np.shape(weights) != shape:
            raise ValueError("weights should have the same shape as a.")
        weights, last = reshape(lift(weights), -1), edges.shape[0] - 2
        k = np.where(a == edges[-1], last, np.searchsorted(edges, a, side="right") - 1)
        weights = np.where((k >= 0) & (k <= last), weights, np.zeros((), weights.dtype))
        counts = scatter(weights, np.minimum(np.maximum(k, 0), last), params=((HOLE,), (last + 1,)))
    if density:
        return counts / np.diff(edges).astype(float) / np.sum(counts), edges
    return counts, edges


_counts = constant_op("histogram", lambda a, edges: np.histogram(a, edges)[0])


def _edges(a: Any, bins: Any, range: Any) -> Any:
    bins = lift(bins) if isinstance(bins, (list, tuple)) else bins
    if isinstance(bins, str):
        return np.histogram_bin_edges(a, bins, range)
    if np.ndim(bins) == 1:
        if np.any(value(bins[:-1] > bins[1:])):
            raise ValueError("`bins` must increase monotonically, when an array")
        return bins
    if not isinstance(bins, (int, np.integer)) or bins < 1 or range is not None or not a.size:
        return np.histogram_bin_edges(value(a), bins, range)
    low, high = np.min(a), np.max(a)
    if not np.all(value(np.isfinite(low) & np.isfinite(high))):
        raise ValueError(f"autodetected range of [{low}, {high}] is not finite")
    flat = low == high  # asked of each example of a batch
    if np.any(value(flat)):
        low, high = np.where(flat, low - 0.5, low), np.where(flat, high + 0.5, high)
    return np.linspace(low, high, int(bins) + 1, dtype=a.dtype if a.dtype.kind in "fc" else np.float64)
