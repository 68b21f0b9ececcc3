"""`python -m functrace.torch script.py args...`: run a program written for PyTorch; its `import torch` finds the shim."""

from __future__ import annotations

import gc
import importlib.util
import io
import os
import sys
from types import ModuleType
from typing import Any

import numpy as np

import functrace.torch

USAGE = """usage: python -m functrace.torch [script.py | -m module | -c program] [arguments]
Runs a program written for PyTorch; without one, Python's prompt."""


def _spec_of(name: str) -> Any:
    """Where the program of `-m name` is: the module, or the `__main__` of the package. None if there is none."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if not f"{name}.".startswith(f"{error.name}."):
            raise
        return None
    return spec if spec is None or spec.submodule_search_locations is None else _spec_of(f"{name}.__main__")


def main(argv: list[str]) -> int:
    """Run the program that `argv` names as `python` would. Returns the exit code."""
    option, *rest = argv or ["-m", "code"]
    if option in ("-h", "--help"):
        print(USAGE)
        return 0
    if option in ("-c", "-m") and not rest:
        print(USAGE, file=sys.stderr)
        return 2
    names: dict[str, Any] = {"__builtins__": __builtins__}
    source: str | bytes
    if option == "-c":
        source, filename = rest[0], "<string>"
        sys.argv, sys.path[0] = ["-c", *rest[1:]], ""
    elif option == "-m":
        functrace.torch.install()  # its package may import it
        spec = _spec_of(rest[0])
        if spec is None:
            print(f"python -m functrace.torch: No module named {rest[0]}", file=sys.stderr)
            return 1
        source, filename = spec.loader.get_source(spec.name), spec.origin
        names.update(__file__=filename, __spec__=spec, __package__=spec.parent, __loader__=spec.loader)
        sys.argv = [filename, *rest[1:]]
    else:
        names["__file__"] = filename = os.path.abspath(option)
        try:
            with io.open_code(filename) as file:
                source = file.read()
        except OSError as error:
            print(f"python -m functrace.torch: can't open file {option!r}: {error.strerror}", file=sys.stderr)
            return 2
        sys.argv, sys.path[0] = argv, os.path.dirname(filename)
    functrace.torch.install()
    functrace.torch.__name__ = "torch"  # packages ask
    if "__torch_function__" in (source if isinstance(source, str) else source.decode("utf-8", "replace")):  # of classes that are no tensors
        functrace.torch.overrides.install()
    np.seterr(all="ignore")  # PyTorch does not warn of 1/0; this process is the script's alone
    gc.freeze()  # what is imported stays: no collection need look at it, nor that at the end
    module = ModuleType("__main__")
    module.__dict__.update(names)
    sys.modules["__main__"] = module
    try:
        exec(compile(source, filename, "exec", dont_inherit=True), module.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next  # the script's own frames, as python shows them
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
