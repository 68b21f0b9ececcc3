"""The typed program runs; mypy and pyright check it where `.ci/run` runs them."""

import pathlib
import subprocess
import sys

import pytest

TYPED = pathlib.Path(__file__).parent / "typed"


@pytest.mark.parametrize("program", sorted(TYPED.glob("*.py")), ids=lambda p: p.name)
def test_typed_programs_run(program):
    root = str(TYPED.parent.parent)
    done = subprocess.run([sys.executable, program], env={"PYTHONPATH": root}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "4.0 8.0\n"
