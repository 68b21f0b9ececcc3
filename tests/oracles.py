"""PyTorch and JAX as oracles: how they spell what the declarations declare, and one call of a function under each."""

import importlib
import types
import warnings

import numpy as np

import functrace as ft
from functrace import tree
from functrace.ops.registry import Sample

# What NumPy's and SciPy's functions are called in PyTorch, where it is another name for the same call; and JAX's keywords.
TORCH_NAMES = {
    "power": "pow", "conjugate": "conj_physical", "radians": "deg2rad", "degrees": "rad2deg", "fabs": "abs", "rint": "round", "around": "round",
    "expand_dims": "unsqueeze", "cumulative_sum": "cumsum", "cumulative_prod": "cumprod", "unstack": "unbind", "take_along_axis": "take_along_dim",
    "invert": "bitwise_not", "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift", "array_equal": "equal", "equal": "eq",
    "matvec": "mv", "max": "amax", "min": "amin", "vecdot": "linalg.vecdot", "linalg.outer": "outer",
    "linalg.tensordot": "tensordot", "scipy.special.j0": "special.bessel_j0",
    "scipy.special.j1": "special.bessel_j1", "scipy.special.y0": "special.bessel_y0", "scipy.special.y1": "special.bessel_y1",
    "scipy.special.k0": "special.modified_bessel_k0", "scipy.special.k1": "special.modified_bessel_k1",
    "scipy.special.k0e": "special.scaled_modified_bessel_k0", "scipy.special.k1e": "special.scaled_modified_bessel_k1",
    "scipy.special.loggamma": "special.gammaln", "scipy.special.log_expit": "nn.functional.logsigmoid",
}  # fmt: skip
KEYWORDS = {
    "jax": {"clip": {"a_min": "min", "a_max": "max"}},
    "torch": {
        "broadcast_to": {"shape": "size"}, "swapaxes": {"axis1": "axis0", "axis2": "axis1"}, "rot90": {"axes": "dims"}, "roll": {"shift": "shifts", "axis": "dims"},
        "diagonal": {"axis1": "dim1", "axis2": "dim2"}, "clip": {"a_min": "min", "a_max": "max"}, "tensordot": {"axes": "dims"}, "var": {"ddof": "correction"},
        "std": {"ddof": "correction"}, "cov": {"ddof": "correction"}, "linspace": {"num": "steps"}, "logspace": {"num": "steps"},
        "quantile": {"method": "interpolation"}, "nanquantile": {"method": "interpolation"}, "fftshift": {"axes": "dim"}, "ifftshift": {"axes": "dim"},
        **{name: {"k": "diagonal"} for name in ("diag", "diagflat", "tril", "triu")},
        **{f"{i}{r}fft{n}": {"axes": "dim"} for i in ("", "i") for r in ("", "r", "h") for n in ("2", "n")},
    },
}  # fmt: skip


def _sections(split):
    return lambda x, indices_or_sections, axis=0: split(x, indices_or_sections, axis)


def _flat(function):
    """NumPy's default `axis=None`, which PyTorch has not."""
    return lambda x, axis=None, **kwargs: function(x.ravel() if axis is None else x, axis=axis or 0, **kwargs)


def _tuple(x):
    return x if isinstance(x, tuple) else (x,)


