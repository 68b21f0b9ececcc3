"""Filling an array by a loop takes linear time: no write copies it, neither when it is recorded nor when it is replayed."""

import numpy as np
import pytest

import functrace as ft
from functrace.ops import index, inplace


class _Counted:
    """NumPy, counting copies of large arrays."""

    def __init__(self):
        self.copies = 0

    def __getattr__(self, name):
        return getattr(np, name)

    def array(self, x, *args, **kwargs):
        self.copies += np.size(x) >= 10_000
        return np.array(x, *args, **kwargs)


def filled(x, n=10_000):
    y = x * np.ones(n)
    for k in range(1, n // 10):
        y[k] = y[k - 1] * 0.5
        y[k : k + 2] += x[0]
    return np.sum(y[: n // 10])


def from_zeros(x, n=10_000):
    y = ft.numpy.zeros(n)
    for k in range(n // 10):
        y[k] = x[0] * k
    return np.sum(y)


@pytest.mark.parametrize("f", [filled, from_zeros])
@pytest.mark.parametrize("derivative", [ft.grad, lambda f: lambda x: ft.jvp(f, (x,), (x,))[1]], ids=["grad", "jvp"])
def test_writes_do_not_copy_the_array(f, derivative, monkeypatch):
    counted = _Counted()
    monkeypatch.setattr(index, "np", counted)
    monkeypatch.setattr(inplace, "np", counted)
    x = np.array([0.9])
    out = derivative(f)(x)
    assert counted.copies <= 5
    h = 1e-6
    slope = (f(x + h) - f(x - h)) / (2 * h)
    np.testing.assert_allclose(out, [slope] if np.ndim(out) else slope * x[0], rtol=1e-6)
