"""pandas and xarray: as arguments, which are differentiated and come back with their labels, and as constants beside traced values."""

import subprocess
import sys

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace import errors, optim
from tests.helpers import here

pd = pytest.importorskip("pandas", reason="pandas is no dependency: only its users need this")
xr = pytest.importorskip("xarray", reason="xarray is no dependency: only its users need this")

VALUES = np.array([1.0, 2.0, 3.0])
INDEX = pd.Index(["a", "b", "c"])
TIMES = [10, 20, 30]


@pytest.fixture
def series():
    return pd.Series(VALUES.copy(), index=INDEX, name="s")


@pytest.fixture
def frame():
    return pd.DataFrame({"u": VALUES, "v": 2 * VALUES}, index=INDEX)


@pytest.fixture
def data():
    return xr.DataArray(VALUES.copy(), dims="t", coords={"t": TIMES}, name="d", attrs={"units": "m"})


def same_series(got, values, like):
    pd.testing.assert_series_equal(got, pd.Series(values, index=like.index, name=like.name))


# As arguments


def test_the_gradient_of_a_series_is_a_series(series):
    same_series(ft.grad(lambda s: (s**2).sum())(series), 2 * VALUES, series)
    value, gradient = ft.value_and_grad(lambda s: s @ s)(series)
    assert value == 14.0 and gradient.index is series.index
    gradient.iloc[0] = 99.0
    assert series.iloc[0] == 1.0
    assert ft.grad(lambda s: (s**2).sum())(series.astype("float32")).dtype == np.float32


def test_the_gradient_of_a_frame_is_a_frame(frame):
    got = ft.grad(lambda d: np.sum(d[:, 0] * d[:, 1]))(frame)
    pd.testing.assert_frame_equal(got, pd.DataFrame({"u": 2 * VALUES, "v": VALUES}, index=INDEX))
    columns = ft.grad(lambda d: (d["u"] * d["v"]).sum())(dict(frame))
    assert list(columns) == ["u", "v"]
    pd.testing.assert_series_equal(columns["v"], pd.Series(VALUES, index=INDEX, name="v"))


def test_the_gradient_of_a_data_array_is_a_data_array(data):
    got = ft.grad(lambda d: (d**2).sum())(data)
    xr.testing.assert_identical(got, xr.DataArray(2 * VALUES, dims="t", coords={"t": TIMES}, name="d", attrs={"units": "m"}))
    value, got = ft.value_and_grad(lambda d: (d.sel(t=20) * d.mean("t")).sum())(data)
    assert value == 4.0 and isinstance(value, np.float64)
    np.testing.assert_allclose(got.values, [2 / 3, 2 + 2 / 3, 2 / 3])
    weighted = lambda d: (d.isel(t=slice(1, None)) * d.shift(t=1).fillna(0.0).isel(t=slice(1, None))).sum()
    np.testing.assert_allclose(ft.grad(weighted)(data).values, [2.0, 4.0, 2.0])
    np.testing.assert_allclose(ft.grad(lambda d: np.sin(d).sum())(data).values, np.cos(VALUES))


def test_the_gradient_of_a_dataset_is_a_dataset(data):
    got = ft.grad(lambda d: (d.p * d.q).sum())(xr.Dataset({"p": data, "q": 2 * data}))
    assert isinstance(got, xr.Dataset) and got.p.values.tolist() == [2.0, 4.0, 6.0] and got.q.values.tolist() == [1.0, 2.0, 3.0]
    assert got.t.values.tolist() == TIMES


def test_two_dimensions_and_alignment_by_name():
    x = xr.DataArray(np.arange(6.0).reshape(2, 3), dims=("i", "j"))
    w = xr.DataArray(np.array([1.0, 10.0, 100.0]), dims="j")
    gx, gw = ft.grad(lambda x, w: (x * w).sum(), argnums=(0, 1))(x, w)
    assert gx.dims == ("i", "j") and gx.values.tolist() == [[1.0, 10.0, 100.0]] * 2
    assert gw.values.tolist() == [3.0, 5.0, 7.0]


def test_containers_of_labelled_arrays(series, data):
    params = {"s": series, "d": data, "k": 2.0}
    got = ft.grad(lambda p: p["k"] * (p["s"] ** 2).sum() + (p["d"] * 3).sum().data)(params)
    same_series(got["s"], 4 * VALUES, series)
    assert got["d"].values.tolist() == [3.0, 3.0, 3.0] and got["k"] == 14.0
    flat, unravel = ft.ravel_pytree(params)
    assert flat.tolist() == [1.0, 2.0, 3.0, 2.0, 1.0, 2.0, 3.0]
    xr.testing.assert_identical(unravel(flat)["d"], data)
    same_series(optim.lbfgs(lambda s: ((s - 1) ** 2).sum(), series).x, [1.0, 1.0, 1.0], series)
    adam = optim.adam(0.5)
    updates, _ = adam.update(params, adam.init(params))
    stepped = optim.apply_updates(params, updates)
    assert stepped["s"].index is series.index and isinstance(stepped["d"], xr.DataArray)


