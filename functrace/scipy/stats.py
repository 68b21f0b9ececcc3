"""SciPy's `stats`, for plain and traced arrays alike: distributions in every parameter, and summaries of samples.

`norm`, `gamma`, `poisson` and the rest have SciPy's methods (`pdf`, `logpdf`, `cdf`, `logcdf`, `sf`, `logsf`, `ppf`, `isf`, and for
discrete ones `pmf`, `logpmf`), with derivatives with respect to x, the shape parameters, `loc` and `scale`. Outside of the support the
derivative is zero, never NaN.

>>> import functrace as ft, numpy as np
>>> from functrace.scipy import stats
>>> ft.grad(lambda a: stats.gamma.logpdf(2.0, a, scale=0.5))(3.0).round(6)
np.float64(0.46351)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.stats as _scipy

from functrace import edge, errors
from functrace.core.tracer import Tracer
from functrace.ops.create import number
from functrace.ops.inplace import at
from functrace.ops.kinds import undeclared
from functrace.ops.registry import TABLE, Sample, holds_tracer, implements
from functrace.scipy import _stats_multivariate as _multivariate  # noqa: F401
from functrace.scipy import _stats_summary as _summary
from functrace.scipy import _stats_tests as _tests
from functrace.scipy._shared import late, real
from functrace.scipy._special_kinds import followed
from functrace.scipy._stats_laws import LAWS, Law
from functrace.scipy._stats_moments import beyond, in_argument, summary
from functrace.scipy._stats_rarer import MASSES, MORE

if TYPE_CHECKING:
    from scipy.stats import *  # noqa: F403

CONTINUOUS = ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")
DISCRETE = ("pmf", "logpmf", "cdf", "logcdf", "sf", "logsf")
SUMMARIES = ("mean", "var", "std", "entropy", "moment", "stats")
_BELOW = {"log": -np.inf, "cdf": 0.0, "logcdf": -np.inf, "sf": 1.0, "logsf": 0.0}
_ABOVE = {"log": -np.inf, "cdf": 1.0, "logcdf": 0.0, "sf": 0.0, "logsf": -np.inf}


_FULL = 4096  # arrays no larger have each element's tail computed, whether or not it is small, so that `jit` sees one program
_NEVER = -1e300  # the logarithm of a probability that has long been 0: nothing changes it
_EPS = float(np.finfo(float).eps)
_LEAST, _ROUGH = 1e-290, 1e-4  # below which a probability, or one found as a difference, has too few digits left


def _formula(law: Law, what: str) -> Callable[..., Any] | None:
    """What the law says of `what` (log, cdf, sf, logcdf or logsf), or what follows from what it says."""
    stated: Any = getattr(law, what)
    if what == "log" or stated is not None and what not in law.rough:
        return stated  # type: ignore[no-any-return]
    plain, log, other, log_other = ("cdf", "logcdf", "sf", "logsf") if "cdf" in what else ("sf", "logsf", "cdf", "logcdf")
    tail = beyond(law, -1 if plain == "cdf" else 1)
    own, rest, log_rest = getattr(law, log if what == plain else plain), getattr(law, other), getattr(law, log_other)
    if what == plain:
        if stated is None and own is None and log_rest is not None:
            return lambda z, *s: -np.expm1(np.maximum(log_rest(z, *s), _NEVER))
        if stated is None and (own is not None or rest is None):
            return own and (lambda z, *s: np.exp(np.maximum(own(z, *s), _NEVER)))
        return _repaired(stated or (lambda z, *s: 1 - rest(z, *s)), _ROUGH, lambda p, *_: p, lambda z, *s: np.exp(tail(z, *s)))
    own, rest = _formula(law, plain), _formula(law, other)
    if own is None or rest is None:
        return None

    def precise(p: Any, z: Any, *s: Any) -> Any:
        low, q = p < 0.5, rest(z, *s)
        return np.where(low, np.log(np.where(low, p, 1.0)), np.log1p(-np.where(low | (q == 0), 0.0, q)))

    return _repaired(own, _LEAST, precise, tail)


def _repaired(own: Callable[..., Any], least: float, then: Callable[..., Any], tail: Callable[..., Any]) -> Callable[..., Any]:
    """`then` of the probability `own`, or, where that is below `least`, what `tail` says."""

    def formula(z: Any, *s: Any) -> Any:
        p = own(z, *s)
        small = ~(p > least)
        out = then(np.where(small, 0.25, p), z, *s)
        if not np.any(small):
            return out
        if p.size <= _FULL:
            return np.where(small, tail(z, *s), out)
        return at(out)[small].set(tail(*(np.broadcast_to(v, p.shape)[small] for v in (z, *s))))

    return formula


def _surely(condition: Any) -> bool:
    """Whether a condition holds everywhere; one that a batch or a recorded program has yet to decide does not."""
    return not isinstance(condition, Tracer) and bool(np.all(condition))


def _valid(law: Law, shapes: tuple[Any, ...]) -> Any:
    if law.valid is not None:
        return law.valid(*shapes)
    valid: Any = True
    for s in shapes:
        valid = valid & (s > 0)
    return valid


def _standard(law: Law, what: str, formula: Callable[..., Any], z: Any, shapes: tuple[Any, ...]) -> Any:
    """A formula on the support, its limits outside of it, NaN for parameters that are not valid."""
    lo, hi = law.ends(shapes)
    if law.discrete:
        whole = np.floor(z)
        inside = (whole >= lo) & ((whole <= hi) & (whole == z) if what == "log" else whole < hi)
        z = whole
    else:
        inside = (z >= lo) & (z <= hi) if what == "log" else (z > lo) & (z < hi)
    valid = _valid(law, shapes)
    if not law.discrete and _surely((z > lo) & (z < hi) & valid):
        return formula(z, *shapes)
    below = z < lo if law.discrete else z <= lo
    good = inside & valid
    at = law.at
    safe = [np.where(good, v, w) for v, w in zip((z, *shapes), at)]
    out = np.where(below, _BELOW[what], _ABOVE[what])
    found = formula(*safe)
    if what == "log" and not law.discrete:
        found = np.where(((z == lo) | (z == hi)) & (found != found), -np.inf, found)
    return np.where(good, found, np.where(valid & (z == z), out, np.nan))


def _whole(law: Law) -> list[bool]:
    """Which parameters are whole numbers, without a derivative."""
    return [law.discrete and n in ("n", "N", "low", "high") and law is not MASSES["nbinom"] for n in law.names]


def _arguments(name: str, law: Law, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], Any, Any]:
    names = [*law.names, "loc", *([] if law.discrete else ["scale"])]
    given = {**dict(zip(names, args)), **kwargs}
    wrong = {
        "missing": [n for n in law.names if n not in given],
        "not among them": [n for n in kwargs if n not in names],
        "given twice": [n for n in names[: len(args)] if n in kwargs],
        "too many": list(args[len(names) :]),
    }
    if any(wrong.values()):
        found = "; ".join(f"{why}: {', '.join(map(str, which))}" for why, which in wrong.items() if which)
        raise TypeError(f"{name}() takes the parameters {', '.join(names)}; {found}")
    given = {"loc": 0.0, "scale": 1.0, **given}
    for n, whole in zip(names, _whole(law)):
        if whole and isinstance(given[n], Tracer) and given[n].dtype.kind not in "iub":
            raise errors.UnsupportedError(f"{name}: {n} is a whole number and has no derivative.\n  Pass an integer.")
    values = [real(given[n], name) for n in [*law.names, "loc", "scale"]]
    return tuple(values[:-2]), values[-2], values[-1]


def _is(x: Any, number: float) -> bool:
    """Whether a parameter is this number, as it is where it was left out."""
    return not isinstance(x, Tracer) and not x.shape and x == number


def _density(name: str, law: Law, what: str) -> Callable[..., Any]:
    """One method of a distribution: pdf, pmf, cdf, sf, or the logarithm of one."""
    core = what.removeprefix("log") in ("pdf", "pmf")
    base = "log" if core else what
    formula = _formula(law, base)
    assert formula is not None

    def method(x: Any, *args: Any, **kwargs: Any) -> Any:
        shapes, loc, scale = _arguments(f"{name}.{what}", law, args, kwargs)
        z = real(x, f"{name}.{what}")
        z = z if _is(loc, 0) else z - loc
        positive, unit = True, law.discrete or _is(scale, 1)
        if not unit:
            positive = scale > 0
            positive = _surely(positive) or positive
            scale = scale if positive is True else np.where(positive, scale, 1.0)
            z = z / scale
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            out = _standard(law, base, formula, z, shapes)
        if core:
            out = out if unit else out - np.log(scale)
            out = out if what.startswith("log") else np.exp(np.where(out == -np.inf, -np.inf, out))
        return number(out if positive is True else np.where(positive, out, np.nan))

    return method


def _quantile(name: str, law: Law, what: str) -> Callable[..., Any]:
    """`ppf` or `isf`: SciPy's value, and the derivative of the inverse function."""
    formula: Any = _formula(law, "cdf" if what == "ppf" else "sf")
    log = law.log
    scipy_method = getattr(getattr(_scipy, name), what)
    sign = 1.0 if what == "ppf" else -1.0

    def slope(ans: Any, shapes: Any) -> Any:
        return sign * np.exp(log(ans, *shapes))

    def shape_map(k: int) -> Callable[..., Any]:
        def rule(t: Any, ans: Any, _q: Any, *shapes: Any) -> Any:
            spread = [s + 0 * ans for s in shapes]
            moved = in_argument(lambda *s: formula(ans, *s), spread, k)[1]
            found = followed(moved, slope(ans, spread))
            if callable(law.support):  # at an end that moves it moves with it
                for which in (0, 1):
                    edge, pace = in_argument(lambda *s, which=which: law.support(*s)[which] + 0 * s[k], spread, k)
                    found = np.where((abs(edge) < np.inf) & (abs(ans - edge) <= 4 * _EPS * abs(edge)), pace, found)
            return t * found

        return rule

    count = len(law.names)
    maps = [lambda t, ans, _q, *shapes: t / slope(ans, shapes), *(shape_map(k) for k in range(count))]
    op = undeclared(f"scipy.stats.{name}.{what}", lambda q, *shapes: np.asarray(scipy_method(q, *shapes))[()], *maps)

    def method(q: Any, *args: Any, **kwargs: Any) -> Any:
        shapes, loc, scale = _arguments(f"{name}.{what}", law, args, kwargs)
        out = op(real(q, f"{name}.{what}"), *shapes)
        return out if _is(loc, 0) and _is(scale, 1) else out * scale + loc

    return method


