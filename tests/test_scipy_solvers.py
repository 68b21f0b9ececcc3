"""What solves: implicit differentiation, SciPy's root finders and minimisers, quadrature; splines; gauges."""

import warnings
from inspect import signature

import numpy as np
import pytest
import scipy.integrate as si
import scipy.interpolate as sp
import scipy.linalg as sl
import scipy.optimize as so

import functrace as ft
from functrace import errors
from functrace.optimize import fixed_point, implicit_root, linear_solve
from functrace.testing import check_grads

pytestmark = pytest.mark.usefixtures("random_state")
RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(4, 4)) + 4 * np.eye(4), RNG.normal(size=4)


def module(name):
    """Imported late: `test_sweep` collects what NumPy has."""
    import importlib

    return importlib.import_module(f"functrace.scipy.{name}")


def cube_root(a):
    return implicit_root(lambda x: x**3 - a, 1.0, solver=lambda g, x0: so.brentq(g, 0.0, 10.0, xtol=1e-15))


def matrix_solver(matvec, b):
    return np.linalg.solve(np.stack([matvec(e) for e in np.eye(len(b))], axis=1), b)


def test_implicit_root_is_right_to_third_order_in_both_modes_and_batched():
    orders = [8.0 ** (1 / 3), 8.0 ** (-2 / 3) / 3, -2 / 9 * 8.0 ** (-5 / 3), 10 / 27 * 8.0 ** (-8 / 3)]
    f = cube_root
    for want in orders:
        assert np.isclose(f(8.0), want, rtol=1e-10)
        assert np.isclose(ft.vmap(f)(np.array([1.0, 8.0]))[1], want, rtol=1e-10)
        f = ft.grad(f)
    assert np.isclose(ft.jvp(ft.grad(cube_root), (8.0,), (1.0,))[1], orders[2])
    assert np.isclose(ft.grad(lambda a: ft.vmap(lambda b: cube_root(a * b))(np.array([1.0, 2.0])).sum())(8.0), (1 + 2 ** (1 / 3)) / 12)


def test_a_linear_solver_may_differentiate_its_matvec():
    asked = []

    def dense(matvec, b):
        asked.append(b)
        return np.linalg.solve(ft.jacobian(matvec)(b), b)

    cube = lambda a: ft.implicit_root(lambda x: x**3 - a, np.ones(2), solver=lambda g, _: np.cbrt([8.0, 27.0]), linear_solver=dense)
    assert np.allclose(ft.jacobian(cube)(np.array([8.0, 27.0])), np.diag([1 / 12, 1 / 27]))
    assert asked
    assert np.allclose(ft.grad(lambda s: ft.linear_solve(lambda x: s * x, np.ones(2), solver=dense).sum())(2.0), -0.5)


@pytest.mark.parametrize("linear_solver", [None, matrix_solver])
def test_implicit_root_of_a_system_with_a_black_box_inside(linear_solver):
    def f(a, b, c):
        equation = lambda x, c: {"y": a @ x["y"] + c * np.sin(x["y"]) - b}
        start = {"y": np.zeros(4)}
        solver = lambda g, x0: {"y": so.root(lambda y: g({"y": y})["y"], x0["y"], tol=1e-14).x}
        return implicit_root(equation, start, c, solver=solver, linear_solver=linear_solver)["y"]

    check_grads(f, A, B, 0.1)


def test_fixed_point_of_a_tree():
    check_grads(lambda p: fixed_point(lambda x: {"u": p["a"] * np.cos(x["u"])}, {"u": np.ones(2)})["u"], {"a": np.array([0.5, 0.7])})
    with pytest.raises(ArithmeticError, match="convergence"):
        fixed_point(lambda x: 2 * x, 1.0, maxiter=20)
    with pytest.raises(ArithmeticError, match="convergence"), np.errstate(over="ignore", invalid="ignore"):
        fixed_point(lambda x: 2 * x, 1.0)  # as far as infinity, which is 2 * infinity


def test_linear_solve_with_conjugate_gradients():
    from scipy.sparse.linalg import LinearOperator, cg

    spd = A @ A.T
    solver = lambda mv, b: cg(LinearOperator((4, 4), matvec=mv), b, rtol=1e-14)[0]
    f = lambda s, b: linear_solve(lambda x: s @ x, b, solver=solver, symmetric=True)
    assert np.allclose(f(spd, B), np.linalg.solve(spd, B))
    check_grads(lambda s, b: f(s + s.T, b), spd / 2, B)
    check_grads(lambda s, b: linear_solve(lambda x: s @ x, b), A, B)
    check_grads(lambda s, b: linear_solve(lambda x: s @ x, b, solver=matrix_solver), A, B)
    batch = RNG.normal(size=(3, 4))
    assert np.allclose(ft.vmap(f, (None, 0))(spd, batch), np.linalg.solve(spd, batch.T).T)


# scipy.optimize

P = np.array([1.0, 2.0])
BOWL = lambda x, p: np.sum((x - p) ** 2 * np.arange(1.0, 3.0)) + np.sum(x) ** 4
SLOPE = ft.grad(BOWL)
DATA = np.array([1.0, 1.3, 2.0, 2.6])
CURVE = lambda p, y: p[0] * np.exp(p[1] * np.arange(4.0)) - y


HALLEY = {"method": "halley", "x0": 1.0, "fprime": lambda x: 3 * x**2 + 1, "fprime2": lambda x: 6 * x, "xtol": 1e-14}


