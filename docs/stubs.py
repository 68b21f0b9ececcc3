"""Writes the stubs of `functrace.torch`, which type checkers and editors read: `python -m docs.stubs`; `python -m docs.stubs --check`.

Its functions and methods are made from tables when it is imported, where no type checker sees them. What a function returns is found by
calling it, with the sample calls of the tests.
"""

from __future__ import annotations

import ast
import enum
import functools
import importlib
import inspect
import pathlib
import pkgutil
import re
import sys
import warnings
from types import ModuleType
from typing import Any

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import torch_calls  # noqa: E402
import torch_nn_calls  # noqa: E402
import torch_oracle  # noqa: E402

from functrace import torch  # noqa: E402
from functrace.torch import Tensor  # noqa: E402

HEAD = "# Written by `python -m docs.stubs`.\n"
MODULES = "autograd nn nn.functional optim linalg fft special".split()
PLAIN = {"bool", "int", "float", "str", "bool | None", "int | None", "float | None", "str | None"}
RETURNS = {  # of what the tests have no plain call
    "Tensor": "empty zeros ones full eye rand randn randint randperm normal bernoulli multinomial tensor as_tensor from_numpy asarray "
    "empty_like zeros_like ones_like full_like rand_like randn_like randint_like scalar_tensor frombuffer linspace logspace arange range "
    "poisson clone detach cpu contiguous requires_grad_ to view view_as reshape_as expand_as type_as permute mT mH H T real imag grad data "
    "new_empty new_full new_ones new_tensor new_zeros half float double bfloat16 int long short bool char byte cfloat cdouble chalf "
    "diff dropout alpha_dropout feature_alpha_dropout dropout1d dropout2d dropout3d svdvals scaled_dot_product_attention",
    "bool": "is_tensor is_floating_point is_complex is_nonzero is_same_size is_contiguous is_inference is_pinned is_shared is_set_to "
    "is_grad_enabled is_signed equal is_coalesced is_conj is_neg",
    "int": "dim ndimension nelement element_size storage_offset get_device __len__ __hash__ numel data_ptr "
    "itemsize nbytes __index__ __int__",
    "Generator": "manual_seed",
    "float": "__float__",
    "Any": "type",
    "tuple[Any, ...]": "autograd.grad",
    "None": "autograd.backward set_printoptions set_default_dtype set_default_device set_num_threads",
}  # fmt: skip
IS = {name: kind for kind, names in RETURNS.items() for name in names.split()}
OPERATORS = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
IS.update({f"__{way}{name}__": "Tensor" for name in OPERATORS for way in ("", "r", "i")})
IS.update({f"__{name}__": "Tensor" for name in "neg pos abs invert eq ne lt le gt ge getitem".split()}, __setitem__="None")


def _kind(x: Any) -> str:
    if isinstance(x, Tensor):
        return "Tensor"
    if type(x) is tuple and all(isinstance(y, Tensor) for y in x):
        return "tuple[Tensor, ...]"
    return type(x).__name__ if type(x) in (bool, int, float, str) else "Any"


def returned() -> dict[str, str]:
    """What each function and method returns, where it is the same in all calls."""
    found: dict[str, set[str]] = {}
    rows = [*torch_calls.CASES, *torch_nn_calls.CASES]
    rows += [(alias, *row[1:]) for alias, name in torch_calls.ALIASES.items() for row in rows if row[0] == name]
    for name, *args in rows:
        if any(callable(x) for x in args[:1]):
            continue
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                _, out = torch_oracle.call(torch, (name, *args), lambda x: torch.from_numpy(np.copy(x)), differentiate=False)
        except Exception:  # calls that are refused
            continue
        found.setdefault(name.rpartition(".")[2], set()).add(_kind(out))
    return {name: kinds.pop() if len(kinds) == 1 else "Any" for name, kinds in found.items()}


def _default(x: Any) -> str:
    return repr(x) if x is None or type(x) in (bool, int, str) or type(x) is float and np.isfinite(x) else "..."


def _annotation(p: inspect.Parameter) -> str:
    given = p.annotation if isinstance(p.annotation, str) else getattr(p.annotation, "__name__", "Any")
    plain = given in PLAIN and not (type(p.default) is float and given == "int")
    return _builtin(given) if plain else "Any"


def _builtin(kind: str) -> str:
    """A type of Python's, where a module has a name like it."""
    return re.sub(r"\b(int|float|bool|str)\b", r"builtins.\1", kind)


def _parameters(f: Any, first: str = "") -> str:
    """The parameters of a function as source; with `first` in place of its first. What is a method or in place has no `out`."""
    hidden = ("out",) if first or getattr(f, "__name__", "")[-1:] == "_" else ()
    try:
        parameters = [p for p in inspect.signature(f).parameters.values() if p.name[0] != "_" and p.name not in hidden]
    except (TypeError, ValueError):
        return f"{first}, *args: Any, **kwargs: Any".removeprefix(", ")
    while not first and hasattr(f, "__wrapped__"):  # and what the wrappers of a function take, such as `out`
        own, names = inspect.signature(f, follow_wrapped=False).parameters.values(), {p.name for p in parameters}
        more = [p for p in own if p.kind is p.KEYWORD_ONLY and p.name not in {*names, *hidden}]
        at = len(parameters) - any(p.kind is p.VAR_KEYWORD for p in parameters)
        parameters[at:at], f = more, f.__wrapped__
    if first and parameters and parameters[0].kind < inspect.Parameter.VAR_POSITIONAL:
        parameters = parameters[1:]
    parts, kind, slash = [first] if first else [], None, False
    for p in parameters:
        if slash and p.kind is not p.POSITIONAL_ONLY:
            parts.append("/")
        slash = p.kind is p.POSITIONAL_ONLY
        if p.kind is p.KEYWORD_ONLY and kind not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL):
            parts.append("*")
        stars = "*" * ((p.kind is p.VAR_POSITIONAL) + 2 * (p.kind is p.VAR_KEYWORD))
        default = "" if p.default is p.empty else f" = {_default(p.default)}"
        parts.append(f"{stars}{p.name}: {_annotation(p)}{default}")
        kind = p.kind
    return ", ".join([*parts, *["/"] * slash])