def _summary_of(name: str, law: Law, what: str) -> Callable[..., Any]:
    """A moment, or several, or the entropy of a distribution."""
    take = {"m": "mean", "v": "var", "s": "skew", "k": "kurtosis"}

    def method(*args: Any, **kwargs: Any) -> Any:
        order: Any = 0
        if what == "moment":
            order, *args = (kwargs.pop("order"), *args) if "order" in kwargs else args  # type: ignore[assignment]
        kinds = [what]
        if what == "stats":
            if len(args) > len(law.names) + 2 - law.discrete:
                *args, kwargs["moments"] = args  # type: ignore[assignment]
            wanted = kwargs.pop("moments", "mv")
            kinds = [kind for letter, kind in take.items() if letter in wanted]  # in this order, as SciPy's
        shapes, loc, scale = _arguments(f"{name}.{what}", law, tuple(args), kwargs)
        valid = _valid(law, shapes) & (scale > 0)
        out = [number(np.where(valid, summary(name, law, kind, order, shapes, loc, scale), np.nan)) for kind in kinds]
        return tuple(out) if len(out) > 1 else out[0]

    return method


def _central(name: str, what: str, ppf: Callable[..., Any]) -> Callable[..., Any]:
    """`median` or `interval`, from the quantiles."""
    if what == "median":
        return lambda *args, **kwargs: ppf(0.5, *args, **kwargs)

    def interval(confidence: Any, *args: Any, **kwargs: Any) -> Any:
        p = real(confidence, f"{name}.interval")
        return ppf((1 - p) / 2, *args, **kwargs), ppf((1 + p) / 2, *args, **kwargs)

    return interval


