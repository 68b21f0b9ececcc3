"""What the upper layers make of a tape, as methods of it: its source, and pictures of it."""

from __future__ import annotations

from typing import Any

from functrace.core.tape import Tape


def to_python(tape: Tape, name: str = "f") -> str:
    """The tape as the source of a function of NumPy alone: see `functrace.compile.export.to_python`."""
    from functrace.compile.export import to_python

    return to_python(tape, name)


def draw(tape: Tape, **options: Any) -> Any:
    """A picture of the tape: see `functrace.draw`."""
    from functrace.drawing import draw

    return draw(tape, **options)


def to_svg(tape: Tape) -> str:
    """What a notebook shows: a picture."""
    svg: str = draw(tape).svg
    return svg


def to_html(tape: Tape) -> str:
    """What a notebook shows: a table of the ops, and a picture."""
    from functrace.drawing.page import to_html

    return to_html(tape, draw(tape)._repr_html_())


Tape.to_python, Tape.draw, Tape._repr_svg_, Tape._repr_html_ = to_python, draw, to_svg, to_html  # type: ignore[attr-defined]
