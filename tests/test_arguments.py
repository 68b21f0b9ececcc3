"""Random arguments for every declaration, with NumPy as the oracle: dtypes, layouts, shapes, and keywords in all their forms.

The samples of a declaration are changed at random. `FUNCTRACE_HYPOTHESIS=explore` draws many more.
"""

import inspect
import os
import warnings
import zlib

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace import errors, tree
from functrace.ops.registry import TABLE
from functrace.testing import numerical_jvp
from tests.helpers import of_numpy

CASES = 150 if os.environ.get("FUNCTRACE_HYPOTHESIS") == "explore" else 3
DTYPES = [*("f8",) * 9, "f4", "f4", "f2", "g", "c16", "c16", "c8", ">f8", "i8", "i2", "i1", "u1", "?"]
AXES = [None, 0, -1, 1, -2, 2, (0,), (-1,), (0, -1), (1, 0), (), np.int64(1), 5]
KINDS = [None, "f4", "f8", "c16", "i8", bool, np.float16, float, int, complex]
NUMBERS = [0.5, 2, -1.5, None, np.float32(1.25), np.inf, True, np.array(0.75), 0]
YES = [True, False]
KEYWORDS = {  # values of the parameters of these names
    "axis": AXES, "keepdims": YES, "dtype": KINDS, "initial": NUMBERS, "ddof": [0, 1, 2, 0.5, True], "correction": [0, 1, 0.5],
    "order": ["C", "F"], "casting": ["no", "equiv", "safe", "same_kind", "unsafe"], "side": ["left", "right"], "stable": [None, True],
    "kind": [None, "stable", "heapsort"], "returned": YES, "k": [0, 1, -1, 2, -5], "offset": [0, 1, -1, 3], "axis1": [0, 1, -1],
    "axis2": [0, 1, -2], "n": [0, 1, 2, 3, 5, -1], "edge_order": [1, 2], "nan": [0.0, 1.5, 7], "posinf": [None, 9.5],
    "decimals": [0, 1, -1, 3], "repeats": [0, 1, 2, [2]], "shift": [0, 1, -2, 7, (1, 2), [1]], "indices_or_sections": [1, 2, [1], [1, 2], (), [-1]],
    "return_index": YES, "return_inverse": YES, "return_counts": YES, "assume_unique": [False], "invert": YES, "dx": [1.0, 0.5, 2],
    "period": [None, 2.5], "rowvar": YES, "bias": YES, "UPLO": ["L", "U", "l"], "rcond": [None, 1e-10], "rtol": [None, 1e-10],
    "full_matrices": YES, "compute_uv": YES, "upper": YES, "ord": [None, 1, 2, -1, np.inf, -np.inf, "fro", "nuc", 3, 0, 0.5],
    "norm": [None, "ortho", "forward", "backward"], "s": [None, (3, 4), (2,), (5, -1)], "axes": [None, (0, 1), (-1,), (1, 0), (0,), 1, (2, 0, 1)],
    "density": [None, True], "optimize": [True, False, "greedy"], "indexing": ["xy", "ij"], "sparse": YES, "increasing": YES, "N": [None, 0, 1, 3],
    "num": [0, 1, 2, 5], "endpoint": YES, "retstep": YES, "base": [10.0, 2], "trim": ["f", "b", "fb"], "discont": [None, 2.0, 4.0],
    "source": [0, -1, (0, 1), [1]], "destination": [0, -1, (1, 0), [-1]], "start": [0, 1, -1], "include_initial": YES, "prepend": [0.5, 1],
    "append": [0.5, 1], "fill_value": [0.5, 2, True], "kth": [0, 1, -1, (0, 1)], "atol": [1e-8, 0.1], "minlength": [0, 5], "sorted": [True],
    "stat_length": [None, 1, (1, 2)], "reflect_type": ["even", "odd"], "window_shape": [1, 2, (2, 1)], "deg": YES, "equal_nan": YES,
    "left": [None, 0.25], "right": [None, 0.25], "to_end": [None, 1.5, [1.0, 2.0]], "to_begin": [None, 0.5],
}  # fmt: skip
METHODS = {
    name: ["inverted_cdf", "hazen", "linear", "lower", "nearest", "weibull"]
    for name in ("quantile", "percentile", "nanquantile", "nanpercentile")
}
MODES = {
    "pad": ["edge", "reflect", "symmetric", "wrap", "mean", "linear_ramp"],
    "take": ["raise", "wrap", "clip"],
    "correlate": ["full", "same"],
}
SKIPPED = {  # by their nature, or NumPy's
    "empty_like": "has no values",
    "may_share_memory": "of two traced values, which have no memory of their own that one could ask, it says True",
    "linalg.eig": "LAPACK orders and scales as it likes",
    "intersect1d": "equal elements, whose order a difference step changes",
    "setxor1d": "as intersect1d",
    "union1d": "as intersect1d",
    "histogramdd": "weights broadcast against no points",
    "histogram2d": "as histogramdd",
    **({} if np.lib.NumpyVersion(np.__version__) >= "2.3.0" else {"trim_zeros": "takes axes from NumPy 2.2 on, and wrong ones there"}),
}
LENIENT = {  # take what NumPy refuses
    **dict.fromkeys(("asarray", "asanyarray", "array"), "copy=False of a value that need not be copied"),
    **dict.fromkeys(
        ("logaddexp.reduce", "logaddexp.accumulate", "logaddexp2.reduce", "logaddexp2.accumulate", "hypot.reduce"), "dtype=int"
    ),
    **dict.fromkeys(("hypot.accumulate", "subtract.reduce", "subtract.accumulate"), "dtype=int or bool"),
    **dict.fromkeys(("corrcoef", "cov"), "dtype=int"),
    **dict.fromkeys(("cross", "linalg.cross", "linalg.vecdot"), "an axis in a tuple"),
    **dict.fromkeys(("polyfit", "polynomial.polynomial.polyfit", "linalg.lstsq"), "float16 beside a wider dtype"),
    **dict.fromkeys(("poly", "linalg.tensorinv"), "a scalar"),
    "cumulative_sum": "an axis in a tuple",
    "linalg.tensorsolve": "a negative axis",
    "gradient": "no axes",
    "correlate": "scalars",
    "linalg.pinv": "both rcond and rtol",
    "take_along_axis": "indices in a list",
    "roots": "a scalar",
    "linspace": "axis of scalars",
}


