"""Linear systems of `scipy.signal`, and linear programs: SciPy's values for every form and option, and derivatives."""

import numpy as np
import pytest
import scipy.optimize as so
import scipy.signal as ss

import functrace as ft
from functrace import errors
from functrace.testing import check_grads

pytestmark = pytest.mark.usefixtures("random_state")
T = np.linspace(0.0, 2.0, 9)
U = np.sin(3 * T)


@pytest.fixture
def signal():
    from functrace.scipy import signal

    return signal


@pytest.fixture
def optimize():
    from functrace.scipy import optimize

    return optimize


def oscillator(w):
    return np.array([[0.0, 1.0], [0.0, 0.0]]) + w * np.array([[0.0, 0.0], [-1.0, -0.3]]), np.array([[0.0], [1.0]])


def space(w):
    return *oscillator(w), np.eye(2), np.zeros((2, 1))


def one_output(w):
    return *oscillator(w), np.array([[1.0, 0.5]]), np.array([[0.1]])


def transfer(w):
    return [0.3, 1.0], [1.0, 0.3 * w, w]


RESPONSES = [
    lambda m, w: m.lsim(space(w), U, T)[1],
    lambda m, w: m.lsim(space(w), U, T, [1.0, 0.5], False)[2],
    lambda m, w: m.lsim(transfer(w), U * w, T + 0.3, [1.0, 0.5])[1],
    lambda m, w: m.lsim(one_output(w), 0, T, [1.0, 0.5])[1],
    lambda m, w: m.lsim(one_output(w), None, T[1:2], [1.0, 0.5])[2],
    lambda m, w: m.lsim(ss.lti([1.0], [1.0, 2.0]), U * w, T)[1],
    lambda m, w: m.lsim((np.array([[-1.0]]), np.ones((1, 2)), np.ones((1, 1)), np.zeros((1, 2))), np.stack([U, w * U], 1), T)[1],
    lambda m, w: m.step(transfer(w), T=T)[1],
    lambda m, w: m.step(one_output(w), [0.1, 0.2], T)[1],
    lambda m, w: m.impulse(transfer(w), T=T)[1],
    lambda m, w: m.impulse(([1.0], [1.0, w]), T=T + 0.2)[1],
    lambda m, w: m.bode(transfer(w), T + 0.1)[2],
    lambda m, w: m.lsim(([], [-w], 1.0), U, T)[1],
    lambda m, w: m.step(([-0.5], [-w, -2.0], 1.5 * w), T=T)[1],
    lambda m, w: m.bode(([-0.5], [-w, -2.0], 1.5), T + 0.1)[1],
    lambda m, w: np.abs(m.freqresp(([-0.5], [-1 + 1j * w, -1 - 1j * w], w), T)[1]),
    lambda m, w: m.zpk2ss([-0.5], [-w, -2.0], w)[0],
    lambda m, w: m.dlsim(([0.1], [0.3 * w, 0.2], 1.0, 0.5), U[:5])[1],
    lambda m, w: np.abs(m.freqresp(one_output(w), T)[1]),
    lambda m, w: m.dlsim((*one_output(w), 0.5), U[:5], x0=[0.1, 0.2])[2],
    lambda m, w: m.dlsim(([0.3], [1.0, 0.2 * w], 1.0), U[:5])[1],
    lambda m, w: np.concatenate([np.ravel(v) for v in m.cont2discrete(transfer(w), 0.2 * w)]),
    lambda m, w: m.ss2tf(*one_output(w))[0],
    lambda m, w: m.tf2ss([[0.0, 1.0], [w, 2.0]], [0.0, w, 3.0])[2],
    *(
        lambda m, w, k=k: np.concatenate([np.ravel(v) for v in m.cont2discrete(space(w), 0.2, **k)])
        for k in [{"method": n} for n in ("zoh", "foh", "bilinear", "euler", "backward_diff", "impulse")]
        + [{"method": "gbt", "alpha": 0.3}]
    ),
]


