"""What PyTorch 2.13 prints, by topic: the programs of `programs/*.txt`, see `torch_programs`."""

import pathlib

import pytest
import torch_programs

import functrace.torch as torch

TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(pathlib.Path(__file__).with_name("programs").glob("*.txt"))}
TABLE = {f"{topic}-{name}": program for topic, text in TEXTS.items() for name, program in torch_programs.parse(text).items()}


@pytest.mark.parametrize("name", TABLE)
def test_prints_what_pytorch_prints(name):
    if name.startswith("special-"):
        pytest.importorskip("scipy")
    source, expected = TABLE[name]
    assert torch_programs.run(source, torch) == expected


def test_programs_are_pytorchs():
    pytorch = pytest.importorskip("torch", reason="the oracle: PyTorch is not installed")
    if not pytorch.__version__.startswith("2.13"):
        pytest.skip(f"the outputs are of PyTorch 2.13, here is {pytorch.__version__}")
    for topic, printed in zip(TEXTS, torch_programs.oracle(list(TEXTS.values()))):
        assert printed == {name: lines for name, (_, lines) in torch_programs.parse(TEXTS[topic]).items()}, topic