STRICT = {  # refuse what NumPy takes
    "unstack": "an axis in a tuple",
    "geomspace": "complex numbers to be made integers",
    "logspace": "as geomspace",
    "interp": "complex places with a period",
}
LOUD = (errors.UnsupportedError, errors.ArrayStoreError, errors.ConversionError)


def choice(rng, options):
    return options[rng.integers(len(options))]


def laid(rng, a):
    """The same array, lying otherwise in memory, or read-only."""
    ways = {
        "as it is": lambda: a,
        "of Fortran": lambda: np.asfortranarray(a),
        "backwards": lambda: np.array(a[(slice(None, None, -1),) * a.ndim])[(slice(None, None, -1),) * a.ndim],
        "with gaps": lambda: np.repeat(a, 2, -1)[..., ::2],
    }
    a = choice(rng, list(ways.values()))() if a.ndim else a
    if rng.random() < 0.2:
        a = a.copy("K")
        a.flags.writeable = False
    return a


def shaped(rng, a):
    """An array like `a` in another shape, of sizes 0 and 1, or with more axes or fewer."""
    ways = [lambda: a[None], lambda: a[..., None], lambda: np.stack([a, 1.07 * a + 0.013])]
    if a.ndim:
        ways += [lambda: a[:1], lambda: a[:0], lambda: a[..., :1], lambda: a[..., :0], lambda: a.reshape(-1)]
    if a.size:
        ways += [lambda: a.ravel()[0]]
    return np.asarray(choice(rng, ways)())


