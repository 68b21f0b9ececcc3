"""Filling an array by a loop takes linear time: no write copies it, neither when it is recorded nor when it is replayed."""

import numpy as np
import pytest

import functrace as ft
from functrace.core.tape import record
from functrace.ops import index, inplace, positions


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
    assert counted.copies <= (1 if f is from_zeros else 5)  # one is of the cotangent that arrives
    h = 1e-6
    slope = (f(x + h) - f(x - h)) / (2 * h)
    np.testing.assert_allclose(out, [slope] if np.ndim(out) else slope * x[0], rtol=1e-6)


def test_an_array_that_others_hold_is_copied_before_it_becomes_traced():
    def f(x):
        y = ft.numpy.zeros(4)
        seen, product, other = np.asarray(y), x * y, y
        y[0] = x[1] * x[0]
        part = y[1:3]
        y[2] = x[3] ** 2
        part[0] += x[2]
        assert isinstance(x, np.ndarray) or not seen.any() and not ft.value(product).any()
        return np.sum(product * x) + np.sum(other**3) + np.sum(part * x[:2])

    x = np.array([0.5, 1.5, -0.7, 2.0])
    want = [3 * (x[0] * x[1]) ** 2, 3 * x[2] ** 2, 3 * x[3] ** 4]
    chain = [want[0] * x[1] + x[2], want[0] * x[0] + x[3] ** 2, want[1] + x[0], (want[2] + x[1]) * 2 * x[3]]
    np.testing.assert_allclose(ft.grad(f)(x), chain, rtol=1e-13)
    ft.check_grads(f, x, order=2)


PLACES = np.random.default_rng(3).integers(0, 50, (1500, 2))
CASES = {
    "one column": (PLACES[:, 0], 1, "C"),
    "three columns": (PLACES[:, 0], 3, "C"),
    "many columns, one after the other in memory": (PLACES[:, 0], 9, "F"),
    "places in two dimensions": (PLACES, 2, "C"),
    "small integers": (PLACES[:, 1].astype(np.int16), 4, "C"),
    "places from the end": (PLACES[:, 0] - 50, 3, "C"),
    "into what is no zero": (PLACES[:, 0], 3, "ones"),
    "into minus zero": (PLACES[:, 0], 3, "minus"),
}


@pytest.mark.parametrize("name", CASES)
def test_sums_of_rows_are_those_of_numpy_to_the_last_bit(name):
    places, width, how = CASES[name]
    g = np.random.default_rng(4).normal(size=(*places.shape, width)) * 1e3
    g[g > 2e3] = np.nan
    g = np.asfortranarray(g) if how == "F" else g
    start = np.ones((60, width)) if how == "ones" else -np.zeros((60, width)) if how == "minus" else np.zeros((60, width))
    wanted = start.copy()
    np.add.at(wanted, places, g)
    x = start.copy()
    positions.add_in(x, g, places)
    assert x.tobytes() == wanted.tobytes()
    assert positions._counted(start.copy(), g, places) == (how in "CF" and places.min() >= 0)


def test_a_place_that_is_not_there_is_refused_in_sums_of_rows():
    with pytest.raises(IndexError, match="out of bounds"):
        positions.add_in(np.zeros((49, 2)), np.ones((1500, 2)), PLACES[:, 0])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(3000,), (40, 50), (50, 40, 2)])
@pytest.mark.parametrize("mode", ["eager", "jit", "jvp", "jit of jvp"])
def test_large_masks_read_and_write_as_numpy_does(mode, shape, order):
    rng = np.random.default_rng(0)
    mask = rng.uniform(size=shape) < 0.5
    x, w, v = (np.asarray(rng.normal(size=shape), order=order) for _ in range(3))

    def f(x):
        y = x * 2.0
        y[mask] = x[mask] ** 2
        y[~mask] *= w[~mask]
        return np.sum(y[mask] * v[mask]) + np.sum(w * y)

    expected = np.where(mask, (v + w) * 2 * x, 2 * w * w)
    compiled = ft.jit if mode.startswith("jit") else lambda g: g
    for _ in range(2):
        if mode.endswith("jvp"):
            np.testing.assert_allclose(compiled(lambda x: ft.jvp(f, (x,), (v,)))(x)[1], np.sum(expected * v))
        else:
            np.testing.assert_allclose(compiled(ft.grad(f))(x), expected)


def test_a_write_reads_only_those_views_again_that_it_reaches():
    n = 40

    def f(x):
        y = x * 1.0
        rows = [y[k] for k in range(n)]
        odd, back = y[1::2], y[::-1]
        for k in range(n):
            rows[k][0] = x[k, 1] * 2.0
            y[k, 2:] *= 3.0
        return np.sum(y) + np.sum(odd**2) + sum(np.sum(row) for row in rows) + back[-1, 0]

    def plain(x):
        y = np.concatenate([2 * x[:, 1:2], x[:, 1:2], 3 * x[:, 2:]], axis=1)
        return 2 * np.sum(y) + np.sum(y[1::2] ** 2) + y[0, 0]

    x = np.linspace(0.1, 1.0, 4 * n).reshape(n, 4)
    np.testing.assert_allclose(ft.grad(f)(x), ft.grad(plain)(x))
    np.testing.assert_allclose(ft.jit(ft.grad(f))(x), ft.grad(plain)(x))
    assert len(record(lambda x: [f(x)], [x], "test").entries) < 40 * n  # reading all again each time takes over 4 n * n


def test_a_list_of_parameters_is_read_without_looking_at_the_others(monkeypatch):
    torch = ft.torch
    asked = []
    monkeypatch.setattr(torch.nn.ParameterList, "_items_by_name", lambda self: asked.append(1))
    items = torch.nn.ParameterList()
    for k in range(5):
        items.append(torch.ones(1) * k)
    items[1] = torch.ones(1) * 7
    assert [items[k].item() for k in range(len(items))] == [0, 7, 2, 3, 4] and not asked


@pytest.mark.parametrize("read", [lambda y: y[..., 0], lambda y: y[:1], lambda y: y[[0, 0]], lambda y: y[y > 0]])
def test_second_derivatives_where_a_cotangent_of_reads_goes_to_several(read):
    def f(x):
        y = x * x
        part = read(y)
        y += x - part.sum() * np.ones(4)
        return np.sum(read(y) ** 3) + np.sum(part)

    x, t = np.array([0.3, -0.2, 0.5, 0.7]), np.array([1.0, 2.0, -1.0, 0.5])
    want = ft.grad(lambda x: ft.grad(f)(x) @ t)(x)
    np.testing.assert_allclose(ft.jvp(ft.grad(f), (x,), (t,))[1], want)
    np.testing.assert_allclose((ft.grad(f)(x + 1e-5 * t) - ft.grad(f)(x - 1e-5 * t)) / 2e-5, want, rtol=1e-6)
    np.testing.assert_allclose(ft.jvp(ft.vmap(ft.grad(f)), (x[None],), (t[None],))[1][0], want)
