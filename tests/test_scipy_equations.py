"""Differential equations of `scipy.integrate`: steps, events, stiff equations, and their derivatives."""

import importlib

import numpy as np
import pytest
import scipy.integrate as si

import functrace as ft
from functrace import errors
from functrace.testing import check_grads


def module(name):
    """Imported late: `test_sweep` collects what NumPy has."""
    return importlib.import_module(f"functrace.scipy.{name}")


def volterra(t, y, p):
    return np.stack([p[0] * y[0] - p[1] * y[0] * y[1], -y[1] + 0.5 * y[0] * y[1]])


Y0, RATES = np.array([1.0, 2.0]), np.array([1.1, 0.7])
TIGHT = {"rtol": 1e-11, "atol": 1e-12, "method": "DOP853"}


@pytest.mark.parametrize("method", ["RK45", "RK23", "DOP853"])
@pytest.mark.parametrize("t_eval", [None, np.array([0.0, 0.5, 1.7, 2.0])])
def test_solve_ivp_takes_scipys_steps(method, t_eval):
    m = module("integrate")
    call = lambda solve, p: solve(volterra, (0.0, 2.0), Y0, method=method, t_eval=t_eval, args=(p,))
    want = call(si.solve_ivp, RATES)
    got = []
    ft.vjp(lambda p: got.append(call(m.solve_ivp, p)) or ft.stop_gradient(p), RATES)
    assert np.allclose(ft.value(got[0].y), want.y, rtol=1e-9)
    assert np.allclose(got[0].t, want.t, rtol=1e-9)


def test_solve_ivp_in_initial_values_parameters_and_times():
    m = module("integrate")
    check_grads(lambda y, p: m.solve_ivp(volterra, (0.0, 2.0), y, args=(p,), t_eval=np.array([0.5, 1.5]), **TIGHT).y, Y0, RATES)
    check_grads(lambda y, p, t0, t1: m.solve_ivp(lambda t, y: volterra(t, y, p), (t0, t1), y, **TIGHT).y[:, -1], Y0, RATES, 0.1, 2.0)
    back = lambda y: m.solve_ivp(volterra, (2.0, 0.0), y, args=(RATES,), **TIGHT).y[:, -1]
    check_grads(back, Y0, order=1)
    with pytest.raises(errors.UnsupportedError, match="method"):
        ft.vjp(lambda p: m.solve_ivp(volterra, (0.0, 2.0), Y0, method="Euler", args=(p,)).y, RATES)


def robertson(t, y, k):
    slow, fast, back = k[0] * y[0], k[1] * y[1] ** 2, k[2] * y[1] * y[2]
    return np.stack([back - slow, slow - back - fast, fast])


def vanderpol(t, y, mu):
    return np.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])


@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA"])
def test_stiff_equations(method):
    m, rates, start = module("integrate"), np.array([0.04, 3e7, 1e4]), np.array([1.0, 0.0, 0.0])
    options = {"method": method, "rtol": 1e-7, "atol": 1e-11, "t_eval": [1.0, 40.0]}
    got, pull = ft.vjp(lambda k: m.solve_ivp(robertson, (0.0, 40.0), start, args=(k,), **options).y, rates)
    tight = lambda k: (
        si.solve_ivp(robertson, (0.0, 40.0), start, args=(k,), **{**options, "method": "Radau", "rtol": 1e-11, "atol": 1e-15}).y
    )
    assert np.allclose(got, tight(rates), rtol=1e-6, atol=1e-12)
    change = rates * np.array([1.0, -2.0, 0.5]) * 1e-4
    slope = (tight(rates + change) - tight(rates - change)) / 2
    assert np.allclose(np.sum(pull(np.ones((3, 2)) / got)[0] * change), np.sum(slope / got), rtol=1e-5)


def test_stiff_equations_to_second_order_batched_and_in_times():
    m = module("integrate")
    steps = {"method": "Radau", "rtol": 1e3, "atol": 1e3, "first_step": 0.05, "max_step": 0.05}
    last = lambda y, mu, end: m.solve_ivp(vanderpol, (0.0, end), y, args=(mu,), **steps).y[:, -1]
    check_grads(lambda y, mu: last(y, mu, 0.1), np.array([2.0, 0.0]), 10.0)
    tight = lambda end: m.solve_ivp(vanderpol, (0.1, end), np.array([2.0, 0.0]), "BDF", args=(3.0,), rtol=1e-9, atol=1e-10).y[:, -1]
    assert np.allclose(ft.jacfwd(tight)(0.5), vanderpol(0.5, tight(0.5), 3.0), rtol=1e-7)
    slopes = ft.jacfwd(lambda mu: last(np.array([2.0, 0.0]), mu, 0.5))
    assert np.allclose(ft.vmap(slopes)(np.array([1.0, 10.0])), [slopes(1.0), slopes(10.0)], rtol=1e-9)
    assert np.allclose([ft.jit(slopes)(mu) for mu in (1.0, 10.0)], [slopes(1.0), slopes(10.0)], rtol=1e-12)
    with pytest.raises(ValueError, match="complex"):
        ft.vjp(lambda y: m.solve_ivp(lambda t, y: -y, (0.0, 1.0), y, method="BDF").y, np.array([1j]))


