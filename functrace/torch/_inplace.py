"""In-place forms: `x.name_(...)` computes `name` and lets `x`, its history included, be the result.

The arithmetic of training loops has its own path, `_views.inplace`; this one serves all other operations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch import _dtypes, _einsum, _elementwise, _moves, _operators, _scatter, _select, _summaries, linalg
from functrace.torch._nodes import SCALARS, RuleNode
from functrace.torch._operators import augmented
from functrace.torch._ops import FUNCTIONS, as_method, public
from functrace.torch._shape import COPY, FILL, ZERO
from functrace.torch._tensor import Tensor, wrap
from functrace.torch._views import apart, check_cast, check_result, inplace, opened, rebase


def _written(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if "out" in kwargs:
            raise TypeError(f"{method.__name__}() got an unexpected keyword argument 'out'")
        given, wanted = self, kwargs.get("dtype")
        if wanted is not None and wanted is not self.dtype:
            found, other = self.dtype.scalar.lower(), wanted.scalar.lower()
            raise RuntimeError(f"Bad in-place call: input tensor dtype {found} and output tensor dtype {other} should match")
        recorded = opened(self, (*args, *kwargs.values()))
        if recorded:  # the rules want the values from before
            given = wrap(np.copy(self._a))
            if self._rg:
                given._rg, given._edge = True, self._edge
        try:
            result = function(given, *args, **kwargs)
        except NotImplementedError:  # a result that could not be written is refused first
            if name in _ARITHMETIC and args and isinstance(args[0], (Tensor, *SCALARS)):
                check_cast(_dtypes.result_type(self, args[0]), self.dtype)
            raise
        a, new = self._a, result._a
        check_result(new, a)
        if a.dtype.kind == "c" and new.dtype.kind == "f":
            raise RuntimeError(f"In-place {name} is not supported for complex tensors.")
        if not recorded or a.dtype.kind not in "fc":
            a[...] = new
            self._ver[0] += 1
            return self
        node = result._edge[0] if result._rg else None
        first = node.edges[0] if node is not None and node.edges else None
        if node is None or result._base is not None or result._edge[1] or (self._base is not None and first != given._edge):
            return inplace(COPY, self, (result,))
        a[...] = new
        self._ver[0] += 1
        rebase(self, node)
        if isinstance(node, RuleNode) and "saved" in vars(node):  # not with what hooks keep, which is apart
            arguments, answer, params, checks = node.saved
            node.saved = arguments, answer, params, [(self._ver, self._ver[0], k) if c is result._ver else (c, v, k) for c, v, k in checks]
        return self

    method.__name__ = name + "_"
    return method


_NAMES = (
    "abs absolute addbmm addcdiv addcmul addmm addmv addr arccos arccosh arcsin arcsinh arctan arctan2 arctanh atan2 baddbmm bitwise_and "
    "bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor clamp clamp_max clamp_min clip copysign cumprod cumsum "
    "digamma divide eq erfinv fix float_power floor_divide fmod gcd ge greater greater_equal gt heaviside hypot i0 igamma igammac "
    "index_add index_copy index_fill index_put index_reduce lcm ldexp le lerp less less_equal lgamma logical_and logical_not logical_or "
    "logical_xor logit lt masked_fill masked_scatter mvlgamma nan_to_num ne negative nextafter not_equal polygamma pow put remainder "
    "renorm round scatter scatter_add scatter_reduce sgn square subtract tril triu true_divide xlogy"
)
_ARITHMETIC = frozenset(
    "atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign floor_divide fmod gcd heaviside hypot igamma "
    "lcm nextafter remainder xlogy".split()
)
_IN_TORCH = (
    "abs acos acosh addmv arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil clamp clamp_max clamp_min clip "
    "conj_physical cos cosh deg2rad erf erfc exp exp2 expm1 fill fix floor frac gcd i0 index_put lcm ldexp log log10 log1p log2 logit "
    "nan_to_num neg negative rad2deg reciprocal relu round rsqrt sigmoid sin sinc sinh sqrt square tan tanh trunc xlogy zero"
)
_ASSIGNED = {"mod": "remainder", "pow": "pow", "floordiv": "floor_divide", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift"}
_ASSIGNED.update({name: "bitwise_" + name for name in ("and", "or", "xor")})
_divided, _rounded = Tensor.div_, _written("div", FUNCTIONS["div"])


@as_method
def div_(self: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """`self / other` in place."""
    return _divided(self, other) if rounding_mode is None else _rounded(self, other, rounding_mode=rounding_mode)


@as_method
def fill_(self: Any, value: Any) -> Any:
    """Write one number everywhere."""
    if isinstance(value, Tensor):
        if value._a.ndim:
            raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value._a.ndim} dimensions.")
        return inplace(FILL[3], self, (apart(value, self),))
    inplace(FILL[2], _unexpanded(self), (), (_dtypes.held(value, self._a.dtype)[()],))
    return self


def _unexpanded(x: Any) -> Any:
    """A view of each element of an expanded tensor, once."""
    a = x._a
    again = type(a) is np.ndarray and 0 in a.strides and 0 not in a.shape
    return x[tuple(slice(None if s else 1) for s in a.strides)] if again else x


@as_method
def zero_(self: Any) -> Any:
    """Write zero everywhere."""
    inplace(ZERO, _unexpanded(self))
    return self


@as_method
def fill_diagonal_(self: Any, fill_value: Any, wrap: bool = False) -> Any:
    """One number along the diagonal; with `wrap` along those of the squares that a tall matrix is made of."""
    if self._a.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self._a.ndim == 2 and not wrap:
        self.diagonal().fill_(fill_value)
        return self
    if self._a.ndim > 2 and len(set(self._a.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    np.fill_diagonal(mask := np.zeros(self._a.shape, bool), True, wrap)
    return self.masked_fill_(_tensor(mask), fill_value)


_tensor = wrap


@as_method
def apply_(self: Any, callable: Callable[[Any], Any]) -> Any:
    """Every element replaced by what a Python function says; not for tensors that require grad."""
    if self._rg:
        raise RuntimeError("Can't call apply_() on Variable that requires grad. Use var.detach().apply_() instead.")
    self._a[...] = np.reshape([callable(x) for x in self._a.ravel().tolist()], self._a.shape)
    self._ver[0] += 1
    return self


def attach() -> None:
    """Give Tensor the in-place forms of all operations."""
    for name in _NAMES.split():
        public(_written(name, getattr(Tensor, name)), name + "_", torch=False)
    for name, spoken in _ASSIGNED.items():
        public(augmented(getattr(Tensor, spoken + "_")), f"__i{name}__", torch=False)
    for name in _IN_TORCH.split():
        FUNCTIONS[name + "_"] = getattr(Tensor, name + "_")


TABLES = _einsum, _elementwise, _moves, _operators, _scatter, _select, _summaries, linalg  # what makes those operations
