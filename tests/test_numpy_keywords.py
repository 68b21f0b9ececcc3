"""NumPy's keywords, one by one, where NumPy's own manual names them: `out=`, `where=`, `initial=`, weak scalars, empty arrays."""

import functools
import warnings

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace import errors

X = np.array([[0.4, 1.3, -0.7, 0.2], [2.1, 0.25, 0.9, -1.1], [-0.3, 0.8, 1.7, 0.6]])
Y = np.array([0.3, -1.2, 0.7, 1.4])
MASK = np.array([[True, False, True, True], [False, True, True, False], [True, True, False, True]])


def same(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


# out=: in every function that has it, the traced array given becomes the result

OUT = {
    "add": lambda x, o: np.add(x, Y, out=o),
    "add by position": lambda x, o: np.add(x, Y, o),
    "fnp.add": lambda x, o: fnp.add(x, Y, out=o),
    "sin where": lambda x, o: np.sin(x, out=o, where=MASK),
    "matmul": lambda x, o: np.matmul(x, x.T, out=o),
    "matmul axes": lambda x, o: np.matmul(x, x, axes=[(0, 1), (1, 0), (1, 0)], out=o),
    "clip": lambda x, o: np.clip(x, -0.5, 0.85, out=o),
    "clip by position": lambda x, o: np.clip(x, -0.5, 0.85, o),
    "x.clip": lambda x, o: x.clip(-0.5, 0.85, out=o),
    "sum": lambda x, o: np.sum(x, axis=0, out=o),
    "sum by position": lambda x, o: np.sum(x, 0, None, o),
    "fnp.sum": lambda x, o: fnp.sum(x, axis=0, out=o),
    "x.sum": lambda x, o: x.sum(axis=0, out=o, keepdims=True),
    "mean": lambda x, o: np.mean(x, axis=1, out=o),
    "prod": lambda x, o: np.prod(x, axis=1, out=o),
    "max": lambda x, o: np.max(x, axis=1, out=o, initial=0.5),
    "min": lambda x, o: x.min(1, o),
    "ptp": lambda x, o: np.ptp(x, axis=1, out=o),
    "var": lambda x, o: np.var(x, axis=1, out=o, ddof=1),
    "std": lambda x, o: x.std(axis=1, out=o),
    "median": lambda x, o: np.median(x, axis=1, out=o),
    "quantile": lambda x, o: np.quantile(x, [0.2, 0.7], axis=1, out=o),
    "percentile": lambda x, o: np.percentile(x, 30, 1, o),
    "nansum": lambda x, o: np.nansum(x, axis=1, out=o),
    "nanmean": lambda x, o: np.nanmean(x, axis=1, out=o),
    "nanstd": lambda x, o: np.nanstd(x, axis=1, out=o),
    "nanmax": lambda x, o: np.nanmax(x, axis=1, out=o),
    "nanmedian": lambda x, o: np.nanmedian(x, axis=1, out=o),
    "cumsum": lambda x, o: np.cumsum(x, axis=1, out=o),
    "cumprod": lambda x, o: x.cumprod(axis=1, out=o),
    "take": lambda x, o: np.take(x, [1, -1], axis=1, out=o),
    "compress": lambda x, o: x.compress([True, False, True], axis=0, out=o),
    "choose": lambda x, o: np.choose([0, 1, 2, 1], [x[0], x[1], x[2]], out=o),
    "concatenate": lambda x, o: np.concatenate([x, x * x], out=o),
    "stack": lambda x, o: np.stack([x, x * x], axis=1, out=o),
    "dot": lambda x, o: np.dot(x, Y, out=o),
    "x.dot": lambda x, o: x.dot(Y, o),
    "outer": lambda x, o: np.outer(x, Y, out=o),
    "einsum": lambda x, o: np.einsum("ij,kj->ik", x, x, out=o),
    "trace": lambda x, o: np.trace(x, out=o),
    "multi_dot": lambda x, o: np.linalg.multi_dot([x, x.T, x], out=o),
    "round": lambda x, o: np.round(x + 0.01, 1, out=o) + np.sum(x),
    "fft": lambda x, o: np.fft.fft(x, out=o),
    "irfft": lambda x, o: np.fft.irfft(x, 6, out=o),
    "rfftn": lambda x, o: np.fft.rfftn(x, out=o),
    "add.reduce": lambda x, o: np.add.reduce(x, 1, out=o),
    "logaddexp.reduce": lambda x, o: np.logaddexp.reduce(x, axis=1, out=o),
    "maximum.accumulate": lambda x, o: np.maximum.accumulate(x, 1, out=o),
    "multiply.reduceat": lambda x, o: np.multiply.reduceat(x, [0, 2], axis=1, out=o),
    "subtract.outer": lambda x, o: np.subtract.outer(x, Y, out=o),
}


@pytest.mark.parametrize("name", OUT)
def test_out_takes_the_result(name):
    call = OUT[name]
    with np.errstate(all="ignore"):
        want = call(X, None) if "where" not in name else np.sin(X, where=MASK, out=np.full(X.shape, 0.5))
    shape, dtype = np.shape(want), np.asarray(want).dtype

    def f(x):
        out = fnp.full(shape, 0.5, dtype=dtype)
        given = call(x, out)
        assert given is out or name == "round"
        return out + 0 * fnp.sum(x), given

    same(ft.vjp(f, X)[0][0], np.round(X + 0.01, 1) if name == "round" else want)
    ft.check_grads(f, X)
    batch = np.stack([X, X[::-1]])
    same(ft.vmap(f)(batch)[0], np.stack([ft.vjp(f, x)[0][0] for x in batch]))


def test_several_results_each_go_to_their_own_out():
    def f(x):
        fraction, whole, free = fnp.zeros((3, 4)), fnp.zeros((3, 4)), np.modf(x, out=(None, fnp.zeros((3, 4))))
        given = np.modf(x, out=(fraction, whole))
        assert given[0] is fraction and given[1] is whole
        return fraction * whole + free[0] * free[1]

    same(ft.vjp(f, X)[0], 2 * np.modf(X)[0] * np.modf(X)[1])
    ft.check_grads(f, X)


def test_out_may_be_a_view_or_a_traced_copy_and_what_was_computed_before_stays():
    def f(x):
        y = x.copy()
        before = y * 2
        np.cumsum(x[0], out=y[1])
        np.multiply(y, x, out=y)
        return y, before

    want = X.copy()
    want[1] = np.cumsum(X[0])
    same(ft.vjp(f, X)[0][0], want * X)
    same(ft.vjp(f, X)[0][1], X * 2)
    ft.check_grads(f, X)


def test_out_wider_than_the_argument_is_computed_in():
    x = np.full(8, 60000.0, np.float16)
    f = lambda x: np.sum(x, out=fnp.zeros((), np.float32))
    assert float(ft.vjp(f, x)[0]) == float(np.sum(x, out=np.zeros((), np.float32))) < np.inf
    assert ft.grad(f)(x).dtype == np.float16


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (errors.ArrayStoreError, lambda x: np.sum(x, axis=0, out=np.zeros(4))),
        (errors.ArrayStoreError, lambda x: np.dot(x, Y, np.zeros(3))),
        (errors.ArrayStoreError, lambda x: np.fft.fft(x, out=np.zeros((3, 4), complex))),
        (ValueError, lambda x: np.sum(x, axis=0, out=fnp.zeros(3))),
        (ValueError, lambda x: np.sum(x, axis=0, out=fnp.zeros((2, 4)))),
        (ValueError, lambda x: np.add(x, 1.0, out=fnp.zeros(4))),
        (TypeError, lambda x: np.fft.fft(x, out=fnp.zeros((3, 4)))),
        (TypeError, lambda x: np.einsum("ij->j", x, out=fnp.zeros(4, np.float32))),
        (TypeError, lambda x: np.dot(x, Y, out=fnp.zeros(3, np.float32))),
        (TypeError, lambda x: np.sum(x, axis=0, out=[0.0] * 4)),
    ],
)
def test_an_out_that_does_not_fit_says_so(error, call):
    with pytest.raises(error, match="test_numpy_keywords"):
        ft.grad(lambda x: np.sum(call(x)))(X)