def cast(rng, a, dtype):
    """`a` in another dtype: of numbers made whole, or imaginary parts added."""
    dtype = np.dtype(dtype)
    if dtype.kind == "c" and a.dtype.kind != "c":
        return (a + 0.5j * rng.normal(size=a.shape)).astype(dtype)
    if a.dtype.kind == "c" and dtype.kind != "c":
        return a
    return a > 0 if dtype.kind == "b" else np.round(3 * a).astype(np.int64).astype(dtype) if dtype.kind in "iu" else a.astype(dtype)


def mask(rng, shape):
    m = rng.random(shape) > 0.3
    return choice(rng, [m, m[:1], m[-1] if len(shape) > 1 else m, True]) if shape else choice(rng, [True, np.array(True)])


class Call:
    """A call of a declared function, some of whose arguments are given later."""

    def __init__(self, name, seed):
        rng = self.rng = np.random.default_rng([zlib.crc32(name.encode()), seed])
        self.declared, self.name = TABLE[name], name
        self.theirs = self.declared.theirs if callable(self.declared.theirs) else self.declared.function
        sample = choice(rng, self.declared.samples)
        args, kwargs = sample.args(rng), dict(sample.kwargs)
        ufunc = isinstance(self.theirs, np.ufunc)
        signature = None if ufunc else parameters(self.theirs)
        shape = next((np.shape(x) for x in tree.leaves(args) if isinstance(x, np.ndarray)), ())
        names = ["casting", "dtype"] if ufunc else [p for p in signature or () if p in KEYWORDS or p in ("where", "method", "mode")]
        for key in rng.permutation(names)[: rng.integers(0, 4)].tolist():
            options = MODES.get(name) if key == "mode" else METHODS.get(name) if key == "method" else KEYWORDS.get(key)
            if key == "where":
                value = mask(rng, shape)
            elif signature and rng.random() < 0.2 and signature[key].default is not inspect.Parameter.empty:
                value = signature[key].default
            elif options:
                value = choice(rng, options)
            else:
                continue
            given = list(signature or ()).index(key) < len(args) if signature else False
            if not given:
                kwargs[key] = value
        self.args, self.kwargs = positioned(rng, signature, list(args), kwargs)
        leaves, self.tree = tree.flatten([self.args, self.kwargs])
        dtype, reshaping = choice(rng, DTYPES), rng.random() < 0.3
        for k, x in enumerate(leaves):
            if isinstance(x, np.ndarray) and x.dtype.kind in "fc":
                x = shaped(rng, x) if reshaping and rng.random() < 0.7 else x
                x = laid(rng, np.asarray(cast(rng, x, dtype if rng.random() < 0.75 else choice(rng, DTYPES))))
                leaves[k] = x[()] if not x.ndim and rng.random() < 0.5 else x
        self.leaves = leaves
        self.traced = [
            k for k, x in enumerate(leaves) if isinstance(x, (np.ndarray, np.floating, np.complexfloating)) and x.dtype.kind in "fc"
        ]
        if len(self.traced) > 1 and rng.random() < 0.5:
            self.traced = [k for k in self.traced if rng.random() < 0.6] or self.traced[:1]

    def __str__(self):
        shown = [f"{x.dtype}{list(x.shape)}" if hasattr(x, "dtype") else repr(x) for x in self.leaves]
        return f"{self.name}({', '.join(map(str, tree.unflatten(self.tree, shown)))}), traced: {self.traced}"

    def of(self, function):
        """The call as a function of what is traced, giving a list."""

        def f(*xs):
            leaves = [x.copy("K") if isinstance(x, np.ndarray) and x.flags.writeable else x for x in self.leaves]
            for k, x in zip(self.traced, xs):
                leaves[k] = x
            args, kwargs = tree.unflatten(self.tree, leaves)
            return [y for y in tree.leaves(function(*args, **kwargs)) if y is not None]

        return f


def parameters(function):
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None


