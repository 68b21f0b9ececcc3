"""The pages: their code runs and prints what they say, their links lead somewhere, their tables are up to date."""

import inspect
import re
from importlib import metadata

import numpy as np
import pytest

import functrace as ft
from docs import gallery, layout, pages, support

ROOT = pages.ROOT


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_code_prints_what_the_page_says(page):
    text = page.read_text(encoding="utf-8")
    with np.printoptions():
        true = pages.run(text, page.name)
    for line, (said, is_) in enumerate(zip(text.splitlines(), true.splitlines()), 1):
        assert said == is_, f"{page.name}:{line} (python -m docs.pages --write mends it)"
    assert text == true


def test_runner_finds_wrong_output():
    fence = "```"
    page = f"{fence}python\nprint(1 + 1)  # 3\nprint('a')\n1 / 0\n{fence}\n\n{fence}text\nb\n{fence}\n"
    assert (
        pages.run(page)
        == f"{fence}python\nprint(1 + 1)  # 2\nprint('a')\n1 / 0\n{fence}\n\n{fence}text\na\nZeroDivisionError: division by zero\n{fence}\n"
    )
    with pytest.raises(AssertionError, match="page: the block at line 2 raised ZeroDivisionError"):
        pages.run(f"{fence}python\n1 / 0\n{fence}\n")
    with pytest.raises(AssertionError, match="prints, but shows no output"):
        pages.run(f"{fence}python\nprint(1)\n{fence}\n")


def test_readme_begins_with_its_two_commands():
    first = next(b for b in pages.blocks((ROOT / "README.md").read_text(encoding="utf-8")))
    assert first.language == "sh"
    commands = [line for line in first.body.splitlines() if line.strip()]
    assert len(commands) == 2
    assert "examples/one_layer_network.py" in commands[0]
    assert "pytest" in commands[1]


ERRORS = sorted(
    {c for c in vars(ft.errors).values() if inspect.isclass(c) and issubclass(c, ft.errors.FunctraceError)}, key=lambda c: c.code
)


def _sections():
    """Code and name of each section of errors.md, and what it shows."""
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (FT\d+) (\w+)$", text, flags=re.MULTILINE)[1:]
    return {(code, name): body for code, name, body in zip(parts[::3], parts[1::3], parts[2::3])}


def test_every_error_has_its_section():
    assert sorted(_sections()) == sorted((c.code, c.__name__) for c in ERRORS if c is not ft.errors.FunctraceError)
    assert len({c.code for c in ERRORS}) == len(ERRORS)


@pytest.mark.parametrize("section", _sections(), ids=lambda section: section[1])
def test_every_error_is_provoked_and_remedied(section):
    body = _sections()[section]
    shown = [b.body for b in pages.blocks(body) if b.language == "text"]
    assert any(text.startswith(section[1] + ": ") for text in shown), "no example that raises it"
    assert "**Remedy.**" in body


@pytest.mark.skipif(not np.__version__.startswith("2.4."), reason="the table lists the functions of NumPy 2.4")
@pytest.mark.skipif(not metadata.version("scipy").startswith("1.17."), reason="and SciPy's those of SciPy 1.17")
@pytest.mark.parametrize("page", support.WRITTEN, ids=lambda page: page.name)
def test_support_table_is_up_to_date(page):
    assert page.read_text(encoding="utf-8") == support.WRITTEN[page](), "python -m docs.support writes it"


def _without_code(page, code=r"^```.*?^```$"):
    return re.sub(code, "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def _anchors(page):
    """Where links into a page may lead: its headings, as GitHub and the site name them."""
    headings = re.findall(r"^#+ (.*)$", _without_code(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", [*pages.PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", _without_code(page, r"^```.*?^```$|`[^`\n]+`")):
        if not target.startswith(("http://", "https://")):
            file, _, anchor = target.partition("#")
            path = page.parent / file if file else page
            assert path.exists(), f"{page.name} links to {target}"
            assert not anchor or anchor in _anchors(path), f"{page.name} links to {target}, a heading that there is not"


def test_list_of_files_is_up_to_date():
    listing = layout.listing()
    assert listing in layout.PAGE.read_text(encoding="utf-8"), "python -m docs.layout writes it"
    assert not [line for line in listing.splitlines() if line.endswith(": ")], "a file without a docstring"


def test_gallery_shows_every_example_that_draws():
    assert gallery.PAGE.read_text(encoding="utf-8") == gallery.page(), "python -m docs.gallery writes it"
    assert {name for group in gallery.GROUPS.values() for name in group.split()} == gallery.drawing()
    for name in gallery.drawing():
        picture = gallery.PICTURES / f"{name}.png"
        assert picture.read_bytes()[:4] == b"\x89PNG", "python -m docs.gallery --pictures draws it"
        assert picture.stat().st_size < 60_000
    assert {p.stem for p in gallery.PICTURES.iterdir()} == gallery.drawing()


def test_changelog_has_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{ft.__version__}]" in text or "## [Unreleased]" in text
    assert f"version: {ft.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