@pytest.mark.parametrize(
    "f, args",
    [
        (lambda o, p: o.root(lambda x: x**3 + x * p[0] - p, np.ones(2), tol=1e-12).x, (P,)),
        (lambda o, p: o.root(lambda x, q: x**3 + x * q[0] - q, np.ones(2), args=(p,), tol=1e-12).x, (P,)),
        (lambda o, p: o.fsolve(lambda x: x**3 + x - p, np.ones(2), xtol=1e-12), (P,)),
        (lambda o, p: o.newton(lambda x: x**3 + x - p, 1.0, tol=1e-14), (1.3,)),
        (lambda o, p: o.root_scalar(lambda x: x**3 + x - p, bracket=(0, 3), xtol=1e-14).root, (1.3,)),
        (lambda o, p: o.root_scalar(lambda x: x**3 + x - p, **HALLEY).root, (1.3,)),
        (lambda o, p: o.brentq(lambda x: x**3 + x - p, 0.0, 3.0, xtol=1e-14), (1.3,)),
        (lambda o, p: o.minimize(BOWL, np.zeros(2), (p,), jac=SLOPE, tol=1e-12).x, (P,)),
        (lambda o, p: o.minimize(BOWL, np.zeros(2), (p,), jac=SLOPE, tol=1e-12).fun, (P,)),
        (lambda o, p: o.minimize(BOWL, np.zeros(2), (p,), jac=SLOPE, bounds=[(None, None), (-1, 0.1)], tol=1e-12).x, (P,)),
        (lambda o, p: o.fminbound(lambda x: (x - p) ** 2 + x**4, 0.0, 2.0, xtol=1e-12), (1.4,)),
        (lambda o, y: o.least_squares(CURVE, np.array([1.0, 0.2]), args=(y,), xtol=1e-15, ftol=1e-15, gtol=1e-15).x, (DATA,)),
        (lambda o, y: o.isotonic_regression(y).x, (np.array([1.0, 3.0, 2.5, 4.0, 3.0]),)),
        (lambda o, y, w: o.isotonic_regression(y, weights=w).x, (np.array([1.0, 3.0, 2.5, 4.0, 3.0]), np.array([1.0, 2.0, 0.5, 3.0, 1.0]))),
        (lambda o, y: o.isotonic_regression(y, increasing=False).x, (np.array([1.0, 3.0, 2.5, 1.0, 2.0]),)),
    ],
)
def test_solutions_are_scipys_and_differentiated_to_second_order(f, args):
    o = module("optimize")
    assert np.allclose(ft.vjp(lambda *a: f(o, *a), *args)[0], f(so, *args), rtol=1e-6, atol=1e-8)
    check_grads(lambda *a: f(o, *a), *args)


