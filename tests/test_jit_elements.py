"""Compiled programs keep arrays of a few elements as Python's floats: same values to the last bit, same types, in loops too."""

import platform

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace.compile import elements

ODD = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e308, -1e308, 5e-324, 2.5, -0.3, 1e-200, 3.0])
ONE = [np.negative, np.square, np.abs, np.sqrt, np.sign, np.sin, np.reciprocal, lambda x: x * 1.0, lambda x: x / 4, lambda x: 1 / x]
ONE += [lambda x: x - 0.0, lambda x: x + 0.0, lambda x: np.where(np.isfinite(x), x, 2), lambda x: np.where(~(x >= 0), x, -x)]
EXTREMES = [np.maximum, np.minimum]
if platform.machine() not in ("x86_64", "AMD64"):  # where arrays and numbers may differ in which of 0.0 and -0.0 is larger
    EXTREMES = [lambda x, y: np.maximum(x, y) + 0.0, lambda x, y: 0.0 - np.minimum(x, y)]
TWO = [np.add, np.subtract, np.multiply, np.divide, *EXTREMES, np.arctan2, lambda x, y: x * (y > 0) + y]
TWO += [lambda x, y: np.where((x <= y) & (x == x) | (y != 0), y, -x), lambda x, y: np.where(np.logical_not(x < y), x, 0)]
MOVES = [np.transpose, np.ravel, lambda x: x[..., ::-1], lambda x: np.roll(x, 1), lambda x: np.stack([x, x])[1], lambda x: x[None][0]]
MOVES += [lambda x: np.concatenate([x, x], axis=0)[len(x) :], lambda x: np.broadcast_to(x, (2, *x.shape))[1]]
SHAPES = [(1,), (2,), (3,), (2, 2), (3, 1), (1, 3), (7,), (2, 3)]


def alike(got, want):
    got, want = ft.tree.leaves(got), ft.tree.leaves(want)
    assert len(got) == len(want)
    for a, b in zip(got, want):
        assert type(a) is type(b)
        assert np.shape(a) == np.shape(b)
        np.testing.assert_array_equal(a, b)
        signs = [np.signbit(np.asarray(v, float))[~np.isnan(np.asarray(v, float))] for v in (a, b)]
        np.testing.assert_array_equal(*signs)


def random_program(rng):
    """A function of two arrays: two arrays of their size, and a part of one."""
    steps = [(int(rng.integers(3)), int(rng.integers(1000)), rng.integers(0, 1000, 2)) for _ in range(rng.integers(3, 12))]

    def f(x, y):
        values = [x, y]
        for kind, which, picks in steps:
            a, b = (values[k % len(values)] for k in picks)
            op = (ONE, TWO, MOVES)[kind][which % len((ONE, TWO, MOVES)[kind])]
            values.append(op(a, b if a.shape == b.shape else a) if kind == 1 else op(a))
        return values[-1], values[-2], values[-3][0]

    return f


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(60))
def test_random_programs_on_odd_numbers(seed):
    rng = np.random.default_rng(seed)
    f, shape = random_program(rng), SHAPES[seed % len(SHAPES)]
    compiled = ft.jit(f)
    for _ in range(4):
        x, y = rng.choice(ODD, shape), rng.choice(ODD, shape)
        alike(compiled(x, y), f(x, y))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(40))
def test_random_programs_as_the_steps_of_loops(seed):
    rng = np.random.default_rng(seed)
    f, shape = random_program(rng), SHAPES[seed % len(SHAPES)]

    def step(c, k):
        u, v, w = f(*c)
        return (np.reshape(u, shape), c[0]), (v, w, c[1] * k, c[0], v)

    def scanned(x, y):
        return ft.scan(step, (x, y), np.arange(3.0), reverse=bool(seed % 2))

    def by_hand(x, y):
        c, kept = (x, y), []
        for k in (2.0, 1.0, 0.0) if seed % 2 else (0.0, 1.0, 2.0):
            c, out = step(c, k)
            kept.append(out)
        return c, tuple(np.stack(rows[::-1] if seed % 2 else rows) for rows in zip(*kept))

    def repeated(x, y):
        return ft.while_loop(lambda s: s[2] < 3, lambda s: (*step(s[:2], 1.0)[0], s[2] + 1), (x, y, 0))[:2]

    compiled, again = ft.jit(scanned), ft.jit(repeated)
    for _ in range(3):
        x, y = rng.choice(ODD, shape), rng.choice(ODD, shape)
        alike(compiled(x, y), by_hand(x, y))
        alike(again(x, y), by_hand(x, y)[0])


