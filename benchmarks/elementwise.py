"""Gradient of an elementwise expression of large arrays: sum((tanh(x) exp(-x^2) + log(1 + x^2))^2), some 30 NumPy calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import EAGER, FASTEST, HAND, JIT, OURS, Target, Workload, jax, namespace


def problem(n: int, dtype: str) -> Any:
    return namespace(x=np.linspace(-2, 2, n, dtype=dtype))


elementwise = Workload(
    "elementwise",
    "gradient of sum((tanh(x) exp(-x^2) + log(1 + x^2))^2)",
    problem,
    {
        "1e4 float64": {"n": 10**4, "dtype": "float64"},
        "1e6 float32": {"n": 10**6, "dtype": "float32"},
        "1e6 float64": {"n": 10**6, "dtype": "float64"},
        "1e7 float64": {"n": 10**7, "dtype": "float64"},
    },
    [Target(FASTEST, 1.0), Target("NumPy by hand", 1.5)],
    quick=("1e4 float64", "1e6 float64"),
    rtol=1e-4,
)
WORKLOADS = [elementwise]


def f(np: Any, x: Any) -> Any:
    y = np.tanh(x) * np.exp(-x * x) + np.log(1 + x * x)
    return np.sum(y * y)


@elementwise.contestant(HAND, "NumPy by hand")
def by_hand(p: Any) -> Any:
    def run() -> Any:
        x = p.x
        x2 = x * x
        t, e, one = np.tanh(x), np.exp(-x2), 1 + x2
        g = 2 * (t * e + np.log(one))
        return g * ((1 - t * t) * e - 2 * x * t * e + 2 * x / one)

    return run


@elementwise.contestant(OURS, "functrace")
def functrace(p: Any) -> Any:
    import functrace as ft
    import functrace.numpy as fnp

    g = ft.grad(lambda x: f(fnp, x))
    return lambda: g(p.x)


@elementwise.contestant(EAGER, "PyTorch")
def pytorch(p: Any) -> Any:
    import torch

    x = torch.tensor(p.x, requires_grad=True)
    return lambda: torch.autograd.grad(f(torch, x), x)


@elementwise.contestant(EAGER, "autograd")
def hips(p: Any) -> Any:
    import autograd.numpy as anp
    from autograd import grad

    g = grad(lambda x: f(anp, x))
    return lambda: g(p.x)


@elementwise.contestant(EAGER, "MyGrad")
def mygrad(p: Any) -> Any:
    import mygrad as mg

    def run() -> Any:
        x = mg.tensor(p.x)
        f(mg, x).backward()
        return x.grad

    return run


@elementwise.contestant(JIT, "JAX jit")
def jax_jit(p: Any) -> Any:
    j = jax()
    g, x = j.jit(j.grad(lambda x: f(j.numpy, x))), j.numpy.asarray(p.x)
    return lambda: g(x).block_until_ready()