@pytest.mark.parametrize("method", ["Nelder-Mead", "BFGS", "trust-constr", "Newton-CG"])
def test_minimize_polishes_what_a_coarse_method_finds(method):
    o = module("optimize")
    hess = ft.hessian(BOWL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a method about gradients it does not want
        x, pull = ft.vjp(lambda p: o.minimize(BOWL, np.zeros(2), (p,), method=method).x, P)
    assert np.allclose(SLOPE(x, P), 0, atol=1e-12)
    want = -np.linalg.solve(hess(x, P), ft.jacobian(SLOPE, 1)(x, P))
    assert np.allclose(pull(np.array([1.0, 0.0]))[0], want[0], rtol=1e-9)


def test_a_bound_that_holds_has_no_slope():
    o = module("optimize")
    slopes = ft.jacobian(lambda p: o.minimize(BOWL, np.zeros(2), (p,), bounds=[(None, None), (-1, 0.1)]).x)(P)
    assert slopes[1].tolist() == [0, 0]
    assert slopes[0, 0] != 0


def test_curve_fit_begins_between_its_bounds():
    x, o = np.arange(4.0), module("optimize")
    y = 4 + 5 * x + 0.1 * np.cos(x)
    fit = lambda y: o.curve_fit(lambda x, a, b: a + b * x, x, y, bounds=(2.0, 9.0))[0]
    line = np.linalg.pinv(np.stack([np.ones(4), x], axis=1))
    assert np.allclose(ft.vjp(fit, y)[0], line @ y) and np.allclose(ft.jacobian(fit)(y), line, atol=1e-7)


@pytest.mark.parametrize("absolute", [True, False])
def test_curve_fit_of_data_that_vary_together(absolute):
    o, x = module("optimize"), np.arange(4.0)
    fit = lambda o, y, s: o.curve_fit(lambda x, a, b: a * np.exp(b * x), x, y, [1.0, 0.2], A @ A.T + s * np.diag(x), absolute)
    got = ft.vjp(lambda y, s: fit(o, y, s), DATA, 1.0)[0]
    assert all(np.allclose(a, b, rtol=1e-5) for a, b in zip(got, fit(so, DATA, 1.0)))
    check_grads(lambda y, s: fit(o, y, s)[0], DATA, 1.0, order=1)


def test_curve_fit_in_data_and_sigma():
    o = module("optimize")
    x, s = np.arange(4.0), np.array([0.1, 0.2, 0.1, 0.3])
    model = lambda x, a, b: a * np.exp(b * x)
    want = so.curve_fit(model, x, DATA, p0=[1.0, 0.2], sigma=s)
    got = ft.vjp(lambda y: o.curve_fit(model, x, y, p0=[1.0, 0.2], sigma=s), DATA)[0]
    assert all(np.allclose(a, b, rtol=1e-5) for a, b in zip(got, want))
    listed = ft.vjp(lambda y: o.curve_fit(model, x.tolist(), y, p0=[1.0, 0.2], sigma=s), DATA)[0]
    assert np.array_equal(listed[0], got[0])
    jacobian = ft.jacobian(lambda x, y, s: o.curve_fit(model, x, y, p0=[1.0, 0.2], sigma=s)[0], (0, 1, 2))(x, DATA, s)
    exact = lambda x, y, s: so.least_squares(lambda p: (model(x, *p) - y) / s, [1.0, 0.2], jac="cs", xtol=1e-15, ftol=1e-15, gtol=1e-15).x
    for k, j in enumerate(jacobian):
        step = 1e-3 * np.eye(4)[1]
        ahead, behind = ([v + sign * step if m == k else v for m, v in enumerate((x, DATA, s))] for sign in (1, -1))
        assert np.allclose(j[:, 1], (exact(*ahead) - exact(*behind)) / 2e-3, rtol=1e-4)


def test_what_has_no_solution_or_no_rule_raises():
    o = module("optimize")
    with pytest.raises(AttributeError, match="weights"):  # as many as blocks, which the values decide
        ft.grad(lambda y: o.isotonic_regression(y).weights.sum())(np.array([1.0, 3.0, 2.5]))
    with pytest.raises(ArithmeticError, match="no solution"):  # far from the solution, from where a step of Newton's leads further away
        ft.grad(lambda p: o.minimize(lambda x: np.sum(np.hypot(1, x - p)), [9.0], method="Nelder-Mead", tol=99).x[0])(1.0)
    with pytest.raises(ArithmeticError, match="no solution"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        ft.grad(lambda p: o.root(lambda x: x**2 + p, np.ones(1)).x[0])(1.0)


# scipy.integrate


def test_quad_over_finite_and_infinite_ranges_in_limits_and_parameters():
    q = module("integrate").quad
    gauss = lambda k: q(lambda x: np.exp(-k * x * x), -np.inf, np.inf)[0]
    assert np.isclose(ft.grad(gauss)(2.0), -np.sqrt(np.pi) / 2 * 2**-1.5, rtol=1e-9)
    assert np.isclose(ft.grad(ft.grad(gauss))(2.0), 0.75 * np.sqrt(np.pi) * 2**-2.5, rtol=1e-8)
    assert np.isclose(ft.grad(lambda a: q(lambda x: np.exp(-x), a, np.inf)[0])(1.0), -np.exp(-1))
    assert np.isclose(ft.grad(lambda a: q(lambda x: np.exp(x), -np.inf, a)[0])(1.0), np.exp(1))
    assert np.isclose(ft.grad(lambda a: q(lambda x: np.exp(-x), np.inf, a)[0])(1.0), np.exp(-1))
    check_grads(lambda a, b, p: q(lambda x, p: np.exp(-p * x) * np.cos(x), a, b, (p,))[0], 0.2, 1.7, 0.8)
    assert np.allclose(ft.vmap(lambda p: q(lambda x: np.exp(-p * x), 0.0, 1.0)[0])(np.array([1.0, 2.0])), (1 - np.exp([-1, -2])) / [1, 2])
    with pytest.raises(errors.UnsupportedError, match="weight"):
        ft.grad(lambda p: q(lambda x: p * x, 0.0, 1.0, weight="sin", wvar=1)[0])(1.0)


def test_a_jump_of_the_integrand_of_quad_and_the_limits_may_move():
    q = module("integrate").quad
    for points in ([0.5], None):
        ahead = lambda b, points=points: q(lambda x: np.where(x > 0.5, 1.0, 0.0), 0.0, b, points=points)[0]
        assert ft.value_and_grad(ahead)(1.2) == pytest.approx((0.7, 1.0))
        kink = lambda b, points=points: q(lambda x: np.abs(x - 0.5), 0.0, b, points=points)[0]
        assert ft.grad(ft.grad(kink))(1.2) == pytest.approx(1.0)
    both = lambda c: q(lambda x: np.where(x < c[0], 1.0, np.where(x < c[1], 3.0, 2 * x)), 0, 1, points=[c[1], c[0]])[0]
    for grad in (ft.grad(both), ft.jit(ft.grad(both))):
        assert np.allclose(grad(np.array([0.3, 0.6])), [-2.0, 1.8])


def test_a_width_of_zero_in_simpsons_rule_is_scipys():
    simpson, y = module("integrate").simpson, np.array([1.0, 2.0, 4.0, 3.0, 5.0])
    for n in (4, 5):
        for k in range(n - 1):
            x = np.arange(float(n)) - (np.arange(n) > k)
            weights = [si.simpson(row, x=x) for row in np.eye(n)]
            assert np.allclose(ft.grad(lambda y, x=x: simpson(y, x=x))(y[:n]), weights)


def test_nested_quadrature_agrees_with_scipy():
    m = module("integrate")
    f = lambda z, y, x, p: p * x * y * z
    ends = (0.0, lambda x: x, 0.0, lambda x, y: y)
    want = si.tplquad(f, 0.0, 1.0, *ends, args=(0.8,))[0]
    assert np.isclose(ft.vjp(lambda p: m.tplquad(f, 0.0, 1.0, *ends, args=(p,))[0], 0.8)[0], want, rtol=1e-10)
    check_grads(lambda a, p: m.dblquad(lambda y, x: np.exp(-p * x * y), 0.0, a, 0.0, lambda x: x)[0], 1.0, 0.8, order=1)
    check_grads(lambda p: m.nquad(lambda y, x: np.exp(-p * x * y), [(0, 1), (0, 2)])[0], 0.8, order=1)
    check_grads(lambda p, a: m.quad_vec(lambda x: np.exp(-p * x * np.arange(3.0)), 0.0, a)[0], 0.8, 1.3)


INSIDE_OF = [
    lambda r: [{"type": "ineq", "fun": lambda x, r: r - x @ x, "args": (r,)}, {"type": "ineq", "fun": lambda x: x[0] + 5}],
    lambda r: so.NonlinearConstraint(lambda x: np.stack([x @ x / r, x[0] - x[1]]), [-np.inf, -9.0], [1.0, 9.0]),
    lambda r: {"type": "eq", "fun": lambda x: x @ x - r},
    lambda r: (so.LinearConstraint(np.eye(2), -9.0, 9.0), {"type": "ineq", "fun": lambda x: np.sqrt(r) - np.linalg.norm(x)}),
]


@pytest.mark.parametrize("constraints", INSIDE_OF)
def test_minima_under_constraints(constraints):
    o, goal = module("optimize"), np.array([1.5, 2.0])
    nearest = lambda p, r: o.minimize(lambda x: np.sum((x - p) ** 2), np.array([0.3, 0.4]), method="SLSQP", constraints=constraints(r)).x
    exact = lambda p, r: p * np.sqrt(r) / np.linalg.norm(p)
    assert np.allclose(nearest(goal, 1.2), exact(goal, 1.2), atol=1e-5)  # SciPy's own
    for transform in (lambda f: ft.jacobian(f, (0, 1)), lambda f: ft.jit(ft.jacfwd(f, (0, 1))), lambda f: ft.hessian(f, 0)):
        for got, want in zip(transform(nearest)(goal, 1.2), transform(exact)(goal, 1.2)):
            assert np.allclose(got, want, atol=1e-8)
    each = ft.vmap(ft.jacobian(nearest))(np.stack([goal, goal[::-1]]), np.array([1.2, 2.0]))
    assert np.allclose(each, ft.vmap(ft.jacobian(exact))(np.stack([goal, goal[::-1]]), np.array([1.2, 2.0])), atol=1e-9)


@pytest.mark.parametrize("method", ["SLSQP", "COBYLA"])
def test_a_constraint_that_does_not_bind_changes_nothing(method):
    o = module("optimize")
    best = lambda p, **more: o.minimize(lambda x: np.sum((x - p) ** 4 + (x - p) ** 2) + x[0] * x[1] / 9, np.zeros(2), tol=1e-9, **more).x
    bound = lambda p: best(p, method=method, constraints={"type": "ineq", "fun": lambda x: p[0] + 9 - x @ x})
    assert np.allclose(ft.jacobian(bound)(P), ft.jacobian(best)(P), atol=1e-9)


def test_a_portfolio_with_assets_that_are_not_held():
    o, factors = module("optimize"), RNG.normal(size=(9, 4))
    cov, mu, free = factors.T @ factors / 9 + np.eye(4) / 9, np.array([0.1, 0.9, -2.0, 0.4]), [0, 1, 3]

    def weights(mu, cov):
        options = {"bounds": [(0.0, None)] * 4, "constraints": so.LinearConstraint(np.ones((1, 4)), 1.0, 1.0)}
        return o.minimize(lambda w: w @ cov @ w - mu @ w, np.full(4, 0.25), **options).x

    def held(mu, cov):
        matrix = np.block([[(cov + cov.T)[free][:, free], -np.ones((3, 1))], [np.ones((1, 3)), np.zeros((1, 1))]])
        return np.linalg.solve(matrix, np.concatenate([mu[free], np.ones(1)]))[:3]

    assert np.all(held(mu, cov) > 0)
    jacobian, want = ft.jacobian(weights, (0, 1))(mu, cov), ft.jacobian(held, (0, 1))(mu, cov)
    for got, expected in zip(jacobian, want):
        assert np.allclose(got[free], expected, atol=1e-8)
        assert not np.any(got[2])


def test_constraints_that_depend_on_each_other_raise():
    o = module("optimize")
    twice = lambda p: [{"type": "eq", "fun": lambda x: x[0] - p}, {"type": "eq", "fun": lambda x: 2 * x[0] - 2 * p}]
    with pytest.raises((ArithmeticError, np.linalg.LinAlgError)):
        ft.grad(lambda p: o.minimize(lambda x: np.sum((x - p) ** 2), np.zeros(2), constraints=twice(p)).x[1])(1.0)
    with pytest.raises(ValueError, match="'eq' nor 'ineq'"):
        ft.grad(lambda p: o.minimize(lambda x: np.sum((x - p) ** 2), np.zeros(2), constraints={"type": "le", "fun": np.sum}).fun)(1.0)


def test_linear_least_squares_within_bounds():
    o, low, high = module("optimize"), [-np.inf, 0.1, -9.0], [0.2, np.inf, 9.0]
    a, b = RNG.normal(size=(5, 3)), RNG.normal(size=5)
    fit = lambda a, b: o.lsq_linear(a, b, so.Bounds(low, high)).x
    want = so.lsq_linear(a, b, (low, high), tol=1e-14).x
    free = ~np.isclose(want, low) & ~np.isclose(want, high)
    assert np.allclose(ft.vjp(fit, a, b)[0], want, atol=1e-9) and 0 < np.sum(free) < 3
    check_grads(fit, a, b)


def test_least_squares_finds_its_jacobian_only_when_it_is_asked_for():
    o, times = module("optimize"), np.arange(4.0)

    def entries(read):
        def fit(y):
            found = o.least_squares(lambda p: p[0] * np.exp(p[1] * times) - y, np.array([1.0, 0.2]))
            return np.sum(read(found))

        return len(ft.trace(fit)(np.array([1.0, 1.3, 2.0, 2.6])).entries)

    assert entries(lambda r: r.x) == entries(lambda r: r["x"]) < entries(lambda r: r.jac)
    plain = so.least_squares(lambda p: p[0] * np.exp(p[1] * times) - DATA, np.array([1.0, 0.2]), jac="cs", xtol=1e-15, ftol=1e-15)
    pulled = []
    ft.vjp(
        lambda y: (
            pulled.append([ft.value(v) for v in (lambda r: (r.jac, r.grad))(o.least_squares(CURVE, np.array([1.0, 0.2]), args=(y,)))]) or y
        ),
        DATA,
    )
    assert pulled[0][0].shape == plain.jac.shape and np.allclose(pulled[0][1], 0, atol=1e-10)
    with pytest.raises(AttributeError):
        ft.grad(lambda y: o.least_squares(lambda p: p - y, np.zeros(4)).optimality)(DATA)


def test_integrals_of_samples_in_the_abscissae():
    m = module("integrate")
    x, y = np.array([0.0, 0.7, 1.9, 2.4, 3.5]), RNG.normal(size=(2, 5))
    for name in ("trapezoid", "simpson", "cumulative_trapezoid", "cumulative_simpson"):
        f = lambda y, x, name=name: getattr(m, name)(y, x=x)
        assert np.allclose(ft.vjp(f, y, x)[0], getattr(si, name)(y, x=x))
        check_grads(f, y, x)


# scipy.interpolate

X, Y = np.array([0.0, 0.9, 2.1, 2.8, 4.0, 5.1]), np.array([0.3, 1.7, 0.9, -0.4, 0.8, 2.9])
Q, INSIDE = np.array([[0.4, 1.7, 3.3], [-0.2, 5.3, 2.6]]), np.array([0.4, 1.7, 3.3])
T = np.array([0.0] * 4 + [2.5] + [5.1] * 4)
FINE = np.linspace(0.0, 5.0, 30)
WAVY = np.sin(2 * FINE) + 0.1 * np.random.default_rng(1).normal(size=30)
CENTRES, HEIGHTS = RNG.normal(size=(7, 2)), RNG.normal(size=7)
GRID = (X, np.array([0.0, 1.0, 3.0]))
CONDITIONS = ["not-a-knot", "natural", "clamped", ((1, 0.3), (2, -0.4)), ("not-a-knot", (1, 0.5))]


@pytest.mark.parametrize(
    "make, args, points",
    [
        *((lambda m, x, y, bc=bc: m.CubicSpline(x, y, bc_type=bc), (X[:n], Y[:n]), Q) for bc in CONDITIONS for n in (2, 3, 6)),
        (lambda m, x, y: m.CubicSpline(x, y, axis=1), (X, np.stack([Y, Y**2])), Q),
        (lambda m, y: m.CubicSpline(X, np.concatenate([y, y[:1]]), bc_type="periodic"), (Y[:5],), Q),
        (lambda m, x, y: m.PchipInterpolator(x, y), (X, Y), Q),
        (lambda m, x, y: m.PchipInterpolator(x, y), (X, np.sort(Y)), Q),
        *((lambda m, x, y, k=k: m.Akima1DInterpolator(x, y, method=k), (X, Y), INSIDE) for k in ("akima", "makima")),
        *((lambda m, x, y, k=k: m.make_interp_spline(x, y, k), (X, Y), INSIDE) for k in (0, 1, 2, 3, 4, 5)),
        *((lambda m, x, y, bc=bc: m.make_interp_spline(x, y, bc_type=bc), (X, Y), INSIDE) for bc in ("natural", "clamped")),
        (lambda m, x, y: m.make_interp_spline(x, y).antiderivative(2), (X, Y), INSIDE),
        *((lambda m, x, y, k=k: m.InterpolatedUnivariateSpline(x, y, k=k), (X, Y), Q) for k in (1, 2, 3, 4)),
        *((lambda m, x, y, e=e: m.UnivariateSpline(x, y, s=0, ext=e).derivative(), (X, Y), Q) for e in (0, "zeros", "const")),
        (lambda m, x, y: m.UnivariateSpline(x, y, s=0).antiderivative(), (X, Y), INSIDE),
        (lambda m, x, y: lambda at: m.splev(at, m.splrep(x, y, s=0), der=1), (X, Y), Q),
        *((lambda m, x, v, k=k: lambda at: m.RectBivariateSpline(x, X[:4], v, kx=3, ky=k).ev(at, at[::-1] / 2), (X, RNG.normal(size=(6, 4))), INSIDE)
          for k in (1, 3)),
        (lambda m, x, y: m.make_lsq_spline(x, y, T), (X, Y), INSIDE),
        *((lambda m, x, y, lam, w=w: m.make_smoothing_spline(x, y, w, lam), (X, Y, lam), INSIDE) for lam in (0.05, 30.0) for w in (None, X + 1)),
        (lambda m, x, y: m.make_smoothing_spline(x, y, lam=0.1).derivative(), (X, Y), INSIDE),
        *((lambda m, p, d, k=k: lambda at: m.griddata(p, d, at, k), (CENTRES, HEIGHTS), CENTRES[:3] / 2) for k in ("linear", "nearest")),
        (lambda m, p, d: m.LinearNDInterpolator(p, d, 0.5), (CENTRES, np.stack([HEIGHTS, HEIGHTS**2], 1)), CENTRES[:3] * 1.1),
        (lambda m, p, d: lambda at: m.griddata(tuple(p.T), d, (at[:, 0], at[:, :1])), (CENTRES, HEIGHTS), CENTRES[:2] / 3),
        (lambda m, x, y: lambda at: m.griddata(x, y, at, "cubic"), (X[::-1].copy(), Y), INSIDE),
        (lambda m, c: m.BSpline(T, c, 3), (Y[:5],), Q),
        (lambda m, c: m.BSpline(T, c, 3).derivative(), (Y[:5],), Q),
        *((lambda m, x, y, k=k: m.interp1d(x, y, k), (X, Y), INSIDE) for k in ("linear", "nearest", "previous", "next", "quadratic", "cubic")),
        (lambda m, x, y: m.interp1d(x, y, bounds_error=False, fill_value=(0.5, 0.7)), (X, Y), Q),
        (lambda m, x, y: m.interp1d(x, y, fill_value="extrapolate"), (X[::-1].copy(), Y), Q),
        (lambda m, x, y: m.BarycentricInterpolator(x, y), (X, Y), Q),
        (lambda m, v: m.RegularGridInterpolator(GRID, v), (RNG.normal(size=(6, 3, 2)),), np.array([[0.4, 0.3], [3.3, 2.2]])),
        *((lambda m, p, d, k=k: m.RBFInterpolator(p, d, kernel=k, epsilon=1.3), (CENTRES, HEIGHTS), CENTRES[:3] / 2)
          for k in ("linear", "thin_plate_spline", "cubic", "quintic", "multiquadric", "gaussian", "inverse_quadratic")),
    ],
)  # fmt: skip
def test_interpolants_are_scipys_and_differentiated_in_points_values_and_places(make, args, points):
    m = module("interpolate")
    for values in (make(m, *args)(points), ft.vjp(lambda at, *a: make(m, *a)(at), points, *args)[0]):
        assert np.allclose(values, make(sp, *args)(points), rtol=1e-10, atol=1e-12, equal_nan=True)
    check_grads(lambda at, *a: make(m, *a)(at), points, *args, step=1e-3)


def test_what_is_nan_outside_of_a_spline_takes_no_part_in_its_gradient():
    spline = lambda y, x: module("interpolate").CubicSpline(X, y, extrapolate=False)(x)
    inside = ft.grad(lambda y: np.sum(spline(y, INSIDE) ** 2))(Y)
    for total in (
        lambda y: np.nansum(spline(y, np.append(INSIDE, X[-1] + 1)) ** 2),
        lambda y: np.sum(spline(y, np.append(INSIDE, -99)) ** 2),
    ):
        assert np.allclose(ft.grad(total)(Y), inside, rtol=1e-12)
    with pytest.raises(ValueError, match="NaN|finite"):
        spline(np.where(Y == Y[1], np.nan, Y), INSIDE)


@pytest.mark.parametrize(
    "make",
    [
        *(lambda m, s=s, k=k: m.UnivariateSpline(FINE, WAVY, k=k, s=s, ext=3) for s in (None, 0.5) for k in (3, 4)),
        lambda m: m.UnivariateSpline(FINE, WAVY, FINE + 1, (-1.0, 6.0)),
        lambda m: m.make_smoothing_spline(FINE, WAVY),
        *(
            [lambda m: m.make_smoothing_spline(FINE, np.stack([WAVY, FINE]), axis=1)]
            if "axis" in signature(sp.make_smoothing_spline).parameters
            else []
        ),
        lambda m: m.make_interp_spline(FINE, np.stack([WAVY, FINE]), bc_type=([(2, np.zeros(2))], [(1, np.ones(2))]), axis=1),
        lambda m: m.make_interp_spline(FINE, np.sin(2 * np.pi * FINE / FINE[-1]), bc_type="periodic"),
    ],
)
def test_splines_that_scipy_fits_to_plain_points_are_differentiated_in_places(make):
    spline, theirs = make(module("interpolate")), make(sp)
    np.testing.assert_allclose(ft.vjp(spline, Q)[0], theirs(Q), rtol=1e-12, atol=1e-12)
    check_grads(spline, Q)


def test_what_else_scipys_splines_can_do():
    m = module("interpolate")
    for call in (
        lambda m: m.UnivariateSpline(FINE, WAVY).roots(),
        lambda m: m.UnivariateSpline(FINE, WAVY).get_residual(),
        lambda m: m.UnivariateSpline(FINE, WAVY, s=0, k=4).derivative().roots(),
        lambda m: m.InterpolatedUnivariateSpline(FINE, WAVY).get_knots(),
        lambda m: m.CubicSpline(FINE, WAVY).solve(0.3),
        lambda m: m.CubicSpline(FINE, WAVY).derivative().roots(),
        lambda m: m.KroghInterpolator(X[:4], Y[:4]).derivatives(1.0),
        lambda m: m.BSpline.basis_element(np.arange(5.0))(1.5),
        lambda m: m.PPoly.from_spline(sp.splrep(FINE, WAVY))(1.1),
    ):
        np.testing.assert_allclose(call(m), call(sp), rtol=1e-10, atol=1e-12)
    with pytest.raises(errors.UnsupportedError, match="roots"):
        ft.vjp(lambda y: m.UnivariateSpline(FINE, y, s=0).roots(), WAVY)
    with pytest.raises(AttributeError, match="nothing"):
        m.BSpline.nothing  # noqa: B018


def test_a_curve_of_fitpacks():
    tck, u = sp.splprep([np.cos(FINE), np.sin(FINE)], s=0)
    for curve, want in zip(module("interpolate").splev(u, tck), sp.splev(u, tck)):
        np.testing.assert_allclose(curve, want, rtol=1e-12)
    check_grads(lambda u: module("interpolate").splev(u, tck), u[3:6] + 0.01)


def test_fitpacks_splines_are_scipys():
    m, z = module("interpolate"), RNG.normal(size=(6, 5))
    for call in (
        lambda m: m.splint(0.3, 3.9, m.splrep(X, Y)),
        lambda m: m.splint(-1.0, 9.0, m.splrep(X, Y)),
        lambda m: m.UnivariateSpline(X, Y, s=0).integral(-1.0, 2.0),
        lambda m: m.UnivariateSpline(X, Y, s=0).derivatives(1.2),
        lambda m: m.RectBivariateSpline(X, X[:5], z)([0.4, 3.3], [-0.7, 1.2, 2.0], dx=1),
        lambda m: m.RectBivariateSpline(X, X[:5], z)([0.4, 3.3], [0.7, 1.2], grid=False),
    ):
        np.testing.assert_allclose(call(m), call(sp), rtol=1e-9, atol=1e-12)
    check_grads(lambda a, b, y: m.splint(a, b, m.splrep(X, y)), 0.3, 3.9, Y)
    with pytest.raises(errors.UnsupportedError, match="s="):
        ft.vjp(lambda y: m.UnivariateSpline(X, y)(1.0), Y)
    with pytest.raises(ValueError, match="ext=2"):
        ft.vjp(lambda y: m.InterpolatedUnivariateSpline(X, y, ext="raise")(9.0), Y)
    with pytest.raises(ValueError, match="Schoenberg"):
        m.make_interp_spline(np.arange(5.0), Y[:5], 1, t=np.array([0.0, 0.0, 0.1, 0.2, 0.3, 4.0, 4.0]))


@pytest.mark.parametrize("method, k", [("slinear", 1), ("cubic", 3), ("quintic", 5)])
def test_splines_on_grids(method, k):
    m, grid, values = module("interpolate"), (X, np.array([0.0, 1.0, 1.5, 2.5, 3.0, 4.2])), RNG.normal(size=(6, 6, 2))
    at = lambda grid, values, points: m.RegularGridInterpolator(grid, values, method, False, None)(points)
    points = np.array([[0.4, 1.3], [3.3, 2.6], [5.3, 4.0]])
    assert np.allclose(at(grid, values, points), sp.RegularGridInterpolator(grid, values, method, False, None)(points), atol=1e-3)
    inside = points[:2]
    for j in (0, 1):
        want = sp.RectBivariateSpline(*grid, values[..., j], kx=k, ky=k).ev(*inside.T)
        assert np.allclose(at(grid, values, inside)[:, j], want, rtol=1e-10)
    check_grads(at, grid, values, points, step=1e-3)


def test_splines_through_many_points_are_found_in_bands():
    m, x = module("interpolate"), np.cumsum(RNG.uniform(0.5, 1.0, 4000))
    for k, bc in ((3, None), (5, None), (2, None), (3, "natural")):
        ours, theirs = m.make_interp_spline(x, np.sin(x), k, bc_type=bc), sp.make_interp_spline(x, np.sin(x), k, bc_type=bc)
        np.testing.assert_allclose(ours.c, theirs.c, rtol=1e-9, atol=1e-10)
    jacobian = ft.jacfwd(lambda s: m.make_interp_spline(x, np.sin(s * x))(2.0))
    np.testing.assert_allclose(jacobian(1.0), ft.grad(lambda s: m.make_interp_spline(x, np.sin(s * x))(2.0))(1.0), rtol=1e-9)


@pytest.mark.parametrize(
    "points", [np.full(2, 0.5), np.full((3, 2), 0.5), (0.5, 0.7), (np.full(3, 0.5), 0.7), [[0.5, 0.7]], np.ones((0, 2))]
)
def test_points_on_a_grid_have_scipys_shapes(points):
    m, values = module("interpolate"), RNG.normal(size=(6, 3, 2))
    for place in (lambda m, v: m.RegularGridInterpolator(GRID, v)(points), lambda m, v: m.interpn(GRID, v, points)):
        got = ft.vjp(lambda v: place(m, v), values)[0]
        assert got.shape == place(sp, values).shape and np.allclose(got, place(sp, values))
    line = lambda m, v: m.RegularGridInterpolator(GRID[:1], v)
    for x in (np.full(1, 0.5), np.full(4, 0.5), (np.full(3, 0.5),)):
        assert ft.vjp(lambda v: line(m, v)(x), values)[0].shape == line(sp, values)(x).shape
    with pytest.raises(ValueError, match="2 coordinates"):
        ft.grad(lambda v: m.interpn(GRID, v, np.ones((4, 3))).sum())(values)


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda m, y: m.UnivariateSpline(X, y)(0.3), "Pass s=0"),
        (lambda m, y: m.splrep(X, y, s=0.1)[1][0], "make_smoothing_spline"),
        (lambda m, y: m.make_smoothing_spline(X, y)(0.3), "Pass lam"),
        (lambda m, y: m.griddata(CENTRES[:6], y, CENTRES[:1] / 2, "cubic")[0], "RBFInterpolator"),
    ],
)
def test_smoothing_that_is_not_covered_names_what_is(f, words):
    with pytest.raises(errors.UnsupportedError, match=words):
        ft.grad(lambda y: f(module("interpolate"), y))(Y)


