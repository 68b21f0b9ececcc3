"""Invertible functions of tensors, with the logarithm of their slopes."""

from __future__ import annotations

import copy
import functools
import math
from typing import Any

import numpy as np

from functrace.torch._create import tensor
from functrace.torch._dtypes import Size
from functrace.torch._info import finfo
from functrace.torch._ops import FUNCTIONS
from functrace.torch._tensor import Tensor
from functrace.torch.distributions import constraints
from functrace.torch.distributions.distribution import summed
from functrace.torch.nn import functional

F: Any = functional
__all__ = ["identity_transform"]  # `torch.distributions` adds the classes


def _inside(p: Any) -> Any:
    """Numbers kept away from 0 and 1."""
    return p.clamp(min=finfo(p.dtype).tiny, max=1.0 - finfo(p.dtype).eps)


class Transform:
    """A function of tensors from `domain` to `codomain`. A subclass has `_call`, and if it is `bijective` `_inverse` and
    `log_abs_det_jacobian(x, y)`. With `cache_size=1` the last value is kept, so that its inverse is exact.
    """

    bijective: Any = False
    domain: Any = constraints.real
    codomain: Any = constraints.real

    def __init__(self, cache_size: int = 0) -> None:
        self._begin_cache(cache_size)
        super().__init__()  # that of a module, which a transform may be as well

    def _begin_cache(self, cache_size: int) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size, self._cached_x_y = cache_size, (None, None)

    event_dim = property(lambda self: self.domain.event_dim)

    @property
    def sign(self) -> Any:
        """1 where the function rises, -1 where it falls; one that does neither has none."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same function, with another `cache_size`."""
        if self._cache_size == cache_size:
            return self
        new = copy.copy(self)
        new.__dict__.pop("inv", None)
        new._begin_cache(cache_size)
        return new

    @functools.cached_property
    def inv(self) -> Any:
        """The function back."""
        return _InverseTransform(self)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._equality_key() == other._equality_key()

    __hash__ = None  # type: ignore[assignment]

    def _equality_key(self) -> Any:
        return id(self) if type(self).__init__ is not Transform.__init__ else ()

    def __call__(self, x: Any) -> Any:
        if x is self._cached_x_y[0]:
            return self._cached_x_y[1]
        y = self._call(x)
        if self._cache_size:
            self._cached_x_y = x, y
        return y

    def _call(self, x: Any) -> Any:
        raise NotImplementedError

    def _inv_call(self, y: Any) -> Any:
        if y is self._cached_x_y[1]:
            return self._cached_x_y[0]
        x = self._inverse(y)
        if self._cache_size:
            self._cached_x_y = x, y
        return x

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |det dy/dx|."""
        raise NotImplementedError

    def forward_shape(self, shape: Any) -> Any:
        """The shape of the result."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of the argument."""
        return shape

    def __repr__(self) -> str:
        return type(self).__name__ + "()"


class _InverseTransform(Transform):
    def __init__(self, transform: Any) -> None:
        super().__init__()
        self._inv = transform

    domain = property(lambda self: self._inv.codomain)
    codomain = property(lambda self: self._inv.domain)
    bijective = property(lambda self: self._inv.bijective)
    sign = property(lambda self: self._inv.sign)
    inv = property(lambda self: self._inv)

    def with_cache(self, cache_size: int = 1) -> Any:
        return self._inv.with_cache(cache_size).inv

    def _equality_key(self) -> Any:
        return self._inv._equality_key(), type(self._inv)

    def _call(self, x: Any) -> Any:
        return self._inv._inv_call(x)

    def _inverse(self, y: Any) -> Any:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"_InverseTransform({self._inv!r})"


