"""The reference: every public name is on a page, every name on a page is there, and its docstring says all and shows it."""

import doctest
import importlib
import importlib.util
import inspect
import pkgutil
import re
import subprocess
import sys

import pytest

import functrace as ft
from docs import reference

DOCS = reference.FOLDER.parent
NAMES = list(dict.fromkeys(pair for area in reference.AREAS.values() for pair in reference.names(area)))
WITHIN = {
    "compile",
    "core",
    "later",
    "sums",
    "blockwise",
    "edge",
    "locks",
    "operands",
    "ops",
    "places",
    "pool",
    "references",
    "threads",
    "transforms",
}  # modules that users do not import


def thing(module, name):
    return getattr(importlib.import_module(module), name)


def members(cls):
    """The public methods and properties that a class defines itself."""
    return {n: v for n, v in vars(cls).items() if not n.startswith("_") and (callable(v) or isinstance(v, (property, classmethod)))}


def test_every_public_name_is_documented():
    shown = {id(thing(*pair)) for pair in NAMES}
    missing = [n for n in reference.public("functrace") if id(getattr(ft, n)) not in shown]
    assert not missing, "give them a place in docs/reference.py, AREAS"
    assert not [n for n in reference.public("functrace") if f"`{n}`" not in ft.__doc__], "help(functrace) lists all"


def test_every_public_module_is_documented():
    modules = {m.name for m in pkgutil.iter_modules(ft.__path__) if not m.name.startswith("_")}
    shown = {m.split(".")[1] for area in reference.AREAS.values() for m in area.names if "." in m}
    assert modules - shown - WITHIN == {"optimize"}, "give it a place in docs/reference.py, AREAS"  # its names are in functrace itself
    for module in modules - WITHIN:
        assert importlib.import_module(f"functrace.{module}").__doc__


@pytest.mark.parametrize("area", reference.AREAS)
def test_every_documented_name_exists(area):
    for module, names in reference.AREAS[area].names.items():
        assert importlib.util.find_spec(module), module
        for name in () if names == "*" else names.split():
            assert hasattr(importlib.import_module(module), name), f"{module}.{name}"


def said(module, name):
    """A docstring, and it with those that it says to see, of the same module first."""
    text = inspect.getdoc(thing(module, name)) or ""
    others = {n: thing(m, n) for m, n in sorted(NAMES, key=lambda pair: pair[0] == module)}
    return text, text + "".join(inspect.getdoc(others[n]) or "" for n in re.findall(r"\bsee `(?:\w+\.)*(\w+)`", text) if n in others)


@pytest.mark.parametrize("pair", NAMES, ids=".".join)
def test_docstring_says_all_and_shows_it(pair):
    found = thing(*pair)
    own, text = said(*pair)
    assert own and (inspect.isclass(found) or own != inspect.getdoc(type(found))), "no docstring"
    if inspect.isclass(found) and issubclass(found, ft.errors.FunctraceError) and found.code != "FT000":
        assert f"## {found.code} {pair[1]}\n" in (DOCS / "errors.md").read_text(encoding="utf-8")  # with an example, as test_docs holds
        return
    assert ">>>" in (text if inspect.isclass(found) else own), "no example"
    if inspect.isclass(found):
        silent = [n for n, member in members(found).items() if not inspect.getdoc(member)]
        assert not silent, "methods without a docstring"
        return
    for name, parameter in inspect.signature(found).parameters.items():
        keywords = parameter.kind is parameter.VAR_KEYWORD and "eyword" in text
        assert keywords or re.search(rf"\b{name.strip('_')}\b", text), f"the docstring does not name the argument {name}"


@pytest.mark.parametrize("pair", NAMES, ids=".".join)
def test_examples_run(pair):
    """As `pytest --doctest-modules functrace` does, of what the pages show."""
    found = thing(*pair)
    module = getattr(found, "__module__", pair[0])
    globs = dict(vars(importlib.import_module(module)))
    finder, runner, report = doctest.DocTestFinder(recurse=inspect.isclass(found)), doctest.DocTestRunner(verbose=False), []
    for case in finder.find(found, f"{module}.{pair[1]}", module=False, globs=globs):
        runner.run(case, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize("path", reference.pages(), ids=lambda path: path.stem)
def test_pages_are_up_to_date(path):
    assert path.read_text(encoding="utf-8") == reference.pages()[path], "python -m docs.reference writes it"


def test_no_page_is_left_over():
    assert {p.name for p in reference.FOLDER.glob("*.md")} == {p.name for p in reference.pages()}


def test_tables_of_figures_are_those_that_were_saved():
    performance = pytest.importorskip("benchmarks.page")
    texts = [path.read_text(encoding="utf-8") for path in (performance.PAGE, performance.README)]
    for text in texts:
        assert text == performance.page(text), "python -m benchmarks --docs writes them"
    assert set(performance.TABLES) == set(re.findall(r"<!-- table: (\w+) -->", "".join(texts)))


PEERS = {"from_jax.md": "jax", "from_autograd.md": "autograd", "from_pytorch.md": "torch"}
THEIRS = """
import re, sys
from docs import pages

text = re.sub(r"^```python\\n.*?^```$", "", sys.stdin.read(), flags=re.MULTILINE | re.DOTALL).replace("```py\\n", "```python\\n")
assert len(pages.blocks(text)) > 3
for said, true in zip(text.splitlines(), pages.run(text).splitlines()):
    assert said == true, f"said {said}, is {true}"
"""


@pytest.mark.parametrize("name", PEERS)
def test_code_of_the_peers_prints_what_the_page_says(name):
    """Their code stands in `py` blocks, which docs.pages leaves alone. It runs here where they are installed, in a process of its own."""
    if importlib.util.find_spec(PEERS[name]) is None:
        pytest.skip(f"{PEERS[name]} is not installed")
    page = (DOCS / name).read_text(encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", THEIRS], input=page, capture_output=True, text=True, cwd=DOCS.parent)
    assert done.returncode == 0, done.stderr