def test_a_smoothing_spline_of_several_functions_is_that_of_each():
    smooth = module("interpolate").make_smoothing_spline
    both = smooth(X, np.stack([Y, Y**2]), lam=0.1, axis=1)(Q)
    assert np.allclose(both, [smooth(X, y, lam=0.1)(Q) for y in (Y, Y**2)])


def test_derivatives_and_integrals_of_splines_are_scipys():
    m = module("interpolate")
    ours, theirs = m.CubicSpline(X, Y), sp.CubicSpline(X, Y)
    for nu in (1, 2, 3):
        assert np.allclose(ours(Q, nu), theirs(Q, nu))
    assert np.allclose(ours.antiderivative(2)(Q), theirs.antiderivative(2)(Q))
    assert np.isclose(ours.integrate(0.3, 4.4), theirs.integrate(0.3, 4.4))
    assert np.allclose(ours.roots(), theirs.roots())
    check_grads(lambda y, a, b: m.CubicSpline(X, y).integrate(a, b), Y, 0.3, 4.4)
    assert ft.vmap(lambda y, q: m.CubicSpline(X, y)(q))(np.stack([Y, Y + 1]), INSIDE[:2]).shape == (2,)
    with pytest.raises(errors.UnsupportedError, match="roots"):
        ft.grad(lambda y: m.CubicSpline(X, y).roots()[0])(Y)


