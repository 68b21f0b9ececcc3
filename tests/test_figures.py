"""The figures of the pages are what `docs/figures.py` draws, and the code that the pages quote is the library's."""

import re
import textwrap
import xml.etree.ElementTree as ET

import pytest

from docs import figures, pages

BOOK = [page for page in pages.PAGES if page.parent.name == "book"]
_QUOTED = re.compile(r"\]\((?P<path>[./]*functrace/[\w/]+\.py)\)|^```py\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", figures.FIGURES)
def test_figure_is_what_is_drawn(name):
    svg = figures.FIGURES[name]()
    assert (figures.FOLDER / f"{name}.svg").read_text(encoding="utf-8") == svg, "python -m docs.figures --write"
    assert ET.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"


def test_every_figure_is_shown():
    shown = {name for page in pages.PAGES for name in re.findall(r"figures/(\w+)\.svg\)", page.read_text(encoding="utf-8"))}
    assert shown == set(figures.FIGURES) == {path.stem for path in figures.FOLDER.glob("*.svg")}


def misquoted(text, folder):
    """The ```py blocks of a page that are not in the file that was linked to last."""
    source, wrong = None, []
    for found in _QUOTED.finditer(text):
        if found["path"]:
            source = (folder / found["path"]).read_text(encoding="utf-8")
        elif source is None or textwrap.dedent(found["code"]) not in textwrap.dedent(source) and found["code"] not in source:
            wrong.append(found["code"])
    return wrong


@pytest.mark.parametrize("page", BOOK, ids=lambda page: page.stem)
def test_quoted_code_is_the_library_s(page):
    assert misquoted(page.read_text(encoding="utf-8"), page.parent) == []


def test_a_misquotation_is_found():
    link, fence = "[it](functrace/core/reverse.py)\n\n", "```"
    assert misquoted(f"{link}{fence}py\n    while entries:\n{fence}\n", pages.ROOT) == []
    assert misquoted(f"{link}{fence}py\n    while entry:\n{fence}\n", pages.ROOT) == ["    while entry:\n"]
    assert misquoted(f"{fence}py\n    while entries:\n{fence}\n", pages.ROOT) == ["    while entries:\n"]


def test_the_book_quotes_the_engine():
    linked = {path for page in BOOK for path in re.findall(r"\]\([./]*(functrace/core/\w+\.py)\)", page.read_text(encoding="utf-8"))}
    assert linked == {f"functrace/core/{name}.py" for name in ("tracer", "primitive", "tape", "reverse", "forward", "batch")}