def torch_calls(t):
    """Functions of PyTorch that take the same arguments in another form, by the names of the declarations."""
    split = _sections(t.tensor_split)

    def uplo(lower):
        return "L" if lower else "U"

    def transpose(x, axes=None):
        return t.permute(x, tuple(range(x.ndim))[::-1] if axes is None else axes)

    def spread(function):
        return lambda x, **kwargs: function(x, **{"correction": 0, **kwargs})

    def svd(x, full_matrices=True, compute_uv=True):
        return t.linalg.svd(x, full_matrices) if compute_uv else t.linalg.svdvals(x)

    def qr(x, mode="reduced"):
        return t.linalg.qr(x, {"economic": "reduced", "full": "complete"}.get(mode, mode))[mode == "r" :]

    def triangular(a, b, *, lower=False, unit_diagonal=False):
        out = t.linalg.solve_triangular(a, b[:, None] if b.ndim == 1 else b, upper=not lower, unitriangular=unit_diagonal)
        return out[:, 0] if b.ndim == 1 else out

    def logsumexp(x, axis=None, **kwargs):
        return t.logsumexp(x, tuple(range(x.ndim)) if axis is None else axis, **kwargs)

    def histogramdd(x, bins, range, density, weights):
        bins = [bins] * x.shape[1] if isinstance(bins, int) else list(bins)
        return t.histogramdd(x, bins, range=range and flat(range), weight=weights, density=bool(density))

    return {
        "histogramdd": histogramdd,
        "transpose": transpose,
        "reshape": lambda x, shape: t.reshape(x, _tuple(shape)),
        "flip": lambda x, axis=None: t.flip(x, tuple(range(x.ndim)) if axis is None else _tuple(axis)),
        "tile": lambda x, reps: t.tile(x, _tuple(reps)),
        "repeat": lambda x, repeats, axis=None: t.repeat_interleave(x, t.as_tensor(repeats), axis),
        "meshgrid": lambda *xs, indexing="xy": t.meshgrid(*xs, indexing=indexing),
        "matrix_transpose": lambda x: x.mT,
        "linalg.matrix_transpose": lambda x: x.mT,
        "nonzero": lambda x: t.nonzero(x, as_tuple=True),
        "cumsum": _flat(t.cumsum),
        "cumprod": _flat(t.cumprod),
        "cumulative_sum": _flat(t.cumsum),
        "cumulative_prod": _flat(t.cumprod),
        "sort": lambda x, **kwargs: t.sort(x, **{"stable": True, **kwargs})[0],
        "median": lambda x, **kwargs: t.median(x, **kwargs)[0] if kwargs else t.median(x),
        "nanmedian": lambda x, **kwargs: t.nanmedian(x, **kwargs)[0] if kwargs else t.nanmedian(x),
        "gradient": lambda x, *spacing, axis=None, **kwargs: t.gradient(
            x, spacing=spacing or 1, **({} if axis is None else {"dim": axis}), **kwargs
        ),
        "linspace": lambda a, b, steps: t.linspace(a, b, steps, dtype=t.float64),
        "logspace": lambda a, b, steps, base=10.0: t.logspace(a, b, steps, base, dtype=t.float64),
        "full": lambda shape, x: t.full(shape, x, dtype=t.float64),
        "take": lambda x, indices: t.take(x, t.as_tensor(indices)),
        "split": split,
        "array_split": split,
        "vsplit": _sections(lambda x, at, axis: t.vsplit(x, at)),
        "hsplit": _sections(lambda x, at, axis: t.hsplit(x, at)),
        "dsplit": _sections(lambda x, at, axis: t.dsplit(x, at)),
        "var": spread(t.var),
        "std": spread(t.std),
        "einsum": lambda *args, optimize=None: t.einsum(*args),
        "linalg.svd": svd,
        "scipy.linalg.svd": svd,
        "linalg.qr": qr,
        "scipy.linalg.qr": lambda x, mode="full": qr(x, "complete")[1:] if mode == "r" else qr(x, mode),
        "linalg.lstsq": lambda a, b, rcond=None: t.linalg.lstsq(a, b, rcond=rcond, driver="gelsd"),
        "scipy.linalg.lstsq": lambda a, b: t.linalg.lstsq(a, b, driver="gelsd"),
        "scipy.linalg.cholesky": lambda a, *, lower=False: t.linalg.cholesky(a, upper=not lower),
        "scipy.linalg.eigh": lambda a, *, lower=True, eigvals_only=False: (t.linalg.eigvalsh if eigvals_only else t.linalg.eigh)(
            a, uplo(lower)
        ),
        "scipy.linalg.eigvalsh": lambda a, *, lower=True: t.linalg.eigvalsh(a, uplo(lower)),
        "scipy.linalg.solve_triangular": triangular,
        "scipy.linalg.lu_solve": lambda factors, b, trans=0: t.linalg.lu_solve(factors[0], factors[1] + 1, b, adjoint=trans > 0),
        "scipy.special.logsumexp": logsumexp,
        "scipy.special.polygamma": lambda n, x: t.special.polygamma(int(n), x),
    }


