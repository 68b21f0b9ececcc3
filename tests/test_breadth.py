"""Kinks, ties, zeros and NaN in NumPy's wider functions; writing functions; and what must be refused."""

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace import errors
from functrace.ops.reduce import _argsort

NAN, INF = np.nan, np.inf


def same(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


# zeros


@pytest.mark.parametrize("x", [[2.0, 3.0, 4.0], [2.0, 0.0, 4.0], [0.0, 0.0, 4.0], [0.0, 0.0, 0.0]])
def test_prod_and_cumprod_at_zeros_to_second_order(x):
    x = np.array(x)
    a, b, c = x
    same(ft.grad(np.prod)(x), [b * c, a * c, a * b])
    same(ft.hessian(np.prod)(x), [[0, c, b], [c, 0, a], [b, a, 0]])
    same(ft.jacrev(np.cumprod)(x), [[1, 0, 0], [b, a, 0], [b * c, a * c, a * b]])
    same(ft.jacfwd(np.cumprod)(x), ft.jacrev(np.cumprod)(x))
    same(ft.hessian(lambda x: np.cumprod(x)[2])(x), [[0, c, b], [c, 0, a], [b, a, 0]])
    same(ft.hessian(lambda x: np.cumprod(x)[1])(x), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])


def test_cumprod_third_order():
    third = ft.jacfwd(ft.hessian(lambda x: np.cumprod(x)[-1]))(np.array([0.0, 0.0, 5.0]))
    assert third[0, 1, 2] == third[2, 1, 0] == 1


@pytest.mark.parametrize("f", [lambda x: np.sum(np.prod(x, -1) ** 2), lambda x: np.sum(np.cumprod(x, -1) ** 2)])
def test_products_are_divided_by_their_factors_under_jit_too_as_long_as_none_is_zero(f):
    g = ft.value_and_grad(f)
    jitted = ft.jit(g)
    x = np.linspace(0.5, 2, 12).reshape(3, 4)
    zero = x * (x != x[1, 2])
    for y in (x, 2 * x, zero, x, 3 * zero):
        for got, eager in zip(jitted(y), g(y)):
            np.testing.assert_array_equal(got, eager)
    assert jitted.cache_info()["recorded"] == 2
    body = ft.grad(lambda xs: np.sum(ft.scan(lambda c, x: (c, f(x[None])), 0.0, xs)[1]))
    for y in (x, zero):
        same(ft.jit(body)(y), ft.grad(lambda xs: sum(f(x[None]) for x in xs))(y))


@pytest.mark.parametrize("value", [0.0, 0.1, 1e8, -3.3])
@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_std_has_zero_subgradient_where_all_are_equal(value, n):
    x = np.full(n, value)
    for f in (np.std, np.nanstd, lambda x: np.std(x, where=np.ones(n, bool))):
        same(ft.grad(f)(x), np.zeros(n))
        same(ft.jvp(f, (x,), (np.arange(float(n)),))[1], 0)


def test_std_of_nothing_spreads_no_nan_to_second_order():
    assert np.isfinite(ft.hessian(np.std)(np.ones(3))).all()


def test_sinc_is_smooth_at_zero_to_every_order():
    f = np.sinc
    assert ft.grad(f)(0.0) == 0
    same(ft.grad(ft.grad(f))(0.0), -(np.pi**2) / 3)
    same(ft.grad(ft.grad(ft.grad(ft.grad(f))))(0.0), np.pi**4 / 5)
    x = 1e-5
    same(ft.grad(f)(x), -(np.pi**2) * x / 3 + np.pi**4 * x**3 / 30)


def test_angle_and_i0_at_zero():
    assert ft.grad(lambda t: np.angle(t + 0j))(0.0) == 0
    same(ft.grad(ft.grad(np.i0))(0.0), 0.5)
    same(ft.grad(np.i0)(3.0), 3.9533702174026093)


# ties