def test_a_method_for_stiff_equations_takes_as_many_steps_where_the_solution_is_smooth():
    solve = lambda k: module("integrate").solve_ivp(lambda t, y: k * (np.cos(t) - y), (0.0, 3.0), np.zeros(1), method="Radau").t
    assert np.shape(ft.vjp(solve, 1e6)[0])[0] < 40


def thrown(t, y, g):
    return np.stack([y[1], -g + 0 * y[0]])


def ground(t, y, g):
    return y[0]


def top(t, y, g):
    return y[1]


FALLING = type("Falling", (), {"__call__": staticmethod(ground), "direction": -1, "terminal": True})()
LANDED = lambda v, g: (v + np.sqrt(v * v + 2 * g)) / g  # from a height of 1


@pytest.mark.parametrize(
    "options", [{}, {"method": "DOP853"}, {"method": "Radau"}, {"dense_output": True}, {"t_eval": np.arange(0.0, 2.0, 0.25)}]
)
def test_events_are_scipys(options):
    m, got = module("integrate"), []
    call = lambda solve, v: solve(thrown, (0.0, 3.0), np.stack([1.0 + 0 * v, v]), events=[top, FALLING, ground], args=(9.8,), **options)
    plain = lambda r: type(r)(
        {**{k: ft.tree.map(ft.value, v) for k, v in r.items() if k != "sol"}, "between": r.sol and ft.value(r.sol(0.3))}
    )
    ft.vjp(lambda v: got.append(plain(call(m.solve_ivp, v))) or v, 2.0)
    ours, theirs = got[0], plain(call(si.solve_ivp, 2.0))
    assert ours.status == theirs.status == 1 and ours.message == theirs.message
    assert ours.y.shape == theirs.y.shape and np.allclose(ours.t, theirs.t)
    for key in ("t_events", "y_events"):
        for mine, want in zip(ours[key], theirs[key], strict=True):
            assert np.shape(mine) == np.shape(want) and np.allclose(mine, want, atol=1e-12)
    assert ours.between is theirs.between is None or np.allclose(ours.between, theirs.between)


def test_events_are_counted_and_none_may_occur():
    m = module("integrate")
    turn = type("Turn", (), {"__call__": staticmethod(lambda t, y: y[1]), "terminal": 2})()
    spring = lambda k, end, solve: solve(lambda t, y: np.stack([y[1], -k * y[0]]), (0.0, end), np.array([1.0, 0.5]), events=turn)
    found = lambda k: spring(k, 9.0, m.solve_ivp).t_events[0]
    assert ft.vjp(found, 1.0)[0].shape == (2,)
    assert ft.vjp(lambda k: k * len(spring(k, 0.1, m.solve_ivp).y_events[0]), 1.0)[0] == 0
    turn.__class__.terminal = 0.5
    with pytest.raises(ValueError, match="terminal"):
        ft.vjp(found, 1.0)


def test_times_and_states_of_events_are_differentiated():
    m = module("integrate")
    solve = lambda v, g, **more: m.solve_ivp(
        thrown, (0.0, 9.0), np.stack([1.0 + 0 * v, v]), events=FALLING, args=(g,), rtol=1e-10, atol=1e-11, **more
    )
    time = lambda v, g: solve(v, g).t_events[0][0]
    for transform in (lambda f: f, lambda f: ft.grad(f, (0, 1)), lambda f: ft.hessian(f, (0, 1)), lambda f: ft.jit(ft.jacfwd(f))):
        assert np.allclose(transform(time)(2.0, 9.8), transform(LANDED)(2.0, 9.8), rtol=1e-9)
    vs, gs = np.array([1.0, 5.0, 2.0]), np.array([9.8, 1.6, 3.7])  # they land after different numbers of steps
    assert np.allclose(ft.vmap(ft.grad(time))(vs, gs), ft.vmap(ft.grad(LANDED))(vs, gs), rtol=1e-9)
    speed = lambda v: solve(v, 9.8).y[1, -1]
    assert np.isclose(ft.grad(speed)(2.0), ft.grad(lambda v: -np.sqrt(v * v + 19.6))(2.0), rtol=1e-9)
    height = lambda h: m.solve_ivp(thrown, (0.0, 9.0), np.array([1.0, 2.0]), events=lambda t, y, g: y[0] - h, args=(9.8,), rtol=1e-10)
    assert np.isclose(ft.grad(lambda h: height(h).t_events[0][-1])(0.5), -1 / np.sqrt(4 + 9.8), rtol=1e-8)