def orbit(q, p, masses):
    """A planet around a star, by leapfrog; what it passes."""

    def force(q):
        return -masses[0] * q / np.sum(q * q) ** 1.5

    def step(state, _):
        q, p = state
        p = p + 0.01 * force(q)
        q = q + 0.02 * (p @ np.eye(2)) / masses[1]
        return (q, p + 0.01 * force(q)), (q, np.sum(p * p))

    return ft.scan(step, (q, p), None, length=40)


Q, P, M = np.array([1.0, 0.1]), np.array([0.0, 1.1]), np.array([1.0, 1.0])


@pytest.mark.parametrize("transform", [ft.grad, ft.jacfwd, ft.hessian], ids=lambda f: f.__name__)
def test_derivatives_through_a_loop_of_small_states(transform):
    loss = lambda q, p, m: np.sum(orbit(q, p, m)[0][0] ** 3) + np.sum(orbit(q, p, m)[1][1])
    f = transform(loss, (0, 1, 2))
    compiled = ft.jit(f)
    for scale in (1.0, 1.1, 0.9):
        for got, want in zip(ft.tree.leaves(compiled(Q * scale, P, M)), ft.tree.leaves(f(Q * scale, P, M))):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_a_loop_of_small_states_has_no_arrays_in_its_steps():
    compiled = ft.jit(orbit)
    compiled(Q, P, M)
    steps = [line for line in compiled.show().splitlines() if line.startswith("# scan:         ")]
    assert len(steps) > 10
    assert not any(f"{name}(" in line for line in steps for name in ("stack", "multiply", "add", "dot", "array", "tolist"))


def test_what_moves_elements_is_done_when_the_program_is_written():
    def f(x):
        a, b, c = x
        m = fnp.array([[a, -b], [b, a]])
        return (m @ m.T)[::-1, ::-1].reshape(-1)[:3] * c

    compiled = ft.jit(f)
    compiled(np.ones(3))
    text = compiled.show()
    assert not any(f"{name}(" in text for name in ("stack", "reshape", "transpose", "dot", "matmul", "multiply"))
    np.testing.assert_allclose(compiled(np.array([1.0, 2.0, 3.0])), f(np.array([1.0, 2.0, 3.0])), rtol=1e-15)


def test_single_operations_and_larger_arrays_stay_numpys():
    once, larger = ft.jit(lambda x: x * 3), ft.jit(lambda x: (x * 3 + x) * (x - 1) + x * x)
    once(np.ones(4))
    larger(np.ones(elements.FEW + 1))
    assert "multiply(" in once.show()
    assert "multiply(" in larger.show()
    larger(np.ones(elements.FEW))
    assert larger.show().count("multiply(") < 5


def test_results_are_of_numpys_types():
    def f(x, s):
        y = s * 2 + x[0] * s - 1
        return y, y > s, np.reshape(y, (1, 1)), (y > 0) & (s > 0), fnp.asarray(y) * s, x * (s - 1) + y

    compiled = ft.jit(f)
    for s in (np.float64(2), np.float64(-0.0)):
        alike(compiled(np.array([1.0, 2.0]), s), f(np.array([1.0, 2.0]), s))
        alike(compiled(np.array([1.0, 2.0]), s), f(np.array([1.0, 2.0]), s))


def test_zeros_are_divided_by_as_numpy_does():
    f = ft.jit(lambda x, y: np.sqrt(x / y + 1) * 2 + x * y - y)
    x = np.array([1.0, 4.0, 0.5])
    f(x, x)
    assert "quotient" in f.show()
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        np.testing.assert_allclose(f(x, np.array([0.0, 4.0, 0.5])), [np.inf, 2 * np.sqrt(2) + 12, 2 * np.sqrt(2) - 0.25])
    with pytest.warns(RuntimeWarning, match="invalid value encountered in sqrt"):
        assert np.isnan(f(x, np.array([-0.1, 4.0, 0.5]))[0])


def test_sums_of_negative_zeros_are_zeros():
    f = ft.jit(lambda x: (np.sum(x * 1.5 - 0 * x), x @ x[::-1] * 1 + np.sum(-x * x)))
    x = np.array([-0.0, -0.0])
    alike(f(x), f(x))
    assert not np.signbit(f(x)[0])
    assert not np.signbit(ft.jit(lambda x: 1.5 * np.sum(x * 2 * 3 + x))(x))


def test_errors_that_numpy_is_to_raise_are_raised():
    with np.errstate(over="raise"):
        f = ft.jit(lambda x: (x * x + x) * (x - 2) * x)
        f(np.ones(3))
        with pytest.raises(FloatingPointError):
            f(np.full(3, 1e200))


