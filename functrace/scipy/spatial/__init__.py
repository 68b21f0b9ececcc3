"""SciPy's `spatial`, for plain and traced arrays alike: distances, here and in `spatial.distance`, and Procrustes analysis.

>>> import functrace as ft, numpy as np
>>> from functrace.scipy import spatial
>>> ft.grad(lambda x: spatial.distance.pdist(x).sum())(np.array([[0.0, 0.0], [3.0, 4.0]]))
array([[-0.6, -0.8],
       [ 0.6,  0.8]])
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.spatial as _scipy

from functrace.ops.create import lift
from functrace.ops.registry import Sample, implements, normal
from functrace.scipy._linalg_decompositions import svd
from functrace.scipy._linalg_systems import late
from functrace.scipy.spatial import distance as distance
from functrace.scipy.spatial.distance import _double

_PAIR = Sample(normal((3, 2), (3, 2)), wrt=(0, 1))


@implements(_scipy.minkowski_distance_p, [_PAIR, _PAIR._replace(kwargs={"p": 1.5})], name="scipy.spatial.minkowski_distance_p")
def minkowski_distance_p(x: Any, y: Any, p: Any = 2.0) -> Any:
    """`scipy.spatial.minkowski_distance_p`: the power p of the distance along the last axis."""
    gap = np.abs(_double(y) - _double(x))
    return np.max(gap, axis=-1) if p == np.inf else np.sum(gap**p, axis=-1)


@implements(_scipy.minkowski_distance, [_PAIR, _PAIR._replace(kwargs={"p": 1})], name="scipy.spatial.minkowski_distance")
def minkowski_distance(x: Any, y: Any, p: Any = 2.0) -> Any:
    """`scipy.spatial.minkowski_distance`, along the last axis."""
    return np.linalg.norm(_double(y) - _double(x), ord=p, axis=-1)


@implements(_scipy.distance_matrix, [Sample(normal((3, 2), (4, 2)), wrt=(0, 1))], name="scipy.spatial.distance_matrix")
def distance_matrix(x: Any, y: Any, p: Any = 2.0, threshold: int = 0) -> Any:
    """`scipy.spatial.distance_matrix`."""
    return minkowski_distance(lift(x)[:, None, :], lift(y)[None, :, :], p)


@implements(_scipy.procrustes, [Sample(normal((5, 2), (5, 2)), wrt=(0, 1))], name="scipy.spatial.procrustes")
def procrustes(data1: Any, data2: Any) -> Any:
    """`scipy.spatial.procrustes`: both data sets in standard form, the second rotated onto the first, and the disparity."""
    first, second = (_double(x) - np.mean(_double(x), axis=0) for x in (data1, data2))
    first, second = (x / np.linalg.norm(x) for x in (first, second))
    u, w, vt = svd(np.swapaxes(second, 0, 1) @ first, full_matrices=False)
    second = second @ (u @ vt) * np.sum(w)
    return first, second, np.sum((first - second) ** 2)


_REASONS = {
    "triangulations, hulls and neighbours jump": "ConvexHull Delaunay HalfspaceIntersection KDTree Rectangle SphericalVoronoi Voronoi "
    "cKDTree tsearch convex_hull_plot_2d delaunay_plot_2d voronoi_plot_2d",
    "not covered yet": "geometric_slerp",
}
REFUSED: dict[str, str] = {name: reason for reason, names in _REASONS.items() for name in names.split()}
REFUSED.update({f"distance.{name}": reason for name, reason in distance.REFUSED.items()})
__getattr__ = late("scipy.spatial.", _scipy, {name: reason for name, reason in REFUSED.items() if "." not in name})
