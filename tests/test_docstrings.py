"""The examples in NumPy's own docstrings, through `functrace.numpy`: what NumPy gives, and traced the same numbers, or one of our errors."""

import ast
import builtins
import contextlib
import copy
import doctest
import functools
import importlib
import io
import re
import types
import warnings

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace import errors
from functrace.core.tracer import Tracer

pytestmark = pytest.mark.no_cover  # which takes twice the time, for lines that other tests run

# What is not run: files, settings, clocks, addresses and layouts, memory that is not set, what is no array of numbers, and what takes long.
SKIPPED = re.compile(
    r"tempfile|save|load|file\(|memmap|timeit|random|rng\b|printoptions|printstyle|seterr|errcall|errstate|bufsize|urllib|open\(|np\.info|show_|"
    r"assert|resize|empty|id\(|ctypes|buffer=|ndarray\(|nditer|matrix\(|np\.ma\b|plt|\bis\b|share|object|same_value|order=|\d{5}|range\(\d{3}"
)
FAMILIES = "polynomial chebyshev legendre hermite hermite_e laguerre".split()
MODULES = ["numpy", "numpy.linalg", "numpy.fft", "numpy.lib.stride_tricks", *(f"numpy.polynomial.{family}" for family in FAMILIES)]


class Ours:
    """A module of NumPy's with our functions where we have them."""

    def __init__(self, theirs, ours):
        self._theirs, self._ours = theirs, ours

    def __getattr__(self, name):
        theirs = getattr(self._theirs, name)
        ours = getattr(self._ours, name, theirs)
        return Ours(theirs, ours) if isinstance(theirs, types.ModuleType) else ours


def examples():
    """The statements of each docstring."""
    owners = [*map(importlib.import_module, MODULES), np.ndarray, np.polynomial.Polynomial]
    named = [(f"{o.__name__}.{n}", getattr(o, n, None)) for o in owners for n in dir(o) if n[0] != "_"]
    found = {getattr(x, "__doc__", None): name for name, x in named[::-1] if not isinstance(x, types.ModuleType)}
    for doc, name in ((doc, name) for doc, name in found.items() if isinstance(doc, str)):
        statements = []
        for example in doctest.DocTestParser().get_examples(doc):
            with contextlib.suppress(SyntaxError):
                statements += [s for s in ast.parse(example.source).body if not SKIPPED.search(ast.unparse(s))]
        yield name, statements


class Lifted(ast.NodeTransformer):
    """Numbers go through `leaf`: arrays made of them, and lists that functions are given."""

    def visit_Call(self, node):
        made = getattr(node.func, "attr", "") in ("array", "arange", "linspace", "ones", "eye")
        if made and {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} <= {"np"}:
            return ast.Call(ast.Name("leaf", ast.Load()), [node], [])
        for k, a in enumerate(node.args):
            numbers = re.fullmatch(r"\[[-\d., \[\]ej]+\]", ast.unparse(a))
            node.args[k] = ast.Call(ast.Name("leaf", ast.Load()), [a], []) if numbers else self.visit(a)
        return node


def run(statements, module, leaf=None):
    """What each statement gives: its value, the variables that it sets, or its exception."""

    def imported(name, own=None, scope=None, fromlist=(), level=0):
        found, path = builtins.__import__(name, own, scope, fromlist, level), name.split(".")
        return functools.reduce(getattr, path[1:] if fromlist else (), module) if path[0] == "numpy" else found

    names, out = {"np": module, "leaf": leaf, "__builtins__": {**vars(builtins), "__import__": imported}}, []
    for s in statements:
        s = ast.fix_missing_locations(Lifted().visit(copy.deepcopy(s))) if leaf else s
        try:
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if isinstance(s, ast.Expr):
                    out.append(plain(eval(compile(ast.Expression(s.value), "<example>", "eval"), names)))
                else:
                    exec(compile(ast.Module([s], []), "<example>", "exec"), names)
                    out.append([plain(names.get(n.id)) for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)])
        except Exception as error:
            out.append(error)
    return out


def plain(x):
    """A copy, with numbers and arrays for traced values."""
    if isinstance(x, (list, tuple)):
        return [plain(y) for y in x]
    if isinstance(x, (Tracer, np.ndarray, np.generic)):
        return np.array(ft.value(x))
    return plain(x.coef) if hasattr(x, "coef") else x if isinstance(x, (bool, int, float, complex, str)) else None


def same(a, b, rtol):
    if isinstance(a, (list, Exception, str, types.NoneType)) or isinstance(b, Exception):
        if isinstance(a, list) and isinstance(b, list):
            return len(a) == len(b) and all(same(x, y, rtol) for x, y in zip(a, b))
        return isinstance(b, type(a)) if isinstance(a, Exception) else not isinstance(b, Exception) and a == b
    y = np.asarray(b)
    if isinstance(a, np.ndarray) and a.dtype != y.dtype or np.shape(a) != y.shape:
        return False
    if not rtol or y.dtype.kind not in "fc":
        return np.array_equal(a, y, equal_nan=y.dtype.kind in "fcmM")
    rtol = max(rtol, 100 * float(np.finfo(y.dtype).eps))
    return np.allclose(a, y, rtol, rtol * np.max(np.abs(a), where=np.isfinite(a), initial=1e-3), equal_nan=True)


def differing(name, statements, want, got, rtol=0.0):
    return [f"{name}: {ast.unparse(s)}: {a!r}, not {b!r}" for s, a, b in zip(statements, want, got) if not same(a, b, rtol)]


def test_plain_examples_give_what_numpy_gives():
    failed = [d for name, s in examples() for d in differing(name, s, run(s, np), run(s, Ours(np, fnp)))]
    assert not failed, "\n".join(failed)


def test_traced_examples_give_numpys_numbers_or_an_error_of_ours():
    failed, whole = [], 0
    for name, statements in examples():
        made, got = [], []

        def leaf(x, made=made):
            x = np.array(x, float if np.asarray(x).dtype.kind in "iu" else None)
            made.extend([x.copy()] * (x.dtype.kind in "fc"))
            return x

        def f(leaves, statements=statements, got=got):
            leaves = iter(leaves)
            got[:] = run(statements, Ours(np, fnp), lambda x: next(leaves) if np.asarray(ft.value(x)).dtype.kind in "iufc" else x)
            return 0.0

        want = run(statements, np, leaf)
        if made:
            ft.vjp(f, made)
            refused = [isinstance(x, errors.FunctraceError) or str(x).startswith("a traced value has no") for x in got]
            end = (*refused, True).index(True)  # what follows may need what was refused
            whole += end == len(got)
            failed += differing(name, statements[:end], want, got, 1e-9)
    assert not failed, "\n".join(failed)
    assert whole > 300
