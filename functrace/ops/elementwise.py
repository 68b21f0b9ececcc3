"""Elementwise ops: one line each. A map says how a tangent, or a cotangent, is scaled; the conventions at kinks are in docs/.

Complex derivatives follow JAX and autograd: cotangents are not conjugated, holomorphic ops use one map for both modes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.core.reverse import fit
from functrace.core.tracer import Tracer
from functrace.ops.create import lift, typed
from functrace.ops.index import selected, where
from functrace.ops.kinds import constant, elementwise, general, same, undeclared, undeclared_constant
from functrace.ops.protocol import UFUNCS
from functrace.ops.registry import TABLE, Sample, apart, implements, plain_first

_LN2, _LN10 = float(np.log(2.0)), float(np.log(10.0))
_MANY = 1 << 12  # elements from which on a look at how they lie in memory pays
_WIDE, _POSITIVE, _UNIT, _AWAY = (-2.0, 2.0), (0.3, 2.5), (-0.9, 0.9), (0.5, 2.5)


def safe(x: Any, bad: Any, instead: float) -> Any:
    """`x`, but `instead` in `bad` places, whose results the rule throws away: nothing infinite is computed. They are rare: look before
    paying for them.
    """
    if type(bad) is np.ndarray and np.shape(x) == bad.shape and not np.count_nonzero(bad):
        return x
    return np.where(bad, x.dtype.type(instead) if hasattr(x, "dtype") else instead, x)


def _times(t: Any, n: Any, x: Any) -> Any:
    """`t * n * x`; of a cotangent that repeats elements, as that of a sum does, those that are in memory are multiplied first."""
    if type(t) is np.ndarray and t.size > _MANY and 0 in t.strides:
        return np.broadcast_to(n * t[tuple([slice(None if step else 1) for step in t.strides])], t.shape) * x
    return t * (n * x)


def _less(t: Any, _ans: Any, _x: Any, _y: Any) -> Any:
    return -t if t.shape == _y.shape else -fit(t, _y)  # what broadcasting repeated is summed first: fewer elements to negate


def _over(t: Any, ans: Any, _x: Any, y: Any) -> Any:
    return -t * ans / y if t.shape == y.shape else fit(t * ans, y) / -y


# arithmetic
add = elementwise("add", np.add, same, same)
subtract = elementwise("subtract", np.subtract, same, _less)
square = elementwise("square", np.square, lambda t, _ans, x: _times(t, 2, x))
multiply = elementwise("multiply", np.multiply, lambda t, _ans, _x, y: t * y, lambda t, _ans, x, _y: t * x, squared=square)
divide = elementwise(
    "divide",
    np.divide,
    lambda t, _ans, _x, y: t / y,
    _over,
    jvps=(lambda t, _ans, _x, y: t / y, lambda t, ans, _x, y: -t * ans / y),
    domain=((-2.0, 2.0), _AWAY),
)
negative = elementwise("negative", np.negative, lambda t, _ans, _x: -t)
positive = elementwise("positive", np.positive, lambda t, _ans, _x: +t)
reciprocal = elementwise("reciprocal", np.reciprocal, lambda t, ans, _x: -t * ans * ans, domain=_AWAY)


def _told(zero: Any, d: Any) -> Any:
    """`d`, zero by definition where `zero` is true: a `where` tells traces so."""
    return where(zero, np.zeros((), d.dtype), d) if isinstance(d, Tracer) else d


def _product(x: Any, n: Any) -> Any:
    """`x**n`; where that is a few products, or a root, by these: C's pow, which NumPy calls, takes twenty times as long."""
    if n == 1:
        return x
    if n == -0.5:
        return 1 / x**0.5
    if n % 1 or not 1 < abs(n) <= 8:
        return x**n
    if n < 0:
        return _product(1 / x, -n)
    even = square(_product(x, n // 2))
    return even * x if n % 2 else even


def _wide(x: Any, ans: Any) -> Any:
    """`x` in the dtype of the result: of short integers a logarithm has few digits, of those beside complex numbers it is real."""
    return typed(x if hasattr(x, "dtype") else np.asarray(x), ans.dtype)


def _power_x(t: Any, _ans: Any, x: Any, y: Any) -> Any:
    # y == 0 gives 0, whatever x: d/dx 1; but a y that may vary, where x is not 0, has a derivative there. Elsewhere x**(y-1) is
    # right at 0 to every order, as long as y stays a constant.
    if type(y) in (int, float) and y:
        return _times(t, y, _product(x, y - 1))
    y = _wide(y, _ans)
    zero = y == 0
    if isinstance(y, Tracer):
        zero = zero & ~(np.abs(x) >= np.finfo(y.dtype).tiny)
    return _told(zero, t * safe(y * x ** safe(y - 1, zero, 1.0), zero, 0.0))


def _power_y(t: Any, ans: Any, x: Any, y: Any) -> Any:
    x = _wide(x, ans)
    zero = x == 0
    return _told(zero, t * safe(ans * np.log(safe(x, zero, 1.0)), zero, 0.0))


power = elementwise("power", np.power, _power_x, _power_y, domain=(_POSITIVE, _WIDE), note="d/db 0**b is 0; d/da a**0 is 0")


MANY_POWERS = 64  # elements from which on the three calls of `by_magnitude` are worth it


def by_magnitude(x: Any, n: Any) -> Any:
    """`x**n` for real numbers and a whole n."""
    size = np.power(np.absolute(x), n)
    return np.copysign(size, x) if n % 2 else size


# `power` of many real numbers and a whole number. NumPy hands negative bases to C one by one, which takes thirty times as long.
whole_power = undeclared("whole_power", by_magnitude, lambda t, _ans, x, n: _times(t, n, _product(x, n - 1)), None)

float_power = elementwise("float_power", np.float_power, _power_x, _power_y, domain=(_POSITIVE, _WIDE))

_WRAPPED: Any = {
    "domain": (_AWAY, (3.0, 4.0)),
    "samples": [Sample(lambda rng: (rng.uniform(-9, -8.1, size=3), rng.uniform(3, 3.9)), wrt=(0, 1))],
}
remainder = elementwise("remainder", np.remainder, same, lambda t, _ans, x, y: -t * np.floor_divide(x, y), **_WRAPPED)
fmod = elementwise("fmod", np.fmod, same, lambda t, ans, x, y: -t * np.rint((x - ans) / y), **_WRAPPED)

# exponents and logarithms
exp = elementwise("exp", np.exp, lambda t, ans, _x: t * ans)
exp2 = elementwise("exp2", np.exp2, lambda t, ans, _x: t * (ans * _LN2))
expm1 = elementwise("expm1", np.expm1, lambda t, _ans, x: t * np.exp(x))  # ans + 1 has few right digits where x is very negative
log = elementwise("log", np.log, lambda t, _ans, x: t / x, domain=_POSITIVE)
log2 = elementwise("log2", np.log2, lambda t, _ans, x: t / (x * _LN2), domain=_POSITIVE)
log10 = elementwise("log10", np.log10, lambda t, _ans, x: t / (x * _LN10), domain=_POSITIVE)
log1p = elementwise("log1p", np.log1p, lambda t, _ans, x: t / (x + 1), domain=(-0.7, 2.0))
sqrt = elementwise("sqrt", np.sqrt, lambda t, ans, _x: t * 0.5 / ans, domain=_POSITIVE)
cbrt = elementwise("cbrt", np.cbrt, lambda t, ans, _x: t / (3 * ans) / ans, domain=_POSITIVE)


def logistic(x: Any) -> Any:
    """1 / (1 + exp(-x)) of real numbers, without overflow. For functions of ops, not for rules: its own steps have kinks at 0."""
    z = np.exp(-np.abs(x))
    return np.maximum(z, np.sign(x)) / (1 + z)


def _weigh(x: Any, y: Any) -> Any:
    """The weight of x in logaddexp(x, y), exp(x) / (exp(x) + exp(y)): 1/2 at ties, but 0 where both are -inf."""
    infinite = np.isinf(x if np.size(x) < np.size(y) else y)
    if not (isinstance(infinite, Tracer) or np.any(infinite)):
        return logistic(x - y)
    tie = (x == y) & infinite
    return logistic(safe(x, tie & (x > 0), 0.0) - safe(y, tie, 0.0))


_weight: Any = undeclared(
    "logaddexp_weight", _weigh, lambda t, ans, x, y: t * (ans * _weight(y, x)), lambda t, ans, x, y: -t * (ans * _weight(y, x))
)
logaddexp = elementwise(
    "logaddexp",
    np.logaddexp,
    lambda t, _ans, x, y: t * _weight(x, y),
    lambda t, _ans, x, y: t * _weight(y, x),
    note="1/2 each at ties, 0 where both are -inf",
)
logaddexp2 = elementwise(
    "logaddexp2",
    np.logaddexp2,
    lambda t, _ans, x, y: t * _weight(x * _LN2, y * _LN2),
    lambda t, _ans, x, y: t * _weight(y * _LN2, x * _LN2),
)

# trigonometric and hyperbolic
sin = elementwise("sin", np.sin, lambda t, _ans, x: t * np.cos(x))
cos = elementwise("cos", np.cos, lambda t, _ans, x: -t * np.sin(x))
tan = elementwise("tan", np.tan, lambda t, ans, _x: t * (1 + ans * ans), domain=(-1.0, 1.0))


def _slope(x: Any, root: Any, inverse: Any, cofunction: Any) -> Any:
    """The root in the derivative of an inverse function; of complex `x` on the right side of the branch cut."""
    return cofunction(inverse(x)) if x.dtype.kind == "c" else root(x)


# cos(arcsin(x)), whose own slope cancels at small x if it is found step by step
_coroot: Any = undeclared("coroot", lambda x: np.sqrt((1 - x) * (1 + x)), lambda t, ans, x: -t * x / ans)

arcsin = elementwise("arcsin", np.arcsin, lambda t, _ans, x: t / _slope(x, _coroot, np.arcsin, np.cos), domain=_UNIT)
arccos = elementwise("arccos", np.arccos, lambda t, _ans, x: -t / _slope(x, _coroot, np.arccos, np.sin), domain=_UNIT)
arctan = elementwise("arctan", np.arctan, lambda t, _ans, x: t / (1 + x * x))
sinh = elementwise("sinh", np.sinh, lambda t, _ans, x: t * np.cosh(x))
cosh = elementwise("cosh", np.cosh, lambda t, _ans, x: t * np.sinh(x))
tanh = elementwise("tanh", np.tanh, lambda t, ans, _x: t * (1 - ans * ans))
arcsinh = elementwise("arcsinh", np.arcsinh, lambda t, _ans, x: t / _slope(x, lambda x: np.hypot(x, 1), np.arcsinh, np.cosh))
arccosh = elementwise(
    "arccosh",
    np.arccosh,
    lambda t, _ans, x: t / _slope(x, lambda x: np.sqrt(x - 1) * np.sqrt(x + 1), np.arccosh, np.sinh),
    domain=(1.2, 3.0),
    samples=[Sample(lambda rng: (np.array([-2 + 0.3j, 0.5 - 1j, -1.5 - 2j]),))],
)
_below_one: Any = undeclared("one_minus_square", lambda x: (1 - x) * (1 + x), lambda t, _ans, x: t * (-2 * x))
arctanh = elementwise("arctanh", np.arctanh, lambda t, _ans, x: t / _below_one(x), domain=_UNIT)
deg2rad = elementwise("deg2rad", np.deg2rad, lambda t, _ans, _x: t * (np.pi / 180))
radians = elementwise("radians", np.radians, lambda t, _ans, _x: t * (np.pi / 180))
rad2deg = elementwise("rad2deg", np.rad2deg, lambda t, _ans, _x: t * (180 / np.pi))
degrees = elementwise("degrees", np.degrees, lambda t, _ans, _x: t * (180 / np.pi))


def _planar(numerator: Any, x: Any, y: Any) -> Any:
    """numerator / (x*x + y*y), and 0 at the origin and infinity; nothing on the way over- or underflows."""
    norm = np.hypot(x, y)
    flat = (norm == 0) | (norm == np.inf)
    norm = safe(norm, flat, 1.0)
    return safe(numerator / norm / norm, flat, 0.0)


arctan2 = elementwise(
    "arctan2",
    np.arctan2,
    lambda t, _ans, x, y: t * _planar(y, x, y),
    lambda t, _ans, x, y: -t * _planar(x, x, y),
    domain=(_AWAY, _AWAY),
    note="both derivatives are 0 at (0, 0)",
)


def _nothing(t: Any, _ans: Any, _x: Any, _y: Any) -> Any:
    """A zero derivative, made by a selection: to masks it is nothing, even times infinity."""
    return where(np.False_, t, np.zeros((), t.dtype))


heaviside = elementwise(
    "heaviside",
    np.heaviside,
    _nothing,
    lambda t, _ans, x, _y: selected(np.equal(x, 0), t),
    domain=(_AWAY, _WIDE),
    samples=[Sample(lambda rng: (np.array([-1.0, 0.0, 2.0]), rng.normal(size=3)), wrt=(1,))],
    note="constant but for the second argument where the first is 0",
)


_cosine: Any = undeclared(  # x / hypot(x, y), which is known, and whose slope is not found through it: that cancels
    "cosine",
    lambda x, y, norm: _direction(x, norm),
    lambda t, _ans, x, y, norm: t * _cosine(y, x, norm) * _planar(y, x, y),
    lambda t, _ans, x, y, norm: -t * _cosine(y, x, norm) * _planar(x, x, y),
    None,
)


def _direction(x: Any, ans: Any) -> Any:
    """x / ans, and 0 where ans is 0: the zero subgradient of a norm."""
    zero = ans == 0
    return safe(x / safe(ans, zero, 1.0), zero, 0.0)


hypot = elementwise(
    "hypot",
    np.hypot,
    lambda t, ans, x, y: t * _cosine(x, y, ans),
    lambda t, ans, x, y: t * _cosine(y, x, ans),
    note="zero subgradient at (0, 0)",
)


# kinks: at a tie the arguments share evenly, so the shares sum to 1
def _sign_pull(g: Any, ans: Any, x: Any) -> Any:
    return g * np.sign(x) if x.dtype.kind != "c" else g * np.conjugate(_direction(x, ans))


def _sign_push(t: Any, ans: Any, x: Any) -> Any:
    return t * np.sign(x) if x.dtype.kind != "c" else np.real(t * np.conjugate(_direction(x, ans)))


_SIGNED: Any = {"domain": _AWAY, "samples": [Sample(lambda rng: (rng.uniform(-2, -0.3, size=(2, 3)),))]}
absolute = elementwise("absolute", np.absolute, _sign_pull, jvps=(_sign_push,), note="zero subgradient at 0", **_SIGNED)
fabs = elementwise("fabs", np.fabs, lambda t, _ans, x: t * np.sign(x), **_SIGNED)


def _pick(t: Any, ans: Any, mine: Any, other: Any) -> Any:
    """t where the result is `mine`, half of it at ties."""
    if type(other) in (int, float) and other == other:
        return _shared(t, ans != other, mine == other)
    return _shared(t, (mine == ans) | (mine != mine), mine == other)


def _shared(t: Any, chosen: Any, tie: Any) -> Any:
    """t where it is chosen, half of it at ties. Ties are rare: look before paying for them, unless that asks a traced value."""
    if isinstance(tie, Tracer) or np.count_nonzero(tie):
        chosen = np.where(tie, t.dtype.type(0.5), chosen.astype(t.dtype))
    return selected(chosen, t)


def _pick_number(t: Any, ans: Any, mine: Any, other: Any) -> Any:
    """`_pick` for fmax and fmin, which pass over NaN."""
    return _shared(t, mine == ans, mine == other)


def _extreme(ufunc: Any, pick: Any) -> Any:
    return elementwise(
        ufunc.__name__,
        ufunc,
        lambda t, ans, x, y: pick(t, ans, x, y),
        lambda t, ans, x, y: pick(t, ans, y, x),
        domain=((-2.0, 0.0), (0.3, 2.0)),
        samples=[Sample(lambda rng: (2 * apart((2, 3))(rng)[0], 2 * apart((3,))(rng)[0] + 0.3), wrt=(0, 1))],
        note="1/2 each at ties",
    )


maximum, minimum = _extreme(np.maximum, _pick), _extreme(np.minimum, _pick)
fmax, fmin = _extreme(np.fmax, _pick_number), _extreme(np.fmin, _pick_number)
copysign = elementwise(
    "copysign",
    np.copysign,
    lambda t, _ans, x, y: t * (np.sign(x) * np.copysign(1, y)).astype(t.dtype),
    _nothing,
    domain=(_AWAY, _AWAY),
)

# complex parts: linear over the reals, and their own transposes up to a conjugation
conjugate = elementwise("conjugate", np.conjugate, lambda t, _ans, _x: np.conjugate(t))
real = elementwise("real", np.real, lambda g, _ans, _x: g.astype(_x.dtype), jvps=(lambda t, _ans, _x: np.real(t),))
imag = elementwise(
    "imag",
    np.imag,
    lambda g, _ans, _x: (g * -1j if _x.dtype.kind == "c" else 0 * g).astype(_x.dtype),
    jvps=(lambda t, _ans, _x: np.imag(t),),
)

# piecewise constant, and comparisons
floor = constant("floor", np.floor)
ceil = constant("ceil", np.ceil)
trunc = constant("trunc", np.trunc)
rint = constant("rint", np.rint)
sign = constant("sign", np.sign)
_complex_sign = undeclared(
    "complex_sign",
    np.sign,
    lambda g, ans, x: np.conjugate(ans) * _direction(np.imag(g * ans) * 1j, np.absolute(x)),
    jvps=(lambda t, ans, x: ans * _direction(np.imag(np.conjugate(ans) * t) * 1j, np.absolute(x)),),
)


def _sign(x: Any, /) -> Any:
    """`np.sign`: of complex numbers x / |x|, which is no constant."""
    return _complex_sign(x) if x.dtype.kind == "c" else sign(x)


UFUNCS[np.sign] = _sign
TABLE["sign"] = TABLE["sign"]._replace(function=plain_first(np.sign, _sign), note="of complex numbers it is differentiable")
signbit = constant("signbit", np.signbit)
isnan = constant("isnan", np.isnan)
isinf = constant("isinf", np.isinf)
isfinite = constant("isfinite", np.isfinite)
logical_not = constant("logical_not", np.logical_not)
floor_divide = constant("floor_divide", np.floor_divide, 2, domain=((-2.0, 2.0), _AWAY))
equal = constant("equal", np.equal, 2)
not_equal = constant("not_equal", np.not_equal, 2)
less = constant("less", np.less, 2)
less_equal = constant("less_equal", np.less_equal, 2)
greater = constant("greater", np.greater, 2)
greater_equal = constant("greater_equal", np.greater_equal, 2)
logical_and = constant("logical_and", np.logical_and, 2)
logical_or = constant("logical_or", np.logical_or, 2)
logical_xor = constant("logical_xor", np.logical_xor, 2)


def _bools(*shapes: tuple[int, ...]) -> Sample:
    return Sample(lambda rng: tuple(rng.random(shape) > 0.5 for shape in shapes), wrt=())


bitwise_and = constant("bitwise_and", np.bitwise_and, 2, samples=[_bools((2, 3), (3,))])
bitwise_or = constant("bitwise_or", np.bitwise_or, 2, samples=[_bools((2, 3), (3,))])
bitwise_xor = constant("bitwise_xor", np.bitwise_xor, 2, samples=[_bools((2, 3), (3,))])
invert = constant("invert", np.invert, samples=[_bools((2, 3))])


# floating-point parts, several results, and integer ops


def _between(*shape: int) -> Sample:
    return Sample(lambda rng: (rng.integers(-3, 3, size=shape) + rng.uniform(0.2, 0.8, size=shape),))


_PARTS = [_between(2, 3), _between(), _between(0)]

_fraction: Any = general("modf", lambda x: np.modf(x)[0], lambda g, _ans, _x: g, jvps=(same,), stacks=0)


@implements(np.modf, _PARTS, note="the integral part is a constant")
def modf(x: Any, /) -> Any:
    part = _fraction(x := lift(x))
    return part, typed(np.trunc(x), part.dtype)


_scaled: Any = general(
    "ldexp",
    np.ldexp,
    lambda g, _ans, _x, power: np.ldexp(g, power),
    None,
    jvps=(lambda t, _ans, _x, power: np.ldexp(t, power), None),
    stacks=0,
)


@implements(
    np.ldexp,
    [
        Sample(lambda rng: (rng.normal(size=(2, 3)), rng.integers(-3, 4, size=3))),
        Sample(lambda rng: (rng.normal(), 2)),
        Sample(lambda rng: (rng.normal(size=3), rng.integers(-3, 4, size=(2, 1)))),
    ],
)
def ldexp(x1: Any, x2: Any, /) -> Any:
    """`np.ldexp`: linear in the first argument, the second is an integer."""
    return _scaled(lift(x1), lift(x2))


_exponent = undeclared_constant("frexp_exponent", lambda x: np.frexp(x)[1])


def _between_powers(*shape: int) -> Sample:
    return Sample(lambda rng: (rng.uniform(1.2, 1.7, size=shape) * 2.0 ** rng.integers(-2, 3, size=shape),))


@implements(np.frexp, [_between_powers(2, 3), _between_powers(), _between_powers(0)], note="the exponent is a constant")
def frexp(x: Any, /) -> Any:
    x = lift(x)
    exponent = _exponent(x)
    return _scaled(x, -exponent), exponent


@implements(
    np.divmod,
    [
        Sample(
            lambda rng: (rng.choice([-1.0, 1.0], size=(2, 3)) * rng.uniform(0.5, 2, size=(2, 3)), rng.uniform(3, 4, size=3)), wrt=(0, 1)
        ),
        Sample(lambda rng: (rng.uniform(5.6, 5.9, size=3), rng.uniform(1.7, 1.75)), wrt=(0, 1)),
    ],
)
def divmod(x1: Any, x2: Any, /) -> Any:
    return np.floor_divide(x1, x2), np.remainder(x1, x2)


nextafter = elementwise("nextafter", np.nextafter, same, _nothing, note="the derivative is that of its first argument")
spacing = constant("spacing", np.spacing)


def _integers(low: int, high: int, *shapes: tuple[int, ...]) -> Sample:
    return Sample(lambda rng: tuple(rng.integers(low, high, size=shape) for shape in shapes), wrt=())


left_shift = constant(
    "left_shift", np.left_shift, 2, samples=[_integers(0, 9, (2, 3), (3,))], synonyms=(getattr(np, "bitwise_left_shift", None),)
)
right_shift = constant(
    "right_shift", np.right_shift, 2, samples=[_integers(0, 9, (2, 3), (3,))], synonyms=(getattr(np, "bitwise_right_shift", None),)
)
bitwise_count = constant("bitwise_count", np.bitwise_count, samples=[_integers(0, 99, (2, 3))])
gcd = constant("gcd", np.gcd, 2, samples=[_integers(1, 99, (2, 3), (3,))])
lcm = constant("lcm", np.lcm, 2, samples=[_integers(1, 99, (2, 3), (3,))])
isnat = constant("isnat", np.isnat, samples=[Sample(lambda rng: (np.array(["2020-01-01", "NaT"], "datetime64[D]"),), wrt=())])