# scipy.linalg: what depends on a basis only through what it spans

S = np.array([[2.0, 0.3, 0.1], [0.3, 4.0, -0.2], [0.1, -0.2, 7.0]])


@pytest.mark.parametrize(
    "f, args",
    [
        (lambda m, a: (lambda w, v: (v * np.exp(-w)) @ v.T)(*m.eigh((a + a.T) / 2)), (S,)),
        (lambda m, a: (lambda w, v: v[:, :1] @ v[:, :1].T)(*m.eigh((a + a.T) / 2, subset_by_index=[0, 0])), (S,)),
        (lambda m, a: (lambda n: n @ n.T)(m.null_space(a)), (RNG.normal(size=(2, 4)),)),
        (lambda m, a: (lambda q: q @ q.T)(m.orth(a)), (RNG.normal(size=(4, 2)),)),
        (lambda m, a, b: m.lu_solve(m.lu_factor(a), b), (A, B)),
        (lambda m, a, b: m.cho_solve(m.cho_factor((a + a.T) / 2), b), (S, B[:3])),
        *((lambda m, c, b, low=low: m.cho_solve((c, low), b), (A, B)) for low in (False, True)),  # of which one triangle is read
        (lambda m, ab, b: m.cho_solve_banded((m.cholesky_banded(ab), False), b), (np.stack([np.full(4, 0.3), np.full(4, 2.0)]), B)),
    ],
)
def test_compositions_of_factors(f, args):
    m = module("linalg")
    assert np.allclose(ft.vjp(lambda *a: f(m, *a), *args)[0], f(sl, *args))
    check_grads(lambda *a: f(m, *a), *args)


