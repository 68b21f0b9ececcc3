"""The page of `explain`: one file without anything from the net, that steps through a run with buttons, slider and arrow keys.

`#step=7` at the end of its address opens it at a step.
"""

from __future__ import annotations

import json
import linecache
import os
from html import escape
from importlib import resources
from typing import Any

from functrace.debug.values import brief, full, several
from functrace.debug.watch import Op
from functrace.places import line_of

_AROUND = 3  # lines shown before and behind one that runs, where the function's own end is not known


class _Sources:
    """The parts of the program's files that ran."""

    def __init__(self, ops: list[Op]) -> None:
        spans: dict[Any, list[int]] = {}
        files: dict[Any, str] = {}
        for op in ops:
            if op.code is not None:
                spans.setdefault(op.code, []).append(_line(op))
                files[op.code] = os.path.basename(line_of(op.code, op.lasti)).rpartition(":")[0]
        self.blocks: list[dict[str, Any]] = []
        self.of: dict[Any, int] = {}
        for code, used in spans.items():
            ends = [line for _, _, line in code.co_lines() if line]
            whole = code.co_name != "<module>"
            first = min([code.co_firstlineno, *ends, *used]) if whole else max(1, min(used) - _AROUND)
            last = max([*ends, *used]) if whole else max(used) + _AROUND
            lines = [linecache.getline(code.co_filename, n).rstrip("\n") for n in range(first, last + 1)]
            if any(lines):
                self.of[code] = len(self.blocks)
                self.blocks.append({"title": f"{files[code]}, {code.co_name}", "first": first, "lines": lines})

    def place(self, op: Op) -> list[int] | None:
        """The block and the line of an op."""
        return [self.of[op.code], _line(op)] if op.code in self.of else None


def _line(op: Op) -> int:
    return int(line_of(op.code, op.lasti).rpartition(":")[2].partition(",")[0])


def _forward(step: Any, row_of: dict[int, int]) -> dict[str, Any]:
    """What is shown of an op, whose operands are in other rows."""
    ans = step.op.ans
    return {
        "name": step.label,
        "call": step.call,
        "value": several(ans),
        "full": "" if isinstance(ans, tuple) else several(ans, full),
        "operands": [{"name": name, "row": row_of[s] if s >= 0 else None} for name, s in zip(step.operands, step.op.slots)],
        "slopes": [{"name": part.name, "value": brief(part.value)} for part in step.partials],
    }


def _backward(back: Any, step: Any, row_of: dict[int, int]) -> dict[str, Any]:
    """What is shown of its pullback: the cotangent that it is given, and those that it hands on."""
    slopes = {part.operand: brief(part.value) for part in step.partials}
    handed = [
        {
            "name": share.name,
            "row": row_of[share.slot],
            "value": brief(share.value),
            "total": brief(share.total),
            "slope": slopes.get(share.operand),
            "full": full(share.total),
        }
        for share in back.handed
    ]
    whole = "" if isinstance(back.given, (list, tuple)) else full(back.given)
    return {"given": several(back.given), "full": whole, "handed": handed}


def page(explanation: Any) -> str:
    """The page of an `Explanation`."""
    steps, backs = explanation.forward, explanation.reverse
    sources = _Sources([step.op for step in steps])
    row_of = dict(enumerate(range(len(explanation.inputs))))
    rows: list[dict[str, Any]] = [
        {"name": name, "call": "input", "value": brief(x), "full": full(x), "place": None} for name, x in explanation.inputs
    ]
    number_of: dict[int, int] = {}
    for step in steps:
        op = step.op
        number_of[id(op)] = len(rows)
        if op.out >= 0:
            row_of.update(dict.fromkeys(range(op.out, op.out + 1 + (len(op.ans) if isinstance(op.ans, tuple) else 0)), len(rows)))
        rows.append(_forward(step, row_of) | {"place": sources.place(op)})
    step_of = {id(step.op): step for step in steps}
    reverse = [_backward(back, step_of[id(back.op)], row_of) | {"row": number_of[id(back.op)]} for back in backs]
    data = {
        "what": explanation.what,
        "rows": rows,
        "inputs": len(explanation.inputs),
        "reverse": reverse,
        "blocks": sources.blocks,
        "out": several(list(explanation.out)),
        "gradient": [{"name": name, "value": brief(g), "full": full(g)} for name, g in explanation.gradient],
    }
    text = json.dumps(data).replace("</", "<\\/").replace("<!--", "<\\!--")
    template = resources.files("functrace.debug").joinpath("page.html").read_text(encoding="utf-8")
    return template.replace("@title", escape(explanation.what)).replace("@data", text)
