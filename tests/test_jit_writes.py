"""jit: writes done in the place of what they change, donated arguments, and Python integers under grad."""

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace.compile.merge import TAKEN, gathered, reads_first
from functrace.compile.optimise import optimise
from functrace.errors import JitWarning
from functrace.ops import index
from functrace.ops.positions import add_in, known_places
from tests.helpers import MODES, names_of, same_in

X = np.array([0.3, -0.7, 1.2])


def recurrence(x):
    y = fnp.zeros(x.size)
    y[0] = x[0]
    for k in range(1, x.size):
        y[k] = 0.9 * y[k - 1] + x[k]
    return y


def reads_between(x):
    y = x * 2
    y[1:3] += x[:2]
    first = y[:2]
    y[0] = 7.0
    y[2:] *= first.sum()
    return y, first


def aliased(x):
    y = x + 0.0
    y[1:] = y[:-1]
    z = y
    z[0] = z[-1]
    return y * z


def fancy(x):
    y = x * 1.5
    y[[0, 0, 2]] += x[:3]
    y[np.array([True, False, True, False, False])] = -1.0
    return y


def kept(x):
    y = x * 2
    before = y.copy()
    y[0] = 0.0
    return before, y, y[1:]


@pytest.mark.parametrize("f", [recurrence, reads_between, aliased, fancy, kept], ids=lambda f: f.__name__)
def test_writes_in_place_give_what_the_function_gives(f, rng):
    jitted = ft.jit(f)
    loss = lambda x: sum(np.sum(np.sin(y)) for y in ft.tree.leaves(f(x)))
    gradient, slope = ft.jit(ft.grad(loss)), ft.grad(loss)
    for _ in range(3):
        x = rng.normal(size=5)
        given = x.copy()
        for got, want in zip(ft.tree.leaves(jitted(x)), ft.tree.leaves(f(x))):
            assert np.array_equal(got, want)
        assert np.allclose(gradient(x), slope(x), rtol=1e-14)
        assert np.array_equal(x, given)
    assert jitted.cache_info()["recorded"] == gradient.cache_info()["recorded"] == 1


def test_results_of_writes_are_the_callers_own(rng):
    jitted = ft.jit(lambda x: reads_between(x)[0])
    x = rng.normal(size=5)
    first = jitted(jitted(x))
    kept = first.copy()
    second = jitted(x)
    second[:] = 0
    assert np.array_equal(first, kept)
    assert not np.shares_memory(first, jitted(x))


def test_only_the_first_write_of_a_chain_copies():
    for jitted in (ft.jit(recurrence), ft.jit(ft.grad(lambda x: np.sum(recurrence(x) ** 2)))):
        jitted(np.ones(12))
        lines = jitted.show().split("\n")
        assert sum("= set_in" in line for line in lines) >= 5
        assert sum("= index_set" in line or "= index_add" in line for line in lines) <= 2


def test_a_write_to_what_is_read_later_copies():
    def f(x):
        y = x * 2
        return y.at[0].set(1.0), y, np.sum(y)

    jitted = ft.jit(f)
    jitted(np.ones(3))
    changed, y, total = jitted(np.arange(3.0))
    assert changed.tolist() == [1.0, 2.0, 4.0] and y.tolist() == [0.0, 2.0, 4.0] and total == 6.0


def test_passes():
    jitted = ft.jit(ft.grad(lambda x: np.sum(recurrence(x) ** 2)))
    jitted(np.ones(4))
    (program,) = jitted.programs()
    assert "placed" in names_of(program) and "placed" not in names_of(optimise(program))
    after = gathered(program)
    assert names_of(after).count("index_add") == names_of(program).count("placed") - 1  # the first, to which the others are added
    x = np.arange(4.0)
    assert np.array_equal(program(x)[0], after(x)[0])

    def f(x):
        y = x * 2
        changed = y.at[0].set(1.0)
        return changed * np.sum(y[1:])

    jitted = ft.jit(f)
    jitted(np.ones(5))
    (program,) = jitted.programs()
    x = np.arange(5.0)
    after = reads_first(program)
    assert np.array_equal(program(x)[0], after(x)[0])
    assert names_of(program) == ["multiply", "index_set", "getitem", "sum", "multiply"]
    assert names_of(after) == ["multiply", TAKEN.name, "index_set", "sum", "multiply"]


