"""Schedules: functions of the number of updates so far, for use as a learning rate. The number may be traced.

Names of arguments are Optax's. Before `transition_begin` a schedule has its first value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from functrace import edge, errors
from functrace.optim.transforms import Schedule, number
from functrace.places import user_line


def _steps(what: str, name: str, n: Any) -> Any:
    if not number(what, name, n) > 0:
        raise ValueError(f"{what}: {name} must be positive, got {n!r}.\n  At {user_line(3)}.")
    return n


def _numbers(what: str, **values: Any) -> None:
    for name, x in values.items():
        number(what, name, x)


def _progress(count: Any, begin: Any, steps: Any) -> Any:
    """How far the transition is, from 0 to 1."""
    return np.clip((count - begin) / steps, 0.0, 1.0)


@edge.boundary
def constant(value: Any) -> Schedule:
    """Always `value`.

    >>> from functrace import optim
    >>> optim.constant(0.1)(1000)
    0.1
    """
    _numbers("constant", value=value)
    return lambda count: value


@edge.boundary
def linear(init_value: Any, end_value: Any, transition_steps: int, transition_begin: int = 0) -> Schedule:
    """On a straight line from `init_value` to `end_value`, and from then on that.

    It takes `transition_steps` updates, from `transition_begin` on.

    >>> from functrace import optim
    >>> rate = optim.linear(1.0, 0.0, 4)
    >>> [float(rate(k)) for k in (0, 1, 4, 9)]
    [1.0, 0.75, 0.0, 0.0]
    """
    _numbers("linear", init_value=init_value, end_value=end_value, transition_begin=transition_begin)
    _steps("linear", "transition_steps", transition_steps)
    return lambda count: init_value + (end_value - init_value) * _progress(count, transition_begin, transition_steps)


@edge.boundary
def exponential_decay(
    init_value: Any, transition_steps: int, decay_rate: Any, transition_begin: int = 0, staircase: bool = False, end_value: Any = None
) -> Schedule:
    """`init_value * decay_rate ** (count / transition_steps)`. Counting begins at `transition_begin`.

    Where `staircase`, the exponent is rounded down. `end_value` is the least value (the greatest, if `decay_rate` is above 1).

    >>> from functrace import optim
    >>> rate = optim.exponential_decay(1.0, 10, 0.25)
    >>> [float(rate(k)) for k in (0, 5, 10)]
    [1.0, 0.5, 0.25]
    """
    _numbers("exponential_decay", init_value=init_value, decay_rate=decay_rate, transition_begin=transition_begin)
    _numbers("exponential_decay", **{} if end_value is None else {"end_value": end_value})
    _steps("exponential_decay", "transition_steps", transition_steps)

    def schedule(count: Any) -> Any:
        exponent = np.maximum(count - transition_begin, 0) / transition_steps
        value = init_value * decay_rate ** (np.floor(exponent) if staircase else exponent)
        if end_value is None:
            return value
        return np.where(decay_rate < 1, np.maximum(value, end_value), np.minimum(value, end_value))[()]

    return schedule


@edge.boundary
def cosine_decay(init_value: Any, decay_steps: int, alpha: Any = 0.0, exponent: Any = 1.0) -> Schedule:
    """Half a wave of the cosine from `init_value` down to `alpha * init_value` (Loshchilov & Hutter 2017).

    It takes `decay_steps` updates; the wave is raised to the power `exponent`.

    >>> from functrace import optim
    >>> rate = optim.cosine_decay(1.0, 10)
    >>> [round(float(rate(k)), 6) for k in (0, 5, 10, 20)]
    [1.0, 0.5, 0.0, 0.0]
    """
    _numbers("cosine_decay", init_value=init_value, alpha=alpha, exponent=exponent)
    _steps("cosine_decay", "decay_steps", decay_steps)

    def schedule(count: Any) -> Any:
        wave = (1 + np.cos(np.pi * _progress(count, 0, decay_steps))) / 2
        return init_value * ((1 - alpha) * wave**exponent + alpha)

    return schedule


@edge.boundary
def warmup_cosine(init_value: Any, peak_value: Any, warmup_steps: int, decay_steps: int, end_value: Any = 0.0) -> Schedule:
    """A straight line up to `peak_value` in `warmup_steps`, then half a wave of the cosine; `decay_steps` counts both together.

    It begins at `init_value` and ends at `end_value`.

    >>> from functrace import optim
    >>> rate = optim.warmup_cosine(0.0, 1.0, 10, 30)
    >>> [round(float(rate(k)), 6) for k in (0, 5, 10, 20, 30)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    _numbers("warmup_cosine", init_value=init_value, peak_value=peak_value, end_value=end_value)
    _numbers("warmup_cosine", warmup_steps=warmup_steps, decay_steps=decay_steps)
    _steps("warmup_cosine", "decay_steps - warmup_steps", decay_steps - warmup_steps)

    def schedule(count: Any) -> Any:
        up = init_value + (peak_value - init_value) * _progress(count, 0, max(warmup_steps, 1))
        wave = (1 + np.cos(np.pi * _progress(count, warmup_steps, decay_steps - warmup_steps))) / 2
        return np.where(count < warmup_steps, up, end_value + (peak_value - end_value) * wave)[()]

    return schedule


@edge.boundary
def piecewise_constant(init_value: Any, boundaries_and_scales: Mapping[int, Any]) -> Schedule:
    """`init_value`, multiplied at each boundary (a number of updates) by its scale.

    `boundaries_and_scales` is a dict of them, in any order.

    >>> from functrace import optim
    >>> rate = optim.piecewise_constant(1.0, {10: 0.5, 20: 0.1})
    >>> [float(rate(k)) for k in (9, 10, 20)]
    [1.0, 0.5, 0.05]
    """
    if not isinstance(boundaries_and_scales, Mapping):
        raise errors.InputTypeError(
            f"piecewise_constant: boundaries_and_scales must be a dict, got {errors.describe(boundaries_and_scales)}.\n"
            f"  Write {{1000: 0.1}}, from update 1000 on a tenth."
        )
    for boundary, factor in boundaries_and_scales.items():
        _numbers("piecewise_constant", init_value=init_value, boundary=boundary, scale=factor)

    def schedule(count: Any) -> Any:
        value = init_value
        for boundary, factor in sorted(boundaries_and_scales.items()):
            value = value * np.where(count >= boundary, factor, 1.0)[()]
        return value

    return schedule
