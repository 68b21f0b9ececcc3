"""`jit` against the function itself: value, type, dtype and sign of zero, over calls with other data; and whose memory results are."""

import array
import collections
import copy
import math
import warnings

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace.compile.export import to_python
from functrace.compile.optimise import optimise
from functrace.errors import JitWarning
from tests.helpers import alike

Z = np.array([complex(np.inf, 1), complex(-0.0, -1.0), 1 + 2j])
X32 = np.arange(3, dtype=np.float32)
NUMBERS = {
    "a quotient": (lambda a, b: np.divide(a, b), [(1.0, 2.0), (3.0, 4.0), (1.0, 0.0), (0.0, 0.0)]),
    "a product is NumPy's": (lambda a, b: (np.multiply(a, b), np.multiply(a, b) * X32), [(1.0, k) for k in (2.0, 3.0, 4.0, 5.0)]),
    "operators are Python's": (lambda a, b: (a * b, a - b, (a + b) * X32), [(1.0, k) for k in (2.0, 3.0, 4.0, 5.0)]),
    "minus zero taken away": (lambda x: (x - (-0.0), x - np.array(-0.0), x - 0.0, x - 0), [(np.array([-0.0, 0.0, k]),) for k in range(4)]),
    "complex times one": (lambda z: (z * 1, 1.0 * z, z / 1, z - 0), [(Z,), (Z[::-1],), (-Z,), (np.conj(Z),)]),
    "the sign of a zero": (lambda x: math.copysign(2.0, float(x)) * (x + 1), [(k,) for k in (0.0, -0.0, 1.0, 0.0, -0.0)]),
    "the signs in a list": (lambda x: [math.copysign(1.0, v) for v in x.tolist()], [(np.array([0.0, s]),) for s in (0.0, -0.0, 0.0, -0.0)]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_to_their_type_and_sign(name):
    f, calls = NUMBERS[name]
    jitted = ft.jit(f)
    with np.errstate(all="ignore"):
        for args in calls:
            alike(jitted(*args), f(*args))


def test_the_source_tells_the_zeros_apart():
    tape = ft.trace(lambda x: x + math.copysign(1.0, float(x)))(np.float64(0.0))
    space = {}
    exec(to_python(tape), space)
    program = next(f for k, f in space.items() if callable(f))
    assert program(np.float64(0.0)) == 1.0
    with pytest.raises(AssertionError, match="another branch"):
        program(np.float64(-0.0))


def test_a_closed_over_number_that_becomes_minus_zero():
    scale = 0.0
    jitted = ft.jit(lambda x: x * math.copysign(1.0, scale))
    assert jitted(2.0) == 2.0
    scale = -0.0
    assert jitted(2.0) == -2.0


@pytest.mark.parametrize(("before", "after"), [(1, 1.0), (1.0, 1), (1, 1 + 0j), (True, 1), (np.int8(1), 1), (1, np.float32(1))])
def test_a_closed_over_number_that_becomes_one_of_another_type(before, after):
    scale = before
    jitted = ft.jit(lambda x: (x * scale, x * (type(scale) is int)))
    for scale in (before, before, after):  # noqa: B007
        for x in (np.arange(3), np.ones(2, np.int8)):
            alike(jitted(x), jitted.fun(x))


@pytest.mark.parametrize("number", [2.0, 3, 1j, True])
def test_a_python_number_stays_weak_in_a_jitted_function_of_traced_values(number):
    f = ft.jit(lambda x, s: x * s + s)
    want = f.fun(X32, number).dtype
    assert ft.vjp(lambda x: f(x, number), X32)[0].dtype == want
    assert ft.jvp(lambda x: f(x, number), (X32,), (X32,))[0].dtype == want
    assert ft.vmap(lambda x: f(x, number))(X32).dtype == want
    assert ft.vmap(f, (0, None))(X32, number).dtype == want
    assert ft.vmap(ft.jit(ft.vmap(f, (0, None))), (0, None))(X32[None], number).dtype == want


class Scale:
    __hash__ = None

    def __init__(self, k):
        self.k = k

    def __eq__(self, other):
        return True


def test_objects_without_a_hash_do_not_take_each_others_place():
    f = ft.jit(lambda x, scale: x * scale.k)
    assert [f(1.0, Scale(float(k))) for k in range(8)] == [float(k) for k in range(8)]


HELD = {
    "a deque of arrays": (collections.deque([np.ones(2)]), lambda held, k: held.__setitem__(0, np.full(2, k))),
    "an array.array": (array.array("d", [1.0]), lambda held, k: held.__setitem__(0, k)),
    "a memoryview": (memoryview(bytearray(b"a")), lambda held, k: held.__setitem__(0, int(k))),
}


@pytest.mark.parametrize("name", HELD)
def test_a_container_in_a_closure_is_looked_into(name):
    held, change = HELD[name]
    f = ft.jit(lambda x: x * held[0])
    for k in (3.0, 5.0, 7.0):
        change(held, k)
        np.testing.assert_array_equal(f(np.ones(2)), k * np.ones(2))


# Memory


def test_a_row_at_a_traced_place_is_the_callers():
    rows = ft.jit(lambda x: (x * 2)[np.argmax(x[:, 0])])
    whole = ft.jit(lambda x, i: (x[i], x[i, 1:]))
    rng = np.random.default_rng(0)
    given = [rng.normal(size=(4, 3)) for _ in range(5)]
    found = [rows(x) for x in given]
    for x, row in zip(given, found):
        np.testing.assert_array_equal(row, (x * 2)[np.argmax(x[:, 0])])
        assert not any(np.shares_memory(part, x) for part in whole(x, 1))


@pytest.mark.parametrize("f", [lambda x: (x * 2).astype(np.float32), lambda x: (x * 2).copy(), lambda x: np.argsort(x * 2)])
def test_a_large_result_is_a_plain_array_from_the_first_call(f):
    jitted = ft.jit(f)
    assert [type(out) for out in (jitted(np.ones(1 << 16)), jitted(np.ones(1 << 16)), ft.vmap(f)(np.ones((2, 1 << 16))))] == [
        np.ndarray
    ] * 3


def test_no_blank_array_leaves_a_transform():
    y = np.array([0.3, -0.0, -1.2])
    assert type(ft.vmap(lambda y: np.logaddexp(y, np.ones_like(y)))(np.ones((2, 3)))) is np.ndarray

    def filled(x):
        z = fnp.zeros(3)
        z[1] = np.max(x)
        return np.sum(z) + np.sum(x)

    assert type(ft.vmap(filled)(np.ones((2, 3)))) is np.ndarray
    with np.errstate(all="ignore"):  # a derivative that is NaN is computed again, with masks
        assert type(ft.grad(lambda y: np.sum(np.heaviside(y, 1.0)) + np.sum(2 - y) + np.sum(y ** np.abs(2 - y)))(y)) is np.ndarray


# Views at places that are not known, and of one element


def write_row(y, i):
    w = y[i]
    w *= 2
    return y


def read_row_late(y, i):
    w = y[i]
    y[0] = 3.0
    return w


def write_part(y, i):
    w = y[i, 1:]
    w[0] = 5.0
    y[i] += 1.0
    return y


def write_reshaped(y, i):
    w = y[i][::-1].reshape(-1)
    w[1] = 9.0
    return y, w


def write_column(y, i):
    w = y[:, i]
    w += y[:, 0]
    return y


def read_two_late(y, i):
    w = y[i]
    v = w[1:]
    y[i] = np.zeros(3)
    return v, w


def write_element(y, i):
    w = y[..., i, 0]
    w += 2.0
    v = y[1, 1, ...]
    y[1] = 7.0
    return y, w, v * 1.0


def write_squeezed(y, i):
    w = np.squeeze(y[i : i + 1, :1])
    w *= 3.0
    total = np.sum(y)
    before = total
    total += 1.0
    return y, total, before


VIEWS = [write_row, read_row_late, write_part, write_reshaped, write_column, read_two_late, write_element, write_squeezed]


@pytest.mark.parametrize("f", VIEWS)
def test_views_at_traced_places(f):
    rng = np.random.default_rng(1)
    jitted, batched = ft.jit(f), ft.jit(ft.vmap(f))

    def total(y, i):
        return sum(np.sum(np.sin(part)) for part in ft.tree.leaves(f(y * 1.0, i)))

    eager, compiled = ft.grad(total), ft.grad(ft.jit(total))
    for k in range(4):
        y, i = rng.normal(size=(3, 3)), (2, 0, 1, 2)[k]
        want = ft.tree.leaves(f(y.copy(), i))
        for found in (jitted(y, i), jitted(y, np.int64(i)), ft.vjp(lambda y, i=i: f(y * 1.0, i), y)[0]):
            for a, b in zip(ft.tree.leaves(found), want):
                np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(compiled(y, i), eager(y, i), rtol=1e-12)
        ys, places = rng.normal(size=(4, 3, 3)), rng.integers(0, 3, 4)
        if f is write_squeezed:
            continue  # whose slice at a place is one shape for each
        stacked = [np.stack(parts) for parts in zip(*(ft.tree.leaves(f(y.copy(), i)) for y, i in zip(ys, places)))]
        for found in (ft.vmap(f)(ys, places), batched(ys, places)):
            for a, b in zip(ft.tree.leaves(found), stacked):
                np.testing.assert_allclose(a, b)


# Errors of floating-point operations


def test_what_the_function_says_of_floating_point_errors_holds_in_replays():
    def quiet(x):
        y = x * 2
        with np.errstate(divide="ignore"):
            return np.log(x) + y

    jitted = ft.jit(quiet)
    for k in range(4):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = jitted(np.array([0.0, k + 1.0]))
        np.testing.assert_array_equal(found, [-np.inf, np.log(k + 1.0) + 2 * (k + 1)])
    assert jitted.cache_info()["hits"] == 3
    loud = ft.jit(lambda x: np.log(x) + 2 * x)
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="divide"):
            loud(np.array([0.0]))


def test_an_error_that_the_function_asks_for_is_raised_in_each_call():
    def guarded(x):
        with np.errstate(divide="raise"):
            try:
                return 1 / x
            except FloatingPointError:
                return np.full_like(x, -1.0)

    jitted = ft.jit(guarded)
    with pytest.warns(JitWarning, match="errstate"):
        jitted(np.array([1.0, 2.0]))
    for k in (0.0, 1.0, 0.0, 4.0):
        alike(jitted(np.array([k, 2.0])), guarded(np.array([k, 2.0])))


# Programs


def test_masks_of_masks_go():
    def f(x):
        return np.where(x > 0, np.sqrt(x), 0).sum()

    jitted = ft.jit(ft.grad(f))
    for x in (np.ones(4), np.zeros(4), np.array([0.0, 1.0, 4.0, 0.0])):
        np.testing.assert_array_equal(jitted(x), ft.grad(f)(x))
    longest = max((optimise(p) for p in jitted.programs()), key=lambda p: len(p.instructions))
    names = [i.primitive.name for i in longest.instructions]
    assert (names.count("where"), names.count("greater")) == (3, 1)
    assert not {"not_equal", "bitwise_or"} & set(names)


def test_a_choice_that_is_not_one_is_kept():
    calls = [np.array([-1.0, 0.0, 2.0]) * s for s in (1, -1, 2, 3)]
    for f in (
        lambda x: np.where(np.array([True, False, True]), x, 0.0),
        lambda x: np.where(x, x + 1, np.array([2.0, 3.0, 4.0])),
        lambda x: np.where(x > 0, np.array([1.0, 0.0, 1.0]), 0.0) != 0,
        lambda x: np.where(x > 0, 1.0, -0.0) != 0,
        lambda x: (x > 0) | (x < -1),
        lambda x: x != 0,
        lambda x: (x > 0) != 1,
    ):
        jitted = ft.jit(f)
        for x in calls:
            alike(jitted(x), f(x))


@pytest.mark.parametrize("ufunc", [np.logaddexp, np.logaddexp2, np.hypot, np.fmax, np.fmin])
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.float32])
def test_ufuncs_are_reduced_over_integers(ufunc, dtype):
    x = np.array([[1, 0, 2], [3, 1, 1]]).astype(dtype)
    jitted = ft.jit(lambda x, where: (ufunc.reduce(x, axis=1), ufunc.reduce(x, axis=1, where=where, initial=0)))
    where = np.array([True, False, True])
    for _ in range(2):
        for found, wanted in zip(jitted(x, where), jitted.fun(x, where)):
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-2 if found.dtype == np.float16 else 1e-6)


