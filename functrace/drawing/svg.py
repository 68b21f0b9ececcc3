"""A graph as text: SVG, with no style sheet and no script, whose colours can be read on light and on dark pages; DOT, and Mermaid."""

from __future__ import annotations

import unicodedata
from html import escape

from functrace.drawing.graph import Box, Graph
from functrace.drawing.layout import Placed, place

SIZE, LINE, PAD, MARGIN = 13.0, 17.0, 9.0, 14.0
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
INK, GREY = "#1d2430", "#7f8894"  # in boxes; of arrows and text outside, on white or black
LONGEST = 44  # characters of a line

Layout = tuple[list[tuple[float, float]], Placed]  # sizes of the boxes, and where they are

# Fill and outline of each kind of box, and what the legend says of it.
KINDS: dict[str, tuple[str, str, str]] = {
    "input": ("#d5e6fb", "#3f78bd", "input"),
    "constant": ("#e6e8eb", "#868e99", "constant"),
    "op": ("#fff2cc", "#b8912f", "operation"),
    "guard": ("#fbdfe6", "#b9536f", "guard"),
    "fold": ("#e6defa", "#7658bd", "several operations, folded"),
    "output": ("#d6f2dd", "#3c9359", "output"),
    "back": ("#fde0cc", "#c46a2b", "pullback"),
    "sum": ("#fde0cc", "#c46a2b", "sum of cotangents"),
    "accumulate": ("#e6e8eb", "#868e99", "adds to .grad"),
}
WORDS = {
    "values": {},
    "cotangents": {"input": "gradient", "output": "cotangent given", "fold": "several pullbacks, folded"},
    "history": {"input": "leaf", "back": "grad_fn", "output": "tensor", "fold": "several nodes, folded"},
}


def clean(text: str) -> str:
    """Text without the characters that XML does not know."""
    return "".join(c if c >= " " or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text if not "\ud800" <= c <= "\udfff")


