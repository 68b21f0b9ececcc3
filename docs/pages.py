"""Runs the code on the pages and compares what it prints: `python -m docs.pages`, and `--write` to bring the pages up to date.

The `python` blocks of a page run in order, in one namespace. Two things are compared:

- `print(...)  # text`: the comment behind a print is what it prints;
- a `text` block that follows a `python` block: what else that block printed, or the error that it raised, class and message.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from docs import differences, gallery, layout, support
from functrace.ops.registry import TABLE

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts)]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Block:
    """A fenced block: its language, its text, and where on the page that text starts."""

    language: str
    body: str
    start: int


def blocks(text: str) -> list[Block]:
    """All fenced blocks of a page."""
    return [Block(m[1], m[2], m.start(2)) for m in _FENCE.finditer(text)]


def _comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {t.start[0]: t.string for t in tokens if t.type == tokenize.COMMENT and t.line[: t.start[1]].strip()}


def _is_print(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "print"


def run_block(source: str, namespace: dict[str, Any], raises: bool = False) -> tuple[str, str]:
    """Run a block; returns what it printed, and the block with its comments behind prints made true.

    An exception is part of what it printed where `raises`; its frames are said to be in `example.py`.
    """
    lines, comments, rest = source.splitlines(), _comments(source), io.StringIO()
    for node in ast.parse(source).body:
        printed = io.StringIO()
        code = compile(ast.Module([node], []), "example.py", "exec")
        try:
            with contextlib.redirect_stdout(printed):
                exec(code, namespace)  # the pages are ours
        except Exception as error:
            if not raises:
                raise
            rest.write(f"{type(error).__name__}: {error}\n")
            break
        last = node.end_lineno or node.lineno
        if _is_print(node) and last in comments:
            lines[last - 1] = lines[last - 1].removesuffix(comments[last]) + f"# {printed.getvalue().rstrip()}"
        else:
            rest.write(printed.getvalue())
    return rest.getvalue(), "".join(line + "\n" for line in lines)


def run(text: str, name: str = "page") -> str:
    """Run all code of a page; returns the page with everything that it says about its output made true."""
    namespace: dict[str, Any] = {"__name__": name}
    found = blocks(text)
    new = dict[int, str]()
    declared = dict(TABLE)  # all that the library declares: docs.support imports it
    for block, after in zip(found, [*found[1:], None]):
        if block.language != "python":
            continue
        end = block.start + len(block.body)
        shown = after if after and after.language == "text" and not text[end + 3 : after.start - len("```text\n")].strip() else None
        try:
            with np.printoptions():
                output, new[block.start] = run_block(block.body, namespace, raises=shown is not None)
        except Exception as error:
            line = text.count("\n", 0, block.start) + 1
            raise AssertionError(f"{name}: the block at line {line} raised {type(error).__name__}: {error}") from error
        if shown is not None:
            new[shown.start] = output
        elif output:
            line = text.count("\n", 0, block.start) + 1
            raise AssertionError(f"{name}: the block at line {line} prints, but shows no output:\n{output}")
    TABLE.clear()
    TABLE.update(declared)  # ops that a page declared are not part of the library
    for block in reversed(found):
        if block.start in new:
            text = text[: block.start] + new[block.start] + text[block.start + len(block.body) :]
    return text


def pages() -> Iterator[tuple[Path, str]]:
    """Each page, and what it should be."""
    made = {**support.WRITTEN, differences.PAGE: differences.page, layout.PAGE: layout.page, gallery.PAGE: gallery.page}
    for page in PAGES:
        yield page, run(made[page]() if page in made else page.read_text(encoding="utf-8"), page.name)


def main(texts: Iterable[tuple[Path, str]]) -> int:
    """Compare texts with their files, or write them where `--write` was said; the exit status counts those that are wrong."""
    write, wrong = "--write" in sys.argv, 0
    for path, text in texts:
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            wrong += 1
            print(f"{path.relative_to(ROOT)}: {'brought up to date' if write else 'is not what its code gives'}")
            if write:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
    return 0 if write else wrong


if __name__ == "__main__":
    sys.exit(main(pages()))
