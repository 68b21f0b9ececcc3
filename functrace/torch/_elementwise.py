"""The binding table of elementwise operations without rules of their own, and of the special functions that come from SciPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch import _dtypes
from functrace.torch._bind import bind, bound
from functrace.torch._contact import chosen, complex_of, rules
from functrace.torch._curves import in_blocks, scipy_special
from functrace.torch._ops import FUNCTIONS, SHIFTS, comparison, operator, public
from functrace.torch._shape import to
from functrace.torch._tensor import Tensor


def scipy(name: str) -> Callable[..., Any]:
    """A function of `functrace.scipy.special`, which is imported when it is first called."""

    def function(*args: Any) -> Any:
        special = scipy_special()
        if special is None:
            raise ImportError(f"torch.special: {name} comes from SciPy, which is not installed: pip install 'functrace[scipy]'")
        return getattr(special, name)(*args)

    return function


def pulled(name: str, k: int = 0) -> Callable[..., Any]:
    """The rule of argument k of a function of `functrace.scipy.special`, which is imported by then. It does not look into the result."""
    return lambda g, _ans, *args: rules(f"scipy.special.{name}").vjps[k](g, _ans, *args)


gammaln, digamma, polygamma, erfinv = map(scipy, ("gammaln", "digamma", "polygamma", "erfinv"))


@in_blocks
def _logits(x: Any, eps: Any) -> Any:
    x = x if eps is None else np.clip(x, eps, 1 - eps)
    return np.log(x / (1 - x))


@in_blocks
def _unlogit(g: Any, _r: Any, x: Any, eps: Any) -> Any:
    d = g / (x * (1 - x))
    return chosen((x < 0) | (x > 1), g.dtype.type(np.nan), d) if eps is None else chosen(~((x < eps) | (x > 1 - eps)), d)


def _polar(abs: Any, angle: Any) -> Any:
    return complex_of(abs * np.cos(angle), abs * np.sin(angle))


def _nan_to_num(input: Any, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    return np.nan_to_num(input, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


def _angle(input: Any) -> Any:
    return (
        np.angle(input)
        if input.dtype.kind == "c"
        else np.where(np.isnan(input), input, np.where(input < 0, math.pi, 0)).astype(input.dtype)
    )


def _sgn(input: Any) -> Any:
    if input.dtype.kind in "iu":
        return np.sign(input)
    size = np.abs(input)
    scaled = input / np.where(size == 0, 1, size)
    if input.dtype.kind == "f":
        scaled = np.where(np.isfinite(input), scaled, np.where(input == input, np.sign(input), 0))
    return np.where(size == 0, 0, scaled).astype(input.dtype)


def _heaviside(input: Any, values: Any) -> Any:
    return np.where(input == input, np.heaviside(input, values), 0).astype(input.dtype)


def _lgamma(input: Any) -> Any:
    return gammaln(np.maximum(input, np.finfo(input.dtype).min))  # at -inf C's is infinite, SciPy's -inf


_polygamma = bound("polygamma", "Polygamma", lambda input, n: polygamma(n, input), floating=True)


bind(
    {
        "lgamma": ("Lgamma", _lgamma, pulled("gammaln")),
        "digamma": ("Digamma", lambda input: digamma(input), pulled("psi")),
        "mvlgamma": ("Mvlgamma", lambda input, p: sum(gammaln(input - k / 2) for k in range(p)) + math.log(math.pi) * p * (p - 1) / 4),
        "erfinv": ("Erfinv", lambda input: erfinv(input), lambda g, r, _x: pulled("erfinv")(g, r, _x)),
        "logit": ("Logit", lambda input, eps=None: _logits(input, eps), _unlogit),
        "i0": ("I0", lambda input: getattr(scipy_special(), "i0", np.i0)(input)),
        "angle": ("Angle", _angle),
    },
    floating=True,
)
bind({"sgn": ("Sgn", _sgn)})
bind({"nan_to_num": ("NanToNum", _nan_to_num, lambda g, _r, x, *_values: chosen(np.isfinite(x), g))}, flat=True)
bind({"frexp": ("Frexp", lambda input: np.frexp(input))}, fields="mantissa exponent")
public(lambda self, n: _polygamma(self, n), "polygamma", torch=False)
public(lambda n, input: _polygamma(input, n), "polygamma", method=False)
bind(
    {
        "copysign": ("Copysign", lambda input, other: np.copysign(input, other), *rules("copysign").vjps),
        "ldexp": ("Ldexp", lambda input, other: input * np.exp2(other)),
        "logaddexp2": ("Logaddexp2", lambda input, other: np.logaddexp2(input, other), *rules("logaddexp2").vjps),
        "igamma": ("Igamma", lambda input, other: scipy("gammainc")(input, other)),
        "igammac": ("Igammac", lambda input, other: scipy("gammaincc")(input, other)),
    },
    operands=2,
    floating=True,
)
bind(
    {
        "complex": ("Complex", lambda real, imag: complex_of(real, imag), lambda g, _r, _x, _y: g.real, lambda g, _r, _x, _y: -g.imag),
        "polar": ("Polar", _polar),
    },
    operands=2,
    method=False,
)
bind({"heaviside": ("Heaviside", _heaviside)}, operands=2, constant="none")
bind(
    {"gcd": ("Gcd", lambda input, other: np.gcd(input, other)), "lcm": ("Lcm", lambda input, other: np.lcm(input, other))},
    operands=2,
    constant="zero",
)
bind(
    {
        "isneginf": ("Isneginf", lambda input: np.isneginf(input)),
        "isposinf": ("Isposinf", lambda input: np.isposinf(input)),
        "isreal": ("Isreal", lambda input: np.isreal(input)),
    },
    constant="zero",
)


for _name, _short in (("bitwise_left_shift", "lshift"), ("bitwise_right_shift", "rshift")):
    public(operator(_name, comparison(_short, SHIFTS[_short])), _name)


@public
def float_power(input: Any, exponent: Any) -> Any:
    """`input ** exponent` in float64 or complex128."""
    d = _dtypes.complex128 if _dtypes.result_type(input, exponent).category == _dtypes.COMPLEX else _dtypes.float64
    return FUNCTIONS["pow"](*(to(x, d) if isinstance(x, Tensor) else x for x in (input, exponent)))


public(FUNCTIONS["atan2"], "arctan2")


@public
def positive(input: Any) -> Any:
    """The tensor itself."""
    if input._a.dtype == np.bool_:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input
