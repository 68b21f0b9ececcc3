"""Packages written for NumPy, differentiated as they are: what `functrace.numpy.install` changes in them, and what their errors say."""

import importlib
import math
import sys
import traceback

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace import errors

MODULE = """
import math
from math import atan2, log
import numpy as np
import numpy.linalg as la
from numpy import array, ndarray, zeros
from numpy import float64 as real

NUMBERS = (int, float, np.floating)
squares = np.vectorize(lambda x, power=2.0: x**power)


def rotation(angle):
    if not isinstance(angle, NUMBERS):
        raise TypeError("an angle is a number")
    c, s = math.cos(float(angle)), math.sin(angle)
    return array([[c, -s], [s, c]])


def filled(x):
    if not isinstance(x, ndarray):
        raise TypeError("not an array")
    out = zeros(len(x), dtype=float)
    for k in range(len(x)):
        out[k] = real(x[k]) * log(x[k]) + atan2(x[k], 2.0)
    out += np.asarray(x, dtype=float)
    return out / la.norm(np.array([1.0, 2.0]))


def scalar(x):
    return x if np.isscalar(x) else np.array([scalar(y) for y in x])


def in_math(x):
    if math.isclose(x, 5.0) or math.floor(x) > 1 or math.isinf(x):
        raise ValueError(x)
    return math.log(x, 2) + math.erf(x) * math.gamma(x) + math.lgamma(x) + math.pow(x, 1.5) + math.hypot(x, 2.0)


TABLE = np.array([1.0, 3.0, 7.0])


def looked_up(x):
    out = np.array(np.stack([x, x**2]).tolist())
    return TABLE[np.argsort(out)[:1]] * out.item(1) + TABLE[np.searchsorted(TABLE, out + 2)] * out.max().item()


class Held:
    def __init__(self, x=None):
        self.array = np.ones(2)
        if x is not None:
            self.array[:] = x

    def __array__(self, dtype=None, copy=None):
        return self.array

    @property
    def data(self):
        return np.asarray(self)


def compiled(x):
    return bytes(x)


def added(x):
    total = np.ones(2)
    total += x
    return total
"""
EXACT = """
import numpy as np

def kind(x):
    return "float" if type(x) is float and isinstance(x, float) else "ndarray" if type(x) is np.ndarray else "other"
"""
LATER = "import numpy as np\n\ndef doubled(x):\n    return np.array([x, x])\n"


@pytest.fixture
def older(tmp_path, monkeypatch):
    """A package in a folder of installed ones."""
    folder = tmp_path / "site-packages" / "older"
    folder.mkdir(parents=True)
    for name, text in (("__init__", MODULE), ("exact", EXACT), ("later", LATER)):
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder.parent))
    yield importlib.import_module("older")
    fnp.uninstall()
    for name in [name for name in sys.modules if name.partition(".")[0] == "older"]:
        del sys.modules[name]


X = np.array([0.7, 1.3])
CALLS = [
    lambda p: p.rotation,
    lambda p: lambda x: p.filled(np.stack([x, 2 * x])),
    lambda p: p.scalar,
    lambda p: lambda x: p.squares(np.stack([x, 2 * x])) + p.squares(np.stack([x, x]), power=3.0),
    lambda p: p.added,
    lambda p: p.in_math,
    lambda p: p.looked_up,
    lambda p: lambda x: p.Held(np.stack([x, x**2])).data,
]


