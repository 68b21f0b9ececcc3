"""SciPy's `spatial`, for plain and traced arrays alike: distances, here and in `spatial.distance`, Procrustes analysis,
and rotations in `spatial.transform`.

>>> import functrace as ft, numpy as np
>>> from functrace.scipy import spatial
>>> ft.grad(lambda x: spatial.distance.pdist(x).sum())(np.array([[0.0, 0.0], [3.0, 4.0]]))
array([[-0.6, -0.8],
       [ 0.6,  0.8]])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.spatial as _scipy

from functrace.ops.create import lift
from functrace.ops.norms import norm
from functrace.ops.registry import each
from functrace.scipy._linalg_decompositions import svd
from functrace.scipy._shared import by_name, declarer, late
from functrace.scipy.spatial import distance as distance
from functrace.scipy.spatial import transform as transform
from functrace.scipy.spatial.distance import _double

if TYPE_CHECKING:
    from scipy.spatial import *  # noqa: F403

_declared = declarer(_scipy)
_PAIR = each((3, 2), (3, 2))


@_declared("minkowski_distance_p", _PAIR, _PAIR._replace(kwargs={"p": 1.5}))
def minkowski_distance_p(x: Any, y: Any, p: Any = 2.0) -> Any:
    """`scipy.spatial.minkowski_distance_p`: the power p of the distance along the last axis."""
    gap = np.abs(_double(y) - _double(x))
    return np.max(gap, axis=-1) if p == np.inf else np.sum(gap**p, axis=-1)


@_declared("minkowski_distance", _PAIR, _PAIR._replace(kwargs={"p": 1}))
def minkowski_distance(x: Any, y: Any, p: Any = 2.0) -> Any:
    """`scipy.spatial.minkowski_distance`, along the last axis."""
    return norm(_double(y) - _double(x), p, -1)


@_declared("distance_matrix", each((3, 2), (4, 2)))
def distance_matrix(x: Any, y: Any, p: Any = 2.0, threshold: int = 0) -> Any:
    return minkowski_distance(lift(x)[:, None, :], lift(y)[None, :, :], p)


@_declared("procrustes", each((5, 2), (5, 2)))
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
REFUSED = by_name(_REASONS)
REFUSED.update({f"{m}.{name}": why for m in ("distance", "transform") for name, why in globals()[m].REFUSED.items()})
__getattr__, __dir__ = late(_scipy, {name: reason for name, reason in REFUSED.items() if "." not in name})