def _samples(law: Law, what: str) -> tuple[Sample, ...]:
    wrt = tuple(k for k, whole in enumerate([law.discrete, *_whole(law)]) if not whole)
    first = 0.37 if what in ("ppf", "isf") else law.at[0]
    spread = np.array([0.9, 1.0]) if not law.discrete else np.array([1, 1])

    return (Sample(lambda rng: (first * spread, *map(np.asarray, law.at[1:])), wrt=wrt),) if wrt else ()


def _parameters(law: Law, *before: Any) -> tuple[Sample, ...]:
    at = [*law.at[1:], *([] if law.discrete else [0.2, 1.3])]
    wrt = tuple(k for k, whole in enumerate([*_whole(law), *(False for _ in at[len(law.at) - 1 :])], len(before)) if not whole)
    return (Sample(lambda rng: (*before, *map(np.asarray, at)), wrt=wrt),) if wrt else ()


def _declare(name: str, law: Law) -> None:
    own = getattr(_scipy, name)

    def enter(what: str, method: Callable[..., Any], samples: tuple[Sample, ...]) -> None:
        method.__name__ = what
        implements(getattr(own, what), samples, name=f"scipy.stats.{name}.{what}")(method)

    for what in DISCRETE if law.discrete else CONTINUOUS:
        if what not in ("pdf", "logpdf", "pmf", "logpmf") and _formula(law, "sf" if what in ("sf", "logsf", "isf") else "cdf") is None:
            continue
        method = (_quantile if what in ("ppf", "isf") else _density)(name, law, what)
        enter(what, method, _samples(law, what))
        if what == "ppf":
            enter("median", _central(name, "median", method), _parameters(law))
            enter("interval", _central(name, "interval", method), _parameters(law, 0.8))
    for what in SUMMARIES:
        enter(what, _summary_of(name, law, what), _parameters(law, *([2] if what == "moment" else [])))


