"""The documentation's site: `sphinx-build -W --keep-going -b html docs build/docs`.

Pages link to each other, to the README and to source files as plain relative Markdown, which GitHub shows as it is. What lies outside
`docs` is made part of the site here: Markdown files stand in for the pages of `docs/project`, source files get a page each.
"""

import inspect
import os
import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT))

from docutils import nodes  # noqa: E402
from sphinx import addnodes  # noqa: E402

import functrace  # noqa: E402
from docs import reference  # noqa: E402

project = "functrace"
author = "The functrace developers"
project_copyright = author
version = release = functrace.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax", "sphinx_copybutton"]
exclude_patterns = ["_build"]
suppress_warnings = ["misc.highlighting_failure"]  # of excerpts in the book; the pages' own code is run by docs.pages

myst_enable_extensions = ["dollarmath", "amsmath", "attrs_inline"]
myst_heading_anchors = 4
myst_url_schemes = ["http", "https", "mailto", "source"]

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autoclass_content = "class"
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"functrace {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/mark.svg"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "light_logo": "mark.svg",
    "dark_logo": "mark.svg",
    "light_css_variables": {"color-brand-primary": "#0b6e6e", "color-brand-content": "#0b6e6e"},
    "dark_css_variables": {"color-brand-primary": "#5cc8c0", "color-brand-content": "#5cc8c0"},
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Pages that are files outside of docs

MIRRORED = {"project/readme": "README.md", "project/contributing": "CONTRIBUTING.md", "project/changelog": "CHANGELOG.md"}
_PAGE_OF = {ROOT / file: DOCS / f"{page}.md" for page, file in MIRRORED.items()}
_LINK = re.compile(r"(?<!!)\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)")
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_shown: set[Path] = set()  # source files and folders that a page links to


def _target(here: Path, page: Path, match: re.Match[str]) -> str:
    """Where a link leads: `here` is the file that holds it, `page` the one that shows it."""
    path = Path(os.path.normpath(here.parent / match[1]))
    anchor = match[2] or ""
    path = _PAGE_OF.get(path, path)
    if path.is_relative_to(DOCS):
        return f"]({os.path.relpath(path, page.parent)}{anchor})" if path.suffix == ".md" or path.is_file() else match[0]
    if not path.exists():
        return match[0]
    _shown.add(path)
    return f"](source:{path.relative_to(ROOT).as_posix()})"


def read(app: Any, docname: str, content: list[str]) -> None:
    """A page's text, with the links that lead out of docs led to pages of the site."""
    page = Path(app.env.doc2path(docname))
    here = ROOT / MIRRORED[docname] if docname in MIRRORED else page
    text = here.read_text(encoding="utf-8") if docname in MIRRORED else content[0]
    parts = _FENCED.split(text)
    if docname == "errors":  # where the reference leads to
        parts[::2] = [re.sub(r"^## (FT\d+)", r"(\1)=\n\g<0>", p, flags=re.MULTILINE) for p in parts[::2]]
    content[0] = "".join(p if p.startswith("```") else _LINK.sub(lambda m: _target(here, page, m), p) for p in parts)
    if docname in MIRRORED:
        app.env.note_dependency(str(here))


def source_page(path: Path) -> str:
    """The name of the page that shows a source file or a folder."""
    return "source/" + path.relative_to(ROOT).as_posix().rstrip("/")


def resolve(app: Any, doctree: nodes.document, docname: str) -> None:
    """Links to source files become relative, and inline code that names something public a link to the reference."""
    for node in list(doctree.findall(nodes.reference)):
        uri = node.get("refuri", "")
        if uri.startswith("source:"):
            node["refuri"] = app.builder.get_relative_uri(docname, source_page(ROOT / uri.removeprefix("source:")))
            node["classes"].append("source")


def link_names(app: Any, doctree: nodes.document) -> None:
    """Inline code such as `ft.grad` leads to the reference; on the first page `grad` does too, and in the reference's index all names."""
    listed = iter(_documented)
    for node in list(doctree.findall(nodes.literal)):
        name = re.sub(r"^ft\.", "functrace.", node.astext()).partition("(")[0]
        if app.env.docname == "index":
            name = f"functrace.{name.removeprefix('functrace.')}"
        elif app.env.docname == "api/index" and isinstance(node.parent.parent, nodes.entry):
            name = ".".join(next(listed))
        if name in _public and not isinstance(node.parent, (nodes.reference, addnodes.pending_xref, nodes.title)):
            ref = addnodes.pending_xref("", refdomain="py", reftype="obj", reftarget=_public[name], refexplicit=True, refwarn=True)
            ref["refdoc"] = app.env.docname
            node.replace_self(ref)
            ref += node


