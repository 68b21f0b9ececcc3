"""Which results share memory with their arguments: a write reaches what NumPy's would, and nothing else, in every transform."""

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace import errors
from tests.helpers import OLD

X = np.arange(6.0).reshape(2, 3)
WIDE = np.arange(4000.0).reshape(40, 100)

VIEWS = """
x.reshape(-1) | x.T.reshape(-1) | x.T.reshape(3, 2, 1) | x[:, ::2].reshape(-1) | x[::-1].reshape(-1) | x[:, 1].reshape(2, 1)
x[:, :1].reshape(-1) | x[:1, 1:].reshape(-1) | x.reshape(3, 2)[::2].reshape(-1) | x.reshape(1, 6)[:, ::2].reshape(3) | x[::2].reshape(-1)
x.T[None].reshape(3, 2) | x.swapaxes(0, 1).reshape(3, 2, 1) | x.reshape(-1, order="F") | x.T.reshape(-1, order="F") | x.reshape(3, 2, order="f")
x.T.reshape(2, 3, order="F") | x.T.reshape(6, 1, order="F") | x.reshape(6, copy=True) | np.reshape(x, (6,), copy=True) | x.reshape(2, 3, copy=True)
x.ravel() | x.T.ravel() | x.T.ravel("F") | x.ravel(order="F") | np.ravel(x.T, "F") | x[:, :1].ravel() | x[0, ::2].ravel() | x[1].ravel("K") | x[0].ravel("A")
np.ravel(x[:, 1:]) | x.flatten() | x.T.flatten("F") | x[0].flatten("K") | np.ravel(x, None) | np.squeeze(x[:, None]) | np.expand_dims(x.T, 1)
np.atleast_3d(x.T) | np.sin(x.T).reshape(-1) | (x.T * 2)[1:].reshape(-1) | np.nan_to_num(x, copy=False) | np.nan_to_num(x)
np.meshgrid(x[0], x[1], sparse=True)[0] | np.meshgrid(x[0], x[1])[1] | np.meshgrid(x[0])[0] | np.meshgrid(x[0], x[1], sparse=True, copy=False)[1]
x.flat[:] | x.T.flat[1:4] | x[0].flat[::-1] | x.reshape(np.array([3, 2])) | x.T.reshape(np.int64(6)) | np.tile(x, np.array([1, 2]))
fnp.ascontiguousarray(x) | fnp.ascontiguousarray(x.T) | fnp.asfortranarray(x) | fnp.asfortranarray(x.T) | fnp.asarray(x, order="F")
fnp.asanyarray(x.T, None, "C") | fnp.asarray_chkfinite(x[:, 1:], order="C") | fnp.require(x, None, "F") | fnp.require(x.T, None, ["F_CONTIGUOUS", "A"])
fnp.require(x[0], None, "O") | fnp.require(x, None, "O") | fnp.ascontiguousarray(x[:, 1]) | fnp.asarray(x[:, 1])
np.clip(x, None, None) | np.clip(x, None, 3.0) | np.pad(x, 0, mode="edge") | np.pad(x, 0, mode="mean") | np.pad(x, ((0, 0), (0, 1)), mode="wrap")
"""
CASES = [
    case.strip()
    for case in VIEWS.replace("\n", "|").split("|")
    if case.strip() and not (OLD and ("copy=True" in case or "None, None" in case))
]


def written(expression, at=0):
    """What an array and a part of it are after a write to the part."""
    make = eval(f"lambda x: {expression}", {"np": np, "fnp": fnp})  # noqa: S307

    def f(x):
        x = x * 1.0
        y = make(x)
        y[at] = 99.0
        return x, y * 1.0

    return f


def same(got, want):
    return all(np.array_equal(g, w) for g, w in zip(got, want, strict=True))


@pytest.mark.parametrize("expression", CASES)
def test_a_write_to_a_part_reaches_what_numpys_would(expression):
    f = written(expression)
    want = f(X)
    assert same(ft.vjp(f, X)[0], want)
    assert same(ft.jvp(f, (X,), (X,))[0], want)
    assert same(ft.jit(f)(X), want)
    assert same([r[1] for r in ft.vmap(f)(np.stack([X + 1, X]))], want)
    assert same([r[..., 1] for r in ft.vmap(f, in_axes=2, out_axes=-1)(np.stack([X + 1, X], 2))], want)
    ahead, behind = f(X + 1e-3), f(X - 1e-3)
    for tangent, a, b in zip(ft.jvp(f, (X,), (np.ones_like(X),))[1], ahead, behind, strict=True):
        assert np.allclose(tangent, (a - b) / 2e-3)