def test_a_program_of_many_small_arrays_is_in_elements_only_in_part(monkeypatch):
    monkeypatch.setattr(elements, "LINES", 1 << 12)

    def f(x, s):
        for k in range(elements.LINES):
            x, s = x * 0.5 + k, s * 0.25 - k
        return x, s, x * s

    compiled = ft.jit(f)
    x = np.array([1.0, 2.0])
    compiled(x, np.float64(3))
    alike(compiled(-x, np.float64(2)), f(-x, np.float64(2)))


def test_states_that_change_places():
    def f(x, y, n):
        def step(c, _):
            a, b, i = c
            return (b, a + 0.5 * b, i + 1), (a, b * i)

        return ft.scan(step, (x, y, n), None, length=5)

    compiled = ft.jit(f)
    for n in (0, 3):
        alike(compiled(Q, P, n), f(Q, P, n))
        alike(compiled(Q, P, n), f(Q, P, n))


def test_whole_numbers_and_truth_values_among_floats():
    def f(x, ks, n):
        def step(c, k):
            y, n, b = c
            z = (y > k) * 1.0
            out = np.maximum(y[0], k), k * 1.0, y * k, 1.0 * k, z, y / n, b & (y > n)
            return (y + np.maximum(y, k) * 1.0 + n * z, n, b & (y[0] > 0)), out

        return ft.scan(step, (x, n, x[0] > 0), ks)

    compiled = ft.jit(f)
    for n in (2, -3):
        alike(compiled(Q, np.arange(1, 4), n), f(Q, np.arange(1, 4), n))
        alike(compiled(Q, np.arange(1, 4), n), f(Q, np.arange(1, 4), n))


def test_a_loop_of_no_steps():
    f = lambda q, xs: ft.scan(lambda c, x: (c * x + x * x - c, (c * x, c[0] > x)), q, xs)
    compiled = ft.jit(f)
    alike(compiled(Q, np.ones(0)), f(Q, np.ones(0)))
    alike(compiled(Q, np.ones(0)), f(Q, np.ones(0)))


OF_MATRICES = {
    "solve": lambda a, b: np.linalg.solve(a, b),
    "batch": lambda a, b: np.linalg.solve(a, np.stack([b, b**2, np.ones_like(b)])),
    "vector": lambda a, b: np.linalg.solve(a, b[:, 0]) + np.linalg.solve(a, b[:, 1]),
    "inv": lambda a, b: np.linalg.inv(a) @ b,
    "det": lambda a, b: np.linalg.det(a) * b,
    "slogdet": lambda a, b: np.linalg.slogdet(a)[0] * b + np.linalg.slogdet(a)[1],
}


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("name", OF_MATRICES)
def test_linear_algebra_of_small_matrices(name, n):
    f = OF_MATRICES[name]
    slope = ft.grad(lambda a, b: np.sum(np.sin(f(a, b))), argnums=(0, 1))
    compiled, compiled_slope, rng = ft.jit(f), ft.jit(slope), np.random.default_rng(n)
    for k in range(12):
        a = rng.normal(size=(n, n)) if k else np.eye(n)[::-1].copy()
        b = rng.normal(size=(n, 2))
        np.testing.assert_allclose(compiled(a, b), f(a, b), rtol=1e-9, atol=1e-11)
        for got, want in zip(compiled_slope(a, b), slope(a, b)):
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9 * np.abs(want).max())
    assert "def program" in compiled.show() and "linalg" not in compiled.show() + compiled_slope.show()
    assert compiled_slope.cache_info()["recorded"] == 1


@pytest.mark.parametrize("f", [np.linalg.solve, lambda a, _: np.linalg.inv(a)])
def test_small_matrices_that_are_refused(f):
    for n in (1, 2, 3):
        for a in (np.zeros((n, n)), np.ones((n, n)) - np.eye(n)[0]):
            compiled = ft.jit(f)
            compiled(-np.eye(n), np.ones((n, 1)))
            with pytest.raises(np.linalg.LinAlgError) as plain:
                f(a, a)
            with pytest.raises(np.linalg.LinAlgError, match=str(plain.value).split(".\n")[0]):
                compiled(a, np.ones((n, 1)))
    np.testing.assert_array_equal(ft.jit(np.linalg.slogdet)(np.ones((3, 3))), [0.0, -np.inf])
    assert ft.jit(np.linalg.det)(np.ones((3, 3))) == 0


def test_equations_with_one_small_matrix_share_its_factors():
    f = ft.jit(lambda s, e: e @ np.linalg.solve(s, e) + np.linalg.slogdet(s)[1] + np.sum(np.linalg.inv(s)))
    f(np.eye(2), np.ones(2))
    assert f.show().count("factors2(") == 1