# How results are compared that are fixed up to signs, phases or the unused triangle of an argument only


def _products(v):
    """Columns of matrices times their own conjugates: what does not depend on their phases."""
    return v[..., :, None, :] * v[..., None, :, :].conj()


def _svd(out):
    return out if len(out) == 1 else [_products(out[0]), out[1], _products(out[2].swapaxes(-1, -2))]


def _vectors(out):
    return out if len(out) == 1 else [out[0], _products(out[1])]


AFTER = {
    **dict.fromkeys(("linalg.eigh", "linalg.eig", "scipy.linalg.eigh", "scipy.linalg.eig", "scipy.linalg.eigh_tridiagonal"), _vectors),
    **dict.fromkeys(("linalg.svd", "scipy.linalg.svd"), _svd),
}


def symmetric(x):
    return (x + x.swapaxes(-1, -2).conj()) / 2 if x.ndim > 1 and x.shape[-1] == x.shape[-2] else x


def same(x):
    return x


def first(out):
    return out[:1]


# How those are compared that are listed to differ: at symmetric matrices, or in the first result
AGREED = {
    **dict.fromkeys(("linalg.cholesky", "linalg.eigh", "linalg.eigvalsh", "linalg.svd", ("linalg.pinv", "hermitian")), (symmetric, same)),
    **dict.fromkeys((f"scipy.linalg.{name}" for name in ("solve", "cholesky", "eigh", "eigvalsh")), (symmetric, same)),
    **dict.fromkeys((f"scipy.stats.multivariate_normal.{name}" for name in ("pdf", "logpdf")), (symmetric, same)),
    **dict.fromkeys(("linalg.lstsq", "scipy.linalg.lstsq", "scipy.linalg.lu_factor"), (same, first)),
}


# One call


def flat(x):
    return [leaf for item in x for leaf in flat(item)] if isinstance(x, (list, tuple)) else [x]


def inexact(x):
    return np.asarray(ft.value(x)).dtype.kind in "fc"


def _float(x):
    return tree.map(lambda a: np.asarray(a) if inexact(a) else np.asarray(a, float), x)


def weights(x):
    """A cotangent for an output: different numbers everywhere."""
    w = np.cos(np.arange(x.size)).reshape(x.shape)
    return (w + 0.5j * w[..., ::-1] if x.dtype.kind == "c" and x.ndim else w * (1 + 0.5j) if x.dtype.kind == "c" else w).astype(x.dtype)


class Case:
    """A call, what it gives here, and its cotangents: `weights`, `gradients` are None where there is nothing to differentiate."""

    def __init__(self, declared, sample, args, before=same, after=same):
        self.args, self.kwargs, self.wrt, self.before = args, sample.kwargs, sample.wrt, before
        gauge = AFTER.get(declared.name, same)
        self.after = lambda out: after(gauge(out))
        self.leaves, self.tree = tree.flatten([_float(args[k]) for k in sample.wrt])
        self.gradients = None
        program, out = self.program(declared.function), []

        def floats(*xs):
            out[:] = program(*xs)
            return [y for y in out if inexact(y)]

        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if declared.constant or not sample.wrt:
                floats(*self.leaves)
                self.weights = None
            else:
                _, pull = ft.vjp(floats, *self.leaves)
                self.weights = [weights(np.asarray(ft.value(y))) if inexact(y) else None for y in out]
                self.gradients = [np.asarray(g) for g in pull([w for w in self.weights if w is not None])]
        self.values = [np.asarray(ft.value(y)) for y in out]

    def program(self, function, theirs=same, kwargs=None):
        """The call as a function of the arrays that it is differentiated by; `theirs` makes the other arguments the oracle's."""
        kwargs = self.kwargs if kwargs is None else kwargs

        def run(*xs):
            args = [theirs(a) for a in self.args]
            for k, x in zip(self.wrt, tree.unflatten(self.tree, [self.before(x) for x in xs])):
                args[k] = x
            return self.after(flat(function(*args, **{key: theirs(a) for key, a in kwargs.items()})))

        return run

    def differs(self, values, gradients, rtol, atol):
        """What differs from an oracle's answer, or ''."""
        if len(values) != len(self.values):
            return f"value: {len(values)} results, ours {len(self.values)}"
        for what, got, want in (("value", self.values, values), ("gradient", self.gradients, gradients)):
            for k, (a, b) in enumerate(zip(got or (), want or ())):
                if a.shape != b.shape:
                    return f"{what} {k} has shape {b.shape}, ours {a.shape}"
                if not (np.allclose(a, b, rtol, atol, equal_nan=True) if a.dtype.kind in "fciub" else np.array_equal(a, b)):
                    return f"{what} {k} is {b}, ours {a}"
        return ""


