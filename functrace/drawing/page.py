"""A tape as a notebook shows it: a table, one op a row, and the picture below."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from functrace.core.tape import Tape
from functrace.drawing.svg import clean
from functrace.transforms.naming import line_text, names_of
from functrace.transforms.tracing import arguments_text, constant_text

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
    rows = [_row(["name", "operation", "dtype", "shape", "line"], [_HEAD] * 5, "th")]

    def kinds(x: object) -> list[str]:
        several = x if isinstance(x, tuple) else (x,)
        return [" × ".join(str(getattr(a, "dtype", type(a).__name__)) for a in several), " × ".join(_shape(a) for a in several)]

    rows += [_row([names[k], "input", *kinds(x), ""], quiet) for k, x in enumerate(tape.inputs[:ROWS])]
    if len(tape.inputs) > ROWS:
        rows.append(_row([f"… {len(tape.inputs) - ROWS} more inputs"], plain))
    left_out = range(ROWS - 20, len(tape.entries) - 20) if len(tape.entries) > ROWS else range(0)
    before = ""
    for k, (primitive, out, slots, args, ans, params) in enumerate(tape.entries):
        if k in left_out:
            if k == left_out[0]:
                rows.append(_row([f"… {len(left_out)} more"], plain))
            continue
        where = line_text(tape, k)
        shown = where.rpartition("/")[2] if where != before else '"'
        before = where
        call = f"{primitive.name}({arguments_text(primitive, slots, args, params, names)})"
        rows.append(_row([names[out], call, *kinds(ans), shown], quiet))
    returned = ", ".join(names[s] if s >= 0 else constant_text(x) for s, x in zip(tape.slots, tape.outputs))
    rows.append(_row(["return", returned], [_CELL + ";font-weight:bold", _CELL]))
    return f'<table style="{_TABLE}">{"".join(rows)}</table>'


def _shape(x: object) -> str:
    shape = getattr(x, "shape", None)
    return "" if shape is None else "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def to_html(tape: Tape, picture: str) -> str:
    """The table, and the picture below, each in a frame that scrolls if it is large."""
    frame = "overflow:auto;max-height:{}px;margin:.3em 0 1em"
    title = f"<div><b>{escape(clean(tape.what))}</b> : {len(tape.entries)} operation{'s' if len(tape.entries) != 1 else ''}</div>"
    return f'<div>{title}<div style="{frame.format(420)}">{table(tape)}</div><div style="{frame.format(900)}">{picture}</div></div>'