def test_the_state_of_the_generators_is_compared_without_being_printed():
    rng = np.random.RandomState(0)
    still, drawing = ft.jit(lambda x: x + (rng is not None)), ft.jit(lambda x: x + rng.rand())
    before = copy.deepcopy(rng.get_state(legacy=False))
    assert still(1.0) == 2.0 and still.cache_info()["eager"] == 0
    np.testing.assert_array_equal(rng.get_state(legacy=False)["state"]["key"], before["state"]["key"])
    with pytest.warns(JitWarning, match="random"):
        assert len({float(drawing(0.0)) for _ in range(3)}) == 3


def test_a_replay_does_not_warn_of_what_a_derivative_divides_by():
    jitted = ft.jit(ft.grad(lambda x: np.where(x > 0, np.sqrt(x), 0).sum()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (np.ones(3), np.zeros(3), np.array([0.0, 4.0, 0.0]), np.zeros(3)):
            np.testing.assert_array_equal(jitted(x), [0.5 / np.sqrt(v) if v else 0.0 for v in x])


# Arithmetic


V = np.array([0.5, -1.2, 2.0])
SMALL = np.array([1, 2, 250], np.uint8)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: np.sum(-y),
        lambda x, y: x + -y,
        lambda x, y: -x * -y,
        lambda x, y: -y * V,
        lambda x, y: -y / -x,
        lambda x, y: -y / V,
    ],
)
def test_the_negative_of_a_small_integer_wraps_round(f):
    jitted = ft.jit(f)
    for _ in range(2):
        alike(jitted(np.arange(1, 4), SMALL), f(np.arange(1, 4), SMALL))