@pytest.mark.parametrize("f", RESPONSES)
def test_systems_have_scipys_values_and_two_derivatives(signal, f):
    g = lambda w: f(signal, w)
    want = f(ss, 1.7)
    value, _ = ft.vjp(g, 1.7)
    assert value.shape == np.shape(want)
    assert np.allclose(value, want, rtol=1e-10, atol=1e-13)
    check_grads(g, 1.7, order=2)
    assert np.allclose(ft.vmap(ft.jacrev(g))(np.array([1.2, 1.7]))[1], ft.jacfwd(g)(1.7))


def test_a_characteristic_polynomial_is_differentiated_where_eigenvalues_coincide(signal):
    double = np.array([[1.0, 1.0], [0.0, 1.0]])
    den = lambda a: signal.ss2tf(a, np.ones((2, 1)), np.ones((1, 2)), np.zeros((1, 1)))[1]
    assert np.allclose(ft.jacobian(den)(double), [np.zeros((2, 2)), -np.eye(2), np.array([[1.0, 0.0], [-1.0, 1.0]])])


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda m, w: m.step(transfer(w)), "Pass T."),
        (lambda m, w: m.bode(transfer(w)), "Pass w."),
        (lambda m, w: m.cont2discrete(([], [w], 1.0), 0.1), "zeros and poles"),
        (lambda m, w: m.StateSpace(*space(w)), "the tuple"),
        (lambda m, w: m.dlsim(([0.3], [1.0, w], 1.0), U, t=T), "t="),
    ],
)
def test_what_is_not_covered_of_systems_names_the_remedy(signal, f, words):
    with pytest.raises(errors.UnsupportedError, match=words):
        ft.grad(lambda w: f(signal, w))(1.7)


# linear programs


def program(rng):
    """A linear program with a solution, and bounds; some of it may be missing."""
    n, m, e = int(rng.integers(1, 5)), int(rng.integers(0, 6)), int(rng.integers(0, 3))
    inside, e = rng.uniform(0.1, 2.0, n), min(e, n - 1)
    a, b = rng.normal(size=(m, n)), rng.normal(size=(e, n))
    data = [rng.normal(size=n), a, a @ inside + rng.random(m), b, b @ inside]
    return [v if v.size else None for v in data], [(0, None), (-1, 3), [(0, 5)] * n][rng.integers(3)]


def test_linear_programs_have_the_slopes_of_scipys_solutions(optimize):
    solved = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        data, bounds = program(rng)
        given = [k for k, v in enumerate(data) if v is not None]

        def f(solver, *values, given=given, bounds=bounds):
            full = [None] * 5
            for k, v in zip(given, values):
                full[k] = v
            found = solver(*full, bounds=bounds)
            return found.fun + np.sum(found.x**2) + np.sum(found.slack[: len(full[2]) if full[2] is not None else 0] ** 2)

        values = [data[k] for k in given]
        steps = [rng.normal(size=v.shape) for v in values]
        if not so.linprog(*data, bounds=bounds).success:
            with pytest.raises(ArithmeticError, match="no solution"):
                ft.jvp(lambda *v, f=f: f(optimize.linprog, *v), values, steps)
            continue
        value, slope = ft.jvp(lambda *v, f=f: f(optimize.linprog, *v), values, steps)
        ahead, behind = (f(so.linprog, *(v + h * s for v, s in zip(values, steps))) for h in (1e-6, -1e-6))
        assert np.isclose(value, f(so.linprog, *values), rtol=1e-7), seed
        assert np.isclose(slope, (ahead - behind) / 2e-6, rtol=1e-4, atol=1e-4 * (1 + abs(value))), seed
        solved += 1
    assert solved > 20


def test_the_vertex_of_a_program_may_change_under_jit_and_vmap(optimize):
    cost = lambda b: optimize.linprog(np.array([-1.0, -2.0]), np.array([[1.0, 1.0], [1.0, 3.0]]), b).fun
    limits = np.array([[4.0, 6.0], [4.0, 3.0], [4.0, 20.0]])
    fast = ft.jit(ft.grad(cost))
    want = [[-0.5, -0.5], [0.0, -1.0], [-2.0, 0.0]]
    assert np.allclose([fast(b) for b in limits], want)
    assert np.allclose(ft.vmap(ft.grad(cost))(limits), want)


