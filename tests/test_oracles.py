"""Against PyTorch and JAX, where they are installed: the same gradients on every function that is shared, but for what is listed.

They are an extra (`pip install functrace[oracle]`), so a missing one skips its half; nothing else in the suite needs them.
"""

import warnings

import numpy as np
import pytest

import functrace as ft

POINTS = np.array([-2.5, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1.0, 1.5, 2.5])
POSITIVE = POINTS[POINTS > 0]
UNIT = np.array([-0.9, -0.5, 0.0, 0.3, 0.9])
ABOVE = np.array([1.1, 1.5, 2.5])

# name: (points, torch's name or None if it has none)
UNARY = {
    "sin": (POINTS, "sin"), "cos": (POINTS, "cos"), "tan": (UNIT, "tan"), "arcsin": (UNIT, "arcsin"), "arccos": (UNIT, "arccos"),
    "arctan": (POINTS, "arctan"), "sinh": (POINTS, "sinh"), "cosh": (POINTS, "cosh"), "tanh": (POINTS, "tanh"), "arcsinh": (POINTS, "arcsinh"),
    "arccosh": (ABOVE, "arccosh"), "arctanh": (UNIT, "arctanh"), "exp": (POINTS, "exp"), "exp2": (POINTS, "exp2"), "expm1": (POINTS, "expm1"),
    "log": (POSITIVE, "log"), "log2": (POSITIVE, "log2"), "log10": (POSITIVE, "log10"), "log1p": (POSITIVE, "log1p"), "sqrt": (POSITIVE, "sqrt"),
    "cbrt": (POSITIVE, None), "square": (POINTS, "square"), "reciprocal": (POSITIVE, "reciprocal"), "negative": (POINTS, "negative"),
    "positive": (POINTS, "positive"), "absolute": (POINTS, "absolute"), "fabs": (POINTS, None), "deg2rad": (POINTS, "deg2rad"), "rad2deg": (POINTS, "rad2deg"),
    "sinc": (POINTS, "sinc"), "sign": (POINTS, "sign"), "floor": (POINTS, "floor"), "ceil": (POINTS, "ceil"), "trunc": (POINTS, "trunc"), "rint": (POINTS, "round"),
}  # fmt: skip
BINARY = {
    "add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide", "power": "pow", "float_power": "float_power",
    "maximum": "maximum", "minimum": "minimum", "fmax": "fmax", "fmin": "fmin", "hypot": "hypot", "arctan2": "arctan2", "logaddexp": "logaddexp",
    "logaddexp2": "logaddexp2", "remainder": "remainder", "fmod": "fmod", "copysign": "copysign", "floor_divide": "floor_divide",
}  # fmt: skip

# Where they differ, and why we do. (function, oracle): reason. A test below fails if a listed pair agrees after all.
DIFFERENT = {
    ("absolute", "jax"): "jax has abs'(0) = 1 (sign(0.) is 0, but abs is a select); here 0, the zero subgradient, as PyTorch",
    ("fabs", "jax"): "as absolute",
    ("hypot", "jax"): "jax gives 1/2 or 1 at (0, 0); here the zero subgradient",
    ("hypot", "torch"): "PyTorch gives NaN at (0, 0); here the zero subgradient",
    ("arctan2", "jax"): "jax gives NaN at (0, 0); here 0, as PyTorch",
    ("fmax", "torch"): "PyTorch gives a tie to the first argument; here 1/2 each, as its own maximum",
    ("fmax", "jax"): "jax gives a tie to the second argument; here 1/2 each, as its own maximum",
    ("fmin", "jax"): "as fmax",
    ("fmin", "torch"): "as fmax",
    ("copysign", "torch"): "PyTorch gives 0 at 0; here the sign of the second argument, as jax",
    ("copysign", "jax"): "jax differentiates through abs, with its slope 1 at 0",
    ("floor_divide", "torch"): "PyTorch has no derivative of it; here it is 0, piecewise constant",
}


@pytest.fixture(scope="module")
def jax():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("jax", reason="JAX is an oracle only: pip install functrace[oracle]")
        module.config.update("jax_enable_x64", True)
        module.numpy.zeros(1)
    return module


