"""Rotations of `scipy.spatial.transform`: SciPy's values for each way in and out, and derivatives on the group."""

import numpy as np
import pytest
import scipy.linalg
from scipy.spatial.transform import Rotation as Theirs
from scipy.spatial.transform import Slerp as TheirSlerp

import functrace as ft
from functrace import errors

pytestmark = pytest.mark.usefixtures("random_state")
RNG = np.random.default_rng(0)
V = np.array([0.3, -0.5, 0.7])


@pytest.fixture
def transform():
    from functrace.scipy.spatial import transform

    return transform


WAYS_IN = {
    "rotation vectors": (RNG.normal(size=(2, 3)), lambda r, x: r.from_rotvec(x)),
    "small ones": (1e-9 * RNG.normal(size=3), lambda r, x: r.from_rotvec(x)),
    "degrees": (np.array([20.0, 30.0, 40.0]), lambda r, x: r.from_rotvec(x, degrees=True)),
    "a quaternion": (RNG.normal(size=4), lambda r, x: r.from_quat(x)),
    "quaternions": (RNG.normal(size=(3, 4)), lambda r, x: r.from_quat(x, scalar_first=True)),
    "matrices": (Theirs.from_rotvec(RNG.normal(size=(5, 3)) * 2).as_matrix(), lambda r, x: r.from_matrix(x)),
    "an angle": (0.4, lambda r, x: r.from_euler("y", x)),
    "fixed axes": (RNG.normal(size=(2, 3)), lambda r, x: r.from_euler("xyz", x)),
    "moving axes": (RNG.normal(size=3), lambda r, x: r.from_euler("ZXZ", x)),
    "two axes": (np.array([20.0, 30.0]), lambda r, x: r.from_euler("xz", x, degrees=True)),
}
WAYS_OUT = [
    lambda r: r.as_quat(),
    lambda r: r.as_quat(canonical=True, scalar_first=True),
    lambda r: r.as_matrix(),
    lambda r: r.as_rotvec(),
    lambda r: r.as_rotvec(degrees=True),
    lambda r: r.as_euler("zxz"),
    lambda r: r.as_euler("XYZ", degrees=True),
    lambda r: r.apply(V),
    lambda r: r.apply(V, inverse=True),
    lambda r: (r.inv() * r * r).as_matrix(),
    lambda r: (r**0.4).as_matrix(),
    lambda r: r.magnitude(),
    lambda r: r.as_euler("xyz"),
]


@pytest.mark.parametrize("name", WAYS_IN)
def test_rotations_are_scipys_and_differentiated(transform, name):
    x, make = WAYS_IN[name]
    step = RNG.normal(size=np.shape(x))
    for k, out in enumerate(WAYS_OUT):
        if name == "small ones" and k in (5, 6, 11) or name == "an angle" and k == 5:  # gimbal lock, and a kink
            continue
        f = lambda x, out=out: out(make(transform.Rotation, x))
        theirs = lambda x, out=out: out(make(Theirs, x))
        value, slope = ft.jvp(f, (x,), (step,))
        assert np.shape(value) == np.shape(theirs(x))
        assert np.allclose(value, theirs(x), atol=1e-12), k
        if name != "matrices":  # SciPy does not always take the nearest rotation
            h = 1e-4
            want = (8 * (theirs(x + h * step) - theirs(x - h * step)) - theirs(x + 2 * h * step) + theirs(x - 2 * h * step)) / (12 * h)
            assert np.allclose(slope, want, rtol=1e-6, atol=1e-7 * np.max(np.abs(want))), k
        g = RNG.normal(size=np.shape(value))
        assert np.isclose(np.sum(ft.vjp(f, x)[1](g)[0] * step), np.sum(g * slope))


def hat(v):
    return ft.numpy.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


@pytest.mark.parametrize("size", [0.0, 1e-8, 1e-2, 0.0999, 0.1001, 0.5])
def test_three_derivatives_at_small_angles(transform, size):
    from functrace.scipy.linalg import expm

    weights = RNG.normal(size=(3, 3))
    ours = lambda v: np.sum(transform.Rotation.from_rotvec(v).as_matrix() * weights)
    f, g = ours, lambda v: np.sum(expm(hat(v)) * weights)
    back = lambda v: np.sum(np.sin(transform.Rotation.from_rotvec(v).as_rotvec()) * weights)
    for tolerance in (1e-12, 1e-10, 1e-7):
        f, g = ft.jacfwd(f), ft.jacfwd(g)
        assert np.allclose(f(size * V), g(size * V), rtol=tolerance, atol=tolerance)
    assert np.allclose(ft.hessian(back)(size * V), ft.hessian(lambda v: np.sum(np.sin(v) * weights))(size * V), atol=1e-8)