def test_lu_under_vmap_pivots_each_example():
    m = module("linalg")
    batch = np.stack([A, A[::-1]])
    assert np.allclose(ft.vmap(lambda a: m.lu_solve(m.lu_factor(a), B))(batch), [np.linalg.solve(a, B) for a in batch])
    slopes = ft.vmap(ft.grad(lambda a: np.sum(m.lu(a)[2] ** 2)))(batch)
    assert np.allclose(slopes[1], ft.grad(lambda a: np.sum(m.lu(a)[2] ** 2))(batch[1]))


# scipy.optimize: what SciPy gives besides the solution


@pytest.mark.parametrize("name", ["newton", "brent", "golden", "fminbound", "fsolve", "brentq", "fmin", "leastsq"])
def test_a_full_output_is_refused_and_never_left_out(name):
    ends = {"newton": (1.0,), "fsolve": (1.0,), "fminbound": (0.0, 2.0), "brentq": (0.0, 2.0), "fmin": ([1.0],), "leastsq": ([1.0],)}
    solve = getattr(module("optimize"), name)
    with pytest.raises(errors.UnsupportedError, match="full_output"):
        ft.grad(lambda a: solve(lambda x: np.sum((x - a) * (x + 1)), *ends.get(name, ()), full_output=True)[0])(0.7)


