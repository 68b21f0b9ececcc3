"""Python's `if` under `vmap`: the batch is split by branch, and the results joined."""

import math
import operator

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace import errors

XS = np.array([-1.0, 2.0, 0.0, -3.0])


def absolute(x):
    return x if x > 0 else -x


def test_an_if_is_abs():
    np.testing.assert_array_equal(ft.vmap(absolute)(XS), np.abs(XS))


def test_its_gradient_inside_and_outside():
    expected = np.where(XS > 0, 1.0, -1.0)
    np.testing.assert_array_equal(ft.vmap(ft.grad(absolute))(XS), expected)
    np.testing.assert_array_equal(ft.grad(lambda x: ft.vmap(absolute)(x).sum())(XS), expected)
    np.testing.assert_array_equal(ft.jacfwd(ft.vmap(absolute))(XS), np.diag(expected))


@pytest.mark.parametrize("axes", [(0, 0), (0, 1), (1, 0)])
def test_nested_batches_split_one_by_one(axes):
    x = np.arange(-6.0, 6.0).reshape(3, 4)
    outer, inner = axes
    out = ft.vmap(ft.vmap(absolute), in_axes=outer, out_axes=outer)(x if outer == 0 else x) if inner == 0 else ft.vmap(ft.vmap(absolute))(x)
    np.testing.assert_array_equal(out, np.abs(x))


def test_an_inner_batch_against_an_outer_value():
    rows, columns = np.arange(3.0), np.arange(4.0)
    out = ft.vmap(lambda a: ft.vmap(lambda b: a * b if a > b else a + b)(columns))(rows)
    np.testing.assert_array_equal(out, [[a * b if a > b else a + b for b in columns] for a in rows])


def test_a_loop_of_a_different_length_for_each():
    def collatz(n):
        k = 0
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            k += 1
        return k

    numbers = np.array([1, 2, 3, 7, 9])
    np.testing.assert_array_equal(ft.vmap(collatz)(numbers), [collatz(n) for n in numbers.tolist()])


def test_int_and_index_split_too():
    np.testing.assert_array_equal(ft.vmap(lambda x: x * int(x))(np.array([1.5, 2.5])), [1.5, 5.0])
    np.testing.assert_array_equal(ft.vmap(lambda i: [10.0, 20.0][i])(np.array([1, 0, 1])), [20.0, 10.0, 20.0])


def test_truths_and_integers_split_however_python_asks_for_them():
    x = np.array([1.5, -2.5, 3.0])
    reads = [bool, int, float, complex, np.float64, np.asarray, math.sqrt, lambda k: k.item(), lambda k: k.reshape(1).tolist()[0]]
    for read in reads:
        f = lambda x, read=read: x * read(np.sum(x) > 0)
        np.testing.assert_array_equal(ft.vmap(f)(x), [f(v) for v in x])
        np.testing.assert_array_equal(ft.jit(ft.vmap(ft.vmap(f)))(x[None]), [[f(v) for v in x]])
    for read in (int, float, complex, operator.index, math.sqrt, lambda k: k.item()):
        f = lambda x, read=read: x * read(np.abs(np.round(x)).astype(int))
        np.testing.assert_array_equal(ft.vmap(f)(x), [f(v) for v in x])
    for read in (float, complex, math.sqrt, lambda v: v.item(), lambda v: v.tolist()):  # what has a derivative is not cut off
        with pytest.raises(errors.ConversionError):
            ft.vmap(read)(x)


CATCHES = {
    "inv": (np.linalg.LinAlgError, np.linalg.inv, np.stack([np.zeros((2, 2)), *(k * np.eye(2) for k in range(6))])),
    "warning": (RuntimeWarning, lambda x: np.log(x) / x, np.array([1.0, 0.0, 2.0, 3.0, 0.0])),
    "log": (FloatingPointError, np.errstate(all="raise")(np.log), np.array([1.0, 0.0, 2.0, 3.0, 0.0])),
    "quotient": (FloatingPointError, np.errstate(all="raise")(lambda x: 1.0 / x + x / (x - 3)), np.array([1.0, 0.0, 2.0, 3.0, 0.0])),
    "sum": (FloatingPointError, np.errstate(all="raise")(lambda x: x / np.sum(x)), np.array([[1e308, 1e308], [1.0, 2.0]])),
    "take": (IndexError, lambda x: x + fnp.take(np.array([5.0, 6.0, 7.0]), x.astype(int)), np.array([1.0, 3.0, 2.0])),
}