@pytest.mark.parametrize("part", [lambda x: x, lambda x: x.T, lambda x: x[:, ::2], lambda x: x[::-1]])
def test_flat_reaches_an_array_however_it_lies(part):
    def f(x):
        x = x * 1.0
        y = part(x)
        y.flat[0] = 5.0
        y.flat[1:3] *= y.flat[3]
        y[0].flat = x[1, 2] * np.array([1.0, 2.0])
        return x

    want = f(X)
    assert np.array_equal(ft.vjp(f, X)[0], want)
    for given in (X, np.asfortranarray(X), np.repeat(X, 2, 1)[:, ::2]):
        assert np.array_equal(ft.jit(f)(given), want)
        assert np.array_equal(ft.vmap(f)(np.stack([X + 1, given]))[1], want)
    ft.check_grads(f, X)


@pytest.mark.parametrize("make", [lambda x: np.tile(x, (2, 1)), lambda x: np.meshgrid(x, x)[0], lambda x: np.meshgrid(x, x)[1]])
def test_what_is_made_by_repeating_has_memory_of_its_own_in_a_row(make):
    def f(x):
        y = make(x)
        y.ravel()[0] = 7.0
        y.reshape(-1)[1] *= 3.0
        return y

    want = f(X[0])
    assert want[0, 0] == 7.0
    assert np.array_equal(ft.vjp(f, X[0])[0], want)
    assert np.array_equal(ft.jit(f)(X[0]), want)
    for axis in (0, 1):
        assert np.array_equal(ft.vmap(f, in_axes=axis)(np.stack([X[1], X[0]], axis))[1], want)


def test_a_copy_of_an_argument_with_gaps_stays_one_when_the_argument_is_written_to():
    def f(x):
        copies = x.reshape(-1), x[:].ravel()
        view = x[1:]
        x[0] = 7.0
        return *copies, view.ravel(), x

    wide = np.arange(14.0).reshape(2, 7)
    want = f(wide.copy()[:, :6:2])
    assert want[0][0] == want[1][0] == 0.0
    assert same(ft.jit(f)(wide[:, :6:2]), want)


def test_an_array_without_axes_is_written_to_in_place_and_a_number_is_not():
    def f(x):
        y = x
        y *= 3.0
        return x * y

    for x in (np.array(2.0), np.float64(2.0), 2.0):
        want = f(x.copy() if isinstance(x, np.ndarray) else x)
        assert ft.vjp(f, x)[0] == ft.jit(f)(x) == ft.jvp(f, (x,), (x,))[0] == want
        assert ft.grad(f)(x) == 2 * want / 2.0


PARTS_OF_A_NUMBER = {
    "one axis": np.atleast_1d, "ravel": np.ravel, "reshape": lambda s: s.reshape(1), "as Fortran": lambda s: np.reshape(s, (1, 1), order="F"),
    "new axis": lambda s: s[None], "no axis": lambda s: s[...], "expanded": lambda s: np.expand_dims(s, 0), "turned": lambda s: s[None, None].T,
}  # fmt: skip


@pytest.mark.parametrize("part", PARTS_OF_A_NUMBER)
def test_a_number_is_not_written_to_through_an_array_made_of_it(part):
    """A number is immutable in NumPy, and so is not shared: a write to what was made of it leaves it as it is."""

    def f(x):
        s = np.sum(x)
        y = PARTS_OF_A_NUMBER[part](s)
        y *= 2.0
        y[...] += 1.0
        return s * np.sum(y)

    s = X.sum()
    for transform in (lambda f: lambda x: ft.vjp(f, x)[0], ft.jit, lambda f: lambda x: ft.vmap(f)(np.stack([x, x]))[1]):
        assert transform(f)(X) == f(X) == s * (2 * s + 1)
    for grad in (ft.grad(f), ft.jit(ft.grad(f)), ft.jacfwd(f), lambda x: ft.vmap(ft.grad(f))(np.stack([x, x]))[0]):
        assert np.array_equal(grad(X), np.full((2, 3), 4 * s + 1))