def test_other_transforms(series, data):
    cube = lambda s: s**3
    for x in (series, data):
        assert np.array_equal(ft.jacobian(cube)(x), np.diag(3 * VALUES**2))
        assert np.array_equal(ft.hessian(lambda s: (s**3).sum())(x), np.diag(6 * VALUES))
        assert np.array_equal(np.asarray(ft.vmap(cube)(x)), VALUES**3)
        assert np.array_equal(np.asarray(ft.jit(cube)(x)), VALUES**3)
        assert np.array_equal(np.asarray(ft.jvp(cube, (x,), (x,))[1]), 3 * VALUES**3)
        (pulled,) = ft.vjp(cube, x)[1](x if x is data else VALUES)
        assert type(pulled) is type(x) and np.array_equal(np.asarray(pulled), 3 * VALUES**3)
        ft.check_grads(lambda s: (s**3).sum(), x)
        assert np.array_equal(ft.sparse_jacobian(cube)(x).toarray(), np.diag(3 * VALUES**2))


def test_jit_records_for_other_labels_and_sees_other_values(series, data):
    fast = ft.jit(ft.grad(lambda s: (s**3).sum()))
    for x in (series, 2 * series, data, 2 * data):
        assert np.array_equal(np.asarray(fast(x)), 3 * np.asarray(x) ** 2)
    assert fast.cache_info()["recorded"] == 2
    other = data.assign_coords(t=[1, 2, 3])
    assert fast(other).t.values.tolist() == [1, 2, 3] and fast(data).t.values.tolist() == TIMES


def test_what_can_not_be_differentiated_is_refused(frame):
    with pytest.raises(errors.IntegerInputError, match=r"argument 0 \('s'\) is int64\[2\]"):
        ft.grad(lambda s: (s**2).sum())(pd.Series([1, 2]))
    mixed = frame.assign(name=["x", "y", "z"])
    for x in (mixed, mixed["name"], pd.Series(pd.Categorical(["a", "b"])), pd.Series([1, None], dtype="Int64"), frame.assign(n=[1, 2, 3])):
        with pytest.raises(errors.InputTypeError, match=r"something other than numbers of one dtype(?s:.)*dict\(df\)") as info:
            ft.grad(lambda d: d.sum())(x)
        assert here(-1) in str(info.value)
    with pytest.raises(IndexError, match=r"indexed with the label 'u', but has none(?s:.)*dict\(df\)"):
        ft.grad(lambda d: (d["u"] ** 2).sum())(frame)
    with pytest.raises(errors.NonScalarOutputError):
        ft.grad(lambda d: d * 2)(xr.DataArray(VALUES))


def test_objects_that_are_not_differentiated_stay_whole(frame):
    mixed = frame.assign(name=["x", "y", "z"], n=[1, 2, 3])
    seen = []
    f = lambda x, table: seen.append(table) or (x * table["u"]).sum()
    assert np.array_equal(ft.grad(f)(np.ones(3), mixed), VALUES)
    assert seen[0] is mixed
    leaves, treedef = ft.tree.flatten({"m": mixed, "s": frame["u"]})
    assert len(leaves) == 1 and ft.tree.unflatten(treedef, leaves)["m"] is mixed
    assert np.array_equal(ft.jit(lambda x, table: x * table["u"].to_numpy())(VALUES, mixed), VALUES**2)


def test_what_holds_an_array_is_taken_as_that_array():
    class Holder:
        def __array__(self, dtype=None, copy=None):
            return VALUES

    for f in (lambda x: np.sum(x * Holder()), lambda x: np.sum(Holder() * x)):
        assert ft.grad(f)(np.ones(3)).tolist() == VALUES.tolist()
        assert ft.vmap(f)(np.ones((2, 3))).tolist() == [6.0, 6.0]


# As constants

CONSTANTS = {
    "s * x": (lambda s, x: s * x, lambda a, x: a * x),
    "x * s": (lambda s, x: x * s, lambda a, x: x * a),
    "s - x": (lambda s, x: s - x, lambda a, x: a - x),
    "x / s": (lambda s, x: x / s, lambda a, x: x / a),
    "s ** x": (lambda s, x: s**x, lambda a, x: a**x),
    "np.multiply(s, x)": (lambda s, x: np.multiply(s, x), lambda a, x: a * x),
    "np.maximum(x, s)": (lambda s, x: np.maximum(x, s), lambda a, x: np.maximum(x, a)),
    "np.where(s > x)": (lambda s, x: np.where(s > x + 0.5, x, 0.0), lambda a, x: np.where(a > x + 0.5, x, 0.0)),
    "np.where(x > s)": (lambda s, x: np.where(x < s, x, s), lambda a, x: np.where(x < a, x, a)),
    "np.stack": (lambda s, x: np.stack([x, s]), lambda a, x: np.stack([x, a])),
    "np.interp": (lambda s, x: np.interp(x, s, s), lambda a, x: np.interp(x, a, a)),
    "to_numpy": (lambda s, x: np.asarray(s) * x, lambda a, x: a * x),
}