def _found(root, path):
    for name in path.split("."):
        if isinstance(root, types.ModuleType) and not hasattr(root, name):
            try:
                importlib.import_module(f"{root.__name__}.{name}")
            except ImportError:
                return None
        root = getattr(root, name, None)
    return root


class Jax:
    """JAX, compiled as quickly as it can: the programs run once."""

    name, refuses = "jax", (TypeError, ValueError, NotImplementedError, IndexError)
    quick = {
        "xla_cpu_use_fusion_emitters": False,
        "xla_backend_optimization_level": 0,
        "xla_llvm_disable_expensive_passes": True,
        "xla_cpu_parallel_codegen_split_count": 1,
    }

    def __init__(self, module):
        self.jax = module
        weighted = {"histogram": 3, "histogramdd": 3, "histogram2d": 4}  # NumPy has the density before the weights
        self.calls = {name: self._weighted(getattr(module.numpy, name), n) for name, n in weighted.items()}
        try:
            module.jit(lambda x: x).lower(1.0).compile(compiler_options=self.quick)
        except Exception:
            self.quick = {}  # another version's options

    @staticmethod
    def _weighted(function, n):
        return lambda *args, **kwargs: function(*args[:n], **dict(zip(("density", "weights"), args[n:])), **kwargs)

    def find(self, name):
        return self.calls.get(name) or _found(self.jax if name.startswith("scipy.") else self.jax.numpy, name)

    def run(self, name, case):
        """Values, and cotangents or None. Raises one of `refuses` if the call is none of JAX's."""
        function, words = self.find(name), KEYWORDS["jax"].get(name, {})
        kwargs = {words.get(key, key): a for key, a in case.kwargs.items()}
        try:
            return self._run(case.program(function, self.functions, kwargs), case)
        except TypeError:  # JAX takes no lists
            return self._run(case.program(function, self.arrays, kwargs), case)

    def functions(self, x):
        """NumPy's functions as JAX's."""
        if isinstance(x, list) and any(map(callable, x)):
            return [self.functions(y) for y in x]
        return getattr(self.jax.numpy, x.__name__, x) if callable(x) and hasattr(x, "__name__") else x

    def arrays(self, x):
        numbers = isinstance(x, list) and x and all(isinstance(y, (bool, int, float)) for y in x)
        return np.asarray(x) if numbers else self.functions(x)

    def _run(self, program, case):
        jax = self.jax

        def floats(*xs):
            out = [y if hasattr(y, "dtype") else np.asarray(y) for y in program(*xs)]
            return [y for y in out if np.dtype(y.dtype).kind in "fc"], out

        def whole(xs, ws):
            if ws is None:
                return floats(*xs)[1], None
            _, pull, out = jax.vjp(floats, *xs, has_aux=True)
            if len(out) != len(ws):
                return out, None
            pairs = [(y, w) for y, w in zip(out, ws) if np.dtype(y.dtype).kind in "fc"]
            if any(w is not None and w.shape != y.shape for y, w in pairs):
                return out, None
            return out, pull([jax.numpy.zeros_like(y) if w is None else jax.numpy.asarray(w, y.dtype) for y, w in pairs])

        def compiled(ws):
            return jax.jit(whole).lower(xs, ws).compile(compiler_options=self.quick)(xs, ws)

        xs = [jax.numpy.asarray(x) for x in case.leaves]
        try:
            out, grads = compiled(case.weights)
        except (jax.errors.JAXTypeError, jax.errors.JAXIndexError):  # shapes that depend on values
            out, grads = whole(xs, case.weights)
        except self.refuses:  # no derivative
            if case.weights is None:
                raise
            out, grads = compiled(None)
        return [np.asarray(y) for y in out], grads and [np.asarray(g) for g in grads]


