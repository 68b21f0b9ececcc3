"""What NumPy refuses is refused of traced values too, with the same class; and the rarer options give what they give."""

import io
import pickle

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace import errors, optim

V, M, T = np.array([0.5, 2.0, -1.0, 3.0]), np.arange(6.0).reshape(2, 3) ** 2 + 1, np.arange(8.0).reshape(2, 2, 2)


def expressions(text):
    return [line for line in text.strip().split("\n") if line]


NUMPY_REFUSES = expressions("""
np.diff(x[0])
np.gradient(x, 1.0, 2.0)
np.gradient(x, edge_order=3)
np.gradient(m, np.ones(2))
np.gradient(m, np.ones((2, 2)))
np.gradient(x[:1])
np.gradient(x, np.ones(3))
np.gradient(x, np.ones((4, 1)))
np.interp(0.5, m, m)
np.interp(0.5, x, x[:2])
np.interp(0.5, x[:0], x[:0])
np.interp(0.5, x, x, period=0)
np.convolve(x, x, mode="most")
np.convolve(m, x)
np.convolve(x[:0], x)
np.convolve(x, x[:0])
np.take(x, [0], mode="most")
np.take_along_axis(x, np.array([0.5]), 0)
np.take_along_axis(m, np.array([[0]]), None)
np.take_along_axis(m, np.array([0]), 0)
np.compress(np.ones((2, 2), bool), x)
np.choose([0, 5], [x[:2], x[:2]])
np.select([x > 0], [x, x])
np.select([], [])
np.select([np.ones(4)], [x])
np.piecewise(x, [x > 0], [1, 2, 3])
np.apply_along_axis(np.sum, 0, m[:, :0])
np.median(m, axis=5)
np.average(m, weights=np.ones(2))
np.average(m, axis=0, weights=np.ones(3))
np.cov(x, ddof=1.5)
np.cov(t)
np.cov(x, t)
np.cov(x, fweights=np.ones((2, 2), int))
np.cov(x, fweights=np.ones(3, int))
np.cov(x, fweights=-np.ones(4, int))
np.cov(x, aweights=-np.ones(4))
np.tensordot(m, m, 1)
np.tensordot(m, x, 2)
np.tensordot(m, m, ([0, 1], [0]))
np.cross(x, x)
np.vander(m)
np.place(x.astype(np.float32), x > 0, x)
np.putmask(x, x > 0, x * 1j)
np.pad(x, 1, mode="mean", constant_values=2)
np.pad(x, 1.5)
np.pad(x[:0], 1, mode="edge")
np.pad(x, 1, mode="maximum", stat_length=0)
np.array_split(x, 0)
np.vsplit(x, 2)
np.hsplit(x[0], 2)
np.dsplit(m, 1)
np.block([x, ()])
np.block([x, []])
np.block([[x], x])
np.moveaxis(m, (0, 1), 0)
np.fliplr(x)
np.flipud(x[0])
np.roll(m, [[1]], 0)
np.meshgrid(x, x, indexing="zz")
np.diagonal(x)
np.diagflat(x, k=1.5)
np.tri(2) @ x
np.linspace(x[0], 1, -1)
np.geomspace(x[0] * 0, 1, 3)
np.add.accumulate(x[0])
np.subtract.reduce(m, axis=None)
np.divide.reduce(m, axis=(0, 1))
np.maximum.reduce(x[:0])
np.add.reduceat(x, [0, 9])
np.linalg.tensorinv(m, ind=0)
np.linalg.tensorsolve(m, x)
np.linalg.inv(m)
np.linalg.multi_dot([m])
np.linalg.outer(m, x)
np.linalg.cross(x, x)
np.cumulative_sum(m)
np.var(m, ddof=1, correction=0)
np.einsum("ij,jk", m, m)
np.concatenate([m, x])
np.stack([m, x])
np.transpose(m, (0, 0))
np.reshape(m, (4, 2))
np.squeeze(m, 0)
np.expand_dims(m, 7)
np.broadcast_to(m, (2, 2))
np.matmul(m, m)
np.dot(m, m)
np.trace(x)
np.repeat(x, [1, 2])
np.split(x, 3)
np.quantile(x, 2.0)
np.percentile(x, -1)
np.partition(x, 9)
np.insert(x, 9, 1.0)
np.delete(x, 9)
np.rot90(x)
np.swapaxes(m, 0, 5)
np.nanmax(x[:0])
np.argmax(x[:0])
np.max(m, axis=3)
np.linalg.det(m)
x[9]
x[1.5]
x["a"]
m[0, 0, 0]
m[[0, 5]]
m[np.array([True])]
""")


