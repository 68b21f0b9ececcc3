"""`torch.special`: names for functions of `torch.`, and SciPy's, which need `pip install 'functrace[scipy]'`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch._apply import call
from functrace.torch._bind import bind
from functrace.torch._border import trimmed
from functrace.torch._contact import stop_gradient
from functrace.torch._elementwise import pulled, scipy
from functrace.torch._missing import missing
from functrace.torch._operators import DIGITS
from functrace.torch._ops import FUNCTIONS
from functrace.torch._views import taking_out

_SAME = (
    "digamma erf erfc erfinv exp2 expit=sigmoid expm1 gammainc=igamma gammaincc=igammac gammaln=lgamma i0 log1p log_softmax logit "
    "logsumexp multigammaln=mvlgamma polygamma psi=digamma sinc softmax xlogy"
)
_ONE = (
    "bessel_j0=j0 bessel_j1=j1 bessel_y0=y0 bessel_y1=y1 entr erfcx i0e i1 i1e log_ndtr modified_bessel_i0=i0 modified_bessel_i1=i1 "
    "modified_bessel_k0=k0 modified_bessel_k1=k1 ndtr ndtri scaled_modified_bessel_k0=k0e scaled_modified_bessel_k1=k1e"
)
_POLYNOMIALS = (
    "hermite_polynomial_h=hermite hermite_polynomial_he=hermitenorm laguerre_polynomial_l=laguerre legendre_polynomial_p=legendre"
)


def _pairs(names: str) -> list[tuple[str, str]]:
    return [(a, b or a) for a, _, b in (word.partition("=") for word in names.split())]


def _one(name: str) -> Callable[..., Any]:
    function = scipy(name)
    return lambda input: function(input)


def _two(name: str) -> Callable[..., Any]:
    function = scipy(name)
    return lambda input, other: function(input, other)


def _polynomial(family: str, shifted: bool = False) -> Callable[..., Any]:
    function = scipy("eval_" + family)

    def values(input: Any, n: Any) -> Any:
        n = np.asarray(stop_gradient(n), int)  # a degree has no derivative
        found = function(n, 2 * input - 1 if shifted else input)
        return found if np.all(n >= 0) else np.where(n >= 0, found, 0)

    return values


def _third(sign: int, shifted: bool = False) -> Callable[..., Any]:
    """Chebyshev's polynomials of the third and fourth kind (DLMF 18.7.5, 18.7.6)."""
    second = _polynomial("chebyu", shifted)
    return lambda input, n: second(input, n) + sign * second(input, np.asarray(stop_gradient(n), int) - 1)


def _node(name: str) -> str:
    return "Special" + name.title().replace("_", "")


_space: dict[str, Any] = {name: FUNCTIONS[theirs] for name, theirs in _pairs(_SAME)}
_BY_RESULT = ("erfcx", "log_ndtr", "ndtri")  # whose rules look into the result
_rows: dict[str, Any] = {name: (_node(name), _one(theirs), *[pulled(theirs)][: theirs not in _BY_RESULT]) for name, theirs in _pairs(_ONE)}
_rows["airy_ai"] = ("SpecialAiryAi", lambda x: scipy("airy")(x)[0])
_rows["spherical_bessel_j0"] = ("SpecialSphericalBesselJ0", lambda x: scipy("spherical_jn")(0, x))
bind(_rows, space=_space, floating=True)
_of_two: dict[str, Any] = {name: (_node(name), _two(name)) for name in ("xlog1py", "zeta")}
_of_two["xlog1py"] += tuple(pulled("xlog1py", k) for k in (0, 1))
bind(_of_two, space=_space, operands=2, floating=True)
_polynomials = {name: _polynomial(theirs) for name, theirs in _pairs(_POLYNOMIALS)}
for _shifted in (False, True):
    _kinds = _polynomial("chebyt", _shifted), _polynomial("chebyu", _shifted), _third(-1, _shifted), _third(1, _shifted)
    _polynomials |= {f"{'shifted_' * _shifted}chebyshev_polynomial_{letter}": fun for letter, fun in zip("tuvw", _kinds)}
bind({name: (_node(name), fun) for name, fun in _polynomials.items()}, space=_space, floating=True)
_space["round"] = taking_out("special_round", lambda input, *, decimals=0: call(DIGITS, (input,), (decimals,)))
globals().update(_space)
globals().update(trimmed(globals()))
__getattr__ = missing("torch.special")
