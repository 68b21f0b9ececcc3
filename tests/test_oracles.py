"""Against PyTorch and JAX, where they are installed: the same values and gradients on every function that is shared, but for what
docs/differences.md lists.

They are an extra (`pip install functrace[oracle]`), so a missing one skips its half; nothing else in the suite needs them. The calls
are the samples of the declarations, and those at kinks, ties and zeros in `tests/oracles.py`. What an oracle refuses is counted. JAX
takes longer to compile a call than all else takes, so it gets one or two calls of each function; FUNCTRACE_HYPOTHESIS=explore gives it
all of them, in some minutes.
"""

import os
import warnings
import zlib
from collections import Counter

import numpy as np
import pytest

import functrace as ft
from docs import support  # noqa: F401  (declares all that there is)
from docs.differences import DIFFERENT, NO_DERIVATIVE, NOT_COMPARED, PAGE, page
from functrace.ops.registry import TABLE, Sample
from tests.oracles import AGREED, KINKS, Case, Jax, Torch, away, complexes

ALL = os.environ.get("FUNCTRACE_HYPOTHESIS") == "explore"
COUNTED = ("functions", "calls", "agree", "agree in the value", "differ, as listed", "not taken")
TOTALS = {oracle: Counter[str]() for oracle in ("torch", "jax")}


def group(name):
    parts = name.split(".")
    return f"{name[:1]}" if len(parts) == 1 else ".".join(parts[:2]) if parts[0] == "scipy" else parts[0]


NAMES: dict[str, list[str]] = {}
for _name in TABLE:
    NAMES.setdefault(group(_name), []).append(_name)


@pytest.fixture(scope="module", autouse=True)
def totals(request):
    yield
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        for oracle, total in TOTALS.items():
            if total:
                print(f"\nUnder {oracle}: " + "; ".join(f"{total[what]:,} {what}" for what in COUNTED) + ".")


@pytest.fixture(scope="module")
def jax():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("jax", reason="JAX is an oracle only: pip install functrace[oracle]")
        module.config.update("jax_enable_x64", True)
        return Jax(module)


@pytest.fixture(scope="module")
def torch():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Torch(pytest.importorskip("torch", reason="PyTorch is an oracle only: pip install functrace[oracle]"))


class Function:
    """One function under one oracle: what its calls gave, counted."""

    def __init__(self, oracle, name):
        self.oracle, self.name, self.declared = oracle, name, TABLE[name]
        self.listed = {d.where: d.what for d in DIFFERENT if d.oracle == oracle.name and name in d.names.split()}
        self.counts, self.problems, self.seen = Counter(), [], set()

    @property
    def derived(self):
        """Whether a derivative was compared, or there is none to compare."""
        return self.counts["agree"] + self.counts["differ, as listed"] > 0

    def call(self, sample, what, *where, rtol=1e-9, atol=1e-9, agreed=()):
        """Compare one call, which may differ if that is listed for one of `where`."""
        args = sample.args(np.random.default_rng(zlib.crc32(what.encode())))
        where = ("", *where, *(["complex"] if any(np.dtype(getattr(args[k], "dtype", float)).kind == "c" for k in sample.wrt) else []))
        listed = None if agreed else next((w for w in where if w in self.listed), None)
        case = Case(self.declared, sample, args, *agreed)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                values, gradients = self.oracle.run(self.name, case)
        except self.oracle.refuses:
            self.counts["not taken"] += 1
            return
        self.counts["calls"] += 1
        problem = case.differs(values, gradients, rtol, atol)
        if problem and listed is not None and problem.startswith(("gradient", self.listed[listed])):
            self.counts["differ, as listed"] += 1
            self.seen.add(listed)
            if agree := AGREED.get(self.name) or AGREED.get((self.name, listed)):
                self.call(sample, f"{what}, as agreed", agreed=agree)
        elif problem:
            self.problems.append(f"{what} {sample.kwargs}: {problem}")
        elif gradients is not None or case.gradients is None:
            self.counts["agree"] += 1
        else:
            self.counts["agree in the value"] += 1
            for k in sample.wrt if len(sample.wrt) > 1 and self.name not in NO_DERIVATIVE[self.oracle.name].split() else ():
                self.call(sample._replace(wrt=(k,)), f"{what}, argument {k}", *where)