@pytest.mark.parametrize("text", NUMPY_REFUSES)
def test_what_numpy_refuses_is_refused(text):
    code = compile(text, text, "eval")
    names = {"np": np, "x": V, "m": M, "t": T}
    with pytest.raises(Exception) as plain:
        eval(code, dict(names))

    def traced(x, m, t):
        return eval(code, {"np": np, "x": x, "m": m, "t": t})

    with pytest.raises(Exception) as found:
        ft.trace(traced)(V, M, T)
    assert issubclass(found.type, plain.type), f"{found.type.__name__}: {found.value}\n  NumPy: {plain.type.__name__}: {plain.value}"
    assert str(found.value)


NUMPY_GIVES = expressions("""
np.diff(m, n=2, axis=0)
np.gradient(x, np.array([0.0, 1.0, 3.0, 4.0]), edge_order=2)
np.gradient(m, 2.0, axis=1)[0]
np.var(x, ddof=1, mean=np.mean(x, keepdims=True))
np.var(m, axis=1, correction=1)
np.nanvar(x, ddof=1)
np.average(m, axis=0, weights=np.array([1.0, 3.0]))
np.average(m, axis=(0, 1), weights=np.ones((2, 3)))
np.cov(m, rowvar=False)
np.cov(x, x[::-1])
np.cov(m, fweights=np.array([1, 2, 1]), aweights=np.array([0.5, 1.0, 2.0]))
np.cov(m, dtype=np.float64, bias=True)
np.corrcoef(m)
np.pad(m, {0: (1, 2)})
np.pad(m, {-1: 1, 0: (0, 2)}, mode="reflect")
np.pad(x, (2, 1), mode="linear_ramp", end_values=(5.0, -4.0))
np.pad(x, 2, constant_values=x[1])
np.pad(x, 2, mode="mean", stat_length=2)
np.pad(x, 6, mode="symmetric", reflect_type="odd")
np.logspace(x[0], x[1], 4, base=np.array([2.0]))[:, 0]
np.logspace(0.0, 1.0, 3, base=x[1])
np.geomspace(x[0], x[1], 4)
np.linspace(x[0], x[1], 4, endpoint=False)
np.linspace(x[0], x[1:3], 3, axis=1)
np.cross(m, m[::-1])
np.cross(m, np.float32([1, 2, 3]))
np.tensordot(m, m, ([1, 0], [1, 0]))
np.inner(m, m)
np.vander(x, 3, increasing=True)
np.polyval(x, 2.0)
np.polyval([1.0, 2.0], x)
np.take(m, [[0, 5], [2, 1]])
np.take(m, [4, -1], axis=1, mode="wrap")
np.take(m, [4, -1], axis=1, mode="clip")
np.take_along_axis(m, np.array([0, 5]), None)
np.choose([0, 1, 1, 0], [x, -x])
np.choose([0, 3, -1, 1], [x, -x], mode="wrap")
np.choose([0, 3, -1, 1], [x, -x], mode="clip")
np.piecewise(x, [x < 0, x > 1], [lambda v: v**2, 3.0, lambda v: -v])
np.piecewise(x, [x > 100], [lambda v: v**2])
np.trim_zeros(np.concatenate([0 * x[:1], x]))
np.apply_along_axis(lambda r: r * r.sum(), 1, m)
np.add.reduce(m, axis=None)
np.add.reduce(m, axis=(0, 1), keepdims=True)
np.add.reduce(x[:0])
np.multiply.reduce(x[:0])
np.subtract.reduce(m, axis=1)
np.add.accumulate(m, axis=1)
np.add.accumulate(x, dtype=np.float32)
np.multiply.accumulate(x)
np.add.reduceat(x, [0, 2, 1])
np.add.outer(x, x[:2])
np.cumsum(m, axis=0)
np.cumsum(x, dtype=np.float32)
np.cumulative_sum(x, include_initial=True)
np.cumulative_prod(m, axis=1)
np.ediff1d(x, to_begin=x[0], to_end=[1.0])
np.insert(x, 1, np.float32(7))
np.insert(m, [0, 2], m[0, :2], axis=1)
np.append(x, np.array([1, 2]))
np.block([[x[:2], m[0]], [m[0], x[:2]]])
np.block(x)
np.rollaxis(t, 2)
np.roll(m, (1, 2), axis=(0, 1))
np.rot90(m, 3)
np.diag(x, -1)
np.diag(m)
np.diagflat(m)
np.trace(m, 1)
np.triu(m, 1)
np.interp(np.array([-1.0, 0.2, 5.0]), np.arange(4.0), x, left=x[0], right=7.0)
np.interp(np.array([5.5, -1.0]), np.arange(4.0), x, period=4.0)
np.convolve(x, x[:2], "same")
np.convolve(x, x[:2], "valid")
np.correlate(x, x[:2], "full")
np.linalg.tensorinv(t.reshape(4, 2) @ t.reshape(2, 4) + 9 * np.eye(4).reshape(4, 4), 1)
np.linalg.multi_dot([m, m.T, m])
np.linalg.vecdot(m, m)
np.linalg.matrix_norm(m, ord="nuc")
np.linalg.vector_norm(m, ord=3, axis=1)
np.linalg.outer(x, x)
np.linalg.cross(m, m[::-1])
np.linalg.trace(m @ m.T)
np.einsum("ij->j", m)
np.einsum("ii", m @ m.T)
np.quantile(x, [0.2, 0.7], method="lower")
np.percentile(m, 30, axis=1, keepdims=True)
np.nanmedian(m, axis=0)
np.ptp(m, axis=1)
np.sort(m, axis=0)[::-1]
np.partition(x, 2)
np.unwrap(x * 3)
np.trapezoid(m, dx=0.5)
np.trapezoid(x, x=np.array([0.0, 1.0, 3.0, 4.0]))
np.nan_to_num(x)
np.clip(x, None, 1.0)
np.clip(x, x[::-1], 2.5)
np.where(x > 0, x, 0.0)
np.extract(x > 0, x)
np.compress([True, False, True], m, axis=1)
np.unravel_index(3, (2, 2))[0] * x
np.meshgrid(x, x[:2], indexing="ij", sparse=True)[0]
np.heaviside(x, 0.5) * x
np.sinc(x)
np.i0(x)
np.float_power(np.abs(x), 1.5)
np.hypot(x, 2.0)
np.logaddexp2(x, 1.0)
np.ldexp(x, 2)
np.copysign(x, -1.0)
np.fmod(x, 0.7)
np.remainder(x, 0.7)
np.spacing(x) * 0 + x
np.matvec(m, m[0]) if hasattr(np, "matvec") else m @ m[0]
np.vecmat(m[:, 0], m) if hasattr(np, "matvec") else m[:, 0] @ m
np.unstack(m)[1] if hasattr(np, "unstack") else m[1]
np.permute_dims(m, (1, 0))
np.matrix_transpose(t)
np.concat([x, x])
np.astype(x, np.float32)
m[1, ..., [0, 2]]
m[None, [0, 1], :, None]
m[np.array([[0, 1], [1, 0]]), 1]
m[m > 2.5]
m[:, np.array([True, False, True])]
m[np.newaxis][0, :, [True, False, True]]
t[[0, 1], :, [1, 0]]
t[0, [0, 1]]
t[..., np.array([0, 1])]
t[:, np.array([0, 1]), 0]
""")


