"""The optimisers: chains of the transformations of `functrace.optim.transforms`.

`learning_rate` is a number, a traced value (to differentiate through the optimiser), or a schedule: a function of the number of
updates so far.
"""

from __future__ import annotations

from typing import Any

from functrace import edge
from functrace.optim.transforms import (
    GradientTransformation,
    Rate,
    add_decayed_weights,
    chain,
    identity,
    scale_by_adagrad,
    scale_by_adam,
    scale_by_learning_rate,
    scale_by_lion,
    scale_by_rms,
    trace,
)


@edge.boundary
def sgd(learning_rate: Rate, momentum: Any = None, nesterov: bool = False) -> GradientTransformation:
    """Gradient descent, with momentum if that is given and not 0: for `momentum` and `nesterov` see `trace`.

    `learning_rate` is a number, a traced value, or a schedule.

    >>> from functrace import optim
    >>> opt = optim.sgd(0.1)
    >>> opt.update(2.0, opt.init(1.0))[0]
    np.float64(-0.2)
    """
    plain = momentum is None or (isinstance(momentum, (int, float)) and momentum == 0)
    return chain(identity() if plain else trace(momentum, nesterov), scale_by_learning_rate(learning_rate))


@edge.boundary
def momentum(learning_rate: Rate, decay: Any = 0.9, nesterov: bool = False) -> GradientTransformation:
    """Gradient descent with momentum: `t = g + decay * t`, a step of `-learning_rate * t` (Polyak 1964; Sutskever et al. 2013).

    For `nesterov` see `trace`.

    >>> from functrace import optim
    >>> opt = optim.momentum(0.1)
    >>> _, state = opt.update(2.0, opt.init(1.0))
    >>> opt.update(2.0, state)[0].round(12)
    np.float64(-0.38)
    """
    return sgd(learning_rate, decay, nesterov)


@edge.boundary
def adam(learning_rate: Rate, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8, eps_root: Any = 0.0) -> GradientTransformation:
    """Adam (Kingma & Ba 2015): see `scale_by_adam`, and for `learning_rate` see `sgd`.

    >>> from functrace import optim
    >>> opt = optim.adam(0.1)
    >>> opt.update(2.0, opt.init(1.0))[0].round(6)
    np.float64(-0.1)
    """
    return chain(scale_by_adam(b1, b2, eps, eps_root), scale_by_learning_rate(learning_rate))


@edge.boundary
def adamw(
    learning_rate: Rate, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8, weight_decay: Any = 1e-4, mask: Any = None, eps_root: Any = 0.0
) -> GradientTransformation:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2): the decay does not pass through the averages.

    `mask` says which parameters are decayed: see `add_decayed_weights`; for the rest see `scale_by_adam` and see `sgd`.

    >>> from functrace import optim
    >>> opt = optim.adamw(0.1, weight_decay=0.5)
    >>> opt.update(2.0, opt.init(1.0), 1.0)[0].round(6)
    np.float64(-0.15)
    """
    return chain(scale_by_adam(b1, b2, eps, eps_root), add_decayed_weights(weight_decay, mask), scale_by_learning_rate(learning_rate))


@edge.boundary
def lion(learning_rate: Rate, b1: Any = 0.9, b2: Any = 0.99, weight_decay: Any = 1e-3, mask: Any = None) -> GradientTransformation:
    """Lion (Chen et al. 2023): steps of one size, in the direction of the sign of an average; see `scale_by_lion`.

    For `learning_rate` see `sgd`, for `weight_decay` and `mask` see `add_decayed_weights`.

    >>> from functrace import optim
    >>> opt = optim.lion(0.1, weight_decay=0.0)
    >>> opt.update(2.0, opt.init(1.0), 1.0)[0]
    np.float64(-0.1)
    """
    return chain(scale_by_lion(b1, b2), add_decayed_weights(weight_decay, mask), scale_by_learning_rate(learning_rate))


@edge.boundary
def rmsprop(
    learning_rate: Rate, decay: Any = 0.9, eps: Any = 1e-8, centered: bool = False, momentum: Any = None, nesterov: bool = False
) -> GradientTransformation:
    """RMSprop (Tieleman & Hinton 2012): see `scale_by_rms`. Momentum, if any, is that of the scaled gradients (Graves 2013).

    For `learning_rate`, `momentum` and `nesterov` see `sgd`.

    >>> from functrace import optim
    >>> opt = optim.rmsprop(0.1, decay=0.75)
    >>> opt.update(2.0, opt.init(1.0))[0].round(6)
    np.float64(-0.2)
    """
    return chain(scale_by_rms(decay, eps, centered), sgd(learning_rate, momentum, nesterov))


@edge.boundary
def adagrad(learning_rate: Rate, initial_accumulator_value: Any = 0.0, eps: Any = 1e-10) -> GradientTransformation:
    """Adagrad (Duchi et al. 2011): see `scale_by_adagrad`, and for `learning_rate` see `sgd`.

    `initial_accumulator_value` is where the sum of squares begins.

    >>> from functrace import optim
    >>> opt = optim.adagrad(0.1)
    >>> opt.update(2.0, opt.init(1.0))[0].round(6)
    np.float64(-0.1)
    """
    return chain(scale_by_adagrad(initial_accumulator_value, eps), scale_by_learning_rate(learning_rate))
