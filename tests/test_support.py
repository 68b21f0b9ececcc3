"""Every public name of NumPy is covered, takes no traced value, or is refused with a reason; and the table says so."""

import re
import types

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from docs import support
from functrace import errors
from functrace.core.tracer import Tracer
from functrace.ops.polynomials import FAMILIES
from functrace.ops.protocol import FUNCTIONS, UFUNCS
from functrace.ops.refusals import REFUSED
from functrace.ops.registry import TABLE
from tests.helpers import of_numpy

PLAIN_NAMES = {name for names in support.PLAIN.values() for name in names.split()}
REFUSED_NAMES = {name for names in REFUSED.values() for name in names.split()}
CLASSES = {"poly1d", "vectorize", "r_", "c_", "ndenumerate", "fft.fftfreq", "fft.rfftfreq", "polynomial.chebyshev.chebinterpolate"} | {
    f"polynomial.{c}" for c in ("Polynomial", "Chebyshev", "Legendre", "Hermite", "HermiteE", "Laguerre")
}
MODULES = {
    "": np,
    "linalg.": np.linalg,
    "fft.": np.fft,
    "emath.": np.emath,
    "polynomial.": np.polynomial,
    "lib.stride_tricks.": np.lib.stride_tricks,
    "lib.array_utils.": np.lib.array_utils,
    **{f"polynomial.{family}.": getattr(np.polynomial, family) for family in FAMILIES},
}


def names():
    for prefix, module in MODULES.items():
        for name in dir(module):
            found = getattr(module, name)
            if not name.startswith("_") and not isinstance(found, types.ModuleType) and (prefix.count(".") < 2 or name[:4] != "norm"):
                yield prefix + name, found


def kinds(name, found):
    last = name.split(".")[-1]
    hashable = not isinstance(found, (np.ndarray, dict, list))
    covered = hashable and (found in FUNCTIONS or found in UFUNCS) or name in TABLE or name in CLASSES
    covered = covered or name.startswith("polynomial.") and f"polynomial.{last}" in CLASSES
    plain = name in PLAIN_NAMES or name.count(".") == 2 and isinstance(found, np.ndarray)  # chebdomain and the like
    return {"covered": covered, "plain": plain, "refused": name in REFUSED_NAMES}


def test_every_public_name_of_numpy_has_its_place():
    found = dict(names())
    nowhere = [name for name, value in found.items() if not any(kinds(name, value).values())]
    assert not nowhere
    made = {"arange", "diag_indices", "fromfunction", "zeros_like", "ones_like", "empty_like"}  # plain, and answer a traced shape too
    twice = [name for name, value in found.items() if sum(kinds(name, value).values()) > 1 and name not in made]
    assert not twice
    assert len(found) > 600


def test_every_attribute_of_ndarray_has_its_place():
    missing = [
        n
        for n in dir(np.ndarray)
        if hasattr(np.zeros((1, 1)), n) and not hasattr(Tracer, n) and f"ndarray.{n}" not in PLAIN_NAMES | REFUSED_NAMES
    ]
    assert not missing


CALLS = {
    "fromiter": lambda f, x: f(x, float),
    "frompyfunc": lambda f, x: f(lambda a: a, 1, 1)(x),
    "save": lambda f, x: f("/dev/null", x),
    "savetxt": lambda f, x: f("/dev/null", x),
    "savez": lambda f, x: f("/dev/null", x),
    "savez_compressed": lambda f, x: f("/dev/null", x),
    "may_share_memory": lambda f, x: f(x, x),
    "shares_memory": lambda f, x: f(x, x),
    "bmat": lambda f, x: f([[x]]),
    "nested_iters": lambda f, x: f([x, x], [[0], []]),
    "nditer": lambda f, x: [y * 1.0 for y in f(x)],
    "ndarray.getfield": lambda f, x: f(x, float),
    "ndarray.__delitem__": lambda f, x: f(x, 0),
    "ndarray.dump": lambda f, x: f(x, "/dev/null"),
    "ndarray.tofile": lambda f, x: f(x, "/dev/null"),
}


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@pytest.mark.parametrize("name", sorted(REFUSED_NAMES))
def test_what_is_refused_raises(name):
    target = np.ndarray if name.startswith("ndarray.") else np
    for part in name.removeprefix("ndarray.").split("."):
        target = getattr(target, part, None)
        if target is None:
            pytest.skip(f"this NumPy has no {name}")
    raised = []

    def f(x):
        try:
            if name.startswith("ndarray.") and not hasattr(Tracer, name[8:]):
                getattr(x, name[8:])
            elif name.startswith("ndarray."):
                CALLS.get(name, lambda f, x: f(x))(getattr(Tracer, name[8:]), x)
            else:
                CALLS.get(name, lambda f, x: f(x))(target, x)
        except Exception as error:
            raised.append(error)
        return x.sum()

    ft.grad(f)(np.array([1.0, 2.0]))
    assert len(raised) == 1
    ours = isinstance(raised[0], errors.FunctraceError)
    assert ours or isinstance(raised[0], (TypeError, AttributeError)) or name in ("fromiter", "recarray"), raised


def test_functrace_numpy_has_every_name_of_numpy():
    for prefix, module in {"": fnp, "linalg.": fnp.linalg, "fft.": fnp.fft, "emath.": fnp.emath, "polynomial.": fnp.polynomial}.items():
        for name in dir(MODULES[prefix]):
            assert name.startswith("_") or hasattr(module, name), prefix + name


def test_the_page_shows_every_name():
    page, scipy = support.page(), support.scipy_page()
    paragraphs = re.findall(r"^\*\*numpy\.?(\S*)\*\*: (.*)$", page, re.MULTILINE)
    shown = {f"{module}.{name}".lstrip(".") for module, names in paragraphs for name in re.findall(r"`(\S+)`", names)}
    assert of_numpy(TABLE).keys() <= shown
    for name in [*PLAIN_NAMES, *REFUSED_NAMES]:
        assert f"`{name}`" in page
    for name in TABLE.keys() - of_numpy(TABLE).keys():
        last = name.split(".", 2)[2]
        assert f"`{last.split('.')[0] if name.startswith('scipy.stats.') else last}`" in scipy
    for function in FUNCTIONS:
        assert getattr(function, "__name__", "") in (scipy if (function.__module__ or "").startswith("scipy") else page)