def test_the_solution_between_the_steps_of_solve_ivp():
    m = module("integrate")
    call = lambda solve, p: solve(volterra, (0.0, 2.0), Y0, dense_output=True, args=(p,)).sol
    want, found = call(si.solve_ivp, RATES), []
    ft.vjp(lambda p: found.append([ft.value(call(m.solve_ivp, p)(np.array(t))) for t in (0.0, 0.7, [0.1, 1.9, 2.2])]) or p, RATES)
    for got, t in zip(found[0], (0.0, 0.7, [0.1, 1.9, 2.2])):
        assert got.shape == want(t).shape and np.allclose(got, want(t), rtol=1e-9)
    at = lambda y, p, t: m.solve_ivp(volterra, (2.0, 0.0), y, args=(p,), dense_output=True, **TIGHT).sol(t)
    check_grads(at, Y0 / 9, RATES, np.array([1.7, 0.4]))


def test_solve_ivp_for_a_batch_of_times():
    m = module("integrate")
    last = lambda t: m.solve_ivp(volterra, (0.1 * t, t), Y0, args=(RATES,), **TIGHT).y[:, -1]
    ends = np.array([0.5, -1.0, 2.0])
    assert np.allclose(ft.vmap(last)(ends), [last(t) for t in ends], rtol=1e-9)
    assert np.allclose(ft.vmap(ft.jacfwd(last))(ends), [ft.jacfwd(last)(t) for t in ends], rtol=1e-8)
    with pytest.raises(errors.UnsupportedError, match="batch of times"):
        ft.vmap(lambda t: m.solve_ivp(volterra, (0.0, t), Y0, args=(RATES,), t_eval=[0.1]).y)(ends)


def test_odeint_at_traced_times_and_under_vmap():
    m = module("integrate")
    t = np.linspace(0, 2, 5)
    f = lambda p, t: m.odeint(lambda y, t: volterra(t, y, p), Y0, t, rtol=1e-11, atol=1e-12)
    assert np.allclose(ft.vjp(f, RATES, t)[0], si.odeint(lambda y, t: volterra(t, y, RATES), Y0, t, rtol=1e-11, atol=1e-12), atol=1e-8)
    check_grads(f, RATES, t, order=1)
    batch = ft.vmap(lambda p: f(p, t))(np.stack([RATES, RATES + 0.1]))
    assert np.allclose(batch[1], f(RATES + 0.1, t), atol=1e-9)


def bratu(x, y, p):
    return np.stack([y[1], -p * np.exp(y[0])])


def test_boundary_value_problems():
    m, start = module("integrate"), np.zeros((2, 11))

    def values(p, end, last):
        ends = lambda a, b: np.stack([a[0], b[0] - last])
        solved = m.solve_bvp(lambda x, y: bratu(x, y, p), ends, np.linspace(0, 1, 11) * end, start, tol=1e-9)
        return solved.sol(np.array([0.3, 0.6]))[0] + solved.y[1, 0]

    plain = si.solve_bvp(lambda x, y: bratu(x, y, 0.7), lambda a, b: np.stack([a[0], b[0] - 0.2]), np.linspace(0, 1, 11), start, tol=1e-9)
    assert np.allclose(ft.vjp(values, 0.7, 1.0, 0.2)[0], plain.sol([0.3, 0.6])[0] + plain.y[1, 0], rtol=1e-8)
    check_grads(values, 0.7, 1.0, 0.2, rtol=1e-5)
    with pytest.raises(errors.UnsupportedError, match="mesh"):
        ft.vmap(lambda p: values(p, 1.0, 0.2))(np.array([0.1, 0.2]))


def test_a_boundary_value_problem_with_an_unknown_parameter():
    m, x = module("integrate"), np.linspace(0, 1, 9)

    def frequency(length):  # of a string: pi / length
        f = lambda x, y, k: np.vstack([y[1], -(k[0] ** 2) * y[0]])
        ends = lambda a, b, k: [a[0], b[0], a[1] - k[0]]
        return m.solve_bvp(f, ends, x * length, np.stack([np.sin(np.pi * x), np.cos(np.pi * x)]), p=[3.0], tol=1e-8).p[0]

    assert np.isclose(ft.grad(frequency)(1.3), -np.pi / 1.69, rtol=1e-6)
    with pytest.raises(ArithmeticError, match="no solution"):
        ft.grad(lambda a: m.solve_bvp(lambda x, y: bratu(x, y, 50 * a), lambda a, b: np.stack([a[0], b[0]]), x, np.zeros((2, 9))).y[0, 3])(
            1.0
        )