def test_the_jacobian_of_a_fit_gives_its_covariance():
    m, t = module("optimize"), np.linspace(0.0, 1.0, 9)
    y = 2.0 * np.exp(-t) + 0.01 * np.sin(40 * t)

    def variance(optimize, y):
        fit = optimize.least_squares(lambda p: p[0] * np.exp(-p[1] * t) - y, [1.0, 1.0], xtol=1e-15, ftol=1e-15, gtol=1e-15)
        return np.linalg.inv(fit.jac.T @ fit.jac)[0, 0] * fit.cost + fit.grad[0]

    assert np.isclose(ft.value_and_grad(lambda y: variance(m, y))(y)[0], variance(so, y), rtol=1e-6)
    check_grads(lambda y: variance(m, y), y)


def test_callbacks_are_called():
    optimize, seen = module("optimize"), []
    what = {"callback": lambda x, *_: seen.append(x)}
    bowl, only = lambda x, p: np.sum((x - p) ** 2 + x**4), {"type": "eq", "fun": lambda x: x.sum() - 1}
    for solve in (
        lambda p: optimize.minimize(bowl, np.zeros(2), p, **what),
        lambda p: optimize.minimize(bowl, np.zeros(2), p, constraints=only, **what),
        lambda p: optimize.root(lambda x, p: x**3 + x - p, np.ones(2), p, "krylov", **what),
    ):
        before = len(seen)
        ft.grad(lambda p: solve(p).x.sum())(np.array([1.0, 2.0]))
        assert len(seen) > before


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda o, i, p: o.curve_fit(lambda x, a: a * x, np.ones(3), p, method="trf", loss="soft_l1")[0], "curve_fit: the keyword loss="),
        (lambda o, i, p: o.curve_fit(lambda x, a: a * x, np.ones(3), p, nan_policy="omit")[0], "curve_fit: the keyword nan_policy="),
        (lambda o, i, p: o.fsolve(lambda x: x - p, np.ones(3), step=1), "fsolve.*unexpected keyword argument 'step'"),
        (lambda o, i, p: o.lsq_linear(np.eye(3), p, step=1).x, "lsq_linear.*unexpected keyword argument 'step'"),
        (lambda o, i, p: i.odeint(lambda y, t: -p * y, np.ones(3), [0.0, 1.0], step=1), "odeint.*unexpected keyword argument 'step'"),
        (lambda o, i, p: i.quad_vec(lambda x: p * x, 0, 1, step=1)[0], "quad_vec.*unexpected keyword argument 'step'"),
    ],
)
def test_keywords_are_honoured_or_refused(f, words):
    with pytest.raises((errors.UnsupportedError, TypeError), match=words):
        ft.grad(lambda p: np.sum(f(module("optimize"), module("integrate"), p)))(np.arange(1.0, 4.0))
