"""Sparse Jacobians and Hessians: as many products as the pattern needs colours, instead of one for each row or column.

SciPy is imported when one is asked for.

>>> import functrace as ft, numpy as np
>>> def residual(x):
...     return (x[1:] - x[:-1]) ** 2
>>> ft.sparse_jacobian(residual)(np.array([0.0, 1.0, 3.0])).toarray()
array([[-2.,  2.,  0.],
       [ 0., -4.,  4.]])
"""

from functrace.sparse.derivatives import hessian_pattern as hessian_pattern
from functrace.sparse.derivatives import jacobian_pattern as jacobian_pattern
from functrace.sparse.derivatives import sparse_hessian as sparse_hessian
from functrace.sparse.derivatives import sparse_jacobian as sparse_jacobian
