"""Says how to install what the examples need, where it is missing. Progress bars are for terminals: a file gets none."""

import os
import sys

if not sys.stderr.isatty():
    os.environ.setdefault("TQDM_DISABLE", "1")


def what_to_install(kind, error, traceback):
    """Two lines in place of the traceback of a library that is not installed."""
    if kind is not ModuleNotFoundError:
        return sys.__excepthook__(kind, error, traceback)
    return print(f"{error}. The examples use Matplotlib, SciPy, scikit-learn and tqdm:\npip install 'functrace[examples]'", file=sys.stderr)


sys.excepthook = what_to_install