def positioned(rng, signature, args, kwargs):
    """Keywords made positions, or the other way round, or put in another order."""
    names = list(signature or ())
    free = [p.kind == p.POSITIONAL_OR_KEYWORD for p in (signature or {}).values()]
    if rng.random() < 0.25:
        while len(args) < len(names) and free[len(args)] and names[len(args)] in kwargs:
            args.append(kwargs.pop(names[len(args)]))
    elif names and rng.random() < 0.25 and all(free[: len(args)]) and len(args) > 1:
        stop = int(rng.integers(1, len(args)))
        kwargs = dict(zip(names[stop:], args[stop:])) | dict(reversed(kwargs.items()))
        args = args[:stop]
    return args, kwargs


def ours(name):
    found = fnp
    for part in name.split("."):
        found = getattr(found, part, None)
    return found or TABLE[name].function


def outcome(f, *xs):
    """What a call gives, or the error."""
    try:
        return f(*xs), None
    except Exception as error:
        return None, error


def native(x):
    return np.asarray(x).dtype.newbyteorder("=")


def precision(*xs):
    return max([float(np.finfo(x.dtype).eps) for x in map(np.asarray, xs) if x.dtype.kind in "fc"], default=0.0) + 2.3e-16


def agree(call, what, got, want, xs, factor=400):
    assert len(got) == len(want), f"{call}: {what}: {len(got)} results, must be {len(want)}"
    for a, b in zip(got, want):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape, f"{call}: {what}: {a.shape}, must be {b.shape}"
        assert native(a) == native(b), f"{call}: {what}: {a.dtype}, must be {b.dtype}"
        if b.dtype.kind not in "fc":
            assert np.array_equal(a, b), f"{call}: {what}: {a}, must be {b}"
            continue
        rtol = factor * precision(a, b, *xs)
        scale = np.max(np.abs(b[np.isfinite(b)]), initial=0)
        assert np.allclose(a, b, rtol=rtol, atol=float(rtol * scale), equal_nan=True), f"{call}: {what}: {a}, must be {b}"


def near(rng, x):
    """An array a little different; the same, of integers."""
    if np.asarray(x).dtype.kind not in "fc":
        return np.array(x)
    return np.asarray(x + 0.01 * rng.normal(size=np.shape(x)).astype(native(x))).astype(np.asarray(x).dtype)


def like(rng, x):
    t = rng.normal(size=np.shape(x)) + (1j * rng.normal(size=np.shape(x)) if np.asarray(x).dtype.kind == "c" else 0)
    return np.asarray(t, np.asarray(x).dtype)


def product(xs, ys):
    return sum(float(np.sum(np.real(np.asarray(x) * np.asarray(y)))) for x, y in zip(xs, ys))


def check(call):
    """Whether a call was good enough to be compared."""
    plain, xs = call.of(call.theirs), [call.leaves[k] for k in call.traced]
    want, refused = outcome(plain, *xs)
    if not xs or want is not None and any(np.asarray(y).dtype.kind not in "fciub" for y in want):
        return False
    reached = isinstance(call.theirs, np.ufunc) or hasattr(call.theirs, "_implementation") or hasattr(call.theirs, "__self__")
    entries = [f for f in (call.theirs if reached else None, ours(call.name)) if f is not None]
    for function in entries:
        got, error = outcome(lambda f=function: ft.vjp(call.of(f), *xs))
        if refused is not None:
            assert error is not None or call.name in LENIENT, f"{call}: must raise {refused!r}"
        elif error is not None:
            assert isinstance(error, LOUD) or call.name in STRICT, f"{call}: {error!r}"
            return False
        else:
            agree(call, "value", got[0], want, xs)
    if refused is not None:
        return True
    function = choice(call.rng, entries)
    f = call.of(function)
    derivatives(call, f, plain, xs, want)
    call.traced = [
        k for k, x in enumerate(call.leaves) if isinstance(x, np.ndarray) and x.dtype.kind in "fciub" and call.rng.random() < 0.8
    ]
    xs = [call.leaves[k] for k in call.traced]
    if not xs:
        return True
    batches(call, f, plain, xs)
    jitted = ft.jit(f)
    for case in (xs, [near(call.rng, x) for x in xs]):
        wanted, error = outcome(plain, *case)
        got, refused = outcome(jitted, *case)
        if error is None and not isinstance(refused, LOUD):
            assert refused is None, f"{call}: jit: {refused!r}"
            agree(call, "jit", got, wanted, case)
    return True


