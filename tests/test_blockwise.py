"""Elementwise rules, applied block by block, give what they give on whole arrays, to the last bit."""

import tracemalloc

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace import blockwise, threads

N = 70_001  # float64 of which no number of blocks is whole


@pytest.fixture
def replays(monkeypatch):
    """How many entries each run has."""
    counts, real = [], blockwise._replay
    monkeypatch.setattr(blockwise, "_replay", lambda run, *rest: counts.append(len(run)) or real(run, *rest))
    return counts


def both(f, *args):
    """The gradients in all arguments, block by block, and at once."""
    blocks = ft.grad(f, tuple(range(len(args))))(*args)
    before, blockwise.LARGE = blockwise.LARGE, 1 << 60
    try:
        return blocks, ft.grad(f, tuple(range(len(args))))(*args)
    finally:
        blockwise.LARGE = before


PROGRAMS = {
    "chain": lambda x, y: fnp.sum((fnp.tanh(x) * fnp.exp(-(x**2)) + fnp.log(1 + y**2)) ** 2),
    "used twice": lambda x, y: fnp.sum((a := fnp.sin(x)) * fnp.cos(a) + a / (2 + y**2)),
    "constants": lambda x, y: fnp.sum(fnp.arctan(x * np.linspace(0, 1, x.size, dtype=x.dtype).reshape(x.shape)) * 3 * y),
    "ties and choices": lambda x, y: fnp.sum(fnp.where(x > y, fnp.maximum(x, 0.0) ** 2, fnp.abs(y) * x)),
    "several results": lambda x, y: fnp.sum(fnp.sin(a := fnp.exp(x * y)) ** 2) + fnp.sum(fnp.cumsum(a) * 1e-6) + fnp.sum(a * x),
    "sums between": lambda x, y: fnp.sum(fnp.exp(x - fnp.sum(fnp.tanh(y * x) ** 2) / x.size) * fnp.sqrt(y * y + 1)),
    "one argument only": lambda x, y: fnp.sum(fnp.exp(fnp.sin(x) * 2) * x) + y.ravel()[0],
}


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(N,), (7, N // 7)], ids=["flat", "rows"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_blocks_change_no_bit(name, shape, dtype, count, rng, replays, monkeypatch):
    monkeypatch.setattr(blockwise, "BLOCK", 1 << 15)
    monkeypatch.setattr(blockwise, "LARGE", 1 << 18)
    x, y = (rng.normal(size=shape).astype(dtype) for _ in range(2))
    x.flat[5] = y.flat[5]
    x.flat[::11] = 0
    before = threads.set_count(count)
    try:
        blocks, whole = both(PROGRAMS[name], x, y)
    finally:
        threads.set_count(before)
    assert max(replays) > 2
    for a, b in zip(blocks, whole):
        np.testing.assert_array_equal(a, b, strict=True)
        assert a.flags.owndata and a.flags.writeable


def test_a_cotangent_of_any_layout(rng, replays):
    x = rng.normal(size=(300, 500))
    out, pullback = ft.vjp(lambda x: fnp.sin(fnp.exp(x * x * 0.1)), x)
    slope = np.cos(np.exp(x * x * 0.1)) * np.exp(x * x * 0.1) * 0.2 * x
    for ct in (rng.normal(size=x.T.shape).T, np.broadcast_to(2.0, x.shape), rng.normal(size=(300, 1000))[:, ::2]):
        replays.clear()
        np.testing.assert_allclose(pullback(ct)[0], ct * slope, rtol=1e-12)
        assert replays
    assert np.array_equal(pullback(out)[0], pullback(out)[0])


def test_whatever_is_traced_goes_its_own_way(rng):
    x, v = rng.normal(size=(2, N))
    f = PROGRAMS["chain"]
    second = ft.hvp(lambda x: f(x, x), (x,), (v,))
    little = ft.hvp(lambda x: f(x, x), (x[:9],), (v[:9],))
    np.testing.assert_allclose(second[:9], little, rtol=1e-12)
    np.testing.assert_allclose(ft.vmap(ft.grad(lambda x: f(x, x)))(x[None]), ft.grad(lambda x: f(x, x))(x)[None], rtol=1e-12)


def test_a_branch_not_taken_stays_free_of_nan(replays):
    x = np.linspace(0, 1, N)
    with np.errstate(divide="ignore", invalid="ignore"):
        g = ft.grad(lambda x: fnp.sum(fnp.where(x > 0, fnp.sqrt(x) * fnp.log(x), 0.0)))(x)
    assert np.isfinite(g).all() and g[0] == 0 and replays


def test_no_array_is_made_between_the_rules_of_a_run(monkeypatch):
    x = np.linspace(0.1, 1, 1_000_000)

    def f(x):
        for _ in range(8):
            x = fnp.sin(x) * 1.1
        return fnp.sum(x)

    _, pullback = ft.vjp(f, x)
    taken, real = [], ft.pool._Pool.take
    monkeypatch.setattr(ft.pool._Pool, "take", lambda self, shape, dtype: taken.append(shape) or real(self, shape, dtype))
    tracemalloc.start()
    try:
        pullback(np.float64(1.0))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(taken) < 8 and peak < 3 * x.nbytes


def test_a_debugger_sees_whole_arrays(replays):
    x = np.linspace(0.1, 1, N)
    f = ft.grad(lambda x: fnp.sum(fnp.exp(fnp.sin(x) * x)))
    f(x)
    assert replays
    replays.clear()
    with ft.debug.checks():
        f(x)
    assert not replays