LATER = ("np.cumulative_", "np.pad(m, {")  # names and forms that came after NumPy 2.0


@pytest.mark.parametrize("text", NUMPY_GIVES)
def test_what_numpy_gives_is_given_and_differentiated(text):
    if np.lib.NumpyVersion(np.__version__) < "2.3.0" and text.startswith(LATER):
        pytest.skip("this NumPy does not have it")
    code = compile(text, text, "eval")

    def function(x, m, t):
        return eval(code, {"np": np, "x": x, "m": m, "t": t})

    want = function(V, M, T)
    got, pullback = ft.vjp(function, V, M, T)
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-6 if want.dtype == np.float32 else 1e-13, atol=1e-13)
    if want.dtype == np.float32:
        tangent = ft.jvp(function, (V, M, T), (V, M, T))[1]
        np.testing.assert_allclose(sum((a * b).sum() for a, b in zip(pullback(np.ones_like(want)), (V, M, T))), tangent.sum(), rtol=1e-5)
        return
    ft.check_grads(function, V, M, T, order=1)


@pytest.mark.parametrize(
    ("f", "remedy"),
    [
        (lambda x: V.dot(x), "a @ x for a.dot"),  # a line for each: before 3.11 Python tells no more
        (lambda x: np.float32(x[0]), "x.astype"),
        (lambda x: np.dot([x[0], x[1]], V[:2]), r"functrace.numpy.array\(\[...\]\) or np.stack"),
    ],
)
@pytest.mark.parametrize("transform", [ft.grad, ft.vmap])
def test_what_numpy_does_in_c_is_told_what_to_write_instead(f, remedy, transform):
    with pytest.raises(ft.errors.ConversionError, match=f"Instead use {remedy}"):
        transform(f)(V if transform is ft.grad else V[None])