class ComposeTransform(Transform):
    """Several functions, one after another."""

    def __init__(self, parts: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    @functools.cached_property
    def inv(self) -> Any:
        """The function back: the parts' own, the last one first."""
        back = ComposeTransform([part.inv for part in reversed(self.parts)])
        back.__dict__["inv"] = self
        return back

    bijective = property(lambda self: all(p.bijective for p in self.parts))
    sign = property(lambda self: functools.reduce(lambda s, p: s * p.sign, self.parts, 1))
    domain = property(lambda self: self._end([(p.domain, p.codomain) for p in self.parts]))
    codomain = property(lambda self: self._end([(p.codomain, p.domain) for p in reversed(self.parts)]))

    @staticmethod
    def _end(rows: Any) -> Any:
        """The constraint at the near end, on as many axes as the parts together look at."""
        if not rows:
            return constraints.real
        found, n = rows[0][0], rows[-1][1].event_dim
        for near, far in reversed(rows):
            n = max(n + near.event_dim - far.event_dim, near.event_dim)
        return constraints.independent(found, n - found.event_dim) if n > found.event_dim else found

    def _equality_key(self) -> Any:
        return [(type(p), p._equality_key()) for p in self.parts]

    def __call__(self, x: Any) -> Any:  # the parts keep their last values
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Any) -> Any:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if not self.parts:
            return x.new_zeros(x.shape)
        out, n = 0, self.domain.event_dim
        for part in self.parts:
            y = part(x)
            out = out + summed(part.log_abs_det_jacobian(x, y), n - part.domain.event_dim)
            n, x = n + part.codomain.event_dim - part.domain.event_dim, y
        return out

    def forward_shape(self, shape: Any) -> Any:
        return functools.reduce(lambda s, p: p.forward_shape(s), self.parts, shape)

    def inverse_shape(self, shape: Any) -> Any:
        return functools.reduce(lambda s, p: p.inverse_shape(s), reversed(self.parts), shape)

    def __repr__(self) -> str:
        return "ComposeTransform(\n    " + ",\n    ".join(repr(p) for p in self.parts) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A function of elements as one of the last axes together."""

    def __init__(self, base_transform: Any, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform, self.reinterpreted_batch_ndims = base_transform, reinterpreted_batch_ndims

    bijective = property(lambda self: self.base_transform.bijective)
    sign = property(lambda self: self.base_transform.sign)
    domain = property(lambda self: constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims))
    codomain = property(lambda self: constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims))

    def _equality_key(self) -> Any:
        return type(self.base_transform), self.base_transform._equality_key(), self.reinterpreted_batch_ndims

    def _call(self, x: Any) -> Any:
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        return self.base_transform._inv_call(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return summed(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class Rising(Transform):
    """A function of numbers that grow with them."""

    bijective = True
    sign: Any = 1


class ExpTransform(Rising):
    """exp(x)."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class PowerTransform(Rising):
    """x ** exponent, of positive numbers."""

    domain = codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent: Any = exponent if isinstance(exponent, Tensor) else tensor(float(exponent))

    sign = property(lambda self: self.exponent.sign())

    def _equality_key(self) -> Any:
        return self.exponent.tolist()

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return FUNCTIONS["broadcast_shapes"](shape, self.exponent.shape)

    inverse_shape = forward_shape


class SigmoidTransform(Rising):
    """1 / (1 + exp(-x))."""

    codomain = constraints.unit_interval

    def _call(self, x: Any) -> Any:
        return _inside(x.sigmoid())

    def _inverse(self, y: Any) -> Any:
        y = _inside(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(Rising):
    """log(1 + exp(x))."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return F.softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -F.softplus(-x)


class TanhTransform(Rising):
    """tanh(x)."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(Transform):
    """|x|."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class AffineTransform(Rising):
    """loc + scale * x; with `event_dim` 1 of vectors, 2 of matrices."""

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale = loc, scale
        self.domain = self.codomain = constraints.independent(constraints.real, event_dim) if event_dim else constraints.real

    @property
    def sign(self) -> Any:
        """That of the scale."""
        return FUNCTIONS["sign"](self.scale) if isinstance(self.scale, Tensor) else int(np.sign(self.scale))

    def _equality_key(self) -> Any:
        return tuple(v.tolist() if isinstance(v, Tensor) else v for v in (self.loc, self.scale))

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        scale = self.scale if isinstance(self.scale, Tensor) else tensor(self.scale, dtype=x.dtype)
        slope = FUNCTIONS["abs"](scale).log()
        return summed(slope.expand(x.shape), self.event_dim)

    def forward_shape(self, shape: Any) -> Any:
        return FUNCTIONS["broadcast_shapes"](shape, *(getattr(v, "shape", ()) for v in (self.loc, self.scale)))

    inverse_shape = forward_shape


class ReshapeTransform(Transform):
    """The last axes, of shape `in_shape`, in another shape."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")
        self.domain, self.codomain = (constraints.independent(constraints.real, len(s)) for s in (self.in_shape, self.out_shape))

    def _call(self, x: Any) -> Any:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Any) -> Any:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    @staticmethod
    def _changed(shape: Any, old: Any, new: Any) -> Any:
        if len(shape) < len(old):
            raise ValueError("Too few dimensions on input")
        lead = len(shape) - len(old)
        if tuple(shape[lead:]) != tuple(old):
            raise ValueError(f"Shape mismatch: expected {shape[lead:]} but got {old}")
        return Size((*shape[:lead], *new))

    def forward_shape(self, shape: Any) -> Any:
        return self._changed(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._changed(shape, self.out_shape, self.in_shape)


class SoftmaxTransform(Transform):
    """Softmax along the last axis, whose inverse is the logarithm."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Any) -> Any:
        probs = (x - x.max(-1, True)[0]).exp()
        return probs / probs.sum(-1, True)

    def _inverse(self, y: Any) -> Any:
        return y.log()


class StickBreakingTransform(Transform):
    """n numbers as n + 1 that are positive and add up to 1: parts of a stick, broken again and again."""

    bijective = True
    domain, codomain = constraints.real_vector, constraints.simplex

    @staticmethod
    def _left(x: Any) -> Any:
        return tensor(np.arange(x.shape[-1], 0, -1).astype(x._a.dtype)).log()

    def _call(self, x: Any) -> Any:
        z = _inside((x - self._left(x)).sigmoid())
        return F.pad(z, [0, 1], value=1) * F.pad((1 - z).cumprod(-1), [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        front = y[..., :-1]
        rest = (1 - front.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return front.log() - rest.log() + self._left(front)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = x - self._left(x)
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Any) -> Any:
        return (*shape[:-1], shape[-1] - 1)
