"""Small gradients, as an optimiser of a few parameters asks for: sum(sin(x) * x + exp(-x)) with 3 elements, and a tiny network."""

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


# a network whose parameters are a dict


def points(n: int) -> Any:
    rng = np.random.default_rng(0)
    params = {"a": np.zeros(8), "b": np.zeros(1), "v": rng.normal(size=(2, 8)), "w": rng.normal(size=(8, 1))}
    return namespace(params=params, x=rng.normal(size=(n, 2)), y=rng.normal(size=(n, 1)))


tiny = Workload("tiny", "value_and_grad of 2-8-1, relu, squared error", points, {"16 points, float64": {"n": 16}}, [Target(FASTEST, 1.0)])
WORKLOADS = [small, tiny]


def error(np: Any, params: Any, p: Any) -> Any:
    h = np.maximum(p.x @ params["v"] + params["a"], 0)
    return np.mean((h @ params["w"] + params["b"] - p.y) ** 2)


@tiny.contestant(HAND, "NumPy by hand")
def tiny_by_hand(p: Any) -> Any:
    def run() -> Any:
        w = p.params["w"]
        h = np.maximum(p.x @ p.params["v"] + p.params["a"], 0)
        e = h @ w + p.params["b"] - p.y
        g = 2 * e / e.size
        s = (g @ w.T) * (h > 0)
        return np.mean(e**2), {"a": s.sum(axis=0), "b": g.sum(axis=0), "v": p.x.T @ s, "w": h.T @ g}

    return run


@tiny.contestant(OURS, "functrace")
def tiny_functrace(p: Any) -> Any:
    import functrace as ft

    g = ft.value_and_grad(lambda params: error(np, params, p))
    return lambda: g(p.params)


@tiny.contestant(EAGER, "PyTorch")
def tiny_pytorch(p: Any) -> Any:
    import torch

    params = {k: torch.tensor(x, requires_grad=True) for k, x in p.params.items()}
    x, y = torch.tensor(p.x), torch.tensor(p.y)

    def run() -> Any:
        h = torch.relu(x @ params["v"] + params["a"])
        value = ((h @ params["w"] + params["b"] - y) ** 2).mean()
        return value, dict(zip(params, torch.autograd.grad(value, list(params.values()))))

    return run


@tiny.contestant(EAGER, "autograd")
def tiny_hips(p: Any) -> Any:
    import autograd.numpy as anp
    from autograd import value_and_grad

    g = value_and_grad(lambda params: error(anp, params, p))
    return lambda: g(p.params)


@tiny.contestant(EAGER, "MyGrad")
def tiny_mygrad(p: Any) -> Any:
    import mygrad as mg

    def run() -> Any:
        params = {k: mg.tensor(x) for k, x in p.params.items()}
        value = error(mg, params, p)
        value.backward()
        return value.data, {k: x.grad for k, x in params.items()}

    return run


@tiny.contestant(JIT, "JAX jit")
def tiny_jax_jit(p: Any) -> Any:
    jnp = jax().numpy
    g = jax().jit(jax().value_and_grad(lambda params: error(jnp, params, p)))
    return lambda: jax().block_until_ready(g(p.params))