def test_out_of_constants_may_be_plain_and_plain_arguments_are_numpys():
    where, any_ = np.zeros(3, int), np.zeros(4, bool)

    def f(x):
        assert np.argmax(x, axis=1, out=where) is where and np.any(x > 2, axis=0, out=any_) is any_
        total = fnp.zeros(4)
        assert np.sum(X, axis=0, out=total) is total and np.add(total, 1.0, out=total) is total
        same(total, np.sum(X, axis=0) + 1)
        total[0] = x[0, 0]
        return np.sum(total)

    assert ft.grad(f)(X).sum() == 1
    np.testing.assert_array_equal(where, np.argmax(X, axis=1))
    np.testing.assert_array_equal(any_, np.any(X > 2, axis=0))
    out = np.zeros(4)
    assert fnp.sum(X, axis=0, out=out) is out and fnp.add(X[0], 1.0, out) is out


# the keywords of ufuncs, in both namespaces


@pytest.mark.parametrize("np_", [np, fnp])
def test_keywords_of_ufuncs(np_):
    for f in (
        lambda x: np_.add(x, Y, dtype=np.float64),
        lambda x: np_.multiply(x, Y, casting="same_kind", order="C", subok=False),
        lambda x: np_.multiply(x, 3, signature="dd->d"),
        lambda x: np_.sin(x, where=True),
        lambda x: np_.exp(x, None),
        lambda x: np_.matmul(x, x, axes=[(0, 1), (1, 0), (0, 1)]),
        lambda x: np_.vecdot(x, x, axis=0, keepdims=True),
        lambda x: np_.vecdot(x, x * x, axes=[1, 1]),
        lambda x: np_.nextafter(x, x + 1.0),
    ):
        same(ft.vjp(f, X)[0], f(X))
        ft.check_grads(f, X)
    narrow = X.astype(np.float32)
    f = lambda x: np_.multiply(x, 0.1, dtype=np.float64)
    assert ft.vjp(f, narrow)[0].dtype == np.float64 and ft.grad(lambda x: f(x).sum())(narrow).dtype == np.float32
    with pytest.raises(TypeError):
        ft.grad(lambda x: np_.add(x, 1.0, dtype=np.float32, casting="safe").sum())(X)


