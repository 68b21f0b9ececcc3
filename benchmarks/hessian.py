"""Hessian of a logistic regression: 50 features, 1000 rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import EAGER, FASTEST, HAND, JIT, OURS, Target, Workload, jax, namespace


def problem(rows: int, features: int) -> Any:
    rng = np.random.default_rng(0)
    return namespace(x=rng.normal(size=(rows, features)), y=rng.choice([-1.0, 1.0], rows), w=0.1 * rng.normal(size=features))


hessian = Workload(
    "hessian",
    "Hessian of logistic regression, 1000 rows",
    problem,
    {"50 features": {"rows": 1000, "features": 50}},
    [Target(FASTEST, 1.0)],
)
WORKLOADS = [hessian]


def loss(np: Any, p: Any, w: Any) -> Any:
    return np.mean(np.logaddexp(0.0, -p.y * (p.x @ w)))


@hessian.contestant(HAND, "NumPy by hand")
def by_hand(p: Any) -> Any:
    def run() -> Any:
        s = 1 / (1 + np.exp(-p.y * (p.x @ p.w)))
        return p.x.T @ ((s * (1 - s))[:, None] * p.x) / len(p.y)

    return run


@hessian.contestant(OURS, "functrace")
def functrace(p: Any) -> Any:
    import functrace as ft
    import functrace.numpy as fnp

    h = ft.hessian(lambda w: loss(fnp, p, w))
    return lambda: h(p.w)


def _pytorch(p: Any, make: Any) -> Any:
    import torch

    x, y, w = torch.tensor(p.x), torch.tensor(p.y), torch.tensor(p.w)

    def f(w: Any) -> Any:
        return torch.nn.functional.softplus(-y * (x @ w)).mean()

    run = make(torch, f)
    return lambda: run(w)


@hessian.contestant(EAGER, "PyTorch, torch.func.hessian")
def pytorch_func(p: Any) -> Any:
    return _pytorch(p, lambda torch, f: torch.func.hessian(f))


@hessian.contestant(EAGER, "PyTorch, autograd.functional")
def pytorch_functional(p: Any) -> Any:
    return _pytorch(p, lambda torch, f: lambda w: torch.autograd.functional.hessian(f, w))


@hessian.contestant(EAGER, "PyTorch, functional, vectorize")
def pytorch_vectorized(p: Any) -> Any:
    return _pytorch(p, lambda torch, f: lambda w: torch.autograd.functional.hessian(f, w, vectorize=True))


@hessian.contestant(EAGER, "autograd")
def hips(p: Any) -> Any:
    import autograd
    import autograd.numpy as anp

    h = autograd.hessian(lambda w: loss(anp, p, w))
    return lambda: h(p.w)


@hessian.contestant(EAGER, "JAX")
def jax_eager(p: Any) -> Any:
    return _jax(p, lambda f: f)


@hessian.contestant(JIT, "JAX jit")
def jax_jit(p: Any) -> Any:
    return _jax(p, jax().jit)


def _jax(p: Any, wrap: Any) -> Any:
    j = jax()
    x, y, w = (j.numpy.asarray(a) for a in (p.x, p.y, p.w))
    h = wrap(j.hessian(lambda w: j.numpy.mean(j.numpy.logaddexp(0.0, -y * (x @ w)))))
    return lambda: h(w).block_until_ready()
