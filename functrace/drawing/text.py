"""A graph as the source of other programs' drawings: Graphviz's DOT and Mermaid."""

from __future__ import annotations

from functrace.drawing.graph import Graph
from functrace.drawing.svg import GREY, INK, KINDS, clean, short


def _dot(text: str) -> str:
    return '"' + clean(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


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
        label = "\n".join(short(t) for t in box.text)
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
        label = _mermaid("\n".join(short(t) for t in box.text))
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