@pytest.fixture(scope="module")
def torch():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("torch", reason="PyTorch is an oracle only: pip install functrace[oracle]")
    return module


def jax_vjp(jax, f, args, w):
    """(out, cotangents) by JAX."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out, grads = jax.jit(lambda w, *xs: (lambda out, pull: (out, pull(w.astype(out.dtype))))(*jax.vjp(f, *xs)))(w, *args)
        return np.asarray(out), [np.asarray(g) for g in grads]


def torch_vjp(torch, f, args, w):
    """(out, cotangents) by PyTorch, conjugated to JAX's convention; zeros where it says that there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        xs = [torch.tensor(np.array(a), requires_grad=True) for a in args]
        out = f(*xs)
        if not out.requires_grad:
            return out.detach().numpy(), [np.zeros_like(a) for a in args]
        grads = torch.autograd.grad(out, xs, torch.tensor(np.conj(w)), allow_unused=True)
    return out.detach().numpy(), [np.zeros_like(a) if g is None else np.conj(g.resolve_conj().numpy()) for g, a in zip(grads, args)]


def weights(shape, dtype=float):
    w = np.cos(np.arange(int(np.prod(shape, dtype=int)))).reshape(shape)
    return (w + 0.5j * w[..., ::-1] if w.ndim and np.dtype(dtype).kind == "c" else w + (0.5j if np.dtype(dtype).kind == "c" else 0)).astype(
        dtype
    )


def close(got, want, rtol, what):
    for k, (a, b) in enumerate(zip(got, want)):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * 10, err_msg=f"{what}, argument {k}")


def agree(f, theirs, oracle, vjp, args, rtol=1e-9, value_rtol=1e-9):
    with np.errstate(all="ignore"):
        out, pull = ft.vjp(f, *args)
        w = weights(np.shape(out), np.asarray(out).dtype)
        got = pull(w)
        value, want = vjp(oracle, theirs, args, w)
    np.testing.assert_allclose(out, value, rtol=value_rtol, atol=value_rtol)
    close(got, want, rtol, "gradient")


def elementwise(name, which, module, vjp, theirs, args):
    listed = DIFFERENT.get((name, which))
    if listed is None:
        agree(getattr(np, name), theirs, module, vjp, args)
        return
    # away from the points where they differ they must agree too: drop zeros and ties
    keep = np.all([a != 0 for a in args], axis=0)
    if len(args) == 2:
        keep &= (args[0] != args[1]) & (np.abs(args[0]) != np.abs(args[1])) & (args[0] > 0) & (args[1] > 0)
    if which == "torch" and name == "floor_divide":
        return
    agree(getattr(np, name), theirs, module, vjp, [a[keep] for a in args])


def pairs(name):
    x, y = (a.ravel() for a in np.meshgrid(POINTS, POINTS))
    if name in ("power", "float_power"):
        keep = (x > 0) | ((x == 0) & (y > 1))
    elif name in ("divide", "remainder", "fmod", "floor_divide"):
        keep = y != 0
        if name != "divide":
            keep &= np.mod(x, np.where(y == 0, 1, y)) != 0
    else:
        keep = np.ones(x.shape, bool)
    return x[keep], y[keep]


@pytest.mark.parametrize("name", UNARY)
def test_unary_jax(name, jax):
    elementwise(name, "jax", jax, jax_vjp, getattr(jax.numpy, name), [UNARY[name][0]])


@pytest.mark.parametrize("name", [n for n in UNARY if UNARY[n][1]])
def test_unary_torch(name, torch):
    elementwise(name, "torch", torch, torch_vjp, getattr(torch, UNARY[name][1]), [UNARY[name][0]])


@pytest.mark.parametrize("name", BINARY)
def test_binary_jax(name, jax):
    elementwise(name, "jax", jax, jax_vjp, getattr(jax.numpy, name), list(pairs(name)))


@pytest.mark.parametrize("name", BINARY)
def test_binary_torch(name, torch):
    elementwise(name, "torch", torch, torch_vjp, getattr(torch, BINARY[name]), list(pairs(name)))