@pytest.mark.parametrize(
    "expression", ["x[:, ::50].reshape(-1)", "x[:, :2].reshape(-1)", "x[:, 5].reshape(10, 4)[0]", "x[:2].reshape(-1)", "x[3].ravel()"]
)
def test_small_parts_of_large_arrays(expression):
    f = written(expression)
    assert same(ft.vjp(f, WIDE)[0], f(WIDE))
    assert same(ft.jit(f)(WIDE), f(WIDE))


LAYOUTS = {
    "of Fortran": np.asfortranarray,
    "backwards": lambda x: x[::-1],
    "with gaps": lambda x: np.repeat(x, 2, 1)[:, ::2],
    "turned": lambda x: x.swapaxes(-1, 1).copy().swapaxes(-1, 1),
}
PARTS = [
    lambda x: x.reshape(-1),
    np.ravel,
    lambda x: x.T.ravel(),
    lambda x: x.swapaxes(0, 1).reshape(-1),
    lambda x: x.reshape(-1, order="F"),
]


@pytest.mark.parametrize("lay", LAYOUTS)
@pytest.mark.parametrize(
    "make", [lambda x: x * 1, lambda x: x.copy(), np.copy, lambda x: x.copy("F"), lambda x: np.copy(x, "C"), lambda x: x.astype(float)]
)
@pytest.mark.parametrize("shape", [(2, 3), (2, 1, 3), (3, 2, 2)])
def test_arguments_lie_in_memory_as_they_are_given(lay, make, shape):
    x = LAYOUTS[lay](np.arange(float(np.prod(shape))).reshape(shape))
    for part in PARTS:

        def f(x):
            y = make(x)
            part(y)[1:] = -1.0
            return y * 1.0  # noqa: B023

        want = f(x)  # noqa: B023
        for got in (ft.vjp(f, x)[0], ft.jvp(f, (x,), (x,))[0], ft.jit(f)(x), ft.jit(lambda x: ft.vjp(f, x)[0])(x)):  # noqa: B023
            assert np.array_equal(got, want)
        assert np.array_equal(ft.vmap(f)(np.stack([x, x]))[0], f(np.stack([x, x])[0]))


@pytest.mark.parametrize(
    "call", [lambda x: x.T.flatten("K"), lambda x: x.ravel("A"), lambda x: x.reshape(6, order="A"), lambda x: np.ravel(x.T, order="k")]
)
def test_an_order_that_depends_on_memory_raises(call):
    with pytest.raises(errors.UnsupportedError, match="depends on the layout in memory"):
        ft.vjp(call, X)


def test_what_is_no_order_raises_as_in_numpy():
    for call in (lambda x: x.flatten("Q"), lambda x: x.reshape(6, order="Q"), lambda x: np.ravel(x, "Q")):
        with pytest.raises(ValueError, match="order must be one of"):
            ft.vjp(call, X)


def test_a_reshape_that_may_not_copy():
    assert np.array_equal(ft.vjp(lambda x: x.reshape(6, copy=False), X)[0], X.ravel())
    with pytest.raises(ValueError, match="avoid creating a copy"):
        ft.vjp(lambda x: x.T.reshape(6, copy=False), X)


def test_a_copy_made_by_reshape_is_not_written_when_its_base_is():
    def f(x):
        x = x * 1.0
        y, z = x.T.reshape(-1), x.reshape(-1)
        x[0] = 7.0
        return y * 1.0, z * 1.0

    assert same(ft.vjp(f, X)[0], f(X))
    assert same(ft.jit(f)(X), f(X))


@pytest.mark.parametrize("compare", [np.array_equal, np.array_equiv])
def test_comparisons_of_lists_that_hold_traced_values(compare):
    f = lambda x: x * 2 if compare([x, 1.0], [3.0, 1.0]) else -x
    assert ft.grad(f)(3.0) == 2
    assert ft.grad(f)(4.0) == -1
    fast = ft.jit(ft.grad(f))
    assert [fast(v) for v in (3.0, 4.0, 3.0)] == [2, -1, 2]
    assert np.array_equal(ft.vmap(ft.grad(f))(np.array([3.0, 4.0, 3.0])), [2, -1, 2])


