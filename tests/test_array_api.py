"""`functrace.numpy` is a namespace of the Python array API standard, 2024.12, and traced arrays are arrays of it."""

import os
import subprocess
import sys

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp

NAMES = (
    "e inf nan newaxis pi asarray arange empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu zeros "
    "zeros_like astype broadcast_arrays broadcast_to can_cast finfo iinfo isdtype result_type bool int8 int16 int32 int64 uint8 uint16 "
    "uint32 uint64 float32 float64 complex64 complex128 abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift "
    "bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor "
    "floor_divide greater greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp logical_and "
    "logical_not logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive pow real reciprocal remainder round "
    "sign signbit sin sinh square sqrt subtract tan tanh trunc take take_along_axis matmul matrix_transpose tensordot vecdot concat "
    "expand_dims flip moveaxis permute_dims repeat reshape roll squeeze stack tile unstack argmax argmin count_nonzero nonzero "
    "searchsorted where unique_all unique_counts unique_inverse unique_values argsort sort cumulative_prod cumulative_sum max mean min "
    "prod std sum var all any diff __array_namespace_info__ __array_api_version__"
).split()
LINALG = (
    "cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose outer pinv qr slogdet solve "
    "svd svdvals tensordot trace vecdot vector_norm"
).split()
FFT = "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift".split()
METHODS = "dtype device mT ndim shape size T __array_namespace__ to_device".split() + [
    f"__{name}__"
    for name in (
        "abs add and bool complex eq float floordiv ge getitem gt index int invert le lshift lt matmul mod mul ne neg or pos pow rshift setitem "
        "sub truediv xor radd rsub rmul rtruediv rfloordiv rpow rmatmul rmod rand ror rxor rlshift rrshift iadd isub imul itruediv ifloordiv "
        "ipow imatmul imod iand ior ixor ilshift irshift"
    ).split()
]
X = np.array([[0.4, 1.3, -0.7], [2.1, 0.2, 0.9]])


@pytest.mark.skipif(not hasattr(np, "unstack"), reason="these names came with NumPy 2.1")
def test_every_name_of_the_standard_is_there():
    assert [n for n in NAMES if not hasattr(fnp, n)] == []
    assert [n for n in LINALG if not hasattr(fnp.linalg, n)] == []
    assert [n for n in FFT if not hasattr(fnp.fft, n)] == []


def test_traced_arrays_have_the_methods_of_the_standard():
    def f(x):
        assert [n for n in METHODS if not hasattr(x, n)] == []
        assert x.__array_namespace__() is fnp is x.__array_namespace__(api_version="2022.12")
        with pytest.raises(ValueError, match="2999"):
            x.__array_namespace__(api_version="2999.1")
        assert x.device == "cpu" and x.to_device("cpu") is x
        assert fnp.finfo(x).eps == fnp.finfo(np.float64).eps and fnp.isdtype(x.dtype, "real floating")
        assert fnp.result_type(x, np.float32) == np.float64
        return x.mT.sum()

    ft.grad(f)(X)


def softmax(x, axis=-1):
    """Written to the standard: no name of NumPy in it."""
    xp = x.__array_namespace__()
    shifted = x - xp.max(x, axis=axis, keepdims=True)
    e = xp.exp(shifted)
    return e / xp.sum(e, axis=axis, keepdims=True)


def standard(x):
    xp = x.__array_namespace__()
    y = xp.zeros((2, 3), dtype=x.dtype, device=x.device)
    y[0, ...] = xp.cumulative_sum(x[0, ...], include_initial=False)
    y[1, :] = xp.take_along_axis(x, xp.argsort(x, axis=-1), axis=-1)[1, :]
    values = xp.unique_values(x)
    rows = xp.unstack(xp.permute_dims(xp.concat([x, y]), (1, 0)))
    norms = xp.linalg.vector_norm(xp.stack(rows), axis=1, ord=3)
    product = xp.vecdot(xp.astype(x, xp.float64), xp.matrix_transpose(y).mT)
    return xp.sum(values**2) + xp.sum(norms) * xp.sum(product) + xp.sum(xp.abs(xp.fft.rfft(x)))


@pytest.mark.skipif(not hasattr(np, "unstack"), reason="these names came with NumPy 2.1")
@pytest.mark.parametrize("f", [softmax, standard])
def test_code_written_to_the_standard_is_differentiated(f):
    np.testing.assert_allclose(ft.vjp(f, X)[0], f(X))
    ft.check_grads(f, X)


def test_sorting_downwards_and_dtypes_of_frequencies():
    for f in (
        lambda x: fnp.sort(x, axis=0, descending=True),
        lambda x: fnp.sort(x, descending=True, stable=True) * fnp.argsort(x, axis=1, descending=True),
        lambda x: fnp.sort(x, descending=False),
    ):
        ft.check_grads(f, X)
        np.testing.assert_array_equal(ft.vjp(f, X)[0], f(X))
    np.testing.assert_array_equal(fnp.sort(X, descending=True), np.sort(X)[:, ::-1])
    tied = np.array([2.0, 1.0, 2.0, 1.0])
    np.testing.assert_array_equal(fnp.argsort(tied, descending=True), [0, 2, 1, 3])
    np.testing.assert_array_equal(ft.jacrev(lambda x: fnp.sort(x, descending=True))(tied), np.eye(4)[[0, 2, 1, 3]])
    assert fnp.fft.fftfreq(4, d=0.5, dtype=np.float32).dtype == fnp.fft.rfftfreq(4, dtype=np.float32).dtype == np.float32


CODE = """
import numpy as np, functrace as ft
import scipy.special, scipy.stats
x = np.array([[0.4, 1.3, -0.7], [2.1, 0.2, 0.9]])
ft.check_grads(lambda x: scipy.special.logsumexp(x, axis=1), x)
ft.check_grads(lambda x: scipy.special.softmax(x, axis=0), x)
ft.check_grads(lambda x: scipy.stats.zscore(x), x)
ft.check_grads(lambda x: scipy.stats.gmean(x * x), x)
"""
SKLEARN = """
import numpy as np, functrace as ft
from sklearn import config_context
from sklearn.metrics.pairwise import cosine_similarity, euclidean_distances, rbf_kernel
x = np.array([[0.4, 1.3, -0.7], [2.1, 0.2, 0.9]])
with config_context(array_api_dispatch=True):
    for f in (cosine_similarity, lambda x: euclidean_distances(x, x + 1.0), lambda x: rbf_kernel(x, x + 1.0, gamma=0.3)):
        ft.check_grads(f, x)
"""


@pytest.mark.parametrize(("module", "code"), [("scipy", CODE), ("sklearn", SKLEARN)])
@pytest.mark.skipif(not hasattr(np, "unstack"), reason="the standard's names came with NumPy 2.1")
def test_scipy_and_sklearn_differentiate_through_the_standard(module, code):
    found = pytest.importorskip(module)
    if module == "scipy" and tuple(map(int, found.__version__.split(".")[:2])) < (1, 16):
        pytest.skip("SciPy's softmax follows the standard from 1.16 on")
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "SCIPY_ARRAY_API": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
