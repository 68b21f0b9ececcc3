"""Writes `docs/support.md` and `docs/scipy.md` from the declarations: `python -m docs.support`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import functrace.scipy
from functrace.ops.protocol import FUNCTIONS, load_late
from functrace.ops.refusals import REFUSED
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

Every public name of `numpy`, `numpy.linalg`, `numpy.fft`, `numpy.emath`, `numpy.polynomial` and `ndarray` is on this page.
`functrace.numpy` has them under the same names. A function is

- *differentiable*: in reverse and forward mode, under `vmap` and `jit`, and to any order;
- *constant*: it takes traced values, its derivative is zero by definition (comparisons, rounding, indices, shapes), and its result is a
  plain value;
- *plain*: there is nothing in it to differentiate;
- or *refused*: it raises an error when it is given a traced value, and is NumPy's own, unchanged, on any other.

Each declaration gives samples of calls, which [the tests](../CONTRIBUTING.md#how-the-sweep-works) check in every mode.
"""


def _aliases(declared: Declared) -> tuple[bool, list[str]]:
    """Whether NumPy's own function does the same on traced values, and by which other names NumPy has it."""
    found = declared.numpy if isinstance(declared.numpy, tuple) else (declared.numpy,)
    names = []
    for function in found:
        name = getattr(function, "__name__", "")
        owner: Any = getattr(function, "__self__", None)  # np.add.reduce is a method of np.add
        name = f"{owner.__name__}.{name}" if hasattr(owner, "__name__") and hasattr(owner, "nin") else name
        module = getattr(function, "__module__", None) or "numpy"
        if name:
            names.append(f"{module}.{name}".removeprefix("numpy.").replace("lib.scimath", "emath"))
    return bool(names), [n for n in dict.fromkeys(names) if n != declared.name]


def _modules(names: Iterable[str], package: str) -> str:
    """Names, by module."""
    rows = dict[str, list[str]]()
    for name in sorted(names):
        module, _, last = name.rpartition(".") if name.startswith(_MODULES) else ("", "", name)
        rows.setdefault(f"{package}.{module}".rstrip("."), []).append(f"`{last}`")
    return "\n".join(f"**{module}**: {' '.join(rows[module])}\n" for module in rows)


_MODULES = ("emath.", "fft.", "lib.", "linalg.", "polynomial.")  # `add.reduce` is a method


def _alike(pairs: Iterable[tuple[str, str]], head: str) -> str:
    """A table of names and what is said of each, those of which the same is said together."""
    rows = dict[str, list[str]]()
    for name, text in sorted(pairs):
        rows.setdefault(text.replace("|", "\\|"), []).append(f"`{name}`")
    table = "".join(f"| {' '.join(names)} | {text} |\n" for text, names in rows.items())
    return f"\n{head}\n|---|---|\n{table}" if rows else ""


def _notes(rows: Iterable[Declared], prefix: str = "") -> str:
    return _alike(((d.name.removeprefix(prefix), d.note) for d in rows if d.note), "| function | note |")


def _numpy(title: str, rows: Iterable[Declared]) -> str:
    rows = sorted(rows, key=lambda d: d.name)
    names: dict[bool, list[str]] = {True: [], False: []}
    for d in rows:
        own, others = _aliases(d)
        names[own] += [d.name, *others]
    out = f"## {title}: {len(rows)}\n\n{_modules(names[True], 'numpy')}"
    if names[False]:
        out += (
            "\nIn these, NumPy's own function doesn't see a traced value, and raises: use `functrace.numpy`'s, or "
            "`functrace.numpy.install`.\n\n" + _modules(names[False], "numpy")
        )
    return out + _notes(rows)


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
    differentiable = _numpy("Differentiable", (d for d in ours if not d.constant))
    constant = _numpy("Constant", (d for d in ours if d.constant))
    return f"{_HEAD}\n{differentiable}\n{constant}\n{_others()}\n{_reasons('Plain', PLAIN)}\n{_reasons('Refused', REFUSED)}"


_SCIPY_HEAD = """# SciPy: what is supported

<!-- Written by `python -m docs.support` from functrace.ops.registry.TABLE. Don't edit. -->

Every function below is `functrace.scipy.SUBPACKAGE.NAME`, right in reverse and forward mode, under `vmap` and `jit`, and to any order. A
*refused* function raises an error when it is given a traced value, and is SciPy's own, unchanged, on any other.

To go on using `scipy`'s own names, call `functrace.scipy.install()` first. It reaches every function but those that were imported by name
before it (`from scipy.special import logsumexp`). SciPy's ufuncs, which is nearly all of `scipy.special`, take traced values without it.

Derivatives of moments and entropies are integrals over the density; where a tail is too heavy for a precise integral, they raise.
"""


def _laws(rows: list[Declared]) -> str:
    """The methods of distributions, those that have the same methods together."""
    laws = dict[str, list[str]]()
    for d in rows:
        laws.setdefault(d.name.split(".")[2], []).append(f"`{d.name.split('.')[3]}`")
    head = f"\n### Distributions: {len(laws)}, with {len(rows)} methods\n"
    return head + _alike(((law, " ".join(sorted(laws[law]))) for law in laws), "| distribution | methods |")


def _subpackage(name: str) -> str:
    module: Any = SUBPACKAGES[name]
    prefix = f"scipy.{name}."
    rows = sorted((d for key, d in TABLE.items() if key.startswith(prefix)), key=lambda d: d.name)
    methods = [d for d in rows if name == "stats" and d.name.count(".") == 3]
    rows = [d for d in rows if d not in methods]
    out = f"## scipy.{name}: {len(rows) + len(methods)} covered, {len(module.REFUSED)} refused\n\n"
    out += " ".join(f"`{d.name.removeprefix(prefix)}`" for d in rows if not d.constant) + "\n"
    if constant := [f"`{d.name.removeprefix(prefix)}`" for d in rows if d.constant]:
        out += f"\nConstant: {' '.join(constant)}\n"
    theirs = importlib.import_module(f"scipy.{name}")
    shown = {d.name.split(".")[2] for d in rows + methods} | set(module.REFUSED)
    ours = {n: v for n, v in vars(module).items() if callable(v)}
    also = [n for n in sorted(theirs.__all__) if n in ours and n not in shown and ours[n] is not getattr(theirs, n)]
    also += [f"transform.{n}" for n in module.transform.__all__] if name == "spatial" else []
    if also:
        out += f"\nAlso: {' '.join(f'`{n}`' for n in also)}\n"
    if name in CONSTANT:
        out += f"\nNothing to differentiate: {' '.join(f'`{n}`' for n in sorted(CONSTANT[name].split()))}\n"
    out += _notes(rows, prefix)
    if methods:
        out += _laws(methods)
    return out + _alike(module.REFUSED.items(), "| refused | why |")


def scipy_page() -> str:
    """What `scipy.md` should be."""
    return _SCIPY_HEAD + "".join(f"\n{_subpackage(name)}" for name in SUBPACKAGES)


WRITTEN = {PAGE: page, SCIPY_PAGE: scipy_page}

if __name__ == "__main__":
    for path, text in WRITTEN.items():
        path.write_text(text(), encoding="utf-8")
        print(path)