def derivatives(call, f, plain, xs, want):
    """Both modes against one another, and in double precision against differences."""
    inexact = [k for k, y in enumerate(want) if np.asarray(y).dtype.kind in "fc"]
    some = lambda g: lambda *xs: [y for k, y in enumerate(g(*xs)) if k in inexact]
    ts, cts = [like(call.rng, x) for x in xs], [like(call.rng, want[k]) for k in inexact]
    finite = all(np.isfinite(y).all() for y in (*xs, *(want[k] for k in inexact)))
    back, error = outcome(lambda: ft.vjp(some(f), *xs)[1](cts))
    if isinstance(error, (errors.DegenerateError, np.linalg.LinAlgError)):
        return
    assert error is None, f"{call}: pullback: {error!r}"
    pushed = ft.jvp(some(f), tuple(xs), tuple(ts))[1]
    for what, ds, ys in (("cotangent", back, xs), ("tangent", pushed, [want[k] for k in inexact])):
        for d, y in zip(ds, ys):
            assert (np.shape(d), native(d)) == (np.shape(y), native(y)), f"{call}: {what} {np.shape(d)} {native(d)}"
    scale = product(map(np.abs, back), map(np.abs, ts)) + product(map(np.abs, cts), map(np.abs, pushed))
    eps = max(precision(*xs, *want), precision(call.kwargs.get("dtype") in ("f4", np.float16) and np.float16(0)))
    if eps < 1e-3 and np.isfinite(scale):
        difference = abs(product(back, ts) - product(cts, pushed))
        assert difference <= 1000 * eps * scale + 1e-12, f"{call}: the modes differ by {difference}, of {scale}"
    if not finite or precision(*xs, *want) > 1e-15 or any(native(x).itemsize < 8 for x in (*xs, *pushed)):
        return
    exact = lambda *ys: some(plain)(*(y if isinstance(x, np.ndarray) else y[()] for x, y in zip(xs, ys)))
    steps = [outcome(lambda step=step: numerical_jvp(exact, xs, ts, step)) for step in (1e-3, 3.3e-4)]
    if any(error is not None for _, error in steps):
        return
    for d, a, b in zip(pushed, steps[0][0], steps[1][0]):
        if np.shape(a) == np.shape(b) == np.shape(d):
            smooth = np.abs(a - b) <= 1e-6 * (1 + np.abs(b))
            wrong = smooth & ~(np.abs(np.asarray(d) - b) <= 1e-5 * (1 + np.abs(b) + np.max(np.abs(b), initial=0)))
            assert not wrong.any(), f"{call}: derivative {np.asarray(d)[wrong]}, must be {b[wrong]}"


def batches(call, f, plain, xs):
    """`vmap`, along any axis of some of the arguments, against a loop."""
    rng, size = call.rng, int(call.rng.integers(1, 4))
    axes = [int(rng.integers(-np.ndim(x) - 1, np.ndim(x) + 1)) if rng.random() < 0.75 else None for x in xs]
    if all(a is None for a in axes):
        axes[0] = 0
    rows = [[near(rng, x)[() if np.ndim(x) else ...] if a is not None else x for x, a in zip(xs, axes)] for _ in range(size)]
    wanted, error = outcome(lambda: [plain(*row) for row in rows])
    if error is not None or any([np.shape(y) for y in row] != [np.shape(y) for y in wanted[0]] for row in wanted):
        return
    batched = [x if a is None else np.stack(column, a) for x, a, column in zip(xs, axes, zip(*rows))]
    got, error = outcome(lambda: ft.vmap(f, in_axes=tuple(axes))(*batched))
    if isinstance(error, LOUD):
        return
    assert error is None, f"{call}: vmap, in_axes={axes}: {error!r}"
    agree(call, f"vmap, in_axes={axes}", got, [np.stack(column) for column in zip(*wanted)], xs)