def by_steps(ufunc):
    """`ufunc.reduce`, one element after the other: with AVX-512 NumPy's own is wrong for power and arctan2 along the last axis."""

    def reduce(x, axis=0, initial=None, where=True, keepdims=False):
        if not x.ndim:
            return x
        first = [] if initial is None else [initial]
        rows, masks = np.moveaxis(x, axis, -1), np.moveaxis(np.broadcast_to(where, x.shape), axis, -1)
        out = [functools.reduce(ufunc, [*first, *rows[place][masks[place]]]) for place in np.ndindex(rows.shape[:-1])]
        out = fnp.reshape(fnp.stack(out), rows.shape[:-1])
        return np.expand_dims(out, axis) if keepdims else out

    return reduce


@pytest.mark.parametrize("ufunc", [np.logaddexp, np.logaddexp2, np.hypot, np.fmax, np.fmin, np.subtract, np.divide, np.power, np.arctan2])
def test_reductions_of_ufuncs_with_where_and_initial(ufunc):
    x = np.abs(X) + 0.1
    for f in (
        lambda x, reduce: reduce(x, axis=1, initial=0.6, where=MASK),
        lambda x, reduce: reduce(x, axis=0, initial=0.6, where=MASK, keepdims=True),
        lambda x, reduce: reduce(x[:0], initial=0.6) + 0 * x[0],
        lambda x, reduce: reduce(x[0, 0], axis=0) + 0 * x,
    ):
        whole, steps = (functools.partial(f, reduce=reduce) for reduce in (ufunc.reduce, by_steps(ufunc)))
        same(ft.vjp(whole, x)[0], steps(x))
        same(ft.jacobian(whole)(x), ft.jacobian(steps)(x))
        ft.check_grads(steps, x)
    if ufunc.identity is None:
        with pytest.raises(ValueError, match="identity"):
            ft.vjp(lambda x: ufunc.reduce(x, where=MASK), x)


def test_a_class_of_dtypes_is_a_dtype():
    for f in (lambda x: np.subtract(x, 2 * x, dtype=np.dtypes.Float32DType), lambda x: x.astype(np.dtypes.Float32DType)):
        value, slope = ft.jvp(f, (np.ones(2),), (np.ones(2),))
        assert value.dtype == slope.dtype == f(np.ones(2)).dtype == np.float32
        np.testing.assert_array_equal(value, f(np.ones(2)))


def test_ufunc_reductions_take_dtype_and_reduceat_leaves_single_elements_alone():
    f = lambda x: (np.maximum.reduce(x, 0, np.float32), np.hypot.reduceat(-abs(x), [0, 1, 0]))
    for a, b in zip(ft.vjp(f, X)[0], f(X)):
        assert a.dtype == b.dtype
        same(a, b)


