"""Where in the user's program something happens: frames, and lines as messages, tapes and pictures name them."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from types import CodeType, FrameType
from typing import Any

import numpy as np

_FILES = sys._getframe().f_code.co_filename, np.__file__  # as frames have them: with `..` from sys.path, relative in an archive
_PACKAGES = tuple(os.path.dirname(f) + os.sep for f in _FILES)
_NOT_WRITTEN_FOR_NUMPY = ("autograd", "jax", "matplotlib", "mygrad", "numba", "pandas", "pytest", "sympy", "torch", "xarray")
MADE_FOR_TRACED: set[str] = set()  # packages that `functrace.numpy.install` has changed
_LIBRARY = os.path.dirname(functools.__file__) + os.sep  # Python's own, which may be a zip archive


@functools.cache
def _recorded(folder: str) -> frozenset[str]:
    """The files that distributions brought to a folder or an archive: what `pip install --target` puts there has lists of them."""
    if os.path.isdir(folder) and not any(name.endswith(".dist-info") for name in os.listdir(folder)):
        return frozenset()
    from importlib.metadata import distributions

    lists = [found.read_text("RECORD") or "" for found in distributions(path=[folder])]
    return frozenset(line.partition(",")[0] for text in lists for line in text.splitlines())


@functools.cache
def _packaged(file: str) -> str:
    """Where a file is in the folder that packages were installed into; the empty string if it is the program's own."""
    if found := re.match(r".*[\\/](site|dist)-packages[\\/]", file):
        return file[found.end() :]
    with contextlib.suppress(OSError):  # the working directory may be gone
        full = os.path.abspath(file)
        for folder in (os.path.abspath(str(folder)) for folder in sys.path):
            within = full[len(folder) + 1 :]
            if full.startswith(folder + os.sep) and within.replace(os.sep, "/") in _recorded(folder):
                return within
    return ""


def is_installed(file: str) -> bool:
    """Whether a file is Python's own, or an installed package's."""
    return file.startswith(_LIBRARY) or _packaged(file) != ""


def is_library(file: str) -> bool:
    """Whether a file is SciPy's or Python's own."""
    within = _packaged(file)
    return within.startswith(f"scipy{os.sep}") or file.startswith("<frozen") or file.startswith(_LIBRARY) and not within


class _UserFiles(dict[str, bool]):
    """Whether a source file is neither functrace's, compiled by it, nor NumPy's; a dict, as it is asked for every value made."""

    def __missing__(self, filename: str) -> bool:
        self[filename] = answer = not filename.startswith((*_PACKAGES, "<jit of "))
        return answer


is_user_file = _UserFiles()


def outside(frame: FrameType | None) -> FrameType | None:
    """The innermost frame outside functrace, from this one on, or None."""
    while frame is not None and not is_user_file[frame.f_code.co_filename]:
        frame = frame.f_back
    return frame


def user_frame(depth: int = 1) -> FrameType | None:
    """The innermost frame outside functrace, `depth` frames up or more, or None."""
    return outside(sys._getframe(depth))


def user_place(depth: int) -> tuple[CodeType | None, int]:
    """The user's code object and the position in it, `depth` frames up or more; (None, 0) where there is none."""
    frame = outside(sys._getframe(depth))
    return (None, 0) if frame is None else (frame.f_code, frame.f_lasti)


def line_of(code: CodeType | None, lasti: int) -> str:
    """`file.py:12, in f` for a bytecode position of the user's, or the empty string."""
    if code is None or not is_user_file[code.co_filename]:
        return ""
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= lasti < end and number is not None:
            line = number
    return f"{_called(code.co_filename)}:{line}, in {code.co_name}"


def text_of(line: str) -> str:
    """What stands on a line, `file.py:12, in f`, where it can be read."""
    import linecache

    file, _, rest = line.rpartition(":")
    number = rest.partition(",")[0]
    return linecache.getline(file, int(number)).strip() if number.isdigit() else ""


def _called(file: str) -> str:
    """The name of a file; for a notebook's cell its own, `Cell In[3]`, under which `linecache` then has its lines, too."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", bool)()
    named = getattr(getattr(shell, "compile", None), "format_code_name", None)
    cell = named(file) if named else None
    if cell is None:
        return file
    import linecache

    name = " ".join(cell)
    linecache.cache[name] = (0, None, linecache.getlines(file), name)
    return name


def home_of(frame: FrameType) -> str:
    """The package whose code a frame runs, by its name."""
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def package_of(frame: FrameType | None) -> str:
    """The installed package, neither ours, NumPy's nor SciPy's, whose code a frame runs, or the empty string."""
    file = "" if frame is None else frame.f_code.co_filename
    theirs = is_user_file[file] and _packaged(file) and not is_library(file)
    return home_of(frame) if frame is not None and theirs else ""


def to_install(frame: FrameType | None, scipy: bool = False) -> str:
    """What to do where a package, or SciPy called by one, meets a traced value that it does not take."""
    package = package_of(frame)
    if not package or package in _NOT_WRITTEN_FOR_NUMPY:
        return ""
    if package in MADE_FOR_TRACED:
        return f"Instead give this function of {package} a rule, with functrace.custom_vjp"
    first = "functrace.scipy.install(), and then " if scipy else ""
    return f"Call {first}functrace.numpy.install({package!r}) before: the package takes traced values then, but for what it has in C"


def lines_of(frame: FrameType | None) -> str:
    """The line of a frame; in a package also that of the program's which led there."""
    first = frame
    while frame is not None and (package_of(frame) or own_frame(frame) is not frame):
        frame = frame.f_back
    lines = dict.fromkeys(line_of(f.f_code, f.f_lasti) for f in (first, frame) if f is not None)
    return ",\n  called at ".join(lines)


def own_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame, from this one on, that is not ours, nor that of a library which calls us, SciPy or Python's own."""
    while frame is not None and (not is_user_file[frame.f_code.co_filename] or is_library(frame.f_code.co_filename)):
        frame = frame.f_back
    return frame


def user_line(depth: int = 2) -> str:
    """`file.py:12, in f` for the innermost frame of the user's own code; where there is none, for that of a library."""
    return lines_of(own_frame(sys._getframe(depth)) or user_frame(depth))


def level() -> int:
    """The `stacklevel` with which its caller, a function of ours, warns of the user's line."""
    count, frame = 1, sys._getframe(1)
    while frame.f_back is not None and not is_user_file[frame.f_code.co_filename]:
        count, frame = count + 1, frame.f_back
    return count
