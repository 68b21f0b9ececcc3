"""A tape as a notebook shows it: a table, one op a row, and the picture below."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from functrace.core.tape import Tape
from functrace.drawing.svg import clean
from functrace.transforms.naming import checks, names_of
from functrace.transforms.tracing import returned, rows

ROWS = 200  # of the table; of more ops the first and the last are shown

_TABLE = "border-collapse:collapse;font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;color:inherit;background:none"
_CELL = "padding:2px 12px 2px 0;text-align:left;border-bottom:1px solid rgba(128,136,148,.35);vertical-align:top;white-space:nowrap"
_HEAD = _CELL.replace("1px solid", "2px solid") + ";font-weight:bold"
_QUIET = _CELL + ";opacity:.75"


def _row(cells: Sequence[str], styles: Sequence[str], tag: str = "td") -> str:
    return (
        "<tr style='background:none'>" + "".join(f'<{tag} style="{s}">{escape(clean(c))}</{tag}>' for c, s in zip(cells, styles)) + "</tr>"
    )


def table(tape: Tape) -> str:
    """The tape as an HTML table: name, op, shape, dtype and the user's line."""
    names = names_of(tape)
    plain, quiet = [_CELL] * 4, [*[_CELL] * 4, _QUIET]
    out = [_row(["name", "operation", "dtype", "shape", "line"], [_HEAD] * 5, "th")]

    def kinds(x: object) -> list[str]:
        several = x if isinstance(x, tuple) else (x,)
        return [" × ".join(str(getattr(a, "dtype", type(a).__name__)) for a in several), " × ".join(_shape(a) for a in several)]

    out += [_row([names[k], "input", *kinds(x), ""], quiet) for k, x in enumerate(tape.inputs[:ROWS])]
    if len(tape.inputs) > ROWS:
        out.append(_row([f"… {len(tape.inputs) - ROWS} more inputs"], plain))
    size, before = len(tape.entries), ""
    head, tail = (range(size), range(0)) if size <= ROWS else (range(ROWS - 20), range(size - 20, size))
    for part in (head, tail):
        if part is tail and tail:
            out.append(_row([f"… {size - ROWS} more"], plain))
        for name, ans, call, line in rows(tape, part, names):
            out.append(_row([name, call, *kinds(ans), line.rpartition("/")[2] if line != before else '"'], quiet))
            before = line
    out.append(_row(["return", returned(tape, names)], [_CELL + ";font-weight:bold", _CELL]))
    return f'<table style="{_TABLE}">{"".join(out)}</table>'


def _shape(x: object) -> str:
    shape = getattr(x, "shape", None)
    return "" if shape is None else "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def to_html(tape: Tape, picture: str) -> str:
    """The table, and the picture below, each in a frame that scrolls if it is large."""
    count = len(tape.entries) - len(checks(tape))
    frame = "overflow:auto;max-height:{}px;margin:.3em 0 1em"
    title = f"<div><b>{escape(clean(tape.what))}</b> : {count} operation{'s' if count != 1 else ''}</div>"
    return f'<div>{title}<div style="{frame.format(420)}">{table(tape)}</div><div style="{frame.format(900)}">{picture}</div></div>'
