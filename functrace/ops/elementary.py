"""Elementwise leftovers: floating-point parts, several results, and integer ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.ops.create import lift, typed
from functrace.ops.kinds import constant, elementwise, general, same, undeclared_constant
from functrace.ops.registry import Sample, implements


def _between(*shape: int) -> Sample:
    return Sample(lambda rng: (rng.integers(-3, 3, size=shape) + rng.uniform(0.2, 0.8, size=shape),))


_PARTS = [_between(2, 3), _between(), _between(0)]

_fraction: Any = general("modf", lambda x: np.modf(x)[0], lambda g, _ans, _x: g, jvps=(same,), stacks=True)


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
    stacks=True,
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


nextafter = elementwise(
    "nextafter", np.nextafter, same, lambda t, _ans, _x, _y: np.zeros_like(t), note="the derivative is that of its first argument"
)
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