PYTHONS = {
    "shifts": (lambda n: (1 << n, n >> 1, n & 3, n | 8, n ^ 5, ~n), [(3,), (5,), (70,)]),
    "round": (lambda x: (round(x), round(x, 2), divmod(x, 2), divmod(7, x)), [(2.675,), (2.6751,), (3.5,)]),
    "signs": (lambda x: (np.negative(np.negative(x)), V.astype(np.float32) + -np.negative(x)), [(3.0,), (4.0,)]),
    "large": (lambda n: n * n + 1, [(10**30,), (3,)]),
    "parts": (
        lambda z: (z.real, z.imag * X32, np.real(z), np.imag(z), z.conjugate(), z.conjugate() * X32),
        [(1 + 2j,), (2.5,), (3,), (True,), (3 - 1j,), (1.5,)],
    ),
    "copies": (lambda n: copy.deepcopy({"n": n})["n"] * X32 + copy.copy(n), [(0.1,), (3.0,), (2,)]),
    "their dtype": (lambda n: [X32.astype(np.result_type(n, dtype)) for dtype in (X32, np.uint8)], [(2.0,), (1j,), (3,)]),
    "an axis": (lambda a: np.sum(np.ones((2, 3)) * (a + 2), axis=a), [(0,), (1,), (-1,), (0,)]),
    "names": (lambda p, i: p[f"w{i}"] * 2, [({"w1": 1.0, "w2": 5.0}, 1), ({"w1": 1.0, "w2": 5.0}, 2), ({"w1": 3.0, "w2": 5.0}, 1)]),
    "text": (lambda i: f"layer {i:03d} of {i}", [(1,), (2,), (1,)]),
    "a place": (lambda x: {"0": x, "1": 3 * x, "2": -x}[str(np.argmax(x))], [(V,), (-V[::-1],), (V[::-1],)]),
}