COMPLEX = "sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh exp expm1 log log10 log1p sqrt square reciprocal negative absolute conjugate real imag".split()
TORCH_COMPLEX = {"conjugate": "conj_physical", "real": "real", "imag": "imag"}
Z = np.array([0.3 + 0.4j, -0.6 + 0.2j, 0.5 - 0.7j, -0.2 - 0.3j])


@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_complex_jax(name, dtype, jax):
    rtol = 1e-9 if dtype is np.complex128 else 2e-5
    z = Z[Z.real > 0] if name == "arccosh" else Z  # jax's has the derivative of another branch: -1/sqrt(z*z - 1)
    agree(getattr(np, name), getattr(jax.numpy, name), jax, jax_vjp, [z.astype(dtype)], rtol, rtol)


@pytest.mark.parametrize("name", [n for n in COMPLEX if n != "expm1"])
def test_complex_torch(name, torch):
    agree(getattr(np, name), getattr(torch, TORCH_COMPLEX.get(name, name)), torch, torch_vjp, [Z])


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "power"])
@pytest.mark.parametrize("mixed", [False, True])
def test_complex_binary(name, mixed, jax, torch):
    args = [Z, np.array([1.5, 0.7, 2.0, 0.3]) if mixed else Z[::-1] * 1.3 + 0.5]
    agree(getattr(np, name), getattr(jax.numpy, name), jax, jax_vjp, args)
    agree(getattr(np, name), getattr(torch, BINARY[name]), torch, torch_vjp, args)