@pytest.mark.parametrize("name", sorted(set(of_numpy(TABLE)) - set(SKIPPED)))
def test_random_arguments(name):
    if not TABLE[name].samples:
        return
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for seed in range(CASES if "polynomial." not in name else 1):
            check(Call(name, seed))


INTEGERS = {
    "gradient": lambda x: np.gradient(x, np.flip(np.sort(x)) + np.arange(x.shape[0], 0, -1).astype(x.dtype)),
    "modf": np.modf,
    "hypot of one": lambda x: np.hypot.accumulate(x[:1]),
    "logaddexp and more": lambda x: np.logaddexp.reduce(x, initial=0.75),
    "hypot and more": lambda x: np.hypot.reduce(x, initial=0.75),
    "convolve": lambda x: np.convolve(x, x[:4], "valid"),
    "correlate": lambda x: np.correlate(x, x[:2]),
    "conj": lambda x: (x.conj(), x.conjugate()),
    "piecewise": lambda x: np.piecewise(x, [x > 2, x <= 2], [lambda v: v / 2.0, 1.5]),
}


@pytest.mark.parametrize(
    ("name", "dtype"), [(k, t) for k in INTEGERS for t in "?bBiQ" if (k, t) != ("gradient", "?")]
)  # which NumPy refuses
def test_integers_give_what_numpy_gives(name, dtype):
    f = lambda x: tree.leaves(INTEGERS[name](x))
    xs = np.array([[3, 0, 90, 1, 7], [1, 5, 2, 2, 100]]).astype(dtype)
    wanted = [f(x) for x in xs]
    jitted = ft.jit(f)
    for x, want in zip(xs, wanted):
        agree(name, "jit", jitted(x), want, ())
    agree(name, "vmap", ft.vmap(f)(xs), [np.stack(column) for column in zip(*wanted)], ())


def test_powers_in_vander_are_as_precise_as_numpys():
    x = np.array([0.1, -1.3, 2.7], np.float32)
    np.testing.assert_array_equal(ft.vjp(np.vander, x)[0], np.vander(x))


NOT_WEAK = {  # a Python number among the arguments is stronger, or weaker, than NumPy's C code takes it
    **dict.fromkeys(("concatenate", "union1d"), "weak beside arrays, of which concatenate(axis=None) alone takes numbers"),
    **dict.fromkeys(("std", "var"), "a mean= that wraps unsigned differences around, or is complex"),
    "ldexp": "an integer is a float16",
}


@pytest.mark.parametrize("name", sorted(set(of_numpy(TABLE)) - set(SKIPPED) - set(NOT_WEAK)))
def test_a_python_number_is_as_weak_to_jit_as_to_numpy(name):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    theirs = TABLE[name].theirs if callable(TABLE[name].theirs) else TABLE[name].function
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for sample in TABLE[name].samples:
            leaves, structure = tree.flatten((sample.args(rng), sample.kwargs))
            places = [k for k, x in enumerate(leaves) if isinstance(x, (np.ndarray, np.generic, float, int)) and not isinstance(x, bool)]
            for _ in range(2 * CASES if places else 0):
                k, dtype, number = choice(rng, places), choice(rng, ["f4", "f2", "u1"]), choice(rng, [0.5, 2, True, 1j, -1, 0])
                if isinstance(leaves[k], int) and not isinstance(number, int):
                    continue
                floats = lambda x: isinstance(x, np.ndarray) and x.dtype.kind == "f"
                others = [cast(rng, abs(x) if dtype == "u1" else x, dtype) if floats(x) else x for x in leaves]

                def call(x, k=k, others=others):
                    args, kwargs = tree.unflatten(structure, [*others[:k], x, *others[k + 1 :]])
                    return [y for y in tree.leaves(theirs(*args, **kwargs)) if not isinstance(y, (str, type(None)))]

                want, refused = outcome(call, number)
                if refused is None:
                    jitted = ft.jit(call)
                    for _ in range(2):
                        agree(f"{name}, {number!r} as argument {k}, {dtype}", "jit", jitted(number), want, (), 4000)