@pytest.mark.parametrize("name", PYTHONS)
def test_python_numbers_are_what_they_are_in_python(name):
    f, calls = PYTHONS[name]
    jitted = ft.jit(f)
    for args in calls:
        alike(jitted(*args), f(*args))


def test_parts_of_python_numbers_are_written():
    jitted = ft.jit(lambda z: (z.real * X32, z.imag, z.conjugate() * X32))
    jitted(1 + 2j)
    (program,) = jitted.programs()
    exec(to_python(program), namespace := {})
    alike(namespace["f"](3 - 4j), (3.0 * X32, -4.0, (3 + 4j) * X32))


@pytest.mark.parametrize("limits", [(-1, 5), (-300, 300), (2, None), (None, 1000), (-1.5, 5), (np.int8(-1), 5), (True, 4)])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint64, np.float32, bool])
def test_limits_that_the_dtype_can_not_hold(limits, dtype):
    x = np.array([0, 1, 7, 100]).astype(dtype)
    clipped = lambda x: (np.clip(x, *limits), x.clip(*limits))
    try:
        clipped(x)
    except OverflowError as error:
        pytest.skip(f"NumPy before 2.1 refuses them itself: {error}")
    for transform in (lambda f: f, ft.vmap):
        jitted = ft.jit(transform(clipped))
        for _ in range(2):
            alike(jitted(x), clipped(x))
    alike(ft.vmap(clipped)(x), clipped(x))
    given = ft.jit(np.clip)
    if None not in limits:
        for _ in range(2):
            alike(given(x, *limits), np.clip(x, *limits))