@pytest.mark.parametrize("angle", [0.3, 2.0, 3.1])
def test_a_matrix_is_differentiated_as_the_nearest_rotation(transform, angle):
    m, step = Theirs.from_rotvec(angle * V).as_matrix(), RNG.normal(size=(3, 3))
    nearest = lambda h: Theirs.from_matrix(scipy.linalg.polar(m + h * step)[0]).as_quat()
    slope = ft.jvp(lambda m: transform.Rotation.from_matrix(m).as_quat(), (m,), (step,))[1]
    assert np.allclose(slope, (nearest(1e-5) - nearest(-1e-5)) / 2e-5, atol=1e-8)
    with pytest.raises(ValueError, match="no rotation"):
        transform.Rotation.from_matrix(2 * m)
    with pytest.raises(ValueError, match="no rotation"):
        transform.Rotation.from_matrix(-m)


def test_rotations_are_trees_and_have_scipys_other_methods(transform):
    Rotation = transform.Rotation
    many = ft.vmap(Rotation.from_rotvec)(np.stack([V, 2 * V]))
    assert len(many) == 2
    assert np.allclose(many[1].as_rotvec(), 2 * V)
    turn = ft.jit(lambda r, v: (r * r).apply(v))
    assert np.allclose(turn(many[0], V[::-1]), Theirs.from_rotvec(2 * V).apply(V[::-1]))
    assert np.allclose(many.mean().as_rotvec(), Theirs.from_rotvec([V, 2 * V]).mean().as_rotvec())
    assert np.allclose(Rotation.identity(2).as_matrix(), np.eye(3))
    with pytest.raises(errors.UnsupportedError, match=r"Rotation\.mean"):
        ft.grad(lambda v: Rotation.from_rotvec(v).mean().magnitude())(V)
    with pytest.raises(ArithmeticError, match="gimbal"):
        ft.grad(lambda v: Rotation.from_rotvec(v).as_euler("zxz")[1])(np.array([0.0, 0.0, 0.4]))


def test_rotations_between_two_at_constant_speed(transform):
    a, b = RNG.normal(size=(2, 3))
    between = lambda r, t: r.from_rotvec(a) * (r.from_rotvec(a).inv() * r.from_rotvec(b)) ** t
    theirs = TheirSlerp([0.0, 1.0], Theirs.from_rotvec([a, b]))(0.3)
    assert np.allclose(between(transform.Rotation, 0.3).as_matrix(), theirs.as_matrix())
    rate = ft.jacfwd(lambda t: between(transform.Rotation, t).as_matrix())(0.3)
    assert np.isclose(np.linalg.norm(rate) / np.sqrt(2), (Theirs.from_rotvec(a).inv() * Theirs.from_rotvec(b)).magnitude())


@pytest.mark.parametrize("seq", ["xxy", "xYz", "xy", "xyw"])
def test_axes_that_are_none_raise_both_ways(transform, seq):
    with pytest.raises(ValueError, match="3 axes from"):
        ft.grad(lambda v: transform.Rotation.from_rotvec(v).as_euler(seq)[0])(V)
    if seq != "xy":
        with pytest.raises(ValueError, match="3 axes from"):
            transform.Rotation.from_euler(seq, [0.1, 0.2, 0.3])


def test_half_turns_have_the_quaternions_that_scipy_chooses(transform):
    signs = np.array([1.0, 0.0, -1.0])
    half = np.stack([q for q in np.stack(np.meshgrid(signs, signs, signs, [0.0]), axis=-1).reshape(-1, 4) if q.any()])
    got = ft.vjp(lambda q: transform.Rotation.from_quat(q).as_quat(canonical=True), half)[0]
    np.testing.assert_allclose(got, Theirs.from_quat(half).as_quat(canonical=True), rtol=1e-15)


def test_rotations_are_joined_and_plain_ones_made_in_all_of_scipys_ways(transform):
    Rotation = transform.Rotation
    a, b = np.random.default_rng(7).normal(size=(2, 4, 3))
    joined = lambda m: m.concatenate([m.from_rotvec(a[0]), m.from_rotvec(b)]).as_matrix()
    ways = (
        lambda m: m.align_vectors(a, b)[0].as_matrix(),
        lambda m: m.from_mrp(b / 9).as_matrix(),
        lambda m: m.from_rotvec(b).approx_equal(m.from_rotvec(b[0])),
        joined,
    )
    for f in ways:
        np.testing.assert_allclose(f(Rotation), f(Theirs), atol=1e-14)
    ft.check_grads(lambda v: Rotation.concatenate([Rotation.from_rotvec(v), Rotation.from_rotvec(b)]).as_matrix(), a[0])
    assert isinstance(Rotation.from_rotvec(b).mean(), Rotation)
    with pytest.raises(errors.UnsupportedError, match="from_mrp"):
        ft.grad(lambda v: Rotation.from_mrp(v).as_quat().sum())(a[0])
