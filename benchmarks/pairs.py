"""Gradient of a sum over all pairs of points in space, as of particles that repel each other: sum(exp(-|x_i - y_j|^2 / 2))."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import EAGER, FASTEST, HAND, JIT, OURS, Target, Workload, jax, namespace


def problem(n: int) -> Any:
    rng = np.random.default_rng(0)
    return namespace(x=rng.normal(size=(n, 3)), y=rng.normal(size=(n, 3)))


pairs = Workload(
    "pairs",
    "gradient of the sum of exp(-|x - y|^2 / 2) over all pairs, float64",
    problem,
    {"60 x 60": {"n": 60}, "1000 x 1000": {"n": 1000}},
    [Target(FASTEST, 1.0)],
    quick=("60 x 60",),
)
WORKLOADS = [pairs]


def energy(np: Any, x: Any, y: Any) -> Any:
    d = x[:, None, :] - y[None, :, :]
    return np.sum(np.exp(-0.5 * np.sum(d**2, axis=-1)))


@pairs.contestant(HAND, "NumPy by hand")
def by_hand(p: Any) -> Any:
    def run() -> Any:
        d = p.x[:, None, :] - p.y[None, :, :]
        g = -np.exp(-0.5 * np.sum(d**2, axis=-1))[:, :, None] * d
        return g.sum(axis=1), -g.sum(axis=0)

    return run


@pairs.contestant(OURS, "functrace")
def functrace(p: Any) -> Any:
    import functrace as ft
    import functrace.numpy as fnp

    g = ft.grad(lambda x, y: energy(fnp, x, y), (0, 1))
    return lambda: g(p.x, p.y)


@pairs.contestant(EAGER, "PyTorch")
def pytorch(p: Any) -> Any:
    import torch

    x, y = (torch.tensor(a, requires_grad=True) for a in (p.x, p.y))
    return lambda: torch.autograd.grad(energy(torch, x, y), (x, y))


@pairs.contestant(EAGER, "autograd")
def hips(p: Any) -> Any:
    import autograd
    import autograd.numpy as anp

    g = autograd.grad(lambda z: energy(anp, *z))
    return lambda: g((p.x, p.y))


@pairs.contestant(EAGER, "MyGrad")
def mygrad(p: Any) -> Any:
    import mygrad as mg

    def run() -> Any:
        x, y = mg.tensor(p.x), mg.tensor(p.y)
        energy(mg, x, y).backward()
        return x.grad, y.grad

    return run


@pairs.contestant(JIT, "JAX jit")
def jax_jit(p: Any) -> Any:
    j = jax()
    x, y = (j.numpy.asarray(a) for a in (p.x, p.y))
    g = j.jit(j.grad(lambda x, y: energy(j.numpy, x, y), (0, 1)))
    return lambda: j.block_until_ready(g(x, y))