for _name, _each in {**LAWS, **MORE, **MASSES}.items():
    if hasattr(_scipy, _name):
        _declare(_name, _each)


_INSTEAD = {
    "rvs": "Draw with functrace.random, whose numbers have derivatives, or g",
    "fit": "Minimise the sum of -logpdf with functrace.scipy.optimize.minimize, or g",
    **dict.fromkeys(("cdf", "sf", "logcdf", "logsf"), "Integrate its pdf with functrace.scipy.integrate.quad, or g"),
}
_BEFORE = {"x", "q", "k", "order", "confidence", "moments"}  # the name of what a method takes beside the parameters


class Distribution:
    """One of SciPy's distributions; called with parameters it gives the distribution with these fixed."""

    def __init__(self, name: str, own: Any, args: tuple[Any, ...] | None = None, kwargs: Any = None) -> None:
        self._name, self._own, self._args, self._kwargs = name, own, args, kwargs or {}

    def __call__(self, *args: Any, **kwargs: Any) -> Distribution:
        return Distribution(self._name, self._own, args, kwargs)

    @functools.cached_property
    def _of_scipy(self) -> Any:
        fixed, named = self._args, self._kwargs
        return self._own if fixed is None or holds_tracer([*fixed, *named.values()]) else self._own(*fixed, **named)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # SciPy's, whose functions ask for it
        return type(self._of_scipy)

    def __reduce__(self) -> Any:
        return Distribution, (self._name, self._own, self._args, self._kwargs)

    def __getattr__(self, method: str) -> Any:
        if method.startswith("__") or "_own" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {method!r}")
        found = TABLE.get(f"scipy.stats.{self._name}.{method}")
        fixed, named = self._args or (), self._kwargs
        if found is not None:
            function = found.function
            if not fixed and not named:
                return function

            def of_fixed(*x: Any, **more: Any) -> Any:
                x = *x, *(more.pop(key) for key in [*more] if key in _BEFORE)
                if not x and method not in {*SUMMARIES, "median"} - {"moment"}:
                    raise TypeError(f"{self._name}.{method}() needs an argument beside the parameters, which are given")
                return function(*fixed, **named, moments=x[0], **more) if method == "stats" and x else function(*x, *fixed, **named, **more)

            return of_fixed
        own = getattr(self._of_scipy, method)
        if not isinstance(own, MethodType):
            return own

        def call(*args: Any, **kwargs: Any) -> Any:
            if holds_tracer([*args, *fixed, *kwargs.values(), *named.values()]):
                raise errors.UnsupportedError(
                    f"scipy.stats.{self._name}.{method} has no derivative rule in functrace.\n"
                    f"  {_INSTEAD.get(method, 'G')}ive it a rule with functrace.custom_vjp."
                )
            return own(*args, **kwargs)

        return call

    def __repr__(self) -> str:
        return f"<distribution {self._name}>"


REFUSED = _summary.REFUSED
gaussian_kde = _tests.gaussian_kde
_find, __dir__ = late(_scipy, REFUSED)


def __getattr__(name: str) -> Any:
    own = getattr(_scipy, name, None)
    if (hasattr(own, "rvs") or hasattr(own, "logpmf")) and not isinstance(own, type):
        return Distribution(name, own)
    try:
        return _find(name)
    except AttributeError as error:
        edge.trim(error)
        raise
