"""Scripts written for PyTorch print under the shim what they print under PyTorch: `tests/seeds/*.py` and their recorded outputs.

`lesson_*.py` are five tutorials, extracted by `seeds/extract.py`; the others list expressions and small programs. The outputs in
`*.txt` were printed by PyTorch 2.13; with PyTorch installed a test checks that they still are, and

    python tests/test_torch_scripts.py

writes them anew. Addresses of objects are left out.
"""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from functrace.torch.__main__ import main

HERE = Path(__file__).parent
SCRIPTS = sorted(path.stem for path in (HERE / "seeds").glob("*.py") if path.stem != "extract")
SEEDS = (0, 1, 7)


def sources(name):
    """The texts of a script's runs: a lesson is run after `manual_seed` of each seed."""
    text = (HERE / "seeds" / f"{name}.py").read_text(encoding="utf-8")
    return [f"import torch; torch.manual_seed({seed})\n{text}" for seed in (SEEDS if name.startswith("lesson") else (0,))]


def run(source, tmp_path, *module):
    script = tmp_path / "script.py"
    script.write_text(source, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "PYTHONWARNINGS": "ignore", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, *module, str(script)], capture_output=True, text=True, encoding="utf-8", env=environment, check=False
    )
    return re.sub(r"0x[0-9a-f]+", "0x", done.stdout), done.stderr, done.returncode


def recorded(name):
    return (HERE / "seeds" / f"{name}.txt").read_text(encoding="utf-8").split("=" * 40 + "\n")


@pytest.mark.parametrize("name", SCRIPTS)
def test_prints_what_pytorch_prints(name, tmp_path):
    for source, expected in zip(sources(name), recorded(name)):
        printed, errors, code = run(source, tmp_path, "-m", "functrace.torch")
        assert (printed, errors, code) == (expected, "", 0)


ORACLE = """
import contextlib, io, json, sys, torch
printed = []
for source in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(source, "script.py", "exec"), {"__name__": "__main__"})
    printed.append(out.getvalue())
print(json.dumps(printed))
"""


def test_recorded_outputs_are_pytorchs():
    """In one process: PyTorch takes longer to be imported than most scripts to run."""
    torch = pytest.importorskip("torch", reason="the oracle: PyTorch is not installed")
    if not torch.__version__.startswith("2.13"):
        pytest.skip(f"the outputs are of PyTorch 2.13, here is {torch.__version__}")
    runs = [(name, source, text) for name in SCRIPTS for source, text in zip(sources(name), recorded(name))]
    command = [sys.executable, "-W", "ignore", "-c", ORACLE]
    done = subprocess.run(command, input=json.dumps([source for _, source, _ in runs]), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for (name, _, expected), printed in zip(runs, json.loads(done.stdout)):
        assert re.sub(r"0x[0-9a-f]+", "0x", printed) == expected, name


def test_lessons_are_the_code_of_their_notebooks():
    for name in SCRIPTS:
        ast.parse(sources(name)[0])
    lesson = sources("lesson_4")[0]
    assert "print(repr(Q.shape))" in lesson and "except Exception" in lesson and "$$" not in lesson


def test_runs_like_python(tmp_path):
    printed, errors, code = run(
        "import sys, torch, torch.nn.functional as F\nfrom torch import nn, autograd\nfrom torch.nn import functional\n"
        "assert F is functional is nn.functional and autograd.grad is torch.autograd.grad\n"
        "print(__name__, __file__ == sys.argv[0], torch.__name__, sys.path[0] == __import__('os').path.dirname(__file__))\n"
        "def f(x: int = 1):\n    assert f.__annotations__ == {'x': int}\n    return torch.ones(2) @ torch.ones(3)\nf()\n",
        tmp_path,
        "-m",
        "functrace.torch",
    )
    assert printed == "__main__ True torch True\n" and code == 1
    assert errors.startswith("Traceback (most recent call last):\n") and 'script.py", line 9, in <module>' in errors
    assert "__main__.py" not in errors and errors.rstrip().endswith("2 and 3 elements respectively")
    assert run("import sys\nsys.exit(5)", tmp_path, "-m", "functrace.torch")[2] == 5


def test_a_program_that_asks_for_torchvision_is_told_no_and_one_that_imports_it_what_to_do(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import importlib.util\nprint(importlib.util.find_spec('torchvision'))\nimport torchvision\n", encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "functrace.torch", program], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        pytest.skip("torchvision is installed")
    assert done.stdout == "None\n" and "use scikit-learn's data sets" in done.stderr


def test_runs_modules_and_a_prompt_as_python_does(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    for name, text in {
        "__init__": "import torch",
        "__main__": "print(__name__, __package__)",
        "train": "import sys, torch\nfrom . import __name__ as ours\nprint(__name__, ours, sys.argv[1:], torch.ones(1))\n1 / 0\n",
    }.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")

    def run(*arguments, given=""):
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        command = [sys.executable, "-m", "functrace.torch", *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
        return done.stdout, done.stderr, done.returncode

    (tmp_path / "here.py").write_text("import os, sys, torch\nprint(os.path.isabs(__file__), sys.argv, torch.torch is torch)\n1 / 0\n")
    printed, errors, _ = run("here.py", "a")
    assert printed == "True ['here.py', 'a'] True\n" and f'File "{tmp_path / "here.py"}", line 3' in errors
    assert run("-m", "package") == ("__main__ package\n", "", 0)
    printed, errors, code = run("-m", "package.train", "a", "b")
    assert printed == "__main__ package ['a', 'b'] tensor([1.])\n" and code == 1
    assert errors.count("File ") == 1 and 'train.py", line 4, in <module>' in errors and "ZeroDivisionError" in errors
    for missing in ("package.absent", "absent.train"):
        assert run("-m", missing) == ("", f"python -m functrace.torch: No module named {missing}\n", 1)
    assert "tensor([1.])" in run(given="import torch\ntorch.ones(1)\n")[0]


def test_usage(capsys):
    assert main(["-h"]) == 0 and "usage" in capsys.readouterr().out
    assert main(["-m"]) == 2 and "usage" in capsys.readouterr().err
    assert main(["no-such-file.py"]) == 2 and "can't open file" in capsys.readouterr().err


if __name__ == "__main__":
    import tempfile

    for script_name in SCRIPTS:
        with tempfile.TemporaryDirectory() as folder:
            runs = [run(source, Path(folder)) for source in sources(script_name)]
        for _, stderr, _ in runs:
            print(script_name, stderr)
        (HERE / "seeds" / f"{script_name}.txt").write_text(("=" * 40 + "\n").join(out for out, _, _ in runs), encoding="utf-8")
