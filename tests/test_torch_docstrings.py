"""The examples in the docstrings of the PyTorch that is installed print the same here; where they don't, it is listed with the reason."""

import ast
import contextlib
import functools
import inspect
import io
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

MODULES = """torch torch.Tensor torch.linalg torch.fft torch.special torch.func torch.nn torch.nn.functional torch.nn.init torch.nn.utils.rnn
  torch.autograd.function torch.autograd torch.autograd.functional torch.distributions torch.optim torch.optim.lr_scheduler torch.testing""".split()
LEFT_OUT = (  # statements: what is not here, is large, changes the process, or depends on the moment or on rounding
    "cuda|sparse|quanti|empty|compile|storage|num_workers|determin|profiler|make_fx|rearrange|thread_safe|_denormal"
    r"|2d\(|3d\(|Transformer|set_default|open\(|save\(|load\(|seed\(|allclose|get_ignored|pivot=|grad_dtype"
)
KNOWN = {
    **dict.fromkeys(("torch.conj", "torch.resolve_conj", "torch.resolve_neg"), "a conjugate is a copy, not lazy"),
    "torch.sort": "of equal elements another may be chosen where the sort need not be stable",
    "torch.from_dlpack": "NumPy lets nobody write to what a capsule holds",
}
NUMBER = re.compile(r"(?:[-+]|(?<![\w.]))\d+\.?\d*(?:e[-+]?\d+)?")


def statements(doc):
    """The statements of a docstring's examples, some of which have `>>>` where `...` is meant."""
    found, lines = [], []
    for line in [*map(str.strip, doc.splitlines()), ""]:
        code = line[4:] if line[:3] in (">>>", "...") else ""
        if lines and line[:3] != "..." and not re.match(r"[ )\]}]|else|elif|except", code):
            with contextlib.suppress(SyntaxError):
                ast.parse("\n".join(lines))
                found.append("\n".join(lines))
                lines = []
        lines += [code] if code.strip() else []
    return found


def attribute(path):
    return functools.reduce(getattr, path.split(".")[1:], sys.modules["torch"])


def examples():
    """{name: its module, and statements} of PyTorch's public names, each docstring once."""
    found, seen = {}, set()
    for module in MODULES:
        for name, x in inspect.getmembers(attribute(module), lambda x: not inspect.ismodule(x)):
            methods = vars(x).items() if inspect.isclass(x) and module != "torch.Tensor" else ()
            for full, y in ((f"{module}.{name}", x), *((f"{module}.{name}.{k}", y) for k, y in methods)):
                doc, home = getattr(y, "__doc__", None), getattr(y, "__module__", None) or "torch"
                fits = (
                    name[0] != "_" and not re.match(r"\w+Tensor$|Event$|.*3d|Local|Sync", name) and re.match(r"torch(?!.overrides)", home)
                )
                if fits and isinstance(doc, str) and ">>>" in doc and doc not in seen:
                    seen.add(doc)
                    found[full] = module, [s for s in statements(doc) if not re.search(LEFT_OUT, s)]
    return found


def told(torch, module, code):
    """For each statement what it prints and the tensors that it makes, or its error."""
    space, out = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "np": np, "numpy": np, "math": math}, []
    for word in set(re.findall(r"\b[A-Za-z]\w+", "\n".join(code))) if module != "torch" else ():
        with contextlib.suppress(AttributeError, NotImplementedError):  # as `from module import *` would
            space.setdefault(word, getattr(attribute(module), word))
    for k, statement in enumerate(code):
        before, printed = dict(space), io.StringIO()
        torch.manual_seed(k)
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(statement, "an example", "single"), space)
            made = [x for name, x in space.items() if isinstance(x, torch.Tensor) and x is not before.get(name)]
            text = printed.getvalue() + "".join(f"\n{x.dtype} {tuple(x.shape)} {x.requires_grad} {x}" for x in made)
            out.append(re.sub(r"0x\w+|grad_fn=<\w+>|<(class|function|built-in).*?>", "", text))
        except Exception as error:
            out.append([type(error).__name__, str(error)])
    return out


def alike(want, got):
    """Whether texts are the same but for the last digits of numbers. Where PyTorch raises, its documentation is at fault."""
    if isinstance(want, list) or isinstance(got, list):
        return isinstance(want, list) or got[0] == "MissingNameError" or "is not defined" in got[1]
    (a, x), (b, y) = ((list(map(float, NUMBER.findall(t))), re.sub(r"\s+", "", NUMBER.sub("#", t))) for t in (want, got))
    return x == y and np.allclose(a, b, 1e-4, 2e-4 * max([1.0, *map(abs, a)]) if "." in want else 0)


def _run(which, given=""):
    path, command = str(Path(__file__).resolve().parent.parent), [sys.executable, "-W", "ignore", __file__, which]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run(command, input=given, capture_output=True, text=True, env=environment, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_examples_of_pytorchs_docstrings_print_the_same():
    pytest.importorskip("torch", reason="the oracle: PyTorch is not installed")
    every, theirs = _run("theirs")
    _, ours = _run("ours", json.dumps(every))
    differ = {name: s for name in every for s, a, b in zip(every[name][1], theirs[name], ours[name]) if not alike(a, b)}
    assert {name: s for name, s in differ.items() if name not in KNOWN} == {}
    assert differ.keys() >= KNOWN.keys(), "what is listed agrees"
    assert sum(isinstance(a, str) for told in theirs.values() for a in told) > 2500


if __name__ == "__main__":
    if sys.argv[1] == "ours":
        import functrace.torch

        functrace.torch.install()
    import torch

    given = json.load(sys.stdin) if sys.argv[1] == "ours" else examples()
    print("\n" + json.dumps([given, {name: told(torch, *example) for name, example in given.items()}]))
