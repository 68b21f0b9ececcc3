"""Writes the list of files, `docs/files.md`, from the first lines of their docstrings: `python -m docs.layout`."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "files.md"
_READING_ORDER = ("functrace", "functrace/core", "functrace/ops", "functrace/transforms", "functrace/compile")
_CHAPTERS = ("tracer", "primitive", "tape", "reverse", "forward", "batch")  # of functrace/core
_DOCSTRING = re.compile(r'(?:#.*\n)*r?"""(.*?)"""', re.DOTALL)
_LISTED = re.compile(r"(<!-- files: [^>]*-->\n).*?(<!-- end of files -->)", re.DOTALL)


def _first(path: Path) -> str:
    docstring = _DOCSTRING.match(path.read_text(encoding="utf-8"))
    return " ".join(docstring[1].split("\n\n")[0].split()) if docstring else ""


def _order(path: Path) -> tuple[int, str]:
    return (_CHAPTERS.index(path.stem) if path.parent.name == "core" and path.stem in _CHAPTERS else -1), path.name


def folders() -> list[str]:
    """All packages, those that are to be read first first, then examples, benchmarks and the programs that write the pages."""
    packages = sorted(p.parent.relative_to(ROOT).as_posix() for p in (ROOT / "functrace").rglob("__init__.py"))
    return list(dict.fromkeys((*_READING_ORDER, *packages, "examples", "examples/torch", "benchmarks", "docs")))


def listing() -> str:
    """One line for each file, by folder."""
    out = []
    for folder in folders():
        init = ROOT / folder / "__init__.py"
        out.append(f"## {folder}\n" + (f"\n{_first(init)}\n" if init.exists() else ""))
        files = sorted((p for p in (ROOT / folder).glob("*.py") if p != init), key=_order)
        out.extend(f"- `{p.name}`: {_first(p)}" for p in files)
        out.append("")
    return "\n".join(out)


def page() -> str:
    """The page with its list as it should be."""
    return _LISTED.sub(lambda m: f"{m[1]}\n{listing()}{m[2]}", PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