# where=, initial= and their like, traced or batched


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: np.mean(x, axis=1, where=y > -1),
        lambda x, y: x.mean(where=x > y),
        lambda x, y: np.std(x, axis=1, where=x > -1, mean=y.sum()),
        lambda x, y: np.max(x, axis=1, initial=y[0]),
        lambda x, y: np.min(x, axis=1, initial=y[1], where=x > y),
        lambda x, y: np.nanmax(x, axis=1, initial=y[0], where=MASK),
        lambda x, y: np.prod(x, axis=1, initial=y[0], where=x > 0),
        lambda x, y: np.nan_to_num(np.where(x > 1, np.nan, x), nan=y[0]),
        lambda x, y: np.nan_to_num(np.where(x > 1, np.inf, x), posinf=y),
        lambda x, y: np.piecewise(y, y > 0, [lambda y: y * y, 2.0]),
        lambda x, y: fnp.at(x)[x > 0.3].multiply(y[0]),
        lambda x, y: np.searchsorted(y, x[0], sorter=np.argsort(y)) * y,
        lambda x, y: np.histogram2d(x[0], y, 2, [[-3, 3], [-3, 3]], weights=x[1])[0],
        lambda x, y: np.bincount((y > 0).astype(int), weights=x[1], minlength=3),
    ],
)
def test_masks_and_initials_that_are_traced(f):
    ft.check_grads(f, X, Y)
    xs, ys = np.stack([X, X[::-1] * 1.1, X * 0.9]), np.stack([Y, Y[::-1], -Y])
    same(ft.vmap(f)(xs, ys), np.stack([f(x, y) for x, y in zip(xs, ys)]))
    total = lambda x, y: np.sum(f(x, y) ** 2)
    for a, b in zip(ft.vmap(ft.grad(total, (0, 1)))(xs, ys), zip(*(ft.grad(total, (0, 1))(x, y) for x, y in zip(xs, ys)))):
        same(a, np.stack(b))


def test_a_batch_is_split_by_the_mask_that_it_is_written_at():
    def f(x):
        y = x * 1.0
        y[x > 0] = x[0, :1] * 3
        y[1, x[1] > 0.5] -= 2.0
        return y

    batch = np.stack([X, -X, X[::-1]])
    same(ft.vmap(f)(batch), np.stack([f(x) for x in batch]))
    same(ft.vmap(ft.grad(lambda x: np.sum(f(x) ** 2)))(batch), np.stack([ft.grad(lambda x: np.sum(f(x) ** 2))(x) for x in batch]))


WRITES = [
    "y[np.argmax(x[0])] = w",
    "y[1, np.argmax(x[0])] *= w[0]",
    "y[:, np.argsort(w)[1:]] = x[:, 1:]",
    "y[np.argmax(x[0]) - 4] = w",
    "y[np.argmax(w)] += x[0]",
    "np.add.at(y, np.argmax(x, axis=1), w)",
    "np.put(y, np.argsort(w)[:2], w[:2])",
    "np.put_along_axis(y, np.argmax(x, axis=1)[:, None], w[0], axis=1)",
    "np.place(y, x > 0, w)",
    "y.flat = w[:3]",
    "y.flat[[1, 5]] = w[:2]",
]


@pytest.mark.parametrize("statement", WRITES)
def test_writes_at_places_that_differ_between_examples(statement):
    def f(x, w):
        x, w, y = x * 1.0, w * 1.0, fnp.zeros((4, 4))
        y += 0.5
        exec(statement, {"np": np, "x": x, "w": w, "y": y})
        return y

    x, w = np.vstack([X, -X[:1]]), Y
    ft.check_grads(f, x, w)
    xs, ws = np.stack([x, x[::-1] * 1.1, np.flip(x, 1)]), np.stack([w, w[::-1], -w])
    for axes in ((0, 0), (0, None), (None, 0)):
        args = [a if k == 0 else a[0] for a, k in zip((xs, ws), axes)]
        rows = [f(*(a[j] if k == 0 else a for a, k in zip(args, axes))) for j in range(3)]
        same(ft.vmap(f, axes)(*args), np.stack(rows))
    grad = ft.grad(lambda x, w: np.sum(f(x, w) ** 2), (0, 1))
    for a, b in zip(ft.vmap(grad)(xs, ws), zip(*(grad(x, w) for x, w in zip(xs, ws)))):
        same(a, np.stack(b))


