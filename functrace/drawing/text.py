"""A graph as the source of other programs' drawings: Graphviz's DOT and Mermaid."""

from __future__ import annotations

from functrace.drawing.graph import Box, Graph
from functrace.drawing.svg import GREY, INK, KINDS, clean, short


def _dot(text: str) -> str:
    return '"' + clean(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def lines_of(box: Box) -> list[str]:
    """The text of a box; what is drawn inside of it is told in a line for each."""
    inner = [(g.title, [b.text[0].partition("(")[0] for b in g.boxes if b.like is not None]) for g in box.inner]
    return [*box.text, *(f"{title}: {', '.join(ops) or 'nothing'}" for title, ops in inner)]


def to_dot(graph: Graph) -> str:
    """The graph in the language of Graphviz: `dot -Tpng`."""
    lines = [
        f"digraph {_dot(graph.title)} {{",
        f'  graph [bgcolor="transparent", label={_dot(graph.title)}, labelloc="t", fontname="monospace", fontcolor="{GREY}"];',
        f'  node [shape="box", style="filled,rounded", fontname="monospace", fontsize="11", fontcolor="{INK}"];',
        f'  edge [color="{GREY}", fontcolor="{GREY}", fontname="monospace", fontsize="10", arrowsize="0.7"];',
    ]
    for k, box in enumerate(graph.boxes):
        fill, line, _ = KINDS[box.kind]
        shape = ', shape="circle"' if box.kind == "sum" else ""
        label = "\n".join(map(short, lines_of(box)))
        lines.append(f'  n{k} [label={_dot(label)}, tooltip={_dot(box.hint or label)}, fillcolor="{fill}", color="{line}"{shape}];')
    style = ', style="dashed"' if graph.reverse else ""
    for a in graph.arrows:
        label = f"label={_dot(short(a.label, 16))}, " if a.label else ""
        lines.append(f"  n{a.source} -> n{a.target} [{label}tooltip={_dot(a.hint)}{style}];")
    return "\n".join([*lines, "}"]) + "\n"


_ENTITIES = {c: f"#{ord(c)};" for c in "#&<>\"'`{}[]()|\\;%*_~$:@"}  # what Mermaid, or the Markdown in its labels, would read otherwise


def _mermaid(text: str) -> str:
    return '"' + "".join(_ENTITIES.get(c, c) for c in clean(text).replace("\t", " ")).replace("\n", "<br/>") + '"'


def to_mermaid(graph: Graph) -> str:
    """The graph in the language of Mermaid, which GitHub and many pages draw."""
    lines = ["flowchart TD"]
    for k, box in enumerate(graph.boxes):
        label = _mermaid("\n".join(map(short, lines_of(box))))
        left, right = {"sum": ("((", "))"), "input": ("([", "])"), "output": ("([", "])")}.get(box.kind, ("[", "]"))
        lines.append(f"  n{k}{left}{label}{right}:::{box.kind}_")
    link = "-.->" if graph.reverse else "-->"
    for a in graph.arrows:
        label = f"|{_mermaid(short(a.label, 16))}|" if a.label else ""
        lines.append(f"  n{a.source} {link}{label} n{a.target}")
    for kind in [k for k in KINDS if any(b.kind == k for b in graph.boxes)]:
        fill, line, _ = KINDS[kind]
        lines.append(f"  classDef {kind}_ fill:{fill},stroke:{line},color:{INK}")
    return "\n".join(lines) + "\n"
