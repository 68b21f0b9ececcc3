"""Writes the list of files in CONTRIBUTING.md from the first lines of their docstrings: `python -m docs.layout`."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "CONTRIBUTING.md"
FOLDERS = (
    *("functrace", "functrace/core", "functrace/ops", "functrace/transforms", "functrace/compile", "functrace/debug"),
    *("functrace/drawing", "functrace/optim", "functrace/random", "functrace/sparse", "functrace/numpy"),
    *(
        "functrace/scipy",
        "functrace/scipy/spatial",
        "functrace/torch",
        "functrace/torch/autograd",
        "functrace/torch/nn",
        "functrace/torch/optim",
        "functrace/torch/utils",
    ),
    *("examples", "examples/torch", "docs"),
)
_READING_ORDER = ("tracer", "primitive", "tape", "reverse", "forward", "batch")
_DOCSTRING = re.compile(r'(?:#.*\n)*r?"""(.*?)"""', re.DOTALL)
_LISTED = re.compile(r"(<!-- files: [^>]*-->\n).*?(<!-- end of files -->)", re.DOTALL)


def _first(path: Path) -> str:
    docstring = _DOCSTRING.match(path.read_text(encoding="utf-8"))
    return " ".join(docstring[1].split("\n\n")[0].split()) if docstring else ""


def _order(path: Path) -> tuple[int, str]:
    return (_READING_ORDER.index(path.stem) if path.parent.name == "core" and path.stem in _READING_ORDER else -1), path.name


def listing() -> str:
    """One line for each file, by folder."""
    out = []
    for folder in FOLDERS:
        init = ROOT / folder / "__init__.py"
        out.append(f"**`{folder}/`**" + (f" {_first(init)}" if init.exists() else "") + "\n")
        files = sorted((p for p in (ROOT / folder).glob("*.py") if p != init), key=_order)
        out.extend(f"- `{p.name}`: {_first(p)}" for p in files)
        out.append("")
    return "\n".join(out)


def page() -> str:
    """CONTRIBUTING.md with its list as it should be."""
    return _LISTED.sub(lambda m: f"{m[1]}\n{listing()}{m[2]}", PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
