"""What the parameters and the values of a distribution must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch._create import tensor
from functrace.torch._info import finfo
from functrace.torch._ops import FUNCTIONS


class Constraint:
    """A set of tensors: `check` says, for each element (or vector, or matrix), whether it belongs to it."""

    is_discrete: Any = False
    event_dim: Any = 0
    bounds: tuple[Any, Any] = (None, None)
    base: Any = None

    def check(self, value: Any) -> Any:
        """A bool tensor."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}()"


class Stated(Constraint):
    """A constraint by what it prints and checks."""

    def __init__(
        self,
        text: str,
        check: Callable[[Any], Any],
        event_dim: int = 0,
        discrete: bool = False,
        bounds: tuple[Any, Any] = (None, None),
        base: Any = None,
    ) -> None:
        self._text, self._check, self.event_dim, self.is_discrete = text, check, event_dim, discrete
        self.bounds, self.base = bounds, base

    def check(self, value: Any) -> Any:
        return self._check(value)

    def __repr__(self) -> str:
        return self._text


class _Dependent(Constraint):
    """What depends on other parameters, so that it can't be checked alone."""


class dependent_property(property, _Dependent):
    """A property that is a constraint, as `support` may be; of the class, a constraint that can't be checked."""

    def __init__(self, fn: Callable[[Any], Any] | None = None, *, is_discrete: Any = None, event_dim: Any = None) -> None:
        super().__init__(fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[[Any], Any]) -> dependent_property:
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)

    def __repr__(self) -> str:
        return "DependentProperty()"


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint depends on other parameters, so that it can't be checked alone."""
    return isinstance(constraint, _Dependent)


def _bounded(name: str, check: Callable[[Any], Any], low: Any = None, high: Any = None, discrete: bool = False) -> Constraint:
    """A constraint by what it calls itself and its bounds; of whole numbers nothing continuous leads to it."""
    given = ", ".join(f"{which}_bound={bound}" for which, bound in (("lower", low), ("upper", high)) if bound is not None)
    return Stated(f"{name}({given})", check, discrete=discrete, bounds=(None, None) if discrete else (low, high))


def greater_than(lower_bound: Any) -> Constraint:
    """Numbers above a bound."""
    return _bounded("GreaterThan", lambda x: x > lower_bound, lower_bound)


def greater_than_eq(lower_bound: Any) -> Constraint:
    """Numbers from a bound on."""
    return _bounded("GreaterThanEq", lambda x: x >= lower_bound, lower_bound)


def less_than(upper_bound: Any) -> Constraint:
    """Numbers below a bound."""
    return _bounded("LessThan", lambda x: x < upper_bound, None, upper_bound)


def interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Numbers between two bounds, which belong to it."""
    return _bounded("Interval", lambda x: (x >= lower_bound) & (x <= upper_bound), lower_bound, upper_bound)


def half_open_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Numbers from a bound on, and below another."""
    return _bounded("HalfOpenInterval", lambda x: (x >= lower_bound) & (x < upper_bound), lower_bound, upper_bound)


def integer_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Whole numbers between two bounds."""
    inside = lambda x: _whole(x, (x >= lower_bound) & (x <= upper_bound))
    return _bounded("IntegerInterval", inside, lower_bound, upper_bound, discrete=True)


def greater_than_or_equal_integer(lower_bound: int) -> Constraint:
    """Whole numbers from a bound on."""
    return _bounded("IntegerGreaterThan", lambda x: _whole(x, x >= lower_bound), lower_bound, discrete=True)


def _whole(x: Any, inside: Any) -> Any:
    return inside & (x % 1 == 0) if x.is_floating_point() else inside


def independent(base: Constraint, n: int) -> Constraint:
    """A constraint on all elements of the last `n` axes."""

    def check(x: Any) -> Any:
        found = base.check(x)
        return found.reshape(*found.shape[: found.dim() - n], -1).all(-1) if n else found

    return Stated(f"IndependentConstraint({base!r}, {n})", check, base.event_dim + n, base.is_discrete, base=base)


def _positive_definite(x: Any) -> Any:
    symmetric = FUNCTIONS["isclose"](x, x.mT, atol=1e-6).all(-2).all(-1)
    if not bool(symmetric.all()):
        return symmetric
    return tensor(np.linalg.eigvalsh(x.detach().numpy()).min(-1) > 0)


def cat(cseq: Any, dim: int = 0, lengths: Any = None) -> Constraint:
    """A constraint for each part along an axis."""
    parts = list(cseq)
    sizes = [1] * len(parts) if lengths is None else list(lengths)

    def check(x: Any) -> Any:
        return FUNCTIONS["cat"]([c.check(v) for c, v in zip(parts, x.split(sizes, dim))], dim)

    return Stated("Cat()", check, max(c.event_dim for c in parts), any(c.is_discrete for c in parts))


def stack(cseq: Any, dim: int = 0) -> Constraint:
    """A constraint for each entry along an axis."""
    parts = list(cseq)

    def check(x: Any) -> Any:
        return FUNCTIONS["stack"]([c.check(v) for c, v in zip(parts, x.unbind(dim))], dim)

    return Stated("Stack()", check, max(c.event_dim for c in parts) + (dim < 0), any(c.is_discrete for c in parts))


def _corr_cholesky(x: Any) -> Any:
    tolerance = finfo(x.dtype).eps * x.size(-1) * 10
    return lower_cholesky.check(x) & ((x.pow(2).sum(-1) - 1).abs() < tolerance).all(-1)


dependent = _Dependent()
real = Stated("Real()", lambda x: x == x)
boolean = Stated("Boolean()", lambda x: (x == 0) | (x == 1), discrete=True)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
nonnegative_integer = greater_than_or_equal_integer(0)
positive_integer = greater_than_or_equal_integer(1)
real_vector = independent(real, 1)
simplex = Stated("Simplex()", lambda x: (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6), 1)
one_hot = Stated("OneHot()", lambda x: ((x == 0) | (x == 1)).all(-1) & x.sum(-1).eq(1), 1, True)
lower_cholesky = Stated("LowerCholesky()", lambda x: (x.tril() == x).flatten(-2).all(-1) & (x.diagonal(0, -2, -1) > 0).all(-1), 2)
positive_definite = Stated("PositiveDefinite()", _positive_definite, 2)
corr_cholesky = Stated("CorrCholesky()", _corr_cholesky, 2)
