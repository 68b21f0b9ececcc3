"""Writes `docs/api/*.md`, the reference, from the docstrings of all public names: `python -m docs.reference`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("api")


@dataclass
class Area:
    """A page: its title, what it says first, and its names, by the module in which users find them. "*" is all that are public."""

    title: str
    about: str
    names: dict[str, str] = field(default_factory=dict)
    more: str = ""


# What a call gives back is documented beside the call: classes, under the name of the module where they stand.
AREAS = {
    "transforms": Area(
        "Transforms",
        "Functions of functions. Each takes a function of pytrees of arrays, and any can be applied to what another returned. "
        "[Which transform?](../index.md#which-transform) says when to use which, [Conventions](../conventions.md) what a "
        "derivative is at a kink.",
        {"functrace": "grad value_and_grad vjp jvp linearize jacobian jacrev jacfwd hessian hvp vmap"},
    ),
    "rules": Area(
        "Rules of your own, and constants",
        "Derivatives that you know better, parts of a computation that are not kept but computed again, and values through which no "
        "derivative flows.",
        {"functrace": "custom_vjp custom_jvp checkpoint stop_gradient value"},
    ),
    "control": Area(
        "Control flow",
        "Python's `if`, `for` and `while` work in every transform. These functions, with the signatures of `jax.lax`, make one "
        "operation of "
        "a loop or a branch, however many steps it takes.",
        {"functrace": "cond switch while_loop fori_loop scan associative_scan map"},
    ),
    "jit": Area(
        "Compiling and saving",
        "A function recorded once and run as one flat NumPy program; tapes as files, and as NumPy source that runs without functrace. "
        "[Performance](../performance.md) says when it pays, [Sharp edges](../sharp_edges.md#jit-what-is-noticed-and-what-is-not) "
        "what it looks at.",
        {
            "functrace": "jit save load",
            "functrace.compile.export": "to_python",
            "functrace.compile.jit": "Jitted",
            "functrace.errors": "JitWarning",
        },
    ),
    "trees": Area(
        "Pytrees",
        "Nested containers whose leaves are arrays: dicts, lists, tuples, named tuples, dataclasses, None, and classes that you register. "
        "Every transform takes them as arguments and gives them as results.",
        {"functrace.tree": "*"},
    ),
    "debug": Area(
        "Seeing and debugging",
        "The tape as text and as a picture, the derivative with its numbers, the operation that made a NaN, where the time goes.",
        {
            "functrace": "trace draw explain profile debug_nans debug_infs checks",
            "functrace.tapes": "TracedTape",
            "functrace.drawing": "Drawing",
            "functrace.debug.report": "Explanation",
            "functrace.debug.timing": "Profile",
        },
    ),
    "testing": Area(
        "Testing",
        "Derivatives against finite differences: yours, and those of [ops that you "
        "add](../../CONTRIBUTING.md#how-one-op-is-one-declaration).",
        {"functrace": "check_grads", "functrace.testing": "*"},
    ),
    "optimize": Area(
        "Optimisation and equations",
        "Parameters in containers for optimisers that want a vector, and solutions of equations, differentiated through the equation. "
        "[functrace.scipy](scipy.md) has `scipy.optimize`'s own functions.",
        {"functrace": "ravel_pytree scipy_objective implicit_root fixed_point linear_solve"},
    ),
    "optim": Area(
        "Optimisers",
        "Gradient descent and its relatives over pytrees, with Optax's calling convention: `init` makes a state, `update` gives "
        "updates and a "
        "new state, `apply_updates` applies them. Nothing is changed in place.",
        {"functrace.optim": "*"},
    ),
    "nn": Area(
        "Activations, losses, initialisers",
        "What small models need and NumPy has not: functions of arrays, stable at extreme arguments. Modules with parameters are in "
        "[functrace.torch](torch.md).",
        {"functrace.nn": "*"},
    ),
    "random": Area(
        "Random numbers",
        "Random numbers as functions of a key: the same key, the same numbers, in every transform and in every order.",
        {"functrace.random": "*"},
    ),
    "sparse": Area(
        "Sparse derivatives",
        "Jacobians and Hessians with few non-zeros, by few products: columns that share no row are computed together.",
        {"functrace": "sparse_jacobian sparse_hessian", "functrace.sparse": "*"},
    ),
    "numpy": Area(
        "functrace.numpy",
        "NumPy's API for plain and traced arrays alike, usually as `import functrace.numpy as fnp`. NumPy's own functions do the "
        "same on traced "
        "values; this namespace has what they can't catch (`fnp.array` of a list of traced values, `fnp.zeros` to be written into), and "
        "everything else of NumPy unchanged. **[What is supported](../support.md)** lists every function; each has NumPy's "
        "signature, dtypes and "
        "exceptions, so that NumPy's documentation is theirs. Beside them:",
        {"functrace.numpy": "at install uninstall"},
    ),
    "scipy": Area(
        "functrace.scipy",
        "SciPy's functions for plain and traced arrays alike, as `from functrace.scipy import special`; the subpackages are `fft`, "
        "`integrate`, `interpolate`, `linalg`, `ndimage`, `optimize`, `signal`, `spatial`, `special` and `stats`. **[What is supported of "
        "SciPy](../scipy.md)** lists every "
        "function; each has SciPy's signature, so that SciPy's documentation is theirs. Beside them:",
        {"functrace.scipy": "*", "functrace.scipy.spatial.transform": "Rotation"},
    ),
    "errors": Area(
        "Errors",
        "All derive from `FunctraceError` and from the builtin exception that fits. **[Errors](../errors.md)** has a section for "
        "each: what "
        "happened, an example that provokes it, the remedy.",
        {"functrace.errors": "*"},
    ),
    "torch": Area(
        "functrace.torch",
        "PyTorch's API, as `import functrace.torch as torch`; `python -m functrace.torch script.py` runs a script that says "
        "`import torch` as it "
        "is. **[Parity](../parity.md)** lists PyTorch's names, which of them are there, and what differs; their documentation is "
        "PyTorch's. "
        "[Coming from PyTorch](../from_pytorch.md) shows both ways to work. Beside PyTorch's names:",
        {"functrace.torch": "install"},
    ),
}

_INNER = {"Profile": "forward, rule, before, value, node, traced"}  # methods that the library calls


def public(module: str) -> list[str]:
    """The names that a module offers: what it says in `__all__`, or else what is defined in it, or below it, without underscore."""
    found = importlib.import_module(module)
    if module == "functrace":
        return [n for n in dir(found) if not n.startswith("_") and not inspect.ismodule(getattr(found, n))]
    if module == "functrace.errors":
        return [n for n, c in vars(found).items() if inspect.isclass(c) and issubclass(c, found.FunctraceError)]
    names = getattr(found, "__all__", None) or [
        n for n in dir(found) if not n.startswith("_") and str(getattr(getattr(found, n), "__module__", "")).startswith(module)
    ]
    return [n for n in names if not inspect.ismodule(getattr(found, n))]


def names(area: Area) -> list[tuple[str, str]]:
    """Module and name of all that a page documents. Modules and names that are not there are left out; the tests miss them."""
    out = []
    for module, text in area.names.items():
        if importlib.util.find_spec(module) is None:
            continue
        there = importlib.import_module(module)
        wanted = sorted(public(module), key=str.lower) if text == "*" else [n for n in text.split() if hasattr(there, n)]
        shown = {id(getattr(importlib.import_module(m), n)) for m, n in out}
        out.extend((module, n) for n in wanted if id(getattr(there, n)) not in shown)
    return out


def summary(thing: Any) -> str:
    """The first sentence of a docstring."""
    text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return re.split(r"\.(?:$| (?=[A-Z`]))", text)[0].replace("|", "\\|")


def _directive(module: str, name: str) -> str:
    thing = getattr(importlib.import_module(module), name)
    if inspect.isclass(thing):
        kind = "autoexception" if issubclass(thing, BaseException) else "autoclass"
        members = "" if kind == "autoexception" else "   :members:\n"
        if name in _INNER:
            members += f"   :exclude-members: {_INNER[name]}\n"
        return f".. {kind}:: {module}.{name}\n{members}"
    return f".. {'autofunction' if callable(thing) else 'autodata'}:: {module}.{name}\n"


def page(area: Area) -> str:
    """A page of the reference."""
    found = names(area)
    out = f"# {area.title}\n\n<!-- Written by `python -m docs.reference` from the docstrings. Don't edit. -->\n\n{area.about}\n"
    if found:
        rows = [f"| `{m.replace('functrace', 'ft', 1)}.{n}` | {summary(getattr(importlib.import_module(m), n))} |\n" for m, n in found]
        out += "\n| name | what it is |\n|---|---|\n" + "".join(rows)
        out += "\n```{eval-rst}\n" + "\n".join(_directive(*pair) for pair in found) + "```\n"
    return out


def index() -> str:
    """The first page of the reference."""
    there = {name: area for name, area in AREAS.items() if names(area) or not area.names}
    rows = "".join(f"| [{area.title}]({name}.md) | {' '.join(f'`{n}`' for _, n in names(area))} |\n" for name, area in there.items())
    toctree = "\n".join(there)
    return (
        "# Reference\n\n<!-- Written by `python -m docs.reference` from the docstrings. Don't edit. -->\n\n"
        "Every public name, its arguments, results and errors, with an example that the tests run. `import functrace as ft` throughout.\n\n"
        f"| page | names |\n|---|---|\n{rows}\n```{{toctree}}\n:hidden:\n\n{toctree}\n```\n"
    )


def pages() -> dict[Path, str]:
    """What the files in `docs/api` should hold."""
    out = {FOLDER / f"{name}.md": page(area) for name, area in AREAS.items() if names(area)}
    return {FOLDER / "index.md": index(), **out}


def main() -> None:
    """Write them, and remove what is none of them."""
    FOLDER.mkdir(exist_ok=True)
    written = pages()
    for path in FOLDER.glob("*.md"):
        if path not in written:
            path.unlink()
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