# indices


def index_of(rng, shape):
    """A random index of an array of this shape: numbers, slices, new axes, arrays and masks."""
    common, parts, k = choice(rng, [(), (2,), (1,), (2, 1), (3,)]), [], 0
    while k < len(shape):
        n = shape[k]
        ways = {
            "all": lambda: slice(None),
            "slice": lambda: slice(*choice(rng, [(1, None), (None, -1), (None, None, -1), (None, None, 2), (0, 0), (-5, 2)])),
            "new": lambda: None,
            "rest": lambda: Ellipsis,
            "truth": lambda: choice(rng, [True, np.True_, False]),
            "mask": lambda: rng.random(n) > 0.4,
            "number": lambda: choice(rng, [int, np.int8, np.array])(rng.integers(-n, n)),
            "array": lambda: rng.integers(-n, n, size=common),
            "list": lambda: rng.integers(-n, n, size=2).tolist(),
        }
        way = choice(rng, list(ways)[: None if n else -3])
        if (
            way == "rest"
            and Ellipsis in [p for p in parts if not isinstance(p, (np.ndarray, list))]
            or way == "truth"
            and rng.random() < 0.7
        ):
            continue
        parts.append(ways[way]())
        k += {"new": 0, "truth": 0, "rest": int(rng.integers(0, 2))}.get(way, 1)
    return parts[0] if len(parts) == 1 else tuple(parts)


class Write:
    """A write to the part of an array that a random index names."""

    def __init__(self, seed):
        rng = self.rng = np.random.default_rng(seed)
        self.kwargs, shape = {}, tuple(rng.choice([0, 1, 2, 3, 3], size=rng.integers(1, 5)).tolist())
        self.key, self.how = index_of(rng, shape), choice(rng, ["set", "add", "add.at", "maximum.at", "view"])
        x = laid(rng, rng.permutation(np.linspace(-2, 2, int(np.prod(shape)))).reshape(shape))
        part, _ = outcome(lambda: np.shape(x[self.key]))
        narrow = [1 if rng.random() < 0.3 else n for n in part or ()][rng.integers(0, len(part or ()) + 1) :]
        self.xs = [x, rng.normal(size=narrow)]

    def __str__(self):
        return f"{self.how} {np.shape(self.xs[1])} at {self.key} of {np.shape(self.xs[0])}"

    def __call__(self, x, v):
        y, key = x * 1.0, self.key
        read = y[key] * 2.0
        if self.how == "set":
            y[key] = v
        elif self.how == "add":
            y[key] += v
        elif self.how == "view":
            z = y[key]
            z[...] = v
        else:
            {"add.at": np.add, "maximum.at": np.maximum}[self.how].at(y, key, v)
        return [y, read]


@pytest.mark.parametrize("part", range(6))
def test_random_writes(part):
    for seed in range(50 * part * CASES // 3, 50 * (part + 1) * CASES // 3):
        call = Write(seed)
        want, refused = outcome(call, *call.xs)
        got, error = outcome(lambda call=call: ft.vjp(call, *call.xs)[0])
        if refused is not None:
            assert error is not None or call.how == "view", f"{call}: must raise {refused!r}"  # of a number
            continue
        assert error is None, f"{call}: {error!r}"
        agree(call, "value", got, want, call.xs)
        derivatives(call, call, call, call.xs, want)
        batches(call, call, call, call.xs)
        agree(call, "jit", ft.jit(call)(*call.xs), want, call.xs)
