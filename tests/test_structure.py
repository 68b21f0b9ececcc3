"""What the repository promises of itself, held by machine: layers, sizes, names, docs."""

import ast
import doctest
import functools
import inspect
import os
import pathlib
import pkgutil
import re
import subprocess
import sys

import numpy as np
import pytest

import functrace as ft
from functrace import errors
from tests.helpers import of_numpy

PACKAGE = pathlib.Path(ft.__file__).parent
ROOT = PACKAGE.parent
FILES = sorted(PACKAGE.rglob("*.py"))
NAMES = [str(f.relative_to(PACKAGE)) for f in FILES]

# Imports run one way: a module may import from its own layer and from those to its left.
LAYERS = [
    "places",
    "errors",
    "edge",
    "references",
    "threads",
    "later",
    "pool",
    "sums",
    "blockwise",
    "operands",
    "locks",
    "tree",
    "_labels",
    "core",
    "ops",
    "transforms",
    "compile",
    "numpy",
    "optimize",
    "optim",
    "sparse",
    "testing",
    "debug",
    "drawing",
    "tapes",
    "scipy",
    "random",
    "nn",
    "torch",
    "",
]
DEPENDENCIES = {"numpy", "typing_extensions"}
LONG_FILES = {}  # a file over 500 lines, and the reason


def layer_of(module):
    """The layer of `functrace.x.y`; the package itself, which collects the public names, is a layer above those it collects."""
    part = module.removeprefix("functrace").lstrip(".").partition(".")[0]
    return LAYERS.index(part) if part in LAYERS else None


def of_every_file(check):
    """`check(path, parsed)` of one file, as a test of all."""

    def test():
        wrong = []
        for path in FILES:
            try:
                check(path, parse(path))
            except AssertionError as error:
                wrong.append(str(error))
        assert not wrong, "\n".join(wrong)

    return test


@functools.cache
def parse(path):
    return ast.parse(path.read_text(), feature_version=(3, 10))  # the grammar of the oldest Python that is supported


@functools.cache
def imports(path):
    """(module, line, whether it is at the top of the file) of every import in a file."""
    return list(_imports(path))


def _imports(path):
    top = set(map(id, parse(path).body))
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, id(node) in top
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import hides the layer"
            yield node.module, node.lineno, id(node) in top
            for alias in node.names:
                if (PACKAGE.parent / node.module.replace(".", "/") / f"{alias.name}.py").exists():
                    yield f"{node.module}.{alias.name}", node.lineno, id(node) in top


def read_by(path):
    """The modules that a file reads: of a package, where it takes a module from one, that module."""
    found = {(module, line) for module, line, _ in imports(path)}
    return {m for m, line in found if not any(n == line and other.startswith(f"{m}.") for other, n in found)}


@of_every_file
def test_imports_run_one_way(path, parsed):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    part = "" if parts in (("__init__",), ("__main__",)) else parts[0]
    assert part in LAYERS, f"{part} belongs to no layer: enter it in LAYERS"
    own = LAYERS.index(part)
    for module, line, _ in imports(path):
        if module.split(".")[0] == "functrace":
            if module == "functrace":
                continue  # `from functrace import errors`: the name is checked as a module of its own
            other = layer_of(module)
            assert other is not None, f"{path}:{line}: {module} belongs to no layer"
            assert other <= own, f"{path}:{line}: {parts[0]} may not import {module}"