@pytest.mark.parametrize("f", [lambda x: sum(v for v in np.nditer(x)), lambda x: sum(v for v, _ in np.nditer([x, V]))])
@pytest.mark.parametrize("transform", [ft.grad, ft.vmap])
def test_a_loop_of_numpys_is_told_another(f, transform):  # NumPy's own words, that something is "flagged as writeable", said nothing
    with pytest.raises(ft.errors.UnsupportedError, match="Instead loop over np.ndindex"):
        transform(f)(V if transform is ft.grad else V[None])


def test_a_function_that_numpy_vectorized_is_told_ours():
    with pytest.raises(ft.errors.UnsupportedError, match="use functrace.numpy.vectorize"):
        ft.grad(lambda x: np.frompyfunc(abs, 1, 1)(x))(1.0)


def test_trees_say_where_they_differ():
    with pytest.raises(ft.errors.TreeError, match="2 leaves, got 1"):
        ft.tree.unflatten(ft.tree.structure((1, 2)), [1])
    with pytest.raises(ft.errors.TreeError, match="differ in structure"):
        ft.tree.map(lambda a, b: a, {"a": 1}, {"b": 1})


@pytest.mark.parametrize("fun, x", [(lambda x: fnp.array([x[0], 2.0]), V), (lambda x: x * 2j, V), (lambda x: x.astype(int), V)])
def test_the_gradient_of_what_is_no_real_number_says_so(fun, x):
    with pytest.raises((TypeError, ValueError), match="grad") as found:
        ft.grad(fun)(x)
    assert pickle.loads(pickle.dumps(str(found.value)))


def loads(data):
    return ft.load(io.BytesIO(data))


MISTAKES = {
    "install of a number": (lambda x: fnp.install(3), ValueError, "3 is not the name of a package"),
    "fixed_point, shape": (
        lambda x: ft.fixed_point(lambda y: y[:2] * x[0], x),
        errors.TreeError,
        r"fixed_point\(<lambda>\): the shapes of f's result are \(2,\), those of x \(4,\)",
    ),
    "fixed_point, structure": (
        lambda x: ft.fixed_point(lambda y: {"a": y["a"], "b": x}, {"a": x}, solver=lambda g, y: y)["a"].sum(),
        errors.TreeError,
        r"the shapes of f's result are {'a': \(4,\), 'b': \(4,\)}, those of x {'a': \(4,\)}",
    ),
    "attribute": (lambda x: x.cuda(), AttributeError, r"a traced value \(float64\[4\]\) of grad\(fun\) has no attribute 'cuda'"),
    "field": (lambda x: ft.vmap(lambda r: r["a"] * 2)(np.zeros(2, [("a", float)])), IndexError, "records are traced as arrays"),
    "checkpoint of a generator": (
        lambda x: list(ft.checkpoint(lambda x: (v for v in x))(x)),
        errors.CallError,
        r"checkpoint\(<lambda>\): the function returned a generator",
    ),
    "load of text": (lambda x: loads(b"hello"), errors.UnsupportedError, "it is no .npz file"),
    "load of nothing": (lambda x: loads(b""), errors.UnsupportedError, "it is no .npz file"),
    "load of a number": (lambda x: ft.load(3), errors.CallError, "the file must be a path, or an object with read, got int"),
    **{
        f"optim.{f.__name__}": (lambda x, f=f: f("a"), errors.InputTypeError, f"{f.__name__}: [a-z_]+ must be a number, got str")
        for f in (optim.clip, optim.clip_by_global_norm, optim.scale, optim.trace, optim.add_decayed_weights)
    },
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told_in_words(name):
    fun, error, message = MISTAKES[name]
    fun.__name__ = fun.__qualname__ = "fun"
    with pytest.raises(error, match=message):
        ft.grad(fun)(V)