@pytest.mark.parametrize("x", [np.bool_(True), np.array([True, False]), np.array(True), np.int8(3), np.float32(1.5), 1.5, True])
@pytest.mark.parametrize("n", [0, 1, 2, 3, True])
def test_powers_of_truths_and_scalars_are_numpys(x, n):
    jitted = ft.jit(f := lambda x: x**n)
    for _ in range(2):
        alike(jitted(x), f(x))
    if isinstance(x, (np.ndarray, np.generic)):
        alike(ft.vmap(f)(np.stack([x, x])), np.stack([f(x[()]), f(x[()])]))


def test_a_rounded_scalar_is_an_integer():
    f = lambda x: (round(x) * X32, [1.0, 2.0, 3.0, 4.0][round(x)], round(x, 1))
    jitted = ft.jit(f)
    for x in (np.float64(1.26), np.float32(2.5), np.float64(2.9)):
        alike(jitted(x), f(x))
        alike(ft.vjp(lambda x: f(x)[0], x)[0], f(x)[0])
    alike(ft.vmap(f)(np.array([0.2, 2.6])), [np.stack(column) for column in zip(f(np.float64(0.2)), f(np.float64(2.6)))])
    for g in (round, lambda x: round(x, 1)):
        for x in (V, np.array(1.5)):
            with pytest.raises(TypeError, match="__round__"):
                ft.vjp(g, x)


CATCHES = {
    "inv": (np.linalg.LinAlgError, np.linalg.inv, np.diag([2.0, 4.0]), np.zeros((2, 2))),
    "cholesky": (np.linalg.LinAlgError, lambda x: np.linalg.cholesky(x) * 2, np.diag([2.0, 4.0]), -np.eye(2)),
    "log": (FloatingPointError, np.errstate(all="raise")(np.log), V + 3, V * 0),
    "quotient": (FloatingPointError, np.errstate(all="raise")(lambda x: 1.0 / x + x), V + 3, V * 0),
    "take": (IndexError, lambda x: fnp.take(np.array([5.0, 6.0]), x), np.array([0, 1]), np.array([1, 2])),
    "a Python number": (ZeroDivisionError, lambda x: 1 / x, 2.0, 0.0),
    "int": (ValueError, lambda x: x * int(x), 2.0, np.nan),
    "power": (ValueError, lambda n: 2 ** n, np.array([1, 3]), np.array([-1, 3])),
}  # fmt: skip


@pytest.mark.parametrize("name", CATCHES)
@pytest.mark.parametrize("first", [2, 3])
def test_an_error_that_the_function_catches_is_no_part_of_the_program(name, first):
    error, op, good, bad = CATCHES[name]

    def f(x):
        try:
            return op(x)
        except error:
            return x * 0 - 1

    jitted = ft.jit(f)
    order = (good, bad, good) if first == 2 else (bad, good, bad)
    with pytest.warns(JitWarning, match=r"catches|errstate"):
        found = [jitted(x) for x in order]
    for got, x in zip(found, order):
        np.testing.assert_array_equal(got, f(x))


def is_positive(x):
    try:
        np.linalg.cholesky(x)
        return x * 2
    except np.linalg.LinAlgError:
        return x * 0


def is_a_place(x):
    try:
        fnp.take(np.arange(3.0), x.astype(int))
    except IndexError:
        return -x
    return x * 2


def is_no_zero(x):
    try:
        1 / x
        return x * 2
    except ZeroDivisionError:
        return -1.0