def columns(text: str) -> int:
    """How many columns a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def short(text: str, longest: int = LONGEST) -> str:
    """A line that is not too long."""
    text = clean(text).replace("\n", " ")
    while columns(text) > longest:
        text = text[: min(len(text) - 2, longest - 1)] + "…"
    return text


def wording(graph: Graph, kind: str) -> str:
    """What the legend says of a kind of box."""
    return WORDS[graph.of].get(kind, KINDS[kind][2])


def size_of(box: Box) -> tuple[float, float]:
    """Width and height of a box."""
    if box.kind == "sum":
        return 26.0 + 14 * max(0, box.like[1] - 2), 26.0
    width = max(columns(short(line)) * SIZE * (0.635 if k == 0 else 0.56) for k, line in enumerate(box.text))
    height = LINE * len(box.text) + 2 * PAD - 4
    if box.inner:
        panels = [_panel(graph) for graph in box.inner]
        width = max(width, sum(w for _, w, _ in panels) + PAD * (len(panels) - 1))
        height += max(h for _, _, h in panels) + PAD
    return max(48.0, round(width + 2 * PAD)), height


def _panel(graph: Graph) -> tuple[Layout, float, float]:
    """The layout of what is drawn inside a box, and its size with margins and a title."""
    laid = _layout(graph)
    return laid, max(laid[1].width, columns(short(graph.title)) * 11 * 0.64) + 2 * PAD, laid[1].height + 2 * PAD + LINE + 4


def _layout(graph: Graph) -> Layout:
    sizes = [size_of(b) for b in graph.boxes]
    return sizes, place(sizes, [(a.source, a.target) for a in graph.arrows], [b.ordered for b in graph.boxes])


def _n(v: float) -> str:
    return f"{v:.1f}".removesuffix(".0")


def _curve(route: list[tuple[float, float, float]], dx: float, dy: float) -> str:
    """Vertical through each layer, S-curves between them."""
    x, _, y = route[0]
    x, y = x + dx, y + dy
    parts = [f"M{_n(x)} {_n(route[0][1] + dy)}"]
    if route[0][2] > route[0][1]:
        parts.append(f"V{_n(y)}")
    for px, enter, leave in route[1:]:
        nx, ny = px + dx, enter + dy
        half = (y + ny) / 2
        parts.append(f"L{_n(nx)} {_n(ny)}" if abs(nx - x) < 0.05 else f"C{_n(x)} {_n(half)} {_n(nx)} {_n(half)} {_n(nx)} {_n(ny)}")
        if leave > enter:
            parts.append(f"V{_n(leave + dy)}")
        x, y = nx, leave + dy
    return " ".join(parts)


def to_svg(graph: Graph) -> str:
    """The graph as an SVG image."""
    laid = _layout(graph)
    placed = laid[1]
    shown = _kinds(graph)
    kinds = [k for k in KINDS if k in shown]
    title = short(graph.title, 100)
    words = [wording(graph, k) for k in kinds]
    legend, across, down = [], 0.0, 0.0
    limit = max(placed.width, 460.0)
    for kind, word in zip(kinds, words):
        width = columns(word) * 11 * 0.62 + 16
        if across and across + width > limit:
            across, down = 0.0, down + 26
        legend.append((kind, word, across, down, width))
        across += width + 8
    head = 30.0
    inner = max(placed.width, *(x + w for _, _, x, _, w in legend), columns(title) * SIZE * 0.64) if legend else placed.width + 200
    dx, dy = MARGIN + (inner - placed.width) / 2, MARGIN + head
    foot = dy + placed.height + 24
    width, height = inner + 2 * MARGIN, foot + (down + 20 if legend else 0) + MARGIN
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(width)}" height="{_n(height)}" viewBox="0 0 {_n(width)} {_n(height)}" '
        f'role="img" aria-label="{escape(clean(graph.title))}">',  # no style: what converts to PNG may take "auto" for 0
        f'<g font-family="{FONT}" font-size="{_n(SIZE)}">',
        f'<text class="heading" x="{_n(MARGIN)}" y="{_n(MARGIN + 13)}" fill="{GREY}" font-weight="bold">{escape(title)}</text>',
    ]
    out += _parts(graph, laid, dx, dy)
    out.append('<g class="legend" font-size="11">')
    for kind, word, x, y, w in legend:
        fill, line, _ = KINDS[kind]
        left, top = MARGIN + x, foot + y
        out.append(
            f'<rect x="{_n(left)}" y="{_n(top)}" width="{_n(w)}" height="19" rx="4" fill="{fill}" stroke="{line}"/>'
            f'<text x="{_n(left + w / 2)}" y="{_n(top + 13.5)}" fill="{INK}" text-anchor="middle">{escape(word)}</text>'
        )
    out.append("</g></g></svg>")
    return "\n".join(out)


def _kinds(graph: Graph) -> set[str]:
    kinds, todo = set(), [graph]
    for some in todo:  # grows
        kinds |= {box.kind for box in some.boxes}
        todo.extend(inner for box in some.boxes for inner in box.inner)
    return kinds


def _parts(graph: Graph, laid: Layout, dx: float, dy: float, prefix: str = "") -> list[str]:
    sizes, placed = laid
    stroke = KINDS["back"][1] if graph.reverse else GREY
    dash = ' stroke-dasharray="6 3"' if graph.reverse else ""
    out = [f'<g class="arrows" fill="none" stroke="{stroke}" stroke-width="1.4"{dash}>']
    labels, heads = [], []
    for arrow, route in zip(graph.arrows, placed.routes):
        x, y = route[-1][0] + dx, route[-1][2] + dy
        hint = f"<title>{escape(clean(arrow.hint))}</title>" if arrow.hint else ""
        ends = f'data-from="{prefix}{arrow.source}" data-to="{prefix}{arrow.target}"'
        out.append(f'<path class="arrow" {ends} d="{_curve(route, dx, dy)}">{hint}</path>')
        heads.append(f'<path d="M{_n(x)} {_n(y)}l-4 -8h8z"/>')
        if arrow.label:
            labels.append(f'<text x="{_n(x + 5)}" y="{_n(y - 8)}">{escape(short(arrow.label, 16))}</text>')
    out.append("</g>")
    out.append(f'<g class="heads" fill="{stroke}">{"".join(heads)}</g>')
    for k, (box, (w, h), (cx, cy)) in enumerate(zip(graph.boxes, sizes, placed.centres)):
        out.append(_box(f"{prefix}{k}", box, w, h, cx + dx, cy + dy))
    if labels:
        out.append(f'<g class="labels" fill="{GREY}" font-size="11">{"".join(labels)}</g>')
    return out


def _box(number: str, box: Box, w: float, h: float, cx: float, cy: float) -> str:
    fill, line, _ = KINDS[box.kind]
    hint = f"<title>{escape(clean(box.hint))}</title>" if box.hint else ""
    left, top = cx - w / 2, cy - h / 2
    radius = 13 if box.kind == "sum" else 9 if box.kind in ("input", "output") else 4
    dash = ' stroke-dasharray="4 2"' if box.kind == "constant" else ""
    shape = f'<rect x="{_n(left)}" y="{_n(top)}" width="{_n(w)}" height="{_n(h)}" rx="{radius}" fill="{fill}" stroke="{line}"{dash}/>'
    if box.kind == "fold":  # a stack of cards
        shape = f'<rect x="{_n(left + 3)}" y="{_n(top + 3)}" width="{_n(w)}" height="{_n(h)}" rx="4" fill="{fill}" stroke="{line}"/>{shape}'
    texts = []
    for k, text in enumerate(box.text):
        y = top + PAD + LINE * k + 10.5 if box.kind != "sum" else cy + 4.5
        style = ' font-weight="bold"' if k == 0 else ' font-size="11.5"'
        texts.append(f'<text x="{_n(cx)}" y="{_n(y)}"{style}>{escape(short(text))}</text>')
    inner = f'<g class="inside">{"".join(_inside(number, box, left, top + h, w))}</g>' if box.inner else ""
    return f'<g class="box {box.kind}" id="box{number}" fill="{INK}" text-anchor="middle">{hint}{shape}{"".join(texts)}{inner}</g>'


def _inside(number: str, box: Box, left: float, bottom: float, width: float) -> list[str]:
    """What a loop repeats, or the branches of a choice, side by side in the box."""
    panels = [_panel(graph) for graph in box.inner]
    free = width - sum(w for _, w, _ in panels) - PAD * (len(panels) - 1)
    x, tall, out = left + free / 2, max(h for _, _, h in panels), []
    for k, (graph, (laid, w, _)) in enumerate(zip(box.inner, panels)):
        y = bottom - PAD - tall
        out.append(f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(w)}" height="{_n(tall)}" rx="4" fill="#fffdf7" stroke="{KINDS["op"][1]}"/>')
        out.append(f'<text x="{_n(x + w / 2)}" y="{_n(y + 15)}" font-size="11">{escape(short(graph.title))}</text>')
        out += _parts(graph, laid, x + (w - laid[1].width) / 2, y + LINE + 4 + PAD, f"{number}_{k}_")
        x += w + PAD
    return out


# the source of other programs' drawings


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
