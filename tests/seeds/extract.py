"""Turns a notebook's text dump (`In [3]:` markers, markdown and outputs between) into the script of its code cells.

A cell is the paragraphs after its marker that are code: the first, and those after it that parse and do something. A cell that
ends in a bare expression prints its repr, and one whose recorded output is an error prints that error, as a notebook does.

    python tests/seeds/extract.py dump.txt > script.py
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap

MARKER = re.compile(r"^In \[\d*\]:\s*$", re.MULTILINE)
ERROR = re.compile(r"^(\w+Error): ", re.MULTILINE)

OUTPUTS = ("tensor", "torch.Size")


def parses(text: str) -> bool:
    """Whether the text is Python."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def acts(text: str) -> bool:
    """Whether a paragraph that parses is code rather than an output that happens to parse, as `True` or `tensor(1.)`."""
    return any(
        not isinstance(s, ast.Expr) or (isinstance(s.value, ast.Call) and ast.unparse(s.value.func) not in OUTPUTS) for s in ast.parse(text).body
    )


def code_of(cell: str) -> str:
    """The code at the start of what follows a marker."""
    paragraphs = re.split(r"\n(?:[ \t]*\n)+", cell.strip("\n"))
    code = paragraphs[0]
    for paragraph in paragraphs[1:]:
        longer = code + "\n\n" + paragraph
        if not parses(longer) or not (paragraph[:1].isspace() or (parses(paragraph) and acts(paragraph))):
            break
        code = longer
    return code.rstrip()


def shown(code: str) -> str:
    """The cell with its last expression, if bare, printed."""
    body = ast.parse(code).body
    last = body[-1] if body else None
    if not isinstance(last, ast.Expr):
        return code
    value = last.value
    if isinstance(value, ast.Call) and ast.unparse(value.func).endswith(("print", ".backward")):
        return code
    lines = code.splitlines()
    before, source = lines[: last.lineno - 1], "\n".join(lines[last.lineno - 1 :])
    return "\n".join([*before, f"print(repr({source}))"])


def script(dump: str) -> str:
    """The script of a dump: its code cells in order, or, if it has no markers, all but its prose (and with the indentation it lost)."""
    parts = MARKER.split(dump)
    if len(parts) == 1:
        indented = re.sub(r"^(with torch\.no_grad\(\):\n)(?=\S)", r"\1    ", dump, flags=re.MULTILINE)
        body = ast.parse(indented).body
        lines = indented.splitlines()[body[0].end_lineno if isinstance(body[0], ast.Expr) else 0 :]
        return "\n".join(line for line in lines if not line.startswith("#")) + "\n"
    cells = []
    for part in parts[1:]:
        code = code_of(part)
        if ERROR.search(part[len(code) :]):
            code = f"try:\n{textwrap.indent(code, '    ')}\nexcept Exception as error:\n    print(f'{{type(error).__name__}}: {{error}}')"
        else:
            code = shown(code)
        cells.append(code)
    return "\n\n".join(cells) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        print(script(file.read()), end="")
