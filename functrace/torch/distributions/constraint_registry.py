"""Functions from real numbers onto constraints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrace.torch.distributions import constraints, transforms
from functrace.torch.distributions.composed import CatTransform, StackTransform
from functrace.torch.distributions.multivariate import CorrCholeskyTransform, LowerCholeskyTransform, PositiveDefiniteTransform

Factory = Callable[[Any], Any]


class ConstraintRegistry:
    """Called with a constraint, what was registered for its class: a function from real numbers onto it."""

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Use `factory(constraint)` for a class of constraints, or that of a constraint; a decorator without `factory`."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, constraints.Constraint)):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        found = self._registry.get(type(constraint))
        if found is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return found(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _between(c: Any) -> Any:
    low, high = c.lower_bound, c.upper_bound
    unit = isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1)
    affine = transforms.AffineTransform
    return transforms.SigmoidTransform() if unit else transforms.ComposeTransform([transforms.SigmoidTransform(), affine(low, high - low)])


def _beyond(bound: Any, sign: int) -> Any:
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(bound, sign)])


def _joined(to: ConstraintRegistry, kind: Any) -> Factory:
    return lambda c: kind([to(part) for part in c.cseq], c.dim, *([c.lengths] if kind is CatTransform else []))


def _each(to: ConstraintRegistry) -> Factory:
    return lambda c: transforms.IndependentTransform(to(c.base_constraint), c.reinterpreted_batch_ndims)


_ONTO: list[tuple[Any, Factory]] = [
    (constraints.real, lambda c: transforms.identity_transform),
    (constraints.greater_than, lambda c: _beyond(c.lower_bound, 1)),
    (constraints.greater_than_eq, lambda c: _beyond(c.lower_bound, 1)),
    (constraints.less_than, lambda c: _beyond(c.upper_bound, -1)),
    (constraints.interval, _between),
    (constraints.half_open_interval, _between),
    (constraints.lower_cholesky, lambda c: LowerCholeskyTransform()),
    (constraints.positive_definite, lambda c: PositiveDefiniteTransform()),
    (constraints.positive_semidefinite, lambda c: PositiveDefiniteTransform()),
    (constraints.corr_cholesky, lambda c: CorrCholeskyTransform()),
]
for _to in (biject_to, transform_to):
    for _kind, _factory in _ONTO:
        _to.register(_kind, _factory)
    _to.register(constraints.independent, _each(_to))
    _to.register(constraints.cat, _joined(_to, CatTransform))
    _to.register(constraints.stack, _joined(_to, StackTransform))
biject_to.register(constraints.simplex, lambda c: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda c: transforms.SoftmaxTransform())