_documented = [pair for area in reference.AREAS.values() for pair in reference.names(area)]
_public = {f"{module}.{name}": f"{module}.{name}" for module, name in _documented}
_bare = {name: f"{module}.{name}" for module, name in reversed(_documented)}  # as docstrings name them


def collect(app: Any) -> Any:
    """A page for each source file, and each folder, that a page links to."""
    done: set[Path] = set()
    for path in sorted(_shown):
        files = [path] if path.is_file() else [p for p in sorted(path.rglob("*")) if p.is_file() and not _hidden(p)]
        for file in files:
            if file not in done:
                done.add(file)
                yield source_page(file), {"title": file.relative_to(ROOT).as_posix(), "body": _listing(app, file)}, "page.html"
        if path.is_dir():
            here = source_page(path)
            links = [(app.builder.get_relative_uri(here, source_page(f)), f.relative_to(path), _about(f)) for f in files]
            rows = "".join(f'<li><a href="{uri}"><code>{name}</code></a> {about}</li>' for uri, name, about in links)
            title = path.relative_to(ROOT).as_posix() + "/"
            yield here, {"title": title, "body": f"<h1>{title}</h1><ul>{rows}</ul>"}, "page.html"


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "__pycache__")) for part in path.relative_to(ROOT).parts) or path.suffix == ".pyc"


def _about(path: Path) -> str:
    found = re.match(r'"""(.*?)(?:\n\n|""")', path.read_text(encoding="utf-8"), re.DOTALL) if path.suffix == ".py" else None
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", found[1]) if found else ""


def _listing(app: Any, path: Path) -> str:
    text = path.read_text(encoding="utf-8", errors="replace")
    language = {".py": "python", ".toml": "toml", ".yml": "yaml"}.get(path.suffix, "text")
    name = path.relative_to(ROOT).as_posix()
    return f"<h1><code>{name}</code></h1>{app.builder.highlighter.highlight_block(text, language, linenos='inline', location=name)}"


# Docstrings: single backquotes are code, as in Markdown; what they name is linked.


def docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Turn a docstring's backquotes into those of reStructuredText."""
    paragraphs = "\n".join(lines).split("\n\n")
    lines[:] = "\n\n".join(p if p.lstrip().startswith(">>>") else _BACKQUOTED.sub(_code, p) for p in paragraphs).splitlines()
    if inspect.isclass(obj) and issubclass(obj, functrace.errors.FunctraceError) and obj is not functrace.errors.FunctraceError:
        lines += ["", f"Code {obj.code}: :ref:`an example, and the remedy <{obj.code}>`."]


def stars(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape the stars of `*args`, which are no emphasis."""
    lines[:] = [line if line.lstrip().startswith((">>>", "...")) else _STARS.sub(r"\\*", line) for line in lines]


def signature(app: Any, what: str, name: str, obj: Any, options: Any, args: str, returns: str) -> Any:
    """Nothing in brackets behind classes that users get but do not make."""
    return ("", None) if what == "class" and name.rpartition(".")[0] in _RESULTS else None


_RESULTS = (
    "functrace.debug.report",
    "functrace.debug.timing",
    "functrace.drawing",
    "functrace.compile.jit",
    "functrace.tapes",
    "functrace.tree",
)
_BACKQUOTED = re.compile(r"(?<![`:\w])`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")
_STARS = re.compile(r"(?<![\w\\`])\*(?=\*?[a-z]+\b[^*`]*(?:$|[,:]))")


def _code(match: re.Match[str]) -> str:
    end = "\\ " if re.match(r"\w", match.string[match.end() :]) else ""
    name = match[1].removeprefix("functrace.").removeprefix("ft.").removeprefix("errors.")
    return (f":py:obj:`{name} <{_bare[name]}>`" if name in _bare else f"``{' '.join(match[1].split())}``") + end


def missing(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Names of errors in a docstring's `Raises`."""
    target = _bare.get(node.get("reftarget", "").removeprefix("errors."))
    if target is None or node.get("refdomain") != "py":
        return None
    return env.get_domain("py").resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, contnode)


def setup(app: Any) -> dict[str, Any]:
    """Register the above."""
    app.connect("source-read", read)
    app.connect("doctree-read", link_names)
    app.connect("doctree-resolved", resolve)
    app.connect("html-collect-pages", collect)
    app.connect("autodoc-process-docstring", docstring, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", stars, priority=600)
    app.connect("autodoc-process-signature", signature)
    app.connect("missing-reference", missing)
    return {"parallel_read_safe": False}
