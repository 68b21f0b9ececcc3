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
    lower_bound: Any = None
    upper_bound: Any = None

    def check(self, value: Any) -> Any:
        """A bool tensor."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}()"


class _Dependent(Constraint):
    """What depends on other parameters, so that it can't be checked alone."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._known = {"is_discrete": is_discrete, "event_dim": event_dim}

    is_discrete = property(lambda self: self._stated("is_discrete"))
    event_dim = property(lambda self: self._stated("event_dim"))

    def _stated(self, name: str) -> Any:
        if self._known[name] is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return self._known[name]

    def __call__(self, **known: Any) -> Any:
        return _Dependent(**{**self._known, **known})

    def check(self, value: Any) -> Any:
        raise ValueError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    """A property that is a constraint, as `support` may be; of the class, a constraint that can't be checked."""

    def __init__(
        self, fn: Callable[[Any], Any] | None = None, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> None:
        super().__init__(fn)
        self._known = {"is_discrete": is_discrete, "event_dim": event_dim}

    def __call__(self, fn: Callable[[Any], Any]) -> Any:  # type: ignore[override]
        return _DependentProperty(fn, **self._known)


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint depends on other parameters, so that it can't be checked alone."""
    return isinstance(constraint, _Dependent)


class _Bounded(Constraint):
    """A constraint by its bounds."""

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={bound}" for name, bound in vars(self).items())
        return f"{type(self).__name__[1:]}({given})"


class _From(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _To(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound


class _Between(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound


class _GreaterThan(_From):
    """Numbers above a bound."""

    def check(self, value: Any) -> Any:
        return value > self.lower_bound


class _GreaterThanEq(_From):
    """Numbers from a bound on."""

    def check(self, value: Any) -> Any:
        return value >= self.lower_bound


class _LessThan(_To):
    """Numbers below a bound."""

    def check(self, value: Any) -> Any:
        return value < self.upper_bound


class _Interval(_Between):
    """Numbers between two bounds, which belong to it."""

    def check(self, value: Any) -> Any:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    """Numbers from a bound on, and below another."""

    def check(self, value: Any) -> Any:
        return (value >= self.lower_bound) & (value < self.upper_bound)


class _IntegerInterval(_Between):
    """Whole numbers between two bounds."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        return _whole(value, (value >= self.lower_bound) & (value <= self.upper_bound))


class _IntegerGreaterThan(_From):
    """Whole numbers from a bound on."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        return _whole(value, value >= self.lower_bound)


class _Multinomial(_To):
    """Vectors of counts that add up to no more than a bound."""

    is_discrete, event_dim = True, 1

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)

    __repr__ = Constraint.__repr__


def _whole(x: Any, inside: Any) -> Any:
    return inside & (x % 1 == 0) if x.is_floating_point() else inside


class _Within(Constraint):
    """A constraint on what a tensor has more of."""

    base_constraint: Any
    is_discrete = property(lambda self: self.base_constraint.is_discrete)
    event_dim = property(lambda self: self.base_constraint.event_dim)

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}({', '.join(map(repr, vars(self).values()))})"


class _IndependentConstraint(_Within):
    """A constraint on all elements of the last axes."""

    def __init__(self, base_constraint: Any, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    event_dim = property(lambda self: self.base_constraint.event_dim + self.reinterpreted_batch_ndims)

    def check(self, value: Any) -> Any:
        found, n = self.base_constraint.check(value), self.reinterpreted_batch_ndims
        if found.dim() < n:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return found.reshape(*found.shape[: found.dim() - n], -1).all(-1) if n else found


class MixtureSameFamilyConstraint(_Within):
    """That of the parts of a mixture."""

    def __init__(self, base_constraint: Any) -> None:
        self.base_constraint = base_constraint

    def check(self, value: Any) -> Any:
        return self.base_constraint.check(value)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Joined(Constraint):
    """A constraint for each part along an axis."""

    cseq: Any
    is_discrete = property(lambda self: any(c.is_discrete for c in self.cseq))
    event_dim = property(lambda self: max(c.event_dim for c in self.cseq))


class _Cat(_Joined):
    """A constraint for each part along an axis."""

    def __init__(self, cseq: Any, dim: int = 0, lengths: Any = None) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    def check(self, value: Any) -> Any:
        parts = value.split(self.lengths, self.dim)
        return FUNCTIONS["cat"]([c.check(v) for c, v in zip(self.cseq, parts)], self.dim)


class _Stack(_Joined):
    """A constraint for each entry along an axis."""

    def __init__(self, cseq: Any, dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim

    event_dim = property(lambda self: max(c.event_dim for c in self.cseq) + (self.dim < 0))

    def check(self, value: Any) -> Any:
        return FUNCTIONS["stack"]([c.check(v) for c, v in zip(self.cseq, value.unbind(self.dim))], self.dim)


def _kind(name: str, check: Callable[[Any], Any], event_dim: int = 0, is_discrete: bool = False) -> Any:
    """The only one of its class."""
    body = {"check": lambda self, value: check(value), "event_dim": event_dim, "is_discrete": is_discrete, "__module__": __name__}
    globals()[name] = kind = type(name, (Constraint,), body)
    return kind()


def _nonnegative_spectrum(x: Any, above: Callable[[Any], Any]) -> Any:
    found = symmetric.check(x)
    return tensor(above(np.linalg.eigvalsh(x.detach().numpy()).min(-1))) if bool(found.all()) else found


def _unit_rows(x: Any) -> Any:
    tolerance = finfo(x.dtype).eps * x.size(-1) * 10
    return lower_cholesky.check(x) & ((x.pow(2).sum(-1) - 1).abs() < tolerance).all(-1)


def _lower(x: Any) -> Any:
    return (x.tril() == x).flatten(-2).all(-1)


greater_than, greater_than_eq, less_than, multinomial = _GreaterThan, _GreaterThanEq, _LessThan, _Multinomial
interval, half_open_interval, integer_interval = _Interval, _HalfOpenInterval, _IntegerInterval
independent, cat, stack, dependent_property = _IndependentConstraint, _Cat, _Stack, _DependentProperty
dependent = _Dependent()
real = _kind("_Real", lambda x: x == x)
boolean = _kind("_Boolean", lambda x: (x == 0) | (x == 1), is_discrete=True)
positive, nonnegative, unit_interval = greater_than(0.0), greater_than_eq(0.0), interval(0.0, 1.0)
nonnegative_integer, positive_integer = _IntegerGreaterThan(0), _IntegerGreaterThan(1)
real_vector = independent(real, 1)
simplex = _kind("_Simplex", lambda x: (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6), 1)
one_hot = _kind("_OneHot", lambda x: ((x == 0) | (x == 1)).all(-1) & x.sum(-1).eq(1), 1, True)
lower_triangular = _kind("_LowerTriangular", _lower, 2)
lower_cholesky = _kind("_LowerCholesky", lambda x: _lower(x) & (x.diagonal(0, -2, -1) > 0).all(-1), 2)
square = _kind("_Square", lambda x: FUNCTIONS["full"](x.shape[:-2], x.shape[-2] == x.shape[-1]), 2)
symmetric = _kind("_Symmetric", lambda x: FUNCTIONS["isclose"](x, x.mT, atol=1e-6).all(-2).all(-1), 2)
positive_semidefinite = _kind("_PositiveSemidefinite", lambda x: _nonnegative_spectrum(x, lambda least: least >= 0), 2)
positive_definite = _kind("_PositiveDefinite", lambda x: _nonnegative_spectrum(x, lambda least: least > 0), 2)
corr_cholesky = _kind("_CorrCholesky", _unit_rows, 2)
__all__ = ["is_dependent"]
__all__ += [name for name, value in list(globals().items()) if name[0] != "_" and hasattr(value, "check")]