class Torch:
    """PyTorch. Its cotangents are conjugated to JAX's convention, and ours."""

    name, refuses = "torch", (TypeError, ValueError, NotImplementedError, RuntimeError, IndexError)

    def __init__(self, module):
        self.torch, self.calls = module, torch_calls(module)
        self.dtypes = {float: module.float64, np.float64: module.float64, np.float32: module.float32}

    def find(self, name):
        if name in self.calls and not name.startswith("scipy."):
            return self.calls[name]
        path = TORCH_NAMES.get(name, name.removeprefix("scipy."))
        return self.calls.get(name) or _found(self.torch, path)

    def tensors(self, x):
        if isinstance(x, (np.ndarray, np.generic)):
            return self.torch.tensor(np.asarray(x))
        if isinstance(x, type):
            return self.dtypes.get(x, x)
        if isinstance(x, (list, tuple)) and any(isinstance(y, (np.ndarray, np.generic, list)) for y in x):
            return type(x)(self.tensors(y) for y in x)
        return x

    def run(self, name, case):
        """Values, and cotangents or None. Raises one of `refuses` if the call is none of PyTorch's."""
        words = KEYWORDS["torch"].get(name.split(".")[-1], {})
        program = case.program(self.find(name), self.tensors, {words.get(key, key): a for key, a in case.kwargs.items()})
        try:
            return self._run(program, case, case.weights)
        except self.refuses:
            return self._run(program, case, None)

    def _run(self, program, case, ws):
        torch = self.torch
        xs = [torch.tensor(np.array(x), requires_grad=ws is not None) for x in case.leaves]
        out = [y if isinstance(y, torch.Tensor) else torch.tensor(y) for y in program(*xs)]
        values = [y.detach().resolve_conj().resolve_neg().numpy() for y in out]
        if ws is None or len(out) != len(ws):
            return values, None
        pairs = [(y, torch.tensor(np.conj(w), dtype=y.dtype)) for y, w in zip(out, ws) if w is not None and y.requires_grad]
        if not pairs or any(w.shape != y.shape for y, w in pairs):
            return values, None
        grads = torch.autograd.grad([y for y, _ in pairs], xs, [w for _, w in pairs], allow_unused=True)
        return values, [
            np.zeros_like(x) if g is None else np.conj(g.resolve_conj().resolve_neg().numpy()) for g, x in zip(grads, case.leaves)
        ]


# Calls that the declarations' samples don't make