def test_no_imports_run_in_a_circle():
    """Late ones, within functions, counted."""
    named = {".".join(("functrace", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path for path in FILES}
    to = {name: read_by(path) & named.keys() - {name, "functrace"} for name, path in named.items()}
    while free := [name for name, others in to.items() if not others & to.keys()]:
        for name in free:
            del to[name]
    assert not to, f"none of these can be read before another of them: {sorted(to)}"


@of_every_file
def test_only_the_declared_dependencies_are_imported(path, parsed):
    allowed = DEPENDENCIES | set(sys.stdlib_module_names) | {"functrace"}
    if path.relative_to(PACKAGE).parts[0] in ("scipy", "optim", "random", "sparse"):  # the last three import it in functions
        allowed.add("scipy")
    for module, line, _ in imports(path):
        assert module.split(".")[0] in allowed, f"{path}:{line}: imports {module}"


def test_functrace_torch_meets_the_library_in_one_file():
    public = {"functrace", "functrace.errors", "functrace.tree", "functrace.numpy"}
    for path in (PACKAGE / "torch").rglob("*.py"):
        for module, line, _ in imports(path) if path.name != "_contact.py" else ():
            inside = module.startswith("functrace.") and not module.startswith(("functrace.torch", "functrace.scipy"))
            assert not inside or module in public, f"{path}:{line}: {module} is reached past _contact"


def test_inside_the_core_imports_follow_the_reading_order():
    order = ["tracer", "primitive", "tape", "reverse", "forward", "batch"]
    assert {p.stem for p in (PACKAGE / "core").glob("*.py")} == {*order, "__init__"}
    for k, name in enumerate(order):
        for module, line, top in imports(PACKAGE / "core" / f"{name}.py"):
            if module.startswith("functrace.core."):
                assert order.index(module.split(".")[2]) < k, f"core/{name}.py:{line} reads {module} before its chapter"
                assert top, f"core/{name}.py:{line}: an import in a function hides a cycle"


def test_the_core_does_not_know_the_layers_above():
    text = "\n".join(p.read_text() for p in (PACKAGE / "core").glob("*.py"))
    for word in ("functrace.ops ", "functrace.transforms", "functrace.torch", "functrace.numpy "):
        assert f"import {word}" not in text and f"from {word}" not in text


def in_a_fresh_python(code):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_brings_in_nothing_heavy():
    out = in_a_fresh_python(
        "import sys, numpy; before = set(sys.modules); import functrace as ft; ft.grad(ft.numpy.sin)(1.0);"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in ('scipy', 'torch', 'jax', 'autograd', 'pytest', 'sklearn', 'tqdm')"
        " or m.startswith('functrace.torch') or m.startswith('functrace.scipy')))"
    )
    assert out == "[]"


def test_import_leaves_numpy_as_it_was():
    out = in_a_fresh_python(
        "import numpy as np; before = (np.geterr(), np.sin, np.get_printoptions(), np.sum); state = np.random.get_state()[2];"
        "import functrace; print((np.geterr(), np.sin, np.get_printoptions(), np.sum) == before and state == np.random.get_state()[2])"
    )
    assert out == "True"


def test_every_module_imports_alone():
    """No module depends on another having been imported first."""
    modules = [n for n in NAMES if not n.startswith(("torch", "scipy")) and not n.endswith("__main__.py")]
    names = ["functrace." + n[:-3].replace("/", ".").removesuffix(".__init__") for n in modules if n != "__init__.py"]
    code = "import importlib, sys\n" + "\n".join(f"importlib.import_module({n!r})" for n in reversed(names))
    assert in_a_fresh_python(code) == ""


def test_what_is_imported_late_adds_no_methods():
    """Nor names: methods of traced arrays and of ufuncs, and the names of `functrace.numpy`, are there from the start."""
    code = (
        "import functrace.numpy as fnp\nfrom functrace.core.tracer import Tracer\nfrom functrace.ops.protocol import UFUNC_METHODS, load_late\n"
        "found = lambda: (dir(Tracer), sorted(UFUNC_METHODS))\nbefore = found()\nfnp.median\nload_late()\nassert found() == before\n"
        "print({'median', 'sort', 'pad'} <= set(dir(fnp)))"
    )
    assert in_a_fresh_python(code) == "True"


def test_the_core_is_under_800_lines():
    lines = {p.name: len(p.read_text().splitlines()) for p in (PACKAGE / "core").glob("*.py")}
    assert sum(lines.values()) < 800, lines


@of_every_file
def test_no_file_is_over_500_lines(path, parsed):
    name = str(path.relative_to(PACKAGE))
    lines = len(path.read_text().splitlines())
    assert lines <= 500 or LONG_FILES.get(name), f"{name} has {lines} lines: split it, or give the reason in LONG_FILES"


@of_every_file
def test_no_private_numpy_names(path, parsed):
    for node in ast.walk(parsed):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("np", "numpy", "_numpy"):
            assert not node.attr.startswith("_") or node.attr.endswith("__"), f"{path}:{node.lineno}: np.{node.attr}"
            assert node.attr not in ("core", "compat"), f"{path}:{node.lineno}: np.{node.attr} is private since NumPy 2"
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for module in [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]:
                assert not re.match(r"numpy\.(_|core)", module), f"{path}:{node.lineno}: {module}"


@of_every_file
def test_every_module_says_what_it_is(path, parsed):
    docstring = ast.get_docstring(parsed)
    assert docstring and len(docstring) > 20, f"{path} has no docstring"


@of_every_file
def test_every_public_function_has_a_docstring(path, parsed):
    def public(body, prefix):
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                yield node, f"{prefix}{node.name}"
                if isinstance(node, ast.ClassDef):
                    yield from public(node.body, f"{prefix}{node.name}.")

    for node, name in public(parsed.body if "torch" not in path.parts else [], ""):
        decorators = {ast.unparse(d) for d in node.decorator_list}
        if any(
            "overload" in d or "setter" in d or re.match(r"(implements|_?declared|_face|_summary|_metric|_?named|of_image)\(", d)
            for d in decorators
        ):
            continue  # a declaration makes the docstring
        overriding = "evaluate forward reverse tangent mapped alike process close record tracer constant reveal rule jitted".split()
        overrides = "." in name and node.name in overriding
        assert ast.get_docstring(node) or overrides, f"{path}:{node.lineno}: {name} has no docstring"


def public_names():
    """The names that `functrace` offers, without its submodules."""
    return sorted(n for n in dir(ft) if not n.startswith("_") and not inspect.ismodule(getattr(ft, n)))


EXPECTED = (
    "grad value_and_grad vjp jvp linearize jacrev jacfwd jacobian hessian hvp vmap checkpoint custom_vjp custom_jvp stop_gradient trace "
    "check_grads value jit cond while_loop fori_loop scan associative_scan switch map save load debug_nans debug_infs checks explain profile"
).split()


def test_the_public_names_are_there():
    assert set(EXPECTED) <= set(public_names())
    for module in ("numpy", "tree", "errors"):
        assert inspect.ismodule(getattr(ft, module))
    assert isinstance(ft.__version__, str)


@pytest.mark.parametrize("name", sorted({*EXPECTED, *public_names()}))
def test_every_public_name_has_a_docstring_with_an_example(name):
    doc = inspect.getdoc(getattr(ft, name))
    assert doc and ">>> " in doc
    examples = doctest.DocTestParser().get_examples(doc)
    assert any(e.want for e in examples) or name == "check_grads", "the example shows no result"


@pytest.mark.parametrize("name", ["register", "map"])
def test_tree_functions_have_examples(name):
    assert ">>> " in inspect.getdoc(getattr(ft.tree, name))


MODULES = [
    m.name
    for m in pkgutil.walk_packages([str(PACKAGE)], "functrace.")
    if "torch" not in m.name and "scipy" not in m.name and "__main__" not in m.name
]


@pytest.mark.parametrize("module", ["functrace", *MODULES])
def test_the_examples_in_docstrings_run(module):
    __import__(module)
    found = sys.modules[module]
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    output = []
    for test in finder.find(found, module):
        runner.run(test, out=output.append)
    assert not runner.failures, "".join(output)


def test_error_codes_are_unique():
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.FunctraceError)]
    codes = [c.code for c in classes]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"FT\d{3}", c) for c in codes)
    assert all("code" in vars(c) for c in classes), "a class without a code of its own inherits another's"