@pytest.mark.parametrize("call", CALLS)
def test_a_package_is_differentiated_as_it_is(older, call):
    pytest.importorskip("scipy")  # of math.gamma
    f = call(older)
    plain = np.asarray(f(0.7))
    with pytest.raises((errors.FunctraceError, TypeError)):
        ft.jvp(f, (0.7,), (1.0,))
    fnp.install("older")
    np.testing.assert_array_equal(f(0.7), plain)
    slope = (f(0.7 + 1e-6) - f(0.7 - 1e-6)) / 2e-6
    value, tangent = ft.jvp(f, (0.7,), (1.0,))
    np.testing.assert_allclose(value, plain)
    np.testing.assert_allclose(tangent, slope, rtol=1e-7, atol=1e-8)
    weights = np.arange(1.0, 1.0 + plain.size).reshape(plain.shape)
    gradient = ft.grad(lambda x: np.sum(weights * f(x)))
    np.testing.assert_allclose(gradient(0.7), np.sum(weights * slope), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(ft.jit(gradient)(0.7), gradient(0.7))
    np.testing.assert_allclose(ft.vmap(f)(X), np.stack([f(x) for x in X]))


def test_plain_values_meet_what_they_met_before(older):
    fnp.install("older")
    exact = importlib.import_module("older.exact")
    assert type(older.rotation(0.7)) is np.ndarray
    assert type(older.filled(X)) is np.ndarray
    assert [exact.kind(x) for x in (1.0, X, "")] == ["float", "ndarray", "other"]
    assert np.dtype(older.real) == np.float64
    assert older.Held().data.tolist() == [1.0, 1.0]
    assert older.np.asarray(older.Held()).tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="could not convert"):
        older.real("no number")
    with pytest.raises(TypeError, match="an angle"):
        older.rotation(X)


def test_modules_imported_later_are_changed_too_and_uninstall_undoes_all(older):
    before = dict(vars(older))
    fnp.install("older")
    fnp.install("older")
    later = importlib.import_module("older.later")
    assert ft.grad(lambda x: later.doubled(x).sum())(2.0) == 2.0
    assert older.np is fnp
    fnp.uninstall()
    assert vars(older) == {**before, "later": later}
    assert later.np is np
    finders = len(sys.meta_path)
    fnp.install("older")
    fnp.uninstall()
    assert len(sys.meta_path) == finders
    assert importlib.reload(later).np is np


def test_what_is_no_such_package_is_refused():
    with pytest.raises(ValueError, match="'numpy' is not the name of a package"):
        fnp.install("numpy")
    with pytest.raises(ModuleNotFoundError):
        fnp.install("no_such_package_at_all")


@pytest.mark.parametrize("f", [lambda p: p.rotation, lambda p: lambda x: p.scalar(np.stack([x, x])), lambda p: p.added])
def test_a_refusal_names_the_package_and_the_program(older, f):
    with pytest.raises((errors.FunctraceError, TypeError)) as caught:
        ft.grad(lambda x: np.sum(f(older)(x)))(0.7)
    text = "".join(traceback.format_exception_only(caught.type, caught.value))
    if isinstance(caught.value, errors.FunctraceError):
        assert "older/__init__.py" in text
        assert f",\n  called at {__file__}:" in text
    if isinstance(caught.value, errors.FunctraceError) or sys.version_info >= (3, 11):
        assert "functrace.numpy.install('older')" in text


def test_what_an_installed_package_has_in_c_is_told(older):
    fnp.install("older")
    with pytest.raises(TypeError) as caught:
        ft.grad(lambda x: older.compiled(x))(X)
    if sys.version_info >= (3, 11):
        assert "this function of older a rule" in caught.value.__notes__[0]


def test_scalars_and_copies_as_packages_ask_for_them():
    asked = []
    ft.grad(lambda x: asked.append((fnp.isscalar(x), fnp.isscalar(np.reshape(x, (1,))))) or x)(1.0)
    assert asked == [(True, False)]
    if_needed = np._CopyMode.IF_NEEDED
    assert ft.grad(lambda x: fnp.array(x, copy=if_needed).sum())(X).tolist() == [1.0, 1.0]
    assert ft.grad(lambda x: x.sum() * np.may_share_memory(x, x) + x[0] * np.may_share_memory(x, X))(X).tolist() == [1.0, 1.0]
    assert math.pi == np.pi