Z = np.array([0.3 + 0.4j, -0.6 + 0.2j, 0.5 - 0.7j, -0.2 - 0.3j])
POINTS = np.array([-2.5, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1.0, 1.5, 2.5])
WIDE = np.concatenate([POINTS, [-40.0, -6.0, -1e-8, 1e-8, 6.0, 40.0]])
POSITIVE, UNIT = WIDE[WIDE >= 0], np.array([-1.0, -0.9, -0.5, 0.0, 0.3, 0.9, 1.0])
FIRST, SECOND = (a.ravel() for a in np.meshgrid(POINTS, POINTS))
_apart = (SECOND != 0) & (np.mod(FIRST, np.where(SECOND == 0, 1, SECOND)) != 0)  # where a remainder does not jump
_powers = (FIRST > 0) | ((FIRST == 0) & (SECOND > 1))
TIES = np.array([[1.0, 2.0, 2.0, 0.0], [3.0, 3.0, 3.0, 3.0], [0.0, -1.0, 0.0, -1.0]])
ZEROS = np.array([[1.0, 0.0, 2.0, 3.0], [0.0, 0.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0]])
HOLES = np.array([[1.0, np.nan, 3.0, 3.0], [np.nan, np.nan, 2.0, np.nan], [0.0, 2.0, 0.0, 5.0]])
NONE = np.full((2, 3), -np.inf)
SUPPORT = np.array([-1.0, 0.0, 0.3, 1.0, 2.0])
EQUAL = np.diag([2.0, 2.0, 1.0])


def _at(*args, **kwargs):
    return Sample(lambda rng: args, kwargs, tuple(range(len(args))))


_EVERYWHERE = """sin cos arctan sinh cosh tanh arcsinh exp exp2 expm1 square negative positive absolute fabs deg2rad rad2deg sinc sign floor ceil
    trunc rint real angle i0 cbrt reciprocal scipy.special.i0 scipy.special.i0e scipy.special.i1 scipy.special.i1e scipy.special.erf
    scipy.special.erfc scipy.special.erfcx scipy.special.ndtr scipy.special.log_ndtr scipy.special.expit scipy.special.dawsn""".split()
_PAIRS = """add subtract multiply maximum minimum fmax fmin hypot arctan2 logaddexp logaddexp2 copysign""".split()
KINKS = {
    **{name: [_at(WIDE)] for name in _EVERYWHERE},
    **{name: [_at(POSITIVE)] for name in ("log", "log2", "log10", "log1p", "sqrt", "scipy.special.entr")},
    **{name: [_at(UNIT)] for name in ("tan", "arcsin", "arccos", "arctanh", "scipy.special.erfinv")},
    **{name: [_at((UNIT + 1) / 2)] for name in ("scipy.special.logit", "scipy.special.ndtri")},
    **{name: [_at(FIRST, SECOND)] for name in _PAIRS},
    **{name: [_at(FIRST[_apart], SECOND[_apart])] for name in ("divide", "remainder", "fmod", "divmod")},
    **{name: [_at(FIRST[_powers], SECOND[_powers])] for name in ("power", "float_power")},
    **{name: [_at(TIES, axis=1)] for name in ("max", "min", "sort", "median", "ptp", "nanmax", "nanmin", "nanmedian", "cumsum")},
    **{f"{name}.accumulate": [_at(TIES, axis=1)] for name in ("maximum", "minimum")},
    **{f"{name}.reduce": [_at(TIES, axis=1)] for name in ("maximum", "minimum")},
    **{name: [_at(ZEROS, axis=1)] for name in ("prod", "cumprod", "nanprod", "nancumprod", "multiply.reduce", "multiply.accumulate")},
    **{name: [_at(TIES, axis=1)] for name in ("var", "std")},
    **{name: [_at(HOLES, axis=1)] for name in ("nansum", "nanmean", "nanvar", "nanstd", "nancumsum")},
    **{name: [_at(TIES, 0.4, axis=1), _at(TIES, 1 / 3, axis=1)] for name in ("quantile", "nanquantile")},
    "scipy.special.expi": [_at(POINTS)],
    "scipy.special.exp1": [_at(POINTS[POINTS >= 0])],
    "logaddexp.reduce": [_at(NONE), _at(np.array([-np.inf, 0.0, 1.0]))],
    "logaddexp": [_at(FIRST, SECOND), _at(np.array([-np.inf, -np.inf, 0.0]), np.array([-np.inf, 0.0, -np.inf]))],
    "clip": [_at(np.array([-0.5, 0.0, 0.5, 0.7]), a_min=-0.5, a_max=0.5), _at(POINTS, POINTS - 1.0, POINTS + 0.0)],
    "interp": [_at(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, -1.0]))],
    "nan_to_num": [_at(np.array([np.nan, np.inf, -np.inf, 1.0]))],
    "angle": [_at(POINTS), _at(np.array([0j, 1 + 0j, -1 + 0j]))],
    "absolute": [_at(POINTS), _at(np.array([0j, 3 + 4j]))],
    "linalg.norm": [_at(np.zeros(3)), _at(ZEROS * 0, axis=1), _at(np.zeros(3), ord=1), _at(np.zeros(3), ord=np.inf), _at(np.zeros(3), ord=3)]
    + [_at(TIES[0], ord=np.inf), _at(TIES[0], ord=-np.inf), _at(TIES, ord=1), _at(EQUAL, ord=2), _at(EQUAL, ord="nuc"), _at(np.zeros((2, 2)))],
    "linalg.eigvalsh": [_at(EQUAL)],
    "linalg.svdvals": [_at(EQUAL)],
    "linalg.det": [_at(np.zeros((2, 2)))],
    "linalg.matrix_power": [_at(np.zeros((2, 2)), n=2)],
    "scipy.special.logsumexp": [_at(NONE, axis=1), _at(np.array([[-np.inf, 0.0, 1.0]]), axis=1)],
    "scipy.special.softmax": [_at(np.array([[-np.inf, 0.0, 1.0]]), axis=1)],
    "scipy.special.log_softmax": [_at(np.array([[-1000.0, 0.0, 1.0]]), axis=1)],
    **{f"scipy.special.{name}": [_at(np.array([0.0, 0.0, 0.5]), np.array([0.0, 2.0, 0.0]))] for name in ("xlogy", "xlog1py", "rel_entr", "kl_div")},
    **{f"scipy.special.{name}": [_at(np.array([1.0, 2.5, 0.5]), np.array([0.0, 0.0, 0.0]))] for name in ("gammainc", "gammaincc", "boxcox1p")},
    **{f"scipy.stats.{name}.{f}": [_at(SUPPORT)] for name in ("expon", "uniform", "laplace") for f in ("pdf", "logpdf", "cdf")},
    **{f"scipy.stats.{name}.{f}": [_at(SUPPORT, np.array(2.5))] for name in ("gamma", "pareto", "chi2", "t") for f in ("pdf", "logpdf", "cdf")},
    **{f"scipy.stats.beta.{f}": [_at(SUPPORT, np.array(2.5), np.array(1.5))] for f in ("pdf", "logpdf", "cdf")},
}  # fmt: skip


