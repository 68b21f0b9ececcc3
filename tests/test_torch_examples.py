"""The programs in examples/torch print the same under functrace as under PyTorch, and the same each time."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = sorted((ROOT / "examples" / "torch").glob("*.py"))


ORACLE = """
import contextlib, io, json, runpy, sys, torch
printed = {}
for path in sys.argv[1:]:
    torch.set_default_dtype(torch.float32)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runpy.run_path(path, run_name="__main__")
    printed[path] = out.getvalue()
print(json.dumps(printed))
"""


def _run(*arguments):
    search = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(search), "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=environment, check=False, timeout=250)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def by_pytorch():
    """What each program prints under PyTorch, in one process; None where it is not installed."""
    if importlib.util.find_spec("torch") is None:
        return None
    pytest.importorskip("sklearn")
    return json.loads(_run("-c", ORACLE, *PROGRAMS))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program_prints_what_pytorch_prints(path, by_pytorch):
    source = path.read_text(encoding="utf-8")
    if "sklearn" in source:
        pytest.importorskip("sklearn")
    assert len(source.splitlines()) < 100
    printed = _run("-W", "error", "-m", "functrace.torch", path)
    assert len(printed.splitlines()) > 3
    if by_pytorch is not None:
        assert printed == by_pytorch[str(path)]


def test_the_programs_are_there():
    assert {path.stem for path in PROGRAMS} >= {
        "basics_1_tensors", "basics_2_data", "basics_3_model", "basics_4_autograd", "basics_5_optimisation", "basics_6_save_load",
        "polynomial_four_ways", "character_rnn", "small_transformer", "gradient_penalty", "per_sample_gradients", "jacobians_hessians",
    }  # fmt: skip