def test_of_repeated_places_that_differ_between_examples_the_last_write_counts():
    def f(x):
        y = fnp.zeros(3)
        y[np.argmax(x, axis=1)] = x[0]
        y[[np.argmin(x[1]), 0, np.argmax(x[2])]] *= x[1]
        return y

    xs = np.stack([np.ones((3, 3)), np.eye(3), X[:, :3]])
    slope = ft.grad(lambda x: np.sum(f(x) ** 2))
    for g in (f, slope):
        rows = np.stack([g(x) for x in xs])
        same(ft.vmap(g)(xs), rows)
        same(ft.jit(ft.vmap(g))(xs), rows)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_out_and_where_leave_no_nan_of_the_elements_left_out():
    x = np.array([0.0, 4.0, 1.0])

    def root(x):
        y = fnp.zeros(3)
        np.sqrt(x, out=y, where=x > 0)
        return np.sum(y)

    def inverse(x):
        y = x * 1.0
        np.divide(1.0, x, out=y, where=x != 0)
        return np.sum(y**2)

    for f, want in (
        (root, [0, 0.25, 0.5]),
        (inverse, [0, -2 / 64, -2]),
        (lambda x: np.logaddexp.reduce(np.log(x), where=x > 0), [0, 0.2, 0.2]),
        (lambda x: np.subtract.reduce(np.sqrt(x), where=x > 0, initial=1.0), [0, -0.25, -0.5]),
        (lambda x: np.max(np.sqrt(x), initial=0.5, where=x > 0), [0, 0.25, 0]),
        (lambda x: np.fmax.reduce(np.sqrt(x), initial=0.5, where=x > 0), [0, 0.25, 0]),
    ):
        same(ft.grad(f)(x), want)
        same(ft.jacfwd(f)(x), want)
        assert np.isfinite(ft.hessian(f)(x)).all() and np.isfinite(ft.jacrev(ft.grad(f))(x)).all()


def test_conj_is_a_method():
    z = X + 1j * X[::-1]
    same(ft.vjp(lambda z: z.conj() * z, z)[0], np.abs(z) ** 2 + 0j)
    assert ft.grad(lambda x: np.sum(x.conj() ** 2))(X).dtype == float


def test_an_empty_list_is_an_index():
    for f in (lambda x: x[[]], lambda x: x[:, []], lambda x: x[[], 1]):
        assert ft.vjp(f, X)[0].shape == f(X).shape


# dtypes: Python's numbers are weak wherever NumPy takes them so


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64])
def test_python_numbers_are_weak(dtype):
    x, s = X.astype(dtype), np.array(0.7, dtype)
    calls = [
        lambda x, s: np.select([MASK, ~MASK[::-1]], [x, 3.0]),
        lambda x, s: np.select([MASK], [x], default=1.5),
        lambda x, s: np.linspace(s, 3.0, 4),
        lambda x, s: np.linspace(2, s, 4),
        lambda x, s: np.logspace(s, 1.0, 3, base=2.0),
        lambda x, s: np.histogram(np.real(x), 3, (-1, 1), density=True)[0],
        lambda x, s: fnp.polynomial.chebyshev.cheb2poly(x[0]),
    ]
    for k, f in enumerate(calls):
        assert ft.vjp(f, x, s)[0].dtype == f(x, s).dtype, k