def away(sample):
    """The points of an elementwise call that are no kink: no zeros, ones or ties, nothing infinite."""
    args = np.broadcast_arrays(*sample.args(None))
    keep = np.all([(np.abs(x) > 1e-6) & (x != 1) & np.isfinite(x) for x in args], axis=0) & (
        len(args) < 2 or np.abs(args[0]) != np.abs(args[-1])
    )
    return _at(*(x[keep] for x in args))


def _complex(x):
    return x + 0.3j * np.roll(x, 1, -1) if isinstance(x, np.ndarray) and x.ndim and x.dtype.kind == "f" else x


def complexes(declared):
    """A call with complex numbers, if NumPy or SciPy has it."""
    if not declared.samples or declared.constant or not declared.samples[0].wrt:
        return []
    sample, rng = declared.samples[0], np.random.default_rng(0)
    args = sample.args(rng)
    if declared.domain:
        args = [Z, Z[::-1] * 1.3 + 0.5, Z * 0.7 + 0.2][: len(args)]
    elif any(_complex(args[k]) is args[k] for k in sample.wrt):
        return []
    else:
        args = [_complex(x) if k in sample.wrt else x for k, x in enumerate(args)]
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            declared.function(*args, **sample.kwargs)
    except (TypeError, ValueError, np.exceptions.ComplexWarning):
        return []
    sample = sample._replace(args=lambda rng: tuple(args))
    try:
        Case(declared, sample, args)
    except ft.errors.FunctraceError:  # refused, in words
        return []
    return [sample]
