"""A small gradient, as an optimiser of a few parameters asks for: sum(sin(x) * x + exp(-x)) with 3 elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import EAGER, FASTEST, HAND, JIT, OURS, Target, Workload, jax, namespace


def problem(n: int) -> Any:
    return namespace(x=np.linspace(0.5, 1.5, n))


small = Workload(
    "small",
    "gradient of sum(sin(x) * x + exp(-x))",
    problem,
    {"3 float64": {"n": 3}},
    [Target("autograd", 0.6), Target(FASTEST, 1.0)],
)
WORKLOADS = [small]


def f(np: Any, x: Any) -> Any:
    return np.sum(np.sin(x) * x + np.exp(-x))


@small.contestant(HAND, "NumPy by hand")
def by_hand(p: Any) -> Any:
    return lambda: np.cos(p.x) * p.x + np.sin(p.x) - np.exp(-p.x)


@small.contestant(OURS, "functrace")
def functrace(p: Any) -> Any:
    import functrace as ft
    import functrace.numpy as fnp

    g = ft.grad(lambda x: f(fnp, x))
    return lambda: g(p.x)


@small.contestant(OURS, "functrace, np.sin")
def functrace_plain(p: Any) -> Any:
    import functrace as ft

    g = ft.grad(lambda x: f(np, x))
    return lambda: g(p.x)


@small.contestant(EAGER, "PyTorch")
def pytorch(p: Any) -> Any:
    import torch

    def run() -> Any:
        x = torch.tensor(p.x, requires_grad=True)
        (torch.sin(x) * x + torch.exp(-x)).sum().backward()
        return x.grad

    return run


@small.contestant(EAGER, "autograd")
def hips(p: Any) -> Any:
    import autograd.numpy as anp
    from autograd import grad

    g = grad(lambda x: f(anp, x))
    return lambda: g(p.x)


@small.contestant(EAGER, "MyGrad")
def mygrad(p: Any) -> Any:
    import mygrad as mg

    def run() -> Any:
        x = mg.tensor(p.x)
        f(mg, x).backward()
        return x.grad

    return run


@small.contestant(EAGER, "JAX")
def jax_eager(p: Any) -> Any:
    jnp = jax().numpy
    g, x = jax().grad(lambda x: f(jnp, x)), jnp.asarray(p.x)
    return lambda: g(x).block_until_ready()


@small.contestant(JIT, "JAX jit")
def jax_jit(p: Any) -> Any:
    jnp = jax().numpy
    g, x = jax().jit(jax().grad(lambda x: f(jnp, x))), jnp.asarray(p.x)
    return lambda: g(x).block_until_ready()