@pytest.mark.parametrize("name", ["sin", "exp", "tanh", "sqrt", "log", "power", "maximum", "divide", "hypot"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_low_precision(name, dtype, jax):
    args = [np.array([0.3, 0.7, 1.9], dtype), np.array([1.1, 0.4, 0.9], dtype)][: 1 if name in UNARY else 2]
    rtol = 1e-5 if dtype is np.float32 else 5e-3
    agree(getattr(np, name), getattr(jax.numpy, name), jax, jax_vjp, args, rtol, rtol)
    for g, a in zip(ft.vjp(getattr(np, name), *args)[1](np.ones(3, dtype)), args):
        assert g.dtype == dtype and g.shape == a.shape


# Functions of arrays: `m` is NumPy or jax.numpy, and for PyTorch the second of the two


M34 = np.random.default_rng(1).normal(size=(3, 4))
M43 = np.random.default_rng(2).normal(size=(4, 3))
SQ = np.random.default_rng(3).normal(size=(3, 3)) + 2 * np.eye(3)
SPD = SQ @ SQ.T + np.eye(3)
TIES = np.array([[1.0, 2.0, 2.0, 0.0], [3.0, 3.0, 3.0, 3.0], [0.0, -1.0, 0.0, -1.0]])
ZEROS = np.array([[1.0, 0.0, 2.0, 3.0], [0.0, 0.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0]])

ARRAYS = {
    "sum": (lambda m, x: m.sum(x, axis=1), lambda t, x: x.sum(1), [M34]),
    "mean": (lambda m, x: m.mean(x, axis=0), lambda t, x: x.mean(0), [M34]),
    "max": (lambda m, x: m.max(x, axis=1), lambda t, x: t.amax(x, 1), [M34]),
    "max, ties": (lambda m, x: m.max(x, axis=1), lambda t, x: t.amax(x, 1), [TIES]),
    "min, ties": (lambda m, x: m.min(x, axis=1), lambda t, x: t.amin(x, 1), [TIES]),
    "prod": (lambda m, x: m.prod(x, axis=1), lambda t, x: x.prod(1), [M34]),
    "prod, zeros": (lambda m, x: m.prod(x, axis=1), lambda t, x: x.prod(1), [ZEROS]),
    "cumsum": (lambda m, x: m.cumsum(x, axis=1), lambda t, x: x.cumsum(1), [M34]),
    "cumprod": (lambda m, x: m.cumprod(x, axis=1), lambda t, x: x.cumprod(1), [M34]),
    "cumprod, zeros": (lambda m, x: m.cumprod(x, axis=1), lambda t, x: x.cumprod(1), [ZEROS]),
    "var": (lambda m, x: m.var(x, axis=1, ddof=1), lambda t, x: x.var(1), [M34]),
    "std": (lambda m, x: m.std(x, axis=1, ddof=1), lambda t, x: x.std(1), [M34]),
    "sort": (lambda m, x: m.sort(x, axis=1), lambda t, x: x.sort(1).values, [M34]),
    "sort, ties": (lambda m, x: m.sort(x, axis=1), lambda t, x: x.sort(dim=1, stable=True).values, [TIES]),
    "clip": (lambda m, x: m.clip(x, -0.5, 0.5), lambda t, x: x.clip(-0.5, 0.5), [M34]),
    "where": (lambda m, x: m.where(m.sign(x) > 0, x * x, -x), lambda t, x: t.where(t.sign(x) > 0, x * x, -x), [M34]),
    "indexing": (lambda m, x: x[np.array([0, 0, 2]), 1:], lambda t, x: x[[0, 0, 2], 1:], [M34]),
    "diagonal": (lambda m, x: m.diagonal(x), lambda t, x: x.diagonal(), [SQ]),
    "trace": (lambda m, x: m.trace(x), lambda t, x: x.trace(), [SQ]),
    "matmul": (lambda m, x, y: m.matmul(x, y), lambda t, x, y: x @ y, [M34, M43]),
    "matmul, vectors": (lambda m, x, y: m.matmul(x, y), lambda t, x, y: x @ y, [M34[0], M43[:, 0]]),
    "dot": (lambda m, x, y: m.dot(x, y), lambda t, x, y: x @ y, [M34, M43]),
    "outer": (lambda m, x, y: m.outer(x, y), lambda t, x, y: t.outer(x, y), [M34[0], M43[0]]),
    "tensordot": (lambda m, x, y: m.tensordot(x, y, axes=([0], [1])), lambda t, x, y: t.tensordot(x, y, dims=([0], [1])), [M34, M43]),
    "einsum": (lambda m, x, y: m.einsum("ij,jk->ki", x, y), lambda t, x, y: t.einsum("ij,jk->ki", x, y), [M34, M43]),
    "kron": (lambda m, x, y: m.kron(x, y), lambda t, x, y: t.kron(x, y), [SQ, M34]),
    "concatenate": (lambda m, x, y: m.concatenate([x, y.T]), lambda t, x, y: t.cat([x, y.T]), [M34, M43]),
    "stack": (lambda m, x, y: m.stack([x, y.T], axis=1), lambda t, x, y: t.stack([x, y.T], 1), [M34, M43]),
    "norm": (lambda m, x: m.linalg.norm(x, axis=1), lambda t, x: t.linalg.norm(x, dim=1), [M34]),
    "norm, all": (lambda m, x: m.linalg.norm(x), lambda t, x: t.linalg.norm(x), [M34]),
    "inv": (lambda m, x: m.linalg.inv(x), lambda t, x: t.linalg.inv(x), [SQ]),
    "det": (lambda m, x: m.linalg.det(x), lambda t, x: t.linalg.det(x), [SQ]),
    "slogdet": (lambda m, x: m.linalg.slogdet(x)[1], lambda t, x: t.linalg.slogdet(x)[1], [SQ]),
    "solve": (lambda m, x, y: m.linalg.solve(x, y), lambda t, x, y: t.linalg.solve(x, y), [SQ, M34]),
    "solve, a vector": (lambda m, x, y: m.linalg.solve(x, y), lambda t, x, y: t.linalg.solve(x, y), [SQ, M43[0]]),
    "cholesky": (lambda m, x: m.linalg.cholesky((x + m.swapaxes(x, 0, 1)) / 2), lambda t, x: t.linalg.cholesky((x + x.T) / 2), [SPD]),
    "eigvalsh": (lambda m, x: m.linalg.eigvalsh((x + m.swapaxes(x, 0, 1)) / 2), lambda t, x: t.linalg.eigvalsh((x + x.T) / 2), [SPD]),
    "eigh": (lambda m, x: m.abs(m.linalg.eigh((x + m.swapaxes(x, 0, 1)) / 2)[1]), lambda t, x: t.linalg.eigh((x + x.T) / 2)[1].abs(), [SPD]),
    "svdvals": (lambda m, x: m.linalg.svd(x, compute_uv=False), lambda t, x: t.linalg.svdvals(x), [M34]),
    "svd": (lambda m, x: m.abs(m.linalg.svd(x, full_matrices=False)[0]), lambda t, x: t.linalg.svd(x, full_matrices=False)[0].abs(), [M34]),
    "qr": (lambda m, x: m.abs(m.linalg.qr(x)[1]), lambda t, x: t.linalg.qr(x)[1].abs(), [M43]),
}  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_jax(name, jax):
    f, _, args = ARRAYS[name]
    agree(lambda *xs: f(np, *xs), lambda *xs: f(jax.numpy, *xs), jax, jax_vjp, args, 1e-7)


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_torch(name, torch):
    f, theirs, args = ARRAYS[name]
    agree(lambda *xs: f(np, *xs), lambda *xs: theirs(torch, *xs), torch, torch_vjp, args, 1e-7)


@pytest.mark.parametrize("name", ["matmul", "solve", "inv", "det", "einsum", "prod", "cumprod", "sum", "mean", "tensordot", "outer"])
def test_complex_arrays(name, jax, torch):
    f, theirs, args = ARRAYS[name]
    args = [a + 0.3j * np.roll(a, 1, -1) for a in args]
    agree(lambda *xs: f(np, *xs), lambda *xs: f(jax.numpy, *xs), jax, jax_vjp, args, 1e-7)
    agree(lambda *xs: f(np, *xs), lambda *xs: theirs(torch, *xs), torch, torch_vjp, args, 1e-7)


def test_differences_that_are_listed_are_real(jax, torch):
    """A reason that has become untrue must go from the list."""
    stale = []
    for (name, which), reason in DIFFERENT.items():
        args = [UNARY[name][0]] if name in UNARY else list(pairs(name))
        module, vjp = (jax, jax_vjp) if which == "jax" else (torch, torch_vjp)
        theirs = getattr(
            jax.numpy if which == "jax" else torch, name if which == "jax" else (BINARY | {k: v[1] for k, v in UNARY.items()})[name]
        )
        try:
            agree(getattr(np, name), theirs, module, vjp, args)
        except (AssertionError, RuntimeError, NotImplementedError):
            continue
        stale.append((name, which, reason))
    assert not stale, stale


# Transforms: the same program under both


def test_transforms_jax(jax):
    def f(m, x, w):
        return m.sum(m.tanh(w @ x) ** 2) + m.prod(m.sin(x)) * m.sum(w[0] * x)

    x, w = M34[0, :3], SQ
    ours, theirs = (lambda x, w: f(np, x, w)), (lambda x, w: f(jax.numpy, x, w))
    for get in (
        lambda t, g: lambda x, w: t.hessian(g)(x, w),
        lambda t, g: lambda x, w: t.jvp(t.grad(g), (x, w), (w[0], w @ w))[1],
        lambda t, g: lambda x, w: t.vmap(t.grad(g, 1), (0, None))(w * 0.5, w),
        lambda t, g: lambda x, w: t.grad(lambda x: t.vmap(lambda y: g(x * y, w))(w[:2]).sum())(x),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.testing.assert_allclose(get(ft, ours)(x, w), np.asarray(jax.jit(get(jax, theirs))(x, w)), rtol=1e-9, atol=1e-11)


def test_transforms_torch(torch):
    def f(m, x, w):
        return m.sum(m.tanh(w @ x) ** 2) + m.prod(m.sin(x)) * m.sum(w[0] * x)

    x, w = M34[0, :3], SQ
    h = ft.hessian(lambda x: f(np, x, w))(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = torch.func.hessian(lambda x: f(torch, x, torch.tensor(w)))(torch.tensor(x))
    np.testing.assert_allclose(h, want.numpy(), rtol=1e-9, atol=1e-11)
