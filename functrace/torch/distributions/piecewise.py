"""Functions of tensors in parts: each part along an axis has a function of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrace.torch._ops import FUNCTIONS
from functrace.torch.distributions import constraints
from functrace.torch.distributions.distribution import summed
from functrace.torch.distributions.transforms import Rising, Transform

T: Any = FUNCTIONS


class _Parts(Transform):
    """Functions of the parts of a tensor along `dim`."""

    transforms: list[Any]
    dim: int

    bijective = property(lambda self: all(t.bijective for t in self.transforms))

    def _split(self, x: Any) -> Sequence[Any]:
        raise NotImplementedError

    def _join(self, parts: Sequence[Any], dim: int) -> Any:
        raise NotImplementedError

    def _call(self, x: Any) -> Any:
        return self._join([t(part) for t, part in zip(self.transforms, self._split(x))], self.dim)

    def _inverse(self, y: Any) -> Any:
        return self._join([t._back(part) for t, part in zip(self.transforms, self._split(y))], self.dim)

    def _slopes(self, x: Any, y: Any) -> list[Any]:
        return [t.log_abs_det_jacobian(*parts) for t, *parts in zip(self.transforms, self._split(x), self._split(y))]


class CatTransform(_Parts):
    """Functions of parts of these lengths along an axis."""

    def __init__(self, tseq: Any, dim: int = 0, lengths: Any = None, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = list(tseq), dim
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths should have length {len(self.transforms)}, got {len(self.lengths)}")

    event_dim = property(lambda self: max(t.event_dim for t in self.transforms))
    length = property(lambda self: sum(self.lengths))
    domain = property(lambda self: constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths))
    codomain = property(lambda self: constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths))

    def _split(self, x: Any) -> Sequence[Any]:
        if not -x.dim() <= self.dim < x.dim() or x.size(self.dim) != self.length:
            raise AssertionError(f"CatTransform: axis {self.dim} should have length {self.length}, got shape {list(x.shape)}")
        return x.split(self.lengths, self.dim)  # type: ignore[no-any-return]

    def _join(self, parts: Sequence[Any], dim: int) -> Any:
        return T["cat"](list(parts), dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        n = self.event_dim
        slopes = [summed(slope, n - t.event_dim) for t, slope in zip(self.transforms, self._slopes(x, y))]
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + n
        return self._join(slopes, dim) if dim < 0 else sum(slopes)


class StackTransform(_Parts):
    """Functions of the entries along an axis."""

    def __init__(self, tseq: Any, dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = list(tseq), dim

    domain = property(lambda self: constraints.stack([t.domain for t in self.transforms], self.dim))
    codomain = property(lambda self: constraints.stack([t.codomain for t in self.transforms], self.dim))

    def _split(self, x: Any) -> Sequence[Any]:
        if not -x.dim() <= self.dim < x.dim() or x.size(self.dim) != len(self.transforms):
            raise AssertionError(f"StackTransform: axis {self.dim} should have length {len(self.transforms)}, got shape {list(x.shape)}")
        return x.unbind(self.dim)  # type: ignore[no-any-return]

    def _join(self, parts: Sequence[Any], dim: int) -> Any:
        return T["stack"](list(parts), dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self._join(self._slopes(x, y), self.dim)


class CumulativeDistributionTransform(Rising):
    """The distribution function of a distribution, which makes its numbers uniform."""

    codomain = constraints.unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    domain = property(lambda self: self.distribution.support)

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)
