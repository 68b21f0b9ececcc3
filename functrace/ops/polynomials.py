"""What NumPy writes in Python: polynomials of all six kinds, `emath`, histograms of several dimensions; see `rebased`."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from functrace.core.tracer import Tracer
from functrace.ops.blank import handle
from functrace.ops.create import common_dtype, lift, typed
from functrace.ops.rebased import ModuleOf, later, rebased, steady
from functrace.ops.registry import Declared, Sample, apart, declare, each, given, implements, normal, one, plain_first

_C = one(4)
_PAIR = each((4,), (3,))
_UNEQUAL = each((2,), (3,))


_steady, _of_emath = functools.partial(steady, np), functools.partial(steady, np.emath, prefix="emath.")
_ROOTS = np.array([2.0, -3.0, -3.5, 1.2])  # of one real root and a complex pair
_LINE = Sample(lambda rng: (np.linspace(-1, 1, 6) + 0.05 * rng.normal(size=6), rng.normal(size=6), 2), wrt=(0, 1))
_poly, _roots = (later(f.__name__, lambda f=f: rebased(f)) for f in (np.poly, np.roots))  # type: ignore[misc]
_steady("polyint", [_C, one(3, m=2, k=[1.0, 2.0])])
_steady("polyder", [_C, one(4, m=2)])
_steady("polyadd", [_PAIR, _UNEQUAL])
_steady("polysub", [_PAIR, _UNEQUAL])
_steady("polyval", [each((3,), (2,)), each((1,), (2, 2)), each((4,), ())])
_steady(
    "polyfit",
    [
        _LINE,
        Sample(lambda rng: (*_LINE.args(rng), None, False, np.arange(1.0, 7.0)), wrt=(0, 1, 5)),
        Sample(_LINE.args, {"cov": True}, (1,)),
    ],
)
for _name in ("sqrt", "log", "log2", "log10", "arccos", "arcsin", "arctanh"):
    _of_emath(_name, [given([-2.0, 0.4, 2.5]), given([0.3, 0.7])])
_of_emath("power", [Sample(lambda rng: (np.array([-2.0, 0.4]), np.array([1.5, -0.5])), wrt=(0, 1))])
_of_emath("logn", [Sample(lambda rng: (2.5, np.array([-2.0, 0.4])), wrt=(0, 1))])


@implements(np.poly, [_C, one(3, 3)])
def poly(seq_of_zeros: Any) -> Any:
    return _poly(lift(seq_of_zeros))


@implements(np.roots, [given(_ROOTS)], note="simple roots")
def roots(p: Any) -> Any:
    return _roots(p if isinstance(p, np.poly1d) else lift(p))


def _coefficients(a: Any) -> Any:
    """Coefficients as `np.poly1d` has them: without leading zeros, but one at least."""
    line: Any = np.atleast_1d(a.coeffs if isinstance(a, np.poly1d) else lift(a))
    if len(line.shape) > 1:
        raise ValueError("Polynomial must be 1d only.")
    trimmed: Any = np.trim_zeros(line, "f")
    return trimmed if trimmed.shape[0] else line[-1:] if line.shape[0] else np.zeros(1, line.dtype)


@implements(np.polymul, [_PAIR, _UNEQUAL])
def polymul(a1: Any, a2: Any) -> Any:
    product = np.convolve(_coefficients(a1), _coefficients(a2))
    return np.poly1d(product) if isinstance(a1, np.poly1d) or isinstance(a2, np.poly1d) else product


@implements(np.polydiv, [Sample(lambda rng: (rng.normal(size=5), np.array([2.0, 1.5, -0.5]))), _UNEQUAL])  # divided exactly
def polydiv(u: Any, v: Any) -> Any:
    u, v = (x if isinstance(x, np.poly1d) else lift(x) for x in (u, v))
    return _polydiv(u if isinstance(u, (Tracer, np.poly1d)) else handle(np.array(u)), v)  # it writes to a copy of u


_polydiv = later("polydiv", lambda: rebased(np.polydiv))


@implements(np.vander, [one(3), one(3, N=2), one(2, N=4, increasing=True), one(2, N=1), one(0)])
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """`np.vander`; the powers are repeated products, right at 0 to every order."""
    x = typed(lift(x), common_dtype(x, np.dtype(int)))
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    columns = [np.ones(x.shape, x.dtype)]
    for _ in range(1, x.shape[0] if N is None else N):
        columns.append(x if len(columns) == 1 else columns[-1] * x)
    if N == 0 or not x.shape[0]:
        return np.zeros((x.shape[0], x.shape[0] if N is None else N), columns[0].dtype)
    return np.stack(columns if increasing else columns[::-1], axis=1)


_WEIGHTED = Sample(lambda rng: (apart((5, 2))(rng)[0], 3, None, None, rng.random(5)), wrt=(4,))
_WITHIN = Sample(lambda rng: (apart((5, 2))(rng)[0], (2, 3), [(-1.0, 1.0), (0.0, 2.0)], True, rng.random(5)), wrt=(4,))
_note = "counts are constant in the sample, and linear in `weights`; edges move with the data's extremes"
_steady("histogramdd", [_WEIGHTED, _WITHIN], note=_note)
_steady("histogram2d", [Sample(lambda rng: (*apart((5,), (5,))(rng), 3, None, None, rng.random(5)), wrt=(5,))], note=_note)
_steady("histogram_bin_edges", [Sample(apart((5,)), {"bins": 3}), Sample(apart((5,)), {"bins": 2, "range": (0.0, 1.0)})])

polynomial: Any = ModuleOf("numpy.polynomial")
FAMILIES = {"polynomial": "poly", "chebyshev": "cheb", "legendre": "leg", "hermite": "herm", "hermite_e": "herme", "laguerre": "lag"}
_X, _DATA = (3,), Sample(lambda rng: (np.linspace(-1, 1, 6), rng.normal(size=6), 2), {"w": np.arange(1.0, 7.0)}, (0, 1))
_SIGNATURES: dict[str, list[Sample]] = {
    **{operation: [_PAIR] for operation in ("add", "sub", "mul", "div")},
    "mulx": [_C],
    "pow": [Sample(lambda rng: (rng.normal(size=2), 3))],
    "val": [each(_X, (4,)), each(_X, (4, 2))],
    "val2d": [each(_X, _X, (2, 3))],
    "val3d": [Sample(normal(_X, _X, _X, (2, 1, 2)), wrt=(0, 3))],
    "grid2d": [Sample(normal((2,), _X, (2, 3)), wrt=(1, 2))],
    "grid3d": [Sample(normal((2,), _X, (1,), (2, 1, 2)), wrt=(1, 3))],
    "vander": [Sample(lambda rng: (rng.normal(size=3), 3))],
    "vander2d": [Sample(lambda rng: (*normal(_X, _X)(rng), (1, 2)), wrt=(0, 1))],
    "vander3d": [Sample(lambda rng: (*normal(_X, _X, _X)(rng), (1, 0, 1)), wrt=(0, 2))],
    "der": [one(4, m=2, scl=0.5)],
    "int": [one(3, m=2, k=[0.5, 1.0], lbnd=0.3)],
    "fromroots": [_C],
    "valfromroots": [each(_X, (2,))],
    "trim": [_C],
    "roots": [given([-1.2, -3.5, 0.7, 2.0])],
    "companion": [given([-1.2, -3.5, 0.7, 2.0])],
    "fit": [_DATA],
    "line": [each((), ())],
    "weight": [Sample(lambda rng: (rng.uniform(-0.9, 0.9, size=3),))],
    "2poly": [_C],
    "poly2": [_C],
}


def _to_powers(module: Any, numpy: Any) -> Any:
    """`cheb2poly` and its like: linear, by a matrix whose rows NumPy gives."""

    def function(c: Any) -> Any:
        (c,) = module.pu.as_series([c])
        rows = [numpy(row) for row in np.eye(len(c), dtype=c.dtype)]
        return np.matmul(c, np.stack([np.pad(row, (0, len(c) - len(row))) for row in rows]))

    return function


def _find(family: str, name: str) -> Any:
    numpy = getattr(getattr(np.polynomial, family), name)
    return plain_first(numpy, _to_powers(getattr(polynomial, family), numpy)) if name.endswith("2poly") else rebased(numpy)


def _declare_families() -> None:
    powers = {"valfromroots"}, {"weight", "2poly", "poly2"}  # what only the powers have, and what only the others
    for family, short in FAMILIES.items():
        for suffix, samples in _SIGNATURES.items():
            if suffix not in powers[short == "poly"]:
                name = f"poly2{short}" if suffix == "poly2" else short + suffix
                found = later(name, functools.partial(_find, family, name))
                declare(Declared(f"polynomial.{family}.{name}", found, (), tuple(samples)))


_declare_families()