def test_a_real_dtype_for_the_mean_of_complex_numbers():
    z = X + 1j * X[::-1]
    for name in ("var", "std"):
        f = lambda z, name=name: getattr(np, name)(z, axis=1, dtype=np.float64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            same(ft.vjp(f, z)[0], f(z))


# nothing in it


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.max(x, axis=1, initial=0.2),
        lambda x: np.min(x, axis=(0, 1), initial=0.2, keepdims=True),
        lambda x: np.nanmax(x, axis=1, initial=0.2),
        lambda x: np.median(x, axis=1),
        lambda x: np.median(x),
        lambda x: np.nanmedian(x, axis=0),
        lambda x: np.nanquantile(x, [0.2, 0.6], axis=1, keepdims=True),
        lambda x: np.linalg.svd(x, compute_uv=False),
        lambda x: np.linalg.lstsq(x, np.zeros(3), rcond=None)[0],
        lambda x: x[[], :0],
    ],
)
def test_empty_arrays(f):
    x = np.zeros((3, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        want = f(x)
        out, pull = ft.vjp(f, x)
        np.testing.assert_array_equal(out, want)
        assert pull(np.ones_like(want))[0].shape == x.shape
        np.testing.assert_array_equal(ft.vmap(f)(np.zeros((2, 3, 0))), np.stack([want, want]))


def test_norms_of_nothing_are_zero_and_conditions_of_nothing_are_refused():
    for order in (np.inf, 1, 2):
        assert ft.vjp(lambda x, order=order: np.linalg.norm(x, order), np.zeros((3, 0)))[0] == 0
    for order in (None, "fro", 1):
        with pytest.raises(np.linalg.LinAlgError):
            ft.vjp(lambda x, order=order: np.linalg.cond(x, order), np.zeros((0, 0)))


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any", "argmax", "cumsum", "var", "mean"])
def test_a_scalar_has_an_axis_for_reductions(name):
    f = lambda x: getattr(np, name)(x, axis=0) + 0 * x
    if name in ("var", "mean"):
        f = lambda x: np.std(x * 1.0, where=True) + 0 * x
    same(ft.vjp(f, 2.0)[0], f(np.array(2.0)))
    same(ft.vmap(f)(np.ones(2)), np.stack([f(np.array(1.0))] * 2))


def test_a_batch_of_matrices_of_which_some_are_symmetric():
    symmetric = X[:, :3] @ X[:, :3].T
    batch = np.stack([symmetric, symmetric + np.triu(np.ones((3, 3)), 1)])
    for f in (lambda a: np.linalg.eigvalsh(a)[0], lambda a: np.linalg.pinv(a, hermitian=True)[0, 1], lambda a: np.linalg.cholesky(a)[2, 2]):
        same(ft.vmap(ft.grad(f))(batch + 3 * np.eye(3)), np.stack([ft.grad(f)(a + 3 * np.eye(3)) for a in batch]))


def test_the_namespace_of_polynomials_has_what_is_declared():
    c = np.array([0.3, -1.0, 2.0, 0.7])
    for family, short in (("chebyshev", "cheb"), ("legendre", "leg"), ("hermite", "herm"), ("hermite_e", "herme"), ("laguerre", "lag")):
        ours, numpys = (getattr(getattr(lib.polynomial, family), f"{short}2poly") for lib in (fnp, np))
        same(ft.vjp(ours, c)[0], numpys(c))
        ft.check_grads(ours, c)


@pytest.mark.parametrize(
    ("smooth", "f"),
    [
        (False, lambda a: np.sum(np.linalg.eigvalsh(a) ** 2)),
        (False, lambda a: np.sum(np.log(np.linalg.eigvalsh(a)))),
        (False, lambda a: np.sum(np.linalg.svdvals(a) ** 2)),
        (True, lambda a: np.sum(np.linalg.eigvalsh(a))),
        (True, lambda a: np.linalg.norm(a, "nuc")),
        (True, lambda a: np.linalg.norm(a, 2)),
    ],
)
def test_second_derivatives_of_functions_of_equal_values_are_right_or_raise(smooth, f):
    a, t = np.diag([1.0, 1.0, 2.0]), np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]])
    slope = lambda a: np.sum(ft.grad(f)(a) * t)
    if smooth:
        np.testing.assert_allclose(ft.grad(slope)(a), (ft.grad(f)(a + 1e-6 * t) - ft.grad(f)(a - 1e-6 * t)) / 2e-6, atol=1e-6)
    else:
        with pytest.raises(errors.DegenerateError):
            ft.grad(slope)(a)
    apart = np.diag([1.0, 1.5, 2.0])
    np.testing.assert_allclose(ft.grad(slope)(apart), (ft.grad(f)(apart + 1e-6 * t) - ft.grad(f)(apart - 1e-6 * t)) / 2e-6, atol=1e-5)


@pytest.mark.parametrize("order", [1.0, 1.5, 2.0, 3.0, -1.0])
@pytest.mark.parametrize("norm", [fnp.linalg.norm, fnp.linalg.vector_norm])
def test_the_order_of_a_norm_may_be_traced_and_is_then_no_special_case(norm, order):
    f = lambda x, p: norm(x, ord=p)
    ft.check_grads(f, X[0], order)
    assert abs(ft.grad(f, 1)(X[0], order)) > 0.01


@pytest.mark.parametrize("norm", [fnp.linalg.norm, fnp.linalg.vector_norm])
def test_orders_without_powers_may_be_traced_too(norm):
    x, orders = np.array([3.0, -4.0, 0.0, 2.0]), np.array([1, 2, np.inf, -np.inf, 0, 3])
    want = [np.linalg.norm(x, p) for p in orders]
    for f in (ft.vmap(lambda p: norm(x, ord=p)), lambda ps: [ft.value_and_grad(lambda p: norm(x, ord=p))(p)[0] for p in ps]):
        same(f(orders), want)
        same(ft.jit(f)(orders), want)