def step(params, grads):
    return {k: params[k] - 0.1 * grads[k] for k in params}


@pytest.mark.parametrize("n", [4, 50_000])
def test_donated_arrays_take_the_results(n):
    jitted = ft.jit(step, donate_argnums=0)
    make = lambda: {"b": np.ones(n), "w": np.ones((n, 2))}
    jitted(make(), make())
    params, grads = make(), make()
    out = jitted(params, grads)
    assert out["w"] is params["w"] and out["b"] is params["b"]
    assert np.allclose(out["w"], 0.9) and np.allclose(out["b"], 0.9)
    assert np.all(grads["w"] == 1)


@pytest.mark.parametrize("n", [4, 50_000])
def test_a_donated_array_takes_one_result(n):
    def f(x):
        y = np.exp(x)
        return np.cos(y), np.sin(y), y @ y

    jitted = ft.jit(f, donate_argnums=0)
    for _ in range(3):
        given = np.arange(n) / n
        wanted = f(given)
        out = jitted(given)
        assert not np.shares_memory(out[0], out[1])
        for a, b in zip(out, wanted):
            np.testing.assert_allclose(a, b, rtol=1e-12)
    assert out[0] is given or out[1] is given


def test_a_donated_array_is_read_before_the_limit_of_a_maximum_is_put_in_its_place():
    def f(x):
        return fnp.sin(x) * 2, fnp.maximum(x, 0.5)

    x = np.linspace(-1, 2, 60_000, dtype=np.float32)
    jitted = ft.jit(f, donate_argnums=0)
    for _ in range(3):
        given = x.copy()
        out = jitted(given)
        for a, b in zip(out, f(x)):
            np.testing.assert_array_equal(a, b)
    assert out[1] is given


def test_donated_arrays_that_may_not_be_written_to_are_copied():
    jitted = ft.jit(step, donate_argnums=(0,))
    one = {"w": np.ones(4)}
    jitted(one, one)
    fixed = np.ones(4)
    fixed.flags.writeable = False
    whole = np.ones(8)
    strided = np.ones(8)[::2]
    twice = np.ones(4)
    for x, g in ((fixed, np.ones(4)), (whole[:4], np.ones(4)), (strided, np.ones(4)), (twice, twice)):
        out = jitted({"w": x}, {"w": g})["w"]
        assert np.allclose(out, 0.9) and np.all(x == 1) and not np.shares_memory(out, x)
    assert np.all(whole == 1)


def test_an_error_on_donated_arrays_is_raised():
    """The function can't be run in place of the program, as its arguments may have been written to."""
    jitted = ft.jit(lambda x, a: (x * 2, np.linalg.inv(a)), donate_argnums=0)
    for _ in range(2):
        x = np.eye(200)
        assert np.shares_memory(jitted(x, np.eye(2))[0], x) == (_ > 0)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        jitted(np.eye(200), np.ones((2, 2)))
    np.testing.assert_array_equal(jitted(np.eye(200), np.eye(2))[1], np.eye(2))


def test_an_error_on_donated_arrays_that_the_function_catches_is_caught():
    def f(x, a):
        try:
            return x * 2, np.linalg.inv(a)
        except np.linalg.LinAlgError:
            return x, a

    jitted = ft.jit(f, donate_argnums=0)
    jitted(np.eye(200), np.eye(2))
    with pytest.warns(JitWarning, match="catches"):
        got = jitted(np.eye(200), np.ones((2, 2)))
    np.testing.assert_array_equal(got[0], np.eye(200))
    np.testing.assert_array_equal(got[1], np.ones((2, 2)))