@pytest.mark.parametrize(
    ("f", "good", "bad"), [(is_positive, np.eye(2), -np.eye(2)), (is_a_place, V * 0 + 2, V * 0 + 3), (is_no_zero, 2.0, 0.0)]
)
def test_an_operation_that_is_done_for_its_error_is_done_in_each_call(f, good, bad):
    slope = lambda x: ft.grad(lambda x: np.sum(f(x)))(x)
    for g in (f, slope) if f is not is_no_zero else (f,):
        jitted = ft.jit(g)
        for _ in range(2):
            np.testing.assert_array_equal(jitted(good), g(good))
        assert jitted.cache_info()["hits"] == 1
        with pytest.warns(JitWarning, match="catches"):
            np.testing.assert_array_equal(jitted(bad), g(bad))
        np.testing.assert_array_equal(jitted(good), g(good))


@pytest.mark.parametrize("n", [0.5, -1, 2, 2.0, 3])
def test_powers_of_complex_numbers_are_numpys(n):
    f = lambda x: x**n
    x = np.array([complex(-4, -0.0), -4 + 0j, complex(np.inf, 1), 1 + 2j, complex(0, np.inf), 0])
    with np.errstate(all="ignore"):
        for got in (ft.jit(f)(x), ft.vjp(f, x)[0], ft.vmap(f)(x), ft.jit(ft.vmap(f))(x)):
            np.testing.assert_array_equal(got, f(x))
    ft.check_grads(f, np.array([1 + 2j, -1 + 0.5j, -2 - 1j]))


def test_a_power_of_integers_is_an_integer_or_a_float():
    jitted = ft.jit(lambda n, m: n**m)
    for args in ((2, 3), (2, -1), (3, 2), (4, -1)):
        assert repr(jitted(*args)) == repr(args[0] ** args[1])
    assert jitted.cache_info() == {"signatures": 1, "paths": 2, "hits": 2, "recorded": 2, "eager": 0}


@pytest.mark.parametrize("n", [3, 40_000])
@pytest.mark.parametrize("condition", [lambda s: s > 0, lambda s: s, lambda s: np.logical_not(s)])
def test_a_choice_by_a_python_number(n, condition):
    x = np.linspace(-1.0, 1.0, n)
    f = lambda s, x: np.where(condition(s), x * 2, -x) + np.where(x > s, s, x)
    jitted = ft.jit(f)
    for s in (1.0, 0.0, -0.5, 2, 0):
        np.testing.assert_array_equal(jitted(s, x), f(s, x))
    assert jitted.cache_info()["hits"] == 3


def test_text_with_a_traced_value_in_it_is_not_frozen():
    jitted = ft.jit(lambda x: (x * 2, f"loss {np.sum(x):.2f}"))
    with pytest.warns(UserWarning, match="returns the text 'loss 1.30'"):
        assert jitted(V)[1] == "loss 1.30"
    assert jitted(2 * V)[1] == "loss 2.60"


def test_text_in_a_result_has_no_derivative():
    jitted = ft.jit(lambda x: (np.sum(x * x), {"name": "loss", "x": x}))
    for _ in range(2):
        gradient, aux = ft.grad(jitted, has_aux=True)(V)
        np.testing.assert_array_equal(gradient, 2 * V)
        assert aux["name"] == "loss"
        np.testing.assert_array_equal(ft.jvp(lambda x: jitted(x)[0], (V,), (V,))[1], 2 * np.sum(V * V))
        np.testing.assert_array_equal(ft.vmap(ft.grad(lambda x: jitted(x)[0]))(V[:, None]), 2 * V[:, None])
    np.testing.assert_array_equal(ft.hessian(lambda x: jitted(x)[0])(V), 2 * np.eye(V.size))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scalars_by_pythons_operators(dtype):
    """Python's operators take a tenth of a ufunc's time for NumPy's scalars, also beside whole numbers."""

    def f(v):
        x = v[0]
        return 2 * np.square(x) - 3, 1 / x, 7 - np.negative(x), np.abs(x), np.isfinite(x), x > 2, (x == 0) | (x < -1)

    g = ft.jit(f)
    g(np.ones(2, dtype))
    assert not any(f"{name}(" in g.show() for name in ("multiply", "square", "negative", "absolute", "isfinite", "greater", "divide"))
    with np.errstate(all="ignore"):
        for x in (0.0, -0.0, 1.5, -2.0, 1e30, np.inf, -np.inf, np.nan):
            alike(g(np.full(2, x, dtype)), f(np.full(2, x, dtype)))