@pytest.mark.parametrize("name", CATCHES)
def test_an_error_of_some_examples_is_theirs_alone(name):
    error, op, xs = CATCHES[name]

    def f(x):
        try:
            return op(x)
        except error:
            return np.sum(x * 0 - 1) + 0 * x

    wanted = [f(x) for x in xs]
    np.testing.assert_array_equal(ft.vmap(f)(xs), wanted)
    np.testing.assert_array_equal(ft.vmap(ft.vmap(f))(np.stack([xs, xs])), [wanted, wanted])
    slopes = [ft.grad(lambda x: np.sum(f(x)))(x) for x in xs]
    np.testing.assert_array_equal(ft.vmap(ft.grad(lambda x: np.sum(f(x))))(xs), slopes)
    np.testing.assert_array_equal(ft.grad(lambda xs: np.sum(ft.vmap(f)(xs)))(xs), slopes)
    with pytest.raises(error):
        ft.vmap(op)(xs)


def test_each_way_is_run_once():
    calls = []

    def f(x):
        calls.append(x.shape)
        return x if x > 0 else -x

    ft.vmap(f)(np.linspace(-1, 1, 100))
    assert len(calls) == 3  # the whole batch up to the branch, then each part


def test_arguments_that_are_not_batched_stay_whole():
    x, y = np.arange(-2.0, 2.0), np.array([1.0, 10.0])
    out = ft.vmap(lambda a, b: a * b if a > 0 else b, in_axes=(0, None))(x, y)
    np.testing.assert_array_equal(out, [a * y if a > 0 else y for a in x])


def test_pytrees_and_branches_without_the_batch():
    out = ft.vmap(lambda d: {"y": d["x"] ** 2, "n": 1} if d["x"] < 0 else {"y": d["x"], "n": 2})({"x": XS})
    np.testing.assert_array_equal(out["y"], np.where(XS < 0, XS**2, XS))
    np.testing.assert_array_equal(out["n"], np.where(XS < 0, 1, 2))


def test_finally_runs_and_an_except_exception_does_not_swallow_the_split():
    ended = []

    def f(x):
        try:
            return x if x > 0 else -x
        except Exception:
            return x * np.nan
        finally:
            ended.append(1)

    np.testing.assert_array_equal(ft.vmap(f)(XS), np.abs(XS))
    assert len(ended) == 3


def test_an_empty_batch_takes_a_branch():
    assert ft.vmap(absolute)(np.zeros(0)).shape == (0,)


def test_the_truth_of_an_array_stays_ambiguous():
    with pytest.raises(ValueError, match="ambiguous"):
        ft.vmap(lambda x: 1.0 if x else 0.0)(np.ones((2, 3)))


def test_a_boolean_index_splits_by_the_mask():
    x = np.array([[1.0, -1.0, 4.0], [-1.0, 9.0, 16.0], [1.0, -1.0, 9.0]])
    np.testing.assert_array_equal(ft.vmap(lambda x: np.sqrt(x[x > 0]).sum())(x), [3.0, 7.0, 4.0])
    np.testing.assert_array_equal(ft.vmap(ft.grad(lambda x: (x[x > 0] ** 2).sum()))(x), np.where(x > 0, 2 * x, 0))


def test_so_does_one_of_a_plain_array():
    x, weights = np.array([[1.0, -1.0, 4.0], [-1.0, 9.0, 16.0], [1.0, -1.0, 9.0]]), np.array([1.0, 2.0, 4.0])

    def f(x):
        kept = np.zeros(3)
        kept[x > 0] = 1.0
        return (x[x > 0] * weights[x > 0]).sum() + (kept * x).sum()

    expected = np.where(x > 0, x * (weights + 1), 0).sum(1)
    for g in (ft.vmap(f), ft.jit(ft.vmap(f)), ft.vmap(ft.jit(f))):
        for _ in range(2):
            np.testing.assert_array_equal(g(x), expected)
    np.testing.assert_array_equal(ft.vmap(ft.grad(f))(x), np.where(x > 0, weights + 1, 0))
    with pytest.raises(ft.errors.ConversionError, match="functrace.numpy.take"):
        ft.vmap(lambda x: weights[np.argsort(x)])(x)