@pytest.mark.parametrize("other", [1.5, np.ones(1), np.ones((2, 3)), np.ones(3, np.complex128), np.ones(3)])
def test_a_part_plus_what_has_another_shape_or_dtype(other):
    """A cotangent that is zero but for a part is added where it belongs only if the sum has the shape and dtype of both."""
    f = lambda x: ft.grad(lambda x: x[1] ** 2)(x) + other
    jitted = ft.jit(f)
    for x in (X, 2 * X):
        np.testing.assert_array_equal(jitted(x), f(x))
        assert jitted(x).dtype == f(x).dtype


@pytest.mark.parametrize("make", [np.float64, np.array])
def test_a_donated_number_has_no_room_for_a_result(make):
    jitted = ft.jit(np.sin, donate_argnums=0)
    for x in (1.0, -1.0, 2.0):
        assert jitted(make(x)) == np.sin(x)


def test_what_is_read_later_is_not_overwritten():
    def f(x):
        return x + 1, x * x[::-1]

    for n in (4, 50_000):
        jitted = ft.jit(f, donate_argnums=0)
        jitted(np.ones(n))
        x = np.arange(float(n))
        a, b = jitted(x.copy())
        assert np.array_equal(a, x + 1) and np.array_equal(b, x * x[::-1])


def test_a_failed_guard_finds_donated_arguments_as_they_were():
    def f(x):
        y = x * 2
        if y.sum() > 0:
            return y
        return x - 1

    for n in (4, 50_000):
        jitted = ft.jit(f, donate_argnums=0)
        jitted(np.ones(n))
        assert np.all(jitted(np.ones(n)) == 2)
        assert np.all(jitted(-np.ones(n)) == -2)
        assert np.all(jitted(-np.ones(n)) == -2)
        assert np.all(jitted(np.ones(n)) == 2)


def test_a_donated_argument_is_not_static():
    with pytest.raises(ValueError, match="static and donated"):
        ft.jit(step, static_argnums=1, donate_argnums=(0, 1))


def test_python_integers_are_differentiated_as_outside():
    f = lambda x: x**2 * 3
    jitted = ft.jit(ft.grad(f))
    assert jitted(3) == ft.grad(f)(3) == 18.0
    assert jitted(4) == 24.0 and jitted.cache_info()["recorded"] == 1
    assert type(jitted(4)) is np.float64
    assert ft.jit(ft.hessian(f))(3) == 6.0
    with pytest.raises(ft.errors.IntegerInputError):
        ft.grad(f)(True)


# Exactly, and no more than the part


def copied(x):
    y = x * 1.0
    np.copyto(y, np.array([-0.0, 2.0, -0.0]))
    return y


def with_leading_axes(x):
    y = x * 1.0
    y[1:] = x[None, None, :2]
    np.copyto(y[:1], x[None, 2:])
    return y


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("f", [copied, with_leading_axes])
def test_copies_are_exact_and_lose_axes_of_length_one(f, mode):
    same_in(f, X, mode)


def real_part(z):
    z = z.copy()
    z.real[...] = 3.0
    return z


def imaginary_part(z):
    z = z.copy()
    z.imag[1:] = -0.0
    return z


@pytest.mark.parametrize("mode", ["jit", "jit again", "vjp", "vmap", "jit of vmap"])
@pytest.mark.parametrize("f", [real_part, imaginary_part, np.nan_to_num])
@pytest.mark.parametrize("dtype", [complex, np.complex64])
def test_a_part_of_a_complex_array_leaves_the_other_alone(dtype, f, mode):
    with np.errstate(invalid="ignore"):
        same_in(f, np.array([complex(1, np.inf), complex(1, -0.0), complex(-0.0, np.nan)], dtype), mode)
        ft.check_grads(f, np.array([1 + 2j, -1 + 0.5j, 2 - 1j]))


def write_through_ravel(x):
    y = x + 3.0
    y.ravel()[0] = 0.0
    return y


def write_through_reshape(x):
    y = x * 2.0
    z = y.reshape(-1)
    z[1] = 7.0
    return y


