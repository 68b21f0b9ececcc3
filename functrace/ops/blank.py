"""Blanks: arrays made while a function is traced, which are NumPy's until a traced value is written into them.

In `y = fnp.zeros(n); y[0] = x` with a traced `x` the array must become traced, and an ndarray can't. So while a trace is open,
`functrace.numpy` (and `np.zeros_like(x)` of a traced `x`) makes floating-point arrays as `Blank`s: handles of an array that belong
to the oldest of traces, the ground, which records nothing. Every op on them is NumPy's, its results are blanks again, and any
newer trace takes them for constants. A write of a traced value turns the handle, and those of its views, into tracers. Outside
of a trace plain ndarrays are made.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import numpy as np

from functrace import edge, tree
from functrace.core.tracer import Trace, Tracer
from functrace.ops.registry import holds_tracer


class _Ground(Trace):
    """What blanks belong to: older than every trace, and never closed."""

    def process(self, primitive: Any, args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        out = primitive.fun(*map(plain, args), *params)
        return tuple(map(blank, out)) if primitive.multi else blank(out)


_GROUND = _Ground("a constant")
_GROUND.id = 0


class Blank(Tracer):
    """A handle of a plain array into which traced values may be written."""

    __slots__ = ()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        out = self.below.view(np.ndarray)
        out.flags.writeable = False  # it would not see what is written to the handle later
        return np.array(out, dtype, copy=copy)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, Tracer) and type(x) is not Blank for x in (*inputs, *kwargs.get("out", ()))):
            return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)  # type: ignore[misc]
        made = getattr(ufunc, method)(*map(plain, inputs), **{k: _plain_tree(v) for k, v in kwargs.items()})
        out = kwargs.get("out", (None,))
        if out[0] is not None:
            return out if len(out) > 1 else out[0]
        return tuple(map(blank, made)) if isinstance(made, tuple) else blank(made)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        plain_args, plain_kwargs = _plain_tree(args), _plain_tree(kwargs)
        if not holds_tracer([*plain_args, *plain_kwargs.values()]):
            made = func(*plain_args, **plain_kwargs)
            if "out" in kwargs or any(type(x) is Blank and x.below is made for x in args):
                return next((x for x in (*args, *kwargs.values()) if type(x) is Blank and x.below is made), made)
            parts = made if isinstance(made, (tuple, list)) else (made,)
            if not any(isinstance(x, np.ndarray) and x.base is not None for x in parts):
                return type(made)(map(blank, made)) if type(made) in (tuple, list) else blank(made)
        return super().__array_function__(func, types, args, kwargs)  # type: ignore[misc]  # it remembers views

    def kept(self) -> Any:
        """The array; a tape makes it safe from later writes."""
        return self.below

    def __float__(self) -> float:
        return float(self.below)

    def __complex__(self) -> complex:
        return complex(self.below)

    def item(self, *args: Any) -> Any:
        """As NumPy's."""
        return self.below.item(*args)

    def tolist(self) -> Any:
        """As NumPy's."""
        return self.below.tolist()

    def __repr__(self) -> str:
        return repr(self.below)


def blank(x: Any) -> Any:
    """A newly made array as a handle that can take traced values, if a trace is open; anything else as it is."""
    return handle(x) if isinstance(x, np.ndarray) and x.dtype.kind in "fc" and _tracing() else x


def _tracing() -> bool:
    """Whether a traced function is running: asked of the stack, since a count of open traces is wrong after an interrupt."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code is not _RUN:
        frame = frame.f_back
    return frame is not None


_RUN = edge.raising_ours.__code__  # through which every trace runs its function


def handle(x: Any) -> Tracer:
    """A traced value as it is, and a plain array as a blank."""
    return x if isinstance(x, Tracer) else Blank(x, _GROUND, -1, None, 0)


def plain(x: Any) -> Any:
    """The array behind a blank; anything else as it is."""
    return x.below if type(x) is Blank else x


def apart(x: Any) -> Any:
    """Another handle of the same traced array: writes to the one do not reach the other."""
    if not isinstance(x, Tracer):
        return x
    return handle(x.below.copy()) if type(x) is Blank else x.kept()


def own(xs: Iterable[Any]) -> list[Any]:
    """Results to hand out: copies of arrays, other handles of traced ones."""
    return [np.array(x) if isinstance(x, np.ndarray) else apart(x) if isinstance(x, Tracer) else x for x in xs]


def run(fun: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """`fun` on copies of its arrays as handles, which have `.at`, as plain arrays do not."""
    args, kwargs = tree.map(lambda x: handle(np.array(x, subok=True)) if isinstance(x, np.ndarray) else x, (args, kwargs))
    try:
        return tree.map(plain, edge.raising_ours(lambda: fun(*args, **kwargs), ()))
    except AttributeError as error:
        if error.name == "at":
            error.args = (f"{error}: use functrace.numpy.at(x)[...], of any array",)
        raise


def _plain_tree(x: Any) -> Any:
    if type(x) in (tuple, list):
        return type(x)(map(_plain_tree, x))
    return {k: _plain_tree(v) for k, v in x.items()} if type(x) is dict else plain(x)


def making(function: Callable[..., Any], given: bool = False) -> Callable[..., Any]:
    """A function that makes arrays, made to return blanks; with `given` also for its first argument, where it returns that."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            out = function(*args, **kwargs)
        except Exception as error:
            edge.trim(error)
            raise
        return out if args and out is args[0] and not given else blank(out)

    return call
