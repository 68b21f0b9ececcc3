"""A long chain of tiny ops: 100 times x = sin(x) * x + x, then sum. What is measured is overhead per op."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import EAGER, HAND, JIT, OURS, Target, Workload, jax, namespace

STEPS = 100


def problem(n: int) -> Any:
    return namespace(x=np.linspace(0.01, 0.02, n))


chain = Workload(
    "chain",
    "gradient of 100 x (x = sin(x) * x + x), then sum",
    problem,
    {"4 float64": {"n": 4}},
    [
        Target("PyTorch", 0.5),
        Target("autograd", 0.25),
        Target("PyTorch", 0.6, ours="functrace, np.sin"),
        Target("PyTorch", 1.2, ours="functrace.torch"),
    ],
)
WORKLOADS = [chain]


@chain.contestant(HAND, "NumPy by hand")
def by_hand(p: Any) -> Any:
    def run() -> Any:
        x, xs, sines = p.x, [], []
        for _ in range(STEPS):
            s = np.sin(x)
            xs.append(x)
            sines.append(s)
            x = s * x + x
        g = np.ones_like(x)
        for x, s in zip(reversed(xs), reversed(sines)):
            g = g * s + g * x * np.cos(x) + g
        return g

    return run


@chain.contestant(OURS, "functrace")
def functrace(p: Any) -> Any:
    import functrace as ft
    import functrace.numpy as fnp

    def f(x: Any) -> Any:
        for _ in range(STEPS):
            x = fnp.sin(x) * x + x
        return fnp.sum(x)

    g = ft.grad(f)
    return lambda: g(p.x)


@chain.contestant(OURS, "functrace, np.sin")
def functrace_plain(p: Any) -> Any:
    import functrace as ft

    def f(x: Any) -> Any:
        for _ in range(STEPS):
            x = np.sin(x) * x + x
        return np.sum(x)

    g = ft.grad(f)
    return lambda: g(p.x)


def backward(torch: Any, p: Any) -> Any:
    """The same text for PyTorch and for functrace.torch."""

    def run() -> Any:
        leaf = torch.tensor(p.x, requires_grad=True)
        x = leaf
        for _ in range(STEPS):
            x = torch.sin(x) * x + x
        x.sum().backward()
        return leaf.grad

    return run


@chain.contestant(OURS, "functrace.torch")
def functrace_torch(p: Any) -> Any:
    import functrace.torch

    return backward(functrace.torch, p)


@chain.contestant(EAGER, "PyTorch")
def pytorch(p: Any) -> Any:
    import torch

    return backward(torch, p)


@chain.contestant(EAGER, "PyTorch, torch.func.grad")
def pytorch_func(p: Any) -> Any:
    import torch

    def f(x: Any) -> Any:
        for _ in range(STEPS):
            x = torch.sin(x) * x + x
        return x.sum()

    g, x = torch.func.grad(f), torch.tensor(p.x)
    return lambda: g(x)


@chain.contestant(EAGER, "autograd")
def hips(p: Any) -> Any:
    import autograd.numpy as anp
    from autograd import grad

    def f(x: Any) -> Any:
        for _ in range(STEPS):
            x = anp.sin(x) * x + x
        return anp.sum(x)

    g = grad(f)
    return lambda: g(p.x)


@chain.contestant(EAGER, "MyGrad")
def mygrad(p: Any) -> Any:
    import mygrad as mg

    def run() -> Any:
        leaf = mg.tensor(p.x)
        x = leaf
        for _ in range(STEPS):
            x = mg.sin(x) * x + x
        x.sum().backward()
        return leaf.grad

    return run


def _jax(p: Any, wrap: Any) -> Any:
    jnp = jax().numpy

    def f(x: Any) -> Any:
        for _ in range(STEPS):
            x = jnp.sin(x) * x + x
        return jnp.sum(x)

    g, x = wrap(jax().grad(f)), jnp.asarray(p.x)
    return lambda: g(x).block_until_ready()


@chain.contestant(EAGER, "JAX")
def jax_eager(p: Any) -> Any:
    return _jax(p, lambda f: f)


@chain.contestant(JIT, "JAX jit")
def jax_jit(p: Any) -> Any:
    return _jax(p, jax().jit)
