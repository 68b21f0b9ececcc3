"""What no program of `programs/*.txt` can show: memory that is shared, derivatives of samples, names that are seldom used."""

import numpy as np
import pytest

import functrace.torch as torch


def test_another_shape_for_the_array_is_not_one_for_the_tensor():
    a = np.arange(6.0)
    t = torch.from_numpy(a)
    assert t.numpy() is not a and np.shares_memory(t.numpy(), a)
    b = t.numpy()
    b.resize((2, 3), refcheck=False) if b.base is None else None
    a.flags.writeable = False
    t.add_(1)
    assert t.shape == (6,) and a[0] == 1.0


def test_gradients_of_gamma_samples_are_those_of_the_distribution_function():
    stats = pytest.importorskip("scipy.stats")
    torch.manual_seed(1)
    a = torch.tensor([0.7, 3.0], dtype=torch.float64, requires_grad=True)
    x = torch.distributions.Gamma(a, 1.0).rsample()
    x.sum().backward()
    for shape, value, slope in zip(a.tolist(), x.tolist(), a.grad.tolist()):
        level, h = stats.gamma.cdf(value, shape), 1e-5
        assert slope == pytest.approx((stats.gamma.ppf(level, shape + h) - stats.gamma.ppf(level, shape - h)) / (2 * h), rel=1e-5)


@pytest.mark.parametrize("name", ["conv3d", "kl_div", "embedding", "lstm_cell", "pca_lowrank", "transpose_copy", "constant_pad_nd"])
def test_seldom_used_names_are_there(name):
    assert callable(getattr(torch, name))