def test_clip_is_minimum_of_maximum():
    x = np.array([-1.0, 0.0, 0.5, 1.0, 2.0])
    clip, both = (lambda x: np.clip(x, 0.0, 1.0).sum()), (lambda x: np.minimum(np.maximum(x, 0.0), 1.0).sum())
    same(ft.grad(clip)(x), ft.grad(both)(x))
    same(ft.grad(clip)(x), [0, 0.5, 1, 0.5, 0])
    same(ft.grad(lambda x: x.clip(0.0).sum())(x), [0, 0.5, 1, 1, 1])
    same(ft.grad(lambda lo: np.clip(x, lo, 1.0).sum())(0.0), 1.5)


@pytest.mark.parametrize("f", [np.maximum, np.minimum])
def test_running_extremes_share_evenly_at_ties(f):
    x = np.array([1.0, 1.0, 1.0]) * (1 if f is np.maximum else -1)
    same(ft.jacrev(f.accumulate)(x), [[1, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]])
    same(ft.jacfwd(f.accumulate)(x), ft.jacrev(f.accumulate)(x))
    mixed = np.array([2.0, 1.0, 2.0, 3.0, 0.0]) * x[0]
    same(ft.jacrev(f.accumulate)(mixed).sum(axis=1), np.ones(5))


@pytest.mark.parametrize("f", [np.ptp, np.median, np.nanmedian, lambda x: np.quantile(x, 0.3), np.nanmax, np.nanmin])
def test_shares_sum_to_what_a_shift_does(f):
    x = np.array([2.0, 1.0, 2.0, 1.0, 2.0, 1.0])
    same(ft.grad(f)(x).sum(), 0 if f is np.ptp else 1)
    same(ft.jvp(f, (x,), (np.ones(6),))[1], 0 if f is np.ptp else 1)


