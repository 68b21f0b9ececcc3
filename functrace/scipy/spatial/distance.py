"""SciPy's `spatial.distance`: distances of vectors, of all pairs of rows, and between the rows of two matrices.

A metric is written once, for the last axis of two arrays that broadcast; `cdist` and `pdist` follow. Where two vectors are equal the
derivative of a distance that has a kink there is zero.

>>> import functrace as ft, numpy as np
>>> from functrace.scipy.spatial import distance
>>> ft.grad(distance.euclidean)(np.array([3.0, 4.0]), np.zeros(2))
array([0.6, 0.8])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.spatial.distance as _scipy
import scipy.special as sp

from functrace import errors
from functrace.core.tracer import Tracer
from functrace.ops.create import lift
from functrace.ops.functions import refuse
from functrace.ops.norms import norm
from functrace.ops.registry import Sample, apart, one
from functrace.ops.statistics import as_float
from functrace.places import user_line
from functrace.scipy._shared import by_name, declarer, late, real, root, with_axes

_declared = declarer(_scipy)
Metric = Callable[..., Any]
METRICS: dict[str, Metric] = {}
_W = np.array([0.5, 1.0, 2.0])
_V = np.array([[1.0, 0.2, 0.1], [0.2, 0.8, 0.0], [0.1, 0.0, 1.5]])


def _rows(rng: Any, *shapes: tuple[int, ...]) -> tuple[Any, ...]:
    """Arrays whose elements are far from equal, and from zero."""
    return tuple(rng.uniform(0.4, 0.8, size=s) * rng.choice([-1, 1], size=s) + 2.5 * k for k, s in enumerate(shapes))


def _crossed(rng: Any) -> tuple[Any, ...]:
    """Vectors that stand nearly upright on each other."""
    return tuple(0.1 * rng.uniform(-1, 1, size=3) + np.array(v) for v in ([1.0, 0.3, -0.5], [0.4, -0.9, 0.6]))


_DOUBLE = np.asarray(_scipy.euclidean(*np.zeros((2, 1), np.float32))).dtype == float  # of float32, until SciPy 1.18


def _double(x: Any) -> Any:
    return lift(x).astype(float)


def _metric(*samples: Sample) -> Callable[[Metric], Metric]:
    """Declare a metric, of two vectors; `cdist` and `pdist` call it on arrays of them."""

    def enter(metric: Metric) -> Metric:
        name = metric.__name__
        METRICS[name] = metric

        def function(u: Any, v: Any, *args: Any, **kwargs: Any) -> Any:
            return metric(with_axes(as_float(u), 1), with_axes(as_float(v), 1), *args, **kwargs)

        return _declared(name, *samples)(function)

    return enter


def _vectors(*kwargs: dict[str, Any]) -> list[Sample]:
    return [Sample(lambda rng: _rows(rng, (3,), (3,)), kw, (0, 1)) for kw in ({}, *kwargs)]


def _weights(w: Any) -> Any:
    w = _double(w)
    if np.any(w < 0):
        raise ValueError(f"Input weights should be all non-negative\n  At {user_line()}.")
    return w


def _sum(terms: Any, w: Any) -> Any:
    return np.sum(terms if w is None else terms * _weights(w), axis=-1)


@_metric(*_vectors({"p": 3.0}, {"p": 1, "w": _W}, {"p": np.inf}))
def minkowski(u: Any, v: Any, p: Any = 2, w: Any = None) -> Any:
    if w is None and u.dtype == np.float32 and _DOUBLE and p == 2:
        u = _double(u)
    gap = u - v if w is None else (u - v) * (_weights(w) != 0 if p == np.inf else _weights(w) ** (1 / p))
    return norm(gap, p, -1)


@_metric(*_vectors({"w": _W}))
def euclidean(u: Any, v: Any, w: Any = None) -> Any:
    return METRICS["minkowski"](u, v, 2, w)


@_metric(*_vectors({"w": _W}))
def sqeuclidean(u: Any, v: Any, w: Any = None) -> Any:
    return _sum((u - v) ** 2, w)


@_metric(*_vectors({"w": _W}))
def cityblock(u: Any, v: Any, w: Any = None) -> Any:
    return _sum(np.abs(u - v), w)


@_metric(*_vectors())
def chebyshev(u: Any, v: Any, w: Any = None) -> Any:
    refuse("chebyshev", w=(w, None))
    return np.max(np.abs(u - v), axis=-1)


@_metric(*_vectors({"w": _W}))
def canberra(u: Any, v: Any, w: Any = None) -> Any:
    u, v = real(u, "canberra"), real(v, "canberra")
    size = np.abs(u) + np.abs(v)
    none = size == 0
    return _sum(np.where(none, 0.0, np.abs(u - v) / np.where(none, 1.0, size)), w)


@_metric(*_vectors({"w": _W}))
def braycurtis(u: Any, v: Any, w: Any = None) -> Any:
    u, v = real(u, "braycurtis"), real(v, "braycurtis")
    return _sum(np.abs(u - v), w) / _sum(np.abs(u + v), w)


@_metric(*(Sample(_crossed, kw, (0, 1)) for kw in ({}, {"w": _W}, {"centered": False})))
def correlation(u: Any, v: Any, w: Any = None, centered: bool = True) -> Any:
    w = None if w is None else _weights(w) / np.sum(_double(w))
    if centered:
        u, v = (x - (np.mean(x, axis=-1) if w is None else _sum(x, w))[..., None] for x in (u, v))
    return 1 - _sum(u * v, w) / np.sqrt(_sum(u * u, w) * _sum(v * v, w))


@_metric(*(Sample(_crossed, kw, (0, 1)) for kw in ({}, {"w": _W})))
def cosine(u: Any, v: Any, w: Any = None) -> Any:
    return METRICS["correlation"](u, v, w, False)


@_metric(Sample(lambda rng: (*rng.normal(size=(2, 3)), _W), wrt=(0, 1, 2)))
def seuclidean(u: Any, v: Any, V: Any) -> Any:
    return np.linalg.norm(real(u - v, "seuclidean") / np.sqrt(as_float(V)), axis=-1)


@_metric(Sample(lambda rng: (*rng.normal(size=(2, 3)), _V), wrt=(0, 1, 2)))
def mahalanobis(u: Any, v: Any, VI: Any) -> Any:
    gap = u - v
    return root(np.sum(gap @ as_float(VI) * gap, axis=-1))


@_declared(
    "jensenshannon",
    *(
        Sample(lambda rng: tuple(rng.uniform(0.5, 2, size=(2, 3, 4))), kw, (0, 1))
        for kw in ({}, {"base": 2.0, "axis": 1, "keepdims": True})
    ),
)
def jensenshannon(p: Any, q: Any, base: Any = None, *, axis: int = 0, keepdims: bool = False) -> Any:
    p, q = (x / np.sum(x, axis=axis, keepdims=True) for x in (as_float(p), as_float(q)))
    middle = (p + q) / 2
    total = np.sum(sp.rel_entr(p, middle) + sp.rel_entr(q, middle), axis=axis, keepdims=keepdims)
    return root(total / (2.0 if base is None else 2.0 * math.log(base)))


METRICS["jensenshannon"] = lambda u, v: jensenshannon(u, v, axis=-1)


def _between(name: str, metric: Any, u: Any, v: Any, rows: Any, kwargs: dict[str, Any]) -> Any:
    found = METRICS.get(metric.lower()) if isinstance(metric, str) else METRICS.get(getattr(metric, "__name__", ""))
    if found is None or not (isinstance(metric, str) or getattr(_scipy, found.__name__, None) is metric):
        raise errors.UnsupportedError(
            f"{name}: the metric {metric!r} has no derivative rule in functrace.\n  These have: {', '.join(sorted(METRICS))}."
        )
    if found is METRICS["seuclidean"] and kwargs.get("V") is None:
        kwargs["V"] = np.var(rows, axis=0, ddof=1)
    if found is METRICS["mahalanobis"] and kwargs.get("VI") is None:
        if rows.shape[0] <= rows.shape[1]:
            raise ValueError(f"{name}: the covariance matrix of {errors.describe(rows)} is singular: more rows than columns are wanted.")
        kwargs["VI"] = np.linalg.inv(np.atleast_2d(np.cov(np.swapaxes(rows, 0, 1))))
    out = found(u, v, **{k: x for k, x in kwargs.items() if x is not None})
    return _double(out)


_CLOUDS: Any = lambda rng: (rng.uniform(0.5, 2.5, size=(4, 3)), rng.uniform(3.0, 5.0, size=(5, 3)) * np.array([1.0, -1.0, 1.0]))
_PLAIN = ("cosine", "seuclidean", "mahalanobis", "sqeuclidean", "canberra")
_SAMPLES: list[dict[str, Any]] = [{}, {"metric": "minkowski", "p": 3}, *({"metric": m} for m in _PLAIN)]


@_declared("cdist", *(Sample(_CLOUDS, kw, (0, 1)) for kw in _SAMPLES))
def cdist(XA: Any, XB: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    """`scipy.spatial.distance.cdist`: the distances between the rows of two matrices."""
    refuse("cdist", out=(out, None))
    a, b = with_axes(real(XA, "cdist"), 2), with_axes(real(XB, "cdist"), 2)
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"cdist: two matrices with as many columns are wanted, not {errors.describe(a)} and {errors.describe(b)}.")
    return _between("cdist", metric, a[:, None, :], b[None, :, :], np.concatenate([a, b]), kwargs)


@_declared("pdist", *(Sample(apart((5, 2)), kw) for kw in _SAMPLES))
def pdist(X: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    """`scipy.spatial.distance.pdist`: the distances of all pairs of rows, as a vector."""
    refuse("pdist", out=(out, None))
    x = with_axes(real(X, "pdist"), 2)
    i, j = np.triu_indices(x.shape[0], 1)
    return _between("pdist", metric, x[i], x[j], x, kwargs)


@_declared("squareform", one(6), one(1))
def squareform(X: Any, force: str = "no", checks: bool = True) -> Any:
    """`scipy.spatial.distance.squareform`: a vector of distances as a symmetric matrix, or back. The upper triangle is read."""
    x = as_float(X)
    if x.ndim not in (1, 2) or x.shape[0] != x.shape[-1] or force.lower() == ("tovector" if x.ndim == 1 else "tomatrix"):
        raise ValueError(f"squareform: {errors.describe(x)} can't be turned {force}.")
    if x.ndim == 2:
        if checks and not isinstance(x, Tracer):
            _scipy.is_valid_dm(x, throw=True, name="X")
        return x[np.triu_indices(x.shape[0], 1)]
    n = (1 + round((1 + 8 * x.shape[0]) ** 0.5)) // 2 if x.shape[0] else 1
    if n * (n - 1) // 2 != x.shape[0]:
        raise ValueError(f"squareform: {x.shape[0]} is not the number of pairs of anything.")
    place = np.zeros((n, n), int)
    i, j = np.triu_indices(n, 1)
    place[i, j] = place[j, i] = np.arange(1, x.shape[0] + 1)
    return np.concatenate([np.zeros(1, x.dtype), x])[place]


_REASONS = {
    "it compares booleans, so it is piecewise constant": "dice hamming jaccard kulczynski1 rogerstanimoto russellrao sokalmichener "
    "sokalsneath yule kulsinski matching",
    "not covered yet": "directed_hausdorff",
}
REFUSED = {name: reason for name, reason in by_name(_REASONS).items() if hasattr(_scipy, name)}
__getattr__, __dir__ = late(_scipy, REFUSED)