def test_every_error_class_is_raised_somewhere():
    text = "\n".join(p.read_text() for p in FILES)
    for name, c in inspect.getmembers(errors, inspect.isclass):
        if issubclass(c, errors.FunctraceError) and c is not errors.FunctraceError:
            assert re.search(rf"raise (errors\.)?{name}\(", text), f"{name} is never raised"


def test_the_library_declares_nothing_twice():
    """Users may, in a session; here the second would hide the first."""
    code = (
        "import sys\nnames = []\n"
        "def seen(frame, event, _):\n"
        "    if event == 'call' and frame.f_code.co_name == 'declare' and 'registry' in frame.f_code.co_filename:\n"
        "        names.append(frame.f_locals['declared'].name)\n"
        "sys.setprofile(seen)\nimport functrace.torch\nfrom functrace.scipy import linalg, ndimage, signal, special, stats\n"
        "from functrace.ops.protocol import load_late\nload_late()\nsys.setprofile(None)\n"
        "print(len(names) > 500, {n for n in names if names.count(n) > 1})"
    )
    assert in_a_fresh_python(code) == "True set()"


def test_every_declaration_has_a_sample():
    from functrace.ops.registry import TABLE

    for name, declared in of_numpy(TABLE).items():
        assert declared.samples, f"{name} declares nothing to test it with"
        assert inspect.getdoc(declared.function) or declared.primitive or "." in name, f"{name} has no docstring"


def test_functions_have_numpys_parameters():
    """A function takes what NumPy's takes, under the same names: an unknown keyword would otherwise be an error only when traced."""
    from functrace.ops.registry import TABLE

    wrong = []
    for name, declared in of_numpy(TABLE).items():
        for function in declared.numpy if isinstance(declared.numpy, tuple) else (declared.numpy,):
            if function is None or isinstance(function, np.ufunc):
                continue
            try:
                theirs, ours = inspect.signature(function).parameters, inspect.signature(declared.function).parameters
            except (TypeError, ValueError):
                continue
            if declared.primitive is not None or any(p.kind is p.VAR_KEYWORD for p in ours.values()):
                continue
            skipped = {"like", "device", "args", "kwargs", "newshape", "bias", "ddof"}  # the last three NumPy 2.0 had, deprecated
            missing = [p for p in theirs if p not in ours and p not in skipped and theirs[p].kind is not inspect.Parameter.VAR_KEYWORD]
            if missing and not any(p.kind is p.VAR_POSITIONAL for p in ours.values()):
                wrong.append(f"{name}: {missing}")
    assert not wrong, wrong


def test_supported_pythons_can_parse_the_source():
    for path in FILES:
        assert isinstance(parse(path), ast.Module)


@of_every_file
def test_no_bare_except_and_no_leftovers(path, parsed):
    for node in ast.walk(parsed):
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"{path}:{node.lineno}: a bare except"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            # Running a script is what the one is for, running a compiled program the other.
            allowed = node.func.id == "exec" and (path.name == "__main__.py" or path.parts[-2:] == ("compile", "source.py"))
            assert node.func.id not in ("breakpoint", "eval", "exec") or allowed, f"{path}:{node.lineno}"
    assert not re.search(r"\b(TODO|FIXME|XXX|HACK)\b", path.read_text()), f"{path} has a leftover"