@pytest.mark.parametrize("kind", ["series", "data"])
@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_beside_traced_values(name, kind, series, data):
    theirs, plain = CONSTANTS[name]
    c, x = {"series": series, "data": data}[kind], np.array([1.1, 1.5, 3.7])
    weigh = lambda y: np.sum(np.square(y.data if isinstance(y, xr.DataArray) else y))
    f, g = lambda x: weigh(theirs(c, x)), lambda x: weigh(plain(VALUES, x))
    got = ft.grad(f)(x)
    assert type(got) is np.ndarray
    np.testing.assert_allclose(got, ft.grad(g)(x))
    np.testing.assert_allclose(ft.vmap(g)(np.stack([x, 2 * x])), [g(x), g(2 * x)])
    if not (kind == "data" and name in ("s * x", "s - x", "s ** x", "np.multiply(s, x)", "np.maximum(x, s)")):
        np.testing.assert_allclose(ft.vmap(f)(np.stack([x, 2 * x])), [g(x), g(2 * x)])  # the others are xarray's, of one example
    fast = ft.jit(ft.grad(f))
    fast(x)
    np.testing.assert_allclose(fast(2 * x), ft.grad(g)(2 * x))


def test_matrix_products_with_frames(frame):
    x = np.array([0.5, -1.0])
    assert np.array_equal(ft.grad(lambda w: np.sum(frame.to_numpy() @ w))(x), [6.0, 12.0])
    assert np.array_equal(ft.grad(lambda w: np.sum(w @ frame.T))(x), [6.0, 12.0])
    with pytest.raises(errors.ConversionError, match=r"pandas' data as arrays: s\.to_numpy\(\)"):
        ft.grad(lambda w: np.sum(frame @ w))(x)


def test_jit_notices_a_constant_that_changed(series, data):
    for c, change in ((series, lambda: series.iloc.__setitem__(0, 50.0)), (data, lambda: data.__setitem__(0, 50.0))):
        fast = ft.jit(lambda x, c=c: np.sum(x * c))
        assert fast(np.ones(3)) == 6.0
        change()
        assert fast(np.ones(3)) == 55.0


# Traced values inside of them


def test_a_series_of_traced_values_is_never_silently_wrong():
    f = lambda x: (pd.Series([x[0], x[1]]) * 2).sum()  # object by object, which is right
    assert ft.grad(f)(VALUES).tolist() == [2.0, 2.0, 0.0]
    with pytest.raises((TypeError, errors.FunctraceError)):
        ft.grad(lambda x: np.sin(pd.Series([x[0], x[1]])).sum())(VALUES)
    with pytest.raises(errors.UnsupportedError, match=r"a Series of objects meets a traced value(?s:.)*functrace\.numpy\.stack"):
        ft.grad(lambda x: np.sum(x[:2] * pd.Series([x[0], x[1]])))(VALUES)
    with pytest.raises(errors.ConversionError, match="pandas' data as arrays"):
        ft.grad(lambda x: pd.Series(x).sum())(VALUES)
    with pytest.raises((TypeError, errors.FunctraceError)):
        ft.grad(lambda x: pd.DataFrame({"a": [x[0], x[1]]}).mean()["a"])(VALUES)


def test_a_data_array_holds_traced_values():
    f = lambda x: (xr.DataArray(x, dims="t", coords={"t": TIMES}).sel(t=[10, 30]) ** 2).sum()
    assert ft.grad(lambda x: f(x).data)(VALUES).tolist() == [2.0, 0.0, 6.0]
    assert ft.grad(f)(VALUES).tolist() == [2.0, 0.0, 6.0]
    assert ft.grad(lambda x: fnp.sum(xr.DataArray(x).data ** 2))(VALUES).tolist() == [2.0, 4.0, 6.0]


def test_neither_is_imported_by_us():
    code = "import sys, functrace as ft, numpy as np; ft.grad(lambda p: p['a'] ** 2)({'a': 1.0}); print({'pandas', 'xarray'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "set()"


def test_a_jitted_function_notices_what_changes_in_labelled_data(frame, series, data):
    readers = [
        lambda x: x * frame["u"].sum(),
        lambda x: x * frame.loc["a", "v"],
        lambda x: x * len(frame.columns),
        lambda x: x * series.iloc[0],
        lambda x: x * series.mean(),
        lambda x: x * float(data[0]),
        lambda x: x * data.sel(t=20).item(),
    ]
    jitted = [ft.jit(f) for f in readers]

    def changes(number):
        yield
        frame.loc["a", "u"] = series.iloc[0] = data[0] = number
        yield
        frame["v"] = series[:] = data[:] = number + VALUES
        yield
        frame["new"] = number
        yield
        frame.columns = ["v", "u", "new"]
        frame.index = ["c", "b", "a"]
        yield

    for _ in changes(7.0):
        for f, g in zip(readers, jitted):
            assert g(2.0) == g(2.0) == f(2.0)
    assert all(g.cache_info()["recorded"] > 1 for g in jitted)