def test_the_threshold_of_pinv_may_be_traced_and_means_what_numpys_means():
    a = np.diag([2.0, 1.0, 0.1]) + 0.03
    f, slope = (g(lambda a, r: np.sin(fnp.linalg.pinv(a, rtol=r)).sum()) for g in (lambda f: f, ft.grad))
    at = [0.01, 0.3, 0.8, 0.01]
    same([ft.jit(f)(a, r) for r in at], want := [np.sin(np.linalg.pinv(a, rtol=r)).sum() for r in at])
    same(ft.vmap(f, in_axes=(None, 0))(a, np.array(at)), want)
    jitted = ft.jit(slope)
    for r in at:
        np.testing.assert_allclose(jitted(a, r), slope(a, r), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(slope(a, r), ft.grad(lambda a, r=r: np.sin(np.linalg.pinv(a, rtol=r)).sum())(a), rtol=1e-9, atol=1e-12)
    tiny = np.diag([1.0, 7e-16])  # between what NumPy takes for zero by default, and with rtol=None
    for keywords in ({}, {"rtol": None}):
        same(ft.vjp(lambda a, k=keywords: np.linalg.pinv(a, **k), tiny)[0], np.linalg.pinv(tiny, **keywords))
    with pytest.raises(ValueError, match="both"):
        ft.vjp(lambda a: np.linalg.pinv(a, 0.1, rtol=0.1), a)


def test_dtypes_of_summaries_that_are_not_floats_are_numpys():
    for f in (
        lambda x: np.sum(x * 9, dtype=int),
        lambda x: np.sum(x, axis=0, dtype=bool),
        lambda x: np.sum(x * 9, dtype=np.int8),
        lambda x: np.prod(x * 9, axis=1, dtype=int),
        lambda x: np.mean(x * 9, axis=1, dtype=int),
        lambda x: np.cov(x, dtype=np.float32),
    ):
        out, want = ft.vjp(lambda x, f=f: (f(x), x), X)[0][0], f(X)
        assert out.dtype == want.dtype
        np.testing.assert_allclose(out, want, rtol=1e-6)
    with pytest.raises(errors.UnsupportedError, match="dtype=int64"):
        ft.grad(lambda x: np.var(x, dtype=int))(X)


def test_what_is_not_honoured_is_refused():
    for keyword, f in (
        ("where", lambda x: np.clip(x, 0.0, 1.0, where=MASK)),
        ("order", lambda x: np.sort(x, order="a")),
        ("order", lambda x: np.argsort(x, order="a")),
        ("order", lambda x: np.partition(x, 1, order="a")),
        ("writeable", lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=1, writeable=True)),
    ):
        with pytest.raises(errors.UnsupportedError, match=f"the keyword {keyword}="):
            ft.vjp(f, X)


@pytest.mark.parametrize("ddof", [1, 2])
@pytest.mark.parametrize("spread", [np.var, np.std])
def test_a_spread_without_degrees_of_freedom_has_no_derivative(spread, ddof):
    f = lambda x: spread(x, ddof=ddof)
    with np.errstate(invalid="ignore"), pytest.warns(RuntimeWarning, match="Degrees of freedom"):
        assert np.isnan(ft.grad(f)(np.ones(1))).all() and np.isnan(ft.jvp(f, (np.ones(1),), (np.ones(1),))[1])


def test_the_correction_of_a_variance_may_be_traced():
    for f in (
        lambda x, d: np.var(x, axis=1, ddof=d),
        lambda x, d: np.std(x, correction=d),
        lambda x, d: np.nanvar(x, axis=0, ddof=d),
    ):
        ft.check_grads(f, X, 0.5)


def test_lists_of_traced_numbers_in_the_namespace():
    for f in (
        lambda k: fnp.add([k, 1.0], [1.0, k]),
        lambda k: fnp.exp([k, 1.0]),
        lambda k: fnp.hypot([[k], [2 * k]], 1.0),
        lambda k: fnp.histogram(Y, bins=[-3 * k, k, 3 * k], weights=Y)[0] * k,
        lambda k: fnp.poly([k, 1.0]),
    ):
        ft.check_grads(f, 0.6)


@pytest.mark.parametrize("bins", range(2, 13))
def test_counts_of_numbers_at_the_edges_are_numpys(bins):
    for low, high in ((-0.3, 0.9), (0.1, 0.7), (0.1, 1.0)):
        x = np.linspace(low, high, bins + 1)
        counts, edges = ft.vjp(lambda x: np.histogram(x, bins, weights=np.ones(len(x))), x)[0]  # noqa: B023
        same(counts, np.histogram(x, bins)[0])
        np.testing.assert_array_equal(edges, np.histogram(x, bins)[1])


