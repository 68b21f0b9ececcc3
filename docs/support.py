"""Writes `docs/support.md` and `docs/scipy.md` from the declarations: `python -m docs.support`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import functrace.scipy
from functrace.ops.coverage import REFUSED
from functrace.ops.protocol import FUNCTIONS, load_late
from functrace.ops.registry import TABLE, Declared

PAGE = Path(__file__).with_name("support.md")
SCIPY_PAGE = Path(__file__).with_name("scipy.md")

# of NumPy: what no traced value enters
PLAIN = {
    "dtypes and their limits": (
        "bool bool_ byte bytes_ cdouble character clongdouble complex128 complex192 complex256 complex64 complexfloating csingle "
        "datetime64 double dtype flexible float128 float16 float32 float64 float96 floating generic half inexact int16 int32 int64 int8 "
        "int_ intc integer intp long longdouble longlong number object_ record short signedinteger single str_ timedelta64 ubyte uint "
        "uint16 uint32 uint64 uint8 uintc uintp ulong ulonglong unsignedinteger ushort void finfo iinfo isdtype issubdtype promote_types "
        "mintypecode ScalarType sctypeDict typecodes typename"
    ),
    "constants": "True_ False_ e euler_gamma inf nan newaxis pi little_endian",
    "arrays made of plain numbers": (
        "arange bartlett blackman diag_indices eye empty empty_like fromfunction fromstring hamming hanning identity indices "
        "mask_indices mgrid ndindex ogrid ones ones_like tri tril_indices triu_indices zeros zeros_like polynomial.chebyshev.chebgauss "
        "polynomial.chebyshev.chebpts1 polynomial.chebyshev.chebpts2 polynomial.legendre.leggauss polynomial.hermite.hermgauss "
        "polynomial.hermite_e.hermegauss polynomial.laguerre.laggauss broadcast_shapes s_ index_exp lib.array_utils.normalize_axis_index "
        "lib.array_utils.normalize_axis_tuple"
    ),
    "files, dates, text and settings": (
        "base_repr binary_repr busday_count busday_offset busdaycalendar datetime_as_string datetime_data errstate format_float_positional "
        "format_float_scientific fromfile fromregex genfromtxt get_include get_printoptions getbufsize geterr geterrcall info is_busday "
        "load loadtxt printoptions set_printoptions setbufsize seterr seterrcall show_config show_runtime test linalg.test fft.test "
        "polynomial.test polynomial.set_default_printstyle linalg.LinAlgError"
    ),
    "classes, and questions about types": (
        "isscalar iterable ndarray ufunc ndarray.__class_getitem__ ndarray.__array_finalize__ ndarray.__array_wrap__ ndarray.__setstate__ "
        "ndarray.__buffer__ ndarray._set_dtype ndarray._set_shape "
        "ndarray.__dlpack_device__ "
        + " ".join(f"polynomial.{m}.ABCPolyBase" for m in ("polynomial", "chebyshev", "legendre", "hermite", "hermite_e", "laguerre"))
    ),
}
# of SciPy's subpackages: designs and objects of plain numbers, plots, settings, and SciPy's newer distributions
CONSTANT = {
    "fft": "fftfreq rfftfreq fhtoffset next_fast_len prev_fast_len set_workers get_workers set_backend set_global_backend skip_backend "
    "register_backend",
    "integrate": "newton_cotes lebedev_rule",
    "linalg": "find_best_blas_type get_blas_funcs get_lapack_funcs bandwidth dft hadamard helmert hilbert invhilbert invpascal ishermitian "
    "issymmetric pascal",
    "ndimage": "generate_binary_structure iterate_structure",
    "optimize": "BFGS Bounds BroydenFirst HessianUpdateStrategy InverseJacobian KrylovJacobian LbfgsInvHessProduct LinearConstraint "
    "NonlinearConstraint OptimizeResult RootResults SR1 linprog_verbose_callback show_options",
    "signal": "CZT ShortTimeFFT ZoomFFT",
    "stats": "Binomial BootstrapMethod CensoredData Covariance Logistic Mixture MonteCarloMethod Normal PermutationMethod Uniform abs exp "
    "log boxcox_normplot yeojohnson_normplot probplot ppcc_plot make_distribution rv_continuous rv_discrete rv_histogram truncate "
    "order_statistic",
}

load_late()
SUBPACKAGES = {
    name: importlib.import_module(f"functrace.scipy.{name}")
    for name in sorted(m.name for m in pkgutil.iter_modules(functrace.scipy.__path__) if not m.name.startswith("_"))
}

_HEAD = """# NumPy: what is supported