@pytest.mark.parametrize(
    ("c", "rows", "limits"),
    [
        ([-1.0, -1.0], [[1.0, 1.0]], [4.0]),  # all of an edge is as good
        ([-1.0, -2.0], [[1.0, 1.0], [1.0, 3.0], [2.0, 4.0]], [4.0, 6.0, 10.0]),  # three lines meet
    ],
)
def test_a_program_without_a_derivative_raises(optimize, c, rows, limits):
    with pytest.raises(ArithmeticError, match="no derivative"):
        ft.grad(lambda b: optimize.linprog(c, rows, b).fun)(np.array(limits))
    with pytest.raises(errors.UnsupportedError, match="rows of A_ub"):
        ft.grad(lambda b: optimize.linprog(c, rows, limits, bounds=(0, b)).fun)(1.0)


def test_minimize_from_a_dict_names_what_takes_one(optimize):
    with pytest.raises(errors.InputTypeError, match="scipy_objective"):
        optimize.minimize(lambda p: p["a"] ** 2, {"a": 1.0})


def test_a_numerators_first_coefficient_is_differentiated_at_zero(signal):
    response = lambda m: lambda num: m.freqresp((num, [1.0, 0.4, 2.0]), [0.7])[1].real.sum() + m.tf2ss(num, [1.0, 0.4, 2.0])[2].sum()
    wanted = [response(ss)(d + 1) - response(ss)(np.ones(3)) for d in np.eye(3)]  # it is linear
    assert np.allclose(ft.grad(response(signal))(np.array([0.0, 0.0, 1.5])), wanted)


@pytest.mark.parametrize("kind", ["low", "highpass", "bandpass", "bs"])
@pytest.mark.parametrize("output", ["ba", "sos", "zpk"])
def test_designed_filters_have_scipys_numbers_and_slopes_in_their_frequencies(signal, kind, output):
    w = np.array([0.2, 0.53]) if "b" in kind else 0.3
    for name, *given in (("butter", 5), ("cheby1", 4, 1.0), ("cheby2", 3, 30.0), ("ellip", 3, 1.0, 30.0), ("bessel", 2)):
        for more in ({}, {"fs": 1.7}, *([] if output == "sos" else [{"analog": True}])):
            f = lambda w: getattr(signal, name)(*given, w, btype=kind, output=output, **more)
            found, want = ft.vjp(f, w)[0], getattr(ss, name)(*given, w, btype=kind, output=output, **more)
            for x, y in [(found, want)] if output == "sos" else zip(found, want, strict=True):
                assert np.result_type(x) == np.result_type(y)
                np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)
            check_grads(f, w, order=1)


def test_a_filters_response_has_two_derivatives_in_its_edges_wherever_its_sections_lie(signal):
    x = np.sin(np.arange(30.0) ** 1.3)
    power = lambda w: np.sum(signal.sosfilt(signal.butter(5, w, "bandpass", output="sos"), x) ** 2)
    slope, batch = ft.jit(ft.grad(power)), np.stack([np.array([0.2, w]) for w in (0.49, 0.5, 0.51)])  # between which two change places
    for w, of_batch in zip(batch, ft.vmap(ft.grad(power))(batch), strict=True):
        plain = ft.grad(lambda w: np.sum(signal.lfilter(*signal.butter(5, w, "bandpass"), x) ** 2))(w)
        for got in (slope(w), of_batch):
            assert np.allclose(got, plain, rtol=1e-6)
    sections = [ss.butter(5, w, "bandpass", output="sos") for w in batch]
    assert abs(sections[2] - sections[0]).max() > 0.1
    check_grads(power, batch[1], order=2, modes=("rev",))
    assert slope.cache_info()["recorded"] == 1
    with pytest.raises(errors.UnsupportedError, match="only Wn"):
        ft.grad(lambda r: signal.cheby1(3, r, 0.3)[0][0])(1.0)


def test_a_filter_with_traced_coefficients_is_compiled_once(signal):
    slope = ft.jit(ft.grad(lambda a: signal.lfilter([1.0], a, U).sum()))
    found = [slope(np.array([a, 0.2])) for a in (1.0, 1.1, 1.2)]
    assert slope.cache_info()["recorded"] == 1
    assert np.allclose(found[2], ft.grad(lambda a: signal.lfilter([1.0], a, U).sum())(np.array([1.2, 0.2])))
    with pytest.raises(ValueError, match="is 0"):
        slope(np.array([0.0, 0.2]))
