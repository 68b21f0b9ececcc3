"""`np.vectorize` of functions of traced values."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace import errors
from functrace.core.tracer import value
from functrace.ops.create import lift
from functrace.ops.functions import reshape
from functrace.ops.rebased import rebased
from functrace.ops.registry import holds_tracer

_Rebased: Any = rebased(np.vectorize)


class vectorize(_Rebased):  # type: ignore[misc]
    """`np.vectorize`: a function of scalars, applied element by element; with a `signature`, of arrays.

    >>> import functrace as ft, functrace.numpy as fnp
    >>> relu = fnp.vectorize(lambda x: x if x > 0 else 0.0)
    >>> ft.grad(lambda x: relu(x).sum())(fnp.array([-1.0, 2.0]))
    array([0., 1.])
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the function; where traced values are among the arguments, one call for each element."""
        function = getattr(self, "pyfunc", None)
        if self.signature is not None or not callable(function) or not holds_tracer([*args, *kwargs.values()]):
            return super().__call__(*args, **kwargs)
        if self.excluded:
            raise errors.UnsupportedError("vectorize: excluded= needs plain arguments.")
        arrays = np.broadcast_arrays(*map(lift, (*args, *kwargs.values())))
        shape = arrays[0].shape
        lines = [reshape(a, (a.size,)) for a in arrays]
        if not lines[0].size:
            return super().__call__(*map(value, args), **{k: value(v) for k, v in kwargs.items()})
        each = ([line[k] for line in lines] for k in range(lines[0].size))
        rows = [function(*of[: len(args)], **dict(zip(kwargs, of[len(args) :]))) for of in each]
        columns = list(zip(*rows)) if isinstance(rows[0], tuple) else [rows]
        out = [np.reshape(lift(list(column)), shape) for column in columns]
        out = [x.astype(t) for x, t in zip(out, self.otypes)] if self.otypes else out
        return tuple(out) if isinstance(rows[0], tuple) else out[0]