<!-- Written by `python -m docs.support` from functrace.ops.registry.TABLE. Don't edit. -->

Each function is available as `functrace.numpy.NAME`. NumPy's own function does the same on traced values where the second column
says yes; elsewhere NumPy's protocols do not see the call. These tables hold every public name of `numpy`, `numpy.linalg`,
`numpy.fft`, `numpy.emath`, `numpy.polynomial` and `ndarray`: what is covered, what no traced value enters, and what is refused. A
refused function raises when it is called on a traced value, and is NumPy's own, untouched, on any other.

- *differentiable*: reverse, forward, batched (`vmap`) and to any order. *constant*: it works on traced values, its derivative is
  zero by definition (comparisons, rounding, index functions, shapes), and its results are no part of the tape.
- *domain*: where the tests draw the arguments from, one interval for each argument, or one for all. The function works wherever
  NumPy's does.
- *samples*: the number of calls that its declaration gives to the [sweep](../CONTRIBUTING.md#how-the-sweep-works), each checked in
  every mode.
"""


def _numpy_name(declared: Declared) -> str:
    found = declared.numpy if isinstance(declared.numpy, tuple) else (declared.numpy,)
    names = []
    for function in found:
        name = getattr(function, "__name__", "")
        owner: Any = getattr(function, "__self__", None)  # np.add.reduce is a method of np.add
        name = f"{owner.__name__}.{name}" if hasattr(owner, "__name__") and hasattr(owner, "nin") else name
        module = getattr(function, "__module__", None) or "numpy"
        if name:
            names.append(f"`{'np' + module.removeprefix('numpy') if module.startswith('numpy') else module}.{name}`")
    others = [n for n in dict.fromkeys(names) if n.replace("lib.scimath", "emath") != f"`np.{declared.name}`"]
    return ", ".join([*(["yes"] if len(others) < len(set(names)) else []), *others]) or "no"


def _domain(declared: Declared) -> str:
    if declared.domain is None:
        return ""
    intervals = [f"({lo:g}, {hi:g})" for lo, hi in declared.domain]
    return intervals[0] if len(set(intervals)) == 1 else " × ".join(intervals)


def _row(declared: Declared) -> str:
    note = declared.note.replace("|", "\\|")
    return f"| `{declared.name}` | {_numpy_name(declared)} | {_domain(declared)} | {len(declared.samples)} | {note} |"


def _table(title: str, rows: Iterable[Declared]) -> str:
    rows = sorted(rows, key=lambda d: d.name)
    head = f"## {title}: {len(rows)}\n\n| function | NumPy's own too | domain | samples | note |\n|---|---|---|---|---|\n"
    return head + "".join(_row(d) + "\n" for d in rows)


def _reasons(title: str, table: dict[str, str]) -> str:
    rows = "".join(f"| {reason} | {' '.join(f'`{name}`' for name in sorted(names.split()))} |\n" for reason, names in table.items())
    return f"## {title}: {sum(len(names.split()) for names in table.values())}\n\n| why | names |\n|---|---|\n{rows}"


def _others() -> str:
    declared = {id(f) for d in TABLE.values() for f in (d.numpy if isinstance(d.numpy, tuple) else (d.numpy,))}
    names = sorted({f.__name__ for f in FUNCTIONS if id(f) not in declared and not f.__module__.startswith("scipy")})
    classes = "`poly1d` `polynomial.Polynomial` `Chebyshev` `Legendre` `Hermite` `HermiteE` `Laguerre` `vectorize` `r_` `c_` `ndenumerate`"
    return (
        "## Not in the sweep\n\nFunctions that write into their argument, or give dtypes, text or indices, have tests of their own: "
        f"{' '.join(f'`{name}`' for name in names)}.\nOf `functrace.numpy`: {classes}, `chebinterpolate` of a function that gives traced "
        "values. (`poly1d`: NumPy's own class, of traced coefficients; not `p / q`, nor `polyder(p)` and its like; the polynomial 0 is a "
        "constant.)\n"
    )


def page() -> str:
    """What `support.md` should be."""
    ours = [d for name, d in TABLE.items() if not name.startswith("scipy.")]
    differentiable = _table("Differentiable", (d for d in ours if not d.constant))
    constant = _table("Constant", (d for d in ours if d.constant))
    return f"{_HEAD}\n{differentiable}\n{constant}\n{_others()}\n{_reasons('Plain', PLAIN)}\n{_reasons('Refused', REFUSED)}"


_SCIPY_HEAD = """# SciPy: what is supported

<!-- Written by `python -m docs.support` from functrace.ops.registry.TABLE. Don't edit. -->

Each function is available as `functrace.scipy.SUBPACKAGE.NAME`, and as SciPy's own after `functrace.scipy.install()`. SciPy's ufuncs
(nearly all of `scipy.special`) need no installing. Distributions are changed wherever they are: imported by name before, or frozen
(`stats.norm(loc, scale).logpdf(x)`, of traced parameters too). A function that was imported by name before `install` (`from scipy.special
import logsumexp`) stays SciPy's own, which refuses traced values: install first, or import it from `functrace.scipy`.

The columns are those of [what is supported of NumPy](support.md): every function here is right in reverse, forward, batched and to any
order. A refused function raises when it is called on a traced value, and is SciPy's own, untouched, on any other. Functions without
samples have tests of their own. Derivatives of moments and entropies are integrals over the density; where a tail is too heavy for the
sum to be precise they raise.
"""


def _laws(rows: list[Declared]) -> str:
    """The methods of distributions, a line for each distribution."""
    laws = dict[str, list[Declared]]()
    for d in rows:
        laws.setdefault(d.name.split(".")[2], []).append(d)
    head = f"### Distributions: {len(laws)}, with {len(rows)} methods\n\n| distribution | methods | samples |\n|---|---|---|\n"
    return head + "".join(
        f"| `{law}` | {' '.join(sorted(d.name.split('.')[3] for d in laws[law]))} | {sum(len(d.samples) for d in laws[law])} |\n"
        for law in sorted(laws)
    )


def _subpackage(name: str) -> str:
    module: Any = SUBPACKAGES[name]
    rows = sorted((d for key, d in TABLE.items() if key.startswith(f"scipy.{name}.")), key=lambda d: d.name)
    methods = [d for d in rows if name == "stats" and d.name.count(".") == 3]
    rows = [d for d in rows if d not in methods]
    out = f"## scipy.{name}: {len(rows) + len(methods)} covered, {len(module.REFUSED)} refused\n\n"
    out += "| function | domain | samples | note |\n|---|---|---|---|\n"
    for d in rows:
        note = "; ".join(filter(None, ("constant" if d.constant else "", d.note.replace("|", "\\|"))))
        out += f"| `{d.name.removeprefix(f'scipy.{name}.')}` | {_domain(d)} | {len(d.samples)} | {note} |\n"
    if methods:
        out += "\n" + _laws(methods)
    theirs = importlib.import_module(f"scipy.{name}")
    shown = {d.name.split(".")[2] for d in rows + methods} | set(module.REFUSED)
    ours = {n: v for n, v in vars(module).items() if callable(v)}
    also = [n for n in sorted(theirs.__all__) if n in ours and n not in shown and ours[n] is not getattr(theirs, n)]
    also += [f"transform.{n}" for n in module.transform.__all__] if name == "spatial" else []
    if also:
        out += f"\nAlso: {' '.join(f'`{n}`' for n in also)}.\n"
    if name in CONSTANT:
        out += f"\nWithout an argument to differentiate: {' '.join(f'`{n}`' for n in sorted(CONSTANT[name].split()))}.\n"
    reasons = dict[str, list[str]]()
    for refused, reason in module.REFUSED.items():
        reasons.setdefault(reason, []).append(f"`{refused}`")
    out += "\n| refused | why |\n|---|---|\n"
    return out + "".join(f"| {' '.join(sorted(names))} | {reason} |\n" for reason, names in sorted(reasons.items()))


def scipy_page() -> str:
    """What `scipy.md` should be."""
    return _SCIPY_HEAD + "".join(f"\n{_subpackage(name)}" for name in SUBPACKAGES)


WRITTEN = {PAGE: page, SCIPY_PAGE: scipy_page}

if __name__ == "__main__":
    for path, text in WRITTEN.items():
        path.write_text(text(), encoding="utf-8")
        print(path)
