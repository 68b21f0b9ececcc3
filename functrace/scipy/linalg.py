"""SciPy's `linalg`, for plain and traced arrays alike.

Nearly all is written in NumPy's `linalg`; what is left has rules of its own: triangular and banded systems, LU, the Sylvester
equation, and functions of matrices. Leading axes are batches where SciPy takes them.

>>> import functrace as ft, numpy as np
>>> from functrace.scipy import linalg
>>> ft.grad(lambda a: np.trace(linalg.expm(a)))(np.zeros((2, 2)))
array([[1., 0.],
       [0., 1.]])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import scipy.linalg as _scipy

from functrace.scipy import _linalg_decompositions as _decompositions  # noqa: F401
from functrace.scipy import _linalg_functions as _functions  # noqa: F401
from functrace.scipy._shared import by_name, late

if TYPE_CHECKING:
    from scipy.linalg import *  # noqa: F403

_REASONS = {
    "the factors are not unique, use eig, eigh or svd": "schur rsf2csf cdf2rdf qz ordqz hessenberg cossin",
    "an update of factors, use qr of the new matrix": "qr_insert qr_delete qr_update",
    "the pattern of its pivots jumps, use cholesky or lu": "ldl",
    "it is unstable for the block that the derivative needs, use expm, logm, sqrtm or fractional_matrix_power": "funm",
    "piecewise constant on most matrices, and its iteration is not precise enough on the block that the derivative needs": "signm",
    "a norm of the derivative of expm, use expm_frechet": "expm_cond",
    "use numpy.kron": "kron",
    "a scaling by powers of two and a permutation": "matrix_balance",
    "random": "clarkson_woodruff_transform",
}
REFUSED = by_name(_REASONS)

__getattr__, __dir__ = late(_scipy, REFUSED)
