"""Values through which no derivative flows: `stop_gradient` and `value`."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from functrace import edge, tree
from functrace.core.tracer import Tracer
from functrace.core.tracer import value as plain_value
from functrace.ops.kinds import stopped
from functrace.transforms.arguments import refuse_tensors

T = TypeVar("T")


@edge.boundary
def stop_gradient(x: T) -> T:
    """`x`, a pytree, as a constant: no derivative flows through it. Batching and recording see it as it is. Arrays are copied.

    >>> import functrace as ft
    >>> ft.grad(lambda x: x * ft.stop_gradient(x))(3.0)
    np.float64(3.0)
    """
    return tree.map(_constant, x)  # type: ignore[no-any-return]


def _constant(leaf: Any) -> Any:
    refuse_tensors("stop_gradient", [leaf], "Write x.detach().")
    leaf = stopped(leaf) if isinstance(leaf, Tracer) else leaf
    return leaf.copy("K") if isinstance(leaf, np.ndarray) else leaf  # a tape may need the array, and the caller may write to what it gets


@edge.boundary
def value(x: Any) -> Any:
    """The plain array behind a traced value (all levels of it); anything else unchanged.

    The derivative does not flow through it. Under `vmap` it has the batch axes in front, outermost first.

    >>> import functrace as ft, numpy as np
    >>> ft.grad(lambda x: x * ft.value(x))(3.0)
    np.float64(3.0)
    """
    refuse_tensors("value", [x], "Write x.detach().")
    return plain_value(x)
