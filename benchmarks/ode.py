"""Fit of a differential equation: the gradient of a sum of squares through the steps of a Runge-Kutta method, on two numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import EAGER, HAND, JIT, OURS, Target, Workload, jax, namespace

H = 0.02


def problem(steps: int) -> Any:
    times = H * np.arange(1, steps + 1)
    data = np.stack([2 + np.sin(times), 1 + np.cos(times)], axis=1)
    return namespace(rates=np.array([1.1, 0.4, 0.4, 0.1]), start=np.array([2.0, 1.0]), data=data, steps=steps)


ode = Workload(
    "jit, ode",
    "gradient of a fit of prey and predators, 500 steps of a Runge-Kutta method of order 4, float64",
    problem,
    {"500 steps": {"steps": 500}},
    [Target("NumPy by hand", 0.2), Target("JAX jit", 1.5), Target("PyTorch", 0.01)],
)
WORKLOADS = [ode]


def slope(np: Any, rates: Any, y: Any) -> Any:
    return np.stack([rates[0] * y[0] - rates[1] * y[0] * y[1], rates[3] * y[0] * y[1] - rates[2] * y[1]])


def step(np: Any, rates: Any, y: Any) -> Any:
    a = slope(np, rates, y)
    b = slope(np, rates, y + H / 2 * a)
    c = slope(np, rates, y + H / 2 * b)
    d = slope(np, rates, y + H * c)
    return y + H / 6 * (a + 2 * b + 2 * c + d)


def misfit(scan: Any, np: Any, p: Any, rates: Any, start: Any) -> Any:
    def body(y: Any, seen: Any) -> Any:
        y = step(np, rates, y)
        return y, np.sum((y - seen) ** 2)

    return np.sum(scan(body, start, p.data)[1])


def pulled_slope(rates: Any, y: Any, g: Any, g_rates: Any) -> Any:
    """The cotangent of `y` of a slope; that of the rates is added."""
    both = y[0] * y[1]
    g_rates += np.array([g[0] * y[0], -g[0] * both, -g[1] * y[1], g[1] * both])
    jacobian = np.array([[rates[0] - rates[1] * y[1], -rates[1] * y[0]], [rates[3] * y[1], rates[3] * y[0] - rates[2]]])
    return g @ jacobian


@ode.contestant(HAND, "NumPy by hand")
def by_hand(p: Any) -> Any:
    def run() -> Any:
        y, kept = p.start, []
        for _ in range(p.steps):
            a = slope(np, p.rates, y)
            y_b = y + H / 2 * a
            b = slope(np, p.rates, y_b)
            y_c = y + H / 2 * b
            c = slope(np, p.rates, y_c)
            y_d = y + H * c
            kept.append((y, y_b, y_c, y_d))
            y = y + H / 6 * (a + 2 * b + 2 * c + slope(np, p.rates, y_d))
        after = [*(k[0] for k in kept[1:]), y]
        g, g_rates = np.zeros(2), np.zeros(4)
        for seen, new, (y, y_b, y_c, y_d) in zip(p.data[::-1], after[::-1], kept[::-1]):
            g = g + 2 * (new - seen)
            g_d = pulled_slope(p.rates, y_d, H / 6 * g, g_rates)
            g_c = pulled_slope(p.rates, y_c, H / 3 * g + H * g_d, g_rates)
            g_b = pulled_slope(p.rates, y_b, H / 3 * g + H / 2 * g_c, g_rates)
            g_a = pulled_slope(p.rates, y, H / 6 * g + H / 2 * g_b, g_rates)
            g = g + g_a + g_b + g_c + g_d
        return g_rates, g

    return run


@ode.contestant(OURS, "functrace")
def functrace(p: Any) -> Any:
    import functrace as ft
    import functrace.numpy as fnp

    g = ft.jit(ft.grad(lambda rates, start: misfit(ft.scan, fnp, p, rates, start), (0, 1)))
    return lambda: g(p.rates, p.start)


@ode.contestant(EAGER, "PyTorch")
def pytorch(p: Any) -> Any:
    import torch

    rates, start = (torch.tensor(a, requires_grad=True) for a in (p.rates, p.start))
    data = torch.tensor(p.data)

    def run() -> Any:
        y, total = start, torch.zeros((), dtype=torch.float64)
        for seen in data:
            y = step(torch, rates, y)
            total = total + torch.sum((y - seen) ** 2)
        return torch.autograd.grad(total, (rates, start))

    return run


@ode.contestant(JIT, "JAX jit")
def jax_jit(p: Any) -> Any:
    j = jax()
    rates, start = (j.numpy.asarray(a) for a in (p.rates, p.start))
    g = j.jit(j.grad(lambda rates, start: misfit(j.lax.scan, j.numpy, p, rates, start), (0, 1)))
    return lambda: j.block_until_ready(g(rates, start))