def test_a_large_array_that_lies_by_columns_is_not_written_to_through_its_copy():
    def f(x):
        flat = x.reshape(-1)
        flat[1] = 7.0
        return x * 2.0 + flat[1]

    x = np.asfortranarray(np.arange(160_000.0).reshape(400, 400))
    y, pullback = ft.vjp(f, x)
    np.testing.assert_array_equal(y, f(x.copy("K")))
    assert pullback(np.ones_like(x))[0].min() == 2.0


@pytest.mark.parametrize("name", ["ascontiguousarray", "asfortranarray", "asanyarray", "asarray_chkfinite", "require", "copy"])
def test_plain_arrays_are_laid_out_by_numpy(name):
    for x in (X, X.T, X[:, ::2]):
        got, want = getattr(fnp, name)(x), getattr(np, name)(x)
        assert np.array_equal(got, want) and got.strides == want.strides and np.shares_memory(got, x) == np.shares_memory(want, x)


_ORDERED = {
    "take": lambda x: np.take(x, [2, 0, 1, 1], axis=1),
    "repeat": lambda x: np.repeat(x[:, :4], [2, 0, 1, 1], axis=1),
    "reduceat": lambda x: np.maximum.reduceat(x, [0, 1, 3], axis=1),
    "cross": lambda x: np.cross(x[:3], x[1:4], axis=0),
    "gradient": lambda x: np.gradient(x[:3] + 0, axis=0),
    "roll": lambda x: np.roll(x, 1, axis=1),
    "fftshift": np.fft.fftshift,
    "zeros_like": np.zeros_like,
    "full_like": lambda x: np.full_like(x, x[0, 0]),
    "array": fnp.array,
    "array by columns": lambda x: fnp.array(x, order="F"),
    "array of rows by columns": lambda x: fnp.array([x[0], x[1]], order="F"),
    "sort": lambda x: np.sort(x, 0),
    "partition": lambda x: np.partition(x, 2, 0),
    "insert": lambda x: np.insert(x, 1, x[0], 0),
    "delete": lambda x: np.delete(x, 0, 1),
    "select": lambda x: np.select([x > -9], [x]),
    **{
        f"pad {mode}": lambda x, mode=mode: np.pad(x, 1, mode=mode)
        for mode in ("constant", "edge", "wrap", "reflect", "linear_ramp", "mean")
    },
}


@pytest.mark.parametrize("name", _ORDERED)
@pytest.mark.parametrize("turned", [False, True])
def test_what_reshape_and_ravel_share_goes_by_how_numpys_result_lies_in_memory(name, turned):
    def f(x):
        x = np.tanh(x).T if turned else np.tanh(x)
        y, z = _ORDERED[name](x), _ORDERED[name](x)
        y.reshape(-1)[1::3] = x[0, 1]
        z.ravel()[2] *= x[1, 1]
        return np.sum(y**2 * np.arange(y.size).reshape(y.shape)) + np.sum(z**3)

    x = np.random.default_rng(0).normal(size=(4, 5))
    assert np.allclose(ft.value_and_grad(f)(x)[0], f(x))
    assert np.allclose(ft.vmap(f)(x[None])[0], f(x))
    ft.check_grads(f, x, order=1)
    jitted = ft.jit(f)
    for given in (x, np.asfortranarray(x), x[::-1], x.T):
        assert np.isclose(jitted(given), f(given))


def test_a_copy_of_an_argument_that_lies_backwards_can_be_written_to_through_a_reshaped_view():
    def f(x, copied):
        y = copied(x)
        y.reshape(-1)[1] = 5.0
        return y * 1.0

    x = np.arange(6.0).reshape(2, 3)[::-1]
    for copied in (fnp.array, lambda x: np.tile(x, (1, 1)), np.copy):
        assert np.array_equal(ft.jit(f)(x, copied), f(x, copied))