SIZED = {  # what NumPy takes plain numbers for, of a vector of 8 and a number that depends on it
    "delete": lambda x, n: np.delete(x, n),
    "delete several": lambda x, n: np.delete(x, [n, 0]),
    "insert": lambda x, n: np.insert(x, n, x[1]),
    "pad": lambda x, n: np.pad(x, ((n, 1),)),
    "partition": lambda x, n: np.partition(x, n)[n],
    "repeat": lambda x, n: np.repeat(x, n),
    "resize": lambda x, n: np.resize(x, (n, 3)),
    "roll": lambda x, n: np.roll(x, n),
    "roll back": lambda x, n: np.roll(x.reshape(2, 4), -n, axis=1),
    "roll both": lambda x, n: np.roll(x.reshape(2, 4), (n, 1), axis=(0, 1)),
    "sliding_window_view": lambda x, n: np.lib.stride_tricks.sliding_window_view(x, n + 1),
    "split": lambda x, n: np.split(x, [n])[1],
    "split evenly": lambda x, n: np.split(x, 4 // (n // 3 + 1))[1],
    "tile": lambda x, n: np.tile(x, n),
    "triu": lambda x, n: np.triu(np.outer(x, x), n - 2),
}


@pytest.mark.parametrize("name", SIZED)
def test_a_size_or_position_that_is_computed(name):
    """Under `jit` it is the same path again where the number is; under `vmap` the batch is split by it."""
    weighted = lambda y: (np.sin(y) * np.arange(1.0, y.size + 1).reshape(y.shape)).sum()
    f = lambda x: weighted(SIZED[name](x, np.argmax(x)))
    rows = np.array([[0.1, 0.9, 0.3, 0.2], [0.2, 0.3, 0.4, 0.7], [0.4, 0.8, 0.1, 0.0]])
    rows = np.concatenate([rows, rows / 7 + 0.01], axis=1)
    values, slopes = [f(x) for x in rows], [ft.grad(f)(x) for x in rows]
    for x, slope in zip(rows, slopes):
        np.testing.assert_allclose(slope, [(f(x + e) - f(x - e)) / 2e-6 for e in 1e-6 * np.eye(8)], atol=1e-8)
    np.testing.assert_allclose(ft.vmap(f)(rows), values)
    np.testing.assert_allclose(ft.vmap(ft.grad(f))(rows), slopes)
    np.testing.assert_allclose(ft.grad(lambda r: ft.vmap(f)(r).sum())(rows), slopes)
    jitted, slope = ft.jit(f), ft.jit(ft.grad(f))
    for _ in range(2):
        np.testing.assert_allclose([jitted(x) for x in rows], values)
        np.testing.assert_allclose([slope(x) for x in rows], slopes)
    assert jitted.cache_info()["eager"] == slope.cache_info()["eager"] == 0


def test_a_roll_is_neither_split_nor_recorded_again():
    runs = []
    f = lambda x, n: runs.append(1) or np.roll(x, n)
    x, shifts = np.arange(5.0), range(-3, 9)
    want = [np.roll(x, n) for n in shifts]
    np.testing.assert_array_equal(ft.vmap(f)(np.tile(x, (len(shifts), 1)), np.array(shifts)), want)
    jitted = ft.jit(f)
    np.testing.assert_array_equal([jitted(x, n) for n in shifts], want)
    assert len(runs) == 2


def _bare(x):
    try:
        return x if x > 0 else -x
    except:  # noqa: E722  # what people write
        return x * 100


def _finally(x):
    try:
        y = x if x > 0 else -x
    finally:
        y = y + 0
    return y


def _base(x):
    y = x * 100
    try:
        y = x if x > 0 else -x
    except BaseException:
        pass
    return y


@pytest.mark.parametrize("f", [_bare, _finally, _base])
def test_a_split_is_not_hidden_by_a_function_that_catches_everything(f):
    x = np.array([-1.0, 2.0, -3.0])
    np.testing.assert_array_equal(ft.vmap(f)(x), np.abs(x))
    np.testing.assert_array_equal(ft.vmap(ft.grad(f))(x), np.sign(x))
    np.testing.assert_array_equal(ft.vmap(ft.vmap(f))(np.stack([x, -x])), np.abs([x, x]))
    np.testing.assert_array_equal(ft.vmap(lambda r: np.sum(ft.vmap(f)(r)))(np.stack([x, -x])), [6.0, 6.0])


@pytest.mark.parametrize("shape", [(3, 1), (3, 2), (3, 1, 1)])
def test_a_mask_is_of_one_shape_whether_a_batch_is_recorded_or_not(shape):
    x = np.linspace(0.5, 2.0, 3 * shape[1]).reshape(shape)
    for f in (lambda x: x[x > 0], lambda x: np.add.outer(x[x > 0], x.ravel())):
        np.testing.assert_array_equal(ft.jit(ft.vmap(f))(x), [f(row) for row in x])
