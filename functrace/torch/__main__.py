"""`python -m functrace.torch script.py args...`: run a script written for PyTorch; its `import torch` finds the shim."""

from __future__ import annotations

import gc
import io
import os
import sys
from types import ModuleType

import numpy as np

import functrace.torch

USAGE = "usage: python -m functrace.torch script.py [arguments]\n       python -m functrace.torch -c 'program' [arguments]"


def main(argv: list[str]) -> int:
    """Run the script that `argv` names as `python` would. Returns the exit code."""
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if argv else 2
    if argv[0] == "-c":
        if len(argv) < 2:
            print(USAGE, file=sys.stderr)
            return 2
        source: str | bytes = argv[1]
        filename, sys.argv, sys.path[0] = "<string>", ["-c", *argv[2:]], ""
    else:
        filename = argv[0]
        try:
            with io.open_code(os.path.abspath(filename)) as file:
                source = file.read()
        except OSError as error:
            print(f"python -m functrace.torch: can't open file {filename!r}: {error.strerror}", file=sys.stderr)
            return 2
        sys.argv, sys.path[0] = argv, os.path.dirname(os.path.abspath(filename))
    functrace.torch.install()
    if "__torch_function__" in (
        source if isinstance(source, str) else source.decode("utf-8", "replace")
    ):  # for classes that are not tensors, too
        functrace.torch.overrides.install()
    np.seterr(all="ignore")  # PyTorch does not warn of 1/0; this process is the script's alone
    gc.freeze()  # what is imported stays: no collection need look at it, nor that at the end
    module = ModuleType("__main__")
    module.__dict__.update(__file__=filename, __builtins__=__builtins__)
    if filename == "<string>":
        del module.__dict__["__file__"]
    sys.modules["__main__"] = module
    try:
        exec(compile(source, filename, "exec"), module.__dict__)
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