WRITES = """
y.flat[1:] = y.sum() | np.put(y, [0, 1], y[0, 0]) | np.putmask(y, y > 2, y[0, 0]) | np.place(y, y > 2, [0.1]) | np.fill_diagonal(y, y[1, 1]) | y += C
y *= F | y -= C.T.T[::-1] | np.add(y, C, out=y) | y[...] = C * x | y.T[...] += C.T | y.ravel()[:2] = y[0, 0] | y.T.flat[1] = 7.0 | y.sort(0)
np.put_along_axis(y, np.argmax(y, 0)[None], y[0, 0], 0) | np.sin(y, out=y.T[...].T, where=y > 1) | np.cumsum(y, 0, out=y) | y[::-1] += C
"""


@pytest.mark.parametrize("write", [w.strip() for w in WRITES.replace("\n", "|").split("|") if w.strip()])
@pytest.mark.parametrize("lay", [lambda x: x, np.asfortranarray, lambda x: x[:, ::-1]])
def test_a_write_leaves_an_array_lying_as_it_did(write, lay):
    def f(x):
        names = {"np": np, "x": x, "y": x * 1.0, "C": np.cos(X), "F": np.asfortranarray(np.sin(X))}
        exec(write, names)  # noqa: S102
        y = names["y"]
        z = y * 2.0
        for part in (y.reshape(-1), y.T.reshape(-1), z.ravel(), z.T.ravel()):  # views, or copies
            part[1] += 5.0
        return y, z

    x = lay(np.array(X))
    want = f(x)
    for got in (ft.jvp(f, (x,), (x,))[0], ft.jit(f)(x), ft.jvp(ft.vmap(f), (x[None],), (x[None],))[0]):
        for a, b in zip(got, want):
            np.testing.assert_allclose(a.reshape(b.shape), b, rtol=1e-12)


@pytest.mark.parametrize("add", [lambda t, v: t.__iadd__(v), lambda t, v: np.add(t, v, out=t), lambda t, v: t.__setitem__((), t + v)])
def test_an_array_without_axes_that_is_written_to_stays_one_in_a_batch(add):
    def f(x):
        total = fnp.zeros(())
        found = {"total": total}
        for v in x:
            add(total, v)
        total *= x[0]
        return found["total"] * 1.0

    want = [f(x) for x in X]
    assert ft.vmap(f)(X).tolist() == ft.jit(ft.vmap(f))(X).tolist() == want
    assert np.array_equal(ft.vmap(ft.grad(f))(X), [ft.grad(f)(x) for x in X])


@pytest.mark.parametrize(
    "make",
    [
        fnp.array, fnp.asarray, fnp.require, np.copy, lambda s: np.full_like(s, s), lambda s: s[...], lambda s: s.copy(), lambda s: s,
        lambda s: fnp.full((), s), lambda s: np.tensordot(s * X, X), lambda s: np.where(s > 0, s, 0.0),
        lambda s: np.stack([s, s])[:1].reshape(()), lambda s: np.squeeze(np.stack([s])),
    ],
)  # fmt: skip
def test_an_array_that_is_made_of_a_number_is_written_to_in_place(make):
    def f(x):
        s = np.sum(x)
        y = also = make(s)
        y += 1.0
        y *= 2.0
        return s * also

    for transform in (lambda f: lambda x: ft.vjp(f, x)[0], ft.jit, lambda f: lambda x: ft.vmap(f)(np.stack([x, x]))[1]):
        assert transform(f)(X) == f(X)


@pytest.mark.parametrize("make", [fnp.array, lambda s: np.where(s > 0, s, 0.0), lambda s: np.stack([s, s])[:1].reshape(())])
@pytest.mark.parametrize("part", [lambda y: y[...], lambda y: y.T, lambda y: y.reshape(1), lambda y: y[None][0, ...], np.atleast_1d])
def test_views_of_an_array_without_axes_reach_it_in_a_batch_too(part, make):
    def f(x):
        y = make(x[0])
        v = part(y)
        v *= x[1]
        y += 1.0
        return y * v.sum()

    x = np.array([[2.0, 3.0], [0.5, -1.0]])
    want = [f(r) for r in x]
    assert ft.vmap(f)(x).tolist() == ft.jit(ft.vmap(f))(x).tolist() == [ft.vjp(f, r)[0] for r in x] == want
    assert np.array_equal(ft.vmap(ft.grad(f))(x), [ft.grad(f)(r) for r in x])
