"""`draw`: pictures of tapes and of tensors' histories, as SVG, Graphviz DOT and Mermaid, without any other program."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from functrace import edge, errors
from functrace.compile.jit import Jitted
from functrace.compile.program import Program
from functrace.core.tape import Tape
from functrace.drawing import graph as _graph
from functrace.drawing.folding import fold as _fold
from functrace.drawing.graph import Graph
from functrace.drawing.svg import to_dot, to_mermaid, to_svg
from functrace.drawing.tensors import history, is_tensor, names_in
from functrace.places import user_frame
from functrace.transforms.tracing import taped

__all__ = ["Drawing", "draw"]

_FORMATS: dict[str, Callable[[Graph], str]] = {"svg": to_svg, "dot": to_dot, "mermaid": to_mermaid}
_SUFFIXES = {".svg": "svg", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".mermaid": "mermaid"}


class Drawing:
    """A picture, as `draw` makes it: `svg`, `dot` and `mermaid` are its texts, `graph` its boxes and arrows.

    `str` of it is its text in `format`, if given.

    >>> import functrace as ft, numpy as np
    >>> drawing = ft.draw(ft.trace(lambda x: np.sin(x) * x)(1.0))
    >>> drawing.svg[:4], drawing.dot[:7]
    ('<svg', 'digraph')
    """

    def __init__(self, graph: Graph, format: str | None = None) -> None:
        self.graph, self.format = graph, format
        self._texts: dict[str, str] = {}

    def text(self, format: str) -> str:
        """The picture as a text in the language `format`."""
        if format not in self._texts:
            self._texts[format] = _FORMATS[format](self.graph)
        return self._texts[format]

    @property
    def svg(self) -> str:
        """An image that every browser shows; a box or an arrow under the mouse tells more."""
        return self.text("svg")

    @property
    def dot(self) -> str:
        """Source for Graphviz."""
        return self.text("dot")

    @property
    def mermaid(self) -> str:
        """Source for Mermaid."""
        return self.text("mermaid")

    @edge.boundary
    def save(self, path: Any) -> None:
        """Write the picture to a file, in the language that the name's ending says: .svg, .dot, .gv, .mmd or .mermaid."""
        ending = os.path.splitext(os.fspath(path))[1].lower()
        if ending not in _SUFFIXES:
            raise ValueError(
                f"draw: {os.fspath(path)!r} {f'ends in {ending!r}' if ending else 'has no ending'}; a drawing is saved as "
                f"{', '.join(_SUFFIXES)}.\n"
                "  For PNG or PDF save it as .svg and convert that, or as .dot for Graphviz."
            )
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text(_SUFFIXES[ending]))

    def __str__(self) -> str:
        return repr(self) if self.format is None else self.text(self.format)

    def __repr__(self) -> str:
        return f"<drawing of {self.graph.title}: {len(self.graph.boxes)} boxes, {len(self.graph.arrows)} arrows>"

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        fitted = self.svg.replace("<svg", '<svg style="max-width:100%;height:auto"', 1)
        return f'<div style="overflow-x:auto">{fitted}</div>'


@edge.boundary
def draw(target: Any, *args: Any, format: str | None = None, backward: bool = False, fold: bool | None = None) -> Drawing:
    """A picture of a tape, of a function of some arguments, of a jitted function's program, or of a tensor's history.

    The boxes are inputs, constant arrays, ops (with the names that your program gives their results) and outputs. The box of a loop
    shows its step, that of a `cond` its branches. With `backward`, boxes are the pullbacks that a cotangent passes, with what each
    saves, and the sums where several meet. The history of a tensor of `functrace.torch` (or of PyTorch) shows the names of its
    `grad_fn` nodes, leaves, saved values and sums; its arrows run from the leaves to the tensor, or with `backward` the way that
    gradients go.

    Args:
        target: a tape of `trace`, a function (drawn for `args`), a jitted function that has been called (its last program), a tensor
            that requires grad, or a list of tensors.
        args: the arguments, where `target` is a function. For keyword arguments draw `trace(f)(...)`.
        format: what `str` of the result gives: "svg", "dot" or "mermaid".
        backward: draw the way of the cotangents.
        fold: True folds each call of a function of yours, and each run of repeated ops, into one box; False folds nothing; None, the
            default, folds graphs that are too large to be read, as far as they need it.

    Returns:
        A `Drawing`, which notebooks show; `svg`, `dot` and `mermaid` are texts, `save(path)` writes a file.

    Raises:
        ValueError: a format that there is not, or a tensor without history.
        InputTypeError: something that can't be drawn.

    The layout is that of Sugiyama, Tagawa and Toda (1981): see `functrace.drawing.layout`.

    >>> import functrace as ft, numpy as np
    >>> drawing = ft.draw(lambda x: np.sin(x) * 2, 1.0)
    >>> drawing
    <drawing of <lambda>: 4 boxes, 3 arrows>
    >>> print(drawing.mermaid.split("  classDef")[0])
    flowchart TD
      n0(["x<br/>float64#91;#93;"]):::input_
      n1["sin<br/>#37;1 #58; float64#91;#93;"]:::op_
      n2["multiply#40;·, 2#41;<br/>#37;2 #58; float64#91;#93;"]:::op_
      n3(["output<br/>float64#91;#93;"]):::output_
      n0 --> n1
      n1 --> n2
      n2 --> n3
    <BLANKLINE>
    """
    if format is not None and format not in _FORMATS:
        raise ValueError(f"draw: format must be one of {', '.join(map(repr, _FORMATS))}, got {format!r}.")
    graph = _fold(_graph_of(target, args, backward), fold)
    boxes = list(graph.boxes)
    for box in boxes:  # grows: bodies of loops may hold loops
        box.inner = [_fold(inner, fold) for inner in box.inner]
        boxes.extend(b for inner in box.inner for b in inner.boxes)
    return Drawing(graph, format)


def _graph_of(target: Any, args: tuple[Any, ...], backward: bool) -> Graph:
    if args and (isinstance(target, Tape) or not callable(target)):
        raise TypeError(f"draw: arguments are for a function; a {type(target).__name__} is drawn as it is.")
    if isinstance(target, Tape):
        return (_graph.backward if backward else _graph.forward)(target)
    tensors = list(target) if isinstance(target, (list, tuple)) else [target]
    if tensors and all(map(is_tensor, tensors)):
        return history(tensors, names_in(user_frame(2)), backward)
    if isinstance(target, Program):
        return _graph.program(target, "jit(program)")
    if isinstance(target, Jitted) and not args:
        programs = target.programs()
        if not programs:
            raise errors.InputTypeError(
                f"draw: {target!r} has no program yet.\n  Call it first, or draw(f, *args) to draw it for these arguments."
            )
        return _graph.program(programs[-1], f"jit({getattr(target, '__name__', 'f')})")
    if callable(target):
        edge.check_call("draw(f, *args)", args=args)
        return _graph_of(taped(target, args, {}, "draw"), (), backward)
    raise errors.InputTypeError(
        f"draw: an object of type {type(target).__name__} can't be drawn.\n"
        "  Give a tape (functrace.trace(f)(x)), a function and its arguments, or a tensor of functrace.torch that requires grad."
    )