def check(oracle, name):
    """What is wrong with a function under an oracle that has it: a list of texts."""
    f = Function(oracle, name)
    elementwise = f.declared.domain is not None
    every = ALL or oracle.name == "torch"
    wanted = f.listed.keys() - {"points", "complex"}  # seen in the samples
    derived = name not in NO_DERIVATIVE[oracle.name].split()
    points = KINKS.get(name, ())
    samples = list(enumerate(f.declared.samples)) if every or not points or not (elementwise or name.startswith("scipy.stats.")) else []
    start = 0 if every else zlib.crc32(name.encode()) % max(len(samples), 1)
    for k, sample in samples[start:] + samples[:start]:
        f.call(sample, f"sample {k}", *sample.kwargs)
        if not every and wanted <= f.seen and (f.derived or f.counts["calls"] and not derived):
            break
    for sample in points:
        f.call(sample, "at points", "points")
        if "points" in f.listed and elementwise:
            f.call(away(sample), "away from kinks")
    for sample in complexes(f.declared) if every or "complex" in f.listed or elementwise and "." not in name else ():
        f.call(sample, "complex")
    TOTALS[oracle.name].update({"functions": 1, **f.counts})
    for where in f.listed.keys() - f.seen:
        f.problems.append(f"agrees, but is listed as different: {where or 'everywhere'}")
    if (not f.counts["calls"]) != (name in NOT_COMPARED[oracle.name]):
        f.problems.append("is listed as not compared" if f.counts["calls"] else "no call of ours is one of its, and the docs don't say why")
    if f.counts["calls"] and not f.problems and f.derived != derived:
        f.problems.append("has no derivative there, and the docs don't say so" if derived else "has a derivative there after all")
    return [f"{name}: {problem}" for problem in f.problems]


def sweep(oracle, names):
    problems = [p for name in names if oracle.find(name) is not None for p in check(oracle, name)]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("group", sorted(NAMES))
def test_jax(group, jax):
    sweep(jax, NAMES[group])


@pytest.mark.parametrize("group", sorted(NAMES))
def test_torch(group, torch):
    sweep(torch, NAMES[group])


# What the samples don't have: other precisions, and transforms of programs


LOW = pytest.mark.parametrize("dtype, rtol", [(np.float32, 1e-5), (np.float16, 5e-3), (np.complex64, 2e-5)])


def low_precision(oracle, dtype, rtol):
    problems = []
    for name in ("sin", "exp", "tanh", "sqrt", "log", "power", "divide", "multiply", "maximum", "hypot")[
        : 8 if dtype is np.complex64 else 10
    ]:
        args = [np.array([0.3, 0.7, 1.9]).astype(dtype), np.array([1.1, 0.4, 0.9]).astype(dtype)][: TABLE[name].primitive.arity]
        f = Function(oracle, name)
        f.call(Sample(lambda rng, args=args: tuple(args), wrt=tuple(range(len(args)))), name, rtol=rtol, atol=rtol)
        problems += f.problems + ([] if f.counts["agree"] else [f"{name} was not compared"])
        problems += [
            f"{name} has a gradient of {g.dtype}" for g in ft.vjp(TABLE[name].function, *args)[1](np.ones(3, dtype)) if g.dtype != dtype
        ]
    assert not problems, problems


@LOW
def test_low_precision_jax(dtype, rtol, jax):
    low_precision(jax, dtype, rtol)


@LOW
def test_low_precision_torch(dtype, rtol, torch):
    low_precision(torch, dtype, rtol)


X, W = np.random.default_rng(1).normal(size=3), np.random.default_rng(3).normal(size=(3, 3)) + 2 * np.eye(3)


def program(m, x, w):
    return m.sum(m.tanh(w @ x) ** 2) + m.prod(m.sin(x)) * m.sum(w[0] * x)


@pytest.mark.parametrize(
    "transformed",
    [
        lambda t, f: lambda x, w: t.hessian(f)(x, w),
        lambda t, f: lambda x, w: t.jvp(t.grad(f), (x, w), (w[0], w @ w))[1],
        lambda t, f: lambda x, w: t.vmap(t.grad(f, 1), (0, None))(w * 0.5, w),
        lambda t, f: lambda x, w: t.grad(lambda x: t.vmap(lambda y: f(x * y, w))(w[:2]).sum())(x),
    ],
    ids=["hessian", "jvp of grad", "vmap of grad", "grad of vmap"],
)
def test_transforms_jax(transformed, jax):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = jax.jax.jit(transformed(jax.jax, lambda x, w: program(jax.jax.numpy, x, w)))(X, W)
    np.testing.assert_allclose(transformed(ft, lambda x, w: program(np, x, w))(X, W), np.asarray(want), rtol=1e-9, atol=1e-11)


def test_transforms_torch(torch):
    t = torch.torch
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = t.func.hessian(lambda x: program(t, x, t.tensor(W)))(t.tensor(X))
    np.testing.assert_allclose(ft.hessian(lambda x: program(np, x, W))(X), want.numpy(), rtol=1e-9, atol=1e-11)


# The page


def test_every_listed_name_is_declared():
    listed = {name for d in DIFFERENT for name in d.names.split()} | {name for names in NO_DERIVATIVE.values() for name in names.split()}
    assert listed | {name for names in NOT_COMPARED.values() for name in names} <= set(TABLE)


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m docs.differences writes it"