@pytest.mark.parametrize("f", [write_through_ravel, write_through_reshape])
def test_a_view_that_numpy_makes_of_one_order_only_is_a_guard(f, rng):
    jitted, whole = ft.jit(f), rng.normal(size=(4, 6, 2))
    lying = [
        whole[..., 0].copy(),
        np.asfortranarray(whole[..., 0]),
        whole[..., 0],
        whole[..., 0].T.copy().T,
        rng.normal(size=(12, 4)).T[:, ::2],
    ]
    for _ in range(2):
        for x in lying:
            assert np.array_equal(jitted(x), f(x))
    assert jitted.cache_info()["recorded"] == 4 and "order(x) found" in jitted.explain()


def test_rows_at_a_traced_index_are_read_as_those_at_a_plain_one(monkeypatch):
    seen = []
    monkeypatch.setattr(index, "read", lambda x, at: seen.append(type(at)) or x[at])
    x, at = np.arange(12.0).reshape(4, 3), np.array([3, 0, -1])
    f = ft.jit(ft.grad(lambda x, at: np.sum(x[at] ** 2)))
    for _ in range(2):
        seen.clear()
        np.testing.assert_array_equal(f(x, at), [2 * x[0], 0 * x[1], 0 * x[2], 4 * x[3]])
    assert seen == [np.ndarray]


@pytest.mark.parametrize("key", ["rows", "elements", "columns"])
def test_what_is_added_at_places_that_are_known(key, rng):
    at = {
        "rows": rng.integers(-50, 50, 300),
        "elements": (rng.integers(-50, 50, 3000), rng.integers(0, 40, 3000)),
        "columns": (slice(None), rng.integers(0, 40, 60)),
    }[key]
    x = rng.normal(size=(50, 40))
    weights = rng.normal(size=x[at].shape)
    slope = ft.grad(lambda x: np.sum(np.sin(x[at]) * weights) + np.sum(x[at] ** 3) + np.sum(x.T[:3] ** 2))
    jitted = ft.jit(slope)
    for y in (x, x, np.asfortranarray(2 * x)):
        np.testing.assert_allclose(jitted(y), slope(y), rtol=1e-13)
    assert "add_at" in jitted.show()


def test_overlapping_windows_are_added_at_one_index(rng):
    windows = np.arange(100)[:, None] * 8 + np.arange(32)
    assert known_places((824,), windows).shape == (100, 32)
    assert known_places((824,), windows.ravel()) is None  # which NumPy adds as fast
    x = rng.normal(size=824)
    f = ft.grad(lambda x: np.sum(x[windows] ** 2 * np.arange(32.0)))
    compiled = ft.jit(f)
    want = np.zeros(824)
    np.add.at(want, windows, 2 * x[windows] * np.arange(32.0))
    for found in (f(x), compiled(x), compiled(x)):
        np.testing.assert_allclose(found, want, rtol=1e-12)


@pytest.mark.parametrize("shape", [(3000,), (60, 50)])
def test_rows_are_added_to_a_matrix_that_lies_by_columns(shape, rng):
    x, v, rows = rng.normal(size=(400, 5)), rng.normal(size=(*shape, 5)), rng.integers(-400, 400, shape)
    want = x.copy()
    np.add.at(want, rows, v)
    for given in (v, np.asfortranarray(v)):
        np.testing.assert_array_equal(add_in(np.asfortranarray(x), given, rows), want)
        np.testing.assert_array_equal(add_in(x.copy(), given, rows), want)


@pytest.mark.parametrize(("users", "ratings"), [(100, 3000), (2000, 30000)])
def test_gradients_of_factors_are_added_at_known_places(users, ratings, rng):
    u, v, y = rng.normal(size=(users, 5)), rng.normal(size=(users, 5)), rng.normal(size=ratings)
    i, j = rng.integers(0, users, (2, ratings))

    def loss(u, v):
        return np.mean((np.sum(u[i] * v[j], -1) - y) ** 2) + 0.01 * (np.sum(u**2) + np.sum(v**2))

    compiled = ft.jit(ft.grad(loss, (0, 1)))
    for _ in range(2):
        for a, b in zip(compiled(u, v), ft.grad(loss, (0, 1))(u, v)):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-14)
    assert users > 256 or "add_at" in compiled.show()