def test_sort_is_stable_and_its_rules_agree():
    x = np.array([2.0, 1.0, 2.0, 1.0])
    want = np.eye(4)[[1, 3, 0, 2]]
    same(ft.jacrev(np.sort)(x), want)
    same(ft.jacfwd(lambda x: np.sort(x, kind="heapsort"))(x), want)
    same(ft.jacrev(lambda x: np.unique(x))(x), np.eye(4)[[1, 0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("digits", [0, 1, 9])
def test_many_numbers_of_which_some_are_equal_are_ordered_by_the_fastest_sort(dtype, digits, monkeypatch):
    x = np.random.default_rng(0).normal(size=(2, 3000, 2)).round(digits).astype(dtype)
    x[:, 7] = x[:, 5]
    x[0, :9] = [0.0, -0.0]
    want, plain, kinds = np.argsort(x, 1, kind="stable"), np.argsort, []
    monkeypatch.setattr(np, "argsort", lambda x, axis, kind=None: kinds.append(kind) or plain(x, axis, kind))
    np.testing.assert_array_equal(_argsort(x, 1), want)
    assert kinds == [None]


def test_logaddexp_reduce_at_minus_infinity():
    same(ft.grad(np.logaddexp.reduce)(np.array([-INF, -INF])), [0, 0])
    same(ft.grad(np.logaddexp.reduce)(np.array([-INF, 1.0])), [0, 1])
    same(ft.grad(np.logaddexp.reduce)(np.array([1.0, 1.0, 1.0, 1.0])), np.full(4, 0.25))


# NaN


@pytest.mark.parametrize(
    "f",
    [np.nansum, np.nanmean, np.nanvar, np.nanstd, np.nanprod, np.nanmax, np.nanmin, np.nanmedian]
    + [lambda x: np.nanquantile(x, 0.3), lambda x: np.nancumsum(x).sum(), lambda x: np.nancumprod(x).sum()]
    + [lambda x: np.nan_to_num(x).sum(), lambda x: np.nanpercentile(x, [10, 60]).sum()],
)
def test_nan_entries_have_zero_derivative(f):
    x = np.array([1.0, NAN, 3.0, 0.5, NAN])
    g = ft.grad(f)(x)
    assert (g[[1, 4]] == 0).all() and np.isfinite(g).all() and (g != 0).any()
    h = ft.hessian(f)(x)
    assert np.isfinite(h).all()
    if f is not np.nanprod:
        rest = ft.grad(f)(x[[0, 2, 3]])
        if f in (np.nansum, np.nanmean, np.nanvar, np.nanstd, np.nanmax, np.nanmin, np.nanmedian):
            same(g[[0, 2, 3]], rest)


def test_slices_that_are_all_nan_warn_as_numpy_does():
    x = np.array([[NAN, NAN], [1.0, 2.0]])
    for f in (np.nanmean, np.nanvar, np.nanmax, np.nanmedian):
        with pytest.warns(RuntimeWarning):
            want = f(x, axis=1)
        with pytest.warns(RuntimeWarning):
            out, pull = ft.vjp(lambda x, f=f: f(x, axis=1), x)
        np.testing.assert_array_equal(out, want)
        (g,) = pull(np.array([0.0, 1.0]))
        assert np.isfinite(g[1]).all()


def test_nan_in_a_plain_quantile_gives_nan():
    x = np.array([[1.0, NAN, 2.0], [3.0, 4.0, 0.5], [1.0, 0.0, 5.0]])
    for f in (
        lambda x: np.quantile(x, 0.5, axis=1),
        lambda x: np.quantile(x, [0.2, 0.6], axis=1, weights=[1.0, 0.5, 2.0], method="inverted_cdf"),
        lambda x: np.quantile(x, 0.6, axis=1, weights=np.ones(x.shape), method="inverted_cdf"),
    ):
        same(ft.jvp(f, (x,), (np.ones((3, 3)),))[0], f(x))


def test_a_quantile_at_a_place_is_the_element_there_though_its_neighbours_be_infinite():
    with np.errstate(invalid="ignore"):
        out, pull = ft.vjp(lambda x: np.quantile(x, [0.0, 0.5, 1.0]), np.array([2.0, np.inf, 1.0, np.inf, 3.0]))
    same(out, [1, 3, np.inf])
    same(pull(np.array([1.0, 2.0, 0.0]))[0], [0, 0, 1, 0, 2])


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_at_a_place_a_quantile_moves_with_q_as_in_the_piece_to_the_right(name):
    f = lambda q: getattr(fnp, name)(np.array([[4.0, 1.0, 2.0], [3.0, 3.0, 9.0]]), q, axis=1)
    same(ft.jacobian(f)(0.5), [4, 12])
    same(ft.jvp(f, (np.array([0.25, 0.5]),), (np.ones(2),))[1], [[2, 0], [4, 12]])


# functions that write


def writes(f):
    """The derivative of what `f` makes of a traced copy of its argument."""

    def run(x):
        y = x.copy()
        f(y)
        return (y * np.arange(1.0, 1 + y.size).reshape(y.shape)).sum()

    return run


WRITERS = [
    lambda y: np.copyto(y, 2 * y, where=np.array([True, False, True, False])),
    lambda y: np.putmask(y, np.array([True, False, True, False]), y[:3] ** 2),
    lambda y: np.place(y, np.array([True, False, True, True]), y[:2] ** 2),
    lambda y: np.put(y, [0, 3], y[1] ** 2),
    lambda y: y.put([0, -1], y[1:3] ** 2),
    lambda y: np.put_along_axis(y, np.array([3, 0]), y[1:3] ** 2, axis=0),
    lambda y: np.add.at(y, [0, 0, 1], y[2] ** 2),
    lambda y: np.multiply.at(y, [0, 0, 1, 0], y[2] ** 2),
    lambda y: np.subtract.at(y, np.array([3, 1, 3]), y[:3] ** 2),
    lambda y: np.negative.at(y, [0, 2]),
    lambda y: y.sort(),
    lambda y: y.partition(2),
]


@pytest.mark.parametrize("k", range(len(WRITERS)))
def test_writing_functions(k):
    f, x = writes(WRITERS[k]), np.array([0.4, -1.3, 2.2, 0.9])
    assert np.isclose(float(ft.value(f(x))), float(ft.vjp(f, x)[0]))
    ft.check_grads(f, x)


def test_fill_diagonal():
    def f(x, v):
        y = x.copy()
        np.fill_diagonal(y, v)
        return (y * np.arange(6.0).reshape(3, 2)).sum()

    x, v = np.ones((3, 2)), np.array([2.0, 3.0])
    gx, gv = ft.grad(f, (0, 1))(x, v)
    same(gx, [[0, 1], [2, 0], [4, 5]])
    same(gv, [0, 3])


@pytest.mark.parametrize("v", [3.0, 3, 3j, True, np.float64(3.0), np.int64(3), np.array(3.0)])
@pytest.mark.parametrize("dtype", [bool, int, np.float32, float, complex])
def test_copyto_casts_a_number_where_numpy_does(dtype, v):
    def f(x, v):
        np.copyto(x, v)
        return x

    x = np.ones(2, dtype)
    for g in (lambda: ft.jit(f)(x, v), lambda: ft.jit(lambda x: f(x, v))(x)):
        try:
            want = f(x.copy(), v)
        except TypeError:
            with pytest.raises(TypeError, match="Cannot cast"):
                g()
        else:
            same(g(), want)


def test_writing_into_a_plain_array_is_refused():
    for f in (lambda x: np.copyto(np.zeros(3), x), lambda x: np.put(np.zeros(3), [0], x[0]), lambda x: np.add.at(np.zeros(3), [0], x[0])):
        with pytest.raises(errors.ArrayStoreError):
            ft.grad(f)(np.ones(3))


# shapes that depend on values


def test_functions_whose_shape_depends_on_values():
    x = np.array([0.0, 0.0, 1.0, 0.0, 2.0, 0.0])
    for trim in ("fb", "f", "b"):
        out, pull = ft.vjp(lambda x, trim=trim: np.trim_zeros(x, trim), x)
        np.testing.assert_array_equal(out, np.trim_zeros(x, trim))
        assert pull(np.ones_like(out))[0].sum() == len(out)


@pytest.mark.parametrize("f", [np.flatnonzero, np.argwhere, lambda m: np.nonzero(m)[0], lambda m: np.unique(np.where(m, np.arange(3), 0))])
def test_a_batch_is_split_where_a_result_has_as_many_elements_as_its_values_say(f):
    rows = np.array([[1.0, -2.0, 3.0], [1.0, 2.0, 3.0], [-1.0, 4.0, -3.0], [5.0, -6.0, 7.0]])
    one = ft.grad(lambda x: np.sum(x[f(x > 0)] ** 2))
    expected = np.stack([one(row) for row in rows])
    for many in (ft.vmap(one), ft.jit(ft.vmap(one))):
        np.testing.assert_array_equal(many(rows), expected)
        np.testing.assert_array_equal(many(rows[::-1].copy()), expected[::-1])
    np.testing.assert_array_equal(ft.vmap(ft.vmap(one))(rows.reshape(2, 2, 3)).reshape(4, 3), expected)
    with pytest.raises(errors.BatchError, match="some examples give"):
        ft.vmap(lambda x: f(x > 0))(rows)


# what is refused, and what is plain


def test_plain_arguments_go_to_numpy():
    x = np.array([3, 1, 2])
    assert fnp.sort(x).dtype == x.dtype and type(fnp.var(x)) is np.float64
    out = np.zeros(2)
    assert fnp.var(np.ones((3, 2)), axis=0, out=out) is out
    with pytest.raises(np.exceptions.AxisError):
        fnp.expand_dims(x, 5)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.sort(x, order="a"),
        lambda x: np.pad(x, 1, mode=lambda *a: None),
        lambda x: np.ravel(np.stack([x, x]), order="K"),
    ],
)
def test_what_is_not_honoured_raises(call):
    with pytest.raises(errors.UnsupportedError):
        ft.grad(lambda x: call(x).sum())(np.ones(3))


BAD = [
    (np.expand_dims, (5,)),
    (np.squeeze, (0,)),
    (np.moveaxis, (0, 5)),
    (np.swapaxes, (0, 3)),
    (np.flip, (4,)),
    (np.roll, (1, 3)),
    (np.take, ([7],)),
    (np.take, (np.array([0.5]),)),
    (np.split, (4,)),
    (np.diff, (-1,)),
    (np.cumsum, (2,)),
    (np.sort, (2,)),
    (np.quantile, (1.5,)),
    (np.diagonal, (0, 1, 1)),
    (np.delete, (9,)),
    (np.insert, (9, 1.0)),
    (np.pad, (-1,)),
    (np.pad, (1, "no")),
    (np.tile, (-1,)),
    (np.var, (3,)),
    (np.prod, (2,)),
]


@pytest.mark.parametrize("function, rest", BAD)
def test_mistakes_raise_what_numpy_raises(function, rest):
    x = np.ones((2, 3))
    with pytest.raises(Exception) as plain:  # noqa: PT011
        function(x, *rest)
    with pytest.raises(type(plain.value)):
        ft.grad(lambda x: np.sum(function(x, *rest)))(x)


def test_methods():
    x = np.array([[3.0, 1.0, 2.0], [0.5, 4.0, -1.0]])
    for f in (
        lambda x: x.cumsum(axis=1),
        lambda x: x.prod(0),
        lambda x: x.ravel("F"),
        lambda x: x.repeat(2, axis=0),
        lambda x: x.squeeze(),
        lambda x: x.swapaxes(0, 1),
        lambda x: x.take([0, 4]),
        lambda x: x.trace(1),
        lambda x: x.diagonal(1),
        lambda x: x.var(axis=0, ddof=1),
        lambda x: x.std(),
        lambda x: x.clip(0, 2.5),
        lambda x: x.compress([True, False, True], axis=1),
        lambda x: x.argsort(axis=0) * x,
        lambda x: x.argmax() * x,
        lambda x: x.argpartition(1, axis=0) * x,
        lambda x: x.round(1) * x,
        lambda x: x.any(axis=0) * x,
        lambda x: x.all() * x,
        lambda x: x[x.nonzero()],
        lambda x: x[0].searchsorted(0.5) * x,
    ):
        out, _ = ft.vjp(f, x)
        np.testing.assert_array_equal(out, f(x))
        ft.check_grads(lambda x, f=f: f(x), x)


def test_nested_batches_of_indices():
    x, i = np.arange(24.0).reshape(2, 3, 4) ** 1.5, np.array([[[1, 0], [3, 3], [2, 1]], [[0, 0], [1, 2], [3, 0]]])
    f = lambda x, i: (np.take(x, i) ** 2).sum()
    want = np.array([[ft.grad(f)(x[a, b], i[a, b]) for b in range(3)] for a in range(2)])
    same(ft.vmap(ft.vmap(ft.grad(f)))(x, i), want)
    same(ft.vmap(ft.grad(lambda x, i: sum(f(x[b], i[b]) for b in range(3))))(x, i), want)


def test_ends_of_ranges_and_index_helpers():
    same(ft.grad(lambda b: np.linspace(0.0, b, 5).sum())(2.0), 2.5)
    same(ft.grad(lambda b: fnp.full((2, 2), b).sum())(2.0), 4)
    x = np.array([[0.0, 3.0], [2.0, 1.0]])
    same(ft.grad(lambda x: x[np.unravel_index(np.argmax(x), x.shape)])(x), [[0, 1], [0, 0]])
    same(ft.vmap(lambda x: x[np.unravel_index(np.argmax(x), x.shape)])(np.stack([x, -x])), [3.0, 0.0])


# polynomials, and what NumPy writes in Python

C, D, POINTS = np.array([0.3, -1.0, 2.0, 0.7]), np.array([1.2, 0.4, -0.8]), np.linspace(-0.9, 1.1, 5)


@pytest.mark.parametrize("name", ["Polynomial", "Chebyshev", "Legendre", "Hermite", "HermiteE", "Laguerre"])
def test_polynomial_classes_with_traced_coefficients(name):
    P = getattr(fnp.polynomial, name)
    assert issubclass(P, getattr(np.polynomial, name))

    def f(c, d, x):
        p, q = P(c), P(d)
        products = [p * q + 2, p - q, p // q, p % q, q**2, -p, p.deriv(2), p.integ(2, k=[1.0, d[0]], lbnd=d[1]), p + c[1]]
        return [
            *((r.coef, r(x)) for r in products),
            P.fromroots(d).coef,
            P.fit(x, x**2 + d[1] * x, 2).coef,
            p.roots()[0],
            P(c, domain=[-2, 2])(x),
            p.linspace(4),
            P.basis(3)(x),
        ]

    numpys = getattr(np.polynomial, name)
    np.testing.assert_allclose(P(C)(POINTS), numpys(C)(POINTS))
    np.testing.assert_allclose((P(C) * P(D)).coef, (numpys(C) * numpys(D)).coef)
    ft.check_grads(f, C, D, POINTS, rtol=1e-4)


def test_rebased_code_does_not_write_to_its_arguments():
    def f(c):
        before = ft.value(c).copy()
        for family, short in (("polynomial", "poly"), ("chebyshev", "cheb"), ("hermite", "herm")):
            module = getattr(fnp.polynomial, family)
            for suffix, rest in (("der", ()), ("int", ()), ("mulx", ()), ("roots", ()), ("mul", (c,)), ("div", (c[:2],)), ("trim", ())):
                getattr(module, short + suffix)(c, *rest)
        np.polydiv(c, c[:2]), np.poly(c), np.roots(c), np.polyfit(c, c, 1)
        np.testing.assert_array_equal(ft.value(c), before)
        return np.sum(c)

    np.testing.assert_array_equal(ft.grad(f)(C), np.ones(4))


def test_poly1d_of_traced_coefficients():
    def f(c):
        p = np.poly1d(c)
        return p(2.0) + (p * np.poly1d(c[:2]))(0.3) + p.deriv()(1.0) + p.integ()(1.0) + (p**2)(0.5) + np.sum(np.abs(p.r) ** 2)

    ft.check_grads(f, C)
    ft.check_grads(lambda u, v: np.polydiv(u, v), C, D)
    ft.check_grads(lambda x: np.polyval(np.poly1d(C), x), D)


def test_roots_by_the_implicit_function():
    roots = lambda c: np.sort_complex(np.roots(c))  # noqa: E731
    jacobian = ft.jacfwd(lambda c: np.real(roots(c)))(np.array([1.0, -6.0, 11.0, -6.0]))
    r = np.array([1.0, 2.0, 3.0])
    want = -(r[:, None] ** np.arange(3, -1, -1)) / np.polyval([3.0, -12.0, 11.0], r)[:, None]
    same(jacobian, want)


def test_ix_of_a_mask_and_traced_places():
    rows, x = np.array([True, False, True]), np.arange(12.0).reshape(3, 4)
    pick = ft.jit(lambda x, k: x[np.ix_(rows, k)])
    for places in (np.array([1, 3]), np.array([3, 0])):
        np.testing.assert_array_equal(pick(x, places), x[np.ix_(rows, places)])


def test_vectorize_r_c_and_ndenumerate():
    x = np.array([0.4, -1.3, 2.2])
    relu = fnp.vectorize(lambda a, b: a * b if a > 0 else 0.0)
    same(ft.grad(lambda x: relu(x, 2.0).sum())(x), [2, 0, 2])
    assert ft.vjp(fnp.vectorize(np.sin, otypes=[float]), x[:0])[0].shape == (0,)
    np.testing.assert_array_equal(relu(x, 2.0), np.vectorize(lambda a, b: a * b if a > 0 else 0.0)(x, 2.0))
    ft.check_grads(lambda x: fnp.vectorize(lambda a: (a * a, np.sin(a)))(x), x)
    ft.check_grads(lambda x: fnp.vectorize(np.dot, signature="(n),(n)->()")(np.stack([x, x**2]), x), x)
    ft.check_grads(lambda x: [fnp.r_[x, 0, [1.0, 2.0], x[0]], fnp.c_[x, x**2], fnp.r_["0,2", x, x]], x)
    same(ft.grad(lambda x: sum(v * (k[0] + 1) for k, v in fnp.ndenumerate(x)))(x), [1, 2, 3])
    for grid in (lambda m, a: m.mgrid[0:a:5j, a:3:0.5], lambda m, a: m.ogrid[-a:a:3j, 0:1:2j], lambda m, a: m.mgrid[0:a:4j]):
        for found, want in zip(ft.vjp(lambda a: grid(fnp, a), 1.2)[0], grid(np, 1.2)):
            same(found, want)
        ft.check_grads(lambda a: grid(fnp, a), 1.2)
    power = lambda base, exponent=2.0: base**exponent
    for call in (lambda f, x: f(x, exponent=x), lambda f, x: f(exponent=3.0, base=x), lambda f, x: f(base=x[:0])):
        same(ft.vjp(lambda x, call=call: call(fnp.vectorize(power, [float]), x), x**2)[0], call(np.vectorize(power, [float]), x**2))
    ft.check_grads(lambda x: fnp.vectorize(power)(x, exponent=x), x**2)
    with pytest.raises(errors.UnsupportedError, match="excluded"):
        ft.grad(lambda x: fnp.vectorize(lambda a, b: a * b, excluded=[1])(x, 2.0).sum())(x)


def test_edges_of_histograms_move_with_the_data():
    x, y = np.array([0.0, 3.9, 1.7, 0.5]), np.array([1.0, 2.0, -1.0, 0.0])
    ft.check_grads(lambda x: np.histogram2d(x, y, bins=3)[1], x)
    ft.check_grads(lambda x: np.histogramdd(np.stack([x, y], axis=1), bins=2, density=True)[0], x)
    ft.check_grads(lambda b: fnp.kaiser(5, b), 2.5)
    for n in range(6):
        same(fnp.kaiser(n, 2.5), np.kaiser(n, 2.5))
    batch = np.stack([x, x[::-1]])
    same(ft.vmap(lambda x: np.histogram2d(x, y, bins=3)[0])(batch), [np.histogram2d(x, y, bins=3)[0] for x in batch])
    for bad in (np.nan, np.inf):
        for transform in (ft.jit, ft.jacrev, lambda f: lambda x: ft.vmap(f)(np.stack([y, x]))):
            with pytest.raises(ValueError, match="is not finite"):
                transform(lambda x: np.histogram(x, bins=3)[1])(np.array([1.0, 2.0, 0.0, bad]))


def test_ufuncs_that_are_not_associative_go_step_by_step():
    x = np.array([[0.7, 1.3, 2.2], [1.1, 0.4, 0.9], [0.5, 1.7, 1.2]])
    for ufunc in (np.subtract, np.divide, np.power, np.arctan2, np.fmax):
        ft.check_grads(lambda x, ufunc=ufunc: [ufunc.accumulate(x), ufunc.reduce(x, initial=0.6)], x)
        # along the last axis NumPy itself reduces power and arctan2 wrongly with AVX-512, so the steps are written out
        steps, reduced = lambda x, u=ufunc: u(u(x[:, :1], x[:, 1:2]), x[:, 2:]), lambda x, u=ufunc: u.reduce(x, axis=1, keepdims=True)
        same(ft.vjp(reduced, x)[0], steps(x))
        same(ft.jacobian(reduced)(x), ft.jacobian(steps)(x))
        for f in (lambda x, u=ufunc: u.reduce(x), lambda x, u=ufunc: u.accumulate(x, axis=1)):
            same(ft.vjp(f, x)[0], f(x))
    ft.check_grads(lambda x: np.histogram(x, bins="auto")[1], x[0])


def test_fft_of_traced_spacing_and_mistakes():
    same(ft.grad(lambda d: fnp.fft.fftfreq(4, d)[1])(2.0), -1 / 16)
    x = np.ones((2, 3))
    for call in (lambda x: np.fft.fft(x, 0), lambda x: np.fft.fft(x, norm="no"), lambda x: np.fft.fftn(x, (1, 2), (0,))):
        with pytest.raises(ValueError):  # noqa: PT011
            call(x)
        with pytest.raises(ValueError):  # noqa: PT011
            ft.vjp(call, x)
    with pytest.raises(np.exceptions.AxisError):
        ft.vjp(lambda x: np.fft.fft(x, axis=2), x)
    with pytest.raises(errors.ArrayStoreError, match="out="):
        ft.vjp(lambda x: np.fft.fft(x, out=np.zeros((2, 3), complex)), x)


def test_parts_of_complex_arrays_can_be_written():
    def f(x):
        y = x * (1 + 2j)
        y.real = x**2
        y.imag[0] = x[1]
        z = y.copy()
        z.resize(2, refcheck=False)
        return np.abs(y).sum() + np.abs(z**2).sum()

    ft.check_grads(f, np.array([0.4, -1.3, 2.2]))


def test_ufuncs_of_the_namespace_have_their_methods():
    x = np.array([0.4, 1.3, 2.2])
    same(
        ft.grad(lambda x: fnp.multiply.reduce(x) + fnp.add.outer(x, x).sum() + fnp.maximum.accumulate(x)[2])(x),
        ft.grad(np.prod)(x) + [6, 6, 7],
    )
    assert fnp.add.nin == 2 and fnp.add.identity == 0 and fnp.add.ntypes == np.add.ntypes
    assert fnp.add.resolve_dtypes((np.dtype("f4"), int, None)) == np.add.resolve_dtypes((np.dtype("f4"), int, None))


@pytest.mark.parametrize("f", [lambda x: x @ 2.0, lambda x: 2.0 @ x, lambda x: np.matmul(np.float64(1), x)])
def test_a_number_in_a_matrix_product_is_numpys_error(f):
    with pytest.raises(ValueError, match="does not have enough dimensions"):
        ft.vjp(f, np.ones(2))


def test_the_slope_of_expm1_keeps_its_digits_far_to_the_left():
    np.testing.assert_allclose(ft.grad(np.expm1)(-30.0), np.exp(-30.0), rtol=1e-14)


@pytest.mark.parametrize("n", [5000, 5001])
@pytest.mark.parametrize("kind", ["apart", "ties", "nan"])
def test_the_median_of_a_large_array_follows_the_elements_that_a_stable_sort_finds(n, kind):
    rng = np.random.default_rng(n)
    x = {
        "apart": rng.normal(size=n),
        "ties": rng.integers(0, 40, size=n).astype(float),
        "nan": np.where(rng.random(n) < 0.01, np.nan, rng.normal(size=n)),
    }[kind]
    order, expected = np.argsort(x, kind="stable"), np.zeros(n)
    for place in [n - 1] * 2 if kind == "nan" else [(n - 1) // 2, n // 2]:
        expected[order[place]] += 0.5
    assert np.array_equal(ft.grad(np.median)(x), expected)
    assert np.array_equal(ft.vmap(ft.grad(np.median))(np.stack([x, x]))[1], expected)
    assert np.array_equal(ft.jit(np.median)(x), np.median(x), equal_nan=True)


def test_cov_reads_its_arguments_as_numpy_does_where_an_axis_has_length_one():
    x = np.array([[1.0, 2.0, 4.0]])
    for kwargs in ({}, {"rowvar": False, "ddof": 0}, {"bias": True}):
        assert np.array_equal(ft.vjp(lambda x, kwargs=kwargs: np.cov(x, **kwargs), x)[0], np.cov(x, **kwargs))
