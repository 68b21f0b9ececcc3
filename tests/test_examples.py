"""Every example runs, agrees with itself, and prints the same each time; the lessons print what they print under PyTorch."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LESSONS = [path for path in EXAMPLES if "import functrace.torch as torch" in path.read_text(encoding="utf-8")]


def _run(source):
    """What a program prints, run as `python file.py` is: in a process of its own, with warnings as errors."""
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path):
    source = path.read_text(encoding="utf-8")
    for module in ("scipy", "sklearn", "tqdm"):
        if f"from {module}" in source:
            pytest.importorskip(module)
    assert len(source.splitlines()) < 80
    printed = _run(source)
    assert len(printed.splitlines()) > 5
    if path in LESSONS:
        assert "Both ways agree." in printed


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch, the oracle, is not installed")
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_lesson_prints_what_pytorch_prints(path):
    source = path.read_text(encoding="utf-8")
    assert _run(source) == _run(source.replace("import functrace.torch as torch", "import torch"))


def test_the_lessons_are_there():
    assert {path.stem for path in LESSONS} >= {"one_layer_network", "jacobian_products", "writing_through_views", "scalar_by_hand"}


def test_accuracies():
    pytest.importorskip("sklearn")
    pytest.importorskip("tqdm")
    printed = _run((ROOT / "examples" / "digits_mlp.py").read_text(encoding="utf-8"))
    last = printed.splitlines()[-1]
    train, test = (float(part.split()[-1]) for part in last.split("%")[:2])
    assert train > 99.0 and test > 95.0, last
