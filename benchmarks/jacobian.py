"""A 100 x 100 Jacobian of an elementwise-and-matmul function, beside the central differences that it replaces."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import EAGER, FASTEST, HAND, JIT, OURS, Target, Workload, jax, namespace


def problem(n: int) -> Any:
    rng = np.random.default_rng(0)
    return namespace(a=rng.normal(0, n**-0.5, (n, n)), b=rng.normal(0, n**-0.5, (n, n)), x=rng.normal(size=n))


jacobian = Workload(
    "jacobian",
    "Jacobian of tanh(A x) * x + B sin(x)",
    problem,
    {"100 x 100": {"n": 100}},
    [Target("central differences", 1.0), Target("autograd", 1.0), Target(FASTEST, 1.0)],
)
WORKLOADS = [jacobian]


def f(np: Any, p: Any, x: Any) -> Any:
    return np.tanh(p.a @ x) * x + p.b @ np.sin(x)


@jacobian.contestant(HAND, "NumPy by hand")
def by_hand(p: Any) -> Any:
    def run() -> Any:
        t = np.tanh(p.a @ p.x)
        return p.a * ((1 - t * t) * p.x)[:, None] + np.diag(t) + p.b * np.cos(p.x)

    return run


@jacobian.contestant(HAND, "central differences")
def differences(p: Any) -> Any:
    def run() -> Any:
        h, out = 1e-6, np.empty((len(p.x), len(p.x)))
        for k in range(len(p.x)):
            left, right = p.x.copy(), p.x.copy()
            left[k] -= h
            right[k] += h
            out[:, k] = (f(np, p, right) - f(np, p, left)) / (2 * h)
        return out

    return run


@jacobian.contestant(OURS, "functrace")
def functrace(p: Any) -> Any:
    import functrace as ft
    import functrace.numpy as fnp

    j = ft.jacobian(lambda x: f(fnp, p, x))
    return lambda: j(p.x)


@jacobian.contestant(OURS, "functrace, jacrev")
def functrace_jacrev(p: Any) -> Any:
    import functrace as ft
    import functrace.numpy as fnp

    j = ft.jacrev(lambda x: f(fnp, p, x))
    return lambda: j(p.x)


@jacobian.contestant(EAGER, "autograd")
def hips(p: Any) -> Any:
    import autograd
    import autograd.numpy as anp

    j = autograd.jacobian(lambda x: f(anp, p, x))
    return lambda: j(p.x)


def _pytorch(p: Any, make: Any) -> Any:
    import torch

    data, x = namespace(a=torch.tensor(p.a), b=torch.tensor(p.b)), torch.tensor(p.x)
    run = make(torch, lambda x: f(torch, data, x))
    return lambda: run(x)


@jacobian.contestant(EAGER, "PyTorch, torch.func.jacrev")
def pytorch_jacrev(p: Any) -> Any:
    return _pytorch(p, lambda torch, f: torch.func.jacrev(f))


@jacobian.contestant(EAGER, "PyTorch, torch.func.jacfwd")
def pytorch_jacfwd(p: Any) -> Any:
    return _pytorch(p, lambda torch, f: torch.func.jacfwd(f))


@jacobian.contestant(EAGER, "PyTorch, autograd.functional")
def pytorch_functional(p: Any) -> Any:
    return _pytorch(p, lambda torch, f: lambda x: torch.autograd.functional.jacobian(f, x))


@jacobian.contestant(JIT, "JAX jit")
def jax_jit(p: Any) -> Any:
    j = jax()
    data, x = namespace(a=j.numpy.asarray(p.a), b=j.numpy.asarray(p.b)), j.numpy.asarray(p.x)
    run = j.jit(j.jacobian(lambda x: f(j.numpy, data, x)))
    return lambda: run(x).block_until_ready()