def _result(name: str, known: dict[str, str]) -> str:
    if name[-1] == "_" and name[-2] != "_":
        return "Tensor"
    return _builtin(IS.get(name) or known.get(name, "Any"))


def _home(x: Any, name: str) -> str | None:
    """The module whose source defines a class."""
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None) or ""
        if module.__name__.startswith("functrace.torch") and vars(module).get(name) is x and path.endswith(".py"):
            text = pathlib.Path(path).read_text()
            if f"\nclass {name}(" in text or f"\nclass {name}:" in text:
                return module.__name__
    return None


def _shared(x: Any, name: str) -> str | None:
    """The module that has a function of `torch` too."""
    parts = ("nn.functional", "linalg", "special")
    return next((part for part in parts if vars(importlib.import_module(f"functrace.torch.{part}")).get(name) is x), None)


def methods(known: dict[str, str]) -> str:
    """The stub of what is attached to `Tensor`."""
    written = (ROOT / "functrace/torch/_tensor.py").read_text()
    lines = [HEAD + "import builtins\nfrom typing import Any\n", "from functrace.torch._tensor import Tensor\n", "class Methods:"]
    for name in sorted(dir(Tensor)):
        x = inspect.getattr_static(Tensor, name)
        own = f"    def {name}(" in written or f"    {name} = " in written or f"    {name}: " in written
        inherited = getattr(object, name, None) is x and name not in ("__eq__", "__ne__")
        if own or inherited or not hasattr(Tensor, name) or name.startswith("_") and name not in IS or isinstance(x, (str, dict)):
            continue
        if name in ("device", "layout") or isinstance(x, enum.Enum):
            continue
        if isinstance(x, property) or not callable(x):
            lines += ["    @property", f"    def {name}(self) -> {_result(name, known)}: ..."]
        else:
            ignore = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
            lines.append(f"    def {name}({_parameters(x, 'self')}) -> {_result(name, known)}: ...{ignore}")
    return "\n".join(lines) + "\n"


def stub(path: str, known: dict[str, str]) -> str:
    """The stub of a module."""
    module: Any = importlib.import_module(f"functrace.torch.{path}".rstrip("."))
    imports: dict[str, set[str]] = {"functrace.torch._tensor": {"Tensor as Tensor"}}  # by module
    lines = []
    tree = ast.parse(pathlib.Path(module.__file__).read_text())
    borrowed = {a.name for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom)) for a in node.names if a.asname is None}
    parts = {m.name for m in pkgutil.iter_modules(getattr(module, "__path__", ()))}
    later = (*vars(module).get("_LAZY", ()), *getattr(module, "__all__", ()))
    for name in sorted({n for n in (*dir(module), *later, *parts) if n[0] != "_"} - borrowed):
        if name in parts and not hasattr(module, name):
            importlib.import_module(f"{module.__name__}.{name}")
        x = getattr(module, name)
        if isinstance(x, ModuleType):
            if name in parts and x.__name__ == f"{module.__name__}.{name}":
                imports.setdefault(module.__name__, set()).add(f"{name} as {name}")
        elif isinstance(x, type) and path == "optim" and issubclass(x, torch.optim.Optimizer) and x is not torch.optim.Optimizer:
            lines.append(f"class {name}({x.__base__.__name__}):\n    def __init__({_parameters(x.__init__, 'self')}) -> None: ...")
        elif isinstance(x, type) and (home := _home(x, x.__name__)) is not None:
            imports.setdefault(home, set()).add(f"{x.__name__} as {name}")
        elif isinstance(x, type) and issubclass(x, torch.nn.Module):
            lines.append(f"class {name}(Module):\n    def __init__({_parameters(x.__init__, 'self')}) -> None: ...")
        elif isinstance(x, torch.dtype):
            lines.append(f"{name}: dtype")
        elif isinstance(x, (bool, int, float, str)) or x is None:
            lines.append(f"{name}: {'None' if x is None else _builtin(type(x).__name__)}")
        elif name.endswith("Tensor"):
            lines.append(f"{name} = Tensor")
        elif not path and callable(x) and (part := _shared(x, name)):
            imports.setdefault(f"functrace.torch.{part}", set()).add(f"{name} as {name}")
        elif inspect.isroutine(x) or isinstance(x, functools.partial):
            kind = _result(f"{path}.{name}" if path == "autograd" else name, known)
            lines.append(f"def {name}({_parameters(x)}) -> {kind}: ...")
        else:
            lines.append(f"{name}: Any")
    first = [f"from {home} import {', '.join(sorted(names))}" for home, names in sorted(imports.items())]
    return "\n".join([HEAD + "import builtins\nfrom typing import Any\n", *first, "", *lines]) + "\n"


def stubs() -> dict[pathlib.Path, str]:
    """All of them, by file."""
    known = returned()
    base = ROOT / "functrace/torch"
    found = {base / "_methods.pyi": methods(known), base / "__init__.pyi": stub("", known)}
    for name in MODULES:
        place = base / name.replace(".", "/")
        found[place / "__init__.pyi" if place.is_dir() else place.with_suffix(".pyi")] = stub(name, known)
    return found


if __name__ == "__main__":
    for path, text in stubs().items():
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            raise SystemExit(f"{path} is not of today: python -m docs.stubs")
