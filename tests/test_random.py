"""`functrace.random`: the stream, bit by bit; the distributions, by statistics; keys and draws under every transform."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy import stats

import functrace as ft
from functrace import errors, random
from tests.helpers import differences, here

KEY = random.key(2024)
N = 20_000


def philox(key, use, turn=0, first=0):
    return np.random.Philox(key=key, counter=np.array([first, 0, turn, use], np.uint64))


# The stream


def test_a_key_is_numpys_seed_sequence():
    for seed in (0, 1, 2**40, 2**200):
        assert np.array_equal(random.key(seed), np.random.SeedSequence(seed).generate_state(2, np.uint64))
    assert random.key(np.int32(5)).tolist() == random.key(5).tolist()


def test_bits_are_those_of_numpys_philox():
    assert np.array_equal(random.bits(KEY, (3, 3)), philox(KEY, 0).random_raw(9).reshape(3, 3))
    assert np.array_equal(random.split(KEY, 5), philox(KEY, 1).random_raw(10).reshape(5, 2))
    assert np.array_equal(random.fold_in(KEY, 7), philox(KEY, 2, first=7).random_raw(2))
    assert np.array_equal(random.fold_in(KEY, -1), philox(KEY, 2, first=2**64 - 1).random_raw(2))


def test_the_published_vectors_of_philox():
    """Salmon et al.'s known answers (Random123's kat_vectors): all zeros and all ones."""
    from functrace.random.keys import _philox

    ones = np.full(4, 2**64 - 1, np.uint64)
    with np.errstate(over="ignore"):
        got = _philox(np.zeros((1, 2), np.uint64), np.zeros((1, 4), np.uint64)), _philox(ones[None, :2], ones[None])
    assert [f"{x:016x}" for x in got[0][0]] == ["16554d9eca36314c", "db20fe9d672d0fdc", "d7e772cee186176b", "7e68b68aec7ba23b"]
    assert [f"{x:016x}" for x in got[1][0]] == ["87b092c3013fe90b", "438c3c67be8d0224", "9cc7d7c69cd777b6", "a09caebf594f0ba0"]


def test_the_numbers_of_one_key_are_these_forever():
    key = random.key(0)
    assert random.bits(key, (2,)).tolist() == [259491006799949737, 4754966410622352325]
    assert random.uniform(key, (3,)).tolist() == [0.014067035665647709, 0.2577672456246177, 0.47156538101528966]
    assert random.uniform(key, (2,), np.float32).tolist() == [0.014066994190216064, 0.2577672004699707]
    np.testing.assert_allclose(random.normal(key, (3,)), [-0.008211587544399778, 0.16812613774348753, 0.9481955881183344], rtol=1e-14)
    assert random.split(key).tolist() == philox(key, 1).random_raw(4).reshape(2, 2).tolist()
    assert random.randint(key, (6,), 1, 7).tolist() == [1, 2, 3, 1, 6, 2]
    assert random.permutation(key, 5).tolist() == [0, 3, 1, 2, 4]


def test_more_draws_begin_with_the_same_numbers():
    for draw in (random.bits, random.uniform, random.normal, random.gumbel):
        assert np.array_equal(draw(KEY, (7,))[:4], draw(KEY, (4,)))
    assert np.array_equal(random.split(KEY, 7)[:2], random.split(KEY))


def test_keys_of_all_origins_differ():
    keys = [KEY, *random.split(KEY, 50), *(random.fold_in(KEY, k) for k in range(50)), *random.split(random.key(2025), 50)]
    assert len({tuple(k.tolist()) for k in keys}) == len(keys)
    draws = np.stack([random.normal(k, (2000,)) for k in keys[:40]])
    assert np.abs(np.corrcoef(draws) - np.eye(40)).max() < 0.11


def test_nothing_is_kept_between_calls_and_the_global_state_is_left_alone():
    first = random.normal(KEY, (5,))
    random.uniform(KEY, (3,))
    np.random.default_rng(0).normal()
    assert np.array_equal(first, random.normal(KEY, (5,)))
    first[:] = 0
    assert random.normal(KEY, (5,)).any()


# The distributions

CONTINUOUS = {
    "uniform": (lambda: random.uniform(KEY, (N,), minval=-2.0, maxval=3.0), stats.uniform(-2, 5)),
    "normal": (lambda: random.normal(KEY, (N,), loc=1.0, scale=3.0), stats.norm(1, 3)),
    "exponential": (lambda: random.exponential(KEY, (N,), scale=2.0), stats.expon(scale=2)),
    "gumbel": (lambda: random.gumbel(KEY, (N,), loc=1.0, scale=2.0), stats.gumbel_r(1, 2)),
    "laplace": (lambda: random.laplace(KEY, (N,), loc=-1.0, scale=0.5), stats.laplace(-1, 0.5)),
    "gamma": (lambda: random.gamma(KEY, 2.5, (N,)), stats.gamma(2.5)),
    "gamma, small": (lambda: random.gamma(KEY, 0.1, (N,)), stats.gamma(0.1)),
    "beta": (lambda: random.beta(KEY, 0.5, 2.0, (N,)), stats.beta(0.5, 2.0)),
    "truncated_normal": (lambda: random.truncated_normal(KEY, -1.0, 2.0, (N,)), stats.truncnorm(-1, 2)),
    "truncated_normal, tail": (lambda: random.truncated_normal(KEY, 6.0, np.inf, (N,)), stats.truncnorm(6, np.inf)),
    "truncated_normal, other tail": (lambda: random.truncated_normal(KEY, -np.inf, -6.0, (N,)), stats.truncnorm(-np.inf, -6)),
    "truncated_normal, all": (lambda: random.truncated_normal(KEY, -np.inf, np.inf, (N,)), stats.norm()),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_distribution_function(name):
    draw, law = CONTINUOUS[name]
    x = draw()
    assert x.shape == (N,) and x.dtype == np.float64 and np.isfinite(x).all()
    assert stats.kstest(x, law.cdf).pvalue > 1e-3
    low, high = law.support()
    assert (x >= low).all() and (x <= high).all()


def test_normal_numbers_of_a_pair_are_independent():
    x = random.normal(KEY, (N, 2))
    assert abs(np.corrcoef(x.T)[0, 1]) < 0.03 and abs(np.corrcoef((x**2).T)[0, 1]) < 0.03


def _chi_squared(counts, probabilities):
    return stats.chisquare(counts, np.asarray(probabilities) * np.sum(counts)).pvalue > 1e-3


def test_discrete_distributions():
    assert _chi_squared(np.bincount(random.randint(KEY, (N,), -3, 4) + 3), np.full(7, 1 / 7))
    assert _chi_squared(np.bincount(random.bernoulli(KEY, 0.3, (N,))), [0.7, 0.3])
    assert _chi_squared(np.bincount(random.rademacher(KEY, (N,)) + 1)[[0, 2]], [0.5, 0.5])
    p = np.array([0.1, 0.2, 0.3, 0.4])
    assert _chi_squared(np.bincount(random.categorical(KEY, np.log(p), shape=(N,))), p)
    assert _chi_squared(np.bincount(random.choice(KEY, 4, (N,), p=p)), p)
    assert _chi_squared(np.bincount(random.choice(KEY, 4, (N,))), np.full(4, 0.25))
    keys = random.split(KEY, 6000)
    orders = ft.vmap(lambda k: random.permutation(k, 3))(keys)
    assert _chi_squared(np.unique(orders @ [9, 3, 1], return_counts=True)[1], np.full(6, 1 / 6))
    pairs = np.sort(ft.vmap(lambda k: random.choice(k, 3, (2,), replace=False, p=[0.5, 0.3, 0.2]))(keys), axis=1) @ [3, 1]
    q = lambda a, b: a * b / (1 - a) + a * b / (1 - b)
    assert _chi_squared(np.unique(pairs, return_counts=True)[1], [q(0.5, 0.3), q(0.5, 0.2), q(0.3, 0.2)])


def test_vectors():
    mean, cov = np.array([1.0, -1.0]), np.array([[2.0, 0.8], [0.8, 1.0]])
    x = random.multivariate_normal(KEY, mean, cov, (N,))
    np.testing.assert_allclose(x.mean(axis=0), mean, atol=0.05)
    np.testing.assert_allclose(np.cov(x.T), cov, atol=0.06)
    alpha = np.array([0.5, 1.0, 3.0])
    x = random.dirichlet(KEY, alpha, (N,))
    for k in range(3):
        assert stats.kstest(x[:, k], stats.beta(alpha[k], alpha.sum() - alpha[k]).cdf).pvalue > 1e-3
    tiny = random.dirichlet(KEY, np.full(3, 1e-3), (50,))
    np.testing.assert_allclose(tiny.sum(axis=1), 1.0)
    several = random.dirichlet(KEY, np.stack([alpha, 100 * alpha]), (N, 2))
    np.testing.assert_allclose(several.mean(axis=0), [alpha / alpha.sum()] * 2, atol=0.02)
    assert random.dirichlet(KEY, np.ones((2, 3))).shape == (2, 3)
    assert random.multivariate_normal(KEY, np.zeros((4, 1, 2)), np.stack([cov] * 3)).shape == (4, 3, 2)


def test_randint_is_exact_where_a_multiplication_would_not_be():
    """Of 3 * 2^62 values the last third would come half as often without rejection."""
    x = random.randint(KEY, (N,), 0, 3 * 2**61)
    assert _chi_squared(np.histogram(x, [0, 2**61, 2**62, 3 * 2**61])[0], np.full(3, 1 / 3))
    x = random.randint(KEY, (N,), 0, 3 * 2**62, np.uint64)
    assert x.dtype == np.uint64
    assert _chi_squared(np.histogram(x.astype(float), np.array([0, 1, 2, 3]) * 2.0**62)[0], np.full(3, 1 / 3))
    mapped = ft.vmap(lambda k: random.randint(k, (50,), 0, 3 * 2**62, np.uint64))(random.split(KEY, 3))
    assert np.array_equal(mapped[1], random.randint(random.split(KEY, 3)[1], (50,), 0, 3 * 2**62, np.uint64))


def test_integers_in_a_loop_are_drawn_without_a_branch():
    draw = lambda k: random.randint(k, (3,), 0, 3 * 2**61)  # noqa: E731  # of which a quarter is drawn anew
    f = ft.jit(lambda k: ft.scan(lambda k, _: (random.split(k)[0], draw(k)), k, None, length=6)[1])
    k, rows = KEY, []
    for _ in range(6):
        rows.append(draw(k))
        k = random.split(k)[0]
    assert np.array_equal(f(KEY), rows) and np.array_equal(f(KEY), rows)
    assert "while_loop" not in f.show() and "cond" not in f.show()


def test_integers_of_batches_of_keys_and_of_limits():
    keys, tops = random.split(KEY, 3), np.array([5, 3 * 2**61])
    draw = lambda k, top: random.randint(k, (4,), 0, top)  # noqa: E731
    rows = np.array([[draw(k, top) for top in tops] for k in keys])
    assert np.array_equal(ft.vmap(lambda k: ft.vmap(lambda top: draw(k, top))(tops))(keys), rows)
    assert np.array_equal(ft.vmap(lambda top: ft.vmap(lambda k: draw(k, top))(keys))(tops), rows.transpose(1, 0, 2))
    assert np.array_equal(ft.vmap(draw)(keys[:2], tops), [rows[0, 0], rows[1, 1]])


def test_randint_takes_arrays_and_the_whole_range():
    x = random.randint(KEY, (1000, 2), np.array([0, -5]), np.array([2, 6]))
    assert x.min(axis=0).tolist() == [0, -5] and x.max(axis=0).tolist() == [1, 5]
    full = random.randint(KEY, (1000,), -(2**63), 2**63)
    assert full.dtype == np.int64 and full.min() < -(2**62) and full.max() > 2**62
    assert np.array_equal(random.randint(KEY, (9,), 0, 2**64, np.uint64), random.bits(KEY, (9,)))
    assert random.randint(KEY, (4,), 0, 200, np.uint8).dtype == np.uint8
    assert random.randint(KEY, (), 3, 4) == 3


def test_permutation_and_choice_of_arrays():
    x = np.arange(12.0).reshape(3, 4)
    assert sorted(random.permutation(KEY, x)[:, 0]) == [0, 4, 8]
    shuffled = random.permutation(KEY, x, axis=1)
    assert shuffled.shape == (3, 4) and np.array_equal(np.sort(shuffled, axis=1), x)
    assert random.choice(KEY, x, (2, 5), axis=1).shape == (3, 2, 5)
    for n in (np.int64(6), np.array(6, np.int32)):
        assert np.array_equal(random.permutation(KEY, n), random.permutation(KEY, 6))
        assert np.array_equal(random.choice(KEY, n, (9,)), random.choice(KEY, 6, (9,)))
    assert sorted(random.choice(KEY, 6, (6,), replace=False)) == list(range(6))
    assert set(random.choice(KEY, 4, (200,), p=[0, 1, 0, 1]).tolist()) == {1, 3}
    assert set(random.choice(KEY, 4, (2,), replace=False, p=[0, 1, 0, 1]).tolist()) == {1, 3}


DRAWS = {
    "bits": lambda k: random.bits(k, (3,)),
    "uniform": lambda k: random.uniform(k, (3,), minval=-1.0),
    "normal": lambda k: random.normal(k, (3,)),
    "normal, float32": lambda k: random.normal(k, (2, 2), np.float32),
    "exponential": lambda k: random.exponential(k, (3,)),
    "gumbel": lambda k: random.gumbel(k, (3,)),
    "laplace": lambda k: random.laplace(k, (3,)),
    "rademacher": lambda k: random.rademacher(k, (3,)),
    "bernoulli": lambda k: random.bernoulli(k, np.array([0.2, 0.8])),
    "randint": lambda k: random.randint(k, (3,), 0, 10),
    "categorical": lambda k: random.categorical(k, np.zeros((2, 4))),
    "permutation": lambda k: random.permutation(k, 5),
    "choice": lambda k: random.choice(k, 5, (3,), p=np.arange(5.0)),
    "choice without": lambda k: random.choice(k, 5, (3,), replace=False),
    "gamma": lambda k: random.gamma(k, np.array([0.5, 2.0])),
    "beta": lambda k: random.beta(k, 0.5, np.array([0.5, 2.0])),
    "dirichlet": lambda k: random.dirichlet(k, np.array([0.5, 2.0, 1.0])),
    "truncated_normal": lambda k: random.truncated_normal(k, -1.0, np.array([1.0, 5.0])),
    "multivariate_normal": lambda k: random.multivariate_normal(k, np.zeros(2), np.eye(2)),
    "split": lambda k: random.split(k, 3),
    "fold_in": lambda k: random.fold_in(k, 3),
    "chain": lambda k: random.normal(random.split(random.fold_in(k, 3))[1]),
}


@pytest.mark.parametrize("name", DRAWS)
def test_keys_are_arguments_of_every_transform(name):
    draw = DRAWS[name]
    keys = random.split(KEY, 6)
    one_by_one = [draw(k) for k in keys]
    assert len({x.tobytes() for x in map(np.asarray, one_by_one)}) > 1
    assert np.array_equal(ft.vmap(draw)(keys), one_by_one)
    assert np.array_equal(ft.vmap(ft.vmap(draw))(keys.reshape(2, 3, 2)).reshape(np.shape(one_by_one)), one_by_one)
    fast = ft.jit(draw, no_retrace=True)  # a new key must not record again
    assert all(np.array_equal(fast(k), x) for k, x in zip(keys, one_by_one))
    assert np.array_equal(ft.jit(ft.vmap(draw))(keys), one_by_one)
    _, scanned = ft.scan(lambda carry, k: (carry, draw(k)), 0.0, keys)
    assert np.array_equal(scanned, one_by_one)
    assert np.array_equal(ft.map(draw, keys), one_by_one)


def test_fold_in_maps_over_keys_and_data():
    keys, steps = random.split(KEY, 4), np.arange(3)
    want = np.array([[random.fold_in(k, s) for s in range(3)] for k in keys])
    inner = ft.vmap(random.fold_in, in_axes=(None, 0))
    assert np.array_equal(ft.vmap(inner, in_axes=(0, None))(keys, steps), want)
    outer = ft.vmap(ft.vmap(random.fold_in, in_axes=(0, None)), in_axes=(None, 0))
    assert np.array_equal(outer(keys, steps), want.transpose(1, 0, 2))
    both = ft.vmap(ft.vmap(random.fold_in, in_axes=(0, None)), in_axes=(0, 0))(np.stack([keys, keys[::-1]]), np.array([0, 2]))
    assert np.array_equal(both, [want[:, 0], want[::-1, 2]])
    noise = ft.fori_loop(0, 3, lambda i, total: total + random.normal(random.fold_in(KEY, i)), 0.0)
    np.testing.assert_allclose(noise, sum(random.normal(random.fold_in(KEY, i)) for i in range(3)))


PATHWISE = {
    "uniform": (lambda p: random.uniform(KEY, (4,), minval=p[0], maxval=p[1]), [0.5, 2.0]),
    "normal": (lambda p: random.normal(KEY, (4,), loc=p[0], scale=p[1]), [0.5, 2.0]),
    "exponential": (lambda p: random.exponential(KEY, (4,), scale=p[0]), [0.5]),
    "gumbel": (lambda p: random.gumbel(KEY, (4,), loc=p[0], scale=p[1]), [0.5, 2.0]),
    "laplace": (lambda p: random.laplace(KEY, (4,), loc=p[0], scale=p[1]), [0.5, 2.0]),
    "gamma": (lambda p: random.gamma(KEY, p), [0.3, 1.0, 2.5, 30.0]),
    "beta": (lambda p: random.beta(KEY, p[0], p[1], (4,)), [0.7, 2.0]),
    "dirichlet": (lambda p: random.dirichlet(KEY, p), [0.5, 1.5, 3.0]),
    "truncated_normal": (lambda p: random.truncated_normal(KEY, p[0], p[1], (4,)), [-0.5, 1.2]),
    "truncated_normal, tail": (lambda p: random.truncated_normal(KEY, p[0], np.inf, (4,)), [7.0]),
    "multivariate_normal": (
        lambda p: random.multivariate_normal(KEY, p[:2], np.array([[2.0, 0.3], [0.3, 1.0]]) * p[2], (3,)),
        [0.5, -1.0, 1.5],
    ),
}


@pytest.mark.parametrize("name", PATHWISE)
def test_draws_are_differentiable_in_their_parameters(name):
    draw, p = PATHWISE[name]
    p = np.array(p)
    f = lambda p: np.sum(draw(p) * np.arange(1.0, draw(p).size + 1).reshape(draw(p).shape))
    np.testing.assert_allclose(ft.grad(f)(p), differences(f, p, 1e-4), rtol=1e-6, atol=1e-8)
    tangent = np.linspace(1.0, 0.5, p.size)
    np.testing.assert_allclose(ft.jvp(f, (p,), (tangent,))[1], ft.grad(f)(p) @ tangent, rtol=1e-9)
    second = lambda p: np.sum(ft.grad(f)(p))
    np.testing.assert_allclose(ft.grad(second)(p), differences(second, p, 1e-3), rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(ft.vmap(ft.grad(f))(np.stack([p, 1.1 * p]))[1], ft.grad(f)(1.1 * p), rtol=1e-10)


def test_the_expected_gradient():
    """d E[x^2] / d theta where x has gamma(theta): 2 theta + 1."""
    g = ft.grad(lambda a: np.mean(random.gamma(KEY, a, (N,)) ** 2))(2.0)
    assert abs(g - 5.0) < 0.2


def test_tiny_parameters_where_most_draws_underflow():
    """Warnings are errors here; the derivative of what rounds to 0 is 0."""
    for draw, p in (
        (lambda p: random.gamma(KEY, p), 1e-3),
        (lambda p: random.beta(KEY, p, 1.0), 1e-3),
        (lambda p: random.beta(KEY, 1.0, p), 1e-3),
    ):
        f = lambda p, draw=draw: draw(np.full(1000, 1.0) * p).mean()
        np.testing.assert_allclose(ft.grad(f)(p), (f(p * 1.0001) - f(p * 0.9999)) / (p * 0.0002), rtol=1e-4)
    assert np.isnan(random.gamma(KEY, np.array([-1e-9, -1.0, -2.5]))).all()  # no distribution


def test_dtypes_and_shapes():
    for draw in (random.bits, random.rademacher, random.uniform):
        assert [draw(KEY, shape).shape for shape in ((), 0, 3, np.array([2, 3]), [2, 0])] == [(), (0,), (3,), (2, 3), (2, 0)]
    for draw in (random.uniform, random.normal, random.exponential, random.gumbel, random.laplace):
        for dtype in (np.float16, np.float32, np.float64):
            x = draw(KEY, (5,), dtype)
            assert x.dtype == dtype and np.isfinite(x).all()
        assert draw(KEY).shape == () and draw(KEY, 3).shape == (3,) and draw(KEY, (2, 0)).shape == (2, 0)
    assert random.normal(KEY, loc=np.zeros(3, np.float32)).dtype == np.float32
    assert random.normal(KEY, (2, 3), scale=np.ones(3)).shape == (2, 3)
    assert random.normal(KEY, (3,), np.float32, scale=np.float64(2)).dtype == np.float32
    assert (random.uniform(KEY, (N,), np.float16) < 1).all() and (random.uniform(KEY, (N,), np.float32) < 1).all()
    assert random.rademacher(KEY, (3,), np.float32).dtype == np.float32


def test_mistakes_are_named():
    with pytest.raises(errors.InputTypeError, match=r"random\.normal: .*one key, an array uint64\[2\], got int(?s:.)*key\(seed\)") as info:
        random.normal(0)
    assert here(-1) in str(info.value)
    with pytest.raises(errors.InputTypeError, match=r"got uint64\[3,2\](?s:.)*functrace\.vmap"):
        random.uniform(random.split(KEY, 3))
    with pytest.raises(errors.InputTypeError, match="float16, float32 or float64, got int64"):
        random.normal(KEY, (2,), int)
    with pytest.raises(errors.InputTypeError, match="the seed must be an integer, got float"):
        random.key(1.5)
    with pytest.raises(ValueError, match="must not be negative"):
        random.key(-1)
    with pytest.raises(errors.InputTypeError, match=r"fold_in: the data must be one integer, got int64\[2\](?s:.)*vmap"):
        random.fold_in(KEY, np.arange(2))
    with pytest.raises(errors.InputTypeError, match="the data must be integer"):
        random.fold_in(KEY, 1.0)
    with pytest.raises(ValueError, match=r"normal: the parameters have the shapes \(3,\), \(\), which do not broadcast to shape=\(2,\)"):
        random.normal(KEY, (2,), loc=np.zeros(3))
    for low, high in ((3, 3), (0, 2**63 + 1), (np.array([0, 2]), 1)):
        with pytest.raises(ValueError, match="randint"):
            random.randint(KEY, (2,), low, high)
    for low, high in ((0, 257), (-1, 9), (np.array([0, 1]), np.array([2, 257])), (np.array([0, -1]), 9)):
        with pytest.raises(ValueError, match=r"randint: [\s\S]*uint8"):
            random.randint(KEY, (2,), low, high, np.uint8)
    for draw, name in ((random.permutation, "x"), (random.choice, "a")):
        with pytest.raises(errors.InputTypeError, match=rf"{draw.__name__}: {name} must be integer, got float64\[\]"):
            draw(KEY, 5.0)
    with pytest.raises(errors.InputTypeError, match="maxval must be integer"):
        random.randint(KEY, (2,), 0, 2.5)
    for p in ([0.5], [-1.0, 2.0], [0.0, 0.0]):
        with pytest.raises(ValueError, match=r"choice: p must be 2 numbers"):
            random.choice(KEY, 2, (1,), p=p)
    with pytest.raises(ValueError, match="not 2 different entries among 2, or among those that p allows"):
        random.choice(KEY, 2, (2,), replace=False, p=[1.0, 0.0])
    with pytest.raises(ValueError, match="nothing to choose from"):
        random.choice(KEY, 0, (2,))
    with pytest.raises(ValueError, match=r"mean \(\.\.\., n\) and cov"):
        random.multivariate_normal(KEY, np.zeros(2), np.eye(3))
    with pytest.raises(ValueError, match="lower must be below upper"):
        random.truncated_normal(KEY, 1.0, 0.0)


def test_no_warnings_for_words_of_any_size():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in DRAWS:
            DRAWS[name](random.key(9))
            ft.vmap(DRAWS[name])(random.split(KEY, 2))


def test_traced_words_are_shifted():
    """`>>` and `<<` of traced integers, of which the draws are made."""
    for f in (lambda x: x >> 3, lambda x: x << 2, lambda x: 5 >> x, lambda x: 1 << x):
        x = np.array([1, 2, 40])
        assert np.array_equal(ft.vmap(f)(x), f(x)) and np.array_equal(ft.jit(f)(x), f(x))


@pytest.mark.parametrize("count", [7, 127, 128, 129, 500])
def test_many_numbers_for_each_of_several_keys_are_those_of_each_key(count):
    keys = random.split(random.key(3), 6).reshape(2, 3, 2)
    together = ft.vmap(ft.vmap(lambda key: random.bits(key, (count,))))(keys)
    assert np.array_equal(together, [[random.bits(key, (count,)) for key in row] for row in keys])


@pytest.mark.skipif(sys.version_info < (3, 11), reason="one frame of ours stays there: see edge.trim")
def test_a_mistake_ends_at_the_users_line():
    with pytest.raises(errors.InputTypeError) as caught:
        random.normal(0, (3,))
    assert caught.traceback[-1].name == "test_a_mistake_ends_at_the_users_line"


def test_without_scipy_it_is_said_what_to_install():
    program = (
        "import sys; sys.modules['scipy'] = None; import functrace.torch; from functrace import random; random.gamma(random.key(0), 2.0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert "functrace.scipy needs SciPy, which is not installed: pip install 'functrace[scipy]'" in last, done.stderr
