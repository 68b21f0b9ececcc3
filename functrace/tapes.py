"""`trace`: the tape of a function, to be read, drawn, or written as NumPy source."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, cast

from functrace import edge, errors
from functrace.core.tape import Tape
from functrace.transforms.naming import names_of
from functrace.transforms.tracing import returned, rows, taped

if TYPE_CHECKING:
    from functrace.drawing import Drawing

P = ParamSpec("P")


class TracedTape(Tape):
    """What `trace` gives: a tape that prints one op a line, and shows as a picture in a notebook.

    >>> import functrace as ft, numpy as np
    >>> tape = ft.trace(lambda x: np.sin(x) * 2)(1.0)
    >>> print(tape.to_python("twice").splitlines()[3])
    def twice(x):
    >>> tape.draw().svg[:4]
    '<svg'
    """

    __slots__ = ()

    def __str__(self) -> str:
        names = names_of(self)
        lines = [f"{names[k]} : {errors.describe(x)}" for k, x in enumerate(self.inputs)]
        for name, ans, call, line in rows(self, range(len(self.entries)), names):
            kind = " x ".join(map(errors.describe, ans)) if isinstance(ans, tuple) else errors.describe(ans)
            lines.append(f"{name} : {kind} = {call}{f'  # {os.path.basename(line)}' if line else ''}")
        return "\n".join([*lines, f"return {returned(self, names)}"])

    __repr__ = __str__

    def to_python(self, name: str = "f") -> str:
        """The tape as the source of a function of NumPy alone: see `functrace.compile.export.to_python`."""
        from functrace.compile.export import to_python

        return to_python(self, name)

    def draw(self, **options: Any) -> Drawing:
        """A picture of the tape: see `functrace.draw`."""
        from functrace.drawing import draw

        return draw(self, **options)

    def _repr_svg_(self) -> str:
        return self.draw().svg

    def _repr_html_(self) -> str:
        from functrace.drawing.page import to_html

        return to_html(self, self.draw()._repr_html_())


@edge.transform
def trace(f: Callable[P, Any]) -> Callable[P, TracedTape]:
    """A function that returns the tape of `f`: every op that ran, one a line, with names, shapes, dtypes and the user's line.

    Array and number leaves of the arguments are the tape's inputs. Transforms inside `f` show as the ops that they run.

    >>> import functrace as ft, numpy as np
    >>> tape = ft.trace(lambda x: np.sin(x) * 2)(1.0)
    >>> print(str(tape).split("  #")[0])
    x : float64[]
    %1 : float64[] = sin(x)
    """

    @edge.wraps(f, "trace")
    def traced(args: tuple[Any, ...], kwargs: dict[str, Any]) -> TracedTape:
        tape = taped(f, args, kwargs)
        tape.__class__ = TracedTape
        return cast("TracedTape", tape)

    return traced