def test_each_nan_is_a_value_of_its_own_in_setxor1d():
    x = np.array([1.0, np.nan, np.nan])
    same(ft.vjp(lambda x: np.setxor1d(x, [2.0, np.nan]), x)[0], np.setxor1d(x, [2.0, np.nan]))


def test_quantiles_of_booleans_are_booleans():
    x = np.array([[0.4, -0.7, 0.2], [-0.1, 0.3, -0.2]])
    f = lambda x: np.quantile(x > 0, 0.5, method="lower")
    assert type(ft.jit(f)(x)) is type(f(x)) is np.bool_
    np.testing.assert_array_equal(ft.vmap(f)(x), [f(row) for row in x])


NOTHING_WRITTEN = {
    "put": lambda y: np.put(y, [0], []),
    "put nowhere": lambda y: np.put(y, [], [1.0]),
    "putmask": lambda y: np.putmask(y, y > 0, []),
    "place nowhere": lambda y: np.place(y, np.zeros(3, bool), []),
    "flat": lambda y: setattr(y, "flat", []),
}


@pytest.mark.parametrize("write", NOTHING_WRITTEN.values(), ids=NOTHING_WRITTEN)
def test_writing_nothing_leaves_an_array_as_it_is(write):
    def f(x):
        y = x * 1
        write(y)
        return y

    out, pull = ft.vjp(f, np.arange(3.0))
    same(out, f(np.arange(3.0)))
    same(pull(np.ones(3))[0], np.ones(3))


def test_reduceat_of_no_places_is_empty():
    for ufunc in (np.add, np.multiply):
        assert ft.vjp(lambda x: ufunc.reduceat(x, [], axis=1), X)[0].shape == ufunc.reduceat(X, [], axis=1).shape == (3, 0)  # noqa: B023


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@pytest.mark.parametrize("width", [1, (3, 0), (0, 9), (7, 11)])
def test_odd_reflections_take_no_more_memory_than_they_must(mode, width):
    pad = lambda x: np.pad(x, width, mode=mode, reflect_type="odd")
    for x in (Y, X, Y[:1], np.arange(5, dtype=np.uint8)):
        want = pad(x)
        got = ft.vmap(pad)(x[None])[0]
        assert got.dtype == want.dtype
        same(got, want)
    same(ft.grad(lambda x: np.sum(pad(x)[: np.ravel(width)[0]]))(np.ones(60_000)).sum(), np.ravel(width)[0])


def test_the_places_of_quantiles_are_found_once(monkeypatch):
    g = ft.grad(lambda x: np.quantile(x, 0.371))
    want = g(Y)
    monkeypatch.setattr(np, "quantile", None)  # traced values find ours by name
    same(ft.grad(lambda x: fnp.quantile(x, 0.371))(Y), want)


def test_conditions_of_rows_choose_rows_in_piecewise():
    functions = [lambda v: 2 * v, 5.0, lambda v: -v]
    x = np.array([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0], [7.0, 8.0, -9.0]])
    f = lambda x: np.piecewise(x, [x[:, 0] > 2, x[:, 0] < -2], functions)
    g = lambda x: np.piecewise(x[:1], [x[:, 0] > 2], functions[:2])
    for run in (
        ft.jit,
        lambda f: lambda x: ft.vmap(f)(np.stack([x, -x]))[0],
        lambda f: lambda x: ft.scan(lambda c, e: (c, f(e)), 0, x[None])[1][0],
    ):
        assert np.array_equal(run(f)(x), f(x))
        with pytest.raises(IndexError, match="size of axis is 1 but size of corresponding boolean axis is 3"):
            run(g)(x)


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="NumPy has ndmax= since 2.4")
def test_an_array_of_at_most_so_many_axes():
    assert fnp.array([[1, 2], [3, 4]], dtype=object, ndmax=1).shape == (2,)
    assert ft.grad(lambda x: fnp.array([x, x], ndmax=1).sum())(1.0) == 2.0
    with pytest.raises(ft.errors.UnsupportedError, match="objects"):
        ft.grad(lambda x: fnp.array([[x, x]], ndmax=1).sum())(1.0)


def test_places_to_split_at_are_integers():
    for f, x in (lambda x: np.split(x, [2.0, 3.0]), np.arange(8.0)), (lambda i: np.split(np.arange(8.0), i), np.array([2.0, 3.0])):
        with pytest.raises(TypeError, match="integer"):
            ft.vjp(f, x)
