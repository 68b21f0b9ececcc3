"""Small programs with what PyTorch prints, one section for each behaviour.

    ## name_of_what_holds
    print(torch.ones(2))
    #> tensor([1., 1.])

An exception counts as printed, as `! RuntimeError: ` and the beginning of its text; `tell(f, g, ...)` prints what each call gives, or its
exception, one a line. Where PyTorch is installed a test runs the programs under it too; `python tests/torch_programs.py
tests/programs/autograd.txt` writes what it prints into the file.
"""

import contextlib
import io
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

HEAD = re.compile(r"^## (\w+)\n", re.M)
WIDTH = 110


def parse(text):
    """{name: (source, expected)}."""
    parts = HEAD.split(text)[1:]
    out = {}
    for name, body in zip(parts[::2], parts[1::2]):
        lines = body.rstrip("\n").split("\n")
        source = "\n".join(line for line in lines if not line.startswith("#>"))
        assert name not in out, f"{name} twice"
        out[name] = source, [line[3:] for line in lines if line.startswith("#>")]
    return out


def _tell(*functions):
    for f in functions:
        try:
            print(f())
        except Exception as error:
            print(f"! {type(error).__name__}: {str(error)[:WIDTH]}".strip())


def run(source, torch):
    """The lines that a program prints, addresses left out. The shim is not installed as `torch`, so its own name is put in."""
    if torch.__name__ != "torch":
        source = re.sub(r"\b(from|import) torch\b", r"\1 functrace.torch", source)
    printed = io.StringIO()
    names = {"torch": torch, "__name__": "__main__", "tell": _tell}
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(source, "program", "exec"), names)
        except Exception as error:
            print(f"! {type(error).__name__}: {str(error)[:WIDTH]}".strip())
    text = re.sub(r"0x[0-9a-f]+", "0x", printed.getvalue())
    return [line.rstrip() for line in text.rstrip("\n").split("\n")] if text.strip() else []


def oracle(texts):
    """What PyTorch prints, {name: lines} for each of the texts; in another process, where `torch` is PyTorch."""
    code = "import sys, json, torch; sys.path.insert(0, sys.argv[1]); import torch_programs as p\n"
    code += "out = [{name: p.run(source, torch) for name, (source, _) in p.parse(text).items()} for text in json.load(sys.stdin)]\n"
    code += "print('\\n' + json.dumps(out))"
    folder = __file__.rpartition("/")[0]
    done = subprocess.run([sys.executable, "-c", code, folder], input=json.dumps(texts), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def rewritten(text):
    """The text with PyTorch's lines."""
    (found,) = oracle([text])
    parts = [
        f"## {name}\n{source}\n" + "".join(f"#> {line}".rstrip() + "\n" for line in found[name])
        for name, (source, _) in parse(text).items()
    ]
    return HEAD.split(text)[0] + "".join(parts)


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(rewritten(path.read_text(encoding="utf-8")), encoding="utf-8")
